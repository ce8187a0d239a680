//! Version 1 B-trees (specification III.A.1). They index symbol tables (type 0) and chunks (type
//! 1).

use crate::cursor::{address, to_usize};
use crate::error::Built;
use crate::output::{NEW_SIZES, Output, fit};
use crate::trees::Visited;
use crate::{Cursor, ParseError, Parsed, Result, Sizes, Source};

const STRUCTURE: &str = "version 1 B-tree node";

/// Usual number of entries of a node. If a file has larger nodes, they take another read.
const USUAL: u64 = 64;

/// The kind of a tree: the type of its nodes, and the size of its keys in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    pub kind: u8,
    pub key: usize,
}

pub(crate) struct Node<'a> {
    /// 0: children are the indexed structures. Otherwise they are nodes of the level below.
    pub level: u8,
    /// The nodes before and behind it on its level.
    pub siblings: [Option<u64>; 2],
    /// A key and the address of a child, for each child.
    pub entries: Cursor<'a>,
    /// The key after the last child.
    pub last: &'a [u8],
}

impl Tree {
    /// Bytes of an entry: a key and the address of a child.
    pub(crate) fn entry(self, sizes: Sizes) -> usize {
        self.key + usize::from(sizes.offset)
    }

    /// Bytes of a node with room for `entries`.
    pub(crate) fn node_len(self, entries: u64, sizes: Sizes) -> u64 {
        let head = 8 + 2 * u64::from(sizes.offset) + self.key as u64;
        entries.saturating_mul(self.entry(sizes) as u64).saturating_add(head)
    }

    /// Bytes that a file reserves for a node, with the usual limits on entries.
    fn room(self, sizes: Sizes) -> u64 {
        self.node_len(if self.kind == 0 { 32 } else { 64 }, sizes)
    }

    fn parse<'a>(self, cursor: &mut Cursor<'a>) -> Parsed<Node<'a>> {
        cursor.signature(b"TREE")?;
        let at = cursor.clone();
        let (kind, level, used) = (cursor.u8()?, cursor.u8()?, cursor.u16()?);
        if kind != self.kind {
            return Err(at.corrupt(format!("expected a node of type {}, found type {kind}", self.kind)));
        }
        // The addresses of siblings are not followed. Parents have all addresses that are needed.
        let siblings = [(); 2].map(|()| cursor.take(usize::from(cursor.sizes().offset)));
        let [before, after] = siblings.map(|bytes| {
            let bytes = bytes?;
            let is_absent = bytes.iter().all(|byte| *byte == 0xff);
            Ok::<_, ParseError>(if is_absent { None } else { crate::cursor::number(bytes) })
        });
        let siblings = [before?, after?];
        let entries = cursor.part(self.entry(cursor.sizes()).saturating_mul(usize::from(used)))?;
        Ok(Node { level, siblings, entries, last: cursor.take(self.key)? })
    }

    /// The places of all nodes: address and length.
    pub(crate) fn places(self, source: &Source, root: u64) -> Result<Vec<(u64, u64)>> {
        let len = self.node_len(USUAL, source.sizes());
        let mut places = Vec::new();
        self.walk_nodes(source, root, &mut |_| Ok(()), &mut |node, _| places.push((node, len)))?;
        Ok(places)
    }

    /// Calls `leaf` with the entries of each node of level 0, in order. Calls `each` with every node and
    /// its address, level by level from the root down.
    pub(crate) fn walk_nodes(
        self,
        source: &Source,
        root: u64,
        leaf: &mut dyn FnMut(&mut Cursor<'_>) -> Parsed<()>,
        each: &mut dyn FnMut(u64, &Node<'_>),
    ) -> Result<()> {
        let (sizes, mut visited) = (source.sizes(), Visited::new(source));
        let mut level: Option<u8> = None;
        let mut nodes = vec![(root, self.node_len(USUAL, sizes))];
        loop {
            let (mut children, mut most, mut below) = (Vec::new(), USUAL, None);
            source.parse_many(STRUCTURE, &nodes, |_, cursor| {
                let start = cursor.address();
                let mut node = self.parse(cursor)?;
                check_level(start, node.level, level)?;
                visited.meet(start, cursor.position() as u64)?;
                source.note(STRUCTURE, start, cursor.position() as u64, self.room(sizes));
                each(start, &node);
                below = node.level.checked_sub(1);
                if below.is_none() {
                    return leaf(&mut node.entries);
                }
                let width = self.entry(sizes);
                most = most.max((node.entries.remaining_len() / width) as u64);
                for entry in node.entries.take_rest().chunks_exact(width) {
                    children.push((child(start, entry, self.key)?, 0));
                }
                Ok(())
            })?;
            if children.is_empty() {
                return Ok(());
            }
            // All nodes of a tree have the same size.
            children.iter_mut().for_each(|(_, guess)| *guess = self.node_len(most, sizes));
            (level, nodes) = (below, children);
        }
    }

    /// Reads the node of level 0 at an address, if it names `before` as the node before it. Calls `leaf`
    /// with its entries. Returns the address of the node behind it.
    pub(crate) fn neighbour(
        self,
        source: &Source,
        address: u64,
        before: u64,
        leaf: &mut dyn FnMut(&mut Cursor<'_>) -> Parsed<()>,
    ) -> Result<Option<u64>> {
        let guess = to_usize(self.node_len(USUAL, source.sizes()));
        source.parse(STRUCTURE, address, guess, |cursor| {
            let mut node = self.parse(cursor)?;
            check_level(address, node.level, Some(0))?;
            match node.siblings {
                [Some(found), after] if found == before => leaf(&mut node.entries).map(|()| after),
                _ => Err(cursor.corrupt(format!("expected a node behind the one at address {before}"))),
            }
        })
    }

    /// Follows `choose` from the root down and returns the chosen child of a leaf. `None`: it chose
    /// none.
    pub(crate) fn descend(
        self,
        source: &Source,
        root: u64,
        choose: &mut dyn FnMut(&Node<'_>) -> Parsed<Option<usize>>,
    ) -> Result<Option<u64>> {
        let (mut at, mut level, sizes) = (root, None, source.sizes());
        let guess = to_usize(self.node_len(USUAL, sizes));
        loop {
            let found = source.parse(STRUCTURE, at, guess, |cursor| {
                let node = self.parse(cursor)?;
                check_level(at, node.level, level)?;
                let Some(chosen) = choose(&node)? else { return Ok(None) };
                let mut entries = node.entries;
                let entry = entries.take_rest().chunks_exact(self.entry(sizes)).nth(chosen);
                Ok(Some((child(at, entry.unwrap_or_default(), self.key)?, node.level)))
            })?;
            match found {
                None => return Ok(None),
                Some((child, 0)) => return Ok(Some(child)),
                Some((child, above)) => (at, level) = (child, above.checked_sub(1)),
            }
        }
    }
}

/// The nodes of a new tree, all of them full but the last of each level.
pub(crate) struct NewTree {
    pub root: u64,
    /// The bytes of all nodes, which begin at the given address.
    pub bytes: Vec<u8>,
    /// Bytes of a node.
    pub node: u64,
}

/// The places of nodes of a new tree: one after the other, but none crosses the border of a page.
#[derive(Clone, Copy, Debug)]
struct NodePlaces {
    first: u64,
    len: u64,
    /// Bytes of a page. `None`: the file has no pages.
    page: Option<u64>,
}

impl NodePlaces {
    /// The address of a node, given its number.
    fn address(&self, number: u64) -> u64 {
        let Some(page) = self.page.filter(|page| *page >= self.len) else {
            return self.first.saturating_add(self.len.saturating_mul(number));
        };
        let border = self.first.next_multiple_of(page);
        let before = (border - self.first) / self.len;
        match number.checked_sub(before) {
            None => self.first.saturating_add(self.len.saturating_mul(number)),
            Some(later) => {
                let in_page = page / self.len;
                let at = (later % in_page) * self.len;
                border.saturating_add((later / in_page).saturating_mul(page)).saturating_add(at)
            }
        }
    }
}

impl Tree {
    /// Builds a tree at `address` from its keys and its children: one key before each child, and one
    /// after the last. A node has up to `most` children, and room for `most` of them. `page`: bytes of a
    /// page, in a file with pages.
    pub(crate) fn build(
        self,
        address: u64,
        keys: &[u8],
        children: &[u64],
        most: usize,
        page: Option<u64>,
    ) -> Built<NewTree> {
        let len = self.node_len(most as u64, NEW_SIZES);
        let places = NodePlaces { first: address, len, page };
        // Numbers of nodes: levels follow each other.
        let (mut out, mut done, mut level) = (Output::new(), 0_u64, 0_u8);
        let mut keys: Vec<&[u8]> = keys.chunks_exact(self.key.max(1)).collect();
        let mut children = children.to_vec();
        loop {
            let nodes = children.len().div_ceil(most).max(1);
            let address_of = |number: usize| places.address(done.saturating_add(number as u64));
            let (mut above, mut first_keys) = (Vec::new(), Vec::new());
            for number in 0..nodes {
                let first = number * most;
                let own = children.get(first..children.len().min(first + most)).unwrap_or_default();
                let own_keys = keys.get(first..=first + own.len()).unwrap_or_default();
                out.fill(to_usize(address_of(number).saturating_sub(address)));
                let siblings = [number.checked_sub(1), Some(number + 1).filter(|next| *next < nodes)]
                    .map(|n| n.map(address_of));
                let node = NewNode { level, siblings };
                self.put_node(&mut out, node, &own_keys.concat(), own, most)?;
                above.push(address_of(number));
                first_keys.extend(own_keys.first().copied());
            }
            if let [root] = above[..] {
                return Ok(NewTree { root, bytes: out.take(), node: len });
            }
            first_keys.extend(keys.last().copied());
            done = done.saturating_add(nodes as u64);
            level = level.saturating_add(1);
            (keys, children) = (first_keys, above);
        }
    }
}

/// A node that is built.
pub(crate) struct NewNode {
    pub level: u8,
    /// The addresses of the nodes before and after it.
    pub siblings: [Option<u64>; 2],
}

impl Tree {
    /// Appends a node with these children: one key before each child, and one after the last. The node
    /// has room for `most` children.
    pub(crate) fn put_node(
        self,
        out: &mut Output,
        node: NewNode,
        keys: &[u8],
        children: &[u64],
        most: usize,
    ) -> Built<()> {
        let start = out.len();
        let used = fit(children.len() as u64, "children of a node")?;
        out.bytes(b"TREE").u8(self.kind).u8(node.level).u16(used);
        let [before, after] = node.siblings;
        out.address(before).address(after);
        let mut keys = keys.chunks_exact(self.key.max(1));
        for (child, key) in children.iter().zip(&mut keys) {
            out.bytes(key).u64(*child);
        }
        out.bytes(keys.next().unwrap_or_default());
        out.fill(start + to_usize(self.node_len(most as u64, NEW_SIZES)));
        Ok(())
    }
}

/// Checks that levels descend one by one, so that a walk ends.
fn check_level(at: u64, found: u8, expected: Option<u8>) -> Parsed<()> {
    match expected {
        Some(expected) if expected != found => {
            let why = format!("expected a node of level {expected}, found level {found}");
            Err(ParseError::Corrupt { at, why })
        }
        _ => Ok(()),
    }
}

/// Returns the address after the key of an entry.
fn child(at: u64, entry: &[u8], key: usize) -> Parsed<u64> {
    entry.get(key..).and_then(address).flatten().ok_or_else(|| ParseError::Corrupt {
        at,
        why: "the address of a child is undefined, or does not fit into 64 bits".into(),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::testing::{fails, mutations, says, source, structure};
    use proptest::prelude::*;

    const TREE: Tree = Tree { kind: 0, key: 8 };

    fn walk(source: &Source, root: u64, leaf: &mut dyn FnMut(&mut Cursor<'_>) -> Parsed<()>) -> Result<()> {
        TREE.walk_nodes(source, root, leaf, &mut |_, _| {})
    }

    /// A node with 8-byte addresses. There is one key before each child and one after the last.
    pub(crate) fn node(kind: u8, level: u8, keys: &[Vec<u8>], children: &[u64]) -> Vec<u8> {
        let pairs = keys.iter().zip(children).flat_map(|(key, child)| structure!(key, *child));
        let head = structure!(b"TREE", [kind, level], children.len() as u16, [0xff; 16]);
        structure!(head, pairs.collect::<Vec<u8>>(), keys.last().unwrap())
    }

    fn numbered(level: u8, children: &[u64]) -> Vec<u8> {
        let keys: Vec<_> = (0..=children.len() as u64).map(|key| key.to_le_bytes().to_vec()).collect();
        node(0, level, &keys, children)
    }

    /// A tree of three levels. The root is at 0, the other nodes at multiples of 128.
    fn tree() -> Vec<u8> {
        let nodes = [
            numbered(2, &[128, 256]),
            numbered(1, &[384, 512]),
            numbered(1, &[640]),
            numbered(0, &[1, 2]),
            numbered(0, &[3]),
            numbered(0, &[4, 5, 6]),
        ];
        let mut bytes = Vec::new();
        for node in nodes {
            bytes.resize(bytes.len().next_multiple_of(128), 0);
            bytes.extend(node);
        }
        bytes
    }

    fn children(source: &Source) -> Result<Vec<u64>> {
        let mut found = Vec::new();
        walk(source, 0, &mut |entries| {
            while !entries.is_empty() {
                entries.skip(8)?;
                found.push(entries.u64()?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn walks_in_order() {
        assert_eq!(children(&source(&tree())).unwrap(), [1, 2, 3, 4, 5, 6]);
        assert!(children(&source(&numbered(0, &[]))).unwrap().is_empty());
    }

    #[test]
    fn descends_to_one() {
        // Choose the last entry of each node.
        let last = |node: &Node<'_>| Ok((node.entries.remaining_len() / 16).checked_sub(1));
        assert_eq!(TREE.descend(&source(&tree()), 0, &mut { last }).unwrap(), Some(6));
        assert_eq!(TREE.descend(&source(&tree()), 0, &mut |_| Ok(None)).unwrap(), None);
    }

    #[test]
    fn circles_shared_nodes_and_levels() {
        let wrong = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = tree();
            change(&mut bytes);
            children(&source(&bytes)).unwrap_err().to_string()
        };
        says(wrong(&|bytes| bytes[48..56].copy_from_slice(&128u64.to_le_bytes())), "a second time");
        says(wrong(&|bytes| bytes[32..40].fill(0)), "expected a node of level 1, found level 2");
        says(wrong(&|bytes| bytes[4] = 1), "expected a node of type 0, found type 1");
        says(wrong(&|bytes| bytes[6] = 0xff), "expected at least");
    }

    /// A root whose children overlap. Without a check, each entry would be read thousands of times.
    #[test]
    fn overlapping_nodes_end() {
        let mut leaf = numbered(0, &vec![7; 60_000]);
        // A node begins at every 32nd byte of another node.
        let head: Vec<u8> = leaf[..24].to_vec();
        for at in (24..500_000).step_by(32) {
            leaf[at..at + 24].copy_from_slice(&head);
        }
        let places: Vec<u64> = (0..15_000).map(|n| 1 << 20 | (24 + n * 32)).collect();
        let mut bytes = numbered(1, &places);
        bytes.resize(1 << 20, 0);
        bytes.extend(leaf);
        bytes.resize(bytes.len() + (1 << 20), 0);
        fails(walk(&source(&bytes), 0, &mut |_| Ok(())), "larger than the file");
    }

    #[test]
    fn any_bytes() {
        mutations(&tree(), |source| drop(children(source)));
    }

    /// One request per level, or per 16 nodes that are far apart. The check for interrupts runs in
    /// between.
    #[test]
    fn few_reads() {
        let leaves: Vec<u64> = (1..=50).map(|n| n << 20).collect();
        let mut bytes = numbered(1, &leaves);
        for leaf in &leaves {
            bytes.resize(*leaf as usize, 0);
            bytes.extend(numbered(0, &[*leaf, leaf + 1]));
        }
        let source = source(&bytes);
        assert_eq!(children(&source).unwrap().len(), 100);
        assert_eq!(source.reads(), 1 + 50_u64.div_ceil(16));
    }

    proptest! {
        #[test]
        fn what_is_built_is_parsed(
            count in 0_u64..300,
            most in 2_usize..9,
            start in 0_u64..99,
            page in proptest::option::of(200_u64..900),
        ) {
            let (expected, keys) = ((0..count).map(|n| n * 3).collect::<Vec<u64>>(), 0..=count);
            let keys: Vec<u8> = keys.flat_map(|key| (key * 7).to_le_bytes()).collect();
            let tree = TREE.build(start, &keys, &expected, most, page).unwrap();
            let places = NodePlaces { first: start, len: tree.node, page };
            if let Some(page) = page.filter(|page| *page >= tree.node) {
                for at in (0..300).map(|number| places.address(number)) {
                    prop_assert!(at % page + tree.node <= page || at < start.next_multiple_of(page));
                }
            }
            let source = source(&[vec![0; start as usize], tree.bytes].concat());
            let (mut found, mut found_keys) = (Vec::new(), Vec::new());
            walk(&source, tree.root, &mut |entries| {
                while !entries.is_empty() {
                    found_keys.push(entries.u64()?);
                    found.push(entries.u64()?);
                }
                Ok(())
            }).unwrap();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(found_keys, (0..count).map(|key| key * 7).collect::<Vec<u64>>());
            // From the root down to the child behind a key: keys of inner nodes are right.
            for wanted in (0..count).step_by(17) {
                let mut choose = |node: &Node<'_>| {
                    let all = node.entries.clone().take_rest().chunks_exact(16).map(|entry| {
                        u64::from_le_bytes(entry[..8].try_into().unwrap())
                    });
                    Ok(all.take_while(|key| *key <= wanted * 7).count().checked_sub(1))
                };
                prop_assert_eq!(TREE.descend(&source, tree.root, &mut choose).unwrap(), Some(wanted * 3));
            }
        }
    }
}
