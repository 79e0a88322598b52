//! Facts that several causes state.

use whydrop_verdict::{Cause, Fact, fact};

use super::observation::Observation;
use crate::thresholds::*;

impl Observation {
    /// Share of the flows' active time with data in flight, 0 to 1.
    pub fn busy_share(&self) -> f64 {
        self.totals.busy_s / self.totals.active_s()
    }

    /// Share of the losses that came with a queue: by their delay, or by the packets that they found.
    pub fn share_delayed(&self) -> f64 {
        let by_delay = self
            .at_loss
            .as_ref()
            .map_or(0.0, |at_loss| at_loss.share_delayed);
        let backlog = self.exact.as_ref().and_then(|exact| exact.backlog.as_ref());
        backlog.map_or(by_delay, |backlog| by_delay.max(1.0 - backlog.found_empty))
    }

    /// The reason against chance that a bucket gives.
    pub fn chance_less_likely(&self) -> Option<(Cause, Fact)> {
        let fit = self
            .bucket
            .as_ref()
            .filter(|fit| fit.gain() > NEEDED_GAIN)?;
        let why = fact!("chance-less-likely", gain_nats = fit.gain());
        Some((Cause::RandomLoss, why))
    }

    /// The rate at which a queue drains, from the delays.
    pub fn queue_drains(&self) -> Option<Fact> {
        let explains = |drain: &&whydrop_path::fit::DrainFit| drain.explained > DELAY_RELATED;
        let drain = self.drain.as_ref().filter(explains)?;
        Some(fact!(
            "queue-drains",
            rate_bps = drain.rate_bps,
            explained_share = drain.explained,
            residual_s = drain.residual_s
        ))
    }

    /// The spacing of the packets around losses before the capture point.
    pub fn spacing(&self) -> Option<Fact> {
        let holes = &self.holes;
        let code = match () {
            () if holes.are_left() => "gaps-left",
            () if holes.are_closed() => "gaps-closed",
            () => return None,
        };
        Some(fact!(
            code,
            runs = holes.runs,
            empty = holes.empty,
            closed = holes.runs - holes.empty
        ))
    }
}
