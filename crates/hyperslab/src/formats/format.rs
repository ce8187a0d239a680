//! Storage formats.

use crate::{Error, Result};
use hyperslab_zarr as zarr;
use std::fmt;

/// A storage format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Zarr v2.
    ZarrV2,
    /// Zarr v3.
    ZarrV3,
    /// HDF5, and NetCDF-4, which is read only so far.
    Hdf5,
    /// NetCDF-3: read-only so far.
    NetCdf3,
}

impl Format {
    /// The Zarr version to write. Fails with [`Error::OnlyRead`] for other formats.
    pub fn zarr(self) -> Result<zarr::Format> {
        match self {
            Format::ZarrV2 => Ok(zarr::Format::V2),
            Format::ZarrV3 => Ok(zarr::Format::V3),
            format => Err(Error::OnlyRead { format }),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Format::ZarrV2 => "Zarr v2",
            Format::ZarrV3 => "Zarr v3",
            Format::Hdf5 => "HDF5",
            Format::NetCdf3 => "NetCDF-3",
        })
    }
}

impl From<zarr::Format> for Format {
    fn from(format: zarr::Format) -> Self {
        match format {
            zarr::Format::V2 => Format::ZarrV2,
            zarr::Format::V3 => Format::ZarrV3,
        }
    }
}
