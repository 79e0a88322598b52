//! Reads any bytes as datagrams of the kernel's netlink sockets: lists of sockets, alerts of the drop monitor.

#![no_main]

use libfuzzer_sys::fuzz_target;
use whydrop_drops::drop_monitor;
use whydrop_drops::packet;
use whydrop_sockets::message::{self, Message, Socket};
use whydrop_sockets::sample::TcpSample;

fuzz_target!(|bytes: &[u8]| {
    let mut count = 0;
    for message in message::messages(bytes) {
        count += 1;
        if let Message::Socket(payload) = message
            && let Some(socket) = Socket::parse(payload)
        {
            read_socket(&socket);
        }
    }
    // a header has 16 bytes
    assert!(count <= bytes.len() / 16);
    if let Some((family, datagram)) = bytes.split_first_chunk::<2>() {
        let family = u16::from_le_bytes(*family);
        for message in drop_monitor::messages(datagram, family) {
            if let drop_monitor::Message::Packet(alert) = message {
                packet::parse(alert.ethertype, alert.headers);
            }
        }
    }
});

fn read_socket(socket: &Socket<'_>) {
    assert!(socket.message.len() >= socket.info_at.unwrap_or(0));
    if let Some(info) = &socket.info {
        let sample = TcpSample::of_info(info, 0, 0);
        assert_eq!(sample.flow, 0);
    }
}
