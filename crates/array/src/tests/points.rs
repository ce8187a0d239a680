//! Lists, masks and coordinates: generated requests on generated arrays, with and without shards.

use super::counting::Counting;
use super::model::{Model, PerChunk, Spec, elements, filled, get, numbers, put, select};
use super::properties::{check_elision, index, spec, values};
use super::shards::{Level, layout as sharded, level};
use crate::plan::strategy::Strategy;
use crate::*;
use hyperslab_store::MemoryStore;
use proptest::prelude::*;
use proptest::strategy::Strategy as Gen;
use std::sync::Arc;

/// A request, and the numbers of the elements that it must find, in the order of the result.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) selection: Selection,
    pub(crate) shape: Vec<u64>,
    pub(crate) places: Vec<u64>,
}

/// One item of an index, owned.
#[derive(Clone, Debug)]
enum Item {
    Plain(Index<'static>),
    List(Vec<i64>),
    Mask(Vec<bool>),
}

impl Item {
    fn index(&self) -> Index<'_> {
        match self {
            Item::Plain(index) => *index,
            Item::List(list) => Index::List(list),
            Item::Mask(mask) => Index::Mask(mask),
        }
    }

    /// The indices that it selects on an axis.
    fn resolved(&self, len: u64) -> Vec<u64> {
        match self {
            Item::Plain(index) => {
                let selection = select(&[len], &[*index]);
                let axis = selection.axes()[0];
                (0..axis.len as i128).map(|k| (axis.first as i128 + k * axis.step as i128) as u64).collect()
            }
            Item::List(list) => {
                list.iter().map(|at| if *at < 0 { (*at + len as i64) as u64 } else { *at as u64 }).collect()
            }
            Item::Mask(mask) => (0..len).filter(|k| mask[*k as usize]).collect(),
        }
    }

    fn is_at(&self) -> bool {
        matches!(self, Item::Plain(Index::At(_)))
    }
}

/// A part of the result: for each of its elements, indices on some axes.
type Factor = Vec<Vec<(usize, u64)>>;

/// The numbers of the elements that factors name, in C order. `fixed` has the indices on all other
/// axes.
fn places(shape: &[u64], factors: &[Factor], fixed: &[(usize, u64)]) -> Vec<u64> {
    let stride = |axis: usize| shape[axis + 1..].iter().product::<u64>();
    let number = |at: &[(usize, u64)]| at.iter().map(|(axis, index)| index * stride(*axis)).sum::<u64>();
    let mut places = vec![number(fixed)];
    for factor in factors {
        places = places.iter().flat_map(|head| factor.iter().map(move |at| head + number(at))).collect();
    }
    places
}

fn list(len: u64, count: usize) -> impl Gen<Value = Vec<i64>> {
    let n = len as i64;
    let any = prop::collection::vec(-n.max(1)..n.max(1), if n == 0 { 0 } else { count });
    (any, any_order()).prop_map(|(mut list, order)| {
        match order {
            0 => list.sort_unstable(),
            1 => {
                list.sort_unstable();
                list.dedup();
            }
            _ => {}
        }
        list
    })
}

fn any_order() -> impl Gen<Value = u8> {
    0u8..4
}

fn mask(len: usize) -> impl Gen<Value = Vec<bool>> {
    (0.0f64..1.0, 1usize..9).prop_flat_map(move |(weight, run)| {
        let runs = prop::collection::vec(prop::bool::weighted(weight), len / run + 1);
        runs.prop_map(move |runs| (0..len).map(|k| runs[k / run]).collect())
    })
}

fn orthogonal(shape: Vec<u64>) -> impl Gen<Value = Chosen> {
    let items: Vec<_> = shape
        .iter()
        .map(|len| {
            let len = *len;
            prop_oneof![
                2 => index(len).prop_map(Item::Plain),
                3 => (0usize..12).prop_flat_map(move |count| list(len, count)).prop_map(Item::List),
                2 => mask(len as usize).prop_map(Item::Mask),
            ]
        })
        .collect();
    items.prop_map(move |items| {
        let indices: Vec<Index<'_>> = items.iter().map(Item::index).collect();
        let selection = select(&shape, &indices);
        let (mut factors, mut fixed) = (Vec::new(), Vec::new());
        for (axis, item) in items.iter().enumerate() {
            let all: Factor = item.resolved(shape[axis]).into_iter().map(|at| vec![(axis, at)]).collect();
            if item.is_at() { fixed.extend(all[0].clone()) } else { factors.push(all) }
        }
        let places = places(&shape, &factors, &fixed);
        Chosen { selection, shape: factors.iter().map(|all| all.len() as u64).collect(), places }
    })
}

fn pointwise(shape: Vec<u64>) -> impl Gen<Value = Chosen> {
    let dims = prop_oneof![
        3 => prop::collection::vec(0u64..14, 1..2),
        1 => prop::collection::vec(1u64..5, 2..3),
        1 => Just(vec![]),
    ];
    dims.prop_flat_map(move |dims| {
        let dims = if shape.contains(&0) { vec![0] } else { dims };
        let count = dims.iter().product::<u64>() as usize;
        let items: Vec<_> = shape
            .iter()
            .map(|len| {
                let n = (*len as i64).max(1);
                let list = prop::collection::vec(-n..n, count).prop_map(Item::List);
                prop_oneof![index(*len).prop_map(Item::Plain), list.clone(), list]
            })
            .collect();
        let shape = shape.clone();
        (Just(dims), items, 0..shape.len()).prop_map(move |(dims, mut items, must)| {
            if !items.iter().any(|item| matches!(item, Item::List(_))) {
                items[must] = Item::List(vec![0; dims.iter().product::<u64>() as usize]);
            }
            let indices: Vec<Index<'_>> = items.iter().map(Item::index).collect();
            let selection = Selection::pointwise("test", &shape, &indices, &dims).unwrap();
            let (mut factors, mut fixed, mut lens) = (Vec::new(), Vec::new(), Vec::new());
            let mut points: Factor = vec![Vec::new(); dims.iter().product::<u64>() as usize];
            // The position of the points in the result: NumPy's rule, from its description.
            let advanced: Vec<usize> = (0..items.len())
                .filter(|k| items[*k].is_at() || matches!(items[*k], Item::List(_)))
                .collect();
            let together = advanced.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            for (axis, item) in items.iter().enumerate() {
                let all = item.resolved(shape[axis]);
                if together && advanced.first() == Some(&axis) || axis == 0 && !together {
                    lens.extend(dims.iter().copied());
                    factors.push(Factor::new());
                }
                match item {
                    Item::List(_) => {
                        all.iter().zip(&mut points).for_each(|(at, point)| point.push((axis, *at)))
                    }
                    item if item.is_at() => fixed.push((axis, all[0])),
                    _ => {
                        lens.push(all.len() as u64);
                        factors.push(all.iter().map(|at| vec![(axis, *at)]).collect());
                    }
                }
            }
            let at = if together { advanced[0] } else { 0 };
            *factors.get_mut(at).unwrap() = points;
            Chosen { selection, shape: lens, places: places(&shape, &factors, &fixed) }
        })
    })
}

fn masked(shape: Vec<u64>) -> impl Gen<Value = Chosen> {
    mask(shape.iter().product::<u64>() as usize).prop_map(move |mask| {
        let selection = Selection::mask("test", &shape, &mask).unwrap();
        let places: Vec<u64> = (0..mask.len()).filter(|k| mask[*k]).map(|k| k as u64).collect();
        Chosen { selection, shape: vec![places.len() as u64], places }
    })
}

pub(crate) fn chosen(shape: Vec<u64>) -> impl Gen<Value = Chosen> {
    if shape.is_empty() {
        return orthogonal(shape).boxed();
    }
    prop_oneof![2 => orthogonal(shape.clone()), 2 => pointwise(shape.clone()), 1 => masked(shape)].boxed()
}

fn case() -> impl Gen<Value = (Spec, Vec<(Chosen, bool, u8)>, Vec<Chosen>)> {
    spec().prop_flat_map(|spec| {
        let write = (chosen(spec.shape.clone()), any::<bool>(), any::<u8>());
        let writes = prop::collection::vec(write, 0..4);
        let reads = prop::collection::vec(chosen(spec.shape.clone()), 1..4);
        (Just(spec), writes, reads)
    })
}

/// Strides of memory with the first axis fastest and with gaps; and the size of that memory.
pub(super) fn odd(shape: &[u64], element: usize) -> (Strides, usize) {
    let mut strides = Strides::new();
    let mut size = element as isize;
    for len in shape {
        strides.push(size);
        size *= *len as isize + 1;
    }
    (strides, size.max(0) as usize + element)
}

/// The offset of each element of `shape`, in C order, in memory with these strides.
pub(super) fn offsets(shape: &[u64], strides: &[isize]) -> Vec<usize> {
    let mut offsets = vec![0usize];
    for (len, stride) in shape.iter().zip(strides) {
        offsets = offsets
            .iter()
            .flat_map(|head| (0..*len as usize).map(move |n| head + n * *stride as usize))
            .collect();
    }
    offsets
}

fn check_writes(
    layout: &ArrayLayout,
    model: &mut Model,
    fill: &[u8],
    writes: &[(Chosen, bool, u8)],
    threads: usize,
) {
    let element = layout.dtype().size();
    let options = WriteOptions { threads: Some(threads), ..WriteOptions::default() };
    for (chosen, other, seed) in writes {
        let Chosen { selection, shape, places } = chosen;
        assert_eq!(selection.shape().as_slice(), shape.as_slice());
        let given = values(selection, element, *seed, fill);
        if *other {
            // From memory of another order.
            let (strides, size) = odd(shape, element);
            let mut memory = vec![0xA5; size];
            for (offset, value) in offsets(shape, &strides).iter().zip(given.chunks(element)) {
                memory[*offset..offset + element].copy_from_slice(value);
            }
            // SAFETY: the memory was made for these strides.
            let source = unsafe { Source::from_raw(memory.as_ptr(), shape, &strides) };
            write(layout, selection, &source, options).unwrap();
        } else {
            write(layout, selection, &Source::dense(&given, shape, element).unwrap(), options).unwrap();
        }
        model.write_at(places, &given);
    }
}

fn check_reads(layout: &ArrayLayout, model: &Model, reads: &[Chosen], options: ReadOptions<'_>) {
    let element = layout.dtype().size();
    for Chosen { selection, shape, places } in reads {
        let wanted = model.read_at(places);
        assert_eq!(selection.shape().as_slice(), shape.as_slice());
        assert_eq!(read(layout, selection, options).unwrap().as_slice(), wanted.as_slice(), "{selection:?}");
        let dense = Model { shape: shape.clone(), element, bytes: wanted.clone() };
        let turned = read(layout, selection, ReadOptions { fortran: true, ..options }).unwrap();
        assert_eq!(turned.as_slice(), dense.transposed().as_slice());
        let (strides, size) = odd(shape, element);
        let mut memory = vec![0xA5u8; size];
        // SAFETY: the memory was made for these strides.
        let mut target = unsafe { Target::from_raw(memory.as_mut_ptr(), shape, &strides) };
        read_into(layout, selection, &mut target, options).unwrap();
        for (offset, value) in offsets(shape, &strides).iter().zip(wanted.chunks(element)) {
            assert_eq!(&memory[*offset..offset + element], value);
        }
        let explained = explain_read(layout, selection, usize::MAX).unwrap();
        assert_eq!(elements(&explained), shape.iter().product::<u64>());
        let mut chunks: Vec<&[u64]> = explained.tasks.iter().map(|task| task.chunk.as_slice()).collect();
        chunks.sort_unstable();
        chunks.dedup();
        assert_eq!(chunks.len(), explained.tasks.len(), "a chunk is touched once");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn engine_is_the_definition((spec, writes, reads) in case(), threads in 1usize..4) {
        let store = MemoryStore::new();
        let layout = spec.layout(&store);
        let mut model = Model::full(&spec.shape, &spec.fill);
        check_writes(&layout, &mut model, &spec.fill, &writes, threads);
        check_elision(&spec, &layout, &store, &model);
        let options = ReadOptions { threads: Some(threads), ..ReadOptions::default() };
        let all = Chosen {
            selection: spec.all(),
            shape: spec.shape.clone(),
            places: (0..spec.shape.iter().product()).collect(),
        };
        check_reads(&layout, &model, &[all], options);
        check_reads(&layout, &model, &reads, options);
        let cache = ChunkCache::new(1 << 20);
        for _ in 0..2 {
            check_reads(&layout, &model, &reads, ReadOptions { cache: Some(&cache), ..options });
        }
    }

    #[test]
    fn and_in_shards(
        (spec, writes, reads) in case(),
        levels in prop::collection::vec(level(), 1..3),
        threads in 1usize..4,
    ) {
        let layout = sharded(&spec, &levels, Arc::new(MemoryStore::new()));
        let mut model = Model::full(&spec.shape, &spec.fill);
        check_writes(&layout, &mut model, &spec.fill, &writes, threads);
        let options = ReadOptions { threads: Some(threads), ..ReadOptions::default() };
        check_reads(&layout, &model, &reads, options);
        let all = spec.all();
        let found = read(&layout, &all, options).unwrap();
        prop_assert_eq!(found.as_slice(), model.bytes.as_slice());
        let cache = ChunkCache::new(1 << 20);
        for _ in 0..2 {
            check_reads(&layout, &model, &reads, ReadOptions { cache: Some(&cache), ..options });
        }
    }
}

fn at(values: &[u8], index: usize) -> [u8; 4] {
    values[index * 4..][..4].try_into().unwrap()
}

/// Each chunk is read once. In plain chunks, only the wanted bytes are read.
#[test]
fn only_what_is_wanted_is_read() {
    let memory = MemoryStore::new();
    let spec = Spec::plain(&[8, 100_000], &[4, 50_000], "<u4");
    let values = filled(&spec.layout(&memory));
    let counting = Arc::new(Counting::new(&memory, true));
    let layout = spec.layout_with(counting.clone(), Arc::new(PerChunk("a")));
    let points: [&[i64]; 2] = [&[0, 3, 0, 7, 0], &[5, 49_999, 6, 99_999, 40_000]];
    let lists = [Index::List(points[0]), Index::List(points[1])];
    let selection = Selection::pointwise("a", &spec.shape, &lists, &[5]).unwrap();
    let found = get(&layout, &selection);
    for (n, element) in found.as_slice().as_chunks::<4>().0.iter().enumerate() {
        assert_eq!(*element, at(&values, (points[0][n] * 100_000 + points[1][n]) as usize));
    }
    // Elements 5 and 6 are adjacent, the other two of that chunk are apart. The other chunk has
    // one.
    let [opens, _, bytes] = counting.counts();
    assert_eq!((opens, bytes), (2, 8 + 4 + 4 + 4));
    let explained = explain_read(&layout, &selection, 10).unwrap();
    assert_eq!(explained.tasks[0].ranges, [(20, 8), (160_000, 4), (3 * 200_000 + 199_996, 4)]);
    assert_eq!((explained.tasks[0].strategy, explained.tasks[0].elements), (Strategy("read-rows"), 4));
    // One point in a chunk, or a row of points, is a request like one for a slice.
    assert_eq!((explained.tasks[1].strategy, explained.bytes_read), (Strategy("read-into"), 20));
    // Long rows are read straight to their places.
    let rows = select(&spec.shape, &[Index::List(&[0, 3, 2]), Index::range(0, 50_000)]);
    let explained = explain_read(&layout, &rows, 10).unwrap();
    assert_eq!(explained.tasks[0].ranges.iter().map(|(_, len)| len).sum::<u64>(), 600_000);
    // Columns that lie close together are read along with the bytes between them.
    let columns = [Index::range(1, 3), Index::List(&[1, 2, 300])];
    let columns = select(&spec.shape, &columns);
    let explained = explain_read(&layout, &columns, 10).unwrap();
    assert_eq!(explained.tasks[0].ranges, [1, 2].map(|row| (row * 200_000 + 4, 1200)));
}

/// Large plain chunks whose steps are longer than the cost of a range.
///
/// Rows are read straight to the output, axes are walked, and there are many windows.
#[test]
fn large_plain_chunks() {
    for (stored, order) in [
        (hyperslab_codec::ByteOrder::NATIVE, vec![]),
        (hyperslab_codec::ByteOrder::Big, vec![]),
        (hyperslab_codec::ByteOrder::NATIVE, vec![2, 0, 1]),
    ] {
        let spec = Spec { stored, order, ..Spec::plain(&[5, 60, 1500], &[5, 40, 1100], "<u4") };
        let layout = spec.layout(&MemoryStore::new());
        let values = filled(&layout);
        let model = Model { shape: spec.shape.clone(), element: 4, bytes: values };
        let lists: [&[i64]; 3] =
            [&[0, 3, 2, 3], &[1, 50, 39, 40, 2, 2], &[7, 1099, 1100, 0, 1, 2, 1499, 900]];
        for which in 1..8 {
            let items = [0, 1, 2].map(|k| match which >> k & 1 {
                1 => Item::List(lists[k].to_vec()),
                _ => Item::Plain(Index::ALL),
            });
            let indices = [items[0].index(), items[1].index(), items[2].index()];
            let selection = select(&spec.shape, &indices);
            let factors: Vec<Factor> = (items.iter().enumerate())
                .map(|(k, item)| item.resolved(spec.shape[k]).into_iter().map(|at| vec![(k, at)]).collect())
                .collect();
            let shape = factors.iter().map(|all| all.len() as u64).collect();
            let chosen = Chosen { selection, shape, places: places(&spec.shape, &factors, &[]) };
            check_reads(&layout, &model, &[chosen], ReadOptions::default());
        }
    }
}

#[test]
fn one_open_for_each_shard() {
    let memory = MemoryStore::new();
    for codecs in [0, 1] {
        let spec = Spec { codecs, ..Spec::plain(&[64, 64], &[4, 4], "<u4") };
        let levels = [Level::simple(&[4, 4])];
        let values = filled(&sharded(&spec, &levels, Arc::new(memory.clone())));
        let counting = Arc::new(Counting::new(&memory, true));
        let layout = sharded(&spec, &levels, counting.clone());
        // Three shards, four chunks of the first one, in no order.
        let (rows, columns): (&[i64], &[i64]) = (&[0, 40, 1, 15, 0, 63, 5, 0], &[0, 40, 1, 15, 15, 0, 5, 0]);
        let lists = [Index::List(rows), Index::List(columns)];
        let selection = Selection::pointwise("a", &spec.shape, &lists, &[8]).unwrap();
        let found = get(&layout, &selection);
        for (n, element) in found.as_slice().as_chunks::<4>().0.iter().enumerate() {
            assert_eq!(*element, at(&values, (rows[n] * 64 + columns[n]) as usize));
        }
        assert_eq!(counting.counts()[0], 3);
        let explained = explain_read(&layout, &selection, 10).unwrap();
        assert_eq!((explained.chunks, explained.objects), (6, 3));
    }
}

/// A whole chunk is written without being read. A chunk that is written in part is read.
#[test]
fn whole_chunks_are_known() {
    let memory = MemoryStore::new();
    let spec = Spec { codecs: 1, ..Spec::plain(&[8, 6], &[4, 6], "<u4") };
    let layout = spec.layout(&memory);
    let by_selection = |selection: &Selection| {
        let explained = explain_write(&layout, selection, 9).unwrap();
        explained.tasks.iter().map(|task| task.strategy).collect::<Vec<_>>()
    };
    let explained = |indices: &[Index<'_>]| by_selection(&select(&spec.shape, indices));
    let (gather, modify) = (Strategy("gather"), Strategy("modify"));
    assert_eq!(explained(&[Index::List(&[2, 0, 1, 3])]), [gather]);
    assert_eq!(explained(&[Index::List(&[2, 0, 1, 3]), Index::range(0, 5)]), [modify]);
    assert_eq!(explained(&[Index::List(&[2, 0, 1, 3, 7])]), [gather, modify]);
    assert_eq!(explained(&[Index::List(&[2, 0, 1, 0])]), [modify]);
    let mut mask = vec![true; 48];
    let chosen = |mask: &[bool]| by_selection(&Selection::mask("a", &spec.shape, mask).unwrap());
    assert_eq!(chosen(&mask), [Strategy("encode-from"), Strategy("encode-from")]);
    mask[3] = false;
    assert_eq!(chosen(&mask), [modify, Strategy("encode-from")]);
}

#[test]
fn what_is_written_last_stays() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[10], &[8], "<u4") };
    let layout = spec.layout(&MemoryStore::new());
    let list = [6, 5, 6, 7, 9, 5, 9];
    let selection = select(&spec.shape, &[Index::List(&list)]);
    let values: Vec<u8> = (1u32..8).flat_map(u32::to_ne_bytes).collect();
    put(&layout, &selection, &values);
    let found = get(&layout, &spec.all());
    let found = numbers(&found);
    assert_eq!(found, [0, 0, 0, 0, 0, 6, 3, 4, 0, 7]);
}

/// A mask of long rows takes few numbers, however many elements it selects.
#[test]
fn dense_masks_are_small() {
    let shape = [1000, 1000];
    let mask: Vec<bool> = (0..1_000_000).map(|n| n % 1000 < 900).collect();
    let selection = Selection::mask("a", &shape, &mask).unwrap();
    assert_eq!(selection.points()[0].runs.len(), 1000);
    assert_eq!(Selection::mask("a", &shape, &vec![true; 1_000_000]).unwrap().points()[0].runs.len(), 1);
    let spec = Spec::plain(&shape, &[100, 1000], "|u1");
    let plan = Plan::new(&spec.layout(&MemoryStore::new()), &selection).unwrap();
    assert_eq!(plan.len(), 10);
}

#[test]
fn an_array_that_has_shrunk_is_not_read_beyond_its_end() {
    let large = Spec::plain(&[10, 10], &[4, 4], "<u4").layout(&MemoryStore::new());
    let small = large.with_shape(Dims::from_slice(&[9, 9])).unwrap();
    let lists = |last: i64| {
        let list = [1, 0, last];
        Selection::pointwise("a", &[10, 10], &[Index::List(&list), Index::List(&list)], &[3]).unwrap()
    };
    get(&large, &lists(9));
    get(&small, &lists(8));
    let refused = read(&small, &lists(9), ReadOptions::default());
    assert!(matches!(refused, Err(ArrayError::Index { .. })));
}

#[test]
fn a_writer_takes_points_in_their_turn() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[100], &[8], "<u4") };
    let layout = Arc::new(spec.layout(&MemoryStore::new()));
    let writer = Writer::new(layout.clone(), WriterOptions::default());
    let value = |n: u32| n.to_ne_bytes();
    let all = spec.all();
    let points = select(&spec.shape, &[Index::List(&[5, 50, 6])]);
    writer.write(&all, &Source::repeat(&value(1), &[100]), None).unwrap();
    writer.write(&points, &Source::repeat(&value(2), &[3]), None).unwrap();
    let part = select(&spec.shape, &[Index::range(6, 60)]);
    writer.write(&part, &Source::repeat(&value(3), &[54]), None).unwrap();
    writer.flush(None).unwrap();
    let found = get(&layout, &all);
    let found = numbers(&found);
    assert_eq!((found[4], found[5], found[6], found[50], found[60]), (1, 2, 3, 3, 1));
}
