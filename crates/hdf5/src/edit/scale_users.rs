//! `REFERENCE_LIST` of dimension scales: the axes that use a scale.
//!
//! A file has thousands of variables along one dimension. Their entries wait in memory, and become
//! the attribute when somebody reads or changes the scale, or at a flush. Each entry is then encoded
//! once, and not once for each variable that follows.

use super::Editing;
use super::object::Object;
use crate::dataspace::Dataspace;
use crate::datatype::{Class, Datatype, Member};
use crate::error::{BuildError, Built};
use crate::messages::Message;
use crate::messages::attribute::{self, AttributeParts};
use crate::new_file::attribute::LARGEST;
use crate::output::NEW_SIZES;
use crate::{Cursor, Libver, Result};
use std::collections::HashSet;
use std::sync::Arc;

/// The attribute with the axes that use a scale.
pub const REFERENCE_LIST: &str = "REFERENCE_LIST";

/// Bytes of an entry: the address of a dataset, the number of an axis, and four unused ones.
const ENTRY: usize = 16;

/// The type of [`REFERENCE_LIST`], as the HDF5 library writes it.
pub fn reference_list_type() -> Datatype {
    let number = "<u4".parse().map_err(drop).and_then(|dtype| Datatype::of_numpy(dtype).map_err(drop));
    let number = number.unwrap_or_else(|()| Datatype::reference());
    let member =
        |name: &str, offset, datatype| Member { name: name.to_owned(), offset, datatype: Arc::new(datatype) };
    let members = vec![member("dataset", 0, Datatype::reference()), member("dimension", 8, number)];
    Datatype { size: 16, class: Class::Compound(members) }
}

impl Editing {
    /// Adds an axis of a dataset to the axes that use a scale.
    pub fn add_scale_user(&self, scale: u64, user: u64, axis: u32) -> Result<()> {
        let libver = self.libver();
        let added = self.with_raw(scale, |object| {
            if object.users.is_empty() && object.old_users()?.is_none() {
                return Err(BuildError(format!(
                    "its attribute {REFERENCE_LIST} has another type than HDF5's"
                )));
            }
            object.users.push((user, axis));
            // A header of the old version may be too small, and says so now.
            let done = if object.prefix.version == 1 { object.settle_users(libver) } else { Ok(()) };
            if done.is_err() {
                object.users.pop();
            }
            done.map(|()| object.changed())
        })?;
        added.map_err(|why| self.unstorable(scale, why))
    }
}

impl Object {
    /// The entries of the attribute. `None`: it has another form.
    fn old_users(&self) -> Built<Option<Vec<u8>>> {
        let attribute = self.find_attribute(REFERENCE_LIST).and_then(|at| self.messages.get(at));
        attribute.map_or(Ok(Some(Vec::new())), entries)
    }

    /// Puts the entries that wait in memory into the attribute.
    pub(super) fn settle_users(&mut self, libver: Libver) -> Built<()> {
        if self.users.is_empty() {
            return Ok(());
        }
        let at = self.find_attribute(REFERENCE_LIST);
        let mut all = self.old_users()?.unwrap_or_default();
        for (user, axis) in &self.users {
            all.extend(user.to_le_bytes());
            all.extend(axis.to_le_bytes());
            all.extend([0; 4]);
        }
        let data = build(&all, libver)?;
        self.put_attribute(at, data)?;
        self.users.clear();
        self.show();
        Ok(())
    }
}

fn build(all: &[u8], libver: Libver) -> Built<Vec<u8>> {
    let datatype = reference_list_type().build(libver)?;
    let dataspace = Dataspace::fixed(&[(all.len() / ENTRY) as u64]).build(libver)?;
    // Version 1 of the message is for headers of the old version only.
    let libver = if all.len() > LARGEST { Libver::V110 } else { libver };
    attribute::build(REFERENCE_LIST, &datatype, &dataspace, all, libver)
}

/// The entries of a message. `None`: it has another form.
fn entries(message: &Message) -> Built<Option<Vec<u8>>> {
    let mut cursor = Cursor::whole(&message.data, 0, NEW_SIZES);
    let parts = AttributeParts::parse(&mut cursor).map_err(|why| BuildError(why.to_string()))?;
    let (mut datatype, mut dataspace) = (parts.datatype, parts.dataspace);
    if parts.datatype_shared || parts.dataspace_shared {
        return Ok(None);
    }
    let (Ok(datatype), Ok(dataspace)) = (Datatype::parse(&mut datatype), Dataspace::parse(&mut dataspace))
    else {
        return Ok(None);
    };
    let count = dataspace.count().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
    let bytes = count.saturating_mul(ENTRY);
    let data = message.data.get(parts.data).and_then(|data| data.get(..bytes));
    Ok(data.filter(|_| datatype.size as usize == ENTRY).map(<[u8]>::to_vec))
}

/// The attribute with the entries of two writers: what either has added, and without what either has
/// removed. `None`: one of the attributes has another form.
pub(super) fn merged(
    base: Option<&Message>,
    ours: Option<&Message>,
    theirs: Option<&Message>,
    libver: Libver,
) -> Built<Option<Vec<u8>>> {
    let of = |message: Option<&Message>| message.map_or(Ok(Some(Vec::new())), entries);
    let (Some(base), Some(ours), Some(theirs)) = (of(base)?, of(ours)?, of(theirs)?) else { return Ok(None) };
    // The last four bytes of an entry say nothing.
    let key = |entry: &[u8]| entry.get(..12).map(<[u8]>::to_vec);
    let keys = |bytes: &[u8]| bytes.chunks_exact(ENTRY).filter_map(key).collect::<HashSet<_>>();
    let (old, mine, other) = (keys(&base), keys(&ours), keys(&theirs));
    let is_removed = |key: &Vec<u8>| old.contains(key) && !mine.contains(key);
    let is_new = |key: &Vec<u8>| !old.contains(key) && !other.contains(key);
    let mut all = Vec::new();
    for entry in theirs.chunks_exact(ENTRY) {
        all.extend(key(entry).filter(|key| !is_removed(key)).map(|_| entry).unwrap_or_default());
    }
    for entry in ours.chunks_exact(ENTRY) {
        all.extend(key(entry).filter(is_new).map(|_| entry).unwrap_or_default());
    }
    if all.is_empty() { Ok(None) } else { build(&all, libver).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::links::message_of;
    use crate::object_header::NewMessage;

    fn list(users: &[(u64, u32)]) -> Message {
        let mut all = Vec::new();
        for (user, axis) in users {
            all.extend(user.to_le_bytes());
            all.extend(axis.to_le_bytes());
            all.extend([0; 4]);
        }
        let data = build(&all, Libver::Earliest).unwrap();
        message_of(NewMessage { kind: attribute::KIND, constant: false, data })
    }

    fn merge(base: &[(u64, u32)], ours: &[(u64, u32)], theirs: &[(u64, u32)]) -> Option<Vec<u8>> {
        let of = |users: &[(u64, u32)]| (!users.is_empty()).then(|| list(users));
        let (base, ours, theirs) = (of(base), of(ours), of(theirs));
        merged(base.as_ref(), ours.as_ref(), theirs.as_ref(), Libver::Earliest).unwrap()
    }

    #[test]
    fn entries_of_two_writers() {
        let found = merge(&[(1, 0), (2, 0)], &[(1, 0), (2, 0), (3, 0)], &[(1, 0), (2, 0), (4, 1)]);
        assert_eq!(found.unwrap(), list(&[(1, 0), (2, 0), (4, 1), (3, 0)]).data.to_vec());
        // One writer removes what the other keeps; both add the same.
        let found = merge(&[(1, 0), (2, 0)], &[(2, 0), (3, 0)], &[(1, 0), (2, 0), (3, 0)]);
        assert_eq!(found.unwrap(), list(&[(2, 0), (3, 0)]).data.to_vec());
        assert_eq!(merge(&[], &[(3, 1)], &[]).unwrap(), list(&[(3, 1)]).data.to_vec());
        assert_eq!(merge(&[(1, 0)], &[], &[(1, 0)]), None);
    }

    #[test]
    fn entries_wait_until_somebody_reads() {
        use crate::edit::tests::{chunked, new_file, root};
        use crate::{LinkTarget, Node};
        let (_, editing) = new_file(Libver::Earliest, true);
        let scale = editing.create_object(&chunked(&[2], &[Some(2)], &[2], false)).unwrap();
        editing.link(root(&editing), "x", LinkTarget::Hard(scale)).unwrap();
        for user in 0..3 {
            editing.add_scale_user(scale, user, 1).unwrap();
        }
        let Node::Dataset(found) = editing.file().object_at(scale, "x").unwrap() else { panic!() };
        let found = found.attribute(REFERENCE_LIST).unwrap().unwrap();
        assert_eq!(found.dataspace, Dataspace::fixed(&[3]));
        assert_eq!(found.data.to_vec(), entries(&list(&[(0, 1), (1, 1), (2, 1)])).unwrap().unwrap());
        editing.flush().unwrap();
        editing.add_scale_user(scale, 7, 0).unwrap();
        editing.flush().unwrap();
        let Node::Dataset(found) = editing.file().object_at(scale, "x").unwrap() else { panic!() };
        assert_eq!(found.attribute(REFERENCE_LIST).unwrap().unwrap().dataspace, Dataspace::fixed(&[4]));
    }

    #[test]
    fn a_list_of_another_type_stays() {
        use crate::edit::tests::{chunked, new_file, root};
        use crate::new_file::{NewAttribute, ValuePart};
        use crate::{LinkTarget, Node};
        let (_, editing) = new_file(Libver::Earliest, true);
        let scale = editing.create_object(&chunked(&[2], &[Some(2)], &[2], false)).unwrap();
        editing.link(root(&editing), "x", LinkTarget::Hard(scale)).unwrap();
        let other = NewAttribute {
            name: REFERENCE_LIST.into(),
            datatype: Datatype::of_numpy("<i4".parse().unwrap()).unwrap(),
            dataspace: Dataspace::fixed(&[1]),
            value: vec![ValuePart::Bytes(vec![7, 0, 0, 0])],
        };
        editing.set_attribute(scale, &other).unwrap();
        let error = editing.add_scale_user(scale, 7, 0).unwrap_err().to_string();
        assert!(error.contains("REFERENCE_LIST has another type"), "{error}");
        editing.flush().unwrap();
        let Node::Dataset(found) = editing.file().object_at(scale, "x").unwrap() else { panic!() };
        assert_eq!(found.attribute(REFERENCE_LIST).unwrap().unwrap().data.to_vec(), [7, 0, 0, 0]);
    }
}
