//! The fence of a planned copy: an abandoned run that wakes up late cannot change anything.
//!
//! A run owns a copy while an object in the copy's journal holds the claim of this run. Another
//! client that resumes the copy writes its own claim there. The client that finishes the copy
//! deletes the object. Tasks write to the store from [`fenced`], so all their changes pass the
//! fence: chunks, shards, metadata, notes of finished tasks.
//!
//! **On a local disk** changes go through a folder of the run ([`Writers::through`]). Another client
//! that ends the run removes the folder. Changes need no look at the journal.
//!
//! **Elsewhere** a change takes these steps:
//!
//! 1. Look up the current contents of the object.
//! 2. Look at the claim. If it is there, nobody had finished the copy at step 1, so no user has
//!    written these contents.
//! 3. Replace these contents, and no others: the request carries the condition
//!    ([`Writers::write_while`]). If the run is suspended here and a user writes, the server refuses
//!    the request.
//! 4. If the server refused, start again. A run that has been ended notices in step 2.
//!
//! Most objects of a copy are new. For them step 1 is skipped, the condition is that no object
//! exists, and the look at the claim may be [`RECENT`]. Threads share looks.
//!
//! The request for a new object may be on its way while the run is ended. The next look at the claim
//! finds that out, and the run takes the object back ([`Created`]). Each task looks after its last
//! write. Only then does it record that it is done: another run that finds the record relies on the
//! objects. The same holds for metadata, and for the mark that all is done. If another run of the
//! same copy goes on, the objects stay, because that run writes them, too.

use super::created::Created;
use super::delegated::{inner, reads, writers};
use crate::{Key, Result, Store};
use hyperslab_store as store;
use hyperslab_store::fork::Mutex;
use hyperslab_store::{
    Ask, Cost, Entry, Expected, Facts, Holds, Look, Many, Mark, ObjectLock, OnDisk, Opened, Operation,
    RangeRead, Stamp, Stamped, Still, StoreError, WriteNotes, Writers, turn, waiting,
};
use std::fmt::{self, Debug, Formatter};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum age of a look at the claim before writing a new object.
/// A longer time only matters if a user deletes a chunk (by setting it to the fill value) right
/// after another client finished the copy. A shorter time costs more requests: at one second, this
/// is one request in a hundred on a fast server.
const RECENT: Duration = Duration::from_secs(1);

/// Maximum bytes of a claim; a claim has a few hundred.
const LONGEST: usize = 4096;

/// Makes the store for the tasks of a run.
/// `folder`: the run's folder, if the store is on a local disk. `journal`: the key of the object
/// that holds `claim` while the run goes on. The first word of a claim names the copy: all its runs
/// write the same objects.
pub fn fenced(
    store: &Arc<dyn Store>,
    folder: Option<&Path>,
    journal: &str,
    claim: &[u8],
) -> Result<Arc<dyn Store>> {
    if let Some(folder) = folder
        && let Some(through) = store.through(folder)?
    {
        return Ok(through);
    }
    Key::new(journal)?;
    let (inner, journal, claim) = (store.clone(), journal.to_owned(), claim.to_vec());
    Ok(Arc::new(Fenced { inner, journal, claim, looks: Arc::default() }))
}

/// A store behind a fence; see the module documentation.
struct Fenced {
    inner: Arc<dyn Store>,
    journal: String,
    claim: Vec<u8>,
    looks: Arc<Looks>,
}

/// Results of looks at the claim.
#[derive(Default)]
struct Looks {
    /// When the last look that found the claim began.
    last: Mutex<Option<Instant>>,
    /// Objects that were written since.
    created: Created,
}

impl Debug for Fenced {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Fenced {
    /// Fails with [`StoreError::Superseded`] if the claim is no longer there.
    /// `operation` and `key` name the planned change in the error.
    fn check(&self, look: Look, operation: Operation, key: Key<'_>) -> store::Result<()> {
        let now = Instant::now();
        let since = match look {
            Look::New => now,
            Look::Recent => now.checked_sub(RECENT).unwrap_or(now),
        };
        let is_known = || self.looks.last.lock().is_some_and(|begun| begun >= since);
        if is_known() {
            return Ok(());
        }
        // Only one of the waiting threads looks, for all of them.
        let journal = Key::new(&self.journal)?;
        let _turn = turn(&*self.inner, journal, None)?;
        if is_known() {
            return Ok(());
        }
        let mut found = Vec::new();
        if !self.read_all(journal, &mut found, LONGEST)? || found != self.claim {
            return Err(StoreError::superseded(&*self.inner, operation, key.as_str()));
        }
        Ok(())
    }

    /// Joins the parts of an object into one buffer.
    fn join_parts(&self, key: Key<'_>, parts: &[&[u8]]) -> store::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let no_room =
            |_| StoreError::io(&*self.inner, Operation::Write, key.as_str(), ErrorKind::OutOfMemory);
        bytes.try_reserve_exact(parts.iter().map(|part| part.len()).sum()).map_err(no_room)?;
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        Ok(bytes)
    }

    /// Writes the claim itself, which is also a look at it. `None`: these are not the claim's key
    /// and contents.
    fn write_claim(
        &self,
        key: Key<'_>,
        parts: &[&[u8]],
        write: impl FnOnce() -> store::Result<bool>,
    ) -> Option<store::Result<bool>> {
        if key.as_str() != self.journal || parts != [self.claim.as_slice()] {
            return None;
        }
        let begun = Instant::now();
        let written = write();
        if matches!(written, Ok(true)) {
            *self.looks.last.lock() = Some(begun);
        }
        Some(written)
    }

    /// Checks the claim before a conditional write, with a new look if it replaces an object.
    fn check_write(&self, expected: Expected<'_>, key: Key<'_>) -> store::Result<()> {
        let replaces = !matches!(expected, Expected::Absent);
        self.check(if replaces { Look::New } else { Look::Recent }, Operation::Write, key)
    }

    /// Writes an object that should be new.
    fn create(&self, key: Key<'_>, mark: Mark, parts: &[&[u8]], ask: Option<Ask<'_>>) -> store::Result<bool> {
        self.check(Look::Recent, Operation::Write, key)?;
        let created = self.inner.swap_marked(key, Expected::Absent, mark, parts, ask);
        // Also after an error: the object may have been written.
        if !matches!(created, Ok(false)) {
            self.looks.created.add(key, mark);
        }
        created
    }

    /// Handles a look at the claim that began at `begun`.
    fn note_look(&self, begun: Instant, found: Option<&[u8]>) {
        let copy = |claim: &[u8]| claim.split(|byte| *byte == b' ').next().map(<[u8]>::to_vec);
        match found {
            Some(found) if *found == self.claim => {
                *self.looks.last.lock() = Some(begun);
                self.looks.created.prove(begun);
            }
            Some(found) if copy(found) == copy(&self.claim) => {}
            _ => self.looks.created.take_back(&*self.inner),
        }
    }
}

impl Store for Fenced {
    reads!();

    /// A caller that reads the claim has looked at it for all threads.
    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> store::Result<bool> {
        let begun = Instant::now();
        let found = self.inner.read_all(key, buf, limit)?;
        if key.as_str() == self.journal {
            self.note_look(begun, found.then_some(buf));
        }
        Ok(found)
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> store::Result<()> {
        let claim = self.write_claim(key, parts, || self.inner.write(key, parts).map(|()| true));
        if let Some(written) = claim {
            return written.map(|_| ());
        }
        self.swap_owned(key, Expected::Any, &mut self.join_parts(key, parts)?, None).map(|_| ())
    }

    fn write_new(&self, key: Key<'_>, parts: &[&[u8]]) -> store::Result<bool> {
        if let Some(written) = self.write_claim(key, parts, || self.inner.write_new(key, parts)) {
            return written;
        }
        if self.inner.facts().is_shared {
            return self.create(key, Mark::fresh(), parts, None);
        }
        // Stores that no other process can reach may replace objects without a condition in `swap`.
        self.check_write(Expected::Absent, key)?;
        self.inner.write_new(key, parts)
    }

    fn swap(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> store::Result<bool> {
        let claim = self.write_claim(key, parts, || self.inner.swap(key, expected, parts, ask));
        claim.unwrap_or_else(|| self.swap_marked(key, expected, Mark::fresh(), parts, ask))
    }

    fn swap_owned(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        bytes: &mut Vec<u8>,
        ask: Option<Ask<'_>>,
    ) -> store::Result<bool> {
        if matches!(expected, Expected::Any) {
            let mut write = || self.write_while(key, bytes, Mark::fresh(), &|_| Ok(()));
            return match ask {
                Some(ask) => waiting::with_ask(ask, write),
                None => write(),
            }
            .map(|()| true);
        }
        if matches!(expected, Expected::Absent) {
            return self.create(key, Mark::fresh(), &[bytes], ask);
        }
        self.check_write(expected, key)?;
        self.inner.swap_owned(key, expected, bytes, ask)
    }

    fn swap_out(&self, key: Key<'_>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> store::Result<bool> {
        if matches!(expected, Expected::Any) {
            return self.delete(key).map(|_| true);
        }
        self.check(Look::New, Operation::Delete, key)?;
        self.inner.swap_out(key, expected, ask)
    }

    fn delete(&self, key: Key<'_>) -> store::Result<bool> {
        let exists = self.inner.exists(key)?;
        if exists {
            self.check(Look::New, Operation::Delete, key)?;
            // `delete` would ask again whether the object exists.
            self.inner.delete_all(&[key], None)?;
        }
        Ok(exists)
    }

    fn delete_all(&self, keys: &[Key<'_>], ask: Option<Ask<'_>>) -> store::Result<()> {
        // Objects that do not exist yet belong to a later writer if they exist when this deletes.
        let found = self.inner.existing(keys, ask)?;
        let Some(first) = found.first() else { return Ok(()) };
        self.check(Look::New, Operation::Delete, *first)?;
        self.inner.delete_all(&found, ask)
    }

    fn writers(&self) -> Option<&dyn Writers> {
        Some(self)
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> store::Result<()> {
        let journal = Key::new(&self.journal)?;
        self.check(Look::New, Operation::Delete, prefix.unwrap_or(journal))?;
        self.inner.delete_prefix(prefix)
    }
}

/// Without [`Writers::through`]: its changes would not pass the fence.
impl Writers for Fenced {
    writers!();

    fn swap_marked(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        mark: Mark,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> store::Result<bool> {
        if matches!(expected, Expected::Any) {
            return self.swap_owned(key, expected, &mut self.join_parts(key, parts)?, ask);
        }
        if matches!(expected, Expected::Absent) {
            return self.create(key, mark, parts, ask);
        }
        self.check_write(expected, key)?;
        self.inner.swap_marked(key, expected, mark, parts, ask)
    }

    fn noting(&self, notes: &Arc<WriteNotes>) -> Option<Arc<dyn Store>> {
        let Fenced { inner, journal, claim, looks } = self;
        let (inner, looks) = (inner.noting(notes)?, looks.clone());
        Some(Arc::new(Fenced { inner, journal: journal.clone(), claim: claim.clone(), looks }))
    }

    fn write_while(
        &self,
        key: Key<'_>,
        bytes: &mut Vec<u8>,
        mark: Mark,
        still: Still<'_>,
    ) -> store::Result<()> {
        let written = self.inner.write_while(key, bytes, mark, &|look| {
            still(look)?;
            self.check(look, Operation::Write, key)
        });
        // Also after an error: the object may have been written. Its mark tells.
        self.looks.created.add(key, mark);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_store::MemoryStore;

    fn key(name: &str) -> Key<'_> {
        Key::new(name).unwrap()
    }

    fn is_superseded<T>(found: store::Result<T>) -> bool {
        matches!(found, Err(StoreError::Superseded { .. }))
    }

    fn fence(inner: &Arc<dyn Store>) -> Fenced {
        Fenced {
            inner: inner.clone(),
            journal: "j/id".into(),
            claim: b"mine".to_vec(),
            looks: Arc::default(),
        }
    }

    #[test]
    fn only_who_has_the_claim_changes_anything() {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        inner.write(key("j/id"), &[b"mine"]).unwrap();
        let fenced = fenced(&inner, None, "j/id", b"mine").unwrap();
        fenced.write(key("a"), &[b"1", b"2"]).unwrap();
        let mut grown = fenced.replace(key("b")).unwrap();
        grown.append(&[b"3"]).unwrap();
        grown.commit().unwrap();
        let mut late = fenced.replace(key("b")).unwrap();
        late.append(&[b"late"]).unwrap();
        assert!(fenced.write_new(key("c"), &[b"4"]).unwrap() && fenced.delete(key("c")).unwrap());
        for other in [Some(b"theirs"), None] {
            match other {
                Some(other) => inner.write(key("j/id"), &[other]).unwrap(),
                None => drop(inner.delete(key("j/id")).unwrap()),
            }
            let opened = inner.open(key("a"), None).unwrap().unwrap();
            assert!(is_superseded(fenced.write(key("a"), &[b"late"])));
            assert!(is_superseded(fenced.swap(key("a"), Expected::Same(&*opened), &[b"late"], None)));
            assert!(is_superseded(fenced.swap_out(key("a"), Expected::Same(&*opened), None)));
            assert!(is_superseded(fenced.delete(key("a"))));
            assert!(is_superseded(fenced.delete_all(&[key("x"), key("a")], None)));
            assert!(is_superseded(fenced.delete_prefix(None)));
        }
        assert!(is_superseded(late.commit()));
        let mut bytes = Vec::new();
        for (name, expected) in [("a", &b"12"[..]), ("b", b"3")] {
            assert!(fenced.read_all(key(name), &mut bytes, 10).unwrap());
            assert_eq!(bytes, expected);
        }
        assert_eq!(inner.list(None).unwrap(), ["a", "b"]);
    }

    #[test]
    fn the_error_names_the_object_and_the_reason() {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let error = fence(&inner).write(key("c/0"), &[b"late"]).unwrap_err().to_string();
        assert!(error.starts_with("cannot write 'c/0' in memory://"), "{error}");
        assert!(error.contains("this task was superseded. Another client has redone it"), "{error}");
    }

    #[test]
    fn reading_the_claim_is_a_look() {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let fence = fence(&inner);
        let mut bytes = Vec::new();
        for (claim, is_own) in [(&b"theirs"[..], false), (b"mine", true)] {
            inner.write(key("j/id"), &[claim]).unwrap();
            assert!(fence.read_all(key("j/id"), &mut bytes, LONGEST).unwrap());
            assert_eq!(fence.looks.last.lock().is_some(), is_own);
        }
    }

    #[test]
    fn writing_the_claim_is_a_look() {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let fence = fence(&inner);
        assert!(is_superseded(fence.write_new(key("j/id"), &[b"theirs"])));
        assert!(fence.write_new(key("j/id"), &[b"mine"]).unwrap());
        assert!(fence.looks.last.lock().is_some());
        fence.write(key("a"), &[b"1"]).unwrap();
        // A claim that was not written is no look.
        let late = Fenced { looks: Arc::default(), ..self::fence(&inner) };
        assert!(!late.write_new(key("j/id"), &[b"mine"]).unwrap() && late.looks.last.lock().is_none());
    }

    /// A store in memory that says which objects were taken back.
    struct Taking {
        inner: Arc<dyn Store>,
        taken: Mutex<Vec<String>>,
    }

    impl Debug for Taking {
        fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
            self.inner.fmt(f)
        }
    }

    impl Store for Taking {
        reads!();
        inner! {
            fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> store::Result<bool>;
            fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> store::Result<()>;
            fn write_new(&self, key: Key<'_>, parts: &[&[u8]]) -> store::Result<bool>;
            fn swap(&self, key: Key<'_>, expected: Expected<'_>, parts: &[&[u8]], ask: Option<Ask<'_>>) -> store::Result<bool>;
            fn swap_out(&self, key: Key<'_>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> store::Result<bool>;
            fn delete(&self, key: Key<'_>) -> store::Result<bool>;
            fn delete_prefix(&self, prefix: Option<Key<'_>>) -> store::Result<()>;
        }

        fn writers(&self) -> Option<&dyn Writers> {
            Some(self)
        }
    }

    impl Writers for Taking {
        writers!();

        fn take_back(&self, created: &[(Key<'_>, Mark)]) -> store::Result<usize> {
            self.taken.lock().extend(created.iter().map(|(key, _)| key.as_str().to_owned()));
            Ok(created.len())
        }
    }

    #[test]
    fn a_run_that_was_ended_takes_back_what_it_may_have_written_too_late() {
        let taking = Arc::new(Taking { inner: Arc::new(MemoryStore::new()), taken: Mutex::default() });
        let inner: Arc<dyn Store> = taking.clone();
        inner.write(key("j/id"), &[b"copy mine"]).unwrap();
        let fence = Fenced { claim: b"copy mine".to_vec(), ..fence(&inner) };
        let look = || fence.read_all(key("j/id"), &mut Vec::new(), LONGEST).unwrap();
        fence.write(key("proven"), &[b"1"]).unwrap();
        look();
        let seen = fence.looks.last.lock().unwrap();
        // Within a second after a look, new objects need none.
        inner.write(key("j/id"), &[b"copy theirs"]).unwrap();
        while Instant::now() == seen {}
        fence.swap_marked(key("a"), Expected::Absent, Mark::fresh(), &[b"1"], None).unwrap();
        fence.swap_owned(key("b"), Expected::Absent, &mut vec![1], None).unwrap();
        fence.swap(key("c"), Expected::Absent, &[b"1"], None).unwrap();
        fence.write(key("j/id-2"), &[b"1"]).unwrap_err();
        assert!(!fence.write_new(key("proven"), &[b"2"]).unwrap());
        // The other run writes the same objects. They stay until it has ended, too.
        look();
        assert_eq!(taking.taken.lock().as_slice(), [""; 0]);
        inner.write(key("j/id"), &[b"other mine"]).unwrap();
        look();
        assert_eq!(taking.taken.lock().as_slice(), ["a", "b", "c", "j/id-2"]);
        inner.delete(key("j/id")).unwrap();
        look();
        assert_eq!(taking.taken.lock().len(), 4);
    }

    #[test]
    fn a_recent_look_is_enough_for_new_objects_only() {
        let inner: Arc<dyn Store> = Arc::new(MemoryStore::new());
        inner.write(key("j/id"), &[b"mine"]).unwrap();
        let fence = fence(&inner);
        fence.check(Look::Recent, Operation::Write, key("a")).unwrap();
        inner.delete(key("j/id")).unwrap();
        assert!(is_superseded(fence.check(Look::New, Operation::Write, key("a"))));
        fence.check(Look::Recent, Operation::Write, key("a")).unwrap();
        let last = fence.looks.last.lock().unwrap();
        *fence.looks.last.lock() = last.checked_sub(RECENT);
        assert!(is_superseded(fence.check(Look::Recent, Operation::Write, key("a"))));
    }
}
