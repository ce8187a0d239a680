//! The bytes of a file: the only place in this crate that reads.
//!
//! Metadata is fetched in pages of 64 KiB and cached. Structures are usually close together, so
//! they cost one read. A parser runs on the bytes in memory. If it asks for more
//! ([`ParseError::Need`]), they are fetched and it runs again.
//!
//! Cached pages show the file as it was when they were read. If somebody writes to the file,
//! [`Source::forget`] drops them.

use crate::cursor::to_usize;
use crate::salvage::losses::Losses;
use crate::{Bytes, Cursor, Hdf5Error, ParseError, Parsed, Result, Sizes, interrupt, rehearsal};
use hyperslab_codec::room;
use hyperslab_store::fork::{Mutex, MutexGuard};
use hyperslab_store::{Key, RangeRead, Store, StoreError};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const PAGE: u64 = 64 << 10;

/// Largest number of bytes of cached pages per file.
const KEPT: u64 = 32 << 20;

/// Largest size of a metadata structure. (A chunk index or a heap consists of many structures.)
pub(crate) const LARGEST: u64 = 1 << 30;

/// A structure that begins with this many zeros was never written. Most structures begin with four
/// letters.
const UNWRITTEN: usize = 16;

/// Reads between two checks for an interrupt. On a network disk with 10 ms per read that is 160 ms.
/// (A store far away makes many reads at once and checks for interrupts itself.)
const RUNS: usize = 16;

/// Smallest and largest number of pages to prefetch. The largest is 16 MiB.
const FORESEEN: (usize, usize) = (8, 256);

/// A file in a store, and its cached pages.
#[derive(Debug)]
pub struct Source {
    store: Arc<dyn Store>,
    key: String,
    /// Size of the file in bytes. It may grow while the file is being written.
    size: AtomicU64,
    /// Offset of address 0 in the file (the size of the user block).
    base: u64,
    sizes: Sizes,
    verify: bool,
    /// `true` if many reads at once take about as long as one read: the store is a server.
    far: bool,
    /// Replacements for bytes of the file: offset and new bytes, sorted.
    instead: Vec<(u64, Bytes)>,
    /// The losses of a lenient reader.
    pub(crate) losses: Option<Arc<Losses>>,
    /// Gated. Never held while bytes are fetched.
    pages: Mutex<Pages>,
    /// Gated. The structures that were read. `None`: nobody wants to know.
    record: Option<Mutex<Vec<Structure>>>,
}

/// A structure that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Structure {
    pub name: &'static str,
    pub address: u64,
    /// Bytes that were parsed.
    pub len: u64,
    /// Bytes that the file reserves for it, at most. Some nodes are half empty.
    pub room: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Pages {
    found: HashMap<u64, Arc<[u8]>>,
    /// Number of reads from the store.
    reads: u64,
    /// Counts calls of [`Source::drop_pages`]. A page that was fetched before is not kept after.
    changes: u64,
    /// Offset and length of each range that was read.
    #[cfg(test)]
    ranges: Vec<(u64, usize)>,
}

impl Pages {
    /// Returns the numbers of the cached pages.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.found.keys().copied()
    }

    /// Returns `true` if all pages with these bytes of the file are cached. The range must not be
    /// empty.
    pub(crate) fn have(&self, start: u64, end: u64) -> bool {
        (start / PAGE..=(end - 1) / PAGE).all(|number| self.found.contains_key(&number))
    }
}

impl Source {
    /// Opens the object `key` with address 0 at `base`. Fails with [`Hdf5Error::NotHdf5`] if
    /// missing.
    pub fn new(store: Arc<dyn Store>, key: &str, base: u64) -> Result<Self> {
        let size = store.size(Key::new(key)?)?.ok_or_else(|| Hdf5Error::NotHdf5 {
            file: format!("'{key}' in {}", store.url()),
            why: "it does not exist".into(),
        })?;
        Ok(Source {
            far: store.cost().prefers_rounds(),
            store,
            key: key.into(),
            size: size.into(),
            base,
            sizes: Sizes { offset: 8, length: 8 },
            verify: true,
            instead: Vec::new(),
            losses: None,
            pages: Mutex::default(),
            record: None,
        })
    }

    /// Records the structures that are read from now on.
    pub(crate) fn recording(self) -> Self {
        Source { record: Some(Mutex::default()), ..self }
    }

    /// Returns `true` if structures are recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.record.is_some()
    }

    /// Returns the structures that were read since the last call. Some come several times.
    pub(crate) fn take_record(&self) -> Vec<Structure> {
        self.record.as_ref().map(|record| std::mem::take(&mut *record.lock())).unwrap_or_default()
    }

    /// Records a structure, if anybody wants to know.
    pub(crate) fn note(&self, name: &'static str, address: u64, len: u64, room: u64) {
        if let Some(record) = &self.record {
            record.lock().push(Structure { name, address, len, room: room.max(len) });
        }
        self.note_structure(address);
    }

    /// Replaces some bytes of the file: the bytes to read at each address.
    pub fn with_instead(mut self, instead: Vec<(u64, Bytes)>) -> Self {
        let at = |address: u64| address.saturating_add(self.base);
        self.instead = instead.into_iter().map(|(address, bytes)| (at(address), bytes)).collect();
        self.instead.sort_by_key(|(offset, _)| *offset);
        self.pages = Mutex::default();
        self
    }

    /// Sets the base address.
    pub fn with_base(self, base: u64) -> Self {
        Source { base, ..self }
    }

    /// Sets the sizes (default: 8), and whether to verify checksums (default: yes).
    pub fn with_format(self, sizes: Sizes, verify: bool) -> Self {
        Source { sizes, verify, ..self }
    }

    /// Sizes of addresses and lengths.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// Returns `true` if checksums of metadata are verified.
    pub fn verify(&self) -> bool {
        self.verify
    }

    /// Returns a cursor over all bytes of the structure at an address.
    pub(crate) fn cursor<'b>(&self, bytes: &'b [u8], address: u64) -> Cursor<'b> {
        Cursor::whole(bytes, address, self.sizes).verifying(self.verify)
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The object's key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns `true` if many reads at once take about as long as one. Then prefetching pays off.
    pub(crate) fn prefers_rounds(&self) -> bool {
        self.far
    }

    /// Size of the whole file in bytes.
    pub fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Offset of address 0 in the file.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The first address after the end of the file.
    pub fn end(&self) -> u64 {
        self.size().saturating_sub(self.base)
    }

    /// The file's name in messages.
    pub fn name(&self) -> String {
        format!("'{}' in {}", self.key, self.store.url())
    }

    /// Number of reads from the store so far. For tests.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// Returns the ranges that were read since the last call.
    #[cfg(test)]
    pub(crate) fn take_ranges(&self) -> Vec<(u64, usize)> {
        std::mem::take(&mut self.lock().ranges)
    }

    /// Drops all pages, so that later reads see the file's current contents.
    pub fn forget(&self) -> Result<()> {
        self.forget_pages();
        if let Some(size) = self.store.size(Key::new(&self.key)?)? {
            self.size.store(size, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns `true` if the file is longer now.
    pub(crate) fn has_grown(&self) -> Result<bool> {
        Ok(self.store.size(Key::new(&self.key)?)?.is_some_and(|size| size > self.size()))
    }

    /// Drops all pages. Pages that other threads are reading are not kept, either.
    pub(crate) fn forget_pages(&self) {
        let mut pages = self.lock();
        pages.changes += 1;
        let dropped = std::mem::take(&mut pages.found);
        drop((pages, dropped));
    }

    /// Notes that the file has grown: its addresses end at `end` now, or later.
    pub(crate) fn grow(&self, end: u64) {
        let new = end.saturating_add(self.base);
        let old = self.size.fetch_max(new, Ordering::Relaxed);
        if new > old {
            // The last page was cached with the bytes that it had.
            self.drop_pages(old.saturating_sub(1), old.saturating_add(1));
        }
    }

    /// Drops cached pages with bytes from `start` to `end` of the file, which were changed.
    pub(crate) fn drop_pages(&self, start: u64, end: u64) {
        let mut pages = self.lock();
        pages.changes += 1;
        if pages.found.is_empty() || start >= end {
            return;
        }
        let (first, last) = (start / PAGE, (end - 1) / PAGE);
        let dropped: Vec<_> = if last - first < pages.found.len() as u64 {
            (first..=last).filter_map(|number| pages.found.remove(&number)).collect()
        } else {
            pages
                .found
                .extract_if(|number, _| (first..=last).contains(number))
                .map(|(_, page)| page)
                .collect()
        };
        drop((pages, dropped));
    }

    /// Returns an error about a structure.
    pub fn structure_error(&self, structure: &'static str, address: u64, why: ParseError) -> Hdf5Error {
        match why {
            ParseError::Unsupported(what) => self.unsupported(what),
            why => Hdf5Error::Parse { file: self.name(), object: None, structure, address, why },
        }
    }

    /// Returns an error about a whole structure or its first bytes.
    pub(crate) fn corrupt(&self, structure: &'static str, address: u64, why: String) -> Hdf5Error {
        self.structure_error(structure, address, ParseError::Corrupt { at: address, why })
    }

    fn too_short_error(&self, structure: &'static str, address: u64, len: u64) -> Hdf5Error {
        let why = format!("expected {len} bytes, but the file has only {} bytes in all", self.end());
        self.corrupt(structure, address, why)
    }

    /// Returns an error about an unsupported feature of the file.
    pub fn unsupported(&self, what: String) -> Hdf5Error {
        Hdf5Error::Unsupported { file: self.name(), object: None, what }
    }

    /// Returns an error about data that parses but is not valid.
    pub fn invalid(&self, why: impl Into<String>) -> Hdf5Error {
        Hdf5Error::Invalid { file: self.name(), object: None, why: why.into() }
    }

    /// Parses a structure of about `guess` bytes. If it needs more bytes, `parse` is called again.
    pub fn parse<T>(
        &self,
        structure: &'static str,
        address: u64,
        guess: usize,
        mut parse: impl FnMut(&mut Cursor<'_>) -> Parsed<T>,
    ) -> Result<T> {
        self.go_on()?;
        let available = self.end().saturating_sub(address);
        if available == 0 {
            let why = format!(
                "it is outside the file: the file has only {} bytes after the base address",
                self.end()
            );
            return Err(self.corrupt(structure, address, why));
        }
        let mut wanted = (guess as u64).clamp(1, available);
        loop {
            let bytes = self.bytes(structure, address, wanted)?;
            let mut cursor = self.first(&bytes, address);
            match parse(&mut cursor) {
                Ok(value) => {
                    self.note(structure, address, cursor.position() as u64, 0);
                    return Ok(value);
                }
                Err(ParseError::Need(needed)) if needed > available => {
                    let why = format!(
                        "expected at least {needed} bytes, but the file has only {available} bytes from \
                         this address on"
                    );
                    return Err(self.corrupt(structure, address, why));
                }
                Err(ParseError::Need(needed)) if needed > wanted => {
                    wanted = needed.max(wanted.saturating_mul(2)).min(available);
                }
                Err(why) => return Err(self.parse_error(structure, address, &bytes, why)),
            }
        }
    }

    /// Returns an error about a structure that begins with `bytes`.
    ///
    /// A writer reserves room for a structure before it writes it. Until then the bytes are zeros,
    /// and no structure begins with zeros.
    pub(crate) fn parse_error(
        &self,
        structure: &'static str,
        address: u64,
        bytes: &[u8],
        why: ParseError,
    ) -> Hdf5Error {
        let start = bytes.get(..UNWRITTEN.min(bytes.len())).unwrap_or_default();
        match !start.is_empty() && start.iter().all(|byte| *byte == 0) {
            true => Hdf5Error::Incomplete { file: self.name(), object: None, structure, address },
            false => self.structure_error(structure, address, why),
        }
    }

    /// Returns a cursor over the first bytes of a structure.
    pub(crate) fn first<'b>(&self, bytes: &'b [u8], address: u64) -> Cursor<'b> {
        Cursor::new(bytes, address, self.sizes).verifying(self.verify)
    }

    /// Fails if an interrupt was requested.
    pub(crate) fn go_on(&self) -> Result<()> {
        if interrupt::is_wanted() { Err(Hdf5Error::Interrupted { file: self.name() }) } else { Ok(()) }
    }

    /// Reads the `len` bytes at `address`, which are a structure.
    pub fn read(&self, structure: &'static str, address: u64, len: u64) -> Result<Bytes> {
        let bytes = self.bytes(structure, address, len)?;
        self.note(structure, address, len, 0);
        Ok(bytes)
    }

    /// Reads the `len` bytes at `address`, which are a part of a structure.
    pub(crate) fn bytes(&self, structure: &'static str, address: u64, len: u64) -> Result<Bytes> {
        let end = address.checked_add(len).filter(|end| *end <= self.end() && len <= LARGEST);
        let end = end.ok_or_else(|| self.too_short_error(structure, address, len))?;
        let (start, end) = (address.saturating_add(self.base), end.saturating_add(self.base));
        let (first, last) = (start / PAGE, end.saturating_sub(1).max(start) / PAGE);
        if first == last {
            let page = self.page(first)?;
            let skip = first * PAGE;
            return Ok(Bytes::of(page, to_usize(start - skip)..to_usize(end - skip)));
        }
        // Large structures do not go into the page cache as well.
        let mut bytes = Vec::new();
        let failed = || self.invalid(format!("no memory for {structure} of {len} bytes"));
        // The conversion to [`Bytes`] makes a second copy.
        if !room::for_copies(to_usize(len), 2) {
            return Err(failed());
        }
        bytes.try_reserve_exact(to_usize(len)).map_err(|_| failed())?;
        if last - first >= 4 {
            bytes.resize(to_usize(len), 0);
            if !self.far || !self.copy_kept(start, &mut bytes) {
                self.fetch(start, &mut bytes)?;
            }
            return Ok(bytes.into());
        }
        self.announce(&[(address, len)])?;
        for number in first..=last {
            let page = self.page(number)?;
            let skip = number * PAGE;
            let part = to_usize(start.max(skip) - skip)..to_usize(end.min(skip + PAGE) - skip);
            bytes.extend_from_slice(page.get(part).unwrap_or_default());
        }
        Ok(bytes.into())
    }

    /// Fills buffers from their addresses in one request. Uses cached pages, but does not cache
    /// any.
    pub fn read_into<'m>(
        &self,
        structure: &'static str,
        places: impl IntoIterator<Item = (u64, &'m mut [u8])>,
    ) -> Result<()> {
        let mut ranges = Vec::new();
        for (address, buf) in places {
            let len = buf.len() as u64;
            if address.checked_add(len).is_none_or(|end| end > self.end()) {
                return Err(self.too_short_error(structure, address, len));
            }
            let offset = address.saturating_add(self.base);
            if !self.copy_kept(offset, buf) {
                ranges.push(RangeRead { offset, buf });
            }
        }
        if ranges.is_empty() { Ok(()) } else { self.fetch_ranges(&mut ranges) }
    }

    /// Fills memory from cached pages. `false`: a page is missing.
    fn copy_kept(&self, offset: u64, buf: &mut [u8]) -> bool {
        let pages = self.lock();
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let (number, skip) = (at / PAGE, to_usize(at % PAGE));
            let Some(here) = pages.found.get(&number).and_then(|page| page.get(skip..)) else { return false };
            let len = here.len().min(rest.len());
            let (Some(here), true) = (here.get(..len), len > 0) else { return false };
            let (place, later) = rest.split_at_mut(len);
            place.copy_from_slice(here);
            at = at.saturating_add(len as u64);
            rest = later;
        }
        true
    }

    /// Prefetches the structures if the store is far away ([`Source::prefetch`]). Does nothing on a
    /// near store: there, unused bytes cost more than another read.
    pub(crate) fn announce(&self, structures: &[(u64, u64)]) -> Result<()> {
        if self.far { self.prefetch(structures) } else { Ok(()) }
    }

    /// Fetches the pages of many `(address, length)` at once. Ignores ranges that are out of
    /// bounds.
    pub fn prefetch(&self, structures: &[(u64, u64)]) -> Result<()> {
        let ranges = structures.iter().map(|(address, len)| (address.saturating_add(self.base), *len));
        self.fetch_pages(&ranges.collect::<Vec<_>>(), to_usize(KEPT / PAGE / 2)).map(drop)
    }

    /// Fetches the first `most` missing pages of ranges of the file. Returns the number of fetched
    /// pages.
    pub(crate) fn fetch_pages(&self, ranges: &[(u64, u64)], most: usize) -> Result<usize> {
        let mut wanted: Vec<u64> = Vec::new();
        {
            let (pages, mut seen) = (self.lock(), HashSet::new());
            for (start, len) in ranges {
                let end = start.saturating_add((*len).max(1)).min(self.size());
                if *start < end {
                    let numbers = (start / PAGE..=(end - 1) / PAGE).take(most);
                    wanted.extend(numbers.filter(|n| !pages.found.contains_key(n) && seen.insert(*n)));
                }
                if wanted.len() >= most {
                    break;
                }
            }
        }
        wanted.truncate(most);
        wanted.sort_unstable();
        let changes = self.lock().changes;
        // Adjacent pages become one read.
        let mut reads: Vec<(u64, Vec<u8>)> = Vec::new();
        for run in wanted.chunk_by(|a, b| a + 1 == *b) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let start = first * PAGE;
            let len = ((last + 1) * PAGE).min(self.size()).saturating_sub(start);
            reads.push((*first, vec![0; usize::try_from(len).unwrap_or(0)]));
        }
        for some in reads.chunks_mut(self.runs()) {
            self.go_on()?;
            let ranges = some.iter_mut().map(|(first, buf)| RangeRead { offset: *first * PAGE, buf });
            self.fetch_ranges(&mut ranges.collect::<Vec<_>>())?;
        }
        self.make_room(wanted.len());
        for (first, bytes) in reads {
            for (number, part) in (first..).zip(bytes.chunks(to_usize(PAGE))) {
                self.keep(number, part.into(), changes);
            }
        }
        Ok(wanted.len())
    }

    /// Number of ranges per call of the store.
    pub(crate) fn runs(&self) -> usize {
        if self.far { usize::MAX } else { RUNS }
    }

    /// Largest number of pages to prefetch. The transfer takes as long as a few requests.
    pub(crate) fn prefetch_limit(&self) -> usize {
        let (least, most) = FORESEEN;
        to_usize(self.store.cost().request.saturating_mul(16) / PAGE).clamp(least, most)
    }

    fn page(&self, number: u64) -> Result<Arc<[u8]>> {
        if let Some(page) = self.lock().found.get(&number) {
            return Ok(page.clone());
        }
        let changes = self.lock().changes;
        let start = number.saturating_mul(PAGE);
        let len = PAGE.min(self.size().saturating_sub(start));
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        self.fetch(start, &mut bytes)?;
        let page: Arc<[u8]> = bytes.into();
        self.keep(number, page.clone(), changes);
        Ok(page)
    }

    /// Drops all pages if `more` pages would exceed the limit.
    fn make_room(&self, more: usize) {
        let mut pages = self.lock();
        let full = pages.found.len().saturating_add(more) as u64 > KEPT / PAGE;
        let dropped = if full { std::mem::take(&mut pages.found) } else { HashMap::new() };
        drop((pages, dropped));
    }

    /// Keeps a page, unless the file was changed after `changes` changes.
    fn keep(&self, number: u64, page: Arc<[u8]>, changes: u64) {
        self.make_room(1);
        let mut pages = self.lock();
        if pages.changes == changes {
            pages.found.insert(number, page);
        }
    }

    /// Reads bytes at an offset of the file, independent of the base.
    fn fetch(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.fetch_ranges(&mut [RangeRead { offset, buf }])
    }

    pub(crate) fn fetch_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        if self.far && rehearsal::note(self, ranges) {
            return Err(Hdf5Error::Interrupted { file: self.name() });
        }
        {
            let mut pages = self.lock();
            pages.reads += 1;
            #[cfg(test)]
            pages.ranges.extend(ranges.iter().map(|range| (range.offset, range.buf.len())));
        }
        let found = self.store.read_ranges(Key::new(&self.key)?, None, ranges)?;
        if found {
            if !self.instead.is_empty() {
                ranges.iter_mut().for_each(|range| self.put_instead(range));
            }
            return Ok(());
        }
        Err(StoreError::Io {
            operation: hyperslab_store::Operation::Read,
            key: self.key.clone(),
            url: self.store.url(),
            source: std::io::ErrorKind::NotFound.into(),
        }
        .into())
    }

    /// Overwrites the bytes read from the file with their replacements.
    fn put_instead(&self, range: &mut RangeRead<'_>) {
        let end = range.offset.saturating_add(range.buf.len() as u64);
        for (offset, bytes) in self.instead.iter().take_while(|(offset, _)| *offset < end) {
            let last = offset.saturating_add(bytes.len() as u64).min(end);
            let first = range.offset.max(*offset);
            let index = |at: u64, from: u64| to_usize(at.saturating_sub(from));
            let from = bytes.get(index(first, *offset)..index(last, *offset));
            let to = range.buf.get_mut(index(first, range.offset)..index(last, range.offset));
            if let (true, Some(from), Some(to)) = (first < last, from, to) {
                to.copy_from_slice(from);
            }
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{says, source};

    #[test]
    fn reads_are_pages_and_kept() {
        let bytes: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
        let source = source(&bytes).with_base(7);
        assert_eq!(*source.read("x", 0, 10).unwrap(), bytes[7..17]);
        assert_eq!(*source.read("x", 60_000, 5000).unwrap(), bytes[60_007..65_007]);
        assert_eq!(source.reads(), 1);
        assert_eq!(*source.read("x", 65_000, 70_000).unwrap(), bytes[65_007..135_007]);
        assert_eq!(source.reads(), 3);
        assert_eq!(*source.read("x", 1, 999_000).unwrap(), bytes[8..999_008]);
        assert_eq!(source.reads(), 4);
        source
            .prefetch(&[(400_000, 10), (500_000, 10), (330_000, 1), (999_990, 100), (u64::MAX, 9)])
            .unwrap();
        let reads = source.reads();
        assert_eq!(*source.read("x", 400_000, 10).unwrap(), bytes[400_007..400_017]);
        assert_eq!(*source.read("x", 999_992, 1).unwrap(), bytes[999_999..]);
        assert_eq!(source.reads(), reads);
        for (address, len) in [(999_993, 1), (0, 1_000_000), (u64::MAX, 1), (5, u64::MAX)] {
            assert!(matches!(source.read("x", address, len), Err(Hdf5Error::Parse { .. })));
        }
        assert_eq!(source.read("x", 999_993, 0).unwrap().len(), 0);
    }

    #[test]
    fn bytes_instead_of_those_of_the_file() {
        let bytes = vec![7u8; 200_000];
        let instead = |text: &[u8]| Bytes::from(text.to_vec());
        let places = vec![(199_998, instead(b"end")), (65_530, instead(b"abcdefghij")), (0, instead(b"0"))];
        let source = source(&bytes).with_base(2).with_instead(places);
        assert_eq!(*source.read("x", 65_529, 12).unwrap(), *b"\x07abcdefghij\x07");
        assert_eq!(*source.read("x", 65_533, 3).unwrap(), *b"def");
        assert_eq!(*source.read("x", 0, 2).unwrap(), *b"0\x07");
        let mut whole = vec![0; 199_998];
        source.read_into("x", [(0, whole.as_mut_slice())]).unwrap();
        assert!(whole[..1] == *b"0" && whole[65_530..65_540] == *b"abcdefghij" && whole[199_997] == 7);
    }

    #[test]
    fn what_was_never_written_is_said() {
        let mut bytes = vec![0; 200];
        bytes[150] = 1;
        let source = source(&bytes);
        let wrong = |cursor: &mut Cursor<'_>| cursor.version("list", &[1]);
        for (address, unwritten) in [(0, true), (134, true), (135, false), (140, false), (190, true)] {
            let error = source.parse("list", address, 16, wrong).unwrap_err();
            assert_eq!(matches!(error, Hdf5Error::Incomplete { .. }), unwritten, "{address}: {error}");
            let many = source.parse_many("list", &[(address, 16)], |_, cursor| wrong(cursor).map(drop));
            assert_eq!(matches!(many, Err(Hdf5Error::Incomplete { .. })), unwritten, "{address}: {many:?}");
        }
        says(source.parse("list", 7, 16, wrong).unwrap_err().to_string(), "its writer was killed");
    }

    #[test]
    fn parsers_get_what_they_need() {
        let source = source(&[3, 1, 2, 3, 9]);
        let mut calls = 0;
        let list = source.parse("list", 0, 1, |cursor| {
            calls += 1;
            let count = cursor.u8()?;
            Ok(cursor.take(count.into())?.to_vec())
        });
        assert_eq!((list.unwrap(), calls), (vec![1, 2, 3], 2));
        let error = source.parse("list", 4, 1, |cursor| {
            let count = cursor.u8()?;
            Ok(cursor.take(count.into())?.to_vec())
        });
        let message = error.unwrap_err().to_string();
        says(&message, "list at address 4");
        says(&message, "expected at least 10 bytes");
    }
}
