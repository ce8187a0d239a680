//! Values of attributes and elements that may refer to other parts of the new file.

use crate::error::{BuildError, Built};
use crate::heaps::{HeapPlace, HeapWriter};
use crate::output::{Output, fit};

/// Gives values their places in a file.
pub(crate) trait Places {
    /// The address of an object.
    fn address(&self, object: usize) -> Option<u64>;

    /// Stores a value of variable length.
    fn put(&mut self, value: &[u8]) -> Built<HeapPlace>;
}

/// The places of a new file: the address of each object, and new heap collections.
#[derive(Debug)]
pub(crate) struct NewPlaces<'a> {
    pub addresses: &'a [u64],
    pub heap: &'a mut HeapWriter,
}

impl Places for NewPlaces<'_> {
    fn address(&self, object: usize) -> Option<u64> {
        self.addresses.get(object).copied()
    }

    fn put(&mut self, value: &[u8]) -> Built<HeapPlace> {
        self.heap.put(value)
    }
}

/// A part of the bytes of an element. An element is one part or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValuePart {
    /// Bytes as they are stored.
    Bytes(Vec<u8>),
    /// An element of variable length.
    Vlen {
        /// Number of items; of text, of bytes.
        count: u64,
        /// The items.
        items: Vec<ValuePart>,
    },
    /// A reference to an object, by its number. `None`: to nothing.
    Object(Option<usize>),
    /// A reference to a region: the object, and the description of the region.
    Region(Option<(usize, Vec<u8>)>),
}

impl ValuePart {
    /// Text of variable length.
    pub fn text(text: &[u8]) -> ValuePart {
        ValuePart::Vlen { count: text.len() as u64, items: vec![ValuePart::Bytes(text.to_vec())] }
    }

    /// Bytes in the element.
    pub(super) fn len(&self) -> u64 {
        match self {
            ValuePart::Bytes(bytes) => bytes.len() as u64,
            ValuePart::Vlen { .. } => 16,
            ValuePart::Object(_) => 8,
            ValuePart::Region(_) => 12,
        }
    }

    /// Appends the part to `out`. Values of variable length go to `heap`.
    fn put(&self, places: &mut dyn Places, out: &mut Output) -> Built<()> {
        let address = |object: usize, places: &dyn Places| {
            let missing = || BuildError(format!("a reference to object {object}, which does not exist"));
            places.address(object).ok_or_else(missing)
        };
        match self {
            ValuePart::Bytes(bytes) => drop(out.bytes(bytes)),
            // No items: no object in the heap.
            ValuePart::Vlen { items, .. } if items.is_empty() => {
                out.u32(0);
                put_place(None, out);
            }
            ValuePart::Vlen { count, items } => {
                let count: u32 = fit(*count, "items of an element of variable length")?;
                let items = bytes(items, places)?;
                let place = places.put(&items)?;
                out.u32(count);
                put_place(Some(place), out);
            }
            // References to nothing are zeros.
            ValuePart::Object(object) => {
                out.u64(object.map(|object| address(object, places)).transpose()?.unwrap_or(0));
            }
            ValuePart::Region(region) => {
                let place = region.as_ref().map(|(object, selection)| {
                    let value = [&address(*object, places)?.to_le_bytes()[..], selection].concat();
                    places.put(&value)
                });
                put_place(place.transpose()?, out);
            }
        }
        Ok(())
    }
}

fn put_place(place: Option<HeapPlace>, out: &mut Output) {
    let place = place.unwrap_or(HeapPlace { collection: 0, index: 0 });
    out.u64(place.collection).u32(place.index);
}

/// The bytes of parts, one after the other.
pub(crate) fn bytes(parts: &[ValuePart], places: &mut dyn Places) -> Built<Vec<u8>> {
    let mut out = Output::new();
    parts.iter().try_for_each(|part| part.put(places, &mut out))?;
    Ok(out.take())
}
