//! One client's session: its flows, their measurements, and its end, whichever side causes it.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::net::{IpAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::activity::Activity;
use crate::auth::SessionKeys;
use crate::channel::{Reader, Writer};
use crate::client::words::MOST_DESCRIPTION_BYTES;
use crate::clock;
use crate::flow::{Direction, FlowSpec, Kind};
use crate::handshake::Opened;
use crate::keyring::Keyring;
use crate::life::Life;
use crate::message::{Reply, Report, Request};
use crate::responder::ServerState;
use crate::responder::admission::count;
use crate::responder::greeting::Accepted;
use crate::sample::{Ending, Samples, Sink};
use crate::secret::Secret;
use crate::stop::Stop;
use crate::tcp::brake::{Brake, Limit};
use crate::tcp::meter::{Counter, Meter, Side};
use crate::tcp::options::Parting;
use crate::tcp::receive::{self, Begins};
use crate::tcp::{facts, fill, options};
use crate::timed::is_timeout;
use crate::udp;

/// A client that sends nothing for this long, neither messages nor data nor acknowledgments, has disappeared.
pub const SILENCE: Duration = Duration::from_secs(20);
/// How long a client may take to send its plan, which it does at once.
const PLAN_PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may take to read the reason why its session is over, and the last measurements.
const PARTING_PATIENCE: Duration = Duration::from_secs(5);
/// How often measurements are sent.
const REPORT_EVERY_NS: i64 = 200_000_000;
/// The longest request accepted: a thousand flows fit.
const LONGEST_REQUEST_BYTES: usize = 256 << 10;
/// Rows in one report, so that no report exceeds what a client accepts.
const ROWS_IN_REPORT: usize = 1000;
/// Beyond this, the client is not reading its reports, and the session ends.
const MOST_BYTES_OF_ROWS: usize = 64 << 20;
/// Time allowed beyond the flows: connecting, describing hosts, waiting for late packets, closing.
const AROUND_S: f64 = 30.0;
/// How long to wait for flows to stop. They check every 50 ms, but the host may be busy.
const FLOWS_PATIENCE: Duration = Duration::from_secs(1);
/// How long a sender waits for the receiver to close before it discards the data still queued.
const GRACE: Duration = Duration::from_millis(500);
/// Requests that are answered between two reports. A client sends one per second, and one for each flow at its end;
/// further ones wait in the connection.
const MOST_REQUESTS: usize = 256;

/// A session, as data connections and UDP packets see it.
pub struct Session {
    pub token: u64,
    /// The secret of the client; `None` if the responder is open.
    pub secret: Option<Secret>,
    pub keys: SessionKeys,
    pub from: IpAddr,
    stop: Stop,
    sink: Arc<Sink>,
    meter: Arc<Meter>,
    ends_ns: i64,
    /// The rate limit for reading TCP flows from the client.
    intake: Option<Limit>,
    /// Set when far more data arrives over UDP than was agreed.
    overrun: Stop,
    activity: Activity,
    /// The longest time without data of any flow; `None`: unlimited.
    max_idle_s: Option<f64>,
    /// The TCP flows for which no connection has arrived yet.
    awaited: Mutex<HashMap<u32, FlowSpec>>,
    /// Running threads of TCP flows.
    running: AtomicUsize,
}

/// Why a session is over.
enum Over {
    /// The client requested the end.
    Finished,
    /// The client has disappeared.
    Gone,
    /// The responder ends the session, with the reason.
    Ended(String),
}

/// Removes all traces of a session when dropped, even if its thread panics.
struct Cleanup<'a>(&'a ServerState, &'a Session);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

impl Session {
    /// Serves one client on its control channel until either end closes the session.
    pub fn serve(state: &Arc<ServerState>, stream: TcpStream, accepted: Accepted, from: IpAddr) {
        let Ok(mut control) = Control::new(&stream, &accepted.opened) else {
            return;
        };
        let session = match control.open(state, accepted, from) {
            Ok(Some(session)) => Arc::new(session),
            Ok(None) | Err(_) => return,
        };
        state.register(&session);
        let _cleanup = Cleanup(state, &session);
        if control
            .writer
            .send(&Reply::Accepted {
                session: session.token,
            })
            .is_ok()
        {
            session.converse(state, control);
        }
    }

    pub fn end(&self) {
        self.stop.set();
    }

    /// True if the responder expects a data connection for this flow.
    pub fn awaits(&self, flow: u32) -> bool {
        self.awaited().contains_key(&flow)
    }

    fn awaited(&self) -> std::sync::MutexGuard<'_, HashMap<u32, FlowSpec>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn converse(&self, state: &Arc<ServerState>, mut control: Control) {
        let metering = Stop::default();
        let over = thread::scope(|scope| {
            let meter = thread::Builder::new()
                .name("meter".to_owned())
                .spawn_scoped(scope, || self.meter.run(&metering));
            let over = match meter {
                Ok(_) => self.talk(state, &mut control),
                Err(error) => Over::Ended(no_thread(&error)),
            };
            if let Over::Ended(reason) = &over {
                // Sent before the flows are cut, so that the client knows the reason. The client may be gone already.
                let deadline = Instant::now() + PARTING_PATIENCE;
                let reason = Reply::Ended(reason.clone());
                let _ = control.writer.send_by(&reason, deadline);
            }
            self.stop.set();
            self.await_flows();
            state.udp.remove(self.token);
            metering.set();
            over
        });
        // Every flow has written its last row by now.
        let deadline = Instant::now() + PARTING_PATIENCE;
        if matches!(over, Over::Finished) && control.report(self.sink.take(), deadline).is_ok() {
            // The client may have left by now, which does no harm.
            let _ = control.writer.send_by(&Reply::Finished, deadline);
        }
    }

    /// Waits for the flows' last measurements.
    fn await_flows(&self) {
        let deadline = Instant::now() + FLOWS_PATIENCE;
        while self.running.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Answers requests and sends reports until the session is over.
    fn talk(&self, state: &Arc<ServerState>, control: &mut Control) -> Over {
        let mut life = Life::default();
        let mut report_ns = clock::now_ns();
        let mut requests = 0;
        loop {
            let now_ns = clock::now_ns();
            if now_ns >= report_ns {
                report_ns = now_ns + REPORT_EVERY_NS;
                requests = 0;
                let measured = self.sink.take();
                if life.watch(&measured) {
                    self.activity.register();
                }
                if let Err(reason) = control.report(measured, Instant::now() + SILENCE) {
                    return Over::Ended(reason);
                }
            }
            if requests >= MOST_REQUESTS {
                clock::sleep_until_ns(report_ns);
                continue;
            }
            let patience = clock::duration(report_ns - clock::now_ns());
            match control.reader.receive::<Request>(patience) {
                Ok(Some(Request::Finish)) => return Over::Finished,
                Ok(Some(request)) => {
                    requests += 1;
                    life.heard();
                    if control.answer(state, self, request).is_err() {
                        return Over::Gone;
                    }
                }
                Ok(None) => {}
                Err(_) => return Over::Gone,
            }
            if let Some(reason) = self.reason_to_end(state, &life) {
                return Over::Ended(reason);
            }
        }
    }

    /// Why the responder ends the session now, if it does.
    fn reason_to_end(&self, state: &ServerState, life: &Life) -> Option<String> {
        if state.stop.is_set() {
            return Some("the responder was stopped".to_owned());
        }
        if let Some(reason) = self.revoked(state.keyring.as_ref()) {
            return Some(reason);
        }
        if self.overrun.is_set() {
            let what = "far more data arrived over UDP than was agreed for the flows (this responder has a --max-rate)";
            return Some(what.to_owned());
        }
        if clock::now_ns() > self.ends_ns {
            let what = "the session has lasted as long as this responder allows (--max-duration)";
            return Some(what.to_owned());
        }
        if life.silence_ns() > SILENCE.as_nanos() as i64 {
            return Some(format!(
                "the client sent nothing for {} s",
                SILENCE.as_secs()
            ));
        }
        let most_s = self.max_idle_s?;
        if self.activity.idle_ns() <= clock::ns(most_s) {
            return None;
        }
        count(&state.counts.idle);
        Some(format!(
            "no flow was active for {most_s:.0} s, and this responder is open to everyone"
        ))
    }

    /// The reason to end if the secret of the client was removed or replaced.
    fn revoked(&self, keyring: Option<&Keyring>) -> Option<String> {
        let secret = self.secret.as_ref()?;
        if keyring?.accepts(secret) {
            return None;
        }
        Some(match secret.name() {
            name if name.is_empty() => "the secret was removed at the responder".to_owned(),
            name => format!("the secret of {name} was removed at the responder"),
        })
    }

    /// Starts a thread for a data connection of one of the flows.
    pub fn attach(self: &Arc<Session>, stream: TcpStream, flow: u32) {
        let Some(spec) = self.awaited().remove(&flow) else {
            return;
        };
        let session = self.clone();
        self.running.fetch_add(1, Ordering::AcqRel);
        let spawned = thread::Builder::new()
            .name(format!("flow-{flow}"))
            .stack_size(256 << 10)
            .spawn(move || {
                session.run_flow(&stream, &spec);
                session.running.fetch_sub(1, Ordering::AcqRel);
            });
        if let Err(error) = spawned {
            self.running.fetch_sub(1, Ordering::AcqRel);
            self.ended(flow, Ending::Failed(no_thread(&error)));
        }
    }

    fn run_flow(&self, stream: &TcpStream, spec: &FlowSpec) {
        let side = if spec.direction == Direction::Down {
            Side::Sender
        } else {
            Side::Receiver
        };
        let ending = match self.prepare(stream, spec, side) {
            Ok(counter) if side == Side::Receiver => self.receive(stream, spec, &counter),
            Ok(counter) => self.send(stream, spec, &counter),
            Err(error) => Ending::Failed(error.to_string()),
        };
        let ending = match ending {
            Ending::Failed(reason) => Ending::Failed(format!("at the responder: {reason}")),
            other => other,
        };
        self.ended(spec.flow, ending);
    }

    fn prepare(&self, stream: &TcpStream, spec: &FlowSpec, side: Side) -> io::Result<Arc<Counter>> {
        options::adopt(stream, spec)?;
        if side == Side::Sender {
            facts::of_sender(stream, spec.flow, &self.sink);
        }
        self.meter
            .watch(spec.flow, side, stream, clock::ns(spec.interval_s))
    }

    fn receive(&self, stream: &TcpStream, spec: &FlowSpec, counter: &Counter) -> Ending {
        let mut brake = self.intake.as_ref().map(Brake::new);
        let ending = receive::run(
            stream,
            counter,
            Begins::WithFirstByte,
            spec.duration_s.map_or(i64::MAX, clock::ns),
            self.ends_ns,
            brake.as_mut(),
            &self.stop,
        );
        if let Some(brake) = brake {
            self.note_limited(spec.flow, &brake);
        }
        // If the client disappears, its flows fail too.
        if self.stop.is_set() {
            Ending::Stopped
        } else {
            ending
        }
    }

    /// Records that the responder's limit slowed a flow down, so that the path is not blamed.
    fn note_limited(&self, flow: u32, brake: &Brake<'_>) {
        let waited_s = brake.waited_ns() as f64 / 1e9;
        if waited_s > 0.0 {
            let fact = (
                flow,
                "held_back_s_by_responder".into(),
                format!("{waited_s:.3}"),
            );
            self.sink.with(|samples| samples.facts.push(fact));
        }
    }

    fn send(&self, stream: &TcpStream, spec: &FlowSpec, counter: &Counter) -> Ending {
        if !self.wait_for_go(stream) {
            return Ending::Stopped;
        }
        let start_ns = clock::now_ns();
        counter.begin(start_ns);
        let (ending, written) = fill::run(
            stream,
            &FlowSpec {
                start_s: 0.0,
                ..spec.clone()
            },
            start_ns,
            &self.stop,
        );
        if ending == Ending::Complete && spec.payload_bytes.is_some_and(|bytes| written >= bytes) {
            // All data shall arrive, however long that takes; the client reports whether it has.
            let patience = clock::duration(self.ends_ns - clock::now_ns());
            let parting = options::linger(stream, patience, &self.stop);
            counter.end(clock::now_ns());
            return match parting {
                Parting::Stopped | Parting::Silent => Ending::Stopped,
                Parting::Closed | Parting::Broken(_) => Ending::Complete,
            };
        }
        counter.end(clock::now_ns());
        options::linger(stream, GRACE, &self.stop);
        options::close_abruptly(stream);
        // The client has gone by then: a reset at the end of the flow's time is normal.
        match ending {
            Ending::Failed(_)
                if spec
                    .duration_s
                    .is_some_and(|s| clock::now_ns() - start_ns >= clock::ns(s - 0.5)) =>
            {
                Ending::Complete
            }
            other => other,
        }
    }

    fn wait_for_go(&self, mut stream: &TcpStream) -> bool {
        loop {
            match stream.read(&mut [0]) {
                Ok(1..) => return true,
                Err(error) if is_timeout(&error) && !self.stop.is_set() => {}
                _ => return false,
            }
        }
    }

    fn ended(&self, flow: u32, ending: Ending) {
        self.sink
            .with(|samples| samples.endings.push((flow, ending)));
    }
}

/// The responder's end of the control channel.
struct Control {
    reader: Reader,
    writer: Writer,
    described: bool,
    /// Probe flows that may still request their arrivals. Each may do so once, because collecting them blocks the
    /// shared UDP port.
    unasked: HashSet<u32>,
}

impl Control {
    fn new(stream: &TcpStream, opened: &Opened) -> io::Result<Control> {
        let cipher = || opened.cipher.clone();
        let reader = Reader::new(stream.try_clone()?, cipher(), LONGEST_REQUEST_BYTES);
        let writer = Writer::new(stream.try_clone()?, cipher(), SILENCE)?;
        Ok(Control {
            reader,
            writer,
            described: false,
            unasked: HashSet::new(),
        })
    }

    /// Receives the requested flows; `None` if they are refused.
    fn open(
        &mut self,
        state: &Arc<ServerState>,
        accepted: Accepted,
        from: IpAddr,
    ) -> io::Result<Option<Session>> {
        let Some(Request::Open { mut flows }) = self.reader.receive(PLAN_PATIENCE)? else {
            return Ok(None);
        };
        let asked: Vec<Option<f64>> = flows.iter().map(|flow| flow.pacing_rate_bps).collect();
        if let Err(reason) = state.limits.admit(&mut flows) {
            self.writer.send(&Reply::Refused(reason))?;
            return Ok(None);
        }
        for flow in &mut flows {
            // The arrivals are remembered for as long as the probes may last.
            if flow.kind == Kind::Probe && flow.duration_s.is_none() {
                flow.duration_s = Some(state.limits.max_duration_s - flow.start_s);
            }
        }
        let probes = flows.iter().filter(|flow| flow.kind == Kind::Probe);
        self.unasked = probes.map(|flow| flow.flow).collect();
        let sink = Arc::new(Sink::bounded(MOST_BYTES_OF_ROWS));
        note_limits(&flows, &asked, &sink);
        let keys = accepted.opened.keys;
        let session = Session {
            token: crate::auth::token(),
            secret: accepted.secret,
            keys,
            from,
            stop: Stop::default(),
            meter: Arc::new(Meter::new(sink.clone())),
            sink,
            ends_ns: clock::now_ns()
                .saturating_add(clock::ns(state.limits.max_duration_s))
                .saturating_add(clock::ns(AROUND_S)),
            intake: state.limits.intake_bps(&flows).map(Limit::new),
            overrun: Stop::default(),
            activity: Activity::default(),
            max_idle_s: state.limits.idle_s(&flows),
            running: AtomicUsize::new(0),
            awaited: Mutex::new(
                flows
                    .iter()
                    .filter(|flow| flow.kind == Kind::Tcp)
                    .map(|flow| (flow.flow, flow.clone()))
                    .collect(),
            ),
        };
        state.udp.register(udp::Registration {
            token: session.token,
            key: keys.udp,
            flows: flows
                .into_iter()
                .filter(|flow| flow.kind != Kind::Tcp)
                .collect(),
            limits: state.udp_limits(),
            ends_ns: session.ends_ns,
            overrun: session.overrun.clone(),
            activity: session.activity.clone(),
            sink: session.sink.clone(),
        });
        Ok(Some(session))
    }

    fn answer(
        &mut self,
        state: &Arc<ServerState>,
        session: &Session,
        request: Request,
    ) -> io::Result<()> {
        let reply = match request {
            Request::Echo { sent_ns } => Reply::Echo {
                sent_ns,
                far_ns: clock::now_ns(),
            },
            Request::Describe if self.described => return Ok(()),
            Request::Describe => {
                self.described = true;
                let text = state.describe(session.from);
                let fits = text.len() <= MOST_DESCRIPTION_BYTES;
                Reply::Description(if fits { text } else { "{}".to_owned() })
            }
            Request::Arrivals { flow } if !self.unasked.remove(&flow) => return Ok(()),
            Request::Arrivals { flow } => Reply::Arrivals {
                flow,
                ranges: state.udp.arrivals(session.token, flow),
            },
            Request::Open { .. } | Request::Finish => return Ok(()),
        };
        self.writer.send(&reply)
    }

    /// Sends the measurements in reports of bounded size, which the client must have read before `deadline`.
    fn report(&mut self, samples: Samples, deadline: Instant) -> Result<(), String> {
        let Samples {
            intervals,
            tcp,
            bursts,
            departures,
            endings,
            facts,
            overflowed,
            ..
        } = samples;
        if overflowed {
            return Err("the client does not read the measurements".to_owned());
        }
        let facts = facts
            .into_iter()
            .map(|(flow, key, value)| (flow, key.into_owned(), value));
        let mut rows = (
            intervals.into_iter(),
            tcp.into_iter(),
            bursts.into_iter(),
            endings.into_iter(),
            facts,
            departures.into_iter(),
        );
        loop {
            let report = Report {
                intervals: rows.0.by_ref().take(ROWS_IN_REPORT).collect(),
                tcp: rows.1.by_ref().take(ROWS_IN_REPORT).collect(),
                bursts: rows.2.by_ref().take(ROWS_IN_REPORT).collect(),
                endings: rows.3.by_ref().take(ROWS_IN_REPORT).collect(),
                facts: rows.4.by_ref().take(ROWS_IN_REPORT).collect(),
                departures: rows.5.by_ref().take(ROWS_IN_REPORT).collect(),
            };
            if report == Report::default() {
                return Ok(());
            }
            self.writer
                .send_by(&Reply::Report(report), deadline)
                .map_err(|error| format!("cannot reach the client: {error}"))?;
        }
    }
}

fn no_thread(error: &io::Error) -> String {
    format!("the responder cannot start another thread: {error}")
}

/// Records that the responder's limit may slow a flow down, so that the path is not blamed.
fn note_limits(flows: &[FlowSpec], asked: &[Option<f64>], sink: &Sink) {
    for (flow, asked) in flows.iter().zip(asked) {
        if let Some(rate_bps) = flow.pacing_rate_bps
            && *asked != flow.pacing_rate_bps
        {
            let fact = (
                flow.flow,
                "held_to_bps_by_responder".into(),
                format!("{rate_bps:.0}"),
            );
            sink.with(|samples| samples.facts.push(fact));
        }
    }
}
