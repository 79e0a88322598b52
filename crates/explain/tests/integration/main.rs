//! Results of the crate on whole captures. One binary, so that it is linked once.

mod causes;
mod common;
mod document;
mod flood;
mod hostile;
mod pair_suite;
mod pairs;
mod suite;
mod thresholds;
