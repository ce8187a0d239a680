//! Chunk codecs: stored bytes ⇄ elements.
//!
//! A codec decodes into the caller's memory. The size of that memory follows from the array's
//! metadata, and the codec never writes past it, whatever the stored bytes claim.
//!
//! One file holds one codec: its configuration in Zarr v2 and v3 JSON, decoding, encoding, its unit
//! tests. [`registry`] finds codecs by name, and [`hdf5`] finds HDF5's filters by number.
//! [`CodecChain`] runs several codecs in a row. [`AnyCodec`] lists the three kinds of codecs.
//!
//! A codec knows no store and no array.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod blosc;
mod bytes;
mod bz2;
mod cast_value;
mod chain;
mod crc32c;
mod decode_bounded;
mod deflate;
mod dtype;
mod error;
mod fletcher32;
mod gzip;
pub mod hdf5;
mod jenkins;
mod kind;
mod lz4;
mod lzma;
mod numbers;
mod numcodecs;
mod objects;
mod optional;
mod packbits;
mod pcodec;
mod racing;
pub mod registry;
mod reshape;
pub mod room;
mod scalar;
mod scale_offset;
mod scratch;
mod shuffle;
#[cfg(test)]
mod testing;
mod transpose;
mod user_codecs;
mod walk;
mod zfp;
mod zfpy;
mod zlib;
mod zstd;

pub use blosc::{Blosc, BloscCompressor, BloscShuffle};
pub use bytes::BytesCodec;
pub use chain::CodecChain;
pub use crc32c::Crc32c;
pub use decode_bounded::{
    check_vlen_limit, decode_bounded, encode_any, set_vlen_chunk_bound, vlen_chunk_bound, vlen_limit,
};
pub use dtype::{ByteOrder, DataType, Kind, TimeUnit};
pub use error::{CodecError, Result};
pub use gzip::Gzip;
pub use jenkins::lookup3;
pub use kind::{AnyCodec, ArrayCodecs, ArrayToArray, ArrayToBytes, ChunkCodecs, Context};
pub use lz4::Lz4;
pub use numbers::half::Half;
pub use numbers::small::{SMALL, SmallBits, SmallNumber, Special};
pub use objects::heap::{Cell, Heap, HeapAllocator, HeapBuffer, HeapMemory};
pub use objects::json_text::{compact_json, json_items};
pub use objects::message_pack;
pub use objects::vlen::{Vlen, VlenKind};
pub use racing::Racing;
pub use scalar::python_float;
pub use scratch::Scratch;
pub use transpose::Transpose;
pub use zlib::Zlib;
pub use zstd::Zstd;

use serde_json::Value;
use std::fmt::Debug;
use std::ops::Range;

/// How much of an encoded chunk must be decoded to get a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All of it.
    Whole,
    /// Everything up to the part's end, and at most 128 KiB more.
    Prefix,
    /// Only the blocks that the part touches: they are independent.
    Blocks,
    /// Only the part itself.
    Bytes,
}

/// A codec as it runs: from one buffer of bytes to another.
///
/// Bytes-to-bytes codecs (compressors, checksums, shuffles) are only this. Codecs that encode
/// arrays are also [`ArrayToArray`] or [`ArrayToBytes`].
///
/// Implementations keep no state between calls; contexts and buffers worth reusing are in
/// [`Scratch`]. `Debug` prints everything that decoding depends on: codecs that print alike decode
/// the same bytes alike.
pub trait Codec: Debug + Send + Sync {
    /// The name in messages and in `explain`: `"zstd"`.
    fn name(&self) -> &'static str;

    /// Decodes all of `src` into the front of `dst` and returns the number of decoded bytes.
    ///
    /// `dst` has the largest allowed size. A stream that decodes to more is an error
    /// ([`CodecError::Size`]). A stream that is truncated, corrupt, or followed by other bytes is
    /// an error too. After an error the content of `dst` is unspecified.
    fn decode(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch) -> Result<usize>;

    /// Decodes at least the bytes `wanted` of the decoded chunk into their places in `dst`.
    ///
    /// `dst` is as long as the decoded chunk; afterwards the content of the rest is unspecified.
    /// [`Codec::reach`] says how much work this saves.
    ///
    /// Bytes that are not decoded are not checked: checksums that compressors put after the
    /// content, and damage after `wanted`, may go unnoticed. Damage before the end of `wanted` is
    /// an error if the format itself shows it, and so is a stream known to decode to another size
    /// than `dst`'s. `wanted` past the end of `dst` fails with [`CodecError::Size`].
    fn decode_part(
        &self,
        src: &[u8],
        wanted: Range<usize>,
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let size = dst.len();
        if wanted.end > size {
            return Err(CodecError::size(self.name(), size, wanted.end));
        }
        match self.decode_range(src, wanted, dst, scratch)? {
            found if found == size => Ok(()),
            found => Err(CodecError::size(self.name(), size, found)),
        }
    }

    /// Does the work of [`Codec::decode_part`], with `wanted` inside `dst`.
    ///
    /// Returns how many bytes the chunk decodes to, or `dst.len()` if that is not known yet. The
    /// default decodes everything.
    fn decode_range(
        &self,
        src: &[u8],
        wanted: Range<usize>,
        dst: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<usize> {
        let _ = wanted;
        self.decode(src, dst, scratch)
    }

    /// Encodes `src` into `dst`, which is cleared first; its capacity is reused.
    ///
    /// `src` may change meanwhile if [`Codec::racing`] says that the encoder can bear it. The
    /// default fails: most filters of HDF5 only decode.
    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        let _ = (src, dst, scratch);
        Err(CodecError::encode(self.name(), "this HDF5 filter cannot be written"))
    }

    /// How [`Codec::encode`] behaves when another thread changes its input meanwhile.
    ///
    /// The default is safe for every encoder. [`Racing::Mixes`] saves a copy, but needs a proof.
    fn racing(&self) -> Racing {
        Racing::NeedsCopy
    }

    /// The most bytes that [`Codec::encode`] and other valid encoders make of `decoded` bytes.
    ///
    /// Stored objects may not be larger: this bounds the bytes that are read into memory. The bound
    /// must never be too small. It is generous, because other encoders frame differently, and
    /// saturates. The default is right for compressors.
    fn max_encoded(&self, decoded: usize) -> usize {
        chain::generous_bound(decoded)
    }

    /// `true` if decoding changes nothing: encoding rounds values, and keeps the size of the data.
    ///
    /// Readers then skip the codec.
    fn only_rounds(&self) -> bool {
        false
    }

    /// For codecs that only frame the bytes (checksums): checks the frame and returns the payload.
    ///
    /// This saves the copy of [`Codec::decode`]. `verify: false` skips the checksum. Returns `None`
    /// if the codec transforms the bytes.
    fn unframe<'a>(&self, src: &'a [u8], verify: bool) -> Option<Result<&'a [u8]>> {
        let _ = (src, verify);
        None
    }

    /// How much of an encoded chunk must be decoded to get a part of it.
    fn reach(&self) -> Reach {
        Reach::Whole
    }

    /// Fails if a setting is out of range, so that the encoder uses the nearest valid one.
    ///
    /// For codecs that a user chooses. Metadata may have any setting, as with numcodecs.
    fn check_settings(&self) -> Result<()> {
        self.check_encoder()
    }

    /// Fails if the codec can only decode: the encoder lacks the level, or there is no encoder.
    ///
    /// [`Codec::encode`] then fails too.
    fn check_encoder(&self) -> Result<()> {
        Ok(())
    }

    /// The other language that runs the codec, such as `"Python"`.
    ///
    /// `explain` shows these codecs, because they are slow.
    fn runs_in(&self) -> Option<&'static str> {
        None
    }

    /// The Zarr v3 metadata object, `{"name": …, "configuration": {…}}`.
    ///
    /// `None` if v3 has no such codec.
    fn to_v3(&self) -> Option<Value> {
        None
    }

    /// The Zarr v2 (numcodecs) metadata object, `{"id": …, …}`, or `None` if v2 has no such codec.
    fn to_v2(&self) -> Option<Value> {
        None
    }
}

/// The first `len` bytes of `dst`. Fails with [`CodecError::Size`] if it is shorter.
fn front<'d>(codec: &'static str, dst: &'d mut [u8], len: usize) -> Result<&'d mut [u8]> {
    let room = dst.len();
    dst.get_mut(..len).ok_or(CodecError::size(codec, room, len))
}

/// Implements [`Codec::decode`] for bytes that are stored unchanged.
fn copy_front(codec: &'static str, src: &[u8], dst: &mut [u8]) -> Result<usize> {
    front(codec, dst, src.len())?.copy_from_slice(src);
    Ok(src.len())
}
