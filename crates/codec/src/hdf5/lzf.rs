//! `lzf`, filter 32000: the LZ77 format of LibLZF, from h5py.
//!
//! * Specification:
//!   <https://docs.h5py.org/en/stable/high/dataset.html#lossless-compression-filters>,
//!   <http://oldhome.schmorp.de/marc/liblzf.html>
//! * Client data (versions, chunk size) are not needed to decode.
//!
//! A stream is a list of instructions `lllooooo`:
//!
//! * `l = 0`: copy `o + 1` literal bytes, which follow;
//! * `l > 0`: copy `l + 2` bytes from `distance` back. If `l` is 7, a byte follows, which is added
//!   to the length. Then comes the low byte of the distance: `distance = 256 o + low + 1`.

use crate::blosc::blosclz::{Fault, decode_lz};
use crate::numbers::low_bits::{low8, low32};
use crate::{Codec, CodecError, Racing, Reach, Result, Scratch, chain};
use std::ops::Range;

/// The `lzf` filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lzf;

const MAX_LITERALS: usize = 32;
const MAX_DISTANCE: usize = 1 << 13;
const MAX_MATCH: usize = 255 + 7 + 2;

impl Codec for Lzf {
    fn name(&self) -> &'static str {
        "lzf"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        decode(src, dst, usize::MAX)
    }

    fn decode_range(
        &self,
        src: &[u8],
        wanted: Range<usize>,
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<usize> {
        if wanted.end == dst.len() {
            return self.decode(src, dst, scratch);
        }
        match decode(src, dst, wanted.end)? {
            written if written < wanted.end => Ok(written),
            _ => Ok(dst.len()),
        }
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        encode(src, dst);
        Ok(())
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn reach(&self) -> Reach {
        Reach::Prefix
    }
}

/// Decodes into the front of `dst` until `src` ends or there are `enough` bytes; returns their
/// number.
fn decode(src: &[u8], dst: &mut [u8], enough: usize) -> Result<usize> {
    let corrupt = |why| Err(CodecError::corrupt("lzf", why));
    match decode_lz::<false>(src, dst, enough) {
        Ok(written) => Ok(written),
        Err(Fault::Truncated) => corrupt(format!("truncated after {} bytes", src.len())),
        Err(Fault::TooLong) => Err(chain::too_large("lzf", dst.len())),
        Err(Fault::BeforeStart { distance, decoded }) => {
            corrupt(format!("a match is {distance} bytes back, but only {decoded} bytes are decoded"))
        }
    }
}

/// Encodes greedily, with the last place of each hash of three bytes.
#[expect(
    clippy::indexing_slicing,
    reason = "`at` is followed by three bytes, and `distance` is at most `at`; a hash has HASH_BITS"
)]
fn encode(src: &[u8], dst: &mut Vec<u8>) {
    const HASH_BITS: u32 = 13;
    dst.clear();
    let mut positions = [0u32; 1 << HASH_BITS];
    let (mut at, mut literals) = (0, 0);
    while let Some(&[a, b, c]) = src[at..].first_chunk() {
        let hash = u32::from_le_bytes([a, b, c, 0]).wrapping_mul(0x9E37_79B1) >> (32 - HASH_BITS);
        // Places are counted from 1. Places past 4 GiB are cut to 32 bits and never match: the
        // distance comes out too large.
        let candidate = positions[hash as usize] as usize;
        positions[hash as usize] = low32(at as u64 + 1);
        let distance = (at + 1).wrapping_sub(candidate);
        if candidate == 0 || distance > MAX_DISTANCE || src[at - distance..][..3] != [a, b, c] {
            at += 1;
            continue;
        }
        let limit = MAX_MATCH.min(src.len() - at);
        let len = (3..limit).find(|i| src[at + i] != src[at + i - distance]).unwrap_or(limit);
        put_literals(&src[literals..at], dst);
        let high = low8((distance as u64 - 1) >> 8);
        match len - 2 {
            short @ ..7 => dst.push(low8(short as u64) << 5 | high),
            long => dst.extend([7 << 5 | high, low8(long as u64 - 7)]),
        }
        dst.push(low8(distance as u64 - 1));
        at += len;
        literals = at;
    }
    put_literals(&src[literals..], dst);
}

fn put_literals(literals: &[u8], dst: &mut Vec<u8>) {
    for run in literals.chunks(MAX_LITERALS) {
        dst.push(low8(run.len() as u64) - 1);
        dst.extend_from_slice(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    #[test]
    fn stored_by_h5py() {
        // np.frombuffer(b"hyperslab " * 20, "u1")
        let known = b"\x0ahyperslab h\xe0\xb2\x09\x01b ";
        assert_eq!(decode(&Lzf, known, 200).unwrap(), b"hyperslab ".repeat(20));
    }

    #[test]
    fn round_trips_and_damage() {
        testing::check(&Lzf);
        testing::stops_early(&Lzf, 0.4);
        assert!(encode(&Lzf, &[7; 10_000]).len() < 130);
    }

    #[test]
    fn what_is_wrong() {
        let message = |src: &[u8]| decode(&Lzf, src, 10).unwrap_err().to_string();
        assert_eq!(message(b"\x02ab"), "lzf: truncated after 3 bytes");
        assert_eq!(message(b"\0a\xe0\x01"), "lzf: truncated after 4 bytes");
        assert_eq!(message(b"\0a\x20\x01"), "lzf: a match is 2 bytes back, but only 1 bytes are decoded");
        assert_eq!(message(b"\0a\xe0\x01\0"), "lzf: decodes to 11 bytes where 10 are expected");
        assert_eq!(message(b"\x0ahyperslab h"), "lzf: decodes to 11 bytes where 10 are expected");
    }
}
