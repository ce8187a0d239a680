//! Collections of the global heap: elements of variable length, and regions (specification III.E).

use crate::cursor::number;
use crate::{Bytes, Hdf5Error, ParseError, Sizes, Source};
use std::sync::Arc;

/// A collection of the global heap (specification III.E), its directory taken apart once.
#[derive(Debug)]
pub struct Collection {
    /// Where it is.
    pub address: u64,
    /// All of its bytes.
    pub bytes: Bytes,
    /// For each object index, where its bytes are in `bytes` (start, length); `(0, 0)`: no such object.
    pub objects: Vec<(u32, u32)>,
}

/// What a collection is called in messages.
const STRUCTURE: &str = "global heap collection";

impl Collection {
    /// Reads the collection at an address.
    pub fn read(source: &Source, address: u64, sizes: Sizes) -> Result<Arc<Collection>, Hdf5Error> {
        // Nearly all have the smallest size that there is.
        let (header, len) = source.parse(STRUCTURE, address, 4096, sizes, |cursor| {
            cursor.signature(b"GCOL")?;
            cursor.version(STRUCTURE, &[1])?;
            cursor.skip(3)?;
            let len = cursor.length()?;
            // Objects start at a multiple of 8, also where lengths are of 4 bytes.
            cursor.align(8)?;
            match cursor.position() as u64 <= len {
                true => Ok((cursor.position(), len)),
                false => Err(cursor.corrupt(format!("a collection of {len} bytes"))),
            }
        })?;
        let bytes = source.read(STRUCTURE, address, len)?;
        let objects =
            directory(&bytes, header, address, sizes).map_err(|why| source.wrong(STRUCTURE, address, why))?;
        Ok(Arc::new(Collection { address, bytes, objects }))
    }

    /// The bytes of an object; `None`: there is none of that index.
    pub fn object(&self, index: u32) -> Option<&[u8]> {
        let (start, len) = *self.objects.get(usize::try_from(index).ok()?)?;
        let start = usize::try_from(start).ok().filter(|start| *start > 0)?;
        self.bytes.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    }
}

/// Where the objects of a collection are. There may be thousands in one, of a few bytes each: numbers are taken from the bytes as they are.
fn directory(bytes: &[u8], header: usize, address: u64, sizes: Sizes) -> Result<Vec<(u32, u32)>, ParseError> {
    let mut objects = vec![(0, 0)];
    let mut at = header;
    let length = usize::from(sizes.length);
    // Index, reference count, 4 reserved bytes, size; padded.
    let object = (8 + length).next_multiple_of(8);
    // At the end there may be fewer bytes than an object has: they are free.
    while let Some(start) = bytes.get(at..).and_then(|rest| rest.get(..object)) {
        let (index, size) = (start.get(..2).and_then(number), start.get(8..8 + length).and_then(number));
        let index = index.and_then(|index| usize::try_from(index).ok()).unwrap_or_default();
        // What is free is behind all objects, and bears the index 0.
        if index == 0 {
            break;
        }
        let data = at + object;
        let end = size.and_then(|size| usize::try_from(size).ok()).and_then(|size| data.checked_add(size));
        let end = end.filter(|end| *end <= bytes.len());
        let place = end.and_then(|end| Some((u32::try_from(data).ok()?, u32::try_from(end - data).ok()?)));
        let (Some(end), Some(place)) = (end, place) else {
            let size = size.map_or("more than 2⁶⁴".into(), |size| size.to_string());
            let why =
                format!("object {index} has {size} bytes, {} are left", bytes.len() - data.min(bytes.len()));
            return Err(ParseError::Corrupt { at: address.saturating_add(at as u64), why });
        };
        if objects.len() <= index {
            objects.resize(index + 1, (0, 0));
        }
        match objects.get_mut(index) {
            Some(free @ (0, 0)) => *free = place,
            _ => {
                let why = format!("a second object {index}");
                return Err(ParseError::Corrupt { at: address.saturating_add(at as u64), why });
            }
        }
        at = end.next_multiple_of(8);
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SIZES, mutations, source};

    /// A collection with lengths of `length` bytes, and free space behind the objects.
    fn collection(objects: &[(u16, &[u8])], length: usize) -> Vec<u8> {
        let mut body = Vec::new();
        let number = |n: usize| (n as u64).to_le_bytes()[..length].to_vec();
        let pad = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(8), 0);
        for (index, data) in objects {
            body.extend(index.to_le_bytes());
            body.extend([1, 0, 0, 0, 0, 0]);
            body.extend(number(data.len()));
            pad(&mut body);
            body.extend(*data);
            pad(&mut body);
        }
        body.extend([0; 20]);
        let mut bytes = b"GCOL\x01\0\0\0".to_vec();
        bytes.extend(number(body.len() + 16));
        pad(&mut bytes);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn objects_by_index() {
        for length in [4, 8] {
            let objects: [(u16, &[u8]); 4] = [(1, b"one"), (3, b"exactly8"), (2, b""), (700, b"far")];
            let bytes = collection(&objects, length);
            let sizes = Sizes { length: length as u8, ..SIZES };
            let found = Collection::read(&source(&bytes), 0, sizes).unwrap();
            for (index, data) in objects {
                assert_eq!(found.object(index.into()), Some(data));
            }
            for index in [0, 4, 699, 701, u32::MAX] {
                assert_eq!(found.object(index), None);
            }
        }
    }

    #[test]
    fn damage_is_named() {
        let wrong = |bytes: &[u8]| Collection::read(&source(bytes), 0, SIZES).unwrap_err().to_string();
        let twice = wrong(&collection(&[(1, b"a"), (1, b"b")], 8));
        assert!(twice.contains("a second object 1"), "{twice}");
        let mut long = collection(&[(1, b"a")], 8);
        long[24] = 200;
        assert!(wrong(&long).contains("object 1 has 200 bytes, 28 are left"), "{}", wrong(&long));
        let mut small = collection(&[], 8);
        small[8] = 15;
        assert!(wrong(&small).contains("a collection of 15 bytes"), "{}", wrong(&small));
    }

    #[test]
    fn any_bytes() {
        mutations(&collection(&[(1, b"one"), (2, b"exactly8"), (9, b"!")], 8), |source| {
            if let Ok(found) = Collection::read(source, 0, SIZES) {
                (0..12).for_each(|index| drop(found.object(index).map(<[u8]>::to_vec)));
            }
        });
    }
}
