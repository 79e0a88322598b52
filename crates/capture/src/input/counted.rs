//! How much of a compressed file the decompressing thread has read, for the thread that reads packets.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A reader that counts the bytes read from it.
pub(crate) struct Counted<R> {
    source: R,
    bytes: Arc<AtomicU64>,
}

/// The count of a [`Counted`] reader, for another thread.
pub(crate) struct Counter(Arc<AtomicU64>);

impl<R> Counted<R> {
    pub(crate) fn new(source: R) -> (Self, Counter) {
        let bytes = Arc::new(AtomicU64::new(0));
        let counter = Counter(Arc::clone(&bytes));
        (Self { source, bytes }, counter)
    }
}

impl Counter {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        // A progress bar needs no order between threads.
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_what_was_read() {
        let (mut counted, counter) = Counted::new(&[7u8; 100][..]);
        assert_eq!(counter.bytes(), 0);
        counted.read_exact(&mut [0; 30]).unwrap();
        assert_eq!(counter.bytes(), 30);
        counted.read_to_end(&mut Vec::new()).unwrap();
        assert_eq!(counter.bytes(), 100);
    }
}
