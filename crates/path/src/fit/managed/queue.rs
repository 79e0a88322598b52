//! A queue as two points show it: its state at the arrival of each packet and at its turn.

use super::Seeing;
use crate::fit::level::Server;
use crate::fit::passage::Passages;
use crate::fit::trace::Seen;

/// A packet in its queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub arrival_s: f64,
    /// Its turn: the start of its transmission, or when it would have been.
    pub turn_s: f64,
    /// 0 for a dropped packet.
    pub service_s: f64,
    /// Bytes queued behind it at its turn, in its queue and in all, and packets before it at its arrival.
    pub behind_bytes: f64,
    pub behind_in_all_bytes: f64,
    pub before: u32,
    /// Dropped or marked.
    pub chosen: bool,
    /// True if its outcome is unknown.
    pub hidden: bool,
}

impl Item {
    pub fn wait_s(&self) -> f64 {
        self.turn_s - self.arrival_s
    }
}

/// Packets in order of arrival.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    pub items: Vec<Item>,
}

/// Enough drops and marks for any conclusion; and the most packets, since more take too long.
const ENOUGH_EVENTS: usize = 400;
const MOST_PACKETS: usize = 200_000;

impl Queue {
    /// All packets in one queue, or each flow in its own.
    pub fn of(passages: &Passages, seeing: Seeing) -> Vec<Self> {
        let packets = looked_at(passages);
        let mut members: Vec<Vec<usize>> = Vec::new();
        for index in 0..packets {
            let own = if seeing.isolated {
                passages.flow[index] as usize
            } else {
                0
            };
            if members.len() <= own {
                members.resize(own + 1, Vec::new());
            }
            members[own].push(index);
        }
        let bytes_of = |members: &Vec<usize>| -> Vec<f64> {
            let bytes = members.iter().map(|index| passages.bytes[*index]);
            bytes.map(f64::from).collect()
        };
        let bytes: Vec<Vec<f64>> = members.iter().map(bytes_of).collect();
        let empty_s = (0..packets).map(|index| before_service_s(passages, index, seeing));
        let empty_s = empty_s.fold(f64::INFINITY, f64::min);
        let mut queues: Vec<Self> = members
            .iter()
            .map(|members| Self::of_members(passages, members, seeing, empty_s))
            .collect();
        for (queue, bytes) in queues.iter_mut().zip(&bytes) {
            queue.count(bytes);
        }
        count_in_all(&mut queues, &bytes);
        queues
    }

    fn of_members(passages: &Passages, members: &[usize], seeing: Seeing, empty_s: f64) -> Self {
        let seen_turns_s = turns_s(passages, members, seeing, empty_s);
        let next_turns_s = next_seen(passages, members, &seen_turns_s);
        let mut server = Server::IDLE;
        let item = |(place, (index, seen_turn_s)): (usize, (&usize, &f64))| {
            let index = *index;
            let arrival_s = passages.arrival_s[index];
            let lost = passages.outcome[index] == Seen::Lost;
            let chosen = lost || passages.marked[index];
            let turn_s = if seen_turn_s.is_nan() {
                let free_s = server.start_s(arrival_s);
                // other queues may have their turns first; a packet behind it is sent instead
                let (next_arrival_s, next_turn_s) = next_turns_s[place];
                if lost && next_arrival_s <= free_s {
                    free_s.max(next_turn_s)
                } else {
                    free_s
                }
            } else {
                *seen_turn_s
            };
            let service_s = if lost {
                0.0
            } else {
                service_s(passages, index, seeing)
            };
            server.free_s = turn_s + service_s;
            Item {
                arrival_s,
                turn_s,
                service_s,
                behind_bytes: 0.0,
                behind_in_all_bytes: 0.0,
                before: 0,
                chosen,
                hidden: passages.outcome[index] == Seen::Unknown && !chosen,
            }
        };
        Self {
            items: (members.iter().zip(&seen_turns_s).enumerate())
                .map(item)
                .collect(),
        }
    }

    pub fn events(&self) -> usize {
        self.items.iter().filter(|item| item.chosen).count()
    }

    pub fn packets(&self) -> usize {
        self.items.iter().filter(|item| !item.hidden).count()
    }

    /// Each packet with the time since the one before, or the start.
    pub fn arrivals(&self) -> impl Iterator<Item = (f64, &Item)> {
        let mut last_s = 0.0;
        let items = self.items.iter();
        items.map(move |item| {
            let gap_s = item.arrival_s - std::mem::replace(&mut last_s, item.arrival_s);
            (gap_s, item)
        })
    }

    /// Counts packets before and bytes behind each item. A packet dropped on arrival was never before
    /// another; laws that use the bytes behind drop at the head, and until its turn the packet was there.
    fn count(&mut self, bytes: &[f64]) {
        let (mut come, mut come_bytes, mut gone_bytes) = (0, 0.0, 0.0);
        let (mut first_inside, mut inside) = (0, 0);
        // a dropped packet takes no room
        let takes_room = |item: &Item| item.service_s > 0.0;
        for index in 0..self.items.len() {
            let item = self.items[index];
            while come < self.items.len() && self.items[come].arrival_s <= item.turn_s {
                come_bytes += bytes[come];
                come += 1;
            }
            while first_inside < index && self.items[first_inside].turn_s <= item.arrival_s {
                inside -= u32::from(takes_room(&self.items[first_inside]));
                first_inside += 1;
            }
            self.items[index].before = inside;
            gone_bytes += bytes[index];
            inside += u32::from(takes_room(&item));
            self.items[index].behind_bytes = (come_bytes - gone_bytes).max(0.0);
        }
    }

    /// The delay that a controller uses at `due_s`: that of the head, or of the packet that arrived then.
    pub fn looked_at(&self, due_s: f64, from: &mut usize, by_head: bool) -> f64 {
        if by_head {
            while *from < self.items.len() && self.items[*from].turn_s <= due_s {
                *from += 1;
            }
            let first = self.items.get(*from);
            return first.map_or(0.0, |first| (due_s - first.arrival_s).max(0.0));
        }
        while *from + 1 < self.items.len() && self.items[*from + 1].arrival_s <= due_s {
            *from += 1;
        }
        let last = &self.items[*from];
        (last.turn_s + last.service_s - due_s).max(0.0)
    }
}

/// Number of packets to evaluate, from the first.
fn looked_at(passages: &Passages) -> usize {
    let most = passages.len().min(MOST_PACKETS);
    let is_event =
        |index: &usize| passages.outcome[*index] == Seen::Lost || passages.marked[*index];
    let last = (0..most).filter(is_event).nth(ENOUGH_EVENTS - 1);
    last.map_or(most, |last| last + 1)
}

/// Transmission time of a packet, seconds.
fn service_s(passages: &Passages, index: usize, seeing: Seeing) -> f64 {
    f64::from(passages.bytes[index]) * 8.0 / seeing.rate_bps
}

/// Queueing delay of a packet without its transmission time, which its transit time includes and a small
/// packet's hardly; NaN if unknown.
fn before_service_s(passages: &Passages, index: usize, seeing: Seeing) -> f64 {
    passages.wait_s[index] - service_s(passages, index, seeing)
}

/// Turn of each member of a queue; NaN if unknown. Packets that find the queue empty wait for `empty_s`
/// before they are sent. An acknowledgment may be late, never early: a packet further back with a known
/// departure left later.
fn turns_s(passages: &Passages, members: &[usize], seeing: Seeing, empty_s: f64) -> Vec<f64> {
    let turn_s = |index: &usize| {
        let wait_s = before_service_s(passages, *index, seeing) - empty_s;
        // NaN stays NaN
        passages.arrival_s[*index] + wait_s.clamp(0.0, f64::MAX)
    };
    let mut turns_s: Vec<f64> = members.iter().map(turn_s).collect();
    if seeing.by_acknowledgments {
        let mut gone_s = f64::INFINITY;
        for (turn_s, index) in turns_s.iter_mut().zip(members).rev() {
            // min ignores NaN
            gone_s = gone_s.min(*turn_s);
            if !turn_s.is_nan() {
                *turn_s = gone_s.max(passages.arrival_s[*index]);
            }
        }
    }
    turns_s
}

/// Arrival and turn of the first packet behind each member with a known turn; infinite if there is none, or
/// if an unknown one comes before it.
fn next_seen(passages: &Passages, members: &[usize], turns_s: &[f64]) -> Vec<(f64, f64)> {
    const NONE: (f64, f64) = (f64::INFINITY, f64::INFINITY);
    let mut next = NONE;
    let mut behind: Vec<(f64, f64)> = (members.iter().zip(turns_s).rev())
        .map(|(index, turn_s)| {
            let found = next;
            if !turn_s.is_nan() {
                next = (passages.arrival_s[*index], *turn_s);
            } else if passages.outcome[*index] != Seen::Lost {
                next = NONE;
            }
            found
        })
        .collect();
    behind.reverse();
    behind
}

/// Count the bytes waiting in all queues at the turn of each packet, without itself.
fn count_in_all(queues: &mut [Queue], bytes: &[Vec<f64>]) {
    let every = |time_s: fn(&Item) -> f64| {
        let of = |(queue, bytes): (&Queue, &Vec<f64>)| -> Vec<(f64, f64)> {
            let times_s = queue.items.iter().map(time_s);
            times_s.zip(bytes.iter().copied()).collect()
        };
        let mut found: Vec<(f64, f64)> = queues.iter().zip(bytes).flat_map(of).collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0.0;
        for one in &mut found {
            sum += one.1;
            one.1 = sum;
        }
        found
    };
    let (come, gone) = (every(|item| item.arrival_s), every(|item| item.turn_s));
    let by = |counted: &[(f64, f64)], time_s: f64| {
        let number = counted.partition_point(|one| one.0 <= time_s);
        number.checked_sub(1).map_or(0.0, |last| counted[last].1)
    };
    for item in queues.iter_mut().flat_map(|queue| &mut queue.items) {
        item.behind_in_all_bytes = (by(&come, item.turn_s) - by(&gone, item.turn_s)).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::passage::Passage;

    #[test]
    fn a_drop_at_the_head_is_decided_when_the_next_of_its_flow_is_sent() {
        // a full packet takes a millisecond: the flows take turns
        let passage = |arrival_us: i64, flow: u32, sent_us: Option<i64>| Passage {
            arrival_ns: arrival_us * 1_000,
            bytes: 1_500,
            outcome: sent_us.map_or(Seen::Lost, |_| Seen::Passed),
            transit_ns: sent_us.map(|sent_us| (sent_us + 1_000 - arrival_us) * 1_000),
            flow,
            marked: false,
        };
        let passages = Passages::new(vec![
            passage(0, 0, Some(0)),
            passage(50, 1, Some(1_000)),
            passage(60, 1, Some(3_000)),
            passage(100, 0, Some(2_000)),
            passage(200, 0, None),
            passage(300, 0, Some(4_000)),
        ]);
        let seeing = Seeing {
            rate_bps: 12e6,
            noise_s: 1e-6,
            isolated: true,
            by_acknowledgments: false,
        };
        let queues = Queue::of(&passages, seeing);
        let items = &queues[0].items;
        assert!((items[2].turn_s - 4e-3).abs() < 1e-9, "{items:?}");
        // it was behind another one until then, and before none
        assert_eq!((items[1].behind_bytes, items[3].before), (3_000.0, 1));
    }
}
