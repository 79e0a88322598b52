//! Reading on a second thread, so that decompression and analysis overlap.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

const CHUNK_BYTES: usize = 256 * 1024;
/// Chunks in flight: enough to smooth out bursts, few enough to bound memory (1 MiB).
const CHUNKS: usize = 4;

/// The receiving end of a thread that reads `source` ahead, at most [`CHUNKS`] chunks.
pub(crate) struct Background {
    filled: Receiver<io::Result<Vec<u8>>>,
    emptied: SyncSender<Vec<u8>>,
    current: Vec<u8>,
    position: usize,
    ended: bool,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start(source: Box<dyn Read + Send>) -> io::Result<Self> {
        let (fill, filled) = sync_channel(CHUNKS);
        let (emptied, reuse) = sync_channel(CHUNKS + 2);
        let thread = thread::Builder::new()
            .name("decompress".into())
            .spawn(move || read_ahead(source, &fill, &reuse))?;
        Ok(Self {
            filled,
            emptied,
            current: Vec::new(),
            position: 0,
            ended: false,
            thread: Some(thread),
        })
    }
}

/// Ends when the source does, or when the receiving end is dropped.
fn read_ahead(
    mut source: Box<dyn Read + Send>,
    fill: &SyncSender<io::Result<Vec<u8>>>,
    reuse: &Receiver<Vec<u8>>,
) {
    loop {
        let mut chunk = reuse.try_recv().unwrap_or_default();
        chunk.resize(CHUNK_BYTES, 0);
        let read = loop {
            match source.read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let message = read.map(|count| {
            chunk.truncate(count);
            chunk
        });
        let last = message.as_ref().map_or(true, Vec::is_empty);
        if fill.send(message).is_err() || last {
            return;
        }
    }
}

impl Drop for Background {
    /// Waits for the thread if its source has ended, so that its memory is released. A thread that still waits for its
    /// source (a terminal, a pipe) ends by itself with its next read.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take().filter(|_| self.ended) {
            // Its panic was reported by `read` already.
            let _ = thread.join();
        }
    }
}

impl Read for Background {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.position == self.current.len() {
            if self.ended {
                return Ok(0);
            }
            // The thread may have ended already: then the buffer is not needed.
            let _ = self.emptied.try_send(std::mem::take(&mut self.current));
            self.position = 0;
            match self.filled.recv() {
                Ok(Ok(chunk)) => {
                    self.ended = chunk.is_empty();
                    self.current = chunk;
                }
                Ok(Err(error)) => {
                    self.ended = true;
                    return Err(error);
                }
                // The thread ended without a message: the decompressor panicked.
                Err(_) => {
                    self.ended = true;
                    return Err(io::Error::other("the decompressor failed"));
                }
            }
        }
        let rest = &self.current[self.position..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.position += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_through_in_order() {
        let data: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
        let mut background = Background::start(Box::new(io::Cursor::new(data.clone()))).unwrap();
        let mut read = Vec::new();
        background.read_to_end(&mut read).unwrap();
        assert!(read == data);
    }

    struct Panics;
    impl Read for Panics {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            std::panic::panic_any("boom")
        }
    }

    #[test]
    fn a_panic_in_the_thread_is_an_error_here() {
        let mut background = Background::start(Box::new(Panics)).unwrap();
        assert!(background.read(&mut [0; 8]).is_err());
        assert_eq!(background.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn dropping_the_reader_ends_an_endless_source() {
        let mut background = Background::start(Box::new(io::repeat(1))).unwrap();
        assert_eq!(background.read(&mut [0; 8]).unwrap(), 8);
        drop(background);
    }
}
