//! The header fields that a host counts by itself: identification and timestamps.

use whydrop_path::Ecn;

use crate::segment::{Reason, SackBlocks, Segment, Toward};

const MILLISECOND_NS: i64 = 1_000_000;

/// One end of a connection, as its segments' headers show it.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    flow: usize,
    peer: Toward,
    identification: u16,
    /// TCP timestamps, if it uses them: milliseconds since this (RFC 7323, section 5.4).
    clock_origin: Option<u32>,
    /// The peer's timestamp, to be echoed (TS.Recent).
    pub recent: u32,
}

impl Host {
    pub fn new(flow: usize, peer: Toward, identification: u16, clock_origin: Option<u32>) -> Self {
        Self {
            flow,
            peer,
            identification,
            clock_origin,
            recent: 0,
        }
    }

    /// Returns a segment to the peer, without acknowledgment and window.
    pub fn segment(
        &mut self,
        now_ns: i64,
        flags: u8,
        sequence: u64,
        payload_bytes: u32,
    ) -> Segment {
        self.sent_now(
            now_ns,
            Segment {
                flow: self.flow,
                toward: self.peer,
                flags,
                sequence,
                acknowledgment: 0,
                payload_bytes,
                window_bytes: 0,
                timestamps: None,
                sack: SackBlocks::default(),
                reason: Reason::New,
                identification: 0,
                ecn: Ecn::NotCapable,
                delay_ns: 0,
            },
        )
    }

    /// Returns the segment with the next identification and the present timestamps.
    pub fn sent_now(&mut self, now_ns: i64, segment: Segment) -> Segment {
        self.identification = self.identification.wrapping_add(1);
        let milliseconds = (now_ns / MILLISECOND_NS) as u32;
        let origin = self.clock_origin;
        Segment {
            identification: self.identification,
            timestamps: origin.map(|origin| (origin.wrapping_add(milliseconds), self.recent)),
            ..segment
        }
    }

    /// The latest time at which its clock had the timestamp that a segment echoes.
    pub fn echoed_ns(&self, segment: &Segment) -> Option<i64> {
        let (origin, (_, echo)) = self.clock_origin.zip(segment.timestamps)?;
        Some((i64::from(echo.wrapping_sub(origin)) + 1) * MILLISECOND_NS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_gives_the_last_nanosecond_of_its_millisecond() {
        let mut server = Host::new(0, Toward::Client, 7, Some(u32::MAX));
        let mut client = Host::new(0, Toward::Server, 9, Some(5));
        let data = server.segment(2_300_000, 0, 1, 100);
        assert_eq!((data.timestamps, data.identification), (Some((1, 0)), 8));
        client.recent = 1;
        let answer = client.segment(3_000_000, 0, 1, 0);
        assert_eq!(answer.timestamps, Some((8, 1)));
        assert_eq!(server.echoed_ns(&answer), Some(2_999_999));
    }
}
