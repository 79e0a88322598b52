//! Sockets of this host as its kernel knows them: `tcp_info`, congestion control, buffers, drops.
//!
//! One reading of `struct tcp_info` ([`info`]) for whoever has it: from a socket of one's own ([`own`]), or from the
//! kernel's answer to `sock_diag(7)` for the sockets of every process ([`message`], [`request`], [`netlink`]). The
//! [`sampler`] asks at even times and keeps what changed.
//!
//! Layouts: `include/uapi/linux/{tcp,inet_diag,sock_diag,mptcp}.h`. What a kernel does not tell is `None`, never zero.

pub mod answer;
pub mod attributes;
pub mod batch;
pub mod clock;
mod counting;
pub mod filter;
pub mod info;
mod listing;
pub mod message;
pub mod netlink;
pub mod own;
pub mod processes;
pub mod request;
pub mod sample;
pub mod sampler;
pub mod schedule;
pub mod tracking;
