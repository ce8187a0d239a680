//! Reads and writes bits in the order of HDF5's packing filters.
//!
//! The highest bit of each byte comes first, and so does the highest bit of each value.

use crate::numbers::low_bits::low8;

/// Reads values of any number of bits, one after another.
pub(super) struct Bits<'a> {
    src: &'a [u8],
    /// The next byte that is not yet counted in `ready`.
    at: usize,
    /// The next bits, from the top. Only the first `ready` bits count.
    word: u64,
    ready: u32,
}

impl<'a> Bits<'a> {
    /// The most bits that [`Bits::read`] returns at once.
    pub(super) const MOST: u32 = 56;

    pub(super) fn new(src: &'a [u8]) -> Self {
        Bits { src, at: 0, word: 0, ready: 0 }
    }

    /// Makes at least [`Bits::MOST`] bits ready, or all that are left.
    #[inline]
    fn refill(&mut self) {
        if let Some(eight) = self.src.get(self.at..).and_then(|rest| rest.first_chunk()) {
            // Bits below `ready` come from the same bytes, set by the last refill. Setting them
            // again changes nothing.
            self.word |= u64::from_be_bytes(*eight) >> self.ready;
            let whole = (63 - self.ready) / 8;
            self.at += whole as usize;
            self.ready += 8 * whole;
            return;
        }
        while self.ready <= Self::MOST
            && let Some(byte) = self.src.get(self.at)
        {
            self.word |= u64::from(*byte) << (Self::MOST - self.ready);
            self.ready += 8;
            self.at += 1;
        }
    }

    /// The next `count` bits, at most [`Bits::MOST`], as a number, or `None` if fewer are left.
    #[inline]
    pub(super) fn read(&mut self, count: u32) -> Option<u64> {
        if self.ready < count {
            self.refill();
            if self.ready < count {
                return None;
            }
        }
        if count == 0 {
            return Some(0);
        }
        let value = self.word >> (64 - count);
        self.word <<= count;
        self.ready -= count;
        Some(value)
    }

    /// The next `count` bits, at most 64.
    #[inline]
    pub(super) fn read_long(&mut self, count: u32) -> Option<u64> {
        if count <= Self::MOST {
            return self.read(count);
        }
        let high = self.read(count - 32)?;
        Some(high << 32 | self.read(32)?)
    }

    /// How many zeros come before the next one, which is also consumed. Returns `None` if there is
    /// no one, or if there are more than `most` zeros.
    #[inline]
    pub(super) fn zeros(&mut self, most: u32) -> Option<u32> {
        let mut count = 0;
        loop {
            if self.ready < 32 {
                self.refill();
            }
            let zeros = self.word.leading_zeros();
            if zeros < self.ready {
                self.word <<= zeros + 1;
                self.ready -= zeros + 1;
                count += zeros;
                return (count <= most).then_some(count);
            }
            count += self.ready;
            if self.ready == 0 || count > most {
                return None;
            }
            (self.word, self.ready) = (0, 0);
        }
    }
}

/// Writes values of any number of bits, one after another.
pub(super) struct BitWriter {
    out: Vec<u8>,
    /// The last bits, at the low end. Only `count` bits count, fewer than 8 between calls.
    word: u64,
    count: u32,
}

impl BitWriter {
    /// Writes behind the bytes of `out`.
    pub(super) fn new(out: Vec<u8>) -> Self {
        BitWriter { out, word: 0, count: 0 }
    }

    /// Writes a value of `count` bits, at most 32.
    #[inline]
    pub(super) fn put(&mut self, value: u32, count: u32) {
        self.word = self.word << count | u64::from(value);
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            self.out.push(low8(self.word >> self.count));
        }
    }

    /// Writes zeros, and a one.
    #[inline]
    pub(super) fn unary(&mut self, mut zeros: u32) {
        while zeros >= 31 {
            self.put(0, 31);
            zeros -= 31;
        }
        self.put(1, zeros + 1);
    }

    /// Fills the last byte with zeros, and returns all bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::noise;

    /// Bits `from..from + count` as a number, the slow way.
    fn expected(src: &[u8], from: usize, count: u32) -> u64 {
        (from..from + count as usize)
            .fold(0, |value, i| value << 1 | u64::from(src[i / 8] >> (7 - i % 8) & 1))
    }

    #[test]
    fn values_of_every_width() {
        let src = noise(203, 7);
        for count in 0..=64 {
            let (mut bits, mut from) = (Bits::new(&src), 0);
            while count > 0 && from + count as usize <= 8 * src.len() {
                assert_eq!(
                    bits.read_long(count),
                    Some(expected(&src, from, count)),
                    "{count} bits at {from}"
                );
                from += count as usize;
            }
            if count > 0 {
                assert_eq!(bits.read_long(count), None, "{count} bits");
            }
        }
        let (mut bits, mut from) = (Bits::new(&src), 0);
        for count in (0..=56).cycle().take_while(|count| (*count as usize) < 57).take(50) {
            assert_eq!(bits.read(count), Some(expected(&src, from, count)));
            from += count as usize;
        }
    }

    #[test]
    fn runs_of_zeros() {
        let mut src = vec![0b0010_1000, 0b0000_0011];
        src.extend([0; 20]);
        src.push(0x10);
        let mut bits = Bits::new(&src);
        let runs: Vec<_> = std::iter::from_fn(|| bits.zeros(200)).collect();
        assert_eq!(runs, [2, 1, 9, 0, 163]);
        assert_eq!(Bits::new(&[0; 30]).zeros(1000), None, "no one at all");
        assert_eq!(Bits::new(&[]).zeros(1000), None);
        assert_eq!(Bits::new(&[0, 0, 1]).zeros(22), None, "more than the most");
        assert_eq!(Bits::new(&[0, 0, 1]).zeros(23), Some(23));
    }

    #[test]
    fn written_bits_are_read() {
        let mut writer = BitWriter::new(vec![7]);
        for count in 1..=32 {
            writer.put(u32::MAX >> (32 - count) ^ 1, count);
            writer.unary(count * 5);
        }
        let written = writer.finish();
        let mut bits = Bits::new(&written[1..]);
        for count in 1..=32 {
            assert_eq!(bits.read(count), Some(u64::from(u32::MAX >> (32 - count) ^ 1)));
            assert_eq!(bits.zeros(1000), Some(count * 5));
        }
    }
}
