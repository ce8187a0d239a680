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
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// Objects that are looked at together.
const TOGETHER: usize = 1024;

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
        source.foresee(|| around.iter().for_each(|address| work(*address)))
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
            if level.first().is_none_or(|first| levels.0.contains_key(first)) {
                return;
            }
            levels.around(address)
        };
        let others = RefCell::new(Vec::new());
        let look = || {
            let below = around.iter().skip(1).filter_map(|address| self.below(*address).ok());
            below.take_while(|_| others.borrow().len() < MOST).for_each(|below| others.borrow_mut().extend(below));
        };
        self.source().rehearse(look);
        level.extend(others.into_inner());
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
    let address = |link: &Link| if let LinkTarget::Hard(address) = link.target { Some(address) } else { None };
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
