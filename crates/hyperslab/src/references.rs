//! Where the chunks of HDF5 files are, in words that others understand.
//!
//! [`references`] makes [kerchunk's references](https://fsspec.github.io/kerchunk/spec.html),
//! version 1: the hierarchy as Zarr v2 would have it, where instead of a chunk stands `[url,
//! offset, length]`, or for a small one its bytes. HDF5's filters become codecs of numcodecs; what
//! has no equal there is refused by name. [`chunks`] lists all that is known, of any dataset.

use crate::copy::{CopyOptions, Copying, hdf5 as source};
use crate::error::check;
use crate::hdf5_array::{filter_name, place};
use crate::interface::ArrayNode;
use crate::{Array, Below, Dims, Error, Format, Group, Json, MemoryStore, Node, NodeKind, Result, zarr};
use hyperslab_hdf5::data_layout::DataLayout;
use hyperslab_hdf5::element::ElementKind;
use hyperslab_hdf5::filter::Filter;
use hyperslab_hdf5::{self as hdf5, Dataset};
use hyperslab_store::Ask;
use hyperslab_zarr::{ArraySpec, Choice};
use std::sync::Arc;

/// What references are to be like.
#[derive(Clone, Debug, Default)]
pub struct ReferenceOptions {
    /// What the file is called; by default its `file://` URL.
    pub url: Option<String>,
    /// Chunks of at most this many bytes are written into the references.
    pub inline: u64,
    /// Whether datasets that references cannot say are left out; otherwise the first is an error.
    pub skip_unsupported: bool,
}

/// References, and what is not in them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct References {
    /// The document.
    pub json: Json,
    /// What was left out: paths, and why.
    pub skipped: Vec<(String, String)>,
}

/// A chunk that is stored: its place in the grid, offset in the file, bytes, and the filters that
/// were left out as bits.
type StoredChunk = (Dims, u64, u64, u32);

/// The references of a dataset or group of HDF5, which becomes the root. `ask` is asked between
/// datasets and between chunks, `true` gives up with [`Error::Interrupted`].
pub fn references(node: &Node, options: &ReferenceOptions, ask: Option<Ask<'_>>) -> Result<References> {
    let mut refs = vec![(".zgroup".to_owned(), r#"{"zarr_format": 2}"#.into())];
    let mut skipped = Vec::new();
    let is_netcdf = node.file().map_or(Ok(false), |file| file.is_netcdf4())?;
    let mut add = |path: &str, array: &Array| match dataset_references(path, array, options, is_netcdf, ask) {
        Err(error @ Error::Copy { .. }) if options.skip_unsupported => {
            skipped.push((format!("/{path}"), error.to_string()));
            Ok(Vec::new())
        }
        made => made,
    };
    match node {
        Node::Array(array) => {
            refs.clear();
            refs.extend(add("", array)?);
        }
        Node::Group(group) => {
            let attributes =
                |group: &Group, name: &str| copying(name, is_netcdf, |to| group.node().copied_attributes(to));
            refs.push((".zattrs".into(), text(&attributes(group, "/")?)));
            for Below { path, kind, .. } in group.below(None, ask)? {
                check(ask)?;
                match kind {
                    NodeKind::Array => refs.extend(add(&path, &group.array(&path)?)?),
                    NodeKind::Group => {
                        refs.push((format!("{path}/.zgroup"), r#"{"zarr_format": 2}"#.into()));
                        let group = group.group(&path)?;
                        refs.push((format!("{path}/.zattrs"), text(&attributes(&group, &path)?)));
                    }
                    _ => {}
                }
            }
        }
    }
    let json = Json::from([("version", 1u32.into()), ("refs", Json::Object(refs))]);
    Ok(References { json, skipped })
}

/// What a copy with no options takes over.
fn copying<R>(name: &str, is_netcdf: bool, work: impl FnOnce(&mut Copying<'_>) -> R) -> R {
    let (options, notes) = (CopyOptions::default(), &mut Default::default());
    work(&mut Copying { name, options: &options, is_netcdf, notes })
}

fn text(json: &Json) -> Json {
    json.to_text(None).as_str().into()
}

fn dataset_references(
    path: &str,
    array: &Array,
    options: &ReferenceOptions,
    is_netcdf: bool,
    ask: Option<Ask<'_>>,
) -> Result<Vec<(String, Json)>> {
    let name = format!("/{path}");
    let refuse = |why: String| Error::Copy { array: name.clone(), why };
    let Some(hdf5) = array.hdf5() else { return Err(not_hdf5()) };
    let dataset = hdf5.dataset();
    if matches!(
        dataset.element().kind,
        ElementKind::VlenString { .. } | ElementKind::Vlen { .. } | ElementKind::ObjectReference
    ) {
        return Err(refuse(
            "its chunks hold addresses in the file, not values, which references cannot say".into(),
        ));
    }
    let mut facts = copying(&name, is_netcdf, |to| source::copied(hdf5, to))?;
    if dataset.element().conversion(dataset.datatype()).is_some() {
        return Err(refuse("its elements are stored as numbers that NumPy has not".into()));
    }
    let codecs = dataset.filters().iter().map(|filter| numcodecs(filter).map_err(refuse));
    let mut codecs: Vec<Json> = codecs.collect::<Result<_, _>>()?;
    let compressor = codecs.pop_if(|codec| codec.get("id").and_then(Json::as_str) != Some("shuffle"));
    let chunks = stored_chunks(dataset)?.ok_or_else(|| {
        refuse(format!("its elements are {}, not chunks of the file", hdf5.storage().unwrap_or_default()))
    })?;

    // The metadata as Zarr v2 writes it, which knows nothing of these codecs.
    let mut spec = ArraySpec::new(zarr::Format::V2, array.shape(), array.dtype());
    let shape = if array.has_chunks() { array.chunk_shape() } else { array.shape() };
    let shape: Dims = shape.iter().map(|n| (*n).max(1)).collect();
    spec.chunks = Some(shape);
    spec.fill = facts.fill.take();
    spec.attributes = facts.attributes;
    spec.dimension_names = facts.dimension_names.filter(|names| names.iter().all(Option::is_some));
    (spec.filters, spec.compressors) = (Choice::Set(Vec::new()), Choice::Set(Vec::new()));
    let made = zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false)?;
    let mut document = made.to_json().clone();
    document.set("filters", if codecs.is_empty() { Json::Null } else { Json::Array(codecs) });
    document.set("compressor", compressor.unwrap_or(Json::Null));

    let mut refs = vec![
        (zarr::join(path, ".zarray"), text(&document)),
        (zarr::join(path, ".zattrs"), text(made.attributes())),
    ];
    let url = options.url.clone().unwrap_or_else(|| array.url());
    for (place, offset, len, skipped) in chunks {
        check(ask)?;
        if skipped != 0 {
            return Err(refuse(format!(
                "filters were left out of chunk {:?} (mask {skipped:#b}), which references cannot say",
                place.as_slice()
            )));
        }
        let key: Vec<String> = place.iter().map(u64::to_string).collect();
        let key = if key.is_empty() { "0".to_owned() } else { key.join(".") };
        let value = if len <= options.inline {
            let bytes = read(dataset, offset, len)?;
            Json::from(format!("base64:{}", zarr::base64(&bytes)).as_str())
        } else {
            Json::Array(vec![url.as_str().into(), offset.into(), len.into()])
        };
        refs.push((zarr::join(path, &key), value));
    }
    Ok(refs)
}

/// Bytes of the file.
fn read(dataset: &Dataset, offset: u64, len: u64) -> Result<hdf5::Bytes> {
    let source = dataset.file().source();
    Ok(source.read("a chunk", offset.saturating_sub(source.base()), len)?)
}

fn not_hdf5() -> Error {
    Error::Options("only HDF5 files have an index of chunks".into())
}

/// The stored chunks, where they are ranges of the file; `None`: they are elsewhere.
fn stored_chunks(dataset: &Dataset) -> Result<Option<Vec<StoredChunk>>> {
    let base = dataset.file().source().base();
    let offset = |address: u64| address.saturating_add(base);
    if let Some(index) = dataset.chunk_index()? {
        let chunks = index.records.iter().map(|record| {
            (place(&index, record.number), offset(record.address), record.size, record.skipped)
        });
        return Ok(Some(chunks.collect()));
    }
    if !dataset.external_files().is_empty() {
        return Ok(None);
    }
    let rank = dataset.dataspace().shape().len();
    let whole = |address, len| Ok(Some(vec![(Dims::from_elem(0, rank), offset(address), len, 0)]));
    let elements = hyperslab_array::element_count(dataset.dataspace().shape());
    let bytes = elements.and_then(|n| n.checked_mul(dataset.datatype().size.into())).unwrap_or(u64::MAX);
    match dataset.data_layout() {
        _ if bytes == 0 => Ok(Some(Vec::new())),
        DataLayout::Compact { address, .. } => whole(*address, bytes),
        DataLayout::Contiguous { address: Some(address), .. } => whole(*address, bytes),
        DataLayout::Contiguous { address: None, .. } => Ok(Some(Vec::new())),
        _ => Ok(None),
    }
}

/// The codec of numcodecs that undoes what a filter did.
fn numcodecs(filter: &Filter) -> Result<Json, String> {
    let number = |at: usize, absent: u32| Json::from(filter.client_data.get(at).copied().unwrap_or(absent));
    Ok(match filter.id {
        1 => Json::from([("id", "zlib".into()), ("level", number(0, 6))]),
        2 => Json::from([("id", "shuffle".into()), ("elementsize", number(0, 1))]),
        3 => Json::from([("id", "fletcher32".into())]),
        307 => Json::from([("id", "bz2".into()), ("level", number(0, 9))]),
        32001 => blosc(filter),
        32015 => Json::from([("id", "zstd".into()), ("level", number(0, 3))]),
        id => {
            return Err(format!("filter {id} ({}) has no equal in numcodecs", filter_name(filter)));
        }
    })
}

/// Blosc's chunks say themselves how they are made; this is how the next ones would be.
fn blosc(filter: &Filter) -> Json {
    let number = |at: usize, absent: u32| filter.client_data.get(at).copied().unwrap_or(absent);
    let name = match number(6, 0) {
        1 => "lz4",
        2 => "lz4hc",
        3 => "snappy",
        4 => "zlib",
        5 => "zstd",
        _ => "blosclz",
    };
    Json::from([
        ("id", "blosc".into()),
        ("cname", name.into()),
        ("clevel", number(4, 5).into()),
        ("shuffle", number(5, 1).into()),
        ("blocksize", 0u32.into()),
    ])
}

/// For each dataset where its chunks are: their place in the grid, offset in the file, bytes, and a
/// mask of the filters that were left out. `ask` is asked between datasets, `true` gives up with
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
    let Some(hdf5) = array.hdf5() else { return Err(not_hdf5()) };
    let dataset = hdf5.dataset();
    let list = |numbers: &[u64]| Json::from(numbers);
    let chunk = |(place, offset, len, skipped): StoredChunk| {
        Json::Array(vec![list(&place), offset.into(), len.into(), skipped.into()])
    };
    let stored = stored_chunks(dataset)?.map(|chunks| chunks.into_iter().map(chunk).collect());
    Ok(Json::from([
        ("shape", list(dataset.dataspace().shape())),
        ("element", Json::parse(dataset.element().to_json().as_bytes())?),
        ("storage", hdf5.storage().map_or(Json::Null, Json::from)),
        ("chunk_shape", dataset.chunk_shape().map_or(Json::Null, list)),
        ("filters", Json::Array(hdf5.codecs())),
        ("chunks", stored.map_or(Json::Null, Json::Array)),
    ]))
}
