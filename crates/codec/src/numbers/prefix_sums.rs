//! Prefix sums of integers, many at a time.
//!
//! The result equals one addition after another, at the speed of single additions.
//!
//! A vector is added to itself, shifted by one element, by two, by four, and so on. Then each
//! element is the sum of all elements up to it. The sum of all earlier vectors is added last. Only
//! this last addition waits for the vector before.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Bytes of a vector.
#[cfg(target_arch = "x86_64")]
const VECTOR: usize = 32;

/// Writes the prefix sums of integers of `SIZE` bytes, in the machine's byte order.
///
/// Processes whole vectors from the start; sums wrap. Returns how many bytes of `dst` are written:
/// a multiple of `SIZE`, possibly 0.
pub(crate) fn prefix_sums<const SIZE: usize>(src: &[u8], dst: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::<SIZE>(src, dst) };
    }
    let _ = (src, dst);
    0
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn add<const SIZE: usize>(a: __m256i, b: __m256i) -> __m256i {
    match SIZE {
        1 => _mm256_add_epi8(a, b),
        2 => _mm256_add_epi16(a, b),
        4 => _mm256_add_epi32(a, b),
        _ => _mm256_add_epi64(a, b),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<const SIZE: usize>(src: &[u8], dst: &mut [u8]) -> usize {
    const { assert!(matches!(SIZE, 1 | 2 | 4 | 8), "integers that the processor adds") };
    // Copies the last element of each half of a vector to all places of the half.
    let size: u8 = match SIZE {
        1 => 1,
        2 => 2,
        4 => 4,
        _ => 8,
    };
    let mut last = [0; VECTOR];
    for (at, byte) in (0..).zip(&mut last) {
        *byte = 16 - size + at % size;
    }
    // SAFETY: an array of 32 bytes is read.
    let last = unsafe { _mm256_loadu_si256(last.as_ptr().cast()) };
    let mut before = _mm256_setzero_si256();
    let (src, dst) = (src.as_chunks::<VECTOR>().0, dst.as_chunks_mut::<VECTOR>().0);
    let done = src.len().min(dst.len()) * VECTOR;
    for (src, dst) in src.iter().zip(dst) {
        // SAFETY: an array of 32 bytes is read.
        let mut sums = unsafe { _mm256_loadu_si256(src.as_ptr().cast()) };
        // The shift works on each half separately.
        if SIZE <= 1 {
            sums = add::<SIZE>(sums, _mm256_slli_si256::<1>(sums));
        }
        if SIZE <= 2 {
            sums = add::<SIZE>(sums, _mm256_slli_si256::<2>(sums));
        }
        if SIZE <= 4 {
            sums = add::<SIZE>(sums, _mm256_slli_si256::<4>(sums));
        }
        sums = add::<SIZE>(sums, _mm256_slli_si256::<8>(sums));
        // Adds the first half's last sum to all of the second half.
        let half = _mm256_permute2x128_si256::<0x08>(sums, sums);
        sums = add::<SIZE>(sums, _mm256_shuffle_epi8(half, last));
        let second = _mm256_permute2x128_si256::<0x11>(sums, sums);
        // SAFETY: an array of 32 bytes is written.
        unsafe { _mm256_storeu_si256(dst.as_mut_ptr().cast(), add::<SIZE>(sums, before)) };
        before = add::<SIZE>(before, _mm256_shuffle_epi8(second, last));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<const SIZE: usize>(src: &[u8], one: impl Fn([u8; SIZE], [u8; SIZE]) -> [u8; SIZE]) {
        let mut dst = vec![7; src.len()];
        let done = prefix_sums::<SIZE>(src, &mut dst);
        assert!(done.is_multiple_of(SIZE) && done <= src.len());
        let mut sum = [0; SIZE];
        let elements = src[..done].as_chunks::<SIZE>().0;
        for (element, found) in elements.iter().zip(dst[..done].as_chunks().0) {
            sum = one(sum, *element);
            assert_eq!(*found, sum);
        }
        assert!(dst[done..].iter().all(|byte| *byte == 7));
    }

    proptest! {
        #[test]
        fn sums_of_all_sizes(src in prop::collection::vec(any::<u8>(), 0..300)) {
            check(&src, |a, b| u8::from_ne_bytes(a).wrapping_add(u8::from_ne_bytes(b)).to_ne_bytes());
            check(&src, |a, b| u16::from_ne_bytes(a).wrapping_add(u16::from_ne_bytes(b)).to_ne_bytes());
            check(&src, |a, b| u32::from_ne_bytes(a).wrapping_add(u32::from_ne_bytes(b)).to_ne_bytes());
            check(&src, |a, b| u64::from_ne_bytes(a).wrapping_add(u64::from_ne_bytes(b)).to_ne_bytes());
        }
    }

    #[test]
    fn the_shorter_one_counts() {
        let mut dst = [0; 40];
        assert!(prefix_sums::<2>(&[1; 100], &mut dst) <= 40);
        assert!(prefix_sums::<2>(&[1; 31], &mut dst) <= 31);
    }
}
