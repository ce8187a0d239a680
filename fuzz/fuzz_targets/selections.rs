//! Selections as the command line takes them, on an array.

#![no_main]

use hyperslab::{Array, ReadOptions, open_node, parse_indices};
use hyperslab_fuzz::store;
use libfuzzer_sys::fuzz_target;
use std::cell::OnceCell;

const DOCUMENT: &[u8] = br#"{"zarr_format": 2, "shape": [5, 7, 3], "chunks": [2, 7, 2], "dtype": "<i2",
    "compressor": null, "fill_value": 9, "filters": null, "order": "C"}"#;

thread_local! {
    static ARRAY: OnceCell<Array> = const { OnceCell::new() };
}

fuzz_target!(|text: &str| {
    let Ok(indices) = parse_indices(text) else { return };
    ARRAY.with(|array| {
        let array = array.get_or_init(|| {
            let node = open_node(&store(&[(".zarray", DOCUMENT)]), "", None).expect("a valid document");
            node.into_array().expect("an array")
        });
        let Ok(selection) = array.select(&indices) else { return };
        let options = ReadOptions { threads: Some(1), ..ReadOptions::default() };
        let memory = array.read(&selection, options).expect("absent chunks are read");
        let elements: u64 = selection.shape().iter().product();
        assert_eq!(memory.as_slice(), 9i16.to_le_bytes().repeat(elements as usize));
    });
});
