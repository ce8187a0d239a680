//! Reads while another array takes the place of the array that is read.

use super::model::{Spec, Watched, select};
use crate::error::ArrayError;
use crate::error::LocateError;
use crate::layout::ArrayLayout;
use crate::layout::origin::{Origin, OriginState};
use crate::read;
use crate::read::options::ReadOptions;
use crate::read::read_into;
use crate::select::view::Target;
use crate::select::{Index, Selection};
use hyperslab_store::{Key, MemoryStore, Store};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Gives the answers in turn, then answers that nothing has changed.
#[derive(Debug, Default)]
struct Script {
    known: AtomicBool,
    answers: Mutex<Vec<OriginState>>,
    looks: AtomicUsize,
}

impl Script {
    fn new(known: bool, answers: &[OriginState]) -> Arc<Self> {
        let answers = Mutex::new(answers.iter().rev().copied().collect());
        Arc::new(Script { known: known.into(), answers, looks: 0.into() })
    }
}

impl Origin for Script {
    fn is_known(&self) -> bool {
        self.known.load(Relaxed)
    }

    fn look(&self) -> Result<OriginState, LocateError> {
        self.known.store(true, Relaxed);
        self.looks.fetch_add(1, Relaxed);
        Ok(self.answers.lock().unwrap().pop().unwrap_or(OriginState::Same))
    }
}

/// Puts chunks of `value` into four rows. Deletes the rows from `absent` on.
fn fill(store: &MemoryStore, value: i32, absent: usize) {
    for row in 0..4 {
        let key = format!("a/{row}.0");
        let key = Key::new(&key).unwrap();
        if row < absent {
            store.write(key, &[&value.to_le_bytes().repeat(10)]).unwrap();
        } else {
            store.delete(key).unwrap();
        }
    }
}

/// Four rows of 1 that become 2 in the middle of the first read. Rows from `absent` on are then
/// absent.
fn swapped(origin: Arc<Script>, absent: usize) -> ArrayLayout {
    let store = MemoryStore::new();
    let located = AtomicUsize::new(0);
    let inner = store.clone();
    let watch = move |_: &[u64]| {
        if located.fetch_add(1, Relaxed) == 2 {
            fill(&inner, 2, absent);
        }
    };
    let spec = Spec::plain(&[4, 10], &[1, 10], "<i4");
    fill(&store, 1, 4);
    // `Watched` locates the keys that `fill` writes.
    let layout = spec.layout_with(Arc::new(store), Arc::new(Watched(watch)));
    layout.with_origin(origin)
}

const OPTIONS: ReadOptions<'static> = ReadOptions {
    threads: Some(1),
    verify: None,
    fortran: false,
    interrupt: None,
    cache: None,
    present: None,
};

fn rows(layout: &ArrayLayout, indices: &[Index<'_>]) -> Result<Vec<i32>, ArrayError> {
    let selection = Selection::new("test", layout.shape(), indices)?;
    let memory = read(layout, &selection, OPTIONS)?;
    let (numbers, _) = memory.as_slice().as_chunks::<4>();
    let row = selection.shape().last().map_or(1, |n| *n as usize).max(1);
    Ok(numbers.iter().step_by(row).map(|bytes| i32::from_le_bytes(*bytes)).collect())
}

#[test]
fn read_again_where_an_array_that_is_alike_took_the_place() {
    // If nobody notices, rows of both arrays are read.
    let mixed = rows(&swapped(Script::new(true, &[]), 4), &[]).unwrap();
    assert!(mixed.contains(&1) && mixed.contains(&2), "{mixed:?}");
    for known in [true, false] {
        let first =
            if known { &[OriginState::Alike][..] } else { &[OriginState::Alike, OriginState::Alike][..] };
        let origin = Script::new(known, first);
        assert_eq!(rows(&swapped(origin.clone(), 4), &[]).unwrap(), [2; 4]);
        assert_eq!(origin.looks.load(Relaxed), first.len() + 1);
        // Bytes that a chunk of the old array left in the result are gone.
        assert_eq!(rows(&swapped(Script::new(known, first), 1), &[]).unwrap(), [2, 0, 0, 0]);
    }
    // The same, into the caller's memory.
    let layout = swapped(Script::new(true, &[OriginState::Alike]), 4);
    let mut memory = [0u8; 160];
    let selection = select(layout.shape(), &[]);
    let mut target = Target::dense(&mut memory, &selection.shape(), 4).unwrap();
    read_into(&layout, &selection, &mut target, OPTIONS).unwrap();
    assert_eq!(memory.to_vec(), 2i32.to_le_bytes().repeat(40));
}

#[test]
fn refused_where_another_array_took_the_place() {
    for answers in
        [&[OriginState::Other][..], &[OriginState::Alike, OriginState::Other], &[OriginState::Alike; 100]]
    {
        for known in [true, false] {
            let error = rows(&swapped(Script::new(known, answers), 4), &[]).unwrap_err();
            assert!(matches!(error, ArrayError::Replaced { .. }), "{error}");
        }
    }
}

#[test]
fn one_object_is_never_a_mixture() {
    let origin = Script::new(false, &[OriginState::Other]);
    let layout = swapped(origin.clone(), 4);
    assert_eq!(rows(&layout, &[Index::At(1), Index::At(3)]).unwrap(), [1]);
    assert_eq!(origin.looks.load(Relaxed), 0);
}
