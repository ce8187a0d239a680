//! Copies HDF5 datasets: decides what a Zarr array can express.

use super::Compressors;
use super::convert::{Copied, CopiedCodecs, Copying};
use super::structures;
use crate::formats::hdf5_array::Hdf5Array;
use crate::nodes::interface::ArrayNode;
use crate::{Error, Result};
use hyperslab_array::{self as engine, ArrayError, Ragged, ReadOptions, Selection, element_count};
use hyperslab_codec::VlenKind;
use hyperslab_hdf5::element::ElementKind;
use hyperslab_hdf5::value::Value;
use hyperslab_hdf5::{Dataset, reference};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Object paths by address in the file.
pub(crate) type Paths = HashMap<u64, String>;

pub(super) const NO_DATATYPES: &str = "committed datatypes left out, which Zarr has not";
pub(super) const NO_LINKS: &str = "links left out, which Zarr has not";
const OTHER_CODECS: &str = "compressed in another way, because HDF5's filters are not Zarr's codecs";

/// Filters that do not compress: shuffle, fletcher32, bitshuffle (which may compress).
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;
const BITSHUFFLE: u16 = 32008;

/// Collects what the copy takes from a dataset.
/// Fails with [`Error::Copy`] if Zarr cannot express such an array.
pub(crate) fn collect_copied(array: &Hdf5Array, copying: &mut Copying<'_>) -> Result<Copied> {
    let dataset = array.dataset();
    if let Some(problem) = array.problem() {
        return Err(copying.refuse(problem));
    }
    let mut members = Vec::new();
    let vlen = match &dataset.element().kind {
        ElementKind::Plain(_) | ElementKind::FixedString { .. } => Ok(None),
        ElementKind::Enum { members: found, .. } => {
            members.clone_from(found);
            Ok(None)
        }
        ElementKind::VlenString { .. } | ElementKind::ObjectReference => Ok(Some(VlenKind::Text)),
        ElementKind::Vlen { element, .. } => match element.kind {
            ElementKind::Plain(plain) => Ok(Some(VlenKind::Array(plain))),
            _ => Err("sequences of what is no plain number are not supported in Zarr"),
        },
        ElementKind::Struct(_) => Ok(None),
        ElementKind::Array { .. } => Err("arrays as elements are not supported in Zarr"),
        ElementKind::Extended { .. } => Err("floats of 80 bits are not supported in Zarr"),
        ElementKind::RegionReference | ElementKind::AnyReference => {
            Err("references to regions as elements are not supported in Zarr")
        }
        ElementKind::Unsupported(what) => return Err(copying.refuse(format!("{what} is not supported"))),
    };
    let vlen = vlen.map_err(|why| copying.refuse(why))?;
    let structure = match &dataset.element().kind {
        ElementKind::Struct(_) => {
            Some(structures::of_hdf5(dataset.element()).map_err(|why| copying.refuse(why))?)
        }
        _ => None,
    };
    let dtype = array.layout().dtype();
    Ok(Copied {
        order: dtype.order(),
        fill: Some(match dataset.element().kind {
            ElementKind::VlenString { .. } => absent_text(dataset)?,
            ElementKind::Vlen { .. } | ElementKind::ObjectReference => Vec::new(),
            _ => dataset.absent_value().map_or_else(|| vec![0; dtype.size()], <[u8]>::to_vec),
        }),
        members,
        key_encoding: None,
        rectilinear: None,
        fortran_order: false,
        vlen,
        optional: None,
        object_codec: None,
        structure,
        codecs: CopiedCodecs::Instead(compressors(dataset, copying)?),
        sharding: None,
    })
}

/// The text of unwritten elements in a dataset of strings.
pub(crate) fn absent_text(dataset: &Dataset) -> Result<Vec<u8>> {
    text(dataset, dataset.absent_value())
}

/// The text of an element in memory; empty for `None`.
pub(crate) fn text(dataset: &Dataset, element: Option<&[u8]>) -> Result<Vec<u8>> {
    let Some(element) = element else { return Ok(Vec::new()) };
    match Value::of(dataset.file(), dataset.element(), element)? {
        Value::Text(text) => Ok(text.into_bytes()),
        Value::Null => Ok(Vec::new()),
        _ => {
            let why = "its fill value is not text in UTF-8".into();
            Err(Error::Copy { array: format!("/{}", dataset.path()), why })
        }
    }
}

/// See [`ArrayNode::copies_absent`].
pub(crate) fn copies_absent(dataset: &Dataset) -> bool {
    let is_text = matches!(dataset.element().kind, ElementKind::VlenString { .. });
    !is_text && dataset.absent_value().is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0))
}

/// Reads elements of variable length in the form that the copy stores.
/// References become paths of objects. `paths` caches them by object address.
pub(crate) fn read(
    array: &Hdf5Array,
    selection: &Selection,
    options: ReadOptions<'_>,
    paths: &mut Paths,
) -> Result<Ragged> {
    let (dataset, file) = (array.dataset(), array.dataset().file());
    let element = dataset.element();
    if element.kind != ElementKind::ObjectReference {
        return array.read_ragged(selection, options);
    }
    let memory = engine::read(array.layout(), selection, options)?;
    let shape = selection.shape();
    let count = element_count(&shape).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let found = reference::resolve(file, element, memory.as_slice(), 0, element.size, count)
        .map_err(|error| error.with_object_path(dataset.path()))?;
    for reference in found.iter().flatten() {
        if let Entry::Vacant(path) = paths.entry(reference.address) {
            path.insert(reference.path(file)?.unwrap_or_default());
        }
    }
    let named = found.iter().map(|reference| {
        let path = reference.as_ref().and_then(|reference| paths.get(&reference.address));
        path.map_or("", String::as_str).as_bytes()
    });
    let named: Vec<&[u8]> = named.collect();
    Ragged::of(&shape, named.into_iter()).ok_or_else(|| {
        let (array, what) = (format!("/{}", dataset.path()), "the paths of references");
        ArrayError::Memory { array, what, bytes: u64::MAX }.into()
    })
}

/// Compressors that replace the filters: at least as good, with shuffling if they shuffle.
fn compressors(dataset: &Dataset, copying: &mut Copying<'_>) -> Result<Compressors> {
    let ids: Vec<u16> = dataset.filters().iter().map(|filter| filter.id).collect();
    if ids.iter().all(|id| *id == FLETCHER32) {
        return "none".parse();
    }
    if copying.options.compressors.is_none() {
        copying.note(OTHER_CODECS);
    }
    if ids.iter().any(|id| matches!(*id, SHUFFLE | BITSHUFFLE)) { "blosc" } else { "zstd" }.parse()
}
