//! `fixedscaleoffset` of numcodecs: `(element - offset) * scale`, rounded, as another type.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/filter/fixedscaleoffset.html>
//! * v2 id: `fixedscaleoffset`; v3 name: `numcodecs.fixedscaleoffset`
//!
//! ```
//! # let json = r#"
//! {"id": "fixedscaleoffset", "scale": 10, "offset": 1000, "dtype": "<f8", "astype": "|u1"}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context::of_elements("<f8".parse().unwrap());
//! # assert_eq!(CODECS.from_v2(&metadata, &array).unwrap().codec().to_v2(), Some(metadata));
//! ```
//!
//! Floats are computed in their own type, as in NumPy. Integers are too, and wrap, if offset and
//! scale are integers; otherwise they become 64-bit floats. Results that `astype` cannot hold wrap,
//! as in numcodecs.

use crate::numbers::half::Half;
use crate::numbers::number::{NumberType, map};
use crate::numcodecs::arithmetic::{Real, Whole, with_real, with_whole};
use crate::numcodecs::elements::{Elements, dtype};
use crate::registry::{Config, numcodecs_v3};
use crate::{ArrayToArray, Codec, CodecError, Context, Racing, Result, Scratch};
use serde::Deserialize;
use serde_json::{Value, json};

/// The `fixedscaleoffset` filter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FixedScaleOffset {
    /// As in the metadata: `10` and `10.0` are different scales.
    offset: serde_json::Number,
    scale: serde_json::Number,
    elements: Elements,
    /// Offset and scale as integers, if the computation is in integers.
    whole: Option<(i128, i128)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    offset: serde_json::Number,
    scale: serde_json::Number,
    dtype: Option<String>,
    astype: Option<String>,
}

impl FixedScaleOffset {
    /// Reads metadata. Without `dtype`, elements have the array's type; without `astype`, stored
    /// elements have the elements' type.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        const NAME: &str = "fixedscaleoffset";
        let Fields { offset, scale, dtype: from, astype } = config.fields(NAME)?;
        let decoded = dtype(NAME, "dtype", from.as_deref(), array)?;
        let encoded = match astype {
            Some(name) => dtype(NAME, "astype", Some(&name), array)?,
            None => decoded,
        };
        let elements = Elements::new(NAME, decoded, encoded, array)?;
        if elements.parts() != 1 || elements.from() == NumberType::Bool {
            let why = format!("{NAME:?}: expected integers or floats, found {decoded}");
            return Err(CodecError::Unfit { why });
        }
        if scale.as_f64() == Some(0.0) {
            return Err(CodecError::config(NAME, "scale must not be 0: values could not be read back"));
        }
        let whole = match (offset.as_i128(), scale.as_i128()) {
            (Some(offset), Some(scale)) if !elements.from().is_float() => Some((offset, scale)),
            _ => None,
        };
        if let (Some((offset, scale)), Some((least, most))) = (whole, elements.from().range()) {
            for (field, value) in [("offset", offset), ("scale", scale)] {
                if value < least || value > most {
                    let why =
                        format!("{NAME:?}: {field}: expected a number of type {decoded}, found {value}");
                    return Err(CodecError::Unfit { why });
                }
            }
        }
        Ok(FixedScaleOffset { offset, scale, elements, whole })
    }

    /// Offset and scale.
    fn parameters<T: Real>(&self) -> (T, T) {
        let near = |number: &serde_json::Number| T::from_f64(number.as_f64().unwrap_or(f64::NAN));
        (near(&self.offset), near(&self.scale))
    }
}

impl Codec for FixedScaleOffset {
    fn name(&self) -> &'static str {
        "fixedscaleoffset"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let stored = self.elements.to();
        let within = if stored.is_float() { stored } else { NumberType::F64 };
        macro_rules! decode {
            ($type:ident) => {{
                let (offset, scale) = self.parameters::<$type>();
                let restore = |value: $type| value.divide(scale).plus(offset);
                self.elements.decode(self.name(), src, dst, within, |block| map(block, restore))
            }};
        }
        with_real!(within, decode)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        let kind = self.elements.from();
        if let Some((offset, scale)) = self.whole {
            macro_rules! encode {
                ($type:ident) => {{
                    let (offset, scale) = ($type::from_low_bits(offset), $type::from_low_bits(scale));
                    let change = |value: $type| value.minus(offset).times(scale);
                    self.elements.encode(self.name(), src, dst, kind, |block| map(block, change))
                }};
            }
            return with_whole!(kind, encode);
        }
        let within = if kind.is_float() { kind } else { NumberType::F64 };
        macro_rules! encode {
            ($type:ident) => {{
                let (offset, scale) = self.parameters::<$type>();
                let change = |value: $type| value.minus(offset).times(scale).round_half_even();
                self.elements.encode(self.name(), src, dst, within, |block| map(block, change))
            }};
        }
        with_real!(within, encode)
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        self.elements.max_encoded(decoded)
    }

    fn to_v3(&self) -> Option<Value> {
        numcodecs_v3(self.to_v2()?)
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({
            "id": "fixedscaleoffset",
            "scale": self.scale,
            "offset": self.offset,
            "dtype": self.elements.decoded.numpy(),
            "astype": self.elements.encoded.numpy(),
        }))
    }
}

impl ArrayToArray for FixedScaleOffset {
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        self.elements.context(self, array)
    }
}
