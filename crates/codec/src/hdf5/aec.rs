//! Adaptive entropy coding of CCSDS 121.0-B-3 ("Lossless Data Compression"), used by `szip`.
//!
//! Samples come in blocks, and blocks in reference intervals (HDF5's scanlines), one after another
//! without alignment. A block starts with the number of its coding option. The number has 3 bits
//! for samples of up to 8 bits, 4 bits for up to 16, otherwise 5. Then follow:
//!
//! * all bits set: the samples, uncompressed;
//! * `k + 1` for `k` from 0: each sample's part above its lowest `k` bits in unary (that many zeros
//!   and a one), then the `k` bits of each sample;
//! * 0 and a bit 1, "second extension": unary numbers, each for two samples;
//! * 0 and a bit 0, "zero block": a unary number that gives the number of all-zero blocks.
//!
//! If samples are predicted by the one before, the first sample of an interval stands uncompressed
//! after the option's number. The others are folded differences (4.2 in the standard): small
//! differences with alternating sign, then the larger ones, which have only one possible sign.

use super::bits::Bits;
use crate::ByteOrder;
use crate::numbers::low_bits::{low8, low16, low32};

/// The most samples in a block.
pub(super) const MAX_BLOCK: usize = 64;

/// The largest sum of two samples in a second extension, and the largest unary number.
pub(super) const MAX_PAIR_SUM: u32 = 12;
const MAX_PAIR: u32 = 90;
/// This number of zero blocks means: up to the end of the interval, or of the current segment of 64
/// blocks.
pub(super) const REMAINDER_OF_SEGMENT: u32 = 5;
pub(super) const SEGMENT: usize = 64;

/// How samples are coded, and how they are arranged in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Samples {
    /// Bits of a sample, 1 to 24.
    pub bits: u32,
    /// Samples of a block, at most [`MAX_BLOCK`].
    pub block: usize,
    /// Samples of an interval, at least 1; its last block is padded.
    pub scanline: usize,
    pub predicted: bool,
    pub order: ByteOrder,
}

/// An interval while it is decoded.
struct Interval<'a, 'b> {
    samples: &'a Samples,
    out: &'b mut [u8],
    /// The last sample, or `None` before the first.
    last: Option<u32>,
    /// Samples so far, including padding.
    count: usize,
}

impl Samples {
    /// Bytes that a sample takes in memory.
    pub(super) fn bytes(&self) -> usize {
        match self.bits {
            ..=8 => 1,
            9..=16 => 2,
            _ => 4,
        }
    }

    /// Bits of the number of a coding option.
    pub(super) fn option_bits(&self) -> u32 {
        match self.bits {
            ..=8 => 3,
            9..=16 => 4,
            _ => 5,
        }
    }

    /// The largest sample.
    pub(super) fn max(&self) -> u32 {
        low32((1u64 << self.bits) - 1)
    }

    /// Decodes into all of `dst`, a whole number of samples. Bytes after the last block are
    /// ignored.
    pub(super) fn decode(&self, src: &[u8], dst: &mut [u8]) -> Result<(), String> {
        let mut bits = Bits::new(src);
        let intervals = self.scanline.saturating_mul(self.bytes());
        for (index, out) in dst.chunks_mut(intervals).enumerate() {
            let mut interval = Interval { samples: self, out, last: None, count: 0 };
            interval.decode(&mut bits).map_err(|why| format!("scanline {index}: {why}"))?;
        }
        Ok(())
    }
}

const TRUNCATED: &str = "truncated";

impl Interval<'_, '_> {
    fn decode(&mut self, bits: &mut Bits<'_>) -> Result<(), &'static str> {
        let Samples { bits: width, block, .. } = *self.samples;
        let option_bits = self.samples.option_bits();
        let blocks = self.samples.scanline.div_ceil(block);
        let wanted = self.out.len() / self.samples.bytes();
        let mut values = [0u32; MAX_BLOCK];
        let values = values.get_mut(..block).ok_or("the block is too large")?;
        while self.count < wanted {
            let option = bits.read(option_bits).ok_or(TRUNCATED)?;
            if option == (1 << option_bits) - 1 {
                for value in values.iter_mut() {
                    *value = low32(bits.read(width).ok_or(TRUNCATED)?);
                }
                self.put(values);
                continue;
            }
            let pairs = option == 0 && bits.read(1).ok_or(TRUNCATED)? == 1;
            // The first sample of a predicted interval; the block has no code for it.
            let first = usize::from(self.samples.predicted && self.count == 0);
            if let Some(value) = values.get_mut(..first).and_then(|values| values.first_mut()) {
                *value = low32(bits.read(width).ok_or(TRUNCATED)?);
            }
            let coded = values.get_mut(first..).unwrap_or_default();
            if option > 0 {
                split_samples(bits, low32(option) - 1, coded)?;
            } else if pairs {
                second_extension(bits, first, coded)?;
            } else {
                let count = zero_blocks(bits, self.count / block, blocks)?;
                coded.fill(0);
                self.put(values);
                for _ in 1..count {
                    // `put` replaced the differences by samples.
                    values.fill(0);
                    self.put(values);
                }
                continue;
            }
            self.put(values);
        }
        Ok(())
    }

    /// Undoes the prediction of a block's samples and writes the interval's samples.
    fn put(&mut self, values: &mut [u32]) {
        if self.samples.predicted {
            let max = self.samples.max();
            let (mut last, mut rest) = (self.last, values.iter_mut());
            if last.is_none() {
                last = rest.next().map(|value| *value);
            }
            let mut last = last.unwrap_or_default();
            for value in rest {
                last = unfold(*value, last, max);
                *value = last;
            }
            self.last = Some(last);
        }
        let bytes = self.samples.bytes();
        let out = self.out.get_mut(self.count * bytes..).unwrap_or_default();
        match (bytes, self.samples.order) {
            (1, _) => write(out, values, |value| [low8(value.into())]),
            (2, ByteOrder::Little) => write(out, values, |value| low16(value.into()).to_le_bytes()),
            (2, ByteOrder::Big) => write(out, values, |value| low16(value.into()).to_be_bytes()),
            (_, ByteOrder::Little) => write(out, values, u32::to_le_bytes),
            (_, ByteOrder::Big) => write(out, values, u32::to_be_bytes),
        }
        self.count += values.len();
    }
}

#[inline(always)]
fn write<const N: usize>(out: &mut [u8], values: &[u32], bytes: impl Fn(u32) -> [u8; N]) {
    for (out, value) in out.as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *out = bytes(*value);
    }
}

/// The sample with the given folded difference from `last`. Samples range from 0 to `max`.
#[inline]
fn unfold(folded: u32, last: u32, max: u32) -> u32 {
    // Up to the nearer end of the range, differences of both signs are possible.
    let near = if last > max / 2 { max - last } else { last };
    let size = folded / 2 + folded % 2;
    if size <= near {
        if folded.is_multiple_of(2) { last.wrapping_add(size) } else { last.wrapping_sub(size) }
    } else if last > max / 2 {
        max.wrapping_sub(folded) & max
    } else {
        folded & max
    }
}

fn split_samples(bits: &mut Bits<'_>, low: u32, coded: &mut [u32]) -> Result<(), &'static str> {
    // Samples have at most 24 bits, so larger unary numbers are invalid. The bound also ends an
    // endless unary number.
    const MAX_HIGH: u32 = 1 << 24;
    for value in coded.iter_mut() {
        *value = bits.zeros(MAX_HIGH).ok_or("a unary number does not end")?;
    }
    if low > 0 {
        for value in coded.iter_mut() {
            *value = (*value).wrapping_shl(low) | low32(bits.read(low).ok_or(TRUNCATED)?);
        }
    }
    Ok(())
}

/// Decodes pairs `(a, b)`, numbered by their sum and then by `b`.
///
/// The first sample of a predicted interval is the `a` of the first pair, which then gives only its
/// `b`.
fn second_extension(bits: &mut Bits<'_>, first: usize, coded: &mut [u32]) -> Result<(), &'static str> {
    let mut at = 0;
    while at < coded.len() {
        let number = bits.zeros(MAX_PAIR).ok_or("a pair of samples is too large")?;
        // The largest sum that has at most `number` pairs before it.
        let mut sum = 0;
        while (sum + 1) * (sum + 2) / 2 <= number {
            sum += 1;
        }
        let b = number - sum * (sum + 1) / 2;
        let pair = [sum - b, b];
        let pair = if at == 0 && first == 1 { &pair[1..] } else { &pair[..] };
        for value in pair {
            if let Some(out) = coded.get_mut(at) {
                *out = *value;
            }
            at += 1;
        }
    }
    Ok(())
}

/// How many blocks have only zeros, including this one. `before` of `all` blocks are decoded.
fn zero_blocks(bits: &mut Bits<'_>, before: usize, all: usize) -> Result<usize, &'static str> {
    let number = bits.zeros(low32(SEGMENT as u64) + 1).ok_or("a number of zero blocks is too large")? + 1;
    let left = all.saturating_sub(before);
    let count = match number {
        REMAINDER_OF_SEGMENT => left.min(SEGMENT - before % SEGMENT),
        ..REMAINDER_OF_SEGMENT => number as usize,
        _ => number as usize - 1,
    };
    if count <= left { Ok(count) } else { Err("zero blocks reach past the last block") }
}

#[cfg(test)]
mod tests {
    use super::super::aec_encode::fold;
    use super::*;

    #[test]
    fn folded_differences() {
        for max in [1, 3, 7, 255] {
            for last in 0..=max {
                for sample in 0..=max {
                    assert_eq!(
                        unfold(fold(sample, last, max), last, max),
                        sample,
                        "{last} to {sample} of {max}"
                    );
                }
            }
        }
        for folded in 0..1000 {
            assert!(unfold(folded, 200, 255) <= 255, "{folded}");
        }
    }

    /// A stream of bits, given as text.
    fn stream(bits: &str) -> Vec<u8> {
        let bits: Vec<u8> = bits.bytes().filter(|bit| *bit != b' ').map(|bit| bit - b'0').collect();
        bits.chunks(8)
            .map(|eight| eight.iter().enumerate().fold(0, |byte, (i, bit)| byte | bit << (7 - i)))
            .collect()
    }

    fn samples(predicted: bool) -> Samples {
        Samples { bits: 8, block: 4, scanline: 8, predicted, order: ByteOrder::Little }
    }

    fn decode(samples: Samples, bits: &str, count: usize) -> Result<Vec<u8>, String> {
        let mut out = vec![0xA5; count];
        samples.decode(&stream(bits), &mut out).map(|()| out)
    }

    #[test]
    fn every_option() {
        let plain = |bits, count| decode(samples(false), bits, count).unwrap();
        assert_eq!(plain("111 00000001 00000010 00000011 11111111", 4), [1, 2, 3, 255]);
        assert_eq!(plain("001 1 01 001 0001", 4), [0, 1, 2, 3], "unary");
        assert_eq!(plain("011 1 01 1 01  11 00 10 01", 4), [3, 4, 2, 5], "two low bits");
        assert_eq!(plain("000 0 1  001 1 1 1 1", 8), [0; 8], "one zero block, then a block");
        assert_eq!(plain("000 0 01", 8), [0; 8], "two zero blocks");
        assert_eq!(plain("000 0 00001", 8), [0; 8], "up to the end");
        // Pairs (0, 0), (1, 0), (0, 1), (2, 0), (1, 1), … by number.
        assert_eq!(plain("000 1 01 001", 4), [1, 0, 0, 1]);
        assert_eq!(plain("000 1 00001 000001", 4), [1, 1, 0, 2]);
        assert_eq!(plain("001 1 1 1 1", 2), [0, 0], "no more than is wanted");
    }

    #[test]
    fn predicted_samples() {
        let predicted = |bits, count| decode(samples(true), bits, count).unwrap();
        // 100, then +1, -1, +2, and in the next block -2 and equal samples. The next interval
        // starts anew.
        assert_eq!(
            predicted("010 01100100 01 1 001 0 1 0  010 01 1 1 1 1 0 0 0  000 0 00001000 01", 16),
            [100, 101, 100, 102, 100, 100, 100, 100, 8, 8, 8, 8, 8, 8, 8, 8]
        );
        // The first sample of an interval replaces the first of a pair.
        assert_eq!(predicted("000 1 01100100 001 1", 4), [100, 99, 99, 99]);
    }

    #[test]
    fn what_is_wrong() {
        let message = |bits: &str| decode(samples(false), bits, 8).unwrap_err();
        assert_eq!(message(""), "scanline 0: truncated");
        assert_eq!(message("111 00000001"), "scanline 0: truncated");
        assert_eq!(message("001 0000000000000000"), "scanline 0: a unary number does not end");
        assert_eq!(message("000 0 001"), "scanline 0: zero blocks reach past the last block");
        assert_eq!(
            message(&format!("000 0 {}1", "0".repeat(70))),
            "scanline 0: a number of zero blocks is too large"
        );
        assert_eq!(
            message(&format!("000 1 {}1", "0".repeat(91))),
            "scanline 0: a pair of samples is too large"
        );
    }
}
