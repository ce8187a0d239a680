//! The place of a copy while a plan makes it, and its journal: see [`super`].
//!
//! **Ownership.** Each run of a plan has a random number. The journal's object `id` holds the number of
//! the plan and of the run that makes the copy. A run that resumes writes its own number there. The
//! previous run may still be alive: stopped, or on a machine that was cut off. It then finds another
//! number or no journal, and stops. Runs check `id` before each range of tasks, before they delete temporary
//! arrays, and before they move the copy to its place.
//!
//! **Fence.** A run may be stopped in the middle of a task, after its last check. Tasks therefore write
//! to `writing`, a store with a fence (see `fence.rs`). On disk, a run makes its files in its own folder
//! `writing-…` and renames them from there. A run that takes over or finishes deletes this folder, so
//! later renames by the old run fail. On a server, each write has a condition: the object must be as it
//! was when `id` still named the run.
//!
//! **Lock.** On disk, a run checks and acts under a lock of the directory `journal`, so that no other
//! run comes in between. Servers and some shared file systems have no such lock. There, a run that is
//! stopped exactly between check and act goes unnoticed.

use super::directories::{self, DirectoryLock};
use super::plan::TaskPlan;
use super::ranges::Names;
use super::source::copy_storage;
use super::steps;
use crate::copy::{fenced, join_path};
use crate::stores::{Reached, StoreOptions, local_path, reach, takes_options};
use crate::{Error, Key, LocalOptions, LocalStore, Result, Store};
use hyperslab_store::Expected;
use hyperslab_store::fork::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The end of the names of directories with unfinished copies.
const SUFFIX: &str = ".hyperslab-copy";

/// Names of the metadata documents of arrays and groups.
pub(super) const DOCUMENTS: [&str; 5] = ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"];

/// Objects that a server deletes with one request.
pub(super) const DELETED_AT_ONCE: usize = 1000;

/// Time after a look at the journal (or after taking over) in which a step need not look again.
const RECENT: Duration = Duration::from_secs(1);

/// Prefix of the folders in which runs make their files.
const WRITING: &str = "writing-";

/// Objects in the journal of a server that say how far a run has come.
pub(super) const MARKS: [&str; 2] = ["cleared", "finished"];

/// Server options that enable caches. A run must see what other runs write.
const CACHES: [&str; 3] = ["cache", "cache_size", "cache_check"];

/// A directory in which a copy is made.
#[derive(Clone, Debug)]
pub(super) struct LocalPlace {
    pub(super) target: PathBuf,
    /// The directory of the unfinished copy.
    pub(super) root: PathBuf,
    /// The folder of this run. Made only by a run that begins or takes over.
    folder: PathBuf,
}

/// Facts about the journal that this run has read or written.
#[derive(Debug, Default)]
struct Known {
    /// The contents of `id` when [`TaskPlace::plan`] read it.
    seen: Option<Vec<u8>>,
    /// When this run last wrote or found its number there.
    looked: Option<Instant>,
    /// Keys of records, which a listing may not show yet.
    noted: BTreeSet<String>,
}

/// A destination while the copy to it is made.
#[derive(Debug)]
pub struct TaskPlace {
    pub(super) names: Names,
    pub(super) store: Arc<dyn Store>,
    /// Tasks write to this store.
    pub(super) writing: Arc<dyn Store>,
    pub(super) local: Option<LocalPlace>,
    pub(super) destination: String,
    pub(super) storage: Vec<(String, String)>,
    pub(super) is_into: bool,
    pub(super) fsync: bool,
    /// The number of the run.
    pub(super) run: String,
    claim: Vec<u8>,
    /// How long a run waits for another run that holds the lock. The lock is held for a few renames, and
    /// at the end while files are deleted. A run stopped there holds it until its process ends.
    wait: Duration,
    known: Mutex<Known>,
}

/// How to reach a destination.
#[derive(Clone, Debug)]
pub struct PlaceOptions {
    /// Settings of the server.
    pub storage: Vec<(String, String)>,
    /// `true`: flush everything to disk.
    pub fsync: bool,
    /// How long to wait for another run that is moving the copy to its place.
    pub wait: Duration,
}

impl Default for PlaceOptions {
    fn default() -> Self {
        PlaceOptions { storage: Vec::new(), fsync: false, wait: Duration::from_secs(10) }
    }
}

/// A random number, as text.
pub(super) fn fresh_number() -> String {
    // The system provides the keys of `RandomState` once per thread. A forked child inherits its
    // parent's keys, but has another process ID and a later time.
    let number = || RandomState::new().hash_one((std::process::id(), SystemTime::now()));
    format!("{:016x}", number())
}

/// A prefix; `None` for the root.
pub(super) fn prefix(path: &str) -> Result<Option<Key<'_>>> {
    Ok(if path.is_empty() { None } else { Some(Key::new(path)?) })
}

pub(super) fn is_below(path: &str, above: &str) -> bool {
    let above = above.trim_end_matches('/');
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

pub(super) fn get(store: &dyn Store, key: &str) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    Ok(store.read_all(Key::new(key)?, &mut bytes, usize::MAX)?.then_some(bytes))
}

/// Replaces an object if it holds `old` (`None`: if it does not exist).
///
/// On a server without conditional writes, compares first and then replaces.
fn swap(store: &dyn Store, key: &str, old: Option<&[u8]>, new: &[u8]) -> Result<bool> {
    let key = Key::new(key)?;
    let swapped = match old {
        None => store.write_new(key, &[new]),
        Some(old) => {
            let Some(object) = store.open(key, None)? else { return Ok(false) };
            if object.size() != old.len() as u64 {
                return Ok(false);
            }
            let mut found = vec![0; old.len()];
            object.read_ranges(&mut [hyperslab_store::RangeRead { offset: 0, buf: &mut found }])?;
            if found != old {
                return Ok(false);
            }
            store.swap(key, Expected::Same(&*object), &[new], None)
        }
    };
    match swapped {
        // The settings refuse unconditional replacement on this server. That only concerns chunks.
        Err(error) if error.io_kind() == Some(ErrorKind::Unsupported) => {
            Ok(store.write(key, &[new]).map(|()| true)?)
        }
        swapped => Ok(swapped?),
    }
}

impl TaskPlace {
    /// The place of a plan. `run`: the number of the run; `None`: a new number.
    pub fn of(plan: &TaskPlan, run: Option<String>, options: &PlaceOptions) -> Result<TaskPlace> {
        TaskPlace::new(plan.id(), &plan.destination, plan.is_into, run, options)
    }

    /// The place of the plan with this identifier, as workers reach it.
    pub fn new(
        id: &str,
        destination: &str,
        is_into: bool,
        run: Option<String>,
        options: &PlaceOptions,
    ) -> Result<TaskPlace> {
        let run = run.unwrap_or_else(fresh_number);
        let claim = format!("{id} {run}").into_bytes();
        let mut storage = options.storage.clone();
        let (names, store, local);
        if takes_options(destination) {
            storage.retain(|(name, _)| !CACHES.contains(&name.as_str()));
            let wanted = copy_storage(destination, &storage);
            let reached = reach(destination, StoreOptions { storage: &wanted, ..StoreOptions::default() })?;
            let Reached { store: found, path: base, .. } = reached;
            names = Names { work: join_path(&base, SUFFIX), base };
            (store, local) = (found, None);
        } else {
            let target = local_path(destination)?.unwrap_or_else(|| PathBuf::from(destination));
            let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let root = target.with_file_name(format!(".{name}{SUFFIX}"));
            let folder = root.join(format!("{WRITING}{run}"));
            let in_store = |path: &Path| {
                let options = LocalOptions { fsync: options.fsync, ..LocalOptions::default() };
                LocalStore::unseen(path, options)
            };
            let made: LocalStore;
            if is_into {
                // Chunks and journal are in one store.
                names = Names { work: format!(".{name}{SUFFIX}"), base: name };
                made = in_store(target.parent().unwrap_or(Path::new("/")))?;
            } else {
                // Each plan has its own folder, so a late worker of another plan does no harm.
                let short = id.get(..16).unwrap_or(id);
                names = Names { base: format!("new-{short}"), work: String::new() };
                made = in_store(&root)?;
            }
            store = Arc::new(made) as Arc<dyn Store>;
            local = Some(LocalPlace { target, root, folder });
        }
        let folder = local.as_ref().map(|local| local.folder.as_path());
        let writing = fenced(&store, folder, &names.journal("id"), &claim)?;
        Ok(TaskPlace {
            names,
            store,
            writing,
            local,
            destination: destination.to_owned(),
            storage,
            is_into,
            fsync: options.fsync,
            run,
            claim,
            wait: options.wait,
            known: Mutex::new(Known::default()),
        })
    }

    /// The number of the run.
    pub fn run_number(&self) -> &str {
        &self.run
    }

    /// Paths in the store.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The store to which tasks write.
    pub fn writing(&self) -> &Arc<dyn Store> {
        &self.writing
    }

    /// Returns whether the destination is on a server.
    pub(super) fn is_remote(&self) -> bool {
        self.local.is_none()
    }

    /// This place as it is once the copy is finished.
    pub fn at_destination(&self) -> Result<TaskPlace> {
        let (mut names, mut store) = (self.names.clone(), self.store.clone());
        if let Some(local) = self.local.as_ref().filter(|_| !self.is_into) {
            names.base = String::new();
            store = Arc::new(LocalStore::unseen(&local.target, LocalOptions::default())?);
        }
        Ok(TaskPlace {
            writing: store.clone(),
            names,
            store,
            local: self.local.clone(),
            destination: self.destination.clone(),
            storage: self.storage.clone(),
            is_into: self.is_into,
            fsync: self.fsync,
            run: self.run.clone(),
            claim: self.claim.clone(),
            wait: self.wait,
            known: Mutex::new(Known::default()),
        })
    }

    pub(super) fn in_the_way(&self, why: impl Into<String>) -> Error {
        Error::InTheWay { place: self.destination.clone(), why: why.into() }
    }

    fn superseded(&self, why: &str) -> Error {
        Error::Superseded { place: self.named(), why: why.into() }
    }

    /// The directory or prefix of the unfinished copy, for messages.
    fn named(&self) -> String {
        match &self.local {
            Some(local) => local.root.display().to_string(),
            None => format!("{}/{}", self.store.url(), self.names.work),
        }
    }

    // -- the journal

    /// The plan in the journal. Fails if it is the plan of another copy.
    pub fn plan(&self, wanted: &TaskPlan) -> Result<Option<TaskPlan>> {
        steps::reach("plan")?;
        let id = get(&*self.store, &self.names.journal("id"))?;
        self.known.lock().seen.clone_from(&id);
        let Some(id) = id else { return steps::reach("planned").map(|()| None) };
        let text = get(&*self.store, &self.names.journal("plan.json"))?;
        let Some(text) = text else { return steps::reach("planned").map(|()| None) };
        let found = str::from_utf8(&text).map_err(|_| Error::Options("no plan of a copy: no text".into()));
        let found = found.and_then(TaskPlan::from_json);
        if first_word(&id) != wanted.id().as_bytes() {
            let difference = match found {
                Ok(found) => wanted.difference(&found),
                Err(why) => why.to_string(),
            };
            return Err(self.in_the_way(format!(
                "the journal beside it is that of another copy ({difference}). Make that plan again and go on, \
                 or delete {}",
                self.named()
            )));
        }
        let found = found?;
        steps::reach("planned")?;
        Ok(Some(found))
    }

    /// Makes the journal of a new copy. `is_clean`: a listing showed no journal.
    ///
    /// Fails if the destination is occupied by now.
    pub(super) fn begin(&self, plan: &TaskPlan, is_clean: bool) -> Result<()> {
        steps::reach("begin")?;
        let (mut there, is_ours) = (None, self.claim_new(plan, is_clean)?);
        let is_ours = match is_ours {
            Claimed::OnDisk => false,
            Claimed::OnServer { listed, is_ours } => {
                there = Some(listed);
                is_ours
            }
        };
        if plan.overwrite {
            return Ok(());
        }
        // Another run may have begun and finished the copy before this one began.
        if is_ours && there.as_ref().is_some_and(|there| !there.is_empty()) && !self.has_documents()? {
            there = Some(Vec::new());
        }
        self.check(plan, false, there).or_else(|error| {
            if is_in_the_way(&error) {
                self.remove_journal(None)?;
            }
            Err(error)
        })
    }

    fn claim_new(&self, plan: &TaskPlan, is_clean: bool) -> Result<Claimed> {
        let _lock = self.lock_out_others(true)?;
        let (name, text) = (self.names.journal("plan.json"), plan.to_json()?.into_bytes());
        if let Some(local) = &self.local {
            if self.plan(plan)?.is_some() {
                return Err(self.in_the_way("another run has just begun a copy to it"));
            }
            let journal = local.root.join("journal");
            if journal.is_dir() {
                // Delete what a late worker left. Keep the directory: it has the lock.
                for left in entries(&local.root).chain(entries(&journal)).filter(|left| *left != journal) {
                    match left.is_dir() {
                        true => directories::remove_tree(&left),
                        false => drop(std::fs::remove_file(&left)),
                    }
                }
                self.known.lock().seen = None;
            }
            self.take_over()?;
            self.writing.write(Key::new(&name)?, &[&text])?;
            return Ok(Claimed::OnDisk);
        }
        // On a server, `take_over` fails if another run began since the last call of `plan`.
        let seen = self.known.lock().seen.clone();
        let is_taken = seen.is_some();
        // A run of this copy was about to begin. Until it was superseded it may have written chunks.
        let is_ours = seen.is_some_and(|seen| first_word(&seen) == plan.id().as_bytes());
        self.take_over()?;
        let is_written = is_clean && !is_taken;
        let below = if plan.overwrite || plan.is_into { &self.names.work } else { &self.names.base };
        let write = || Ok::<(), Error>(self.writing.write(Key::new(&name)?, &[&text])?);
        let listed = std::thread::scope(|scope| {
            // Marks of an earlier run must not meet the new plan: a later run would believe them.
            let writing = is_written.then(|| scope.spawn(write));
            let listed = self.store.list(prefix(below)?);
            if let Some(writing) = writing {
                writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok::<_, Error>(listed?)
        })?;
        // Another run may have been killed while it deleted its journal. A listing that lags may lack
        // the marks.
        let id = self.names.journal("id");
        let mut rest: BTreeSet<String> = listed
            .iter()
            .filter(|key| self.is_journal(key) && **key != id && **key != name)
            .cloned()
            .collect();
        if !rest.is_empty() || is_taken {
            rest.extend(MARKS.map(|mark| self.names.journal(mark)));
        }
        self.delete(&Vec::from_iter(rest), false)?;
        if !is_written {
            write()?;
        }
        Ok(Claimed::OnServer { listed, is_ours })
    }

    /// Makes this run the owner of the copy. The previous run can no longer write.
    ///
    /// Fails if another run took over since [`plan`](Self::plan) read the journal: that run keeps the
    /// copy.
    pub(super) fn take_over(&self) -> Result<()> {
        steps::reach("take_over")?;
        // On a server through the fence, which then has looked at the claim.
        let store = if self.is_remote() { &self.writing } else { &self.store };
        let (looked, seen) = (Instant::now(), self.known.lock().seen.clone());
        if !swap(&**store, &self.names.journal("id"), seen.as_deref(), &self.claim)? {
            return Err(
                self.superseded("another run has begun, resumed or finished the copy at the same time")
            );
        }
        {
            let mut known = self.known.lock();
            (known.seen, known.looked) = (Some(self.claim.clone()), Some(looked));
        }
        self.end_writing()?;
        if let Some(local) = &self.local {
            // Without a lock, another run may have finished by now. Tasks then find no folder.
            match std::fs::create_dir(&local.folder) {
                Err(source) if source.kind() != ErrorKind::NotFound => {
                    return Err(Error::Io { what: "make", path: local.folder.clone(), source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Prevents tasks of all runs on this disk from putting more objects in place.
    ///
    /// On a server, changing or deleting `id` does that.
    pub(super) fn end_writing(&self) -> Result<()> {
        let Some(local) = &self.local else { return Ok(()) };
        let is_writing = |path: &PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(WRITING))
        };
        for folder in entries(&local.root).filter(is_writing) {
            // Renaming the folder invalidates all file names in it at once. Deleting takes longer.
            let ended = folder.with_file_name(format!("ended-{}", fresh_number()));
            match std::fs::rename(&folder, &ended) {
                Ok(()) => directories::remove_tree(&ended),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(Error::InTheWay {
                        place: folder.display().to_string(),
                        why: format!("tasks that write there cannot be ended: {error}"),
                    });
                }
            }
        }
        Ok(())
    }

    /// Fails if this run no longer owns the copy.
    ///
    /// A process that seemed dead may come back after another run has resumed or finished. `recent`: on
    /// a server, a step right after a look need not look again. Its writes pass the fence.
    pub fn check_journal(&self, recent: bool) -> Result<()> {
        let now = Instant::now();
        let is_recent = |looked: Instant| now.saturating_duration_since(looked) < RECENT;
        if recent && self.is_remote() && self.known.lock().looked.is_some_and(is_recent) {
            return Ok(());
        }
        // Through the fence, which then need not look itself.
        let found = get(&*self.writing, &self.names.journal("id"))?;
        match found {
            Some(found) if found == self.claim => {
                self.known.lock().looked = Some(now);
                Ok(())
            }
            None => Err(self
                .superseded("there is no journal of this copy: it was finished or given up by another run")),
            Some(found) if first_word(&found) == first_word(&self.claim) => {
                Err(self.superseded("another run has resumed this copy"))
            }
            Some(_) => Err(self.superseded(
                "the journal is that of another copy: this one was finished or given up by another run",
            )),
        }
    }

    /// Locks out other runs on this disk: they cannot begin, resume, finish or give up a copy to this
    /// place meanwhile. `make`: makes the journal's directory, which carries the lock.
    pub(super) fn lock_out_others(&self, make: bool) -> Result<DirectoryLock> {
        self.lock_for(make, self.wait)
    }

    /// Like [`lock_out_others`](Self::lock_out_others). Fails if another run has the lock for longer than
    /// `wait`.
    pub(super) fn lock_for(&self, make: bool, wait: Duration) -> Result<DirectoryLock> {
        let Some(local) = &self.local else { return Ok(DirectoryLock::NONE) };
        directories::lock(&local.root.join("journal"), make, wait, || Error::InTheWay {
            place: self.named(),
            why: format!(
                "another run has been moving the copy to its place for {} s. Wait until it has finished, or end \
                 its process; then run again",
                wait.as_secs_f64().round()
            ),
        })
    }

    /// Adds keys of records that others have written.
    pub fn note(&self, keys: impl IntoIterator<Item = String>) {
        self.known.lock().noted.extend(keys);
    }

    /// The keys of all records that this run knows.
    pub(super) fn noted(&self) -> BTreeSet<String> {
        self.known.lock().noted.clone()
    }

    /// Records finished tasks. Returns the key of the record.
    pub(super) fn note_done(&self, stage: usize, record: &str) -> Result<String> {
        let key = self.names.journal(&format!("done/{stage}/{record}"));
        self.note([key.clone()]);
        steps::reach("record")?;
        if self.is_remote() {
            // The fence lets a new object pass for a second after another run has taken over, and takes
            // it back after a look. A run that finds the record relies on the objects: look before.
            self.check_journal(false)?;
        }
        self.writing.write(Key::new(&key)?, &[b"done"])?;
        if self.is_remote() {
            self.check_journal(false).inspect_err(|_| {
                let _ = Key::new(&key).map(|key| self.store.delete_all(&[key], None));
            })?;
        }
        Ok(key)
    }

    /// Deletes objects on a server that this run has created too late. Call it after a failure.
    pub fn take_back(&self) {
        if self.is_remote() {
            // The fence does that when it looks at the journal. The failure is the error to report.
            let _ = self.check_journal(false);
        }
    }

    /// The hashes that workers recorded, for each range of tasks.
    pub(super) fn records(&self, stage: usize) -> Result<BTreeMap<(u64, u64), Vec<String>>> {
        let mut found: BTreeMap<(u64, u64), Vec<String>> = BTreeMap::new();
        let listed = self.store.list(prefix(&self.names.journal(&format!("done/{stage}")))?)?;
        for key in &listed {
            let name = key.rsplit('/').next().unwrap_or_default();
            let mut words = name.splitn(3, '-');
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
            let (Some(first), Some(end)) = (number(), number()) else { continue };
            if first < end {
                found.entry((first, end)).or_default().push(words.next().unwrap_or_default().to_owned());
            }
        }
        self.note(listed);
        Ok(found)
    }
}

/// The first look of a run that has begun.
enum Claimed {
    OnDisk,
    OnServer { listed: Vec<String>, is_ours: bool },
}

pub(super) fn is_in_the_way(error: &Error) -> bool {
    matches!(error, Error::InTheWay { .. }) || error.is_superseded()
}

fn first_word(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == b' ').next().unwrap_or_default()
}

/// The entries of a directory; none if it cannot be read.
fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(directory).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}
