//! Attributes of new objects.

use super::value::{self, Places, ValuePart};
use crate::Libver;
use crate::checksum::lookup3;
use crate::dataspace::Dataspace;
use crate::datatype::Datatype;
use crate::error::{BuildError, Built};
use crate::heaps::{HeapKind, build_fractal_heap};
use crate::messages::attribute::{self, NameRecord};
use crate::object_header::NewMessage;
use crate::output::fit;
use crate::trees::btree2;

/// An attribute of a new object.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAttribute {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub datatype: Datatype,
    /// Its shape.
    pub dataspace: Dataspace,
    /// The bytes of its elements.
    pub value: Vec<ValuePart>,
}

/// The most attributes in a header of version 2: the HDF5 library's number.
pub(crate) const MOST_COMPACT: usize = 8;

/// Bytes of a message, more than which a header cannot hold.
pub(crate) const LARGEST: usize = 65_000;

/// Record types of the B-trees of names and of creation orders, and bytes of their nodes.
const ORDERS: u8 = 9;
const NODE: u32 = 512;

/// How an object stores its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// As messages in a header of version 1.
    Old,
    /// As messages in a header of version 2.
    Compact,
    /// In a fractal heap, with B-trees as indexes.
    Dense,
}

impl Style {
    /// The oldest style that can say the attributes.
    pub fn of(messages: &[NewMessage], tracked: bool, libver: Libver) -> Style {
        let is_large = messages.iter().any(|message| message.data.len() > LARGEST);
        let is_new = tracked || libver != Libver::Earliest;
        match (is_large, is_new) {
            (false, false) => Style::Old,
            (false, true) if messages.len() <= MOST_COMPACT => Style::Compact,
            _ => Style::Dense,
        }
    }
}

/// Builds the heap and the indexes of attributes at `at`. Each attribute is its name, its creation
/// order, and its message. Returns the bytes, and the message that leads there.
pub(crate) fn dense(
    attributes: &[(&str, u32, &[u8])],
    next: Option<u16>,
    at: u64,
) -> Built<(NewMessage, Vec<u8>)> {
    let attributes: Vec<(&[u8], u32, &[u8])> =
        attributes.iter().map(|(name, order, data)| (name.as_bytes(), *order, *data)).collect();
    let (places, bytes) = dense_structures(&attributes, next.is_some(), at)?;
    Ok((info(next, places), bytes))
}

/// Builds the heap and the indexes of attributes at `at`: of each its name as stored, its creation
/// order, and its message. `orders`: with an index of creation orders. Returns the places of heap
/// and indexes, and the bytes.
pub(crate) fn dense_structures(
    attributes: &[(&[u8], u32, &[u8])],
    orders: bool,
    at: u64,
) -> Built<([Option<u64>; 3], Vec<u8>)> {
    let objects: Vec<Vec<u8>> = attributes.iter().map(|(_, _, data)| data.to_vec()).collect();
    let heap = build_fractal_heap(at, &objects, HeapKind::Attributes)?;
    let (mut bytes, ids) = (heap.bytes, heap.ids);
    let mut tree = |kind: u8, records: Vec<Vec<u8>>| -> Built<u64> {
        let address = at.saturating_add(bytes.len() as u64);
        let len = fit(records.first().map_or(0, Vec::len) as u64, "bytes of a record")?;
        bytes.extend(btree2::build(address, kind, NODE, len, &records.concat())?);
        Ok(address)
    };
    // The id, no flags, and the creation order.
    let all = || attributes.iter().zip(&ids);
    let record = |order: &u32, id: &Vec<u8>| [&id[..], &[0], &order.to_le_bytes()].concat();
    let mut names: Vec<(u32, &[u8], Vec<u8>)> =
        all().map(|((name, order, _), id)| (lookup3(name), *name, record(order, id))).collect();
    names.sort_unstable();
    let records = names.iter().map(|(hash, _, record)| [&record[..], &hash.to_le_bytes()].concat());
    let names = tree(NameRecord::KIND, records.collect())?;
    let mut by_order: Vec<(u32, Vec<u8>)> =
        all().map(|((_, order, _), id)| (*order, record(order, id))).collect();
    by_order.sort_unstable();
    let records = by_order.into_iter().map(|(_, record)| record).collect();
    let orders = if orders { Some(tree(ORDERS, records)?) } else { None };
    Ok(([Some(at), Some(names), orders], bytes))
}

/// Builds the attribute info message. `next`: the next creation order, if the object keeps orders.
pub(crate) fn info(next: Option<u16>, places: [Option<u64>; 3]) -> NewMessage {
    NewMessage { kind: attribute::INFO_KIND, constant: false, data: attribute::build_info(next, places) }
}

/// The creation order of the next attribute after `count` attributes.
pub(super) fn next_order(count: usize, tracked: bool) -> Built<Option<u16>> {
    tracked.then(|| fit(count as u64, "attributes that keep their order")).transpose()
}

impl NewAttribute {
    /// Builds the message.
    pub(crate) fn message(&self, places: &mut dyn Places, libver: Libver) -> Built<NewMessage> {
        let name = &self.name;
        let refuse = |why: &str| BuildError(format!("attribute {name:?}: {why}"));
        if name.is_empty() || name.contains('\0') {
            return Err(refuse("a name has at least one character, and no NUL"));
        }
        let found = self.value.iter().fold(0, |len: u64, part| len.saturating_add(part.len()));
        let expected = self.dataspace.count().and_then(|count| count.checked_mul(self.datatype.size.into()));
        if expected != Some(found) {
            let expected = expected.map_or("more than 2⁶⁴".into(), |bytes| bytes.to_string());
            return Err(refuse(&format!("expected {expected} bytes of elements, found {found}")));
        }
        let datatype = self.datatype.build(libver).map_err(|why| refuse(&why.to_string()))?;
        let dataspace = self.dataspace.build(libver)?;
        let data = value::bytes(&self.value, places)?;
        let data = attribute::build(name, &datatype, &dataspace, &data, libver)?;
        Ok(NewMessage { kind: attribute::KIND, constant: false, data })
    }
}
