//! Zarr hierarchies: documents, and the keys of all objects.
//!
//! A listing gives all keys. Nodes are where documents are. Every other key must be the key of a chunk
//! of the nearest array above.

use super::Visited;
use super::blame::Blame;
use super::finding::{Finding, Findings, Kind, Level, Severity};
use crate::open::Place;
use crate::{Array, Dims, Error, Group, Node, Result, workers};
use hyperslab_array::ArrayLayout;
use hyperslab_store::{Ask, Key, Listing, Store};
use hyperslab_zarr::{self as zarr, Consolidation, Format, OutdatedWhat, Wanted, join};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Keys that NCZarr stores beside the documents of Zarr v2.
const NCZARR: [&str; 4] = [".nczarr", ".nczgroup", ".nczarray", ".nczattr"];

/// Endings of names that unfinished writers of other packages leave: zarr-python and TensorStore.
const UNFINISHED: [&str; 2] = [".partial", ".__lock"];

/// The documents at a path.
#[derive(Clone, Copy, Debug, Default)]
struct Documents {
    v3: bool,
    array: bool,
    group: bool,
    attributes: bool,
    consolidated: bool,
}

/// A node that was opened, or could not be.
enum Opened {
    Array(Box<Array>),
    Group(Format),
    Unreadable,
}

/// Keys of one folder that belong to no array.
struct Unowned {
    first: String,
    count: u64,
    /// They are in the folder of an array.
    of_array: bool,
    /// Some look like keys of chunks.
    chunks: bool,
}

/// The contents of a store.
pub(super) struct Stored {
    pub arrays: Vec<Visited>,
    pub groups: Vec<(String, Group)>,
    pub objects: u64,
    pub bytes: u64,
    /// The formats of its nodes.
    pub formats: BTreeSet<&'static str>,
}

/// Looks at all keys below a place. `None`: there is no document.
pub(super) fn look(
    place: &Place,
    threads: usize,
    findings: &Findings,
    ask: Ask<'_>,
) -> Result<Option<Stored>> {
    let (store, base) = (&place.store, place.path.as_str());
    let prefix = if base.is_empty() { None } else { Some(Key::new(base)?) };
    let Listed { keys, faults, leftovers } = list(store, prefix, threads, ask)?;
    let mut paths: BTreeMap<String, Documents> = BTreeMap::new();
    for (key, _) in &keys {
        let (path, name) = key.rsplit_once('/').unwrap_or(("", key));
        let mut note = |set: fn(&mut Documents)| set(paths.entry(path.to_owned()).or_default());
        match name {
            "zarr.json" => note(|found| found.v3 = true),
            ".zarray" => note(|found| found.array = true),
            ".zgroup" => note(|found| found.group = true),
            ".zattrs" => note(|found| found.attributes = true),
            ".zmetadata" => note(|found| found.consolidated = true),
            _ => {}
        }
    }
    if !paths.values().any(|found| found.v3 || found.array || found.group) {
        return Ok(None);
    }
    let mut look = Look { store, base, findings, nodes: BTreeMap::new() };
    look.documents(&paths, threads, ask)?;
    let mut found = Stored {
        arrays: Vec::new(),
        groups: Vec::new(),
        objects: keys.len() as u64,
        bytes: keys
            .iter()
            .filter(|(_, size)| *size != UNKNOWN)
            .fold(0, |bytes: u64, (_, size)| bytes.saturating_add(*size)),
        formats: BTreeSet::new(),
    };
    look.hierarchy(&paths);
    for (key, blame) in faults {
        let folder = key.rsplit_once('/').map_or("", |(folder, _)| folder);
        let owner = look.owner(folder).map_or(base, |(owner, _)| owner);
        look.add(blame.severity, blame.kind, owner, Some(key.clone()), blame.why);
    }
    let mut places = look.keys(&keys, ask)?;
    look.leftovers(leftovers);
    look.consolidated(&paths, ask)?;
    for (path, opened) in look.nodes {
        match opened {
            Opened::Array(array) => {
                found.formats.insert(if array.format() == crate::Format::ZarrV2 {
                    "Zarr v2"
                } else {
                    "Zarr v3"
                });
                let stored = places.remove(&path).unwrap_or_default();
                found.arrays.push(Visited { path, array: *array, stored: Some(stored) });
            }
            Opened::Group(format) => {
                found.formats.insert(if format == Format::V2 { "Zarr v2" } else { "Zarr v3" });
                if let Ok(group) = zarr::Group::open(store, &path, Some(format), Consolidation::Ignore) {
                    found.groups.push((path, group.into()));
                }
            }
            Opened::Unreadable => {}
        }
    }
    Ok(Some(found))
}

/// The size of an object that the store cannot tell.
const UNKNOWN: u64 = u64::MAX;

/// Everything below a prefix.
struct Listed {
    keys: Vec<(String, u64)>,
    /// Keys whose objects have no size: references that lead nowhere.
    faults: Vec<(String, Blame)>,
    leftovers: Vec<String>,
}

/// Lists all keys with their sizes, and leftovers.
fn list(store: &Arc<dyn Store>, prefix: Option<Key<'_>>, threads: usize, ask: Ask<'_>) -> Result<Listed> {
    match store.list_all(prefix, threads, Some(ask)).map_err(Error::from) {
        Ok(Listing { keys, leftovers }) => return Ok(Listed { keys, faults: Vec::new(), leftovers }),
        Err(error) if error.is_interruption() => return Err(error),
        Err(_) => {}
    }
    let (mut keys, mut faults) = (Vec::new(), Vec::new());
    for key in store.list_asking(prefix, Some(ask))? {
        if ask() {
            return Err(Error::Interrupted);
        }
        match store.size(Key::new(&key)?).map_err(Error::from) {
            Ok(Some(size)) => keys.push((key, size)),
            // Deleted meanwhile.
            Ok(None) => {}
            Err(error) => {
                faults.push((key.clone(), Blame::of(&error)?));
                keys.push((key, UNKNOWN));
            }
        }
    }
    let leftovers = store.leftovers(prefix, Some(ask))?;
    Ok(Listed { keys, faults, leftovers })
}

/// The chunks that an array may have.
struct ChunkRules {
    /// Objects per axis.
    counts: Dims,
    /// The least and the most bytes of an object ([`sizes`]).
    least: u64,
    most: Option<u64>,
}

impl ChunkRules {
    fn of(array: &Array) -> Self {
        let layout = array.layout();
        let (least, most) = sizes(layout, array.vlen().is_some());
        ChunkRules { counts: layout.object_grid().counts(layout.shape()), least, most }
    }
}

struct Look<'a> {
    store: &'a Arc<dyn Store>,
    base: &'a str,
    findings: &'a Findings,
    nodes: BTreeMap<String, Opened>,
}

impl Look<'_> {
    fn add(&self, severity: Severity, kind: Kind, path: &str, key: Option<String>, found: impl Into<String>) {
        let finding = self.findings.make(severity, Level::Structure, kind, path, found);
        self.findings.put(Finding { key, ..finding });
    }

    /// Opens all nodes.
    fn documents(&mut self, paths: &BTreeMap<String, Documents>, threads: usize, ask: Ask<'_>) -> Result<()> {
        let mut wanted = Vec::new();
        for (path, found) in paths {
            if found.v3 && (found.array || found.group) {
                let what = "documents of Zarr v2 and v3 describe this node; readers take v3 first";
                self.add(Severity::Warning, Kind::Mixed, path, None, what);
            }
            if found.array && found.group {
                let what = "both .zarray and .zgroup exist: an array counts before a group";
                self.add(Severity::Warning, Kind::Mixed, path, None, what);
            }
            let is_v2 = found.array || found.group;
            let names = [(found.attributes, ".zattrs"), (found.consolidated, ".zmetadata")];
            for (_, name) in names.into_iter().filter(|(exists, _)| *exists && !is_v2) {
                let what = format!("{name} exists, but neither .zarray nor .zgroup does");
                self.add(Severity::Warning, Kind::Unowned, path, Some(join(path, name)), what);
            }
            if found.v3 || is_v2 {
                wanted.push((path, if found.v3 { Format::V3 } else { Format::V2 }));
            }
        }
        let at_once = match self.store.cost().prefers_rounds() {
            true => self.store.cost().requests_at_once().clamp(threads, 64),
            false => threads,
        };
        let opened = Mutex::new(BTreeMap::new());
        let store = self.store;
        let count = wanted.len() as u64;
        workers::share(count, at_once, ask, &|| {}, &|n, _| {
            let Some((path, format)) = usize::try_from(n).ok().and_then(|n| wanted.get(n)) else {
                return Ok(());
            };
            let node = self.open(store, path, *format)?;
            opened.lock().unwrap_or_else(PoisonError::into_inner).insert((*path).clone(), node);
            Ok(())
        })?;
        self.nodes = opened.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(())
    }

    fn open(&self, store: &Arc<dyn Store>, path: &str, format: Format) -> Result<Opened> {
        let wanted =
            Wanted { format: Some(format), consolidation: Consolidation::Ignore, ..Wanted::default() };
        match zarr::open_with(store, path, wanted) {
            Ok(zarr::Node::Array(array)) => Ok(Opened::Array(Box::new(array.into()))),
            Ok(zarr::Node::Group(_)) => Ok(Opened::Group(format)),
            Err(error) => {
                let blame = Blame::of(&Error::from(error))?;
                self.add(blame.severity, blame.kind, path, blame.key, blame.why);
                Ok(Opened::Unreadable)
            }
        }
    }

    /// The nearest node at a path or above it.
    fn owner(&self, path: &str) -> Option<(&str, &Opened)> {
        let mut at = path;
        loop {
            if let Some((path, opened)) = self.nodes.get_key_value(at) {
                return Some((path, opened));
            }
            if at.is_empty() {
                return None;
            }
            at = at.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }

    /// Checks that nodes are members of groups of their own format.
    fn hierarchy(&self, paths: &BTreeMap<String, Documents>) {
        let is_v3 = |path: &str| paths.get(path).is_some_and(|found| found.v3);
        let mut named = BTreeSet::new();
        if !self.nodes.contains_key(self.base) {
            let what = "there are nodes below, but no document here";
            self.add(Severity::Warning, Kind::NoGroup, self.base, None, what);
        }
        for path in self.nodes.keys().filter(|path| path.as_str() != self.base && !path.is_empty()) {
            let above = path.rsplit_once('/').map_or("", |(above, _)| above);
            match self.owner(above) {
                Some((owner, Opened::Array(_))) => {
                    let what = format!("the node is stored inside the array '/{owner}'");
                    self.add(Severity::Warning, Kind::NodeInArray, path, None, what);
                }
                Some((owner, _)) if owner == above => {
                    let both = paths.get(path).is_some_and(|found| found.v3 && (found.array || found.group));
                    if is_v3(owner) != is_v3(path) && !both {
                        let (one, other) = if is_v3(path) { ("v3", "v2") } else { ("v2", "v3") };
                        let what = format!(
                            "a node of Zarr {one} in a group of Zarr {other}, which does not show it"
                        );
                        self.add(Severity::Warning, Kind::Mixed, path, None, what);
                    }
                }
                Some(_) if named.insert(above.to_owned()) => {
                    let what = format!("'/{path}' is below a path that is not a group");
                    self.add(Severity::Warning, Kind::NoGroup, above, None, what);
                }
                _ => {}
            }
        }
    }

    /// Checks all keys. Returns the places of the stored objects of each array.
    fn keys(&self, keys: &[(String, u64)], ask: Ask<'_>) -> Result<BTreeMap<String, Vec<Dims>>> {
        let mut places: BTreeMap<String, Vec<Dims>> = BTreeMap::new();
        let mut unowned = BTreeMap::new();
        // Neighbours in a listing are mostly chunks of one array.
        let (mut folder, mut owner) = (None, None);
        let mut chunks: Option<(&str, ChunkRules)> = None;
        let mut found: Vec<Dims> = Vec::new();
        for (number, (key, size)) in keys.iter().enumerate() {
            if number % 4096 == 0 && ask() {
                return Err(Error::Interrupted);
            }
            let (path, name) = key.rsplit_once('/').unwrap_or(("", key));
            if is_document(name) {
                continue;
            }
            if folder != Some(path) {
                (folder, owner) = (Some(path), self.owner(path));
            }
            match owner {
                Some((owner, Opened::Array(array))) => {
                    if chunks.as_ref().is_none_or(|(last, _)| *last != owner)
                        && let Some((last, _)) = chunks.replace((owner, ChunkRules::of(array)))
                    {
                        places.entry(last.to_owned()).or_default().append(&mut found);
                    }
                    let Some((_, rules)) = &chunks else { continue };
                    match self.chunk(owner, array, rules, key, *size) {
                        Some(Some(place)) => found.push(place),
                        Some(None) => {}
                        None => self.unowned(&mut unowned, owner, true, key),
                    }
                }
                // Its document cannot be read: nothing is known about its keys.
                Some((_, Opened::Unreadable)) => {}
                Some((owner, Opened::Group(_))) => self.unowned(&mut unowned, owner, false, key),
                None => self.unowned(&mut unowned, self.base, false, key),
            }
        }
        if let Some((last, _)) = chunks {
            places.entry(last.to_owned()).or_default().append(&mut found);
        }
        for ((owner, _), Unowned { first, count, of_array, chunks }) in unowned {
            let others =
                if count == 1 { String::new() } else { format!(", like {} others beside it", count - 1) };
            let mut what = format!("the key belongs to no array{others}");
            if chunks && !of_array {
                what.push_str("; it looks like a chunk: the document of its array may be lost");
            }
            let severity = if chunks || of_array { Severity::Warning } else { Severity::Note };
            self.add(severity, Kind::Unowned, &owner, Some(first), what);
        }
        Ok(places)
    }

    /// Notes a key that belongs to no array, with others of the same folder.
    fn unowned(&self, all: &mut BTreeMap<(String, String), Unowned>, owner: &str, of_array: bool, key: &str) {
        if UNFINISHED.iter().any(|end| key.ends_with(end)) {
            let what = "a writer did not finish this object, or is writing it now";
            self.add(Severity::Warning, Kind::Leftover, owner, Some(key.to_owned()), what);
            return;
        }
        let below = key.get(owner.len()..).unwrap_or(key).trim_start_matches('/');
        let folder = below.split('/').next().unwrap_or_default().to_owned();
        let name = key.rsplit('/').next().unwrap_or_default();
        let is_chunk = name.starts_with(|letter: char| letter.is_ascii_digit())
            && name.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
        let found = all.entry((owner.to_owned(), folder)).or_insert_with(|| Unowned {
            first: key.to_owned(),
            count: 0,
            of_array,
            chunks: false,
        });
        found.count += 1;
        found.chunks |= is_chunk;
    }

    /// Checks the key and the size of an object in the folder of an array. Returns the place of a chunk,
    /// if it is in the grid. `None`: it is no key of a chunk.
    fn chunk(
        &self,
        owner: &str,
        array: &Array,
        rules: &ChunkRules,
        key: &str,
        size: u64,
    ) -> Option<Option<Dims>> {
        let layout = array.layout();
        let place = layout.locator().chunks_of(&mut std::iter::once(key))?.into_iter().next()?;
        let ChunkRules { counts, least, most } = rules;
        let (least, most) = (*least, *most);
        if !place.iter().zip(counts).all(|(at, count)| at < count) {
            let what =
                format!("a chunk at {:?}, in a grid of {:?} chunks", place.as_slice(), counts.as_slice());
            self.add(Severity::Warning, Kind::OutsideGrid, owner, Some(key.to_owned()), what);
            return Some(None);
        }
        if size != UNKNOWN && (size < least || most.is_some_and(|most| size > most)) {
            let kind = if size == 0 { Kind::Empty } else { Kind::WrongSize };
            let finding = self.findings.make(
                Severity::Error,
                Level::Structure,
                kind,
                owner,
                format!("the object has {size} bytes"),
            );
            let expected = match most {
                Some(most) if most == least => format!("{least} bytes"),
                Some(most) if size > most => format!("at most {most} bytes"),
                _ => format!("at least {least} bytes"),
            };
            let is_chunk = layout.sharding().is_none();
            self.findings.put(Finding {
                chunk: is_chunk.then(|| place.to_vec()),
                key: Some(key.to_owned()),
                expected: Some(expected),
                ..finding
            });
        }
        Some(Some(place))
    }

    fn leftovers(&self, found: Vec<String>) {
        for path in found {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let owner = self.owner(folder).map_or(self.base, |(owner, _)| owner);
            let what = "a writer did not finish this object, or is writing it now";
            self.add(Severity::Warning, Kind::Leftover, owner, Some(path.clone()), what);
        }
    }

    /// Compares consolidated metadata with the members.
    fn consolidated(&self, paths: &BTreeMap<String, Documents>, ask: Ask<'_>) -> Result<()> {
        if !self.store.facts().consolidates {
            return Ok(());
        }
        for (path, opened) in &self.nodes {
            let Opened::Group(format) = opened else { continue };
            let documents = paths.get(path).copied().unwrap_or_default();
            if *format == Format::V2 && !documents.consolidated {
                continue;
            }
            let below = if path.is_empty() { String::new() } else { format!("{path}/") };
            let is_member = |other: &&String| {
                let found = paths.get(*other).copied().unwrap_or_default();
                let same = if *format == Format::V3 { found.v3 } else { found.array || found.group };
                other.len() > below.len() && other.starts_with(&below) && same && self.is_visible(path, other)
            };
            let members = self.nodes.keys().filter(is_member);
            let members: BTreeSet<String> =
                members.filter_map(|other| other.get(below.len()..)).map(str::to_owned).collect();
            match zarr::outdated_members(self.store, path, *format, &members, Some(ask)) {
                Ok(found) => {
                    for outdated in found.into_iter().flatten() {
                        self.outdated(path, &outdated);
                    }
                }
                Err(error) => {
                    let blame = Blame::of(&Error::from(error))?;
                    self.add(blame.severity, blame.kind, path, blame.key, blame.why);
                }
            }
        }
        Ok(())
    }

    /// Returns `true` if all paths between a group and a node below are groups.
    fn is_visible(&self, group: &str, node: &str) -> bool {
        let mut at = node;
        while let Some((above, _)) = at.rsplit_once('/') {
            if above.len() <= group.len() {
                return true;
            }
            match self.nodes.get(above) {
                Some(Opened::Group(_) | Opened::Unreadable) => at = above,
                _ => return false,
            }
        }
        true
    }

    fn outdated(&self, group: &str, outdated: &zarr::Outdated) {
        let path = join(group, &outdated.path);
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".into());
        let (severity, found, expected) = match &outdated.what {
            OutdatedWhat::NotStored => {
                (Severity::Error, format!("consolidated in '/{group}', but not stored"), None)
            }
            OutdatedWhat::NotConsolidated => {
                let what =
                    format!("stored, but not consolidated in '/{group}': readers from there do not find it");
                (Severity::Warning, what, None)
            }
            OutdatedWhat::Field { name, stored, consolidated } => {
                let severity = match name.starts_with("attributes.") {
                    true => Severity::Warning,
                    // Readers take the consolidated shape, codecs, …
                    false => Severity::Error,
                };
                let what =
                    format!("{name} is {} in the consolidated metadata of '/{group}'", value(consolidated));
                (severity, what, Some(format!("{}, as in its own document", value(stored))))
            }
        };
        let finding = self.findings.make(severity, Level::Structure, Kind::Stale, &path, found);
        self.findings.put(Finding { expected, ..finding });
    }
}

fn is_document(name: &str) -> bool {
    matches!(name, "zarr.json" | ".zarray" | ".zgroup" | ".zattrs" | ".zmetadata") || NCZARR.contains(&name)
}

/// The least and the most bytes that an object of an array may have. `None`: no limit is known.
fn sizes(layout: &ArrayLayout, is_vlen: bool) -> (u64, Option<u64>) {
    if let Some(sharding) = layout.sharding() {
        let plain = sharding.levels().first().filter(|level| level.codecs().is_empty());
        // In a rectilinear grid, shards have different indexes.
        let regular = layout.object_grid().is_regular();
        return (plain.filter(|_| regular).map_or(1, |level| level.index().size() as u64), None);
    }
    let chain = layout.encoding().chain();
    let most = chain.max_encoded() as u64;
    match (is_vlen || !layout.grid().is_regular(), most) {
        (_, 0) => (0, None),
        (true, _) => (1, None),
        (false, most) if chain.only_frames() => (most, Some(most)),
        (false, most) => (1, Some(most)),
    }
}

/// Opens the nodes of a store that cannot be listed, by its consolidated metadata.
pub(super) fn look_unlisted(place: &Place, findings: &Findings, ask: Ask<'_>) -> Result<Option<Stored>> {
    let opening = crate::open::Opening { mode: Some(crate::open::Mode::Read), ..Default::default() };
    let node = crate::open::open_in(place.clone(), &opening)?.into_node()?;
    let what = "the store cannot list its keys: only documents are checked";
    findings.add(Severity::Note, Level::Structure, Kind::Unsupported, &place.path, what);
    let mut found = Stored {
        arrays: Vec::new(),
        groups: Vec::new(),
        objects: 0,
        bytes: 0,
        formats: BTreeSet::from([if node.format() == crate::Format::ZarrV2 { "Zarr v2" } else { "Zarr v3" }]),
    };
    match node {
        Node::Array(array) => found.arrays.push(Visited { path: place.path.clone(), array, stored: None }),
        Node::Group(group) => {
            for below in group.below(None, Some(ask))? {
                let path = join(&place.path, &below.path);
                match group.open_below(&below).and_then(crate::Object::into_node) {
                    Ok(Node::Array(array)) => found.arrays.push(Visited { path, array, stored: None }),
                    Ok(Node::Group(group)) => found.groups.push((path, group)),
                    Err(error) => {
                        let blame = Blame::of(&error)?;
                        let made =
                            findings.make(blame.severity, Level::Structure, blame.kind, &path, blame.why);
                        findings.put(Finding { key: blame.key, ..made });
                    }
                }
            }
            found.groups.push((place.path.clone(), group));
        }
    }
    Ok(Some(found))
}
