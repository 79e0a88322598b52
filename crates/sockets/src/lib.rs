//! Sockets of this host as the kernel reports them: `tcp_info`, congestion control, buffers, drops.
//!
//! One parser of `struct tcp_info` ([`info`]) serves both sources: a process's own socket ([`own`]), and the kernel's
//! answer to `sock_diag(7)` for the sockets of every process ([`message`], [`request`], [`netlink`]). The [`sampler`]
//! polls at regular times and stores changes.
//!
//! Layouts: `include/uapi/linux/{tcp,inet_diag,sock_diag,mptcp}.h`. Values that a kernel does not report are `None`,
//! never zero.

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
