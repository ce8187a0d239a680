//! `bytes`: elements to bytes, in a stated byte order. The codec that turns an array into bytes.
//!
//! * Specification: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/bytes/index.html>
//! * v3 name: `bytes`; v2 has none: there the byte order is part of `dtype`
//!
//! ```
//! # let json = r#"
//! {"name": "bytes", "configuration": {"endian": "little"}}
//! # "#;
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let bytes = hyperslab_codec::BytesCodec::from_v3(metadata.get("configuration")).unwrap();
//! # assert_eq!(bytes.to_v3(), metadata);
//! ```
//!
//! There is nothing to run: the engine moves elements and reverses their bytes where the orders
//! differ.

use crate::registry::configuration;
use crate::{ByteOrder, CodecError};
use serde::Deserialize;
use serde_json::{Value, json};

/// The `bytes` codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesCodec {
    /// The order of the stored bytes. Absent where it has no meaning (one-byte and uninterpreted
    /// elements); whether it may be absent depends on the element type, which this codec does not
    /// know.
    pub endian: Option<ByteOrder>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    endian: Option<Endian>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Endian {
    Little,
    Big,
}

impl BytesCodec {
    /// From the `configuration` of v3 metadata.
    pub fn from_v3(metadata: Option<&Value>) -> Result<Self, CodecError> {
        let fields: Fields = configuration("bytes", metadata)?;
        let endian = fields.endian.map(|endian| match endian {
            Endian::Little => ByteOrder::Little,
            Endian::Big => ByteOrder::Big,
        });
        Ok(BytesCodec { endian })
    }

    /// The Zarr v3 metadata object.
    pub fn to_v3(&self) -> Value {
        match self.endian {
            None => json!({"name": "bytes"}),
            Some(ByteOrder::Little) => json!({"name": "bytes", "configuration": {"endian": "little"}}),
            Some(ByteOrder::Big) => json!({"name": "bytes", "configuration": {"endian": "big"}}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration() {
        for endian in [None, Some(ByteOrder::Little), Some(ByteOrder::Big)] {
            let metadata = BytesCodec { endian }.to_v3();
            assert_eq!(BytesCodec::from_v3(metadata.get("configuration")).unwrap(), BytesCodec { endian });
        }
        assert_eq!(BytesCodec::from_v3(Some(&json!({}))).unwrap(), BytesCodec { endian: None });
        assert_eq!(BytesCodec::from_v3(Some(&json!({"endian": null}))).unwrap(), BytesCodec { endian: None });
        for bad in [json!({"endian": "middle"}), json!({"endian": 1}), json!({"order": "little"}), json!([])]
        {
            assert!(matches!(BytesCodec::from_v3(Some(&bad)), Err(CodecError::Config { .. })), "{bad}");
        }
    }
}
