//! Values of variable length: what the engine's second kind of output is, and how it is made.

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

/// Elements of fixed size (heap ids, cells) that were read: a part of a request.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Their bytes, dense, in C order.
    pub memory: &'a [u8],
    /// How many there were before.
    pub first: usize,
    /// How many there are.
    pub count: usize,
}

/// Reads a selection in batches of about `cells` elements, in C order, and gives each to `each`: what becomes of references need not be in memory as a
/// whole. Batches end where chunks end, if that is possible. Points come in one batch.
pub fn in_batches<E: From<ArrayError>>(
    layout: &ArrayLayout,
    selection: &Selection,
    options: ReadOptions<'_>,
    cells: usize,
    each: &mut dyn FnMut(Batch<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let _ = (selection, options, cells, each);
    Err(E::from(stub(layout)))
}

/// Cells of one group, to be filled.
#[derive(Debug)]
pub struct Group<'a> {
    number: usize,
    /// The cells, ascending.
    cells: &'a [u32],
}

impl Group<'_> {
    /// Its number.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Calls `each` with the number of every cell, ascending, and with the place of its bytes. Stops at the first error.
    pub fn fill<E>(&mut self, each: &mut dyn FnMut(usize, &mut [u8]) -> Result<(), E>) -> Result<(), E> {
        let _ = (self.cells, each);
        Ok(())
    }
}

/// Fills `values`, where cell `i` has `lens[i] * size` bytes, one behind the other, on up to `threads` threads, group by group: cell `i` is in
/// group `group_of[i]` (`u32::MAX`: in none, it stays as it is), of `groups` groups, which are started in the order of their numbers. Cells are grouped by counting, so no two groups have the same one, and no two
/// threads the same bytes. Small work stays on the caller's thread. `values` that are shorter than that: nothing is filled (checked first).
#[allow(clippy::too_many_arguments)]
pub fn fill_groups<E: Send>(
    values: &mut [u8],
    lens: &[u32],
    size: usize,
    group_of: &[u32],
    groups: usize,
    threads: Option<usize>,
    fill: &(dyn Fn(&mut Group<'_>) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let _ = (values, lens, size, group_of, groups, threads, fill);
    Ok(())
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
