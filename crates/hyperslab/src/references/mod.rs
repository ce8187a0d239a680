//! Describes the places of chunks in files in a form that other tools understand.
//!
//! [`references`] makes [kerchunk's references](https://fsspec.github.io/kerchunk/spec.html),
//! version 1. They describe the hierarchy in Zarr v2, as xarray does. A chunk is
//! `[url, offset, length]`, or its bytes if it is small. HDF5's filters become codecs of numcodecs.
//!
//! Byte ranges cannot represent some arrays: text of any length, or a filter that numcodecs lacks.
//! A small one is written into the references, a large one is refused by name. Lists of numbers of
//! any length are refused, too: no reader of Zarr v2 but this package reads them.
//!
//! [`chunks`] lists all known chunks of any dataset.

mod absent_chunks;
mod inline_arrays;

use crate::copy::zarr_spec;
use crate::error::check;
use crate::meaning::{Meaning, Variable};
use crate::nodes::interface::ArrayNode;
use crate::present::chunk_ranges::{FileRange, not_a_file, read_ranges, stored_chunks};
use crate::present::filters::{is_stored_as_numpy, to_v2};
use crate::{Array, Below, Dims, Error, Format, Group, Json, MemoryStore, Node, NodeKind, Result, zarr};
use hyperslab_array::ArrayError;
use hyperslab_codec::room;
use hyperslab_hdf5::Bytes;
use hyperslab_hdf5::element::ElementKind;
use hyperslab_store::{Ask, RangeRead};
use std::collections::HashSet;
use std::sync::Arc;

/// The most bytes of an array to write into the references, if byte ranges cannot represent it.
const MOST_INLINED: u64 = 1 << 20;

/// Copies of written bytes in memory until the document is text.
/// Base 64 is a third longer, and text may have twice the capacity that it needs.
const COPIES: usize = 8;
/// The reason for leaving out an HDF5 dataset without a shape.
pub(crate) const NO_SHAPE: &str = "it has no shape, and no elements";

/// Options of [`references`].
#[derive(Clone, Debug, Default)]
pub struct ReferenceOptions {
    /// The file's name in the references; by default its `file://` URL.
    pub url: Option<String>,
    /// Chunks of at most this many bytes are written into the references.
    pub inline: u64,
    /// `true`: leave out datasets that references cannot represent. `false`: fail at the first.
    pub skip_unsupported: bool,
}

/// References, and the datasets that were left out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct References {
    /// The document.
    pub json: Json,
    /// Datasets that were left out: path and reason.
    pub skipped: Vec<(String, String)>,
}

/// Keys and values of references.
type Refs = Vec<(String, Json)>;

/// Makes the references of an array or group of a file, which becomes the root.
/// `ask` is called between datasets and between chunks; if it returns `true`, this fails with
/// [`Error::Interrupted`].
pub fn references(node: &Node, options: &ReferenceOptions, ask: Option<Ask<'_>>) -> Result<References> {
    if node.file().is_none() {
        return Err(not_a_file());
    }
    let meaning = Meaning::of(node, std::iter::empty())?;
    let has_others = matches!(node, Node::Group(_));
    let mut all =
        All { meaning, options, ask, skipped: Vec::new(), refs: Refs::new(), inlined: 0, has_others };
    match node {
        Node::Array(array) => all.add_array("", array)?,
        Node::Group(group) => {
            all.add_group("", group)?;
            for Below { path, kind, .. } in group.below(None, ask)? {
                check(ask)?;
                match kind {
                    NodeKind::Array => match group.array(&path)? {
                        array if array.has_no_shape() => all.skip(&path, NO_SHAPE),
                        array => all.add_array(&path, &array)?,
                    },
                    NodeKind::Group => all.add_group(&path, &group.group(&path)?)?,
                    _ => {}
                }
            }
        }
    }
    let json = Json::from([("version", 1u32.into()), ("refs", Json::Object(all.refs))]);
    Ok(References { json, skipped: all.skipped })
}

/// The references while they are made.
struct All<'a> {
    meaning: Meaning,
    options: &'a ReferenceOptions,
    ask: Option<Ask<'a>>,
    refs: Refs,
    skipped: Vec<(String, String)>,
    /// Bytes of chunks that are written into the references.
    inlined: u64,
    /// `true`: there are other arrays than the one that cannot be represented.
    has_others: bool,
}

impl All<'_> {
    fn skip(&mut self, path: &str, why: &str) {
        self.skipped.push((format!("/{path}"), why.to_owned()));
    }

    fn add_group(&mut self, path: &str, group: &Group) -> Result<()> {
        let (attributes, _) = self.meaning.group_attributes(group)?;
        self.refs.push((zarr::join(path, ".zgroup"), r#"{"zarr_format": 2}"#.into()));
        self.refs.push((zarr::join(path, ".zattrs"), text(&attributes)));
        Ok(())
    }

    fn add_array(&mut self, path: &str, array: &Array) -> Result<()> {
        let Some(variable) = self.meaning.variable(array)? else { return Ok(()) };
        let path = self.meaning.path(path);
        let made = array_references(&path, array, &variable, self.options, &mut self.inlined, self.ask);
        let made = match made {
            Err(Error::Copy { why, .. }) => {
                inline_arrays::references(&path, array, &variable, &why, self.ask)
            }
            made => made,
        };
        match made {
            Err(error @ Error::Copy { .. }) if self.options.skip_unsupported => {
                self.skip(&path, &error.to_string());
            }
            Err(error) if self.has_others => return Err(error.of_one()),
            made => self.refs.extend(made?),
        }
        Ok(())
    }
}

fn text(json: &Json) -> Json {
    json.to_text(None).as_str().into()
}

fn base64(bytes: &[u8]) -> Json {
    format!("base64:{}", zarr::base64(bytes)).as_str().into()
}

fn array_references(
    path: &str,
    array: &Array,
    variable: &Variable,
    options: &ReferenceOptions,
    inlined: &mut u64,
    ask: Option<Ask<'_>>,
) -> Result<Refs> {
    let name = format!("/{path}");
    let refuse = |why: String| Error::Copy { array: name.clone(), why };
    let mut codecs = Vec::new();
    if let Some(dataset) = array.as_hdf5() {
        if matches!(
            dataset.element().kind,
            ElementKind::VlenString { .. } | ElementKind::Vlen { .. } | ElementKind::ObjectReference
        ) {
            return Err(refuse(
                "its chunks hold addresses in the file, not values, which references cannot say".into(),
            ));
        }
        if !is_stored_as_numpy(dataset) {
            return Err(refuse("its elements are stored in a form that NumPy does not have".into()));
        }
        let size = array.dtype().size();
        let filters = dataset.filters().iter().map(|filter| to_v2(filter, size).map_err(refuse));
        codecs = filters.collect::<Result<_, _>>()?;
    }
    let compressor =
        codecs.pop_if(|codec: &mut Json| codec.get("id").and_then(Json::as_str) != Some("shuffle"));
    let chunks = stored_chunks(array)?.ok_or_else(|| {
        let storage = array.node().storage().unwrap_or_default();
        refuse(format!("its elements are {storage}, not chunks of the file"))
    })?;

    // The metadata that Zarr v2 would have, without these codecs.
    let shape = if array.has_chunks() { array.chunk_shape() } else { array.shape() };
    let spec = zarr_spec(&name, array, variable, Format::ZarrV2, shape)?;
    if spec.dtype.size() != array.dtype().size() {
        return Err(refuse("there are gaps between the fields of its elements".into()));
    }
    let made = zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false)?;
    let mut document = made.to_json().clone();
    document.set("filters", if codecs.is_empty() { Json::Null } else { Json::Array(codecs) });
    document.set("compressor", compressor.unwrap_or(Json::Null));

    let mut refs = vec![
        (zarr::join(path, ".zarray"), text(&document)),
        (zarr::join(path, ".zattrs"), text(made.attributes())),
    ];
    let key = |place: &[u64]| {
        let key: Vec<String> = place.iter().map(u64::to_string).collect();
        zarr::join(path, &if key.is_empty() { "0".to_owned() } else { key.join(".") })
    };
    let url = options.url.clone().unwrap_or_else(|| array.url());
    let stored: HashSet<Dims> = chunks.iter().map(|(place, ..)| place.clone()).collect();
    let written = absent_chunks::absent_chunks(array, variable, &made, &document, &stored, ask);
    let written = written.map_err(|error| match error {
        Error::Copy { why, .. } => refuse(why),
        error => error,
    })?;
    for (place, FileRange { offset, len, skipped }) in chunks {
        check(ask)?;
        if skipped != 0 {
            return Err(refuse(format!(
                "filters were left out of chunk {:?} (mask {skipped:#b}), which references cannot say",
                place.as_slice()
            )));
        }
        if written.contains_key(&place) {
            continue;
        }
        let value = if len <= options.inline {
            *inlined = inlined.saturating_add(len);
            if !room::for_copies(usize::try_from(*inlined).unwrap_or(usize::MAX), COPIES) {
                return Err(no_memory(array, *inlined));
            }
            base64(&read(array, offset, len)?)
        } else {
            Json::Array(vec![url.as_str().into(), offset.into(), len.into()])
        };
        refs.push((key(&place), value));
    }
    refs.extend(written.into_iter().map(|(place, value)| (key(&place), value)));
    Ok(refs)
}

/// The largest chunk in bytes to read through the pages that the HDF5 reader keeps.
/// A small chunk often shares a page with metadata, which saves a request.
const IN_PAGES: u64 = 1 << 20;

/// Reads bytes of the file.
fn read(array: &Array, offset: u64, len: u64) -> Result<Bytes> {
    if let Some(dataset) = array.as_hdf5()
        && len <= IN_PAGES
    {
        let source = dataset.file().source();
        return Ok(source.read("a chunk", offset.saturating_sub(source.base()), len)?);
    }
    let bytes = usize::try_from(len).ok().and_then(room::zeros::<u8>);
    let mut bytes = bytes.ok_or_else(|| no_memory(array, len))?;
    read_ranges(array, &mut [RangeRead { offset, buf: &mut bytes }])?;
    Ok(bytes.into())
}

fn no_memory(array: &Array, bytes: u64) -> Error {
    let what = "chunks that are written into references (a smaller --inline keeps them in the file)";
    ArrayError::Memory { array: array.layout().name().into(), what, bytes }.into()
}

/// Lists the chunks of each dataset.
/// A chunk has its place in the grid, its offset in the file, its bytes, and a mask of the skipped
/// filters. `ask` is called between datasets; if it returns `true`, this fails with
/// [`Error::Interrupted`].
pub fn chunks(node: &Node, ask: Option<Ask<'_>>) -> Result<Json> {
    let mut datasets = Vec::new();
    match node {
        Node::Array(array) => datasets.push((array.name(), dataset_chunks(array)?)),
        Node::Group(group) => {
            for below in group.below(None, ask)?.iter().filter(|below| below.kind == NodeKind::Array) {
                check(ask)?;
                let array = group.array(&below.path)?;
                datasets.push((array.name(), dataset_chunks(&array)?));
            }
        }
    }
    Ok(Json::from([
        ("file", node.url().as_str().into()),
        ("format", Format::Hdf5.to_string().as_str().into()),
        ("datasets", Json::Object(datasets)),
    ]))
}

fn dataset_chunks(array: &Array) -> Result<Json> {
    let Some(hdf5) = array.hdf5() else {
        return Err(Error::Options("only HDF5 files have an index of chunks".into()));
    };
    let dataset = hdf5.dataset();
    let list = |numbers: &[u64]| Json::from(numbers);
    let chunk = |(place, FileRange { offset, len, skipped }): (Dims, FileRange)| {
        Json::Array(vec![list(&place), offset.into(), len.into(), skipped.into()])
    };
    let stored = stored_chunks(array)?.map(|chunks| chunks.into_iter().map(chunk).collect());
    Ok(Json::from([
        ("shape", list(dataset.dataspace().shape())),
        ("element", Json::parse(dataset.element().to_json().as_bytes())?),
        ("storage", hdf5.storage().map_or(Json::Null, Json::from)),
        ("chunk_shape", dataset.chunk_shape().map_or(Json::Null, list)),
        ("filters", Json::Array(hdf5.codecs())),
        ("chunks", stored.map_or(Json::Null, Json::Array)),
    ]))
}
