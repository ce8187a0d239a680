//! The state of a pass over all objects.

use super::output::{Out, OutSection};
use super::pages;
use super::salvaged::Salvaged;
use super::survey::Found;
use super::unstorable;
use crate::heaps::{Collection, HeapPlace, HeapWriter};
use crate::messages::Message;
use crate::messages::link::{self, SymbolTable};
use crate::object_header::{self, ObjectHeader};
use crate::{File, Hdf5Error, ParseError, Result};
use hyperslab_store::EditedFile;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// The places of the parts of a copy.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The new address of each header, by its old one.
    pub headers: HashMap<u64, u64>,
    pub first_header: u64,
    /// Links and attributes that are not in headers.
    pub structures: u64,
    /// Heap collections with values of variable length.
    pub values: u64,
    /// Indexes of chunks.
    pub indexes: u64,
    /// Chunks and runs of elements.
    pub elements: u64,
    /// Bytes of a page, in a file with pages.
    pub page: Option<u64>,
}

impl Places {
    /// Returns the places of parts with the lengths of a pass. `front`: the bytes before all of them.
    pub fn new(objects: &[Found], passed: &Passed, front: u64, page: Option<u64>) -> Places {
        let mut headers = HashMap::with_capacity(objects.len());
        let mut end = front;
        let mut first_header = None;
        for (found, len) in objects.iter().zip(&passed.headers) {
            let at = pages::place(end, *len, page);
            first_header.get_or_insert(at);
            headers.insert(found.address, at);
            end = at.saturating_add(*len);
        }
        let structures = end.next_multiple_of(8);
        let values = structures.saturating_add(passed.structures).next_multiple_of(8);
        let indexes = values.saturating_add(passed.values).next_multiple_of(8);
        let elements = indexes.saturating_add(passed.indexes).next_multiple_of(page.unwrap_or(8));
        let first_header = first_header.unwrap_or(end);
        Places { headers, first_header, structures, values, indexes, elements, page }
    }
}

/// The results of a pass.
#[derive(Debug)]
pub(super) struct Passed {
    /// Bytes of each header.
    pub headers: Vec<u64>,
    /// Bytes of all links and attributes that are not in headers.
    pub structures: u64,
    /// Bytes of all indexes.
    pub indexes: u64,
    /// Bytes of the longest of these structures that has to be in one page.
    pub longest: u64,
    /// Bytes of all heap collections.
    pub values: u64,
    /// Bytes of all elements.
    pub elements: u64,
    pub lost_references: u64,
    /// The links of the root group, if it is an old group.
    pub root_table: Option<SymbolTable>,
    /// Addresses of objects that cannot be copied from a damaged file.
    pub failed: Vec<u64>,
    /// The links of a damaged file's objects: old addresses from and to.
    pub linked: Vec<(u64, u64)>,
}

/// Copies objects.
pub(super) struct Mover<'m> {
    pub file: &'m File,
    places: &'m Places,
    /// Replacements for the damaged structures of the file.
    pub salvaged: Option<&'m Salvaged>,
    pub out: Out<'m>,
    headers: OutSection,
    structures: OutSection,
    indexes: OutSection,
    longest: u64,
    values: OutSection,
    pub rest: OutSection,
    /// The links of a damaged file's objects: old addresses from and to.
    linked: RefCell<Vec<(u64, u64)>>,
    /// Old address of the object that is copied.
    current: u64,
    /// The collection that takes values.
    pub heap: HeapWriter,
    /// New places of heap objects, by collection, index and length.
    pub known: HashMap<(u64, u32, u64), HeapPlace>,
    /// The collection that was read last.
    pub last: Option<Arc<Collection>>,
    /// The most bytes that further chunks and runs may have, and that further heap objects may have.
    pub elements_left: u64,
    pub values_left: u64,
    pub lost_references: u64,
    /// The symbol table of the last old group.
    pub table: Option<SymbolTable>,
    /// `true` if the last new group has its links in its header.
    pub links_in_header: bool,
    advance: &'m mut dyn FnMut(u64) -> bool,
}

impl<'m> Mover<'m> {
    /// `into`: the file that gets the copy. `None`: nothing is written.
    pub fn new(
        file: &'m File,
        places: &'m Places,
        salvaged: Option<&'m Salvaged>,
        into: Option<&'m EditedFile>,
        advance: &'m mut dyn FnMut(u64) -> bool,
    ) -> Mover<'m> {
        // Bytes that a damaged file has lost at its end count, too.
        let expected = file.inner.superblock.end.filter(|_| salvaged.is_some()).unwrap_or(0);
        let end = file.source().end().max(expected);
        Mover {
            file,
            places,
            salvaged,
            out: Out { file: into, base: file.source().base() },
            headers: OutSection::new(places.first_header),
            structures: OutSection::new(places.structures),
            indexes: OutSection::new(places.indexes),
            longest: 0,
            values: OutSection::new(places.values),
            rest: OutSection::new(places.elements),
            linked: RefCell::default(),
            current: 0,
            heap: HeapWriter::new(places.values),
            known: HashMap::new(),
            last: None,
            elements_left: end,
            values_left: end,
            lost_references: 0,
            table: None,
            links_in_header: false,
            advance,
        }
    }

    /// Copies all objects.
    pub fn run(mut self, objects: &[Found]) -> Result<Passed> {
        let (mut lens, mut root_table) = (Vec::with_capacity(objects.len()), None);
        let root = self.salvaged.map_or(self.file.inner.superblock.root, |salvaged| salvaged.root);
        let mut failed = Vec::new();
        for found in objects {
            self.advance(0)?;
            if let Some(losses) = self.file.source().losses() {
                losses.enter(&found.path);
            }
            self.current = found.address;
            let header = self.header_at(found.address)?;
            let bytes = match self.header(&header) {
                Ok(bytes) => bytes,
                Err(error) if self.salvaged.is_some() => {
                    self.file.source().lose(error)?;
                    failed.push(found.address);
                    continue;
                }
                Err(error) => return Err(named(error, &found.path)),
            };
            lens.push(bytes.len() as u64);
            let at = pages::place(self.headers.end(), bytes.len() as u64, self.places.page);
            self.headers.put_at(self.out, at, &bytes)?;
            if found.address == root {
                root_table = self.table.take();
            }
        }
        let last = std::mem::replace(&mut self.heap, HeapWriter::new(0)).finish();
        self.values.put(self.out, &last)?;
        self.indexes.finish(self.out)?;
        for part in [&mut self.headers, &mut self.structures, &mut self.values, &mut self.rest] {
            part.finish(self.out)?;
        }
        Ok(Passed {
            headers: lens,
            structures: self.structures.len(),
            indexes: self.indexes.len(),
            longest: self.longest,
            values: self.values.len(),
            elements: self.rest.len(),
            lost_references: self.lost_references,
            root_table,
            failed,
            linked: self.linked.into_inner(),
        })
    }

    fn header(&mut self, header: &ObjectHeader) -> Result<Vec<u8>> {
        let mut messages = Vec::new();
        self.links_in_header = false;
        for message in header.all_messages() {
            match self.message(header, message) {
                Ok(Some(data)) => messages.push(Message { data: data.into(), ..message.clone() }),
                Ok(None) => {}
                Err(error) => self.lose_message(message, error)?,
            }
        }
        if self.links_in_header {
            self.add_links(header, &mut messages)?;
        }
        object_header::rebuild(&header.prefix, &messages).map_err(unstorable)
    }

    /// Adds links to a group that has its links in its header.
    fn add_links(&self, header: &ObjectHeader, messages: &mut Vec<Message>) -> Result<()> {
        let info = messages.iter_mut().find(|message| message.kind == link::INFO_KIND);
        let Some(info) = info else { return Ok(()) };
        let (first, data) = super::links::with_orders(&info.data, |first| {
            self.added_links(header.address, first).map_or(0, |links| links.len() as u64)
        });
        info.data = data.into();
        for data in self.added_links(header.address, first)? {
            let data = self.link(&data)?.into();
            messages.push(Message { kind: link::KIND, flags: 0, creation: None, address: 0, data });
        }
        Ok(())
    }

    /// Appends links or attributes. `build` gets their address and the bytes of a page. It returns its
    /// result, the bytes, and how many of them must not cross the border of a page.
    pub fn structure<T>(
        &mut self,
        build: impl Fn(u64, Option<u64>) -> Result<(T, Vec<u8>, u64)>,
    ) -> Result<T> {
        put_structure(&mut self.structures, &mut self.longest, (self.out, self.places.page), build)
    }

    /// Appends an index, like [`Mover::structure`].
    pub fn put_index<T>(
        &mut self,
        build: impl Fn(u64, Option<u64>) -> Result<(T, Vec<u8>, u64)>,
    ) -> Result<T> {
        put_structure(&mut self.indexes, &mut self.longest, (self.out, self.places.page), build)
    }

    /// Writes finished collections of values.
    pub fn put_values(&mut self) -> Result<()> {
        let done = self.heap.take_done();
        if done.is_empty() { Ok(()) } else { self.values.put(self.out, &done).map(drop) }
    }

    /// Counts bytes that were copied. Fails if the caller wants to stop.
    pub fn advance(&mut self, bytes: u64) -> Result<()> {
        self.file.source().go_on()?;
        match (self.advance)(bytes) {
            true => Ok(()),
            false => Err(Hdf5Error::Interrupted { file: self.file.source().name() }),
        }
    }

    /// Appends bytes of the file to the rest. Returns their new address.
    pub fn copy(&mut self, address: u64, len: u64) -> Result<u64> {
        self.take_elements(len)?;
        let there = self.there(address, len);
        if there < len {
            let start = self.copy_bytes(address, there)?;
            let end = start.saturating_add(len);
            self.rest.put_at(self.out, end, &[])?;
            return Ok(start);
        }
        self.copy_bytes(address, len)
    }

    /// The number of bytes that are in the file, of `len` bytes from an address on. A lenient reader
    /// does without the others.
    pub fn there(&self, address: u64, len: u64) -> u64 {
        let source = self.file.source();
        if source.is_lenient() { len.min(source.end().saturating_sub(address)) } else { len }
    }

    fn copy_bytes(&mut self, address: u64, len: u64) -> Result<u64> {
        let (file, advance) = (self.file, &mut *self.advance);
        let source = file.source();
        self.rest.copy(self.out, source, (address, len), &mut |bytes| {
            source.go_on()?;
            match advance(bytes) {
                true => Ok(()),
                false => Err(Hdf5Error::Interrupted { file: source.name() }),
            }
        })
    }

    /// Counts bytes of chunks and runs. A small file could otherwise claim to have very many.
    pub fn take_elements(&mut self, len: u64) -> Result<()> {
        self.elements_left = self.elements_left.checked_sub(len).ok_or_else(|| {
            self.file.source().invalid("its chunks overlap: together they are larger than the file")
        })?;
        Ok(())
    }

    /// The new address of a header that a structure leads to.
    pub fn header_address(&self, old: u64) -> Result<u64> {
        if self.salvaged.is_some() {
            self.linked.borrow_mut().push((self.current, old));
        }
        let missing = || self.file.source().invalid(format!("the object at address {old} was not found"));
        self.places.headers.get(&old).copied().ok_or_else(missing)
    }

    /// The new value of a reference.
    pub fn reference(&mut self, old: u64) -> u64 {
        if old == 0 || old == u64::MAX {
            return old;
        }
        let new = self.places.headers.get(&old).copied();
        if new.is_none() {
            self.lost_references += 1;
        }
        new.unwrap_or(0)
    }

    /// Returns `true` if a reference to this address leads to an object that is copied.
    pub fn is_kept(&self, old: u64) -> bool {
        self.places.headers.contains_key(&old)
    }

    /// Replaces an address in a message.
    pub fn patch(&self, data: &mut [u8], at: usize, address: u64) -> Result<()> {
        let place = at.checked_add(8).and_then(|end| data.get_mut(at..end));
        let place = place.ok_or_else(|| self.file.source().invalid("a message is too short"))?;
        place.copy_from_slice(&address.to_le_bytes());
        Ok(())
    }

    /// Returns the error of a parser.
    pub fn wrong(&self, structure: &'static str, why: ParseError) -> Hdf5Error {
        self.file.source().structure_error(structure, 0, why)
    }
}

fn put_structure<T>(
    part: &mut OutSection,
    longest: &mut u64,
    (out, page): (Out<'_>, Option<u64>),
    build: impl Fn(u64, Option<u64>) -> Result<(T, Vec<u8>, u64)>,
) -> Result<T> {
    let end = part.end().next_multiple_of(8);
    let (mut built, mut bytes, together) = build(end, page)?;
    let at = pages::place(end, together, page);
    if at != end {
        (built, bytes, _) = build(at, page)?;
    }
    *longest = together.max(*longest);
    part.put_at(out, at, &bytes)?;
    Ok(built)
}

/// Adds the object to an error.
fn named(error: Hdf5Error, path: &str) -> Hdf5Error {
    match error {
        Hdf5Error::Unstorable { why, .. } => Hdf5Error::Unstorable { object: path.to_owned(), why },
        error => error.with_object_path(path),
    }
}
