//! `scale_offset`: `(element - offset) * scale`, in the element's own type.
//!
//! * Specification: <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/scale_offset>
//! * v3 name: `scale_offset`; not in v2
//!
//! ```
//! # let json = r#"
//! {"name": "scale_offset", "configuration": {"offset": 5, "scale": 0.1}}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context::of_elements("<f4".parse().unwrap());
//! # let codec = CODECS.from_v3("scale_offset", metadata.get("configuration"), &array).unwrap().codec();
//! # assert_eq!(codec.to_v3(), Some(metadata));
//! ```
//!
//! An integer outside its type is an error, and so is a stored integer that is no multiple of the
//! scale.

use crate::numbers::half::Half;
use crate::numbers::number::{NumberType, map};
use crate::numcodecs::arithmetic::{Real, Whole, with_real, with_whole};
use crate::numcodecs::elements::{Elements, Scalar};
use crate::registry::Config;
use crate::{ArrayToArray, Codec, CodecError, Context, Racing, Result, Scratch};
use serde::Deserialize;
use serde_json::{Value, json};

const NAME: &str = "scale_offset";

/// The `scale_offset` codec.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScaleOffset {
    /// The fields as in the metadata.
    fields: Fields,
    offset: Scalar,
    scale: Scalar,
    elements: Elements,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default = "zero")]
    offset: Value,
    #[serde(default = "default_scale")]
    scale: Value,
}

fn zero() -> Value {
    0.into()
}

fn default_scale() -> Value {
    1.into()
}

impl ScaleOffset {
    /// Reads v3 metadata.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let fields: Fields = config.fields(NAME)?;
        let dtype = array.dtype;
        let elements = Elements::new(NAME, dtype, dtype, array)?;
        let unfit = |why: String| CodecError::Unfit { why: format!("{NAME:?}: {why}") };
        if elements.parts() != 1 || elements.from() == NumberType::Bool {
            return Err(unfit(format!("expected integers or floats, found {dtype}")));
        }
        let parse = |field: &str, json: &Value| {
            let why = || unfit(format!("{field}: expected a number of type {dtype}, found {json}"));
            Scalar::parse(json, elements.from()).ok_or_else(why)
        };
        let (offset, scale) = (parse("offset", &fields.offset)?, parse("scale", &fields.scale)?);
        if matches!(scale, Scalar::Whole(0) | Scalar::Real(0.0)) {
            return Err(CodecError::config(NAME, "scale must not be 0: values could not be read back"));
        }
        Ok(ScaleOffset { fields, offset, scale, elements })
    }
}

/// Replaces the integers of a block by the results of `change`. `bad` receives the first integer
/// whose result is `None` or not in the type.
fn change_checked<T: Whole>(block: &mut [u8], bad: &mut Option<i128>, change: impl Fn(i128) -> Option<i128>) {
    map(block, |value: T| {
        let value = value.wide();
        let changed = change(value);
        let fits = changed.map(T::from_low_bits).filter(|number| changed == Some(number.wide()));
        if fits.is_none() {
            bad.get_or_insert(value);
        }
        fits.unwrap_or(T::from_low_bits(0))
    });
}

impl Codec for ScaleOffset {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let kind = self.elements.from();
        match (self.offset, self.scale) {
            (Scalar::Whole(offset), Scalar::Whole(scale)) => {
                let mut bad = None;
                let restore =
                    |value: i128| if value % scale == 0 { (value / scale).checked_add(offset) } else { None };
                macro_rules! decode {
                    ($type:ident) => {
                        self.elements.decode(NAME, src, dst, kind, |block| {
                            change_checked::<$type>(block, &mut bad, restore);
                        })?
                    };
                }
                let size = with_whole!(kind, decode);
                let why = |bad| {
                    let why =
                        format!("{bad} / {scale} + {offset} does not fit type {}", self.elements.decoded);
                    CodecError::corrupt(NAME, why)
                };
                bad.map_or(Ok(size), |bad| Err(why(bad)))
            }
            (offset, scale) => {
                macro_rules! decode {
                    ($type:ident) => {{
                        let (offset, scale) =
                            ($type::from_f64(offset.to_f64()), $type::from_f64(scale.to_f64()));
                        let restore = |value: $type| value.divide(scale).plus(offset);
                        self.elements.decode(NAME, src, dst, kind, |block| map(block, restore))
                    }};
                }
                with_real!(kind, decode)
            }
        }
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        let kind = self.elements.from();
        match (self.offset, self.scale) {
            (Scalar::Whole(offset), Scalar::Whole(scale)) => {
                let mut bad = None;
                let change = |value: i128| (value - offset).checked_mul(scale);
                macro_rules! encode {
                    ($type:ident) => {
                        self.elements.encode(NAME, src, dst, kind, |block| {
                            change_checked::<$type>(block, &mut bad, change);
                        })?
                    };
                }
                with_whole!(kind, encode);
                let why = |bad| {
                    let why =
                        format!("({bad} - {offset}) * {scale} does not fit type {}", self.elements.decoded);
                    CodecError::encode(NAME, why)
                };
                bad.map_or(Ok(()), |bad| Err(why(bad)))
            }
            (offset, scale) => {
                macro_rules! encode {
                    ($type:ident) => {{
                        let (offset, scale) =
                            ($type::from_f64(offset.to_f64()), $type::from_f64(scale.to_f64()));
                        let change = |value: $type| value.minus(offset).times(scale);
                        self.elements.encode(NAME, src, dst, kind, |block| map(block, change))
                    }};
                }
                with_real!(kind, encode)
            }
        }
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded
    }

    fn to_v3(&self) -> Option<Value> {
        let Fields { offset, scale } = &self.fields;
        Some(json!({"name": NAME, "configuration": {"offset": offset, "scale": scale}}))
    }
}

impl ArrayToArray for ScaleOffset {
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        Context { by_value: true, ..self.elements.context(self, array) }
    }
}
