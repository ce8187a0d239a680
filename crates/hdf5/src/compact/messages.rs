//! Messages of a header, with the addresses of the copy.

use super::links::shared_in_heap;
use super::mover::Mover;
use super::superblock::CHUNK_K;
use super::survey::{BTREE_K, CACHE_IMAGE, DRIVER_INFO, FILE_SPACE, PLAIN, SHARED_TABLE, cursor};
use crate::data_layout;
use crate::dataspace::{self, Dataspace};
use crate::datatype::{self, Datatype};
use crate::heaps::LocalHeap;
use crate::messages::attribute::{self, AttributeParts};
use crate::messages::external_files::{self, ExternalFiles};
use crate::messages::shared::Shared;
use crate::messages::{Message, fill_value, link};
use crate::object_header::ObjectHeader;
use crate::superblock::{GROUP_K, LEAF_K};
use crate::{Bytes, Cursor, ParseError, Parsed, Result};
use std::ops::Range;

impl Mover<'_> {
    /// Returns the bytes of a message in the copy. `None`: the copy does not have the message.
    pub fn message(&mut self, header: &ObjectHeader, message: &Message) -> Result<Option<Vec<u8>>> {
        let refuse = |what: &str| Err(self.file.source().unsupported(format!("compacting {what}")));
        if message.is_shared() {
            return self.shared(&message.data).map(Some);
        }
        let data = match message.kind {
            link::KIND if self.leads_to_lost(&message.data) => return Ok(None),
            link::KIND => self.link(&message.data)?,
            link::SYMBOL_TABLE_KIND => self.table(header.address, message)?,
            link::INFO_KIND => self.link_info(header.address, message)?,
            attribute::KIND => self.attribute(&message.data)?,
            attribute::INFO_KIND => self.attribute_info(message)?,
            fill_value::KIND | fill_value::OLD_KIND => self.fill(header, message)?,
            external_files::KIND => self.external_files(message)?,
            data_layout::KIND => self.layout(header, message)?,
            SHARED_TABLE => return refuse("a file with a table of shared messages"),
            DRIVER_INFO => return refuse("a file that is split into several files"),
            BTREE_K => {
                let read = |cursor: &mut Cursor<'_>| {
                    cursor.skip(1)?;
                    Ok((cursor.u16()?, cursor.u16()?, cursor.u16()?))
                };
                if self.file.parse(message, read)? != (CHUNK_K, GROUP_K, LEAF_K) {
                    return refuse("a file with B-tree nodes of other sizes");
                }
                message.data.to_vec()
            }
            FILE_SPACE => match *message.data {
                [1, ..] => self.file_space(&message.data),
                _ => return refuse("a file with an old list of its free space"),
            },
            // Its structures were read from the image, and are where they belong in the copy.
            CACHE_IMAGE => return Ok(None),
            kind if PLAIN.contains(&kind) => message.data.to_vec(),
            kind => {
                return refuse(&format!("an object with a message of the unknown type {kind:#06x}"));
            }
        };
        Ok(Some(data))
    }

    /// Moves a message that only says which object has the message.
    fn shared(&self, data: &[u8]) -> Result<Vec<u8>> {
        let wrong = |why: ParseError| self.wrong("shared message", why);
        let Shared::Header(old) = Shared::parse(&mut cursor(data)).map_err(wrong)? else {
            return Err(shared_in_heap(self.file));
        };
        let mut data = data.to_vec();
        // Version 1 has reserved bytes, and an unused length.
        let at = if data.first() == Some(&1) { 16 } else { 2 };
        let new = self.header_address(old)?;
        self.patch(&mut data, at, new)?;
        Ok(data)
    }

    /// Moves an attribute message: its type, and references in its value.
    pub fn attribute(&mut self, data: &[u8]) -> Result<Vec<u8>> {
        let wrong = |why: ParseError| self.wrong("attribute message", why);
        let parts = AttributeParts::parse(&mut cursor(data)).map_err(wrong)?;
        if parts.dataspace_shared {
            return Err(shared_in_heap(self.file));
        }
        let mut new = data.to_vec();
        let part = |part: &Cursor<'_>| -> Range<usize> {
            let start = usize::try_from(part.address()).unwrap_or(usize::MAX);
            start..start.saturating_add(part.remaining_len())
        };
        let datatype = if parts.datatype_shared {
            let range = part(&parts.datatype);
            let moved = self.shared(data.get(range.clone()).unwrap_or_default())?;
            if let Some(place) = new.get_mut(range) {
                place.copy_from_slice(&moved);
            }
            let (kind, bytes) = (datatype::KIND, parts.datatype.clone().take_rest().to_vec());
            let message = Message { kind, flags: 2, creation: None, address: 0, data: Bytes::from(bytes) };
            self.file.parse(&message, Datatype::parse)?
        } else {
            Datatype::parse(&mut parts.datatype.clone()).map_err(wrong)?
        };
        if datatype.refers() {
            let space = Dataspace::parse(&mut parts.dataspace.clone()).map_err(wrong)?;
            let len = space.count().and_then(|count| count.checked_mul(datatype.size.into()));
            let len = len.and_then(|len| usize::try_from(len).ok()).filter(|len| *len <= parts.data.len());
            let Some(len) = len else {
                let name = parts.name;
                return Err(self.file.source().invalid(format!("attribute '{name}' has too few bytes")));
            };
            if let Some(value) = new.get_mut(parts.data.start..parts.data.start.saturating_add(len)) {
                self.elements(&datatype, value)
                    .map_err(|error| error.with_object_path(&format!("attribute '{}'", parts.name)))?;
            }
        }
        Ok(new)
    }

    /// Moves references in a fill value.
    fn fill(&mut self, header: &ObjectHeader, message: &Message) -> Result<Vec<u8>> {
        let mut data = message.data.to_vec();
        let Some(datatype) = self.file.message(header, datatype::KIND, Datatype::parse)? else {
            return Ok(data);
        };
        if !datatype.refers() {
            return Ok(data);
        }
        let find = |cursor: &mut Cursor<'_>| fill_place(message.kind, cursor);
        let place = find(&mut cursor(&message.data)).map_err(|why| self.wrong("fill value message", why))?;
        if let Some(value) = place.and_then(|place| data.get_mut(place))
            && value.len() as u64 == u64::from(datatype.size)
        {
            self.elements(&datatype, value)?;
        }
        Ok(data)
    }

    /// Copies the heap with the names of external files.
    fn external_files(&mut self, message: &Message) -> Result<Vec<u8>> {
        let files = self.file.parse(message, ExternalFiles::parse)?;
        let source = self.file.source();
        let address = self.structure(|at, _| {
            let heap = LocalHeap::moved(source, files.heap, at)?;
            let len = heap.len() as u64;
            Ok((at, heap, len))
        })?;
        let mut data = message.data.to_vec();
        // Version, reserved bytes and two counts come first.
        self.patch(&mut data, 8, address)?;
        Ok(data)
    }

    /// Returns a file space info message without lists of free space.
    fn file_space(&self, data: &[u8]) -> Vec<u8> {
        let mut data = data.to_vec();
        // Version, strategy, persistence, two lengths, and a number of two bytes come first.
        if let Some(addresses) = data.get_mut(3 + 8 + 8 + 2..) {
            addresses.as_chunks_mut::<8>().0.fill([0xff; 8]);
        }
        data
    }

    /// Returns type and shape of a dataset.
    pub fn type_and_space(&self, header: &ObjectHeader) -> Result<(Datatype, Dataspace)> {
        let missing = |what| self.file.source().invalid(format!("a data layout without a {what} message"));
        let datatype = self.file.message(header, datatype::KIND, Datatype::parse)?;
        let space = self.file.message(header, dataspace::KIND, Dataspace::parse)?;
        Ok((datatype.ok_or_else(|| missing("datatype"))?, space.ok_or_else(|| missing("dataspace"))?))
    }
}

/// The place of the value in a fill value message. `None`: the message has no value.
fn fill_place(kind: u16, cursor: &mut Cursor<'_>) -> Parsed<Option<Range<usize>>> {
    if kind == fill_value::KIND {
        let is_defined = match cursor.u8()? {
            3 => cursor.u8()? & 0x20 != 0,
            _ => {
                cursor.skip(2)?;
                cursor.u8()? != 0
            }
        };
        if !is_defined {
            return Ok(None);
        }
    }
    let len = cursor.u32()?;
    if len == 0 || len == u32::MAX {
        return Ok(None);
    }
    let start = cursor.position();
    cursor.take_u64(len.into())?;
    Ok(Some(start..cursor.position()))
}
