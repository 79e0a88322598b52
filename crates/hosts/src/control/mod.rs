//! Congestion control: how many packets may be in flight, and at which rate.

mod bbr;
mod cubic;
mod fixed;
mod hystart;
mod linux_bbr;
mod long_term;
mod new_reno;
mod reno;
mod whole;
mod window;
mod windowed_max;

use std::fmt::Debug;

use crate::sender::RateSample;
use bbr::Bbr;
use cubic::Cubic;
use fixed::Fixed;
pub use hystart::Sampled;
use linux_bbr::LinuxBbr;
use new_reno::NewReno;
use reno::Reno;
pub use window::Congestion;

/// The algorithm of a sender.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Algorithm {
    /// RFC 9438 as in Linux, with its HyStart.
    Cubic,
    /// RFC 5681 with the recovery of RFC 6675.
    NewReno,
    /// The same in Linux's arithmetic.
    Reno,
    /// The initial window throughout, whatever is lost: with pacing at this rate, like BBR between its probes.
    FixedRate { rate_bps: u64 },
    /// A model of the steady state of draft-ietf-ccwg-bbr.
    Bbr,
    /// BBR's first version, as in Linux 6.1.
    LinuxBbr,
}

impl Algorithm {
    fn controller(self, initial_window: f64) -> Box<dyn Controller> {
        match self {
            Self::Cubic => Box::<Cubic>::default(),
            Self::NewReno => Box::new(NewReno),
            Self::Reno => Box::<Reno>::default(),
            Self::FixedRate { .. } => Box::new(Fixed),
            Self::Bbr => Box::new(Bbr::new(initial_window)),
            Self::LinuxBbr => Box::new(LinuxBbr::new(initial_window)),
        }
    }
}

/// The decisions of a congestion control. Slow start, recovery and the restart after silence are the sender's, alike for
/// all of those without a window of their own.
pub trait Controller: Debug + Send {
    /// Returns the window in congestion avoidance, grown from `cwnd` by the acknowledged packets.
    fn grow(&mut self, cwnd: f64, acked: Acked) -> f64;

    /// Returns the window to reduce `cwnd` to after losses, the threshold of slow start. `in_flight` is the number of
    /// packets in flight.
    fn on_loss(&mut self, cwnd: f64, in_flight: f64) -> f64;

    /// Starts again after a pause, or because a reduction turned out to be spurious.
    fn restart(&mut self) {}

    /// True if losses and pauses do not change the window, because a rate or a model of the path sets it.
    fn has_own_window(&self) -> bool {
        false
    }

    /// Adds an acknowledgment to a model of the path; returns the window that it sets.
    fn on_ack(&mut self, _sample: PathSample) -> Option<f64> {
        None
    }

    /// Adds an acknowledgment after losses were detected; returns the window that a model of the path sets.
    fn on_answer(&mut self, _answer: Answer) -> Option<f64> {
        None
    }

    /// Reacts to an expired retransmission timer, with this many segments still in flight; returns the window, if it is
    /// not one segment.
    fn on_timeout(&mut self, _in_flight: f64) -> Option<f64> {
        None
    }

    /// Returns whether a start-up other than slow start lasts, if there is one.
    fn in_startup(&self) -> Option<bool> {
        None
    }

    /// Since when the window of a start-up has not grown, which becomes known only later.
    fn stands_since_ns(&self) -> Option<i64> {
        None
    }

    /// The rate of a control that paces by itself, segments per second.
    fn pacing_rate(&self, _smoothed_rtt_ns: i64) -> Option<f64> {
        None
    }

    /// True if the host itself paces: it does not pace the first segments, and makes up for some of its lateness.
    fn paces_in_its_host(&self) -> bool {
        false
    }
}

/// Packets acknowledged while the window was the limit.
#[derive(Debug, Clone, Copy)]
pub struct Acked {
    pub now_ns: i64,
    pub packets: f64,
    pub least_rtt_ns: i64,
}

/// The state of the path as an acknowledgment shows it.
#[derive(Debug, Clone, Copy)]
pub struct PathSample {
    pub now_ns: i64,
    pub rate: Option<RateSample>,
    pub rtt_ns: Option<i64>,
    /// Segments in flight, and those delivered and detected as lost since the beginning.
    pub in_flight: usize,
    pub delivered: u64,
    pub lost: u64,
    /// The application had no more data to send.
    pub starved: bool,
}

/// An acknowledgment after losses were detected.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    pub now_ns: i64,
    pub rate: Option<RateSample>,
    pub rtt_ns: Option<i64>,
    pub smoothed_rtt_ns: i64,
    /// Segments in flight, now and before it.
    pub in_flight: usize,
    pub in_flight_before: usize,
    /// Segments delivered and detected as lost since the beginning, and by this acknowledgment.
    pub delivered: u64,
    pub newly_delivered: u64,
    pub lost: u64,
    pub newly_lost: u64,
    /// The application had no more data to send.
    pub starved: bool,
    pub cwnd: f64,
    pub repair: Repair,
    /// When pacing permits the next segment.
    pub next_send_ns: i64,
}

/// Losses that a sender repairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repair {
    #[default]
    None,
    Losses,
    Timeout,
}
