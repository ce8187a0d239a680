//! What tests of several structures share.

use crate::checksum::lookup3;
use crate::datatype::Datatype;
use crate::element::Element;
use crate::{File, FileOptions, Sizes, Source};
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

/// Calls `read` with every change of one byte (to several values) and with every truncation. It must return: that it does not panic is the test.
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

/// Where what is given to [`file`] begins.
pub(crate) const REST: u64 = 112;

/// A file with a root group that has one link, `data`, to an object without messages at [`DATA`]; then `rest`.
pub(crate) fn file(rest: &[u8]) -> File {
    let header = |messages: &[u8]| summed([&b"OHDR\x02\0"[..], &[messages.len() as u8], messages].concat());
    let undefined = [0xff; 8];
    let info = [&[2, 18, 0, 0, 0, 0][..], &undefined, &undefined].concat();
    let link = [&[6, 15, 0, 0, 1, 0, 4][..], b"data", &DATA.to_le_bytes()].concat();
    let root = header(&[info, link].concat());
    let end = REST + rest.len() as u64;
    let fields = [&b"\x89HDF\r\n\x1a\n\x02\x08\x08\0"[..], &[0; 8], &undefined, &end.to_le_bytes()].concat();
    let mut bytes = summed([fields, 48_u64.to_le_bytes().into()].concat());
    bytes.extend(root);
    assert_eq!(bytes.len() as u64, DATA);
    bytes.extend(header(&[]));
    bytes.resize(REST as usize, 0);
    bytes.extend(rest);
    let store = Arc::new(MemoryStore::new());
    store.write(Key::new("f").unwrap(), &[&bytes]).unwrap();
    File::open(store, "f", FileOptions::default()).unwrap()
}

/// Address of the object `data` in a [`file`].
pub(crate) const DATA: u64 = 100;

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
    let message = crate::datatype::vectors::bytes(hex);
    let datatype = Datatype::parse(&mut crate::Cursor::whole(&message, 0, SIZES)).unwrap();
    let element = Element::of(&datatype, SIZES).unwrap();
    (datatype, element)
}
