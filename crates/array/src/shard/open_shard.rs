//! One shard: its bytes, its index, and errors that name it.
//!
//! Used by readers ([`super::find`]) and writers alike.

use super::cache::{INDEXES, IndexPlace};
use super::memory::InMemory;
use crate::dims::Dims;
use crate::error::ArrayError;
use crate::execute::tasks::{codec_error, memory_error};
use crate::layout::ArrayLayout;
use crate::layout::shard_index::ShardIndex;
use crate::layout::sharding::{ShardLevel, Sharding};
use crate::plan::Plan;
use crate::plan::lot::FoundObject;
use crate::plan::task::Task;
use crate::runtime::settings;
use hyperslab_codec::{Codec, Scratch, decode_bounded, vlen_limit};
use hyperslab_store::{Key, Next, Opened, Opening, RangeRead, Stamp, StoreError};
use smallvec::SmallVec;
use std::sync::Arc;

/// A shard that is an object of its own, whether it exists or not.
pub(crate) struct Shard<'a, 's> {
    pub(crate) layout: &'s ArrayLayout,
    pub(crate) sharding: &'a Sharding,
    /// The shard's own outermost level, if shards have different shapes.
    outermost: Option<Arc<ShardLevel>>,
    /// The plan of chunks.
    pub(crate) plan: &'a Plan,
    pub(crate) key: Key<'a>,
    /// The shard's index per axis.
    pub(crate) chunk: Dims,
    pub(crate) verify: bool,
    /// All of the shard will be read.
    entire: bool,
}

/// The index of a shard, or the bytes to read for it.
pub(crate) enum IndexNeed {
    Kept(Arc<ShardIndex>),
    /// The offset in the object, a buffer for the bytes, and the place to keep the index at.
    Read(u64, Vec<u8>, Option<IndexPlace>),
}

impl IndexNeed {
    /// Offset and length of the missing bytes.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        match self {
            IndexNeed::Kept(_) => None,
            IndexNeed::Read(offset, buf, _) => Some((*offset, buf.len() as u64)),
        }
    }
}

impl<'a, 's> Shard<'a, 's> {
    /// The shard at `chunk` of the grid of shards. `plan` is the plan of chunks.
    ///
    /// Fails with [`ArrayError::Layout`] if the index of a shard of this shape is too large for
    /// memory.
    pub(crate) fn new(
        layout: &'s ArrayLayout,
        sharding: &'a Sharding,
        plan: &'a Plan,
        key: Key<'a>,
        chunk: Dims,
        verify: bool,
    ) -> Result<Self, ArrayError> {
        let refuse = |why| ArrayError::Layout { array: layout.name().into(), why };
        let outermost = sharding.outermost_level(&chunk).map_err(refuse)?;
        Ok(Shard { layout, sharding, outermost, plan, key, chunk, verify, entire: false })
    }

    /// The same shard. All of it will be read, if `entire`.
    pub(crate) fn read_entirely(self, entire: bool) -> Self {
        Shard { entire, ..self }
    }

    /// How shards of this depth are stored: this shard (0), or shards in it.
    pub(crate) fn level(&self, depth: usize) -> Option<&ShardLevel> {
        match &self.outermost {
            Some(level) if depth == 0 => Some(level),
            _ => self.sharding.levels().get(depth),
        }
    }

    /// Opens the shard. `None` if there is no such object.
    pub(crate) fn open(&self) -> Result<Option<FoundObject<'s>>, ArrayError> {
        let mut found = None;
        Self::open_all(std::slice::from_ref(self), &mut 0, &mut |_, object| found = object)?;
        Ok(found)
    }

    /// Opens shards of one array, and passes each to `each`.
    ///
    /// Shards are read and decoded as a whole if they go through codecs as a whole, or if the store
    /// cannot read ranges. `read` counts the bytes.
    pub(crate) fn open_all(
        shards: &[Self],
        read: &mut u64,
        each: &mut dyn FnMut(usize, Option<FoundObject<'s>>),
    ) -> Result<(), ArrayError> {
        let Some(Shard { layout, sharding, .. }) = shards.first() else { return Ok(()) };
        let store = layout.store();
        let ranges = store.facts().reads_ranges;
        // Far away, shards are requested together all the same.
        if !ranges && !store.cost().prefers_rounds() {
            for (n, shard) in shards.iter().enumerate() {
                each(n, shard.read_all(read)?);
            }
            return Ok(());
        }
        let coded = sharding.levels().first().is_some_and(|level| !level.codecs().is_empty());
        let whole = coded || !ranges || !settings::partial_reads();
        // One request for the index and one for the chunks take little longer than one for all, and
        // need no memory for the shard. But they are two.
        let frugal = !store.cost().worth_guessing();
        let next = |shard: &Self| match shard.level(0) {
            _ if shard.entire && frugal => Next::All,
            Some(level) if !whole && level.at_start() => Next::Start(level.index().size() as u64),
            Some(level) if !whole => Next::End(level.index().size() as u64),
            _ => Next::All,
        };
        let wanted: SmallVec<[Opening<'_>; 1]> =
            shards.iter().map(|shard| Opening { key: shard.key, next: next(shard) }).collect();
        let mut outcome = Ok(());
        store.open_all(&wanted, &mut |n, opened| {
            let Some(shard) = shards.get(n).filter(|_| outcome.is_ok()) else { return };
            let found = opened.map_err(|source| shard.store(source)).and_then(|opened| match opened {
                Some(opened) if whole => shard.read_opened(&*opened, read).map(Some),
                Some(opened) => Ok(Some(shard.object(opened, false))),
                None => Ok(None),
            });
            match found {
                Ok(found) => each(n, found),
                Err(error) => outcome = Err(error),
            }
        });
        outcome
    }

    /// The shard's object, or one that was decoded from it.
    pub(crate) fn object(&self, opened: Box<dyn Opened + 's>, in_memory: bool) -> FoundObject<'s> {
        FoundObject { key: self.key.as_str().into(), stamp: opened.stamp(), opened: Some(opened), in_memory }
    }

    /// Reads and decodes the whole object.
    fn read_all(&self, read: &mut u64) -> Result<Option<FoundObject<'s>>, ArrayError> {
        let (mut stored, most) = (Vec::new(), self.most_bytes(0));
        let limit = usize::try_from(most).unwrap_or(usize::MAX);
        let found = self.layout.store().read_all(self.key, &mut stored, limit);
        match found.map_err(|source| self.store(source))? {
            true => self.decode_all(stored, read).map(Some),
            false => Ok(None),
        }
    }

    /// Reads and decodes the whole of an open object.
    fn read_opened(&self, opened: &dyn Opened, read: &mut u64) -> Result<FoundObject<'s>, ArrayError> {
        let limit = self.most_bytes(0);
        if opened.size() > limit {
            let (key, url) = (self.key.as_str().to_owned(), self.layout.store().url());
            return Err(self.store(StoreError::TooLarge { key, url, limit }));
        }
        self.decode_all(self.bytes(opened, (0, opened.size()))?, read)
    }

    fn decode_all(&self, stored: Vec<u8>, read: &mut u64) -> Result<FoundObject<'s>, ArrayError> {
        *read += stored.len() as u64;
        let bytes = match self.codecs(0) {
            [] => stored,
            _ => {
                let wrong = |source| {
                    let task = Task { chunk: self.chunk.clone(), ..Task::default() };
                    codec_error(self.layout, &task, self.key.as_str(), source)
                };
                self.decode(0, &stored).map_err(wrong)?
            }
        };
        Ok(self.object(Box::new(self.in_memory(bytes)), true))
    }

    /// Reads and decodes a shard of depth `depth` at `range` of `opened`. `None` if it goes through
    /// no codecs.
    pub(crate) fn read_decoded(
        &self,
        depth: usize,
        opened: &dyn Opened,
        range: (u64, u64),
        number: Option<usize>,
    ) -> Result<Option<InMemory>, ArrayError> {
        if self.codecs(depth).is_empty() {
            return Ok(None);
        }
        self.check_len(number, range.1, self.most_bytes(depth))?;
        let stored = self.bytes(opened, range)?;
        let bytes = self.decode(depth, &stored).map_err(|source| self.error(number, source.to_string()))?;
        Ok(Some(self.in_memory(bytes)))
    }

    fn decode(&self, depth: usize, stored: &[u8]) -> Result<Vec<u8>, hyperslab_codec::CodecError> {
        let most = usize::try_from(self.most_bytes(depth)).unwrap_or(usize::MAX);
        // Metadata do not say how large elements of variable length are.
        let limit = if self.layout.vlen().is_some() { most.min(vlen_limit(stored.len())) } else { most };
        let mut bytes = Vec::new();
        let (codecs, mut scratch) = (self.codecs(depth), Scratch::default());
        decode_bounded(codecs, stored, limit, &mut bytes, &mut scratch, self.verify)?;
        Ok(bytes)
    }

    fn in_memory(&self, bytes: Vec<u8>) -> InMemory {
        InMemory { bytes, key: self.key.as_str().into(), url: self.layout.store().url() }
    }

    fn codecs(&self, depth: usize) -> &[Arc<dyn Codec>] {
        self.level(depth).map_or(&[], ShardLevel::codecs)
    }

    /// The index of a shard of `level` at `range` of `opened`. The index is kept if `stamp`
    /// identifies these contents.
    pub(crate) fn index(
        &self,
        level: &ShardLevel,
        opened: &dyn Opened,
        stamp: Option<Stamp>,
        range: (u64, u64),
    ) -> Result<Arc<ShardIndex>, ArrayError> {
        match self.index_need(level, stamp, range)? {
            IndexNeed::Kept(index) => Ok(index),
            IndexNeed::Read(offset, mut buf, place) => {
                let read = opened.read_ranges(&mut [RangeRead { offset, buf: &mut buf }]);
                read.map_err(|source| self.store(source))?;
                self.decode_index(level, opened, range, &buf, place)
            }
        }
    }

    /// The index of a shard of `level` at `range` of an object, or the bytes to read for it.
    pub(crate) fn index_need(
        &self,
        level: &ShardLevel,
        stamp: Option<Stamp>,
        range: (u64, u64),
    ) -> Result<IndexNeed, ArrayError> {
        let stamp = stamp.filter(|_| settings::shard_index_bound() > 0);
        let place = stamp.map(|stamp| {
            let (offset, len) = range;
            IndexPlace { stamp, offset, len, decoding: level.decoding().clone(), verified: self.verify }
        });
        if let Some(index) = place.as_ref().and_then(|place| INDEXES.get().get(place)) {
            return Ok(IndexNeed::Kept(index));
        }
        let (offset, len) = self.index_range(level, range.1)?;
        Ok(IndexNeed::Read(range.0 + offset, self.room(len)?, place))
    }

    /// Decodes the index of a shard from `bytes`, which were read from `opened`, and checks it.
    pub(crate) fn decode_index(
        &self,
        level: &ShardLevel,
        opened: &dyn Opened,
        range: (u64, u64),
        bytes: &[u8],
        place: Option<IndexPlace>,
    ) -> Result<Arc<ShardIndex>, ArrayError> {
        let wrong = |source| self.error(None, format!("its index: {source}"));
        let mut index = level.index().decode(bytes, self.verify).map_err(wrong)?;
        index.check(range.1, self.index_range(level, range.1)?);
        let index = Arc::new(index);
        if let Some(place) = place.filter(|place| opened.vouched() == Some(place.stamp)) {
            INDEXES.get().keep(place, &index, settings::shard_index_bound());
        }
        Ok(index)
    }

    /// Offset and length of the index in a shard of `len` bytes.
    fn index_range(&self, level: &ShardLevel, len: u64) -> Result<(u64, u64), ArrayError> {
        level.index_range(len).ok_or_else(|| {
            let why = format!(
                "it has {len} bytes, and its index alone {}: it was not written to its end, or with other metadata",
                level.index().size()
            );
            self.error(None, why)
        })
    }

    /// A buffer of `len` bytes.
    fn room(&self, len: u64) -> Result<Vec<u8>, ArrayError> {
        let none = |_| memory_error(self.layout, "a part of a shard", len);
        let mut bytes = Vec::new();
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        bytes.try_reserve_exact(len).map_err(none)?;
        bytes.resize(len, 0);
        Ok(bytes)
    }

    /// Reads a range of `opened`, which must lie inside.
    pub(crate) fn bytes(
        &self,
        opened: &dyn Opened,
        (offset, len): (u64, u64),
    ) -> Result<Vec<u8>, ArrayError> {
        let mut bytes = self.room(len)?;
        opened
            .read_ranges(&mut [RangeRead { offset, buf: &mut bytes }])
            .map_err(|source| self.store(source))?;
        Ok(bytes)
    }

    /// Fails if there are more bytes than metadata allow for.
    pub(crate) fn check_len(&self, number: Option<usize>, len: u64, most: u64) -> Result<(), ArrayError> {
        let why = || format!("it has {len} bytes; {most} are the most that can be right");
        if len > most { Err(self.error(number, why())) } else { Ok(()) }
    }

    /// Wraps an error of the store, which names the object.
    pub(crate) fn store(&self, source: StoreError) -> ArrayError {
        ArrayError::Store {
            array: self.layout.name().into(),
            chunk: self.chunk.to_vec(),
            source: source.into(),
        }
    }

    /// An error about the shard, or about the chunk of task `number`.
    pub(crate) fn error(&self, number: Option<usize>, why: String) -> ArrayError {
        let chunk = number.map(|number| {
            let mut task = Task::default();
            self.plan.task(self.layout, number, &mut task);
            task.chunk.to_vec()
        });
        ArrayError::Shard { array: self.layout.name().into(), key: self.key.as_str().into(), chunk, why }
    }

    /// The most bytes that a shard of depth `depth` may have, stored or decoded, to be read as a
    /// whole. Generous: rewritten shards may hold bytes that nothing refers to.
    fn most_bytes(&self, depth: usize) -> u64 {
        let chunk = self.layout.encoding().chain().max_encoded() as u64;
        let Some(level) = self.level(depth) else { return chunk };
        let all = self.most_bytes(depth + 1).saturating_mul(level.index().count() as u64);
        let mut size = all.saturating_mul(2).saturating_add(level.index().size() as u64);
        if self.layout.vlen().is_some() {
            // Metadata do not say how large it is. Allow no more than for a chunk.
            size = size.min(chunk);
        }
        let encoded = level
            .codecs()
            .iter()
            .fold(usize::try_from(size).unwrap_or(usize::MAX), |size, codec| codec.max_encoded(size));
        encoded as u64
    }
}
