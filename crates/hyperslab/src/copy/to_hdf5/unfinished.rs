//! A file under construction that structures are read from again: for servers, and with metadata in
//! front.

use crate::Result;
use hyperslab_hdf5::compact::{Compaction, Pages};
use hyperslab_store::{
    EditedFile, Key, Opened, Operation, RangeRead, Replacement, Result as Stored, Store, StoreError,
};
use std::sync::Arc;

/// Bytes that are copied at once.
const PIECE: u64 = 1 << 20;

/// A file that is written as a [`Replacement`].
#[derive(Debug)]
pub(super) struct Unfinished {
    file: Arc<EditedFile>,
    len: u64,
    failed: bool,
}

impl Unfinished {
    pub(super) fn new(file: EditedFile) -> Unfinished {
        Unfinished { file: Arc::new(file), len: 0, failed: false }
    }

    fn step(&mut self, work: impl FnOnce(&mut Self) -> Stored<()>) -> Stored<()> {
        let done = work(self);
        self.failed |= done.is_err();
        done
    }
}

impl Replacement for Unfinished {
    fn len(&self) -> u64 {
        self.len
    }

    fn append(&mut self, parts: &[&[u8]]) -> Stored<()> {
        self.step(|new| {
            parts.iter().try_for_each(|part| {
                new.file.write_at(new.len, part)?;
                new.len = new.len.saturating_add(part.len() as u64);
                Ok(())
            })
        })
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Stored<()> {
        self.step(|new| {
            let len = bytes.len() as u64;
            if offset.checked_add(len).is_none_or(|end| end > new.len) {
                return Err(StoreError::out_of_range(&*new.file, new.file.key(), offset, len, new.len));
            }
            new.file.write_at(offset, bytes)
        })
    }

    fn open(&mut self) -> Stored<Option<Box<dyn Opened>>> {
        Ok(Some(Box::new(Shown(self.file.clone(), self.len))))
    }

    fn copy(&mut self, from: &dyn Opened, offset: u64, len: u64) -> Stored<()> {
        self.step(|new| {
            let mut done = 0;
            while done < len {
                let piece = (len - done).min(PIECE);
                let mut buf = vec![0; usize::try_from(piece).unwrap_or_default()];
                from.read_ranges(&mut [RangeRead { offset: offset.saturating_add(done), buf: &mut buf }])?;
                new.file.write_at(new.len, &buf)?;
                new.len = new.len.saturating_add(piece);
                done += piece;
            }
            Ok(())
        })
    }

    fn share(&mut self, _: &dyn Opened) -> Stored<bool> {
        Ok(false)
    }

    fn commit(self: Box<Self>) -> Stored<()> {
        if self.failed {
            let why = std::io::Error::other("an earlier step of writing it has failed");
            return Err(StoreError::io(&*self.file, Operation::Write, self.file.key(), why));
        }
        self.file.publish()?;
        self.file.deliver()
    }
}

/// The bytes so far.
#[derive(Debug)]
struct Shown(Arc<EditedFile>, u64);

impl Opened for Shown {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Stored<()> {
        let key = Key::new(self.0.key())?;
        self.0.read_ranges(key, None, ranges).map(drop)
    }

    fn size(&self) -> u64 {
        self.1
    }
}

/// Writes a copy of a file with all metadata in front, in pages. Returns the new addresses of objects.
pub(super) fn in_front(
    draft: &hyperslab_hdf5::File,
    into: EditedFile,
    addresses: &[u64],
    advance: &mut dyn FnMut(u64) -> bool,
) -> Result<(Unfinished, Vec<u64>)> {
    let mut new = Unfinished::new(into);
    let plan = Compaction::paged(draft, Pages::Chosen)?;
    new.len = plan.write(&new.file, advance)?.after;
    // An array that could not be copied has no name, and is not in the file.
    let moved = addresses.iter().map(|old| plan.address(*old).unwrap_or(0)).collect();
    Ok((new, moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps() {
        let mut new = Unfinished::new(EditedFile::memory(Vec::new()));
        new.append(&[b"ab", b"cd"]).unwrap();
        new.overwrite(1, b"x").unwrap();
        let opened = new.open().unwrap().unwrap();
        let mut buf = [0; 3];
        opened.read_ranges(&mut [RangeRead { offset: 1, buf: &mut buf }]).unwrap();
        assert_eq!((&buf, opened.size()), (b"xcd", 4));
        new.copy(&*opened, 2, 2).unwrap();
        assert_eq!(new.len(), 6);
        assert!(new.overwrite(5, b"12").is_err());
        // The object may be incomplete.
        assert!(Box::new(new).commit().is_err());
    }
}
