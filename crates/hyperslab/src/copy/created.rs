//! Objects that a writer has just created, as long as they may be too late.
//!
//! The request for a new object may be on its way while another client ends the writer. A later
//! look at the claim tells: if it finds the claim, all answers that had arrived when the look began
//! were in time. Otherwise the objects may be too late, and are taken back.

use crate::{Key, Store};
use hyperslab_store::Mark;
use hyperslab_store::fork::Mutex;
use std::time::Instant;

/// A created object: its key, its mark, and when the answer came.
type Object = (String, Mark, Instant);

/// The objects that no look has proven.
#[derive(Debug, Default)]
pub(super) struct Created(Mutex<Vec<Object>>);

impl Created {
    /// Adds an object, after the answer to its request. Looks are frequent while objects are
    /// written, so there are few.
    pub(super) fn add(&self, key: Key<'_>, mark: Mark) {
        let object = (key.as_str().to_owned(), mark, Instant::now());
        self.0.lock().push(object);
    }

    /// A look that began at this time has found the claim.
    pub(super) fn prove(&self, begun: Instant) {
        self.0.lock().retain(|(_, _, answered)| *answered > begun);
    }

    /// Deletes the objects from a store, unless others have replaced them since.
    pub(super) fn take_back(&self, store: &dyn Store) {
        let objects = std::mem::take(&mut *self.0.lock());
        let keys: Vec<(Key<'_>, Mark)> =
            objects.iter().filter_map(|(key, mark, _)| Some((Key::new(key).ok()?, *mark))).collect();
        // The caller fails anyway, because the writer was ended. The next look tries again.
        if !keys.is_empty() && store.take_back(&keys).is_err() {
            self.0.lock().extend(objects);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Created;
    use hyperslab_store::{Key, Mark};
    use std::time::Instant;

    #[test]
    fn a_look_proves_only_what_was_answered_before_it_began() {
        let created = Created::default();
        let keys = || created.0.lock().iter().map(|(key, ..)| key.clone()).collect::<Vec<_>>();
        let before = Instant::now();
        created.add(Key::new("a").unwrap(), Mark::fresh());
        while Instant::now() == before {}
        created.prove(before);
        assert_eq!(keys(), ["a"]);
        let begun = Instant::now();
        while Instant::now() == begun {}
        created.add(Key::new("b").unwrap(), Mark::fresh());
        created.prove(begun);
        assert_eq!(keys(), ["b"]);
    }
}
