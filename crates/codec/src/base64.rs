//! `base64`: bytes as text of 64 characters.
//!
//! * Specification: RFC 4648 section 4, with padding;
//!   <https://numcodecs.readthedocs.io/en/stable/other/base64.html>
//! * v2 id: `base64`; v3 has no such codec
//!
//! numcodecs skips characters that are not of the alphabet. Here they are an error: no encoder
//! writes them.

use crate::registry::{Config, NoFields};
use crate::{Codec, CodecError, Racing, Result, Scratch, front};
use serde_json::{Value, json};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of each character; 255: none of the alphabet.
#[expect(clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "the compiler runs it")]
const VALUES: [u8; 256] = {
    let mut values = [255; 256];
    let mut value = 0;
    while value < 64 {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// The `base64` codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base64;

impl Base64 {
    /// From metadata of Zarr.
    pub(crate) fn from_config(json: Config<'_>) -> Result<Self> {
        let NoFields {} = json.fields("base64")?;
        Ok(Base64)
    }
}

impl Codec for Base64 {
    fn name(&self) -> &'static str {
        "base64"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        let corrupt = |why: String| Err(CodecError::corrupt("base64", why));
        if !src.len().is_multiple_of(4) {
            return corrupt(format!("truncated: {} characters are no multiple of 4", src.len()));
        }
        let padding = src.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
        let written = src.len() / 4 * 3 - padding;
        let dst = front("base64", dst, written)?;
        for (at, (group, out)) in src.chunks_exact(4).zip(dst.chunks_mut(3)).enumerate() {
            let mut bits = 0;
            for (i, byte) in group.iter().enumerate() {
                // Padding counts as zero bits, where it is behind those of this group's bytes.
                let value = if i > out.len() && *byte == b'=' { 0 } else { value_of(*byte) };
                bits = bits << 6 | u32::from(value);
                if value == 255 {
                    return corrupt(format!("byte {} is {byte:#04x}, which is not base64", 4 * at + i));
                }
            }
            out.iter_mut().zip(&bits.to_be_bytes()[1..]).for_each(|(to, from)| *to = *from);
        }
        Ok(written)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        dst.clear();
        dst.reserve(self.max_encoded(src.len()));
        for group in src.chunks(3) {
            let mut bytes = [0; 4];
            bytes.iter_mut().skip(1).zip(group).for_each(|(to, from)| *to = *from);
            let bits = u32::from_be_bytes(bytes);
            for (i, shift) in [18, 12, 6, 0].into_iter().enumerate() {
                let digit = ALPHABET.get((bits >> shift & 63) as usize).copied().unwrap_or(b'=');
                dst.push(if i > group.len() { b'=' } else { digit });
            }
        }
        Ok(())
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded.div_ceil(3).saturating_mul(4)
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({"id": "base64"}))
    }
}

fn value_of(byte: u8) -> u8 {
    VALUES.get(usize::from(byte)).copied().unwrap_or(255)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    #[test]
    fn known_texts() {
        for (bytes, text) in [
            (&b""[..], &b""[..]),
            (b"f", b"Zg=="),
            (b"fo", b"Zm8="),
            (b"foo", b"Zm9v"),
            (b"foobar", b"Zm9vYmFy"),
            (b"\xff\xfe\xfd", b"//79"),
        ] {
            assert_eq!(encode(&Base64, bytes), text);
            assert_eq!(decode(&Base64, text, bytes.len()).unwrap(), bytes);
        }
        for bad in ["Z", "Zg", "Zg=", "Z===", "====", "Zm9v\n", "Zm 9", "Zg==Zg==", "Zm9v=m9v", "\u{e9}=="] {
            let error = decode(&Base64, bad.as_bytes(), 10).unwrap_err();
            assert!(matches!(error, CodecError::Corrupt { .. }), "{bad}: {error}");
        }
    }

    #[test]
    fn round_trips_and_damage() {
        testing::check(&Base64);
        assert!(Base64::from_config(Config::V2(&json!({"id": "base64", "x": 1}))).is_err());
    }
}
