//! Elements of variable length in generated arrays of chunks and shards.
//!
//! Compared with a list of byte strings.

use super::model::{PerChunk, Spec, get, on, put, select, stored};
use super::properties::{index, spec};
use super::shards::{Level, level, sharding};
use crate::*;
use hyperslab_codec::{Blosc, Cell, ChunkCodecs, Codec, DataType, Vlen, VlenKind};
use hyperslab_store::{Key, MemoryStore, Store};
use proptest::prelude::*;
use proptest::strategy::Strategy as Gen;
use std::sync::Arc;

#[derive(Clone, Debug)]
struct Case {
    spec: Spec,
    levels: Vec<Level>,
    kind: VlenKind,
    /// The items of the fill value.
    fill: &'static str,
    blosc: bool,
    writes: Vec<Write>,
    reads: Vec<Selection>,
}

#[derive(Clone, Debug)]
struct Write {
    selection: Selection,
    seed: usize,
    one: bool,
}

impl Case {
    /// The array of `spec`, but with elements of variable length.
    fn new(mut spec: Spec, kind: VlenKind, fill: &'static str) -> Self {
        (spec.dtype, spec.fill) = ("|V16", Cell { buffer: 0, len: 0, offset: 0 }.write().into());
        Case { spec, levels: vec![], kind, fill, blosc: false, writes: vec![], reads: vec![] }
    }

    fn fill_bytes(&self) -> Vec<u8> {
        self.fill.as_bytes().repeat(self.kind.item_size())
    }

    fn layout(&self, store: &MemoryStore) -> ArrayLayout {
        let (spec, fill) = (&self.spec, self.fill_bytes());
        let vlen = Vlen::new(self.kind, fill.into());
        let cell = FillValue::new(&vlen.fill_cell().write());
        let mut codecs: Vec<Arc<dyn Codec>> = Vec::new();
        if self.blosc {
            codecs.push(Arc::new(Blosc::from_v3(None, 1).unwrap()));
        }
        codecs.extend(spec.codec_list());
        let dtype = DataType::CELL;
        let order = spec.order.clone();
        let codecs = ChunkCodecs { order, stored: dtype.order(), vlen: Some(vlen), codecs };
        let encoding = ChunkEncoding::of(&spec.chunk, dtype, &codecs).unwrap();
        let (grid, shape) = (ChunkGrid::regular(spec.chunk.as_slice().into()).unwrap(), &spec.shape);
        let (locator, store) = (Arc::new(PerChunk("a")), Arc::new(store.clone()));
        let shape: Dims = shape.as_slice().into();
        let layout = ArrayLayout::new("test", shape, dtype, grid, encoding, cell, locator, store).unwrap();
        match self.levels.as_slice() {
            [] => layout,
            levels => layout.with_sharding(sharding(spec, levels)).unwrap(),
        }
    }

    /// Values that look different in each request: some empty, some like the fill value.
    fn values(&self, count: usize, seed: usize) -> Vec<Vec<u8>> {
        let size = self.kind.item_size();
        let value = |n: usize| match (n * 7 + seed) % 5 {
            _ if seed.is_multiple_of(4) => self.fill_bytes(),
            0 => Vec::new(),
            1 => self.fill_bytes(),
            len => ["a", "ö", "xy", "…z"][(n + seed) % 4].repeat(len + n % 3).into_bytes().repeat(size),
        };
        (0..count).map(value).collect()
    }
}

fn ragged(shape: &[u64], values: &[Vec<u8>], item: usize) -> Arc<Ragged> {
    let mut offsets = vec![0];
    for value in values {
        offsets.push(offsets.last().unwrap() + (value.len() / item) as i64);
    }
    let bytes = values.concat();
    let mut memory = Memory::dirty(bytes.len()).unwrap();
    memory.as_mut_slice().copy_from_slice(&bytes);
    Arc::new(Ragged { shape: shape.into(), offsets, values: memory, validity: None })
}

/// Packs the same values, one by one.
fn pack(layout: &ArrayLayout, shape: &[u64], values: &[Vec<u8>]) -> Result<Packed, ArrayError> {
    Packed::take(layout, shape, &|range, piece| {
        for value in &values[range] {
            let mut short = [b'?'; 16];
            match short.get_mut(..value.len()) {
                Some(front) => {
                    front.copy_from_slice(value);
                    piece.push_short(&short, value.len());
                }
                None => piece.push(value),
            }
        }
        Ok(())
    })
}

fn list(ragged: &Ragged, item: usize) -> Vec<Vec<u8>> {
    assert_eq!(ragged.offsets.len() as u64, ragged.shape.iter().product::<u64>() + 1);
    assert_eq!(*ragged.offsets.last().unwrap() as usize * item, ragged.values.len());
    let place = |at: i64| at as usize * item;
    let pairs = ragged.offsets.windows(2);
    pairs.map(|pair| ragged.values.as_slice()[place(pair[0])..place(pair[1])].to_vec()).collect()
}

/// The numbers of the elements that a selection names, as the engine finds them in an array that
/// holds these numbers.
fn places(spec: &Spec, selection: &Selection) -> Vec<usize> {
    let plain = Spec { codecs: 0, order: vec![], ..Spec::plain(&spec.shape, &spec.chunk, "<u8") };
    let layout = plain.layout(&MemoryStore::new());
    let all = spec.all();
    let numbers: Vec<u8> = (0..spec.shape.iter().product::<u64>()).flat_map(u64::to_le_bytes).collect();
    put(&layout, &all, &numbers);
    let found = get(&layout, selection);
    found.as_slice().chunks(8).map(|number| u64::from_le_bytes(number.try_into().unwrap()) as usize).collect()
}

/// Slices and integers, lists along each axis, or a mask.
fn selection(shape: Vec<u64>) -> impl Gen<Value = Selection> {
    let count = shape.iter().product::<u64>() as usize;
    let ranges: Vec<_> = shape.iter().map(|len| index(*len)).collect();
    let lists: Vec<_> = shape
        .iter()
        .map(|len| prop::collection::vec(0..(*len as i64).max(1), if *len == 0 { 0..1 } else { 0..6 }))
        .collect();
    let mask = prop::collection::vec(any::<bool>(), count);
    (ranges, lists, mask, 0usize..4).prop_map(move |(ranges, lists, mask, form)| match form {
        2 => {
            let lists: Vec<Index<'_>> = lists.iter().map(|list| Index::List(list)).collect();
            select(&shape, &lists)
        }
        3 if !shape.is_empty() => Selection::mask("test", &shape, &mask).unwrap(),
        _ => select(&shape, &ranges),
    })
}

fn case() -> impl Gen<Value = Case> {
    let levels = prop_oneof![2 => Just(vec![]), 2 => prop::collection::vec(level(), 1), 1 => prop::collection::vec(level(), 2)];
    let kind =
        prop::sample::select(vec![VlenKind::Text, VlenKind::Bytes, VlenKind::Array("<i2".parse().unwrap())]);
    (spec(), levels, kind, prop::sample::select(vec!["", "xy"]), any::<bool>()).prop_flat_map(
        |(spec, levels, kind, fill, blosc)| {
            let write = (selection(spec.shape.clone()), 0usize..100, prop::bool::weighted(0.2))
                .prop_map(|(selection, seed, one)| Write { selection, seed, one });
            let writes = prop::collection::vec(write, 0..4);
            let reads = prop::collection::vec(selection(spec.shape.clone()), 1..4);
            // Shards need an axis.
            let levels = if spec.shape.is_empty() { vec![] } else { levels };
            let case = Case { levels, blosc, ..Case::new(spec, kind, fill) };
            (Just(case), writes, reads).prop_map(|(case, writes, reads)| Case { writes, reads, ..case })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_engine_is_a_list_of_byte_strings(case in case(), threads in 1usize..4) {
        let (store, item) = (MemoryStore::new(), case.kind.item_size());
        let layout = case.layout(&store);
        let mut model = vec![case.fill_bytes(); case.spec.shape.iter().product::<u64>() as usize];
        for Write { selection, seed, one } in &case.writes {
            let (shape, places) = (selection.shape(), places(&case.spec, selection));
            let values = if *one { case.values(1, *seed) } else { case.values(places.len(), *seed) };
            let source = if *one { ragged(&[], &values, item) } else { ragged(&shape, &values, item) };
            let options = WriteOptions { threads: Some(threads), ..WriteOptions::default() };
            match seed % 3 {
                0 => write_packed(&layout, selection, &pack(&layout, &source.shape, &values).unwrap(), options).unwrap(),
                _ => write_ragged(&layout, selection, &source, options).unwrap(),
            }
            for (n, place) in places.into_iter().enumerate() {
                model[place].clone_from(&values[if *one { 0 } else { n }]);
            }
        }
        // Arrays that hold only fill value store nothing.
        if model.iter().all(|value| *value == case.fill_bytes()) {
            prop_assert_eq!(store.list(None).unwrap().len(), 0);
        }
        for selection in case.reads.iter().chain([&case.spec.all()]) {
            let found = read_ragged(&layout, selection, on(threads)).unwrap();
            prop_assert_eq!(&found.shape, &selection.shape());
            let wanted: Vec<Vec<u8>> =
                places(&case.spec, selection).into_iter().map(|place| model[place].clone()).collect();
            prop_assert_eq!(list(&found, item), wanted);
        }
    }
}

/// An array of one axis.
fn line(len: u64, chunk: u64, codecs: u8) -> Case {
    Case::new(Spec { codecs, ..Spec::plain(&[len], &[chunk], "|V16") }, VlenKind::Text, "")
}

fn write_all(case: &Case, layout: &ArrayLayout, values: &[Vec<u8>]) {
    let values = ragged(&case.spec.shape, values, case.kind.item_size());
    write_ragged(layout, &case.spec.all(), &values, WriteOptions::default()).unwrap();
}

#[test]
fn many_batches() {
    for (codecs, chunk) in [(0, 1000), (1, 1000), (1, 70_000), (1, 400_000)] {
        let case = line(300_000, chunk, codecs);
        let layout = case.layout(&MemoryStore::new());
        let values: Vec<Vec<u8>> = (0..300_000usize)
            .map(|n| format!("{n}").repeat(n % 4 + usize::from(n % 5000 == 0) * 20_000).into_bytes())
            .collect();
        write_all(&case, &layout, &values);
        for threads in [1, 3] {
            let found = read_ragged(&layout, &Selection::all(&[300_000]), on(threads)).unwrap();
            assert!(list(&found, 1) == values);
            let every = [Index::Slice { start: None, stop: None, step: -7 }];
            let found = read_ragged(&layout, &select(&[300_000], &every), on(threads)).unwrap();
            assert!(list(&found, 1).iter().eq(values.iter().rev().step_by(7)));
        }
    }
}

#[test]
fn whole_chunks_are_written_without_reading_the_old_ones() {
    for levels in [vec![], vec![Level::simple(&[2])]] {
        let case = Case { levels, ..line(40, 10, 1) };
        let store = MemoryStore::new();
        let layout = case.layout(&store);
        let values = case.values(40, 1);
        write_all(&case, &layout, &values);
        for key in store.list(None).unwrap() {
            store.write(Key::new(&key).unwrap(), &[b"damaged"]).unwrap();
        }
        assert!(read_ragged(&layout, &Selection::all(&[40]), ReadOptions::default()).is_err());
        let part = select(&[40], &[Index::range(5, 40)]);
        let source = ragged(&[35], &values[5..], 1);
        assert!(write_ragged(&layout, &part, &source, WriteOptions::default()).is_err());
        write_all(&case, &layout, &values);
        let found = read_ragged(&layout, &Selection::all(&[40]), ReadOptions::default()).unwrap();
        assert_eq!(list(&found, 1), values);
    }
}

#[test]
fn damaged_chunks_are_errors_or_other_values() {
    for codecs in 0..8 {
        for fill in ["", "xy"] {
            let case = Case { fill, ..line(8, 8, codecs) };
            let store = MemoryStore::new();
            let layout = case.layout(&store);
            write_all(&case, &layout, &case.values(8, 1));
            let key = Key::new("a/0").unwrap();
            let mut stored = stored(&store, "a/0");
            let read = || read_ragged(&layout, &Selection::all(&[8]), ReadOptions::default());
            for at in 0..stored.len() {
                store.write(key, &[&stored[..at]]).unwrap();
                assert!(read().is_err(), "cut to {at}");
                for flip in [1, 0x80, 0xff] {
                    stored[at] ^= flip;
                    store.write(key, &[&stored]).unwrap();
                    if let Ok(found) = read() {
                        assert!(list(&found, 1).iter().all(|text| std::str::from_utf8(text).is_ok()));
                    }
                    stored[at] ^= flip;
                }
            }
            store.write(key, &[&stored, b"\x55"]).unwrap();
            assert!(read().is_err(), "a byte behind the end");
        }
    }
}

#[test]
fn only_as_what_they_are() {
    let case = line(10, 5, 1);
    let layout = case.layout(&MemoryStore::new());
    write_all(&case, &layout, &case.values(10, 1));
    let all = Selection::all(&[10]);
    let error = read(&layout, &all, ReadOptions::default()).unwrap_err().to_string();
    assert!(
        error.contains("chunk [0], key 'a/0': vlen-utf8: elements of variable length are read with"),
        "{error}"
    );
    let cells = [0; 160];
    let source = Source::dense(&cells, &[10], 16).unwrap();
    let keep = WriteOptions { write_empty_chunks: Some(true), ..WriteOptions::default() };
    assert!(write(&layout, &all, &source, keep).is_err());
    let numbers = Spec::plain(&[10], &[5], "<u2").layout(&MemoryStore::new());
    for error in [
        read_ragged(&numbers, &all, ReadOptions::default()).unwrap_err(),
        write_ragged(&numbers, &all, &ragged(&[], &[vec![]], 1), WriteOptions::default()).unwrap_err(),
    ] {
        assert!(error.to_string().contains("its elements (<u2) are of one size"), "{error}");
    }
}

#[test]
fn values_that_cannot_be_written() {
    let case = line(3, 3, 0);
    let store = MemoryStore::new();
    let layout = case.layout(&store);
    let all = Selection::all(&[3]);
    let write = |ragged: Ragged| write_ragged(&layout, &all, &Arc::new(ragged), WriteOptions::default());
    let made = |shape: &[u64], offsets: &[i64], bytes: &[u8], validity: Option<&[bool]>| {
        let mut values = Memory::dirty(bytes.len()).unwrap();
        values.as_mut_slice().copy_from_slice(bytes);
        Ragged {
            shape: shape.into(),
            offsets: offsets.into(),
            values,
            validity: validity.map(<[bool]>::to_vec),
        }
    };
    let message = |ragged| write(ragged).unwrap_err().to_string();
    assert!(
        message(made(&[3], &[0, 1, 2], b"abc", None)).contains("3 offsets do not make values of shape [3]")
    );
    assert!(message(made(&[3], &[], b"abc", None)).contains("0 offsets"));
    assert!(message(made(&[2], &[0, 1, 2], b"abc", None)).contains("has shape [3], the array given has [2]"));
    assert!(message(made(&[3], &[0, 1, 2, 4], b"abc", None)).contains("offset 3 (4) is outside the 3 bytes"));
    assert!(message(made(&[3], &[-1, 1, 2, 3], b"abc", None)).contains("offset 0 (-1)"));
    assert!(message(made(&[3], &[0, 2, 1, 3], b"abc", None)).contains("value 1 ends before it begins"));
    assert!(message(made(&[3], &[0, i64::MAX, 1, 3], b"abc", None)).contains("offset 1"));
    assert!(message(made(&[3], &[0, 1, 2, 3], b"abc", Some(&[true]))).contains("there are 3 values"));
    assert!(message(made(&[3], &[0, 1, 2, 3], b"a\xffc", None)).contains("value 1 is not text in UTF-8"));
    assert!(message(made(&[3], &[0, 1, 2, 3], "aö".as_bytes(), None)).contains("value 1 is not text"));
    assert_eq!(store.list(None).unwrap().len(), 0);
    // A null may hold any bytes, and is read as empty. Offsets need not begin at 0.
    write(made(&[3], &[1, 2, 3, 4], b"?a\xffc", Some(&[true, false, true]))).unwrap();
    let found = read_ragged(&layout, &all, ReadOptions::default()).unwrap();
    assert_eq!(list(&found, 1), [&b"a"[..], b"", b"c"]);
    write(made(&[1, 1], &[0, 2], "ö".as_bytes(), None)).unwrap();
    assert_eq!(list(&read_ragged(&layout, &all, ReadOptions::default()).unwrap(), 1), ["ö".as_bytes(); 3]);
}

#[test]
fn values_that_cannot_be_packed() {
    let layout = line(3, 3, 0).layout(&MemoryStore::new());
    let message = |values: &[&[u8]]| {
        let packed = Packed::take(&layout, &[3], &|_, piece| {
            values.iter().for_each(|value| piece.push(value));
            Ok::<_, ArrayError>(())
        });
        packed.unwrap_err().to_string()
    };
    assert!(message(&[b"a", b"b"]).contains("2 values where 3 are expected"));
    assert!(message(&[b"a".as_slice(); 5]).contains("5 values where 3 are expected"));
    assert!(message(&[b"a", b"\xff", b"c"]).contains("not text in UTF-8"));
    // Two values that are text only together.
    assert!(
        message(&["ö".as_bytes().split_at(1).0, "ö".as_bytes().split_at(1).1, b"c"]).contains("not text")
    );
    let values = [vec![b'a'; 3 << 20], "ö".repeat(1 << 20).into_bytes(), vec![]];
    let packed = pack(&layout, &[3], &values).unwrap();
    let all = Selection::all(&[3]);
    write_packed(&layout, &all, &packed, WriteOptions::default()).unwrap();
    assert_eq!(list(&read_ragged(&layout, &all, ReadOptions::default()).unwrap(), 1), values);
    // Values for another shape.
    let two = pack(&layout, &[2], &values[..2]).unwrap();
    assert!(write_packed(&layout, &all, &two, WriteOptions::default()).is_err());
    let numbers = Spec::plain(&[10], &[5], "<u2").layout(&MemoryStore::new());
    assert!(pack(&numbers, &[3], &values).unwrap_err().to_string().contains("are of one size"));
}

#[test]
fn a_caller_may_stop_it() {
    let case = line(1000, 10, 0);
    let layout = case.layout(&MemoryStore::new());
    let values = case.values(1000, 1);
    write_all(&case, &layout, &values);
    let stop = || true;
    let options = ReadOptions { interrupt: Some(&stop), ..ReadOptions::default() };
    let stopped = read_ragged(&layout, &Selection::all(&[1000]), options);
    assert!(matches!(stopped, Err(ArrayError::Interrupted { .. })));
    // A cache is not used: it would keep cells of another heap.
    let cache = ChunkCache::new(1 << 20);
    let options = ReadOptions { cache: Some(&cache), fortran: true, ..ReadOptions::default() };
    for _ in 0..2 {
        let found = read_ragged(&layout, &Selection::all(&[1000]), options).unwrap();
        assert!(list(&found, 1) == values);
    }
}
