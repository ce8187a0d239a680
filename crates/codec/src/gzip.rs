//! `gzip`: DEFLATE with a header, a CRC-32 and a length.
//!
//! * Specification: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/gzip/index.html>, RFC
//!   1952
//! * v3 name: `gzip` (also read: `numcodecs.gzip`); v2 id: `gzip`
//!
//! ```
//! # let json = r#"
//! {"name": "gzip", "configuration": {"level": 5}}
//! # "#;
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let gzip = hyperslab_codec::Gzip::from_v3(metadata.get("configuration")).unwrap();
//! # assert_eq!(hyperslab_codec::Codec::to_v3(&gzip), Some(metadata));
//! ```
//!
//! A chunk may consist of several members (`cat a.gz b.gz`, `bgzip`): RFC 1952 section 2.2 makes
//! them one stream. Zero bytes between and after members are padding, as for `gzip` and Python. Any
//! other bytes there are an error. Encoded chunks contain no file name and no time, so equal chunks
//! have equal bytes.

use crate::deflate::{Fields, Inflated, UNFILLED, Wrapper, check_level, nearest_level};
use crate::registry::{configuration, configuration_v2};
use crate::{Codec, CodecError, Reach, Result, Scratch, chain};
use serde_json::{Value, json};
use std::ops::Range;

/// The `gzip` codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gzip {
    /// 0 (stored) to 9 (smallest). numcodecs also has -1, which means 6. With any other level,
    /// chunks can only be read.
    pub level: i32,
}

impl Gzip {
    /// Reads the `configuration` of v3 metadata. Without a level it is 5, as in zarr-python.
    pub fn from_v3(metadata: Option<&Value>) -> Result<Self> {
        let fields: Fields = configuration("gzip", metadata)?;
        let level = fields.level(5);
        check_level(Wrapper::Gzip, level, 0)?;
        Ok(Gzip { level })
    }

    /// Reads the object of v2 metadata. Without a level it is 1, as in numcodecs. Any level can be
    /// read.
    pub fn from_v2(metadata: &Value) -> Result<Self> {
        let fields: Fields = configuration_v2("gzip", metadata)?;
        Ok(Gzip { level: fields.level(1) })
    }
}

impl Codec for Gzip {
    fn name(&self) -> &'static str {
        "gzip"
    }

    fn check_encoder(&self) -> Result<()> {
        check_level(Wrapper::Gzip, self.level, -1)
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch) -> Result<usize> {
        let room = dst.len();
        decode_members(src, dst, scratch)?.ok_or_else(|| chain::too_large("gzip", room))
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
        let written = decode_members(src, dst.get_mut(..end).unwrap_or_default(), scratch)?;
        Ok(written.unwrap_or(room))
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        self.check_encoder()?;
        scratch.deflate.deflate(Wrapper::Gzip, self.level, src, dst)
    }

    fn reach(&self) -> Reach {
        Reach::Prefix
    }

    fn to_v3(&self) -> Option<Value> {
        // v3 has no level -1, which means 6.
        let level = if self.level < 0 { 6 } else { self.level.min(9) };
        Some(json!({"name": "gzip", "configuration": {"level": level}}))
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({"id": "gzip", "level": nearest_level(self.level)}))
    }
}

/// Decodes all members into the front of `dst` and returns the number of bytes.
///
/// Returns `None` if the members hold more than there is room for.
fn decode_members(src: &[u8], dst: &mut [u8], scratch: &mut Scratch) -> Result<Option<usize>> {
    let room = dst.len();
    let (mut rest, mut free) = (src, dst);
    loop {
        let (consumed, written) = match scratch.deflate.inflate(Wrapper::Gzip, rest, free) {
            Inflated::Done { consumed, written } => (consumed, written),
            Inflated::Full => return Ok(None),
            Inflated::Bad => return Err(bad_member(src.len() - rest.len(), rest)),
        };
        rest = rest.get(consumed..).unwrap_or_default();
        free = free.get_mut(written..).unwrap_or_default();
        let padding = rest.iter().take_while(|byte| **byte == 0).count();
        rest = rest.get(padding..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(Some(room - free.len()));
        }
    }
}

/// Explains the fault of the member at `offset`, because libdeflate only says "bad".
fn bad_member(offset: usize, member: &[u8]) -> CodecError {
    let why = match member {
        [] => "expected a gzip stream, found no bytes".into(),
        [0x1f, 0x8b, ..] => format!("the gzip member at byte {offset} is truncated or corrupt"),
        [0x1f] => format!("the gzip member at byte {offset} is truncated"),
        [first, ..] if offset == 0 => format!("not a gzip stream: the first byte is {first:#04x}, not 0x1f"),
        [first, ..] => format!("bytes that are not a gzip member follow at byte {offset} ({first:#04x}, …)"),
    };
    CodecError::corrupt("gzip", why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    const GZIP: Gzip = Gzip { level: 5 };

    /// `numcodecs.GZip(1).encode(b"hyperslab " * 20)`
    const KNOWN: &[u8] =
        b"\x1f\x8b\x08\0\x66\x9e\0\x6b\x04\xff\xcb\xa8\x2c\x48\x2d\x2a\xce\x49\x4c\x52\xc8\x18\xd2\x2c\0\x06\x58\xb3\xa2\xc8\0\0\0";

    #[test]
    fn known_stream() {
        assert_eq!(decode(&GZIP, KNOWN, 200).unwrap(), b"hyperslab ".repeat(20));
    }

    #[test]
    fn header_fields_are_skipped() {
        // FEXTRA, FNAME and FCOMMENT are set. The header checksum (FHCRC) is not, since its value
        // would depend on the rest.
        let mut stream = b"\x1f\x8b\x08\x1c\x66\x9e\0\x6b\x04\xff\x05\0extraname.bin\0a comment\0".to_vec();
        stream.extend_from_slice(&KNOWN[10..]);
        assert_eq!(decode(&GZIP, &stream, 200).unwrap(), b"hyperslab ".repeat(20));
    }

    #[test]
    fn members_and_padding() {
        let mut stream = encode(&GZIP, b"one ");
        stream.extend(encode(&GZIP, b""));
        stream.extend_from_slice(&[0; 9]);
        stream.extend(encode(&Gzip { level: 0 }, b"two"));
        stream.extend_from_slice(&[0; 3]);
        assert_eq!(decode(&GZIP, &stream, 7).unwrap(), b"one two");
        assert!(matches!(decode(&GZIP, &stream, 6), Err(CodecError::Size { expected: 6, found: 7, .. })));
        let at = stream.len();
        stream.extend_from_slice(b"\0garbage");
        let message = decode(&GZIP, &stream, 100).unwrap_err().to_string();
        assert!(message.contains(&format!("at byte {}", at + 1)), "{message}");
    }

    #[test]
    fn equal_chunks_have_equal_bytes() {
        let stream = encode(&GZIP, b"abc");
        assert_eq!(stream, encode(&GZIP, b"abc"));
        assert_eq!(&stream[4..8], [0; 4], "no time");
    }

    #[test]
    fn round_trips_and_damage() {
        for level in [-1, 0, 1, 9] {
            testing::check(&Gzip { level });
        }
        testing::refuses_truncation(&GZIP);
    }

    #[test]
    fn parts() {
        testing::stops_early(&GZIP, 0.4);
        let mut scratch = Scratch::default();
        // The chunk has several members; a part ends in the second one.
        let (one, two) = (testing::noise(50_000, 1), testing::noise(200_000, 2));
        let stored = [encode(&GZIP, &one), vec![0; 3], encode(&Gzip { level: 0 }, &two)].concat();
        let whole = [one, two].concat();
        let part =
            |wanted, size, scratch: &mut Scratch| testing::decode_part(&GZIP, &stored, wanted, size, scratch);
        assert!(part(49_000..100_000, 250_000, &mut scratch).unwrap() == whole[49_000..100_000]);
        assert!(part(0..250_000, 250_000, &mut scratch).unwrap() == whole);
        // The stream ends within the room of this part.
        assert!(matches!(
            part(0..200_000, 300_000, &mut scratch),
            Err(CodecError::Size { found: 250_000, .. })
        ));
        assert!(matches!(part(0..100, 249_999, &mut scratch), Ok(part) if part == whole[..100]), "not seen");
        assert!(matches!(part(0..200_000, 249_999, &mut scratch), Err(CodecError::Size { .. })));
    }

    #[test]
    fn messages_say_what_is_wrong() {
        let message = |src: &[u8]| decode(&GZIP, src, 10).unwrap_err().to_string();
        assert_eq!(message(b""), "gzip: expected a gzip stream, found no bytes");
        assert_eq!(message(b"\x28\xb5\x2f\xfd"), "gzip: not a gzip stream: the first byte is 0x28, not 0x1f");
        assert_eq!(message(&KNOWN[..20]), "gzip: the gzip member at byte 0 is truncated or corrupt");
    }

    #[test]
    fn configuration() {
        assert_eq!(Gzip::from_v3(Some(&json!({"level": 9}))).unwrap(), Gzip { level: 9 });
        assert_eq!(Gzip::from_v3(Some(&json!({}))).unwrap(), Gzip { level: 5 });
        assert_eq!(Gzip::from_v2(&json!({"id": "gzip", "level": -1})).unwrap(), Gzip { level: -1 });
        assert_eq!(Gzip::from_v2(&json!({"id": "gzip"})).unwrap(), Gzip { level: 1 });
        assert_eq!(Gzip { level: 3 }.to_v2(), Some(json!({"id": "gzip", "level": 3})));
        assert_eq!(Gzip { level: -1 }.to_v3(), Some(json!({"name": "gzip", "configuration": {"level": 6}})));
        let bad =
            r#"{"level": -1} {"level": 10} {"level": 77} {"level": "5"} {"level": 5.5} {"levle": 5} [5]"#;
        testing::refuses(bad, |bad| Gzip::from_v3(Some(bad)));
        let edited = Gzip::from_v2(&json!({"id": "gzip", "level": 77})).unwrap();
        testing::only_decodes(&edited, &encode(&GZIP, b"abc"), b"abc", "level must be -1 to 9, found 77");
        assert_eq!(edited.to_v2(), Some(json!({"id": "gzip", "level": 9})));
        let error = Gzip::from_v3(Some(&json!({"levle": 5}))).unwrap_err().to_string();
        assert!(error.contains("`levle`"), "{error}");
    }
}
