//! One-shot compression with reused contexts.

use libdeflater::{CompressionLvl, Compressor, Decompressor};
use std::fmt::Debug;
use std::io;
use zstd_safe::{CCtx, DCtx};

/// The compression of a chunk's bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    None,
    Zstd {
        level: i32,
    },
    Gzip {
        level: i32,
    },
    /// zlib, then unshuffling: the bytes of each element are put back together.
    ShuffledZlib {
        level: i32,
    },
}

impl Codec {
    pub(crate) fn new(number: u32, level: i32) -> io::Result<Self> {
        match number {
            0 => Ok(Codec::None),
            1 => Ok(Codec::Zstd { level }),
            2 => Ok(Codec::Gzip { level }),
            3 => Ok(Codec::ShuffledZlib { level }),
            other => Err(io::Error::other(format!("no codec {other}"))),
        }
    }
}

/// The contexts of one thread, created on first use.
#[derive(Default)]
pub(crate) struct Contexts {
    zstd_compressor: Option<CCtx<'static>>,
    zstd_decompressor: Option<DCtx<'static>>,
    /// The compressor of the last requested level.
    gzip_compressor: Option<(i32, Compressor)>,
    gzip_decompressor: Option<Decompressor>,
    shuffled: Vec<u8>,
}

impl Contexts {
    /// Decodes one chunk. `item` is the size of an element in bytes.
    pub(crate) fn decode(
        &mut self,
        codec: Codec,
        item: usize,
        encoded: &[u8],
        decoded: &mut [u8],
    ) -> io::Result<()> {
        let expected = decoded.len();
        let length = match codec {
            Codec::None => {
                decoded.copy_from_slice(encoded);
                expected
            }
            Codec::Zstd { .. } => {
                let context = self.zstd_decompressor.get_or_insert_with(DCtx::create);
                context.decompress(decoded, encoded).map_err(failed)?
            }
            Codec::Gzip { .. } => {
                let context = self.gzip_decompressor.get_or_insert_with(Decompressor::new);
                context.gzip_decompress(encoded, decoded).map_err(failed)?
            }
            Codec::ShuffledZlib { .. } => {
                let context = self.gzip_decompressor.get_or_insert_with(Decompressor::new);
                self.shuffled.resize(expected, 0);
                let length = context.zlib_decompress(encoded, &mut self.shuffled).map_err(failed)?;
                unshuffle(&self.shuffled, decoded, item);
                length
            }
        };
        if length == expected { Ok(()) } else { Err(failed("a chunk of another size")) }
    }

    pub(crate) fn encode(&mut self, codec: Codec, decoded: &[u8], encoded: &mut Vec<u8>) -> io::Result<()> {
        encoded.clear();
        match codec {
            Codec::None => encoded.extend_from_slice(decoded),
            Codec::Zstd { level } => {
                encoded.reserve(zstd_safe::compress_bound(decoded.len()));
                let context = self.zstd_compressor.get_or_insert_with(CCtx::create);
                context.compress(encoded, decoded, level).map_err(failed)?;
            }
            Codec::ShuffledZlib { .. } => return Err(failed("HDF5 is only read")),
            Codec::Gzip { level } => {
                if self.gzip_compressor.as_ref().is_none_or(|(of, _)| *of != level) {
                    let level_of = CompressionLvl::new(level).map_err(failed)?;
                    self.gzip_compressor = Some((level, Compressor::new(level_of)));
                }
                let (_, context) = self.gzip_compressor.as_mut().ok_or_else(|| failed("no context"))?;
                encoded.resize(context.gzip_compress_bound(decoded.len()), 0);
                let length = context.gzip_compress(decoded, encoded).map_err(failed)?;
                encoded.truncate(length);
            }
        }
        Ok(())
    }
}

/// Undoes shuffling: puts the bytes of each element back together.
fn unshuffle(from: &[u8], to: &mut [u8], item: usize) {
    let count = to.len() / item;
    #[cfg(target_arch = "x86_64")]
    if item == 4 {
        return unshuffle4(from, to, count);
    }
    for (n, element) in to.chunks_exact_mut(item).enumerate() {
        for (k, byte) in element.iter_mut().enumerate() {
            *byte = from[k * count + n];
        }
    }
}

/// Unshuffles sixteen elements at a time with SSE2, which every x86-64 has.
#[cfg(target_arch = "x86_64")]
fn unshuffle4(from: &[u8], to: &mut [u8], count: usize) {
    use std::arch::x86_64::*;
    let whole = count / 16 * 16;
    for n in (0..whole).step_by(16) {
        let plane = |k: usize| from[k * count + n..][..16].as_ptr().cast::<__m128i>();
        let out = to[4 * n..][..64].as_mut_ptr().cast::<__m128i>();
        // SAFETY: the slices above have the 16 and 64 bytes that are read and written.
        unsafe {
            let [a, b, c, d] = [0, 1, 2, 3].map(|k| _mm_loadu_si128(plane(k)));
            let (ab, ab_high) = (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b));
            let (cd, cd_high) = (_mm_unpacklo_epi8(c, d), _mm_unpackhi_epi8(c, d));
            _mm_storeu_si128(out, _mm_unpacklo_epi16(ab, cd));
            _mm_storeu_si128(out.add(1), _mm_unpackhi_epi16(ab, cd));
            _mm_storeu_si128(out.add(2), _mm_unpacklo_epi16(ab_high, cd_high));
            _mm_storeu_si128(out.add(3), _mm_unpackhi_epi16(ab_high, cd_high));
        }
    }
    for (n, element) in to.chunks_exact_mut(4).enumerate().skip(whole) {
        for (k, byte) in element.iter_mut().enumerate() {
            *byte = from[k * count + n];
        }
    }
}

fn failed(error: impl Debug) -> io::Error {
    io::Error::other(format!("{error:?}"))
}
