//! The laws of queue management in competition for the drops and marks of an observation.

use whydrop_path::fit::managed::Management;

use crate::thresholds::{FAMILY_NATS, LAW_NATS};

/// The laws that compete, and their rivals.
#[derive(Debug)]
pub struct Laws {
    /// `None` if there are too few drops and marks.
    pub best: Option<Management>,
    /// Each flow has its own queue.
    pub isolates: bool,
    /// Gain in nats of one full queue for all flows over chance.
    pub full_queue_nats: f64,
    /// Lead of the best law over full queues and buckets, nats.
    pub margin_nats: f64,
    /// The queue is known well enough for the laws to prove anything.
    pub is_replayable: bool,
}

impl Laws {
    /// Gain in nats of the best law over chance.
    pub fn best_nats(&self) -> f64 {
        self.best.as_ref().map_or(0.0, Management::best_nats)
    }

    /// True if the best law predicts drops far better than full queues and buckets.
    pub fn are_followed(&self) -> bool {
        self.margin_nats > LAW_NATS && self.is_replayable
    }

    /// True if a full queue predicts the drops far better than any law.
    pub fn are_refuted(&self) -> bool {
        self.best_nats() < self.full_queue_nats - LAW_NATS
    }

    /// True if the laws are about as likely as a full queue.
    pub fn are_as_likely(&self) -> bool {
        self.margin_nats > -FAMILY_NATS
    }
}
