//! A document of Zarr v3, `zarr.json`: of an array without chunks, or of a group.

#![no_main]

use hyperslab::open_node;
use hyperslab_fuzz::{store, visit};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(node) = open_node(&store(&[("zarr.json", bytes)]), "", None) {
        visit(&node);
    }
});
