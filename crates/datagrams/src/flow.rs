//! A UDP flow: one direction between two ports.

use std::collections::HashMap;
use std::net::IpAddr;

use whydrop_capture::Network;

use crate::Let;
use crate::rtp::{RtpStream, RtpStreams};
use crate::spin::{self, Spin, SpinBit};

pub(crate) type Key = ((IpAddr, u16), (IpAddr, u16));

/// One direction between two ports, and what its packets say of themselves.
#[derive(Debug)]
pub struct Flow {
    pub source: (IpAddr, u16),
    pub destination: (IpAddr, u16),
    pub packets: u64,
    pub ip_bytes: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    /// Packets by their congestion bits (RFC 3168): marked, and capable of it as ECT(0) and ECT(1).
    pub ce_marked: u64,
    pub ect0: u64,
    pub ect1: u64,
    rtp: RtpStreams,
    spin: SpinBit,
}

/// All UDP of a capture.
#[derive(Debug, Default)]
pub struct Datagrams {
    pub flows: Vec<Flow>,
    /// RTP streams of each flow, numbered as in `flows`.
    pub rtp: Vec<Vec<RtpStream>>,
    /// Round-trip times by the spin bit, of each flow.
    pub spin: Vec<Option<Spin>>,
    /// Of flows that are not listed.
    pub let_go: Let,
}

impl Flow {
    pub(crate) fn new(source: (IpAddr, u16), destination: (IpAddr, u16)) -> Self {
        Self {
            source,
            destination,
            packets: 0,
            ip_bytes: 0,
            first_ns: 0,
            last_ns: 0,
            ce_marked: 0,
            ect0: 0,
            ect1: 0,
            rtp: RtpStreams::default(),
            spin: SpinBit::default(),
        }
    }

    pub(crate) fn key(&self) -> Key {
        (self.source, self.destination)
    }

    pub(crate) fn take(
        &mut self,
        time_ns: i64,
        network: &Network,
        payload_bytes: u32,
        payload: &[u8],
    ) {
        if self.packets == 0 {
            self.first_ns = time_ns;
        }
        self.last_ns = time_ns;
        self.packets += 1;
        self.ip_bytes += u64::from(network.ip_bytes);
        match network.ecn {
            1 => self.ect1 += 1,
            2 => self.ect0 += 1,
            3 => self.ce_marked += 1,
            _ => {}
        }
        self.rtp.take(time_ns, payload_bytes, payload);
        self.spin.take(time_ns, payload);
    }

    /// `src:port > dst:port`.
    pub fn name(&self) -> String {
        let end = |(address, port): (IpAddr, u16)| std::net::SocketAddr::new(address, port);
        format!("{} > {}", end(self.source), end(self.destination))
    }
}

impl Datagrams {
    pub(crate) fn of(flows: Vec<Flow>, let_go: Let) -> Self {
        let places: HashMap<Key, usize> = flows.iter().map(Flow::key).zip(0..).collect();
        let back = |flow: &Flow| places.get(&(flow.destination, flow.source));
        let spin = flows
            .iter()
            .map(|flow| spin::of(&flow.spin, back(flow).map(|at| &flows[*at].spin)))
            .collect();
        let rtp = flows
            .iter()
            .map(|flow| flow.rtp.found(flow.packets))
            .collect();
        Self {
            flows,
            rtp,
            spin,
            let_go,
        }
    }

    /// UDP packets of the capture, and their IP bytes.
    pub fn totals(&self) -> (u64, u64) {
        let start = (self.let_go.packets, self.let_go.ip_bytes);
        self.flows.iter().fold(start, |(packets, bytes), flow| {
            (packets + flow.packets, bytes + flow.ip_bytes)
        })
    }

    /// Packets and IP bytes of flows whose loss or delay can be told.
    pub fn judged(&self) -> (u64, u64) {
        let flows = self.flows.iter().zip(&self.rtp).zip(&self.spin);
        flows
            .filter(|((_, rtp), spin)| !rtp.is_empty() || spin.is_some())
            .fold((0, 0), |(packets, bytes), ((flow, _), _)| {
                (packets + flow.packets, bytes + flow.ip_bytes)
            })
    }
}
