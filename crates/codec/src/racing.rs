//! Encoding from memory that other threads may change meanwhile.
//!
//! A chunk is encoded from the memory of the program that writes it, and other threads of that
//! program may change it meanwhile. The encoder must still stay within its memory, and the chunk
//! must decode to the right number of bytes. Its values are unspecified: old and new ones, and with
//! a compressor also bytes from another place that were equal at some moment.
//!
//! These encoders need a copy:
//!
//! * `gzip`, `zlib` (libdeflate 1.26): `deflate_flush_block` counts literals, then writes them
//!   without checking bounds. The CRC-32 or Adler-32 reads all bytes once more.
//! * `zstd` with checksum (zstd 1.5.7): `ZSTD_compressContinue_internal` reads the input for the
//!   checksum separately (`XXH64_update`), so decoders would refuse the frame.
//! * All filters that are only read: they have no encoder yet.
//!
//! These encoders mix old and new values:
//!
//! * `zstd`, also in `blosc` (zstd 1.5.7): `ZSTD_count` stops at the end of the block, so sequences
//!   fit in any case. `ZSTD_storeSeq` copies literals; the entropy coders count and write the copy.
//! * `lz4`, also in `blosc` (lz4 1.10): a match is 4 bytes plus the result of `LZ4_count`, so the
//!   output always stays within `LZ4_compressBound`. Candidates come from the encoder's own table.
//! * `lz4hc` in `blosc` (lz4 1.10): it gets less room than the bound, so `LZ4HC_encodeSequence`
//!   checks each write. `LZ4_count` and `LZ4HC_countPattern` stop at the end of the block.
//! * `zlib` in `blosc` (libdeflate 1.26): a block that no shuffle has copied is copied first
//!   (`blosc/encode.rs`).
//! * `blosclz` in `blosc`, `lzf` (ours, safe Rust): every index is checked. Only hashes are indices
//!   made from input bytes, and these are shifted into range.
//! * `blosc` itself, `shuffle`, `transpose`, `bytes` (ours): they move bytes and do not look at them.
//! * `delta`, `fixedscaleoffset`, `quantize`, `astype`, `bitround`, `scale_offset`, `cast_value`
//!   (ours): they copy a block, and compute on the copy (`number.rs`). `packbits` (both, ours)
//!   reads each bool once; the size of its output does not depend on the elements.
//! * `crc32c`, `fletcher32` (ours): they copy bytes and sum the copy.
//! * `vlen-utf8`, `vlen-bytes`, `vlen-array` (ours): the input is cells, which refer to the
//!   engine's own copy.
//!
//! Before adding a codec or updating a C library, look for encoder decisions that are made on one
//! read of a byte and relied on after another read. Add the codec to the test below, and run
//! `make sanitize`.

/// The effect of another thread changing the input of [`Codec::encode`](crate::Codec::encode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Racing {
    /// The chunk decodes, to unspecified values. The encoder never relies on an earlier read of the
    /// same byte.
    Mixes,
    /// Anything may happen: the encoder may overrun its output, or store a checksum of other bytes
    /// than it stores.
    ///
    /// [`CodecChain::encode_lent`](crate::CodecChain::encode_lent) therefore gives it a private
    /// copy of its input.
    NeedsCopy,
}

#[cfg(test)]
mod tests {
    use crate::{
        Blosc, BloscCompressor, BloscShuffle, Codec, CodecChain, Gzip, Lz4, Scratch, Zlib, Zstd, hdf5,
    };
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
    use std::time::{Duration, Instant};

    /// Two contents that libdeflate codes very differently: bytes that are rare in one fill the
    /// other. Between them, text that matches itself.
    fn contents() -> [Vec<u8>; 3] {
        const LEN: usize = 60_000;
        let mut rare: Vec<u8> = crate::testing::noise(LEN, 1).iter().map(|byte| byte % 113).collect();
        (0..16).for_each(|i| rare[3000 * i + 17] = 240 + i as u8);
        let frequent = crate::testing::noise(LEN, 2).iter().map(|byte| 240 + byte % 16).collect();
        let text = b"hyperslab, ".iter().copied().cycle().take(LEN).collect();
        [rare, frequent, text]
    }

    fn codecs() -> Vec<Arc<dyn Codec>> {
        let mut all = crate::testing::chain("lz4 crc32c crc32c-start");
        all.push(Arc::new(Lz4 { acceleration: 9 }));
        // The HDF5 filters that encode: shuffle, fletcher32, lzf.
        all.extend([2, 3, 32000].map(|id| hdf5::filter(id, &[4], 4, 60_000).unwrap()));
        for level in [0, 1, 6, 9] {
            all.push(Arc::new(Gzip { level }));
            all.push(Arc::new(Zlib { level }));
        }
        for level in [-5, 1, 3, 5, 9, 13, 16, 19] {
            all.push(Arc::new(Zstd { level, checksum: false }));
            all.push(Arc::new(Zstd { level, checksum: true }));
        }
        use BloscCompressor::{BloscLz, Lz4 as BloscLz4, Lz4hc, Zlib as BloscZlib, Zstd as BloscZstd};
        for compressor in [BloscLz, BloscLz4, Lz4hc, BloscZlib, BloscZstd] {
            let (none, bit) = (BloscShuffle::None, BloscShuffle::Bit);
            for (level, shuffle) in [(0, none), (1, none), (9, none), (5, bit)] {
                all.push(Arc::new(Blosc::new(compressor, level, shuffle, 4, 0).unwrap()));
            }
        }
        all
    }

    /// Each chunk that is encoded while another thread changes it decodes again.
    #[test]
    fn chunks_encoded_from_changing_memory_decode() {
        // ThreadSanitizer would report the race that this test creates.
        if std::env::var_os("HYPERSLAB_NO_RACES").is_some() {
            return;
        }
        let contents = contents();
        let shared: Vec<AtomicU8> = contents[0].iter().map(|byte| AtomicU8::new(*byte)).collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for content in &contents {
                        for (place, byte) in shared.iter().zip(content) {
                            place.store(*byte, Ordering::Relaxed);
                        }
                        std::thread::sleep(Duration::from_micros(150));
                    }
                }
            });
            let result = std::panic::catch_unwind(|| encode_all(&shared));
            stop.store(true, Ordering::Relaxed);
            if let Err(panic) = result {
                std::panic::resume_unwind(panic);
            }
        });
    }

    fn encode_all(shared: &[AtomicU8]) {
        // SAFETY: the memory stays valid. It changes meanwhile, which is the purpose of the test:
        // callers of the engine can do this to it.
        let lent: &[u8] = unsafe { std::slice::from_raw_parts(shared.as_ptr().cast(), shared.len()) };
        let (mut scratch, mut stored, mut out) = (Scratch::default(), Vec::new(), vec![0; lent.len()]);
        for codec in codecs() {
            let chain = CodecChain::new(vec![codec], lent.len());
            let until = Instant::now() + Duration::from_millis(60);
            while Instant::now() < until {
                chain.encode_lent(lent, &mut stored, &mut scratch).unwrap();
                if let Err(error) = chain.decode(&stored, &mut out, &mut scratch, true) {
                    panic!("{:?}: {error}", chain.codecs());
                }
            }
        }
    }
}
