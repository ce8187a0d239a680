//! What was read of objects, kept in memory or in a folder.
//!
//! 1. The unit is what a request brought: a range of one version of an object. So nothing is read
//!    that nobody asked for, and one file is written for each request. A later range is served if it
//!    lies within what is kept, however that was cut.
//! 2. An entry is used when the server has said that the object still has its entity tag: the
//!    request names the tag (`If-None-Match`), and an answer without a body says that it has. An
//!    object that is open was asked for when it was opened; its ranges need no request. With
//!    [`Check::Never`] the server is never asked: for objects that do not change.
//! 3. Objects without an entity tag that tells all versions apart are not kept.
//! 4. No failure of the cache fails a read. After the first one nothing more is written, and it is
//!    told once ([`on_cache_failure`]).
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

/// Tells an object from all others: a hash of its server, bucket and name.
pub(crate) type Id = [u8; 32];

/// Called with what is wrong with the cache of a store.
static FAILED: Lazy<fn(&str)> = Lazy::new();

/// Sets what is called, once per store, when its cache cannot be written. Only the first call
/// counts.
pub fn on_cache_failure(tell: fn(&str)) {
    FAILED.put(tell);
}

/// Where what was read is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// In a folder, for all processes; at most so many bytes.
    Folder(PathBuf, u64),
    /// In the memory of the store; at most so many bytes.
    Memory(u64),
}

/// When the server is asked whether an object has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Check {
    /// Whenever an object is opened, or read without being opened.
    #[default]
    Always,
    /// Never: objects do not change.
    Never,
}

/// The cache of a store.
#[derive(Debug)]
pub(crate) struct Cache {
    place: Place,
    check: Check,
    /// The bucket, different for different servers.
    identity: String,
    /// Whether it gives nothing any more: something in it is known to be old, and stays.
    off: AtomicBool,
    /// Why nothing is put in it any more.
    failure: Lazy<String>,
    told: AtomicBool,
}

#[derive(Debug)]
enum Place {
    Folder(Folder),
    Memory(Memory),
}

impl Cache {
    pub(crate) fn new(keep: &Keep, check: Check, identity: &str) -> Self {
        let place = match keep {
            Keep::Folder(root, limit) => Place::Folder(Folder::new(root.clone(), *limit)),
            Keep::Memory(limit) => Place::Memory(Memory::new(*limit)),
        };
        let (off, failure, told) = (AtomicBool::new(false), Lazy::new(), AtomicBool::new(false));
        Cache { place, check, identity: identity.to_owned(), off, failure, told }
    }

    pub(crate) fn asks(&self) -> bool {
        self.check == Check::Always
    }

    /// The number of an object, by its name in the bucket. No secret can be found out from it that
    /// is not easily guessed.
    pub(crate) fn id(&self, path: &str) -> Id {
        let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
        for text in [self.identity.as_str(), path] {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        hash.finish().as_ref().first_chunk().copied().unwrap_or_default()
    }

    /// The bytes that are wanted of an object, if all of them are here; of the contents `of`, if these
    /// are given. For tasks.
    pub(crate) async fn find(
        self: &Arc<Self>,
        id: Id,
        wanted: &Wanted,
        of: Option<&Contents>,
    ) -> Option<Fetched> {
        if self.off.load(Relaxed) || of.is_some_and(|of| of.strong().is_none()) {
            return None;
        }
        match &self.place {
            Place::Memory(memory) => memory.find(&id, wanted, of),
            Place::Folder(_) => {
                let (cache, wanted, of) = (self.clone(), wanted.clone(), of.cloned());
                on_disk(move || match &cache.place {
                    Place::Folder(folder) => folder.find(&id, &wanted, of.as_ref()),
                    Place::Memory(_) => None,
                })
                .await
                .flatten()
            }
        }
    }

    /// What is known of an object, where the server is not asked. For threads that may wait for a
    /// disk.
    pub(crate) fn contents(&self, path: &str) -> Option<Contents> {
        if self.asks() || self.off.load(Relaxed) {
            return None;
        }
        let id = self.id(path);
        match &self.place {
            Place::Memory(memory) => memory.contents(&id),
            Place::Folder(folder) => folder.contents(&id),
        }
    }

    /// Keeps what a request brought. For tasks.
    pub(crate) async fn put(self: &Arc<Self>, id: Id, fetched: &Fetched) {
        let limit = match &self.place {
            Place::Memory(memory) => memory.limit(),
            Place::Folder(folder) => folder.limit(),
        };
        // What would push out everything else is not kept.
        let fits = fetched.range.end - fetched.range.start <= limit / 4;
        let is_kept = fits && !fetched.range.is_empty() && fetched.contents.strong().is_some();
        if !is_kept || self.failure.get().is_some() {
            return;
        }
        match &self.place {
            Place::Memory(memory) => memory.put(&id, fetched),
            Place::Folder(_) => {
                let (cache, fetched) = (self.clone(), fetched.clone());
                on_disk(move || {
                    if let Place::Folder(folder) = &cache.place
                        && let Err(error) = folder.put(&id, &fetched)
                    {
                        cache.fail(folder, &error);
                    }
                })
                .await;
            }
        }
    }

    /// Drops what is kept of an object: it was changed. For threads that may wait for a disk.
    pub(crate) fn forget(&self, path: &str) {
        let id = self.id(path);
        match &self.place {
            Place::Memory(memory) => memory.forget(&id),
            Place::Folder(folder) => {
                if let Err(error) = folder.forget(&id) {
                    self.off.store(true, Relaxed);
                    self.fail(folder, &error);
                }
            }
        }
    }

    /// As [`Cache::forget`], for tasks.
    pub(crate) async fn forget_later(self: &Arc<Self>, path: &str) {
        let (cache, path) = (self.clone(), path.to_owned());
        on_disk(move || cache.forget(&path)).await;
    }

    fn fail(&self, folder: &Folder, error: &io::Error) {
        self.failure.put(format!("the cache '{}' cannot be written: {error}", folder.root().display()));
    }

    /// Tells what is wrong, once. For threads that may wait for the one who listens.
    pub(crate) fn tell(&self, url: &str) {
        if let Some(failure) = self.failure.get()
            && !self.told.swap(true, Relaxed)
            && let Some(tell) = FAILED.get()
        {
            tell(&format!("{url}: {failure}. What is read from the server is not kept"));
        }
    }
}

/// Waits for work on files, not on a thread that talks to servers. `None`: it came to no end.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Which bytes of an object of this size are wanted. `None`: none, or not of such an object.
fn resolved(wanted: &Wanted, size: u64) -> Option<Range<u64>> {
    let range = match wanted {
        Wanted::All => 0..size,
        Wanted::AtMost(most) if size <= *most => 0..size,
        Wanted::AtMost(_) => return None,
        Wanted::Bounded(range) => range.start..range.end.min(size),
        Wanted::Suffix(len) => size.saturating_sub(*len)..size,
    };
    (!range.is_empty()).then_some(range)
}

/// Which of `have` gives which part of `wanted`, in order. `None`: some of it is missing.
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
    use super::{Keep, pick, resolved};
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
            assert_eq!(resolved(&wanted, size), range, "{wanted:?} of {size}");
        }
    }
}
