//! `zlib`: DEFLATE with a two-byte header and an Adler-32 checksum.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/compression/zlib.html>, RFC 1950
//! * v2 id: `zlib`; v3 name: `numcodecs.zlib`, zarr-python's (the v3 specification has no such
//!   codec)
//!
//! ```
//! # let json = r#"
//! {"id": "zlib", "level": 1}
//! # "#;
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let zlib = hyperslab_codec::Zlib::from_v2(&metadata).unwrap();
//! # assert_eq!(hyperslab_codec::Codec::to_v2(&zlib), Some(metadata));
//! ```
//!
//! A chunk is one stream; bytes after its end are an error.

use crate::deflate::{Fields, Inflated, UNFILLED, Wrapper, check_level, nearest_level};
use crate::registry::{configuration, configuration_v2};
use crate::{Codec, CodecError, Reach, Result, Scratch, chain};
use serde_json::{Value, json};
use std::ops::Range;

/// The `zlib` codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zlib {
    /// 0 (stored) to 9 (smallest); -1 means 6. With any other level, chunks can only be read.
    pub level: i32,
}

impl Zlib {
    /// Reads the `configuration` of v3 metadata. Without a level it is 1, as in numcodecs.
    pub fn from_v3(metadata: Option<&Value>) -> Result<Self> {
        let fields: Fields = configuration("zlib", metadata)?;
        Ok(Zlib { level: fields.level(1) })
    }

    /// Reads the object of v2 metadata.
    pub fn from_v2(metadata: &Value) -> Result<Self> {
        let fields: Fields = configuration_v2("zlib", metadata)?;
        Ok(Zlib { level: fields.level(1) })
    }
}

impl Codec for Zlib {
    fn name(&self) -> &'static str {
        "zlib"
    }

    fn check_encoder(&self) -> Result<()> {
        check_level(Wrapper::Zlib, self.level, -1)
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch) -> Result<usize> {
        match scratch.deflate.inflate(Wrapper::Zlib, src, dst) {
            Inflated::Done { consumed, written } if consumed == src.len() => Ok(written),
            Inflated::Done { consumed, .. } => {
                let extra = src.len() - consumed;
                let why = format!("{extra} bytes follow the end of the stream at byte {consumed}");
                Err(CodecError::corrupt("zlib", why))
            }
            Inflated::Full => Err(chain::too_large("zlib", dst.len())),
            Inflated::Bad => Err(CodecError::corrupt("zlib", what_is_wrong(src))),
        }
    }

    fn decode_range(
        &self,
        src: &[u8],
        wanted: Range<usize>,
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<usize> {
        let (room, end) = (dst.len(), wanted.end.saturating_add(UNFILLED));
        if end >= room {
            return self.decode(src, dst, scratch);
        }
        match scratch.deflate.inflate(Wrapper::Zlib, src, dst.get_mut(..end).unwrap_or_default()) {
            Inflated::Full => Ok(room),
            Inflated::Done { written, .. } => Ok(written),
            Inflated::Bad => Err(CodecError::corrupt("zlib", what_is_wrong(src))),
        }
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        self.check_encoder()?;
        scratch.deflate.deflate(Wrapper::Zlib, self.level, src, dst)
    }

    fn reach(&self) -> Reach {
        Reach::Prefix
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": "numcodecs.zlib", "configuration": {"level": nearest_level(self.level)}}))
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({"id": "zlib", "level": nearest_level(self.level)}))
    }
}

/// Explains the fault of a stream, because libdeflate only says "bad".
fn what_is_wrong(src: &[u8]) -> String {
    match *src {
        [] => "expected a zlib stream, found no bytes".into(),
        [_] => "the stream is truncated after one byte".into(),
        // RFC 1950 section 2.2: the method is 8, and the two bytes are a multiple of 31.
        [a, b, ..] if a & 0x0f != 8 || u16::from_be_bytes([a, b]) % 31 != 0 => {
            format!("not a zlib stream: it starts with {a:#04x} {b:#04x}")
        }
        [_, b, ..] if b & 0x20 != 0 => "the stream needs a preset dictionary".into(),
        _ => "the stream is truncated or corrupt".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    const ZLIB: Zlib = Zlib { level: 1 };

    #[test]
    fn known_stream() {
        // numcodecs.Zlib(1).encode(b"hyperslab " * 20)
        let known = b"\x78\x01\xcb\xa8\x2c\x48\x2d\x2a\xce\x49\x4c\x52\xc8\x18\xd2\x2c\0\xdf\x7a\x4e\x49";
        assert_eq!(decode(&ZLIB, known, 200).unwrap(), b"hyperslab ".repeat(20));
    }

    #[test]
    fn round_trips_and_damage() {
        for level in [-1, 0, 1, 9] {
            testing::check(&Zlib { level });
        }
        testing::refuses_truncation(&ZLIB);
        testing::stops_early(&ZLIB, 0.4);
    }

    #[test]
    fn messages_say_what_is_wrong() {
        let message = |src: &[u8]| decode(&ZLIB, src, 10).unwrap_err().to_string();
        assert_eq!(message(b""), "zlib: expected a zlib stream, found no bytes");
        assert_eq!(message(b"\x1f\x8b\x08\0"), "zlib: not a zlib stream: it starts with 0x1f 0x8b");
        assert_eq!(message(b"\x78\x20\0\0\0\0"), "zlib: the stream needs a preset dictionary");
        let mut stream = encode(&ZLIB, b"abc");
        assert_eq!(message(&stream[..5]), "zlib: the stream is truncated or corrupt");
        stream.extend_from_slice(&[0; 2]);
        assert!(message(&stream).starts_with("zlib: 2 bytes follow the end"), "{}", message(&stream));
    }

    #[test]
    fn configuration() {
        assert_eq!(Zlib::from_v2(&json!({"id": "zlib", "level": -1})).unwrap(), Zlib { level: -1 });
        assert_eq!(Zlib::from_v2(&json!({"id": "zlib"})).unwrap(), Zlib { level: 1 });
        assert_eq!(Zlib::from_v3(Some(&json!({"level": 9}))).unwrap(), Zlib { level: 9 });
        assert_eq!(ZLIB.to_v3(), Some(json!({"name": "numcodecs.zlib", "configuration": {"level": 1}})));
        for level in [-2, 10, 77] {
            let edited = Zlib::from_v2(&json!({"id": "zlib", "level": level})).unwrap();
            testing::only_decodes(&edited, &encode(&ZLIB, b"abc"), b"abc", "level must be -1 to 9");
        }
        let bad = r#"{"id": "zlib", "level": "1"} {"id": "gzip", "level": 1}"#;
        testing::refuses(bad, Zlib::from_v2);
    }
}
