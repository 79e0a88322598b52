//! The kinds of captures in a suite: what is on the path, and the correct causes.

use super::Played;

/// Impairments of the path. The first eight are those of the scoring scripts' label files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Policer,
    PolicerSmallBurst,
    PolicerShared,
    PolicerSharedCrossTraffic,
    Queue,
    QueueShallow,
    QueueCrossTraffic,
    RandomLoss,
    /// Two rates: a peak one with a small burst, or the three-colour markers of RFC 2697 and 2698.
    PolicerDualRate,
    /// Packets that are not in the capture use the same bucket.
    PolicerHiddenCrossTraffic,
    PolicerBehindShaper,
    /// A policer, and losses for another reason.
    PolicerWithRandomLoss,
    QueueHiddenCrossTraffic,
    QueueWithRandomLoss,
    /// A fixed rate that delays packets and never drops them.
    Shaper,
    BurstLoss,
    CoDel,
    Pie,
    Red,
    Reordering,
    ReceiverWindow,
    /// The receiving application reads slowly.
    SlowReader,
    /// The sending application delivers data in small portions.
    Stream,
    SendBuffer,
    CaptureLoss,
    /// Only congestion control limits.
    Clean,
}

impl Kind {
    pub const ALL: &'static [Kind] = &[
        Kind::Policer,
        Kind::QueueShallow,
        Kind::PolicerShared,
        Kind::RandomLoss,
        Kind::PolicerSmallBurst,
        Kind::Queue,
        Kind::PolicerSharedCrossTraffic,
        Kind::QueueCrossTraffic,
        Kind::PolicerDualRate,
        Kind::BurstLoss,
        Kind::PolicerHiddenCrossTraffic,
        Kind::Shaper,
        Kind::PolicerBehindShaper,
        Kind::CoDel,
        Kind::PolicerWithRandomLoss,
        Kind::Pie,
        Kind::QueueHiddenCrossTraffic,
        Kind::Red,
        Kind::QueueWithRandomLoss,
        Kind::Reordering,
        Kind::ReceiverWindow,
        Kind::SlowReader,
        Kind::Stream,
        Kind::SendBuffer,
        Kind::CaptureLoss,
        Kind::Clean,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Policer => "policer",
            Kind::PolicerSmallBurst => "policer-small-burst",
            Kind::PolicerShared => "policer-shared",
            Kind::PolicerSharedCrossTraffic => "policer-shared-cross-traffic",
            Kind::Queue => "queue",
            Kind::QueueShallow => "queue-shallow",
            Kind::QueueCrossTraffic => "queue-cross-traffic",
            Kind::RandomLoss => "random-loss",
            Kind::PolicerDualRate => "policer-dual-rate",
            Kind::PolicerHiddenCrossTraffic => "policer-hidden-cross-traffic",
            Kind::PolicerBehindShaper => "policer-behind-shaper",
            Kind::PolicerWithRandomLoss => "policer-with-random-loss",
            Kind::QueueHiddenCrossTraffic => "queue-hidden-cross-traffic",
            Kind::QueueWithRandomLoss => "queue-with-random-loss",
            Kind::Shaper => "shaper",
            Kind::BurstLoss => "burst-loss",
            Kind::CoDel => "codel",
            Kind::Pie => "pie",
            Kind::Red => "red",
            Kind::Reordering => "reordering",
            Kind::ReceiverWindow => "receiver-window",
            Kind::SlowReader => "slow-reader",
            Kind::Stream => "stream",
            Kind::SendBuffer => "send-buffer",
            Kind::CaptureLoss => "capture-loss",
            Kind::Clean => "clean",
        }
    }

    /// True if the scoring script for labelled captures knows the kind.
    pub fn is_labelled(self) -> bool {
        matches!(
            self,
            Kind::Policer
                | Kind::PolicerSmallBurst
                | Kind::PolicerShared
                | Kind::PolicerSharedCrossTraffic
                | Kind::Queue
                | Kind::QueueShallow
                | Kind::QueueCrossTraffic
                | Kind::RandomLoss
        )
    }

    pub fn has_policer(self) -> bool {
        self.name().starts_with("policer")
    }

    /// The correct causes for the headline; the first is the best.
    pub fn right_causes(self) -> &'static [&'static str] {
        match self {
            Kind::Policer
            | Kind::PolicerSmallBurst
            | Kind::PolicerShared
            | Kind::PolicerSharedCrossTraffic
            | Kind::PolicerDualRate
            | Kind::PolicerBehindShaper
            | Kind::PolicerWithRandomLoss => &["policer"],
            Kind::PolicerHiddenCrossTraffic => &["policer", "unknown"],
            Kind::Queue | Kind::QueueCrossTraffic => &["deep-queue", "shallow-queue"],
            Kind::QueueShallow => &["shallow-queue"],
            Kind::QueueHiddenCrossTraffic => &["deep-queue", "shallow-queue", "unknown"],
            Kind::QueueWithRandomLoss => &["deep-queue", "shallow-queue", "random-loss", "unknown"],
            Kind::RandomLoss => &["random-loss"],
            Kind::BurstLoss => &["random-loss", "unknown"],
            Kind::Shaper => &["shaper"],
            Kind::CoDel | Kind::Pie | Kind::Red => &["aqm", "unknown"],
            Kind::Reordering => &["reordering"],
            Kind::ReceiverWindow | Kind::SlowReader => &["receiver-window"],
            Kind::Stream => &["sender", "none"],
            Kind::SendBuffer => &["sender"],
            Kind::CaptureLoss => &["capture-loss"],
            Kind::Clean => &["none", "sender", "unknown"],
        }
    }

    /// True if the hop's drops are determined by its arrivals, without randomness or time.
    pub fn is_determined(self) -> bool {
        self.has_policer() || self.name().starts_with("queue")
    }

    /// True if the cause need not be the headline: another limiter affects these flows as well.
    pub fn is_aside(self) -> bool {
        matches!(self, Kind::Reordering | Kind::CaptureLoss)
    }

    /// True if a simulated case shows what its kind promises: losses or no losses, or delay if only that shows it.
    pub(super) fn shows_itself(self, played: &Played) -> bool {
        let first = &played.truths[0];
        let lost = first.lost();
        let of_element = first
            .lost_by_stage
            .get(super::draw::ELEMENT_STAGE)
            .copied()
            .unwrap_or(0);
        let enough_data = first.sent >= 300;
        enough_data
            && match self {
                Kind::Shaper => lost == 0 && 2 * first.delayed >= first.delivered,
                Kind::ReceiverWindow
                | Kind::SlowReader
                | Kind::Stream
                | Kind::SendBuffer
                | Kind::CaptureLoss
                | Kind::Clean => lost == 0,
                Kind::Reordering => lost == 0 && first.reordered >= 20,
                Kind::PolicerWithRandomLoss | Kind::QueueWithRandomLoss => {
                    of_element >= 5 && lost > of_element && of_element >= 3 * (lost - of_element)
                }
                Kind::RandomLoss | Kind::BurstLoss => of_element >= 4,
                _ => of_element >= 5,
            }
    }
}
