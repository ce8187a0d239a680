//! An object that stays open, read in blocks: for HDF5 and NetCDF files.
//!
//! Their metadata consist of many small structures, most of them close together and many near the
//! start. The first read therefore brings up to 1 MiB. Small reads bring blocks of 64 KiB, which
//! are kept. Consecutive small reads bring more and more blocks at once, up to 1 MiB. Long reads
//! (chunks of data) and announced ranges bypass the blocks.
//!
//! All reads see the contents from when the object was opened. If somebody replaces the object,
//! they fail with [`StoreError::Changed`].

use crate::client::Wanted;
use crate::opened::RemoteOpened;
use crate::store::RemoteStore;
use hyperslab_store::fork::Mutex;
use hyperslab_store::{
    Cost, Facts, HeldObject, Holds, Key, Lent, Opened, Operation, RangeRead, Result, Stamp, Stamped, Store,
    StoreError, Version,
};
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Bytes of a block. It arrives in about the time of a request to the nearest server.
const BLOCK: u64 = 64 << 10;

/// Most bytes of the first read, which brings as much as arrives in half the time of a request.
///
/// Most files have the metadata of their root group there, and many have all metadata. For 4 of 11
/// files with 100 variables, 512 KiB instead of 64 KiB saved a round trip; 1 MiB saved no more.
/// Reading the ends of these files saved none.
const MOST_FIRST: u64 = 1 << 20;

/// Bytes fetched at the end of a zip archive when it is opened: a directory of about 3000 members.
const DIRECTORY: u64 = 256 << 10;

/// Most blocks to fetch for one small read.
const MOST_AHEAD: u64 = 16;

/// Longer reads are data and bypass the blocks.
const SMALL: u64 = 2 * BLOCK;

/// Number of blocks to keep: 16 MiB.
const KEPT: usize = 256;

/// The blocks of an object.
#[derive(Debug, Default)]
struct Blocks {
    /// By number.
    by_number: BTreeMap<u64, Arc<[u8]>>,
    /// In order of arrival.
    order: VecDeque<u64>,
    /// The block after the last one fetched.
    next: u64,
    /// Number of blocks for the next fetch, if it directly follows the last one.
    ahead: u64,
}

/// A store of one open object.
#[derive(Debug)]
struct HeldStore {
    store: RemoteStore,
    key: String,
    opened: RemoteOpened,
    /// Gated.
    blocks: Mutex<Blocks>,
    closed: AtomicBool,
}

/// Opens an object of `store` and keeps it open.
pub(crate) fn hold(store: &RemoteStore, key: Key<'_>) -> Result<Option<HeldObject>> {
    let held = HeldStore::open_object(store, key)?;
    Ok(held.map(|held| (Arc::new(held) as Arc<dyn Store>, key.as_str().to_owned())))
}

impl HeldStore {
    fn open_object(store: &RemoteStore, key: Key<'_>) -> Result<Option<HeldStore>> {
        // Files begin with what leads to everything else; archives end with it.
        let first = match key.as_str().to_ascii_lowercase().ends_with(".zip") {
            true => Wanted::Suffix(DIRECTORY),
            false => Wanted::Bounded(0..(store.0.process.meter.request() / 2).clamp(BLOCK, MOST_FIRST)),
        };
        let Some(opened) = store.open_next(key, None, first)? else { return Ok(None) };
        let (key, blocks) = (key.as_str().to_owned(), Mutex::new(Blocks { ahead: 1, ..Blocks::default() }));
        Ok(Some(HeldStore { store: store.clone(), key, opened, blocks, closed: AtomicBool::new(false) }))
    }

    fn has(&self, key: Key<'_>) -> bool {
        key.as_str() == self.key
    }

    fn check_open(&self) -> Result<()> {
        match self.closed.load(Relaxed) {
            true => Err(StoreError::Closed { key: self.key.clone(), url: self.url() }),
            false => Ok(()),
        }
    }

    fn read(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.check_open()?;
        self.store.check_ranges(&self.key, self.opened.size(), ranges)?;
        let long: u64 = ranges.iter().map(|range| range.buf.len() as u64).sum();
        if long > SMALL || ranges.iter().all(|range| self.opened.has(range.offset, range.buf.len() as u64)) {
            return self.opened.read_ranges(ranges);
        }
        self.bring(ranges)?;
        for range in ranges {
            self.copy(range)?;
        }
        Ok(())
    }

    /// Returns whether the blocks contain all of a range.
    fn has_blocks(&self, offset: u64, len: u64) -> bool {
        let blocks = self.blocks.lock();
        let last = offset.saturating_add(len.saturating_sub(1)) / BLOCK;
        len <= SMALL && (offset / BLOCK..=last).all(|n| blocks.by_number.contains_key(&n))
    }

    /// Fetches the missing blocks.
    fn bring(&self, ranges: &[RangeRead<'_>]) -> Result<()> {
        let size = self.opened.size();
        let mut wanted: Vec<u64> = Vec::new();
        {
            let mut blocks = self.blocks.lock();
            for range in ranges.iter().filter(|range| !range.buf.is_empty()) {
                let last = (range.offset + range.buf.len() as u64 - 1) / BLOCK;
                wanted.extend((range.offset / BLOCK..=last).filter(|n| !blocks.by_number.contains_key(n)));
            }
            wanted.sort_unstable();
            wanted.dedup();
            let (Some(first), Some(last)) = (wanted.first().copied(), wanted.last().copied()) else {
                return Ok(());
            };
            let follows = first >= blocks.next && first < blocks.next + MOST_AHEAD && blocks.next > 0;
            blocks.ahead = if follows { (blocks.ahead * 2).min(MOST_AHEAD) } else { 1 };
            let more = (last + 1..last + blocks.ahead).take_while(|n| *n < size.div_ceil(BLOCK));
            wanted.extend(more.filter(|n| !blocks.by_number.contains_key(n)));
            blocks.next = wanted.last().map_or(0, |n| n + 1);
        }
        let mut fetched: Vec<(u64, Vec<u8>)> = wanted
            .into_iter()
            .map(|n| {
                let len = BLOCK.min(size - n * BLOCK);
                (n, vec![0; usize::try_from(len).unwrap_or_default()])
            })
            .collect();
        let mut reads: Vec<RangeRead<'_>> =
            fetched.iter_mut().map(|(n, buf)| RangeRead { offset: *n * BLOCK, buf }).collect();
        self.opened.read_ranges(&mut reads)?;
        let fetched: Vec<(u64, Arc<[u8]>)> = fetched.into_iter().map(|(n, buf)| (n, buf.into())).collect();
        let mut gone = Vec::new();
        let mut blocks = self.blocks.lock();
        for (n, block) in fetched {
            if blocks.by_number.insert(n, block).is_none() {
                blocks.order.push_back(n);
            }
        }
        while blocks.order.len() > KEPT {
            let oldest = blocks.order.pop_front();
            gone.extend(oldest.and_then(|n| blocks.by_number.remove(&n)));
        }
        drop(blocks);
        // Freed without the lock.
        drop(gone);
        Ok(())
    }

    /// Copies a range from blocks. Reads it if another thread has displaced the blocks.
    fn copy(&self, range: &mut RangeRead<'_>) -> Result<()> {
        let RangeRead { offset, buf } = range;
        let end = *offset + buf.len() as u64;
        let mut at = *offset;
        while at < end {
            let n = at / BLOCK;
            let block = self.blocks.lock().by_number.get(&n).cloned();
            let within = |position: u64, base: u64| usize::try_from(position - base).unwrap_or(usize::MAX);
            let to = end.min((n + 1) * BLOCK);
            let target = buf.get_mut(within(at, *offset)..within(to, *offset)).unwrap_or_default();
            let source =
                block.as_deref().and_then(|block| block.get(within(at, n * BLOCK)..within(to, n * BLOCK)));
            match source {
                Some(source) => target.copy_from_slice(source),
                None => self.opened.read_ranges(&mut [RangeRead { offset: at, buf: target }])?,
            }
            at = to;
        }
        Ok(())
    }
}

/// The object during several reads. Announced ranges are dropped with it.
#[derive(Debug)]
struct HeldOpened<'s> {
    held: &'s HeldStore,
    opened: RemoteOpened,
}

impl Opened for HeldOpened<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.held.check_open()?;
        let ranges = ranges.iter_mut().map(|RangeRead { offset, buf }| RangeRead { offset: *offset, buf });
        let (mut announced, mut others): (Vec<_>, Vec<_>) =
            ranges.partition(|range| self.opened.has(range.offset, range.buf.len() as u64));
        self.opened.read_ranges(&mut announced)?;
        self.held.read(&mut others)
    }

    fn announce(&self, ranges: &[(u64, u64)], requests: usize) {
        let missing = |(offset, len): &&(u64, u64)| !self.held.has_blocks(*offset, *len);
        let missing: Vec<(u64, u64)> = ranges.iter().filter(missing).copied().collect();
        self.opened.announce(&missing, requests);
    }

    fn has_arrived(&self, offset: u64, len: u64, most: Duration) -> bool {
        self.opened.has_arrived(offset, len, most)
    }

    fn lend(&self, offset: u64, len: u64) -> Result<Option<Lent>> {
        self.held.check_open()?;
        self.opened.lend(offset, len)
    }

    fn size(&self) -> u64 {
        self.opened.size()
    }

    fn stamp(&self) -> Option<Stamp> {
        self.opened.stamp()
    }

    fn vouched(&self) -> Option<Stamp> {
        self.opened.vouched()
    }

    fn version(&self) -> Option<Version<'_>> {
        self.opened.version()
    }
}

impl Store for HeldStore {
    fn only(&self) -> Option<&str> {
        Some(&self.key)
    }

    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        Ok(self.read_ranges_stamped(key, size, ranges)?.0)
    }

    fn read_ranges_stamped(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<Stamped> {
        if !self.has(key) {
            return Ok((false, None));
        }
        self.store.check_size(&self.key, size, self.opened.size())?;
        self.read(ranges)?;
        Ok((true, self.opened.vouched()))
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        if !self.has(key) {
            return Ok(None);
        }
        self.check_open()?;
        self.store.check_size(&self.key, size, self.opened.size())?;
        Ok(Some(Box::new(HeldOpened { held: self, opened: self.opened.reopen() })))
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        Ok(self.read_all_stamped(key, buf, limit)?.0)
    }

    fn read_all_stamped(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<Stamped> {
        buf.clear();
        if !self.has(key) {
            return Ok((false, None));
        }
        let size = usize::try_from(self.opened.size()).ok().filter(|size| *size <= limit);
        let size = size.ok_or_else(|| StoreError::too_large(self, &self.key, limit))?;
        let no_room = |_| StoreError::io(self, Operation::Read, &self.key, ErrorKind::OutOfMemory);
        buf.try_reserve_exact(size).map_err(no_room)?;
        buf.resize(size, 0);
        self.read(&mut [RangeRead { offset: 0, buf }])?;
        Ok((true, self.opened.vouched()))
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        Ok(self.has(key).then(|| self.opened.size()))
    }

    fn stamp(&self, key: Key<'_>) -> Result<Option<Stamp>> {
        Ok(self.opened.stamp().filter(|_| self.has(key)))
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.store.lock_id(key)
    }

    fn cost(&self) -> Cost {
        self.store.cost()
    }

    fn facts(&self) -> Facts {
        Facts { is_writable: false, waits: true, ..Facts::default() }
    }

    fn holds(&self) -> Option<&dyn Holds> {
        Some(self)
    }

    fn url(&self) -> String {
        self.store.url()
    }
}

impl Holds for HeldStore {
    fn close(&self) {
        self.closed.store(true, Relaxed);
        let blocks = std::mem::take(&mut *self.blocks.lock());
        drop(blocks);
    }

    fn is_open(&self) -> bool {
        !self.closed.load(Relaxed)
    }

    fn is_current(&self) -> bool {
        let now = Key::new(&self.key).and_then(|key| self.store.head(key, Operation::Size));
        matches!(now, Ok(Some(now)) if self.opened.is(&now))
    }

    fn hold(&self, key: Key<'_>) -> Result<Option<HeldObject>> {
        if self.has(key) { hold(&self.store, key) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::HeldStore;
    use crate::testing::in_memory;
    use hyperslab_store::contract;
    use hyperslab_store::{
        Holds, Key, LocalOptions, Many, Next, Opening, RangeRead, Store, StoreError, ZipMode, ZipStore,
    };
    use std::sync::Arc;

    #[test]
    fn the_contract_of_reading_holds() {
        contract::check_reading(|name, bytes| {
            let store = in_memory();
            store.write(Key::new(name).unwrap(), &[bytes]).unwrap();
            Box::new(HeldStore::open_object(&store, Key::new(name).unwrap()).unwrap().unwrap())
        });
    }

    /// Puts an archive with these members on a server.
    fn archive(members: &[(&str, &[u8])]) -> ZipStore {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.zip");
        let zip = ZipStore::local(&path, ZipMode::Create, LocalOptions::default()).unwrap();
        for (name, bytes) in members {
            zip.write(Key::new(name).unwrap(), &[bytes]).unwrap();
        }
        drop(zip);
        let (store, key) = (in_memory(), Key::new("x.zip").unwrap());
        store.write(key, &[&std::fs::read(&path).unwrap()]).unwrap();
        ZipStore::open(Arc::new(store), key).unwrap()
    }

    #[test]
    fn members_of_archives_are_read_as_objects() {
        contract::check_reads(|name, bytes| Box::new(archive(&[(name, bytes)])));
    }

    #[test]
    fn members_that_are_opened_together() {
        let bytes: Vec<u8> = (0..90_000u32).map(|n| (n.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect();
        let names: Vec<String> = (0..60).map(|n| format!("a/{n}")).collect();
        let part = |n: usize| &bytes[n..n + n * 1000];
        let members: Vec<_> = names.iter().enumerate().map(|(n, name)| (name.as_str(), part(n))).collect();
        let store = archive(&members);
        let nexts =
            [Next::All, Next::Start(100), Next::End(1 << 40), Next::Part(50, 9), Next::Part(u64::MAX, 9)];
        // The second time, the positions of the data are known.
        for shift in 0..2 {
            let keys = names.iter().map(|name| Key::new(name).unwrap()).chain([Key::new("none").unwrap()]);
            let wanted: Vec<_> = keys
                .enumerate()
                .map(|(n, key)| Opening { key, next: nexts[(n + shift) % nexts.len()] })
                .collect();
            let mut count = 0;
            store.open_all(&wanted, &mut |n, opened| {
                count += 1;
                let Some(opened) = opened.unwrap() else { return assert_eq!(n, 60) };
                let expected = part(n);
                assert_eq!(opened.size(), expected.len() as u64);
                opened.announce(&[(1, 3), (0, opened.size()), (u64::MAX, 2), (opened.size(), 1)], 4);
                let (mut some, mut all) = (vec![0; expected.len().min(7)], vec![0; expected.len()]);
                let some = RangeRead { offset: 0, buf: &mut some };
                opened.read_ranges(&mut [some, RangeRead { offset: 0, buf: &mut all }]).unwrap();
                assert!(all == expected, "{n}");
                let late = opened.read_ranges(&mut [RangeRead { offset: opened.size(), buf: &mut [0] }]);
                assert!(matches!(late, Err(StoreError::OutOfRange { .. })), "{late:?}");
            });
            assert_eq!(count, 61);
        }
    }

    #[test]
    fn what_is_announced_is_read_once_and_goes() {
        let store = in_memory();
        let key = Key::new("x").unwrap();
        let bytes: Vec<u8> = (0..20_000_000u32).map(|n| (n.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect();
        store.write(key, &[&bytes]).unwrap();
        let (held, _) = store.hold(key).unwrap().unwrap();
        let wanted: Vec<(u64, u64)> = (0..40).map(|n| (n * 499_000 + 7, 5000)).collect();
        let opened = held.open(key, None).unwrap().unwrap();
        opened.announce(&wanted, 64);
        opened.announce(&[(u64::MAX, 9), (5, u64::MAX), (19_999_999, 1), (19_999_999, 2), (3, 0)], 64);
        for (offset, len) in wanted {
            let mut buf = vec![0; len as usize];
            opened.read_ranges(&mut [RangeRead { offset, buf: &mut buf }]).unwrap();
            assert!(buf == bytes[offset as usize..][..len as usize], "{offset}");
        }
        let late = opened.read_ranges(&mut [RangeRead { offset: 19_999_999, buf: &mut [0; 2] }]);
        assert!(matches!(late, Err(StoreError::OutOfRange { .. })), "{late:?}");
        held.close();
        let late = opened.read_ranges(&mut [RangeRead { offset: 19_999_999, buf: &mut [0] }]);
        assert!(matches!(late, Err(StoreError::Closed { .. })), "{late:?}");
    }

    #[test]
    fn blocks_hold_what_the_object_holds() {
        let store = in_memory();
        let key = Key::new("x").unwrap();
        let bytes: Vec<u8> = (0..20_000_000u32).map(|n| (n.wrapping_mul(0x9E37_79B1) >> 13) as u8).collect();
        store.write(key, &[&bytes]).unwrap();
        let (held, _) = store.hold(key).unwrap().unwrap();
        let mut state = 7u64;
        for round in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let len = (state >> 33) as usize % if round % 10 == 0 { 500_000 } else { 5000 };
            let offset =
                if round % 3 == 0 { (state >> 20) as usize % (bytes.len() - len) } else { round * 1000 };
            let mut buf = vec![0xEE; len];
            held.read_ranges(key, None, &mut [RangeRead { offset: offset as u64, buf: &mut buf }]).unwrap();
            assert!(buf == bytes[offset..offset + len], "round {round}: {offset}, {len}");
        }
        assert!(held.is_current());
        store.write(key, &[b"other"]).unwrap();
        assert!(!held.is_current());
        let mut buf = vec![0; 1 << 20];
        let late = held.read_ranges(key, None, &mut [RangeRead { offset: 5, buf: &mut buf }]);
        assert!(matches!(late, Err(StoreError::Changed { .. })), "{late:?}");
        held.close();
        assert!(!held.is_open());
        let late = held.read_ranges(key, None, &mut [RangeRead { offset: 5, buf: &mut [0] }]);
        assert!(matches!(late, Err(StoreError::Closed { .. })));
    }
}
