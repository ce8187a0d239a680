//! What tests of several structures share.

use crate::checksum::lookup3;
use crate::datatype::{Datatype, vectors};
use crate::element::Element;
use crate::{Cursor, File, FileOptions, Hdf5Error, Sizes, Source, messages};
use hyperslab_store::{Key, MemoryStore, Store};
use std::sync::Arc;

/// Addresses and lengths as most files have them.
pub(crate) const SIZES: Sizes = Sizes { offset: 8, length: 8 };

/// A file in memory, with the key `f`.
pub(crate) fn source(bytes: &[u8]) -> Source {
    let store = Arc::new(MemoryStore::new());
    store.write(Key::new("f").unwrap(), &[bytes]).unwrap();
    Source::new(store, "f", 0).unwrap()
}

/// Calls `read` with every change of one byte (to several values) and with every truncation. It
/// must return: that it does not panic is the test.
pub(crate) fn mutations(bytes: &[u8], read: impl Fn(&Source)) {
    let mut changed = bytes.to_vec();
    for at in 0..bytes.len() {
        for value in [0, 0xff, bytes[at] ^ 1, bytes[at] ^ 0x80, bytes[at].wrapping_add(1)] {
            changed[at] = value;
            read(&source(&changed));
        }
        changed[at] = bytes[at];
    }
    for len in 0..bytes.len() {
        read(&source(&bytes[..len]));
    }
}

/// The bytes with their checksum behind them.
pub(crate) fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(lookup3(&bytes).to_le_bytes());
    bytes
}

/// A file under construction: a version 2 superblock, object headers of version 2, and whatever
/// else is put behind them.
#[derive(Clone)]
pub(crate) struct Builder {
    bytes: Vec<u8>,
    /// Address of the superblock extension's object header.
    pub extension: u64,
}

impl Builder {
    /// Bytes of the superblock.
    const START: usize = 48;

    pub(crate) fn new() -> Builder {
        Builder { bytes: vec![0; Self::START], extension: u64::MAX }
    }

    /// Appends bytes; says where they are.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> u64 {
        self.bytes.extend(bytes);
        (self.bytes.len() - bytes.len()) as u64
    }

    /// Appends an object header of messages, each a kind and its bytes.
    pub(crate) fn header(&mut self, messages: &[(u16, Vec<u8>)]) -> u64 {
        let mut block = Vec::new();
        for (kind, bytes) in messages {
            block.push(*kind as u8);
            block.extend((bytes.len() as u16).to_le_bytes());
            block.push(0);
            block.extend(bytes);
        }
        let mut header = b"OHDR\x02\x02".to_vec();
        header.extend((block.len() as u32).to_le_bytes());
        header.extend(block);
        self.put(&summed(header))
    }

    /// The bytes of the file. The root group's header is at `root`. `version` 3 may have `flags`.
    pub(crate) fn finish(mut self, root: u64, version: u8, flags: u8) -> Vec<u8> {
        let mut superblock = b"\x89HDF\r\n\x1a\n".to_vec();
        superblock.extend([version, 8, 8, flags]);
        for number in [0, self.extension, self.bytes.len() as u64, root] {
            superblock.extend(number.to_le_bytes());
        }
        self.bytes.splice(..Self::START, summed(superblock));
        self.bytes
    }
}

/// The link info message of a group with links in its header; `tracked`: with creation orders.
pub(crate) fn link_info(tracked: bool) -> (u16, Vec<u8>) {
    let mut bytes = vec![0, tracked.into()];
    bytes.extend(vec![0; if tracked { 8 } else { 0 }]);
    bytes.extend([0xff; 16]);
    (messages::link::INFO_KIND, bytes)
}

/// The link message of a hard link.
pub(crate) fn hard(name: &str, address: u64) -> (u16, Vec<u8>) {
    let mut bytes = vec![1, 0, name.len() as u8];
    bytes.extend(name.as_bytes());
    bytes.extend(address.to_le_bytes());
    (messages::link::KIND, bytes)
}

/// The link message of a soft link.
pub(crate) fn soft(name: &str, target: &str) -> (u16, Vec<u8>) {
    let mut bytes = vec![1, 8, 1, name.len() as u8];
    bytes.extend(name.as_bytes());
    bytes.extend((target.len() as u16).to_le_bytes());
    bytes.extend(target.as_bytes());
    (messages::link::KIND, bytes)
}

/// Messages of a dataset of little-endian `i2`: its shape, and a data layout message.
pub(crate) fn dataset(shape: &[u64], layout: Vec<u8>) -> Vec<(u16, Vec<u8>)> {
    let mut space = vec![2, shape.len() as u8, 0, u8::from(!shape.is_empty())];
    space.extend(shape.iter().flat_map(|n| n.to_le_bytes()));
    let datatype = vec![0x10, 8, 0, 0, 2, 0, 0, 0, 0, 0, 16, 0];
    vec![
        (messages::dataspace::KIND, space),
        (crate::datatype::KIND, datatype),
        (messages::data_layout::KIND, layout),
    ]
}

/// Opens the file `f` of a store with nothing else.
pub(crate) fn open(bytes: &[u8]) -> Result<File, Hdf5Error> {
    let store = Arc::new(MemoryStore::new());
    store.write(Key::new("f").unwrap(), &[bytes]).unwrap();
    File::open(store, "f", FileOptions::default())
}

/// Where the object `data` of [`file`] is, and its root group.
pub(crate) const DATA: u64 = 48;
pub(crate) const ROOT: u64 = 62;

/// Where what is given to [`file`] begins.
pub(crate) const REST: u64 = 120;

/// A file with a root group that has one link, `data`, to an object without messages; then `rest`.
pub(crate) fn file(rest: &[u8]) -> File {
    let mut builder = Builder::new();
    assert_eq!(builder.header(&[]), DATA);
    assert_eq!(builder.header(&[link_info(false), hard("data", DATA)]), ROOT);
    builder.put(&[0; 3]);
    assert_eq!(builder.put(rest), REST);
    open(&builder.finish(ROOT, 2, 0)).unwrap()
}

/// A file of a superblock and, at [`bare_start`], of `rest`, with addresses and lengths of these
/// sizes.
pub(crate) fn bare(sizes: Sizes, rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x89HDF\r\n\x1a\n\x02".to_vec();
    bytes.extend([sizes.offset, sizes.length, 0]);
    let start = bare_start(sizes);
    for number in [0, u64::MAX, start + rest.len() as u64, start] {
        bytes.extend(&number.to_le_bytes()[..sizes.offset.into()]);
    }
    let mut bytes = summed(bytes);
    bytes.resize(start as usize, 0);
    bytes.extend(rest);
    bytes
}

/// Where the rest of a [`bare`] file begins.
pub(crate) fn bare_start(sizes: Sizes) -> u64 {
    (16 + 4 * u64::from(sizes.offset)).next_multiple_of(8)
}

/// A collection of the global heap.
pub(crate) fn collection(objects: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (index, data) in objects {
        body.extend(index.to_le_bytes());
        body.extend([1, 0, 0, 0, 0, 0]);
        body.extend((data.len() as u64).to_le_bytes());
        body.extend(*data);
        body.resize(body.len().next_multiple_of(8), 0);
    }
    body.extend([0; 16]);
    [&b"GCOL\x01\0\0\0"[..], &(body.len() as u64 + 16).to_le_bytes(), &body].concat()
}

/// The heap id of an element of variable length.
pub(crate) fn heap_id(len: u32, collection: u64, index: u32) -> Vec<u8> {
    [&len.to_le_bytes()[..], &collection.to_le_bytes(), &index.to_le_bytes()].concat()
}

/// A type and its meaning, from the message in hexadecimal.
pub(crate) fn element(hex: &str) -> (Datatype, Element) {
    let message = vectors::bytes(hex);
    let datatype = Datatype::parse(&mut Cursor::whole(&message, 0, SIZES)).unwrap();
    let element = Element::of(&datatype, SIZES).unwrap();
    (datatype, element)
}
