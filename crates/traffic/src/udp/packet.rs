//! The wire format: one header for all packets, in the payload of a UDP datagram.
//!
//! Integers are big-endian. Padding follows the header up to the requested size. It is pseudo-random, because
//! middleboxes compress zeros. Its contents are neither read nor authenticated; its length is authenticated.
//!
//! | bytes | field |
//! |---|---|
//! | 0–1 | magic: 0x77 0xd2; another version has another magic |
//! | 2 | kind, see below |
//! | 3 | in an answer: the traffic class (differentiated services code point and ECN) that the request arrived with; else 0 |
//! | 4–7 | flow: its number in the recording; 0xffffffff for exchanges of stamps that belong to no flow |
//! | 8–15 | token: identifies the session |
//! | 16–23 | sequence: of the packet in its flow, counted from 0 over packets due (probes) or sent (streams, bursts); of a request: counted from 0 over the flow's requests; an answer repeats its request's |
//! | 24–31 | the sender's clock when it was sent, nanoseconds since the Unix epoch; an answer repeats the request's |
//! | 32–55 | body, by kind; unused bytes are 0 |
//! | 56–63 | the authentication code |
//!
//! | kind | from | body |
//! |---|---|---|
//! | 1 probe | client | – |
//! | 2 answer | responder | 32–39 its clock at arrival, 40–43 how long the responder took to answer (ns), 44–47 distinct probes of this flow that arrived so far (modulo 2^32), 48–55 bit *i* is set: the probe with a sequence lower by *i* has arrived |
//! | 3 stream | either | – |
//! | 4 burst | either | 32–35 burst, 36–39 index of the packet in it, 40–43 packets in the burst |
//! | 5 hello | client | – |
//! | 6 challenge | responder | 32–47 nonce |
//! | 7 proof | client | 32–47 the nonce again, 48–55 nanoseconds until the flow shall start |
//! | 8 accepted | responder | – |
//! | 9 refused | responder | 32 reason (1 rate, 2 packet size, 3 no such flow), 48–55 the limit |
//! | 10 leave | client | 32–47 the nonce again |
//! | 11 finish | sender of a stream or of bursts | 32–35 bursts sent, 36–43 packets sent |
//! | 12 finished | receiver of them | the same |
//!
//! **Authentication.** The code is the first 8 bytes of HMAC-SHA256 (RFC 2104) over bytes 2–7, bytes 16–55 and the
//! datagram's length as two bytes. Each direction has a key of its own: the first block of HKDF-Expand (RFC 5869) from
//! the session's key, with the direction's name and the token as `info`. So no packet is valid in another session, in
//! the other direction, or with a padding of another length. The token itself need not be hashed again. The 48
//! authenticated bytes fit into one block of SHA-256: that halves what a packet costs.
//!
//! **Replays.** Probes, streams and bursts carry each sequence once; the receiver keeps a window of sequences and only
//! counts further copies. Requests are hello, proof, leave, finish and finished; each attempt has a new sequence, and the
//! responder ignores one that is not higher than the last. Copies are not answered, change no measurement, and use
//! nothing of a limit.
//!
//! An answer, a challenge, an acceptance, a refusal and a `finished` are as long as the packets that they answer, never
//! longer. Packets with a wrong magic, an unknown token or a wrong code are not answered.
//!
//! A flow down (streams, bursts) starts only when the client has proved that it receives at its address: hello,
//! challenge, proof. Further proofs then keep it alive. A `finish` is repeated until a `finished` arrives.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Length of the header, and of the smallest packet.
pub(crate) const HEADER_BYTES: usize = 64;

/// The largest UDP payload that IPv4 can carry.
pub(crate) const MAX_BYTES: usize = 65_507;

/// How many sequence numbers an answer covers.
pub(crate) const WINDOW: u64 = 64;

const MAGIC: [u8; 2] = [0x77, 0xd2];
/// The authenticated bytes before and after the token.
const BEFORE_TOKEN: std::ops::Range<usize> = 2..8;
const AFTER_TOKEN: std::ops::Range<usize> = 16..56;
const AUTHENTICATED_BYTES: usize = 48;
const CODE: std::ops::Range<usize> = 56..64;
/// A block of SHA-256 has 64 bytes, of which the end mark and the length take 9.
const _: () = assert!(AUTHENTICATED_BYTES <= 55);
const FROM_CLIENT: &[u8] = b"whydrop UDP, client to responder";
const FROM_RESPONDER: &[u8] = b"whydrop UDP, responder to client";

/// The nonce with which a responder verifies addresses.
pub(crate) type Nonce = [u8; 16];

/// The keys of a session at one of its ends, ready to use.
#[derive(Clone)]
pub(crate) struct Keys {
    token: u64,
    /// For the packets that this end sends.
    own: Hmac<Sha256>,
    /// For the packets that it receives.
    peer: Hmac<Sha256>,
}

impl Keys {
    pub(crate) fn of_client(key: &[u8; 32], token: u64) -> Keys {
        Keys {
            token,
            own: derived(key, FROM_CLIENT, token),
            peer: derived(key, FROM_RESPONDER, token),
        }
    }

    pub(crate) fn of_responder(key: &[u8; 32], token: u64) -> Keys {
        Keys {
            token,
            own: derived(key, FROM_RESPONDER, token),
            peer: derived(key, FROM_CLIENT, token),
        }
    }
}

/// Derives the key of one direction: HKDF-Expand (RFC 5869 section 2.3) of one block. The session's key is random, so
/// the step that extracts randomness is not needed.
fn derived(key: &[u8; 32], direction: &[u8], token: u64) -> Hmac<Sha256> {
    let mut block = keyed(key);
    block.update(direction);
    block.update(&token.to_be_bytes());
    block.update(&[1]);
    keyed(&block.finalize().into_bytes())
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// The authentication code of a header at the start of a datagram of `length` bytes.
fn code(key: &Hmac<Sha256>, header: &[u8], length: usize) -> Hmac<Sha256> {
    let (before, after) = (BEFORE_TOKEN.len(), AFTER_TOKEN.len());
    // Collected first: several short updates cost more than one.
    let mut authenticated = [0; AUTHENTICATED_BYTES];
    authenticated[..before].copy_from_slice(&header[BEFORE_TOKEN]);
    authenticated[before..before + after].copy_from_slice(&header[AFTER_TOKEN]);
    // No UDP payload is longer.
    authenticated[before + after..].copy_from_slice(&(length as u16).to_be_bytes());
    let mut code = key.clone();
    code.update(&authenticated);
    code
}

/// One packet's header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Packet {
    pub flow: u32,
    pub sequence: u64,
    pub sent_ns: i64,
    pub body: Body,
}

/// Kinds of packets, each with its body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Body {
    Probe,
    Answer(Answer),
    Stream,
    Burst(BurstPlace),
    Hello,
    Challenge(Nonce),
    Proof { nonce: Nonce, start_in_ns: u64 },
    Accepted,
    Refused(Refusal),
    Leave(Nonce),
    Finish(Total),
    Finished(Total),
}

/// The responder's answer to a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub traffic_class: u8,
    pub far_received_ns: i64,
    pub turnaround_ns: u32,
    /// Distinct probes that arrived so far, modulo 2^32.
    pub arrived: u32,
    /// Bit `i`: the probe with a sequence number lower by `i` has arrived.
    pub window: u64,
}

/// The position of a packet in its burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BurstPlace {
    pub burst: u32,
    pub place: u32,
    pub packets: u32,
}

/// The numbers of packets and bursts that a sender sent in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub packets: u64,
    pub bursts: u32,
}

/// Why the responder refuses to send a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The session's flows down would exceed this rate in bit/s.
    Rate(u64),
    /// Packets may have at most this many bytes.
    PacketSize(u64),
    /// The responder has no such flow to send.
    NoSuchFlow,
}

/// Why a datagram is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Garbage {
    Short,
    Magic,
    /// Of another session.
    Token,
    Code,
    Kind,
}

/// Parses the session that a datagram claims to belong to, without authentication.
pub(crate) fn claimed_token(datagram: &[u8]) -> Result<u64, Garbage> {
    if datagram.len() < HEADER_BYTES {
        return Err(Garbage::Short);
    }
    if datagram[..2] != MAGIC {
        return Err(Garbage::Magic);
    }
    Ok(u64::from_be_bytes(field(datagram, 8)))
}

impl Packet {
    /// Parses the header at the start of a datagram of `length` bytes from the other end and checks its authentication
    /// code.
    pub(crate) fn open(bytes: &[u8], length: usize, keys: &Keys) -> Result<Packet, Garbage> {
        Packet::checked(bytes, length, keys.token, &keys.peer)
    }

    /// The same for a packet that this end sent.
    pub(crate) fn open_own(bytes: &[u8], length: usize, keys: &Keys) -> Result<Packet, Garbage> {
        Packet::checked(bytes, length, keys.token, &keys.own)
    }

    fn checked(
        bytes: &[u8],
        length: usize,
        token: u64,
        key: &Hmac<Sha256>,
    ) -> Result<Packet, Garbage> {
        if claimed_token(bytes)? != token {
            return Err(Garbage::Token);
        }
        let header = &bytes[..HEADER_BYTES];
        code(key, header, length)
            .verify_truncated_left(&header[CODE])
            .map_err(|_| Garbage::Code)?;
        Ok(Packet {
            flow: u32::from_be_bytes(field(header, 4)),
            sequence: u64::from_be_bytes(field(header, 16)),
            sent_ns: i64::from_be_bytes(field(header, 24)),
            body: Body::read(header).ok_or(Garbage::Kind)?,
        })
    }

    /// Writes the header to the start of a whole datagram, which must have room for it.
    pub(crate) fn write(&self, datagram: &mut [u8], keys: &Keys) {
        let length = datagram.len();
        let header = &mut datagram[..HEADER_BYTES];
        header.fill(0);
        header[..2].copy_from_slice(&MAGIC);
        header[4..8].copy_from_slice(&self.flow.to_be_bytes());
        header[8..16].copy_from_slice(&keys.token.to_be_bytes());
        header[16..24].copy_from_slice(&self.sequence.to_be_bytes());
        header[24..32].copy_from_slice(&self.sent_ns.to_be_bytes());
        self.body.write(header);
        let code = code(&keys.own, header, length).finalize().into_bytes();
        header[CODE].copy_from_slice(&code[..8]);
    }

    /// Encodes the header as a packet without padding.
    pub(crate) fn bytes(&self, keys: &Keys) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        self.write(&mut bytes, keys);
        bytes
    }
}

impl Body {
    fn read(header: &[u8]) -> Option<Body> {
        Some(match header[2] {
            1 => Body::Probe,
            2 => Body::Answer(Answer {
                traffic_class: header[3],
                far_received_ns: i64::from_be_bytes(field(header, 32)),
                turnaround_ns: u32::from_be_bytes(field(header, 40)),
                arrived: u32::from_be_bytes(field(header, 44)),
                window: u64::from_be_bytes(field(header, 48)),
            }),
            3 => Body::Stream,
            4 => Body::Burst(BurstPlace {
                burst: u32::from_be_bytes(field(header, 32)),
                place: u32::from_be_bytes(field(header, 36)),
                packets: u32::from_be_bytes(field(header, 40)),
            }),
            5 => Body::Hello,
            6 => Body::Challenge(field(header, 32)),
            7 => Body::Proof {
                nonce: field(header, 32),
                start_in_ns: u64::from_be_bytes(field(header, 48)),
            },
            8 => Body::Accepted,
            9 => Body::Refused(Refusal::read(
                header[32],
                u64::from_be_bytes(field(header, 48)),
            )?),
            10 => Body::Leave(field(header, 32)),
            11 => Body::Finish(Total::read(header)),
            12 => Body::Finished(Total::read(header)),
            _ => return None,
        })
    }

    fn write(&self, header: &mut [u8]) {
        header[2] = self.kind();
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        match self {
            Body::Probe | Body::Stream | Body::Hello | Body::Accepted => {}
            Body::Answer(answer) => {
                put(3, &[answer.traffic_class]);
                put(32, &answer.far_received_ns.to_be_bytes());
                put(40, &answer.turnaround_ns.to_be_bytes());
                put(44, &answer.arrived.to_be_bytes());
                put(48, &answer.window.to_be_bytes());
            }
            Body::Burst(place) => {
                put(32, &place.burst.to_be_bytes());
                put(36, &place.place.to_be_bytes());
                put(40, &place.packets.to_be_bytes());
            }
            Body::Challenge(nonce) | Body::Leave(nonce) => put(32, nonce),
            Body::Proof { nonce, start_in_ns } => {
                put(32, nonce);
                put(48, &start_in_ns.to_be_bytes());
            }
            Body::Refused(refusal) => {
                let (why, allowed) = refusal.code();
                put(32, &[why]);
                put(48, &allowed.to_be_bytes());
            }
            Body::Finish(total) | Body::Finished(total) => {
                put(32, &total.bursts.to_be_bytes());
                put(36, &total.packets.to_be_bytes());
            }
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Body::Probe => 1,
            Body::Answer(_) => 2,
            Body::Stream => 3,
            Body::Burst(_) => 4,
            Body::Hello => 5,
            Body::Challenge(_) => 6,
            Body::Proof { .. } => 7,
            Body::Accepted => 8,
            Body::Refused(_) => 9,
            Body::Leave(_) => 10,
            Body::Finish(_) => 11,
            Body::Finished(_) => 12,
        }
    }
}

impl Total {
    fn read(header: &[u8]) -> Total {
        Total {
            bursts: u32::from_be_bytes(field(header, 32)),
            packets: u64::from_be_bytes(field(header, 36)),
        }
    }
}

impl Refusal {
    fn read(why: u8, allowed: u64) -> Option<Refusal> {
        match why {
            1 => Some(Refusal::Rate(allowed)),
            2 => Some(Refusal::PacketSize(allowed)),
            3 => Some(Refusal::NoSuchFlow),
            _ => None,
        }
    }

    fn code(self) -> (u8, u64) {
        match self {
            Refusal::Rate(allowed) => (1, allowed),
            Refusal::PacketSize(allowed) => (2, allowed),
            Refusal::NoSuchFlow => (3, 0),
        }
    }
}

/// The `N` bytes at `at`; the caller ensures that they exist.
fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TOKEN: u64 = 0x5152_5354_5556_5758;

    fn client() -> Keys {
        Keys::of_client(&[7; 32], TOKEN)
    }

    fn responder() -> Keys {
        Keys::of_responder(&[7; 32], TOKEN)
    }

    fn total() -> impl Strategy<Value = Total> {
        any::<(u64, u32)>().prop_map(|(packets, bursts)| Total { packets, bursts })
    }

    fn body() -> impl Strategy<Value = Body> {
        let answer = any::<(u8, i64, u32, u32, u64)>().prop_map(|fields| {
            Body::Answer(Answer {
                traffic_class: fields.0,
                far_received_ns: fields.1,
                turnaround_ns: fields.2,
                arrived: fields.3,
                window: fields.4,
            })
        });
        let place = any::<(u32, u32, u32)>().prop_map(|(burst, place, packets)| {
            Body::Burst(BurstPlace {
                burst,
                place,
                packets,
            })
        });
        prop_oneof![
            Just(Body::Probe),
            answer,
            Just(Body::Stream),
            place,
            Just(Body::Hello),
            any::<Nonce>().prop_map(Body::Challenge),
            any::<(Nonce, u64)>()
                .prop_map(|(nonce, start_in_ns)| Body::Proof { nonce, start_in_ns }),
            Just(Body::Accepted),
            any::<u64>().prop_map(|allowed| Body::Refused(Refusal::Rate(allowed))),
            any::<u64>().prop_map(|allowed| Body::Refused(Refusal::PacketSize(allowed))),
            Just(Body::Refused(Refusal::NoSuchFlow)),
            any::<Nonce>().prop_map(Body::Leave),
            total().prop_map(Body::Finish),
            total().prop_map(Body::Finished),
        ]
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_again(body in body(), numbers in any::<(u32, u64, i64)>(), padding in 0_usize..99) {
            let packet = Packet { flow: numbers.0, sequence: numbers.1, sent_ns: numbers.2, body };
            let mut datagram = vec![0xa5; HEADER_BYTES + padding];
            for (near, far) in [(client(), responder()), (responder(), client())] {
                packet.write(&mut datagram, &near);
                prop_assert_eq!(claimed_token(&datagram), Ok(TOKEN));
                prop_assert_eq!(Packet::open(&datagram, datagram.len(), &far), Ok(packet));
                prop_assert_eq!(Packet::open_own(&datagram, datagram.len(), &near), Ok(packet));
            }
        }

        #[test]
        fn a_packet_is_valid_in_its_session_and_direction_and_with_its_length_only(
            body in body(), padding in 0_usize..99, other in 0_usize..MAX_BYTES,
        ) {
            let packet = Packet { flow: 1, sequence: 3, sent_ns: 4, body };
            let mut datagram = vec![0xa5; HEADER_BYTES + padding];
            packet.write(&mut datagram, &client());
            let opened = |keys: &Keys, length| Packet::open(&datagram, length, keys);
            prop_assert_eq!(opened(&responder(), datagram.len()), Ok(packet));
            prop_assert_eq!(opened(&client(), datagram.len()), Err(Garbage::Code));
            let key = Keys::of_responder(&[8; 32], TOKEN);
            prop_assert_eq!(opened(&key, datagram.len()), Err(Garbage::Code));
            let session = Keys::of_responder(&[7; 32], TOKEN + 1);
            prop_assert_eq!(opened(&session, datagram.len()), Err(Garbage::Token));
            if other != datagram.len() {
                prop_assert_eq!(opened(&responder(), other), Err(Garbage::Code));
            }
        }

        #[test]
        fn a_packet_moved_into_another_session_with_the_same_key_is_refused(body in body()) {
            let packet = Packet { flow: 1, sequence: 3, sent_ns: 4, body };
            let mut bytes = packet.bytes(&client());
            bytes[8..16].copy_from_slice(&(TOKEN + 1).to_be_bytes());
            let other = Keys::of_responder(&[7; 32], TOKEN + 1);
            prop_assert_eq!(Packet::open(&bytes, HEADER_BYTES, &other), Err(Garbage::Code));
        }

        #[test]
        fn garbage_is_refused_without_a_panic(datagram in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Packet::open(&datagram, datagram.len(), &client()).is_err());
        }

        #[test]
        fn a_packet_with_any_changed_bit_of_its_header_is_refused(body in body(), bit in 0_usize..HEADER_BYTES * 8) {
            let packet = Packet { flow: 1, sequence: 3, sent_ns: 4, body };
            let mut bytes = packet.bytes(&client());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Packet::open(&bytes, HEADER_BYTES, &responder()).is_err());
        }
    }

    #[test]
    fn an_answer_is_laid_out_byte_by_byte_as_the_table_says() {
        let answer = Answer {
            traffic_class: 0xb8,
            far_received_ns: 0x0102_0304_0506_0708,
            turnaround_ns: 0x1112_1314,
            arrived: 0x2122_2324,
            window: 0x3132_3334_3536_3738,
        };
        let packet = Packet {
            flow: 0x4142_4344,
            sequence: 0x6162_6364_6566_6768,
            sent_ns: 0x7172_7374_7576_7778,
            body: Body::Answer(answer),
        };
        let bytes = packet.bytes(&responder());
        assert_eq!(bytes[..4], [0x77, 0xd2, 2, 0xb8]);
        assert_eq!(bytes[4..8], [0x41, 0x42, 0x43, 0x44]);
        assert_eq!(
            (
                bytes[8], bytes[15], bytes[16], bytes[23], bytes[24], bytes[31]
            ),
            (0x51, 0x58, 0x61, 0x68, 0x71, 0x78)
        );
        assert_eq!(
            (
                bytes[32], bytes[39], bytes[40], bytes[43], bytes[44], bytes[47]
            ),
            (0x01, 0x08, 0x11, 0x14, 0x21, 0x24)
        );
        assert_eq!((bytes[48], bytes[55]), (0x31, 0x38));
        let mut block = keyed(&[7; 32]);
        block.update(b"whydrop UDP, responder to client\x51\x52\x53\x54\x55\x56\x57\x58\x01");
        let mut code = keyed(&block.finalize().into_bytes());
        code.update(&[&bytes[2..8], &bytes[16..56], &[0, 64]].concat());
        assert_eq!(bytes[56..], code.finalize().into_bytes()[..8]);
    }
}
