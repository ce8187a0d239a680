//! `crc32c`: a CRC-32C (Castagnoli, iSCSI) checksum of the bytes.
//!
//! * Specification: <https://zarr-specs.readthedocs.io/en/latest/v3/codecs/crc32c/index.html>, RFC
//!   3720 appendix B.4
//! * v3 name: `crc32c` (also read: `numcodecs.crc32c`); v2 id: `crc32c`
//!
//! ```
//! # let json = r#"
//! {"name": "crc32c"}
//! # "#;
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let crc32c = hyperslab_codec::Crc32c::from_v3(metadata.get("configuration")).unwrap();
//! # assert_eq!(hyperslab_codec::Codec::to_v3(&crc32c), Some(metadata));
//! ```
//!
//! The checksum, four bytes, little-endian, follows the bytes; numcodecs can also put it before
//! them (`"location": "start"`).

use crate::numcodecs::checksum::{Fields, Location, append_checksum, max_framed, verify_payload};
use crate::registry::{NoFields, configuration, configuration_v2};
use crate::{Codec, Racing, Result, Scratch, copy_front};
use serde_json::{Value, json};

/// The `crc32c` codec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crc32c {
    /// `true` if the checksum stands before the bytes instead of after them.
    pub at_start: bool,
}

impl Crc32c {
    /// Reads the `configuration` of v3 metadata.
    pub fn from_v3(metadata: Option<&Value>) -> Result<Self> {
        let NoFields {} = configuration("crc32c", metadata)?;
        Ok(Crc32c { at_start: false })
    }

    /// Reads the object of v2 metadata.
    pub fn from_v2(metadata: &Value) -> Result<Self> {
        let fields: Fields = configuration_v2("crc32c", metadata)?;
        Ok(Crc32c { at_start: fields.location == Some(Location::Start) })
    }

    fn location(self) -> Location {
        if self.at_start { Location::Start } else { Location::End }
    }
}

impl Codec for Crc32c {
    fn name(&self) -> &'static str {
        "crc32c"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        copy_front(
            "crc32c",
            verify_payload("crc32c", self.location(), src, true, crc_fast::crc32_iscsi)?,
            dst,
        )
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        append_checksum("crc32c", self.location(), src, dst, crc_fast::crc32_iscsi)
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        max_framed(decoded)
    }

    fn unframe<'a>(&self, src: &'a [u8], verify: bool) -> Option<Result<&'a [u8]>> {
        Some(verify_payload("crc32c", self.location(), src, verify, crc_fast::crc32_iscsi))
    }

    fn to_v3(&self) -> Option<Value> {
        // v3's own codec puts the checksum only at the end.
        if self.at_start {
            return Some(json!({"name": "numcodecs.crc32c", "configuration": {"location": "start"}}));
        }
        Some(json!({"name": "crc32c"}))
    }

    fn to_v2(&self) -> Option<Value> {
        // "end" is the default. Older readers refuse the field.
        if self.at_start {
            return Some(json!({"id": "crc32c", "location": "start"}));
        }
        Some(json!({"id": "crc32c"}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodecError;
    use crate::testing::{self, decode, encode};

    const END: Crc32c = Crc32c { at_start: false };
    const START: Crc32c = Crc32c { at_start: true };

    #[test]
    fn known_sums() {
        // The check value of CRC-32/ISCSI, then RFC 3720 appendix B.4.
        assert_eq!(encode(&END, b"123456789"), b"123456789\x83\x92\x06\xe3");
        assert_eq!(encode(&START, b"123456789"), b"\x83\x92\x06\xe3123456789");
        assert_eq!(encode(&END, &[0; 32])[32..], [0xaa, 0x36, 0x91, 0x8a]);
        assert_eq!(encode(&END, &[0xff; 32])[32..], [0x43, 0xab, 0xa8, 0x62]);
        assert_eq!(encode(&END, b""), [0; 4]);
    }

    #[test]
    fn round_trips_and_damage() {
        for codec in [END, START] {
            testing::check(&codec);
            testing::refuses_truncation(&codec);
        }
    }

    #[test]
    fn every_flipped_bit_is_found_unless_told_not_to_look() {
        for codec in [END, START] {
            let good = encode(&codec, b"some bytes");
            for at in 0..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 0x10;
                assert!(matches!(decode(&codec, &bad, 10), Err(CodecError::Checksum { .. })), "{at}");
                assert_eq!(codec.unframe(&bad, false).unwrap().unwrap().len(), 10);
            }
            assert_eq!(codec.unframe(&good, true).unwrap().unwrap(), b"some bytes");
        }
        let message = decode(&END, b"abc\0\0\0\0", 3).unwrap_err().to_string();
        assert_eq!(
            message,
            "crc32c: checksum is 0x364b3fb7 where 0x00000000 is stored: the chunk is corrupt"
        );
    }

    #[test]
    fn configuration() {
        assert_eq!(Crc32c::from_v3(None).unwrap(), END);
        assert_eq!(Crc32c::from_v3(Some(&json!({}))).unwrap(), END);
        assert!(Crc32c::from_v3(Some(&json!({"location": "start"}))).is_err());
        assert_eq!(Crc32c::from_v2(&json!({"id": "crc32c"})).unwrap(), END);
        assert_eq!(Crc32c::from_v2(&json!({"id": "crc32c", "location": "end"})).unwrap(), END);
        assert_eq!(Crc32c::from_v2(&json!({"id": "crc32c", "location": "start"})).unwrap(), START);
        assert!(Crc32c::from_v2(&json!({"id": "crc32c", "location": "middle"})).is_err());
        for codec in [END, START] {
            assert_eq!(Crc32c::from_v2(&codec.to_v2().unwrap()).unwrap(), codec);
        }
    }
}
