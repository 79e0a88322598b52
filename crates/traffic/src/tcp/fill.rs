//! The sending end of a TCP flow.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::OnceLock;

use crate::clock;
use crate::flow::FlowSpec;
use crate::sample::Ending;
use crate::stop::Stop;
use crate::timed::is_timeout;

/// Bytes per write where no rate is set: fewer calls per byte.
const CHUNK_BYTES: usize = 256 << 10;
/// A flow with a fixed rate is written in portions of this duration, to keep the rate even.
const PORTION_S: f64 = 0.005;
/// Smallest portion: one segment.
const SMALLEST_PORTION_BYTES: f64 = 1448.0;

/// Fills a connection as its plan says, from `start_ns` on; returns how it ended and how many bytes were written.
///
/// A flow that ends by time leaves unsent bytes in the socket; the caller decides about them.
pub fn run(stream: &TcpStream, spec: &FlowSpec, start_ns: i64, stop: &Stop) -> (Ending, u64) {
    let mut filling = Filling::new(spec, start_ns);
    let ending = match filling.run(stream, stop) {
        Ok(ending) => ending,
        Err(error) => Ending::Failed(describe(&error, clock::now_ns() - start_ns)),
    };
    // Fails where the peer has closed already.
    let _ = stream.shutdown(Shutdown::Write);
    (ending, filling.written)
}

/// Describes a connection's error and when it happened.
pub fn describe(error: &io::Error, after_ns: i64) -> String {
    let what = match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            "the far end closed the connection".to_owned()
        }
        io::ErrorKind::TimedOut => "the far end does not answer any more".to_owned(),
        _ => error.to_string(),
    };
    format!("{what} after {:.1} s", after_ns as f64 / 1e9)
}

struct Filling<'a> {
    spec: &'a FlowSpec,
    start_ns: i64,
    end_ns: i64,
    limit: u64,
    written: u64,
}

impl<'a> Filling<'a> {
    fn new(spec: &'a FlowSpec, start_ns: i64) -> Filling<'a> {
        let end_ns = spec.duration_s.map_or(i64::MAX, |seconds| {
            start_ns.saturating_add(clock::ns(seconds))
        });
        Filling {
            spec,
            start_ns,
            end_ns,
            limit: spec.payload_bytes.unwrap_or(u64::MAX),
            written: 0,
        }
    }

    fn run(&mut self, mut stream: &TcpStream, stop: &Stop) -> io::Result<Ending> {
        let payload = payload();
        let largest = self.portion_bytes();
        loop {
            if self.written >= self.limit {
                return Ok(Ending::Complete);
            }
            let until_ns = self.may_write_ns().min(self.end_ns);
            if until_ns > clock::now_ns() && !stop.sleep_until_ns(until_ns) {
                return Ok(Ending::Stopped);
            }
            if stop.is_set() {
                return Ok(Ending::Stopped);
            }
            if clock::now_ns() >= self.end_ns {
                return Ok(Ending::Complete);
            }
            let length =
                largest.min(usize::try_from(self.limit - self.written).unwrap_or(usize::MAX));
            match stream.write(&payload[..length]) {
                Ok(count) => self.written += count as u64,
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn portion_bytes(&self) -> usize {
        let Some(rate_bps) = self.spec.rate_bps else {
            return CHUNK_BYTES;
        };
        ((rate_bps / 8.0 * PORTION_S).max(SMALLEST_PORTION_BYTES) as usize).min(CHUNK_BYTES)
    }

    /// When the next portion may be written: by the rate, then by the square wave.
    fn may_write_ns(&self) -> i64 {
        let by_rate_ns = self.spec.rate_bps.map_or(i64::MIN, |rate_bps| {
            let on_ns = clock::ns(self.written as f64 * 8.0 / rate_bps);
            self.start_ns.saturating_add(self.clock_of(on_ns))
        });
        let now_ns = clock::now_ns().max(by_rate_ns).max(self.start_ns);
        let Some((on_ns, period_ns)) = self.wave_ns() else {
            return now_ns;
        };
        let phase_ns = (now_ns - self.start_ns).rem_euclid(period_ns);
        if phase_ns < on_ns {
            now_ns
        } else {
            (now_ns - phase_ns).saturating_add(period_ns)
        }
    }

    /// Converts time spent in the on phases of the wave to time since the start.
    fn clock_of(&self, on_ns: i64) -> i64 {
        match self.wave_ns() {
            Some((each_ns, period_ns)) => (on_ns / each_ns)
                .saturating_mul(period_ns)
                .saturating_add(on_ns % each_ns),
            None => on_ns,
        }
    }

    /// Duration of the wave's on phase, and its period.
    fn wave_ns(&self) -> Option<(i64, i64)> {
        let on_ns = clock::ns(self.spec.on_s?);
        let off_ns = clock::ns(self.spec.off_s.unwrap_or(0.0));
        (on_ns > 0 && off_ns > 0).then_some((on_ns, on_ns.saturating_add(off_ns)))
    }
}

/// Incompressible bytes, the same for every flow of the process.
fn payload() -> &'static [u8] {
    static PAYLOAD: OnceLock<Vec<u8>> = OnceLock::new();
    PAYLOAD.get_or_init(|| {
        let mut bytes = vec![0; CHUNK_BYTES];
        getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
        bytes
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::thread;

    use super::*;
    use crate::flow::{Direction, Kind};

    fn filled(spec: &FlowSpec, stop: &Stop) -> (Ending, u64, u64) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let reader = thread::spawn(move || {
            let mut chunk = vec![0; 1 << 20];
            let mut total = 0;
            while let Ok(count @ 1..) = server.read(&mut chunk) {
                total += count as u64;
            }
            total
        });
        let (ending, written) = run(&client, spec, clock::now_ns(), stop);
        (ending, written, reader.join().unwrap())
    }

    fn spec() -> FlowSpec {
        FlowSpec::new(0, Kind::Tcp, Direction::Up)
    }

    #[test]
    fn a_flow_limited_by_bytes_sends_exactly_so_many() {
        let spec = FlowSpec {
            payload_bytes: Some(1_234_567),
            ..spec()
        };
        assert_eq!(
            filled(&spec, &Stop::default()),
            (Ending::Complete, 1_234_567, 1_234_567)
        );
    }

    #[test]
    fn a_flow_of_fixed_rate_never_sends_more_than_its_rate_and_one_portion() {
        let spec = FlowSpec {
            rate_bps: Some(8e6),
            duration_s: Some(0.3),
            ..spec()
        };
        let (ending, written, arrived) = filled(&spec, &Stop::default());
        assert_eq!((ending, written), (Ending::Complete, arrived));
        assert!(written <= 300_000 + 5_000 + 5_000, "{written}");
    }

    #[test]
    fn a_square_wave_sends_nothing_in_its_pauses() {
        let square = FlowSpec {
            rate_bps: Some(8e6),
            on_s: Some(0.05),
            off_s: Some(0.15),
            ..spec()
        };
        let filling = Filling {
            written: 50_000,
            ..Filling::new(&square, 0)
        };
        // After 50 ms of sending, the next portion is due at the start of the next period.
        assert_eq!(filling.clock_of(clock::ns(0.05)), clock::ns(0.2));
        assert_eq!(filling.clock_of(clock::ns(0.06)), clock::ns(0.21));
    }

    #[test]
    fn a_flow_that_is_asked_to_stop_stops() {
        let stop = Stop::default();
        stop.set();
        assert_eq!(filled(&spec(), &stop).0, Ending::Stopped);
    }
    proptest::proptest! {
        #[test]
        fn no_numbers_of_a_plan_overflow_and_no_rate_is_exceeded_by_them(
            rate_bps in proptest::num::f64::ANY,
            on_s in proptest::num::f64::ANY,
            off_s in proptest::num::f64::ANY,
            written: u64,
        ) {
            let hostile = FlowSpec {
                rate_bps: Some(rate_bps),
                on_s: Some(on_s),
                off_s: Some(off_s),
                duration_s: Some(off_s),
                ..spec()
            };
            let filling = Filling { written, ..Filling::new(&hostile, clock::now_ns()) };
            proptest::prop_assert!(filling.may_write_ns() >= filling.start_ns);
            proptest::prop_assert!(filling.portion_bytes() <= CHUNK_BYTES);
        }
    }
}
