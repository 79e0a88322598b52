//! Simulated captures are read back and compared with their truth. One binary, so that the crate is linked once.

mod limiters;
mod pairs;
mod properties;
mod read_back;
mod validation;
