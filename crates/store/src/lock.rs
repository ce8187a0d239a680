//! The guard of an object's lock, and conditions for replacing an object.

use crate::{Mark, Opened};
use std::fmt::Debug;

/// Holds the lock of an object ([`Store::lock`](crate::Store::lock)) until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is let go at once"]
pub struct ObjectLock<'s>(Option<Box<dyn Debug + Send + 's>>);

impl<'s> ObjectLock<'s> {
    /// An empty guard: there is no one to exclude, or no object.
    pub fn free() -> Self {
        ObjectLock(None)
    }

    /// A guard that owns `held`.
    pub fn new(held: impl Send + Debug + 's) -> Self {
        ObjectLock(Some(Box::new(held)))
    }

    /// Returns whether others are excluded.
    pub fn is_held(&self) -> bool {
        self.0.is_some()
    }
}

/// A server's version of an object's contents ([`Opened::version`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'v> {
    /// The entity tag, as in the HTTP header `If-Match`.
    pub tag: Option<&'v str>,
    /// The version number, on servers that compare it instead.
    pub number: Option<&'v str>,
    /// The concatenated marks of the last replacements that led to these contents, latest first.
    ///
    /// `None` if the contents were stored without a mark, or the store keeps no marks.
    pub marks: Option<&'v str>,
}

impl Version<'_> {
    /// Returns whether the replacement with this mark stored exactly these contents. `None` if they
    /// have no mark.
    pub fn is_of(&self, mark: Mark) -> Option<bool> {
        self.marks.map(|marks| marks.starts_with(mark.as_str()))
    }

    /// Returns whether the replacement with this mark stored these contents or led to them.
    ///
    /// `None` if they have no mark.
    pub fn follows(&self, mark: Mark) -> Option<bool> {
        let found =
            |marks: &str| marks.as_bytes().chunks(Mark::LEN).any(|one| one == mark.as_str().as_bytes());
        self.marks.map(found)
    }
}

/// Condition on a key's current object for replacing it. (Like `If-Match` and `If-None-Match` in
/// HTTP.)
#[derive(Clone, Copy, Debug)]
pub enum Expected<'a> {
    /// Any object or none.
    Any,
    /// No object.
    Absent,
    /// This object, which was opened before. Other processes are excluded while the store checks
    /// and replaces it.
    Same(&'a dyn Opened),
    /// This object, whose lock the caller holds.
    Locked(&'a dyn Opened),
}

#[cfg(test)]
mod tests {
    use super::{ObjectLock, Version};
    use crate::Mark;
    use std::sync::Arc;

    #[test]
    fn marks_tell_what_led_to_an_object() {
        let [first, second, other] = [1, 2, 3].map(Mark::of);
        let marks = format!("{}{}", second.as_str(), first.as_str());
        let version = Version { tag: None, number: None, marks: Some(&marks) };
        assert_eq!([first, second, other].map(|mark| version.is_of(mark)), [false, true, false].map(Some));
        assert_eq!([first, second, other].map(|mark| version.follows(mark)), [true, true, false].map(Some));
        let plain = Version { marks: None, ..version };
        assert_eq!((plain.is_of(first), plain.follows(first)), (None, None));
        // Only whole marks count.
        let shifted = format!("x{}", first.as_str());
        assert_eq!(Version { marks: Some(&shifted), ..version }.follows(first), Some(false));
    }

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
