//! A source, described as objects of a new HDF5 file.

use super::filters;
use crate::copy::convert::Notes;
use crate::copy::region::Window;
use crate::copy::{CopyOptions, FileFormat, Order, Shards};
use crate::{Array, Error, Result};
use hyperslab_codec::{DataType, VlenKind};
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::datatype::Datatype;
use hyperslab_hdf5::filter::Filter;
use hyperslab_hdf5::new_file::{NewDataset, NewKind, NewLink, NewObject, NewStorage, NewTarget, ValuePart};
use std::collections::HashMap;

/// Bytes of a chunk, less than which HDF5 allows.
const LARGEST_CHUNK: u64 = u32::MAX as u64;

/// The objects of a new file, and the arrays whose elements are copied.
pub(super) struct Described<'o> {
    pub(super) options: &'o CopyOptions<'o>,
    pub(super) objects: Vec<NewObject>,
    pub(super) arrays: Vec<Member>,
    pub(super) notes: Notes,
    /// Arrays and groups that were left out: path and reason.
    pub(super) skipped: Vec<(String, String)>,
    /// `true` if the source is an HDF5 file.
    pub(super) is_hdf5: bool,
    /// Numbers of objects by path.
    numbers: HashMap<String, usize>,
}

/// An array of the source, and how the file holds it.
pub(super) struct Member {
    /// The number of its dataset.
    pub(super) object: usize,
    pub(super) array: Array,
    pub(super) window: Window,
    /// The type of elements in memory.
    pub(super) dtype: DataType,
    pub(super) vlen: Option<VlenKind>,
    /// The value of unwritten elements in memory. `None`: zero, or empty.
    pub(super) fill: Option<Vec<u8>>,
}

/// The elements of a dataset, as a source has them.
pub(super) struct Elements {
    pub(super) datatype: Datatype,
    pub(super) dtype: DataType,
    pub(super) vlen: Option<VlenKind>,
    /// The value of unwritten elements; of text, the text. `None`: zero, or empty.
    pub(super) fill: Option<Vec<u8>>,
    pub(super) unfilled: bool,
    /// Chunks of the source, if it has any.
    pub(super) chunk: Option<Vec<u64>>,
    /// The largest shape. `None`: the shape.
    pub(super) max_shape: Option<Vec<Option<u64>>>,
}

impl<'o> Described<'o> {
    /// An empty file: object 0 is the root group.
    pub(super) fn new(options: &'o CopyOptions<'o>) -> Result<Self> {
        if matches!(options.shards, Shards::Auto | Shards::Shape(_)) {
            return Err(Error::Options("shards: HDF5 has no shards; leave them out".into()));
        }
        if options.order == Some(Order::F) {
            return Err(Error::Options("order: elements in chunks of HDF5 are in order C".into()));
        }
        let mut described = Described {
            options,
            objects: Vec::new(),
            arrays: Vec::new(),
            notes: Notes::new(),
            skipped: Vec::new(),
            is_hdf5: false,
            numbers: HashMap::new(),
        };
        described.add("", NewKind::Group { links: Vec::new(), tracks_links: false });
        Ok(described)
    }

    /// Adds an object without links to it. Returns its number.
    pub(super) fn add(&mut self, path: &str, kind: NewKind) -> usize {
        let number = self.objects.len();
        let (path, attributes) = (path.to_owned(), Vec::new());
        self.numbers.insert(path.clone(), number);
        self.objects.push(NewObject { path, kind, attributes, tracks_attributes: false });
        number
    }

    /// The number of the object at a path.
    pub(super) fn number(&self, path: &str) -> Option<usize> {
        self.numbers.get(path).copied()
    }

    /// Adds a link to a group.
    pub(super) fn link(&mut self, group: usize, name: &str, target: NewTarget) {
        if let Some(links) = self.links(group) {
            links.push(NewLink { name: name.to_owned(), target });
        }
    }

    /// Adds an object at a path below a group that is there already. Returns its number.
    pub(super) fn add_linked(&mut self, path: &str, kind: NewKind) -> usize {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let group = self.number(above).unwrap_or(0);
        let number = self.add(path, kind);
        self.link(group, name, NewTarget::Object(number));
        number
    }

    /// Adds a committed type at a path, as the first object of its group: readers meet the type before its
    /// datasets. Returns its number.
    pub(super) fn add_type_first(&mut self, path: &str, datatype: Datatype) -> usize {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let group = self.number(above).unwrap_or(0);
        let number = self.add(path, NewKind::Datatype(datatype));
        if let Some(links) = self.links(group) {
            links.insert(0, NewLink { name: name.to_owned(), target: NewTarget::Object(number) });
        }
        number
    }

    /// Gives a link of a group another name.
    pub(super) fn rename(&mut self, group: usize, name: &str, new: &str) {
        let above = self.objects.get(group).map(|object| object.path.clone()).unwrap_or_default();
        let path = |name: &str| if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
        if let Some(link) =
            self.links(group).and_then(|links| links.iter_mut().find(|link| link.name == name))
        {
            new.clone_into(&mut link.name);
        }
        if let Some(number) = self.numbers.remove(&path(name)) {
            self.numbers.insert(path(new), number);
        }
    }

    fn links(&mut self, group: usize) -> Option<&mut Vec<NewLink>> {
        match self.objects.get_mut(group).map(|object| &mut object.kind) {
            Some(NewKind::Group { links, .. }) => Some(links),
            _ => None,
        }
    }

    /// Returns `true` if the copy is a NetCDF-4 file.
    pub(super) fn is_netcdf4(&self) -> bool {
        self.options.file_format == Some(FileFormat::Netcdf4)
    }

    /// Returns `true` if axes of the copy may grow as in the source.
    fn keeps_limits(&self) -> bool {
        self.options.region.is_none() || self.is_netcdf4()
    }

    pub(super) fn note(&mut self, note: &'static str, name: String) {
        self.notes.entry(note).or_default().push(name);
    }

    /// Describes the dataset of an array. `path`: its place in the file.
    pub(super) fn dataset(
        &self,
        path: &str,
        array: &Array,
        window: &Window,
        elements: &Elements,
        filters: Filters<'_>,
    ) -> Result<NewDataset> {
        let refuse = |why: String| Error::Copy { array: format!("/{path}"), why };
        let shape = &window.shape;
        let chunk = self.chunk(path, shape, elements, array)?.filter(|chunk| !chunk.is_empty());
        let size = u64::from(elements.datatype.size);
        let mut found = Vec::new();
        if let Some(chunk) = &chunk {
            let bytes = chunk.iter().fold(size, |bytes, n| bytes.saturating_mul(*n));
            if bytes > LARGEST_CHUNK {
                return Err(refuse(format!(
                    "its chunks of shape {chunk:?} have {bytes} bytes, and chunks of HDF5 have less than 4 GiB; \
                     choose smaller chunks"
                )));
            }
            let element = usize::try_from(size).unwrap_or(usize::MAX);
            found = match (&self.options.compressors, filters) {
                (Some(chosen), _) => filters::of_codecs(&chosen.codecs(element)?, element, bytes),
                (None, Filters::Codecs) => filters::of_codecs(fixed_codecs(array), element, bytes),
                (None, Filters::Source(filters)) => filters::of_source(filters, element, bytes),
            }
            .map_err(refuse)?;
        }
        let max_shape = elements.max_shape.clone().filter(|_| chunk.is_some() && self.keeps_limits());
        let dataspace = match max_shape.filter(|_| !shape.is_empty()) {
            None => Dataspace::fixed(shape),
            // The source's other limits are longer than the region.
            Some(max_shape) if self.options.region.is_some() => {
                let max_shape = shape.iter().zip(max_shape).map(|(len, most)| most.map(|_| *len)).collect();
                Dataspace::Simple { shape: shape.to_vec(), max_shape }
            }
            Some(max_shape) => Dataspace::Simple { shape: shape.to_vec(), max_shape },
        };
        Ok(NewDataset {
            datatype: elements.datatype.clone(),
            dataspace,
            fill: elements.fill.as_ref().map(|fill| match elements.vlen {
                None => vec![ValuePart::Bytes(fill.clone())],
                Some(_) => vec![ValuePart::text(fill)],
            }),
            unfilled: elements.unfilled,
            filters: found,
            storage: match chunk {
                None => NewStorage::Contiguous(None),
                Some(chunk) => NewStorage::Chunked { chunk, chunks: Vec::new() },
            },
        })
    }

    /// The chunks of the copy of an array. `None`: the elements are one run.
    fn chunk(
        &self,
        path: &str,
        shape: &[u64],
        elements: &Elements,
        array: &Array,
    ) -> Result<Option<Vec<u64>>> {
        let names = array.dimension_names()?;
        let given = self.options.chunks_for(array, path, names.as_deref(), shape);
        let chunk: Vec<u64> = match (given, &elements.chunk) {
            (Some(chunks), _) => chunks,
            (None, Some(chunk)) => chunk.clone(),
            // Compressed elements need chunks.
            (None, None) if self.options.compressors.is_some() => {
                let mut spec =
                    hyperslab_zarr::ArraySpec::new(hyperslab_zarr::Format::V3, shape, array.dtype());
                spec.choose_chunks();
                match spec.chunks {
                    Some(chunks) => chunks.to_vec(),
                    None => return Ok(None),
                }
            }
            (None, None) => return Ok(None),
        };
        // An axis of NetCDF has one length, or grows without limit; one of length 0 grows.
        let is_netcdf4 = self.is_netcdf4();
        let grows = |axis: usize| match elements.max_shape.as_ref().and_then(|max| max.get(axis)) {
            Some(None) if is_netcdf4 => None,
            _ if is_netcdf4 => shape.get(axis).copied().filter(|len| *len > 0),
            Some(most) if self.options.region.is_none() => *most,
            _ => shape.get(axis).copied(),
        };
        // A chunk is not longer than the axis can be. An axis without elements can have no chunk.
        let most: Vec<Option<u64>> = (0..shape.len()).map(grows).collect();
        if most.contains(&Some(0)) {
            return Ok(None);
        }
        let fitted = chunk.iter().zip(most).map(|(len, most)| (*len).max(1).min(most.unwrap_or(u64::MAX)));
        Ok(Some(fitted.collect()))
    }

    /// Adds the dataset of an array, and the array to copy. Returns its number.
    pub(super) fn add_array(
        &mut self,
        path: &str,
        array: Array,
        window: Window,
        elements: Elements,
        dataset: NewDataset,
    ) -> usize {
        let object = self.add(path, NewKind::Dataset(dataset));
        let Elements { dtype, vlen, fill, unfilled, .. } = elements;
        let fill = fill.filter(|_| !unfilled);
        self.arrays.push(Member { object, array, window, dtype, vlen, fill });
        object
    }
}

/// The filters of a source.
#[derive(Clone, Copy)]
pub(super) enum Filters<'f> {
    /// The codecs of its layout.
    Codecs,
    /// Filters of HDF5.
    Source(&'f [Filter]),
}

/// The codecs of an array but the one that makes elements of variable length.
fn fixed_codecs(array: &Array) -> &[std::sync::Arc<dyn hyperslab_codec::Codec>] {
    let chain = array.template().layout().encoding().chain();
    match chain.vlen() {
        None => chain.codecs(),
        Some(_) => chain.codecs().get(1..).unwrap_or_default(),
    }
}
