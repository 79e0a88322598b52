//! Positions in the running kernel's structures, from its type information.

use whydrop_bpf::btf::Btf;

/// Names of drop reasons that a queueing discipline gives for a packet of this host's own.
const OF_QUEUE: [&str; 3] = [
    "SKB_DROP_REASON_QDISC_",
    "SKB_DROP_REASON_FQ_",
    "SKB_DROP_REASON_CAKE_",
];

/// A member of some bits in a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    pub byte: u16,
    pub lowest: u8,
    pub width: u8,
}

/// Offsets in the kernel's structures. Those of counters that older kernels do not have are `None`.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Both in network byte order. `skc_num`, the local port as a number, is cleared before a connection is closed.
    pub remote_port: u16,
    pub local_port: u16,
    pub family: u16,
    pub socket_state: u16,
    pub cookie: u16,
    pub namespace: u16,
    pub namespace_number: u16,
    pub ipv4: [u16; 2],
    pub ipv6: Option<[u16; 2]>,
    pub congestion_state: Bits,
    pub timeouts_in_a_row: Option<u16>,
    pub control: u16,
    pub own_window: Option<u16>,
    pub window: u16,
    pub threshold: u16,
    pub unacknowledged: u16,
    pub packets_out: u16,
    pub probe_sequence: Option<u16>,
    pub undo_marker: u16,
    pub sacked: u16,
    pub lost: u16,
    pub total_retransmitted: u16,
    pub srtt: u16,
    pub mss: u16,
    pub reordered: Option<u16>,
    pub duplicate_sacks: Option<u16>,
    pub marked: Option<u16>,
    pub packet_data: u16,
    pub packet_length: u16,
    pub packet_socket: u16,
    pub packet_first: u16,
    pub packet_end: u16,
    /// Numbers of the drop reasons of queueing disciplines; empty before Linux 5.18.
    pub queue_reasons: Vec<u32>,
}

impl Layout {
    /// Reads the running kernel's; `None` if something is missing without which events cannot be understood.
    pub fn of(btf: &Btf) -> Option<Layout> {
        let common = |member: &str| btf.of("sock", &format!("__sk_common.{member}"));
        let tcp = |member: &str| btf.of("tcp_sock", member);
        let (byte, lowest, width) = btf.bits_of("inet_connection_sock", "icsk_ca_state")?;
        let packet_control = btf.of("sk_buff", "cb")?;
        let ipv6 = common("skc_v6_rcv_saddr").zip(common("skc_v6_daddr"));
        Some(Layout {
            remote_port: common("skc_dport")?,
            local_port: btf.of("inet_sock", "inet_sport")?,
            family: common("skc_family")?,
            socket_state: common("skc_state")?,
            cookie: common("skc_cookie")?,
            namespace: common("skc_net")?,
            namespace_number: btf.of("net", "ns.inum")?,
            ipv4: [common("skc_rcv_saddr")?, common("skc_daddr")?],
            ipv6: ipv6.map(|(local, remote)| [local, remote]),
            congestion_state: Bits {
                byte,
                lowest,
                width,
            },
            timeouts_in_a_row: btf.of("inet_connection_sock", "icsk_retransmits"),
            control: btf.of("inet_connection_sock", "icsk_ca_ops")?,
            own_window: btf.of("tcp_congestion_ops", "cong_control"),
            window: tcp("snd_cwnd")?,
            threshold: tcp("snd_ssthresh")?,
            unacknowledged: tcp("snd_una")?,
            packets_out: tcp("packets_out")?,
            probe_sequence: tcp("tlp_high_seq"),
            undo_marker: tcp("undo_marker")?,
            sacked: tcp("sacked_out")?,
            lost: tcp("lost_out")?,
            total_retransmitted: tcp("total_retrans")?,
            srtt: tcp("srtt_us")?,
            mss: tcp("mss_cache")?,
            reordered: tcp("reord_seen"),
            duplicate_sacks: tcp("dsack_dups"),
            marked: tcp("delivered_ce"),
            packet_data: btf.of("sk_buff", "data")?,
            packet_length: btf.of("sk_buff", "len")?,
            packet_socket: btf.of("sk_buff", "sk")?,
            packet_first: packet_control + btf.of("tcp_skb_cb", "seq")?,
            packet_end: packet_control + btf.of("tcp_skb_cb", "end_seq")?,
            queue_reasons: queue_reasons(&btf.values("skb_drop_reason")),
        })
    }
}

fn queue_reasons(values: &[(String, u32)]) -> Vec<u32> {
    values
        .iter()
        .filter(|(name, _)| OF_QUEUE.iter().any(|begin| name.starts_with(begin)))
        .map(|(_, value)| *value)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_queueing_disciplines_are_known_by_their_names() {
        let values = [
            ("SKB_DROP_REASON_NO_SOCKET".to_owned(), 3),
            ("SKB_DROP_REASON_QDISC_DROP".to_owned(), 36),
            ("SKB_DROP_REASON_FQ_FLOW_LIMIT".to_owned(), 70),
        ];
        assert_eq!(queue_reasons(&values), [36, 70]);
    }

    #[test]
    fn this_kernel_s_layout_is_found() {
        // Without BTF there is nothing to check.
        if let Ok(btf) = Btf::of_kernel() {
            let layout = Layout::of(&btf).expect("all members");
            assert_eq!(layout.packet_end - layout.packet_first, 4);
            assert!(layout.congestion_state.width >= 3);
        }
    }
}
