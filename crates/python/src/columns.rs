//! The tables of an analysis as Arrow record batches. Values are moved, not copied; only validity bitmaps and
//! booleans (bit-packed in Arrow) are built.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int64Type, UInt8Type, UInt32Type};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray, RecordBatch};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use whydrop_explain::hop::models::Modelled;
use whydrop_explain::tables::{SegmentTable, Tables};

/// A record batch of the named fields of a table, each a column of the same name. `or` gives the value that
/// means "unknown" in the Rust tables; it becomes null.
macro_rules! batch {
    ($table:expr => $($field:ident $(or $absent:expr)?),+ $(,)?) => {{
        let table = $table;
        RecordBatch::try_from_iter_with_nullable([
            $((stringify!($field), batch!(@array table.$field $(, $absent)?), batch!(@nullable $($absent)?))),+
        ])
    }};
    (@array $values:expr) => { Column::array($values) };
    (@array $values:expr, $absent:expr) => { nullable($values, $absent) };
    (@nullable) => { false };
    (@nullable $absent:expr) => { true };
}

/// How many tables an analysis has.
pub const TABLES: usize = 7;

/// The tables, by the names that Python uses.
pub fn batches(tables: Tables) -> Result<[(&'static str, RecordBatch); TABLES], ArrowError> {
    Ok([
        ("segments", segments(tables.segments)?),
        (
            "acks",
            batch!(tables.acks => flow, time_ns, acknowledged, window_bytes or -1, ecn_echo)?,
        ),
        (
            "sacks",
            batch!(tables.sacks => flow, time_ns, start, end, duplicate)?,
        ),
        (
            "model",
            batch!(tables.model =>
                verdict, flow, time_ns, level_bytes, ip_bytes, predicted_drop, seen_lost, rival, wait_ns or -1,
                seen_wait_ns or -1,
            )?,
        ),
        (
            "crossings",
            batch!(tables.crossings =>
                hop, flow, direction, sent_ns, transit_ns or -1, time_1_ns or i64::MIN, time_2_ns or i64::MIN,
                number_1 or u32::MAX, number_2 or u32::MAX, sequence, payload_bytes, ip_bytes, crossing,
                burst_position, burst_length, gap_ns or -1, retransmission, overtook, ce_set,
            )?,
        ),
        (
            "rtp",
            batch!(tables.rtp => stream, time_ns, number, late_ns)?,
        ),
        (
            "rtp_reports",
            batch!(tables.rtp_reports =>
                stream, time_ns, lost_share, lost, jitter_ns, round_trip_ns or -1,
            )?,
        ),
    ])
}

/// A row for each packet of a replay.
pub fn replayed(packets: &[Modelled]) -> Result<RecordBatch, ArrowError> {
    let wait_ns = |packet: &Modelled| match packet.wait_s.is_nan() {
        true => -1,
        false => (packet.wait_s * 1e9).round() as i64,
    };
    RecordBatch::try_from_iter_with_nullable([
        (
            "level_bytes",
            (packets.iter().map(|packet| packet.level_bytes))
                .collect::<Vec<f64>>()
                .array(),
            false,
        ),
        (
            "predicted_drop",
            (packets.iter().map(|packet| packet.dropped))
                .collect::<Vec<bool>>()
                .array(),
            false,
        ),
        (
            "predicted_mark",
            (packets.iter().map(|packet| packet.marked))
                .collect::<Vec<bool>>()
                .array(),
            false,
        ),
        (
            "predicted_wait_ns",
            nullable(packets.iter().map(wait_ns).collect(), -1),
            true,
        ),
    ])
}

fn segments(table: SegmentTable) -> Result<RecordBatch, ArrowError> {
    batch!(table =>
        flow, transfer or u32::MAX, time_ns, sequence, payload_bytes, ip_bytes, kind, fate, spurious, rtt_ns or -1,
        in_flight_bytes,
    )
}

/// Values that become an Arrow array of their own type.
trait Column {
    fn array(self) -> ArrayRef;
}

/// Numbers that Arrow stores in the same form as Rust.
trait Number: ArrowNativeType {
    type Arrow: ArrowPrimitiveType<Native = Self>;
}

impl Number for u8 {
    type Arrow = UInt8Type;
}
impl Number for u32 {
    type Arrow = UInt32Type;
}
impl Number for i64 {
    type Arrow = Int64Type;
}
impl Number for f64 {
    type Arrow = Float64Type;
}

impl<N: Number> Column for Vec<N> {
    fn array(self) -> ArrayRef {
        Arc::new(PrimitiveArray::<N::Arrow>::new(
            ScalarBuffer::from(self),
            None,
        ))
    }
}

impl Column for Vec<bool> {
    fn array(self) -> ArrayRef {
        Arc::new(BooleanArray::from(self))
    }
}

/// A column in which `absent` becomes null.
fn nullable<N: Number>(column: Vec<N>, absent: N) -> ArrayRef {
    let valid = BooleanBuffer::collect_bool(column.len(), |row| column[row] != absent);
    Arc::new(PrimitiveArray::<N::Arrow>::new(
        ScalarBuffer::from(column),
        Some(NullBuffer::new(valid)),
    ))
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    use super::*;

    fn two_segments() -> SegmentTable {
        SegmentTable {
            flow: vec![0, 0],
            transfer: vec![0, u32::MAX],
            time_ns: vec![1, 2],
            sequence: vec![0, 1448],
            payload_bytes: vec![1448, 1448],
            ip_bytes: vec![1500, 1500],
            kind: vec![0, 1],
            fate: vec![1, 0],
            spurious: vec![false, true],
            rtt_ns: vec![-1, 40_000_000],
            in_flight_bytes: vec![1448, 2896],
        }
    }

    #[test]
    fn what_is_not_known_becomes_null() {
        let batch = segments(two_segments()).unwrap();
        let rtt = batch.column_by_name("rtt_ns").unwrap();
        assert!(rtt.is_null(0));
        assert_eq!(rtt.as_primitive::<Int64Type>().value(1), 40_000_000);
        assert!(batch.column_by_name("transfer").unwrap().is_null(1));
    }

    #[test]
    fn values_are_moved_and_not_copied() {
        let table = two_segments();
        let address = table.time_ns.as_ptr();
        let batch = segments(table).unwrap();
        let column = batch.column_by_name("time_ns").unwrap();
        assert_eq!(
            column.as_primitive::<Int64Type>().values().as_ptr(),
            address
        );
    }

    #[test]
    fn columns_of_unequal_length_are_an_error_and_no_panic() {
        let mut table = two_segments();
        table.kind.pop();
        assert!(segments(table).is_err());
    }

    #[test]
    fn an_analysis_without_rows_has_empty_tables() {
        let empty = batches(Tables::default()).unwrap();
        assert!(
            empty
                .iter()
                .all(|(_, batch)| batch.num_rows() == 0 && batch.num_columns() > 0)
        );
    }
}
