//! The tables of an analysis as Arrow record batches. Values move, they are not copied; only validity bitmaps and
//! booleans (bit-packed in Arrow) are built.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int64Type, UInt8Type, UInt32Type};
use arrow_array::{ArrayRef, BooleanArray, PrimitiveArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::ArrowError;
use whydrop_explain::tables::{
    AckTable, CrossingTable, ModelTable, SackTable, SegmentTable, Tables,
};

/// The tables by the names under which Python asks for them.
pub fn batches(tables: Tables) -> Result<[(&'static str, RecordBatch); 5], ArrowError> {
    Ok([
        ("segments", segments(tables.segments)?),
        ("acks", acks(tables.acks)?),
        ("sacks", sacks(tables.sacks)?),
        ("model", model(tables.model)?),
        ("crossings", crossings(tables.crossings)?),
    ])
}

fn segments(table: SegmentTable) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_from_iter_with_nullable([
        ("flow", values::<UInt32Type>(table.flow), false),
        (
            "transfer",
            nullable::<UInt32Type>(table.transfer, u32::MAX),
            true,
        ),
        ("time_ns", values::<Int64Type>(table.time_ns), false),
        ("sequence", values::<Int64Type>(table.sequence), false),
        (
            "payload_bytes",
            values::<UInt32Type>(table.payload_bytes),
            false,
        ),
        ("ip_bytes", values::<UInt32Type>(table.ip_bytes), false),
        ("kind", values::<UInt8Type>(table.kind), false),
        ("fate", values::<UInt8Type>(table.fate), false),
        ("spurious", booleans(&table.spurious), false),
        ("rtt_ns", nullable::<Int64Type>(table.rtt_ns, -1), true),
        (
            "in_flight_bytes",
            values::<UInt32Type>(table.in_flight_bytes),
            false,
        ),
    ])
}

fn acks(table: AckTable) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_from_iter_with_nullable([
        ("flow", values::<UInt32Type>(table.flow), false),
        ("time_ns", values::<Int64Type>(table.time_ns), false),
        (
            "acknowledged",
            values::<Int64Type>(table.acknowledged),
            false,
        ),
        (
            "window_bytes",
            nullable::<Int64Type>(table.window_bytes, -1),
            true,
        ),
    ])
}

fn sacks(table: SackTable) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_from_iter_with_nullable([
        ("flow", values::<UInt32Type>(table.flow), false),
        ("time_ns", values::<Int64Type>(table.time_ns), false),
        ("start", values::<Int64Type>(table.start), false),
        ("end", values::<Int64Type>(table.end), false),
        ("duplicate", booleans(&table.duplicate), false),
    ])
}

fn model(table: ModelTable) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_from_iter_with_nullable([
        ("verdict", values::<UInt32Type>(table.verdict), false),
        ("flow", values::<UInt32Type>(table.flow), false),
        ("time_ns", values::<Int64Type>(table.time_ns), false),
        (
            "level_bytes",
            values::<Float64Type>(table.level_bytes),
            false,
        ),
        ("ip_bytes", values::<UInt32Type>(table.ip_bytes), false),
        ("predicted_drop", booleans(&table.predicted_drop), false),
        ("seen_lost", booleans(&table.seen_lost), false),
        ("rival", booleans(&table.rival), false),
        ("wait_ns", nullable::<Int64Type>(table.wait_ns, -1), true),
        (
            "seen_wait_ns",
            nullable::<Int64Type>(table.seen_wait_ns, -1),
            true,
        ),
    ])
}

fn crossings(table: CrossingTable) -> Result<RecordBatch, ArrowError> {
    let number = |column| nullable::<UInt32Type>(column, u32::MAX);
    let time = |column| nullable::<Int64Type>(column, i64::MIN);
    let known = |column| nullable::<Int64Type>(column, -1);
    RecordBatch::try_from_iter_with_nullable([
        ("hop", values::<UInt32Type>(table.hop), false),
        ("flow", values::<UInt32Type>(table.flow), false),
        ("direction", values::<UInt8Type>(table.direction), false),
        ("sent_ns", values::<Int64Type>(table.sent_ns), false),
        ("transit_ns", known(table.transit_ns), true),
        ("time_1_ns", time(table.time_1_ns), true),
        ("time_2_ns", time(table.time_2_ns), true),
        ("number_1", number(table.number_1), true),
        ("number_2", number(table.number_2), true),
        ("sequence", values::<UInt32Type>(table.sequence), false),
        (
            "payload_bytes",
            values::<UInt32Type>(table.payload_bytes),
            false,
        ),
        ("ip_bytes", values::<UInt32Type>(table.ip_bytes), false),
        ("crossing", values::<UInt8Type>(table.crossing), false),
        (
            "burst_position",
            values::<UInt32Type>(table.burst_position),
            false,
        ),
        (
            "burst_length",
            values::<UInt32Type>(table.burst_length),
            false,
        ),
        ("gap_ns", known(table.gap_ns), true),
        ("retransmission", booleans(&table.retransmission), false),
        ("overtook", booleans(&table.overtook), false),
        ("ce_set", booleans(&table.ce_set), false),
    ])
}

fn values<T: ArrowPrimitiveType>(column: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(column), None))
}

/// `absent` stands for "not known" in the Rust tables and becomes null.
fn nullable<T: ArrowPrimitiveType>(column: Vec<T::Native>, absent: T::Native) -> ArrayRef {
    let valid = BooleanBuffer::collect_bool(column.len(), |row| column[row] != absent);
    Arc::new(PrimitiveArray::<T>::new(
        ScalarBuffer::from(column),
        Some(NullBuffer::new(valid)),
    ))
}

fn booleans(column: &[bool]) -> ArrayRef {
    Arc::new(BooleanArray::from(column.to_vec()))
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
