//! Tests of the whole tracker, in one program: it links the crate once.

mod flood;
mod hostile_flows;
mod kernel_counters;
mod short_connections;
mod syn_flood;
mod synthetic;
