//! Which requests bring which ranges.

use std::ops::Range;

/// The requests that bring all of `wanted`, in order and without overlaps.
///
/// Ranges with a gap below `gap` become one request. No request is longer than `largest`, so that
/// several connections share a long range. Empty ranges need no request.
pub(crate) fn requests(wanted: impl Iterator<Item = Range<u64>>, gap: u64, largest: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = wanted.filter(|range| !range.is_empty()).collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match joined.last_mut() {
            // Bytes added at the end of a long request would cost a request of their own anyway.
            Some(last) if range.start <= last.end || (range.start - last.end < gap) => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined.into_iter().flat_map(|range| split(range, largest.max(1))).collect()
}

/// The gap below which ranges are joined into one request.
///
/// `at_once` concurrent requests take the time of one, in which `most` bytes arrive. The gap is
/// `most / 64`. If there are more than `at_once` ranges, it is larger, up to `most`.
pub(crate) fn gap(wanted: &[Range<u64>], at_once: usize, most: u64) -> u64 {
    let least = most / 64;
    if wanted.len() <= at_once {
        return least;
    }
    let mut sorted: Vec<&Range<u64>> = wanted.iter().filter(|range| !range.is_empty()).collect();
    sorted.sort_unstable_by_key(|range| range.start);
    let mut end = 0;
    let mut before: Vec<u64> = Vec::with_capacity(sorted.len());
    for range in sorted {
        before.push(range.start.saturating_sub(end));
        end = range.end.max(end);
    }
    // The smallest gaps are joined, so that `at_once` requests are left. There is no gap before the
    // first range.
    let mut gaps = before.split_off(before.len().min(1));
    gaps.sort_unstable();
    let last = gaps.len().checked_sub(at_once).and_then(|last| gaps.get(last));
    last.map_or(least, |gap| gap.saturating_add(1)).clamp(least, most)
}

/// Returns whether all of `inner` is in `outer`.
pub(crate) fn contains(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Number of bytes in both.
pub(crate) fn overlap(one: &Range<u64>, other: &Range<u64>) -> u64 {
    one.end.min(other.end).saturating_sub(one.start.max(other.start))
}

/// Splits a range into equal parts of at most `largest` bytes.
fn split(range: Range<u64>, largest: u64) -> impl Iterator<Item = Range<u64>> {
    let len = range.end - range.start;
    let parts = len.div_ceil(largest).max(1);
    let each = len.div_ceil(parts).max(1);
    (0..parts).filter_map(move |n| {
        let start = range.start.saturating_add(n.saturating_mul(each));
        let end = start.saturating_add(each).min(range.end);
        (start < end).then_some(start..end)
    })
}

/// The parts of `range` that are not in `have`, which may be unordered.
pub(crate) fn missing_ranges(range: Range<u64>, have: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut have: Vec<&Range<u64>> =
        have.iter().filter(|have| have.start < range.end && range.start < have.end).collect();
    have.sort_unstable_by_key(|have| have.start);
    let (mut at, mut missing) = (range.start, Vec::new());
    for have in have {
        if at < have.start {
            missing.push(at..have.start);
        }
        at = at.max(have.end);
    }
    if at < range.end {
        missing.push(at..range.end);
    }
    missing
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges")]
mod tests {
    use super::{gap, missing_ranges, requests};

    #[test]
    fn as_many_requests_as_go_together() {
        let wanted = [0..10, 30..40, 100..110, 1000..1010, 35..45];
        // Separate, except for ranges much closer together than the length of a request.
        assert_eq!(gap(&wanted, 5, 1280), 20);
        assert_eq!(requests(wanted.iter().cloned(), gap(&wanted, 5, 1280), 999).len(), 4);
        for (at_once, most, expected) in [(3, 320, 3), (2, 320, 2), (1, 2000, 1), (1, 320, 2)] {
            let gap = gap(&wanted, at_once, most);
            let found = requests(wanted.iter().cloned(), gap, 9999);
            assert_eq!(found.len(), expected, "{at_once} of {most}: {gap}, {found:?}");
        }
        assert_eq!((gap(&[], 1, 128), gap(&[5..6], 1, 128), gap(&[5..6, 9..9], 1, 128)), (2, 2, 2));
    }

    #[test]
    fn near_ranges_are_joined_and_long_ones_split() {
        let of = |wanted: &[(u64, u64)], gap, largest| {
            requests(wanted.iter().map(|&(start, end)| start..end), gap, largest)
        };
        assert_eq!(of(&[(10, 20), (0, 5), (5, 5)], 5, 100), [0..5, 10..20]);
        assert_eq!(of(&[(10, 20), (0, 5)], 6, 100), [0..20]);
        assert_eq!(of(&[(0, 10), (2, 3), (9, 12), (12, 14)], 0, 100), [0..14]);
        assert_eq!(of(&[(0, 10)], 0, 4), [0..4, 4..8, 8..10]);
        assert_eq!(of(&[(0, 9)], 0, 4), [0..3, 3..6, 6..9]);
        assert_eq!(of(&[(u64::MAX - 1, u64::MAX)], 9, 1 << 40), [u64::MAX - 1..u64::MAX]);
        assert!(of(&[(7, 7)], 1, 1).is_empty());
    }

    #[test]
    fn what_is_missing() {
        assert_eq!(missing_ranges(0..10, &[]), [0..10]);
        assert_eq!(missing_ranges(0..10, &[2..4, 4..5, 9..20]), [0..2, 5..9]);
        assert_eq!(missing_ranges(0..10, &[8..9, 0..3, 1..2]), [3..8, 9..10]);
        assert!(missing_ranges(3..10, &[0..7, 5..11]).is_empty());
        assert!(missing_ranges(3..3, &[]).is_empty());
    }
}
