//! The native part of `hyperslab.diff`.

use crate::errors;
use crate::gil::engine::Signals;
use crate::gil::once::items;
use crate::jobs::copy::Source;
use hyperslab::Error;
use hyperslab::copy::{Phase, Progress};
use hyperslab::diff::{DiffOptions, diff, picture};
use pyo3::prelude::*;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};

items! {
    /// The options of a comparison.
    pub(crate) struct WantedDiff {
        rtol: f64,
        atol: f64,
        ulp: u64,
        equal_nan: bool,
        raw: bool,
        layout: bool,
        values: bool,
        brief: bool,
        first: usize,
        threads: Option<usize>,
        names: (String, String),
        png: bool,
    }
}

/// Reports the compared bytes, and bytes in all, to a Python function. Stops if that raises or a
/// signal comes.
struct Teller {
    callback: Option<Py<PyAny>>,
    signals: Signals,
    raised: RefCell<Option<PyErr>>,
    done: Cell<u64>,
    total: Cell<u64>,
}

impl Progress for Teller {
    fn begin(&self, _: Phase, bytes: u64) {
        self.total.set(bytes);
    }

    fn advance(&self, bytes: u64) {
        self.done.set(self.done.get().saturating_add(bytes));
        let Some(callback) = self.callback.as_ref().filter(|_| bytes > 0) else { return };
        let told = ("compare", self.done.get(), self.total.get());
        if let Err(error) = Python::attach(|py| callback.call1(py, told).map(drop)) {
            self.raised.borrow_mut().get_or_insert(error);
        }
    }

    fn cancelled(&self) -> bool {
        self.raised.borrow().is_some() || self.signals.ask()
    }
}

/// The report as JSON and as lines of text, and a picture as PNG if numbers differ.
type Report = (String, Vec<String>, Option<Cow<'static, [u8]>>);

/// Compares two arrays, or two groups with everything below them.
#[pyfunction]
#[pyo3(name = "diff", signature = (a, b, wanted, progress=None))]
pub(crate) fn diff_nodes(
    py: Python<'_>,
    a: Source<'_>,
    b: Source<'_>,
    wanted: WantedDiff,
    progress: Option<Py<PyAny>>,
) -> PyResult<Report> {
    let (a, b) = (a.node(py)?, b.node(py)?);
    let (found, raised) = py.detach(|| {
        let teller = Teller {
            callback: progress,
            signals: Signals::default(),
            raised: RefCell::new(None),
            done: Cell::new(0),
            total: Cell::new(0),
        };
        let options = DiffOptions {
            rtol: wanted.rtol,
            atol: wanted.atol,
            ulp: wanted.ulp,
            equal_nan: wanted.equal_nan,
            raw: wanted.raw,
            layout: wanted.layout,
            values: wanted.values,
            brief: wanted.brief,
            first: wanted.first,
            threads: wanted.threads,
            progress: Some(&teller),
        };
        let found = diff(&a, &b, &options).and_then(|found| {
            let png = if wanted.png { picture(&a, &b, &found, wanted.raw)? } else { None };
            Ok((found, png))
        });
        (found, teller.raised.into_inner().or(teller.signals.into_exception()))
    });
    match (found, raised) {
        (Ok((found, png)), _) => {
            let lines = found.lines([&wanted.names.0, &wanted.names.1]);
            Ok((found.to_json().to_text(None), lines, png.map(Cow::Owned)))
        }
        (Err(Error::Interrupted), Some(raised)) => Err(raised),
        (Err(error), _) => Err(errors::to_exception(py, &error)),
    }
}
