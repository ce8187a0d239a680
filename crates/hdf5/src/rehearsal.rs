//! Rehearsals: what will be read is found out before it is read, for stores far away.
//!
//! Structures lead to others, so reads of metadata follow one another. On a server each of them takes
//! as long as a hundred together. A rehearsal runs parsers on what is in memory:
//!
//! 1. A parser that needs more ends with an error, and the range that it needed is noted.
//! 2. What many parsers needed is fetched together, in one round.
//! 3. They run again, and get one structure farther. So many objects take as many rounds as the
//!    longest chain of structures in one of them.
//!
//! Parsers do not know of it: [`Source`] asks [`note`] where it would read from the store.

use crate::{Result, Source};
use hyperslab_store::RangeRead;
use std::cell::RefCell;

/// Rounds of one [`Source::foresee`]. Longer chains of structures are damaged files, or few objects:
/// they are read as everywhere.
const ROUNDS: usize = 8;

/// A range of the file: offset and bytes.
pub(crate) type Noted = (u64, u64);

/// The rehearsal of a thread.
struct Rehearsal {
    /// Tells the file from others: where its [`Source`] is in memory.
    source: usize,
    noted: Vec<Noted>,
}

thread_local! {
    static REHEARSAL: RefCell<Option<Rehearsal>> = const { RefCell::new(None) };
}

/// Ends the rehearsal, also where a parser panics.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        REHEARSAL.set(None);
    }
}

/// Whether this thread rehearses.
pub(crate) fn is_on() -> bool {
    REHEARSAL.with_borrow(Option::is_some)
}

/// Notes what would be read. `false`: this is no rehearsal, read it.
pub(crate) fn note(source: &Source, ranges: &[RangeRead<'_>]) -> bool {
    REHEARSAL.with_borrow_mut(|rehearsal| {
        let Some(rehearsal) = rehearsal else { return false };
        if rehearsal.source == std::ptr::from_ref(source).addr() {
            rehearsal.noted.extend(ranges.iter().map(|range| (range.offset, range.buf.len() as u64)));
        }
        true
    })
}

impl Source {
    /// Runs `work` without reading. Returns the ranges that it would have read.
    pub(crate) fn rehearse(&self, work: impl FnOnce()) -> Vec<Noted> {
        let source = std::ptr::from_ref(self).addr();
        REHEARSAL.set(Some(Rehearsal { source, noted: Vec::new() }));
        let _end = End;
        work();
        REHEARSAL.take().map(|rehearsal| rehearsal.noted).unwrap_or_default()
    }

    /// Fetches what `work` will read, in few rounds, so that it finds nearly all of that in memory.
    /// `work` runs several times; its errors mean nothing. Parts of it that do not need each other
    /// should not stop at each other's errors. Does nothing if the store is near.
    pub(crate) fn foresee(&self, mut work: impl FnMut()) -> Result<()> {
        if !self.is_far() {
            return Ok(());
        }
        if is_on() {
            work();
            return Ok(());
        }
        let mut left = self.foreseen();
        for _ in 0..ROUNDS {
            let noted = self.rehearse(&mut work);
            let fetched = self.fetch_pages(&noted, left)?;
            left = left.saturating_sub(fetched);
            if fetched == 0 || left == 0 {
                break;
            }
        }
        Ok(())
    }
}
