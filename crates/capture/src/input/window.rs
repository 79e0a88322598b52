//! The buffer through which capture files are read.

use std::io::{self, Read};

/// Large enough that a `read` call is rare, small enough to stay in a second-level cache.
const WINDOW_BYTES: usize = 1 << 20;

/// A sliding window over a byte stream: its size is at most [`WINDOW_BYTES`], whatever lengths the stream claims.
pub(crate) struct Window {
    source: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Offset in the stream of `buffer[0]`.
    before: u64,
    ended: bool,
    failure: Option<io::Error>,
}

impl Window {
    /// The largest argument of [`Window::has`].
    pub(crate) const MOST_BYTES: usize = WINDOW_BYTES;

    pub(crate) fn new(source: Box<dyn Read + Send>) -> Self {
        Self {
            source,
            buffer: vec![0; WINDOW_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            before: 0,
            ended: false,
            failure: None,
        }
    }

    /// Offset in the stream of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.before + self.start as u64
    }

    /// The buffered part of the stream, from the next byte on.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Index of the next byte for [`Window::slice`].
    #[inline(always)]
    pub(crate) fn position(&self) -> usize {
        self.start
    }

    /// Bytes at a position that was taken after the last call of `has` or `skip`.
    #[inline(always)]
    pub(crate) fn slice(&self, position: usize, bytes: usize) -> &[u8] {
        &self.buffer[position..position + bytes]
    }

    /// True if the next `count` bytes exist; they are then buffered. Invalidates positions.
    #[inline(always)]
    pub(crate) fn has(&mut self, count: usize) -> bool {
        self.end - self.start >= count || self.fill(count)
    }

    /// Advances over bytes that `has` found.
    #[inline(always)]
    pub(crate) fn advance(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
    }

    /// Advances over `count` bytes, which need not fit the buffer; returns false if the stream ends before.
    pub(crate) fn skip(&mut self, mut count: u64) -> bool {
        loop {
            let step = count.min((self.end - self.start) as u64);
            self.start += step as usize;
            count -= step;
            if count == 0 {
                return true;
            }
            if !self.has(1) {
                return false;
            }
        }
    }

    /// The error that stopped the stream, if it did not simply end.
    pub(crate) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    #[cold]
    #[inline(never)]
    fn fill(&mut self, count: usize) -> bool {
        assert!(
            count <= WINDOW_BYTES,
            "a reader requested more than the window's size"
        );
        self.buffer.copy_within(self.start..self.end, 0);
        self.before += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        // Stop as soon as `count` bytes are available: in a live stream the next ones may be minutes away.
        while self.end < count && !self.ended {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error);
                    self.ended = true;
                }
            }
        }
        self.end >= count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns its bytes one by one, then fails.
    struct Dripping(u8);

    impl Read for Dripping {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0 == 5 {
                return Err(io::Error::other("line cut"));
            }
            buffer[0] = self.0;
            self.0 += 1;
            Ok(1)
        }
    }

    #[test]
    fn bytes_that_arrive_one_by_one_are_joined_and_a_failure_is_kept() {
        let mut window = Window::new(Box::new(Dripping(0)));
        assert!(window.has(2));
        window.advance(1);
        assert!(window.has(3));
        assert_eq!(window.bytes(), [1, 2, 3]);
        assert_eq!(window.offset(), 1);
        assert!(!window.has(5));
        assert_eq!(window.failure().unwrap().to_string(), "line cut");
        assert_eq!(window.bytes(), [1, 2, 3, 4]);
    }

    #[test]
    fn skipping_past_the_end_says_so() {
        let mut window = Window::new(Box::new(&[0u8; 100][..]));
        assert!(window.skip(100));
        assert!(!window.skip(1));
        let mut window = Window::new(Box::new(io::repeat(7)));
        assert!(window.skip(3 * WINDOW_BYTES as u64 + 5));
        assert_eq!(window.offset(), 3 * WINDOW_BYTES as u64 + 5);
    }
}
