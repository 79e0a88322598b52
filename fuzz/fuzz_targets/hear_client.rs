//! Processes any bytes as TCP input of a responder and its client: hellos, frames, messages, and arbitrary plans.

#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use whydrop_traffic::frames::{Opener, Sealer};
use whydrop_traffic::hello::{
    self, BOUND_BYTES, CLIENT_HELLO_BYTES, ClientHello, RESPONDER_HELLO_BYTES, ResponderHello,
};
use whydrop_traffic::message::{Reply, Request};
use whydrop_traffic::noise::{self, Cipher};
use whydrop_traffic::responder::Limits;

const LONGEST: usize = 4096;

/// The ciphers of a channel: the client's, the responder's.
static CHANNEL: LazyLock<(Arc<Cipher>, Arc<Cipher>)> = LazyLock::new(|| {
    let (begun, first) = noise::begin(b"fuzz", None);
    let (second, responder) = noise::respond(b"fuzz", None, &first).expect("it is valid");
    let client = begun.finish(&second).expect("it is valid");
    (Arc::new(client), Arc::new(responder))
});

fuzz_target!(|bytes: &[u8]| {
    hear_hello(bytes);
    hear_frame(bytes);
    hear_request(bytes);
    let _ = postcard::from_bytes::<Reply>(bytes);
});

fn hear_hello(bytes: &[u8]) {
    let is_ours = hello::check_magic(bytes).is_ok();
    if let Some(bytes) = bytes.first_chunk::<CLIENT_HELLO_BYTES>()
        && let Ok(hello) = ClientHello::decode(bytes)
    {
        assert!(is_ours);
        assert_eq!(&hello.encode(), bytes);
        let _ = noise::respond(&bytes[..BOUND_BYTES], None, &hello.opening);
    }
    if let Some(bytes) = bytes.first_chunk::<RESPONDER_HELLO_BYTES>()
        && let Ok(hello) = ResponderHello::decode(bytes)
    {
        assert!(is_ours);
        assert_eq!(ResponderHello::decode(&hello.encode()), Ok(hello));
        // A responder's proof is not found by chance.
        let (begun, _) = noise::begin(b"fuzz", None);
        assert!(begun.finish(&hello.opening).is_none());
    }
}

fn hear_frame(bytes: &[u8]) {
    let (client, responder) = &*CHANNEL;
    let open = |cipher: &Arc<Cipher>, bytes: &[u8]| {
        let mut opener = Opener::new(cipher.clone(), LONGEST);
        opener.add(bytes);
        opener.take().ok().flatten()
    };
    // A frame's authentication code is not found by chance.
    assert_eq!(open(responder, bytes), None);
    let payload = &bytes[..bytes.len().min(LONGEST)];
    let mut sealer = Sealer::new(client.clone());
    let mut sealed = sealer.seal(payload).expect("it is short enough");
    assert_eq!(open(responder, &sealed).as_deref(), Some(payload));
    assert_eq!(open(client, &sealed), None);
    assert_eq!(open(responder, &sealed[..sealed.len() - 1]), None);
    let second = sealer.seal(payload).expect("it is short enough");
    assert_eq!(open(responder, &second), None);
    let place = 2 + payload.len() / 2;
    sealed[place] ^= 1;
    assert_eq!(open(responder, &sealed), None);
}

fn hear_request(bytes: &[u8]) {
    let Ok(Request::Open { mut flows }) = postcard::from_bytes(bytes) else {
        return;
    };
    for flow in &mut flows {
        // The congestion controls of this host's kernel do not matter, and asking for them loads modules.
        flow.congestion_control = None;
    }
    let limits = Limits::open();
    if limits.admit(&mut flows).is_ok() {
        for flow in &flows {
            assert_eq!(flow.check(), Ok(()));
            assert!(flow.start_s + flow.duration_s.unwrap_or(0.0) <= limits.max_duration_s);
            assert!(flow.pacing_rate_bps.is_none_or(f64::is_finite));
        }
    }
}
