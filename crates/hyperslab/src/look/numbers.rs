//! Elements as floats, for pictures and histograms.

use super::cells::{Cell, Reader};
use crate::nodes::element::swap_bytes;
use crate::{Array, ByteOrder, Error, Kind, ReadOptions, Result, Selection};
use half::f16;

/// The part of complex numbers that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The magnitude.
    #[default]
    Abs,
    /// The angle, from -π to π.
    Phase,
    /// The real part.
    Real,
    /// The imaginary part.
    Imag,
}

impl std::str::FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        Ok(match text {
            "abs" => Part::Abs,
            "phase" => Part::Phase,
            "real" => Part::Real,
            "imag" => Part::Imag,
            other => return Err(format!("part: expected abs, phase, real or imag, found {other:?}")),
        })
    }
}

/// Reads elements as floats: unpacked, NaN where they are missing, times as numbers of their units, and
/// Booleans as 0 and 1.
pub struct NumberReader<'a> {
    reader: Reader<'a>,
    part: Part,
}

impl<'a> NumberReader<'a> {
    /// Fails with [`Error::Options`] if elements are no numbers.
    pub fn of(array: &'a Array, part: Part) -> Result<Self> {
        let reader = Reader::of(array, false)?;
        let is_number = matches!(
            array.optional().unwrap_or(array.dtype()).kind(),
            Kind::Bool
                | Kind::Int
                | Kind::UInt
                | Kind::Float
                | Kind::Complex
                | Kind::DateTime(_)
                | Kind::TimeDelta(_)
                | Kind::Small(_)
        );
        if !is_number || array.vlen().is_some() || array.structure().is_some() {
            return Err(Error::Options(format!(
                "array '{}': its elements are {}, and no numbers",
                array.name(),
                array.type_words()
            )));
        }
        Ok(NumberReader { reader, part })
    }

    /// Bytes of memory for each number while numbers are read.
    pub(super) fn memory(&self) -> u64 {
        let array = self.array();
        let is_listed = array.optional().is_some() || matches!(array.dtype().kind(), Kind::Small(_));
        // These become JSON one by one.
        if self.reader.decoding().is_none() && is_listed { 128 } else { 4 }
    }

    /// The array.
    pub fn array(&self) -> &'a Array {
        self.reader.array()
    }

    /// The selected elements as 32-bit floats, in C order. `stop` is as in [`Reader::read`].
    pub fn singles(&self, selection: &Selection, stop: &dyn Fn() -> bool) -> Result<Vec<f32>> {
        let options = ReadOptions { interrupt: Some(stop), ..ReadOptions::default() };
        match self.reader.decoding() {
            Some(decoding) => self.reader.with_stored(selection, options, |bytes| decoding.singles(bytes)),
            None => Ok(self.doubles(selection, stop)?.into_iter().map(|number| number as f32).collect()),
        }
    }

    /// The selected elements as 64-bit floats, in C order. `stop` is as in [`Reader::read`].
    pub fn doubles(&self, selection: &Selection, stop: &dyn Fn() -> bool) -> Result<Vec<f64>> {
        let array = self.array();
        let options = ReadOptions { interrupt: Some(stop), ..ReadOptions::default() };
        if let Some(decoding) = self.reader.decoding() {
            return self.reader.with_stored(selection, options, |bytes| decoding.doubles(bytes));
        }
        let dtype = array.dtype();
        let is_plain = array.optional().is_none();
        match dtype.kind() {
            Kind::Bool if is_plain => self.reader.with_stored(selection, options, |bytes| {
                bytes.iter().map(|byte| f64::from(u8::from(*byte != 0))).collect()
            }),
            Kind::DateTime(_) | Kind::TimeDelta(_) if is_plain => {
                self.reader.with_stored(selection, options, |bytes| {
                    let ints = bytes.chunks_exact(8).map(bytemuck::pod_read_unaligned::<i64>);
                    ints.map(|int| if int == i64::MIN { f64::NAN } else { int as f64 }).collect()
                })
            }
            Kind::Complex if is_plain => self.reader.with_stored(selection, options, |bytes| {
                let size = dtype.number_size();
                let pairs = bytes.chunks_exact(size * 2).map(|pair| pair.split_at(size));
                pairs.map(|(real, imag)| self.part.of(float(real), float(imag))).collect()
            }),
            _ => {
                let cells = self.reader.read(selection, stop)?.cells;
                Ok(cells.iter().map(|cell| self.part.of_cell(cell)).collect())
            }
        }
    }
}

impl Part {
    fn of(self, real: f64, imag: f64) -> f64 {
        match self {
            Part::Abs => real.hypot(imag),
            // NumPy has an angle for a NaN only if both parts are numbers.
            Part::Phase => imag.atan2(real),
            Part::Real => real,
            Part::Imag => imag,
        }
    }

    fn of_cell(self, cell: &Cell) -> f64 {
        match cell {
            Cell::Complex(real, imag) => self.of(*real, *imag),
            other => other.to_double(),
        }
    }
}

/// A float in the machine's byte order.
fn float(bytes: &[u8]) -> f64 {
    match bytes.len() {
        2 => bytemuck::pod_read_unaligned::<f16>(bytes).to_f64(),
        4 => f64::from(bytemuck::pod_read_unaligned::<f32>(bytes)),
        8 => bytemuck::pod_read_unaligned::<f64>(bytes),
        _ => f64::NAN,
    }
}

impl Reader<'_> {
    /// Calls a function with stored numbers in the machine's byte order.
    fn with_stored<T>(
        &self,
        selection: &Selection,
        options: ReadOptions<'_>,
        make: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        let dtype = self.array().dtype();
        let mut memory = self.array().read(selection, options)?;
        if dtype.order() != ByteOrder::NATIVE && dtype.has_order() {
            swap_bytes(memory.as_mut_slice(), dtype.number_size());
        }
        Ok(make(memory.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, Json, MemoryStore, Source, WriteOptions, zarr};
    use std::sync::Arc;

    fn array(dtype: &str, attributes: &str, bytes: &[u8]) -> Array {
        let dtype: crate::DataType = dtype.parse().unwrap();
        let shape = [(bytes.len() / dtype.size()) as u64];
        let mut spec = ArraySpec::new(zarr::Format::V2, &shape, dtype);
        spec.attributes = Json::parse(attributes.as_bytes()).unwrap();
        let array: Array = zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false).unwrap().into();
        let source = Source::dense(bytes, &shape, dtype.size()).unwrap();
        array.write(&array.select(&[]).unwrap(), &source, WriteOptions::default()).unwrap();
        array
    }

    fn both(array: &Array, part: Part) -> Vec<f64> {
        let (reader, all) = (NumberReader::of(array, part).unwrap(), array.select(&[]).unwrap());
        let (singles, doubles) =
            (reader.singles(&all, &|| false).unwrap(), reader.doubles(&all, &|| false).unwrap());
        for (single, double) in singles.iter().zip(&doubles) {
            assert!(*single == *double as f32 || (single.is_nan() && double.is_nan()));
        }
        doubles
    }

    #[test]
    fn numbers_of_every_kind() {
        let packed = array(
            ">i2",
            r#"{"scale_factor": 0.5, "add_offset": 1.0, "_FillValue": 7}"#,
            &[0, 1, 0, 7, 255, 255],
        );
        let found = both(&packed, Part::Abs);
        assert!(found[0] == 1.5 && found[1].is_nan() && found[2] == 0.5);
        let unsigned = array("|i1", r#"{"_Unsigned": "true"}"#, &[255, 1]);
        assert_eq!(both(&unsigned, Part::Abs), [255.0, 1.0]);
        assert_eq!(both(&array("|b1", "{}", &[0, 1]), Part::Abs), [0.0, 1.0]);
        let times = array("<i8", r#"{"units": "days since 2000-01-01"}"#, &[3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(both(&times, Part::Abs), [3.0]);
        let dates = [5_i64, i64::MIN].map(i64::to_le_bytes).concat();
        let found = both(&array("<M8[s]", "{}", &dates), Part::Abs);
        assert!(found[0] == 5.0 && found[1].is_nan());
        let wave = array(">c8", "{}", &[3.0_f32, -4.0].map(f32::to_be_bytes).concat());
        assert_eq!([Part::Abs, Part::Real, Part::Imag].map(|part| both(&wave, part)[0]), [5.0, 3.0, -4.0]);
        assert_eq!(both(&wave, Part::Phase)[0], (-4.0_f64).atan2(3.0));
        assert!(NumberReader::of(&array("|S2", "{}", b"abcd"), Part::Abs).is_err());
        assert!("angle".parse::<Part>().is_err() && "phase".parse() == Ok(Part::Phase));
    }
}
