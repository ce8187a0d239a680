//! Chunked N-dimensional arrays (Zarr v2 and v3, HDF5, NetCDF) at the speed of disk and codec.
//!
//! [`open()`] opens an [`Array`] or a [`Group`] at a path or `file://` URL. It recognises the format
//! from the stored data. A *hyperslab* is an N-dimensional block of an array; [`Index`] selects it,
//! with NumPy's meaning.
//!
//! ```
//! use hyperslab::prelude::*;
//!
//! # fn main() -> Result<(), hyperslab::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let location = directory.path().join("ocean.zarr").display().to_string();
//! let ocean = Group::create(&location, Format::ZarrV3)?;
//!
//! let mut spec = ArraySpec::new(Format::ZarrV3.zarr()?, &[4, 180, 360], "<f4".parse()?);
//! spec.chunks = Some([1, 180, 360].as_slice().into());
//! let sst = ocean.create_array("sst", &spec)?;
//! sst.write_slice(&[Index::At(0), Index::At(90)], &[15.5_f32; 360])?;
//!
//! let sst = hyperslab::open(&format!("{location}/sst"))?.into_array()?;
//! let series: Vec<f32> = sst.read_vec(&[Index::ALL, Index::At(90), Index::At(180)])?;
//! assert_eq!(series, [15.5, 0.0, 0.0, 0.0]);
//!
//! // What a request does can be looked at: one chunk of four is stored, and only its part is wanted.
//! let plan = sst.explain_read(&sst.select(&[Index::ALL, Index::At(90)])?, 10)?;
//! assert_eq!((plan.chunks, plan.strategies.len()), (4, 2));
//! # Ok(())
//! # }
//! ```
//!
//! HDF5 files are made, and changed, in the same words. Changes become permanent by [`Group::flush`]
//! and [`Group::finish`]:
//!
//! ```
//! use hyperslab::prelude::*;
//!
//! # fn main() -> Result<(), hyperslab::Error> {
//! # let directory = tempfile::tempdir().unwrap();
//! # let location = directory.path().join("ocean.h5").display().to_string();
//! let ocean = Group::create(&location, Format::Hdf5)?;
//! let mut spec = ArraySpec::new(Format::ZarrV3.zarr()?, &[0, 360], "<f4".parse()?);
//! spec.chunks = Some([10, 360].as_slice().into());
//! let mut sst = ocean.create_array("surface/sst", &spec)?;
//! sst.append(0, &[15.5_f32; 360])?;
//! ocean.finish()?;
//!
//! let ocean = Group::edit(&location)?;
//! ocean.array("surface/sst")?.write_slice(&[Index::At(0), Index::At(7)], &[16.5_f32])?;
//! ocean.finish()?;
//! assert_eq!(hyperslab::open(&format!("{location}/surface/sst"))?.into_array()?.shape(), [1, 360]);
//! # Ok(())
//! # }
//! ```
//!
//! [`hdf5::edit`] has the words of HDF5 itself: links, references, committed types.
//!
//! [`copy`] converts whole hierarchies: to other chunks, other codecs or the other format. The
//! layers below are re-exported for features that this crate does not wrap: [`mod@array`] (the
//! engine), [`codec`], [`store`], [`zarr`], [`hdf5`], [`netcdf`].

#![forbid(unsafe_code)]

pub mod advise;
pub mod compact;
pub mod content_hash;
pub mod copy;
pub mod diff;
mod error;
mod formats;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod joined;
pub mod look;
pub mod meaning;
mod nodes;
pub mod open;
pub mod present;
pub mod references;
pub mod repair;
pub mod settings;
pub mod statistics;
pub mod stores;
pub mod validate;
mod workers;

pub use hyperslab_array as array;
pub use hyperslab_codec as codec;
pub use hyperslab_hdf5 as hdf5;
pub use hyperslab_netcdf as netcdf;
#[cfg(feature = "remote")]
pub use hyperslab_remote as remote;
pub use hyperslab_store as store;
pub use hyperslab_zarr as zarr;

pub use error::{Error, Result, with_causes};
pub use formats::data_file::DataFile;
pub use formats::format::Format;
pub use meaning::{FileMeaning, MissingValue, Variable, carried_attributes, user_attributes};
pub use nodes::array::Array;
pub use nodes::chunk_map::ChunkMap;
pub use nodes::element::Element;
pub use nodes::explained::explained;
pub use nodes::group::Group;
pub use nodes::index_text::parse_indices;
pub use nodes::info::{GroupInfo, Info, ShardInfo, ShardLevelInfo};
pub use nodes::interface::{Below, Missing, Object, ResultOrder};
pub use nodes::node::{Node, NodeKind, open, open_node};
pub use present::PresentedFile;

pub use hyperslab_array::{
    ChunkCache, Dims, Explain, ExplainTask, Index, Memory, Packed, Ragged, ReadOptions, Row, Selection,
    Source, Strategy, Stream, StreamOptions, Target, WriteOptions, Writer, WriterOptions,
};
pub use hyperslab_codec::{ByteOrder, DataType, Kind, VlenKind};
pub use hyperslab_store::{FileStore, Key, LocalOptions, LocalStore, MemoryStore, Store, ZipMode, ZipStore};
pub use hyperslab_zarr::{ArraySpec, Choice, IndexLocation, Json};

/// The items that most programs need: `use hyperslab::prelude::*;`
pub mod prelude {
    pub use crate::{Array, ArraySpec, DataType, Element, Format, Group, Index, Node, Selection, open};
}
