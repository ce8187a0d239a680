//! Which versions of the HDF5 library read a new file.

use std::str::FromStr;

/// The structures that a new file uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Libver {
    /// The oldest structures that can say it, as h5py's default. HDF5 1.8 reads the file, except for
    /// the few values that only newer versions have.
    #[default]
    Earliest,
    /// Structures of HDF5 1.10: smaller headers, and chunk indexes without a B-tree.
    V110,
}

impl FromStr for Libver {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "earliest" => Ok(Libver::Earliest),
            "v110" => Ok(Libver::V110),
            other => Err(format!("libver: expected 'earliest' or 'v110', found {other:?}")),
        }
    }
}
