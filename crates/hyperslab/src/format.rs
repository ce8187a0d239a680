//! The formats.

use std::fmt;

/// A format. (HDF5 will come.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Zarr v2.
    ZarrV2,
    /// Zarr v3.
    ZarrV3,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Format::ZarrV2 => "Zarr v2",
            Format::ZarrV3 => "Zarr v3",
        })
    }
}

impl From<Format> for hyperslab_zarr::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::ZarrV2 => hyperslab_zarr::Format::V2,
            Format::ZarrV3 => hyperslab_zarr::Format::V3,
        }
    }
}

impl From<hyperslab_zarr::Format> for Format {
    fn from(format: hyperslab_zarr::Format) -> Self {
        match format {
            hyperslab_zarr::Format::V2 => Format::ZarrV2,
            hyperslab_zarr::Format::V3 => Format::ZarrV3,
        }
    }
}
