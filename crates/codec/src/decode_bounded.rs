//! Decodes bytes whose decoded size is not known exactly.
//!
//! These are shards that went through codecs as a whole, and chunks of elements of variable length.
//!
//! Memory grows with the true decoded size. Each step starts with room for four times its input, or
//! with all the room of its buffer, and doubles it while the codec reports that there is more.

use crate::walk::{self, Between, Output};
use crate::{Codec, CodecError, Result, Scratch, room};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The least initial room of a decoding step: 64 KiB, so that small chunks decode in one go.
const FIRST_ROOM: usize = 64 << 10;

/// Decodes `src` into `out`, which is cleared first, with codecs given in the order of encoding.
///
/// Fails with [`CodecError::Size`] if there are more than `limit` bytes. `verify: false` skips
/// checksums that are codecs of their own. After an error the content of `out` is unspecified.
pub fn decode_bounded(
    codecs: &[Arc<dyn Codec>],
    src: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
    verify: bool,
) -> Result<()> {
    out.clear();
    walk::decode(codecs, Between::Decoded(limit), src, Output::Growing(out, limit), scratch, verify)
}

/// Decodes into the front of a buffer that grows as needed, and returns the number of bytes.
///
/// The buffer grows to at most `bound` bytes. With `vlen`, for elements of variable length,
/// [`vlen_limit`] applies too.
pub(crate) fn decode_growing(
    codec: &dyn Codec,
    src: &[u8],
    bound: usize,
    vlen: bool,
    buf: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<usize> {
    let limit = if vlen { vlen_limit(src.len()) } else { usize::MAX };
    let most = bound.min(limit);
    // The buffer's existing room costs nothing, and lets the second of two similar chunks decode at
    // once.
    let mut room = src.len().saturating_mul(4).max(FIRST_ROOM).max(buf.len()).min(most);
    loop {
        match codec.decode(src, fresh(buf, room, codec.name())?, scratch) {
            // Some formats state the size. If the stated size is a lie, the room is never touched.
            Err(CodecError::Size { found, .. }) if room < most => {
                let found = usize::try_from(found).unwrap_or(usize::MAX);
                room = room.saturating_mul(2).max(found).min(most);
            }
            Err(CodecError::Size { .. }) if limit < bound => {
                let (codec, stored) = (codec.name(), src.len() as u64);
                return Err(CodecError::Expands { codec, stored, limit: limit as u64 });
            }
            result => return result,
        }
    }
}

/// See [`set_vlen_chunk_bound`].
static VLEN_CHUNK_BOUND: AtomicUsize = AtomicUsize::new(256 << 20);

/// A chunk may always decode to this many times its stored bytes. DEFLATE reaches 1032; other
/// compressors rarely shrink text more.
const EXPANSION: usize = 1032;

/// The decoded bytes allowed for a chunk of variable-length elements, whatever its stored size.
pub fn vlen_chunk_bound() -> usize {
    VLEN_CHUNK_BOUND.load(Relaxed)
}

/// Sets [`vlen_chunk_bound`].
///
/// Metadata does not give the size of such a chunk, and 128 KiB may decode to 4 GiB. Without a
/// bound, reading one element of a made-up chunk would take all memory. Chunks that decode to at
/// most 1032 times their stored bytes are always read.
pub fn set_vlen_chunk_bound(bytes: usize) {
    VLEN_CHUNK_BOUND.store(bytes, Relaxed);
}

/// The most bytes that one codec may decode `stored` bytes to if elements have variable length.
pub fn vlen_limit(stored: usize) -> usize {
    vlen_chunk_bound().max(stored.saturating_mul(EXPANSION))
}

/// Fails if a chunk of variable-length elements shrank so much that it could not be read again.
pub fn check_vlen_limit(codec: &'static str, decoded: usize, stored: usize) -> Result<()> {
    let limit = vlen_limit(stored);
    if decoded <= limit {
        return Ok(());
    }
    let why = format!(
        "{decoded} bytes are encoded to {stored} bytes, which reads decode to at most {limit} bytes: use \
         smaller chunks, or raise the setting `vlen_chunk_bound` (environment: HYPERSLAB_VLEN_CHUNK_BOUND)"
    );
    Err(CodecError::Encode { codec, why })
}

/// The first `len` bytes of a buffer, whose content is lost. The system maps new pages on first
/// touch, so unused room costs nothing.
fn fresh<'a>(buf: &'a mut Vec<u8>, len: usize, codec: &'static str) -> Result<&'a mut [u8]> {
    if buf.len() < len {
        *buf = Vec::new();
        *buf = room::zeros(len).ok_or_else(|| CodecError::memory(codec, len))?;
    }
    Ok(buf.get_mut(..len).unwrap_or_default())
}

/// Encodes bytes of any size into `dst`, with codecs given in the order of encoding.
///
/// `dst` is cleared first; its capacity is reused.
pub fn encode_any(
    codecs: &[Arc<dyn Codec>],
    src: &[u8],
    dst: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<()> {
    walk::encode(codecs, false, src, dst, scratch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, noise, samples};

    fn chains() -> impl Iterator<Item = Vec<Arc<dyn Codec>>> {
        [
            "",
            "crc32c",
            "zstd-sum",
            "blosc crc32c",
            "crc32c gzip",
            "lz4 crc32c zstd-sum zlib crc32c blosc gzip",
        ]
        .into_iter()
        .map(testing::chain)
    }

    #[test]
    fn round_trips_of_any_size() {
        let mut scratch = Scratch::default();
        let (mut stored, mut out) = (b"old".to_vec(), b"old".to_vec());
        for codecs in chains() {
            for data in samples() {
                encode_any(&codecs, &data, &mut stored, &mut scratch).unwrap();
                for limit in [data.len(), data.len() + 1, data.len() * 10 + 100_000, usize::MAX] {
                    decode_bounded(&codecs, &stored, limit, &mut out, &mut scratch, true).unwrap();
                    assert!(out == data, "{codecs:?}, {} bytes, limit {limit}", data.len());
                }
                if let Some(limit) = data.len().checked_sub(1) {
                    let error = decode_bounded(&codecs, &stored, limit, &mut out, &mut scratch, true);
                    assert!(matches!(error, Err(CodecError::Size { .. })), "{codecs:?} {limit}: {error:?}");
                }
            }
        }
    }

    #[test]
    fn memory_grows_with_the_bytes_not_with_the_limit() {
        let mut stored = Vec::new();
        let data = noise(100_000, 1);
        for codecs in chains() {
            let (mut scratch, mut out) = (Scratch::default(), Vec::new());
            encode_any(&codecs, &data, &mut stored, &mut scratch).unwrap();
            decode_bounded(&codecs, &stored, usize::MAX, &mut out, &mut scratch, true).unwrap();
            assert!(out.capacity() < 1 << 20, "{codecs:?}: {}", out.capacity());
            assert!(scratch.stages.iter().all(|stage| stage.capacity() < 1 << 20), "{codecs:?}");
        }
        // Decoding 100 MiB of zeros stops at the limit.
        let zstd = testing::chain("zstd");
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        encode_any(&zstd, &vec![0; 100 << 20], &mut stored, &mut scratch).unwrap();
        let error = decode_bounded(&zstd, &stored, 1 << 20, &mut out, &mut scratch, true).unwrap_err();
        assert!(matches!(error, CodecError::Size { expected: 0x10_0000, .. }), "{error}");
        assert!(out.capacity() <= 1 << 20);
    }

    /// A codec whose bytes claim a large size that they do not have.
    #[derive(Debug)]
    struct Liar;

    impl Codec for Liar {
        fn name(&self) -> &'static str {
            "liar"
        }
        fn decode(&self, _: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
            let claimed = 3 << 30;
            if dst.len() < claimed { Err(CodecError::size("liar", dst.len(), claimed)) } else { Ok(5) }
        }
    }

    #[test]
    fn room_that_is_not_needed_is_not_touched() {
        let (mut buf, mut scratch) = (Vec::new(), Scratch::default());
        assert_eq!(decode_growing(&Liar, b"", 4 << 30, false, &mut buf, &mut scratch).unwrap(), 5);
        assert_eq!(buf.len(), 3 << 30);
        let error = decode_growing(&Liar, b"", 2 << 30, false, &mut Vec::new(), &mut scratch).unwrap_err();
        assert!(matches!(error, CodecError::Size { .. }), "{error}");
        assert!(decode_growing(&Liar, b"", usize::MAX, false, &mut buf, &mut scratch).is_ok());
    }

    #[test]
    fn sums_and_damage() {
        let mut scratch = Scratch::default();
        let (mut stored, mut out) = (Vec::new(), Vec::new());
        for codecs in chains() {
            encode_any(&codecs, &[3; 1000], &mut stored, &mut scratch).unwrap();
            for at in 0..stored.len() {
                let cut = decode_bounded(&codecs, &stored[..at], 2000, &mut out, &mut scratch, true);
                assert!(cut.is_err() || codecs.is_empty(), "{codecs:?} cut to {at}");
                stored[at] ^= 0x41;
                let _ = decode_bounded(&codecs, &stored, 2000, &mut out, &mut scratch, true);
                stored[at] ^= 0x41;
            }
            decode_bounded(&codecs, &stored, 2000, &mut out, &mut scratch, true).unwrap();
            assert_eq!(out, [3; 1000]);
        }
        let crc = testing::chain("crc32c");
        encode_any(&crc, b"bytes", &mut stored, &mut scratch).unwrap();
        stored[0] = b'B';
        let error = decode_bounded(&crc, &stored, 99, &mut out, &mut scratch, true).unwrap_err();
        assert!(matches!(error, CodecError::Checksum { .. }), "{error}");
        decode_bounded(&crc, &stored, 99, &mut out, &mut scratch, false).unwrap();
        assert_eq!(out, b"Bytes");
    }
}
