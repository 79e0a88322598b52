//! `struct tcp_info` (linux/tcp.h), as far as a kernel fills it.
//!
//! The structure has only grown at its end, so its length shows which fields it has: 104 bytes since Linux 2.6, 192
//! with 4.9, 232 with 5.4, 248 with 6.7, 280 with 6.18.

/// The longest known version; later additions are ignored.
const LONGEST: usize = 280;
/// Up to `tcpi_total_retrans`: every kernel since 2.6 has these.
const SHORTEST: usize = 104;
/// `tcpi_last_data_sent` to `tcpi_last_ack_recv`: ages of events, which change by themselves.
pub(crate) const AGES: std::ops::Range<usize> = 44..60;

/// One reading of a connection's `tcp_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    bytes: [u8; LONGEST],
    length: u16,
}

impl TcpInfo {
    /// Parses the kernel's structure; `None` if it is shorter than any kernel's.
    pub fn parse(bytes: &[u8]) -> Option<TcpInfo> {
        if bytes.len() < SHORTEST {
            return None;
        }
        let length = bytes.len().min(LONGEST);
        let mut kept = [0; LONGEST];
        kept[..length].copy_from_slice(&bytes[..length]);
        Some(TcpInfo {
            bytes: kept,
            length: length as u16,
        })
    }

    /// True if the readings differ in anything except ages of events.
    pub fn differs(&self, other: &TcpInfo) -> bool {
        self.length != other.length
            || self.bytes[..AGES.start] != other.bytes[..AGES.start]
            || self.bytes[AGES.end..] != other.bytes[AGES.end..]
    }

    fn at<const SIZE: usize>(&self, offset: usize) -> Option<[u8; SIZE]> {
        let end = offset + SIZE;
        (end <= usize::from(self.length))
            .then(|| self.bytes[offset..end].try_into().ok())
            .flatten()
    }
}

/// Fields that every kernel has.
macro_rules! always {
    ($($(#[$doc:meta])* $name:ident: $kind:ty, $offset:literal;)*) => {
        impl TcpInfo {
            $($(#[$doc])* pub fn $name(&self) -> $kind {
                self.at($offset).map(<$kind>::from_ne_bytes).unwrap_or_default()
            })*
        }
    };
}

/// Fields of later kernels.
macro_rules! since {
    ($($(#[$doc:meta])* $name:ident: $kind:ty, $offset:literal;)*) => {
        impl TcpInfo {
            $($(#[$doc])* pub fn $name(&self) -> Option<$kind> {
                self.at($offset).map(<$kind>::from_ne_bytes)
            })*
        }
    };
}

always! {
    /// See [`crate::sample::state_name`].
    state: u8, 0;
    /// See [`crate::sample::congestion_state_name`].
    congestion_state: u8, 1;
    /// Consecutive timeouts without recovery.
    retransmits: u8, 2;
    /// Consecutive unanswered zero-window or keepalive probes.
    probes: u8, 3;
    /// How often the retransmission timeout was doubled.
    backoff: u8, 4;
    options: u8, 5;
    rto_us: u32, 8;
    ato_us: u32, 12;
    snd_mss: u32, 16;
    rcv_mss: u32, 20;
    unacked: u32, 24;
    sacked: u32, 28;
    lost: u32, 32;
    retrans: u32, 36;
    last_data_sent_ms: u32, 44;
    last_data_recv_ms: u32, 52;
    last_ack_recv_ms: u32, 56;
    pmtu: u32, 60;
    rcv_ssthresh: u32, 64;
    rtt_us: u32, 68;
    rttvar_us: u32, 72;
    snd_ssthresh: u32, 76;
    snd_cwnd: u32, 80;
    advmss: u32, 84;
    reordering: u32, 88;
    rcv_rtt_us: u32, 92;
    rcv_space: u32, 96;
    total_retrans: u32, 100;
}

since! {
    pacing_rate_bytes: u64, 104;
    max_pacing_rate_bytes: u64, 112;
    bytes_acked: u64, 120;
    bytes_received: u64, 128;
    segs_out: u32, 136;
    segs_in: u32, 140;
    notsent_bytes: u32, 144;
    min_rtt_us: u32, 148;
    data_segs_in: u32, 152;
    data_segs_out: u32, 156;
    delivery_rate_bytes: u64, 160;
    busy_time_us: u64, 168;
    rwnd_limited_us: u64, 176;
    sndbuf_limited_us: u64, 184;
    delivered: u32, 192;
    delivered_ce: u32, 196;
    bytes_sent: u64, 200;
    bytes_retrans: u64, 208;
    dsack_dups: u32, 216;
    reord_seen: u32, 220;
    rcv_ooopack: u32, 224;
    snd_wnd: u32, 228;
    rcv_wnd: u32, 232;
    rehash: u32, 236;
    total_rto: u16, 240;
    total_rto_recoveries: u16, 242;
    total_rto_time_ms: u32, 244;
    received_ce: u32, 248;
}

const TCPI_OPT_ECN: u8 = 8;

impl TcpInfo {
    /// True if both ends negotiated explicit congestion notification.
    pub fn uses_ecn(&self) -> bool {
        self.options() & TCPI_OPT_ECN != 0
    }

    /// True if the application, not the network, limited the latest measurement of the delivery rate; in a byte that
    /// was unused before Linux 4.9.
    pub fn delivery_rate_app_limited(&self) -> Option<bool> {
        self.delivery_rate_bytes().map(|_| self.bytes[7] & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure with each byte equal to its position.
    fn counted(length: usize) -> Vec<u8> {
        (0..length).map(|place| place as u8).collect()
    }

    #[test]
    fn fields_stand_where_the_kernels_header_has_them() {
        let info = TcpInfo::parse(&counted(280)).unwrap();
        assert_eq!((info.state(), info.congestion_state()), (0, 1));
        assert_eq!(info.rtt_us(), u32::from_ne_bytes([68, 69, 70, 71]));
        assert_eq!(
            info.total_retrans(),
            u32::from_ne_bytes([100, 101, 102, 103])
        );
        assert_eq!(
            info.delivery_rate_bytes(),
            Some(u64::from_ne_bytes([160, 161, 162, 163, 164, 165, 166, 167]))
        );
        assert_eq!(
            info.snd_wnd(),
            Some(u32::from_ne_bytes([228, 229, 230, 231]))
        );
        assert_eq!(info.total_rto(), Some(u16::from_ne_bytes([240, 241])));
        assert_eq!(
            info.received_ce(),
            Some(u32::from_ne_bytes([248, 249, 250, 251]))
        );
    }

    #[test]
    fn a_field_that_the_kernel_does_not_fill_whole_is_none() {
        for length in SHORTEST..=LONGEST {
            let info = TcpInfo::parse(&counted(length)).unwrap();
            assert_eq!(info.pacing_rate_bytes().is_some(), length >= 112);
            assert_eq!(info.min_rtt_us().is_some(), length >= 152);
            assert_eq!(info.snd_wnd().is_some(), length >= 232);
            assert_eq!(info.received_ce().is_some(), length >= 252);
        }
        assert_eq!(TcpInfo::parse(&counted(SHORTEST - 1)), None);
    }

    #[test]
    fn what_a_later_kernel_adds_changes_nothing() {
        assert_eq!(
            TcpInfo::parse(&counted(LONGEST)),
            TcpInfo::parse(&[counted(LONGEST), vec![9; 100]].concat())
        );
    }

    #[test]
    fn readings_differ_in_any_byte_but_those_of_ages() {
        let bytes = counted(248);
        let one = TcpInfo::parse(&bytes).unwrap();
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 0x40;
            let other = TcpInfo::parse(&other).unwrap();
            assert_eq!(one.differs(&other), !AGES.contains(&place), "byte {place}");
        }
    }
}
