//! Trees that are changed step by step, and read after each step.

use super::*;
use crate::data_layout::ChunkIndexKind;
use crate::index::testing::Dataset;
use crate::index::{BTREE2_NODE, ChunkRecord};
use crate::testing::source;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

const COUNTS: [u64; 2] = [60, 40];

/// A file that has one tree, and the chunks that it should have.
struct Stored {
    form: Form,
    tree: Option<Tree>,
    address: Option<u64>,
    bytes: Vec<u8>,
    chunks: BTreeMap<Dims, ChunkEntry>,
    changed: BTreeMap<Dims, ()>,
    /// Numbers new chunks.
    next: u64,
}

impl Stored {
    fn new(form: Form) -> Stored {
        let (chunks, changed) = (BTreeMap::new(), BTreeMap::new());
        Stored { form, tree: None, address: None, bytes: vec![0; 4096], chunks, changed, next: 1 }
    }

    fn put(&mut self, place: &[u64]) {
        let place = Dims::from_slice(place);
        self.next += 1;
        let entry = match self.form {
            Form::Two { width: None, .. } => ChunkEntry { size: 16, ..ChunkEntry::default() },
            _ => ChunkEntry {
                size: 1 + self.next % 9,
                skipped: (self.next % 2) as u32,
                ..ChunkEntry::default()
            },
        };
        let entry = ChunkEntry { place: place.clone(), address: self.next % 4000, ..entry };
        self.chunks.insert(place.clone(), entry);
        self.changed.insert(place, ());
    }

    fn remove(&mut self, place: &[u64]) {
        self.chunks.remove(place);
        self.changed.insert(Dims::from_slice(place), ());
    }

    fn plan(&self) -> Plan {
        let mut chunks = |from: Option<&[u64]>, to: Option<&[u64]>| {
            let bounds = (
                from.map_or(Bound::Unbounded, Bound::Included),
                to.map_or(Bound::Unbounded, Bound::Excluded),
            );
            self.chunks.range::<[u64], _>(bounds).map(|(_, entry)| entry.clone()).collect()
        };
        let changed = self.changed.keys().map(|place| &place[..]);
        plan(&self.form, self.tree.as_ref(), changed, &mut chunks)
    }

    /// Writes the changed nodes, and returns their bytes.
    fn flush(&mut self) -> u64 {
        let plan = self.plan();
        let (at, len) = (self.bytes.len() as u64, plan.len());
        let placed = plan.place(at).unwrap();
        assert_eq!(placed.bytes.len() as u64, len);
        self.bytes.extend(&placed.bytes);
        for (place, sibling) in &placed.siblings {
            let place = *place as usize;
            self.bytes[place..place + 8].copy_from_slice(&sibling.unwrap_or(u64::MAX).to_le_bytes());
        }
        let new = placed.tree.places();
        let old = self.tree.as_ref().map_or_else(Vec::new, Tree::places);
        for place in &placed.replaced {
            assert!(old.contains(place) && !new.contains(place), "{place:?}");
            // Nobody needs them any more.
            self.bytes[place.0 as usize..(place.0 + place.1) as usize].fill(0xee);
        }
        let kept = old.iter().filter(|place| new.contains(place)).count();
        assert_eq!(kept + placed.replaced.len(), old.len());
        (self.tree, self.address) = (Some(placed.tree), placed.address);
        self.changed.clear();
        self.check();
        len
    }

    fn dataset(&self) -> Dataset {
        let (kind, filtered) = match self.form {
            Form::One { .. } => (ChunkIndexKind::BTree1, true),
            Form::Two { width, .. } => {
                (ChunkIndexKind::BTree2 { node_size: BTREE2_NODE, split: 100, merge: 40 }, width.is_some())
            }
        };
        let shape = COUNTS.map(|n| 2 * n);
        let mut dataset = Dataset::new(kind, &shape, &[None, None], filtered);
        dataset.layout.address = self.address;
        dataset
    }

    fn check(&self) {
        let (dataset, source) = (self.dataset(), source(&self.bytes));
        let number = |place: &Dims| place[0] * COUNTS[1] + place[1];
        let record = |(place, entry): (&Dims, &ChunkEntry)| ChunkRecord {
            number: number(place),
            address: entry.address,
            size: entry.size,
            skipped: entry.skipped,
        };
        let expected: Vec<ChunkRecord> = self.chunks.iter().map(record).collect();
        assert_eq!(dataset.read(&source).unwrap().records, expected);
        assert_eq!(dataset.find_each(&source), expected);
        let tree = self.tree.as_ref().unwrap();
        assert_eq!(tree.len(), expected.len() as u64);
        for (level, nodes) in tree.levels.iter().enumerate() {
            let limits = self.form.limits(level);
            for (number, node) in nodes.iter().enumerate() {
                let weight = node.len + if number == 0 { limits.extra } else { 0 };
                assert!(node.len > 0 && weight <= limits.most, "{level}: {weight}");
                let is_root = level + 1 == tree.levels.len();
                assert!(!limits.joins || is_root || weight >= limits.least, "{level}: {weight}");
            }
        }
        // Another program finds the same nodes.
        let Some(address) = self.address else { return };
        let read = read(&source, &self.form, address, tree.len()).unwrap();
        let read = read.unwrap();
        assert!(read.has_siblings == tree.has_siblings && (self.form.is_version_2() || read.has_siblings));
        {
            let nodes = |tree: &Tree| -> Vec<Vec<(u64, usize, u64, Dims)>> {
                let facts = |(number, node): (usize, &Node)| {
                    let place = if number == 0 { Dims::new() } else { node.key.place.clone() };
                    (node.address, node.len, node.total, place)
                };
                tree.levels.iter().map(|level| level.iter().enumerate().map(facts).collect()).collect()
            };
            assert_eq!((nodes(&read), read.header), (nodes(tree), address));
        }
    }
}

fn forms() -> [Form; 3] {
    let two = |width| Form::Two { rank: 2, width };
    [Form::One { chunk: vec![2, 2] }, two(Some(2)), two(None)]
}

#[derive(Clone, Debug)]
enum Step {
    Append(u64),
    Put(u64, u64, u64),
    Remove(u64, u64, u64),
    Shrink(u64),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = 0..COUNTS[0] * COUNTS[1];
    let step = prop_oneof![
        (1..300_u64).prop_map(Step::Append),
        (number.clone(), 1..60_u64, 1..50_u64).prop_map(|(at, count, by)| Step::Put(at, count, by)),
        (number.clone(), 1..200_u64, 1..20_u64).prop_map(|(at, count, by)| Step::Remove(at, count, by)),
        number.prop_map(Step::Shrink),
        Just(Step::Flush),
        Just(Step::Flush),
    ];
    proptest::collection::vec(step, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn trees_have_the_chunks_of_each_step(steps in steps(), form in 0..3_usize) {
        let mut stored = Stored::new(forms()[form].clone());
        let all = COUNTS[0] * COUNTS[1];
        let place = |number: u64| [number % all / COUNTS[1], number % COUNTS[1]];
        for step in steps {
            match step {
                Step::Append(count) => {
                    let last = stored.chunks.keys().next_back();
                    let next = last.map_or(0, |place| place[0] * COUNTS[1] + place[1] + 1);
                    (next..(next + count).min(all)).for_each(|number| stored.put(&place(number)));
                }
                Step::Put(at, count, by) => (0..count).for_each(|n| stored.put(&place(at + n * by))),
                Step::Remove(at, count, by) => (0..count).for_each(|n| stored.remove(&place(at + n * by))),
                Step::Shrink(from) => (from..all).for_each(|number| stored.remove(&place(number))),
                Step::Flush => drop(stored.flush()),
            }
        }
        stored.flush();
        prop_assert_eq!(stored.plan().len(), 0);
    }
}

/// One chunk more, or a changed one, costs the nodes that lead to it.
#[test]
fn a_change_writes_one_path() {
    for form in forms() {
        let mut stored = Stored::new(form);
        let place = |number: u64| [number / COUNTS[1], number % COUNTS[1]];
        stored.put(&place(0));
        stored.flush();
        (0..1999).for_each(|number| stored.put(&place(number)));
        stored.flush();
        let levels = stored.tree.as_ref().unwrap().levels.len() as u64;
        let node = stored.form.node_len() + 38;
        for number in 1999..2300 {
            stored.put(&place(number));
            let written = stored.flush();
            // A leaf that is full is split, or ends elsewhere.
            assert!(written <= (levels + 2) * node, "{number}: {written}");
        }
        for number in (0..2300).step_by(97) {
            stored.put(&place(number));
            assert!(stored.flush() <= levels * node);
        }
        // Full nodes: a tree that grew step by step is about as small as one that is built at once.
        let leaves = stored.tree.as_ref().unwrap().levels[0].len();
        let most = stored.form.limits(0).most;
        assert!(leaves <= 2300_usize.div_ceil(most) + 1, "{leaves} leaves of {most}");
        (1..2300).rev().for_each(|number| {
            stored.remove(&place(number));
            if number % 50 == 0 {
                stored.flush();
            }
        });
        stored.flush();
        assert_eq!(stored.tree.as_ref().unwrap().places().len(), 1 + usize::from(stored.form.is_version_2()));
        stored.remove(&place(0));
        assert_eq!((stored.flush(), stored.address), (0, None));
    }
}

/// A writer that was killed after a switch has not written the new addresses of siblings.
#[test]
fn nodes_that_disagree_about_siblings_are_written_anew() {
    let mut stored = Stored::new(Form::One { chunk: vec![2, 2] });
    (0..1000).for_each(|number| stored.put(&[number / COUNTS[1], number % COUNTS[1]]));
    stored.flush();
    let nodes = stored.tree.as_ref().unwrap().places().len() as u64;
    let second = stored.tree.as_ref().unwrap().levels[0][1].address as usize;
    stored.bytes[second + 8..second + 16].copy_from_slice(&4000_u64.to_le_bytes());
    let count = stored.chunks.len() as u64;
    let found = read(&source(&stored.bytes), &stored.form, stored.address.unwrap(), count).unwrap().unwrap();
    assert!(!found.has_siblings);
    stored.tree = Some(found);
    // Without a change, nothing is written.
    assert_eq!(stored.plan().len(), 0);
    stored.put(&[0, 0]);
    assert_eq!(stored.flush(), nodes * stored.form.node_len());
}
