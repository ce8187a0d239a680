//! A cache of heap ids, for reads of single elements or small windows of a contiguous dataset.
//!
//! It holds one window of ids. A loop over elements thus makes a read per window, not per element.
//! Nothing is cached while a writer has the file open.

use crate::Dataset;
use crate::messages::data_layout::DataLayout;
use hyperslab_array::Selection;
use hyperslab_store::fork::Mutex;

/// Bytes of a window. Twice as many if a request crosses a border.
const BLOCK: u64 = 4 << 10;

/// The ids that were read last. Gated.
#[derive(Debug, Default)]
pub(crate) struct IdCache(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    address: u64,
    bytes: Vec<u8>,
}

impl IdCache {
    /// Reads heap ids into `place`. `None`: `place` is too small, or the ids must be read like
    /// other elements.
    pub(crate) fn read<'p>(
        &self,
        dataset: &Dataset,
        shape: &[u64],
        selection: &Selection,
        place: &'p mut [u8],
    ) -> Option<&'p [u8]> {
        let (address, size) = match dataset.data_layout() {
            DataLayout::Contiguous { address: Some(address), size } => (*address, *size),
            _ => return None,
        };
        let id = dataset.element().size as u64;
        let (first, count) = selection.as_run(shape)?;
        let start = first.checked_mul(id)?;
        let end = count.checked_mul(id)?.checked_add(start)?;
        let all = shape.iter().try_fold(id, |bytes, len| bytes.checked_mul(*len))?;
        let all = size.unwrap_or(all).min(all);
        if end > all || !dataset.external_files().is_empty() || dataset.file().changes() {
            return None;
        }
        let place = place.get_mut(..usize::try_from(end - start).ok()?)?;
        let at = address.checked_add(start)?;
        if !self.copy(at, place) {
            let blocks = start / BLOCK * BLOCK..end.next_multiple_of(BLOCK).min(all);
            let mut bytes = vec![0; usize::try_from(blocks.end - blocks.start).ok()?];
            let address = address.checked_add(blocks.start)?;
            dataset.file().source().read_into("heap ids", [(address, bytes.as_mut_slice())]).ok()?;
            // Take the lock only after the fetch, so that other threads can read their ids
            // meanwhile.
            *self.0.lock() = Window { address, bytes };
            if !self.copy(at, place) {
                return None;
            }
        }
        Some(place)
    }

    /// Copies the bytes at an address. `false`: they are not cached.
    fn copy(&self, address: u64, place: &mut [u8]) -> bool {
        let block = self.0.lock();
        let from = address.checked_sub(block.address).and_then(|from| usize::try_from(from).ok());
        let found = from.and_then(|from| block.bytes.get(from..from.checked_add(place.len())?));
        found.map(|found| place.copy_from_slice(found)).is_some()
    }
}
