//! Two points on the path, and what a pair of captures needs in addition: when each packet passes them, UDP packets
//! beside the connections, IPv6, and separate return paths between the points.

use whydrop_hosts::Segment;
use whydrop_path::Random;

use super::{PacketFate, Simulation, reverse_delay_ns};
use crate::calendar::Event;
use crate::history::Datagram;

/// The two points, and the traffic beside the connections.
#[derive(Debug, Clone, Default)]
pub struct WatchConfig {
    /// B and Y lie before the stages with these indices; B is not behind Y.
    pub points: [usize; 2],
    /// Probability that a pure acknowledgment is lost between client and Y, Y and B, B and server.
    pub return_loss: [f64; 3],
    /// Random delay on the return path between Y and B, 0 to this, without reordering.
    pub return_jitter_ns: i64,
    /// How much longer IP headers are than IPv4's 20 bytes.
    pub longer_ip_header_bytes: u32,
    pub datagrams: Vec<DatagramSource>,
    pub seed: u64,
}

/// UDP packets from server to client through all stages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DatagramSource {
    /// Payloads are uniform in this range, inclusive.
    pub payload_bytes: (u32, u32),
    pub mean_gap_ns: f64,
    /// Gaps are exponential or constant.
    pub poisson: bool,
    pub start_ns: i64,
}

pub(super) struct Watch {
    pub config: WatchConfig,
    pub random: Random,
    /// When each packet passed B and Y, by its number.
    pub passed: Vec<[Option<i64>; 2]>,
    /// When the last packet on the return path passed B.
    last_back_ns: i64,
    sent: Vec<Datagram>,
}

impl Watch {
    pub fn new(config: WatchConfig) -> Self {
        let first = |flow| Datagram {
            flow,
            number: 0,
            payload_bytes: 0,
            identification: 0,
        };
        Self {
            random: Random::new(config.seed),
            passed: Vec::new(),
            last_back_ns: i64::MIN,
            sent: (0..config.datagrams.len()).map(first).collect(),
            config,
        }
    }

    /// Records that a packet on the forward path is before this stage.
    pub fn pass(&mut self, stage: usize, packet: usize, time_ns: i64) {
        for point in 0..2 {
            if self.config.points[point] == stage {
                self.note(packet, point, time_ns);
            }
        }
    }

    /// When a packet passed the points; forgotten afterwards.
    pub fn take_passed(&mut self, packet: usize) -> [Option<i64>; 2] {
        self.passed
            .get_mut(packet)
            .map(std::mem::take)
            .unwrap_or_default()
    }

    fn note(&mut self, packet: usize, point: usize, time_ns: i64) {
        if self.passed.len() <= packet {
            self.passed.resize(packet + 1, [None; 2]);
        }
        self.passed[packet][point] = Some(time_ns);
    }

    /// When a packet on the return path passes B, given when it would pass without other packets in flight.
    fn back_at_b_ns(&mut self, due_ns: i64) -> i64 {
        let spread_ns = self.config.return_jitter_ns.max(0) as u64 + 1;
        let time_ns = due_ns + self.random.below(spread_ns) as i64;
        self.last_back_ns = time_ns.max(self.last_back_ns.saturating_add(1));
        self.last_back_ns
    }
}

const UDP_OVER_IPV4_BYTES: u32 = 28;

impl Simulation<'_> {
    /// Records two points: the history will contain when each packet passed them.
    pub fn watching(mut self, config: WatchConfig) -> Self {
        for (source, datagrams) in config.datagrams.iter().enumerate() {
            self.calendar
                .at(datagrams.start_ns, Event::Datagram { source });
        }
        self.watch = Some(Watch::new(config));
        self
    }

    /// How much longer a segment's IP packet is than over IPv4, bytes.
    pub(super) fn longer_ip_header_bytes(&self) -> u32 {
        let watch = self.watch.as_ref();
        watch.map_or(0, |watch| watch.config.longer_ip_header_bytes)
    }

    /// Sends a UDP source's packet and schedules its next one.
    pub(super) fn send_datagram(&mut self, source: usize) {
        let longer = self.longer_ip_header_bytes();
        let Some(watch) = &mut self.watch else {
            return;
        };
        let config = watch.config.datagrams[source];
        let (low, high) = config.payload_bytes;
        let datagram = &mut watch.sent[source];
        datagram.payload_bytes = low + watch.random.below(u64::from(high - low) + 1) as u32;
        let sent = *datagram;
        datagram.number += 1;
        datagram.identification = datagram.identification.wrapping_add(1);
        let gap_ns = match config.poisson {
            true => watch.random.exponential(config.mean_gap_ns),
            false => config.mean_gap_ns,
        };
        let packet = self.new_packet(None, sent.payload_bytes + UDP_OVER_IPV4_BYTES + longer);
        self.packets[packet].datagram = Some(sent);
        self.reach_stage(0, packet);
        let next_ns = self.now_ns + (gap_ns as i64).max(1);
        self.calendar.at(next_ns, Event::Datagram { source });
    }

    /// Sends a client's packet to the server, past both points: a return path in three parts, on each of which a pure
    /// acknowledgment may be lost.
    pub(super) fn send_back_past_points(
        &mut self,
        segment: Segment,
        packet: usize,
        leaves_ns: i64,
    ) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        let [_, y] = watch.config.points;
        let pure = segment.is_pure_acknowledgment();
        let loss = watch.config.return_loss;
        let lost = loss.map(|probability| watch.random.chance(probability) && pure);
        if lost[0] {
            return self.end(packet, PacketFate::LostReturning);
        }
        let at_y_ns = leaves_ns + reverse_delay_ns(&self.stages[y..]);
        watch.note(packet, 1, at_y_ns);
        let outage_ns = leaves_ns + reverse_delay_ns(&self.stages[self.outage_stage..]);
        if self.is_lost_in_outage(packet, outage_ns) {
            return self.end(packet, PacketFate::LostReturning);
        }
        if lost[1] {
            return self.end(packet, PacketFate::LostReturning);
        }
        if self.back.is_some() {
            return self.calendar.at(at_y_ns, Event::EnterBack { packet });
        }
        self.pass_to_server(segment, packet, at_y_ns, lost[2]);
    }

    /// Forwards a packet that has left the narrow link on the return path behind point Y.
    pub(super) fn pass_points_back(&mut self, segment: Segment, packet: usize, at_y_ns: i64) {
        self.pass_to_server(segment, packet, at_y_ns, false);
    }

    fn pass_to_server(&mut self, segment: Segment, packet: usize, at_y_ns: i64, lost: bool) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        let [b, y] = watch.config.points;
        let at_b_ns = watch.back_at_b_ns(at_y_ns + reverse_delay_ns(&self.stages[b..y]));
        watch.note(packet, 0, at_b_ns);
        if lost {
            return self.end(packet, PacketFate::LostReturning);
        }
        let extra_ns = self.connections[segment.flow].config.extra_rtt_ns;
        let arrives_ns = at_b_ns + reverse_delay_ns(&self.stages[..b]) + extra_ns;
        self.calendar.at(arrives_ns, Event::Return { packet });
    }
}

#[cfg(test)]
mod tests;
