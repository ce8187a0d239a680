//! Code shared by numcodecs' filters: the elements that a filter takes and makes.
//!
//! A filter sees bytes, and reads them as elements of the type in its configuration. That may be
//! another type than the array's: `delta` loses nothing when it reads floats as integers.

use crate::numbers::half::Half;
use crate::numbers::low_bits::{low16, low32};
use crate::numbers::number::{Number, NumberType, Numbers, each_block};
use crate::scratch::resize_buffer;
use crate::{ByteOrder, Codec, CodecError, Context, DataType, Kind, Result, Scratch, front};
use serde_json::Value;

/// The elements before and after a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elements {
    pub(crate) decoded: DataType,
    pub(crate) encoded: DataType,
    pub(crate) from: Numbers,
    pub(crate) to: Numbers,
}

impl Elements {
    /// Elements of the types `decoded` and `encoded`.
    ///
    /// Elements that come by value keep their byte order. Fails with [`CodecError::Unfit`] if
    /// either type is not made of numbers, if they cannot be converted, or if the chunks of `array`
    /// are not a whole number of elements.
    pub(crate) fn new(
        codec: &'static str,
        decoded: DataType,
        encoded: DataType,
        array: &Context<'_>,
    ) -> Result<Self> {
        let unfit = |why: String| CodecError::Unfit { why: format!("{codec:?}: {why}") };
        let decoded = if array.by_value { decoded.with_order(array.dtype.order()) } else { decoded };
        let numbers = |dtype: DataType| {
            let why = || unfit(format!("expected bool, integers, floats or complex numbers, found {dtype}"));
            Numbers::of(dtype).ok_or_else(why)
        };
        let (from, to) = (numbers(decoded)?, numbers(encoded)?);
        if from.parts != to.parts {
            return Err(unfit(format!("cannot convert between {decoded} and {encoded}")));
        }
        match array.decoded_size() {
            Some(size) if !size.is_multiple_of(decoded.size()) => Err(unfit(format!(
                "expected a whole number of elements of type {decoded} in a chunk, found {size} bytes"
            ))),
            _ => Ok(Elements { decoded, encoded, from, to }),
        }
    }

    /// The encoded array of a filter for elements of `decoded`. If they have another size than the
    /// array's elements, it has one axis.
    pub(crate) fn context<'a>(&self, codec: &dyn Codec, array: &Context<'a>) -> Context<'a> {
        let mut fill = Vec::new();
        if codec.encode(&array.fill, &mut fill, &mut Scratch::default()).is_err() {
            fill = vec![0; self.encoded.size()];
        }
        let shape = if self.decoded.size() == array.dtype.size() {
            array.shape.clone()
        } else {
            let count = array.decoded_size().map_or(u64::MAX, |size| (size / self.decoded.size()) as u64);
            vec![count].into()
        };
        Context { dtype: self.encoded, shape, by_value: false, fill: fill.into(), ..array.clone() }
    }

    /// [`Codec::max_encoded`].
    pub(crate) fn max_encoded(&self, decoded: usize) -> usize {
        (decoded / self.from.size()).saturating_mul(self.to.size())
    }

    /// The numbers of decoded elements.
    pub(crate) fn from(&self) -> NumberType {
        self.from.kind
    }

    /// The numbers of encoded elements.
    pub(crate) fn to(&self) -> NumberType {
        self.to.kind
    }

    /// How many numbers an element has.
    pub(crate) fn parts(&self) -> usize {
        self.from.parts
    }

    /// Implements [`Codec::encode`]: passes all numbers through `compute` ([`each_block`]).
    #[inline(always)]
    pub(crate) fn encode(
        &self,
        codec: &'static str,
        src: &[u8],
        dst: &mut Vec<u8>,
        within: NumberType,
        compute: impl FnMut(&mut [u8]),
    ) -> Result<()> {
        let dst = self.room(codec, src, dst)?;
        each_block((src, self.from), (dst, self.to), within, compute);
        Ok(())
    }

    /// Implements [`Codec::decode`]: passes all numbers through `compute` ([`each_block`]).
    #[inline(always)]
    pub(crate) fn decode(
        &self,
        codec: &'static str,
        src: &[u8],
        dst: &mut [u8],
        within: NumberType,
        compute: impl FnMut(&mut [u8]),
    ) -> Result<usize> {
        let size = self.decoded_size(codec, src.len())?;
        each_block((src, self.to), (front(codec, dst, size)?, self.from), within, compute);
        Ok(size)
    }

    /// The number of bytes that `stored` bytes decode to.
    pub(crate) fn decoded_size(&self, codec: &'static str, stored: usize) -> Result<usize> {
        if !stored.is_multiple_of(self.to.element_size()) {
            let why =
                format!("expected a whole number of elements of type {}, found {stored} bytes", self.encoded);
            return Err(CodecError::corrupt(codec, why));
        }
        let size = (stored / self.to.size()).checked_mul(self.from.size());
        size.ok_or(CodecError::size(codec, usize::MAX, usize::MAX))
    }

    /// The part of `dst` that receives the encoded elements.
    pub(crate) fn room<'d>(
        &self,
        codec: &'static str,
        src: &[u8],
        dst: &'d mut Vec<u8>,
    ) -> Result<&'d mut [u8]> {
        if !src.len().is_multiple_of(self.from.element_size()) {
            let why = format!(
                "expected a whole number of elements of type {}, found {} bytes",
                self.decoded,
                src.len()
            );
            return Err(CodecError::encode(codec, why));
        }
        let size = self.max_encoded(src.len());
        dst.truncate(size);
        resize_buffer(dst, size, codec)
    }
}

/// A number in v3 metadata, written like a fill value.
///
/// Besides numbers there are `"NaN"`, `"Infinity"`, `"-Infinity"`, and the bits of a float
/// (`"0x7fc00000"`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    /// An integer.
    Whole(i128),
    /// A float, as `f64`.
    Real(f64),
}

impl Scalar {
    /// The number as an `f64`.
    pub(crate) fn to_f64(self) -> f64 {
        match self {
            Scalar::Whole(whole) => whole as f64,
            Scalar::Real(real) => real,
        }
    }

    /// Parses a number of type `kind`. Returns `None` if the type has no such number.
    pub(crate) fn parse(json: &Value, kind: NumberType) -> Option<Scalar> {
        if let Some((least, most)) = kind.range() {
            let whole = integer_value(json)?;
            return (least..=most).contains(&whole).then_some(Scalar::Whole(whole));
        }
        let real = match json {
            Value::Number(number) => number.as_f64()?,
            Value::String(text) => match text.as_str() {
                "NaN" => f64::NAN,
                "Infinity" => f64::INFINITY,
                "-Infinity" => f64::NEG_INFINITY,
                text => {
                    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 2 * kind.size())?;
                    let bits = u64::from_str_radix(digits, 16).ok()?;
                    match kind {
                        NumberType::F16 => Half(low16(bits)).f64(),
                        NumberType::F32 => f32::from_bits(low32(bits)).f64(),
                        _ => f64::from_bits(bits),
                    }
                }
            },
            _ => return None,
        };
        Some(Scalar::Real(match kind {
            NumberType::F16 => real.f16().f64(),
            NumberType::F32 => real.f32().f64(),
            _ => real,
        }))
    }
}

/// A JSON integer, also if written as `5.0`.
fn integer_value(json: &Value) -> Option<i128> {
    let Value::Number(number) = json else { return None };
    number.as_i128().or_else(|| {
        let real = number.as_f64()?;
        // Small enough to be exact.
        (real.fract() == 0.0 && real.abs() < 9e15).then(|| i128::from(real.i64()))
    })
}

/// The element type with a NumPy name as numcodecs and zarr-python write it: `<f8`, `float64`.
///
/// Without a name it is the array's type.
pub(crate) fn dtype(
    codec: &'static str,
    field: &str,
    name: Option<&str>,
    array: &Context<'_>,
) -> Result<DataType> {
    let Some(name) = name else { return Ok(array.dtype) };
    let names =
        [("complex", Kind::Complex), ("float", Kind::Float), ("uint", Kind::UInt), ("int", Kind::Int)];
    let long = names.iter().find_map(|(prefix, kind)| {
        let bits: usize = name.strip_prefix(prefix)?.parse().ok()?;
        DataType::new(*kind, bits / 8, ByteOrder::NATIVE).filter(|_| bits.is_multiple_of(8))
    });
    match (name, long) {
        ("bool", _) => Ok(DataType::new(Kind::Bool, 1, ByteOrder::NATIVE).unwrap_or(array.dtype)),
        (_, Some(dtype)) => Ok(dtype),
        _ => name.parse().map_err(|why| CodecError::config(codec, format!("{field}: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types() {
        let array = Context::of_elements(">i2".parse().unwrap());
        let of = |name| dtype("delta", "dtype", name, &array).map(|dtype| dtype.to_string());
        for (name, numpy) in [
            ("<f8", "<f8"),
            ("float64", "<f8"),
            ("uint16", "<u2"),
            ("int8", "|i1"),
            ("complex64", "<c8"),
            ("bool", "|b1"),
            (">i8", ">i8"),
        ] {
            assert_eq!(of(Some(name)).unwrap(), numpy);
        }
        assert_eq!(of(None).unwrap(), ">i2");
        for bad in ["int12", "float", "object", "|O", "", "int-8", "uint128"] {
            let message = of(Some(bad)).unwrap_err().to_string();
            assert!(message.contains("\"delta\"") && message.contains("dtype: "), "{message}");
        }
    }

    #[test]
    fn elements_that_do_not_fit() {
        let array = Context { shape: vec![3].into(), ..Context::of_elements("<i2".parse().unwrap()) };
        let new =
            |from: &str, to: &str| Elements::new("delta", from.parse().unwrap(), to.parse().unwrap(), &array);
        assert!(new("<i2", ">f8").is_ok() && new("|u1", "|u1").is_ok());
        for (from, to, why) in [
            ("<i4", "<i4", "expected a whole number of elements of type <i4 in a chunk, found 6 bytes"),
            ("|S2", "<i2", "found |S2"),
            ("<i2", "<M8[s]", "found <M8[s]"),
            ("<c8", "<f4", "cannot convert between <c8 and <f4"),
        ] {
            let message = new(from, to).unwrap_err().to_string();
            assert!(message.ends_with(why), "{message}");
        }
        let halves = new("<i2", "|u1").unwrap();
        assert_eq!(halves.max_encoded(6), 3);
        let mut dst = Vec::new();
        assert!(halves.encode("delta", &[0; 3], &mut dst, NumberType::I16, |_| {}).is_err());
        assert!(halves.decode("delta", &[0; 3], &mut [0; 5], NumberType::I16, |_| {}).is_err());
        assert!(
            new("<i2", "<i2")
                .unwrap()
                .decode("delta", &[0; 3], &mut [0; 9], NumberType::I16, |_| {})
                .is_err()
        );
    }
}
