//! A document of references, and the array or group that its references make.

#![no_main]

use hyperslab::{MemoryStore, open};
use hyperslab_fuzz::{put, visit};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let store = MemoryStore::named("references of a fuzz target");
    put(&store, &[("refs.json", bytes), ("data", &[7; 64])]);
    match open("memory://references of a fuzz target/refs.json") {
        Ok(node) => visit(&node),
        Err(error) => drop(error.to_string()),
    }
});
