//! Settings of the process: engine settings, and which other files a file may refer to.

pub use hyperslab_array::settings::*;

use hyperslab_store::fork::Lazy;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The other files that a file may refer to.
/// Files refer to others by external links, external raw data, sources of virtual datasets, members
/// of a family, and references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ExternalFiles {
    /// Files in its own directory and below, after resolving symbolic links. A file from elsewhere
    /// cannot make a program read other files.
    #[default]
    SameDirectory,
    /// Any file that the process may read.
    Anywhere,
    /// No other file.
    Refuse,
}

impl ExternalFiles {
    const ALL: [(ExternalFiles, &str); 3] = [
        (ExternalFiles::SameDirectory, "same-directory"),
        (ExternalFiles::Anywhere, "anywhere"),
        (ExternalFiles::Refuse, "refuse"),
    ];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl FromStr for ExternalFiles {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(_, name)| *name == text).map(|(policy, _)| policy);
        found.ok_or_else(|| format!("expected same-directory, anywhere or refuse, found {text:?}"))
    }
}

/// The directories in which the environment places other files, as for the HDF5 library.
#[derive(Clone, Debug, Default)]
pub struct Prefixes {
    /// Directories of external links, from `HDF5_EXT_PREFIX`.
    pub link: Vec<PathBuf>,
    /// Directories of sources of virtual datasets, from `HDF5_VDS_PREFIX`.
    pub virtual_source: Vec<PathBuf>,
    /// The directory of external raw data, from `HDF5_EXTFILE_PREFIX`.
    pub raw_data: Option<PathBuf>,
}

static PREFIXES: Lazy<Prefixes> = Lazy::new();

/// More directories to search for other files.
/// Reads the environment once, on the first call: later, another thread might be changing it.
pub fn external_prefixes() -> &'static Prefixes {
    PREFIXES.get_or_make(|| {
        let list = |name| {
            let value = std::env::var_os(name).unwrap_or_default();
            std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()
        };
        let raw_data =
            std::env::var_os("HDF5_EXTFILE_PREFIX").filter(|value| !value.is_empty() && value != ".");
        let (link, virtual_source) = (list("HDF5_EXT_PREFIX"), list("HDF5_VDS_PREFIX"));
        Prefixes { link, virtual_source, raw_data: raw_data.map(PathBuf::from) }
    })
}

static EXTERNAL: AtomicU8 = AtomicU8::new(0);

/// The other files that may be read. Default: files in the same directory.
pub fn external_files() -> ExternalFiles {
    ExternalFiles::ALL.get(usize::from(EXTERNAL.load(Relaxed))).map_or_else(Default::default, |found| found.0)
}

/// Sets [`external_files`], for files that are opened later.
pub fn set_external_files(policy: ExternalFiles) {
    EXTERNAL.store(policy as u8, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_by_name() {
        for (policy, _) in ExternalFiles::ALL {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        assert!("Anywhere".parse::<ExternalFiles>().is_err());
    }
}
