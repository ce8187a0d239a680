//! Reads many structures in one request: the nodes of a tree level, the blocks of an array.

use crate::cursor::to_usize;
use crate::source::LARGEST;
use crate::{Cursor, ParseError, Parsed, Result, Source};
use hyperslab_store::RangeRead;
use std::ops::Range;

/// Largest batch in bytes of structures that are read once and may be far apart.
const BATCH: u64 = 16 << 20;

/// Structures with a smaller gap become one read. Reading the gap costs less than a second read.
const GAP: u64 = 8 << 10;

impl Source {
    /// Parses the structures at many addresses, like [`Source::parse`]. `places` holds addresses
    /// and guessed sizes.
    ///
    /// Fetches the structures together and caches no pages, because each structure is read only
    /// once. `parse` also gets the index into `places`. It may be called twice, so it must have no
    /// effect until it has all bytes.
    pub fn parse_many(
        &self,
        structure: &'static str,
        places: &[(u64, u64)],
        mut parse: impl FnMut(usize, &mut Cursor<'_>) -> Parsed<()>,
    ) -> Result<()> {
        let (mut rest, mut place) = (places, 0);
        let mut buffer = Vec::new();
        while !rest.is_empty() {
            let mut total = 0u64;
            let fits = |(_, guess): &&(u64, u64)| {
                let first = total == 0;
                total = total.saturating_add(*guess).saturating_add(GAP);
                first || total <= BATCH
            };
            let (batch, later) = rest.split_at(rest.iter().take_while(fits).count());
            let found = self.fetch_many(batch, &mut buffer)?;
            for ((address, guess), found) in batch.iter().zip(found) {
                self.go_on()?;
                let there = buffer.get(found).unwrap_or_default();
                let mut cursor = self.first(there, *address);
                let outcome = parse(place, &mut cursor);
                if outcome.is_ok() {
                    self.note(structure, *address, cursor.position() as u64, 0);
                }
                match outcome {
                    // The structure was not fetched because its pages are in memory, or it is
                    // longer than guessed.
                    Err(ParseError::Need(needed)) => {
                        let guess = to_usize(needed.max(*guess));
                        let again = self.parse(structure, *address, guess, |cursor| parse(place, cursor));
                        again.or_else(|error| self.lose(error))?;
                    }
                    Ok(()) => {}
                    answer => {
                        let wrong = |why| self.lose(self.parse_error(structure, *address, there, why));
                        answer.or_else(wrong)?;
                    }
                }
                place += 1;
            }
            rest = later;
        }
        Ok(())
    }

    /// Fetches many structures (address, length) in one request. Returns their ranges in `buffer`.
    ///
    /// A range is empty if all pages are in memory, or if the structure is out of bounds.
    fn fetch_many(&self, places: &[(u64, u64)], buffer: &mut Vec<u8>) -> Result<Vec<Range<usize>>> {
        let mut found = vec![0..0; places.len()];
        let mut wanted = Vec::new();
        {
            let pages = self.lock();
            for (place, (address, len)) in places.iter().enumerate() {
                let start = address.saturating_add(self.base());
                let end = start.saturating_add(*len).min(self.size());
                if start < end && end - start <= LARGEST && !pages.have(start, end) {
                    wanted.push((start, end, place));
                }
            }
        }
        if !wanted.is_sorted() {
            wanted.sort_unstable();
        }
        // Start and end in the file of each run of structures that is one read.
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut total = 0;
        for (start, end, place) in wanted {
            match runs.last_mut() {
                Some((_, last)) if start <= last.saturating_add(GAP) => {
                    total += end.saturating_sub(*last);
                    *last = end.max(*last);
                }
                _ => {
                    runs.push((start, end));
                    total += end - start;
                }
            }
            // Count back from the end of the run so far.
            let run_end = runs.last().map_or(end, |run| run.1);
            let (back, len) = (to_usize(run_end - start), to_usize(end - start));
            if let Some(found) = found.get_mut(place) {
                let from = to_usize(total) - back;
                *found = from..from + len;
            }
        }
        if runs.is_empty() {
            return Ok(found);
        }
        let failed = |_| self.invalid(format!("no memory for {total} bytes of metadata"));
        buffer.try_reserve(to_usize(total).saturating_sub(buffer.len())).map_err(failed)?;
        buffer.resize(to_usize(total), 0);
        let mut ranges = Vec::with_capacity(runs.len());
        let mut free = buffer.as_mut_slice();
        for (start, end) in runs {
            let (buf, later) = free.split_at_mut(to_usize(end - start));
            ranges.push(RangeRead { offset: start, buf });
            free = later;
        }
        for some in ranges.chunks_mut(self.runs()) {
            self.go_on()?;
            self.fetch_ranges(some)?;
        }
        Ok(found)
    }
}
