//! Several codecs in a row, bound to the size of the chunk that they decode to.
//!
//! Metadata lists codecs in the order of encoding; decoding runs the list backwards. Only the
//! decoded size of the whole chain is known exactly. The bytes between two codecs are at most the
//! [`Codec::max_encoded`] of the earlier one, so they go through a buffer of that size. The first
//! codec of the list decodes straight into the caller's memory.
//!
//! If elements have variable length, the decoded size of the first codec is unknown. Buffers then
//! grow as needed ([`crate::decode_bounded`]).

use crate::decode_bounded::decode_bounded;
use crate::walk::{self, Between, Output, first_name, peel};
use crate::{Codec, CodecError, Heap, Reach, Result, Scratch, Vlen};
use std::ops::Range;
use std::sync::Arc;

/// The codecs that run, in the order of encoding, and the size of a decoded chunk.
#[derive(Clone, Debug)]
pub struct CodecChain {
    /// If elements have variable length, the first codec is theirs.
    codecs: Vec<Arc<dyn Codec>>,
    vlen: Option<Vlen>,
    /// `sizes[i]`: the most bytes that the first `i` codecs make of a chunk. `sizes[0]` is the
    /// decoded size.
    sizes: Vec<usize>,
    only_frames: bool,
    /// How many codecs, from the first, only round and have nothing to decode.
    rounding: usize,
}

impl CodecChain {
    /// Binds codecs, in the order of encoding, to chunks of `decoded_size` bytes.
    pub fn new(codecs: Vec<Arc<dyn Codec>>, decoded_size: usize) -> Self {
        let mut sizes = vec![decoded_size];
        let mut size = decoded_size;
        for codec in &codecs {
            size = codec.max_encoded(size);
            sizes.push(size);
        }
        let only_frames = codecs.iter().all(|codec| codec.unframe(&[], false).is_some());
        let rounding = codecs.iter().take_while(|codec| codec.only_rounds()).count();
        CodecChain { codecs, vlen: None, sizes, only_frames, rounding }
    }

    /// The chain for elements of variable length: their codec, then `codecs`.
    ///
    /// It is bound to chunks whose cells take `decoded_size` bytes.
    pub fn of_vlen(vlen: Vlen, codecs: Vec<Arc<dyn Codec>>, decoded_size: usize) -> Self {
        let first: Arc<dyn Codec> = Arc::new(vlen.clone());
        let codecs = std::iter::once(first).chain(codecs).collect();
        CodecChain { vlen: Some(vlen), ..CodecChain::new(codecs, decoded_size) }
    }

    /// The chain for chunks that skipped some codecs: bit `i` of `skipped` is codec `i`.
    ///
    /// This is HDF5's filter mask. Bits beyond the chain mean nothing. The decoded size stays, so a
    /// codec that changes the size, such as a conversion of elements, must not be skipped.
    pub fn without_codecs(&self, skipped: u32) -> CodecChain {
        let left_out =
            |i: usize| u32::try_from(i).ok().and_then(|i| skipped.checked_shr(i)).unwrap_or(0) & 1 == 1;
        let codecs = self.codecs.iter().enumerate().filter(|(i, _)| !left_out(*i));
        let vlen = self.vlen.clone().filter(|_| !left_out(0));
        let codecs = codecs.map(|(_, codec)| codec.clone()).collect();
        CodecChain { vlen, ..CodecChain::new(codecs, self.decoded_size()) }
    }

    /// The codec of elements of variable length, or `None` if all elements have one size.
    pub fn vlen(&self) -> Option<&Vlen> {
        self.vlen.as_ref()
    }

    /// The same chain for elements of variable length whose bytes are in `heap`.
    ///
    /// Returns `None` if elements have one size.
    pub fn bound(&self, heap: &Arc<Heap>) -> Option<CodecChain> {
        let vlen = self.vlen()?.bound(heap);
        let mut chain = self.clone();
        *chain.codecs.first_mut()? = Arc::new(vlen);
        Some(chain)
    }

    /// The codecs in the order of encoding.
    pub fn codecs(&self) -> &[Arc<dyn Codec>] {
        &self.codecs
    }

    /// `true` if there are no codecs.
    pub fn is_identity(&self) -> bool {
        self.codecs.is_empty()
    }

    /// `true` if stored bytes are decoded bytes: there are no codecs, or they only round.
    pub fn stores_decoded(&self) -> bool {
        self.rounding == self.codecs.len()
    }

    /// The codecs that decode something, in the order of encoding, and their part of `sizes`.
    fn decoders(&self) -> (&[Arc<dyn Codec>], &[usize]) {
        let behind = (self.codecs.get(self.rounding..), self.sizes.get(self.rounding..));
        (behind.0.unwrap_or_default(), behind.1.unwrap_or_default())
    }

    /// `true` if all codecs, possibly zero, only frame the bytes (checksums).
    ///
    /// The decoded bytes are then a range of the stored bytes.
    pub fn only_frames(&self) -> bool {
        self.only_frames
    }

    /// Bytes of a decoded chunk.
    pub fn decoded_size(&self) -> usize {
        self.sizes.first().copied().unwrap_or_default()
    }

    /// The most bytes that a stored chunk may have.
    pub fn max_encoded(&self) -> usize {
        self.sizes.last().copied().unwrap_or_default()
    }

    /// Decodes a stored chunk into `dst`, which has exactly [`CodecChain::decoded_size`] bytes.
    ///
    /// Fails if the chunk decodes to more or fewer bytes. `verify: false` skips checksums that are
    /// codecs of their own. After an error the content of `dst` is unspecified.
    pub fn decode(&self, src: &[u8], dst: &mut [u8], scratch: &mut Scratch, verify: bool) -> Result<()> {
        self.decode_part(src, 0..dst.len(), dst, scratch, verify)
    }

    /// How little of a stored chunk [`CodecChain::decode_part`] has to decode to get a part.
    pub fn reach(&self) -> Reach {
        match self.decoders().0.first() {
            Some(codec) if !self.only_frames => codec.reach(),
            _ => Reach::Bytes,
        }
    }

    /// Decodes at least the bytes `wanted` of a chunk into their places in `dst`.
    ///
    /// `dst` has exactly [`CodecChain::decoded_size`] bytes; afterwards the content of the rest is
    /// unspecified. Checksums that are codecs of their own are verified over all of `src`, unless
    /// `verify` is `false`. [`Codec::decode_part`] says which other checks are skipped.
    pub fn decode_part(
        &self,
        src: &[u8],
        wanted: Range<usize>,
        dst: &mut [u8],
        scratch: &mut Scratch,
        verify: bool,
    ) -> Result<()> {
        if dst.len() != self.decoded_size() {
            return Err(CodecError::size("destination", self.decoded_size(), dst.len()));
        }
        if wanted.end > dst.len() {
            return Err(CodecError::size(first_name(&self.codecs), dst.len(), wanted.end));
        }
        let (codecs, sizes) = self.decoders();
        let between = match self.vlen {
            None => Between::Sizes(sizes),
            Some(_) => Between::Vlen(sizes),
        };
        walk::decode(codecs, between, src, Output::Part(dst, wanted), scratch, verify)
    }

    /// Decodes a chunk that may end early, and fills the rest of `dst` with zeros.
    ///
    /// Fails with [`CodecError::Size`] if there are fewer than `wanted` bytes. `dst` has exactly
    /// [`CodecChain::decoded_size`] bytes. `verify` works as in [`CodecChain::decode`].
    pub fn decode_front(
        &self,
        src: &[u8],
        wanted: usize,
        dst: &mut [u8],
        scratch: &mut Scratch,
        verify: bool,
    ) -> Result<()> {
        let mut front = Vec::new();
        decode_bounded(&self.codecs, src, self.decoded_size(), &mut front, scratch, verify)?;
        match dst.split_at_mut_checked(front.len()) {
            Some((there, missing)) if front.len() >= wanted => {
                there.copy_from_slice(&front);
                missing.fill(0);
                Ok(())
            }
            _ => Err(CodecError::size(first_name(&self.codecs), self.decoded_size(), front.len())),
        }
    }

    /// The decoded bytes as a range of the stored ones, of exactly the decoded size.
    ///
    /// Returns `None` unless the chain [only frames](CodecChain::only_frames). `verify: false`
    /// skips the checksums.
    pub fn payload<'a>(&self, src: &'a [u8], verify: bool) -> Option<Result<&'a [u8]>> {
        self.only_frames.then(|| match peel(&self.codecs, src, verify)? {
            (_, input) if input.len() == self.decoded_size() => Ok(input),
            (_, input) => Err(CodecError::size(first_name(&self.codecs), self.decoded_size(), input.len())),
        })
    }

    /// Encodes a chunk of exactly the decoded size into `dst`.
    ///
    /// `dst` is cleared first; its capacity is reused. No other thread may change `src` meanwhile.
    /// If one may, use [`CodecChain::encode_lent`].
    pub fn encode(&self, src: &[u8], dst: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        self.check_size(src)?;
        walk::encode(&self.codecs, self.vlen.is_some(), src, dst, scratch)
    }

    /// [`CodecChain::encode`] from memory that other threads may change meanwhile.
    ///
    /// The stored chunk then decodes to a mixture of old and new values. An encoder that could fail
    /// because of such a change ([`Codec::racing`]) gets a private copy.
    pub fn encode_lent(&self, src: &[u8], dst: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        self.check_size(src)?;
        walk::encode_lent(&self.codecs, self.vlen.is_some(), src, dst, scratch)
    }

    fn check_size(&self, src: &[u8]) -> Result<()> {
        if src.len() == self.decoded_size() {
            return Ok(());
        }
        let why = format!("expected a chunk of {} bytes, found {} bytes", self.decoded_size(), src.len());
        Err(CodecError::Encode { codec: first_name(&self.codecs), why })
    }
}

/// The error for a stream that decodes to more than the room. How much more is unknown.
pub(crate) fn too_large(codec: &'static str, room: usize) -> CodecError {
    CodecError::Size { codec, expected: room as u64, found: room as u64 + 1 }
}

/// [`Codec::max_encoded`] of compressors. A good encoder adds less than 1 % to bytes that it cannot
/// compress. A quarter leaves room for small blocks, many frames and long headers. The bound only
/// has to stop absurd objects from being read.
pub(crate) fn generous_bound(decoded: usize) -> usize {
    const HEADERS: usize = 128 << 10;
    decoded.saturating_add(decoded / 4).saturating_add(HEADERS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::CODECS;
    use crate::testing::{self, noise, samples};
    use crate::{Cell, Context};
    use serde_json::{Value, json};

    fn chain(names: &str, size: usize) -> CodecChain {
        CodecChain::new(testing::chain(names), size)
    }

    /// A chain, and some bytes encoded with it.
    fn encoded(names: &str, data: &[u8]) -> (CodecChain, Vec<u8>) {
        let (chain, mut stored) = (chain(names, data.len()), b"old content".to_vec());
        chain.encode(data, &mut stored, &mut Scratch::default()).unwrap();
        (chain, stored)
    }

    /// More bytes than the compressors decode at once.
    fn noise_and_zeros() -> Vec<u8> {
        [noise(200_000, 1), vec![0; 200_000], noise(1000, 2)].concat()
    }

    const CHAINS: [&str; 10] = [
        "",
        "zstd",
        "crc32c",
        "crc32c crc32c-start",
        "zstd crc32c",
        "crc32c gzip",
        "gzip zstd crc32c",
        "zstd lz4",
        "lz4 zstd gzip zlib",
        "crc32c-start lz4 crc32c crc32c zstd gzip crc32c",
    ];

    #[test]
    fn round_trips() {
        let mut scratch = Scratch::default();
        for names in CHAINS {
            for data in samples() {
                let (chain, stored) = encoded(names, &data);
                assert!(stored.len() <= chain.max_encoded());
                let mut out = vec![0xA5; data.len()];
                chain.decode(&stored, &mut out, &mut scratch, true).unwrap();
                assert!(out == data, "{names:?}, {} bytes", data.len());
                match chain.payload(&stored, true) {
                    Some(payload) => assert!(payload.unwrap() == data),
                    None => assert!(!chain.only_frames()),
                }
            }
        }
    }

    #[test]
    fn parts_are_parts_of_the_whole() {
        let mut scratch = Scratch::default();
        let data = noise_and_zeros();
        for names in CHAINS {
            let (chain, stored) = encoded(names, &data);
            for wanted in [0..0, 0..1, 1000..2000, 0..200_000, 399_000..data.len(), 0..data.len()] {
                let mut out = vec![0xA5; data.len()];
                chain.decode_part(&stored, wanted.clone(), &mut out, &mut scratch, true).unwrap();
                assert!(out[wanted.clone()] == data[wanted.clone()], "{names:?} {wanted:?}");
            }
            let mut out = vec![0; data.len()];
            for wanted in [0..data.len() + 1, usize::MAX..usize::MAX] {
                let error = chain.decode_part(&stored, wanted, &mut out, &mut scratch, true).unwrap_err();
                assert!(matches!(error, CodecError::Size { .. }), "{error}");
            }
            out.pop();
            assert!(chain.decode_part(&stored, 0..1, &mut out, &mut scratch, true).is_err());
        }
    }

    #[test]
    fn parts_verify_the_sum_of_all_stored_bytes() {
        let mut scratch = Scratch::default();
        let data = noise_and_zeros();
        let mut out = vec![0; data.len()];
        for names in ["zstd crc32c", "crc32c", "gzip crc32c-start"] {
            let (chain, mut stored) = encoded(names, &data);
            let at = stored.len() - 100;
            stored[at] ^= 1;
            let error = chain.decode_part(&stored, 5..100, &mut out, &mut scratch, true).unwrap_err();
            assert!(matches!(error, CodecError::Checksum { .. }), "{names:?}: {error}");
            chain.decode_part(&stored, 5..100, &mut out, &mut scratch, false).unwrap();
            assert!(out[5..100] == data[5..100], "{names:?}");
        }
    }

    #[test]
    fn reach() {
        for (reach, all) in [
            (Reach::Bytes, &["", "crc32c", "crc32c crc32c-start"][..]),
            (Reach::Prefix, &["zstd", "gzip crc32c", "zlib zstd", "lz4"]),
            (Reach::Blocks, &["blosc crc32c"]),
            // The checksum covers all decoded bytes.
            (Reach::Whole, &["crc32c zstd"]),
        ] {
            all.iter().for_each(|names| assert_eq!(chain(names, 100).reach(), reach, "{names}"));
        }
    }

    #[test]
    fn only_the_exact_size_decodes() {
        let mut scratch = Scratch::default();
        let data = vec![7; 1000];
        for names in CHAINS {
            let (_, mut stored) = encoded(names, &data);
            for size in [0, 1, 999, 1001, 5000] {
                let (other, mut out) = (chain(names, size), vec![0; size]);
                let error = other.decode(&stored, &mut out, &mut scratch, true).unwrap_err();
                assert!(matches!(error, CodecError::Size { .. }), "{names:?} {size}: {error}");
                assert!(!matches!(other.payload(&stored, true), Some(Ok(_))), "{names:?} {size}");
            }
            let mut out = vec![0; 999];
            assert!(chain(names, 1000).decode(&stored, &mut out, &mut scratch, true).is_err(), "{names:?}");
            assert!(chain(names, 999).encode(&data, &mut stored, &mut scratch).is_err(), "{names:?}");
        }
    }

    #[test]
    fn chunks_that_end_early() {
        let mut scratch = Scratch::default();
        let data = noise(1000, 3);
        for names in CHAINS {
            let (_, mut stored) = encoded(names, &data);
            let (longer, mut out) = (chain(names, 2500), vec![0xA5; 2500]);
            assert!(longer.decode(&stored, &mut out, &mut scratch, true).is_err());
            for wanted in [0, 1, 1000] {
                out.fill(0xA5);
                longer.decode_front(&stored, wanted, &mut out, &mut scratch, true).unwrap();
                assert!(out[..1000] == data && out[1000..].iter().all(|byte| *byte == 0), "{names:?}");
            }
            let error = longer.decode_front(&stored, 1001, &mut out, &mut scratch, true).unwrap_err();
            assert!(matches!(error, CodecError::Size { expected: 2500, found: 1000, .. }), "{error}");
            let error = chain(names, 999).decode_front(&stored, 1, &mut out[..999], &mut scratch, true);
            assert!(matches!(error, Err(CodecError::Size { .. })), "{error:?}");
            if names.ends_with("crc32c") {
                *stored.last_mut().unwrap() ^= 1;
                assert!(longer.decode_front(&stored, 1, &mut out, &mut scratch, true).is_err());
            }
        }
    }

    #[test]
    fn checksums_are_verified_unless_told_not_to() {
        let mut scratch = Scratch::default();
        let mut out = [0; 100];
        for names in ["crc32c", "zlib crc32c", "crc32c crc32c-start crc32c"] {
            let (chain, mut stored) = encoded(names, &[3; 100]);
            *stored.last_mut().unwrap() ^= 1;
            let error = chain.decode(&stored, &mut out, &mut scratch, true).unwrap_err();
            assert!(matches!(error, CodecError::Checksum { .. }), "{names:?}: {error}");
            chain.decode(&stored, &mut out, &mut scratch, false).unwrap();
            assert_eq!(out, [3; 100]);
        }
    }

    #[test]
    fn damage_gives_an_error_or_the_right_size() {
        let mut scratch = Scratch::default();
        let data: Vec<u8> = (0..300u32).map(|i| (i * i / 50) as u8).collect();
        let mut out = vec![0; data.len()];
        for names in CHAINS {
            let (chain, mut stored) = encoded(names, &data);
            for at in 0..stored.len() {
                let result = chain.decode(&stored[..at], &mut out, &mut scratch, true);
                assert!(result.is_err(), "{names:?} truncated to {at}");
                for flip in [1, 0x80, 0xff] {
                    stored[at] ^= flip;
                    let _ = chain.decode(&stored, &mut out, &mut scratch, true);
                    stored[at] ^= flip;
                }
            }
            chain.decode(&stored, &mut out, &mut scratch, true).unwrap();
            assert!(out == data, "the scratch still works after errors");
        }
    }

    #[test]
    fn an_intermediate_result_beyond_its_bound_is_refused() {
        // Zeros that decode to far more than zstd could have made of 100 bytes.
        let mut scratch = Scratch::default();
        let ((_, bomb), mut out) = (encoded("gzip", &vec![0; 10 << 20]), vec![0; 100]);
        let chain = chain("zstd gzip", 100);
        let error = chain.decode(&bomb, &mut out, &mut scratch, true).unwrap_err();
        assert!(matches!(error, CodecError::Size { codec: "gzip", .. }), "{error}");
        assert!(scratch.stages.iter().all(|stage| stage.len() < 1 << 20));
    }

    #[test]
    fn bounds() {
        let bound = |names, size| chain(names, size).max_encoded();
        assert_eq!(bound("", 100), 100);
        assert_eq!(bound("crc32c crc32c", 100), 108);
        assert_eq!(bound("zstd crc32c", 100), generous_bound(100) + 4);
        assert_eq!(bound("zstd gzip", 100), generous_bound(generous_bound(100)));
        assert_eq!(bound("zstd gzip crc32c", usize::MAX - 1), usize::MAX);
        assert!(chain("", 7).is_identity() && chain("", 7).only_frames());
        assert!(!chain("crc32c", 7).is_identity());
        assert_eq!(chain("crc32c zstd", 7).codecs().len(), 2);
    }

    #[test]
    fn rounding_takes_no_decoding() {
        let rounds = |settings: Value| {
            CODECS.from_v2(&settings, &Context::of_elements("<f4".parse().unwrap())).unwrap().codec().clone()
        };
        let bitround = || rounds(json!({"id": "bitround", "keepbits": 8}));
        let quantize =
            |astype: &str| rounds(json!({"id": "quantize", "digits": 1, "dtype": "<f4", "astype": astype}));
        let data: Vec<u8> = (0..1000).flat_map(|n| (n as f32).sqrt().to_le_bytes()).collect();
        let mut scratch = Scratch::default();
        for (codecs, decoded, reach) in [
            (vec![bitround()], true, Reach::Bytes),
            (vec![quantize("<f4"), bitround()], true, Reach::Bytes),
            (vec![quantize("<f8")], false, Reach::Whole),
            ([vec![bitround()], testing::chain("zstd")].concat(), false, Reach::Prefix),
        ] {
            let chain = CodecChain::new(codecs, data.len());
            assert_eq!((chain.stores_decoded(), chain.reach()), (decoded, reach), "{chain:?}");
            assert!(!chain.is_identity());
            let (mut stored, mut out) = (Vec::new(), vec![0; data.len()]);
            chain.encode(&data, &mut stored, &mut scratch).unwrap();
            chain.decode(&stored, &mut out, &mut scratch, true).unwrap();
            assert_eq!(out == stored, decoded);
            let near = |a: &[u8], b: &[u8]| {
                let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
                (number(a) - number(b)).abs() <= 0.1
            };
            assert!(out.chunks(4).zip(data.chunks(4)).all(|(a, b)| near(a, b)));
        }
    }

    #[test]
    fn codecs_left_out() {
        let names = |chain: &CodecChain| chain.codecs().iter().map(|codec| codec.name()).collect::<Vec<_>>();
        let whole = chain("zstd gzip crc32c", 1000);
        assert_eq!(names(&whole.without_codecs(0)), ["zstd", "gzip", "crc32c"]);
        assert_eq!(names(&whole.without_codecs(0b010)), ["zstd", "crc32c"]);
        assert_eq!(names(&whole.without_codecs(0b101)), ["gzip"]);
        assert_eq!(names(&whole.without_codecs(!0b111)), ["zstd", "gzip", "crc32c"]);
        assert!(whole.without_codecs(0b011).only_frames());
        assert!(whole.without_codecs(u32::MAX).is_identity());
        assert_eq!(whole.without_codecs(u32::MAX).max_encoded(), 1000);
        let many = chain(&"crc32c ".repeat(40), 10);
        assert_eq!(many.without_codecs(u32::MAX).codecs().len(), 8, "the mask has 32 bits");

        let ((_, stored), mut out, mut scratch) =
            (encoded("zstd crc32c", &[7; 1000]), [0; 1000], Scratch::default());
        whole.without_codecs(0b010).decode(&stored, &mut out, &mut scratch, true).unwrap();
        assert_eq!(out, [7; 1000]);
        assert!(whole.decode(&stored, &mut out, &mut scratch, true).is_err());
    }

    #[test]
    fn elements_of_variable_length() {
        // Texts that compress well, so that buffers grow several times.
        let texts: Vec<Vec<u8>> = (0..500).map(|n: usize| vec![b'a' + (n % 7) as u8; n * n % 1000]).collect();
        let (mut scratch, mut stored) = (Scratch::default(), Vec::new());
        for names in CHAINS {
            let vlen = Vlen::new(crate::VlenKind::Text, [].into());
            let unbound = CodecChain::of_vlen(vlen, testing::chain(names), 16 * texts.len());
            assert!(!unbound.only_frames() && unbound.reach() == Reach::Whole);
            assert!((u32::MAX as usize..=u32::MAX as usize * 4).contains(&unbound.max_encoded()));
            let heap = Arc::new(unbound.vlen().unwrap().heap());
            let chain = unbound.bound(&heap).unwrap();
            let buffer = heap.push(Arc::new(texts.concat())).unwrap();
            let cells = testing::cells(buffer, &texts);
            chain.encode(&cells, &mut stored, &mut scratch).unwrap();
            let mut out = vec![0xA5; cells.len()];
            for scratch in [&mut scratch, &mut Scratch::default()] {
                let again = Arc::new(unbound.vlen().unwrap().heap());
                unbound.bound(&again).unwrap().decode(&stored, &mut out, scratch, true).unwrap();
                for (text, cell) in texts.iter().zip(out.chunks(16)) {
                    let cell = Cell::read(cell.try_into().unwrap());
                    let bytes = again.buffers()[cell.buffer as usize].clone().unwrap();
                    let start = cell.offset as usize;
                    assert_eq!((*bytes).as_ref()[start..start + cell.len as usize], *text);
                }
            }
            for wrong in [0, 16, 15 * texts.len(), 17 * texts.len()] {
                let other = CodecChain::new(chain.codecs().to_vec(), wrong);
                assert!(other.decode(&stored, &mut vec![0; wrong], &mut scratch, true).is_err());
            }
            for at in (0..stored.len()).step_by(stored.len() / 100 + 1) {
                assert!(chain.decode(&stored[..at], &mut out, &mut scratch, true).is_err());
                stored[at] ^= 0x41;
                let _ = chain.decode(&stored, &mut out, &mut scratch, true);
                stored[at] ^= 0x41;
            }
            assert!(unbound.decode(&stored, &mut out, &mut scratch, true).is_err());
            assert!(unbound.encode(&cells, &mut stored, &mut scratch).is_err());
        }
        assert!(chain("zstd", 16).bound(&Arc::new(Heap::new(b""))).is_none());
    }
}
