//! The causes of loss and delay, by the names of the contract.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident = $name:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Cause {
            $($(#[$doc])* #[serde(rename = $name)] $cause,)*
        }

        impl Cause {
            pub const ALL: &'static [Self] = &[$(Self::$cause,)*];

            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$cause => $name,)*
                }
            }
        }
    };
}

causes! {
    Policer = "policer",
    ShallowQueue = "shallow-queue",
    DeepQueue = "deep-queue",
    Shaper = "shaper",
    Aqm = "aqm",
    RandomLoss = "random-loss",
    Reordering = "reordering",
    ReceiverWindow = "receiver-window",
    Sender = "sender",
    CaptureLoss = "capture-loss",
    /// Nothing passes for a while, then packets pass again.
    Outage = "outage",
    /// SYNs or data that nobody ever answers: a dead host, or a filter.
    NoAnswer = "no-answer",
    Refused = "refused",
    Reset = "reset",
    /// Full-size segments are lost for ever.
    Mtu = "mtu",
    /// An idle connection that a translator or firewall has forgotten.
    IdleTimeout = "idle-timeout",
    DelayedAck = "delayed-ack",
    PeerApplication = "peer-application",
    /// The window scale option is lost or missing.
    WindowScaling = "window-scaling",
    /// Selective acknowledgments are stripped or mangled.
    Sack = "sack",
    /// Explicit congestion notification is refused or bleached.
    Ecn = "ecn",
    Duplicate = "duplicate",
    Checksum = "checksum",
    /// Link-layer aggregation or power save.
    Batching = "batching",
    Jitter = "jitter",
    /// Flows that share a bottleneck get very different parts of it.
    Unfairness = "unfairness",
    /// The host of the record dropped packets itself, and its kernel said so.
    HostDrop = "host-drop",
    /// Nothing was lost and nothing waited for long.
    None = "none",
    /// The background: no cause accounts for the evidence better than chance.
    Unknown = "unknown",
}

impl Cause {
    /// The cause of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|cause| cause.name() == name)
    }

    /// A fact about the record, not about the path: it competes with no cause of loss or delay.
    pub(crate) fn is_of_the_record(self) -> bool {
        matches!(self, Self::CaptureLoss)
    }

    /// How much more likely than the background before any evidence, nats. The one table of priors: until captures whose
    /// causes are known tell how frequent each is, none is preferred.
    pub(crate) fn prior_nats(self) -> f64 {
        0.0
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
