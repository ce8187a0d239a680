//! Files: opens them and finds objects in them.
//!
//! Steps of opening a file:
//! 1. Find the superblock at 0, 512, 1024, …. Addresses count from there.
//! 2. If the superblock's driver splits the file into several files, join them. If metadata is in a
//!    [cache image](cache_image), read it from there.
//! 3. Refuse a file that is marked as open for writing, because it may hold half a change.
//! 4. Refuse a file that is shorter than its superblock says, instead of failing in the middle of a
//!    later read.
//!
//! Steps 3 and 4 accept files whose writer lets others read (SWMR).
//!
//! A structure may change while it is read from a file that is being written: see [`live`](crate::live).

use crate::attribute::{self, Attribute};
use crate::cache_image;
use crate::dataset::Dataset;
use crate::edit::{Edits, redo};
use crate::foresight::Levels;
use crate::group::Group;
use crate::heaps::{Collection, FractalHeap, SMALLEST};
use crate::index::ChunkIndex;
use crate::live::Live;
use crate::members;
use crate::messages::{self, Message, shared};
use crate::object_header::ObjectHeader;
use crate::other_files::{FileOptions, Purpose};
use crate::parsed_cache::ByAddress;
use crate::paths::Paths;
use crate::superblock::{self, DriverInfo, Superblock};
use crate::{Cursor, Hdf5Error, Result, Sizes, Source, datatype::Datatype};
use hyperslab_store::Store;
use hyperslab_store::fork::{Lazy, Mutex};
use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limits in bytes for cached object headers, heap collections and chunk indexes of a file.
const HEADERS: u64 = 16 << 20;
const COLLECTIONS: u64 = 32 << 20;
const INDEXES: u64 = 256 << 20;

/// Number of cached fractal heaps.
const HEAPS: u64 = 1024;

/// An open file. It is cheap to clone, and many threads may use it at once.
#[derive(Clone)]
pub struct File {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    source: Source,
    pub(crate) superblock: Superblock,
    options: FileOptions,
    headers: ByAddress<ObjectHeader>,
    collections: ByAddress<Collection>,
    /// Size in bytes of the collection that was read last.
    collection_size: AtomicU64,
    heaps: ByAddress<FractalHeap>,
    indexes: ByAddress<ChunkIndex>,
    /// The changes of a file that is open for changes.
    pub(crate) edits: Option<Arc<Edits>>,
    /// The table of shared messages. Set on first use.
    table: Lazy<Option<shared::Table>>,
    /// Gated.
    pub(crate) others: Mutex<HashMap<(String, Purpose), File>>,
    /// Gated. Each step is read without the lock, and its result counts unless another thread
    /// finished the same step first.
    pub(crate) paths: Mutex<Paths>,
    /// Gated. Only used if the store is far away.
    pub(crate) levels: Mutex<Levels>,
    pub(crate) live: Live,
}

impl Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({})", self.source().name())
    }
}

impl File {
    /// Opens the object `key`. Fails with [`Hdf5Error::NotHdf5`] if there is no superblock.
    pub fn open(store: Arc<dyn Store>, key: &str, options: FileOptions) -> Result<File> {
        File::open_with(store, key, options, false)
    }

    /// Like [`File::open`]. `record`: [`Source::take_record`] returns all structures that are read.
    pub(crate) fn open_with(
        store: Arc<dyn Store>,
        key: &str,
        options: FileOptions,
        record: bool,
    ) -> Result<File> {
        // Before the first state is read: a writer that comes later does not use its space again.
        store.lock_for_reading();
        let source = Source::new(store, key, 0)?;
        let source = if record { source.recording() } else { source };
        let found = superblock::find(source.store().as_ref(), key, source.size())?;
        let base = found.ok_or_else(|| Hdf5Error::NotHdf5 {
            file: source.name(),
            why: "expected a superblock at byte 0, 512, 1024, 2048, …, found none".into(),
        })?;
        let source = source.with_base(base).with_format(Sizes { offset: 8, length: 8 }, options.verify);
        let superblock = source.parse("superblock", 0, 128, Superblock::parse)?;
        let source = source.with_format(superblock.sizes, options.verify);
        let extension = superblock.extension.map(|at| ObjectHeader::read(&source, at)).transpose()?;
        let source = match driver(&source, superblock.driver, extension.as_ref())? {
            Some(driver) => members::join_members(&source, &driver, &options)?.unwrap_or(source),
            None => source,
        };
        let image = extension.map(|header| cache_image::read(&source, &header)).transpose()?;
        let source = match image.filter(|image| !image.is_empty()) {
            Some(image) => source.with_instead(image),
            None => source,
        };
        if superblock.writing && !superblock.swmr && options.verify {
            return Err(Hdf5Error::Unclosed { file: source.name() });
        }
        if let Some(end) = superblock.end_from(base).filter(|end| *end > source.size() && !superblock.swmr) {
            return Err(Hdf5Error::Truncated { file: source.name(), expected: end, found: source.size() });
        }
        let end = superblock.end_from(base).unwrap_or(source.size()).saturating_sub(base);
        let source = match redo::pending(&source, end)? {
            switches if switches.is_empty() => source,
            switches => source.with_instead(redo::instead(switches)),
        };
        let file = File::assemble(source, superblock, options, None);
        if file.source().end() > end {
            file.find_writers()?;
        }
        Ok(file)
    }

    /// Joins the parts of an open file.
    pub(crate) fn assemble(
        source: Source,
        superblock: Superblock,
        options: FileOptions,
        edits: Option<Arc<Edits>>,
    ) -> File {
        File {
            inner: Arc::new(Inner {
                source,
                superblock,
                options,
                edits,
                headers: ByAddress::new(HEADERS),
                collections: ByAddress::new(COLLECTIONS),
                collection_size: SMALLEST.into(),
                heaps: ByAddress::new(HEAPS),
                indexes: ByAddress::new(INDEXES),
                table: Lazy::new(),
                others: Mutex::default(),
                paths: Mutex::default(),
                levels: Mutex::default(),
                live: Live::default(),
            }),
        }
    }

    /// Returns `true` if the object has a superblock at byte 0, 512, 1024, 2048, ….
    pub fn is_hdf5(store: &dyn Store, key: &str) -> Result<bool> {
        let Some(size) = store.size(hyperslab_store::Key::new(key)?)? else { return Ok(false) };
        Ok(superblock::find(store, key, size)?.is_some())
    }

    /// The bytes of the file.
    pub fn source(&self) -> &Source {
        &self.inner.source
    }

    /// Drops cached metadata, except for open datasets. `false`: the file was rewritten; open it
    /// again.
    pub fn refresh(&self) -> Result<bool> {
        let inner = &*self.inner;
        if let Some(editing) = self.editing() {
            return editing.refresh().map(|()| true);
        }
        inner.source.forget()?;
        let old = &inner.superblock;
        let new = match self.retry_if_written(|| inner.source.parse("superblock", 0, 128, Superblock::parse))
        {
            // The superblock has moved or is gone. Opening the file again finds out.
            Err(Hdf5Error::Parse { .. } | Hdf5Error::Incomplete { .. }) => return Ok(false),
            new => new?,
        };
        let same = *old == Superblock { end: old.end, writing: old.writing, swmr: old.swmr, ..new };
        if !same || new.writing && !new.swmr {
            return Ok(false);
        }
        self.forget_parsed();
        Ok(true)
    }

    /// Drops all pages and cached metadata of a file that this process and others change.
    pub(crate) fn forget_metadata(&self) {
        self.source().forget_pages();
        self.forget_parsed();
    }

    fn forget_parsed(&self) {
        let inner = &*self.inner;
        inner.headers.clear();
        inner.collections.clear();
        inner.heaps.clear();
        inner.indexes.clear();
        let paths = std::mem::take(&mut *inner.paths.lock());
        let others = std::mem::take(&mut *inner.others.lock());
        let levels = std::mem::take(&mut *inner.levels.lock());
        drop((paths, others, levels));
    }

    /// Closes the file and the files behind its links. Later reads fail with
    /// [`StoreError::Closed`](hyperslab_store::StoreError::Closed) unless the metadata is cached.
    pub fn close(&self) {
        self.source().store().close();
        let others = std::mem::take(&mut *self.inner.others.lock());
        drop(others);
    }

    /// Returns `true` if both are handles of the same open file.
    pub fn is(&self, other: &File) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Sizes of addresses and lengths.
    pub fn sizes(&self) -> Sizes {
        self.source().sizes()
    }

    /// The options with which the file was opened.
    pub fn options(&self) -> &FileOptions {
        &self.inner.options
    }

    /// Returns `true` if the object at an address keeps the creation order of its attributes.
    pub fn tracks_attributes(&self, address: u64) -> Result<bool> {
        Ok(self.header(address)?.tracks_attributes)
    }

    /// Returns the root group.
    pub fn root(&self) -> Result<Group> {
        match self.object_at(self.inner.superblock.root, "")? {
            Node::Group(group) => Ok(group),
            _ => Err(self.source().invalid("its root object is not a group")),
        }
    }

    /// Returns the object at a path from the root. Follows links.
    pub fn node(&self, path: &str) -> Result<Node> {
        self.root()?.child(path)
    }

    /// Returns the object whose header is at `address`, for references. `path` becomes its path.
    pub fn object_at(&self, address: u64, path: &str) -> Result<Node> {
        let path = path.trim_matches('/');
        self.object(address, path).map_err(|error| error.with_object_path(&format!("/{path}")))
    }

    fn object(&self, address: u64, path: &str) -> Result<Node> {
        // Asked for before the header is read: a change in between makes the dataset outdated.
        let version = self.editing().map_or(0, |editing| editing.version(address));
        let header = self.header(address)?;
        let has = |kind| header.message(kind).is_some();
        // Checks in the order of the HDF5 library.
        if header.is_group() {
            return Ok(Node::Group(Group::new(self.clone(), path.into(), address)));
        }
        if has(crate::datatype::KIND) && has(messages::dataspace::KIND) {
            return Dataset::new(self, path, &header, version).map(Node::Dataset);
        }
        let datatype = self.message(&header, crate::datatype::KIND, Datatype::parse)?;
        let Some(datatype) = datatype.map(Arc::new) else {
            let why =
                format!("the object at address {address} is neither a group nor a dataset nor a datatype");
            return Err(self.source().invalid(why));
        };
        let attributes = attribute::read_attributes(self, &header)?;
        Ok(Node::Datatype(NamedDatatype { datatype, address, path: path.into(), attributes }))
    }

    /// Returns the attributes of the object at an address, sorted by creation order if the object
    /// keeps it, else by name.
    pub(crate) fn attributes(&self, address: u64) -> Result<Vec<Attribute>> {
        self.retry_if_written(|| {
            self.foresee_attributes(address)?;
            attribute::read_attributes(self, &*self.header(address)?)
        })
    }

    /// Returns one attribute of the object at an address.
    pub(crate) fn attribute(&self, address: u64, name: &str) -> Result<Option<Attribute>> {
        self.retry_if_written(|| {
            self.foresee_attribute(address, name)?;
            attribute::read_attribute(self, &*self.header(address)?, name)
        })
    }

    /// Returns `true` if the object at an address has this attribute.
    pub(crate) fn has_attribute(&self, address: u64, name: &str) -> Result<bool> {
        self.retry_if_written(|| {
            self.foresee_attribute(address, name)?;
            attribute::has_attribute(self, &*self.header(address)?, name)
        })
    }

    /// Returns the global heap collection at an address.
    pub fn collection(&self, address: u64) -> Result<Arc<Collection>> {
        if let Some(editing) = self.editing() {
            editing.settle_collection()?;
        }
        if let Some(cached) = self.cached_collection(address) {
            return Ok(cached);
        }
        let found = self.collections(&[address], true)?;
        found.into_iter().next().ok_or_else(|| self.source().invalid("a global heap collection was not read"))
    }

    /// Reads the collections at ascending addresses together. `keep`: caches them for later reads.
    pub(crate) fn collections(&self, addresses: &[u64], keep: bool) -> Result<Vec<Arc<Collection>>> {
        if let Some(editing) = self.editing() {
            editing.settle_collection()?;
        }
        let mut found = self.inner.collections.find_all(addresses);
        let mut all = Vec::with_capacity(found.len());
        if found.iter().all(Option::is_some) {
            all.extend(found.into_iter().flatten());
            return Ok(all);
        }
        let missing: Vec<(u64, &mut Option<Arc<Collection>>)> =
            addresses.iter().copied().zip(&mut found).filter(|(_, found)| found.is_none()).collect();
        let wanted: Vec<u64> = missing.iter().map(|(address, _)| *address).collect();
        let guess = self.collection_size();
        let read = self.retry_if_written(|| Collection::read(self.source(), &wanted, guess))?;
        for ((address, place), new) in missing.into_iter().zip(read) {
            let new = Arc::new(new);
            if keep {
                self.inner.collections.keep(address, new.clone(), new.weight());
            }
            self.inner.collection_size.store(new.guess(), Ordering::Relaxed);
            *place = Some(new);
        }
        all.extend(found.into_iter().flatten());
        Ok(all)
    }

    /// Drops the collection at an address, which has new objects.
    pub(crate) fn forget_collection(&self, address: u64) {
        self.inner.collections.forget(address);
    }

    /// Returns the global heap collection at an address if it is cached.
    pub(crate) fn cached_collection(&self, address: u64) -> Option<Arc<Collection>> {
        // A collection that has new values is dropped. A failure is found when it is read again.
        if let Some(editing) = self.editing()
            && editing.settle_collection().is_err()
        {
            return None;
        }
        self.inner.collections.find(address)
    }

    /// Probable size in bytes of a global heap collection: the size of the last one that was read.
    pub(crate) fn collection_size(&self) -> u64 {
        self.inner.collection_size.load(Ordering::Relaxed)
    }

    /// Returns `true` if the cache has room for twice this many global heap collections.
    pub(crate) fn can_keep(&self, collections: usize) -> bool {
        (collections as u64).saturating_mul(self.collection_size()) <= COLLECTIONS / 2
    }

    pub(crate) fn heap(&self, address: u64) -> Result<Arc<FractalHeap>> {
        let read = || FractalHeap::read(self.source(), address).map(Arc::new);
        self.inner.heaps.get(address, || self.retry_if_written(read), |_| 1)
    }

    /// Returns the chunk index of the dataset at an address. `read` reads it if it is not cached.
    pub(crate) fn chunk_index(
        &self,
        dataset: u64,
        mut read: impl FnMut() -> Result<ChunkIndex>,
    ) -> Result<Arc<ChunkIndex>> {
        let size = size_of::<crate::index::ChunkRecord>() as u64;
        let weigh = |index: &ChunkIndex| (index.records.len() as u64).saturating_mul(size);
        self.inner.indexes.get(dataset, || self.retry_if_written(|| read().map(Arc::new)), weigh)
    }

    /// Returns `true` if the chunk index of the dataset at an address is cached.
    pub(crate) fn has_chunk_index(&self, dataset: u64) -> bool {
        self.inner.indexes.find(dataset).is_some()
    }

    pub(crate) fn header(&self, address: u64) -> Result<Arc<ObjectHeader>> {
        if let Some(header) = self.inner.edits.as_ref().and_then(|edits| edits.header(address)) {
            return Ok(header);
        }
        let read = || ObjectHeader::read(self.source(), address).map(Arc::new);
        let make = || {
            self.foresee_object(address)?;
            self.retry_if_written(read)
        };
        self.inner.headers.get(address, make, |header| header.bytes.max(64))
    }

    /// Address of the heap of shared messages of a kind.
    pub(crate) fn shared_heap(&self, kind: u16) -> Result<Option<u64>> {
        if let Some(table) = self.inner.table.get() {
            return Ok(table.as_ref().and_then(|table| table.heap(kind)));
        }
        let table = match self.inner.superblock.extension {
            None => None,
            Some(extension) => {
                let header = self.header(extension)?;
                let place = self.message(&header, shared::TABLE_KIND, shared::table_place)?;
                let read = |(address, indexes)| {
                    let parse = |cursor: &mut Cursor<'_>| shared::Table::parse(cursor, indexes);
                    self.source().parse("shared message table", address, 256, parse)
                };
                place.map(read).transpose()?
            }
        };
        Ok(self.inner.table.put(table).as_ref().and_then(|table| table.heap(kind)))
    }

    /// Returns `true` if the file may change while it is open: we or others write it.
    pub(crate) fn changes(&self) -> bool {
        self.inner.edits.is_some() || self.is_being_written()
    }

    /// Returns `true` if the superblock says that a writer has opened the file.
    pub(crate) fn is_being_written(&self) -> bool {
        self.inner.superblock.writing || self.inner.superblock.swmr
    }
}

/// Reads the file driver's information, if any. It is at `address` or in the superblock extension.
fn driver(
    source: &Source,
    address: Option<u64>,
    extension: Option<&ObjectHeader>,
) -> Result<Option<DriverInfo>> {
    if let Some(address) = address {
        let parse = DriverInfo::parse_block;
        return source.parse("driver information block", address, 128, parse).map(Some);
    }
    let parse = |message: &Message| {
        DriverInfo::parse_message(&mut source.cursor(&message.data, message.address))
            .map_err(|why| source.structure_error("driver info message", message.address, why))
    };
    extension.and_then(|header| header.message(superblock::DRIVER_INFO_KIND)).map(parse).transpose()
}

/// An object in a file.
#[derive(Clone, Debug)]
pub enum Node {
    /// A group.
    Group(Group),
    /// A dataset.
    Dataset(Dataset),
    /// A committed datatype.
    Datatype(NamedDatatype),
}

impl Node {
    /// Returns the same object with another path if it is in `file`. Paths are relative to their
    /// file.
    pub(crate) fn with_path(self, file: &File, path: String) -> Node {
        match self {
            Node::Group(group) if group.file().is(file) => Node::Group(group.with_path(path)),
            Node::Dataset(dataset) if dataset.file().is(file) => Node::Dataset(dataset.with_path(path)),
            other => other,
        }
    }
}

/// A committed datatype.
#[derive(Clone, Debug)]
pub struct NamedDatatype {
    /// The type itself.
    pub datatype: Arc<Datatype>,
    /// Address of the object header. Two names of the same type have the same address.
    pub address: u64,
    /// Path of the type.
    pub path: String,
    /// Attributes of the type.
    pub attributes: Vec<crate::Attribute>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        Builder, append_checksum, attribute, contiguous_message, dataset, elements, fails, hard, link_info,
        mutations, open, store, structure,
    };
    use hyperslab_store::Key;

    /// A group with attributes, a compact and a contiguous dataset, and a committed datatype.
    fn example(version: u8, flags: u8) -> Vec<u8> {
        let mut builder = Builder::new();
        let raw = builder.put(&[1, 0, 2, 0, 3, 0]);
        let with_attribute = [dataset(&[3], contiguous_message(raw, 6)), vec![attribute()]].concat();
        let contiguous = builder.header(&with_attribute);
        let compact = builder.header(&dataset(&[1], vec![3, 0, 2, 0, 7, 0]));
        let datatype = builder.header(&dataset(&[], vec![])[1..2]);
        let links = [link_info(false), hard("d", contiguous), hard("c", compact), hard("t", datatype)];
        let root = builder.header(&links);
        builder.finish(root, version, flags)
    }

    /// Reads everything and describes it.
    fn walk(file: &File) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for link in file.root()?.links()? {
            let (name, attributes) = match file.node(&link.name)? {
                Node::Group(group) => ("group".to_owned(), group.attributes()?),
                Node::Datatype(datatype) => (format!("type {}", datatype.path), datatype.attributes),
                Node::Dataset(dataset) => {
                    let read = elements(&*dataset.layout()?)?;
                    (format!("{} {read:?}", dataset.path()), dataset.attributes()?)
                }
            };
            found.push(name);
            for attribute in attributes {
                found.push(format!("@{} {:?}", attribute.name, attribute.values()?));
            }
        }
        Ok(found)
    }

    #[test]
    fn what_is_in_a_file() {
        let file = open(&example(2, 0)).unwrap();
        assert_eq!(walk(&file).unwrap(), ["c [7, 0]", "d [1, 0, 2, 0, 3, 0]", "@a [5, 0]", "type t"]);
    }

    #[test]
    fn user_blocks() {
        for before in [512, 1024, 4096] {
            let mut bytes = vec![7; before];
            bytes.extend(example(2, 0));
            assert_eq!(walk(&open(&bytes).unwrap()).unwrap()[1], "d [1, 0, 2, 0, 3, 0]");
            let store = store("f", &bytes);
            assert!(File::is_hdf5(&*store, "f").unwrap());
            assert!(!File::is_hdf5(&*store, "g").unwrap());
        }
        let mut elsewhere = vec![0; 600];
        elsewhere.extend(example(2, 0));
        assert!(matches!(open(&elsewhere), Err(Hdf5Error::NotHdf5 { .. })));
        assert!(matches!(open(b"short"), Err(Hdf5Error::NotHdf5 { .. })));
    }

    #[test]
    fn files_that_are_not_whole() {
        let bytes = example(3, 0);
        fails(open(&bytes[..bytes.len() - 1]), "truncated");
        fails(open(&example(3, 1)), "open for writing");
        // With SWMR the file may still grow, so a short file is accepted.
        let bytes = example(3, 5);
        assert!(open(&bytes[..bytes.len() - 1]).is_ok());
        assert_eq!(walk(&open(&bytes).unwrap()).unwrap().len(), 4);
    }

    #[test]
    fn what_changes_is_read_again() {
        let bytes = example(3, 5);
        let root = u64::from_le_bytes(bytes[36..44].try_into().unwrap()) as usize;
        let mut torn = bytes.clone();
        torn[root + 12] ^= 1;
        let store = store("f", &torn);
        let write = |bytes: &[u8]| store.write(Key::new("f").unwrap(), &[bytes]).unwrap();
        let file = File::open(store.clone(), "f", FileOptions::default()).unwrap();
        let mut attempts = 0;
        let header = file.retry_if_written(|| {
            attempts += 1;
            if attempts == 3 {
                write(&bytes);
            }
            ObjectHeader::read(file.source(), file.inner.superblock.root)
        });
        assert_eq!((header.is_ok(), attempts), (true, 3));
        // Without a writer the error comes at once.
        let closed = open(&example(3, 0)).unwrap();
        let mut attempts = 0;
        let error = closed.retry_if_written(|| {
            attempts += 1;
            ObjectHeader::read(closed.source(), 1)
        });
        assert!(error.is_err() && attempts == 1);
    }

    #[test]
    fn shared_messages_lead_somewhere() {
        let mut builder = Builder::new();
        // The header at 48 says that its datatype is in the header at 48.
        let block = structure!([3, 10, 0, 2, 3, 2], 48_u64);
        builder.put(&append_checksum(structure!(b"OHDR\x02\0", block.len() as u8, block)));
        let root = builder.header(&[link_info(false), hard("t", 48)]);
        fails(open(&builder.finish(root, 2, 0)).unwrap().node("t"), "in a circle");
    }

    #[test]
    fn any_change_is_an_error_or_a_value() {
        mutations(&example(2, 0), |source| {
            let options = FileOptions { verify: source.verify(), others: None };
            if let Ok(file) = File::open(source.store().clone(), "f", options) {
                let _ = walk(&file);
            }
        });
    }
}
