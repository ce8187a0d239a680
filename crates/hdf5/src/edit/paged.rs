//! Changing a file with pages: the first flush makes it a file without pages.
//!
//! New structures are not cut by pages. A program with a page buffer would read them wrongly. The file
//! therefore says that it has no pages, before anything refers to new structures. When it is closed,
//! the layer above writes it anew with pages.

use super::Editing;
use crate::File;
use crate::Result;
use crate::checksum::lookup3;
use crate::compact::{pages, survey};
use crate::object_header::ObjectHeader;

/// The strategy of files without pages.
const LISTS: u8 = 0;

/// The pages of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paged {
    /// Bytes of a page.
    pub size: u64,
    /// `true`: the file says now that it has no pages.
    pub is_lost: bool,
}

/// The pages of a file that is opened for changes, by its superblock's extension. `Err`: it cannot be
/// changed.
pub(super) fn of(header: &ObjectHeader) -> Result<Option<Paged>, &'static str> {
    let Some(message) = header.message(survey::FILE_SPACE) else { return Ok(None) };
    match *message.data {
        [1, strategy, 0, ..] => {
            let size = pages::of_message(message);
            if strategy == pages::STRATEGY && (size.is_none() || first_block(header).1 < message.address) {
                return Err("a file with unusual pages");
            }
            Ok(size.map(|size| Paged { size, is_lost: false }))
        }
        _ => Err("a file that keeps a list of its free space"),
    }
}

/// The first block of a header: its address and its end.
fn first_block(header: &ObjectHeader) -> (u64, u64) {
    let prefix = &header.prefix;
    let before = match prefix.version {
        1 => 16,
        _ => 6 + prefix.extra.len() as u64 + (1_u64 << (prefix.flags & 3)),
    };
    (header.address, header.address.saturating_add(before).saturating_add(prefix.block))
}

impl Editing {
    /// The size of the pages that the file had before its first flush. `None`: it had none, or has them
    /// still.
    pub fn lost_pages(&self) -> Option<u64> {
        self.edits.paged.lock().filter(|paged| paged.is_lost).map(|paged| paged.size)
    }

    /// Makes the file one without pages. The caller excludes other writers.
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
        let (start, end) = first_block(&header);
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or_default()];
        self.edits.bytes.read_at(source.base().saturating_add(start), &mut bytes)?;
        let at = message.address.saturating_sub(start).saturating_add(1);
        if let Some(strategy) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)) {
            *strategy = LISTS;
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
