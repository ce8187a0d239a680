//! Small chunks that are ranges of one object.

use super::counting::Counting;
use super::model::{Packed, Spec, get, on, select};
use crate::*;
use hyperslab_codec::Scratch;
use hyperslab_store::{Key, LocalOptions, LocalStore, MemoryStore, Store};
use proptest::prelude::*;
use std::sync::Arc;

/// The place of each chunk, and the codecs that were left out; `None`: the chunk is absent.
type Ranges = Vec<Option<(u64, u64, u32)>>;

/// Chunks of `rows`, one after the other, in the order and with the gaps that `places` gives. Some
/// are absent, and some lack their codecs.
fn stored(spec: &Spec, rows: &[&[u8]], places: &[(u64, u8)]) -> (Vec<u8>, Ranges) {
    let layout = spec.layout(&MemoryStore::new());
    let (mut object, mut ranges, mut scratch) = (vec![0xEE; 11], vec![None; rows.len()], Scratch::default());
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|n| places[*n].0 % 16);
    for n in order {
        let (place, kind) = places[n];
        if kind % 8 == 0 {
            continue;
        }
        object.resize(object.len() + if kind % 8 == 1 { place as usize } else { 0 }, 0xEE);
        let (mut bytes, skipped) = (Vec::new(), u32::from(kind % 8 == 2));
        layout.encoding().chain().without_codecs(skipped).encode(rows[n], &mut bytes, &mut scratch).unwrap();
        ranges[n] = Some((object.len() as u64, bytes.len() as u64, skipped));
        object.extend(bytes);
    }
    (object, ranges)
}

fn layout(spec: &Spec, store: Arc<dyn Store>, object: &[u8], ranges: Ranges) -> ArrayLayout {
    store.write(Key::new("packed").unwrap(), &[object]).unwrap();
    let counts: Dims = [ranges.len() as u64].as_slice().into();
    spec.layout_with(store, Arc::new(Packed { counts, ranges }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_places_and_gaps(
        places in prop::collection::vec((0u64..9000, any::<u8>()), 2..300),
        codecs in 0u8..2,
        len in 1u64..60,
        step in 1i64..150,
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..50),
        threads in 1usize..4,
    ) {
        let spec = Spec { codecs, fill: vec![7, 1], ..Spec::plain(&[places.len() as u64 * len], &[len], "<u2") };
        let total = spec.shape[0];
        let values: Vec<u8> = (0..total * 2).map(|i| (i * 31 % 251) as u8).collect();
        let rows: Vec<&[u8]> = values.chunks(len as usize * 2).collect();
        let (object, ranges) = stored(&spec, &rows, &places);
        let mut expected = values.clone();
        for (n, range) in ranges.iter().enumerate() {
            if range.is_none() {
                let row = &mut expected[n * len as usize * 2..][..len as usize * 2];
                row.chunks_mut(2).for_each(|element| element.copy_from_slice(&spec.fill));
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let local: Arc<dyn Store> = Arc::new(LocalStore::open(folder.path(), LocalOptions::default()).unwrap());
        let all: Vec<i64> = (0..total as i64).collect();
        let list: Vec<i64> = picks.iter().map(|at| at.index(total as usize) as i64).collect();
        for store in [local, Arc::new(MemoryStore::new())] {
            let layout = layout(&spec, store, &object, ranges.clone());
            let slice = |step| Index::Slice { start: None, stop: None, step };
            let some = all.iter().copied().step_by(step as usize).collect();
            let back = all.iter().rev().copied().collect();
            for (index, wanted) in [
                (Index::ALL, &all),
                (slice(step), &some),
                (slice(-1), &back),
                (Index::List(&list), &list),
            ] {
                let selection = select(&spec.shape, &[index]);
                let found = read(&layout, &selection, on(threads)).unwrap();
                let wanted = wanted.iter().flat_map(|at| &expected[*at as usize * 2..][..2]);
                prop_assert!(found.as_slice().iter().eq(wanted));
            }
        }
    }
}

#[test]
fn neighbours_are_one_read() {
    let spec = Spec::plain(&[25_000], &[25], "<f4");
    let values: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    let rows: Vec<&[u8]> = values.chunks(100).collect();
    let (object, ranges) = stored(&spec, &rows, &vec![(0, 3); 1000]);
    let store = Arc::new(Counting::new(&MemoryStore::new(), true));
    let layout = layout(&spec, store.clone(), &object, ranges);
    assert_eq!(read(&layout, &spec.all(), on(1)).unwrap().as_slice(), values);
    // One thread takes half of the chunks at a time.
    assert_eq!(store.counts(), [2, 2, values.len() as u64]);
}

#[test]
fn the_chunk_at_fault_is_named() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[1000], &[10], "<f4") };
    let values: Vec<u8> = (0..4000_u32).map(|i| i as u8).collect();
    let rows: Vec<&[u8]> = values.chunks(40).collect();
    let (object, good) = stored(&spec, &rows, &vec![(0, 3); 100]);
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(LocalStore::open(folder.path(), LocalOptions::default()).unwrap());
    let (offset, len, _) = good[57].unwrap();
    let end = object.len() as u64;
    for wrong in
        [(end - 3, 8, 0), (u64::MAX - 3, 8, 0), (0, 1 << 40, 0), (offset + 1, len, 0), (offset, 0, 0)]
    {
        let mut ranges = good.clone();
        ranges[57] = Some(wrong);
        let layout = layout(&spec, store.clone(), &object, ranges);
        let error = read(&layout, &spec.all(), ReadOptions::default()).unwrap_err();
        assert!(error.to_string().contains("[57]"), "{wrong:?}: {error}");
        let before = select(&spec.shape, &[Index::range(0, 570)]);
        assert_eq!(get(&layout, &before).as_slice(), &values[..2280]);
    }
    // The object does not exist, although the index vouches for it.
    let layout = layout(&spec, store.clone(), &object, good);
    store.delete(Key::new("packed").unwrap()).unwrap();
    let error = read(&layout, &spec.all(), ReadOptions::default()).unwrap_err();
    assert!(matches!(error, ArrayError::Store { .. }), "{error}");
}
