//! New files: objects as plain values, and the bytes of all their structures.
//!
//! A file is made in this order, so that nothing but its superblock is written twice:
//!
//! 1. Room for the superblock.
//! 2. Elements: chunks, runs of bytes, and values of variable length, as the caller writes them.
//! 3. [`Structures`]: all headers, then the values of attributes, then links and chunk indexes.
//! 4. The superblock. It says where the root group and the end of the file are.
//!
//! The same objects give the same bytes.

pub(crate) mod attribute;
mod dataset;
pub(crate) mod group;
mod libver;
mod structures;
pub(crate) mod value;
mod vlen;

pub use attribute::NewAttribute;
pub(crate) use dataset::array_slots;
pub use dataset::{NewDataset, NewStorage};
pub use group::{NewLink, NewTarget};
pub use libver::Libver;
pub use structures::{Structures, reserved};
pub use value::ValuePart;
pub use vlen::StoredValues;

use crate::datatype::Datatype;

/// An object of a new file. Others refer to it by its number in the list of all objects.
#[derive(Clone, Debug)]
pub struct NewObject {
    /// The path, for messages.
    pub path: String,
    /// The object.
    pub kind: NewKind,
    /// Its attributes.
    pub attributes: Vec<NewAttribute>,
    /// `true` if it keeps the order in which its attributes were made.
    pub tracks_attributes: bool,
}

/// The kinds of objects.
#[derive(Clone, Debug)]
pub enum NewKind {
    /// A group.
    Group {
        /// Its links.
        links: Vec<NewLink>,
        /// `true` if it keeps the order in which its links were made: their order here.
        tracks_links: bool,
    },
    /// A dataset.
    Dataset(NewDataset),
    /// A committed datatype.
    Datatype(Datatype),
}
