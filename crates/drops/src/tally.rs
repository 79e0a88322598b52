//! Drops counted by common properties, and retransmissions attributed to the drops that caused them.
//!
//! Memory is bounded: each interval keeps a limited number of different ends, and counts other drops without them. A
//! limited number of dropped TCP segments wait for their retransmission; beyond it the oldest are forgotten.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use crate::packet::{Packet, Protocol, Span};

/// Rows per interval with their ends; other drops are counted by reason, place, protocol and interface.
const MOST_ENDS: usize = 64;
/// Rows per interval in all. Reasons and places are the kernel's, but interfaces may be many.
const MOST_ROWS: usize = 1024;
/// Drops that may still explain a retransmission.
const MOST_WAITING: usize = 65_536;
/// After this time TCP has given up (RFC 9293, section 3.8.3: at least 100 s; Linux: 15 retransmissions, about 15 min).
const LONGEST_WAIT_NS: i64 = 1_000_000_000_000;

/// Source and destination.
pub type Ends = (SocketAddr, SocketAddr);

/// The properties that the drops of one row have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    pub reason: u32,
    /// An address in the kernel function that dropped them.
    pub location: u64,
    pub protocol: Protocol,
    /// Index of the interface; 0: none, or unknown.
    pub interface: u32,
    /// Index of the interface on which they arrived; 0: created on this host.
    pub arrived_by: u32,
    /// True if they are known to be from the watched namespace.
    pub here: bool,
    pub ends: Option<Ends>,
}

/// The number of drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

/// A retransmitted segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmission {
    pub time_ns: i64,
    pub ends: Ends,
    pub span: Span,
}

/// Segments of one connection retransmitted in one interval for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attribution {
    pub ends: Ends,
    /// Reason and place of the local drop that caused them; `None`: unknown.
    pub drop: Option<(u32, u64)>,
}

/// One interval's counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    pub drops: HashMap<Kind, Count>,
    pub retransmissions: HashMap<Attribution, Count>,
}

/// The counts of the current interval, and the drops that wait for a retransmission.
#[derive(Debug, Default)]
pub struct Tally {
    interval: Interval,
    ends: usize,
    waiting: HashMap<Ends, VecDeque<Waiting>>,
    /// In order of arrival, for forgetting the oldest.
    order: VecDeque<(i64, Ends)>,
}

#[derive(Clone, Debug)]
struct Waiting {
    time_ns: i64,
    /// Bytes that have not been retransmitted.
    left: Vec<Span>,
    drop: (u32, u64),
}

impl Tally {
    /// Counts a drop. The packet's bytes of the TCP stream are remembered until they are retransmitted.
    pub fn dropped(&mut self, time_ns: i64, mut kind: Kind, bytes: u64, packet: &Packet) {
        if let (true, Some(ends), Some(span)) = (kind.here, packet.ends, packet.span)
            && span.first != span.end
        {
            self.wait(time_ns, ends, span, (kind.reason, kind.location));
        }
        kind.ends = packet.ends;
        self.count(kind, bytes);
    }

    /// Counts a drop without details, because they are unknown or there was no time to examine the packet.
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

    /// Counts a retransmitted segment, and attributes it to the drop that caused it: an earlier one in the same
    /// connection and direction that contained its bytes. Each drop explains one retransmission of its bytes; a further
    /// one has another reason.
    pub fn retransmitted(&mut self, segment: Retransmission) {
        let span = segment.span;
        let mut drop = None;
        if let Some(waiting) = self.waiting.get_mut(&segment.ends) {
            for one in waiting
                .iter_mut()
                .filter(|one| one.time_ns < segment.time_ns)
            {
                if one.take(span) {
                    drop = Some(one.drop);
                }
            }
            waiting.retain(|one| !one.left.is_empty());
            if waiting.is_empty() {
                self.waiting.remove(&segment.ends);
            }
        }
        let attribution = Attribution {
            ends: segment.ends,
            drop,
        };
        let rows = &mut self.interval.retransmissions;
        if rows.len() < MOST_ROWS || rows.contains_key(&attribution) {
            add(
                rows.entry(attribution).or_default(),
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
    /// Removes the bytes in `span`; returns whether there were any.
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

/// True if a sequence number precedes another (RFC 9293, section 3.4: modulo 2^32).
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

    fn segment(time_ns: i64, port: u16, first: u32, end: u32) -> Retransmission {
        Retransmission {
            time_ns,
            ends: ends(port),
            span: Span { first, end },
        }
    }

    /// Retransmitted segments, by whether they were attributed to a local drop.
    fn attribution(tally: &mut Tally) -> (u64, u64) {
        let mut found = (0, 0);
        for (row, count) in tally.take().retransmissions {
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
        tally.retransmitted(segment(20, 1, u32::MAX - 9, 40));
        tally.retransmitted(segment(21, 1, 40, 90));
        tally.retransmitted(segment(22, 1, 89, 90));
        assert_eq!(attribution(&mut tally), (2, 1));
    }

    #[test]
    fn another_connection_direction_sequence_or_order_is_no_match() {
        let mut tally = Tally::default();
        tally.dropped(10, kind(7), 1500, &packet(1, 0, 100));
        tally.retransmitted(segment(20, 2, 0, 100));
        tally.retransmitted(segment(20, 1, 100, 200));
        tally.retransmitted(segment(9, 1, 0, 100));
        let (from, to) = ends(1);
        tally.retransmitted(Retransmission {
            ends: (to, from),
            ..segment(20, 1, 0, 100)
        });
        assert_eq!(attribution(&mut tally), (0, 4));
    }

    #[test]
    fn a_drop_elsewhere_is_no_match() {
        let mut tally = Tally::default();
        let elsewhere = Kind {
            here: false,
            ..kind(7)
        };
        tally.dropped(10, elsewhere, 1500, &packet(1, 0, 100));
        tally.retransmitted(segment(20, 1, 0, 100));
        assert_eq!(attribution(&mut tally), (0, 1));
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
