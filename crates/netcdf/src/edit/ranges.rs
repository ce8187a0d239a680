//! Sets of bytes, as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges that neither overlap nor touch: their starts and ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(crate) fn insert(&mut self, mut new: Range<u64>) {
        if new.is_empty() {
            return;
        }
        // Ranges that the new one touches become a part of it.
        while let Some((start, end)) = self.0.range(..=new.end).next_back().map(|(start, end)| (*start, *end))
            && end >= new.start
        {
            self.0.remove(&start);
            new = new.start.min(start)..new.end.max(end);
        }
        self.0.insert(new.start, new.end);
    }

    /// The parts of `within` that are not in the set, in ascending order.
    pub(crate) fn gaps(&self, within: &Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = within.start;
        let before = self.0.range(..=within.start).next_back();
        for (start, end) in before.into_iter().chain(
            self.0.range(within.start.saturating_add(1)..within.end.max(within.start.saturating_add(1))),
        ) {
            if *start > at {
                gaps.push(at..(*start).min(within.end));
            }
            at = at.max(*end);
        }
        if at < within.end {
            gaps.push(at..within.end);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn touching_ranges_become_one() {
        let mut ranges = Ranges::default();
        for range in [10..20, 30..40, 20..25, 5..5] {
            ranges.insert(range);
        }
        assert_eq!(ranges.0.len(), 2);
        assert_eq!(ranges.gaps(&(0..50)), [0..10, 25..30, 40..50]);
        assert_eq!(ranges.gaps(&(12..24)), []);
        assert_eq!(ranges.gaps(&(20..31)), std::slice::from_ref(&(25..30)));
        ranges.insert(25..30);
        assert_eq!(ranges.0.len(), 1);
    }

    proptest! {
        #[test]
        fn gaps_are_what_was_not_inserted(
            inserted in proptest::collection::vec((0u64..60, 0u64..12), 0..12), within in (0u64..50, 0u64..30)
        ) {
            let mut ranges = Ranges::default();
            let mut is_in = [false; 100];
            for (start, len) in inserted {
                ranges.insert(start..start + len);
                is_in[start as usize..(start + len) as usize].fill(true);
            }
            let within = within.0..within.0 + within.1;
            let found: Vec<u64> = ranges.gaps(&within).into_iter().flatten().collect();
            let expected: Vec<u64> = within.filter(|at| !is_in[*at as usize]).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
