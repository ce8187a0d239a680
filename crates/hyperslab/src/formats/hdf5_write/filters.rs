//! The filters of a dataset's chunks, for writing.
//!
//! An optional filter that fails is left out, and the chunk's mask says so, as in the HDF5 library.

use hyperslab_array::ChunkEncoding;
use hyperslab_codec::{CodecChain, CodecError, Scratch, hdf5};
use hyperslab_hdf5::{Dataset, Hdf5Error};

/// Filters that fail in the HDF5 library if a chunk does not become smaller: lzf, blosc.
const MUST_SHRINK: [u16; 2] = [32000, 32001];

/// The codecs of a chunk.
#[derive(Clone, Debug)]
pub(super) struct Filters {
    chain: CodecChain,
    /// Codecs before the filters.
    shift: usize,
    /// Number and name of each filter, and whether it is optional.
    filters: Vec<(u16, bool)>,
}

impl Filters {
    pub(super) fn new(dataset: &Dataset, encoding: &ChunkEncoding) -> Filters {
        let chain = encoding.chain().clone();
        let filters: Vec<_> = dataset.filters().iter().map(|filter| (filter.id, filter.optional)).collect();
        let shift = chain.codecs().len().saturating_sub(filters.len());
        Filters { chain, shift, filters }
    }

    /// Fails if a filter cannot be written.
    pub(super) fn check(&self, dataset: &Dataset) -> Result<(), Hdf5Error> {
        let refuse = |what: String| {
            let error = dataset.file().source().unsupported(what);
            Err(error.with_object_path(&format!("/{}", dataset.path())))
        };
        if let Some((id, _)) = self.filters.iter().find(|(id, _)| !hdf5::encodes(*id)) {
            let name = hdf5::name(*id).map_or_else(|| id.to_string(), str::to_owned);
            return refuse(format!("writing with the filter {name}"));
        }
        if self.chain.codecs().len() > 32 {
            return refuse("writing with more than 32 filters".into());
        }
        Ok(())
    }

    /// Bytes of a decoded chunk.
    pub(super) fn decoded_size(&self) -> usize {
        self.chain.decoded_size()
    }

    /// The most bytes that a stored chunk may have.
    pub(super) fn max_encoded(&self) -> usize {
        self.chain.max_encoded().max(self.chain.decoded_size())
    }

    /// A mask that skips all codecs: the bytes are a decoded chunk.
    pub(super) fn all_codecs(&self) -> u32 {
        let count = u32::try_from(self.chain.codecs().len()).unwrap_or(32);
        u32::MAX.checked_shr(32_u32.saturating_sub(count)).unwrap_or(0)
    }

    /// Turns a mask of filters into one of codecs.
    pub(super) fn codecs_of(&self, filters: u32) -> u32 {
        let all = self.filters.len().min(32);
        let known = u64::from(filters) & ((1_u64 << all) - 1);
        u32::try_from(known << self.shift.min(32)).unwrap_or(u32::MAX)
    }

    /// Encodes a chunk. Returns the mask of skipped filters.
    pub(super) fn encode(
        &self,
        chunk: &[u8],
        lent: bool,
        encoded: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<u32, CodecError> {
        if self.filters.iter().all(|(id, _)| !MUST_SHRINK.contains(id)) {
            let done = match lent {
                true => self.chain.encode_lent(chunk, encoded, scratch),
                false => self.chain.encode(chunk, encoded, scratch),
            };
            let can_skip = self.filters.iter().any(|(_, is_optional)| *is_optional);
            match done {
                Err(error) if can_skip && is_skipped(&error) => {}
                done => return done.map(|()| 0),
            }
        }
        // Other threads may change lent memory between two filters.
        encoded.clear();
        encoded.extend_from_slice(chunk);
        let (mut skipped, mut output) = (0, Vec::new());
        for (number, codec) in self.chain.codecs().iter().enumerate() {
            output.clear();
            let done = codec.encode(encoded, &mut output, scratch);
            let filter = number.checked_sub(self.shift).and_then(|at| Some((at, *self.filters.get(at)?)));
            match (filter, done) {
                (Some((at, (id, true))), Ok(()))
                    if MUST_SHRINK.contains(&id) && output.len() > encoded.len() =>
                {
                    skipped |= 1 << at.min(31);
                }
                (Some((at, (_, true))), Err(error)) if is_skipped(&error) => skipped |= 1 << at.min(31),
                (_, done) => {
                    done?;
                    std::mem::swap(encoded, &mut output);
                }
            }
        }
        Ok(skipped)
    }

    /// Decodes a stored chunk into `decoded`. Elements that its writer left out, beyond the end of
    /// the array, become zeros.
    pub(super) fn decode(
        &self,
        stored: &[u8],
        skipped: u32,
        decoded: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<(), CodecError> {
        let other = match self.codecs_of(skipped) {
            0 => None,
            codecs => Some(self.chain.without_codecs(codecs)),
        };
        let chain = other.as_ref().unwrap_or(&self.chain);
        match chain.decode(stored, decoded, scratch, true) {
            Err(CodecError::Size { expected, found, .. }) if found < expected => {
                chain.decode_front(stored, 0, decoded, scratch, true)
            }
            done => done,
        }
    }
}

/// Returns `true` if an optional filter with this error is left out. HDF5 2.0 does not configure the
/// filters of elements of variable length, so a shuffle for elements of 0 bytes fails there, too.
fn is_skipped(error: &CodecError) -> bool {
    matches!(error, CodecError::Encode { .. } | CodecError::Config { .. })
}
