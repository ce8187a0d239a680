//! Many values of variable length: collections of the global heap, and the elements that lead there.

use crate::error::{BuildError, Built};
use crate::heaps::{HeapPlace, HeapWriter};
use crate::output::{Output, fit};

/// Values of variable length, as they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredValues {
    /// The elements, 16 bytes each.
    pub elements: Vec<u8>,
    /// The heap collections with their values.
    pub collections: Vec<u8>,
}

impl StoredValues {
    /// Stores values in collections that begin at `address`: of each, the number of its items and its
    /// bytes. Sequences without items have no place in a collection. Text without letters has one
    /// (`is_text`): an element without a place is a null pointer for programs in C.
    pub fn new<'v>(
        address: u64,
        values: impl Iterator<Item = (u64, &'v [u8])>,
        is_text: bool,
    ) -> Result<StoredValues, BuildError> {
        let mut heap = HeapWriter::new(address);
        let mut elements = Output::new();
        for (number, (count, bytes)) in values.enumerate() {
            let mut put = || -> Built<()> {
                if bytes.is_empty() && !is_text {
                    elements.zeros(16);
                    return Ok(());
                }
                let count = fit(count, "items of an element of variable length")?;
                let HeapPlace { collection, index } = heap.put(bytes)?;
                elements.u32(count).u64(collection).u32(index);
                Ok(())
            };
            put().map_err(|why| BuildError(format!("element {number}: {why}")))?;
        }
        Ok(StoredValues { elements: elements.take(), collections: heap.finish() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_lead_to_their_values() {
        let values: [(u64, &[u8]); 3] = [(2, b"abcd"), (0, b""), (1, b"xy")];
        let stored = StoredValues::new(100, values.into_iter(), false).unwrap();
        let element = |count: u32, address: u64, index: u32| {
            [&count.to_le_bytes()[..], &address.to_le_bytes(), &index.to_le_bytes()].concat()
        };
        assert_eq!(stored.elements, [element(2, 100, 1), element(0, 0, 0), element(1, 100, 2)].concat());
        assert_eq!(stored.collections.len(), 4096);
        assert_eq!(&stored.collections[32..36], b"abcd");
        let none = StoredValues::new(100, [(0, &[][..])].into_iter(), false).unwrap();
        assert_eq!((none.elements, none.collections), (vec![0; 16], vec![]));
        // Text without letters has a place, of no bytes.
        let text = StoredValues::new(100, [(0, &[][..]), (1, b"a")].into_iter(), true).unwrap();
        assert_eq!(text.elements, [element(0, 100, 1), element(1, 100, 2)].concat());
        assert_eq!(&text.collections[16..48], [&[1, 0][..], &[0; 14], &[2], &[0; 7], &[1], &[0; 7]].concat());
    }
}
