//! `crc32` and `adler32`, checksums of numcodecs.
//!
//! Also holds the code shared by all codecs that add four bytes to a chunk.
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/checksum32.html>, RFC 1952 section 8,
//!   RFC 1950 section 9
//! * v2 ids: `crc32`, `adler32`; v3 names: `numcodecs.crc32`, `numcodecs.adler32`
//!
//! The checksum, four bytes, little-endian, stands before the bytes, or after them
//! (`"location": "end"`).

use crate::registry::Config;
use crate::{Codec, CodecError, Racing, Result, Scratch, copy_front, room};
use serde::Deserialize;
use serde_json::{Value, json};

/// Bytes of a checksum.
const SUM: usize = 4;

/// The place of the checksum.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Location {
    Start,
    End,
}

/// `null` means absent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fields {
    pub(crate) location: Option<Location>,
}

/// The payload of a chunk. Unless `verify` is false, its checksum must be `sum`.
pub(crate) fn verify_payload<'a>(
    name: &'static str,
    location: Location,
    src: &'a [u8],
    verify: bool,
    sum: impl FnOnce(&[u8]) -> u32,
) -> Result<&'a [u8]> {
    let parts = match location {
        Location::Start => src.split_first_chunk::<SUM>().map(|(sum, payload)| (payload, sum)),
        Location::End => src.split_last_chunk(),
    };
    let Some((payload, stored)) = parts else {
        let why = format!("truncated: expected at least 4 bytes for the checksum, found {}", src.len());
        return Err(CodecError::corrupt(name, why));
    };
    if verify {
        let (expected, found) = (u32::from_le_bytes(*stored), sum(payload));
        if expected != found {
            return Err(CodecError::Checksum { codec: name, expected, found });
        }
    }
    Ok(payload)
}

/// A chunk with its checksum. The copy is summed, because `src` may change.
pub(crate) fn append_checksum(
    codec: &'static str,
    location: Location,
    src: &[u8],
    dst: &mut Vec<u8>,
    sum: impl FnOnce(&[u8]) -> u32,
) -> Result<()> {
    dst.clear();
    room::reserve(dst, src.len().saturating_add(SUM), codec)?;
    if location == Location::End {
        dst.extend_from_slice(src);
        let sum = sum(dst);
        dst.extend_from_slice(&sum.to_le_bytes());
        return Ok(());
    }
    dst.extend_from_slice(&[0; SUM]);
    dst.extend_from_slice(src);
    if let Some((place, payload)) = dst.split_first_chunk_mut::<SUM>() {
        *place = sum(payload).to_le_bytes();
    }
    Ok(())
}

/// The most bytes of a chunk with its checksum.
pub(crate) fn max_framed(decoded: usize) -> usize {
    decoded.saturating_add(SUM)
}

/// The `crc32` or the `adler32` codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    name: &'static str,
    location: Location,
}

impl Checksum {
    /// Reads metadata of the codec `name`.
    pub(crate) fn new(name: &'static str, json: Config<'_>) -> Result<Self> {
        let Fields { location } = json.fields(name)?;
        Ok(Checksum { name, location: location.unwrap_or(Location::Start) })
    }

    fn sum(self) -> fn(&[u8]) -> u32 {
        if self.name == "crc32" { crc_fast::crc32_iso_hdlc } else { adler32 }
    }

    fn fields(self) -> Value {
        match self.location {
            Location::Start => json!({}),
            Location::End => json!({"location": "end"}),
        }
    }
}

impl Codec for Checksum {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        copy_front(self.name, verify_payload(self.name, self.location, src, true, self.sum())?, dst)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        append_checksum(self.name, self.location, src, dst, self.sum())
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        max_framed(decoded)
    }

    fn unframe<'a>(&self, src: &'a [u8], verify: bool) -> Option<Result<&'a [u8]>> {
        Some(verify_payload(self.name, self.location, src, verify, self.sum()))
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": format!("numcodecs.{}", self.name), "configuration": self.fields()}))
    }

    fn to_v2(&self) -> Option<Value> {
        let mut object = self.fields();
        object.as_object_mut()?.insert("id".into(), self.name.into());
        Some(object)
    }
}

/// Adler-32: two sums modulo 65 521.
fn adler32(bytes: &[u8]) -> u32 {
    // The longest block after which neither sum can have overflowed (RFC 1950 section 9).
    const BLOCK: usize = 5552;
    let (mut low, mut high) = (1u32, 0u32);
    for block in bytes.chunks(BLOCK) {
        for byte in block {
            low += u32::from(*byte);
            high += low;
        }
        low %= 65_521;
        high %= 65_521;
    }
    high << 16 | low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    fn codec(object: Value) -> Result<Checksum> {
        let name = if object["id"] == "crc32" { "crc32" } else { "adler32" };
        Checksum::new(name, Config::V2(&object))
    }

    #[test]
    fn known_sums() {
        // The check values of both checksums, in numcodecs' frame.
        let crc32 = codec(json!({"id": "crc32"})).unwrap();
        assert_eq!(encode(&crc32, b"123456789"), b"\x26\x39\xf4\xcb123456789");
        let adler32 = codec(json!({"id": "adler32", "location": "end"})).unwrap();
        assert_eq!(encode(&adler32, b"123456789"), b"123456789\xde\x01\x1e\x09");
        assert_eq!(self::adler32(&[0xff; 100_000]), 0x149a_302c);
    }

    #[test]
    fn round_trips_and_damage() {
        for object in
            [json!({"id": "crc32"}), json!({"id": "crc32", "location": "end"}), json!({"id": "adler32"})]
        {
            let codec = codec(object.clone()).unwrap();
            testing::check(&codec);
            testing::refuses_truncation(&codec);
            assert_eq!(self::codec(codec.to_v2().unwrap()).unwrap(), codec);
            let mut bad = encode(&codec, b"some bytes");
            bad[7] ^= 1;
            assert!(matches!(decode(&codec, &bad, 10), Err(CodecError::Checksum { .. })), "{object}");
            assert_eq!(codec.unframe(&bad, false).unwrap().unwrap().len(), 10);
        }
        assert!(codec(json!({"id": "crc32", "location": "middle"})).is_err());
        assert!(codec(json!({"id": "adler32", "seed": 1})).is_err());
    }
}
