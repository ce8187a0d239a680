//! Writes, conditional replacements, deletions.
//!
//! An object is written by one request. A long object is written in concurrent parts, which become
//! an object in one step at the end. A server replaces an object under a condition (`If-Match`,
//! `If-None-Match`), so writers on different machines do not undo each other's changes: the caller
//! reads again and retries.
//!
//! If a response is lost, the request is repeated. The second attempt may then find the object
//! written by the first one, so that its condition fails. Therefore the object carries the mark of
//! its writer ([`marks`](crate::marks)): after several attempts, the object tells whether one of
//! them succeeded. Equal bytes prove nothing, because another writer may store the same.

use crate::cache::Cache;
use crate::client::{Client, Contents, Wanted, Which};
use crate::failure::{Cause, Failure};
use crate::marks::{Fate, History};
use crate::refusals;
use crate::settings::Unconditional;
use crate::store::RemoteStore;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, FuturesUnordered};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use hyperslab_store::fork::Lazy;
use hyperslab_store::{
    Ask, Expected, Key, Mark, Opened, Operation, Result, StoreError, Version, WriteNote, waiting,
};
use object_store::path::Path;
use object_store::{
    MultipartUpload, ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    UpdateVersion, UploadPart,
};
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Called with a warning about a store that cannot replace objects conditionally.
static UNCONDITIONAL: Lazy<fn(&str)> = Lazy::new();

/// Sets the function that gets a warning before a store first replaces an object without a
/// condition.
///
/// Without the condition, another writer may have been faster. The function is called once per
/// store. Only the first call of `on_unconditional` counts.
pub fn on_unconditional(tell: fn(&str)) {
    UNCONDITIONAL.put(tell);
}

/// Concurrent parts of an object: enough to keep a fast connection busy.
const PARTS: usize = 8;

/// Number of retries while the server is busy with another writer of the object.
const BUSY: u32 = 5;

/// Up to this size, a copy costs less than new memory for the next object.
const COPIED: usize = 64 << 10;

/// The required current state of the object.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Absent,
    Same(UpdateVersion, History),
}

impl Condition {
    fn mode(&self) -> PutMode {
        match self {
            Condition::Absent => PutMode::Create,
            Condition::Same(version, _) => PutMode::Update(version.clone()),
        }
    }

    /// The history of the object when the writer looked at it.
    fn history(&self) -> History {
        match self {
            Condition::Absent => History::none(),
            Condition::Same(_, history) => history.clone(),
        }
    }
}

/// Facts about the new contents, from the answer to a write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// `None`: the server did not tell it, or its answer was lost.
    tag: Option<String>,
}

impl From<PutResult> for Written {
    fn from(result: PutResult) -> Self {
        Written { tag: result.e_tag }
    }
}

impl RemoteStore {
    /// Notes a change, and drops the cached bytes of the object. `len`: bytes that were written.
    ///
    /// Called while the caller has the object's turn, so that notes are in the order of changes.
    pub(crate) fn note_written(&self, key: Key<'_>, len: u64, written: Option<&Written>) {
        self.forget(key);
        let Some(notes) = &self.1 else { return };
        let tag = written.and_then(|written| written.tag.as_deref());
        let stamp = tag.and_then(|tag| self.shared_stamp(key.as_str(), tag, len));
        notes.add(key, stamp.map_or(WriteNote::Unknown, WriteNote::Written));
    }

    fn note_deleted(&self, keys: &[Key<'_>]) {
        if let Some(notes) = &self.1 {
            keys.iter().for_each(|key| notes.add(*key, WriteNote::Deleted));
        }
    }

    /// The bytes in memory that a task can own.
    pub(crate) fn payload(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<Bytes> {
        let mut bytes = Vec::new();
        let no_room = |_| StoreError::io(self, Operation::Write, key.as_str(), ErrorKind::OutOfMemory);
        bytes.try_reserve_exact(parts.iter().map(|part| part.len()).sum()).map_err(no_room)?;
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        Ok(Bytes::from(bytes))
    }

    /// The bytes of memory that the store may keep.
    pub(crate) fn owned(&self, key: Key<'_>, bytes: &mut Vec<u8>) -> Result<Bytes> {
        match bytes.len() {
            ..COPIED => self.payload(key, &[bytes]),
            _ => Ok(Bytes::from(std::mem::take(bytes))),
        }
    }

    /// Writes unconditionally.
    pub(crate) fn put(&self, key: Key<'_>, bytes: Bytes) -> Result<()> {
        let (path, len) = (self.path(key)?, bytes.len() as u64);
        let done = self.run(key.as_str(), move |client| async move {
            if client.abilities.parts && bytes.len() as u64 > client.settings.part {
                put_parts(&client, &path, bytes).await
            } else {
                put_any(&client, &path, bytes).await
            }
        })?;
        self.note_written(key, len, done.as_ref().ok());
        done.map(drop).map_err(|failure| self.error(Operation::Write, key.as_str(), &failure))
    }

    /// Writes many objects at once, unconditionally.
    pub(crate) fn put_many(&self, objects: Vec<(Path, Bytes)>) -> Result<()> {
        let Some((first, _)) = objects.first() else { return Ok(()) };
        let name = first.to_string();
        let cache = self.0.cache.clone();
        let done = self.run(&name, move |client| async move {
            let put = |(path, bytes): (Path, Bytes)| {
                let (client, cache) = (&client, &cache);
                async move {
                    let done = put_any(client, &path, bytes).await;
                    forget_in(cache.as_ref(), &path).await;
                    done.map(drop)
                }
            };
            let puts = stream::iter(objects).map(put).buffer_unordered(client.settings.concurrency);
            puts.try_collect::<()>().await
        })?;
        done.map_err(|failure| self.error(Operation::Write, &name, &failure))
    }

    /// Like [`RemoteStore::put_over`]. Gives up once `ask` returns `true`.
    pub(crate) fn put_asking(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        mark: Mark,
        bytes: Bytes,
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        let put = || self.put_over(key, expected, mark, bytes);
        match ask {
            Some(ask) => waiting::with_ask(ask, put),
            None => put(),
        }
    }

    /// Writes if the current state is as expected. The contents get this mark.
    pub(crate) fn put_over(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        mark: Mark,
        bytes: Bytes,
    ) -> Result<bool> {
        let path = self.path(key)?;
        let (condition, version) = match expected {
            Expected::Any => return self.put(key, bytes).map(|()| true),
            Expected::Absent => (Some(Condition::Absent), refusals::version(None, None, None)),
            Expected::Same(opened) | Expected::Locked(opened) => self.condition(opened),
        };
        let Some(condition) = condition else { return self.put_looking(key, expected, bytes) };
        let (copy, name) = (bytes.clone(), path.to_string());
        let pause = self.0.refusals.pause(&name);
        let done = self.run(key.as_str(), move |client| async move {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            put_if(&client, &path, copy, &condition, mark).await
        })?;
        // Even if somebody was faster: then the cached bytes are outdated.
        match &done {
            Ok(None) => self.forget(key),
            done => self.note_written(key, bytes.len() as u64, done.as_ref().ok().and_then(Option::as_ref)),
        }
        match done {
            Ok(Some(_)) => {
                self.0.refusals.note_replacement(&name);
                Ok(true)
            }
            Ok(None) => {
                let over = self.0.refusals.note_refusal(&name, version);
                over.map_err(|often| self.contradiction(key, often)).map(|()| false)
            }
            Err(Failure::Unsupported(_)) => self.put_looking(key, expected, bytes),
            Err(failure) => Err(self.error(Operation::Write, key.as_str(), &failure)),
        }
    }

    /// The error for a server that keeps refusing the version that it reports.
    pub(crate) fn contradiction(&self, key: Key<'_>, often: u32) -> StoreError {
        let why = format!(
            "the server says what version the object has, and refuses to replace that version: {often} times in a \
             row"
        );
        let mut cause = Cause::new(ErrorKind::InvalidData, why);
        cause.advice = Some(
            "Check whether a cache or a proxy between this machine and the server gives old answers".into(),
        );
        self.error(Operation::Write, key.as_str(), &Failure::Other(cause))
    }

    /// The condition that an open object is still there, and the hash of its version.
    ///
    /// The condition is `None` if the server reported no version.
    fn condition(&self, opened: &dyn Opened) -> (Option<Condition>, u64) {
        let Some(Version { tag, number, marks }) = opened.version() else { return (None, 0) };
        (self.condition_that(tag, number, marks), refusals::version(tag, number, marks))
    }

    /// The condition that an object has this tag or this number, whichever the server compares.
    ///
    /// `None` if the server did not report it.
    pub(crate) fn condition_that(
        &self,
        tag: Option<&str>,
        number: Option<&str>,
        marks: Option<&str>,
    ) -> Option<Condition> {
        let known = if self.abilities().numbered { number } else { tag };
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let version = UpdateVersion { e_tag: owned(tag), version: owned(number) };
        known.map(|_| Condition::Same(version, History::of(tag, number, marks)))
    }

    /// Writes after checking the object, for servers without conditions.
    fn put_looking(&self, key: Key<'_>, expected: Expected<'_>, bytes: Bytes) -> Result<bool> {
        self.unconditional(key)?;
        if !self.is_there(key, expected)? {
            return Ok(false);
        }
        self.put(key, bytes).map(|()| true)
    }

    /// Warns that an object is changed without a condition, or refuses to.
    fn unconditional(&self, key: Key<'_>) -> Result<()> {
        if self.settings().unconditional == Unconditional::Refuse {
            let mut cause = Cause::new(
                ErrorKind::Unsupported,
                "the server cannot replace an object under the condition that nobody else has changed it",
            );
            cause.advice =
                Some("Write whole chunks, or allow unconditional writes if there is one writer".into());
            return Err(self.error(Operation::Write, key.as_str(), &Failure::Unsupported(cause)));
        }
        if !self.0.warned.swap(true, Relaxed)
            && let Some(tell) = UNCONDITIONAL.get()
        {
            tell(&format!(
                "{}: the server cannot replace an object under the condition that nobody else has changed it. \
                 Changes that other machines make to the same chunks at the same time may be lost; with \
                 storage_options={{\"unconditional\": \"refuse\"}} such changes are errors",
                self.0.url
            ));
        }
        Ok(())
    }

    /// Returns whether the current state is as expected.
    fn is_there(&self, key: Key<'_>, expected: Expected<'_>) -> Result<bool> {
        let now = self.head(key, Operation::Write)?;
        Ok(match (expected, now) {
            (Expected::Any, _) => true,
            (Expected::Absent, now) => now.is_none(),
            (Expected::Same(_) | Expected::Locked(_), None) => false,
            (Expected::Same(opened) | Expected::Locked(opened), Some(now)) => {
                let tag = opened.version().and_then(|version| version.tag);
                opened.size() == now.size && tag == now.strong_tag()
            }
        })
    }

    /// Deletes an object. `false` if there is none; servers do not report that, so this checks
    /// first.
    pub(crate) fn remove(&self, key: Key<'_>) -> Result<bool> {
        if self.head(key, Operation::Delete)?.is_none() {
            return Ok(false);
        }
        let path = self.path(key)?;
        let done = self.run(key.as_str(), move |client| async move {
            client.retry_truncated(|| client.request(0, client.store.delete(&path))).await
        })?;
        self.forget(key);
        self.note_deleted(&[key]);
        match done {
            Ok(()) => Ok(true),
            Err(Failure::Missing) => Ok(false),
            Err(failure) => Err(self.error(Operation::Delete, key.as_str(), &failure)),
        }
    }

    /// Deletes an object if its current state is as expected.
    ///
    /// The request has no condition: another writer may come between check and deletion.
    pub(crate) fn delete_if(&self, key: Key<'_>, expected: Expected<'_>) -> Result<bool> {
        if !self.is_there(key, expected)? {
            return Ok(false);
        }
        if !matches!(expected, Expected::Absent) {
            self.remove(key)?;
        }
        Ok(true)
    }

    /// Deletes objects, many with one request if the server can.
    pub(crate) fn remove_all(&self, keys: &[Key<'_>]) -> Result<()> {
        let paths = keys.iter().map(|key| self.path(*key)).collect::<Result<Vec<_>>>()?;
        let Some(first) = keys.first() else { return Ok(()) };
        let cache = self.0.cache.clone();
        let done = self.run(first.as_str(), move |client| async move {
            let all = || stream::iter(paths.clone().into_iter().map(Ok)).boxed();
            client.retry_truncated(|| delete_stream(&client, all(), cache.as_ref())).await
        })?;
        self.note_deleted(keys);
        done.map_err(|failure| self.error(Operation::Delete, first.as_str(), &failure))
    }

    /// Deletes everything below a prefix.
    pub(crate) fn remove_below(&self, prefix: Option<Key<'_>>) -> Result<()> {
        let name = prefix.map_or("", |prefix| prefix.as_str()).to_owned();
        let (path, cache) = (self.prefix_path(prefix)?, self.0.cache.clone());
        let done = self.run(&name, move |client| async move {
            client.retry_truncated(|| delete_below(&client, path.as_ref(), cache.as_ref())).await
        })?;
        done.map_err(|failure| self.error(Operation::Delete, &name, &failure))
    }
}

/// Drops the cached bytes of a changed object.
async fn forget_in(cache: Option<&Arc<Cache>>, path: &Path) {
    if let Some(cache) = cache {
        cache.forget_later(path.as_ref()).await;
    }
}

async fn delete_below(
    client: &Client,
    prefix: Option<&Path>,
    cache: Option<&Arc<Cache>>,
) -> Result<(), Failure> {
    let itself = prefix.cloned();
    let found = client.list(prefix).map_ok(|meta| meta.location);
    let found = found.try_filter(move |path| std::future::ready(itself.as_ref() != Some(path))).boxed();
    delete_stream(client, found, cache).await
}

async fn delete_stream(
    client: &Client,
    found: BoxStream<'static, object_store::Result<Path>>,
    cache: Option<&Arc<Cache>>,
) -> Result<(), Failure> {
    let mut deleted = client.store.delete_stream(found);
    loop {
        match client.request(0, async { deleted.next().await.transpose() }).await {
            Ok(None) => return Ok(()),
            Ok(Some(path)) => forget_in(cache, &path).await,
            Err(Failure::Missing) => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// Writes with one request. Also returns how many requests were sent.
async fn put_whole(
    client: &Client,
    path: &Path,
    bytes: Bytes,
    options: PutOptions,
) -> (Result<Written, Failure>, usize) {
    let len = bytes.len() as u64;
    let put = client.store.put_opts(path, PutPayload::from_bytes(bytes), options);
    let (result, sent) = client.counted(len, put).await;
    (result.map(Written::from), sent)
}

/// Returns whether the server asks for a retry, because another writer's request is in progress.
///
/// Pauses before the retry, longer each time.
async fn is_busy(failure: &Failure, busy: &mut u32) -> bool {
    let again = matches!(failure, Failure::Other(cause) if cause.status == Some(409)) && *busy < BUSY;
    if again {
        *busy += 1;
        tokio::time::sleep(Duration::from_millis(20 << *busy)).await;
    }
    again
}

/// Writes unconditionally, with one request.
async fn put_any(client: &Client, path: &Path, bytes: Bytes) -> Result<Written, Failure> {
    let mut busy = 0;
    loop {
        match put_whole(client, path, bytes.clone(), PutOptions::default()).await.0 {
            Err(failure) if is_busy(&failure, &mut busy).await => {}
            done => return done,
        }
    }
}

/// Writes under a condition. `None` if the condition fails.
///
/// Repeats requests without a response. The condition ensures that the write happens once.
pub(crate) async fn put_if(
    client: &Client,
    path: &Path,
    bytes: Bytes,
    condition: &Condition,
    mark: Mark,
) -> Result<Option<Written>, Failure> {
    let written = |fate: Fate| (fate == Fate::Done).then(Written::default);
    let end = Instant::now() + client.settings.deadline_of(bytes.len() as u64);
    let history = condition.history();
    // `in_doubt`: an attempt may have succeeded without a response that says so.
    let (mut busy, mut lost, mut in_doubt) = (0, 0, false);
    loop {
        let (mode, attributes) = (condition.mode(), history.attributes_with(mark));
        let options = PutOptions { mode, attributes, ..PutOptions::default() };
        let (result, sent) = put_whole(client, path, bytes.clone(), options).await;
        in_doubt |= sent > 1;
        match result {
            Ok(written) => return Ok(Some(written)),
            // No object is expected, so only the bucket can be missing.
            Err(Failure::Missing) if matches!(condition, Condition::Absent) => return Err(Failure::Missing),
            Err(Failure::Condition | Failure::Missing) if !in_doubt => return Ok(None),
            Err(Failure::Condition | Failure::Missing) => match client.head(path).await {
                Ok(now) => return Ok(written(history.fate(mark, &now))),
                // The object's creator has deleted it again.
                Err(Failure::Missing) if matches!(condition, Condition::Absent) && busy < BUSY => busy += 1,
                Err(Failure::Missing) => return Ok(None),
                Err(failure) => return Err(unknown_outcome(failure)),
            },
            Err(failure) if is_busy(&failure, &mut busy).await => {}
            Err(failure)
                if failure.is_unanswered() && lost < client.settings.retries && Instant::now() < end =>
            {
                in_doubt = true;
                tokio::time::sleep(Duration::from_millis(50 << lost.min(6))).await;
                lost += 1;
            }
            Err(failure) if in_doubt || failure.may_be_done() => {
                return match client.head(path).await.map(|now| history.fate(mark, &now)) {
                    Ok(Fate::Done) => Ok(Some(Written::default())),
                    Ok(Fate::NotDone) | Err(Failure::Missing) => Err(failure),
                    Ok(Fate::Unknown) | Err(_) => Err(unknown_outcome(failure)),
                };
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// The failure of a write with an unknown outcome.
fn unknown_outcome(failure: Failure) -> Failure {
    match failure {
        Failure::Other(mut cause) => {
            cause.why.push_str(". Nobody knows whether the object was written");
            Failure::Other(cause)
        }
        failure => failure,
    }
}

/// Returns whether an object has exactly these bytes.
async fn is_stored(client: &Client, path: &Path, bytes: &Bytes) -> Result<bool, Failure> {
    let there = match client.get(path, Wanted::AtMost(bytes.len() as u64), Which::Any).await {
        Err(Failure::Missing) => return Ok(false),
        there => there?,
    };
    let Contents { size, .. } = there.contents;
    let mut at = 0;
    Ok(size == bytes.len() as u64
        && there.pieces.iter().all(|piece| {
            let same = bytes.get(at..at + piece.len()) == Some(&**piece);
            at += piece.len();
            same
        })
        && at == bytes.len())
}

/// An upload that is aborted when it is dropped before its end, so that the server keeps no parts.
struct Upload {
    client: Arc<Client>,
    upload: Option<Box<dyn MultipartUpload>>,
}

impl Drop for Upload {
    fn drop(&mut self) {
        let (Some(mut upload), Ok(runtime)) = (self.upload.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let client = self.client.clone();
        runtime.spawn(async move { client.request(0, upload.abort()).await });
    }
}

/// Returns whether an object is the result of an upload with this mark.
async fn is_uploaded(client: &Client, path: &Path, bytes: &Bytes, mark: Mark) -> Result<bool, Failure> {
    let now = client.head(path).await?;
    match (History::none().fate(mark, &now), now.marks) {
        (Fate::Done, _) => Ok(true),
        // The server keeps no marks, or somebody else has replaced the object. The upload counts as
        // done if the object has these bytes, no matter who wrote it.
        (_, None) => is_stored(client, path, bytes).await,
        _ => Ok(false),
    }
}

/// An object whose parts are on the server. Dropping this aborts the upload.
pub(crate) struct Parts {
    path: Path,
    bytes: Bytes,
    mark: Mark,
    upload: Upload,
}

/// Writes an object in parts.
async fn put_parts(client: &Arc<Client>, path: &Path, bytes: Bytes) -> Result<Written, Failure> {
    begin_parts(client, path.clone(), bytes).await?.complete(client).await
}

/// Sends the parts of an object.
pub(crate) async fn begin_parts(client: &Arc<Client>, path: Path, bytes: Bytes) -> Result<Parts, Failure> {
    let mark = Mark::fresh();
    let options =
        PutMultipartOptions { attributes: History::none().attributes_with(mark), ..Default::default() };
    let begin = || client.store.put_multipart_opts(&path, options.clone());
    let upload = client.retry_truncated(|| client.request(0, begin())).await?;
    let mut upload = Upload { client: client.clone(), upload: Some(upload) };
    // At most 10 000 parts, all of one size.
    let len = usize::try_from(client.settings.part).unwrap_or(usize::MAX).max(bytes.len().div_ceil(10_000));
    let mut parts = Vec::new();
    let mut rest = bytes.clone();
    while let (false, Some(upload)) = (rest.is_empty(), &mut upload.upload) {
        let part = rest.split_to(len.min(rest.len()));
        parts.push((part.len() as u64, upload.put_part(PutPayload::from_bytes(part))));
    }
    let send = |(len, part): (u64, UploadPart)| client.request(len, part).boxed();
    let mut waiting = parts.into_iter().map(send);
    let mut sending: FuturesUnordered<BoxFuture<'_, _>> = waiting.by_ref().take(PARTS).collect();
    while let Some(sent) = sending.next().await {
        sent?;
        sending.extend(waiting.next());
    }
    drop((sending, waiting));
    Ok(Parts { path, bytes, mark, upload })
}

impl Parts {
    /// Combines the parts into an object.
    pub(crate) async fn complete(mut self, client: &Client) -> Result<Written, Failure> {
        let mut written = Written::default();
        if let Some(pending) = &mut self.upload.upload {
            match client.request(0, pending.complete()).await {
                Ok(result) => written = result.into(),
                // The response to an earlier attempt may have been lost, so the upload may be
                // complete.
                Err(failure) => {
                    let done = is_uploaded(client, &self.path, &self.bytes, self.mark).await;
                    if !done.unwrap_or(false) {
                        return Err(failure);
                    }
                }
            }
        }
        self.upload.upload = None;
        Ok(written)
    }
}
