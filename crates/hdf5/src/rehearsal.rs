//! Rehearsals: find out which bytes a read of metadata needs before it happens. For stores far
//! away.
//!
//! Structures point to other structures, so reads of metadata depend on each other. On a server,
//! one read takes as long as a hundred concurrent reads. A rehearsal therefore runs parsers on the
//! bytes in memory:
//!
//! 1. A parser that needs more bytes ends with an error. The missing range is noted.
//! 2. The missing ranges of all parsers are fetched together, in one round. Pages that probably
//!    belong to them come too ([`rows`](crate::rows)).
//! 3. The parsers run again and get one structure farther. Any number of objects thus takes as many
//!    rounds as the longest chain of structures in one of them.
//!
//! Parsers are unaware of rehearsals: [`Source`] calls [`note`] before it reads from the store.

use crate::{Result, Source};
use hyperslab_store::RangeRead;
use std::cell::RefCell;

/// Most rounds of one [`Source::foresee`]. Longer chains of structures occur in damaged files or in
/// few objects. They are read one by one.
const ROUNDS: usize = 8;

/// A range of the file: offset and number of bytes.
pub(crate) type Noted = (u64, u64);

/// The current rehearsal of a thread.
struct Rehearsal {
    /// Identifies the file by the address of its [`Source`] in memory.
    source: usize,
    notes: Vec<Noted>,
}

thread_local! {
    static REHEARSAL: RefCell<Option<Rehearsal>> = const { RefCell::new(None) };
}

/// Ends the rehearsal, even if a parser panics.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        REHEARSAL.set(None);
    }
}

/// Returns `true` if this thread is in a rehearsal.
pub(crate) fn is_on() -> bool {
    REHEARSAL.with_borrow(Option::is_some)
}

/// Notes ranges that would be read. `false`: there is no rehearsal, so read them.
pub(crate) fn note(source: &Source, ranges: &[RangeRead<'_>]) -> bool {
    REHEARSAL.with_borrow_mut(|rehearsal| {
        let Some(rehearsal) = rehearsal else { return false };
        if rehearsal.source == std::ptr::from_ref(source).addr() {
            rehearsal.notes.extend(ranges.iter().map(|range| (range.offset, range.buf.len() as u64)));
        }
        true
    })
}

impl Source {
    /// Runs `work` without reading. Returns the ranges that it would have read.
    pub(crate) fn rehearse(&self, work: impl FnOnce()) -> Vec<Noted> {
        let source = std::ptr::from_ref(self).addr();
        REHEARSAL.set(Some(Rehearsal { source, notes: Vec::new() }));
        let _end = End;
        work();
        REHEARSAL.take().map(|rehearsal| rehearsal.notes).unwrap_or_default()
    }

    /// Fetches the bytes that `work` will read, in few rounds. `work` then finds nearly all in
    /// memory.
    ///
    /// `work` runs several times, and its errors are ignored. Independent parts of it should go on
    /// after each other's errors. Does nothing if the store is near.
    pub(crate) fn foresee(&self, mut work: impl FnMut()) -> Result<()> {
        if !self.prefers_rounds() {
            return Ok(());
        }
        if is_on() {
            work();
            return Ok(());
        }
        let mut left = self.prefetch_limit();
        for _ in 0..ROUNDS {
            let mut noted = self.rehearse(&mut work);
            noted.extend(self.neighbouring_ranges(&noted));
            let fetched = self.fetch_pages(&noted, left)?;
            left = left.saturating_sub(fetched);
            if fetched == 0 || left == 0 {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{is_on, note};
    use crate::testing::{FarStore, says, source};
    use crate::{Result, Source};
    use std::cell::Cell;
    use std::sync::Arc;

    /// Chains of numbers that start at 0, 8, …. Each number is the address of the next, 1 MiB apart
    /// from all others. The last one, after `steps`, is 0.
    fn chains(count: u64, steps: u64) -> Vec<u8> {
        let at = |chain: u64, step: u64| (step * count + chain) << 20;
        let mut bytes = vec![0; at(0, steps + 1) as usize];
        for chain in 0..count {
            let place = |step| if step == 0 { (8 * chain) as usize } else { at(chain, step) as usize };
            for step in 0..steps {
                bytes[place(step)..place(step) + 8].copy_from_slice(&at(chain, step + 1).to_le_bytes());
            }
        }
        bytes
    }

    fn follow(source: &Source, chain: u64) -> Result<u64> {
        let (mut at, mut steps) = (8 * chain, 0);
        loop {
            match source.parse("number", at, 8, |cursor| cursor.u64())? {
                0 => return Ok(steps),
                next => (at, steps) = (next, steps + 1),
            }
        }
    }

    #[test]
    fn many_chains_take_the_rounds_of_one() {
        let store = FarStore::new(&chains(20, 3));
        let source = Source::new(store.clone(), "f", 0).unwrap();
        source.foresee(|| (0..20).for_each(|chain| drop(follow(&source, chain)))).unwrap();
        assert_eq!(store.take_rounds(), 4);
        assert!((0..20).all(|chain| follow(&source, chain).unwrap() == 3));
        source.foresee(|| (0..20).for_each(|chain| drop(follow(&source, chain)))).unwrap();
        assert_eq!(store.take_rounds(), 0);
    }

    #[test]
    fn near_stores_are_not_asked() {
        let near = source(&chains(2, 1));
        near.foresee(|| panic!("not rehearsed")).unwrap();
        near.announce(&[(0, 8)]).unwrap();
        assert_eq!(near.reads(), 0);
    }

    #[test]
    fn rounds_and_pages_are_bounded() {
        let long = FarStore::new(&chains(1, 40));
        let source = Source::new(long.clone(), "f", 0).unwrap();
        source.foresee(|| drop(follow(&source, 0))).unwrap();
        assert_eq!(long.take_rounds(), super::ROUNDS);
        assert_eq!(follow(&source, 0).unwrap(), 40);
        // One page more than may be prefetched.
        let wide = FarStore::new(&vec![0; 20 << 20]);
        let source = Source::new(wide.clone(), "f", 0).unwrap();
        let all = || (0..257).for_each(|page| drop(source.read("x", page << 16, 1)));
        source.foresee(all).unwrap();
        assert_eq!(wide.take_rounds(), 1);
        all();
        assert_eq!(wide.take_rounds(), 1);
    }

    #[test]
    fn rehearsals_read_nothing_and_end() {
        let (here, there) = (FarStore::new(&[1; 100]), FarStore::new(&[2; 100]));
        let [this, other] = [&here, &there].map(|store| Source::new(Arc::clone(store) as _, "f", 0).unwrap());
        let inner = Cell::new(0);
        let noted = this.rehearse(|| {
            says(this.read("x", 5, 1).unwrap_err(), "interrupted");
            // Reads of another file fail and are not noted.
            assert!(other.read("x", 5, 1).is_err());
            this.foresee(|| inner.set(inner.get() + 1)).unwrap();
        });
        assert_eq!((noted, inner.get(), here.take_rounds() + there.take_rounds()), (vec![(0, 100)], 1, 0));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            this.rehearse(|| panic!("in a parser"));
        }));
        assert!(panicked.is_err() && !is_on() && !note(&this, &[]));
        assert_eq!(*this.read("x", 5, 1).unwrap(), [1]);
    }
}
