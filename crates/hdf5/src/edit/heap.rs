//! The heap collection that takes new values of variable length.
//!
//! It is in memory until a reader of this process wants it, or until the flush. The file refers to a
//! collection only after that, and it does not change any more.

use crate::error::Built;
use crate::heaps::{HEAD, HeapPlace, SMALLEST, WHOLE, add_object, collection, object_len};
use crate::output::{Output, fit};

/// A collection that has room.
#[derive(Debug)]
pub(super) struct OpenCollection {
    address: u64,
    /// Bytes of the collection.
    len: u64,
    objects: Output,
    count: u16,
    /// `true` if the file does not have its last objects yet.
    is_changed: bool,
    /// `true` if it takes no more values.
    is_ended: bool,
}

impl OpenCollection {
    /// Makes an empty collection with a place in the file.
    pub fn new(address: u64, len: u64) -> OpenCollection {
        OpenCollection { address, len, objects: Output::new(), count: 0, is_changed: false, is_ended: false }
    }

    /// Bytes of a new collection for a value. `is_first`: of a file, which may have few values.
    pub fn len_for(value: &[u8], is_first: bool) -> u64 {
        let usual = if is_first { SMALLEST } else { WHOLE };
        usual.max(HEAD + object_len(value))
    }

    pub fn address(&self) -> u64 {
        self.address
    }

    /// Adds a value. `None`: there is no room, or the collection was ended.
    pub fn put(&mut self, value: &[u8]) -> Built<Option<HeapPlace>> {
        let end = HEAD.saturating_add(self.objects.len() as u64).saturating_add(object_len(value));
        if self.is_ended || end > self.len || self.count == u16::MAX {
            return Ok(None);
        }
        self.count = fit(u64::from(self.count) + 1, "objects of a heap collection")?;
        add_object(&mut self.objects, self.count, value);
        self.is_changed = true;
        Ok(Some(HeapPlace { collection: self.address, index: self.count.into() }))
    }

    /// Returns the bytes to write, if there are new ones.
    pub fn take_changes(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.is_changed).then(|| collection(self.objects.as_bytes(), self.len))
    }

    /// Notes that the file does not have all objects: they could not be written.
    pub fn write_again(&mut self) {
        self.is_changed = true;
    }

    /// Ends the collection: returns the unused space at its end, which is not a part of it any more.
    pub fn cut(&mut self) -> (u64, u64) {
        let used = (HEAD + self.objects.len() as u64).max(SMALLEST).min(self.len);
        let unused = (self.address + used, self.len - used);
        self.is_changed |= unused.1 > 0;
        self.is_ended = true;
        self.len = used;
        unused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heaps::Collection;
    use crate::testing::source;

    #[test]
    fn values_are_found_before_and_after_the_end() {
        let mut open = OpenCollection::new(8, WHOLE);
        let places: Vec<HeapPlace> = (0..5_u8).map(|n| open.put(&[n; 10]).unwrap().unwrap()).collect();
        let check = |bytes: Vec<u8>, len: u64| {
            assert_eq!(bytes.len() as u64, len);
            let source = source(&[&[0; 8][..], &bytes].concat());
            let read = Collection::read(&source, &[8], 4096).unwrap();
            for (n, place) in places.iter().enumerate() {
                let found = read[0].object(place.index).unwrap().read(&source).unwrap();
                assert_eq!(&found[..10], [n as u8; 10]);
            }
        };
        check(open.take_changes().unwrap(), WHOLE);
        assert_eq!(open.take_changes(), None);
        assert_eq!(open.cut(), (8 + SMALLEST, WHOLE - SMALLEST));
        check(open.take_changes().unwrap(), SMALLEST);
        // There is room, but the file refers to the collection.
        assert_eq!(open.put(&[0; 5]).unwrap(), None);
        assert_eq!(OpenCollection::len_for(&[0; 5000], true), 16 + 16 + 5000);
    }
}
