//! The memory of metadata.
//!
//! Documents of consolidated metadata stay text, and equal ones are kept once. A change of large
//! attributes holds them a few times.

use hyperslab_store::{Key, LocalOptions, LocalStore, MemoryStore, Store};
use hyperslab_zarr::{Array, ArraySpec, Consolidation, Format, Group, Json, Node};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt::Write;
use std::sync::Arc;

struct Counting;

thread_local! {
    /// Allocations of this thread.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread has allocated and not freed; and the most at any time.
    static LIVE: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn grown(by: isize) {
    let (live, most) = LIVE.get();
    LIVE.set((live + by, most.max(live + by)));
}

// SAFETY: hands everything to the system's allocator; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        grown(layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        grown(-(layout.size() as isize));
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        grown(size as isize - layout.size() as isize);
        // SAFETY: as promised by the caller.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const MEMBERS: usize = 10_000;

/// The document of an array in v3, as zarr-python indents it within the group's document.
fn array(extent: usize) -> String {
    format!(
        r#"{{
        "shape": [
          {extent}
        ],
        "data_type": "float64",
        "chunk_grid": {{
          "name": "regular",
          "configuration": {{
            "chunk_shape": [
              5
            ]
          }}
        }},
        "chunk_key_encoding": {{
          "name": "default",
          "configuration": {{
            "separator": "/"
          }}
        }},
        "fill_value": 0.0,
        "codecs": [
          {{
            "name": "bytes",
            "configuration": {{
              "endian": "little"
            }}
          }}
        ],
        "attributes": {{}},
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": []
      }}"#
    )
}

/// A store with a group of many arrays, and the bytes of the group's document.
fn store(extent: impl Fn(usize) -> usize) -> (Arc<dyn Store>, usize) {
    let mut members = String::new();
    for n in 0..MEMBERS {
        let comma = if n > 0 { "," } else { "" };
        write!(members, "{comma}\n      \"array {n:06}\": {}", array(extent(n))).unwrap();
    }
    let text = format!(
        r#"{{"attributes": {{}}, "zarr_format": 3, "consolidated_metadata": {{"kind": "inline",
        "must_understand": false, "metadata": {{{members}}}}}, "node_type": "group"}}"#
    );
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    store.write(Key::new("zarr.json").unwrap(), &[text.as_bytes()]).unwrap();
    (store, text.len())
}

/// Opens the group. Returns it, the bytes that stay allocated, and the number of allocations.
fn opened(store: &Arc<dyn Store>) -> (Group, usize, u64) {
    let open = || Group::open(store, "", None, Consolidation::Require).unwrap();
    // Values of the process are made on first use.
    drop(open());
    let (live, allocations) = (LIVE.get().0, ALLOCATIONS.get());
    let group = open();
    (group, (LIVE.get().0 - live) as usize, ALLOCATIONS.get() - allocations)
}

fn shape(group: &Group, name: &str) -> Vec<u64> {
    let Node::Array(array) = group.child(name).unwrap() else { panic!("{name} is no array") };
    array.layout().shape().to_vec()
}

#[test]
fn equal_documents_are_kept_once() {
    let (store, _) = store(|_| 9);
    let (group, bytes, allocations) = opened(&store);
    assert!(bytes <= 150 * MEMBERS, "{bytes} bytes for {MEMBERS} members");
    assert!(allocations <= 3 * MEMBERS as u64, "{allocations} allocations for {MEMBERS} members");
    assert_eq!(shape(&group, "array 007777"), [9]);
    assert_eq!(group.children().unwrap().len(), MEMBERS);
}

#[test]
fn documents_stay_text() {
    let (store, text) = store(|n| n);
    let (group, bytes, allocations) = opened(&store);
    // White space is not kept.
    assert!(bytes <= text, "{bytes} bytes for {text} bytes of text");
    assert!(allocations <= 5 * MEMBERS as u64, "{allocations} allocations for {MEMBERS} members");
    for n in [0, 1234, MEMBERS - 1] {
        assert_eq!(shape(&group, &format!("array {n:06}")), [n as u64]);
    }
}

/// A new member costs the same in a large group as in a small one.
#[test]
fn a_new_member_costs_the_same_in_any_group() {
    let (store, _) = store(|n| n);
    let (group, ..) = opened(&store);
    let spec = || ArraySpec::new(Format::V3, &[4], "|u1".parse().unwrap());
    let create = |name: &str| {
        let before = ALLOCATIONS.get();
        let mut array = Array::create(store.clone(), name, spec(), false).unwrap();
        group.adopt(&mut array).unwrap();
        ALLOCATIONS.get() - before
    };
    create("first");
    let (second, third) = (create("second"), create("third"));
    assert!(second.max(third) <= 1000, "{second} and {third} allocations");
    assert_eq!(shape(&group, "third"), [4]);
    assert_eq!(group.children().unwrap().len(), MEMBERS + 3);
}

/// The value that is set, the text that is stored, and the value that was read to be changed.
#[test]
fn large_attributes_are_held_few_times() {
    const LARGE: usize = 4 << 20;
    for format in [Format::V2, Format::V3] {
        let directory = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> =
            Arc::new(LocalStore::open(directory.path(), LocalOptions::default()).unwrap());
        let mut group = Group::create(store.clone(), "", format, Json::object(), false).unwrap();
        let spec = ArraySpec::new(format, &[4], "|u1".parse().unwrap());
        let mut array = Array::create(store.clone(), "a", spec, false).unwrap();
        let text = "x".repeat(LARGE);
        let most = |change: &mut dyn FnMut(&mut Option<Json>)| {
            let (live, _) = LIVE.get();
            LIVE.set((live, live));
            change(&mut Some(Json::from(text.as_str())));
            (LIVE.get().1 - live) as f64 / LARGE as f64
        };
        let set = |value: &mut Option<Json>, all: &mut Json| all.set("large", value.take().unwrap());
        for _ in 0..2 {
            let found = [
                most(&mut |value| array.change_attributes(None, |all| set(value, all)).unwrap()),
                most(&mut |value| group.change_attributes(None, |all| set(value, all)).unwrap()),
            ];
            assert!(found.iter().all(|times| (2.0..4.5).contains(times)), "{format:?}: {found:?}");
        }
        assert_eq!(array.attributes().get("large").and_then(Json::as_str), Some(text.as_str()));
        assert_eq!(group.attributes().get("large").and_then(Json::as_str), Some(text.as_str()));
    }
}
