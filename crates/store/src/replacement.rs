//! Objects under construction.

use crate::{Ask, Expected, Opened, Result};
#[cfg(doc)]
use crate::{Store, StoreError};
use std::fmt::Debug;

/// A new object under construction ([`Store::replace`]), invisible until [`Replacement::commit`].
///
/// Dropping it without a commit leaves no trace, and the previous object stays.
///
/// After an error, `commit` fails: the object may be incomplete. Drop it.
pub trait Replacement: Send + Debug {
    /// Number of bytes so far.
    fn len(&self) -> u64;

    /// Returns whether there are no bytes so far.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the concatenation of `parts`.
    fn append(&mut self, parts: &[&[u8]]) -> Result<()>;

    /// Overwrites existing bytes. Fails with [`StoreError::OutOfRange`] if the range goes past the
    /// end.
    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Opens the appended bytes, to check them before the commit.
    ///
    /// `None`, the default: it can only be read after the commit.
    fn open(&mut self) -> Result<Option<Box<dyn Opened>>> {
        Ok(None)
    }

    /// Appends a range of an open object, of this store or another.
    ///
    /// Bypasses the memory of this process if the system can. If the source is too short, fails
    /// with [`StoreError::OutOfRange`], which names this object's key.
    fn copy(&mut self, from: &dyn Opened, offset: u64, len: u64) -> Result<()>;

    /// Makes this object, still empty, equal to another without copying.
    ///
    /// Both share their bytes until one of them changes. Returns `false`, without any change, if
    /// sharing is not possible or this object is not empty.
    fn share(&mut self, from: &dyn Opened) -> Result<bool>;

    /// Puts the object under its key, atomically, with the guarantees of [`Store::write`].
    fn commit(self: Box<Self>) -> Result<()>;

    /// Like [`Replacement::commit`], under a condition. See [`Store::swap`].
    fn commit_over(self: Box<Self>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> Result<bool> {
        let _ = (expected, ask);
        self.commit().map(|()| true)
    }
}
