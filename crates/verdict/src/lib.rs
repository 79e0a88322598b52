//! Findings of producers of evidence, and the verdicts that follow from all findings together.
//!
//! A *producer* (one capture, two of them, a recording) makes [`Finding`]s in codes and numbers. [`reduce`]
//! lets the causes compete and combines the findings of several producers. This crate depends on no captures,
//! no TCP and no models of a path, and writes no prose: Python turns codes and numbers into sentences.

#![forbid(unsafe_code)]

mod cause;
mod finding;
mod reduce;

pub use cause::Cause;
pub use finding::{Fact, Finding, Place, PlaceKind, Quantity, Subject, Value};
pub use reduce::{Against, ReduceError, Verdict, log_odds, reduce};
