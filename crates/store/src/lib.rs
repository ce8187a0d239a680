//! Byte ranges of keyed objects.
//!
//! A [`Store`] maps keys (`"temperature/c/0/1"`) to whole objects (bytes). It knows nothing of
//! arrays. The engine asks for exact byte ranges, many at once, into memory that the engine owns;
//! and it replaces whole objects atomically: a reader sees the old object or the new one, never a
//! mixture, and a writer that dies leaves the old.
//!
//! [`LocalStore`] keeps objects as files below a directory, [`MemoryStore`] in memory.
//! [`FileStore`] reads one file that stays open, [`SegmentStore`] one object that is put together
//! of parts of others. [`ZipStore`] has the members of a zip archive, which is an object of any
//! store. [`contract`] is the test suite that every store must pass; those that only
//! read, the reading half of it.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

pub mod contract;
mod descriptors;
pub mod ending;
mod error;
pub mod fork;
mod gathered;
mod hash;
mod key;
mod local;
mod lock;
mod mark;
mod memory;
mod segments;
mod staged;
mod stamp;
pub mod turns;
pub mod waiting;
mod zip;

pub use error::{BrokenReference, Operation, Refusal, Result, StoreError, Unread};
pub use key::Key;
pub use local::{FileStore, LocalOptions, LocalStore, replace_directory};
pub use lock::{Expected, ObjectLock, Version};
pub use mark::Mark;
pub use memory::MemoryStore;
pub use segments::{Segment, SegmentStore};
pub use staged::Staged;
pub use stamp::{Stamp, Stamped};
pub use turns::Ask;
pub use zip::{ZipError, ZipMode, ZipStore};

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// One wanted byte range of an object, and the memory that it goes to (`buf.len()` bytes from
/// `offset`).
#[derive(Debug)]
pub struct RangeRead<'a> {
    /// Bytes from the start of the object.
    pub offset: u64,
    /// Where the bytes go; filled completely or an error is returned.
    pub buf: &'a mut [u8],
}

/// An object that is open. Whatever is read from it is of the contents that it had when it was
/// opened, also when it has been replaced since.
pub trait Opened: Send + Sync + Debug {
    /// Reads ranges, with the errors of [`Store::read_ranges`].
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()>;

    /// Says which ranges, each an offset and a length, [`Opened::read_ranges`] is asked for next. A
    /// store far away begins to fetch them, and the caller goes on to announce what it needs of
    /// other objects: all of it takes the time of one request. `requests` is this object's share of
    /// those that go together: the store joins near ranges until there are so few, unless that takes
    /// longer than another request. Errors are told when the ranges are read. The default, for stores
    /// that answer at once, does nothing.
    fn announce(&self, ranges: &[(u64, u64)], requests: usize) {
        let _ = (ranges, requests);
    }

    /// Bytes of the object, as it was when it was opened.
    fn size(&self) -> u64;

    /// Which contents these are, to be compared with stamps that came with bytes: as
    /// [`Store::stamp`], of what was opened. Found out by opening; asking costs nothing.
    fn stamp(&self) -> Option<Stamp> {
        None
    }

    /// The stamp under which everything that has been read from this object until now may be kept,
    /// as with [`Store::read_all_stamped`].
    fn vouched(&self) -> Option<Stamp> {
        None
    }

    /// The bytes of a range where they lie in memory in one piece: the store has them there anyway,
    /// or they are on their way, and this waits for them. `None`: [`Opened::read_ranges`] reads them.
    fn lend(&self, offset: u64, len: u64) -> Result<Option<Lent>> {
        let _ = (offset, len);
        Ok(None)
    }

    /// What its server calls these contents, for a store that replaces objects by conditional
    /// requests ([`Store::swap`]). `None`: it has no server, or the server tells no versions.
    fn version(&self) -> Option<Version<'_>> {
        None
    }

    /// The file behind it, for copies inside the kernel.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A new object under construction ([`Store::replace`]), which nobody sees until
/// [`Replacement::commit`]. Dropped without that, nothing of it is left, and what was there before
/// stays.
///
/// After an error, `commit` fails: the object may be incomplete. Drop it.
pub trait Replacement: Send + Debug {
    /// Bytes so far.
    fn len(&self) -> u64;

    /// Whether there are no bytes so far.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the concatenation of `parts`.
    fn append(&mut self, parts: &[&[u8]]) -> Result<()>;

    /// Overwrites bytes that are there. [`StoreError::OutOfRange`] where not all of them are.
    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Appends a range of an open object, of this store or another; not through the memory of this
    /// process where the system can do that. [`StoreError::OutOfRange`], which names this object's
    /// key, if that object is shorter.
    fn copy(&mut self, from: &dyn Opened, offset: u64, len: u64) -> Result<()>;

    /// Makes the object, empty so far, equal to another without copying: until one of them changes,
    /// both share their bytes. `false`: that cannot be done here, or this one is not empty; nothing
    /// has changed.
    fn share(&mut self, from: &dyn Opened) -> Result<bool>;

    /// Puts the object under its key, atomically, with the promises of [`Store::write`].
    fn commit(self: Box<Self>) -> Result<()>;

    /// As [`Replacement::commit`], under a condition; see [`Store::swap`].
    fn commit_over(self: Box<Self>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> Result<bool> {
        let _ = (expected, ask);
        self.commit().map(|()| true)
    }
}

/// The turn of an object among threads of this process ([`turns`]). [`StoreError::Busy`] where this
/// thread has it already, [`StoreError::Interrupted`] where `ask` answered `true`.
pub fn turn<S: Store + ?Sized>(store: &S, key: Key<'_>, ask: Option<Ask<'_>>) -> Result<turns::Turn> {
    turns::take(store.lock_id(key), ask).map_err(|refused| StoreError::refused(refused, store, key.as_str()))
}

/// [`StoreError::Interrupted`] where `ask` answers `true`.
fn check_ask<S: Store + ?Sized>(store: &S, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<()> {
    match ask {
        Some(ask) if ask() => Err(StoreError::Interrupted {
            key: prefix.map_or("", |prefix| prefix.as_str()).to_owned(),
            url: store.url(),
        }),
        _ => Ok(()),
    }
}

/// [`StoreError::WrongSize`] where an object of `found` bytes must have another size.
fn check_size<S: Store + ?Sized>(store: &S, key: Key<'_>, size: Option<u64>, found: u64) -> Result<()> {
    match size {
        Some(expected) if expected != found => {
            let (key, url) = (key.as_str().to_owned(), store.url());
            Err(StoreError::WrongSize { key, url, expected, found })
        }
        _ => Ok(()),
    }
}

/// What reading costs ([`Store::cost`]), in bytes that could be read in the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// One more request: ranges of an object that lie closer are read as one.
    pub request: u64,
    /// One more range of the same request.
    pub range: u64,
    /// How many requests of one thread are worth having under way together: so many objects are
    /// opened by one [`Store::open_all`]. 1: the store answers at once, or makes its caller wait
    /// for each request.
    pub at_once: usize,
}

impl Cost {
    /// Whether requests are worth making together: the store is on a server.
    pub fn is_far(self) -> bool {
        self.at_once > 1
    }
}

/// An object that is opened together with others ([`Store::open_all`]).
#[derive(Clone, Copy, Debug)]
pub struct Opening<'k> {
    /// Which object.
    pub key: Key<'k>,
    /// What of it is read next. A store far away fetches that with the request that opens the
    /// object.
    pub next: Next,
}

/// A part of an object, before its size is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// So many bytes at its start.
    Start(u64),
    /// So many bytes at its end.
    End(u64),
    /// So many bytes (the second number) from this byte on.
    Part(u64, u64),
    /// All of it.
    All,
}

/// Bytes that a store has in memory ([`Opened::lend`]), for as long as this is kept.
pub type Lent = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// An object that is being opened ([`Store::begin`]). Dropped, it is not opened.
pub trait Begun<'s>: Send {
    /// Whether [`Begun::finish`] returns at once.
    fn is_here(&self) -> bool {
        true
    }

    /// Waits until it does, but at most about as long as `most`. Returns whether it does, also where
    /// it does because there was an error.
    fn wait(&self, most: Duration) -> bool {
        let _ = most;
        true
    }

    /// Waits for the object. Answers as [`Store::open`] does.
    fn finish(self: Box<Self>) -> Result<Option<Box<dyn Opened + 's>>>;
}

impl<'s, F: FnOnce() -> Result<Option<Box<dyn Opened + 's>>> + Send> Begun<'s> for F {
    fn finish(self: Box<Self>) -> Result<Option<Box<dyn Opened + 's>>> {
        self()
    }
}

/// A [`Begun`] of a store that asks another, with what it makes of the answer.
pub struct Further<'s, F> {
    /// That of the other store.
    pub begun: Box<dyn Begun<'s> + 's>,
    /// Called with the answer.
    pub then: F,
}

impl<'s, F> Begun<'s> for Further<'s, F>
where
    F: FnOnce(Result<Option<Box<dyn Opened + 's>>>) -> Result<Option<Box<dyn Opened + 's>>> + Send,
{
    fn is_here(&self) -> bool {
        self.begun.is_here()
    }

    fn wait(&self, most: Duration) -> bool {
        self.begun.wait(most)
    }

    fn finish(self: Box<Self>) -> Result<Option<Box<dyn Opened + 's>>> {
        (self.then)(self.begun.finish())
    }
}

/// Takes the outcome of opening one object of several: its number among them, and what
/// [`Store::open`] answers.
pub type EachOpened<'e, 's> = &'e mut dyn FnMut(usize, Result<Option<Box<dyn Opened + 's>>>);

/// Takes the outcome of listing one prefix of several ([`Store::list_dirs`]).
pub type EachListed<'e> = &'e mut dyn FnMut(usize, Result<Vec<Entry>>);

/// What tells a prefix from all others ([`Store::identity`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The device that it is on.
    pub device: u64,
    /// Its number there (inode), which a later one may get again.
    pub number: u64,
    /// When it was created, in seconds and nanoseconds, if the system knows.
    pub born: (i64, u32),
}

/// Answers with an error if others have ended a writer ([`Store::write_while`]).
pub type Still<'a> = &'a (dyn Fn(Look) -> Result<()> + Sync);

/// How old an answer of [`Still`] may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Somebody has looked a short time ago, or looks now: for writes that replace nothing.
    Recent,
    /// Somebody has begun to look after the question was asked.
    New,
}

/// A store of one object that stays open, and the object's key there ([`Store::hold`]).
pub type HeldObject = (Arc<dyn Store>, String);

/// One child of a directory-like prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The last component of the key.
    pub name: String,
    /// Whether other keys lie below it (a directory) or it is an object itself.
    pub is_prefix: bool,
}

/// Keyed objects. All methods take `&self`; a store is shared by threads.
///
/// "Missing" is an answer, not an error: reads return `false` or `None` for an object that does not
/// exist (also where the key names a directory, or a parent of the key is an object).
///
/// A store that only reads leaves out the methods that write: by default they are refused. A store
/// of one object names it in [`Store::only`], and leaves out the listings too.
pub trait Store: Send + Sync + Debug {
    /// The only key of a store that has one object and only reads.
    fn only(&self) -> Option<&str> {
        None
    }

    /// Reads ranges of one object, with one open of it. Returns `false` if there is no such object.
    ///
    /// `size` is what the caller knows the whole object must measure: [`StoreError::WrongSize`] if
    /// it does not (an object of another size was written under other metadata; its bytes would be
    /// wrong values). Ranges may come in any order and may overlap; an empty list or empty ranges
    /// only ask for existence. A range past the end of the object is [`StoreError::OutOfRange`];
    /// buffers may then have been partly written.
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool>;

    /// Opens an object, for several reads of the same contents. `None` if there is no such object.
    /// `size` as in [`Store::read_ranges`].
    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>>;

    /// Begins to open several objects, in this order. A store far away sends requests for all of
    /// them, and joins those of near parts of one object. The default opens each object when its
    /// [`Begun::finish`] is called.
    fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        let later = |opening: &Opening<'_>| {
            let key = opening.key.as_str().to_owned();
            let open = move || self.open(Key::new(&key)?, None);
            Box::new(open) as Box<dyn Begun<'s> + 's>
        };
        wanted.iter().map(later).collect()
    }

    /// Opens several objects, each as [`Store::open`] does, and gives each outcome to `each`, in this
    /// order. Of a store far away all are asked for at once ([`Store::begin`]).
    fn open_all<'s>(&'s self, wanted: &[Opening<'_>], each: EachOpened<'_, 's>) {
        if self.cost().is_far() {
            let begun = self.begin(wanted);
            begun.into_iter().enumerate().for_each(|(n, begun)| each(n, begun.finish()));
            return;
        }
        for (n, Opening { key, .. }) in wanted.iter().enumerate() {
            each(n, self.open(*key, None));
        }
    }

    /// As [`Store::open`], for the time of `work`, which gets `None` if there is no such object.
    /// Stores that can do so allocate nothing: it is for the many small changes of chunks.
    fn with_open(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        work: &mut dyn FnMut(Option<&dyn Opened>),
    ) -> Result<()> {
        let opened = self.open(key, size)?;
        work(opened.as_deref());
        Ok(())
    }

    /// Reads an object that must be exactly `buf.len()` bytes long. Returns `false` if there is no
    /// such object, and [`StoreError::WrongSize`] if it is shorter or longer.
    fn read_exact(&self, key: Key<'_>, buf: &mut [u8]) -> Result<bool> {
        let size = buf.len() as u64;
        self.read_ranges(key, Some(size), &mut [RangeRead { offset: 0, buf }])
    }

    /// Reads a whole object of unknown size into `buf`, which is cleared first and keeps its
    /// capacity. Returns `false` if there is no such object. An object of more than `limit` bytes
    /// is [`StoreError::TooLarge`]: memory use stays bounded whatever was stored. `buf` grows to at
    /// most `limit + 1` bytes; a caller that reuses it pays no allocation.
    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool>;

    /// The size of an object in bytes; `None` if there is none.
    fn size(&self, key: Key<'_>) -> Result<Option<u64>>;

    /// Which contents an object has now: one question to the system, not a read. `None`: there is
    /// no such object, or the store cannot tell (stores that leave this method out).
    fn stamp(&self, key: Key<'_>) -> Result<Option<Stamp>> {
        let _ = key;
        Ok(None)
    }

    /// As [`Store::read_all`], and the stamp under which these very bytes may be kept; `None` where
    /// the store cannot vouch that every later change gives the object another [`Store::stamp`] (of
    /// a file that has just been changed, for example).
    fn read_all_stamped(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<Stamped> {
        Ok((self.read_all(key, buf, limit)?, None))
    }

    /// As [`Store::read_ranges`], and the stamp of the object as with [`Store::read_all_stamped`].
    fn read_ranges_stamped(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<Stamped> {
        Ok((self.read_ranges(key, size, ranges)?, None))
    }

    /// Whether an object exists under this key.
    fn exists(&self, key: Key<'_>) -> Result<bool> {
        Ok(self.size(key)?.is_some())
    }

    /// Replaces (or creates) an object by the concatenation of `parts`, atomically: until the call
    /// returns, and if it fails, readers see what was there before. Parent directories are created
    /// as needed.
    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        let _ = parts;
        Err(StoreError::read_only(self, Operation::Write, Some(key)))
    }

    /// Begins a new object under `key`, for one that comes in pieces. The default gathers it in
    /// memory and writes it then.
    fn replace<'s>(&'s self, key: Key<'_>) -> Result<Box<dyn Replacement + 's>> {
        if self.only().is_some() {
            return Err(StoreError::read_only(self, Operation::Write, Some(key)));
        }
        Ok(Box::new(gathered::Gathered::new(self, key)))
    }

    /// Puts an object under a key that has none. `false`: there is one, and it stays. Of several
    /// writers that try at once, one wins. The default takes turns with threads of this process
    /// only.
    fn write_new(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<bool> {
        let _turn = turn(self, key, None)?;
        if self.exists(key)? {
            return Ok(false);
        }
        self.write(key, parts)?;
        Ok(true)
    }

    /// Replaces an object if what is there is as expected; `false`: it is not, and nothing has
    /// changed. For callers that read an object, change it and put it back, while other processes
    /// do the same. `ask` is called while this waits for another process; `true` gives up with
    /// [`StoreError::Interrupted`]. The default, for objects that no other process can reach,
    /// replaces it in any case: threads of one process take [`turn`]s.
    fn swap(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        let _ = (expected, ask);
        self.write(key, parts).map(|()| true)
    }

    /// As [`Store::swap`], by contents that carry a mark, where the store keeps marks. Whoever opens
    /// the object learns which replacements led to it ([`Version::marks`]): the caller too, when it
    /// does not know what became of its own. The default keeps no marks.
    fn swap_marked(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        mark: Mark,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        let _ = mark;
        self.swap(key, expected, parts, ask)
    }

    /// As [`Store::swap`], of memory that the store may keep: there is no other copy to make of an
    /// object that somebody has just put together. `bytes` has any contents afterwards, and may be
    /// the memory of an object that is gone. The default keeps nothing.
    fn swap_owned(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        bytes: &mut Vec<u8>,
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        match expected {
            Expected::Any => self.write(key, &[bytes]).map(|()| true),
            expected => self.swap(key, expected, &[bytes], ask),
        }
    }

    /// Replaces an object in any case, by a writer that others may end. `still` answers with an error
    /// if that has happened; then nothing is written, and this is the error. A store on a server looks
    /// at the object, then asks `still`, and replaces what it saw and nothing else: contents that came
    /// after the writer was ended stay. The default asks and writes.
    fn write_while(&self, key: Key<'_>, bytes: &mut Vec<u8>, still: Still<'_>) -> Result<()> {
        still(Look::New)?;
        self.swap_owned(key, Expected::Any, bytes, None).map(|_| ())
    }

    /// As [`Store::swap`], by nothing: deletes the object.
    fn swap_out(&self, key: Key<'_>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> Result<bool> {
        let _ = (expected, ask);
        self.delete(key).map(|_| true)
    }

    /// Whether [`Store::swap_out`] looks and deletes in one step. Where it does not, another writer
    /// may come between: callers put an object that says the same as none in its place instead.
    fn swaps_out(&self) -> bool {
        true
    }

    /// Whether it can tell what keys it has. Plain web servers cannot: [`Store::list`] and
    /// [`Store::list_dir`] are errors there.
    fn lists(&self) -> bool {
        true
    }

    /// Whether groups in it may have consolidated metadata. A store that keeps all metadata in one
    /// place by itself says no: its other writers do not renew consolidated metadata.
    fn consolidates(&self) -> bool {
        true
    }

    /// Whether it refuses chunks beyond the extent that the stored metadata of their array has: then
    /// an array grows before chunks are written.
    fn checks_chunks(&self) -> bool {
        false
    }

    /// Whether other processes may change its objects, so that [`Store::swap`] has a meaning.
    fn is_shared(&self) -> bool {
        false
    }

    /// Removes what dead writers have left below `prefix` (`None`: anywhere), and returns how many
    /// things these were. `ask` as in [`Store::swap`]. May wait some seconds to see whether a
    /// writer is alive. The default, for stores whose writers leave nothing, does nothing.
    fn sweep(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<u64> {
        let _ = (prefix, ask);
        Ok(0)
    }

    /// Excludes other processes from the object `key` until the guard is dropped, or the object is
    /// replaced: that ends it. For processes that replace an object by what follows from its
    /// contents: reading, writing and deleting take no notice of it. Where there is no such object
    /// nobody is excluded: create it with [`Expected::Absent`], and if
    /// another was faster, start again. `ask` is asked while this waits; `true` gives up with
    /// [`StoreError::Interrupted`]. The default, for objects that no other process can reach,
    /// excludes nobody: threads of one process take [`turn`]s.
    fn lock<'s>(&'s self, key: Key<'_>, ask: Option<Ask<'_>>) -> Result<ObjectLock<'s>> {
        let _ = (key, ask);
        Ok(ObjectLock::free())
    }

    /// As [`Store::lock`], of a prefix (`None`: the root) as such: for changes of what lies
    /// directly below, as metadata documents do. Takes no notice of locks of objects and of other
    /// prefixes.
    fn lock_prefix<'s>(&'s self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<ObjectLock<'s>> {
        let _ = (prefix, ask);
        Ok(ObjectLock::free())
    }

    /// Deletes an object. Returns whether there was one.
    fn delete(&self, key: Key<'_>) -> Result<bool> {
        match self.only() {
            Some(only) if only != key.as_str() => Ok(false),
            _ => Err(StoreError::read_only(self, Operation::Delete, Some(key))),
        }
    }

    /// Deletes objects, of which some may not be there. `ask` is asked meanwhile; `true` gives up
    /// with [`StoreError::Interrupted`]. A store far away deletes many with one request. The default
    /// deletes one after the other.
    fn delete_all(&self, keys: &[Key<'_>], ask: Option<Ask<'_>>) -> Result<()> {
        for key in keys {
            check_ask(self, Some(*key), ask)?;
            self.delete(*key)?;
        }
        Ok(())
    }

    /// Deletes every object whose key is below `prefix` (`None`: every object of the store), and
    /// the directories left empty. An object named exactly `prefix` stays. Missing is no error.
    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<()> {
        match self.only() {
            Some(_) if prefix.is_some() => Ok(()),
            _ => Err(StoreError::read_only(self, Operation::Delete, prefix)),
        }
    }

    /// Begins new contents of `prefix` (`None`: of the whole store), which replace everything below
    /// it at once. Leftovers of a dead process that staged the same prefix are removed. The default
    /// gathers them in memory.
    fn stage<'s>(&'s self, prefix: Option<Key<'_>>) -> Result<Box<dyn Staged + 's>> {
        Ok(Box::new(staged::Gathered::new(self, prefix)))
    }

    /// The direct children of `prefix` (`None`: of the root), sorted by name; empty where nothing
    /// is there. Temporary files of unfinished writes are not listed.
    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        Ok(self.list(prefix)?.into_iter().map(|name| Entry { name, is_prefix: false }).collect())
    }

    /// Lists the children of several prefixes, each as [`Store::list_dir`] does, and gives each
    /// outcome to `each`, with its number among them. A store far away asks for all of them at once.
    /// The default lists one after the other.
    fn list_dirs(&self, prefixes: &[Option<Key<'_>>], each: EachListed<'_>) {
        for (n, prefix) in prefixes.iter().enumerate() {
            each(n, self.list_dir(*prefix));
        }
    }

    /// Every key below `prefix` (`None`: of the store), sorted. For tools and tests, not for
    /// reading arrays. The default knows [`Store::only`].
    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        Ok(self.only().filter(|_| prefix.is_none()).map(str::to_owned).into_iter().collect())
    }

    /// As [`Store::list`], for prefixes that hold very many keys: `ask` is asked while the listing
    /// goes on; `true` gives up with [`StoreError::Interrupted`]. The default asks before and
    /// after.
    fn list_asking(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<String>> {
        check_ask(self, prefix, ask)?;
        let keys = self.list(prefix)?;
        check_ask(self, prefix, ask)?;
        Ok(keys)
    }

    /// As [`Store::list_asking`], with the size of each object in bytes. A store far away has the sizes
    /// with the listing. The default asks for each.
    fn list_sizes(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for key in self.list_asking(prefix, ask)? {
            check_ask(self, prefix, ask)?;
            // One that is gone by now is left out.
            if let Some(size) = self.size(Key::new(&key)?)? {
                found.push((key, size));
            }
        }
        Ok(found)
    }

    /// What tells a prefix (`None`: the root) from all others, whatever path leads to it, and from
    /// those that were or will be in its place: walks of a hierarchy find circles by it, readers
    /// that it was replaced. `None`: there is no such prefix, or the store cannot tell.
    fn identity(&self, prefix: Option<Key<'_>>) -> Result<Option<Identity>> {
        let _ = prefix;
        Ok(None)
    }

    /// The keys below `prefix` (`None`: of the store), in any order, if the store can find them
    /// fast: an object that exists during all of the call is among them. `None` if it cannot, or if
    /// there is more than `most` to look at. For readers of many objects, few of which exist.
    fn present(&self, prefix: Option<Key<'_>>, _most: usize) -> Option<Vec<String>> {
        self.only().and_then(|_| self.list(prefix).ok())
    }

    /// A number that is equal for all handles in this process that reach the same object (two
    /// `LocalStore`s whose roots are nested must agree). It chooses the lock that serialises
    /// read-modify-writes; two objects may share a number.
    fn lock_id(&self, key: Key<'_>) -> u64;

    /// Whether it takes changes, as far as it knows without trying.
    fn is_writable(&self) -> bool {
        self.only().is_none()
    }

    /// Shows other processes all that was written. The default, for stores whose writes show at
    /// once, does nothing.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Gives back what the store holds open, once reads that are under way are done. What is asked
    /// afterwards is [`StoreError::Closed`]. The default, for stores that hold nothing open, does
    /// nothing.
    fn close(&self) {}

    /// Whether it was not closed.
    fn is_open(&self) -> bool {
        true
    }

    /// Whether what the store holds open is what its name leads to now: nothing was put in its
    /// place.
    fn is_current(&self) -> bool {
        true
    }

    /// The local file or directory that an object, a prefix or the root (`None`) is, whether it
    /// exists or not. `None`, the default: it is not on a local disk. For the few things that need
    /// local files: other files beside this one, a copy that takes its place in one step.
    fn local_path(&self, key: Option<Key<'_>>) -> Option<PathBuf> {
        let _ = key;
        None
    }

    /// The same store for a writer that others may end. Its changes go through `folder`, a directory on
    /// the same disk. When the folder is gone, no change of this writer is done any more, also none
    /// that it has begun: they fail with [`StoreError::Superseded`]. `None`, the default: the store is
    /// not on a local disk, see [`Store::write_while`].
    fn through(&self, folder: &Path) -> Result<Option<Arc<dyn Store>>> {
        let _ = folder;
        Ok(None)
    }

    /// Opens an object to stay open: a store of that object alone, and its key there. For formats
    /// that keep a hierarchy in one object and read it many times. `None`, the default: the store
    /// gains nothing by that, or there is no such object; read it from this store.
    fn hold(&self, key: Key<'_>) -> Result<Option<HeldObject>> {
        let _ = key;
        Ok(None)
    }

    /// As [`Store::hold`], of an object that has the name of the root: to a server, what lies below a
    /// name says nothing of an object of that name. `None`, the default: a root is no object.
    fn hold_root(&self) -> Result<Option<HeldObject>> {
        Ok(None)
    }

    /// Whether writers mostly wait, and readers may wait, for a disk or a network, so that more of
    /// them than cores get more done.
    fn waits(&self) -> bool {
        false
    }

    /// Whether a range can be read for less than the whole object.
    fn reads_ranges(&self) -> bool {
        true
    }

    /// What asking for more costs, so that a reader can choose between few long ranges and many
    /// short ones.
    fn cost(&self) -> Cost {
        Cost { request: 0, range: 4096, at_once: 1 }
    }

    /// Where the store is, for messages and `repr`: a `file://` URL, `memory://…`.
    fn url(&self) -> String;
}
