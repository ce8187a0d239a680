//! Connections of one process to a server, and requests.
//!
//! Connections belong to the threads of a process, so a forked child creates its own client from
//! the configuration. Every request waits for one of [`Settings::in_all`] permits, has a deadline,
//! and returns a [`Failure`] that can be shown to users.

use crate::failure::{Cause, Failure, failure};
use crate::marks::Marks;
use crate::meter::Meter;
use crate::settings::Settings;
use crate::transport::run_traced;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use hyperslab_store::fork::{self, Mutex};
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{Attribute, Attributes, GetOptions, GetRange, GetResult, ObjectStore};
use std::fmt;
use std::future::Future;
use std::io::ErrorKind;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OnceCell, Semaphore};

/// Capabilities of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// True if the server returns the last bytes of an object of unknown size.
    pub(crate) suffixes: bool,
    /// True if equal entity tags mean equal bytes, however fast an object changes.
    ///
    /// Plain web servers derive tags from a time in seconds.
    pub(crate) exact_tags: bool,
    /// True if the server compares version numbers instead of tags.
    pub(crate) numbered: bool,
    /// True if the server lists objects.
    pub(crate) lists: bool,
    /// True if objects can be written in parts.
    pub(crate) parts: bool,
    /// True if a content encoding belongs to the object, so that its stored bytes are sent.
    ///
    /// If not, the server encodes its responses, as web servers do.
    pub(crate) stores_encoded: bool,
    /// True if requests are unsigned.
    pub(crate) anonymous: bool,
}

/// Connects to a server.
pub(crate) trait Connect: Send + Sync + fmt::Debug {
    /// Creates a client. On failure, returns the reason without secrets.
    fn connect(&self) -> BoxFuture<'_, Result<Connected, Box<Cause>>>;
}

/// The server's description of an object's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    pub(crate) size: u64,
    pub(crate) tag: Option<String>,
    pub(crate) number: Option<String>,
    /// Nanoseconds since 1970.
    pub(crate) modified: i64,
    /// The replacements that led to these contents.
    pub(crate) marks: Option<Marks>,
}

impl Contents {
    fn new(GetResult { meta, attributes, .. }: &GetResult) -> Self {
        Contents {
            size: meta.size,
            tag: meta.e_tag.clone(),
            number: meta.version.clone(),
            modified: meta.last_modified.timestamp_nanos_opt().unwrap_or_default(),
            marks: Marks::from_attributes(attributes),
        }
    }

    /// Returns whether both are the same contents, as far as the server tells.
    pub(crate) fn is(&self, other: &Contents) -> bool {
        self.size == other.size
            && match (&self.tag, &other.tag) {
                (Some(one), Some(other)) => one == other,
                _ => self.modified == other.modified,
            }
    }

    /// The tag, if the server compares it byte by byte. (Weak tags are for pages, not for data.)
    pub(crate) fn strong_tag(&self) -> Option<&str> {
        self.tag.as_deref().filter(|tag| !tag.starts_with("W/"))
    }
}

/// Bytes of an object.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    pub(crate) contents: Contents,
    /// Their position in the object.
    pub(crate) range: Range<u64>,
    /// In order, as they arrived.
    pub(crate) pieces: Vec<Bytes>,
}

impl Fetched {
    /// A range, if it is within one of the pieces.
    pub(crate) fn in_one_piece(&self, wanted: &Range<u64>) -> Option<Bytes> {
        let mut at = self.range.start;
        for piece in &self.pieces {
            let index = |position: u64| usize::try_from(position.checked_sub(at)?).ok();
            if let Some((start, end)) = index(wanted.start).zip(index(wanted.end))
                && start <= end
                && end <= piece.len()
            {
                return Some(piece.slice(start..end));
            }
            at += piece.len() as u64;
        }
        None
    }

    /// Copies the bytes available here into `buf`, which begins at `offset` of the object.
    pub(crate) fn copy_to(&self, offset: u64, buf: &mut [u8]) {
        let end = offset.saturating_add(buf.len() as u64);
        let mut at = self.range.start;
        for piece in &self.pieces {
            let next = at + piece.len() as u64;
            let (from, to) = (at.max(offset), next.min(end));
            if from < to {
                let index = |position: u64, base: u64| usize::try_from(position - base).unwrap_or(usize::MAX);
                if let (Some(source), Some(target)) = (
                    piece.get(index(from, at)..index(to, at)),
                    buf.get_mut(index(from, offset)..index(to, offset)),
                ) {
                    target.copy_from_slice(source);
                }
            }
            at = next;
        }
    }
}

/// The bytes to request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    /// The whole object, if it has at most this many bytes.
    AtMost(u64),
    Bounded(Range<u64>),
    Suffix(u64),
}

/// The contents of an object to request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which<'c> {
    Any,
    /// Only these. Others are [`Failure::Condition`].
    Only(&'c Contents),
    /// Any except these, which are [`Failure::Unchanged`].
    Unless(&'c Contents),
}

/// The compression of a response body.
fn compression(attributes: &Attributes) -> Option<&str> {
    const NAMES: [&str; 7] = ["gzip", "x-gzip", "deflate", "compress", "br", "zstd", "dcb"];
    let names = attributes.get(&Attribute::ContentEncoding)?.as_ref();
    names.split(',').map(str::trim).find(|name| NAMES.iter().any(|known| name.eq_ignore_ascii_case(known)))
}

/// Connections to a server.
pub(crate) struct Connected {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The same client, for servers that list in pages.
    pub(crate) pages: Option<Arc<dyn PaginatedListStore>>,
    /// The same client, for servers that take objects in parts.
    pub(crate) multiparts: Option<Arc<dyn MultipartStore>>,
}

/// The client of one process.
pub(crate) struct Client {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) pages: Option<Arc<dyn PaginatedListStore>>,
    pub(crate) multiparts: Option<Arc<dyn MultipartStore>>,
    permits: Semaphore,
    /// For the bodies of large responses.
    bodies: Semaphore,
    pub(crate) settings: Settings,
    pub(crate) abilities: Abilities,
    meter: Arc<Meter>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("abilities", &self.abilities).finish_non_exhaustive()
    }
}

/// Longer bodies wait for one of the [`BODIES_PER_CORE`] permits.
const LONG_BODY: u64 = 1 << 20;

/// At most eight responses over 1 MiB are downloaded per core at once. A core decodes that many, at
/// about 50 MB/s each. If all arrived together, cores would idle until the end.
const BODIES_PER_CORE: usize = 8;

/// Most memory to reserve before any of a body has arrived. A server may promise anything.
const RESERVED: u64 = 64 << 20;

/// How often to request a truncated body again from its start.
const AGAIN: usize = 3;

impl Client {
    /// Makes a request: waits for a permit, watches the deadline, and interprets errors.
    ///
    /// `bytes` is the number of bytes it transfers.
    pub(crate) async fn request<T>(
        &self,
        bytes: u64,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        self.counted(bytes, work).await.0
    }

    /// Like [`Client::request`], and returns how many requests were sent.
    pub(crate) async fn counted<T>(
        &self,
        bytes: u64,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> (Result<T, Failure>, usize) {
        let _permit = self.permits.acquire().await;
        self.run_watched(bytes, work).await
    }

    /// Runs a request, or a step of one, that already has a permit.
    async fn run_watched<T>(
        &self,
        bytes: u64,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> (Result<T, Failure>, usize) {
        match run_traced(self.settings.deadline_of(bytes), work).await {
            (Some(Ok(done)), trace) => (Ok(done), trace.sent),
            (Some(Err(error)), trace) => (Err(failure(&error, &trace, self.abilities.anonymous)), trace.sent),
            (None, _) => {
                let why = "the server did not answer in time";
                (Err(Failure::Other(Cause::new(ErrorKind::TimedOut, why))), 0)
            }
        }
    }

    /// Repeats work of several requests from the start if the body of a response is truncated.
    ///
    /// The layer below retries only until a response begins. For work that may be done twice.
    pub(crate) async fn retry_truncated<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        work: impl Fn() -> F,
    ) -> Result<T, Failure> {
        for again in 0..AGAIN.min(self.settings.retries) {
            match work().await {
                Err(failure) if failure.is_transient() => {
                    tokio::time::sleep(Duration::from_millis(50 << again)).await;
                }
                result => return result,
            }
        }
        work().await
    }

    /// Requests the server's description of an object.
    pub(crate) async fn head(&self, path: &Path) -> Result<Contents, Failure> {
        let begun = Instant::now();
        let options = GetOptions { head: true, ..GetOptions::default() };
        let result = self.request(0, self.store.get_opts(path, options)).await?;
        self.meter.record_latency(begun.elapsed());
        self.check_encoding(&result.attributes)?;
        Ok(Contents::new(&result))
    }

    /// Fails if the bytes of a response differ from the bytes of the object.
    fn check_encoding(&self, attributes: &Attributes) -> Result<(), Failure> {
        match compression(attributes) {
            Some(name) if !self.abilities.stores_encoded => {
                let why = format!("the server sent the object compressed (Content-Encoding: {name})");
                let mut cause = Cause::new(ErrorKind::InvalidData, why);
                cause.advice = Some("Turn off the compression of this data on the server".into());
                Err(Failure::Other(cause))
            }
            _ => Ok(()),
        }
    }

    /// Requests bytes of an object. A range is cut at the object's end.
    pub(crate) async fn get(
        &self,
        path: &Path,
        wanted: Wanted,
        which: Which<'_>,
    ) -> Result<Fetched, Failure> {
        match wanted {
            Wanted::Suffix(len) if !self.abilities.suffixes => {
                let contents = self.head(path).await?;
                if matches!(which, Which::Unless(known) if known.is(&contents)) {
                    return Err(Failure::Unchanged);
                }
                let range = contents.size.saturating_sub(len)..contents.size;
                self.get_range(path, range, &contents).await
            }
            Wanted::Suffix(0) => {
                let contents = self.head(path).await?;
                Ok(Fetched { range: contents.size..contents.size, contents, pieces: Vec::new() })
            }
            Wanted::Bounded(range) if range.is_empty() => {
                let contents = self.head(path).await?;
                Ok(Fetched { range: 0..0, contents, pieces: Vec::new() })
            }
            wanted => {
                for _ in 0..=AGAIN {
                    match self.get_once(path, &wanted, which).await {
                        Err(Failure::NoRanges) => return self.get_cut(path, wanted, which).await,
                        Err(Failure::BeyondEnd) => {}
                        result => return result,
                    }
                    // The object contains no byte of the range now, or did not when asked.
                    let contents = self.head(path).await?;
                    if matches!(which, Which::Only(of) if !of.is(&contents)) {
                        break;
                    }
                    let end = contents.size;
                    if end == 0 || matches!(&wanted, Wanted::Bounded(range) if range.start >= end) {
                        return Ok(Fetched { range: end..end, contents, pieces: Vec::new() });
                    }
                }
                Err(Failure::Condition)
            }
        }
    }

    async fn get_range(
        &self,
        path: &Path,
        range: Range<u64>,
        contents: &Contents,
    ) -> Result<Fetched, Failure> {
        if range.is_empty() {
            return Ok(Fetched { range, contents: contents.clone(), pieces: Vec::new() });
        }
        self.get_once(path, &Wanted::Bounded(range), Which::Only(contents)).await
    }

    /// Gets a range from a server that returns only whole objects.
    async fn get_cut(&self, path: &Path, wanted: Wanted, which: Which<'_>) -> Result<Fetched, Failure> {
        let mut all = self.get_once(path, &Wanted::All, which).await?;
        let size = all.contents.size;
        let range = match wanted {
            Wanted::All | Wanted::AtMost(_) => 0..size,
            Wanted::Bounded(range) => range.start.min(size)..range.end.min(size),
            Wanted::Suffix(len) => size.saturating_sub(len)..size,
        };
        let len = usize::try_from(range.end - range.start).unwrap_or_default();
        let mut cut = vec![0; len];
        all.copy_to(range.start, &mut cut);
        all.pieces = vec![Bytes::from(cut)];
        all.range = range;
        Ok(all)
    }

    async fn get_once(&self, path: &Path, wanted: &Wanted, which: Which<'_>) -> Result<Fetched, Failure> {
        let (mut again, most) = (0, AGAIN.min(self.settings.retries));
        loop {
            let range = match wanted {
                Wanted::All | Wanted::AtMost(_) => None,
                Wanted::Bounded(range) => Some(GetRange::Bounded(range.clone())),
                Wanted::Suffix(len) => Some(GetRange::Suffix(*len)),
            };
            let tag = |contents: &Contents| contents.strong_tag().map(str::to_owned);
            let (if_match, if_none_match) = match which {
                Which::Any => (None, None),
                Which::Only(of) => (tag(of), None),
                Which::Unless(known) => (None, tag(known)),
            };
            let options = GetOptions { range, if_match, if_none_match, ..GetOptions::default() };
            let body = async {
                let _permit = self.permits.acquire().await;
                let begun = Instant::now();
                let result = self.run_watched(0, self.store.get_opts(path, options)).await.0?;
                let answered = begun.elapsed();
                self.check_encoding(&result.attributes)?;
                let contents = Contents::new(&result);
                if matches!(which, Which::Only(of) if !of.is(&contents)) {
                    return Err(Failure::Condition);
                }
                if matches!(wanted, Wanted::AtMost(most) if contents.size > *most) {
                    // The body is not read.
                    return Ok(Ok(Fetched { contents, range: 0..0, pieces: Vec::new() }));
                }
                let len = result.range.end.saturating_sub(result.range.start);
                let _turn = if len > LONG_BODY { Some(self.bodies.acquire().await) } else { None };
                let encoding = compression(&result.attributes).map(str::to_owned);
                let moving = Instant::now();
                let (range, pieces) = self.run_watched(len, self.body(result)).await.0?;
                self.meter.record_latency(answered);
                self.meter.record_transfer(len, moving.elapsed());
                let pieces = pieces.map_err(|wrong| (wrong, encoding));
                Ok(pieces.map(|pieces| Fetched { contents, range, pieces }))
            };
            let answer = match body.await {
                Ok(answer) => answer,
                // The layer below does not resume a body without a version.
                Err(failure) if again < most && failure.is_transient() => {
                    again += 1;
                    tokio::time::sleep(Duration::from_millis(50 << again)).await;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            let (wrong, encoding) = match answer {
                Ok(fetched) => return Ok(fetched),
                Err(wrong) => wrong,
            };
            // The contents changed in transit, and nobody noticed.
            again += 1;
            if again > most {
                let mut why = format!("the server sent {wrong} bytes than it said");
                if let Some(encoding) = encoding {
                    why.push_str(&format!(": they came compressed (Content-Encoding: {encoding})"));
                }
                return Err(Failure::Other(Cause::new(ErrorKind::UnexpectedEof, why)));
            }
        }
    }

    /// Reads the body of a response, and returns its range.
    ///
    /// The inner `Err` is "fewer" or "more": the number of bytes differs from what the server
    /// announced.
    async fn body(
        &self,
        result: GetResult,
    ) -> object_store::Result<(Range<u64>, Result<Vec<Bytes>, &'static str>)> {
        let range = result.range.clone();
        let mut left = range.end.saturating_sub(range.start);
        let (mut stream, mut first, mut all) = (result.into_stream(), Bytes::new(), Vec::new());
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            let Some(less) = left.checked_sub(piece.len() as u64) else { return Ok((range, Err("more"))) };
            left = less;
            if first.is_empty() {
                first = piece;
                continue;
            }
            // Copied to contiguous memory while it is in the CPU cache. The transport then reuses
            // its own memory.
            if all.is_empty() {
                let len = first.len() as u64 + piece.len() as u64 + left;
                all.reserve_exact(usize::try_from(len.min(RESERVED)).unwrap_or_default());
                all.extend_from_slice(&first);
            }
            all.extend_from_slice(&piece);
        }
        let body = if all.is_empty() { first } else { Bytes::from(all) };
        let pieces = if body.is_empty() { Vec::new() } else { vec![body] };
        Ok((range, if left == 0 { Ok(pieces) } else { Err("fewer") }))
    }
}

/// The client of this process, created on first use.
pub(crate) struct PerProcess {
    connect: Box<dyn Connect>,
    settings: Settings,
    abilities: Abilities,
    pub(crate) meter: Arc<Meter>,
    /// Gated: held to find the cell, not to fill it. A parent's client is never dropped, because
    /// its connections could take locks held by threads that do not exist in this process.
    client: Mutex<Option<(u64, ManuallyDrop<Cell>)>>,
}

/// The client, once it exists. Concurrent tasks wait for the first one to create it.
type Cell = Arc<OnceCell<Arc<Client>>>;

impl fmt::Debug for PerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerProcess").field("connect", &self.connect).finish_non_exhaustive()
    }
}

impl PerProcess {
    pub(crate) fn new(connect: Box<dyn Connect>, settings: Settings, abilities: Abilities) -> Self {
        let meter = Arc::new(Meter::new(settings.gap));
        PerProcess { connect, settings, abilities, meter, client: Mutex::new(None) }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// The client of this process. For tasks.
    pub(crate) async fn get(&self) -> Result<Arc<Client>, Failure> {
        let cell = self.cell();
        let client = cell.get_or_try_init(|| async {
            let connect = tokio::time::timeout(self.settings.deadline, self.connect.connect());
            let late = |_| Cause::new(ErrorKind::TimedOut, "the server did not answer in time");
            let Connected { store, pages, multiparts } = connect.await.map_err(late).flatten()?;
            Ok::<_, Box<Cause>>(Arc::new(Client {
                store,
                pages,
                multiparts,
                permits: Semaphore::new(self.settings.in_all.max(1)),
                bodies: Semaphore::new(
                    BODIES_PER_CORE * std::thread::available_parallelism().map_or(1, usize::from),
                ),
                settings: self.settings.clone(),
                abilities: self.abilities,
                meter: self.meter.clone(),
            }))
        });
        Ok(client.await.map_err(Failure::Other)?.clone())
    }

    fn cell(&self) -> Cell {
        let generation = fork::generation();
        let mut slot = self.client.lock();
        match &*slot {
            Some((of, cell)) if *of == generation => Arc::clone(cell),
            _ => {
                let cell = Cell::default();
                // The previous client belongs to a parent and is not dropped.
                *slot = Some((generation, ManuallyDrop::new(cell.clone())));
                cell
            }
        }
    }
}

impl Drop for PerProcess {
    fn drop(&mut self) {
        if let Some((of, client)) = self.client.lock().take()
            && of == fork::generation()
        {
            drop(ManuallyDrop::into_inner(client));
        }
    }
}
