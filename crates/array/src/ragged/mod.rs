//! Values of variable length: what the engine's second kind of output is, and how it is made.

mod batches;
mod fill;
mod rows;

pub use batches::{Batch, in_batches};
pub use fill::{Group, fill_groups};

use crate::{ArrayError, ArrayLayout, Dims, Memory, ReadOptions, Selection, WriteOptions};
use std::sync::Arc;

/// Elements of variable length in one normal form. The `i`-th in C order is `values[offsets[i] * size..offsets[i + 1] * size]`, where `size` is that of an item.
#[derive(Debug)]
pub struct Ragged {
    /// Elements per axis.
    pub shape: Dims,
    /// One more than there are elements; ascending from 0. In items, as in Arrow's large lists.
    pub offsets: Vec<i64>,
    /// The bytes of all items, one behind the other.
    pub values: Memory,
    /// Which elements are there (null is not the same as empty). `None`: all.
    pub validity: Option<Vec<bool>>,
}

/// Reads elements of variable length whose codec is [`hyperslab_codec::Vlen`]. Errors as [`crate::read()`].
pub fn read_ragged(
    layout: &ArrayLayout,
    selection: &Selection,
    options: ReadOptions<'_>,
) -> Result<Ragged, ArrayError> {
    let _ = (selection, options);
    Err(stub(layout))
}

/// Writes elements of variable length whose codec is [`hyperslab_codec::Vlen`]. The shape of `values` is broadcast to that of the selection, with NumPy's rules. What is null is
/// written as empty. Errors as [`crate::write()`].
pub fn write_ragged(
    layout: &ArrayLayout,
    selection: &Selection,
    values: &Arc<Ragged>,
    options: WriteOptions<'_>,
) -> Result<(), ArrayError> {
    let _ = (selection, values, options);
    Err(stub(layout))
}

fn stub(layout: &ArrayLayout) -> ArrayError {
    ArrayError::Layout { array: layout.name().to_owned(), why: "elements of variable length".into() }
}
