//! The time of each record if the file's timestamps go back or jump: records out of order, and clocks that were set.
//!
//! Timestamps that advance in small steps are used unchanged, and little is remembered about their packets: this is the
//! normal case. If a timestamp goes back or far ahead, the packets after it are examined before it is accepted
//! ([`evidence`]). Packets already returned cannot be sorted any more, so a disordered capture is flagged and read
//! again with [`crate::Capture::in_order`]. A clock step is undone: later times continue from the point that the
//! packets indicate.

mod evidence;
mod sorting;
#[cfg(test)]
mod tests;
mod trace;

use evidence::Finding;
pub(crate) use sorting::Sorting;
use trace::Recent;

use crate::decode::Decoded;
use crate::summary::packets;

/// Connections may pause this long at any time; a smaller step of the clock does little harm.
const LEAST_AHEAD_NS: i64 = 500_000_000;
/// Packets examined after a conspicuous timestamp.
pub(crate) const LOOKAHEAD_PACKETS: usize = 256;

/// A buffered packet: its timestamp and the contents of its headers.
pub(crate) trait Waiting {
    fn stamped_ns(&self) -> i64;
    fn decoded(&self) -> &Decoded;
}

/// The times of one capture.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Undo steps of the clock. Two captures that are compared need the original timestamps.
    pub(crate) keeps_clock_steady: bool,
    /// Latest time returned since the capture began, or since an unexplained timestamp.
    latest_ns: Option<i64>,
    /// Added to timestamps.
    offset_ns: i64,
    recent: Recent,
    /// Records were found out of order: their timestamps are used unchanged.
    pub(crate) is_disordered: bool,
    /// Timestamps of a file in order go back by up to this much at times.
    tolerated_back_ns: i64,
    /// Each timestamp is earlier than the one before: no time passes.
    pub(crate) runs_backwards: bool,
    set_back: Steps,
    set_ahead: Steps,
}

#[derive(Debug, Default, Clone, Copy)]
struct Steps {
    count: u64,
    total_ns: i64,
}

impl Steps {
    fn add(&mut self, step_ns: i64) {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(step_ns);
    }
}

impl Timeline {
    /// The time of the next packet; `None` if the timestamp is conspicuous and [`Timeline::time_after_a_look`] must be
    /// called.
    #[inline(always)]
    pub(crate) fn time_ns(&mut self, stamped_ns: i64, decoded: &Decoded) -> Option<i64> {
        let time_ns = stamped_ns.saturating_add(self.offset_ns);
        let latest_ns = self.latest_ns.unwrap_or(time_ns);
        let ahead_ns = time_ns.saturating_sub(latest_ns);
        let goes_on =
            ahead_ns >= self.tolerated_back_ns.saturating_neg() && ahead_ns <= LEAST_AHEAD_NS;
        if !goes_on {
            if self.runs_backwards {
                self.recent.note(latest_ns, decoded);
                return Some(latest_ns);
            }
            if !self.is_disordered && (ahead_ns < 0 || self.keeps_clock_steady) {
                return None;
            }
        }
        self.latest_ns = Some(latest_ns.max(time_ns));
        self.recent.note(time_ns, decoded);
        Some(time_ns)
    }

    /// The time of the first of these packets, which has a conspicuous timestamp. The others follow it in the file.
    #[cold]
    pub(crate) fn time_after_a_look<W: Waiting>(&mut self, packets: &[&W]) -> Option<i64> {
        let first = packets.first()?;
        let stamped_ns = first.stamped_ns().saturating_add(self.offset_ns);
        let latest_ns = self.latest_ns.unwrap_or(stamped_ns);
        let finding = evidence::weigh(&self.recent, packets, self.offset_ns, latest_ns);
        let mut time_ns = stamped_ns;
        match finding {
            Finding::Disorder => self.is_disordered = true,
            Finding::ClockSet { added_ns } if self.keeps_clock_steady => {
                self.offset_ns = self.offset_ns.saturating_add(added_ns);
                time_ns = first.stamped_ns().saturating_add(self.offset_ns);
                match stamped_ns < latest_ns {
                    true => self.set_back.add(added_ns),
                    false => self.set_ahead.add(added_ns.saturating_neg()),
                }
                self.latest_ns = Some(latest_ns.max(time_ns));
            }
            Finding::ClockSet { .. } | Finding::OtherCapture => self.latest_ns = Some(time_ns),
            Finding::Backwards => {
                self.runs_backwards = true;
                time_ns = latest_ns;
            }
            Finding::Unsteady => {
                let back_ns = latest_ns.saturating_sub(time_ns);
                self.tolerated_back_ns = self.tolerated_back_ns.max(back_ns.saturating_mul(2));
            }
            Finding::Pause => self.latest_ns = Some(latest_ns.max(time_ns)),
        }
        self.recent.note(time_ns, first.decoded());
        Some(time_ns)
    }

    /// True if timestamps went back because the clock did, and none because the file is out of order.
    pub(crate) fn was_set_back(&self) -> bool {
        self.set_back.count > 0 && !self.is_disordered
    }

    /// Notes for the user.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let set = |steps: Steps, direction: &str, proof: &str| {
            (steps.count > 0).then(|| {
                format!(
                    "the clock was set {direction} during the capture{}: by {}, {proof}; later times are corrected",
                    if steps.count == 1 { String::new() } else { format!(", {} times", steps.count) },
                    duration(steps.total_ns),
                )
            })
        };
        let back = set(self.set_back, "back", "while packets stayed in order");
        let ahead = set(
            self.set_ahead,
            "ahead",
            "although TCP timestamps and sequence numbers show no such jump",
        );
        back.into_iter().chain(ahead)
    }
}

fn duration(ns: i64) -> String {
    match ns {
        ..10_000_000_000 => format!("{} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// A note on records out of timestamp order.
pub(crate) fn disorder_note(late: u64, largest_ns: u64, fate: Fate) -> String {
    let fate = match fate {
        Fate::Sorted => "they are read in time order".to_owned(),
        Fate::TooFar => format!(
            "some lie too far apart to be sorted within {} MB: run `reordercap IN OUT` and read OUT",
            sorting::MOST_BYTES >> 20
        ),
        Fate::ReadOnce => {
            "the input can be read only once and is not sorted: write it to a file first".to_owned()
        }
        Fate::AsTheyAre => {
            "they are read in file order, which agrees with the acknowledgments".to_owned()
        }
    };
    format!(
        "the file is not in time order: {} with an earlier timestamp than the packet before, by up to {} ms; {fate}",
        packets(late),
        largest_ns as f64 / 1e6
    )
}

/// The fate of records out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Sorted,
    TooFar,
    ReadOnce,
    AsTheyAre,
}
