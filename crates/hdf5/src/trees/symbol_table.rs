//! Symbol tables: the links of an old group (specification III.A.1 with type 0, III.B, III.C).
//!
//! A B-tree of names leads to symbol table nodes. Each has a few entries sorted by name. The names
//! are in a local heap.

use crate::cursor::{number, to_usize};
use crate::error::Built;
use crate::group::{Link, LinkTarget};
use crate::heaps::LocalHeap;
use crate::heaps::build_local_heap;
use crate::messages::link::SymbolTable;
use crate::output::{NEW_SIZES, Output, fit};
use crate::salvage::losses::Losses;
use crate::superblock::{GROUP_K, LEAF_K};
use crate::text::lossless;
use crate::trees::Visited;
use crate::trees::btree1::{Node, Tree};
use crate::{Cursor, Parsed, Result, Sizes, Source};
use std::cell::RefCell;
use std::sync::Arc;

const STRUCTURE: &str = "symbol table node";

/// Bytes of a node in nearly all files (8 entries of 40 bytes).
const GUESS: u64 = 8 + 8 * 40;

fn tree(sizes: Sizes) -> Tree {
    Tree { kind: 0, key: usize::from(sizes.length) }
}

/// An entry of a symbol table, with the bytes as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SymbolEntry {
    pub name: Vec<u8>,
    pub target: EntryTarget,
}

/// The target of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryTarget {
    /// The object header at this address.
    Hard(u64),
    /// A path in the same file.
    Soft(Vec<u8>),
}

/// Returns all links in the order of their names.
pub fn entries(source: &Source, btree: u64, heap: u64) -> Result<Vec<Link>> {
    let found = stored_entries(source, btree, heap)?;
    Ok(found.into_iter().map(SymbolEntry::into_link).collect())
}

/// Returns all entries in the order of their names.
pub(crate) fn stored_entries(source: &Source, btree: u64, heap_at: u64) -> Result<Vec<SymbolEntry>> {
    // The heap and the B-tree do not depend on each other. Fetch both together.
    source.foresee(|| drop((LocalHeap::read(source, heap_at), nodes(source, btree))))?;
    let heap = match LocalHeap::read(source, heap_at) {
        Ok(heap) => heap,
        Err(error) => {
            source.lose(error)?;
            LocalHeap::empty()
        }
    };
    let nodes = nodes(source, btree)?;
    let mut visited = Visited::new(source);
    let mut entries = Vec::new();
    for (address, guess, key) in nodes {
        let found = source.parse(STRUCTURE, address, to_usize(guess), |cursor| {
            let mut found = Vec::new();
            let mut last = None;
            node(cursor, &heap, source.losses(), |place, name, entry| {
                last = Some(place);
                found.push(SymbolEntry::parse(name, entry, &heap)?);
                Ok(true)
            })?;
            Ok((found, last, cursor.position() as u64))
        });
        let (found, last, len) = match found {
            Ok(found) => found,
            Err(error) => {
                source.lose(error)?;
                continue;
            }
        };
        source.note(STRUCTURE, address, len, GUESS);
        // A writer that was killed may have split a node, and not have written the new one's parent.
        // In whole files, a deleted link may have left such a key.
        if let (Some(losses), Some(last)) = (source.losses(), last)
            && losses.is_torn()
            && heap.bytes(last) != heap.bytes(key)
        {
            losses.note(Some(address), "links are missing: a node of its symbol table was split");
        }
        visited.meet(address, len).map_err(|why| source.structure_error(STRUCTURE, address, why))?;
        entries.extend(found);
    }
    if let Some(losses) = source.losses()
        && losses.is_torn()
        && !has_names_of(&heap, &entries)
    {
        let why = "its members may have wrong names: other bytes were written over their names";
        losses.note(Some(heap_at), why);
    }
    Ok(entries)
}

/// Returns `true` if a heap can have the names of the entries. The HDF5 library sorts entries by name, and
/// its heaps begin with the empty name.
fn has_names_of(heap: &LocalHeap, entries: &[SymbolEntry]) -> bool {
    entries.is_empty()
        || heap.bytes(0).is_ok_and(<[u8]>::is_empty)
            && entries.windows(2).all(|pair| matches!(pair, [a, b] if a.name < b.name))
}

/// Fetches all nodes. Returns their addresses and sizes, and the place of each one's last name.
fn nodes(source: &Source, btree: u64) -> Result<Vec<(u64, u64, u64)>> {
    let (mut nodes, tree) = (Vec::new(), tree(source.sizes()));
    // The keys behind the children of the node that is read.
    let keys = RefCell::new(Vec::new());
    let mut leaf = |entries: &mut Cursor<'_>| {
        let mut keys = std::mem::take(&mut *keys.borrow_mut()).into_iter();
        while !entries.is_empty() {
            entries.skip(tree.key)?;
            let child = entries.defined_address(STRUCTURE)?;
            nodes.push((child, GUESS, keys.next().unwrap_or_default()));
        }
        Ok(())
    };
    tree.walk_nodes(source, btree, &mut leaf, &mut |_, node| {
        let mut entries = node.entries.clone();
        let all = entries.take_rest().chunks_exact(tree.entry(source.sizes())).skip(1);
        let key = |entry: &[u8]| entry.get(..tree.key).and_then(number).unwrap_or_default();
        keys.replace(all.chain([node.last]).map(key).collect());
    })?;
    // Prefetch. Object headers are close to these nodes and will be read next.
    let places: Vec<(u64, u64)> = nodes.iter().map(|(address, len, _)| (*address, *len)).collect();
    source.prefetch(&places)?;
    Ok(nodes)
}

/// Returns the link with this name. Reads only the nodes on the way down the tree.
pub fn find(source: &Source, btree: u64, heap: u64, name: &str) -> Result<Option<Link>> {
    // The heap is not needed to find the root of the tree. Fetch both together.
    let root = || tree(source.sizes()).descend(source, btree, &mut |_| Ok(None));
    source.foresee(|| drop((LocalHeap::read(source, heap), root())))?;
    let names = LocalHeap::read(source, heap)?;
    let choose = &mut |node: &Node<'_>| choose(node, &names, name.as_bytes());
    let found = tree(source.sizes()).descend(source, btree, choose)?;
    let (mut link_found, mut below) = (None, Vec::new());
    if let Some(address) = found {
        link_found = source.parse(STRUCTURE, address, to_usize(GUESS), |cursor| {
            let mut found = None;
            node(cursor, &names, None, |_, stored, entry| {
                if stored == name.as_bytes() {
                    below = group_below(&mut entry.clone()).unwrap_or_default();
                    found = Some(SymbolEntry::parse(stored, entry, &names)?.into_link());
                }
                Ok(found.is_none())
            })?;
            Ok(found)
        })?;
        // The next step of the path probably goes through that group.
        source.announce(&below)?;
    }
    // A name that is not UTF-8 is shown differently than it is stored and sorted.
    if link_found.is_none() && name.contains(r"\x") {
        return Ok(entries(source, btree, heap)?.into_iter().find(|link| link.name == name));
    }
    Ok(link_found)
}

/// Returns the child that may hold the name: after the key before it, at most the key after it.
fn choose(node: &Node<'_>, heap: &LocalHeap, name: &[u8]) -> Parsed<Option<usize>> {
    let mut entries = node.entries.clone();
    let width = tree(entries.sizes()).entry(entries.sizes());
    let all = entries.take_rest();
    let key = |number: usize| {
        let key = all.chunks_exact(width).nth(number).unwrap_or(node.last);
        let mut key = Cursor::whole(key, node.entries.address(), node.entries.sizes());
        heap.bytes(key.length()?)
    };
    // Find the first child whose last name is not before this name.
    let (mut low, mut high) = (0, all.len() / width);
    let count = high;
    while low < high {
        let middle = low + (high - low) / 2;
        if key(middle + 1)? < name { low = middle + 1 } else { high = middle }
    }
    Ok((low < count).then_some(low))
}

/// The cache type of soft links. The scratch pad has the heap offset of their path.
const SOFT: u32 = 2;

/// Builds the heap, the nodes and the B-tree of an old group at `address`. `links` are sorted by the
/// bytes of their names, and are hard or soft.
pub(crate) fn build(address: u64, links: &[Link]) -> Built<(SymbolTable, Vec<u8>)> {
    let entry = |link: &Link| SymbolEntry {
        name: link.name.clone().into_bytes(),
        target: match &link.target {
            LinkTarget::Hard(header) => EntryTarget::Hard(*header),
            LinkTarget::Soft(path) => EntryTarget::Soft(path.clone().into_bytes()),
            // The callers store no others in symbol tables.
            _ => EntryTarget::Soft(Vec::new()),
        },
    };
    build_entries(address, &links.iter().map(entry).collect::<Vec<_>>())
}

/// Builds the heap, the nodes and the B-tree of an old group at `address`. Entries are sorted by
/// their names.
pub(crate) fn build_entries(address: u64, links: &[SymbolEntry]) -> Built<(SymbolTable, Vec<u8>)> {
    let paths = links.iter().filter_map(|link| match &link.target {
        EntryTarget::Soft(path) => Some(path.as_slice()),
        EntryTarget::Hard(_) => None,
    });
    let all: Vec<&[u8]> = links.iter().map(|link| link.name.as_slice()).chain(paths).collect();
    let (heap, places) = build_local_heap(address, &all);
    let (name_places, mut path_places) = match places.split_at_checked(links.len()) {
        Some((names, paths)) => (names, paths.iter()),
        None => (&[][..], [].iter()),
    };
    let mut out = Output::new();
    out.bytes(&heap);
    let (mut children, mut keys) = (Vec::new(), Output::new());
    // The first key is the empty name. Each other key is the last name of the child before it.
    keys.u64(0);
    let most = 2 * usize::from(LEAF_K);
    let entries: Vec<(&SymbolEntry, &u64)> = links.iter().zip(name_places).collect();
    for node in entries.chunks(most) {
        let start = out.len();
        children.push(address.saturating_add(start as u64));
        out.bytes(b"SNOD").u8(1).u8(0).u16(fit(node.len() as u64, "entries of a node")?);
        for (link, name) in node {
            out.u64(**name);
            match link.target {
                EntryTarget::Hard(header) => drop(out.u64(header).zeros(24)),
                EntryTarget::Soft(_) => {
                    let path: u32 =
                        fit(path_places.next().copied().unwrap_or(0), "bytes of all names of a group")?;
                    out.address(None).u32(SOFT).u32(0).u32(path).zeros(12);
                }
            }
        }
        out.fill(start + 8 + most * 40);
        keys.u64(node.last().map_or(0, |(_, name)| **name));
    }
    let start = address.saturating_add(out.len() as u64);
    let tree = tree(NEW_SIZES).build(start, &keys.take(), &children, 2 * usize::from(GROUP_K), None)?;
    out.bytes(&tree.bytes);
    Ok((SymbolTable { btree: tree.root, heap: address }, out.take()))
}

/// Calls `each` with the place of the name, the name and the rest of each entry, until it returns
/// `false`. A lenient reader leaves out entries without a name.
fn node<'h>(
    cursor: &mut Cursor<'_>,
    heap: &'h LocalHeap,
    losses: Option<&Arc<Losses>>,
    mut each: impl FnMut(u64, &'h [u8], &mut Cursor<'_>) -> Parsed<bool>,
) -> Parsed<()> {
    cursor.signature(b"SNOD")?;
    cursor.version(STRUCTURE, &[1])?;
    cursor.skip(1)?;
    let count = cursor.u16()?;
    // The name's offset in the heap is a length, contrary to the specification.
    let len = usize::from(cursor.sizes().length) + usize::from(cursor.sizes().offset) + 24;
    let mut entries = cursor.part(len.saturating_mul(count.into()))?;
    while !entries.is_empty() {
        let mut entry = entries.part(len)?;
        let place = entry.length()?;
        let name = match (heap.bytes(place), losses) {
            (Ok(name), None) => name,
            (Ok(name), Some(_)) if !name.is_empty() => name,
            (_, Some(losses)) => {
                losses.note(Some(entry.address()), "a link has lost its name");
                continue;
            }
            (Err(error), None) => return Err(error),
        };
        if !each(place, name, &mut entry)? {
            break;
        }
    }
    Ok(())
}

impl SymbolEntry {
    /// Parses the rest of an entry after its name.
    fn parse(name: &[u8], entry: &mut Cursor<'_>, heap: &LocalHeap) -> Parsed<SymbolEntry> {
        let header = entry.offset()?;
        let cache = entry.u32()?;
        entry.skip(4)?;
        let target = match (cache, header) {
            (SOFT, _) => EntryTarget::Soft(heap.bytes(entry.u32()?.into())?.to_vec()),
            (_, Some(address)) => EntryTarget::Hard(address),
            _ => {
                let name = lossless(name);
                let why = format!("the object header address of link '{name}' is undefined");
                return Err(entry.corrupt(why));
            }
        };
        Ok(SymbolEntry { name: name.to_vec(), target })
    }

    fn into_link(self) -> Link {
        let target = match self.target {
            EntryTarget::Hard(address) => LinkTarget::Hard(address),
            EntryTarget::Soft(path) => LinkTarget::Soft(lossless(&path)),
        };
        Link { name: lossless(&self.name), target, creation_order: None }
    }
}

/// Returns addresses of a group's header, B-tree and heap, if the entry is a group and has them.
fn group_below(entry: &mut Cursor<'_>) -> Parsed<Vec<(u64, u64)>> {
    /// The cache type of groups. The scratch pad has the addresses of B-tree and heap.
    const GROUP: u32 = 1;
    let header = entry.offset()?;
    if entry.u32()? != GROUP {
        return Ok(Vec::new());
    }
    entry.skip(4)?;
    let places = [header, entry.offset()?, entry.offset()?];
    Ok(places.into_iter().flatten().map(|address| (address, 1)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fails, mutations, source, structure};
    use proptest::prelude::*;

    /// A group of `count` links `n0000`, … that point to 1000 + number. Every seventh is a soft
    /// link to `/there`.
    ///
    /// The B-tree (two levels) is at 0, the heap at the returned address.
    fn group(count: usize) -> (Vec<u8>, u64) {
        let names: Vec<_> = (0..count).map(|n| format!("n{n:04}")).collect();
        let mut data = b"\0\0\0\0\0\0\0\0/there\0\0".to_vec();
        let place = |n: usize| 16 + 8 * n as u64;
        for name in &names {
            data.extend(structure!(name.as_bytes(), [0; 3]));
        }
        let numbers: Vec<usize> = (0..count).collect();
        let leaves: Vec<_> = numbers.chunks(4).collect();
        let parents: Vec<_> = leaves.chunks(3).collect();
        let at = |n: usize| 512 * n as u64;
        let mut blocks = Vec::new();
        let tree = |level, first: usize, groups: &[Vec<usize>], blocks: &[u64]| {
            let mut keys = vec![if first == 0 { 0 } else { place(first - 1) }];
            keys.extend(groups.iter().map(|group| place(*group.last().unwrap())));
            let keys: Vec<_> = keys.iter().map(|key| key.to_le_bytes().to_vec()).collect();
            crate::trees::btree1::tests::node(0, level, &keys, blocks)
        };
        let all: Vec<Vec<usize>> = parents.iter().map(|leaves| leaves.concat()).collect();
        let children: Vec<u64> = (1..=parents.len()).map(at).collect();
        blocks.push(tree(1, 0, &all, &children));
        let mut next = 1 + parents.len();
        for leaves in &parents {
            let groups: Vec<Vec<usize>> = leaves.iter().map(|leaf| leaf.to_vec()).collect();
            let children: Vec<u64> = (next..next + leaves.len()).map(at).collect();
            blocks.push(tree(0, leaves[0][0], &groups, &children));
            next += leaves.len();
        }
        for leaf in &leaves {
            let mut node = structure!(b"SNOD\x01\0", leaf.len() as u16);
            for n in *leaf {
                let (header, kind) = if n % 7 == 6 { (u64::MAX, 2u32) } else { (1000 + *n as u64, 0) };
                node.extend(structure!(place(*n), header, kind, [0; 4], 8u64, [0; 8]));
            }
            blocks.push(node);
        }
        let heap = at(next);
        blocks.push(structure!(b"HEAP\0\0\0\0", data.len() as u64, 1u64, heap + 32, data));
        let mut bytes = Vec::new();
        for (n, block) in blocks.into_iter().enumerate() {
            bytes.resize(at(n) as usize, 0);
            bytes.extend(block);
        }
        (bytes, heap)
    }

    #[test]
    fn all_and_one() {
        let (bytes, heap) = group(50);
        let source = source(&bytes);
        let links = entries(&source, 0, heap).unwrap();
        assert_eq!(links.len(), 50);
        for (n, link) in links.iter().enumerate() {
            assert_eq!(link.name, format!("n{n:04}"));
            let target = match n % 7 {
                6 => LinkTarget::Soft("/there".into()),
                _ => LinkTarget::Hard(1000 + n as u64),
            };
            assert_eq!(link.target, target);
            assert_eq!(find(&source, 0, heap, &link.name).unwrap().as_ref(), Some(link));
        }
        for name in ["", "n", "n00000", "n0050", "z", "m", r"n\x00"] {
            assert_eq!(find(&source, 0, heap, name).unwrap(), None, "{name}");
        }
    }

    #[test]
    fn names_that_are_not_utf8() {
        let (mut bytes, heap) = group(4);
        let at = heap as usize + 32 + 16 + 8 * 3;
        bytes[at..at + 5].copy_from_slice(b"n0\xff\xfez");
        let source = source(&bytes);
        assert_eq!(entries(&source, 0, heap).unwrap()[3].name, r"n0\xff\xfez");
        assert_eq!(find(&source, 0, heap, r"n0\xff\xfez").unwrap().unwrap().target, LinkTarget::Hard(1003));
    }

    #[test]
    fn shared_nodes() {
        let (mut bytes, heap) = group(8);
        // The second child of the node at 512 becomes the same as the first.
        bytes.copy_within(512 + 32..512 + 40, 512 + 48);
        fails(entries(&source(&bytes), 0, heap), "a second time");
    }

    #[test]
    fn any_bytes() {
        let (bytes, heap) = group(9);
        mutations(&bytes, |source| {
            let _ = entries(source, 0, heap);
            let _ = find(source, 0, heap, "n0003");
        });
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(
            links in proptest::collection::btree_map("[a-z0-9]{1,12}", any::<Option<u32>>(), 0..400),
            start in 0_u64..50,
        ) {
            let target = |address: Option<u32>| match address {
                Some(address) => LinkTarget::Hard(address.into()),
                None => LinkTarget::Soft("/some/where".into()),
            };
            let links = links.into_iter();
            let links = links.map(|(name, address)| Link { name, target: target(address), creation_order: None });
            let links: Vec<Link> = links.collect();
            let (table, bytes) = build(start, &links).unwrap();
            let source = source(&[vec![0; start as usize], bytes].concat());
            prop_assert_eq!(&entries(&source, table.btree, table.heap).unwrap(), &links);
            for link in links.iter().step_by(11) {
                let found = find(&source, table.btree, table.heap, &link.name).unwrap();
                prop_assert_eq!(found.as_ref(), Some(link));
            }
            prop_assert_eq!(find(&source, table.btree, table.heap, "~").unwrap(), None);
        }
    }

    #[test]
    fn other_bytes_in_place_of_names() {
        let entry = |name: &[u8]| SymbolEntry { name: name.to_vec(), target: EntryTarget::Hard(1) };
        let (mut bytes, _) = build_local_heap(0, &[b"a", b"b"]);
        let heap = LocalHeap::read(&source(&bytes), 0).unwrap();
        assert!(has_names_of(&heap, &[entry(b"a"), entry(b"b")]));
        assert!(!has_names_of(&heap, &[entry(b"b"), entry(b"a")]));
        assert!(!has_names_of(&heap, &[entry(b"a"), entry(b"a")]));
        // The data segment follows the prefix of 32 bytes.
        bytes[32] = 12;
        let heap = LocalHeap::read(&source(&bytes), 0).unwrap();
        assert!(!has_names_of(&heap, &[entry(b"a")]) && has_names_of(&heap, &[]));
    }
}
