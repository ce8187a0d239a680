//! Bytes in memory that are read like an open object.
//!
//! Used for shards that had to be read or decoded as a whole.

use hyperslab_store::{Opened, RangeRead, Stamp, StoreError};

/// The bytes, and their names in error messages.
#[derive(Debug)]
pub(crate) struct InMemory {
    pub(crate) bytes: Vec<u8>,
    pub(crate) key: String,
    pub(crate) url: String,
}

impl Opened for InMemory {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<(), StoreError> {
        for RangeRead { offset, buf } in ranges {
            let from = usize::try_from(*offset).ok();
            let range = from.and_then(|from| Some(from..from.checked_add(buf.len())?));
            match range.and_then(|range| self.bytes.get(range)) {
                Some(bytes) => buf.copy_from_slice(bytes),
                None => {
                    return Err(StoreError::OutOfRange {
                        key: self.key.clone(),
                        url: self.url.clone(),
                        offset: *offset,
                        len: buf.len() as u64,
                        size: self.size(),
                    });
                }
            }
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn stamp(&self) -> Option<Stamp> {
        None
    }

    fn vouched(&self) -> Option<Stamp> {
        None
    }
}
