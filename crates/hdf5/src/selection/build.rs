//! Builds serialised selections: the mirror of [`Selection::parse`].

use super::{Selection, Slab};
use crate::error::{BuildError, Built};
use crate::output::{Output, fit};

/// A finite selection of more blocks than this is described by its slabs, which HDF5 1.8 cannot read,
/// instead of block by block.
const MOST_BLOCKS: u64 = 1 << 16;

/// The code of "without limit".
const UNLIMITED: u64 = u64::MAX;

impl Selection {
    /// Builds the selection in the oldest version that can say it.
    pub fn build(&self) -> Result<Vec<u8>, BuildError> {
        let mut out = Output::new();
        match self {
            Selection::None => head(0, 1, &mut out).zeros(8),
            Selection::All => head(3, 1, &mut out).zeros(8),
            Selection::Points { rank, coordinates } => points(*rank, coordinates, &mut out)?,
            Selection::Blocks { rank, corners } => blocks(*rank, corners, &mut out)?,
            Selection::Regular(slabs) => match corners(slabs) {
                Some(corners) => blocks(slabs.len(), &corners, &mut out)?,
                None => regular(slabs, &mut out)?,
            },
        };
        Ok(out.take())
    }
}

/// Appends the kind of selection and its version.
fn head(kind: u32, version: u32, out: &mut Output) -> &mut Output {
    out.u32(kind).u32(version)
}

fn points<'o>(rank: usize, coordinates: &[u64], out: &'o mut Output) -> Built<&'o mut Output> {
    let count = coordinates.len() / rank.max(1);
    list(1, rank, count, coordinates, out)
}

fn blocks<'o>(rank: usize, corners: &[u64], out: &'o mut Output) -> Built<&'o mut Output> {
    let count = corners.len() / (2 * rank).max(1);
    list(2, rank, count, corners, out)
}

/// Appends a list of points or blocks: version 1, whose numbers have 4 bytes, if they fit.
fn list<'o>(
    kind: u32,
    rank: usize,
    count: usize,
    numbers: &[u64],
    out: &'o mut Output,
) -> Built<&'o mut Output> {
    let is_small = numbers.iter().chain([&(count as u64)]).all(|number| *number < u64::from(u32::MAX));
    let rank: u32 = fit(rank as u64, "axes of a selection")?;
    let size = if is_small { 4 } else { 8 };
    if is_small {
        let bytes = numbers.len().saturating_mul(4).saturating_add(8);
        head(kind, 1, out).zeros(4).u32(fit(bytes as u64, "bytes of a selection")?);
    } else if kind == 1 {
        head(kind, 2, out).u8(8);
    } else {
        head(kind, 3, out).u8(0).u8(8);
    }
    out.u32(rank).uint(count as u64, size);
    for number in numbers {
        out.uint(*number, size);
    }
    Ok(out)
}

/// Appends slabs in version 2: start, stride, count and block of each axis.
fn regular<'o>(slabs: &[Slab], out: &'o mut Output) -> Built<&'o mut Output> {
    let bytes = slabs.len().saturating_mul(32).saturating_add(4);
    head(2, 2, out).u8(1).u32(fit(bytes as u64, "bytes of a selection")?);
    out.u32(fit(slabs.len() as u64, "axes of a selection")?);
    for slab in slabs {
        out.u64(slab.start).u64(slab.stride.max(1));
        out.u64(slab.count.unwrap_or(UNLIMITED)).u64(slab.block.unwrap_or(UNLIMITED));
    }
    Ok(out)
}

/// The corners of all blocks, in C order. `None`: an axis has no limit, or there are too many blocks.
fn corners(slabs: &[Slab]) -> Option<Vec<u64>> {
    let mut axes: Vec<Vec<(u64, u64)>> = Vec::with_capacity(slabs.len());
    let mut total: u64 = 1;
    for slab in slabs {
        let (mut count, mut block) = (slab.count?, slab.block?);
        // Blocks that touch are one block.
        if slab.stride == block {
            (count, block) = (1, count.checked_mul(block)?);
        }
        total = total.checked_mul(count).filter(|total| *total <= MOST_BLOCKS)?;
        let range = |number: u64| {
            let first = number.checked_mul(slab.stride)?.checked_add(slab.start)?;
            Some((first, first.checked_add(block.checked_sub(1)?)?))
        };
        axes.push((0..count).map(range).collect::<Option<_>>()?);
    }
    let mut found: Vec<(Vec<u64>, Vec<u64>)> = vec![(Vec::new(), Vec::new())];
    for axis in &axes {
        let longer = |(first, last): &(Vec<u64>, Vec<u64>)| {
            let (first, last) = (first.clone(), last.clone());
            axis.iter()
                .map(move |(low, high)| ([&first[..], &[*low]].concat(), [&last[..], &[*high]].concat()))
                .collect::<Vec<_>>()
        };
        found = found.iter().flat_map(longer).collect();
    }
    Some(found.into_iter().flat_map(|(first, last)| first.into_iter().chain(last)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cursor;
    use crate::testing::SIZES;
    use proptest::prelude::*;

    fn parsed(bytes: &[u8]) -> Selection {
        let mut cursor = Cursor::whole(bytes, 0, SIZES);
        let found = Selection::parse(&mut cursor).unwrap();
        assert!(cursor.is_empty(), "{} bytes are left", cursor.remaining_len());
        found
    }

    fn slab() -> impl Strategy<Value = Slab> {
        (0_u64..50, 1_u64..4, 0_u64..3, 1_u64..5).prop_map(|(start, block, gap, count)| Slab {
            start,
            stride: block + gap,
            count: Some(count),
            block: Some(block),
        })
    }

    /// The elements of a selection, each as its coordinates.
    fn elements(selection: &Selection) -> Vec<Vec<u64>> {
        let mut found = Vec::new();
        for (first, last) in selection.blocks() {
            let mut at = first.to_vec();
            'block: loop {
                found.push(at.clone());
                for axis in (0..at.len()).rev() {
                    if at[axis] < last[axis] {
                        at[axis] += 1;
                        continue 'block;
                    }
                    at[axis] = first[axis];
                }
                break;
            }
        }
        found.sort();
        found
    }

    fn elements_of_slabs(slabs: &[Slab]) -> Vec<Vec<u64>> {
        let mut found = vec![Vec::new()];
        for slab in slabs {
            let axis: Vec<u64> = (0..slab.count.unwrap())
                .flat_map(|k| (0..slab.block.unwrap()).map(move |b| slab.start + k * slab.stride + b))
                .collect();
            found = found
                .iter()
                .flat_map(|at: &Vec<u64>| axis.iter().map(move |x| [&at[..], &[*x]].concat()))
                .collect();
        }
        found.sort();
        found
    }

    proptest! {
        #[test]
        fn lists_are_read_again(rank in 1_usize..4, numbers in prop::collection::vec(any::<u64>(), 0..24)) {
            let coordinates = numbers[..numbers.len() / rank * rank].to_vec();
            let selection = Selection::Points { rank, coordinates };
            prop_assert_eq!(parsed(&selection.build().unwrap()), selection);
        }

        #[test]
        fn slabs_mean_the_same(slabs in prop::collection::vec(slab(), 1..4)) {
            let found = parsed(&Selection::Regular(slabs.clone()).build().unwrap());
            prop_assert_eq!(elements(&found), elements_of_slabs(&slabs));
        }
    }

    #[test]
    fn other_selections() {
        let unlimited = Selection::Regular(vec![
            Slab { start: 1, stride: 1, count: Some(1), block: Some(4) },
            Slab { start: 0, stride: 3, count: None, block: Some(2) },
        ]);
        let many =
            Selection::Regular(vec![Slab { start: 0, stride: 2, count: Some(1 << 20), block: Some(1) }]);
        let far = Selection::Blocks { rank: 1, corners: vec![1 << 40, (1 << 40) + 5] };
        for selection in [Selection::None, Selection::All, unlimited, many, far] {
            assert_eq!(parsed(&selection.build().unwrap()), selection);
        }
    }
}
