//! Finds all objects of a file.

use super::links::{self, GroupLinks};
use super::pages;
use crate::messages::attribute::{self, AttributeParts};
use crate::messages::link::{self, LinkHead};
use crate::messages::shared::Shared;
use crate::messages::{Message, name};
use crate::object_header::ObjectHeader;
use crate::trees::symbol_table::EntryTarget;
use crate::{Cursor, File, Parsed, Result};
use std::collections::HashSet;

/// Message kinds that are kept as they are: they have no addresses.
///
/// Dataspace, datatype, bogus, group info, filters, comment, both kinds of modification times, count
/// of links.
pub(super) const PLAIN: [u16; 9] = [0x01, 0x03, 0x09, 0x0a, 0x0b, 0x0d, 0x0e, 0x12, 0x16];

/// Messages about the whole file, in the superblock's extension.
pub(super) const SHARED_TABLE: u16 = 0x0f;
pub(super) const BTREE_K: u16 = 0x13;
pub(super) const DRIVER_INFO: u16 = 0x14;
pub(crate) const FILE_SPACE: u16 = 0x17;
pub(super) const CACHE_IMAGE: u16 = 0x18;

/// The path of the superblock's extension, for messages.
pub(super) const EXTENSION: &str = "superblock extension";

/// An object.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Address of its header.
    pub address: u64,
    /// A path that leads there, for messages.
    pub path: String,
}

/// Finds all objects that the root group leads to, in the order of their paths: a group comes before
/// its members. A datatype that only datasets and attributes use is an object, too. The superblock's
/// extension comes last.
pub(super) fn survey(file: &File) -> Result<Vec<Found>> {
    let superblock = &file.inner.superblock;
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    let mut waiting = vec![Found { address: superblock.root, path: "/".into() }];
    loop {
        while let Some(next) = waiting.pop() {
            if !seen.insert(next.address) {
                continue;
            }
            file.source().go_on()?;
            let header = file.header(next.address).map_err(|error| error.with_object_path(&next.path))?;
            let below = below(file, &header).map_err(|error| error.with_object_path(&next.path))?;
            waiting.extend(below.into_iter().rev().filter(|(address, _)| !seen.contains(address)).map(
                |(address, name)| {
                    let above = next.path.trim_end_matches('/');
                    Found { address, path: format!("{above}/{name}") }
                },
            ));
            found.push(next);
        }
        let Some(extension) = superblock.extension.filter(|address| !seen.contains(address)) else {
            return Ok(found);
        };
        // A cache of metadata is all that is left out.
        let is_kept = |message: &Message| message.kind != CACHE_IMAGE;
        if !file.header(extension)?.all_messages().iter().any(is_kept) {
            return Ok(found);
        }
        waiting.push(Found { address: extension, path: EXTENSION.into() });
    }
}

/// The size of the pages of a file. `None`: no pages.
pub(super) fn pages(file: &File) -> Result<Option<u64>> {
    let Some(extension) = file.inner.superblock.extension else { return Ok(None) };
    Ok(file.header(extension)?.messages(FILE_SPACE).find_map(pages::of_message))
}

/// Refuses a file whose superblock's extension has something that a new one would not have.
pub(super) fn check_extension(file: &File) -> Result<()> {
    let Some(extension) = file.inner.superblock.extension else { return Ok(()) };
    let header = file.header(extension)?;
    let other = header.all_messages().iter().find(|message| {
        // The B-tree nodes have the library's sizes: other files are refused.
        !matches!(message.kind, FILE_SPACE | CACHE_IMAGE | BTREE_K | SHARED_TABLE | DRIVER_INFO)
    });
    match other {
        Some(message) => {
            let what = format!("a file with a message of type {:#06x} in its superblock", message.kind);
            Err(file.source().unsupported(format!("compacting {what}")))
        }
        None => Ok(()),
    }
}

/// The objects that an object leads to: addresses and names.
pub(crate) fn below(file: &File, header: &ObjectHeader) -> Result<Vec<(u64, String)>> {
    let mut found = Vec::new();
    for message in header.all_messages() {
        match below_message(file, message) {
            Ok(below) => found.extend(below),
            Err(error) => file.source().lose(error)?,
        }
    }
    Ok(found)
}

fn below_message(file: &File, message: &Message) -> Result<Vec<(u64, String)>> {
    let source = file.source();
    let mut found = Vec::new();
    let wrong = |why| {
        let name = name(message.kind).unwrap_or("message");
        source.structure_error(name, message.address, why)
    };
    if message.is_shared() {
        found.extend(shared(&message.data).map_err(wrong)?.map(|address| (address, "type".into())));
        return Ok(found);
    }
    match message.kind {
        link::KIND => found.extend(hard_link(&message.data).map_err(wrong)?),
        link::SYMBOL_TABLE_KIND | link::INFO_KIND => match links::read(file, message)? {
            GroupLinks::InHeader => {}
            GroupLinks::Table(entries) => {
                found.extend(entries.into_iter().filter_map(|entry| match entry.target {
                    EntryTarget::Hard(address) => Some((address, crate::lossless(&entry.name))),
                    EntryTarget::Soft(_) => None,
                }));
            }
            GroupLinks::Dense(messages) => {
                for data in messages {
                    found.extend(hard_link(&data).map_err(wrong)?);
                }
            }
        },
        attribute::KIND => found.extend(type_of(&message.data).map_err(wrong)?),
        attribute::INFO_KIND => {
            for (_, data) in links::read_attributes(file, message)? {
                found.extend(type_of(&data).map_err(wrong)?);
            }
        }
        _ => {}
    }
    Ok(found)
}

/// Returns a cursor over a whole message. Addresses count from its first byte.
pub(super) fn cursor(data: &[u8]) -> Cursor<'_> {
    Cursor::whole(data, 0, crate::output::NEW_SIZES)
}

/// Returns the object whose message a shared message means. `None`: it is in a heap.
fn shared(data: &[u8]) -> Parsed<Option<u64>> {
    Ok(match Shared::parse(&mut cursor(data))? {
        Shared::Header(address) => Some(address),
        Shared::Heap(_) => None,
    })
}

/// Returns the target of a link message, and its name, if it is a hard link.
fn hard_link(data: &[u8]) -> Parsed<Option<(u64, String)>> {
    let mut cursor = cursor(data);
    let head = LinkHead::parse(&mut cursor)?;
    Ok(match head.kind {
        0 => Some((cursor.defined_address("the object that a link leads to")?, crate::lossless(head.name))),
        _ => None,
    })
}

/// Returns the committed type of an attribute.
fn type_of(data: &[u8]) -> Parsed<Option<(u64, String)>> {
    let mut parts = AttributeParts::parse(&mut cursor(data))?;
    match parts.datatype_shared {
        true => Ok(shared(parts.datatype.take_rest())?.map(|address| (address, "type".into()))),
        false => Ok(None),
    }
}
