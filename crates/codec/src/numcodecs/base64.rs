//! `base64`: bytes as text in an alphabet of 64 characters.
//!
//! * Specification: RFC 4648 section 4, with padding;
//!   <https://numcodecs.readthedocs.io/en/stable/other/base64.html>
//! * v2 id: `base64`; v3 has no such codec
//!
//! numcodecs skips characters outside the alphabet. Here they are an error: no encoder writes them.

use crate::registry::{Config, NoFields};
use crate::scratch::resize_buffer;
use crate::{Codec, CodecError, Racing, Result, Scratch, front};
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeSliceError, Engine};
use serde_json::{Value, json};

/// Unused bits after the last byte may have any value, as with numcodecs.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// The `base64` codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base64;

impl Base64 {
    /// Reads Zarr metadata.
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
            return corrupt(format!("truncated: expected a multiple of 4 characters, found {}", src.len()));
        }
        let padding = src.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
        let written = src.len() / 4 * 3 - padding;
        match BASE64.decode_slice(src, front("base64", dst, written)?) {
            Ok(_) => Ok(written),
            Err(DecodeSliceError::DecodeError(error)) => corrupt(error.to_string()),
            Err(DecodeSliceError::OutputSliceTooSmall) => {
                Err(CodecError::size("base64", written, written + 1))
            }
        }
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        let size = self.max_encoded(src.len());
        dst.truncate(size);
        match BASE64.encode_slice(src, resize_buffer(dst, size, "base64")?) {
            Ok(_) => Ok(()),
            Err(error) => Err(CodecError::encode("base64", error.to_string())),
        }
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
