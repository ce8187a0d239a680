//! Pages of metadata that nobody has asked for yet, but will.
//!
//! A file that is written variable by variable has a block of metadata behind the data of each: at
//! distances that are nearly equal. What belongs to one variable (the end of its header, its chunk
//! index) may lie in the block of another. So where the headers of many variables are fetched, the
//! pages that are missing in their row come too: a round less for a few requests more.

use crate::Source;
use crate::rehearsal::Noted;
use crate::source::PAGE;

/// Fewer pages are no row.
const FEWEST: usize = 8;

/// How many neighbours in a row may be missing, and one.
const MOST: u64 = 4;

/// Places that lie so close are one.
const NEAR: u64 = 4;

impl Source {
    /// Ranges in pages that probably have metadata too, where these will be read: as many as go
    /// together with them.
    pub(crate) fn beside(&self, noted: &[Noted]) -> Vec<Noted> {
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
        missing(&pages).into_iter().take(more).map(range).collect()
    }
}

/// What is missing in a row of pages, which are sorted: first and last of each run, those in short
/// holes first. Distances vary, so that a place is counted from both sides.
fn missing(pages: &[u64]) -> Vec<(u64, u64)> {
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
    use super::missing;
    use crate::Source;
    use crate::testing::FarStore;

    #[test]
    fn rows_are_completed() {
        // Nearly equal distances, of which some are twice or three times as long.
        assert_eq!(missing(&[0, 16, 32, 48, 80, 96, 112, 128, 144]), [(64, 65)]);
        let found = missing(&[0, 48, 64, 80, 96, 112, 129, 161, 177]);
        assert_eq!(found, [(145, 146), (32, 33), (16, 17)]);
        // From one side, and from the other.
        assert_eq!(missing(&[0, 20, 40, 70, 90, 110]), [(50, 51), (60, 61)]);
        // Longer ones are data of another kind.
        assert_eq!(missing(&[0, 16, 32, 200, 216, 232]), []);
        for none in [&[][..], &[7], &[7, 8], &[1, 2, 3, 4, 5, 6, 7, 8, 9], &[0, u64::MAX]] {
            assert_eq!(missing(none), [], "{none:?}");
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
        // Few are no row.
        let source = Source::new(store.clone(), "f", 0).unwrap();
        let megabyte = |n: u64| drop(source.read("x", n << 20, 8));
        source.foresee(|| [0, 1, 3, 4].into_iter().for_each(megabyte)).unwrap();
        megabyte(2);
        assert_eq!(store.take_rounds(), 2);
    }
}
