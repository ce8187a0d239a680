//! What can go wrong between a file and its meaning.

use hyperslab_array::ArrayError;
use hyperslab_store::StoreError;
use thiserror::Error;

/// What a parser says where it cannot return a value. It knows neither file nor object: [`Source::parse`](crate::Source::parse) adds the file
/// and the structure, and [`Hdf5Error::within`] the object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// So many bytes are needed, counted from the start of the structure. Not an error as long as the file has them.
    #[error("it ends in the middle: {0} bytes are needed")]
    Need(u64),
    /// The bytes cannot be right. `at`: where in the file (an address).
    #[error("byte {at}: {why}")]
    Corrupt {
        /// Address of the bytes at fault.
        at: u64,
        /// What was expected and what was found.
        why: String,
    },
    /// The checksum differs: damaged, or being written at this moment.
    #[error("byte {at}: the checksum is {found:#010x}, the bytes have {expected:#010x}")]
    Checksum {
        /// Address of the checksum.
        at: u64,
        /// That of the bytes.
        expected: u32,
        /// The stored one.
        found: u32,
    },
    /// The bytes may be right, but mean what is not known here. What it is, by name.
    #[error("{0} is not supported")]
    Unsupported(String),
}

/// An error of this crate. Messages name the file, the object, the structure and its address.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Hdf5Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no HDF5 file.
    #[error("{file} is not an HDF5 file: {why}")]
    NotHdf5 {
        /// The file.
        file: String,
        /// What was looked for.
        why: String,
    },
    /// A structure cannot be right.
    #[error("{file}{}, {structure} at address {address}: {why}", shown(object))]
    Parse {
        /// The file.
        file: String,
        /// Path of the object.
        object: Option<String>,
        /// The structure, as the specification calls it.
        structure: &'static str,
        /// Where it begins.
        address: u64,
        /// What is wrong.
        why: ParseError,
    },
    /// An object contradicts itself: its structures are right one by one.
    #[error("{file}{}: {why}", shown(object))]
    Invalid {
        /// The file.
        file: String,
        /// Path of the object.
        object: Option<String>,
        /// The contradiction.
        why: String,
    },
    /// What the file asks for is not known here.
    #[error("{file}{}: {what} is not supported", shown(object))]
    Unsupported {
        /// The file.
        file: String,
        /// Path of the object.
        object: Option<String>,
        /// What.
        what: String,
    },
    /// There is no such object, or a link leads nowhere.
    #[error("{file}: there is no object '{path}'{}", why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    NotFound {
        /// The file.
        file: String,
        /// The path.
        path: String,
        /// Which link does not lead on.
        why: Option<String>,
    },
    /// A link out of the file is not followed.
    #[error("{file}{}: '{target}' is not opened: {why}", shown(object))]
    Refused {
        /// The file.
        file: String,
        /// Path of the link or dataset.
        object: Option<String>,
        /// The other file.
        target: String,
        /// The policy.
        why: String,
    },
    /// The engine refused the description of a dataset.
    #[error(transparent)]
    Array(#[from] ArrayError),
}

fn shown(object: &Option<String>) -> String {
    object.as_ref().map(|object| format!(", '{object}'")).unwrap_or_default()
}

impl Hdf5Error {
    /// The same error, about the object of this path; an object that is named already stays.
    pub fn within(mut self, path: &str) -> Self {
        if let Hdf5Error::Parse { object, .. }
        | Hdf5Error::Invalid { object, .. }
        | Hdf5Error::Unsupported { object, .. }
        | Hdf5Error::Refused { object, .. } = &mut self
        {
            object.get_or_insert_with(|| path.to_owned());
        }
        self
    }

    /// Whether a checksum differed: where a file is being written, reading again may help.
    pub fn is_checksum(&self) -> bool {
        matches!(self, Hdf5Error::Parse { why: ParseError::Checksum { .. }, .. })
    }
}
