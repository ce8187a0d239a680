//! Values of variable length: heap collections of a file that is being changed.

use super::Editing;
use super::heap::OpenCollection;
use crate::error::{BuildError, Built};
use crate::heaps::{HeapPlace, WHOLE, object_len};
use crate::new_file::value::Places;
use crate::{Hdf5Error, Result};
use hyperslab_store::turns;

/// The places of values in a file that is being changed.
pub(super) struct EditPlaces<'e> {
    editing: &'e Editing,
    /// The error of the file, which a builder cannot return.
    failed: Option<Hdf5Error>,
}

impl EditPlaces<'_> {
    /// Returns the error of the file, if there was one.
    pub fn finish(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

impl Places for EditPlaces<'_> {
    fn address(&self, object: usize) -> Option<u64> {
        u64::try_from(object).ok()
    }

    fn put(&mut self, value: &[u8]) -> Built<HeapPlace> {
        self.editing.put_value(value).map_err(|error| {
            let why = BuildError(error.to_string());
            self.failed.get_or_insert(error);
            why
        })
    }
}

impl Editing {
    pub(super) fn places(&self) -> EditPlaces<'_> {
        EditPlaces { editing: self, failed: None }
    }

    /// Stores a value of variable length.
    pub(super) fn put_value(&self, value: &[u8]) -> Result<HeapPlace> {
        let unstorable = |why: BuildError| Hdf5Error::Unstorable {
            object: "a value of variable length".into(),
            why: why.0,
        };
        // One thread at a time looks for room.
        let _turn = turns::take(self.edits.adding, None).ok();
        loop {
            let (placed, was_first) = {
                let mut heap = self.edits.heap.lock();
                let placed = match &mut heap.0 {
                    Some(open) => open.put(value).map_err(unstorable)?,
                    None => None,
                };
                (placed, !heap.1)
            };
            if let Some(place) = placed {
                return Ok(place);
            }
            self.end_collection()?;
            let len = OpenCollection::len_for(value, was_first);
            let address = self.allocate(len)?;
            let mut heap = self.edits.heap.lock();
            *heap = (Some(OpenCollection::new(address, len)), true);
        }
    }

    /// Stores many values of variable length: of each, the number of its items and its bytes. Returns
    /// the elements that lead there, 16 bytes each. `is_text`: text without letters has a place, too.
    pub fn put_values<'v>(
        &self,
        values: impl Iterator<Item = (u64, &'v [u8])>,
        is_text: bool,
    ) -> Result<Vec<u8>> {
        let unstorable = |why: BuildError| Hdf5Error::Unstorable { object: "a value".into(), why: why.0 };
        let values: Vec<(u64, &[u8])> = values.collect();
        let bytes = values.iter().fold(0, |sum: u64, (_, value)| sum.saturating_add(object_len(value)));
        if bytes > WHOLE / 2 {
            let mut writer = self.value_writer(values.len(), is_text);
            for (count, value) in values {
                writer.put(count, value)?;
                if writer.is_full() {
                    writer.write()?;
                }
            }
            writer.finish()
        } else {
            let mut elements = Vec::with_capacity(values.len().saturating_mul(16));
            for (count, value) in values {
                if value.is_empty() && !is_text {
                    elements.extend([0; 16]);
                    continue;
                }
                let count = u32::try_from(count).map_err(|_| {
                    unstorable(BuildError(format!("{count} items, at most 2³² - 1 are possible in HDF5")))
                })?;
                let HeapPlace { collection, index } = self.put_value(value)?;
                elements.extend(count.to_le_bytes());
                elements.extend(collection.to_le_bytes());
                elements.extend(index.to_le_bytes());
            }
            Ok(elements)
        }
    }

    /// Stores a reference to a region: the object, and the description of the region. Returns the
    /// element that leads there.
    pub fn put_region(&self, object: u64, selection: &[u8]) -> Result<[u8; 12]> {
        let HeapPlace { collection, index } =
            self.put_value(&[&object.to_le_bytes()[..], selection].concat())?;
        let mut element = [0; 12];
        element[..8].copy_from_slice(&collection.to_le_bytes());
        element[8..].copy_from_slice(&index.to_le_bytes());
        Ok(element)
    }

    /// Writes the collection that has room to the file, so that readers find its values.
    pub(crate) fn settle_collection(&self) -> Result<()> {
        // Older bytes of the collection must not go to the file after newer ones.
        let _turn = turns::take(self.edits.collecting, None).ok();
        let changed = {
            let mut heap = self.edits.heap.lock();
            heap.0.as_mut().and_then(|open| Some((open.address(), open.take_changes()?)))
        };
        let Some((address, bytes)) = changed else { return Ok(()) };
        let done = self.write(address, &[&bytes]);
        if done.is_err()
            && let Some(open) = &mut self.edits.heap.lock().0
        {
            open.write_again();
        }
        self.file().forget_collection(address);
        done
    }

    /// Writes the collection that has room, and ends it.
    pub(super) fn end_collection(&self) -> Result<()> {
        let _turn = turns::take(self.edits.collecting, None).ok();
        // Another thread may begin a collection as soon as there is none. It has to stay.
        let Some((address, len)) = self.edits.heap.lock().0.as_mut().map(OpenCollection::cut) else {
            return Ok(());
        };
        self.settle_collection()?;
        self.edits.heap.lock().0 = None;
        self.free(address, len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::edit::NewFile;
    use crate::heaps::Collection;
    use crate::{File, FileOptions};
    use hyperslab_store::EditedFile;
    use std::sync::Arc;

    #[test]
    fn values_that_are_added_during_flushes_are_written() {
        const THREADS: usize = 3;
        let bytes = Arc::new(EditedFile::memory(Vec::new()));
        let file = File::create(bytes, NewFile::default(), FileOptions::default()).unwrap();
        let editing = file.editing().unwrap();
        let add = |thread: usize| {
            let put = |number: usize| {
                let value = format!("value {number} of thread {thread}");
                let one = [(value.len() as u64, value.as_bytes())];
                let element = editing.put_values(one.into_iter(), true).unwrap();
                (value, element)
            };
            (0..500).map(put).collect::<Vec<(String, Vec<u8>)>>()
        };
        let elements: Vec<(String, Vec<u8>)> = std::thread::scope(|scope| {
            let add = &add;
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || add(thread))).collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                editing.flush().unwrap();
            }
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        editing.flush().unwrap();
        for (value, element) in elements {
            let address = u64::from_le_bytes(element[4..12].try_into().unwrap());
            let index = u32::from_le_bytes(element[12..].try_into().unwrap());
            let collection = Collection::read(file.source(), &[address], 4096).unwrap().remove(0);
            let read = collection.object(index).unwrap().read(file.source()).unwrap();
            assert_eq!(&read[..value.len()], value.as_bytes());
        }
    }
}
