//! Finds the block lengths that fit into memory and cut source chunks least often.
//!
//! Along one axis, longer blocks cut less ([`Axis::lengths`]). Over several axes, both pieces and
//! elements multiply. The search makes all combinations of all axes but one, and drops each one
//! that another beats in both numbers. For each it then takes the longest length of the last axis
//! that fits.

use super::axis::{Axis, Length};
use crate::Dims;

/// Above this number of combinations, only take those at least 1 % better than the last.
const MOST: usize = 1 << 17;

/// A combination of lengths along some axes.
#[derive(Clone, Debug)]
struct Combined {
    elements: u64,
    pieces: u128,
    /// Length per axis, in the order in which the axes were combined.
    lens: Dims,
}

/// The lengths per axis that cut the source into the fewest pieces, with at most `most` elements.
/// Among equals, takes the shortest. If even the shortest lengths have more elements, returns
/// those.
pub(super) fn search(axes: &[Axis], most: u64) -> Dims {
    let mut lengths: Vec<(usize, Vec<Length>)> = axes.iter().map(Axis::lengths).enumerate().collect();
    lengths.sort_by_key(|(_, lengths)| lengths.len());
    let last = lengths.pop();
    let mut found = vec![Combined { elements: 1, pieces: 1, lens: Dims::new() }];
    // The least number of elements that the remaining axes need.
    let least = |rest: &[(usize, Vec<Length>)]| {
        let firsts = rest.iter().chain(&last).filter_map(|(_, lengths)| lengths.first());
        firsts.fold(1u64, |least, length| least.saturating_mul(length.len))
    };
    for (n, (_, lengths_here)) in lengths.iter().enumerate() {
        let room = most.checked_div(least(&lengths[n + 1..])).unwrap_or(u64::MAX);
        found = combine(&found, lengths_here, room);
    }
    let mut best: Option<Combined> = None;
    match &last {
        None => best = found.into_iter().next(),
        Some((_, lengths)) => {
            for combined in &found {
                let fits =
                    lengths.partition_point(|length| combined.elements.saturating_mul(length.len) <= most);
                let Some(length) = lengths.get(fits.saturating_sub(1)) else { continue };
                let with = combined.with(length);
                let value =
                    |combined: &Combined| (combined.elements > most, combined.pieces, combined.elements);
                if best.as_ref().is_none_or(|best| value(&with) < value(best)) {
                    best = Some(with);
                }
            }
        }
    }
    let mut block = Dims::from_elem(0, axes.len());
    let order = lengths.iter().chain(&last).map(|(axis, _)| *axis);
    for (axis, len) in order.zip(best.map(|best| best.lens).unwrap_or_default()) {
        block[axis] = len;
    }
    block
}

impl Combined {
    fn with(&self, length: &Length) -> Combined {
        let mut lens = self.lens.clone();
        lens.push(length.len);
        Combined {
            elements: self.elements.saturating_mul(length.len),
            pieces: self.pieces.saturating_mul(length.pieces.into()),
            lens,
        }
    }
}

/// The combinations of at most `room` elements that no other beats; if none fits, the smallest.
fn combine(found: &[Combined], lengths: &[Length], room: u64) -> Vec<Combined> {
    if let [length] = lengths {
        return found.iter().map(|combined| combined.with(length)).collect();
    }
    let many = found.len().saturating_mul(lengths.len()) > MOST;
    let thinned: Vec<&Combined> = thin_out(found, many, |combined| combined.pieces as f64);
    let lengths: Vec<&Length> = thin_out(lengths, many, |length| length.pieces as f64);
    let mut all: Vec<Combined> = Vec::new();
    for (n, combined) in thinned.iter().enumerate() {
        for (k, length) in lengths.iter().enumerate() {
            if n + k > 0 && combined.elements.saturating_mul(length.len) > room {
                break;
            }
            all.push(combined.with(length));
        }
    }
    all.sort_by_key(|combined| (combined.elements, combined.pieces));
    let mut least = u128::MAX;
    all.retain(|combined| {
        let better = combined.pieces < least;
        least = least.min(combined.pieces);
        better
    });
    all
}

/// Thins out a long list, keeping the first and the last.
fn thin_out<T>(all: &[T], many: bool, value: impl Fn(&T) -> f64) -> Vec<&T> {
    let mut last = f64::INFINITY;
    let keep = |(n, one): &(usize, &T)| {
        let kept = !many || n + 1 == all.len() || value(one) < last * 0.99;
        if kept {
            last = value(one);
        }
        kept
    };
    all.iter().enumerate().filter(keep).map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::axis::pieces;
    use super::*;
    use proptest::prelude::*;

    fn best(axes: &[(u64, u64, u64)], most: u64) -> Vec<u64> {
        let axis = |(extent, source, step): &(u64, u64, u64)| Axis {
            extent: *extent,
            source: *source,
            offset: 0,
            step: *step,
            object: None,
        };
        search(&axes.iter().map(axis).collect::<Vec<_>>(), most).to_vec()
    }

    #[test]
    fn memory_is_used() {
        // Time series out of maps: 2²⁶ of 2²⁹ elements fit. Doubling found 2²⁵.
        let block = best(&[(512, 1, 512), (1024, 1024, 16), (1024, 1024, 16)], 60 << 20);
        assert_eq!(block[0], 512);
        let times = pieces(1024, block[1], (1024, 0)) * pieces(1024, block[2], (1024, 0));
        assert_eq!(times, 10, "{block:?}");
        // A single block would be one element too large.
        assert_eq!(best(&[(10, 1, 10), (10, 10, 1)], 99), [10, 5]);
        assert_eq!(best(&[(10, 1, 10), (10, 10, 1)], 100), [10, 10]);
        // Less memory than the smallest block needs.
        assert_eq!(best(&[(10, 1, 10), (10, 10, 1)], 3), [10, 1]);
        assert_eq!(best(&[], 3), Vec::<u64>::new());
        assert_eq!(best(&[(2, 1, 1); 64], 1), [1; 64]);
    }

    proptest! {
        /// The result is as good as the best of all combinations.
        #[test]
        fn nothing_is_better(
            axes in proptest::collection::vec((1..24u64, 1..12u64, 1..12u64), 1..4),
            most in 1..3000u64,
        ) {
            let found = best(&axes, most);
            let value = |block: &[u64]| {
                let cut = axes.iter().zip(block).map(|((n, source, _), len)| pieces(*n, *len, (*source, 0))).product::<u64>();
                let elements = block.iter().product::<u64>();
                (elements > most, if elements > most { elements } else { cut })
            };
            let mut all = vec![Vec::new()];
            for (n, _, step) in &axes {
                let longer = |block: &Vec<u64>| {
                    let block = block.clone();
                    (1..=n.div_ceil(*step)).map(move |m| [&block[..], &[(m * step).min(*n)]].concat()).collect::<Vec<_>>()
                };
                all = all.iter().flat_map(longer).collect();
            }
            prop_assert_eq!(value(&found), all.iter().map(|block| value(block)).min().unwrap());
        }
    }
}
