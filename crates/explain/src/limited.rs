//! Limits of transfers without losses: each cause claims the time of its limiters, and the claims compete.

use std::collections::BTreeMap;

use whydrop_tcp::{Flow, Limiter, Vantage};
use whydrop_verdict::{Cause, Fact, fact};

use crate::cause::{Outcome, Weight};
use crate::limits::{self, Times};
use crate::observe::Arrivals;
use crate::observe::Observation;
use crate::observe::totals::Totals;
use crate::thresholds::*;

/// The bottleneck of a sender with a full congestion window.
#[derive(Debug, Clone)]
pub struct Bottleneck {
    /// The cause to which a full congestion window is attributed ...
    congested: Cause,
    /// ... for flows without reordering ...
    in_order: Cause,
    /// ... and for a window that still grows with each acknowledgment.
    growing: Cause,
    /// Signals that repeatedly reduce windows. Then a constant flight size, or packets that leave without an
    /// acknowledgment, prove no buffer limit and no pacing; and marks prove no application limit.
    disturbs: &'static [Limiter],
    /// Share of the packets that waited in the bottleneck's queue: with a standing queue, full windows and
    /// buffers limit the queue, not the rate.
    standing: f64,
    /// Queueing delay without a known cause in seconds, if half of the packets were delayed for longer than a
    /// round trip.
    unexplained_s: Option<f64>,
    /// With few packets, only the amount of data to send is a limit.
    few_packets: bool,
    /// Odds that a queue before the capture point, or another cause, makes a sender look steady.
    doubt_odds: f64,
    /// No handshake showed the windows and their scale: a constant flight size may be the receiver's limit
    /// too, and the minimum round trip may include a standing queue.
    windows_unseen: bool,
    /// No second capture shows what lies behind this one.
    alone: bool,
    /// At the receiver nothing shows whether windows are full because of a queue, a link is saturated, or the
    /// sender paces itself.
    unseen: bool,
    at_receiver: bool,
    /// The receive window, while full, is closed for most of the time.
    window_closes: bool,
    /// The distance to the sender is unknown, and so is the length of its silences.
    sender_unknown: bool,
}

impl Bottleneck {
    /// From the delays, the marks and the order of the packets.
    pub fn of(seen: &Observation) -> Self {
        let totals = &seen.totals;
        let base_s = seen.base_rtt_s.unwrap_or(0.0);
        let noticed_s = (QUEUE_RTT_SHARE * base_s).max(SHORTEST_QUEUE_S);
        let trace = &seen.group_trace.trace;
        // counted in bytes: acknowledgments of single small packets wait for the receiver's timer
        let bytes_beyond = |bound_s: f64| {
            let delays = trace.delay_s.iter().zip(&trace.bytes);
            let beyond = delays.filter(|(delay_s, _)| f64::from(**delay_s) > bound_s);
            beyond.map(|(_, bytes)| f64::from(*bytes)).sum::<f64>()
        };
        // an unmeasured delay is NaN, and exceeds no bound
        let measured_bytes = bytes_beyond(-1.0).max(1.0);
        let longer = |bound_s: f64| bytes_beyond(bound_s) / measured_bytes;
        let drain = seen.drain.as_ref();
        let queue = drain.is_some_and(|d| d.explained > DELAY_EXPLAINED && d.largest_s > noticed_s);
        let reordered = totals.reordered as f64 / totals.data_packets.max(1) as f64;
        let reorders = totals.reordered >= FEWEST_LOSSES && reordered > REORDERED_SHARE;
        let few_packets = totals.data_packets < FEWEST_PACKETS;
        // only a part of the path may lie behind the capture point, and delays must be long relative to a
        // whole round trip
        let round_trip_s = (totals.whole_rtt_s.or(seen.base_rtt_s)).unwrap_or(USUAL_RTT_S);
        let long_s = round_trip_s.max(noticed_s);
        // if hardly any of the path lies behind the capture point, delays there are the receiver's own
        let at_receiver = totals.at_receiver || base_s < AT_RECEIVER_RTT_SHARE * round_trip_s;
        let waits = !few_packets && !at_receiver && longer(long_s) > 0.5;
        // for a hop measured at both ends, delays elsewhere are not the hop's
        let waits_back = !few_packets
            && !seen.delays_are_own
            && totals.typical_wait_back_s > long_s.max(SHORTEST_CLOCKED_S);
        // at the receiver only clocks that show queueing delays, or a steady rate, reveal why a window is
        // full
        let is_steady = |arrivals: Arrivals| arrivals.are_steady(1.0 - own_share(totals));
        let unseen = totals.at_receiver && !queue && seen.arrivals.is_some_and(is_steady);
        let sees_waits = seen.by_clocks || totals.sees_waits;
        let blind = totals.at_receiver && !sees_waits && outlasts_slow_start(totals);
        let settled = is_settled(seen);
        let in_order = match () {
            () if waits || unseen || blind => Cause::Unknown,
            () if at_receiver => Cause::None,
            () if settled => Cause::Sender,
            () => Cause::None,
        };
        let congested = match () {
            () if totals.ecn_echoes > 0 || totals.ce_marked > 0 => Cause::Aqm,
            () if queue => Cause::Shaper,
            () if waits_back => Cause::Shaper,
            () if reorders => Cause::Reordering,
            () => in_order,
        };
        Self {
            congested,
            in_order,
            unseen: unseen || blind,
            growing: match congested {
                _ if unseen || blind => Cause::Unknown,
                Cause::Reordering if reordered > MUCH_REORDERED_SHARE => Cause::Reordering,
                // the window grows no faster than acknowledgments arrive
                Cause::Shaper if waits_back && !queue => Cause::Shaper,
                _ => Cause::None,
            },
            disturbs: match congested {
                Cause::Aqm => &[Limiter::SendBuffer, Limiter::Pacing, Limiter::Application],
                Cause::Reordering => &[Limiter::SendBuffer, Limiter::Pacing],
                _ => &[],
            },
            // packets of bursts queue behind each other in a queue that is empty between bursts
            standing: longer(noticed_s).min(seen.link_busy().map_or(1.0, |link| link.share)),
            unexplained_s: (waits && !queue).then_some(round_trip_s),
            few_packets,
            doubt_odds: DOUBT_ODDS,
            windows_unseen: !totals.window_known,
            sender_unknown: false,
            at_receiver: totals.at_receiver,
            window_closes: 2.0 * totals.window_closed_s
                > totals.limited_s[Limiter::ReceiveWindow as usize],
            alone: true,
        }
    }

    /// The same path, for a capture with another one behind it.
    pub fn by_the_first_of_two(self) -> Self {
        Self {
            doubt_odds: FIRST_DOUBT_ODDS,
            windows_unseen: false,
            alone: false,
            ..self
        }
    }

    /// The same path, with one part known better.
    pub fn with_a_part(self, part: &Self) -> Self {
        Self {
            unexplained_s: self.unexplained_s.or(part.unexplained_s),
            ..self
        }
    }

    /// The same path after losses that reduced windows: the element that drops is the bottleneck if it is a
    /// queue.
    pub fn dropping(self, cause: Cause) -> Self {
        let congested = match (cause, self.congested) {
            (Cause::Aqm | Cause::ShallowQueue | Cause::DeepQueue, _) => cause,
            // after a loss windows stay small for long
            (Cause::Policer | Cause::RandomLoss | Cause::Unknown, Cause::Sender) => Cause::None,
            (_, congested) => congested,
        };
        Self { congested, ..self }
    }

    /// The same path for a flow of which only the data was captured: there was no window that could explain a
    /// constant flight size, and no queue in which acknowledgments wait.
    pub fn of_flow(&self, flow: &Flow) -> Self {
        // with two captures, reordering in one may be known only to the other
        if self.alone && self.congested == Cause::Reordering && !feels_reordering(flow) {
            let in_order = Self {
                congested: self.in_order,
                growing: Cause::None,
                disturbs: &[],
                ..self.clone()
            };
            return in_order.of_flow(flow);
        }
        let windows_unseen = self.alone && flow.window_scale.is_none();
        // at the receiver: no handshake, no request and no timestamps show the distance to the sender
        let is_far = matches!(flow.vantage, Vantage::Receiver | Vantage::Middle);
        let sender_unknown = is_far && flow.account().near_rtt_ns.is_none();
        let congested = match self.congested {
            Cause::Sender | Cause::None if limits::is_unseen(flow) => Cause::Unknown,
            Cause::Sender if windows_unseen => Cause::Unknown,
            congested => congested,
        };
        Self {
            congested,
            windows_unseen,
            sender_unknown,
            ..self.clone()
        }
    }

    fn is_queue(&self) -> bool {
        matches!(
            self.congested,
            Cause::Shaper | Cause::ShallowQueue | Cause::DeepQueue
        )
    }

    /// The claims of each cause on the time of each limiter.
    fn claims(&self, times_s: &Times) -> BTreeMap<Cause, Claim> {
        let total_s: f64 = times_s.iter().sum();
        let mut claims: BTreeMap<Cause, Claim> = BTreeMap::new();
        for (limiter, time_s) in Limiter::ALL.into_iter().zip(times_s) {
            let share = time_s / total_s.max(SHORTEST_TIME_S);
            let at_the_ends = limits::cause_at_the_ends(limiter)
                .filter(|cause| !(self.few_packets && *cause == Cause::Sender));
            let standing = if self.is_queue() {
                share * self.standing
            } else {
                0.0
            };
            // a closed window is visible everywhere
            let unseen = self.unseen && !(limiter == Limiter::ReceiveWindow && self.window_closes);
            let mut claim = |cause, share: f64| {
                if share > 0.0 {
                    claims.entry(cause).or_default().add(cause, limiter, share);
                }
            };
            match limiter {
                Limiter::Outage => claim(Cause::Outage, share),
                Limiter::CongestionWindow | Limiter::LossRecovery => claim(self.congested, share),
                disturbed if self.disturbs.contains(&disturbed) => claim(self.congested, share),
                Limiter::SlowStart => {
                    claim(self.congested, standing);
                    claim(self.growing, share - standing);
                }
                Limiter::Application
                | Limiter::PeerApplication
                | Limiter::SendBuffer
                | Limiter::Pacing
                | Limiter::DelayedAck
                    if self.sender_unknown =>
                {
                    claim(Cause::Unknown, share);
                }
                // a window with an unknown scale may be too small
                Limiter::Application if self.windows_unseen && self.at_receiver => {
                    claim(Cause::Unknown, share);
                }
                Limiter::ReceiveWindow | Limiter::SendBuffer | Limiter::Pacing if unseen => {
                    claim(Cause::Unknown, share);
                }
                // packets that leave evenly through a standing queue are spaced by that queue: a slower
                // sender would not fill it
                Limiter::ReceiveWindow | Limiter::SendBuffer | Limiter::Pacing => {
                    let unseen = self.windows_unseen && limiter == Limiter::SendBuffer;
                    let at_the_ends = at_the_ends.map(|cause| match unseen {
                        true => Cause::Unknown,
                        false => cause,
                    });
                    claim(self.congested, standing);
                    claim(at_the_ends.unwrap_or(Cause::None), share - standing);
                }
                _ => claim(at_the_ends.unwrap_or(Cause::None), share),
            }
        }
        if claims.is_empty() {
            // without acknowledgments only causes on the path itself can be known
            let unseen = Claim {
                unseen: true,
                ..Claim::default()
            };
            let by_the_path = match self.congested {
                Cause::Sender | Cause::Unknown => Cause::None,
                cause => cause,
            };
            claims.insert(by_the_path, unseen);
        }
        claims
    }

    /// The reason that rules a cause out: something made packets wait for a round trip.
    fn veto(&self, cause: Cause) -> Option<Fact> {
        let base_rtt_s = self.unexplained_s.filter(|_| cause == Cause::None)?;
        Some(fact!("waited-a-round-trip", base_rtt_s = base_rtt_s))
    }

    /// Judges time without losses, in seconds, in the order of [`Limiter::ALL`].
    pub fn judge(&self, times_s: &Times) -> Outcome {
        let mut weights = Vec::new();
        let mut background = 1.0;
        let mut claims = self.claims(times_s);
        let largest = claims
            .iter()
            .max_by(|(a, claim), (b, other)| claim.nats(**a).total_cmp(&other.nats(**b)));
        // growth of windows before they filled a measured queue does not contradict that queue
        if self.is_queue() && largest.is_some_and(|(cause, _)| *cause == self.congested) {
            claims.remove(&Cause::None);
        }
        let each = claims.iter().map(|(cause, claim)| claim.nats(*cause));
        let most = each.fold(f64::NEG_INFINITY, f64::max);
        for (cause, claim) in claims {
            let nats = most - RIVALRY * (most - claim.nats(cause));
            background += match cause {
                Cause::Unknown => nats.exp(),
                _ => self.doubt_odds * claim.doubtful_share() * nats.exp(),
            };
            if cause != Cause::Unknown {
                weights.push(Weight::new(cause, nats).unless(self.veto(cause)));
            }
        }
        if !weights.iter().any(|weight| weight.cause == Cause::None) {
            let none = |why| Weight::ruled_out(Cause::None, why);
            weights.extend(self.veto(Cause::None).map(none));
        }
        weights.push(Weight::new(Cause::Unknown, background.ln()));
        Outcome::of(weights)
    }
}

/// Share of the time in which an application had nothing to send.
fn own_share(totals: &Totals) -> f64 {
    limits::idle_s(&totals.limited_s) / totals.limited_s.iter().sum::<f64>().max(SHORTEST_TIME_S)
}

/// True if slow start and its aftermath are over. Without losses, marks and queueing, slow start fills any
/// window; after it, growth by a segment per round trip (RFC 5681) adds half to a window in half as many
/// round trips as it holds segments.
fn is_settled(seen: &Observation) -> bool {
    let totals = &seen.totals;
    let base_s = seen.base_rtt_s.unwrap_or(0.0);
    let round_trips = if base_s > 0.0 {
        totals.busy_s / base_s
    } else {
        0.0
    };
    let segments = totals.payload_bytes as f64 / f64::from(totals.mss_bytes.max(1));
    round_trips > SETTLED_ROUND_TRIPS + 0.5 * segments / round_trips.max(1.0)
}

/// True if a window that doubles each round trip would have carried all the data in half the time, so that
/// another limit applies.
fn outlasts_slow_start(totals: &Totals) -> bool {
    let rtt_s = totals
        .whole_rtt_s
        .unwrap_or(USUAL_RTT_S)
        .max(SHORTEST_RTT_S);
    let segments = totals.payload_bytes as f64 / f64::from(totals.mss_bytes.max(1));
    let doublings = (segments / INITIAL_SEGMENTS).max(1.0).log2() + 1.0;
    let active_s = totals.limited_s.iter().sum::<f64>() * (1.0 - own_share(totals));
    active_s / rtt_s > 2.0 * (doublings + 1.0)
}

/// True if packets of the flow were overtaken and its sender reacted: it retransmitted some that had arrived,
/// or so many were late that any window is affected.
fn feels_reordering(flow: &Flow) -> bool {
    let counters = &flow.counters;
    let share = counters.reordered as f64 / counters.packets.max(1) as f64;
    counters.reordered >= FEWEST_LOSSES
        && (share > MUCH_REORDERED_SHARE || share > REORDERED_SHARE && counters.spurious > 0)
}

/// The claim of a cause to the time.
#[derive(Debug, Clone, Copy, Default)]
struct Claim {
    /// Share of the time: of all limiters of one cause together; of the largest limiter without a cause.
    share: f64,
    /// Part of it that a queue before the capture point explains equally well: a constant flight size,
    /// packets that leave evenly, a congestion window full of packets that are not queued behind it.
    doubtful: f64,
    /// No acknowledgments show the limiter.
    unseen: bool,
}

impl Claim {
    fn add(&mut self, cause: Cause, limiter: Limiter, share: f64) {
        let doubtful = match (cause, limiter) {
            (Cause::Sender, Limiter::Application) => 0.0,
            (Cause::Sender, _) | (Cause::None, Limiter::CongestionWindow) => share,
            _ => 0.0,
        };
        if cause != Cause::None {
            self.share += share;
            self.doubtful += doubtful;
        } else if share > self.share {
            (self.share, self.doubtful) = (share, doubtful);
        }
    }

    /// Share of the claim that may belong to an unseen queue.
    fn doubtful_share(self) -> f64 {
        if self.unseen {
            0.0
        } else {
            self.doubtful / self.share
        }
    }

    fn nats(self, cause: Cause) -> f64 {
        let of_all_time = match cause {
            Cause::PeerApplication | Cause::Aqm | Cause::Reordering => ACCOUNT_NATS + SHOWN_NATS,
            _ => ACCOUNT_NATS,
        };
        match (self.unseen, cause) {
            (true, Cause::None) => UNSEEN_TIME_NATS,
            (true, _) => ACCOUNT_NATS,
            _ => of_all_time + SHARE_NATS * self.share.ln(),
        }
    }
}

/// Judges what limited a group without losses.
pub fn judge_lossless(seen: &Observation) -> Outcome {
    let times_s = &seen.totals.limited_s;
    Bottleneck::of(seen).judge(times_s)
}

#[cfg(test)]
#[path = "limited_tests.rs"]
mod tests;
