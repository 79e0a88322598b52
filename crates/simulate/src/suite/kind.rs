//! Every kind of capture and of pair that is drawn: its names, the right causes, what it must show, how it is drawn.

use super::draw::captures::{self, Beside, Form};
use super::draw::paths::{self, Depth, Fair, Lossy, Policed};
use super::draw::{Law, hosts};
use super::shows::{LEAST_HOST_LIMITED, LEAST_OUTAGE, LEAST_WINDOW_LIMITED, Observed};
use super::world::{World, pair};
use crate::truth::FlowTruth;
use whydrop_network::limiter::Limiter;
use whydrop_path::Random;

/// A kind of captures, or of pairs of them.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    /// The kind in truth files and scoring scripts, which kinds of pairs share; of captures, the name.
    pub family: &'static str,
    /// The right causes for the headline; the first is the best.
    pub right_causes: &'static [&'static str],
    pub(super) draw: fn(&mut World, &mut Random),
    pub(super) shows: Shows,
}

/// Evidence that a draw must have to be kept.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shows {
    /// From the truth of the first connection, and the packets that the impaired hop dropped.
    Capture(fn(&FlowTruth, u64) -> bool),
    /// The least number of losses between the points within the common coverage of both captures (none if 0), and more.
    Pair(u64, fn(&Observed) -> bool),
}

/// Defines a list of kinds, a row for each.
macro_rules! captures {
    ($($name:literal $right:tt $shows:expr => $draw:expr;)*) => {
        /// The kinds of captures. The position is part of a draw: new ones are appended.
        pub static CAPTURES: &[Kind] = &[$(Kind {
            name: $name,
            family: $name,
            right_causes: &$right,
            draw: $draw,
            shows: Shows::Capture($shows),
        },)*];
    };
}

macro_rules! pairs {
    ($($name:literal $family:literal $right:tt $least:literal $shows:expr => $draw:expr;)*) => {
        /// The kinds of pairs, in an order that mixes families, so that a small suite has some of each. The position is
        /// part of a draw: new ones are appended.
        pub static PAIRS: &[Kind] = &[$(Kind {
            name: $name,
            family: $family,
            right_causes: &$right,
            draw: $draw,
            shows: Shows::Pair($least, $shows),
        },)*];
    };
}

const DROPS: fn(&FlowTruth, u64) -> bool = |_, dropped| dropped >= 5;
const RANDOM_DROPS: fn(&FlowTruth, u64) -> bool = |_, dropped| dropped >= 4;
const NO_LOSS: fn(&FlowTruth, u64) -> bool = |truth, _| truth.lost() == 0;
const DROPS_AND_LOSSES: fn(&FlowTruth, u64) -> bool = |truth, dropped| {
    let elsewhere = truth.lost() - dropped;
    dropped >= 5 && elsewhere > 0 && dropped >= 3 * elsewhere
};
const DELAYS: fn(&FlowTruth, u64) -> bool =
    |truth, _| truth.lost() == 0 && 2 * truth.delayed >= truth.delivered;
const OVERTAKES: fn(&FlowTruth, u64) -> bool =
    |truth, _| truth.lost() == 0 && truth.reordered >= 20;

captures! {
    "policer" ["policer"] DROPS => |w, r| captures::policer(w, Form::AnyPlain, Beside::Nothing, r);
    "queue-shallow" ["shallow-queue"] DROPS => |w, r| captures::queue(w, true, Beside::Nothing, r);
    "policer-shared" ["policer"] DROPS
        => |w, r| captures::policer(w, Form::Plain, Beside::Flows, r);
    "random-loss" ["random-loss"] RANDOM_DROPS => |w, r| captures::chance(w, false, r);
    "policer-small-burst" ["policer"] DROPS
        => |w, r| captures::policer(w, Form::SmallBurst, Beside::Nothing, r);
    "queue" ["deep-queue", "shallow-queue"] DROPS
        => |w, r| captures::queue(w, false, Beside::Nothing, r);
    "policer-shared-cross-traffic" ["policer"] DROPS
        => |w, r| captures::policer(w, Form::Plain, Beside::FlowAndLongFlow, r);
    "queue-cross-traffic" ["deep-queue", "shallow-queue"] DROPS
        => |w, r| captures::queue(w, false, Beside::LongFlow, r);
    // Two rates: a peak one with a small burst, or the three-colour markers of RFC 2697 and 2698.
    "policer-dual-rate" ["policer"] DROPS
        => |w, r| captures::policer(w, Form::DualRate, Beside::Nothing, r);
    "burst-loss" ["random-loss", "unknown"] RANDOM_DROPS => |w, r| captures::chance(w, true, r);
    // Packets that are not in the capture use the same bucket.
    "policer-hidden-cross-traffic" ["policer", "unknown"] DROPS
        => |w, r| captures::policer(w, Form::Plain, Beside::Hidden, r);
    // A fixed rate that delays packets and never drops them.
    "shaper" ["shaper"] DELAYS => captures::shaper;
    "policer-behind-shaper" ["policer"] DROPS
        => |w, r| captures::policer(w, Form::BehindShaper, Beside::Nothing, r);
    "codel" ["aqm", "unknown"] DROPS => |w, r| captures::managed_queue(w, Law::CoDel, r);
    // A policer, and losses for another reason.
    "policer-with-random-loss" ["policer"] DROPS_AND_LOSSES
        => |w, r| captures::policer(w, Form::Plain, Beside::Losses, r);
    "pie" ["aqm", "unknown"] DROPS => |w, r| captures::managed_queue(w, Law::Pie, r);
    "queue-hidden-cross-traffic" ["deep-queue", "shallow-queue", "unknown"] DROPS
        => |w, r| captures::queue(w, false, Beside::Hidden, r);
    "red" ["aqm", "unknown"] DROPS => |w, r| captures::managed_queue(w, Law::Red, r);
    "queue-with-random-loss" ["deep-queue", "shallow-queue", "random-loss", "unknown"]
        DROPS_AND_LOSSES
        => |w, r| captures::queue(w, false, Beside::Losses, r);
    "reordering" ["reordering"] OVERTAKES => captures::reordering;
    "receiver-window" ["receiver-window"] NO_LOSS => captures::receiver_window;
    // The receiving application reads slowly.
    "slow-reader" ["receiver-window"] NO_LOSS => captures::slow_reader;
    // The sending application delivers data in small portions.
    "stream" ["sender", "none"] NO_LOSS => captures::stream;
    "send-buffer" ["sender"] NO_LOSS => captures::send_buffer;
    "capture-loss" ["capture-loss"] NO_LOSS => captures::capture_loss;
    // Only congestion control limits.
    "clean" ["none", "sender", "unknown"] NO_LOSS => |w, r| w.chunks(20_000_000, 400_000, r);
}

const ITS_OWN: fn(&Observed) -> bool = |o| o.dropped_at(pair::ELEMENT) >= o.counts.forward_lost;
const NOTHING_DROPPED: fn(&Observed) -> bool =
    |o| (0..=pair::BEYOND).all(|stage| o.dropped_at(stage) == 0);
const WINDOW: fn(&Observed) -> bool = |o| o.window_limits() && NOTHING_DROPPED(o);

pairs! {
    "policer" "policer" ["policer"] 12 ITS_OWN => |w, r| paths::policer(w, Policed::Alone, r);
    "shallow-fifo-packets" "shallow_fifo" ["shallow-queue"] 8 ITS_OWN
        => |w, r| paths::fifo(w, Depth::Shallow, false, r);
    "random-loss" "random_loss" ["random-loss"] 6 ITS_OWN
        => |w, r| paths::chance(w, Lossy::Single, r);
    "deep-fifo-bytes" "deep_fifo" ["deep-queue"] 8 ITS_OWN
        => |w, r| paths::fifo(w, Depth::Deep, true, r);
    "shaper" "shaper" ["shaper"] 0 |o| o.median_wait_ns() >= 5_000_000 => paths::shaper;
    "none" "none" ["none", "sender"] 0 NOTHING_DROPPED => paths::nothing;
    "policer-dual-rate" "policer" ["policer"] 12 ITS_OWN
        => |w, r| paths::policer(w, Policed::DualRate, r);
    "shallow-fifo-bytes" "shallow_fifo" ["shallow-queue"] 8 ITS_OWN
        => |w, r| paths::fifo(w, Depth::Shallow, true, r);
    "codel" "aqm_codel" ["aqm"] 3 ITS_OWN => |w, r| paths::managed_queue(w, Law::CoDel, r);
    "loss-beyond-y" "loss_beyond_Y" ["random-loss"] 0 |o| o.dropped_at(pair::BEYOND) >= 5
        => |w, r| paths::chance(w, Lossy::Beyond, r);
    "policer-then-shaper" "policer" ["policer"] 12 ITS_OWN
        => |w, r| paths::policer(w, Policed::ThenShaper, r);
    "deep-fifo-packets" "deep_fifo" ["deep-queue"] 8 ITS_OWN
        => |w, r| paths::fifo(w, Depth::Deep, false, r);
    "reorder" "reorder" ["reordering"] 0 |o| o.overtaken() >= 20 => paths::reorder;
    "cross-traffic" "cross_traffic" ["shallow-queue", "deep-queue"] 8 ITS_OWN => paths::shared_fifo;
    "rwnd-limited" "rwnd_limited" ["receiver-window"] 0 WINDOW => hosts::receiver_window;
    "burst-loss" "burst_loss" ["random-loss"] 6 ITS_OWN
        => |w, r| paths::chance(w, Lossy::Bursts, r);
    "shaper-then-policer" "policer" ["policer"] 12 ITS_OWN
        => |w, r| paths::policer(w, Policed::BehindShaper, r);
    "pie" "aqm_pie" ["aqm"] 3 ITS_OWN => |w, r| paths::managed_queue(w, Law::Pie, r);
    "ack-loss" "ack_loss" ["none", "sender", "random-loss"] 0 |o| o.lost_returning() >= 5
        => paths::ack_loss;
    "app-limited" "app_limited" ["sender"] 0 NOTHING_DROPPED => hosts::application;
    "red" "aqm_red" ["aqm"] 3 ITS_OWN => |w, r| paths::managed_queue(w, Law::Red, r);
    "loss-before-b" "loss_before_B" ["random-loss"] 0 |o| o.dropped_at(pair::BEFORE) >= 5
        => |w, r| paths::chance(w, Lossy::Before, r);
    "jitter" "jitter" ["none", "sender", "jitter"] 0 |o| o.median_wait_ns() >= 300_000
        => paths::jitter;
    "slow-reader" "slow_reader" ["receiver-window"] 0 WINDOW => hosts::slow_reader;
    "fq-codel" "aqm_fq_codel" ["aqm"] 3 ITS_OWN => |w, r| paths::fair_queue(w, Fair::FqCoDel, r);
    "cake" "aqm_cake" ["aqm"] 3 ITS_OWN => |w, r| paths::fair_queue(w, Fair::Cake, r);
    "fq-pie" "aqm_fq_pie" ["aqm"] 3 ITS_OWN => |w, r| paths::fair_queue(w, Fair::FqPie, r);
    "dualpi2" "aqm_dualpi2" ["aqm"] 3 ITS_OWN => |w, r| paths::fair_queue(w, Fair::DualPi2, r);
    "ecn-mark" "ecn_mark" ["aqm"] 0 |o| o.marked() >= 10 => |w, r| paths::fair_queue(w, Fair::Marking, r);
    "policer-dual-rate-and-loss" "policer" ["policer"] 12 |o| o.dropped_at(pair::BEYOND) >= 3
        => paths::policer_and_loss;
    "tick-shaper" "shaper_ticks" ["shaper"] 0 |o| o.median_wait_ns() >= 500_000
        => paths::tick_shaper;
    "standing-queue" "standing_queue" ["deep-queue", "shaper"] 0
        |o| o.median_wait_ns() >= 10_000_000
        => paths::standing_queue;
    "send-buffer" "send_buffer" ["sender"] 0
        |o| o.is_limited_by(Limiter::SendBuffer, LEAST_WINDOW_LIMITED)
        => hosts::send_buffer;
    "paced" "paced" ["sender"] 0 |o| o.is_limited_by(Limiter::Pacing, LEAST_WINDOW_LIMITED)
        => hosts::paced;
    "closed-window" "closed_window" ["receiver-window"] 0
        |o| o.is_limited_by(Limiter::ReceiveWindow, LEAST_WINDOW_LIMITED)
        => hosts::closed_window;
    "delayed-ack" "delayed_ack" ["delayed-ack"] 0
        |o| o.is_limited_by(Limiter::DelayedAck, LEAST_HOST_LIMITED)
        => hosts::delayed_ack;
    "peer-application" "peer_application" ["peer-application"] 0
        |o| o.is_limited_by(Limiter::PeerApplication, LEAST_HOST_LIMITED)
        => hosts::peer_application;
    "outage" "outage" ["outage"] 1 |o| o.is_limited_by(Limiter::Outage, LEAST_OUTAGE)
        => hosts::outage;
    "slow-way-back" "slow_way_back" ["deep-queue", "shallow-queue", "shaper"] 0
        |o| o.median_wait_back_ns() >= 5_000_000 || o.lost_returning() >= 5
        => paths::slow_way_back;
    // as with jitter, the sender's own line is the limit
    "batching" "batching" ["batching", "jitter", "none", "sender"] 0
        |o| o.median_wait_ns() >= 500_000
        => paths::batching;
}

impl Kind {
    /// The kind of captures with this name.
    pub fn of_capture(name: &str) -> Option<&'static Self> {
        CAPTURES.iter().find(|kind| kind.name == name)
    }

    /// The kind of pairs with this name.
    pub fn of_pair(name: &str) -> Option<&'static Self> {
        PAIRS.iter().find(|kind| kind.name == name)
    }

    pub fn has_policer(&self) -> bool {
        self.name.starts_with("policer")
    }

    /// True if the hop's drops are determined by its arrivals, without randomness or time.
    pub(super) fn is_determined(&self) -> bool {
        self.has_policer() || self.name.starts_with("queue")
    }

    /// True if the cause need not be the headline: another limiter affects these flows as well.
    pub(super) fn is_aside(&self) -> bool {
        matches!(self.name, "reordering" | "capture-loss")
    }
}

/// The right causes for a kind in the truths of pairs; empty for an unknown one.
pub fn right_causes(family: &str) -> &'static [&'static str] {
    let kind = PAIRS.iter().find(|kind| kind.family == family);
    kind.map_or(&[], |kind| kind.right_causes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own_and_can_be_scored() {
        for (kinds, count) in [(CAPTURES, 26), (PAIRS, 40)] {
            let names: BTreeSet<&str> = kinds.iter().map(|kind| kind.name).collect();
            assert_eq!((names.len(), kinds.len()), (count, count));
            assert!(kinds.iter().all(|kind| !kind.right_causes.is_empty()));
        }
        for kind in PAIRS {
            assert_eq!(
                right_causes(kind.family),
                kind.right_causes,
                "{}",
                kind.name
            );
        }
    }
}
