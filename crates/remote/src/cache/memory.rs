//! The in-memory cache of one store.

use super::{Id, pick, resolve_range};
use crate::client::{Contents, Fetched, Wanted};
use bytes::Bytes;
use hyperslab_store::fork::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;

/// Cost of an entry besides its bytes.
const ENTRY: u64 = 200;

/// A range of one version of an object.
#[derive(Debug)]
struct CachedRange {
    range: Range<u64>,
    bytes: Bytes,
    /// Number of the operation that last used it.
    used: u64,
}

/// The kept ranges of an object, all of one version.
#[derive(Debug)]
struct Object {
    contents: Contents,
    ranges: Vec<CachedRange>,
}

#[derive(Debug, Default)]
struct Objects {
    objects: BTreeMap<Id, Object>,
    total: u64,
    turn: u64,
}

/// Cache entries in memory.
#[derive(Debug)]
pub(super) struct Memory {
    /// Limit in bytes.
    limit: u64,
    /// Gated.
    objects: Mutex<Objects>,
}

fn cost(cached: &CachedRange) -> u64 {
    cached.bytes.len() as u64 + ENTRY
}

impl Memory {
    pub(super) fn new(limit: u64) -> Self {
        Memory { limit, objects: Mutex::default() }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Like `Folder::find`.
    pub(super) fn find(&self, id: &Id, wanted: &Wanted, of: Option<&Contents>) -> Option<Fetched> {
        let mut objects = self.objects.lock();
        objects.turn += 1;
        let turn = objects.turn;
        let object = objects.objects.get_mut(id)?;
        if of.is_some_and(|of| !of.is(&object.contents)) {
            return None;
        }
        let range = resolve_range(wanted, object.contents.size)?;
        let ranges: Vec<Range<u64>> = object.ranges.iter().map(|cached| cached.range.clone()).collect();
        let mut pieces = Vec::new();
        for (n, part) in pick(&range, &ranges)? {
            let cached = object.ranges.get_mut(n)?;
            cached.used = turn;
            let within = |at: u64| usize::try_from(at - cached.range.start).ok();
            pieces.push(cached.bytes.slice(within(part.start)?..within(part.end)?));
        }
        Some(Fetched { contents: object.contents.clone(), range, pieces })
    }

    /// The cached description of an object's contents.
    pub(super) fn contents(&self, id: &Id) -> Option<Contents> {
        self.objects.lock().objects.get(id).map(|object| object.contents.clone())
    }

    /// Like `Folder::put`.
    pub(super) fn put(&self, id: &Id, fetched: &Fetched) {
        // A copy of exactly these bytes: the original may hold on to more memory than it shows.
        let bytes = Bytes::from(fetched.pieces.concat());
        // Freed without the lock.
        let mut gone: Vec<CachedRange> = Vec::new();
        let mut objects = self.objects.lock();
        objects.turn += 1;
        let cached = CachedRange { range: fetched.range.clone(), bytes, used: objects.turn };
        let mut total = objects.total + cost(&cached);
        let object = objects
            .objects
            .entry(*id)
            .or_insert_with(|| Object { contents: fetched.contents.clone(), ranges: Vec::new() });
        let other = !object.contents.is(&fetched.contents);
        object.contents = fetched.contents.clone();
        let within = |range: &Range<u64>| range.start >= cached.range.start && range.end <= cached.range.end;
        gone.extend(object.ranges.extract_if(.., |old| other || within(&old.range)));
        object.ranges.push(cached);
        total -= gone.iter().map(cost).sum::<u64>();
        if total > self.limit {
            total -= shrink(&mut objects.objects, total - (self.limit - self.limit / 16), &mut gone);
        }
        objects.total = total;
        drop(objects);
        drop(gone);
    }

    /// Drops everything kept of an object.
    pub(super) fn forget(&self, id: &Id) {
        let mut objects = self.objects.lock();
        let gone = objects.objects.remove(id);
        objects.total -= gone.iter().flat_map(|object| &object.ranges).map(cost).sum::<u64>();
        drop(objects);
        drop(gone);
    }
}

/// Moves at least `bytes` bytes of the least recently used entries to `gone`. Returns how many.
fn shrink(here: &mut BTreeMap<Id, Object>, bytes: u64, gone: &mut Vec<CachedRange>) -> u64 {
    let all = here.values().flat_map(|object| &object.ranges);
    let mut uses: Vec<(u64, u64)> = all.map(|cached| (cached.used, cost(cached))).collect();
    uses.sort_unstable();
    let (mut freed, mut before) = (0, 0);
    for (used, cost) in uses {
        if freed >= bytes {
            break;
        }
        freed += cost;
        before = used;
    }
    let first = gone.len();
    here.retain(|_, object| {
        gone.extend(object.ranges.extract_if(.., |cached| cached.used <= before));
        !object.ranges.is_empty()
    });
    gone.iter().skip(first).map(cost).sum()
}

#[cfg(test)]
mod tests {
    use super::{ENTRY, Memory};
    use crate::client::{Contents, Fetched, Wanted};
    use bytes::Bytes;

    fn fetched(tag: &str, start: u64, bytes: &[u8]) -> Fetched {
        let contents = Contents { size: 1000, tag: Some(tag.into()), number: None, modified: 1, marks: None };
        let range = start..start + bytes.len() as u64;
        Fetched { contents, range, pieces: bytes.chunks(7).map(Bytes::copy_from_slice).collect() }
    }

    #[test]
    fn a_bounded_number_of_bytes_is_kept() {
        let memory = Memory::new(10 * (1000 + ENTRY));
        let id = |n: u8| [n; 32];
        for n in 0..10 {
            memory.put(&id(n), &fetched("a", 0, &[n; 1000]));
        }
        assert!(memory.find(&id(0), &Wanted::All, None).is_some());
        memory.put(&id(10), &fetched("a", 0, &[10; 1000]));
        let here = |n: u8| memory.find(&id(n), &Wanted::All, None).map(|found| found.pieces.concat());
        assert_eq!((here(1), here(2)), (None, None));
        assert!([0, 3, 4, 5, 6, 7, 8, 9, 10].into_iter().all(|n| here(n) == Some(vec![n; 1000])));
        // Another version, in parts.
        memory.put(&id(0), &fetched("b", 0, b"0123"));
        memory.put(&id(0), &fetched("b", 2, b"2345"));
        let found = memory.find(&id(0), &Wanted::Bounded(1..6), None).unwrap();
        assert_eq!((found.pieces.concat(), found.contents.tag.as_deref()), (b"12345".to_vec(), Some("b")));
        assert!(memory.find(&id(0), &Wanted::Bounded(1..6), Some(&fetched("a", 0, b"").contents)).is_none());
        for n in 0..11 {
            memory.forget(&id(n));
        }
        assert_eq!(here(3), None);
        assert_eq!(memory.objects.lock().total, 0);
    }
}
