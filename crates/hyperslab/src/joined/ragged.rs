//! Elements of variable length of a joined array.

use super::nodes::JoinedPiece;
use crate::copy::{Paths, all_indices};
use crate::{Array, Error, Index, Ragged, ReadOptions, Result, Selection};
use hyperslab_array::ArrayError;
use std::ops::Range;

/// Reads a box of elements from all pieces that it touches.
/// `rest`: the value of elements that no piece has.
pub(super) fn read(
    name: &str,
    (axis, pieces): (usize, &[JoinedPiece]),
    open: &dyn Fn(&JoinedPiece) -> Result<Array>,
    selection: &Selection,
    options: ReadOptions<'_>,
    rest: &[u8],
    paths: &mut Paths,
) -> Result<Ragged> {
    let Some(ranges) = selection.ranges() else {
        return Err(Error::Options(format!(
            "array '{name}': elements of variable length of joined sources are read as ranges of step 1"
        )));
    };
    let lens: Vec<u64> = ranges.iter().map(|range| range.end - range.start).collect();
    let mut parts = Vec::new();
    for piece in pieces {
        let inside: Vec<Range<u64>> = ranges
            .iter()
            .enumerate()
            .map(|(at, range)| {
                let start = if at == axis { piece.start } else { 0 };
                let len = piece.shape.get(at).copied().unwrap_or(0);
                range.start.max(start)..range.end.min(start + len)
            })
            .collect();
        if inside.iter().any(|range| range.start >= range.end) {
            continue;
        }
        let array = open(piece)?;
        let index = inside.iter().enumerate().map(|(at, range)| {
            let start = if at == axis { piece.start } else { 0 };
            Index::range((range.start - start).cast_signed(), (range.end - start).cast_signed())
        });
        let index: Vec<Index<'_>> = index.collect();
        let read = array.node().read_copied(&array.select(&index)?, options, paths)?;
        parts.push((inside, read));
    }
    let memory = || ArrayError::Memory {
        array: name.to_owned(),
        what: "elements of variable length",
        bytes: u64::MAX,
    };
    let count = lens.iter().try_fold(1_u64, |count, n| count.checked_mul(*n));
    let count = count.and_then(|count| usize::try_from(count).ok()).ok_or_else(memory)?;
    let mut rows: Vec<&[u8]> = vec![rest; count];
    for (inside, read) in &parts {
        let size = inside.iter().map(|range| (0, range.end - range.start - 1)).collect::<Vec<_>>();
        let mut bounds = read.offsets.windows(2);
        for at in all_indices(size) {
            let place = at
                .iter()
                .zip(inside)
                .zip(ranges.iter().zip(&lens))
                .fold(0_u64, |place, ((at, inside), (range, len))| {
                    place * len + (inside.start - range.start + at)
                });
            let (Some([from, to]), Some(row)) = (bounds.next(), rows.get_mut(place as usize)) else { break };
            *row = read.values.as_slice().get(*from as usize..*to as usize).unwrap_or_default();
        }
    }
    Ragged::of(&selection.shape(), rows.iter().copied()).ok_or_else(|| memory().into())
}
