//! Chunks with filters whose elements have addresses: they are decoded and encoded again.

use crate::filter::Filter;
use crate::{File, Result};
use hyperslab_codec::{Codec, CodecError, Scratch, decode_bounded, hdf5};
use std::sync::Arc;

/// Filters that fail in the HDF5 library if a chunk does not become smaller: lzf, blosc.
const MUST_SHRINK: [u16; 2] = [32000, 32001];

/// The filters of a dataset.
#[derive(Debug)]
pub(super) struct Filters {
    codecs: Vec<(Filter, Arc<dyn Codec>)>,
    /// Bytes of a chunk without filters.
    chunk: usize,
}

impl Filters {
    /// Fails with [`Hdf5Error::Unsupported`](crate::Hdf5Error::Unsupported) if a filter cannot be
    /// written.
    pub fn new(file: &File, filters: &[Filter], element: usize, chunk: usize) -> Result<Filters> {
        let codec = |filter: &Filter| {
            let refuse = |why: String| {
                let what = "compacting references or values of variable length in chunks with the filter";
                file.source().unsupported(format!("{what} {why}"))
            };
            let name = || hdf5::name(filter.id).map_or_else(|| filter.id.to_string(), str::to_owned);
            if !hdf5::encodes(filter.id) {
                return Err(refuse(name()));
            }
            let codec = hdf5::filter(filter.id, &filter.client_data, element, chunk);
            Ok((filter.clone(), codec.map_err(|error| refuse(format!("{}: {error}", name())))?))
        };
        Ok(Filters { codecs: filters.iter().map(codec).collect::<Result<_>>()?, chunk })
    }

    fn is_skipped(number: usize, skipped: u32) -> bool {
        u32::try_from(number).is_ok_and(|number| skipped.checked_shr(number).unwrap_or(0) & 1 == 1)
    }

    /// Decodes a chunk. Elements that its writer left out become zeros.
    pub fn decode(&self, stored: &[u8], skipped: u32) -> Result<Vec<u8>, CodecError> {
        let codecs = self.codecs.iter().enumerate().filter(|(number, _)| !Self::is_skipped(*number, skipped));
        let codecs: Vec<_> = codecs.map(|(_, (_, codec))| codec.clone()).collect();
        let mut decoded = Vec::new();
        decode_bounded(&codecs, stored, self.chunk, &mut decoded, &mut Scratch::default(), true)?;
        decoded.resize(self.chunk, 0);
        Ok(decoded)
    }

    /// Encodes a chunk. Filters that its writer skipped stay so, and an optional filter that fails is
    /// skipped. Returns the bytes and the mask of skipped filters.
    pub fn encode(&self, chunk: Vec<u8>, mut skipped: u32) -> Result<(Vec<u8>, u32), CodecError> {
        let (mut bytes, mut scratch) = (chunk, Scratch::default());
        for (number, (filter, codec)) in self.codecs.iter().enumerate() {
            if Self::is_skipped(number, skipped) {
                continue;
            }
            let mut encoded = Vec::new();
            let done = codec.encode(&bytes, &mut encoded, &mut scratch);
            let is_larger = MUST_SHRINK.contains(&filter.id) && encoded.len() > bytes.len();
            match done {
                Ok(()) if !filter.optional || !is_larger => bytes = encoded,
                Err(error)
                    if !filter.optional
                        || !matches!(error, CodecError::Encode { .. } | CodecError::Config { .. }) =>
                {
                    return Err(error);
                }
                _ => skipped |= 1 << number.min(31),
            }
        }
        Ok((bytes, skipped))
    }
}
