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
    /// SYNs or data that get no answer: a dead host, or a filter.
    NoAnswer = "no-answer",
    Refused = "refused",
    Reset = "reset",
    /// Full-size segments never arrive.
    Mtu = "mtu",
    /// A translator or firewall dropped its entry for an idle connection.
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
    /// Flows that share a bottleneck get very different shares of it.
    Unfairness = "unfairness",
    /// The host that made the record dropped packets itself, as its kernel reports.
    HostDrop = "host-drop",
    /// Nothing was lost, and no packet was delayed for long.
    None = "none",
    /// The background model: no cause explains the evidence better than chance.
    Unknown = "unknown",
}

impl Cause {
    /// The cause of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|cause| cause.name() == name)
    }

    /// True for a fact about the record rather than the path: it competes with no cause of loss or delay.
    pub(crate) fn is_of_the_record(self) -> bool {
        matches!(self, Self::CaptureLoss)
    }

    /// Prior log-odds against the background, in nats. This is the only table of priors. No cause is
    /// preferred until captures with known causes show how frequent each cause is.
    pub(crate) fn prior_nats(self) -> f64 {
        0.0
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
