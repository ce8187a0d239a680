//! Compares two arrays, groups or files, of any formats.
//!
//! 1. All nodes of both are opened (`tree`), and paired by their paths.
//! 2. Metadata are compared as programs see them (`metadata`): by the description in
//!    [`crate::meaning`].
//! 3. Elements are compared block by block (`values`), on all threads. Blocks have whole chunks of
//!    both arrays (`blocks`). Chunks with equal stored bytes are not decoded (`stored`). Numbers are
//!    compared as they are stored, or by what they represent (`numbers`); all others as values of the
//!    report (`side`).
//! 4. The differences of all blocks are joined (`tally`), and get coordinates (`coordinates`).
//!
//! `text` shows the report to people, and `picture` the first slice that differs.

mod blocks;
mod coordinates;
mod metadata;
mod numbers;
mod picture;
mod report;
mod shown;
mod side;
mod stored;
mod tally;
mod text;
mod tree;
mod values;

use crate::copy::{Phase, Progress};
use crate::error::check;
use crate::nodes::info::array_bytes;
use crate::{Array, Error, Node, Result, Variable};
use metadata::Collector;
pub(crate) use shown::Shown;
use side::Side;
use tally::{Most, Rules, Tally};
use tree::{Member, Tree};
use values::Means;

pub use picture::picture;
pub use report::{ArrayDifference, Aspect, Difference, Element, Finding, Largest};

/// Options of [`diff`].
#[derive(Clone)]
pub struct DiffOptions<'a> {
    /// Numbers are equal if `|a - b| <= atol + rtol * |b|`, as in NumPy.
    pub rtol: f64,
    /// See [`DiffOptions::rtol`].
    pub atol: f64,
    /// Numbers are also equal if they are at most this number of units in the last place apart.
    pub ulp: u64,
    /// NaN equals NaN, and a missing element.
    pub equal_nan: bool,
    /// Compares stored numbers. `false`: the numbers that they represent, by the attributes
    /// `scale_factor`, `add_offset`, `_FillValue`, `missing_value`, `_Unsigned` and `units`.
    pub raw: bool,
    /// Also compares how elements are stored: chunks, shards, codecs.
    pub layout: bool,
    /// Compares elements. `false`: only members and metadata.
    pub values: bool,
    /// Stops at the first difference.
    pub brief: bool,
    /// The most differing elements to list for each array.
    pub first: usize,
    /// Number of threads; `None`: from the settings.
    pub threads: Option<usize>,
    /// Receives the bytes of compared elements of the first array, on the calling thread, and can
    /// stop the comparison.
    pub progress: Option<&'a dyn Progress>,
}

impl Default for DiffOptions<'_> {
    fn default() -> Self {
        DiffOptions {
            rtol: 0.0,
            atol: 0.0,
            ulp: 0,
            equal_nan: true,
            raw: false,
            layout: false,
            values: true,
            brief: false,
            first: 5,
            threads: None,
            progress: None,
        }
    }
}

/// Compares two arrays, or two groups with everything below them.
///
/// [`Difference::failures`] lists nodes that cannot be read; the rest is compared. If shapes differ, the
/// common part is compared. Fails with [`Error::Options`] if a tolerance is negative or not a
/// number, and with [`Error::Interrupted`] if [`Progress::cancelled`] returns `true`.
///
/// ```
/// use hyperslab::prelude::*;
/// use hyperslab::diff::{DiffOptions, diff};
///
/// # fn main() -> Result<(), hyperslab::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let location = |name: &str| directory.path().join(name).display().to_string();
/// let spec = ArraySpec::new(Format::ZarrV3.zarr()?, &[4], "<f4".parse()?);
/// let (a, b) = (Array::create(&location("a"), &spec)?, Array::create(&location("b"), &spec)?);
/// a.write_slice(&[], &[1.0_f32, 2.0, 3.0, f32::NAN])?;
/// b.write_slice(&[], &[1.0_f32, 2.5, 3.0, f32::NAN])?;
///
/// let found = diff(&Node::Array(a), &Node::Array(b), &DiffOptions::default())?;
/// let array = &found.arrays[0];
/// assert_eq!((array.compared, array.different, &array.first[0].index[..]), (4, 1, &[1][..]));
/// assert_eq!(array.largest_absolute.as_ref().unwrap().value, 0.5);
/// # Ok(())
/// # }
/// ```
pub fn diff(a: &Node, b: &Node, options: &DiffOptions<'_>) -> Result<Difference> {
    for (name, value) in [("rtol", options.rtol), ("atol", options.atol)] {
        if value.is_nan() || value < 0.0 {
            return Err(Error::Options(format!(
                "{name}: expected a number that is not negative, found {value}"
            )));
        }
    }
    let cancelled = || options.progress.is_some_and(Progress::cancelled);
    let trees = [Tree::of(a, Some(&cancelled))?, Tree::of(b, Some(&cancelled))?];
    let mut job = Comparing { options, trees: [&trees[0], &trees[1]], found: Difference::default() };
    job.found.failures.extend(trees.iter().flat_map(|tree| tree.failures.iter().cloned()));
    job.run()?;
    let mut found = job.found;
    found.findings.sort_by(|one, other| one.path.cmp(&other.path));
    found.failures.sort();
    found.failures.dedup();
    Ok(found)
}

/// An array of both trees.
struct Pair<'t> {
    path: &'t str,
    arrays: [(&'t Array, &'t Variable); 2],
}

struct Comparing<'t, 'o> {
    options: &'o DiffOptions<'o>,
    trees: [&'t Tree; 2],
    found: Difference,
}

impl<'t> Comparing<'t, '_> {
    fn run(&mut self) -> Result<()> {
        let cancelled = || self.options.progress.is_some_and(Progress::cancelled);
        let pairs = self.members();
        let mut sides = Vec::new();
        for pair in &pairs {
            check(Some(&cancelled))?;
            if self.stops() {
                return Ok(());
            }
            match self.metadata(pair) {
                Ok(Some(both)) => sides.push((pair, both)),
                Ok(None) => {}
                Err(error) => self.fail(pair.path, error)?,
            }
        }
        if self.stops() || !self.options.values {
            return Ok(());
        }
        if let Some(progress) = self.options.progress {
            let bytes = |pair: &Pair<'_>| array_bytes(pair.arrays[0].0);
            progress.begin(
                Phase::Verify,
                sides.iter().fold(0, |sum: u64, (pair, _)| sum.saturating_add(bytes(pair))),
            );
        }
        for (pair, [mut a, mut b]) in sides {
            if let Some(progress) = self.options.progress {
                progress.array(pair.path);
            }
            if let Err(error) = self.values(pair, &mut a, &mut b) {
                self.fail(pair.path, error)?;
            }
            if self.stops() {
                break;
            }
        }
        Ok(())
    }

    /// Returns `true`, and says so, if a difference was found and that is enough.
    fn stops(&mut self) -> bool {
        let stops = self.options.brief && !self.found.is_empty();
        self.found.stopped |= stops;
        stops
    }

    fn fail(&mut self, path: &str, error: Error) -> Result<()> {
        if error.is_interruption() {
            return Err(Error::Interrupted);
        }
        self.found.failures.push((path.to_owned(), chain(&error)));
        Ok(())
    }

    /// Compares which members there are, and the attributes of groups. Returns the arrays of both.
    fn members(&mut self) -> Vec<Pair<'t>> {
        let [a, b] = self.trees;
        let mut pairs = Vec::new();
        let mut paths: Vec<&String> = a.members.keys().chain(b.members.keys()).collect();
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            let mut collector = Collector { path, findings: &mut self.found.findings };
            match (a.members.get(path), b.members.get(path)) {
                (Some(Member::Array(own)), Some(Member::Array(its))) => {
                    pairs.push(Pair { path, arrays: [(&own.0, &own.1), (&its.0, &its.1)] });
                }
                (Some(Member::Group(own)), Some(Member::Group(its))) => collector.attributes(own, its),
                (Some(Member::Datatype(own)), Some(Member::Datatype(its)))
                | (Some(Member::Link(own)), Some(Member::Link(its)))
                    if own == its => {}
                (Some(Member::Datatype(own)), Some(Member::Datatype(its)))
                | (Some(Member::Link(own)), Some(Member::Link(its))) => {
                    let aspect = Aspect::Kind;
                    collector.add(aspect, None, Some(own.as_str().into()), Some(its.as_str().into()));
                }
                (Some(own), Some(its)) => {
                    collector.add(Aspect::Kind, None, Some(own.kind().into()), Some(its.kind().into()));
                }
                (Some(own), None) if b.lacks(path, own) => {
                    collector.add(Aspect::Member, None, Some(own.kind().into()), None);
                }
                (None, Some(its)) if a.lacks(path, its) => {
                    collector.add(Aspect::Member, None, None, Some(its.kind().into()));
                }
                _ => {}
            }
        }
        pairs
    }

    /// Compares the metadata of two arrays. `None`: their elements cannot be compared.
    fn metadata(&mut self, pair: &Pair<'t>) -> Result<Option<[Side<'t>; 2]>> {
        let [(a, own), (b, its)] = pair.arrays;
        let a = Side::new(a, own.clone(), self.options.raw)?;
        let b = Side::new(b, its.clone(), self.options.raw)?;
        let mut collector = Collector { path: pair.path, findings: &mut self.found.findings };
        collector.arrays(&a, &b, self.options.layout)?;
        let unreadable: Vec<&str> =
            own.unreadable.iter().chain(&its.unreadable).map(String::as_str).collect();
        if !unreadable.is_empty() {
            let why = format!("attributes that cannot be read: {}", unreadable.join(", "));
            self.found.failures.push((pair.path.to_owned(), why));
        }
        let has_elements = !a.array.has_no_shape() && !b.array.has_no_shape();
        let is_comparable = has_elements && own.shape.len() == its.shape.len();
        Ok(is_comparable.then_some([a, b]))
    }

    fn values(&mut self, pair: &Pair<'t>, a: &mut Side<'t>, b: &mut Side<'t>) -> Result<()> {
        let options = self.options;
        let rules = Rules {
            rtol: options.rtol,
            atol: options.atol,
            ulp: options.ulp,
            equal_nan: options.equal_nan,
            most: if options.brief { 1 } else { options.first },
        };
        let (threads, progress) = (values::threads(options.threads), options.progress);
        let means = Means { rules, threads, brief: options.brief, progress };
        let tally = match values::compare(a, b, &means)? {
            Some(tally) => tally,
            // Elements of such types are never equal.
            None => {
                let lens = a.variable.shape.iter().zip(&b.variable.shape).map(|(own, its)| *own.min(its));
                let count = lens.fold(1, u64::saturating_mul);
                Tally { compared: count, different: count, ..Tally::default() }
            }
        };
        self.found.compared += 1;
        self.found.chunks_skipped += tally.skipped;
        self.found.chunks_decoded += tally.decoded;
        if tally.different > 0 {
            let mut found = array_difference(pair, a, tally);
            if let Err(error) = coordinates::add(&mut found, self.trees) {
                self.fail(pair.path, error)?;
            }
            self.found.arrays.push(found);
        }
        Ok(())
    }
}

impl Tree {
    /// Returns `true` if a member of the other tree is missing here, where it could be.
    fn lacks(&self, path: &str, member: &Member) -> bool {
        let is_possible = !matches!(member, Member::Datatype(_)) || self.has_datatypes();
        is_possible && !self.failures.iter().any(|(failed, _)| failed == path)
    }
}

fn array_difference(pair: &Pair<'_>, a: &Side<'_>, tally: Tally) -> ArrayDifference {
    let largest = |most: Option<Most>| most.map(|Most { value, at }| Largest { value, at });
    let unit = match &a.elements {
        side::Elements::Numbers(numbers) => numbers.time_unit().map(str::to_owned),
        _ => None,
    };
    let named = |(_, variable): &(&Array, &Variable)| variable.dimension_names.clone();
    ArrayDifference {
        path: pair.path.to_owned(),
        compared: tally.compared,
        different: tally.different,
        missing: tally.missing,
        rms: tally.rms(),
        largest_absolute: largest(tally.absolute),
        largest_relative: largest(tally.relative),
        unit,
        dimensions: pair.arrays.iter().find_map(named).unwrap_or_default(),
        first: tally.first,
    }
}

/// An error and its causes.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
