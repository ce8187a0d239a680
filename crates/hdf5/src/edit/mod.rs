//! Changes of a file: what every writer of HDF5 does, through [`Editing`].
//!
//! Changed objects are values in memory ([`object`]). Readers of this process see these values;
//! elements are in the file at once, at addresses that the file on disk does not refer to yet. A
//! [flush](flush) writes the structures of all changed objects behind everything else, and then
//! switches one object after the other with one small write each. A killed writer therefore leaves
//! a file in which each object is as it was before the flush, or after it.
//!
//! The address of an object's header is its identity. It never changes.

mod attributes;
mod chunk_table;
mod flush;
mod free_space;
mod group;
mod heap;
#[cfg(test)]
mod kills;
mod links;
mod object;
pub(crate) mod redo;
mod space;
mod superblock;
#[cfg(test)]
mod tests;
mod values;

pub use chunk_table::{ChunkPlace, ChunkTable};
pub(crate) use links::Links;

use crate::data_layout::{self, ChunkIndexKind, DataLayout};
use crate::dataspace::{self, Dataspace};
use crate::error::{BuildError, Built};
use crate::index::version1_places;
use crate::messages::Message;
use crate::new_file::{NewKind, NewObject};
use crate::object_header::{NewMessage, ObjectHeader};
use crate::output::NEW_SIZES;
use crate::{Bytes, File, FileOptions, Hdf5Error, Libver, Result, Source};
use heap::OpenCollection;
use hyperslab_store::fork::Mutex;
use hyperslab_store::{EditedFile, turns};
use links::message_of;
use object::Object;
use space::Space;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Options of a new file.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewFile {
    /// The versions of HDF5 that read it.
    pub libver: Libver,
    /// Bytes before the superblock: 0, 512, 1024, 2048, …
    pub user_block: u64,
    /// `true`: the root group keeps the order of its links and attributes.
    pub track_order: bool,
}

/// State of the layer above for one dataset, which holds elements that are not in the file yet.
pub trait Attached: Any + Debug + Send + Sync {
    /// Writes these elements to the file. Called before each flush, and before readers of the layer
    /// below look for them.
    fn settle(&self, editing: &Editing) -> Result<()>;
}

/// The changes of an open file.
#[derive(Debug)]
pub(crate) struct Edits {
    bytes: Arc<EditedFile>,
    libver: Libver,
    /// Gated.
    space: Mutex<Space>,
    /// Gated. The superblock, and the end of the file in it.
    superblock: Mutex<(superblock::Place, u64)>,
    /// Gated. The collection that has room, and whether there was one before.
    heap: Mutex<(Option<OpenCollection>, bool)>,
    /// Gated. The changed objects by address.
    objects: Mutex<BTreeMap<u64, Object>>,
    /// Gated. Space that older states of the file on disk refer to.
    freed: Mutex<Vec<(u64, u64)>>,
    /// Gated.
    attached: Mutex<BTreeMap<u64, Arc<dyn Attached>>>,
    /// Bytes that attached states hold in memory.
    held: AtomicU64,
    /// Reads of elements that are under way.
    readers: Arc<AtomicUsize>,
    /// Gated. Space that such reads may still look at.
    leaving: Mutex<Vec<(u64, u64)>>,
    /// The turn of the thread that flushes, or that adds values.
    flushing: u64,
    adding: u64,
    /// The file is new, and has no superblock yet.
    is_blank: AtomicBool,
}

impl Edits {
    fn new(
        bytes: Arc<EditedFile>,
        libver: Libver,
        used: u64,
        place: superblock::Place,
        is_blank: bool,
    ) -> Edits {
        Edits {
            bytes,
            libver,
            space: Mutex::new(Space::new(used)),
            superblock: Mutex::new((place, used)),
            heap: Mutex::default(),
            objects: Mutex::default(),
            freed: Mutex::default(),
            attached: Mutex::default(),
            held: AtomicU64::new(0),
            readers: Arc::default(),
            leaving: Mutex::default(),
            flushing: turns::number(),
            adding: turns::number(),
            is_blank: AtomicBool::new(is_blank),
        }
    }

    /// Returns the header of a changed object.
    pub(crate) fn header(&self, address: u64) -> Option<Arc<ObjectHeader>> {
        self.objects.lock().get(&address).map(|object| object.shown.clone())
    }

    /// Returns the links of a changed group.
    pub(crate) fn links(&self, group: u64) -> Option<Arc<Links>> {
        self.objects.lock().get(&group).and_then(|object| object.links.clone())
    }

    /// Returns the chunks of a changed dataset.
    pub(crate) fn chunks(&self, dataset: u64) -> Option<Arc<ChunkTable>> {
        self.objects.lock().get(&dataset).and_then(|object| object.chunks.clone())
    }
}

/// Completes the changes of a writer that was killed.
fn complete(bytes: &Arc<EditedFile>, base: u64, end: u64, verify: bool) -> Result<()> {
    let source = Source::new(bytes.clone(), bytes.key(), base)?.with_format(NEW_SIZES, verify);
    let switches = redo::pending(&source, end)?;
    if switches.is_empty() {
        return Ok(());
    }
    for switch in switches {
        bytes.write_at(base.saturating_add(switch.address), &switch.new)?;
    }
    bytes.sync()?;
    let slot = base.saturating_add(end).saturating_sub(redo::SLOT);
    Ok(bytes.write_at(slot, &redo::build_slot(redo::Slot::Clean))?)
}

/// A file that is open for changes.
#[derive(Clone, Debug)]
pub struct Editing {
    file: File,
    edits: Arc<Edits>,
}

impl File {
    /// Makes a new file in `bytes`, which must be empty. It has its name, and is a file for others,
    /// from its first [`Editing::flush`] on.
    pub fn create(bytes: Arc<EditedFile>, new: NewFile, options: FileOptions) -> Result<File> {
        let source = Source::new(bytes.clone(), bytes.key(), new.user_block)?;
        let len = match new.libver {
            Libver::Earliest => crate::superblock::OLD_LEN,
            Libver::V110 => crate::superblock::NEW_LEN,
        };
        let mut space = Space::new(len as u64);
        let no_space = || source.invalid("a file without space");
        let root = space.take_header().ok_or_else(no_space)?;
        source.grow(space.used());
        let place = superblock::Place::new(new.user_block, root, new.libver);
        let mut edits = Edits::new(bytes, new.libver, 0, place, true);
        edits.space = Mutex::new(space);
        let superblock = crate::superblock::Superblock {
            sizes: source.sizes(),
            base: new.user_block,
            end: None,
            root,
            extension: None,
            driver: None,
            writing: false,
            swmr: false,
        };
        let file = File::assemble(source, superblock, options, Some(Arc::new(edits)));
        if let Some(editing) = file.editing() {
            let kind = NewKind::Group { links: Vec::new(), tracks_links: new.track_order };
            let group = NewObject {
                path: String::new(),
                kind,
                attributes: Vec::new(),
                tracks_attributes: new.track_order,
            };
            let mut object = editing.object_of(&group, root)?;
            object.links_to = 1;
            editing.edits.objects.lock().insert(root, object);
        }
        Ok(file)
    }

    /// Opens a file to change it.
    ///
    /// Fails like [`File::open`], and with [`Hdf5Error::Unsupported`] for a file that could not be
    /// changed without damage.
    pub fn edit(bytes: Arc<EditedFile>, libver: Libver, options: FileOptions) -> Result<File> {
        let read = File::open(bytes.clone(), bytes.key(), options.clone())?;
        let (superblock, source) = (read.inner.superblock.clone(), read.source());
        let refuse = |what: &str| source.unsupported(format!("changing {what}"));
        if superblock.driver.is_some() {
            return Err(refuse("a file that is split into several files"));
        }
        if superblock.writing || superblock.swmr {
            return Err(Hdf5Error::Unclosed { file: source.name() });
        }
        if let Some(extension) = superblock.extension {
            let header = read.header(extension)?;
            for (kind, what) in [
                (0x0f, "a file with a table of shared messages"),
                (0x13, "a file with B-tree nodes of other sizes"),
                (0x14, "a file that is split into several files"),
                (0x17, "a file that keeps a list of its free space, or has pages,"),
                (0x18, "a file with a metadata cache image"),
            ] {
                if header.message(kind).is_some() {
                    return Err(refuse(what));
                }
            }
        }
        let place = superblock::Place::read(source)?.map_err(|what| refuse(&what))?;
        let end = superblock.end_from(source.base()).unwrap_or(source.size());
        let end = end.saturating_sub(source.base());
        complete(&bytes, source.base(), end, options.verify)?;
        let new = Source::new(bytes.clone(), bytes.key(), source.base())?;
        let new = new.with_format(superblock.sizes, options.verify);
        // A file of a killed writer has room behind its end, whose bytes are not zero.
        let used = end.max(new.end());
        let free = match bytes.was_alone() {
            true => free_space::take(&bytes, &new, end)?,
            false => Vec::new(),
        };
        let edits = Edits::new(bytes, libver, used, place, false);
        edits.space.lock().add_free(free);
        edits.space.lock().has_bytes_up_to(source.size().saturating_sub(source.base()));
        Ok(File::assemble(new, superblock, options, Some(Arc::new(edits))))
    }

    /// Returns the file as one that can be changed. `None`: it was opened for reading.
    pub fn editing(&self) -> Option<Editing> {
        self.inner.edits.clone().map(|edits| Editing { file: self.clone(), edits })
    }
}

impl Editing {
    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The versions of HDF5 that read new objects.
    pub fn libver(&self) -> Libver {
        self.edits.libver
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> &Arc<EditedFile> {
        &self.edits.bytes
    }

    // Objects.

    /// Makes an object without a name. Returns the address of its header.
    ///
    /// In values, a [`Part::Object`](crate::new_file::Part::Object) has the address of the object.
    /// Fails with [`Hdf5Error::Unstorable`] if HDF5 cannot store it. An object that has no name at
    /// a flush is not written.
    pub fn create_object(&self, object: &NewObject) -> Result<u64> {
        // Built before it gets its place: a refused object takes none.
        let made = self.object_of(object, 0)?;
        let address = self.take(|space| space.take_header())?;
        let mut made = Object { address, ..made };
        self.place_compact(&mut made)?;
        made.changed();
        self.edits.objects.lock().insert(address, made);
        if let NewKind::Group { links, .. } = &object.kind {
            for new in links {
                let target = match &new.target {
                    crate::new_file::NewTarget::Object(address) => crate::LinkTarget::Hard(*address as u64),
                    crate::new_file::NewTarget::Soft(path) => crate::LinkTarget::Soft(path.clone()),
                    crate::new_file::NewTarget::External { file, path } => {
                        crate::LinkTarget::External { file: file.clone(), path: path.clone() }
                    }
                };
                self.link(address, &new.name, target)?;
            }
        }
        Ok(address)
    }

    /// Builds the messages of a new object.
    fn object_of(&self, new: &NewObject, address: u64) -> Result<Object> {
        let libver = self.edits.libver;
        let unstorable =
            |why: BuildError| Hdf5Error::Unstorable { object: format!("/{}", new.path), why: why.0 };
        let mut places = self.places();
        let mut build = || -> Built<Object> {
            let is_new_version = libver != Libver::Earliest || new.tracks_attributes;
            let (messages, links) = match &new.kind {
                NewKind::Group { tracks_links, .. } => {
                    let (messages, links) = links::messages_of_new(*tracks_links, libver)?;
                    (messages, Some(Arc::new(links)))
                }
                NewKind::Dataset(dataset) => {
                    let fill = dataset.fill(&mut places)?;
                    let index = dataset.unplaced_index(libver);
                    let messages = dataset.messages(index.as_ref(), fill, libver)?;
                    (messages.into_iter().map(message_of).collect(), None)
                }
                NewKind::Datatype(datatype) => {
                    let data = datatype.build(libver)?;
                    let message = NewMessage { kind: crate::datatype::KIND, constant: true, data };
                    (vec![message_of(message)], None)
                }
            };
            let mut object = Object::new(address, messages, is_new_version, new.tracks_attributes);
            object.links = links;
            for attribute in &new.attributes {
                let message = attribute.message(&mut places, libver)?;
                object.put_attribute(None, message.data)?;
            }
            object.changed();
            Ok(object)
        };
        let built = build();
        places.finish()?;
        built.map_err(unstorable)
    }

    /// Returns what `read` finds in a changed object. The object is loaded if it was not changed
    /// before.
    fn with<R>(&self, address: u64, read: impl FnOnce(&mut Object) -> R) -> Result<R> {
        if !self.edits.objects.lock().contains_key(&address) {
            let header = self.file.header(address)?;
            let mut object = Object::of(&header);
            self.load_attributes(&mut object)?;
            let mut objects = self.edits.objects.lock();
            objects.entry(address).or_insert(object);
        }
        let mut objects = self.edits.objects.lock();
        match objects.get_mut(&address) {
            Some(object) => Ok(read(object)),
            None => Err(self.file.source().invalid(format!("there is no object at address {address}"))),
        }
    }

    /// Changes an object. If `change` fails, the object stays as it was.
    fn change<R>(&self, address: u64, change: impl FnOnce(&mut Object) -> Built<R>) -> Result<R> {
        let done = self.with_room(address, |object| {
            let before = object.clone();
            let done = change(object);
            match &done {
                Ok(_) => object.changed(),
                Err(_) => *object = before,
            }
            done
        })?;
        done.map_err(|why| self.unstorable(address, why))
    }

    /// Changes an object in a way that cannot fail.
    fn update<R>(&self, address: u64, change: impl FnOnce(&mut Object) -> R) -> Result<R> {
        self.with_room(address, |object| {
            let done = change(object);
            object.changed();
            done
        })
    }

    /// Runs `change` on an object whose header has room for a stub.
    fn with_room<R>(&self, address: u64, change: impl FnOnce(&mut Object) -> R) -> Result<R> {
        let source = self.file.source();
        self.with(address, |object| {
            if let Some(room) = object.room_for_stub()
                && object.build_stub(0, (0, 0)).map_or(0, |stub| stub.len() as u64) > room
            {
                let what = format!("changing an object whose header has only {room} bytes at first");
                return Err(source.unsupported(what));
            }
            Ok(change(object))
        })?
    }

    /// Counts changes of the shape, the layout and the type of an object. Handles that see another
    /// number open the object again.
    pub fn version(&self, object: u64) -> u64 {
        self.edits.objects.lock().get(&object).map_or(0, |object| object.version)
    }

    // Elements.

    /// Reserves `len` bytes that no one else uses. Unwritten bytes read as zeros in a new part of
    /// the file only.
    pub fn allocate(&self, len: u64) -> Result<u64> {
        self.take(|space| space.take(len, 8))
    }

    fn take(&self, take: impl FnOnce(&mut Space) -> Option<u64>) -> Result<u64> {
        let (at, used) = {
            let mut space = self.edits.space.lock();
            (take(&mut space), space.used())
        };
        self.file.source().grow(used);
        at.ok_or_else(|| self.file.source().invalid("it has no more addresses: expected less than 2⁶³ bytes"))
    }

    /// Gives back bytes that were reserved since the last flush, and that nothing refers to.
    ///
    /// Others get them once no read of elements is under way that began before.
    pub fn free(&self, address: u64, len: u64) {
        if !self.edits.space.lock().is_flushing {
            self.edits.leaving.lock().push((address, len));
            self.free_unread();
        }
    }

    fn free_unread(&self) {
        let mut leaving = self.edits.leaving.lock();
        if self.edits.readers.load(Ordering::SeqCst) > 0 {
            return;
        }
        let unread = std::mem::take(&mut *leaving);
        drop(leaving);
        let mut space = self.edits.space.lock();
        for (address, len) in unread {
            space.give(address, len);
        }
    }

    /// Counts reads of elements that are under way.
    pub fn readers(&self) -> &Arc<AtomicUsize> {
        &self.edits.readers
    }

    /// Counts the bytes that attached states hold in memory.
    pub fn held(&self) -> &AtomicU64 {
        &self.edits.held
    }

    /// Like [`Editing::allocate`], but all bytes are zero.
    pub fn allocate_zeros(&self, len: u64) -> Result<u64> {
        const PIECE: u64 = 1 << 20;
        let mut used_before = 0;
        let address = self.take(|space| {
            let (at, used) = space.take_clean(len, 8)?;
            used_before = used;
            Some(at)
        })?;
        let zeros = vec![0; usize::try_from(used_before.min(PIECE)).unwrap_or_default()];
        let mut at = 0;
        while at < used_before {
            let piece = usize::try_from(used_before - at).ok().and_then(|left| zeros.get(..left));
            let piece = piece.unwrap_or(&zeros);
            self.write(address.saturating_add(at), &[piece])?;
            at = at.saturating_add(piece.len() as u64);
        }
        Ok(address)
    }

    /// Writes bytes at an address.
    pub fn write(&self, address: u64, parts: &[&[u8]]) -> Result<()> {
        let source = self.file.source();
        let start = source.base().saturating_add(address);
        let mut at = start;
        for part in parts {
            self.edits.bytes.write_at(at, part)?;
            at = at.saturating_add(part.len() as u64);
        }
        source.drop_pages(start, at);
        Ok(())
    }

    /// Returns the chunks of a dataset, for all handles of this file.
    pub fn chunk_table(&self, dataset: u64) -> Result<Arc<ChunkTable>> {
        if let Some(table) = self.edits.chunks(dataset) {
            return Ok(table);
        }
        let table = self.read_table(dataset)?;
        self.with(dataset, |object| object.chunks.get_or_insert(table).clone())
    }

    fn read_table(&self, dataset: u64) -> Result<Arc<ChunkTable>> {
        let crate::Node::Dataset(found) = self.file.object_at(dataset, "")? else {
            return Err(self
                .file
                .source()
                .invalid(format!("the object at address {dataset} is not a dataset")));
        };
        let DataLayout::Chunked(layout) = found.data_layout() else {
            return Err(self
                .file
                .source()
                .invalid(format!("the dataset at address {dataset} has no chunks")));
        };
        let axes = found.dataspace().shape().iter().zip(&layout.chunk);
        let counts: Vec<u64> = axes.map(|(n, chunk)| n.div_ceil((*chunk).max(1))).collect();
        let index = found.stored_index()?;
        let mut records = index.map_or_else(Vec::new, |index| index.records.clone());
        if layout.edges_unfiltered {
            // The new layout does not say so any more: each of these chunks does.
            let all = u32::MAX
                .checked_shr(32_u32.saturating_sub(u32::try_from(found.filters().len()).unwrap_or(32)))
                .unwrap_or(0);
            for record in &mut records {
                let place = crate::index::place(record.number, &counts);
                let axes = place.iter().zip(&layout.chunk).zip(found.dataspace().shape());
                if axes.into_iter().any(|((at, len), n)| at.saturating_add(1).saturating_mul(*len) > *n) {
                    record.skipped |= all;
                }
            }
        }
        let places = match (&layout.index, layout.address) {
            (ChunkIndexKind::BTree1, Some(root)) => {
                version1_places(self.file.source(), layout.chunk.len(), root)?
            }
            _ => Vec::new(),
        };
        Ok(Arc::new(ChunkTable::of(&records, &counts, places)))
    }

    /// Sets the place of the elements of a contiguous dataset.
    pub fn set_run(&self, dataset: u64, address: u64) -> Result<()> {
        self.change(dataset, |object| {
            let Some(message) = object.message(data_layout::KIND) else {
                return Err(BuildError("it has no data layout message".into()));
            };
            let DataLayout::Contiguous { size, .. } = object::parsed(message, DataLayout::parse)? else {
                return Err(BuildError("its elements are not one run of bytes".into()));
            };
            let size = match size {
                Some(size) => size,
                None => object.elements_len()?,
            };
            object.replace_message(object::contiguous(address, size));
            object.version += 1;
            Ok(())
        })
    }

    /// Replaces elements of a compact dataset, from a byte on.
    pub fn set_compact(&self, dataset: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let changed = self.change(dataset, |object| {
            let Some(message) = object.message(data_layout::KIND) else {
                return Err(BuildError("it has no data layout message".into()));
            };
            let DataLayout::Compact { address, size } = object::parsed(message, DataLayout::parse)? else {
                return Err(BuildError("its elements are not in its header".into()));
            };
            let too_long = || BuildError(format!("{} bytes at {offset} of {size} bytes", bytes.len()));
            let head = usize::try_from(address.saturating_sub(message.address)).map_err(|_| too_long())?;
            let start =
                usize::try_from(offset).ok().and_then(|at| at.checked_add(head)).ok_or_else(too_long)?;
            let mut data = message.data.to_vec();
            let end = start.checked_add(bytes.len()).ok_or_else(too_long)?;
            data.get_mut(start..end).ok_or_else(too_long)?.copy_from_slice(bytes);
            let message = Message { data: Bytes::from(data), ..message.clone() };
            object.replace_message(message);
            Ok(object.clone())
        })?;
        // Readers find the elements in the file, so they are there, too.
        let mut object = changed;
        self.place_compact(&mut object)?;
        let message = object.message(data_layout::KIND).cloned();
        self.with(dataset, |current| {
            if let Some(message) = message {
                current.replace_message(message);
            }
            current.version += 1;
            current.changed();
        })
    }

    /// Writes the elements of a compact dataset to a place of their own, where readers of this
    /// process find them.
    fn place_compact(&self, object: &mut Object) -> Result<()> {
        let Some(message) = object.message(data_layout::KIND).cloned() else { return Ok(()) };
        let Ok(DataLayout::Compact { .. }) = object::parsed(&message, DataLayout::parse) else {
            return Ok(());
        };
        let address = self.allocate(message.data.len() as u64)?;
        self.write(address, &[&message.data])?;
        object.replace_message(Message { address, ..message });
        Ok(())
    }

    /// Sets the shape of a dataset. Chunks beyond it are dropped.
    ///
    /// Fails with [`Hdf5Error::Unstorable`] if the dataset has other axes, or cannot be as long.
    pub fn set_shape(&self, dataset: u64, new: &[u64]) -> Result<()> {
        let libver = self.edits.libver;
        let is_chunked = self.with(dataset, |object| {
            let layout =
                object.message(data_layout::KIND).map(|message| object::parsed(message, DataLayout::parse));
            match layout {
                Some(Ok(DataLayout::Chunked(layout))) => Some(layout.chunk),
                _ => None,
            }
        })?;
        let table = is_chunked.as_ref().map(|_| self.chunk_table(dataset)).transpose()?;
        self.change(dataset, |object| {
            let Dataspace::Simple { shape, max_shape } = object.dataspace()? else {
                return Err(BuildError("a dataset without axes cannot be resized".into()));
            };
            if shape.len() != new.len() {
                let (found, expected) = (new.len(), shape.len());
                return Err(BuildError(format!("expected a shape of {expected} axes, found {found}")));
            }
            let too_long =
                new.iter().zip(&max_shape).position(|(n, most)| most.is_some_and(|most| *n > most));
            if let Some(axis) = too_long {
                return Err(BuildError(format!(
                    "shape {new:?}: axis {axis} is limited by maxshape {max_shape:?}"
                )));
            }
            let dataspace = Dataspace::Simple { shape: new.to_vec(), max_shape };
            let data = dataspace.build(libver)?;
            object.replace_message(message_of(NewMessage { kind: dataspace::KIND, constant: false, data }));
            object.version += 1;
            Ok(())
        })?;
        if let (Some(table), Some(chunk)) = (table, is_chunked) {
            let counts: Vec<u64> = new.iter().zip(&chunk).map(|(n, len)| n.div_ceil((*len).max(1))).collect();
            for removed in table.crop(&counts) {
                if !removed.is_flushed {
                    self.free(removed.address, removed.size);
                }
            }
        }
        Ok(())
    }

    /// Returns the state that the layer above attached to a dataset, or attaches it.
    pub fn attached(&self, dataset: u64, make: impl FnOnce() -> Arc<dyn Attached>) -> Arc<dyn Attached> {
        if let Some(found) = self.edits.attached.lock().get(&dataset) {
            return found.clone();
        }
        let new = make();
        self.edits.attached.lock().entry(dataset).or_insert(new).clone()
    }

    /// Calls [`Attached::settle`] of all states.
    pub fn settle(&self) -> Result<()> {
        let attached: Vec<_> = self.edits.attached.lock().values().cloned().collect();
        attached.iter().try_for_each(|one| one.settle(self))
    }

    /// Calls [`Attached::settle`] of the state of a dataset, if it has one.
    pub(crate) fn settle_one(&self, dataset: u64) -> Result<()> {
        self.find_attached(dataset).map_or(Ok(()), |one| one.settle(self))
    }

    /// Returns the state that is attached to a dataset.
    pub fn find_attached(&self, dataset: u64) -> Option<Arc<dyn Attached>> {
        self.edits.attached.lock().get(&dataset).cloned()
    }
}

impl Object {
    /// Bytes of all elements of a dataset.
    fn elements_len(&self) -> Built<u64> {
        let count = self.dataspace()?.count();
        let message = self.message(crate::datatype::KIND);
        let message = message.ok_or_else(|| BuildError("it has no datatype message".into()))?;
        let datatype = object::parsed(message, crate::datatype::Datatype::parse)?;
        let len = count.and_then(|count| count.checked_mul(datatype.size.into()));
        len.ok_or_else(|| BuildError("its elements have more than 2⁶⁴ bytes".into()))
    }
}
