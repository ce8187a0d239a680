//! One-shot compression with contexts that are used again.

use libdeflater::{CompressionLvl, Compressor, Decompressor};
use std::fmt::Debug;
use std::io;
use zstd_safe::{CCtx, DCtx};

/// What the bytes of a chunk are compressed with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    None,
    Zstd { level: i32 },
    Gzip { level: i32 },
}

impl Codec {
    pub(crate) fn new(number: u32, level: i32) -> io::Result<Self> {
        match number {
            0 => Ok(Codec::None),
            1 => Ok(Codec::Zstd { level }),
            2 => Ok(Codec::Gzip { level }),
            other => Err(io::Error::other(format!("no codec {other}"))),
        }
    }
}

/// The contexts of one thread, made on first use.
#[derive(Default)]
pub(crate) struct Contexts {
    zstd_compressor: Option<CCtx<'static>>,
    zstd_decompressor: Option<DCtx<'static>>,
    /// The compressor of one level, the last that was asked for.
    gzip_compressor: Option<(i32, Compressor)>,
    gzip_decompressor: Option<Decompressor>,
}

impl Contexts {
    pub(crate) fn decode(&mut self, codec: Codec, encoded: &[u8], decoded: &mut [u8]) -> io::Result<()> {
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

fn failed(error: impl Debug) -> io::Error {
    io::Error::other(format!("{error:?}"))
}
