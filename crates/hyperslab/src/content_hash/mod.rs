//! A hash of values and attributes, independent of format, chunks, codecs and byte order.
//!
//! `docs/content-hash.md` defines the hash, so that others can compute it. In short: the elements of an
//! array are cut into bricks (`bricks`), in one form for all formats (`elements`). The digests of
//! bricks make the digest of a slab of rows. The slabs make a tree (`digest`). The digest of an
//! array is the digest of a canonical text (`canonical`) with the root of the tree, type, shape,
//! dimensions and attributes. The digest of a group names its members and their digests.

mod bricks;
mod canonical;
mod digest;
mod elements;
mod report;
mod values;

pub use digest::{Digest, Tree};
pub use values::Hashed;

use crate::copy::Progress;
use crate::meaning::{Meaning, of_copied_group};
use crate::{Array, Error, Format, Json, Node, Result, Variable, settings};
use elements::Elements;
use std::collections::BTreeMap;
use values::Job;

/// The version of the hash, which is part of all digests.
pub const VERSION: u32 = 1;

/// Bytes of regions in memory, unless the caller says otherwise. Chunks of a wide array are decoded
/// once if a row of them fits.
const MEMORY: u64 = 512 << 20;

/// Options of [`content_hash`].
#[derive(Clone, Copy, Default)]
pub struct HashOptions<'a> {
    /// The hash of an earlier state to which rows were appended. Earlier elements of arrays that are in
    /// it are not read.
    ///
    /// The caller vouches that these elements are as they were.
    pub appended_to: Option<&'a ContentHash>,
    /// The most bytes of elements in memory, as far as one brick for each thread allows; `None`: 512
    /// MiB.
    pub memory: Option<u64>,
    /// Number of threads; `None`: from the settings.
    pub threads: Option<usize>,
    /// Receives the bytes of finished elements, on the calling thread, and can stop it.
    pub progress: Option<&'a dyn Progress>,
}

/// The hash of an array, or of a group and everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentHash {
    /// The hash of everything.
    pub digest: Digest,
    /// All nodes by path, first the root.
    pub nodes: Vec<NodeHash>,
}

/// The hash of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHash {
    /// The path below the root; `""`: the root.
    pub path: String,
    /// The hash of the node and everything below it.
    pub digest: Digest,
    /// The array; `None`: it is a group.
    pub array: Option<ArrayHash>,
    /// Names of attributes that cannot be read. They are not part of the hash.
    pub unreadable: Vec<String>,
}

/// The facts about an array that later hashes need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayHash {
    /// Elements per axis; `None`: the array has no shape and no elements.
    pub shape: Option<Vec<u64>>,
    /// The canonical name of the element type.
    pub dtype: Json,
    /// The elements.
    pub values: Option<Hashed>,
}

/// Hashes an array, or a group and everything below it.
///
/// Fails with [`Error::Interrupted`] if [`Progress::cancelled`] returns `true`.
///
/// ```
/// use hyperslab::content_hash::content_hash;
/// use hyperslab::prelude::*;
///
/// # fn main() -> Result<(), hyperslab::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let location = |name: &str| directory.path().join(name).display().to_string();
/// let of = |name: &str, format: Format, dtype: &str, chunk: u64| -> Result<_, hyperslab::Error> {
///     let mut spec = ArraySpec::new(format.zarr()?, &[5], dtype.parse()?);
///     spec.chunks = Some([chunk].as_slice().into());
///     let array = Array::create(&location(name), &spec)?;
///     array.write_slice(&[], &[1.0_f32, 2.0, 3.0, 4.0, 5.0])?;
///     content_hash(&Node::Array(array), &Default::default())
/// };
/// let (one, other) = (of("a", Format::ZarrV3, "<f4", 2)?, of("b", Format::ZarrV2, ">f4", 5)?);
/// assert_eq!(one.digest, other.digest);
/// # Ok(())
/// # }
/// ```
pub fn content_hash(node: &Node, options: &HashOptions<'_>) -> Result<ContentHash> {
    let cancelled = || options.progress.is_some_and(Progress::cancelled);
    let found = Found::of(node, &cancelled)?;
    let mut jobs = Vec::new();
    for (path, each) in &found.arrays {
        jobs.push((path, each, each.elements()?));
    }
    if let Some(progress) = options.progress {
        progress.reads(jobs.iter().map(|(path, each, elements)| bytes(path, each, elements, options)).sum());
    }
    let mut nodes = BTreeMap::new();
    for (path, each, elements) in &jobs {
        if let Some(progress) = options.progress {
            progress.array(path);
        }
        nodes.insert((*path).clone(), array_hash(path, each, elements.as_ref(), options)?);
    }
    for (path, (attributes, unreadable)) in found.groups.iter().rev() {
        let digest = group_digest(path, attributes, &nodes);
        let (path, unreadable) = (path.clone(), unreadable.clone());
        nodes.insert(path.clone(), NodeHash { path, digest, array: None, unreadable });
    }
    let nodes: Vec<NodeHash> = nodes.into_values().collect();
    // The root sorts first. There always is one.
    let digest = nodes.first().map_or(Digest::of(b""), |root| root.digest);
    Ok(ContentHash { digest, nodes })
}

/// The arrays and groups to hash, by the paths of variables.
struct Found {
    arrays: BTreeMap<String, FoundArray>,
    /// Attributes, and names of unreadable ones.
    groups: BTreeMap<String, (Json, Vec<String>)>,
}

struct FoundArray {
    array: Array,
    variable: Variable,
}

impl Found {
    fn of(root: &Node, ask: &dyn Fn() -> bool) -> Result<Found> {
        let (meaning, nodes) = Meaning::of_all(root, Some(ask))?;
        let mut found = Found { arrays: BTreeMap::new(), groups: BTreeMap::new() };
        for (path, node) in nodes {
            match node {
                Node::Group(group) => {
                    let (attributes, unreadable) = meaning.group_attributes(&group)?;
                    let attributes = of_copied_group(attributes, group.format(), Format::ZarrV3);
                    found.groups.insert(path, (attributes, unreadable));
                }
                Node::Array(array) => {
                    // A dataset that only stands for a dimension has no values.
                    let Some(variable) = meaning.variable(&array)? else { continue };
                    let path = if path.is_empty() { path } else { meaning.path(&path) };
                    found.arrays.insert(path, FoundArray { array, variable });
                }
            }
        }
        if found.groups.is_empty() && found.arrays.is_empty() {
            let why = "it only stands for a dimension, and has no values".to_owned();
            return Err(Error::Copy { array: root.name(), why });
        }
        Ok(found)
    }
}

impl FoundArray {
    /// The elements; `None`: the array has no shape.
    fn elements(&self) -> Result<Option<Elements<'_>>> {
        if self.array.has_no_shape() {
            return Ok(None);
        }
        let rest = self.variable.rest(&self.array)?;
        Elements::of(&self.array, &self.variable.shape, rest).map(Some)
    }

    /// The text that is hashed for the array.
    fn text(&self, elements: Option<&Elements<'_>>, root: Option<Digest>) -> String {
        let variable = &self.variable;
        let axes = elements.map_or(0, |_| variable.shape.len());
        let name = |axis: usize| {
            let name = variable.dimension_names.as_ref().and_then(|names| names.get(axis)).cloned().flatten();
            name.map_or(Json::Null, Json::String)
        };
        let hex = |digest: Digest| Json::String(digest.to_string());
        let missing = match variable.is_variable {
            true => elements::missing(&self.array, &variable.missing),
            false => Json::Null,
        };
        canonical::text(&Json::from([
            ("attributes", variable.attributes.clone()),
            ("dimensions", Json::Array((0..axes).map(name).collect())),
            ("dtype", elements.map_or(Json::Null, |elements| elements.name.clone())),
            ("kind", "array".into()),
            ("missing", missing),
            ("shape", elements.map_or(Json::Null, |_| variable.shape.as_slice().into())),
            ("values", root.map_or(Json::Null, hex)),
            ("version", VERSION.into()),
        ]))
    }
}

/// The slabs of an array that are known from an earlier state of it.
fn known<'a>(
    path: &str,
    each: &FoundArray,
    elements: &Elements<'_>,
    slab: u64,
    options: &HashOptions<'a>,
) -> Option<&'a Tree> {
    let nodes = &options.appended_to?.nodes;
    let node =
        nodes.binary_search_by(|node| node.path.as_str().cmp(path)).ok().and_then(|at| nodes.get(at))?;
    let earlier = node.array.as_ref()?;
    let (before, values) = (earlier.shape.as_ref()?, earlier.values.as_ref()?);
    let (rows, others) = each.variable.shape.split_first()?;
    let (rows_before, others_before) = before.split_first()?;
    let fits = rows_before <= rows
        && others_before == others
        && earlier.dtype == elements.name
        && values.slab == slab
        && values.whole.count().checked_mul(slab).is_some_and(|known| known <= *rows_before);
    fits.then_some(&values.whole)
}

fn job<'a>(each: &'a FoundArray, elements: &'a Elements<'a>, options: &HashOptions<'a>) -> Job<'a> {
    Job {
        array: &each.array,
        elements,
        shape: &each.variable.shape,
        known: None,
        memory: options.memory.unwrap_or(MEMORY),
        threads: options.threads.filter(|n| *n > 0).unwrap_or_else(settings::threads),
        progress: options.progress,
    }
}

/// The bytes of the elements that are read.
fn bytes(path: &str, each: &FoundArray, elements: &Option<Elements<'_>>, options: &HashOptions<'_>) -> u64 {
    let Some(elements) = elements else { return 0 };
    let size = each.array.dtype().size().max(1) as u64;
    let slab = job(each, elements, options).slab();
    let known =
        known(path, each, elements, slab, options).map_or(0, |tree| tree.count().saturating_mul(slab));
    match each.variable.shape.split_first() {
        None => size,
        Some((rows, others)) => others
            .iter()
            .fold(rows.saturating_sub(known).saturating_mul(size), |all, n| all.saturating_mul(*n)),
    }
}

fn array_hash(
    path: &str,
    each: &FoundArray,
    elements: Option<&Elements<'_>>,
    options: &HashOptions<'_>,
) -> Result<NodeHash> {
    let values = match elements {
        None => None,
        Some(elements) => {
            let job = job(each, elements, options);
            let known = known(path, each, elements, job.slab(), options);
            Some(Job { known, ..job }.run()?)
        }
    };
    let text = each.text(elements, values.as_ref().map(|values| values.root));
    Ok(NodeHash {
        path: path.to_owned(),
        digest: Digest::of(text.as_bytes()),
        array: Some(ArrayHash {
            shape: elements.map(|_| each.variable.shape.to_vec()),
            dtype: elements.map_or(Json::Null, |elements| elements.name.clone()),
            values,
        }),
        unreadable: each.variable.unreadable.clone(),
    })
}

/// The digest of a group, whose members are known.
fn group_digest(path: &str, attributes: &Json, nodes: &BTreeMap<String, NodeHash>) -> Digest {
    let below = if path.is_empty() { String::new() } else { format!("{path}/") };
    let mut members = Vec::new();
    let is_group = |path: &str| nodes.get(path).is_some_and(|node| node.array.is_none());
    for (found, node) in nodes.range(below.clone()..) {
        let Some(name) = found.strip_prefix(&below) else { break };
        // A node is a member of the nearest group above it.
        if !name.match_indices('/').any(|(at, _)| is_group(&found[..below.len() + at])) {
            members.push((name.to_owned(), Json::String(node.digest.to_string())));
        }
    }
    let text = canonical::text(&Json::from([
        ("attributes", attributes.clone()),
        ("kind", "group".into()),
        ("members", Json::Object(members)),
        ("version", VERSION.into()),
    ]));
    Digest::of(text.as_bytes())
}
