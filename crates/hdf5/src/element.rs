//! What an element is in memory: NumPy's meaning of a datatype, the same as h5py's.

use crate::datatype::Datatype;
use crate::{ParseError, Sizes};
use hyperslab_codec::{Codec, DataType};
use std::sync::Arc;

/// The type of an element in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Element {
    /// Bytes of one element in memory.
    pub size: usize,
    /// What they are.
    pub kind: ElementKind,
}

/// A member of a structure in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Its type.
    pub element: Element,
}

/// What the bytes of an element in memory are.
#[derive(Clone, Debug, PartialEq)]
pub enum ElementKind {
    /// Of a type that the engine knows, in the byte order of the file (as in h5py). Bitfields are unsigned integers, opaque bytes `V`, those tagged `NUMPY:` dates.
    Plain(DataType),
    /// Text of fixed length: bytes `S` in memory, NUL-padded.
    FixedString {
        /// Whether it is UTF-8.
        utf8: bool,
    },
    /// An integer with names for its values.
    Enum {
        /// In memory.
        base: DataType,
        /// Names and values.
        members: Vec<(String, i128)>,
    },
    /// A structure.
    Struct(Vec<Field>),
    /// A small array within each element.
    Array {
        /// Elements per axis.
        shape: Vec<u64>,
        /// Its elements.
        element: Box<Element>,
    },
    /// Text of any length; in memory the stored heap id, to be resolved.
    VlenString {
        /// Whether it is UTF-8.
        utf8: bool,
    },
    /// A sequence; in memory the stored heap id, to be resolved.
    Vlen {
        /// The stored type of its elements.
        stored: Arc<Datatype>,
        /// Their type in memory.
        element: Box<Element>,
    },
    /// A reference to an object; in memory the stored address.
    ObjectReference,
    /// A reference to a region of a dataset; in memory the stored heap id.
    RegionReference,
}

impl Element {
    /// The meaning of a datatype. Errors with [`ParseError::Unsupported`] where it has none in NumPy.
    pub fn of(datatype: &Datatype, sizes: Sizes) -> Result<Element, ParseError> {
        let _ = (datatype, sizes);
        Err(ParseError::Unsupported("a datatype".into()))
    }

    /// The type that the engine moves: itself if plain, else raw bytes of the same size. `None`: larger than any element may be.
    pub fn engine_type(&self) -> Option<DataType> {
        None
    }

    /// What turns stored elements into those in memory. `None`: they are the same bytes.
    pub fn conversion(&self, datatype: &Datatype) -> Option<Arc<dyn Codec>> {
        let _ = datatype;
        None
    }

    /// Whether elements hold heap ids, so that the bytes in memory are not yet values.
    pub fn has_heap_ids(&self) -> bool {
        false
    }

    /// The type as JSON, for other languages: a string of NumPy's (`"<f4"`), or an object with one of the members
    /// `{"string": n, "utf8": b}`, `{"enum": "<i4", "members": {…}}`, `{"fields": [[name, type, offset], …], "itemsize": n}`,
    /// `{"array": type, "shape": […]}`, `{"vlen_string": utf8}`, `{"vlen": type}`, `{"reference": "object" | "region"}`.
    pub fn to_json(&self) -> String {
        String::new()
    }
}
