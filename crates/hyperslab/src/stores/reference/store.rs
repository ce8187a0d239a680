//! The store of references, whose keys are ranges of other objects.

use super::refs::{Odd, Ref};
use super::source::Source;
use super::targets::{Found, NotFound, Targets, redact_url};
use hyperslab_store::fork::Mutex;
use hyperslab_store::{
    Begun, BrokenReference, Cost, EachOpened, Entry, Facts, Further, HeldObject, Key, Lent, Many, Next,
    Opened, Opening, Operation, RangeRead, Replacement, Result, Stamp, Stamped, Store, StoreError, Unread,
};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longer objects are opened before memory is allocated, because their targets may be shorter.
const LONG: u64 = 16 << 20;

/// Bytes to read when opening a distant object, unless the caller announces the next read.
const OPENING: u64 = 64 << 10;

/// References as a read-only store.
#[derive(Debug)]
pub(super) struct ReferenceStore {
    url: String,
    refs: Source,
    targets: Targets,
    /// A store like the targets' stores, if they are distant.
    far: Option<Arc<dyn Store>>,
    /// A number that is unique among the stores of the process, for stamps.
    number: u64,
}

/// An object to read from a target.
#[derive(Clone, Copy)]
struct Wanted<'w> {
    key: &'w str,
    target: u32,
    /// Offset and length. `None`: the whole target.
    range: Option<(u64, u64)>,
}

/// An object on a server.
struct Far<'w> {
    /// The index among the objects that are opened together.
    n: usize,
    wanted: Wanted<'w>,
    key: String,
    next: Next,
}

impl ReferenceStore {
    /// Makes the store of the references of a document or folder at `url`.
    pub(super) fn new(url: String, refs: Source, targets: Targets) -> Self {
        static STORES: AtomicU64 = AtomicU64::new(0);
        let far = refs.some_url().and_then(|url| targets.similar_store(&url));
        let far = far.filter(|store| store.facts().waits || store.cost().prefers_rounds());
        ReferenceStore { url, refs, targets, far, number: STORES.fetch_add(1, Ordering::Relaxed) }
    }

    fn broken_reference(&self, wanted: Wanted<'_>, why: Unread) -> StoreError {
        let target = redact_url(&self.refs.url(wanted.target));
        let (key, url) = (wanted.key.to_owned(), self.url.clone());
        StoreError::Reference(Box::new(BrokenReference::new(key, url, target, wanted.range, why)))
    }

    /// The reference under a key. Fails if it is malformed.
    fn get(&self, key: &str) -> Result<Option<Ref<'_>>> {
        match self.refs.get(key)? {
            Some(Ref::Odd(Odd { text, why })) => {
                let (text, why) = (text.into_owned(), why.into_owned());
                let broken = BrokenReference::malformed(key.to_owned(), self.url.clone(), text, why);
                Err(StoreError::Reference(Box::new(broken)))
            }
            found => Ok(found),
        }
    }

    fn find(&self, wanted: Wanted<'_>) -> Result<Found<'_>> {
        self.targets.find(wanted.target, &self.refs.url(wanted.target)).map_err(|error| match error {
            NotFound::Unread(why) => self.broken_reference(wanted, why),
            NotFound::Store(error) => self.explain_error(wanted, error),
        })
    }

    /// Turns an error about a target into an error about the reference, if that says more.
    fn explain_error(&self, wanted: Wanted<'_>, error: StoreError) -> StoreError {
        let (key, url) = (wanted.key.to_owned(), self.url.clone());
        match (error, wanted.range) {
            (StoreError::OutOfRange { size, .. }, Some(_)) => {
                self.broken_reference(wanted, Unread::Short(size))
            }
            (StoreError::OutOfRange { offset, len, size, .. }, None) => {
                StoreError::OutOfRange { key, url, offset, len, size }
            }
            (StoreError::WrongSize { expected, found, .. }, _) => {
                StoreError::WrongSize { key, url, expected, found }
            }
            (StoreError::TooLarge { limit, .. }, _) => StoreError::TooLarge { key, url, limit },
            (error @ StoreError::InvalidKey { .. }, _) => {
                self.broken_reference(wanted, Unread::Unreachable(error.to_string()))
            }
            (error, _) => error,
        }
    }

    /// The stamp of bytes from the document.
    fn inline_stamp(&self, key: &str) -> Stamp {
        // The device number is below the numbers for counted versions, hashes and archives.
        Stamp::new([Stamp::NO_DEVICE - 8, self.number, hash(&self.url), hash(key), key.len() as u64, 0, 0])
    }

    fn out_of_range(&self, key: &str, range: &RangeRead<'_>, size: u64) -> StoreError {
        let (offset, len) = (range.offset, range.buf.len() as u64);
        StoreError::OutOfRange { key: key.to_owned(), url: self.url.clone(), offset, len, size }
    }

    /// Fails if a range is not within an object of `size` bytes.
    fn check_ranges(&self, key: &str, size: u64, ranges: &[RangeRead<'_>]) -> Result<()> {
        let beyond = |range: &&RangeRead<'_>| {
            let end = range.offset.checked_add(range.buf.len() as u64);
            !range.buf.is_empty() && end.is_none_or(|end| end > size)
        };
        ranges.iter().find(beyond).map_or(Ok(()), |range| Err(self.out_of_range(key, range, size)))
    }

    fn check_size(&self, key: &str, expected: Option<u64>, found: u64) -> Result<()> {
        match expected {
            Some(expected) if expected != found => {
                let (key, url) = (key.to_owned(), self.url.clone());
                Err(StoreError::WrongSize { key, url, expected, found })
            }
            _ => Ok(()),
        }
    }

    fn copy_inline(&self, key: &str, bytes: &[u8], ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.check_ranges(key, bytes.len() as u64, ranges)?;
        for RangeRead { offset, buf } in ranges.iter_mut().filter(|range| !range.buf.is_empty()) {
            let start = usize::try_from(*offset).unwrap_or(usize::MAX);
            let bytes = bytes.get(start..start.saturating_add(buf.len())).unwrap_or_default();
            buf.copy_from_slice(bytes);
        }
        Ok(())
    }

    /// Reads from a target.
    fn read_target(
        &self,
        wanted: Wanted<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
        stamped: bool,
    ) -> Result<Stamped> {
        let (offset, size) = match wanted.range {
            None => (0, size),
            Some((offset, len)) => {
                self.check_size(wanted.key, size, len)?;
                self.check_ranges(wanted.key, len, ranges)?;
                if ranges.iter().all(|range| range.buf.is_empty()) && !stamped {
                    return Ok((true, None));
                }
                (offset, None)
            }
        };
        let found = self.find(wanted)?;
        let (store, key) = found.parts();
        let read = read_shifted(offset, ranges, |ranges| match stamped {
            true => store.read_ranges_stamped(Key::new(key)?, size, ranges),
            false => Ok((store.read_ranges(Key::new(key)?, size, ranges)?, None)),
        });
        match read.map_err(|error| self.explain_error(wanted, error))? {
            (false, _) => Err(self.broken_reference(wanted, Unread::Missing)),
            (true, stamp) => Ok((true, stamp_of(stamp, wanted.range))),
        }
    }

    fn opened_inline<'s>(&'s self, key: &str, bytes: Cow<'s, [u8]>) -> Box<dyn Opened + 's> {
        Box::new(OpenInline { store: self, key: key.to_owned(), bytes })
    }

    /// Makes the open object for a reference from the opened target.
    fn opened<'s>(
        &'s self,
        wanted: Wanted<'_>,
        size: Option<u64>,
        opened: Result<Option<Box<dyn Opened + 's>>>,
    ) -> Result<Box<dyn Opened + 's>> {
        let Some(opened) = opened.map_err(|error| self.explain_error(wanted, error))? else {
            return Err(self.broken_reference(wanted, Unread::Missing));
        };
        let all = opened.size();
        let (offset, len) = wanted.range.unwrap_or((0, all));
        if offset.saturating_add(len) > all {
            return Err(self.broken_reference(wanted, Unread::Short(all)));
        }
        self.check_size(wanted.key, size, len)?;
        let (key, range) = (wanted.key.to_owned(), wanted.range);
        Ok(Box::new(OpenPart { store: self, key, target: wanted.target, range, size: len, opened }))
    }

    fn wanted<'w>(key: Key<'w>, found: &Ref<'_>) -> Option<Wanted<'w>> {
        let key = key.as_str();
        match found {
            Ref::Inline(_) | Ref::Odd(_) => None,
            &Ref::Whole(target) => Some(Wanted { key, target, range: None }),
            &Ref::Part(target, offset, len) => Some(Wanted { key, target, range: Some((offset, len)) }),
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn stamp_of(stamp: Option<Stamp>, range: Option<(u64, u64)>) -> Option<Stamp> {
    match range {
        Some((offset, len)) => stamp.map(|stamp| stamp.part(offset, len)),
        None => stamp,
    }
}

/// Calls `read` with ranges moved up by `by` bytes. The caller has checked for overflow.
fn read_shifted<R>(by: u64, ranges: &mut [RangeRead<'_>], read: impl FnOnce(&mut [RangeRead<'_>]) -> R) -> R {
    ranges.iter_mut().for_each(|range| range.offset = range.offset.wrapping_add(by));
    let answer = read(ranges);
    ranges.iter_mut().for_each(|range| range.offset = range.offset.wrapping_sub(by));
    answer
}

/// Translates the next read of an object to its target. The object is `range` of the target.
fn next_of(range: Option<(u64, u64)>, next: Next) -> Next {
    let Some((offset, len)) = range else { return next };
    match next {
        Next::Start(wanted) => Next::Part(offset, wanted.min(len)),
        Next::End(wanted) => Next::Part(offset + (len - wanted.min(len)), wanted.min(len)),
        Next::Part(at, wanted) => Next::Part(offset + at.min(len), wanted.min(len - at.min(len))),
        Next::All => Next::Part(offset, len),
    }
}

impl Found<'_> {
    fn parts(&self) -> (&dyn Store, &str) {
        match self {
            Found::Held(held) => (&*held.0, &held.1),
            Found::Key(store, key) => (&***store, key),
        }
    }
}

/// Open bytes from the document.
#[derive(Debug)]
struct OpenInline<'s> {
    store: &'s ReferenceStore,
    key: String,
    bytes: Cow<'s, [u8]>,
}

impl Opened for OpenInline<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.store.copy_inline(&self.key, &self.bytes, ranges)
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn stamp(&self) -> Option<Stamp> {
        Some(self.store.inline_stamp(&self.key))
    }

    fn vouched(&self) -> Option<Stamp> {
        self.stamp()
    }
}

/// An open range of an object, or the whole object.
#[derive(Debug)]
struct OpenPart<'s> {
    store: &'s ReferenceStore,
    key: String,
    target: u32,
    range: Option<(u64, u64)>,
    size: u64,
    opened: Box<dyn Opened + 's>,
}

impl OpenPart<'_> {
    fn offset(&self) -> u64 {
        self.range.map_or(0, |(offset, _)| offset)
    }
}

impl Opened for OpenPart<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.store.check_ranges(&self.key, self.size, ranges)?;
        let wanted = Wanted { key: &self.key, target: self.target, range: self.range };
        let read = read_shifted(self.offset(), ranges, |ranges| self.opened.read_ranges(ranges));
        read.map_err(|error| self.store.explain_error(wanted, error))
    }

    fn announce(&self, ranges: &[(u64, u64)], requests: usize) {
        let inside = ranges.iter().filter_map(|(at, len)| {
            let end = at.checked_add(*len).filter(|end| *end <= self.size)?;
            Some((self.offset() + (end - len), *len))
        });
        self.opened.announce(&inside.collect::<Vec<_>>(), requests);
    }

    fn has_arrived(&self, offset: u64, len: u64, most: Duration) -> bool {
        self.opened.has_arrived(self.offset().saturating_add(offset), len, most)
    }

    fn lend(&self, offset: u64, len: u64) -> Result<Option<Lent>> {
        match offset.checked_add(len).is_some_and(|end| end <= self.size) {
            true => self.opened.lend(self.offset().saturating_add(offset), len),
            false => Ok(None),
        }
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn stamp(&self) -> Option<Stamp> {
        stamp_of(self.opened.stamp(), self.range)
    }

    fn vouched(&self) -> Option<Stamp> {
        stamp_of(self.opened.vouched(), self.range)
    }
}

/// A held object in use. It stays open even if it is no longer held for others.
#[derive(Debug)]
struct OpenHeld {
    object: Arc<HeldObject>,
    size: u64,
    stamp: Option<Stamp>,
    /// The common stamp of all reads so far. Gated.
    /// `Some(None)`: they have no common stamp. `None`: no reads.
    vouched: Mutex<Option<Option<Stamp>>>,
}

impl OpenHeld {
    fn open(held: Arc<HeldObject>) -> Result<Option<OpenHeld>> {
        let (store, key) = &*held;
        let key = Key::new(key)?;
        let (Some(size), stamp) = (store.size(key)?, store.stamp(key)?) else { return Ok(None) };
        Ok(Some(OpenHeld { object: held, size, stamp, vouched: Mutex::default() }))
    }
}

impl Opened for OpenHeld {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        let (store, key) = &*self.object;
        let (_, stamp) = store.read_ranges_stamped(Key::new(key)?, None, ranges)?;
        let mut vouched = self.vouched.lock();
        *vouched = Some(stamp.filter(|_| vouched.is_none_or(|before| before == stamp)));
        Ok(())
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    fn vouched(&self) -> Option<Stamp> {
        self.vouched.lock().flatten()
    }
}

impl Store for ReferenceStore {
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        match self.get(key.as_str())? {
            None => Ok(false),
            Some(Ref::Inline(bytes)) => {
                self.check_size(key.as_str(), size, bytes.len() as u64)?;
                self.copy_inline(key.as_str(), &bytes, ranges).map(|()| true)
            }
            Some(found) => match Self::wanted(key, &found) {
                Some(wanted) => Ok(self.read_target(wanted, size, ranges, false)?.0),
                None => Ok(false),
            },
        }
    }

    fn read_ranges_stamped(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<Stamped> {
        match self.get(key.as_str())?.map(|found| Self::wanted(key, &found)) {
            Some(Some(wanted)) => self.read_target(wanted, size, ranges, true),
            Some(None) => self
                .read_ranges(key, size, ranges)
                .map(|there| (there, Some(self.inline_stamp(key.as_str())))),
            None => Ok((false, None)),
        }
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        let wanted = match self.get(key.as_str())? {
            None => return Ok(None),
            Some(Ref::Inline(bytes)) => {
                self.check_size(key.as_str(), size, bytes.len() as u64)?;
                return Ok(Some(self.opened_inline(key.as_str(), bytes)));
            }
            Some(found) => Self::wanted(key, &found),
        };
        let Some(wanted) = wanted else { return Ok(None) };
        let opened = match self.find(wanted)? {
            Found::Held(held) => {
                OpenHeld::open(held).map(|opened| opened.map(|opened| Box::new(opened) as Box<dyn Opened>))
            }
            Found::Key(store, key) => {
                let next = next_of(wanted.range, Next::Start(OPENING));
                let mut answer = Ok(None);
                Key::new(&key).map(|key| {
                    store.open_all(&[Opening { key, next }], &mut |_, opened| answer = opened);
                })?;
                answer
            }
        };
        self.opened(wanted, size, opened).map(Some)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        Ok(self.read_all_stamped(key, buf, limit)?.0)
    }

    fn read_all_stamped(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<Stamped> {
        buf.clear();
        let too_large = || StoreError::TooLarge {
            key: key.as_str().to_owned(),
            url: self.url.clone(),
            limit: limit as u64,
        };
        let Some(found) = self.get(key.as_str())? else { return Ok((false, None)) };
        let size = match found {
            Ref::Inline(bytes) => bytes.len() as u64,
            Ref::Part(_, _, len) => len,
            Ref::Whole(_) | Ref::Odd(_) => {
                let Some(wanted) = Self::wanted(key, &found) else { return Ok((false, None)) };
                let found = self.find(wanted)?;
                let (store, at) = found.parts();
                let read = Key::new(at).and_then(|at| store.read_all_stamped(at, buf, limit));
                let read = read.map_err(|error| self.explain_error(wanted, error))?;
                return if read.0 { Ok(read) } else { Err(self.broken_reference(wanted, Unread::Missing)) };
            }
        };
        let fits = usize::try_from(size).ok().filter(|size| *size <= limit).ok_or_else(too_large)?;
        if size > LONG {
            // Fails if the target is shorter.
            self.open(key, None)?;
        }
        if buf.try_reserve_exact(fits).is_err() {
            let (key, source) = (key.as_str().to_owned(), std::io::ErrorKind::OutOfMemory.into());
            return Err(StoreError::Io { operation: Operation::Read, key, url: self.url.clone(), source });
        }
        buf.resize(fits, 0);
        self.read_ranges_stamped(key, None, &mut [RangeRead { offset: 0, buf }])
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        match self.get(key.as_str())? {
            None => Ok(None),
            Some(Ref::Inline(bytes)) => Ok(Some(bytes.len() as u64)),
            Some(Ref::Part(_, _, len)) => Ok(Some(len)),
            Some(found @ (Ref::Whole(_) | Ref::Odd(_))) => {
                let Some(wanted) = Self::wanted(key, &found) else { return Ok(None) };
                let found = self.find(wanted)?;
                let (store, at) = found.parts();
                let size = store.size(Key::new(at)?)?;
                size.map_or_else(
                    || Err(self.broken_reference(wanted, Unread::Missing)),
                    |size| Ok(Some(size)),
                )
            }
        }
    }

    fn stamp(&self, key: Key<'_>) -> Result<Option<Stamp>> {
        let Some(found) = self.get(key.as_str())? else { return Ok(None) };
        let Some(wanted) = Self::wanted(key, &found) else {
            return Ok(Some(self.inline_stamp(key.as_str())));
        };
        let found = self.find(wanted)?;
        let (store, at) = found.parts();
        Ok(stamp_of(store.stamp(Key::new(at)?)?, wanted.range))
    }

    fn exists(&self, key: Key<'_>) -> Result<bool> {
        Ok(self.refs.get(key.as_str())?.is_some())
    }

    fn replace<'s>(&'s self, key: Key<'_>) -> Result<Box<dyn Replacement + 's>> {
        Err(StoreError::read_only(self, Operation::Write, Some(key)))
    }

    fn delete(&self, key: Key<'_>) -> Result<bool> {
        match self.refs.get(key.as_str())? {
            Some(_) => Err(StoreError::read_only(self, Operation::Delete, Some(key))),
            None => Ok(false),
        }
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<()> {
        match self.list(prefix)?.is_empty() {
            true => Ok(()),
            false => Err(StoreError::read_only(self, Operation::Delete, prefix)),
        }
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        let start = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        let mut children = self.refs.children(&start)?;
        // Sorted keys may separate equal names: `a!` comes between `a` and `a/`.
        children.sort();
        children.dedup();
        Ok(children)
    }

    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        let start = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        self.refs.beginning(&start)
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        hash(&self.url) ^ hash(key.as_str())
    }

    fn cost(&self) -> Cost {
        self.far.as_ref().map_or(Cost::NEAR, |store| store.cost())
    }

    fn facts(&self) -> Facts {
        Facts { is_writable: false, waits: self.far.is_some(), ..Facts::default() }
    }

    fn many(&self) -> Option<&dyn Many> {
        Some(self)
    }

    fn url(&self) -> String {
        self.url.clone()
    }
}

impl Many for ReferenceStore {
    fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        self.refs.prepare(wanted.iter().map(|opening| opening.key.as_str()));
        let mut begun: Vec<Option<Box<dyn Begun<'s> + 's>>> = wanted.iter().map(|_| None).collect();
        let mut put = |n: usize, it: Box<dyn Begun<'s> + 's>| {
            if let Some(slot) = begun.get_mut(n) {
                *slot = Some(it);
            }
        };
        // The objects on servers, grouped by store.
        let mut far: Vec<(&'s Arc<dyn Store>, Vec<Far<'_>>)> = Vec::new();
        for (n, Opening { key, next }) in wanted.iter().enumerate() {
            let found = match self.get(key.as_str()) {
                Ok(found) => found,
                Err(error) => {
                    put(n, Box::new(move || Err(error)));
                    continue;
                }
            };
            let reference = found.and_then(|found| Self::wanted(*key, &found));
            match reference.map(|wanted| (wanted, self.find(wanted))) {
                Some((wanted, Ok(Found::Key(store, at)))) => {
                    let found = Far { n, wanted, key: at, next: next_of(wanted.range, *next) };
                    match far.iter_mut().find(|(other, _)| Arc::ptr_eq(other, store)) {
                        Some((_, all)) => all.push(found),
                        None => far.push((store, vec![found])),
                    }
                }
                Some((_, Err(error))) => put(n, Box::new(move || Err(error))),
                _ => {
                    let key = key.as_str().to_owned();
                    put(n, Box::new(move || self.open(Key::new(&key)?, None)));
                }
            }
        }
        for (store, all) in far {
            let (mut asked, mut openings) = (Vec::new(), Vec::new());
            for found in &all {
                match Key::new(&found.key) {
                    Ok(key) => {
                        asked.push(found);
                        openings.push(Opening { key, next: found.next });
                    }
                    Err(error) => {
                        let error = self.explain_error(found.wanted, error);
                        put(found.n, Box::new(move || Err(error)));
                    }
                }
            }
            for (begun, found) in store.begin(&openings).into_iter().zip(asked) {
                let Wanted { key, target, range } = found.wanted;
                let key = key.to_owned();
                let then =
                    move |opened| self.opened(Wanted { key: &key, target, range }, None, opened).map(Some);
                put(found.n, Box::new(Further { begun, then }));
            }
        }
        begun.into_iter().flatten().collect()
    }

    fn open_all<'s>(&'s self, wanted: &[Opening<'_>], each: EachOpened<'_, 's>) {
        // Also for near targets, because this reads their records together.
        let begun = self.begin(wanted);
        begun.into_iter().enumerate().for_each(|(n, begun)| each(n, begun.finish()));
    }

    fn present(&self, prefix: Option<Key<'_>>, most: usize) -> Option<Vec<String>> {
        let start = prefix.map_or_else(String::new, |prefix| format!("{prefix}/"));
        self.refs.present(&start, most)
    }
}
