//! Chunk codecs: stored bytes ⇄ elements.
//!
//! A codec decodes into memory that the caller owns, of the size that the array's metadata implies,
//! and writes not one byte more, whatever the stored bytes claim. One file holds one codec: its
//! configuration in Zarr v2 and v3 JSON, decoding, encoding, its unit tests. [`registry`] finds
//! codecs by name, [`hdf5`] the filters of HDF5 by number; [`CodecChain`] runs several in a row.
//! Codecs are of three kinds: [`AnyCodec`].
//!
//! A codec knows no store and no array.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod arithmetic;
mod as_type;
mod base64;
mod bitround;
mod blosc;
mod bounded;
mod bytes;
mod bz2;
mod cast_value;
mod categorize;
mod categorize_objects;
mod cell_buffers;
mod chain;
mod checksum;
mod crc32c;
mod deflate;
mod delta;
mod dtype;
mod elements;
mod error;
mod fixed_scale_offset;
mod fletcher32;
mod gzip;
mod half;
pub mod hdf5;
mod heap;
mod jenkins;
mod json2;
mod json_text;
mod kind;
mod low;
mod lz4;
mod lzma;
mod msgpack2;
mod number;
mod objects;
mod optional;
mod packbits;
mod packbools;
mod pcodec;
mod plain_objects;
mod prefix_sums;
mod quantize;
mod racing;
mod registered;
pub mod registry;
mod reshape;
pub mod room;
mod scalar;
mod scale_offset;
mod scratch;
mod shuffle;
mod small;
#[cfg(test)]
mod testing;
mod transpose;
mod vlen;
mod walk;
mod zfp;
mod zfpy;
mod zlib;
mod zstd;

pub use blosc::{Blosc, BloscCompressor, BloscShuffle};
pub use bounded::{
    check_vlen_limit, decode_bounded, encode_any, set_vlen_chunk_bound, vlen_chunk_bound, vlen_limit,
};
pub use bytes::BytesCodec;
pub use chain::CodecChain;
pub use crc32c::Crc32c;
pub use dtype::{ByteOrder, DataType, Kind, TimeUnit};
pub use error::{CodecError, Result};
pub use gzip::Gzip;
pub use heap::{Cell, Heap, HeapAllocator, HeapBuffer, HeapMemory};
pub use jenkins::lookup3;
pub use json_text::{compact_json, json_items};
pub use kind::{AnyCodec, ArrayCodecs, ArrayToArray, ArrayToBytes, ChunkCodecs, Context};
pub use lz4::Lz4;
pub use racing::Racing;
pub use scratch::Scratch;
pub use small::{SMALL, SmallBits, SmallNumber, Special};
pub use transpose::Transpose;
pub use vlen::{Vlen, VlenKind};
pub use zlib::Zlib;
pub use zstd::Zstd;

use serde_json::Value;
use std::fmt::Debug;
use std::ops::Range;

/// How little of an encoded chunk has to be decoded to get at a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All of it.
    Whole,
    /// Decoding can stop early: behind the part, and at most 128 KiB more.
    Prefix,
    /// Independent blocks.
    Blocks,
    /// Any byte.
    Bytes,
}

/// A codec as it runs: from one buffer of bytes to another. Codecs from bytes to bytes
/// (compressors, checksums, shuffles) are no more than this; those that encode arrays are also
/// [`ArrayToArray`] or [`ArrayToBytes`].
///
/// Implementations keep no state between calls; contexts and buffers that are worth reusing live in
/// [`Scratch`]. `Debug` prints all that decoding depends on: codecs that print alike make the same
/// of the same bytes.
pub trait Codec: Debug + Send + Sync {
    /// The name in messages and in `explain`: `"zstd"`.
    fn name(&self) -> &'static str;

    /// Decodes all of `src` into the front of `dst`; returns how many bytes that were.
    ///
    /// `dst` is as large as the result may be: a stream that decodes to more is an error
    /// ([`CodecError::Size`]), and so is one that is truncated, corrupt, or followed by bytes that
    /// do not belong to it. What `dst` holds after an error is unspecified.
    fn decode(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch) -> Result<usize>;

    /// Decodes at least the bytes `wanted` of the decoded chunk into their places in `dst`, which
    /// is as long as the decoded chunk. What the rest of `dst` holds afterwards is unspecified.
    /// [`Codec::reach`] says what this saves.
    ///
    /// What is not decoded is not checked: checksums of the content, which compressors put behind
    /// it, and damage behind `wanted`, may go unnoticed. Damage before the end of `wanted` that the
    /// format shows by itself is an error, and so is a stream that is known to decode to another
    /// size than that of `dst`. `wanted` beyond `dst` is [`CodecError::Size`].
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

    /// The work of [`Codec::decode_part`], where `wanted` lies within `dst`: returns how many bytes
    /// the chunk decodes to, or `dst.len()` if that is not known yet. The default decodes
    /// everything.
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
    /// `src` may change meanwhile where [`Codec::racing`] says that the encoder can bear it. The
    /// default refuses: most filters of HDF5 only decode.
    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        let _ = (src, dst, scratch);
        Err(CodecError::encode(self.name(), "this HDF5 filter cannot be written"))
    }

    /// What [`Codec::encode`] makes of input that another thread changes meanwhile. The default is
    /// safe for every encoder. [`Racing::Mixes`] saves a copy, and needs a proof.
    fn racing(&self) -> Racing {
        Racing::NeedsCopy
    }

    /// The most bytes that [`Codec::encode`] and other valid encoders make of `decoded` bytes. A
    /// stored object may be no larger: this bounds what is read into memory. Generous (other
    /// encoders frame differently), saturating, never less than right. The default is right for
    /// compressors.
    fn max_encoded(&self, decoded: usize) -> usize {
        chain::generous_bound(decoded)
    }

    /// Whether decoding changes nothing: encoding rounds values, and what is stored is as long as
    /// what is decoded. Readers then leave the codec out.
    fn only_rounds(&self) -> bool {
        false
    }

    /// For codecs that only frame the bytes (checksums): checks the frame (`verify: false` skips
    /// the sum) and gives the payload, which saves the copy of [`Codec::decode`]. `None`: this
    /// codec transforms the bytes.
    fn unframe<'a>(&self, src: &'a [u8], verify: bool) -> Option<Result<&'a [u8]>> {
        let _ = (src, verify);
        None
    }

    /// How little of an encoded chunk has to be decoded to get at a part of it.
    fn reach(&self) -> Reach {
        Reach::Whole
    }

    /// Fails where a setting is out of range, and the encoder takes the nearest one: as numcodecs does,
    /// whose metadata may have any. For codecs that a user chooses.
    fn check_settings(&self) -> Result<()> {
        self.check_encoder()
    }

    /// Fails where only decoding works: the encoder has no such level, or there is no encoder.
    /// [`Codec::encode`] fails too.
    fn check_encoder(&self) -> Result<()> {
        Ok(())
    }

    /// For codecs that another language runs: that language, `"Python"`. `explain` shows them,
    /// because they are slow.
    fn runs_in(&self) -> Option<&'static str> {
        None
    }

    /// The Zarr v3 metadata object, `{"name": …, "configuration": {…}}`; `None` where v3 has no
    /// such codec.
    fn to_v3(&self) -> Option<Value> {
        None
    }

    /// The Zarr v2 (numcodecs) metadata object, `{"id": …, …}`; `None` where v2 has no such codec.
    fn to_v2(&self) -> Option<Value> {
        None
    }
}

/// The first `len` bytes of the memory for a decoded chunk. [`CodecError::Size`] if it is shorter.
fn front<'d>(codec: &'static str, dst: &'d mut [u8], len: usize) -> Result<&'d mut [u8]> {
    let room = dst.len();
    dst.get_mut(..len).ok_or(CodecError::size(codec, room, len))
}

/// [`Codec::decode`] of bytes that are stored as they are.
fn copy_front(codec: &'static str, src: &[u8], dst: &mut [u8]) -> Result<usize> {
    front(codec, dst, src.len())?.copy_from_slice(src);
    Ok(src.len())
}
