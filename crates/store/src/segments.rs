//! One object made of segments of others: members of a split file, raw data in separate files.
//!
//! 1. A range is cut at segment boundaries.
//! 2. For each segment, its object is opened and one call reads all cuts.
//! 3. If the store was created with `zeros`, bytes past the end of a segment's object read as
//!    zeros: they have not been written yet.
//!
//! The store in `local/file.rs` has one key too, but nothing else in common with this one. It holds
//! one open file.

use crate::{
    Cost, Facts, HeldObject, Holds, Key, OnDisk, Opened, Operation, RangeRead, Result, Store, StoreError,
    check_size, hash,
};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A range of an object in a store.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The object's store.
    pub store: Arc<dyn Store>,
    /// The object's key.
    pub key: String,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

/// One object made of consecutive segments of others. Read-only.
#[derive(Clone, Debug)]
pub struct SegmentStore {
    key: String,
    segments: Vec<Segment>,
    /// Offset of each segment in the object.
    starts: Vec<u64>,
    size: u64,
    zeros: bool,
}

impl SegmentStore {
    /// An object `key` with the contents of `segments` in this order.
    ///
    /// A segment may be longer than its object. With `zeros`, the missing bytes read as zeros;
    /// otherwise reads fail with [`StoreError::OutOfRange`]. A missing object is always an error,
    /// because the caller named it.
    ///
    /// Anything beyond 2⁶⁴ - 1 bytes is left out.
    pub fn new(key: &str, mut segments: Vec<Segment>, zeros: bool) -> Self {
        let (mut starts, mut size) = (Vec::new(), 0u64);
        for segment in &mut segments {
            segment.len = segment.len.min(u64::MAX - size);
            starts.push(size);
            size += segment.len;
        }
        SegmentStore { key: key.to_owned(), segments, starts, size, zeros }
    }

    fn has(&self, key: Key<'_>) -> bool {
        key.as_str() == self.key
    }

    fn open_segment(&self, segment: usize) -> Result<Option<Box<dyn Opened + '_>>> {
        let Some(Segment { store, key, .. }) = self.segments.get(segment) else { return Ok(None) };
        let missing = || StoreError::io(&**store, Operation::Read, key, io::ErrorKind::NotFound);
        store.open(Key::new(key)?, None)?.ok_or_else(missing).map(Some)
    }

    /// Cuts ranges at segment boundaries, and calls `read` for each segment with its cuts.
    ///
    /// The offsets of cuts are relative to the segment's object.
    fn for_each_segment(
        &self,
        ranges: &mut [RangeRead<'_>],
        mut read: impl FnMut(usize, &mut [RangeRead<'_>]) -> Result<()>,
    ) -> Result<()> {
        let mut cuts: Vec<(usize, RangeRead<'_>)> = Vec::new();
        for RangeRead { offset, buf } in ranges.iter_mut().filter(|range| !range.buf.is_empty()) {
            let (len, mut at, mut rest) = (buf.len() as u64, *offset, &mut **buf);
            if at.checked_add(len).is_none_or(|end| end > self.size) {
                return Err(StoreError::out_of_range(self, &self.key, at, len, self.size));
            }
            let mut number = self.starts.partition_point(|start| *start <= at).saturating_sub(1);
            while let (false, Some(segment), Some(start)) =
                (rest.is_empty(), self.segments.get(number), self.starts.get(number))
            {
                let within = at - start;
                let room = usize::try_from(segment.len.saturating_sub(within)).unwrap_or(usize::MAX);
                let (cut, behind) = rest.split_at_mut(room.min(rest.len()));
                if !cut.is_empty() {
                    at += cut.len() as u64;
                    // On overflow, past the end of any file: the read reports that.
                    let offset = segment.offset.saturating_add(within);
                    cuts.push((number, RangeRead { offset, buf: cut }));
                }
                rest = behind;
                number += 1;
            }
        }
        cuts.sort_by_key(|(number, _)| *number);
        let mut cuts = cuts.into_iter().peekable();
        let mut of_one = Vec::new();
        while let Some((number, cut)) = cuts.next() {
            of_one.push(cut);
            if cuts.peek().is_none_or(|(next, _)| *next != number) {
                read(number, &mut of_one)?;
                of_one.clear();
            }
        }
        Ok(())
    }

    /// Reads the cuts of one segment from its object.
    fn read_cuts(&self, opened: &dyn Opened, cuts: &mut [RangeRead<'_>]) -> Result<()> {
        if !self.zeros {
            return opened.read_ranges(cuts);
        }
        let size = opened.size();
        let mut stored = Vec::with_capacity(cuts.len());
        for RangeRead { offset, buf } in cuts {
            let room = usize::try_from(size.saturating_sub(*offset)).unwrap_or(usize::MAX);
            let (there, beyond) = buf.split_at_mut(room.min(buf.len()));
            beyond.fill(0);
            stored.push(RangeRead { offset: *offset, buf: there });
        }
        opened.read_ranges(&mut stored)
    }
}

/// All segments' objects, open.
#[derive(Debug)]
struct OpenSegments<'s> {
    store: &'s SegmentStore,
    opened: Vec<Option<Box<dyn Opened + 's>>>,
}

impl Opened for OpenSegments<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.store.for_each_segment(ranges, |number, cuts| match self.opened.get(number) {
            Some(Some(opened)) => self.store.read_cuts(&**opened, cuts),
            _ => Ok(()),
        })
    }

    fn size(&self) -> u64 {
        self.store.size
    }
}

impl Store for SegmentStore {
    fn only(&self) -> Option<&str> {
        Some(&self.key)
    }

    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        if !self.has(key) {
            return Ok(false);
        }
        check_size(self, key, size, self.size)?;
        self.for_each_segment(ranges, |number, cuts| match self.open_segment(number)? {
            Some(opened) => self.read_cuts(&*opened, cuts),
            None => Ok(()),
        })?;
        Ok(true)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        if !self.has(key) {
            return Ok(None);
        }
        check_size(self, key, size, self.size)?;
        let opened: Result<_> = (0..self.segments.len()).map(|number| self.open_segment(number)).collect();
        Ok(Some(Box::new(OpenSegments { store: self, opened: opened? })))
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        buf.clear();
        if !self.has(key) {
            return Ok(false);
        }
        let fits = usize::try_from(self.size).ok().filter(|size| *size <= limit);
        let size = fits.ok_or_else(|| StoreError::too_large(self, &self.key, limit))?;
        let failed = |_| StoreError::io(self, Operation::Read, &self.key, io::ErrorKind::OutOfMemory);
        buf.try_reserve_exact(size).map_err(failed)?;
        buf.resize(size, 0);
        self.read_ranges(key, None, &mut [RangeRead { offset: 0, buf }])
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        Ok(self.has(key).then_some(self.size))
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        hash::fnv1a(hash::fnv1a(hash::EMPTY, self.url().as_bytes()), key.as_str().as_bytes())
    }

    fn cost(&self) -> Cost {
        let first = self.segments.first();
        first.map_or(Cost { range: 0, ..Cost::NEAR }, |segment| segment.store.cost())
    }

    fn facts(&self) -> Facts {
        Facts {
            is_writable: false,
            waits: self.segments.iter().any(|segment| segment.store.facts().waits),
            reads_ranges: self.segments.iter().all(|segment| segment.store.facts().reads_ranges),
            ..Facts::default()
        }
    }

    fn on_disk(&self) -> Option<&dyn OnDisk> {
        Some(self)
    }

    fn holds(&self) -> Option<&dyn Holds> {
        Some(self)
    }

    /// The URL of the first segment's store. The others are usually beside it.
    fn url(&self) -> String {
        self.segments.first().map_or_else(|| "segments:".into(), |segment| segment.store.url())
    }
}

impl OnDisk for SegmentStore {
    /// The path of the first segment, as with [`Store::url`].
    fn local_path(&self, key: Option<Key<'_>>) -> Option<PathBuf> {
        let first = self.segments.first()?;
        let key = key.map(|_| Key::new(&first.key)).transpose().ok()?;
        first.store.local_path(key)
    }
}

impl Holds for SegmentStore {
    fn close(&self) {
        self.segments.iter().for_each(|segment| segment.store.close());
    }

    fn is_open(&self) -> bool {
        self.segments.iter().all(|segment| segment.store.is_open())
    }

    fn is_current(&self) -> bool {
        self.segments.iter().all(|segment| segment.store.is_current())
    }

    /// The first segment's object, which tells where the others are.
    fn hold(&self, key: Key<'_>) -> Result<Option<HeldObject>> {
        match self.segments.first() {
            Some(first) if self.has(key) => first.store.hold(Key::new(&first.key)?),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use crate::contract::{self, key};

    /// One store with an object for each part.
    fn objects(parts: &[&[u8]]) -> Arc<MemoryStore> {
        let store = Arc::new(MemoryStore::new());
        for (n, part) in parts.iter().enumerate() {
            store.write(key(&n.to_string()), &[part]).unwrap();
        }
        store
    }

    fn segment(store: &Arc<MemoryStore>, key: &str, offset: u64, len: u64) -> Segment {
        Segment { store: store.clone(), key: key.into(), offset, len }
    }

    fn read(store: &SegmentStore, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut buf = vec![0xEE; len];
        assert!(store.read_ranges(key("all"), None, &mut [RangeRead { offset, buf: &mut buf }])?);
        Ok(buf)
    }

    #[test]
    fn the_contract_of_reading_holds() {
        // Cut in three, with an empty middle. Each part is in the middle of an object, and the
        // objects are in reverse order.
        for zeros in [false, true] {
            contract::check_reading(|name, bytes| {
                let (a, b) = bytes.split_at(bytes.len() / 3);
                let framed = |part: &[u8]| [b"head", part, b"tail"].concat();
                let store = objects(&[&framed(b), &framed(a)]);
                let segments = vec![
                    segment(&store, "1", 4, a.len() as u64),
                    segment(&store, "1", 9, 0),
                    segment(&store, "0", 4, b.len() as u64),
                ];
                Box::new(SegmentStore::new(name, segments, zeros))
            });
        }
    }

    #[test]
    fn short_and_missing_objects() {
        let store = objects(&[b"0123", b"45"]);
        let segments = || vec![segment(&store, "0", 2, 4), segment(&store, "1", 0, 4)];
        let strict = SegmentStore::new("all", segments(), false);
        assert_eq!(read(&strict, 0, 2).unwrap(), b"23");
        assert_eq!(read(&strict, 4, 2).unwrap(), b"45");
        let error = read(&strict, 1, 4).unwrap_err();
        assert!(matches!(&error, StoreError::OutOfRange { key, size: 4, .. } if key == "0"), "{error}");
        let zeros = SegmentStore::new("all", segments(), true);
        assert_eq!(read(&zeros, 0, 8).unwrap(), b"23\0\x0045\0\0");
        assert_eq!(read(&zeros, 3, 2).unwrap(), b"\x004");
        assert!(matches!(read(&zeros, 3, 6), Err(StoreError::OutOfRange { size: 8, .. })));
        let opened = zeros.open(key("all"), Some(8)).unwrap().unwrap();
        let mut buf = [0xEE; 6];
        opened.read_ranges(&mut [RangeRead { offset: 1, buf: &mut buf }]).unwrap();
        assert_eq!(&buf, b"3\0\x0045\0");

        let gone = vec![segment(&store, "0", 0, 1), segment(&store, "gone", 0, 4)];
        let gone = SegmentStore::new("all", gone, true);
        assert_eq!(read(&gone, 0, 1).unwrap(), b"0");
        let error = read(&gone, 0, 2).unwrap_err();
        assert_eq!(error.io_kind(), Some(io::ErrorKind::NotFound));
        assert!(error.to_string().contains("'gone'"), "{error}");
        assert!(gone.open(key("all"), None).is_err());
    }

    #[test]
    fn absurd_lengths() {
        let store = objects(&[b"0123"]);
        let segments = vec![segment(&store, "0", 0, u64::MAX - 1), segment(&store, "0", u64::MAX, u64::MAX)];
        let all = SegmentStore::new("all", segments, true);
        assert_eq!(all.size(key("all")).unwrap(), Some(u64::MAX));
        assert_eq!(read(&all, 2, 4).unwrap(), b"23\0\0");
        assert_eq!(read(&all, u64::MAX - 2, 2).unwrap(), b"\0\0");
        assert!(matches!(read(&all, u64::MAX, 1), Err(StoreError::OutOfRange { .. })));
        let error = all.read_all(key("all"), &mut Vec::new(), 1000).unwrap_err();
        assert!(matches!(error, StoreError::TooLarge { .. }));
        let nothing = SegmentStore::new("all", vec![], true);
        assert_eq!(read(&nothing, 0, 0).unwrap(), b"");
        assert!(read(&nothing, 0, 1).is_err());
    }
}
