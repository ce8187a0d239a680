//! Temporary arrays: between two passes, elements lie on the disk beside the destination.
//!
//! Each has a directory of its own ([`Store::stage`]) that no listing shows. It is removed when the
//! next pass has read it, and where the copy fails; what a killed process left is removed by the next
//! copy to the same destination, and by `hyperslab compact`.

use crate::{Array, Result};
use hyperslab_store::{LocalOptions, LocalStore, Staged, Store};
use hyperslab_zarr::{self as zarr, ArraySpec, Choice, Creation};
use std::path::Path;

/// The place of temporary arrays: beside a local directory, whether it exists or not.
#[derive(Debug)]
pub(super) struct Beside(LocalStore);

impl Beside {
    pub(super) fn new(destination: &Path) -> Result<Beside> {
        Ok(Beside(LocalStore::unseen(destination, LocalOptions::default())?))
    }

    /// Bytes that temporary arrays may take: half of what is free. The copy needs room, too.
    pub(super) fn room(&self) -> u64 {
        self.0.room().unwrap_or(0) / 2
    }
}

/// An array that is gone when this is dropped.
#[derive(Debug)]
pub(super) struct Temporary<'b> {
    pub(super) array: Array,
    _stage: Box<dyn Staged + 'b>,
}

impl<'b> Temporary<'b> {
    /// An empty array of elements of `source`, as they are in memory, without codecs. What is
    /// absent has the source's fill value.
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

/// A temporary array of elements of `source`.
pub(super) fn spec(source: &Array, shape: &[u64], chunk: &[u64]) -> Result<ArraySpec> {
    let size = source.dtype().size();
    let mut spec = ArraySpec::new(zarr::Format::V2, shape, format!("|V{size}").parse()?);
    spec.chunks = Some(chunk.into());
    spec.fill = source.layout().fill().bytes().get(..size).map(<[u8]>::to_vec);
    spec.filters = Choice::Set(Vec::new());
    spec.compressors = Choice::Set(Vec::new());
    Ok(spec)
}
