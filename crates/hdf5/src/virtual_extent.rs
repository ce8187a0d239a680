//! Axes of virtual datasets: lengths of unlimited axes, and selections as patterns of the engine.

use crate::selection::{Selection, Slab};
use hyperslab_array::{Blocks, Pattern};

/// No dataset has elements at or after this index.
pub(crate) const END: u64 = i64::MAX as u64;

/// The lengths of axes along which a mapping is unlimited.
pub(crate) struct Extent {
    /// End of the longest unlimited mapping, per axis.
    open: Vec<Option<u64>>,
    /// End of the longest limited mapping, per axis.
    least: Vec<u64>,
}

impl Extent {
    pub(crate) fn new(rank: usize) -> Self {
        Extent { open: vec![None; rank], least: vec![0; rank] }
    }

    pub(crate) fn reach(&mut self, axis: usize, end: u64) {
        if let Some(open) = self.open.get_mut(axis) {
            *open = Some(open.unwrap_or(0).max(end));
        }
    }

    pub(crate) fn contain(&mut self, ends: &[u64]) {
        self.least.iter_mut().zip(ends).for_each(|(least, end)| *least = (*least).max(*end));
    }

    pub(crate) fn apply(&self, shape: &mut [u64]) {
        for (len, (open, least)) in shape.iter_mut().zip(self.open.iter().zip(&self.least)) {
            *len = open.map_or(*len, |end| end.max(*least));
        }
    }
}

/// End per axis. 0: unlimited. `None`: the selection is everything or nothing.
pub(crate) fn ends(selection: &Selection) -> Option<Vec<u64>> {
    match selection {
        Selection::None | Selection::All => None,
        Selection::Regular(slabs) => {
            let end = |slab: &Slab| {
                let blocks = slab.count?.checked_sub(1)?.checked_mul(slab.stride)?;
                slab.start.checked_add(blocks)?.checked_add(slab.block?)
            };
            Some(slabs.iter().map(|slab| end(slab).unwrap_or(0)).collect())
        }
        Selection::Points { rank, .. } | Selection::Blocks { rank, .. } => {
            let mut ends = vec![0u64; *rank];
            for last in selection.points().chain(selection.blocks().map(|(_, last)| last)) {
                ends.iter_mut().zip(last).for_each(|(end, at)| *end = (*end).max(at.saturating_add(1)));
            }
            Some(ends)
        }
    }
}

/// Number of elements of an unlimited slab that fit into an axis of `len` elements.
pub(crate) fn slices(slab: Slab, len: u64) -> u64 {
    let room = len.saturating_sub(slab.start);
    match slab.block {
        Some(block) if block < slab.stride => {
            let (whole, rest) = (room / slab.stride, room % slab.stride);
            whole.saturating_mul(block).saturating_add(rest.min(block))
        }
        _ => room,
    }
}

/// Returns the first `len` elements of a slab.
pub(crate) fn cut(slab: Slab, len: u64) -> Result<Blocks, String> {
    let Slab { start, stride, block, .. } = slab;
    let blocks = match block {
        Some(block) => Blocks { start, stride, block, len },
        None => Blocks::run(start, len),
    };
    let before = len.div_ceil(blocks.block.max(1)).saturating_sub(1).checked_mul(stride);
    let end = before.and_then(|before| before.checked_add(start)?.checked_add(blocks.block));
    match end {
        Some(end) if end <= END => Ok(blocks),
        _ => Err(format!("its selection has {len} elements from {start} on, and ends after element 2⁶³ - 1")),
    }
}

/// The unlimited axis of a selection, and its blocks.
pub(crate) type Along = Option<(usize, Blocks)>;

pub(crate) fn pattern(selection: &Selection, along: Along) -> Result<Pattern, String> {
    match selection {
        Selection::None => Err("its selection has no elements".into()),
        Selection::All => Ok(Pattern::all()),
        Selection::Points { rank, coordinates } => Pattern::points(*rank, coordinates),
        Selection::Blocks { rank, .. } => match selection.clone().regularised() {
            regular @ Selection::Regular(_) => pattern(&regular, along),
            _ => Pattern::blocks(*rank, selection.blocks()),
        },
        Selection::Regular(slabs) => {
            let blocks = |(axis, slab): (usize, &Slab)| match along {
                Some((open, blocks)) if open == axis => Ok(blocks),
                _ => {
                    let len = slab.count.and_then(|count| count.checked_mul(slab.block?));
                    cut(*slab, len.ok_or("its selection has more than 2⁶⁴ elements")?)
                }
            };
            let axes = slabs.iter().enumerate().map(blocks).collect::<Result<Vec<_>, _>>()?;
            Pattern::regular(&axes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_without_limit() {
        let slab = |start, stride, count, block| Slab { start, stride, count, block };
        for (slab, len, expected) in [
            (slab(2, 3, None, Some(2)), 2, 0),
            (slab(2, 3, None, Some(2)), 4, 2),
            (slab(2, 3, None, Some(2)), 5, 2),
            (slab(2, 3, None, Some(2)), 6, 3),
            (slab(2, 2, None, Some(2)), 7, 5),
            (slab(2, 1, Some(1), None), 7, 5),
            (slab(9, 1, Some(1), None), 7, 0),
            (slab(0, u64::MAX, None, Some(1 << 62)), u64::MAX, 1 << 62),
        ] {
            assert_eq!(slices(slab, len), expected, "{slab:?} in {len}");
        }
        assert_eq!(cut(slab(2, 3, None, Some(2)), 5).unwrap().end(), 9);
        assert_eq!(cut(slab(2, 1, Some(1), None), 5).unwrap(), Blocks::run(2, 5));
        assert!(cut(slab(0, 1 << 62, None, Some(1)), 4).is_err());
        assert!(cut(slab(u64::MAX, 1, Some(1), None), 4).is_err());
    }
}
