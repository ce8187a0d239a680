//! A folder of references: `.zmetadata`, and a Parquet file of the array `a`, with a byte 0xff
//! between them.

#![no_main]

use hyperslab::{MemoryStore, open};
use hyperslab_fuzz::{catch_parquet, put, split, visit};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    catch_parquet();
    let (metadata, rows) = split(bytes);
    let store = MemoryStore::named("rows of a fuzz target");
    put(&store, &[("r.parq/.zmetadata", metadata), ("r.parq/a/refs.0.parq", rows), ("data", &[7; 64])]);
    match open("memory://rows of a fuzz target/r.parq") {
        Ok(node) => visit(&node),
        Err(error) => drop(error.to_string()),
    }
});
