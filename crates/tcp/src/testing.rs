//! Conversations written packet by packet, for tests.

use std::net::{IpAddr, Ipv4Addr};

use whydrop_capture::{Network, Packet, TcpFlags, TcpOptions, TcpSegment, Transport};
use whydrop_testkit::{Ipv4, Tcp};

use crate::*;

pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));
pub(crate) const MS: i64 = 1_000_000;
pub(crate) const MSS: u32 = 1000;

/// A conversation captured at the server, which sends the data. The methods advance no time: each gets one.
pub(crate) struct Talk {
    pub(crate) tracker: Tracker,
    pub(crate) server_isn: u32,
    pub(crate) identification: u16,
    pub(crate) shift: u8,
    /// The server's acknowledgment number.
    pub(crate) client_next: u32,
    /// Hop limit of the client's packets.
    pub(crate) client_ttl: u8,
    /// TCP packets so far.
    pub(crate) pushed: u64,
    /// Both ends permit selective acknowledgments.
    pub(crate) sack_permitted: bool,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Extra<'a> {
    pub(crate) sack: &'a [(u32, u32)],
    pub(crate) timestamps: Option<(u32, u32)>,
    pub(crate) window: Option<u16>,
    pub(crate) identification: Option<u16>,
}

impl Talk {
    pub(crate) fn new() -> Self {
        Self::with(
            1_000_000,
            TrackerOptions {
                keep_acknowledgments: true,
                ..TrackerOptions::default()
            },
        )
    }

    pub(crate) fn with(server_isn: u32, options: TrackerOptions) -> Self {
        Self {
            tracker: Tracker::new(options),
            server_isn,
            identification: 1,
            shift: 4,
            client_next: 500,
            client_ttl: 53,
            pushed: 0,
            sack_permitted: true,
        }
    }

    pub(crate) fn push(
        &mut self,
        time_ns: i64,
        from_server: bool,
        port: u16,
        tcp: TcpSegment,
        identification: u16,
    ) {
        let (source, destination) = if from_server {
            (SERVER, CLIENT)
        } else {
            (CLIENT, SERVER)
        };
        let (source_port, destination_port) = if from_server { (80, port) } else { (port, 80) };
        let ip_bytes = 40 + tcp.payload_bytes;
        self.pushed += 1;
        self.tracker.push(&Packet {
            index: self.pushed - 1,
            time_ns,
            interface: 0,
            wire_bytes: ip_bytes + 14,
            captured_bytes: 96,
            network: Some(Network {
                source,
                destination,
                ip_bytes,
                identification: Some(identification),
                ttl: if from_server { 64 } else { self.client_ttl },
                dscp: 0,
                ecn: 0,
                tunnel_depth: 0,
            }),
            transport: Transport::Tcp(TcpSegment {
                source_port,
                destination_port,
                ..tcp
            }),
        });
    }

    /// A router reports to the server that the segment at `sequence` exceeds a link's MTU.
    pub(crate) fn too_big(&mut self, time_ns: i64, sequence: u32, mtu: u16) {
        let (IpAddr::V4(server), IpAddr::V4(client)) = (SERVER, CLIENT) else {
            unreachable!("both are IPv4")
        };
        let segment = Tcp {
            ports: (80, 5000),
            sequence,
            ..Tcp::default()
        };
        let packet = Ipv4 {
            source: server.octets(),
            destination: client.octets(),
            identification: 1,
            ttl: 60,
            total_bytes: Some(1040),
            ..Ipv4::default()
        };
        // the header and eight bytes behind it
        let quoted = packet.bytes(&segment.bytes()[..8]);
        let quoted = [&[0, 0], &mtu.to_be_bytes()[..], &quoted].concat();
        self.tracker.push(&Packet {
            index: self.pushed,
            time_ns,
            interface: 0,
            wire_bytes: 70,
            captured_bytes: 70,
            network: Some(Network {
                source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
                destination: SERVER,
                ip_bytes: 56,
                identification: Some(0),
                ttl: 64,
                dscp: 0,
                ecn: 0,
                tunnel_depth: 0,
            }),
            transport: Transport::Icmp {
                kind: 3,
                code: 4,
                payload: &quoted,
            },
        });
    }

    /// Handshake in which the server is where the capture is and the client 20 ms away, then a request of 100 bytes.
    pub(crate) fn open(&mut self, time_ns: i64) {
        self.handshake(time_ns, 5000);
        self.request(time_ns + 20 * MS, 0, 100);
        self.identification += 1;
    }

    pub(crate) fn handshake(&mut self, time_ns: i64, port: u16) {
        let options = TcpOptions {
            mss: Some(MSS as u16),
            window_scale: Some(self.shift),
            sack_permitted: self.sack_permitted,
            ..TcpOptions::default()
        };
        let isn = self.server_isn;
        self.push(
            time_ns,
            false,
            port,
            segment(499, 0, TcpFlags::SYN, 0, options),
            1,
        );
        let both = TcpFlags::SYN | TcpFlags::ACK;
        self.push(
            time_ns,
            true,
            port,
            segment(isn.wrapping_sub(1), 500, both, 0, options),
            1,
        );
        self.push(
            time_ns + 20 * MS,
            false,
            port,
            segment(500, isn, TcpFlags::ACK, 0, TcpOptions::default()),
            2,
        );
    }

    /// The SYN/ACK of the server alone, with these timestamps.
    pub(crate) fn syn_ack(&mut self, time_ns: i64, timestamps: (u32, u32)) {
        let options = TcpOptions {
            mss: Some(MSS as u16 + 12),
            window_scale: Some(self.shift),
            sack_permitted: self.sack_permitted,
            timestamps: Some(timestamps),
            ..TcpOptions::default()
        };
        let sequence = self.server_isn.wrapping_sub(1);
        let both = TcpFlags::SYN | TcpFlags::ACK;
        let tcp = segment(sequence, self.client_next, both, 0, options);
        self.push(time_ns, true, 5000, tcp, 1);
    }

    /// A request of the client that acknowledges everything up to `acknowledged`.
    pub(crate) fn request(&mut self, time_ns: i64, acknowledged: u32, bytes: u32) {
        let acknowledgment = self.server_isn.wrapping_add(acknowledged);
        let tcp = segment(
            self.client_next,
            acknowledgment,
            TcpFlags::ACK,
            bytes,
            TcpOptions::default(),
        );
        self.push(time_ns, false, 5000, tcp, 3);
        self.client_next += bytes;
    }

    /// `bytes` of data from relative sequence number `offset`.
    pub(crate) fn data(&mut self, time_ns: i64, offset: u32, bytes: u32) {
        self.data_with(time_ns, offset, bytes, Extra::default());
    }

    pub(crate) fn data_with(&mut self, time_ns: i64, offset: u32, bytes: u32, extra: Extra) {
        let options = TcpOptions {
            timestamps: extra.timestamps,
            ..TcpOptions::default()
        };
        let sequence = self.server_isn.wrapping_add(offset);
        let identification = extra.identification.unwrap_or(self.identification);
        self.push(
            time_ns,
            true,
            5000,
            segment(sequence, self.client_next, TcpFlags::ACK, bytes, options),
            identification,
        );
        self.identification += 1;
    }

    /// Segments `from..to`, each of one MSS, all at one time.
    pub(crate) fn segments(&mut self, time_ns: i64, from: u32, to: u32) {
        for number in from..to {
            self.data(time_ns, number * MSS, MSS);
        }
    }

    pub(crate) fn ack(&mut self, time_ns: i64, acknowledged: u32) {
        self.ack_with(time_ns, acknowledged, Extra::default());
    }

    pub(crate) fn sack(&mut self, time_ns: i64, acknowledged: u32, sack: &[(u32, u32)]) {
        self.ack_with(
            time_ns,
            acknowledged,
            Extra {
                sack,
                ..Extra::default()
            },
        );
    }

    pub(crate) fn ack_with(&mut self, time_ns: i64, acknowledged: u32, extra: Extra) {
        let isn = self.server_isn;
        let mut options = TcpOptions {
            timestamps: extra.timestamps,
            ..TcpOptions::default()
        };
        for (slot, block) in options.sack.iter_mut().zip(extra.sack) {
            *slot = (isn.wrapping_add(block.0), isn.wrapping_add(block.1));
            options.sack_blocks += 1;
        }
        let mut tcp = segment(
            600,
            isn.wrapping_add(acknowledged),
            TcpFlags::ACK,
            0,
            options,
        );
        tcp.window = extra.window.unwrap_or(60_000);
        self.push(time_ns, false, 5000, tcp, 9);
    }

    /// The one connection.
    pub(crate) fn finish_connection(self) -> Connection {
        let mut tracked = self.tracker.finish();
        assert_eq!(tracked.connections.len(), 1);
        tracked.connections.remove(0)
    }

    /// The flow from the server.
    pub(crate) fn finish(self) -> Flow {
        let tracked = self.tracker.finish();
        assert_eq!(tracked.connections.len(), 1);
        tracked.connections[0].flows[1].clone()
    }
}

pub(crate) fn segment(
    sequence: u32,
    acknowledgment: u32,
    flags: u16,
    payload_bytes: u32,
    options: TcpOptions,
) -> TcpSegment<'static> {
    TcpSegment {
        source_port: 0,
        destination_port: 0,
        sequence,
        acknowledgment,
        flags: TcpFlags(flags),
        window: 60_000,
        payload_bytes,
        payload: &[],
        options,
    }
}

pub(crate) fn fates(flow: &Flow) -> Vec<Fate> {
    flow.segments.iter().map(|segment| segment.fate).collect()
}

pub(crate) fn kinds(flow: &Flow) -> Vec<Kind> {
    flow.segments.iter().map(|segment| segment.kind).collect()
}
