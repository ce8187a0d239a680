//! One row of a copy.

use crate::copy::swap;
use crate::copy::unit::Unit;

/// One axis of a copy: length, and bytes from one element to the next on either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) len: usize,
    pub(crate) dst: isize,
    pub(crate) src: isize,
}

/// # Safety
/// Every element of the row must be valid, as for [`crate::copy::strided::copy`].
#[inline(always)]
pub(crate) unsafe fn copy_row<T: Unit, const SWAP: bool>(axis: Axis, dst: *mut u8, src: *const u8) {
    let size = size_of::<T>() as isize;
    // Strides known at compile time let the compiler use vector instructions.
    let go = |dst_step: isize, src_step: isize| {
        for i in 0..axis.len as isize {
            // SAFETY: index i of the row.
            unsafe {
                let value = src.offset(i * src_step).cast::<T>().read_unaligned();
                let value = if SWAP { value.reverse_bytes() } else { value };
                dst.offset(i * dst_step).cast::<T>().write_unaligned(value);
            }
        }
    };
    if axis.dst == size && axis.src == size {
        if SWAP {
            // SAFETY: both sides are one run of the row's elements.
            return unsafe { swap::row::<T>(dst, src, axis.len) };
        }
        go(size, size);
    } else if axis.dst == size {
        go(size, axis.src);
    } else {
        go(axis.dst, axis.src);
    }
}
