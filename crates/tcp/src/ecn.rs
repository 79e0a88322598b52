//! Explicit congestion notification: what a connection negotiated, and what its receivers report.
//!
//! Classic ECN (RFC 3168): a receiver sets ECE on every acknowledgment until the sender answers with CWR; the echoes
//! show that packets were marked, not how many. Accurate ECN (RFC 9768): AE, CWR and ECE are the low bits of a counter
//! of marked packets, and ECE alone has no meaning.

use whydrop_capture::TcpFlags;

/// The kind of ECN that both ends negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// The handshake was not captured.
    #[default]
    Unknown,
    /// Not offered, or refused.
    Off,
    /// RFC 3168.
    Classic,
    /// RFC 9768.
    Accurate,
}

impl Ecn {
    pub fn name(self) -> &'static str {
        match self {
            Ecn::Unknown => "unknown",
            Ecn::Off => "off",
            Ecn::Classic => "classic",
            Ecn::Accurate => "accurate",
        }
    }

    /// The offer of a SYN (RFC 9768, section 3.1.1; RFC 3168, section 6.1.1).
    pub(crate) fn offered(syn: TcpFlags) -> Self {
        match syn.ace() {
            0b111 => Ecn::Accurate,
            0b011 => Ecn::Classic,
            _ => Ecn::Off,
        }
    }

    /// The result of the negotiation from a SYN/ACK and the offer (RFC 9768, table 2). An offer that was not captured
    /// is inferred.
    pub(crate) fn agreed(offered: Option<Self>, syn_ack: TcpFlags) -> Self {
        match (offered, syn_ack.ace()) {
            (Some(Ecn::Accurate), 0b010 | 0b011 | 0b100 | 0b110) => Ecn::Accurate,
            // with the nonce bit (RFC 3540, historic) the classic part remains
            (Some(Ecn::Accurate | Ecn::Classic) | None, 0b001 | 0b101) => Ecn::Classic,
            (None, _) => Ecn::Unknown,
            _ => Ecn::Off,
        }
    }
}

/// Both counters start at this value (RFC 9768, section 3.2.1).
pub(crate) const INITIAL_ACE: u8 = 5;
/// The packet counter has three bits, the byte counters of the option have 24.
const ACE_MODULUS: u64 = 8;
const BYTES_MODULUS: u32 = 1 << 24;

/// The receiver's counters as last reported to the sender; `None` before the first report, if the handshake was not
/// captured.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AceCounter {
    pub packets: Option<u8>,
    bytes: Option<u32>,
    /// Packets delivered and packets marked, as reported so far.
    delivered: u64,
    marked: u64,
}

/// The congestion bits of an acknowledgment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EcnReport {
    pub flags: TcpFlags,
    pub ce_bytes: Option<u32>,
    /// The third packet of the handshake, which reports the marks of the SYN/ACK (RFC 9768, section 3.2.2.1).
    pub ends_handshake: bool,
}

impl AceCounter {
    pub fn from_handshake() -> Self {
        Self {
            packets: Some(INITIAL_ACE),
            bytes: Some(0),
            ..Self::default()
        }
    }

    /// Returns the packets marked since the last acknowledgment, if this one reports `delivered` packets, and the bytes
    /// marked by the option.
    ///
    /// A counter of three bits may have wrapped. Of its possible meanings, the nearest to the option's byte counters is
    /// taken, or else the nearest to the share of marks so far (the prevailing conditions of RFC 9768, section
    /// 3.2.2.5).
    pub fn advance(&mut self, report: EcnReport, delivered: u64, segment_bytes: f64) -> (u64, u64) {
        let ace = report.flags.ace();
        let before = self.packets.replace(ace);
        let bytes = report.ce_bytes.and_then(|bytes| self.more_bytes(bytes));
        let Some(before) = before else { return (0, 0) };
        let least = u64::from(ace.wrapping_sub(before)) % ACE_MODULUS;
        let share = self.marked as f64 / self.delivered.max(1) as f64;
        let expected = match bytes {
            Some(bytes) => f64::from(bytes) / segment_bytes,
            None => delivered as f64 * share,
        };
        let room = delivered.saturating_sub(least) / ACE_MODULUS;
        let wraps = ((expected - least as f64) / ACE_MODULUS as f64).round();
        let marked = least + ACE_MODULUS * (wraps.max(0.0) as u64).min(room);
        self.delivered += delivered;
        self.marked += marked;
        (marked, u64::from(bytes.unwrap_or(0)))
    }

    fn more_bytes(&mut self, now: u32) -> Option<u32> {
        let before = self.bytes.replace(now)?;
        let more = now.wrapping_sub(before) % BYTES_MODULUS;
        // less than before: acknowledgments were reordered
        (more < BYTES_MODULUS / 2).then_some(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(count: u64, ce_bytes: Option<u32>) -> EcnReport {
        EcnReport {
            flags: TcpFlags(((count % 8) << 6) as u16),
            ce_bytes,
            ends_handshake: false,
        }
    }

    /// Acknowledgments of `each` packets, of which `marked` are marked.
    fn counted(acknowledgments: u64, each: u64, marked: u64, with_option: bool) -> (u64, u64) {
        let mut counter = AceCounter::from_handshake();
        let mut sum = (0, 0);
        for number in 1..=acknowledgments {
            let bytes = (number * marked * 1000) as u32 % BYTES_MODULUS;
            let report = report(5 + number * marked, with_option.then_some(bytes));
            let (packets, bytes) = counter.advance(report, each, 1000.0);
            sum = (sum.0 + packets, sum.1 + bytes);
        }
        sum
    }

    #[test]
    fn the_counter_of_three_bits_runs_on_across_its_wrap() {
        assert_eq!(counted(1000, 2, 1, false), (1000, 0));
        assert_eq!(counted(1000, 2, 2, true), (2000, 2_000_000));
    }

    #[test]
    fn an_acknowledgment_of_many_packets_may_wrap_the_counter_and_the_bytes_decide() {
        assert_eq!(counted(1000, 40, 37, true), (37_000, 37_000_000));
    }

    #[test]
    fn without_bytes_no_more_is_counted_than_the_bits_show_unless_marks_prevail() {
        assert_eq!(counted(1000, 40, 3, false), (3000, 0));
    }

    #[test]
    fn an_offer_is_agreed_on_by_its_answer() {
        let bits = |ace: u16| TcpFlags(TcpFlags::SYN | ace << 6);
        assert_eq!(Ecn::offered(bits(0b111)), Ecn::Accurate);
        assert_eq!(Ecn::offered(bits(0b011)), Ecn::Classic);
        assert_eq!(Ecn::offered(bits(0)), Ecn::Off);
        let agreed = |offer, answer| Ecn::agreed(Some(offer), bits(answer));
        assert_eq!(agreed(Ecn::Accurate, 0b010), Ecn::Accurate);
        assert_eq!(agreed(Ecn::Accurate, 0b001), Ecn::Classic);
        assert_eq!(agreed(Ecn::Accurate, 0b111), Ecn::Off);
        assert_eq!(agreed(Ecn::Classic, 0b010), Ecn::Off);
        assert_eq!(Ecn::agreed(None, bits(0b010)), Ecn::Unknown);
    }
}
