//! Space in a file that is being changed.
//!
//! Only space that no flushed structure refers to is handed out again: a reader of the file on
//! disk never sees it change.
//!
//! Several writers may have the file open. Each has a part of its own, up to a limit, and free
//! ranges. A new part comes from the end of the file ([`shared`](super::shared)).

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
    /// The end of the part that this writer may use.
    limit: u64,
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
}

/// No file is longer.
const LONGEST: u64 = i64::MAX.cast_unsigned();

impl Space {
    /// Makes the space of a new file, which nobody else writes.
    pub fn new(used: u64) -> Space {
        Space { limit: LONGEST, ..Space::shared(used) }
    }

    /// Makes the space of a file that others may write, too. It has no part yet.
    pub fn shared(used: u64) -> Space {
        let next_headers = if used < HEADERS { FIRST_HEADERS } else { HEADERS };
        Space {
            used,
            limit: used,
            clean_from: used,
            free: BTreeMap::new(),
            headers: (0, 0),
            next_headers,
            is_flushing: false,
        }
    }

    /// The end of the used part.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The end of the part that this writer may use.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes from here on, up to the limit, were never used.
    pub fn clean_from(&self) -> u64 {
        self.clean_from.clamp(self.used, self.limit)
    }

    /// Ends the part of this writer behind the used one. Returns its end.
    pub fn end_part(&mut self) -> u64 {
        self.limit = self.used;
        self.used
    }

    /// Adds a part from `start` to `end`, whose bytes are zero.
    pub fn add_part(&mut self, start: u64, end: u64) {
        if start != self.limit {
            let (old, len) = (self.used, self.limit.saturating_sub(self.used));
            // Not below the used part: there is another writer's part in between.
            self.used = start;
            if len > 0 {
                self.free.insert(old, len);
            }
            self.clean_from = start;
        }
        self.limit = end;
    }

    /// The free ranges.
    pub fn free_ranges(&self) -> Vec<(u64, u64)> {
        self.free.iter().map(|(start, len)| (*start, *len)).collect()
    }

    /// Adds ranges that were free when the file was closed.
    pub fn add_free(&mut self, ranges: Vec<(u64, u64)>) {
        ranges.into_iter().for_each(|(start, len)| self.put_free(start, len));
    }

    /// Takes `len` bytes at a multiple of `align`. `None`: the part of this writer has no room.
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
        let at = self.used.checked_next_multiple_of(align)?;
        let end = at.checked_add(len).filter(|end| *end <= self.limit)?;
        self.put_free(self.used, at - self.used);
        self.used = end;
        self.clean_from = self.clean_from.max(end);
        Some(at)
    }

    /// Like [`Space::take`]. Also returns how many of the bytes, from the first, may not be zero.
    pub fn take_clean(&mut self, len: u64, align: u64) -> Option<(u64, u64)> {
        let clean_from = self.clean_from;
        let at = self.take(len, align)?;
        Some((at, clean_from.saturating_sub(at).min(len)))
    }

    /// Takes the place of an object's header, like [`Space::take`].
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
    fn parts_follow_each_other_or_not() {
        let mut space = Space::shared(100);
        assert_eq!(space.take(8, 8), None);
        space.add_part(100, 200);
        assert_eq!((space.take(50, 8), space.take(60, 8)), (Some(104), None));
        space.add_part(200, 300);
        assert_eq!(space.take(60, 8), Some(160));
        // Another writer has taken a part: the rest is used for something that fits.
        space.add_part(400, 600);
        assert_eq!((space.take(90, 8), space.take(70, 8)), (Some(400), Some(224)));
        assert_eq!(space.take_clean(8, 8), Some((496, 0)));
        assert_eq!((space.limit(), space.end_part(), space.limit()), (600, 504, 504));
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
        assert_eq!(space.take_clean(80, 8), Some((40, 0)));
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
