//! Plausibility of the values that a responder reports about one flow, by what this host knows itself: what it sent,
//! how long the test has run, and what numbers a recording can store.

use std::time::Duration;

use crate::flow::{FlowSpec, Kind};
use crate::sample::{BurstPacket, Datagrams, Departure, Interval, TcpSample};
use crate::udp::schedule::Schedule;

/// No clock shows a later time, and no count is higher: a recording stores signed numbers of 64 bits.
const MOST: i64 = i64::MAX / 2;
/// How much longer than the test a flow's reports may last: clocks drift, and a last interval has its nominal length.
const LONGER: Duration = Duration::from_secs(10);
const DRIFT: f64 = 1.01;
/// Packets that a sender may be ahead of its schedule, due to rounding.
const PACKETS_AHEAD: f64 = 64.0;
/// The bytes that a receiver may have counted beyond those that this host's kernel saw acknowledged at its last sample.
const UNSEEN_BYTES: u64 = 256 << 20;
const UNSEEN_FACTOR: u64 = 2;

/// The values of one flow that were reported so far.
#[derive(Debug)]
pub(super) struct Plausible {
    /// UDP payload of one packet, and packets in the flow; `None` for TCP.
    packets: Option<(u64, u64)>,
    every_ns: f64,
    interval: Duration,
    first_ns: Option<i64>,
    last_ns: i64,
    counted_packets: u64,
    counted_lost: i64,
    counted_bytes: u64,
    acknowledged_bytes: Option<u64>,
}

impl Plausible {
    pub(super) fn of(spec: &FlowSpec) -> Plausible {
        let schedule = match spec.kind {
            Kind::Tcp => None,
            _ => Schedule::of(spec).ok(),
        };
        let packets = schedule.as_ref().map(|schedule| {
            let slots = schedule.slots().unwrap_or(MOST as u64);
            (schedule.packet_bytes as u64, slots)
        });
        Plausible {
            packets,
            every_ns: schedule.map_or(1.0, |schedule| {
                schedule.every_ns / f64::from(schedule.per_burst)
            }),
            interval: Duration::try_from_secs_f64(spec.interval_s).unwrap_or_default(),
            first_ns: None,
            last_ns: 0,
            counted_packets: 0,
            counted_lost: 0,
            counted_bytes: 0,
            acknowledged_bytes: None,
        }
    }

    /// Checks an interval; intervals of a flow follow one another.
    pub(super) fn interval(
        &mut self,
        interval: &Interval,
        elapsed: Duration,
    ) -> Result<(), String> {
        let (start_ns, end_ns) = (interval.start_ns, interval.end_ns);
        self.time(start_ns, elapsed)?;
        if start_ns > end_ns || start_ns < self.last_ns {
            return Err(format!(
                "an interval from {start_ns} to {end_ns} ns; one after {} ns was expected",
                self.last_ns
            ));
        }
        self.time(end_ns, elapsed)?;
        self.last_ns = end_ns;
        self.counted_bytes = added(self.counted_bytes, interval.payload_bytes)
            .ok_or_else(|| format!("{} bytes in one interval", interval.payload_bytes))?;
        match (&interval.datagrams, self.packets) {
            (Some(datagrams), Some((bytes, most))) => {
                let payload_bytes = interval.payload_bytes;
                self.datagrams(datagrams, payload_bytes, (bytes, most), elapsed)
            }
            _ => Ok(()),
        }
    }

    fn datagrams(
        &mut self,
        datagrams: &Datagrams,
        payload_bytes: u64,
        (bytes, most): (u64, u64),
        elapsed: Duration,
    ) -> Result<(), String> {
        let packets = datagrams.packets;
        let sent = (elapsed.as_nanos() as f64 / self.every_ns * DRIFT + PACKETS_AHEAD) as u64;
        self.counted_packets = added(self.counted_packets, packets)
            .filter(|&counted| counted <= sent.min(most))
            .ok_or_else(|| {
                format!(
                    "{packets} packets in one interval; at most {} were sent so far",
                    sent.min(most)
                )
            })?;
        if payload_bytes > packets.saturating_mul(bytes) || datagrams.reordered > packets {
            return Err(format!(
                "{payload_bytes} bytes and {} reordered packets in {packets} packets of {bytes} bytes",
                datagrams.reordered
            ));
        }
        self.counted_lost = self
            .counted_lost
            .checked_add(datagrams.lost)
            .filter(|&lost| lost >= 0 && lost as u64 <= most)
            .ok_or_else(|| {
                format!(
                    "{} lost packets in one interval; {most} packets are planned",
                    datagrams.lost
                )
            })?;
        let is_span = |span_ns: i64| (-MOST..=MOST).contains(&span_ns);
        if !is_span(datagrams.delay_ns) || datagrams.jitter_ns < 0 || !is_span(datagrams.jitter_ns)
        {
            return Err(format!(
                "a delay of {} ns and a jitter of {} ns",
                datagrams.delay_ns, datagrams.jitter_ns
            ));
        }
        Ok(())
    }

    pub(super) fn sample(&mut self, sample: &TcpSample, elapsed: Duration) -> Result<(), String> {
        self.time(sample.time_ns, elapsed)?;
        let counts = [
            sample.retransmitted_bytes,
            sample.acked_bytes,
            sample.received_bytes,
            sample.sent_bytes,
        ];
        if let Some(count) = counts
            .into_iter()
            .flatten()
            .find(|&count| count > MOST as u64)
        {
            return Err(format!("a count of {count} bytes of a TCP sender"));
        }
        let rates = [
            sample.delivery_rate_bps,
            sample.pacing_rate_bps,
            sample.max_pacing_rate_bps,
        ];
        match rates
            .into_iter()
            .flatten()
            .find(|rate| !rate.is_finite() || *rate < 0.0)
        {
            Some(rate) => Err(format!("a rate of {rate} bit/s of a TCP sender")),
            None => Ok(()),
        }
    }

    pub(super) fn burst_packet(
        &mut self,
        packet: &BurstPacket,
        elapsed: Duration,
    ) -> Result<(), String> {
        if !is_time(packet.sent_ns) {
            return Err(format!("a packet sent at {} ns", packet.sent_ns));
        }
        if let Some(received_ns) = packet.received_ns {
            self.time(received_ns, elapsed)?;
        }
        let (bytes, most) = self.packets.unwrap_or_default();
        self.counted_packets += 1;
        if u64::from(packet.payload_bytes) > bytes || self.counted_packets > most {
            return Err(format!(
                "packet {} of {} bytes; {most} packets of {bytes} bytes were expected",
                self.counted_packets, packet.payload_bytes
            ));
        }
        Ok(())
    }

    pub(super) fn departure(
        &mut self,
        departure: &Departure,
        elapsed: Duration,
    ) -> Result<(), String> {
        self.time(departure.left_ns, elapsed)?;
        let (_, most) = self.packets.unwrap_or_default();
        if departure.sequence >= most {
            return Err(format!(
                "the departure of packet {}; {most} packets were expected",
                departure.sequence
            ));
        }
        Ok(())
    }

    /// Checks the list of probes that arrived: ranges in ascending order, of probes that are planned.
    pub(super) fn arrivals(&self, ranges: &[(u64, u64)]) -> Result<(), String> {
        let (_, most) = self.packets.unwrap_or_default();
        let mut least = 0;
        for &(first, last) in ranges {
            if first < least || last < first || last >= most {
                return Err(format!(
                    "arrivals of probes {first} to {last}; ascending numbers below {most} were expected"
                ));
            }
            least = last + 1;
        }
        Ok(())
    }

    /// Registers how much this host's kernel knows to have arrived.
    pub(super) fn acknowledge(&mut self, bytes: u64) {
        self.acknowledged_bytes = self.acknowledged_bytes.max(Some(bytes));
    }

    /// Compares the bytes that the receiver counted in all with those that it acknowledged.
    pub(super) fn total(&self) -> Result<(), String> {
        let Some(acknowledged) = self.acknowledged_bytes else {
            return Ok(());
        };
        let most = acknowledged
            .saturating_mul(UNSEEN_FACTOR)
            .saturating_add(UNSEEN_BYTES);
        match self.counted_bytes > most {
            true => Err(format!(
                "{} received bytes; this host's kernel saw {acknowledged} acknowledged",
                self.counted_bytes
            )),
            false => Ok(()),
        }
    }

    /// Checks a time of the responder's clock: all of a flow lie within the duration of the test.
    fn time(&mut self, time_ns: i64, elapsed: Duration) -> Result<(), String> {
        if !is_time(time_ns) {
            return Err(format!("the time {time_ns} ns, which no clock shows"));
        }
        let first_ns = *self.first_ns.get_or_insert(time_ns);
        let most = elapsed.mul_f64(DRIFT) + LONGER + self.interval;
        if u128::from(time_ns.abs_diff(first_ns)) > most.as_nanos() {
            return Err(format!(
                "the time {time_ns} ns, though a first one was {first_ns} ns and the test has run for {:.1} s",
                elapsed.as_secs_f64()
            ));
        }
        Ok(())
    }
}

/// Adds a count, as long as the sum can be stored.
fn added(sum: u64, count: u64) -> Option<u64> {
    sum.checked_add(count).filter(|&sum| sum <= MOST as u64)
}

/// True for a time that a clock can show.
pub(super) fn is_time(time_ns: i64) -> bool {
    (0..=MOST).contains(&time_ns)
}
