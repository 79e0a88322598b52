//! Tests of the whole tracker, in one program, so that the crate is linked once.

mod flood;
mod hostile_flows;
mod kernel_counters;
mod short_connections;
mod syn_flood;
mod synthetic;
