//! Packets that this host's kernel drops, and why: by the reason that it gives itself.
//!
//! The kernel tells of each dropped packet at tracepoint `skb:kfree_skb`. Where it may, a program of our own ([`program`])
//! looks at the packet there, and at each TCP segment that is sent again (`tcp:tcp_retransmit_skb`), so that a
//! retransmission can be laid to the drop that made it needed ([`tally`]). Where it may not, the tracepoint alone tells the
//! reason ([`perf`], [`tracefs`]). The [`monitor`] counts what comes, in bounded memory and processor time.

pub mod assembler;
pub mod bpf;
pub mod btf;
pub mod monitor;
pub mod packet;
pub mod perf;
pub mod program;
pub mod source;
pub mod symbols;
pub mod tally;
pub mod tracefs;
