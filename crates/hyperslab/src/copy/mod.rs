//! Copies arrays and whole hierarchies: to other chunks, codecs, axis orders or formats.
//!
//! [`copy`] takes these steps:
//!
//! 1. Walk the source and decide how to copy each array. Refuse what cannot be copied before
//!    anything is written.
//! 2. Make a temporary directory beside the destination. Only a complete copy takes the
//!    destination's place, in one step. After an error, an interruption or a kill, the destination
//!    is unchanged.
//! 3. Write groups and arrays. Elements are copied in blocks of whole destination chunks (or
//!    shards), one block after the other. All threads work on each block, as planned
//!    ([`CopyPlan`]). If it saves time, elements go through a temporary array beside the
//!    destination. Blocks with nothing stored are skipped. The memory used is the size of the
//!    largest block, whatever the size of the arrays.
//! 4. On request, read both back and compare every bit.
//! 5. Move the copy to its place.
//!
//! A copy contains what the format defines: groups, attributes, arrays. Other files in the source's
//! directory are not copied.

mod beyond_source;
mod blocks;
mod checksum_store;
mod chosen;
mod codec_slots;
mod compressor;
mod convert;
mod created;
mod delegated;
mod enclosing_groups;
mod fence;
mod file_format;
mod geometry;
pub(crate) mod hdf5;
mod inventory;
mod listings;
mod mover;
mod object_states;
mod one_chunk;
mod outline;
mod parts;
mod place;
mod plan;
mod ragged;
mod region;
mod report;
mod split;
mod stored_blocks;
mod structures;
pub mod tasks;
mod temporary;
mod to_hdf5;
mod to_netcdf3;
mod transfer;

pub use crate::joined::{JoinSource, Joining, concatenated, joined_sources};
pub(crate) use blocks::all_indices;
pub use compressor::Compressors;
pub(crate) use convert::{Copied, CopiedCodecs, Copying};
pub use enclosing_groups::groups_above;
pub use fence::fenced;
pub use file_format::{FileFormat, is_file_url};
pub(crate) use hdf5::Paths;
pub use hyperslab_hdf5::Libver;
pub use listings::Listings;
pub(crate) use listings::{StoredObjects, is_listed_far, list_few};
pub(crate) use one_chunk::OneChunk;
pub use outline::{Crew, Outline, OutlinedArray, Site, Units, outline, outline_into};
pub use parts::{CopyPart, PartStamp, compare_part, copy_part, part_keys, stamp_part};
pub(crate) use place::resolve_links;
pub use plan::{CopyPlan, Pass, Prices};
pub(crate) use ragged::{element_bytes, read as read_ragged};
pub use region::{Bounds, Region};
pub use report::CopyReport;
pub use split::{SplitPart, check_split, split, split_parts};
pub(crate) use stored_blocks::fill_in;
pub(crate) use structures::of_hdf5 as structure_of_hdf5;
pub(crate) use to_hdf5::{AXIS_LABELS, describe_new};
pub use to_hdf5::{attributes_of_json, hdf5_type};

use crate::stores::{
    Intent, Reached, StoreOptions, is_in_archive, local_path, reach, refuse_file_name, takes_options,
};
use crate::{Array, Error, Format, Node, Result, Variable, settings};
use convert::convert;
use hyperslab_store::{Ask, Key, MemoryStore, Store};
use hyperslab_zarr::{self as zarr, ArraySpec, Choice, Creation};
use inventory::{Inventory, Member};
pub use place::is_node as is_replaceable;
use place::{Destination, Room};
use region::Window;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
pub(crate) use structures::{Repack, of_hdf5 as hdf5_structure};
use temporary::Beside;
use transfer::{Job, Means, Transfer};

/// The order in which the elements of a chunk are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Last axis fastest.
    C,
    /// First axis fastest.
    F,
}

/// How to store the chunks of a copy in shards.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Shards {
    /// As in the source, as far as the other options allow.
    #[default]
    Keep,
    /// Each chunk is an object of its own.
    None,
    /// In shards of a size that is chosen automatically.
    Auto,
    /// In shards of this shape, for arrays with as many axes. `None` for an axis: all of it.
    /// Other arrays keep their shards. The shape must be a multiple of the chunks.
    Shape(Vec<Option<u64>>),
}

/// The order of the parts of a new HDF5 file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FileLayout {
    /// Elements first, as they are copied, then all metadata.
    #[default]
    Plain,
    /// For readers far away: all metadata in front, in pages, then chunks in the order of their arrays.
    Cloud,
}

impl std::str::FromStr for FileLayout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "plain" => Ok(FileLayout::Plain),
            "cloud" => Ok(FileLayout::Cloud),
            other => Err(format!("layout: expected 'plain' or 'cloud', found '{other}'")),
        }
    }
}

/// A phase of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Elements are copied.
    Copy,
    /// Source and copy are compared.
    Verify,
}

/// Receives the progress of a copy, and can stop it. Called on the thread that called [`copy`].
pub trait Progress {
    /// A phase begins, with this many bytes of elements.
    fn begin(&self, _phase: Phase, _bytes: u64) {}

    /// Elements of this many bytes are read, and nothing is copied.
    fn reads(&self, _bytes: u64) {}

    /// The next array begins.
    fn array(&self, _name: &str) {}

    /// This many more bytes are done.
    fn advance(&self, _bytes: u64) {}

    /// Returns `true` to stop. Called between chunks.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Options of a copy.
#[derive(Clone)]
pub struct CopyOptions<'a> {
    /// The chunk shape of arrays with as many axes. `None` for an axis: all of it.
    /// Other arrays keep their chunks; with `None` here, all arrays do.
    pub chunks: Option<Vec<Option<u64>>>,
    /// Lengths of chunks by the name of a dimension, for arrays that have it. `None`: all of it.
    pub named_chunks: Option<Vec<(String, Option<u64>)>>,
    /// Paths of the variables to copy, with the coordinates and dimensions that they need.
    /// `None`: all.
    pub variables: Option<Vec<String>>,
    /// The shards of the copy.
    pub shards: Shards,
    /// Compressors and checksums; by default the source's (with its v2 filters).
    pub compressors: Option<Compressors>,
    /// The order of the axes within a chunk; by default the source's.
    pub order: Option<Order>,
    /// The format; by default v3.
    pub format: Option<Format>,
    /// The format of a copy that becomes one file. By default the ending of its name decides.
    pub file_format: Option<FileFormat>,
    /// Number of threads; by default [`settings::threads`].
    pub threads: Option<usize>,
    /// Approximate memory limit, in bytes. A copy needs at least a chunk of source and destination.
    pub max_memory: u64,
    /// `true`: refuse a copy that needs more memory, with [`Error::Options`].
    /// `false`: use the smallest possible block, whatever it needs.
    pub memory_is_limit: bool,
    /// `true`: read the copy back and compare it with the source.
    pub verify: bool,
    /// `true`: leave out arrays that cannot be copied, and list them in [`CopyReport::skipped`].
    /// `false`: fail at the first of them.
    pub skip_unsupported: bool,
    /// `true`: replace an array or group at the destination.
    pub overwrite: bool,
    /// `true`: flush everything to disk before the copy takes its place.
    /// The copy then survives a power failure. For a copy into a store, the store decides.
    pub fsync: bool,
    /// The structures of a new HDF5 file. Other copies have none.
    pub libver: Libver,
    /// The order of the parts of a new HDF5 file.
    pub layout: FileLayout,
    /// Credentials and settings of the server that gets the copy.
    pub storage: Vec<(String, String)>,
    /// The region of each array to copy; `None`: all.
    pub region: Option<Region>,
    /// `true`: write no consolidated metadata for the copy of a group.
    pub unconsolidated: bool,
    /// Receives the progress.
    pub progress: Option<&'a dyn Progress>,
}

impl Default for CopyOptions<'_> {
    fn default() -> Self {
        CopyOptions {
            chunks: None,
            named_chunks: None,
            variables: None,
            shards: Shards::Keep,
            compressors: None,
            order: None,
            format: None,
            file_format: None,
            threads: None,
            max_memory: 256 << 20,
            memory_is_limit: false,
            verify: false,
            unconsolidated: false,
            skip_unsupported: false,
            overwrite: false,
            fsync: false,
            libver: Libver::default(),
            layout: FileLayout::default(),
            storage: Vec::new(),
            region: None,
            progress: None,
        }
    }
}

impl CopyOptions<'_> {
    /// Returns `true` if the caller wants to stop.
    fn stops(&self) -> bool {
        self.progress.is_some_and(Progress::cancelled)
    }

    fn means(&self, beside: Option<Beside>) -> Means<'_> {
        let asked = self.threads.filter(|n| *n > 0);
        let threads = asked.unwrap_or_else(settings::threads);
        let (max_memory, memory_is_limit) = (self.max_memory, self.memory_is_limit);
        let (server, progress, one_file) = (None, self.progress, None);
        let (prices, workers) = (Prices::default(), 1);
        Means {
            threads,
            asked,
            server,
            max_memory,
            memory_is_limit,
            beside,
            prices,
            workers,
            progress,
            one_file,
        }
    }

    /// Refuses a layout for HDF5 files if the copy is Zarr.
    fn check_layout(&self, destination: &str) -> Result<()> {
        if let Some(format) = self.file_format {
            return Err(Error::Options(format!(
                "format: {} is one file, and {destination} is a store; choose a path or a URL of its own",
                format.name()
            )));
        }
        match self.layout {
            FileLayout::Plain => Ok(()),
            FileLayout::Cloud => Err(Error::Options(format!(
                "layout: only a new HDF5 file has one, and the copy to {destination} is Zarr; leave it out, or choose \
                 a name that ends in .h5"
            ))),
        }
    }

    fn check(&self) -> Result<()> {
        if self.stops() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// Copies an array or group, and everything below it, to a path or URL. A path that ends in `.h5`,
/// `.hdf5` or `.he5` becomes an HDF5 file, one that ends in `.nc` or `.nc4` a NetCDF-4 file, if there
/// is no directory. [`CopyOptions::file_format`] makes any other name a file.
///
/// On a local disk, the destination is either complete or unchanged; elsewhere, see
/// [`copy_to_store`]. Missing directories above the destination are created.
///
/// Fails with [`Error::Destination`] if the copy cannot be made there: something exists and
/// `overwrite` is not set, or the destination is the source, inside it or around it. Fails with
/// [`Error::Mismatch`] if verification finds a different value, and with [`Error::Interrupted`] if
/// [`Progress::cancelled`] returns `true`.
pub fn copy(source: &Node, destination: &str, options: &CopyOptions<'_>) -> Result<CopyReport> {
    let Some(target) = local_path(destination)?.filter(|path| !is_in_archive(path)) else {
        if let Some(report) = file_format::copy(source, destination, None, options)? {
            return Ok(report);
        }
        options.check_layout(destination)?;
        let storage = if takes_options(destination) { options.storage.as_slice() } else { &[] };
        let wanted = StoreOptions { fsync: options.fsync, intent: Intent::Create, storage };
        let Reached { store, path, .. } = reach(destination, wanted)?;
        if options.overwrite && !is_made_in_place(&store, &path) {
            return Err(Error::Options(format!(
                "overwrite: a finished copy cannot take the place of what is in {destination}; delete that first"
            )));
        }
        // The store of an archive or of memory has nothing above it.
        let above = match is_on_server(&store) {
            true => groups_above(destination, "", options.fsync, storage)?,
            false => zarr::EnclosingGroups::default(),
        };
        let ask: &dyn Fn() -> bool = &|| options.stops();
        above.forget(Some(ask))?;
        let report = copy_to_store(source, &store, &path, options)?;
        above.renew(Some(ask))?;
        store.flush()?;
        return Ok(report);
    };
    if let Some(joined) = source.as_joined() {
        joined.check_destination(&target)?;
    }
    if let Some(report) = file_format::copy(source, destination, Some(&target), options)? {
        return Ok(report);
    }
    options.check_layout(destination)?;
    refuse_file_name(&target)?;
    let origin = origin(source);
    let inventory = Inventory::new(source, Some(Room::of(&target)), options)?;
    let place = Destination::prepare(&target, origin.as_deref(), options.overwrite, options.fsync)?;
    let staged = place.stage()?;
    let beside = Beside::new(&target)?;
    let report = inventory.copy(&staged.store(), "", Some(&*staged), Some(beside))?;
    options.check()?;
    let ask: &dyn Fn() -> bool = &|| options.stops();
    let above = enclosing_groups::of_directory(&target, options.fsync)?;
    above.forget(Some(ask))?;
    let placed = place.commit(staged, Some(ask));
    above.renew(Some(ask))?;
    placed?;
    Ok(report)
}

/// Plans how [`copy`] would copy each array to a path or URL: the array's path and its plan.
/// Reads metadata (and a sample of elements of variable length); writes nothing.
pub fn plan(source: &Node, destination: &str, options: &CopyOptions<'_>) -> Result<Vec<(String, CopyPlan)>> {
    let target = local_path(destination)?.filter(|path| !is_in_archive(path));
    if let Some(plans) = file_format::plan(source, destination, target.as_deref(), options)? {
        return Ok(plans);
    }
    options.check_layout(destination)?;
    let beside = target.as_deref().map(Beside::new).transpose()?;
    let inventory = Inventory::new(source, target.as_deref().map(Room::of), options)?;
    // The copies are created in memory, only for their layouts.
    let nowhere: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let jobs = inventory.arrays.iter().map(|Member { path, array, spec, window, .. }| {
        options.check()?;
        let spec = spec.clone();
        let copied = zarr::Array::create_with(nowhere.clone(), path, spec, Creation::Inside, None)?;
        let (_, stored) = count_stored_objects(array, Some(&|| options.stops()))?;
        Ok(Job::planned(path, array, copied.into(), stored, window))
    });
    let jobs = jobs.collect::<Result<Vec<Job>>>()?;
    let transfer = Transfer::new(&jobs, options.means(beside))?;
    let plans = transfer.into_plans();
    Ok(jobs.iter().map(|job| job.name.clone()).zip(plans).collect())
}

/// A key in a node that stands for the node's place; the object need not exist.
const DOCUMENT: &str = "zarr.json";

fn join_path(path: &str, rest: &str) -> String {
    [path, rest].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

/// Returns `true` if an object is at a path of another store, or below it.
/// One place can have several URLs, so this compares the lock number of the object with the lock
/// number of each key that could mean the same object.
fn lies_within((store, key): (&dyn Store, &str), (outer, path): (&dyn Store, &str)) -> bool {
    let number = |store: &dyn Store, key: &str| Key::new(key).ok().map(|key| store.lock_id(key));
    let Some(own) = number(store, key) else { return false };
    let whole = format!("{}/{key}", store.url());
    let ends = whole.match_indices('/').filter_map(|(at, _)| whole.get(at + 1..));
    ends.filter(|end| !end.is_empty()).any(|end| number(outer, &join_path(path, end)) == Some(own))
}

/// The path of the source, if it is on a local disk.
fn origin(source: &Node) -> Option<PathBuf> {
    if source.as_joined().is_some() {
        // There are several: see `Joined::check_destination`.
        return None;
    }
    let file = source.file();
    let key = file.as_ref().map_or(source.path(), |file| file.key());
    let key = (!key.is_empty()).then(|| Key::new(key)).transpose().ok()?;
    source.store().local_path(key)
}

/// Returns whether the store is on a server: nothing there can be moved to its place.
fn is_on_server(store: &Arc<dyn Store>) -> bool {
    store.cost().is_far() && store.facts().is_shared
}

/// Returns whether a copy to a path is made in place, with its documents written last.
fn is_made_in_place(store: &Arc<dyn Store>, path: &str) -> bool {
    path.is_empty() && is_on_server(store)
}

/// Copies an array or group, and everything below it, to a path (`""`: the root) in any store.
///
/// Fails if an array or group exists there. With [`CopyOptions::overwrite`] it is replaced at the
/// root of a server; other stores cannot move a finished copy to its place. After an error, the
/// incomplete copy is deleted, but groups created above `path` stay.
///
/// At the root of a server, metadata is written last, so that nothing half-written opens. If more
/// than 64 MiB of new data replace an old node, the old metadata is deleted first.
pub fn copy_to_store(
    source: &Node,
    store: &Arc<dyn Store>,
    path: &str,
    options: &CopyOptions<'_>,
) -> Result<CopyReport> {
    options.check_layout(&store.url())?;
    let path = zarr::normalize_path(path)?;
    let file = source.file().map(|file| file.key().to_owned());
    let document = file.unwrap_or_else(|| join_path(source.path(), DOCUMENT));
    let (from, to) = (&**source.store(), &**store);
    // The copy may be beside a file, but not inside a group.
    let is_inside =
        || source.file().is_none() && lies_within((to, &join_path(&path, DOCUMENT)), (from, source.path()));
    if let Some(joined) = source.as_joined() {
        let key = Some(path.as_str()).filter(|path| !path.is_empty()).map(Key::new).transpose()?;
        store.local_path(key).map_or(Ok(()), |path| joined.check_destination(&path))?;
    } else if lies_within((from, &document), (to, &path)) || is_inside() {
        return Err(Error::Copy {
            array: format!("/{path}"),
            why: "source and destination are one, or one is inside the other".into(),
        });
    }
    let in_place = is_made_in_place(store, &path);
    let staged = if in_place { Some(store.stage(None)?) } else { None };
    let began_empty = staged.as_ref().and_then(|staged| staged.began_empty());
    let mut replaces = false;
    // A listing that shows nothing also shows no node.
    let formats = [zarr::Format::V2, zarr::Format::V3].into_iter().filter(|_| began_empty != Some(true));
    for format in formats {
        match zarr::open(store, &path, Some(format)) {
            Err(zarr::ZarrError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(_) if options.overwrite && in_place => replaces = true,
            Ok(_) => {
                return Err(zarr::ZarrError::Exists { what: "array or group", url: store.url(), path }.into());
            }
        }
    }
    let inventory = Inventory::new(source, None, options)?;
    if let Some(staged) = staged {
        let occupied = || Error::Copy {
            array: store.url(),
            why: "objects that are no array or group lie there; delete them, or choose another place".into(),
        };
        let is_empty = match began_empty {
            Some(is_empty) => is_empty,
            None => store.list_dir(None)?.is_empty(),
        };
        if !replaces && !is_empty {
            return Err(occupied());
        }
        // Documents are written last, so that nothing half-written opens.
        let report = inventory.copy(&staged.store(), "", Some(&*staged), None)?;
        options.check()?;
        let ask: &dyn Fn() -> bool = &|| options.stops();
        if replaces {
            staged.commit(Some(ask))?;
        } else if !staged.commit_new()? {
            return Err(occupied());
        }
        return Ok(report);
    }
    let key = Some(path.as_str()).filter(|path| !path.is_empty()).map(Key::new).transpose()?;
    let beside = store.local_path(key).map(|path| Beside::new(&path)).transpose()?;
    let above = zarr::EnclosingGroups::in_store(store, &path)?;
    let ask: &dyn Fn() -> bool = &|| options.stops();
    above.forget(Some(ask))?;
    let report = inventory.copy(store, &path, None, beside).inspect_err(|_| {
        // Report the first error, not one of the cleanup.
        if let Ok(node) = zarr::open(store, &path, None) {
            let _ = match node {
                zarr::Node::Array(array) => array.delete(),
                zarr::Node::Group(group) => group.delete(),
            };
        }
    })?;
    above.renew(Some(ask))?;
    Ok(report)
}

/// Copies an array into a region of an existing array with the same element type.
/// Copies [`CopyOptions::region`] of the source, or all of it; both regions must have the same
/// shape. The target's chunks and codecs stay.
///
/// The region must begin and end at chunk (or shard) boundaries of the target, or at its end. After
/// an error, some chunks are new and the others are unchanged.
pub fn copy_into(
    source: &Array,
    target: &Array,
    target_region: &Region,
    options: &CopyOptions<'_>,
) -> Result<CopyReport> {
    let start = Instant::now();
    let key = |array: &Array| join_path(array.path(), DOCUMENT);
    let (from, to) = (&**source.store(), &**target.store());
    if lies_within((from, &key(source)), (to, target.path())) {
        return Err(Error::Copy { array: path_text(target.path()), why: "it is the source".into() });
    }
    let job = outline::job_into(source, target, target_region, options)?;
    let key = Some(target.path()).filter(|path| !path.is_empty()).map(Key::new).transpose()?;
    let beside = target.store().local_path(key).map(|path| Beside::new(&path)).transpose()?;
    let bytes = job.bytes();
    let jobs = [job];
    let transfer = Transfer::new(&jobs, options.means(beside))?;
    transfer.run(Phase::Copy, bytes, &mut |_, error| Err(error))?;
    let mut report = CopyReport { arrays: 1, bytes, elapsed: start.elapsed(), ..CopyReport::default() };
    if options.verify {
        let start = Instant::now();
        transfer.run(Phase::Verify, bytes, &mut |_, error| Err(error))?;
        report.verified = Some(start.elapsed());
    }
    report.block_bytes = transfer.block_bytes();
    report.bytes = report.bytes.saturating_add(transfer.value_bytes());
    target.store().flush()?;
    Ok(report)
}

/// Describes an array of a file as Zarr, in chunks of this shape and without codecs.
pub(crate) fn zarr_spec(
    name: &str,
    array: &Array,
    variable: &Variable,
    format: Format,
    chunks: &[u64],
) -> Result<ArraySpec> {
    let options =
        CopyOptions { format: Some(format), compressors: Some("none".parse()?), ..CopyOptions::default() };
    let copying = &mut Copying { name, options: &options, notes: &mut Default::default() };
    let mut spec = convert(array, variable, (&Window::whole(array.shape()), &variable.shape), copying)?;
    spec.chunks = Some(chunks.iter().map(|n| (*n).max(1)).collect());
    spec.compressors = Choice::Set(Vec::new());
    Ok(spec)
}

/// Describes an array of Zarr as Zarr v3, with the same chunks and, where v3 has them, the same codecs.
pub(crate) fn as_zarr_v3(array: &Array, variable: Option<&Variable>) -> Result<ArraySpec> {
    let name = array.name();
    let options = CopyOptions { format: Some(Format::ZarrV3), ..CopyOptions::default() };
    let copying = &mut Copying { name: &name, options: &options, notes: &mut Default::default() };
    let Some(variable) = variable else {
        return Err(copying.refuse("it only stands for a dimension"));
    };
    convert(array, variable, (&Window::whole(array.shape()), &variable.shape), copying)
}

/// Copies the elements of an array to a new array at the root of an empty store.
pub(crate) fn copy_values(
    source: &Array,
    spec: ArraySpec,
    store: &Arc<dyn Store>,
    ask: Option<Ask<'_>>,
) -> Result<()> {
    let target = zarr::Array::create_with(store.clone(), "", spec, Creation::Unseen, ask)?;
    let repack = target.structure().map(|structure| Repack::new(source, structure)).transpose();
    let repack = repack.map_err(|why| Error::Copy { array: source.name(), why })?.flatten();
    let window = Window::whole(source.shape());
    let (source, target) = (source.clone(), target.into());
    let name = source.name();
    let jobs = [Job { name, source, target, stored: 0, repack, window, is_new: true, is_fresh: true }];
    let options = CopyOptions::default();
    let transfer = Transfer::new(&jobs, options.means(None))?;
    transfer.run(Phase::Copy, jobs.iter().map(Job::bytes).sum(), &mut |_, error| Err(error))?;
    jobs.iter().try_for_each(|job| beyond_source::write_all(job, ask))
}

/// Number of stored objects of an array, and their bytes; zero if the store cannot list.
fn count_stored_objects(array: &Array, ask: Option<Ask<'_>>) -> Result<(u64, u64)> {
    if array.store().facts().lists { array.chunks_stored(ask) } else { Ok((0, 0)) }
}

/// A path relative to the source, for messages.
fn path_text(path: &str) -> String {
    format!("/{path}")
}
