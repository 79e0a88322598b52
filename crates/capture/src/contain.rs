//! Containment of defects: a capture is hostile input, and a panic on one of its connections costs that connection's
//! verdict only.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

thread_local! {
    /// How many calls of [`contain`] this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// This thread's latest panic within [`contain`].
    static LATEST: RefCell<Option<Defect>> = const { RefCell::new(None) };
}

/// A panic inside whydrop and its place, as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    message: String,
    place: Option<String>,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.as_deref().unwrap_or("an unknown place");
        write!(f, "a defect of whydrop at {place} ({})", self.message)
    }
}

/// Runs `work`; a panic in it becomes a [`Defect`], and nothing is printed.
///
/// A caller that contains a panic must discard what `work` was changing, which may be inconsistent.
///
/// # Errors
///
/// `work` panicked.
#[inline]
pub fn contain<T>(work: impl FnOnce() -> T) -> Result<T, Defect> {
    static HOOK: Once = Once::new();
    HOOK.call_once(silence_contained);
    let before = DEPTH.get();
    DEPTH.set(before.saturating_add(1));
    let outcome = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(before);
    outcome.map_err(|payload| latest_defect().unwrap_or_else(|| defect(payload.as_ref(), None)))
}

/// The latest panic of this thread within [`contain`], once, if something else caught it.
#[cold]
pub fn latest_defect() -> Option<Defect> {
    LATEST.take()
}

fn defect(payload: &(dyn Any + Send), place: Option<String>) -> Defect {
    let said = payload.downcast_ref::<&str>().copied();
    let said = said.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let words = said.unwrap_or("no message").split_whitespace();
    Defect {
        message: words.collect::<Vec<_>>().join(" "),
        place,
    }
}

/// Records contained panics, and passes all others to the previous hook.
fn silence_contained() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        if DEPTH.get() == 0 {
            return before(info);
        }
        let place = info.location();
        let place = place.map(|place| format!("{}:{}", place.file(), place.line()));
        LATEST.set(Some(defect(info.payload(), place)));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_ends_well_gives_its_result() {
        assert_eq!(contain(|| 7), Ok(7));
    }

    #[test]
    fn a_panic_becomes_one_line_with_its_place() {
        let empty: Vec<u8> = Vec::new();
        let defect = contain(|| empty[std::hint::black_box(3)]).unwrap_err();
        let line = defect.to_string();
        assert!(line.contains("contain.rs:"), "{line}");
        assert!(line.contains("the index is 3"), "{line}");
        assert!(!line.contains('\n'));
    }

    #[test]
    fn a_panic_that_other_code_caught_is_the_latest_once() {
        let caught = contain(|| catch_unwind(|| -> u8 { panic!("caught") }).is_err());
        assert_eq!(caught, Ok(true));
        let defect = latest_defect().expect("a panic");
        assert!(defect.to_string().contains("contain.rs:"), "{defect}");
        assert!(defect.to_string().ends_with("(caught)"), "{defect}");
        assert_eq!(latest_defect(), None);
    }

    #[test]
    fn a_panic_within_a_contained_one_is_the_inner_ones() {
        let outer = contain(|| contain(|| -> u8 { panic!("two\nlines") }));
        let inner = outer.expect("contained").unwrap_err();
        assert!(inner.to_string().ends_with("(two lines)"), "{inner}");
        assert_eq!(DEPTH.get(), 0);
    }
}
