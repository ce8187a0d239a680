//! The HDF5 file format: a parser without I/O, and what files mean to arrays.
//!
//! [`File::open`] reads the superblock; [`Group`], [`Dataset`] and [`Attribute`] are what is in a
//! file. A dataset becomes the engine's [`ArrayLayout`](hyperslab_array::ArrayLayout): the engine
//! reads it as it reads any other format.
//!
//! Each structure of the
//! [specification](https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t4.html) has a
//! module, named as there. Its parser is a pure function of bytes: it takes a [`Cursor`] and either
//! returns a value or says how many bytes it needs ([`ParseError::Need`]). [`Source`] is the one
//! place that fetches: pages of 64 KiB, kept per file.
//!
//! All bytes are taken for hostile: lengths are checked before they allocate or loop, recursion is
//! bounded, shared and circular nodes are found by a visited set, checksums are verified.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod array_layout;
mod attribute;
#[cfg(test)]
mod building;
mod bytes;
mod cache_image;
mod cast;
mod checksum;
mod convert;
mod cursor;
mod dataset;
pub mod datatype;
pub mod element;
mod error;
mod file;
mod file_messages;
mod foresight;
mod group;
mod heaps;
pub mod index;
mod interrupt;
mod kept;
mod many;
mod members;
mod messages;
mod number;
mod object_header;
mod other_files;
mod paths;
pub mod reference;
mod rehearsal;
mod rows;
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
pub use error::{Hdf5Error, HeapError, ParseError, Parsed, Result};
pub use file::{File, NamedDatatype, Node};
pub use group::{Group, Link, LinkTarget};
pub use interrupt::{ask_with, stop};
pub use messages::{data_layout, dataspace, filter};
pub use other_files::{FileOptions, FoundFile, OtherFiles, Purpose};
pub use reference::Reference;
pub use source::Source;
pub use text::lossless;
pub use value::Value;
pub use virtual_dataset::VirtualSource;
