//! `TCP_INFO` of a socket (linux/tcp.h, `struct tcp_info`), as far as the running kernel fills it.

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::sample::TcpSample;

/// `struct tcp_info` up to `tcpi_dsack_dups` and on to `tcpi_rcv_ooopack` (Linux 5.4 and later fill it all).
#[repr(C)]
#[derive(Clone, Copy)]
struct Raw {
    state: u8,
    ca_state: u8,
    retransmits: u8,
    probes: u8,
    backoff: u8,
    options: u8,
    window_scales: u8,
    app_limited_and_fastopen: u8,
    rto_us: u32,
    ato_us: u32,
    snd_mss: u32,
    rcv_mss: u32,
    unacked: u32,
    sacked: u32,
    lost: u32,
    retrans: u32,
    fackets: u32,
    last_data_sent_ms: u32,
    last_ack_sent_ms: u32,
    last_data_recv_ms: u32,
    last_ack_recv_ms: u32,
    pmtu: u32,
    rcv_ssthresh: u32,
    rtt_us: u32,
    rttvar_us: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt_us: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rate_bytes: u64,
    max_pacing_rate_bytes: u64,
    bytes_acked: u64,
    bytes_received: u64,
    segs_out: u32,
    segs_in: u32,
    notsent_bytes: u32,
    min_rtt_us: u32,
    data_segs_in: u32,
    data_segs_out: u32,
    delivery_rate_bytes: u64,
    busy_time_us: u64,
    rwnd_limited_us: u64,
    sndbuf_limited_us: u64,
    delivered: u32,
    delivered_ce: u32,
    bytes_sent: u64,
    bytes_retrans: u64,
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
}

/// A threshold that was never set (`TCP_INFINITE_SSTHRESH`).
const NO_THRESHOLD: u32 = 0x7fff_ffff;
/// `tcpi_min_rtt` before the first measurement.
const NO_RTT: u32 = u32::MAX;
const TCPI_OPT_ECN: u8 = 8;

/// One reading of a socket's `TCP_INFO`.
#[derive(Clone, Copy)]
pub struct TcpInfo {
    raw: Raw,
    /// How many bytes the kernel filled.
    filled: usize,
}

macro_rules! told {
    ($info:expr, $field:ident) => {
        ($info.filled >= offset_of!(Raw, $field) + size_of_val(&$info.raw.$field))
            .then_some($info.raw.$field)
    };
}

impl TcpInfo {
    /// Reads it.
    ///
    /// # Errors
    /// Those of `getsockopt`.
    pub fn read(socket: BorrowedFd<'_>) -> io::Result<TcpInfo> {
        // SAFETY: `Raw` consists of integers, for which all zeros are valid.
        let mut raw: Raw = unsafe { std::mem::zeroed() };
        let mut length = size_of::<Raw>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to `raw`, which lives through the call.
        let status = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut raw).cast(),
                &raw mut length,
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(TcpInfo {
            raw,
            filled: length as usize,
        })
    }

    /// Whether both ends agreed to use explicit congestion notification.
    pub fn uses_ecn(&self) -> bool {
        self.raw.options & TCPI_OPT_ECN != 0
    }

    pub fn mss_bytes(&self) -> u32 {
        self.raw.snd_mss
    }

    pub fn path_mtu_bytes(&self) -> u32 {
        self.raw.pmtu
    }

    /// As a row of the recording.
    pub fn sample(&self, flow: u32, time_ns: i64) -> TcpSample {
        let micros = |value: u32| i64::from(value) * 1000;
        let long = |value: Option<u64>| {
            value.map(|value| {
                i64::try_from(value)
                    .unwrap_or(i64::MAX)
                    .saturating_mul(1000)
            })
        };
        let rate = |value: Option<u64>| {
            value
                .filter(|&bytes| bytes != u64::MAX)
                .map(|bytes| bytes as f64 * 8.0)
        };
        let raw = &self.raw;
        TcpSample {
            flow,
            time_ns,
            congestion_window_packets: raw.snd_cwnd,
            slow_start_threshold_packets: Some(raw.snd_ssthresh)
                .filter(|&packets| packets < NO_THRESHOLD),
            srtt_ns: micros(raw.rtt_us),
            rtt_variation_ns: micros(raw.rttvar_us),
            min_rtt_ns: told!(self, min_rtt_us)
                .filter(|&rtt| rtt != NO_RTT)
                .map(micros),
            mss_bytes: raw.snd_mss,
            unacked_packets: raw.unacked,
            lost_packets: raw.lost,
            retransmitted_packets: raw.total_retrans,
            retransmitted_bytes: told!(self, bytes_retrans),
            acked_bytes: told!(self, bytes_acked),
            delivered_packets: told!(self, delivered),
            delivered_ce_packets: told!(self, delivered_ce),
            delivery_rate_bps: rate(told!(self, delivery_rate_bytes)),
            pacing_rate_bps: rate(told!(self, pacing_rate_bytes)),
            busy_ns: long(told!(self, busy_time_us)),
            receive_window_limited_ns: long(told!(self, rwnd_limited_us)),
            send_buffer_limited_ns: long(told!(self, sndbuf_limited_us)),
            not_sent_bytes: told!(self, notsent_bytes),
            reordering_packets: raw.reordering,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn the_layout_is_that_of_the_kernels_header() {
        // Offsets of linux/tcp.h, where the alignment of the 64-bit fields could go wrong.
        assert_eq!(offset_of!(Raw, rtt_us), 68);
        assert_eq!(offset_of!(Raw, total_retrans), 100);
        assert_eq!(offset_of!(Raw, pacing_rate_bytes), 104);
        assert_eq!(offset_of!(Raw, min_rtt_us), 148);
        assert_eq!(offset_of!(Raw, delivery_rate_bytes), 160);
        assert_eq!(offset_of!(Raw, bytes_retrans), 208);
    }

    #[test]
    fn a_sample_counts_the_bytes_that_were_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(&[1; 5000]).unwrap();
        server.read_exact(&mut [0; 5000]).unwrap();
        server.write_all(&[1]).unwrap();
        client.read_exact(&mut [0]).unwrap();
        let sample = TcpInfo::read(client.as_fd()).unwrap().sample(3, 77);
        assert_eq!((sample.flow, sample.time_ns), (3, 77));
        // The kernel counts the SYN as one.
        assert!(
            sample
                .acked_bytes
                .is_none_or(|bytes| (5000..=5001).contains(&bytes)),
            "{sample:?}"
        );
        assert!(
            sample.congestion_window_packets > 0 && sample.mss_bytes > 500,
            "{sample:?}"
        );
    }

    #[test]
    fn what_an_old_kernel_does_not_fill_is_none() {
        // SAFETY: as above.
        let raw: Raw = unsafe { std::mem::zeroed() };
        let info = TcpInfo {
            raw,
            filled: offset_of!(Raw, pacing_rate_bytes),
        };
        let sample = info.sample(0, 0);
        assert!(
            sample.pacing_rate_bps.is_none()
                && sample.min_rtt_ns.is_none()
                && sample.busy_ns.is_none()
        );
    }
}
