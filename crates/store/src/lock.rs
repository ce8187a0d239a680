//! The guard of an object's lock, and conditions for replacing an object.

use crate::Opened;
use std::fmt::Debug;

/// Holds the lock of an object ([`Store::lock`](crate::Store::lock)) until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is let go at once"]
pub struct ObjectLock<'s> {
    state: State<'s>,
}

#[derive(Debug)]
enum State<'s> {
    Free,
    Absent,
    Held { _held: Box<dyn Held + 's> },
}

/// Whatever lets a lock go when it is dropped.
trait Held: Send + Debug {}

impl<T: Send + Debug> Held for T {}

impl<'s> ObjectLock<'s> {
    /// A guard of nothing, where nobody has to be excluded.
    pub fn free() -> Self {
        ObjectLock { state: State::Free }
    }

    /// There is no object, so there is nothing to lock.
    pub fn absent() -> Self {
        ObjectLock { state: State::Absent }
    }

    /// A guard that drops `held` when it is dropped.
    pub fn new(held: impl Send + Debug + 's) -> Self {
        ObjectLock { state: State::Held { _held: Box::new(held) } }
    }

    /// Whether there was no object: nobody is excluded. Put one with [`Expected::Absent`].
    pub fn is_absent(&self) -> bool {
        matches!(self.state, State::Absent)
    }

    /// Whether others are excluded.
    pub fn is_held(&self) -> bool {
        matches!(self.state, State::Held { .. })
    }
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
        assert!(lock.is_held() && !lock.is_absent());
        drop(lock);
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(ObjectLock::absent().is_absent() && !ObjectLock::free().is_absent());
    }
}
