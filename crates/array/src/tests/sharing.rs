//! Threads: writers of one chunk, and results whose pages were used before.

use super::model::{Spec, get, numbers, put_repeated, select};
use crate::*;
use hyperslab_store::MemoryStore;

#[test]
fn writers_of_one_chunk_lose_nothing() {
    let spec = Spec { codecs: 1, ..Spec::plain(&[64], &[64], "<i4") };
    let store = MemoryStore::new();
    std::thread::scope(|scope| {
        for t in 0..8u64 {
            // Each thread opens the array for itself: the locks do not belong to the layout.
            let layout = spec.layout(&store);
            scope.spawn(move || {
                for round in 1..=20i32 {
                    for i in (t..64).step_by(8) {
                        let one = select(&[64], &[Index::At(i as i64)]);
                        let value = (round * 100 + i as i32).to_le_bytes();
                        put_repeated(&layout, &one, &value);
                    }
                }
            });
        }
    });
    let found = get(&spec.layout(&store), &Selection::all(&[64]));
    assert_eq!(numbers(&found), (2000..2064).collect::<Vec<u32>>());
}

#[test]
fn results_own_their_pages() {
    // Large enough for recycled pages.
    let spec = Spec { codecs: 1, ..Spec::plain(&[8, 65_536], &[1, 65_536], "<i4") };
    let store = MemoryStore::new();
    let layout = spec.layout(&store);
    for row in 0..8i32 {
        let at = select(&spec.shape, &[Index::At(row.into())]);
        put_repeated(&layout, &at, &(row + 1).to_le_bytes());
    }
    let row = |n: usize| {
        let at = select(&spec.shape, &[Index::At(n as i64)]);
        get(&layout, &at)
    };
    let holds = |memory: &Memory, n: usize| numbers(memory).iter().all(|found| *found == n as u32 + 1);
    std::thread::scope(|scope| {
        for t in 0..4 {
            scope.spawn(move || {
                let mut held: Vec<(usize, Memory)> = Vec::new();
                for i in 0..200 {
                    let n = (i * 7 + t) % 8;
                    held.push((n, row(n)));
                    if held.len() > 5 {
                        held.swap_remove(i % 5);
                    }
                    assert!(held.iter().all(|(n, memory)| holds(memory, *n)));
                }
            });
        }
    });
}
