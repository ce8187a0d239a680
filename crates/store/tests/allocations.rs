//! Reading and writing objects allocates nothing once the buffers are large enough.

#[path = "common/counting.rs"]
mod counting;

use counting::allocations;
use hyperslab_store::{Key, LocalOptions, LocalStore, RangeRead, Store};

#[test]
fn steady_state_allocates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // A long root: paths must fit on the stack wherever the data is.
    let root = dir.path().join("r".repeat(200)).join("s".repeat(200));
    let store = LocalStore::open(root, LocalOptions::default()).unwrap();
    let key = Key::new("temperature/c/0/1").unwrap();
    let missing = Key::new("temperature/c/0/2").unwrap();
    let value: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
    let mut exact = vec![0; value.len()];
    let mut all = Vec::new();
    let mut rows = vec![0u8; 200 * 100];

    assert!(allocations(|| drop(std::hint::black_box(vec![1u8; 10]))) > 0, "the counter counts");
    store.write(key, &[&value]).unwrap();
    assert!(store.read_all(key, &mut all, usize::MAX).unwrap());

    let write = allocations(|| store.write(key, &[&value[..10], &[], &value[10..]]).unwrap());
    let read_exact = allocations(|| assert!(store.read_exact(key, &mut exact).unwrap()));
    let read_all = allocations(|| assert!(store.read_all(key, &mut all, usize::MAX).unwrap()));
    let read_missing = allocations(|| {
        assert!(!store.read_exact(missing, &mut exact[..10]).unwrap());
        assert!(!store.exists(missing).unwrap());
    });
    let mut ranges: Vec<RangeRead<'_>> = rows
        .chunks_mut(100)
        .enumerate()
        .map(|(i, buf)| RangeRead { offset: if i < 150 { i as u64 * 100 } else { i as u64 * 300 }, buf })
        .collect();
    let read_ranges = allocations(|| {
        assert!(store.read_ranges(key, Some(100_000), &mut ranges).unwrap());
    });
    // The first call resolves the links in the root.
    store.lock_id(key);
    let lock_id = allocations(|| {
        std::hint::black_box(store.lock_id(key));
    });

    assert_eq!((&exact, &all), (&value, &value));
    assert_eq!(&rows[199 * 100..], &value[199 * 300..][..100]);
    let counts = [write, read_exact, read_missing, read_ranges, lock_id];
    assert_eq!(counts, [0; 5], "write, read_exact, missing, read_ranges, lock_id");
    // The new buffer has room for one byte more than the object, which is needed to find its end.
    assert_eq!(read_all, 0);
}
