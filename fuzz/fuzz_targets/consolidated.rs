//! Consolidated metadata: of Zarr v3 in `zarr.json`, and of Zarr v2 in `.zmetadata`.

#![no_main]

use hyperslab::open_node;
use hyperslab_fuzz::{store, visit};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let group: &[u8] = br#"{"zarr_format": 2}"#;
    for store in [store(&[("zarr.json", bytes)]), store(&[(".zgroup", group), (".zmetadata", bytes)])] {
        if let Ok(node) = open_node(&store, "", None) {
            visit(&node);
        }
    }
});
