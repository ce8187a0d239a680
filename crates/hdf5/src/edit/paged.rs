//! Changing a file with pages, or with a list of its free space: the first flush makes it a file
//! without.
//!
//! New structures are not cut by pages. A program with a page buffer would read them wrongly. The file
//! therefore says that it has no pages, before anything refers to new structures. When it is closed,
//! the layer above writes it anew with pages.
//!
//! The HDF5 library's list of free space (`fs_persist`) does not know about the space that is used
//! here. The file says that it has no list. The listed space is lost until the file is compacted.

use super::Editing;
use crate::File;
use crate::Result;
use crate::checksum::lookup3;
use crate::compact::{pages, survey};
use crate::object_header::ObjectHeader;

/// The strategy of files without pages.
const LISTS: u8 = 0;

/// The pages of a file, or its list of free space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paged {
    /// Bytes of a page. `None`: there is only a list of free space.
    pub size: Option<u64>,
    /// `true`: the file says now that it has neither.
    pub is_lost: bool,
}

/// The pages of a file that is opened for changes, by its superblock's extension. `Err`: it cannot be
/// changed.
pub(super) fn of(header: &ObjectHeader) -> Result<Option<Paged>, &'static str> {
    let Some(message) = header.message(survey::FILE_SPACE) else { return Ok(None) };
    match *message.data {
        [1, strategy, has_list @ 0..=1, ..] => {
            let size = pages::of_message(message);
            if strategy == pages::STRATEGY && size.is_none() {
                return Err("a file with unusual pages");
            }
            if size.is_none() && has_list == 0 {
                return Ok(None);
            }
            Ok(Some(Paged { size, is_lost: false }))
        }
        _ => Err("a file with an old list of its free space"),
    }
}

/// The block of a header with a message: its address, and the end of its messages.
fn block_with(header: &ObjectHeader, message: u64) -> Option<(u64, u64)> {
    let prefix = &header.prefix;
    let (before, checksum) = match prefix.version {
        1 => (16, 0),
        _ => (6 + prefix.extra.len() as u64 + (1_u64 << (prefix.flags & 3)), 4),
    };
    let first = (header.address, header.address.saturating_add(before).saturating_add(prefix.block));
    let other =
        |(address, len): &(u64, u64)| (*address, address.saturating_add(len.saturating_sub(checksum)));
    let mut all = std::iter::once(first).chain(header.blocks.iter().map(other));
    all.find(|(start, end)| (*start..*end).contains(&message))
}

impl Editing {
    /// The size of the pages that the file had before its first flush. `None`: it had none, or has them
    /// still.
    pub fn lost_pages(&self) -> Option<u64> {
        self.edits.paged.lock().filter(|paged| paged.is_lost).and_then(|paged| paged.size)
    }

    /// Makes the file one without pages and without a list of free space. The caller excludes other writers.
    pub(super) fn lose_pages(&self) -> Result<()> {
        let paged = *self.edits.paged.lock();
        let Some(paged) = paged.filter(|paged| !paged.is_lost) else { return Ok(()) };
        let Some(extension) = self.file.inner.superblock.extension else { return Ok(()) };
        let source = self.file.source();
        // As it is now: another writer may have been faster.
        let now = File::open(self.edits.bytes.clone(), self.edits.bytes.key(), self.file.options().clone())?;
        let header = now.header(extension)?;
        let message = header.message(survey::FILE_SPACE);
        let message = message.ok_or_else(|| source.invalid("it has lost the message about its pages"))?;
        let (start, end) = block_with(&header, message.address)
            .ok_or_else(|| source.invalid("a message of its superblock has no place"))?;
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or_default()];
        self.edits.bytes.read_at(source.base().saturating_add(start), &mut bytes)?;
        let at = message.address.saturating_sub(start).saturating_add(1);
        let facts = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at..)?.first_chunk_mut::<2>());
        if let Some([strategy, has_list]) = facts {
            if *strategy == pages::STRATEGY {
                *strategy = LISTS;
            }
            *has_list = 0;
        }
        if header.prefix.version != 1 {
            let checksum = lookup3(&bytes);
            bytes.extend_from_slice(&checksum.to_le_bytes());
        }
        self.write(start, &[&bytes])?;
        *self.edits.paged.lock() = Some(Paged { is_lost: true, ..paged });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::{Compaction, Pages};
    use crate::edit::{FileSpace, NewFile};
    use crate::new_file::{NewKind, NewObject};
    use crate::{FileOptions, Libver, LinkTarget};
    use hyperslab_store::EditedFile;
    use std::sync::Arc;

    fn strategy(file: &File) -> Option<u8> {
        let header = file.header(file.inner.superblock.extension?).unwrap();
        header.message(survey::FILE_SPACE).map(|message| message.data[1])
    }

    fn add(file: &File, name: &str) {
        let kind = NewKind::Group { links: Vec::new(), tracks_links: false };
        let group = NewObject { path: name.into(), kind, attributes: Vec::new(), tracks_attributes: false };
        let editing = file.editing().unwrap();
        let group = editing.create_object(&group).unwrap();
        editing.link(file.root().unwrap().address(), name, LinkTarget::Hard(group)).unwrap();
    }

    #[test]
    fn the_first_flush_says_that_there_are_no_pages() {
        for libver in [Libver::Earliest, Libver::V110] {
            for space in [None, Some(FileSpace { strategy: 2, threshold: 1 })] {
                let bytes = Arc::new(EditedFile::memory(Vec::new()));
                let new = NewFile { libver, user_block: 512, track_order: false, space };
                let file = File::create(bytes.clone(), new, FileOptions::default()).unwrap();
                add(&file, "a");
                file.editing().unwrap().close().unwrap();
                let plain = File::open(bytes.clone(), bytes.key(), FileOptions::default()).unwrap();
                assert_eq!(strategy(&plain), space.map(|space| space.strategy));
                let paged = Arc::new(EditedFile::memory(Vec::new()));
                Compaction::paged(&plain, Pages::AtLeast(4096))
                    .unwrap()
                    .write(&paged, &mut |_| true)
                    .unwrap();
                let file = File::edit(paged.clone(), libver, FileOptions::default()).unwrap();
                assert_eq!(strategy(&file), Some(pages::STRATEGY));
                let editing = file.editing().unwrap();
                editing.flush().unwrap();
                assert_eq!(editing.lost_pages(), None);
                for name in ["b", "c"] {
                    add(&file, name);
                    editing.flush().unwrap();
                    assert_eq!(editing.lost_pages(), Some(4096));
                }
                editing.close().unwrap();
                let found = File::open(paged.clone(), paged.key(), FileOptions::default()).unwrap();
                assert_eq!(strategy(&found), Some(LISTS));
                let links = found.root().unwrap().links().unwrap();
                let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
                assert_eq!(names, ["a", "b", "c"]);
            }
        }
    }
}
