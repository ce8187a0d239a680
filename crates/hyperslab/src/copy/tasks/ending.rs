//! The end of a copy in tasks: the old node is deleted, the new one takes its place, the journal goes.

use super::directories;
use super::place::{DELETED_AT_ONCE, DOCUMENTS, MARKS, TaskPlace, get, prefix};
use super::plan::TaskPlan;
use super::steps;
use crate::copy::groups_above;
use crate::workers::share;
use crate::{Error, Key, Result};
use hyperslab_store::{Ask, replace_directory};
use hyperslab_zarr::EnclosingGroups;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Concurrent requests that write metadata.
const AT_ONCE: usize = 16;

fn name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or_default()
}

impl TaskPlace {
    /// On a server, deletes the old node before anything is written, documents first.
    pub(super) fn clear(&self, plan: &TaskPlan, ask: Ask<'_>) -> Result<()> {
        let is_cleared = || get(&*self.store, &self.names.journal("cleared")).map(|found| found.is_some());
        if !self.is_remote() || !plan.overwrite || is_cleared()? {
            return Ok(());
        }
        self.enclosing_groups()?.forget(Some(ask))?;
        let mut old = self.store.list(prefix(&self.names.base)?)?;
        old.retain(|key| !self.is_journal(key));
        let (mut documents, others): (Vec<String>, Vec<String>) =
            old.into_iter().partition(|key| DOCUMENTS.contains(&name(key)));
        documents.sort_by_key(|key| key.matches('/').count());
        self.delete(&documents, false)?;
        self.delete(&others, false)?;
        Ok(self.writing.write(Key::new(&self.names.journal("cleared"))?, &[b"cleared"])?)
    }

    /// Deletes the journal. `listed`: its keys, if this run has just listed them and looked at it.
    pub(super) fn remove_journal(&self, listed: Option<Vec<String>>) -> Result<()> {
        steps::reach("remove_journal")?;
        self.end_writing()?;
        if let Some(local) = &self.local {
            let journal = local.root.join("journal");
            // The mark that all is done is deleted last.
            let base = Some(self.names.base.as_str()).filter(|_| !self.is_into);
            for name in [Some("temporary"), base, Some("old"), Some("journal/done")].into_iter().flatten() {
                directories::remove_tree(&local.root.join(name));
            }
            for name in ["id", "plan.json", "finished"] {
                let path = journal.join(name);
                match std::fs::remove_file(&path) {
                    Err(source)
                        if !matches!(
                            source.kind(),
                            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                        ) =>
                    {
                        return Err(Error::Io { what: "delete", path, source });
                    }
                    _ => {}
                }
            }
            directories::remove_tree(&local.root);
            return Ok(());
        }
        // Delete the marks and `id` after the plan: a copy without a plan is not resumed. All names that
        // are known are deleted, as listings may lag.
        let last = MARKS.into_iter().chain(["id"]).map(|name| self.names.journal(name));
        let last: Vec<String> = last.collect();
        let is_listed = listed.is_some();
        let listed = match listed {
            Some(listed) => listed,
            None => self.store.list(prefix(&self.names.work)?)?,
        };
        if !is_listed && listed.is_empty() && get(&*self.writing, &self.names.journal("id"))?.is_none() {
            // Another run has deleted the journal.
            return Ok(());
        }
        let known: BTreeSet<String> =
            listed.into_iter().chain(self.noted()).chain([self.names.journal("plan.json")]).collect();
        let first: Vec<String> = known.into_iter().filter(|key| !last.contains(key)).collect();
        if first.len() + last.len() <= DELETED_AT_ONCE {
            return self.delete(&[first, last].concat(), is_listed);
        }
        self.delete(&first, false)?;
        self.delete(&last, false)
    }

    /// On a server, deletes objects, unless this run no longer owns the copy.
    ///
    /// The objects were just listed, or nobody else writes them. A run that is suspended between the look
    /// at the journal and a request still deletes the objects of this request.
    pub(super) fn delete(&self, keys: &[String], recent: bool) -> Result<()> {
        steps::reach("delete")?;
        for some in keys.chunks(DELETED_AT_ONCE) {
            self.check_journal(recent)?;
            let some = some.iter().map(|key| Key::new(key)).collect::<Result<Vec<_>, _>>()?;
            self.store.delete_all(&some, None)?;
        }
        Ok(())
    }

    /// Deletes files of late tasks, unless a run is making a copy to this place. `wait`: how long to wait
    /// for another run that has the lock; `None`: the usual time.
    pub(super) fn sweep(&self, wait: Option<Duration>) -> Result<()> {
        let Some(local) = self.local.as_ref().filter(|_| !self.is_into) else { return Ok(()) };
        let lock = match wait {
            Some(wait) => self.lock_for(true, wait)?,
            None => self.lock_out_others(true)?,
        };
        if lock.is_held() && get(&*self.store, &self.names.journal("id"))?.is_none() {
            directories::remove_tree(&local.root);
        }
        Ok(())
    }

    /// Deletes the rest of the journal of a complete copy: a run was killed while it deleted it.
    ///
    /// [`plan`](Self::plan) has found no plan in this journal.
    pub(super) fn remove_leftovers(&self) -> Result<()> {
        if let Some(local) = &self.local {
            return if local.root.exists() { self.sweep(None) } else { Ok(()) };
        }
        if self.store.list(prefix(&self.names.work)?)?.is_empty() {
            return Ok(());
        }
        match self.take_over().and_then(|()| self.remove_journal(None)) {
            // Another run has begun since: the journal belongs to that run.
            Err(error) if error.is_superseded() => Ok(()),
            result => result,
        }
    }

    /// Deletes the temporary arrays of a stage on disk, which no task needs any more.
    pub(super) fn drop_temporary(&self, stage: usize) -> Result<()> {
        let Some(local) = &self.local else { return Ok(()) };
        let aside = local.root.join(format!("dropped-{stage}-{}", self.run));
        {
            let _lock = self.lock_out_others(false)?;
            // A run that resumed may need them: an absent chunk would read as fill values.
            self.check_journal(false)?;
            let _ = std::fs::rename(local.root.join("temporary").join(stage.to_string()), &aside);
        }
        directories::remove_tree(&aside);
        Ok(())
    }

    /// Gives up an unfinished copy: deletes journal, temporary arrays and copied chunks.
    ///
    /// Returns `true` if there was anything to delete. A finished copy stays. Fails if the journal
    /// belongs to another plan.
    pub fn discard(&self, plan: &TaskPlan) -> Result<bool> {
        if self.plan(plan)?.is_none() {
            return self.remove_remains(plan);
        }
        let _lock = self.lock_out_others(false)?;
        self.take_over()?;
        if self.is_remote() && !self.is_into && !self.is_finished()? {
            let mut keys = self.store.list(prefix(&self.names.base)?)?;
            keys.retain(|key| !self.is_journal(key));
            self.delete(&keys, false)?;
        }
        self.remove_journal(None)?;
        Ok(true)
    }

    /// Deletes a journal on this disk that names no copy. Returns `true` if there was one.
    ///
    /// A run was killed while it deleted its journal, or before it had written the plan. The destination
    /// stays as it is. On a server, the next copy deletes such a journal.
    fn remove_remains(&self, plan: &TaskPlan) -> Result<bool> {
        if !self.local.as_ref().is_some_and(|local| local.root.is_dir()) {
            return Ok(false);
        }
        let _lock = self.lock_out_others(true)?;
        // Another run may have begun by now.
        if self.plan(plan)?.is_some() {
            return Ok(false);
        }
        self.remove_journal(None)?;
        Ok(true)
    }

    /// Returns whether the copy is in place and only the journal is left to delete.
    pub(super) fn is_finished(&self) -> Result<bool> {
        let Some(mark) = get(&*self.store, &self.names.journal("finished"))? else { return Ok(false) };
        Ok(match self.local.as_ref().filter(|_| !self.is_into) {
            Some(local) => directories::inode(&local.target).is_some_and(|inode| inode == mark),
            None => true,
        })
    }

    /// Returns whether the metadata at the destination is the metadata of the copy.
    pub(super) fn holds_documents(&self, plan: &TaskPlan) -> Result<bool> {
        if self.is_into || self.local.as_ref().is_some_and(|local| !local.target.is_dir()) {
            return Ok(false);
        }
        let there = self.at_destination()?;
        for (key, text) in &plan.documents {
            if get(&*there.store, &there.names.data(key))?.as_deref() != Some(text.as_bytes()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The groups above the destination that have consolidated metadata.
    pub(super) fn enclosing_groups(&self) -> Result<EnclosingGroups> {
        groups_above(&self.destination, "", self.fsync, &self.storage)
    }

    /// Writes the metadata, and moves the copy to its place.
    ///
    /// `is_noted`: this process has written all of the journal, so its keys need no listing.
    pub(super) fn finish(&self, plan: &TaskPlan, is_noted: bool, ask: Ask<'_>) -> Result<()> {
        steps::reach("finish")?;
        let look = || {
            let found = self.enclosing_groups()?;
            found.forget(None)?;
            Ok::<_, Error>(found)
        };
        let above = std::thread::scope(|scope| {
            let mut looking = (!self.is_into).then(|| scope.spawn(look));
            let mut above = None;
            let mut join = || match looking.take() {
                Some(looking) => {
                    looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map(Some)
                }
                None => Ok(None),
            };
            // Not a recent look: metadata must not appear while another run goes on.
            self.check_journal(false)?;
            if !self.is_into {
                if plan.overwrite {
                    // Nobody may read the new chunks by an old description.
                    above = join()?;
                }
                self.write_documents(plan, ask)?;
                if !plan.overwrite {
                    above = join()?;
                }
            }
            Ok::<_, Error>(above)
        })?;
        let _lock = self.lock_out_others(false)?;
        let mut listed = None;
        match &self.local {
            None => listed = Some(self.mark_finished(is_noted)?),
            Some(local) => {
                self.check_journal(false)?;
                self.end_writing()?;
                match self.is_into {
                    true => self.store.write(Key::new(&self.names.journal("finished"))?, &[b"finished"])?,
                    false => self.move_to(&local.target, &local.root, plan.overwrite)?,
                }
            }
        }
        if let Some(above) = above {
            above.renew(Some(ask))?;
        }
        self.remove_journal(listed)
    }

    /// Writes groups after their members, and `.zarray` and `.zgroup` after `.zattrs`.
    fn write_documents(&self, plan: &TaskPlan, ask: Ask<'_>) -> Result<()> {
        let order = |key: &str| (key.matches('/').count(), key.ends_with(".zattrs"));
        for same in plan.documents.chunk_by(|(one, _), (other, _)| order(one) == order(other)) {
            share(same.len() as u64, AT_ONCE, ask, &|| {}, &|number, _| {
                let number = usize::try_from(number).unwrap_or(usize::MAX);
                let Some((key, text)) = same.get(number) else { return Ok(()) };
                Ok(self.writing.write(Key::new(&self.names.data(key))?, &[text.as_bytes()])?)
            })?;
        }
        Ok(())
    }

    /// On a server, writes the mark that all is done. Returns the keys of the journal.
    fn mark_finished(&self, is_noted: bool) -> Result<Vec<String>> {
        // The keys to delete are listed meanwhile: the listing need not show the mark.
        std::thread::scope(|scope| {
            let list = || Ok::<_, Error>(self.store.list(prefix(&self.names.work)?)?);
            let listing = (!is_noted).then(|| scope.spawn(list));
            // A run that finds the mark relies on the metadata: this look proves that it was in time.
            self.check_journal(false)?;
            self.writing.write(Key::new(&self.names.journal("finished"))?, &[b"finished"])?;
            match listing {
                Some(listing) => listing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                None => Ok(Vec::new()),
            }
        })
    }

    fn move_to(&self, target: &Path, root: &Path, overwrite: bool) -> Result<()> {
        let new = root.join(&self.names.base);
        // Record the identity of the copy's directory. If it is at the destination, all is done.
        let inode = directories::inode(&new).unwrap_or_default();
        self.store.write(Key::new(&self.names.journal("finished"))?, &[&inode])?;
        steps::reach("move")?;
        let moved = match overwrite && target.is_dir() {
            true => replace_directory(&new, target, &root.join("old")),
            false => std::fs::rename(&new, target),
        };
        moved.map_err(|error| Error::InTheWay {
            place: target.display().to_string(),
            why: format!("the finished copy cannot take its place: {error}"),
        })?;
        if self.fsync {
            let parent = target.parent().unwrap_or(Path::new("/"));
            let failed = |source| Error::Io { what: "flush", path: parent.to_owned(), source };
            directories::flush(parent).map_err(failed)?;
        }
        steps::reach("moved")
    }
}
