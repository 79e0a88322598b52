//! Captures as libpcap files.

use std::io::{self, Write};

use whydrop_network::Resolution;

/// Simulations begin at this time: 2024-05-14 09:26:40 UTC.
pub const EPOCH_NS: i64 = 1_715_678_800_000_000_000;

/// The type of an Ethernet capture (LINKTYPE_ETHERNET).
const LINK_TYPE: u32 = 1;

pub struct Writer<W: Write> {
    out: W,
    snaplen: usize,
    resolution: Resolution,
}

impl<W: Write> Writer<W> {
    pub fn new(mut out: W, snaplen: u32, resolution: Resolution) -> io::Result<Self> {
        let magic: u32 = match resolution {
            Resolution::Nanoseconds => 0xa1b2_3c4d,
            Resolution::Microseconds => 0xa1b2_c3d4,
        };
        out.write_all(&magic.to_le_bytes())?;
        out.write_all(&2u16.to_le_bytes())?;
        out.write_all(&4u16.to_le_bytes())?;
        out.write_all(&[0; 8])?;
        out.write_all(&snaplen.to_le_bytes())?;
        out.write_all(&LINK_TYPE.to_le_bytes())?;
        Ok(Self {
            out,
            snaplen: snaplen as usize,
            resolution,
        })
    }

    /// Writes one frame, as much of it as the length of snapshots allows.
    pub fn write_frame(&mut self, time_ns: i64, frame: &[u8]) -> io::Result<()> {
        let captured_bytes = frame.len().min(self.snaplen);
        self.write_header(time_ns, captured_bytes, frame.len())?;
        self.out.write_all(&frame[..captured_bytes])
    }

    /// Writes the record of a frame without its last bytes, as the end of a cut file.
    pub fn write_cut_frame(&mut self, time_ns: i64, frame: &[u8]) -> io::Result<()> {
        let captured_bytes = frame.len().min(self.snaplen);
        self.write_header(time_ns, captured_bytes, frame.len())?;
        self.out.write_all(&frame[..captured_bytes / 2])
    }

    fn write_header(
        &mut self,
        time_ns: i64,
        captured_bytes: usize,
        wire_bytes: usize,
    ) -> io::Result<()> {
        let fraction = time_ns.rem_euclid(1_000_000_000);
        let fraction = match self.resolution {
            Resolution::Nanoseconds => fraction,
            Resolution::Microseconds => fraction / 1_000,
        };
        for field in [
            time_ns.div_euclid(1_000_000_000) as u32,
            fraction as u32,
            captured_bytes as u32,
            wire_bytes as u32,
        ] {
            self.out.write_all(&field.to_le_bytes())?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
