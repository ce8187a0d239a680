//! Reads elements as values.

use crate::diff::Shown;
use crate::meaning::{Decoding, Number, Packing, ValueType};
use crate::nodes::element::swap_bytes;
use crate::{Array, ByteOrder, Json, Kind, ReadOptions, Result, Selection, statistics};
use half::f16;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// The attributes `_FillValue` or `missing_value` mark the element, or it has no value.
    Missing,
    /// A Boolean.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A float. NaN here is a value that is not a number.
    Float(f64),
    /// A complex number.
    Complex(f64, f64),
    /// A date of any calendar.
    Time(String),
    /// Text. Bytes that are text.
    Text(String),
    /// A structure, a sequence, bytes that are no text: as JSON.
    Other(String),
}

/// Values in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Cells {
    /// Values per axis.
    pub shape: Vec<u64>,
    /// The values.
    pub cells: Vec<Cell>,
    /// Bytes of the floats, or of the parts of complex numbers: 2, 4 or 8.
    pub float_size: usize,
}

/// Reads elements of an array as values.
pub struct Reader<'a> {
    array: &'a Array,
    /// How numbers become values.
    decoding: Option<Decoding>,
    /// How other elements become values.
    shown: Option<Shown<'a>>,
}

impl<'a> Reader<'a> {
    /// A reader of values, decoded by the array's attributes. `raw`: attributes mean nothing.
    pub fn of(array: &'a Array, raw: bool) -> Result<Self> {
        let is_number = statistics::number_type(array).is_some()
            && array.optional().is_none()
            && matches!(array.dtype().kind(), Kind::Int | Kind::UInt | Kind::Float);
        if !is_number {
            return Ok(Reader { array, decoding: None, shown: Some(Shown::of(array, raw)?) });
        }
        let decoding = if raw { plain(array, &Json::object(), Packing::default()) } else { decoding(array)? };
        Ok(Reader { array, decoding: Some(decoding), shown: None })
    }

    /// The array.
    pub fn array(&self) -> &'a Array {
        self.array
    }

    /// How numbers become values. `None`: elements are no numbers that attributes describe.
    pub fn decoding(&self) -> Option<&Decoding> {
        self.decoding.as_ref()
    }

    /// Reads the selected elements. `stop` is called now and then; if it returns `true`, this fails with
    /// [`crate::Error::Interrupted`].
    pub fn read(&self, selection: &Selection, stop: &dyn Fn() -> bool) -> Result<Cells> {
        let options = ReadOptions { interrupt: Some(stop), ..ReadOptions::default() };
        let shape = selection.shape().to_vec();
        if let Some(shown) = &self.shown {
            let kind = self.array.dtype().kind();
            let cells = shown.read(selection, options)?.into_iter().map(|json| of_json(json, kind)).collect();
            let size = self.array.dtype().number_size();
            let float_size = if matches!(size, 2 | 4 | 8) { size } else { 8 };
            return Ok(Cells { shape, cells, float_size });
        }
        let stored = self.stored(selection, options)?;
        let cells = self.cells(&stored)?;
        Ok(Cells { shape, cells, float_size: self.float_size() })
    }

    /// Stored numbers, in the machine's byte order.
    pub(super) fn stored(&self, selection: &Selection, options: ReadOptions<'_>) -> Result<Vec<u8>> {
        let mut memory = self.array.read(selection, options)?;
        if self.array.dtype().order() != ByteOrder::NATIVE && self.array.optional().is_none() {
            swap_bytes(memory.as_mut_slice(), self.array.dtype().number_size());
        }
        Ok(memory.as_slice().to_vec())
    }

    fn float_size(&self) -> usize {
        match self.decoding.as_ref().map(|decoding| (decoding.values, decoding.number_type())) {
            Some((ValueType::Float(float), _)) => float.size(),
            Some((_, number)) if number.kind() == Kind::Float => number.size(),
            _ => 8,
        }
    }

    fn cells(&self, stored: &[u8]) -> Result<Vec<Cell>> {
        let Some(decoding) = &self.decoding else { return Ok(Vec::new()) };
        let number = decoding.number_type();
        let count = stored.len() / number.size().max(1);
        let mut marks = vec![0; count];
        decoding.mark_missing(stored, &mut marks);
        let is_nan = |at: usize| {
            number.kind() == Kind::Float && to_double(&stored[at * number.size()..], number.size()).is_nan()
        };
        let is_missing = |at: usize| marks[at] != 0 && !is_nan(at);
        if let ValueType::Float(float) = decoding.values {
            let mut values = vec![0; count * float.size()];
            decoding.unpack(stored, &mut values)?;
            let value = |at: usize| to_double(&values[at * float.size()..], float.size());
            let cell = |at| if is_missing(at) { Cell::Missing } else { Cell::Float(value(at)) };
            return Ok((0..count).map(cell).collect());
        }
        let numbers = decoding.numbers(stored);
        let cell = |at| match (numbers.get(at), &decoding.times) {
            (Number::Missing, Some(_)) => Cell::Missing,
            (Number::Missing, None) if is_missing(at) => Cell::Missing,
            (Number::Missing, None) => Cell::Float(f64::NAN),
            (Number::Int(int), _) if decoding.values == ValueType::Bool => Cell::Bool(int != 0),
            (known, Some(times)) => match (times.text(known), known) {
                (Some(text), _) => Cell::Time(text),
                (None, Number::Int(int)) => Cell::Int(int),
                (None, Number::Float(float)) => Cell::Float(float),
                (None, Number::Missing) => Cell::Missing,
            },
            (Number::Int(int), None) => Cell::Int(int),
            (Number::Float(float), None) => Cell::Float(float),
        };
        Ok((0..count).map(cell).collect())
    }
}

/// Units without a meaning are no reason to hide the numbers.
fn decoding(array: &Array) -> Result<Decoding> {
    let found = Decoding::of(array);
    if found.is_ok() {
        return found;
    }
    let mut attributes = array.attributes()?.into_owned();
    attributes.remove("units");
    Ok(plain(array, &attributes, Packing::of(array)?))
}

/// The decoding of numbers that are no times.
fn plain(array: &Array, attributes: &Json, packing: Packing) -> Decoding {
    let found = Decoding::parse(attributes, array.dtype(), packing, true);
    // Parsing fails for wrong times only, and `attributes` has no times.
    found.unwrap_or_else(|_| Decoding::stored(array.dtype()))
}

/// A float in the machine's byte order.
fn to_double(bytes: &[u8], size: usize) -> f64 {
    let bytes = bytes.get(..size).unwrap_or_default();
    match size {
        2 => bytemuck::pod_read_unaligned::<f16>(bytes).to_f64(),
        4 => f64::from(bytemuck::pod_read_unaligned::<f32>(bytes)),
        8 => bytemuck::pod_read_unaligned::<f64>(bytes),
        _ => f64::NAN,
    }
}

fn of_json(json: Json, kind: Kind) -> Cell {
    match json {
        Json::Null => Cell::Missing,
        Json::Bool(on) => Cell::Bool(on),
        Json::String(text) if matches!(kind, Kind::DateTime(_)) => match text.as_str() {
            "NaT" => Cell::Missing,
            _ => Cell::Time(text),
        },
        Json::String(text) => Cell::Text(text),
        Json::Number(text) => match (text.parse(), text.parse()) {
            (Ok(int), _) => Cell::Int(int),
            (_, Ok(float)) => Cell::Float(float),
            _ => Cell::Other(text.to_string()),
        },
        Json::Array(parts) => match (kind, parts.as_slice()) {
            (Kind::Complex, [Json::Number(real), Json::Number(imaginary)]) => {
                let part = |text: &str| text.parse().unwrap_or(f64::NAN);
                Cell::Complex(part(real), part(imaginary))
            }
            _ => Cell::Other(Json::Array(parts).to_text(None)),
        },
        other => Cell::Other(other.to_text(None)),
    }
}

impl Cell {
    /// The value as a 64-bit float. NaN: it is missing, or no number.
    pub fn to_double(&self) -> f64 {
        match self {
            Cell::Bool(on) => f64::from(u8::from(*on)),
            Cell::Int(int) => *int as f64,
            Cell::Float(float) => *float,
            Cell::Complex(real, imaginary) => real.hypot(*imaginary),
            Cell::Missing | Cell::Time(_) | Cell::Text(_) | Cell::Other(_) => f64::NAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_json() {
        let of = |text: &str, kind| of_json(Json::parse(text.as_bytes()).unwrap(), kind);
        assert_eq!(of("[1.5, NaN]", Kind::Raw), Cell::Other("[1.5, NaN]".into()));
        assert_eq!(of("[1.5, -2.0]", Kind::Complex), Cell::Complex(1.5, -2.0));
        assert_eq!(of("9007199254740993", Kind::UInt), Cell::Int(9_007_199_254_740_993));
        assert_eq!(of("0.5", Kind::Float), Cell::Float(0.5));
        assert_eq!((of("null", Kind::Text), of("true", Kind::Bool)), (Cell::Missing, Cell::Bool(true)));
        assert_eq!(of("\"2000-01-01\"", Kind::Text), Cell::Text("2000-01-01".into()));
        assert_eq!(Cell::Complex(3.0, 4.0).to_double(), 5.0);
        assert!(Cell::Missing.to_double().is_nan());
    }

    #[test]
    fn floats_of_any_size() {
        assert_eq!(to_double(&1.5_f32.to_ne_bytes(), 4), 1.5);
        assert_eq!(to_double(&f16::from_f64(0.25).to_ne_bytes(), 2), 0.25);
    }
}
