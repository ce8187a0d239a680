//! The interface of all stores.

#[cfg(doc)]
use crate::Version;
use crate::{
    Ask, Begun, Cost, EachOpened, Expected, Key, Mark, ObjectLock, Opened, Opening, Operation, RangeRead,
    Replacement, Result, Staged, Stamp, Stamped, StoreError, check_ask, gathered, staged, turn,
};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Receives the index and the listing of one of several prefixes ([`Store::list_dirs`]).
pub type EachListed<'e> = &'e mut dyn FnMut(usize, Result<Vec<Entry>>);

/// Distinguishes a prefix from all others ([`Store::identity`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Its device.
    pub device: u64,
    /// Its inode number on the device. A later prefix may get the same number.
    pub number: u64,
    /// Its creation time in seconds and nanoseconds, if the system knows it.
    pub born: (i64, u32),
}

/// Fails if others have ended this writer ([`Store::write_while`]).
pub type Still<'a> = &'a (dyn Fn(Look) -> Result<()> + Sync);

/// How old the answer of [`Still`] may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A check from a short time ago, or one that is running now. For writes that replace nothing.
    Recent,
    /// A check that started after the call.
    New,
}

/// A store of one object that stays open, and the object's key in it ([`Store::hold`]).
pub type HeldObject = (Arc<dyn Store>, String);

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
/// A read-only store leaves out the methods that write; their defaults fail. A store of one object
/// names it in [`Store::only`] and leaves out the listings too.
pub trait Store: Send + Sync + Debug {
    /// The only key, if the store is read-only and has one object.
    fn only(&self) -> Option<&str> {
        None
    }

    /// Reads ranges of one object, opening it once. Returns `false` if there is no such object.
    ///
    /// `size` is the size that the whole object must have, if the caller knows it. If the size
    /// differs, this fails with [`StoreError::WrongSize`]: the object was written under other
    /// metadata, and its bytes would be wrong values. Ranges may come in any order and may overlap.
    /// An empty list or empty ranges only check for existence. A range past the end of the object
    /// fails with [`StoreError::OutOfRange`]; buffers may then have been partly written.
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool>;

    /// Opens an object for several reads of the same contents. `None` if there is no such object.
    ///
    /// `size` is as in [`Store::read_ranges`].
    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>>;

    /// Begins to open several objects, in this order.
    ///
    /// A remote store sends the requests for all of them, and joins requests for nearby parts of
    /// one object. The default opens each object when its [`Begun::finish`] is called.
    fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        let later = |opening: &Opening<'_>| {
            let key = opening.key.as_str().to_owned();
            let open = move || self.open(Key::new(&key)?, None);
            Box::new(open) as Box<dyn Begun<'s> + 's>
        };
        wanted.iter().map(later).collect()
    }

    /// Opens several objects as [`Store::open`] does, and passes the results to `each`, in order.
    ///
    /// A remote store requests all of them at once ([`Store::begin`]).
    fn open_all<'s>(&'s self, wanted: &[Opening<'_>], each: EachOpened<'_, 's>) {
        if self.cost().prefers_rounds() {
            let begun = self.begin(wanted);
            begun.into_iter().enumerate().for_each(|(n, begun)| each(n, begun.finish()));
            return;
        }
        for (n, Opening { key, .. }) in wanted.iter().enumerate() {
            each(n, self.open(*key, None));
        }
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

    /// Reads an object that must be exactly `buf.len()` bytes long.
    ///
    /// Returns `false` if there is no such object. Fails with [`StoreError::WrongSize`] if it is
    /// shorter or longer.
    fn read_exact(&self, key: Key<'_>, buf: &mut [u8]) -> Result<bool> {
        let size = buf.len() as u64;
        self.read_ranges(key, Some(size), &mut [RangeRead { offset: 0, buf }])
    }

    /// Reads a whole object of unknown size into `buf`. Returns `false` if there is no such object.
    ///
    /// `buf` is cleared first and keeps its capacity, so a caller that reuses it pays no
    /// allocation. An object of more than `limit` bytes fails with [`StoreError::TooLarge`], which
    /// bounds memory use whatever is stored. `buf` grows to at most `limit + 1` bytes.
    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool>;

    /// Size of an object in bytes. `None` if there is no such object.
    fn size(&self, key: Key<'_>) -> Result<Option<u64>>;

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

    /// Returns whether an object exists under this key.
    fn exists(&self, key: Key<'_>) -> Result<bool> {
        Ok(self.size(key)?.is_some())
    }

    /// Replaces or creates an object atomically, from the concatenation of `parts`.
    ///
    /// Until the call returns, and if it fails, readers see the previous state. Parent directories
    /// are created as needed.
    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        let _ = parts;
        Err(StoreError::read_only(self, Operation::Write, Some(key)))
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

    /// Like [`Store::swap`], and marks the new contents if the store keeps marks.
    ///
    /// The next open of the object tells which replacements led to it ([`Version::marks`]). A
    /// caller that does not know whether its own replacement succeeded finds out that way too. The
    /// default keeps no marks.
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

    /// Replaces an object unconditionally, for a writer that others may end.
    ///
    /// If `still` fails, the writer has been ended: nothing is written, and the error is returned.
    /// A store on a server looks at the object, then calls `still`, and replaces only the contents
    /// it saw. Contents that arrived after the writer was ended stay. The default calls `still` and
    /// writes.
    fn write_while(&self, key: Key<'_>, bytes: &mut Vec<u8>, still: Still<'_>) -> Result<()> {
        still(Look::New)?;
        self.swap_owned(key, Expected::Any, bytes, None).map(|_| ())
    }

    /// Like [`Store::swap`], but deletes the object.
    fn swap_out(&self, key: Key<'_>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> Result<bool> {
        let _ = (expected, ask);
        self.delete(key).map(|_| true)
    }

    /// Returns whether [`Store::swap_out`] checks and deletes in one step.
    ///
    /// If not, another writer may come between. Callers then write an object that means the same as
    /// no object instead.
    fn swaps_out(&self) -> bool {
        true
    }

    /// Returns whether the store can list its keys. Plain web servers cannot: [`Store::list`] and
    /// [`Store::list_dir`] fail.
    fn lists(&self) -> bool {
        true
    }

    /// Returns whether groups in this store may have consolidated metadata.
    ///
    /// `false` for a store that keeps all metadata in one place itself: its other writers do not
    /// update consolidated metadata.
    fn consolidates(&self) -> bool {
        true
    }

    /// Returns whether the store refuses chunks outside the extent in the array's stored metadata.
    ///
    /// If so, an array grows before its chunks are written.
    fn checks_chunks(&self) -> bool {
        false
    }

    /// Returns whether other processes may change the objects.
    ///
    /// Only then does [`Store::swap`] have a purpose.
    fn is_shared(&self) -> bool {
        false
    }

    /// Removes leftovers of dead writers below `prefix` (`None`: everywhere). Returns how many
    /// there were.
    ///
    /// May wait some seconds to see whether a writer is alive. `ask` is as in [`Store::swap`]. The
    /// default does nothing, for stores whose writers leave nothing behind.
    fn sweep(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<u64> {
        let _ = (prefix, ask);
        Ok(0)
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

    /// Like [`Store::lock`], for the prefix itself (`None`: the root).
    ///
    /// For changes directly below the prefix, such as metadata documents. Independent of locks on
    /// objects and on other prefixes.
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

    /// Begins new contents for `prefix` (`None`: for the whole store), which will replace
    /// everything below it at once.
    ///
    /// Removes leftovers of a dead process that staged the same prefix. The default gathers the
    /// contents in memory.
    fn stage<'s>(&'s self, prefix: Option<Key<'_>>) -> Result<Box<dyn Staged + 's>> {
        Ok(Box::new(staged::Gathered::new(self, prefix)))
    }

    /// Lists the direct children of `prefix` (`None`: of the root), sorted by name.
    ///
    /// Empty if nothing is there. Temporary files of unfinished writes are not listed.
    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        Ok(self.list(prefix)?.into_iter().map(|name| Entry { name, is_prefix: false }).collect())
    }

    /// Lists prefixes as [`Store::list_dir`] does, and passes each index and result to `each`.
    ///
    /// A remote store lists all of them at once. The default lists one after the other.
    fn list_dirs(&self, prefixes: &[Option<Key<'_>>], each: EachListed<'_>) {
        for (n, prefix) in prefixes.iter().enumerate() {
            each(n, self.list_dir(*prefix));
        }
    }

    /// Lists every key below `prefix` (`None`: of the store), sorted.
    ///
    /// For tools and tests, not for reading arrays. The default returns [`Store::only`].
    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        Ok(self.only().filter(|_| prefix.is_none()).map(str::to_owned).into_iter().collect())
    }

    /// Like [`Store::list`], for prefixes with very many keys.
    ///
    /// `ask` is called while the listing runs; return `true` to give up with
    /// [`StoreError::Interrupted`]. The default calls it before and after.
    fn list_asking(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<String>> {
        check_ask(self, prefix, ask)?;
        let keys = self.list(prefix)?;
        check_ask(self, prefix, ask)?;
        Ok(keys)
    }

    /// Like [`Store::list_asking`], with the size of each object in bytes.
    ///
    /// A remote store gets the sizes with the listing. The default queries each object.
    fn list_sizes(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for key in self.list_asking(prefix, ask)? {
            check_ask(self, prefix, ask)?;
            // Skip objects deleted since the listing.
            if let Some(size) = self.size(Key::new(&key)?)? {
                found.push((key, size));
            }
        }
        Ok(found)
    }

    /// Distinguishes a prefix (`None`: the root) from all others, whatever path leads to it.
    ///
    /// Also distinguishes it from earlier and later prefixes at the same place. Walks of a
    /// hierarchy use it to find cycles, and readers to notice that the prefix was replaced. Returns
    /// `None` if there is no such prefix, or if the store cannot tell.
    fn identity(&self, prefix: Option<Key<'_>>) -> Result<Option<Identity>> {
        let _ = prefix;
        Ok(None)
    }

    /// The keys below `prefix` (`None`: of the store) in any order, if the store can find them
    /// fast.
    ///
    /// Includes every object that exists during the whole call. Returns `None` if the store cannot,
    /// or if it would have to look at more than `most` entries. For readers of many objects that
    /// mostly do not exist.
    fn present(&self, prefix: Option<Key<'_>>, _most: usize) -> Option<Vec<String>> {
        self.only().and_then(|_| self.list(prefix).ok())
    }

    /// A lock number, equal for all handles in this process that reach the same object.
    ///
    /// Two `LocalStore`s with nested roots must agree. The number selects the lock that serialises
    /// read-modify-writes. Two objects may share a number.
    fn lock_id(&self, key: Key<'_>) -> u64;

    /// Returns whether the store accepts changes, as far as it knows without trying.
    fn is_writable(&self) -> bool {
        self.only().is_none()
    }

    /// Makes everything written visible to other processes.
    ///
    /// The default does nothing, for stores whose writes are visible at once.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Releases what the store holds open, once running reads are done.
    ///
    /// Later calls fail with [`StoreError::Closed`]. The default does nothing, for stores that hold
    /// nothing open.
    fn close(&self) {}

    /// Returns whether the store has not been closed.
    fn is_open(&self) -> bool {
        true
    }

    /// Returns whether the name of the open object still leads to it: it has not been replaced.
    fn is_current(&self) -> bool {
        true
    }

    /// The local path of an object, a prefix or the root (`None`), whether or not it exists.
    ///
    /// For the few tasks that need local files: other files next to it, or a copy that replaces it
    /// in one step. Returns `None`, the default, if it is not on a local disk.
    fn local_path(&self, key: Option<Key<'_>>) -> Option<PathBuf> {
        let _ = key;
        None
    }

    /// The same store for a writer that others may end by removing `folder`.
    ///
    /// Changes go through `folder`, a directory on the same disk. Once the folder is gone, no
    /// change of this writer takes effect, not even one in progress: changes fail with
    /// [`StoreError::Superseded`]. Returns `None`, the default, if the store is not on a local
    /// disk; see [`Store::write_while`].
    fn through(&self, folder: &Path) -> Result<Option<Arc<dyn Store>>> {
        let _ = folder;
        Ok(None)
    }

    /// Opens an object and keeps it open. Returns a store of that object alone, and its key there.
    ///
    /// For formats that keep a hierarchy in one object and read it many times. Returns `None`, the
    /// default, if the store gains nothing by that, or if there is no such object. Then read it
    /// from this store.
    fn hold(&self, key: Key<'_>) -> Result<Option<HeldObject>> {
        let _ = key;
        Ok(None)
    }

    /// Like [`Store::hold`], for an object named like the root.
    ///
    /// On a server, keys below a name do not rule out an object of that name. Returns `None`, the
    /// default, if a root cannot be an object.
    fn hold_root(&self) -> Result<Option<HeldObject>> {
        Ok(None)
    }

    /// Returns whether more threads than cores are useful.
    ///
    /// Writers mostly wait for a disk or a network, and readers may.
    fn waits(&self) -> bool {
        false
    }

    /// Returns whether reading a range can cost less than reading the whole object.
    fn reads_ranges(&self) -> bool {
        true
    }

    /// Costs of reading, so that a reader can choose between few long ranges and many short ones.
    fn cost(&self) -> Cost {
        Cost::NEAR
    }

    /// The store's location for messages and `repr`: a `file://` URL, `memory://…`.
    fn url(&self) -> String;
}
