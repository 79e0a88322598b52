//! The wire format: one header for all packets, in the payload of a UDP datagram.
//!
//! Integers are big-endian. Padding follows the header up to the requested size. It is pseudo-random, because
//! middleboxes compress zeros; it is neither authenticated nor read.
//!
//! | bytes | field |
//! |---|---|
//! | 0–1 | magic: 0x77 0xd1; another version has another magic |
//! | 2 | kind, see below |
//! | 3 | in an answer: the traffic class (differentiated services code point and ECN) that the request arrived with; else 0 |
//! | 4–7 | flow: its number in the recording; 0xffffffff for exchanges of stamps that belong to no flow |
//! | 8–15 | token: identifies the session |
//! | 16–23 | sequence: of the packet in its flow, counted from 0 over packets due (probes) or sent (streams, bursts) |
//! | 24–31 | the sender's clock when it was sent, nanoseconds since the Unix epoch; an answer repeats the request's |
//! | 32–55 | body, by kind; unused bytes are 0 |
//! | 56–63 | the first 8 bytes of HMAC-SHA256 (RFC 2104) with the session's key over bytes 2–55 |
//!
//! The 54 authenticated bytes fit into one block of SHA-256: that halves what a packet costs.
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
//! | 11 finish | sender of a stream or of bursts | 32–35 bursts sent; the sequence is the number of packets sent |
//! | 12 finished | receiver of them | the same |
//!
//! An answer, a challenge, an acceptance, a refusal and a `finished` are as long as the packets that they answer, never
//! longer. Packets with a wrong magic, an unknown token or a wrong code are not answered.
//!
//! A flow down (streams, bursts) starts only when the client has proved that it receives at its address: hello,
//! challenge, proof. Proofs, each with a higher sequence, then keep it alive. A `finish` is repeated until a `finished`
//! arrives.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Length of the header, and of the smallest packet.
pub(crate) const HEADER_BYTES: usize = 64;

/// The largest UDP payload that IPv4 can carry.
pub(crate) const MAX_BYTES: usize = 65_507;

/// How many sequence numbers an answer covers.
pub(crate) const WINDOW: u64 = 64;

const MAGIC: [u8; 2] = [0x77, 0xd1];
const AUTHENTICATED: std::ops::Range<usize> = 2..56;
const CODE: std::ops::Range<usize> = 56..64;

/// The nonce with which a responder verifies addresses.
pub(crate) type Nonce = [u8; 16];

/// The key of a session, ready to use.
#[derive(Clone)]
pub(crate) struct Key(Hmac<Sha256>);

impl Key {
    pub(crate) fn new(key: &[u8; 32]) -> Key {
        Key(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
    }

    fn code(&self, header: &[u8]) -> Hmac<Sha256> {
        let mut code = self.0.clone();
        code.update(&header[AUTHENTICATED]);
        code
    }
}

/// One packet's header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Packet {
    pub flow: u32,
    pub token: u64,
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
    Finish { bursts: u32 },
    Finished { bursts: u32 },
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
    /// Parses the header of a datagram and checks its authentication code.
    pub(crate) fn open(datagram: &[u8], key: &Key) -> Result<Packet, Garbage> {
        let token = claimed_token(datagram)?;
        let header = &datagram[..HEADER_BYTES];
        key.code(header)
            .verify_truncated_left(&header[CODE])
            .map_err(|_| Garbage::Code)?;
        Ok(Packet {
            flow: u32::from_be_bytes(field(header, 4)),
            token,
            sequence: u64::from_be_bytes(field(header, 16)),
            sent_ns: i64::from_be_bytes(field(header, 24)),
            body: Body::read(header).ok_or(Garbage::Kind)?,
        })
    }

    /// Writes the header to the start of `datagram`, which must have room for it.
    pub(crate) fn write(&self, datagram: &mut [u8], key: &Key) {
        let header = &mut datagram[..HEADER_BYTES];
        header.fill(0);
        header[..2].copy_from_slice(&MAGIC);
        header[4..8].copy_from_slice(&self.flow.to_be_bytes());
        header[8..16].copy_from_slice(&self.token.to_be_bytes());
        header[16..24].copy_from_slice(&self.sequence.to_be_bytes());
        header[24..32].copy_from_slice(&self.sent_ns.to_be_bytes());
        self.body.write(header);
        let code = key.code(header).finalize().into_bytes();
        header[CODE].copy_from_slice(&code[..8]);
    }

    /// Encodes the header as a packet without padding.
    pub(crate) fn bytes(&self, key: &Key) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        self.write(&mut bytes, key);
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
            11 => Body::Finish {
                bursts: u32::from_be_bytes(field(header, 32)),
            },
            12 => Body::Finished {
                bursts: u32::from_be_bytes(field(header, 32)),
            },
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
            Body::Finish { bursts } | Body::Finished { bursts } => put(32, &bursts.to_be_bytes()),
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
            Body::Finish { .. } => 11,
            Body::Finished { .. } => 12,
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

    fn key() -> Key {
        Key::new(&[7; 32])
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
            any::<u32>().prop_map(|bursts| Body::Finish { bursts }),
            any::<u32>().prop_map(|bursts| Body::Finished { bursts }),
        ]
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_again(body in body(), numbers in any::<(u32, u64, u64, i64)>(), padding in 0_usize..99) {
            let packet = Packet { flow: numbers.0, token: numbers.1, sequence: numbers.2, sent_ns: numbers.3, body };
            let mut datagram = vec![0xa5; HEADER_BYTES + padding];
            packet.write(&mut datagram, &key());
            prop_assert_eq!(claimed_token(&datagram), Ok(packet.token));
            prop_assert_eq!(Packet::open(&datagram, &key()), Ok(packet));
            prop_assert_eq!(Packet::open(&datagram, &Key::new(&[8; 32])), Err(Garbage::Code));
        }

        #[test]
        fn garbage_is_refused_without_a_panic(datagram in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Packet::open(&datagram, &key()).is_err());
        }

        #[test]
        fn a_packet_that_was_changed_in_any_authenticated_bit_is_refused(body in body(), bit in 0_usize..HEADER_BYTES * 8) {
            let packet = Packet { flow: 1, token: 2, sequence: 3, sent_ns: 4, body };
            let mut bytes = packet.bytes(&key());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Packet::open(&bytes, &key()).is_err());
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
            token: 0x5152_5354_5556_5758,
            sequence: 0x6162_6364_6566_6768,
            sent_ns: 0x7172_7374_7576_7778,
            body: Body::Answer(answer),
        };
        let bytes = packet.bytes(&key());
        assert_eq!(bytes[..4], [0x77, 0xd1, 2, 0xb8]);
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
        let mut code = Hmac::<Sha256>::new_from_slice(&[7; 32]).unwrap();
        code.update(&bytes[2..56]);
        assert_eq!(bytes[56..], code.finalize().into_bytes()[..8]);
    }
}
