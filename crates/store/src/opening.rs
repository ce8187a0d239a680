//! Objects that are opened together, in one round of requests.

use crate::{Key, Opened, Result};
#[cfg(doc)]
use crate::{Many, Store};
use std::time::Duration;

/// An object that is opened together with others ([`Many::open_all`]).
#[derive(Clone, Copy, Debug)]
pub struct Opening<'k> {
    /// The object's key.
    pub key: Key<'k>,
    /// The part that is read next. A remote store fetches it with the request that opens the
    /// object.
    pub next: Next,
}

/// A part of an object, before its size is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// This many bytes at the start.
    Start(u64),
    /// This many bytes at the end.
    End(u64),
    /// Offset and length in bytes.
    Part(u64, u64),
    /// The whole object.
    All,
}

/// An object that is being opened ([`Many::begin`]). Drop it to cancel.
pub trait Begun<'s>: Send {
    /// Returns whether [`Begun::finish`] would return at once.
    fn is_here(&self) -> bool {
        true
    }

    /// Waits until [`Begun::finish`] would return at once, for about `most` at the longest.
    ///
    /// Returns whether it would, including with an error.
    fn wait(&self, most: Duration) -> bool {
        let _ = most;
        true
    }

    /// Waits for the object. Returns what [`Store::open`] returns.
    fn finish(self: Box<Self>) -> Result<Option<Box<dyn Opened + 's>>>;
}

impl<'s, F: FnOnce() -> Result<Option<Box<dyn Opened + 's>>> + Send> Begun<'s> for F {
    fn finish(self: Box<Self>) -> Result<Option<Box<dyn Opened + 's>>> {
        self()
    }
}

/// A [`Begun`] of a store that wraps another, and the conversion of its result.
pub struct Further<'s, F> {
    /// The wrapped store's [`Begun`].
    pub begun: Box<dyn Begun<'s> + 's>,
    /// Converts the result.
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

/// Receives the result of opening one of several objects: its index, and what [`Store::open`]
/// returns.
pub type EachOpened<'e, 's> = &'e mut dyn FnMut(usize, Result<Option<Box<dyn Opened + 's>>>);
