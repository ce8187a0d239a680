//! What tests of several structures share.

use crate::checksum::lookup3;
use crate::{Sizes, Source};
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
