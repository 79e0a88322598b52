//! Causes compete for the losses and delays of each flow.

pub mod document;
pub mod tables;
