//! Copies elements that have fields.
//!
//! | source | copy |
//! |---|---|
//! | structures of Zarr | the same; fields that are arrays to v2 only, v3 has none |
//! | structures of HDF5 | structures without gaps, in the order of the members |
//!
//! v3 has one byte order for all fields: the copy uses the byte order of the first field that has
//! one. If bytes are in other places or in another order, they are moved element by element in the
//! memory of a block.

use crate::Array;
use hyperslab_codec::{ByteOrder, DataType, Kind};
use hyperslab_hdf5::element::{Element, ElementKind};
use hyperslab_zarr::{FieldKind, Structure};

/// The most moves for one element. Real structures need far fewer.
const MOST_MOVES: usize = 1 << 16;

/// The Zarr structure with the members of an HDF5 structure.
/// Fails (with text) if Zarr has no such members.
pub(crate) fn of_hdf5(element: &Element) -> Result<Structure, String> {
    let ElementKind::Struct(members) = &element.kind else {
        return Err("elements are no structures".into());
    };
    let mut fields = Vec::new();
    for member in members {
        let (mut shape, mut of) = (Vec::new(), &member.element);
        while let ElementKind::Array { shape: axes, element } = &of.kind {
            shape.extend(axes.iter().map(|len| usize::try_from(*len).unwrap_or(usize::MAX)));
            of = element;
        }
        let refuse = |what: &str| Err(format!("member {:?}: {what} are not supported in Zarr", member.name));
        let kind = match &of.kind {
            ElementKind::Struct(_) => {
                FieldKind::Structure(of_hdf5(of).map_err(|why| format!("member {:?}: {why}", member.name))?)
            }
            ElementKind::Extended { .. } => return refuse("floats of 80 bits"),
            ElementKind::ObjectReference | ElementKind::RegionReference | ElementKind::AnyReference => {
                return refuse("references");
            }
            ElementKind::VlenString { .. } | ElementKind::Vlen { .. } => {
                return refuse("members of variable length");
            }
            ElementKind::Unsupported(what) => return refuse(what),
            _ => match of.engine_type() {
                Some(plain) => FieldKind::Plain(plain),
                None => return refuse("elements of this size"),
            },
        };
        fields.push((member.name.clone(), shape, kind));
    }
    Structure::new(fields)
}

/// The byte order of the first field that has one; little-endian if there is none.
pub(super) fn order(structure: &Structure) -> ByteOrder {
    let mut parts = Vec::new();
    of_structure(structure, 0, &mut parts);
    parts.iter().find(|part| part.dtype.has_order()).map_or(ByteOrder::Little, |part| part.dtype.order())
}

/// Bytes of an element that have one type.
#[derive(Clone, Copy, Debug)]
struct PlainField {
    offset: usize,
    len: usize,
    dtype: DataType,
}

fn of_structure(structure: &Structure, at: usize, parts: &mut Vec<PlainField>) {
    for field in structure.fields() {
        let offset = at + field.offset;
        match &field.kind {
            FieldKind::Plain(dtype) => parts.push(PlainField { offset, len: field.size, dtype: *dtype }),
            FieldKind::Structure(inner) => {
                for number in 0..field.size.checked_div(inner.size()).unwrap_or(0) {
                    if parts.len() > MOST_MOVES {
                        return;
                    }
                    of_structure(inner, offset + number * inner.size(), parts);
                }
            }
        }
    }
}

fn of_element(element: &Element, at: usize, parts: &mut Vec<PlainField>) {
    match &element.kind {
        ElementKind::Struct(fields) => {
            fields.iter().for_each(|field| of_element(&field.element, at + field.offset, parts));
        }
        ElementKind::Array { element: of, .. } if is_structure(of) => {
            for number in 0..element.size.checked_div(of.size).unwrap_or(0) {
                if parts.len() > MOST_MOVES {
                    return;
                }
                of_element(of, at + number * of.size, parts);
            }
        }
        ElementKind::Array { element: of, .. } => {
            let first = parts.len();
            of_element(of, at, parts);
            // All elements of an array of plain elements are one part.
            if let Some(part) = parts.get_mut(first) {
                part.len = element.size;
            }
        }
        _ => {
            let raw = DataType::new(Kind::Raw, element.size, ByteOrder::NATIVE).unwrap_or(DataType::CELL);
            let dtype = element.engine_type().unwrap_or(raw);
            parts.push(PlainField { offset: at, len: element.size, dtype });
        }
    }
}

fn is_structure(element: &Element) -> bool {
    match &element.kind {
        ElementKind::Struct(_) => true,
        ElementKind::Array { element, .. } => is_structure(element),
        _ => false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    from: usize,
    to: usize,
    len: usize,
    /// Bytes to reverse as a unit; 1: none.
    swap: usize,
}

/// Converts elements of the source to elements of the copy, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repack {
    from: usize,
    to: usize,
    moves: Vec<Move>,
}

impl Repack {
    /// Finds the moves from an array to its copy, whose elements have `structure`.
    /// `None`: source and copy have the same bytes. Fails (with text) if there are too many moves.
    pub(crate) fn new(array: &Array, structure: &Structure) -> Result<Option<Self>, String> {
        let array = array.template();
        let (mut from, mut to) = (Vec::new(), Vec::new());
        if let Some(dataset) = array.as_hdf5() {
            of_element(dataset.element(), 0, &mut from);
        } else if let Some(structure) = array.structure() {
            of_structure(structure, 0, &mut from);
        }
        of_structure(structure, 0, &mut to);
        if from.len() > MOST_MOVES || to.len() > MOST_MOVES {
            return Err(format!("structures of more than {MOST_MOVES} parts are not supported"));
        }
        let same = |(from, to): (&PlainField, &PlainField)| {
            from.len == to.len && from.dtype.kind() == to.dtype.kind()
        };
        let (from_size, to_size) = (array.dtype().size(), structure.size());
        if from.len() != to.len() || !from.iter().zip(&to).all(same) || to_size > from_size {
            return Err("its elements are of another type than those of the copy".into());
        }
        let mut moves: Vec<Move> = Vec::new();
        for (from, to) in from.iter().zip(&to) {
            let swap = if from.dtype.order() == to.dtype.order() { 1 } else { to.dtype.number_size() };
            match moves.last_mut() {
                Some(last)
                    if swap == 1
                        && last.swap == 1
                        && last.from + last.len == from.offset
                        && last.to + last.len == to.offset =>
                {
                    last.len += from.len;
                }
                _ => moves.push(Move { from: from.offset, to: to.offset, len: from.len, swap }),
            }
        }
        let whole = Move { from: 0, to: 0, len: to_size, swap: 1 };
        let is_same = moves == [whole] && from_size == to_size;
        Ok((!is_same).then_some(Repack { from: from_size, to: to_size, moves }))
    }

    /// Converts source elements to elements of the copy, at the front of `bytes`.
    /// Returns the bytes of the converted elements, which are never longer than the source's.
    pub(crate) fn apply(&self, bytes: &mut [u8]) -> usize {
        let count = bytes.len().checked_div(self.from).unwrap_or(0);
        let mut element = vec![0; self.from];
        for number in 0..count {
            element.copy_from_slice(&bytes[number * self.from..][..self.from]);
            let copy = &mut bytes[number * self.to..][..self.to];
            for one in &self.moves {
                let place = &mut copy[one.to..][..one.len];
                place.copy_from_slice(&element[one.from..][..one.len]);
                if one.swap > 1 {
                    place.chunks_exact_mut(one.swap).for_each(<[u8]>::reverse);
                }
            }
        }
        count * self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_store::MemoryStore;
    use hyperslab_zarr as zarr;
    use std::sync::Arc;

    fn structure(text: &str) -> Structure {
        Structure::from_text(text).unwrap()
    }

    fn array(text: &str) -> Array {
        let spec = zarr::ArraySpec::of_structure(zarr::Format::V2, &[2], structure(text));
        zarr::Array::create(Arc::new(MemoryStore::new()), "a", spec, false).unwrap().into()
    }

    #[test]
    fn byte_orders_change_and_neighbours_are_moved_together() {
        let source = array(r#"[["a", ">i2"], ["b", [["c", "|u1"], ["d", "<i2"]], [2]]]"#);
        let text = r#"[["a", "<i2"], ["b", [["c", "|u1"], ["d", "<i2"]], [2]]]"#;
        let repack = Repack::new(&source, &structure(text)).unwrap().unwrap();
        assert_eq!(repack.moves.len(), 2);
        let mut bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
        assert_eq!(repack.apply(&mut bytes), 16);
        assert_eq!(bytes, [2, 1, 3, 4, 5, 6, 7, 8, 10, 9, 11, 12, 13, 14, 15, 16]);
        let same = structure(&source.structure().unwrap().to_v2().to_text(None));
        assert_eq!(Repack::new(&source, &same).unwrap(), None);
        assert!(Repack::new(&source, &structure(r#"[["a", "<i2"]]"#)).is_err());
        assert_eq!(order(&same), ByteOrder::Big);
    }
}
