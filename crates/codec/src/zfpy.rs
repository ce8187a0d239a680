//! `zfpy`: numcodecs' name for [`zfp`](crate::zfp) streams with a header.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/compression/zfpy.html>,
//!   <https://zfp.readthedocs.io/en/latest/python.html>
//! * v2 id: `zfpy`; v3 name: `numcodecs.zfpy`
//!
//! ```json
//! {"id": "zfpy", "mode": 4, "tolerance": 0.01, "rate": -1, "precision": -1}
//! ```
//!
//! The mode is 2 (fixed rate), 3 (fixed precision) or 4 (fixed accuracy). If the mode's parameter
//! is below zero, compression is reversible. Only the encoder needs settings: the header gives the
//! mode, the element type and the shape.

use crate::registry::Config;
use crate::zfp::{Mode, decode_field, encode_field, field, max_stream, words};
use crate::{ArrayToBytes, Codec, CodecError, Context, Kind, Result, Scratch};
use serde::Deserialize;
use serde_json::{Number, Value, json};
use zfp_rs::{ZfpBitStreamRef, ZfpConfig, ZfpFieldMetadata, ZfpHeaderMask};

/// The `zfpy` codec.
#[derive(Clone, Debug)]
pub(crate) struct Zfpy {
    fields: Fields,
    field: ZfpFieldMetadata,
    config: ZfpConfig,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Fields {
    mode: u8,
    tolerance: Number,
    rate: Number,
    precision: Number,
    /// The parameter of the mode again: numcodecs writes it and does not read it.
    #[serde(rename = "compression_kwargs")]
    _again: Option<serde::de::IgnoredAny>,
}

impl Default for Fields {
    fn default() -> Self {
        let none = || Number::from(-1);
        Fields { mode: 4, tolerance: none(), rate: none(), precision: none(), _again: None }
    }
}

impl Zfpy {
    /// Reads Zarr metadata, for the elements of `array`.
    pub(crate) fn new(json: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let fields: Fields = json.fields("zfpy")?;
        let dtype = array.dtype;
        let fits = dtype.kind() != Kind::UInt && dtype.size() >= 4;
        let Some(field) = field(array).filter(|_| fits) else {
            let why = format!(
                "\"zfpy\" encodes signed integers and floats of 4 and 8 bytes, in this machine's byte order, in chunks of up to four axes; found {dtype} in chunks of shape {:?}",
                array.shape
            );
            return Err(CodecError::Unfit { why });
        };
        let above_zero = |number: &Number| number.as_f64().filter(|number| *number >= 0.0);
        let (rate, tolerance) = (above_zero(&fields.rate), above_zero(&fields.tolerance));
        let precision = fields.precision.as_u64().map(|bits| u32::try_from(bits).unwrap_or(u32::MAX));
        let mode = match (fields.mode, rate, precision, tolerance) {
            (2, Some(rate), ..) => Mode::FixedRate { rate },
            (3, _, Some(precision), _) => Mode::FixedPrecision { precision },
            (4, .., Some(tolerance)) => Mode::FixedAccuracy { tolerance },
            (2..=5, ..) => Mode::Reversible {},
            (other, ..) => {
                let why = format!(
                    "mode must be 2 (rate), 3 (precision), 4 (accuracy) or 5 (reversible), found {other}"
                );
                return Err(CodecError::config("zfpy", why));
            }
        };
        let Some(config) = mode.config(&field) else {
            return Err(CodecError::config(
                "zfpy",
                format!("mode {} does not exist for elements of type {dtype}", json!(mode)),
            ));
        };
        Ok(Zfpy { fields, field, config })
    }

    fn configuration(&self) -> Value {
        let Fields { mode, tolerance, rate, precision, .. } = &self.fields;
        json!({"mode": mode, "tolerance": tolerance, "rate": rate, "precision": precision})
    }
}

impl Codec for Zfpy {
    fn name(&self) -> &'static str {
        "zfpy"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        if !src.len().is_multiple_of(8) {
            return Err(CodecError::corrupt(
                "zfpy",
                format!("expected a whole number of words of 8 bytes, found {} bytes", src.len()),
            ));
        }
        let words = words("zfpy", src)?;
        let mut stream = ZfpBitStreamRef::from_words(&words);
        let header = stream.read_header(ZfpHeaderMask::FULL);
        let header = header.map_err(|error| CodecError::corrupt("zfpy", error.to_string()))?;
        let (Some(config), Some(field)) = (header.config, header.metadata) else {
            return Err(CodecError::corrupt("zfpy", "the header is incomplete"));
        };
        if field.scalar_type != self.field.scalar_type {
            let why = format!(
                "expected numbers of type {:?}, found {:?}",
                self.field.scalar_type, field.scalar_type
            );
            return Err(CodecError::corrupt("zfpy", why));
        }
        decode_field("zfpy", &mut stream, src.len(), &config, &field, dst)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        *dst = encode_field("zfpy", src, &self.config, &self.field, true)?;
        Ok(())
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        max_stream(&self.config, &self.field, decoded)
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": "numcodecs.zfpy", "configuration": self.configuration()}))
    }

    fn to_v2(&self) -> Option<Value> {
        let mut object = json!({"id": "zfpy"});
        object.as_object_mut()?.extend(self.configuration().as_object()?.clone());
        Some(object)
    }
}

impl ArrayToBytes for Zfpy {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdf5::tests::hex;
    use crate::testing::{self, decode, encode};
    use std::borrow::Cow;

    fn codec(dtype: &str, shape: &[u64], fields: &Value) -> Result<Zfpy> {
        let mut object = json!({"id": "zfpy"});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let array = Context::of_elements(dtype.parse().unwrap());
        Zfpy::new(Config::V2(&object), &Context { shape: Cow::Owned(shape.to_vec()), ..array })
    }

    /// Python: zfpy.compress_numpy(np.arange(20, dtype="f4").reshape(4, 5), rate=8)
    const KNOWN: &str =
        "7a667005460000300000f00709311507000000000000000000000000092d165400000000000000000000000000000000";

    #[test]
    fn known_stream() {
        let fields = json!({"mode": 2, "tolerance": -1, "rate": 8, "precision": -1});
        let codec = codec("<f4", &[4, 5], &fields).unwrap();
        let data: Vec<u8> = (0..20u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
        let stored = encode(&codec, &data);
        assert_eq!(stored, hex(KNOWN));
        let decoded = decode(&codec, &stored, 80).unwrap();
        let value = |i: usize| f32::from_le_bytes(decoded[4 * i..][..4].try_into().unwrap());
        assert!((0..20).all(|i| (value(i) - i as f32).abs() < 2.0));
        assert_eq!(codec.to_v3().unwrap(), json!({"name": "numcodecs.zfpy", "configuration": fields}));
    }

    #[test]
    fn round_trips_and_damage() {
        for (dtype, size) in [("<i4", 4), ("<i8", 8), ("<f4", 4), ("<f8", 8), ("<M8[s]", 8)] {
            let codec = codec(dtype, &[3, 7, 2], &json!({})).unwrap();
            let data = testing::noise(42 * size, 3).iter().map(|byte| byte & 0x3f).collect::<Vec<_>>();
            let stored = encode(&codec, &data);
            assert!(stored.len() <= codec.max_encoded(data.len()));
            assert_eq!(decode(&codec, &stored, data.len()).unwrap(), data, "{dtype}");
            assert!(matches!(decode(&codec, &stored, data.len() - 1), Err(CodecError::Size { .. })));
            for end in 0..stored.len() {
                assert!(decode(&codec, &stored[..end], data.len()).is_err(), "{dtype} cut to {end}");
            }
            testing::withstands_damage(&codec, &stored, data.len());
        }
    }

    #[test]
    fn refused() {
        for bad in
            [json!({"mode": 1}), json!({"mode": "4"}), json!({"x": 1}), json!({"mode": 2, "rate": 1e9})]
        {
            assert!(matches!(codec("<f4", &[9], &bad), Err(CodecError::Config { .. })), "{bad}");
        }
        for dtype in ["<u4", "<u8", "|i1", "<i2", "<f2", ">f4", "<c8"] {
            assert!(matches!(codec(dtype, &[9], &json!({})), Err(CodecError::Unfit { .. })), "{dtype}");
        }
        assert!(codec("<f4", &[1; 5], &json!({})).is_err());
        // The header has another type.
        let stored = encode(&codec("<i4", &[9], &json!({})).unwrap(), &[1; 36]);
        let message = decode(&codec("<f4", &[9], &json!({})).unwrap(), &stored, 36).unwrap_err().to_string();
        assert!(message.contains("expected numbers of type F32, found I32"), "{message}");
    }
}
