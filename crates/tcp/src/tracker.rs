//! From packets to connections: finds the connection of each packet and updates both of its directions.

use std::collections::VecDeque;

use whydrop_capture::{Network, Packet, TcpFlags, TcpSegment, Transport, contain};

use crate::abandoned::AbandonedConnections;
use crate::control::ControlConnections;
use crate::failed::FailedConnections;
use crate::flow::Connection;
use crate::key::{ConnectionKey, ConnectionMap};
use crate::options::TrackerOptions;
use crate::signs::Notice;
use crate::small::{Completed, SMALL_PACKETS, SmallConnections};
use crate::state::State;
use crate::unseen::UnseenData;

/// From IANA's protocol registry.
const TCP: u8 = 6;
/// Times outside 1970 to 2116 come from a broken clock or a damaged file. Inside, differences fit 64 bits.
const PLAUSIBLE_TIMES_NS: std::ops::RangeInclusive<i64> = 0..=1 << 62;
/// Ended connections are kept open for late packets, for as long as a closed one keeps its ports (TIME-WAIT of Linux;
/// RFC 9293 requires twice the segment lifetime) ...
const LINGER_NS: i64 = 60_000_000_000;
/// ... but no more than this many, since an open one takes several times the memory.
const MOST_LINGERING: usize = 1 << 14;

/// The results of the tracker.
#[derive(Debug, Default)]
pub struct Tracked {
    /// Connections that carried data, in the order of their first packet.
    pub connections: Vec<Connection>,
    /// Further connections that carried data, but were too small and too many to be listed.
    pub small: SmallConnections,
    /// Control connections of measuring programs, which are not among the connections.
    pub control: Vec<ControlConnections>,
    /// Connections that never carried data.
    pub without_data: u64,
    /// Of those, the ones that failed: unanswered, refused, reset.
    pub failed: FailedConnections,
    /// Acknowledged data in directions without captured packets.
    pub unseen: UnseenData,
    /// How many connections without data were dropped before the end of the capture to bound memory.
    pub forgotten: u64,
    /// Connections dropped because of a defect.
    pub abandoned: AbandonedConnections,
    /// TCP packets in the capture.
    pub packets: u64,
}

/// Follows every TCP connection of a capture.
#[derive(Debug, Default)]
pub struct Tracker {
    options: TrackerOptions,
    index: ConnectionMap<u32>,
    states: Vec<State>,
    /// Slots of dropped connections, for reuse.
    free: Vec<u32>,
    /// Connections without data, oldest first; some may have received data since.
    waiting: VecDeque<(u32, ConnectionKey)>,
    /// Ended connections with data, and when they ended, oldest first.
    ended: VecDeque<(u32, ConnectionKey, i64)>,
    /// Connections with data, in the order of their last check; some may have ended or grown since.
    small_open: VecDeque<(u32, ConnectionKey)>,
    complete: Completed,
    failed: FailedConnections,
    unseen: UnseenData,
    abandoned: AbandonedConnections,
    /// Time of the latest packet.
    now_ns: i64,
    last: Option<(ConnectionKey, u32)>,
    without_data: u64,
    forgotten: u64,
    packets: u64,
}

impl Tracker {
    pub fn new(options: TrackerOptions) -> Self {
        let options = TrackerOptions {
            // the current connection must stay
            most_without_data: options.most_without_data.max(1),
            most_small_open: options.most_small_open.max(1),
            ..options
        };
        Self {
            complete: Completed::new(options.most_small),
            failed: FailedConnections::new(options.most_failed),
            options,
            ..Self::default()
        }
    }

    /// Processes the next packet of the capture; packets other than TCP, and ICMP errors about TCP, are ignored.
    #[inline]
    pub fn push(&mut self, packet: &Packet) {
        let (&first, &last) = (PLAUSIBLE_TIMES_NS.start(), PLAUSIBLE_TIMES_NS.end());
        let time_ns = packet.time_ns.clamp(first, last);
        self.now_ns = time_ns;
        let (Some(network), Transport::Tcp(tcp)) = (&packet.network, &packet.transport) else {
            return self.push_error(packet);
        };
        self.packets += 1;
        let (key, source_is_low) = ConnectionKey::new(
            network.source,
            tcp.source_port,
            network.destination,
            tcp.destination_port,
        );
        let slot = self.slot(time_ns, key, source_is_low, network, tcp);
        let state = &mut self.states[slot as usize];
        if state.abandoned {
            return;
        }
        let direction = usize::from(source_is_low != state.initiator_is_low);
        let had_data = state.has_data();
        let number = packet.index.saturating_add(1);
        let options = &self.options;
        let taken = contain(|| state.take(direction, time_ns, number, network, tcp, options));
        if let Err(defect) = taken {
            return self.abandoned.take(state.abandon(Some(number), defect));
        }
        state.active = true;
        if tcp.flags.has(TcpFlags::FIN | TcpFlags::RST) && state.begins_to_linger() {
            self.ended.push_back((slot, key, time_ns));
        }
        if !had_data && state.has_data() {
            self.small_open.push_back((slot, key));
            self.complete_idle();
        }
    }

    /// Processes an ICMP error about a followed connection.
    fn push_error(&mut self, packet: &Packet) {
        let Some((network, error)) = packet.network.zip(packet.icmp_error()) else {
            return;
        };
        let (key, source_is_low) = ConnectionKey::new(
            error.source,
            error.source_port,
            error.destination,
            error.destination_port,
        );
        let slot = self.index.get(&key).filter(|_| error.protocol == TCP);
        if let Some(slot) = slot {
            let state = &mut self.states[*slot as usize];
            let direction = usize::from(source_is_low != state.initiator_is_low);
            let notice = Notice {
                kind: error.kind,
                from: network.source,
                direction,
                mtu_bytes: error.mtu_bytes,
                ip_bytes: error.ip_bytes,
                count: 1,
                first_ns: packet.time_ns,
                packet: packet.index + 1,
                quoted: Vec::new(),
            };
            state.take_notice(&error, notice);
        }
    }

    /// Slots for followed connections: those with data that have not ended, and the latest others.
    pub fn slots(&self) -> usize {
        self.states.len()
    }

    fn slot(
        &mut self,
        time_ns: i64,
        key: ConnectionKey,
        source_is_low: bool,
        network: &Network,
        tcp: &TcpSegment,
    ) -> u32 {
        let known = match self.last {
            Some((last, slot)) if last == key => Some(slot),
            _ => self.index.get(&key).copied(),
        };
        if let Some(slot) = known {
            let state = &self.states[slot as usize];
            let direction = usize::from(source_is_low != state.initiator_is_low);
            if !state.is_reused_by(direction, tcp) {
                self.last = Some((key, slot));
                return slot;
            }
            let slot = self.retire(slot, key, source_is_low, network, tcp);
            self.last = Some((key, slot));
            return slot;
        }
        self.complete_ended(time_ns);
        let state = State::new(key, source_is_low, network, tcp);
        let slot = match self.free.pop() {
            Some(slot) => {
                self.states[slot as usize] = state;
                slot
            }
            None => {
                self.states.push(state);
                (self.states.len() - 1) as u32
            }
        };
        self.index.insert(key, slot);
        self.waiting.push_back((slot, key));
        self.forget_oldest();
        self.last = Some((key, slot));
        slot
    }

    /// The ports are reused: completes the old connection, and the new one takes its slot.
    fn retire(
        &mut self,
        slot: u32,
        key: ConnectionKey,
        source_is_low: bool,
        network: &Network,
        tcp: &TcpSegment,
    ) -> u32 {
        let fresh = State::new(key, source_is_low, network, tcp);
        let mut old = std::mem::replace(&mut self.states[slot as usize], fresh);
        let packets = old.packets();
        self.unseen.take(old.unseen());
        if let Some(connection) = finish(&mut old, self.now_ns, &mut self.abandoned) {
            self.complete.take(connection, packets);
            self.waiting.push_back((slot, key));
        } else if !old.abandoned {
            self.failed.take(old.failure(self.now_ns));
            self.without_data += 1;
        }
        slot
    }

    /// Completes connections that ended a while ago, and frees their slots.
    fn complete_ended(&mut self, now_ns: i64) {
        while let Some(&(slot, key, ended_ns)) = self.ended.front() {
            let crowded = self.ended.len() > MOST_LINGERING;
            if !crowded && now_ns - ended_ns < LINGER_NS {
                return;
            }
            self.ended.pop_front();
            let state = &mut self.states[slot as usize];
            if state.key != key || !state.lingering || self.index.get(&key) != Some(&slot) {
                continue; // the ports were reused since
            }
            let last_ns = state.last_ns();
            if !crowded && last_ns - ended_ns > LINGER_NS / 2 {
                // the reset was forged, or not accepted: the connection continues
                self.ended.push_back((slot, key, last_ns));
                continue;
            }
            self.complete(slot, key);
        }
    }

    /// Makes room: completes small connections that are idle, or have been followed for longest.
    fn complete_idle(&mut self) {
        while self.small_open.len() > self.options.most_small_open
            && let Some((slot, key)) = self.small_open.pop_front()
        {
            let state = &mut self.states[slot as usize];
            let is_open = state.key == key && self.index.get(&key) == Some(&slot);
            if !is_open || !state.has_data() || state.packets() >= SMALL_PACKETS {
                continue;
            }
            if state.goes_on() {
                self.small_open.push_back((slot, key));
                continue;
            }
            self.complete(slot, key);
        }
    }

    /// Completes a connection and frees its slot.
    fn complete(&mut self, slot: u32, key: ConnectionKey) {
        let state = &mut self.states[slot as usize];
        let packets = state.packets();
        self.unseen.take(state.unseen());
        if let Some(connection) = finish(state, self.now_ns, &mut self.abandoned) {
            self.complete.take(connection, packets);
        }
        self.index.remove(&key);
        self.free.push(slot);
        if self.last == Some((key, slot)) {
            self.last = None;
        }
    }

    /// Makes room: drops the oldest connections without data.
    fn forget_oldest(&mut self) {
        while self.waiting.len() > self.options.most_without_data
            && let Some((slot, key)) = self.waiting.pop_front()
        {
            let state = &self.states[slot as usize];
            if state.key != key || state.has_data() || self.index.get(&key) != Some(&slot) {
                continue;
            }
            self.unseen.take(state.unseen());
            self.failed.take(state.failure(self.now_ns));
            self.index.remove(&key);
            self.free.push(slot);
            self.forgotten += 1;
            self.without_data += 1;
        }
    }

    /// Simulates a defect at the latest packet.
    #[cfg(test)]
    pub(crate) fn abandon_latest(&mut self, number: u64) {
        let (_, slot) = self.last.expect("a packet");
        let defect = contain(|| -> () { panic!("of a test") }).unwrap_err();
        let state = &mut self.states[slot as usize];
        self.abandoned.take(state.abandon(Some(number), defect));
    }

    /// Completes every connection.
    pub fn finish(mut self) -> Tracked {
        let mut tracked = Tracked {
            without_data: self.without_data,
            forgotten: self.forgotten,
            packets: self.packets,
            ..Tracked::default()
        };
        self.index = ConnectionMap::default();
        for slot in std::mem::take(&mut self.free) {
            self.states[slot as usize].clear();
        }
        for mut state in self.states {
            let packets = state.packets();
            self.unseen.take(state.unseen());
            match finish(&mut state, self.now_ns, &mut self.abandoned) {
                Some(connection) => self.complete.take(connection, packets),
                None if state.abandoned => {}
                None => {
                    self.failed.take(state.failure(self.now_ns));
                    tracked.without_data += u64::from(packets > 0);
                }
            }
        }
        tracked.abandoned = self.abandoned;
        tracked.failed = self.failed.finish();
        tracked.unseen = self.unseen;
        (tracked.connections, tracked.small, tracked.control) = self.complete.finish();
        // in place: a stable sort would copy half of all connections
        tracked.connections.sort_unstable_by_key(|connection| {
            let [one, other] = &connection.flows;
            (
                one.first_ns.min(other.first_ns),
                one.source,
                one.destination,
            )
        });
        tracked
    }
}

/// The result for a connection that carried data; `None` after a defect.
fn finish(
    state: &mut State,
    now_ns: i64,
    abandoned: &mut AbandonedConnections,
) -> Option<Connection> {
    match contain(|| state.finish(now_ns)) {
        Ok(connection) => connection,
        Err(defect) => {
            abandoned.take(state.abandon(None, defect));
            None
        }
    }
}
