//! `fletcher32`, filter 3 of HDF5: a checksum after the bytes.
//!
//! * Specification: HDF5 file format, IV.A.2.l, filter 3; no client data
//! * v2 id: `fletcher32`; v3 name: `numcodecs.fletcher32`
//!
//! The bytes are read as big-endian 16-bit words; an odd last byte is the upper half of a word. For
//! `n` words `w`, `sum1 = Σ w[i]` and `sum2 = Σ (n - i) w[i]`, each modulo 65 535, except that a
//! nonzero sum divisible by 65 535 becomes 65 535, not 0. The checksum is four little-endian bytes:
//! `sum1`, then `sum2`. HDF5 1.6.2 and earlier swapped the bytes within both sums on little-endian
//! machines, so both forms are accepted, as in the HDF5 library.

use crate::numbers::low_bits::low32;
use crate::{Codec, CodecError, Racing, Result, Scratch, copy_front, room};
use serde_json::{Value, json};

/// The `fletcher32` filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fletcher32;

/// Words that are summed side by side.
const LANES: usize = 16;
/// Rows of `LANES` words before 32-bit sums could overflow: `rows (rows + 1) / 2` words of 65 535
/// fit.
const ROWS: usize = 360;

impl Fletcher32 {
    fn verify_payload<'a>(&self, src: &'a [u8], verify: bool) -> Result<&'a [u8]> {
        let Some((payload, stored)) = src.split_last_chunk() else {
            let why = format!("truncated: expected at least 4 bytes for the checksum, found {}", src.len());
            return Err(CodecError::corrupt("fletcher32", why));
        };
        if verify {
            let (expected, found) = (u32::from_le_bytes(*stored), sum(payload));
            // Each half with its bytes swapped: swap all four bytes, then the halves.
            if expected != found && expected != found.swap_bytes().rotate_left(16) {
                return Err(CodecError::Checksum { codec: "fletcher32", expected, found });
            }
        }
        Ok(payload)
    }
}

impl Codec for Fletcher32 {
    fn name(&self) -> &'static str {
        "fletcher32"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        copy_front("fletcher32", self.verify_payload(src, true)?, dst)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        dst.clear();
        room::reserve(dst, src.len().saturating_add(4), "fletcher32")?;
        dst.extend_from_slice(src);
        // Sum the copy, because `src` may change.
        let sum = sum(dst);
        dst.extend_from_slice(&sum.to_le_bytes());
        Ok(())
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded.saturating_add(4)
    }

    fn unframe<'a>(&self, src: &'a [u8], verify: bool) -> Option<Result<&'a [u8]>> {
        Some(self.verify_payload(src, verify))
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": "numcodecs.fletcher32", "configuration": {}}))
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({"id": "fletcher32"}))
    }
}

/// The checksum: `sum1` in the lower half, `sum2` in the upper.
fn sum(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { sum_avx2(bytes) };
    }
    sum_lanes(bytes)
}

/// Like [`sum_lanes`], compiled for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2(bytes: &[u8]) -> u32 {
    sum_lanes(bytes)
}

/// Sums words in lanes: word `r LANES + j` of a block of `R` rows goes to lane `j`.
///
/// Let `a[j]` be the sum of lane `j`, and `b[j]` the sum of its words times `R - r`. The block then
/// adds `Σ LANES b[j] - j a[j]` to `sum2`.
#[inline(always)]
fn sum_lanes(bytes: &[u8]) -> u32 {
    let (mut sum1, mut sum2) = (0u64, 0u64);
    let mut blocks = bytes.chunks_exact(2 * LANES * ROWS);
    for block in &mut blocks {
        add_rows(block, &mut sum1, &mut sum2);
    }
    let rest = blocks.remainder();
    let (rows, rest) = rest.split_at(rest.len() - rest.len() % (2 * LANES));
    add_rows(rows, &mut sum1, &mut sum2);
    let (words, odd) = rest.as_chunks::<2>();
    for word in words.iter().copied().chain(odd.first().map(|byte| [*byte, 0])) {
        sum1 += u64::from(u16::from_be_bytes(word));
        sum2 += sum1;
    }
    fold(sum2) << 16 | fold(sum1)
}

/// Adds at most [`ROWS`] whole rows. Sums stay below 2^33, because each block reduces them at its
/// end.
#[inline(always)]
fn add_rows(rows: &[u8], sum1: &mut u64, sum2: &mut u64) {
    let (mut a, mut b) = ([0u32; LANES], [0u32; LANES]);
    let (rows, _) = rows.as_chunks::<{ 2 * LANES }>();
    for row in rows {
        for ((word, a), b) in row.as_chunks::<2>().0.iter().zip(&mut a).zip(&mut b) {
            *a += u32::from(u16::from_be_bytes(*word));
            *b += *a;
        }
    }
    let mut block = 0;
    for (j, (a, b)) in a.into_iter().zip(b).enumerate() {
        // Never negative: each word of a lane counts at least once in `b`, and `j < LANES`.
        block += LANES as u64 * u64::from(b) - j as u64 * u64::from(a);
    }
    *sum2 = fold(*sum2 + (rows.len() * LANES) as u64 * *sum1 + block).into();
    *sum1 = fold(*sum1 + a.into_iter().map(u64::from).sum::<u64>()).into();
}

/// Modulo 65 535, except that only 0 itself gives 0.
fn fold(sum: u64) -> u32 {
    match sum % 0xffff {
        0 if sum != 0 => 0xffff,
        rest => low32(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode, noise};

    /// The definition, folded as HDF5 does.
    fn slow(bytes: &[u8]) -> u32 {
        let (mut sum1, mut sum2) = (0u32, 0u32);
        for word in bytes.chunks(2) {
            sum1 += u32::from(word[0]) << 8 | u32::from(word.get(1).copied().unwrap_or(0));
            sum1 = (sum1 & 0xffff) + (sum1 >> 16);
            sum2 += sum1;
            sum2 = (sum2 & 0xffff) + (sum2 >> 16);
        }
        sum2 << 16 | sum1
    }

    #[test]
    fn stored_by_hdf5() {
        // h5py: np.arange(10, dtype="i4"); np.arange(7, dtype="u1") has an odd length.
        let ints: Vec<u8> = (0..10i32).flat_map(i32::to_le_bytes).collect();
        assert_eq!(encode(&Fletcher32, &ints)[40..], INTS);
        assert_eq!(encode(&Fletcher32, &[0, 1, 2, 3, 4, 5, 6])[7..], ODD);
        assert_eq!(encode(&Fletcher32, &[0; 8])[8..], [0; 4]);
        assert_eq!(encode(&Fletcher32, &[0xff; 8])[8..], [0xff; 4], "divisible is not zero");
    }

    const INTS: [u8; 4] = [0, 45, 1, 74];
    const ODD: [u8; 4] = [9, 12, 23, 20];

    #[test]
    fn as_the_definition() {
        let everything = noise(2 * LANES * ROWS * 3 + 50, 3);
        let whites = vec![0xff; everything.len()];
        for len in (0..200).chain([11_519, 11_520, 11_521, 23_040, 30_001, everything.len()]) {
            for bytes in [&everything, &whites] {
                assert_eq!(sum(&bytes[..len]), slow(&bytes[..len]), "{len}");
                assert_eq!(sum_lanes(&bytes[..len]), slow(&bytes[..len]), "{len}");
            }
        }
        assert_eq!(sum(&[0; 100_000]), 0);
    }

    #[test]
    fn round_trips_and_damage() {
        testing::check(&Fletcher32);
        let good = encode(&Fletcher32, b"some bytes");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(matches!(decode(&Fletcher32, &bad, 10), Err(CodecError::Checksum { .. })), "{at}");
            assert_eq!(Fletcher32.unframe(&bad, false).unwrap().unwrap().len(), 10);
        }
    }

    #[test]
    fn sums_of_old_versions() {
        let mut stored = encode(&Fletcher32, b"some bytes");
        stored[10..].rotate_left(2);
        stored[10..].reverse();
        assert_eq!(decode(&Fletcher32, &stored, 10).unwrap(), b"some bytes");
        stored[10..].rotate_left(1);
        assert!(decode(&Fletcher32, &stored, 10).is_err());
    }
}
