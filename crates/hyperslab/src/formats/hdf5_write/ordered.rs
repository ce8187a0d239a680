//! Chunks that get their places in a file in the order of their numbers, whichever thread encodes
//! them first.

use hyperslab_array::Dims;
use hyperslab_hdf5::Result;
use hyperslab_hdf5::edit::{ChunkPlace, Editing};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Puts chunks into a file in order.
pub(super) struct Ordered<'e> {
    editing: &'e Editing,
    /// Local: only threads of this request use it.
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// The number that comes next.
    next: usize,
    chunks: BTreeMap<usize, Option<Encoded>>,
}

struct Encoded {
    place: Dims,
    bytes: Vec<u8>,
    skipped: u32,
}

/// A chunk that is in the file.
pub(super) struct Placed {
    pub(super) number: usize,
    pub(super) place: Dims,
    pub(super) stored: ChunkPlace,
}

impl<'e> Ordered<'e> {
    pub(super) fn new(editing: &'e Editing) -> Ordered<'e> {
        Ordered { editing, waiting: Mutex::default() }
    }

    /// Notes that this number has no bytes. Returns the chunks that were waiting for it.
    pub(super) fn skip(&self, number: usize) -> Result<Vec<Placed>> {
        self.advance(number, None)
    }

    /// Writes a chunk to the file if its turn has come, or keeps it. Returns the chunks that are in
    /// the file now.
    pub(super) fn put(
        &self,
        number: usize,
        place: &[u64],
        bytes: &mut Vec<u8>,
        skipped: u32,
    ) -> Result<Vec<Placed>> {
        self.advance(number, Some((place, bytes, skipped)))
    }

    fn advance(&self, number: usize, chunk: Option<(&[u64], &mut Vec<u8>, u32)>) -> Result<Vec<Placed>> {
        let (mut ready, mut placed) = (Vec::new(), Vec::new());
        let mut own = None;
        {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let Waiting { next, chunks } = &mut *waiting;
            if number != *next {
                let kept = chunk.map(|(place, bytes, skipped)| {
                    let mut bytes = std::mem::take(bytes);
                    bytes.shrink_to_fit();
                    Encoded { place: place.into(), bytes, skipped }
                });
                chunks.insert(number, kept);
                return Ok(placed);
            }
            *next += 1;
            if let Some((place, bytes, skipped)) = chunk {
                let stored = self.allocate(bytes.len() as u64, skipped)?;
                own = Some((Placed { number, place: place.into(), stored }, bytes));
            }
            while let Some(encoded) = chunks.remove(next) {
                let number = *next;
                *next += 1;
                if let Some(Encoded { place, bytes, skipped }) = encoded {
                    let stored = self.allocate(bytes.len() as u64, skipped)?;
                    ready.push((Placed { number, place, stored }, bytes));
                }
            }
        }
        if let Some((own, bytes)) = own {
            self.editing.write(own.stored.address, &[bytes])?;
            placed.push(own);
        }
        for (chunk, bytes) in ready {
            self.editing.write(chunk.stored.address, &[&bytes])?;
            placed.push(chunk);
        }
        Ok(placed)
    }

    fn allocate(&self, size: u64, skipped: u32) -> Result<ChunkPlace> {
        let address = self.editing.allocate(size)?;
        Ok(ChunkPlace { address, size, skipped, is_flushed: false })
    }
}
