//! From polls of sockets to rows: which connections exist, and what each poll adds.
//!
//! A reading equal to the previous one is not written, except one per [`Settings::quiet_ns`]. The last one of an
//! unchanged period is written as soon as a value changes, so that a line between two rows shows what was read between
//! them.

use crate::answer::Answer;
use crate::batch::{Batch, Connection, DatagramSample, Ended, Value};
use crate::counting::Counting;
use crate::info::TcpInfo;
use crate::listing::Listing;
use crate::message::{ControlState, Memory, Socket, cookie};
use crate::sample::{TcpSample, control_values};

/// A socket that this many lists lack is gone: one list may miss it while others are created and closed.
const GONE_AFTER: u64 = 2;
/// Unchanged readings of all connections together are written this often per second.
const QUIET_ROWS_PER_S: i64 = 1000;
const SECOND_NS: i64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The length of an interval of payload.
    pub interval_ns: i64,
    /// A connection at rest is written this often, or less often if there are thousands.
    pub quiet_ns: i64,
}

/// All existing connections.
#[derive(Debug)]
pub struct Tracker {
    settings: Settings,
    known: Listing<Known>,
    datagrams: Listing<KnownDatagram>,
    next_flow: u32,
    poll: u64,
    /// The connections in the current poll's list.
    seen: usize,
    /// The earliest time at which a new connection may have begun.
    before_ns: Option<i64>,
    batch: Batch,
}

#[derive(Debug)]
struct Known {
    flow: u32,
    /// Rarely used, so that the data that every poll needs is adjacent.
    connection: Box<Connection>,
    answer: Answer,
    /// Time of the last such reading.
    time_ns: i64,
    written: bool,
    written_ns: i64,
    seen_in: u64,
    sent: Counting,
    received: Counting,
    control: Option<ControlState>,
}

#[derive(Clone, Debug)]
struct Reading {
    info: TcpInfo,
    queues: (u32, u32),
    memory: Option<Memory>,
}

#[derive(Debug)]
struct KnownDatagram {
    latest: DatagramSample,
    written: bool,
    seen_in: u64,
}

impl Tracker {
    pub fn new(settings: Settings) -> Tracker {
        Tracker {
            settings,
            known: Listing::default(),
            datagrams: Listing::default(),
            next_flow: 0,
            poll: 0,
            seen: 0,
            before_ns: None,
            batch: Batch::default(),
        }
    }

    pub fn knows(&self, cookie: u64) -> bool {
        self.known.contains(cookie)
    }

    /// The number of connections.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn is_empty(&self) -> bool {
        self.known.len() == 0
    }

    /// Begins a poll of all sockets.
    pub fn begin(&mut self) {
        self.poll += 1;
        self.seen = 0;
    }

    /// Processes a listed message that repeats the previous one about its socket; returns false if it must be parsed.
    pub fn repeats(&mut self, message: &[u8], time_ns: i64) -> bool {
        let settings = self.paced();
        let Some(known) = cookie(message).and_then(|cookie| self.known.get_mut(cookie)) else {
            return false;
        };
        if !known.answer.repeated_by(message) {
            return false;
        }
        self.seen += known.note(self.poll);
        known.rest(time_ns, settings, &mut self.batch);
        true
    }

    /// Processes a listed TCP socket; `wants` is called for an unknown one. One without `tcp_info` (a request that
    /// waits for its last packet) is not a connection yet.
    pub fn see(&mut self, socket: &Socket<'_>, time_ns: i64, wants: impl FnOnce() -> bool) {
        let Some((reading, answer)) = Reading::of(socket).zip(Answer::of(socket)) else {
            return;
        };
        let settings = self.paced();
        let control = socket.control_state;
        match self.known.get_mut(socket.cookie) {
            Some(known) => {
                known.describe(socket, &mut self.batch);
                known.read(reading, answer, time_ns, settings, &mut self.batch);
                known.report_control(control, time_ns, &mut self.batch);
                self.seen += known.note(self.poll);
            }
            None if !wants() => {}
            None => {
                let flow = self.next_flow;
                self.next_flow += 2;
                let older = self.before_ns.is_none();
                let connection = described(socket, &reading, flow, time_ns, older);
                self.batch.connections.push(connection.clone());
                self.batch.tcp.push(reading.row(flow, time_ns));
                let mut known = Known::new(connection, answer, &reading, self.before_ns);
                known.count(time_ns, settings, &mut self.batch);
                known.report_control(control, time_ns, &mut self.batch);
                self.seen += known.note(self.poll);
                self.known.insert(socket.cookie, known);
            }
        }
    }

    /// Processes a listed UDP socket.
    pub fn see_datagrams(&mut self, socket: &Socket<'_>, time_ns: i64) {
        let sample = DatagramSample {
            time_ns,
            local: socket.local,
            remote: socket.remote,
            cookie: socket.cookie,
            receive_queue_bytes: socket.receive_queue_bytes,
            drops: socket.memory.and_then(|memory| memory.drops),
        };
        let poll = self.poll;
        let Some(known) = self.datagrams.get_mut(socket.cookie) else {
            self.batch.datagrams.push(sample);
            let known = KnownDatagram {
                latest: sample,
                written: true,
                seen_in: poll,
            };
            self.datagrams.insert(socket.cookie, known);
            return;
        };
        let counts = |one: &DatagramSample| (one.receive_queue_bytes, one.drops);
        let moved = counts(&known.latest) != counts(&sample);
        if moved && !known.written {
            self.batch.datagrams.push(known.latest);
        }
        if moved {
            self.batch.datagrams.push(sample);
        }
        *known = KnownDatagram {
            latest: sample,
            written: moved,
            seen_in: poll,
        };
    }

    /// Ends the current poll: sockets missing from this list and the previous one are gone.
    pub fn end(&mut self, time_ns: i64) {
        let (poll, batch) = (self.poll, &mut self.batch);
        // Usually none is missing, and thousands need not be checked.
        if self.seen < self.known.len() {
            self.known.retain(|known| {
                let is_there = known.seen_in + GONE_AFTER > poll;
                if !is_there {
                    known.finish(batch);
                }
                is_there
            });
        }
        self.datagrams
            .retain(|known| known.seen_in + GONE_AFTER > poll);
        self.before_ns = Some(time_ns);
    }

    /// Processes the kernel's report of a closed TCP socket, with its final counters. A connection that began and ended
    /// between two polls is known from this alone.
    pub fn destroyed(&mut self, socket: &Socket<'_>, time_ns: i64) {
        if socket.info.is_none() || (!self.knows(socket.cookie) && socket.remote.port() == 0) {
            return;
        }
        self.see(socket, time_ns, || true);
        if let Some(mut known) = self.known.remove(socket.cookie) {
            known.finish(&mut self.batch);
        }
    }

    /// Writes the rows that are kept back; no more polls follow.
    pub fn close(&mut self) {
        for known in self.known.iter_mut() {
            known.flush(&mut self.batch);
        }
    }

    /// The rows collected since the last call.
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// The settings adapted to the number of connections.
    fn paced(&self) -> Settings {
        let many = self.known.len() as i64 * (SECOND_NS / QUIET_ROWS_PER_S);
        Settings {
            quiet_ns: self.settings.quiet_ns.max(many),
            ..self.settings
        }
    }
}

impl Reading {
    fn of(socket: &Socket<'_>) -> Option<Reading> {
        Some(Reading {
            info: socket.info?,
            queues: (socket.receive_queue_bytes, socket.send_queue_bytes),
            memory: socket.memory,
        })
    }

    fn differs(&self, other: &Reading) -> bool {
        self.info.differs(&other.info) || self.queues != other.queues || self.memory != other.memory
    }

    fn row(&self, flow: u32, time_ns: i64) -> TcpSample {
        TcpSample::of_socket(&self.info, self.queues, self.memory, flow, time_ns)
    }

    /// Payload acknowledged by the peer. `tcpi_bytes_acked` counts a SYN and a FIN as one byte each; the payload sent
    /// for the first time excludes both, and is at least as large.
    fn acked_bytes(&self) -> Option<u64> {
        let acked = self.info.bytes_acked()?;
        let sent = self.info.bytes_sent().zip(self.info.bytes_retrans());
        Some(sent.map_or(acked, |(all, again)| acked.min(all.saturating_sub(again))))
    }

    /// Payload that arrived in order. `tcpi_bytes_received` counts a FIN as one byte.
    fn received_bytes(&self) -> Option<u64> {
        // CLOSE-WAIT, LAST-ACK, CLOSING: the peer's FIN has arrived.
        let fin = matches!(self.info.state(), 8 | 9 | 11);
        Some(self.info.bytes_received()?.saturating_sub(u64::from(fin)))
    }
}

impl Known {
    /// The caller writes the first reading.
    fn new(
        connection: Connection,
        answer: Answer,
        reading: &Reading,
        before_ns: Option<i64>,
    ) -> Known {
        let time_ns = connection.seen_ns;
        let since = |counted: Option<u64>, reports_rests: bool| {
            // A connection that existed at the first poll has earlier counts; a new one starts from zero.
            let (start_ns, bytes) = match before_ns {
                None => (time_ns, counted.unwrap_or(0)),
                Some(before_ns) => (before_ns.min(time_ns), 0),
            };
            let mut counting = Counting::begin(start_ns, bytes, reports_rests);
            counting.update(counted);
            counting
        };
        Known {
            flow: connection.flow,
            connection: Box::new(connection),
            answer,
            time_ns,
            written: true,
            written_ns: time_ns,
            seen_in: 0,
            // That this end sent no data is known from the first reading on; received data is reported once there is
            // some.
            sent: since(reading.acked_bytes(), true),
            received: since(reading.received_bytes(), false),
            control: None,
        }
    }

    /// Registers that it is in this poll's list; returns 1 for the first time.
    fn note(&mut self, poll: u64) -> usize {
        usize::from(std::mem::replace(&mut self.seen_in, poll) != poll)
    }

    /// Updates its description where it changed. A closing socket loses its inode: the earlier one is kept.
    fn describe(&mut self, socket: &Socket<'_>, batch: &mut Batch) {
        let old = &self.connection;
        let changed = (socket.inode != 0 && socket.inode != old.inode)
            || (socket.congestion_control.is_some()
                && socket.congestion_control != old.congestion_control.as_deref())
            || (socket.traffic_class.is_some() && socket.traffic_class != old.traffic_class)
            || (socket.mark.is_some() && socket.mark != old.mark)
            || (socket.upper_layer.is_some() && socket.upper_layer != old.upper_layer.as_deref())
            || socket.info.is_some_and(|info| info.uses_ecn()) != old.ecn;
        if !changed {
            return;
        }
        let connection = &mut self.connection;
        if socket.inode != 0 {
            connection.inode = socket.inode;
        }
        if let Some(name) = socket.congestion_control {
            connection.congestion_control = Some(name.to_owned());
        }
        if let Some(name) = socket.upper_layer {
            connection.upper_layer = Some(name.to_owned());
        }
        connection.ecn = socket.info.is_some_and(|info| info.uses_ecn());
        connection.traffic_class = socket.traffic_class.or(connection.traffic_class);
        connection.mark = socket.mark.or(connection.mark);
        connection.mptcp_token = socket.mptcp_token.or(connection.mptcp_token);
        batch.connections.push(connection.as_ref().clone());
    }

    fn report_control(&mut self, state: Option<ControlState>, time_ns: i64, batch: &mut Batch) {
        let Some(state) = state.filter(|state| Some(*state) != self.control) else {
            return;
        };
        let before = self.control.map(control_values).unwrap_or_default();
        for (key, value) in control_values(state) {
            if !before.contains(&(key, value)) {
                batch.values.push(Value {
                    flow: self.flow,
                    time_ns,
                    key,
                    value,
                });
            }
        }
        self.control = Some(state);
    }

    /// Processes a reading that differs from the previous one, even if only in values without a column.
    fn read(
        &mut self,
        reading: Reading,
        answer: Answer,
        time_ns: i64,
        settings: Settings,
        batch: &mut Batch,
    ) {
        let moved = self.reading().is_none_or(|latest| reading.differs(&latest));
        if moved {
            self.write(batch);
        }
        self.sent.update(reading.acked_bytes());
        self.received.update(reading.received_bytes());
        (self.answer, self.written) = (answer, !moved);
        if moved {
            self.time_ns = time_ns;
            self.write(batch);
            self.count(time_ns, settings, batch);
        } else {
            self.rest(time_ns, settings, batch);
        }
    }

    /// Processes a reading equal to the previous one.
    fn rest(&mut self, time_ns: i64, settings: Settings, batch: &mut Batch) {
        (self.time_ns, self.written) = (time_ns, false);
        if time_ns.saturating_sub(self.written_ns) >= settings.quiet_ns {
            self.write(batch);
        }
        self.count(time_ns, settings, batch);
    }

    fn count(&mut self, time_ns: i64, settings: Settings, batch: &mut Batch) {
        let flow = self.flow;
        self.sent.count(flow, time_ns, settings, batch);
        self.received.count(flow + 1, time_ns, settings, batch);
    }

    fn reading(&self) -> Option<Reading> {
        Reading::of(&self.answer.socket()?)
    }

    /// Writes the latest reading unless it is written already.
    fn write(&mut self, batch: &mut Batch) {
        if self.written {
            return;
        }
        let rows = self
            .reading()
            .map(|latest| latest.row(self.flow, self.time_ns));
        batch.tcp.extend(rows);
        (self.written, self.written_ns) = (true, self.time_ns);
    }

    /// Writes what is kept back.
    fn flush(&mut self, batch: &mut Batch) {
        self.write(batch);
        let flow = self.flow;
        self.sent.flush(flow, self.time_ns, batch);
        self.received.flush(flow + 1, self.time_ns, batch);
    }

    fn finish(&mut self, batch: &mut Batch) {
        self.flush(batch);
        batch.ended.push(Ended {
            flow: self.flow,
            time_ns: self.time_ns,
        });
    }
}

fn described(
    socket: &Socket<'_>,
    reading: &Reading,
    flow: u32,
    seen_ns: i64,
    older: bool,
) -> Connection {
    Connection {
        flow,
        seen_ns,
        older,
        local: socket.local,
        remote: socket.remote,
        cookie: socket.cookie,
        uid: socket.uid,
        inode: socket.inode,
        interface: socket.interface,
        congestion_control: socket.congestion_control.map(str::to_owned),
        ecn: reading.info.uses_ecn(),
        traffic_class: socket.traffic_class,
        mark: socket.mark,
        cgroup_id: socket.cgroup_id,
        upper_layer: socket.upper_layer.map(str::to_owned),
        mptcp_token: socket.mptcp_token,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::attributes::tests::written;
    use crate::message::attribute;
    use crate::message::tests::message;

    const MS: i64 = 1_000_000;
    const SETTINGS: Settings = Settings {
        interval_ns: 100 * MS,
        quiet_ns: 1000 * MS,
    };

    /// The message of a socket with these numbers of acknowledged and received bytes.
    fn counted(cookie: u64, acked: u64, received: u64) -> Vec<u8> {
        let mut info = vec![0_u8; 232];
        info[0] = 1;
        for (offset, value) in [(120, acked), (128, received), (200, acked)] {
            info[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
        }
        message(cookie, 5, &[written(attribute::INFO, &info)])
    }

    fn poll(tracker: &mut Tracker, time_ns: i64, sockets: &[Vec<u8>]) {
        tracker.begin();
        for bytes in sockets {
            if !tracker.repeats(bytes, time_ns) {
                tracker.see(&Socket::parse(bytes).unwrap(), time_ns, || true);
            }
        }
        tracker.end(time_ns);
    }

    fn times(batch: &Batch) -> Vec<i64> {
        batch.tcp.iter().map(|row| row.time_ns / MS).collect()
    }

    fn intervals(batch: &Batch, flow: u32) -> Vec<(i64, i64, u64)> {
        let of_flow = batch.intervals.iter().filter(|one| one.flow == flow);
        of_flow
            .map(|one| (one.start_ns / MS, one.end_ns / MS, one.payload_bytes))
            .collect()
    }

    #[test]
    fn a_connection_that_moves_is_written_at_every_poll() {
        let mut tracker = Tracker::new(SETTINGS);
        for step in 0..4 {
            poll(
                &mut tracker,
                step * 100 * MS,
                &[counted(1, 10 * step as u64, 0)],
            );
        }
        assert_eq!(times(tracker.batch()), [0, 100, 200, 300]);
        assert_eq!(tracker.batch().connections.len(), 1);
        assert_eq!(
            intervals(tracker.batch(), 0),
            [(0, 100, 10), (100, 200, 10), (200, 300, 10)]
        );
        assert_eq!(intervals(tracker.batch(), 1), []);
    }

    #[test]
    fn of_a_rest_its_begin_and_its_end_are_written_and_one_row_a_second() {
        let mut tracker = Tracker::new(SETTINGS);
        let acked = |step| if step < 14 { 7 } else { 8 };
        for step in 0..15 {
            poll(&mut tracker, step * 100 * MS, &[counted(1, acked(step), 0)]);
        }
        assert_eq!(times(tracker.batch()), [0, 1000, 1300, 1400]);
        assert_eq!(
            intervals(tracker.batch(), 0),
            [(0, 1000, 0), (1000, 1300, 0), (1300, 1400, 1)]
        );
    }

    #[test]
    fn the_absence_of_sent_data_is_reported_and_of_received_data_is_not() {
        let mut tracker = Tracker::new(SETTINGS);
        poll(&mut tracker, 0, &[]);
        poll(&mut tracker, 10 * MS, &[counted(1, 0, 0)]);
        tracker.close();
        assert_eq!(intervals(tracker.batch(), 0), [(0, 10, 0)]);
        assert_eq!(intervals(tracker.batch(), 1), []);
    }

    #[test]
    fn a_rest_after_some_payload_is_one_interval_without_any() {
        let mut tracker = Tracker::new(SETTINGS);
        for (time, acked) in [(0, 0), (100, 5), (200, 5), (300, 5), (400, 9)] {
            poll(&mut tracker, time * MS, &[counted(1, acked, 0)]);
        }
        assert_eq!(
            intervals(tracker.batch(), 0),
            [(0, 100, 5), (100, 300, 0), (300, 400, 4)]
        );
    }

    #[test]
    fn what_was_counted_before_the_first_poll_is_in_no_interval() {
        let mut tracker = Tracker::new(SETTINGS);
        poll(&mut tracker, 0, &[counted(1, 1000, 2000)]);
        poll(
            &mut tracker,
            100 * MS,
            &[counted(1, 1005, 2007), counted(2, 3, 0)],
        );
        tracker.close();
        assert_eq!(intervals(tracker.batch(), 0), [(0, 100, 5)]);
        assert_eq!(intervals(tracker.batch(), 1), [(0, 100, 7)]);
        // The second one is new: it began after the first poll.
        assert_eq!(intervals(tracker.batch(), 2), [(0, 100, 3)]);
        let older: Vec<_> = tracker
            .batch()
            .connections
            .iter()
            .map(|one| one.older)
            .collect();
        assert_eq!(older, [true, false]);
    }

    #[test]
    fn one_list_may_miss_a_connection_that_is_there() {
        let mut tracker = Tracker::new(SETTINGS);
        poll(&mut tracker, 0, &[counted(1, 1, 0)]);
        poll(&mut tracker, 100 * MS, &[]);
        assert_eq!((tracker.len(), tracker.batch().ended.len()), (1, 0));
        poll(&mut tracker, 200 * MS, &[counted(1, 2, 0)]);
        assert_eq!(tracker.batch().connections.len(), 1);
        poll(&mut tracker, 300 * MS, &[]);
        poll(&mut tracker, 400 * MS, &[]);
        assert!(tracker.is_empty());
        assert_eq!(
            tracker.batch().ended,
            [Ended {
                flow: 0,
                time_ns: 200 * MS
            }]
        );
    }

    #[test]
    fn a_connection_that_came_and_went_between_two_polls_is_known_by_its_end() {
        let mut tracker = Tracker::new(SETTINGS);
        poll(&mut tracker, 0, &[]);
        tracker.destroyed(&Socket::parse(&counted(9, 400, 80)).unwrap(), 50 * MS);
        assert_eq!(times(tracker.batch()), [50]);
        assert_eq!(intervals(tracker.batch(), 0), [(0, 50, 400)]);
        assert_eq!(intervals(tracker.batch(), 1), [(0, 50, 80)]);
        assert_eq!(tracker.batch().ended.len(), 1);
        assert!(tracker.is_empty());
    }

    #[test]
    fn a_socket_that_gets_its_process_is_described_again() {
        let mut tracker = Tracker::new(SETTINGS);
        let mut bytes = counted(1, 0, 0);
        bytes[68..72].fill(0);
        poll(&mut tracker, 0, &[bytes.clone()]);
        poll(&mut tracker, MS, &[counted(1, 0, 0)]);
        // Closed by its process: its owner stays the same.
        poll(&mut tracker, 2 * MS, &[bytes]);
        let inodes: Vec<_> = tracker
            .batch()
            .connections
            .iter()
            .map(|one| one.inode)
            .collect();
        assert_eq!(inodes, [0, 5]);
    }

    #[test]
    fn thousands_of_connections_at_rest_write_a_thousand_rows_a_second() {
        let mut tracker = Tracker::new(SETTINGS);
        let all: Vec<_> = (0..5000).map(|cookie| counted(cookie, 0, 0)).collect();
        for step in 0..=100 {
            poll(&mut tracker, step * 100 * MS, &all);
        }
        // At first, and twice in ten seconds.
        assert_eq!(tracker.batch().tcp.len(), 5000 + 2 * 5000);
    }

    proptest! {
        #[test]
        fn intervals_hold_all_bytes_and_follow_each_other(
            steps in prop::collection::vec((1_i64..400, 0_u64..3), 1..60)
        ) {
            let mut tracker = Tracker::new(SETTINGS);
            poll(&mut tracker, 0, &[]);
            let (mut time, mut acked) = (0, 0);
            for (ahead, more) in steps {
                time += ahead;
                acked += more;
                poll(&mut tracker, time * MS, &[counted(1, acked, 0)]);
            }
            tracker.close();
            let found = intervals(tracker.batch(), 0);
            prop_assert_eq!(found.iter().map(|one| one.2).sum::<u64>(), acked);
            for pair in found.windows(2) {
                prop_assert_eq!(pair[0].1, pair[1].0);
            }
            prop_assert!(found.iter().all(|one| one.0 < one.1));
            prop_assert!(tracker.batch().tcp.windows(2).all(|pair| pair[0].time_ns < pair[1].time_ns));
        }
    }
}
