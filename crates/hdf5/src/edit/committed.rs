//! Committed types in use: datasets and attributes whose type is the message of another object.
//!
//! The type counts these objects like links. It stays in the file without a name of its own as long
//! as an object that has a name uses it.

use super::{Editing, values};
use crate::datatype;
use crate::error::Built;
use crate::messages::attribute::{self, AttributeParts};
use crate::messages::{Message, shared};
use crate::new_file::NewAttribute;
use crate::output::NEW_SIZES;
use crate::{Bytes, Cursor, Result};

/// The flag of a message that is in another header.
const SHARED: u8 = 2;

/// Makes the type of a new dataset a reference to a committed type.
pub(super) fn refer(messages: &mut [Message], committed: u64) {
    if let Some(message) = messages.iter_mut().find(|message| message.kind == datatype::KIND) {
        message.flags |= SHARED;
        message.data = Bytes::from(shared::build(committed));
    }
}

/// The committed type of a dataset or attribute, given its message.
pub(super) fn type_of(message: &Message) -> Option<u64> {
    match message.kind {
        datatype::KIND => message.committed_type(),
        attribute::KIND => {
            let mut cursor = Cursor::whole(&message.data, 0, NEW_SIZES);
            let mut parts = AttributeParts::parse(&mut cursor).ok()?;
            let data = Bytes::from(parts.datatype.take_rest().to_vec());
            let flags = if parts.datatype_shared { SHARED } else { 0 };
            Message { kind: datatype::KIND, flags, creation: None, address: 0, data }.committed_type()
        }
        _ => None,
    }
}

impl Editing {
    /// Sets an attribute like [`Editing::set_attribute`]. `committed`: the header of its type, which
    /// it refers to.
    pub fn set_attribute_of_type(
        &self,
        object: u64,
        new: &NewAttribute,
        committed: Option<u64>,
    ) -> Result<()> {
        let mut places = self.places();
        let built = self.attribute_message(new, committed, &mut places);
        places.finish()?;
        let message = built.map_err(|why| self.unstorable(object, why))?;
        let is_named = self.with(object, |object| object.links_to > 0)?;
        let committed = committed.filter(|_| is_named);
        self.count_type(committed, 1)?;
        let replaced = self.try_change(object, |object| {
            let at = object.find_attribute(&new.name);
            let replaced = at.and_then(|at| object.messages.get(at)).and_then(type_of);
            object.put_attribute(at, message)?;
            Ok(replaced.filter(|_| object.links_to > 0))
        });
        match replaced {
            Ok(replaced) => {
                self.count_type(replaced, -1)?;
                self.flush_if_due()
            }
            Err(error) => {
                // The first error is reported.
                let _ = self.count_type(committed, -1);
                Err(error)
            }
        }
    }

    fn attribute_message(
        &self,
        new: &NewAttribute,
        committed: Option<u64>,
        places: &mut values::EditPlaces<'_>,
    ) -> Built<Vec<u8>> {
        let message = new.message(places, self.libver())?;
        match committed {
            Some(committed) => attribute::with_shared_type(&message.data, &shared::build(committed)),
            None => Ok(message.data),
        }
    }

    /// Changes the number of objects that use a committed type.
    pub(super) fn count_type(&self, committed: Option<u64>, more: i32) -> Result<()> {
        committed.map_or(Ok(()), |committed| self.count_links(committed, more))
    }

    /// Changes the number of links to an object. With the first link, the object begins to use its
    /// committed types, with the last one it ends.
    ///
    /// After an error, all numbers are as before.
    pub(super) fn count_links(&self, address: u64, more: i32) -> Result<()> {
        // A list, not recursion: in a damaged file, types may use each other in a long chain.
        let (mut waiting, mut done) = (vec![(address, more)], Vec::new());
        while let Some((address, more)) = waiting.pop() {
            match self.count_own_links(address, more) {
                Ok((uses, change)) => waiting.extend(uses.into_iter().map(|committed| (committed, change))),
                // A damaged type stays in the file. The link to its user goes all the same.
                Err(_) if more < 0 && !done.is_empty() => continue,
                Err(error) => {
                    for (address, more) in done {
                        self.add_links(address, i32::saturating_neg(more))?;
                    }
                    return Err(error);
                }
            }
            done.push((address, more));
        }
        Ok(())
    }

    /// Changes the number of links to one object. Returns the types that it begins to use, or does not
    /// use any more, and the change of their numbers.
    fn count_own_links(&self, address: u64, more: i32) -> Result<(Vec<u64>, i32)> {
        self.update(address, |object| {
            let before = object.links_to;
            object.links_to = before.saturating_add_signed(more);
            object.had_name |= object.links_to > 0;
            let change = match (before, object.links_to) {
                (0, 1..) => 1,
                (1.., 0) => -1,
                _ => return (Vec::new(), 0),
            };
            (object.messages.iter().filter_map(type_of).collect(), change)
        })
    }

    fn add_links(&self, address: u64, more: i32) -> Result<()> {
        self.update(address, |object| object.links_to = object.links_to.saturating_add_signed(more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::tests::{chunked, number};
    use crate::edit::{NewFile, ObjectOptions};
    use crate::new_file::{NewKind, NewObject, NewStorage};
    use crate::{File, FileOptions, Libver, LinkTarget, Node};
    use hyperslab_store::{EditedFile, EditedOptions};
    use proptest::prelude::*;
    use std::path::Path;
    use std::sync::Arc;

    const BOTH: [Libver; 2] = [Libver::Earliest, Libver::V110];

    fn open(path: &Path, libver: Libver) -> Editing {
        let bytes = EditedFile::open(path, EditedOptions::default()).unwrap().unwrap();
        File::edit(Arc::new(bytes), libver, FileOptions::default()).unwrap().editing().unwrap()
    }

    fn root(editing: &Editing) -> u64 {
        editing.file().root().unwrap().address()
    }

    fn dataset(editing: &Editing, committed: u64) -> u64 {
        let mut new = chunked(&[3], &[None], &[3], false);
        if let NewKind::Dataset(dataset) = &mut new.kind {
            dataset.storage = NewStorage::Contiguous(None);
        }
        let options = ObjectOptions { committed: Some(committed), ..ObjectOptions::default() };
        editing.create_object_with(&new, &options).unwrap()
    }

    /// A file with a type `t`, a dataset of it, and three attributes of the root group.
    fn create(path: &Path, libver: Libver) -> u64 {
        let bytes = EditedFile::create(path, true, EditedOptions::default()).unwrap();
        let new = NewFile { libver, ..NewFile::default() };
        let file = File::create(Arc::new(bytes), new, FileOptions::default()).unwrap();
        let editing = file.editing().unwrap();
        let kind = NewKind::Datatype(number("", 0).datatype);
        let made = NewObject { kind, ..crate::edit::tests::group(false) };
        let committed = editing.create_object(&made).unwrap();
        editing.link(root(&editing), "t", LinkTarget::Hard(committed)).unwrap();
        let address = dataset(&editing, committed);
        editing.link(root(&editing), "d", LinkTarget::Hard(address)).unwrap();
        for (name, value) in [("a", 1), ("b", 2), ("c", 3)] {
            editing.set_attribute_of_type(root(&editing), &number(name, value), Some(committed)).unwrap();
        }
        editing.close().unwrap();
        committed
    }

    /// The number of uses of a type: as it is counted, and as it is.
    fn counts(path: &Path, committed: u64) -> (u32, usize) {
        let file = crate::testing::open(&std::fs::read(path).unwrap()).unwrap();
        let root = file.root().unwrap();
        let mut uses = 0;
        for attribute in root.attributes().unwrap() {
            uses += usize::from(attribute.committed == Some(committed));
        }
        for link in root.links().unwrap() {
            match file.node(&link.name).unwrap() {
                Node::Datatype(_) => uses += 1,
                Node::Dataset(dataset) => uses += usize::from(dataset.committed_type() == Some(committed)),
                Node::Group(_) => {}
            }
        }
        (file.links_and_times(committed).unwrap().0, uses)
    }

    #[test]
    fn names_and_uses_are_counted() {
        for libver in BOTH {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.h5");
            let committed = create(&path, libver);
            assert_eq!(counts(&path, committed), (5, 5));
            let editing = open(&path, libver);
            let root = root(&editing);
            editing.unlink(root, "t").unwrap();
            editing.delete_attribute(root, "a").unwrap();
            editing.rename_attribute(root, "b", "z").unwrap();
            editing.set_attribute(root, &number("c", 9)).unwrap();
            // Nobody finds this one.
            dataset(&editing, committed);
            let second = dataset(&editing, committed);
            editing.set_attribute_of_type(second, &number("x", 4), Some(committed)).unwrap();
            assert_eq!(editing.file().links_and_times(committed).unwrap().0, 2);
            editing.link(root, "e", LinkTarget::Hard(second)).unwrap();
            editing.link(root, "f", LinkTarget::Hard(second)).unwrap();
            assert_eq!(editing.file().links_and_times(committed).unwrap().0, 4);
            editing.unlink(root, "e").unwrap();
            editing.unlink(root, "d").unwrap();
            editing.flush().unwrap();
            // The dataset `f` with its attribute, and `z`.
            assert_eq!(counts(&path, committed), (3, 2));
            editing.unlink(root, "f").unwrap();
            editing.delete_attribute(root, "z").unwrap();
            editing.close().unwrap();
            assert!(editing.file().is_deleted(committed).unwrap());
            assert_eq!(counts(&path, committed), (0, 0));
        }
    }

    /// Each type has an attribute of the next one. Recursion would need too much stack.
    #[test]
    fn long_chains_of_types_are_counted() {
        let bytes = Arc::new(EditedFile::memory(Vec::new()));
        let file = File::create(bytes, NewFile::default(), FileOptions::default()).unwrap();
        let editing = file.editing().unwrap();
        let kind = NewKind::Datatype(number("", 0).datatype);
        let made = NewObject { kind, ..crate::edit::tests::group(false) };
        let mut chain = vec![editing.create_object(&made).unwrap()];
        for _ in 0..20_000 {
            let user = editing.create_object(&made).unwrap();
            editing.set_attribute_of_type(user, &number("a", 1), chain.last().copied()).unwrap();
            chain.push(user);
        }
        let links = |at: usize| editing.file().links_and_times(chain[at]).unwrap().0;
        assert_eq!((links(0), links(20_000)), (0, 0));
        editing.link(root(&editing), "t", LinkTarget::Hard(chain[20_000])).unwrap();
        assert_eq!((links(0), links(10_000), links(20_000)), (1, 1, 1));
        editing.unlink(root(&editing), "t").unwrap();
        assert_eq!((links(0), links(10_000), links(20_000)), (0, 0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
        #[test]
        fn writers_together_count_each_use_once(
            steps in proptest::collection::vec(
                (0..2_usize, 0..3_usize, 0..4_u8), 1..30,
            ),
            is_new in any::<bool>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.h5");
            let libver = BOTH[usize::from(is_new)];
            let committed = create(&path, libver);
            let writers = [open(&path, libver), open(&path, libver)];
            for (writer, name, step) in steps {
                let (editing, name) = (&writers[writer], ["a", "b", "c"][name]);
                let root = root(editing);
                match step {
                    0 => drop(editing.delete_attribute(root, name)),
                    1 => editing.set_attribute(root, &number(name, 7)).unwrap(),
                    2 => editing.set_attribute_of_type(root, &number(name, 8), Some(committed)).unwrap(),
                    _ => editing.flush().unwrap(),
                }
            }
            writers.iter().for_each(|editing| editing.close().unwrap());
            let (counted, uses) = counts(&path, committed);
            prop_assert_eq!(counted as usize, uses);
        }
    }
}
