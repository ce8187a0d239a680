//! The compressors inside blosc, one stream at a time.

use std::ffi::{c_char, c_int, c_void};

use libdeflater::{CompressionLvl, Compressor, Decompressor};
use zstd_safe::{CCtx, DCtx};

use super::BloscCompressor;
use super::blosclz;
use super::header::Format;
use crate::lz4;

// Not in the bindings. LZ4_compress_HC instead allocates its 256 KiB state for each stream.
unsafe extern "C" {
    fn LZ4_sizeofStateHC() -> c_int;
    fn LZ4_compress_HC_extStateHC(
        state: *mut c_void,
        src: *const c_char,
        dst: *mut c_char,
        src_size: c_int,
        max_dst_size: c_int,
        level: c_int,
    ) -> c_int;
}

/// Decoders, created on first use.
#[derive(Default)]
pub(crate) struct Decoders {
    zlib: Option<Decompressor>,
    zstd: Option<DCtx<'static>>,
}

impl Decoders {
    /// Decodes all of `src` into all of `dst`. The error says why decoding failed.
    pub(crate) fn decode(&mut self, format: Format, src: &[u8], dst: &mut [u8]) -> Result<(), String> {
        let len = match format {
            Format::BloscLz => return blosclz::decode(src, dst).map_err(|why| format!("blosclz: {why}")),
            Format::Lz4 => lz4::decompress(src, dst)
                .ok_or("lz4: the stream is corrupt, is longer than 2 GiB, or decodes to too many bytes")?,
            Format::Snappy => {
                snap::raw::Decoder::new().decompress(src, dst).map_err(|error| format!("snappy: {error}"))?
            }
            Format::Zlib => {
                let zlib = self.zlib.get_or_insert_with(Decompressor::new);
                zlib.zlib_decompress(src, dst).map_err(|error| format!("zlib: {error}"))?
            }
            Format::Zstd => {
                let zstd = self.zstd.get_or_insert_with(DCtx::create);
                zstd.decompress(dst, src)
                    .map_err(|code| format!("zstd: {}", zstd_safe::get_error_name(code)))?
            }
        };
        if len == dst.len() { Ok(()) } else { Err(format!("decodes to {len} bytes")) }
    }
}

/// Encoders, created on first use.
#[derive(Default)]
pub(super) struct Encoders {
    blosclz: blosclz::Table,
    /// `u64` for its alignment.
    lz4hc: Vec<u64>,
    zlib: Option<(u8, Compressor)>,
    zstd: Option<CCtx<'static>>,
}

impl Encoders {
    /// Encodes `src` into `dst`. Returns `None` if it does not fit.
    pub(super) fn encode(
        &mut self,
        compressor: BloscCompressor,
        level: u8,
        src: &[u8],
        dst: &mut [u8],
    ) -> Option<usize> {
        let len = match compressor {
            BloscCompressor::BloscLz => blosclz::encode(src, dst, level, &mut self.blosclz)?,
            BloscCompressor::Lz4 => lz4_encode(src, dst, level)?,
            BloscCompressor::Lz4hc => self.lz4hc_encode(src, dst, level)?,
            // Refused earlier; storing the bytes uncompressed would be right too.
            BloscCompressor::Snappy => return None,
            BloscCompressor::Zlib => {
                let zlib = match &mut self.zlib {
                    Some((made_for, zlib)) if *made_for == level => zlib,
                    other => {
                        let made_for = CompressionLvl::new(i32::from(level)).ok()?;
                        &mut other.insert((level, Compressor::new(made_for))).1
                    }
                };
                zlib.zlib_compress(src, dst).ok()?
            }
            BloscCompressor::Zstd => {
                let zstd = self.zstd.get_or_insert_with(CCtx::create);
                // c-blosc's levels: 1, 3, 5, …, 15 and the highest.
                let level = if level < 9 { i32::from(level) * 2 - 1 } else { zstd_safe::max_c_level() };
                zstd.compress(dst, src, level).ok()?
            }
        };
        (len > 0).then_some(len)
    }

    fn lz4hc_encode(&mut self, src: &[u8], dst: &mut [u8], level: u8) -> Option<usize> {
        let (src_len, dst_len) = (c_int::try_from(src.len()).ok()?, c_int::try_from(dst.len()).ok()?);
        if self.lz4hc.is_empty() {
            // SAFETY: takes nothing, returns a constant.
            let size = unsafe { LZ4_sizeofStateHC() };
            self.lz4hc.resize(usize::try_from(size).ok()?.div_ceil(8), 0);
        }
        // SAFETY: the state is as large as the library says and aligned to 8 bytes, which it
        // initialises itself; the other pointers are valid for their lengths.
        let len = unsafe {
            LZ4_compress_HC_extStateHC(
                self.lz4hc.as_mut_ptr().cast(),
                src.as_ptr().cast(),
                dst.as_mut_ptr().cast(),
                src_len,
                dst_len,
                c_int::from(level),
            )
        };
        usize::try_from(len).ok()
    }
}

fn lz4_encode(src: &[u8], dst: &mut [u8], level: u8) -> Option<usize> {
    let (src_len, dst_len) = (c_int::try_from(src.len()).ok()?, c_int::try_from(dst.len()).ok()?);
    // c-blosc's trade-off of ratio for speed.
    let acceleration = 10 - c_int::from(level);
    // SAFETY: both pointers are valid for their lengths; the state is on the function's own stack.
    let len = unsafe {
        lz4_sys::LZ4_compress_fast(
            src.as_ptr().cast(),
            dst.as_mut_ptr().cast(),
            src_len,
            dst_len,
            acceleration,
        )
    };
    usize::try_from(len).ok()
}
