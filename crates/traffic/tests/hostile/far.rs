//! A responder that speaks the protocol up to one step, at which it sends something else.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use whydrop_traffic::auth::{self, Bytes32, Role, SessionKeys};
use whydrop_traffic::client::Host;
use whydrop_traffic::frames::{Opener, Sealer};
use whydrop_traffic::hello::{
    self, ClientHello, Greeting, PROOF_BYTES, Purpose, RESPONDER_HELLO_BYTES, ResponderHello,
};
use whydrop_traffic::message::{Reply, Request};
use whydrop_traffic::noise::{self, Cipher, SECOND_BYTES};

/// The step at which the responder lies, and the bytes that it sends there.
#[derive(Clone, Copy)]
pub enum Lie {
    Hello(fn(&ClientHello) -> Vec<u8>),
    Answer(fn(&Cipher) -> Vec<u8>),
    /// In place of the answer to the plan.
    Plan(fn(&mut Channel) -> Vec<u8>),
    /// In place of the hello on a connection for data.
    Data(fn() -> Vec<u8>),
    /// In place of the answer to a proof on a connection for data.
    DataAnswer(fn() -> Vec<u8>),
    /// Once the client has asked for a description.
    Run(fn(&mut Channel) -> Vec<u8>),
    /// Once the client has asked for the end.
    Finish(fn(&mut Channel) -> Vec<u8>),
}

/// How the bytes are sent, and what follows.
#[derive(Clone, Copy)]
pub enum Then {
    Close,
    /// The connection stays open, and nothing more is sent.
    Wait,
    /// A byte every two seconds.
    Drip,
}

/// The control channel at the responder.
pub struct Channel {
    stream: TcpStream,
    cipher: Arc<Cipher>,
    sealer: Sealer,
    opener: Opener,
}

impl Channel {
    fn new(stream: TcpStream, cipher: Cipher) -> Channel {
        let cipher = Arc::new(cipher);
        Channel {
            stream,
            sealer: Sealer::new(cipher.clone()),
            opener: Opener::new(cipher.clone(), 1 << 20),
            cipher,
        }
    }

    /// The frames of a message.
    pub fn frames(&mut self, reply: &Reply) -> Vec<u8> {
        self.payload(&postcard::to_allocvec(reply).unwrap())
    }

    /// The frames of any bytes.
    pub fn payload(&mut self, payload: &[u8]) -> Vec<u8> {
        self.sealer.seal(payload).unwrap()
    }

    /// A valid frame with any bytes in it, as the first one of this end.
    pub fn frame(&self, plain: &[u8]) -> Vec<u8> {
        let sealed = self.cipher.seal(1, plain).unwrap();
        [&(sealed.len() as u16).to_be_bytes()[..], &sealed].concat()
    }

    /// The client's next request; `None` once it has gone.
    fn request(&mut self) -> Option<Request> {
        loop {
            if let Some(payload) = self.opener.take().unwrap() {
                return Some(postcard::from_bytes(&payload).unwrap());
            }
            let mut chunk = [0; 1000];
            match self.stream.read(&mut chunk) {
                Ok(count @ 1..) => self.opener.add(&chunk[..count]),
                _ => return None,
            }
        }
    }
}

struct Responder {
    lie: Lie,
    then: Then,
    /// Of the session's connections for data.
    key: Mutex<Bytes32>,
}

/// Starts a responder with one lie.
pub fn lying(lie: Lie, then: Then) -> Host {
    // UDP is not answered: the port is taken, so that nothing says that it is closed.
    let (listener, udp) = loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Ok(udp) = UdpSocket::bind(listener.local_addr().unwrap()) {
            break (listener, udp);
        }
    };
    let port = listener.local_addr().unwrap().port();
    let key = Mutex::default();
    let responder = Arc::new(Responder { lie, then, key });
    thread::spawn(move || {
        let _udp = udp;
        for stream in listener.incoming() {
            let (stream, responder) = (stream.unwrap(), responder.clone());
            thread::spawn(move || responder.serve(stream));
        }
    });
    Host {
        port,
        ..Host::new("127.0.0.1")
    }
}

impl Responder {
    /// Serves a connection until it lies or the client leaves.
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut bytes = [0; hello::CLIENT_HELLO_BYTES];
        stream.read_exact(&mut bytes).ok()?;
        let client = ClientHello::decode(&bytes).ok()?;
        match client.purpose {
            Purpose::Control(_) => self.control(stream, &client),
            Purpose::Data { .. } => self.data(stream, &client),
        }
    }

    fn control(&self, mut stream: TcpStream, client: &ClientHello) -> Option<()> {
        if let Lie::Hello(lie) = self.lie {
            return self.send(&mut stream, &lie(client));
        }
        let prologue = hello::beginning(client.purpose);
        let (opening, cipher) = noise::respond(&prologue, None, &client.opening)?;
        stream.write_all(&proceed(opening)).ok()?;
        stream.read_exact(&mut [0; PROOF_BYTES]).ok()?;
        if let Lie::Answer(lie) = self.lie {
            return self.send(&mut stream, &lie(&cipher));
        }
        let seed = auth::nonce();
        *self.key.lock().unwrap() = SessionKeys::derive(&seed, cipher.handshake()).data;
        let answer = cipher.seal(0, &[&[0], &seed[..]].concat()).unwrap();
        stream.write_all(&answer).ok()?;
        self.session(stream.try_clone().ok()?, Channel::new(stream, cipher))
    }

    fn session(&self, mut stream: TcpStream, mut channel: Channel) -> Option<()> {
        loop {
            let reply = match (channel.request()?, self.lie) {
                (Request::Open { .. }, Lie::Plan(lie))
                | (Request::Describe, Lie::Run(lie))
                | (Request::Finish, Lie::Finish(lie)) => {
                    return self.send(&mut stream, &lie(&mut channel));
                }
                (Request::Open { .. }, _) => Reply::Accepted { session: 7 },
                (Request::Echo { sent_ns }, _) => Reply::Echo { sent_ns, far_ns: 1 },
                (Request::Describe, _) => Reply::Description("{}".to_owned()),
                (Request::Arrivals { flow }, _) => Reply::Arrivals {
                    flow,
                    ranges: Vec::new(),
                },
                (Request::Finish, _) => Reply::Finished,
            };
            stream.write_all(&channel.frames(&reply)).ok()?;
        }
    }

    fn data(&self, mut stream: TcpStream, client: &ClientHello) -> Option<()> {
        if let Lie::Data(lie) = self.lie {
            return self.send(&mut stream, &lie());
        }
        let theirs = client.encode();
        let ours = proceed([7; SECOND_BYTES]);
        stream.write_all(&ours).ok()?;
        stream.read_exact(&mut [0; hello::DATA_PROOF_BYTES]).ok()?;
        if let Lie::DataAnswer(lie) = self.lie {
            return self.send(&mut stream, &lie());
        }
        let key = *self.key.lock().unwrap();
        let proof = auth::prove(&key, Role::Responder, &theirs, &ours);
        stream.write_all(&[&[0], &proof[..]].concat()).ok()?;
        read_to_the_end(&mut stream);
        Some(())
    }

    /// Sends the bytes of the lie.
    fn send(&self, stream: &mut TcpStream, bytes: &[u8]) -> Option<()> {
        match self.then {
            Then::Close => stream.write_all(bytes).ok(),
            Then::Wait => {
                // The client may leave before it has read all.
                let _ = stream.write_all(bytes);
                read_to_the_end(stream);
                Some(())
            }
            Then::Drip => {
                for byte in bytes {
                    stream.write_all(&[*byte]).ok()?;
                    thread::sleep(Duration::from_secs(2));
                }
                Some(())
            }
        }
    }
}

pub fn proceed(opening: [u8; SECOND_BYTES]) -> [u8; RESPONDER_HELLO_BYTES] {
    let greeting = Greeting::Proceed;
    ResponderHello { greeting, opening }.encode()
}

fn read_to_the_end(stream: &mut TcpStream) {
    let mut chunk = [0; 16 << 10];
    while stream.read(&mut chunk).is_ok_and(|count| count > 0) {}
}
