//! Replacements for damaged structures in the copy of a file.

use super::mover::Mover;
use super::survey::Found;
use crate::group::{Link, LinkTarget};
use crate::heaps::FractalHeap;
use crate::index::ChunkIndex;
use crate::messages::{Message, link};
use crate::new_file::group;
use crate::object_header::{ObjectHeader, Prefix};
use crate::trees::symbol_table::{EntryTarget, SymbolEntry};
use crate::{File, Hdf5Error, Result};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Replacements for damaged structures, by the addresses of object headers.
#[derive(Debug, Default)]
pub(crate) struct Salvaged {
    /// Address of the root group.
    pub root: u64,
    /// Headers that the file does not have.
    pub headers: HashMap<u64, Arc<ObjectHeader>>,
    /// Links that groups get in addition: names, and addresses of headers.
    pub links: HashMap<u64, Vec<(String, u64)>>,
    /// The chunks of datasets.
    pub chunks: HashMap<u64, ChunkIndex>,
}

/// The name of the group with objects that nothing leads to.
pub(crate) const LOST_AND_FOUND: &str = "lost+found";

/// Addresses of objects that the file does not have.
const NEW_ROOT: u64 = u64::MAX - 1;
const NEW_GROUP: u64 = u64::MAX - 2;

impl Salvaged {
    /// Makes a root group for a file that has lost its own.
    pub fn replace_root(&mut self, objects: &mut Vec<Found>) -> Result<()> {
        let old = std::mem::replace(&mut self.root, NEW_ROOT);
        self.headers.insert(NEW_ROOT, Arc::new(new_group(NEW_ROOT)));
        if let Some(links) = self.links.remove(&old) {
            self.links.insert(NEW_ROOT, links);
        }
        objects.insert(0, Found { address: NEW_ROOT, path: "/".into() });
        Ok(())
    }

    /// Gives objects names in the group of lost objects. Returns `false` if all of them have one.
    pub fn adopt(&mut self, addresses: &[u64], objects: &mut Vec<Found>) -> Result<bool> {
        let links = self.links.entry(NEW_GROUP).or_default();
        let before = links.len();
        let mut known: HashSet<u64> = links.iter().map(|(_, known)| *known).chain([NEW_GROUP]).collect();
        let new = addresses.iter().copied().filter(|address| known.insert(*address));
        links.extend(new.map(|address| (address.to_string(), address)));
        if links.len() == before {
            return Ok(false);
        }
        if self.headers.insert(NEW_GROUP, Arc::new(new_group(NEW_GROUP))).is_none() {
            objects.push(Found { address: NEW_GROUP, path: format!("/{LOST_AND_FOUND}") });
            self.links.entry(self.root).or_default().push((LOST_AND_FOUND.into(), NEW_GROUP));
        }
        Ok(true)
    }

    /// Number of objects in the group of lost objects.
    pub fn adopted(&self) -> u64 {
        self.links.get(&NEW_GROUP).map_or(0, |links| links.len() as u64)
    }
}

/// Returns the objects that get names of their own, because no links lead to them from the root. An
/// object below another one needs no name of its own. One of several objects that lead to each other gets a name.
pub(super) fn unreached(objects: &[Found], links: &[(u64, u64)], root: u64) -> Vec<u64> {
    let mut below: HashMap<u64, Vec<u64>> = HashMap::new();
    for (from, to) in links {
        below.entry(*from).or_default().push(*to);
    }
    let (mut reached, mut waiting) = (HashSet::new(), vec![root]);
    while let Some(next) = waiting.pop() {
        if reached.insert(next) {
            waiting.extend(below.get(&next).into_iter().flatten());
        }
    }
    let lost: Vec<u64> =
        objects.iter().map(|found| found.address).filter(|address| !reached.contains(address)).collect();
    let own: HashSet<u64> = lost.iter().copied().collect();
    let led: HashSet<u64> =
        links.iter().filter(|(from, to)| own.contains(from) && from != to).map(|(_, to)| *to).collect();
    let tops: Vec<u64> = lost.iter().copied().filter(|address| !led.contains(address)).collect();
    if tops.is_empty() { lost.into_iter().take(1).collect() } else { tops }
}

/// The header of a group without links of its own.
fn new_group(address: u64) -> ObjectHeader {
    let messages = group::info(None, [None; 3]).into_iter().map(|message| Message {
        kind: message.kind,
        flags: message.constant.into(),
        creation: None,
        address: 0,
        data: message.data.into(),
    });
    let prefix = Prefix { version: 2, flags: 0, block: 0, links: 1, extra: Vec::new() };
    ObjectHeader::of_messages(address, prefix, messages.collect())
}

/// Messages without which an object means something else.
const ESSENTIAL: [u16; 8] = [
    crate::dataspace::KIND,
    crate::datatype::KIND,
    crate::data_layout::KIND,
    crate::filter::KIND,
    crate::messages::external_files::KIND,
    crate::messages::fill_value::KIND,
    link::INFO_KIND,
    link::SYMBOL_TABLE_KIND,
];

/// Returns the link messages in the heap of a group that has lost its index. They are told by their form:
/// a link counts if its target is an object.
pub(super) fn links_of_heap(file: &File, heap: &FractalHeap) -> Vec<Vec<u8>> {
    let mut found: Vec<Vec<u8>> = Vec::new();
    let mut names = HashSet::new();
    for block in heap.contents(file.source()) {
        let mut at = 0;
        while let Some(rest) = block.get(at..).filter(|rest| !rest.is_empty()) {
            let mut cursor = super::survey::cursor(rest);
            let link = if rest.first() == Some(&1) { Link::parse(&mut cursor).ok() } else { None };
            match link.filter(|link| is_link(file, link)) {
                Some(link) => {
                    let len = cursor.position().max(1);
                    if names.insert(link.name) {
                        found.extend(rest.get(..len).map(<[u8]>::to_vec));
                    }
                    at = at.saturating_add(len);
                }
                None => at = at.saturating_add(1),
            }
        }
    }
    found
}

fn is_link(file: &File, link: &Link) -> bool {
    let is_object = |address: u64| {
        // The cache of the file is not asked: losses of the header are noted when it is read again.
        let has = || ObjectHeader::read(file.source(), address).is_ok_and(|header| header.links() > 0);
        file.source().losses().map_or_else(has, |losses| losses.muted(has))
    };
    !link.name.contains(['/', '\0'])
        && match &link.target {
            LinkTarget::Hard(address) => is_object(*address),
            LinkTarget::Soft(path) => !path.is_empty() && !path.contains('\0'),
            LinkTarget::External { .. } => true,
            LinkTarget::UserDefined(_) => false,
        }
}

impl Mover<'_> {
    /// Returns the header at an address.
    pub fn header_at(&self, address: u64) -> Result<Arc<ObjectHeader>> {
        match self.salvaged.and_then(|salvaged| salvaged.headers.get(&address)) {
            Some(header) => Ok(header.clone()),
            None => self.file.header(address),
        }
    }

    /// Returns the chunks of a dataset that were chosen before.
    pub fn chosen_chunks(&self, header: &ObjectHeader) -> Option<ChunkIndex> {
        self.salvaged?.chunks.get(&header.address).cloned()
    }

    fn added(&self, group: u64) -> &[(String, u64)] {
        self.salvaged.and_then(|salvaged| salvaged.links.get(&group)).map_or(&[], Vec::as_slice)
    }

    /// Notes that a message is lost, if the reader is lenient and the object has a meaning without it.
    pub fn lose_message(&self, message: &Message, error: Hdf5Error) -> Result<()> {
        let source = self.file.source();
        let essential = ESSENTIAL.contains(&message.kind);
        match source.is_lenient() && !essential {
            true => source.lose(error),
            false => Err(error),
        }
    }

    /// Removes links to lost objects from a symbol table, and adds links.
    pub fn mend_table(&self, group: u64, entries: &mut Vec<SymbolEntry>) {
        let Some(losses) = self.file.source().losses() else { return };
        entries.retain(|entry| match entry.target {
            EntryTarget::Hard(address) if !self.is_kept(address) => {
                let name = crate::lossless(&entry.name);
                losses.note(Some(address), format!("the object that the link '{name}' leads to is lost"));
                false
            }
            _ => true,
        });
        for (name, address) in self.added(group) {
            entries
                .push(SymbolEntry { name: name.clone().into_bytes(), target: EntryTarget::Hard(*address) });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        entries.dedup_by(|later, first| later.name == first.name);
    }

    /// Returns `true` if a link message leads to a lost object.
    pub fn leads_to_lost(&self, data: &[u8]) -> bool {
        let Some(losses) = self.file.source().losses() else { return false };
        let mut cursor = super::survey::cursor(data);
        match Link::parse(&mut cursor) {
            Ok(Link { name, target: LinkTarget::Hard(address), .. }) if !self.is_kept(address) => {
                losses.note(Some(address), format!("the object that the link '{name}' leads to is lost"));
                true
            }
            _ => false,
        }
    }

    /// Returns messages of the links that a group gets in addition. `first`: the creation order of the
    /// first one, if the group keeps orders.
    pub fn added_links(&self, group: u64, first: Option<i64>) -> Result<Vec<Vec<u8>>> {
        let message = |(number, (name, address)): (usize, &(String, u64))| {
            let creation_order = first.map(|first| first.saturating_add_unsigned(number as u64));
            Link { name: name.clone(), target: LinkTarget::Hard(*address), creation_order }
                .build()
                .map_err(super::unstorable)
        };
        self.added(group).iter().enumerate().map(message).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_without_a_way_from_the_root() {
        let objects: Vec<Found> = (1..=6).map(|address| Found { address, path: String::new() }).collect();
        let lost = |links: &[(u64, u64)]| unreached(&objects, links, 1);
        assert!(lost(&[(1, 2), (2, 3), (2, 4), (4, 5), (4, 6)]).is_empty());
        assert_eq!(lost(&[(1, 2), (2, 3), (4, 5), (5, 6)]), [4]);
        // They lead to each other, or to themselves.
        assert_eq!(lost(&[(1, 2), (2, 3), (4, 5), (5, 6), (6, 4)]), [4]);
        assert_eq!(lost(&[(1, 2), (2, 3), (4, 4), (5, 6)]), [4, 5]);
    }
}
