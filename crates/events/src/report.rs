//! The report of a program on a connection, as stored in its processor's ring.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

// Offsets in the report.
pub const KIND: i16 = 0;
pub const FROM: i16 = 4;
pub const TO: i16 = 8;
/// The congestion control sets the window by itself.
pub const OWN_WINDOW: i16 = 12;
pub const COOKIE: i16 = 16;
pub const FAMILY: i16 = 24;
pub const PORTS: i16 = 28;
pub const IPV4: i16 = 32;
pub const IPV6: i16 = 40;
pub const WINDOW: i16 = 72;
pub const THRESHOLD: i16 = 76;
pub const UNDO_MARKER: i16 = 80;
pub const PACKETS_OUT: i16 = 84;
pub const SACKED: i16 = 88;
pub const LOST: i16 = 92;
pub const RETRANSMITTED: i16 = 96;
pub const SRTT: i16 = 100;
pub const MSS: i16 = 104;
pub const REORDERED: i16 = 108;
pub const DUPLICATE_SACKS: i16 = 112;
pub const MARKED: i16 = 116;
pub const TIMEOUTS_IN_A_ROW: i16 = 120;
pub const SOCKET_STATE: i16 = 124;
pub const FIRST: i16 = 128;
pub const END: i16 = 132;
/// From here on a copy of the connection's [`memory`](crate::program).
pub const MEMORY: i16 = 136;
pub const SIZE: usize = MEMORY as usize + memory::SIZE as usize;

/// Offsets in what the programs remember of a connection: its state as of the last acknowledgment, and counts.
pub mod memory {
    pub const WINDOW: i16 = 0;
    pub const THRESHOLD: i16 = 4;
    pub const STATE: i16 = 8;
    pub const FLAGS: i16 = 12;
    pub const DUPLICATES: i16 = 16;
    pub const SLOW_START: i16 = 20;
    pub const AVOIDANCE: i16 = 24;
    pub const ECHOES: i16 = 28;
    pub const STALLS: i16 = 32;
    pub const PENDING: i16 = 36;
    /// When the counts were reported, nanoseconds.
    pub const REPORTED: i16 = 40;
    pub const REORDERED: i16 = 48;
    pub const DUPLICATE_SACKS: i16 = 52;
    /// The window that the last acknowledgment offered, as in its header.
    pub const OFFERED: i16 = 56;
    /// Duplicate acknowledgments before the present disorder.
    pub const MARK: i16 = 60;
    /// Duplicate acknowledgments of disorder that ended without a retransmission.
    pub const OF_REORDERING: i16 = 64;
    pub const MARKED: i16 = 68;
    /// Reports that the ring did not take.
    pub const FAILED: i16 = 72;
    /// TCP's own count of retransmitted segments when the programs began to remember the connection.
    pub const RETRANSMITTED: i16 = 76;
    pub const SIZE: i16 = 80;
}

/// Flags of a connection, as of its last acknowledgment.
pub mod flags {
    /// It echoed a congestion mark.
    pub const ECHO: u32 = 1;
    /// A tail loss probe was outstanding.
    pub const PROBE: u32 = 2;
    /// Since then this host's own queue refused a segment.
    pub const STALL: u32 = 4;
    /// Since then an episode of recovery has ended.
    pub const ENDING: u32 = 8;
    /// An acknowledgment has been seen at all.
    pub const SEEN: u32 = 16;
}

/// The kind of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The congestion state changes, seen as it does.
    State,
    /// It has changed since the acknowledgment before.
    StateSeen,
    /// The window has fallen since the acknowledgment before, outside of any recovery.
    Fell,
    /// The slow start threshold has fallen, but not the window.
    Threshold,
    /// The threshold has risen, and the window has not fallen.
    Raised,
    Counts,
    Retransmission,
    /// This host's own queue refuses a segment.
    Stall,
    /// The connection is closed.
    Closed,
}

impl Kind {
    const ALL: [Kind; 9] = [
        Kind::State,
        Kind::StateSeen,
        Kind::Fell,
        Kind::Threshold,
        Kind::Raised,
        Kind::Counts,
        Kind::Retransmission,
        Kind::Stall,
        Kind::Closed,
    ];

    /// The number in a report; 0 is none.
    pub fn number(self) -> i32 {
        self as i32 + 1
    }

    fn of(number: u32) -> Option<Kind> {
        let place = (number as usize).checked_sub(1)?;
        Kind::ALL.get(place).copied()
    }
}

/// A report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    pub kind: Kind,
    /// The congestion state before, and after.
    pub from: u32,
    pub to: u32,
    pub flags: u32,
    /// 0: the kernel has not given it one yet.
    pub cookie: u64,
    /// The local and the remote end.
    pub ends: (SocketAddr, SocketAddr),
    /// The congestion window and the slow start threshold now, and as of the last acknowledgment.
    pub window: u32,
    pub threshold: u32,
    pub window_before: u32,
    pub threshold_before: u32,
    pub undo_marker: u32,
    pub packets_out: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retransmitted: u32,
    /// The same when the programs began to remember the connection.
    pub retransmitted_first: u32,
    pub srtt_ns: u64,
    pub mss: u32,
    pub reordered: u32,
    pub duplicate_sacks: u32,
    /// Packets delivered with a mark, now and as of the last acknowledgment.
    pub marked: u32,
    pub marked_before: u32,
    pub timeouts_in_a_row: u32,
    pub established: bool,
    pub own_window: bool,
    /// Sequence numbers of a retransmitted segment.
    pub first: u32,
    pub end: u32,
    pub counts: Counts,
}

/// Counts of a connection since the programs know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub duplicate_acks: u32,
    pub duplicate_acks_of_reordering: u32,
    pub slow_start_increases: u32,
    pub avoidance_increases: u32,
    pub echoes: u32,
    pub stalls: u32,
    /// Reports that did not arrive.
    pub failed: u32,
}

const AF_INET: u16 = 2;
const ESTABLISHED: u8 = 1;

impl Report {
    /// Parses a report; `None` for other data.
    pub fn parse(bytes: &[u8]) -> Option<Report> {
        let bytes: &[u8; SIZE] = bytes.get(..SIZE)?.try_into().ok()?;
        let four = |at: i16| u32::from_ne_bytes(part(bytes, at));
        let kept = |at: i16| four(MEMORY + at);
        let counts = Counts {
            duplicate_acks: kept(memory::DUPLICATES),
            duplicate_acks_of_reordering: kept(memory::OF_REORDERING),
            slow_start_increases: kept(memory::SLOW_START),
            avoidance_increases: kept(memory::AVOIDANCE),
            echoes: kept(memory::ECHOES),
            stalls: kept(memory::STALLS),
            failed: kept(memory::FAILED),
        };
        Some(Report {
            kind: Kind::of(four(KIND))?,
            from: four(FROM),
            to: four(TO),
            flags: kept(memory::FLAGS),
            cookie: u64::from_ne_bytes(part(bytes, COOKIE)),
            ends: ends(bytes),
            window: four(WINDOW),
            threshold: four(THRESHOLD),
            window_before: kept(memory::WINDOW),
            threshold_before: kept(memory::THRESHOLD),
            undo_marker: four(UNDO_MARKER),
            packets_out: four(PACKETS_OUT),
            sacked: four(SACKED),
            lost: four(LOST),
            retransmitted: four(RETRANSMITTED),
            retransmitted_first: kept(memory::RETRANSMITTED),
            // The kernel keeps eighths of microseconds.
            srtt_ns: u64::from(four(SRTT)) * 125,
            mss: four(MSS),
            reordered: four(REORDERED),
            duplicate_sacks: four(DUPLICATE_SACKS),
            marked: four(MARKED),
            marked_before: kept(memory::MARKED),
            timeouts_in_a_row: four(TIMEOUTS_IN_A_ROW),
            established: bytes[SOCKET_STATE as usize] == ESTABLISHED,
            own_window: four(OWN_WINDOW) != 0,
            first: four(FIRST),
            end: four(END),
            counts,
        })
    }

    /// How many segments a retransmission has; a FIN counts as a byte.
    pub fn segments(&self) -> u32 {
        let bytes = self.end.wrapping_sub(self.first);
        bytes.div_ceil(self.mss.max(1)).max(1)
    }
}

fn part<const COUNT: usize>(bytes: &[u8; SIZE], at: i16) -> [u8; COUNT] {
    let mut found = [0; COUNT];
    found.copy_from_slice(&bytes[at as usize..at as usize + COUNT]);
    found
}

fn ends(bytes: &[u8; SIZE]) -> (SocketAddr, SocketAddr) {
    let two = |at: i16| u16::from_ne_bytes(part(bytes, at));
    let address = |side: i16| {
        if two(FAMILY) == AF_INET {
            return IpAddr::from(Ipv4Addr::from(part::<4>(bytes, IPV4 + 4 * side)));
        }
        Ipv6Addr::from(part::<16>(bytes, IPV6 + 16 * side)).to_canonical()
    };
    let end = |side: i16, port: i16| SocketAddr::new(address(side), u16::from_be(two(port)));
    (end(0, PORTS + 2), end(1, PORTS))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An uneventful report of a connection.
    pub fn plain(kind: Kind) -> Report {
        let mut bytes = [0; SIZE];
        bytes[..4].copy_from_slice(&kind.number().to_ne_bytes());
        let mut put =
            |at: i16, value: &[u8]| bytes[at as usize..][..value.len()].copy_from_slice(value);
        put(FAMILY, &AF_INET.to_ne_bytes());
        put(PORTS, &443_u16.to_be_bytes());
        put(PORTS + 2, &49152_u16.to_be_bytes());
        put(IPV4, &[192, 0, 2, 1, 198, 51, 100, 7]);
        put(SOCKET_STATE, &[ESTABLISHED]);
        put(SRTT, &8000_u32.to_ne_bytes());
        Report::parse(&bytes).expect("a report")
    }

    #[test]
    fn a_report_is_read_with_both_ends() {
        let report = plain(Kind::Fell);
        assert_eq!(report.kind, Kind::Fell);
        assert_eq!(report.ends.0.to_string(), "192.0.2.1:49152");
        assert_eq!(report.ends.1.to_string(), "198.51.100.7:443");
        assert_eq!((report.srtt_ns, report.established), (1_000_000, true));
    }

    #[test]
    fn other_data_is_no_report() {
        assert_eq!(Report::parse(&[0; SIZE]), None);
        assert_eq!(Report::parse(&[1; SIZE - 1]), None);
        assert_eq!(Report::parse(&[255; SIZE]), None);
    }

    #[test]
    fn every_kind_has_its_number() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of(kind.number() as u32), Some(kind));
        }
    }
}
