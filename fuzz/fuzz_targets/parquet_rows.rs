//! A Parquet file of references, in a folder whose metadata is right.

#![no_main]

use hyperslab::{MemoryStore, open};
use hyperslab_fuzz::{catch_parquet, put, visit};
use libfuzzer_sys::fuzz_target;

const METADATA: &[u8] = br#"{"metadata": {".zgroup": {"zarr_format": 2}, "a/.zarray": {"zarr_format": 2,
    "shape": [40], "chunks": [2], "dtype": "|u1", "compressor": null, "fill_value": 9, "filters": null,
    "order": "C"}}, "record_size": 20}"#;

fuzz_target!(|bytes: &[u8]| {
    catch_parquet();
    let store = MemoryStore::named("rows of a fuzz target");
    put(&store, &[("r.parq/.zmetadata", METADATA), ("r.parq/a/refs.0.parq", bytes), ("data", &[7; 64])]);
    visit(&open("memory://rows of a fuzz target/r.parq").expect("the metadata is right"));
});
