//! Presents HDF5 and NetCDF files as Zarr v3, without copying them.
//!
//! A [`PresentedFile`] is a read-only store. It has the objects that the file would have as a Zarr
//! hierarchy: a document for each group and array, and chunks. Documents say what a copy of the
//! array would say ([`meaning`](crate::meaning)), apart from the codecs.
//!
//! | elements in the file | chunks of Zarr |
//! |---|---|
//! | numbers in chunks, with filters that Zarr v3 has | the stored bytes: ranges of the file |
//! | numbers without chunks | pieces of up to 8 MiB: ranges of the file |
//! | everything else | encoded when they are read, without compression |
//!
//! A chunk is also encoded if its range does not hold what its document says: filters were skipped,
//! it reaches past the end of data without chunks, or its padding is not the document's fill value.
//!
//! [`references`](crate::references) use the same [`places`] and [`filters`], for Zarr v2.

mod array;
mod file;
pub(crate) mod filters;
mod pieces;
pub(crate) mod places;
mod store;

pub use array::{ChunkBytes, PresentedArray};
pub use file::{PresentOptions, PresentedFile, PresentedNode};
pub use places::Place;

use crate::Error;

/// The most names of chunks to list at once: more than any directory has, and about 1 GB of text.
const MOST_LISTED: u64 = 1 << 24;

fn too_many(name: &str) -> Error {
    Error::Options(format!(
        "array '{name}' has more than {MOST_LISTED} chunks, which are too many to list: read them by their keys"
    ))
}
