//! Shared by all fuzz targets: stores in memory, and visits of everything that a store holds.
//!
//! Everything except a result or an error is a bug: panics, hangs, allocations without bound, and
//! parts of arrays that differ from the whole.

#[path = "../../crates/codec/tests/hostile/decoders.rs"]
pub mod decoders;

use hyperslab::meaning::Decoding;
use hyperslab::{Array, Group, Index, Memory, MemoryStore, Node, ReadOptions, Store, hdf5};
use hyperslab_array::{element_count, read_ragged};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Arc, Once};

/// The largest array, and the largest chunk, that is read, in bytes.
pub const SMALL: u64 = 1 << 20;
/// The largest number of nodes to visit.
const MOST: usize = 50;
/// The largest allocation. A larger one fails, as on a machine without memory: code that asks for
/// memory returns an error, and code that does not ask aborts, which is a finding.
const LARGEST: usize = 1 << 30;

struct Bounded;

#[global_allocator]
static BOUNDED: Bounded = Bounded;

// SAFETY: each method calls the system's allocator, or returns null: no memory.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size > LARGEST {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Ignores panics of the crate `parquet`: the reader of references catches them.
pub fn catch_parquet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let is_caught = panic.location().is_some_and(|place| place.file().contains("/parquet-"));
            if !is_caught {
                before(panic);
            }
        }));
    });
}

/// A store in memory with these objects.
pub fn store(objects: &[(&str, &[u8])]) -> Arc<dyn Store> {
    let store = MemoryStore::new();
    put(&store, objects);
    Arc::new(store)
}

/// Puts objects into a store.
pub fn put(store: &dyn Store, objects: &[(&str, &[u8])]) {
    for (key, bytes) in objects {
        store.write(hyperslab::Key::new(key).expect("a key"), &[bytes]).expect("memory is written");
    }
}

/// Splits an input at the first byte that no text in UTF-8 has.
pub fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let at = bytes.iter().position(|byte| *byte == 0xff).unwrap_or(bytes.len());
    (&bytes[..at], bytes.get(at + 1..).unwrap_or_default())
}

/// Reads everything at and below a node.
pub fn visit(node: &Node) {
    match node {
        Node::Array(array) => visit_array(array),
        Node::Group(group) => visit_group(group),
    }
}

fn visit_group(group: &Group) {
    let _ = (group.attributes(), group.children(), group.info(None).map(|info| info.to_json()));
    for below in group.below(Some(4), None).unwrap_or_default().into_iter().take(MOST) {
        match group.open_below(&below).and_then(|object| object.into_node()) {
            Ok(Node::Array(array)) => visit_array(&array),
            Ok(Node::Group(group)) => drop(group.attributes()),
            Err(error) => drop(error.to_string()),
        }
    }
}

/// Reads the facts about an array, all of its elements, and parts of them.
pub fn visit_array(array: &Array) {
    let _ = (array.info(None).map(|info| info.to_json().to_text(None)), array.dimension_names());
    let _ = (array.attributes(), Decoding::of(array));
    let layout = array.layout();
    let bytes = |shape: &[u64]| element_count(shape)?.checked_mul(array.dtype().size().max(1) as u64);
    let sizes = [bytes(layout.shape()), bytes(array.outer_chunk_shape()), bytes(array.chunk_shape())];
    if sizes.iter().any(|size| size.is_none_or(|size| size > SMALL)) {
        return;
    }
    let Ok(all) = array.select(&[]) else { return };
    if array.vlen().is_some() {
        drop(read_ragged(layout, &all, one_thread()));
        return;
    }
    let Ok(whole) = array.read(&all, one_thread()) else { return };
    check_parts(array, &whole);
}

/// A part of an array has the elements that the whole has.
fn check_parts(array: &Array, whole: &Memory) {
    let (Some(rows), size) = (array.shape().first().copied(), array.dtype().size()) else { return };
    if rows == 0 || whole.as_slice().is_empty() {
        return;
    }
    let row = whole.as_slice().len() / rows as usize;
    let first = rows / 2;
    let part = array.select(&[Index::Slice { start: Some(first as i64), stop: None, step: 1 }]);
    let part = part.and_then(|part| array.read(&part, one_thread()));
    let part = part.expect("a part of an array that can be read");
    assert_eq!(part.as_slice(), &whole.as_slice()[first as usize * row..], "a part differs");
    let last: Vec<Index<'_>> = array.shape().iter().map(|_| Index::At(-1)).collect();
    let last = array.select(&last).and_then(|last| array.read(&last, one_thread()));
    let last = last.expect("an element of an array that can be read");
    assert_eq!(last.as_slice(), &whole.as_slice()[whole.as_slice().len() - size..], "an element differs");
}

/// Reads with the calling thread only.
pub fn one_thread() -> ReadOptions<'static> {
    ReadOptions { threads: Some(1), ..ReadOptions::default() }
}

/// Opens the HDF5 file in some bytes.
pub fn hdf5_file(bytes: &[u8], verify: bool) -> Option<hdf5::File> {
    let options = hdf5::FileOptions { verify, others: None };
    hdf5::File::open(store(&[("f", bytes)]), "f", options).ok()
}
