//! References: to objects, to regions of datasets, to attributes (specification IV.A.2.d, class 7, and its appendix on references).
//!
//! What an element holds, by kind:
//!
//! | kind | bytes |
//! |---|---|
//! | object | address of the object's header |
//! | region | global heap id (address, index) of: address of the dataset's header, [selection](crate::selection) |
//! | of HDF5 1.12 | what it refers to (1), flags (1), then of an object of this file: its token; else number of bytes (4) and global heap id of: token, name of the file (flag bit 0), then of a region: bytes (4), axes (4), selection; of an attribute: its name |
//!
//! A token is its length (1) and the address of an object header; names have their length (2) in front.

use crate::cursor::{address, number};
use crate::element::{Element, ElementKind};
use crate::heaps::HeapIds;
use crate::selection::Selection;
use crate::text::lossless;
use crate::vlen::strided;
use crate::{Cursor, File, Hdf5Error, ParseError, Sizes};

/// What a reference leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The other file that it leads into, as it is called there; `None`: the same.
    pub file: Option<String>,
    /// Address of the header of the object.
    pub address: u64,
    /// What of the object.
    pub part: Part,
}

/// What of an object a reference leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// Some elements of a dataset.
    Region(Selection),
    /// An attribute of this name.
    Attribute(String),
}

impl Reference {
    /// The path of the object from the root, with a leading `/`. `None`: it is in another file, or no link leads to it.
    pub fn path(&self, file: &File) -> Result<Option<String>, Hdf5Error> {
        if self.file.is_some() {
            return Ok(None);
        }
        Ok(file.path_of(self.address)?.map(|path| format!("/{path}")))
    }
}

/// Resolves references (`element` is one of those of [`ElementKind`]). They are in `memory`, the first at `offset`, the next `stride` bytes further, `count` in all.
/// `None`: one that leads nowhere, as it was never written.
pub fn resolve(
    file: &File,
    element: &Element,
    memory: &[u8],
    offset: usize,
    stride: usize,
    count: usize,
) -> Result<Vec<Option<Reference>>, Hdf5Error> {
    let sizes = file.sizes();
    let parts = strided(memory, offset, stride, element.size, count).ok_or_else(|| {
        file.source().invalid(format!("{count} references are not within {} bytes", memory.len()))
    })?;
    let mut found: Vec<Option<Reference>> = Vec::new();
    let mut ids = HeapIds::default();
    let mut heads: Vec<Option<Head>> = Vec::new();
    for (cell, part) in parts.enumerate() {
        let wrong = |why: ParseError| file.source().invalid(format!("reference {cell}: {why}"));
        let (direct, id, head) = match element.kind {
            ElementKind::ObjectReference => (direct(part), None, None),
            ElementKind::RegionReference => (None, heap_id(part), None),
            ElementKind::AnyReference => any(part, sizes).map_err(wrong)?,
            _ => return Err(file.source().invalid("elements that are not references lead nowhere")),
        };
        found.push(direct);
        heads.push(head);
        ids.push(id);
    }
    ids.objects(file, |cell, object| {
        let mut cursor = Cursor::whole(object, 0, sizes);
        let reference = match heads.get(cell).copied().flatten() {
            Some(head) => encoded(&mut cursor, head),
            None => region(&mut cursor),
        };
        if let Some(place) = found.get_mut(cell) {
            *place = Some(reference.map_err(|why| why.to_string())?);
        }
        Ok(())
    })?;
    Ok(found)
}

/// A reference to an object that is an address.
fn direct(bytes: &[u8]) -> Option<Reference> {
    let address = address(bytes).unwrap_or(Some(u64::MAX)).filter(|address| *address != 0)?;
    Some(Reference { file: None, address, part: Part::Whole })
}

/// A heap id, which is an address and 4 bytes of index.
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

/// A reference that says itself what it is, or where the heap has it.
type Any = (Option<Reference>, Option<(u64, u32)>, Option<Head>);

fn any(bytes: &[u8], sizes: Sizes) -> Result<Any, ParseError> {
    let mut cursor = Cursor::whole(bytes, 0, sizes);
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok((None, None, None));
    }
    let (kind, flags) = (cursor.u8()?, cursor.u8()?);
    if !(2..=4).contains(&kind) || flags > 1 {
        return Err(ParseError::Unsupported(format!("a reference of kind {kind} with flags {flags:#x}")));
    }
    let head = Head { kind, external: flags & 1 != 0 };
    if kind == 2 && !head.external {
        let address = token(&mut cursor)?;
        return Ok((Some(Reference { file: None, address, part: Part::Whole }), None, None));
    }
    cursor.skip(4)?;
    Ok((None, heap_id(cursor.rest()), Some(head)))
}

/// What the heap has of a reference of HDF5 1.12.
fn encoded(cursor: &mut Cursor<'_>, head: Head) -> Result<Reference, ParseError> {
    let address = token(cursor)?;
    let file = if head.external { Some(name(cursor)?) } else { None };
    let part = match head.kind {
        2 => Part::Whole,
        3 => {
            let len = cursor.u32()?;
            // The axes of the dataset, which the selection knows as well.
            cursor.skip(4)?;
            let mut part = cursor.part(usize::try_from(len).unwrap_or(usize::MAX))?;
            Part::Region(Selection::parse(&mut part)?)
        }
        _ => Part::Attribute(name(cursor)?),
    };
    Ok(Reference { file, address, part })
}

/// What the heap has of a reference to a region.
fn region(cursor: &mut Cursor<'_>) -> Result<Reference, ParseError> {
    let address = cursor.defined("a dataset")?;
    Ok(Reference { file: None, address, part: Part::Region(Selection::parse(cursor)?) })
}

fn token(cursor: &mut Cursor<'_>) -> Result<u64, ParseError> {
    let len = cursor.u8()?;
    cursor.uint(len.into())
}

fn name(cursor: &mut Cursor<'_>) -> Result<String, ParseError> {
    let len = cursor.u16()?;
    cursor.take(len.into()).map(lossless)
}
