//! DEFLATE through libdeflate, shared by `gzip` and `zlib`.
//!
//! The two codecs differ only in the bytes around the compressed data.
//!
//! libdeflate works on whole buffers: it decodes straight into the caller's memory, and never
//! writes past the given room. It cannot stream. To decode the front part of a chunk, it is given
//! less room than there is data.

use crate::{CodecError, Result, room};
use libdeflate_sys as sys;
use libdeflater::{CompressionLvl, Compressor};
use serde::Deserialize;
use std::ptr::NonNull;

/// The bytes around the compressed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapper {
    /// RFC 1952: header, data, CRC-32, length.
    Gzip,
    /// RFC 1950: header, data, Adler-32.
    Zlib,
}

impl Wrapper {
    /// The codec's name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Wrapper::Gzip => "gzip",
            Wrapper::Zlib => "zlib",
        }
    }
}

/// The configuration of both codecs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fields {
    level: Option<i32>,
}

impl Fields {
    /// The level, or `default` where it is absent. Decoding needs no level, so any can be read.
    pub(crate) fn level(&self, default: i32) -> i32 {
        self.level.unwrap_or(default)
    }
}

/// Refuses a level outside `least` to 9.
pub(crate) fn check_level(wrapper: Wrapper, level: i32, least: i32) -> Result<()> {
    if (least..=9).contains(&level) {
        return Ok(());
    }
    Err(CodecError::config(wrapper.name(), format!("level must be {least} to 9, found {level}")))
}

/// The nearest level from -1 to 9.
pub(crate) fn nearest_level(level: i32) -> i32 {
    level.clamp(-1, 9)
}

/// How decoding one stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inflated {
    /// It was valid.
    Done {
        /// Bytes of the source that belong to the stream.
        consumed: usize,
        /// Bytes written.
        written: usize,
    },
    /// Truncated, corrupt, wrong checksum, or not such a stream.
    Bad,
    /// The stream holds more than there is room for. The room holds the start of the stream, except
    /// in its last [`UNFILLED`] bytes.
    Full,
}

/// How many bytes at the end of the room may be wrong when libdeflate runs out of room.
///
/// It writes in order and stops at the first item that does not fit. The longest item is a stored
/// block of 65 535 bytes. After the end of a truncated stream it reads up to 64 zero bits, which
/// decode to less than 17 KiB of matches, but never to a stored block.
///
/// Decoding the front of a chunk therefore decodes this much more than is wanted. In return it is
/// as fast per byte as decoding all of the chunk.
pub(crate) const UNFILLED: usize = 65_535;

/// One thread's contexts, created on first use.
#[derive(Default)]
pub(crate) struct Contexts {
    decompressor: Option<Decompressor>,
    /// By level: a libdeflate compressor is made for one level.
    compressors: [Option<Compressor>; 10],
}

impl Contexts {
    /// Decodes the one stream (member) at the start of `src` into the front of `dst`.
    ///
    /// The stream's checksum is always verified.
    pub(crate) fn inflate(&mut self, wrapper: Wrapper, src: &[u8], dst: &mut [u8]) -> Inflated {
        self.decompressor.get_or_insert_with(Decompressor::new).run(wrapper, src, dst)
    }

    /// Encodes `src` as one stream. Levels are zlib's: 0 stores, 1 to 9 compress, -1 means 6. Other
    /// levels are clamped.
    pub(crate) fn deflate(
        &mut self,
        wrapper: Wrapper,
        level: i32,
        src: &[u8],
        dst: &mut Vec<u8>,
    ) -> Result<()> {
        let failed = |why| CodecError::encode(wrapper.name(), why);
        let level = if level < 0 { 6 } else { level.min(9) };
        let slot =
            self.compressors.get_mut(level as usize).ok_or_else(|| failed("there is no such level"))?;
        let compressor = match slot {
            Some(compressor) => compressor,
            None => {
                let level = CompressionLvl::new(level).map_err(|_| failed("libdeflate has no such level"))?;
                slot.insert(Compressor::new(level))
            }
        };
        let bound = match wrapper {
            Wrapper::Gzip => compressor.gzip_compress_bound(src.len()),
            Wrapper::Zlib => compressor.zlib_compress_bound(src.len()),
        };
        room::reserve(dst, bound.saturating_sub(dst.len()), wrapper.name())?;
        dst.resize(bound, 0);
        let written = match wrapper {
            Wrapper::Gzip => compressor.gzip_compress(src, dst),
            Wrapper::Zlib => compressor.zlib_compress(src, dst),
        };
        dst.truncate(written.map_err(|_| failed("the result is larger than libdeflate's own bound"))?);
        Ok(())
    }
}

/// libdeflate's decompressor. The crate `libdeflater` does not report how much of the source it
/// consumed, which is needed to find the next gzip member, and bytes after the end.
struct Decompressor(NonNull<sys::libdeflate_decompressor>);

// SAFETY: the pointer is owned, and libdeflate keeps no thread-local state: a decompressor may be
// used from any one thread at a time.
unsafe impl Send for Decompressor {}

impl Decompressor {
    fn new() -> Self {
        // SAFETY: takes no argument; gives null or a decompressor that we own.
        let pointer = unsafe { sys::libdeflate_alloc_decompressor() };
        match NonNull::new(pointer) {
            Some(pointer) => Decompressor(pointer),
            None => std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; 16 << 10]>()),
        }
    }

    fn run(&mut self, wrapper: Wrapper, src: &[u8], dst: &mut [u8]) -> Inflated {
        let (mut consumed, mut written) = (0, 0);
        let run = match wrapper {
            Wrapper::Gzip => sys::libdeflate_gzip_decompress_ex,
            Wrapper::Zlib => sys::libdeflate_zlib_decompress_ex,
        };
        // SAFETY: source and destination are slices given with their own lengths, so libdeflate
        // reads and writes within them only; the two results are live local variables; `&mut self`
        // makes this the only use of the decompressor.
        let result = unsafe {
            run(
                self.0.as_ptr(),
                src.as_ptr().cast(),
                src.len(),
                dst.as_mut_ptr().cast(),
                dst.len(),
                &mut consumed,
                &mut written,
            )
        };
        match result {
            sys::libdeflate_result_LIBDEFLATE_SUCCESS => Inflated::Done { consumed, written },
            sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => Inflated::Full,
            _ => Inflated::Bad,
        }
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: made by `libdeflate_alloc_decompressor`, freed once, not used after.
        unsafe { sys::libdeflate_free_decompressor(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumed_and_written_are_exact() {
        let mut contexts = Contexts::default();
        let mut stream = Vec::new();
        for wrapper in [Wrapper::Gzip, Wrapper::Zlib] {
            contexts.deflate(wrapper, 9, &[7; 1000], &mut stream).unwrap();
            let len = stream.len();
            assert!(len < 60, "{len}");
            stream.extend_from_slice(b"more");
            let mut out = [0; 1200];
            let done = contexts.inflate(wrapper, &stream, &mut out);
            assert_eq!(done, Inflated::Done { consumed: len, written: 1000 });
            assert_eq!((out[999], out[1000]), (7, 0));
            assert_eq!(contexts.inflate(wrapper, &stream, &mut out[..999]), Inflated::Full);
            assert_eq!(contexts.inflate(wrapper, &stream[..len - 1], &mut out), Inflated::Bad);
            assert_eq!(contexts.inflate(wrapper, &[], &mut []), Inflated::Bad);
        }
    }

    #[test]
    fn every_level_works_and_strange_ones_are_brought_into_range() {
        let mut contexts = Contexts::default();
        let (mut stream, mut default) = (Vec::new(), Vec::new());
        let data: Vec<u8> = (0..5000u32).flat_map(|i| (i * i / 7).to_le_bytes()).collect();
        contexts.deflate(Wrapper::Zlib, 6, &data, &mut default).unwrap();
        for level in [-9, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100] {
            contexts.deflate(Wrapper::Zlib, level, &data, &mut stream).unwrap();
            let mut out = vec![0; data.len()];
            let expected = Inflated::Done { consumed: stream.len(), written: data.len() };
            assert_eq!(contexts.inflate(Wrapper::Zlib, &stream, &mut out), expected, "level {level}");
            assert!(out == data, "level {level}");
            assert_eq!(stream.len() > data.len(), level == 0, "level {level}");
            if level < 0 {
                assert!(stream == default, "level {level}");
            }
        }
    }
}
