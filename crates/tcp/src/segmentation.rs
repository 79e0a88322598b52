//! The size of a flow's packets on the wire, if the capture contains them coalesced (segmentation offload).

use std::num::NonZeroU32;

/// Ethernet's payload: a packet that fits was one packet, unless the flow is known to be captured before segmentation.
const ETHERNET_MTU_BYTES: u32 = 1500;
/// A larger payload cannot be one packet, even with jumbo frames of 9000 bytes.
const LARGEST_JUMBO_PAYLOAD_BYTES: u32 = 9000;
/// The smallest full segment on any path: the default of RFC 9293, section 3.7.1, less the options that fit.
pub(crate) const SMALLEST_FULL_SEGMENT_BYTES: u32 = 536 - 40;

/// The largest payload of a wire packet, as far as known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SegmentSize {
    /// From the handshake, less options; `None` without the option: the default that RFC 9293 then prescribes (536
    /// bytes) says nothing about the actual packets.
    announced: Option<u32>,
    /// Largest payload of a packet known to be single.
    seen: u32,
    /// No packet is larger: the size that its own sender announces for its link.
    most: Option<NonZeroU32>,
    /// The last super-segment, and the size at which super-segments were split while the real one was unknown.
    joined: u32,
    guessed: u32,
    /// Super-segments showed that packets have the announced size.
    is_cut_as_announced: bool,
    /// Super-segments that were multiples of the size seen, without an announcement.
    multiples: u8,
}

/// This many super-segments do not have a common size by chance.
const SEVERAL_MULTIPLES: u8 = 3;

impl SegmentSize {
    pub fn announced(bytes: u32) -> Self {
        Self {
            announced: Some(bytes),
            ..Self::default()
        }
    }

    /// The other side's announcement was not captured: packets are no larger than the sender's own announcement.
    pub fn at_most(bytes: u32) -> Self {
        Self {
            most: NonZeroU32::new(bytes),
            ..Self::default()
        }
    }

    pub fn is_announced(&self) -> bool {
        self.announced.is_some()
    }

    pub fn announced_bytes(&self) -> Option<u32> {
        self.announced
    }

    /// Payload of a full packet; 0 before one was captured or announced.
    pub fn bytes(&self) -> u32 {
        match self.announced {
            Some(announced) if self.is_cut_as_announced => announced,
            Some(announced) => announced.max(self.seen),
            None => self.seen.max(self.guessed),
        }
    }

    /// The payload of each wire packet in a captured packet: less than its own for a super-segment.
    pub fn cut(&mut self, payload: u32, header_bytes: u32) -> u32 {
        if self.announced.is_none() {
            self.find_common(payload, header_bytes);
        }
        let whole = payload <= self.bytes()
            || match self.announced {
                Some(announced) => self.exceeds_announced(announced, payload, header_bytes),
                None => self.is_one_packet(payload, header_bytes),
            };
        if whole {
            self.seen = self.seen.max(payload);
            return payload.max(1);
        }
        let is_multiple_of_seen = self.seen > 0 && payload.is_multiple_of(self.seen);
        match self.announced {
            // larger packets were captured, and this is no evidence of smaller ones
            Some(announced)
                if self.seen > announced
                    && (is_multiple_of_seen || !payload.is_multiple_of(announced)) =>
            {
                self.seen
            }
            Some(announced) => {
                self.is_cut_as_announced = true;
                announced.max(1)
            }
            None if is_multiple_of_seen && self.seen >= SMALLEST_FULL_SEGMENT_BYTES => {
                self.guessed = 0;
                self.multiples = self.multiples.saturating_add(1);
                self.seen
            }
            // the remainder of a write
            None if self.is_cut_as_seen() => self.seen,
            // the other side may accept less, as later packets will show
            None if self.most.is_some() => {
                self.guessed = ethernet_payload(header_bytes);
                self.guessed
            }
            None => {
                let full = ethernet_payload(header_bytes);
                self.seen = self.seen.max(full);
                full
            }
        }
    }

    fn is_cut_as_seen(&self) -> bool {
        self.multiples >= SEVERAL_MULTIPLES
    }

    /// Finds a size of which two super-segments, or one and a packet, are multiples: a capture that begins in the
    /// middle of a connection has both before it has a single packet.
    fn find_common(&mut self, payload: u32, header_bytes: u32) {
        let full = ethernet_payload(header_bytes);
        for before in [self.joined, self.seen] {
            let common = greatest_common_divisor(before, payload);
            if payload.max(before) > full && (SMALLEST_FULL_SEGMENT_BYTES..=full).contains(&common)
            {
                (self.seen, self.guessed) = (common, 0);
            }
        }
        if payload > full && self.most.is_some() {
            self.joined = payload;
        }
    }

    /// True for a single packet that is larger than the handshake permits. Senders follow the peer's option alone, and
    /// middleboxes rewrite it; so a packet that fits one Ethernet frame counts as single, unless other packets
    /// contradict it.
    fn exceeds_announced(&self, announced: u32, payload: u32, header_bytes: u32) -> bool {
        !self.is_cut_as_announced
            && payload <= ethernet_payload(header_bytes)
            && !payload.is_multiple_of(announced.max(1))
    }

    /// Without an announcement: true if it fits one Ethernet frame, or may be a jumbo frame.
    fn is_one_packet(&self, payload: u32, header_bytes: u32) -> bool {
        let full = ethernet_payload(header_bytes);
        let is_multiple =
            |size: u32| size >= SMALLEST_FULL_SEGMENT_BYTES && payload.is_multiple_of(size);
        payload <= full
            || !self.is_cut_as_seen()
                && payload
                    <= self
                        .most
                        .map_or(LARGEST_JUMBO_PAYLOAD_BYTES, NonZeroU32::get)
                && !is_multiple(full)
                && !is_multiple(self.seen)
    }
}

/// 0 with 0: no packet was captured.
fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    if a == 0 || b == 0 {
        return 0;
    }
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn ethernet_payload(header_bytes: u32) -> u32 {
    ETHERNET_MTU_BYTES.saturating_sub(header_bytes).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cuts(mut size: SegmentSize, payloads: &[u32]) -> Vec<u32> {
        payloads
            .iter()
            .map(|payload| size.cut(*payload, 40))
            .collect()
    }

    #[test]
    fn super_segments_are_cut_at_the_announced_size() {
        let size = SegmentSize::announced(1368);
        assert_eq!(
            cuts(size, &[13_680, 5000, 1400, 300]),
            [1368, 1368, 1368, 300]
        );
    }

    #[test]
    fn a_packet_that_fits_a_frame_is_one_though_less_was_announced() {
        let size = SegmentSize::announced(1430);
        assert_eq!(
            cuts(size, &[1446, 1430, 2892, 4000]),
            [1446, 1430, 1446, 1446]
        );
    }

    #[test]
    fn a_small_announced_size_is_believed_of_its_multiples() {
        let size = SegmentSize::announced(536);
        assert_eq!(cuts(size, &[1072, 1000, 600]), [536, 536, 536]);
    }

    #[test]
    fn without_an_announcement_sizes_are_what_they_are() {
        let size = SegmentSize::default();
        assert_eq!(cuts(size, &[512, 1448, 427, 961]), [512, 1448, 427, 961]);
        assert_eq!(cuts(size, &[1460, 2920, 65_160]), [1460, 1460, 1460]);
        assert_eq!(cuts(size, &[536, 5360]), [536, 536]);
        assert_eq!(cuts(size, &[8948, 17_896]), [8948, 8948]);
    }

    #[test]
    fn what_is_larger_than_the_sender_takes_itself_is_no_jumbo_frame() {
        let size = SegmentSize::at_most(1460);
        assert_eq!(cuts(size, &[3733, 1460, 500]), [1460, 1460, 500]);
        assert_eq!(cuts(SegmentSize::at_most(8960), &[3733]), [3733]);
        // the other side may accept less
        assert_eq!(cuts(size, &[12_280, 13_508, 12_280]), [1460, 1228, 1228]);
        assert_eq!(cuts(size, &[12_280, 1228, 24_560]), [1460, 1228, 1228]);
    }

    #[test]
    fn super_segments_before_a_single_packet_reveal_their_common_size() {
        let size = SegmentSize::default();
        assert_eq!(
            cuts(size, &[2800, 4200, 5600, 1400]),
            [2800, 1400, 1400, 1400]
        );
        assert_eq!(
            cuts(size, &[2800, 1400, 7000, 325]),
            [2800, 1400, 1400, 325]
        );
        assert_eq!(cuts(size, &[8948, 4474, 512, 100]), [8948, 4474, 512, 100]);
        // once the size is known, the remainder of a write is not a jumbo frame
        let writes = [2776, 4164, 2776, 2776, 1804];
        assert_eq!(cuts(size, &writes), [2776, 1388, 1388, 1388, 1388]);
    }
}
