//! The bytes that a policer or a queue counts for each packet.

use whydrop_path::overhead;

/// The bytes that a hop counts for each packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteBasis {
    Ip,
    Ethernet,
    Wire,
}

impl ByteBasis {
    pub const ALL: [Self; 3] = [Self::Ip, Self::Ethernet, Self::Wire];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::Ethernet => "ethernet",
            Self::Wire => "wire",
        }
    }

    /// Bytes on top of each IP packet.
    pub fn overhead_bytes(self) -> u32 {
        match self {
            Self::Ip => overhead::IP,
            Self::Ethernet => overhead::ETHERNET,
            Self::Wire => overhead::WIRE,
        }
    }
}
