//! Zarr stores: leftovers, consolidated metadata, dead space, damaged chunks and shards.
//!
//! The plan is made from what [`validate`](crate::validate) finds. Each object is replaced or deleted
//! only if it is still the one that was saved: what other writers put there meanwhile stays.

use super::plan::{Action, ActionKind, Lost, Plan};
use super::quarantine::{Change, Quarantine, is_near};
use super::rewrite::{self, filled, in_memory};
use super::undo::{modified, told};
use super::{RepairOptions, Work};
use crate::content_hash::Digest;
use crate::open::{Location, Mode, Opening, Place, node_at, open_in};
use crate::stores::StoreOptions;
use crate::validate::{Finding, Kind, Severity, Subject, ValidateOptions, validate};
use crate::{Array, Dims, Error, MemoryStore, Node, Result};
use hyperslab_array::{drop_inner_chunks, inspect_shard, inspected_levels};
use hyperslab_store::{Expected, Key, Store, is_dead_stage, move_dead_stage};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Younger leftovers may be files of a living writer. 10 minutes, as in sweeps of stores.
const OLD: Duration = Duration::from_secs(600);

/// Shards with less dead space, in parts of their size, stay: 1 in 4, as in validation.
const DEAD_SHARE: u64 = 4;

/// Shards within shards with more chunks are left: each chunk is tried alone, and all are listed in memory.
const MOST_TRIED: u64 = 1 << 20;

/// A change of one object.
#[derive(Debug)]
struct Step {
    key: String,
    /// Path of the node, without the leading `/`.
    path: String,
    /// The object that the plan is about.
    digest: Digest,
    does: Does,
}

#[derive(Debug)]
enum Does {
    /// Removes a leftover, which is no object of the store.
    Sweep,
    /// Moves the folder of a dead writer to the quarantine.
    SweepFolder,
    Delete,
    /// Writes the chunk with the fill value.
    Fill(Dims),
    /// Drops inner chunks of a shard.
    Drop(Dims, BTreeSet<Vec<u64>>),
    /// Writes a shard with shards within it again, without some of the innermost chunks.
    Rewrite(Dims, BTreeSet<Vec<u64>>),
    /// Drops the dead space of a shard.
    Compact(Dims),
    Consolidate,
}

/// The steps of a plan.
#[derive(Debug)]
pub(super) struct Steps(Vec<Step>);

/// Plans the repair of a store.
pub(super) fn plan(location: &str, path: &Path, options: &RepairOptions<'_>) -> Result<(Plan, Work)> {
    let wanted = ValidateOptions {
        decode: true,
        no_conventions: true,
        threads: options.threads,
        progress: options.progress,
        ..ValidateOptions::default()
    };
    let report = validate(&[Subject::Location(path.display().to_string())], &wanted)?;
    if let Some((_, why)) = report.unreached.first() {
        return Err(Error::Options(format!("cannot repair '{location}': {why}")));
    }
    let mut planner = Planner {
        root: path,
        place: reach(path)?,
        fill: options.fill,
        plan: Plan { location: location.to_owned(), ..Plan::default() },
        steps: BTreeMap::new(),
        arrays: BTreeMap::new(),
    };
    for finding in &report.findings {
        planner.add(finding)?;
    }
    if report.omitted > 0 {
        planner
            .plan
            .left
            .push(format!("{} findings are not listed: repair again after this", report.omitted));
    }
    let Planner { mut plan, mut steps, .. } = planner;
    // A shard that is written again, or removed, has no dead space any more.
    let damaged: BTreeSet<String> =
        steps.keys().filter(|(order, _)| [4, 5].contains(order)).map(|(_, key)| key.clone()).collect();
    steps.retain(|(order, key), _| *order != 8 || !damaged.contains(key));
    plan.actions.retain(|action| {
        action.kind != ActionKind::DeadSpace || action.key.as_ref().is_none_or(|key| !damaged.contains(key))
    });
    let steps: Vec<Step> = steps.into_values().collect();
    for step in &steps {
        plan.state.push_str(&format!("{} {} ", step.key, step.digest));
    }
    Ok((plan, Work::Store(Steps(steps))))
}

pub(super) fn reach(path: &Path) -> Result<Place> {
    // Undo deletes the saved bytes. The objects must be on the disk before.
    let options = StoreOptions { fsync: true, ..StoreOptions::default() };
    Place::reach(Location::Path(path), Some(Mode::Change), options)
}

fn digest(store: &dyn Store, key: &str) -> Result<Option<Digest>> {
    let mut bytes = Vec::new();
    Ok(store.read_all(Key::new(key)?, &mut bytes, usize::MAX)?.then(|| Digest::of(&bytes)))
}

struct Planner<'p> {
    root: &'p Path,
    place: Place,
    fill: bool,
    plan: Plan,
    /// By order and key: several findings may be about one object.
    steps: BTreeMap<(u8, String), Step>,
    arrays: BTreeMap<String, Option<Array>>,
}

impl Planner<'_> {
    fn add(&mut self, finding: &Finding) -> Result<()> {
        let path = finding.path.trim_matches('/').to_owned();
        match (finding.kind, &finding.key) {
            (Kind::Leftover, Some(key)) => self.leftover(finding, &path, key),
            (Kind::Stale, _)
                if finding.severity == Severity::Error || finding.severity == Severity::Warning =>
            {
                self.consolidate(finding, &path)
            }
            (Kind::DeadSpace, _) => self.dead_space(finding, &path),
            (Kind::Damaged | Kind::Empty | Kind::WrongSize | Kind::ShardIndex, Some(key)) => {
                self.damage(finding, &path, key)
            }
            _ if finding.severity == Severity::Error => {
                self.plan.left.push(finding.to_string());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn act(&mut self, kind: ActionKind, finding: &Finding, key: &str, does: &str) {
        self.plan.actions.push(Action {
            kind,
            path: finding.path.clone(),
            key: Some(key.to_owned()),
            why: finding.found.clone(),
            does: does.to_owned(),
        });
    }

    fn leftover(&mut self, finding: &Finding, path: &str, key: &str) -> Result<()> {
        let file = self.root.join(key);
        if is_near(self.root, &file) && is_dead_stage(&file).unwrap_or(false) {
            let (digest, does) = (listed(&file)?, Does::SweepFolder);
            let step = Step { key: key.to_owned(), path: path.to_owned(), digest, does };
            self.steps.insert((0, key.to_owned()), step);
            self.act(ActionKind::Leftover, finding, key, "moves the folder to the quarantine");
            return Ok(());
        }
        let age = fs::symlink_metadata(&file)
            .ok()
            .filter(fs::Metadata::is_file)
            .and_then(|found| SystemTime::now().duration_since(found.modified().ok()?).ok());
        match age {
            Some(age) if age >= OLD => {
                let Ok(bytes) = fs::read(&file) else { return Ok(()) };
                let step = Step {
                    key: key.to_owned(),
                    path: path.to_owned(),
                    digest: Digest::of(&bytes),
                    does: Does::Sweep,
                };
                self.steps.insert((0, key.to_owned()), step);
                self.act(ActionKind::Leftover, finding, key, "moves it to the quarantine");
            }
            _ => self.plan.left.push(format!(
                "'{key}' may belong to a living writer: it is younger than {} seconds, or no file",
                OLD.as_secs()
            )),
        }
        Ok(())
    }

    /// The group that has consolidated metadata: at the path of the finding, or above.
    fn consolidate(&mut self, finding: &Finding, path: &str) -> Result<()> {
        let mut at = path;
        loop {
            let opening = Opening { mode: Some(Mode::Read), ..Opening::default() };
            let place = Place { path: at.to_owned(), ..self.place.clone() };
            if let Ok(Node::Group(group)) = node_at(&place, &opening).and_then(crate::Object::into_node)
                && group.is_consolidated()
            {
                let name = match group.format() {
                    crate::Format::ZarrV2 => ".zmetadata",
                    _ => "zarr.json",
                };
                let key = if at.is_empty() { name.to_owned() } else { format!("{at}/{name}") };
                let Some(digest) = digest(&*self.place.store, &key)? else { return Ok(()) };
                if !self.steps.contains_key(&(9, key.clone())) {
                    self.act(ActionKind::Consolidate, finding, &key, "writes consolidated metadata again");
                }
                let step = Step { key: key.clone(), path: at.to_owned(), digest, does: Does::Consolidate };
                self.steps.insert((9, key), step);
                return Ok(());
            }
            match at.rsplit_once('/') {
                Some((above, _)) => at = above,
                None if !at.is_empty() => at = "",
                None => {
                    self.plan.left.push(finding.to_string());
                    return Ok(());
                }
            }
        }
    }

    fn array(&mut self, path: &str) -> Option<Array> {
        let place = Place { path: path.to_owned(), ..self.place.clone() };
        let open = || {
            let opening = Opening { mode: Some(Mode::Change), ..Opening::default() };
            match open_in(place, &opening).ok()?.node?.into_node().ok()? {
                Node::Array(array) => Some(array),
                Node::Group(_) => None,
            }
        };
        self.arrays.entry(path.to_owned()).or_insert_with(open).clone()
    }

    fn dead_space(&mut self, finding: &Finding, path: &str) -> Result<()> {
        let Some(array) = self.array(path) else { return Ok(()) };
        let layout = array.layout().clone();
        for shard in array.node().stored_objects(None)?.unwrap_or_default() {
            let Ok(Some(contents)) = inspect_shard(&layout, &shard) else { continue };
            if contents.dead == 0 || contents.dead < contents.size / DEAD_SHARE {
                continue;
            }
            let mut key = String::new();
            layout.locate(&shard, &mut key)?;
            let Some(digest) = digest(&*self.place.store, &key)? else { continue };
            let does = format!("gives back {} of its {} bytes", contents.dead, contents.size);
            self.act(ActionKind::DeadSpace, finding, &key, &does);
            let step = Step { key: key.clone(), path: path.to_owned(), digest, does: Does::Compact(shard) };
            self.steps.insert((8, key), step);
        }
        Ok(())
    }

    fn damage(&mut self, finding: &Finding, path: &str, key: &str) -> Result<()> {
        let Some(array) = self.array(path) else {
            self.plan.left.push(finding.to_string());
            return Ok(());
        };
        let layout = array.layout();
        let is_sharded = layout.sharding().is_some();
        // Chunks of shards within shards cannot be dropped alone: the shard is written again.
        let is_plain = layout
            .sharding()
            .is_none_or(|sharding| sharding.levels().len() == 1 && inspected_levels(sharding) == 1);
        if !is_plain && !matches!(finding.kind, Kind::Empty | Kind::WrongSize) {
            return self.nested(finding, path, key, &array);
        }
        let Some(digest) = digest(&*self.place.store, key)? else { return Ok(()) };
        let new = |does| Step { key: key.to_owned(), path: path.to_owned(), digest, does };
        self.lose(finding, &array);
        if let Some(chunk) = finding.chunk.as_ref().filter(|_| is_sharded) {
            // The object that has the chunk.
            let grid = layout.grid();
            let objects = layout.object_grid();
            let shard: Dims = chunk
                .iter()
                .enumerate()
                .map(|(axis, at)| objects.index_of(axis, grid.start(axis, *at)))
                .collect();
            let place = (5, key.to_owned());
            if self.steps.contains_key(&(4, key.to_owned())) {
                return Ok(());
            }
            match self.steps.get_mut(&place).map(|step| &mut step.does) {
                Some(Does::Drop(_, lost)) => drop(lost.insert(chunk.clone())),
                _ => {
                    let lost = BTreeSet::from([chunk.clone()]);
                    self.steps.insert(place, new(Does::Drop(shard, lost)));
                    self.act(
                        ActionKind::Shard,
                        finding,
                        key,
                        "writes the shard again, from its other chunks",
                    );
                }
            }
            return Ok(());
        }
        let place = (4, key.to_owned());
        if self.steps.contains_key(&place) {
            return Ok(());
        }
        // The whole object is lost.
        self.steps.remove(&(5, key.to_owned()));
        let chunk = finding.chunk.as_deref().map(Dims::from);
        match chunk.filter(|_| self.fill && !is_sharded && array.vlen().is_none()) {
            Some(chunk) => {
                self.steps.insert(place, new(Does::Fill(chunk)));
                self.act(ActionKind::Fill, finding, key, "writes the chunk with the fill value");
            }
            None => {
                self.steps.insert(place, new(Does::Delete));
                self.act(ActionKind::Absent, finding, key, "moves it to the quarantine: it becomes absent");
            }
        }
        Ok(())
    }

    /// A damaged shard with shards within it. All its chunks are tried: the index of a shard within may be
    /// damaged, which is one finding without a chunk.
    fn nested(&mut self, finding: &Finding, path: &str, key: &str, array: &Array) -> Result<()> {
        if [4, 5].iter().any(|order| self.steps.contains_key(&(*order, key.to_owned()))) {
            return Ok(());
        }
        let mut shard = None;
        for place in array.node().stored_objects(None)?.unwrap_or_default() {
            let mut found = String::new();
            array.layout().locate(&place, &mut found)?;
            shard = shard.or((found == key).then_some(place));
        }
        let digest = digest(&*self.place.store, key)?;
        // Elements of variable length have another way into shards.
        let (Some(shard), Some(digest), None) = (shard, digest, array.vlen()) else {
            self.plan.left.push(finding.to_string());
            return Ok(());
        };
        if rewrite::count(array, &shard) > MOST_TRIED {
            self.plan.left.push(finding.to_string());
            return Ok(());
        }
        // In memory: a passing error of the disk is no damage.
        let (memory, whole) = in_memory(&*self.place.store, path, Some(key))?;
        let (memory, store) = (memory.url(), self.place.store.url());
        let mut lost = rewrite::undecodable(&whole, &shard)?;
        lost.iter_mut().for_each(|(_, why)| *why = why.replace(&memory, &store));
        if lost.is_empty() {
            self.plan.left.push(finding.to_string());
            return Ok(());
        }
        for (chunk, why) in &lost {
            self.lose(
                &Finding { chunk: Some(chunk.clone()), offset: None, found: why.clone(), ..finding.clone() },
                array,
            );
        }
        let lost: BTreeSet<Vec<u64>> = lost.into_iter().map(|(chunk, _)| chunk).collect();
        let new = |does| Step { key: key.to_owned(), path: path.to_owned(), digest, does };
        if lost.len() as u64 == rewrite::count(array, &shard) {
            self.steps.insert((4, key.to_owned()), new(Does::Delete));
            self.act(ActionKind::Absent, finding, key, "moves it to the quarantine: it becomes absent");
        } else {
            self.steps.insert((5, key.to_owned()), new(Does::Rewrite(shard, lost)));
            self.act(ActionKind::Shard, finding, key, "writes the shard again, from its other chunks");
        }
        Ok(())
    }

    /// Lists what a finding says is lost.
    fn lose(&mut self, finding: &Finding, array: &Array) {
        let (layout, shape) = (array.layout(), array.shape());
        let region = finding.chunk.as_ref().map(|chunk| {
            let grid = layout.grid();
            let start: Vec<u64> = chunk.iter().enumerate().map(|(axis, at)| grid.start(axis, *at)).collect();
            let ends = start.iter().zip(chunk).enumerate().map(|(axis, (start, at))| {
                start + grid.len_inside(axis, *at, shape.get(axis).copied().unwrap_or(0))
            });
            let ends = ends.collect();
            (start, ends)
        });
        self.plan.lost.push(Lost {
            path: finding.path.clone(),
            chunk: finding.chunk.clone(),
            region,
            offset: finding.offset,
            why: finding.found.clone(),
        });
    }
}

impl Steps {
    /// Carries the steps out.
    pub fn run(&self, path: &Path, hash: &str, options: &RepairOptions<'_>) -> Result<()> {
        let (place, quarantine) = (reach(path)?, Quarantine::create(path)?);
        let mut changes = Vec::new();
        for (number, step) in self.0.iter().enumerate() {
            let saved = number.to_string();
            let changed = || Error::Options(format!("'{}' was changed meanwhile: plan again", step.key));
            if matches!(step.does, Does::SweepFolder) {
                if listed(&path.join(&step.key))? != step.digest {
                    return Err(changed());
                }
                changes.push(Change::Folder { key: step.key.clone(), saved });
                continue;
            }
            let bytes = fs::read(path.join(&step.key)).map_err(|source| Error::Io {
                what: "read",
                path: path.join(&step.key),
                source,
            })?;
            if Digest::of(&bytes) != step.digest {
                return Err(changed());
            }
            quarantine.save(&saved, &bytes, modified(&path.join(&step.key)))?;
            changes.push(Change::Object { key: step.key.clone(), saved });
        }
        quarantine.write(hash, &changes)?;
        for (number, step) in self.0.iter().enumerate() {
            if options.progress.is_some_and(crate::copy::Progress::cancelled) {
                return Err(Error::Interrupted);
            }
            if matches!(step.does, Does::SweepFolder) {
                let (from, to) = (path.join(&step.key), quarantine.path(&number.to_string()));
                match move_dead_stage(&from, &to) {
                    Ok(true) => continue,
                    Ok(false) => {
                        let why = format!("a living process has '{}': plan again", step.key);
                        return Err(Error::Options(why));
                    }
                    Err(source) => return Err(Error::Io { what: "move", path: from, source }),
                }
            }
            let tell = |new: Option<&[u8]>| {
                let text = new.map(|new| Digest::of(new).to_string()).unwrap_or_default();
                quarantine.save(&told(&number.to_string()), text.as_bytes(), None)
            };
            step.run(path, &*place.store, &tell)?;
        }
        Ok(())
    }
}

/// Notes the new state of an object on the disk, before the object is changed. `None`: it is gone.
type Tell<'t> = &'t dyn Fn(Option<&[u8]>) -> Result<()>;

/// The digest of the names, sizes and times of all files in a folder.
fn listed(folder: &Path) -> Result<Digest> {
    let (mut left, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(next) = left.pop() {
        let failed = |source| Error::Io { what: "list", path: next.clone(), source };
        for entry in fs::read_dir(&next).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let about = entry.metadata().map_err(failed)?;
            found.push(format!("{} {} {:?}", entry.path().display(), about.len(), about.modified().ok()));
            if about.is_dir() {
                left.push(entry.path());
            }
        }
    }
    found.sort_unstable();
    Ok(Digest::of(found.join("\n").as_bytes()))
}

impl Step {
    fn run(&self, root: &Path, store: &dyn Store, tell: Tell<'_>) -> Result<()> {
        match &self.does {
            Does::Sweep => {
                let file = root.join(&self.key);
                tell(None)?;
                match fs::remove_file(&file) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                    done => done.map_err(|source| Error::Io { what: "remove", path: file, source }),
                }
            }
            // The caller moves it.
            Does::SweepFolder => Ok(()),
            Does::Delete => self.exchange(store, None, tell),
            Does::Fill(chunk) => {
                let bytes = filled(store, &self.path, &self.key, chunk)?;
                self.exchange(store, Some(&bytes), tell)
            }
            Does::Drop(shard, lost) => {
                let new = self.rewritten(store, &|array| {
                    drop_inner_chunks(array.layout(), shard, &|chunk| lost.contains(chunk), None)?;
                    Ok(())
                })?;
                self.exchange(store, new.as_deref(), tell)
            }
            Does::Rewrite(shard, lost) => {
                let new = rewrite::without(store, &self.path, &self.key, shard, lost)?;
                self.exchange(store, new.as_deref(), tell)
            }
            Does::Compact(shard) => {
                let new = self.rewritten(store, &|array| {
                    hyperslab_array::compact(array.layout(), shard, false)?;
                    Ok(())
                })?;
                self.exchange(store, new.as_deref(), tell)
            }
            Does::Consolidate => {
                let new = self.consolidated(store)?;
                self.exchange(store, new.as_deref(), tell)
            }
        }
    }

    /// Replaces or deletes the object. Fails if it is not the one of the plan.
    fn exchange(&self, store: &dyn Store, new: Option<&[u8]>, tell: Tell<'_>) -> Result<()> {
        let changed = || Error::Options(format!("'{}' was changed meanwhile: plan again", self.key));
        let key = Key::new(&self.key)?;
        let opened = store.open(key, None)?.ok_or_else(changed)?;
        let mut found = vec![0; usize::try_from(opened.size()).unwrap_or_default()];
        let mut range = [hyperslab_store::RangeRead { offset: 0, buf: &mut found }];
        opened.read_ranges(&mut range)?;
        if Digest::of(&found) != self.digest {
            return Err(changed());
        }
        tell(new)?;
        let expected = Expected::Same(&*opened);
        let done = match new {
            Some(new) => store.swap(key, expected, &[new], None)?,
            None => store.swap_out(key, expected, None)?,
        };
        if done { Ok(()) } else { Err(changed()) }
    }

    /// The group's document after its metadata were consolidated in a copy of all documents.
    fn consolidated(&self, store: &dyn Store) -> Result<Option<Vec<u8>>> {
        let memory = Arc::new(MemoryStore::new());
        let prefix = if self.path.is_empty() { None } else { Some(Key::new(&self.path)?) };
        for key in store.list(prefix)? {
            let name = key.rsplit('/').next().unwrap_or_default();
            let mut bytes = Vec::new();
            if ["zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"].contains(&name)
                && store.read_all(Key::new(&key)?, &mut bytes, usize::MAX)?
            {
                memory.write(Key::new(&key)?, &[&bytes])?;
            }
        }
        let opening = Opening { mode: Some(Mode::Change), ..Opening::default() };
        let place = Place::in_store(memory.clone(), &self.path, false);
        match open_in(place, &opening)?.node.map(crate::Object::into_node) {
            Some(Ok(Node::Group(mut group))) => group.as_zarr_mut()?.consolidate(None)?,
            _ => return Err(Error::Options(format!("there is no group at '/{}': plan again", self.path))),
        }
        let mut bytes = Vec::new();
        Ok(memory.read_all(Key::new(&self.key)?, &mut bytes, usize::MAX)?.then_some(bytes))
    }

    /// The object after a change of a copy of the array in memory. `None`: it is gone.
    fn rewritten(&self, store: &dyn Store, change: &dyn Fn(&Array) -> Result<()>) -> Result<Option<Vec<u8>>> {
        let (memory, array) = in_memory(store, &self.path, Some(&self.key))?;
        change(&array)?;
        let mut bytes = Vec::new();
        Ok(memory.read_all(Key::new(&self.key)?, &mut bytes, usize::MAX)?.then_some(bytes))
    }
}
