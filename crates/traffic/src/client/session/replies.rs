//! Handling of the responder's replies on the control channel.

use std::io;
use std::net::Shutdown;
use std::time::Duration;

use crate::channel::Reader;
use crate::client::words::{check_description, one_line};
use crate::clock;
use crate::message::{Reply, Report};
use crate::sample::{Ending, Exchange};
use crate::udp;

use super::{ECHO_EVERY, HostSession, SILENCE, lock};

impl HostSession {
    /// Receives replies until the channel ends.
    pub(super) fn receive_replies(&self, mut reader: Reader) {
        lock(&self.life).heard();
        loop {
            match reader.receive::<Reply>(ECHO_EVERY) {
                Ok(Some(reply)) => {
                    lock(&self.life).heard();
                    self.apply(reply);
                }
                Ok(None) if lock(&self.life).silence_ns() > SILENCE.as_nanos() as i64 => {
                    return self.lose(&silent(SILENCE));
                }
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return self.distrust(&error.to_string());
                }
                Err(error) => return self.lose(&explained(error).to_string()),
            }
            if self.known().finished {
                return;
            }
        }
    }

    pub(super) fn apply(&self, reply: Reply) {
        let applied = match reply {
            Reply::Echo { sent_ns, far_ns } => self.apply_echo(sent_ns, far_ns),
            Reply::Report(report) => self.apply_report(report),
            Reply::Description(_) if self.known().metadata.is_some() => {
                Err("a second description of itself".to_owned())
            }
            Reply::Description(text) => {
                let checked = check_description(&text);
                checked.map(|()| self.update(|known| known.metadata = Some(text)))
            }
            Reply::Arrivals { flow, ranges } => {
                let checked = lock(&self.expected).check_arrivals(flow, &ranges);
                checked.map(|()| {
                    self.update(|known| {
                        known.arrivals.insert(flow, ranges);
                    });
                })
            }
            Reply::Finished if !self.known().finishing => {
                Err("an end of its reports, though it was not asked to finish".to_owned())
            }
            Reply::Finished => {
                self.update(|known| known.finished = true);
                Ok(())
            }
            Reply::Ended(reason) => {
                self.lose(&ended(&reason));
                Ok(())
            }
            Reply::Accepted { .. } | Reply::Refused(_) => {
                Err("a second answer to the plan".to_owned())
            }
        };
        if let Err(what) = applied {
            self.distrust(&what);
        }
    }

    fn apply_echo(&self, sent_ns: i64, far_ns: i64) -> Result<(), String> {
        lock(&self.expected).check_echo(sent_ns, far_ns)?;
        // The control channel compares the clocks only where UDP cannot, because its packets queue behind data.
        if self.known().without_udp.is_some() {
            let exchange = Exchange {
                sent_ns,
                far_received_ns: far_ns,
                far_sent_ns: far_ns,
                received_ns: clock::now_ns(),
            };
            self.near.with(|samples| samples.exchanges.push(exchange));
        }
        Ok(())
    }

    /// Stores a report if everything in it was expected.
    fn apply_report(&self, report: Report) -> Result<(), String> {
        lock(&self.expected).check(&report, self.asked.elapsed())?;
        self.apply_endings(report.endings);
        let of_host = report.facts.iter();
        let of_host = of_host.filter(|(flow, key, _)| {
            *flow == udp::SYNCHRONISATION_FLOW && key == udp::troubles::KEY
        });
        for (_, _, fact) in of_host {
            let mut troubles = udp::troubles::parse(fact);
            self.known().troubles.append(&mut troubles);
        }
        self.far.with(|samples| {
            samples.intervals.extend(report.intervals);
            samples.tcp.extend(report.tcp);
            samples.bursts.extend(report.bursts);
            samples.departures.extend(report.departures);
            // Without the facts about the exchanges of timestamps.
            let facts = report.facts.into_iter();
            let facts = facts.filter(|(flow, ..)| self.flows.contains(flow));
            let facts = facts.map(|(flow, key, value)| (flow, key.into(), value));
            samples.facts.extend(facts);
        });
        Ok(())
    }

    /// Registers how flows ended at the far end. A flow that failed there is stopped here.
    fn apply_endings(&self, endings: Vec<(u32, Ending)>) {
        for (flow, ending) in endings {
            let ending = match ending {
                Ending::Failed(reason) => Ending::Failed(one_line(&reason)),
                other => other,
            };
            let failed = matches!(ending, Ending::Failed(_));
            if failed && self.known().closed.contains(&flow) {
                continue;
            }
            self.known().endings.insert(flow, ending);
            if failed && let Some(stream) = self.connections().get(&flow) {
                // Fails if the connection is gone, which has the same effect.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// Ends the session because the responder sent something invalid. Earlier reports are kept, but all flows of the
    /// session fail, even those that look complete from this end.
    pub(super) fn distrust(&self, what: &str) {
        let reason = format!("{}: {}", self.name, impossible(what));
        self.update(|known| {
            known.lost.get_or_insert(reason.clone());
            self.fail_flows(known);
        });
        self.lose(&reason);
        if let Some(stream) = &self.stream {
            // Fails if the connection is gone, which has the same effect.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Awaits the answer to the plan: the number of the session.
///
/// # Errors
/// Why the responder does not accept the plan, or what it sent instead of an answer.
pub(super) fn accepted(reader: &mut Reader) -> io::Result<u64> {
    match reader.receive(SILENCE).map_err(explained)? {
        Some(Reply::Accepted { session }) => Ok(session),
        Some(Reply::Refused(reason)) => Err(refused(format!(
            "the responder refuses: {}",
            one_line(&reason)
        ))),
        Some(Reply::Ended(reason)) => Err(refused(ended(&reason))),
        Some(_) => Err(refused(impossible(
            "something else than the answer to the plan",
        ))),
        None => Err(io::Error::new(io::ErrorKind::TimedOut, silent(SILENCE))),
    }
}

/// Describes an error of the control channel.
pub(super) fn explained(error: io::Error) -> io::Error {
    let what = match error.kind() {
        io::ErrorKind::InvalidData => impossible(&error.to_string()),
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => {
            "the responder closed the connection: it was stopped or killed".to_owned()
        }
        _ => format!("the connection to the responder broke: {error}"),
    };
    io::Error::new(error.kind(), what)
}

pub(super) fn silent(patience: Duration) -> String {
    format!("no answer from the responder for {} s", patience.as_secs())
}

fn ended(reason: &str) -> String {
    format!("the responder ended the session: {}", one_line(reason))
}

fn impossible(what: &str) -> String {
    format!("the responder sent {what}: it is faulty, or another program impersonates it")
}

fn refused(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}
