//! The sink of a variable: the engine's writes go to the places of its strips.

use super::Editing;
use super::strips::Strips;
use crate::{Form, NetcdfError, Variable};
use hyperslab_array::{
    ArrayError, ArrayLayout, ChunkEncoding, ChunkGrid, ChunkList, ChunkLocator, ChunkSink, FillValue, Found,
    LocateError, Location, Memory, SinkWrite, WholeChunk,
};
use hyperslab_codec::{CodecError, DataType, Scratch};
use hyperslab_store::turns::{self, Turn};
use hyperslab_store::{Store, StoreError};
use std::sync::Arc;

/// Strips in a block: signals are looked at after each.
const BLOCK: usize = 1 << 12;

/// Returns the layout by which a variable of a file that is being changed is read and written.
pub(crate) fn layout(
    variable: &Variable,
    editing: &Arc<Editing>,
    form: &Form,
) -> Result<ArrayLayout, NetcdfError> {
    let refuse = |why: String| variable.variable_error(why);
    let strips = Strips::new(variable, form.joined);
    let encoding = ChunkEncoding::new(strips.strip(), form.dtype, form.order, &[], form.codecs.clone());
    let encoding = encoding.map_err(refuse)?;
    let stored = variable
        .stored_fill()
        .repeat(usize::try_from(strips.size()).unwrap_or(0) / variable.external_type().dtype().size().max(1));
    let fill = decoded_fill(&stored, form).map_err(|error| refuse(error.to_string()))?;
    let in_memory = if encoding.swap() > 1 { swapped(&fill, encoding.swap()) } else { fill.clone() };
    let number = variable.number;
    let locator = Locator { editing: editing.clone(), strips: strips.clone(), number };
    let grid =
        ChunkGrid::regular(strips.strip().clone()).ok_or_else(|| refuse("strips without elements".into()))?;
    let store: Arc<dyn Store> = editing.bytes.clone();
    let layout = ArrayLayout::new(
        variable.name(),
        strips.shape().clone(),
        form.dtype,
        grid,
        encoding,
        FillValue::new(&in_memory),
        Arc::new(locator),
        store,
    )?;
    let sink = Sink { editing: editing.clone(), layout: layout.clone(), strips, number, fill };
    Ok(layout.with_sink(Arc::new(sink)))
}

/// A stored element without codecs, in the byte order of chunks.
fn decoded_fill(stored: &[u8], form: &Form) -> Result<Vec<u8>, CodecError> {
    let mut element = stored.to_vec();
    for codec in form.codecs.iter().rev() {
        let mut decoded = vec![0; form.dtype.size()];
        codec.decode(&element, &mut decoded, &mut Scratch::default())?;
        element = decoded;
    }
    Ok(element)
}

fn swapped(bytes: &[u8], number: usize) -> Vec<u8> {
    bytes.chunks(number).flat_map(|number| number.iter().rev().copied()).collect()
}

/// Finds strips. A strip without written elements is absent.
#[derive(Debug)]
struct Locator {
    editing: Arc<Editing>,
    strips: Strips,
    number: usize,
}

impl ChunkLocator for Locator {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        let strip = self.strips.strip().iter().fold(self.strips.size(), |len, n| len.saturating_mul(*n));
        found.object(|key| key.push_str(self.editing.bytes.key()));
        for at in wanted.iter() {
            let bytes = self.strips.bytes(at);
            let changed = self.editing.changed(self.number)?;
            let gaps = changed.written.lock().gaps(&bytes);
            let location = match &gaps[..] {
                [gap] if *gap == bytes => Location::Absent,
                gaps => {
                    if !gaps.is_empty() {
                        // Only some elements are written: the others get the fill value now.
                        let _turn = take_turn(&self.editing, changed.turn_of(bytes.start))?;
                        self.editing.fill(self.number, &bytes)?;
                    }
                    Location::Range { offset: self.strips.offset(at), len: strip, skipped: 0 }
                }
            };
            found.chunk(location);
        }
        Ok(())
    }

    fn shares_objects(&self) -> bool {
        true
    }
}

/// Waits for a turn of this file.
pub(super) fn take_turn(editing: &Editing, number: u64) -> Result<Turn, LocateError> {
    let store = &editing.bytes;
    turns::take(number, None).map_err(|refused| StoreError::refused(refused, &**store, store.key()).into())
}

#[derive(Debug)]
struct Sink {
    editing: Arc<Editing>,
    /// The layout without this sink.
    layout: ArrayLayout,
    strips: Strips,
    number: usize,
    /// One unwritten element of a decoded strip.
    fill: Vec<u8>,
}

impl ChunkSink for Sink {
    fn begin(&self, _: bool) -> Result<Box<dyn SinkWrite + '_>, LocateError> {
        Ok(Box::new(Write(self)))
    }
}

struct Write<'s>(&'s Sink);

impl Write<'_> {
    fn memory(&self, bytes: usize) -> Result<Memory, LocateError> {
        Memory::zeroed(bytes).ok_or_else(|| {
            let (array, bytes) = (self.0.layout.name().to_owned(), bytes as u64);
            ArrayError::Memory { array, what: "a strip", bytes }.into()
        })
    }

    /// Writes a stored strip, as far as it is inside the shape.
    fn write(&self, at: &[u64], stored: &[u8]) -> Result<(), LocateError> {
        let Write(sink) = self;
        let bytes = sink.strips.bytes(at);
        let len = usize::try_from(bytes.end - bytes.start).unwrap_or(usize::MAX);
        let inside = stored.get(..len).ok_or("a strip of too few bytes")?;
        sink.editing.bytes.write_at(sink.strips.offset(at), inside)?;
        sink.editing.changed(sink.number)?.written.lock().insert(bytes);
        Ok(())
    }
}

impl SinkWrite for Write<'_> {
    fn layout(&self) -> &ArrayLayout {
        &self.0.layout
    }

    fn ends_at_shape(&self) -> bool {
        true
    }

    fn turn(&self, at: &[u64]) -> u64 {
        let first = self.0.strips.bytes(at).start;
        self.0.editing.changed(self.0.number).map_or(0, |changed| changed.turn_of(first))
    }

    fn encode(
        &self,
        chunk: &[u8],
        lent: bool,
        encoded: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<u32, CodecError> {
        let chain = self.0.layout.encoding().chain();
        match lent {
            true => chain.encode_lent(chunk, encoded, scratch)?,
            false => chain.encode(chunk, encoded, scratch)?,
        }
        Ok(0)
    }

    fn put(&self, _: usize, at: &[u64], bytes: WholeChunk<'_>, _: u32) -> Result<(), LocateError> {
        self.write(at, bytes.as_slice())
    }

    fn change(
        &self,
        _: usize,
        at: &[u64],
        scratch: &mut Scratch,
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), LocateError> {
        let Write(sink) = self;
        let (bytes, chain) = (sink.strips.bytes(at), sink.layout.encoding().chain());
        let gaps = sink.editing.changed(sink.number)?.written.lock().gaps(&bytes);
        let is_new = matches!(&gaps[..], [gap] if *gap == bytes);
        if !is_new && !gaps.is_empty() {
            sink.editing.fill(sink.number, &bytes)?;
        }
        let len = usize::try_from(bytes.end - bytes.start).unwrap_or(usize::MAX);
        let read = |stored: &mut Memory| {
            let front = stored.as_mut_slice().get_mut(..len).unwrap_or_default();
            sink.editing.bytes.read_at(sink.strips.offset(at), front)
        };
        let mut decoded = self.memory(chain.decoded_size())?;
        if is_new {
            for element in decoded.as_mut_slice().chunks_exact_mut(sink.fill.len().max(1)) {
                element.copy_from_slice(&sink.fill);
            }
        } else if chain.is_identity() {
            read(&mut decoded)?;
        } else {
            let strip = sink.strips.strip().iter().fold(sink.strips.size(), |len, n| len.saturating_mul(*n));
            let mut stored = self.memory(usize::try_from(strip).unwrap_or(usize::MAX))?;
            read(&mut stored)?;
            chain.decode(stored.as_slice(), decoded.as_mut_slice(), scratch, true)?;
        }
        change(decoded.as_mut_slice());
        if chain.is_identity() {
            return self.write(at, decoded.as_slice());
        }
        let mut encoded = Vec::new();
        chain.encode(decoded.as_slice(), &mut encoded, scratch)?;
        self.write(at, &encoded)
    }

    fn block(&self) -> usize {
        BLOCK
    }

    fn finish(self: Box<Self>) -> Result<(), LocateError> {
        Ok(())
    }
}

impl Form {
    /// Elements as they are stored.
    pub(crate) fn stored(dtype: DataType) -> Form {
        Form { dtype, order: dtype.order(), codecs: Vec::new(), joined: 0 }
    }
}
