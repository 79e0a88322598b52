//! The causes of loss and delay, by the names of the contract.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    Policer,
    ShallowQueue,
    DeepQueue,
    Shaper,
    Aqm,
    RandomLoss,
    Reordering,
    ReceiverWindow,
    Sender,
    CaptureLoss,
    /// Nothing was lost and nothing waited for long.
    None,
    /// No cause accounts for the evidence markedly better than every other.
    Unknown,
}

impl Cause {
    pub const ALL: [Self; 12] = [
        Self::Policer,
        Self::ShallowQueue,
        Self::DeepQueue,
        Self::Shaper,
        Self::Aqm,
        Self::RandomLoss,
        Self::Reordering,
        Self::ReceiverWindow,
        Self::Sender,
        Self::CaptureLoss,
        Self::None,
        Self::Unknown,
    ];

    /// The cause of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Cause::Policer => "policer",
            Cause::ShallowQueue => "shallow-queue",
            Cause::DeepQueue => "deep-queue",
            Cause::Shaper => "shaper",
            Cause::Aqm => "aqm",
            Cause::RandomLoss => "random-loss",
            Cause::Reordering => "reordering",
            Cause::ReceiverWindow => "receiver-window",
            Cause::Sender => "sender",
            Cause::CaptureLoss => "capture-loss",
            Cause::None => "none",
            Cause::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
