//! The receiving end of a TCP flow: counts bytes and discards them.

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpStream;

use socket2::SockRef;

use crate::clock;
use crate::sample::Ending;
use crate::stop::Stop;
use crate::tcp::brake::Brake;
use crate::tcp::fill::describe;
use crate::tcp::meter::Counter;
use crate::timed::is_timeout;

/// The most that one read takes off the socket.
const CHUNK_BYTES: usize = 1 << 20;

/// When a flow counts as begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// At this time, even if no data arrives.
    At(i64),
    /// With its first byte.
    WithFirstByte,
}

/// A reset at most this long before the planned end counts as complete: packets in flight are not waited for.
const SLACK_NS: i64 = 500_000_000;

/// Receives until the peer closes, `end_ns` or `stop`.
///
/// A reset is a failure unless the flow has lasted nearly `due_after_ns`. With a `brake`, the receiver reads no faster
/// than that allows.
pub fn run(
    stream: &TcpStream,
    counter: &Counter,
    begins: Begins,
    due_after_ns: i64,
    end_ns: i64,
    mut brake: Option<&mut Brake<'_>>,
    stop: &Stop,
) -> Ending {
    let portion_bytes = brake
        .as_ref()
        .map_or(CHUNK_BYTES, |brake| brake.portion_bytes(CHUNK_BYTES));
    let mut room = Vec::<u8>::with_capacity(portion_bytes);
    let mut began_ns = match begins {
        Begins::At(time_ns) => Some(time_ns),
        Begins::WithFirstByte => None,
    };
    if let Some(time_ns) = began_ns {
        counter.begin(time_ns);
    }
    let ending = loop {
        match discard(stream, room.spare_capacity_mut()) {
            Ok(0) => break Ending::Complete,
            Ok(count) => {
                if began_ns.is_none() {
                    let now_ns = clock::now_ns();
                    counter.begin(now_ns);
                    began_ns = Some(now_ns);
                }
                counter.add(count as u64);
                if let Some(brake) = brake.as_deref_mut() {
                    brake.hold(count, end_ns, stop);
                }
            }
            Err(error) if is_timeout(&error) => {}
            Err(error) => {
                let now_ns = clock::now_ns();
                let after_ns = now_ns - began_ns.unwrap_or(now_ns);
                break if after_ns >= due_after_ns.saturating_sub(SLACK_NS) {
                    Ending::Complete
                } else {
                    Ending::Failed(describe(&error, after_ns))
                };
            }
        }
        if stop.is_set() {
            break Ending::Stopped;
        }
        if clock::now_ns() >= end_ns {
            break Ending::Complete;
        }
    };
    counter.end(clock::now_ns());
    ending
}

/// Takes bytes off the socket without copying them (`MSG_TRUNC`, tcp(7)): their contents do not matter, and the kernel
/// does not write to `room`.
fn discard(stream: &TcpStream, room: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    SockRef::from(stream).recv_with_flags(room, libc::MSG_TRUNC)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;
    use crate::tcp::brake::Limit;
    use crate::tcp::options::close_abruptly;

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        (client, server)
    }

    fn received(server: &TcpStream, due_after_ns: i64, end_ns: i64) -> (Ending, u64) {
        let counter = Counter::default();
        let ending = run(
            server,
            &counter,
            Begins::WithFirstByte,
            due_after_ns,
            end_ns,
            None,
            &Stop::default(),
        );
        (ending, counter.received_bytes())
    }

    #[test]
    fn every_byte_is_counted_up_to_the_close() {
        let (mut client, server) = connected();
        client.write_all(&[0; 100_000]).unwrap();
        drop(client);
        assert_eq!(
            received(&server, i64::MAX, i64::MAX),
            (Ending::Complete, 100_000)
        );
    }

    #[test]
    fn a_brake_slows_the_sender_down_and_loses_nothing() {
        let (mut client, server) = connected();
        let sender = std::thread::spawn(move || client.write_all(&[0; 500_000]).unwrap());
        let (counter, limit) = (Counter::default(), Limit::new(8e6));
        let mut brake = Brake::new(&limit);
        let began_ns = clock::now_ns();
        let ending = run(
            &server,
            &counter,
            Begins::WithFirstByte,
            i64::MAX,
            i64::MAX,
            Some(&mut brake),
            &Stop::default(),
        );
        sender.join().unwrap();
        assert_eq!(
            (ending, counter.received_bytes()),
            (Ending::Complete, 500_000)
        );
        // 0.5 s at this rate, less the allowed excess; a busy machine takes longer.
        assert!(clock::now_ns() - began_ns >= 390_000_000);
        assert!(brake.waited_ns() > 0);
    }

    #[test]
    fn a_reset_before_its_time_is_a_failure_and_one_behind_it_is_not() {
        for (due_after_ns, early) in [(i64::MAX, true), (0, false)] {
            let (client, server) = connected();
            close_abruptly(&client);
            drop(client);
            let (ending, _) = received(&server, due_after_ns, i64::MAX);
            assert_eq!(matches!(ending, Ending::Failed(_)), early, "{ending:?}");
        }
    }

    #[test]
    fn a_silent_peer_is_left_at_the_end_of_the_flows_time() {
        let (_client, server) = connected();
        assert_eq!(received(&server, 0, clock::now_ns()), (Ending::Complete, 0));
    }
}
