//! The guard of an object's lock.

use std::fmt::Debug;

/// Holds the lock of an object ([`Store::lock`](crate::Store::lock)) until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is let go at once"]
pub struct ObjectLock<'s> {
    _held: Option<Box<dyn Held + 's>>,
}

/// Whatever lets a lock go when it is dropped.
trait Held: Send + Debug {}

impl<T: Send + Debug> Held for T {}

impl<'s> ObjectLock<'s> {
    /// A guard of nothing, where nobody has to be excluded.
    pub fn free() -> Self {
        ObjectLock { _held: None }
    }

    /// A guard that drops `held` when it is dropped.
    pub fn new(held: impl Send + Debug + 's) -> Self {
        ObjectLock { _held: Some(Box::new(held)) }
    }
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
        drop(lock);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
