//! Codecs written in Python. A function of the package finds them, and this module calls them.
//!
//! A codec takes the GIL for each chunk. Nothing else in the chain holds it. Python gets a copy of
//! the bytes, so it may keep them.

use crate::gil::attach::try_attach;
use crate::gil::gil_dropped::GilDropped;
use crate::values::elements::numpy_type;
use hyperslab::codec::registry::{self, Config, Finder};
use hyperslab::codec::{AnyCodec, ArrayToArray, ArrayToBytes, Codec, CodecError, Context, DataType, Scratch};
use hyperslab::store::fork::Mutex;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple};
use serde_json::Value;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

const ENDING: &str = "the interpreter is ending";

type Result<T, E = CodecError> = std::result::Result<T, E>;

/// The functions that find codecs in Python. The module that defines them sets them.
static FINDER: PyOnceLock<PythonFinder> = PyOnceLock::new();

struct PythonFinder {
    find: Py<PyAny>,
    makes_bytes: Py<PyAny>,
}

/// Makes the engine look for codecs in Python. Only the first call has an effect.
///
/// `find(name, settings, v2, dtype, shape, fortran, fill)` returns the codec for a name, as an
/// object that [`PythonCodec::new`] takes, or `None`. `makes_bytes(name)` returns true if the codec
/// of a Zarr v3 name is an array-to-bytes codec.
#[pyfunction]
pub(crate) fn set_codec_finder(py: Python<'_>, find: Py<PyAny>, makes_bytes: Py<PyAny>) {
    if FINDER.set(py, PythonFinder { find, makes_bytes }).is_ok() {
        registry::set_finder(Finder { find: self::find, makes_bytes: self::makes_bytes });
    }
}

/// True if no codec may be registered under this name.
#[pyfunction]
pub(crate) fn is_reserved_codec(name: &str, v2: bool) -> bool {
    registry::is_reserved(name, v2)
}

/// An exception of a codec, as the source of an error.
pub(crate) struct Raised {
    text: String,
    error: GilDropped<PyErr>,
}

impl Raised {
    fn new(py: Python<'_>, error: PyErr) -> Self {
        let text = match error.get_type(py).name() {
            Ok(class) => format!("{class}: {}", error.value(py)),
            Err(_) => error.value(py).to_string(),
        };
        Raised { text, error: GilDropped::new(error) }
    }

    /// Returns the exception, with a note that says where it was raised.
    pub(crate) fn exception(&self, py: Python<'_>, note: &str) -> PyErr {
        let error = self.error.clone_ref(py);
        let _ = error.value(py).call_method1("add_note", (note,));
        error
    }
}

impl fmt::Debug for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Raised {}

/// Runs Python code for a codec. An exception becomes the source of the error.
fn ask<T>(codec: &'static str, question: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    let asked = try_attach(|py| question(py).map_err(|error| Raised::new(py, error).into()));
    let asked = asked.unwrap_or_else(|| Err(ENDING.into()));
    asked.map_err(|source| CodecError::Foreign { codec, source })
}

/// Returns a name that lives forever. There is one per codec that was found.
fn interned(name: &str) -> &'static str {
    /// Gated.
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock();
    if let Some(known) = names.iter().find(|known| **known == name) {
        return known;
    }
    let new: &'static str = String::from(name).leak();
    names.push(new);
    new
}

fn makes_bytes(name: &str) -> bool {
    let asked = ask("?", |py| match FINDER.get(py) {
        Some(finder) => finder.makes_bytes.bind(py).call1((name,))?.extract::<bool>(),
        None => Ok(false),
    });
    asked.unwrap_or(false)
}

fn find(name: &str, config: Config<'_>, array: &Context<'_>) -> Option<Result<AnyCodec>> {
    let (v2, settings) = match config {
        Config::V2(object) => (true, Some(object.to_string())),
        Config::V3(configuration) => (false, configuration.map(Value::to_string)),
    };
    let asked = try_attach(|py| -> PyResult<_> {
        let Some(finder) = FINDER.get(py) else { return Ok(None) };
        let dtype = match array.vlen {
            None => Some(numpy_type(py, array.dtype)?),
            Some(_) => None,
        };
        let shape = PyTuple::new(py, array.shape.iter())?;
        let fill = PyBytes::new(py, &array.fill);
        let found = finder.find.bind(py).call1((name, settings, v2, dtype, shape, array.fortran, fill))?;
        if found.is_none() { Ok(None) } else { wrap_codec(&found, name, array).map(Some) }
    });
    match asked {
        // Without an interpreter there are no Python codecs.
        None | Some(Ok(None)) => None,
        Some(Ok(Some(codec))) => Some(Ok(codec)),
        Some(Err(error)) => Some(Err(codec_error(interned(name), error))),
    }
}

thread_local! {
    /// The exception of the last codec that was refused on this thread, and its text in messages.
    ///
    /// If metadata cannot be read, the error is of another kind. This exception is then its cause.
    static REFUSED: RefCell<Option<(String, GilDropped<PyErr>)>> = const { RefCell::new(None) };
}

fn codec_error(codec: &'static str, error: PyErr) -> CodecError {
    let source = try_attach(|py| {
        let raised = Raised::new(py, error.clone_ref(py));
        let last = REFUSED
            .with(|refused| refused.borrow_mut().replace((raised.text.clone(), GilDropped::new(error))));
        drop(last);
        raised
    });
    match source {
        Some(raised) => CodecError::Foreign { codec, source: raised.into() },
        None => CodecError::Foreign { codec, source: ENDING.into() },
    }
}

/// Takes the exception of a refused codec, if an error with this message is about that codec.
pub(crate) fn cause(py: Python<'_>, message: &str) -> Option<PyErr> {
    REFUSED.with(|refused| {
        let mut refused = refused.borrow_mut();
        let (_, error) = refused.take_if(|(text, _)| message.contains(text.as_str()))?;
        Some(error.clone_ref(py))
    })
}

/// Makes a codec from an object that was found.
fn wrap_codec(found: &Bound<'_, PyAny>, name: &str, array: &Context<'_>) -> PyResult<AnyCodec> {
    let codec = PythonCodec::new(found, interned(name), array)?;
    Ok(match found.getattr("kind")?.extract::<String>()?.as_str() {
        "array-array" => AnyCodec::ArrayToArray(codec),
        "array-bytes" => AnyCodec::ArrayToBytes(codec),
        _ => AnyCodec::BytesToBytes(codec),
    })
}

/// A codec written in Python.
struct PythonCodec {
    name: &'static str,
    codec: GilDropped<Py<PyAny>>,
    v2: Option<Value>,
    v3: Option<Value>,
    /// For array→array codecs: the array that they produce.
    encoded: Option<Context<'static>>,
    /// For codecs that also take bytes: the same codec for bytes.
    of_bytes: Option<Arc<PythonCodec>>,
    /// Everything that decoding depends on.
    identity: String,
}

impl PythonCodec {
    fn new(found: &Bound<'_, PyAny>, name: &'static str, array: &Context<'_>) -> PyResult<Arc<Self>> {
        let json = |field: &str| -> PyResult<Option<Value>> {
            let text: Option<String> = found.getattr(field)?.extract()?;
            Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
        };
        let (v2, v3) = (json("v2")?, json("v3")?);
        let encoded = found.getattr("encoded")?;
        let encoded: Option<(String, Vec<u64>, Vec<u8>)> =
            if encoded.is_none() { None } else { Some(encoded.extract()?) };
        let encoded = match encoded {
            None => None,
            Some((dtype, shape, fill)) => {
                let dtype: DataType = dtype.parse().map_err(pyo3::exceptions::PyTypeError::new_err)?;
                Some(Context {
                    dtype,
                    vlen: None,
                    optional: None,
                    shape: shape.into(),
                    fortran: false,
                    by_value: array.by_value,
                    fill: fill.into(),
                })
            }
        };
        let of_bytes = found.getattr("bytes_bytes")?;
        let of_bytes = match of_bytes.is_none() {
            true => None,
            false => Some(PythonCodec::new(&of_bytes, name, array)?),
        };
        // Different classes may have had the same name.
        let class = found.getattr("class_id")?.extract::<usize>()?;
        let settings = v3.as_ref().or(v2.as_ref());
        let identity = format!("{name} {class:x} {settings:?} of {:?} {:?}", array.dtype, array.shape);
        let codec = GilDropped::new(found.clone().unbind());
        Ok(Arc::new(PythonCodec { name, codec, v2, v3, encoded, of_bytes, identity }))
    }

    /// Calls a method with bytes and passes the returned bytes to `take`.
    fn call<T>(&self, method: &str, src: &[u8], take: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        ask(self.name, |py| {
            // Unlike `PyBytes::new`, this raises an exception if there is no memory.
            let given = PyBytes::new_with(py, src.len(), |to| {
                to.copy_from_slice(src);
                Ok(())
            })?;
            let made = self.codec.bind(py).call_method1(method, (given,))?;
            Ok(take(made.cast::<PyBytes>()?.as_bytes()))
        })?
    }
}

impl fmt::Debug for PythonCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.identity)
    }
}

impl Codec for PythonCodec {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        self.call("decode", src, |made| {
            let (codec, expected, found) = (self.name, dst.len() as u64, made.len() as u64);
            let Some(front) = dst.get_mut(..made.len()) else {
                return Err(CodecError::Size { codec, expected, found });
            };
            front.copy_from_slice(made);
            Ok(made.len())
        })
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        dst.clear();
        self.call("encode", src, |made| {
            let (codec, most) = (self.name, self.max_encoded(src.len()));
            if made.len() > most {
                let why = format!(
                    "{} bytes become {}, and no more than {most} are read again",
                    src.len(),
                    made.len()
                );
                return Err(CodecError::Encode { codec, why });
            }
            let failed = |_| CodecError::Encode { codec, why: format!("no memory for {} bytes", made.len()) };
            dst.try_reserve(made.len()).map_err(failed)?;
            dst.extend_from_slice(made);
            Ok(())
        })
    }

    /// A guess, since the size is unknown. Numbers as text take up to 25 times their bytes.
    fn max_encoded(&self, decoded: usize) -> usize {
        const HEADERS: usize = 1 << 20;
        match &self.encoded {
            Some(array) => array.decoded_size().unwrap_or(usize::MAX),
            None => decoded.saturating_mul(32).saturating_add(HEADERS),
        }
    }

    fn runs_in(&self) -> Option<&'static str> {
        Some("Python")
    }

    fn to_v3(&self) -> Option<Value> {
        self.v3.clone()
    }

    fn to_v2(&self) -> Option<Value> {
        self.v2.clone()
    }
}

impl ArrayToArray for PythonCodec {
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        self.encoded.clone().unwrap_or_else(|| array.clone())
    }
}

impl ArrayToBytes for PythonCodec {
    fn of_bytes(&self) -> Option<Arc<dyn Codec>> {
        self.of_bytes.clone().map(|codec| codec as Arc<dyn Codec>)
    }
}
