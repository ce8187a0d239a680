//! Copies a file without its unused space, and with everything that it has.
//!
//! Nothing is decoded that can be copied: messages, chunks and runs of elements keep their bytes.
//! Only addresses in them change. Filters and links of unknown kinds, times and comments stay.
//! Structures that are full of addresses (indexes, heaps, symbol tables) are built again.
//!
//! 1. `survey` finds all objects that the root group leads to.
//! 2. A first pass does everything but write. It finds what cannot be kept, and the lengths of
//!    headers and of values of variable length, which do not depend on addresses.
//! 3. A second pass writes: user block, superblock, headers, values of variable length, and the rest
//!    object by object.
//!
//! References to deleted objects become empty references and are counted: after a copy, an old
//! address may be inside any object.

mod elements;
mod filters;
mod links;
mod messages;
mod mover;
mod output;
mod storage;
mod superblock;
mod survey;
#[cfg(test)]
mod tests;

use crate::superblock::Superblock;
use crate::{File, Hdf5Error, Result};
use hyperslab_store::EditedFile;
use mover::{Mover, Passed, Places};
use std::collections::HashMap;
use std::sync::Arc;
use survey::Found;

/// The gain of a copy without unused space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of the file.
    pub before: u64,
    /// Bytes of the copy.
    pub after: u64,
    /// References to deleted objects, which are empty in the copy.
    pub lost_references: u64,
}

/// A file that can be copied without its unused space.
#[derive(Debug)]
pub struct Compaction {
    file: File,
    superblock: Vec<u8>,
    objects: Vec<Found>,
    first: Passed,
}

impl Compaction {
    /// Reads all metadata of a file.
    ///
    /// Fails with [`Hdf5Error::Unsupported`] if the file has something that would be lost.
    pub fn of(file: &File) -> Result<Compaction> {
        let superblock = superblock::read(file)?;
        let objects = survey::survey(file)?;
        let unplaced = Places {
            headers: objects.iter().map(|found| (found.address, 0)).collect(),
            first_header: 0,
            values: 0,
            rest: 0,
        };
        let first = Mover::new(file, &unplaced, None, &mut |_| true).run(&objects)?;
        Ok(Compaction { file: file.clone(), superblock, objects, first })
    }

    fn places(&self) -> Places {
        let first_header = superblock::len(&self.superblock).next_multiple_of(8);
        let mut at = first_header;
        let mut headers = HashMap::with_capacity(self.objects.len());
        for (found, len) in self.objects.iter().zip(&self.first.headers) {
            headers.insert(found.address, at);
            at = at.saturating_add(*len);
        }
        let values = at.next_multiple_of(8);
        let rest = values.saturating_add(self.first.values).next_multiple_of(8);
        Places { headers, first_header, values, rest }
    }

    /// The gain of the copy. The copy of a file with filtered values of variable length may have a few
    /// bytes more or less: addresses compress in another way.
    pub fn expected(&self) -> Compacted {
        let source = self.file.source();
        let end = self.places().rest.saturating_add(self.first.rest);
        Compacted {
            before: source.size(),
            after: source.base().saturating_add(end),
            lost_references: self.first.lost_references,
        }
    }

    /// Writes the copy to an empty file, and reads its structures again. `advance` is called with the
    /// number of bytes since its last call. It returns `false` to stop.
    pub fn write(&self, into: &Arc<EditedFile>, advance: &mut dyn FnMut(u64) -> bool) -> Result<Compacted> {
        let source = self.file.source();
        let places = self.places();
        let passed = Mover::new(&self.file, &places, Some(&**into), advance).run(&self.objects)?;
        if (&passed.headers, passed.values) != (&self.first.headers, self.first.values) {
            return Err(source.invalid("it was changed by another program while it was copied"));
        }
        let end = places.rest.saturating_add(passed.rest);
        let of = |address: Option<u64>| address.and_then(|old| places.headers.get(&old).copied());
        let Superblock { root, extension, .. } = self.file.inner.superblock.clone();
        let root = of(Some(root)).ok_or_else(|| source.invalid("it has no root group"))?;
        let new = superblock::moved(
            &self.superblock,
            source.base(),
            end,
            root,
            passed.root_table.as_ref(),
            of(extension),
        );
        let after = source.base().saturating_add(end);
        into.set_len(after)?;
        superblock::copy_user_block(&self.file, into)?;
        into.write_at(source.base(), &new)?;
        into.sync()?;
        self.check(into)?;
        Ok(Compacted { before: source.size(), after, lost_references: passed.lost_references })
    }

    /// Reads all structures of the copy.
    fn check(&self, copy: &Arc<EditedFile>) -> Result<()> {
        let copy = File::open(copy.clone(), copy.key(), self.file.options().clone())?;
        let found = survey::survey(&copy)?;
        let paths = |all: &[Found]| all.iter().map(|found| found.path.clone()).collect::<Vec<_>>();
        if paths(&found) == paths(&self.objects) {
            return Ok(());
        }
        let (expected, found) = (self.objects.len(), found.len());
        let why = format!("the copy is not complete: expected {expected} objects, found {found}");
        Err(self.file.source().invalid(why))
    }
}

/// Returns the error of a structure that HDF5 cannot store.
fn unstorable(why: crate::BuildError) -> Hdf5Error {
    Hdf5Error::Unstorable { object: "the copy".into(), why: why.0 }
}
