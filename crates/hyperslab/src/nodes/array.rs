//! Arrays: metadata, reading and writing.

use crate::formats::hdf5_array::Hdf5Array;
use crate::formats::netcdf_array::NetcdfArray;
use crate::joined::{Joined, JoinedArray};
use crate::nodes::element::swap_bytes;
use crate::nodes::interface::{ArrayNode, Inner, Missing, ResultOrder, node_methods, passed_on};
use crate::stores::{Reached, reach_new};
use crate::{ChunkMap, DataFile, Element, Error, Format, Info, Json, Result};
use hyperslab_array::{
    self as engine, ArrayError, ArrayLayout, Explain, Index, Memory, ReadOptions, Selection, Source, Stream,
    StreamOptions, Target, WriteOptions, Writer, WriterOptions,
};
use hyperslab_codec::{ByteOrder, DataType};
use hyperslab_hdf5::{self as hdf5, dataspace::Dataspace};
use hyperslab_netcdf as netcdf;
use hyperslab_store::{Ask, Store};
use hyperslab_zarr::{self as zarr, ArraySpec, Structure};
use std::borrow::Cow;
use std::sync::Arc;

/// A chunked array. Cheap to clone; many threads may read and write it at once.
#[derive(Clone, Debug)]
pub struct Array(Inner<zarr::Array, Arc<dyn ArrayNode>>);

node_methods!(Array: zarr::Array, ArrayNode);

impl TryFrom<netcdf::Variable> for Array {
    type Error = Error;

    /// Fails if the variable is larger than any file.
    fn try_from(variable: netcdf::Variable) -> Result<Self> {
        Ok(Array(Inner::Read(Arc::new(NetcdfArray::new(variable)?))))
    }
}

impl TryFrom<hdf5::Dataset> for Array {
    type Error = Error;

    /// Fails if the dataset contradicts itself.
    /// A dataset that needs something unsupported, such as a filter, becomes an array whose
    /// metadata can be read, but not its elements.
    fn try_from(dataset: hdf5::Dataset) -> Result<Self> {
        Ok(Array(Inner::Read(Arc::new(Hdf5Array::new(dataset)?))))
    }
}

impl Array {
    /// Opens the array at a path or `file://` URL.
    pub fn open(location: &str) -> Result<Array> {
        crate::open(location)?.into_array()
    }

    /// Creates an array at a path or `file://` URL. Fails if an array or group exists there.
    pub fn create(location: &str, spec: &ArraySpec) -> Result<Array> {
        let Reached { store, path, .. } = reach_new(location)?;
        Ok(zarr::Array::create(store, &path, spec.clone(), false)?.into())
    }

    /// Creates an array at a path or `file://` URL, replacing what exists there.
    ///
    /// `fill` writes the elements to the new array, which is beside the old one until it is
    /// complete. If `fill` fails or the process is killed, the old array is unchanged.
    ///
    /// ```
    /// use hyperslab::prelude::*;
    ///
    /// # fn main() -> Result<(), hyperslab::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let location = directory.path().join("a").display().to_string();
    /// let spec = ArraySpec::new(Format::ZarrV3.zarr()?, &[3], "|u1".parse()?);
    /// Array::create(&location, &spec)?.write_slice(&[], &[1u8, 2, 3])?;
    ///
    /// let doubled = Array::replace(&location, &spec, |new| {
    ///     let old = Array::open(&location)?.read_vec::<u8>(&[])?;
    ///     new.write_slice(&[], &old.iter().map(|n| 2 * n).collect::<Vec<_>>())
    /// })?;
    /// assert_eq!(doubled.read_vec::<u8>(&[])?, [2, 4, 6]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn replace(
        location: &str,
        spec: &ArraySpec,
        fill: impl FnOnce(&Array) -> Result<()>,
    ) -> Result<Array> {
        let Reached { store, path, .. } = reach_new(location)?;
        Self::replaced(store, &path, spec, fill).map(Array::from)
    }

    pub(crate) fn replaced(
        store: Arc<dyn Store>,
        path: &str,
        spec: &ArraySpec,
        fill: impl FnOnce(&Array) -> Result<()>,
    ) -> Result<zarr::Array> {
        zarr::Array::replace_with(store, path, spec.clone(), None, |new| fill(&new.clone().into()))
    }

    /// Elements per axis.
    pub fn shape(&self) -> &[u64] {
        self.layout().shape()
    }

    /// The type of the elements in memory.
    pub fn dtype(&self) -> DataType {
        self.layout().dtype()
    }

    /// Elements of a chunk per axis; with shards, of the innermost chunks.
    pub fn chunk_shape(&self) -> &[u64] {
        self.layout().grid().chunk_shape()
    }

    passed_on! {
        to node:

        /// Elements per axis of the chunks in the outermost shards.
        /// They are shards themselves if shards are nested. Without shards: elements of a chunk.
        pub fn outer_chunk_shape(&self) -> &[u64];

        /// Elements of a shard per axis; `None` if each chunk is an object of its own.
        pub fn shard_shape(&self) -> Option<&[u64]>;

        /// The names of the axes, if there are any.
        pub fn dimension_names(&self) -> Result<Option<Vec<Option<String>>>>;

        /// Returns `true` if the array is cut into chunks.
        /// Otherwise (contiguous, compact and virtual HDF5 datasets) the engine sees one chunk and
        /// reads only the part that is wanted.
        pub fn has_chunks(&self) -> bool;

        /// The names of the compressors, checksums and filters that encode a chunk.
        pub fn codec_names(&self) -> Vec<String>;

        /// The element type in words, as in NumPy where NumPy has it.
        /// Examples: `float32`, `string`, `enum of uint8`. Member names come from the file: they
        /// may contain any character.
        pub fn type_words(&self) -> String;

        /// The bytes of the fill value; `None`: the metadata does not define one.
        pub fn fill(&self) -> Option<&[u8]>;

        /// The meaning of absent chunks.
        pub fn missing(&self) -> Missing;

        /// The memory order of results in front ends, unless the user chooses one.
        pub fn result_order(&self) -> ResultOrder;
    }

    /// The fields of Zarr elements, in their byte order in memory; `None`: no fields.
    /// For HDF5, see [`Array::as_hdf5`].
    pub fn structure(&self) -> Option<&Arc<Structure>> {
        self.as_zarr()?.structure()
    }

    /// The value type of Zarr elements that may be missing; `None`: no element may be.
    /// In memory such an element has the type [`DataType::optional`] of this type.
    pub fn optional(&self) -> Option<DataType> {
        self.as_zarr()?.optional()
    }

    /// Everything the engine knows about the array.
    pub fn layout(&self) -> &Arc<ArrayLayout> {
        // Every read needs the layout: for Zarr, no virtual call.
        match &self.0 {
            Inner::Zarr(array) => array.layout(),
            Inner::Read(array) => array.layout(),
        }
    }

    /// Number of stored objects (chunks or shards), and their bytes.
    /// An HDF5 dataset without chunks counts as one. `ask` is called now and then; if it returns
    /// `true`, this fails with [`Error::Interrupted`].
    pub fn chunks_stored(&self, ask: Option<Ask<'_>>) -> Result<(u64, u64)> {
        self.node().chunks_stored(ask)
    }

    /// Reads the metadata again, to see changes by others.
    /// Fails with [`Error::Copy`] if the elements in a file have another type now.
    pub fn refresh(&mut self) -> Result<()> {
        let Some(file) = self.file() else { return Ok(self.as_zarr_mut()?.refresh()?) };
        let new = file.refreshed()?.open(self.path())?.into_array()?;
        if !self.node().has_elements_of(&new) {
            let what = "its elements are of another type now: open it again";
            return Err(Error::Copy { array: self.name(), why: what.into() });
        }
        *self = new;
        Ok(())
    }

    /// Returns `true` for an HDF5 dataset that has no shape and therefore no elements.
    pub(crate) fn has_no_shape(&self) -> bool {
        self.as_hdf5().is_some_and(|dataset| matches!(dataset.dataspace(), Dataspace::Null))
    }

    /// Deletes the array.
    pub fn delete(&self) -> Result<()> {
        Ok(self.written()?.clone().delete()?)
    }

    /// The array as Zarr sees it. Fails with [`Error::OnlyRead`] for other formats.
    fn written(&self) -> Result<&zarr::Array> {
        self.as_zarr().ok_or_else(|| Error::OnlyRead { format: self.format() })
    }

    /// The array as HDF5 sees it; `None` for other formats.
    pub fn as_hdf5(&self) -> Option<&hdf5::Dataset> {
        self.hdf5().map(Hdf5Array::dataset)
    }

    pub(crate) fn hdf5(&self) -> Option<&Hdf5Array> {
        self.downcast()
    }

    /// The array as NetCDF-3 sees it; `None` for other formats.
    pub fn as_netcdf3(&self) -> Option<&netcdf::Variable> {
        self.downcast().map(NetcdfArray::variable)
    }

    /// The sources that were joined to this array, if it is a joined one.
    pub(crate) fn as_joined(&self) -> Option<&Arc<Joined>> {
        self.downcast().map(JoinedArray::joined)
    }

    /// The array that says how a copy is stored: this one, or one of those it was joined from.
    pub(crate) fn template(&self) -> &Array {
        self.node().template().unwrap_or(self)
    }

    /// All facts about the array.
    /// Counts its chunks by listing the store. `ask` is called now and then; if it returns `true`,
    /// this fails with [`Error::Interrupted`].
    pub fn info(&self, ask: Option<Ask<'_>>) -> Result<Info> {
        Info::new(self, ask)
    }

    /// Which chunks (or shards) are stored, and their bytes. Nothing is decoded. `ask` is as in
    /// [`Array::info`].
    pub fn chunk_map(&self, ask: Option<Ask<'_>>) -> Result<ChunkMap> {
        ChunkMap::new(self, ask)
    }

    /// Turns indices into a selection.
    /// Omitted indices at the end select everything along their axes. Each list or mask selects
    /// along its own axis.
    pub fn select(&self, indices: &[Index<'_>]) -> Result<Selection> {
        Ok(Selection::new(self.layout().name(), self.shape(), indices)?)
    }

    /// Selects single elements by their coordinates: one list per axis, all equally long.
    /// The result has one axis, in the order of the lists.
    ///
    /// ```
    /// use hyperslab::prelude::*;
    /// use hyperslab::ReadOptions;
    ///
    /// # fn main() -> Result<(), hyperslab::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let location = directory.path().join("a").display().to_string();
    /// let array = Array::create(&location, &ArraySpec::new(Format::ZarrV3.zarr()?, &[3, 4], "|u1".parse()?))?;
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
    pub fn select_points(&self, coordinates: &[&[i64]]) -> Result<Selection> {
        let lists: Vec<Index<'_>> = coordinates.iter().map(|list| Index::List(list)).collect();
        let count = coordinates.first().map_or(0, |list| list.len() as u64);
        if lists.len() != self.shape().len() {
            let why = format!("points of {} coordinates, of {} axes", lists.len(), self.shape().len());
            return Err(ArrayError::Index { array: self.layout().name().to_owned(), why }.into());
        }
        Ok(Selection::pointwise(self.layout().name(), self.shape(), &lists, &[count])?)
    }

    /// Selects the elements for which `mask` is true: a result with one axis, in C order.
    /// `mask` has the array's shape and is in C order.
    pub fn select_mask(&self, mask: &[bool]) -> Result<Selection> {
        Ok(Selection::mask(self.layout().name(), self.shape(), mask)?)
    }

    /// Reads a selection into new memory: dense, in C order, with the type [`Array::dtype`].
    pub fn read(&self, selection: &Selection, options: ReadOptions<'_>) -> Result<Memory> {
        self.check_fixed()?;
        Ok(engine::read(self.layout(), selection, options)?)
    }

    /// Reads a selection into the caller's memory. After an error, part of it may be overwritten.
    pub fn read_into(
        &self,
        selection: &Selection,
        target: &mut Target<'_>,
        options: ReadOptions<'_>,
    ) -> Result<()> {
        self.check_fixed()?;
        Ok(engine::read_into(self.layout(), selection, target, options)?)
    }

    /// Writes a selection. Each chunk is replaced atomically, but not the whole selection:
    /// after an error, some chunks are new and the others are unchanged.
    pub fn write(&self, selection: &Selection, source: &Source<'_>, options: WriteOptions<'_>) -> Result<()> {
        self.check_writable()?;
        self.check_fixed()?;
        Ok(engine::write(self.layout(), selection, source, options)?)
    }

    /// Reads one index of an axis after the other, with other threads reading ahead.
    /// Each row is what [`Array::read`] returns for its index.
    ///
    /// ```
    /// use hyperslab::prelude::*;
    /// use hyperslab::{Source, StreamOptions};
    ///
    /// # fn main() -> Result<(), hyperslab::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let location = directory.path().join("a").display().to_string();
    /// let mut spec = ArraySpec::new(Format::ZarrV3.zarr()?, &[3, 4], "|u1".parse()?);
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
    pub fn stream(&self, axis: usize, options: StreamOptions) -> Result<Stream> {
        self.check_fixed()?;
        let len = self.shape().get(axis).copied().unwrap_or(0);
        Ok(Stream::new(self.layout().clone(), axis, 0..len, options)?)
    }

    /// Creates a background writer: other threads encode and store.
    /// [`Writer::flush`] waits for them and returns their errors, including that an array is
    /// read-only.
    pub fn writer(&self, options: WriterOptions) -> Writer {
        Writer::new(self.layout().clone(), options)
    }

    /// Explains what reading a selection would do, with details of the first `list` chunks.
    pub fn explain_read(&self, selection: &Selection, list: usize) -> Result<Explain> {
        Ok(engine::explain_read(self.layout(), selection, list)?)
    }

    /// Explains what writing a selection would do, with details of the first `list` chunks.
    pub fn explain_write(&self, selection: &Selection, list: usize) -> Result<Explain> {
        Ok(engine::explain_write(self.layout(), selection, list)?)
    }

    /// Reads numbers, in C order, in the machine's byte order.
    ///
    /// Fails with [`Error::ElementType`] if the array's elements are of another type.
    pub fn read_vec<T: Element>(&self, indices: &[Index<'_>]) -> Result<Vec<T>> {
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
        // `vec!` gets zeroed pages without writing them, but aborts if memory runs out: check
        // first.
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
    /// Fails with [`Error::ElementType`] if the array's elements are of another type, and with
    /// [`ArrayError::Shape`] if the count of numbers differs from the selection.
    pub fn write_slice<T: Element>(&self, indices: &[Index<'_>], elements: &[T]) -> Result<()> {
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

    /// Frees the unreferenced bytes in shards and returns their number.
    /// `dry`: only counts them. `interrupt` is called before each shard; if it returns `true`, this
    /// fails with [`Error::Interrupted`]. Finished shards stay compacted.
    pub fn compact(&self, dry: bool, interrupt: Option<&dyn Fn() -> bool>) -> Result<u64> {
        self.as_zarr().map_or(Ok(0), |array| Ok(array.compact(dry, interrupt)?))
    }

    /// Changes the shape. Chunks (shards) that are wholly outside are deleted.
    /// Elements that a resize cuts off never come back: if the array grows again, they are fill
    /// value. `ask` is called while waiting for others and before each object; `true` stops.
    pub fn resize(&mut self, shape: &[u64], ask: Option<Ask<'_>>) -> Result<()> {
        if let Some(array) = self.hdf5() {
            *self = Array::try_from(array.resized(shape)?)?;
            return Ok(());
        }
        Ok(self.as_zarr_mut()?.resize(shape, ask)?)
    }

    /// Opens an HDF5 dataset again if another handle of its file has changed its shape or its
    /// storage. Returns `true` then. Costs little if nothing has changed.
    pub fn renew(&mut self) -> Result<bool> {
        let Some(array) = self.hdf5().filter(|array| array.is_outdated()) else { return Ok(false) };
        let dataset = array.dataset();
        let found = dataset.file().object_at(dataset.address(), dataset.path())?;
        let hdf5::Node::Dataset(dataset) = found else { return Ok(false) };
        *self = Array::try_from(dataset)?;
        Ok(true)
    }

    /// The changes of an HDF5 file. Fails for arrays that can only be read.
    pub(crate) fn editing(&self) -> Result<&hdf5::edit::Editing> {
        self.as_hdf5_array()?.editing()
    }

    /// Stores the encoded bytes of an HDF5 chunk, by its place in the grid. Bit `i` of `skipped`
    /// means that filter `i` was left out.
    ///
    /// Fails with [`Error::OnlyRead`] for other formats.
    pub fn write_direct_chunk(&self, place: &[u64], skipped: u32, bytes: &[u8]) -> Result<()> {
        self.as_hdf5_array()?.write_chunk(place, skipped, bytes)
    }

    /// Reads the encoded bytes of an HDF5 chunk, and the mask of filters that were left out. `None`:
    /// the chunk is not stored.
    ///
    /// Fails with [`Error::OnlyRead`] for other formats.
    pub fn read_direct_chunk(&self, place: &[u64]) -> Result<Option<(Vec<u8>, u32)>> {
        self.as_hdf5_array()?.read_chunk(place)
    }

    fn as_hdf5_array(&self) -> Result<&Hdf5Array> {
        self.hdf5().ok_or_else(|| Error::OnlyRead { format: self.format() })
    }

    /// Refuses arrays that can only be read and written as [`Ragged`].
    /// The engine's cells mean nothing without the heap of their request.
    fn check_fixed(&self) -> Result<()> {
        match self.node().vlen_only() {
            None => Ok(()),
            Some(found) => Err(Error::VariableLength { array: self.layout().name().to_owned(), found }),
        }
    }

    /// The array as its format describes it.
    pub(crate) fn of_format(node: Arc<dyn ArrayNode>) -> Array {
        Array(Inner::Read(node))
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        match &self.0 {
            Inner::Zarr(array) => Ok(array.store_repair(None)?),
            Inner::Read(node) => node.check_writable(),
        }
    }

    pub(super) fn check_element<T: Element>(&self) -> Result<()> {
        self.check_fixed()?;
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
