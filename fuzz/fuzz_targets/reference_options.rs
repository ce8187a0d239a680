//! Storage options of `reference://`: names and values, one on each line.

#![no_main]

use hyperslab::MemoryStore;
use hyperslab::stores::{StoreOptions, reach};
use hyperslab_fuzz::put;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let store = MemoryStore::named("options of a fuzz target");
    put(
        &store,
        &[("refs.json", br#"{".zgroup": "{\"zarr_format\": 2}", "x": ["data", 0, 4], "y": ["s3://b/k"]}"#)],
    );
    let mut storage = vec![("fo".to_owned(), "memory://options of a fuzz target/refs.json".to_owned())];
    for line in text.lines() {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        // Another document could be any file of the machine.
        if !name.starts_with("fo") && !value.contains("://") {
            storage.push((name.to_owned(), value.to_owned()));
        }
    }
    let Ok(reached) = reach("reference://", StoreOptions { storage: &storage, ..StoreOptions::default() })
    else {
        return;
    };
    let _ = (reached.store.list(None), reached.store.url());
});
