//! The opening of a connection: its SYNs, what they offer, and what the handshake negotiated.

use whydrop_capture::{TcpFlags, TcpSegment};

use super::State;
use crate::ecn::{AceCounter, Ecn};
use crate::signs::{EcnWithdrawn, Offer};
use crate::timestamp_clock::Reading;
use crate::vantage;

/// The window of a path with 1 Gbit/s and 1 s, or an equally large hole in the capture: no acknowledgment advances
/// further at once.
const LARGEST_STEP_BYTES: i64 = 1 << 27;

/// The SYN of one endpoint, and the state needed before data flows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Opening {
    /// Sequence number of the SYN.
    pub(super) syn: Option<u32>,
    pub(super) offer: Option<Offer>,
    pub(super) timestamps: bool,
    /// Timestamp in the latest SYN.
    pub(super) ticks: u32,
    pub(super) flags: TcpFlags,
    pub(super) syns: u32,
    pub(super) first_syn_ns: i64,
    pub(super) last_syn_ns: i64,
    pub(super) ttl: Option<u8>,
    /// Least and largest TTL of all packets except resets.
    pub(super) ttls: Option<(u8, u8)>,
    /// Identification in the latest packet that is no reset.
    pub(super) identification: Option<u16>,
    pub(super) window: u16,
    /// Number in the latest packet with ACK.
    pub(super) acknowledgment: u32,
    /// A packet with ACK was captured, and this many bytes were acknowledged by later ones.
    pub(super) acknowledges: bool,
    pub(super) acknowledged_bytes: u64,
    pub(super) packets: u32,
    pub(super) ip_bytes: u64,
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
    /// When its first FIN passed.
    pub(super) finished_ns: Option<i64>,
}

impl Opening {
    /// Its sender's clock when the latest SYN left.
    pub(super) fn clock(&self) -> Option<Reading> {
        self.syn.filter(|_| self.timestamps).map(|_| Reading {
            time_ns: self.last_syn_ns,
            ticks: self.ticks,
        })
    }

    pub(super) fn acknowledge(&mut self, acknowledgment: u32, is_reset: bool) {
        if self.acknowledges && !is_reset {
            let more = i64::from(acknowledgment.wrapping_sub(self.acknowledgment) as i32);
            // a larger step is damaged or forged
            if (1..=LARGEST_STEP_BYTES).contains(&more) {
                self.acknowledged_bytes += more as u64;
            }
        }
        self.acknowledgment = acknowledgment;
        self.acknowledges |= !is_reset;
    }
}

impl State {
    /// Registers a SYN of this direction.
    pub(super) fn take_syn(
        &mut self,
        direction: usize,
        time_ns: i64,
        packet: u64,
        tcp: &TcpSegment,
    ) {
        let opening = &mut self.opening[direction];
        if opening.syns == 0 {
            opening.first_syn_ns = time_ns;
        }
        let before = (opening.syns > 0).then_some(opening.flags);
        opening.syns = opening.syns.saturating_add(1);
        opening.last_syn_ns = time_ns;
        opening.flags = tcp.flags;
        opening.syn = Some(tcp.sequence);
        opening.offer = Some(Offer::of(tcp, packet));
        opening.timestamps = tcp.options.timestamps.is_some();
        opening.ticks = tcp.options.timestamps.map_or(0, |(value, _)| value);
        // a retransmitted SYN invalidates the time of the first: keep the last one before the answer
        if tcp.flags.has(TcpFlags::ACK) {
            self.handshake.syn_ack_ns = Some(time_ns);
            if self.halves.is_some() {
                self.agree_on_ecn(); // data came with the SYN (RFC 7413)
            }
        } else if self.handshake.syn_ack_ns.is_none() {
            self.handshake.syn_ns = Some(time_ns);
            if before.is_some_and(offers_ecn) && !offers_ecn(tcp.flags) {
                let signs = self.signs.get_or_insert_default();
                signs.ecn_withdrawn.get_or_insert(EcnWithdrawn {
                    after: self.opening[direction].syns - 1,
                    time_ns,
                    packet,
                });
            }
        }
    }

    /// Round-trip times to the initiator and to the responder.
    pub(super) fn near_rtts_ns(&self) -> Option<(i64, i64)> {
        vantage::near_rtts(&self.handshake, self.opening[1].first_syn_ns)
    }

    pub(super) fn offers(&self) -> [Option<Offer>; 2] {
        [self.opening[0].offer, self.opening[1].offer]
    }

    pub(super) fn agree_on_ecn(&mut self) {
        let ecn = self.ecn();
        for half in self.halves.iter_mut().flat_map(|halves| halves.iter_mut()) {
            half.flow.ecn = ecn;
            if ecn == Ecn::Accurate {
                half.ace = AceCounter::from_handshake();
            }
        }
    }

    /// The kind of ECN that the handshake negotiated.
    fn ecn(&self) -> Ecn {
        let [syn, syn_ack] = &self.opening;
        let offered = syn.syn.map(|_| Ecn::offered(syn.flags));
        match (offered, syn_ack.syn) {
            (Some(Ecn::Off), _) => Ecn::Off,
            (_, None) => Ecn::Unknown,
            (offered, Some(_)) => Ecn::agreed(offered, syn_ack.flags),
        }
    }
}

/// True if a SYN offers ECN with ECE and CWR (RFC 3168, section 6.1.1).
fn offers_ecn(flags: TcpFlags) -> bool {
    flags.has(TcpFlags::ECE) && flags.has(TcpFlags::CWR)
}
