//! In the steady state, encoding and decoding a chunk allocates nothing.

use hyperslab_codec::{Codec, CodecChain, Context, Lz4, Scratch, hdf5, registry};
use serde_json::{Value, json};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Per thread, because the test harness itself allocates.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: hands everything on to the system's allocator unchanged. The counter has no destructor
// and allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SIZE: usize = 256 << 10;

fn chain(configs: &[Value]) -> CodecChain {
    let array = Context::of_elements("<f4".parse().unwrap());
    let codec = |config| registry::CODECS.from_v2(config, &array).unwrap().codec();
    CodecChain::new(configs.iter().map(codec).collect(), SIZE)
}

fn blosc(cname: &str, shuffle: i32) -> Value {
    json!({"id": "blosc", "cname": cname, "clevel": 5, "shuffle": shuffle, "blocksize": 0})
}

/// Does some work ten times, after two runs that may allocate: the two buffers between codecs
/// alternate.
fn allocates_nothing(label: &dyn std::fmt::Debug, mut work: impl FnMut()) {
    (0..2).for_each(|_| work());
    let before = ALLOCATIONS.get();
    (0..10).for_each(|_| work());
    assert_eq!(ALLOCATIONS.get() - before, 0, "{label:?}");
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1u8; 100]));
    assert_eq!(ALLOCATIONS.get(), before + 1);
}

#[test]
fn nothing_is_allocated_after_the_first_chunk() {
    let data: Vec<u8> =
        (0..SIZE / 4).flat_map(|i| ((i as f32 * 0.01).sin() * 100.0).round().to_le_bytes()).collect();
    let mut chains: Vec<Vec<Value>> = vec![
        vec![],
        vec![json!({"id": "zstd", "level": 1})],
        vec![json!({"id": "zstd", "level": 3, "checksum": true})],
        vec![json!({"id": "gzip", "level": 1})],
        vec![json!({"id": "zlib", "level": 6})],
        vec![json!({"id": "lz4"})],
        vec![json!({"id": "crc32c"})],
        vec![json!({"id": "zstd", "level": 1}), json!({"id": "crc32c"})],
        vec![json!({"id": "crc32c"}), json!({"id": "gzip"})],
        vec![json!({"id": "gzip"}), json!({"id": "zstd"}), json!({"id": "crc32c"})],
        vec![json!({"id": "lz4"}), json!({"id": "zlib"}), json!({"id": "zstd"}), json!({"id": "gzip"})],
    ];
    for cname in ["lz4", "lz4hc", "blosclz", "zlib", "zstd"] {
        chains.extend([0, 1, 2].map(|shuffle| vec![blosc(cname, shuffle)]));
    }
    let mut scratch = Scratch::default();
    let (mut stored, mut out) = (Vec::new(), vec![0; SIZE]);
    for configs in &chains {
        let chain = chain(configs);
        allocates_nothing(configs, || {
            chain.encode(&data, &mut stored, &mut scratch).unwrap();
            chain.decode_part(&stored, 99..SIZE / 8, &mut out, &mut scratch, true).unwrap();
            out.fill(0);
            chain.decode(&stored, &mut out, &mut scratch, true).unwrap();
            if let Some(payload) = chain.payload(&stored, true) {
                assert!(payload.unwrap() == data);
            }
        });
        assert!(out == data);
    }
}

#[test]
fn nothing_is_allocated_for_filters_of_hdf5() {
    let data: Vec<u8> = (0..SIZE / 4).flat_map(|i| (i as u32 * 3 / 2).to_le_bytes()).collect();
    let mut scratch = Scratch::default();
    let (mut stored, mut out) = (Vec::new(), vec![0; SIZE]);
    let filter = |id, client_data: &[u32]| hdf5::filter(id, client_data, 4, SIZE).unwrap();
    let written = [
        vec![filter(2, &[4]), filter(1, &[4])],
        vec![filter(2, &[4]), filter(1, &[4]), filter(3, &[])],
        vec![filter(3, &[]), filter(2, &[4]), filter(1, &[4])],
        vec![filter(2, &[4]), filter(32000, &[])],
        vec![filter(32015, &[])],
        vec![filter(32001, &[])],
    ];
    let mut cases = Vec::new();
    for codecs in written {
        let chain = CodecChain::new(codecs, SIZE);
        chain.encode(&data, &mut stored, &mut scratch).unwrap();
        cases.push((chain, stored.clone()));
    }
    // One LZ4 block, which is also a block of bits in some order.
    Lz4 { acceleration: 1 }.encode(&data, &mut stored, &mut scratch).unwrap();
    let block = &stored[4..];
    let sizes =
        [&(SIZE as u64).to_be_bytes()[..], &(SIZE as u32).to_be_bytes(), &(block.len() as u32).to_be_bytes()];
    let framed = [&sizes.concat(), block].concat();
    cases.push((CodecChain::new(vec![filter(32004, &[])], SIZE), framed.clone()));
    cases.push((CodecChain::new(vec![filter(32008, &[0, 4, 4, 0, 2])], SIZE), framed));
    for (chain, stored) in &cases {
        allocates_nothing(&chain.codecs(), || {
            chain.decode_part(stored, 99..SIZE / 8, &mut out, &mut scratch, true).unwrap();
            chain.decode(stored, &mut out, &mut scratch, true).unwrap();
        });
    }
}
