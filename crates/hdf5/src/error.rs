//! Errors of reading and interpreting a file.

use hyperslab_array::ArrayError;
use hyperslab_store::StoreError;
use thiserror::Error;

/// The error of a parser. [`Hdf5Error`] adds file, structure and object further up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    /// The parser needs this many bytes from the start of the structure. The file may have them.
    #[error("it ends early: expected at least {0} bytes")]
    Need(u64),
    /// The bytes cannot be right.
    #[error("byte {at}: {why}")]
    Corrupt {
        /// Address of the bytes at fault.
        at: u64,
        /// The expected and the found value.
        why: String,
    },
    /// The checksum differs: the bytes are damaged, or are being written at this moment.
    #[error(
        "byte {at}: the checksum is {found:#010x}, expected {expected:#010x}: the bytes are damaged, or \
         are being written"
    )]
    Checksum {
        /// Address of the checksum.
        at: u64,
        /// Checksum of the bytes.
        expected: u32,
        /// The stored checksum.
        found: u32,
    },
    /// The bytes may be right, but use the named feature, which is not supported.
    #[error("{0} is not supported")]
    Unsupported(String),
}

/// The result of a parser.
pub type Parsed<T> = std::result::Result<T, ParseError>;

/// A value that the format cannot store. The message gives the value and the limit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BuildError(pub String);

/// The result of a builder.
pub type Built<T> = std::result::Result<T, BuildError>;

/// The result of all other functions of this crate.
pub type Result<T, E = Hdf5Error> = std::result::Result<T, E>;

/// An error of this crate. Messages name the file, the object, the structure and its address.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Hdf5Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file is not an HDF5 file, or does not exist.
    #[error("{file} is not an HDF5 file: {why}")]
    NotHdf5 {
        /// The file.
        file: String,
        /// The reason.
        why: String,
    },
    /// The file's writer has not closed it.
    #[error(
        "{file} is open for writing, or its writer was killed: it may contain half of a change. Close its \
         writer. If it has no writer, run `h5clear -s` to mark it as closed, or set verify_checksums = \
         false to read it as it is"
    )]
    Unclosed {
        /// The file.
        file: String,
    },
    /// The file is shorter than its superblock says.
    #[error(
        "{file}: it is truncated, or its writer has not finished: expected {expected} bytes, found {found}"
    )]
    Truncated {
        /// The file.
        file: String,
        /// Bytes by the superblock.
        expected: u64,
        /// Bytes of the file.
        found: u64,
    },
    /// A structure was never written: its bytes are zeros.
    #[error(
        "{file}{} is incomplete: the {structure} at address {address} has no bytes yet. The file is open for writing, or its writer was \
         killed: close its writer, or have it flush the file",
        object_text(object)
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
    #[error("{file}{}, {structure} at address {address}: {why}", object_text(object))]
    Parse {
        /// The file.
        file: String,
        /// Path of the object.
        object: Option<String>,
        /// The structure, as the specification calls it.
        structure: &'static str,
        /// Address of the structure.
        address: u64,
        /// The error of the parser.
        why: ParseError,
    },
    /// An object contradicts itself, although each of its structures is valid.
    #[error("{file}{}: {why}", object_text(object))]
    Invalid {
        /// The file.
        file: String,
        /// Path of the object.
        object: Option<String>,
        /// The contradiction.
        why: String,
    },
    /// The heap does not hold the value that an element of variable length refers to.
    #[error(transparent)]
    Heap(Box<HeapError>),
    /// The file uses a feature that is not supported.
    #[error("{file}{}: {what} is not supported", object_text(object))]
    Unsupported {
        /// The file.
        file: String,
        /// Path of the object.
        object: Option<String>,
        /// The feature.
        what: String,
    },
    /// HDF5 cannot store an object of a new file.
    #[error("'{object}' cannot be stored in HDF5: {why}")]
    Unstorable {
        /// Path of the object.
        object: String,
        /// The value at fault, and the limit.
        why: String,
    },
    /// The object does not exist, or a link leads nowhere.
    #[error("{file}: there is no object '{path}'{}", why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    NotFound {
        /// The file.
        file: String,
        /// Path of the object.
        path: String,
        /// The reason, such as the link that leads nowhere.
        why: Option<String>,
    },
    /// There is an object of this name already.
    #[error("{file}: the name '{name}' is taken in the group '{group}': delete it, or choose another name")]
    Exists {
        /// The file.
        file: String,
        /// Path of the group.
        group: String,
        /// The name.
        name: String,
    },
    /// The file was opened for reading.
    #[error("{file} is open for reading: open it with mode 'r+' to change it")]
    ReadOnly {
        /// The file.
        file: String,
    },
    /// A file with elements of a dataset is missing.
    #[error("{file}{}: {why}", object_text(object))]
    NoData {
        /// The file that contains the dataset.
        file: String,
        /// Path of the dataset.
        object: Option<String>,
        /// A message that names the missing data.
        why: String,
    },
    /// The check of [`ask_with`](crate::ask_with) asked to stop.
    #[error("{file}: interrupted")]
    Interrupted {
        /// The file.
        file: String,
    },
    /// A link to another file is not followed.
    #[error("{file}{}: '{target}' is not opened: {why}", object_text(object))]
    Refused {
        /// The file.
        file: String,
        /// Path of the link or dataset.
        object: Option<String>,
        /// The other file.
        target: String,
        /// The reason for the refusal.
        why: String,
    },
    /// The engine refused the description of a dataset.
    #[error(transparent)]
    Array(#[from] ArrayError),
}

/// The heap does not hold the value that an element of variable length refers to.
#[derive(Debug, Error)]
#[error(
    "{file}{}: {of}element {element}{within}, global heap collection at address {address}: {why}",
    object_text(object)
)]
pub struct HeapError {
    /// The file.
    pub file: String,
    /// Path of the object.
    pub object: Option<String>,
    /// The attribute with these elements, a colon and a space. Empty: the object has them itself.
    pub of: String,
    /// Number of the element in the selection, in C order.
    pub element: usize,
    /// Place within the element. Empty, or begins with a comma.
    pub within: String,
    /// Address of the collection.
    pub address: u64,
    /// The fault.
    pub why: String,
}

fn object_text(object: &Option<String>) -> String {
    object.as_ref().map(|object| format!(", '{object}'")).unwrap_or_default()
}

impl Hdf5Error {
    /// Sets the object's path in the error, unless it already names an object.
    pub fn with_object_path(mut self, path: &str) -> Self {
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

    /// Turns an error about an item into an error about its element. `offsets` are element offsets.
    pub fn item_of(mut self, offsets: &[i64]) -> Self {
        if let Hdf5Error::Heap(error) = &mut self {
            let item = i64::try_from(error.element).unwrap_or(i64::MAX);
            error.element = offsets.partition_point(|start| *start <= item).saturating_sub(1);
            let start = offsets.get(error.element).copied().unwrap_or_default();
            error.within.insert_str(0, &format!(", item {}", item.saturating_sub(start)));
        }
        self
    }

    /// Adds the name of an attribute to the error.
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
