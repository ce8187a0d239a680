//! Blosc: shuffles the bytes or bits of elements block by block, then compresses each block with a
//! codec of choice.
//!
//! Zarr v3: `blosc` (<https://zarr-specs.readthedocs.io/en/latest/v3/codecs/blosc/index.html>)
//!
//! ```json
//! {"name": "blosc", "configuration": {"typesize": 4, "cname": "zstd", "clevel": 5, "shuffle": "bitshuffle", "blocksize": 0}}
//! ```
//!
//! Zarr v2: `blosc` (<https://numcodecs.readthedocs.io/en/stable/compression/blosc.html>)
//!
//! ```json
//! {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
//! ```
//!
//! A buffer's header says how it was made, so only the encoder needs the configuration. The format
//! is c-blosc 1.x's: a header ([`header`]), a table of the blocks' 32-bit offsets, the blocks. A
//! block is one stream, or, if split, one stream for each byte of an element. A stream is its
//! 32-bit length and its bytes, which are uncompressed if they are as many as decoded.

pub(crate) mod bitshuffle;
pub(crate) mod blosclz;
pub(crate) mod decode;
mod encode;
pub(crate) mod header;
pub(crate) mod inner;
pub(crate) mod shuffle;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::ops::Range;

use crate::{Codec, CodecError, Racing, Reach, Result, Scratch, registry};

const NAME: &str = "blosc";

/// The compressor inside blosc (`cname`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum BloscCompressor {
    /// BloscLZ, Blosc's own LZ77.
    BloscLz,
    /// LZ4.
    Lz4,
    /// LZ4 with a longer search; decodes as LZ4.
    Lz4hc,
    /// Snappy: can be decoded, not encoded.
    Snappy,
    /// Zlib.
    Zlib,
    /// Zstandard.
    Zstd,
}

/// How elements are rearranged before compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[non_exhaustive]
pub enum BloscShuffle {
    /// Not at all.
    #[serde(rename = "noshuffle")]
    None,
    /// By bytes.
    #[serde(rename = "shuffle")]
    Byte,
    /// By bits.
    #[serde(rename = "bitshuffle")]
    Bit,
    /// By bits for elements of one byte, otherwise by bytes (numcodecs' `AUTOSHUFFLE`; Zarr v3 has
    /// no name for it).
    #[serde(skip)]
    Auto,
}

/// The blosc codec. The module's documentation describes its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blosc {
    compressor: BloscCompressor,
    /// 0 to 9. With any other level, chunks can only be read.
    level: i32,
    shuffle: BloscShuffle,
    typesize: usize,
    blocksize: usize,
}

/// State that a thread keeps between chunks. Compressors' contexts are created on first use.
#[derive(Default)]
pub(crate) struct Contexts {
    /// One block, shuffled.
    pub(crate) block: Vec<u8>,
    /// One encoded stream.
    stream: Vec<u8>,
    pub(crate) decoders: inner::Decoders,
    encoders: inner::Encoders,
}

/// The fields of both Zarr versions, which differ only in how they give the shuffle.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<S> {
    typesize: Option<usize>,
    cname: Option<BloscCompressor>,
    clevel: Option<i32>,
    shuffle: Option<S>,
    blocksize: Option<usize>,
}

impl Blosc {
    /// Creates a codec for elements of `typesize` bytes. `level` is 0 (store) to 9; with a
    /// `blocksize` of 0 the encoder chooses.
    pub fn new(
        compressor: BloscCompressor,
        level: u8,
        shuffle: BloscShuffle,
        typesize: usize,
        blocksize: usize,
    ) -> Result<Blosc> {
        let blosc = Blosc { compressor, level: level.into(), shuffle, typesize, blocksize };
        blosc.check_level()?;
        blosc.validate()
    }

    /// Checks the fields that decoding needs too: all but the level.
    fn validate(self) -> Result<Blosc> {
        if self.typesize == 0 {
            return Err(config("typesize must be 1 or more, found 0"));
        }
        if self.blocksize > header::MAX_BUFFER {
            return Err(config(format!(
                "blocksize must be at most {1}, found {0}",
                self.blocksize,
                header::MAX_BUFFER
            )));
        }
        Ok(self)
    }

    fn check_level(&self) -> Result<()> {
        match self.level {
            0..=9 => Ok(()),
            level => Err(config(format!("clevel must be 0 to 9, found {level}"))),
        }
    }

    /// The nearest level from 0 to 9.
    #[expect(clippy::cast_sign_loss, reason = "0 to 9")]
    fn nearest_level(&self) -> u8 {
        self.level.clamp(0, 9) as u8
    }

    /// Reads the `configuration` of a Zarr v3 codec. Missing fields get zarr-python's defaults for
    /// elements of this size.
    pub fn from_v3(configuration: Option<&Value>, element_size: usize) -> Result<Blosc> {
        let read: Fields<BloscShuffle> = registry::configuration(NAME, configuration)?;
        let shuffle = read.shuffle.unwrap_or(BloscShuffle::Auto.resolve(element_size.max(1)));
        Blosc::of(read, BloscCompressor::Zstd, shuffle, element_size)
    }

    /// Reads a Zarr v2 (numcodecs) object. Missing fields get numcodecs' defaults.
    pub fn from_v2(object: &Value, element_size: usize) -> Result<Blosc> {
        let read: Fields<i8> = registry::configuration_v2(NAME, object)?;
        let shuffle = match read.shuffle.unwrap_or(1) {
            0 => BloscShuffle::None,
            1 => BloscShuffle::Byte,
            2 => BloscShuffle::Bit,
            -1 => BloscShuffle::Auto,
            other => return Err(config(format!("shuffle must be 0, 1, 2 or -1, found {other}"))),
        };
        Blosc::of(read, BloscCompressor::Lz4, shuffle, element_size)
    }

    fn of<S>(
        read: Fields<S>,
        compressor: BloscCompressor,
        shuffle: BloscShuffle,
        element_size: usize,
    ) -> Result<Blosc> {
        let blosc = Blosc {
            compressor: read.cname.unwrap_or(compressor),
            level: read.clevel.unwrap_or(5),
            shuffle,
            typesize: read.typesize.unwrap_or(element_size.max(1)),
            blocksize: read.blocksize.unwrap_or(0),
        };
        blosc.validate()
    }
}

impl BloscShuffle {
    fn resolve(self, typesize: usize) -> BloscShuffle {
        match self {
            BloscShuffle::Auto if typesize == 1 => BloscShuffle::Bit,
            BloscShuffle::Auto => BloscShuffle::Byte,
            other => other,
        }
    }
}

fn config(why: impl Into<String>) -> CodecError {
    CodecError::Config { name: NAME.to_owned(), why: why.into() }
}

impl Codec for Blosc {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch) -> Result<usize> {
        self.decode_range(src, 0..dst.len(), dst, scratch)
    }

    fn decode_range(
        &self,
        src: &[u8],
        wanted: Range<usize>,
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<usize> {
        decode::decode(src, wanted, dst, &mut scratch.blosc)
    }

    fn check_encoder(&self) -> Result<()> {
        if self.compressor == BloscCompressor::Snappy {
            return Err(config("cname \"snappy\" is supported for decoding only"));
        }
        self.check_level()
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        self.check_encoder()?;
        encode::encode(self, src, dst, &mut scratch.blosc)
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        // Our bound and c-blosc's own is 16 bytes more than the input. An encoder without it adds 8
        // bytes to every 128, and snappy may grow data by a sixth.
        decoded.saturating_add(decoded / 4).saturating_add(4096)
    }

    fn reach(&self) -> Reach {
        Reach::Blocks
    }

    fn to_v3(&self) -> Option<Value> {
        let shuffle = match self.shuffle.resolve(self.typesize) {
            BloscShuffle::None => "noshuffle",
            BloscShuffle::Bit => "bitshuffle",
            BloscShuffle::Byte | BloscShuffle::Auto => "shuffle",
        };
        Some(json!({
            "name": NAME,
            "configuration": {
                "typesize": self.typesize,
                "cname": self.compressor,
                "clevel": self.nearest_level(),
                "shuffle": shuffle,
                "blocksize": self.blocksize,
            }
        }))
    }

    fn to_v2(&self) -> Option<Value> {
        let shuffle = match self.shuffle {
            BloscShuffle::None => 0,
            BloscShuffle::Byte => 1,
            BloscShuffle::Bit => 2,
            BloscShuffle::Auto => -1,
        };
        Some(json!({
            "id": NAME,
            "cname": self.compressor,
            "clevel": self.nearest_level(),
            "shuffle": shuffle,
            "blocksize": self.blocksize,
        }))
    }
}

#[cfg(test)]
mod tests;
