//! Bit shuffle: bit 0 of byte 0 of all elements, then bit 1 of byte 0, and so on.
//!
//! Eight elements' bits make a byte, the first element's bit lowest. This equals a byte shuffle
//! followed by splitting each row of bytes into eight rows of bits.
//!
//! Groups of elements are byte-shuffled in a small buffer, and their rows are split from there, so
//! that both passes stay in the L1 cache. The number of elements must be a multiple of eight. Bytes
//! after the last element are copied unchanged.

use super::shuffle::{shuffle, unshuffle};

/// Bytes of a row that the kernels process at once. A group is a multiple of this.
const PIECE: usize = 256;
/// The most bytes in a group: one piece of elements of up to 64 bytes. Larger elements take the
/// slow path. A group is larger than a piece because rows of bits are often a power of two apart,
/// and so compete for the same few cache lines. A group should fill whole lines of each row before
/// it goes on to the next row.
const GROUP: usize = 16 << 10;

/// Shuffles the bits of `src` into `dst`, which has the same length.
pub(crate) fn bitshuffle(typesize: usize, src: &[u8], dst: &mut [u8]) {
    bitshuffle_with(typesize, src, dst, Kernel::detect());
}

/// Undoes [`bitshuffle`].
pub(crate) fn bitunshuffle(typesize: usize, src: &[u8], dst: &mut [u8]) {
    bitunshuffle_with(typesize, src, dst, Kernel::detect());
}

#[expect(
    clippy::indexing_slicing,
    reason = "`done + group` is at most `n`: all ranges end within `n * typesize`, which both slices have"
)]
fn bitshuffle_with(typesize: usize, src: &[u8], dst: &mut [u8], kernel: Kernel) {
    assert_eq!(src.len(), dst.len());
    let n = src.len() / typesize;
    assert!(n.is_multiple_of(8));
    let (row, whole) = (n / 8, n * typesize);
    let mut done = 0;
    let mut bytes = [0; GROUP];
    loop {
        let group = (n - done).min(GROUP / typesize) / PIECE * PIECE;
        if group == 0 {
            break;
        }
        let bytes = &mut bytes[..group * typesize];
        shuffle(typesize, &src[done * typesize..][..group * typesize], bytes);
        for (byte, plane) in bytes.chunks_exact(group).enumerate() {
            let rows = &mut dst[byte * 8 * row..(byte + 1) * 8 * row];
            for (i, piece) in plane.as_chunks::<PIECE>().0.iter().enumerate() {
                kernel.split(piece, rows, row, done / 8 + i * (PIECE / 8));
            }
        }
        done += group;
    }
    for (at, eight) in src[done * typesize..whole].chunks_exact(8 * typesize).enumerate() {
        for byte in 0..typesize {
            let matrix = std::array::from_fn(|element| eight[element * typesize + byte]);
            let columns = transpose(u64::from_le_bytes(matrix)).to_le_bytes();
            for (bit, value) in columns.into_iter().enumerate() {
                dst[(byte * 8 + bit) * row + done / 8 + at] = value;
            }
        }
    }
    dst[whole..].copy_from_slice(&src[whole..]);
}

#[expect(
    clippy::indexing_slicing,
    reason = "`done + group` is at most `n`: all ranges end within `n * typesize`, which both slices have"
)]
fn bitunshuffle_with(typesize: usize, src: &[u8], dst: &mut [u8], kernel: Kernel) {
    assert_eq!(src.len(), dst.len());
    let n = src.len() / typesize;
    assert!(n.is_multiple_of(8));
    let (row, whole) = (n / 8, n * typesize);
    let mut done = 0;
    let mut bytes = [0; GROUP];
    loop {
        let group = (n - done).min(GROUP / typesize) / PIECE * PIECE;
        if group == 0 {
            break;
        }
        let bytes = &mut bytes[..group * typesize];
        for (byte, plane) in bytes.chunks_exact_mut(group).enumerate() {
            let rows = &src[byte * 8 * row..(byte + 1) * 8 * row];
            for (i, piece) in plane.as_chunks_mut::<PIECE>().0.iter_mut().enumerate() {
                kernel.join(rows, row, done / 8 + i * (PIECE / 8), piece);
            }
        }
        unshuffle(typesize, bytes, &mut dst[done * typesize..][..group * typesize]);
        done += group;
    }
    for (at, eight) in dst[done * typesize..whole].chunks_exact_mut(8 * typesize).enumerate() {
        for byte in 0..typesize {
            let matrix = std::array::from_fn(|bit| src[(byte * 8 + bit) * row + done / 8 + at]);
            let elements = transpose(u64::from_le_bytes(matrix)).to_le_bytes();
            for (element, value) in elements.into_iter().enumerate() {
                eight[element * typesize + byte] = value;
            }
        }
    }
    dst[whole..].copy_from_slice(&src[whole..]);
}

/// Transposes an 8×8 matrix of bits whose rows are the bytes of `x`: swaps blocks of 1, 2 and 4
/// bits across the diagonal.
fn transpose(mut x: u64) -> u64 {
    for (distance, mask) in [(7, 0x00aa_00aa_00aa_00aa), (14, 0x0000_cccc_0000_cccc), (28, 0xf0f0_f0f0)] {
        let swap = (x ^ (x >> distance)) & mask;
        x ^= swap ^ (swap << distance);
    }
    x
}

/// Which code moves bits between one row of bytes and its eight rows of bits, `row` bytes apart.
#[derive(Clone, Copy, Debug)]
enum Kernel {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Kernel {
    fn detect() -> Kernel {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            return Kernel::Avx2;
        }
        Kernel::Scalar
    }

    /// Writes the bits of `plane` to the 32 bytes at `at` of each row.
    #[expect(clippy::indexing_slicing, reason = "`rows` are eight rows, and `at + i` is within one")]
    fn split(self, plane: &[u8; PIECE], rows: &mut [u8], row: usize, at: usize) {
        match self {
            Kernel::Scalar => {
                for (i, eight) in plane.as_chunks::<8>().0.iter().enumerate() {
                    let bits = transpose(u64::from_le_bytes(*eight)).to_le_bytes();
                    for (bit, value) in bits.into_iter().enumerate() {
                        rows[bit * row + at + i] = value;
                    }
                }
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => {
                // SAFETY: `detect` saw AVX2.
                unsafe { avx2::split(plane, rows, row, at) }
            }
        }
    }

    /// Undoes [`Kernel::split`].
    #[expect(clippy::indexing_slicing, reason = "`rows` are eight rows, and `at + i` is within one")]
    fn join(self, rows: &[u8], row: usize, at: usize, plane: &mut [u8; PIECE]) {
        match self {
            Kernel::Scalar => {
                for (i, eight) in plane.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                    let bits = std::array::from_fn(|bit| rows[bit * row + at + i]);
                    *eight = transpose(u64::from_le_bytes(bits)).to_le_bytes();
                }
            }
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => {
                // SAFETY: `detect` saw AVX2.
                unsafe { avx2::join(rows, row, at, plane) }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::super::shuffle::avx2::riffle;
    use super::PIECE;
    use std::arch::x86_64::*;

    /// Bytes of one row of bits per piece.
    const BITS: usize = PIECE / 8;

    /// One instruction takes the highest bit of each of 32 bytes; doubling the bytes moves the next
    /// bit up.
    #[target_feature(enable = "avx2")]
    pub(super) fn split(plane: &[u8; PIECE], rows: &mut [u8], row: usize, at: usize) {
        assert!(rows.len() == 8 * row && at + BITS <= row);
        for i in (0..PIECE).step_by(64) {
            // SAFETY: `i + 64 <= PIECE`.
            let (mut low, mut high) = unsafe {
                let from = plane.as_ptr().add(i);
                (_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast()))
            };
            for bit in (0..8).rev() {
                let bits = u64::from(_mm256_movemask_epi8(low) as u32)
                    | u64::from(_mm256_movemask_epi8(high) as u32) << 32;
                // SAFETY: row `bit < 8` has `row` bytes, and `at..at + 32` of them belong to this
                // piece.
                unsafe { rows.as_mut_ptr().add(bit * row + at + i / 8).cast::<u64>().write_unaligned(bits) }
                low = _mm256_add_epi8(low, low);
                high = _mm256_add_epi8(high, high);
            }
        }
    }

    /// Three riffles bring the eight bytes of a bit matrix together; each matrix is then transposed
    /// in its 64-bit lane.
    #[target_feature(enable = "avx2")]
    pub(super) fn join(rows: &[u8], row: usize, at: usize, plane: &mut [u8; PIECE]) {
        assert!(rows.len() == 8 * row && at + BITS <= row);
        let mut r = [_mm256_setzero_si256(); 8];
        for (bit, r) in r.iter_mut().enumerate() {
            // SAFETY: row `bit < 8` has `row` bytes, and only `at..at + 32` are read.
            unsafe { *r = _mm256_loadu_si256(rows.as_ptr().add(bit * row + at).cast()) }
        }
        let mut r = riffle(riffle(riffle(r)));
        // Not `map`: the compiler does not inline AVX2 code into it.
        for r in &mut r {
            *r = transpose(*r);
        }
        for (i, [even, odd]) in r.as_chunks::<2>().0.iter().enumerate() {
            let low = _mm256_permute2x128_si256(*even, *odd, 0x20);
            let high = _mm256_permute2x128_si256(*even, *odd, 0x31);
            // SAFETY: `128 + 3 * 32 + 32 == PIECE`.
            unsafe {
                let out = plane.as_mut_ptr().add(32 * i);
                _mm256_storeu_si256(out.cast(), low);
                _mm256_storeu_si256(out.add(PIECE / 2).cast(), high);
            }
        }
    }

    /// As the outer `transpose`, for four `u64` at once.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn transpose(mut x: __m256i) -> __m256i {
        macro_rules! swap {
            ($distance:literal, $mask:literal) => {
                let mask = _mm256_set1_epi64x($mask);
                let swap = _mm256_and_si256(_mm256_xor_si256(x, _mm256_srli_epi64(x, $distance)), mask);
                x = _mm256_xor_si256(x, _mm256_xor_si256(swap, _mm256_slli_epi64(swap, $distance)));
            };
        }
        swap!(7, 0x00aa_00aa_00aa_00aa);
        swap!(14, 0x0000_cccc_0000_cccc);
        swap!(28, 0xf0f0_f0f0);
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn definition(typesize: usize, src: &[u8]) -> Vec<u8> {
        let n = src.len() / typesize;
        let whole = n * typesize;
        let mut out = vec![0; src.len()];
        out[whole..].copy_from_slice(&src[whole..]);
        for element in 0..n {
            for bit in 0..typesize * 8 {
                let value = src[element * typesize + bit / 8] >> (bit % 8) & 1;
                out[bit * (n / 8) + element / 8] |= value << (element % 8);
            }
        }
        out
    }

    proptest! {
        #[test]
        fn like_the_definition(
            typesize in prop_oneof![1usize..=20, Just(32usize), Just(255)],
            eights in 0usize..600,
            rest in 0usize..20,
            seed in any::<u64>(),
            skip in 0usize..33,
        ) {
            let len = eights * 8 * typesize + rest % typesize;
            let data = crate::testing::noise(skip + len, seed);
            let src = &data[skip..];
            let expected = definition(typesize, src);
            for kernel in [Kernel::Scalar, Kernel::detect()] {
                // One byte of slack on both sides shows writes out of bounds and makes `dst`
                // misaligned.
                let mut out = vec![0xa5; len + 2];
                bitshuffle_with(typesize, src, &mut out[1..=len], kernel);
                prop_assert_eq!(&out[1..=len], &expected[..], "{:?}", kernel);
                bitunshuffle_with(typesize, &expected, &mut out[1..=len], kernel);
                prop_assert_eq!(&out[1..=len], src, "{:?}", kernel);
                prop_assert_eq!((out[0], out[len + 1]), (0xa5, 0xa5));
            }
        }
    }
}
