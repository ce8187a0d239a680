//! Walking a hierarchy as it lies in the store.
//!
//! * Hierarchies may have millions of nodes: the caller is asked between nodes whether to go on.
//! * Symbolic links may make circles. A group that is reached again below itself is listed, but not
//!   entered. A group that is linked at several places without a circle is listed at each of them.
//! * A node whose document cannot be read is listed as an array: opening it says what is wrong. The
//!   others can be used all the same.

use crate::node::{self, NodeKind};
use crate::path::join;
use crate::{Format, Group, Result, ZarrError, locked};
use hyperslab_store::{Ask, Identity, Key, Store, StoreError};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// How often one group may be entered through different links. A few groups full of links to each
/// other have more paths than could ever be listed.
const MOST_VISITS: u32 = 2000;

/// A path relative to the group that is walked, and what is there.
pub(crate) type Listed = (String, NodeKind);

/// [`ZarrError::Interrupted`] where the answer is `true`.
pub(crate) fn check(ask: Option<Ask<'_>>) -> Result<()> {
    if ask.is_some_and(|ask| ask()) { Err(ZarrError::Interrupted) } else { Ok(()) }
}

/// A listing that was given up, as [`ZarrError::Interrupted`].
pub(crate) fn stopped(error: StoreError) -> ZarrError {
    match error {
        StoreError::Interrupted { .. } => ZarrError::Interrupted,
        error => error.into(),
    }
}

/// A group under way, and what of it is still to be visited, the next one last.
struct Level {
    identity: Option<Identity>,
    pending: Vec<Listed>,
}

/// All nodes below a group, in the order of [`Group::walk`], by listing the store.
pub(crate) fn stored_nodes(
    group: &Group,
    max_depth: Option<usize>,
    ask: Option<Ask<'_>>,
) -> Result<Vec<Listed>> {
    let mut walk = Walk { group, ask, visits: HashMap::new() };
    let mut found = Vec::new();
    let mut levels = Vec::new();
    if max_depth != Some(0) {
        levels.extend(walk.enter("", &levels)?);
    }
    while let Some(level) = levels.last_mut() {
        let Some((path, kind)) = level.pending.pop() else {
            levels.pop();
            continue;
        };
        if kind == NodeKind::Group && max_depth.is_none_or(|most| levels.len() < most) {
            levels.extend(walk.enter(&path, &levels)?);
        }
        found.push((path, kind));
    }
    Ok(found)
}

struct Walk<'a> {
    group: &'a Group,
    ask: Option<Ask<'a>>,
    visits: HashMap<Identity, u32>,
}

impl Walk<'_> {
    /// Lists a group. `None`: it is one of those above it.
    fn enter(&mut self, below: &str, above: &[Level]) -> Result<Option<Level>> {
        check(self.ask)?;
        let parent = join(self.group.path(), below);
        let prefix = locked::prefix(&parent)?;
        let store = self.group.store();
        let identity = store.identity(prefix)?;
        if let Some(identity) = identity {
            if above.iter().any(|level| level.identity == Some(identity)) {
                return Ok(None);
            }
            let visits = self.visits.entry(identity).or_default();
            *visits += 1;
            if *visits > MOST_VISITS {
                let why = format!(
                    "symbolic links lead to this group in more than {MOST_VISITS} ways; remove some of the links, or list fewer levels"
                );
                return Err(ZarrError::Invalid { path: parent, why });
            }
        }
        let mut pending = Vec::new();
        for entry in store.list_dir(prefix)? {
            check(self.ask)?;
            let path = join(&parent, &entry.name);
            // A file's name may be what no key can be; then it is no node.
            if !entry.is_prefix || Key::new(&path).is_err() {
                continue;
            }
            let kind = listed_kind(store, &path, self.group.format())?;
            pending.extend(kind.map(|kind| (join(below, &entry.name), kind)));
        }
        pending.reverse();
        Ok(Some(Level { identity, pending }))
    }
}

/// What a node is listed as: as an array where its document cannot be read.
pub(crate) fn listed_kind(store: &Arc<dyn Store>, path: &str, format: Format) -> Result<Option<NodeKind>> {
    match node::kind(store, path, format) {
        Err(error) if is_unreadable(&error) => Ok(Some(NodeKind::Array)),
        kind => kind,
    }
}

/// Whether an error is about one node, and does not concern the others.
fn is_unreadable(error: &ZarrError) -> bool {
    match error {
        ZarrError::Metadata { .. } | ZarrError::Unsupported { .. } => true,
        ZarrError::Store(StoreError::TooLarge { .. }) => true,
        ZarrError::Store(error) => error.io_kind() == Some(io::ErrorKind::PermissionDenied),
        _ => false,
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
