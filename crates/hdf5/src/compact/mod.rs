//! Copies a file without its unused space, and with everything that it has.
//!
//! Nothing is decoded that can be copied: messages, chunks and runs of elements keep their bytes.
//! Only addresses in them change. Filters and links of unknown kinds, times and comments stay.
//! Structures that are full of addresses (indexes, heaps, symbol tables) are built again.
//!
//! 1. `survey` finds all objects that the root group leads to.
//! 2. A first pass does everything but write. It finds what cannot be kept, and the lengths of
//!    headers and of values of variable length, which do not depend on addresses.
//! 3. A file with pages takes two more such passes, once the size of its pages is known.
//! 4. The last pass writes: user block, superblock, headers, links and attributes that are not in
//!    headers, values of variable length, indexes of chunks. Then come the elements of one object after
//!    the other, chunks in C order.
//!
//! References to deleted objects become empty references and are counted: after a copy, an old
//! address may be inside any object.

mod elements;
mod filters;
mod links;
mod messages;
mod mover;
mod output;
pub(crate) mod pages;
pub(crate) mod salvaged;
mod storage;
pub(crate) mod superblock;
pub(crate) mod survey;
#[cfg(test)]
mod tests;

use crate::superblock::Superblock;
use crate::{File, Hdf5Error, Result};
use hyperslab_store::EditedFile;
use mover::{Mover, Passed, Places};
pub use pages::Pages;
pub(crate) use salvaged::Salvaged;
use std::sync::Arc;
pub(crate) use survey::Found;

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
    /// The superblock's extension of a file with pages.
    extension: Option<Vec<u8>>,
    first: Passed,
    places: Places,
    /// Replacements for the damaged structures of the file.
    salvaged: Option<Salvaged>,
}

impl Compaction {
    /// Reads all metadata of a file. A file with pages keeps them.
    ///
    /// Fails with [`Hdf5Error::Unsupported`] if the file has something that would be lost.
    pub fn of(file: &File) -> Result<Compaction> {
        Compaction::paged(file, Pages::Keep)
    }

    /// Reads all metadata of a file. The copy has these pages.
    ///
    /// Fails like [`Compaction::of`].
    pub fn paged(file: &File, pages: Pages) -> Result<Compaction> {
        let mut superblock = superblock::read(file)?;
        let mut objects = survey::survey(file)?;
        let pages = match (pages, survey::pages(file)?) {
            (Pages::Keep, None) => None,
            (Pages::Keep, Some(size)) => Some(Pages::AtLeast(size)),
            (pages, _) => Some(pages),
        };
        if pages.is_some() {
            // It is built again.
            survey::check_extension(file)?;
            objects.retain(|found| Some(found.address) != file.inner.superblock.extension);
            superblock = superblock::with_extension(&superblock);
        }
        let unplaced =
            Places { headers: objects.iter().map(|found| (found.address, 0)).collect(), ..Places::default() };
        let dry = |places: &Places| Mover::new(file, places, None, None, &mut |_| true).run(&objects);
        let mut first = dry(&unplaced)?;
        let (mut extension, mut page) = (None, None);
        if let Some(pages) = pages {
            let structures = first.structures.saturating_add(first.indexes).saturating_add(4096);
            let all = first.headers.iter().fold(structures, |all, len| all.saturating_add(*len));
            let size = pages.size(first.longest, all).map_err(unstorable)?;
            let version = if superblock.get(8) == Some(&2) { 1 } else { 2 };
            extension = Some(pages::extension(version, pages::STRATEGY, 1, size).map_err(unstorable)?);
            page = Some(size);
        }
        let before = extension.as_ref().map_or(0, |extension| extension.len() as u64);
        let front = superblock::len(&superblock).saturating_add(before);
        let mut places = Places::new(&objects, &first, front, page);
        if page.is_some() {
            // The lengths of links and attributes with gaps give the place of the indexes, which gives
            // their lengths with gaps.
            for _ in 0..2 {
                first = dry(&places)?;
                places = Places::new(&objects, &first, front, page);
            }
        }
        Ok(Compaction { file: file.clone(), superblock, objects, extension, first, places, salvaged: None })
    }

    /// Reads the rest of a damaged file, which was opened by a lenient reader. Objects that cannot be
    /// copied are left out, and noted as lost. Objects that nothing leads to get links.
    pub(crate) fn salvaged(
        file: &File,
        superblock: Vec<u8>,
        mut objects: Vec<Found>,
        mut salvaged: Salvaged,
    ) -> Result<Compaction> {
        loop {
            let unplaced = objects.iter().map(|found| (found.address, 0)).collect();
            let unplaced = Places { headers: unplaced, ..Places::default() };
            let first = Mover::new(file, &unplaced, Some(&salvaged), None, &mut |_| true).run(&objects)?;
            if !first.failed.is_empty() {
                objects.retain(|found| !first.failed.contains(&found.address));
                if first.failed.contains(&salvaged.root) {
                    salvaged.replace_root(&mut objects)?;
                }
                continue;
            }
            let lost = salvaged::unreached(&objects, &first.linked, salvaged.root);
            if salvaged.adopt(&lost, &mut objects)? {
                continue;
            }
            let places = Places::new(&objects, &first, superblock::len(&superblock), None);
            let (file, salvaged) = (file.clone(), Some(salvaged));
            return Ok(Compaction { file, superblock, objects, extension: None, first, places, salvaged });
        }
    }

    /// Number of objects in the group of lost objects.
    pub(crate) fn adopted(&self) -> u64 {
        self.salvaged.as_ref().map_or(0, Salvaged::adopted)
    }

    /// The paths of all objects of the copy.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.objects.iter().map(|found| found.path.as_str())
    }

    /// The address of an object in the copy, given its address in the file.
    pub fn address(&self, old: u64) -> Option<u64> {
        self.places.headers.get(&old).copied()
    }

    /// The gain of the copy. The copy of a file with filtered values of variable length may have a few
    /// bytes more or less: addresses compress in another way.
    pub fn expected(&self) -> Compacted {
        let source = self.file.source();
        let end = self.places.elements.saturating_add(self.first.elements);
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
        let places = &self.places;
        let salvaged = self.salvaged.as_ref();
        let passed = Mover::new(&self.file, places, salvaged, Some(&**into), advance).run(&self.objects)?;
        let lens =
            |passed: &Passed| (passed.headers.clone(), passed.structures, passed.values, passed.indexes);
        if lens(&passed) != lens(&self.first) {
            return Err(source.invalid("it was changed by another program while it was copied"));
        }
        let end = places.elements.saturating_add(passed.elements);
        let of = |address: Option<u64>| address.and_then(|old| places.headers.get(&old).copied());
        let Superblock { root, extension, .. } = self.file.inner.superblock.clone();
        let root = self.salvaged.as_ref().map_or(root, |salvaged| salvaged.root);
        let root = of(Some(root)).ok_or_else(|| source.invalid("it has no root group"))?;
        let new = superblock::moved(
            &self.superblock,
            source.base(),
            end,
            root,
            passed.root_table.as_ref(),
            self.extension.as_ref().map(|_| superblock::len(&self.superblock)).or(of(extension)),
        );
        let after = source.base().saturating_add(end);
        into.set_len(after)?;
        superblock::copy_user_block(&self.file, into)?;
        if let Some(extension) = &self.extension {
            into.write_at(source.base().saturating_add(new.len() as u64), extension)?;
        }
        into.write_at(source.base(), &new)?;
        into.sync()?;
        self.check(into)?;
        Ok(Compacted { before: source.size(), after, lost_references: passed.lost_references })
    }

    /// Reads all structures of the copy.
    fn check(&self, copy: &Arc<EditedFile>) -> Result<()> {
        let copy = File::open(copy.clone(), copy.key(), self.file.options().clone())?;
        let found = survey::survey(&copy)?;
        if self.salvaged.is_some() && found.len() <= self.objects.len() {
            // An object may have another first path: links to lost objects are gone.
            return Ok(());
        }
        let paths = |all: &[Found]| all.iter().map(|found| found.path.clone()).collect::<Vec<_>>();
        let mut expected = paths(&self.objects);
        expected.extend(self.extension.as_ref().map(|_| survey::EXTENSION.to_owned()));
        if paths(&found) == expected {
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
