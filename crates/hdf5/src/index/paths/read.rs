//! The nodes of a tree in a file.

use super::{ChunkEntry, Form, MOST_CHUNKS, Node, Tree};
use crate::trees::btree2;
use crate::{Result, Source};
use hyperslab_array::Dims;

/// Reads which nodes a tree has. `count`: the chunks that it should have.
///
/// `None`: a flush must write it anew. Its nodes have other lengths than ours, or it has chunks that the
/// dataset does not have any more, or they are not sorted.
pub(crate) fn read(source: &Source, form: &Form, address: u64, count: u64) -> Result<Option<Tree>> {
    let levels = match form {
        Form::One { chunk } => version1(source, form, chunk, address)?,
        Form::Two { .. } => version2(source, form, address)?,
    };
    let Some(levels) = levels else { return Ok(None) };
    let has_siblings = !form.is_version_2() && levels.iter().all(|level| has_siblings(level));
    let tree = Tree { form: form.clone(), levels, header: address, has_siblings };
    let is_whole = tree.levels.last().is_some_and(|level| level.len() == 1);
    Ok((is_whole && tree.len() == count && tree.is_sorted()).then_some(tree))
}

/// The number in bytes of a record.
fn number(bytes: Option<&[u8]>) -> u64 {
    bytes.and_then(crate::cursor::number).unwrap_or_default()
}

/// The numbers of eight bytes in bytes of a record.
fn numbers(bytes: Option<&[u8]>) -> impl Iterator<Item = u64> {
    bytes.unwrap_or_default().as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
}

fn version1(source: &Source, form: &Form, chunk: &[u64], root: u64) -> Result<Option<Vec<Vec<Node>>>> {
    let tree = form.tree1();
    let width = tree.entry(source.sizes());
    let place = |key: &[u8]| -> Dims {
        let axes = numbers(key.get(8..)).zip(chunk);
        axes.map(|(at, len)| at.checked_div(*len).unwrap_or_default()).collect()
    };
    let (mut found, mut is_ours): (Vec<(u8, Node)>, bool) = (Vec::new(), true);
    tree.walk_nodes(source, root, &mut |_| Ok(()), &mut |address, node| {
        let bytes = node.entries.clone().take_rest();
        let entries = bytes.chunks_exact(width);
        let len = entries.len();
        is_ours &= len <= MOST_CHUNKS && len > 0;
        is_ours &= node.level > 0 || entries.clone().map(place).is_sorted_by(|one, next| one < next);
        let first = bytes.get(..width).unwrap_or_default();
        let key = ChunkEntry {
            place: place(first),
            size: number(first.get(..4)),
            skipped: u32::try_from(number(first.get(4..8))).unwrap_or_default(),
            address: number(first.get(tree.key..)),
        };
        let (end, total, siblings) = (place(node.last), len as u64, node.siblings);
        found.push((node.level, Node { address, key, end, len, total, siblings }));
    })?;
    Ok(is_ours.then(|| leveled(found, 0)).flatten())
}

fn version2(source: &Source, form: &Form, header: u64) -> Result<Option<Vec<Vec<Node>>>> {
    let (Some(layout), Form::Two { rank, width }) = (form.layout(), form) else { return Ok(None) };
    let Some(nodes) = btree2::outline(source, header, &layout)? else { return Ok(None) };
    let places_at = 8 + width.map_or(0, |width| width + 4);
    let entry = |record: &[u8]| ChunkEntry {
        place: numbers(record.get(places_at..)).take(*rank).collect(),
        address: number(record.get(..8)),
        size: width.map_or(0, |width| number(record.get(8..8 + width))),
        skipped: width
            .map_or(0, |width| u32::try_from(number(record.get(8 + width..places_at))).unwrap_or_default()),
    };
    let record = places_at + 8 * rank;
    let mut is_sorted = true;
    let nodes = nodes.into_iter().map(|node| {
        let own = node.records.chunks_exact(record).map(|record| entry(record).place);
        let key = entry(&node.key);
        is_sorted &= own.clone().next().is_none_or(|first| first > key.place || node.key.is_empty());
        is_sorted &= own.is_sorted_by(|one, next| one < next);
        let own = node.records.len() / record;
        let level = u8::try_from(node.depth).unwrap_or(u8::MAX);
        // The first chunk of a node is stored above.
        let len = own + usize::from(node.depth > 0 || !node.key.is_empty());
        let (end, siblings) = (Dims::new(), [None; 2]);
        (level, Node { address: node.address, key, end, len, total: own as u64, siblings })
    });
    let nodes: Vec<(u8, Node)> = nodes.collect();
    Ok(is_sorted.then(|| leveled(nodes, 1)).flatten())
}

/// Returns `true` if the nodes of a level have the addresses of their siblings.
fn has_siblings(level: &[Node]) -> bool {
    let address = |number: Option<usize>| level.get(number?).map(|node| node.address);
    let expected = |number: usize| [address(number.checked_sub(1)), address(number.checked_add(1))];
    level.iter().enumerate().all(|(number, node)| node.siblings == expected(number))
}

/// Sorts nodes, which come from the root down, into levels. `between`: the chunks between two children.
fn leveled(nodes: Vec<(u8, Node)>, between: u64) -> Option<Vec<Vec<Node>>> {
    let mut levels: Vec<Vec<Node>> = Vec::new();
    for (level, node) in nodes {
        let level = usize::from(level);
        if levels.len() <= level {
            levels.resize(level + 1, Vec::new());
        }
        levels.get_mut(level)?.push(node);
    }
    for level in 1..levels.len() {
        let (below, above) = levels.split_at_mut(level);
        let mut children = below.last()?.iter();
        for node in above.first_mut()? {
            let own = children.as_slice().get(..node.len)?;
            let (first, last) = (own.first()?, own.last()?);
            (node.key, node.end) = (first.key.clone(), last.end.clone());
            node.total = own.iter().map(|child| child.total).sum::<u64>();
            node.total = node.total.saturating_add(between.saturating_mul(node.len as u64 - 1));
            children = children.as_slice().get(node.len..)?.iter();
        }
        if children.len() > 0 {
            return None;
        }
    }
    Some(levels)
}

impl Tree {
    /// Returns `true` if leaves follow each other.
    fn is_sorted(&self) -> bool {
        let leaves = self.levels.first().map_or(&[][..], |leaves| &leaves[..]);
        let ends = leaves.iter().zip(leaves.iter().skip(1));
        let is_version_1 = !self.form.is_version_2();
        ends.into_iter()
            .all(|(one, next)| one.key.place < next.key.place && (!is_version_1 || one.end <= next.key.place))
    }
}
