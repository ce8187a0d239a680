//! Answers of Python coroutines, for threads that wait for them without the GIL.
//!
//! A coroutine runs on the event loop of another thread, which passes the result to its [`Answer`].
//! Results are taken with the GIL there, so the waiting thread needs none.

use crate::gil::attach::is_ending;
use crate::gil::gil_dropped::GilDropped;
use hyperslab::store::fork::{self, Mutex};
use hyperslab::store::waiters::Waiters;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyMemoryView};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Longer results stay in Python's memory until they are used. Shorter ones are copied at once:
/// 64 KiB take 5 µs, which is less than waiting for the GIL to release them.
const COPIED: usize = 64 << 10;

/// Bytes of an object.
pub(crate) enum Bytes {
    Copied(Vec<u8>),
    /// Memory of a `bytes` object.
    Kept(GilDropped<PyBuffer<u8>>),
    Backed(GilDropped<PyBackedBytes>),
}

impl Bytes {
    /// Takes what a store returns: `bytes`, a buffer of zarr-python, or another buffer.
    fn of(found: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = found.extract::<PyBackedBytes>() {
            return Ok(match bytes.len() {
                0..=COPIED => Bytes::Copied(bytes.to_vec()),
                _ => Bytes::Backed(GilDropped::new(bytes)),
            });
        }
        let values = match found.hasattr("as_numpy_array")? {
            true => &found.call_method0("as_numpy_array")?,
            false => found,
        };
        if let Ok(buffer) = PyBuffer::<u8>::get(values) {
            let is_long = buffer.len_bytes() > COPIED;
            if is_long && buffer.readonly() && buffer.is_c_contiguous() && is_of_bytes(values)? {
                return Ok(Bytes::Kept(GilDropped::new(buffer)));
            }
            return buffer.to_vec(found.py()).map(Bytes::Copied);
        }
        let memory = found.py().import("builtins")?.getattr("memoryview")?.call1((values,))?;
        let bytes = memory.call_method0("tobytes")?.extract::<PyBackedBytes>()?;
        Ok(Bytes::Backed(GilDropped::new(bytes)))
    }
}

/// Returns whether a view shows the memory of a `bytes` object, which never changes.
///
/// A read-only view of other memory proves nothing: its owner may write to it.
fn is_of_bytes(view: &Bound<'_, PyAny>) -> PyResult<bool> {
    const DEEPEST: usize = 4;
    let mut view = view.clone();
    for _ in 0..DEEPEST {
        if view.is_exact_instance_of::<PyBytes>() {
            return Ok(true);
        }
        let owner = if view.is_exact_instance_of::<PyMemoryView>() { "obj" } else { "base" };
        match view.getattr_opt(owner)? {
            Some(owner) if !owner.is_none() => view = owner,
            _ => return Ok(false),
        }
    }
    Ok(false)
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Bytes::Copied(bytes) => bytes,
            Bytes::Backed(bytes) => bytes,
            // SAFETY: the buffer is contiguous and part of a `bytes` object (`of`), which nobody
            // changes. It lives as long as `self`.
            Bytes::Kept(buffer) => unsafe {
                std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes())
            },
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bytes").field("len", &self.as_ref().len()).finish()
    }
}

/// The result of a coroutine. `None` stays `None`.
pub(crate) enum Value {
    None,
    Bytes(Bytes),
    Flag(bool),
    Size(u64),
    Names(Vec<String>),
}

/// Which type the result has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Nothing,
    Bytes,
    Flag,
    Size,
    Names,
}

impl Value {
    fn of(found: &Bound<'_, PyAny>, expected: Expected) -> PyResult<Self> {
        if found.is_none() {
            return Ok(Value::None);
        }
        Ok(match expected {
            Expected::Nothing => Value::None,
            Expected::Bytes => Value::Bytes(Bytes::of(found)?),
            Expected::Flag => Value::Flag(found.is_truthy()?),
            Expected::Size => Value::Size(found.extract()?),
            Expected::Names => Value::Names(found.extract()?),
        })
    }
}

type Outcome = Result<Value, GilDropped<PyErr>>;

#[derive(Default)]
struct State {
    outcome: Option<Outcome>,
    is_over: bool,
}

/// State shared by a coroutine's thread and the thread that waits.
#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    waiters: Waiters,
}

/// Why there is no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The waiting thread was asked to stop.
    Stopped,
    /// The event loop belongs to this process's parent, or the interpreter is ending.
    Dead,
}

/// Receives the result of a coroutine.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct Answer {
    slot: Arc<Slot>,
    expected: Expected,
}

impl Answer {
    fn put(&self, outcome: Outcome) {
        {
            let mut state = self.slot.state.lock();
            if state.is_over {
                return;
            }
            (state.outcome, state.is_over) = (Some(outcome), true);
        }
        self.slot.waiters.wake();
    }
}

#[pymethods]
impl Answer {
    /// True if nobody waits for the answer any more.
    #[getter]
    fn is_unwanted(&self) -> bool {
        Arc::strong_count(&self.slot) == 1
    }

    /// Passes the result on.
    fn give(&self, result: &Bound<'_, PyAny>) {
        self.put(Value::of(result, self.expected).map_err(GilDropped::new));
    }

    /// Passes an exception on.
    fn fail(&self, raised: &Bound<'_, PyAny>) {
        self.put(Err(GilDropped::new(PyErr::from_value(raised.clone()))));
    }
}

/// An answer that will come.
pub(crate) struct Awaited {
    slot: Arc<Slot>,
    generation: u64,
}

impl Awaited {
    /// A new answer, to be given to Python, and the right to wait for it.
    pub(crate) fn new(expected: Expected) -> (Answer, Awaited) {
        let slot = Arc::<Slot>::default();
        (Answer { slot: slot.clone(), expected }, Awaited { slot, generation: fork::generation() })
    }

    /// Waits for the outcome. Call it without the GIL, and once.
    pub(crate) fn wait(&self) -> Result<Outcome, Lost> {
        let find = || {
            let outcome = self.slot.state.lock().outcome.take();
            let is_dead = || self.generation != fork::generation() || is_ending();
            outcome.map(Ok).or_else(|| is_dead().then_some(Err(Lost::Dead)))
        };
        self.slot.waiters.wait(find).unwrap_or(Err(Lost::Stopped))
    }

    /// Waits for about `most`. Returns whether [`Awaited::wait`] would return at once.
    pub(crate) fn wait_at_most(&self, most: Duration) -> bool {
        self.slot.waiters.wait_at_most(most, || self.is_here().then_some(())).is_some()
    }

    /// Returns whether there is an outcome, or will never be one.
    pub(crate) fn is_here(&self) -> bool {
        self.slot.state.lock().is_over || self.generation != fork::generation()
    }
}
