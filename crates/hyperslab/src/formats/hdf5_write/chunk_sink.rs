//! The sink of a dataset in chunks.

use super::filters::Filters;
use super::held::Held;
use super::ordered::{Ordered, Placed};
use super::{BLOCK, Current, check_elements, fault, reading};
use crate::Result;
use hyperslab_array::{ArrayLayout, ChunkSink, Dims, LocateError, Reading, SinkWrite, WholeChunk};
use hyperslab_codec::{CodecError, Scratch};
use hyperslab_hdf5::Dataset;
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::edit::{ChunkPlace, ChunkTable, Editing};
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the layout of a dataset in chunks.
pub(super) fn layout(
    dataset: &Dataset,
    editing: Editing,
    read: &Arc<ArrayLayout>,
) -> Result<Arc<ArrayLayout>> {
    let current = Arc::new(Current::new(dataset, editing));
    let locator = Arc::new(reading::Locator::new(current.clone(), read.locator().clone()));
    let store = Arc::new(reading::Chunks::new(current.clone(), read.store().clone()));
    let layout = ArrayLayout::new(
        read.name(),
        read.shape().into(),
        read.dtype(),
        read.grid().clone(),
        read.encoding().clone(),
        read.fill().clone(),
        locator,
        store,
    )?;
    let sink = Sink {
        filters: Filters::new(dataset, layout.encoding()),
        is_fixed: is_fixed(dataset),
        layout: layout.clone(),
        current,
    };
    Ok(Arc::new(layout.with_sink(Arc::new(sink))))
}

/// Returns `true` if the dataset cannot grow.
fn is_fixed(dataset: &Dataset) -> bool {
    match dataset.dataspace() {
        Dataspace::Simple { shape, max_shape } => {
            shape.iter().zip(max_shape).all(|(n, most)| *most == Some(*n)) || max_shape.is_empty()
        }
        _ => true,
    }
}

#[derive(Debug)]
struct Sink {
    current: Arc<Current>,
    layout: ArrayLayout,
    filters: Filters,
    is_fixed: bool,
}

impl Sink {
    fn held(&self) -> Option<Arc<Held>> {
        let make =
            || (self.layout.name().to_owned(), self.filters.clone(), self.layout.fill().bytes().to_vec());
        Held::attach(self.current.editing(), self.current.address(), make)
    }
}

impl ChunkSink for Sink {
    fn begin(&self, _: bool) -> Result<Box<dyn SinkWrite + '_>, LocateError> {
        let dataset = self.current.check_shape(self.layout.shape()).map_err(fault)?;
        check_elements(&dataset).map_err(fault)?;
        self.filters.check(&dataset).map_err(fault)?;
        let editing = self.current.editing();
        let table = editing.chunk_table(self.current.address()).map_err(fault)?;
        let held = self.held().ok_or("another kind of state is attached to the dataset")?;
        let (expected, placed) = (Mutex::default(), Mutex::default());
        let ordered = Ordered::new(editing);
        Ok(Box::new(Write { sink: self, table, held, ordered, expected, placed }))
    }

    fn reading(&self) -> Option<Reading> {
        Some(Reading::new(self.current.editing().readers().clone()))
    }
}

/// One request.
struct Write<'s> {
    sink: &'s Sink,
    table: Arc<ChunkTable>,
    held: Arc<Held>,
    ordered: Ordered<'s>,
    /// For chunks without codecs: the first number of the block, and the chunks' addresses.
    ///
    /// Local, as `placed` is: only threads of this request use it.
    expected: Mutex<(usize, Vec<Option<u64>>)>,
    /// Whole chunks in the file, which nobody refers to yet.
    placed: Mutex<Vec<(Dims, ChunkPlace)>>,
}

impl Write<'_> {
    fn editing(&self) -> &Editing {
        self.sink.current.editing()
    }

    fn note(&self, placed: Vec<Placed>) {
        let mut all = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(placed.into_iter().map(|Placed { place, stored, .. }| (place, stored)));
    }

    fn take_placed(&self) -> Vec<(Dims, ChunkPlace)> {
        let mut placed = std::mem::take(&mut *self.placed.lock().unwrap_or_else(PoisonError::into_inner));
        placed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        placed
    }

    /// Bytes of a chunk in memory.
    fn chunk_bytes(&self) -> u64 {
        self.sink.filters.decoded_size() as u64
    }

    /// Writes a chunk without codecs to its place.
    fn put_plain(&self, number: usize, place: &[u64], bytes: &[u8]) -> Result<(), LocateError> {
        let address = {
            let mut expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
            let (start, addresses) = &mut *expected;
            number.checked_sub(*start).and_then(|at| addresses.get_mut(at)).and_then(Option::take)
        };
        let address = address.ok_or("a whole chunk that was not expected")?;
        let stored = ChunkPlace { address, size: bytes.len() as u64, skipped: 0, is_flushed: false };
        let done = self.editing().write(address, &[bytes]);
        // Noted in any case, so that the place is given back after an error.
        self.note(vec![Placed { number, place: place.into(), stored }]);
        done.map_err(fault)
    }
}

impl SinkWrite for Write<'_> {
    fn layout(&self) -> &ArrayLayout {
        &self.sink.layout
    }

    /// A dataset that can grow gets the elements beyond its end later: its last chunks stay in
    /// memory.
    fn ends_at_shape(&self) -> bool {
        self.sink.is_fixed
    }

    fn turn(&self, chunk: &[u64]) -> u64 {
        self.held.turn(chunk)
    }

    /// Whole chunks that follow each other in the array, too: the first axis cuts it. One thread
    /// writes them. Several wait for each other at the lock of the file's inode.
    fn run_piece(&self, first: u64, len: usize, most: usize) -> Option<usize> {
        let layout = &self.sink.layout;
        let axes = layout.shape().iter().zip(layout.grid().chunk_shape()).skip(1);
        let size = usize::try_from(self.chunk_bytes()).ok().filter(|size| *size > 0)?;
        let is_whole = first.is_multiple_of(size as u64) && len.is_multiple_of(size);
        let follow = layout.grid().is_regular() && axes.into_iter().all(|(n, chunk)| n == chunk);
        (is_whole && follow).then(|| (most / size).max(1).saturating_mul(size))
    }

    fn put_run(&self, first: u64, bytes: &[u8]) -> Result<(), LocateError> {
        let size = self.chunk_bytes();
        let first = first / size.max(1);
        // The start of the next write: an address, and its place in `bytes`.
        let (mut address, mut start, mut end) = (0_u64, 0, 0);
        let write = |address: u64, part: Option<&[u8]>| match part {
            Some(part) if !part.is_empty() => self.editing().write(address, &[part]).map_err(fault),
            _ => Ok(()),
        };
        for (number, chunk) in (first..).zip(bytes.chunks(usize::try_from(size).unwrap_or(usize::MAX))) {
            let found = self.editing().allocate(size).map_err(fault)?;
            let mut place = Dims::from_elem(0, self.sink.layout.shape().len());
            if let Some(axis) = place.first_mut() {
                *axis = number;
            }
            let stored = ChunkPlace { address: found, size, skipped: 0, is_flushed: false };
            // Noted before it is written, so that the place is given back after an error.
            self.note(vec![Placed { number: 0, place, stored }]);
            if found != address.saturating_add((end - start) as u64) {
                write(address, bytes.get(start..end))?;
                (address, start) = (found, end);
            }
            end += chunk.len();
        }
        write(address, bytes.get(start..end))
    }

    fn expect(&self, start: usize, whole: &[bool]) -> Result<(), LocateError> {
        let size = self.chunk_bytes();
        let allocate = |is_whole: &bool| is_whole.then(|| self.editing().allocate(size)).transpose();
        let addresses: Result<Vec<_>, _> = whole.iter().map(allocate).collect();
        let addresses = addresses.map_err(fault)?;
        *self.expected.lock().unwrap_or_else(PoisonError::into_inner) = (start, addresses);
        Ok(())
    }

    fn encode(
        &self,
        chunk: &[u8],
        lent: bool,
        encoded: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<u32, CodecError> {
        self.sink.filters.encode(chunk, lent, encoded, scratch)
    }

    fn put(
        &self,
        number: usize,
        chunk: &[u64],
        bytes: WholeChunk<'_>,
        skipped: u32,
    ) -> Result<(), LocateError> {
        let placed = match bytes {
            WholeChunk::Lent(bytes) => return self.put_plain(number, chunk, bytes),
            WholeChunk::Given(bytes) => self.ordered.put(number, chunk, bytes, skipped),
        };
        self.note(placed.map_err(fault)?);
        Ok(())
    }

    fn change(
        &self,
        number: usize,
        chunk: &[u64],
        scratch: &mut Scratch,
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LocateError> {
        self.held.change(self.editing(), chunk, scratch, change)?;
        self.note(self.ordered.skip(number).map_err(fault)?);
        Ok(())
    }

    fn pause(&self) -> Result<(), LocateError> {
        Held::limit(self.editing()).map_err(fault)
    }

    fn block(&self) -> usize {
        usize::try_from(BLOCK / self.chunk_bytes().max(1)).unwrap_or(usize::MAX)
    }

    fn finish(self: Box<Self>) -> Result<(), LocateError> {
        let placed = self.take_placed();
        if placed.is_empty() {
            return self.editing().flush_if_due().map_err(fault);
        }
        // Another thread may have made the dataset smaller.
        let now = self.sink.current.dataset().map_err(fault)?;
        let counts: Dims = self.sink.layout.grid().counts(now.dataspace().shape());
        for (place, stored) in placed {
            if place.iter().zip(&counts).all(|(at, count)| at < count) {
                self.held.replace(self.editing(), &self.table, &place, stored);
            } else {
                self.editing().free(stored.address, stored.size);
            }
        }
        self.editing().flush_if_due().map_err(fault)
    }
}

impl Drop for Write<'_> {
    /// A request that failed leaves whole chunks as they were.
    fn drop(&mut self) {
        for (_, stored) in self.take_placed() {
            self.editing().free(stored.address, stored.size);
        }
        let (_, addresses) =
            std::mem::take(&mut *self.expected.lock().unwrap_or_else(PoisonError::into_inner));
        for address in addresses.into_iter().flatten() {
            self.editing().free(address, self.chunk_bytes());
        }
    }
}
