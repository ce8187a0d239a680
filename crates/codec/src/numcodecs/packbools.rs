//! `packbits` of numcodecs: eight bools in a byte.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/filter/packbits.html>
//! * v2 id: `packbits`; v3 name: `numcodecs.packbits` (`packbits` is another codec)
//!
//! ```
//! # let json = r#"
//! {"id": "packbits"}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context::of_elements("|b1".parse().unwrap());
//! # assert_eq!(CODECS.from_v2(&metadata, &array).unwrap().codec().to_v2(), Some(metadata));
//! ```
//!
//! The first byte is the number of padding bits in the last byte. The first bool of a byte is its
//! highest bit.

use crate::numbers::low_bits::low8;
use crate::registry::{Config, NoFields, numcodecs_v3};
use crate::scratch::resize_buffer;
use crate::{
    ArrayToArray, ByteOrder, Codec, CodecError, Context, DataType, Kind, Racing, Result, Scratch, front,
};
use serde_json::{Value, json};

/// The `packbits` filter of numcodecs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackBools;

impl PackBools {
    /// Reads metadata; for bools only.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let NoFields {} = config.fields("packbits")?;
        match array.dtype.kind() {
            Kind::Bool => Ok(PackBools),
            _ => {
                let why = format!("\"packbits\": expected elements of type bool, found {}", array.dtype);
                Err(CodecError::Unfit { why })
            }
        }
    }
}

/// Packs eight bools, the first in the lowest byte, into bits, the first in the highest bit.
fn pack(bools: [u8; 8]) -> u8 {
    let bytes = u64::from_le_bytes(bools);
    // 1 for each byte that is not 0.
    let low = (bytes & 0x7f7f_7f7f_7f7f_7f7f) + 0x7f7f_7f7f_7f7f_7f7f;
    let ones = ((low | bytes) >> 7) & 0x0101_0101_0101_0101;
    // Byte i moves to bit 63 - i. The shifted sums do not overlap.
    low8(ones.wrapping_mul(0x8040_2010_0804_0201) >> 56)
}

/// Packs whole bytes.
fn pack_all(bools: &[[u8; 8]], packed: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { pack_all_avx2(bools, packed) };
    }
    pack_each(bools, packed);
}

#[inline(always)]
fn pack_each(bools: &[[u8; 8]], packed: &mut [u8]) {
    for (to, from) in packed.iter_mut().zip(bools) {
        *to = pack(*from);
    }
}

/// Like [`pack_each`], 32 bools at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn pack_all_avx2(bools: &[[u8; 8]], packed: &mut [u8]) {
    use std::arch::x86_64::{__m256i, _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_shuffle_epi8};
    let zero: __m256i = bytemuck::cast([0u8; 32]);
    // `movemask` puts the last of eight bytes into the highest bit, so reverse them first.
    let turned: __m256i = bytemuck::cast([TURN, TURN + EIGHT, TURN, TURN + EIGHT]);
    let (fours, rest) = bools.as_chunks::<4>();
    let (to, last) = packed.split_at_mut(packed.len().min(4 * fours.len()));
    for (to, from) in to.as_chunks_mut::<4>().0.iter_mut().zip(fours) {
        let absent = _mm256_cmpeq_epi8(bytemuck::cast(*from), zero);
        let absent = _mm256_movemask_epi8(_mm256_shuffle_epi8(absent, turned));
        *to = (!absent).to_le_bytes();
    }
    pack_each(rest, last);
}

/// The numbers of eight bytes, in reverse.
#[cfg(target_arch = "x86_64")]
const TURN: u64 = 0x0001_0203_0405_0607;

/// Added to [`TURN`], gives the next eight bytes.
#[cfg(target_arch = "x86_64")]
const EIGHT: u64 = 0x0808_0808_0808_0808;

/// Unpacks whole bytes.
fn unpack_all(packed: &[u8], bools: &mut [[u8; 8]]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { unpack_all_avx2(packed, bools) };
    }
    unpack_each(packed, bools);
}

#[inline(always)]
fn unpack_each(packed: &[u8], bools: &mut [[u8; 8]]) {
    for (to, from) in bools.iter_mut().zip(packed) {
        *to = unpack(*from);
    }
}

/// Like [`unpack_each`], 32 bools at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn unpack_all_avx2(packed: &[u8], bools: &mut [[u8; 8]]) {
    use std::arch::x86_64::{
        __m256i, _mm256_and_si256, _mm256_cmpeq_epi8, _mm256_set1_epi8, _mm256_set1_epi32,
        _mm256_shuffle_epi8,
    };
    // Copies each byte eight times; each copy keeps a different bit.
    let ones = 0x0101_0101_0101_0101u64;
    let spread: __m256i = bytemuck::cast([0, ones, 2 * ones, 3 * ones]);
    let bits: __m256i = bytemuck::cast([0x0102_0408_1020_4080u64; 4]);
    let one = _mm256_set1_epi8(1);
    let (fours, rest) = packed.as_chunks::<4>();
    let (to, last) = bools.split_at_mut(bools.len().min(4 * fours.len()));
    for (to, from) in to.as_chunks_mut::<4>().0.iter_mut().zip(fours) {
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(i32::from_le_bytes(*from)), spread);
        let found = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bits), bits);
        *to = bytemuck::cast(_mm256_and_si256(found, one));
    }
    unpack_each(rest, last);
}

/// The inverse of [`pack`].
fn unpack(bits: u8) -> [u8; 8] {
    // Each byte keeps its own bit; then each nonzero byte becomes 1.
    let bytes = (u64::from(bits) * 0x0101_0101_0101_0101) & 0x0102_0408_1020_4080;
    (((bytes + 0x7f7f_7f7f_7f7f_7f7f) >> 7) & 0x0101_0101_0101_0101).to_le_bytes()
}

impl Codec for PackBools {
    fn name(&self) -> &'static str {
        "packbits"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let Some((padding, packed)) = src.split_first() else {
            return Err(CodecError::corrupt("packbits", "expected at least 1 byte, found none"));
        };
        let padding = usize::from(*padding);
        let bits = packed.len().saturating_mul(8);
        if padding > bits.min(7) {
            let why = format!(
                "expected at most {} padding bits in {} bytes, found {padding}",
                bits.min(7),
                packed.len()
            );
            return Err(CodecError::corrupt("packbits", why));
        }
        let bools = front("packbits", dst, bits - padding)?;
        let (whole, rest) = bools.as_chunks_mut::<8>();
        let (start, _) = packed.split_at(whole.len().min(packed.len()));
        unpack_all(start, whole);
        if let Some(last) = packed.last() {
            rest.iter_mut().zip(unpack(*last)).for_each(|(to, bool)| *to = bool);
        }
        Ok(bits - padding)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        let size = self.max_encoded(src.len());
        dst.truncate(size);
        let (whole, rest) = src.as_chunks::<8>();
        if let Some((padding, packed)) = resize_buffer(dst, size, "packbits")?.split_first_mut() {
            *padding = low8((8 - rest.len() as u64) % 8);
            let (start, _) = packed.split_at_mut(whole.len().min(packed.len()));
            pack_all(whole, start);
            if let (false, Some(to)) = (rest.is_empty(), packed.last_mut()) {
                let mut last = [0; 8];
                last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                *to = pack(last);
            }
        }
        Ok(())
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        1 + decoded.div_ceil(8)
    }

    fn to_v3(&self) -> Option<Value> {
        numcodecs_v3(self.to_v2()?)
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({"id": "packbits"}))
    }
}

impl ArrayToArray for PackBools {
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        let count = array.decoded_size().map_or(u64::MAX, |size| self.max_encoded(size) as u64);
        let dtype = DataType::new(Kind::UInt, 1, ByteOrder::NATIVE).unwrap_or(array.dtype);
        Context {
            dtype,
            vlen: None,
            optional: None,
            shape: vec![count].into(),
            fortran: false,
            by_value: array.by_value,
            fill: vec![0].into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decode, encode, noise};

    #[test]
    fn what_numcodecs_packs() {
        assert_eq!(encode(&PackBools, &[1, 0, 0, 1]), [4, 144]);
        assert_eq!(encode(&PackBools, &[1, 0, 0, 1, 0, 0, 0, 200]), [0, 145], "anything but 0 is true");
        assert_eq!(encode(&PackBools, &[]), [0]);
        assert_eq!(decode(&PackBools, &[4, 0x9f], 4).unwrap(), [1, 0, 0, 1], "padding may be anything");
    }

    #[test]
    fn round_trips() {
        for len in 0..200 {
            let bools: Vec<u8> = noise(len, len as u64).iter().map(|byte| byte & 1).collect();
            let stored = encode(&PackBools, &bools);
            assert_eq!(stored.len(), PackBools.max_encoded(len));
            assert_eq!(decode(&PackBools, &stored, len).unwrap(), bools);
            for other in (0..len).chain(len + 1..220) {
                let mut chain = crate::CodecChain::new(vec![std::sync::Arc::new(PackBools)], other);
                assert!(chain.decode(&stored, &mut vec![0; other], &mut Scratch::default(), true).is_err());
                chain = crate::CodecChain::new(vec![std::sync::Arc::new(PackBools)], len);
                chain.decode(&stored, &mut vec![0; len], &mut Scratch::default(), true).unwrap();
            }
        }
    }

    #[test]
    fn damage() {
        for bad in [&[][..], &[1], &[8, 0, 0], &[255, 0]] {
            assert!(matches!(decode(&PackBools, bad, 100), Err(CodecError::Corrupt { .. })), "{bad:?}");
        }
        assert!(matches!(decode(&PackBools, &[0, 1], 7), Err(CodecError::Size { .. })));
    }
}
