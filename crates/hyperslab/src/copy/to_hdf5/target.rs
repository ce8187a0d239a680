//! An array of a new HDF5 file, as the engine writes it: a sink for encoded chunks.
//!
//! Threads encode chunks in any order. Encoded chunks wait in memory until their block is written
//! ([`NewArray::settle`]). Then they are appended to the file in the order of their numbers, so the
//! bytes of the file do not depend on threads.
//!
//! Elements without chunks are cut into strips, which have their places in one run of bytes.

use crate::copy::hdf5::Paths;
use crate::copy::{Copied, Copying};
use crate::nodes::interface::{ArrayNode, StoredNode};
use crate::present::strips;
use crate::{Array, Dims, Error, Format, Json, Result};
use hyperslab_array::{
    ArrayLayout, ChunkEncoding, ChunkGrid, ChunkList, ChunkLocator, FillValue, Found, LocateError, Location,
    Ragged, ReadOptions, Selection, Source, WriteOptions, write,
};
use hyperslab_codec::{Codec, DataType, VlenKind, hdf5};
use hyperslab_hdf5::filter::Filter;
use hyperslab_hdf5::index::{ChunkRecord, place};
use hyperslab_hdf5::new_file::StoredValues;
use hyperslab_store::fork::Mutex;
use hyperslab_store::{Ask, Expected, Key, Opened, RangeRead, Replacement, Store};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the fill value that are appended at once.
const PIECE: usize = 1 << 20;

/// The description of an array to write.
pub(super) struct Wanted<'w> {
    pub(super) path: &'w str,
    pub(super) shape: &'w [u64],
    /// The type of elements in memory, and their kind if they have variable length.
    pub(super) dtype: DataType,
    pub(super) vlen: Option<VlenKind>,
    /// Elements of a chunk per axis. `None`: elements are one run of bytes.
    pub(super) chunk: Option<&'w [u64]>,
    pub(super) filters: &'w [Filter],
    /// The value of unwritten elements in memory. `None`: zero, or empty.
    pub(super) fill: Option<&'w [u8]>,
}

/// An array under construction.
#[derive(Clone, Debug)]
pub(super) struct NewArray {
    path: String,
    layout: Arc<ArrayLayout>,
    vlen: Option<VlenKind>,
    chunked: bool,
    pending: Arc<Pending>,
}

/// The elements of an array in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// The stored chunks by number.
    chunks: BTreeMap<u64, ChunkRecord>,
    /// The run of bytes: its address, and the bytes that are written from there.
    run: Option<(u64, u64)>,
    /// Bytes of all elements, including values of variable length.
    pub(super) bytes: u64,
}

impl NewArray {
    /// `end`: the end of the file, which the caller keeps up to date.
    pub(super) fn new(wanted: &Wanted<'_>, end: &Arc<AtomicU64>) -> Result<NewArray> {
        let Wanted { path, shape, vlen, filters, .. } = wanted;
        let refuse = |why: String| Error::Copy { array: format!("/{path}"), why };
        let dtype = if vlen.is_some() { DataType::CELL } else { wanted.dtype };
        let chunk: Dims = match wanted.chunk {
            Some(chunk) => chunk.into(),
            None => strips::cut(shape, dtype.size() as u64),
        };
        let bytes =
            chunk.iter().try_fold(dtype.size(), |bytes, n| bytes.checked_mul(usize::try_from(*n).ok()?));
        let bytes = bytes.unwrap_or(usize::MAX);
        let codec = |filter: &Filter| hdf5::filter(filter.id, &filter.client_data, dtype.size(), bytes);
        let codecs: Result<Vec<Arc<dyn Codec>>, _> = filters.iter().map(codec).collect();
        let codecs = codecs.map_err(|error| refuse(error.to_string()))?;
        let encoding = ChunkEncoding::new(&chunk, dtype, dtype.order(), &[], codecs).map_err(&refuse)?;
        let fill = match (wanted.fill, vlen) {
            (None, _) => FillValue::zero(dtype.size()),
            (Some(fill), None) => FillValue::new(fill),
            // No element has these bytes, so all chunks are stored: an absent one is not empty.
            (Some(_), Some(_)) => FillValue::new(&vec![0xff; dtype.size()]),
        };
        let grid = ChunkGrid::regular(chunk).ok_or_else(|| refuse("chunks without elements".into()))?;
        let counts = grid.counts(shape);
        let pending = Arc::new(Pending { end: end.clone(), ..Pending::default() });
        let locator = Arc::new(Numbered { counts });
        let name = format!("/{path}");
        let layout =
            ArrayLayout::new(name, (*shape).into(), dtype, grid, encoding, fill, locator, pending.clone())?;
        let chunked = wanted.chunk.is_some();
        Ok(NewArray { path: (*path).to_owned(), layout: Arc::new(layout), vlen: *vlen, chunked, pending })
    }

    /// The array for the engine.
    pub(super) fn array(&self) -> Array {
        Array::of_format(Arc::new(self.clone()))
    }

    /// Appends the chunks that were written since the last call.
    pub(super) fn settle(&self, file: &mut dyn Replacement, written: &mut Written) -> Result<()> {
        let values = std::mem::take(&mut *self.pending.values.lock());
        if !values.is_empty() {
            file.append(&[&values])?;
            written.bytes = written.bytes.saturating_add(values.len() as u64);
        }
        let chunks = std::mem::take(&mut *self.pending.chunks.lock());
        for (number, bytes) in chunks {
            if !self.chunked {
                self.put_strip(file, written, number, &bytes)?;
                continue;
            }
            let size = bytes.len() as u64;
            let record = ChunkRecord { number, address: file.len(), size, skipped: 0 };
            file.append(&[&bytes])?;
            written.bytes = written.bytes.saturating_add(size);
            written.chunks.insert(number, record);
        }
        self.pending.end.store(file.len(), Ordering::Release);
        Ok(())
    }

    /// Writes a strip to its place. Elements before it that are not written yet get the fill value.
    fn put_strip(
        &self,
        file: &mut dyn Replacement,
        written: &mut Written,
        number: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let (start, mut end) = *written.run.get_or_insert((file.len(), 0));
        let (at, len) = self.strip(number);
        let bytes = usize::try_from(len).ok().and_then(|len| bytes.get(..len)).unwrap_or(bytes);
        if at < end {
            file.overwrite(start.saturating_add(at), bytes)?;
        } else {
            self.append_fill(file, at - end)?;
            file.append(&[bytes])?;
            end = at.saturating_add(bytes.len() as u64);
        }
        written.run = Some((start, end));
        Ok(())
    }

    /// The place of a strip in the run: its first byte and its length. The last one of an axis may be
    /// shorter than the others.
    fn strip(&self, number: u64) -> (u64, u64) {
        let grid = self.layout.grid();
        let place = place(number, &grid.counts(self.layout.shape()));
        let (mut first, mut len) = (0_u64, 1_u64);
        for ((at, step), n) in place.iter().zip(grid.chunk_shape()).zip(self.layout.shape()) {
            let start = at.saturating_mul(*step);
            first = first.saturating_mul(*n).saturating_add(start);
            len = len.saturating_mul((*step).min(n.saturating_sub(start)));
        }
        let size = self.layout.dtype().size() as u64;
        (first.saturating_mul(size), len.saturating_mul(size))
    }

    fn append_fill(&self, file: &mut dyn Replacement, len: u64) -> Result<()> {
        let fill = self.layout.fill().bytes();
        let count = usize::try_from(len).unwrap_or(usize::MAX).min(PIECE.max(fill.len())) / fill.len().max(1);
        let piece = fill.repeat(count.max(1));
        let mut left = len;
        while left > 0 {
            let part = usize::try_from(left).ok().and_then(|left| piece.get(..left)).unwrap_or(&piece);
            file.append(&[part])?;
            left -= part.len() as u64;
        }
        Ok(())
    }

    /// Ends the array. Returns its chunks, or the address of its run.
    pub(super) fn finish(
        &self,
        file: &mut dyn Replacement,
        written: &mut Written,
    ) -> Result<(Vec<ChunkRecord>, Option<u64>)> {
        if let Some((start, end)) = written.run {
            let size = self.layout.dtype().size() as u64;
            let all = self.layout.shape().iter().fold(size, |bytes, n| bytes.saturating_mul(*n));
            self.append_fill(file, all.saturating_sub(end))?;
            self.pending.end.store(file.len(), Ordering::Release);
            written.bytes = written.bytes.saturating_add(all);
            return Ok((Vec::new(), Some(start)));
        }
        Ok((std::mem::take(&mut written.chunks).into_values().collect(), None))
    }

    /// Forgets the chunks that were written since the last [`NewArray::settle`].
    pub(super) fn discard(&self) {
        self.pending.chunks.lock().clear();
        self.pending.values.lock().clear();
    }
}

impl StoredNode for NewArray {
    fn store(&self) -> &Arc<dyn Store> {
        self.layout.store()
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn format(&self) -> Format {
        Format::Hdf5
    }

    fn attributes(&self) -> Result<Cow<'_, Json>> {
        Ok(Cow::Owned(Json::object()))
    }
}

impl ArrayNode for NewArray {
    fn layout(&self) -> &Arc<ArrayLayout> {
        &self.layout
    }

    fn dimension_names(&self) -> Result<Option<Vec<Option<String>>>> {
        Ok(None)
    }

    fn chunks_stored(&self, _: Option<Ask<'_>>) -> Result<(u64, u64)> {
        Ok((0, 0))
    }

    fn stored_objects(&self, _: Option<Ask<'_>>) -> Result<Option<Vec<Dims>>> {
        Ok(None)
    }

    fn fill_value(&self) -> Result<Json> {
        Ok(Json::Null)
    }

    fn fill(&self) -> Option<&[u8]> {
        // Text and sequences are empty.
        if self.vlen.is_some() { None } else { Some(self.layout.fill().bytes()) }
    }

    fn collect_copied(&self, copying: &mut Copying<'_>) -> Result<Copied> {
        Err(copying.refuse("it is being written"))
    }

    fn read_copied(&self, _: &Selection, _: ReadOptions<'_>, _: &mut Paths) -> Result<Ragged> {
        Err(Error::Copy { array: self.layout.name().to_owned(), why: "it is being written".into() })
    }

    fn vlen(&self) -> Option<VlenKind> {
        self.vlen
    }

    fn is_writable(&self) -> bool {
        true
    }

    /// Stores the values behind the end of the file, and writes the elements that lead there.
    fn write_ragged(
        &self,
        selection: &Selection,
        values: &Arc<Ragged>,
        options: WriteOptions<'_>,
    ) -> Result<()> {
        let refuse = |why: String| Error::Copy { array: self.layout.name().to_owned(), why };
        let (bytes, kind) = (values.values.as_slice(), self.vlen.unwrap_or(VlenKind::Bytes));
        if kind == VlenKind::Text && bytes.contains(&0) {
            return Err(refuse("a text contains a NUL, at which text of HDF5 ends".into()));
        }
        let item = kind.item_size();
        let found = values.offsets.windows(2).map(|range| {
            let place = |at: i64| usize::try_from(at).unwrap_or(usize::MAX).saturating_mul(item);
            let value = bytes.get(place(range[0])..place(range[1])).unwrap_or_default();
            ((value.len() / item.max(1)) as u64, value)
        });
        let mut pending = self.pending.values.lock();
        let end = self.pending.end.load(Ordering::Acquire).saturating_add(pending.len() as u64);
        let stored = StoredValues::new(end, found, kind == VlenKind::Text);
        let stored = stored.map_err(|why| refuse(why.to_string()))?;
        pending.extend(&stored.collections);
        drop(pending);
        let size = self.layout.dtype().size();
        let source = Source::dense(&stored.elements, &values.shape, size);
        let source = source.ok_or_else(|| refuse("elements of another shape".into()))?;
        Ok(write(&self.layout, selection, &source, options)?)
    }
}

/// Names chunks by their numbers in C order.
#[derive(Debug)]
struct Numbered {
    counts: Dims,
}

impl ChunkLocator for Numbered {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        for chunk in wanted.iter() {
            let axes = chunk.iter().zip(&self.counts);
            let number =
                axes.fold(0_u64, |number, (at, count)| number.saturating_mul(*count).saturating_add(*at));
            found.object(|key| key.push_str(&number.to_string()));
            found.chunk(Location::Object);
        }
        Ok(())
    }
}

/// Encoded chunks, and values of variable length, that are not in the file yet.
#[derive(Debug, Default)]
struct Pending {
    chunks: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// Heap collections, which begin at the end of the file.
    values: Mutex<Vec<u8>>,
    end: Arc<AtomicU64>,
}

impl Pending {
    fn put(&self, key: Key<'_>, bytes: Vec<u8>) {
        let number = key.as_str().parse().unwrap_or(u64::MAX);
        self.chunks.lock().insert(number, bytes);
    }
}

/// A store that only takes chunks: each is written once, as a whole.
impl Store for Pending {
    fn url(&self) -> String {
        "memory://new-file".into()
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        key.as_str().parse().unwrap_or(0)
    }

    fn size(&self, _: Key<'_>) -> hyperslab_store::Result<Option<u64>> {
        Ok(None)
    }

    fn open<'s>(
        &'s self,
        _: Key<'_>,
        _: Option<u64>,
    ) -> hyperslab_store::Result<Option<Box<dyn Opened + 's>>> {
        Ok(None)
    }

    fn read_ranges(
        &self,
        _: Key<'_>,
        _: Option<u64>,
        _: &mut [RangeRead<'_>],
    ) -> hyperslab_store::Result<bool> {
        Ok(false)
    }

    fn read_all(&self, _: Key<'_>, buf: &mut Vec<u8>, _: usize) -> hyperslab_store::Result<bool> {
        buf.clear();
        Ok(false)
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> hyperslab_store::Result<()> {
        self.put(key, parts.concat());
        Ok(())
    }

    fn swap_owned(
        &self,
        key: Key<'_>,
        _: Expected<'_>,
        bytes: &mut Vec<u8>,
        _: Option<Ask<'_>>,
    ) -> hyperslab_store::Result<bool> {
        // The encoder's buffer has room for the largest chunk.
        let mut bytes = std::mem::take(bytes);
        bytes.shrink_to_fit();
        self.put(key, bytes);
        Ok(true)
    }

    fn delete(&self, key: Key<'_>) -> hyperslab_store::Result<bool> {
        let number = key.as_str().parse().unwrap_or(u64::MAX);
        Ok(self.chunks.lock().remove(&number).is_some())
    }
}
