//! Whole pairs of captures, written by hand, with every packet's crossing known.

mod captures;
mod clocks;
mod crossings;
mod floods;
mod offload;
mod other_protocols;
mod properties;
mod renumbering;
mod rewriting;
