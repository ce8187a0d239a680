//! The chunk grid of an array, for Python.

use crate::errors;
use hyperslab::Array;
use hyperslab::array::ChunkGrid;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Largest number of chunks along an axis for which lengths are returned. Each Python number takes
/// 40 bytes.
const MOST: u64 = 1 << 24;

/// Returns `true` if metadata allows chunks (with shards: shards) of different shapes.
fn is_rectilinear(array: &Array) -> bool {
    array.as_zarr().is_some_and(|array| array.rectilinear().is_some())
}

/// Elements of a chunk per axis. Fails if chunks have different shapes.
pub(crate) fn chunk_shape<'py>(py: Python<'py>, array: &Array) -> PyResult<Bound<'py, PyTuple>> {
    if is_rectilinear(array) && array.shard_shape().is_none() {
        let message = "chunks: they have different shapes (a rectilinear chunk grid); use read_chunk_sizes";
        return Err(errors::exception(py, "NoChunkShapeError", message));
    }
    PyTuple::new(py, array.outer_chunk_shape())
}

/// Elements of a shard per axis. `None`: no shards. Fails if shards have different shapes.
pub(crate) fn shard_shape<'py>(py: Python<'py>, array: &Array) -> PyResult<Option<Bound<'py, PyTuple>>> {
    if is_rectilinear(array) && array.shard_shape().is_some() {
        let message = "shards: they have different shapes (a rectilinear chunk grid); use write_chunk_sizes";
        return Err(errors::exception(py, "NoChunkShapeError", message));
    }
    array.shard_shape().map(|shards| PyTuple::new(py, shards)).transpose()
}

/// Lengths of a grid's chunks along each axis, cut at the array's end. `None`: all have one shape.
///
/// `grid` is the grid of chunks or of objects.
pub(crate) fn lengths(py: Python<'_>, array: &Array, grid: &ChunkGrid) -> PyResult<Option<Vec<Vec<u64>>>> {
    let shape = array.layout().shape();
    if grid.is_regular() {
        return Ok(None);
    }
    let counts = grid.counts(shape);
    if let Some(count) = counts.iter().find(|count| **count > MOST) {
        let message = format!("the lengths of {count} chunks along an axis are more than {MOST} numbers");
        return Err(errors::exception(py, "OutOfMemoryError", message));
    }
    let axes = shape.iter().zip(&counts).enumerate();
    let lengths = |(axis, (extent, count)): (usize, (&u64, &u64))| {
        (0..*count).map(|index| grid.len_inside(axis, index, *extent)).collect()
    };
    Ok(Some(axes.map(lengths).collect()))
}

/// Chunks per axis, stored or not.
pub(crate) fn chunk_counts(array: &Array) -> Vec<u64> {
    let layout = array.layout();
    if !layout.grid().is_regular() {
        return layout.grid().counts(layout.shape()).to_vec();
    }
    let axes = layout.shape().iter().zip(array.outer_chunk_shape());
    axes.map(|(n, chunk)| n.div_ceil(*chunk)).collect()
}
