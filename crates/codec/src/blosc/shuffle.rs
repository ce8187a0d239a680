//! Byte shuffle: the first bytes of all elements, then the second bytes, and so on.
//!
//! Bytes after the last whole element are copied unchanged.
//!
//! The AVX2 kernels rest on one step, the riffle: interleave the first half of a sequence of bytes
//! with the second half. A riffle rotates the binary address of every byte left by one. Byte `j` of
//! element `e`, out of 16 elements, is at address `e:j` before shuffling (4 bits of `e`, k bits of
//! `j` for elements of 2^k bytes) and at `j:e` after. Hence 4 riffles shuffle and k riffles
//! unshuffle.
//! Elements of other sizes go through windows of 16 bytes: a small element and the bytes after it,
//! or a piece of a large element.

/// Elements per tile of the scalar code. A tile of common elements fits in the L1 cache.
const TILE: usize = 256;

/// Defines a function that moves all elements. AVX2 kernels, if available, move most of them, and
/// scalar code the rest.
macro_rules! by_typesize {
    ($(#[$doc:meta])* $name:ident, $any:ident, $scalar:ident) => {
        $(#[$doc])*
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        pub(crate) fn $name(typesize: usize, src: &[u8], dst: &mut [u8]) {
            assert_eq!(src.len(), dst.len());
            let mut done = 0;
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2.
                done = unsafe {
                    match typesize {
                        1 => 0,
                        2 => avx2::$name::<2>(src, dst),
                        4 => avx2::$name::<4>(src, dst),
                        8 => avx2::$name::<8>(src, dst),
                        16 => avx2::$name::<16>(src, dst),
                        _ => avx2::$any(typesize, src, dst),
                    }
                };
            }
            match typesize {
                1 => dst.copy_from_slice(src),
                2 => $scalar(2, src, dst, done),
                4 => $scalar(4, src, dst, done),
                8 => $scalar(8, src, dst, done),
                _ => $scalar(typesize, src, dst, done),
            }
        }
    };
}

by_typesize! {
    /// Shuffles `src` into `dst`, which has the same length.
    shuffle, shuffle_any, scalar_shuffle
}
by_typesize! {
    /// Undoes [`shuffle`].
    unshuffle, unshuffle_any, scalar_unshuffle
}

/// Moves elements `from` and later, and the bytes after them. Inlined into callers with a constant
/// `typesize`, so that it can be vectorised.
#[inline(always)]
#[expect(
    clippy::indexing_slicing,
    reason = "`end` is at most `n`: all ranges end within `n * typesize`, which both slices have"
)]
fn scalar_shuffle(typesize: usize, src: &[u8], dst: &mut [u8], from: usize) {
    let n = src.len() / typesize;
    let whole = n * typesize;
    for at in (from..n).step_by(TILE) {
        let end = n.min(at + TILE);
        let elements = &src[at * typesize..end * typesize];
        for byte in 0..typesize {
            let row = &mut dst[byte * n + at..byte * n + end];
            for (out, element) in row.iter_mut().zip(elements.chunks_exact(typesize)) {
                *out = element[byte];
            }
        }
    }
    dst[whole..].copy_from_slice(&src[whole..]);
}

#[inline(always)]
#[expect(
    clippy::indexing_slicing,
    reason = "`end` is at most `n`: all ranges end within `n * typesize`, which both slices have"
)]
fn scalar_unshuffle(typesize: usize, src: &[u8], dst: &mut [u8], from: usize) {
    let n = src.len() / typesize;
    let whole = n * typesize;
    for at in (from..n).step_by(TILE) {
        let end = n.min(at + TILE);
        let elements = &mut dst[at * typesize..end * typesize];
        for byte in 0..typesize {
            let row = &src[byte * n + at..byte * n + end];
            for (element, &value) in elements.chunks_exact_mut(typesize).zip(row) {
                element[byte] = value;
            }
        }
    }
    dst[whole..].copy_from_slice(&src[whole..]);
}

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2 {
    use std::arch::x86_64::*;

    /// Elements per step: two lanes of 16.
    const STEP: usize = 32;
    /// Bytes of a lane.
    const WINDOW: usize = 16;

    /// Riffles the `16 N` bytes in the low lanes, and separately those in the high lanes.
    #[inline]
    #[target_feature(enable = "avx2")]
    #[expect(clippy::indexing_slicing, reason = "`i` is less than half of N")]
    pub(crate) fn riffle<const N: usize>(r: [__m256i; N]) -> [__m256i; N] {
        let mut out = r;
        for i in 0..N / 2 {
            out[2 * i] = _mm256_unpacklo_epi8(r[i], r[i + N / 2]);
            out[2 * i + 1] = _mm256_unpackhi_epi8(r[i], r[i + N / 2]);
        }
        out
    }

    /// Shuffles the first elements, a multiple of 32, and returns their number. `N`, the bytes of
    /// an element, is a power of two.
    #[target_feature(enable = "avx2")]
    pub(super) fn shuffle<const N: usize>(src: &[u8], dst: &mut [u8]) -> usize {
        assert_eq!(src.len(), dst.len());
        let n = src.len() / N;
        let done = n - n % STEP;
        for at in (0..done).step_by(STEP) {
            let mut r = [_mm256_setzero_si256(); N];
            for (i, r) in r.iter_mut().enumerate() {
                // SAFETY: elements `at..at + 32` are whole, so 32 N bytes can be read at `at * N`:
                // the low lanes hold the first half of them, the high lanes the second.
                unsafe {
                    let low = src.as_ptr().add(at * N + 16 * i);
                    let lanes = _mm256_castsi128_si256(_mm_loadu_si128(low.cast()));
                    *r = _mm256_inserti128_si256(lanes, _mm_loadu_si128(low.add(16 * N).cast()), 1);
                }
            }
            let r = riffle(riffle(riffle(riffle(r))));
            for (byte, r) in r.into_iter().enumerate() {
                // SAFETY: row `byte < N` has n bytes, and only `at..at + 32` are written.
                unsafe { _mm256_storeu_si256(dst.as_mut_ptr().add(byte * n + at).cast(), r) }
            }
        }
        done
    }

    /// Undoes [`shuffle`].
    #[target_feature(enable = "avx2")]
    pub(super) fn unshuffle<const N: usize>(src: &[u8], dst: &mut [u8]) -> usize {
        assert_eq!(src.len(), dst.len());
        let n = src.len() / N;
        let done = n - n % STEP;
        for at in (0..done).step_by(STEP) {
            let mut r = [_mm256_setzero_si256(); N];
            for (byte, r) in r.iter_mut().enumerate() {
                // SAFETY: row `byte < N` has n bytes, and only `at..at + 32` are read.
                unsafe { *r = _mm256_loadu_si256(src.as_ptr().add(byte * n + at).cast()) }
            }
            for _ in 0..N.ilog2() {
                r = riffle(r);
            }
            for (i, [even, odd]) in r.as_chunks::<2>().0.iter().enumerate() {
                let low = _mm256_permute2x128_si256(*even, *odd, 0x20);
                let high = _mm256_permute2x128_si256(*even, *odd, 0x31);
                // SAFETY: elements `at..at + 32` are whole: 32 N bytes can be written at `at * N`,
                // the low lanes as the first half of them, the high lanes as the second.
                unsafe {
                    let out = dst.as_mut_ptr().add(at * N + 32 * i);
                    _mm256_storeu_si256(out.cast(), low);
                    _mm256_storeu_si256(out.add(16 * N).cast(), high);
                }
            }
        }
        done
    }

    /// Start offsets of an element's windows. They cover the whole element; the last may overlap
    /// the one before.
    fn windows(typesize: usize) -> impl Iterator<Item = usize> {
        (0..typesize.div_ceil(WINDOW)).map(move |i| (i * WINDOW).min(typesize.saturating_sub(WINDOW)))
    }

    /// Leading elements whose windows are all inside the block, rounded down to whole steps.
    fn windowed(typesize: usize, len: usize) -> usize {
        let elements = match len.checked_sub(typesize.max(WINDOW)) {
            Some(last) => last / typesize + 1,
            None => 0,
        };
        elements - elements % STEP
    }

    /// Like [`shuffle`], for elements of any size.
    #[target_feature(enable = "avx2")]
    pub(super) fn shuffle_any(typesize: usize, src: &[u8], dst: &mut [u8]) -> usize {
        assert_eq!(src.len(), dst.len());
        let n = src.len() / typesize;
        let done = windowed(typesize, src.len());
        for at in (0..done).step_by(STEP) {
            for window in windows(typesize) {
                let mut r = [_mm256_setzero_si256(); WINDOW];
                for (i, r) in r.iter_mut().enumerate() {
                    // SAFETY: `windowed` made sure that 16 bytes can be read at `window` of
                    // elements `at..at + 32`.
                    unsafe {
                        let low = src.as_ptr().add((at + i) * typesize + window);
                        let lanes = _mm256_castsi128_si256(_mm_loadu_si128(low.cast()));
                        let high = low.add(WINDOW * typesize);
                        *r = _mm256_inserti128_si256(lanes, _mm_loadu_si128(high.cast()), 1);
                    }
                }
                let r = riffle(riffle(riffle(riffle(r))));
                for (byte, r) in r.into_iter().enumerate().take(typesize) {
                    // SAFETY: row `window + byte < typesize` has n bytes, and only `at..at + 32`
                    // are written.
                    unsafe { _mm256_storeu_si256(dst.as_mut_ptr().add((window + byte) * n + at).cast(), r) }
                }
            }
        }
        done
    }

    /// Undoes [`shuffle_any`]. The window of a small element writes past the element. The windows
    /// of the following elements repair that. The last window overwrites up to 15 bytes of elements
    /// that are not yet counted as done.
    #[target_feature(enable = "avx2")]
    pub(super) fn unshuffle_any(typesize: usize, src: &[u8], dst: &mut [u8]) -> usize {
        assert_eq!(src.len(), dst.len());
        let n = src.len() / typesize;
        let done = windowed(typesize, src.len());
        for at in (0..done).step_by(STEP) {
            for window in windows(typesize) {
                let mut r = [_mm256_setzero_si256(); WINDOW];
                for (byte, r) in r.iter_mut().enumerate().take(typesize) {
                    // SAFETY: row `window + byte < typesize` has n bytes, and only `at..at + 32`
                    // are read.
                    unsafe { *r = _mm256_loadu_si256(src.as_ptr().add((window + byte) * n + at).cast()) }
                }
                let r = riffle(riffle(riffle(riffle(r))));
                // Written in the order of elements, as the repair requires. The low lanes hold the
                // first 16.
                for (i, r) in r.into_iter().enumerate() {
                    // SAFETY: `windowed` made sure that 16 bytes can be written at `window` of
                    // elements `at..at + 32`.
                    unsafe {
                        let out = dst.as_mut_ptr().add((at + i) * typesize + window);
                        _mm_storeu_si128(out.cast(), _mm256_castsi256_si128(r));
                    }
                }
                for (i, r) in r.into_iter().enumerate() {
                    // SAFETY: as above.
                    unsafe {
                        let out = dst.as_mut_ptr().add((at + WINDOW + i) * typesize + window);
                        _mm_storeu_si128(out.cast(), _mm256_extracti128_si256(r, 1));
                    }
                }
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_case() {
        let mut out = [0; 8];
        shuffle(3, b"abcABC12", &mut out);
        assert_eq!(&out, b"aAbBcC12");
        let mut back = [0; 8];
        unshuffle(3, &out, &mut back);
        assert_eq!(&back, b"abcABC12");
    }

    proptest! {
        #[test]
        fn like_the_definition(
            typesize in prop_oneof![1usize..=20, Just(32usize), Just(255)],
            data in proptest::collection::vec(any::<u8>(), 0..5000),
            skip in 0usize..33,
        ) {
            let src = &data[skip.min(data.len())..];
            let n = src.len() / typesize;
            let mut expected = src.to_vec();
            for element in 0..n {
                for byte in 0..typesize {
                    expected[byte * n + element] = src[element * typesize + byte];
                }
            }
            // One byte of slack on both sides shows writes out of bounds and makes `dst`
            // misaligned.
            let mut out = vec![0xa5; src.len() + 2];
            shuffle(typesize, src, &mut out[1..=src.len()]);
            prop_assert_eq!(&out[1..=src.len()], &expected[..]);
            prop_assert_eq!((out[0], out[src.len() + 1]), (0xa5, 0xa5));

            let mut scalar = vec![0; src.len()];
            scalar_shuffle(typesize, src, &mut scalar, 0);
            prop_assert_eq!(&scalar, &expected);
            scalar_unshuffle(typesize, &expected, &mut scalar, 0);
            prop_assert_eq!(&scalar, src);

            unshuffle(typesize, &expected, &mut out[1..=src.len()]);
            prop_assert_eq!(&out[1..=src.len()], src);
            prop_assert_eq!((out[0], out[src.len() + 1]), (0xa5, 0xa5));
        }
    }
}
