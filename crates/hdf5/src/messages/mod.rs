//! Object header messages (specification IV.A.2): one file for each that is read here. The datatype
//! message is a module of its own, [`datatype`](crate::datatype); driver information is with the
//! [superblock](crate::superblock).

pub mod attribute;
pub mod data_layout;
pub mod dataspace;
pub mod external_files;
pub mod fill_value;
pub mod filter;
pub mod link;
pub mod shared;

use crate::Bytes;

/// Nothing: the bytes are free.
pub const NIL: u16 = 0x00;
/// [`dataspace`]
pub const DATASPACE: u16 = 0x01;
/// [`link::LinkInfo`]
pub const LINK_INFO: u16 = 0x02;
/// [`datatype`](crate::datatype)
pub const DATATYPE: u16 = 0x03;
/// [`fill_value`], before HDF5 1.6
pub const FILL_VALUE_OLD: u16 = 0x04;
/// [`fill_value`]
pub const FILL_VALUE: u16 = 0x05;
/// [`link`]
pub const LINK: u16 = 0x06;
/// [`external_files`]
pub const EXTERNAL_FILES: u16 = 0x07;
/// [`data_layout`]
pub const DATA_LAYOUT: u16 = 0x08;
/// [`filter`]
pub const FILTER_PIPELINE: u16 = 0x0b;
/// [`attribute`]
pub const ATTRIBUTE: u16 = 0x0c;
/// [`shared::Table`]
pub const SHARED_TABLE: u16 = 0x0f;
/// [`object_header`](crate::object_header)
pub const CONTINUATION: u16 = 0x10;
/// [`link::SymbolTable`]
pub const SYMBOL_TABLE: u16 = 0x11;
/// [`superblock`](crate::superblock)
pub const DRIVER_INFO: u16 = 0x14;
/// [`attribute::AttributeInfo`]
pub const ATTRIBUTE_INFO: u16 = 0x15;
/// [`cache_image`](crate::cache_image)
pub const CACHE_IMAGE: u16 = 0x18;

/// What the specification calls a message. `None`: it has no such type.
pub fn name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        NIL => "NIL message",
        DATASPACE => "dataspace message",
        LINK_INFO => "link info message",
        DATATYPE => "datatype message",
        FILL_VALUE_OLD => "fill value (old) message",
        FILL_VALUE => "fill value message",
        LINK => "link message",
        EXTERNAL_FILES => "external data files message",
        DATA_LAYOUT => "data layout message",
        0x09 => "bogus message",
        0x0a => "group info message",
        FILTER_PIPELINE => "filter pipeline message",
        ATTRIBUTE => "attribute message",
        0x0d => "object comment message",
        0x0e => "object modification time (old) message",
        SHARED_TABLE => "shared message table message",
        CONTINUATION => "object header continuation message",
        SYMBOL_TABLE => "symbol table message",
        0x12 => "object modification time message",
        0x13 => "B-tree K values message",
        DRIVER_INFO => "driver info message",
        ATTRIBUTE_INFO => "attribute info message",
        0x16 => "object reference count message",
        0x17 => "file space info message",
        CACHE_IMAGE => "metadata cache image message",
        _ => return None,
    })
}

/// A message of an object header, not parsed yet.
#[derive(Clone, Debug)]
pub struct Message {
    /// Which one.
    pub kind: u16,
    /// Bit 1: the bytes say where the message is ([`shared`]).
    pub flags: u8,
    /// When it was made, among the attributes of its object, if the object keeps that.
    pub creation: Option<u16>,
    /// Address of the first byte.
    pub address: u64,
    /// Its bytes.
    pub data: Bytes,
}

impl Message {
    /// Whether the bytes only say where the message is.
    pub fn is_shared(&self) -> bool {
        self.flags & 2 != 0
    }
}
