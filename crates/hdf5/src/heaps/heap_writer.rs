//! Builds collections of the global heap (specification III.E), one after the other.
//!
//! An object goes to the last collection if it fits there. Collections have up to [`WHOLE`] bytes,
//! as the HDF5 library makes them: readers fetch these with one read. A larger object has a
//! collection of its own.

use super::{SMALLEST, WHOLE};
use crate::error::Built;
use crate::output::{Output, fit};

/// Bytes before the first object of a collection.
const HEAD_LEN: usize = 16;
pub(crate) const HEAD: u64 = HEAD_LEN as u64;

/// Bytes before the data of an object.
const OBJECT_HEAD: u64 = 16;

/// Builds a collection of `len` bytes from its objects.
pub(crate) fn collection(objects: &[u8], len: u64) -> Vec<u8> {
    let mut out = Output::new();
    head(&mut out, len);
    out.bytes(objects);
    let free = len.saturating_sub(out.len() as u64);
    free_space(&mut out, free);
    out.fill(usize::try_from(len).unwrap_or(usize::MAX)).take()
}

/// Appends the head of a collection of `len` bytes.
fn head(out: &mut Output, len: u64) {
    out.bytes(b"GCOL").u8(1).zeros(3).u64(len);
}

/// Appends object 0, which is the free space of a collection including its head. Less than a head
/// needs none.
fn free_space(out: &mut Output, free: u64) {
    if free >= OBJECT_HEAD {
        out.u16(0).u16(0).u32(0).u64(free);
    }
}

/// Appends an object to the objects of a collection.
pub(crate) fn add_object(objects: &mut Output, index: u16, data: &[u8]) {
    // Index, number of references (unused), reserved.
    objects.u16(index).u16(0).u32(0).u64(data.len() as u64).bytes(data).align(8);
}

/// Bytes of an object in a collection.
pub(crate) fn object_len(data: &[u8]) -> u64 {
    OBJECT_HEAD + (data.len() as u64).next_multiple_of(8)
}

/// The place of an object: address of the collection, index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeapPlace {
    pub collection: u64,
    pub index: u32,
}

/// New collections. The first is at a given address, and each follows the one before.
///
/// They are built in one place: a million texts cost no more than their bytes.
#[derive(Debug)]
pub(crate) struct HeapWriter {
    /// Address of the first byte.
    address: u64,
    /// Finished collections that were not taken, and the current one.
    bytes: Vec<u8>,
    /// The start of the current collection.
    start: usize,
    /// Objects of the current collection. 0: it has not begun.
    count: u16,
}

impl HeapWriter {
    pub fn new(address: u64) -> HeapWriter {
        HeapWriter { address, bytes: Vec::new(), start: 0, count: 0 }
    }

    /// Adds an object.
    pub fn put(&mut self, data: &[u8]) -> Built<HeapPlace> {
        let used = (self.bytes.len() - self.start) as u64;
        if self.count > 0 && used.saturating_add(object_len(data)) > WHOLE {
            self.finish_collection();
        }
        if self.count == 0 {
            // The head follows when the length is known.
            self.bytes.extend([0; HEAD_LEN]);
        }
        self.count = fit(u64::from(self.count) + 1, "objects of a heap collection")?;
        let [low, high] = self.count.to_le_bytes();
        let mut head = [low, high, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        head[8..].copy_from_slice(&(data.len() as u64).to_le_bytes());
        self.bytes.extend_from_slice(&head);
        self.bytes.extend_from_slice(data);
        let padding = data.len().next_multiple_of(8) - data.len();
        self.bytes.extend_from_slice([0; 8].get(..padding).unwrap_or_default());
        let collection = self.address.saturating_add(self.start as u64);
        Ok(HeapPlace { collection, index: self.count.into() })
    }

    /// Ends the current collection, if it has begun.
    pub fn finish_collection(&mut self) {
        if self.count == 0 {
            return;
        }
        let used = (self.bytes.len() - self.start) as u64;
        let len = used.max(SMALLEST);
        let mut out = Output::new();
        head(&mut out, len);
        if let Some(place) = self.bytes.get_mut(self.start..).and_then(|all| all.first_chunk_mut()) {
            *place = <[u8; HEAD_LEN]>::try_from(out.as_bytes()).unwrap_or_default();
        }
        let mut rest = Output::new();
        free_space(&mut rest, len - used);
        self.bytes.extend_from_slice(rest.as_bytes());
        self.bytes.resize(self.start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX)), 0);
        self.start = self.bytes.len();
        self.count = 0;
    }

    /// Address of the first byte that was not taken.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The bytes of the finished collections that were not taken.
    pub fn done(&self) -> &[u8] {
        self.bytes.get(..self.start).unwrap_or_default()
    }

    /// Forgets [`HeapWriter::done`], which are in the file.
    pub fn forget_done(&mut self) {
        self.address = self.address.saturating_add(self.start as u64);
        self.bytes.drain(..self.start);
        self.start = 0;
    }

    /// Takes the bytes of the finished collections.
    pub fn take_done(&mut self) -> Vec<u8> {
        let done = self.done().to_vec();
        self.forget_done();
        done
    }

    /// Returns the bytes of all collections that were not taken.
    pub fn finish(mut self) -> Vec<u8> {
        self.finish_collection();
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heaps::Collection;
    use crate::testing::source;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_built_is_parsed(
            objects in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..40),
                    (3000_usize..90_000, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
                ],
                0..60,
            ),
        ) {
            let mut heap = HeapWriter::new(8);
            let places: Vec<HeapPlace> = objects.iter().map(|data| heap.put(data).unwrap()).collect();
            let bytes = heap.finish();
            let source = source(&[&[0; 8][..], &bytes].concat());
            let mut addresses: Vec<u64> = places.iter().map(|place| place.collection).collect();
            addresses.dedup();
            let collections = Collection::read(&source, &addresses, 4096).unwrap();
            prop_assert!(bytes.len() as u64 >= SMALLEST * addresses.len() as u64);
            for (place, data) in places.iter().zip(&objects) {
                let collection = collections.iter().find(|one| one.address() == place.collection).unwrap();
                let object = collection.object(place.index).unwrap();
                let found = object.read(&source).unwrap();
                prop_assert_eq!(&found[..data.len()], &data[..]);
                prop_assert!(found.len() < data.len() + 8);
            }
        }
    }

    #[test]
    fn a_collection_may_have_too_little_free_space_for_its_head() {
        for len in [4048_usize, 4056, 4064] {
            let mut heap = HeapWriter::new(0);
            heap.put(&vec![7; len]).unwrap();
            assert_eq!(heap.finish().len() as u64, SMALLEST.max(32 + len as u64), "{len}");
        }
    }

    #[test]
    fn many_small_objects_share_a_collection() {
        let mut heap = HeapWriter::new(0);
        let places: Vec<HeapPlace> = (0..5000).map(|_| heap.put(b"x").unwrap()).collect();
        let last = places.last().unwrap();
        assert_eq!(places[2729], HeapPlace { collection: 0, index: 2730 });
        assert_eq!(places[2730], HeapPlace { collection: 16 + 2730 * 24, index: 1 });
        assert_eq!((last.index, heap.finish().len()), (2270, 2 * 16 + 5000 * 24));
    }
}
