//! Predicts the next reads of metadata when a file is far away.
//!
//! A caller who opens one object of a listing, reads its attributes or lists its members will
//! probably do the same with the other objects. So on the first miss we fetch the same metadata of
//! all objects listed together. This takes as many rounds as one object alone
//! ([`rehearsal`](crate::rehearsal)). Objects listed by the groups of one level count as listed
//! together, so a walk of a hierarchy takes a few rounds per level.

use crate::attribute;
use crate::element::ElementKind;
use crate::group::{Group, Link, LinkTarget};
use crate::rehearsal;
use crate::vlen;
use crate::{Attribute, File, Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of objects that are fetched together.
const TOGETHER: usize = 1024;

/// Time limit for parsers that run ahead. They take a few milliseconds. In damaged files objects
/// may overlap, so that each is as long as the file.
const PATIENCE: Duration = Duration::from_secs(1);

/// Largest number of objects whose listing is remembered.
const MOST: usize = 1 << 18;

/// Addresses of objects that were listed together. Maps an address to its whole list and its place
/// there.
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

    /// Returns the object itself, then its neighbours in the listing.
    fn with_neighbours(&self, address: u64) -> Vec<u64> {
        let mut found = vec![address];
        if let Some((level, place)) = self.0.get(&address) {
            let others = level.chunks(TOGETHER).nth(place / TOGETHER).unwrap_or_default();
            found.extend(others.iter().filter(|other| **other != address));
        }
        found
    }
}

impl File {
    /// Fetches the metadata that `work` will read of an object and its neighbours in the listing.
    ///
    /// Does nothing if the store is near, or if everything that `work` reads of the object is in
    /// memory.
    fn foresee(&self, address: u64, mut work: impl FnMut(u64)) -> Result<()> {
        let source = self.source();
        if !source.prefers_rounds() || rehearsal::is_on() || source.rehearse(|| work(address)).is_empty() {
            return Ok(());
        }
        let around = self.inner.levels.lock().with_neighbours(address);
        source.foresee(|| {
            let begun = Instant::now();
            around.iter().take_while(|_| begun.elapsed() < PATIENCE).for_each(|address| work(*address));
        })
    }

    /// Prefetches metadata. Call before an object is opened.
    pub(crate) fn foresee_object(&self, address: u64) -> Result<()> {
        self.foresee(address, |address| drop(self.object_at(address, "")))
    }

    /// Prefetches metadata. Call before the attributes of an object are read.
    pub(crate) fn foresee_attributes(&self, address: u64) -> Result<()> {
        self.foresee(address, |address| {
            let found = self.header(address).and_then(|header| attribute::read_attributes(self, &header));
            found.into_iter().flatten().for_each(|attribute| drop(read_referenced_heaps(&attribute)));
        })
    }

    /// Prefetches metadata. Call before one attribute of an object is read.
    pub(crate) fn foresee_attribute(&self, address: u64, name: &str) -> Result<()> {
        self.foresee(address, |address| {
            let found = self.header(address).and_then(|it| attribute::read_attribute(self, &it, name));
            found.into_iter().flatten().for_each(|attribute| drop(read_referenced_heaps(&attribute)));
        })
    }

    /// Prefetches metadata. Call before the links of a group are read.
    pub(crate) fn foresee_links(&self, address: u64) -> Result<()> {
        self.foresee(address, |address| drop(self.hard_link_targets(address)))
    }

    /// Remembers which objects were listed together.
    ///
    /// These are the links of this group and of its neighbouring groups, as far as the latter are
    /// in memory.
    pub(crate) fn note_listed(&self, address: u64, links: &[Link]) {
        if !self.source().prefers_rounds() || rehearsal::is_on() {
            return;
        }
        let mut level = hard(links);
        let around = {
            let levels = self.inner.levels.lock();
            if level.iter().all(|address| levels.0.contains_key(address)) {
                return;
            }
            levels.with_neighbours(address)
        };
        let begun = Instant::now();
        self.source().rehearse(|| {
            for other in around.iter().skip(1) {
                if level.len() < MOST && begun.elapsed() < PATIENCE {
                    level.extend(self.hard_link_targets(*other).unwrap_or_default());
                }
            }
        });
        self.inner.levels.lock().add(level);
    }

    /// Returns the targets of a group's hard links. Empty for other objects.
    fn hard_link_targets(&self, address: u64) -> Result<Vec<u64>> {
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

/// Reads the heap collections that an attribute's elements of variable length refer to.
fn read_referenced_heaps(attribute: &Attribute) -> Result<()> {
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
        Builder, FarStore, attribute, changes, contiguous_message, dataset, elements, hard, link_info, store,
    };
    use crate::{File, FileOptions, Group, Node, Result};
    use std::sync::Arc;

    /// A tree of groups, `depth` levels deep, with datasets at the bottom.
    ///
    /// Each group has `width` members. Each object is `gap` bytes away from all others.
    fn tree(builder: &mut Builder, width: u64, depth: u32, gap: usize) -> u64 {
        let here: Vec<_> = (0..width)
            .map(|n| match depth {
                0 => {
                    builder.put(&vec![0; gap]);
                    let raw = builder.put(&[1, 0, 2, 0, n as u8, 0]);
                    let messages = [dataset(&[3], contiguous_message(raw, 6)), vec![attribute()]].concat();
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

    /// Lists all objects below a group. Reads their attributes, and opens datasets.
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
        // One round for the signature, one for the first page.
        assert_eq!(far.take_rounds(), 2);
        assert_eq!(walk(&file.root().unwrap()).unwrap(), expected);
        // One round each for the root, its groups, the groups within, and the datasets.
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
        // After a listing, neighbours are fetched together.
        let links = file.root().unwrap().links().unwrap();
        assert_eq!((links.len(), far.take_rounds()), (30, 0));
        assert!(file.node("d20").is_ok() && file.node("d3").is_ok());
        assert_eq!(far.take_rounds(), 1);
    }

    /// Damaged bytes read the same near and far away, or fail in both cases.
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
        let around = levels.with_neighbours(3000);
        assert_eq!((around.len(), around[0], around[1]), (TOGETHER, 3000, 2048));
        assert_eq!(levels.with_neighbours(7000), [7000]);
        levels.add((10_000..10_000 + 2 * MOST as u64).collect());
        assert_eq!((levels.0.len(), levels.with_neighbours(3000)), (MOST, vec![3000]));
    }
}
