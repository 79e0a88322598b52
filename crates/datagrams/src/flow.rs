//! A UDP flow: one direction between two ports.

use std::collections::HashMap;
use std::net::IpAddr;

use whydrop_capture::{Defect, Network, Packet};

use crate::Dropped;
use crate::echo::Pings;
use crate::exchange::{Exchanged, asks_many};
use crate::measuring::{Measured, Numbered};
use crate::repeats::Repeats;
use crate::reports::Report;
use crate::rtcp::{ControlReports, is_control};
use crate::rtp::{RtpStream, RtpStreams};
use crate::spin::{self, Spin, SpinBit};
use crate::tls::Alert;

pub(crate) type Key = ((IpAddr, u16), (IpAddr, u16));

/// One direction between two ports, with the counters of its packets.
#[derive(Debug)]
pub struct Flow {
    pub source: (IpAddr, u16),
    pub destination: (IpAddr, u16),
    pub packets: u64,
    pub ip_bytes: u64,
    pub payload_bytes: u64,
    pub first_ns: i64,
    pub last_ns: i64,
    /// Packets by their ECN bits (RFC 3168): marked, and capable as ECT(0) and ECT(1).
    pub ce_marked: u64,
    pub ect0: u64,
    pub ect1: u64,
    /// Largest hop limit, as captured.
    pub largest_ttl: u8,
    /// Requests and answers of a known protocol.
    pub is_exchange: bool,
    repeats: Repeats,
    rtp: RtpStreams,
    spin: SpinBit,
    numbered: Numbered,
}

/// All UDP of a capture.
#[derive(Debug, Default)]
pub struct Datagrams {
    pub flows: Vec<Flow>,
    /// RTP streams of each flow, numbered as in `flows`.
    pub rtp: Vec<Vec<RtpStream>>,
    /// Round-trip times by the spin bit, of each flow.
    pub spin: Vec<Option<Spin>>,
    /// Losses and delays by whydrop's own packets, of each flow.
    pub measured: Vec<Option<Measured>>,
    /// Packets of flows that are not listed.
    pub dropped: Dropped,
    /// Requests and answers, echo requests, ICMP errors.
    pub exchanged: Exchanged,
    pub pings: Vec<Pings>,
    pub reports: Vec<Report>,
    /// TLS handshakes that one side ended.
    pub alerts: Vec<Alert>,
    /// Why there are no results: a defect occurred.
    pub defect: Option<Defect>,
}

impl Flow {
    pub(crate) fn new(
        source: (IpAddr, u16),
        destination: (IpAddr, u16),
        keeps_streams: bool,
    ) -> Self {
        Self {
            source,
            destination,
            packets: 0,
            ip_bytes: 0,
            payload_bytes: 0,
            first_ns: 0,
            last_ns: 0,
            ce_marked: 0,
            ect0: 0,
            ect1: 0,
            largest_ttl: 0,
            is_exchange: false,
            repeats: Repeats::default(),
            rtp: RtpStreams::keeping(keeps_streams),
            spin: SpinBit::default(),
            numbered: Numbered::default(),
        }
    }

    pub(crate) fn key(&self) -> Key {
        (self.source, self.destination)
    }

    pub(crate) fn take(
        &mut self,
        packet: &Packet,
        network: &Network,
        payload_bytes: u32,
        payload: &[u8],
    ) {
        let time_ns = packet.time_ns;
        if self.packets == 0 {
            (self.first_ns, self.last_ns) = (time_ns, time_ns);
        }
        // timestamps may be out of order
        self.first_ns = self.first_ns.min(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
        self.packets += 1;
        self.ip_bytes += u64::from(network.ip_bytes);
        self.payload_bytes += u64::from(payload_bytes);
        match network.ecn {
            1 => self.ect1 += 1,
            2 => self.ect0 += 1,
            3 => self.ce_marked += 1,
            _ => {}
        }
        self.largest_ttl = self.largest_ttl.max(network.ttl);
        self.repeats
            .take(time_ns, packet.index.saturating_add(1), payload);
        if !is_control(payload) {
            self.rtp.take(time_ns, payload_bytes, payload);
        }
        self.spin.take(time_ns, payload);
        self.numbered.take(time_ns, payload_bytes, payload);
    }

    /// True if it goes to more than one host.
    pub fn asks_many(&self) -> bool {
        asks_many(self.destination.0)
    }

    /// Packets of a request in an unknown protocol that was repeated with longer and longer waits; empty for other
    /// flows.
    pub fn repeated_request(&self) -> &[u64] {
        match self.is_exchange {
            true => &[],
            false => self.repeats.attempts(),
        }
    }

    /// `src:port > dst:port`.
    pub fn name(&self) -> String {
        let end = |(address, port): (IpAddr, u16)| std::net::SocketAddr::new(address, port);
        format!("{} > {}", end(self.source), end(self.destination))
    }
}

impl Datagrams {
    pub(crate) fn of(mut flows: Vec<Flow>, dropped: Dropped, control: &ControlReports) -> Self {
        let places: HashMap<Key, usize> = flows.iter().map(Flow::key).zip(0..).collect();
        let back = |flow: &Flow| places.get(&(flow.destination, flow.source));
        let spin = flows
            .iter()
            .map(|flow| spin::of(&flow.spin, back(flow).map(|at| &flows[*at].spin)))
            .collect();
        let measured = flows
            .iter()
            .map(|flow| {
                let back = back(flow).map(|at| &flows[*at].numbered);
                flow.numbered.measured(back)
            })
            .collect();
        let rtp = flows
            .iter_mut()
            .map(|flow| {
                let mut found = flow.rtp.found(flow.packets);
                for stream in &mut found {
                    let reports = control.on(stream.source, flow.destination.0);
                    stream.reports = reports.to_vec();
                }
                found
            })
            .collect();
        Self {
            flows,
            rtp,
            spin,
            measured,
            dropped,
            ..Self::default()
        }
    }

    /// UDP packets of the capture, and their IP bytes.
    pub fn totals(&self) -> (u64, u64) {
        let start = (self.dropped.packets, self.dropped.ip_bytes);
        self.flows.iter().fold(start, |(packets, bytes), flow| {
            (packets + flow.packets, bytes + flow.ip_bytes)
        })
    }

    /// Packets and IP bytes of flows with measurable loss or delay.
    pub fn judged(&self) -> (u64, u64) {
        let flows = self.flows.iter().enumerate();
        flows
            .filter(|(at, _)| self.is_measurable(*at))
            .fold((0, 0), |(packets, bytes), (_, flow)| {
                (packets + flow.packets, bytes + flow.ip_bytes)
            })
    }

    /// True for a flow with measurable loss or delay.
    pub(crate) fn is_measurable(&self, at: usize) -> bool {
        let has_streams = self.rtp.get(at).is_some_and(|rtp| !rtp.is_empty());
        let has_trips = self.spin.get(at).is_some_and(Option::is_some);
        let measured = self.measured.get(at).copied().flatten();
        has_streams || has_trips || measured.is_some_and(|one| one.known.is_some())
    }
}
