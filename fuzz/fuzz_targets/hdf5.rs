//! A file from superblock to chunks: objects, links, attributes, and elements of small datasets.
//! Everything except a result or an error is a bug.
//!
//! Runs with and without verified checksums. With them, nearly every change of a new file is
//! rejected at once.

#![no_main]

use hyperslab_array::{ReadOptions, Selection, element_count, read};
use hyperslab_hdf5::{Dataset, File, FileOptions, Node, vlen};
use hyperslab_store::{Key, MemoryStore, Store};
use libfuzzer_sys::fuzz_target;
use std::collections::HashSet;
use std::sync::Arc;

/// The largest dataset in bytes that is read as a whole.
const SMALL: u64 = 1 << 20;
/// The largest number of objects to visit.
const MOST: usize = 1000;

fuzz_target!(|bytes: &[u8]| {
    for verify in [true, false] {
        let store = Arc::new(MemoryStore::new());
        let Ok(key) = Key::new("f") else { return };
        if store.write(key, &[bytes]).is_err() {
            return;
        }
        if let Ok(file) = File::open(store, "f", FileOptions { verify, others: None }) {
            walk(&file);
        }
    }
});

fn walk(file: &File) {
    let mut seen = HashSet::new();
    let mut waiting: Vec<Node> = file.root().map(Node::Group).into_iter().collect();
    while let Some(node) = waiting.pop() {
        if seen.len() > MOST {
            return;
        }
        let attributes = match node {
            Node::Group(group) => {
                if !seen.insert(group.address()) {
                    continue;
                }
                for link in group.links().unwrap_or_default() {
                    waiting.extend(group.child(&link.name));
                }
                group.attributes().unwrap_or_default()
            }
            Node::Dataset(dataset) => {
                if !seen.insert(dataset.address()) {
                    continue;
                }
                elements(&dataset);
                dataset.attributes().unwrap_or_default()
            }
            Node::Datatype(named) => named.attributes,
        };
        for attribute in attributes {
            let _ = attribute.value();
        }
    }
}

fn elements(dataset: &Dataset) {
    let _ = dataset.chunk_index();
    let Ok(layout) = dataset.layout() else { return };
    let bytes = element_count(layout.shape()).and_then(|n| n.checked_mul(layout.dtype().size() as u64));
    if bytes.is_some_and(|bytes| bytes <= SMALL) {
        let all = Selection::all(layout.shape());
        let _ = read(&layout, &all, ReadOptions::default());
        let _ = vlen::read(dataset, &layout, &all, ReadOptions::default());
    }
}
