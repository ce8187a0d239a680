//! What tests of several structures share.

use crate::checksum::lookup3;
use crate::datatype::{Datatype, vectors};
use crate::element::Element;
use crate::{Cursor, Dataset, File, FileOptions, FoundFile, Hdf5Error, Node, OtherFiles, Purpose};
use crate::{ParseError, Sizes, Source, messages};
use hyperslab_array::{ArrayError, ArrayLayout, ReadOptions, Selection, read};
use hyperslab_store::{Key, MemoryStore, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Addresses and lengths as most files have them.
pub(crate) const SIZES: Sizes = Sizes { offset: 8, length: 8 };

/// A store in memory of one object.
pub(crate) fn store(key: &str, bytes: &[u8]) -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    store.write(Key::new(key).unwrap(), &[bytes]).unwrap();
    store
}

/// A file in memory, with the key `f`.
pub(crate) fn source(bytes: &[u8]) -> Source {
    Source::new(store("f", bytes), "f", 0).unwrap()
}

/// Calls `read` with every change of one byte (to several values) and with every truncation, with
/// checksums verified and without. It must return: that it does not panic is the test.
pub(crate) fn mutations(bytes: &[u8], read: impl Fn(&Source)) {
    let both = |bytes: &[u8]| {
        [true, false].iter().for_each(|verify| read(&source(bytes).with_format(SIZES, *verify)));
    };
    let values = |byte: u8| [0, 0xff, byte ^ 1, byte ^ 0x80, byte.wrapping_add(1)];
    changes(bytes, values, |_, changed| both(changed));
    (0..bytes.len()).for_each(|len| both(&bytes[..len]));
}

/// Calls `check` with every change of one byte to the values that `values` makes of it, and with
/// its place.
pub(crate) fn changes<V: IntoIterator<Item = u8>>(
    bytes: &[u8],
    values: impl Fn(u8) -> V,
    mut check: impl FnMut(usize, &[u8]),
) {
    let mut changed = bytes.to_vec();
    for (at, byte) in bytes.iter().enumerate() {
        for value in values(*byte) {
            changed[at] = value;
            check(at, &changed);
        }
        changed[at] = *byte;
    }
}

/// A part of a structure: a little-endian number, or bytes as they are.
pub(crate) trait Part {
    fn put(&self, bytes: &mut Vec<u8>);
}

macro_rules! number_parts {
    ($($number:ty)*) => {$(
        impl Part for $number {
            fn put(&self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }
        }
    )*};
}

number_parts!(u8 u16 u32 u64);

impl Part for [u8] {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self);
    }
}

impl<const N: usize> Part for [u8; N] {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self);
    }
}

impl Part for Vec<u8> {
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self);
    }
}

impl<T: Part + ?Sized> Part for &T {
    fn put(&self, bytes: &mut Vec<u8>) {
        (**self).put(bytes);
    }
}

/// The bytes of a structure, part by part.
macro_rules! structure {
    ($($part:expr),* $(,)?) => {{
        let mut bytes = Vec::new();
        $($crate::testing::Part::put(&$part, &mut bytes);)*
        bytes
    }};
}
pub(crate) use structure;

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
            block.extend(structure!(*kind as u8, bytes.len() as u16, [0], bytes));
        }
        self.put(&summed(structure!(b"OHDR\x02\x02", block.len() as u32, block)))
    }

    /// The bytes of the file. The root group's header is at `root`. `version` 3 may have `flags`.
    pub(crate) fn finish(mut self, root: u64, version: u8, flags: u8) -> Vec<u8> {
        let head = structure!(b"\x89HDF\r\n\x1a\n", [version, 8, 8, flags], 0_u64);
        let superblock = structure!(head, self.extension, self.bytes.len() as u64, root);
        self.bytes.splice(..Self::START, summed(superblock));
        self.bytes
    }
}

/// The link info message of a group with links in its header; `tracked`: with creation orders.
pub(crate) fn link_info(tracked: bool) -> (u16, Vec<u8>) {
    let order = if tracked { &[0; 8][..] } else { &[] };
    (messages::link::INFO_KIND, structure!([0, tracked.into()], order, [0xff; 16]))
}

/// The link message of a hard link.
pub(crate) fn hard(name: &str, address: u64) -> (u16, Vec<u8>) {
    (messages::link::KIND, structure!([1, 0, name.len() as u8], name.as_bytes(), address))
}

/// The link message of a soft link.
pub(crate) fn soft(name: &str, target: &str) -> (u16, Vec<u8>) {
    link(name, 1, target)
}

/// The link message of a link of a kind, which has a value.
pub(crate) fn link(name: &str, kind: u8, value: &str) -> (u16, Vec<u8>) {
    let head = structure!([1, 8, kind, name.len() as u8], name.as_bytes());
    (messages::link::KIND, structure!(head, value.len() as u16, value.as_bytes()))
}

/// The data layout message of a contiguous dataset.
pub(crate) fn contiguous(address: u64, len: u64) -> Vec<u8> {
    structure!([3, 1], address, len)
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

/// The message of an attribute `a` of one `i2`, 5.
pub(crate) fn attribute() -> (u16, Vec<u8>) {
    let bytes = b"\x03\0\x02\0\x0c\0\x04\0\0a\0\x10\x08\0\0\x02\0\0\0\0\0\x10\0\x02\0\0\0\x05\0";
    (messages::attribute::KIND, bytes.to_vec())
}

/// Opens the file `f` of a store with nothing else.
pub(crate) fn open(bytes: &[u8]) -> Result<File, Hdf5Error> {
    File::open(store("f", bytes), "f", FileOptions::default())
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
    collection_of(SIZES, objects, 16)
}

/// A collection with lengths of any size and with free space behind its objects.
pub(crate) fn collection_of(sizes: Sizes, objects: &[(u16, &[u8])], free: usize) -> Vec<u8> {
    let number = |n: usize| (n as u64).to_le_bytes()[..sizes.length.into()].to_vec();
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
    let head = 8 + usize::from(sizes.length);
    let len = number(head.next_multiple_of(8) + body.len() + free);
    [padded(structure!(b"GCOL\x01\0\0\0", len)), body, rest].concat()
}

/// The heap id of an element of variable length.
pub(crate) fn heap_id(len: u32, collection: u64, index: u32) -> Vec<u8> {
    structure!(len, collection, index)
}

/// A type and its meaning, from the message in hexadecimal.
pub(crate) fn element(hex: &str) -> (Datatype, Element) {
    element_within(hex, SIZES).unwrap()
}

/// The same in a file with addresses and lengths of these sizes.
pub(crate) fn element_within(hex: &str, sizes: Sizes) -> Result<(Datatype, Element), ParseError> {
    let message = vectors::bytes(hex);
    let datatype = Datatype::parse(&mut Cursor::whole(&message, 0, sizes))?;
    let element = Element::of(&datatype, sizes)?;
    Ok((datatype, element))
}

/// The one dataset of a file, `d`, which has these messages.
pub(crate) fn only_dataset(mut builder: Builder, messages: &[(u16, Vec<u8>)]) -> Result<Dataset, Hdf5Error> {
    let data = builder.header(messages);
    let root = builder.header(&[link_info(false), hard("d", data)]);
    the_dataset(&open(&builder.finish(root, 2, 0))?, "d")
}

/// The dataset at a path.
pub(crate) fn the_dataset(file: &File, path: &str) -> Result<Dataset, Hdf5Error> {
    match file.node(path)? {
        Node::Dataset(dataset) => Ok(dataset),
        _ => panic!("'{path}' is no dataset"),
    }
}

/// The elements of a dataset in memory.
pub(crate) fn elements(layout: &ArrayLayout) -> Result<Vec<u8>, ArrayError> {
    let all = Selection::all(layout.shape());
    Ok(read(layout, &all, ReadOptions::default())?.as_slice().to_vec())
}

/// Files that refer to each other, in one store. Names that begin with `/` are refused.
#[derive(Debug, Default)]
pub(crate) struct Others {
    pub store: Arc<MemoryStore>,
    /// How often a file was looked for.
    pub asked: AtomicUsize,
}

impl OtherFiles for Others {
    fn find(&self, name: &str, _: Purpose) -> Result<Option<FoundFile>, Hdf5Error> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(target) = name.strip_prefix('/') {
            let (file, target, why) = ("a test".into(), target.into(), "so it is".into());
            return Err(Hdf5Error::Refused { file, object: None, target, why });
        }
        let found = self.store.exists(Key::new(name)?)?;
        Ok(found.then(|| (self.store.clone() as Arc<dyn Store>, name.into())))
    }
}
