//! What all stores of one archive in this process share: the members, and changes that are not
//! complete.
//!
//! An archive has one writer at a time, and what it has written shows in its own process at once.
//! So a local archive that is opened twice is shared, by its path. The changes are completed when
//! the last store that made some is dropped, or one is flushed or closed.

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

/// The local archives that are open, by their path without links. Gated.
static OPEN: Mutex<BTreeMap<PathBuf, Weak<Shared>>> = Mutex::new(BTreeMap::new());

/// An archive in use.
#[derive(Debug)]
pub(super) struct Shared {
    /// Where the archive is.
    store: Arc<dyn Store>,
    key: String,
    /// If it is a file that can be replaced.
    local: Option<Local>,
    /// Otherwise: the archive, which stays.
    pub(super) fixed: Option<Arc<Archive>>,
    /// Gated.
    pub(super) view: Arc<RwLock<View>>,
    /// Taken out by the thread that works with it, whose turn it is. Gated.
    session: Mutex<Option<Session>>,
    /// The number of the turn of changing the archive.
    turn: u64,
    /// Stores that have changed the archive, and are in use.
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
    /// Where those are that no session has written. `None`: there are none.
    pub(super) archive: Option<Arc<Archive>>,
    pub(super) members: Arc<Members>,
    /// The number of the session that has written the others; 0: there are none.
    pub(super) session: u64,
}

impl Shared {
    /// An archive in another store, to be read.
    pub(super) fn of_object(store: Arc<dyn Store>, key: Key<'_>) -> Result<Arc<Shared>> {
        let view = load(&store, key)?;
        if view.archive.is_none() {
            return Err(StoreError::io(&*store, Operation::Read, key.as_str(), io::ErrorKind::NotFound));
        }
        Ok(Arc::new(Shared::new(store, key, None, view)))
    }

    /// An archive on the local disk, which need not exist.
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
                        // Those that are gone make room.
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

    /// Those that are open.
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

    /// Whether it was the last one.
    pub(super) fn remove_writer(&self) -> bool {
        self.writers.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// The store that has the archive, and its key there.
    pub(super) fn place(&self) -> (&dyn Store, Key<'_>) {
        (&*self.store, Key::unchecked(&self.key))
    }

    /// Whether it can be written.
    pub(super) fn is_local(&self) -> bool {
        self.local.is_some()
    }

    fn take_turn(&self) -> Result<turns::Turn> {
        let refused = |refused| StoreError::refused(refused, &*self.store, &self.key);
        turns::take(self.turn, None).map_err(refused)
    }

    /// Does a piece of work on the session, which is begun if there is none. `make`: the archive
    /// must not exist.
    pub(super) fn change<T>(&self, make: bool, work: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
        let _turn = self.take_turn()?;
        let mut session = match self.own_session() {
            Some(session) => session,
            None => self.start(make)?,
        };
        let done = work(&mut session);
        // One that has done nothing would keep others out.
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
            // Of a session that is not ours: its members may never be complete.
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

    /// Completes the changes. If that fails, they are lost, and the archive is as it was before.
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

    /// Shows what is in the archive now, if that has changed and no changes of this process are
    /// under way.
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

/// What is in an archive; nothing if there is none.
fn load(store: &Arc<dyn Store>, key: Key<'_>) -> Result<View> {
    let Some(loaded) = Archive::load(store, key)? else { return Ok(View::default()) };
    let (archive, members) = (Some(Arc::new(loaded.archive)), Arc::new(loaded.members));
    Ok(View { archive, members, session: 0 })
}

impl Drop for Shared {
    fn drop(&mut self) {
        // What is left of this process is only what was staged and not committed.
        self.own_session();
    }
}
