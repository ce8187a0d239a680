//! Shared test code for several structures.

use crate::datatype::{Datatype, vectors};
use crate::element::Element;
use crate::{Cursor, Dataset, File, FileOptions, FoundFile, Hdf5Error, Node, OtherFiles, Purpose, Result};
use crate::{Parsed, Sizes, Source, messages};
use hyperslab_array::{ArrayError, ArrayLayout, ReadOptions, Selection, read};
use hyperslab_store::{Cost, Key, MemoryStore, Opened, RangeRead, Store};
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use crate::file_builder::*;

/// Sizes of addresses and lengths in most files.
pub(crate) const SIZES: Sizes = Sizes { offset: 8, length: 8 };

/// A store in memory with one object.
pub(crate) fn store(key: &str, bytes: &[u8]) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    store.write(Key::new(key).unwrap(), &[bytes]).unwrap();
    store
}

/// A file in memory with the key `f`.
pub(crate) fn source(bytes: &[u8]) -> Source {
    Source::new(store("f", bytes), "f", 0).unwrap()
}

/// Calls `read` with every changed byte and every truncation. It must not panic.
///
/// Does so with and without verification of checksums.
pub(crate) fn mutations(bytes: &[u8], read: impl Fn(&Source)) {
    let both = |bytes: &[u8]| {
        [true, false].iter().for_each(|verify| read(&source(bytes).with_format(SIZES, *verify)));
    };
    let values = |byte: u8| [0, 0xff, byte ^ 1, byte ^ 0x80, byte.wrapping_add(1)];
    changes(bytes, values).for_each(|(_, changed)| both(&changed));
    (0..bytes.len()).for_each(|len| both(&bytes[..len]));
}

/// Changes one byte at a time to each of `values`. Yields the changed place and all bytes.
pub(crate) fn changes<V: IntoIterator<Item = u8>>(
    bytes: &[u8],
    values: impl Fn(u8) -> V,
) -> impl Iterator<Item = (usize, Vec<u8>)> {
    let change = move |at: usize, value| [&bytes[..at], &[value], &bytes[at + 1..]].concat();
    let places = bytes.iter().enumerate();
    places.flat_map(move |(at, byte)| values(*byte).into_iter().map(move |value| (at, change(at, value))))
}

/// Asserts that every truncation of the bytes fails.
#[track_caller]
pub(crate) fn needs_all<T, E>(bytes: &[u8], read: impl Fn(&[u8]) -> Result<T, E>) {
    (0..bytes.len()).for_each(|len| assert!(read(&bytes[..len]).is_err(), "{len} bytes"));
}

/// Asserts that the result is an error that contains `part`.
#[track_caller]
pub(crate) fn fails<T, E: Display>(result: Result<T, E>, part: &str) {
    says(result.err().expect("an error"), part);
}

/// Asserts that an error message contains `part`.
#[track_caller]
pub(crate) fn says(error: impl Display, part: &str) {
    let error = error.to_string();
    assert!(error.contains(part), "'{part}' is not in: {error}");
}

/// The message of an attribute `a` with one `i2`, 5.
pub(crate) fn attribute() -> (u16, Vec<u8>) {
    let bytes = b"\x03\0\x02\0\x0c\0\x04\0\0a\0\x10\x08\0\0\x02\0\0\0\0\0\x10\0\x02\0\0\0\x05\0";
    (messages::attribute::KIND, bytes.to_vec())
}

/// Opens the file `f` of a store that has only this file.
pub(crate) fn open(bytes: &[u8]) -> Result<File> {
    File::open(store("f", bytes), "f", FileOptions::default())
}

/// Addresses of the object `data` and of the root group of [`file`].
pub(crate) const DATA: u64 = 48;
pub(crate) const ROOT: u64 = 62;

/// Address of the bytes given to [`file`].
pub(crate) const REST: u64 = 120;

/// A file whose root group has one link, `data`, to an object without messages. `rest` follows.
pub(crate) fn file(rest: &[u8]) -> File {
    let mut builder = Builder::new();
    assert_eq!(builder.header(&[]), DATA);
    assert_eq!(builder.header(&[link_info(false), hard("data", DATA)]), ROOT);
    builder.put(&[0; 3]);
    assert_eq!(builder.put(rest), REST);
    open(&builder.finish(ROOT, 2, 0)).unwrap()
}

/// A superblock with these sizes, and `rest` at [`bare_start`].
pub(crate) fn bare(sizes: Sizes, rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x89HDF\r\n\x1a\n\x02".to_vec();
    bytes.extend([sizes.offset, sizes.length, 0]);
    let start = bare_start(sizes);
    for number in [0, u64::MAX, start + rest.len() as u64, start] {
        bytes.extend(&number.to_le_bytes()[..sizes.offset.into()]);
    }
    let mut bytes = append_checksum(bytes);
    bytes.resize(start as usize, 0);
    bytes.extend(rest);
    bytes
}

/// Address of the rest of a [`bare`] file.
pub(crate) fn bare_start(sizes: Sizes) -> u64 {
    (16 + 4 * u64::from(sizes.offset)).next_multiple_of(8)
}

pub(crate) fn collection(objects: &[(u16, &[u8])]) -> Vec<u8> {
    collection_of(8, objects, 16)
}

/// The heap id of an element of variable length.
pub(crate) fn heap_id(len: u32, collection: u64, index: u32) -> Vec<u8> {
    structure!(len, collection, index)
}

/// Parses a type and its meaning from a message in hexadecimal.
pub(crate) fn element(hex: &str) -> (Datatype, Element) {
    element_within(hex, SIZES).unwrap()
}

/// Like [`element`], for a file with these sizes of addresses and lengths.
pub(crate) fn element_within(hex: &str, sizes: Sizes) -> Parsed<(Datatype, Element)> {
    let message = vectors::bytes(hex);
    let datatype = Datatype::parse(&mut Cursor::whole(&message, 0, sizes))?;
    let element = Element::of(&datatype, sizes)?;
    Ok((datatype, element))
}

/// Returns the only dataset of a file, `d`, which has these messages.
pub(crate) fn only_dataset(mut builder: Builder, messages: &[(u16, Vec<u8>)]) -> Result<Dataset> {
    let data = builder.header(messages);
    let root = builder.header(&[link_info(false), hard("d", data)]);
    the_dataset(&open(&builder.finish(root, 2, 0))?, "d")
}

pub(crate) fn the_dataset(file: &File, path: &str) -> Result<Dataset> {
    match file.node(path)? {
        Node::Dataset(dataset) => Ok(dataset),
        _ => panic!("'{path}' is no dataset"),
    }
}

pub(crate) fn elements(layout: &ArrayLayout) -> Result<Vec<u8>, ArrayError> {
    let all = Selection::all(layout.shape());
    Ok(read(layout, &all, ReadOptions::default())?.as_slice().to_vec())
}

/// Files in one store that refer to each other. Names that begin with `/` are refused.
#[derive(Debug, Default)]
pub(crate) struct Others {
    pub store: Arc<MemoryStore>,
    /// Number of searches for a file.
    pub asked: AtomicUsize,
}

impl OtherFiles for Others {
    fn find(&self, name: &str, _: Purpose) -> Result<Option<FoundFile>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(target) = name.strip_prefix('/') {
            let (file, target, why) = ("a test".into(), target.into(), "so it is".into());
            return Err(Hdf5Error::Refused { file, object: None, target, why });
        }
        let found = self.store.exists(Key::new(name)?)?;
        Ok(found.then(|| (self.store.clone() as Arc<dyn Store>, name.into())))
    }
}

/// A store far away: many reads at once take as long as one.
#[derive(Debug, Default)]
pub(crate) struct FarStore {
    store: MemoryStore,
    /// Number of reads.
    pub rounds: AtomicUsize,
}

impl FarStore {
    pub fn new(bytes: &[u8]) -> Arc<FarStore> {
        let store = FarStore::default();
        store.store.write(Key::new("f").unwrap(), &[bytes]).unwrap();
        Arc::new(store)
    }

    /// Returns the number of reads since the last call.
    pub fn take_rounds(&self) -> usize {
        self.rounds.swap(0, Ordering::Relaxed)
    }
}

impl Store for FarStore {
    fn read_ranges(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> hyperslab_store::Result<bool> {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.store.read_ranges(key, size, ranges)
    }

    fn open<'s>(
        &'s self,
        key: Key<'_>,
        size: Option<u64>,
    ) -> hyperslab_store::Result<Option<Box<dyn Opened + 's>>> {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.store.open(key, size)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> hyperslab_store::Result<bool> {
        self.store.read_all(key, buf, limit)
    }

    fn size(&self, key: Key<'_>) -> hyperslab_store::Result<Option<u64>> {
        self.store.size(key)
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.store.lock_id(key)
    }

    fn cost(&self) -> Cost {
        Cost { request: 1 << 20, range: 1 << 20, at_once: 64, frugal: false }
    }

    fn url(&self) -> String {
        self.store.url()
    }
}
