//! Byte order: reverses the bytes of each unit.
//!
//! The loops are plain. They are compiled a second time for processors with AVX2 (detected at run
//! time), where one instruction reverses 32 bytes. Binaries are made for the oldest x86-64
//! processors, which do not have it.

use crate::copy::unit::Unit;

/// Reverses the bytes of each unit of `unit` bytes: 2, 4, 8 or 16. Does nothing for other sizes.
///
/// `bytes` holds whole units.
pub(crate) fn in_place(bytes: &mut [u8], unit: usize) {
    let (at, len) = (bytes.as_mut_ptr(), bytes.len());
    // SAFETY: the slice holds that many units; both sides are the same place.
    unsafe {
        match unit {
            2 => row::<u16>(at, at, len / 2),
            4 => row::<u32>(at, at, len / 4),
            8 => row::<u64>(at, at, len / 8),
            16 => row::<u128>(at, at, len / 16),
            _ => {}
        }
    }
}

/// Writes `len` units with their bytes reversed.
///
/// # Safety
/// `src` must be valid for reads of `len` units, `dst` for writes; they are the same place or do
/// not overlap.
pub(crate) unsafe fn row<T: Unit>(dst: *mut u8, src: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: as promised by the caller; the processor has AVX2.
        return unsafe { row_avx2::<T>(dst, src, len) };
    }
    // SAFETY: as promised by the caller.
    unsafe { plain::<T>(dst, src, len) }
}

/// # Safety
/// As [`row`], on a processor with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn row_avx2<T: Unit>(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: as promised by the caller.
    unsafe { plain::<T>(dst, src, len) }
}

/// # Safety
/// As [`row`].
#[inline(always)]
unsafe fn plain<T: Unit>(dst: *mut u8, src: *const u8, len: usize) {
    for i in 0..len {
        // SAFETY: unit i of both sides; it is read before it is written.
        unsafe {
            let unit = src.cast::<T>().add(i).read_unaligned();
            dst.cast::<T>().add(i).write_unaligned(unit.reverse_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_and_length() {
        for unit in [1, 2, 3, 4, 8, 16] {
            for count in [0, 1, 2, 3, 7, 33, 100] {
                let bytes: Vec<u8> = (0..unit * count).map(|i| i as u8).collect();
                let wanted: Vec<u8> = match unit {
                    1 | 3 => bytes.clone(),
                    _ => bytes.chunks(unit).flat_map(|unit| unit.iter().rev().copied()).collect(),
                };
                let mut found = bytes.clone();
                in_place(&mut found, unit);
                assert_eq!(found, wanted, "{count} units of {unit}");
            }
        }
    }
}
