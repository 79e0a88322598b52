//! One direction of a path: its elements, and the packets on it.

use std::collections::HashMap;

use serde::Serialize;
use whydrop_network::Calendar;
use whydrop_path::{Arrival, Decision, Outcome, PathElement};

use crate::frame;

/// More packets than any path contains that a test would be run over: a second of 10 Gbit/s.
const MOST_PACKETS: usize = 1_000_000;

type Element = Box<dyn PathElement + Send>;

/// The fates of the packets of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub arrived: u64,
    pub delivered: u64,
    /// By the path.
    pub dropped: u64,
    /// Congestion Experienced was set by the path.
    pub marked: u64,
    /// By the emulator, not by the path: it could not follow.
    pub lost_by_emulator: u64,
}

/// The elements of one direction, driven by a clock: as in a simulation, an element receives packets with the time of
/// their arrival, and makes the decisions that are due. Packets with a departure wait for it here.
///
/// It does no input or output. Times are nanoseconds of any clock that never decreases; the elements count them from the
/// first packet.
pub struct Direction {
    element: Element,
    first_ns: Option<i64>,
    packets: Slots,
    /// The packets that the element has queued, by its own numbers.
    queued: HashMap<u64, usize>,
    departures: Calendar<usize>,
    decided: Vec<Decision>,
    pub counts: Counts,
}

/// A packet that is due. [`Direction::sent`] ends its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    pub due_ns: i64,
    slot: usize,
}

impl Direction {
    pub fn new(element: Element) -> Self {
        Self {
            element,
            first_ns: None,
            packets: Slots::default(),
            queued: HashMap::new(),
            departures: Calendar::default(),
            decided: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Receives a frame. Frames without an IP packet do not take part.
    pub fn arrive(&mut self, now_ns: i64, bytes: &[u8]) {
        let Some((ip_bytes, header)) = frame::read(bytes) else {
            return;
        };
        self.counts.arrived += 1;
        let Some(slot) = self.packets.put(bytes) else {
            self.counts.lost_by_emulator += 1;
            return;
        };
        let first_ns = *self.first_ns.get_or_insert(now_ns);
        let arrival = Arrival {
            time_ns: now_ns - first_ns,
            bytes: ip_bytes,
        };
        match self.element.arrive_with(arrival, header) {
            Outcome::Queued { packet } => _ = self.queued.insert(packet, slot),
            outcome => self.leave(slot, outcome),
        }
    }

    /// Makes the decisions that are due.
    pub fn poll(&mut self, now_ns: i64) {
        let Some(first_ns) = self.first_ns else {
            return;
        };
        let now_ns = now_ns - first_ns;
        if self.element.next_event_ns().is_none_or(|due| due > now_ns) {
            return;
        }
        let mut decided = std::mem::take(&mut self.decided);
        self.element.poll(now_ns, &mut decided);
        for decision in decided.drain(..) {
            if let Some(slot) = self.queued.remove(&decision.packet) {
                self.leave(slot, decision.outcome);
            }
        }
        self.decided = decided;
    }

    fn leave(&mut self, slot: usize, outcome: Outcome) {
        if matches!(outcome, Outcome::Marked { .. }) {
            self.counts.marked += 1;
            frame::mark(self.packets.get_mut(slot));
        }
        match outcome.departure_ns() {
            Some(time_ns) => {
                let first_ns = self.first_ns.unwrap_or_default();
                self.departures.at(time_ns.saturating_add(first_ns), slot);
            }
            None => {
                self.counts.dropped += 1;
                self.packets.free(slot);
            }
        }
    }

    /// When it next has to decide or to send, if no packet arrives before.
    pub fn next_ns(&self) -> Option<i64> {
        let first_ns = self.first_ns?;
        let decision_ns = (self.element.next_event_ns()).map(|ns| ns.saturating_add(first_ns));
        (decision_ns.into_iter().chain(self.departures.next_ns())).min()
    }

    /// The next packet that is due.
    pub fn due(&mut self, now_ns: i64) -> Option<Departure> {
        if self.departures.next_ns()? > now_ns {
            return None;
        }
        let (due_ns, slot) = self.departures.pop()?;
        Some(Departure { due_ns, slot })
    }

    pub fn frame(&self, departure: Departure) -> &[u8] {
        self.packets.get(departure.slot)
    }

    /// Ends the life of a packet, which the kernel took or refused.
    pub fn sent(&mut self, departure: Departure, is_delivered: bool) {
        match is_delivered {
            true => self.counts.delivered += 1,
            false => self.counts.lost_by_emulator += 1,
        }
        self.packets.free(departure.slot);
    }
}

/// The bytes of packets; room is used again.
#[derive(Default)]
struct Slots {
    frames: Vec<Vec<u8>>,
    free: Vec<usize>,
}

impl Slots {
    fn put(&mut self, frame: &[u8]) -> Option<usize> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.frames.len() < MOST_PACKETS => {
                self.frames.push(Vec::with_capacity(frame.len()));
                self.frames.len() - 1
            }
            None => return None,
        };
        let room = &mut self.frames[slot];
        room.clear();
        room.extend_from_slice(frame);
        Some(slot)
    }

    fn get(&self, slot: usize) -> &[u8] {
        &self.frames[slot]
    }

    fn get_mut(&mut self, slot: usize) -> &mut [u8] {
        &mut self.frames[slot]
    }

    fn free(&mut self, slot: usize) {
        self.free.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use whydrop_path::{PathSpec, replay_with};

    use super::*;

    /// A UDP packet in IPv6 of this length, ECN-capable, with a number in its last bytes.
    fn packet(ip_bytes: usize, number: u32) -> Vec<u8> {
        let mut frame = vec![0; frame::ETHERNET_BYTES + ip_bytes];
        frame[12..16].copy_from_slice(&[0x86, 0xDD, 0x60, 0x20]);
        frame[20] = 17;
        let end = frame.len();
        frame[end - 4..].copy_from_slice(&number.to_be_bytes());
        frame
    }

    fn direction(path: &str) -> Direction {
        Direction::new(path.parse::<PathSpec>().unwrap().build(7).unwrap())
    }

    /// Runs arrivals (time, length) through a direction that is looked at every `step_ns`; (number, departure, marked).
    fn run(path: &str, arrivals: &[(i64, usize)], step_ns: i64) -> (Vec<(u32, i64, bool)>, Counts) {
        const FIRST_NS: i64 = 5_000_000_000;
        let mut direction = direction(path);
        let (mut found, mut next, mut now_ns) = (Vec::new(), 0, 0);
        while next < arrivals.len() || direction.next_ns().is_some() {
            while next < arrivals.len() && arrivals[next].0 <= now_ns {
                let (time_ns, bytes) = arrivals[next];
                direction.arrive(FIRST_NS + time_ns, &packet(bytes, next as u32));
                next += 1;
            }
            direction.poll(FIRST_NS + now_ns);
            while let Some(departure) = direction.due(FIRST_NS + now_ns) {
                let frame = direction.frame(departure);
                let number = frame[frame.len() - 4..].try_into().unwrap();
                let marked = frame[15] & 0x30 == 0x30;
                found.push((
                    u32::from_be_bytes(number),
                    departure.due_ns - FIRST_NS,
                    marked,
                ));
                direction.sent(departure, true);
            }
            now_ns += step_ns;
        }
        (found, direction.counts)
    }

    fn bursts() -> Vec<(i64, usize)> {
        let packet = |number: i64| (number / 40 * 20_000_000 + number % 40 * 20_000, 1_400);
        (0..600).map(packet).collect()
    }

    /// Every element gives in real time, looked at late, what it gives in a replay.
    #[test]
    fn lateness_of_the_emulator_does_not_change_decisions() {
        for path in [
            "policer:rate=20M,burst=30kB",
            "fifo:rate=20M,limit=20packets",
            "shaper:rate=20M,burst=10kB,limit=50kB+delay:time=3ms",
            "codel:rate=20M,limit=100packets,target=1ms,interval=10ms,marks",
            "fq-codel:rate=20M,limit=100packets,target=1ms,interval=10ms",
            "pie:rate=20M,limit=100packets,marks",
            "fifo:rate=20M,limit=20packets+jitter:low=0ms,high=9ms,reorders",
            "random-loss:probability=10%+line:rate=100M",
            "outage:from=41ms,until=90ms",
        ] {
            let mut element = path.parse::<PathSpec>().unwrap().build(7).unwrap();
            let arrivals = bursts();
            let replayed: Vec<_> = (arrivals.iter().enumerate())
                .map(|(number, &(time_ns, bytes))| {
                    let (bytes, header) = frame::read(&packet(bytes, number as u32)).unwrap();
                    (Arrival { time_ns, bytes }, header)
                })
                .collect();
            let outcomes = replay_with(&mut element, &replayed);
            let mut expected: Vec<_> = (outcomes.iter().enumerate())
                .filter_map(|(number, outcome)| {
                    let marked = matches!(outcome, Outcome::Marked { .. });
                    Some((number as u32, outcome.departure_ns()?, marked))
                })
                .collect();
            expected.sort_by_key(|&(number, time_ns, _)| (time_ns, number));
            for step_ns in [1_000, 300_000] {
                let (mut found, counts) = run(path, &arrivals, step_ns);
                found.sort_by_key(|&(number, time_ns, _)| (time_ns, number));
                assert_eq!(found, expected, "{path} looked at every {step_ns} ns");
                let dropped = arrivals.len() - expected.len();
                assert_eq!(counts.dropped, dropped as u64, "{path}");
                assert_eq!(counts.delivered, expected.len() as u64, "{path}");
            }
        }
    }

    #[test]
    fn the_bytes_of_a_packet_pass_untouched() {
        let mut direction = direction("delay:time=1ms");
        let frame = packet(700, 5);
        direction.arrive(10, &frame);
        assert_eq!(direction.next_ns(), Some(1_000_010));
        assert_eq!(direction.due(1_000_009), None);
        let departure = direction.due(1_000_010).unwrap();
        assert_eq!(direction.frame(departure), frame);
    }

    #[test]
    fn frames_without_an_ip_packet_do_not_take_part() {
        let mut direction = direction("delay:time=1ms");
        direction.arrive(10, &[0; 60]);
        assert_eq!(
            (direction.next_ns(), direction.counts),
            (None, Counts::default())
        );
    }
}
