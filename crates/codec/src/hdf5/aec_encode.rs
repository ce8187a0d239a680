//! The encoder of adaptive entropy coding ([`aec`](super::aec) explains the code).
//!
//! Each block gets the coding option that takes the fewest bits.

use super::aec::{MAX_PAIR_SUM, REMAINDER_OF_SEGMENT, SEGMENT, Samples};
use super::bits::BitWriter;
use crate::ByteOrder;

/// How the samples of a block are coded.
#[derive(Clone, Copy)]
enum Coding {
    Uncompressed,
    /// The number of low bits.
    Split(u32),
    Pairs,
}

/// An interval while it is encoded.
struct Interval<'a> {
    samples: &'a Samples,
    out: &'a mut BitWriter,
    /// Bits of the number of a coding option.
    option_bits: u32,
    /// All-zero blocks that were not written yet, and the first of their samples if it is predicted.
    zeros: (u32, Option<u32>),
}

impl Samples {
    /// Encodes a whole number of samples. `Err`: a sample with more bits than samples have.
    pub(super) fn encode(&self, src: &[u8], out: &mut BitWriter) -> Result<(), String> {
        let line_bytes = self.scanline.saturating_mul(self.bytes());
        let mut line = Vec::new();
        for (index, bytes) in src.chunks(line_bytes).enumerate() {
            line.clear();
            match (self.bytes(), self.order) {
                (1, _) => line.extend(bytes.iter().map(|byte| u32::from(*byte))),
                (2, ByteOrder::Little) => read(bytes, &mut line, |two| u16::from_le_bytes(two).into()),
                (2, ByteOrder::Big) => read(bytes, &mut line, |two| u16::from_be_bytes(two).into()),
                (_, ByteOrder::Little) => read(bytes, &mut line, u32::from_le_bytes),
                (_, ByteOrder::Big) => read(bytes, &mut line, u32::from_be_bytes),
            }
            let max = self.max();
            if let Some(large) = line.iter().find(|sample| **sample > max) {
                return Err(format!("scanline {index}: sample {large} has more than {} bits", self.bits));
            }
            let is_whole = line.len() == self.scanline;
            // The last block is padded with equal samples, which take no bits if they are predicted.
            let pad = if self.predicted { line.last().copied().unwrap_or_default() } else { 0 };
            line.resize(line.len().next_multiple_of(self.block), pad);
            let option_bits = self.option_bits();
            Interval { samples: self, out, option_bits, zeros: (0, None) }.encode(&mut line, is_whole);
        }
        Ok(())
    }
}

/// Reads samples of `N` bytes.
fn read<const N: usize>(bytes: &[u8], samples: &mut Vec<u32>, sample: impl Fn([u8; N]) -> u32) {
    samples.extend(bytes.as_chunks::<N>().0.iter().map(|bytes| sample(*bytes)));
}

impl Interval<'_> {
    /// Encodes whole blocks. `is_whole`: no block of the interval is missing.
    fn encode(&mut self, line: &mut [u32], is_whole: bool) {
        if self.samples.predicted {
            fold_all(line, self.samples.max());
        }
        let blocks = line.len() / self.samples.block;
        for (index, block) in line.chunks_exact(self.samples.block).enumerate() {
            let first = usize::from(self.samples.predicted && index == 0);
            let (head, coded) = block.split_at(first);
            if coded.iter().all(|sample| *sample == 0) {
                self.zeros = (self.zeros.0 + 1, self.zeros.1.or(head.first().copied()));
                let is_segment = (index + 1).is_multiple_of(SEGMENT);
                let is_last = index + 1 == blocks;
                if is_segment || is_last {
                    self.end_zeros(is_segment || is_whole);
                }
            } else {
                self.end_zeros(false);
                self.block(head.first().copied(), coded);
            }
        }
    }

    /// Writes the zero blocks. `reaches_end`: of a segment, or of the interval.
    fn end_zeros(&mut self, reaches_end: bool) {
        let (count, first) = std::mem::take(&mut self.zeros);
        if count == 0 {
            return;
        }
        self.out.put(0, self.option_bits + 1);
        if let Some(first) = first {
            self.out.put(first, self.samples.bits);
        }
        self.out.unary(match count {
            _ if reaches_end && count >= REMAINDER_OF_SEGMENT => REMAINDER_OF_SEGMENT - 1,
            ..REMAINDER_OF_SEGMENT => count - 1,
            _ => count,
        });
    }

    /// Writes a block. `first`: the first sample of the interval, if it is predicted.
    fn block(&mut self, first: Option<u32>, coded: &[u32]) {
        let width = self.samples.bits;
        let option = self.cheapest(coded, first.is_some());
        match option {
            Coding::Uncompressed => self.out.put((1 << self.option_bits) - 1, self.option_bits),
            Coding::Split(low) => self.out.put(low + 1, self.option_bits),
            Coding::Pairs => self.out.put(1, self.option_bits + 1),
        }
        if let Some(first) = first {
            self.out.put(first, width);
        }
        match option {
            Coding::Uncompressed => coded.iter().for_each(|sample| self.out.put(*sample, width)),
            Coding::Split(low) => {
                coded.iter().for_each(|sample| self.out.unary(sample >> low));
                coded.iter().for_each(|sample| self.out.put(sample & ((1 << low) - 1), low));
            }
            Coding::Pairs => pairs(coded, first.is_some()).for_each(|number| self.out.unary(number)),
        }
    }

    /// Returns the option that takes the fewest bits.
    fn cheapest(&self, coded: &[u32], has_first: bool) -> Coding {
        let count = coded.len() as u64;
        let split = |low: u32| {
            coded.iter().map(|sample| u64::from(sample >> low)).sum::<u64>() + count * (u64::from(low) + 1)
        };
        let mut best = (count * u64::from(self.samples.bits), Coding::Uncompressed);
        let most = ((1 << self.option_bits) - 3).min(self.samples.bits - 1);
        // About as many bits as the mean has. The cost falls up to the best number, and rises from there.
        let mean = coded.iter().map(|sample| u64::from(*sample)).sum::<u64>() / count.max(1);
        let mut low = mean.checked_ilog2().unwrap_or_default().min(most);
        let mut cost = split(low);
        while low > 0 && split(low - 1) <= cost {
            low -= 1;
            cost = split(low);
        }
        while low < most && split(low + 1) < cost {
            low += 1;
            cost = split(low);
        }
        if cost < best.0 {
            best = (cost, Coding::Split(low));
        }
        if coded.iter().all(|sample| *sample <= MAX_PAIR_SUM / 2) {
            // The option has one bit more.
            let cost = 1 + pairs(coded, has_first).map(|number| u64::from(number) + 1).sum::<u64>();
            if cost < best.0 {
                best = (cost, Coding::Pairs);
            }
        }
        best.1
    }
}

/// Returns the numbers of the pairs of a block. `has_first`: the first pair has only its `b`.
fn pairs(coded: &[u32], has_first: bool) -> impl Iterator<Item = u32> {
    let (single, rest) = coded.split_at(usize::from(has_first).min(coded.len()));
    let pair = |a: u32, b: u32| (a + b) * (a + b + 1) / 2 + b;
    let single = single.iter().map(move |b| pair(0, *b));
    single.chain(rest.as_chunks::<2>().0.iter().map(move |[a, b]| pair(*a, *b)))
}

/// Replaces all samples but the first by folded differences.
fn fold_all(line: &mut [u32], max: u32) {
    let Some((first, rest)) = line.split_first_mut() else { return };
    let mut last = *first;
    for sample in rest {
        let folded = fold(*sample, last, max);
        last = std::mem::replace(sample, folded);
    }
}

/// Folds the difference of a sample from the one before it (4.2 of the standard).
#[inline]
pub(super) fn fold(sample: u32, last: u32, max: u32) -> u32 {
    let near = last.min(max - last);
    let size = sample.abs_diff(last);
    match size <= near {
        true if sample >= last => 2 * size,
        true => 2 * size - 1,
        false => near + size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::low_bits::low32;
    use proptest::prelude::*;

    fn encoded(samples: Samples, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = BitWriter::new(Vec::new());
        samples.encode(bytes, &mut out)?;
        Ok(out.finish())
    }

    fn plain(bits: u32) -> Samples {
        Samples { bits, block: 4, scanline: 8, predicted: false, order: ByteOrder::Little }
    }

    proptest! {
        #[test]
        fn samples_come_back(
            bits in 1..=24_u32, half in 1..=32_usize, scanline in 1..300_usize, predicted: bool, big: bool,
            small in 0..=24_u32, values in proptest::collection::vec((any::<u32>(), 0..20_u8), 0..3000),
        ) {
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let samples = Samples { bits, block: 2 * half, scanline, predicted, order };
            let mut bytes = Vec::new();
            for (value, times) in values {
                // Mostly small values, and runs of equal ones.
                let value = value & samples.max() & if times > 2 { low32((1_u64 << small) - 1) } else { u32::MAX };
                for _ in 0..u32::from(times) * u32::from(times) / 4 + 1 {
                    match (samples.bytes(), big) {
                        (1, _) => bytes.push(value as u8),
                        (2, false) => bytes.extend((value as u16).to_le_bytes()),
                        (2, true) => bytes.extend((value as u16).to_be_bytes()),
                        (_, false) => bytes.extend(value.to_le_bytes()),
                        (_, true) => bytes.extend(value.to_be_bytes()),
                    }
                }
            }
            let stored = encoded(samples, &bytes).unwrap();
            let mut back = vec![0xA5; bytes.len()];
            samples.decode(&stored, &mut back).unwrap();
            prop_assert_eq!(back, bytes);
        }
    }

    #[test]
    fn the_cheapest_option() {
        let bits = |samples, bytes: &[u8]| encoded(samples, bytes).unwrap();
        let uncompressed = [0b1110_0000, 0b0011_1001, 0b0000_0000, 0b0111_1111, 0b1110_0000];
        assert_eq!(bits(plain(8), &[1, 200, 3, 255]), uncompressed);
        // 001, then 0, 1, 2, 3 in unary.
        assert_eq!(bits(plain(8), &[0, 1, 2, 3]), [0b0011_0100, 0b1000_1000]);
        // Two zero blocks, which are the whole interval.
        assert_eq!(bits(plain(8), &[0; 8]), [0b0000_0100]);
        // A part of an interval says how many zero blocks it has.
        let long = Samples { scanline: 400, ..plain(8) };
        assert_eq!(bits(long, &[0; 40]), [0, 0b0000_0010]);
        // Up to the end of the segment, and of the interval.
        assert_eq!(bits(long, &[0; 400]), [0b0000_0000, 0b1000_0000, 0b0100_0000]);
        // Pairs (1, 0) and (0, 0).
        assert_eq!(bits(plain(8), &[1, 0, 0, 0]), [0b0001_0110]);
        let message = encoded(plain(4), &[0, 16]).unwrap_err();
        assert_eq!(message, "scanline 0: sample 16 has more than 4 bits");
    }
}
