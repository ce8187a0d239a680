//! Costs that are exact: chunks touched.

use super::model::{Spec, select};
use crate::*;
use hyperslab_store::MemoryStore;

#[test]
fn only_touched_chunks_are_planned() {
    let spec = Spec::plain(&[1000, 1000], &[10, 10], "<f4");
    let layout = spec.layout(&MemoryStore::new());
    let chunks = |indices: &[Index<'_>]| {
        let selection = select(&spec.shape, indices);
        Plan::new(&layout, &selection).unwrap().len()
    };
    let every = |step| Index::Slice { start: None, stop: None, step };
    assert_eq!(chunks(&[]), 10_000);
    assert_eq!(chunks(&[Index::At(5), Index::At(5)]), 1);
    assert_eq!(chunks(&[Index::At(5)]), 100);
    assert_eq!(chunks(&[every(100), every(-250)]), 10 * 4);
    assert_eq!(chunks(&[every(i64::MAX), every(i64::MIN)]), 1);
    assert_eq!(chunks(&[Index::range(9, 11), Index::range(9, 21)]), 2 * 3);
    assert_eq!(chunks(&[Index::range(5, 5)]), 0);
}
