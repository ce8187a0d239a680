//! Joins many sources along a dimension: one hierarchy that takes its elements from all of them.
//!
//! [`concatenated`] describes the joined arrays as mosaics of the arrays in the sources. The engine
//! reads them like any other array, so everything that copies an array copies a joined one.
//!
//! 1. Open every source, several at once, and compare its description with the first one
//!    ([`compare`]). Only the first source stays open.
//! 2. Note how long each array is along the dimension.
//! 3. Open a source again when its elements are needed. A few sources stay open ([`Sources`]), so
//!    that any number of files fits the limit of file descriptors.
//!
//! Attributes come from the first source. Variables without the dimension must be equal in all
//! sources.

mod compare;
mod coordinate;
mod facts;
mod nodes;
mod ragged;
mod retimed;
mod sources;

pub use sources::JoinSource;

use crate::copy::resolve_links;
use crate::error::check;
use crate::meaning::Variable;
use crate::{Array, Dims, Error, Group, Node, Result};
use compare::Compared;
use coordinate::Ends;
use facts::Facts;
use hyperslab_array::each_part;
use hyperslab_store::Ask;
use nodes::JoinedPiece;
pub(crate) use nodes::{JoinedArray, JoinedGroup};
use sources::Sources;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

/// How to join.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    /// The dimension along which to join.
    pub dimension: &'a str,
    /// `true`: in the order of the first value of the dimension's coordinate.
    /// `false`: in the order given.
    pub sort: bool,
    /// Only these variables, and the variables that describe their axes. `None`: all.
    pub variables: Option<&'a [String]>,
    /// `true`: compare the values of variables without the dimension.
    /// `false`: somebody else has compared them.
    pub compare: bool,
    /// The lengths of the sources when somebody else joined them. Others are an error.
    pub lens: Option<&'a [u64]>,
    /// Number of threads; `None`: as in the settings.
    pub threads: Option<usize>,
}

impl<'a> Joining<'a> {
    /// In the order given, with all variables.
    pub fn along(dimension: &'a str) -> Self {
        Joining { dimension, sort: false, variables: None, compare: true, lens: None, threads: None }
    }
}

/// Facts that joined nodes share.
#[derive(Debug)]
pub(crate) struct Joined {
    /// The variables by path.
    variables: HashMap<String, Variable>,
    sources: Arc<Sources>,
    /// The length of each source.
    lens: Vec<u64>,
    /// Things that a user wants to know.
    notes: Vec<(&'static str, String)>,
}

impl Joined {
    /// The variable of a joined array.
    pub(crate) fn variable(&self, path: &str) -> Option<&Variable> {
        self.variables.get(path)
    }

    /// Refuses a path for a copy that is one of the sources, inside of one, or around one.
    pub(crate) fn check_destination(&self, path: &Path) -> Result<()> {
        let target = resolve_links(path);
        for source in self.sources.origins().iter().map(|source| resolve_links(source)) {
            let why = if source == target {
                "it is one of the sources"
            } else if target.starts_with(&source) {
                "it lies inside one of the sources"
            } else if source.starts_with(&target) {
                "one of the sources lies inside it"
            } else {
                continue;
            };
            return Err(Error::Destination { path: path.to_owned(), why: why.to_owned() });
        }
        Ok(())
    }

    /// Things that a user wants to know, each with the array or source concerned.
    pub(crate) fn notes(&self) -> &[(&'static str, String)] {
        &self.notes
    }
}

const NOT_ASCENDING: &str =
    "the coordinate neither rises nor falls all the way; sorting the sources may help";
const FIRST_ATTRIBUTES: &str = "attributes as in the first source, others differ";

/// Work of opening a source, in bytes that could be moved meanwhile: enough for all threads.
const OPENING_WORK: u64 = 16 << 20;

/// Sources that are opened between two questions whether to stop. Opening 64 local files takes some
/// 50 ms.
const BATCH: usize = 64;

/// Joins sources along a dimension. All are groups, or all are arrays.
///
/// Fails with [`Error::Join`] if the sources do not fit together. The message names the source and
/// the variable. Variables with the dimension must have the same elements, other axes, packing,
/// fill value and units in all sources; variables without it must be equal. `ask` is called between
/// sources; if it returns `true`, this fails with [`Error::Interrupted`].
///
/// ```
/// use hyperslab::copy::{CopyOptions, JoinSource, Joining, concatenated, copy};
/// use hyperslab::prelude::*;
///
/// # fn main() -> Result<(), hyperslab::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let at = |name: &str| directory.path().join(name).display().to_string();
/// let mut sources = Vec::new();
/// for day in 0..3 {
///     let location = at(&format!("{day}.zarr"));
///     let mut spec = ArraySpec::new(Format::ZarrV3.zarr()?, &[2, 5], "<f4".parse()?);
///     spec.dimension_names = Some(vec![Some("time".into()), Some("lat".into())]);
///     let group = Group::create(&location, Format::ZarrV3)?;
///     group.create_array("sst", &spec)?.write_slice(&[], &[day as f32; 10])?;
///     sources.push(JoinSource::from(location.as_str()));
/// }
/// let joined = concatenated(&sources, Joining::along("time"), None)?;
/// copy(&joined, &at("all.zarr"), &CopyOptions::default())?;
///
/// let sst = Array::open(&at("all.zarr/sst"))?;
/// assert_eq!(sst.shape(), [6, 5]);
/// assert_eq!(sst.read_vec::<f32>(&[Index::ALL, Index::At(0)])?, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
/// # Ok(())
/// # }
/// ```
pub fn concatenated(sources: &[JoinSource], joining: Joining<'_>, ask: Option<Ask<'_>>) -> Result<Node> {
    let refuse = |why: String| Error::Join { dimension: joining.dimension.to_owned(), why };
    if sources.is_empty() {
        return Err(refuse("there is no source".into()));
    }
    let mut names = BTreeSet::new();
    for source in sources {
        if !names.insert(source.name()) {
            return Err(refuse(format!("{} is given twice", source.name())));
        }
    }
    let mut sources = sources.to_vec();
    if joining.sort {
        sources = coordinate::sorted(sources, joining, ask)?;
    }
    let sources = Arc::new(Sources::new(sources));
    let root = sources.open(0)?;
    let first = Facts::of(&root, joining).map_err(|error| compare::in_source(&refuse, &sources, 0, error))?;
    let first_values = compare::Values::default();
    let numbers: Vec<usize> = (0..sources.len()).collect();
    let compared = on_threads(numbers, joining.threads, ask, &|number| {
        let compared = match number {
            0 => Compared::of_first(&first, joining),
            _ => sources
                .open(number)
                .and_then(|root| Compared::with_first(&root, &first, &first_values, joining)),
        };
        compared.map_err(|error| compare::in_source(&refuse, &sources, number, error))
    })?;
    join(first, &root, sources, &compared, joining)
}

/// The places of joined sources in their order, and their lengths; nothing for other nodes.
pub fn joined_sources(node: &Node) -> Vec<(String, u64)> {
    let Some(joined) = node.as_joined() else { return Vec::new() };
    joined.lens.iter().enumerate().map(|(number, len)| (joined.sources.name(number), *len)).collect()
}

/// Calls `each` for every source, on several threads, and asks now and then whether to stop.
fn on_threads<P: Send, T: Send + Sync>(
    parts: Vec<P>,
    threads: Option<usize>,
    ask: Option<Ask<'_>>,
    each: &(dyn Fn(P) -> Result<T> + Sync),
) -> Result<Vec<T>> {
    let mut done = Vec::with_capacity(parts.len());
    let mut parts = parts.into_iter();
    loop {
        check(ask)?;
        let batch: Vec<P> = parts.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            return Ok(done);
        }
        let work = OPENING_WORK.saturating_mul(batch.len() as u64);
        done.extend(each_part(batch, work, threads, &|_, part| each(part))?);
    }
}

/// Builds the joined nodes.
fn join(
    first: Facts,
    root: &Node,
    sources: Arc<Sources>,
    compared: &[Compared],
    joining: Joining<'_>,
) -> Result<Node> {
    let refuse = |why: String| Error::Join { dimension: joining.dimension.to_owned(), why };
    for (number, (compared, len)) in compared.iter().zip(joining.lens.unwrap_or_default()).enumerate() {
        if compared.len != *len {
            return Err(refuse(format!(
                "{} has {} steps, and had {len} when the copy was planned",
                sources.name(number),
                compared.len
            )));
        }
    }
    let mut total = 0_u64;
    let mut starts = Vec::new();
    for compared in compared {
        starts.push(total);
        total = total
            .checked_add(compared.len)
            .filter(|total| *total <= i64::MAX as u64)
            .ok_or_else(|| refuse("all sources together are too long".into()))?;
    }
    let mut notes = Vec::new();
    let ends: Vec<Option<&Ends>> = compared.iter().map(|compared| compared.ends.as_ref()).collect();
    if let Some(number) = coordinate::first_turn(&ends) {
        notes.push((NOT_ASCENDING, format!("{} at {}", joining.dimension, sources.name(number))));
    }
    let differing: BTreeSet<&String> = compared.iter().flat_map(|compared| &compared.differing).collect();
    notes.extend(differing.into_iter().map(|text| (FIRST_ATTRIBUTES, text.clone())));

    let mut variables = HashMap::new();
    let mut shapes: Vec<Dims> = Vec::new();
    for array in &first.arrays {
        let mut variable = array.variable.clone();
        if let Some(len) = array.axis.and_then(|axis| variable.shape.get_mut(axis)) {
            *len = total;
        }
        shapes.push(variable.shape.clone());
        variables.insert(array.path.clone(), variable);
    }
    let lens = compared.iter().map(|compared| compared.len).collect();
    let joined = Arc::new(Joined { variables, sources, lens, notes });
    let mut arrays = Vec::new();
    for (number, (array, shape)) in first.arrays.into_iter().zip(shapes).enumerate() {
        let stored = compared.iter().filter_map(|compared| compared.stored.get(number));
        let bytes = match array.axis {
            Some(_) => stored.clone().fold((0, 0), |(n, bytes): (u64, u64), stored| {
                (n.saturating_add(stored.chunks.0), bytes.saturating_add(stored.chunks.1))
            }),
            None => stored.clone().map(|stored| stored.chunks).next().unwrap_or_default(),
        };
        let pieces = array.axis.map(|axis| {
            let pieces = stored.zip(&starts).enumerate().map(|(source, (stored, start))| JoinedPiece {
                source,
                start: *start,
                shape: stored.shape.clone(),
                retiming: stored.retiming.clone(),
            });
            (axis, pieces.collect::<Vec<_>>())
        });
        let path = array.path.clone();
        arrays.push((path, JoinedArray::new(&joined, array, shape, pieces, bytes)?));
    }
    match root {
        Node::Array(_) => {
            let (_, array) = arrays.pop().ok_or_else(|| refuse("the source has no elements".into()))?;
            Ok(Node::Array(Array::of_format(Arc::new(array))))
        }
        Node::Group(group) => Ok(Node::Group(Group::of_format(Arc::new(JoinedGroup::new(
            &joined,
            group.clone(),
            first.groups,
            arrays,
        ))))),
    }
}
