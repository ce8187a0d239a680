//! The interface of all stores.

use crate::{
    Ask, Cost, Expected, Facts, Holds, Key, Many, Note, ObjectLock, OnDisk, Opened, Operation, RangeRead,
    Replacement, Result, Staged, Stamp, Stamped, StoreError, Writers, check_ask, gathered, staged, turn,
};
use std::fmt::Debug;

/// One child of a directory-like prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The last component of the key.
    pub name: String,
    /// `true` for a directory, which has keys below it; `false` for an object.
    pub is_prefix: bool,
}

/// Keyed objects. All methods take `&self`; threads share a store.
///
/// A missing object is a result, not an error: reads return `false` or `None`. A key that names a
/// directory, or that lies below an object, counts as missing too.
///
/// To make a store, write these methods:
///
/// 1. **Reading**: [`url`](Store::url), [`lock_id`](Store::lock_id), [`size`](Store::size),
///    [`open`](Store::open), [`read_ranges`](Store::read_ranges), [`read_all`](Store::read_all). The
///    compiler asks for these.
/// 2. **Writing**: [`write`](Store::write), [`delete`](Store::delete),
///    [`delete_prefix`](Store::delete_prefix), [`list`](Store::list), [`list_dir`](Store::list_dir).
///    A read-only store leaves out the methods that write; their defaults fail. A store of one
///    object names it in [`Store::only`] and leaves out the listings too.
/// 3. **Facts**: [`facts`](Store::facts) and [`cost`](Store::cost), if the store differs from
///    memory.
///
/// That is all: every other method has a default that works. Then call
/// [`contract::check`](crate::contract::check) in a test. The crate's `tests/toy_store.rs` is an
/// example.
///
/// If other processes write to the store, override [`swap`](Store::swap) and the other methods with
/// conditions, too. A store that can do more implements a capability, and returns itself from the
/// method that leads there:
///
/// | method | capability |
/// |---|---|
/// | [`many`](Store::many) | [`Many`]: opens and lists many objects with few requests |
/// | [`writers`](Store::writers) | [`Writers`]: other processes write too: marks, fences, locks of prefixes |
/// | [`on_disk`](Store::on_disk) | [`OnDisk`]: objects are files of this machine |
/// | [`holds`](Store::holds) | [`Holds`]: something stays open, and is flushed or closed |
///
/// Callers need not ask for a capability: `dyn Store` has its methods too, and follows the defaults
/// if the store has none. A store that wraps another forwards [`many`](Store::many),
/// [`on_disk`](Store::on_disk) and [`holds`](Store::holds), which change nothing, and implements
/// [`Writers`] itself.
pub trait Store: Send + Sync + Debug {
    // Reading: required.

    /// The store's location for messages and `repr`: a `file://` URL, `memory://…`.
    fn url(&self) -> String;

    /// A lock number, equal for all handles in this process that reach the same object.
    ///
    /// Two `LocalStore`s with nested roots must agree. The number selects the lock that serialises
    /// read-modify-writes. Two objects may share a number.
    fn lock_id(&self, key: Key<'_>) -> u64;

    /// Size of an object in bytes. `None` if there is no such object.
    fn size(&self, key: Key<'_>) -> Result<Option<u64>>;

    /// Opens an object for several reads of the same contents. `None` if there is no such object.
    ///
    /// `size` is as in [`Store::read_ranges`].
    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>>;

    /// Reads ranges of one object, opening it once. Returns `false` if there is no such object.
    ///
    /// `size` is the size that the whole object must have, if the caller knows it. If the size
    /// differs, this fails with [`StoreError::WrongSize`]: the object was written under other
    /// metadata, and its bytes would be wrong values. Ranges may come in any order and may overlap.
    /// An empty list or empty ranges only check for existence. A range past the end of the object
    /// fails with [`StoreError::OutOfRange`]; buffers may then have been partly written.
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool>;

    /// Reads a whole object of unknown size into `buf`. Returns `false` if there is no such object.
    ///
    /// `buf` is cleared first and keeps its capacity, so a caller that reuses it pays no
    /// allocation. An object of more than `limit` bytes fails with [`StoreError::TooLarge`], which
    /// bounds memory use whatever is stored. `buf` grows to at most `limit + 1` bytes.
    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool>;

    // Writing: the defaults are for read-only stores.

    /// The only key, if the store is read-only and has one object.
    fn only(&self) -> Option<&str> {
        None
    }

    /// Replaces or creates an object atomically, from the concatenation of `parts`.
    ///
    /// Until the call returns, and if it fails, readers see the previous state. Parent directories
    /// are created as needed.
    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        let _ = parts;
        Err(StoreError::read_only(self, Operation::Write, Some(key)))
    }

    /// Deletes an object. Returns whether there was one.
    fn delete(&self, key: Key<'_>) -> Result<bool> {
        match self.only() {
            Some(only) if only != key.as_str() => Ok(false),
            _ => Err(StoreError::read_only(self, Operation::Delete, Some(key))),
        }
    }

    /// Deletes every object whose key is below `prefix` (`None`: all objects), and directories left
    /// empty.
    ///
    /// An object named exactly `prefix` stays. It is no error if there is nothing to delete.
    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<()> {
        match self.only() {
            Some(_) if prefix.is_some() => Ok(()),
            _ => Err(StoreError::read_only(self, Operation::Delete, prefix)),
        }
    }

    /// Lists every key below `prefix` (`None`: of the store), sorted.
    ///
    /// For tools and tests, not for reading arrays. The default returns [`Store::only`].
    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        Ok(self.only().filter(|_| prefix.is_none()).map(str::to_owned).into_iter().collect())
    }

    /// Lists the direct children of `prefix` (`None`: of the root), sorted by name.
    ///
    /// Empty if nothing is there. Temporary files of unfinished writes are not listed.
    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        Ok(self.list(prefix)?.into_iter().map(|name| Entry { name, is_prefix: false }).collect())
    }

    // Facts.

    /// Facts that callers must know before they use the store. The default describes memory.
    ///
    /// Asked for each chunk that is changed, so it must be fast.
    fn facts(&self) -> Facts {
        Facts { is_writable: self.only().is_none(), ..Facts::default() }
    }

    /// Costs of reading, so that a reader can choose between few long ranges and many short ones.
    ///
    /// Not one of the facts, because a store on a server measures it again and again.
    fn cost(&self) -> Cost {
        Cost::NEAR
    }

    /// A note that callers keep with this handle. `None`, the default: the store has no room for it.
    ///
    /// Only useful if requests take long.
    fn note(&self) -> Option<&Note> {
        None
    }

    // Capabilities: see above.

    /// The store as one that opens and lists many objects with few requests.
    fn many(&self) -> Option<&dyn Many> {
        None
    }

    /// The store as one that other processes write too.
    fn writers(&self) -> Option<&dyn Writers> {
        None
    }

    /// The store as one whose objects are files of this machine.
    fn on_disk(&self) -> Option<&dyn OnDisk> {
        None
    }

    /// The store as one that holds something open.
    fn holds(&self) -> Option<&dyn Holds> {
        None
    }

    // Conditions: for stores that other processes write too.

    /// Creates an object. Returns `false` and changes nothing if the key already has one.
    ///
    /// If several writers try at once, one wins. The default excludes only threads of this process.
    fn write_new(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<bool> {
        let _turn = turn(self, key, None)?;
        if self.exists(key)? {
            return Ok(false);
        }
        self.write(key, parts)?;
        Ok(true)
    }

    /// Replaces an object if its current contents are as expected. Otherwise returns `false` and
    /// changes nothing.
    ///
    /// For callers that read an object, change it and put it back while other processes do the
    /// same. `ask` is called while this waits for another process; return `true` to give up with
    /// [`StoreError::Interrupted`]. The default is for objects that no other process can reach, so
    /// it replaces unconditionally: threads of one process take [`turn`]s.
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

    /// Like [`Store::swap`], but the store may keep the memory of `bytes`.
    ///
    /// Saves a copy of an object that was just assembled. Afterwards `bytes` has arbitrary
    /// contents, and may be the memory of a replaced object. The default keeps nothing.
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

    /// Like [`Store::swap`], but deletes the object.
    fn swap_out(&self, key: Key<'_>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> Result<bool> {
        let _ = (expected, ask);
        self.delete(key).map(|_| true)
    }

    /// Locks the object `key` against other processes.
    ///
    /// The lock ends when the guard is dropped, and when the object is replaced. For processes that
    /// compute an object's new contents from its current contents. Reading, writing and deleting
    /// ignore the lock. If there is no such object, nobody is excluded: create it with
    /// [`Expected::Absent`], and start again if another process was faster. `ask` is called while
    /// this waits; return `true` to give up with [`StoreError::Interrupted`]. The default is for
    /// objects that no other process can reach, and excludes nobody: threads of one process take
    /// [`turn`]s.
    fn lock<'s>(&'s self, key: Key<'_>, ask: Option<Ask<'_>>) -> Result<ObjectLock<'s>> {
        let _ = (key, ask);
        Ok(ObjectLock::free())
    }

    // Faster forms: for stores that do better than the defaults.

    /// Returns whether an object exists under this key.
    fn exists(&self, key: Key<'_>) -> Result<bool> {
        Ok(self.size(key)?.is_some())
    }

    /// Reads an object that must be exactly `buf.len()` bytes long.
    ///
    /// Returns `false` if there is no such object. Fails with [`StoreError::WrongSize`] if it is
    /// shorter or longer.
    fn read_exact(&self, key: Key<'_>, buf: &mut [u8]) -> Result<bool> {
        let size = buf.len() as u64;
        self.read_ranges(key, Some(size), &mut [RangeRead { offset: 0, buf }])
    }

    /// Opens an object as [`Store::open`] does and passes it to `work`. `None` if it does not
    /// exist.
    ///
    /// Avoids allocation in stores that can: it serves the many small changes of chunks.
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

    /// The stamp of the object's current contents. Costs one query to the system, not a read.
    ///
    /// Returns `None` if there is no such object, or if the store cannot tell (the default).
    fn stamp(&self, key: Key<'_>) -> Result<Option<Stamp>> {
        let _ = key;
        Ok(None)
    }

    /// Like [`Store::read_all`], and returns the stamp under which these bytes may be kept.
    ///
    /// The stamp is `None` if the store cannot guarantee that every later change gives the object
    /// another [`Store::stamp`], for example because the file has only just changed.
    fn read_all_stamped(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<Stamped> {
        Ok((self.read_all(key, buf, limit)?, None))
    }

    /// Like [`Store::read_ranges`], and returns a stamp as [`Store::read_all_stamped`] does.
    fn read_ranges_stamped(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<Stamped> {
        Ok((self.read_ranges(key, size, ranges)?, None))
    }

    /// Deletes objects. Some of them may not exist.
    ///
    /// `ask` is called in between; return `true` to give up with [`StoreError::Interrupted`]. A
    /// remote store deletes many objects with one request. The default deletes one after the other.
    fn delete_all(&self, keys: &[Key<'_>], ask: Option<Ask<'_>>) -> Result<()> {
        for key in keys {
            check_ask(self, Some(*key), ask)?;
            self.delete(*key)?;
        }
        Ok(())
    }

    /// Begins a new object under `key`, to be appended in pieces.
    ///
    /// The default gathers it in memory and writes it on commit.
    fn replace<'s>(&'s self, key: Key<'_>) -> Result<Box<dyn Replacement + 's>> {
        if self.only().is_some() {
            return Err(StoreError::read_only(self, Operation::Write, Some(key)));
        }
        Ok(Box::new(gathered::Gathered::new(self, key)))
    }

    /// Begins new contents for `prefix` (`None`: for the whole store), which will replace
    /// everything below it at once.
    ///
    /// Removes leftovers of a dead process that staged the same prefix. The default gathers the
    /// contents in memory.
    fn stage<'s>(&'s self, prefix: Option<Key<'_>>) -> Result<Box<dyn Staged + 's>> {
        Ok(Box::new(staged::Gathered::new(self, prefix)))
    }
}
