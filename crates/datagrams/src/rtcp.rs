//! RTCP sender and receiver reports (RFC 3550, section 6.4): the losses and the jitter that the receiver of a stream
//! found, and round trips between the capture point and that receiver.
//!
//! Encrypted reports (SRTCP, RFC 3711) name no source of the capture by chance, so they match no stream.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
/// Bytes: of the header with the sender's identifier, of a sender's own counts, and of a report on one source.
const HEADER_BYTES: usize = 8;
const SENDER_BYTES: usize = 20;
const BLOCK_BYTES: usize = 24;
/// The most streams with reports, reports of all streams, and sender reports that wait for their echo.
const MOST_STREAMS: usize = 1 << 12;
const MOST_REPORTS: usize = 1 << 18;
const MOST_SENT: usize = 1 << 10;
/// A longer round trip is an echo of another time.
const LONGEST_TRIP_NS: i64 = 60_000_000_000;

/// One report on a stream, by its receiver.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ControlReport {
    pub time_ns: i64,
    /// Share of the packets since the report before, 0 to 1.
    pub lost_share: f64,
    /// Since the start of the stream; negative if there were duplicates.
    pub lost: i32,
    /// In ticks of the stream's clock.
    pub jitter_ticks: u32,
    /// From the capture point to the receiver and back; `None` if the capture lacks the sender report.
    pub round_trip_ns: Option<i64>,
}

/// All reports of a capture.
#[derive(Debug, Default)]
pub(crate) struct ControlReports {
    /// By the source of the stream, and the host that receives it.
    reports: HashMap<(u32, IpAddr), Vec<ControlReport>>,
    /// How many there are.
    kept: usize,
    /// Sender reports: source, middle of the time stamp, time of the capture.
    sent: VecDeque<(u32, u32, i64)>,
}

/// True for the first byte pair of a compound control packet.
pub(crate) fn is_control(payload: &[u8]) -> bool {
    matches!(payload, [first, SENDER_REPORT | RECEIVER_REPORT, ..] if first >> 6 == 2)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..at + 4)?
        .try_into()
        .ok()
        .map(u32::from_be_bytes)
}

impl ControlReports {
    /// Processes a compound packet from one host.
    pub(crate) fn take(&mut self, time_ns: i64, from: IpAddr, payload: &[u8]) {
        let mut rest = payload;
        while let [first, kind, high, low, ..] = *rest
            && first >> 6 == 2
        {
            let bytes = 4 * (usize::from(u16::from_be_bytes([high, low])) + 1);
            let packet = &rest[..bytes.min(rest.len())];
            self.take_one(time_ns, from, kind, usize::from(first & 0x1f), packet);
            rest = rest.get(bytes..).unwrap_or_default();
        }
    }

    fn take_one(&mut self, time_ns: i64, from: IpAddr, kind: u8, count: usize, packet: &[u8]) {
        let blocks = match kind {
            SENDER_REPORT => {
                self.remember(time_ns, packet);
                packet.get(HEADER_BYTES + SENDER_BYTES..)
            }
            RECEIVER_REPORT => packet.get(HEADER_BYTES..),
            _ => None,
        };
        for block in blocks
            .unwrap_or_default()
            .chunks_exact(BLOCK_BYTES)
            .take(count)
        {
            self.take_block(time_ns, from, block);
        }
    }

    /// Keeps the time of a sender report until its receiver echoes it.
    fn remember(&mut self, time_ns: i64, packet: &[u8]) {
        let Some(((source, seconds), fraction)) =
            word(packet, 4).zip(word(packet, 8)).zip(word(packet, 12))
        else {
            return;
        };
        if self.sent.len() == MOST_SENT {
            self.sent.pop_front();
        }
        self.sent
            .push_back((source, seconds << 16 | fraction >> 16, time_ns));
    }

    fn take_block(&mut self, time_ns: i64, from: IpAddr, block: &[u8]) {
        let [
            Some(source),
            Some(losses),
            Some(jitter_ticks),
            Some(last),
            Some(delay),
        ] = [0, 4, 12, 16, 20].map(|at| word(block, at))
        else {
            return;
        };
        let key = (source, from);
        if self.kept >= MOST_REPORTS {
            return;
        }
        if !self.reports.contains_key(&key) && self.reports.len() == MOST_STREAMS {
            self.forget_single_ones();
            if self.reports.len() == MOST_STREAMS {
                return;
            }
        }
        let report = ControlReport {
            time_ns,
            lost_share: f64::from(losses >> 24) / 256.0,
            // 24 bits with a sign
            lost: ((losses << 8) as i32) >> 8,
            jitter_ticks,
            round_trip_ns: self.round_trip_ns(time_ns, source, last, delay),
        };
        self.reports.entry(key).or_default().push(report);
        self.kept += 1;
    }

    /// Drops the sources with one report: those of encrypted reports are random, and come once.
    #[cold]
    fn forget_single_ones(&mut self) {
        self.reports.retain(|_, reports| reports.len() > 1);
        self.kept = self.reports.values().map(Vec::len).sum();
    }

    /// The time since the sender report `last` passed, less the time that the receiver kept it.
    fn round_trip_ns(&self, time_ns: i64, source: u32, last: u32, delay: u32) -> Option<i64> {
        if last == 0 {
            return None;
        }
        let is_it = |sent: &&(u32, u32, i64)| (sent.0, sent.1) == (source, last);
        let (.., sent_ns) = self.sent.iter().rev().find(is_it)?;
        let kept_ns = i64::from(delay) * 1_000_000_000 / 65_536;
        let trip_ns = time_ns.checked_sub(*sent_ns)?.checked_sub(kept_ns)?;
        (0..=LONGEST_TRIP_NS).contains(&trip_ns).then_some(trip_ns)
    }

    /// The reports on a stream to a host.
    pub(crate) fn on(&self, source: u32, receiver: IpAddr) -> &[ControlReport] {
        self.reports
            .get(&(source, receiver))
            .map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: u32 = 0xdead_beef;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn sender_report() -> Vec<u8> {
        bytes(&[0x80c8_0006, SOURCE, 0x0000_1234, 0x5678_0000, 160, 50, 8000])
    }

    fn receiver_report(lost: i32) -> Vec<u8> {
        let losses = 64 << 24 | (lost as u32 & 0x00ff_ffff);
        // half a second after the sender report of 0x1234.5678
        let block = [SOURCE, losses, 100, 80, 0x1234_5678, 0x8000];
        let header = [0x81c9_0007, 0x0bad_cafe];
        bytes(&[&header[..], &block].concat())
    }

    fn host(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn a_receiver_report_has_losses_jitter_and_a_round_trip_to_its_sender() {
        let mut reports = ControlReports::default();
        reports.take(1_000_000_000, host(1), &sender_report());
        reports.take(1_580_000_000, host(2), &receiver_report(7));
        let expected = ControlReport {
            time_ns: 1_580_000_000,
            lost_share: 0.25,
            lost: 7,
            jitter_ticks: 80,
            round_trip_ns: Some(80_000_000),
        };
        assert_eq!(reports.on(SOURCE, host(2)), [expected]);
        assert!(reports.on(SOURCE, host(1)).is_empty());
    }

    #[test]
    fn duplicates_make_the_count_of_losses_negative() {
        let mut reports = ControlReports::default();
        reports.take(0, host(2), &receiver_report(-3));
        assert_eq!(reports.on(SOURCE, host(2))[0].lost, -3);
        assert_eq!(reports.on(SOURCE, host(2))[0].round_trip_ns, None);
    }

    #[test]
    fn reports_in_one_compound_packet_are_all_read() {
        let mut both = receiver_report(1);
        both.extend(receiver_report(2));
        let mut reports = ControlReports::default();
        reports.take(0, host(2), &both);
        assert_eq!(reports.on(SOURCE, host(2)).len(), 2);
    }

    #[test]
    fn packets_cut_anywhere_are_read_as_far_as_they_are_whole() {
        let whole = receiver_report(1);
        for length in 0..whole.len() {
            let mut reports = ControlReports::default();
            reports.take(0, host(2), &whole[..length]);
            assert!(reports.on(SOURCE, host(2)).is_empty());
        }
    }

    #[test]
    fn random_sources_of_encrypted_reports_leave_room_for_others() {
        let mut reports = ControlReports::default();
        let of = |source: u32| {
            let mut packet = receiver_report(1);
            packet[8..12].copy_from_slice(&source.to_be_bytes());
            packet
        };
        reports.take(0, host(2), &of(7));
        reports.take(1, host(2), &of(7));
        for source in 1000..1000 + 2 * MOST_STREAMS as u32 {
            reports.take(2, host(2), &of(source));
        }
        reports.take(3, host(2), &of(8));
        assert_eq!(reports.on(7, host(2)).len(), 2);
        assert_eq!(reports.on(8, host(2)).len(), 1);
        assert!(reports.reports.len() <= MOST_STREAMS);
    }

    #[test]
    fn a_length_that_lies_ends_the_packet() {
        let mut packet = receiver_report(1);
        packet[2..4].copy_from_slice(&[0, 0]);
        let mut reports = ControlReports::default();
        reports.take(0, host(2), &packet);
        assert!(reports.on(SOURCE, host(2)).is_empty());
    }
}
