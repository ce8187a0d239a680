//! Reads of a dataset with some chunks in memory.
//!
//! To the engine, a chunk in memory is an object of its own, whose codecs were all skipped.

use super::held::Held;
use super::{Current, fault};
use hyperslab_array::{ChunkList, ChunkLocator, Dims, Found, LocateError, Location, Memory};
use hyperslab_codec::Scratch;
use hyperslab_hdf5::edit::ChunkPlace;
use hyperslab_store::fork::Lazy;
use hyperslab_store::{Cost, Facts, Holds, Key, Opened, RangeRead, Result, Store, StoreError};
use std::fmt::Write;
use std::sync::Arc;

/// Keys of chunks in memory begin with this.
const HELD: &str = "held chunk ";

/// Finds the chunks of a dataset that is being changed.
#[derive(Debug)]
pub(super) struct Locator {
    current: Arc<Current>,
    /// Finds the chunks of an unchanged dataset.
    unchanged: Arc<dyn ChunkLocator>,
    held: Lazy<Arc<Held>>,
}

impl Locator {
    pub(super) fn new(current: Arc<Current>, unchanged: Arc<dyn ChunkLocator>) -> Locator {
        Locator { current, unchanged, held: Lazy::new() }
    }
}

impl ChunkLocator for Locator {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        let find = || Held::find(self.current.editing(), self.current.address()).ok_or(());
        let Ok(held) = self.held.get_or_try_make(find) else {
            return self.unchanged.locate(wanted, found);
        };
        // The places first: a chunk that goes to the file meanwhile is found there later.
        let in_memory = held.get_all(wanted.iter());
        let table = self.current.editing().chunk_table(self.current.address()).map_err(fault)?;
        let source = self.current.editing().file().source();
        let mut is_in_file = false;
        for ((place, stored), is_held) in wanted.iter().zip(table.get_all(wanted.iter())).zip(in_memory) {
            if is_held {
                found.object(|key| write_key(place, key));
                let (len, skipped) = (held.filters().decoded_size() as u64, held.filters().all_codecs());
                found.chunk(Location::Range { offset: 0, len, skipped });
                is_in_file = false;
                continue;
            }
            if !is_in_file {
                found.object(|key| key.push_str(source.key()));
                is_in_file = true;
            }
            found.chunk(match stored {
                None => Location::Absent,
                Some(ChunkPlace { address, size, skipped, .. }) => Location::Range {
                    offset: source.base().saturating_add(address),
                    len: size,
                    skipped: held.filters().codecs_of(skipped),
                },
            });
        }
        Ok(())
    }

    fn shares_objects(&self) -> bool {
        true
    }
}

fn write_key(place: &[u64], key: &mut String) {
    key.push_str(HELD);
    for (axis, at) in place.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write!(key, "{}{at}", if axis == 0 { "" } else { "." });
    }
}

fn place_of(key: &str) -> Option<Dims> {
    key.strip_prefix(HELD)?.split('.').map(|at| at.parse().ok()).collect()
}

/// The file, and the chunks in memory as objects beside it.
#[derive(Debug)]
pub(super) struct Chunks {
    current: Arc<Current>,
    file: Arc<dyn Store>,
}

impl Chunks {
    pub(super) fn new(current: Arc<Current>, file: Arc<dyn Store>) -> Chunks {
        Chunks { current, file }
    }

    /// Returns a decoded chunk. `None`: the key names no chunk.
    fn chunk(&self, key: Key<'_>) -> Result<Option<Arc<Memory>>> {
        let Some(place) = place_of(key.as_str()) else { return Ok(None) };
        let editing = self.current.editing();
        let Some(held) = Held::find(editing, self.current.address()) else { return Ok(None) };
        if let Some(chunk) = held.get(&place) {
            return Ok(Some(chunk.snapshot()));
        }
        // It has gone to the file since it was found.
        let failed = |error: LocateError| match error.downcast::<StoreError>() {
            Ok(error) => *error,
            Err(error) => StoreError::Io {
                operation: hyperslab_store::Operation::Read,
                key: key.as_str().to_owned(),
                url: self.url(),
                source: std::io::Error::new(std::io::ErrorKind::InvalidData, error),
            },
        };
        let table = editing.chunk_table(self.current.address()).map_err(|error| failed(fault(error)))?;
        let chunk = held.load(editing, table.get(&place), &mut Scratch::default()).map_err(failed)?;
        Ok(Some(Arc::new(chunk)))
    }

    fn copy(&self, key: &str, chunk: &Memory, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        let bytes = chunk.as_slice();
        for RangeRead { offset, buf } in ranges {
            let start = usize::try_from(*offset).unwrap_or(usize::MAX);
            let found = bytes.get(start..).and_then(|bytes| bytes.get(..buf.len()));
            let found = found.ok_or_else(|| {
                StoreError::out_of_range(self, key, *offset, buf.len() as u64, bytes.len() as u64)
            })?;
            buf.copy_from_slice(found);
        }
        Ok(())
    }
}

impl Store for Chunks {
    fn url(&self) -> String {
        self.file.url()
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.file.lock_id(key)
    }

    fn only(&self) -> Option<&str> {
        self.file.only()
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        match self.chunk(key)? {
            Some(chunk) => Ok(Some(chunk.len() as u64)),
            None => self.file.size(key),
        }
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        match self.chunk(key)? {
            Some(chunk) => Ok(Some(Box::new(OpenChunk { store: self, key: key.as_str().to_owned(), chunk }))),
            None => self.file.open(key, size),
        }
    }

    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        match self.chunk(key)? {
            Some(chunk) => self.copy(key.as_str(), &chunk, ranges).map(|()| true),
            None => self.file.read_ranges(key, size, ranges),
        }
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        match self.chunk(key)? {
            Some(chunk) if chunk.len() > limit => Err(StoreError::too_large(self, key.as_str(), limit)),
            Some(chunk) => {
                buf.clear();
                buf.extend_from_slice(chunk.as_slice());
                Ok(true)
            }
            None => self.file.read_all(key, buf, limit),
        }
    }

    fn facts(&self) -> Facts {
        self.file.facts()
    }

    fn cost(&self) -> Cost {
        self.file.cost()
    }

    fn holds(&self) -> Option<&dyn Holds> {
        self.file.holds()
    }
}

/// A chunk as it was when it was opened.
#[derive(Debug)]
struct OpenChunk<'s> {
    store: &'s Chunks,
    key: String,
    chunk: Arc<Memory>,
}

impl Opened for OpenChunk<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.store.copy(&self.key, &self.chunk, ranges)
    }

    fn size(&self) -> u64 {
        self.chunk.len() as u64
    }
}
