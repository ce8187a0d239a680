//! The guard of an object's lock, and conditions for replacing an object.

use crate::Opened;
use std::fmt::Debug;

/// Holds the lock of an object ([`Store::lock`](crate::Store::lock)) until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is let go at once"]
pub struct ObjectLock<'s>(Option<Box<dyn Debug + Send + 's>>);

impl<'s> ObjectLock<'s> {
    /// A guard of nothing: nobody has to be excluded, or there is no object.
    pub fn free() -> Self {
        ObjectLock(None)
    }

    /// A guard that drops `held` when it is dropped.
    pub fn new(held: impl Send + Debug + 's) -> Self {
        ObjectLock(Some(Box::new(held)))
    }

    /// Whether others are excluded.
    pub fn is_held(&self) -> bool {
        self.0.is_some()
    }
}

/// What a server calls the contents of an object ([`Opened::version`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'v> {
    /// The entity tag, as in `If-Match` of HTTP.
    pub tag: Option<&'v str>,
    /// The number of the version, on servers that compare that instead.
    pub number: Option<&'v str>,
}

/// What has to be under a key for an object to be put there. (As `If-Match` and `If-None-Match` of
/// HTTP.)
#[derive(Clone, Copy, Debug)]
pub enum Expected<'a> {
    /// Anything or nothing.
    Any,
    /// Nothing.
    Absent,
    /// This object, which was opened before. Other processes are excluded for the instant of
    /// looking and replacing.
    Same(&'a dyn Opened),
    /// This object; the caller holds its lock.
    Locked(&'a dyn Opened),
}

#[cfg(test)]
mod tests {
    use super::ObjectLock;
    use std::sync::Arc;

    #[test]
    fn what_is_held_goes_with_the_guard() {
        let held = Arc::new(());
        let lock = ObjectLock::new(Arc::clone(&held));
        assert_eq!(Arc::strong_count(&held), 2);
        assert!(lock.is_held());
        drop(lock);
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(!ObjectLock::free().is_held());
    }
}
