//! Changes of links.

use super::Editing;
use super::links::{Links, check_names};
use crate::group::LinkTarget;
use crate::messages::link;
use crate::new_file::group::check_name;
use crate::{Hdf5Error, Node, Result};
use std::sync::Arc;

impl Editing {
    /// Adds a link to a group.
    ///
    /// Fails with [`Hdf5Error::Exists`] if the name is taken, and with [`Hdf5Error::Unstorable`] if
    /// no link can have it.
    ///
    /// If another writer has the file open, the name is in the file at once: two writers must not
    /// give the same name.
    pub fn link(&self, group: u64, name: &str, target: LinkTarget) -> Result<()> {
        if !self.has_others() {
            self.add_link(group, name, target)?;
            return self.flush_if_due();
        }
        self.exclusively(|| {
            self.add_link(group, name, target)?;
            self.flush()
        })
    }

    fn add_link(&self, group: u64, name: &str, target: LinkTarget) -> Result<()> {
        check_name(name).map_err(|why| self.unstorable(group, why))?;
        self.load_links(group)?;
        if let LinkTarget::UserDefined(kind) = target {
            return Err(self
                .file()
                .source()
                .unsupported(format!("making a link of the user-defined type {kind}")));
        }
        if let LinkTarget::Hard(address) = target {
            // The object must exist, and its count goes up before anything refers to it.
            self.count_links(address, 1)?;
        }
        let added = self.update(group, |object| {
            object.links.as_mut().is_some_and(|links| Arc::make_mut(links).add(name, target.clone()))
        });
        if matches!(added, Ok(true)) {
            return Ok(());
        }
        if let LinkTarget::Hard(address) = target {
            self.count_links(address, -1)?;
        }
        added?;
        Err(Hdf5Error::Exists {
            file: self.file().source().name(),
            group: format!("address {group}"),
            name: name.to_owned(),
        })
    }

    /// Removes a link. An object without links is gone at the next flush.
    ///
    /// Fails with [`Hdf5Error::NotFound`]. After an error, the link is still there.
    pub fn unlink(&self, group: u64, name: &str) -> Result<()> {
        self.load_links(group)?;
        let found =
            self.with(group, |object| object.links.as_ref().and_then(|links| links.get(name).cloned()))?;
        let Some(found) = found else { return Err(self.no_link(name)) };
        // An object that is damaged cannot be counted: this fails before the link goes.
        if let LinkTarget::Hard(address) = found.target {
            self.count_links(address, -1)?;
        }
        let removed = self.update(group, |object| {
            let removed = object.links.as_mut().and_then(|links| Arc::make_mut(links).remove(name));
            object.lost_links |= removed.is_some();
            removed
        });
        if matches!(removed, Ok(Some(_))) {
            return self.flush_if_due();
        }
        if let LinkTarget::Hard(address) = found.target {
            self.count_links(address, 1)?;
        }
        removed?;
        Err(self.no_link(name))
    }

    /// Moves a link to another name or group.
    ///
    /// Fails with [`Hdf5Error::NotFound`] or [`Hdf5Error::Exists`].
    pub fn move_link(&self, from: (u64, &str), to: (u64, &str)) -> Result<()> {
        self.load_links(from.0)?;
        let found =
            self.with(from.0, |object| object.links.as_ref().and_then(|links| links.get(from.1).cloned()))?;
        let Some(found) = found else { return Err(self.no_link(from.1)) };
        self.link(to.0, to.1, found.target)?;
        self.unlink(from.0, from.1).inspect_err(|_| {
            // The first error is reported.
            let _ = self.unlink(to.0, to.1);
        })
    }

    fn no_link(&self, name: &str) -> Hdf5Error {
        let why = Some("the group has no such link".into());
        Hdf5Error::NotFound { file: self.file().source().name(), path: name.to_owned(), why }
    }

    /// Loads the links of a group for changes.
    pub(super) fn load_links(&self, group: u64) -> Result<()> {
        while self.edits.links(group).is_none() {
            let epoch = self.epoch();
            let links = self.read_links(group)?;
            self.with(group, |object| {
                // Otherwise another writer has flushed meanwhile.
                if self.epoch() == epoch && object.links.is_none() {
                    object.base.links = Some(links.clone());
                    object.links = Some(links);
                }
            })?;
        }
        Ok(())
    }

    fn read_links(&self, group: u64) -> Result<Arc<Links>> {
        let source = self.file().source();
        let Node::Group(found) = self.file().object_at(group, "")? else {
            return Err(source.invalid(format!("the object at address {group} is not a group")));
        };
        let (links, tracked) = (found.links()?, found.tracks_links()?);
        check_names(&links, &source.name())?;
        if let Some(link) = links.iter().find(|link| matches!(link.target, LinkTarget::UserDefined(_))) {
            return Err(
                source.unsupported(format!("changing a group with the user-defined link '{}'", link.name))
            );
        }
        let is_old = self.with(group, |object| object.message(link::SYMBOL_TABLE_KIND).is_some())?;
        Ok(Arc::new(Links::new(links, tracked, is_old)))
    }
}
