//! Open objects.

use crate::{Result, Stamp, Version};
#[cfg(doc)]
use crate::{Store, StoreError};
use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// One byte range to read, and the memory for it (`buf.len()` bytes from `offset`).
#[derive(Debug)]
pub struct RangeRead<'a> {
    /// Bytes from the start of the object.
    pub offset: u64,
    /// Receives the bytes. Filled completely unless an error is returned.
    pub buf: &'a mut [u8],
}

/// An open object. Reads see the contents at the time of opening, even if the object is replaced
/// later.
pub trait Opened: Send + Sync + Debug {
    /// Reads ranges, with the errors of [`Store::read_ranges`].
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()>;

    /// Announces the next ranges for [`Opened::read_ranges`], each as offset and length.
    ///
    /// A remote store starts to fetch the ranges. The caller can then announce ranges of other
    /// objects, so that all of them together take the time of one request. `requests` is this
    /// object's share of the concurrent requests. The store joins nearby ranges until it needs no
    /// more requests than that, unless the longer reads cost more than another request. Errors
    /// appear when the ranges are read. The default does nothing, for stores that answer at once.
    fn announce(&self, ranges: &[(u64, u64)], requests: usize) {
        let _ = (ranges, requests);
    }

    /// Returns whether reading a range would not wait for bytes that were announced.
    ///
    /// Waits for that for about `most` at the longest. Bytes that nobody announced do not count:
    /// they are requested when they are read. Failed requests count as arrived: the read reports
    /// them. The default fits a store that ignores [`Opened::announce`].
    fn has_arrived(&self, offset: u64, len: u64, most: Duration) -> bool {
        let _ = (offset, len, most);
        true
    }

    /// Size of the object in bytes when it was opened.
    fn size(&self) -> u64;

    /// The stamp of the opened contents, to compare with stamps that came with bytes.
    ///
    /// Like [`Store::stamp`]. Known from opening, so the call costs nothing.
    fn stamp(&self) -> Option<Stamp> {
        None
    }

    /// The stamp under which everything read from this object so far may be kept.
    ///
    /// See [`Store::read_all_stamped`].
    fn vouched(&self) -> Option<Stamp> {
        None
    }

    /// Lends the bytes of a range if they are contiguous in memory.
    ///
    /// That is the case if the store holds them anyway, or is already fetching them; then this
    /// waits for them. Returns `None` if [`Opened::read_ranges`] has to read them.
    fn lend(&self, offset: u64, len: u64) -> Result<Option<Lent>> {
        let _ = (offset, len);
        Ok(None)
    }

    /// The server's version of these contents, for conditional requests ([`Store::swap`]).
    ///
    /// Returns `None` if there is no server, or if the server reports no versions.
    fn version(&self) -> Option<Version<'_>> {
        None
    }

    /// The file behind this object, for copies inside the kernel.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Bytes in the store's memory ([`Opened::lend`]), valid while this is held.
pub type Lent = Arc<dyn AsRef<[u8]> + Send + Sync>;
