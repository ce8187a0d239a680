//! Space in a file that is being changed.
//!
//! Only space that no flushed structure refers to is handed out again: a reader of the file on
//! disk never sees it change.

use super::redo::SLOT;
use std::collections::BTreeMap;

/// Headers begin at multiples of this number, so that one write inside a cache line changes one.
pub(super) const LINE: u64 = 64;

/// Bytes reserved for headers at a time: at first, and later.
const FIRST_HEADERS: u64 = 256;
const HEADERS: u64 = 4096;

/// Free ranges that a search looks at.
const MOST_LOOKS: usize = 64;

/// The used part of a file, in addresses.
#[derive(Debug)]
pub(super) struct Space {
    /// The end of the used part.
    used: u64,
    /// Bytes from here on were never used: they are zero.
    clean_from: u64,
    /// Free ranges below: start and length.
    free: BTreeMap<u64, u64>,
    /// Room for headers: the next one, and the end.
    headers: (u64, u64),
    /// Bytes to reserve next for headers.
    next_headers: u64,
    /// `true` during a flush: the flush may refer to space that is freed meanwhile.
    pub is_flushing: bool,
    /// The place of the slot, which nothing else may take.
    slot: Option<u64>,
}

impl Space {
    pub fn new(used: u64) -> Space {
        let next_headers = if used < HEADERS { FIRST_HEADERS } else { HEADERS };
        Space {
            used,
            clean_from: used,
            free: BTreeMap::new(),
            headers: (0, 0),
            next_headers,
            is_flushing: false,
            slot: None,
        }
    }

    /// The end of the used part.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The free ranges.
    pub fn free_ranges(&self) -> Vec<(u64, u64)> {
        self.free.iter().map(|(start, len)| (*start, *len)).collect()
    }

    /// Adds ranges that were free when the file was closed.
    pub fn add_free(&mut self, ranges: Vec<(u64, u64)>) {
        ranges.into_iter().for_each(|(start, len)| self.put_free(start, len));
    }

    /// Takes `len` bytes at a multiple of `align`. `None`: addresses have no more bits.
    pub fn take(&mut self, len: u64, align: u64) -> Option<u64> {
        let fits = |(start, size): (&u64, &u64)| {
            let at = start.checked_next_multiple_of(align)?;
            (at.checked_add(len)? <= start.checked_add(*size)?).then_some((*start, *size, at))
        };
        let found = self.free.iter().take(MOST_LOOKS).find_map(fits);
        if let Some((start, size, at)) = found {
            self.free.remove(&start);
            self.put_free(start, at - start);
            self.put_free(at + len, (start + size) - (at + len));
            return Some(at);
        }
        let mut at = self.used.checked_next_multiple_of(align)?;
        if let Some(slot) = self.slot.filter(|slot| at < slot + SLOT && at.saturating_add(len) > *slot) {
            at = (slot + SLOT).checked_next_multiple_of(align)?;
            let before = slot.saturating_sub(self.used);
            self.put_free(self.used, before);
            self.used = self.used.max(slot + SLOT);
            self.slot = None;
        }
        let end = at.checked_add(len).filter(|end| *end <= i64::MAX.cast_unsigned())?;
        self.put_free(self.used, at - self.used);
        self.used = end;
        self.clean_from = self.clean_from.max(end);
        Some(at)
    }

    /// Returns `true` if there is a slot before this end of the file, behind everything.
    pub fn has_slot(&self, end: u64) -> bool {
        self.slot.is_some_and(|slot| slot + SLOT == end && self.used <= slot)
    }

    /// Returns a new end of a file of `len` bytes, with a slot of its own before it. The file is longer:
    /// a closed file ends at its end. `None`: it is too short for that.
    pub fn raise_end(&mut self, len: u64) -> Option<u64> {
        let last = len.saturating_sub(1);
        let end = last - last % SLOT;
        let slot = end.checked_sub(SLOT).filter(|slot| *slot >= self.used)?;
        self.slot = Some(slot);
        Some(end)
    }

    /// Notes that the file has bytes up to here, which are not used.
    pub fn has_bytes_up_to(&mut self, end: u64) {
        self.clean_from = self.clean_from.max(end);
    }

    /// Like [`Space::take`]. Also returns how many of the bytes, from the first, may not be zero.
    pub fn take_clean(&mut self, len: u64, align: u64) -> Option<(u64, u64)> {
        let clean_from = self.clean_from;
        let at = self.take(len, align)?;
        Some((at, clean_from.saturating_sub(at).min(len)))
    }

    /// Takes the place of an object's header.
    pub fn take_header(&mut self) -> Option<u64> {
        if self.headers.0 == self.headers.1 {
            let start = self.take(self.next_headers, LINE)?;
            self.headers = (start, start + self.next_headers);
            self.next_headers = HEADERS;
        }
        let at = self.headers.0;
        self.headers.0 += LINE;
        Some(at)
    }

    /// Gives back space that no flushed structure refers to.
    pub fn give(&mut self, address: u64, len: u64) {
        if self.is_flushing || len == 0 || address.checked_add(len).is_none_or(|end| end > self.used) {
            return;
        }
        self.put_free(address, len);
    }

    fn put_free(&mut self, mut start: u64, mut len: u64) {
        if len == 0 {
            return;
        }
        if let Some((before, size)) = self.free.range(..start).next_back().map(|(at, size)| (*at, *size))
            && before + size == start
        {
            self.free.remove(&before);
            (start, len) = (before, size + len);
        }
        if let Some(size) = self.free.remove(&(start + len)) {
            len += size;
        }
        if start + len == self.used {
            self.used = start;
        } else {
            self.free.insert(start, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_in_use_never_overlap(steps in proptest::collection::vec((0..3_u8, 1..200_u64, 0..4_u32), 0..200)) {
            let mut space = Space::new(100);
            let mut taken: Vec<(u64, u64)> = vec![(0, 100)];
            for (step, number, align) in steps {
                match step {
                    0 | 1 => {
                        let at = space.take(number, 1 << align).unwrap();
                        prop_assert_eq!(at % (1 << align), 0);
                        taken.push((at, number));
                    }
                    _ if taken.len() > 1 => {
                        let index = 1 + number as usize % (taken.len() - 1);
                        let (at, len) = taken.remove(index);
                        space.give(at, len);
                    }
                    _ => {}
                }
                let mut sorted = taken.clone();
                sorted.sort_unstable();
                for pair in sorted.windows(2) {
                    prop_assert!(pair[0].0 + pair[0].1 <= pair[1].0);
                }
                let end = sorted.last().map_or(0, |(at, len)| at + len);
                prop_assert!(end <= space.used());
            }
            for (at, len) in taken.drain(1..) {
                space.give(at, len);
            }
            prop_assert_eq!(space.used(), 100);
        }
    }

    #[test]
    fn nothing_takes_the_slot() {
        let mut space = Space::new(100);
        assert_eq!(space.raise_end(163), None);
        let end = space.raise_end(1100).unwrap();
        assert_eq!((end, space.has_slot(end), space.has_slot(end + SLOT)), (1088, true, false));
        assert_eq!(space.take(900, 1), Some(100));
        assert!(space.has_slot(end));
        assert_eq!(space.take(500, 1), Some(end));
        assert!(!space.has_slot(end));
        assert_eq!(space.raise_end(2000), Some(1984));
        assert_eq!(space.take(20, 1), Some(1000));
    }

    #[test]
    fn headers_have_lines_of_their_own() {
        let mut space = Space::new(97);
        let found: Vec<u64> = (0..6).map(|_| space.take_header().unwrap()).collect();
        assert_eq!(found, [128, 192, 256, 320, 384, 448]);
        assert_eq!(space.used(), 128 + FIRST_HEADERS + HEADERS);
    }

    #[test]
    fn space_that_was_used_is_not_clean() {
        let mut space = Space::new(16);
        assert_eq!(space.take_clean(8, 8), Some((16, 0)));
        space.give(16, 8);
        assert_eq!(space.take_clean(24, 8), Some((16, 8)));
        space.has_bytes_up_to(100);
        assert_eq!(space.take_clean(80, 8), Some((40, 60)));
        assert_eq!(space.take_clean(8, 8), Some((120, 0)));
    }

    #[test]
    fn nothing_is_free_during_a_flush() {
        let mut space = Space::new(0);
        let at = space.take(10, 1).unwrap();
        space.is_flushing = true;
        space.give(at, 10);
        assert_eq!(space.used(), 10);
        assert_eq!(space.take(u64::MAX, 1), None);
    }
}
