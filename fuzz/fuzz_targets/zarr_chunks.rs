//! An array's document and its first chunk, with a byte 0xff between them: codecs as a document
//! configures them, on bytes that they did not write.

#![no_main]

use hyperslab::open_node;
use hyperslab_fuzz::{split, store, visit};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (document, chunk) = split(bytes);
    let v3: [&str; 4] = ["zarr.json", "c/0", "c/0/0", "c"];
    let v2: [&str; 4] = [".zarray", "0", "0.0", "0.0.0"];
    for [name, keys @ ..] in [v3, v2] {
        let objects: Vec<_> = keys.iter().map(|key| (*key, chunk)).chain([(name, document)]).collect();
        // An object `c` and objects below it exclude each other in some stores, but not in memory.
        if let Ok(node) = open_node(&store(&objects), "", None) {
            visit(&node);
        }
    }
});
