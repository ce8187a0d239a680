//! Many values of variable length, written as they come.
//!
//! Their collections go to the file in blocks, while the elements that lead to them are kept. Until
//! a block has its place, elements have addresses as if the first collection were at address 0.

use super::Editing;
use crate::error::BuildError;
use crate::heaps::{HeapPlace, HeapWriter};
use crate::{Hdf5Error, Result};

/// Collections of this many bytes are written with one call. They are then still in the second
/// cache of a CPU, and their memory is used again. Other sizes were not measured.
const BLOCK: usize = 1 << 20;

/// Bytes of an element, and where its address is.
const ELEMENT: usize = 16;
const ADDRESS: std::ops::Range<usize> = 4..12;

/// Writes values of variable length. Dropped before [`ValueWriter::finish`], it gives their space
/// back.
#[derive(Debug)]
pub struct ValueWriter<'e> {
    editing: &'e Editing,
    heap: HeapWriter,
    elements: Vec<u8>,
    /// Bytes of elements that have their final addresses.
    placed: usize,
    /// The places of the blocks.
    blocks: Vec<(u64, u64)>,
    /// Text without letters has a place, too.
    is_text: bool,
}

impl Editing {
    /// Starts to write about `count` values of variable length. `is_text`: text without letters has a
    /// place, too.
    pub fn value_writer(&self, count: usize, is_text: bool) -> ValueWriter<'_> {
        let mut elements = Vec::new();
        // Without memory for all, adding them fails.
        let _ = elements.try_reserve(count.saturating_mul(ELEMENT));
        let (heap, blocks) = (HeapWriter::new(0), Vec::new());
        ValueWriter { editing: self, heap, elements, placed: 0, blocks, is_text }
    }
}

impl ValueWriter<'_> {
    /// Adds a value: the number of its items, and its bytes. A sequence without items needs no place.
    pub fn put(&mut self, count: u64, bytes: &[u8]) -> Result<()> {
        let mut element = [0; ELEMENT];
        if !bytes.is_empty() || self.is_text {
            let count = u32::try_from(count)
                .map_err(|_| unstorable(format!("{count} items, at most 2³² - 1 are possible in HDF5")))?;
            let HeapPlace { collection, index } =
                self.heap.put(bytes).map_err(|BuildError(why)| unstorable(why))?;
            element[..4].copy_from_slice(&count.to_le_bytes());
            element[ADDRESS].copy_from_slice(&collection.to_le_bytes());
            element[12..].copy_from_slice(&index.to_le_bytes());
        }
        self.elements.extend_from_slice(&element);
        Ok(())
    }

    /// Returns `true` if it is time for [`ValueWriter::write`].
    pub fn is_full(&self) -> bool {
        self.heap.done().len() >= BLOCK
    }

    /// Writes the collections that are complete.
    pub fn write(&mut self) -> Result<()> {
        let done = self.heap.done();
        if done.is_empty() {
            return Ok(());
        }
        let len = done.len() as u64;
        let address = self.editing.allocate(len)?;
        self.blocks.push((address, len));
        self.editing.write(address, &[done])?;
        let start = self.heap.address();
        let end = start.saturating_add(len);
        for element in self.elements.get_mut(self.placed..).unwrap_or_default().chunks_exact_mut(ELEMENT) {
            if let Some(place) = element.get_mut(ADDRESS).and_then(|place| place.first_chunk_mut::<8>()) {
                let found = u64::from_le_bytes(*place);
                if found >= end {
                    break;
                }
                *place = found.saturating_sub(start).saturating_add(address).to_le_bytes();
            }
            if element.ends_with(&[0; 4]) {
                // Without bytes. (Objects of collections are numbered from 1.)
                element.fill(0);
            }
            self.placed = self.placed.saturating_add(ELEMENT);
        }
        self.heap.forget_done();
        Ok(())
    }

    /// Writes the rest. Returns the elements, 16 bytes each.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.heap.finish_collection();
        self.write()?;
        self.blocks.clear();
        Ok(std::mem::take(&mut self.elements))
    }
}

impl Drop for ValueWriter<'_> {
    fn drop(&mut self) {
        for (address, len) in self.blocks.drain(..) {
            self.editing.free(address, len);
        }
    }
}

fn unstorable(why: String) -> Hdf5Error {
    Hdf5Error::Unstorable { object: "a value".into(), why }
}

#[cfg(test)]
mod tests {
    use crate::edit::NewFile;
    use crate::heaps::Collection;
    use crate::{File, FileOptions};
    use hyperslab_store::{Change, EditedFile};
    use std::sync::Arc;

    fn new_file() -> (Arc<EditedFile>, File) {
        let bytes = Arc::new(EditedFile::recorded(Vec::new()));
        let file = File::create(bytes.clone(), NewFile::default(), FileOptions::default()).unwrap();
        (bytes, file)
    }

    /// Values of 0 to 69,999 bytes.
    fn values(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|n| vec![(n % 251) as u8 + 1; if n % 1000 == 999 { 69_999 } else { n % 70 }]).collect()
    }

    #[test]
    fn elements_lead_to_their_values() {
        let (bytes, file) = new_file();
        let editing = file.editing().unwrap();
        let values = values(100_000);
        let mut writer = editing.value_writer(values.len(), false);
        for value in &values {
            writer.put(value.len() as u64, value).unwrap();
            if writer.is_full() {
                writer.write().unwrap();
            }
        }
        let elements = writer.finish().unwrap();
        assert_eq!(elements.len(), 16 * values.len());
        // 4 MB of small values with their heads, and 100 large ones.
        let writes = bytes.changes().iter().filter(|change| matches!(change, Change::Write(..))).count();
        assert!((8..=16).contains(&writes), "{writes} writes");
        let mut found: Option<Collection> = None;
        for (element, value) in elements.chunks_exact(16).zip(&values) {
            let address = u64::from_le_bytes(element[4..12].try_into().unwrap());
            let index = u32::from_le_bytes(element[12..].try_into().unwrap());
            assert_eq!(u32::from_le_bytes(element[..4].try_into().unwrap()), value.len() as u32);
            if value.is_empty() {
                assert_eq!(element, [0; 16]);
                continue;
            }
            let collection = match found.take() {
                Some(collection) if collection.address() == address => collection,
                _ => Collection::read(file.source(), &[address], 4096).unwrap().remove(0),
            };
            let read = collection.object(index).unwrap().read(file.source()).unwrap();
            assert_eq!(&read[..value.len()], value);
            found = Some(collection);
        }
    }

    #[test]
    fn values_that_are_not_finished_give_their_space_back() {
        let (_, file) = new_file();
        let editing = file.editing().unwrap();
        let before = editing.allocate(8).unwrap();
        let mut writer = editing.value_writer(0, false);
        for value in values(50_000) {
            writer.put(1, &value).unwrap();
        }
        writer.write().unwrap();
        let error = writer.put(1 << 32, b"x").unwrap_err().to_string();
        assert!(error.contains("4294967296 items"), "{error}");
        drop(writer);
        assert_eq!(editing.allocate(8).unwrap(), before + 8);
    }
}
