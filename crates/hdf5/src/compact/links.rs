//! Links and attributes that are not in the header of their object.

use super::mover::Mover;
use super::salvaged;
use super::survey::cursor;
use super::unstorable;
use crate::error::Built;
use crate::messages::Message;
use crate::messages::attribute::{AttributeInfo, AttributeParts, NameRecord};
use crate::messages::link::{self, LinkHead, LinkInfo, SymbolTable};
use crate::new_file::{attribute, group};
use crate::trees::btree2;
use crate::trees::symbol_table::{self, EntryTarget, SymbolEntry};
use crate::{File, Hdf5Error, ParseError, Result};

/// Record type of the B-tree of names of links.
const LINK_NAMES: u8 = 5;

/// The links that a message of a group leads to.
pub(super) enum GroupLinks {
    InHeader,
    Table(Vec<SymbolEntry>),
    /// The link messages.
    Dense(Vec<Vec<u8>>),
}

/// Reads the links that a symbol table message or a link info message leads to.
pub(super) fn read(file: &File, message: &Message) -> Result<GroupLinks> {
    match read_all(file, message) {
        Err(error) => {
            file.source().lose(error)?;
            Ok(match message.kind {
                link::SYMBOL_TABLE_KIND => GroupLinks::Table(Vec::new()),
                _ => GroupLinks::Dense(Vec::new()),
            })
        }
        links => links,
    }
}

fn read_all(file: &File, message: &Message) -> Result<GroupLinks> {
    let source = file.source();
    if message.kind == link::SYMBOL_TABLE_KIND {
        let table = file.parse(message, SymbolTable::parse)?;
        let mut entries = symbol_table::stored_entries(source, table.btree, table.heap)?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        return Ok(GroupLinks::Table(entries));
    }
    let info = file.parse(message, LinkInfo::parse)?;
    let Some(heap) = info.heap else { return Ok(GroupLinks::InHeader) };
    let names = info.names.ok_or_else(|| source.invalid("it has a heap of links without an index"))?;
    let mut ids = Vec::new();
    let before = source.losses().map(|losses| losses.count());
    btree2::records(source, names, LINK_NAMES, &mut |record| {
        record.skip(4)?;
        ids.push(record.take_rest().to_vec());
        Ok(())
    })
    .or_else(|error| source.lose(error))?;
    let heap = file.heap(heap)?;
    if source.losses().map(|losses| losses.count()) != before {
        return Ok(GroupLinks::Dense(salvaged::links_of_heap(file, &heap)));
    }
    let mut messages = Vec::with_capacity(ids.len());
    for id in ids {
        match heap.get(source, &id) {
            Ok(message) => messages.push(message.to_vec()),
            Err(error) => source.lose(error)?,
        }
    }
    Ok(GroupLinks::Dense(messages))
}

/// Reads the attributes that an attribute info message leads to: creation orders and messages.
pub(super) fn read_attributes(file: &File, message: &Message) -> Result<Vec<(u32, Vec<u8>)>> {
    match read_all_attributes(file, message) {
        Err(error) => {
            file.source().lose(error)?;
            Ok(Vec::new())
        }
        found => found,
    }
}

fn read_all_attributes(file: &File, message: &Message) -> Result<Vec<(u32, Vec<u8>)>> {
    let source = file.source();
    let info = file.parse(message, AttributeInfo::parse)?;
    let Some((heap, names)) = info.heap.zip(info.names) else { return Ok(Vec::new()) };
    let mut records = Vec::new();
    btree2::records(source, names, NameRecord::KIND, &mut |record| {
        records.push(NameRecord::parse(record)?);
        Ok(())
    })?;
    let heap = file.heap(heap)?;
    let read = |record: &NameRecord| match record.shared {
        true => Err(shared_in_heap(file)),
        false => Ok((record.creation, heap.get(source, &record.id)?.to_vec())),
    };
    let mut found = Vec::with_capacity(records.len());
    for record in &records {
        match read(record) {
            Ok(attribute) => found.push(attribute),
            Err(error) => source.lose(error)?,
        }
    }
    Ok(found)
}

/// The error of a message in a heap of shared messages.
pub(super) fn shared_in_heap(file: &File) -> Hdf5Error {
    file.source().unsupported("compacting a file with a table of shared messages".into())
}

/// The place of addresses in a link info message or an attribute info message: heap, index of names,
/// index of creation orders.
///
/// The first flag says that there is a number of `width` bytes before them, the second that there is
/// an index of creation orders.
fn places(data: &[u8], width: usize) -> (usize, bool) {
    let flags = data.get(1).copied().unwrap_or_default();
    (2 + if flags & 1 != 0 { width } else { 0 }, flags & 2 != 0)
}

/// Returns the creation order of a further link of a group, by its link info message, and the message
/// once there are `more` links. `None`: the group keeps no orders.
pub(super) fn with_orders(info: &[u8], more: impl FnOnce(Option<i64>) -> u64) -> (Option<i64>, Vec<u8>) {
    let mut data = info.to_vec();
    let tracks = info.get(1).is_some_and(|flags| flags & 1 != 0);
    let Some(next) = data.get_mut(2..).and_then(|data| data.first_chunk_mut::<8>()).filter(|_| tracks) else {
        return (None, data);
    };
    let first = i64::from_le_bytes(*next).max(0);
    *next = first.saturating_add_unsigned(more(Some(first))).to_le_bytes();
    (Some(first), data)
}

/// A structure that must not cross the border of a page.
pub(super) fn whole<T>(built: Built<(T, Vec<u8>)>) -> Result<(T, Vec<u8>, u64)> {
    let (result, bytes) = built.map_err(unstorable)?;
    let len = bytes.len() as u64;
    Ok((result, bytes, len))
}

/// The places of links or attributes that are all lost.
fn nowhere(orders: bool) -> [Option<u64>; 3] {
    [Some(u64::MAX), Some(u64::MAX), orders.then_some(u64::MAX)]
}

impl Mover<'_> {
    /// Moves a hard link. Other links have no addresses.
    pub fn link(&self, data: &[u8]) -> Result<Vec<u8>> {
        let mut data = data.to_vec();
        let mut cursor = cursor(&data);
        let wrong = |why: ParseError| self.wrong("link message", why);
        if LinkHead::parse(&mut cursor).map_err(wrong)?.kind == 0 {
            let at = cursor.position();
            let old = cursor.defined_address("the object that a link leads to").map_err(wrong)?;
            let new = self.header_address(old)?;
            self.patch(&mut data, at, new)?;
        }
        Ok(data)
    }

    /// Builds the links of a symbol table.
    pub fn table(&mut self, group: u64, message: &Message) -> Result<Vec<u8>> {
        let GroupLinks::Table(mut entries) = read(self.file, message)? else {
            return Ok(message.data.to_vec());
        };
        self.mend_table(group, &mut entries);
        for entry in &mut entries {
            if let EntryTarget::Hard(address) = &mut entry.target {
                *address = self.header_address(*address)?;
            }
        }
        let table = self.structure(|at, _| whole(symbol_table::build_entries(at, &entries)))?;
        self.table = Some(table);
        let mut data = message.data.to_vec();
        self.patch(&mut data, 0, table.btree)?;
        self.patch(&mut data, 8, table.heap)?;
        Ok(data)
    }

    /// Builds the heap and the indexes of links.
    pub fn link_info(&mut self, group: u64, message: &Message) -> Result<Vec<u8>> {
        let GroupLinks::Dense(mut messages) = read(self.file, message)? else {
            self.links_in_header = true;
            return Ok(message.data.to_vec());
        };
        let mut info = message.data.to_vec();
        if self.salvaged.is_some() {
            messages.retain(|data| !self.leads_to_lost(data));
            let count = messages.len();
            let first = with_orders(&info, |_| 0).0;
            messages.extend(self.added_links(group, first)?);
            info = with_orders(&info, |_| (messages.len() - count) as u64).1;
        }
        let messages = messages.iter().map(|data| self.link(data)).collect::<Result<Vec<_>>>()?;
        let mut links = Vec::with_capacity(messages.len());
        for message in &messages {
            let head =
                LinkHead::parse(&mut cursor(message)).map_err(|why| self.wrong("link message", why))?;
            links.push(group::DenseLink { name: head.name, order: head.creation_order, message });
        }
        let (at, orders) = places(&info, 8);
        if links.is_empty() && self.salvaged.is_some() {
            return self.put_places(&info, at, nowhere(orders));
        }
        let new = self.structure(|at, _| whole(group::dense_structures(&links, orders, at)))?;
        self.put_places(&info, at, new)
    }

    /// Builds the heap and the indexes of attributes.
    pub fn attribute_info(&mut self, message: &Message) -> Result<Vec<u8>> {
        let found = read_attributes(self.file, message)?;
        let info = self.file.parse(message, AttributeInfo::parse)?;
        if info.heap.is_none() {
            return Ok(message.data.to_vec());
        }
        let mut moved = Vec::with_capacity(found.len());
        for (order, data) in found {
            match self.attribute(&data) {
                Ok(data) => moved.push((order, data)),
                Err(error) => self.file.source().lose(error)?,
            }
        }
        let mut attributes: Vec<(&[u8], u32, &[u8])> = Vec::with_capacity(moved.len());
        for (order, data) in &moved {
            let parts = AttributeParts::parse(&mut cursor(data))
                .map_err(|why| self.wrong("attribute message", why))?;
            attributes.push((parts.stored_name, *order, data));
        }
        let (at, orders) = places(&message.data, 2);
        if attributes.is_empty() && self.salvaged.is_some() {
            return self.put_places(&message.data, at, nowhere(orders));
        }
        let new = self.structure(|at, _| whole(attribute::dense_structures(&attributes, orders, at)))?;
        self.put_places(&message.data, at, new)
    }

    fn put_places(&self, data: &[u8], at: usize, new: [Option<u64>; 3]) -> Result<Vec<u8>> {
        let mut data = data.to_vec();
        for (number, address) in new.into_iter().enumerate() {
            if let Some(address) = address {
                self.patch(&mut data, at + 8 * number, address)?;
            }
        }
        Ok(data)
    }
}
