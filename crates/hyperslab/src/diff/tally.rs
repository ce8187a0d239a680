//! The differences in some elements. Tallies of several blocks are joined.

use super::report::Element;
use crate::statistics::Double;
use crate::{Dims, Json};

/// When two numbers count as equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rules {
    pub(super) rtol: f64,
    pub(super) atol: f64,
    pub(super) ulp: u64,
    pub(super) equal_nan: bool,
    /// The most differing elements to list.
    pub(super) most: usize,
}

impl Rules {
    /// Returns `true` if a difference of finite numbers is within the tolerance, as in NumPy:
    /// `|a - b| <= atol + rtol * |b|`, or at most `ulp` units in the last place.
    pub(super) fn allows(&self, distance: f64, reference: f64, ulps: impl FnOnce() -> u64) -> bool {
        distance <= self.atol + self.rtol * reference || self.ulp > 0 && ulps() <= self.ulp
    }

    /// Returns `true` if numbers must be equal.
    pub(super) fn are_exact(&self) -> bool {
        self.rtol == 0.0 && self.atol == 0.0 && self.ulp == 0
    }
}

/// The largest difference of a kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Most {
    pub(super) value: f64,
    pub(super) at: Element,
}

/// The differences of some elements.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) compared: u64,
    pub(super) different: u64,
    /// Different elements that are missing in one array only.
    pub(super) missing: [u64; 2],
    pub(super) absolute: Option<Most>,
    pub(super) relative: Option<Most>,
    /// The sum of squared differences, and their number.
    pub(super) squares: Double,
    pub(super) measured: u64,
    /// The first differing elements, in C order.
    pub(super) first: Vec<Element>,
    pub(super) skipped: u64,
    pub(super) decoded: u64,
}

/// How far two elements are apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Distance {
    /// `None`: there is no such number, as for text.
    pub(super) absolute: Option<f64>,
    /// Divided by the size of the second number. `None`: that is zero.
    pub(super) relative: Option<f64>,
}

impl Distance {
    pub(super) fn new(absolute: f64, reference: f64) -> Distance {
        let relative = (reference != 0.0).then(|| absolute / reference).filter(|found| !found.is_nan());
        Distance { absolute: Some(absolute).filter(|found| !found.is_nan()), relative }
    }
}

/// Adds the differing elements of one block to a tally.
pub(super) struct InBlock<'t> {
    tally: &'t mut Tally,
    most: usize,
    listed: usize,
    block_squares: f64,
}

impl<'t> InBlock<'t> {
    pub(super) fn new(tally: &'t mut Tally, most: usize) -> Self {
        InBlock { tally, most, listed: 0, block_squares: 0.0 }
    }

    /// Counts an element that is missing in array `side` only.
    pub(super) fn missing(&mut self, side: usize, show: impl FnOnce() -> Element) {
        self.tally.missing[side] += 1;
        self.differ(Distance::default(), show);
    }

    /// Counts a differing element. Call in C order within the block.
    pub(super) fn differ(&mut self, distance: Distance, show: impl FnOnce() -> Element) {
        let tally = &mut *self.tally;
        tally.different += 1;
        if let Some(absolute) = distance.absolute.filter(|found| found.is_finite()) {
            self.block_squares += absolute * absolute;
            tally.measured += 1;
        }
        let exceeds = |most: &Option<Most>, value: Option<f64>| {
            value.is_some_and(|value| most.as_ref().is_none_or(|most| value > most.value))
        };
        let largest = exceeds(&tally.absolute, distance.absolute);
        let steepest = exceeds(&tally.relative, distance.relative);
        let is_listed = self.listed < self.most;
        if !largest && !steepest && !is_listed {
            return;
        }
        let at = show();
        if let Some(value) = distance.absolute.filter(|_| largest) {
            tally.absolute = Some(Most { value, at: at.clone() });
        }
        if let Some(value) = distance.relative.filter(|_| steepest) {
            tally.relative = Some(Most { value, at: at.clone() });
        }
        if is_listed {
            self.listed += 1;
            tally.first.push(at);
        }
    }

    /// Ends the block: keeps the first elements of all blocks so far.
    pub(super) fn finish(self) {
        self.tally.squares = self.tally.squares + Double::from(self.block_squares);
        if self.listed > 0 {
            keep_first(&mut self.tally.first, self.most);
        }
    }
}

fn keep_first(first: &mut Vec<Element>, most: usize) {
    first.sort_by(|a, b| a.index.cmp(&b.index));
    first.truncate(most);
}

impl Tally {
    /// Adds the differences of other elements of the same arrays.
    pub(super) fn join(&mut self, other: Tally, most: usize) {
        let larger = |own: Option<Most>, its: Option<Most>| match (own, its) {
            (Some(own), Some(its)) => {
                // Equally large differences: the first in C order, whichever thread found it.
                let first = own.value == its.value && own.at.index <= its.at.index;
                Some(if own.value > its.value || first { own } else { its })
            }
            (own, its) => own.or(its),
        };
        self.compared += other.compared;
        self.different += other.different;
        self.missing[0] += other.missing[0];
        self.missing[1] += other.missing[1];
        self.absolute = larger(self.absolute.take(), other.absolute);
        self.relative = larger(self.relative.take(), other.relative);
        self.squares = self.squares + other.squares;
        self.measured += other.measured;
        self.skipped += other.skipped;
        self.decoded += other.decoded;
        self.first.extend(other.first);
        keep_first(&mut self.first, most);
    }

    /// The root of the mean squared difference, over the differing elements.
    pub(super) fn rms(&self) -> Option<f64> {
        (self.measured > 0).then(|| self.squares.over(self.measured).value().max(0.0).sqrt())
    }
}

/// An element of both arrays, for the report.
pub(super) fn element(index: Dims, a: Json, b: Json) -> Element {
    Element { index: index.to_vec(), coordinates: Vec::new(), a, b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(elements: &[(u64, f64)], most: usize) -> Tally {
        let mut tally = Tally::default();
        let mut block = InBlock::new(&mut tally, most);
        for (at, distance) in elements {
            let show = || element([*at].as_slice().into(), Json::Null, Json::Null);
            block.differ(Distance::new(*distance, 2.0), show);
        }
        block.finish();
        tally
    }

    #[test]
    fn the_order_of_blocks_does_not_show() {
        let parts = [&[(9, 1.0), (10, 3.0)][..], &[(0, 2.0), (4, 3.0)], &[(20, 0.5)]];
        let joined = |order: [usize; 3]| {
            let mut all = Tally::default();
            order.iter().for_each(|n| all.join(tally(parts[*n], 2), 2));
            let at = |most: &Option<Most>| most.as_ref().map(|most| (most.value, most.at.index[0]));
            let first: Vec<u64> = all.first.iter().map(|one| one.index[0]).collect();
            (all.different, at(&all.absolute), at(&all.relative), first, all.rms())
        };
        let expected = (5, Some((3.0, 4)), Some((1.5, 4)), vec![0, 4], Some(4.65_f64.sqrt()));
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            assert_eq!(joined(order), expected);
        }
    }

    #[test]
    fn tolerances_are_those_of_numpy() {
        let rules = Rules { rtol: 0.1, atol: 1.0, ulp: 0, equal_nan: true, most: 0 };
        assert!(rules.allows(2.0, 10.0, || 9) && !rules.allows(2.001, 10.0, || 0));
        let exact = Rules { rtol: 0.0, atol: 0.0, ..rules };
        assert!(exact.are_exact() && exact.allows(0.0, 1.0, || 9) && !exact.allows(1e-300, 1.0, || 0));
        let ulps = Rules { ulp: 2, ..exact };
        assert!(ulps.allows(1.0, 1.0, || 2) && !ulps.allows(1.0, 1.0, || 3));
        assert_eq!(Distance::new(3.0, 0.0).relative, None);
    }
}
