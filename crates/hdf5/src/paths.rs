//! Finds the path of an object from its address, for references. Searches groups from the root, as
//! far as needed.

use crate::{File, Group, Hdf5Error, LinkTarget, Result, group};
use std::collections::HashMap;

/// Paths found so far. The search starts at the root and goes in order of links.
#[derive(Default)]
pub(crate) struct Paths {
    found: HashMap<u64, String>,
    /// Objects to search, the next one last. `None`: the search has not begun.
    waiting: Option<Vec<(u64, String)>>,
}

impl File {
    /// Returns the first path from the root. A group's members come before its later siblings.
    ///
    /// `None`: no hard link leads to the object.
    pub fn path_of(&self, address: u64) -> Result<Option<String>> {
        if self.inner.edits.is_none() {
            return self.search(address);
        }
        // Links may have changed since they were searched.
        if let Some(path) = self.search(address)?
            && self.leads_to(&path, address)?
        {
            return Ok(Some(path));
        }
        let old = std::mem::take(&mut *self.inner.paths.lock());
        drop(old);
        self.search(address)
    }

    /// Returns `true` if the hard links of a path lead to an object.
    fn leads_to(&self, path: &str, address: u64) -> Result<bool> {
        let mut at = self.inner.superblock.root;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            if !self.header(at)?.is_group() {
                return Ok(false);
            }
            let link = Group::new(self.clone(), String::new(), at).link(name)?;
            let Some(LinkTarget::Hard(next)) = link.map(|link| link.target) else { return Ok(false) };
            at = next;
        }
        Ok(at == address)
    }

    fn search(&self, address: u64) -> Result<Option<String>> {
        let root = self.inner.superblock.root;
        loop {
            // Each step leaves the state complete, so that a forked child can continue.
            let next = {
                let mut paths = self.inner.paths.lock();
                let Paths { found, waiting } = &mut *paths;
                if let Some(path) = found.get(&address) {
                    return Ok(Some(path.clone()));
                }
                let waiting = waiting.get_or_insert_with(|| vec![(root, String::new())]);
                while waiting.pop_if(|(object, _)| found.contains_key(object)).is_some() {}
                waiting.last().cloned()
            };
            let Some((object, path)) = next else { return Ok(None) };
            // Objects in a damaged group have no path. All others keep theirs.
            let below = match self.links_within(object, &path) {
                Err(error @ (Hdf5Error::Store(_) | Hdf5Error::Interrupted { .. })) => return Err(error),
                below => below.unwrap_or_default(),
            };
            let mut paths = self.inner.paths.lock();
            let Paths { found, waiting } = &mut *paths;
            // Another thread may have done this step already.
            if let Some(waiting) = waiting
                && waiting.pop_if(|(next, _)| *next == object).is_some()
            {
                found.insert(object, path);
                waiting.extend(below);
            }
        }
    }

    /// Returns addresses and paths of a group's hard links, the last one first. Empty for other
    /// objects.
    fn links_within(&self, object: u64, path: &str) -> Result<Vec<(u64, String)>> {
        if !self.header(object)?.is_group() {
            return Ok(Vec::new());
        }
        let links = Group::new(self.clone(), path.into(), object).links()?;
        let below = links.into_iter().rev().filter_map(|link| match link.target {
            LinkTarget::Hard(object) => Some((object, group::join(path, &link.name))),
            _ => None,
        });
        Ok(below.collect())
    }
}
