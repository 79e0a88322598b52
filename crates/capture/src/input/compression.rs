//! Compressed captures, recognised by their first bytes and not by their names.

use std::io::{self, BufRead, BufReader, Read};

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
    Xz,
    Lz4,
    Bzip2,
}

/// The most that xz may allocate: its largest preset needs 65 MiB, this leaves room for custom ones.
const XZ_MEMORY_BYTES: u64 = 256 << 20;
const INPUT_BUFFER_BYTES: usize = 128 * 1024;

impl Compression {
    /// Recognises the magic number; `None` for anything else.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        Some(match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Lz4,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Bzip2,
            _ => return None,
        })
    }

    /// The usual file name extension.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Gzip => "gz",
            Self::Zstd => "zst",
            Self::Xz => "xz",
            Self::Lz4 => "lz4",
            Self::Bzip2 => "bz2",
        }
    }

    /// Creates a decoder of all consecutive members, frames or streams.
    pub(crate) fn decoder(self, source: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        let source = BufReader::with_capacity(INPUT_BUFFER_BYTES, source);
        Ok(match self {
            Self::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(source)?),
            Self::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(
                    XZ_MEMORY_BYTES,
                    liblzma::stream::CONCATENATED,
                )
                .map_err(io::Error::other)?;
                Box::new(liblzma::bufread::XzDecoder::new_stream(source, stream))
            }
            Self::Lz4 => Box::new(Lz4Frames(Some(lz4_flex::frame::FrameDecoder::new(source)))),
            Self::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(source)),
        })
    }
}

/// lz4_flex's decoder stops after one frame, but `lz4` and `cat` write several. It decodes whole blocks, so the last
/// block (4 MiB by default) of a truncated file is lost.
struct Lz4Frames<R: BufRead>(Option<lz4_flex::frame::FrameDecoder<R>>);

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.0 {
            let count = decoder.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let more = !decoder.get_mut().fill_buf()?.is_empty();
            self.0 = match self.0.take() {
                Some(decoder) if more => {
                    Some(lz4_flex::frame::FrameDecoder::new(decoder.into_inner()))
                }
                _ => None,
            };
        }
        Ok(0)
    }
}
