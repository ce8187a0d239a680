//! A long object that is sent in parts while it is written to a local file.
//!
//! 1. A part goes to the server in the background once the writer is well behind it. The first part
//!    goes last: formats write their heads at the end.
//! 2. Bytes may change after their part was sent. Each part counts its changes, and is sent again if
//!    there were any.
//! 3. One request makes an object of all parts. Until then, readers find the old object, or none.
//!
//! Memory holds a few parts only. Objects of less than one part are written by one request.

use crate::client::{Client, Contents};
use crate::failure::{Cause, Failure};
use crate::runtime::Running;
use crate::store::RemoteStore;
use crate::transport::creating;
use crate::write::Written;
use bytes::Bytes;
use hyperslab_store::fork::{self, Mutex};
use hyperslab_store::{Destination, Expected, Key, Mark, Operation, Result, Store, StoreError};
use object_store::PutPayload;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::OnceCell;

/// Parts that are sent at once. Each is in memory.
const PARTS: usize = 16;

/// Bytes of a part: few, so that little is left to send when the file is complete. S3 takes no parts
/// below 5 MiB.
const PART: u64 = 8 << 20;

/// After the first number of parts, and then after each second one, parts are twice as long: S3 takes
/// at most 10 000.
const OF_ONE_LENGTH: [u64; 2] = [2000, 1000];

/// How long the end of a program waits until the server has forgotten the parts.
const FAREWELL: Duration = Duration::from_secs(5);

impl RemoteStore {
    /// Prepares a new object, which is made of a local file when that is complete. `only_new`: fails
    /// if there is an object, now or then.
    pub fn upload(&self, key: Key<'_>, only_new: bool) -> Result<Arc<dyn Destination>> {
        let upload = Upload {
            store: self.clone(),
            key: key.as_str().to_owned(),
            only_new,
            generation: fork::generation(),
            state: Mutex::default(),
            starting: AtomicUsize::new(0),
        };
        // Bad credentials show here, and not when everything is written.
        if self.head(key, Operation::Write)?.is_some() && only_new {
            return Err(upload.occupied());
        }
        Ok(Arc::new(upload))
    }
}

/// An object under construction.
#[derive(Debug)]
struct Upload {
    store: RemoteStore,
    key: String,
    only_new: bool,
    generation: u64,
    /// Gated.
    state: Mutex<State>,
    /// Calls that are about to note a request that they start.
    starting: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// The end of the bytes.
    end: u64,
    parts: Vec<Part>,
    /// The first part that was not sent yet, and the parts that may be on their way.
    next: usize,
    flying: Vec<usize>,
    session: Option<Arc<Session>>,
}

/// The server's name for the parts.
#[derive(Debug, Default)]
struct Session(OnceCell<String>);

#[derive(Clone, Debug, Default)]
struct Part {
    changes: u64,
    sent: Option<Arc<Sent>>,
}

/// A part that was sent, or is on its way.
#[derive(Debug)]
struct Sent {
    /// Changes of the part, and its bytes, when it was sent.
    changes: u64,
    len: u64,
    task: Running<Result<PartId, Failure>>,
}

impl Upload {
    fn key(&self) -> Result<Key<'_>> {
        Key::new(&self.key)
    }

    fn error(&self, failure: &Failure) -> StoreError {
        self.store.error(Operation::Write, &self.key, failure)
    }

    fn io(&self, source: io::Error) -> StoreError {
        StoreError::io(&self.store, Operation::Write, &self.key, source)
    }

    fn occupied(&self) -> StoreError {
        self.io(io::Error::new(ErrorKind::AlreadyExists, "there is an object of this name"))
    }

    /// The lengths of parts: of each, how many parts have it.
    fn lengths(&self) -> impl Iterator<Item = (u64, u64)> {
        let first = self.store.settings().part.clamp(1, PART);
        let [count, more] = OF_ONE_LENGTH;
        let lengths = std::iter::successors(Some(first), |len| Some(len.saturating_mul(2)));
        lengths.zip(std::iter::once(count).chain(std::iter::repeat(more)))
    }

    /// The bytes of a part.
    fn range(&self, part: usize) -> Range<u64> {
        let (mut start, mut part) = (0_u64, part as u64);
        for (len, count) in self.lengths() {
            if part < count || start == u64::MAX {
                let start = start.saturating_add(len.saturating_mul(part));
                return start..start.saturating_add(len);
            }
            start = start.saturating_add(len.saturating_mul(count));
            part -= count;
        }
        u64::MAX..u64::MAX
    }

    /// The part that has a byte.
    fn part_of(&self, byte: u64) -> usize {
        let (mut start, mut part) = (0_u64, 0_u64);
        for (len, count) in self.lengths() {
            let number = byte.saturating_sub(start) / len;
            if number < count {
                return usize::try_from(part.saturating_add(number)).unwrap_or(usize::MAX);
            }
            start = start.saturating_add(len.saturating_mul(count));
            part = part.saturating_add(count);
        }
        usize::MAX
    }

    /// Notes a change. Returns the parts that can be sent now.
    fn noted(&self, changed: Range<u64>) -> Vec<(usize, u64)> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.end = state.end.max(changed.end);
        let last = self.part_of(changed.end.saturating_sub(1));
        if state.parts.len() <= last {
            state.parts.resize(last + 1, Part::default());
        }
        for part in state.parts.iter_mut().take(last + 1).skip(self.part_of(changed.start)) {
            part.changes += 1;
        }
        let mut ready = Vec::new();
        if !self.store.abilities().parts {
            return ready;
        }
        let is_flying = |part: &Part| part.sent.as_ref().is_none_or(|sent| !sent.task.is_over());
        let (parts, flying) = (&state.parts, &mut state.flying);
        flying.retain(|part| parts.get(*part).is_some_and(is_flying));
        state.next = state.next.max(1);
        // A part behind it has begun to be written, too: the writer is done with it, most likely.
        while flying.len() < PARTS && self.range(state.next + 1).end <= state.end {
            let Some(part) = parts.get(state.next) else { break };
            ready.push((state.next, part.changes));
            flying.push(state.next);
            state.next += 1;
        }
        self.starting.fetch_add(ready.len(), Ordering::SeqCst);
        ready
    }

    /// Sends a part, as it is in the file from now on.
    fn send(&self, file: &Arc<File>, part: usize, changes: u64, range: Range<u64>) -> Result<Arc<Sent>> {
        let (path, file, len) = (self.store.path(self.key()?)?, file.clone(), range.end - range.start);
        let session = self.state.lock().session.get_or_insert_default().clone();
        let task = self.store.start(move |client| async move {
            let bytes = tokio::task::spawn_blocking(move || read(&file, range)).await;
            let bytes = match bytes {
                Ok(Ok(bytes)) => bytes,
                Ok(Err(error)) => return Err(unread(&error)),
                Err(_) => return Err(unread(&io::Error::other("the thread that read it has ended"))),
            };
            send_part(&client, &session, &path, part, bytes).await
        });
        Ok(Arc::new(Sent { changes, len, task }))
    }

    /// Sends a part unless it was sent as it is. Waits for an older request of the same part: it must
    /// not arrive later.
    fn ensure(&self, file: &Arc<File>, part: usize, len: u64) -> Result<Arc<Sent>> {
        let now = self.state.lock().parts.get(part).cloned().unwrap_or_default();
        if let Some(sent) = &now.sent {
            if (sent.changes, sent.len) == (now.changes, len) {
                match sent.task.is_over().then(|| sent.task.wait()) {
                    None | Some(Ok(Ok(_))) => return Ok(sent.clone()),
                    Some(_) => {}
                }
            }
            sent.task.wait().map_err(|lost| self.store.lost(lost, &self.key)).map(drop).or_else(|error| {
                // A task that ended without a result sends nothing any more.
                if sent.task.is_over() { Ok(()) } else { Err(error) }
            })?;
        }
        let start = self.range(part).start;
        let sent = self.send(file, part, now.changes, start..start.saturating_add(len))?;
        let old = self.state.lock().parts.get_mut(part).map(|part| part.sent.replace(sent.clone()));
        drop(old);
        Ok(sent)
    }

    /// Sends all parts that the server does not have. Returns the server's names of all of them.
    fn send_all(&self, file: &Arc<File>, len: u64) -> Result<Vec<PartId>> {
        let count = self.part_of(len.saturating_sub(1)) + 1;
        let mut ids: Vec<Option<PartId>> = vec![None; count];
        let mut flying: VecDeque<(usize, Arc<Sent>)> = VecDeque::new();
        let mut land = |(part, sent): (usize, Arc<Sent>)| -> Result<()> {
            let id = sent.task.wait().map_err(|lost| self.store.lost(lost, &self.key))?;
            let id = id.as_ref().map_err(|failure| {
                if matches!(failure, Failure::Missing) {
                    // The server has forgotten the upload: some do after a few days.
                    self.give_up();
                }
                self.error(failure)
            })?;
            if let Some(place) = ids.get_mut(part) {
                *place = Some(id.clone());
            }
            Ok(())
        };
        for part in (1..count).chain([0]) {
            let range = self.range(part);
            let sent = self.ensure(file, part, range.end.min(len) - range.start)?;
            flying.push_back((part, sent));
            if flying.len() >= PARTS
                && let Some(first) = flying.pop_front()
            {
                land(first)?;
            }
        }
        flying.into_iter().try_for_each(land)?;
        let missing = || self.io(io::Error::other("a part was not sent"));
        ids.into_iter().collect::<Option<Vec<_>>>().ok_or_else(missing)
    }

    /// Writes an object of less than one part, or to a server without parts.
    fn put(&self, file: &File, len: u64) -> Result<()> {
        let bytes = read(file, 0..len).map_err(|source| self.io(source))?;
        let key = self.key()?;
        if !self.only_new {
            return self.store.put(key, bytes);
        }
        match self.store.put_over(key, Expected::Absent, Mark::fresh(), bytes)? {
            true => Ok(()),
            false => Err(self.occupied()),
        }
    }

    /// Makes an object of the parts.
    fn combine(&self, ids: Vec<PartId>, len: u64) -> Result<()> {
        let key = self.key()?;
        let before = self.store.head(key, Operation::Write)?;
        if self.only_new && before.is_some() {
            return Err(self.occupied());
        }
        let session = self.state.lock().session.clone().unwrap_or_default();
        let (path, is_new) = (self.store.path(key)?, self.only_new && !self.store.abilities().numbered);
        let done = self.store.run(&self.key, move |client| async move {
            let (multiparts, id) = (multiparts(&client)?, session.0.get().cloned().unwrap_or_default());
            let complete = || client.request(0, multiparts.complete_multipart(&path, &id, ids.clone()));
            match is_new {
                true => match creating(complete()).await {
                    // Some servers do not know the condition.
                    Err(Failure::Unsupported(_)) => complete().await,
                    done => done,
                },
                false => complete().await,
            }
            .map(Written::from)
        })?;
        self.store.note_written(key, len, done.as_ref().ok());
        match done {
            Ok(_) => Ok(()),
            Err(Failure::Condition) if self.only_new => {
                self.give_up();
                Err(self.occupied())
            }
            // The answer to an earlier attempt may have been lost.
            Err(failure) => match self.store.head(key, Operation::Write) {
                Ok(Some(now)) if is_made(before.as_ref(), &now, len) => Ok(()),
                _ => {
                    // The server may have lost a part. Another attempt sends all of them again.
                    self.give_up();
                    Err(self.error(&failure))
                }
            },
        }
    }

    /// Tells the server to forget the parts.
    fn give_up(&self) {
        let (session, parts) = {
            let mut state = self.state.lock();
            let taken: Vec<_> = state.parts.iter_mut().map(|part| part.sent.take()).collect();
            (state.session.take(), taken)
        };
        // Requests that are on their way end here.
        drop(parts);
        let (Some(session), Ok(key)) = (session, self.key()) else { return };
        let (Some(id), Ok(path)) = (session.0.get().cloned(), self.store.path(key)) else { return };
        let task = self.store.start(move |client| async move {
            client.request(0, multiparts(&client)?.abort_multipart(&path, &id)).await
        });
        task.wait_at_most(FAREWELL);
    }
}

/// Returns `true` if an object became one of `len` bytes.
fn is_made(before: Option<&Contents>, now: &Contents, len: u64) -> bool {
    now.size == len && before.is_none_or(|before| !before.is(now))
}

fn multiparts(client: &Client) -> Result<Arc<dyn MultipartStore>, Failure> {
    let why = || Cause::new(ErrorKind::Unsupported, "the server takes no objects in parts");
    client.multiparts.clone().ok_or_else(|| Failure::Unsupported(why()))
}

async fn send_part(
    client: &Client,
    session: &Session,
    path: &Path,
    part: usize,
    bytes: Bytes,
) -> Result<PartId, Failure> {
    let multiparts = multiparts(client)?;
    let begin = || client.request(0, multiparts.create_multipart(path));
    let id = session.0.get_or_try_init(|| client.retry_truncated(begin)).await?;
    let put = || {
        let payload = PutPayload::from_bytes(bytes.clone());
        client.request(bytes.len() as u64, multiparts.put_part(path, id, part, payload))
    };
    client.retry_truncated(put).await
}

/// Reads bytes of the file. Bytes behind its end are zero.
fn read(file: &File, range: Range<u64>) -> io::Result<Bytes> {
    let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
    bytes.resize(len, 0);
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, range.start.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Bytes::from(bytes))
}

fn unread(error: &io::Error) -> Failure {
    Failure::Other(Cause::new(error.kind(), format!("the temporary file cannot be read: {error}")))
}

impl Destination for Upload {
    fn url(&self) -> String {
        self.store.url()
    }

    fn key(&self) -> &str {
        &self.key
    }

    fn note(&self, file: &Arc<File>, changed: Range<u64>) {
        if changed.is_empty() {
            return;
        }
        for (part, changes) in self.noted(changed) {
            // An error shows when the object is complete.
            if let Ok(sent) = self.send(file, part, changes, self.range(part)) {
                let old = self.state.lock().parts.get_mut(part).map(|part| part.sent.replace(sent));
                drop(old);
            }
            self.starting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn complete(&self, file: &Arc<File>, len: u64) -> Result<()> {
        while self.starting.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        let is_begun = self.state.lock().session.is_some();
        if !self.store.abilities().parts || (!is_begun && len <= self.store.settings().part) {
            return self.put(file, len);
        }
        let count = self.part_of(len.saturating_sub(1)) + 1;
        let is_beyond = self.state.lock().parts.iter().skip(count).any(|part| part.sent.is_some());
        if is_beyond {
            // The file was cut off. Some servers would take parts behind its end.
            self.give_up();
        }
        let ids = match self.send_all(file, len) {
            Err(_) if self.state.lock().session.is_none() => self.send_all(file, len)?,
            sent => sent?,
        };
        self.combine(ids, len)?;
        let done = std::mem::take(&mut *self.state.lock());
        drop(done);
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        // The upload of a forked process is its parent's.
        if self.generation == fork::generation() {
            self.give_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_memory;

    fn stored(store: &RemoteStore) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        store.read_all(Key::new("a.h5").unwrap(), &mut bytes, usize::MAX).unwrap().then_some(bytes)
    }

    fn begin(store: &RemoteStore, only_new: bool) -> hyperslab_store::EditedFile {
        let to = store.upload(Key::new("a.h5").unwrap(), only_new).unwrap();
        hyperslab_store::EditedFile::spooled(tempfile::tempfile().unwrap(), Some(to), false)
    }

    #[test]
    fn parts_have_places() {
        let store = in_memory();
        let part = store.settings().part;
        let upload = |store: &RemoteStore| Upload {
            store: store.clone(),
            key: "a".into(),
            only_new: false,
            generation: 0,
            state: Mutex::default(),
            starting: AtomicUsize::new(0),
        };
        let upload = upload(&store);
        let mut end = 0;
        for number in 0..7000 {
            let range = upload.range(number);
            assert_eq!(range.start, end);
            assert_eq!(range.end - range.start, part << (number.max(1000) / 1000 - 1));
            end = range.end;
            assert_eq!((upload.part_of(range.start), upload.part_of(range.end - 1)), (number, number));
        }
    }

    /// Parts are 60 000 bytes: they are sent while other bytes are written, and changed later.
    #[test]
    fn the_object_has_the_bytes_of_the_file() {
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        for trial in 0..40 {
            let store = in_memory();
            store.write(Key::new("a.h5").unwrap(), &[b"old"]).unwrap();
            let file = begin(&store, false);
            let mut expected = Vec::new();
            for step in 0..next(40) {
                // Most files grow at their end.
                let at = if next(3) > 0 { expected.len() as u64 } else { next(900_000) };
                let (len, value) = (1 + next(90_000) as usize, step as u8 + 1);
                let end = at as usize + len;
                expected.resize(expected.len().max(end), 0);
                expected[at as usize..end].fill(value);
                file.write_at(at, &vec![value; len]).unwrap();
            }
            if trial % 3 == 0 {
                let cut = next(900_000);
                expected.resize(cut as usize, 0);
                file.set_len(cut).unwrap();
            }
            assert_eq!(stored(&store).unwrap(), b"old");
            file.deliver().unwrap();
            assert!(stored(&store).unwrap() == expected, "{trial}");
        }
    }

    #[test]
    fn an_object_that_exists_stays() {
        let store = in_memory();
        for len in [5, 300_000] {
            let file = begin(&store, true);
            file.write_at(0, &vec![1; len]).unwrap();
            store.write(Key::new("a.h5").unwrap(), &[b"faster"]).unwrap();
            let refused = file.deliver().unwrap_err();
            assert!(
                matches!(&refused, StoreError::Io { source, .. } if source.kind() == ErrorKind::AlreadyExists)
            );
            assert_eq!(stored(&store).unwrap(), b"faster");
            assert!(store.upload(Key::new("a.h5").unwrap(), true).is_err());
            store.delete(Key::new("a.h5").unwrap()).unwrap();
        }
    }

    #[test]
    fn an_upload_that_is_dropped_leaves_nothing() {
        let store = in_memory();
        let file = begin(&store, false);
        file.write_at(0, &vec![1; 600_000]).unwrap();
        drop(file);
        assert_eq!(stored(&store), None);
    }
}
