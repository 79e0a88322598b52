//! Elements in sequence.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::{Arrival, Decision, Ecn, Header, Outcome, PathElement};

/// Packets pass the elements in turn; each element receives the packets that the one before it releases, at
/// their departure.
///
/// A chain of elements that decide at arrival and preserve the order decides at arrival too: a later stage
/// then cannot be reached out of turn. Any other chain answers [`Outcome::Queued`] and keeps a calendar of
/// events.
pub struct Chain {
    elements: Vec<Box<dyn PathElement + Send>>,
    immediate: bool,
    calendar: Calendar,
    /// For each element, the packets that it has queued, by its own number for them.
    waiting: Vec<HashMap<u64, InTransit>>,
    decided: Vec<Decision>,
    arrivals: u64,
    now_ns: i64,
}

/// A packet in transit between two elements.
#[derive(Debug, Clone, Copy)]
struct InTransit {
    packet: u64,
    bytes: u32,
    header: Header,
    marked: bool,
}

/// Future arrivals at the elements, in order of time and, at the same time, of scheduling.
#[derive(Default)]
struct Calendar {
    heap: BinaryHeap<Reverse<(i64, u64)>>,
    entries: HashMap<u64, (usize, InTransit)>,
    scheduled: u64,
}

impl Calendar {
    fn push(&mut self, time_ns: i64, stage: usize, item: InTransit) {
        self.heap.push(Reverse((time_ns, self.scheduled)));
        self.entries.insert(self.scheduled, (stage, item));
        self.scheduled += 1;
    }

    fn next_ns(&self) -> Option<i64> {
        self.heap.peek().map(|&Reverse((time_ns, _))| time_ns)
    }

    fn pop(&mut self) -> Option<(i64, usize, InTransit)> {
        let Reverse((time_ns, number)) = self.heap.pop()?;
        let (stage, item) = self.entries.remove(&number)?;
        Some((time_ns, stage, item))
    }
}

impl Chain {
    /// Elements in the order in which packets meet them. An empty chain lets every packet pass at once.
    pub fn new(elements: Vec<Box<dyn PathElement + Send>>) -> Self {
        // The last element may reorder: no later one could see the difference.
        let before_last = elements.len().saturating_sub(1);
        let immediate = elements.iter().all(|e| e.decides_at_arrival())
            && elements.iter().take(before_last).all(|e| e.keeps_order());
        let waiting = elements.iter().map(|_| HashMap::new()).collect();
        Self {
            elements,
            immediate,
            calendar: Calendar::default(),
            waiting,
            decided: Vec::new(),
            arrivals: 0,
            now_ns: i64::MIN,
        }
    }

    fn pass_at_once(&mut self, mut packet: Arrival, mut header: Header) -> Outcome {
        let mut marked = false;
        for element in &mut self.elements {
            let outcome = element.arrive_with(packet, header);
            if matches!(outcome, Outcome::Marked { .. }) {
                marked = true;
                header.ecn = Ecn::Ce;
            }
            match outcome.departure_ns() {
                Some(time_ns) => packet.time_ns = time_ns,
                None => return outcome,
            }
        }
        Outcome::leaves(packet.time_ns, marked)
    }

    /// Process everything that is due up to and including `now_ns`.
    fn advance(&mut self, now_ns: i64) {
        loop {
            let of_element = (self.elements.iter().enumerate())
                .filter_map(|(stage, element)| Some((element.next_event_ns()?, stage)))
                .min();
            let of_calendar = self.calendar.next_ns();
            // At equal times an element first decides pending packets, then receives the next one.
            match (of_element, of_calendar) {
                (Some((time_ns, stage)), other)
                    if time_ns <= now_ns && other.is_none_or(|o| time_ns <= o) =>
                {
                    self.collect(stage, time_ns);
                }
                (_, Some(time_ns)) if time_ns <= now_ns => {
                    if let Some((time_ns, stage, item)) = self.calendar.pop() {
                        self.offer(stage, time_ns, item);
                    }
                }
                _ => return,
            }
        }
    }

    /// Fetch an element's decisions and forward the packets that they release.
    fn collect(&mut self, stage: usize, time_ns: i64) {
        let mut decided = Vec::new();
        self.elements[stage].poll(time_ns, &mut decided);
        for decision in decided {
            if let Some(item) = self.waiting[stage].remove(&decision.packet) {
                self.forward(stage, decision.time_ns, item, decision.outcome);
            }
        }
    }

    fn offer(&mut self, stage: usize, time_ns: i64, item: InTransit) {
        let packet = Arrival {
            time_ns,
            bytes: item.bytes,
        };
        let outcome = self.elements[stage].arrive_with(packet, item.header);
        match outcome {
            Outcome::Queued { packet } => _ = self.waiting[stage].insert(packet, item),
            outcome => self.forward(stage, time_ns, item, outcome),
        }
    }

    fn forward(&mut self, stage: usize, now_ns: i64, mut item: InTransit, outcome: Outcome) {
        if matches!(outcome, Outcome::Marked { .. }) {
            item.marked = true;
            item.header.ecn = Ecn::Ce;
        }
        let decision = match outcome.departure_ns() {
            Some(time_ns) if stage + 1 < self.elements.len() => {
                return self.calendar.push(time_ns, stage + 1, item);
            }
            Some(time_ns) => Outcome::leaves(time_ns, item.marked),
            None => outcome,
        };
        self.decided.push(Decision {
            packet: item.packet,
            time_ns: now_ns,
            outcome: decision,
        });
    }
}

impl PathElement for Chain {
    fn arrive(&mut self, packet: Arrival) -> Outcome {
        self.arrive_with(packet, Header::default())
    }

    fn arrive_with(&mut self, packet: Arrival, header: Header) -> Outcome {
        if self.immediate {
            return self.pass_at_once(packet, header);
        }
        self.now_ns = self.now_ns.max(packet.time_ns);
        self.advance(self.now_ns);
        let item = InTransit {
            packet: self.arrivals,
            bytes: packet.bytes,
            header,
            marked: false,
        };
        self.arrivals += 1;
        self.offer(0, self.now_ns, item);
        Outcome::Queued {
            packet: item.packet,
        }
    }

    fn reset(&mut self) {
        let mut elements = std::mem::take(&mut self.elements);
        elements.iter_mut().for_each(|element| element.reset());
        *self = Self::new(elements);
    }

    fn next_event_ns(&self) -> Option<i64> {
        if !self.decided.is_empty() {
            return Some(self.now_ns);
        }
        let of_elements = self
            .elements
            .iter()
            .filter_map(|element| element.next_event_ns());
        of_elements.chain(self.calendar.next_ns()).min()
    }

    fn poll(&mut self, now_ns: i64, decided: &mut Vec<Decision>) {
        if self.immediate {
            return;
        }
        self.now_ns = self.now_ns.max(now_ns);
        self.advance(self.now_ns);
        decided.append(&mut self.decided);
    }

    /// Of the first element with a level.
    fn level_bytes_at(&mut self, time_ns: i64) -> f64 {
        let mut levels = (self.elements.iter_mut()).map(|element| element.level_bytes_at(time_ns));
        levels.find(|level| !level.is_nan()).unwrap_or(f64::NAN)
    }

    fn decides_at_arrival(&self) -> bool {
        self.immediate
    }

    fn keeps_order(&self) -> bool {
        self.elements.iter().all(|element| element.keeps_order())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CoDel, Delay, Fifo, Jitter, Limit, Policer, Shaper, replay};

    fn burst(packets: usize) -> Vec<Arrival> {
        vec![
            Arrival {
                time_ns: 0,
                bytes: 1_500
            };
            packets
        ]
    }

    fn departures_ms(chain: &mut Chain, arrivals: &[Arrival]) -> Vec<Option<f64>> {
        let ms = |outcome: Outcome| outcome.departure_ns().map(|ns| ns as f64 / 1e6);
        replay(chain, arrivals).into_iter().map(ms).collect()
    }

    #[test]
    fn a_policer_behind_a_shaper_sees_the_shaped_times() {
        // The shaper spreads four packets over 0, 1, 2, 3 ms. The policer holds one, refilled at 6 Mbit/s in 2 ms.
        let shaper = Shaper::new(12_000_000, 1_500, Limit::NONE);
        let policer = Policer::new(6_000_000, 1_500);
        let mut chain = Chain::new(vec![Box::new(shaper), Box::new(policer)]);
        assert!(chain.decides_at_arrival());
        assert_eq!(
            departures_ms(&mut chain, &burst(4)),
            [Some(0.0), None, Some(2.0), None]
        );
    }

    #[test]
    fn a_shaper_behind_a_policer_never_sees_dropped_packets() {
        let policer = Policer::new(6_000_000, 3_000);
        let shaper = Shaper::new(12_000_000, 1_500, Limit::NONE);
        let mut chain = Chain::new(vec![Box::new(policer), Box::new(shaper)]);
        assert_eq!(
            departures_ms(&mut chain, &burst(4)),
            [Some(0.0), Some(1.0), None, None]
        );
    }

    #[test]
    fn a_chain_with_a_calendar_gives_what_the_immediate_one_gives() {
        let arrivals: Vec<Arrival> = (0..300i64)
            .map(|i| Arrival {
                time_ns: i / 3 * 700_000 + i % 7,
                bytes: 100 + (i as u32 * 37) % 1_400,
            })
            .collect();
        let parts = || -> Vec<Box<dyn PathElement + Send>> {
            vec![
                Box::new(Shaper::new(9_000_000, 6_000, Limit::packets(20))),
                Box::new(Delay::new(3_000_000)),
                Box::new(Policer::new(7_000_000, 9_000)),
                Box::new(Fifo::new(8_000_000, Limit::bytes(4_000))),
            ]
        };
        let expected = replay(&mut Chain::new(parts()), &arrivals);
        assert!(expected.iter().any(|o| o.is_dropped()));
        let mut with_calendar = Chain::new(parts());
        with_calendar.immediate = false;
        assert_eq!(replay(&mut with_calendar, &arrivals), expected);
        assert_eq!(
            replay(&mut with_calendar, &arrivals),
            expected,
            "also after a reset"
        );
    }

    #[test]
    fn behind_a_reordering_stage_packets_are_served_in_their_new_order() {
        let jitter = Jitter::new(0, 50_000_000, 5).reordering();
        let fifo = Fifo::new(12_000_000, Limit::NONE);
        let mut chain = Chain::new(vec![Box::new(jitter.clone()), Box::new(fifo)]);
        assert!(!chain.decides_at_arrival() && !chain.keeps_order());
        let arrivals = burst(20);
        let mut reached: Vec<i64> = replay(&mut jitter.clone(), &arrivals)
            .iter()
            .filter_map(|o| o.departure_ns())
            .collect();
        reached.sort_unstable();
        let mut departed: Vec<i64> = replay(&mut chain, &arrivals)
            .iter()
            .filter_map(|o| o.departure_ns())
            .collect();
        departed.sort_unstable();
        // Work-conserving: each leaves 1 ms after it arrived or after the one before left, whichever is
        // later.
        let mut free_ns = 0;
        let expected: Vec<i64> = reached
            .iter()
            .map(|&time_ns| {
                free_ns = free_ns.max(time_ns) + 1_000_000;
                free_ns
            })
            .collect();
        assert_eq!(departed, expected);
    }

    #[test]
    fn an_element_that_decides_late_can_stand_anywhere() {
        let parts: Vec<Box<dyn PathElement + Send>> = vec![
            Box::new(Delay::new(1_000_000)),
            Box::new(CoDel::new(12_000_000, Limit::packets(1_000))),
            Box::new(Policer::new(1_000_000_000, 1_000_000)),
        ];
        let outcomes = replay(&mut Chain::new(parts), &burst(10));
        let ms: Vec<Option<i64>> = outcomes
            .iter()
            .map(|o| o.departure_ns().map(|ns| ns / 1_000_000))
            .collect();
        assert_eq!(
            ms,
            (2..12).map(Some).collect::<Vec<_>>(),
            "1 ms of delay, then 1 ms each"
        );
    }

    #[test]
    fn no_elements_let_everything_pass() {
        let outcomes = replay(&mut Chain::new(Vec::new()), &burst(1));
        assert_eq!(outcomes, [Outcome::Departs { time_ns: 0 }]);
    }
}
