//! Limiters of a flow at each moment: the result of the account of all time.

use crate::clocked_waits::ClockedWait;

/// The limiter that keeps a sender from sending more, in the order of a sender's checks (Linux's `tcp_write_xmit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Limiter {
    /// The handshake is not complete at the data sender.
    ConnectionSetup,
    /// A request had arrived, and the far application had not begun to answer it.
    PeerApplication,
    /// All written data is outstanding; no more was written, or Nagle's algorithm delays it (RFC 896).
    Application,
    /// The congestion window is full, and grows with each acknowledgment (RFC 5681).
    SlowStart,
    /// The congestion window is full, outside slow start.
    CongestionWindow,
    /// From the detection of a loss until all data outstanding then is acknowledged, and the silence before a timeout.
    LossRecovery,
    /// The receive window has no room for the next segment.
    ReceiveWindow,
    /// The send buffer is full of unacknowledged data.
    SendBuffer,
    /// The receiver's timer delayed the acknowledgment of all outstanding data (RFC 1122, section 4.2.3.2).
    DelayedAck,
    /// The next packet waits for its turn at a fixed pacing rate.
    Pacing,
    /// No packet passes.
    Outage,
}

impl Limiter {
    pub const ALL: [Self; 11] = [
        Self::ConnectionSetup,
        Self::PeerApplication,
        Self::Application,
        Self::SlowStart,
        Self::CongestionWindow,
        Self::LossRecovery,
        Self::ReceiveWindow,
        Self::SendBuffer,
        Self::DelayedAck,
        Self::Pacing,
        Self::Outage,
    ];

    /// The name in documents and in the simulator's truth files.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConnectionSetup => "connection-setup",
            Self::PeerApplication => "peer-application",
            Self::Application => "application",
            Self::SlowStart => "slow-start",
            Self::CongestionWindow => "congestion-window",
            Self::LossRecovery => "loss-recovery",
            Self::ReceiveWindow => "receive-window",
            Self::SendBuffer => "send-buffer",
            Self::DelayedAck => "delayed-ack",
            Self::Pacing => "pacing",
            Self::Outage => "outage",
        }
    }
}

/// A span of time with its limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from_ns: i64,
    pub until_ns: i64,
    pub limiter: Limiter,
}

/// All the time of a flow, on the capture's clock, from the sender's view: data that passes the capture point left half
/// of the near round trip before, and acknowledgments arrive as much later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Contiguous spans; adjacent ones have different limiters.
    pub spans: Vec<Span>,
    /// From the request (the first: from the SYN) until the last acknowledgment, for each of the flow's transfers.
    pub transfers: Vec<(i64, i64)>,
    /// Round-trip time from the capture point to the sender; `None` if unknown.
    pub near_rtt_ns: Option<i64>,
    /// Usual round-trip time to the sender with its queues: the median over data that echoes acknowledgments; `None`
    /// without timestamps.
    pub usual_near_rtt_ns: Option<i64>,
    /// Timestamps show how long packets waited before the capture point, even if they did not wait.
    pub sees_waits: bool,
    /// Results from timestamps, if there are any.
    pub by_clocks: Option<Box<ByClocks>>,
}

/// Waits and acknowledgments inferred from timestamps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByClocks {
    /// Waits of acknowledgments on the return path, from the receiver's clock; empty if it is unusable or the waits
    /// were below its resolution.
    pub waits_back: Vec<ClockedWait>,
    /// Waits of data between the sender and the capture point, from the sender's clock.
    pub waits_before: Vec<ClockedWait>,
    /// Round-trip time from the capture point to the sender, from the data that echoed acknowledgments soonest,
    /// including standing queues. Accurate to a tick.
    pub near_rtt_ns: Option<i64>,
    /// Set if acknowledgments were not captured but inferred from the timestamps that the data echoes, without windows:
    /// the least round-trip time to the receiver from these.
    pub echoed_rtt_ns: Option<i64>,
    /// If so: the flight does not grow as under a congestion window, so the receive window or the send buffer limits
    /// it.
    pub stands: bool,
    /// If so: the usual excess delay of acknowledgments at the sender over the fastest ones although newer ones were in
    /// flight; 0 if there was none.
    pub late_ns: i64,
}

impl Account {
    /// True if acknowledgments were not captured, but inferred from echoes.
    pub fn by_echoes(&self) -> bool {
        self.echoed_rtt_ns().is_some()
    }

    /// If so: the least round-trip time to the receiver.
    pub fn echoed_rtt_ns(&self) -> Option<i64> {
        self.by_clocks.as_ref()?.echoed_rtt_ns
    }

    pub fn waits_back(&self) -> &[ClockedWait] {
        self.by_clocks
            .as_ref()
            .map_or(&[], |clocks| &clocks.waits_back)
    }

    pub fn waits_before(&self) -> &[ClockedWait] {
        self.by_clocks
            .as_ref()
            .map_or(&[], |clocks| &clocks.waits_before)
    }

    /// Time of each limiter within bounds, nanoseconds, in the order of [`Limiter::ALL`].
    pub fn times_ns(&self, from_ns: i64, until_ns: i64) -> [i64; 11] {
        let mut times = [0; 11];
        let first = self.spans.partition_point(|span| span.until_ns <= from_ns);
        for span in self.spans[first..]
            .iter()
            .take_while(|span| span.from_ns < until_ns)
        {
            times[span.limiter as usize] += span.until_ns.min(until_ns) - span.from_ns.max(from_ns);
        }
        times
    }

    pub fn bounds(&self) -> Option<(i64, i64)> {
        Some((self.spans.first()?.from_ns, self.spans.last()?.until_ns))
    }

    /// Removes everything from this time on.
    pub(crate) fn retract(&mut self, from_ns: i64) {
        while self.spans.pop_if(|span| span.from_ns >= from_ns).is_some() {}
        if let Some(last) = self.spans.last_mut() {
            last.until_ns = last.until_ns.min(from_ns);
        }
    }

    /// Appends a span that begins where the last one ended.
    pub(crate) fn push(&mut self, until_ns: i64, from_ns: i64, limiter: Limiter) {
        let from_ns = self.spans.last().map_or(from_ns, |span| span.until_ns);
        match self.spans.last_mut() {
            _ if until_ns <= from_ns => {}
            Some(last) if last.limiter == limiter => last.until_ns = until_ns,
            _ => self.spans.push(Span {
                from_ns,
                until_ns,
                limiter,
            }),
        }
    }
}
