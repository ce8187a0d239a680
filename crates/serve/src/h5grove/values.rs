//! Elements as they are stored: JSON, plain bytes, NumPy's format, CSV, TIFF; and their statistics.

use super::{Answered, Halt, json, tiff};
use crate::answer::Answer;
use crate::body::Body;
use crate::values::{bounded, listable};
use hyperslab::hdf5::dataspace::Dataspace;
use hyperslab::hdf5::element::ElementKind;
use hyperslab::look::Reader;
use hyperslab::look::npy_header;
use hyperslab::meaning::{Decoding, Number};
use hyperslab::{Array, ByteOrder, DataType, Index, Json, Kind, ReadOptions, Selection, parse_indices};

/// Elements of one array.
pub(super) struct Values<'a> {
    pub(super) array: &'a Array,
    /// In NumPy's words. `None`: all.
    pub(super) selection: Option<String>,
    /// The most bytes of an answer.
    pub(super) most: u64,
    pub(super) ask: &'a dyn Fn() -> bool,
}

/// Numbers in memory.
struct Numbers {
    dtype: DataType,
    bytes: Vec<u8>,
}

impl Values<'_> {
    fn selected(&self) -> Answered<Selection> {
        let text = self.selection.as_deref().unwrap_or_default();
        let wrong = |why: String| Halt::Refused(422, format!("selection: {why}"));
        let indices = parse_indices(text).map_err(wrong)?;
        let (rank, found) = (self.array.shape().len(), indices.len());
        if found > rank && !indices.iter().any(|index| matches!(index, Index::Ellipsis)) {
            let message = format!("{text} has too many members to slice a {rank}D dataset");
            return Err(Halt::Refused(422, message));
        }
        Ok(self.array.select(&indices)?)
    }

    fn options(&self) -> ReadOptions<'_> {
        ReadOptions { interrupt: Some(self.ask), ..ReadOptions::default() }
    }

    /// The data set has no elements and no shape.
    fn is_empty(&self) -> bool {
        self.array.as_hdf5().is_some_and(|dataset| matches!(dataset.dataspace(), Dataspace::Null))
    }

    /// Elements have no parts, if they are in an HDF5 file.
    fn is_plain(&self) -> bool {
        self.array.as_hdf5().is_none_or(|dataset| {
            matches!(dataset.element().kind, ElementKind::Plain(_) | ElementKind::Enum { .. })
        })
    }

    /// Numbers are elements of a plain type. Enumerations count as their integers.
    fn is_number(&self) -> bool {
        let array = self.array;
        self.is_plain()
            && array.vlen().is_none()
            && array.structure().is_none()
            && array.optional().is_none()
            && matches!(
                array.dtype().kind(),
                Kind::Bool | Kind::Int | Kind::UInt | Kind::Float | Kind::Complex
            )
    }

    /// Reads numbers. `safe`: with a type that JavaScript has.
    fn numbers(&self, selection: &Selection, safe: bool) -> Answered<Numbers> {
        let memory = self.array.read(selection, self.options())?;
        let dtype = self.array.dtype();
        let mut numbers = Numbers { dtype, bytes: memory.as_slice().to_vec() };
        if safe {
            numbers.turn(ByteOrder::Little);
            if dtype.kind() == Kind::Float && dtype.size() == 2 {
                numbers.widen();
            }
        }
        Ok(numbers)
    }

    /// The elements in a form. `flatten`: JSON is one list.
    pub(super) fn encoded(&self, format: &str, safe: bool, flatten: bool) -> Answered<Answer> {
        let numeric = self.is_number();
        if safe && !numeric {
            return Err(Halt::Refused(422, "Unsupported dtype safe for non-numeric data".into()));
        }
        let growth = if matches!(format, "json" | "csv" | "") { 6 } else { 2 };
        if self.is_empty() {
            return match format {
                "json" | "" => Ok(Answer::new(200, "application/json", Body::of("null"))),
                other => Err(unsupported(other, "empty and scalar datasets")),
            };
        }
        let selection = self.selected()?;
        let shape = selection.shape().to_vec();
        bounded(self.array, &selection, self.most / growth)?;
        if matches!(format, "json" | "csv" | "") {
            listable(self.array, &shape, self.most)?;
        }
        match format {
            "json" | "" => {
                let mut text = String::new();
                let flat = [shape.iter().product()];
                let shape = if flatten && !shape.is_empty() { &flat[..] } else { &shape };
                nested(&mut self.texts(&selection, safe)?.into_iter(), shape, &mut text);
                return Ok(Answer::new(200, "application/json", Body::of(text)));
            }
            "bin" => {
                return Ok(Answer::new(
                    200,
                    "application/octet-stream",
                    Body::of(self.raw(&selection, safe)?),
                ));
            }
            "npy" | "csv" | "tiff" => {}
            other => return Err(Halt::Refused(422, format!("Unsupported encoding {other}"))),
        }
        if !numeric {
            return Err(unsupported(format, "non-numeric content"));
        }
        let mut numbers = self.numbers(&selection, safe)?;
        if format == "npy" {
            let bytes = [npy_header(&format!("'{}'", numbers.dtype.numpy()), &shape), numbers.bytes].concat();
            return Ok(attached("application/octet-stream", "data.npy", bytes));
        }
        if shape.is_empty() {
            return Err(unsupported(format, "empty and scalar datasets"));
        }
        if format == "tiff" {
            let [height, width] = shape[..] else {
                return Err(Halt::Refused(422, "tiff: expected a selection of two axes".into()));
            };
            numbers.turn(ByteOrder::Little);
            let made = tiff::encode(numbers.dtype, height, width, &numbers.bytes);
            let bytes = made.ok_or_else(|| unsupported(format, &numbers.dtype.numpy()))?;
            return Ok(attached("image/tiff", "data.tiff", bytes));
        }
        let width = match shape[..] {
            [_] => 1,
            [_, width] => usize::try_from(width).unwrap_or(usize::MAX).max(1),
            _ => return Err(Halt::Refused(422, "csv: expected a selection of one or two axes".into())),
        };
        numbers.turn(ByteOrder::NATIVE);
        Ok(attached("text/csv", "data.csv", numbers.csv(width).into_bytes()))
    }

    /// The bytes of elements without pointers.
    fn raw(&self, selection: &Selection, safe: bool) -> Answered<Vec<u8>> {
        if self.is_number() {
            return Ok(self.numbers(selection, safe)?.bytes);
        }
        let has_bytes = self.array.as_hdf5().is_none_or(|dataset| !dataset.element().has_heap_ids());
        if self.array.vlen().is_some() || !has_bytes {
            return Err(unsupported("bin", "elements of variable length"));
        }
        Ok(self.array.read(selection, self.options())?.as_slice().to_vec())
    }

    /// The elements as JSON, in C order.
    fn texts(&self, selection: &Selection, safe: bool) -> Answered<Vec<String>> {
        let array = self.array;
        let is_opaque =
            array.dtype().kind() == Kind::Raw && array.vlen().is_none() && array.optional().is_none();
        if is_opaque && array.structure().is_none() && self.is_plain() {
            let memory = array.read(selection, self.options())?;
            let elements = memory.as_slice().chunks_exact(array.dtype().size().max(1));
            let text = |one| Json::from(String::from_utf8_lossy(one).as_ref()).to_text(None);
            return Ok(elements.map(text).collect());
        }
        if !self.is_number() {
            let cells = Reader::of(self.array, true)?.read(selection, self.ask)?.cells;
            return Ok(cells.iter().map(|cell| json::of_cell(cell).to_text(None)).collect());
        }
        let mut numbers = self.numbers(selection, safe)?;
        numbers.turn(ByteOrder::NATIVE);
        Ok(numbers.texts())
    }

    /// Statistics of the finite elements.
    pub(super) fn statistics(&self) -> Answered<Json> {
        let kind = self.array.dtype().kind();
        if !self.is_number() || kind == Kind::Complex || self.is_empty() {
            let message = "statistics are of real numbers, and the elements are others";
            return Err(Halt::Refused(422, message.into()));
        }
        let selection = self.selected()?;
        listable(self.array, &selection.shape(), self.most)?;
        let mut numbers = self.numbers(&selection, false)?;
        numbers.turn(ByteOrder::NATIVE);
        let is_float = kind == Kind::Float;
        let values = numbers.parts().into_iter().filter_map(|number| match number {
            Number::Int(int) => Some(Real(int as f64, int)),
            Number::Float(float) if float.is_finite() => Some(Real(float, 0)),
            _ => None,
        });
        let values: Vec<Real> = values.collect();
        let json = |value: Option<Real>| match value {
            None => Json::Null,
            Some(Real(float, _)) if is_float => Json::float(float),
            Some(Real(_, int)) => int.into(),
        };
        let least = |above: Option<f64>, and: bool| {
            let kept = values.iter().filter(|one| above.is_none_or(|low| one.0 > low || and && one.0 == low));
            kept.copied().reduce(|one, other| if other.is_below(one) { other } else { one })
        };
        let most = values.iter().copied().reduce(|one, other| if one.is_below(other) { other } else { one });
        let n = values.len() as f64;
        let mean = values.iter().map(|one| one.0).sum::<f64>() / n;
        let deviation = (values.iter().map(|one| (one.0 - mean).powi(2)).sum::<f64>() / n).sqrt();
        // h5grove cuts the mean of integers to an integer.
        let moment = |value: f64| match (values.is_empty(), is_float) {
            (true, _) => Json::Null,
            (_, true) => Json::float(value),
            _ => (value as i128).into(),
        };
        Ok(Json::from([
            ("strict_positive_min", json(least(Some(0.0), false))),
            ("positive_min", json(least(Some(0.0), true))),
            ("min", json(least(None, false))),
            ("max", json(most)),
            ("mean", moment(mean)),
            ("std", moment(deviation)),
        ]))
    }
}

/// A number as a float, and as it is if it is an integer.
#[derive(Clone, Copy)]
struct Real(f64, i128);

impl Real {
    fn is_below(self, other: Real) -> bool {
        (self.0, self.1) < (other.0, other.1)
    }
}

impl Numbers {
    fn turn(&mut self, order: ByteOrder) {
        if self.dtype.has_order() && self.dtype.order() != order {
            self.bytes.chunks_exact_mut(self.dtype.number_size()).for_each(<[u8]>::reverse);
        }
        self.dtype = self.dtype.with_order(order);
    }

    /// Halves become singles, which JavaScript has. They are little-endian.
    fn widen(&mut self) {
        let halves = self.bytes.chunks_exact(2);
        let wide =
            halves.flat_map(|half| half::f16::from_le_bytes([half[0], half[1]]).to_f32().to_le_bytes());
        self.bytes = wide.collect();
        self.dtype = DataType::new(Kind::Float, 4, ByteOrder::Little).unwrap_or(self.dtype);
    }

    /// The elements as integers or floats; of complex numbers both parts. They are in the machine's byte
    /// order.
    fn parts(&self) -> Vec<Number> {
        let (kind, size) = (self.dtype.kind(), self.dtype.number_size());
        if kind == Kind::Bool {
            return self.bytes.iter().map(|byte| Number::Int(i128::from(*byte != 0))).collect();
        }
        let kind = if kind == Kind::Complex { Kind::Float } else { kind };
        let Some(dtype) = DataType::new(kind, size, ByteOrder::NATIVE) else { return Vec::new() };
        let decoding = Decoding::stored(dtype);
        let found = decoding.numbers(&self.bytes);
        (0..found.len()).map(|at| found.get(at)).collect()
    }

    fn texts(&self) -> Vec<String> {
        let (kind, is_short) = (self.dtype.kind(), self.dtype.size() <= 4);
        let parts = self.parts();
        let text = |number: &Number, short: bool| match number {
            Number::Int(int) if kind == Kind::Bool => (*int != 0).to_string(),
            Number::Int(int) => int.to_string(),
            Number::Float(value) => json::float(*value, short).to_text(None),
            Number::Missing => "null".into(),
        };
        if kind != Kind::Complex {
            return parts.iter().map(|one| text(one, is_short)).collect();
        }
        let pair = |pair: &[Number]| pair.iter().map(|one| text(one, false)).collect::<Vec<_>>().join(",");
        parts.chunks(2).map(|parts| format!("[{}]", pair(parts))).collect()
    }

    /// Lines as NumPy's `savetxt` writes them.
    fn csv(&self, width: usize) -> String {
        let is_complex = self.dtype.kind() == Kind::Complex;
        let value = |number: &Number| match number {
            Number::Int(int) => *int as f64,
            Number::Float(float) => *float,
            Number::Missing => f64::NAN,
        };
        let cell = |parts: &[Number]| {
            let real = printed(parts.first().map_or(f64::NAN, value));
            let Some(imaginary) = parts.get(1).map(value) else { return real };
            let sign = if imaginary.is_sign_negative() && !imaginary.is_nan() { "" } else { "+" };
            format!(" ({real}{sign}{}j)", printed(imaginary))
        };
        let each = if is_complex { 2 } else { 1 };
        let line = |row: &[Number]| row.chunks(each).map(cell).collect::<Vec<_>>().join(",") + "\n";
        self.parts().chunks(width.saturating_mul(each)).map(line).collect()
    }
}

/// A float as C's `%.18e` prints it.
fn printed(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let text = format!("{value:.18e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Appends nested lists of texts.
fn nested(values: &mut dyn Iterator<Item = String>, shape: &[u64], text: &mut String) {
    let Some((len, inner)) = shape.split_first() else {
        text.push_str(values.next().as_deref().unwrap_or("null"));
        return;
    };
    text.push('[');
    for at in 0..*len {
        if at > 0 {
            text.push(',');
        }
        nested(values, inner, text);
    }
    text.push(']');
}

fn unsupported(format: &str, what: &str) -> Halt {
    Halt::Refused(422, format!("Unsupported encoding {format} for {what}"))
}

fn attached(media: &'static str, name: &str, bytes: Vec<u8>) -> Answer {
    Answer::new(200, media, Body::of(bytes))
        .with("content-disposition", &format!("attachment; filename=\"{name}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_c_prints_them() {
        assert_eq!(printed(1.5), "1.500000000000000000e+00");
        assert_eq!(printed(-0.1), "-1.000000000000000056e-01");
        assert_eq!(printed(1e123), "9.999999999999999777e+122");
        assert_eq!((printed(f64::NAN), printed(f64::NEG_INFINITY)), ("nan".into(), "-inf".into()));
    }

    #[test]
    fn numbers_of_any_order() {
        let mut numbers = Numbers { dtype: ">f2".parse().unwrap(), bytes: vec![0x3c, 0, 0xfc, 0] };
        numbers.turn(ByteOrder::Little);
        numbers.widen();
        assert_eq!(numbers.dtype, "<f4".parse().unwrap());
        assert_eq!(numbers.texts(), ["1.0", "null"]);
        assert_eq!(numbers.csv(2), "1.000000000000000000e+00,-inf\n");
        let complex = [1.5_f32, -2.0].map(f32::to_ne_bytes).concat();
        let one = Numbers { dtype: "c8".parse().unwrap(), bytes: complex };
        assert_eq!(one.texts(), ["[1.5,-2.0]"]);
        assert_eq!(one.csv(1), " (1.500000000000000000e+00-2.000000000000000000e+00j)\n");
        let bools = Numbers { dtype: "|b1".parse().unwrap(), bytes: vec![1, 0] };
        assert_eq!(bools.texts(), ["true", "false"]);
    }
}
