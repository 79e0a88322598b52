//! Programs in the kernel (eBPF), built at run time without a compiler, and the rings in which they report.
//!
//! A program is written with an [`assembler`], with the offsets of the running kernel ([`btf`]), loaded and attached to
//! a tracepoint ([`loading`]), and its reports are read from memory rings, one for each processor ([`perf`]).

pub mod assembler;
pub mod btf;
pub mod loading;
pub mod perf;
