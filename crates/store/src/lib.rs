//! Byte ranges of keyed objects.
//!
//! A [`Store`] maps keys (`"temperature/c/0/1"`) to whole objects (bytes). It knows nothing of arrays. The
//! engine asks for exact byte ranges, many at once, into memory that the engine owns; and it replaces whole
//! objects atomically: a reader sees the old object or the new one, never a mixture, and a writer that dies
//! leaves the old.
//!
//! [`LocalStore`] keeps objects as files below a directory, [`MemoryStore`] in memory. [`contract`] is the
//! test suite that every store must pass.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation
    )
)]

pub mod contract;
mod error;
mod hash;
mod key;
mod local;
mod memory;
mod stamp;

pub use error::{Operation, StoreError};
pub use key::Key;
pub use local::{LocalOptions, LocalStore};
pub use memory::MemoryStore;
pub use stamp::Stamp;

use std::fmt::Debug;

/// One wanted byte range of an object, and the memory that it goes to (`buf.len()` bytes from `offset`).
#[derive(Debug)]
pub struct RangeRead<'a> {
    /// Bytes from the start of the object.
    pub offset: u64,
    /// Where the bytes go; filled completely or an error is returned.
    pub buf: &'a mut [u8],
}

/// An object that is open. Whatever is read from it is of the contents that it had when it was opened, also when it has
/// been replaced since.
pub trait Opened: Send + Sync + Debug {
    /// Reads ranges, with the errors of [`Store::read_ranges`].
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<(), StoreError>;
}

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
/// "Missing" is an answer, not an error: reads return `false` or `None` for an object that does not exist
/// (also where the key names a directory, or a parent of the key is an object).
pub trait Store: Send + Sync + Debug {
    /// Reads ranges of one object, with one open of it. Returns `false` if there is no such object.
    ///
    /// `size` is what the caller knows the whole object must measure: [`StoreError::WrongSize`] if it does
    /// not (an object of another size was written under other metadata; its bytes would be wrong values).
    /// Ranges may come in any order and may overlap; an empty list or empty ranges only ask for existence. A
    /// range past the end of the object is [`StoreError::OutOfRange`]; buffers may then have been partly
    /// written.
    fn read_ranges(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<bool, StoreError>;

    /// Opens an object, for several reads of the same contents. `None` if there is no such object. `size` as in
    /// [`Store::read_ranges`].
    fn open<'s>(
        &'s self,
        key: Key<'_>,
        size: Option<u64>,
    ) -> Result<Option<Box<dyn Opened + 's>>, StoreError>;

    /// Reads an object that must be exactly `buf.len()` bytes long. Returns `false` if there is no such
    /// object, and [`StoreError::WrongSize`] if it is shorter or longer.
    fn read_exact(&self, key: Key<'_>, buf: &mut [u8]) -> Result<bool, StoreError>;

    /// Reads a whole object of unknown size into `buf`, which is cleared first and keeps its capacity.
    /// Returns `false` if there is no such object. An object of more than `limit` bytes is
    /// [`StoreError::TooLarge`]: memory use stays bounded whatever was stored. `buf` grows to at most
    /// `limit + 1` bytes; a caller that reuses it pays no allocation.
    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool, StoreError>;

    /// The size of an object in bytes; `None` if there is none.
    fn size(&self, key: Key<'_>) -> Result<Option<u64>, StoreError>;

    /// Which contents an object has now: one question to the system, not a read. `None`: there is no such
    /// object, or the store cannot tell (stores that leave this method out).
    fn stamp(&self, key: Key<'_>) -> Result<Option<Stamp>, StoreError> {
        let _ = key;
        Ok(None)
    }

    /// As [`Store::read_all`], and the stamp under which these very bytes may be kept; `None` where the store
    /// cannot vouch that every later change gives the object another [`Store::stamp`] (of a file that has
    /// just been changed, for example).
    fn read_all_stamped(
        &self,
        key: Key<'_>,
        buf: &mut Vec<u8>,
        limit: usize,
    ) -> Result<(bool, Option<Stamp>), StoreError> {
        Ok((self.read_all(key, buf, limit)?, None))
    }

    /// As [`Store::read_ranges`], and the stamp of the object as with [`Store::read_all_stamped`].
    fn read_ranges_stamped(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<(bool, Option<Stamp>), StoreError> {
        Ok((self.read_ranges(key, size, ranges)?, None))
    }

    /// Whether an object exists under this key.
    fn exists(&self, key: Key<'_>) -> Result<bool, StoreError> {
        Ok(self.size(key)?.is_some())
    }

    /// Replaces (or creates) an object by the concatenation of `parts`, atomically: until the call returns,
    /// and if it fails, readers see what was there before. Parent directories come into being as needed.
    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<(), StoreError>;

    /// Deletes an object. Returns whether there was one.
    fn delete(&self, key: Key<'_>) -> Result<bool, StoreError>;

    /// Deletes every object whose key is below `prefix` (`None`: every object of the store), and the
    /// directories left empty. An object named exactly `prefix` stays. Missing is no error.
    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<(), StoreError>;

    /// The direct children of `prefix` (`None`: of the root), sorted by name; empty where nothing is there.
    /// Temporary files of unfinished writes are not listed.
    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>, StoreError>;

    /// Every key below `prefix` (`None`: of the store), sorted. For tools and tests, not for reading arrays.
    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>, StoreError>;

    /// The keys below `prefix` (`None`: of the store), in any order, where they can be told soon and for certain:
    /// an object that exists during all of the call is among them. `None` where they cannot, or where there is
    /// more than `most` to look at. For readers of many objects of which few exist.
    fn present(&self, _prefix: Option<Key<'_>>, _most: usize) -> Option<Vec<String>> {
        None
    }

    /// A number that is equal for all handles in this process that reach the same object (two `LocalStore`s
    /// whose roots are nested must agree). It chooses the lock that serialises read-modify-writes; two
    /// objects may share a number.
    fn lock_id(&self, key: Key<'_>) -> u64;

    /// Whether writers mostly wait, and readers may wait, for a disk or a network, so that more of them than
    /// cores get more done.
    fn waits(&self) -> bool {
        false
    }

    /// Where the store is, for messages and `repr`: a `file://` URL, `memory://…`.
    fn url(&self) -> String;
}
