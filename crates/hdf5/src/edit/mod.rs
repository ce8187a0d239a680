//! Changes of a file: what every writer of HDF5 does, through [`Editing`].
//!
//! Changed objects are values in memory (`object`). Readers of this process see these values;
//! elements are in the file at once, at addresses that the file on disk does not refer to yet. A
//! flush (`flush`) writes the structures of all changed objects behind everything else, and then
//! switches one object after the other with one small write each. A killed writer therefore leaves
//! a file in which each object is as it was before the flush, or after it.
//!
//! The address of an object's header is its identity. It never changes.

mod attributes;
mod chunk_table;
mod committed;
mod elements;
mod flush;
mod flush_every;
pub(crate) mod free_space;
mod group;
mod heap;
#[cfg(test)]
mod kills;
mod links;
mod merge;
mod object;
mod open;
mod options;
mod paged;
#[cfg(test)]
mod path_tests;
pub(crate) mod redo;
mod scale_users;
mod shared;
#[cfg(test)]
mod shared_tests;
mod space;
mod superblock;
#[cfg(test)]
mod tests;
mod value_writer;
mod values;

pub use chunk_table::{ChunkPlace, ChunkTable};
pub(crate) use links::Links;
pub use merge::{COPIED, ChunkConflict, merge_elements};
pub use options::ObjectOptions;
pub use scale_users::{REFERENCE_LIST, reference_list_type};
pub use value_writer::ValueWriter;

use crate::error::{BuildError, Built};
use crate::new_file::{NewKind, NewObject};
use crate::object_header::{NewMessage, ObjectHeader};
use crate::{File, Hdf5Error, Libver, Result};
use heap::OpenCollection;
use hyperslab_store::fork::Mutex;
use hyperslab_store::{EditedFile, turns};
use links::message_of;
use object::Object;
use redo::RecordPlace;
use space::Space;
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Options of a new file.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewFile {
    /// The versions of HDF5 that read it.
    pub libver: Libver,
    /// Bytes before the superblock: 0, 512, 1024, 2048, …
    pub user_block: u64,
    /// `true`: the root group keeps the order of its links and attributes.
    pub track_order: bool,
    /// How the HDF5 library manages the space of the file. It is only recorded. `None`: as usual.
    pub space: Option<FileSpace>,
}

/// How the HDF5 library manages the space of a file, when it changes the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSpace {
    /// The library's number: 0 for lists and aggregators of free space, 2 for aggregators, 3 for
    /// neither. (1 is for [pages](crate::compact::Pages).)
    pub strategy: u8,
    /// Free ranges that are shorter are not used.
    pub threshold: u64,
}

/// State of the layer above for one dataset, which holds elements that are not in the file yet.
pub trait Attached: Any + Debug + Send + Sync {
    /// Writes these elements to the file. Called before each flush, and before readers of the layer
    /// below look for them.
    fn settle(&self, editing: &Editing) -> Result<()>;

    /// Turn of the thread that changes elements in one run. `None`: the elements are in chunks.
    fn turn(&self) -> Option<u64>;

    /// Lets go of elements in memory that another writer has changed in the file.
    fn reload(&self, editing: &Editing);

    /// Merges a chunk that another writer has changed, too. The chunk in the table is this writer's.
    fn merge(&self, editing: &Editing, place: &[u64], conflict: ChunkConflict) -> Result<()>;
}

/// The changes of an open file.
#[derive(Debug)]
pub(crate) struct Edits {
    bytes: Arc<EditedFile>,
    libver: Libver,
    /// Gated.
    space: Mutex<Space>,
    /// Gated.
    superblock: Mutex<superblock::Place>,
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
    /// The turn of the thread that flushes, that adds values, that writes the collection which takes
    /// them, or that takes a part of the file.
    flushing: u64,
    adding: u64,
    collecting: u64,
    extending: u64,
    /// Flushes that are under way.
    flushes: AtomicUsize,
    flush_every: flush_every::FlushEvery,
    /// The number of flushes of all writers, as this one knows it.
    generation: AtomicU32,
    /// Counts the times that changes of others were read.
    epoch: AtomicU64,
    /// `true` if this writer has taken a part of the file.
    has_part: AtomicBool,
    /// `true` if steps were appended since the last flush.
    has_appended: AtomicBool,
    /// Gated. The list of free space that this writer may use.
    list: Mutex<Option<RecordPlace>>,
    /// The file is new, and has no superblock yet.
    is_blank: AtomicBool,
    /// Gated.
    paged: Mutex<Option<paged::Paged>>,
}

impl Edits {
    fn new(
        bytes: Arc<EditedFile>,
        libver: Libver,
        space: Space,
        place: superblock::Place,
        is_blank: bool,
    ) -> Edits {
        Edits {
            bytes,
            libver,
            space: Mutex::new(space),
            superblock: Mutex::new(place),
            heap: Mutex::default(),
            objects: Mutex::default(),
            freed: Mutex::default(),
            attached: Mutex::default(),
            held: AtomicU64::new(0),
            readers: Arc::default(),
            leaving: Mutex::default(),
            flushing: turns::number(),
            adding: turns::number(),
            collecting: turns::number(),
            extending: turns::number(),
            flushes: AtomicUsize::new(0),
            flush_every: flush_every::FlushEvery::default(),
            generation: AtomicU32::new(0),
            epoch: AtomicU64::new(0),
            has_part: AtomicBool::new(false),
            has_appended: AtomicBool::new(false),
            list: Mutex::default(),
            is_blank: AtomicBool::new(is_blank),
            paged: Mutex::default(),
        }
    }

    /// The bytes of the file.
    pub(crate) fn bytes(&self) -> &EditedFile {
        &self.bytes
    }

    /// Returns the header of a changed object.
    pub(crate) fn header(&self, address: u64) -> Option<Arc<ObjectHeader>> {
        self.objects.lock().get_mut(&address).map(|object| {
            // A list that cannot be built is refused when it is added to.
            let _ = object.settle_users(self.libver);
            object.shown()
        })
    }

    /// Returns the number of links to a changed object.
    pub(crate) fn links_to(&self, address: u64) -> Option<u32> {
        self.objects.lock().get(&address).map(|object| object.links_to)
    }

    /// Returns `true` if an object has lost its last name. `None`: it is not changed.
    pub(crate) fn is_deleted(&self, address: u64) -> Option<bool> {
        let objects = self.objects.lock();
        objects.get(&address).map(|object| object.links_to == 0 && object.had_name)
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

/// A file that is open for changes.
#[derive(Clone, Debug)]
pub struct Editing {
    file: File,
    edits: Arc<Edits>,
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

    /// Returns `true` during a flush: the file on disk may refer to any element soon.
    ///
    /// A flush begins with [`Attached::settle`].
    pub fn is_flushing(&self) -> bool {
        self.edits.flushes.load(Ordering::SeqCst) > 0
    }

    /// Returns `true` if the file was never flushed, so that no other writer can have it open.
    pub fn is_blank(&self) -> bool {
        self.edits.is_blank.load(Ordering::Acquire)
    }

    // Objects.

    /// Makes an object without a name. Returns the address of its header.
    ///
    /// In values, a [`ValuePart::Object`](crate::new_file::ValuePart::Object) has the address of the object.
    /// Fails with [`Hdf5Error::Unstorable`] if HDF5 cannot store it. An object that has no name at
    /// a flush is not written.
    pub fn create_object(&self, object: &NewObject) -> Result<u64> {
        self.create(object, None)
    }

    /// Makes a contiguous dataset with its stored elements, like [`Editing::create_object`].
    pub fn create_with_elements(&self, dataset: &NewObject, elements: &[u8]) -> Result<u64> {
        self.create(dataset, Some(elements))
    }

    fn create(&self, object: &NewObject, elements: Option<&[u8]>) -> Result<u64> {
        // Built before it gets its place: a refused object takes none.
        let made = self.object_of(object, 0)?;
        let address = self.take(0, Space::take_header)?;
        let mut made = Object { address, ..made };
        self.place_compact(&mut made)?;
        if let Some(elements) = elements {
            let run = self.allocate(elements.len() as u64)?;
            self.write(run, &[elements])?;
            made.replace_message(object::contiguous(run, elements.len() as u64));
        }
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
        let libver = self.libver();
        let done = self.with_raw(address, |object| object.settle_users(libver).map(|()| read(object)))?;
        done.map_err(|why| self.unstorable(address, why))
    }

    /// Like `with`, while users of a scale may wait to be put into its attribute.
    fn with_raw<R>(&self, address: u64, read: impl FnOnce(&mut Object) -> R) -> Result<R> {
        loop {
            if let Some(object) = self.edits.objects.lock().get_mut(&address) {
                return Ok(read(object));
            }
            let epoch = self.epoch();
            let header = self.file.header(address)?;
            let mut object = Object::of(&header);
            attributes::load(&self.file, &mut object)?;
            object.base = object.as_base(&header.blocks);
            let mut objects = self.edits.objects.lock();
            // Otherwise another writer has flushed meanwhile.
            if self.epoch() == epoch {
                return Ok(read(objects.entry(address).or_insert(object)));
            }
        }
    }

    /// Changes an object. If `change` fails, the object stays as it was.
    fn change<R>(&self, address: u64, change: impl FnOnce(&mut Object) -> Built<R>) -> Result<R> {
        self.try_change(address, |object| {
            let before = object.clone();
            change(object).inspect_err(|_| *object = before)
        })
    }

    /// Changes an object. `change` leaves the object as it was if it fails.
    fn try_change<R>(&self, address: u64, change: impl FnOnce(&mut Object) -> Built<R>) -> Result<R> {
        let done = self.with_room(address, |object| change(object).inspect(|_| object.changed()))?;
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
        let version = self.edits.objects.lock().get(&object).map_or(0, |object| object.version);
        // Another writer may have changed any object.
        self.epoch().wrapping_shl(32).wrapping_add(version)
    }
}
