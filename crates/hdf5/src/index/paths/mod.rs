//! Trees of chunks that are changed by path copies.
//!
//! A flush writes only the nodes that have changed since the last flush, and all nodes above them, at
//! new places. The other nodes stay in their places, and both trees refer to them. A reader of the old
//! tree therefore never sees a change.
//!
//! A tree in memory has the place of each node and its first chunk, and not the chunks. [`plan`]
//! asks for the chunks of changed nodes only.
//!
//! * Version 1: the root has all other nodes below it, and each node has the place behind its last
//!   chunk. Addresses of siblings are undefined: a path copy could not keep them right. The HDF5
//!   library needs none to find, add or remove chunks.
//! * Version 2: the chunk between two nodes is stored in a node above them. Here it counts as the
//!   first item of the right one. The HDF5 library removes chunks rightly only from nodes that are
//!   filled by 40 % or more.

mod encode;
mod read;
mod regroup;
#[cfg(test)]
mod tests;

use super::btrees::{MOST_CHUNKS, NODE};
use crate::output::NEW_SIZES;
use crate::trees::btree2;
use hyperslab_array::Dims;
use regroup::{Group, Limits, regroup};
use std::collections::HashSet;

pub(crate) use read::read;

/// A stored chunk, by place in the grid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkEntry {
    pub place: Dims,
    pub address: u64,
    pub size: u64,
    pub skipped: u32,
}

/// The nodes that a tree has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Version 1, for chunks of this shape.
    One { chunk: Vec<u64> },
    /// Version 2. `width`: the bytes of a chunk's size, if chunks have filters.
    Two { rank: usize, width: Option<usize> },
}

/// A stored node.
#[derive(Clone, Debug, Default)]
struct Node {
    address: u64,
    /// The first chunk. In version 2 a node above stores it, but not for the first node of a level.
    key: ChunkEntry,
    /// Version 1: the place behind the last chunk.
    end: Dims,
    /// Number of chunks or children, with the first chunk.
    len: usize,
    /// Chunks in the node and below it.
    total: u64,
    /// Version 1: the addresses of the nodes before and behind it, as the file has them.
    siblings: [Option<u64>; 2],
}

/// A stored tree.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    form: Form,
    /// The nodes of each level, from the leaves up. The last level has the root only.
    levels: Vec<Vec<Node>>,
    /// Version 2: the address of the header.
    header: u64,
    /// `true` if nodes have the addresses of their siblings, which version 1 wants: the HDF5 library
    /// corrects the keys of siblings when it removes chunks.
    has_siblings: bool,
}

/// A node of the next tree.
#[derive(Debug)]
struct Draft {
    node: Node,
    is_fresh: bool,
    /// `true` if the chunk before the node has changed.
    has_new_key: bool,
    /// The chunks of a fresh leaf.
    chunks: Vec<ChunkEntry>,
    /// The number of the first child of a fresh node.
    first: usize,
}

/// The tree of the next flush, before its nodes have places.
#[derive(Debug)]
pub(crate) struct Plan {
    form: Form,
    levels: Vec<Vec<Draft>>,
    header: Option<u64>,
    replaced: Vec<(u64, u64)>,
}

/// A planned tree that has its places.
#[derive(Debug)]
pub(crate) struct Placed {
    pub tree: Tree,
    /// The bytes of new nodes.
    pub bytes: Vec<u8>,
    /// The address for the data layout. `None`: there are no chunks.
    pub address: Option<u64>,
    /// Nodes of the old tree that are not in the new one.
    pub replaced: Vec<(u64, u64)>,
    /// Places in old nodes that stay, and the new addresses of siblings there. Readers do not use them.
    pub siblings: Vec<(u64, Option<u64>)>,
}

impl Form {
    fn is_version_2(&self) -> bool {
        matches!(self, Form::Two { .. })
    }

    fn limits(&self, level: usize) -> Limits {
        match self {
            Form::One { .. } => {
                let most = MOST_CHUNKS;
                Limits { most, least: most * 2 / 5, least_last: 1, extra: 0, joins: false }
            }
            Form::Two { .. } => {
                let records = self.layout().map_or(1, |layout| layout.most(level));
                let least = (records * 2 / 5).max(1) + 1;
                let extra = usize::from(level == 0);
                Limits { most: records + 1, least, least_last: least, extra, joins: true }
            }
        }
    }

    /// Bytes of a node.
    fn node_len(&self) -> u64 {
        match self {
            Form::One { .. } => self.tree1().node_len(MOST_CHUNKS as u64, NEW_SIZES),
            Form::Two { .. } => NODE.into(),
        }
    }

    /// The layout of version 2 nodes. `None`: a record does not fit into a node.
    fn layout(&self) -> Option<btree2::Tree> {
        let Form::Two { rank, width } = self else { return None };
        let record = 8 + width.map_or(0, |width| width + 4) + 8 * rank;
        let kind = if width.is_some() { 11 } else { 10 };
        btree2::Tree::plan(kind, NODE, u16::try_from(record).ok()?, btree2::DEEPEST, NEW_SIZES)
    }

    /// Returns `true` if a chunk with this number of axes fits into a node.
    pub fn is_possible(&self) -> bool {
        !self.is_version_2() || self.layout().is_some()
    }
}

impl Tree {
    /// The places of all parts of the tree.
    pub fn places(&self) -> Vec<(u64, u64)> {
        let len = self.form.node_len();
        let nodes = self.levels.iter().flatten().map(|node| (node.address, len));
        nodes.chain(self.header_place()).collect()
    }

    fn header_place(&self) -> Option<(u64, u64)> {
        let has_header = self.form.is_version_2() && !self.levels.is_empty();
        has_header.then_some((self.header, btree2::NEW_HEADER))
    }

    /// Number of chunks.
    pub fn len(&self) -> u64 {
        self.levels.last().and_then(|level| level.first()).map_or(0, |root| root.total)
    }
}

/// Returns the chunks from a place on (`None`: from the first one), up to another one (`None`: up to
/// the last one).
pub(crate) type Chunks<'c> = dyn FnMut(Option<&[u64]>, Option<&[u64]>) -> Vec<ChunkEntry> + 'c;

/// Plans the tree of chunks that have changed since `old` was stored. `changed` are their
/// places.
///
/// If there is no old tree of this form, all chunks are new.
pub(crate) fn plan<'p>(
    form: &Form,
    old: Option<&Tree>,
    changed: impl Iterator<Item = &'p [u64]>,
    chunks: &mut Chunks<'_>,
) -> Plan {
    let mut changed = changed.peekable();
    let is_same = changed.peek().is_none();
    let kept = old.filter(|old| old.form == *form && (is_same || form.is_version_2() || old.has_siblings));
    let nodes = kept.and_then(|old| old.levels.first()).map_or(&[][..], |leaves| &leaves[..]);
    let mut changes = vec![Change::default(); nodes.len()];
    for place in changed {
        note_change(form, nodes, &mut changes, place, chunks);
    }
    let mut leaves = leaves_of(form, nodes, &changes, chunks);
    if let Form::One { .. } = form {
        end_leaves(&mut leaves, chunks);
    }
    let (mut levels, mut below) = (Vec::new(), leaves);
    while below.len() > 1 {
        let old = kept.and_then(|old| old.levels.get(levels.len() + 1)).map_or(&[][..], |level| &level[..]);
        let above = parents_of(form, levels.len() + 1, old, &below);
        levels.push(std::mem::replace(&mut below, above));
    }
    if !below.is_empty() {
        levels.push(below);
    }
    let is_fresh = levels.iter().flatten().any(|draft| draft.is_fresh);
    let stays: HashSet<u64> =
        levels.iter().flatten().filter(|draft| !draft.is_fresh).map(|draft| draft.node.address).collect();
    let header = kept.filter(|_| !is_fresh && !levels.is_empty()).map(|old| old.header);
    let is_replaced = |place: &(u64, u64)| !stays.contains(&place.0) && Some(place.0) != header;
    let replaced = old.map_or_else(Vec::new, |old| old.places().into_iter().filter(is_replaced).collect());
    Plan { form: form.clone(), levels, header, replaced }
}

/// The change of a leaf.
#[derive(Clone, Debug, Default)]
struct Change {
    is_changed: bool,
    /// Version 2: the first chunk, which is stored above.
    key: Option<ChunkEntry>,
}

/// Notes that the chunk at a place has changed.
fn note_change(form: &Form, leaves: &[Node], changes: &mut [Change], place: &[u64], chunks: &mut Chunks<'_>) {
    let later = leaves.get(1..).unwrap_or_default();
    let number = later.partition_point(|node| node.key.place[..] <= *place);
    let (Some(leaf), Some(change)) = (leaves.get(number), changes.get_mut(number)) else { return };
    if form.is_version_2() && number > 0 && leaf.key.place[..] == *place {
        // The place behind this one.
        let next: Vec<u64> = place.iter().copied().chain([0]).collect();
        if let Some(key) = chunks(Some(place), Some(&next)).pop() {
            change.key = Some(key);
            return;
        }
    }
    change.is_changed = true;
}

/// Divides chunks among leaves. `old`: the leaves of the old tree.
fn leaves_of(form: &Form, old: &[Node], changes: &[Change], chunks: &mut Chunks<'_>) -> Vec<Draft> {
    let lens = old.iter().zip(changes).map(|(node, change)| (node.len, change.is_changed));
    // One node that has everything is divided.
    let lens: Vec<(usize, bool)> = if old.is_empty() { vec![(0, true)] } else { lens.collect() };
    let groups = regroup(&lens, form.limits(0), |number| {
        let start = old.get(number).filter(|_| number > 0).map(|node| &node.key.place[..]);
        chunks(start, old.get(number + 1).map(|next| &next.key.place[..]))
    });
    let mut drafts: Vec<Draft> = Vec::with_capacity(groups.len());
    for group in groups {
        drafts.push(match group {
            Group::Kept(number, _) => {
                let (mut node, new_key) = (
                    old.get(number).cloned().unwrap_or_default(),
                    changes.get(number).and_then(|change| change.key.clone()),
                );
                let has_new_key = new_key.is_some();
                node.key = new_key.unwrap_or(node.key);
                Draft { node, is_fresh: false, has_new_key, chunks: Vec::new(), first: 0 }
            }
            Group::Fresh(chunks) => {
                let is_first = drafts.is_empty();
                let own = chunks.len() - usize::from(form.is_version_2() && !is_first);
                let key = chunks.first().cloned().unwrap_or_default();
                // Behind the last chunk along each axis.
                let last = chunks.last().map_or(&[][..], |last| &last.place[..]);
                let end = last.iter().map(|at| at.saturating_add(1)).collect();
                let (len, total) = (chunks.len(), own as u64);
                let node = Node { key, end, len, total, ..Node::default() };
                Draft { node, is_fresh: true, has_new_key: true, chunks, first: 0 }
            }
        });
    }
    drafts
}

/// Version 1: a leaf ends where the next one begins.
fn end_leaves(leaves: &mut [Draft], chunks: &mut Chunks<'_>) {
    for number in 1..leaves.len() {
        let (before, from) = leaves.split_at_mut(number);
        let (Some(draft), Some(next)) = (before.last_mut(), from.first()) else { return };
        let end = &next.node.key.place;
        if draft.node.end == *end {
            continue;
        }
        if !draft.is_fresh {
            let start = (number > 1).then_some(&draft.node.key.place[..]);
            draft.chunks = chunks(start, Some(end));
            draft.is_fresh = true;
        }
        draft.node.end = end.clone();
    }
}

/// Divides the nodes of a level among the nodes of the level above. `old`: the upper level of the old
/// tree.
fn parents_of(form: &Form, level: usize, old: &[Node], below: &[Draft]) -> Vec<Draft> {
    let later = old.get(1..).unwrap_or_default();
    let first_of = |node: &Node| below.partition_point(|child| child.node.key.place < node.key.place);
    // The numbers of the first children, as far as there are old nodes.
    let mut starts = vec![0];
    starts.extend(later.iter().map(|node| first_of(node).max(usize::from(!below.is_empty()))));
    starts.push(below.len());
    let children = |parent: usize| match starts.get(parent..parent + 2) {
        Some([start, end]) => *start..*end,
        _ => 0..0,
    };
    let lens = old.iter().enumerate().map(|(number, node)| {
        let own = below.get(children(number)).unwrap_or_default();
        let has_new_key =
            |(at, child): (usize, &Draft)| child.has_new_key && (at > 0 || !form.is_version_2());
        let is_fresh = own.iter().any(|child| child.is_fresh);
        (node.len, is_fresh || own.len() != node.len || own.iter().enumerate().any(has_new_key))
    });
    let lens: Vec<(usize, bool)> = if old.is_empty() { vec![(0, true)] } else { lens.collect() };
    let mut groups = regroup(&lens, form.limits(level), |parent| children(parent).collect::<Vec<usize>>());
    let parent = |group: Group<usize>| {
        let (node, is_fresh, own) = match group {
            Group::Kept(number, _) => (old.get(number).cloned(), false, children(number)),
            Group::Fresh(children) => {
                let first = children.first().copied().unwrap_or_default();
                (None, true, first..first + children.len())
            }
        };
        let first = own.start;
        let own = below.get(own).unwrap_or_default();
        let mut node = node.unwrap_or_else(|| {
            let between = if form.is_version_2() { own.len() as u64 - 1 } else { 0 };
            let total = own.iter().map(|child| child.node.total).sum::<u64>() + between;
            let end = own.last().map_or_else(Dims::new, |last| last.node.end.clone());
            Node { end, len: own.len(), total, ..Node::default() }
        });
        let mut has_new_key = is_fresh;
        if let Some(child) = own.first() {
            node.key = child.node.key.clone();
            has_new_key |= child.has_new_key;
        }
        Draft { node, is_fresh, has_new_key, chunks: Vec::new(), first }
    };
    groups.drain(..).map(parent).collect()
}
