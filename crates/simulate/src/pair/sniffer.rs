//! A point of capture: which packets its sniffer writes, in which form, and with which timestamps.

use whydrop_hosts::Toward;
use whydrop_path::Random;

use super::crossing::{Body, Crossing};
use super::frame::Link;
use crate::pcap::EPOCH_NS;
use whydrop_network::Resolution;

/// In the direction of data, B is before the path element and Y behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    B,
    Y,
}

/// How a sniffer sees and writes packets. The default misses and changes none.
#[derive(Debug, Clone, PartialEq)]
pub struct Sniffer {
    pub point: Point,
    pub resolution: Resolution,
    pub snaplen: u32,
    pub link: Link,
    pub clock: Clock,
    /// It writes the packets that pass in this span of true time.
    pub begins_ns: i64,
    pub ends_ns: i64,
    /// Packets in the return direction are not captured.
    pub forward_only: bool,
    /// Probability that a packet is missed, and the mean number of packets missed together.
    pub missed: f64,
    pub missed_together: f64,
    /// Mean of the exponential delay of each timestamp.
    pub jitter_ns: i64,
    /// Packets that arrive within this time after the first are all timestamped when it is over.
    pub coalesce_ns: i64,
    pub offload: Option<Offload>,
    /// The file ends after this share of its records, in the middle of one.
    pub cut_after: Option<f64>,
    pub ttl_forward: u8,
    pub ttl_reverse: u8,
    pub dscp: u8,
    /// Added to the identification of each IPv4 data packet, as by a translator that renumbers them.
    pub identification_shift: u16,
    pub identification_zero: bool,
}

/// Consecutive data segments that form one record in the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// Segments further apart stay separate.
    pub gap_ns: i64,
    pub most_payload_bytes: u32,
    pub stamp: OffloadStamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffloadStamp {
    /// A sender's stack passes a super-segment to the card (TSO): timestamped before it is split.
    First,
    /// A receiver's card or driver coalesces packets (GRO): timestamped when the last has arrived.
    Last,
}

/// Errors of a sniffer's clock.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Clock {
    pub offset_ns: i64,
    pub drift_ppm: f64,
    /// The time from which drift accumulates.
    pub t0_ns: i64,
    /// (true time, the step that the clock makes then), in order.
    pub steps: Vec<(i64, i64)>,
}

impl Clock {
    /// The time that the clock shows at a true time.
    pub fn shows_ns(&self, true_ns: i64) -> i64 {
        let drift_ns = (self.drift_ppm * 1e-6 * (true_ns - self.t0_ns) as f64).round() as i64;
        let stepped = self.steps.iter().filter(|step| true_ns >= step.0);
        true_ns + self.offset_ns + drift_ns + stepped.map(|step| step.1).sum::<i64>()
    }
}

/// A record of a capture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// True time.
    pub time_ns: i64,
    /// By the sniffer's clock, since the Unix epoch.
    pub stamp_ns: i64,
    pub body: Body,
    /// Wire packets in it.
    pub packets: u32,
}

/// The records of a sniffer.
#[derive(Debug, Clone, PartialEq)]
pub struct Sighting {
    /// In the order of the file.
    pub records: Vec<Seen>,
    /// The last one of `records` is written without its end.
    pub last_is_cut: bool,
    /// The true time that is covered: up to the last whole record if the file is cut.
    pub begins_ns: i64,
    pub ends_ns: i64,
    /// Records that are missing although the time is covered, and the wire packets in them.
    pub missed_records: u64,
    pub missed_packets: u64,
}

/// Packets that a stack passes on at the same instant have timestamps this far apart.
const HANDOVER_NS: i64 = 700;

impl Sniffer {
    pub fn new(point: Point) -> Self {
        Self {
            point,
            resolution: Resolution::Nanoseconds,
            snaplen: 128,
            link: Link::Ethernet,
            clock: Clock::default(),
            begins_ns: i64::MIN,
            ends_ns: i64::MAX,
            forward_only: false,
            missed: 0.0,
            missed_together: 1.0,
            jitter_ns: 0,
            coalesce_ns: 0,
            offload: None,
            cut_after: None,
            ttl_forward: 64,
            ttl_reverse: 64,
            dscp: 0,
            identification_shift: 0,
            identification_zero: false,
        }
    }

    /// When a packet passes this point.
    pub fn time_ns(&self, crossing: &Crossing) -> Option<i64> {
        match self.point {
            Point::B => crossing.at_b_ns,
            Point::Y => crossing.at_y_ns,
        }
    }

    /// Records the packets that pass.
    pub fn watch(&self, crossings: &[Crossing], random: &mut Random) -> Sighting {
        let mut records = self.passing(crossings);
        if let Some(offload) = self.offload {
            records = join(records, offload);
        }
        spread(&mut records);
        let mut sighting = self.miss(records, random);
        self.cut(&mut sighting);
        self.stamp(&mut sighting.records, random);
        sighting
    }

    fn passing(&self, crossings: &[Crossing]) -> Vec<Seen> {
        let mut records: Vec<Seen> = crossings
            .iter()
            .filter(|crossing| crossing.is_forward() || !self.forward_only)
            .filter_map(|crossing| {
                let time_ns = self.time_ns(crossing)?;
                let covered = (self.begins_ns..=self.ends_ns).contains(&time_ns);
                let mut body = crossing.body;
                if let (Point::Y, true, Body::Tcp(segment)) =
                    (self.point, crossing.marked_between, &mut body)
                {
                    segment.ecn = whydrop_path::Ecn::Ce;
                }
                covered.then_some(Seen {
                    time_ns,
                    stamp_ns: time_ns,
                    body,
                    packets: 1,
                })
            })
            .collect();
        // Stable: packets that pass at the same time were sent in this order.
        records.sort_by_key(|record| record.time_ns);
        records
    }

    fn miss(&self, records: Vec<Seen>, random: &mut Random) -> Sighting {
        let mut sighting = Sighting {
            records: Vec::with_capacity(records.len()),
            last_is_cut: false,
            begins_ns: self.begins_ns,
            ends_ns: self.ends_ns,
            missed_records: 0,
            missed_packets: 0,
        };
        let goes_on = 1.0 - 1.0 / self.missed_together.max(1.0);
        let begins = self.missed / self.missed_together.max(1.0);
        let mut missing = false;
        for record in records {
            missing = random.chance(if missing { goes_on } else { begins });
            if missing {
                sighting.missed_records += 1;
                sighting.missed_packets += u64::from(record.packets);
            } else {
                sighting.records.push(record);
            }
        }
        sighting
    }

    fn cut(&self, sighting: &mut Sighting) {
        let Some(share) = self.cut_after else {
            return;
        };
        let whole = (sighting.records.len() as f64 * share) as usize;
        if whole == 0 || whole >= sighting.records.len() {
            return;
        }
        sighting.ends_ns = sighting.records[whole - 1].time_ns;
        sighting.records.truncate(whole + 1);
        sighting.last_is_cut = true;
    }

    /// Delays the timestamps first, in the order of the packets, then applies the clock's error.
    fn stamp(&self, records: &mut [Seen], random: &mut Random) {
        let mut interrupt_ns = i64::MIN;
        let mut last_ns = i64::MIN;
        for record in records {
            let mut time_ns = record.time_ns;
            if self.coalesce_ns > 0 {
                if time_ns > interrupt_ns {
                    interrupt_ns = time_ns + self.coalesce_ns;
                }
                time_ns = interrupt_ns;
            }
            if self.jitter_ns > 0 {
                time_ns += random.exponential(self.jitter_ns as f64) as i64;
            }
            // The sniffer processes packets one after the other.
            if self.coalesce_ns > 0 || self.jitter_ns > 0 {
                time_ns = time_ns.max(last_ns.saturating_add(HANDOVER_NS / 2));
            }
            last_ns = time_ns;
            record.stamp_ns = EPOCH_NS + self.clock.shows_ns(time_ns);
        }
    }
}

/// Spreads packets that were passed on together: they pass one after the other.
fn spread(records: &mut [Seen]) {
    let mut last_ns = i64::MIN;
    for record in records {
        if record.time_ns <= last_ns {
            record.time_ns = last_ns + HANDOVER_NS;
        }
        last_ns = record.time_ns;
    }
}

/// Coalesces consecutive full segments of one connection, unless another of its packets lies between.
fn join(records: Vec<Seen>, offload: Offload) -> Vec<Seen> {
    let mut joined: Vec<Seen> = Vec::with_capacity(records.len());
    // The open super-segment of each flow: its index, and when its last segment arrived.
    let mut open: std::collections::HashMap<usize, (usize, i64)> = Default::default();
    for record in records {
        let Body::Tcp(segment) = record.body else {
            joined.push(record);
            continue;
        };
        if segment.toward == Toward::Server {
            joined.push(record);
            continue;
        }
        let place = open
            .get(&segment.flow)
            .copied()
            .filter(|&(place, last_ns)| {
                record.time_ns - last_ns <= offload.gap_ns
                    && continues(&joined[place], &record, offload)
            });
        if let Some((place, _)) = place {
            let Body::Tcp(head) = &mut joined[place].body else {
                continue;
            };
            head.payload_bytes += segment.payload_bytes;
            head.flags |= segment.flags;
            joined[place].packets += 1;
            if offload.stamp == OffloadStamp::Last {
                joined[place].time_ns = record.time_ns;
            }
            open.insert(segment.flow, (place, record.time_ns));
        } else {
            open.insert(segment.flow, (joined.len(), record.time_ns));
            joined.push(record);
        }
    }
    joined.sort_by_key(|record| record.time_ns);
    joined
}

/// Linux coalesces contiguous segments with equal headers; a shorter one ends the super-segment.
fn continues(head: &Seen, next: &Seen, offload: Offload) -> bool {
    let (Body::Tcp(a), Body::Tcp(b)) = (&head.body, &next.body) else {
        return false;
    };
    a.payload_bytes > 0
        && b.payload_bytes > 0
        && a.end() == b.sequence
        && a.payload_bytes / head.packets >= b.payload_bytes
        && a.payload_bytes % head.packets == 0
        && a.acknowledgment == b.acknowledgment
        && a.timestamps == b.timestamps
        && a.ecn == b.ecn
        && a.flags & whydrop_hosts::flags::PSH == 0
        && a.reason.is_retransmission() == b.reason.is_retransmission()
        && a.payload_bytes + b.payload_bytes <= offload.most_payload_bytes
}

#[cfg(test)]
mod tests;
