//! Data that is still missing at its receiver when the capture ends.

use super::Half;
use super::transmissions::LARGEST_INFERRED_GAP_BYTES;
use crate::signs::OpenHole;

/// Runs that are remembered at most: a few tell what they are made of.
const MOST_RUNS: usize = 64;

impl Half {
    /// A packet without data shows how far its sender has come: what is below and was not captured may be missing.
    pub fn note_position(&mut self, time_ns: i64, position: i64) {
        let beyond = position - self.next;
        if (1..=LARGEST_INFERRED_GAP_BYTES).contains(&beyond) && self.from_first_byte {
            let known = self.told_position.filter(|(_, known)| *known >= position);
            self.told_position = known.or(Some((time_ns, position)));
        }
    }

    /// Find what its receiver asks for and has not got, though packets behind it came; `now_ns` is the end of the capture.
    ///
    /// Only where the receiver was heard to ask for it: else the capture may have missed what arrived.
    pub fn open_hole(&self, now_ns: i64) -> Option<OpenHole> {
        let mut runs: Vec<(i64, i64)> = Vec::new();
        let mut since_ns = None;
        let missing = self.outstanding.iter();
        for range in missing.filter(|range| range.gap && !range.sacked) {
            let full = runs.len() >= MOST_RUNS;
            match runs.last_mut() {
                Some(run) if run.1 == range.start => run.1 = range.end,
                _ if full => break,
                _ => runs.push((range.start, range.end)),
            }
            let placeholder = self.flow.segments.get(range.segment as usize);
            since_ns = since_ns.or(placeholder.map(|segment| segment.time_ns));
        }
        let told = self.told_position.filter(|(_, told)| *told > self.next);
        if let Some((time_ns, position)) = told.filter(|_| runs.len() < MOST_RUNS) {
            runs.push((self.next, position));
            since_ns.get_or_insert(time_ns);
        }
        let (since_ns, first) = since_ns.zip(runs.first())?;
        let is_asked_for = self.proven == Some(first.0);
        is_asked_for.then(|| OpenHole {
            since_ns,
            until_ns: now_ns.max(since_ns),
            runs_bytes: runs.iter().map(|(start, end)| end - start).collect(),
            last_heard_ns: self.flow.last_ns,
        })
    }
}

#[cfg(test)]
#[path = "open_hole_tests.rs"]
mod tests;
