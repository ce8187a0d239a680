//! Notes of written objects. They save questions to the server.

use crate::fork::Mutex;
use crate::{Key, SharedStamp};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

/// The last change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteNote {
    /// The object was written, and the answer to the write told its stamp.
    Written(SharedStamp),
    /// The object was written. Ask the store for its stamp.
    Unknown,
    /// The object was deleted.
    Deleted,
}

/// Notes of all changes through a store ([`Writers::noting`](crate::Writers::noting)), by key.
#[derive(Debug, Default)]
pub struct WriteNotes {
    notes: Mutex<HashMap<String, WriteNote>>,
    replaces: AtomicBool,
}

impl WriteNotes {
    /// No notes. `replaces`: the objects to write probably exist.
    pub fn new(replaces: bool) -> Self {
        WriteNotes { notes: Mutex::default(), replaces: AtomicBool::new(replaces) }
    }

    /// `true` if the last written object existed; before the first write, a guess.
    pub fn replaces(&self) -> &AtomicBool {
        &self.replaces
    }

    /// Notes a change. It replaces the note of an earlier change.
    pub fn add(&self, key: Key<'_>, note: WriteNote) {
        self.notes.lock().insert(key.as_str().to_owned(), note);
    }

    /// The note of the last change; `None`: the object was not changed.
    pub fn find(&self, key: &str) -> Option<WriteNote> {
        self.notes.lock().get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{WriteNote, WriteNotes};
    use crate::Key;

    #[test]
    fn the_last_change_counts() {
        let (notes, key) = (WriteNotes::default(), Key::new("a").unwrap());
        assert_eq!(notes.find("a"), None);
        for note in [WriteNote::Written([1; 4]), WriteNote::Unknown, WriteNote::Deleted] {
            notes.add(key, note);
            assert_eq!(notes.find("a"), Some(note));
        }
    }
}
