//! An object that is being changed: its header as a value.

use super::chunk_table::ChunkTable;
use super::links::{Links, is_about_links, message_of};
use crate::data_layout::{self, ChunkIndexKind, ChunkedLayout, DataLayout};
use crate::dataspace::{self, Dataspace};
use crate::error::{BuildError, Built};
use crate::filter;
use crate::index::paths::Form;
use crate::index::{BTREE2_NODE, ChunkRecord, size_width};
use crate::messages::attribute::{self, AttributeParts};
use crate::messages::{Message, link};
use crate::new_file::attribute::{LARGEST, MOST_COMPACT, dense, info};
use crate::new_file::{NewDataset, NewStorage, array_slots};
use crate::object_header::{NewMessage, ObjectHeader, Prefix, REFERENCE_COUNT, TRACKED_AND_INDEXED};
use crate::output::{NEW_SIZES, Output, fit};
use crate::{Bytes, Cursor, Libver, Parsed};
use std::sync::Arc;

/// How the file on disk has the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// It does not.
    New,
    /// As its writer left it.
    Whole,
    /// As a stub that leads to a block of messages.
    Stub,
}

/// The index that a flush gives to a dataset.
#[derive(Debug)]
pub(super) enum NextIndex {
    /// It is built with the other structures of the object.
    Whole(Vec<ChunkRecord>),
    /// A tree, which is built before. `None`: there are no chunks.
    Tree(Option<u64>),
}

/// An object as this writer read or flushed it last.
#[derive(Clone, Debug, Default)]
pub(super) struct Base {
    /// The places of its messages: every flush of any writer makes a new one.
    pub blocks: Vec<(u64, u64)>,
    pub messages: Vec<Message>,
    pub links: Option<Arc<Links>>,
}

/// An object that is being changed.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub address: u64,
    pub prefix: Prefix,
    pub stored: Stored,
    /// Number of hard links to the object, now and in the file on disk.
    pub links_to: u32,
    pub flushed_links_to: u32,
    /// `true` if it has, or had, a link. An object without one is deleted, or has no name yet.
    pub had_name: bool,
    /// All messages, without the count of links. Messages about links of a changed group are out of
    /// date.
    pub messages: Vec<Message>,
    /// The links, if they are or were changed.
    pub links: Option<Arc<Links>>,
    /// `true` if a link was removed since the last flush.
    pub lost_links: bool,
    /// The chunks, if they are or were changed, and how many changes of them the file has.
    pub chunks: Option<Arc<ChunkTable>>,
    pub flushed_chunks: u64,
    /// The structures of the last flush, which the next one replaces.
    pub blocks: Vec<(u64, u64)>,
    /// For merges with the changes of other writers.
    pub base: Base,
    /// Axes that use this scale, and are not in its attribute yet.
    pub users: Vec<(u64, u32)>,
    /// The creation order of the next attribute.
    pub next_attribute: u16,
    /// Counts changes; `flushed` of them are in the file.
    pub changes: u64,
    pub flushed: u64,
    /// Counts changes of shape, layout and type.
    pub version: u64,
    /// The header that readers of this process see. `None`: it is made when one asks for it, since
    /// many changes come between two readers.
    pub shown: Option<Arc<ObjectHeader>>,
}

impl Object {
    /// Makes the object of a header in the file.
    pub fn of(header: &Arc<ObjectHeader>) -> Object {
        let prefix = header.prefix.clone();
        let is_count = |message: &&Message| message.kind == REFERENCE_COUNT;
        let (all, links_to) = (header.all_messages(), header.links());
        let messages: Vec<Message> = all.iter().filter(|message| !is_count(message)).cloned().collect();
        let orders = messages.iter().filter_map(|message| message.creation);
        let next_attribute = orders.max().map_or(0, |last| last.saturating_add(1));
        Object {
            address: header.address,
            prefix,
            stored: Stored::Whole,
            links_to,
            flushed_links_to: links_to,
            had_name: true,
            messages,
            links: None,
            lost_links: false,
            chunks: None,
            flushed_chunks: 0,
            blocks: header.blocks.clone(),
            base: Base::default(),
            users: Vec::new(),
            next_attribute,
            changes: 0,
            flushed: 0,
            version: 0,
            shown: Some(header.clone()),
        }
    }

    /// Makes a new object.
    pub fn new(
        address: u64,
        messages: Vec<Message>,
        is_new_version: bool,
        tracks_attributes: bool,
    ) -> Object {
        let flags = if tracks_attributes { TRACKED_AND_INDEXED } else { 0 };
        let version = if is_new_version { 2 } else { 1 };
        let prefix = Prefix { version, flags, block: 0, links: 0, extra: Vec::new() };
        let header = Arc::new(ObjectHeader::of_messages(address, prefix, messages));
        let mut object = Object::of(&header);
        (object.stored, object.had_name) = (Stored::New, false);
        (object.links_to, object.flushed_links_to) = (0, 0);
        object.changes = 1;
        object
    }

    /// The object as the file has it once this state is flushed. The last block has the messages.
    pub fn as_base(&self, blocks: &[(u64, u64)]) -> Base {
        Base { blocks: blocks.to_vec(), messages: self.messages.clone(), links: self.links.clone() }
    }

    /// Notes a change, and shows it to readers.
    pub fn changed(&mut self) {
        self.changes += 1;
        self.show();
    }

    /// Shows the state to readers.
    pub fn show(&mut self) {
        self.shown = None;
    }

    /// The header that readers of this process see.
    pub fn shown(&mut self) -> Arc<ObjectHeader> {
        let make = || {
            let (prefix, messages) = (self.prefix.clone(), self.messages.clone());
            Arc::new(ObjectHeader::of_messages(self.address, prefix, messages))
        };
        self.shown.get_or_insert_with(make).clone()
    }

    /// Returns `true` if the file on disk has an older state.
    pub fn is_changed(&self) -> bool {
        self.changes != self.flushed
            || self.chunks.as_ref().is_some_and(|chunks| chunks.changes() != self.flushed_chunks)
    }

    pub fn is_group(&self) -> bool {
        self.links.is_some()
            || self
                .messages
                .iter()
                .any(|message| matches!(message.kind, link::SYMBOL_TABLE_KIND | link::INFO_KIND))
    }

    pub fn message(&self, kind: u16) -> Option<&Message> {
        self.messages.iter().find(|message| message.kind == kind)
    }

    /// Replaces the message of a kind.
    pub fn replace_message(&mut self, new: Message) {
        match self.messages.iter_mut().find(|message| message.kind == new.kind) {
            Some(message) => *message = new,
            None => self.messages.push(new),
        }
    }

    fn tracks_attributes(&self) -> bool {
        self.prefix.tracks_attributes()
    }

    // Attributes.

    /// The position of an attribute's message.
    pub fn find_attribute(&self, name: &str) -> Option<usize> {
        self.messages
            .iter()
            .position(|message| message.kind == attribute::KIND && attribute::has_name(&message.data, name))
    }

    /// Adds an attribute, or replaces the one at a position. An error leaves the object as it was.
    pub fn put_attribute(&mut self, at: Option<usize>, data: Vec<u8>) -> Built<()> {
        if self.prefix.version == 1 && data.len() > LARGEST {
            let len = data.len();
            return Err(BuildError(format!(
                "object header message is too large: an attribute of {len} bytes, expected at most {LARGEST} in \
                 the oldest version of the format (pass libver='latest' or track_order=True)"
            )));
        }
        let mut message = message_of(NewMessage { kind: attribute::KIND, constant: false, data });
        match at.and_then(|at| self.messages.get_mut(at)) {
            Some(old) => {
                message.creation = old.creation;
                *old = message;
            }
            None => {
                if self.tracks_attributes() {
                    message.creation = Some(self.next_attribute);
                    let next = u64::from(self.next_attribute) + 1;
                    self.next_attribute = fit(next, "attributes that keep their order")?;
                }
                self.messages.push(message);
            }
        }
        Ok(())
    }

    // Structures.

    /// Builds everything that the header leads to, at `at`, and the messages of the header. `index`: the
    /// next index of chunks, if chunks have changed.
    pub fn build(&self, index: Option<&NextIndex>, at: u64) -> Built<(Vec<Message>, Vec<u8>)> {
        let mut messages = self.messages.clone();
        let mut bytes = Vec::new();
        if let Some(index) = index {
            let layout = match index {
                NextIndex::Whole(records) => {
                    let (layout, index) = self.build_index(records, at)?;
                    bytes = index;
                    layout
                }
                NextIndex::Tree(address) => self.tree_layout(*address)?,
            };
            if let Some(message) = messages.iter_mut().find(|message| message.kind == data_layout::KIND) {
                message.data = Bytes::from(layout.build()?);
            }
        }
        if let Some(links) = &self.links {
            messages.retain(|message| !is_about_links(message));
            let (new, structures) = links.build(at)?;
            (messages, bytes) = ([new, messages].concat(), structures);
        }
        let attributes = self.build_attributes(&mut messages, at.saturating_add(bytes.len() as u64))?;
        bytes.extend(attributes);
        Ok((messages, bytes))
    }

    fn chunked_layout(&self) -> Built<ChunkedLayout> {
        let missing = |what: &str| BuildError(format!("a dataset without a {what} message"));
        let layout = self.message(data_layout::KIND).ok_or_else(|| missing("data layout"))?;
        match parsed(layout, DataLayout::parse)? {
            DataLayout::Chunked(layout) => Ok(layout),
            _ => Err(missing("chunked data layout")),
        }
    }

    fn filters(&self) -> Built<Vec<filter::Filter>> {
        let filters = self.message(filter::KIND).map(|message| parsed(message, filter::parse)).transpose()?;
        Ok(filters.unwrap_or_default())
    }

    /// Builds the layout message and the index of chunks.
    fn build_index(&self, records: &[ChunkRecord], at: u64) -> Built<(ChunkedLayout, Vec<u8>)> {
        let layout = self.chunked_layout()?;
        let is_old = layout.index == ChunkIndexKind::BTree1;
        let libver = if is_old { Libver::Earliest } else { Libver::V110 };
        // The index depends on the size of elements only.
        let size = fit(layout.element_size, "bytes of an element")?;
        let datatype = crate::datatype::Datatype::raw(size);
        let dataset = NewDataset {
            datatype,
            dataspace: self.dataspace()?,
            fill: None,
            unfilled: false,
            filters: self.filters()?,
            storage: NewStorage::Chunked { chunk: layout.chunk.clone(), chunks: records.to_vec() },
        };
        let index = dataset.index(at, libver)?;
        let index = index.ok_or_else(|| BuildError("a dataset without chunks".into()))?;
        let layout =
            ChunkedLayout { index: index.kind, address: index.address, edges_unfiltered: false, ..layout };
        Ok((layout, index.bytes))
    }

    /// The layout of a dataset whose index is a tree. `None`: it has no chunks.
    fn tree_layout(&self, address: Option<u64>) -> Built<ChunkedLayout> {
        let layout = self.chunked_layout()?;
        let index = match layout.index {
            ChunkIndexKind::BTree1 => ChunkIndexKind::BTree1,
            _ => ChunkIndexKind::BTree2 { node_size: BTREE2_NODE, split: 100, merge: 40 },
        };
        Ok(ChunkedLayout { index, address, edges_unfiltered: false, ..layout })
    }

    /// The tree that has the chunks of a dataset. `None`: they have another index, which is built as a
    /// whole. `count`: the number of chunks. `has_tree`: as [`ChunkTable::has_tree`].
    ///
    /// An array of all possible chunks cannot be changed by path copies: its parts have the address of
    /// its header. A dataset that is flushed a second time gets a tree instead, unless the array is
    /// small.
    pub fn tree_form(&self, count: usize, has_tree: Option<bool>) -> Built<Option<Form>> {
        /// An array of this number of chunks takes 2 to 5 KiB, as two nodes of a tree do.
        const SMALL: u64 = 256;
        let layout = self.chunked_layout()?;
        if layout.index == ChunkIndexKind::BTree1 {
            return Ok(Some(Form::One { chunk: layout.chunk }));
        }
        let Dataspace::Simple { shape, max_shape } = self.dataspace()? else { return Ok(None) };
        let is_single =
            shape == layout.chunk && max_shape.iter().zip(&shape).all(|(most, n)| *most == Some(*n));
        let slots = array_slots(&max_shape, &layout.chunk, count);
        let is_array = slots.is_some_and(|slots| match has_tree {
            None => true,
            Some(has_tree) => !has_tree && slots <= SMALL,
        });
        if is_single || is_array {
            return Ok(None);
        }
        let bytes = layout.chunk.iter().fold(layout.element_size, |bytes, n| bytes.saturating_mul(*n));
        let width = (!self.filters()?.is_empty()).then(|| size_width(bytes));
        let form = Form::Two { rank: layout.chunk.len(), width };
        Ok(form.is_possible().then_some(form))
    }

    /// Chunks per axis of a chunked dataset.
    pub fn chunk_counts(&self) -> Option<Vec<u64>> {
        let layout = parsed(self.message(data_layout::KIND)?, DataLayout::parse).ok()?;
        let DataLayout::Chunked(layout) = layout else { return None };
        let dataspace = self.dataspace().ok()?;
        let axes = dataspace.shape().iter().zip(&layout.chunk);
        Some(axes.map(|(n, chunk)| n.div_ceil((*chunk).max(1))).collect())
    }

    pub fn dataspace(&self) -> Built<Dataspace> {
        let message = self.message(dataspace::KIND);
        let message = message.ok_or_else(|| BuildError("an object without a dataspace message".into()))?;
        parsed(message, Dataspace::parse)
    }

    /// Puts attributes where they belong: in the header, or in a heap at `at`, whose bytes this
    /// returns.
    fn build_attributes(&self, messages: &mut Vec<Message>, at: u64) -> Built<Vec<u8>> {
        messages.retain(|message| message.kind != attribute::INFO_KIND);
        if self.prefix.version == 1 {
            return Ok(Vec::new());
        }
        let next = self.tracks_attributes().then_some(self.next_attribute);
        let is_attribute = |message: &&Message| message.kind == attribute::KIND;
        let count = messages.iter().filter(is_attribute).count();
        let is_large = messages.iter().filter(is_attribute).any(|message| message.data.len() > LARGEST);
        if count <= MOST_COMPACT && !is_large {
            // HDF5 counts attributes by this message. Without it, h5repack leaves them out. It is not
            // the last one: pyfive reads more bytes than it has.
            if next.is_some() || count > 0 {
                messages.insert(0, message_of(info(next, [None; 3])));
            }
            return Ok(Vec::new());
        }
        let (attributes, rest): (Vec<Message>, Vec<Message>) =
            std::mem::take(messages).into_iter().partition(|message| message.kind == attribute::KIND);
        *messages = rest;
        let names = attributes.iter().map(attribute_name).collect::<Built<Vec<String>>>()?;
        let all = names.iter().zip(&attributes).map(|(name, message)| {
            (name.as_str(), message.creation.unwrap_or_default().into(), &message.data[..])
        });
        let (info, bytes) = dense(&all.collect::<Vec<_>>(), next, at)?;
        messages.insert(0, message_of(info));
        Ok(bytes)
    }

    /// Builds the block of messages that the header's stub leads to.
    pub fn build_block(&self, messages: &[Message]) -> Built<Vec<u8>> {
        let data = Output::new().u8(0).u32(self.links_to).take();
        let count = message_of(NewMessage { kind: REFERENCE_COUNT, constant: false, data });
        let is_new = self.prefix.version == 2;
        // Without the message, the number is one. A deleted object has zero, so that references do not
        // find it.
        let count = (is_new && self.links_to != 1).then_some(&count);
        let mut out = Output::new();
        if is_new {
            out.bytes(b"OCHK");
        }
        for message in messages.iter().chain(count) {
            let len = message.data.len();
            let padded = if is_new { len } else { len.next_multiple_of(8) };
            let what = crate::messages::name(message.kind).unwrap_or("message");
            let stored: u16 = fit(padded as u64, &format!("bytes of the {what}"))?;
            if is_new {
                out.u8(fit(u64::from(message.kind), "message types")?).u16(stored).u8(message.flags);
                if self.tracks_attributes() {
                    out.u16(message.creation.unwrap_or_default());
                }
            } else {
                out.u16(message.kind).u16(stored).u8(message.flags).zeros(3);
            }
            out.bytes(&message.data).zeros(padded - len);
        }
        if is_new {
            out.checksum();
        }
        Ok(out.take())
    }

    /// Builds the stub that leads to a block of messages. `count`: the number of its messages.
    pub fn build_stub(&self, count: usize, block: (u64, u64)) -> Built<Vec<u8>> {
        const CONTINUATION: u8 = 0x10;
        let mut out = Output::new();
        if self.prefix.version == 2 {
            let order = if self.tracks_attributes() { 2 } else { 0 };
            // The width of the length stays as it is.
            let flags = self.prefix.flags;
            out.bytes(b"OHDR").u8(2).u8(flags).bytes(&self.prefix.extra);
            out.uint(4 + order + 16, 1 << (flags & 3));
            out.u8(CONTINUATION).u16(16).u8(0).zeros(if order == 2 { 2 } else { 0 });
            return Ok(out.u64(block.0).u64(block.1).checksum().take());
        }
        // The continuation is a message, too.
        let count: u16 = fit(count as u64 + 1, "messages of an object")?;
        out.u8(1).u8(0).u16(count).u32(self.links_to).u32(24).zeros(4);
        out.u16(CONTINUATION.into()).u16(16).zeros(4);
        Ok(out.u64(block.0).u64(block.1).take())
    }

    /// The bytes of the header's first block, which a stub must fit into. `None`: there is room for
    /// any.
    pub fn room_for_stub(&self) -> Option<u64> {
        if self.stored != Stored::Whole {
            return None;
        }
        Some(match self.prefix.version {
            1 => self.prefix.block.saturating_add(16),
            _ => {
                let head = 6 + self.prefix.extra.len() as u64 + (1 << (self.prefix.flags & 3));
                head.saturating_add(self.prefix.block).saturating_add(4)
            }
        })
    }
}

/// The name in an attribute message.
pub(super) fn attribute_name(message: &Message) -> Built<String> {
    parsed(message, |cursor| AttributeParts::parse(cursor).map(|parts| parts.name))
}

/// Parses a message that was read or built before.
pub(super) fn parsed<T>(message: &Message, parse: impl FnOnce(&mut Cursor<'_>) -> Parsed<T>) -> Built<T> {
    let mut cursor = Cursor::whole(&message.data, message.address, NEW_SIZES);
    parse(&mut cursor).map_err(|why| BuildError(why.to_string()))
}

/// Returns the message that says where the elements of a contiguous dataset are.
pub(super) fn contiguous(address: u64, size: u64) -> Message {
    let data = data_layout::build_contiguous(Some(address), size);
    message_of(NewMessage { kind: data_layout::KIND, constant: false, data })
}
