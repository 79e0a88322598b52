//! Rows of `tcp_info` as an Arrow record batch, with the columns of that table of a recording.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow_schema::ArrowError;
use whydrop_sockets::sample::{TcpSample, congestion_state_name, state_name};

/// What a column is made of.
pub trait Cell: Sized {
    fn column(cells: impl Iterator<Item = Self>) -> ArrayRef;
}

macro_rules! cells {
    ($($kind:ty => $array:ty, |$cell:ident| $value:expr;)*) => {
        $(impl Cell for $kind {
            fn column(cells: impl Iterator<Item = $kind>) -> ArrayRef {
                Arc::new(cells.map(|$cell| $value).collect::<$array>())
            }
        })*
    };
}

cells! {
    i64 => Int64Array, |cell| Some(cell);
    Option<i64> => Int64Array, |cell| cell;
    u8 => Int64Array, |cell| Some(i64::from(cell));
    u32 => Int64Array, |cell| Some(i64::from(cell));
    Option<u32> => Int64Array, |cell| cell.map(i64::from);
    u64 => Int64Array, |cell| Some(signed(cell));
    Option<u64> => Int64Array, |cell| cell.map(signed);
    f64 => Float64Array, |cell| Some(cell);
    Option<f64> => Float64Array, |cell| cell;
    Option<bool> => BooleanArray, |cell| cell;
    bool => BooleanArray, |cell| Some(cell);
    Option<&'static str> => StringArray, |cell| cell;
}

/// A column of table `flow`'s numbers.
pub fn flows(flows: impl Iterator<Item = u32>) -> ArrayRef {
    Arc::new(flows.map(|flow| Some(flow as i32)).collect::<Int32Array>())
}

/// What does not fit is as large as can be.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Columns that have the names of the fields of the rows.
#[macro_export]
macro_rules! fields {
    ($rows:expr; $($field:ident),* $(,)?) => {
        vec![$((stringify!($field), $crate::tcp_columns::Cell::column($rows.iter().map(|row| row.$field)))),*]
    };
}

pub fn tcp_info(rows: &[TcpSample]) -> Result<RecordBatch, ArrowError> {
    let names = [
        (
            "state",
            Cell::column(rows.iter().map(|row| state_name(row.state))),
        ),
        (
            "congestion_state",
            Cell::column(
                rows.iter()
                    .map(|row| congestion_state_name(row.congestion_state)),
            ),
        ),
    ];
    let columns = fields![
        rows;
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
    ];
    let flow = ("flow", flows(rows.iter().map(|row| row.flow)));
    RecordBatch::try_from_iter(std::iter::once(flow).chain(names).chain(columns))
}
