//! Drops counted by what they have in common, and retransmissions laid to those that made them needed.
//!
//! Memory is bounded whatever comes: of each interval so many different ends are kept, what has others is counted without
//! them; of the drops of TCP's data so many wait for their retransmission, the oldest give way.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use crate::packet::{Packet, Protocol, Span};

/// Rows of drops of one interval with their ends; others are counted by reason, place, protocol and interface.
const MOST_ENDS: usize = 64;
/// Rows of one interval in all. Reasons and places are the kernel's, interfaces may be many.
const MOST_ROWS: usize = 1024;
/// Drops that may still be the reason of a retransmission.
const MOST_WAITING: usize = 65_536;
/// After so long TCP has given up (RFC 9293, section 3.8.3: at least 100 s; Linux: 15 retransmissions, some 15 min).
const LONGEST_WAIT_NS: i64 = 1_000_000_000_000;

/// Source and destination.
pub type Ends = (SocketAddr, SocketAddr);

/// The fields that drops of one row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    pub reason: u32,
    /// An address in the kernel's function that dropped it.
    pub location: u64,
    pub protocol: Protocol,
    /// Index of the interface; 0: none, or not known.
    pub interface: u32,
    /// Of the interface by which it came; 0: it was made here.
    pub arrived_by: u32,
    /// True if it is known to be of the namespace of the watch.
    pub here: bool,
    pub ends: Option<Ends>,
}

/// How many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

/// A segment that was sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    pub time_ns: i64,
    pub ends: Ends,
    pub span: Span,
}

/// Segments sent again in one interval, of one connection, for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Laid {
    pub ends: Ends,
    /// Reason and place of the drop here that made it needed; `None`: not known.
    pub drop: Option<(u32, u64)>,
}

/// One interval's counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    pub drops: HashMap<Kind, Count>,
    pub sent_again: HashMap<Laid, Count>,
}

/// The counts of the interval that runs, and the drops that wait.
#[derive(Debug, Default)]
pub struct Tally {
    interval: Interval,
    ends: usize,
    waiting: HashMap<Ends, VecDeque<Waiting>>,
    /// The order in which they came, to forget the oldest.
    order: VecDeque<(i64, Ends)>,
}

#[derive(Clone, Debug)]
struct Waiting {
    time_ns: i64,
    /// Bytes that have not been sent again.
    left: Vec<Span>,
    drop: (u32, u64),
}

impl Tally {
    /// Counts a drop. The packet's bytes of TCP's stream are kept until they are sent again.
    pub fn dropped(&mut self, time_ns: i64, mut kind: Kind, bytes: u64, packet: &Packet) {
        if let (true, Some(ends), Some(span)) = (kind.here, packet.ends, packet.span)
            && span.first != span.end
        {
            self.wait(time_ns, ends, span, (kind.reason, kind.location));
        }
        kind.ends = packet.ends;
        self.count(kind, bytes);
    }

    /// Counts a drop of whose packet nothing is known, or which nobody had the time to look at.
    pub fn count(&mut self, mut kind: Kind, bytes: u64) {
        let drops = &mut self.interval.drops;
        if kind.ends.is_some() && !drops.contains_key(&kind) {
            if self.ends < MOST_ENDS {
                self.ends += 1;
            } else {
                kind.ends = None;
            }
        }
        if drops.len() >= MOST_ROWS && !drops.contains_key(&kind) {
            kind.interface = 0;
            kind.arrived_by = 0;
            kind.ends = None;
        }
        add(drops.entry(kind).or_default(), bytes);
    }

    /// Counts a segment that was sent again, and lays it to the drop that made it needed: one before it, of the same
    /// connection and direction, of bytes that it has. Bytes are sent again for one drop once: another retransmission of
    /// them has another reason.
    pub fn sent_again(&mut self, again: Again) {
        let span = again.span;
        let mut drop = None;
        if let Some(waiting) = self.waiting.get_mut(&again.ends) {
            for one in waiting.iter_mut().filter(|one| one.time_ns < again.time_ns) {
                if one.take(span) {
                    drop = Some(one.drop);
                }
            }
            waiting.retain(|one| !one.left.is_empty());
            if waiting.is_empty() {
                self.waiting.remove(&again.ends);
            }
        }
        let laid = Laid {
            ends: again.ends,
            drop,
        };
        let rows = &mut self.interval.sent_again;
        if rows.len() < MOST_ROWS || rows.contains_key(&laid) {
            add(
                rows.entry(laid).or_default(),
                u64::from(span.end.wrapping_sub(span.first)),
            );
        }
    }

    /// Ends the interval.
    pub fn take(&mut self) -> Interval {
        self.ends = 0;
        std::mem::take(&mut self.interval)
    }

    fn wait(&mut self, time_ns: i64, ends: Ends, span: Span, drop: (u32, u64)) {
        self.waiting.entry(ends).or_default().push_back(Waiting {
            time_ns,
            left: vec![span],
            drop,
        });
        self.order.push_back((time_ns, ends));
        while let Some((oldest_ns, ends)) = self.order.front().copied()
            && (self.order.len() > MOST_WAITING || time_ns - oldest_ns > LONGEST_WAIT_NS)
        {
            self.order.pop_front();
            if let Some(waiting) = self.waiting.get_mut(&ends) {
                waiting.retain(|one| one.time_ns > oldest_ns);
                if waiting.is_empty() {
                    self.waiting.remove(&ends);
                }
            }
        }
    }
}

impl Waiting {
    /// Takes out the bytes that are in `span`; whether there were any.
    fn take(&mut self, span: Span) -> bool {
        let mut left = Vec::new();
        let mut taken = false;
        for piece in &self.left {
            if before(span.first, piece.end) && before(piece.first, span.end) {
                taken = true;
                if before(piece.first, span.first) {
                    left.push(Span {
                        first: piece.first,
                        end: span.first,
                    });
                }
                if before(span.end, piece.end) {
                    left.push(Span {
                        first: span.end,
                        end: piece.end,
                    });
                }
            } else {
                left.push(*piece);
            }
        }
        self.left = left;
        taken
    }
}

/// True if a sequence number is before another (RFC 9293, section 3.4: modulo 2^32).
fn before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

fn add(count: &mut Count, bytes: u64) {
    count.packets += 1;
    count.bytes += bytes;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(port: u16) -> Ends {
        (
            SocketAddr::from(([192, 0, 2, 1], port)),
            SocketAddr::from(([198, 51, 100, 7], 443)),
        )
    }

    fn kind(reason: u32) -> Kind {
        Kind {
            reason,
            location: 0x100,
            protocol: Protocol::InIp(6),
            interface: 2,
            arrived_by: 0,
            here: true,
            ends: None,
        }
    }

    fn packet(port: u16, first: u32, end: u32) -> Packet {
        Packet {
            protocol: Protocol::InIp(6),
            ends: Some(ends(port)),
            span: Some(Span { first, end }),
        }
    }

    fn again(time_ns: i64, port: u16, first: u32, end: u32) -> Again {
        Again {
            time_ns,
            ends: ends(port),
            span: Span { first, end },
        }
    }

    /// Segments sent again by whether they were laid to a drop here.
    fn laid(tally: &mut Tally) -> (u64, u64) {
        let mut found = (0, 0);
        for (row, count) in tally.take().sent_again {
            *(if row.drop.is_some() {
                &mut found.0
            } else {
                &mut found.1
            }) += count.packets;
        }
        found
    }

    #[test]
    fn a_retransmission_is_laid_to_the_drop_of_its_bytes_once() {
        let mut tally = Tally::default();
        tally.dropped(10, kind(7), 1500, &packet(1, u32::MAX - 9, 90));
        // In pieces, as a large segment is; the last byte twice.
        tally.sent_again(again(20, 1, u32::MAX - 9, 40));
        tally.sent_again(again(21, 1, 40, 90));
        tally.sent_again(again(22, 1, 89, 90));
        assert_eq!(laid(&mut tally), (2, 1));
    }

    #[test]
    fn another_connection_direction_sequence_or_order_is_no_match() {
        let mut tally = Tally::default();
        tally.dropped(10, kind(7), 1500, &packet(1, 0, 100));
        tally.sent_again(again(20, 2, 0, 100));
        tally.sent_again(again(20, 1, 100, 200));
        tally.sent_again(again(9, 1, 0, 100));
        let (from, to) = ends(1);
        tally.sent_again(Again {
            ends: (to, from),
            ..again(20, 1, 0, 100)
        });
        assert_eq!(laid(&mut tally), (0, 4));
    }

    #[test]
    fn a_drop_elsewhere_is_no_match() {
        let mut tally = Tally::default();
        let elsewhere = Kind {
            here: false,
            ..kind(7)
        };
        tally.dropped(10, elsewhere, 1500, &packet(1, 0, 100));
        tally.sent_again(again(20, 1, 0, 100));
        assert_eq!(laid(&mut tally), (0, 1));
    }

    #[test]
    fn a_flood_of_ends_is_counted_in_full_and_kept_in_part() {
        let mut tally = Tally::default();
        for number in 0..200_000_u32 {
            tally.dropped(
                i64::from(number),
                kind(1),
                100,
                &packet(number as u16, number, number + 1),
            );
        }
        assert!(tally.order.len() <= MOST_WAITING);
        assert!(tally.waiting.values().map(VecDeque::len).sum::<usize>() <= MOST_WAITING);
        let drops = tally.take().drops;
        assert!(drops.len() <= MOST_ENDS + 1);
        assert_eq!(
            drops.values().map(|count| count.packets).sum::<u64>(),
            200_000
        );
    }
}
