//! The mechanisms between (or around) two points, and the correct causes of each.

/// Impairments of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    Policer,
    PolicerDualRate,
    PolicerThenShaper,
    ShaperThenPolicer,
    ShallowFifoPackets,
    ShallowFifoBytes,
    DeepFifoPackets,
    DeepFifoBytes,
    Shaper,
    CoDel,
    Pie,
    Red,
    RandomLoss,
    BurstLoss,
    LossBeyondY,
    LossBeforeB,
    AckLoss,
    Reorder,
    Jitter,
    None,
    AppLimited,
    RwndLimited,
    SlowReader,
    CrossTraffic,
    FqCoDel,
    Cake,
    FqPie,
    DualPi2,
    EcnMark,
    TwoRatePolicerAndLoss,
    TickShaper,
    StandingQueue,
    SendBuffer,
    Paced,
    ClosedWindow,
    DelayedAck,
    PeerApplication,
    Outage,
    SlowWayBack,
    Batching,
}

impl Mechanism {
    /// In an order that mixes families, so that a small suite has some of each.
    pub const ALL: &'static [Self] = &[
        Self::Policer,
        Self::ShallowFifoPackets,
        Self::RandomLoss,
        Self::DeepFifoBytes,
        Self::Shaper,
        Self::None,
        Self::PolicerDualRate,
        Self::ShallowFifoBytes,
        Self::CoDel,
        Self::LossBeyondY,
        Self::PolicerThenShaper,
        Self::DeepFifoPackets,
        Self::Reorder,
        Self::CrossTraffic,
        Self::RwndLimited,
        Self::BurstLoss,
        Self::ShaperThenPolicer,
        Self::Pie,
        Self::AckLoss,
        Self::AppLimited,
        Self::Red,
        Self::LossBeforeB,
        Self::Jitter,
        Self::SlowReader,
        // New ones are appended, so that the draws of the first two dozen stay the same.
        Self::FqCoDel,
        Self::Cake,
        Self::FqPie,
        Self::DualPi2,
        Self::EcnMark,
        Self::TwoRatePolicerAndLoss,
        Self::TickShaper,
        Self::StandingQueue,
        Self::SendBuffer,
        Self::Paced,
        Self::ClosedWindow,
        Self::DelayedAck,
        Self::PeerApplication,
        Self::Outage,
        Self::SlowWayBack,
        Self::Batching,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Policer => "policer",
            Self::PolicerDualRate => "policer-dual-rate",
            Self::PolicerThenShaper => "policer-then-shaper",
            Self::ShaperThenPolicer => "shaper-then-policer",
            Self::ShallowFifoPackets => "shallow-fifo-packets",
            Self::ShallowFifoBytes => "shallow-fifo-bytes",
            Self::DeepFifoPackets => "deep-fifo-packets",
            Self::DeepFifoBytes => "deep-fifo-bytes",
            Self::Shaper => "shaper",
            Self::CoDel => "codel",
            Self::Pie => "pie",
            Self::Red => "red",
            Self::RandomLoss => "random-loss",
            Self::BurstLoss => "burst-loss",
            Self::LossBeyondY => "loss-beyond-y",
            Self::LossBeforeB => "loss-before-b",
            Self::AckLoss => "ack-loss",
            Self::Reorder => "reorder",
            Self::Jitter => "jitter",
            Self::None => "none",
            Self::AppLimited => "app-limited",
            Self::RwndLimited => "rwnd-limited",
            Self::SlowReader => "slow-reader",
            Self::CrossTraffic => "cross-traffic",
            Self::FqCoDel => "fq-codel",
            Self::Cake => "cake",
            Self::FqPie => "fq-pie",
            Self::DualPi2 => "dualpi2",
            Self::EcnMark => "ecn-mark",
            Self::TwoRatePolicerAndLoss => "policer-dual-rate-and-loss",
            Self::TickShaper => "tick-shaper",
            Self::StandingQueue => "standing-queue",
            Self::SendBuffer => "send-buffer",
            Self::Paced => "paced",
            Self::ClosedWindow => "closed-window",
            Self::DelayedAck => "delayed-ack",
            Self::PeerApplication => "peer-application",
            Self::Outage => "outage",
            Self::SlowWayBack => "slow-way-back",
            Self::Batching => "batching",
        }
    }

    /// The kind in truth files and scoring scripts.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Policer
            | Self::PolicerDualRate
            | Self::PolicerThenShaper
            | Self::ShaperThenPolicer
            | Self::TwoRatePolicerAndLoss => "policer",
            Self::ShallowFifoPackets | Self::ShallowFifoBytes => "shallow_fifo",
            Self::DeepFifoPackets | Self::DeepFifoBytes => "deep_fifo",
            Self::Shaper => "shaper",
            Self::CoDel => "aqm_codel",
            Self::Pie => "aqm_pie",
            Self::Red => "aqm_red",
            Self::RandomLoss => "random_loss",
            Self::BurstLoss => "burst_loss",
            Self::LossBeyondY => "loss_beyond_Y",
            Self::LossBeforeB => "loss_before_B",
            Self::AckLoss => "ack_loss",
            Self::Reorder => "reorder",
            Self::Jitter => "jitter",
            Self::None => "none",
            Self::AppLimited => "app_limited",
            Self::RwndLimited => "rwnd_limited",
            Self::SlowReader => "slow_reader",
            Self::CrossTraffic => "cross_traffic",
            Self::FqCoDel => "aqm_fq_codel",
            Self::Cake => "aqm_cake",
            Self::FqPie => "aqm_fq_pie",
            Self::DualPi2 => "aqm_dualpi2",
            Self::EcnMark => "ecn_mark",
            Self::TickShaper => "shaper_ticks",
            Self::StandingQueue => "standing_queue",
            Self::SendBuffer => "send_buffer",
            Self::Paced => "paced",
            Self::ClosedWindow => "closed_window",
            Self::DelayedAck => "delayed_ack",
            Self::PeerApplication => "peer_application",
            Self::Outage => "outage",
            Self::SlowWayBack => "slow_way_back",
            Self::Batching => "batching",
        }
    }

    /// The least number of losses between the points with which a pair shows its mechanism, within the common coverage
    /// of both captures.
    pub fn least_lost(self) -> u64 {
        match self {
            Self::Policer
            | Self::PolicerDualRate
            | Self::PolicerThenShaper
            | Self::ShaperThenPolicer
            | Self::TwoRatePolicerAndLoss => 12,
            Self::ShallowFifoPackets
            | Self::ShallowFifoBytes
            | Self::DeepFifoPackets
            | Self::DeepFifoBytes
            | Self::CrossTraffic => 8,
            Self::RandomLoss | Self::BurstLoss => 6,
            Self::CoDel
            | Self::Pie
            | Self::Red
            | Self::FqCoDel
            | Self::Cake
            | Self::FqPie
            | Self::DualPi2 => 3,
            Self::Outage => 1,
            _ => 0,
        }
    }

    /// True if no packet may be lost between the points.
    pub fn is_lossless(self) -> bool {
        self.least_lost() == 0
    }
}

/// The correct causes for a kind in the truths, for two captures; empty for an unknown kind.
pub fn right_causes(kind: &str) -> &'static [&'static str] {
    match kind {
        "none" => &["none", "sender"],
        "policer" => &["policer"],
        "shallow_fifo" => &["shallow-queue"],
        "deep_fifo" => &["deep-queue"],
        "shaper" => &["shaper"],
        "aqm_fq_codel" | "aqm_codel" | "aqm_pie" | "aqm_red" | "aqm_cake" | "aqm_fq_pie"
        | "aqm_dualpi2" | "ecn_mark" => &["aqm"],
        "random_loss" | "burst_loss" | "loss_beyond_Y" | "loss_before_B" => &["random-loss"],
        "ack_loss" => &["none", "sender", "random-loss"],
        "reorder" => &["reordering"],
        "jitter" => &["none", "sender", "jitter"],
        "rwnd_limited" | "slow_reader" => &["receiver-window"],
        "app_limited" => &["sender"],
        "cross_traffic" => &["shallow-queue", "deep-queue"],
        "shaper_ticks" => &["shaper"],
        "standing_queue" => &["deep-queue", "shaper"],
        "send_buffer" => &["sender"],
        "paced" => &["sender"],
        "closed_window" => &["receiver-window"],
        "delayed_ack" => &["delayed-ack"],
        "peer_application" => &["peer-application"],
        "outage" => &["outage"],
        "slow_way_back" => &["deep-queue", "shallow-queue", "shaper"],
        // as with jitter, the sender's own line is the limit
        "batching" => &["batching", "jitter", "none", "sender"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_mechanism_has_a_name_of_its_own_and_a_kind_that_can_be_scored() {
        let names: BTreeSet<&str> = Mechanism::ALL.iter().map(|each| each.name()).collect();
        assert_eq!(names.len(), Mechanism::ALL.len());
        for &mechanism in Mechanism::ALL {
            assert!(
                !right_causes(mechanism.kind()).is_empty(),
                "{}",
                mechanism.name()
            );
        }
        assert_eq!(Mechanism::ALL.len(), 40);
    }
}
