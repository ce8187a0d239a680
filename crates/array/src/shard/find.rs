//! Where the chunks of one shard are that a request touches.
//!
//! 1. Open the object. Shards that go through codecs as a whole, and those of stores that cannot
//!    read ranges, are read and decoded as a whole instead.
//! 2. Get the index: from the cache, or by one read; check it.
//! 3. Look up the chunks. Those of a shard within the shard are looked up there, in the same way.

use super::cache::Place;
use super::index::ShardIndex;
use super::level::{ShardLevel, Sharding};
use super::memory::InMemory;
use super::plan::{ShardPlan, Touched};
use crate::error::ArrayError;
use crate::layout::ArrayLayout;
use crate::layout::dims::Dims;
use crate::plan::{Plan, Task};
use crate::read::runs::Chunk;
use crate::runtime::tasks;
use crate::runtime::tasks::{codec_error, memory_error, store_error};
use crate::runtime::{process, settings};
use hyperslab_codec::{Scratch, decode_bounded, vlen_limit};
use hyperslab_store::{Key, Opened, RangeRead, Stamp, StoreError};
use std::sync::Arc;

/// The bytes of a shard: first the object, then shards within it that had to be decoded as a whole.
pub(crate) type Blobs<'s> = Vec<Box<dyn Opened + 's>>;

/// Looks chunks up in one shard.
pub(crate) struct Finder<'a, 's> {
    pub(crate) layout: &'s ArrayLayout,
    pub(crate) sharding: &'a Sharding,
    /// The plan of chunks.
    pub(crate) plan: &'a Plan,
    pub(crate) key: &'a str,
    /// Its index per axis.
    shard: Dims,
    pub(crate) verify: bool,
    pub(crate) blobs: Blobs<'s>,
    /// Which contents the object has.
    pub(crate) stamp: Option<Stamp>,
    /// What was found.
    pub(crate) chunks: Vec<Chunk>,
    /// The numbers of tasks whose chunks do not exist.
    pub(crate) absent: Vec<usize>,
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
            blobs: vec![opened],
            stamp,
            chunks: Vec::new(),
            absent: Vec::new(),
        }))
    }

    /// Looks chunks up, from the object inwards.
    pub(crate) fn find(&mut self, touched: impl Iterator<Item = Touched>) -> Result<(), ArrayError> {
        let size = self.blobs.first().map_or(0, |blob| blob.size());
        self.resolve(0, 0, (0, size), touched)
    }

    /// Looks chunks up in the shard of depth `depth` that lies at `range` of a blob.
    fn resolve(
        &mut self,
        depth: usize,
        blob: usize,
        range: (u64, u64),
        touched: impl Iterator<Item = Touched>,
    ) -> Result<(), ArrayError> {
        let sharding = self.sharding;
        let Some(level) = sharding.levels().get(depth) else { return Ok(()) };
        let Some(index) =
            self.blobs.get(blob).map(|opened| self.index(level, &**opened, blob == 0, range)).transpose()?
        else {
            return Ok(());
        };
        if depth + 1 == sharding.levels().len() {
            let chain = self.layout.encoding().chain();
            let (size, most) = (chain.decoded_size() as u64, chain.max_encoded() as u64);
            for Touched { number, at } in touched {
                match index.get(level.number(&at)).map_err(|why| self.wrong(Some(number), why))? {
                    Some((_, len)) if chain.is_identity() && len != size => {
                        let why = format!("it has {len} bytes; a chunk without codecs has {size}");
                        return Err(self.wrong(Some(number), why));
                    }
                    Some((_, len)) if len > most => {
                        let why = format!("it has {len} bytes; {most} are the most that can be right");
                        return Err(self.wrong(Some(number), why));
                    }
                    Some((offset, len)) => {
                        self.chunks.push(Chunk { blob, offset: range.0 + offset, len, number })
                    }
                    None => self.absent.push(number),
                }
            }
            return Ok(());
        }
        // By shard within the shard.
        let groups = level.group(self.layout.grid().chunk_shape(), touched);
        for (n, group) in groups {
            let number = group.first().map(|touched| touched.number);
            let Some((offset, len)) = index.get(n).map_err(|why| self.wrong(number, why))? else {
                self.absent.extend(group.iter().map(|touched| touched.number));
                continue;
            };
            let range = (range.0 + offset, len);
            let decoded = match self.blobs.get(blob) {
                Some(opened) => self.decoded(depth + 1, &**opened, range, number)?,
                None => None,
            };
            let (blob, range) = match decoded {
                Some(bytes) => {
                    let size = bytes.size();
                    self.blobs.push(Box::new(bytes));
                    (self.blobs.len() - 1, (0, size))
                }
                None => (blob, range),
            };
            self.resolve(depth + 1, blob, range, group.into_iter())?;
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
        if range.1 > limit {
            return Err(self
                .wrong(number, format!("it has {} bytes; {limit} are the most that can be right", range.1)));
        }
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
        let stamp = self.stamp.filter(|_| object && settings::shard_index_bound() > 0);
        let place = stamp.map(|stamp| Place {
            stamp,
            offset: range.0,
            len: range.1,
            decoding: level.decoding().clone(),
            verified: self.verify,
        });
        let cache = &process::current().indexes;
        if let Some(place) = &place
            && let Some(index) = cache.get(place)
        {
            return Ok(index);
        }
        let Some(stored) = level.index_range(range.1) else {
            let why = format!(
                "it has {} bytes, and its index alone {}: it was not written to its end, or with other metadata",
                range.1,
                level.index().size()
            );
            return Err(self.wrong(None, why));
        };
        let bytes = self.bytes(opened, (range.0 + stored.0, stored.1))?;
        let mut index = level
            .index()
            .decode(&bytes, self.verify)
            .map_err(|source| self.wrong(None, format!("its index: {source}")))?;
        index.check(range.1, stored);
        let index = Arc::new(index);
        if let Some(place) = place
            && opened.vouched() == Some(place.stamp)
        {
            cache.keep(place, &index, settings::shard_index_bound());
        }
        Ok(index)
    }

    /// A range of `opened`, in which it is known to lie.
    pub(crate) fn bytes(
        &self,
        opened: &dyn Opened,
        (offset, len): (u64, u64),
    ) -> Result<Vec<u8>, ArrayError> {
        let none = |_| memory_error(self.layout, "a part of a shard", len);
        let mut bytes = Vec::new();
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        bytes.try_reserve_exact(len).map_err(none)?;
        bytes.resize(len, 0);
        opened
            .read_ranges(&mut [RangeRead { offset, buf: &mut bytes }])
            .map_err(|source| self.store(source))?;
        Ok(bytes)
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

/// Number of a task, and where its chunk is.
pub(crate) type Located = (usize, Option<(u64, u64)>);

/// Where a request's chunks of one shard are: number of the task, and the range of the object;
/// `None`: the chunk does not exist. Ranges of what had to be decoded as a whole count from its
/// start. At most the first `most` of them. For showing what a request would do.
pub(crate) fn locate(
    layout: &ArrayLayout,
    sharding: &Sharding,
    plan: &Plan,
    shards: &ShardPlan<'_>,
    number: usize,
    most: usize,
    key: &mut String,
) -> Result<Vec<Located>, ArrayError> {
    let mut task = Task::default();
    shards.shard(number, &mut task);
    layout.locate(&task.chunk, key)?;
    let checked = tasks::key(layout, &task, key)?;
    let mut found: Vec<Located> = Vec::new();
    match Finder::open(layout, sharding, plan, checked, &task, settings::verify_checksums())? {
        Some(mut finder) => {
            finder.find(shards.touched(number, &task).take(most))?;
            found.extend(finder.chunks.iter().map(|chunk| (chunk.number, Some((chunk.offset, chunk.len)))));
            found.extend(finder.absent.iter().map(|number| (*number, None)));
        }
        None => {
            let touched = shards.touched(number, &task).take(most);
            found.extend(touched.map(|touched| (touched.number, None)));
        }
    }
    found.sort_unstable();
    Ok(found)
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
