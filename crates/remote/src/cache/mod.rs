//! Cache of object contents, in memory or in a folder.
//!
//! 1. The unit is the result of one request: a range of one version of an object. The cache
//!    therefore never reads more than was requested, and writes one file per request. A later range
//!    is served if it is covered by kept ranges, however they are cut.
//! 2. An entry is used once the server has confirmed that the object still has the same entity tag.
//!    The request names the tag (`If-None-Match`), and a response without a body confirms it. An
//!    open object was confirmed when it was opened; its ranges need no request. With
//!    [`Check::Never`] the server is never asked, for objects that do not change.
//! 3. Objects whose entity tag does not distinguish all versions are not kept.
//! 4. A failure of the cache never fails a read. After the first failure nothing more is written,
//!    and the failure is reported once ([`on_cache_failure`]).
//!
//! | file | concept |
//! |---|---|
//! | `entry` | a file: what it says about itself, checksums |
//! | `disk` | a folder of them, shared by processes |
//! | `memory` | the same in memory, for one store |

mod disk;
mod entry;
mod memory;

use crate::client::{Contents, Fetched, Wanted};
use disk::Folder;
use hyperslab_store::fork::Lazy;
use memory::Memory;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Reads an entry and its bytes, for a fuzz target.
#[cfg(fuzzing)]
pub(crate) fn parse_entry(file: &std::fs::File, id: &Id) {
    if let Some(head) = entry::head(file, id).filter(|head| !head.range.is_empty()) {
        let _ = entry::read(file, &head, &head.range);
    }
}
#[cfg(fuzzing)]
pub(crate) use entry::MAGIC as ENTRY_MAGIC;

/// Identifies an object: a hash of its server, bucket and name.
pub(crate) type Id = [u8; 32];

/// Called with a description of the problem when a store's cache fails.
static FAILED: Lazy<fn(&str)> = Lazy::new();

/// Sets the function to call, once per store, when its cache cannot be written.
///
/// Only the first call counts.
pub fn on_cache_failure(tell: fn(&str)) {
    FAILED.put(tell);
}

/// Location of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// In a folder shared by all processes, with a limit in bytes.
    Folder(PathBuf, u64),
    /// In the memory of the store, with a limit in bytes.
    Memory(u64),
}

/// When to ask the server whether an object has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Check {
    /// Whenever an object is opened, or is read without opening it.
    #[default]
    Always,
    /// Never, because objects do not change.
    Never,
}

/// The cache of a store.
#[derive(Debug)]
pub(crate) struct Cache {
    place: Backend,
    check: Check,
    /// The bucket, with its server.
    identity: String,
    /// Set to disable reads: the cache contains something known to be outdated.
    off: AtomicBool,
    /// Why nothing more is put into the cache.
    failure: Lazy<String>,
    has_warned: AtomicBool,
}

#[derive(Debug)]
enum Backend {
    Folder(Folder),
    Memory(Memory),
}

impl Cache {
    pub(crate) fn new(keep: &Keep, check: Check, identity: &str) -> Self {
        let place = match keep {
            Keep::Folder(root, limit) => Backend::Folder(Folder::new(root.clone(), *limit)),
            Keep::Memory(limit) => Backend::Memory(Memory::new(*limit)),
        };
        let (off, failure, has_warned) = (AtomicBool::new(false), Lazy::new(), AtomicBool::new(false));
        Cache { place, check, identity: identity.to_owned(), off, failure, has_warned }
    }

    pub(crate) fn asks(&self) -> bool {
        self.check == Check::Always
    }

    /// The ID of an object, from its name in the bucket.
    ///
    /// It reveals no secret that is not easily guessed.
    pub(crate) fn id(&self, path: &str) -> Id {
        let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
        for text in [self.identity.as_str(), path] {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        hash.finish().as_ref().first_chunk().copied().unwrap_or_default()
    }

    /// The wanted bytes of an object, if all of them are cached. They are of the contents `of`, if
    /// given.
    ///
    /// For tasks.
    pub(crate) async fn find(
        self: &Arc<Self>,
        id: Id,
        wanted: &Wanted,
        of: Option<&Contents>,
    ) -> Option<Fetched> {
        if self.off.load(Relaxed) || of.is_some_and(|of| of.strong_tag().is_none()) {
            return None;
        }
        match &self.place {
            Backend::Memory(memory) => memory.find(&id, wanted, of),
            Backend::Folder(_) => {
                let (cache, wanted, of) = (self.clone(), wanted.clone(), of.cloned());
                on_disk(move || match &cache.place {
                    Backend::Folder(folder) => folder.find(&id, &wanted, of.as_ref()),
                    Backend::Memory(_) => None,
                })
                .await
                .flatten()
            }
        }
    }

    /// The cached description of an object's contents, if the server is never asked.
    ///
    /// For threads that may block on a disk.
    pub(crate) fn contents(&self, path: &str) -> Option<Contents> {
        if self.asks() || self.off.load(Relaxed) {
            return None;
        }
        let id = self.id(path);
        match &self.place {
            Backend::Memory(memory) => memory.contents(&id),
            Backend::Folder(folder) => folder.contents(&id),
        }
    }

    /// Keeps the result of a request. For tasks.
    pub(crate) async fn put(self: &Arc<Self>, id: Id, fetched: &Fetched) {
        let limit = match &self.place {
            Backend::Memory(memory) => memory.limit(),
            Backend::Folder(folder) => folder.limit(),
        };
        // Anything that would displace everything else is not kept.
        let fits = fetched.range.end - fetched.range.start <= limit / 4;
        let is_kept = fits && !fetched.range.is_empty() && fetched.contents.strong_tag().is_some();
        if !is_kept || self.failure.get().is_some() {
            return;
        }
        match &self.place {
            Backend::Memory(memory) => memory.put(&id, fetched),
            Backend::Folder(_) => {
                let (cache, fetched) = (self.clone(), fetched.clone());
                on_disk(move || {
                    if let Backend::Folder(folder) = &cache.place
                        && let Err(error) = folder.put(&id, &fetched)
                    {
                        cache.fail(folder, &error);
                    }
                })
                .await;
            }
        }
    }

    /// Drops everything kept of an object, because it has changed.
    ///
    /// For threads that may block on a disk.
    pub(crate) fn forget(&self, path: &str) {
        let id = self.id(path);
        match &self.place {
            Backend::Memory(memory) => memory.forget(&id),
            Backend::Folder(folder) => {
                if let Err(error) = folder.forget(&id) {
                    self.off.store(true, Relaxed);
                    self.fail(folder, &error);
                }
            }
        }
    }

    /// Like [`Cache::forget`], for tasks.
    pub(crate) async fn forget_later(self: &Arc<Self>, path: &str) {
        let (cache, path) = (self.clone(), path.to_owned());
        on_disk(move || cache.forget(&path)).await;
    }

    fn fail(&self, folder: &Folder, error: &io::Error) {
        self.failure.put(format!("the cache '{}' cannot be written: {error}", folder.root().display()));
    }

    /// Reports the failure once. For threads that may wait for the receiver.
    pub(crate) fn tell(&self, url: &str) {
        if let Some(failure) = self.failure.get()
            && !self.has_warned.swap(true, Relaxed)
            && let Some(tell) = FAILED.get()
        {
            tell(&format!("{url}: {failure}. What is read from the server is not kept"));
        }
    }
}

/// Runs file work off the network threads, and waits for it. `None` if it did not finish.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Which bytes of an object of this size are wanted. `None` if none are, or if the size does not
/// fit.
fn resolve_range(wanted: &Wanted, size: u64) -> Option<Range<u64>> {
    let range = match wanted {
        Wanted::All => 0..size,
        Wanted::AtMost(most) if size <= *most => 0..size,
        Wanted::AtMost(_) => return None,
        Wanted::Bounded(range) => range.start..range.end.min(size),
        Wanted::Suffix(len) => size.saturating_sub(*len)..size,
    };
    (!range.is_empty()).then_some(range)
}

/// Which part of `wanted` comes from which of `have`, in order. `None` if some is missing.
fn pick(wanted: &Range<u64>, have: &[Range<u64>]) -> Option<Vec<(usize, Range<u64>)>> {
    let (mut at, mut picked) = (wanted.start, Vec::new());
    while at < wanted.end {
        let here = have.iter().enumerate().filter(|(_, range)| range.start <= at && at < range.end);
        let (n, range) = here.max_by_key(|(_, range)| range.end)?;
        let end = range.end.min(wanted.end);
        picked.push((n, at..end));
        at = end;
    }
    Some(picked)
}

#[cfg(test)]
mod tests {
    use super::{Keep, pick, resolve_range};
    use crate::client::Wanted;
    use crate::settings::Settings;
    use crate::testing::in_memory_with;
    use hyperslab_store::contract;

    #[test]
    fn the_contract_holds_behind_a_cache() {
        let directory = tempfile::tempdir().unwrap();
        for keep in [Keep::Folder(directory.path().join("cache"), 1 << 20), Keep::Memory(1 << 20)] {
            contract::check_flat(|| {
                let cache = Some(keep.clone());
                Box::new(in_memory_with(Settings { cache, ..Settings::default() }))
            });
        }
    }

    #[test]
    fn parts_are_picked() {
        let have = [0..4, 3..9, 3..6, 20..30];
        assert_eq!(pick(&(1..7), &have), Some(vec![(0, 1..4), (1, 4..7)]));
        assert_eq!(pick(&(3..5), &have), Some(vec![(1, 3..5)]));
        assert_eq!(pick(&(8..10), &have), None);
        assert_eq!(pick(&(20..30), &have), Some(vec![(3, 20..30)]));
        for (wanted, size, range) in [
            (Wanted::All, 5, Some(0..5)),
            (Wanted::All, 0, None),
            (Wanted::AtMost(5), 5, Some(0..5)),
            (Wanted::AtMost(4), 5, None),
            (Wanted::Bounded(2..9), 5, Some(2..5)),
            (Wanted::Bounded(7..9), 5, None),
            (Wanted::Suffix(9), 5, Some(0..5)),
            (Wanted::Suffix(2), 5, Some(3..5)),
        ] {
            assert_eq!(resolve_range(&wanted, size), range, "{wanted:?} of {size}");
        }
    }
}
