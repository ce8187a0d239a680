//! Locates the chunks that a request touches in some shards.
//!
//! 1. Open the shards with one call of the store ([`Shard::open_all`]).
//! 2. Get the indexes of one depth, starting with the indexes of the objects. They come from the
//!    cache, or are read together, within a bound on memory. Check them.
//! 3. Look up the chunks. For shards within shards, repeat from step 2 one level further in, for
//!    all shards at once.

#![expect(clippy::indexing_slicing, reason = "shards and objects have the numbers under which they came")]

use super::open_shard::{IndexNeed, Shard};
use crate::costs;
use crate::error::ArrayError;
use crate::layout::shard_index::ShardIndex;
use crate::layout::sharding::{ShardLevel, Touched};
use crate::plan::lot::{FoundChunk, Lot};
use hyperslab_store::{Opened, RangeRead};
use smallvec::SmallVec;
use std::sync::Arc;

/// Looks up chunks for a lot.
pub(crate) struct Finder<'l, 'a, 's> {
    shards: &'l [Shard<'a, 's>],
    lot: &'l mut Lot<'s>,
    /// `true` if [`Lot::others`] are counted.
    others: bool,
}

/// The place of a shard's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardPlace {
    /// The number of the shard that it is, or is in.
    pub(crate) shard: usize,
    /// Which of the lot's objects holds its bytes; offset and length there.
    pub(crate) object: usize,
    pub(crate) range: (u64, u64),
}

/// Shards within shards, and the chunks to find in each.
#[derive(Default)]
struct Inner {
    places: Vec<ShardPlace>,
    touched: Vec<Vec<Touched>>,
}

/// Indexes of shards, mostly one.
type Indexes = SmallVec<[Arc<ShardIndex>; 1]>;

impl<'l, 'a, 's> Finder<'l, 'a, 's> {
    /// `lot` must hold the objects of the shards.
    pub(crate) fn new(shards: &'l [Shard<'a, 's>], lot: &'l mut Lot<'s>, others: bool) -> Self {
        Finder { shards, lot, others }
    }

    /// Looks up chunks, from the objects inwards. `touched` gives the chunks of the n-th place.
    pub(crate) fn find<I: Iterator<Item = Touched>>(
        mut self,
        places: &[ShardPlace],
        touched: impl FnMut(usize) -> I,
    ) -> Result<(), ArrayError> {
        let Some(sharding) = self.shards.first().map(|shard| shard.sharding) else { return Ok(()) };
        let Some((first, levels)) = sharding.levels().split_first() else { return Ok(()) };
        let mut inner = self.find_in(first, 0, levels.len(), places, touched)?;
        for (level, depth) in levels.iter().zip(1..) {
            let Inner { places, mut touched } = inner;
            let touched = |n: usize| std::mem::take(&mut touched[n]).into_iter();
            inner = self.find_in(level, depth, levels.len(), &places, touched)?;
        }
        Ok(())
    }

    /// Looks up the contents of shards of one level.
    ///
    /// Chunks in the innermost level go to the lot; shards in other levels are returned. `largest`
    /// is this level for the largest shard.
    fn find_in<I: Iterator<Item = Touched>>(
        &mut self,
        largest: &ShardLevel,
        depth: usize,
        innermost: usize,
        places: &[ShardPlace],
        mut touched: impl FnMut(usize) -> I,
    ) -> Result<Inner, ArrayError> {
        let (mut inner, mut n) = (Inner::default(), 0);
        // A file may claim any number of shards, so their indexes are not all in memory at once.
        let most = (costs::INDEXES_AT_ONCE / largest.index().size().max(1)).max(1);
        let shards = self.shards;
        let level_of = |place: &ShardPlace| shards[place.shard].level(depth).unwrap_or(largest);
        for places in places.chunks(most) {
            let indexes = self.indexes(&level_of, places)?;
            for (place, index) in places.iter().zip(&indexes) {
                let level = level_of(place);
                let found = match depth == innermost {
                    true => self.look_up(level, *place, index, touched(n))?,
                    false => self.descend(depth + 1, level, *place, index, touched(n), &mut inner)?,
                };
                if self.others && !self.lot.objects[place.object].in_memory {
                    let all = index.present_chunks().fold(0, |all: u64, (_, _, len)| all.saturating_add(len));
                    self.lot.others = self.lot.others.saturating_add(all.saturating_sub(found));
                }
                n += 1;
            }
        }
        Ok(inner)
    }

    /// Looks up chunks in a shard of the innermost level. Returns the bytes of the chunks that
    /// exist.
    fn look_up(
        &mut self,
        level: &ShardLevel,
        ShardPlace { shard, object, range }: ShardPlace,
        index: &ShardIndex,
        touched: impl Iterator<Item = Touched>,
    ) -> Result<u64, ArrayError> {
        let (shard, mut found) = (&self.shards[shard], 0u64);
        let chain = shard.layout.encoding().chain();
        let (size, most) = (chain.decoded_size() as u64, chain.max_encoded() as u64);
        for Touched { number, at } in touched {
            match index.get(level.number(&at)).map_err(|why| shard.error(Some(number), why))? {
                Some((_, len)) if chain.stores_decoded() && len != size => {
                    let why = format!("it has {len} bytes; a chunk without codecs has {size}");
                    return Err(shard.error(Some(number), why));
                }
                Some((offset, len)) => {
                    shard.check_len(Some(number), len, most)?;
                    found = found.saturating_add(len);
                    self.lot.chunks.push(FoundChunk { object, offset: range.0 + offset, len, number });
                }
                None => self.lot.absent.push((number, object)),
            }
        }
        Ok(found)
    }

    /// Looks up the shards of depth `depth` within a shard of `level`. Returns their bytes.
    fn descend(
        &mut self,
        depth: usize,
        level: &ShardLevel,
        place: ShardPlace,
        index: &ShardIndex,
        touched: impl Iterator<Item = Touched>,
        inner: &mut Inner,
    ) -> Result<u64, ArrayError> {
        let (shard, mut bytes) = (&self.shards[place.shard], 0u64);
        for (n, touched) in level.group(shard.layout.grid().chunk_shape(), touched) {
            let number = touched.first().map(|touched| touched.number);
            let Some((offset, len)) = index.get(n).map_err(|why| shard.error(number, why))? else {
                self.lot.absent.extend(touched.iter().map(|touched| (touched.number, place.object)));
                continue;
            };
            bytes = bytes.saturating_add(len);
            let mut found = ShardPlace { range: (place.range.0 + offset, len), ..place };
            if let Some(decoded) = shard.read_decoded(depth, self.opened(found)?, found.range, number)? {
                if !self.lot.objects[found.object].in_memory {
                    self.lot.index_bytes += len;
                }
                (found.object, found.range) = (self.lot.objects.len(), (0, decoded.size()));
                self.lot.objects.push(shard.object(Box::new(decoded), true));
            }
            inner.places.push(found);
            inner.touched.push(touched);
        }
        Ok(bytes)
    }

    /// The indexes of shards of one depth, whose levels `level_of` gives. Announces the missing
    /// ones before the first is read.
    fn indexes<'v>(
        &mut self,
        level_of: &impl Fn(&ShardPlace) -> &'v ShardLevel,
        wanted: &[ShardPlace],
    ) -> Result<Indexes, ArrayError> {
        let mut needs: SmallVec<[IndexNeed; 1]> = SmallVec::new();
        for place in wanted {
            let stamp = self.lot.objects[place.object].stamp;
            needs.push(self.shards[place.shard].index_need(level_of(place), stamp, place.range)?);
        }
        // Shards of one object are neighbours. They are read with one call.
        let ends = || wanted.chunk_by(|a, b| a.object == b.object);
        let cost = self.shards[0].layout.store().cost();
        if wanted.len() > 1 && cost.prefers_rounds() {
            let share = cost.at_once.checked_div(ends().count()).unwrap_or(0).max(1);
            let mut left = needs.iter();
            for of_one in ends() {
                let needed: Vec<(u64, u64)> =
                    left.by_ref().take(of_one.len()).filter_map(IndexNeed::range).collect();
                if !needed.is_empty() {
                    self.opened(of_one[0])?.announce(&needed, share);
                }
            }
        }
        let mut left = needs.iter_mut();
        for of_one in ends() {
            let mut ranges: SmallVec<[RangeRead<'_>; 1]> = SmallVec::new();
            for need in left.by_ref().take(of_one.len()) {
                if let IndexNeed::Read(offset, buf, _) = need {
                    ranges.push(RangeRead { offset: *offset, buf });
                }
            }
            if ranges.is_empty() {
                continue;
            }
            let ShardPlace { shard, object, .. } = of_one[0];
            let read = self.opened(of_one[0])?.read_ranges(&mut ranges);
            read.map_err(|source| self.shards[shard].store(source))?;
            if !self.lot.objects[object].in_memory {
                self.lot.index_bytes += ranges.iter().map(|range| range.buf.len() as u64).sum::<u64>();
            }
        }
        let index = |(place, need): (&ShardPlace, IndexNeed)| match need {
            IndexNeed::Kept(index) => Ok(index),
            IndexNeed::Read(_, buf, kept) => {
                let (shard, level) = (&self.shards[place.shard], level_of(place));
                shard.decode_index(level, self.opened(*place)?, place.range, &buf, kept)
            }
        };
        wanted.iter().zip(needs).map(index).collect()
    }

    /// The open object that holds the bytes of a shard. Objects are opened before their shards are
    /// looked up.
    fn opened(&self, place: ShardPlace) -> Result<&dyn Opened, ArrayError> {
        let opened = self.lot.objects[place.object].opened.as_deref();
        opened.ok_or_else(|| self.shards[place.shard].error(None, "it is not open".into()))
    }
}
