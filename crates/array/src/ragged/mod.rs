//! Values of variable length: the engine's second kind of output, and how it is made.

pub(crate) mod batches;
pub(crate) mod builder;
pub(crate) mod cuts;
pub(crate) mod packed;
pub(crate) mod parts;
pub(crate) mod read;
pub(crate) mod rows;
pub(crate) mod write;

use crate::dims::Dims;
use crate::runtime::memory::Memory;
use hyperslab_codec::{Heap, HeapMemory, Vlen};
use std::sync::Arc;

/// Elements of variable length in one normal form.
///
/// The `i`-th element in C order is `values[offsets[i] * size..offsets[i + 1] * size]`, where
/// `size` is the number of bytes of an item.
#[derive(Debug)]
pub struct Ragged {
    /// Elements per axis.
    pub shape: Dims,
    /// One more than there are elements; ascending from 0. Counted in items, as in Arrow's large
    /// lists.
    pub offsets: Vec<i64>,
    /// The bytes of all items, one after the other.
    pub values: Memory,
    /// Which elements are present (null is not the same as empty). `None`: all.
    pub validity: Option<Vec<bool>>,
}

impl HeapMemory for Memory {}

/// A heap for one request. The contents of chunks go to recycled pages.
fn heap(vlen: &Vlen) -> Heap {
    vlen.heap().with_allocator(|len| Some(Arc::new(Memory::dirty(len)?)))
}
