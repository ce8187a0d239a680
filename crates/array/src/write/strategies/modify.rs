//! Modify: a part of a chunk. The chunk is read, overlaid and replaced.
//!
//! This includes a chunk that reaches past the array's end, even if all of it inside the array is
//! written. Elements that others have appended there since this handle was opened must stay.

use super::WriteStrategy;
use crate::error::ArrayError;
use crate::execute::scratch::{Scratch, resize_slot};
use crate::execute::tasks::{self, store_error};
use crate::read::fetch::fetch;
use crate::write::chunk::{ChunkWriter, Old, Produced};
use hyperslab_store::{Opened, RangeRead, StoreError};

pub(crate) static MODIFY: WriteStrategy = WriteStrategy {
    name: "modify",
    fits: |_, task, _| !task.whole,
    produce: |chunk, scratch, region, offset, old| {
        // If the store cannot check and delete in one step, deleting might undo another writer.
        let stays = matches!(old, Old::Opened(Some(_))) && !chunk.layout.store().facts().swaps_out;
        chunk.load(scratch, old)?;
        let buffer = chunk.buffer(scratch)?;
        // SAFETY: the source covers the task's elements; the region lies within the chunk.
        unsafe { chunk.overlay(region, buffer, offset) };
        if !chunk.keep_empty && !stays && chunk.is_blank(scratch.decoded.as_ref()) {
            return Ok(Produced::Nothing);
        }
        chunk.finish(scratch)
    },
    reads_old: true,
};

impl ChunkWriter<'_> {
    /// Loads the old chunk, or fill value, into `scratch.decoded`.
    fn load(&self, scratch: &mut Scratch, old: Old<'_>) -> Result<(), ArrayError> {
        let layout = self.layout;
        let chain = layout.encoding().chain();
        let found = match old {
            Old::Bytes(None) | Old::Opened(None) => false,
            Old::Opened(Some(opened)) => self.load_opened(scratch, opened).map(|()| true)?,
            Old::Bytes(Some(bytes)) => self.decode(scratch, bytes).map(|()| true)?,
            Old::Stored if chain.is_identity() => {
                let key = tasks::key(layout, &scratch.task, &scratch.key)?;
                let len = chain.decoded_size();
                let chunk = resize_slot(&mut scratch.decoded, len).ok_or_else(|| self.no_memory())?;
                layout
                    .store()
                    .read_exact(key, chunk)
                    .map_err(|source| store_error(layout, &scratch.task, source))?
            }
            Old::Stored if fetch(layout, scratch)? => {
                let encoded = std::mem::take(&mut scratch.encoded);
                let decoded = self.decode(scratch, &encoded);
                scratch.encoded = encoded;
                decoded.map(|()| true)?
            }
            Old::Stored => false,
        };
        if !found {
            self.write_fill_value(self.buffer(scratch)?);
        }
        Ok(())
    }

    /// [`ChunkWriter::load`] from an open object. If there are no codecs, its size was checked.
    fn load_opened(&self, scratch: &mut Scratch, opened: &dyn Opened) -> Result<(), ArrayError> {
        let layout = self.layout;
        let chain = layout.encoding().chain();
        if chain.is_identity() {
            let buf =
                resize_slot(&mut scratch.decoded, chain.decoded_size()).ok_or_else(|| self.no_memory())?;
            return opened
                .read_ranges(&mut [RangeRead { offset: 0, buf }])
                .map_err(|source| store_error(layout, &scratch.task, source));
        }
        let (most, size) = (chain.max_encoded(), opened.size());
        let mut encoded = std::mem::take(&mut scratch.encoded);
        encoded.clear();
        let len = usize::try_from(size).ok().filter(|len| *len <= most);
        let Some(len) = len.filter(|len| encoded.try_reserve_exact(*len).is_ok()) else {
            let (key, url) = (scratch.key.clone(), layout.store().url());
            let large = StoreError::TooLarge { key, url, limit: most as u64 };
            return Err(match len {
                None => store_error(layout, &scratch.task, large),
                Some(_) => self.no_memory(),
            });
        };
        encoded.resize(len, 0);
        let read = opened
            .read_ranges(&mut [RangeRead { offset: 0, buf: &mut encoded }])
            .map_err(|source| store_error(layout, &scratch.task, source));
        let decoded = read.and_then(|()| self.decode(scratch, &encoded));
        scratch.encoded = encoded;
        decoded
    }
}
