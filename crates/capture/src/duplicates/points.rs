//! Descriptions of the points where duplicates were captured.

use crate::decode::Decoded;
use crate::format::Record;
use crate::link_type::LinkType;
use crate::summary::Copies;

/// Points remembered, by the hash that distinguishes them.
const POINTS: usize = 256;
/// The most pairs of points that are reported.
const MOST_PAIRS: usize = 16;

/// Where a packet was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Point {
    /// In the file, among those described there.
    interface: u32,
    /// The kernel's number, where each packet has one.
    index: Option<u32>,
    outgoing: Option<bool>,
    vlan: Option<u16>,
    tunnel_depth: u8,
    ttl: u8,
}

impl Point {
    pub(super) fn of(record: &Record, frame: &[u8], decoded: &Decoded) -> Self {
        let network = decoded.network.as_ref();
        let mut point = Self {
            interface: record.interface,
            outgoing: match record.vantage {
                1 => Some(false),
                2 => Some(true),
                _ => None,
            },
            tunnel_depth: network.map_or(0, |network| network.tunnel_depth),
            ttl: network.map_or(0, |network| network.ttl),
            ..Self::default()
        };
        match record.link {
            LinkType::LINUX_COOKED => point.outgoing = frame.get(1).map(|kind| *kind == OUTGOING),
            LinkType::LINUX_COOKED_2 => {
                point.outgoing = frame.get(10).map(|kind| *kind == OUTGOING);
                let index = frame.get(4..8).and_then(|bytes| bytes.first_chunk());
                point.index = index.map(|bytes| u32::from_be_bytes(*bytes));
            }
            LinkType::ETHERNET => point.vlan = vlan(frame),
            _ => {}
        }
        point
    }

    /// The same point, without the number of hops passed.
    fn place(self) -> Self {
        Self { ttl: 0, ..self }
    }

    fn words(self, several_interfaces: bool) -> String {
        let mut words = Vec::new();
        match self.index {
            Some(index) => words.push(format!("interface {index}")),
            None if several_interfaces => {
                words.push(format!("interface {} of the file", self.interface))
            }
            None => {}
        }
        words.extend(self.vlan.map(|vlan| format!("VLAN {vlan}")));
        words.extend(self.outgoing.map(|outgoing| {
            let direction = if outgoing { "leaving" } else { "coming in" };
            direction.to_owned()
        }));
        if self.tunnel_depth > 0 {
            words.push("inside a tunnel".to_owned());
        }
        words.join(", ")
    }
}

/// In a cooked header: sent by this host.
const OUTGOING: u8 = 4;

/// The outer tag (IEEE 802.1Q).
fn vlan(frame: &[u8]) -> Option<u16> {
    let tag: [u8; 4] = *frame.get(12..)?.first_chunk()?;
    let is_tagged = matches!(tag, [0x81, 0, ..] | [0x88, 0xa8, ..]);
    is_tagged.then(|| u16::from_be_bytes([tag[2], tag[3]]) & 0x0fff)
}

/// Duplicates of packets captured at one point, captured again at the other.
struct Pair {
    first: Point,
    copy: Point,
    hops: i16,
    packets: u64,
}

/// Duplicates, counted by the points of the original and of the duplicate.
#[derive(Default)]
pub(super) struct Points {
    seen: Vec<(u64, Point)>,
    pairs: Vec<Pair>,
}

impl Points {
    #[inline(always)]
    pub(super) fn note(&mut self, vantage: u64, point: Point) {
        if self.seen.is_empty() {
            self.seen = vec![(0, Point::default()); POINTS];
        }
        if let Some(slot) = self.seen.get_mut(vantage as usize % POINTS) {
            *slot = (vantage, point);
        }
    }

    /// Registers a duplicate at this point; the original has the mark `first_vantage`.
    #[cold]
    pub(super) fn count(&mut self, first_vantage: u64, point: Point) {
        let slot = self.seen.get(first_vantage as usize % POINTS);
        let Some((_, first)) = slot.filter(|(vantage, _)| *vantage == first_vantage) else {
            return;
        };
        let hops = i16::from(first.ttl) - i16::from(point.ttl);
        let (first, copy) = (first.place(), point.place());
        let alike =
            |known: &&mut Pair| (known.first, known.copy, known.hops) == (first, copy, hops);
        if let Some(known) = self.pairs.iter_mut().find(alike) {
            known.packets += 1;
        } else if self.pairs.len() < MOST_PAIRS {
            self.pairs.push(Pair {
                first,
                copy,
                hops,
                packets: 1,
            });
        }
    }

    /// The pairs of points, in descending order of their duplicates.
    pub(super) fn copies(&self) -> Vec<Copies> {
        let points = || self.pairs.iter().flat_map(|pair| [pair.first, pair.copy]);
        let interfaces = || points().map(|point| point.interface);
        let several = interfaces().max() != interfaces().min();
        let copies = self.pairs.iter().map(|pair| Copies {
            first: pair.first.words(several),
            copy: pair.copy.words(several),
            hops_further: pair.hops,
            packets: pair.packets,
        });
        let mut pairs: Vec<Copies> = copies.collect();
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.packets));
        pairs
    }
}
