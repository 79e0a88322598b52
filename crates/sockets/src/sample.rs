//! A reading as a row of a recording's table `tcp_info`, in the recording's units.

use serde::{Deserialize, Serialize};

use crate::info::TcpInfo;
use crate::message::{ControlState, Memory, Socket};

/// A threshold that was never set (`TCP_INFINITE_SSTHRESH`).
const NO_THRESHOLD: u32 = 0x7fff_ffff;
/// `tcpi_min_rtt` before the first measurement.
const NO_RTT: u32 = u32::MAX;

/// The state of a connection at one end. Unreported values are `None`; counters are since the connection began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSample {
    pub flow: u32,
    pub time_ns: i64,
    pub congestion_window_packets: u32,
    pub slow_start_threshold_packets: Option<u32>,
    pub srtt_ns: i64,
    pub rtt_variation_ns: i64,
    pub min_rtt_ns: Option<i64>,
    pub mss_bytes: u32,
    pub unacked_packets: u32,
    pub lost_packets: u32,
    pub retransmitted_packets: u32,
    pub retransmitted_bytes: Option<u64>,
    pub acked_bytes: Option<u64>,
    pub delivered_packets: Option<u32>,
    pub delivered_ce_packets: Option<u32>,
    pub delivery_rate_bps: Option<f64>,
    pub pacing_rate_bps: Option<f64>,
    pub busy_ns: Option<i64>,
    pub receive_window_limited_ns: Option<i64>,
    pub send_buffer_limited_ns: Option<i64>,
    pub not_sent_bytes: Option<u32>,
    pub reordering_packets: u32,
    /// See [`state_name`].
    pub state: u8,
    /// See [`congestion_state_name`].
    pub congestion_state: u8,
    pub sacked_packets: u32,
    pub in_retransmission_packets: u32,
    pub timeouts_in_a_row: u8,
    pub probes_in_a_row: u8,
    pub backoff: u8,
    pub timeout_ns: i64,
    pub path_mtu_bytes: u32,
    pub receive_mss_bytes: u32,
    pub since_data_sent_ns: i64,
    pub since_data_received_ns: i64,
    pub since_ack_received_ns: i64,
    /// Null until there was data to measure it.
    pub receive_rtt_ns: Option<i64>,
    pub receive_space_bytes: u32,
    pub max_pacing_rate_bps: Option<f64>,
    pub delivery_rate_app_limited: Option<bool>,
    pub received_bytes: Option<u64>,
    pub sent_bytes: Option<u64>,
    pub sent_packets: Option<u32>,
    pub received_packets: Option<u32>,
    pub sent_data_packets: Option<u32>,
    pub received_data_packets: Option<u32>,
    pub duplicate_sacks: Option<u32>,
    pub reordering_seen: Option<u32>,
    pub out_of_order_packets: Option<u32>,
    /// The window that the peer grants.
    pub send_window_bytes: Option<u32>,
    /// The window that this end grants.
    pub receive_window_bytes: Option<u32>,
    pub rehashed: Option<u32>,
    pub timeouts: Option<u32>,
    pub timeout_recoveries: Option<u32>,
    pub timeout_recovery_ns: Option<i64>,
    pub received_ce_packets: Option<u32>,
    pub receive_queue_bytes: Option<u32>,
    pub send_queue_bytes: Option<u32>,
    pub receive_memory_bytes: Option<u32>,
    pub receive_buffer_bytes: Option<u32>,
    pub send_memory_bytes: Option<u32>,
    pub send_buffer_bytes: Option<u32>,
    pub socket_drops: Option<u32>,
}

impl TcpSample {
    /// From a reading alone, as for a process's own socket.
    pub fn of_info(info: &TcpInfo, flow: u32, time_ns: i64) -> TcpSample {
        TcpSample {
            flow,
            time_ns,
            congestion_window_packets: info.snd_cwnd(),
            slow_start_threshold_packets: Some(info.snd_ssthresh())
                .filter(|&packets| packets < NO_THRESHOLD),
            srtt_ns: micros(info.rtt_us()),
            rtt_variation_ns: micros(info.rttvar_us()),
            min_rtt_ns: info.min_rtt_us().filter(|&rtt| rtt != NO_RTT).map(micros),
            mss_bytes: info.snd_mss(),
            unacked_packets: info.unacked(),
            lost_packets: info.lost(),
            retransmitted_packets: info.total_retrans(),
            retransmitted_bytes: info.bytes_retrans(),
            acked_bytes: info.bytes_acked(),
            delivered_packets: info.delivered(),
            delivered_ce_packets: info.delivered_ce(),
            delivery_rate_bps: info.delivery_rate_bytes().and_then(rate),
            pacing_rate_bps: info.pacing_rate_bytes().and_then(rate),
            busy_ns: info.busy_time_us().map(long),
            receive_window_limited_ns: info.rwnd_limited_us().map(long),
            send_buffer_limited_ns: info.sndbuf_limited_us().map(long),
            not_sent_bytes: info.notsent_bytes(),
            reordering_packets: info.reordering(),
            state: info.state(),
            congestion_state: info.congestion_state(),
            sacked_packets: info.sacked(),
            in_retransmission_packets: info.retrans(),
            timeouts_in_a_row: info.retransmits(),
            probes_in_a_row: info.probes(),
            backoff: info.backoff(),
            timeout_ns: micros(info.rto_us()),
            path_mtu_bytes: info.pmtu(),
            receive_mss_bytes: info.rcv_mss(),
            since_data_sent_ns: millis(info.last_data_sent_ms()),
            since_data_received_ns: millis(info.last_data_recv_ms()),
            since_ack_received_ns: millis(info.last_ack_recv_ms()),
            receive_rtt_ns: Some(info.rcv_rtt_us()).filter(|&rtt| rtt != 0).map(micros),
            receive_space_bytes: info.rcv_space(),
            max_pacing_rate_bps: info.max_pacing_rate_bytes().and_then(rate),
            delivery_rate_app_limited: info.delivery_rate_app_limited(),
            received_bytes: info.bytes_received(),
            sent_bytes: info.bytes_sent(),
            sent_packets: info.segs_out(),
            received_packets: info.segs_in(),
            sent_data_packets: info.data_segs_out(),
            received_data_packets: info.data_segs_in(),
            duplicate_sacks: info.dsack_dups(),
            reordering_seen: info.reord_seen(),
            out_of_order_packets: info.rcv_ooopack(),
            send_window_bytes: info.snd_wnd(),
            receive_window_bytes: info.rcv_wnd(),
            rehashed: info.rehash(),
            timeouts: info.total_rto().map(u32::from),
            timeout_recoveries: info.total_rto_recoveries().map(u32::from),
            timeout_recovery_ns: info.total_rto_time_ms().map(millis),
            received_ce_packets: info.received_ce(),
            ..TcpSample::default()
        }
    }

    /// From a socket that the kernel described, with its queues and memory.
    pub fn of_socket(
        info: &TcpInfo,
        queues: (u32, u32),
        memory: Option<Memory>,
        flow: u32,
        time_ns: i64,
    ) -> TcpSample {
        TcpSample {
            receive_queue_bytes: Some(queues.0),
            send_queue_bytes: Some(queues.1),
            ..TcpSample::of_info(info, flow, time_ns).with_memory(memory)
        }
    }

    /// Adds the use and limits of the socket's buffers.
    #[must_use]
    pub fn with_memory(self, memory: Option<Memory>) -> TcpSample {
        TcpSample {
            receive_memory_bytes: memory.map(|memory| memory.receive_allocated_bytes),
            receive_buffer_bytes: memory.map(|memory| memory.receive_buffer_bytes),
            send_memory_bytes: memory.map(|memory| memory.send_queued_bytes),
            send_buffer_bytes: memory.map(|memory| memory.send_buffer_bytes),
            socket_drops: memory.and_then(|memory| memory.drops),
            ..self
        }
    }
}

/// The values that a congestion control reports, as (key, value) of the recording's table `values`. Keys that Flent
/// also has are spelled as there.
pub fn control_values(state: ControlState) -> Vec<(&'static str, f64)> {
    let ms = |micros: u32| f64::from(micros) / 1e3;
    match state {
        ControlState::Vegas {
            rtt_count,
            rtt_us,
            min_rtt_us,
        } => vec![
            ("tcp_vegas_rtt_count", f64::from(rtt_count)),
            ("tcp_vegas_rtt_ms", ms(rtt_us)),
            ("tcp_vegas_min_rtt_ms", ms(min_rtt_us)),
        ],
        ControlState::Dctcp { ce_state, alpha } => vec![
            ("tcp_dctcp_ce_state", f64::from(ce_state)),
            ("tcp_dctcp_alpha", f64::from(alpha) / 1024.0),
        ],
        ControlState::Bbr {
            bandwidth_bytes,
            min_rtt_us,
            pacing_gain,
            window_gain,
        } => vec![
            // Megabits per second, as in Flent.
            ("tcp_bbr_bw", bandwidth_bytes as f64 * 8.0 / 1e6),
            ("tcp_bbr_mrtt", ms(min_rtt_us)),
            ("tcp_bbr_pacing_gain", f64::from(pacing_gain) / 256.0),
            ("tcp_bbr_cwnd_gain", f64::from(window_gain) / 256.0),
        ],
    }
}

/// True if a socket has both ends; false for listeners and pending requests.
pub fn has_peer(socket: &Socket<'_>) -> bool {
    socket.remote.port() != 0
}

/// The state of RFC 9293 for the kernel's number (net/tcp_states.h).
pub fn state_name(state: u8) -> Option<&'static str> {
    const NAMES: [&str; 12] = [
        "established",
        "syn-sent",
        "syn-received",
        "fin-wait-1",
        "fin-wait-2",
        "time-wait",
        "closed",
        "close-wait",
        "last-ack",
        "listen",
        "closing",
        "syn-received",
    ];
    NAMES.get(usize::from(state).checked_sub(1)?).copied()
}

/// The name of `enum tcp_ca_state` (linux/tcp.h).
pub fn congestion_state_name(state: u8) -> Option<&'static str> {
    const NAMES: [&str; 5] = ["open", "disorder", "reduced", "recovery", "loss"];
    NAMES.get(usize::from(state)).copied()
}

fn micros(value: u32) -> i64 {
    i64::from(value) * 1000
}

fn millis(value: u32) -> i64 {
    i64::from(value) * 1_000_000
}

fn long(micros: u64) -> i64 {
    i64::try_from(micros)
        .unwrap_or(i64::MAX)
        .saturating_mul(1000)
}

/// Converts bytes per second to bit/s; all ones mean no limit.
fn rate(bytes: u64) -> Option<f64> {
    (bytes != u64::MAX).then_some(bytes as f64 * 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(length: usize, fields: &[(usize, &[u8])]) -> TcpInfo {
        let mut bytes = vec![0; length];
        for (offset, value) in fields {
            bytes[*offset..offset + value.len()].copy_from_slice(value);
        }
        TcpInfo::parse(&bytes).unwrap()
    }

    #[test]
    fn a_row_has_the_units_of_the_recording() {
        let reading = info(
            232,
            &[
                (68, &20_000_u32.to_ne_bytes()),
                (104, &1_250_000_u64.to_ne_bytes()),
                (168, &1_500_000_u64.to_ne_bytes()),
                (44, &7_u32.to_ne_bytes()),
            ],
        );
        let sample = TcpSample::of_info(&reading, 3, 77);
        assert_eq!((sample.flow, sample.time_ns), (3, 77));
        assert_eq!(sample.srtt_ns, 20_000_000);
        assert_eq!(sample.pacing_rate_bps, Some(1e7));
        assert_eq!(sample.busy_ns, Some(1_500_000_000));
        assert_eq!(sample.since_data_sent_ns, 7_000_000);
    }

    #[test]
    fn what_was_never_set_or_measured_is_none() {
        let reading = info(
            232,
            &[
                (76, &NO_THRESHOLD.to_ne_bytes()),
                (148, &NO_RTT.to_ne_bytes()),
                (112, &u64::MAX.to_ne_bytes()),
            ],
        );
        let sample = TcpSample::of_info(&reading, 0, 0);
        assert_eq!(sample.slow_start_threshold_packets, None);
        assert_eq!(sample.min_rtt_ns, None);
        assert_eq!(sample.max_pacing_rate_bps, None);
        assert_eq!(sample.receive_rtt_ns, None);
    }

    #[test]
    fn what_an_old_kernel_does_not_fill_is_none() {
        let sample = TcpSample::of_info(&info(104, &[]), 0, 0);
        assert!(
            sample.pacing_rate_bps.is_none()
                && sample.min_rtt_ns.is_none()
                && sample.busy_ns.is_none()
                && sample.delivery_rate_app_limited.is_none()
        );
        let sample = TcpSample::of_info(&info(232, &[]), 0, 0);
        assert!(sample.send_window_bytes == Some(0) && sample.receive_window_bytes.is_none());
    }

    #[test]
    fn states_have_their_names() {
        assert_eq!(
            [1, 7, 10].map(state_name),
            [Some("established"), Some("closed"), Some("listen")]
        );
        assert_eq!([0, 13, 255].map(state_name), [None; 3]);
        assert_eq!(
            [0, 3, 4, 5].map(congestion_state_name),
            [Some("open"), Some("recovery"), Some("loss"), None]
        );
    }

    #[test]
    fn bbr_reports_its_bandwidth_in_megabits_per_second_and_its_gains() {
        let values = control_values(ControlState::Bbr {
            bandwidth_bytes: 1_250_000,
            min_rtt_us: 20_500,
            pacing_gain: 320,
            window_gain: 512,
        });
        assert_eq!(
            values,
            [
                ("tcp_bbr_bw", 10.0),
                ("tcp_bbr_mrtt", 20.5),
                ("tcp_bbr_pacing_gain", 1.25),
                ("tcp_bbr_cwnd_gain", 2.0)
            ]
        );
    }
}
