//! Simulated captures, read back and held against what is known of them. One binary, so that it is linked once.

mod limiters;
mod pairs;
mod properties;
mod read_back;
mod validation;
