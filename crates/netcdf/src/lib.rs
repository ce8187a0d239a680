//! NetCDF: classic files as layouts of the engine, and the conventions of NetCDF-4 files.
//!
//! Classic files (NetCDF-3: `CDF\x01`, `CDF\x02`, and `CDF\x05` of PnetCDF) are a header and
//! numbers. [`File::open`] reads the header, and a [`Variable`] becomes the engine's
//! [`ArrayLayout`](hyperslab_array::ArrayLayout). The header's parser is a pure function of bytes;
//! only [`File::open`] reads.
//!
//! NetCDF-4 files are HDF5 files with conventions, which [`netcdf4`] knows: dimensions, and the
//! names of a dataset's axes.
//!
//! All bytes are treated as hostile. Counts are checked against the bytes that exist, sizes against
//! overflow, and places against the end of the file.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod cursor;
mod edit;
mod error;
mod external;
mod file;
mod header;
mod header_builder;
pub mod netcdf4;
mod new_file;
mod phony;
#[cfg(test)]
mod testing;
mod variable;

pub use error::{HeaderError, NetcdfError, NewFileError};
pub use external::External;
pub use file::File;
pub use header::{Attribute, Dimension, Version};
pub use new_file::{Built, NewFile, NewVariable};
pub use phony::phony_dimension_names;
pub use variable::{Form, Variable};
