//! The native part of `hyperslab.statistics`: statistics of a part of an array, and joining them.

use crate::errors;
use crate::gil::engine::Signals;
use crate::gil::once::{dict, items};
use crate::nodes::handles::ArrayHandle;
use hyperslab::Error;
use hyperslab::copy::Progress;
use hyperslab::meaning::Packing;
use hyperslab::statistics::{
    Bins, Double, NumberTypes, PartialStatistics, StatisticsOptions, block_count, statistics,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

/// Reports the number of processed bytes to a Python function. Stops if that raises or a signal
/// comes.
struct Teller {
    callback: Option<Py<PyAny>>,
    signals: Signals,
    raised: RefCell<Option<PyErr>>,
}

impl Progress for Teller {
    fn advance(&self, bytes: u64) {
        let Some(callback) = self.callback.as_ref().filter(|_| bytes > 0) else { return };
        if let Err(error) = Python::attach(|py| callback.call1(py, (bytes,)).map(drop)) {
            self.raised.borrow_mut().get_or_insert(error);
        }
    }

    fn cancelled(&self) -> bool {
        self.raised.borrow().is_some() || self.signals.ask()
    }
}

fn ranges(region: Option<Vec<(u64, u64)>>) -> Option<Vec<Range<u64>>> {
    region.map(|axes| axes.into_iter().map(|(start, stop)| start..stop).collect())
}

/// Returns the type that stored numbers are read as, and true if they are scaled to floats.
///
/// `None`: the elements are not numbers.
#[pyfunction]
pub(crate) fn statistics_types(
    py: Python<'_>,
    array: &ArrayHandle,
    raw: bool,
) -> PyResult<Option<(String, bool)>> {
    let array = array.slot.get(py)?;
    let types = NumberTypes::of(&array, raw).map_err(|error| errors::to_exception(py, &error))?;
    Ok(types.map(|types| (types.stored.numpy(), types.scaled)))
}

/// Returns the packing of an array from its attributes.
///
/// This is the type that stored numbers are read as, and the values of missing elements.
#[pyfunction]
pub(crate) fn packing(py: Python<'_>, array: &ArrayHandle) -> PyResult<(String, Vec<Cow<'static, [u8]>>)> {
    let array = array.slot.get(py)?;
    let found = Packing::of(&array).map_err(|error| errors::to_exception(py, &error))?;
    let stored = found.number_type(array.dtype()).numpy();
    Ok((stored, found.missing.into_iter().map(Cow::Owned).collect()))
}

/// Returns the number of blocks in a region of an array.
#[pyfunction]
pub(crate) fn statistics_blocks(
    py: Python<'_>,
    array: &ArrayHandle,
    region: Option<Vec<(u64, u64)>>,
) -> PyResult<u64> {
    let array = array.slot.get(py)?;
    block_count(&array, ranges(region).as_deref()).map_err(|error| errors::to_exception(py, &error))
}

/// Returns statistics of the elements in some blocks. Calls `progress` with the number of processed
/// bytes.
#[pyfunction]
#[pyo3(signature = (array, region, missing, raw, edges, blocks=None, threads=None, progress=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn statistics_part<'py>(
    py: Python<'py>,
    array: &ArrayHandle,
    region: Option<Vec<(u64, u64)>>,
    missing: Vec<Vec<u8>>,
    raw: bool,
    edges: Option<Vec<f64>>,
    blocks: Option<(u64, u64)>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let array = (*array.slot.get(py)?).clone();
    let bins = edges.map(Bins::new).transpose().map_err(|why| errors::invalid(py, why))?;
    let (found, raised) = py.detach(|| {
        let teller = Teller { callback: progress, signals: Signals::default(), raised: RefCell::new(None) };
        let options = StatisticsOptions {
            region: ranges(region),
            missing,
            raw,
            bins,
            threads,
            blocks: blocks.map(|(start, stop)| start..stop),
            progress: Some(&teller),
        };
        let found = statistics(&array, &options);
        (found, teller.raised.into_inner().or(teller.signals.into_exception()))
    });
    match (found, raised) {
        (Ok(part), _) => statistics_dict(py, &part),
        (Err(Error::Interrupted), Some(raised)) => Err(raised),
        (Err(error), _) => Err(errors::to_exception(py, &error)),
    }
}

items! {
    /// A part in the form of `callback`.
    pub(crate) struct StatisticsDict {
        count: u64,
        missing: u64,
        min_int: i128,
        max_int: i128,
        sum_int: i128,
        min: f64,
        max: f64,
        sum: (f64, f64),
        squares: (f64, f64),
        bins: Vec<u64>,
    }
}

fn statistics_dict<'py>(py: Python<'py>, part: &PartialStatistics) -> PyResult<Bound<'py, PyDict>> {
    dict!(
        py, part { count, missing, min_int, max_int, sum_int, min, max, bins },
        "sum": (part.sum.high, part.sum.low), "squares": (part.squares.high, part.squares.low),
        "mean": part.mean(), "std": part.std(),
    )
}

/// Returns statistics of the elements in all parts.
#[pyfunction]
pub(crate) fn statistics_joined<'py>(
    py: Python<'py>,
    parts: Vec<StatisticsDict>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut all = PartialStatistics::default();
    for part in parts {
        let double = |(high, low)| Double { high, low };
        let StatisticsDict { count, missing, min_int, max_int, sum_int, min, max, bins, .. } = part;
        let (sum, squares) = (double(part.sum), double(part.squares));
        all.join(&PartialStatistics {
            count,
            missing,
            min_int,
            max_int,
            sum_int,
            min,
            max,
            sum,
            squares,
            bins,
        });
    }
    statistics_dict(py, &all)
}
