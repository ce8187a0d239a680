//! Looks at the destination of a copy in tasks: it is empty, holds the old node, or is occupied.

use super::place::{DOCUMENTS, TaskPlace, get, is_below, prefix};
use super::plan::TaskPlan;
use crate::Result;
use crate::copy::{is_replaceable, resolve_links};
use crate::stores::local_path;

impl TaskPlace {
    /// Fails if the destination is occupied, or if source and destination overlap.
    ///
    /// `there`: the keys at a destination on a server, if they were just listed.
    pub(super) fn check(&self, plan: &TaskPlan, has_begun: bool, there: Option<Vec<String>>) -> Result<()> {
        let one: &[String] = std::slice::from_ref(&plan.source);
        let sources = if plan.sources.is_empty() { one } else { &plan.sources };
        const OVERLAP: &str = "source and destination are one inside the other";
        if self.is_into {
            let is_source = sources.contains(&plan.destination);
            return if is_source { Err(self.in_the_way("it is the source")) } else { Ok(()) };
        }
        let Some(local) = &self.local else {
            let overlap =
                |source: &String| is_below(source, &plan.destination) || is_below(&plan.destination, source);
            if sources.iter().any(overlap) {
                return Err(self.in_the_way(OVERLAP));
            }
            if has_begun {
                return Ok(());
            }
            let there = match there {
                Some(there) => there,
                None => self.list_destination()?.unwrap_or_default(),
            };
            // A run may have been killed right after it claimed the journal, or while it deleted it.
            if there.iter().all(|key| self.is_journal(key)) {
                return Ok(());
            }
            if !plan.overwrite {
                return Err(self.in_the_way("objects are there already; set overwrite to replace them"));
            }
            if !self.has_documents()? {
                return Err(self.in_the_way("the objects there are no array or group; they are not replaced"));
            }
            return Ok(());
        };
        if let Ok(found) = local.target.symlink_metadata() {
            if !plan.overwrite {
                return Err(self.in_the_way("it exists already; set overwrite to replace it"));
            }
            if found.is_symlink() || !is_replaceable(&local.target) {
                return Err(self.in_the_way("it exists and is no array or group; it is not replaced"));
            }
        }
        let target = resolve_links(&local.target);
        for source in sources {
            let Ok(Some(source)) = local_path(source) else { continue };
            let source = resolve_links(&source);
            if source.starts_with(&target) || target.starts_with(&source) {
                return Err(self.in_the_way(OVERLAP));
            }
        }
        Ok(())
    }

    pub(super) fn has_documents(&self) -> Result<bool> {
        for name in DOCUMENTS {
            if get(&*self.store, &self.names.data(name))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The keys at a destination on a server; `None` on disk, or for a region.
    pub(super) fn list_destination(&self) -> Result<Option<Vec<String>>> {
        match self.is_into || !self.is_remote() {
            true => Ok(None),
            false => Ok(Some(self.store.list(prefix(&self.names.base)?)?)),
        }
    }

    /// Returns whether an object belongs to the journal, or to temporary arrays.
    pub(super) fn is_journal(&self, key: &str) -> bool {
        is_below(key, &self.names.work)
    }
}
