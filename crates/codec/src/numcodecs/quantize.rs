//! `quantize` of numcodecs: floats rounded to some decimal digits, by a power of two.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/filter/quantize.html>
//! * v2 id: `quantize`; v3 name: `numcodecs.quantize`
//!
//! ```
//! # let json = r#"
//! {"id": "quantize", "digits": 3, "dtype": "<f8", "astype": "<f4"}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context::of_elements("<f8".parse().unwrap());
//! # assert_eq!(CODECS.from_v2(&metadata, &array).unwrap().codec().to_v2(), Some(metadata));
//! ```

use crate::numbers::half::Half;
use crate::numbers::number::map;
use crate::numcodecs::arithmetic::{Real, with_real};
use crate::numcodecs::elements::{Elements, dtype};
use crate::registry::{Config, numcodecs_v3};
use crate::{ArrayToArray, Codec, CodecError, Context, Racing, Result, Scratch};
use serde::Deserialize;
use serde_json::{Value, json};

/// The `quantize` filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantize {
    digits: i16,
    elements: Elements,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    digits: i16,
    dtype: Option<String>,
    astype: Option<String>,
}

/// Larger powers of ten are not 64-bit floats.
const MOST_DIGITS: i16 = 300;

impl Quantize {
    /// Reads metadata. Without `dtype`, elements have the array's type; without `astype`, stored
    /// elements have the elements' type.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let Fields { digits, dtype: from, astype } = config.fields("quantize")?;
        if digits.abs() > MOST_DIGITS {
            let why = format!("digits: expected -{MOST_DIGITS} to {MOST_DIGITS}, found {digits}");
            return Err(CodecError::config("quantize", why));
        }
        let decoded = dtype("quantize", "dtype", from.as_deref(), array)?;
        let encoded = match astype {
            Some(name) => dtype("quantize", "astype", Some(&name), array)?,
            None => decoded,
        };
        let elements = Elements::new("quantize", decoded, encoded, array)?;
        if elements.parts() != 1 || !elements.from().is_float() || !elements.to().is_float() {
            let why = format!("\"quantize\": expected floats, found {decoded} and {encoded}");
            return Err(CodecError::Unfit { why });
        }
        Ok(Quantize { digits, elements })
    }

    /// Elements become multiples of this power of two, computed as in numcodecs.
    fn scale(&self) -> f64 {
        let exponent = 10f64.powf(-f64::from(self.digits)).log10();
        let exponent = if exponent < 0.0 { exponent.floor() } else { exponent.ceil() };
        2f64.powf(10f64.powf(-exponent).log2().ceil())
    }
}

impl Codec for Quantize {
    fn name(&self) -> &'static str {
        "quantize"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        self.elements.decode("quantize", src, dst, self.elements.to(), |_| {})
    }

    fn only_rounds(&self) -> bool {
        self.elements.decoded == self.elements.encoded
    }

    /// Without `astype`, the stored bytes are the elements.
    fn unframe<'a>(&self, src: &'a [u8], _: bool) -> Option<Result<&'a [u8]>> {
        self.only_rounds().then_some(Ok(src))
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        let within = self.elements.from();
        macro_rules! encode {
            ($type:ident) => {{
                let scale = $type::from_f64(self.scale());
                if !scale.is_finite() || scale.times(scale) == $type::from_f64(0.0) {
                    let why =
                        format!("elements of {} cannot hold {} digits", self.elements.decoded, self.digits);
                    return Err(CodecError::encode("quantize", why));
                }
                // The scale is a power of two, and so is its inverse. Multiplying by the inverse is
                // exact and faster.
                let inverse = $type::from_f64(1.0).divide(scale);
                let change = |value: $type| scale.times(value).round_half_even().times(inverse);
                self.elements.encode("quantize", src, dst, within, |block| map(block, change))
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
            "id": "quantize",
            "digits": self.digits,
            "dtype": self.elements.decoded.numpy(),
            "astype": self.elements.encoded.numpy(),
        }))
    }
}

impl ArrayToArray for Quantize {
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        self.elements.context(self, array)
    }
}
