//! The filters of HDF5, by their numbers in files.
//!
//! * Specification: HDF5 file format, IV.A.2.l "The Data Storage - Filter Pipeline Message";
//!   <https://github.com/HDFGroup/hdf5_plugins/blob/master/docs/RegisteredFilterPlugins.md>
//!
//! A filter comes with client data: 32-bit numbers from the library that wrote the file. Most
//! chunks record themselves how they were made; then the client data is ignored.
//!
//! All filters decode. Filters of new files also encode ([`encodes`]).

mod aec;
mod aec_encode;
mod bits;
mod bitshuffle;
pub(crate) mod blosc2;
#[cfg(test)]
mod fixtures;
mod lz4;
mod lzf;
mod nbit;
mod scale_offset;
mod szip;
mod zfp;

use crate::bz2::Bzip2;
use crate::fletcher32::Fletcher32;
use crate::shuffle::Shuffle;
use crate::{
    Blosc, BloscCompressor, BloscShuffle, ByteOrder, Codec, CodecError, Result, Scratch, Zlib, Zstd,
    copy_front,
};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A supported filter: its number, its name, and its constructor, which takes the client data, the
/// bytes of an element and the bytes of a chunk before the first filter.
type Filter = (u16, &'static str, fn(&[u32], usize, usize) -> Result<Arc<dyn Codec>>);

#[rustfmt::skip]
const SUPPORTED: &[Filter] = &[
    (1, "deflate", |data, _, _| Ok(Arc::new(Zlib { level: level(data, 0..=9, 6) }))),
    (2, "shuffle", |data, _, _| Ok(Arc::new(Shuffle::new(data)))),
    (3, "fletcher32", |_, _, _| Ok(Arc::new(Fletcher32))),
    (4, "szip", |data, _, _| Ok(Arc::new(szip::Szip::new(data)?))),
    (5, "nbit", |data, _, _| Ok(Arc::new(nbit::Nbit::new(data)?))),
    (6, "scaleoffset", |data, _, _| Ok(Arc::new(scale_offset::ScaleOffset::new(data)?))),
    (307, "bzip2", |data, _, _| Ok(Arc::new(Bzip2::new(data)))),
    (32000, "lzf", |_, _, _| Ok(Arc::new(lzf::Lzf))),
    (32001, "blosc", |data, element, _| Ok(Arc::new(blosc(data, element)?))),
    (32004, "lz4", |data, _, _| Ok(Arc::new(lz4::Lz4::new(data)))),
    (32008, "bitshuffle", |data, _, _| Ok(Arc::new(bitshuffle::Bitshuffle::new(data)?))),
    (32013, "zfp", |data, _, _| Ok(Arc::new(zfp::Zfp::new(data)?))),
    (32015, "zstd", |data, _, _| Ok(Arc::new(Zstd { level: level(data, -131_072..=22, 3), checksum: false }))),
    (32022, "bitgroom", |_, _, _| Ok(Arc::new(AsStored("bitgroom")))),
    (32023, "granularbr", |_, _, _| Ok(Arc::new(AsStored("granularbr")))),
    (32026, "blosc2", |data, _, chunk| Ok(Arc::new(blosc2::Blosc2::new(data, chunk)))),
];

/// The other registered filters.
const OTHERS: &[(u16, &str)] = &[
    (257, "hzip"),
    (258, "fpzip"),
    (305, "lzo"),
    (32002, "mafisc"),
    (32003, "snappy"),
    (32005, "apax"),
    (32006, "cbf"),
    (32007, "jpeg-xr"),
    (32009, "spdp"),
    (32010, "lpc-rice"),
    (32011, "ccsds-123"),
    (32012, "jpeg-ls"),
    (32014, "fpzip"),
    (32016, "b3d"),
    (32017, "sz"),
    (32018, "fcidecomp"),
    (32019, "jpeg"),
    (32020, "vbz"),
    (32021, "fapec"),
    (32024, "sz3"),
    (32025, "delta-rice"),
    (32027, "flac"),
    (32028, "sperr"),
    (32029, "terse"),
    (32030, "ffmpeg"),
];

/// The name of a filter, supported or not, or `None` if its number is not registered.
pub fn name(id: u16) -> Option<&'static str> {
    let supported = SUPPORTED.iter().map(|(number, name, _)| (number, *name));
    let mut all = supported.chain(OTHERS.iter().map(|(number, name)| (number, *name)));
    all.find(|(number, _)| **number == id).map(|(_, name)| name)
}

/// The codec of a filter.
///
/// Before the first filter, chunks have `chunk_bytes` bytes and elements have `element_size`. Fails
/// with [`CodecError::Unknown`] if the filter is not supported, and with [`CodecError::Config`] if
/// the client data is not valid.
pub fn filter(
    id: u16,
    client_data: &[u32],
    element_size: usize,
    chunk_bytes: usize,
) -> Result<Arc<dyn Codec>> {
    if let Some((_, _, make)) = SUPPORTED.iter().find(|(number, ..)| *number == id) {
        return make(client_data, element_size, chunk_bytes);
    }
    let name = match name(id) {
        Some(name) => format!("{name} (HDF5 filter {id})"),
        None => format!("HDF5 filter {id}"),
    };
    let supported: Vec<&str> = SUPPORTED.iter().map(|(_, name, _)| *name).collect();
    Err(CodecError::Unknown { name, supported: supported.join(", ") })
}

/// The filters that encode.
const ENCODED: [u16; 11] = [1, 2, 3, 4, 6, 307, 32000, 32001, 32004, 32008, 32015];

/// Returns `true` if the codec of a filter encodes.
pub fn encodes(id: u16) -> bool {
    ENCODED.contains(&id)
}

/// The compressors of blosc, by their numbers in its client data.
pub const BLOSC_COMPRESSORS: [BloscCompressor; 6] = [
    BloscCompressor::BloscLz,
    BloscCompressor::Lz4,
    BloscCompressor::Lz4hc,
    BloscCompressor::Snappy,
    BloscCompressor::Zlib,
    BloscCompressor::Zstd,
];

/// Reads blosc's settings. Only encoders use them: two versions, the bytes of an element and of a
/// chunk, the level, the shuffle and the compressor.
fn blosc(data: &[u32], element: usize) -> Result<Blosc> {
    let setting = |at: usize, default: u32| data.get(at).copied().unwrap_or(default);
    let compressor =
        BLOSC_COMPRESSORS.get(setting(6, 0) as usize).copied().unwrap_or(BloscCompressor::BloscLz);
    let shuffle = match setting(5, 1) {
        0 => BloscShuffle::None,
        2 => BloscShuffle::Bit,
        _ => BloscShuffle::Byte,
    };
    let level = u8::try_from(setting(4, 5)).unwrap_or(u8::MAX).min(9);
    Blosc::new(compressor, level, shuffle, element.max(1), 0)
}

/// A filter that rounded values before they were stored. Decoding has nothing to undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AsStored(&'static str);

impl Codec for AsStored {
    fn name(&self) -> &'static str {
        self.0
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _scratch: &mut Scratch) -> Result<usize> {
        copy_front(self.0, src, dst)
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded
    }

    fn only_rounds(&self) -> bool {
        true
    }

    fn unframe<'a>(&self, src: &'a [u8], _verify: bool) -> Option<Result<&'a [u8]>> {
        Some(Ok(src))
    }
}

/// A level, which only encoders use. If it is absent or out of range, it is the default.
fn level(client_data: &[u32], range: RangeInclusive<i32>, default: i32) -> i32 {
    client_data.first().map(|level| *level as i32).filter(|level| range.contains(level)).unwrap_or(default)
}

/// A number of the client data.
fn parameter(name: &str, client_data: &[u32], at: usize) -> Result<u32> {
    client_data.get(at).copied().ok_or_else(|| {
        CodecError::config(name, format!("expected more than {at} parameters, found {}", client_data.len()))
    })
}

/// All numbers of the client data. Fails unless there are exactly `N`.
fn exact_client_data<'a, const N: usize>(name: &str, client_data: &'a [u32]) -> Result<&'a [u32; N]> {
    let found = client_data.len();
    client_data
        .try_into()
        .map_err(|_| CodecError::config(name, format!("expected {N} parameters, found {found}")))
}

/// A byte order of the client data.
fn byte_order(name: &str, code: u32) -> Result<ByteOrder> {
    match code {
        0 => Ok(ByteOrder::Little),
        1 => Ok(ByteOrder::Big),
        other => Err(CodecError::config(name, format!("expected byte order 0 or 1, found {other}"))),
    }
}

/// Reads the header of chunks that consist of blocks.
///
/// The header is the decoded size (8 bytes) and the size of a block (4 bytes), both big-endian.
/// Returns the part of `dst` that the chunk decodes to, the size of a block, and the bytes after
/// the header.
fn sized_header<'d, 's>(
    codec: &'static str,
    src: &'s [u8],
    dst: &'d mut [u8],
) -> Result<(&'d mut [u8], usize, &'s [u8])> {
    let Some((&[s0, s1, s2, s3, s4, s5, s6, s7, b0, b1, b2, b3], rest)) = src.split_first_chunk() else {
        let why = format!("truncated: expected at least 12 bytes for the header, found {}", src.len());
        return Err(CodecError::corrupt(codec, why));
    };
    let (size, room) = (u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]), dst.len());
    let block_size = u32::from_be_bytes([b0, b1, b2, b3]) as usize;
    match usize::try_from(size).ok().and_then(|size| dst.get_mut(..size)) {
        Some(dst) => Ok((dst, block_size, rest)),
        None => Err(CodecError::Size { codec, expected: room as u64, found: size }),
    }
}

/// Takes a block from the front of `rest`. The number of its bytes (4 bytes, big-endian) stands
/// before it.
fn framed_block<'a>(codec: &'static str, rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let taken = rest
        .split_first_chunk()
        .and_then(|(len, rest)| rest.split_at_checked(u32::from_be_bytes(*len) as usize));
    let Some((block, behind)) = taken else {
        return Err(CodecError::corrupt(codec, format!("truncated in the last {} bytes", rest.len())));
    };
    *rest = behind;
    Ok(block)
}

/// Begins a chunk that consists of blocks: the mirror of [`sized_header`].
fn put_header(dst: &mut Vec<u8>, size: usize, block_size: usize) {
    dst.clear();
    dst.extend_from_slice(&(size as u64).to_be_bytes());
    dst.extend_from_slice(&u32::try_from(block_size).unwrap_or(u32::MAX).to_be_bytes());
}

/// Appends a block, which `put` appends, with its number of bytes before it.
fn put_block(codec: &'static str, dst: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>) -> bool) -> Result<()> {
    let start = dst.len();
    dst.extend_from_slice(&[0; 4]);
    let done = put(dst);
    let len = dst.len().checked_sub(start + 4).and_then(|len| u32::try_from(len).ok());
    match (done, len, dst.get_mut(start..start + 4)) {
        (true, Some(len), Some(place)) => {
            place.copy_from_slice(&len.to_be_bytes());
            Ok(())
        }
        _ => Err(CodecError::encode(codec, "a block could not be compressed")),
    }
}

#[cfg(test)]
pub(crate) mod tests;
