//! Rows of `tcp_info` as an Arrow record batch, with the columns of that table of a recording.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use whydrop_sockets::sample::{TcpSample, congestion_state_name, state_name};

use crate::rows::batch;

pub fn tcp_info(rows: &[TcpSample]) -> Result<RecordBatch, ArrowError> {
    batch!(rows, row =>
        flow: row.flow as i32,
        state: state_name(row.state),
        congestion_state: congestion_state_name(row.congestion_state),
        time_ns, congestion_window_packets, slow_start_threshold_packets, srtt_ns, rtt_variation_ns, min_rtt_ns,
        mss_bytes, unacked_packets, lost_packets, retransmitted_packets, retransmitted_bytes, acked_bytes,
        delivered_packets, delivered_ce_packets, delivery_rate_bps, pacing_rate_bps, busy_ns,
        receive_window_limited_ns, send_buffer_limited_ns, not_sent_bytes, reordering_packets, sacked_packets,
        in_retransmission_packets, timeouts_in_a_row, probes_in_a_row, backoff, timeout_ns, path_mtu_bytes,
        receive_mss_bytes, since_data_sent_ns, since_data_received_ns, since_ack_received_ns, receive_rtt_ns,
        receive_space_bytes, max_pacing_rate_bps, delivery_rate_app_limited, received_bytes, sent_bytes,
        sent_packets, received_packets, sent_data_packets, received_data_packets, duplicate_sacks,
        reordering_seen, out_of_order_packets, send_window_bytes, receive_window_bytes, rehashed, timeouts,
        timeout_recoveries, timeout_recovery_ns, received_ce_packets, receive_queue_bytes, send_queue_bytes,
        receive_memory_bytes, receive_buffer_bytes, send_memory_bytes, send_buffer_bytes, socket_drops,
    )
}
