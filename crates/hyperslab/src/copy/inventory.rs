//! The first steps of a copy: walk the source, describe each copy, create groups and arrays.

use super::beyond_source;
use super::convert::{Notes, convert};
use super::place::Room;
use super::region::{Region, Window};
use super::structures::Repack;
use super::temporary::Beside;
use super::transfer::{Job, Transfer};
use super::{CopyOptions, CopyReport, Copying, Phase, Shards, count_stored_objects, hdf5, path_text};
use crate::meaning::{Meaning, Variable, differing_attributes, of_copied_group, ome};
use crate::references::NO_SHAPE;
use crate::{Array, Below, Error, Format, Group, Json, Node, NodeKind, Result};
use hyperslab_store::{Ask, Staged, Store};
use hyperslab_zarr::{self as zarr, ArraySpec, Consolidation, Creation};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

const CHUNKS_KEPT: &str =
    "chunks as in the source, because another number of sizes was given than they have axes";
const SHARDS_KEPT: &str =
    "shards as in the source, because another number of sizes was given than they have axes";

/// An array of the source, the part to copy, and the description of its copy.
pub(super) struct Member {
    pub(super) path: String,
    pub(super) array: Array,
    pub(super) variable: Variable,
    pub(super) spec: ArraySpec,
    pub(super) window: Window,
}

const NO_ATTRIBUTE: &str = "attributes left out, whose type has no words in JSON";

/// The source and the description of its copy. Paths are relative to the source.
pub(super) struct Inventory<'o> {
    options: &'o CopyOptions<'o>,
    pub(super) groups: Vec<(String, Json)>,
    pub(super) arrays: Vec<Member>,
    /// `true`: write consolidated metadata.
    pub(super) consolidated: bool,
    notes: Notes,
    pub(super) report: CopyReport,
}

impl<'o> Inventory<'o> {
    /// Walks the source. `room`: the space for paths in the destination, if it is a directory.
    pub(super) fn new(source: &Node, room: Option<Room>, options: &'o CopyOptions<'o>) -> Result<Self> {
        let mut inventory = Inventory {
            options,
            groups: Vec::new(),
            arrays: Vec::new(),
            consolidated: false,
            notes: Notes::new(),
            report: CopyReport::default(),
        };
        options.check_source(source)?;
        match source {
            Node::Array(array) => {
                let meaning = Meaning::of(source, [array].into_iter())?;
                inventory.add_array(&meaning, String::new(), array.clone())?;
            }
            Node::Group(group) => inventory.add_group(group, room)?,
        }
        inventory.check_region(source)?;
        let names = inventory.arrays.iter().map(|member| member.variable.dimension_names.as_deref());
        options.check_chunk_names(names)?;
        for (note, concerned) in source.as_joined().iter().flat_map(|joined| joined.notes()) {
            inventory.notes.entry(note).or_default().push(concerned.clone());
        }
        if let Some(chunks) = &options.chunks {
            inventory.check_rank("chunks", CHUNKS_KEPT, chunks.len())?;
        }
        if let Shards::Shape(shards) = &options.shards {
            inventory.check_rank("shards", SHARDS_KEPT, shards.len())?;
        }
        inventory.report.notes = list_notes(&inventory.notes);
        inventory.report.groups = inventory.groups.len() as u64;
        inventory.report.arrays = inventory.arrays.len() as u64;
        Ok(inventory)
    }

    /// Refuses a region that does not fit the source.
    fn check_region(&self, source: &Node) -> Result<()> {
        let Some(region) = &self.options.region else { return Ok(()) };
        if matches!((region, source), (Region::Axes(_), Node::Group(_))) {
            return Err(Error::Options(
                "region: the arrays of a group may have other axes each; name dimensions instead (time=0:10)"
                    .into(),
            ));
        }
        let names = |member: &Member| member.variable.dimension_names.clone();
        match region.unknown_names(self.arrays.iter().map(names))?[..] {
            [] => Ok(()),
            [name, ..] => Err(Error::Options(format!("region: no array has a dimension named {name:?}"))),
        }
    }

    /// Refuses a shape that fits none of the arrays, and notes the arrays that it does not fit.
    fn check_rank(&mut self, what: &str, kept: &'static str, rank: usize) -> Result<()> {
        let ranks: BTreeSet<usize> = self.arrays.iter().map(|member| member.array.shape().len()).collect();
        if ranks.contains(&rank) {
            // An array without axes has one chunk.
            let others = self
                .arrays
                .iter()
                .filter(|member| !matches!(member.array.shape().len(), n if n == 0 || n == rank));
            let names: Vec<String> = others.map(|member| path_text(&member.path)).collect();
            if !names.is_empty() {
                self.notes.entry(kept).or_default().extend(names);
            }
            return Ok(());
        }
        let ranks = match ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "no arrays".into(),
            ranks => format!("arrays of {ranks} axes"),
        };
        Err(Error::Options(format!("{what}: {rank} sizes are given, but the source has {ranks}")))
    }

    pub(super) fn format(&self) -> Result<zarr::Format> {
        self.copied_format().zarr()
    }

    /// The state for describing the copy of one array or group.
    fn copying<'c>(&'c mut self, name: &'c str) -> Copying<'c> {
        Copying { name, options: self.options, notes: &mut self.notes }
    }

    /// Adds a group and everything below it.
    fn add_group(&mut self, group: &Group, room: Option<Room>) -> Result<()> {
        self.consolidated = !self.options.unconsolidated;
        // Consolidated metadata is a copy that may be out of date. Use the stored documents if the
        // store can list them.
        let lists = group.store().facts().lists;
        let stored = if lists { group.node().as_stored()? } else { None };
        let group = stored.unwrap_or_else(|| group.clone());
        let options = self.options;
        let mut opened: Vec<(String, Node)> = vec![(String::new(), Node::Group(group.clone()))];
        // Skip everything inside a group that was left out.
        let mut skipped: Option<String> = None;
        for below in group.below(None, Some(&|| options.stops()))? {
            let (path, kind) = (&below.path, &below.kind);
            options.check()?;
            if skipped.as_ref().is_some_and(|above| path.starts_with(above)) {
                continue;
            }
            let name = path.rsplit('/').next().unwrap_or_default();
            let added = match kind {
                NodeKind::Datatype => {
                    self.notes.entry(hdf5::NO_DATATYPES).or_default().push(path_text(path));
                    continue;
                }
                NodeKind::Link(target) => {
                    let link = format!("{} → {target}", path_text(path));
                    self.notes.entry(hdf5::NO_LINKS).or_default().push(link);
                    continue;
                }
                // HDF5 allows names that Zarr does not.
                _ if let Err(why) = zarr::check_node_name(name) => {
                    Err(Error::Copy { array: path_text(path), why: why.to_string() })
                }
                _ if let Some(why) = room.and_then(|room| room.check(path).err()) => {
                    Err(Error::Copy { array: shorten_path(path), why })
                }
                _ => open(&group, &below).map(|node| opened.push((path.clone(), node))),
            };
            match added {
                Err(error) if options.skip_unsupported && error.is_of_one() => {
                    self.report.skipped.push((path_text(path), error.to_string()));
                    skipped = (*kind == NodeKind::Group).then(|| format!("{path}/"));
                }
                Err(error) => return Err(error.of_one()),
                Ok(()) => {}
            }
        }
        let arrays = opened.iter().filter_map(|(_, node)| match node {
            Node::Array(array) => Some(array),
            Node::Group(_) => None,
        });
        let meaning = Meaning::of(&Node::Group(group.clone()), arrays)?;
        options.keep_chosen(&meaning, &mut opened)?;
        for (path, node) in opened {
            options.check()?;
            match self.add(&meaning, path.clone(), node) {
                Err(error) if options.skip_unsupported && error.is_of_one() => {
                    self.report.skipped.push((path_text(&path), error.to_string()));
                }
                Err(error) => return Err(error.of_one()),
                Ok(()) => {}
            }
        }
        let format = self.copied_format();
        ome::convert_groups(&mut self.groups, group.format(), format);
        if format == Format::ZarrV3 {
            self.name_axes_of_images();
        }
        Ok(())
    }

    /// Gives the arrays of OME-Zarr images the axis names from their group's metadata.
    fn name_axes_of_images(&mut self) {
        for (group, attributes) in &self.groups {
            for (path, names) in ome::dataset_axes(attributes) {
                let path = zarr::join(group, &path);
                let image = self.arrays.iter_mut().find(|member| member.path == path);
                let Some(Member { spec, .. }) = image else { continue };
                if spec.dimension_names.is_none() && spec.shape.len() == names.len() {
                    spec.dimension_names = Some(names.into_iter().map(Some).collect());
                }
            }
        }
    }

    /// Adds a group without its members, or an array.
    fn add(&mut self, meaning: &Meaning, path: String, node: Node) -> Result<()> {
        match node {
            Node::Array(array) if array.has_no_shape() => {
                self.report.skipped.push((path_text(&path), NO_SHAPE.into()));
                Ok(())
            }
            Node::Array(array) => self.add_array(meaning, path, array),
            Node::Group(group) => {
                let (attributes, unreadable) = meaning.group_attributes(&group)?;
                let attributes = of_copied_group(attributes, group.format(), self.copied_format());
                self.note_unreadable(&path, &unreadable);
                self.groups.push((path, attributes));
                Ok(())
            }
        }
    }

    fn add_array(&mut self, meaning: &Meaning, path: String, array: Array) -> Result<()> {
        let Some(variable) = meaning.variable(&array)? else { return Ok(()) };
        let path = meaning.path(&path);
        self.note_unreadable(&path, &variable.unreadable);
        let (window, shape) = Window::of_variable(&array, &variable, self.options.region.as_ref())?;
        let template = array.template();
        // A joined array is longer than the array that it takes its storage from.
        let described =
            array.as_joined().map(|_| Variable { shape: template.shape().into(), ..variable.clone() });
        let described = described.as_ref().unwrap_or(&variable);
        let name = path_text(&path);
        let copying = &mut self.copying(&name);
        let spec = convert(template, described, (&window, &shape), copying)?;
        self.report.bytes = self.report.bytes.saturating_add(window.bytes(array.dtype().size()));
        self.arrays.push(Member { path, array, variable, spec, window });
        Ok(())
    }

    fn copied_format(&self) -> Format {
        self.options.format.unwrap_or(Format::ZarrV3)
    }

    fn note_unreadable(&mut self, path: &str, unreadable: &[String]) {
        let notes = unreadable.iter().map(|name| format!("{}, {name:?}", path_text(path)));
        if !unreadable.is_empty() {
            self.notes.entry(NO_ATTRIBUTE).or_default().extend(notes);
        }
    }

    /// Makes the copy. `staged`: the store is its store, empty, and nobody else knows it.
    /// `beside`: the place for temporary arrays.
    pub(super) fn copy(
        mut self,
        store: &Arc<dyn Store>,
        base: &str,
        staged: Option<&dyn Staged>,
        beside: Option<Beside>,
    ) -> Result<CopyReport> {
        let start = Instant::now();
        let (options, format) = (self.options, self.format()?);
        let ask: Option<Ask<'_>> = Some(&|| options.stops());
        let how = |path: &str| match staged.is_some() {
            true => Creation::Unseen,
            false if path.is_empty() => Creation::New,
            false => Creation::Inside,
        };
        let groups = std::mem::take(&mut self.groups);
        for (path, attributes) in &groups {
            options.check()?;
            let (place, attributes) = (zarr::join(base, path), attributes.clone());
            zarr::Group::create_with(store.clone(), &place, format, attributes, how(path), ask)?;
        }
        let mut jobs = Vec::new();
        let mut promised = Vec::new();
        for Member { path, array, variable, spec, window } in self.arrays.drain(..) {
            options.check()?;
            let (_, stored) = count_stored_objects(&array, ask)?;
            self.report.stored_before = self.report.stored_before.saturating_add(stored);
            let copied =
                zarr::Array::create_with(store.clone(), &zarr::join(base, &path), spec, how(&path), ask)?;
            let name = path_text(&path);
            let repack = match copied.structure() {
                None => None,
                Some(structure) => {
                    Repack::new(&array, structure).map_err(|why| Error::Copy { array: name.clone(), why })?
                }
            };
            jobs.push(Job {
                name,
                source: array,
                target: copied.into(),
                stored,
                repack,
                window,
                is_new: true,
                is_fresh: true,
            });
            promised.push(variable);
        }
        let transfer = Transfer::new(&jobs, options.means(beside))?;
        let report = &mut self.report;
        let total = report.bytes;
        let mut left_out = BTreeSet::new();
        transfer.run(Phase::Copy, total, &mut |job, error| match job.target.path() != base {
            true if options.skip_unsupported && error.is_of_one() => {
                job.target.delete()?;
                report.arrays -= 1;
                report.bytes = report.bytes.saturating_sub(job.bytes());
                report.skipped.push((job.name.clone(), error.to_string()));
                left_out.insert(job.name.clone());
                Ok(())
            }
            true => Err(error.of_one()),
            false => Err(error),
        })?;
        for job in jobs.iter().filter(|job| !left_out.contains(&job.name)) {
            beyond_source::write_all(job, ask)?;
        }
        if self.consolidated && store.facts().consolidates {
            zarr::Group::open(store, base, Some(format), Consolidation::Ignore)?.consolidate(ask)?;
        }
        self.report.elapsed = start.elapsed();
        if options.verify {
            let start = Instant::now();
            transfer.run(Phase::Verify, self.report.bytes, &mut |_, error| Err(error))?;
            verify_meaning(&jobs, &promised, options)?;
            for (path, attributes) in &groups {
                options.check()?;
                let found =
                    zarr::Group::open(store, &zarr::join(base, path), Some(format), Consolidation::Ignore)?;
                if let Some(differs) = differing_attributes(attributes, found.attributes()) {
                    return Err(difference_error(path_text(path), &differs));
                }
            }
            self.report.verified = Some(start.elapsed());
        }
        self.report.block_bytes = transfer.block_bytes();
        self.report.bytes = self.report.bytes.saturating_add(transfer.value_bytes());
        if let Some(bytes) = staged.and_then(|staged| staged.bytes_written()) {
            self.report.stored_after = bytes;
            return Ok(self.report);
        }
        for job in &jobs {
            let (_, bytes) = count_stored_objects(&job.target, ask)?;
            self.report.stored_after = self.report.stored_after.saturating_add(bytes);
        }
        Ok(self.report)
    }
}

/// Compares the meaning of the copied arrays with the source's arrays.
/// Compares axis names, attributes, and the value that marks missing elements.
fn verify_meaning(jobs: &[Job], promised: &[Variable], options: &CopyOptions<'_>) -> Result<()> {
    let meaning = Meaning::of_copy(promised.iter());
    for (job, promised) in jobs.iter().zip(promised) {
        options.check()?;
        let mut target = job.target.clone();
        // An array that was left out no longer exists.
        match target.refresh() {
            Err(Error::Zarr(zarr::ZarrError::NotFound { .. })) => continue,
            done => done?,
        }
        let Some(found) = meaning.variable(&target)? else { continue };
        if let Some(differs) = promised.difference(&job.source, &found, &target) {
            return Err(difference_error(job.name.clone(), &differs));
        }
    }
    Ok(())
}

fn difference_error(array: String, differs: &str) -> Error {
    Error::Copy { array, why: format!("the copy differs: {differs}") }
}

fn open(group: &Group, below: &Below) -> Result<Node> {
    group.open_below(below)?.into_node()
}

/// The notes as text.
pub(super) fn list_notes(notes: &Notes) -> Vec<String> {
    notes.iter().map(|(note, names)| format!("{note}: {}", list_names(names))).collect()
}

/// Lists the first names, and the number of the others.
fn list_names(names: &[String]) -> String {
    const MOST: usize = 5;
    let more = names.len().saturating_sub(MOST);
    let listed = names.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more == 0 { listed } else { format!("{listed} and {more} more") }
}

/// Like [`path_text`], but shortens the middle of a path that would fill a screen.
fn shorten_path(path: &str) -> String {
    const KEPT: usize = 40;
    if path.len() <= 4 * KEPT {
        return path_text(path);
    }
    let first: String = path.chars().take(KEPT).collect();
    let last: Vec<char> = path.chars().rev().take(KEPT).collect();
    format!("/{first}…{}", last.into_iter().rev().collect::<String>())
}
