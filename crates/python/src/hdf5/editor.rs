//! Changes of HDF5 files: new objects, links and attributes.

use crate::errors::{self, OrRaise};
use crate::hdf5::ElementHandle;
use crate::hdf5::new_values::{NewValues, unstorable};
use crate::hdf5::references::{self, Reference};
use crate::hdf5::stored_types::StoredType;
use crate::nodes::handles::NodeHandle;
use crate::stores::store::{StoreHandle, prepare_files};
use hyperslab::codec::Scratch;
use hyperslab::compact::{self, Pages};
use hyperslab::hdf5::dataspace::Dataspace;
use hyperslab::hdf5::datatype::Datatype;
use hyperslab::hdf5::edit::{Editing, FileSpace, NewFile, ObjectOptions};
use hyperslab::hdf5::element::Element;
use hyperslab::hdf5::filter::Filter;
use hyperslab::hdf5::new_file::{NewAttribute, NewDataset, NewKind, NewObject, NewStorage, ValuePart};
use hyperslab::hdf5::reference::ReferencedPart;
use hyperslab::hdf5::{self, Libver, LinkTarget, Purpose, VirtualSource, build_mappings};
use hyperslab::store::{EditedFile, EditedOptions};
use hyperslab::{DataFile, Object, stores};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::PathBuf;
use std::time::Duration;

/// The changes of an open file.
#[pyclass(frozen, module = "hyperslab._native")]
pub(crate) struct Editor {
    file: hdf5::File,
    editing: Editing,
}

/// Creates a file in a mode ("w", "x"), or opens one to change it ("r+"). ``None``: there is no file
/// to open.
///
/// ``image``: the bytes of a file in memory, instead of a path. ``far``: the URL of a new file on a
/// server and its options, or ``""`` for a temporary file whose bytes are taken by `Editor.part`.
/// ``paged``: only a copy with pages becomes the file. ``space``: number and threshold of the strategy
/// for free space, which are recorded.
#[pyfunction]
#[pyo3(signature = (
    path, image, mode, libver, user_block=0, track_order=false, locks=None, fsync=false, far=None, paged=false,
    space=None,
))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn edit_file(
    py: Python<'_>,
    path: Option<PathBuf>,
    image: Option<&[u8]>,
    mode: &str,
    libver: &str,
    user_block: u64,
    track_order: bool,
    locks: Option<bool>,
    fsync: bool,
    far: Option<(String, Vec<(String, String)>)>,
    paged: bool,
    space: Option<(u8, u64)>,
) -> PyResult<Option<StoreHandle>> {
    prepare_files();
    let libver: Libver = libver.parse().map_err(|why: String| errors::invalid(py, why))?;
    let options = EditedOptions { locks: locks.unwrap_or_else(hyperslab::settings::file_locks), fsync };
    let image = image.map(<[u8]>::to_vec);
    let space = space.map(|(strategy, threshold)| FileSpace { strategy, threshold });
    let work = || {
        let bytes = match (&path, mode) {
            (None, _) if far.is_some() => {
                let (url, storage) = far.unwrap_or_default();
                let to = match url.is_empty() {
                    true => None,
                    false => Some(stores::new_object(&url, &storage, mode != "w")?.1),
                };
                EditedFile::spooled(stores::spool()?, to, paged)
            }
            (None, _) => EditedFile::memory(image.unwrap_or_default()),
            (Some(path), "r+") => match EditedFile::open(path, options)? {
                Some(bytes) => bytes,
                None => return Ok(None),
            },
            (Some(path), _) => EditedFile::create(path, mode == "w", options)?,
        };
        match mode {
            "r+" => DataFile::edit_hdf5(bytes, libver),
            _ => DataFile::create_hdf5(bytes, NewFile { libver, user_block, track_order, space }),
        }
        .map(Some)
    };
    let file = py.detach(work).or_raise(py)?;
    Ok(file.map(StoreHandle::of_file))
}

/// Replaces a file by a copy with all metadata in front, in pages of at least this size.
#[pyfunction]
pub(crate) fn paginate_file(py: Python<'_>, path: PathBuf, pages: u64) -> PyResult<()> {
    py.detach(|| compact::paginate(&path, Pages::AtLeast(pages))).or_raise(py)
}

/// The path of a new file beside another one, which it replaces when it is complete.
#[pyfunction]
pub(crate) fn part_beside(path: PathBuf) -> PathBuf {
    hyperslab::store::part_beside(&path)
}

/// Removes new files beside another one that killed programs left there. Returns how many.
#[pyfunction]
pub(crate) fn remove_parts(py: Python<'_>, path: PathBuf) -> PyResult<u64> {
    let work = || -> hyperslab::Result<u64> { Ok(hyperslab::store::remove_parts(&path)?) };
    py.detach(work).or_raise(py)
}

/// The image of a file with all metadata in front, in pages of at least this size.
#[pyfunction]
pub(crate) fn paginated_image<'py>(
    py: Python<'py>,
    image: Vec<u8>,
    pages: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    let image = py.detach(|| compact::paginated(image, Pages::AtLeast(pages))).or_raise(py)?;
    Ok(PyBytes::new(py, &image))
}

/// True if chunks can be written with a filter.
#[pyfunction]
pub(crate) fn encodes_filter(number: u32) -> bool {
    u16::try_from(number).is_ok_and(hyperslab::codec::hdf5::encodes)
}

/// The name of a filter. ``None``: its number is not registered.
#[pyfunction]
pub(crate) fn filter_name(number: u32) -> Option<&'static str> {
    u16::try_from(number).ok().and_then(hyperslab::codec::hdf5::name)
}

impl Editor {
    /// The changes of a file. `None`: it was opened for reading.
    pub(crate) fn of(file: &DataFile) -> Option<Editor> {
        let file = file.as_hdf5()?;
        let editing = file.editing()?;
        Some(Editor { file: file.clone(), editing })
    }

    pub(crate) fn editing(&self) -> &Editing {
        &self.editing
    }

    /// The bytes of elements in the file, given those in memory. Fails (with text) if elements of
    /// the type cannot be written.
    fn stored(&self, datatype: &Datatype, bytes: &[u8]) -> Result<Vec<u8>, String> {
        let element = Element::of(datatype, self.file.sizes()).map_err(|why| why.to_string())?;
        let Some(conversion) = element.conversion(datatype) else { return Ok(bytes.to_vec()) };
        let mut stored = Vec::new();
        conversion.encode(bytes, &mut stored, &mut Scratch::default()).map_err(|why| why.to_string())?;
        Ok(stored)
    }

    fn create(
        &self,
        py: Python<'_>,
        path: String,
        kind: NewKind,
        track_order: bool,
        options: ObjectOptions,
    ) -> PyResult<u64> {
        let object = NewObject { path, kind, attributes: Vec::new(), tracks_attributes: track_order };
        py.detach(|| self.editing.create_object_with(&object, &options)).or_raise(py)
    }
}

/// The extent of elements. `None`: a null dataspace.
fn dataspace(shape: Option<Vec<u64>>, most: Option<Vec<Option<u64>>>) -> Dataspace {
    match shape {
        None => Dataspace::Null,
        Some(shape) => match most.filter(|_| !shape.is_empty()) {
            None => Dataspace::fixed(&shape),
            Some(max_shape) => Dataspace::Simple { shape, max_shape },
        },
    }
}

#[pymethods]
impl Editor {
    /// Makes a group without a name. Returns its address. ``made``: the time, if it keeps times.
    #[pyo3(signature = (path, track_order, made=None))]
    fn create_group(
        &self,
        py: Python<'_>,
        path: String,
        track_order: bool,
        made: Option<u32>,
    ) -> PyResult<u64> {
        let kind = NewKind::Group { links: Vec::new(), tracks_links: track_order };
        self.create(py, path, kind, track_order, ObjectOptions { made, ..ObjectOptions::default() })
    }

    /// Makes a committed datatype without a name. Returns its address.
    fn commit(&self, py: Python<'_>, path: String, datatype: &StoredType) -> PyResult<u64> {
        self.create(
            py,
            path,
            NewKind::Datatype((*datatype.datatype).clone()),
            false,
            ObjectOptions::default(),
        )
    }

    /// Makes a dataset without a name. Returns its address.
    ///
    /// ``filters``: number, optional, parameters. ``layout``: "compact", "contiguous" or "chunked".
    /// ``sources``: of a virtual dataset. ``fill``: the bytes of the fill value. ``made``: the time, if
    /// it keeps times. ``external``: other files with its elements: name, first byte, bytes.
    #[pyo3(signature = (
        path, datatype, shape, most, layout, chunk, filters, fill, unfilled, track_order, sources=None,
        made=None, external=Vec::new(),
    ))]
    #[allow(clippy::too_many_arguments)]
    fn create_dataset(
        &self,
        py: Python<'_>,
        path: String,
        datatype: &StoredType,
        shape: Option<Vec<u64>>,
        most: Option<Vec<Option<u64>>>,
        layout: &str,
        chunk: Option<Vec<u64>>,
        filters: Vec<(u16, bool, Vec<u32>)>,
        fill: Option<PyReadonlyArray1<'_, u8>>,
        unfilled: bool,
        track_order: bool,
        sources: Option<Vec<NewSource>>,
        made: Option<u32>,
        external: Vec<(String, u64, Option<u64>)>,
    ) -> PyResult<u64> {
        let stored = &datatype.datatype;
        let dataspace = dataspace(shape, most);
        let fill = match fill {
            Some(bytes) => {
                let bytes = self.stored(stored, bytes.as_slice()?);
                Some(vec![ValuePart::Bytes(bytes.map_err(|why| unstorable(&path, why)).or_raise(py)?)])
            }
            None => None,
        };
        let filter = |(id, optional, client_data): (u16, bool, Vec<u32>)| {
            let name = hyperslab::codec::hdf5::name(id).map(str::to_owned);
            Filter { id, name, optional, client_data }
        };
        let storage = match (layout, chunk, sources) {
            (_, _, Some(sources)) => {
                let sources: Vec<VirtualSource> = sources.into_iter().map(NewSource::source).collect();
                let block = build_mappings(&sources).map_err(|why| unstorable(&path, why.0)).or_raise(py)?;
                let put = || self.editing.put_values([(block.len() as u64, &block[..])].into_iter(), false);
                let id = py.detach(put).or_raise(py)?;
                let at = |from: usize, len: usize| id.get(from..from + len).unwrap_or_default();
                let number = |bytes: &[u8]| {
                    bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
                };
                let index = u32::try_from(number(at(12, 4))).unwrap_or(0);
                NewStorage::Virtual { collection: number(at(4, 8)), index }
            }
            (_, Some(chunk), _) => NewStorage::Chunked { chunk, chunks: Vec::new() },
            ("compact", ..) => {
                let bytes = dataspace.count().and_then(|count| count.checked_mul(stored.size.into()));
                let bytes =
                    bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes < 1 << 16);
                let too_large = || unstorable(&path, "compact elements have less than 64 KiB".to_owned());
                NewStorage::Compact(vec![0; bytes.ok_or_else(too_large).or_raise(py)?])
            }
            _ => NewStorage::Contiguous(None),
        };
        let kind = NewKind::Dataset(NewDataset {
            datatype: (**stored).clone(),
            dataspace,
            fill,
            unfilled,
            filters: filters.into_iter().map(filter).collect(),
            storage,
        });
        let options = ObjectOptions { committed: datatype.committed_in(&self.file), made, external };
        self.create(py, path, kind, track_order, options)
    }

    /// Gives an object a name in a group.
    fn link(&self, py: Python<'_>, group: u64, name: &str, object: u64) -> PyResult<()> {
        py.detach(|| self.editing.link(group, name, LinkTarget::Hard(object))).or_raise(py)
    }

    /// Makes a link to a path, which need not exist.
    fn link_soft(&self, py: Python<'_>, group: u64, name: &str, path: String) -> PyResult<()> {
        py.detach(|| self.editing.link(group, name, LinkTarget::Soft(path))).or_raise(py)
    }

    /// Makes a link to a path in another file.
    fn link_external(
        &self,
        py: Python<'_>,
        group: u64,
        name: &str,
        file: String,
        path: String,
    ) -> PyResult<()> {
        py.detach(|| self.editing.link(group, name, LinkTarget::External { file, path })).or_raise(py)
    }

    /// Removes a name from a group.
    fn unlink(&self, py: Python<'_>, group: u64, name: &str) -> PyResult<()> {
        py.detach(|| self.editing.unlink(group, name)).or_raise(py)
    }

    /// Moves a link to another name or group.
    fn move_link(&self, py: Python<'_>, group: u64, name: &str, to: u64, new: &str) -> PyResult<()> {
        py.detach(|| self.editing.move_link((group, name), (to, new))).or_raise(py)
    }

    /// The place for values of variable length.
    fn values(&self) -> NewValues {
        NewValues::new(self.file.clone(), self.editing.clone())
    }

    /// A reference like another one, to the object at an address of this file.
    fn moved_reference<'py>(
        &self,
        py: Python<'py>,
        reference: &Reference,
        address: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let region = match reference.target.as_ref().map(|target| &target.part) {
            Some(ReferencedPart::Region(region)) => Some(region.clone()),
            _ => None,
        };
        references::to_object(py, self.file.clone(), address, region)
    }

    /// The bytes of the file.
    fn image<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.editing.bytes();
        let len = bytes.len().or_raise(py)?;
        let len = usize::try_from(len).map_err(|_| errors::invalid(py, "the file is larger than memory"))?;
        PyBytes::new_with(py, len, |image| bytes.read_at(0, image).or_raise(py))
    }

    /// The elements of a type in this file.
    fn element(&self, py: Python<'_>, datatype: &StoredType) -> PyResult<ElementHandle> {
        let element = Element::of(&datatype.datatype, self.file.sizes());
        let element = element.map_err(|why| errors::exception(py, "DataTypeError", why.to_string()))?;
        Ok(ElementHandle::new(self.file.clone(), element))
    }

    /// Sets an attribute of an object. ``shape``: ``None`` for an attribute without a value.
    #[allow(clippy::too_many_arguments)]
    fn set_attribute(
        &self,
        py: Python<'_>,
        object: u64,
        name: String,
        datatype: &StoredType,
        shape: Option<Vec<u64>>,
        bytes: PyReadonlyArray1<'_, u8>,
    ) -> PyResult<()> {
        let stored = &datatype.datatype;
        let bytes =
            self.stored(stored, bytes.as_slice()?).map_err(|why| unstorable(&name, why)).or_raise(py)?;
        let value = vec![ValuePart::Bytes(bytes)];
        let attribute =
            NewAttribute { name, datatype: (**stored).clone(), dataspace: dataspace(shape, None), value };
        let committed = datatype.committed_in(&self.file);
        py.detach(|| self.editing.set_attribute_of_type(object, &attribute, committed)).or_raise(py)
    }

    /// Gives an attribute another name.
    fn rename_attribute(&self, py: Python<'_>, object: u64, name: &str, new: &str) -> PyResult<()> {
        py.detach(|| self.editing.rename_attribute(object, name, new)).or_raise(py)
    }

    /// Removes an attribute.
    fn delete_attribute(&self, py: Python<'_>, object: u64, name: &str) -> PyResult<()> {
        py.detach(|| self.editing.delete_attribute(object, name)).or_raise(py)
    }

    /// Opens the object at an address.
    fn open(&self, py: Python<'_>, address: u64, path: &str) -> PyResult<NodeHandle> {
        NodeHandle::open_found(py, || {
            DataFile::from(self.file.clone()).check_open()?;
            Object::of_hdf5(&self.file, self.file.object_at(address, path)?)
        })
    }

    /// Makes the changes permanent, and visible to other programs.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.editing.flush()).or_raise(py)
    }

    /// Flushes with the first change that comes this long after the last such flush.
    fn set_flush_every(&self, seconds: f64) -> PyResult<()> {
        let every = Duration::try_from_secs_f64(seconds).map_err(|why| {
            pyo3::exceptions::PyValueError::new_err(format!("flush_every: {why}, found {seconds}"))
        })?;
        self.editing.set_flush_every(Some(every));
        Ok(())
    }

    /// Ends the changes: flushes, and gives unused space back. A file for a server goes there, with pages
    /// of at least this size if wanted.
    #[pyo3(signature = (pages=None))]
    fn finish(&self, py: Python<'_>, pages: Option<u64>) -> PyResult<()> {
        let work = || {
            self.editing.close()?;
            compact::deliver(self.editing.bytes(), pages.map(Pages::AtLeast))
        };
        py.detach(work).or_raise(py)
    }

    /// The size of the pages that the file had before it was changed. ``None``: it had none, or has them.
    fn lost_pages(&self) -> Option<u64> {
        self.editing.lost_pages()
    }

    /// A part of the bytes of the file: fewer than asked for at the end.
    fn part<'py>(&self, py: Python<'py>, offset: u64, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.editing.bytes();
        let left = bytes.len().or_raise(py)?.saturating_sub(offset);
        let size = usize::try_from(left).unwrap_or(usize::MAX).min(size);
        PyBytes::new_with(py, size, |part| bytes.read_at(offset, part).or_raise(py))
    }

    /// Notes that elements of a dataset were changed in other files.
    fn touch_external(&self, py: Python<'_>, object: u64) -> PyResult<()> {
        py.detach(|| self.editing.touch_external(object)).or_raise(py)
    }

    /// The path at which another file with elements is, or is going to be. ``None``: this file is not
    /// on the disk.
    fn external_place(&self, py: Python<'_>, name: &str) -> PyResult<Option<PathBuf>> {
        py.detach(|| self.file.place_of_other(name, Purpose::RawData)).or_raise(py)
    }

    /// A number that grows when shape, layout or type of a dataset change.
    fn version(&self, object: u64) -> u64 {
        self.editing.version(object)
    }
}

/// A source of a virtual dataset: elements of the dataset, file, path, elements of the source.
#[derive(FromPyObject)]
pub(crate) struct NewSource(NewSelection, String, String, NewSelection);

/// A selection: its kind, slabs, points, blocks.
#[derive(FromPyObject)]
struct NewSelection(String, Vec<(u64, u64, Option<u64>, Option<u64>)>, usize, Vec<u64>);

impl NewSource {
    fn source(self) -> VirtualSource {
        let NewSource(target, file, dataset, source) = self;
        VirtualSource { file, dataset, target: target.selection(), source: source.selection() }
    }
}

impl NewSelection {
    fn selection(self) -> hdf5::selection::Selection {
        use hdf5::selection::{Selection, Slab};
        let NewSelection(kind, slabs, rank, numbers) = self;
        let slab = |(start, stride, count, block)| Slab { start, stride, count, block };
        match kind.as_str() {
            "slabs" => Selection::Regular(slabs.into_iter().map(slab).collect()),
            "points" => Selection::Points { rank, coordinates: numbers },
            "blocks" => Selection::Blocks { rank, corners: numbers },
            "none" => Selection::None,
            _ => Selection::All,
        }
    }
}
