//! The words of the engine: what a producer of evidence finds, and what comes of all findings together.
//!
//! A *producer* (one capture, two of them, a recording) makes [`Finding`]s in codes and numbers. [`reduce`] lets the causes
//! compete and adds up what several producers say. Nothing here knows of captures, of TCP or of models of a path, and
//! nothing is written for readers: prose is made of codes and numbers elsewhere, once.

mod cause;
mod finding;
mod reduce;

pub use cause::Cause;
pub use finding::{Fact, Finding, Place, PlaceKind, Quantity, Subject, Value};
pub use reduce::{Against, ReduceError, Verdict, log_odds, reduce};
