//! 32-bit TCP sequence numbers, unwrapped to 64 bits.

/// The largest scaled window (RFC 7323): no acknowledgment can be further from the data sent.
pub(crate) const PLAUSIBLE_BYTES: i64 = 1 << 30;

/// Distance from `from` to `to` on the 32-bit circle, -2^31 to 2^31 - 1 (RFC 9293, section 3.4).
#[inline]
pub fn distance(from: u32, to: u32) -> i64 {
    i64::from(to.wrapping_sub(from) as i32)
}

/// Unwraps raw sequence numbers relative to a first byte: `origin` becomes 0.
///
/// Each number is interpreted as the one nearest to the highest so far. A flow may therefore carry any number of bytes,
/// as long as no packet is 2 GiB older or newer than its neighbours, which is TCP's own condition.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwrapper {
    origin: u32,
    reference: i64,
}

impl Unwrapper {
    pub fn new(origin: u32) -> Self {
        Self {
            origin,
            reference: 0,
        }
    }

    #[inline]
    pub fn relative(&self, raw: u32) -> i64 {
        let near = self.origin.wrapping_add(self.reference as u32);
        self.reference + distance(near, raw)
    }

    /// Moves the reference forward to `relative`, never back.
    #[inline]
    pub fn advance(&mut self, relative: i64) {
        self.reference = self.reference.max(relative);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_growing_across_the_wrap() {
        let mut unwrapper = Unwrapper::new(0xffff_ff00);
        assert_eq!(unwrapper.relative(0xffff_ff00), 0);
        // 0x100 bytes to the wrap, then 0x50 more
        assert_eq!(unwrapper.relative(0x50), 0x150);
        let mut sent = 0i64;
        for _ in 0..10 {
            sent += 1 << 30;
            let raw = 0xffff_ff00u32.wrapping_add(sent as u32);
            assert_eq!(unwrapper.relative(raw), sent);
            unwrapper.advance(sent);
        }
    }

    #[test]
    fn older_numbers_are_behind() {
        let mut unwrapper = Unwrapper::new(10);
        unwrapper.advance(1 << 33);
        let raw = 10u32.wrapping_add(((1i64 << 33) - 1448) as u32);
        assert_eq!(unwrapper.relative(raw), (1 << 33) - 1448);
    }
}
