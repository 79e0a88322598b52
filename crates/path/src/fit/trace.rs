//! The input of a fit: packets sorted by time, with fates and delays.

use super::level::Server;

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Passed,
    Lost,
    /// Assumed to have passed, but no evidence for or against any model.
    Unknown,
}

/// One packet before the path element.
#[derive(Debug, Clone, Copy)]
pub struct TracePacket {
    pub time_ns: i64,
    /// IP bytes.
    pub bytes: u32,
    pub outcome: Seen,
    /// Round-trip time above the minimum of its flow, if this packet's own acknowledgment measured it.
    pub delay_s: Option<f32>,
}

/// A full packet on Ethernet, if no packet shows the size.
const ETHERNET_BYTES: f64 = 1500.0;

fn median(mut sizes: Vec<f32>) -> Option<f64> {
    let middle = sizes.len() / 2;
    (!sizes.is_empty()).then(|| f64::from(*sizes.select_nth_unstable_by(middle, f32::total_cmp).1))
}

/// Number of packets of unknown fate at the start, if they are more than a handshake (a full packet): one of
/// two captures began later. The tokens that they took from a bucket are unknown, and so is the traffic
/// before them.
pub fn unseen_at_start(outcome: &[Seen], bytes: &[f32], full_bytes: f64) -> usize {
    let unseen = outcome.iter().take_while(|seen| **seen == Seen::Unknown);
    let unseen = unseen.count();
    let taken: f64 = bytes[..unseen].iter().copied().map(f64::from).sum();
    match taken > full_bytes {
        true => unseen,
        false => 0,
    }
}

/// Observations as columns, sorted by time.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// Time of the first packet, the origin of `time_s`.
    pub start_ns: i64,
    pub time_s: Vec<f64>,
    pub bytes: Vec<f32>,
    pub outcome: Vec<Seen>,
    /// NaN if no delay was measured.
    pub delay_s: Vec<f32>,
    pub lost: usize,
    pub passed: usize,
    /// Bytes of packets that were not lost.
    pub passed_bytes: f64,
    pub largest_bytes: f32,
    /// Size of a full packet: the median, since most data packets are full.
    pub typical_bytes: f64,
}

impl Trace {
    /// Sorts by time; packets with equal times keep their order.
    pub fn new(mut observations: Vec<TracePacket>) -> Self {
        if !observations.is_sorted_by_key(|observation| observation.time_ns) {
            observations.sort_by_key(|observation| observation.time_ns);
        }
        let count = observations.len();
        let mut trace = Self {
            start_ns: observations.first().map_or(0, |first| first.time_ns),
            time_s: Vec::with_capacity(count),
            bytes: Vec::with_capacity(count),
            outcome: Vec::with_capacity(count),
            delay_s: Vec::with_capacity(count),
            ..Self::default()
        };
        for observation in &observations {
            trace.push(observation);
        }
        trace.typical_bytes = median(trace.bytes.clone()).unwrap_or(ETHERNET_BYTES);
        trace
    }

    fn push(&mut self, observation: &TracePacket) {
        let bytes = observation.bytes as f32;
        // a damaged clock may exceed the range of 292 years
        let since_start_ns = observation.time_ns.saturating_sub(self.start_ns);
        self.time_s.push(since_start_ns as f64 * 1e-9);
        self.bytes.push(bytes);
        self.outcome.push(observation.outcome);
        self.delay_s.push(observation.delay_s.unwrap_or(f32::NAN));
        self.largest_bytes = self.largest_bytes.max(bytes);
        match observation.outcome {
            Seen::Lost => self.lost += 1,
            Seen::Passed => self.passed += 1,
            Seen::Unknown => {}
        }
        if observation.outcome != Seen::Lost {
            self.passed_bytes += f64::from(bytes);
        }
    }

    /// The same packets as they leave a line of `rate_bps` behind the capture point: each waits for those
    /// before it. Their delays no longer include the wait for the line. A sender's capture shows packets
    /// before its own interface queues them, and super-segments before they are split.
    pub fn through_line(&self, rate_bps: f64) -> Self {
        let mut line = Server::IDLE;
        let arrivals = self.time_s.iter().zip(&self.bytes);
        let leaves = arrivals
            .map(|(arrival_s, bytes)| line.serve(*arrival_s, f64::from(*bytes) * 8.0 / rate_bps));
        let time_s: Vec<f64> = leaves.collect();
        let times = time_s.iter().zip(&self.time_s).zip(&self.delay_s);
        let delays =
            times.map(|((leaves_s, arrival_s), delay_s)| delay_s - (leaves_s - arrival_s) as f32);
        let mut delay_s: Vec<f32> = delays.collect();
        // the smallest delay is zero again: the rest is the path's own time
        let measured = delay_s.iter().copied().filter(|delay_s| !delay_s.is_nan());
        let least_s = measured.fold(f32::INFINITY, f32::min);
        delay_s.iter_mut().for_each(|delay_s| *delay_s -= least_s);
        Self {
            time_s,
            bytes: self.bytes.clone(),
            outcome: self.outcome.clone(),
            delay_s,
            ..*self
        }
    }

    /// The first packets, at most `most` of them.
    pub fn first(mut self, most: usize) -> Self {
        if self.len() <= most {
            return self;
        }
        self.time_s.truncate(most);
        self.bytes.truncate(most);
        self.outcome.truncate(most);
        self.delay_s.truncate(most);
        self.counted()
    }

    /// The packets from one on; times are relative to it.
    pub(super) fn starting_at(mut self, first: usize) -> Self {
        self.time_s.drain(..first);
        let start_s = self.time_s.first().copied().unwrap_or(0.0);
        self.time_s.iter_mut().for_each(|time_s| *time_s -= start_s);
        self.start_ns = self.start_ns.saturating_add((start_s * 1e9).round() as i64);
        self.bytes.drain(..first);
        self.outcome.drain(..first);
        self.delay_s.drain(..first);
        self.counted()
    }

    /// See [`unseen_at_start`].
    pub fn unseen_at_start(&self) -> usize {
        unseen_at_start(&self.outcome, &self.bytes, self.typical_bytes)
    }

    fn counted(mut self) -> Self {
        let count = |wanted| self.outcome.iter().filter(|seen| **seen == wanted).count();
        (self.lost, self.passed) = (count(Seen::Lost), count(Seen::Passed));
        let packets = self.bytes.iter().zip(&self.outcome);
        let stayed = packets.filter(|(_, seen)| **seen != Seen::Lost);
        self.passed_bytes = stayed.map(|(bytes, _)| f64::from(*bytes)).sum();
        self
    }

    /// Time since the packet before (or the start), bytes and fate of each packet.
    pub(super) fn arrivals(&self) -> impl Iterator<Item = (f64, f64, Seen)> + '_ {
        let mut last_s = 0.0;
        let packets = self.time_s.iter().zip(&self.bytes).zip(&self.outcome);
        packets.map(move |((time_s, bytes), outcome)| {
            let gap_s = time_s - std::mem::replace(&mut last_s, *time_s);
            (gap_s, f64::from(*bytes), *outcome)
        })
    }

    pub fn len(&self) -> usize {
        self.time_s.len()
    }

    pub fn is_empty(&self) -> bool {
        self.time_s.is_empty()
    }

    pub fn duration_s(&self) -> f64 {
        self.time_s.last().copied().unwrap_or(0.0)
    }

    /// Runs of consecutively lost packets.
    pub fn loss_runs(&self) -> usize {
        let starts = |pair: &&[Seen]| pair[0] != Seen::Lost && pair[1] == Seen::Lost;
        let first = usize::from(self.outcome.first() == Some(&Seen::Lost));
        first + self.outcome.windows(2).filter(starts).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_one_instant_leave_a_line_one_after_the_other() {
        // 1000 bytes at 8 Mbit/s take 1 ms each: they leave at 1, 2 and 3 ms
        let packet = |delay_s| TracePacket {
            time_ns: 7,
            bytes: 1000,
            outcome: Seen::Passed,
            delay_s: Some(delay_s),
        };
        let trace = Trace::new(vec![packet(0.0), packet(0.001), packet(0.005)]);
        let through = trace.through_line(8e6);
        assert!(
            through
                .time_s
                .iter()
                .zip([0.001, 0.002, 0.003])
                .all(|(a, b)| (a - b).abs() < 1e-12)
        );
        // the second waited 1 ms for the line, the third 2 ms: 3 ms of its 5 are left
        assert!(
            through
                .delay_s
                .iter()
                .zip([0.0, 0.0, 0.003])
                .all(|(a, b)| (a - b).abs() < 1e-6)
        );
    }
}
