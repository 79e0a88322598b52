//! Processes any bytes as TCP input of a responder and its client: hellos, frames, messages, and arbitrary plans.

#![no_main]

use libfuzzer_sys::fuzz_target;
use whydrop_traffic::channel::{End, frame, open_frame};
use whydrop_traffic::hello::{
    self, CLIENT_HELLO_BYTES, ClientHello, RESPONDER_HELLO_BYTES, ResponderHello,
};
use whydrop_traffic::message::{Reply, Request};
use whydrop_traffic::responder::Limits;

const KEY: [u8; 32] = [7; 32];
const LONGEST: usize = 4096;

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
        assert_eq!(ClientHello::decode(&hello.encode()), Ok(hello));
    }
    if let Some(bytes) = bytes.first_chunk::<RESPONDER_HELLO_BYTES>()
        && let Ok(hello) = ResponderHello::decode(bytes)
    {
        assert!(is_ours);
        assert_eq!(ResponderHello::decode(&hello.encode()), Ok(hello));
    }
}

fn hear_frame(bytes: &[u8]) {
    // A frame's authentication code is not found by chance.
    assert!(!matches!(
        open_frame(bytes, &KEY, End::Client, 0, LONGEST),
        Ok(Some(_))
    ));
    let payload = &bytes[..bytes.len().min(LONGEST)];
    let mut sealed = frame(&KEY, End::Client, 3, payload).expect("it is short enough");
    let open = |sealed: &[u8], end, number| {
        open_frame(sealed, &KEY, end, number, LONGEST)
            .map(|payload| payload.map(<[u8]>::to_vec))
            .ok()
            .flatten()
    };
    assert_eq!(open(&sealed, End::Client, 3).as_deref(), Some(payload));
    assert_eq!(open(&sealed, End::Client, 4), None);
    assert_eq!(open(&sealed, End::Responder, 3), None);
    let cut = sealed.len() - 1;
    assert_eq!(open(&sealed[..cut], End::Client, 3), None);
    sealed[4 + payload.len() / 2] ^= 1;
    assert_eq!(open(&sealed, End::Client, 3), None);
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
