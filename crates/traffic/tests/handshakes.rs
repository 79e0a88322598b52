//! Handshakes with hostile, slow, foreign and older peers, over loopback.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use whydrop_traffic::client::{Host, Planned, Test};
use whydrop_traffic::flow::{Direction, FlowSpec, Kind};
use whydrop_traffic::handshake;
use whydrop_traffic::hello::{self, ClientHello, Purpose, RESPONDER_HELLO_BYTES};
use whydrop_traffic::keyring::Keyring;
use whydrop_traffic::name::Name;
use whydrop_traffic::noise::{self, Mode};
use whydrop_traffic::responder::{Config, Limits, Responder, Statistics};
use whydrop_traffic::sample::{Ending, Interval};
use whydrop_traffic::secret::{self, Secret};

const SECRET: &str = "a secret of some length";
/// Longer than anything takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(300);
/// The rate of a legal test beside hostile handshakes.
const STEADY_BPS: f64 = 100e6;

struct Running {
    responder: Arc<Responder>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn open() -> Running {
        Running::with(None, Limits::open())
    }

    /// A responder that accepts the secrets in a text.
    fn start(secrets: &str) -> Running {
        let keyring = Keyring::new(secrets).unwrap();
        Running::with(Some(keyring), Limits::authenticated())
    }

    fn with(keyring: Option<Keyring>, limits: Limits) -> Running {
        let config = Config {
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            port: 0,
            keyring,
            limits,
            describe: None,
            metrics: None,
        };
        let responder = Arc::new(Responder::bind(config).unwrap());
        let serving = responder.clone();
        let thread = Some(thread::spawn(move || serving.run().unwrap()));
        Running { responder, thread }
    }

    fn host(&self, secret: Option<&Secret>) -> Host {
        Host {
            port: self.responder.port(),
            secret: secret.cloned(),
            ..Host::new("127.0.0.1")
        }
    }

    fn connect(&self) -> TcpStream {
        self.connect_from(Ipv4Addr::LOCALHOST)
    }

    fn connect_from(&self, address: Ipv4Addr) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, self.responder.port()));
        socket.connect(&to.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn statistics(&self) -> Statistics {
        self.responder.statistics()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.responder.stopper().set();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn secret() -> Secret {
    Secret::new(SECRET.as_bytes()).unwrap()
}

fn prepare(host: &Host, duration_s: f64) -> std::io::Result<Test> {
    let spec = FlowSpec {
        duration_s: Some(duration_s),
        ..FlowSpec::new(0, Kind::Tcp, Direction::Up)
    };
    Test::prepare(std::slice::from_ref(host), vec![Planned { host: 0, spec }])
}

/// Why a client is not served.
fn refusal(host: &Host) -> String {
    let error = prepare(host, 1.0).err().expect("it is not served");
    error.to_string()
}

fn rest_of(mut stream: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // A connection that is closed with unread data is reset.
    let _ = stream.read_to_end(&mut rest);
    rest
}

/// The hello of a client, valid except that nothing follows.
fn hello(secret: Option<&Secret>) -> [u8; hello::CLIENT_HELLO_BYTES] {
    let purpose = Purpose::Control(Mode::of(secret));
    let (_, opening) = noise::begin(&hello::beginning(purpose), secret);
    ClientHello { purpose, opening }.encode()
}

/// A program that listens, and does this with each connection.
fn listening(serve: impl Fn(TcpStream) + Send + 'static) -> Host {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.unwrap());
        }
    });
    Host {
        port,
        ..Host::new("127.0.0.1")
    }
}

#[test]
fn a_client_of_an_earlier_version_gets_a_whole_hello_with_the_version_of_the_responder() {
    let running = Running::open();
    for version in [1, 3, 4, 6] {
        let mut stream = running.connect();
        stream.write_all(&hello::hello_of_version(version)).unwrap();
        let mut answer = Vec::new();
        // Version 3 reads 48 bytes. The end comes without an error, so none of them is lost on any system.
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.len() >= 48);
        assert!(answer.starts_with(b"whydrop\x05"));
    }
    assert_eq!(running.statistics().foreign, 4);
}

#[test]
fn a_responder_of_another_version_is_named_with_the_end_to_update() {
    // Version 3 closes the connection of another version at its eighth byte, and answers its own with 48 bytes.
    let earlier = listening(|mut stream| {
        let mut magic = [0; 8];
        stream.read_exact(&mut magic).unwrap();
        if &magic == b"whydrop\x03" {
            stream.read_exact(&mut [0; 88]).unwrap();
            let mut answer = [0; 48];
            answer[..8].copy_from_slice(&magic);
            stream.write_all(&answer).unwrap();
        }
    });
    let message = refusal(&earlier);
    assert!(message.contains("version 3 of the protocol"), "{message}");
    assert!(message.contains("this program version 5"), "{message}");
    assert!(message.contains("update whydrop there"), "{message}");
    let later = listening(|mut stream| {
        stream.read_exact(&mut [0; 96]).unwrap();
        stream.write_all(b"whydrop\x06").unwrap();
    });
    let message = refusal(&later);
    assert!(message.contains("version 6 of the protocol"), "{message}");
    assert!(message.contains("update whydrop here"), "{message}");
}

#[test]
fn programs_of_another_protocol_are_named_as_such() {
    for (banner, expected) in [
        (&b"SSH-2.0-anything\r\n"[..], "not a whydrop responder"),
        (b"whydrop\x05\xff", "closes the connection"),
        (b"", "closes the connection"),
    ] {
        let host = listening(move |mut stream| {
            let _ = stream.read_exact(&mut [0; 96]);
            stream.write_all(banner).unwrap();
        });
        let message = refusal(&host);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_responder_that_sends_a_byte_now_and_then_does_not_hold_its_client() {
    let slow = listening(|mut stream| {
        thread::spawn(move || {
            let hello = [&b"whydrop\x05"[..], &[0; 56]].concat();
            for byte in hello.iter().cycle() {
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
                // 64 bytes take twice as long as a client has patience.
                thread::sleep(Duration::from_millis(320));
            }
        });
    });
    let message = refusal(&slow);
    assert!(message.contains("does not answer"), "{message}");
}

#[test]
fn a_client_that_sends_a_byte_now_and_then_is_let_go_of() {
    let running = Running::open();
    let mut stream = running.connect();
    // The connection is closed long before the hello would be complete.
    let sent = hello(None)
        .iter()
        .take_while(|&&byte| {
            thread::sleep(Duration::from_millis(300));
            stream.write_all(&[byte]).is_ok()
        })
        .count();
    assert!(sent < 96, "{sent}");
    assert_eq!(running.statistics().expired, 1);
}

#[test]
fn a_client_with_another_secret_learns_it_from_the_responders_proof_and_is_counted() {
    let running = Running::start(SECRET);
    let wrong = Secret::new(b"another secret of some length").unwrap();
    let message = refusal(&running.host(Some(&wrong)));
    assert!(message.contains("different ones"), "{message}");
    wait_for("the count", || running.statistics().wrong_proof == 1);
    assert!(prepare(&running.host(Some(&secret())), 1.0).is_ok());
}

#[test]
fn what_another_client_sent_begins_no_session() {
    let running = Running::start(SECRET);
    let mut recorder = Recorder::new(running.connect());
    handshake::control(&mut recorder, Some(&secret())).unwrap();
    wait_for("the session", || running.statistics().proved == 1);
    let mut replay = running.connect();
    replay.write_all(&recorder.sent).unwrap();
    // The responder's hello, and no answer to the old proof.
    assert_eq!(rest_of(replay).len(), RESPONDER_HELLO_BYTES);
    assert_eq!(running.statistics().proved, 1);
    assert_eq!(running.statistics().wrong_proof, 1);
}

/// A connection that remembers what was sent.
struct Recorder {
    stream: TcpStream,
    sent: Vec<u8>,
}

impl Recorder {
    fn new(stream: TcpStream) -> Recorder {
        let sent = Vec::new();
        Recorder { stream, sent }
    }
}

impl Read for Recorder {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.stream.read(into)
    }
}

impl Write for Recorder {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        self.sent.extend_from_slice(from);
        self.stream.write(from)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_mode_that_is_changed_in_transit_ends_the_handshake() {
    let running = Running::open();
    let (secret, purpose) = (secret(), Purpose::Control(Mode::Secret(Name::default())));
    let (begun, opening) = noise::begin(&hello::beginning(purpose), Some(&secret));
    let mut bytes = ClientHello { purpose, opening }.encode();
    // The client looks open; its message is cut to the length that fits.
    bytes[9] = 0;
    bytes[hello::BOUND_BYTES + Mode::Open.first_bytes()..].fill(0);
    let mut stream = running.connect();
    stream.write_all(&bytes).unwrap();
    let mut answer = [0; RESPONDER_HELLO_BYTES];
    stream.read_exact(&mut answer).unwrap();
    assert!(begun.finish(answer[16..].try_into().unwrap()).is_none());
}

#[test]
fn a_data_connection_without_the_key_of_its_session_is_refused() {
    let running = Running::open();
    let error = handshake::data(&mut running.connect(), 1, 0, &[7; 32]).unwrap_err();
    assert!(error.to_string().contains("ended the session"), "{error}");
    assert_eq!(running.statistics().wrong_proof, 1);
}

#[test]
fn handshakes_of_one_host_are_limited_and_those_of_another_are_not() {
    let running = Running::open();
    let mut crowded = Vec::new();
    for _ in 0..1000 {
        let mut stream = running.connect_from(Ipv4Addr::new(127, 0, 0, 2));
        stream.write_all(&hello(None)).unwrap();
        let mut answer = [0; RESPONDER_HELLO_BYTES];
        stream.read_exact(&mut answer).unwrap();
        crowded.push(answer[8] == 3);
    }
    assert!(crowded.iter().any(|&crowded| crowded));
    assert!(!crowded[0]);
    assert!(running.statistics().crowded > 0);
    assert!(prepare(&running.host(None), 1.0).is_ok());
}

/// The line of a client in the file of a responder.
fn line(name: &str) -> String {
    format!("{name} {}\n", secret::random())
}

fn secret_of(line: &str) -> Secret {
    Secret::new(line.as_bytes()).unwrap()
}

#[test]
fn clients_with_secrets_of_their_own_are_served_and_counted_by_name() {
    let (alice, bob) = (line("alice"), line("bob"));
    let running = Running::start(&(alice.clone() + &bob));
    for (line, count) in [(&alice, 1), (&alice, 2), (&bob, 1)] {
        let secret = secret_of(line);
        prepare(&running.host(Some(&secret)), 1.0).unwrap();
        assert_eq!(running.statistics().clients[&secret.name()], count);
    }
}

#[test]
fn a_client_cannot_pose_as_the_responder_to_another_client() {
    let (alice, bob) = (line("alice"), line("bob"));
    // All that bob has: a responder with his secret under the name of alice.
    let posing = Running::start(&bob.replacen("bob", "alice", 1));
    let message = refusal(&posing.host(Some(&secret_of(&alice))));
    let expected = "does not know this secret of alice";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_client_cannot_pose_as_another_client() {
    let (alice, bob) = (line("alice"), line("bob"));
    let running = Running::start(&(alice + &bob));
    let posing = secret_of(&bob.replacen("bob", "alice", 1));
    let message = refusal(&running.host(Some(&posing)));
    assert!(message.contains("different ones"), "{message}");
    wait_for("the count", || running.statistics().wrong_proof == 1);
    assert_eq!(running.statistics().proved, 0);
}

#[test]
fn a_client_between_another_client_and_the_responder_cannot_read_their_session() {
    let (alice, bob) = (line("alice"), line("bob"));
    let running = Running::start(&(alice.clone() + &bob));
    let (alice, bob) = (secret_of(&alice), secret_of(&bob));
    let purpose = |secret: &Secret| Purpose::Control(Mode::of(Some(secret)));
    // As an answer to alice, bob has the responder's to himself, to her message under his name, and one of his own.
    let (begun, opening) = noise::begin(&hello::beginning(purpose(&alice)), Some(&alice));
    let relayed = ClientHello {
        purpose: purpose(&bob),
        opening: opening.clone(),
    };
    let mut stream = running.connect();
    stream.write_all(&relayed.encode()).unwrap();
    let answer = rest_of(stream);
    assert_eq!(
        answer,
        [] as [u8; 0],
        "her message is not valid under his secret"
    );
    let prologue = hello::beginning(purpose(&alice));
    let own = noise::respond(&prologue, Some(&bob), &opening);
    assert!(own.is_none_or(|(answer, _)| begun.finish(&answer).is_none()));
}

#[test]
fn an_unknown_name_is_answered_as_a_wrong_secret_is() {
    let running = Running::start(&(line("alice") + &line("bob")));
    let mut answers = Vec::new();
    for name in ["alice", "mallory"] {
        let wrong = secret_of(&line(name));
        let mut stream = running.connect();
        stream.write_all(&hello(Some(&wrong))).unwrap();
        let mut answer = [0; RESPONDER_HELLO_BYTES];
        let length = stream.read(&mut answer).unwrap();
        answers.push((length, answer[..16].to_vec()));
    }
    assert_eq!(answers[0], answers[1]);
}

/// A file of secrets, in a folder of its own, removed at the end.
struct SecretFile(PathBuf);

impl SecretFile {
    fn new(text: &str) -> SecretFile {
        let folder = std::env::temp_dir().join(format!("whydrop-revoked-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = SecretFile(folder.join("secrets"));
        file.replace(text);
        file
    }

    fn replace(&self, text: &str) {
        let beside = self.0.with_extension("new");
        std::fs::write(&beside, text).unwrap();
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(beside, &self.0).unwrap();
    }
}

impl Drop for SecretFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

#[test]
fn a_removed_secret_ends_its_sessions_and_begins_no_other_while_those_of_others_go_on() {
    let (alice, bob) = (line("alice"), line("bob"));
    let file = SecretFile::new(&(alice.clone() + &bob));
    let keyring = Keyring::read(Some(&file.0)).unwrap();
    let running = Running::with(keyring, Limits::authenticated());
    let host = |line: &str| running.host(Some(&secret_of(line)));
    let [of_alice, of_bob] = [&alice, &bob].map(|line| {
        let test = prepare(&host(line), 3600.0).unwrap();
        test.start(whydrop_traffic::clock::now_ns());
        test
    });
    file.replace(&alice);
    wait_for("the end of bob's test", || of_bob.is_over());
    let lost = of_bob.far_ends()[0].lost.clone().unwrap();
    assert!(lost.contains("the secret of bob was removed"), "{lost}");
    let said = running.responder.notes().join("\n");
    assert!(said.ends_with("was read again: removed: bob"), "{said}");
    assert!(refusal(&host(&bob)).contains("does not know this secret of bob"));
    assert!(!of_alice.is_over());
    assert!(prepare(&host(&alice), 1.0).is_ok());
}

/// Connects, disturbs the responder and leaves, or stays silent for a while.
fn attack(
    running: &Running,
    number: u32,
    valid: &[u8],
    recorded: &[u8],
    idle: &mut Vec<TcpStream>,
) {
    let [_, a, b, c] = (number % 60_000 + 2).to_be_bytes();
    let mut stream = running.connect_from(Ipv4Addr::new(127, a, b, c));
    let garbage: Vec<u8> = (0..96)
        .map(|place| (number * 31 + place * 7) as u8)
        .collect();
    let sent = match number % 6 {
        0 => stream.write_all(&garbage),
        1 => stream.write_all(&valid[..(number as usize / 6) % valid.len()]),
        // Right up to the proof, then garbage instead of it.
        2 => stream.write_all(&[valid, &garbage[..16]].concat()),
        3 => stream.write_all(recorded),
        4 => stream.write_all(&hello::beginning(Purpose::Data {
            session: 1,
            flow: number,
        })),
        _ => stream.write_all(&valid[..1]),
    };
    // The responder may have closed the connection already.
    let _ = sent;
    if matches!(number % 6, 4 | 5) {
        idle.push(stream);
    }
    if idle.len() >= 400 {
        idle.clear();
    }
}

/// A download at a rate that loopback carries with ease.
fn steady(host: &Host) -> Test {
    let spec = FlowSpec {
        duration_s: Some(3600.0),
        rate_bps: Some(STEADY_BPS),
        ..FlowSpec::new(0, Kind::Tcp, Direction::Down)
    };
    Test::prepare(std::slice::from_ref(host), vec![Planned { host: 0, spec }]).unwrap()
}

/// Prints the rate at which the download went on. A busy machine may slow it down, so it is not judged.
fn print_rate(received: &[Interval]) {
    let (Some(first), Some(last)) = (received.first(), received.last()) else {
        return;
    };
    let bytes: u64 = received.iter().map(|one| one.payload_bytes).sum();
    let seconds = (last.end_ns - first.start_ns) as f64 / 1e9;
    let rate_bps = bytes as f64 * 8.0 / seconds;
    println!(
        "the download had {:.1} % of its {} Mbit/s for {seconds:.1} s",
        100.0 * rate_bps / STEADY_BPS,
        STEADY_BPS / 1e6
    );
}

fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

fn hostile_handshakes(count: u32) {
    let shared = secret();
    let running = Running::start(SECRET);
    let mut recorder = Recorder::new(running.connect());
    drop(handshake::control(&mut recorder, Some(&shared)).unwrap());
    let recorded = std::mem::take(&mut recorder.sent);
    drop(recorder);
    let valid = hello(Some(
        &Secret::new(b"another secret of some length").unwrap(),
    ));
    let test = steady(&running.host(Some(&shared)));
    test.start(whydrop_traffic::clock::now_ns());
    let mut received = Vec::new();
    let (next, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    let mut most_bytes = 0;
    thread::scope(|scope| {
        let attackers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut idle = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return;
                        }
                        attack(&running, number, &valid, &recorded, &mut idle);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            for attacker in attackers {
                attacker.join().unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let before = resident_bytes();
        while !is_over.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
            let mut taken = test.take();
            assert_eq!(taken.endings, []);
            received.append(&mut taken.intervals);
            most_bytes = most_bytes.max(resident_bytes().saturating_sub(before));
        }
    });
    wait_for("all connections", || {
        running.statistics().connections >= u64::from(count)
    });
    print_rate(&received);
    // Pending connections, their ciphers, and the measurements of a test.
    assert!(most_bytes < 64 << 20, "{most_bytes}");
    test.stop();
    wait_for("the end of the test", || test.is_over());
    test.finish();
    assert_eq!(test.take().endings, [(0, Ending::Stopped)]);
    // The session that was recorded, and this test.
    assert_eq!(running.statistics().proved, 3);
    // The next client is served.
    wait_for("a session", || {
        prepare(&running.host(Some(&shared)), 1.0).is_ok()
    });
}

#[test]
fn a_test_goes_on_among_hostile_handshakes() {
    hostile_handshakes(2_000);
}

#[test]
#[ignore = "exhaustive"]
fn a_test_goes_on_among_a_hundred_thousand_hostile_handshakes() {
    hostile_handshakes(100_000);
}
