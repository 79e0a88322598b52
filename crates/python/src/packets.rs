//! The packets of a capture as a table, for people who look at them one by one.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::builder::{StringBuilder, UInt8Builder, UInt16Builder, UInt32Builder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::ArrowError;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use whydrop_capture::{Capture, CaptureError, OpenOptions, Packet, Transport, contain};

use crate::analysis::{self, Time};
use crate::progress::Watch;
use crate::table::Table;

/// Progress is reported after as many packets.
const BETWEEN_REPORTS: u64 = 4096;

/// Reads the packets that match the display filter and lie in the span of time, as for `explain`; at most `most` of
/// them, the first; if `times_ns` is given, only those captured at one of these times. Returns them, whether there
/// are more, and notes on damage.
#[pyfunction]
#[pyo3(signature = (paths, most, *, times_ns = None, progress = None, filter = None, span = (None, None)))]
pub fn packets(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    most: usize,
    times_ns: Option<HashSet<i64>>,
    progress: Option<Py<PyAny>>,
    filter: Option<&str>,
    span: (Option<Time>, Option<Time>),
) -> PyResult<(Table, bool, Vec<String>)> {
    let open = OpenOptions {
        keep_duplicates: true,
        ..analysis::selecting(filter, span.0, span.1)?
    };
    let wanted = Wanted { most, times_ns };
    let watch = Watch::new(progress);
    let mut reporting = watch.clone();
    let outcome = py.detach(|| contain(|| read(&paths, &wanted, open, &mut reporting)));
    if let Some(raised) = watch.raised() {
        return Err(raised);
    }
    let found = outcome
        .map_err(|defect| analysis::CaptureError::new_err(defect.to_string()))?
        .map_err(|error| analysis::CaptureError::new_err(error.to_string()))?
        .ok_or_else(|| PyKeyboardInterrupt::new_err("stopped"))?;
    let batch = found.rows.finish().map_err(|error| {
        PyRuntimeError::new_err(format!(
            "the packets could not be passed to Python: {error}"
        ))
    })?;
    Ok((Table::new(batch), found.has_more, found.notes))
}

struct Wanted {
    most: usize,
    times_ns: Option<HashSet<i64>>,
}

struct Found {
    rows: Rows,
    has_more: bool,
    notes: Vec<String>,
}

/// `None` if Python asked to stop.
fn read(
    paths: &[PathBuf],
    wanted: &Wanted,
    open: OpenOptions,
    watch: &mut Watch,
) -> Result<Option<Found>, CaptureError> {
    let mut capture = Capture::open(paths, open)?;
    let mut rows = Rows::default();
    let mut has_more = false;
    let mut packets = 0;
    while let Some(packet) = capture.next_packet() {
        let is_wanted = match &wanted.times_ns {
            Some(times_ns) => times_ns.contains(&packet.time_ns),
            None => true,
        };
        if is_wanted && rows.len() == wanted.most {
            has_more = true;
            break;
        }
        if is_wanted {
            rows.push(&packet);
        }
        packets += 1;
        if packets % BETWEEN_REPORTS == 0
            && !watch.report(capture.bytes_done(), capture.bytes_total())
        {
            return Ok(None);
        }
    }
    Ok(Some(Found {
        rows,
        has_more,
        notes: capture.summary().notes,
    }))
}

/// The columns. What a packet does not have is null.
#[derive(Default)]
struct Rows {
    frame_number: Vec<u64>,
    time_ns: Vec<i64>,
    wire_bytes: Vec<u32>,
    source: StringBuilder,
    destination: StringBuilder,
    protocol: StringBuilder,
    source_port: UInt16Builder,
    destination_port: UInt16Builder,
    ip_bytes: UInt32Builder,
    payload_bytes: UInt32Builder,
    sequence: UInt32Builder,
    acknowledgment: UInt32Builder,
    flags: UInt16Builder,
    window: UInt16Builder,
    ttl: UInt8Builder,
    dscp: UInt8Builder,
    ecn: UInt8Builder,
}

impl Rows {
    fn len(&self) -> usize {
        self.time_ns.len()
    }

    fn push(&mut self, packet: &Packet<'_>) {
        self.frame_number.push(packet.index + 1);
        self.time_ns.push(packet.time_ns);
        self.wire_bytes.push(packet.wire_bytes);
        let network = packet.network.as_ref();
        let text = |address: IpAddr| address.to_string();
        self.source
            .append_option(network.map(|one| text(one.source)));
        self.destination
            .append_option(network.map(|one| text(one.destination)));
        self.ip_bytes.append_option(network.map(|one| one.ip_bytes));
        self.ttl.append_option(network.map(|one| one.ttl));
        self.dscp.append_option(network.map(|one| one.dscp));
        self.ecn.append_option(network.map(|one| one.ecn));
        self.push_transport(&packet.transport);
    }

    fn push_transport(&mut self, transport: &Transport<'_>) {
        self.protocol.append_value(protocol(transport));
        let (ports, payload_bytes) = match transport {
            Transport::Tcp(segment) => (
                Some((segment.source_port, segment.destination_port)),
                Some(segment.payload_bytes),
            ),
            Transport::Udp {
                source_port,
                destination_port,
                payload_bytes,
                ..
            } => (
                Some((*source_port, *destination_port)),
                Some(*payload_bytes),
            ),
            _ => (None, None),
        };
        self.source_port
            .append_option(ports.map(|(source, _)| source));
        self.destination_port
            .append_option(ports.map(|(_, destination)| destination));
        self.payload_bytes.append_option(payload_bytes);
        let tcp = match transport {
            Transport::Tcp(segment) => Some(segment),
            _ => None,
        };
        self.sequence.append_option(tcp.map(|one| one.sequence));
        self.acknowledgment
            .append_option(tcp.map(|one| one.acknowledgment));
        self.flags.append_option(tcp.map(|one| one.flags.0));
        self.window.append_option(tcp.map(|one| one.window));
    }

    fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        let columns: [(&str, ArrayRef, bool); 17] = [
            (
                "frame_number",
                Arc::new(UInt64Array::from(self.frame_number)),
                false,
            ),
            ("time_ns", Arc::new(Int64Array::from(self.time_ns)), false),
            (
                "wire_bytes",
                Arc::new(UInt32Array::from(self.wire_bytes)),
                false,
            ),
            ("protocol", Arc::new(self.protocol.finish()), false),
            ("source", Arc::new(self.source.finish()), true),
            ("source_port", Arc::new(self.source_port.finish()), true),
            ("destination", Arc::new(self.destination.finish()), true),
            (
                "destination_port",
                Arc::new(self.destination_port.finish()),
                true,
            ),
            ("ip_bytes", Arc::new(self.ip_bytes.finish()), true),
            ("payload_bytes", Arc::new(self.payload_bytes.finish()), true),
            ("sequence", Arc::new(self.sequence.finish()), true),
            (
                "acknowledgment",
                Arc::new(self.acknowledgment.finish()),
                true,
            ),
            ("flags", Arc::new(self.flags.finish()), true),
            ("window", Arc::new(self.window.finish()), true),
            ("ttl", Arc::new(self.ttl.finish()), true),
            ("dscp", Arc::new(self.dscp.finish()), true),
            ("ecn", Arc::new(self.ecn.finish()), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns)
    }
}

fn protocol(transport: &Transport<'_>) -> &'static str {
    match transport {
        Transport::Tcp(_) => "tcp",
        Transport::Udp { .. } => "udp",
        Transport::Icmp { .. } => "icmp",
        Transport::Fragment => "fragment",
        Transport::OtherProtocol(_) => "other",
        Transport::NotIp(_) => "not-ip",
        Transport::Undecodable => "undecodable",
    }
}
