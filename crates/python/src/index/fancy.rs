//! Converts lists, integer arrays and masks to the engine's indices.
//!
//! For `array[key]` with one of them, NumPy, h5py and zarr-python agree: it selects along its axis.
//! Several lists are coordinates of points, as in NumPy (and in zarr-python, for as many lists as
//! axes). If the libraries disagree (a mask beside another list), the index is refused. The message
//! names `oindex` and `vindex`, which are unambiguous.
//!
//! Index arrays are copied before they are checked, because other threads may change the caller's
//! arrays.

use crate::errors::{self, OrRaise};
use crate::index::slices::basic;
use hyperslab::array::{ArrayError, ArrayLayout, Index, Selection};
use numpy::{
    PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// The meaning of a key, if other than `array[key]`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// `array.oindex[key]`: each list selects along its own axis.
    Orthogonal,
    /// `array.vindex[key]`: coordinates of points, or a mask.
    Points,
    /// Coordinates only.
    Coordinates,
    /// A mask only.
    Mask,
    /// `array.blocks[key]`: numbers of chunks.
    Blocks,
}

impl Meaning {
    pub(crate) fn named(py: Python<'_>, name: &str) -> PyResult<Self> {
        Ok(match name {
            "orthogonal" => Meaning::Orthogonal,
            "points" => Meaning::Points,
            "coordinates" => Meaning::Coordinates,
            "mask" => Meaning::Mask,
            "blocks" => Meaning::Blocks,
            _ => {
                return Err(errors::invalid(py, format!("no kind of index: {name}")));
            }
        })
    }
}

/// One item of a key.
enum Item<'py> {
    Basic(Index<'static>),
    Integers(PyReadonlyArrayDyn<'py, i64>),
    Mask(PyReadonlyArrayDyn<'py, bool>),
}

impl Item<'_> {
    fn is_basic(&self) -> bool {
        matches!(self, Item::Basic(_))
    }

    fn rank(&self) -> usize {
        match self {
            Item::Basic(_) => 0,
            Item::Integers(array) => array.ndim(),
            Item::Mask(mask) => mask.ndim(),
        }
    }

    /// Converts to an item of the engine. Lists and masks of one axis stay as they are.
    fn index(&self) -> PyResult<Index<'_>> {
        Ok(match self {
            Item::Basic(index) => *index,
            Item::Integers(array) => Index::List(array.as_slice()?),
            Item::Mask(mask) => Index::Mask(mask.as_slice()?),
        })
    }
}

/// Returns the selection of `array[key]`, if an item of the key is no basic index. `done`: the items
/// before the first such `item`. `rest`: the items after it.
pub(crate) fn with_lists<'a, 'py: 'a>(
    done: &[Index<'static>],
    item: &Bound<'py, PyAny>,
    rest: impl IntoIterator<Item = Borrowed<'a, 'py, PyAny>>,
    layout: &ArrayLayout,
) -> PyResult<Selection> {
    let mut items: Vec<Item<'py>> = done.iter().copied().map(Item::Basic).collect();
    items.push(list(item)?);
    for part in rest {
        items.push(self::item(&part)?);
    }
    select_plain(item.py(), layout, &items)
}

/// Returns the selection of a key with another meaning than `array[key]`.
pub(crate) fn selection(
    key: &Bound<'_, PyAny>,
    layout: &ArrayLayout,
    meaning: Meaning,
) -> PyResult<Selection> {
    let py = key.py();
    let items = match key.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter_borrowed().map(|part| item(&part)).collect::<PyResult<Vec<_>>>()?,
        Err(_) => vec![item(key)?],
    };
    match meaning {
        Meaning::Orthogonal => orthogonal(py, layout, &items),
        Meaning::Points if matches!(items.as_slice(), [Item::Mask(_)]) => mask(py, layout, &items),
        Meaning::Points | Meaning::Coordinates => coordinates(py, layout, &items),
        Meaning::Mask => mask(py, layout, &items),
        Meaning::Blocks => blocks(py, layout, &items),
    }
}

fn checked_selection(py: Python<'_>, selection: Result<Selection, ArrayError>) -> PyResult<Selection> {
    selection.or_raise(py)
}

fn unsupported(py: Python<'_>, message: &str) -> PyErr {
    errors::exception(py, "UnsupportedSelectionError", message)
}

fn select_plain(py: Python<'_>, layout: &ArrayLayout, items: &[Item<'_>]) -> PyResult<Selection> {
    let lists: Vec<&Item<'_>> = items.iter().filter(|item| !item.is_basic()).collect();
    match lists.as_slice() {
        [] => orthogonal(py, layout, items),
        [one] if one.rank() == 1 => orthogonal(py, layout, items),
        [Item::Mask(given)] if items.len() == 1 && shape(given.shape()) == layout.shape() => {
            mask(py, layout, items)
        }
        [Item::Mask(given)] => mask_of_some_axes(py, layout, items, given),
        lists if lists.iter().any(|item| matches!(item, Item::Mask(_))) => Err(unsupported(
            py,
            "a mask together with another list or mask means different things to different libraries: \
             use oindex to pick along each axis by itself, or vindex with the coordinates of points",
        )),
        _ => select_pointwise(py, layout, items),
    }
}

/// Selects with each list and mask along its own axis.
fn orthogonal(py: Python<'_>, layout: &ArrayLayout, items: &[Item<'_>]) -> PyResult<Selection> {
    if let Some(item) = items.iter().find(|item| !item.is_basic() && item.rank() != 1) {
        let message = format!("orthogonal indexing takes arrays of one axis, found one of {}", item.rank());
        return Err(unsupported(py, &message));
    }
    let indices = items.iter().map(Item::index).collect::<PyResult<Vec<_>>>()?;
    checked_selection(py, Selection::new(layout.name(), layout.shape(), &indices))
}

/// Selects with all lists together as coordinates, broadcast as in NumPy.
fn select_pointwise(py: Python<'_>, layout: &ArrayLayout, items: &[Item<'_>]) -> PyResult<Selection> {
    let arrays = items.iter().filter_map(|item| match item {
        Item::Integers(array) => Some(array.as_any().clone()),
        _ => None,
    });
    let arrays: Vec<Bound<'_, PyAny>> = arrays.collect();
    let numpy = py.import("numpy")?;
    // For indices that do not fit each other, NumPy raises an IndexError with the same text.
    let together = numpy.call_method1("broadcast_arrays", PyTuple::new(py, &arrays)?).map_err(|error| {
        errors::exception(
            py,
            "VindexInvalidSelectionError",
            format!("shape mismatch of indexing arrays: {}", error.value(py)),
        )
    })?;
    let mut dims = Vec::new();
    let mut lists = Vec::new();
    for array in together.try_iter()? {
        let array = integers(py, &array?)?;
        dims = shape(array.shape());
        lists.push(array);
    }
    let mut next = lists.iter();
    let mut indices = Vec::new();
    for item in items {
        indices.push(match (item, item.is_basic()) {
            (Item::Basic(index), _) => *index,
            _ => Index::List(next.next().map_or(Ok(&[][..]), |list| list.as_slice())?),
        });
    }
    checked_selection(py, Selection::pointwise(layout.name(), layout.shape(), &indices, &dims))
}

/// Selects with a mask of several but not all axes: the coordinates of its true elements.
fn mask_of_some_axes(
    py: Python<'_>,
    layout: &ArrayLayout,
    items: &[Item<'_>],
    mask: &PyReadonlyArrayDyn<'_, bool>,
) -> PyResult<Selection> {
    let mut axis = 0;
    for item in items {
        match item {
            Item::Basic(Index::Ellipsis) => axis += count_ellipsis_axes(layout, items),
            Item::Basic(_) => axis += 1,
            _ => break,
        }
    }
    for (k, len) in mask.shape().iter().enumerate() {
        let Some(extent) = layout.shape().get(axis + k) else { continue };
        if *len as u64 != *extent {
            let message = format!(
                "boolean index did not match indexed array along axis {}; size of axis is {extent} but size of corresponding boolean axis is {len}",
                axis + k
            );
            return Err(errors::exception(py, "BoundsCheckError", message));
        }
    }
    let lists = mask.as_any().call_method0("nonzero")?;
    let lists = lists.try_iter()?.map(|list| integers(py, &list?)).collect::<PyResult<Vec<_>>>()?;
    let count = lists.first().map_or(0, |list| list.len() as u64);
    let mut indices = Vec::new();
    for item in items {
        match item {
            Item::Basic(index) => indices.push(*index),
            _ => lists
                .iter()
                .try_for_each(|list| list.as_slice().map(|list| indices.push(Index::List(list))))?,
        }
    }
    checked_selection(py, Selection::pointwise(layout.name(), layout.shape(), &indices, &[count]))
}

/// Number of axes that an ellipsis among the items stands for.
fn count_ellipsis_axes(layout: &ArrayLayout, items: &[Item<'_>]) -> usize {
    let named = items.iter().map(|item| match item {
        Item::Basic(Index::Ellipsis) => 0,
        Item::Basic(_) => 1,
        lists => lists.rank(),
    });
    layout.shape().len().saturating_sub(named.sum())
}

/// Selects with coordinates for all axes. An integer is a list of one.
fn coordinates(py: Python<'_>, layout: &ArrayLayout, items: &[Item<'_>]) -> PyResult<Selection> {
    let rank = layout.shape().len();
    let mut all = Vec::new();
    for item in items {
        match item {
            Item::Integers(array) => all.push(Item::Integers(array.clone())),
            Item::Basic(Index::At(at)) => {
                all.push(Item::Integers(integers(py, PyList::new(py, [*at])?.as_any())?));
            }
            // Missing coordinates are refused below.
            _ => break,
        }
    }
    if all.len() != rank || items.len() != rank || rank == 0 {
        let message = format!(
            "points are selected by integers or integer arrays, one for each of {rank} axes, or by a mask of the array's shape"
        );
        return Err(errors::exception(py, "VindexInvalidSelectionError", message));
    }
    select_pointwise(py, layout, &all)
}

/// Selects with a mask of the array's shape.
fn mask(py: Python<'_>, layout: &ArrayLayout, items: &[Item<'_>]) -> PyResult<Selection> {
    match items {
        [Item::Mask(mask)] if shape(mask.shape()) == layout.shape() && mask.ndim() > 0 => {
            checked_selection(py, Selection::mask(layout.name(), layout.shape(), mask.as_slice()?))
        }
        _ => {
            let message =
                format!("a mask is one boolean array of the array's shape, which is {:?}", layout.shape());
            Err(errors::exception(py, "BoundsCheckError", message))
        }
    }
}

/// Selects objects by their numbers: shards, or chunks if the array has no shards.
fn blocks(py: Python<'_>, layout: &ArrayLayout, items: &[Item<'_>]) -> PyResult<Selection> {
    let (rank, grid) = (layout.shape().len(), layout.object_grid());
    let counts = grid.counts(layout.shape());
    let mut axis = 0;
    let mut indices = Vec::new();
    for item in items {
        let Item::Basic(index) = item else {
            return Err(unsupported(py, "blocks are selected by integers and slices of step 1"));
        };
        let place = |number: i64| match u64::try_from(number) {
            Ok(number) if axis < rank => i64::try_from(grid.start(axis, number)).unwrap_or(i64::MAX),
            _ => number,
        };
        let count = counts.get(axis).map_or(0, |n| *n as i64);
        let from_end = |at: i64| if at < 0 { at.saturating_add(count) } else { at };
        let check = |at: i64| {
            if axis >= rank || (0..count).contains(&from_end(at)) {
                return Ok(());
            }
            let message = format!("block {at} is out of bounds for axis {axis} with {count} blocks");
            Err(errors::exception(py, "BoundsCheckError", message))
        };
        indices.push(match *index {
            Index::At(at) => {
                check(at)?;
                let number = from_end(at);
                Index::range(place(number), place(number.saturating_add(1)))
            }
            Index::Slice { start, stop, step: 1 } => {
                // Like a slice of a list, except that a start after the last block is refused, as
                // in zarr-python.
                if let Some(start) = start.filter(|start| *start != 0) {
                    check(start)?;
                }
                let bound =
                    |bound: Option<i64>, absent: i64| from_end(bound.unwrap_or(absent)).clamp(0, count);
                Index::range(place(bound(start, 0)), place(bound(stop, count)))
            }
            Index::Ellipsis => {
                axis += count_ellipsis_axes(layout, items);
                indices.push(Index::Ellipsis);
                continue;
            }
            _ => return Err(unsupported(py, "blocks are selected by integers and slices of step 1")),
        });
        axis += 1;
    }
    checked_selection(py, Selection::new(layout.name(), layout.shape(), &indices))
}

fn shape(lens: &[usize]) -> Vec<u64> {
    lens.iter().map(|len| *len as u64).collect()
}

/// Converts an item of a key.
fn item<'py>(given: &Bound<'py, PyAny>) -> PyResult<Item<'py>> {
    match basic(given)? {
        Some(index) => Ok(Item::Basic(index)),
        None => list(given),
    }
}

/// Converts an item of a key that is no basic index: a list or a mask.
fn list<'py>(given: &Bound<'py, PyAny>) -> PyResult<Item<'py>> {
    let py = given.py();
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1("asarray", (given,))?.cast_into::<PyUntypedArray>()?;
    let kind = array.dtype().kind();
    match kind {
        b'b' if array.ndim() > 0 => {
            // Copies the mask. Every byte that is true becomes 1.
            let options = PyDict::new(py);
            options.set_item("order", "C")?;
            let bytes = array.call_method1("view", ("u1",))?;
            let mask = numpy.call_method("not_equal", (bytes, 0), Some(&options))?;
            Ok(Item::Mask(mask.cast_into::<PyArrayDyn<bool>>()?.readonly()))
        }
        b'i' | b'u' => Ok(Item::Integers(integers(py, array.as_any())?)),
        // An empty list has no type.
        _ if array.len() == 0 && !given.is_instance_of::<PyUntypedArray>() => {
            Ok(Item::Integers(integers(py, array.as_any())?))
        }
        b'b' => Err(unsupported(py, "True and False are no indices: a mask is an array with axes")),
        _ => Err(unsupported(py, "arrays used as indices must be of integer (or boolean) type")),
    }
}

/// Copies an array as 64-bit integers in C order.
fn integers<'py>(py: Python<'py>, array: &Bound<'py, PyAny>) -> PyResult<PyReadonlyArrayDyn<'py, i64>> {
    let numpy = py.import("numpy")?;
    let options = PyDict::new(py);
    options.set_item("order", "C")?;
    let copy =
        numpy.call_method("array", (array, "int64"), Some(&options))?.cast_into::<PyArrayDyn<i64>>()?;
    if array.cast::<PyUntypedArray>().is_ok_and(|array| array.dtype().kind() == b'u') {
        // Numbers over 63 bits have become negative. No axis is that long.
        let copy = copy.readonly();
        if copy.as_slice()?.iter().any(|at| *at < 0) {
            let most = array.call_method0("max")?;
            return Err(errors::exception(py, "BoundsCheckError", format!("index {most} is out of bounds")));
        }
        return Ok(copy);
    }
    Ok(copy.readonly())
}
