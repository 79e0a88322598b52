//! Causes compete for the losses and delays of each flow.

pub mod cause;
pub mod document;
pub mod evidence;
pub mod group;
pub mod judge;
pub mod tables;
