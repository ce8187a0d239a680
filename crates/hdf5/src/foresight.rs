//! What will probably be asked next of a file far away.
//!
//! Who opens one of the objects that were listed together, or reads its attributes, or lists what is
//! in it, goes on with the others. So the first one that is not in memory brings the same of the
//! others, in as many rounds as one needs alone ([`rehearsal`](crate::rehearsal)). What the groups of
//! one level list belongs together too: a walk of a hierarchy takes some rounds for each level.

use crate::attribute;
use crate::element::ElementKind;
use crate::group::{Group, Link, LinkTarget};
use crate::rehearsal;
use crate::vlen;
use crate::{Attribute, File, Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Objects that are looked at together.
const TOGETHER: usize = 1024;

/// How long parsers may run ahead. It takes some milliseconds, but objects of damaged files
/// may overlap, so that each of them is as long as the file.
const PATIENCE: Duration = Duration::from_secs(1);

/// Objects of which is known with which others they were listed.
const MOST: usize = 1 << 18;

/// Addresses of objects that were listed together: for each, all of them, and its place there.
#[derive(Default)]
pub(crate) struct Levels(HashMap<u64, (Arc<[u64]>, usize)>);

impl Levels {
    fn add(&mut self, mut level: Vec<u64>) {
        level.truncate(MOST);
        if self.0.len().saturating_add(level.len()) > MOST {
            self.0.clear();
        }
        let level: Arc<[u64]> = level.into();
        self.0.extend(level.iter().enumerate().map(|(place, address)| (*address, (level.clone(), place))));
    }

    /// The object itself, then those around it.
    fn around(&self, address: u64) -> Vec<u64> {
        let mut found = vec![address];
        if let Some((level, place)) = self.0.get(&address) {
            let others = level.chunks(TOGETHER).nth(place / TOGETHER).unwrap_or_default();
            found.extend(others.iter().filter(|other| **other != address));
        }
        found
    }
}

impl File {
    /// Before `work` is done for an object: fetches what that needs, and what it needs of others that
    /// were listed with this one, unless all is in memory. Does nothing if the store is near.
    fn foresee(&self, address: u64, mut work: impl FnMut(u64)) -> Result<()> {
        let source = self.source();
        if !source.is_far() || rehearsal::is_on() || source.rehearse(|| work(address)).is_empty() {
            return Ok(());
        }
        let around = self.inner.levels.lock().around(address);
        source.foresee(|| {
            let begun = Instant::now();
            around.iter().take_while(|_| begun.elapsed() < PATIENCE).for_each(|address| work(*address));
        })
    }

    /// Before an object is opened.
    pub(crate) fn foresee_object(&self, address: u64) -> Result<()> {
        self.foresee(address, |address| drop(self.object_at(address, "")))
    }

    /// Before the attributes of an object are read.
    pub(crate) fn foresee_attributes(&self, address: u64) -> Result<()> {
        self.foresee(address, |address| {
            let found = self.header(address).and_then(|header| attribute::all(self, &header));
            found.into_iter().flatten().for_each(|attribute| drop(behind(&attribute)));
        })
    }

    /// Before the links of a group are read.
    pub(crate) fn foresee_links(&self, address: u64) -> Result<()> {
        self.foresee(address, |address| drop(self.below(address)))
    }

    /// Remembers what was listed together: the links of a group, and those of the groups around it
    /// that are in memory.
    pub(crate) fn note_listed(&self, address: u64, links: &[Link]) {
        if !self.source().is_far() || rehearsal::is_on() {
            return;
        }
        let mut level = hard(links);
        let around = {
            let levels = self.inner.levels.lock();
            if level.iter().all(|address| levels.0.contains_key(address)) {
                return;
            }
            levels.around(address)
        };
        let begun = Instant::now();
        self.source().rehearse(|| {
            for other in around.iter().skip(1) {
                if level.len() < MOST && begun.elapsed() < PATIENCE {
                    level.extend(self.below(*other).unwrap_or_default());
                }
            }
        });
        self.inner.levels.lock().add(level);
    }

    /// The objects that the hard links of a group lead to. Other objects have none.
    fn below(&self, address: u64) -> Result<Vec<u64>> {
        if !self.header(address)?.is_group() {
            return Ok(Vec::new());
        }
        Ok(hard(&Group::new(self.clone(), String::new(), address).links()?))
    }
}

fn hard(links: &[Link]) -> Vec<u64> {
    let address =
        |link: &Link| if let LinkTarget::Hard(address) = link.target { Some(address) } else { None };
    links.iter().filter_map(address).collect()
}

/// Reads the heap collections with the elements of variable length of an attribute.
fn behind(attribute: &Attribute) -> Result<()> {
    let element = attribute.element()?;
    match element.kind {
        ElementKind::VlenString { .. } | ElementKind::Vlen { .. } => {
            let mut addresses = vlen::collections(&attribute.file, &element, &attribute.values()?);
            addresses.sort_unstable();
            addresses.dedup();
            attribute.file.collections(&addresses, true).map(drop)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Levels, MOST, TOGETHER};
    use crate::testing::{
        Builder, FarStore, attribute, changes, contiguous, dataset, elements, hard, link_info, store,
    };
    use crate::{File, FileOptions, Group, Node, Result};
    use std::sync::Arc;

    /// A tree of groups of `width` members, `depth` levels of them, and datasets at the end. What
    /// belongs together is `gap` bytes from everything else.
    fn tree(builder: &mut Builder, width: u64, depth: u32, gap: usize) -> u64 {
        let here: Vec<_> = (0..width)
            .map(|n| match depth {
                0 => {
                    builder.put(&vec![0; gap]);
                    let raw = builder.put(&[1, 0, 2, 0, n as u8, 0]);
                    let messages = [dataset(&[3], contiguous(raw, 6)), vec![attribute()]].concat();
                    hard(&format!("d{n}"), builder.header(&messages))
                }
                _ => hard(&format!("g{n}"), tree(builder, width, depth - 1, gap)),
            })
            .collect();
        builder.put(&vec![0; gap]);
        builder.header(&[&[link_info(false), attribute()], &here[..]].concat())
    }

    fn example(width: u64, depth: u32, gap: usize) -> Vec<u8> {
        let mut builder = Builder::new();
        let root = tree(&mut builder, width, depth, gap);
        builder.finish(root, 2, 0)
    }

    fn open_far(bytes: &[u8]) -> Result<(File, Arc<FarStore>)> {
        let far = FarStore::new(bytes);
        Ok((File::open(far.clone(), "f", FileOptions::default())?, far))
    }

    /// All objects below a group, with their attributes, elements of datasets too.
    fn walk(group: &Group) -> Result<Vec<String>> {
        let mut found = vec![format!("{} {}", group.path(), group.attributes()?.len())];
        for link in group.links()? {
            match group.child(&link.name)? {
                Node::Group(group) => found.extend(walk(&group)?),
                Node::Dataset(dataset) => {
                    let attributes = dataset.attributes()?.len();
                    let shape = dataset.dataspace().shape().to_vec();
                    found.push(format!("{} {attributes} {shape:?}", dataset.path()));
                }
                Node::Datatype(datatype) => found.push(datatype.path),
            }
        }
        Ok(found)
    }

    #[test]
    fn a_walk_takes_rounds_for_levels_not_for_objects() {
        let bytes = example(4, 2, 100_000);
        let near = File::open(store("f", &bytes), "f", FileOptions::default()).unwrap();
        let expected = walk(&near.root().unwrap()).unwrap();
        assert_eq!(expected.len(), 1 + 4 + 16 + 64);
        let (file, far) = open_far(&bytes).unwrap();
        // The signature, and the first page.
        assert_eq!(far.take_rounds(), 2);
        assert_eq!(walk(&file.root().unwrap()).unwrap(), expected);
        // The root, groups, groups in them, datasets.
        assert_eq!(far.take_rounds(), 4);
        assert_eq!(walk(&file.root().unwrap()).unwrap(), expected);
        assert_eq!(far.take_rounds(), 0);
    }

    #[test]
    fn one_object_takes_only_its_own_rounds() {
        let bytes = example(30, 0, 100_000);
        let (file, far) = open_far(&bytes).unwrap();
        let Node::Dataset(dataset) = file.node("d7").unwrap() else { panic!("no dataset") };
        assert_eq!(dataset.attributes().unwrap().len(), 1);
        // Signature, superblock, root, dataset.
        assert_eq!(far.take_rounds(), 4);
        let found = elements(&dataset.layout().unwrap()).unwrap();
        assert_eq!((found, far.take_rounds()), (vec![1, 0, 2, 0, 7, 0], 1));
        // Listed, the others come together.
        let links = file.root().unwrap().links().unwrap();
        assert_eq!((links.len(), far.take_rounds()), (30, 0));
        assert!(file.node("d20").is_ok() && file.node("d3").is_ok());
        assert_eq!(far.take_rounds(), 1);
    }

    /// Whatever is damaged: as it is read near, it is read far away, or is an error.
    #[test]
    fn any_bytes() {
        let bytes = example(2, 1, 0);
        for (at, changed) in changes(&bytes, |byte| [0, 0xff, byte ^ 1, byte ^ 0x80, byte.wrapping_add(1)]) {
            for verify in [true, false] {
                let options = || FileOptions { verify, ..FileOptions::default() };
                let near =
                    File::open(store("f", &changed), "f", options()).and_then(|file| walk(&file.root()?));
                let far =
                    File::open(FarStore::new(&changed), "f", options()).and_then(|file| walk(&file.root()?));
                match (near, far) {
                    (Ok(near), Ok(far)) => assert_eq!(near, far, "byte {at}"),
                    (near, far) => assert_eq!(near.is_err(), far.is_err(), "byte {at}"),
                }
            }
        }
    }

    #[test]
    fn levels_are_bounded() {
        let mut levels = Levels::default();
        levels.add((0..5000).collect());
        let around = levels.around(3000);
        assert_eq!((around.len(), around[0], around[1]), (TOGETHER, 3000, 2048));
        assert_eq!(levels.around(7000), [7000]);
        levels.add((10_000..10_000 + 2 * MOST as u64).collect());
        assert_eq!((levels.0.len(), levels.around(3000)), (MOST, vec![3000]));
    }
}
