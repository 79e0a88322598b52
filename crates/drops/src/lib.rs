//! Packets that this host's kernel drops, with the reasons that the kernel gives.
//!
//! The kernel reports each dropped packet at the tracepoint `skb:kfree_skb`. If permitted, a BPF program ([`program`])
//! examines the packet there, and each retransmitted TCP segment at `tcp:tcp_retransmit_skb`, so that retransmissions
//! can be attributed to the drops that caused them ([`tally`]). Otherwise the tracepoint alone provides the reason
//! ([`tracefs`]). The [`monitor`] counts these events in bounded memory and processor time.

pub mod drop_monitor;
pub mod monitor;
pub mod packet;
pub mod program;
pub mod source;
pub mod symbols;
pub mod tally;
pub mod tracefs;
