//! Helpers for the test programs. Each program uses some of them.
#![allow(dead_code)]

use hyperslab::prelude::*;
use hyperslab::{MemoryStore, Store, open_node, zarr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An empty store.
pub fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// Creates an array at a path of a store.
pub fn created(store: &Arc<dyn Store>, path: &str, spec: ArraySpec) -> Array {
    zarr::Array::create(store.clone(), path, spec, false).unwrap().into()
}

pub fn opened(store: &Arc<dyn Store>, path: &str) -> Array {
    open_node(store, path, None).unwrap().into_array().unwrap()
}

/// Describes an array of this element type in these chunks.
pub fn spec(format: Format, shape: &[u64], chunks: &[u64], dtype: &str) -> ArraySpec {
    let mut spec = ArraySpec::new(format.zarr().unwrap(), shape, dtype.parse().unwrap());
    spec.chunks = Some(chunks.into());
    spec
}

/// Pseudo-random bytes, the same in every run.
pub fn noise() -> impl FnMut() -> u8 {
    let mut state = 0x9E37_79B9_u32;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    }
}

/// An HDF5 or NetCDF file of another project. `None`, with a message: it does not exist.
pub fn corpus(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("HYPERSLAB_CORPORA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora"), PathBuf::from);
    let path = root.join("hdf5").join(name);
    if !path.exists() {
        println!("skipped: there is no {}", path.display());
        return None;
    }
    Some(path)
}
