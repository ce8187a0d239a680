//! Values as the CF conventions mean them: which type they have, and how they are computed.
//!
//! The types are xarray's, so values are equal to the last bit. There are three exceptions:
//!
//! - A `scale_factor` that is a whole number, without `add_offset`, makes 64-bit floats. xarray
//!   computes in the type of the attribute, which may overflow.
//! - Missing integers in the units of time differences are NaN. xarray shows the smallest integer.
//! - Missing elements are compared as stored numbers. xarray compares floats, which do not tell large
//!   integers apart.

use super::packed::{FactorType, Marks, Packing};
use super::times::{Number, NumpyTimes, Times};
use super::unpack::{self, Float};
use crate::{Array, ByteOrder, DataType, Error, Json, Kind, Result, settings};

/// Fewer elements are unpacked by one thread. This takes about 2 ms (measured with 16-bit integers,
/// on a busy machine). Starting a thread takes a small part of that.
const PARALLEL_FROM: usize = 1 << 19;

/// How stored elements become values.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoding {
    /// Name of the array, for errors.
    name: String,
    /// The numbers that stored numbers represent.
    pub packing: Packing,
    /// The meaning of these numbers as times. `None`: they are no times.
    pub times: Option<Times>,
    /// The type of the values.
    pub values: ValueType,
    /// The type to read stored elements as, in the machine's byte order.
    number: DataType,
    /// The type to compute in. `None`: nothing is computed.
    float: Option<Float>,
}

/// The type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// The stored type, in the machine's byte order. `_Unsigned` may have changed the sign.
    Stored,
    /// The stored type; elements are no numbers, and keep their form.
    Other,
    /// Booleans, stored as integers.
    Bool,
    /// Floats. Missing elements are NaN.
    Float(Float),
    /// Dates or time differences.
    Times,
}

impl Decoding {
    /// Reads the attributes of an array.
    ///
    /// Fails with [`Error::Options`] if an attribute is not what the conventions expect.
    pub fn of(array: &Array) -> Result<Decoding> {
        let name = array.layout().name().to_string();
        let wrong = |why: String| Error::Options(format!("array '{name}': {why}"));
        let packing = Packing::of(array)?;
        let is_plain = array.vlen().is_none() && array.structure().is_none() && array.optional().is_none();
        let attributes = array.attributes()?;
        let found = Decoding::parse(&attributes, array.dtype(), packing, is_plain).map_err(wrong)?;
        Ok(Decoding { name, ..found })
    }

    /// Values that are the stored numbers of a type.
    pub fn stored(dtype: DataType) -> Decoding {
        let number = dtype.with_order(ByteOrder::NATIVE);
        let packing = Packing::default();
        Decoding { name: String::new(), packing, times: None, values: ValueType::Stored, number, float: None }
    }

    /// Like [`Decoding::of`], for `attributes` and elements of a type.
    pub fn parse(
        attributes: &Json,
        dtype: DataType,
        packing: Packing,
        is_plain: bool,
    ) -> Result<Decoding, String> {
        let number = packing.number_type(dtype).with_order(ByteOrder::NATIVE);
        let mut found = Decoding {
            name: String::new(),
            packing,
            times: None,
            values: ValueType::Other,
            number,
            float: None,
        };
        if !is_plain {
            return Ok(found);
        }
        match number.kind() {
            Kind::Int | Kind::UInt | Kind::Float => {}
            Kind::DateTime(_) | Kind::TimeDelta(_) => return Ok(found),
            _ => return Ok(found),
        }
        found.times = Times::parse(attributes)?;
        found.float = found.float_type();
        found.values = match found.float {
            _ if found.times.is_some() => ValueType::Times,
            Some(float) => ValueType::Float(float),
            None if attributes.get("dtype").and_then(Json::as_str) == Some("bool") => ValueType::Bool,
            None => ValueType::Stored,
        };
        Ok(found)
    }

    /// The type that xarray computes in.
    fn float_type(&self) -> Option<Float> {
        let Packing { marks, .. } = self.packing;
        let is_float = self.number.kind() == Kind::Float;
        let stored = Float::of_size(self.number.size()).filter(|_| is_float);
        let scales = self.packing.scales();
        match (marks, scales) {
            (Marks::Values, true) => {
                let first = self.choose(self.number.size(), is_float);
                // xarray chooses again for times.
                Some(if self.times.is_some() { self.choose(first.size(), true) } else { first })
            }
            (Marks::OnlyNan, true) if self.times.is_none() => stored,
            (_, true) => Some(self.choose(self.number.size(), is_float)),
            // Whole numbers become times without floats.
            (_, false) if self.times.is_some() => stored,
            (Marks::Values, false) => {
                let small = if self.number.size() <= 2 { Float::Single } else { Float::Double };
                Some(stored.unwrap_or(small))
            }
            (_, false) => None,
        }
    }

    /// Chooses a type for scaled numbers of a size, as xarray's `_choose_float_dtype`.
    fn choose(&self, size: usize, is_float: bool) -> Float {
        use FactorType::{Double, Json, Single, Whole};
        let Packing { scale, offset, scale_type, offset_type, .. } = self.packing;
        match (scale.map(|_| scale_type), offset.map(|_| offset_type)) {
            // Only 64 bits hold all integers of 32 bits.
            (Some(Single), Some(Single)) if size == 4 && !is_float => Float::Double,
            (Some(Single), Some(Single)) => Float::Single,
            (_, Some(_)) => Float::Double,
            (Some(Single), None) => Float::Single,
            (Some(Double | Json | Whole), None) => Float::Double,
            (None, None) => Float::Double,
        }
    }

    /// The type to read stored elements as, in the machine's byte order.
    pub fn number_type(&self) -> DataType {
        self.number
    }

    /// Makes an error that names the array.
    pub fn error(&self, why: impl std::fmt::Display) -> Error {
        Error::Options(format!("array '{}': {why}", self.name))
    }

    /// Names of the attributes that values already follow.
    pub fn attributes(&self) -> Vec<&'static str> {
        if self.values == ValueType::Other {
            return Vec::new();
        }
        let mut names = vec!["scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned"];
        match &self.times {
            Some(times) if times.calendar().is_some() => names.extend(["units", "calendar"]),
            Some(_) => names.extend(["units", "dtype"]),
            None if self.values == ValueType::Bool => names.push("dtype"),
            None => {}
        }
        names
    }

    /// Computes floats from stored elements, in the machine's byte order.
    ///
    /// Fails if the values are no floats, or if there is no room for them in `values`.
    pub fn unpack(&self, stored: &[u8], values: &mut [u8]) -> Result<()> {
        let ValueType::Float(float) = self.values else {
            return Err(self.error("its values are not floats"));
        };
        let count = stored.len() / self.number.size();
        if count != values.len() / float.size() {
            return Err(self.error("no room for its values"));
        }
        self.fill(stored, float, values);
        Ok(())
    }

    /// The values as 32-bit floats: NaN where they are missing, and times in their units.
    pub fn singles(&self, stored: &[u8]) -> Vec<f32> {
        let mut values = vec![0_f32; stored.len() / self.number.size()];
        match self.float {
            None | Some(Float::Single) => {
                self.fill(stored, Float::Single, bytemuck::cast_slice_mut(&mut values));
            }
            // Rounded only once.
            Some(float) => {
                let mut wide = vec![0; values.len() * float.size()];
                self.fill(stored, float, &mut wide);
                values = unpack::to_singles(&wide, float);
            }
        }
        values
    }

    /// Like [`Decoding::singles`], as 64-bit floats.
    pub fn doubles(&self, stored: &[u8]) -> Vec<f64> {
        let float = self.float.unwrap_or(Float::Double);
        let mut values = vec![0; stored.len() / self.number.size() * float.size()];
        self.fill(stored, float, &mut values);
        unpack::to_doubles(&values, float)
    }

    /// Unpacks with the threads of the settings.
    fn fill(&self, stored: &[u8], float: Float, values: &mut [u8]) {
        let count = stored.len() / self.number.size();
        let (number, packing) = (self.number, &self.packing);
        let threads = if count < PARALLEL_FROM { 1 } else { settings::threads().max(1) };
        let piece = count.div_ceil(threads).max(1);
        let mut pieces = stored.chunks(piece * number.size()).zip(values.chunks_mut(piece * float.size()));
        std::thread::scope(|scope| {
            let mine = pieces.next();
            for (stored, values) in pieces {
                scope.spawn(move || unpack::unpack(stored, number, packing, float, values));
            }
            if let Some((stored, values)) = mine {
                unpack::unpack(stored, number, packing, float, values);
            }
        });
    }

    /// Marks missing elements.
    pub fn mark_missing(&self, stored: &[u8], marks: &mut [u8]) {
        unpack::mark_missing(stored, self.number, &self.packing.missing, marks);
    }

    /// The numbers that stored elements represent, as floats or as integers.
    pub fn numbers(&self, stored: &[u8]) -> Numbers {
        // Floats stay floats if nothing is unpacked.
        let is_float = self.number.kind() == Kind::Float;
        let plain = Float::of_size(self.number.size()).filter(|_| is_float);
        match self.float.or(plain) {
            Some(float) => {
                let count = stored.len() / self.number.size();
                let mut values = vec![0; count * float.size()];
                unpack::unpack(stored, self.number, &self.packing, float, &mut values);
                Numbers::Floats(unpack::to_doubles(&values, float))
            }
            None => Numbers::Ints(unpack::to_ints(stored, self.number, &self.packing.missing)),
        }
    }

    /// Converts stored elements to NumPy's times. `None`: NumPy does not have some of these dates.
    pub fn times(&self, stored: &[u8]) -> Result<Option<NumpyTimes>> {
        let Some(times) = &self.times else { return Err(self.error("its values are not times")) };
        let numbers = self.numbers(stored);
        times.decode(numbers.len(), &|at| numbers.get(at)).map_err(|why| self.error(why))
    }

    /// Converts values to stored elements, in the machine's byte order.
    ///
    /// Fails with the place of a value that has no stored element, and the reason.
    pub fn pack(
        &self,
        count: usize,
        number: &dyn Fn(usize) -> Number,
        stored: &mut [u8],
    ) -> Result<(), (usize, String)> {
        unpack::pack(count, number, self.number, &self.packing, stored)
    }
}

/// Numbers that stored elements represent.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Floats. NaN is missing.
    Floats(Vec<f64>),
    /// Integers. `None` is missing.
    Ints(Vec<Option<i128>>),
}

impl Numbers {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Numbers::Floats(all) => all.len(),
            Numbers::Ints(all) => all.len(),
        }
    }

    /// Returns `true` if there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number at a place.
    pub fn get(&self, at: usize) -> Number {
        match self {
            Numbers::Floats(all) => match all.get(at) {
                Some(float) if !float.is_nan() => Number::Float(*float),
                _ => Number::Missing,
            },
            Numbers::Ints(all) => all.get(at).copied().flatten().map_or(Number::Missing, Number::Int),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoding(attributes: &str, dtype: &str) -> Decoding {
        let (attributes, dtype) = (Json::parse(attributes.as_bytes()).unwrap(), dtype.parse().unwrap());
        let packing = Packing::parse(&attributes, dtype, None).unwrap();
        Decoding::parse(&attributes, dtype, packing, true).unwrap()
    }

    #[test]
    fn types_are_those_of_xarray() {
        use ValueType::{Bool, Float as Real, Other, Stored, Times};
        let (single, double) = (Real(Float::Single), Real(Float::Double));
        for (attributes, dtype, expected) in [
            ("{}", ">i2", Stored),
            (r#"{"_FillValue": 1}"#, "<i2", single),
            (r#"{"_FillValue": 1}"#, "<i4", double),
            (r#"{"_FillValue": 1}"#, "<f2", Real(Float::Half)),
            (r#"{"_FillValue": NaN}"#, "<f4", Stored),
            (r#"{"_FillValue": NaN, "scale_factor": 0.5}"#, "<f4", single),
            (r#"{"scale_factor": 0.5}"#, "<f4", double),
            (r#"{"scale_factor": 2}"#, "|i1", double),
            (r#"{"add_offset": 2, "_FillValue": 1}"#, "|i1", double),
            (r#"{"dtype": "bool"}"#, "|i1", Bool),
            (r#"{"units": "days since 2000-01-01"}"#, "|i1", Times),
            (r#"{"units": "days"}"#, "|i1", Stored),
            (r#"{"units": "days", "_FillValue": 1}"#, "|i1", single),
            (r#"{"units": "days since 2000-01-01"}"#, "|S1", Other),
        ] {
            assert_eq!(decoding(attributes, dtype).values, expected, "{attributes} {dtype}");
        }
        for (scale, offset, dtype, expected) in [
            (FactorType::Single, FactorType::Single, "<i2", single),
            (FactorType::Single, FactorType::Single, "<i4", double),
            (FactorType::Single, FactorType::Single, "<f4", single),
            (FactorType::Single, FactorType::Single, "<f8", single),
            (FactorType::Single, FactorType::Double, "<i2", double),
            (FactorType::Double, FactorType::Double, "<f4", double),
        ] {
            let packing = Packing {
                scale: Some(0.5),
                offset: Some(1.0),
                scale_type: scale,
                offset_type: offset,
                ..Packing::default()
            };
            let found = Decoding::parse(&Json::object(), dtype.parse().unwrap(), packing, true).unwrap();
            assert_eq!(found.values, expected, "{scale:?} {offset:?} {dtype}");
        }
    }

    #[test]
    fn many_numbers_are_unpacked_by_several_threads() {
        let half = decoding(r#"{"scale_factor": 0.5}"#, "|u1");
        let stored: Vec<u8> = (0..PARALLEL_FROM + 3).map(|n| (n % 251) as u8).collect();
        let mut values = vec![0; stored.len() * 8];
        half.unpack(&stored, &mut values).unwrap();
        let expected: Vec<u8> = stored.iter().flat_map(|n| (f64::from(*n) * 0.5).to_ne_bytes()).collect();
        assert!(values == expected);
        assert!(half.unpack(&stored, &mut values[..8]).unwrap_err().to_string().contains("no room"));
    }

    #[test]
    fn packed_times() {
        let days =
            decoding(r#"{"units": "days since 1970-01-01", "scale_factor": 0.5, "_FillValue": 7}"#, "<i2");
        let stored: Vec<u8> = [1_i16, 7].iter().flat_map(|each| each.to_ne_bytes()).collect();
        let found = days.times(&stored).unwrap().unwrap();
        assert_eq!(found.values, [43_200_000_000_000, i64::MIN]);
        assert_eq!(days.attributes().last(), Some(&"calendar"));
        let whole = decoding(r#"{"units": "days since 1970-01-01", "_FillValue": 7}"#, "<i2");
        assert_eq!(whole.numbers(&stored), Numbers::Ints(vec![Some(1), None]));
        let floats: Vec<u8> = [1.5, f64::NAN].iter().flat_map(|float| float.to_ne_bytes()).collect();
        let found = decoding("{}", "<f8").numbers(&floats);
        assert_eq!((found.get(0), found.get(1)), (Number::Float(1.5), Number::Missing));
        assert!(whole.unpack(&stored, &mut []).unwrap_err().to_string().contains("not floats"));
    }
}
