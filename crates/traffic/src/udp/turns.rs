//! Sending of each probe on time. On a busy host several threads wait for each deadline, and the first to wake sends
//! the probe.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::Sender;

use crate::clock;
use crate::pace;

use super::schedule::Schedule;

/// Builds probes and sends them.
pub(crate) trait Emitter {
    /// Prepares the next packet, with its sequence and timestamp.
    fn prepare(&mut self, sequence: u64, sent_ns: i64);
    /// Sends the prepared packet.
    fn emit(&mut self) -> io::Result<()>;
}

/// Messages from a sending thread to the receiving thread.
pub(crate) enum Sent {
    /// The next probe was due; `None`: it was too late to be sent.
    Due(i64, Option<i64>),
    /// This probe could not be sent after all.
    Refused(u64, io::Error),
}

/// State that the sending threads share.
pub(crate) struct Turns<'a> {
    /// When the first probe is due.
    due_ns: i64,
    /// The longest delay: a later probe is not sent.
    most_overdue_ns: i64,
    next: Mutex<Turn<'a>>,
}

struct Turn<'a> {
    sequence: u64,
    emitter: &'a mut (dyn Emitter + Send),
    sender: Sender<Sent>,
}

impl<'a> Turns<'a> {
    pub(crate) fn new(
        emitter: &'a mut (dyn Emitter + Send),
        sender: Sender<Sent>,
        due_ns: i64,
        most_overdue_ns: i64,
    ) -> Turns<'a> {
        let next = Mutex::new(Turn {
            sequence: 0,
            emitter,
            sender,
        });
        Turns {
            due_ns,
            most_overdue_ns,
            next,
        }
    }

    /// Sends all probes of the schedule, each once and in order, or until `goes_on` returns false; from this thread and
    /// from one more on each of the processors `rivals`.
    pub(crate) fn send_all(
        &self,
        schedule: &Schedule,
        rivals: &[usize],
        goes_on: &(dyn Fn() -> bool + Sync),
    ) {
        std::thread::scope(|scope| {
            for &processor in rivals {
                scope.spawn(move || {
                    pace::prioritise();
                    pace::stay_on(processor);
                    self.send(schedule, goes_on);
                });
            }
            self.send(schedule, goes_on);
        });
    }

    fn send(&self, schedule: &Schedule, goes_on: &dyn Fn() -> bool) {
        let mut sequence = 0;
        while let Some(after_ns) = schedule.at_ns(sequence) {
            let due_ns = self.due_ns.saturating_add(after_ns);
            if !pace::wait(due_ns, goes_on) {
                return;
            }
            let Ok(mut next) = self.next.lock() else {
                return;
            };
            if next.sequence == sequence {
                next.take(due_ns, self.most_overdue_ns);
            }
            sequence = next.sequence;
        }
    }
}

impl Turn<'_> {
    /// Sends the probe that is due at this time, or skips it.
    fn take(&mut self, due_ns: i64, most_overdue_ns: i64) {
        let sequence = self.sequence;
        self.sequence += 1;
        let now_ns = clock::now_ns();
        if now_ns - due_ns > most_overdue_ns {
            let _ = self.sender.send(Sent::Due(due_ns, None));
            return;
        }
        self.emitter.prepare(sequence, now_ns);
        // Reported before sending, so that no answer can arrive before the message.
        let _ = self.sender.send(Sent::Due(due_ns, Some(now_ns)));
        if let Err(error) = emit(self.emitter) {
            let _ = self.sender.send(Sent::Refused(sequence, error));
        }
    }
}

fn emit(emitter: &mut dyn Emitter) -> io::Result<()> {
    match emitter.emit() {
        // The error belongs to an earlier probe; this one was not tried.
        Err(error) if error.raw_os_error() == Some(libc::ECONNREFUSED) => emitter.emit(),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::flow::{Direction, FlowSpec, Kind};

    #[derive(Default)]
    struct Noted {
        prepared: Vec<u64>,
        emitted: usize,
    }

    impl Emitter for Noted {
        fn prepare(&mut self, sequence: u64, _sent_ns: i64) {
            self.prepared.push(sequence);
        }

        fn emit(&mut self) -> io::Result<()> {
            self.emitted += 1;
            Ok(())
        }
    }

    /// Sends probes at intervals of 1 ms, the first due in `due_in_ns`; returns the packets emitted and the messages.
    fn sent(due_in_ns: i64, probes: u64, most_overdue_ns: i64) -> (Noted, Vec<Sent>) {
        let schedule = Schedule::of(&FlowSpec {
            interval_s: 0.001,
            duration_s: Some(probes as f64 / 1000.0),
            ..FlowSpec::new(1, Kind::Probe, Direction::Up)
        })
        .unwrap();
        let (sender, messages) = mpsc::channel();
        let mut noted = Noted::default();
        let turns = Turns::new(
            &mut noted,
            sender,
            clock::now_ns() + due_in_ns,
            most_overdue_ns,
        );
        turns.send_all(&schedule, &pace::some_processors(3, 8), &|| true);
        drop(turns);
        (noted, messages.iter().collect())
    }

    #[test]
    fn rivals_send_each_probe_once_in_order_and_not_before_its_time() {
        let (noted, messages) = sent(1_000_000, 100, i64::MAX);
        assert_eq!(noted.prepared, (0..100).collect::<Vec<u64>>());
        assert_eq!((noted.emitted, messages.len()), (100, 100));
        for sent in messages {
            assert!(matches!(sent, Sent::Due(due_ns, Some(sent_ns)) if sent_ns >= due_ns));
        }
    }

    #[test]
    fn an_overdue_probe_is_skipped_once_by_whichever_thread() {
        let (noted, messages) = sent(-10_000_000_000, 100, 1_000_000_000);
        assert_eq!(noted.emitted, 0);
        assert!(
            messages
                .iter()
                .all(|sent| matches!(sent, Sent::Due(_, None)))
        );
        assert_eq!(messages.len(), 100);
    }

    #[test]
    fn several_processors_are_found_only_where_there_are_several() {
        let all = pace::some_processors(0, usize::MAX);
        assert_ne!(all.len(), 1);
        for first in 0..all.len() {
            let two = pace::some_processors(first, 2);
            assert!(two.iter().all(|processor| all.contains(processor)));
            assert!(two.len() < 2 || two[0] != two[1]);
        }
    }
}
