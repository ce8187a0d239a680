//! References to objects, to regions of datasets, and to attributes.
//!
//! Specification IV.A.2.d, class 7, and its appendix on references. The bytes of an element depend
//! on its kind, with lengths in bytes in parentheses:
//!
//! * object: address of the object's header
//! * region: global heap id (address, index). The heap object holds the address of the dataset's
//!   header and a [selection](crate::selection).
//! * HDF5 1.12: kind (1) and flags (1). For an object in the same file, a token follows. Otherwise,
//!   number of bytes (4) and global heap id follow. The heap object holds a token and, with flag
//!   bit 0, the name of the file. For a region it goes on with number of bytes (4), number of axes
//!   (4) and selection. For an attribute it goes on with the name.
//!
//! A token is a length (1) and the address of an object header. A name follows its length (2).

use crate::cursor::{address, number, to_usize};
use crate::element::{Element, ElementKind};
use crate::heaps::{Object, ObjectError};
use crate::selection::Selection;
use crate::text::lossless;
use crate::vlen::strided;
use crate::{Cursor, File, Hdf5Error, ParseError, Parsed, Result};

/// Number of heap collections that are fetched together.
const TOGETHER: usize = 256;

/// The target of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Name of the target's file, as stored. `None`: the same file.
    pub file: Option<String>,
    /// Address of the target object's header.
    pub address: u64,
    /// The whole object or a part of it.
    pub part: ReferencedPart,
}

/// The part of an object that a reference means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferencedPart {
    /// The whole object.
    Whole,
    /// Some elements of a dataset.
    Region(Selection),
    /// The attribute with this name.
    Attribute(String),
}

impl Reference {
    /// Returns the absolute path of the object. `None`: it is in another file, or has no path.
    pub fn path(&self, file: &File) -> Result<Option<String>> {
        if self.file.is_some() {
            return Ok(None);
        }
        Ok(file.path_of(self.address)?.map(|path| format!("/{path}")))
    }
}

/// Resolves `count` references in `memory`, `stride` bytes apart from `offset` on.
///
/// `element` is one of the reference types of [`ElementKind`]. `None` stands for a reference that
/// was never written.
pub fn resolve(
    file: &File,
    element: &Element,
    memory: &[u8],
    offset: usize,
    stride: usize,
    count: usize,
) -> Result<Vec<Option<Reference>>> {
    let parts = strided(memory, offset, stride, element.size, count).ok_or_else(|| {
        file.source().invalid(format!("{count} references do not fit into {} bytes of memory", memory.len()))
    })?;
    let mut found: Vec<Option<Reference>> = Vec::new();
    // Heap collection, index of the object in it, and number of the reference.
    let mut ids: Vec<(u64, u32, usize)> = Vec::new();
    let mut heads: Vec<Option<Head>> = Vec::new();
    for (cell, part) in parts.enumerate() {
        let wrong = |why: ParseError| file.source().invalid(format!("reference {cell}: {why}"));
        let (direct, id, head) = match element.kind {
            ElementKind::ObjectReference => (object_reference(part), None, None),
            ElementKind::RegionReference => (None, heap_id(part), None),
            ElementKind::AnyReference => any_reference(file.source().cursor(part, 0)).map_err(wrong)?,
            _ => {
                return Err(file
                    .source()
                    .invalid("expected elements that are references, found another type"));
            }
        };
        found.push(direct);
        heads.push(head);
        ids.extend(id.map(|(address, index)| (address, index, cell)));
    }
    ids.sort_unstable();
    let groups: Vec<_> = ids.chunk_by(|(a, ..), (b, ..)| a == b).collect();
    for groups in groups.chunks(TOGETHER) {
        let addresses: Vec<u64> = groups.iter().flat_map(|group| group.first()).map(|id| id.0).collect();
        let collections = file.collections(&addresses, true).map_err(|error| {
            let Hdf5Error::Parse { address, .. } = error else { return error };
            let cells = ids.iter().filter(|(at, ..)| *at == address).map(|(.., cell)| *cell);
            ObjectError::Read(error).of(file, cells.min().unwrap_or_default(), address)
        })?;
        let ids = groups
            .iter()
            .zip(&collections)
            .flat_map(|(group, found)| group.iter().map(move |id| (id, found)));
        for ((address, index, cell), collection) in ids {
            let head = heads.get(*cell).copied().flatten();
            let reference = in_heap(file, collection.object(*index), *index, head)
                .map_err(|error| error.of(file, *cell, *address))?;
            if let Some(place) = found.get_mut(*cell) {
                *place = Some(reference);
            }
        }
    }
    Ok(found)
}

/// Parses a heap object: a reference of HDF5 1.12 if there is a `head`, else a region.
fn in_heap(
    file: &File,
    object: Option<Object<'_>>,
    index: u32,
    head: Option<Head>,
) -> Result<Reference, ObjectError> {
    let object = object.ok_or_else(|| format!("the collection has no object {index}"))?;
    let bytes = object.read(file.source())?;
    let mut cursor = file.source().cursor(&bytes, 0);
    let reference = match head {
        Some(head) => encoded_reference(&mut cursor, head),
        None => region(&mut cursor),
    };
    Ok(reference.map_err(|why| why.to_string())?)
}

/// Parses an object reference, which is an address.
fn object_reference(bytes: &[u8]) -> Option<Reference> {
    let address = address(bytes).unwrap_or(Some(u64::MAX)).filter(|address| *address != 0)?;
    Some(Reference { file: None, address, part: ReferencedPart::Whole })
}

/// Parses a heap id: an address and an index of 4 bytes.
fn heap_id(bytes: &[u8]) -> Option<(u64, u32)> {
    let (collection, index) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    let collection = address(collection).unwrap_or(Some(u64::MAX)).filter(|address| *address != 0)?;
    Some((collection, u32::try_from(number(index)?).ok()?))
}

/// The first two bytes of a reference of HDF5 1.12.
#[derive(Clone, Copy, Debug)]
struct Head {
    kind: u8,
    external: bool,
}

/// A complete reference, or the heap id and head of one in the heap.
type Any = (Option<Reference>, Option<(u64, u32)>, Option<Head>);

fn any_reference(mut cursor: Cursor<'_>) -> Parsed<Any> {
    if cursor.clone().take_rest().iter().all(|byte| *byte == 0) {
        return Ok((None, None, None));
    }
    let (kind, flags) = (cursor.u8()?, cursor.u8()?);
    if !(2..=4).contains(&kind) || flags > 1 {
        return Err(ParseError::Unsupported(format!(
            "a reference of type {kind} with flags {flags:#x} (known: types 2 to 4, flags 0 and 1)"
        )));
    }
    let head = Head { kind, external: flags & 1 != 0 };
    if kind == 2 && !head.external {
        let address = token(&mut cursor)?;
        return Ok((Some(Reference { file: None, address, part: ReferencedPart::Whole }), None, None));
    }
    cursor.skip(4)?;
    Ok((None, heap_id(cursor.take_rest()), Some(head)))
}

/// Parses the heap object of a reference of HDF5 1.12.
fn encoded_reference(cursor: &mut Cursor<'_>, head: Head) -> Parsed<Reference> {
    let address = token(cursor)?;
    let file = if head.external { Some(name(cursor)?) } else { None };
    let part = match head.kind {
        2 => ReferencedPart::Whole,
        3 => {
            let len = cursor.u32()?;
            // Number of axes of the dataset. The selection contains it too.
            cursor.skip(4)?;
            let mut part = cursor.part(to_usize(len))?;
            ReferencedPart::Region(Selection::parse(&mut part)?)
        }
        _ => ReferencedPart::Attribute(name(cursor)?),
    };
    Ok(Reference { file, address, part })
}

/// Parses the heap object of a region reference.
fn region(cursor: &mut Cursor<'_>) -> Parsed<Reference> {
    let address = cursor.defined_address("a dataset")?;
    Ok(Reference { file: None, address, part: ReferencedPart::Region(Selection::parse(cursor)?) })
}

fn token(cursor: &mut Cursor<'_>) -> Parsed<u64> {
    let len = cursor.u8()?;
    cursor.uint(len.into())
}

fn name(cursor: &mut Cursor<'_>) -> Parsed<String> {
    let len = cursor.u16()?;
    cursor.take(len.into()).map(lossless)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::Slab;
    use crate::testing::{DATA, REST, ROOT, changes, collection, element, fails, file, heap_id, structure};

    fn object(address: u64) -> Option<Reference> {
        Some(Reference { file: None, address, part: ReferencedPart::Whole })
    }

    /// A selection of the points (1, 2) and (3, 4), version 1.
    fn points() -> Vec<u8> {
        [1, 1, 0, 24, 2, 2, 1, 2, 3, 4].into_iter().flat_map(u32::to_le_bytes).collect()
    }

    fn region(selection: Selection) -> ReferencedPart {
        ReferencedPart::Region(selection)
    }

    fn two_points() -> Selection {
        Selection::Points { rank: 2, coordinates: vec![1, 2, 3, 4] }
    }

    #[test]
    fn objects() {
        let file = file(&[]);
        let (_, element) = element("1700000008000000");
        let memory = [DATA, 0, u64::MAX, ROOT, 7].map(u64::to_le_bytes).concat();
        let found = resolve(&file, &element, &memory, 0, 8, 5).unwrap();
        assert_eq!(found, [object(DATA), None, None, object(ROOT), object(7)]);
        let path = |at: usize| found[at].as_ref().unwrap().path(&file).unwrap();
        assert_eq!((path(0).as_deref(), path(3).as_deref(), path(4)), (Some("/data"), Some("/"), None));
        assert!(resolve(&file, &element, &memory, 0, 8, 6).is_err());
    }

    #[test]
    fn regions() {
        let object = [&DATA.to_le_bytes()[..], &points()].concat();
        let file = file(&collection(&[(1, &object), (2, &object[..20])]));
        let (_, element) = element("170100000c000000");
        let id = |index| heap_id(0, REST, index)[4..].to_vec();
        let memory = [id(1), vec![0; 12]].concat();
        let found = resolve(&file, &element, &memory, 0, 12, 2).unwrap();
        let expected = Reference { file: None, address: DATA, part: region(two_points()) };
        assert_eq!(found, [Some(expected), None]);
        fails(resolve(&file, &element, &id(2), 0, 12, 1), "element 0, global heap collection at address 120");
    }

    /// References as HDF5 2.0 writes them. (The regular region is its version 3 selection.)
    #[test]
    fn all_that_hdf5_1_12_has() {
        let token = structure!([8], DATA);
        let slabs =
            [2, 0, 0, 0, 3, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 0, 3, 0, 2, 0, 1, 0, 2, 0, 3, 0, 3, 0, 2, 0];
        let regular = structure!(token, [30, 0, 0, 0, 2, 0, 0, 0], slabs);
        let attribute = structure!(token, b"\x05\0units");
        let elsewhere = structure!(token, b"\x04\0o.h5");
        let there = structure!(elsewhere, [40, 0, 0, 0, 2, 0, 0, 0], points());
        let heap = collection(&[(1, &regular), (2, &attribute), (3, &elsewhere), (4, &there)]);
        let file = file(&heap);
        let (_, element) = element("4712000012000000");
        let stored = |kind: u8, flags: u8, index| [&[kind, flags][..], &heap_id(9, REST, index)].concat();
        let direct = structure!([2, 0], token, [0; 7]);
        let memory =
            [direct, stored(3, 0, 1), stored(4, 0, 2), stored(2, 1, 3), stored(3, 1, 4), vec![0; 18]]
                .concat();
        let found = resolve(&file, &element, &memory, 0, 18, 6).unwrap();
        let slab =
            |start, stride, count, block| Slab { start, stride, count: Some(count), block: Some(block) };
        let here = |part| Some(Reference { file: None, address: DATA, part });
        let other = |part| Some(Reference { file: Some("o.h5".into()), address: DATA, part });
        let expected = [
            object(DATA),
            here(region(Selection::Regular(vec![slab(1, 3, 2, 1), slab(2, 3, 3, 2)]))),
            here(ReferencedPart::Attribute("units".into())),
            other(ReferencedPart::Whole),
            other(region(two_points())),
            None,
        ];
        assert_eq!(found, expected);
        assert_eq!(found[3].as_ref().unwrap().path(&file).unwrap(), None);
        for (kind, flags) in [(1, 0), (5, 0), (3, 2)] {
            let error = resolve(&file, &element, &stored(kind, flags, 1), 0, 18, 1).unwrap_err().to_string();
            assert!(error.contains("reference 0") && error.contains("not supported"), "{error}");
        }
        // Change every byte of the elements and of the heap.
        for (_, memory) in changes(&memory, |byte| [0, 1, 2, 3, 4, 0xff, byte ^ 0x80]) {
            let _ = resolve(&file, &element, &memory, 0, 18, 6);
        }
        for (_, heap) in changes(&heap, |byte| [0, 1, 0xff, byte ^ 0x80]) {
            let _ = resolve(&crate::testing::file(&heap), &element, &memory, 0, 18, 6);
        }
    }
}
