//! Locates chunks for the engine.
//!
//! The whole index is one table in memory, and is read when it pays off. As long as few of many
//! chunks have been asked for, each chunk is looked up in the file.

use super::{ChunkIndex, ChunkRecord, IndexRequest, Lookup};
use crate::data_layout::ChunkedLayout;
use crate::edit::{ChunkPlace, ChunkTable};
use crate::{File, Hdf5Error, Result, interrupt};
use hyperslab_array::{ChunkList, ChunkLocator, Found, LocateError, Location};
use hyperslab_store::fork::Lazy;
use hyperslab_store::turns::{self, Refused};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One lookup in a file takes as long as reading the index of this many chunks.
const LOOKUP: u64 = 4096;

/// Most lookups of a dataset in the file.
const MOST_LOOKUPS: u64 = 1024;

/// On a server, a call that looks up chunks takes as long as this many lookups, or longer.
const FAR_CALL: u64 = 32;

/// The chunks of a dataset. Their index is read when it pays off.
#[derive(Debug)]
pub struct Chunks {
    file: File,
    /// Address of the dataset's header.
    dataset: u64,
    layout: ChunkedLayout,
    shape: Vec<u64>,
    max_shape: Vec<Option<u64>>,
    /// Number of filters, and number of codecs before them.
    filters: u32,
    shift: u32,
    index: Lazy<Arc<ChunkIndex>>,
    /// How many chunks have been looked up without the index.
    lookups: AtomicU64,
    /// Turn of the thread that reads the index. Other threads wait for it.
    reading: u64,
}

impl Chunks {
    /// `dataset` is the address of its header. `shift` codecs come before the `filters` filters.
    pub fn new(
        file: File,
        dataset: u64,
        layout: ChunkedLayout,
        (shape, max_shape): (Vec<u64>, Vec<Option<u64>>),
        (filters, shift): (u32, u32),
    ) -> Self {
        let (index, reading) = (Lazy::new(), turns::number());
        let lookups = AtomicU64::new(0);
        Chunks { file, dataset, layout, shape, max_shape, filters, shift, index, lookups, reading }
    }

    /// Returns the index of all chunks, read once per open file. After a failure the next call
    /// tries again.
    pub fn index(&self) -> Result<Arc<ChunkIndex>> {
        self.loaded_index().cloned()
    }

    fn loaded_index(&self) -> Result<&Arc<ChunkIndex>> {
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        // Without a turn, this thread is already reading the index further up its stack. Read it
        // again.
        let _turn = match turns::take(self.reading, Some(&interrupt::is_wanted)) {
            Err(Refused::Stopped) => {
                return Err(Hdf5Error::Interrupted { file: self.file.source().name() });
            }
            turn => turn.ok(),
        };
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let request = self.request();
        let read = || ChunkIndex::read(&request);
        let index = self.file.chunk_index(self.dataset, read)?;
        Ok(self.index.put(index))
    }

    fn request(&self) -> IndexRequest<'_> {
        IndexRequest {
            source: self.file.source(),
            layout: &self.layout,
            shape: &self.shape,
            max_shape: &self.max_shape,
            filtered: self.filters > 0,
        }
    }

    /// Returns the index of all chunks if it is in memory or worth reading. Otherwise returns an
    /// index of the wanted chunks.
    fn index_of(&self, wanted: ChunkList<'_>) -> Result<Cow<'_, ChunkIndex>> {
        if self.index.get().is_none()
            && !self.file.has_chunk_index(self.dataset)
            && self.takes_lookups(wanted.len() as u64)
            && let Some(found) = self.look_up(wanted)?
        {
            return Ok(Cow::Owned(found));
        }
        self.loaded_index().map(|index| Cow::Borrowed(&**index))
    }

    /// Returns `true` if looking up this many more chunks is cheaper than reading the index.
    ///
    /// A file that is being written is not read bit by bit: chunks would be found in different
    /// states of the file.
    fn takes_lookups(&self, count: u64) -> bool {
        if self.file.is_being_written() {
            return false;
        }
        let count = if self.file.source().prefers_rounds() { count.max(FAR_CALL) } else { count };
        let axes = self.shape.iter().zip(&self.layout.chunk);
        let chunks = axes.fold(1u64, |all, (n, chunk)| all.saturating_mul(n.div_ceil((*chunk).max(1))));
        let lookups = self.lookups.fetch_add(count, Ordering::Relaxed).saturating_add(count);
        lookups <= (chunks / LOOKUP).min(MOST_LOOKUPS)
    }

    /// Looks up chunks in the file. `None`: this needs the whole index.
    fn look_up(&self, wanted: ChunkList<'_>) -> Result<Option<ChunkIndex>> {
        let request = self.request();
        request.source.foresee(|| wanted.iter().for_each(|chunk| drop(ChunkIndex::find(&request, chunk))))?;
        let mut records: Vec<ChunkRecord> = Vec::new();
        for chunk in wanted.iter() {
            match ChunkIndex::find(&request, chunk)? {
                Lookup::Stored(record) => records.push(record),
                Lookup::Absent => {}
                Lookup::Unsorted => return Ok(None),
            }
        }
        records.sort_unstable_by_key(|record| record.number);
        let axes = self.shape.iter().zip(&self.layout.chunk);
        let counts = axes.map(|(n, chunk)| n.div_ceil((*chunk).max(1))).collect();
        Ok(Some(ChunkIndex { counts, records }))
    }

    /// Returns `true` if a chunk reaches past the extent.
    fn is_cut(&self, chunk: &[u64]) -> bool {
        let axes = chunk.iter().zip(&self.layout.chunk).zip(&self.shape);
        axes.into_iter().any(|((place, len), n)| place.saturating_add(1).saturating_mul(*len) > *n)
    }

    /// Finds chunks of a dataset that is being changed.
    fn locate_in(
        &self,
        table: &ChunkTable,
        wanted: ChunkList<'_>,
        found: &mut Found,
    ) -> Result<(), LocateError> {
        let source = self.file.source();
        found.object(|key| key.push_str(source.key()));
        for place in table.get_all(wanted.iter()) {
            let Some(ChunkPlace { address, size, skipped, .. }) = place else {
                found.chunk(Location::Absent);
                continue;
            };
            let skipped = u64::from(skipped & self.filter_bits()).checked_shl(self.shift);
            let skipped = skipped.and_then(|skipped| u32::try_from(skipped).ok());
            let skipped = skipped
                .ok_or_else(|| source.invalid("a chunk's filter mask skips a filter after the 32nd codec"))?;
            let offset = source.base().saturating_add(address);
            found.chunk(Location::Range { offset, len: size, skipped });
        }
        Ok(())
    }

    /// The bits of all filters in a mask.
    fn filter_bits(&self) -> u32 {
        u32::MAX.checked_shr(32u32.saturating_sub(self.filters)).unwrap_or(0)
    }

    /// Returns the skipped filters as bits of the codec chain. `None`: the chain is longer than a
    /// mask.
    fn skipped_codecs(&self, chunk: &[u64], mask: u32) -> Option<u32> {
        let filters = self.filter_bits();
        let mask = if self.layout.edges_unfiltered && self.is_cut(chunk) { filters } else { mask };
        // Bits beyond the filters are meaningless. Some writers set them all.
        u32::try_from(u64::from(mask & filters).checked_shl(self.shift)?).ok()
    }
}

impl ChunkLocator for Chunks {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        if let Some(editing) = self.file.editing() {
            editing.settle_one(self.dataset).map_err(LocateError::from)?;
        }
        if let Some(table) = self.file.inner.edits.as_ref().and_then(|edits| edits.chunks(self.dataset)) {
            return self.locate_in(&table, wanted, found);
        }
        let index = self.index_of(wanted).map_err(|error| match error {
            // Keep store errors: the engine handles these.
            Hdf5Error::Store(error) => LocateError::from(error),
            error => error.into(),
        })?;
        let source = self.file.source();
        found.object(|key| key.push_str(source.key()));
        for chunk in wanted.iter() {
            let axes = chunk.iter().zip(&index.counts);
            let inside =
                chunk.len() == index.counts.len() && axes.clone().all(|(place, count)| place < count);
            if !inside {
                let counts = &index.counts;
                return Err(source
                    .invalid(format!("chunk {chunk:?} is outside the chunk grid of shape {counts:?}"))
                    .into());
            }
            let number = axes.fold(0, |number, (place, count)| number * count + place);
            let Some(record) = index.get(number) else {
                found.chunk(Location::Absent);
                continue;
            };
            let skipped = self.skipped_codecs(chunk, record.skipped);
            let skipped = skipped
                .ok_or_else(|| source.invalid("a chunk's filter mask skips a filter after the 32nd codec"))?;
            let offset = source.base().saturating_add(record.address);
            found.chunk(Location::Range { offset, len: record.size, skipped });
        }
        Ok(())
    }

    fn shares_objects(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileOptions;
    use crate::data_layout::ChunkIndexKind;
    use crate::testing::{SIZES, append_checksum, bare, fails, store, structure};

    /// A file that begins with a superblock of version 2, followed by `body`.
    fn file(body: &[u8]) -> File {
        File::open(store("a file", &bare(SIZES, body)), "a file", FileOptions::default()).unwrap()
    }

    /// Chunks of 2 x 3 bytes in a shape of 4 x 7, all stored. Their index is at address 60.
    fn chunks(filters: u32, shift: u32, edges_unfiltered: bool) -> Chunks {
        let element = |n: u64| structure!(n * 5 + 100, 5_u16, n as u32 | 0xff00_0000);
        let array = structure!(b"FADB\0\x01", 60u64, (0..6).flat_map(element).collect::<Vec<u8>>());
        let mut body = structure!([0; 12], append_checksum(structure!(b"FAHD\0\x01\x0e\x0a", 6u64, 100u64)));
        body.resize(52, 0);
        body.extend(append_checksum(array));
        let layout = ChunkedLayout {
            chunk: vec![2, 3],
            element_size: 1,
            index: ChunkIndexKind::FixedArray { page_bits: 10 },
            address: Some(60),
            edges_unfiltered,
        };
        let shapes = (vec![4, 7], vec![Some(4), Some(7)]);
        Chunks::new(file(&body), 9, layout, shapes, (filters, shift))
    }

    fn located(chunks: &Chunks, chunk: [u64; 2]) -> (u64, u64, u32) {
        let mut found = Found::default();
        chunks.locate(ChunkList::one(&chunk), &mut found).unwrap();
        match found.get(0) {
            Some(("a file", Location::Range { offset, len, skipped })) => (offset, len, skipped),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ranges_and_masks() {
        let plain = chunks(2, 0, false);
        assert_eq!(located(&plain, [0, 0]), (100, 5, 0));
        assert_eq!(located(&plain, [1, 2]), (125, 5, 1));
        assert_eq!(located(&plain, [1, 0]), (115, 5, 3));
        assert_eq!(located(&chunks(3, 1, false), [1, 2]), (125, 5, 5 << 1));
        assert_eq!(located(&chunks(32, 0, false), [0, 1]).2, 0xff00_0001);
        assert!(chunks(32, 1, false).locate(ChunkList::one(&[0, 1]), &mut Found::default()).is_err());
        assert!(Arc::ptr_eq(&plain.index().unwrap(), &plain.index().unwrap()));
        for outside in [&[2, 0][..], &[0, 3], &[0], &[0, 0, 0]] {
            assert!(plain.locate(ChunkList::one(outside), &mut Found::default()).is_err());
        }
    }

    #[test]
    fn edges_have_no_filters() {
        let edges = chunks(2, 1, true);
        assert_eq!(located(&edges, [1, 2]).2, 0b110);
        assert_eq!(located(&edges, [0, 2]).2, 0b110);
        assert_eq!(located(&edges, [1, 1]).2, 0);
        assert_eq!(located(&edges, [0, 1]).2, 0b10);
    }

    #[test]
    fn absent_chunks_and_errors() {
        let layout = |address| ChunkedLayout {
            chunk: vec![2],
            element_size: 1,
            index: ChunkIndexKind::BTree1,
            address,
            edges_unfiltered: false,
        };
        let chunks = |at| Chunks::new(file(&[0; 9]), 9, layout(at), (vec![4], vec![None]), (0, 0));
        let empty = chunks(None);
        let mut found = Found::default();
        empty.locate(ChunkList::one(&[1]), &mut found).unwrap();
        assert_eq!(found.get(0), Some(("a file", Location::Absent)));
        let broken = chunks(Some(48));
        for _ in 0..2 {
            let found = broken.locate(ChunkList::one(&[1]), &mut Found::default());
            fails(found, "version 1 B-tree node at address 48");
        }
    }

    /// A fixed array in pages of 1024 elements. The chunks have one byte each.
    fn many_chunks(count: u64) -> Chunks {
        let elements: Vec<u64> = (0..count).map(|number| 60 + number).collect();
        let page = |page: &[u64]| append_checksum(page.iter().flat_map(|at| at.to_le_bytes()).collect());
        let pages: Vec<_> = elements.chunks(1024).map(page).collect();
        let bitmap = vec![0xff; pages.len().div_ceil(8)];
        let array = append_checksum(structure!(b"FADB\0\0", 60u64, bitmap));
        let mut body = structure!([0; 12], append_checksum(structure!(b"FAHD\0\0\x08\x0a", count, 100u64)));
        body.resize(52, 0);
        body.extend(structure!(array, pages.concat()));
        let layout = ChunkedLayout {
            chunk: vec![1],
            element_size: 1,
            index: ChunkIndexKind::FixedArray { page_bits: 10 },
            address: Some(60),
            edges_unfiltered: false,
        };
        Chunks::new(file(&body), 9, layout, (vec![count], vec![Some(count)]), (0, 0))
    }

    #[test]
    fn few_of_many_chunks_are_looked_up() {
        let chunks = many_chunks(4 * LOOKUP);
        let source = chunks.file.source();
        let locate = |wanted: &[u64]| {
            let mut found = Found::default();
            for chunk in wanted {
                chunks.locate(ChunkList::one(&[*chunk]), &mut found).unwrap();
            }
            let place = |number| match found.get(number) {
                Some((_, Location::Range { offset, len: 1, skipped: 0 })) => offset - 60,
                other => panic!("{other:?}"),
            };
            assert_eq!((0..wanted.len()).map(place).collect::<Vec<_>>(), wanted);
        };
        source.take_ranges();
        locate(&[9000, 16_000, 9001]);
        let lens: Vec<usize> = source.take_ranges().into_iter().map(|(_, len)| len).collect();
        // The first pages of the file have been read. A lookup takes a page of the array.
        assert_eq!(lens, [8196; 3]);
        assert!(chunks.index.get().is_none());
        locate(&[1, 2]);
        assert!(chunks.index.get().is_some(), "the index pays off");
        let total: usize = source.take_ranges().into_iter().map(|(_, len)| len).sum();
        // Pages of elements are not read again if their pages of the file are in memory.
        assert!((8 * 8196..=16 * 8196).contains(&total), "{total}");
        locate(&[5, 16_383, 0]);
        assert!(source.take_ranges().is_empty());
    }

    #[test]
    fn read_once_by_many_threads() {
        let chunks = chunks(1, 0, false);
        let before = chunks.file.source().reads();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| located(&chunks, [1, 1]));
            }
        });
        assert!(chunks.file.source().reads() <= before + 1);
    }
}
