//! Bytes that may have several owners.

use std::ops::{Deref, Range};
use std::sync::Arc;

/// Some bytes of a file: a part of a cached page, or separately owned bytes.
#[derive(Clone, Debug)]
pub struct Bytes {
    whole: Arc<[u8]>,
    range: Range<usize>,
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.whole.get(self.range.clone()).unwrap_or_default()
    }
}

impl Bytes {
    /// A part of `whole`.
    pub(crate) fn of(whole: Arc<[u8]>, range: Range<usize>) -> Bytes {
        Bytes { whole, range }
    }

    /// Returns a part of these bytes. A range that is out of bounds is cut at the end.
    pub fn slice(&self, range: Range<usize>) -> Bytes {
        let start = self.range.start.saturating_add(range.start).min(self.range.end);
        let end = self.range.start.saturating_add(range.end).clamp(start, self.range.end);
        Bytes { whole: self.whole.clone(), range: start..end }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes { range: 0..bytes.len(), whole: bytes.into() }
    }
}
