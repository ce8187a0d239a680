//! HDF5 files for tests, built byte by byte.
//!
//! The allocation test is a separate crate and includes this file too.

use crate::checksum::lookup3;

/// Message type numbers.
const DATASPACE: u16 = 0x01;
const LINK_INFO: u16 = 0x02;
const DATATYPE: u16 = 0x03;
const LINK: u16 = 0x06;
const LAYOUT: u16 = 0x08;

/// A part of a structure: a little-endian number, or bytes as they are.
pub(crate) trait Encode {
    fn put(&self, bytes: &mut Vec<u8>);
}

macro_rules! parts {
    ($bytes:ident: $($part:ty)*) => {$(
        impl Encode for $part {
            fn put(&self, bytes: &mut Vec<u8>) {
                bytes.extend(self.$bytes());
            }
        }
    )*};
}

parts!(to_le_bytes: u8 u16 u32 u64);
parts!(iter: [u8] Vec<u8>);

impl<const N: usize> Encode for [u8; N] {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self);
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn put(&self, bytes: &mut Vec<u8>) {
        (**self).put(bytes);
    }
}

/// Joins the parts of a structure into its bytes.
macro_rules! structure {
    ($($part:expr),* $(,)?) => {{
        let mut bytes = Vec::new();
        $($crate::file_builder::Encode::put(&$part, &mut bytes);)*
        bytes
    }};
}
pub(crate) use structure;

/// Appends the checksum of the bytes.
pub(crate) fn append_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(lookup3(&bytes).to_le_bytes());
    bytes
}

/// A file under construction: superblock (version 2), object headers (version 2), other bytes.
#[derive(Clone)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    /// Address of the superblock extension's object header.
    pub extension: u64,
}

impl Builder {
    const START: usize = 48;

    pub(crate) fn new() -> Builder {
        Builder { bytes: vec![0; Self::START], extension: u64::MAX }
    }

    /// Appends bytes and returns their address.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.extend(bytes);
        (self.bytes.len() - bytes.len()) as u64
    }

    /// Appends an object header with these messages, each a kind and its bytes.
    pub(crate) fn header(&mut self, messages: &[(u16, Vec<u8>)]) -> u64 {
        let mut block = Vec::new();
        for (kind, bytes) in messages {
            block.extend(structure!(*kind as u8, bytes.len() as u16, [0], bytes));
        }
        self.put(&append_checksum(structure!(b"OHDR\x02\x02", block.len() as u32, block)))
    }

    /// Returns the bytes of the file. The root group's header is at `root`. Version 3 may have
    /// `flags`.
    pub(crate) fn finish(mut self, root: u64, version: u8, flags: u8) -> Vec<u8> {
        let head = structure!(b"\x89HDF\r\n\x1a\n", [version, 8, 8, flags], 0_u64);
        let superblock = structure!(head, self.extension, self.bytes.len() as u64, root);
        self.bytes.splice(..Self::START, append_checksum(superblock));
        self.bytes
    }
}

/// The link info message of a group with links in its header. `tracked`: with creation orders.
pub(crate) fn link_info(tracked: bool) -> (u16, Vec<u8>) {
    let order = if tracked { &[0; 8][..] } else { &[] };
    (LINK_INFO, structure!([0, tracked.into()], order, [0xff; 16]))
}

pub(crate) fn hard(name: &str, address: u64) -> (u16, Vec<u8>) {
    (LINK, structure!([1, 0, name.len() as u8], name.as_bytes(), address))
}

pub(crate) fn soft(name: &str, target: &str) -> (u16, Vec<u8>) {
    link(name, 1, target)
}

/// A link message of the given link kind, with a value.
pub(crate) fn link(name: &str, kind: u8, value: &str) -> (u16, Vec<u8>) {
    let head = structure!([1, 8, kind, name.len() as u8], name.as_bytes());
    (LINK, structure!(head, value.len() as u16, value.as_bytes()))
}

/// The data layout message of a contiguous dataset.
pub(crate) fn contiguous_message(address: u64, len: u64) -> Vec<u8> {
    structure!([3, 1], address, len)
}

/// Messages of a dataset of little-endian `i2`: its shape, and a data layout message.
pub(crate) fn dataset(shape: &[u64], layout: Vec<u8>) -> Vec<(u16, Vec<u8>)> {
    let mut space = vec![2, shape.len() as u8, 0, u8::from(!shape.is_empty())];
    space.extend(shape.iter().flat_map(|n| n.to_le_bytes()));
    let datatype = vec![0x10, 8, 0, 0, 2, 0, 0, 0, 0, 0, 16, 0];
    vec![(DATASPACE, space), (DATATYPE, datatype), (LAYOUT, layout)]
}

/// A global heap collection. Lengths take `length` bytes, and `free` bytes are free at its end.
pub(crate) fn collection_of(length: u8, objects: &[(u16, &[u8])], free: usize) -> Vec<u8> {
    let number = |n: usize| (n as u64).to_le_bytes()[..length.into()].to_vec();
    let padded = |mut bytes: Vec<u8>| {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    };
    let mut body = Vec::new();
    for (index, data) in objects {
        let head = structure!(*index, [1, 0, 0, 0, 0, 0], number(data.len()));
        body.extend([padded(head), padded(data.to_vec())].concat());
    }
    let mut rest = [vec![0; 8], number(free)].concat();
    rest.resize(free, 0xee);
    let head = 8 + usize::from(length);
    let len = number(head.next_multiple_of(8) + body.len() + free);
    [padded(structure!(b"GCOL\x01\0\0\0", len)), body, rest].concat()
}
