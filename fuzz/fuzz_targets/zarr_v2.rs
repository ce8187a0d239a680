//! Documents of Zarr v2: `.zarray` and `.zattrs`, with a byte 0xff between them.

#![no_main]

use hyperslab::open_node;
use hyperslab_fuzz::{split, store, visit};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (node, attributes) = split(bytes);
    for document in [".zarray", ".zgroup"] {
        if let Ok(node) = open_node(&store(&[(document, node), (".zattrs", attributes)]), "", None) {
            visit(&node);
        }
    }
});
