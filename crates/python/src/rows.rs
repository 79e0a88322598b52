//! Rows of structs as Arrow record batches.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, StringArray};

/// A record batch with a column for each name: the given expression of `$row`, or its field of that name.
macro_rules! batch {
    ($rows:expr, $row:ident => $($name:ident $(: $value:expr)?),+ $(,)?) => {
        arrow_array::RecordBatch::try_from_iter([
            $((
                stringify!($name),
                $crate::rows::Cell::array($rows.iter().map(|$row| batch!(@value $row $name $(, $value)?))),
            )),+
        ])
    };
    (@value $row:ident $name:ident) => { $row.$name };
    (@value $row:ident $name:ident, $value:expr) => { $value };
}
pub(crate) use batch;

/// A value in one row of a column.
pub trait Cell: Sized {
    fn array(values: impl Iterator<Item = Self>) -> ArrayRef;
}

macro_rules! cells {
    ($($cell:ty => $array:ident, $value:ident => $kept:expr;)+) => {
        $(impl Cell for $cell {
            fn array(values: impl Iterator<Item = Self>) -> ArrayRef {
                Arc::new(values.map(|$value| $kept).collect::<$array>())
            }
        })+
    };
}

cells! {
    i32 => Int32Array, value => Some(value);
    u8 => Int64Array, value => Some(i64::from(value));
    u32 => Int64Array, value => Some(i64::from(value));
    u64 => Int64Array, value => Some(signed(value));
    i64 => Int64Array, value => Some(value);
    f64 => Float64Array, value => Some(value);
    Option<u32> => Int64Array, value => value.map(i64::from);
    Option<u64> => Int64Array, value => value.map(signed);
    Option<i64> => Int64Array, value => value;
    Option<f64> => Float64Array, value => value;
    bool => BooleanArray, value => Some(value);
    Option<bool> => BooleanArray, value => value;
    &'static str => StringArray, value => Some(value);
    Option<&'static str> => StringArray, value => value;
    String => StringArray, value => Some(value);
    Option<String> => StringArray, value => value;
}

/// Convert to a signed number; one that does not fit becomes the largest.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Goodput of an interval in bit/s; the far end's figures are not trusted.
pub fn goodput_bps(payload_bytes: u64, start_ns: i64, end_ns: i64) -> Option<f64> {
    let span_ns = end_ns.saturating_sub(start_ns);
    (span_ns > 0).then(|| payload_bytes as f64 * 8e9 / span_ns as f64)
}
