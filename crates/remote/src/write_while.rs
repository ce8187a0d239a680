//! Writes by a writer that others may end: [`write_while`](hyperslab_store::Writers::write_while).
//!
//! 1. Ask the server for the current version of the object.
//! 2. Check whether the writer was ended. If not, no successor has written to the object yet, and
//!    the version from step 1 may be replaced.
//! 3. Replace the version from step 1, on condition that it is still there. A writer that was
//!    suspended between the steps replaces nothing newer.
//! 4. If the server refuses, start again.
//!
//! Most objects are new. The condition that no object exists needs no step 1, so it is tried first
//! until an object turns out to exist.
//!
//! **Long objects** are written in parts, and the last step takes no condition. The check of step 2
//! comes directly before the last step. A writer that is suspended exactly between the two is not
//! stopped. On a server without conditions, that applies to every object.

use crate::client::Contents;
use crate::failure::Failure;
use crate::store::RemoteStore;
use crate::write::{Condition, Written, begin_parts, put_if};
use bytes::Bytes;
use hyperslab_store::{Key, Look, Mark, Operation, Result, Still};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How often a write may be refused before it fails. At most one other task writes the object, so
/// more than a few refusals mean that the server contradicts itself. With the pauses this takes
/// about 6 s: some caches lag behind that much.
const ATTEMPTS: u32 = 12;

impl RemoteStore {
    /// Writes unconditionally, unless `still` fails. One request gives the object this mark; an object
    /// of several requests, or on a server without conditions, has another one, or none.
    pub(crate) fn put_while(&self, key: Key<'_>, bytes: Bytes, mark: Mark, still: Still<'_>) -> Result<()> {
        if self.abilities().parts && bytes.len() as u64 > self.settings().part {
            return self.put_parts_while(key, bytes, still);
        }
        if self.0.unconditional.load(Relaxed) {
            return self.put_looked(key, bytes, still);
        }
        // If the last object existed, the next one usually does too.
        let replacing = self.1.as_ref().map_or(&self.0.replacing, |notes| notes.replaces());
        for attempt in 0..ATTEMPTS {
            if attempt > 1 {
                std::thread::sleep(Duration::from_millis(10 << attempt.min(6)));
            }
            let looks = attempt > 0 || replacing.load(Relaxed);
            let found = if looks { self.head(key, Operation::Write)? } else { None };
            replacing.store(found.is_some(), Relaxed);
            let condition = match &found {
                None => Condition::Absent,
                Some(found) => match self.condition_of(found) {
                    Some(condition) => condition,
                    None => return self.put_looked(key, bytes, still),
                },
            };
            still(if found.is_some() { Look::New } else { Look::Recent })?;
            let (path, copy) = (self.path(key)?, bytes.clone());
            let done = self.run(key.as_str(), move |client| async move {
                put_if(&client, &path, copy, &condition, mark).await
            })?;
            self.note_written(key, bytes.len() as u64, done.as_ref().ok().and_then(Option::as_ref));
            match done {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => {}
                Err(Failure::Unsupported(_)) => {
                    // Remember this: the server takes seconds to say so, because failed requests
                    // are retried.
                    self.0.unconditional.store(true, Relaxed);
                    return self.put_looked(key, bytes, still);
                }
                Err(failure) => return Err(self.error(Operation::Write, key.as_str(), &failure)),
            }
        }
        Err(self.contradiction(key, ATTEMPTS))
    }

    /// Writes directly after the check, for servers without conditions.
    fn put_looked(&self, key: Key<'_>, bytes: Bytes, still: Still<'_>) -> Result<()> {
        still(Look::New)?;
        self.put(key, bytes)
    }

    /// The condition that these contents are there. `None` if the server reported no version.
    fn condition_of(&self, contents: &Contents) -> Option<Condition> {
        let (tag, number) = (contents.strong_tag(), contents.number.as_deref());
        self.condition_that(tag, number, contents.marks.as_ref().map(|marks| marks.as_str()))
    }

    /// Writes a long object in parts, which become an object after the check.
    fn put_parts_while(&self, key: Key<'_>, bytes: Bytes, still: Still<'_>) -> Result<()> {
        still(Look::Recent)?;
        let fail = |failure: Failure| self.error(Operation::Write, key.as_str(), &failure);
        let (path, len) = (self.path(key)?, bytes.len() as u64);
        let begun = self.run(key.as_str(), move |client| async move {
            begin_parts(&client, path, bytes)
                .await
                .map(|parts| Arc::new(tokio::sync::Mutex::new(Some(parts))))
        })?;
        let begun = begun.map_err(fail)?;
        let going = still(Look::New);
        let is_going = going.is_ok();
        let done = self.run(key.as_str(), move |client| async move {
            match begun.lock().await.take() {
                Some(parts) if is_going => parts.complete(&client).await,
                // Dropped here, where the server can be told to forget the parts.
                _ => Ok(Written::default()),
            }
        })?;
        self.note_written(key, len, done.as_ref().ok());
        going?;
        done.map(drop).map_err(fail)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::in_memory;
    use hyperslab_store::{Key, Look, Mark, Operation, Store, StoreError, Writers};
    use std::cell::Cell;
    use std::sync::Mutex;

    fn read(store: &dyn Store, key: Key<'_>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        store.read_all(key, &mut bytes, usize::MAX).unwrap().then_some(bytes)
    }

    /// Long objects are written in parts.
    const LENGTHS: [usize; 2] = [5, 150_000];

    #[test]
    fn a_writer_that_goes_on_replaces_whatever_is_there() {
        let store = in_memory();
        let key = Key::new("a/b").unwrap();
        for len in LENGTHS {
            for value in [1, 2, 3] {
                store.write_while(key, &mut vec![value; len], Mark::fresh(), &|_| Ok(())).unwrap();
                assert_eq!(read(&store, key), Some(vec![value; len]));
            }
        }
    }

    #[test]
    fn a_writer_that_was_ended_writes_nothing() {
        let store = in_memory();
        let key = Key::new("a/b").unwrap();
        let ended = |_| Err(StoreError::superseded(&store, Operation::Write, "a/b"));
        for len in LENGTHS {
            let found = store.write_while(key, &mut vec![1; len], Mark::fresh(), &ended);
            assert!(matches!(found, Err(StoreError::Superseded { .. })));
            assert_eq!(read(&store, key), None);
        }
        assert_eq!(store.list(None).unwrap(), [""; 0]);
    }

    /// Somebody writes between the check and the write, where the writer was suspended.
    #[test]
    fn what_others_have_written_since_stays() {
        for was_there in [false, true] {
            let store = in_memory();
            let key = Key::new("a/b").unwrap();
            if was_there {
                store.write(key, &[b"before"]).unwrap();
            }
            let asked = Mutex::new(Vec::new());
            let suspended = |look: Look| {
                asked.lock().unwrap().push(look);
                match asked.lock().unwrap().len() {
                    1 => {
                        store.write(key, &[b"user"])?;
                        Ok(())
                    }
                    _ => Err(StoreError::superseded(&store, Operation::Write, "a/b")),
                }
            };
            let found = store.write_while(key, &mut b"late".to_vec(), Mark::fresh(), &suspended);
            assert!(matches!(found, Err(StoreError::Superseded { .. })), "{was_there}");
            assert_eq!(read(&store, key).unwrap(), b"user", "{was_there}");
            // The first attempt assumes a new object. It is refused before `still` is called again.
            assert_eq!(asked.lock().unwrap().as_slice(), [Look::Recent, Look::New]);
        }
    }

    #[test]
    fn objects_that_exist_are_looked_at_first() {
        let store = in_memory();
        let news = Cell::new(0);
        for round in [1, 2] {
            for name in ["a", "b", "c", "d"] {
                let looks = Mutex::new(Vec::new());
                let count = |look| {
                    looks.lock().unwrap().push(look);
                    Ok(())
                };
                store.write_while(Key::new(name).unwrap(), &mut vec![round], Mark::fresh(), &count).unwrap();
                let looks = looks.into_inner().unwrap();
                news.set(news.get() + usize::from(looks.contains(&Look::Recent)));
                assert_eq!(looks.last() == Some(&Look::New), round == 2, "{name}");
            }
        }
        // All of the first round, and the first one of the second.
        assert_eq!(news.get(), 5);
    }
}
