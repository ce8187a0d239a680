//! One axis of a copy: possible block lengths, and how often each cuts source chunks.

/// Axes with more possible lengths than this only try a selection.
const ALL: u64 = 4096;

/// The lengths along one axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) extent: u64,
    pub(super) source: u64,
    /// Elements of the first source chunk that are before the start of the axis.
    pub(super) offset: u64,
    /// Block lengths are multiples of this, unless the block reaches the end.
    pub(super) step: u64,
    /// If blocks are parts of objects: the object length, which the block length must divide.
    pub(super) object: Option<u64>,
}

/// A block length, and the number of pieces into which such blocks and source chunks cut the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length {
    pub(super) len: u64,
    pub(super) pieces: u64,
}

impl Axis {
    /// The useful lengths, ascending: each cuts the axis into fewer pieces than the one before.
    /// Returns at least one.
    pub(super) fn lengths(&self) -> Vec<Length> {
        let mut steps = match self.object {
            Some(object) => divisors(object / self.step.max(1)),
            None => self.steps(),
        };
        steps.sort_unstable();
        steps.dedup();
        let mut best: Vec<Length> = Vec::new();
        for steps in steps {
            let len = steps.saturating_mul(self.step).min(self.extent);
            let pieces = pieces(self.extent, len.max(1), (self.source, self.offset));
            if best.last().is_none_or(|last| pieces < last.pieces) {
                best.push(Length { len, pieces });
            }
        }
        best
    }

    /// Lengths to try, in steps.
    fn steps(&self) -> Vec<u64> {
        let all = self.extent.div_ceil(self.step).max(1);
        // A block of this many steps cuts no source chunk.
        let aligned = match self.offset {
            0 => self.source / gcd(self.source, self.step),
            _ => all,
        };
        let longest = aligned.min(all);
        if longest <= ALL {
            return (1..=longest).collect();
        }
        // Short lengths; lengths that make few blocks; lengths in between, at growing distances;
        // and small multiples of the divisors of the aligned length.
        let mut steps: Vec<u64> = (1..=ALL.isqrt()).chain([longest]).collect();
        steps.extend((1..=ALL).map(|blocks| all.div_ceil(blocks)));
        steps.extend(std::iter::successors(Some(ALL.isqrt()), |n| {
            n.checked_add(n / 64 + 1).filter(|n| *n < all)
        }));
        for divisor in divisors(aligned) {
            steps.extend((1..=16).map(|n| divisor.saturating_mul(n)));
        }
        steps.retain(|steps| *steps <= longest);
        steps
    }
}

/// The divisors of `n`. For a very large `n`, omits divisors above 2¹⁶ whose counterpart is, too.
pub(super) fn divisors(n: u64) -> Vec<u64> {
    let small = |small: &u64| n.is_multiple_of(*small);
    let most = n.isqrt().min(1 << 16);
    (1..=most).filter(small).flat_map(|small| [small, n / small]).collect()
}

/// The largest divisor of `n` that is at most `most`.
pub(super) fn divisor_below(n: u64, most: u64) -> u64 {
    divisors(n).into_iter().filter(|divisor| *divisor <= most).max().unwrap_or(1)
}

/// The number of pieces into which grids of steps `a` and `b` (not zero) cut `0..extent`.
/// The second grid begins `offset` elements earlier.
pub(super) fn pieces(extent: u64, a: u64, (b, offset): (u64, u64)) -> u64 {
    let Some(last) = extent.checked_sub(1) else { return 0 };
    let offset = offset % b;
    let cuts = u128::from(last / a) + (u128::from(last) + u128::from(offset)) / u128::from(b);
    let pieces = (cuts + 1).saturating_sub(shared_multiples(last, a, b, offset));
    u64::try_from(pieces).unwrap_or(u64::MAX)
}

/// How many numbers in `1..=last` are multiples of `a` and, after adding `offset`, of `b`.
fn shared_multiples(last: u64, a: u64, b: u64, offset: u64) -> u128 {
    let common = gcd(a, b);
    if !offset.is_multiple_of(common) {
        return 0;
    }
    let (wide, last) = (|n: u64| u128::from(n), u128::from(last));
    let period = wide(a) * wide(b / common);
    if offset == 0 {
        return last / period;
    }
    // The first one is `a * times`, where `times * (a / common)` is `rest` modulo `modulus`.
    let modulus = b / common;
    let rest = modulus - offset / common % modulus;
    let times = wide(rest) * wide(inverse(a / common % modulus, modulus)) % wide(modulus);
    let first = wide(a) * times;
    if first == 0 { last / period } else { last.checked_sub(first).map_or(0, |left| left / period + 1) }
}

/// The inverse of `n` modulo `modulus`. They must be coprime.
fn inverse(n: u64, modulus: u64) -> u64 {
    let (mut a, mut b) = (i128::from(n), i128::from(modulus));
    let (mut x, mut y) = (1i128, 0i128);
    while b != 0 {
        let times = a / b;
        (a, b) = (b, a - times * b);
        (x, y) = (y, x - times * y);
    }
    u64::try_from(x.rem_euclid(i128::from(modulus.max(1)))).unwrap_or(0)
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lengths(extent: u64, source: u64, step: u64) -> Vec<(u64, u64)> {
        let axis = Axis { extent, source, offset: 0, step, object: None };
        axis.lengths().iter().map(|length| (length.len, length.pieces)).collect()
    }

    #[test]
    fn longer_lengths_cut_less() {
        // The grids align every 12 elements.
        assert_eq!(lengths(24, 6, 4), [(4, 8), (8, 6), (12, 4)]);
        // The grids are the same.
        assert_eq!(lengths(1 << 60, 10, 10), [(10, (1 << 60) / 10 + 1)]);
        // One source chunk: each block cuts it once more, so only lengths that save a block count.
        assert_eq!(lengths(10, 10, 1), [(1, 10), (2, 5), (3, 4), (4, 3), (5, 2), (10, 1)]);
        assert_eq!(lengths(0, 5, 3), [(0, 0)]);
        let parts = Axis { extent: 100, source: 10, offset: 0, step: 5, object: Some(30) };
        assert_eq!(parts.lengths().iter().map(|length| length.len).collect::<Vec<_>>(), [5, 10]);
        assert_eq!((divisor_below(12, 5), divisor_below(7, 6), divisor_below(1, 0)), (4, 1, 1));
    }

    #[test]
    fn few_lengths_of_long_axes() {
        for (extent, source, step) in
            [(1 << 60, 1 << 60, 1), (100_000_007, 100_000_007, 3), (1 << 62, 3 << 40, 7)]
        {
            let found = lengths(extent, source, step);
            assert!(found.len() < 20_000, "{}", found.len());
            assert_eq!(found.last().unwrap().1, extent.div_ceil(source));
        }
    }

    proptest! {
        /// Compares with counting the cuts one by one.
        #[test]
        fn pieces_are_the_common_refinement(
            extent in 1..200u64,
            a in 1..50u64,
            b in 1..50u64,
            offset in prop_oneof![Just(0), 0..100u64],
        ) {
            let cuts = (1..extent).filter(|at| at % a == 0 || (at + offset) % b == 0).count() as u64;
            prop_assert_eq!(pieces(extent, a, (b, offset)), cuts + 1);
        }
    }
}
