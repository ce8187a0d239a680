//! Predicts pages of metadata that will be needed soon.
//!
//! A file that is written variable by variable has a block of metadata after the data of each
//! variable. These blocks are at nearly equal distances. Metadata of one variable (the end of its
//! header, its chunk index) may be in the block of another. When the headers of many variables are
//! fetched, we therefore also fetch the pages that are missing in their row. This saves a round for
//! a few more requests.

use crate::Source;
use crate::rehearsal::Noted;
use crate::source::PAGE;

/// Smallest number of pages that make a row.
const FEWEST: usize = 8;

/// Largest gap in a row, in multiples of the usual distance: up to three blocks may be missing.
const MOST: u64 = 4;

/// Two estimates of a place that differ by at most this many pages become one range.
const NEAR: u64 = 4;

impl Source {
    /// Returns ranges in other pages that probably hold metadata too. Returns at most as many as
    /// can be requested together with the noted ranges.
    pub(crate) fn neighbouring_ranges(&self, noted: &[Noted]) -> Vec<Noted> {
        let mut pages: Vec<u64> = noted.iter().map(|(offset, _)| offset / PAGE).collect();
        pages.sort_unstable();
        pages.dedup();
        if pages.len() < FEWEST {
            return Vec::new();
        }
        let more = self.store().cost().at_once.saturating_sub(pages.len());
        pages.extend(self.lock().numbers());
        pages.sort_unstable();
        pages.dedup();
        let range = |(first, last): (u64, u64)| {
            (first.saturating_mul(PAGE), (last - first).saturating_mul(PAGE).saturating_add(1))
        };
        missing_pages(&pages).into_iter().take(more).map(range).collect()
    }
}

/// Returns the pages missing in a row of sorted pages: first and last page of each run.
///
/// Runs in small gaps come first. Distances vary, so each place is estimated from both ends of the
/// gap.
fn missing_pages(pages: &[u64]) -> Vec<(u64, u64)> {
    let neighbours = || pages.iter().zip(pages.iter().skip(1)).map(|(from, to)| (*from, *to));
    let mut distances: Vec<u64> = neighbours().map(|(from, to)| to - from).filter(|n| *n > 1).collect();
    distances.sort_unstable();
    let Some(usual) = distances.get(distances.len() / 2).copied() else { return Vec::new() };
    let mut found = Vec::new();
    for (from, to) in neighbours() {
        let count = (to - from).saturating_add(usual / 2) / usual;
        if count > MOST {
            continue;
        }
        for n in 1..count {
            let (down, up) = (to.saturating_sub(usual * n), from + usual * (count - n));
            let (first, last) = (down.min(up), down.max(up));
            if last - first <= NEAR {
                found.push((count, first, (last + 1).min(to - 1)));
            } else {
                found.extend([(count, down, (down + 1).min(to - 1)), (count, up, (up + 1).min(to - 1))]);
            }
        }
    }
    found.sort_by_key(|(count, ..)| *count);
    found.into_iter().map(|(_, first, last)| (first, last)).filter(|(first, last)| first <= last).collect()
}

#[cfg(test)]
mod tests {
    use super::missing_pages;
    use crate::Source;
    use crate::testing::FarStore;

    #[test]
    fn rows_are_completed() {
        // Nearly equal distances, some of them doubled or tripled.
        assert_eq!(missing_pages(&[0, 16, 32, 48, 80, 96, 112, 128, 144]), [(64, 65)]);
        let found = missing_pages(&[0, 48, 64, 80, 96, 112, 129, 161, 177]);
        assert_eq!(found, [(145, 146), (32, 33), (16, 17)]);
        // The estimates from both ends differ.
        assert_eq!(missing_pages(&[0, 20, 40, 70, 90, 110]), [(50, 51), (60, 61)]);
        // Longer gaps hold other data.
        assert_eq!(missing_pages(&[0, 16, 32, 200, 216, 232]), []);
        for none in [&[][..], &[7], &[7, 8], &[1, 2, 3, 4, 5, 6, 7, 8, 9], &[0, u64::MAX]] {
            assert_eq!(missing_pages(none), [], "{none:?}");
        }
    }

    #[test]
    fn what_is_missing_comes_in_the_same_round() {
        let store = FarStore::new(&vec![0; 12 << 20]);
        let source = Source::new(store.clone(), "f", 0).unwrap();
        let megabyte = |n: u64| drop(source.read("x", n << 20, 8));
        source.foresee(|| (0..12).filter(|n| *n != 5).for_each(megabyte)).unwrap();
        assert_eq!(store.take_rounds(), 1);
        megabyte(5);
        assert_eq!(store.take_rounds(), 0);
        // A few pages do not make a row.
        let source = Source::new(store.clone(), "f", 0).unwrap();
        let megabyte = |n: u64| drop(source.read("x", n << 20, 8));
        source.foresee(|| [0, 1, 3, 4].into_iter().for_each(megabyte)).unwrap();
        megabyte(2);
        assert_eq!(store.take_rounds(), 2);
    }
}
