//! The HDF5 file format: parsers and builders without I/O, and the mapping of files to arrays.
//!
//! [`File::open`] reads the superblock. A file contains [`Group`]s, [`Dataset`]s and
//! [`Attribute`]s. A dataset becomes the engine's [`ArrayLayout`](hyperslab_array::ArrayLayout),
//! and the engine reads it like any other format.
//!
//! Each structure of the
//! [specification](https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t4.html) has a
//! module of the same name. Its parser is a pure function of bytes. It takes a [`Cursor`] and
//! returns a value, or the number of bytes that it needs ([`ParseError::Need`]). Only [`Source`]
//! fetches bytes: pages of 64 KiB, cached per file.
//!
//! Beside a parser is its builder, if new files have the structure: [`new_file`] puts these together,
//! [`edit`] changes files, and [`compact`] copies them without unused space.
//!
//! All bytes are treated as hostile. Lengths are checked before they allocate or loop. Recursion is
//! bounded. A visited set detects shared and circular nodes. Checksums are verified.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod array_layout;
mod attribute;
mod bytes;
mod cache_image;
mod cast;
pub mod check;
mod checksum;
pub mod compact;
mod convert;
mod cursor;
mod dataset;
pub mod datatype;
pub mod edit;
pub mod element;
mod error;
mod file;
#[cfg(test)]
mod file_builder;
mod file_messages;
mod foresight;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod heaps;
pub mod index;
mod interrupt;
mod live;
mod members;
mod messages;
pub mod new_file;
mod number;
mod object_facts;
mod object_header;
mod other_files;
mod output;
mod parse_many;
mod parsed_cache;
mod paths;
pub mod reference;
mod rehearsal;
mod rows;
pub mod salvage;
pub mod selection;
mod source;
mod superblock;
#[cfg(test)]
mod testing;
mod text;
mod trees;
pub mod value;
mod virtual_dataset;
mod virtual_extent;
mod virtual_mapping;
mod virtual_source;
pub mod vlen;

pub use attribute::Attribute;
pub use bytes::Bytes;
pub use cursor::{Cursor, Sizes};
pub use dataset::Dataset;
pub use error::{BuildError, Hdf5Error, HeapError, ParseError, Parsed, Result};
pub use file::{File, NamedDatatype, Node};
pub use group::{Group, Link, LinkTarget};
pub use interrupt::{ask_with, stop};
pub use messages::{data_layout, dataspace, filter};
pub use new_file::Libver;
pub use other_files::{FileOptions, FoundFile, OtherFiles, Purpose};
pub use reference::Reference;
pub use source::Source;
pub use text::lossless;
pub use value::Value;
pub use virtual_dataset::VirtualSource;
pub use virtual_mapping::build_mappings;
