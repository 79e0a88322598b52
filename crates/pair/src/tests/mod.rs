//! Complete pairs of synthetic captures, with every packet's crossing known.

mod captures;
mod clocks;
mod crossings;
mod floods;
mod hints;
mod offload;
mod other_protocols;
mod properties;
mod renumbering;
mod rewriting;
