//! New arrays of an HDF5 file that is being changed: described as a copy of a Zarr array would be.

use super::described::Described;
use super::{attributes, from_nodes, scales};
use crate::copy::CopyOptions;
use crate::{Array, Error, Json, Node, Result};
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::new_file::{NewAttribute, NewKind, NewObject, NewStorage};
use hyperslab_store::MemoryStore;
use hyperslab_zarr::{self as zarr, ArraySpec, Choice};
use std::sync::Arc;

/// Describes an array of the same elements, chunks and attributes. `path`: its place in the file.
///
/// Without chunks, filters and compressors the elements are one run of bytes. With chunks, each axis
/// can grow. Names of dimensions become labels. Elements are not compressed unless the description
/// says so.
pub(crate) fn describe_new(path: &str, spec: &ArraySpec) -> Result<NewObject> {
    let refuse = |why: &str| Error::Copy { array: format!("/{path}"), why: why.into() };
    if spec.shards.is_some() || spec.rectilinear_shards.is_some() {
        return Err(refuse("HDF5 has no shards; leave them out"));
    }
    if spec.rectilinear.is_some() {
        return Err(refuse("chunks of an HDF5 dataset have one shape; give one"));
    }
    let (mut spec, mut real_shape) = (spec.clone(), None);
    let is_given = |choice: &Choice<Vec<Json>>| matches!(choice, Choice::Set(list) if !list.is_empty());
    let has_chunks = spec.chunks.is_some() || is_given(&spec.filters) || is_given(&spec.compressors);
    if spec.compressors == Choice::Auto {
        spec.compressors = Choice::Set(Vec::new());
    }
    let names = spec.dimension_names.take();
    if has_chunks && !spec.shape.is_empty() {
        // A copy has no chunks longer than an axis. Here the axis grows.
        let shape = std::mem::take(&mut spec.shape);
        spec.shape = shape.iter().map(|n| (*n).max(1)).collect();
        spec.choose_chunks();
        let chunks = spec.chunks.clone().unwrap_or_default();
        if chunks.len() != shape.len() || chunks.contains(&0) {
            let chunks = &chunks[..];
            return Err(refuse(&format!(
                "expected {} sizes of chunks above 0, found {chunks:?}",
                shape.len()
            )));
        }
        spec.shape = spec.shape.iter().zip(&chunks).map(|(n, chunk)| *n.max(chunk)).collect();
        real_shape = Some(shape);
    }
    let array = zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false)?;
    let options = CopyOptions::default();
    let described = from_nodes::describe(&Node::Array(Array::from(array)), path, &options)?;
    let mut object = dataset(described).ok_or_else(|| refuse("it has no shape"))?;
    if let NewKind::Dataset(dataset) = &mut object.kind {
        if !has_chunks {
            dataset.storage = NewStorage::Contiguous(None);
        }
        if let (Some(real), Dataspace::Simple { shape, max_shape }) = (real_shape, &mut dataset.dataspace) {
            *shape = real.to_vec();
            max_shape.fill(None);
        }
    }
    if let Some(names) = names.filter(|names| names.iter().any(Option::is_some)) {
        let names: Vec<String> = names.into_iter().map(Option::unwrap_or_default).collect();
        object.attributes.push(scales::labels(&names));
    }
    Ok(object)
}

fn dataset(described: Described<'_>) -> Option<NewObject> {
    described.objects.into_iter().find(|object| matches!(object.kind, NewKind::Dataset(_)))
}

/// The members of a JSON object as attributes of HDF5, with the types that a copy to HDF5 has.
///
/// Fails with [`Error::Options`] if this is no object.
pub fn attributes_of_json(json: &Json) -> Result<Vec<NewAttribute>> {
    let Some(members) = json.as_object() else {
        return Err(Error::Options("attributes: expected a JSON object".into()));
    };
    Ok(members.iter().map(|(name, value)| attributes::of_json(name, value).0).collect())
}
