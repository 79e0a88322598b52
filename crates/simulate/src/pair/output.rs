//! A pair on disk: a folder with `b.pcap`, `y.pcap` and `truth.json`.

use std::fs;
use std::io;
use std::path::Path;
use whydrop_hosts::Toward;

use super::crossing::Body;
use super::frame::{self, Ends};
use super::sniffer::{Seen, Sighting, Sniffer};
use super::truth;
use super::world::SimulatedPair;
use crate::files::{self, WriteError, at};
use crate::headers::IpMarks;
use crate::pcap::Writer;

/// Writes a pair into `folder`, which is created if necessary. Returns its truth.
pub fn write(pair: &mut SimulatedPair, folder: &Path) -> Result<serde_json::Value, WriteError> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    let (b, y) = pair.watch();
    let ends = |flows: &[super::world::Flow]| flows.iter().map(|flow| flow.ends).collect();
    let at_b = (ends(&pair.tcp_flows), ends(&pair.udp_flows));
    write_capture(&folder.join("b.pcap"), &pair.b, &b, &at_b)?;
    write_capture(&folder.join("y.pcap"), &pair.y, &y, &pair.ends_at_y())?;
    let truth = truth::to_json(pair, &b, &y);
    files::write_json(&folder.join("truth.json"), &truth)?;
    Ok(truth)
}

/// `ends` contains the TCP flows and the UDP flows as they appear at this point.
fn write_capture(
    path: &Path,
    sniffer: &Sniffer,
    sighting: &Sighting,
    ends: &(Vec<Ends>, Vec<Ends>),
) -> Result<(), WriteError> {
    let out = files::create(path)?;
    let (records, last_is_cut) = (&sighting.records, sighting.last_is_cut);
    write_records(out, sniffer, records, last_is_cut, ends).map_err(at(path))
}

/// Writes the records of a sniffer.
pub(crate) fn write_records(
    out: impl io::Write,
    sniffer: &Sniffer,
    records: &[Seen],
    last_is_cut: bool,
    ends: &(Vec<Ends>, Vec<Ends>),
) -> io::Result<()> {
    let mut writer = Writer::new(out, sniffer.snaplen, sniffer.resolution)?;
    let mut bytes = Vec::new();
    for (place, record) in records.iter().enumerate() {
        let ends = match record.body {
            Body::Tcp(segment) => &ends.0[segment.flow],
            Body::Udp(datagram) => &ends.1[datagram.flow],
        };
        frame::build(
            &mut bytes,
            sniffer.link,
            ends,
            marks(sniffer, &record.body),
            &record.body,
        );
        if last_is_cut && place + 1 == records.len() {
            writer.write_cut_frame(record.stamp_ns, &bytes)?;
        } else {
            writer.write_frame(record.stamp_ns, &bytes)?;
        }
    }
    writer.finish()?;
    Ok(())
}

fn marks(sniffer: &Sniffer, body: &Body) -> IpMarks {
    let forward = body.toward() == Toward::Client;
    let identification = match body {
        _ if sniffer.identification_zero => 0,
        Body::Tcp(segment) if forward && segment.identification != 0 => segment
            .identification
            .wrapping_add(sniffer.identification_shift),
        Body::Tcp(segment) => segment.identification,
        Body::Udp(datagram) => datagram
            .identification
            .wrapping_add(sniffer.identification_shift),
    };
    IpMarks {
        ttl: if forward {
            sniffer.ttl_forward
        } else {
            sniffer.ttl_reverse
        },
        dscp: sniffer.dscp,
        ecn: match body {
            Body::Tcp(segment) => segment.ecn,
            Body::Udp(_) => whydrop_path::Ecn::NotCapable,
        },
        identification,
    }
}
