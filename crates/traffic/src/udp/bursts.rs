//! Arrivals of bursts: one row for each packet, including lost ones.

use std::collections::BTreeMap;

use crate::sample::BurstPacket;

use super::arrivals::Arrivals;
use super::copies::Admission;
use super::packet::BurstPlace;

/// After this silence, missing packets of a burst are lost.
const SILENCE_NS: i64 = 1_000_000_000;
/// The most rows created at once for bursts that were lost completely; further ones are only counted.
const MOST_SYNTHETIC_ROWS: u64 = 65_536;
/// How far behind the highest sequence a packet can be distinguished from a duplicate: packets, and whole bursts.
const REMEMBERED: usize = 16_384;
const REMEMBERED_BURSTS: usize = 4;

/// The longest time for which a path may delay packets. A packet of a burst that is not due for longer than this is
/// invalid.
const LONGEST_PATH_DELAY_NS: i64 = 30_000_000_000;

/// The receiver's state of one flow of bursts.
///
/// Burst `b` has the sequence numbers from `b * packets` on. Senders number what they send, so packets that a sender
/// omitted do not look lost.
#[derive(Debug)]
pub(crate) struct BurstTally {
    flow: u32,
    /// Packets in each burst.
    packets: u32,
    packet_bytes: u32,
    every_ns: i64,
    /// The most bursts that the flow can have.
    most: u32,
    /// When the flow began, in this host's clock; late by the first packet's one-way delay if that packet defines it.
    began_ns: Option<i64>,
    /// Send times of the packets that arrived, for each burst that is not settled.
    open: BTreeMap<u32, Vec<Option<i64>>>,
    /// The first burst that is not settled.
    next: u32,
    /// A burst with a known start, in the sender's clock.
    known: Option<(u32, i64)>,
    last_received_ns: i64,
    arrivals: Arrivals,
    arrived: u64,
    too_late: u64,
    unlisted: u64,
}

impl BurstTally {
    /// `most`: how many bursts the flow can have; `began_ns`: `None` if the first packet defines the beginning.
    pub(crate) fn new(
        flow: u32,
        packets: u32,
        packet_bytes: u32,
        every_ns: i64,
        most: u32,
        began_ns: Option<i64>,
    ) -> BurstTally {
        let packets = packets.max(1);
        let remembered = REMEMBERED.max(REMEMBERED_BURSTS * packets as usize);
        BurstTally {
            flow,
            packets,
            packet_bytes,
            every_ns,
            most,
            began_ns,
            open: BTreeMap::new(),
            next: 0,
            known: None,
            last_received_ns: i64::MIN,
            arrivals: Arrivals::new(remembered),
            arrived: 0,
            too_late: 0,
            unlisted: 0,
        }
    }

    /// Classifies a packet before it is counted.
    pub(crate) fn admission(&mut self, place: BurstPlace, received_ns: i64) -> Admission {
        if place.packets != self.packets || place.place >= place.packets || place.burst >= self.most
        {
            return Admission::Misplaced;
        }
        if !self.is_due(place.burst, received_ns) {
            return Admission::Misplaced;
        }
        self.arrivals
            .admission(self.sequence(place.burst, place.place))
    }

    /// Counts a new packet.
    pub(crate) fn arrive(
        &mut self,
        place: BurstPlace,
        bytes: u32,
        sent_ns: i64,
        (received_ns, marked): (i64, bool),
        rows: &mut Vec<BurstPacket>,
    ) {
        self.arrivals
            .insert(self.sequence(place.burst, place.place));
        if place.burst < self.next {
            self.too_late += 1;
            return;
        }
        // Packets of the previous burst may still arrive out of order.
        self.settle_until(place.burst.saturating_sub(1), rows);
        let burst = self
            .open
            .entry(place.burst)
            .or_insert_with(|| vec![None; place.packets as usize]);
        burst[place.place as usize] = Some(sent_ns);
        self.arrived += 1;
        self.known = Some((place.burst, sent_ns));
        self.last_received_ns = self.last_received_ns.max(received_ns);
        rows.push(BurstPacket {
            flow: self.flow,
            burst: place.burst,
            sequence: self.sequence(place.burst, place.place),
            sent_ns,
            received_ns: Some(received_ns),
            payload_bytes: bytes,
            marked,
        });
    }

    /// True if a burst may have been sent by now. A packet of a later one would create rows for all bursts before it.
    fn is_due(&mut self, burst: u32, now_ns: i64) -> bool {
        let due_ns = i64::from(burst).saturating_mul(self.every_ns);
        let began_ns = *self
            .began_ns
            .get_or_insert_with(|| now_ns.saturating_sub(due_ns));
        due_ns
            <= now_ns
                .saturating_sub(began_ns)
                .saturating_add(LONGEST_PATH_DELAY_NS)
    }

    /// Reports the losses of bursts that were followed by silence.
    pub(crate) fn tick(&mut self, now_ns: i64, rows: &mut Vec<BurstPacket>) {
        if let Some((&latest, _)) = self.open.last_key_value()
            && self.is_silent(now_ns, SILENCE_NS)
        {
            self.settle_until(latest + 1, rows);
        }
    }

    /// Reports all remaining losses; `sent` is the number of bursts according to the sender.
    pub(crate) fn finish(&mut self, sent: Option<u32>, rows: &mut Vec<BurstPacket>) {
        let arrived = self
            .open
            .last_key_value()
            .map_or(0, |(&latest, _)| latest + 1);
        self.settle_until(arrived.max(sent.unwrap_or(0).min(self.most)), rows);
    }

    /// True if no packet has arrived for this long.
    pub(crate) fn is_silent(&self, now_ns: i64, silence_ns: i64) -> bool {
        now_ns.saturating_sub(silence_ns) > self.last_received_ns
    }

    pub(crate) fn packets(&self) -> u64 {
        self.arrived
    }

    /// Packets that arrived after their burst was reported as lost.
    pub(crate) fn too_late(&self) -> u64 {
        self.too_late
    }

    /// Lost packets without a row, because too many whole bursts were lost.
    pub(crate) fn unlisted(&self) -> u64 {
        self.unlisted
    }

    fn sequence(&self, burst: u32, place: u32) -> u64 {
        u64::from(burst) * u64::from(self.packets) + u64::from(place)
    }

    fn settle_until(&mut self, end: u32, rows: &mut Vec<BurstPacket>) {
        let mut synthetic = 0;
        while self.next < end {
            let burst = self.next;
            match self.open.remove(&burst) {
                Some(sent) => self.settle(burst, &interpolated(&sent), &sent, rows),
                // Before the first packet, the start of bursts is unknown.
                None if synthetic < MOST_SYNTHETIC_ROWS && self.known.is_some() => {
                    synthetic += u64::from(self.packets);
                    let begin_ns = self.begin_ns(burst);
                    let sent = vec![None; self.packets as usize];
                    self.settle(burst, &vec![begin_ns; self.packets as usize], &sent, rows);
                }
                None => {
                    // All bursts up to the next one that arrived, at once.
                    let following = self.open.keys().next().copied().unwrap_or(end).min(end);
                    self.unlisted += u64::from(following - burst) * u64::from(self.packets);
                    self.next = following;
                    continue;
                }
            }
            self.next = burst + 1;
        }
    }

    fn settle(
        &self,
        burst: u32,
        times_ns: &[i64],
        sent: &[Option<i64>],
        rows: &mut Vec<BurstPacket>,
    ) {
        let lost = sent.iter().zip(times_ns).enumerate();
        rows.extend(
            lost.filter(|(_, (sent, _))| sent.is_none())
                .map(|(place, (_, &sent_ns))| BurstPacket {
                    flow: self.flow,
                    burst,
                    sequence: self.sequence(burst, place as u32),
                    sent_ns,
                    received_ns: None,
                    payload_bytes: self.packet_bytes,
                    marked: false,
                }),
        );
    }

    /// Estimates when a burst that was lost completely was due, from the nearest burst with a known start.
    fn begin_ns(&self, burst: u32) -> i64 {
        let (known, sent_ns) = self.known.unwrap_or((burst, 0));
        let bursts = i64::from(burst) - i64::from(known);
        sent_ns.saturating_add(bursts.saturating_mul(self.every_ns))
    }
}

/// Interpolates the send times of packets that did not arrive from their neighbours.
fn interpolated(sent: &[Option<i64>]) -> Vec<i64> {
    let known: Vec<(usize, i64)> = sent
        .iter()
        .enumerate()
        .filter_map(|(place, sent_ns)| Some((place, (*sent_ns)?)))
        .collect();
    (0..sent.len())
        .map(|place| {
            let following = known.partition_point(|(known, _)| *known < place);
            match (
                following.checked_sub(1).map(|before| known[before]),
                known.get(following),
            ) {
                (Some((before, from_ns)), Some(&(after, to_ns))) => {
                    let share = (place - before) as f64 / (after - before) as f64;
                    from_ns.saturating_add((to_ns.saturating_sub(from_ns) as f64 * share) as i64)
                }
                (Some((_, near_ns)), None) | (None, Some(&(_, near_ns))) => near_ns,
                (None, None) => 0,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place(burst: u32, place: u32) -> BurstPlace {
        BurstPlace {
            burst,
            place,
            packets: 4,
        }
    }

    fn tally() -> BurstTally {
        BurstTally::new(9, 4, 100, 1_000_000_000, 1000, None)
    }

    /// Counts a packet of 100 bytes if it is new.
    fn admit(
        tally: &mut BurstTally,
        place: BurstPlace,
        sent_ns: i64,
        received_ns: i64,
        rows: &mut Vec<BurstPacket>,
    ) -> Admission {
        let admission = tally.admission(place, received_ns);
        if admission == Admission::New {
            tally.arrive(place, 100, sent_ns, (received_ns, false), rows);
        }
        admission
    }

    #[test]
    fn every_packet_of_every_burst_gets_one_row() {
        let (mut tally, mut rows) = (tally(), Vec::new());
        for (burst, number, sent_ns, expected) in [
            (0, 0, 10, Admission::New),
            (0, 2, 30, Admission::New),
            (0, 2, 30, Admission::Duplicate),
            (3, 1, 3_000_000_010, Admission::New),
            (0, 2, 30, Admission::Duplicate),
        ] {
            let place = place(burst, number);
            let admission = admit(&mut tally, place, sent_ns, sent_ns + 500, &mut rows);
            assert_eq!(admission, expected);
        }
        tally.finish(Some(5), &mut rows);
        rows.sort_by_key(|row| row.sequence);
        let sequences: Vec<u64> = rows.iter().map(|row| row.sequence).collect();
        assert_eq!(sequences, (0..20).collect::<Vec<u64>>());
        assert!(
            rows.iter()
                .all(|row| u64::from(row.burst) == row.sequence / 4)
        );
        let arrived: Vec<u64> = rows
            .iter()
            .filter(|row| row.received_ns.is_some())
            .map(|row| row.sequence)
            .collect();
        assert_eq!(arrived, [0, 2, 13]);
        assert_eq!(rows[1].sent_ns, 20);
        assert_eq!(rows[3].sent_ns, 30);
        assert_eq!(rows[16].sent_ns, 4_000_000_010);
        assert_eq!(
            (tally.packets(), tally.unlisted(), tally.too_late()),
            (3, 0, 0)
        );
    }

    #[test]
    fn lost_packets_are_reported_after_a_silence_and_later_arrivals_are_too_late() {
        let (mut tally, mut rows) = (tally(), Vec::new());
        admit(&mut tally, place(0, 0), 0, 1000, &mut rows);
        tally.tick(500_000_000, &mut rows);
        assert_eq!(rows.len(), 1);
        tally.tick(2_000_000_000, &mut rows);
        assert_eq!(rows.len(), 4);
        for expected in [Admission::New, Admission::Duplicate] {
            let admission = admit(&mut tally, place(0, 1), 0, 2_100_000_000, &mut rows);
            assert_eq!(admission, expected);
            assert_eq!((rows.len(), tally.too_late()), (4, 1));
        }
    }

    #[test]
    fn a_leap_over_very_many_bursts_makes_no_million_rows() {
        let mut tally = BurstTally::new(9, 4, 100, 1, u32::MAX, None);
        let mut rows = Vec::new();
        admit(&mut tally, place(0, 0), 0, 1, &mut rows);
        admit(&mut tally, place(4_000_000_000, 0), 0, 2, &mut rows);
        tally.finish(None, &mut rows);
        assert!(rows.len() < 70_000);
        assert_eq!(rows.len() as u64 + tally.unlisted(), 4 * 4_000_000_001);
    }

    #[test]
    fn a_burst_that_is_not_due_yet_does_not_belong_to_the_flow() {
        const SECOND_NS: i64 = 1_000_000_000;
        let mut rows = Vec::new();
        for began_ns in [None, Some(0)] {
            let mut tally = BurstTally::new(9, 4, 100, SECOND_NS, u32::MAX, began_ns);
            let mut admitted =
                |burst, at_ns| admit(&mut tally, place(burst, 0), 0, at_ns, &mut rows);
            assert_eq!(admitted(0, 0), Admission::New);
            assert_eq!(admitted(40_000, 5 * SECOND_NS), Admission::Misplaced);
            // An outage of this length is possible, and all packets then arrive at once.
            assert_eq!(admitted(35, 5 * SECOND_NS), Admission::New);
            tally.finish(None, &mut rows);
            assert_eq!(rows.len(), 36 * 4);
            rows.clear();
        }
        // If counting begins in the middle of a flow, the first packet defines when the flow began.
        let mut tally = BurstTally::new(9, 4, 100, SECOND_NS, u32::MAX, None);
        let mut admitted = |burst| admit(&mut tally, place(burst, 0), 0, 0, &mut rows);
        assert_eq!(admitted(1000), Admission::New);
        assert_eq!(admitted(1031), Admission::Misplaced);
    }

    proptest! {
        #[test]
        fn rows_are_complete_and_never_twice(
            packets in proptest::collection::vec((0_u32..12, 0_u32..6, 0_i64..700_000_000), 0..100),
            sent in 0_u32..14,
        ) {
            let (mut tally, mut rows) = (tally(), Vec::new());
            let mut now_ns = 0;
            let mut highest = None;
            for (burst, number, gap_ns) in packets {
                now_ns += gap_ns;
                tally.tick(now_ns, &mut rows);
                if admit(&mut tally, place(burst, number), now_ns, now_ns, &mut rows) != Admission::Misplaced {
                    highest = highest.max(Some(burst));
                } else {
                    prop_assert!(number >= 4);
                }
            }
            tally.finish(Some(sent), &mut rows);
            let bursts = u64::from(highest.map_or(0, |highest| highest + 1).max(sent));
            let mut sequences: Vec<u64> = rows.iter().map(|row| row.sequence).collect();
            sequences.sort_unstable();
            prop_assert!(sequences.windows(2).all(|pair| pair[0] < pair[1]));
            prop_assert_eq!(sequences.len() as u64 + tally.unlisted(), bursts * 4);
            let arrived = rows.iter().filter(|row| row.received_ns.is_some()).count() as u64;
            prop_assert_eq!(arrived, tally.packets());
        }
    }
}
