//! The requirements on every store, as a test suite.
//!
//! Testing a store takes one call:
//!
//! ```
//! hyperslab_store::contract::check(|| Box::new(hyperslab_store::MemoryStore::new()));
//! ```

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod concurrency;
mod listings;
mod opened;
mod reading;
mod reads;
mod replacements;
mod staging;
mod writes;

use crate::{Key, Opened, RangeRead, Result, Store};
use std::sync::Arc;
use std::time::Duration;

/// Time limit for checks of many rounds: on servers each round takes some milliseconds.
const ENOUGH: Duration = Duration::from_secs(2);

/// Makes a store that contains an object with this key and these bytes.
type Make<'m> = &'m dyn Fn(&str, &[u8]) -> Arc<dyn Store>;

/// Checks that a store keeps every promise of [`Store`]. Each call of `make` returns a new, empty
/// store.
///
/// # Panics
///
/// If a promise is broken. The message and the line say which.
pub fn check(make: impl Fn() -> Box<dyn Store>) {
    check_all(&make, false);
}

/// Like [`check`], for a store on a server.
///
/// A server has names, not directories: an object may lie below another, and no name has control
/// characters. An open object may be replaced under its reader, who then gets
/// [`StoreError::Changed`](crate::StoreError::Changed).
///
/// # Panics
///
/// Like [`check`].
pub fn check_flat(make: impl Fn() -> Box<dyn Store>) {
    check_all(&make, true);
}

fn check_all(make: &dyn Fn() -> Box<dyn Store>, flat: bool) {
    reads::missing_objects(&*make());
    for check in [reads::exact_reads, reads::whole_reads, reads::range_reads, reads::range_errors] {
        // The objects replace each other in the same store.
        let store: Arc<dyn Store> = make().into();
        check(&|name, bytes| {
            put(&*store, name, bytes);
            store.clone()
        });
    }
    writes::writes_of_many_parts(&*make());
    writes::owned_writes(&*make());
    writes::guarded_writes(&*make());
    writes::names(&*make(), flat);
    if !flat {
        writes::objects_and_prefixes_exclude_each_other(&*make());
    }
    writes::deletions(&*make());
    writes::prefix_deletions(&*make());
    listings::listings(&*make());
    listings::locks(&*make(), &*make());
    opened::opened_objects(&*make());
    opened::stamps(&*make(), &*make());
    opened::stamps_during_replacement(&*make());
    replacements::replacements(&*make());
    replacements::abandoned_replacements(&*make(), flat);
    replacements::copies(&*make(), &*make());
    replacements::shares(&*make(), &*make());
    replacements::object_locks(&*make());
    replacements::conditions(&*make(), flat);
    replacements::concurrent_conditions(&*make());
    staging::staged_prefixes(&*make(), flat);
    concurrency::concurrent_replacement(&*make(), flat);
    concurrency::concurrent_writers(&*make());
    concurrency::concurrent_creation_and_deletion(&*make());
}

/// Checks that a store reads an object correctly.
///
/// `make` returns a store that contains an object with this key and these bytes, no matter how it
/// got there.
///
/// # Panics
///
/// Like [`check`].
pub fn check_reads(make: impl Fn(&str, &[u8]) -> Box<dyn Store>) {
    let make: Make<'_> = &|name, bytes| make(name, bytes).into();
    for check in [reads::exact_reads, reads::whole_reads, reads::range_reads, reads::range_errors] {
        check(make);
    }
}

/// Checks a read-only store of one object. `make` returns a store whose only object has this key
/// and these bytes.
///
/// # Panics
///
/// Like [`check`].
pub fn check_reading(make: impl Fn(&str, &[u8]) -> Box<dyn Store>) {
    reading::one_object(&|name, bytes| make(name, bytes).into());
}

pub(crate) fn key(name: &str) -> Key<'_> {
    Key::new(name).unwrap()
}

pub(crate) fn put(store: &dyn Store, name: &str, value: &[u8]) {
    store.write(key(name), &[value]).unwrap();
}

pub(crate) fn get(store: &dyn Store, name: &str) -> Option<Vec<u8>> {
    let mut buf = Vec::new();
    store.read_all(key(name), &mut buf, usize::MAX).unwrap().then_some(buf)
}

fn keys(store: &dyn Store) -> Vec<String> {
    store.list(None).unwrap()
}

/// Reads one range into a buffer with other contents.
fn range(
    store: &dyn Store,
    name: &str,
    size: Option<u64>,
    offset: u64,
    len: usize,
) -> Result<Option<Vec<u8>>> {
    let mut buf = vec![0xEE; len];
    let found = store.read_ranges(key(name), size, &mut [RangeRead { offset, buf: &mut buf }])?;
    Ok(found.then_some(buf))
}

/// All bytes of an open object.
fn bytes_of(opened: &dyn Opened) -> Vec<u8> {
    let mut buf = vec![0xEE; opened.size() as usize];
    opened.read_ranges(&mut [RangeRead { offset: 0, buf: &mut buf }]).unwrap();
    buf
}

/// Bytes that differ from position to position.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect()
}

fn assert_missing(store: &dyn Store, name: &str) {
    let mut buf = vec![7; 3];
    assert!(!store.read_exact(key(name), &mut buf).unwrap(), "read_exact of missing {name}");
    assert!(!store.read_exact(key(name), &mut []).unwrap(), "read_exact of missing {name}, no bytes");
    assert!(!store.read_all(key(name), &mut buf, 10).unwrap(), "read_all of missing {name}");
    assert!(buf.is_empty(), "read_all clears the buffer also for missing {name}");
    assert!(!store.read_all(key(name), &mut Vec::new(), 0).unwrap());
    assert_eq!(range(store, name, None, 0, 1).unwrap(), None);
    assert_eq!(range(store, name, Some(1), 0, 1).unwrap(), None);
    assert_eq!(range(store, name, None, u64::MAX, 9).unwrap(), None);
    assert_eq!(range(store, name, None, 0, 0).unwrap(), None);
    assert!(!store.read_ranges(key(name), None, &mut []).unwrap());
    assert!(!store.read_ranges(key(name), Some(0), &mut []).unwrap());
    assert_eq!(store.size(key(name)).unwrap(), None);
    assert!(!store.exists(key(name)).unwrap());
    assert!(!store.delete(key(name)).unwrap(), "delete of missing {name}");
}
