//! State shared by all stores of one archive in this process: members and incomplete changes.
//!
//! An archive has one writer at a time, and its writes are visible in its own process at once.
//! Stores that open one local archive by its path therefore share it. The changes are completed
//! when the last store that made some is dropped, or when any of them is flushed or closed.

use super::archive::Archive;
use super::members::Members;
use super::session::Session;
use crate::fork::{Mutex, RwLock};
use crate::local::canonical;
use crate::{Key, LocalOptions, LocalStore, Operation, Result, Store, StoreError, turns};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The open local archives, by their path without links. Gated.
static OPEN: Mutex<BTreeMap<PathBuf, Weak<Shared>>> = Mutex::new(BTreeMap::new());

/// An archive in use.
#[derive(Debug)]
pub(super) struct Shared {
    /// The archive's store.
    store: Arc<dyn Store>,
    key: String,
    /// Set if the archive is a replaceable local file.
    local: Option<Local>,
    /// Otherwise the archive, which does not change.
    pub(super) fixed: Option<Arc<Archive>>,
    /// Gated.
    pub(super) view: Arc<RwLock<View>>,
    /// The thread that has the turn takes the session out while it works on it. Gated.
    session: Mutex<Option<Session>>,
    /// Number of the turn for changing the archive.
    turn: u64,
    /// Number of live stores that have changed the archive.
    writers: AtomicUsize,
}

#[derive(Debug)]
struct Local {
    directory: PathBuf,
    file_locks: bool,
    fsync: AtomicBool,
}

/// The members that a store shows.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    /// The archive of members that no session has written. `None` if there is none.
    pub(super) archive: Option<Arc<Archive>>,
    pub(super) members: Arc<Members>,
    /// Number of the session that wrote the other members. 0 if there is none.
    pub(super) session: u64,
}

impl Shared {
    /// Opens an archive in another store for reading.
    pub(super) fn of_object(store: Arc<dyn Store>, key: Key<'_>) -> Result<Arc<Shared>> {
        let view = load(&store, key)?;
        if view.archive.is_none() {
            return Err(StoreError::io(&*store, Operation::Read, key.as_str(), io::ErrorKind::NotFound));
        }
        Ok(Arc::new(Shared::new(store, key, None, view)))
    }

    /// Opens an archive on the local disk, which need not exist.
    pub(super) fn of_path(path: &Path, options: LocalOptions) -> Result<Arc<Shared>> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let path = canonical(&absolute);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            let directory = LocalStore::unseen(&path, options)?;
            return Err(StoreError::io(&directory, Operation::Read, "", io::ErrorKind::IsADirectory));
        };
        let directory = LocalStore::unseen(parent, options)?;
        let name = name.to_string_lossy();
        let key = Key::new(&name)?;
        let found = OPEN.lock().get(&path).and_then(Weak::upgrade);
        let shared = match found {
            Some(shared) => {
                shared.refresh()?;
                shared
            }
            None => {
                let store: Arc<dyn Store> = Arc::new(directory);
                let view = load(&store, key)?;
                let local = Local {
                    directory: parent.to_owned(),
                    file_locks: options.file_locks,
                    fsync: AtomicBool::new(false),
                };
                let new = Arc::new(Shared::new(store, key, Some(local), view));
                let mut open = OPEN.lock();
                match open.get(&path).and_then(Weak::upgrade) {
                    // Another thread was faster.
                    Some(shared) => {
                        drop(open);
                        shared
                    }
                    None => {
                        // Remove dead entries.
                        open.retain(|_, shared| shared.strong_count() > 0);
                        open.insert(path, Arc::downgrade(&new));
                        new
                    }
                }
            }
        };
        if let Some(local) = shared.local.as_ref().filter(|_| options.fsync) {
            local.fsync.store(true, Ordering::Relaxed);
        }
        Ok(shared)
    }

    /// All open archives.
    pub(super) fn all() -> Vec<Arc<Shared>> {
        OPEN.lock().values().filter_map(Weak::upgrade).collect()
    }

    fn new(store: Arc<dyn Store>, key: Key<'_>, local: Option<Local>, view: View) -> Shared {
        let fixed = view.archive.clone().filter(|_| local.is_none());
        let view = Arc::new(RwLock::new(view));
        let (key, session) = (key.as_str().to_owned(), Mutex::new(None));
        Shared {
            store,
            key,
            local,
            fixed,
            view,
            session,
            turn: turns::number(),
            writers: AtomicUsize::new(0),
        }
    }

    pub(super) fn add_writer(&self) {
        self.writers.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a writer. Returns whether it was the last one.
    pub(super) fn remove_writer(&self) -> bool {
        self.writers.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// The archive's store and key.
    pub(super) fn place(&self) -> (&dyn Store, Key<'_>) {
        (&*self.store, Key::unchecked(&self.key))
    }

    /// Returns whether the archive can be written.
    pub(super) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    fn take_turn(&self) -> Result<turns::Turn> {
        let refused = |refused| StoreError::refused(refused, &*self.store, &self.key);
        turns::take(self.turn, None).map_err(refused)
    }

    /// Runs `work` on the session. Starts a session if there is none.
    ///
    /// With `make`, the archive must not exist.
    pub(super) fn change<T>(&self, make: bool, work: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
        let _turn = self.take_turn()?;
        let mut session = match self.own_session() {
            Some(session) => session,
            None => self.start(make)?,
        };
        let done = work(&mut session);
        // An unused session would only lock others out.
        if session.is_used() {
            *self.session.lock() = Some(session);
        }
        done
    }

    /// The session, if this process began it. The caller has the turn.
    fn own_session(&self) -> Option<Session> {
        let session = self.session.lock().take()?;
        if session.is_own() {
            return Some(session);
        }
        session.leave();
        None
    }

    fn start(&self, make: bool) -> Result<Session> {
        let (store, key) = self.place();
        let Some(local) = &self.local else {
            return Err(StoreError::read_only(store, Operation::Write, Some(key)));
        };
        if self.view.read().session != 0 {
            // This session is not ours: its members may never be complete.
            self.reload()?;
        }
        let fsync = local.fsync.load(Ordering::Relaxed);
        let options = LocalOptions { fsync, file_locks: local.file_locks };
        let directory = LocalStore::unseen(&local.directory, options)?;
        let base = self.view.read().archive.clone();
        let session = Session::start(directory, key, base, make)?;
        self.view.write().session = session.number;
        Ok(session)
    }

    /// Completes the changes. On failure they are lost, and the archive stays as it was.
    pub(super) fn finish(&self) -> Result<()> {
        if self.session.lock().is_none() {
            return Ok(());
        }
        let _turn = self.take_turn()?;
        let Some(session) = self.own_session() else { return Ok(()) };
        let members = self.view.read().members.clone();
        let finished = session.finish(&members);
        let reloaded = self.reload();
        finished.and(reloaded)
    }

    /// Reloads the archive if it has changed and this process has no changes in progress.
    fn refresh(&self) -> Result<()> {
        if self.session.lock().is_some() {
            return Ok(());
        }
        let _turn = self.take_turn()?;
        let View { archive, session, .. } = self.view.read().clone();
        let current = match archive {
            Some(archive) => archive.is_current(),
            None => !self.store.exists(Key::new(&self.key)?)?,
        };
        if (current && session == 0) || self.session.lock().is_some() { Ok(()) } else { self.reload() }
    }

    fn reload(&self) -> Result<()> {
        let (_, key) = self.place();
        let new = load(&self.store, key)?;
        let old = std::mem::replace(&mut *self.view.write(), new);
        // Freed without the lock.
        drop(old);
        Ok(())
    }
}

/// The members of an archive. Empty if there is none.
fn load(store: &Arc<dyn Store>, key: Key<'_>) -> Result<View> {
    let Some(loaded) = Archive::load(store, key)? else { return Ok(View::default()) };
    let (archive, members) = (Some(Arc::new(loaded.archive)), Arc::new(loaded.members));
    Ok(View { archive, members, session: 0 })
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A session of this process can only hold staged members that were not committed.
        self.own_session();
    }
}
