//! Compares the stored bytes of chunks, so that equal chunks need not be decoded.

use crate::{Array, Key, Result};
use hyperslab_array::{ArrayError, Location};
use hyperslab_store::{RangeRead, StoreError};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that are read at once. Chunks that differ mostly differ in the first window.
const FIRST: u64 = 64 << 10;
const WINDOW: u64 = 1 << 20;
/// Stored bytes are no longer compared if fewer than one in `SHARE` of at least `LEAST` chunks were
/// equal: all others are read twice.
const LEAST: u64 = 16;
const SHARE: u64 = 8;

/// Counts how often stored bytes were equal so far.
#[derive(Debug, Default)]
pub(super) struct Record {
    tried: AtomicU64,
    equal: AtomicU64,
}

impl Record {
    /// Returns `true` if the next chunk should be compared.
    pub(super) fn is_promising(&self) -> bool {
        let (tried, equal) = (self.tried.load(Relaxed), self.equal.load(Relaxed));
        tried < LEAST || equal.saturating_mul(SHARE) >= tried
    }

    pub(super) fn add(&self, is_equal: bool) {
        self.tried.fetch_add(1, Relaxed);
        self.equal.fetch_add(u64::from(is_equal), Relaxed);
    }
}

/// Memory that a thread reuses.
#[derive(Debug, Default)]
pub(super) struct Windows {
    keys: [String; 2],
    bytes: [Vec<u8>; 2],
}

/// Returns `true` if a chunk (or shard) has the same stored bytes in both arrays, or is absent in
/// both. `place`: its index in the grid of objects.
pub(super) fn is_same(arrays: [&Array; 2], place: &[u64], windows: &mut Windows) -> Result<bool> {
    let [a, b] = arrays;
    let found =
        (a.layout().locate(place, &mut windows.keys[0])?, b.layout().locate(place, &mut windows.keys[1])?);
    let keys = [Key::new(&windows.keys[0]), Key::new(&windows.keys[1])];
    let ranges = match found {
        (Location::Absent, Location::Absent) => return Ok(true),
        (Location::Object, Location::Object) => None,
        (
            Location::Range { offset: own, len, skipped },
            Location::Range { offset: its, len: other, skipped: left_out },
        ) if len == other && skipped == left_out => Some([(own, len), (its, len)]),
        _ => return Ok(false),
    };
    let [Ok(own), Ok(its)] = keys else { return Ok(false) };
    let failed = |array: &Array, source: StoreError| ArrayError::Store {
        array: array.layout().name().to_owned(),
        chunk: place.to_vec(),
        source: Box::new(source),
    };
    let (one, other) = (
        a.layout().store().open(own, None).map_err(|error| failed(a, error))?,
        b.layout().store().open(its, None).map_err(|error| failed(b, error))?,
    );
    let (one, other) = match (one, other) {
        (Some(one), Some(other)) => (one, other),
        (None, None) => return Ok(true),
        _ => return Ok(false),
    };
    let [(own, len), (its, other_len)] = ranges.unwrap_or([(0, one.size()), (0, other.size())]);
    if len != other_len {
        return Ok(false);
    }
    let (mut done, mut window) = (0, FIRST);
    while done < len {
        let next = window.min(len - done);
        for (n, (opened, start)) in [(&one, own), (&other, its)].into_iter().enumerate() {
            let buffer = &mut windows.bytes[n];
            buffer.resize(usize::try_from(next).unwrap_or_default(), 0);
            let mut wanted = [RangeRead { offset: start.saturating_add(done), buf: buffer }];
            opened.read_ranges(&mut wanted).map_err(|error| failed(arrays[n], error))?;
        }
        if windows.bytes[0] != windows.bytes[1] {
            return Ok(false);
        }
        done += next;
        window = WINDOW;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_that_differ_everywhere_are_not_read_twice() {
        let record = Record::default();
        for _ in 0..LEAST {
            assert!(record.is_promising());
            record.add(false);
        }
        assert!(!record.is_promising());
        (0..3).for_each(|_| record.add(true));
        assert!(record.is_promising());
    }
}
