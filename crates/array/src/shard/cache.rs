//! Keeps indexes of shards: an index is read once, as long as its shard stays the same.
//!
//! An index is looked up by the [`Stamp`] of the object that has just been opened: equal stamps
//! promise equal bytes. A changed shard has another stamp, so a kept index is never stale. The
//! index of the old contents is dropped when there is no room.
//! [`settings::shard_index_bound`](crate::runtime::settings::shard_index_bound) bounds the memory;
//! the oldest indexes go first.

use crate::layout::shard_index::ShardIndex;
use crate::runtime::process::PerProcess;
use hyperslab_store::Stamp;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Identifies an index.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct IndexPlace {
    /// Identifies the contents of the object.
    pub(crate) stamp: Stamp,
    /// The offset of the shard in the object.
    pub(crate) offset: u64,
    /// Bytes of the shard.
    pub(crate) len: u64,
    /// How the index is decoded, as text.
    pub(crate) decoding: Arc<str>,
    /// `true` if checksums were verified.
    pub(crate) verified: bool,
}

/// The indexes that this process keeps.
pub(crate) static INDEXES: PerProcess<IndexCache> = PerProcess::new();

/// The indexes of one process.
#[derive(Default)]
// Per process.
pub(crate) struct IndexCache(Mutex<KeptIndexes>);

#[derive(Default)]
struct KeptIndexes {
    found: HashMap<IndexPlace, Arc<ShardIndex>>,
    /// In the order in which they were kept.
    order: VecDeque<IndexPlace>,
    bytes: usize,
}

/// Bytes counted for each index in addition to its entries.
const OVERHEAD: usize = 256;

fn cost(index: &ShardIndex) -> usize {
    index.bytes() + OVERHEAD
}

impl IndexCache {
    /// The index at `place`, if it is kept.
    pub(crate) fn get(&self, place: &IndexPlace) -> Option<Arc<ShardIndex>> {
        self.lock().found.get(place).cloned()
    }

    /// Keeps an index that was read under the stamp of `place`. At most `bound` bytes are kept in
    /// all.
    pub(crate) fn keep(&self, place: IndexPlace, index: &Arc<ShardIndex>, bound: usize) {
        let mut dropped = Vec::new();
        let mut cached = self.lock();
        if cost(index) <= bound {
            cached.bytes += cost(index);
            match cached.found.insert(place.clone(), index.clone()) {
                Some(old) => {
                    cached.bytes -= cost(&old);
                    dropped.push(old);
                }
                None => cached.order.push_back(place),
            }
        }
        while cached.bytes > bound
            && let Some(oldest) = cached.order.pop_front()
        {
            if let Some(old) = cached.found.remove(&oldest) {
                cached.bytes -= cost(&old);
                dropped.push(old);
            }
        }
        // Freeing memory takes long, so not under the lock.
        drop(cached);
    }

    fn lock(&self) -> MutexGuard<'_, KeptIndexes> {
        // Nothing panics between changes that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(object: u64) -> IndexPlace {
        IndexPlace {
            stamp: Stamp::new([object; 7]),
            offset: 0,
            len: 10,
            decoding: "a".into(),
            verified: true,
        }
    }

    #[test]
    fn only_what_was_kept_and_within_the_bound() {
        let cache = IndexCache::default();
        let index = Arc::new(ShardIndex::absent(10).unwrap());
        let bound = 3 * cost(&index);
        cache.keep(place(0), &index, bound);
        cache.keep(place(0), &index, bound);
        assert!(cache.get(&place(0)).is_some());
        assert!(cache.get(&place(1)).is_none());
        assert!(cache.get(&IndexPlace { verified: false, ..place(0) }).is_none());
        assert!(cache.get(&IndexPlace { decoding: "b".into(), ..place(0) }).is_none());
        for object in 1..4 {
            cache.keep(place(object), &index, bound);
        }
        let found: Vec<bool> = (0..4).map(|object| cache.get(&place(object)).is_some()).collect();
        assert_eq!(found, [false, true, true, true]);
        assert_eq!(cache.lock().bytes, bound);
        cache.keep(place(9), &index, 0);
        assert!(cache.get(&place(9)).is_none());
        assert_eq!(cache.lock().bytes, 0);
    }
}
