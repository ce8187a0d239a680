//! `cast_value`: elements as numbers of another type.
//!
//! Numbers are rounded, and clamped or wrapped, as configured.
//!
//! * Specification: <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/cast_value>
//! * v3 name: `cast_value`; not in v2
//!
//! ```
//! # let json = r#"
//! {"name": "cast_value", "configuration": {"data_type": "uint8", "rounding": "towards-zero",
//!  "out_of_range": "clamp", "scalar_map": {"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}}}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context::of_elements("<f4".parse().unwrap());
//! # let codec = CODECS.from_v3("cast_value", metadata.get("configuration"), &array).unwrap().codec();
//! # assert_eq!(codec.to_v3(), Some(metadata));
//! ```
//!
//! Takes integers and floats of 8 to 64 bits. The first matching pair of `scalar_map` decides. With
//! `clamp`, a number too large for a float becomes infinite, as in zarr-python. All this holds in
//! both directions.

#![expect(clippy::cast_possible_truncation, reason = "whole floats that an i128 holds")]

use crate::numbers::number::{Number, NumberType, Numbers, each_block, each_block_into};
use crate::numcodecs::elements::{Elements, Scalar, dtype};
use crate::registry::Config;
use crate::{ArrayToArray, Codec, CodecError, Context, Kind, Racing, Result, Scratch, front};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::cmp::Ordering;

const NAME: &str = "cast_value";

/// The `cast_value` codec.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CastValue {
    fields: Fields,
    elements: Elements,
    /// Numbers that are stored as given other numbers.
    encode: Pairs,
    /// Stored numbers that decode to given other numbers.
    decode: Pairs,
}

type Pairs = Vec<(Scalar, Scalar)>;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    data_type: String,
    #[serde(default)]
    rounding: Rounding,
    out_of_range: Option<OutOfRange>,
    scalar_map: Option<ScalarMap>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Rounding {
    #[default]
    NearestEven,
    TowardsZero,
    TowardsPositive,
    TowardsNegative,
    NearestAway,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum OutOfRange {
    Error,
    Clamp,
    Wrap,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct ScalarMap {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encode: Option<Vec<(Value, Value)>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decode: Option<Vec<(Value, Value)>>,
}

impl CastValue {
    /// Reads v3 metadata.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let fields: Fields = config.fields(NAME)?;
        let unfit = |why: String| CodecError::Unfit { why: format!("{NAME:?}: {why}") };
        let target = dtype(NAME, "data_type", Some(&fields.data_type), array)?;
        let is_name = ["int", "uint", "float"].iter().any(|name| fields.data_type.starts_with(name));
        for dtype in [array.dtype, target] {
            if !is_name || !matches!(dtype.kind(), Kind::Int | Kind::UInt | Kind::Float) {
                let why = format!("expected integers or floats of 8 to 64 bits, found {dtype}");
                return Err(unfit(why));
            }
        }
        let elements = Elements::new(NAME, array.dtype, target, array)?;
        let (from, to) = (elements.from(), elements.to());
        if fields.out_of_range == Some(OutOfRange::Wrap) && to.is_float() {
            return Err(unfit(format!(
                "out_of_range: \"wrap\" needs an integer data_type, found {}",
                fields.data_type
            )));
        }
        let pairs = |list: Option<&Vec<(Value, Value)>>, from, to| -> Result<Pairs> {
            let parse = |json: &Value, kind| {
                let why = || unfit(format!("scalar_map: expected a number of type {kind:?}, found {json}"));
                Scalar::parse(json, kind).ok_or_else(why)
            };
            let pair = |(key, value): &(Value, Value)| Ok((parse(key, from)?, parse(value, to)?));
            list.into_iter().flatten().map(pair).collect()
        };
        let map = fields.scalar_map.as_ref();
        let encode = pairs(map.and_then(|map| map.encode.as_ref()), from, to)?;
        let decode = pairs(map.and_then(|map| map.decode.as_ref()), to, from)?;
        Ok(CastValue { fields, elements, encode, decode })
    }

    fn cast<'c>(&'c self, pairs: &'c [(Scalar, Scalar)], to: NumberType) -> Cast<'c> {
        let out_of_range = self.fields.out_of_range.unwrap_or(OutOfRange::Error);
        Cast { pairs, to, rounding: self.fields.rounding, out_of_range }
    }
}

/// A conversion in one direction.
#[derive(Clone, Copy)]
struct Cast<'c> {
    pairs: &'c [(Scalar, Scalar)],
    to: NumberType,
    rounding: Rounding,
    out_of_range: OutOfRange,
}

impl Cast<'_> {
    /// The number in the other type, or `None` if that type cannot represent it.
    fn convert(self, value: Scalar) -> Option<Scalar> {
        let same = |key: Scalar| match (key, value) {
            (Scalar::Real(key), Scalar::Real(value)) => key == value || key.is_nan() && value.is_nan(),
            (key, value) => key == value,
        };
        if let Some((_, found)) = self.pairs.iter().find(|(key, _)| same(*key)) {
            return Some(*found);
        }
        match self.to.range() {
            Some(range) => self.to_whole(value, range).map(Scalar::Whole),
            None => self.to_real(value).map(Scalar::Real),
        }
    }

    fn to_whole(self, value: Scalar, (least, most): (i128, i128)) -> Option<i128> {
        let whole = match value {
            Scalar::Whole(whole) => whole,
            Scalar::Real(real) if real.is_nan() => return None,
            Scalar::Real(real) => {
                let rounded = self.round(real);
                // Larger floats are multiples of 2^64, which wrap to 0. Infinity is not a number to
                // wrap.
                if rounded.abs() < 1e38 {
                    rounded as i128
                } else {
                    return match self.out_of_range {
                        OutOfRange::Error => None,
                        OutOfRange::Wrap => rounded.is_finite().then_some(0),
                        OutOfRange::Clamp => Some(if rounded < 0.0 { least } else { most }),
                    };
                }
            }
        };
        match self.out_of_range {
            _ if (least..=most).contains(&whole) => Some(whole),
            OutOfRange::Error => None,
            OutOfRange::Clamp => Some(whole.clamp(least, most)),
            OutOfRange::Wrap => Some((whole - least).rem_euclid(most - least + 1) + least),
        }
    }

    /// The value as an `f64` that the type can hold.
    fn to_real(self, value: Scalar) -> Option<f64> {
        let (digits, smallest, most) = match self.to {
            NumberType::F16 => (11, -24, 65504.0),
            NumberType::F32 => (24, -149, f64::from(f32::MAX)),
            _ => (53, -1074, f64::MAX),
        };
        let real = match value {
            Scalar::Real(real) if self.to == NumberType::F64 || !real.is_finite() => return Some(real),
            Scalar::Real(real) => self.to_digits(real, digits, smallest),
            Scalar::Whole(whole) => self.shifted(whole, digits.unsigned_abs()),
        };
        match self.out_of_range {
            _ if real.abs() <= most => Some(real),
            OutOfRange::Clamp => Some(f64::INFINITY.copysign(real)),
            OutOfRange::Error | OutOfRange::Wrap => None,
        }
    }

    /// An integer rounded to this many binary digits.
    fn shifted(self, whole: i128, digits: u32) -> f64 {
        let bits = 128 - whole.unsigned_abs().leading_zeros();
        let dropped = bits.saturating_sub(digits);
        let (down, unit) = (whole >> dropped, 1i128 << dropped);
        let rest = whole - (down << dropped);
        let up = match (self.rounding, (2 * rest).cmp(&unit)) {
            _ if rest == 0 => false,
            (Rounding::TowardsNegative, _) => false,
            (Rounding::TowardsPositive, _) => true,
            (Rounding::TowardsZero, _) => whole < 0,
            (_, Ordering::Less) => false,
            (_, Ordering::Greater) => true,
            (Rounding::NearestEven, _) => down & 1 == 1,
            (Rounding::NearestAway, _) => whole >= 0,
        };
        ((down + i128::from(up)) << dropped) as f64
    }

    /// A float rounded to this many binary digits. The last digit stands for at least 2 to the
    /// power of `smallest`.
    fn to_digits(self, real: f64, digits: i32, smallest: i32) -> f64 {
        let exponent = i32::try_from(real.to_bits() >> 52 & 0x7ff).unwrap_or(0) - 1023;
        let unit = 2f64.powi((exponent + 1 - digits).max(smallest));
        self.round(real / unit) * unit
    }

    fn round(self, real: f64) -> f64 {
        match self.rounding {
            Rounding::NearestEven => real.round_ties_even(),
            Rounding::TowardsZero => real.trunc(),
            Rounding::TowardsPositive => real.ceil(),
            Rounding::TowardsNegative => real.floor(),
            Rounding::NearestAway => real.round(),
        }
    }
}

/// Returns `true` if type `to` has all numbers of type `from`.
fn holds(from: NumberType, to: NumberType) -> bool {
    let digits = |kind| match kind {
        NumberType::F16 => 11,
        NumberType::F32 => 24,
        _ => 53,
    };
    match (from.range(), to.range()) {
        (Some(from), Some(to)) => from.0 >= to.0 && from.1 <= to.1,
        (Some((_, most)), None) => most < 1 << digits(to),
        (None, Some(_)) => false,
        (None, None) => from.size() <= to.size(),
    }
}

/// The 64-bit type that holds all numbers of `kind`.
fn widest(kind: NumberType) -> NumberType {
    match kind {
        NumberType::U64 => NumberType::U64,
        kind if kind.is_float() => NumberType::F64,
        _ => NumberType::I64,
    }
}

impl CastValue {
    /// Converts all numbers of a buffer. Fails at the first number without a counterpart.
    fn run(
        &self,
        src: (&[u8], Numbers),
        dst: (&mut [u8], Numbers),
        pairs: &[(Scalar, Scalar)],
    ) -> Result<(), String> {
        let (from, to) = (src.1.kind, dst.1.kind);
        if pairs.is_empty() && holds(from, to) {
            each_block(src, dst, to, |_| {});
            return Ok(());
        }
        let cast = self.cast(pairs, to);
        let (before, after) = (widest(from), widest(to));
        let mut bad = None;
        each_block_into(src, dst, before, after, |block| {
            for bytes in block.as_chunks_mut::<8>().0 {
                let value = match before {
                    NumberType::F64 => Scalar::Real(f64::read(*bytes)),
                    NumberType::U64 => Scalar::Whole(u64::read(*bytes).into()),
                    _ => Scalar::Whole(i64::read(*bytes).into()),
                };
                *bytes = match cast.convert(value) {
                    Some(Scalar::Real(real)) => real.to_ne_bytes(),
                    // The low bits are the same in both types.
                    Some(Scalar::Whole(whole)) => (whole as i64).to_ne_bytes(),
                    None => {
                        bad.get_or_insert(value);
                        [0; 8]
                    }
                };
            }
        });
        match bad {
            None => Ok(()),
            Some(Scalar::Whole(value)) => Err(format!("expected a number of type {to:?}, found {value}")),
            Some(Scalar::Real(value)) => Err(format!("expected a number of type {to:?}, found {value}")),
        }
    }
}

impl Codec for CastValue {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let Elements { from, to, .. } = self.elements;
        let size = self.elements.decoded_size(NAME, src.len())?;
        let done = self.run((src, to), (front(NAME, dst, size)?, from), &self.decode);
        done.map(|()| size).map_err(|why| CodecError::corrupt(NAME, why))
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        let Elements { from, to, .. } = self.elements;
        let dst = self.elements.room(NAME, src, dst)?;
        let hint = "; to store another number instead, set out_of_range or scalar_map";
        let done = self.run((src, from), (dst, to), &self.encode);
        done.map_err(|why| CodecError::encode(NAME, why + hint))
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        self.elements.max_encoded(decoded)
    }

    fn to_v3(&self) -> Option<Value> {
        let Fields { data_type, rounding, out_of_range, scalar_map } = &self.fields;
        let mut configuration = Map::new();
        configuration.insert("data_type".into(), json!(data_type));
        configuration.insert("rounding".into(), json!(rounding));
        // zarr-python takes no "error", which is the default.
        if let Some(out_of_range) = out_of_range.filter(|found| *found != OutOfRange::Error) {
            configuration.insert("out_of_range".into(), json!(out_of_range));
        }
        if let Some(map) = scalar_map {
            configuration.insert("scalar_map".into(), json!(map));
        }
        Some(json!({"name": NAME, "configuration": configuration}))
    }
}

impl ArrayToArray for CastValue {
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        Context { by_value: true, ..self.elements.context(self, array) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of cast-value-rs 0.5.
    #[test]
    fn roundings() {
        let all = [
            Rounding::NearestEven,
            Rounding::TowardsZero,
            Rounding::TowardsPositive,
            Rounding::TowardsNegative,
            Rounding::NearestAway,
        ];
        let cast = |value, to, rounding, out_of_range| {
            let cast = Cast { pairs: &[], to, rounding, out_of_range };
            match cast.convert(value) {
                Some(Scalar::Whole(whole)) => Some(whole as f64),
                Some(Scalar::Real(real)) => Some(real),
                None => None,
            }
        };
        let (whole, real) = (Scalar::Whole, Scalar::Real);
        let small = 2f64.powi(-24);
        for (value, to, expected) in [
            (real(2.5), NumberType::I8, [2.0, 2.0, 3.0, 2.0, 3.0]),
            (real(-2.5), NumberType::I8, [-2.0, -2.0, -2.0, -3.0, -3.0]),
            (
                whole((1 << 53) + 1),
                NumberType::F64,
                [2f64.powi(53), 2f64.powi(53), 2f64.powi(53) + 2.0, 2f64.powi(53), 2f64.powi(53) + 2.0],
            ),
            (
                whole(-(1 << 24) - 1),
                NumberType::F32,
                [-16777216.0, -16777216.0, -16777216.0, -16777218.0, -16777218.0],
            ),
            (
                whole((1 << 24) + 3),
                NumberType::F32,
                [16777220.0, 16777218.0, 16777220.0, 16777218.0, 16777220.0],
            ),
            (real(2049.0), NumberType::F16, [2048.0, 2048.0, 2050.0, 2048.0, 2050.0]),
            (real(small * 1.5), NumberType::F16, [small * 2.0, small, small * 2.0, small, small * 2.0]),
            (real(small / 2.0), NumberType::F16, [0.0, 0.0, small, 0.0, small]),
            (real(-1e-300), NumberType::F32, [0.0, 0.0, 0.0, -(2f64.powi(-149)), 0.0]),
        ] {
            for (rounding, expected) in all.into_iter().zip(expected) {
                assert_eq!(
                    cast(value, to, rounding, OutOfRange::Error),
                    Some(expected),
                    "{value:?} {rounding:?}"
                );
            }
        }
        let even = Rounding::NearestEven;
        for (value, to, none, clamped, wrapped) in [
            (real(256.0), NumberType::U8, None, Some(255.0), Some(0.0)),
            (real(255.5), NumberType::U8, None, Some(255.0), Some(0.0)),
            (whole(-1), NumberType::U8, None, Some(0.0), Some(255.0)),
            (real(-1e300), NumberType::I8, None, Some(-128.0), Some(0.0)),
            (real(f64::INFINITY), NumberType::I8, None, Some(127.0), None),
            (real(f64::NAN), NumberType::I8, None, None, None),
            (real(65520.0), NumberType::F16, None, Some(f64::INFINITY), None),
            (real(65519.0), NumberType::F16, Some(65504.0), Some(65504.0), Some(65504.0)),
            (whole(70000), NumberType::F16, None, Some(f64::INFINITY), None),
            (real(-1e300), NumberType::F32, None, Some(f64::NEG_INFINITY), None),
        ] {
            assert_eq!(cast(value, to, even, OutOfRange::Error), none, "{value:?}");
            assert_eq!(cast(value, to, even, OutOfRange::Clamp), clamped, "{value:?}");
            assert_eq!(cast(value, to, even, OutOfRange::Wrap), wrapped, "{value:?}");
        }
        assert_eq!(
            cast(real(65535.9), NumberType::F16, Rounding::TowardsZero, OutOfRange::Error),
            Some(65504.0)
        );
        assert!(cast(real(f64::NAN), NumberType::F32, even, OutOfRange::Error).unwrap().is_nan());
    }
}
