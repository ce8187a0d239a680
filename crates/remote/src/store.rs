//! The store: the keys of a bucket or of part of one.

use crate::cache::Cache;
use crate::client::{Abilities, Client, Connect, Contents, Fetched, PerProcess, Wanted, Which};
use crate::extra::Beginning;
use crate::failure::{Cause, Failure, Secrets};
use crate::refusals::Refusals;
use crate::runtime::{Lost, Running};
use crate::settings::Settings;
use crate::staged::Staging;
use hyperslab_store::{
    Ask, Begun, Cost, Entry, Expected, Facts, Holds, Key, Many, Mark, Next, Note, Opened, Operation,
    RangeRead, Refusal, Result, SharedStamp, Staged, Stamp, Stamped, Store, StoreError, WriteNotes, Writers,
    waiting,
};
use object_store::path::Path;
use std::fmt;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often to read an object again if others replace it during the read.
const CHANGES: usize = 5;

/// Bytes fetched when an object is opened, if the next range is unknown. They cost little more than
/// asking for the size, and most metadata is shorter.
const OPENING: u64 = 64 << 10;

/// A web server's modification time counts seconds. Contents older than this have another time than
/// anything written from now on, even if clocks differ a little.
const SETTLED: Duration = Duration::from_secs(10);

/// Objects on a server. Cheap to clone.
///
/// With [`WriteNotes`], changes are noted there.
#[derive(Clone)]
pub struct RemoteStore(pub(crate) Arc<Inner>, pub(crate) Option<Arc<WriteNotes>>);

pub(crate) struct Inner {
    /// The URL to show to users, without secrets.
    pub(crate) url: String,
    /// The prefix of this store in the bucket, without leading and trailing slashes.
    pub(crate) prefix: String,
    /// The bucket, with its server.
    pub(crate) identity: String,
    pub(crate) process: Arc<PerProcess>,
    pub(crate) secrets: Secrets,
    pub(crate) cache: Option<Arc<Cache>>,
    /// True if the warning about changes without conditions was given.
    pub(crate) warned: AtomicBool,
    /// True if the last object of [`RemoteStore::put_while`] existed.
    pub(crate) replacing: AtomicBool,
    /// True if the server has said that it does not support conditions.
    pub(crate) unconditional: AtomicBool,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) note: Note,
}

impl fmt::Debug for RemoteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStore").field("url", &self.0.url).finish_non_exhaustive()
    }
}

impl Inner {
    /// Returns whether all other contents have other tags, even contents written now.
    fn is_settled(&self, contents: &Contents) -> bool {
        let age = || {
            let changed = Duration::from_nanos(u64::try_from(contents.modified).ok()?);
            SystemTime::now().duration_since(UNIX_EPOCH + changed).ok()
        };
        self.process.abilities().exact_tags || age().is_some_and(|age| age > SETTLED)
    }

    /// Bytes of an object, from the cache if the server confirms that they are current.
    async fn fetch_cached(
        &self,
        cache: &Arc<Cache>,
        path: &Path,
        wanted: Wanted,
        of: Option<&Contents>,
    ) -> Result<Fetched, Failure> {
        let id = cache.id(path.as_ref());
        let found = cache.find(id, &wanted, of).await;
        let which = match (&found, of) {
            (Some(_), Some(_)) => return found.ok_or(Failure::Missing),
            (Some(_), None) if !cache.asks() => return found.ok_or(Failure::Missing),
            (Some(found), None) => Which::Unless(&found.contents),
            (None, Some(of)) => Which::Only(of),
            (None, None) => Which::Any,
        };
        let client = self.process.get().await?;
        let mut answer = client.get(path, wanted.clone(), which).await;
        if matches!((&answer, which), (Err(Failure::Condition), Which::Unless(_))) {
            // The object is changing, or the server uses this status to say that it has not
            // changed.
            answer = client.get(path, wanted, Which::Any).await;
        }
        match (answer, found) {
            (Err(Failure::Unchanged), Some(found)) => Ok(found),
            (Ok(fetched), _) => {
                if self.is_settled(&fetched.contents) {
                    cache.put(id, &fetched).await;
                }
                Ok(fetched)
            }
            (Err(failure), _) => {
                if matches!(failure, Failure::Condition) {
                    // The next open must find the current contents.
                    cache.forget_later(path.as_ref()).await;
                }
                Err(failure)
            }
        }
    }
}

/// Names and secrets of a bucket.
pub(crate) struct Names {
    pub(crate) url: String,
    pub(crate) prefix: String,
    pub(crate) identity: String,
    pub(crate) secrets: Secrets,
}

/// A running request.
pub(crate) type Fetching = Running<Result<Fetched, Failure>>;

impl RemoteStore {
    pub(crate) fn new(
        names: Names,
        connect: Box<dyn Connect>,
        settings: Settings,
        abilities: Abilities,
    ) -> Self {
        let Names { url, prefix, identity, secrets } = names;
        let cache = settings.cache.as_ref().map(|keep| Cache::new(keep, settings.cache_check, &identity));
        let cache = cache.map(Arc::new);
        let process = Arc::new(PerProcess::new(connect, settings, abilities));
        let (warned, replacing, unconditional, refusals, note) = Default::default();
        let inner = Inner {
            url,
            prefix,
            identity,
            process,
            secrets,
            cache,
            warned,
            replacing,
            unconditional,
            refusals,
            note,
        };
        RemoteStore(Arc::new(inner), None)
    }

    /// The store that contains this root, and the root's name in it. `None` if the root is a
    /// bucket.
    pub(crate) fn above(&self) -> Option<(RemoteStore, &str)> {
        let inner = &self.0;
        let (prefix, name) = inner.prefix.rsplit_once('/').unwrap_or(("", &inner.prefix));
        let above = Inner {
            url: inner.url.rsplit_once('/')?.0.to_owned(),
            prefix: prefix.to_owned(),
            identity: inner.identity.clone(),
            process: inner.process.clone(),
            secrets: inner.secrets.clone(),
            cache: inner.cache.clone(),
            warned: AtomicBool::new(false),
            replacing: AtomicBool::new(false),
            unconditional: AtomicBool::new(false),
            refusals: inner.refusals.clone(),
            note: Note::default(),
        };
        (!name.is_empty()).then_some((RemoteStore(Arc::new(above), None), name))
    }

    /// The name of an object in its bucket.
    pub(crate) fn path(&self, key: Key<'_>) -> Result<Path> {
        let refused = |_| StoreError::InvalidKey {
            key: key.as_str().to_owned(),
            why: "it contains a control character, which names of objects on servers cannot have",
        };
        match self.0.prefix.as_str() {
            "" => Path::parse(key.as_str()),
            prefix => Path::parse(format!("{prefix}/{key}")),
        }
        .map_err(refused)
    }

    /// The name of a prefix in its bucket. `None` for the bucket itself.
    pub(crate) fn prefix_path(&self, prefix: Option<Key<'_>>) -> Result<Option<Path>> {
        match prefix {
            Some(prefix) => self.path(prefix).map(Some),
            None if self.0.prefix.is_empty() => Ok(None),
            None => Ok(Path::parse(&self.0.prefix).ok()),
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        self.0.process.settings()
    }

    pub(crate) fn abilities(&self) -> Abilities {
        self.0.process.abilities()
    }

    /// Starts a request.
    pub(crate) fn start<T, F>(
        &self,
        work: impl FnOnce(Arc<Client>) -> F + Send + 'static,
    ) -> Running<Result<T, Failure>>
    where
        T: Send + Sync + 'static,
        F: Future<Output = Result<T, Failure>> + Send,
    {
        let inner = self.0.clone();
        Running::start(async move {
            let client = inner.process.get().await?;
            work(client).await
        })
    }

    /// Makes a request and waits for its result.
    pub(crate) fn run<T, F>(
        &self,
        key: &str,
        work: impl FnOnce(Arc<Client>) -> F + Send + 'static,
    ) -> Result<Result<T, Failure>>
    where
        T: Clone + Send + Sync + 'static,
        F: Future<Output = Result<T, Failure>> + Send,
    {
        self.start(work).wait().cloned().map_err(|lost| self.lost(lost, key))
    }

    /// Starts a request for bytes of an object. If `of` is given, only of these contents.
    pub(crate) fn fetch(&self, path: Path, wanted: Wanted, of: Option<Contents>) -> Fetching {
        let inner = self.0.clone();
        Running::start(async move {
            match &inner.cache {
                Some(cache) => inner.fetch_cached(cache, &path, wanted, of.as_ref()).await,
                None => {
                    let which = of.as_ref().map_or(Which::Any, Which::Only);
                    inner.process.get().await?.get(&path, wanted, which).await
                }
            }
        })
    }

    /// Begins to open an object. If its key is invalid, [`Begun::finish`] fails.
    pub(crate) fn begin_one<'s>(&'s self, key: Result<String>, next: Next) -> Box<dyn Begun<'s> + 's> {
        let wanted = match next {
            Next::Start(len) => Wanted::Bounded(0..len),
            Next::End(len) => Wanted::Suffix(len),
            Next::Part(start, len) => Wanted::Bounded(start..start.saturating_add(len)),
            Next::All => Wanted::All,
        };
        let begun = key.and_then(|key| {
            let path = self.path(Key::new(&key)?)?;
            let fetching = self.fetch(path.clone(), wanted, None);
            Ok(Beginning { store: self, key, path, fetching })
        });
        match begun {
            Ok(begun) => Box::new(begun),
            Err(error) => Box::new(move || Err(error)),
        }
    }

    /// Waits for a request of [`RemoteStore::fetch`].
    pub(crate) fn fetched<'f>(
        &self,
        fetching: &'f Fetching,
        key: &str,
    ) -> Result<&'f Result<Fetched, Failure>> {
        let fetched = fetching.wait().map_err(|lost| self.lost(lost, key))?;
        if let Some(cache) = &self.0.cache {
            cache.tell(&self.0.url);
        }
        Ok(fetched)
    }

    /// Drops the cached bytes of an object that was, or may have been, changed.
    pub(crate) fn forget(&self, key: Key<'_>) {
        if let (Some(cache), Ok(path)) = (&self.0.cache, self.path(key)) {
            cache.forget(path.as_ref());
        }
    }

    /// The server's description of an object, from the cache if the server need not be asked.
    fn contents(&self, key: Key<'_>) -> Result<Option<Contents>> {
        let path = self.path(key)?;
        match self.0.cache.as_ref().and_then(|cache| cache.contents(path.as_ref())) {
            Some(contents) => Ok(Some(contents)),
            None => self.head(key, Operation::Size),
        }
    }

    pub(crate) fn lost(&self, lost: Lost, key: &str) -> StoreError {
        match lost {
            Lost::Stopped => StoreError::Interrupted { key: key.to_owned(), url: self.url() },
            Lost::Dead => {
                let why = "the thread that talks to the server has ended";
                self.error(Operation::Read, key, &Failure::Other(Cause::new(ErrorKind::Other, why)))
            }
        }
    }

    /// Converts a failure to an error for users.
    pub(crate) fn error(&self, operation: Operation, key: &str, failure: &Failure) -> StoreError {
        let plain = |kind, why: &str| Refusal::new(operation, key, self.url(), kind, why.into());
        let refusal = match failure {
            Failure::Condition => return StoreError::Changed { key: key.to_owned(), url: self.url() },
            Failure::Missing if operation == Operation::Write => {
                plain(ErrorKind::NotFound, "there is no such bucket, or no such upload any more")
            }
            // Handled where the request is made.
            Failure::Unchanged => plain(ErrorKind::Other, "the server says that the object is unchanged"),
            Failure::Missing => plain(ErrorKind::NotFound, "there is no such object"),
            Failure::BeyondEnd => {
                plain(ErrorKind::UnexpectedEof, "the server says that the range is behind the end")
            }
            Failure::NoRanges => plain(ErrorKind::Unsupported, "the server does not give ranges"),
            Failure::Unsupported(cause) | Failure::Other(cause) => {
                let mut refusal = plain(cause.kind, &self.0.secrets.strike(&cause.why));
                refusal.status = cause.status;
                refusal.request = cause.request.as_deref().map(|request| self.0.secrets.strike(request));
                refusal.advice = cause.advice.as_deref().map(|advice| self.0.secrets.strike(advice));
                refusal
            }
        };
        StoreError::Server(Box::new(refusal))
    }

    pub(crate) fn check_size(&self, key: &str, size: Option<u64>, found: u64) -> Result<()> {
        match size {
            Some(expected) if expected != found => {
                Err(StoreError::WrongSize { key: key.to_owned(), url: self.url(), expected, found })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_ask(&self, key: &str, ask: Option<Ask<'_>>) -> Result<()> {
        match ask {
            Some(ask) if ask() => Err(StoreError::Interrupted { key: key.to_owned(), url: self.url() }),
            _ => Ok(()),
        }
    }

    /// Asks the server about an object. `None` if there is none.
    pub(crate) fn head(&self, key: Key<'_>, operation: Operation) -> Result<Option<Contents>> {
        let path = self.path(key)?;
        match self.run(key.as_str(), move |client| async move { client.head(&path).await })? {
            Ok(contents) => Ok(Some(contents)),
            Err(Failure::Missing) => Ok(None),
            Err(failure) => Err(self.error(operation, key.as_str(), &failure)),
        }
    }

    /// The stamp of contents, if equal tags mean equal bytes.
    pub(crate) fn stamp_of(&self, key: &str, contents: &Contents) -> Option<Stamp> {
        let tag = contents.strong_tag()?;
        if !self.0.is_settled(contents) {
            return None;
        }
        let number = contents.number.as_deref().unwrap_or_default();
        let more = self.numbers_of([key, tag, number], [contents.size, contents.modified.cast_unsigned()]);
        let shared = self.shared_stamp(key, tag, contents.size).unwrap_or(more);
        let [first, second, ..] = more;
        Some(Stamp::hashed(shared, [first, second]))
    }

    /// The part of a stamp that listings and answers to writes tell, too. `None` if equal tags do
    /// not mean equal bytes.
    pub(crate) fn shared_stamp(&self, key: &str, tag: &str, size: u64) -> Option<SharedStamp> {
        if !self.abilities().exact_tags || tag.starts_with("W/") {
            return None;
        }
        // Azure's listings leave out the quotes.
        Some(self.numbers_of([key, tag.trim_matches('"'), ""], [size, 0]))
    }

    /// A hash of facts about an object of this store.
    fn numbers_of(&self, texts: [&str; 3], more: [u64; 2]) -> SharedStamp {
        let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
        for text in [&*self.0.identity, &*self.0.prefix].into_iter().chain(texts) {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        more.iter().for_each(|number| hash.update(&number.to_le_bytes()));
        let mut numbers = [0; 4];
        for (number, bytes) in numbers.iter_mut().zip(hash.finish().as_ref().as_chunks::<8>().0) {
            *number = u64::from_le_bytes(*bytes);
        }
        numbers
    }
}

impl Store for RemoteStore {
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        Ok(self.read_ranges_stamped(key, size, ranges)?.0)
    }

    fn read_ranges_stamped(
        &self,
        key: Key<'_>,
        size: Option<u64>,
        ranges: &mut [RangeRead<'_>],
    ) -> Result<Stamped> {
        for _ in 0..CHANGES {
            match self.read_once(key, size, ranges)? {
                // Part of it may have come from the cache.
                None => self.forget(key),
                Some(None) => return Ok((false, None)),
                Some(Some(contents)) => return Ok((true, self.stamp_of(key.as_str(), &contents))),
            }
        }
        Err(StoreError::Changed { key: key.as_str().to_owned(), url: self.url() })
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        let len = size.map_or(OPENING, |size| size.min(self.settings().largest));
        let opened = self.open_next(key, size, Wanted::Bounded(0..len))?;
        Ok(opened.map(|opened| Box::new(opened) as Box<dyn Opened + 's>))
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        Ok(self.read_all_stamped(key, buf, limit)?.0)
    }

    fn read_all_stamped(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<Stamped> {
        buf.clear();
        let running = self.fetch(self.path(key)?, Wanted::AtMost(limit as u64), None);
        let fetched = match self.fetched(&running, key.as_str())? {
            Ok(fetched) => fetched,
            Err(Failure::Missing) => return Ok((false, None)),
            Err(failure) => return Err(self.error(Operation::Read, key.as_str(), failure)),
        };
        if fetched.contents.size > limit as u64 {
            return Err(StoreError::too_large(self, key.as_str(), limit));
        }
        let size = usize::try_from(fetched.contents.size).unwrap_or(usize::MAX);
        let no_room = |_| StoreError::io(self, Operation::Read, key.as_str(), ErrorKind::OutOfMemory);
        buf.try_reserve_exact(size).map_err(no_room)?;
        fetched.pieces.iter().for_each(|piece| buf.extend_from_slice(piece));
        Ok((true, self.stamp_of(key.as_str(), &fetched.contents)))
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        Ok(self.contents(key)?.map(|contents| contents.size))
    }

    fn stamp(&self, key: Key<'_>) -> Result<Option<Stamp>> {
        let contents = self.contents(key)?;
        Ok(contents.and_then(|contents| self.stamp_of(key.as_str(), &contents)))
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        self.put(key, self.payload(key, parts)?)
    }

    fn write_new(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<bool> {
        self.put_over(key, Expected::Absent, Mark::fresh(), self.payload(key, parts)?)
    }

    fn swap(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        parts: &[&[u8]],
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        self.put_asking(key, expected, Mark::fresh(), self.payload(key, parts)?, ask)
    }

    fn swap_owned(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        bytes: &mut Vec<u8>,
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        self.put_asking(key, expected, Mark::fresh(), self.owned(key, bytes)?, ask)
    }

    fn swap_out(&self, key: Key<'_>, expected: Expected<'_>, ask: Option<Ask<'_>>) -> Result<bool> {
        let delete = || match expected {
            Expected::Any => self.delete(key),
            expected => self.delete_if(key, expected),
        };
        match ask {
            Some(ask) => waiting::with_ask(ask, delete),
            None => delete(),
        }
    }

    fn delete(&self, key: Key<'_>) -> Result<bool> {
        self.remove(key)
    }

    fn delete_all(&self, keys: &[Key<'_>], ask: Option<Ask<'_>>) -> Result<()> {
        self.check_ask(keys.first().map_or("", |key| key.as_str()), ask)?;
        match ask {
            Some(ask) => waiting::with_ask(ask, || self.remove_all(keys)),
            None => self.remove_all(keys),
        }
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<()> {
        self.remove_below(prefix)
    }

    fn stage<'s>(&'s self, prefix: Option<Key<'_>>) -> Result<Box<dyn Staged + 's>> {
        Ok(Box::new(Staging::new(self, prefix)?))
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        self.children(prefix)
    }

    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        let keys = self.keys(prefix, usize::MAX)?.unwrap_or_default();
        Ok(keys.into_iter().map(|(key, _)| key).collect())
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        let mut hash = DefaultHasher::new();
        self.0.identity.hash(&mut hash);
        match self.0.prefix.as_str() {
            "" => key.as_str().hash(&mut hash),
            prefix => format!("{prefix}/{key}").hash(&mut hash),
        }
        hash.finish()
    }

    fn cost(&self) -> Cost {
        let request = self.0.process.meter.request();
        Cost { request, range: request, at_once: self.settings().concurrency, frugal: false }
    }

    fn facts(&self) -> Facts {
        Facts {
            swaps_out: false,
            lists: self.abilities().lists,
            is_shared: true,
            waits: true,
            ..Facts::default()
        }
    }

    fn note(&self) -> Option<&Note> {
        Some(&self.0.note)
    }

    fn many(&self) -> Option<&dyn Many> {
        Some(self)
    }

    fn writers(&self) -> Option<&dyn Writers> {
        Some(self)
    }

    fn holds(&self) -> Option<&dyn Holds> {
        Some(self)
    }

    fn url(&self) -> String {
        self.0.url.clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::in_memory;
    use hyperslab_store::contract;

    #[test]
    fn the_contract_holds() {
        contract::check_flat(|| Box::new(in_memory()));
    }
}
