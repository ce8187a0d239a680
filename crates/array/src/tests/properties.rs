//! Reading and writing generated arrays by generated selections.

use super::counting::Counting;
use super::model::{Model, Packed, Spec, elements, filled, get, put, put_repeated, select, stored};
use super::points::{odd, offsets};
use crate::plan::strategy::Strategy;
use crate::*;
use hyperslab_codec::{ByteOrder, DataType, Scratch};
use hyperslab_store::{Key, MemoryStore, Store};
use proptest::prelude::*;
use proptest::strategy::Strategy as Gen;
use std::sync::Arc;

pub(crate) fn spec() -> impl Gen<Value = Spec> {
    (0usize..4).prop_flat_map(|rank| {
        (
            prop::collection::vec(prop_oneof![8 => 1u64..14, 1 => Just(0u64), 1 => 14u64..40], rank),
            prop::collection::vec(1u64..9, rank),
            prop::sample::select(vec![
                "|u1", "<i2", ">i2", "<f4", "<f8", ">f8", "<c8", "<c16", "|S3", "<U2", "|V32",
            ]),
            any::<bool>(),
            Just((0..rank).collect::<Vec<usize>>()).prop_shuffle(),
            0u8..8,
            prop_oneof![Just(0u8), Just(0xFFu8), Just(7u8)],
        )
            .prop_map(|(shape, chunk, dtype, big, order, codecs, fill)| {
                let size = dtype.parse::<DataType>().unwrap().size();
                let fill = (0..size).map(|i| if fill == 7 { i as u8 + 1 } else { fill }).collect();
                let stored = if big { ByteOrder::Big } else { ByteOrder::Little };
                Spec { shape, chunk, dtype, stored, order, codecs, fill }
            })
    })
}

pub(crate) fn index(len: u64) -> impl Gen<Value = Index<'static>> {
    let n = len as i64;
    let bound = prop::option::of(-n - 2..n + 3);
    let step = prop_oneof![4 => Just(1i64), 2 => 2i64..5, 1 => -4i64..0, 1 => Just(i64::MAX)];
    let slice =
        (bound.clone(), bound, step).prop_map(|(start, stop, step)| Index::Slice { start, stop, step });
    if len == 0 {
        slice.boxed()
    } else {
        prop_oneof![5 => slice, 2 => Just(Index::ALL), 2 => (-n..n).prop_map(Index::At)].boxed()
    }
}

fn selection(shape: Vec<u64>) -> impl Gen<Value = Selection> {
    let indices: Vec<_> = shape.iter().map(|len| index(*len)).collect();
    indices.prop_map(move |indices| select(&shape, &indices))
}

pub(super) fn case() -> impl Gen<Value = (Spec, Vec<(Selection, bool, u8)>, Vec<Selection>)> {
    spec().prop_flat_map(|spec| {
        let write = (selection(spec.shape.clone()), any::<bool>(), any::<u8>());
        let writes = prop::collection::vec(write, 0..4);
        let reads = prop::collection::vec(selection(spec.shape.clone()), 1..4);
        (Just(spec), writes, reads)
    })
}

pub(super) fn values(selection: &Selection, element: usize, seed: u8, fill: &[u8]) -> Vec<u8> {
    let n = selection.shape().iter().product::<u64>() as usize;
    match seed % 4 {
        // Only fill value, so that chunks come and go.
        0 => fill.repeat(n),
        _ => (0..n * element).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect(),
    }
}

/// The part of the array inside the chunk of a task.
fn inside(spec: &Spec, task: &Task) -> Selection {
    let axes = task.chunk.iter().zip(&spec.chunk).zip(&spec.shape);
    let ranges: Vec<Index<'_>> = axes
        .map(|((at, chunk), len)| Index::range((at * chunk) as i64, ((at + 1) * chunk).min(*len) as i64))
        .collect();
    select(&spec.shape, &ranges)
}

/// Checks that chunks are stored exactly if they hold anything but fill value.
pub(super) fn check_elision(spec: &Spec, layout: &ArrayLayout, store: &MemoryStore, model: &Model) {
    let plan = Plan::new(layout, &spec.all()).unwrap();
    let mut task = Task::default();
    for number in 0..plan.len() {
        plan.task(layout, number, &mut task);
        let mut key = String::new();
        layout.locate(&task.chunk, &mut key).unwrap();
        let part = model.read(&inside(spec, &task));
        let empty = part.chunks(spec.fill.len()).all(|element| element == spec.fill);
        assert_eq!(store.exists(Key::new(&key).unwrap()).unwrap(), !empty, "chunk {key}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn engine_is_the_definition((spec, writes, reads) in case(), threads in 1usize..4) {
        let store = MemoryStore::new();
        let layout = spec.layout(&store);
        let element = layout.dtype().size();
        let mut model = Model::full(&spec.shape, &spec.fill);
        for (selection, broadcast, seed) in &writes {
            let shape = selection.shape();
            let options = WriteOptions { threads: Some(threads), ..WriteOptions::default() };
            if *broadcast {
                let one: Vec<u8> = (0..element).map(|i| seed.wrapping_add(i as u8)).collect();
                write(&layout, selection, &Source::repeat(&one, &shape), options).unwrap();
                model.write(selection, &one.repeat(shape.iter().product::<u64>() as usize));
            } else {
                let values = values(selection, element, *seed, &spec.fill);
                write(&layout, selection, &Source::dense(&values, &shape, element).unwrap(), options).unwrap();
                model.write(selection, &values);
            }
        }
        check_elision(&spec, &layout, &store, &model);
        let far = spec.layout_with(Arc::new(Counting::far(&store, threads + 1)), layout.locator().clone());
        for selection in &reads {
            let options = ReadOptions { threads: Some(threads), ..ReadOptions::default() };
            let wanted = model.read(selection);
            let found = read(&layout, selection, options).unwrap();
            prop_assert_eq!(found.as_slice(), wanted.as_slice());
            let found = read(&far, selection, options).unwrap();
            prop_assert_eq!(found.as_slice(), wanted.as_slice());
            // Fortran order gives the transposed result, element by element.
            let turned = read(&layout, selection, ReadOptions { fortran: true, ..options }).unwrap();
            let model = Model { shape: selection.shape().to_vec(), element, bytes: wanted.clone() };
            let transposed = model.transposed();
            prop_assert_eq!(turned.as_slice(), transposed.as_slice());
            // Into memory of another order with gaps, the first axis fastest.
            let shape = selection.shape();
            let (strides, size) = odd(&shape, element);
            let mut memory = vec![0xA5u8; size];
            // SAFETY: the memory was made for these strides.
            let mut target = unsafe { Target::from_raw(memory.as_mut_ptr(), &shape, &strides) };
            read_into(&layout, selection, &mut target, options).unwrap();
            for (offset, value) in offsets(&shape, &strides).iter().zip(wanted.chunks(element)) {
                prop_assert_eq!(&memory[*offset..offset + element], value);
            }
            // The plan shown is the plan that ran: every selected element is in exactly one task.
            let explained = explain_read(&layout, selection, usize::MAX).unwrap();
            prop_assert_eq!(elements(&explained), shape.iter().product::<u64>());
        }
    }

    #[test]
    fn chunks_may_be_ranges_of_one_object((spec, _w, reads) in case(), seed in 1u8..255) {
        // Write with one object per chunk, pack the stored bytes into one object, and read that.
        let apart = MemoryStore::new();
        let layout = spec.layout(&apart);
        let element = layout.dtype().size();
        let all = spec.all();
        let values: Vec<u8> = (0..spec.shape.iter().product::<u64>() as usize * element).map(|i| (i as u8) ^ seed).collect();
        let keep = WriteOptions { write_empty_chunks: Some(true), ..WriteOptions::default() };
        write(&layout, &all, &Source::dense(&values, &spec.shape, element).unwrap(), keep).unwrap();
        let plan = Plan::new(&layout, &all).unwrap();
        let (mut object, mut ranges, mut task) = (vec![0xEE; 13], Vec::new(), Task::default());
        let mut model = Model::full(&spec.shape, &spec.fill);
        for number in 0..plan.len() {
            plan.task(&layout, number, &mut task);
            let mut key = String::new();
            layout.locate(&task.chunk, &mut key).unwrap();
            let mut bytes = stored(&apart, &key);
            if number % 2 == 1 {
                ranges.push(None);
                continue;
            }
            // Some codecs are left out, different ones for each chunk. Bits beyond the chain mean
            // nothing.
            let chain = layout.encoding().chain();
            let skipped = u32::from(seed).wrapping_mul(number as u32 / 2) | if seed > 99 { !7 } else { 0 };
            let mut scratch = Scratch::default();
            let mut decoded = vec![0; chain.decoded_size()];
            chain.decode(&bytes, &mut decoded, &mut scratch, true).unwrap();
            chain.without_codecs(skipped).encode(&decoded, &mut bytes, &mut scratch).unwrap();
            ranges.push(Some((object.len() as u64, bytes.len() as u64, skipped)));
            object.extend_from_slice(&bytes);
            let part = inside(&spec, &task);
            let found = get(&layout, &part);
            model.write(&part, found.as_slice());
        }
        let store = MemoryStore::new();
        store.write(Key::new("packed").unwrap(), &[&object]).unwrap();
        let counts = layout.grid().counts(&spec.shape);
        let packed = spec.layout_with(Arc::new(store), Arc::new(Packed { counts, ranges }));
        let cache = ChunkCache::new(1 << 20);
        for selection in reads.iter().chain(&reads) {
            for cache in [None, Some(&cache)] {
                let found = read(&packed, selection, ReadOptions { cache, ..ReadOptions::default() }).unwrap();
                prop_assert_eq!(found.as_slice(), model.read(selection));
                explain_read_cached(&packed, selection, usize::MAX, cache).unwrap();
            }
        }
        if !all.is_empty() && plan.len() == 1 {
            let outcome = write(&packed, &all, &Source::repeat(&values[..element], &spec.shape), WriteOptions::default());
            let read_only = matches!(outcome, Err(ArrayError::ReadOnly { .. }));
            prop_assert!(read_only);
        }
    }
}

/// Each strategy is chosen where the table says, and gives the right values there.
#[test]
fn strategies_as_documented() {
    let store = MemoryStore::new();
    let all = [Index::ALL, Index::ALL];
    let check = |spec: &Spec, indices: &[Index<'_>], wanted: Strategy| {
        let layout = spec.layout(&store);
        let element = layout.dtype().size();
        let values = filled(&layout);
        let selection = select(&spec.shape, indices);
        let explained = explain_read(&layout, &selection, 100).unwrap();
        for task in &explained.tasks {
            assert_eq!(task.strategy, wanted, "{explained}");
        }
        let model = Model { shape: spec.shape.clone(), element, bytes: values };
        assert_eq!(get(&layout, &selection).as_slice(), model.read(&selection));
        explained
    };
    let spec = |codecs, order: Vec<usize>| Spec { codecs, order, ..Spec::plain(&[64, 64], &[16, 64], "<f4") };
    check(&spec(0, vec![]), &all, Strategy("read-into"));
    // Part of a chunk, one run: only its bytes.
    let explained = check(&spec(0, vec![]), &[Index::At(3)], Strategy("read-into"));
    assert_eq!(explained.tasks[0].ranges, [(3 * 256, 256)]);
    check(&spec(0, vec![1, 0]), &all, Strategy("read-rows"));
    let explained = check(&spec(0, vec![]), &[Index::ALL, Index::At(5)], Strategy("read-rows"));
    assert!(explained.bytes_read < 64 * 256);
    check(&spec(1, vec![]), &all, Strategy("decode-into"));
    check(&spec(1, vec![1, 0]), &all, Strategy("decode-scatter"));
    let explained = check(&spec(1, vec![]), &[Index::At(0)], Strategy("decode-part"));
    assert_eq!(explained.bytes_decoded, 256);
    check(&spec(1, vec![]), &[Index::At(15)], Strategy("decode-scatter"));
    check(&spec(4, vec![]), &all, Strategy("decode-scatter"));
    let backwards = Index::Slice { start: None, stop: None, step: -1 };
    check(&spec(0, vec![]), &[backwards], Strategy("read-rows"));
    // Another byte order: read in place and swapped there.
    let foreign = Spec { stored: ByteOrder::Big, ..Spec::plain(&[64, 64], &[16, 64], "<f4") };
    check(&foreign, &all, Strategy("read-into"));
    check(&foreign, &[Index::At(0)], Strategy("read-into"));
    // Long rows go straight to the output, one range each. Ranges that touch are shown as one.
    let wide = Spec::plain(&[4, 4096], &[4, 2048], "<f4");
    let explained = check(&wide, &all, Strategy("read-rows"));
    assert_eq!(explained.tasks[0].ranges, [(0, 4 * 2048 * 4)]);
    // A single chunk of this array is cut, here along its rows: each part is one row of bytes.
    let explained = check(&wide, &[Index::ALL, Index::range(0, 1100)], Strategy("read-into"));
    assert_eq!(explained.tasks[0].ranges, (0..4).map(|r| (r * 8192, 4400)).collect::<Vec<_>>());
    // Writing.
    let chosen = |spec: &Spec, indices: &[Index<'_>]| {
        let layout = spec.layout(&store);
        let selection = select(&spec.shape, indices);
        explain_write(&layout, &selection, 1).unwrap().tasks[0].strategy
    };
    assert_eq!(chosen(&spec(0, vec![]), &all), Strategy("write-from"));
    assert_eq!(chosen(&spec(1, vec![]), &all), Strategy("encode-from"));
    assert_eq!(chosen(&spec(1, vec![1, 0]), &all), Strategy("gather"));
    assert_eq!(chosen(&foreign, &all), Strategy("gather"));
    assert_eq!(chosen(&spec(0, vec![]), &[Index::At(0)]), Strategy("modify"));
    // A chunk that reaches past the end is never whole: others may have written there.
    assert_eq!(chosen(&Spec::plain(&[10], &[16], "<f4"), &[Index::ALL]), Strategy("modify"));
}

/// Chunks without some or all of the codecs are read by the strategies for the remaining codecs.
#[test]
fn codecs_left_out() {
    let spec = Spec { codecs: 5, ..Spec::plain(&[6, 20], &[1, 20], "<u2") };
    let values: Vec<u8> = (0..240).collect();
    let whole = spec.layout(&MemoryStore::new());
    let (mut object, mut ranges, mut scratch) = (vec![0xEE; 3], Vec::new(), Scratch::default());
    let masks = [0, 1, 2, 3, u32::MAX, !3];
    for (row, skipped) in values.chunks(40).zip(masks) {
        let mut stored = Vec::new();
        whole.encoding().chain().without_codecs(skipped).encode(row, &mut stored, &mut scratch).unwrap();
        ranges.push(Some((object.len() as u64, stored.len() as u64, skipped)));
        object.extend(stored);
    }
    let store = Arc::new(MemoryStore::new());
    store.write(Key::new("packed").unwrap(), &[&object]).unwrap();
    let counts: Dims = [6, 1].as_slice().into();
    let layout = spec.layout_with(store.clone(), Arc::new(Packed { counts, ranges: ranges.clone() }));
    let all = spec.all();
    let cache = ChunkCache::new(1 << 20);
    for round in 0..3 {
        let options = ReadOptions { cache: Some(&cache), threads: Some(1), ..ReadOptions::default() };
        assert_eq!(read(&layout, &all, options).unwrap().as_slice(), values);
        // Chunks without codecs are never looked up in the cache.
        assert_eq!(cache.hits_and_misses(), (round * 4, 4));
    }
    let strategies: Vec<Strategy> =
        explain_read(&layout, &all, 10).unwrap().tasks.iter().map(|task| task.strategy).collect();
    let (into, scatter, plain) = (Strategy("decode-into"), Strategy("decode-scatter"), Strategy("read-into"));
    assert_eq!(strategies, [into, scatter, into, plain, plain, into]);
    let explained = explain_read_cached(&layout, &all, 10, Some(&cache)).unwrap();
    assert_eq!(explained.strategies, [(Strategy("cached"), 4), (Strategy("read-into"), 2)]);
    // A part of a chunk without codecs is a part of its bytes. A chunk of another size is refused.
    let one = select(&spec.shape, &[Index::At(3), Index::range(5, 7)]);
    assert_eq!(explain_read(&layout, &one, 1).unwrap().tasks[0].ranges, [(ranges[3].unwrap().0 + 10, 4)]);
    ranges[3] = ranges[3].map(|(offset, len, skipped)| (offset, len - 1, skipped));
    // The same bytes under another mask are another chunk, also in the cache.
    ranges[1] = ranges[0].map(|(offset, len, _)| (offset, len, 1));
    let counts: Dims = [6, 1].as_slice().into();
    let other = spec.layout_with(store, Arc::new(Packed { counts, ranges }));
    let options = ReadOptions { cache: Some(&cache), ..ReadOptions::default() };
    assert!(matches!(read(&other, &one, options), Err(ArrayError::Store { .. })));
    let row = select(&spec.shape, &[Index::At(1)]);
    assert!(read(&other, &row, options).is_err());
}

#[test]
fn absent_chunks_cost_nothing_where_zero() {
    let store = MemoryStore::new();
    // 256 chunks of 256 KiB, one of them present.
    let spec = Spec { codecs: 1, ..Spec::plain(&[4096, 4096], &[256, 256], "<f4") };
    let layout = spec.layout(&store);
    let one = select(&spec.shape, &[Index::At(300), Index::At(700)]);
    put_repeated(&layout, &one, &[1, 2, 3, 4]);
    let all = spec.all();
    let explained = explain_read(&layout, &all, 0).unwrap();
    assert_eq!(explained.strategies, [(Strategy("decode-scatter"), 1), (Strategy("fill"), 255)]);
    let found = get(&layout, &all);
    let at = (300 * 4096 + 700) * 4;
    assert_eq!(&found.as_slice()[at..at + 4], [1, 2, 3, 4]);
    assert_eq!(found.as_slice().iter().filter(|b| **b != 0).count(), 4);
}

#[test]
fn minus_zero_and_nan_are_not_the_fill_value() {
    for (fill, value, kept) in [
        (0.0f64.to_ne_bytes(), (-0.0f64).to_ne_bytes(), true),
        ((-0.0f64).to_ne_bytes(), (0.0f64).to_ne_bytes(), true),
        ((-0.0f64).to_ne_bytes(), (-0.0f64).to_ne_bytes(), false),
        (f64::NAN.to_ne_bytes(), f64::NAN.to_ne_bytes(), false),
        (f64::NAN.to_ne_bytes(), f64::from_bits(0x7ff8_0000_0000_0001).to_ne_bytes(), true),
    ] {
        let store = MemoryStore::new();
        let spec = Spec { fill: fill.to_vec(), ..Spec::plain(&[8], &[4], "<f8") };
        let layout = spec.layout(&store);
        let all = Selection::all(&[8]);
        put_repeated(&layout, &all, &value);
        assert_eq!(store.list(None).unwrap().len(), if kept { 2 } else { 0 });
        assert_eq!(get(&layout, &all).as_slice(), value.repeat(8));
        // A stored chunk is deleted when it becomes fill value, unless that is not wanted.
        put_repeated(&layout, &all, &[9; 8]);
        assert_eq!(store.list(None).unwrap().len(), 2);
        let keep = WriteOptions { write_empty_chunks: Some(true), ..WriteOptions::default() };
        write(&layout, &all, &Source::repeat(&fill, &[8]), keep).unwrap();
        assert_eq!(store.list(None).unwrap().len(), 2);
        put_repeated(&layout, &all, &fill);
        assert_eq!(store.list(None).unwrap().len(), 0);
    }
}

#[test]
fn codec_scratch_is_shared_by_nothing() {
    // Two layouts with different chunk sizes take turns on one thread. Stale bytes of one never
    // show in the other.
    let store = MemoryStore::new();
    let _ = Scratch::default();
    let big = Spec { codecs: 1, ..Spec::plain(&[100], &[100], "<i2") };
    let small = Spec { codecs: 2, shape: vec![7], chunk: vec![5], ..big.clone() };
    let (big, small) = (
        big.layout(&store),
        small.layout_with(Arc::new(store.clone()), Arc::new(super::model::PerChunk("b"))),
    );
    for round in 0..10u8 {
        for (layout, n) in [(&big, 100u64), (&small, 7)] {
            let all = Selection::all(&[n]);
            let values: Vec<u8> = (0..n * 2).map(|i| i as u8 ^ round | 1).collect();
            put(layout, &all, &values);
            assert_eq!(get(layout, &all).as_slice(), values);
        }
    }
}
