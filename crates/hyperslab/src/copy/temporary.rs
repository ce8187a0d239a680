//! Temporary arrays: they hold elements on disk, beside the destination, between two passes.
//!
//! Each has its own directory ([`Store::stage`]) that no listing shows. The directory is removed
//! after the next pass has read it, or when the copy fails. If the process was killed, the next
//! copy to the same destination removes it, and so does `hyperslab compact`.

use crate::{Array, Result};
use hyperslab_store::{LocalOptions, LocalStore, Staged, Store};
use hyperslab_zarr::{self as zarr, ArraySpec, Choice, Creation};
use std::path::Path;

/// The place for temporary arrays: beside a local directory, which need not exist.
#[derive(Debug)]
pub(super) struct Beside(LocalStore);

impl Beside {
    pub(super) fn new(destination: &Path) -> Result<Beside> {
        Ok(Beside(LocalStore::unseen(destination, LocalOptions::default())?))
    }

    /// Bytes that temporary arrays may take: half of the free space. The copy needs room, too.
    pub(super) fn room(&self) -> u64 {
        self.0.room().unwrap_or(0) / 2
    }
}

/// A temporary array. Dropping it deletes the array.
#[derive(Debug)]
pub(super) struct Temporary<'b> {
    pub(super) array: Array,
    _stage: Box<dyn Staged + 'b>,
}

impl<'b> Temporary<'b> {
    /// Creates an empty array with the element bytes of `source` in memory, without codecs.
    /// Absent chunks have the source's fill value.
    pub(super) fn new(
        beside: &'b Beside,
        source: &Array,
        shape: &[u64],
        chunk: &[u64],
    ) -> Result<Temporary<'b>> {
        let stage = beside.0.stage(None)?;
        let spec = spec(source, shape, chunk)?;
        let array = zarr::Array::create_with(stage.store(), "", spec, Creation::Unseen, None)?;
        Ok(Temporary { array: array.into(), _stage: stage })
    }
}

/// Describes a temporary array for the elements of `source`.
pub(super) fn spec(source: &Array, shape: &[u64], chunk: &[u64]) -> Result<ArraySpec> {
    let size = source.dtype().size();
    let mut spec = ArraySpec::new(zarr::Format::V2, shape, format!("|V{size}").parse()?);
    spec.chunks = Some(chunk.into());
    spec.fill = source.layout().fill().bytes().get(..size).map(<[u8]>::to_vec);
    spec.filters = Choice::Set(Vec::new());
    spec.compressors = Choice::Set(Vec::new());
    Ok(spec)
}
