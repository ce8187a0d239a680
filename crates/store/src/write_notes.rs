//! Notes of what was written, for callers that would otherwise ask the server again.

use crate::fork::Mutex;
use crate::{Key, SharedStamp};
use std::collections::HashMap;

/// The last change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The object was written, and the answer to the write told its stamp.
    Written(SharedStamp),
    /// The object was written. Ask the store for its stamp.
    Unknown,
    /// The object was deleted.
    Deleted,
}

/// Notes of all changes through a store ([`Writers::noting`](crate::Writers::noting)), by key.
#[derive(Debug, Default)]
pub struct WriteNotes(Mutex<HashMap<String, Note>>);

impl WriteNotes {
    /// Notes a change. It replaces the note of an earlier change.
    pub fn add(&self, key: Key<'_>, note: Note) {
        self.0.lock().insert(key.as_str().to_owned(), note);
    }

    /// The note of the last change; `None`: the object was not changed.
    pub fn find(&self, key: &str) -> Option<Note> {
        self.0.lock().get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{Note, WriteNotes};
    use crate::Key;

    #[test]
    fn the_last_change_counts() {
        let (notes, key) = (WriteNotes::default(), Key::new("a").unwrap());
        assert_eq!(notes.find("a"), None);
        for note in [Note::Written([1; 4]), Note::Unknown, Note::Deleted] {
            notes.add(key, note);
            assert_eq!(notes.find("a"), Some(note));
        }
    }
}
