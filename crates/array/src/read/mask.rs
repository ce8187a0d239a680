//! Finds the missing elements of a result: elements that equal the fill value.
//!
//! Each thread compares the elements that it has just read, while they are in the processor's
//! cache. A second pass over a large result would take more than half of the read's time again.

#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::error::ArrayError;
use crate::execute::tasks::{self, memory_error};
use crate::layout::ArrayLayout;
use crate::read::options::ReadOptions;
use crate::read::read_new;
use crate::runtime::memory::Memory;
use crate::select::Selection;
use hyperslab_codec::{ByteOrder, DataType, Kind};
use smallvec::SmallVec;

/// Elements of a piece, which one thread compares at once.
const PIECE: usize = 1 << 18;

/// Reads a selection like [`crate::read()`], together with a mask.
///
/// The mask has one byte per element, in the same order: 1 if the element equals `missing`, else 0.
/// `missing` is one element of the same type. A missing NaN equals every NaN.
///
/// `None`: elements are not numbers in the machine's byte order, so they cannot be compared here.
/// Nothing was read then. Fails like [`crate::read()`].
pub fn read_masked(
    layout: &ArrayLayout,
    selection: &Selection,
    missing: &[u8],
    options: ReadOptions<'_>,
) -> Result<Option<(Memory, Memory)>, ArrayError> {
    let size = layout.dtype().size();
    let Some(compare) = comparison(layout.dtype()).filter(|_| missing.len() == size) else { return Ok(None) };
    let mut comparing = Comparing { missing, compare, mask: None };
    let memory = read_new(layout, selection, options, Some(&mut comparing))?;
    let none = || memory_error(layout, "a mask", memory.as_slice().len() as u64 / size as u64);
    let mask = comparing.mask.ok_or_else(none)?;
    Ok(Some((memory, mask)))
}

/// The value to compare a result with, and the mask once it is made.
pub(crate) struct Comparing<'a> {
    missing: &'a [u8],
    compare: Compare,
    mask: Option<Memory>,
}

impl<'a> Comparing<'a> {
    /// Makes the mask of a result of `count` elements at `values`.
    ///
    /// `filled`: the result already holds this value everywhere, and only other elements will be
    /// read.
    pub(crate) fn start(
        &mut self,
        layout: &ArrayLayout,
        values: *const u8,
        count: usize,
        filled: Option<&[u8]>,
    ) -> Result<Masking<'a>, ArrayError> {
        let mut bit = [0];
        if let Some(value) = filled {
            (self.compare)(value, self.missing, &mut bit);
        }
        let memory =
            if filled.is_some() && bit == [0] { Memory::zeroed(count) } else { Memory::dirty(count) };
        let mask = self.mask.insert(memory.ok_or_else(|| memory_error(layout, "a mask", count as u64))?);
        if bit == [1] {
            mask.as_mut_slice().fill(1);
        }
        let mask = mask.as_mut_slice().as_mut_ptr();
        Ok(Masking {
            missing: self.missing,
            compare: self.compare,
            size: layout.dtype().size(),
            values,
            mask,
        })
    }
}

/// Number of elements that make a row worth a call of its own.
const LONG: u64 = 128;

/// Returns `true` if each chunk's part of a result has long rows in it.
///
/// `strides`: bytes from one selected element to the next, per axis of the array.
pub(crate) fn has_long_rows(layout: &ArrayLayout, selection: &Selection, strides: &[isize]) -> bool {
    let chunk = layout.grid().chunk_shape();
    let mut axes: SmallVec<[_; 8]> = strides.iter().zip(selection.axes()).zip(chunk).collect();
    axes.sort_unstable_by_key(|((stride, _), _)| stride.unsigned_abs());
    let mut row = 1;
    for ((_, axis), chunk) in axes {
        let of_chunk = chunk.div_ceil(axis.step.unsigned_abs());
        row *= axis.len.min(of_chunk);
        if row >= LONG || of_chunk < axis.len {
            return row >= LONG;
        }
    }
    // One chunk holds everything.
    true
}

/// Compares elements that have been read, and writes the answers to a mask.
pub(crate) struct Masking<'a> {
    missing: &'a [u8],
    compare: Compare,
    /// Bytes of an element.
    size: usize,
    /// The result, without gaps.
    values: *const u8,
    /// Its mask, in the same order.
    mask: *mut u8,
}

// SAFETY: `values` and `mask` point to memory of the read that made this value. Its threads take
// disjoint parts of that memory.
unsafe impl Sync for Masking<'_> {}

impl Masking<'_> {
    /// Compares `counts` elements of the result, `strides` bytes apart, from `first` on.
    ///
    /// # Safety
    /// These elements must be initialised parts of the result that no other thread uses.
    pub(crate) unsafe fn mark(&self, counts: &[u64], strides: &[isize], first: *const u8) {
        if counts.contains(&0) {
            return;
        }
        let mut first = first as isize - self.values as isize;
        let mut axes = SmallVec::<[(isize, usize); 8]>::new();
        for (count, stride) in counts.iter().zip(strides).filter(|(count, _)| **count > 1) {
            if *stride < 0 {
                first += stride * (*count as isize - 1);
            }
            axes.push((stride.abs(), *count as usize));
        }
        axes.sort_unstable();
        let mut row = 1;
        while let Some((stride, count)) =
            axes.first().copied().filter(|(stride, _)| *stride as usize == row * self.size)
        {
            debug_assert!(stride > 0);
            row *= count;
            axes.remove(0);
        }
        // SAFETY: as promised by the caller.
        unsafe { self.rows(&axes, row, first) }
    }

    /// Compares a part of the result that has no gaps.
    ///
    /// # Safety
    /// As [`Masking::mark`].
    pub(crate) unsafe fn mark_row(&self, row: &[u8]) {
        let at = row.as_ptr() as isize - self.values as isize;
        // SAFETY: as promised by the caller.
        unsafe { self.rows(&[], row.len() / self.size, at) }
    }

    /// Compares rows of `row` elements at all places along `axes`. The first row is at byte `at`.
    ///
    /// # Safety
    /// As [`Masking::mark`].
    unsafe fn rows(&self, axes: &[(isize, usize)], row: usize, at: isize) {
        if let Some(((stride, count), inner)) = axes.split_last() {
            for n in 0..*count {
                // SAFETY: as promised by the caller.
                unsafe { self.rows(inner, row, at + stride * n as isize) }
            }
            return;
        }
        // SAFETY: as promised by the caller: a row of the result, and the same elements of the
        // mask, which has one byte per element.
        let (values, mask) = unsafe {
            (
                std::slice::from_raw_parts(self.values.offset(at), row * self.size),
                std::slice::from_raw_parts_mut(self.mask.offset(at / self.size as isize), row),
            )
        };
        (self.compare)(values, self.missing, mask);
    }

    /// Compares the whole result, if its parts were not compared as they were read.
    ///
    /// # Safety
    /// The result must have `count` elements, all initialised, and no other thread may use it.
    pub(crate) unsafe fn mark_all(
        &self,
        layout: &ArrayLayout,
        count: usize,
        options: ReadOptions<'_>,
    ) -> Result<(), ArrayError> {
        let limit = tasks::limit(options.threads);
        let work = (count * self.size) as u64;
        let pieces = count.div_ceil(PIECE);
        tasks::run_tasks(layout, pieces, work, (limit, limit), options.interrupt, &|number, _, _| {
            let start = number * PIECE;
            // SAFETY: as promised by the caller; pieces are disjoint.
            unsafe { self.rows(&[], PIECE.min(count - start), (start * self.size) as isize) };
            Ok(())
        })
    }
}

type Compare = fn(&[u8], &[u8], &mut [u8]);

/// The function that compares elements of a type. `None`: there is none.
fn comparison(dtype: DataType) -> Option<Compare> {
    if dtype.has_order() && dtype.order() != ByteOrder::NATIVE {
        return None;
    }
    match (dtype.kind(), dtype.size()) {
        (Kind::Float, 4) => Some(|values, missing, mask| {
            let of = |bytes: [u8; 4]| f32::from_ne_bytes(bytes);
            match missing.try_into().map(of) {
                Ok(missing) if missing.is_nan() => mark_where(values, mask, |value| of(value).is_nan()),
                Ok(missing) => mark_where(values, mask, |value| of(value) == missing),
                Err(_) => {}
            }
        }),
        (Kind::Float, 8) => Some(|values, missing, mask| {
            let of = |bytes: [u8; 8]| f64::from_ne_bytes(bytes);
            match missing.try_into().map(of) {
                Ok(missing) if missing.is_nan() => mark_where(values, mask, |value| of(value).is_nan()),
                Ok(missing) => mark_where(values, mask, |value| of(value) == missing),
                Err(_) => {}
            }
        }),
        (Kind::Int | Kind::UInt | Kind::DateTime(_) | Kind::TimeDelta(_), size) => match size {
            1 => Some(mark_equal::<1>),
            2 => Some(mark_equal::<2>),
            4 => Some(mark_equal::<4>),
            8 => Some(mark_equal::<8>),
            _ => None,
        },
        _ => None,
    }
}

/// Compares bytes.
fn mark_equal<const SIZE: usize>(values: &[u8], missing: &[u8], mask: &mut [u8]) {
    if let Ok(missing) = <[u8; SIZE]>::try_from(missing) {
        mark_where(values, mask, |value| value == missing);
    }
}

#[inline(always)]
fn mark_where<const SIZE: usize>(values: &[u8], mask: &mut [u8], is_missing: impl Fn([u8; SIZE]) -> bool) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { each_avx2(values, mask, is_missing) };
    }
    each_element(values, mask, is_missing);
}

/// Like [`each_element`], but compiled for AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn each_avx2<const SIZE: usize>(values: &[u8], mask: &mut [u8], is_missing: impl Fn([u8; SIZE]) -> bool) {
    each_element(values, mask, is_missing);
}

#[inline(always)]
fn each_element<const SIZE: usize>(values: &[u8], mask: &mut [u8], is_missing: impl Fn([u8; SIZE]) -> bool) {
    for (to, value) in mask.iter_mut().zip(values.as_chunks().0) {
        *to = u8::from(is_missing(*value));
    }
}
