//! One responder of a test: its control channel, its flows and their measurements.

mod replies;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::auth::Bytes32;
use crate::channel::{Reader, Writer};
use crate::client::connecting;
use crate::client::correcting::{ClockRow, Taken};
use crate::client::expected::Expected;
use crate::client::{FarEnd, Host};
use crate::clock;
use crate::flow::{FlowSpec, Kind};
use crate::handshake::Opened;
use crate::icmp;
use crate::life::Life;
use crate::local_end::{LocalEnd, with_zone};
use crate::message::Request;
use crate::sample::{Ending, Exchange, Sink, TcpSample};
use crate::stop::Stop;
use crate::tcp::flow as tcp_flow;
use crate::tcp::meter::Meter;
use crate::udp::{self, ClockEstimate, ClockFit, Trouble};

/// After this silence a responder is considered gone; it answers an echo every second.
const SILENCE: Duration = Duration::from_secs(20);
const ECHO_EVERY: Duration = Duration::from_secs(1);
/// The longest reply accepted: a thousand rows and the far end's metadata fit.
const LONGEST_REPLY_BYTES: usize = 1 << 20;
/// How long to wait for a responder's last reports.
const FINISH_PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait for the control channel to report why a flow failed.
const REASON_PATIENCE: Duration = Duration::from_millis(500);
/// Exchanges of timestamps before the load: enough for at least one to find the queues empty.
const FIRST_EXCHANGES: u32 = 40;
const FIRST_EXCHANGE_EVERY_NS: i64 = 10_000_000;

/// A host, connected.
pub struct HostSession {
    name: String,
    address: SocketAddr,
    source: LocalEnd,
    control: Option<Mutex<Writer>>,
    stream: Option<TcpStream>,
    token: u64,
    /// Of its UDP packets.
    key: Bytes32,
    stop: Stop,
    metering: Stop,
    meter_thread: Mutex<Option<JoinHandle<()>>>,
    near: Arc<Sink>,
    far: Arc<Sink>,
    meter: Meter,
    specs: Vec<FlowSpec>,
    /// The numbers of the host's flows.
    flows: HashSet<u32>,
    /// The TCP flows that have not ended.
    connections: Mutex<HashMap<u32, Arc<TcpStream>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    clocks: Mutex<Clocks>,
    life: Mutex<Life>,
    /// When the flows were requested.
    asked: Instant,
    expected: Mutex<Expected>,
    known: Mutex<Known>,
    news: Condvar,
}

/// Reports of the far end.
#[derive(Default)]
struct Known {
    metadata: Option<String>,
    lost: Option<String>,
    without_udp: Option<String>,
    /// Arrivals of probe flows that were received but not yet read.
    arrivals: HashMap<u32, Vec<(u64, u64)>>,
    /// Pauses and overflows of the responder, in its clock.
    troubles: Vec<Trouble>,
    /// How the flows ended at the responder.
    endings: HashMap<u32, Ending>,
    /// Flows handed over as complete, although their far ends may still report a failure.
    completed: HashSet<u32>,
    /// Flows that this end closed at their planned end. The responder's clock for a flow begins with the first byte,
    /// which arrives much later on a long path or after a loss: what it then says of the close is no failure.
    closed: HashSet<u32>,
    finishing: bool,
    finished: bool,
}

#[derive(Default)]
struct Clocks {
    fit: ClockFit,
    latest: Option<ClockEstimate>,
}

impl HostSession {
    /// Connects to the responder if any flow needs it; ICMP flows need only the address.
    pub fn open(host: &Host, specs: Vec<FlowSpec>) -> io::Result<Arc<HostSession>> {
        let (addresses, asked) = (connecting::resolve(host)?, Instant::now());
        if specs.iter().all(|spec| spec.kind == Kind::Icmp) {
            return Ok(Arc::new(HostSession::new(
                host,
                addresses[0],
                specs,
                None,
                0,
                [0; 32],
                asked,
            )));
        }
        let connecting::Connected {
            stream,
            address,
            opened: Opened { cipher, keys },
        } = connecting::control(&addresses, &host.source, host.secret.as_ref())?;
        let mut writer = Writer::new(stream.try_clone()?, cipher.clone(), SILENCE)?;
        let mut reader = Reader::new(stream.try_clone()?, cipher, LONGEST_REPLY_BYTES);
        let far: Vec<FlowSpec> = specs
            .iter()
            .filter(|spec| spec.kind != Kind::Icmp)
            .cloned()
            .collect();
        writer
            .send(&Request::Open { flows: far.clone() })
            .map_err(replies::explained)?;
        let token = replies::accepted(&mut reader)?;
        writer
            .send(&Request::Describe)
            .map_err(replies::explained)?;
        let tcp = far
            .into_iter()
            .filter(|spec| spec.kind == Kind::Tcp)
            .collect();
        let connections = connecting::data(address, &host.source, token, &keys.data, tcp)?;
        let session = HostSession::new(
            host,
            address,
            specs,
            Some((stream, writer)),
            token,
            keys.udp,
            asked,
        );
        session.connections().extend(
            connections
                .into_iter()
                .map(|(spec, stream)| (spec.flow, Arc::new(stream))),
        );
        let session = Arc::new(session);
        session.spawn("control", move |session| session.receive_replies(reader));
        session.spawn("echo", |session| session.echo());
        session.compare_clocks();
        Ok(session)
    }

    fn new(
        host: &Host,
        address: SocketAddr,
        specs: Vec<FlowSpec>,
        control: Option<(TcpStream, Writer)>,
        token: u64,
        key: Bytes32,
        asked: Instant,
    ) -> HostSession {
        let near = Arc::new(Sink::default());
        let (stream, writer) = control.unzip();
        HostSession {
            name: host.name.clone(),
            address,
            source: host.source.clone(),
            control: writer.map(Mutex::new),
            stream,
            token,
            key,
            stop: Stop::default(),
            metering: Stop::default(),
            meter_thread: Mutex::default(),
            meter: Meter::new(near.clone()),
            near,
            far: Arc::default(),
            flows: specs.iter().map(|spec| spec.flow).collect(),
            asked,
            expected: Mutex::new(Expected::new(&specs)),
            specs,
            connections: Mutex::default(),
            threads: Mutex::default(),
            clocks: Mutex::default(),
            life: Mutex::default(),
            known: Mutex::default(),
            news: Condvar::new(),
        }
    }

    /// Starts a thread that is not joined: it ends with the control channel.
    fn spawn(self: &Arc<Self>, name: &str, work: impl FnOnce(&Arc<HostSession>) + Send + 'static) {
        let session = self.clone();
        let spawned = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(&session));
        if let Err(error) = spawned {
            self.lose(&format!("this host cannot start another thread: {error}"));
        }
    }

    fn link(&self) -> udp::Link {
        udp::Link {
            remote: self.address,
            source: self.source.clone(),
            token: self.token,
            key: self.key,
        }
    }

    /// Exchanges timestamps while the path is still idle.
    fn compare_clocks(&self) {
        let ending = udp::synchronise(
            &self.link(),
            FIRST_EXCHANGES,
            FIRST_EXCHANGE_EVERY_NS,
            &self.stop,
            &self.near,
        );
        if let Ending::Failed(reason) = ending {
            self.known().without_udp = Some(reason);
        }
        self.update_clocks(
            &self
                .near
                .with(|samples| std::mem::take(&mut samples.exchanges)),
        );
    }

    fn update_clocks(&self, exchanges: &[Exchange]) -> Option<ClockEstimate> {
        let mut clocks = lock(&self.clocks);
        if !exchanges.is_empty() {
            clocks.fit.add(exchanges);
            clocks.latest = clocks.fit.latest();
        }
        clocks.latest
    }

    /// Starts every flow at its time.
    pub fn start(self: &Arc<Self>, start_ns: i64) {
        let session = self.clone();
        let metering = thread::Builder::new()
            .name("meter".to_owned())
            .spawn(move || {
                session.meter.run(&session.metering);
            });
        match metering {
            Ok(thread) => *lock(&self.meter_thread) = Some(thread),
            Err(error) => self.lose(&format!("this host cannot start another thread: {error}")),
        }
        let mut threads = lock(&self.threads);
        for spec in self.specs.clone() {
            let session = self.clone();
            let flow = spec.flow;
            let spawned = thread::Builder::new()
                .name(format!("flow-{flow}"))
                .stack_size(512 << 10)
                .spawn(move || session.run_flow(&spec, start_ns));
            match spawned {
                Ok(thread) => threads.push(thread),
                Err(error) => self.end_flow(
                    flow,
                    Ending::Failed(format!("this host cannot start another thread: {error}")),
                ),
            }
        }
    }

    fn run_flow(&self, spec: &FlowSpec, start_ns: i64) {
        let ending = match spec.kind {
            Kind::Tcp => match self.connection(spec.flow) {
                Some(stream) => {
                    tcp_flow::run(&stream, spec, start_ns, &self.stop, &self.meter, &self.near)
                }
                None => Ending::Failed("the flow has no connection".to_owned()),
            },
            Kind::Icmp => icmp::run(
                spec,
                self.address,
                &self.source,
                start_ns,
                &self.stop,
                &self.near,
            ),
            Kind::Udp | Kind::Probe | Kind::Burst => {
                udp::run(spec, &self.link(), start_ns, &self.stop, &self.near, self)
            }
        };
        self.connections().remove(&spec.flow);
        self.end_flow(spec.flow, ending);
    }

    fn ends_by_time_here(&self, flow: u32) -> bool {
        self.specs.iter().any(|spec| {
            spec.flow == flow
                && spec.kind == Kind::Tcp
                && spec.duration_s.is_some()
                && spec.payload_bytes.is_none()
        })
    }

    fn end_flow(&self, flow: u32, ending: Ending) {
        let lost = match &ending {
            // The reason may be about to arrive on the control channel.
            Ending::Failed(_) if self.control.is_some() => {
                self.wait(REASON_PATIENCE, |known| known.lost.clone())
            }
            _ => None,
        };
        let mut known = self.known();
        // A flow that stopped because its responder disappeared has failed, for that reason. One that failed at the
        // responder first has failed for the reason reported there.
        let ending = match (ending, lost.or_else(|| known.lost.clone())) {
            (Ending::Stopped | Ending::Failed(_), Some(reason)) => Ending::Failed(reason),
            (ending, _) => match known.endings.get(&flow) {
                Some(failed @ Ending::Failed(_)) => failed.clone(),
                _ => ending,
            },
        };
        if ending == Ending::Complete && self.ends_by_time_here(flow) {
            known.closed.insert(flow);
        }
        drop(known);
        self.near
            .with(|samples| samples.endings.push((flow, ending)));
    }

    pub fn is_over(&self) -> bool {
        lock(&self.threads).iter().all(JoinHandle::is_finished)
    }

    pub fn stop(&self) {
        self.stop.set();
    }

    /// Keeps the channel alive and shows the responder that this client is running.
    fn echo(&self) {
        loop {
            thread::sleep(ECHO_EVERY);
            let known = self.known();
            if known.finished || known.lost.is_some() {
                return;
            }
            drop(known);
            let sent_ns = clock::now_ns();
            lock(&self.expected).ask_for_echo(sent_ns);
            if self.send(&Request::Echo { sent_ns }).is_err() {
                // The receiving thread reports the reason.
                return;
            }
        }
    }

    fn send(&self, request: &Request) -> io::Result<()> {
        match &self.control {
            Some(writer) => lock(writer).send(request),
            None => Ok(()),
        }
    }

    fn update(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known());
        self.news.notify_all();
    }

    /// Ends the session early. Flows that have ended already lack the responder's last measurements.
    fn lose(&self, reason: &str) {
        let mut known = self.known();
        if !known.finished && known.lost.is_none() {
            let is_late = known.finishing;
            known.lost = Some(match is_late {
                true => format!("{reason}, before it had sent its last measurements"),
                false => reason.to_owned(),
            });
            if is_late {
                self.fail_flows(&mut known);
            }
        }
        known.finished = true;
        drop(known);
        self.news.notify_all();
        self.stop.set();
    }

    /// Waits until `found` returns a value or the session is lost.
    fn wait<R>(
        &self,
        patience: Duration,
        mut found: impl FnMut(&mut Known) -> Option<R>,
    ) -> Option<R> {
        let deadline = Instant::now() + patience;
        let mut known = self.known();
        loop {
            if let Some(result) = found(&mut known) {
                return Some(result);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || known.lost.is_some() {
                return None;
            }
            known = self
                .news
                .wait_timeout(known, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Marks all flows that have a far end as failed, for the reason for which the session was lost.
    fn fail_flows(&self, known: &mut Known) {
        let reason = known.lost.clone().unwrap_or_default();
        for spec in self.specs.iter().filter(|spec| spec.kind != Kind::Icmp) {
            known
                .endings
                .insert(spec.flow, Ending::Failed(reason.clone()));
        }
    }

    pub fn ask_to_finish(&self) {
        self.stop.set();
        let threads: Vec<_> = lock(&self.threads).drain(..).collect();
        for thread in threads {
            // A thread that panicked has printed the reason; its flow has no ending, which is reported as a failure.
            let _ = thread.join();
        }
        self.metering.set();
        self.known().finishing = true;
        if self.control.is_none() {
            self.update(|known| known.finished = true);
        } else if let Err(error) = self.send(&Request::Finish) {
            self.lose(&replies::explained(error).to_string());
        }
    }

    pub fn await_finish(&self) {
        let finished = self.wait(FINISH_PATIENCE, |known| known.finished.then_some(()));
        if finished.is_none() {
            self.lose(&replies::silent(FINISH_PATIENCE));
        }
        // When asked to stop, the meter writes the last intervals, however busy this host is.
        if let Some(meter) = lock(&self.meter_thread).take() {
            let _ = meter.join();
        }
        self.update(|known| known.finished = true);
        self.disconnect();
    }

    /// Closes the control channel, which ends its threads.
    pub fn disconnect(&self) {
        self.stop.set();
        self.metering.set();
        self.update(|known| known.finished = true);
        if let Some(stream) = &self.stream {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Hands over the measurements since the last call.
    pub fn take(&self, host: usize, taken: &mut Taken) {
        let is_finished = self.known().finished;
        let (mut near, far) = (self.near.take(), self.far.take());
        lock(&self.life).watch(&near);
        self.compare_totals(&near.tcp, is_finished);
        let estimate = self.update_clocks(&std::mem::take(&mut near.exchanges));
        let offset = |time_ns: i64| ClockFit::offset_at(estimate.as_slice(), time_ns);
        taken
            .clocks
            .extend(estimate.map(|estimate| ClockRow::new(host, &estimate)));
        self.weigh_endings(&mut near.endings);
        taken.add_near(near, offset);
        taken.add_far(far, offset);
    }

    /// Compares what the far end counted with what this host's kernel saw acknowledged, when both are complete.
    fn compare_totals(&self, sampled: &[TcpSample], is_finished: bool) {
        let mut expected = lock(&self.expected);
        expected.acknowledge(sampled);
        let checked = match is_finished {
            true => expected.check_totals(),
            false => Ok(()),
        };
        drop(expected);
        if let Err(what) = checked {
            self.distrust(&what);
        }
    }

    /// Estimates the far clock over the whole test from all exchanges so far.
    pub fn clocks(&self) -> Vec<ClockEstimate> {
        lock(&self.clocks).fit.estimates()
    }

    /// Marks a flow as failed if its far end failed, however it ended here.
    fn weigh_endings(&self, endings: &mut Vec<(u32, Ending)>) {
        let mut known = self.known();
        let known = &mut *known;
        let failed = |flow: &u32| match known.endings.get(flow) {
            Some(failed @ Ending::Failed(_)) => Some(failed.clone()),
            _ => None,
        };
        for (flow, ending) in endings.iter_mut() {
            // A flow that was stopped here breaks off at the far end.
            if *ending == Ending::Complete
                && let Some(failed) = failed(flow)
            {
                *ending = failed;
            }
        }
        let late: Vec<u32> = known
            .completed
            .iter()
            .copied()
            .filter(|flow| failed(flow).is_some())
            .collect();
        endings.extend(late.iter().filter_map(|flow| Some((*flow, failed(flow)?))));
        let complete = endings
            .iter()
            .filter(|(_, ending)| *ending == Ending::Complete)
            .map(|(flow, _)| *flow);
        known.completed.extend(complete);
        for flow in late {
            known.completed.remove(&flow);
        }
    }

    pub fn far_end(&self) -> FarEnd {
        let estimates = self.clocks();
        let offset = |time_ns| ClockFit::offset_at(&estimates, time_ns);
        let ours = |time_ns: i64| {
            time_ns.saturating_sub(ClockFit::offset_at_far(time_ns, offset).unwrap_or(0))
        };
        let known = self.known();
        let troubles = known.troubles.iter().map(|one| Trouble {
            from_ns: ours(one.from_ns),
            to_ns: ours(one.to_ns),
            ..*one
        });
        FarEnd {
            troubles: troubles.collect(),
            own_pauses: self.meter.pauses(),
            name: self.name.clone(),
            address: with_zone(self.address),
            metadata: known.metadata.clone(),
            lost: known.lost.clone(),
            without_udp: known.without_udp.clone(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    /// Returns the connection of a flow. The lock is not kept while the flow runs.
    fn connection(&self, flow: u32) -> Option<Arc<TcpStream>> {
        self.connections().get(&flow).cloned()
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<u32, Arc<TcpStream>>> {
        lock(&self.connections)
    }
}

impl udp::FarSide for HostSession {
    fn arrivals(&self, flow: u32) -> Option<Vec<(u64, u64)>> {
        lock(&self.expected).ask_for_arrivals(flow);
        self.send(&Request::Arrivals { flow }).ok()?;
        self.wait(FINISH_PATIENCE, |known| known.arrivals.remove(&flow))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
