//! A TCP flow at the client's end.

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::clock;
use crate::flow::{Direction, FlowSpec};
use crate::sample::{Ending, Sink};
use crate::stop::Stop;
use crate::tcp::meter::{Meter, Side};
use crate::tcp::options::Parting;
use crate::tcp::receive::{self, Begins};
use crate::tcp::{facts, fill, options};

/// How long the responder may take to close after the last byte, before the data still queued is discarded.
const GRACE: Duration = Duration::from_millis(500);
/// A close at most this long before the planned end counts as complete.
const EARLY_NS: i64 = 500_000_000;
/// A transfer of a fixed size ends when all of it has arrived; this is the longest wait.
const LONGEST_TRANSFER: Duration = Duration::from_secs(24 * 3600);

/// Runs a flow on its connection, in the caller's thread.
pub fn run(
    stream: &TcpStream,
    spec: &FlowSpec,
    start_ns: i64,
    stop: &Stop,
    meter: &Meter,
    sink: &Sink,
) -> Ending {
    let begin_ns = start_ns.saturating_add(clock::ns(spec.start_s));
    let result = match spec.direction {
        Direction::Down => download(stream, spec, begin_ns, stop, meter),
        Direction::Up | Direction::Both => upload(stream, spec, begin_ns, stop, meter, sink),
    };
    result.unwrap_or_else(|error| Ending::Failed(error.to_string()))
}

fn upload(
    stream: &TcpStream,
    spec: &FlowSpec,
    begin_ns: i64,
    stop: &Stop,
    meter: &Meter,
    sink: &Sink,
) -> io::Result<Ending> {
    facts::of_sender(stream, spec.flow, sink);
    let counter = meter.watch(spec.flow, Side::Sender, stream, clock::ns(spec.interval_s))?;
    if !stop.sleep_until_ns(begin_ns) {
        return Ok(Ending::Stopped);
    }
    counter.begin(begin_ns);
    let (ending, written) = fill::run(stream, spec, begin_ns, stop);
    if ending == Ending::Complete && spec.payload_bytes.is_some_and(|bytes| written >= bytes) {
        let ending = arrived(stream, begin_ns, stop);
        counter.end(clock::now_ns());
        return Ok(ending);
    }
    counter.end(clock::now_ns());
    options::linger(stream, GRACE, stop);
    options::close_abruptly(stream);
    Ok(ending)
}

/// Waits until all data has arrived: the responder then closes.
fn arrived(stream: &TcpStream, begin_ns: i64, stop: &Stop) -> Ending {
    let parting = options::linger(stream, LONGEST_TRANSFER, stop);
    if !matches!(parting, Parting::Closed) {
        options::close_abruptly(stream);
    }
    match parting {
        Parting::Closed => Ending::Complete,
        Parting::Stopped => Ending::Stopped,
        Parting::Silent => Ending::Failed("the last bytes did not arrive within a day".to_owned()),
        Parting::Broken(error) => {
            Ending::Failed(fill::describe(&error, clock::now_ns() - begin_ns))
        }
    }
}

fn download(
    mut stream: &TcpStream,
    spec: &FlowSpec,
    begin_ns: i64,
    stop: &Stop,
    meter: &Meter,
) -> io::Result<Ending> {
    let counter = meter.watch(
        spec.flow,
        Side::Receiver,
        stream,
        clock::ns(spec.interval_s),
    )?;
    if !stop.sleep_until_ns(begin_ns) {
        return Ok(Ending::Stopped);
    }
    // The responder begins when it receives this byte.
    stream.write_all(&[1])?;
    let due_after_ns = spec.duration_s.map_or(i64::MAX, clock::ns);
    let end_ns = begin_ns.saturating_add(due_after_ns);
    let ending = receive::run(
        stream,
        &counter,
        Begins::At(begin_ns),
        due_after_ns,
        end_ns,
        None,
        stop,
    );
    let ended_ns = clock::now_ns();
    let received = counter.received_bytes();
    let whole = spec.payload_bytes.is_some_and(|wanted| received >= wanted);
    if !whole {
        // Download data that is still queued is no longer needed.
        options::close_abruptly(stream);
    }
    if ending != Ending::Complete || whole {
        return Ok(ending);
    }
    Ok(match spec.payload_bytes {
        // With both limits set, the first one reached ends the flow.
        _ if ended_ns >= end_ns.saturating_sub(EARLY_NS) => Ending::Complete,
        Some(wanted) => Ending::Failed(format!("{received} of {wanted} bytes arrived")),
        None => Ending::Failed(format!(
            "the far end closed the connection after {:.1} s",
            (ended_ns - begin_ns) as f64 / 1e9
        )),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::flow::Kind;

    /// Runs a flow towards a far end that `far` implements.
    fn ran(spec: &FlowSpec, far: impl FnOnce(TcpStream) + Send + 'static) -> Ending {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        options::look_up_often(&client).unwrap();
        let far = thread::spawn(move || far(server));
        let sink = Arc::new(Sink::default());
        let meter = Meter::new(sink.clone());
        let ending = run(
            &client,
            spec,
            clock::now_ns(),
            &Stop::default(),
            &meter,
            &sink,
        );
        far.thread().unpark();
        far.join().unwrap();
        ending
    }

    fn transfer(direction: Direction) -> FlowSpec {
        FlowSpec {
            payload_bytes: Some(10_000),
            ..FlowSpec::new(0, Kind::Tcp, direction)
        }
    }

    #[test]
    fn an_upload_of_so_many_bytes_has_failed_when_the_far_end_leaves_before_they_arrive() {
        let ending = ran(&transfer(Direction::Up), |mut stream| {
            stream.read_exact(&mut [0; 100]).unwrap();
            options::close_abruptly(&stream);
        });
        assert!(matches!(ending, Ending::Failed(_)), "{ending:?}");
    }

    #[test]
    fn an_upload_of_so_many_bytes_is_complete_when_the_far_end_has_them_all() {
        let ending = ran(&transfer(Direction::Up), |mut stream| {
            stream.read_exact(&mut [0; 10_000]).unwrap();
        });
        assert_eq!(ending, Ending::Complete);
    }

    #[test]
    fn a_download_limited_by_time_has_failed_when_the_far_end_closes_early() {
        let spec = FlowSpec {
            payload_bytes: None,
            duration_s: Some(60.0),
            ..transfer(Direction::Down)
        };
        let ending = ran(&spec, |mut stream| stream.write_all(&[0; 100]).unwrap());
        let Ending::Failed(reason) = ending else {
            panic!("{ending:?}")
        };
        assert!(reason.contains("closed the connection after"), "{reason}");
    }

    #[test]
    fn an_upload_that_ends_by_time_does_not_wait_for_unwritten_bytes() {
        let spec = FlowSpec {
            payload_bytes: Some(u64::MAX),
            duration_s: Some(0.2),
            ..transfer(Direction::Up)
        };
        // The far end reads nothing, and keeps the connection open until the flow has ended.
        let ending = ran(&spec, |stream| {
            thread::park();
            drop(stream);
        });
        assert_eq!(ending, Ending::Complete);
    }
}
