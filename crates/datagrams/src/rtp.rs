//! RTP (RFC 3550), recognised by the regularity of its header, and the results from its numbers and timestamps.
//!
//! Ports are no evidence: voice and video negotiate theirs elsewhere. Other protocols do not by chance send version 2,
//! one source identifier, numbers that advance by one, and timestamps that advance with the capture's time at the rate
//! of a media clock.

use crate::rtcp::ControlReport;
use crate::voice;

/// The fixed header.
const HEADER_BYTES: usize = 12;
/// The most sources followed in one flow: audio and video, and other bundled media (RFC 8843).
const MOST_STREAMS: usize = 8;
/// Fewer packets are not a stream: a fifth of a second of speech, a frame or two of video.
const FEWEST_PACKETS: u64 = 20;
/// Most of a stream's numbers advance by one, whatever the losses ...
const BY_ONE: f64 = 0.5;
/// ... and hardly any jump elsewhere: a larger step is a jump (MAX_DROPOUT and MAX_MISORDER, RFC 3550, A.1).
const MOST_DROPOUT: i64 = 3000;
const MOST_MISORDER: i64 = 100;
const NO_JUMP: f64 = 0.95;
/// Clocks of media, Hz (RFC 3551 and the payload formats after it).
const CLOCKS_HZ: [f64; 9] = [
    8e3, 11_025.0, 16e3, 22_050.0, 24e3, 32e3, 44_100.0, 48e3, 90e3,
];
/// Timestamps advance at such a rate within this share: half the distance to the next clock.
const CLOCK_TOLERANCE: f64 = 0.04;
/// Streams must account for this share of a flow's packets: the rest is control and connectivity checks.
const SHARE_OF_FLOW: f64 = 0.5;
/// How far below the highest number arrivals are remembered.
const REMEMBERED: i64 = 1024;

/// The sources of one flow.
#[derive(Debug, Default)]
pub(crate) struct RtpStreams {
    sources: Vec<SynchronizationSource>,
    /// Keep each packet of a source.
    keeps_packets: bool,
}

/// Most packets of a source that are kept: a day of speech.
const MOST_KEPT: usize = 1 << 22;

/// A packet of a stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RtpPacket {
    pub time_ns: i64,
    /// Without wrapping.
    pub number: i64,
    /// How much later it came than at the pace of the stream's clock, counted from the first packet, ns.
    pub late_ns: i64,
}

/// The results for one source of a flow.
#[derive(Debug, Clone, PartialEq)]
pub struct RtpStream {
    pub source: u32,
    pub payload_type: u8,
    pub clock_hz: f64,
    /// Packets that arrived, without duplicates.
    pub received: u64,
    /// Numbers that were sent, and those of them that never arrived.
    pub expected: u64,
    pub lost: u64,
    /// How many runs of numbers were missing.
    pub loss_runs: u64,
    pub duplicates: u64,
    /// Packets that arrived after one with a later number.
    pub reordered: u64,
    /// Interarrival jitter (RFC 3550, 6.4.1), seconds: at the end, its mean and its maximum.
    pub jitter_s: f64,
    pub jitter_mean_s: f64,
    pub jitter_max_s: f64,
    pub codec: Option<&'static str>,
    /// By the E-model; `None` for codecs that are negotiated elsewhere.
    pub opinion_score: Option<f64>,
    /// In the order of arrival, without duplicates; empty unless they are kept.
    pub packets: Vec<RtpPacket>,
    /// By the host that receives it.
    pub reports: Vec<ControlReport>,
}

/// The fields of a possible RTP header.
struct Header {
    payload_type: u8,
    number: u16,
    timestamp: u32,
    source: u32,
}

impl Header {
    fn of(payload_bytes: u32, payload: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER_BYTES] = payload.first_chunk()?;
        let contributors = u32::from(header[0] & 0xf);
        let payload_type = header[1] & 0x7f;
        // 64 to 95 would be control packets on the same port (RFC 5761), 35 to 63 are unassigned
        let assigned = !(35..96).contains(&payload_type);
        let fits = payload_bytes > HEADER_BYTES as u32 + 4 * contributors;
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        (header[0] >> 6 == 2 && assigned && fits).then(|| Self {
            payload_type,
            number: u16::from_be_bytes([header[2], header[3]]),
            timestamp: word(4),
            source: word(8),
        })
    }
}

impl RtpStreams {
    pub(crate) fn keeping(keeps_packets: bool) -> Self {
        Self {
            keeps_packets,
            ..Self::default()
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, time_ns: i64, payload_bytes: u32, payload: &[u8]) {
        if payload.first().is_none_or(|first| first >> 6 != 2) {
            return;
        }
        let Some(header) = Header::of(payload_bytes, payload) else {
            return;
        };
        let known = self
            .sources
            .iter_mut()
            .find(|source| source.identifier == header.source);
        if let Some(source) = known {
            source.take(time_ns, &header);
            return;
        }
        if self.sources.len() == MOST_STREAMS {
            // a source seen only once is replaced
            let Some(place) = self.sources.iter().position(|source| source.received == 1) else {
                return;
            };
            self.sources.swap_remove(place);
        }
        self.sources.push(SynchronizationSource::new(
            time_ns,
            &header,
            self.keeps_packets,
        ));
    }

    /// The certain RTP streams of a flow of `packets`.
    pub(crate) fn found(&mut self, packets: u64) -> Vec<RtpStream> {
        let found: Vec<RtpStream> = self
            .sources
            .iter_mut()
            .filter_map(SynchronizationSource::stream)
            .collect();
        let theirs: u64 = found
            .iter()
            .map(|stream| stream.received + stream.duplicates)
            .sum();
        if (theirs as f64) < SHARE_OF_FLOW * packets as f64 {
            return Vec::new();
        }
        found
    }
}

#[derive(Debug)]
struct SynchronizationSource {
    identifier: u32,
    payload_type: u8,
    /// Numbers and timestamps without wrapping: of the highest number, and before the latest jump.
    highest: i64,
    base: i64,
    expected_before: u64,
    arrived: [u64; (REMEMBERED / 64) as usize],
    received: u64,
    duplicates: u64,
    reordered: u64,
    loss_runs: u64,
    steps: u64,
    by_one: u64,
    jumps: u64,
    first_ns: i64,
    last_ns: i64,
    timestamp: i64,
    first_timestamp: i64,
    slope: Slope,
    jitter: [Jitter; CLOCKS_HZ.len()],
    /// Time, number and timestamp of each packet; `None` if they are not kept.
    packets: Option<Vec<(i64, i64, i64)>>,
}

/// Sums for a line through timestamps over time.
#[derive(Debug, Default)]
struct Slope {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Slope {
    fn take(&mut self, x: f64, y: f64) {
        self.count += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    fn slope(&self) -> Option<f64> {
        let spread = self.xx - self.x * self.x / self.count;
        (spread > 0.0).then(|| (self.xy - self.x * self.y / self.count) / spread)
    }
}

/// Interarrival jitter at one clock, seconds.
#[derive(Debug, Default, Clone, Copy)]
struct Jitter {
    now: f64,
    sum: f64,
    most: f64,
}

impl SynchronizationSource {
    fn new(time_ns: i64, header: &Header, keeps_packets: bool) -> Self {
        let number = i64::from(header.number);
        let mut source = Self {
            identifier: header.source,
            payload_type: header.payload_type,
            highest: number,
            base: number,
            expected_before: 0,
            arrived: [0; (REMEMBERED / 64) as usize],
            received: 1,
            duplicates: 0,
            reordered: 0,
            loss_runs: 0,
            steps: 0,
            by_one: 0,
            jumps: 0,
            first_ns: time_ns,
            last_ns: time_ns,
            timestamp: i64::from(header.timestamp),
            first_timestamp: i64::from(header.timestamp),
            slope: Slope::default(),
            jitter: Default::default(),
            packets: keeps_packets.then(|| vec![(time_ns, number, i64::from(header.timestamp))]),
        };
        source.slope.take(0.0, 0.0);
        source.remember(number, true);
        source
    }

    fn take(&mut self, time_ns: i64, header: &Header) {
        let ahead = i64::from(header.number.wrapping_sub(self.highest as u16) as i16);
        self.steps += 1;
        let number = if !(-MOST_MISORDER..=MOST_DROPOUT).contains(&ahead) {
            self.jump(ahead);
            self.highest
        } else if ahead > 0 {
            self.advance(ahead);
            self.highest
        } else if self.has_arrived(self.highest + ahead) {
            self.duplicates += 1;
            return;
        } else {
            self.reordered += 1;
            self.base = self.base.min(self.highest + ahead);
            self.highest + ahead
        };
        self.remember(number, true);
        self.received += 1;
        self.payload_type = header.payload_type;
        self.time(time_ns, header.timestamp);
        self.keep(time_ns, number);
    }

    /// Keeps a packet as long as this looks like a stream.
    fn keep(&mut self, time_ns: i64, number: i64) {
        let is_irregular =
            self.steps >= FEWEST_PACKETS && (self.by_one as f64) < BY_ONE * self.steps as f64;
        if is_irregular {
            self.packets = None;
        }
        if let Some(packets) = &mut self.packets
            && packets.len() < MOST_KEPT
        {
            packets.push((time_ns, number, self.timestamp));
        }
    }

    /// The packets that are kept, by a clock.
    fn kept(&mut self, clock_hz: f64) -> Vec<RtpPacket> {
        let (first_ns, first) = (self.first_ns, self.first_timestamp);
        let kept = self.packets.take().unwrap_or_default().into_iter();
        kept.map(|(time_ns, number, timestamp)| {
            let due_ns = ((timestamp - first) as f64 / clock_hz * 1e9).round() as i64;
            RtpPacket {
                time_ns,
                number,
                late_ns: time_ns.saturating_sub(first_ns).saturating_sub(due_ns),
            }
        })
        .collect()
    }

    /// After a jump counting restarts: either the sender restarted, or this is not RTP.
    fn jump(&mut self, ahead: i64) {
        self.jumps += 1;
        self.expected_before += (self.highest - self.base + 1) as u64;
        self.highest += ahead;
        self.base = self.highest;
        self.arrived = [0; (REMEMBERED / 64) as usize];
    }

    fn advance(&mut self, ahead: i64) {
        self.by_one += u64::from(ahead == 1);
        self.loss_runs += u64::from(ahead > 1);
        for number in self.highest + 1..=self.highest + ahead {
            self.remember(number, false);
        }
        self.highest += ahead;
    }

    fn remember(&mut self, number: i64, has_arrived: bool) {
        let place = number.rem_euclid(REMEMBERED);
        let bit = 1 << (place % 64);
        let word = &mut self.arrived[(place / 64) as usize];
        *word = if has_arrived {
            *word | bit
        } else {
            *word & !bit
        };
    }

    fn has_arrived(&self, number: i64) -> bool {
        let place = number.rem_euclid(REMEMBERED);
        number >= self.base && self.arrived[(place / 64) as usize] >> (place % 64) & 1 == 1
    }

    /// RFC 3550, A.8, for every possible clock: the right one is known at the end.
    fn time(&mut self, time_ns: i64, timestamp: u32) {
        let ticks = i64::from(timestamp.wrapping_sub(self.timestamp as u32) as i32);
        let elapsed_s = time_ns.saturating_sub(self.last_ns) as f64 * 1e-9;
        self.timestamp += ticks;
        self.last_ns = time_ns;
        self.slope.take(
            time_ns.saturating_sub(self.first_ns) as f64 * 1e-9,
            (self.timestamp - self.first_timestamp) as f64,
        );
        for (jitter, clock_hz) in self.jitter.iter_mut().zip(CLOCKS_HZ) {
            let difference_s = (elapsed_s - ticks as f64 / clock_hz).abs();
            jitter.now += (difference_s - jitter.now) / 16.0;
            jitter.sum += jitter.now;
            jitter.most = jitter.most.max(jitter.now);
        }
    }

    /// Index in [`CLOCKS_HZ`] of the clock at which timestamps advance.
    fn clock(&self) -> Option<usize> {
        let rate_hz = self.slope.slope()?;
        let suits = |clock_hz: &f64| (rate_hz / clock_hz - 1.0).abs() < CLOCK_TOLERANCE;
        let place = CLOCKS_HZ.iter().position(suits)?;
        let clock_hz = static_clock_hz(self.payload_type).unwrap_or(CLOCKS_HZ[place]);
        (clock_hz == CLOCKS_HZ[place]).then_some(place)
    }

    fn stream(&mut self) -> Option<RtpStream> {
        let share = |count: u64| count as f64 / self.steps.max(1) as f64;
        let regular = self.received >= FEWEST_PACKETS
            && share(self.by_one) > BY_ONE
            && share(self.jumps) < 1.0 - NO_JUMP;
        let clock = self.clock().filter(|_| regular)?;
        let expected = self.expected_before + (self.highest - self.base + 1) as u64;
        let lost = expected.saturating_sub(self.received);
        let lost_share = lost as f64 / expected as f64;
        let in_a_row = lost as f64 / self.loss_runs.max(1) as f64;
        let codec = voice::codec(self.payload_type);
        let jitter = self.jitter[clock];
        Some(RtpStream {
            source: self.identifier,
            payload_type: self.payload_type,
            clock_hz: CLOCKS_HZ[clock],
            received: self.received,
            expected,
            lost,
            loss_runs: self.loss_runs.min(lost),
            duplicates: self.duplicates,
            reordered: self.reordered,
            jitter_s: jitter.now,
            jitter_mean_s: jitter.sum / (self.received - 1) as f64,
            jitter_max_s: jitter.most,
            codec: codec.map(|codec| codec.name),
            // random losses come 1 / (1 - share) in a row
            opinion_score: codec
                .map(|codec| codec.opinion_score(lost_share, in_a_row * (1.0 - lost_share))),
            packets: self.kept(CLOCKS_HZ[clock]),
            reports: Vec::new(),
        })
    }
}

/// The clock of a static payload type (RFC 3551, tables 4 and 5); `None` for dynamic ones.
fn static_clock_hz(payload_type: u8) -> Option<f64> {
    match payload_type {
        // G.722 has a clock of 8000 Hz although it samples at twice that
        0 | 3 | 4 | 5 | 7 | 8 | 9 | 12 | 13 | 15 | 18 => Some(8e3),
        6 => Some(16e3),
        10 | 11 => Some(44_100.0),
        16 => Some(11_025.0),
        17 => Some(22_050.0),
        14 | 25 | 26 | 28 | 31..=34 => Some(90e3),
        _ => None,
    }
}
