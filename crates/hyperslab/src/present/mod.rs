//! Presents HDF5 and NetCDF files, and Zarr v2, as Zarr v3, without copying them.
//!
//! A [`PresentedFile`] is a read-only store. It has the objects that the file would have as a Zarr
//! hierarchy: a document for each group and array, and chunks. Documents say what a copy of the
//! array would say ([`meaning`](crate::meaning)), apart from the codecs.
//!
//! | elements in the file | chunks of Zarr |
//! |---|---|
//! | numbers in chunks, with filters that Zarr v3 has | the stored bytes: ranges of the file |
//! | numbers without chunks | strips of up to 8 MiB: ranges of the file |
//! | everything else | encoded when they are read, without compression |
//!
//! A chunk is also encoded if its range disagrees with its document: filters were skipped, it reaches
//! past the end of data without chunks, or its padding is not the fill value.
//!
//! A [`PresentedZarr`] does the same for hierarchies of Zarr: nodes of v3 stay as they are, nodes of
//! v2 get documents of v3.
//!
//! [`references`](crate::references) use the same ranges and filters, for Zarr v2.

mod array;
pub(crate) mod chunk_ranges;
mod file;
pub(crate) mod filters;
mod store;
pub(crate) mod strips;
mod zarr_array;
mod zarr_nodes;

pub use array::{ChunkBytes, NumberedChunk, PresentedArray};
pub use chunk_ranges::FileRange;
pub use file::{PresentOptions, PresentedFile, PresentedNode};
pub use zarr_array::{TranslatedArray, TranslatedChunk};
pub use zarr_nodes::{PresentedZarr, ZarrObject};

use crate::Error;

/// The most keys in one listing: about 1 GB of text.
const MOST_LISTED: u64 = 1 << 24;
/// The most names of chunks in one folder that follow from a shape alone, without an index of chunks.
/// 8 TiB of data have as many strips.
const MOST_FROM_SHAPE: u64 = 1 << 20;

fn too_many(name: &str, most: u64) -> Error {
    Error::Options(format!(
        "'{name}' has more than {most} chunks, which are too many to list: read them by their keys"
    ))
}
