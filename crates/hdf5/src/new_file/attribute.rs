//! Attributes of new objects.

use super::value::{self, Part};
use crate::Libver;
use crate::checksum::lookup3;
use crate::dataspace::Dataspace;
use crate::datatype::Datatype;
use crate::error::{BuildError, Built};
use crate::heaps::{HeapKind, HeapWriter, build_fractal_heap};
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
    pub value: Vec<Part>,
}

/// The most attributes in a header of version 2: the HDF5 library's number.
const MOST_COMPACT: usize = 8;

/// Bytes of a message, more than which a header cannot hold.
const LARGEST: usize = 65_000;

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

/// Builds the heap and the indexes of attributes at `at`. Returns their bytes, and the message that
/// leads there.
pub(super) fn dense(
    attributes: &[NewAttribute],
    messages: &[NewMessage],
    tracked: bool,
    at: u64,
) -> Built<(NewMessage, Vec<u8>)> {
    let objects: Vec<Vec<u8>> = messages.iter().map(|message| message.data.clone()).collect();
    let heap = build_fractal_heap(at, &objects, HeapKind::Attributes)?;
    let (mut bytes, ids) = (heap.bytes, heap.ids);
    let mut tree = |kind: u8, records: Vec<Vec<u8>>| -> Built<u64> {
        let address = at.saturating_add(bytes.len() as u64);
        let len = fit(records.first().map_or(0, Vec::len) as u64, "bytes of a record")?;
        bytes.extend(btree2::build(address, kind, NODE, len, &records.concat())?);
        Ok(address)
    };
    // The id, no flags, and the number of the attribute.
    let record = |(id, number): (&Vec<u8>, u32)| [&id[..], &[0], &number.to_le_bytes()].concat();
    let orders: Vec<Vec<u8>> = ids.iter().zip(0..).map(record).collect();
    let mut names: Vec<(u32, &str, &Vec<u8>)> = attributes
        .iter()
        .zip(&orders)
        .map(|(attribute, record)| (lookup3(attribute.name.as_bytes()), attribute.name.as_str(), record))
        .collect();
    names.sort_unstable();
    let records = names.iter().map(|(hash, _, record)| [&record[..], &hash.to_le_bytes()].concat());
    let names = tree(NameRecord::KIND, records.collect())?;
    let orders = if tracked { Some(tree(ORDERS, orders)?) } else { None };
    Ok((info(attributes.len(), tracked, [Some(at), Some(names), orders])?, bytes))
}

/// Builds the attribute info message.
pub(super) fn info(count: usize, tracked: bool, places: [Option<u64>; 3]) -> Built<NewMessage> {
    let next = fit(count as u64, "attributes that keep their order").map(|next| tracked.then_some(next));
    let next = if tracked { next? } else { None };
    Ok(NewMessage { kind: attribute::INFO_KIND, constant: false, data: attribute::build_info(next, places) })
}

impl NewAttribute {
    /// Builds the message.
    pub(super) fn message(
        &self,
        addresses: &[u64],
        heap: &mut HeapWriter,
        libver: Libver,
    ) -> Built<NewMessage> {
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
        let data = value::bytes(&self.value, addresses, heap)?;
        let data = attribute::build(name, &datatype, &dataspace, &data, libver)?;
        Ok(NewMessage { kind: attribute::KIND, constant: false, data })
    }
}
