//! Transposition: copies of planes whose fastest axis differs between the two sides.
//!
//! A loop along one side meets the other side with a large stride: every element lies on another
//! cache line, often on another page. Typical strides are powers of two. All of these lines then
//! fall into the same few sets of the cache, and are evicted before their neighbours are used. A
//! plane is therefore cut into tiles of whole cache lines on both sides, and each tile goes through
//! a buffer:
//!
//! 1. Its source lines are loaded, each once and whole, into consecutive memory.
//! 2. It is transposed there, in blocks that fit into registers.
//! 3. Its destination lines are stored, each once and whole. If the destination is larger than the
//!    caches, the stores bypass them. Otherwise each line would first be loaded, only to be
//!    overwritten.

#![expect(clippy::indexing_slicing, reason = "a tile's sides are powers of two, known when it is compiled")]

use crate::copy::row::{Axis, copy_row};
use crate::copy::swap;
use crate::copy::unit::Unit;

/// Bytes of a tile's line, on both sides.
const LINE: usize = 64;

/// Bytes of the largest tile, for elements of one byte.
const TILE: usize = LINE * LINE;

/// Bytes of a register.
const REGISTER: usize = 16;

/// Copies a plane whose fastest axis is `across` in the source and `last` in the destination.
///
/// `large`: all planes together are larger than the caches.
///
/// # Safety
/// For every index of the two axes, `dst + Σ index · dst stride` must be valid for writes of a `T`
/// and `src + …` for reads; the two sides must not overlap.
pub(crate) unsafe fn copy<T: Unit, const SWAP: bool>(
    across: Axis,
    last: Axis,
    large: bool,
    dst: *mut u8,
    src: *const u8,
) {
    let size = size_of::<T>() as isize;
    let side = LINE / size_of::<T>();
    let dense = across.src == size && last.dst == size;
    let (mut loaded, mut turned) = (Tile([0; TILE]), Tile([0; TILE]));
    // A line that straddles two cache lines would be stored in two halves. This is slower than
    // anything else.
    let past = large && dst.addr().is_multiple_of(LINE) && across.dst.unsigned_abs().is_multiple_of(LINE);
    for a in (0..across.len).step_by(side) {
        let rows = side.min(across.len - a);
        for b in (0..last.len).step_by(side) {
            let columns = side.min(last.len - b);
            let dst = dst.wrapping_offset(a as isize * across.dst + b as isize * last.dst);
            let src = src.wrapping_offset(a as isize * across.src + b as isize * last.src);
            // SAFETY: a tile of the plane. In the first case it is a whole tile, with contiguous
            // lines.
            unsafe {
                if dense && rows == side && columns == side {
                    for (row, line) in lines(&mut loaded, side).enumerate() {
                        let src = src.wrapping_offset(row as isize * last.src);
                        *line = src.cast::<[u8; LINE]>().read_unaligned();
                    }
                    turn::<T>(&loaded.0, &mut turned.0);
                    if SWAP {
                        swap::in_place(&mut turned.0[..side * LINE], size_of::<T>());
                    }
                    for (row, line) in lines(&mut turned, side).enumerate() {
                        let dst = dst.wrapping_offset(row as isize * across.dst);
                        if past {
                            store_past(dst, line);
                        } else {
                            dst.cast::<[u8; LINE]>().write_unaligned(*line);
                        }
                    }
                } else {
                    let part = Axis { len: columns, ..last };
                    for row in 0..rows as isize {
                        let (dst, src) =
                            (dst.wrapping_offset(row * across.dst), src.wrapping_offset(row * across.src));
                        copy_row::<T, SWAP>(part, dst, src);
                    }
                }
            }
        }
    }
    if past {
        settle();
    }
}

#[repr(align(64))]
struct Tile([u8; TILE]);

/// Stores a line without loading it into the cache.
///
/// # Safety
/// `dst` must be aligned to [`LINE`] and valid for writes of a line.
#[inline(always)]
unsafe fn store_past(dst: *mut u8, line: &[u8; LINE]) {
    #[cfg(target_arch = "x86_64")]
    for (at, part) in line.as_chunks::<REGISTER>().0.iter().enumerate() {
        // SAFETY: a part of the line; SSE2 is part of x86-64.
        unsafe {
            let part: std::arch::x86_64::__m128i = bytemuck::cast(*part);
            std::arch::x86_64::_mm_stream_si128(dst.add(at * REGISTER).cast(), part);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as promised by the caller.
    unsafe {
        dst.cast::<[u8; LINE]>().write(*line)
    }
}

/// Makes stores past the cache visible to other threads, in order with later stores.
fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}

/// The first lines of a tile.
#[inline(always)]
fn lines(tile: &mut Tile, count: usize) -> impl Iterator<Item = &mut [u8; LINE]> {
    tile.0.as_chunks_mut::<LINE>().0.iter_mut().take(count)
}

/// Transposes a square of `LINE / size_of::<T>()` lines.
#[inline(always)]
fn turn<T: Unit>(from: &[u8; TILE], to: &mut [u8; TILE]) {
    let n = REGISTER / size_of::<T>();
    let (from, _) = from.as_chunks::<REGISTER>();
    let (to, _) = to.as_chunks_mut::<REGISTER>();
    const BLOCKS: usize = LINE / REGISTER;
    for i in 0..BLOCKS {
        for j in 0..BLOCKS {
            // Interleaving row i with row i + n/2, log₂ n times, transposes n rows of n elements.
            let mut rows = [[0u8; REGISTER]; REGISTER];
            for (k, row) in rows[..n].iter_mut().enumerate() {
                *row = from[(i * n + k) * BLOCKS + j];
            }
            for _ in 0..n.ilog2() {
                let before = rows;
                for k in 0..n / 2 {
                    (rows[2 * k], rows[2 * k + 1]) = T::interleave(before[k], before[k + n / 2]);
                }
            }
            for (k, row) in rows[..n].iter().enumerate() {
                to[(j * n + k) * BLOCKS + i] = *row;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Unit, const SWAP: bool>(rows: usize, columns: usize, gap: usize) {
        for large in [false, true] {
            check_store::<T, SWAP>(rows, columns, gap, large);
        }
    }

    fn check_store<T: Unit, const SWAP: bool>(rows: usize, columns: usize, gap: usize, large: bool) {
        let size = size_of::<T>();
        // Source: `columns` lines of `rows` elements. Destination: `rows` lines of `columns`
        // elements.
        let (src_step, dst_step) = (rows * size + gap, columns * size + gap);
        let src: Vec<u8> = (0..columns * src_step).map(|i| (i * 31 + i / 251) as u8).collect();
        let mut memory = vec![0xEE; rows * dst_step + LINE];
        let aligned = memory.as_ptr().align_offset(LINE);
        let dst = &mut memory[aligned..aligned + rows * dst_step];
        let across = Axis { len: rows, dst: dst_step as isize, src: size as isize };
        let last = Axis { len: columns, dst: size as isize, src: src_step as isize };
        // SAFETY: both vectors hold the plane.
        unsafe { copy::<T, SWAP>(across, last, large, dst.as_mut_ptr(), src.as_ptr()) };
        for row in 0..rows {
            for column in 0..columns {
                let mut wanted = src[column * src_step + row * size..][..size].to_vec();
                if SWAP {
                    wanted.reverse();
                }
                assert_eq!(dst[row * dst_step + column * size..][..size], wanted, "{row}, {column}");
            }
            assert!(dst[row * dst_step + columns * size..][..gap].iter().all(|byte| *byte == 0xEE));
        }
    }

    #[test]
    fn planes_of_every_element_size() {
        for (rows, columns) in [(1, 1), (64, 64), (100, 70), (65, 200), (7, 130), (128, 16)] {
            for gap in [0, 5] {
                check::<u8, false>(rows, columns, gap);
                check::<u16, false>(rows, columns, gap);
                check::<u32, false>(rows, columns, gap);
                check::<u64, false>(rows, columns, gap);
                check::<u128, false>(rows, columns, gap);
                check::<u16, true>(rows, columns, gap);
                check::<u32, true>(rows, columns, gap);
                check::<u64, true>(rows, columns, gap);
                check::<u128, true>(rows, columns, gap);
            }
        }
    }
}
