//! Writing elements of HDF5 datasets, in a file that is being changed.
//!
//! The engine writes to a [`ChunkSink`]. There are two:
//!
//! * [`chunk_sink`]: chunks. Whole chunks are encoded on the engine's threads. They go to the file in
//!   the order of their numbers, so the bytes of a new file do not depend on threads. They count
//!   when the request is complete. A write to a part of a chunk changes the decoded chunk in memory
//!   ([`held`]). It stays there until a flush, or until memory is short: rows that are appended one
//!   by one do not compress a chunk each time.
//! * [`run_sink`]: elements in one run of bytes, or in the object header.
//!
//! Bytes that the file on disk refers to are not overwritten, except in runs of more than
//! [`hyperslab_hdf5::edit::COPIED`] bytes.
//!
//! A request has at most [`BLOCK`] bytes of whole chunks in memory, and all datasets of a file hold
//! at most about [`MOST_HELD`] bytes of changed chunks between requests.

mod chunk_sink;
mod direct;
mod filters;
mod held;
pub(crate) mod hierarchy;
mod new_run;
mod ordered;
mod ragged;
mod reading;
mod resize;
mod run_sink;
#[cfg(test)]
mod shared_tests;
mod strips;
#[cfg(test)]
mod tests;

pub(super) use direct::{read_chunk, write_chunk};
pub(crate) use new_run::create_run;
pub(super) use ragged::write_ragged;
pub(super) use resize::resize;

use crate::Result;
use hyperslab_array::{ArrayLayout, ChunkSink, LocateError};
use hyperslab_codec::Codec;
use hyperslab_hdf5::data_layout::DataLayout;
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::edit::Editing;
use hyperslab_hdf5::{Dataset, Hdf5Error, Node};
use hyperslab_store::fork::Mutex;
use std::sync::Arc;

/// Bytes of the chunks of a block: between blocks, memory is given back.
const BLOCK: u64 = 128 << 20;

/// Bytes of decoded chunks that the datasets of a file hold between requests, at most.
const MOST_HELD: u64 = 128 << 20;

/// Bytes of decoded chunks that a file keeps once they are written.
const KEPT: u64 = 64 << 20;

/// Returns the layout by which a dataset of a file that is being changed is read and written.
/// `read`: the layout of the dataset as it is now.
pub(super) fn layout_of(dataset: &Dataset, read: &Arc<ArrayLayout>) -> Result<Arc<ArrayLayout>> {
    let Some(editing) = dataset.file().editing() else { return Ok(read.clone()) };
    let is_external = !dataset.external_files().is_empty();
    match dataset.data_layout() {
        DataLayout::Chunked(_) => chunk_sink::layout(dataset, editing, read),
        DataLayout::Contiguous { .. } if is_external => {
            Ok(Arc::new(refusing(dataset, read, "with external files")))
        }
        DataLayout::Contiguous { .. } | DataLayout::Compact { .. } => {
            run_sink::layout(dataset, editing, read)
        }
        DataLayout::Virtual { .. } => Ok(Arc::new(refusing(dataset, read, "that is virtual"))),
    }
}

/// The dataset as it is at this moment: another handle may have changed its shape or its place.
#[derive(Debug)]
pub(super) struct Current {
    editing: Editing,
    address: u64,
    path: String,
    /// Gated. The version of the object that was seen last.
    seen: Mutex<(u64, Dataset)>,
}

impl Current {
    pub(super) fn new(dataset: &Dataset, editing: Editing) -> Current {
        let (address, path) = (dataset.address(), dataset.path().to_owned());
        // Not the version of now: another thread may have changed the dataset since it was read.
        Current { editing, address, path, seen: Mutex::new((dataset.version(), dataset.clone())) }
    }

    pub(super) fn editing(&self) -> &Editing {
        &self.editing
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Returns `true` if the shape, layout or type has changed since the handle was opened or this
    /// was called.
    pub(super) fn is_outdated(&self) -> bool {
        self.seen.lock().0 != self.editing.version(self.address)
    }

    pub(super) fn dataset(&self) -> Result<Dataset, Hdf5Error> {
        let version = self.editing.version(self.address);
        {
            let seen = self.seen.lock();
            if seen.0 == version {
                return Ok(seen.1.clone());
            }
        }
        let file = self.editing.file();
        match file.object_at(self.address, &self.path)? {
            Node::Dataset(dataset) => {
                let old = std::mem::replace(&mut *self.seen.lock(), (version, dataset.clone()));
                drop(old);
                Ok(dataset)
            }
            _ => Err(file.source().invalid(format!("the object at address {} is no dataset", self.address))),
        }
    }

    /// Fails if the dataset is smaller than `shape` now.
    fn check_shape(&self, shape: &[u64]) -> Result<Dataset, Hdf5Error> {
        let dataset = self.dataset()?;
        let now = dataset.dataspace().shape();
        if now.len() == shape.len() && now.iter().zip(shape).all(|(now, n)| now >= n) {
            return Ok(dataset);
        }
        let why = format!("'/{}' was resized from {shape:?} to {now:?}: open it again", self.path);
        Err(self.editing.file().source().invalid(why))
    }
}

/// Fails if elements of a dataset cannot be encoded.
fn check_elements(dataset: &Dataset) -> Result<(), Hdf5Error> {
    let refuse = |what: String| {
        let error = dataset.file().source().unsupported(format!("writing {what}"));
        Err(error.with_object_path(&format!("/{}", dataset.path())))
    };
    match (dataset.dataspace(), dataset.element().unstorable(dataset.datatype())) {
        (Dataspace::Null, _) => refuse("a dataset without a shape".into()),
        (_, Some(what)) => refuse(what),
        _ => Ok(()),
    }
}

/// The conversion between stored elements and elements in memory, if they differ.
fn conversion(dataset: &Dataset) -> Vec<Arc<dyn Codec>> {
    dataset.element().conversion(dataset.datatype()).into_iter().collect()
}

/// Keeps errors of the store: the engine handles these.
fn fault(error: Hdf5Error) -> LocateError {
    match error {
        Hdf5Error::Store(error) => error.into(),
        Hdf5Error::Array(error) => error.into(),
        error => error.into(),
    }
}

/// A sink of a dataset that cannot be written.
#[derive(Debug)]
struct Refusing {
    file: String,
    path: String,
    what: String,
}

impl ChunkSink for Refusing {
    fn begin(&self, _: bool) -> Result<Box<dyn hyperslab_array::SinkWrite + '_>, LocateError> {
        let (file, object, what) = (self.file.clone(), Some(self.path.clone()), self.what.clone());
        Err(Hdf5Error::Unsupported { file, object, what }.into())
    }
}

/// The layout of a dataset that is only read, although its file is being changed.
fn refusing(dataset: &Dataset, read: &ArrayLayout, what: &str) -> ArrayLayout {
    let (file, path) = (dataset.file().source().name(), format!("/{}", dataset.path()));
    read.clone().with_sink(Arc::new(Refusing { file, path, what: format!("writing to a dataset {what}") }))
}
