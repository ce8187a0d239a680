//! The sink of a dataset whose elements are one run of bytes, in the file or in the object header.
//!
//! The run gets its place in the file with the first write. A short run that the file on disk refers
//! to is not overwritten: the new elements get a new place.

use super::strips::Strips;
use super::{Current, check_elements, conversion, fault};
use crate::Result;
use hyperslab_array::{
    ArrayError, ArrayLayout, ChunkEncoding, ChunkGrid, ChunkList, ChunkLocator, ChunkSink, Dims, Found,
    LocateError, Location, Memory, Reading, SinkWrite, WholeChunk, element_count,
};
use hyperslab_codec::{CodecChain, CodecError, Scratch};
use hyperslab_hdf5::data_layout::DataLayout;
use hyperslab_hdf5::edit::{Attached, COPIED, ChunkConflict, Editing};
use hyperslab_hdf5::{Dataset, Hdf5Error};
use hyperslab_store::StoreError;
use hyperslab_store::turns::{self, Turn};
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Strips in a block: signals are looked at after each.
const BLOCK: usize = 1 << 12;

/// Returns the layout of a dataset whose elements are one run of bytes.
pub(super) fn layout(
    dataset: &Dataset,
    editing: Editing,
    read: &Arc<ArrayLayout>,
) -> Result<Arc<ArrayLayout>> {
    let current = Arc::new(Current::new(dataset, editing));
    let size = u64::from(dataset.datatype().size);
    let strips = Strips::new(read.shape(), size);
    let is_converted = !conversion(dataset).is_empty();
    let whole: Dims = match read.shape().contains(&0) {
        true => Dims::from_elem(1, read.shape().len()),
        false => read.shape().into(),
    };
    let cut = |chunk: &Dims| -> Result<ArrayLayout> {
        let invalid = |why: String| dataset.file().source().invalid(why);
        let codecs = conversion(dataset);
        let order = read.dtype().order();
        let encoding = ChunkEncoding::new(chunk, read.dtype(), order, &[], codecs).map_err(invalid)?;
        let grid =
            ChunkGrid::regular(chunk.clone()).ok_or_else(|| invalid("strips without elements".into()))?;
        let chunk_size = element_count(chunk).and_then(|count| count.checked_mul(size));
        let chunk_size = chunk_size.ok_or_else(|| invalid("its elements have more than 2⁶⁴ bytes".into()))?;
        let strips = strips.clone();
        let locator = Locator { current: current.clone(), strips, chunk_size, size, is_cut: *chunk != whole };
        let (locator, store) = (Arc::new(locator), dataset.file().source().store().clone());
        let (shape, fill) = (read.shape().into(), read.fill().clone());
        Ok(ArrayLayout::new(read.name(), shape, read.dtype(), grid, encoding, fill, locator, store)?)
    };
    let bytes = element_count(read.shape()).and_then(|count| count.checked_mul(size));
    let bytes =
        bytes.ok_or_else(|| dataset.file().source().invalid("its elements have more than 2⁶⁴ bytes"))?;
    let is_small = bytes <= COPIED || matches!(dataset.data_layout(), DataLayout::Compact { .. });
    let write = cut(if is_small { &whole } else { strips.strip() })?;
    // Elements that stay as they are can be read from any place of the run.
    let layout = if is_converted { write.clone() } else { cut(&whole)? };
    let sink = Sink { current, layout: write, strips, size, bytes, is_small };
    Ok(Arc::new(layout.with_sink(Arc::new(sink))))
}

/// Finds strips of the run, wherever it is now.
#[derive(Debug)]
struct Locator {
    current: Arc<Current>,
    strips: Strips,
    /// Stored bytes of a strip, and of an element.
    chunk_size: u64,
    size: u64,
    is_cut: bool,
}

impl ChunkLocator for Locator {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        let dataset = self.current.dataset().map_err(fault)?;
        let source = dataset.file().source();
        found.object(|key| key.push_str(source.key()));
        let address = address_of(&dataset);
        for place in wanted.iter() {
            found.chunk(match address {
                None => Location::Absent,
                Some(address) => {
                    let first = if self.is_cut { self.strips.range(place).0 } else { 0 };
                    let start = first.saturating_mul(self.size).saturating_add(address);
                    let offset = source.base().saturating_add(start);
                    Location::Range { offset, len: self.chunk_size, skipped: 0 }
                }
            });
        }
        Ok(())
    }

    fn shares_objects(&self) -> bool {
        true
    }
}

/// The address of the elements. `None`: they have no place yet.
fn address_of(dataset: &Dataset) -> Option<u64> {
    match dataset.data_layout() {
        DataLayout::Contiguous { address, .. } => *address,
        DataLayout::Compact { address, .. } => Some(*address),
        _ => None,
    }
}

/// The state that all handles of a dataset share.
#[derive(Debug)]
pub(super) struct RunState {
    /// The run has got its place since the last flush: nobody else refers to it.
    is_new: AtomicBool,
    /// The run has got its place in this session: another writer may give it one, too.
    is_placed: AtomicBool,
    /// Turn of the thread that gives the run a place. The turns of strips are numbered from it.
    turn: u64,
}

impl RunState {
    fn new(is_new: bool) -> Arc<RunState> {
        let (is_new, is_placed) = (AtomicBool::new(is_new), AtomicBool::new(is_new));
        Arc::new(RunState { is_new, is_placed, turn: turns::number() })
    }

    /// Notes that a new dataset has got its run.
    pub(super) fn attach_new(editing: &Editing, dataset: u64) {
        let run = RunState::new(true);
        editing.attached(dataset, || run.clone());
        // A flush that has begun before does not settle this run.
        if editing.is_flushing() {
            run.is_new.store(false, Ordering::Release);
        }
    }
}

impl Attached for RunState {
    fn settle(&self, _: &Editing) -> Result<(), Hdf5Error> {
        let _turn = turns::take(self.turn, None).ok();
        self.is_new.store(false, Ordering::Release);
        Ok(())
    }

    fn turn(&self) -> Option<u64> {
        Some(self.turn)
    }

    /// Nothing is in memory.
    fn reload(&self, _: &Editing) {}

    /// There are no chunks.
    fn merge(&self, _: &Editing, _: &[u64], _: ChunkConflict) -> Result<(), Hdf5Error> {
        Ok(())
    }
}

#[derive(Debug)]
struct Sink {
    current: Arc<Current>,
    layout: ArrayLayout,
    strips: Strips,
    /// Stored bytes of an element, and of all elements.
    size: u64,
    bytes: u64,
    /// All elements are written at once.
    is_small: bool,
}

impl Sink {
    fn run(&self) -> Option<Arc<RunState>> {
        let attached: Arc<dyn Any + Send + Sync> =
            self.current.editing().attached(self.current.address(), || RunState::new(false));
        attached.downcast().ok()
    }

    fn chain(&self) -> &CodecChain {
        self.layout.encoding().chain()
    }

    /// Gives a large run its place. `covers`: all elements are going to be written.
    fn place(&self, covers: bool) -> Result<u64, LocateError> {
        const PIECE: u64 = 1 << 20;
        let editing = self.current.editing();
        let address = editing.allocate_zeros(self.bytes).map_err(fault)?;
        if !covers && !self.layout.fill().is_zero() {
            let fill = self.stored_fill()?;
            let piece = fill.repeat(usize::try_from(PIECE / self.size.max(1)).unwrap_or(1).max(1));
            let mut at = 0;
            while at < self.bytes {
                let left = usize::try_from(self.bytes - at).unwrap_or(usize::MAX);
                let piece = piece.get(..left).unwrap_or(&piece);
                editing.write(address.saturating_add(at), &[piece]).map_err(fault)?;
                at = at.saturating_add(piece.len() as u64);
            }
        }
        editing.set_run(self.current.address(), address).map_err(fault)?;
        Ok(address)
    }

    /// The fill value as it is stored.
    fn stored_fill(&self) -> Result<Vec<u8>, CodecError> {
        let fill = self.layout.fill().bytes();
        let Some(conversion) = self.chain().codecs().first() else { return Ok(fill.to_vec()) };
        let mut stored = Vec::new();
        conversion.encode(fill, &mut stored, &mut Scratch::default())?;
        Ok(stored)
    }

    fn memory(&self, bytes: usize) -> Result<Memory, LocateError> {
        Memory::zeroed(bytes).ok_or_else(|| {
            let (array, bytes) = (self.layout.name().to_owned(), bytes as u64);
            ArrayError::Memory { array, what: "a strip", bytes }.into()
        })
    }

    /// Reads elements from an address of the file into the front of a decoded strip.
    fn load(&self, address: u64, len: u64, scratch: &mut Scratch) -> Result<Memory, LocateError> {
        let source = self.current.editing().file().source();
        let offset = source.base().saturating_add(address);
        let mut decoded = self.memory(self.chain().decoded_size())?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if self.chain().is_identity() {
            let front = decoded.as_mut_slice().get_mut(..len).unwrap_or_default();
            self.current.editing().bytes().read_at(offset, front)?;
            return Ok(decoded);
        }
        let mut stored = self.memory(self.chain().max_encoded())?;
        let front = stored.as_mut_slice().get_mut(..len).unwrap_or_default();
        self.current.editing().bytes().read_at(offset, front)?;
        self.chain().decode(stored.as_slice(), decoded.as_mut_slice(), scratch, true)?;
        Ok(decoded)
    }

    fn encode(
        &self,
        chunk: &[u8],
        lent: bool,
        encoded: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<u32, CodecError> {
        match lent {
            true => self.chain().encode_lent(chunk, encoded, scratch)?,
            false => self.chain().encode(chunk, encoded, scratch)?,
        }
        Ok(0)
    }

    /// Writes a decoded strip to an address of the file, `len` stored bytes.
    fn store(
        &self,
        address: u64,
        decoded: &[u8],
        len: u64,
        scratch: &mut Scratch,
    ) -> Result<(), LocateError> {
        let mut encoded = Vec::new();
        let bytes = if self.chain().is_identity() {
            decoded
        } else {
            self.encode(decoded, false, &mut encoded, scratch)?;
            &encoded
        };
        self.write(address, bytes, len)
    }

    /// Writes the first `len` bytes to an address of the file.
    fn write(&self, address: u64, bytes: &[u8], len: u64) -> Result<(), LocateError> {
        let inside = usize::try_from(len).ok().and_then(|len| bytes.get(..len)).unwrap_or(bytes);
        self.current.editing().write(address, &[inside]).map_err(fault)
    }

    fn take_turn(&self, number: u64) -> Result<Turn, LocateError> {
        let store = self.current.editing().bytes();
        turns::take(number, None)
            .map_err(|refused| StoreError::refused(refused, &**store, store.key()).into())
    }
}

impl ChunkSink for Sink {
    fn begin(&self, covers: bool) -> Result<Box<dyn SinkWrite + '_>, LocateError> {
        let dataset = self.current.check_shape(self.layout.shape()).map_err(fault)?;
        check_elements(&dataset).map_err(fault)?;
        let run = self.run().ok_or("another kind of state is attached to the dataset")?;
        let turn = self.take_turn(run.turn)?;
        let dataset = self.current.dataset().map_err(fault)?;
        let address = address_of(&dataset);
        if self.is_small {
            let is_compact = matches!(dataset.data_layout(), DataLayout::Compact { .. });
            let state = Mutex::new(State::Unread);
            return Ok(Box::new(Small { sink: self, run, is_compact, address, state, _turn: turn }));
        }
        let address = match address {
            Some(address) => address,
            None => {
                run.is_placed.store(true, Ordering::Release);
                self.place(covers)?
            }
        };
        // Until others know the place, a merge may move the elements to the place of another writer.
        let has_others = self.current.editing().has_others();
        let may_move = has_others && run.is_placed.load(Ordering::Acquire);
        let number = run.turn;
        Ok(Box::new(Large {
            sink: self,
            address,
            turn: number,
            has_others,
            _moves: may_move.then_some(turn),
        }))
    }

    fn reading(&self) -> Option<Reading> {
        Some(Reading::new(self.current.editing().readers().clone()))
    }
}

/// A write to a run that is written as a whole.
struct Small<'s> {
    sink: &'s Sink,
    run: Arc<RunState>,
    is_compact: bool,
    /// The place of the elements before the write.
    address: Option<u64>,
    /// Local: only threads of this request use it.
    state: Mutex<State>,
    /// Excludes other writers of the dataset.
    _turn: Turn,
}

/// The elements during a write.
enum State {
    Unread,
    /// They are in the file already.
    Written,
    Decoded(Memory),
    Encoded(Vec<u8>),
}

impl Small<'_> {
    /// Returns the run's address if it may be overwritten.
    fn own_place(&self) -> Option<u64> {
        self.address.filter(|_| !self.is_compact && self.run.is_new.load(Ordering::Acquire))
    }

    fn set(&self, new: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = new;
    }

    /// Writes the elements to the file.
    fn store(&self) -> Result<(), LocateError> {
        let sink = self.sink;
        let editing = sink.current.editing();
        let state = std::mem::replace(
            &mut *self.state.lock().unwrap_or_else(PoisonError::into_inner),
            State::Written,
        );
        let bytes = match state {
            State::Unread | State::Written => return Ok(()),
            State::Encoded(bytes) => bytes,
            State::Decoded(memory) if sink.chain().is_identity() => memory.as_slice().to_vec(),
            State::Decoded(memory) => {
                let mut bytes = Vec::new();
                sink.encode(memory.as_slice(), false, &mut bytes, &mut Scratch::default())?;
                bytes
            }
        };
        if self.is_compact {
            return editing.set_compact(sink.current.address(), 0, &bytes).map_err(fault);
        }
        if let Some(address) = self.own_place() {
            return sink.write(address, &bytes, sink.bytes);
        }
        let address = editing.allocate(sink.bytes).map_err(fault)?;
        sink.write(address, &bytes, sink.bytes)?;
        editing.set_run(sink.current.address(), address).map_err(fault)?;
        // A flush that has settled this run may refer to the new place.
        self.run.is_new.store(!editing.is_flushing(), Ordering::Release);
        Ok(())
    }
}

impl SinkWrite for Small<'_> {
    fn layout(&self) -> &ArrayLayout {
        &self.sink.layout
    }

    fn ends_at_shape(&self) -> bool {
        true
    }

    fn turn(&self, _: &[u64]) -> u64 {
        self.run.turn.wrapping_add(1)
    }

    fn run_piece(&self, _: u64, _: usize, most: usize) -> Option<usize> {
        self.own_place().map(|_| most)
    }

    fn put_run(&self, first: u64, bytes: &[u8]) -> Result<(), LocateError> {
        let address = self.own_place().ok_or("a run of elements without a place")?;
        self.sink.write(address.saturating_add(first), bytes, bytes.len() as u64)?;
        self.set(State::Written);
        Ok(())
    }

    fn encode(
        &self,
        chunk: &[u8],
        lent: bool,
        encoded: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<u32, CodecError> {
        self.sink.encode(chunk, lent, encoded, scratch)
    }

    fn put(&self, _: usize, _: &[u64], bytes: WholeChunk<'_>, _: u32) -> Result<(), LocateError> {
        self.set(State::Encoded(match bytes {
            WholeChunk::Lent(bytes) => bytes.to_vec(),
            WholeChunk::Given(bytes) => std::mem::take(bytes),
        }));
        Ok(())
    }

    fn change(
        &self,
        _: usize,
        _: &[u64],
        scratch: &mut Scratch,
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LocateError> {
        let mut memory = match self.address {
            Some(address) => self.sink.load(address, self.sink.bytes, scratch)?,
            None => {
                let mut memory = self.sink.memory(self.sink.chain().decoded_size())?;
                let fill = self.sink.layout.fill().bytes();
                for element in memory.as_mut_slice().chunks_exact_mut(fill.len().max(1)) {
                    element.copy_from_slice(fill);
                }
                memory
            }
        };
        change(memory.as_mut_slice());
        self.set(State::Decoded(memory));
        Ok(())
    }

    fn block(&self) -> usize {
        1
    }

    fn finish(self: Box<Self>) -> Result<(), LocateError> {
        let sink = self.sink;
        self.store()?;
        // Without the turn: other threads flush, too, and wait for the turns of all runs.
        drop(self);
        sink.current.editing().flush_if_due().map_err(fault)
    }
}

/// A write to a run that stays in its place.
struct Large<'s> {
    sink: &'s Sink,
    address: u64,
    turn: u64,
    /// Another writer has the file open.
    has_others: bool,
    /// Excludes merges, if one may move the run.
    _moves: Option<Turn>,
}

impl Large<'_> {
    /// A strip's address and its stored bytes inside the array.
    fn place(&self, strip: &[u64]) -> (u64, u64) {
        let (first, len) = self.sink.strips.range(strip);
        let size = self.sink.size;
        (self.address.saturating_add(first.saturating_mul(size)), len.saturating_mul(size))
    }

    /// Number of the turn of the strip that begins with this element.
    fn turn_of(&self, first: u64) -> u64 {
        self.turn.wrapping_add(first.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31))
    }
}

impl SinkWrite for Large<'_> {
    fn layout(&self) -> &ArrayLayout {
        &self.sink.layout
    }

    fn ends_at_shape(&self) -> bool {
        true
    }

    fn turn(&self, chunk: &[u64]) -> u64 {
        self.turn_of(self.sink.strips.range(chunk).0)
    }

    fn run_piece(&self, _: u64, _: usize, most: usize) -> Option<usize> {
        Some(most)
    }

    fn put_run(&self, first: u64, bytes: &[u8]) -> Result<(), LocateError> {
        let end = first.saturating_add(bytes.len() as u64) / self.sink.size.max(1);
        let (mut element, mut held) = (first / self.sink.size.max(1), Vec::new());
        // In ascending order, so that two writers never wait for each other.
        while element < end {
            let (start, next) = self.sink.strips.around(element);
            held.push(self.sink.take_turn(self.turn_of(start))?);
            element = next;
        }
        self.sink.write(self.address.saturating_add(first), bytes, bytes.len() as u64)
    }

    fn encode(
        &self,
        chunk: &[u8],
        lent: bool,
        encoded: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<u32, CodecError> {
        self.sink.encode(chunk, lent, encoded, scratch)
    }

    fn put(&self, _: usize, chunk: &[u64], bytes: WholeChunk<'_>, _: u32) -> Result<(), LocateError> {
        let (address, len) = self.place(chunk);
        self.sink.write(address, bytes.as_slice(), len)
    }

    fn change(
        &self,
        _: usize,
        chunk: &[u64],
        scratch: &mut Scratch,
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LocateError> {
        let (address, len) = self.place(chunk);
        // Another writer may change other elements of the strip.
        let editing = self.sink.current.editing();
        let _lock = self.has_others.then(|| editing.lock_changes()).transpose().map_err(fault)?;
        let mut strip = self.sink.load(address, len, scratch)?;
        change(strip.as_mut_slice());
        self.sink.store(address, strip.as_slice(), len, scratch)
    }

    fn block(&self) -> usize {
        BLOCK
    }

    fn finish(self: Box<Self>) -> Result<(), LocateError> {
        let sink = self.sink;
        // Without the turn, as above.
        drop(self);
        sink.current.editing().flush_if_due().map_err(fault)
    }
}
