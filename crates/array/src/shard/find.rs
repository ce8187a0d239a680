//! Where the chunks of one shard are that a request touches.
//!
//! 1. Open the object. Shards that go through codecs as a whole, and those of stores that cannot
//!    read ranges, are read and decoded as a whole instead.
//! 2. Get the indexes of one depth, first that of the object: from the cache, or those that are
//!    missing by one read, within a bound on memory; check them.
//! 3. Look up the chunks. Those of shards within the shard are looked up there: step 2 again, one
//!    level further in.

#![expect(clippy::indexing_slicing, reason = "shards have the numbers under which they were opened")]

use super::cache::{INDEXES, IndexPlace};
use super::memory::InMemory;
use crate::costs;
use crate::dims::Dims;
use crate::error::ArrayError;
use crate::execute::tasks::{codec_error, memory_error, store_error};
use crate::layout::ArrayLayout;
use crate::layout::shard_index::ShardIndex;
use crate::layout::sharding::Touched;
use crate::layout::sharding::{ShardLevel, Sharding};
use crate::plan::Plan;
use crate::plan::lot::{FoundChunk, FoundObject, Lot};
use crate::plan::task::Task;
use crate::runtime::settings;
use hyperslab_codec::{Scratch, decode_bounded, vlen_limit};
use hyperslab_store::{Key, Opened, RangeRead, Stamp, StoreError};
use smallvec::SmallVec;
use std::sync::Arc;

/// Looks chunks up in one shard.
pub(crate) struct Finder<'a, 's> {
    layout: &'s ArrayLayout,
    pub(crate) sharding: &'a Sharding,
    /// The plan of chunks.
    plan: &'a Plan,
    key: &'a str,
    /// Its index per axis.
    shard: Dims,
    verify: bool,
    /// The object, and shards within it that had to be decoded as a whole.
    opened: Vec<Box<dyn Opened + 's>>,
    /// Whether the object was read as a whole.
    in_memory: bool,
    /// Which contents the object has.
    stamp: Option<Stamp>,
    /// Bytes that were read so far.
    read: u64,
}

/// A shard: which of [`Finder::opened`] it lies in, and its offset and length there.
type Shard = (usize, (u64, u64));

/// Indexes of shards, mostly one.
type Indexes = SmallVec<[Arc<ShardIndex>; 1]>;

/// A shard within a shard, and what is looked for in it.
struct Inside {
    /// Which of [`Finder::opened`].
    opened: usize,
    /// Offset and length.
    range: (u64, u64),
    touched: Vec<Touched>,
}

impl<'a, 's> Finder<'a, 's> {
    /// Opens the shard that is the object `key`; `shard` is its task. `None`: there is no such
    /// object.
    pub(crate) fn open(
        layout: &'s ArrayLayout,
        sharding: &'a Sharding,
        plan: &'a Plan,
        key: Key<'a>,
        shard: &Task,
        verify: bool,
    ) -> Result<Option<Self>, ArrayError> {
        let mut read = 0;
        let store = layout.store();
        let fail = |source| store_error(layout, shard, source);
        let codecs = sharding.levels().first().map_or(&[][..], ShardLevel::codecs);
        let whole = !codecs.is_empty() || !store.reads_ranges() || !settings::partial_reads();
        let opened: Box<dyn Opened + 's> = if whole {
            let mut stored = Vec::new();
            let limit = usize::try_from(most_bytes(layout, sharding, 0)).unwrap_or(usize::MAX);
            if !store.read_all(key, &mut stored, limit).map_err(fail)? {
                return Ok(None);
            }
            read = stored.len() as u64;
            let bytes = match codecs {
                [] => stored,
                codecs => {
                    let mut bytes = Vec::new();
                    let limit = believed(layout, limit, stored.len());
                    decode_bounded(codecs, &stored, limit, &mut bytes, &mut Scratch::default(), verify)
                        .map_err(|source| codec_error(layout, shard, key.as_str(), source))?;
                    bytes
                }
            };
            Box::new(InMemory { bytes, key: key.as_str().into(), url: store.url() })
        } else {
            match store.open(key, None).map_err(fail)? {
                Some(opened) => opened,
                None => return Ok(None),
            }
        };
        let stamp = opened.stamp();
        Ok(Some(Finder {
            layout,
            sharding,
            plan,
            key: key.as_str(),
            shard: shard.chunk.clone(),
            verify,
            opened: vec![opened],
            in_memory: whole,
            stamp,
            read,
        }))
    }

    /// The object.
    pub(crate) fn object(&self) -> &dyn Opened {
        &*self.opened[0]
    }

    /// Looks chunks up, from the object inwards.
    pub(crate) fn find(
        mut self,
        touched: impl Iterator<Item = Touched>,
        lot: &mut Lot<'s>,
    ) -> Result<(), ArrayError> {
        let sharding = self.sharding;
        let Some((first, inner)) = sharding.levels().split_first() else { return Ok(()) };
        let object = (0, (0, self.object().size()));
        let (indexes, read) = self.indexes(first, &[(self.object(), true, object.1)])?;
        self.read += read;
        let Some(index) = indexes.first() else { return Ok(()) };
        let (mut depth, mut level) = (Vec::new(), first);
        match inner {
            [] => self.look_up(level, object, index, touched, lot)?,
            _ => self.descend(1, level, object, index, touched, lot, &mut depth)?,
        }
        for (n, next) in inner.iter().enumerate() {
            level = next;
            let mut deeper = Vec::new();
            // A file may claim any number of shards: their indexes are not all in memory at once.
            let most = (costs::INDEXES_AT_ONCE / level.index().size().max(1)).max(1);
            let mut left = depth.into_iter().peekable();
            while left.peek().is_some() {
                let group: Vec<Inside> = left.by_ref().take(most).collect();
                let (indexes, read) = {
                    let opened =
                        |shard: &Inside| (&*self.opened[shard.opened], shard.opened == 0, shard.range);
                    self.indexes(level, &group.iter().map(opened).collect::<Vec<_>>())?
                };
                self.read += read;
                for (Inside { opened, range, touched }, index) in group.into_iter().zip(&indexes) {
                    let (shard, touched) = ((opened, range), touched.into_iter());
                    match n + 1 == inner.len() {
                        true => self.look_up(level, shard, index, touched, lot)?,
                        false => self.descend(n + 2, level, shard, index, touched, lot, &mut deeper)?,
                    }
                }
            }
            depth = deeper;
        }
        lot.index_bytes = self.read;
        lot.objects.extend(self.opened.into_iter().enumerate().map(|(n, opened)| FoundObject {
            key: self.key.into(),
            opened: Some(opened),
            stamp: self.stamp.filter(|_| n == 0),
            in_memory: self.in_memory || n > 0,
        }));
        Ok(())
    }

    /// Looks chunks up in a shard of the innermost level.
    fn look_up(
        &self,
        level: &ShardLevel,
        (object, range): Shard,
        index: &ShardIndex,
        touched: impl Iterator<Item = Touched>,
        lot: &mut Lot<'s>,
    ) -> Result<(), ArrayError> {
        let chain = self.layout.encoding().chain();
        let (size, most) = (chain.decoded_size() as u64, chain.max_encoded() as u64);
        for Touched { number, at } in touched {
            match index.get(level.number(&at)).map_err(|why| self.wrong(Some(number), why))? {
                Some((_, len)) if chain.is_identity() && len != size => {
                    let why = format!("it has {len} bytes; a chunk without codecs has {size}");
                    return Err(self.wrong(Some(number), why));
                }
                Some((offset, len)) => {
                    self.check_len(Some(number), len, most)?;
                    lot.chunks.push(FoundChunk { object, offset: range.0 + offset, len, number });
                }
                None => lot.absent.push((number, 0)),
            }
        }
        Ok(())
    }

    /// Looks up the shards of depth `depth` within a shard of `level`.
    #[allow(clippy::too_many_arguments)]
    fn descend(
        &mut self,
        depth: usize,
        level: &ShardLevel,
        (object, outer): Shard,
        index: &ShardIndex,
        touched: impl Iterator<Item = Touched>,
        lot: &mut Lot<'s>,
        next: &mut Vec<Inside>,
    ) -> Result<(), ArrayError> {
        let groups = level.group(self.layout.grid().chunk_shape(), touched);
        for (n, touched) in groups {
            let number = touched.first().map(|touched| touched.number);
            let Some((offset, len)) = index.get(n).map_err(|why| self.wrong(number, why))? else {
                lot.absent.extend(touched.iter().map(|touched| (touched.number, 0)));
                continue;
            };
            let (mut opened, mut range) = (object, (outer.0 + offset, len));
            if let Some(bytes) = self.decoded(depth, &*self.opened[opened], range, number)? {
                if opened == 0 && !self.in_memory {
                    self.read += len;
                }
                (opened, range) = (self.opened.len(), (0, bytes.size()));
                self.opened.push(Box::new(bytes));
            }
            next.push(Inside { opened, range, touched });
        }
        Ok(())
    }

    /// A shard of depth `depth`, that goes through codecs and is stored at `range` of `opened`,
    /// decoded. `None`: it goes through none.
    pub(crate) fn decoded(
        &self,
        depth: usize,
        opened: &dyn Opened,
        range: (u64, u64),
        number: Option<usize>,
    ) -> Result<Option<InMemory>, ArrayError> {
        let codecs = self.sharding.levels().get(depth).map_or(&[][..], ShardLevel::codecs);
        if codecs.is_empty() {
            return Ok(None);
        }
        let limit = most_bytes(self.layout, self.sharding, depth);
        self.check_len(number, range.1, limit)?;
        let stored = self.bytes(opened, range)?;
        let limit = believed(self.layout, usize::try_from(limit).unwrap_or(usize::MAX), stored.len());
        let mut bytes = Vec::new();
        decode_bounded(codecs, &stored, limit, &mut bytes, &mut Scratch::default(), self.verify)
            .map_err(|source| self.wrong(number, source.to_string()))?;
        Ok(Some(InMemory { bytes, key: self.key.into(), url: self.layout.store().url() }))
    }

    /// The index of a shard that lies at `range` of `opened`; `object`: which is the object, and
    /// not what was decoded from it.
    pub(crate) fn index(
        &self,
        level: &ShardLevel,
        opened: &dyn Opened,
        object: bool,
        range: (u64, u64),
    ) -> Result<Arc<ShardIndex>, ArrayError> {
        let (mut indexes, _) = self.indexes(level, &[(opened, object, range)])?;
        indexes.pop().ok_or_else(|| self.wrong(None, "it has no level".into()))
    }

    /// The indexes of shards of one level, and how many bytes were read for them. Those that are
    /// not kept are read together.
    fn indexes(
        &self,
        level: &ShardLevel,
        shards: &[(&dyn Opened, bool, (u64, u64))],
    ) -> Result<(Indexes, u64), ArrayError> {
        let cache = INDEXES.get();
        let place = |object: bool, range: (u64, u64)| {
            let stamp = self.stamp.filter(|_| object && settings::shard_index_bound() > 0)?;
            let (offset, len) = range;
            Some(IndexPlace { stamp, offset, len, decoding: level.decoding().clone(), verified: self.verify })
        };
        let mut kept: SmallVec<[Option<Arc<ShardIndex>>; 1]> = SmallVec::with_capacity(shards.len());
        let mut needed: Vec<(usize, u64, Vec<u8>)> = Vec::new();
        for (n, (_, object, range)) in shards.iter().enumerate() {
            kept.push(place(*object, *range).and_then(|place| cache.get(&place)));
            if kept.last().is_some_and(Option::is_none) {
                let (offset, len) = self.index_range(level, range.1)?;
                needed.push((n, range.0 + offset, self.room(len)?));
            }
        }
        let mut read = 0;
        for group in needed.chunk_by_mut(|a, b| shards[a.0].1 && shards[b.0].1) {
            let Some((opened, object, _)) = group.first().map(|(n, ..)| shards[*n]) else { continue };
            let mut ranges: SmallVec<[RangeRead<'_>; 1]> =
                group.iter_mut().map(|(_, offset, buf)| RangeRead { offset: *offset, buf }).collect();
            opened.read_ranges(&mut ranges).map_err(|source| self.store(source))?;
            if object && !self.in_memory {
                read += ranges.iter().map(|range| range.buf.len() as u64).sum::<u64>();
            }
        }
        for (n, _, bytes) in needed {
            let (opened, object, range) = shards[n];
            let mut index = level
                .index()
                .decode(&bytes, self.verify)
                .map_err(|source| self.wrong(None, format!("its index: {source}")))?;
            index.check(range.1, self.index_range(level, range.1)?);
            let index = Arc::new(index);
            if let Some(place) = place(object, range)
                && opened.vouched() == Some(place.stamp)
            {
                cache.keep(place, &index, settings::shard_index_bound());
            }
            kept[n] = Some(index);
        }
        Ok((kept.into_iter().flatten().collect(), read))
    }

    /// Where the index of a shard of `len` bytes is.
    fn index_range(&self, level: &ShardLevel, len: u64) -> Result<(u64, u64), ArrayError> {
        level.index_range(len).ok_or_else(|| {
            let why = format!(
                "it has {len} bytes, and its index alone {}: it was not written to its end, or with other metadata",
                level.index().size()
            );
            self.wrong(None, why)
        })
    }

    /// A buffer of so many bytes.
    fn room(&self, len: u64) -> Result<Vec<u8>, ArrayError> {
        let none = |_| memory_error(self.layout, "a part of a shard", len);
        let mut bytes = Vec::new();
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        bytes.try_reserve_exact(len).map_err(none)?;
        bytes.resize(len, 0);
        Ok(bytes)
    }

    /// A range of `opened`, in which it is known to lie.
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

    /// Refuses more bytes than metadata allow for.
    pub(crate) fn check_len(&self, number: Option<usize>, len: u64, most: u64) -> Result<(), ArrayError> {
        let why = || format!("it has {len} bytes; {most} are the most that can be right");
        if len > most { Err(self.wrong(number, why())) } else { Ok(()) }
    }

    /// An error of the store, which names the object.
    pub(crate) fn store(&self, source: StoreError) -> ArrayError {
        ArrayError::Store {
            array: self.layout.name().into(),
            chunk: self.shard.to_vec(),
            source: source.into(),
        }
    }

    /// An error about the shard, or about the chunk of a task.
    pub(crate) fn wrong(&self, number: Option<usize>, why: String) -> ArrayError {
        let chunk = number.map(|number| {
            let mut task = Task::default();
            self.plan.task(self.layout, number, &mut task);
            task.chunk.to_vec()
        });
        ArrayError::Shard { array: self.layout.name().into(), key: self.key.into(), chunk, why }
    }
}

/// To how many bytes a shard of `stored` bytes may decode, of which metadata say `limit`. Of
/// elements of variable length they say nothing.
fn believed(layout: &ArrayLayout, limit: usize, stored: usize) -> usize {
    if layout.vlen().is_some() { limit.min(vlen_limit(stored)) } else { limit }
}

/// The most bytes that a shard of depth `depth` may have, stored or decoded, to be taken into
/// memory as a whole. Generous: rewritten shards may hold bytes that nothing refers to.
pub(crate) fn most_bytes(layout: &ArrayLayout, sharding: &Sharding, depth: usize) -> u64 {
    let Some(level) = sharding.levels().get(depth) else {
        return layout.encoding().chain().max_encoded() as u64;
    };
    let all = most_bytes(layout, sharding, depth + 1).saturating_mul(level.index().count() as u64);
    let mut size = all.saturating_mul(2).saturating_add(level.index().size() as u64);
    if layout.vlen().is_some() {
        // No metadata says how large it is: no larger than a chunk may be.
        size = size.min(layout.encoding().chain().max_encoded() as u64);
    }
    let encoded = level
        .codecs()
        .iter()
        .fold(usize::try_from(size).unwrap_or(usize::MAX), |size, codec| codec.max_encoded(size));
    encoded as u64
}
