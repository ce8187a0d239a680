//! An array's document and its first chunk, with a byte 0xff between them: codecs as a document
//! configures them, on bytes that they did not write.

#![no_main]

use hyperslab::array::Location;
use hyperslab::{Node, open_node};
use hyperslab_fuzz::{split, store, visit_array};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (document, chunk) = split(bytes);
    for name in ["zarr.json", ".zarray"] {
        let store = store(&[(name, document)]);
        let Ok(Node::Array(array)) = open_node(&store, "", None) else { continue };
        let (first, mut key) = (vec![0; array.shape().len()], String::new());
        // An encoding may give the chunk the key of something else.
        if matches!(array.layout().locate(&first, &mut key), Ok(Location::Object))
            && hyperslab::Key::new(&key).is_ok_and(|key| store.write(key, &[chunk]).is_ok())
        {
            visit_array(&array);
        }
    }
});
