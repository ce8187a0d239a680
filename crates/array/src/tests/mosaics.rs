//! Mosaics against their definition.
//!
//! The k-th element of one pattern is the k-th element of the other.

use super::model::{Model, Packed, PerChunk, Spec, elements, get, numbers, on, put, select};
use crate::plan::strategy::Strategy;
use crate::*;
use hyperslab_store::MemoryStore;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A source that exists or not.
#[derive(Debug)]
struct Given(Option<Arc<ArrayLayout>>);

impl MosaicSource for Given {
    fn open(&self) -> Result<Option<SourceArray>, LocateError> {
        Ok(self.0.clone().map(SourceArray::from))
    }
}

pub(super) fn given(layout: &Arc<ArrayLayout>) -> Arc<dyn MosaicSource> {
    Arc::new(Given(Some(layout.clone())))
}

/// Pseudo-random numbers.
struct Dice(u64);

impl Dice {
    /// A number below `n`.
    fn throw(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n.max(1)
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for n in (1..list.len()).rev() {
            list.swap(n, self.throw(n as u64 + 1) as usize);
        }
    }

    /// Blocks of `len` elements within an axis of `room`, if there is room.
    fn blocks(&mut self, len: u64, room: u64) -> Option<Blocks> {
        let block = 1 + self.throw(len);
        let count = len.div_ceil(block);
        let spare = room.checked_sub(len)?;
        let gap = if count > 1 { self.throw(spare / (count - 1) + 1) } else { self.throw(4) };
        let taken = if count > 1 { len + gap * (count - 1) } else { len };
        Some(Blocks { start: self.throw(room - taken + 1), stride: block + gap, block, len })
    }
}

/// The coordinates of a pattern's elements, in order.
type Coordinates = Vec<Vec<u64>>;

fn product(axes: &[Vec<u64>]) -> Coordinates {
    axes.iter().fold(vec![vec![]], |heads, axis| {
        heads
            .iter()
            .flat_map(|head| {
                axis.iter().map(|at| {
                    let mut head = head.clone();
                    head.push(*at);
                    head
                })
            })
            .collect()
    })
}

fn regular(axes: &[Blocks]) -> (Pattern, Coordinates) {
    let listed = |axis: &Blocks| -> Vec<u64> {
        (0..axis.len).map(|n| axis.start + n / axis.block * axis.stride + n % axis.block).collect()
    };
    (Pattern::regular(axes).unwrap(), product(&axes.iter().map(listed).collect::<Vec<_>>()))
}

/// A pattern of any kind, with `exactly` this number of elements if it is given.
fn pattern(dice: &mut Dice, shape: &[u64], exactly: Option<u64>) -> Option<(Pattern, Coordinates)> {
    let rank = shape.len();
    let every: Vec<Vec<u64>> = product(&shape.iter().map(|len| (0..*len).collect()).collect::<Vec<_>>());
    match dice.throw(4) {
        0 => {
            let mut points = every;
            dice.shuffle(&mut points);
            points.truncate(exactly.unwrap_or(1 + dice.throw(9)) as usize);
            let found = exactly.is_none_or(|n| n == points.len() as u64) && !points.is_empty();
            found.then(|| (Pattern::points(rank, &points.concat()).unwrap(), points))
        }
        1 if exactly.is_none() => {
            let corner = |dice: &mut Dice| {
                let first: Vec<u64> = shape.iter().map(|len| dice.throw(*len)).collect();
                let last = first.iter().zip(shape).map(|(at, len)| at + dice.throw(len - at)).collect();
                (first, last)
            };
            let boxes: Vec<(Vec<u64>, Vec<u64>)> = (0..1 + dice.throw(3)).map(|_| corner(dice)).collect();
            let inside = |at: &Vec<u64>| {
                boxes.iter().any(|(a, b)| at.iter().zip(a.iter().zip(b)).all(|(n, (a, b))| a <= n && n <= b))
            };
            let coordinates = every.into_iter().filter(inside).collect();
            let pattern = Pattern::blocks(rank, boxes.iter().map(|(a, b)| (&a[..], &b[..]))).unwrap();
            Some((pattern, coordinates))
        }
        _ => {
            let mut lens: Vec<u64> = shape.iter().map(|_| 1).collect();
            match exactly {
                // All of it along one axis, or split into two factors.
                Some(n) => {
                    let divisors: Vec<u64> = (1..=n).filter(|d| n.is_multiple_of(*d)).collect();
                    let one = divisors[dice.throw(divisors.len() as u64) as usize];
                    let at = dice.throw(rank as u64) as usize;
                    lens[at] *= one;
                    lens[dice.throw(rank as u64) as usize] *= n / one;
                }
                None => lens.iter_mut().zip(shape).for_each(|(len, room)| *len = 1 + dice.throw(*room)),
            }
            let axes: Option<Vec<Blocks>> =
                lens.iter().zip(shape).map(|(len, room)| dice.blocks(*len, *room)).collect();
            axes.map(|axes| regular(&axes))
        }
    }
}

/// A source of the same form as blocks of these lengths. It may have further axes, with one
/// selected element on each.
fn same_form(dice: &mut Dice, lens: &[u64]) -> (Vec<u64>, Pattern, Coordinates) {
    let mut lens: Vec<u64> = lens.iter().copied().filter(|len| *len != 1).collect();
    for _ in 0..dice.throw(3) {
        lens.insert(dice.throw(lens.len() as u64 + 1) as usize, 1);
    }
    let shape: Vec<u64> = lens.iter().map(|len| len + dice.throw(6)).collect();
    let axes: Vec<Blocks> =
        lens.iter().zip(&shape).map(|(len, room)| dice.blocks(*len, *room).unwrap()).collect();
    let (pattern, coordinates) = regular(&axes);
    (shape, pattern, coordinates)
}

/// An array of `<i4` whose elements all differ. `other_type` stores the same numbers as `>f8`.
fn source(dice: &mut Dice, shape: &[u64], base: i32, other_type: bool) -> Arc<ArrayLayout> {
    let dtype = if other_type { ">f8" } else { "<i4" };
    let chunk: Vec<u64> = shape.iter().map(|len| 1 + dice.throw(*len)).collect();
    let spec = Spec { codecs: dice.throw(2) as u8, ..Spec::plain(shape, &chunk, dtype) };
    let layout = spec.layout(&MemoryStore::new());
    let count = shape.iter().product::<u64>() as i32;
    let values: Vec<u8> = (base..base + count)
        .flat_map(|n| if other_type { f64::from(n).to_be_bytes().to_vec() } else { n.to_le_bytes().to_vec() })
        .collect();
    let all = Selection::all(shape);
    put(&layout, &all, &values);
    Arc::new(layout)
}

fn mosaic(shape: &[u64], fill: i32, pieces: Vec<Piece>) -> ArrayLayout {
    gridded(shape, shape, fill, pieces)
}

fn gridded(shape: &[u64], grid: &[u64], fill: i32, pieces: Vec<Piece>) -> ArrayLayout {
    let spec = Spec { fill: fill.to_le_bytes().to_vec(), ..Spec::plain(shape, grid, "<i4") };
    let store = Arc::new(MemoryStore::new());
    spec.layout_with(store, Arc::new(PerChunk("none"))).with_mosaic(Mosaic::new(pieces)).unwrap()
}

fn place(at: &[u64], shape: &[u64]) -> u64 {
    at.iter().zip(shape).fold(0, |place, (at, len)| place * len + at)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn parts_are_the_elements_that_they_name(seed in any::<u64>(), threads in 1usize..4) {
        let dice = &mut Dice(seed);
        let shape: Vec<u64> = (0..1 + dice.throw(3)).map(|_| 1 + dice.throw(9)).collect();
        let fill = [0, -1][dice.throw(2) as usize];
        let mut model: HashMap<u64, i32> = HashMap::new();
        let mut pieces = Vec::new();
        for number in 0..dice.throw(5) {
            let Some((target, places)) = pattern(dice, &shape, None) else { continue };
            let lens: Option<Vec<u64>> = (dice.throw(2) == 0).then(|| {
                let along = |k: usize| {
                    let mut found: Vec<u64> = places.iter().map(|at| at[k]).collect();
                    found.sort_unstable();
                    found.dedup();
                    found.len() as u64
                };
                (0..shape.len()).map(along).collect()
            });
            let lens = lens.filter(|lens| lens.iter().product::<u64>() == places.len() as u64);
            let (source_shape, from, elements) = match lens {
                Some(lens) => same_form(dice, &lens),
                None => {
                    let room: Vec<u64> = (0..1 + dice.throw(3)).map(|_| places.len() as u64 + dice.throw(4)).collect();
                    let room: Vec<u64> = if room.iter().product::<u64>() > 4000 { room[..1].into() } else { room };
                    match pattern(dice, &room, Some(places.len() as u64)) {
                        Some((from, elements)) => (room, from, elements),
                        None => continue,
                    }
                }
            };
            let base = 1000 * number as i32 + 1;
            let other_type = dice.throw(5) == 0;
            let layout = source(dice, &source_shape, base, other_type);
            let missing = dice.throw(5) == 0;
            let array: Arc<dyn MosaicSource> =
                if missing { Arc::new(Given(None)) } else { given(&layout) };
            for (at, element) in places.iter().zip(&elements) {
                if !missing {
                    model.insert(place(at, &shape), base + place(element, &source_shape) as i32);
                }
            }
            pieces.push(Piece::new(target, from, array).unwrap());
        }
        let grid: Vec<u64> = shape.iter().map(|len| 1 + dice.throw(*len)).collect();
        let layout = gridded(&shape, &grid, fill, pieces);
        let values: Vec<u8> = (0..shape.iter().product())
            .flat_map(|at| model.get(&at).copied().unwrap_or(fill).to_le_bytes())
            .collect();
        let model = Model { shape: shape.clone(), element: 4, bytes: values };
        for round in 0..4 {
            let indices: Vec<Index<'_>> = shape
                .iter()
                .map(|len| match dice.throw(4) {
                    0 => Index::At(dice.throw(*len) as i64),
                    1 | 2 if round > 0 => Index::Slice {
                        start: Some(dice.throw(*len) as i64),
                        stop: None,
                        step: [1, 2, 3, -1, -2, 7][dice.throw(6) as usize],
                    },
                    _ => Index::ALL,
                })
                .collect();
            let selection = select(&shape, &indices);
            let options = ReadOptions { threads: Some(threads), ..ReadOptions::default() };
            let wanted = model.read(&selection);
            let found = read(&layout, &selection, options).unwrap();
            prop_assert_eq!(found.as_slice(), &wanted);
            let turned = read(&layout, &selection, ReadOptions { fortran: true, ..options }).unwrap();
            let whole = Model { shape: selection.shape().to_vec(), element: 4, bytes: wanted };
            prop_assert_eq!(turned.as_slice(), whole.transposed());
            explain_read(&layout, &selection, 10).unwrap();
        }
        // Lists along some axes and all of others; and points.
        let lists: Vec<Vec<i64>> = shape
            .iter()
            .map(|len| (0..1 + dice.throw(6)).map(|_| dice.throw(*len) as i64).collect())
            .collect();
        let indices: Vec<Index<'_>> =
            lists.iter().map(|list| if dice.throw(3) == 0 { Index::ALL } else { Index::List(list) }).collect();
        let axes: Vec<Vec<u64>> = indices
            .iter()
            .zip(&shape)
            .map(|(index, len)| match index {
                Index::List(list) => list.iter().map(|at| *at as u64).collect(),
                _ => (0..*len).collect(),
            })
            .collect();
        let selection = select(&shape, &indices);
        let numbers = |coordinates: Coordinates| -> Vec<u64> {
            coordinates.iter().map(|at| place(at, &shape)).collect()
        };
        let found = get(&layout, &selection);
        prop_assert_eq!(found.as_slice(), model.read_at(&numbers(product(&axes))));
        explain_read(&layout, &selection, 10).unwrap();
        let points: Vec<Vec<i64>> =
            shape.iter().map(|len| (0..7).map(|_| dice.throw(*len) as i64).collect()).collect();
        let indices: Vec<Index<'_>> = points.iter().map(|list| Index::List(list)).collect();
        let selection = Selection::pointwise("test", &shape, &indices, &[7]).unwrap();
        let wanted = (0..7).map(|n| points.iter().map(|list| list[n] as u64).collect()).collect();
        let found = get(&layout, &selection);
        prop_assert_eq!(found.as_slice(), model.read_at(&numbers(wanted)));
        // As a stream of rows.
        let rows = Stream::new(Arc::new(layout), 0, 0..shape[0], StreamOptions::default()).unwrap();
        let streamed: Vec<u8> = rows.flat_map(|row| row.unwrap().memory.as_slice().to_vec()).collect();
        prop_assert_eq!(streamed, model.bytes);
    }
}

/// Counts how often it is opened.
#[derive(Debug)]
struct Counted(Arc<ArrayLayout>, Arc<AtomicUsize>);

impl MosaicSource for Counted {
    fn open(&self) -> Result<Option<SourceArray>, LocateError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Ok(Some(self.0.clone().into()))
    }
}

#[test]
fn only_what_is_touched_is_opened_and_read() {
    let opened = Arc::new(AtomicUsize::new(0));
    let dice = &mut Dice(1);
    // Frames in files of ten; each frame is a chunk.
    let pieces: Vec<Piece> = (0..20)
        .map(|n| {
            let spec = Spec { codecs: 1, ..Spec::plain(&[10, 8, 8], &[1, 8, 8], "<i4") };
            let layout = spec.layout(&MemoryStore::new());
            let values: Vec<u8> = (n * 640..(n + 1) * 640).flat_map(|i: i32| i.to_le_bytes()).collect();
            put(&layout, &Selection::all(&[10, 8, 8]), &values);
            let frames = [Blocks::run(10 * n as u64, 10), Blocks::run(0, 8), Blocks::run(0, 8)];
            let source = Arc::new(Counted(Arc::new(layout), opened.clone()));
            Piece::new(Pattern::regular(&frames).unwrap(), Pattern::all(), source).unwrap()
        })
        .collect();
    let layout = mosaic(&[200, 8, 8], -1, pieces);
    let frames = select(&[200, 8, 8], &[Index::range(38, 52)]);
    let explained = explain_read(&layout, &frames, 100).unwrap();
    assert_eq!(opened.swap(0, Ordering::Relaxed), 3);
    assert_eq!((explained.chunks, explained.examined, explained.objects), (14, 14, 14));
    assert_eq!(explained.strategies, [(Strategy("decode-into"), 14)]);
    assert_eq!(explained.bytes_decoded, 14 * 256);
    for threads in [1, 3] {
        let found = read(&layout, &frames, on(threads)).unwrap();
        assert_eq!(opened.swap(0, Ordering::Relaxed), 3);
        assert_eq!(numbers(&found), (38 * 64..52 * 64).collect::<Vec<u32>>());
        let all = read(&layout, &Selection::all(&[200, 8, 8]), on(threads)).unwrap();
        assert_eq!(numbers(&all), (0..200 * 64).collect::<Vec<u32>>());
        opened.store(0, Ordering::Relaxed);
    }
    // A part of a piece, in another form: only the needed rows are gathered.
    let long = source(dice, &[100, 5], 0, false);
    let flat = Piece::new(Pattern::regular(&[Blocks::run(0, 500)]).unwrap(), Pattern::all(), given(&long));
    let flat = mosaic(&[500], -1, vec![flat.unwrap()]);
    let some = select(&[500], &[Index::range(52, 61)]);
    assert_eq!(elements(&explain_read(&flat, &some, 100).unwrap()), 15);
}

#[test]
fn what_no_part_has_is_told_as_filled() {
    let dice = &mut Dice(2);
    let one = source(dice, &[4], 7, false);
    let here =
        Piece::new(Pattern::regular(&[Blocks::run(2, 4)]).unwrap(), Pattern::all(), given(&one)).unwrap();
    let gone = Pattern::regular(&[Blocks::run(6, 3)]).unwrap();
    let gone = Piece::new(gone, Pattern::all(), Arc::new(Given(None))).unwrap();
    let layout = mosaic(&[12], 5, vec![gone, here]);
    let all = Selection::all(&[12]);
    let explained = explain_read(&layout, &all, 10).unwrap();
    let filled: u64 = explained
        .tasks
        .iter()
        .filter(|task| task.strategy == Strategy("fill"))
        .map(|task| task.elements)
        .sum();
    assert_eq!(filled, 8, "{explained}");
    assert_eq!(numbers(&get(&layout, &all)), [5, 5, 7, 8, 9, 10, 5, 5, 5, 5, 5, 5]);
}

/// Opens an array that is a part of itself.
#[derive(Debug, Default)]
struct Itself(std::sync::OnceLock<std::sync::Weak<ArrayLayout>>);

impl MosaicSource for Itself {
    fn open(&self) -> Result<Option<SourceArray>, LocateError> {
        Ok(self.0.get().and_then(std::sync::Weak::upgrade).map(SourceArray::from))
    }
}

#[test]
fn mosaics_of_mosaics() {
    let dice = &mut Dice(3);
    let mut layout = source(dice, &[6, 6], 0, false);
    for depth in 1..=20 {
        // Each array is the one before, upside down.
        let pieces = (0..6).map(|row| {
            let target = Pattern::regular(&[Blocks::run(5 - row, 1), Blocks::run(0, 6)]).unwrap();
            let from = Pattern::regular(&[Blocks::run(row, 1), Blocks::run(0, 6)]).unwrap();
            Piece::new(target, from, given(&layout)).unwrap()
        });
        layout = Arc::new(mosaic(&[6, 6], 0, pieces.collect()));
        let row = select(&[6, 6], &[Index::At(1)]);
        let outcome = read(&layout, &row, ReadOptions::default());
        let explained = explain_read(&layout, &row, 10);
        if depth <= 16 {
            let first = if depth % 2 == 0 { 6 } else { 24 };
            assert_eq!(numbers(&outcome.unwrap()), (first..first + 6).collect::<Vec<u32>>());
            assert_eq!(elements(&explained.unwrap()), 6);
        } else {
            assert!(matches!(outcome, Err(ArrayError::Layout { .. })));
            assert!(matches!(explained, Err(ArrayError::Layout { .. })));
        }
    }
    let itself = Arc::new(Itself::default());
    let whole = Piece::new(Pattern::all(), Pattern::all(), itself.clone()).unwrap();
    let layout = Arc::new(mosaic(&[3], 0, vec![whole]));
    itself.0.set(Arc::downgrade(&layout)).unwrap();
    let error = read(&layout, &Selection::all(&[3]), ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("16 one within the other"), "{error}");
}

#[test]
fn levels_that_multiply_have_an_end() {
    let dice = &mut Dice(5);
    let mut layout = source(dice, &[2], 0, false);
    for _ in 0..14 {
        let again = (0..20).map(|_| Piece::new(Pattern::all(), Pattern::all(), given(&layout)).unwrap());
        layout = Arc::new(mosaic(&[2], 0, again.collect()));
    }
    let all = Selection::all(&[2]);
    let error = read(&layout, &all, ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("parts are wanted"), "{error}");
    // An explanation examines a bounded number of parts.
    assert_eq!(explain_read(&layout, &all, 0).unwrap().examined, Explain::MOST_CHUNKS);
}

#[test]
fn refusals() {
    let dice = &mut Dice(4);
    let four = source(dice, &[4], 0, false);
    let part = |len| Pattern::regular(&[Blocks::run(0, len)]).unwrap();
    assert!(Piece::new(part(3), part(4), given(&four)).is_err());
    let said = |target: Pattern, from: Pattern, layout: &Arc<ArrayLayout>| {
        let layout = mosaic(&[8], 0, vec![Piece::new(target, from, given(layout)).unwrap()]);
        let all = Selection::all(&[8]);
        let error = read(&layout, &all, ReadOptions::default()).unwrap_err();
        assert!(matches!(error, ArrayError::Part { part: 0, .. }), "{error}");
        assert!(explain_read(&layout, &all, 1).is_err());
        error.to_string()
    };
    assert!(said(part(3), Pattern::all(), &four).contains("3 elements are wanted"));
    let names = Arc::new(Spec::plain(&[8], &[8], "|S4").layout(&MemoryStore::new()));
    assert!(said(part(8), part(8), &names).contains("(|S4) cannot be converted to <i4"));
    // Mosaics are not written, neither at once nor later.
    let whole = Arc::new(mosaic(&[4], 0, vec![Piece::new(part(4), part(4), given(&four)).unwrap()]));
    let (all, values) = (Selection::all(&[4]), [1, 0, 0, 0]);
    let values = Source::repeat(&values, &[4]);
    let refused = |outcome: Result<(), ArrayError>| {
        assert!(matches!(outcome, Err(ArrayError::ReadOnly { .. })), "{outcome:?}");
    };
    refused(write(&whole, &all, &values, WriteOptions::default()));
    refused(Writer::new(whole.clone(), WriterOptions::default()).write(&all, &values, None));
    refused(explain_write(&whole, &all, 1).map(|_| ()));
    let plane = Spec::plain(&[2, 2], &[2, 2], "<i4").layout(&MemoryStore::new());
    let flat = Mosaic::new(vec![Piece::new(part(4), part(4), given(&four)).unwrap()]);
    assert!(matches!(plane.with_mosaic(flat), Err(ArrayError::Layout { .. })));
}

/// A source that became smaller: its remaining elements are read, and the rest is its fill value.
#[test]
fn sources_that_shrank() {
    let dice = &mut Dice(6);
    let line = source(dice, &[4], 100, false);
    let plane = source(dice, &[3, 4], 100, false);
    let part = |start, len| Pattern::regular(&[Blocks::run(start, len)]).unwrap();
    let steps =
        |stride, count| Pattern::regular(&[Blocks { start: 0, block: 1, stride, len: count }]).unwrap();
    let block = |rows, columns| Pattern::regular(&[Blocks::run(0, rows), Blocks::run(0, columns)]).unwrap();
    let list = Pattern::points(1, &[3, 0, 2, 5, 1, 4]).unwrap();
    let all = Pattern::all;
    let (none, gone) = (usize::MAX, usize::MAX - 1);
    let mut rows: Vec<usize> = (0..12).collect();
    rows.resize(20, gone);
    // For each case: shape, target and source; and the elements in the source.
    let cases: [(&[u64], Pattern, Pattern, _, &[usize]); 10] = [
        (&[6], all(), all(), &line, &[0, 1, 2, 3, gone, gone]),
        (&[6], all(), part(2, 6), &line, &[2, 3, gone, gone, gone, gone]),
        (&[9], part(3, 6), all(), &line, &[none, none, none, 0, 1, 2, 3, gone, gone]),
        (&[6], all(), list, &line, &[3, 0, 2, gone, 1, gone]),
        (&[3], all(), steps(3, 3), &line, &[0, 3, gone]),
        (&[2], all(), part(7, 2), &line, &[gone, gone]),
        (&[5, 4], all(), all(), &plane, &rows),
        (&[5, 4], all(), block(5, 4), &plane, &rows),
        (&[2, 6], all(), block(2, 6), &plane, &[0, 1, 2, 3, gone, gone, 4, 5, 6, 7, gone, gone]),
        // Gathered.
        (&[12], all(), block(2, 6), &plane, &[0, 1, 2, 3, gone, gone, 4, 5, 6, 7, gone, gone]),
    ];
    for (shape, target, from, source, expected) in cases {
        let stored = read(source, &Selection::all(source.shape()), ReadOptions::default()).unwrap();
        let fill = 9_i32.to_ne_bytes();
        let element = |n: &usize| match *n {
            n if n == gone => source.fill().bytes().to_vec(),
            n => stored.as_slice().chunks(4).nth(n).unwrap_or(&fill).to_vec(),
        };
        let expected: Vec<u8> = expected.iter().flat_map(element).collect();
        let layout = mosaic(shape, 9, vec![Piece::new(target, from, given(source)).unwrap()]);
        for start in 0..shape[0] as usize {
            let mut axes = vec![Index::range(start as i64, shape[0] as i64)];
            axes.resize(shape.len(), Index::ALL);
            let rows = Selection::new("x", shape, &axes).unwrap();
            let found = read(&layout, &rows, ReadOptions::default()).unwrap();
            let row = expected.len() / shape[0] as usize;
            assert_eq!(found.as_slice(), &expected[start * row..], "{shape:?} from {start}");
            assert!(explain_read(&layout, &rows, 1).is_ok());
        }
    }
}

#[test]
fn an_error_of_a_source_names_it() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[4], &[4], "<i4") };
    let counts: Dims = [1].as_slice().into();
    let ranges = vec![Some((0, 10, 0))];
    let broken = spec.layout_with(Arc::new(MemoryStore::new()), Arc::new(Packed { counts, ranges }));
    let broken = Piece::new(Pattern::all(), Pattern::all(), given(&Arc::new(broken))).unwrap();
    let layout = mosaic(&[4], 0, vec![broken]);
    let error = read(&layout, &Selection::all(&[4]), ReadOptions::default()).unwrap_err();
    assert!(matches!(&error, ArrayError::Store { .. }), "{error}");
    assert!(error.to_string().contains("packed"), "{error}");
}
