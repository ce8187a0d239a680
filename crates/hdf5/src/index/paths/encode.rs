//! The bytes of new nodes.

use super::{ChunkEntry, Draft, Form, MOST_CHUNKS, Node, Placed, Plan, Tree};
use crate::error::{BuildError, Built};
use crate::output::{Output, fit};
use crate::trees::btree1::{self, NewNode};
use crate::trees::btree2;

/// Offsets in a version 1 node, at which the addresses of its siblings are.
const SIBLINGS: [u64; 2] = [8, 16];

impl Form {
    pub(super) fn tree1(&self) -> btree1::Tree {
        let rank = match self {
            Form::One { chunk } => chunk.len(),
            Form::Two { rank, .. } => *rank,
        };
        btree1::Tree { kind: 1, key: 8 * (rank + 2) }
    }
}

/// Appends the key of a version 1 node: a chunk's size, skipped filters, and first element.
fn put_key(out: &mut Output, size: u64, skipped: u32, place: &[u64], chunk: &[u64]) -> Built<()> {
    out.u32(fit(size, "bytes of a stored chunk")?).u32(skipped);
    for (at, len) in place.iter().zip(chunk) {
        out.u64(at.saturating_mul(*len));
    }
    out.u64(0);
    Ok(())
}

/// Appends the record of a version 2 node.
fn put_record(out: &mut Output, width: Option<usize>, chunk: &ChunkEntry) {
    out.u64(chunk.address);
    if let Some(width) = width {
        out.uint(chunk.size, width).u32(chunk.skipped);
    }
    for at in &chunk.place {
        out.u64(*at);
    }
}

impl Plan {
    /// Bytes of the new nodes. 0: all nodes stay.
    pub fn len(&self) -> u64 {
        let fresh = self.levels.iter().flatten().filter(|draft| draft.is_fresh).count() as u64;
        self.header_at(0).map_or(0, |_| btree2::NEW_HEADER).saturating_add(fresh * self.form.node_len())
    }

    /// The address of a new header behind the nodes, which begin at `at`. `None`: there is none.
    fn header_at(&self, at: u64) -> Option<u64> {
        let fresh = self.levels.iter().flatten().filter(|draft| draft.is_fresh).count() as u64;
        let is_new = self.form.is_version_2() && self.header.is_none() && !self.levels.is_empty();
        is_new.then(|| at.saturating_add(fresh * self.form.node_len()))
    }

    /// Builds the new nodes at an address.
    pub fn place(mut self, at: u64) -> Built<Placed> {
        let (len, new_header) = (self.form.node_len(), self.header_at(at));
        let mut next = at;
        for draft in self.levels.iter_mut().flatten().filter(|draft| draft.is_fresh) {
            draft.node.address = next;
            next = next.saturating_add(len);
        }
        let siblings = self.set_siblings();
        let mut out = Output::new();
        let mut below: &[Draft] = &[];
        for (level, drafts) in self.levels.iter().enumerate() {
            for (number, draft) in drafts.iter().enumerate().filter(|(_, draft)| draft.is_fresh) {
                let children = below.get(draft.first..draft.first + draft.node.len).unwrap_or_default();
                match &self.form {
                    Form::One { chunk } => self.put_node1(&mut out, level, draft, children, chunk)?,
                    Form::Two { width, .. } => {
                        self.put_node2(&mut out, (level, number), draft, children, *width)?;
                    }
                }
            }
            below = drafts;
        }
        let root = self.levels.last().and_then(|level| level.first()).map(|draft| &draft.node);
        let depth = self.levels.len().saturating_sub(1);
        let address = match (&self.form, root) {
            (_, None) => None,
            (Form::One { .. }, Some(root)) => Some(root.address),
            (Form::Two { .. }, Some(root)) => {
                if new_header.is_some() {
                    let own = records_of(root, depth, 0);
                    out.bytes(&self.layout()?.header(depth, root.address, own, root.total)?);
                }
                new_header.or(self.header)
            }
        };
        let header = address.unwrap_or_default();
        let levels = self.levels.into_iter();
        let levels = levels.map(|level| level.into_iter().map(|draft| draft.node).collect()).collect();
        let has_siblings = !self.form.is_version_2();
        let tree = Tree { form: self.form, levels, header, has_siblings };
        Ok(Placed { tree, bytes: out.take(), address, replaced: self.replaced, siblings })
    }

    /// Sets the siblings of all nodes. Returns the changes of nodes that stay.
    fn set_siblings(&mut self) -> Vec<(u64, Option<u64>)> {
        let mut changed = Vec::new();
        if self.form.is_version_2() {
            return changed;
        }
        for level in &mut self.levels {
            let addresses: Vec<u64> = level.iter().map(|draft| draft.node.address).collect();
            let address = |number: Option<usize>| addresses.get(number?).copied();
            for (number, draft) in level.iter_mut().enumerate() {
                let siblings = [address(number.checked_sub(1)), address(number.checked_add(1))];
                let places = SIBLINGS.map(|at| draft.node.address.saturating_add(at));
                let pairs = places.into_iter().zip(siblings).zip(draft.node.siblings);
                let differ = pairs.filter(|((_, new), old)| new != old).map(|(pair, _)| pair);
                changed.extend(differ.filter(|_| !draft.is_fresh));
                draft.node.siblings = siblings;
            }
        }
        changed
    }

    fn layout(&self) -> Built<btree2::Tree> {
        self.form.layout().ok_or_else(|| BuildError("chunks with too many axes for a B-tree".into()))
    }

    fn put_node1(
        &self,
        out: &mut Output,
        level: usize,
        draft: &Draft,
        children: &[Draft],
        chunk: &[u64],
    ) -> Built<()> {
        let (mut keys, mut addresses) = (Output::new(), Vec::new());
        let mut put = |key: &ChunkEntry, address: u64| {
            addresses.push(address);
            put_key(&mut keys, key.size, key.skipped, &key.place, chunk)
        };
        draft.chunks.iter().try_for_each(|own| put(own, own.address))?;
        children.iter().try_for_each(|child| put(&child.node.key, child.node.address))?;
        put_key(&mut keys, 0, 0, &draft.node.end, chunk)?;
        let siblings = draft.node.siblings;
        let node = NewNode { level: fit(level as u64, "levels of a B-tree")?, siblings };
        self.form.tree1().put_node(out, node, &keys.take(), &addresses, MOST_CHUNKS)
    }

    fn put_node2(
        &self,
        out: &mut Output,
        (level, number): (usize, usize),
        draft: &Draft,
        children: &[Draft],
        width: Option<usize>,
    ) -> Built<()> {
        let mut records = Output::new();
        let own = draft.chunks.iter().skip(usize::from(number > 0));
        own.for_each(|chunk| put_record(&mut records, width, chunk));
        children.iter().skip(1).for_each(|child| put_record(&mut records, width, &child.node.key));
        let pointers = children.iter().enumerate().map(|(at, child)| {
            let own = records_of(&child.node, level.saturating_sub(1), draft.first + at);
            (child.node.address, own, child.node.total)
        });
        let pointers: Vec<(u64, u64, u64)> = pointers.collect();
        out.bytes(&self.layout()?.node(level, &records.take(), &pointers));
        Ok(())
    }
}

/// Records that a version 2 node has itself.
fn records_of(node: &Node, level: usize, number: usize) -> u64 {
    (node.len as u64).saturating_sub(u64::from(level > 0 || number > 0))
}
