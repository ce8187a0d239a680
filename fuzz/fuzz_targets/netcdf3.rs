//! A classic NetCDF file: its header and the elements of small variables.

#![no_main]

use hyperslab_array::{ReadOptions, Selection, element_count, read};
use hyperslab_netcdf::File;
use hyperslab_store::{Key, MemoryStore, Store};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|bytes: &[u8]| {
    let store = Arc::new(MemoryStore::new());
    let Ok(key) = Key::new("f") else { return };
    if store.write(key, &[bytes]).is_err() {
        return;
    }
    let Ok(file) = File::open(store, "f") else { return };
    for variable in file.variables() {
        let Ok(layout) = variable.layout() else { continue };
        let bytes = element_count(layout.shape()).and_then(|n| n.checked_mul(layout.dtype().size() as u64));
        if bytes.is_some_and(|bytes| bytes <= 1 << 20) {
            let _ = read(&layout, &Selection::all(layout.shape()), ReadOptions::default());
        }
    }
});
