//! A shard that is being written.
//!
//! Several threads encode inner chunks and finish in any order. The chunks are stored in the order
//! of the index all the same, so that equal writes make equal files. A thread that is too early
//! leaves a copy, up to a bound, and waits beyond it.

#![expect(clippy::indexing_slicing, reason = "the buffer was just made longer by so much")]
#![expect(clippy::cast_possible_truncation, reason = "sizes in memory: 64 bits, checked as they came in")]

use crate::costs;
use crate::error::ArrayError;
use crate::execute::tasks::{codec_error, store_error};
use crate::layout::ArrayLayout;
use crate::layout::shard_index::ShardIndex;
use crate::layout::sharding::ShardLevel;
use crate::plan::task::Task;
use hyperslab_codec::{Scratch, room};
use hyperslab_store::{Ask, Expected, Key, Opened, Operation, RangeRead, Replacement, Store, StoreError};
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// An object under construction. Begun when the first bytes come, so that an empty shard makes no
/// file.
pub(crate) struct NewObject<'s> {
    store: &'s dyn Store,
    key: Key<'s>,
    begun: Option<Box<dyn Replacement + 's>>,
}

impl<'s> NewObject<'s> {
    fn begin(&mut self) -> Result<&mut Box<dyn Replacement + 's>, StoreError> {
        let begun = match self.begun.take() {
            Some(begun) => begun,
            None => self.store.replace(self.key)?,
        };
        Ok(self.begun.insert(begun))
    }
}

/// The destination of a shard's bytes.
pub(crate) enum Sink<'s> {
    /// To an object.
    Object(NewObject<'s>),
    /// To memory: a shard within a shard, or one that goes through codecs as a whole.
    Memory(Vec<u8>),
}

impl<'s> Sink<'s> {
    pub(crate) fn object(store: &'s dyn Store, key: Key<'s>) -> Self {
        Sink::Object(NewObject { store, key, begun: None })
    }

    fn len(&self) -> u64 {
        match self {
            Sink::Object(object) => object.begun.as_ref().map_or(0, |begun| begun.len()),
            Sink::Memory(bytes) => bytes.len() as u64,
        }
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        match self {
            Sink::Object(object) => object.begin()?.append(&[bytes]),
            Sink::Memory(memory) => {
                memory.try_reserve(bytes.len()).map_err(|_| out_of_memory())?;
                memory.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn copy(&mut self, from: &dyn Opened, (offset, len): (u64, u64)) -> Result<(), StoreError> {
        match self {
            Sink::Object(object) => object.begin()?.copy(from, offset, len),
            Sink::Memory(memory) => {
                let (start, len) = (memory.len(), usize::try_from(len).unwrap_or(usize::MAX));
                memory.try_reserve(len).map_err(|_| out_of_memory())?;
                memory.resize(start + len, 0);
                from.read_ranges(&mut [RangeRead { offset, buf: &mut memory[start..] }])
            }
        }
    }

    fn overwrite(&mut self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        match self {
            Sink::Object(object) => object.begin()?.overwrite(offset, bytes),
            Sink::Memory(memory) => {
                let start = offset as usize;
                memory[start..start + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn share(&mut self, from: &dyn Opened) -> Result<bool, StoreError> {
        match self {
            Sink::Object(object) => object.begin()?.share(from),
            Sink::Memory(_) => Ok(false),
        }
    }

    fn interrupted_error(&self) -> StoreError {
        let (key, url) = match self {
            Sink::Object(object) => (object.key.as_str().to_owned(), object.store.url()),
            Sink::Memory(_) => Default::default(),
        };
        StoreError::Interrupted { key, url }
    }

    /// Puts the object in its place, if the stored object is as expected. Otherwise returns
    /// `false`.
    pub(crate) fn commit(self, expected: Expected<'_>, ask: Option<Ask<'_>>) -> Result<bool, StoreError> {
        match self {
            Sink::Object(NewObject { begun: Some(begun), .. }) => begun.commit_over(expected, ask),
            _ => Ok(true),
        }
    }
}

/// No memory for a shard that is made in memory. The error of its task names the array and the chunk.
fn out_of_memory() -> StoreError {
    let (key, url) = ("a shard".to_owned(), "memory".to_owned());
    StoreError::Io { operation: Operation::Write, key, url, source: std::io::ErrorKind::OutOfMemory.into() }
}

/// The shard before it is written.
pub(crate) struct Former<'o> {
    pub(crate) opened: &'o dyn Opened,
    /// Offset and length of the shard in the object.
    pub(crate) range: (u64, u64),
    pub(crate) index: std::sync::Arc<ShardIndex>,
}

/// Begins a shard of `level` with the inner chunks that stay. Returns the index so far.
///
/// All inner chunks stay that are not `replaced`. `index` must be empty.
///
/// If `share` is set and the file system lets two files share bytes, nothing is copied. The bytes
/// of replaced chunks then stay, and nothing refers to them. When such bytes outnumber all others,
/// the chunks that stay are copied instead. On other file systems chunks are always copied, so
/// there are no such bytes.
pub(crate) fn begin(
    level: &ShardLevel,
    sink: &mut Sink<'_>,
    former: Option<&Former<'_>>,
    share: bool,
    replaced: &dyn Fn(usize) -> bool,
    mut index: ShardIndex,
    ask: Ask<'_>,
) -> Result<ShardIndex, StoreError> {
    let mut stays: Vec<(u64, u64, usize)> = Vec::new();
    if let Some(former) = former {
        stays = former
            .index
            .present_chunks()
            .filter(|(n, ..)| !replaced(*n))
            .map(|(n, offset, len)| (offset, len, n))
            .collect();
        stays.sort_unstable();
        let live: u64 = stays.iter().map(|(_, len, _)| len).sum();
        let dead = former.range.1.saturating_sub(live).saturating_sub(level.index().size() as u64);
        if share && dead <= live && live > 0 && sink.share(former.opened)? {
            for (offset, len, n) in stays {
                index.set(n, Some((offset, len)));
            }
            return Ok(index);
        }
    }
    if level.at_start() {
        sink.append(&room::zeros(level.index().size()).ok_or_else(out_of_memory)?)?;
    }
    let mut rest = stays.as_slice();
    while let [(start, ..), ..] = rest {
        let mut end = *start;
        let mut to = sink.len();
        let run = rest.iter().take_while(|(offset, len, _)| {
            let joins = *offset == end;
            end += if joins { *len } else { 0 };
            joins
        });
        let (run, others) = rest.split_at(run.count());
        if let (Some(former), Some(first)) = (former, run.first()) {
            let len: u64 = run.iter().map(|(_, len, _)| len).sum();
            let (mut at, end) = (former.range.0 + first.0, former.range.0 + first.0 + len);
            while at < end {
                if at > former.range.0 + first.0 && ask() {
                    return Err(sink.interrupted_error());
                }
                let part = (end - at).min(costs::COPIED_AT_ONCE);
                sink.copy(former.opened, (at, part))?;
                at += part;
            }
        }
        for (_, len, n) in run {
            index.set(*n, Some((to, *len)));
            to += len;
        }
        rest = others;
    }
    Ok(index)
}

/// Ends a shard of `level` with its index. `task` and `key` name the shard in errors.
pub(crate) fn finish(
    layout: &ArrayLayout,
    task: &Task,
    key: &str,
    level: &ShardLevel,
    sink: &mut Sink<'_>,
    index: &ShardIndex,
) -> Result<(), ArrayError> {
    let mut bytes = Vec::new();
    level
        .index()
        .encode(index, &mut bytes, &mut Scratch::default())
        .map_err(|source| codec_error(layout, task, key, source))?;
    let ended = if level.at_start() { sink.overwrite(0, &bytes) } else { sink.append(&bytes) };
    ended.map_err(|source| store_error(layout, task, source))
}

/// Collects inner chunks from several threads.
pub(crate) struct ShardOutput<'s> {
    /// Local: only threads of this request use it.
    state: Mutex<OutputState<'s>>,
    turned: Condvar,
    window: usize,
}

struct OutputState<'s> {
    sink: Sink<'s>,
    index: ShardIndex,
    /// The turn that is next.
    next: usize,
    /// Chunks that came too early, by turn: number in the index, and bytes.
    early: BTreeMap<usize, (usize, Option<Vec<u8>>)>,
    /// Threads that came too early, and wait. With 0, nobody is woken: a wake-up takes a system
    /// call.
    waiting: usize,
    /// Some turn will never come.
    abandoned: bool,
}

impl OutputState<'_> {
    fn take(&mut self, n: usize, bytes: Option<&[u8]>) -> Result<(), StoreError> {
        let range = match bytes {
            None => None,
            Some(bytes) => {
                let offset = self.sink.len();
                self.sink.append(bytes)?;
                Some((offset, bytes.len() as u64))
            }
        };
        self.index.set(n, range);
        self.next += 1;
        Ok(())
    }
}

impl<'s> ShardOutput<'s> {
    /// `window` chunks may come too early before their threads wait.
    pub(crate) fn new(sink: Sink<'s>, index: ShardIndex, window: usize) -> Self {
        let state =
            OutputState { sink, index, next: 0, early: BTreeMap::new(), waiting: 0, abandoned: false };
        ShardOutput { state: Mutex::new(state), turned: Condvar::new(), window }
    }

    /// Takes the inner chunk with number `n` in the index, in its turn. Returns `false` if the
    /// output was abandoned.
    pub(crate) fn push(&self, turn: usize, n: usize, bytes: Option<&[u8]>) -> Result<bool, StoreError> {
        let mut state = self.lock();
        while turn > state.next && state.early.len() >= self.window && !state.abandoned {
            // The thread that has the turn wakes this one. If that thread was stopped before it
            // began, the timeout does.
            state.waiting += 1;
            let waited = self.turned.wait_timeout(state, Duration::from_millis(50));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        if state.abandoned {
            return Ok(false);
        }
        if turn > state.next {
            state.early.insert(turn, (n, bytes.map(<[u8]>::to_vec)));
            return Ok(true);
        }
        state.take(n, bytes)?;
        loop {
            let next = state.next;
            let Some((n, bytes)) = state.early.remove(&next) else { break };
            state.take(n, bytes.as_deref())?;
        }
        if state.waiting > 0 {
            self.turned.notify_all();
        }
        Ok(true)
    }

    /// Declares that some inner chunk will not come, so that no thread waits for it.
    pub(crate) fn abandon(&self) {
        self.lock().abandoned = true;
        self.turned.notify_all();
    }

    pub(crate) fn end(self) -> (Sink<'s>, ShardIndex) {
        let OutputState { sink, index, .. } = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (sink, index)
    }

    fn lock(&self) -> MutexGuard<'_, OutputState<'s>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::shard_index::IndexEncoding;
    use hyperslab_codec::ByteOrder;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn chunks_are_stored_in_their_order_whoever_comes_first() {
        let output = ShardOutput::new(Sink::Memory(Vec::new()), ShardIndex::absent(100).unwrap(), 3);
        let claimed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (output, claimed) = (&output, &claimed);
                scope.spawn(move || {
                    loop {
                        let turn = claimed.fetch_add(1, Ordering::Relaxed);
                        if turn >= 100 {
                            break;
                        }
                        std::thread::sleep(Duration::from_micros((turn as u64 * 7 + thread * 13) % 50));
                        let bytes = vec![turn as u8; turn % 5];
                        let given = (turn % 7 > 0).then_some(bytes.as_slice());
                        assert!(output.push(turn, 99 - turn, given).unwrap());
                    }
                });
            }
        });
        let (sink, index) = output.end();
        let Sink::Memory(bytes) = sink else { panic!() };
        let wanted: Vec<u8> =
            (0..100u8).filter(|n| n % 7 > 0).flat_map(|n| vec![n; n as usize % 5]).collect();
        assert_eq!(bytes, wanted);
        for (n, offset, len) in index.present_chunks() {
            let turn = 99 - n;
            assert_eq!(bytes[offset as usize..(offset + len) as usize], vec![turn as u8; turn % 5]);
        }
        assert_eq!(index.present_chunks().count(), (0..100).filter(|n| n % 7 > 0).count());
    }

    #[test]
    fn nobody_waits_for_what_was_abandoned() {
        let output = ShardOutput::new(Sink::Memory(Vec::new()), ShardIndex::absent(4).unwrap(), 1);
        assert!(output.push(2, 2, Some(b"c")).unwrap());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| output.push(3, 3, Some(b"d")).unwrap());
            std::thread::sleep(Duration::from_millis(5));
            output.abandon();
            assert!(!waiting.join().unwrap());
        });
    }

    #[test]
    fn what_stays_is_copied_without_what_goes() {
        for at_start in [false, true] {
            let index = IndexEncoding::new(&[4], &[], ByteOrder::Little, Vec::new()).unwrap();
            let level = ShardLevel::new(&[4], &[1], &[], index, at_start, Vec::new()).unwrap();
            let mut sink = Sink::Memory(Vec::new());
            let mut index =
                begin(&level, &mut sink, None, false, &|_| false, level.index().absent().unwrap(), &|| false)
                    .unwrap();
            for n in [0, 1, 3] {
                let offset = sink.len();
                sink.append(&[n as u8; 3]).unwrap();
                index.set(n, Some((offset, 3)));
            }
            let mut stored = Vec::new();
            level.index().encode(&index, &mut stored, &mut Scratch::default()).unwrap();
            match at_start {
                true => sink.overwrite(0, &stored).unwrap(),
                false => sink.append(&stored).unwrap(),
            }
            let Sink::Memory(bytes) = sink else { panic!() };
            let opened = crate::shard::memory::InMemory { bytes, key: "k".into(), url: "u".into() };
            let former =
                Former { range: (0, opened.size()), opened: &opened, index: std::sync::Arc::new(index) };
            let mut sink = Sink::Memory(Vec::new());
            let absent = level.index().absent().unwrap();
            let index =
                begin(&level, &mut sink, Some(&former), true, &|n| n == 1, absent, &|| false).unwrap();
            let Sink::Memory(bytes) = sink else { panic!() };
            let start = if at_start { 64 } else { 0 };
            assert_eq!(bytes[start as usize..], [0, 0, 0, 3, 3, 3]);
            assert_eq!(index.present_chunks().collect::<Vec<_>>(), [(0, start, 3), (3, start + 3, 3)]);
        }
    }
}
