//! The caller's memory, seen as a strided array of the selection's shape.

use crate::copy::strided;
use crate::copy::strided::Region;
use crate::dims::{Dims, Strides, c_strides, element_count};
use crate::runtime::memory::Memory;
use std::marker::PhantomData;

/// Memory that a read fills.
#[derive(Debug)]
pub struct Target<'a> {
    pub(crate) base: *mut u8,
    pub(crate) shape: Dims,
    pub(crate) strides: Strides,
    /// Bytes of one element; `None` if the maker of the view vouches for them.
    pub(crate) element: Option<usize>,
    memory: PhantomData<&'a mut [u8]>,
}

/// Memory that a write takes elements from. Strides of 0 repeat an element (broadcasting).
#[derive(Debug)]
pub struct Source<'a> {
    pub(crate) base: *const u8,
    pub(crate) shape: Dims,
    pub(crate) strides: Strides,
    /// As in [`Target`].
    pub(crate) element: Option<usize>,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: a Target stands for an exclusive borrow of bytes, which may be sent to other threads; the
// plan gives each thread other elements.
unsafe impl Send for Target<'_> {}
// SAFETY: as above; the pointer is only written through by tasks over disjoint elements.
unsafe impl Sync for Target<'_> {}
// SAFETY: a Source stands for a shared borrow of bytes.
unsafe impl Send for Source<'_> {}
// SAFETY: as above.
unsafe impl Sync for Source<'_> {}

fn dense(len: usize, shape: &[u64], element: usize) -> Option<Strides> {
    let bytes = element_count(shape)?.checked_mul(element as u64)?;
    (bytes == len as u64 && isize::try_from(bytes).is_ok()).then(|| c_strides(shape, element))
}

impl<'a> Target<'a> {
    /// Dense memory in C order.
    ///
    /// `None` unless `memory` is exactly as long as `shape` elements of `element` bytes.
    pub fn dense(memory: &'a mut [u8], shape: &[u64], element: usize) -> Option<Self> {
        let strides = dense(memory.len(), shape, element)?;
        let element = Some(element);
        Some(Target { base: memory.as_mut_ptr(), shape: shape.into(), strides, element, memory: PhantomData })
    }

    /// Turns dense memory in C order into dense memory in Fortran order, of the same shape.
    pub(crate) fn reverse_axes(&mut self) {
        let Some(element) = self.element else { return };
        let reversed: Dims = self.shape.iter().rev().copied().collect();
        self.strides = c_strides(&reversed, element).into_iter().rev().collect();
    }

    /// Copies all elements from dense memory in C order.
    ///
    /// The view must have been checked, and `memory` must have as many elements.
    pub(crate) fn copy_dense(&mut self, memory: &[u8], element: usize) {
        let region = Region::new(&self.shape, &self.strides, &c_strides(&self.shape, element), element, 1);
        // SAFETY: the view covers its shape; `memory` holds as many elements.
        unsafe { strided::copy(&region, self.base, memory.as_ptr()) };
    }

    /// Any strided memory.
    ///
    /// # Safety
    /// For all indices within `shape`, `base + Σ index · stride` must be valid for writes of one
    /// element of the array that is read, during `'a`. No two indices may share bytes. Nobody else
    /// may read or write these bytes during `'a`.
    ///
    /// If this cannot be known (memory of NumPy), a change has one consequence. The elements read
    /// are unspecified, or the read fails because a compressor checks the sum of its output.
    /// Decoders copy earlier output to places that the stored bytes name, and never look at its
    /// values.
    pub unsafe fn from_raw(base: *mut u8, shape: &[u64], strides: &[isize]) -> Self {
        Target { base, shape: shape.into(), strides: strides.into(), element: None, memory: PhantomData }
    }
}

impl<'a> Source<'a> {
    /// The same element in every place.
    pub fn repeated(element: &'a [u8], shape: &[u64]) -> Self {
        let strides = std::iter::repeat_n(0, shape.len()).collect();
        let size = Some(element.len());
        Source { base: element.as_ptr(), shape: shape.into(), strides, element: size, memory: PhantomData }
    }

    /// Dense memory in C order.
    ///
    /// `None` unless `memory` is exactly as long as `shape` elements of `element` bytes.
    pub fn dense(memory: &'a [u8], shape: &[u64], element: usize) -> Option<Self> {
        let strides = dense(memory.len(), shape, element)?;
        let element = Some(element);
        Some(Source { base: memory.as_ptr(), shape: shape.into(), strides, element, memory: PhantomData })
    }

    /// Dense memory in C order of `shape`, repeated to fill `target` by NumPy's rules.
    ///
    /// `None` if that is impossible, or if `memory` does not have that many elements.
    pub fn broadcast(memory: &'a [u8], shape: &[u64], target: &[u64], element: usize) -> Option<Self> {
        let given = dense(memory.len(), shape, element)?;
        let surplus = shape.len().saturating_sub(target.len());
        let missing = target.len().saturating_sub(shape.len());
        if shape.iter().take(surplus).any(|n| *n != 1) {
            return None;
        }
        let axes = shape.iter().zip(given).skip(surplus).zip(target.iter().skip(missing));
        let fitting = axes.map(|((n, stride), wanted)| match n {
            n if n == wanted => Some(stride),
            1 => Some(0),
            _ => None,
        });
        let strides: Strides = std::iter::repeat_n(Some(0), missing).chain(fitting).collect::<Option<_>>()?;
        let element = Some(element);
        Some(Source { base: memory.as_ptr(), shape: target.into(), strides, element, memory: PhantomData })
    }

    /// Any strided memory.
    ///
    /// # Safety
    /// For all indices within `shape`, `base + Σ index · stride` must be valid for reads of one
    /// element of the array that is written, during `'a`, and must not change meanwhile.
    ///
    /// If this cannot be known (memory of NumPy), a change has one consequence: the written chunks
    /// hold unspecified values. Encoders get them as memory that changes
    /// ([`hyperslab_codec::Racing`]), and nothing else here relies on reading a byte twice.
    pub unsafe fn from_raw(base: *const u8, shape: &[u64], strides: &[isize]) -> Self {
        Source { base, shape: shape.into(), strides: strides.into(), element: None, memory: PhantomData }
    }

    /// Copies all elements to dense memory in C order. `None` if memory cannot hold them.
    ///
    /// The view must have been checked.
    pub(crate) fn dense_copy(&self, element: usize) -> Option<Memory> {
        let bytes = element_count(&self.shape)?.checked_mul(element as u64)?;
        let mut memory = Memory::dirty(usize::try_from(bytes).ok()?)?;
        let region = Region::new(&self.shape, &c_strides(&self.shape, element), &self.strides, element, 1);
        // SAFETY: the view covers its shape; `memory` has room for as many elements.
        unsafe { strided::copy(&region, memory.as_mut_slice().as_mut_ptr(), self.base) };
        Some(memory)
    }

    /// The same element for all of `shape`.
    pub fn repeat(element: &'a [u8], shape: &[u64]) -> Self {
        Source {
            base: element.as_ptr(),
            shape: shape.into(),
            strides: Strides::from_elem(0, shape.len()),
            element: Some(element.len()),
            memory: PhantomData,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_repeated() {
        let of = |shape: &[u64], target: &[u64]| {
            let memory = vec![0; 4 * shape.iter().product::<u64>() as usize];
            Source::broadcast(&memory, shape, target, 4).map(|source| source.strides.to_vec())
        };
        assert_eq!(of(&[], &[2, 3]), Some(vec![0, 0]));
        assert_eq!(of(&[3], &[2, 3]), Some(vec![0, 4]));
        assert_eq!(of(&[2, 1], &[2, 3]), Some(vec![4, 0]));
        assert_eq!(of(&[1, 1, 3], &[2, 3]), Some(vec![0, 4]));
        assert_eq!((of(&[2], &[2, 3]), of(&[2, 2, 3], &[2, 3])), (None, None));
        assert!(Source::broadcast(&[0; 3], &[], &[2], 4).is_none());
    }
}
