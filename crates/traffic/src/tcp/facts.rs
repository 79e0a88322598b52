//! What is worth knowing once of a flow's connection.

use std::net::TcpStream;
use std::os::fd::AsFd;

use crate::sample::Sink;
use crate::tcp::info::TcpInfo;
use crate::tcp::options;

/// Notes what the sender's kernel really uses.
pub fn of_sender(stream: &TcpStream, flow: u32, sink: &Sink) {
    let mut facts = Vec::new();
    if let Some(name) = options::congestion_control(stream) {
        facts.push((flow, "congestion_control".into(), name));
    }
    if let Ok(info) = TcpInfo::read(stream.as_fd()) {
        facts.push((flow, "ecn_negotiated".into(), info.uses_ecn().to_string()));
        facts.push((flow, "mss_bytes".into(), info.mss_bytes().to_string()));
        facts.push((
            flow,
            "path_mtu_bytes".into(),
            info.path_mtu_bytes().to_string(),
        ));
    }
    if let Ok(local) = stream.local_addr() {
        facts.push((flow, "sender".into(), local.to_string()));
    }
    if let Ok(remote) = stream.peer_addr() {
        facts.push((flow, "receiver".into(), remote.to_string()));
    }
    sink.with(|samples| samples.facts.extend(facts));
}
