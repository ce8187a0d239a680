//! Reads ranges of objects. Results of several requests are of one version, or are read again.

use crate::client::{Contents, Fetched, Wanted};
use crate::failure::Failure;
use crate::opened::RemoteOpened;
use crate::ranges;
use crate::store::{Fetching, RemoteStore};
use hyperslab_store::{Key, Operation, RangeRead, Result, StoreError};
use object_store::path::Path;
use std::ops::Range;

/// Checks the result of a range request before it is used.
type Check<'c> = &'c mut dyn FnMut(&Range<u64>, &Fetched) -> Result<(), Failure>;

impl RemoteStore {
    /// Waits for requests, and copies their results into the caller's ranges.
    ///
    /// `check` sees each result before that. Starts and ends of the requests must ascend. Requests
    /// that no range needs are not waited for.
    pub(crate) fn gather(
        &self,
        key: &str,
        fetching: &[(Range<u64>, &Fetching)],
        ranges: &mut [RangeRead<'_>],
        check: Check<'_>,
    ) -> Result<Result<(), Failure>> {
        let takers = takers(fetching.iter().map(|(piece, _)| piece), ranges);
        for ((piece, running), takers) in fetching.iter().zip(takers).filter(|(_, takers)| !takers.is_empty())
        {
            match self.fetched(running, key)? {
                Err(failure) => return Ok(Err(failure.clone())),
                Ok(fetched) => {
                    if let Err(failure) = check(piece, fetched) {
                        return Ok(Err(failure));
                    }
                    for n in takers {
                        if let Some(RangeRead { offset, buf }) = ranges.get_mut(n) {
                            fetched.copy_to(*offset, buf);
                        }
                    }
                }
            }
        }
        Ok(Ok(()))
    }

    /// Fails if a range ends past the end of an object of this size.
    pub(crate) fn check_ranges(&self, key: &str, size: u64, ranges: &[RangeRead<'_>]) -> Result<()> {
        for RangeRead { offset, buf } in ranges.iter().filter(|range| !range.buf.is_empty()) {
            let len = buf.len() as u64;
            if offset.checked_add(len).is_none_or(|end| end > size) {
                return Err(StoreError::out_of_range(self, key, *offset, len, size));
            }
        }
        Ok(())
    }

    /// Tries [`Store::read_ranges`] once, with concurrent requests.
    ///
    /// Returns `Ok(None)` if the object was replaced between two of them.
    pub(crate) fn read_once(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<Option<Option<Contents>>> {
        let path = self.path(key)?;
        let wanted =
            ranges.iter().map(|range| range.offset..range.offset.saturating_add(range.buf.len() as u64));
        let gap = self.0.process.meter.request();
        let requests = ranges::requests(wanted, gap, self.settings().largest);
        if requests.is_empty() {
            let Some(contents) = self.head(key, Operation::Read)? else { return Ok(Some(None)) };
            self.check_size(key.as_str(), size, contents.size)?;
            // A range that begins past any possible end is empty here.
            self.check_ranges(key.as_str(), contents.size, ranges)?;
            return Ok(Some(Some(contents)));
        }
        let started: Vec<_> = requests
            .into_iter()
            .map(|range| (range.clone(), self.fetch(path.clone(), Wanted::Bounded(range), None)))
            .collect();
        let fetching: Vec<_> = started.iter().map(|(range, running)| (range.clone(), running)).collect();
        let mut first: Option<Contents> = None;
        let mut check = |_: &Range<u64>, fetched: &Fetched| match &first {
            Some(first) if !first.is(&fetched.contents) => Err(Failure::Condition),
            Some(_) => Ok(()),
            None => {
                first = Some(fetched.contents.clone());
                Ok(())
            }
        };
        let done = self.gather(key.as_str(), &fetching, ranges, &mut check)?;
        match done {
            Ok(()) => {
                if let Some(contents) = &first {
                    self.check_size(key.as_str(), size, contents.size)?;
                    self.check_ranges(key.as_str(), contents.size, ranges)?;
                }
                Ok(Some(first))
            }
            Err(Failure::Condition) => Ok(None),
            // Deleted between two requests: start again and find it missing.
            Err(Failure::Missing) if first.is_some() => Ok(None),
            Err(Failure::Missing) => Ok(Some(None)),
            Err(failure) => Err(self.error(Operation::Read, key.as_str(), &failure)),
        }
    }

    /// Waits for `fetching`, and returns the open object.
    pub(crate) fn opened(
        &self,
        key: Key<'_>,
        path: Path,
        fetching: Fetching,
        size: Option<u64>,
    ) -> Result<Option<RemoteOpened>> {
        let contents = match self.fetched(&fetching, key.as_str())? {
            Ok(fetched) => fetched.contents.clone(),
            Err(Failure::Missing) => {
                self.0.refusals.note_contents(path.as_ref(), None);
                return Ok(None);
            }
            Err(failure) => return Err(self.error(Operation::Read, key.as_str(), failure)),
        };
        self.0.refusals.note_contents(path.as_ref(), Some(&contents));
        self.check_size(key.as_str(), size, contents.size)?;
        Ok(Some(RemoteOpened::new(self.clone(), key.as_str(), path, contents, fetching)))
    }

    /// Like [`Store::open`], and fetches the range to be read next.
    pub(crate) fn open_next(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        wanted: Wanted,
    ) -> Result<Option<RemoteOpened>> {
        let path = self.path(key)?;
        let fetching = self.fetch(path.clone(), wanted, None);
        self.opened(key, path, fetching, size)
    }
}

/// For each piece, the indices of the ranges that need part of it.
///
/// Starts and ends of the pieces must ascend.
pub(crate) fn takers<'p>(
    pieces: impl Iterator<Item = &'p Range<u64>>,
    ranges: &[RangeRead<'_>],
) -> Vec<Vec<usize>> {
    let pieces: Vec<&Range<u64>> = pieces.collect();
    let mut takers: Vec<Vec<usize>> = vec![Vec::new(); pieces.len()];
    for (n, range) in ranges.iter().enumerate().filter(|(_, range)| !range.buf.is_empty()) {
        let end = range.offset.saturating_add(range.buf.len() as u64);
        let first = pieces.partition_point(|piece| piece.end <= range.offset);
        let near = pieces.iter().zip(&mut takers).skip(first);
        near.take_while(|(piece, _)| piece.start < end).for_each(|(_, takers)| takers.push(n));
    }
    takers
}
