//! Limiters of a flow at each moment: the words of the account of all time.

use crate::clocked_waits::ClockedWait;

/// The limiter that keeps a sender from sending more, after the order in which a sender asks (Linux's
/// `tcp_write_xmit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Limiter {
    /// The handshake is not over at the data sender.
    ConnectionSetup,
    /// A request was there and the far application had not begun to answer it.
    PeerApplication,
    /// All that was written is out, and nothing more was written, or Nagle's algorithm holds it back (RFC 896).
    Application,
    /// The congestion window is full, and grows with each acknowledgment (RFC 5681).
    SlowStart,
    /// The congestion window is full otherwise.
    CongestionWindow,
    /// From the discovery of a loss until all that was out then is acknowledged; and the silence before a timer.
    LossRecovery,
    /// The receive window has no room for the next segment.
    ReceiveWindow,
    /// The send buffer is full of what is not acknowledged.
    SendBuffer,
    /// The receiver's timer held back the acknowledgment of all that was out (RFC 1122, section 4.2.3.2).
    DelayedAck,
    /// The next packet waits for its turn at a rate that is set.
    Pacing,
    /// Nothing passes.
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

    /// The name in documents; the simulator's truths have the same.
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

/// A stretch of time with its limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from_ns: i64,
    pub until_ns: i64,
    pub limiter: Limiter,
}

/// All the time of a flow, on the capture's clock, as its sender lived it: data that passes the capture point left half
/// of the near round trip before, acknowledgments arrive as much later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// One behind the other without gaps, neighbours with different limiters.
    pub spans: Vec<Span>,
    /// From the request (the first: from the SYN) until the last acknowledgment, of each of the flow's transfers.
    pub transfers: Vec<(i64, i64)>,
    /// From the capture point to the sender and back; `None` where nothing tells.
    pub near_rtt_ns: Option<i64>,
    /// The same with what queues on that way, by half of the data that echoes acknowledgments; `None` without timestamps.
    pub usual_near_rtt_ns: Option<i64>,
    /// Timestamps show how long packets waited before the capture point, be it not at all.
    pub sees_waits: bool,
    /// By timestamps, where they tell of something.
    pub by_clocks: Option<Box<ByClocks>>,
}

/// Waits and acknowledgments that the clocks in timestamps tell of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByClocks {
    /// Waits of acknowledgments on the way back, by the receiver's clock in them; empty where it does not tell, or where
    /// none waited longer than it can tell.
    pub waits_back: Vec<ClockedWait>,
    /// The same of data between the sender and the capture point, by the sender's clock.
    pub waits_before: Vec<ClockedWait>,
    /// From the capture point to the sender and back, by the data that echoed acknowledgments soonest: with what stood in
    /// queues on that way all the time. Known to a tick.
    pub near_rtt_ns: Option<i64>,
    /// Acknowledgments were not captured, but told by the timestamps that the data echoes; windows were not. The least time
    /// to the receiver and back, by these.
    pub echoed_rtt_ns: Option<i64>,
    /// Then: the flight does not grow as under a congestion window, so that it is the receive window's or the send buffer's.
    pub stands: bool,
    /// Then: by how much more than the fastest most acknowledgments were late at the sender, though newer ones were under way; 0
    /// where they were not.
    pub late_ns: i64,
}

impl Account {
    /// Acknowledgments were not captured, but told by echoes.
    pub fn by_echoes(&self) -> bool {
        self.echoed_rtt_ns().is_some()
    }

    /// Then: the least time to the receiver and back.
    pub fn echoed_rtt_ns(&self) -> Option<i64> {
        self.by_clocks.as_ref()?.echoed_rtt_ns
    }

    pub fn waits_back(&self) -> &[ClockedWait] {
        self.by_clocks.as_ref().map_or(&[], |told| &told.waits_back)
    }

    pub fn waits_before(&self) -> &[ClockedWait] {
        self.by_clocks
            .as_ref()
            .map_or(&[], |told| &told.waits_before)
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

    /// Takes back all from then on.
    pub(crate) fn retract(&mut self, from_ns: i64) {
        while self.spans.pop_if(|span| span.from_ns >= from_ns).is_some() {}
        if let Some(last) = self.spans.last_mut() {
            last.until_ns = last.until_ns.min(from_ns);
        }
    }

    /// Appends a stretch that begins where the last one ended.
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
