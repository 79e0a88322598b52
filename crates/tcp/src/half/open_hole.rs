//! Data that is still missing at its receiver when the capture ends.

use super::Half;
use super::transmissions::LARGEST_INFERRED_GAP_BYTES;
use crate::signs::OpenHole;

/// The most runs that are remembered: a few suffice to characterise them.
const MOST_RUNS: usize = 64;

impl Half {
    /// Registers that a packet without data shows its sender's position: uncaptured data below it may be missing.
    pub fn note_position(&mut self, time_ns: i64, position: i64) {
        let beyond = position - self.next;
        if (1..=LARGEST_INFERRED_GAP_BYTES).contains(&beyond) && self.from_first_byte {
            let known = self
                .reported_position
                .filter(|(_, known)| *known >= position);
            self.reported_position = known.or(Some((time_ns, position)));
        }
    }

    /// Finds data that its receiver requests and has not received, though later packets arrived; `now_ns` is the end of
    /// the capture.
    ///
    /// Requires a request by the receiver: otherwise the data may have arrived uncaptured.
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
        let ahead = self
            .reported_position
            .filter(|(_, position)| *position > self.next);
        if let Some((time_ns, position)) = ahead.filter(|_| runs.len() < MOST_RUNS) {
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
