//! Object headers (specification IV.A.1, versions 1 and 2): the list of an object's messages.
//!
//! 1. The prefix gives the length of the first block of messages. That block is fetched whole.
//! 2. A continuation message points to another block. Each block is fetched once. It is an error if
//!    a block repeats, or if the blocks have more bytes than the file (then they overlap). This
//!    bounds the header.
//! 3. Messages are kept as bytes, and the modules in [`messages`](crate::messages) parse them on
//!    demand. Unknown messages are skipped, unless they are marked as required.

use crate::error::Built;
use crate::messages::{self, Message, link};
use crate::output::{self, NEW_SIZES, Output, fit};
use crate::{Bytes, Cursor, ParseError, Parsed, Result, Source};
use std::collections::{HashSet, VecDeque};

const CONTINUED: &str = "object header continuation block";

/// Bytes of the first fetch of a header. Most headers are smaller.
const GUESS: usize = 1024;

/// More messages than any object has. Above 65535, links and attributes are stored elsewhere.
const MOST: usize = 1 << 18;

const FAIL_IF_UNKNOWN: u8 = 0x80;

/// The flag of a header of version 2 whose attributes have creation orders.
pub(crate) const TRACKED: u8 = 4;

/// The flags of a new header of that kind: h5py and netCDF index the orders, too.
pub(crate) const TRACKED_AND_INDEXED: u8 = TRACKED | 8;

/// The flag of a header of version 2 that has four times, and their bytes.
pub(crate) const TIMES: u8 = 0x20;
pub(crate) const TIMES_LEN: usize = 16;

/// The messages of an object.
#[derive(Clone, Debug)]
pub struct ObjectHeader {
    pub address: u64,
    /// Bytes of the header's blocks.
    pub bytes: u64,
    /// `true` if attributes have creation orders.
    pub tracks_attributes: bool,
    /// The part before the messages, for changes of the object.
    pub(crate) prefix: Prefix,
    /// The places of the other blocks: address and length.
    pub(crate) blocks: Vec<(u64, u64)>,
    messages: Vec<Message>,
}

/// The part of the header before the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub version: u8,
    /// Version 2: bit 2 says that attributes have creation orders. Bits 4 and 5 say what `extra` has.
    pub flags: u8,
    /// Bytes of the first block of messages.
    pub block: u64,
    /// Number of hard links to the object (version 1). Version 2 has a message for it.
    pub links: u32,
    /// Times and limits of version 2, as they are stored.
    pub extra: Vec<u8>,
}

impl ObjectHeader {
    /// Reads the header at an address with all its continuations.
    pub fn read(source: &Source, address: u64) -> Result<Self> {
        let mut all = u64::MAX;
        Self::read_within(source, address, &mut all)
    }

    /// Like [`ObjectHeader::read`]. Takes the bytes of all blocks from `left`; fails if these are not
    /// enough, and leaves 0.
    pub fn read_within(source: &Source, address: u64, left: &mut u64) -> Result<Self> {
        let (prefix, start, bytes) = source.parse("object header", address, GUESS, |cursor| {
            let prefix = Prefix::parse(cursor)?;
            let (start, block) = (cursor.address(), cursor.take_u64(prefix.block)?.to_vec());
            if prefix.version == 2 {
                cursor.checksum(0)?;
            }
            Ok((prefix, start, Bytes::from(block)))
        })?;
        let mut header = ObjectHeader {
            address,
            bytes: bytes.len() as u64,
            tracks_attributes: prefix.tracks_attributes(),
            prefix: prefix.clone(),
            blocks: Vec::new(),
            messages: Vec::new(),
        };
        let fail = |why| source.structure_error("object header", address, why);
        spend(left, header.bytes).map_err(fail)?;
        let mut waiting =
            VecDeque::from(header.block(&prefix, &bytes, source.cursor(&bytes, start)).map_err(fail)?);
        let mut seen = HashSet::from([start]);
        source.announce(waiting.make_contiguous())?;
        while let Some((address, len)) = waiting.pop_front() {
            let fail = |why| source.structure_error(CONTINUED, address, why);
            header.bytes = header.bytes.saturating_add(len);
            spend(left, len).map_err(fail)?;
            if !seen.insert(address) || header.bytes > source.end() {
                let why = "continuation blocks overlap or go in a circle".into();
                return Err(fail(ParseError::Corrupt { at: address, why }));
            }
            header.blocks.push((address, len));
            let mut read = || {
                let bytes = source.read(CONTINUED, address, len)?;
                if source.is_lenient() && bytes.iter().all(|byte| *byte == 0) {
                    // A block of version 1 has no checksum: zeros look like empty messages.
                    return Err(source.parse_error(CONTINUED, address, &bytes, ParseError::Need(1)));
                }
                let (start, bytes) = continuation(&prefix, source.cursor(&bytes, address)).map_err(fail)?;
                let cursor = source.cursor(&bytes, start);
                header.block(&prefix, &bytes, cursor).map_err(fail)
            };
            match read() {
                Ok(found) => waiting.extend(found),
                Err(error) => source.lose(error)?,
            }
        }
        Ok(header)
    }

    /// Makes the header of an object that is being changed.
    pub(crate) fn of_messages(address: u64, prefix: Prefix, messages: Vec<Message>) -> Self {
        let bytes = messages.iter().map(|message| message.data.len() as u64).sum();
        let (tracks_attributes, blocks) = (prefix.tracks_attributes(), Vec::new());
        ObjectHeader { address, bytes, tracks_attributes, prefix, blocks, messages }
    }

    /// Returns all messages.
    pub(crate) fn all_messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns all messages of a kind. [`messages`](crate::messages) numbers the kinds.
    pub fn messages(&self, kind: u16) -> impl Iterator<Item = &Message> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }

    pub fn message(&self, kind: u16) -> Option<&Message> {
        self.messages(kind).next()
    }

    /// Returns the number of hard links to the object.
    pub(crate) fn links(&self) -> u32 {
        let count = |message: &Message| {
            let mut cursor = Cursor::whole(&message.data, 0, NEW_SIZES);
            cursor.skip(1).and_then(|()| cursor.u32()).unwrap_or(1)
        };
        self.message(REFERENCE_COUNT).map_or(self.prefix.links, count)
    }

    /// Returns four times in seconds since 1970: last access, last modification, last change, birth.
    /// 0: the object does not keep the time.
    pub(crate) fn times(&self) -> [u32; 4] {
        let mut found = [0; 4];
        if self.prefix.flags & TIMES != 0 && self.prefix.version == 2 {
            for (time, bytes) in found.iter_mut().zip(self.prefix.extra.as_chunks::<4>().0) {
                *time = u32::from_le_bytes(*bytes);
            }
        }
        if let Some(message) = self.message(messages::times::KIND) {
            let mut cursor = Cursor::whole(&message.data, 0, NEW_SIZES);
            found[2] = messages::times::parse(&mut cursor).unwrap_or_default();
        }
        found
    }

    pub fn is_group(&self) -> bool {
        self.message(link::SYMBOL_TABLE_KIND).or(self.message(link::INFO_KIND)).is_some()
    }

    /// Parses a block of messages, `bytes`. `cursor` is over it. Returns its continuations.
    fn block(&mut self, prefix: &Prefix, bytes: &Bytes, mut cursor: Cursor<'_>) -> Parsed<Vec<(u64, u64)>> {
        let mut continuations = Vec::new();
        let head = if prefix.version == 1 { 8 } else { 4 + if prefix.flags & 4 != 0 { 2 } else { 0 } };
        // A rest that is shorter than a message's head is a gap.
        while cursor.remaining_len() >= head {
            let kind = if prefix.version == 1 { cursor.u16()? } else { cursor.u8()?.into() };
            let len = usize::from(cursor.u16()?);
            let flags = cursor.u8()?;
            let creation = match prefix.version {
                1 => {
                    cursor.skip(3)?;
                    None
                }
                _ if prefix.flags & 4 != 0 => Some(cursor.u16()?),
                _ => None,
            };
            let (address, at) = (cursor.address(), cursor.position());
            let mut content = cursor.part(len)?;
            if kind == messages::CONTINUATION {
                let block = content.defined_address("a continuation block")?;
                continuations.push((block, content.length()?));
            } else if messages::name(kind).is_none() && flags & FAIL_IF_UNKNOWN != 0 {
                return Err(ParseError::Unsupported(format!("object header message type {kind:#06x}")));
            } else if kind != messages::NIL {
                if self.messages.len() == MOST {
                    return Err(cursor.corrupt(format!("expected at most {MOST} messages, found more")));
                }
                let data = bytes.slice(at..at.saturating_add(len));
                self.messages.push(Message { kind, flags, creation, address, data });
            }
        }
        Ok(continuations)
    }
}

/// A message of a header under construction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewMessage {
    pub kind: u16,
    /// `true`: the message never changes. The HDF5 library sets this for datatypes and fill values.
    pub constant: bool,
    pub data: Vec<u8>,
}

/// Counts the hard links to an object, in a header of version 2. Without the message it is one.
pub(crate) const REFERENCE_COUNT: u16 = 0x16;

/// Builds a header in one block: version 1, or version 2 with creation orders of attributes. `links`:
/// the number of hard links to the object.
pub(crate) fn build(messages: &[NewMessage], links: u32, is_new: bool, tracks: bool) -> Built<Vec<u8>> {
    let mut block = Output::new();
    let mut order: u16 = 0;
    let count =
        NewMessage { kind: REFERENCE_COUNT, constant: false, data: Output::new().u8(0).u32(links).take() };
    let count = (is_new && links > 1).then_some(&count);
    for message in messages.iter().chain(count) {
        let len = if is_new { message.data.len() } else { message.data.len().next_multiple_of(8) };
        let what = messages::name(message.kind).unwrap_or("message");
        let len: u16 = fit(len as u64, &format!("bytes of the {what}"))?;
        if is_new {
            block.u8(fit(u64::from(message.kind), "message types")?);
        } else {
            block.u16(message.kind);
        }
        block.u16(len).u8(message.constant.into());
        if !is_new {
            block.zeros(3);
        } else if tracks {
            let is_attribute = message.kind == messages::attribute::KIND;
            block.u16(if is_attribute { order } else { 0 });
            order = order.wrapping_add(is_attribute.into());
        }
        block.bytes(&message.data).zeros(usize::from(len) - message.data.len());
    }
    let mut out = Output::new();
    if is_new {
        let (width, bits) = length_of_block(block.len() as u64);
        out.bytes(b"OHDR").u8(2).u8(bits | if tracks { TRACKED_AND_INDEXED } else { 0 });
        out.uint(block.len() as u64, width).bytes(&block.take()).checksum();
        return Ok(out.take());
    }
    out.u8(1).u8(0).u16(fit(messages.len() as u64, "messages of an object")?).u32(links);
    out.u32(fit(block.len() as u64, "bytes of all messages of an object")?).u32(0);
    Ok(out.bytes(&block.take()).take())
}

/// Builds a header in one block from messages as they were parsed. Version, flags, times and creation
/// orders stay.
pub(crate) fn rebuild(prefix: &Prefix, messages: &[Message]) -> Built<Vec<u8>> {
    let is_new = prefix.version == 2;
    let mut block = Output::new();
    for message in messages {
        let len = message.data.len();
        let padded = if is_new { len } else { len.next_multiple_of(8) };
        let what = messages::name(message.kind).unwrap_or("message");
        let stored: u16 = fit(padded as u64, &format!("bytes of the {what}"))?;
        if is_new {
            block.u8(fit(u64::from(message.kind), "message types")?).u16(stored).u8(message.flags);
            if prefix.tracks_attributes() {
                block.u16(message.creation.unwrap_or_default());
            }
        } else {
            block.u16(message.kind).u16(stored).u8(message.flags).zeros(3);
        }
        block.bytes(&message.data).zeros(padded - len);
    }
    let mut out = Output::new();
    if is_new {
        let (width, bits) = length_of_block(block.len() as u64);
        out.bytes(b"OHDR").u8(2).u8(prefix.flags & !3 | bits).bytes(&prefix.extra);
        out.uint(block.len() as u64, width).bytes(&block.take()).checksum();
        return Ok(out.take());
    }
    out.u8(1).u8(0).u16(fit(messages.len() as u64, "messages of an object")?).u32(prefix.links);
    out.u32(fit(block.len() as u64, "bytes of all messages of an object")?).u32(0);
    Ok(out.bytes(&block.take()).take())
}

/// The bytes of the length of a block, one to eight, and the flags that say so.
fn length_of_block(len: u64) -> (usize, u8) {
    let width = output::width(len);
    let width: u8 = if width > 2 { if width > 4 { 8 } else { 4 } } else { width };
    (width.into(), u8::try_from(width.trailing_zeros()).unwrap_or_default())
}

impl Prefix {
    /// Returns `true` if attributes have creation orders.
    pub fn tracks_attributes(&self) -> bool {
        self.version == 2 && self.flags & TRACKED != 0
    }

    fn parse(cursor: &mut Cursor<'_>) -> Parsed<Prefix> {
        let mut peek = cursor.clone();
        if peek.take(4)? == b"OHDR" {
            return Self::parse_v2(cursor);
        }
        let version = cursor.version("object header", &[1])?;
        // Reserved byte, number of messages.
        cursor.skip(1 + 2)?;
        let links = cursor.u32()?;
        let block = cursor.u32()?.into();
        cursor.skip(4)?;
        Ok(Prefix { version, flags: 0, block, links, extra: Vec::new() })
    }

    fn parse_v2(cursor: &mut Cursor<'_>) -> Parsed<Prefix> {
        cursor.signature(b"OHDR")?;
        let version = cursor.version("object header", &[2])?;
        let flags = cursor.u8()?;
        // Four timestamps; the attribute counts at which attributes leave and re-enter the header.
        let len = if flags & 0x20 != 0 { 16 } else { 0 } + if flags & 0x10 != 0 { 4 } else { 0 };
        let extra = cursor.take(len)?.to_vec();
        let block = cursor.uint(1 << (flags & 3))?;
        Ok(Prefix { version, flags, block, links: 1, extra })
    }
}

/// Subtracts bytes from `left`. Fails if `left` is smaller, and sets it to 0.
fn spend(left: &mut u64, bytes: u64) -> Parsed<()> {
    match left.checked_sub(bytes) {
        Some(rest) => {
            *left = rest;
            Ok(())
        }
        None => {
            *left = 0;
            let why = "its blocks have more bytes than may be read".into();
            Err(ParseError::Corrupt { at: 0, why })
        }
    }
}

/// Returns the messages of a continuation block and the address of the first one.
fn continuation(prefix: &Prefix, mut cursor: Cursor<'_>) -> Parsed<(u64, Bytes)> {
    if prefix.version == 1 {
        return Ok((cursor.address(), Bytes::from(cursor.take_rest().to_vec())));
    }
    cursor.signature(b"OCHK")?;
    let start = cursor.address();
    let len = cursor
        .remaining_len()
        .checked_sub(4)
        .ok_or_else(|| cursor.corrupt("expected a checksum of 4 bytes at the end, found fewer bytes"))?;
    let block = cursor.take(len)?.to_vec();
    cursor.checksum(0)?;
    Ok((start, Bytes::from(block)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{append_checksum, changes, fails, mutations, source, structure};

    fn read(bytes: &[u8]) -> Result<ObjectHeader> {
        ObjectHeader::read(&source(bytes), 0)
    }

    fn shown(header: &ObjectHeader) -> Vec<(u16, u64, Vec<u8>)> {
        header.messages.iter().map(|message| (message.kind, message.address, message.data.to_vec())).collect()
    }

    /// Version 1: a message, a continuation to byte 64, and another message there.
    fn old() -> Vec<u8> {
        let mut bytes = vec![1, 0, 3, 0, 1, 0, 0, 0, 40, 0, 0, 0, 0, 0, 0, 0];
        bytes.extend([1, 0, 8, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        bytes.extend([16, 0, 16, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([0; 8]);
        bytes.extend([5, 0, 8, 0, 1, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    /// Version 2 with timestamps and phase changes, tracked attributes, a gap, and a continuation.
    fn new() -> Vec<u8> {
        let message = [12, 3, 0, 0, 7, 0, 1, 2, 3];
        let block = structure!(message, [16, 16, 0, 0, 0, 0], 79_u64, 19_u64, [0; 5]);
        let mut bytes = append_checksum(structure!(b"OHDR\x02\x34", [0; 20], block.len() as u8, block));
        assert_eq!(bytes.len(), 67);
        bytes.resize(79, 0);
        bytes.extend(append_checksum(b"OCHK\x0c\x05\0\0\x06\0abcde".to_vec()));
        bytes
    }

    #[test]
    fn both_versions_with_continuations() {
        let header = read(&old()).unwrap();
        assert_eq!(shown(&header), [(1, 24, (1..9).collect()), (5, 72, vec![9; 8])]);
        assert!(!header.tracks_attributes);
        let header = read(&new()).unwrap();
        assert_eq!(shown(&header), [(12, 33, vec![1, 2, 3]), (12, 89, b"abcde".to_vec())]);
        let orders: Vec<_> = header.messages(12).map(|message| message.creation).collect();
        assert_eq!((header.tracks_attributes, orders), (true, vec![Some(7), Some(6)]));
    }

    #[test]
    fn checksums_and_mutations() {
        let bytes = new();
        for (at, wrong) in changes(&bytes, |byte| [byte ^ 0x40]) {
            assert!((67..79).contains(&at) || read(&wrong).is_err(), "byte {at}");
        }
        for bytes in [old(), new()] {
            mutations(&bytes, |source| drop(ObjectHeader::read(source, 0)));
        }
    }

    #[test]
    fn bytes_are_counted() {
        let bytes = old();
        let mut left = 1000;
        let header = ObjectHeader::read_within(&source(&bytes), 0, &mut left).unwrap();
        let needed = 1000 - left;
        assert_eq!(needed, header.bytes);
        let mut just = needed;
        assert!(ObjectHeader::read_within(&source(&bytes), 0, &mut just).is_ok());
        assert_eq!(just, 0);
        for mut less in [0, 1, needed - 1] {
            assert!(ObjectHeader::read_within(&source(&bytes), 0, &mut less).is_err());
            assert_eq!(less, 0);
        }
    }

    #[test]
    fn continuations_end() {
        let mut circle = old();
        let again = circle[32..56].to_vec();
        circle[64..88].copy_from_slice(&again);
        fails(read(&circle), "in a circle");
    }

    #[test]
    fn messages_are_not_without_number() {
        let many = |count: usize| {
            let messages = [12, 0, 0, 0].repeat(count);
            read(&append_checksum(structure!(b"OHDR\x02\x02", messages.len() as u32, messages)))
        };
        assert_eq!(many(MOST).unwrap().messages(12).count(), MOST);
        fails(many(MOST + 1), "at most 262144 messages");
    }

    #[test]
    fn messages_that_must_be_known() {
        let mut bytes = old();
        bytes[16] = 0x70;
        assert!(read(&bytes).is_ok());
        bytes[20] = FAIL_IF_UNKNOWN;
        assert!(matches!(read(&bytes), Err(crate::Hdf5Error::Unsupported { .. })));
    }
}
