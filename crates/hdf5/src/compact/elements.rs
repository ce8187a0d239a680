//! Elements that refer to values or objects: references, sequences and text of variable length.

use super::mover::Mover;
use super::unstorable;
use crate::datatype::{Class, Datatype, ReferenceKind};
use crate::heaps::HeapPlace;
use crate::{Hdf5Error, Result};

/// Heap objects whose new places are remembered: several elements may lead to one. 64 MiB of memory.
const MOST_KNOWN: usize = 1 << 20;

/// Bytes before the heap id in an element of variable length, and in a reference of HDF5 1.12.
const COUNT: usize = 4;
const REFERENCE_HEAD: usize = 6;

/// A heap id in an element.
#[derive(Clone, Copy, Debug)]
struct Id {
    collection: u64,
    index: u32,
}

/// Parses the heap id of 12 bytes at `at`. `None`: it leads nowhere.
fn id(element: &[u8], at: usize) -> Option<Id> {
    let bytes = element.get(at..)?.first_chunk::<12>()?;
    let (collection, index) = (bytes.first_chunk::<8>()?, bytes.last_chunk::<4>()?);
    let (collection, index) = (u64::from_le_bytes(*collection), u32::from_le_bytes(*index));
    (collection != 0 && collection != u64::MAX).then_some(Id { collection, index })
}

fn put_id(element: &mut [u8], at: usize, place: HeapPlace) {
    let bytes = [&place.collection.to_le_bytes()[..], &place.index.to_le_bytes()].concat();
    if let Some(to) = element.get_mut(at..at.saturating_add(12)) {
        to.copy_from_slice(&bytes);
    }
}

impl Mover<'_> {
    /// Moves everything that elements lead to.
    pub fn elements(&mut self, datatype: &Datatype, bytes: &mut [u8]) -> Result<()> {
        let size = usize::try_from(datatype.size).unwrap_or(usize::MAX).max(1);
        for (number, element) in bytes.chunks_exact_mut(size).enumerate() {
            if number & 0xfff == 0 {
                self.advance(0)?;
            }
            self.element(datatype, element)?;
        }
        Ok(())
    }

    fn element(&mut self, datatype: &Datatype, element: &mut [u8]) -> Result<()> {
        match &datatype.class {
            Class::Reference(ReferenceKind::Object) => {
                let Some(address) = element.first_chunk_mut::<8>() else { return Err(self.short(datatype)) };
                let new = self.reference(u64::from_le_bytes(*address));
                *address = new.to_le_bytes();
                Ok(())
            }
            Class::Reference(ReferenceKind::Region) => self.region(datatype, element),
            Class::Reference(_) => self.any_reference(datatype, element),
            Class::VlenString { .. } => self.sequence(datatype, None, element),
            Class::Vlen(base) => self.sequence(datatype, Some(base), element),
            Class::Compound(members) => {
                for member in members.iter().filter(|member| member.datatype.refers()) {
                    let start = usize::try_from(member.offset).unwrap_or(usize::MAX);
                    let len = usize::try_from(member.datatype.size).unwrap_or(usize::MAX);
                    match element.get_mut(start..start.saturating_add(len)) {
                        Some(part) => self.element(&member.datatype, part)?,
                        None => return Err(self.short(datatype)),
                    }
                }
                Ok(())
            }
            Class::Array { base, .. } if base.refers() => self.elements(base, element),
            _ => Ok(()),
        }
    }

    /// Moves a sequence. `base`: the type of its items. `None`: it is text.
    fn sequence(&mut self, datatype: &Datatype, base: Option<&Datatype>, element: &mut [u8]) -> Result<()> {
        let Some(count) = element.first_chunk::<COUNT>().filter(|_| element.len() >= COUNT + 12) else {
            return Err(self.short(datatype));
        };
        let count = u32::from_le_bytes(*count);
        let size = base.map_or(1, |base| base.size);
        let len = u64::from(count).saturating_mul(size.into());
        // Text without letters keeps its place: without one it is a null pointer for programs in C.
        let Some(id) = id(element, COUNT).filter(|id| len > 0 || base.is_none() && self.has(*id)) else {
            // No items: no place in a heap.
            if let Some(place) = element.get_mut(COUNT..COUNT + 12) {
                place.fill(0);
            }
            return Ok(());
        };
        let place = self.moved(id, Some(len), |mover, value| match base.filter(|base| base.refers()) {
            Some(base) => mover.elements(base, value),
            None => Ok(()),
        });
        let place = match place {
            Ok(place) => place,
            Err(error) => {
                self.file.source().lose(error)?;
                // An element without items.
                element.fill(0);
                return Ok(());
            }
        };
        put_id(element, COUNT, place);
        Ok(())
    }

    /// Moves a reference to a region: its heap object begins with the address of the dataset.
    fn region(&mut self, datatype: &Datatype, element: &mut [u8]) -> Result<()> {
        if element.len() < 12 {
            return Err(self.short(datatype));
        }
        let Some(id) = id(element, 0) else { return Ok(()) };
        self.object_of(id, 0, element, 0)
    }

    /// Moves a reference of HDF5 1.12.
    fn any_reference(&mut self, datatype: &Datatype, element: &mut [u8]) -> Result<()> {
        let [kind, flags, rest @ ..] = &mut *element else { return Err(self.short(datatype)) };
        match (*kind, *flags & 1) {
            (0, 0) if rest.iter().all(|byte| *byte == 0) => Ok(()),
            // An object in this file: the length of its address, and the address.
            (2, 0) => match rest {
                [8, address @ ..] => {
                    let Some(address) = address.first_chunk_mut::<8>() else {
                        return Err(self.short(datatype));
                    };
                    let new = self.reference(u64::from_le_bytes(*address));
                    *address = new.to_le_bytes();
                    Ok(())
                }
                _ => Err(self.short(datatype)),
            },
            (2..=4, flags) if rest.len() == REFERENCE_HEAD - 2 + 12 => {
                let Some(id) = id(element, REFERENCE_HEAD) else { return Ok(()) };
                if flags == 1 {
                    // The address is one of another file.
                    let place = self.moved(id, None, |_, _| Ok(()))?;
                    put_id(element, REFERENCE_HEAD, place);
                    return Ok(());
                }
                self.object_of(id, 1, element, REFERENCE_HEAD)
            }
            _ => Err(self
                .file
                .source()
                .unsupported(format!("compacting a reference of type {kind} in {} bytes", rest.len() + 2))),
        }
    }

    /// Moves the heap object of a reference, which has the address of an object at `at`. A reference to
    /// a deleted object becomes empty.
    fn object_of(&mut self, id: Id, at: usize, element: &mut [u8], id_at: usize) -> Result<()> {
        let value = match self.value(id, None) {
            Ok(value) => value,
            Err(error) => {
                self.file.source().lose(error)?;
                element.fill(0);
                return Ok(());
            }
        };
        let Some(address) = value.get(at..).and_then(|value| value.first_chunk::<8>()) else {
            return Err(self.file.source().invalid("a reference leads to too few bytes"));
        };
        let new = self.reference(u64::from_le_bytes(*address));
        if !self.is_kept(u64::from_le_bytes(*address)) {
            element.fill(0);
            return Ok(());
        }
        let place = self.moved(id, None, |_, value| {
            if let Some(address) = value.get_mut(at..).and_then(|value| value.first_chunk_mut::<8>()) {
                *address = new.to_le_bytes();
            }
            Ok(())
        })?;
        put_id(element, id_at, place);
        Ok(())
    }

    /// Copies a heap object, or its first `len` bytes, after `change`. Returns its new place.
    fn moved(
        &mut self,
        id: Id,
        len: Option<u64>,
        change: impl FnOnce(&mut Self, &mut [u8]) -> Result<()>,
    ) -> Result<HeapPlace> {
        let key = (id.collection, id.index, len.unwrap_or(u64::MAX));
        if let Some(place) = self.known.get(&key) {
            return Ok(*place);
        }
        let mut value = self.value(id, len)?;
        change(self, &mut value)?;
        let place = self.put_value(&value)?;
        if self.known.len() < MOST_KNOWN {
            self.known.insert(key, place);
        }
        Ok(place)
    }

    /// Stores a value in the heap of the copy.
    fn put_value(&mut self, value: &[u8]) -> Result<HeapPlace> {
        self.values_left = self.values_left.checked_sub(value.len() as u64).ok_or_else(|| {
            let why = "its values of variable length overlap: together they are larger than the file";
            self.file.source().invalid(why)
        })?;
        let place = self.heap.put(value).map_err(unstorable)?;
        self.put_values()?;
        Ok(place)
    }

    /// Copies a heap object as it is. Returns its new place.
    pub fn heap_object(&mut self, collection: u64, index: u32) -> Result<HeapPlace> {
        self.moved(Id { collection, index }, None, |_, _| Ok(()))
    }

    /// Reads a heap object, or its first `len` bytes.
    fn value(&mut self, id: Id, len: Option<u64>) -> Result<Vec<u8>> {
        let source = self.file.source();
        let collection = match self.last.take() {
            Some(last) if last.address() == id.collection => last,
            _ => self.file.collection(id.collection)?,
        };
        let Id { collection: at, index } = id;
        let missing =
            |why: &str| source.invalid(format!("heap object {index} of the collection at {at} {why}"));
        let object = collection.object(index).ok_or_else(|| missing("does not exist"))?;
        let object = match len {
            Some(len) => object.first(len).ok_or_else(|| missing(&format!("has fewer than {len} bytes")))?,
            None => object,
        };
        let value = object.read(source)?.into_owned();
        self.last = Some(collection);
        Ok(value)
    }

    /// Returns `true` if a heap object exists.
    fn has(&mut self, id: Id) -> bool {
        self.value(id, Some(0)).is_ok()
    }

    fn short(&self, datatype: &Datatype) -> Hdf5Error {
        let size = datatype.size;
        self.file.source().invalid(format!("elements of {size} bytes are too short for their type"))
    }
}
