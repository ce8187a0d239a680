//! Stores that hold something open.

#[cfg(doc)]
use crate::StoreError;
use crate::{Key, Result, Store};
use std::sync::Arc;

/// A store of one object that stays open, and the object's key in it ([`Holds::hold`]).
pub type HeldObject = (Arc<dyn Store>, String);

/// A store that holds something open, or can ([`Store::holds`]).
pub trait Holds: Store {
    /// Opens an object and keeps it open. Returns a store of that object alone, and its key there.
    ///
    /// For formats that keep a hierarchy in one object and read it many times. Returns `None`, the
    /// default, if the store gains nothing by that, or if there is no such object. Then read it
    /// from this store.
    fn hold(&self, key: Key<'_>) -> Result<Option<HeldObject>> {
        let _ = key;
        Ok(None)
    }

    /// Like [`Holds::hold`], for an object named like the root.
    ///
    /// On a server, keys below a name do not rule out an object of that name. Returns `None`, the
    /// default, if a root cannot be an object.
    fn hold_root(&self) -> Result<Option<HeldObject>> {
        Ok(None)
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

    /// Tells programs that change the object in place that somebody reads it, until it is closed.
    ///
    /// They leave alone the space that older states of the object used. The default does nothing, for
    /// objects that nobody changes in place.
    fn lock_for_reading(&self) {}

    /// Returns whether the name of the open object still leads to it: it has not been replaced.
    fn is_current(&self) -> bool {
        true
    }
}

/// The defaults, for stores without the capability.
impl Holds for dyn Store + '_ {}

/// The methods of [`Holds`], for callers that do not care whether a store has the capability.
impl dyn Store + '_ {
    /// See [`Holds::hold`].
    pub fn hold(&self, key: Key<'_>) -> Result<Option<HeldObject>> {
        match self.holds() {
            Some(able) => able.hold(key),
            None => Holds::hold(self, key),
        }
    }

    /// See [`Holds::hold_root`].
    pub fn hold_root(&self) -> Result<Option<HeldObject>> {
        match self.holds() {
            Some(able) => able.hold_root(),
            None => Holds::hold_root(self),
        }
    }

    /// See [`Holds::flush`].
    pub fn flush(&self) -> Result<()> {
        match self.holds() {
            Some(able) => able.flush(),
            None => Holds::flush(self),
        }
    }

    /// See [`Holds::close`].
    pub fn close(&self) {
        match self.holds() {
            Some(able) => able.close(),
            None => Holds::close(self),
        }
    }

    /// See [`Holds::is_open`].
    pub fn is_open(&self) -> bool {
        match self.holds() {
            Some(able) => able.is_open(),
            None => Holds::is_open(self),
        }
    }

    /// See [`Holds::lock_for_reading`].
    pub fn lock_for_reading(&self) {
        match self.holds() {
            Some(able) => able.lock_for_reading(),
            None => Holds::lock_for_reading(self),
        }
    }

    /// See [`Holds::is_current`].
    pub fn is_current(&self) -> bool {
        match self.holds() {
            Some(able) => able.is_current(),
            None => Holds::is_current(self),
        }
    }
}
