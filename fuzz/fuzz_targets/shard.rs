//! A shard: its index, its inner chunks, and shards in it. The first byte selects the array.

#![no_main]

use hyperslab::array::{ReadOptions, inspect_shard};
use hyperslab::open_node;
use hyperslab_fuzz::{store, visit_array};
use libfuzzer_sys::fuzz_target;

const ZSTD: &str = r#"{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {"level": 1, "checksum": false}}"#;
const PLAIN: &str = r#"{"name": "bytes", "configuration": {"endian": "little"}}"#;

/// A document: codecs of the inner chunks and of the index, where the index is, levels of shards.
fn document(choice: u8) -> String {
    let inner = if choice & 1 == 0 { PLAIN } else { ZSTD };
    let sum = if choice & 2 == 0 { "" } else { r#", {"name": "crc32c"}"# };
    let location = if choice & 4 == 0 { "end" } else { "start" };
    let shard = |chunk: &str, codecs: &str| {
        format!(
            r#"{{"name": "sharding_indexed", "configuration": {{"chunk_shape": {chunk}, "codecs": [{codecs}],
                "index_codecs": [{PLAIN}{sum}], "index_location": "{location}"}}}}"#
        )
    };
    let codecs = match choice & 8 {
        0 => shard("[4, 4]", inner),
        _ => shard("[4, 8]", &shard("[4, 4]", inner)),
    };
    format!(
        r#"{{"zarr_format": 3, "node_type": "array", "shape": [8, 14], "data_type": "uint16", "fill_value": 9,
            "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": [8, 16]}}}},
            "chunk_key_encoding": {{"name": "default"}}, "codecs": [{codecs}]}}"#
    )
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, shard)) = bytes.split_first() else { return };
    let store = store(&[("zarr.json", document(*first).as_bytes()), ("c/0/0", shard)]);
    let array = open_node(&store, "", None).and_then(|node| node.into_array()).expect("a valid document");
    visit_array(&array);
    drop(inspect_shard(array.layout(), &[0, 0]));
    let Ok(all) = array.select(&[]) else { return };
    drop(array.read(&all, ReadOptions { verify: Some(false), threads: Some(1), ..ReadOptions::default() }));
});
