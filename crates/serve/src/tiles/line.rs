//! Coordinates along one axis: the elements at a place.

/// The degrees of a circle.
const CIRCLE: f64 = 360.0;

/// Coordinates that ascend, and the way back to the elements.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Ascending.
    centres: Vec<f64>,
    /// The ends of elements: half-way between neighbours. One more than there are centres.
    edges: Vec<f64>,
    /// The first element has the largest coordinate.
    is_descending: bool,
    /// Coordinates are the same 360° further.
    wraps: bool,
}

/// The elements at a place: the nearest, or two with the share of the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) first: u64,
    pub(super) second: u64,
    pub(super) share: f64,
}

impl Line {
    /// Fails (with text) if coordinates do not ascend or descend. `is_longitude`: they are degrees east.
    pub(super) fn new(mut centres: Vec<f64>, is_longitude: bool) -> Result<Line, String> {
        // Longitudes may fall once, at the end of the circle.
        let falls = centres.windows(2).filter(|pair| matches!(pair, [one, other] if one > other)).count();
        let is_descending = falls * 2 > centres.len() - centres.len().min(1);
        if is_descending {
            centres.reverse();
        }
        if is_longitude {
            unroll(&mut centres);
        }
        if centres.len() < 2 {
            return Err("an axis of one element has no extent; a map needs two".into());
        }
        if !centres.windows(2).all(|pair| matches!(pair, [one, other] if one < other)) {
            return Err("its coordinates neither ascend nor descend".into());
        }
        let middles = centres.windows(2).map(|pair| f64::midpoint(pair[0], pair[1]));
        let middles: Vec<f64> = middles.collect();
        let (Some(first), Some(last)) = (centres.first(), centres.last()) else { return Err(String::new()) };
        let (Some(low), Some(high)) = (middles.first(), middles.last()) else { return Err(String::new()) };
        let (mut low, mut high) = (2.0 * first - low, 2.0 * last - high);
        if !is_longitude {
            (low, high) = (low.max(-90.0), high.min(90.0));
        }
        let edges = std::iter::once(low).chain(middles).chain(std::iter::once(high)).collect();
        Ok(Line { centres, edges, is_descending, wraps: is_longitude })
    }

    /// Smallest and largest degrees of all elements.
    pub(super) fn ends(&self) -> (f64, f64) {
        let end = |at: Option<&f64>| at.copied().unwrap_or(0.0);
        (end(self.edges.first()), end(self.edges.last()))
    }

    /// The mean distance of neighbours.
    pub(super) fn step(&self) -> f64 {
        let (low, high) = self.ends();
        (high - low) / self.centres.len() as f64
    }

    /// Elements go once around the earth, so that the first follows the last.
    pub(super) fn is_circle(&self) -> bool {
        let (low, high) = self.ends();
        self.wraps && high - low >= CIRCLE - self.step() / 2.0
    }

    /// The coordinates of blocks of elements: their means.
    pub(super) fn coarser(&self, factor: usize, count: usize) -> Result<Line, String> {
        let stored: Vec<f64> = match self.is_descending {
            true => self.centres.iter().rev().copied().collect(),
            false => self.centres.clone(),
        };
        let mean = |block: &[f64]| block.iter().sum::<f64>() / block.len() as f64;
        // A level may have left out the rest at the end.
        Line::new(stored.chunks(factor.max(1)).map(mean).take(count).collect(), self.wraps)
    }

    /// The elements at a place, in degrees. `None`: the place is outside. `linear`: two elements.
    pub(super) fn at(&self, degrees: f64, linear: bool) -> Option<Place> {
        let (low, high) = self.ends();
        let mut degrees = degrees;
        if self.wraps {
            degrees = low + (degrees - low).rem_euclid(CIRCLE);
        }
        // A circle has no gap, although its ends were computed.
        let is_gap = degrees >= high && self.is_circle();
        if degrees < low || degrees >= high && !is_gap && degrees != high {
            return None;
        }
        let last = self.centres.len() - 1;
        let near = self.edges.partition_point(|edge| *edge <= degrees).saturating_sub(1).min(last);
        let single = Place { first: self.stored(near), second: self.stored(near), share: 0.0 };
        if !linear {
            return Some(single);
        }
        let centre = |at: usize| self.centres.get(at).copied().unwrap_or(f64::NAN);
        let after = self.centres.partition_point(|centre| *centre <= degrees);
        let (one, other, from, to) = match after {
            0 if self.is_circle() => (last, 0, centre(last) - CIRCLE, centre(0)),
            after if after > last && self.is_circle() => (last, 0, centre(last), centre(0) + CIRCLE),
            0 => return Some(single),
            after if after > last => return Some(single),
            after => (after - 1, after, centre(after - 1), centre(after)),
        };
        let share = if to > from { (degrees - from) / (to - from) } else { 0.0 };
        Some(Place { first: self.stored(one), second: self.stored(other), share })
    }

    /// The number of an element in the array.
    fn stored(&self, at: usize) -> u64 {
        (if self.is_descending { self.centres.len() - 1 - at } else { at }) as u64
    }
}

/// Adds circles to longitudes that fall from 180 to -180 or from 360 to 0.
fn unroll(degrees: &mut [f64]) {
    let mut circles = 0.0;
    let mut before: Option<f64> = None;
    for one in degrees {
        let own = *one;
        if before.is_some_and(|before| own < before - CIRCLE / 2.0) {
            circles += CIRCLE;
        }
        before = Some(own);
        *one = own + circles;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(centres: &[f64], is_longitude: bool) -> Line {
        Line::new(centres.to_vec(), is_longitude).unwrap()
    }

    fn nearest(line: &Line, degrees: f64) -> Option<u64> {
        line.at(degrees, false).map(|place| place.first)
    }

    #[test]
    fn latitudes_in_either_direction() {
        for centres in [[-80.0, -20.0, 30.0, 85.0], [85.0, 30.0, -20.0, -80.0]] {
            let own = line(&centres, false);
            let of = |degrees| nearest(&own, degrees).map(|at| centres[at as usize]);
            assert_eq!((of(-90.0), of(-91.0)), (Some(-80.0), None));
            assert_eq!((of(4.9), of(5.1), of(90.0)), (Some(-20.0), Some(30.0), Some(85.0)));
        }
    }

    #[test]
    fn longitudes_around_the_earth() {
        let east: Vec<f64> = (0..36).map(|at| f64::from(at) * 10.0).collect();
        let own = line(&east, true);
        assert!(own.is_circle());
        assert_eq!(
            (nearest(&own, -180.0), nearest(&own, -6.0), nearest(&own, -4.0)),
            (Some(18), Some(35), Some(0))
        );
        let between = own.at(-2.5, true).unwrap();
        assert_eq!((between.first, between.second, between.share), (35, 0, 0.75));
        let part = line(&[170.0, 175.0, -180.0, -175.0], true);
        assert!(!part.is_circle());
        assert_eq!(
            (nearest(&part, -176.0), nearest(&part, 171.0), nearest(&part, 0.0)),
            (Some(3), Some(0), None)
        );
        assert_eq!(part.ends(), (167.5, 187.5));
        let turned = line(&[-100.0, -140.0, -180.0, 140.0, 100.0], true);
        assert_eq!(
            (nearest(&turned, -101.0), nearest(&turned, 179.0), nearest(&turned, 99.0)),
            (Some(0), Some(2), Some(4))
        );
        assert_eq!(nearest(&line(&[100.0, 140.0, 179.0, -140.0, -100.0, -60.0], true), -99.0), Some(4));
    }

    #[test]
    fn between_elements_and_beyond_them() {
        let own = line(&[0.0, 10.0], false);
        assert_eq!(own.at(2.5, true), Some(Place { first: 0, second: 1, share: 0.25 }));
        assert_eq!(own.at(-4.0, true), Some(Place { first: 0, second: 0, share: 0.0 }));
        assert_eq!(own.at(-6.0, true), None);
        assert!(Line::new(vec![0.0], true).is_err() && Line::new(vec![0.0, 2.0, 1.0], false).is_err());
        assert!(Line::new(vec![0.0, f64::NAN, 1.0], true).is_err());
        assert_eq!(
            line(&[9.0, 7.0, 5.0, 3.0], false).coarser(2, 2).unwrap().at(8.0, false).unwrap().first,
            0
        );
    }
}
