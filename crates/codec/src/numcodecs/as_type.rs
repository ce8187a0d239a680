//! `astype` of numcodecs: elements stored as another type, with NumPy's conversions.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/filter/astype.html>
//! * v2 id: `astype`; v3 name: `numcodecs.astype`
//!
//! ```
//! # let json = r#"
//! {"id": "astype", "encode_dtype": "<f4", "decode_dtype": "<f8"}
//! # "#;
//! # use hyperslab_codec::{Context, registry::CODECS};
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let array = Context::of_elements("<f8".parse().unwrap());
//! # assert_eq!(CODECS.from_v2(&metadata, &array).unwrap().codec().to_v2(), Some(metadata));
//! ```
//!
//! As with numcodecs, values that the stored type cannot hold are lost silently.

use crate::numcodecs::elements::{Elements, dtype};
use crate::registry::{Config, numcodecs_v3};
use crate::{ArrayToArray, Codec, Context, Racing, Result, Scratch};
use serde::Deserialize;
use serde_json::{Value, json};

/// The `astype` filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AsType {
    elements: Elements,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    encode_dtype: String,
    decode_dtype: Option<String>,
}

impl AsType {
    /// Reads metadata. Without `decode_dtype`, elements have the array's type.
    pub(crate) fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let fields: Fields = config.fields("astype")?;
        let decoded = dtype("astype", "decode_dtype", fields.decode_dtype.as_deref(), array)?;
        let encoded = dtype("astype", "encode_dtype", Some(&fields.encode_dtype), array)?;
        Ok(AsType { elements: Elements::new("astype", decoded, encoded, array)? })
    }
}

impl Codec for AsType {
    fn name(&self) -> &'static str {
        "astype"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        // Works in the decoded type, so that the conversion is the only pass.
        self.elements.decode("astype", src, dst, self.elements.from(), |_| {})
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        self.elements.encode("astype", src, dst, self.elements.to(), |_| {})
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
        let Elements { decoded, encoded, .. } = self.elements;
        Some(json!({"id": "astype", "encode_dtype": encoded.numpy(), "decode_dtype": decoded.numpy()}))
    }
}

impl ArrayToArray for AsType {
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        self.elements.context(self, array)
    }
}
