//! `zstd`: Zstandard.
//!
//! * Specification: <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/zstd>, RFC
//!   8878
//! * v3 name: `zstd` (also read: `numcodecs.zstd`); v2 id: `zstd`
//!
//! ```
//! # let json = r#"
//! {"name": "zstd", "configuration": {"level": 3, "checksum": false}}
//! # "#;
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let zstd = hyperslab_codec::Zstd::from_v3(metadata.get("configuration")).unwrap();
//! # assert_eq!(hyperslab_codec::Codec::to_v3(&zstd), Some(metadata));
//! ```
//!
//! Decoding processes the whole buffer at once, straight into the caller's memory. The size in a
//! frame's header is never used to allocate and may be absent, and no window is allocated, whatever
//! the header claims. Several frames, including skippable ones, make one stream.
//!
//! The front part of a chunk is decoded block by block (at most 128 KiB each), also straight into
//! the caller's memory, which serves as the window.

use crate::registry::{configuration, configuration_v2};
use crate::{Codec, CodecError, Racing, Reach, Result, Scratch, chain, room};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ops::Range;
use zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

/// The `zstd` codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zstd {
    /// -131072 (fastest) to 22 (smallest); 0 is the library's default, 3. numcodecs stores levels
    /// above 22 but means 22.
    pub level: i32,
    /// `true` to write frames with a checksum of the content. Existing checksums are always
    /// verified.
    pub checksum: bool,
}

/// The valid levels in v3.
const LEVELS: std::ops::RangeInclusive<i32> = -131_072..=22;

/// The largest window that the library accepts from a stream. It costs nothing: the caller's memory
/// is the window.
const WINDOW_LOG: u32 = if cfg!(target_pointer_width = "32") { 30 } else { 31 };

/// How many bytes the library asks for at the start of a frame. If it gets more, it copies the
/// start of the next block.
const FRAME_START: usize = 5;

/// If absent, they are 0 and `false`, as in zarr-python and numcodecs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    #[serde(default)]
    level: i32,
    #[serde(default)]
    checksum: bool,
}

/// One thread's contexts, created on first use.
#[derive(Default)]
pub(crate) struct Contexts {
    compressor: Option<CCtx<'static>>,
    decompressor: Option<DCtx<'static>>,
}

impl Zstd {
    /// Reads the `configuration` of v3 metadata.
    pub fn from_v3(metadata: Option<&Value>) -> Result<Self> {
        let Fields { level, checksum } = configuration("zstd", metadata)?;
        let zstd = Zstd { level, checksum };
        zstd.check_settings()?;
        Ok(zstd)
    }

    /// Reads the object of v2 metadata. Any level is valid: numcodecs stores the level that it was
    /// given, and uses the nearest one that exists.
    pub fn from_v2(metadata: &Value) -> Result<Self> {
        let Fields { level, checksum } = configuration_v2("zstd", metadata)?;
        Ok(Zstd { level, checksum })
    }

    fn nearest_level(&self) -> i32 {
        self.level.clamp(*LEVELS.start(), *LEVELS.end())
    }
}

impl Codec for Zstd {
    fn name(&self) -> &'static str {
        "zstd"
    }

    fn check_settings(&self) -> Result<()> {
        if LEVELS.contains(&self.level) {
            return Ok(());
        }
        Err(CodecError::config("zstd", format!("level must be -131072 to 22, found {}", self.level)))
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch) -> Result<usize> {
        if src.is_empty() {
            // The library takes these for zero frames, which is valid.
            return Err(CodecError::corrupt("zstd", "expected a zstd frame, found no bytes"));
        }
        let decompressor = scratch.zstd.decompressor.get_or_insert_with(DCtx::create);
        decompressor.decompress(dst, src).map_err(|code| decode_error(code, dst.len()))
    }

    fn decode_range(
        &self,
        src: &[u8],
        wanted: Range<usize>,
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<usize> {
        // The window of a single-segment frame is as large as its content, even if that is too
        // large here.
        if wanted.end == dst.len() || dst.len() > 1 << WINDOW_LOG {
            return self.decode(src, dst, scratch);
        }
        decode_blocks(src, wanted.end, dst, scratch)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        let compressor = scratch.zstd.compressor.get_or_insert_with(CCtx::create);
        dst.clear();
        room::reserve(dst, zstd_safe::compress_bound(src.len()), "zstd")?;
        let result = compressor
            .set_parameter(CParameter::CompressionLevel(self.nearest_level()))
            .and_then(|_| compressor.set_parameter(CParameter::ChecksumFlag(self.checksum)))
            .and_then(|_| compressor.compress2(dst, src));
        match result {
            Ok(_) => Ok(()),
            Err(code) => {
                // A context that failed within a frame refuses new parameters until it is reset.
                let _ = compressor.reset(ResetDirective::SessionAndParameters);
                Err(CodecError::encode("zstd", zstd_safe::get_error_name(code).to_lowercase()))
            }
        }
    }

    fn racing(&self) -> Racing {
        if self.checksum { Racing::NeedsCopy } else { Racing::Mixes }
    }

    fn reach(&self) -> Reach {
        Reach::Prefix
    }

    fn to_v3(&self) -> Option<Value> {
        let configuration = json!({"level": self.nearest_level(), "checksum": self.checksum});
        Some(json!({"name": "zstd", "configuration": configuration}))
    }

    fn to_v2(&self) -> Option<Value> {
        // Without a checksum the field is left out: older readers refuse unknown fields.
        if self.checksum {
            return Some(json!({"id": "zstd", "level": self.level, "checksum": true}));
        }
        Some(json!({"id": "zstd", "level": self.level}))
    }
}

/// Implements [`Codec::decode_range`] block by block, until the first `end` bytes are there.
fn decode_blocks(src: &[u8], end: usize, dst: &mut [u8], scratch: &mut Scratch) -> Result<usize> {
    let room = dst.len();
    let decompressor = scratch.zstd.decompressor.get_or_insert_with(DCtx::create);
    let failed = |code| decode_error(code, room);
    decompressor.reset(ResetDirective::SessionOnly).map_err(failed)?;
    decompressor.set_parameter(DParameter::StableOutBuffer(true)).map_err(failed)?;
    decompressor.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).map_err(failed)?;
    let mut output = OutBuffer::around(dst);
    let (mut rest, mut asked) = (src, FRAME_START);
    while output.pos() < end {
        if rest.is_empty() {
            return Err(CodecError::corrupt("zstd", format!("truncated after {} bytes", src.len())));
        }
        // Exactly the bytes that the library asks for: one block. Given a whole frame, it would
        // decode all of it.
        let mut input = InBuffer::around(rest.get(..asked).unwrap_or(rest));
        asked = decompressor.decompress_stream(&mut output, &mut input).map_err(failed)?;
        rest = rest.get(input.pos()..).unwrap_or_default();
        if asked == 0 {
            if rest.is_empty() && output.pos() < room {
                return Ok(output.pos());
            }
            asked = FRAME_START;
        }
    }
    Ok(room)
}

fn decode_error(code: usize, room: usize) -> CodecError {
    if code == error_code(ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) {
        return chain::too_large("zstd", room);
    }
    CodecError::corrupt("zstd", zstd_safe::get_error_name(code).to_lowercase())
}

/// The library returns errors as negated numbers in an unsigned word.
fn error_code(error: ZSTD_ErrorCode) -> usize {
    (error as usize).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    const ZSTD: Zstd = Zstd { level: 0, checksum: false };
    const SUMMED: Zstd = Zstd { level: 0, checksum: true };

    /// numcodecs.Zstd().encode(b"hyperslab " * 20)
    const KNOWN: &[u8] = b"\x28\xb5\x2f\xfd\x20\xc8\x8d\0\0\x50hyperslab \x01\0\xbb\x52\x05\x09";

    #[test]
    fn known_streams() {
        let expected = b"hyperslab ".repeat(20);
        assert_eq!(decode(&ZSTD, KNOWN, 200).unwrap(), expected);
        // numcodecs.Zstd(checksum=True).encode(b"hyperslab " * 20)
        let mut summed =
            b"\x28\xb5\x2f\xfd\x24\xc8\x8d\0\0\x50hyperslab \x01\0\xbb\x52\x05\x09\xf8\x7d\xe7\x38".to_vec();
        assert_eq!(decode(&ZSTD, &summed, 200).unwrap(), expected);
        *summed.last_mut().unwrap() ^= 1;
        let message = decode(&ZSTD, &summed, 200).unwrap_err().to_string();
        assert!(message.contains("checksum"), "{message}");
    }

    #[test]
    fn frame_without_content_size() {
        // Magic number, descriptor 0 (no size), window of 1 KiB; one raw block, last, of three
        // bytes.
        let stream = b"\x28\xb5\x2f\xfd\0\0\x19\0\0abc";
        assert_eq!(decode(&ZSTD, stream, 3).unwrap(), b"abc");
        assert_eq!(decode(&ZSTD, stream, 9).unwrap(), b"abc");
        assert!(matches!(decode(&ZSTD, stream, 2), Err(CodecError::Size { expected: 2, found: 3, .. })));
    }

    #[test]
    fn frames_and_skippable_frames() {
        let mut stream = b"\x50\x2a\x4d\x18\x04\0\0\0skip".to_vec();
        stream.extend(encode(&SUMMED, b"one "));
        stream.extend_from_slice(b"\x5f\x2a\x4d\x18\0\0\0\0");
        stream.extend(encode(&ZSTD, b""));
        stream.extend(encode(&ZSTD, b"two"));
        assert_eq!(decode(&ZSTD, &stream, 7).unwrap(), b"one two");
        assert!(matches!(decode(&ZSTD, &stream, 6), Err(CodecError::Size { .. })));
        for garbage in [&b"x"[..], b"\0", b"\0\0\0\0\0\0\0\0", b"\x28\xb5\x2f\xfd"] {
            let longer = [&stream[..], garbage].concat();
            assert!(matches!(decode(&ZSTD, &longer, 99), Err(CodecError::Corrupt { .. })), "{garbage:?}");
        }
    }

    #[test]
    fn a_header_that_claims_exabytes_costs_nothing() {
        // Single segment with an eight-byte content size of 2⁶² bytes.
        let stream = b"\x28\xb5\x2f\xfd\xe0\0\0\0\0\0\0\0\x40\x19\0\0abc";
        assert!(decode(&ZSTD, stream, 3).is_err());
        // A window of more than 2 GiB: only a streaming decoder needs it.
        let stream = b"\x28\xb5\x2f\xfd\0\xa8\x19\0\0abc";
        assert_eq!(decode(&ZSTD, stream, 3).unwrap(), b"abc");
        // Our decoder of parts does not need it either.
        let mut scratch = Scratch::default();
        let stream = [stream, &encode(&ZSTD, &[7; 1000])[..]].concat();
        let part = testing::decode_part(&ZSTD, &stream, 1..2, 1003, &mut scratch).unwrap();
        assert_eq!(part, b"b");
        assert!(scratch.zstd.decompressor.unwrap().sizeof() < 400 << 10);
    }

    #[test]
    fn parts() {
        testing::stops_early(&ZSTD, 0.5);
        let mut scratch = Scratch::default();
        let mut part =
            |stored: &[u8], wanted, size| testing::decode_part(&ZSTD, stored, wanted, size, &mut scratch);
        let (one, two) = (testing::noise(300_000, 1), b"hyperslab ".repeat(40_000));
        let whole = [&one[..], &two].concat();
        let mut stored = encode(&SUMMED, &one);
        stored.extend_from_slice(b"\x5f\x2a\x4d\x18\x03\0\0\0abc");
        stored.extend(encode(&SUMMED, &two));
        for wanted in [0..1, 0..300_000, 299_999..300_001, 600_000..700_000, 5..699_999] {
            assert!(part(&stored, wanted.clone(), 700_000).unwrap() == whole[wanted.clone()], "{wanted:?}");
        }
        // A first frame that does not fit; a second frame after the part; a stream that ends before
        // the part.
        assert!(matches!(part(&stored, 0..9, 299_999), Err(CodecError::Size { .. })));
        assert!(matches!(part(&stored, 0..299_999, 300_000), Ok(part) if part == whole[..299_999]));
        assert!(matches!(part(&stored, 0..700_001, 700_002), Err(CodecError::Size { found: 700_000, .. })));
        // The checksum of a frame is verified before the next frame is decoded.
        let at = encode(&SUMMED, &one).len() - 1;
        stored[at] ^= 1;
        assert!(part(&stored, 0..299_999, 700_000).is_ok());
        let message = part(&stored, 0..300_001, 700_000).unwrap_err().to_string();
        assert!(message.contains("checksum"), "{message}");
        for nothing in [&b""[..], b"\x28\xb5", &stored[..200_000]] {
            let error = part(nothing, 0..250_000, 300_000).unwrap_err();
            assert!(matches!(error, CodecError::Corrupt { .. }), "{error}");
        }
    }

    #[test]
    fn round_trips_and_damage() {
        for codec in [ZSTD, SUMMED, Zstd { level: -5, checksum: false }, Zstd { level: 9, checksum: false }] {
            testing::check(&codec);
        }
        testing::refuses_truncation(&ZSTD);
        testing::refuses_truncation(&SUMMED);
    }

    #[test]
    fn extreme_levels() {
        let data = b"hyperslab ".repeat(500);
        for level in [i32::MIN, -131_072, 22, 100, i32::MAX] {
            let stream = encode(&Zstd { level, checksum: false }, &data);
            assert_eq!(decode(&ZSTD, &stream, data.len()).unwrap(), data, "{level}");
        }
    }

    #[test]
    fn configuration() {
        let v3 = |metadata| Zstd::from_v3(Some(&metadata));
        assert_eq!(
            v3(json!({"level": -131072, "checksum": true})).unwrap(),
            Zstd { level: -131_072, checksum: true }
        );
        assert_eq!(v3(json!({"level": 22})).unwrap(), Zstd { level: 22, checksum: false });
        assert_eq!(
            Zstd::from_v2(&json!({"id": "zstd", "level": 100})).unwrap(),
            Zstd { level: 100, checksum: false }
        );
        assert_eq!(SUMMED.to_v2(), Some(json!({"id": "zstd", "level": 0, "checksum": true})));
        assert_eq!(ZSTD.to_v2(), Some(json!({"id": "zstd", "level": 0})));
        let bad = r#"{"level": 23} {"level": -131073} {"level": 1e9} {"level": 99999999999} {"checksum": 1}
            {"level": null} "zstd""#;
        testing::refuses(bad, |bad| Zstd::from_v3(Some(bad)));
    }
}
