//! The metadata documents of the two formats.

mod codecs;
pub(crate) mod extension;
pub(crate) mod repair;
pub(crate) mod sharding;
pub(crate) mod v2;
pub(crate) mod v3;
mod whole_shard;

/// A version of the Zarr format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// <https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html>
    V2,
    /// <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>
    V3,
}

impl Format {
    /// 2 or 3.
    pub fn number(self) -> u32 {
        match self {
            Format::V2 => 2,
            Format::V3 => 3,
        }
    }
}
