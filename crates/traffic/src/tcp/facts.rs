//! Facts about a flow's connection that are recorded once.

use std::net::TcpStream;
use std::os::fd::AsFd;

use whydrop_sockets::own;

use crate::sample::Sink;
use crate::tcp::options;

/// Records which settings the sender's kernel uses.
pub fn of_sender(stream: &TcpStream, flow: u32, sink: &Sink) {
    let mut facts = Vec::new();
    if let Some(name) = options::congestion_control(stream) {
        facts.push((flow, "congestion_control".into(), name));
    }
    if let Ok(info) = own::read(stream.as_fd()) {
        facts.push((flow, "ecn_negotiated".into(), info.uses_ecn().to_string()));
        facts.push((flow, "mss_bytes".into(), info.snd_mss().to_string()));
        facts.push((flow, "path_mtu_bytes".into(), info.pmtu().to_string()));
    }
    if let Ok(local) = stream.local_addr() {
        facts.push((flow, "sender".into(), local.to_string()));
    }
    if let Ok(remote) = stream.peer_addr() {
        facts.push((flow, "receiver".into(), remote.to_string()));
    }
    sink.with(|samples| samples.facts.extend(facts));
}
