//! Copies, checks and compares one part of a copy that several processes share.
//!
//! 1. An outline ([`super::outline`]) defines the parts.
//! 2. The [`CopyPart`]s of one pass over an array own whole objects of the array that they write. They
//!    can be copied in any order, at the same time, and again after a kill ([`copy_part`]).
//! 3. Stamps and checksums of its objects identify the result of a part ([`stamp_part`]). A client
//!    that resumes the copy checks with them whether the objects are unchanged.
//! 4. On request, parts are compared with the source ([`compare_part`]).
//! 5. When all parts are done, the caller writes the documents, so that nothing half-written opens.

use super::beyond_source;
use super::blocks::Blocks;
use super::checksum_store::ChecksumStore;
use super::listings::{Listings, is_listed_far};
use super::mover::Mover;
use super::object_states;
use super::region::Window;
use super::structures::Repack;
use super::temporary;
use super::transfer::{Job, Transfer};
use super::{Phase, Progress, path_text};
use crate::{Array, Dims, Error, Format, Key, MemoryStore, Result, Store};
use hyperslab_store::{Ask, SharedStamp, WriteNote, WriteNotes};
use hyperslab_zarr::{self as zarr, ArraySpec, Creation};
use std::ops::Range;
use std::sync::Arc;

/// A part of one pass over an array.
#[derive(Clone, Debug)]
pub struct CopyPart {
    /// The path of the copy in the store.
    pub path: String,
    /// The copy's format.
    pub format: Format,
    /// The text of the copy's `zarr.json` or `.zarray`.
    pub document: String,
    /// The temporary array to read, if any: its path in the store, and its chunks.
    pub from: Option<(String, Vec<u64>)>,
    /// The temporary array to write, unless the part writes the copy.
    pub to: Option<(String, Vec<u64>)>,
    /// Elements per axis of a block.
    pub block: Vec<u64>,
    /// Blocks per axis of a unit.
    pub parts: Vec<u64>,
    /// The units of this part.
    pub units: Range<u64>,
    /// Number of threads.
    pub threads: usize,
    /// Number of requests to a server that are on their way at a time.
    pub requests: usize,
    /// The first element of the source that is copied.
    pub from_start: Vec<u64>,
    /// The first element of the copy that is written.
    pub to_start: Vec<u64>,
    /// Elements per axis that are copied, in all parts.
    pub shape: Vec<u64>,
    /// `true`: nothing existed at the copy's place before.
    pub is_new: bool,
    /// `true`: this also holds for this run, which does not resume another one.
    pub is_fresh: bool,
}

/// The state of the objects of a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartStamp {
    /// Number of stored objects. Objects with nothing but the fill value are not stored.
    pub objects: u64,
    /// A hash of the objects' names, sizes and times or tags.
    pub hash: u64,
    /// A hash of the objects' names and checksums; 0: not requested.
    pub contents: u64,
}

/// Copies a part of an array. Rewrites everything that the part owns.
pub fn copy_part(
    source: &Array,
    store: &Arc<dyn Store>,
    part: &CopyPart,
    listings: &Listings,
    progress: Option<&dyn Progress>,
) -> Result<PartStamp> {
    let notes = Arc::new(WriteNotes::new(!part.is_new));
    let noting = store.noting(&notes);
    let notes = noting.is_some().then_some(&*notes);
    let checksums = Arc::new(ChecksumStore::new(noting.unwrap_or_else(|| store.clone())));
    let writing: Arc<dyn Store> = checksums.clone();
    let open = Opened::new(source, &writing, part)?;
    let cancelled: &dyn Fn() -> bool = &|| progress.is_some_and(Progress::cancelled);
    let from = open.from.as_ref().unwrap_or(&open.job.source);
    let threads = (part.threads, part.requests);
    let mover = Mover::new(&open.job, (from, open.target_array()), threads, cancelled);
    if !open.job.window.shape.contains(&0) {
        Transfer::of_parts(progress)?.units(
            Phase::Copy,
            mover,
            &open.blocks,
            part.units.clone(),
            listings,
        )?;
    }
    open.write_rest(part, Some(cancelled))?;
    // A fresh copy has only the objects that this part wrote. Looking for more would cost as much as the
    // array is large, even if little of it is stored.
    let keys = if part.is_fresh { checksums.written() } else { open.keys(part)? };
    let states = open.states_after(store, &keys, notes, Some(cancelled))?;
    open.stamp(&keys, &states, Some(&checksums))
}

/// Computes the stamp of a finished part. `contents`: also read all objects for checksums.
pub fn stamp_part(
    source: &Array,
    store: &Arc<dyn Store>,
    part: &CopyPart,
    listings: &Listings,
    contents: bool,
) -> Result<PartStamp> {
    let checksums = contents.then(|| ChecksumStore::new(store.clone()));
    let open = Opened::new(source, store, part)?;
    let keys = open.keys(part)?;
    let states = match listings.stamps(open.target_array(), None)? {
        Some(listed) => keys.iter().map(|key| listed.get(key).copied()).collect(),
        None => object_states::ask(store, open.target_array(), &keys, None)?,
    };
    open.stamp(&keys, &states, checksums.as_ref())
}

/// Returns the keys of all objects that a part owns, stored or not.
pub fn part_keys(source: &Array, store: &Arc<dyn Store>, part: &CopyPart) -> Result<Vec<String>> {
    Opened::new(source, store, part)?.keys(part)
}

/// Compares a part of the copy with the source. Fails with [`Error::Mismatch`] if a value differs.
pub fn compare_part(
    source: &Array,
    store: &Arc<dyn Store>,
    part: &CopyPart,
    listings: &Listings,
    progress: Option<&dyn Progress>,
) -> Result<()> {
    let open = Opened::new(source, store, part)?;
    let cancelled: &dyn Fn() -> bool = &|| progress.is_some_and(Progress::cancelled);
    let threads = (part.threads, part.requests);
    let mover = || Mover::new(&open.job, (&open.job.source, &open.job.target), threads, cancelled);
    let run = |mover| {
        let transfer = Transfer::of_parts(progress)?;
        transfer.units(Phase::Verify, mover, &open.blocks, part.units.clone(), listings)
    };
    match run(mover()) {
        // The listing may not show all objects yet that the copy wrote.
        Err(Error::Mismatch { .. }) if is_listed_far(&open.job.target) => {
            run(Mover { lists_copy: false, ..mover() })
        }
        done => done,
    }
}

/// The arrays of a part.
struct Opened {
    job: Job,
    from: Option<Array>,
    to: Option<Array>,
    blocks: Blocks,
    /// The value of elements beyond the end of the source, if the part writes any.
    rest: Option<Vec<u8>>,
}

impl Opened {
    fn new(source: &Array, store: &Arc<dyn Store>, part: &CopyPart) -> Result<Opened> {
        let name = path_text(&part.path);
        let refuse = |why: &str| Error::Copy { array: name.clone(), why: why.into() };
        let (format, text) = (part.format.zarr()?, part.document.as_bytes());
        let target: Array = zarr::Array::of_document(store.clone(), &part.path, format, text)?.into();
        let rank = source.shape().len();
        let window = Window {
            from: part.from_start.as_slice().into(),
            to: part.to_start.as_slice().into(),
            shape: part.shape.as_slice().into(),
        };
        if !window.fits(source.shape(), target.shape()) {
            return Err(refuse("the source has another shape than when the copy was planned"));
        }
        if part.block.len() != rank || part.parts.len() != rank || part.parts.contains(&0) {
            return Err(refuse("its blocks have another number of axes"));
        }
        let blocks = Blocks::new(&window.shape, &part.block, &part.parts);
        let repack = match target.as_zarr().and_then(|array| array.structure()) {
            None => None,
            Some(structure) => Repack::new(source, structure).map_err(|why| refuse(&why))?,
        };
        let temporary = |of: &Option<(String, Vec<u64>)>| {
            let open = |(path, chunk): &(String, Vec<u64>)| {
                bound(store, path, temporary::spec(source, &window.shape, chunk)?)
            };
            of.as_ref().map(open).transpose()
        };
        let (from, to) = (temporary(&part.from)?, temporary(&part.to)?);
        let (is_new, is_fresh) = (part.is_new, part.is_fresh);
        let (name, source) = (name.clone(), source.clone());
        let job = Job { name, source, target, stored: 0, repack, window, is_new, is_fresh };
        let rest = if to.is_none() { beyond_source::value_beyond_source(&job)? } else { None };
        if part.units.end > blocks.object_count().max(u64::from(rest.is_some())) {
            return Err(refuse("the part lies outside the array"));
        }
        Ok(Opened { job, from, to, blocks, rest })
    }

    fn write_rest(&self, part: &CopyPart, ask: Option<Ask<'_>>) -> Result<()> {
        let Some(value) = &self.rest else { return Ok(()) };
        part.units.clone().try_for_each(|number| {
            let block = self.blocks.block(&self.blocks.object(number));
            beyond_source::write(&self.job, &block, value, ask)
        })
    }

    fn target_array(&self) -> &Array {
        self.to.as_ref().unwrap_or(&self.job.target)
    }

    /// The states of objects after this part was copied.
    ///
    /// `notes`: what the answers to its writes told. Objects without a note were not touched: in a
    /// fresh copy they do not exist. If an earlier run may have left some, the store is asked.
    fn states_after(
        &self,
        store: &Arc<dyn Store>,
        keys: &[String],
        notes: Option<&WriteNotes>,
        ask: Option<Ask<'_>>,
    ) -> Result<Vec<Option<SharedStamp>>> {
        let Some(notes) = notes else { return object_states::ask(store, self.target_array(), keys, ask) };
        let mut states = vec![None; keys.len()];
        let mut unknown = Vec::new();
        for (number, (key, state)) in keys.iter().zip(&mut states).enumerate() {
            match notes.find(key) {
                Some(WriteNote::Written(stamp)) => *state = Some(stamp),
                Some(WriteNote::Deleted) => {}
                None if self.job.is_fresh => {}
                None | Some(WriteNote::Unknown) => unknown.push(number),
            }
        }
        let asked: Vec<String> = unknown.iter().filter_map(|number| keys.get(*number)).cloned().collect();
        for (number, state) in
            unknown.iter().zip(object_states::ask(store, self.target_array(), &asked, ask)?)
        {
            if let Some(place) = states.get_mut(*number) {
                *place = state;
            }
        }
        Ok(states)
    }

    /// Computes the stamp. `checksums`: the store that knows checksums, if they are requested.
    fn stamp(
        &self,
        keys: &[String],
        states: &[Option<SharedStamp>],
        checksums: Option<&ChecksumStore>,
    ) -> Result<PartStamp> {
        let mut stored: Vec<(&String, &SharedStamp)> =
            keys.iter().zip(states).filter_map(|(key, state)| Some((key, state.as_ref()?))).collect();
        stored.sort_unstable();
        let mut stamp = PartStamp { objects: stored.len() as u64, hash: EMPTY, contents: EMPTY };
        for (key, state) in stored {
            let sum = checksums.map_or(Ok(0), |checksums| checksums.sum(Key::new(key)?))?;
            // Keys have no zero byte.
            let hash = fnv1a(fnv1a(stamp.hash, key.as_bytes()), &[0]);
            stamp.hash = state.iter().fold(hash, |hash, number| fnv1a(hash, &number.to_le_bytes()));
            stamp.contents = fnv1a(fnv1a(fnv1a(stamp.contents, key.as_bytes()), &[0]), &sum.to_le_bytes());
        }
        if checksums.is_none() {
            stamp.contents = 0;
        }
        Ok(stamp)
    }

    /// The keys of all objects of the units, stored or not.
    fn keys(&self, part: &CopyPart) -> Result<Vec<String>> {
        let array = self.target_array();
        let zarr = array.as_zarr().ok_or_else(|| Error::Options("the copy is no array of Zarr".into()))?;
        let grid = array.layout().object_grid();
        let zeros = Dims::from_elem(0, self.job.window.shape.len());
        let start = if self.to.is_some() { &zeros } else { &self.job.window.to };
        let mut keys = Vec::new();
        let mut push = |place: &[u64]| {
            let key = zarr.key_encoding().key(place).map_err(Error::Options)?;
            keys.push(zarr::join(zarr.path(), &key));
            Ok::<(), Error>(())
        };
        for number in part.units.clone() {
            let unit = self.blocks.object(number);
            if self.blocks.are_parts() {
                let first = self.blocks.first_of(&unit).shift(start).first;
                let place: Dims =
                    first.iter().enumerate().map(|(axis, at)| grid.index_of(axis, *at)).collect();
                push(&place)?;
                continue;
            }
            let mut block = self.blocks.block(&unit);
            if self.rest.is_some() {
                block = beyond_source::extend_block(&self.job, &block);
            }
            let block = block.shift(start);
            let spans = (0..unit.len()).map(|axis| {
                let last = block.first[axis] + block.len[axis].saturating_sub(1);
                (grid.index_of(axis, block.first[axis]), grid.index_of(axis, last))
            });
            super::blocks::all_indices(spans.collect()).try_for_each(|place: Dims| push(&place))?;
        }
        Ok(keys)
    }
}

/// Opens an array with this description at a path that has no document.
fn bound(store: &Arc<dyn Store>, path: &str, spec: ArraySpec) -> Result<Array> {
    let nowhere: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let format = spec.format;
    let made = zarr::Array::create_with(nowhere, "", spec, Creation::Unseen, None)?;
    let text = made.to_json().to_text(None);
    Ok(zarr::Array::of_document(store.clone(), path, format, text.as_bytes())?.into())
}

/// The FNV-1a hash of no bytes.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues a 64-bit FNV-1a hash.
fn fnv1a(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
