//! Takes objects back that a writer created after it was ended:
//! [`take_back`](hyperslab_store::Writers::take_back).
//!
//! A writer may be suspended while its request for a new object is on its way. No condition stops
//! this request as long as the object is absent. The writer finds out afterwards, and deletes the
//! object.
//!
//! The tag of an object does not tell who wrote it, because others may store equal bytes. The marks
//! in its metadata do ([`marks`](crate::marks)). The look at the marks and the deletion are two
//! requests: a write that arrives between them is deleted. The deletion has no condition, because S3
//! compares tags only.

use crate::failure::Failure;
use crate::store::RemoteStore;
use futures_util::future::join_all;
use hyperslab_store::{Key, Mark, Operation, Result};

impl RemoteStore {
    /// Deletes the objects that are as they were created with these marks. Returns how many there
    /// were.
    pub(crate) fn remove_created(&self, created: &[(Key<'_>, Mark)]) -> Result<usize> {
        let mut count = 0;
        // A few at a time, so that each deletion follows its look soon.
        for created in created.chunks(self.settings().concurrency.max(1)) {
            let Some((first, _)) = created.first() else { break };
            let paths = created.iter().map(|(key, _)| self.path(*key)).collect::<Result<Vec<_>>>()?;
            let looks = self.run(first.as_str(), move |client| async move {
                Ok(join_all(paths.iter().map(|path| client.head(path))).await)
            })?;
            let fail = |key: Key<'_>, failure| self.error(Operation::Delete, key.as_str(), &failure);
            let looks = looks.map_err(|failure| fail(*first, failure))?;
            let mut own = Vec::new();
            for ((key, mark), look) in created.iter().zip(looks) {
                match look {
                    Ok(now) if now.marks.as_ref().is_some_and(|marks| marks.are_of_new(*mark)) => {
                        own.push(*key);
                    }
                    Ok(_) | Err(Failure::Missing) => {}
                    Err(failure) => return Err(fail(*key, failure)),
                }
            }
            self.remove_all(&own)?;
            count += own.len();
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::in_memory;
    use hyperslab_store::{Expected, Key, Mark, Store, Writers};

    #[test]
    fn only_objects_that_nobody_has_touched_since_are_deleted() {
        let store = in_memory();
        let key = |name| Key::new(name).unwrap();
        let [mine, theirs] = [Mark::fresh(), Mark::fresh()];
        store.write(key("old"), &[b"old"]).unwrap();
        store.swap_marked(key("theirs"), Expected::Absent, theirs, &[b"1"], None).unwrap();
        let names = ["new", "old", "replaced", "equal", "user", "gone", "other"];
        for name in names {
            store.write_while(key(name), &mut b"1".to_vec(), mine, &|_| Ok(())).unwrap();
        }
        assert!(!store.swap_marked(key("other"), Expected::Absent, mine, &[b"2"], None).unwrap());
        for (name, value) in [("replaced", b"2"), ("equal", b"1")] {
            store.write_while(key(name), &mut value.to_vec(), theirs, &|_| Ok(())).unwrap();
        }
        store.write(key("user"), &[b"1"]).unwrap();
        store.delete(key("gone")).unwrap();
        // More objects than requests at a time.
        let many: Vec<String> = (0..200).map(|number| format!("missing-{number}")).collect();
        let all = many.iter().map(String::as_str).chain(names).chain(["theirs"]);
        let created: Vec<_> = all.map(|name| (key(name), mine)).collect();
        assert_eq!(store.take_back(&created).unwrap(), 2);
        assert_eq!(store.list(None).unwrap(), ["equal", "old", "replaced", "theirs", "user"]);
        assert_eq!(store.take_back(&[]).unwrap(), 0);
    }
}
