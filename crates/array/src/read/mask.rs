//! Which elements of a result are missing: those that equal the fill value.

use crate::error::ArrayError;
use crate::execute::tasks::{self, memory_error};
use crate::layout::ArrayLayout;
use crate::read::options::ReadOptions;
use crate::runtime::memory::Memory;
use hyperslab_codec::{ByteOrder, DataType, Kind};
use std::sync::{Mutex, PoisonError};

/// Elements of a piece, which one thread compares at once.
const PIECE: usize = 1 << 18;

/// A byte for each element of `values`, which is a result of a read: 1 where it equals `missing`,
/// one element of the same type, else 0. A missing NaN equals every NaN.
///
/// `None`: elements are no numbers in the machine's byte order, so they are not compared here.
/// Errors with [`ArrayError::Memory`], and with [`ArrayError::Interrupted`] where `options` say so.
pub fn mask(
    layout: &ArrayLayout,
    values: &[u8],
    missing: &[u8],
    options: ReadOptions<'_>,
) -> Result<Option<Memory>, ArrayError> {
    let dtype = layout.dtype();
    let Some(compare) = comparison(dtype).filter(|_| missing.len() == dtype.size()) else { return Ok(None) };
    let count = values.len() / dtype.size();
    let none = || memory_error(layout, "a mask", count as u64);
    let mut memory = Memory::dirty(count).ok_or_else(none)?;
    // A lock for each piece: only its thread takes it.
    let bytes = values.chunks(PIECE * dtype.size());
    let pieces: Vec<_> = bytes.zip(memory.as_mut_slice().chunks_mut(PIECE)).map(Mutex::new).collect();
    let limit = tasks::limit(options.threads);
    let work = values.len() as u64;
    tasks::run_tasks(layout, pieces.len(), work, (limit, limit), options.interrupt, &|number, _, _| {
        if let Some(piece) = pieces.get(number) {
            let (values, mask) = &mut *piece.lock().unwrap_or_else(PoisonError::into_inner);
            compare(values, missing, mask);
        }
        Ok(())
    })?;
    drop(pieces);
    Ok(Some(memory))
}

type Compare = fn(&[u8], &[u8], &mut [u8]);

/// How elements are compared.
fn comparison(dtype: DataType) -> Option<Compare> {
    if dtype.has_order() && dtype.order() != ByteOrder::NATIVE {
        return None;
    }
    match (dtype.kind(), dtype.size()) {
        (Kind::Float, 4) => Some(|values, missing, mask| {
            let of = |bytes: [u8; 4]| f32::from_ne_bytes(bytes);
            match missing.try_into().map(of) {
                Ok(missing) if missing.is_nan() => each(values, mask, |value| of(value).is_nan()),
                Ok(missing) => each(values, mask, |value| of(value) == missing),
                Err(_) => {}
            }
        }),
        (Kind::Float, 8) => Some(|values, missing, mask| {
            let of = |bytes: [u8; 8]| f64::from_ne_bytes(bytes);
            match missing.try_into().map(of) {
                Ok(missing) if missing.is_nan() => each(values, mask, |value| of(value).is_nan()),
                Ok(missing) => each(values, mask, |value| of(value) == missing),
                Err(_) => {}
            }
        }),
        (Kind::Int | Kind::UInt | Kind::DateTime(_) | Kind::TimeDelta(_), size) => match size {
            1 => Some(same::<1>),
            2 => Some(same::<2>),
            4 => Some(same::<4>),
            8 => Some(same::<8>),
            _ => None,
        },
        _ => None,
    }
}

/// Compares bytes.
fn same<const SIZE: usize>(values: &[u8], missing: &[u8], mask: &mut [u8]) {
    if let Ok(missing) = <[u8; SIZE]>::try_from(missing) {
        each(values, mask, |value| value == missing);
    }
}

#[inline(always)]
fn each<const SIZE: usize>(values: &[u8], mask: &mut [u8], is_missing: impl Fn([u8; SIZE]) -> bool) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { each_avx2(values, mask, is_missing) };
    }
    each_element(values, mask, is_missing);
}

/// As [`each_element`], compiled to AVX2.
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
