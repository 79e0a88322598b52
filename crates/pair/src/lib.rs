//! Two captures of one path: packets matched, clocks aligned, losses placed.
//!
//! | module | what it does |
//! |---|---|
//! | [`clock`] | offset, drift and steps between the two captures' clocks |

pub mod clock;
