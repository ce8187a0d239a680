//! Paths of objects by their address, for references: groups are looked into from the root on, as
//! far as needed.

use crate::{File, Group, Hdf5Error, LinkTarget, Result, group};
use std::collections::HashMap;

/// Paths of objects, found from the root in the order of names, as far as anybody asked.
#[derive(Default)]
pub(crate) struct Paths {
    found: HashMap<u64, String>,
    /// Objects to look into, the next one last; `None`: not begun.
    waiting: Option<Vec<(u64, String)>>,
}

impl File {
    /// The first path from the root, groups before later links. `None`: no link leads there.
    pub fn path_of(&self, address: u64) -> Result<Option<String>> {
        let root = self.inner.superblock.root;
        loop {
            // Each step leaves the state complete: a forked child can continue.
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
            // Objects in a broken group have no path. The others keep theirs.
            let below = match self.links_within(object, &path) {
                Err(error @ (Hdf5Error::Store(_) | Hdf5Error::Interrupted { .. })) => return Err(error),
                below => below.unwrap_or_default(),
            };
            let mut paths = self.inner.paths.lock();
            let Paths { found, waiting } = &mut *paths;
            // Another thread may have been faster.
            if let Some(waiting) = waiting
                && waiting.pop_if(|(next, _)| *next == object).is_some()
            {
                found.insert(object, path);
                waiting.extend(below);
            }
        }
    }

    /// Addresses and paths behind the hard links of a group, last first. Other objects: none.
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
