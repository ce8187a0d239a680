//! `bytes`: elements to bytes in a stated byte order. The codec that turns an array into bytes.
//!
//! * Specification: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/bytes/index.html>
//! * v3 name: `bytes`; not in v2, where the byte order is part of `dtype`
//!
//! ```
//! # let json = r#"
//! {"name": "bytes", "configuration": {"endian": "little"}}
//! # "#;
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # use hyperslab_codec::{ByteOrder, BytesCodec};
//! # assert_eq!(BytesCodec::metadata(Some(ByteOrder::Little)), metadata);
//! ```
//!
//! It seldom runs: the engine moves elements, and reverses their bytes if the orders differ. It
//! runs after a codec that makes other elements.

use crate::registry::Config;
use crate::room;
use crate::{
    ArrayToBytes, ByteOrder, Codec, CodecError, Context, DataType, Racing, Result, Scratch, copy_front, front,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The `bytes` codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesCodec {
    /// The order of the stored bytes. `None` where it has no meaning (one-byte and uninterpreted
    /// elements).
    pub endian: Option<ByteOrder>,
    /// The elements in memory.
    pub dtype: DataType,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    endian: Option<ByteOrder>,
}

impl BytesCodec {
    /// Reads v3 metadata, for the elements of `array`.
    pub fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let Fields { endian } = config.fields("bytes")?;
        let dtype = array.dtype;
        if endian.is_none() && dtype.has_order() {
            let why = format!("\"bytes\" needs \"endian\" for elements of type {dtype}");
            return Err(CodecError::Unfit { why });
        }
        Ok(BytesCodec { endian, dtype })
    }

    /// The Zarr v3 metadata object of a byte order.
    pub fn metadata(endian: Option<ByteOrder>) -> Value {
        match endian {
            None => json!({"name": "bytes"}),
            Some(order) => json!({"name": "bytes", "configuration": {"endian": order}}),
        }
    }

    /// How many bytes are reversed as a unit. 1 means none.
    fn unit(&self) -> usize {
        match self.endian {
            Some(order) if order != self.dtype.order() => self.dtype.number_size(),
            _ => 1,
        }
    }

    fn swap(&self, bytes: &mut [u8]) {
        let unit = self.unit();
        if unit > 1 {
            bytes.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
        }
    }
}

impl Codec for BytesCodec {
    fn name(&self) -> &'static str {
        "bytes"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let size = copy_front("bytes", src, dst)?;
        self.swap(front("bytes", dst, size)?);
        Ok(size)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        room::fill(dst, src, "bytes")?;
        self.swap(dst);
        Ok(())
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded
    }

    fn to_v3(&self) -> Option<Value> {
        Some(Self::metadata(self.endian))
    }
}

impl ArrayToBytes for BytesCodec {
    fn byte_order(&self) -> Option<ByteOrder> {
        Some(self.endian.unwrap_or(ByteOrder::NATIVE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    fn parse(metadata: &Value, numpy: &str) -> Result<BytesCodec> {
        let array = Context::of_elements(numpy.parse().unwrap());
        BytesCodec::new(Config::V3(metadata.get("configuration")), &array)
    }

    #[test]
    fn configuration() {
        let dtype = "|u1".parse().unwrap();
        for endian in [None, Some(ByteOrder::Little), Some(ByteOrder::Big)] {
            let codec = BytesCodec { endian, dtype };
            assert_eq!(parse(&codec.to_v3().unwrap(), "|u1").unwrap(), codec);
        }
        let of = |configuration: Value| parse(&json!({"configuration": configuration}), "|u1");
        assert_eq!(of(json!({})).unwrap(), BytesCodec { endian: None, dtype });
        assert_eq!(of(json!({"endian": null})).unwrap(), BytesCodec { endian: None, dtype });
        testing::refuses(r#"{"endian": "middle"} {"endian": 1} {"order": "little"} []"#, |bad| {
            of(bad.clone())
        });
        assert!(matches!(parse(&json!({}), "<i2"), Err(CodecError::Unfit { .. })));
    }

    /// Runs as it does after codecs that make other elements.
    #[test]
    fn bytes_are_reversed_by_number() {
        let of = |endian, numpy: &str| BytesCodec { endian: Some(endian), dtype: numpy.parse().unwrap() };
        for (codec, stored) in [
            (of(ByteOrder::Big, "<i2"), b"badcfehg"),
            (of(ByteOrder::Little, "<i2"), b"abcdefgh"),
            (of(ByteOrder::Little, ">c8"), b"dcbahgfe"),
            (of(ByteOrder::Big, "|S2"), b"abcdefgh"),
        ] {
            assert_eq!(encode(&codec, b"abcdefgh"), stored);
            assert_eq!(decode(&codec, stored, 8).unwrap(), b"abcdefgh");
            assert!(matches!(decode(&codec, stored, 7), Err(CodecError::Size { .. })));
        }
    }
}
