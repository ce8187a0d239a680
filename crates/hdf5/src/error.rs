//! What can go wrong between a file and its meaning.

use hyperslab_array::ArrayError;
use hyperslab_store::StoreError;
use thiserror::Error;

/// The error of a parser. File, structure and object are added further up, in [`Hdf5Error`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// The parser needs this many bytes from the start of the structure. The file may have them.
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
    /// The bytes may be right, but use a feature that is not supported: its name.
    #[error("{0} is not supported")]
    Unsupported(String),
}

/// What a parser returns.
pub type Parsed<T> = std::result::Result<T, ParseError>;

/// What other functions of this crate return.
pub type Result<T, E = Hdf5Error> = std::result::Result<T, E>;

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
    /// Its writer has not closed it.
    #[error(
        "{file} is open for writing, or its writer was killed: what it holds may be half a change. Close its writer. If there is none, \
         `h5clear -s` declares it whole, and verify_checksums = false reads it as it is"
    )]
    Unclosed {
        /// The file.
        file: String,
    },
    /// A structure was never written: its bytes are zeros.
    #[error(
        "{file}{} is incomplete: the {structure} at address {address} has no bytes yet. The file is open for writing, or its writer was \
         killed: close its writer, or have it flush the file",
        shown(object)
    )]
    Incomplete {
        /// The file.
        file: String,
        /// Path of the object.
        object: Option<String>,
        /// The structure, as the specification calls it.
        structure: &'static str,
        /// Its address.
        address: u64,
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
    /// The heap does not have what an element of variable length says of it.
    #[error(transparent)]
    Heap(Box<HeapError>),
    /// The file uses a feature that is not supported.
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
    /// A file that holds elements of a dataset is not there.
    #[error("{file}{}: {why}", shown(object))]
    NoData {
        /// The file that has the dataset.
        file: String,
        /// Path of the dataset.
        object: Option<String>,
        /// What is not there.
        why: String,
    },
    /// The answer to [`ask_with`](crate::ask_with) was to stop.
    #[error("{file}: interrupted")]
    Interrupted {
        /// The file.
        file: String,
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

/// The heap does not have what an element of variable length says of it.
#[derive(Debug, Error)]
#[error(
    "{file}{}: {of}element {element}{within}, global heap collection at address {address}: {why}",
    shown(object)
)]
pub struct HeapError {
    /// The file.
    pub file: String,
    /// Path of the object.
    pub object: Option<String>,
    /// The attribute with these elements, a colon and a space; empty: the object has them itself.
    pub of: String,
    /// Number of the element in the selection, in C order.
    pub element: usize,
    /// Where in the element. Empty, or it begins with a comma.
    pub within: String,
    /// Address of the collection.
    pub address: u64,
    /// What is wrong.
    pub why: String,
}

fn shown(object: &Option<String>) -> String {
    object.as_ref().map(|object| format!(", '{object}'")).unwrap_or_default()
}

impl Hdf5Error {
    /// The same error, about the object of this path; an object that is named already stays.
    pub fn within(mut self, path: &str) -> Self {
        let object = match &mut self {
            Hdf5Error::Parse { object, .. }
            | Hdf5Error::Incomplete { object, .. }
            | Hdf5Error::Invalid { object, .. }
            | Hdf5Error::Unsupported { object, .. }
            | Hdf5Error::Refused { object, .. } => object,
            Hdf5Error::Heap(error) => &mut error.object,
            _ => return self,
        };
        object.get_or_insert_with(|| path.to_owned());
        self
    }

    /// Turns an error about an item into one about the element that has it, by element `offsets`.
    pub fn item_of(mut self, offsets: &[i64]) -> Self {
        if let Hdf5Error::Heap(error) = &mut self {
            let item = i64::try_from(error.element).unwrap_or(i64::MAX);
            error.element = offsets.partition_point(|start| *start <= item).saturating_sub(1);
            let start = offsets.get(error.element).copied().unwrap_or_default();
            error.within.insert_str(0, &format!(", item {}", item.saturating_sub(start)));
        }
        self
    }

    /// An error about an element of an attribute.
    pub fn of_attribute(mut self, name: &str) -> Self {
        let text = format!("attribute '{name}': ");
        match &mut self {
            Hdf5Error::Invalid { why, .. } => why.insert_str(0, &text),
            Hdf5Error::Heap(error) => error.of.insert_str(0, &text),
            _ => {}
        }
        self
    }
}
