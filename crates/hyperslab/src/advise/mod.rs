//! Recommends chunks and shards for the ways in which an array is read.
//!
//! 1. `access` computes how many chunks, objects and shard ranges each way touches. No candidate
//!    layout is created.
//! 2. `costs` turns the counts into seconds.
//! 3. Try chunk lengths that are powers of two, or the whole axis, between two sizes in bytes. Then
//!    try shards for the best of these chunks. The score of a way to read is its time divided by
//!    its time with the chunks that suit it best. Otherwise reading everything would outweigh
//!    reading a point.

mod access;
mod costs;
mod text;
mod words;

use crate::{Array, Result};
pub use access::Access;
pub use costs::{Counts, DISK, OBJECTS, Reach};

/// Smallest and largest chunks to try, in bytes of elements.
/// Smaller chunks cost more to find than to decode. Larger chunks hold more than most reads want.
const CHUNK_BYTES: (u64, u64) = (64 << 10, 16 << 20);
/// Like [`CHUNK_BYTES`], for chunks in shards, which are not objects of their own.
const INNER_BYTES: (u64, u64) = (16 << 10, 4 << 20);
/// Largest shard in bytes of elements: a shard is written as a whole.
const SHARD_BYTES: u64 = 64 << 20;
/// How many of the best chunk shapes are tried with shards.
const SHARDED: usize = 48;
/// Bytes of a shard index: per chunk, and once per shard.
const INDEX_BYTES: (f64, f64) = (16.0, 4.0);

/// How an array is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Elements of a chunk per axis; `None`: elements are stored in index order, without codecs.
    pub chunks: Option<Vec<u64>>,
    /// Elements of a shard per axis.
    pub shards: Option<Vec<u64>>,
}

/// The properties of an array that matter for advice.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Elements per axis.
    pub shape: Vec<u64>,
    /// Bytes of an element.
    pub element: u64,
    /// Stored bytes per byte of elements.
    pub ratio: f64,
}

/// A layout and the cost of each way to read with it.
#[derive(Clone, Debug)]
pub struct Advised {
    /// `now`, `chunks`, `shards`.
    pub name: &'static str,
    /// The layout.
    pub layout: Layout,
    /// Number of objects in this layout.
    pub objects: f64,
    /// The counts of each way to read.
    pub counts: Vec<Counts>,
}

/// Layouts to compare.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The array.
    pub subject: Subject,
    /// The ways to read it.
    pub access: Vec<Access>,
    /// The current layout, if the array exists; the best chunks; the best chunks in shards.
    pub layouts: Vec<Advised>,
}

/// Gives advice for an existing array.
/// `far`: `true` for an object store, `false` for a local disk, `None` for the array's own store.
///
/// Fails if the stored chunks cannot be listed.
pub fn advise(array: &Array, access: Vec<Access>, far: Option<bool>) -> Result<Advice> {
    let (chunks, stored) = match array.store().facts().lists {
        true => array.chunks_stored(None)?,
        false => (0, 0),
    };
    let element = array.dtype().size().max(1) as u64;
    let mut now = Layout { chunks: None, shards: None };
    if array.has_chunks() {
        now.chunks = Some(array.chunk_shape().to_vec());
        now.shards = array.shard_shape().map(<[u64]>::to_vec);
    }
    let object = now.shards.as_ref().or(now.chunks.as_ref()).map_or(0, |shape| bytes(shape, element));
    let all = chunks.saturating_mul(object);
    let ratio = if all > 0 && stored > 0 { stored as f64 / all as f64 } else { 1.0 };
    let subject = Subject { shape: array.shape().to_vec(), element, ratio };
    let far = far.unwrap_or_else(|| array.layout().store().cost().is_far());
    let mut advice = advise_new(subject, access, far);
    let now = advice.with("now", now);
    advice.layouts.insert(0, now);
    Ok(advice)
}

/// Gives advice for an array that does not exist yet.
pub fn advise_new(subject: Subject, access: Vec<Access>, far: bool) -> Advice {
    let mut advice = Advice { subject, access, layouts: Vec::new() };
    let reach = if far { OBJECTS } else { DISK };
    let plain: Vec<Layout> = advice.candidates(CHUNK_BYTES);
    if let Some(best) = advice.sort_best_first(plain, &reach).into_iter().next() {
        advice.layouts.push(advice.with("chunks", best));
    }
    let inner = advice.sort_best_first(advice.candidates(INNER_BYTES), &reach);
    let sharded = inner.into_iter().take(SHARDED).flat_map(|layout| advice.shards_of(layout)).collect();
    if let Some(best) = advice.sort_best_first(sharded, &reach).into_iter().next() {
        advice.layouts.push(advice.with("shards", best));
    }
    advice
}

fn bytes(shape: &[u64], element: u64) -> u64 {
    shape.iter().fold(element, |bytes, n| bytes.saturating_mul((*n).max(1)))
}

impl Advice {
    /// The layout with this name.
    pub fn layout(&self, name: &str) -> Option<&Advised> {
        self.layouts.iter().find(|advised| advised.name == name)
    }

    fn with(&self, name: &'static str, layout: Layout) -> Advised {
        let object = layout.shards.as_ref().or(layout.chunks.as_ref());
        let axes = self.subject.shape.iter().zip(object.unwrap_or(&self.subject.shape));
        let objects = axes.map(|(n, object)| n.div_ceil((*object).max(1)) as f64).product();
        let counts = self.access.iter().map(|access| self.subject.counts(&layout, access, &DISK)).collect();
        Advised { name, layout, objects, counts }
    }

    /// Candidate chunk shapes within a range of bytes.
    /// Each length is a power of two, or the whole axis.
    fn candidates(&self, (least, most): (u64, u64)) -> Vec<Layout> {
        let Subject { shape, element, .. } = &self.subject;
        // Powers of four above four axes: there would be too many shapes.
        let step = if shape.len() > 4 { 4 } else { 2 };
        let lengths = |n: u64| {
            let mut all: Vec<u64> = std::iter::successors(Some(1), |at: &u64| at.checked_mul(step))
                .take_while(|at| *at < n)
                .collect();
            all.push(n.max(1));
            all
        };
        let mut shapes: Vec<Vec<u64>> = vec![Vec::new()];
        for n in shape {
            let longer = |shape: Vec<u64>| {
                let of = lengths(*n).into_iter().map(move |length| [shape.as_slice(), &[length]].concat());
                of.filter(|shape| bytes(shape, *element) <= most.max(*element)).collect::<Vec<_>>()
            };
            shapes = shapes.into_iter().flat_map(longer).collect();
        }
        let least = least.min(bytes(shape, *element));
        shapes.retain(|chunk| bytes(chunk, *element) >= least);
        shapes.into_iter().map(|chunk| Layout { chunks: Some(chunk), shards: None }).collect()
    }

    /// Candidate shards for these chunks.
    fn shards_of(&self, layout: Layout) -> Vec<Layout> {
        let (Some(chunk), Subject { shape, element, .. }) = (&layout.chunks, &self.subject) else {
            return Vec::new();
        };
        let mut shards: Vec<Vec<u64>> = vec![Vec::new()];
        let base = bytes(chunk, *element);
        for (axis, n) in shape.iter().enumerate() {
            let length = chunk.get(axis).copied().unwrap_or(1);
            let whole = n.div_ceil(length).max(1);
            let times =
                std::iter::successors(Some(1u64), |at| at.checked_mul(2)).take_while(|at| *at < whole);
            let times: Vec<u64> = times.chain([whole]).collect();
            let longer = |shard: Vec<u64>| {
                let of = times.iter().map(|times| [shard.as_slice(), &[times * length]].concat());
                let fits = |shard: &Vec<u64>| {
                    let grown = shard
                        .iter()
                        .zip(chunk)
                        .fold(base, |bytes, (shard, chunk)| bytes.saturating_mul(shard / chunk));
                    grown <= SHARD_BYTES.max(base)
                };
                of.filter(fits).collect::<Vec<_>>()
            };
            shards = shards.into_iter().flat_map(longer).collect();
        }
        // Keep only the largest shards: they make the fewest objects.
        let most = shards.iter().map(|shard| bytes(shard, *element)).max().unwrap_or(0);
        shards.retain(|shard| bytes(shard, *element) > most / 4);
        shards.into_iter().map(|shard| Layout { shards: Some(shard), ..layout.clone() }).collect()
    }

    /// Sorts layouts, best first.
    fn sort_best_first(&self, layouts: Vec<Layout>, reach: &Reach) -> Vec<Layout> {
        let times: Vec<Vec<f64>> = layouts
            .iter()
            .map(|layout| {
                let seconds = |access| reach.seconds(&self.subject.counts(layout, access, reach));
                self.access.iter().map(seconds).collect()
            })
            .collect();
        let least: Vec<f64> = (0..self.access.len())
            .map(|n| times.iter().filter_map(|times| times.get(n)).fold(f64::INFINITY, |a, b| a.min(*b)))
            .collect();
        let mut scored: Vec<(f64, u64, u32, Layout)> = layouts
            .into_iter()
            .zip(times)
            .map(|(layout, times)| {
                let score: f64 = times.iter().zip(&least).map(|(time, least)| time / least).sum();
                let chunk = layout.chunks.as_deref().unwrap_or_default();
                // Ignore differences below 0.001.
                ((score * 1e3).round(), bytes(chunk, 1), self.unevenness(chunk), layout)
            })
            .collect();
        // Among equal scores, prefer larger chunks because there are fewer of them. Then prefer
        // chunks of similar length along all axes.
        scored.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        scored.into_iter().map(|(_, _, _, layout)| layout).collect()
    }

    /// How uneven the lengths of a chunk are: doublings from the shortest to the longest.
    /// Ignores axes along which the chunk has one element or is as long as the array.
    fn unevenness(&self, chunk: &[u64]) -> u32 {
        let partial = chunk.iter().zip(&self.subject.shape).filter(|(length, n)| *length < *n);
        let lengths: Vec<u32> =
            partial.map(|(length, _)| length.max(&1).ilog2()).filter(|n| *n > 0).collect();
        let ends = (lengths.iter().max(), lengths.iter().min());
        if let (Some(most), Some(least)) = ends { most - least } else { 0 }
    }
}

impl Subject {
    /// Counts what a read with this layout takes.
    pub fn counts(&self, layout: &Layout, access: &Access, reach: &Reach) -> Counts {
        let ones = vec![1; self.shape.len()];
        let chunk = layout.chunks.as_ref().unwrap_or(&ones);
        let whole = self.shape.iter().map(|n| (*n).max(1)).collect();
        let shard = match (&layout.shards, &layout.chunks) {
            (Some(shard), _) => Some(shard),
            // One object, in which each element can be read individually.
            (None, None) => Some(&whole),
            (None, Some(_)) => None,
        };
        let touched = |axis: usize, cell: u64| {
            let extent = self.shape.get(axis).copied().unwrap_or(1);
            access.touched_cells(axis, cell, extent)
        };
        let chunks: f64 = chunk.iter().enumerate().map(|(axis, n)| touched(axis, *n)).product();
        let in_memory = bytes(chunk, self.element) as f64;
        let is_coded = layout.chunks.is_some();
        let one = in_memory * if is_coded { self.ratio } else { 1.0 };
        let bytes_decoded = if is_coded { chunks * in_memory } else { 0.0 };
        let Some(shard) = shard else {
            return Counts {
                chunks,
                objects: chunks,
                requests: chunks,
                bytes_read: chunks * one,
                bytes_decoded,
            };
        };
        let objects: f64 = shard.iter().enumerate().map(|(axis, n)| touched(axis, *n)).product();
        // Starting at the last axis, join neighbouring chunks of a shard into one range.
        let (mut runs, mut stride, mut extent) = (1.0, one, one);
        for (axis, (chunk, shard)) in chunk.iter().zip(shard).enumerate().rev() {
            let here = touched(axis, *chunk) / touched(axis, *shard).max(1.0);
            if stride - extent > reach.gap {
                runs *= here.max(1.0);
            }
            extent += (here - 1.0).max(0.0) * stride;
            stride *= (shard / (*chunk).max(1)) as f64;
        }
        let inner: f64 =
            shard.iter().zip(chunk).map(|(shard, chunk)| (shard / (*chunk).max(1)) as f64).product();
        let index = if is_coded { INDEX_BYTES.0 * inner + INDEX_BYTES.1 } else { 0.0 };
        let indexes = if is_coded { objects } else { 0.0 };
        Counts {
            chunks: if is_coded { chunks } else { 1.0 },
            objects,
            requests: objects * runs + indexes,
            bytes_read: chunks * one + indexes * index,
            bytes_decoded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(shape: &[u64]) -> Subject {
        Subject { shape: shape.to_vec(), element: 4, ratio: 0.5 }
    }

    fn access(subject: &Subject, texts: &[&str]) -> Vec<Access> {
        texts.iter().map(|text| Access::parse(text, &subject.shape, None).unwrap()).collect()
    }

    #[test]
    fn counts_are_those_of_the_grid() {
        let array = subject(&[100, 60, 60]);
        let [series, map] = access(&array, &["time series", "map"]).try_into().unwrap();
        let chunks = Layout { chunks: Some(vec![1, 60, 60]), shards: None };
        let found = array.counts(&chunks, &series, &DISK);
        assert_eq!((found.chunks, found.objects, found.requests), (100.0, 100.0, 100.0));
        assert_eq!((found.bytes_decoded, found.bytes_read), (1_440_000.0, 720_000.0));
        assert_eq!(array.counts(&chunks, &map, &DISK).requests, 1.0);
        let shards = Layout { chunks: Some(vec![10, 20, 20]), shards: Some(vec![50, 60, 60]) };
        // Two shards with five chunks each, nine chunks apart, and two indexes.
        let found = array.counts(&shards, &series, &DISK);
        assert_eq!((found.chunks, found.objects, found.requests), (10.0, 2.0, 12.0));
        assert_eq!(found.bytes_read, 10.0 * 8000.0 + 2.0 * (16.0 * 45.0 + 4.0));
        // The nine chunks of a map are adjacent.
        assert_eq!(array.counts(&shards, &map, &DISK).requests, 2.0);
        // In an object store, reading the gap is as cheap as skipping it.
        assert_eq!(array.counts(&shards, &series, &OBJECTS).requests, 4.0);
        let contiguous = Layout { chunks: None, shards: None };
        let found = array.counts(&contiguous, &series, &DISK);
        assert_eq!((found.requests, found.bytes_read, found.bytes_decoded), (100.0, 400.0, 0.0));
    }

    #[test]
    fn advice_suits_the_access() {
        let array = subject(&[10_000, 1000, 1000]);
        let best = |texts: &[&str]| {
            let advice = advise_new(array.clone(), access(&array, texts), false);
            advice.layout("chunks").unwrap().layout.chunks.clone().unwrap()
        };
        assert_eq!(best(&["time series"]).first(), Some(&10_000));
        assert_eq!(best(&["map"]).first(), Some(&1));
        let both = best(&["time series", "map"]);
        assert!(both[0] > 1 && both[0] < 10_000 && both[1] * both[2] < 1_000_000, "{both:?}");
        let advice = advise_new(array.clone(), access(&array, &["time series", "map"]), true);
        let sharded = advice.layout("shards").unwrap();
        let (chunk, shard) = (sharded.layout.chunks.clone().unwrap(), sharded.layout.shards.clone().unwrap());
        assert!(chunk.iter().zip(&shard).all(|(chunk, shard)| shard % chunk == 0));
        assert!(bytes(&shard, 4) <= SHARD_BYTES);
    }

    #[test]
    fn small_and_strange_arrays() {
        for shape in [&[][..], &[0], &[3, 0, 5], &[7], &[1, 1, 1, 1, 1, 1, 1, 1], &[64; 6]] {
            let array = subject(shape);
            let advice = advise_new(array.clone(), access(&array, &["time series", "all"]), false);
            assert_eq!(advice.layouts.len(), 2, "{shape:?}");
            assert!(!advice.to_string().is_empty());
        }
    }
}
