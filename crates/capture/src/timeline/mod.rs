//! The time of each record, where the file's own stamps do not go on: records out of order, and a clock that was set.
//!
//! Stamps that go on, and not by much at once, are given as they are, and what is kept of such packets is little: this is
//! the ordinary way. Where a stamp goes back, or far ahead, the packets after it are looked at before it is believed
//! ([`evidence`]). Packets out of order cannot be put right any more by then, so the capture says that it is disordered and
//! is read again with [`crate::Capture::in_order`]. A clock that was set is undone: what comes after is counted on from where
//! the packets say that time went on.

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

/// Connections pause for as long at any time; a clock that is set by less does little harm.
const LEAST_AHEAD_NS: i64 = 500_000_000;
/// Packets after a stamp that does not go on that are looked at.
pub(crate) const LOOKAHEAD_PACKETS: usize = 256;

/// A packet that waits: its stamp and what its headers say.
pub(crate) trait Waiting {
    fn stamped_ns(&self) -> i64;
    fn decoded(&self) -> &Decoded;
}

/// Times of one capture.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// Undo what clocks were set by. Two captures that are laid side by side need the stamps as they are.
    pub(crate) keeps_clock_steady: bool,
    /// Latest time given since the capture began, or since stamps that nothing explains.
    latest_ns: Option<i64>,
    /// Added to stamps.
    offset_ns: i64,
    recent: Recent,
    /// Records were found out of order: their stamps are given as they are.
    pub(crate) is_disordered: bool,
    /// Stamps of a file that is in order go back by as much now and then.
    tolerated_back_ns: i64,
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
    /// The time of the next packet; `None` where the stamp does not go on and [`Timeline::time_after_a_look`] must be asked.
    #[inline(always)]
    pub(crate) fn time_ns(&mut self, stamped_ns: i64, decoded: &Decoded) -> Option<i64> {
        let time_ns = stamped_ns.saturating_add(self.offset_ns);
        let latest_ns = self.latest_ns.unwrap_or(time_ns);
        let ahead_ns = time_ns.saturating_sub(latest_ns);
        let goes_on =
            ahead_ns >= self.tolerated_back_ns.saturating_neg() && ahead_ns <= LEAST_AHEAD_NS;
        if !goes_on && !self.is_disordered && (ahead_ns < 0 || self.keeps_clock_steady) {
            return None;
        }
        self.latest_ns = Some(latest_ns.max(time_ns));
        self.recent.note(time_ns, decoded);
        Some(time_ns)
    }

    /// The time of the first of these packets, whose stamp does not go on. The others come after it in the file.
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
            Finding::Unsteady => {
                let back_ns = latest_ns.saturating_sub(time_ns);
                self.tolerated_back_ns = self.tolerated_back_ns.max(back_ns.saturating_mul(2));
            }
            Finding::Pause => self.latest_ns = Some(latest_ns.max(time_ns)),
        }
        self.recent.note(time_ns, first.decoded());
        Some(time_ns)
    }

    /// True if stamps went back because the clock did, and none because the file is out of order.
    pub(crate) fn was_set_back(&self) -> bool {
        self.set_back.count > 0 && !self.is_disordered
    }

    /// Notes for the reader of the result.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let set = |steps: Steps, way: &str, proof: &str| {
            (steps.count > 0).then(|| {
                format!(
                    "the clock was set {way} while the capture ran{}: by {}, {proof}; what came after is counted on from there",
                    if steps.count == 1 { String::new() } else { format!(", {} times", steps.count) },
                    duration(steps.total_ns),
                )
            })
        };
        let back = set(
            self.set_back,
            "back",
            "while packets went on in their order",
        );
        let ahead = set(
            self.set_ahead,
            "ahead",
            "which TCP's own timestamps and numbers contradict",
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

/// A note on records that were not in the order of their stamps.
pub(crate) fn disorder_note(late: u64, largest_ns: u64, fate: Fate) -> String {
    let fate = match fate {
        Fate::Sorted => "they are read in the order of their time".to_owned(),
        Fate::TooFar => format!(
            "some lie too far apart for the {} MB that are kept to put them in order: run `reordercap IN OUT` and read OUT",
            sorting::MOST_BYTES >> 20
        ),
        Fate::ReadOnce => {
            "the input can be read only once, and is not put in order: write it to a file, which is"
                .to_owned()
        }
        Fate::AsTheyAre => {
            "they are read in the order of the file, which acknowledgments follow".to_owned()
        }
    };
    format!(
        "the file is not in the order of its time stamps: stamped earlier than the packet before: {}, by up to {} ms; {fate}",
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
