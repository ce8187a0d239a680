//! Arrays: what is stored, and reading and writing it.

use crate::element::swap_bytes;
use crate::{Element, Error, Format, Info, Json, store_at};
use hyperslab_array::{
    self as engine, ArrayError, ArrayLayout, ChunkCache, Explain, Index, Memory, ReadOptions, Selection,
    Source, Stream, StreamOptions, Target, WriteOptions, Writer, WriterOptions,
};
use hyperslab_codec::{ByteOrder, DataType};
use hyperslab_store::Store;
use hyperslab_zarr::{self as zarr, ArraySpec, ZarrError};
use std::borrow::Cow;
use std::sync::Arc;

/// An array of chunks in a store. Cheap to clone; may be read and written by many threads at once.
#[derive(Clone, Debug)]
pub struct Array(zarr::Array);

impl From<zarr::Array> for Array {
    fn from(array: zarr::Array) -> Self {
        Array(array)
    }
}

impl Array {
    /// Opens the array at a path or `file://` URL.
    pub fn open(location: &str) -> Result<Array, Error> {
        crate::open(location)?.into_array()
    }

    /// Creates an array at a path or `file://` URL. An array or group that is there is an error.
    pub fn create(location: &str, spec: &ArraySpec) -> Result<Array, Error> {
        Ok(Array(zarr::Array::create(store_at(location)?, "", spec.clone(), false)?))
    }

    /// Elements per axis.
    pub fn shape(&self) -> &[u64] {
        self.layout().shape()
    }

    /// The type of the elements in memory.
    pub fn dtype(&self) -> DataType {
        self.layout().dtype()
    }

    /// Elements of a chunk per axis; where there are shards, of the innermost chunks.
    pub fn chunk_shape(&self) -> &[u64] {
        self.layout().grid().chunk_shape()
    }

    /// Elements of a shard per axis; `None` where each chunk is an object of its own.
    pub fn shard_shape(&self) -> Option<&[u64]> {
        self.0.shards()
    }

    /// Everything that the engine knows about the array.
    pub fn layout(&self) -> &Arc<ArrayLayout> {
        self.0.layout()
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.0.store()
    }

    /// The path in the store; `""` for the root.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// `/` and the path.
    pub fn name(&self) -> String {
        self.0.name()
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.0.format().into()
    }

    /// The user's attributes, an object.
    pub fn attributes(&self) -> &Json {
        self.0.attributes()
    }

    /// Replaces the attributes, atomically.
    pub fn set_attributes(&mut self, attributes: Json) -> Result<(), Error> {
        Ok(self.0.set_attributes(attributes)?)
    }

    /// Names of the axes, if they have any.
    pub fn dimension_names(&self) -> Option<&[Option<String>]> {
        self.0.dimension_names()
    }

    /// The array as its format sees it.
    pub fn as_zarr(&self) -> &zarr::Array {
        &self.0
    }

    /// The array as its format sees it, to be changed.
    pub fn as_zarr_mut(&mut self) -> &mut zarr::Array {
        &mut self.0
    }

    /// All facts about the array. Counts its chunks, which lists the store.
    pub fn info(&self) -> Result<Info, Error> {
        Info::new(self)
    }

    /// What indices select. Missing ones at the end mean everything along their axes; lists and masks pick along their own axis each.
    pub fn select(&self, indices: &[Index<'_>]) -> Result<Selection, Error> {
        Ok(Selection::new(self.layout().name(), self.shape(), indices)?)
    }

    /// Single elements, by lists of their coordinates: one of equal length for each axis. A result of one axis, in their order.
    ///
    /// ```
    /// use hyperslab::prelude::*;
    /// use hyperslab::ReadOptions;
    ///
    /// # fn main() -> Result<(), hyperslab::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let location = directory.path().join("a").display().to_string();
    /// let array = Array::create(&location, &ArraySpec::new(Format::ZarrV3.into(), &[3, 4], "|u1".parse()?))?;
    /// array.write_slice(&[], &(0..12u8).collect::<Vec<_>>())?;
    ///
    /// let points = array.select_points(&[&[0, 2, -1], &[1, 1, -1]])?;
    /// assert_eq!(array.read(&points, ReadOptions::default())?.as_slice(), [1, 9, 11]);
    ///
    /// // Along one axis each.
    /// assert_eq!(array.read_vec::<u8>(&[Index::List(&[2, 0]), Index::List(&[3, 3, 0])])?, [11, 11, 8, 3, 3, 0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn select_points(&self, coordinates: &[&[i64]]) -> Result<Selection, Error> {
        let lists: Vec<Index<'_>> = coordinates.iter().map(|list| Index::List(list)).collect();
        let count = coordinates.first().map_or(0, |list| list.len() as u64);
        if lists.len() != self.shape().len() {
            let why = format!("points of {} coordinates, of {} axes", lists.len(), self.shape().len());
            return Err(ArrayError::Index { array: self.layout().name().to_owned(), why }.into());
        }
        Ok(Selection::pointwise(self.layout().name(), self.shape(), &lists, &[count])?)
    }

    /// The elements where `mask`, which has the array's shape, in C order, is true: a result of one axis, in C order.
    pub fn select_mask(&self, mask: &[bool]) -> Result<Selection, Error> {
        Ok(Selection::mask(self.layout().name(), self.shape(), mask)?)
    }

    /// Reads a selection into new memory: dense, in C order, elements as [`Array::dtype`] says.
    pub fn read(&self, selection: &Selection, options: ReadOptions<'_>) -> Result<Memory, Error> {
        Ok(engine::read(self.layout(), selection, options)?)
    }

    /// Reads a selection into memory of the caller. After an error some of it may have been written.
    pub fn read_into(
        &self,
        selection: &Selection,
        target: &mut Target<'_>,
        options: ReadOptions<'_>,
    ) -> Result<(), Error> {
        Ok(engine::read_into(self.layout(), selection, target, options)?)
    }

    /// Writes a selection. Each chunk is replaced atomically, the request as a whole is not: after an error some chunks are new, the others as
    /// they were.
    pub fn write(
        &self,
        selection: &Selection,
        source: &Source<'_>,
        options: WriteOptions<'_>,
    ) -> Result<(), Error> {
        Ok(engine::write(self.layout(), selection, source, options)?)
    }

    /// The rows of one axis, in order, read ahead by other threads: what [`Array::read`] gives for each index of it.
    ///
    /// ```
    /// use hyperslab::prelude::*;
    /// use hyperslab::{Source, StreamOptions};
    ///
    /// # fn main() -> Result<(), hyperslab::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let location = directory.path().join("a").display().to_string();
    /// let mut spec = ArraySpec::new(Format::ZarrV3.into(), &[3, 4], "|u1".parse()?);
    /// spec.chunks = Some([1, 4].as_slice().into());
    /// let array = Array::create(&location, &spec)?;
    ///
    /// let writer = array.writer(Default::default());
    /// for step in 0..3u8 {
    ///     let row = array.select(&[Index::At(step.into())])?;
    ///     writer.write(&row, &Source::dense(&[step; 4], &[4], 1).unwrap(), None)?;
    /// }
    /// writer.flush(None)?;
    ///
    /// for row in array.stream(0, StreamOptions::default())? {
    ///     let row = row?;
    ///     assert_eq!(row.memory.as_slice(), [row.index as u8; 4]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(&self, axis: usize, options: StreamOptions) -> Result<Stream, Error> {
        let len = self.shape().get(axis).copied().unwrap_or(0);
        Ok(Stream::new(self.layout().clone(), axis, 0..len, options)?)
    }

    /// Writes that return before they are done: other threads encode and store. [`Writer::flush`] waits for them, and tells of errors.
    pub fn writer(&self, options: WriterOptions) -> Writer {
        Writer::new(self.layout().clone(), options)
    }

    /// What reading a selection would do, and for the first `list` chunks, one by one.
    pub fn explain_read(&self, selection: &Selection, list: usize) -> Result<Explain, Error> {
        Ok(engine::explain_read(self.layout(), selection, list)?)
    }

    /// As [`Array::explain_read`], with what is kept in a cache now.
    pub fn explain_read_cached(
        &self,
        selection: &Selection,
        list: usize,
        cache: &ChunkCache,
    ) -> Result<Explain, Error> {
        Ok(engine::explain_read_cached(self.layout(), selection, list, Some(cache))?)
    }

    /// What writing a selection would do, and for the first `list` chunks, one by one.
    pub fn explain_write(&self, selection: &Selection, list: usize) -> Result<Explain, Error> {
        Ok(engine::explain_write(self.layout(), selection, list)?)
    }

    /// Reads numbers, in C order, in the machine's byte order.
    ///
    /// Errors with [`Error::ElementType`] if the array's elements are of another type.
    pub fn read_vec<T: Element>(&self, indices: &[Index<'_>]) -> Result<Vec<T>, Error> {
        self.check_element::<T>()?;
        let selection = self.select(indices)?;
        let shape = selection.shape();
        let no_memory = || {
            let bytes =
                engine::element_count(&shape).unwrap_or(u64::MAX).saturating_mul(size_of::<T>() as u64);
            ArrayError::Memory { array: self.layout().name().to_owned(), what: "the result", bytes }
        };
        let len =
            engine::element_count(&shape).and_then(|n| usize::try_from(n).ok()).ok_or_else(no_memory)?;
        // Asked first, because `vec!` aborts where there is not enough; and `vec!`, because it gets zeros without writing them.
        Vec::<T>::new().try_reserve_exact(len).map_err(|_| no_memory())?;
        let mut elements = vec![T::zeroed(); len];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut elements);
        let mut target = Target::dense(bytes, &shape, size_of::<T>()).ok_or_else(no_memory)?;
        self.read_into(&selection, &mut target, ReadOptions::default())?;
        if self.dtype().order() != ByteOrder::NATIVE {
            swap_bytes(bytemuck::cast_slice_mut(&mut elements), size_of::<T>());
        }
        Ok(elements)
    }

    /// Writes numbers, given in C order and in the machine's byte order.
    ///
    /// Errors with [`Error::ElementType`] if the array's elements are of another type, and with [`ArrayError::Shape`] if there are more or fewer numbers
    /// than selected.
    pub fn write_slice<T: Element>(&self, indices: &[Index<'_>], elements: &[T]) -> Result<(), Error> {
        self.check_element::<T>()?;
        let selection = self.select(indices)?;
        let bytes = self.in_array_order(elements);
        let shape = selection.shape();
        let source = Source::dense(&bytes, &shape, size_of::<T>()).ok_or_else(|| ArrayError::Shape {
            array: self.layout().name().to_owned(),
            expected: shape.to_vec(),
            found: vec![elements.len() as u64],
        })?;
        self.write(&selection, &source, WriteOptions::default())
    }

    /// Gives back the bytes of shards that nothing refers to any more; returns how many. `dry`: only counts them. `interrupt` is asked before each
    /// shard whether to stop ([`Error::Interrupted`]); those done stay done.
    pub fn compact(&self, dry: bool, interrupt: Option<&dyn Fn() -> bool>) -> Result<u64, Error> {
        self.0.compact(dry, interrupt).map_err(|error| match error {
            ZarrError::Array(ArrayError::Interrupted { .. }) => Error::Interrupted,
            error => error.into(),
        })
    }

    /// Changes the extent. Chunks (shards) that are wholly outside are deleted.
    pub fn resize(&mut self, shape: &[u64]) -> Result<(), Error> {
        Ok(self.0.resize(shape)?)
    }

    /// Makes an axis longer by as many steps as `elements` fill (given in C order), and writes them there. If writing fails, the axis is as long as
    /// before.
    pub fn append<T: Element>(&mut self, axis: usize, elements: &[T]) -> Result<(), Error> {
        self.check_element::<T>()?;
        let before = self.shape().to_vec();
        let refuse = |why: String| Error::Zarr(ZarrError::Invalid { path: self.path().to_owned(), why });
        let Some(&old) = before.get(axis) else {
            return Err(refuse(format!("append: there is no axis {axis}; the array has {}", before.len())));
        };
        let others = before.iter().enumerate().filter(|(k, _)| *k != axis).map(|(_, n)| *n);
        let step = others.clone().try_fold(1u64, u64::checked_mul).unwrap_or(u64::MAX);
        let len = elements.len() as u64;
        if len.checked_rem(step) != Some(0) {
            return Err(refuse(format!(
                "append: {len} elements are no multiple of the {step} that one step of axis {axis} has"
            )));
        }
        let mut after = before.clone();
        after[axis] = old + len / step;
        self.resize(&after)?;
        let mut indices = vec![Index::ALL; before.len()];
        indices[axis] = Index::Slice { start: Some(old as i64), stop: None, step: 1 };
        self.write_slice(&indices, elements).inspect_err(|_| {
            // The first error is the one to report.
            let _ = self.0.resize(&before);
        })
    }

    fn check_element<T: Element>(&self) -> Result<(), Error> {
        if T::is_element_of(self.dtype()) {
            return Ok(());
        }
        let (array, wanted) = (self.layout().name().to_owned(), std::any::type_name::<T>());
        Err(Error::ElementType { array, wanted, found: self.dtype() })
    }

    fn in_array_order<'a, T: Element>(&self, elements: &'a [T]) -> Cow<'a, [u8]> {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        if self.dtype().order() == ByteOrder::NATIVE {
            return Cow::Borrowed(bytes);
        }
        let mut swapped = bytes.to_vec();
        swap_bytes(&mut swapped, size_of::<T>());
        Cow::Owned(swapped)
    }
}
