//! Arrivals of a one-way stream, counted in intervals.

use crate::sample::{Datagrams, Interval};

use super::arrivals::{Arrival, Arrivals};
use super::copies::Admission;

/// How far behind the highest sequence a packet can be distinguished from a duplicate.
const REMEMBERED: usize = 16_384;
/// How long after its end an interval is closed, for packets that were timestamped in time but not yet read.
const CLOSING_NS: i64 = 20_000_000;
/// The shortest intervals that are counted.
const SHORTEST_INTERVAL_NS: i64 = 1_000_000;
/// The most empty intervals created at once; a longer silence (of a host that slept) is one interval.
const MOST_EMPTY: i64 = 10_000;

/// One packet of a stream as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamPacket {
    pub sequence: u64,
    pub bytes: u64,
    pub sent_ns: i64,
    pub received_ns: i64,
}

/// Arrivals since the last interval was closed.
#[derive(Clone, Debug, Default)]
struct Count {
    packets: u64,
    bytes: u64,
    reordered: u64,
    delay_ns: i128,
    jitter_ns: i128,
    jitters: u64,
}

/// The receiver's state of one stream.
///
/// The one-way delay is the mean over the packets counted. The jitter is the mean absolute difference between the
/// delays of consecutive arrivals, as in RFC 3550 section 6.4.1, but without its smoothing.
#[derive(Debug)]
pub(crate) struct Tally {
    flow: u32,
    interval_ns: i64,
    /// Start of the open interval; `None` before the first packet, if no start was given.
    start_ns: Option<i64>,
    arrivals: Arrivals,
    count: Count,
    last_delay_ns: Option<i64>,
    last_received_ns: i64,
    /// Losses in the closed intervals.
    lost: i64,
    /// Kept until it is known whether a short remainder follows, which is merged into it.
    closed: Option<Interval>,
}

impl Tally {
    /// `start_ns` is when the first interval begins; `None`: with the first packet.
    pub(crate) fn new(flow: u32, interval_ns: i64, start_ns: Option<i64>) -> Tally {
        Tally {
            flow,
            interval_ns: interval_ns.max(SHORTEST_INTERVAL_NS),
            start_ns,
            arrivals: Arrivals::new(REMEMBERED),
            count: Count::default(),
            last_delay_ns: None,
            last_received_ns: i64::MIN,
            lost: 0,
            closed: None,
        }
    }

    /// Classifies a packet before it is counted.
    pub(crate) fn admission(&self, sequence: u64) -> Admission {
        self.arrivals.admission(sequence)
    }

    /// Counts a new packet; intervals that it closes are added to `rows`.
    pub(crate) fn arrive(&mut self, packet: StreamPacket, rows: &mut Vec<Interval>) {
        let start_ns = *self.start_ns.get_or_insert(packet.received_ns);
        if packet.received_ns >= start_ns.saturating_add(self.interval_ns) {
            self.close_until(packet.received_ns, rows);
        }
        match self.arrivals.insert(packet.sequence) {
            Arrival::Ahead => {}
            Arrival::Reordered => self.count.reordered += 1,
            Arrival::Duplicate | Arrival::Forgotten => return,
        }
        self.count.packets += 1;
        self.count.bytes += packet.bytes;
        let delay_ns = packet.received_ns.saturating_sub(packet.sent_ns);
        self.count.delay_ns += i128::from(delay_ns);
        if let Some(last_ns) = self.last_delay_ns.replace(delay_ns) {
            self.count.jitter_ns += i128::from(delay_ns.abs_diff(last_ns));
            self.count.jitters += 1;
        }
        self.last_received_ns = self.last_received_ns.max(packet.received_ns);
    }

    /// Closes the intervals that are over.
    pub(crate) fn tick(&mut self, now_ns: i64, rows: &mut Vec<Interval>) {
        self.close_until(now_ns.saturating_sub(CLOSING_NS), rows);
    }

    /// Closes the last interval; `sent` is the number of packets according to the sender, `end_ns` when the stream was
    /// over.
    pub(crate) fn finish(&mut self, sent: Option<u64>, end_ns: i64, rows: &mut Vec<Interval>) {
        let end_ns = end_ns.max(self.last_received_ns);
        self.close_until(end_ns, rows);
        let expected = self.arrivals.expected().max(sent.unwrap_or(0));
        if let Some(start_ns) = self.start_ns.take() {
            // Packets that arrived at one moment have no rate; their interval gets the nominal length.
            let end_ns = if end_ns > start_ns || self.closed.is_some() {
                end_ns
            } else {
                start_ns + self.interval_ns
            };
            let stump = self.take_interval(start_ns, end_ns, expected);
            // A short remainder would show a rate that a single packet determines.
            match &mut self.closed {
                Some(closed) if end_ns - start_ns < self.interval_ns / 2 => append(closed, stump),
                _ => rows.extend(self.closed.replace(stump)),
            }
        }
        rows.extend(self.closed.take());
    }

    pub(crate) fn packets(&self) -> u64 {
        self.arrivals.distinct()
    }

    fn close_until(&mut self, until_ns: i64, rows: &mut Vec<Interval>) {
        let Some(mut start_ns) = self.start_ns else {
            return;
        };
        let silence_ns = until_ns.saturating_sub(start_ns);
        if silence_ns / self.interval_ns > MOST_EMPTY {
            let end_ns = start_ns + silence_ns / self.interval_ns * self.interval_ns;
            self.close(start_ns, end_ns, rows);
            start_ns = end_ns;
        }
        while until_ns.saturating_sub(start_ns) >= self.interval_ns {
            self.close(start_ns, start_ns + self.interval_ns, rows);
            start_ns += self.interval_ns;
        }
        self.start_ns = Some(start_ns);
    }

    fn close(&mut self, start_ns: i64, end_ns: i64, rows: &mut Vec<Interval>) {
        let interval = self.take_interval(start_ns, end_ns, self.arrivals.expected());
        rows.extend(self.closed.replace(interval));
    }

    fn take_interval(&mut self, start_ns: i64, end_ns: i64, expected: u64) -> Interval {
        let count = std::mem::take(&mut self.count);
        let missing = expected.saturating_sub(self.arrivals.distinct()) as i64;
        let lost = missing - self.lost;
        self.lost = missing;
        Interval {
            flow: self.flow,
            start_ns,
            end_ns,
            payload_bytes: count.bytes,
            datagrams: Some(Datagrams {
                packets: count.packets,
                lost,
                reordered: count.reordered,
                delay_ns: mean(count.delay_ns, count.packets),
                jitter_ns: mean(count.jitter_ns, count.jitters),
            }),
        }
    }
}

/// Merges two consecutive intervals.
fn append(interval: &mut Interval, next: Interval) {
    interval.end_ns = next.end_ns;
    interval.payload_bytes += next.payload_bytes;
    let (Some(counts), Some(next)) = (&mut interval.datagrams, next.datagrams) else {
        return;
    };
    let packets = counts.packets + next.packets;
    let weighed = |mean_ns: i64, next_mean_ns: i64| {
        let sum = i128::from(mean_ns) * i128::from(counts.packets)
            + i128::from(next_mean_ns) * i128::from(next.packets);
        mean(sum, packets)
    };
    *counts = Datagrams {
        packets,
        lost: counts.lost + next.lost,
        reordered: counts.reordered + next.reordered,
        delay_ns: weighed(counts.delay_ns, next.delay_ns),
        jitter_ns: weighed(counts.jitter_ns, next.jitter_ns),
    };
}

fn mean(sum: i128, count: u64) -> i64 {
    match count {
        0 => 0,
        count => (sum / i128::from(count)) as i64,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn packet(sequence: u64, received_ns: i64) -> StreamPacket {
        StreamPacket {
            sequence,
            bytes: 100,
            sent_ns: sequence as i64 * 1_000_000,
            received_ns,
        }
    }

    fn counted(interval: &Interval) -> (u64, i64, u64) {
        let counts = interval.datagrams.unwrap();
        (counts.packets, counts.lost, counts.reordered)
    }

    #[test]
    fn intervals_follow_one_another_and_late_packets_are_taken_back_from_the_lost() {
        let mut tally = Tally::new(3, 10_000_000, None);
        let mut rows = Vec::new();
        for (sequence, at_ms) in [(0, 100), (1, 101), (4, 104), (2, 112), (4, 113), (5, 135)] {
            let expected = match at_ms {
                113 => Admission::Duplicate,
                _ => Admission::New,
            };
            assert_eq!(tally.admission(sequence), expected);
            tally.arrive(packet(sequence, at_ms * 1_000_000), &mut rows);
        }
        tally.finish(Some(8), 140_000_000, &mut rows);
        let spans: Vec<_> = rows
            .iter()
            .map(|row| (row.start_ns / 1_000_000, row.end_ns / 1_000_000))
            .collect();
        assert_eq!(spans, [(100, 110), (110, 120), (120, 130), (130, 140)]);
        let counts: Vec<_> = rows.iter().map(counted).collect();
        assert_eq!(counts, [(3, 2, 0), (1, -1, 1), (0, 0, 0), (1, 2, 0)]);
    }

    #[test]
    fn packets_sent_at_the_end_and_not_received_are_lost() {
        let mut tally = Tally::new(3, 10_000_000, Some(0));
        let mut rows = Vec::new();
        tally.arrive(packet(0, 1_000_000), &mut rows);
        tally.finish(Some(5), 9_000_000, &mut rows);
        assert_eq!(rows.len(), 1);
        assert_eq!(counted(&rows[0]), (1, 4, 0));
    }

    #[test]
    fn a_stump_at_the_end_belongs_to_the_interval_before_it() {
        let mut tally = Tally::new(3, 10_000_000, Some(0));
        let mut rows = Vec::new();
        for at_ms in 0..=10 {
            tally.arrive(packet(at_ms as u64, at_ms * 1_000_000 + 100_000), &mut rows);
        }
        tally.finish(None, 10_100_000, &mut rows);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].end_ns, rows[0].payload_bytes), (10_100_000, 1100));
        let counts = rows[0].datagrams.unwrap();
        assert_eq!((counts.delay_ns, counts.jitter_ns), (100_000, 0));
    }

    #[test]
    fn silence_is_reported_as_intervals_without_packets() {
        let mut tally = Tally::new(3, 10_000_000, Some(0));
        let mut rows = Vec::new();
        tally.tick(55_000_000, &mut rows);
        assert_eq!(rows.len(), 2);
        // A host that slept for a day does not produce a million rows.
        tally.tick(86_400_000_000_000, &mut rows);
        assert!(rows.len() < 10);
        assert!(
            rows.windows(2)
                .all(|pair| pair[0].end_ns == pair[1].start_ns)
        );
    }

    proptest! {
        #[test]
        fn nothing_is_counted_twice_or_dropped(
            packets in proptest::collection::vec((0_u64..300, 0_i64..3_000_000), 1..400),
            sent in proptest::option::of(0_u64..400),
        ) {
            let mut tally = Tally::new(1, 10_000_000, Some(0));
            let mut rows = Vec::new();
            let mut now_ns = 0;
            let mut distinct = BTreeSet::new();
            let mut reordered = 0;
            for (sequence, gap_ns) in packets {
                now_ns += gap_ns;
                reordered += u64::from(!distinct.contains(&sequence) && distinct.last() > Some(&sequence));
                distinct.insert(sequence);
                tally.arrive(packet(sequence, now_ns), &mut rows);
            }
            tally.finish(sent, now_ns, &mut rows);
            let expected = (distinct.last().unwrap() + 1).max(sent.unwrap_or(0));
            let sum = |value: fn(&Datagrams) -> i64| rows.iter().map(|row| value(&row.datagrams.unwrap())).sum::<i64>();
            prop_assert_eq!(sum(|counts| counts.packets as i64), distinct.len() as i64);
            prop_assert_eq!(sum(|counts| counts.lost), expected as i64 - distinct.len() as i64);
            prop_assert_eq!(sum(|counts| counts.reordered as i64), reordered as i64);
            prop_assert_eq!(rows.iter().map(|row| row.payload_bytes).sum::<u64>(), distinct.len() as u64 * 100);
            prop_assert!(rows.windows(2).all(|pair| pair[0].end_ns == pair[1].start_ns));
            prop_assert!(rows.iter().all(|row| row.end_ns > row.start_ns));
        }
    }
}
