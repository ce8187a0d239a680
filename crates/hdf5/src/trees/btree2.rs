//! Version 2 B-trees of links, attributes, huge objects and chunks (specification III.A.2).
//!
//! Inner nodes have records too, between their children. The width of a record count follows from
//! the number of records that a node can hold:
//!
//! 1. A leaf holds as many records as fit. All "number of records" fields are just wide enough for
//!    this number.
//! 2. An inner node of depth d holds as many records and pointers as fit. A pointer has a record
//!    count. From depth 2 on, it also has the total number of records below it, just wide enough
//!    for the largest total of a node of depth d - 1.

use crate::cursor::to_usize;
use crate::error::{BuildError, Built};
use crate::output::{NEW_SIZES, Output, fit};
use crate::trees::Visited;
use crate::{Cursor, Parsed, Result, Sizes, Source};
use std::cmp::Ordering;
use std::ops::Range;

const HEADER: &str = "version 2 B-tree header";
const NODE: &str = "version 2 B-tree node";

/// Bytes of a node apart from its records and pointers: signature, version, type, checksum.
const FRAME: u64 = 10;

/// Largest node in bytes. Nodes are read whole, so larger ones are refused. (Writers use 512 to a
/// few thousand.)
const LARGEST_NODE: u32 = 64 << 20;

/// Greatest depth. With a record in each node, no file has a deeper tree.
pub(crate) const DEEPEST: u16 = 63;

/// The layout of nodes.
#[derive(Debug)]
pub(crate) struct Tree {
    kind: u8,
    node: u32,
    record: u16,
    /// Width of a record count, and for each depth the width of the total below (0: no total).
    count_width: usize,
    total_widths: Vec<usize>,
    /// For each depth, the largest number of records of a node.
    most: Vec<u64>,
}

/// A node that was not read yet: address, depth, number of records.
#[derive(Clone, Copy, Debug)]
struct Child {
    address: u64,
    depth: u16,
    count: u64,
}

/// Bytes of an unsigned number up to `limit`.
fn width(limit: u64) -> usize {
    usize::try_from(limit.checked_ilog2().unwrap_or(0) / 8 + 1).unwrap_or(8)
}

impl Tree {
    /// Reads the tree's header. Returns the tree and its root. `None`: the tree is empty.
    fn read(source: &Source, address: u64, kind: u8) -> Result<(Tree, Option<Child>)> {
        let sizes = source.sizes();
        let guess = 22 + usize::from(sizes.offset) + usize::from(sizes.length);
        source.parse(HEADER, address, guess, |cursor| {
            let start = cursor.position();
            cursor.signature(b"BTHD")?;
            cursor.version("version 2 B-tree", &[0])?;
            let at = cursor.clone();
            let found = cursor.u8()?;
            let (node, record, depth) = (cursor.u32()?, cursor.u16()?, cursor.u16()?);
            cursor.skip(2)?;
            let root = cursor.offset()?;
            let count = cursor.u16()?;
            cursor.length()?;
            cursor.checksum(start)?;
            if found != kind {
                let why = format!("expected records of type {kind}, found type {found}");
                return Err(at.corrupt(why));
            }
            if record == 0 || depth > DEEPEST || node > LARGEST_NODE {
                let why = format!(
                    "expected records of at least 1 byte, nodes of at most {LARGEST_NODE} bytes and a \
                     depth of at most {DEEPEST}, found records of {record} bytes, nodes of {node} bytes, \
                     depth {depth}"
                );
                return Err(at.corrupt(why));
            }
            let tree = Tree::plan(kind, node, record, depth, sizes).ok_or_else(|| {
                at.corrupt(format!("a node of {node} bytes has no room for a record of {record} bytes"))
            })?;
            let root = root.filter(|_| count > 0 || depth > 0);
            Ok((tree, root.map(|address| Child { address, depth, count: count.into() })))
        })
    }

    /// Computes the layout of nodes for each depth. `None`: nothing fits into them.
    pub(crate) fn plan(kind: u8, node: u32, record: u16, depth: u16, sizes: Sizes) -> Option<Tree> {
        let (room, record_len) = (u64::from(node).checked_sub(FRAME)?, u64::from(record));
        let leaf = room.checked_div(record_len)?;
        let count_width = width(leaf);
        let (mut most, mut total, mut total_widths) = (vec![leaf], leaf, Vec::new());
        for depth in 1..=depth {
            // A leaf has only a record count, no total.
            total_widths.push(if depth == 1 { 0 } else { width(total) });
            let pointer = usize::from(sizes.offset) + count_width + total_widths.last()?;
            let here = room.checked_sub(pointer as u64)? / (record_len + pointer as u64);
            most.push(here);
            total = here.saturating_add(1).saturating_mul(total).saturating_add(here);
        }
        let fits = most.iter().all(|most| *most > 0);
        fits.then_some(Tree { kind, node, record, count_width, total_widths, most })
    }

    /// Parses a node. Returns its records and its children: one more than records, or no children.
    fn parse<'a>(&self, cursor: &mut Cursor<'a>, node: Child) -> Parsed<(Cursor<'a>, Vec<Child>)> {
        let start = cursor.position();
        let depth = usize::from(node.depth);
        cursor.signature(if depth > 0 { b"BTIN" } else { b"BTLF" })?;
        cursor.version(NODE, &[0])?;
        let at = cursor.clone();
        let kind = cursor.u8()?;
        if kind != self.kind {
            return Err(at.corrupt(format!("expected a node of type {}, found type {kind}", self.kind)));
        }
        let most = self.most.get(depth).copied().unwrap_or_default();
        if node.count > most {
            return Err(
                at.corrupt(format!("expected at most {most} records in a node, found {}", node.count))
            );
        }
        let count = to_usize(node.count);
        let records = cursor.part(count.saturating_mul(self.record.into()))?;
        let mut children = Vec::new();
        if let Some(below) = node.depth.checked_sub(1) {
            for _ in 0..=count {
                let address = cursor.defined_address("a child")?;
                let count = cursor.uint(self.count_width)?;
                cursor.skip(self.total_widths.get(usize::from(below)).copied().unwrap_or_default())?;
                children.push(Child { address, depth: below, count });
            }
        }
        cursor.checksum(start)?;
        Ok((records, children))
    }
}

/// Bytes of a tree's header.
pub(crate) const NEW_HEADER: u64 = 38;

/// Fill percentages at which nodes are split and merged: the HDF5 library's numbers.
const SPLIT_MERGE: [u8; 2] = [100, 40];

/// Builds a tree at `address` from its records, which are sorted and of `record` bytes each. Nodes
/// have `node` bytes.
pub(crate) fn build(address: u64, kind: u8, node: u32, record: u16, records: &[u8]) -> Built<Vec<u8>> {
    let records: Vec<&[u8]> = records.chunks_exact(usize::from(record).max(1)).collect();
    let small = || BuildError(format!("records of {record} bytes in nodes of {node} bytes"));
    let plan = (0..=DEEPEST).filter_map(|depth| Tree::plan(kind, node, record, depth, NEW_SIZES));
    let mut enough = plan.filter(|tree| tree.total(tree.depth()) >= records.len() as u64);
    let tree = enough.next().ok_or_else(small)?;
    let mut nodes = Output::new();
    let root = match records.is_empty() {
        true => (None, 0),
        false => {
            let (root, count) =
                tree.put(&records, tree.depth(), address.saturating_add(NEW_HEADER), &mut nodes);
            (Some(root), count)
        }
    };
    let head = tree.put_header(tree.depth(), root.0, root.1, records.len() as u64)?;
    Ok([head, nodes.take()].concat())
}

impl Tree {
    /// The most records of a node of a depth.
    pub(crate) fn most(&self, depth: usize) -> usize {
        to_usize(self.most.get(depth).copied().unwrap_or_default())
    }

    /// Builds the header of a tree. The root has `own` of all records.
    pub(crate) fn header(&self, depth: usize, root: u64, own: u64, all: u64) -> Built<Vec<u8>> {
        self.put_header(depth, Some(root), own, all)
    }

    fn put_header(&self, depth: usize, root: Option<u64>, own: u64, all: u64) -> Built<Vec<u8>> {
        let mut out = Output::new();
        out.bytes(b"BTHD").u8(0).u8(self.kind).u32(self.node).u16(self.record);
        out.u16(fit(depth as u64, "levels of a B-tree")?).bytes(&SPLIT_MERGE);
        out.address(root).u16(fit(own, "records of a node")?).u64(all).checksum();
        Ok(out.take())
    }

    /// Builds a node of a depth. Each child has an address, records of its own, and all records of its
    /// own and below it.
    pub(crate) fn node(&self, depth: usize, records: &[u8], children: &[(u64, u64, u64)]) -> Vec<u8> {
        let mut node = Output::new();
        node.bytes(if depth > 0 { b"BTIN" } else { b"BTLF" }).u8(0).u8(self.kind).bytes(records);
        let width = depth.checked_sub(1).and_then(|below| self.total_widths.get(below));
        for (address, own, all) in children {
            node.u64(*address).uint(*own, self.count_width).uint(*all, width.copied().unwrap_or_default());
        }
        node.checksum().fill(to_usize(u64::from(self.node))).take()
    }

    fn depth(&self) -> usize {
        self.most.len().saturating_sub(1)
    }

    /// The most records of a node of a depth and all nodes below it.
    fn total(&self, depth: usize) -> u64 {
        let most = self.most.iter().take(depth + 1);
        most.fold(0, |below: u64, most| most.saturating_add(1).saturating_mul(below).saturating_add(*most))
    }

    /// Appends a node and the nodes below it. Returns its address and the number of its own records.
    fn put(&self, records: &[&[u8]], depth: usize, start: u64, out: &mut Output) -> (u64, u64) {
        let (mut own, mut pointers) = (Vec::new(), Vec::new());
        if depth == 0 {
            own = records.to_vec();
        } else {
            // Take as few children as can hold the rest, and give all about the same size.
            let below = self.total(depth - 1);
            let children = (records.len() as u64 + 1).div_ceil(below.saturating_add(1)).max(2);
            let rest = (records.len() as u64).saturating_sub(children - 1);
            let mut left = records;
            for child in 0..children {
                let len = rest / children + u64::from(child < rest % children);
                let (these, later) = left.split_at(to_usize(len).min(left.len()));
                let (address, count) = self.put(these, depth - 1, start, out);
                pointers.push((address, count, these.len() as u64));
                let Some((between, later)) = later.split_first() else { break };
                own.push(between);
                left = later;
            }
        }
        let node = self.node(depth, &own.concat(), &pointers);
        let address = start.saturating_add(out.len() as u64);
        out.bytes(&node);
        (address, own.len() as u64)
    }
}

/// A part of a tree: a node to read, or the place of records in the bytes read so far.
enum Stretch {
    Node(Child),
    Records(Range<usize>),
}

/// Receives a record.
type Each<'e> = &'e mut dyn FnMut(&mut Cursor<'_>) -> Parsed<()>;

/// Calls `each` with every record, in order. Records must have the type `kind`.
pub fn records(source: &Source, address: u64, kind: u8, each: Each<'_>) -> Result<()> {
    let (tree, root) = Tree::read(source, address, kind)?;
    let record = usize::from(tree.record);
    let mut visited = Visited::new(source);
    let mut parts: Vec<Stretch> = root.map(Stretch::Node).into_iter().collect();
    let mut bytes: Vec<u8> = Vec::new();
    // Go level by level. Each node is replaced by its children and the records between them.
    loop {
        let wanted = parts.iter().filter_map(|part| match part {
            Stretch::Node(child) => Some((*child, (child.address, u64::from(tree.node)))),
            Stretch::Records(_) => None,
        });
        let (nodes, places): (Vec<Child>, Vec<(u64, u64)>) = wanted.unzip();
        if nodes.is_empty() {
            break;
        }
        let mut next = Vec::new();
        let mut old = std::mem::take(&mut parts).into_iter();
        source.parse_many(NODE, &places, |place, cursor| {
            let Some(node) = nodes.get(place) else { return Ok(()) };
            let (mut records, children) = tree.parse(cursor, *node)?;
            visited.meet(node.address, cursor.position() as u64)?;
            source.note(NODE, node.address, cursor.position() as u64, tree.node.into());
            next.extend(old.by_ref().take_while(|part| matches!(part, Stretch::Records(_))));
            let mut start = bytes.len();
            bytes.extend_from_slice(records.take_rest());
            if children.is_empty() {
                next.push(Stretch::Records(start..bytes.len()));
            }
            for child in children {
                next.push(Stretch::Node(child));
                let end = start.saturating_add(record).min(bytes.len());
                if start < end {
                    next.push(Stretch::Records(start..end));
                }
                start = end;
            }
            Ok(())
        })?;
        // A lenient reader goes on without nodes that it cannot read.
        next.extend(old.filter(|part| matches!(part, Stretch::Records(_))));
        parts = next;
    }
    for part in parts {
        let Stretch::Records(range) = part else { continue };
        for bytes in bytes.get(range).unwrap_or_default().chunks_exact(record) {
            each(&mut source.cursor(bytes, address))
                .map_err(|why| source.structure_error("version 2 B-tree", address, why))?;
        }
    }
    Ok(())
}

/// A node of a tree.
pub(crate) struct Outlined {
    pub address: u64,
    /// 0: a leaf.
    pub depth: u16,
    /// The record before the node, which a node above has. Empty for the first node of a depth.
    pub key: Vec<u8>,
    /// Its own records.
    pub records: Vec<u8>,
}

/// Returns all nodes of a tree, depth by depth from the root down. `None`: its nodes are not of this
/// layout.
pub(crate) fn outline(source: &Source, address: u64, layout: &Tree) -> Result<Option<Vec<Outlined>>> {
    let (tree, root) = Tree::read(source, address, layout.kind)?;
    if (tree.node, tree.record) != (layout.node, layout.record) {
        return Ok(None);
    }
    let mut visited = Visited::new(source);
    let mut found = Vec::new();
    let mut nodes: Vec<(Child, Vec<u8>)> = root.map(|root| (root, Vec::new())).into_iter().collect();
    while !nodes.is_empty() {
        let places: Vec<(u64, u64)> =
            nodes.iter().map(|(child, _)| (child.address, u64::from(tree.node))).collect();
        let mut below = Vec::new();
        source.parse_many(NODE, &places, |place, cursor| {
            let Some((node, key)) = nodes.get(place) else { return Ok(()) };
            let (mut records, children) = tree.parse(cursor, *node)?;
            visited.meet(node.address, cursor.position() as u64)?;
            let records = records.take_rest();
            let keys = [&key[..]].into_iter().chain(records.chunks_exact(tree.record.into()));
            below.extend(children.into_iter().zip(keys.map(<[u8]>::to_vec)));
            let (key, records) = (key.clone(), records.to_vec());
            found.push(Outlined { address: node.address, depth: node.depth, key, records });
            Ok(())
        })?;
        nodes = below;
    }
    Ok(Some(found))
}

/// Calls `each` with all records for which `compare` returns equal. Reads only nodes that may have
/// some.
pub fn find(
    source: &Source,
    address: u64,
    kind: u8,
    compare: &mut dyn FnMut(&mut Cursor<'_>) -> Parsed<Ordering>,
    each: Each<'_>,
) -> Result<()> {
    let (tree, root) = Tree::read(source, address, kind)?;
    let guess = to_usize(tree.node);
    let mut visited = Visited::new(source);
    let mut nodes: Vec<Child> = root.into_iter().collect();
    while let Some(node) = nodes.pop() {
        let (equal, children, len) = source.parse(NODE, node.address, guess, |cursor| {
            let (mut records, children) = tree.parse(cursor, node)?;
            let (mut before, mut equal) = (0, Vec::new());
            while !records.is_empty() {
                let record = records.part(tree.record.into())?;
                match compare(&mut record.clone())? {
                    Ordering::Less => before += 1,
                    Ordering::Equal => equal.extend_from_slice(record.clone().take_rest()),
                    Ordering::Greater => break,
                }
            }
            // The children before, between and after the equal records.
            let count = equal.len() / usize::from(tree.record) + 1;
            let children: Vec<Child> = children.into_iter().skip(before).take(count).collect();
            Ok((equal, children, cursor.position() as u64))
        })?;
        let wrong = |why| source.structure_error(NODE, node.address, why);
        visited.meet(node.address, len).map_err(wrong)?;
        for record in equal.chunks_exact(tree.record.into()) {
            each(&mut source.cursor(record, node.address)).map_err(wrong)?;
        }
        nodes.extend(children);
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::{SIZES, append_checksum, mutations, says, source, structure};
    use proptest::prelude::*;

    /// A tree of sorted `records` in full nodes of `node` bytes. The header is at `at`.
    pub(crate) fn tree(kind: u8, node: u32, records: &[Vec<u8>], at: u64) -> Vec<u8> {
        let record = records.first().map_or(8, Vec::len) as u16;
        let mut depth = 0;
        let mut plan = Tree::plan(kind, node, record, 0, SIZES).unwrap();
        let total = |plan: &Tree| plan.most.iter().fold(0, |below, most| (most + 1) * below + most);
        while total(&plan) < records.len() as u64 {
            depth += 1;
            plan = Tree::plan(kind, node, record, depth, SIZES).unwrap();
        }
        let header = 38u64;
        let mut nodes = Vec::new();
        let root = build(&plan, depth, records, at + header, &mut nodes);
        let head = structure!(b"BTHD\0", kind, node, record, depth, [100, 40]);
        let mut bytes = append_checksum(structure!(head, root.0, root.1 as u16, records.len() as u64));
        assert_eq!(bytes.len() as u64, header);
        bytes.extend(nodes);
        bytes
    }

    /// Writes a node and all nodes below it. Returns its address and its total number of records.
    fn build(plan: &Tree, depth: u16, records: &[Vec<u8>], at: u64, out: &mut Vec<u8>) -> (u64, u64) {
        let below = plan.most[..usize::from(depth)].iter().fold(0, |below, most| (most + 1) * below + most);
        let signature = if depth > 0 { b"BTIN\0" } else { b"BTLF\0" };
        let (mut own, mut pointers) = (Vec::new(), Vec::new());
        if depth == 0 {
            own.extend(records.iter().cloned());
        } else {
            let mut rest = records;
            loop {
                let (child, later) = rest.split_at(rest.len().min(below as usize));
                let (address, count) = build(plan, depth - 1, child, at, out);
                let total = &(child.len() as u64).to_le_bytes()[..plan.total_widths[usize::from(depth) - 1]];
                pointers.extend(structure!(address, &count.to_le_bytes()[..plan.count_width], total));
                let Some((between, later)) = later.split_first() else { break };
                own.push(between.clone());
                rest = later;
            }
        }
        let mut bytes = append_checksum(structure!(signature, plan.kind, own.concat(), pointers));
        assert!(bytes.len() <= plan.node as usize);
        bytes.resize(plan.node as usize, 0);
        let address = at + out.len() as u64;
        out.extend(bytes);
        (address, own.len() as u64)
    }

    fn numbers(count: u64) -> Vec<Vec<u8>> {
        (0..count).map(|n| (n / 3).to_le_bytes().to_vec()).collect()
    }

    fn all(source: &Source) -> Result<Vec<u64>> {
        let mut found = Vec::new();
        records(source, 0, 9, &mut |record| {
            found.push(record.u64()?);
            Ok(())
        })?;
        Ok(found)
    }

    fn equal(source: &Source, wanted: u64) -> Result<usize> {
        let mut found = 0;
        let compare = &mut |record: &mut Cursor<'_>| Ok(record.u64()?.cmp(&wanted));
        find(source, 0, 9, compare, &mut |record| {
            assert_eq!(record.u64()?, wanted);
            found += 1;
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn every_record_at_any_depth() {
        for (node, count) in
            [(512, 0), (512, 1), (512, 62), (512, 63), (100, 2000), (2100, 70_000), (64, 500)]
        {
            let source = source(&tree(9, node, &numbers(count), 0));
            let expected: Vec<u64> = (0..count).map(|n| n / 3).collect();
            assert_eq!(all(&source).unwrap(), expected, "{node} {count}");
            for wanted in [0, 1, count / 6, count / 3] {
                let times = expected.iter().filter(|n| **n == wanted).count();
                assert_eq!(equal(&source, wanted).unwrap(), times, "{node} {count} {wanted}");
            }
            assert_eq!(equal(&source, count).unwrap(), 0);
        }
    }

    #[test]
    fn finds_without_reading_all() {
        let bytes = tree(9, 4096, &numbers(1_000_000), 0);
        let source = source(&bytes);
        assert_eq!(equal(&source, 123_456).unwrap(), 3);
        assert!(source.reads() <= 6, "{}", source.reads());
    }

    /// Widths as the HDF5 library computes them for its usual trees.
    #[test]
    fn widths() {
        let names = Tree::plan(5, 512, 11, 3, SIZES).unwrap();
        assert_eq!((names.count_width, &names.most[..]), (1, &[45, 24, 22, 22][..]));
        assert_eq!(names.total_widths, [0, 2, 2]);
        let chunks = Tree::plan(10, 2048, 24, 2, SIZES).unwrap();
        assert_eq!((chunks.count_width, &chunks.most[..]), (1, &[84, 61, 57][..]));
        assert_eq!(chunks.total_widths, [0, 2]);
    }

    #[test]
    fn damage_is_named() {
        let bytes = tree(9, 100, &numbers(60), 0);
        let wrong = |change: &dyn Fn(&mut Vec<u8>), verify| {
            let mut bytes = bytes.clone();
            change(&mut bytes);
            records(&source(&bytes).with_format(SIZES, verify), 0, 9, &mut |_| Ok(())).unwrap_err()
        };
        says(wrong(&|bytes| bytes[20] ^= 1, true), "the checksum is");
        says(wrong(&|bytes| bytes[50] ^= 1, true), "the checksum is");
        says(wrong(&|bytes| bytes[5] = 5, false), "expected records of type 9, found type 5");
        says(wrong(&|bytes| bytes[24] = 200, false), "records in a node, found 200");
        says(wrong(&|bytes| bytes[13] = 1, false), "depth");
        says(
            wrong(&|bytes| bytes[4] = 1, false),
            "version 1 of the version 2 B-tree (known: 0) is not supported",
        );
    }

    #[test]
    fn any_bytes() {
        let bytes = tree(9, 100, &numbers(60), 0);
        mutations(&bytes, |source| {
            let _ = records(source, 0, 9, &mut |_| Ok(()));
            let compare = &mut |record: &mut Cursor<'_>| Ok(record.u64()?.cmp(&7));
            let _ = find(source, 0, 9, compare, &mut |_| Ok(()));
        });
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(
            count in prop_oneof![0_u64..40, 0_u64..3000],
            node in prop_oneof![Just(64_u32), Just(128), Just(512)],
            start in 0_u64..40,
        ) {
            let numbers: Vec<u8> = (0..count).flat_map(|n| (n * 3).to_le_bytes()).collect();
            let bytes = super::build(start, 9, node, 8, &numbers).unwrap();
            let source = source(&[vec![0; start as usize], bytes].concat());
            let mut found = Vec::new();
            records(&source, start, 9, &mut |record| {
                found.push(record.u64()?);
                Ok(())
            }).unwrap();
            prop_assert_eq!(found, (0..count).map(|n| n * 3).collect::<Vec<_>>());
            for wanted in (0..count).step_by(37) {
                let mut met = Vec::new();
                let mut compare = |record: &mut Cursor<'_>| Ok::<Ordering, _>(record.u64()?.cmp(&(wanted * 3)));
                find(&source, start, 9, &mut compare, &mut |record| {
                    met.push(record.u64()?);
                    Ok(())
                }).unwrap();
                prop_assert_eq!(met, [wanted * 3]);
            }
        }
    }
}
