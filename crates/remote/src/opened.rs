//! An open object: its contents at the time of opening, and the bytes received so far.

use crate::client::{Contents, Fetched, Wanted};
use crate::failure::Failure;
use crate::marks::Marks;
use crate::ranges;
use crate::read::takers;
use crate::store::{Fetching, RemoteStore};
use hyperslab_store::fork::Mutex;
use hyperslab_store::{Lent, Opened, Operation, RangeRead, Result, Stamp, StoreError, Version};
use object_store::path::Path;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Most bytes per object that are announced but not yet read. Sizes come from indexes, which may be
/// wrong. Ranges beyond the limit are fetched when they are read.
const ANNOUNCED: u64 = 1 << 30;

/// A requested range.
struct RequestedRange {
    range: Range<u64>,
    fetching: Fetching,
    /// Wanted bytes that have not been read yet.
    unread: AtomicU64,
    /// True if the piece is kept after reading, because it arrived with the opening.
    kept: bool,
}

/// An open object.
pub(crate) struct RemoteOpened {
    store: RemoteStore,
    key: String,
    path: Path,
    contents: Contents,
    /// Gated. Unordered.
    pieces: Mutex<Vec<Arc<RequestedRange>>>,
}

impl fmt::Debug for RemoteOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteOpened").field("key", &self.key).field("size", &self.contents.size).finish()
    }
}

impl RemoteOpened {
    /// Creates an open object. `fetching` must be done.
    pub(crate) fn new(
        store: RemoteStore,
        key: &str,
        path: Path,
        contents: Contents,
        fetching: Fetching,
    ) -> Self {
        let range = match fetching.wait() {
            Ok(Ok(fetched)) => fetched.range.clone(),
            _ => 0..0,
        };
        let first = RequestedRange { range, fetching, unread: AtomicU64::new(0), kept: true };
        let pieces = Mutex::new(vec![Arc::new(first)]);
        RemoteOpened { store, key: key.to_owned(), path, contents, pieces }
    }

    /// The same contents, with the bytes that arrived with the opening.
    pub(crate) fn reopen(&self) -> RemoteOpened {
        let pieces = self.pieces().into_iter().filter(|piece| piece.kept).collect();
        let (store, contents) = (self.store.clone(), self.contents.clone());
        RemoteOpened {
            store,
            key: self.key.clone(),
            path: self.path.clone(),
            contents,
            pieces: Mutex::new(pieces),
        }
    }

    /// Starts requests for parts of `wanted` that `pieces` do not contain.
    ///
    /// Makes at most about `most` requests, if joining nearby ranges suffices for that.
    fn start(
        &self,
        wanted: impl Iterator<Item = Range<u64>>,
        pieces: &[Arc<RequestedRange>],
        most: usize,
    ) -> Vec<Arc<RequestedRange>> {
        let have: Vec<Range<u64>> = pieces.iter().map(|piece| piece.range.clone()).collect();
        let missing: Vec<Range<u64>> =
            wanted.flat_map(|range| ranges::missing_ranges(range, &have)).collect();
        let settings = self.store.settings();
        let longest = self.store.0.process.meter.request();
        let gap = || ranges::gap(&missing, most.min(settings.concurrency), longest);
        let gap = settings.gap.unwrap_or_else(gap);
        let requests = ranges::requests(missing.iter().cloned(), gap, settings.largest);
        let start = |range: Range<u64>| {
            let of = Some(self.contents.clone());
            let fetching = self.store.fetch(self.path.clone(), Wanted::Bounded(range.clone()), of);
            // The bytes between the wanted ranges do not count.
            let wanted = missing.iter().map(|wanted| ranges::overlap(wanted, &range));
            let unread = AtomicU64::new(wanted.fold(0, u64::saturating_add).min(range.end - range.start));
            Arc::new(RequestedRange { range, fetching, unread, kept: false })
        };
        requests.into_iter().map(start).collect()
    }

    /// Returns whether these are the contents that were opened.
    pub(crate) fn is(&self, now: &Contents) -> bool {
        self.contents.is(now)
    }

    /// Returns whether all of a range has arrived or is in flight.
    pub(crate) fn has(&self, offset: u64, len: u64) -> bool {
        let have: Vec<Range<u64>> = self.pieces().iter().map(|piece| piece.range.clone()).collect();
        ranges::missing_ranges(offset..offset.saturating_add(len), &have).is_empty()
    }

    /// Notes how many bytes of pieces were read.
    ///
    /// The memory of a piece is freed as soon as everything announced in it has been read once.
    fn was_read(&self, pieces: &[(&Arc<RequestedRange>, u64)]) {
        for (piece, read) in pieces {
            let _ = piece.unread.fetch_update(Relaxed, Relaxed, |unread| Some(unread.saturating_sub(*read)));
        }
        let done: Vec<Arc<RequestedRange>> = {
            let mut pieces = self.pieces.lock();
            pieces.extract_if(.., |piece| !piece.kept && piece.unread.load(Relaxed) == 0).collect()
        };
        drop(done);
    }

    /// The pieces that can still be waited for. A parent's pieces never arrive.
    fn pieces(&self) -> Vec<Arc<RequestedRange>> {
        let mut pieces = self.pieces.lock();
        pieces.retain(|piece| !piece.fetching.is_of_parent());
        pieces.clone()
    }
}

impl Opened for RemoteOpened {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.store.check_ranges(&self.key, self.contents.size, ranges)?;
        let mut pieces = self.pieces();
        let range_of = |range: &RangeRead<'_>| range.offset..range.offset + range.buf.len() as u64;
        pieces.extend(self.start(ranges.iter().map(range_of), &pieces, usize::MAX));
        // Concurrent readers may have requested the same range twice.
        pieces.sort_by_key(|piece| (piece.range.start, std::cmp::Reverse(piece.range.end)));
        let mut end = 0;
        pieces.retain(|piece| {
            let more = piece.range.end > end;
            end = end.max(piece.range.end);
            more
        });
        let mut check = |range: &Range<u64>, fetched: &Fetched| {
            let whole = self.contents.is(&fetched.contents) && fetched.range == *range;
            if whole { Ok(()) } else { Err(Failure::Condition) }
        };
        let fetching: Vec<_> = pieces.iter().map(|piece| (piece.range.clone(), &piece.fetching)).collect();
        match self.store.gather(&self.key, &fetching, ranges, &mut check)? {
            Ok(()) => {}
            Err(Failure::Missing) => return Err(changed_error(&self.store, &self.key)),
            Err(failure) => return Err(self.store.error(Operation::Read, &self.key, &failure)),
        }
        let takers = takers(pieces.iter().map(|piece| &piece.range), ranges);
        let read = |(piece, takers): (&Arc<RequestedRange>, Vec<usize>)| {
            let ranges = takers.iter().filter_map(|n| ranges.get(*n)).map(range_of);
            ranges.map(|range| ranges::overlap(&range, &piece.range)).sum()
        };
        let counts = pieces.iter().zip(takers).map(read);
        self.was_read(&pieces.iter().zip(counts).collect::<Vec<_>>());
        Ok(())
    }

    fn announce(&self, ranges: &[(u64, u64)], requests: usize) {
        let size = self.contents.size;
        let pieces = self.pieces();
        let mut left = ANNOUNCED;
        let inside = ranges.iter().filter_map(|(offset, len)| {
            let end = offset.checked_add(*len).filter(|end| *end <= size)?;
            left = left.checked_sub(*len)?;
            Some(*offset..end)
        });
        let started = self.start(inside, &pieces, requests);
        self.pieces.lock().extend(started);
    }

    fn has_arrived(&self, offset: u64, len: u64, most: Duration) -> bool {
        let wanted = offset..offset.saturating_add(len);
        let coming = |piece: &&Arc<RequestedRange>| {
            ranges::overlap(&piece.range, &wanted) > 0 && !piece.fetching.is_over()
        };
        let start = Instant::now();
        loop {
            let Some(piece) = self.pieces.lock().iter().find(coming).cloned() else { return true };
            let left = most.saturating_sub(start.elapsed());
            if left.is_zero() || !piece.fetching.wait_at_most(left) {
                return false;
            }
        }
    }

    fn lend(&self, offset: u64, len: u64) -> Result<Option<Lent>> {
        let wanted = offset..offset.saturating_add(len);
        let pieces = self.pieces();
        let Some(piece) = pieces.iter().find(|piece| ranges::contains(&piece.range, &wanted)) else {
            return Ok(None);
        };
        let lent = match self.store.fetched(&piece.fetching, &self.key)? {
            Ok(fetched) if self.is(&fetched.contents) && fetched.range == piece.range => {
                fetched.in_one_piece(&wanted)
            }
            // The read reports any failure.
            _ => None,
        };
        if lent.is_some() {
            self.was_read(&[(piece, len)]);
        }
        Ok(lent.map(|bytes| Arc::new(bytes) as Lent))
    }

    fn size(&self) -> u64 {
        self.contents.size
    }

    fn stamp(&self) -> Option<Stamp> {
        self.store.stamp_of(&self.key, &self.contents)
    }

    fn vouched(&self) -> Option<Stamp> {
        // Every read returned bytes of these contents, or an error.
        self.stamp()
    }

    fn version(&self) -> Option<Version<'_>> {
        let Contents { number, marks, .. } = &self.contents;
        let marks = marks.as_ref().map(Marks::as_str);
        Some(Version { tag: self.contents.strong_tag(), number: number.as_deref(), marks })
    }
}

/// The error for an object that has changed since it was opened.
pub(crate) fn changed_error(store: &RemoteStore, key: &str) -> StoreError {
    store.error(Operation::Read, key, &Failure::Condition)
}

#[cfg(test)]
mod tests {
    use crate::client::Wanted;
    use crate::testing::in_memory;
    use hyperslab_store::{Key, Opened, RangeRead, Store};
    use std::time::Duration;

    /// Nearby ranges become one request if few are allowed. Bytes are dropped once read, even if
    /// nobody reads the bytes in between.
    #[test]
    fn what_was_announced_goes_when_it_was_read() {
        let store = in_memory();
        let key = Key::new("x").unwrap();
        let bytes: Vec<u8> = (0..70_000u32).map(|n| (n % 251) as u8).collect();
        store.write(key, &[&bytes]).unwrap();
        let ranges = [(5, 10), (20_000, 7), (40_000, 3), (60_000, 1)];
        // This store makes no request longer than 50 000 bytes.
        for (requests, pieces) in [(1, 2), (64, 4)] {
            let opened = store.open_next(key, None, Wanted::Bounded(0..1)).unwrap().unwrap();
            opened.announce(&ranges, requests);
            assert_eq!(opened.pieces().len(), 1 + pieces);
            // Bytes that nobody announced are not waited for.
            assert!(opened.has_arrived(69_000, 10, Duration::ZERO));
            for (offset, len) in ranges {
                assert!(opened.has_arrived(offset, len, Duration::from_secs(10)));
                assert!(opened.has_arrived(offset, len, Duration::ZERO), "it has come before");
                let mut buf = vec![0; len as usize];
                opened.read_ranges(&mut [RangeRead { offset, buf: &mut buf }]).unwrap();
                assert_eq!(buf, bytes[offset as usize..][..len as usize]);
            }
            assert_eq!(opened.pieces().len(), 1, "what came when it was opened stays");
        }
    }
}
