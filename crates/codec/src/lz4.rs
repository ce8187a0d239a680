//! `lz4`: an LZ4 block after its decoded size (numcodecs' framing, not the LZ4 frame format).
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/compression/lz4.html>,
//!   <https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>
//! * v2 id: `lz4`; v3 name: `numcodecs.lz4`, zarr-python's (the v3 specification has no such codec)
//!
//! ```
//! # let json = r#"
//! {"id": "lz4", "acceleration": 1}
//! # "#;
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let lz4 = hyperslab_codec::Lz4::from_v2(&metadata).unwrap();
//! # assert_eq!(hyperslab_codec::Codec::to_v2(&lz4), Some(metadata));
//! ```
//!
//! A chunk is the decoded size (four bytes, little-endian), then one block, which must decode to
//! exactly that many bytes.

use crate::registry::{configuration, configuration_v2};
use crate::{Codec, CodecError, Racing, Reach, Result, Scratch, front};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::{c_char, c_int};
use std::ops::Range;

/// The `lz4` codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lz4 {
    /// Larger is faster and compresses less. Clamped to 1 to 65537.
    pub acceleration: i32,
}

/// Without `acceleration`, it is 1, as in numcodecs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    acceleration: Option<i32>,
}

/// The most bytes that the library compresses at once (`LZ4_MAX_INPUT_SIZE`).
const MAX_DECODED: usize = 0x7E00_0000;

/// The library's largest acceleration (`LZ4_ACCELERATION_MAX`).
const MAX_ACCELERATION: i32 = 65537;

impl Lz4 {
    /// Reads the `configuration` of v3 metadata.
    pub fn from_v3(metadata: Option<&Value>) -> Result<Self> {
        let fields: Fields = configuration("lz4", metadata)?;
        Ok(Lz4 { acceleration: fields.acceleration.unwrap_or(1) })
    }

    /// Reads the object of v2 metadata.
    pub fn from_v2(metadata: &Value) -> Result<Self> {
        let fields: Fields = configuration_v2("lz4", metadata)?;
        Ok(Lz4 { acceleration: fields.acceleration.unwrap_or(1) })
    }
}

impl Codec for Lz4 {
    fn name(&self) -> &'static str {
        "lz4"
    }

    fn check_settings(&self) -> Result<()> {
        if (1..=MAX_ACCELERATION).contains(&self.acceleration) {
            return Ok(());
        }
        let found = self.acceleration;
        Err(CodecError::config("lz4", format!("acceleration must be 1 to {MAX_ACCELERATION}, found {found}")))
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        let (claimed, block) = split(src)?;
        let target = front("lz4", dst, claimed as usize)?;
        match decompress(block, target) {
            Some(found) if found == target.len() => Ok(found),
            Some(found) => Err(format!("the header says {claimed} bytes, the block decodes to {found}")),
            None => Err(format!("the block is truncated, corrupt, or longer than {claimed} bytes")),
        }
        .map_err(|why| CodecError::corrupt("lz4", why))
    }

    fn decode_range(
        &self,
        src: &[u8],
        wanted: Range<usize>,
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<usize> {
        let (room, end) = (dst.len(), wanted.end);
        if end == room {
            return self.decode(src, dst, scratch);
        }
        let (claimed, block) = split(src)?;
        if claimed as usize != room {
            return Ok(claimed as usize);
        }
        match decompress_front(block, dst.get_mut(..end).unwrap_or_default()) {
            Some(found) if found == end => Ok(room),
            _ => {
                let why = format!("the block is truncated, corrupt, or shorter than {end} bytes");
                Err(CodecError::corrupt("lz4", why))
            }
        }
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _scratch: &mut Scratch) -> Result<()> {
        let (Ok(size), true) = (u32::try_from(src.len()), src.len() <= MAX_DECODED) else {
            let why =
                format!("expected at most {MAX_DECODED} bytes, found {}: use smaller chunks", src.len());
            return Err(CodecError::encode("lz4", why));
        };
        dst.clear();
        dst.extend_from_slice(&size.to_le_bytes());
        if compress(src, dst, self.acceleration) {
            return Ok(());
        }
        Err(CodecError::encode("lz4", "the result is larger than the library's own bound"))
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn reach(&self) -> Reach {
        Reach::Prefix
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": "numcodecs.lz4", "configuration": {"acceleration": self.acceleration}}))
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({"id": "lz4", "acceleration": self.acceleration}))
    }
}

/// The decoded size in the chunk's header, and the block.
fn split(src: &[u8]) -> Result<(u32, &[u8])> {
    let Some((header, block)) = src.split_first_chunk() else {
        let why = format!("truncated: expected at least 4 bytes for the size, found {}", src.len());
        return Err(CodecError::corrupt("lz4", why));
    };
    Ok((u32::from_le_bytes(*header), block))
}

/// Decodes one block into the front of `dst` and returns the number of bytes. Returns `None` if the
/// block is not valid or does not fit.
pub(crate) fn decompress(block: &[u8], dst: &mut [u8]) -> Option<usize> {
    let (block_len, room) = (c_int::try_from(block.len()).ok()?, c_int::try_from(dst.len()).ok()?);
    // SAFETY: both slices are given with their own lengths; the "safe" decoder reads and writes
    // within them, whatever the block holds.
    let written = unsafe {
        lz4_sys::LZ4_decompress_safe(block.as_ptr().cast(), dst.as_mut_ptr().cast(), block_len, room)
    };
    usize::try_from(written).ok()
}

unsafe extern "C" {
    // In the library that `lz4_sys` links, but missing from its bindings.
    fn LZ4_decompress_safe_partial(
        src: *const c_char,
        dst: *mut c_char,
        src_size: c_int,
        target_size: c_int,
        dst_capacity: c_int,
    ) -> c_int;
}

/// Decodes a block until `dst` is full or the block ends, and returns the number of bytes. Returns
/// `None` if the block is not valid up to there.
fn decompress_front(block: &[u8], dst: &mut [u8]) -> Option<usize> {
    let (block_len, room) = (c_int::try_from(block.len()).ok()?, c_int::try_from(dst.len()).ok()?);
    // SAFETY: as in `decompress`; the declaration is the one in lz4.h, and the target size is the
    // capacity, as it requires.
    let written = unsafe {
        LZ4_decompress_safe_partial(block.as_ptr().cast(), dst.as_mut_ptr().cast(), block_len, room, room)
    };
    usize::try_from(written).ok()
}

/// Appends the block of `src` to `dst`. Returns `false` on failure. The library keeps its 16 KiB of
/// state on the stack.
pub(crate) fn compress(src: &[u8], dst: &mut Vec<u8>, acceleration: i32) -> bool {
    let Ok(len) = c_int::try_from(src.len()) else { return false };
    // SAFETY: takes a number.
    let bound = unsafe { lz4_sys::LZ4_compressBound(len) };
    let Ok(room) = usize::try_from(bound) else { return false };
    if dst.try_reserve(room).is_err() {
        return false;
    }
    let spare = dst.spare_capacity_mut();
    // SAFETY: `src` is given with its own length. The destination is spare capacity of at least
    // `room` bytes, and the library writes at most `bound`, which is the same number.
    let written = unsafe {
        lz4_sys::LZ4_compress_fast(src.as_ptr().cast(), spare.as_mut_ptr().cast(), len, bound, acceleration)
    };
    match usize::try_from(written) {
        Ok(written) if (1..=room).contains(&written) => {
            // SAFETY: `written` bytes behind the old length lie within the capacity and have just
            // been written.
            unsafe { dst.set_len(dst.len() + written) };
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, decode, encode};

    const LZ4: Lz4 = Lz4 { acceleration: 1 };

    #[test]
    fn known_stream() {
        // numcodecs.LZ4().encode(b"hyperslab " * 20)
        let known = b"\xc8\0\0\0\xafhyperslab \x0a\0\xa6\x50slab ";
        assert_eq!(decode(&LZ4, known, 200).unwrap(), b"hyperslab ".repeat(20));
        assert_eq!(encode(&LZ4, &b"hyperslab ".repeat(20)), known);
        assert_eq!(encode(&LZ4, b""), b"\0\0\0\0\0");
    }

    #[test]
    fn round_trips_and_damage() {
        for acceleration in [-1, 0, 1, 100, i32::MAX] {
            testing::check(&Lz4 { acceleration });
        }
        testing::refuses_truncation(&LZ4);
        testing::stops_early(&LZ4, 0.3);
    }

    #[test]
    fn the_claimed_size_is_not_trusted() {
        let mut stream = encode(&LZ4, &[1; 100]);
        stream[0] = 99;
        assert!(matches!(decode(&LZ4, &stream, 100), Err(CodecError::Corrupt { .. })), "less than there is");
        stream[0] = 100;
        stream[3] = 0xff;
        assert!(matches!(decode(&LZ4, &stream, 100), Err(CodecError::Size { found: 0xff00_0064, .. })));
        let part = testing::decode_part(&LZ4, &stream, 0..10, 100, &mut Scratch::default());
        assert!(matches!(part, Err(CodecError::Size { found: 0xff00_0064, .. })));
        let stream = [&101u32.to_le_bytes()[..], &encode(&LZ4, &[1; 100])[4..]].concat();
        let message = decode(&LZ4, &stream, 200).unwrap_err().to_string();
        assert_eq!(message, "lz4: the header says 101 bytes, the block decodes to 100");
    }

    #[test]
    fn configuration() {
        assert_eq!(Lz4::from_v2(&json!({"id": "lz4"})).unwrap(), LZ4);
        assert_eq!(Lz4::from_v3(Some(&json!({"acceleration": 7}))).unwrap(), Lz4 { acceleration: 7 });
        assert_eq!(LZ4.to_v3(), Some(json!({"name": "numcodecs.lz4", "configuration": {"acceleration": 1}})));
        assert!(Lz4::from_v2(&json!({"id": "lz4", "acceleration": "1"})).is_err());
        assert!(Lz4::from_v2(&json!({"id": "lz4", "level": 1})).is_err());
    }
}
