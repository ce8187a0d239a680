//! Is a store whole? Finds damage, losses, leftovers and contradictions, and names them.
//!
//! 1. Structure: documents and keys of Zarr hierarchies (`stored`), indexes of shards (`shards`),
//!    structures of HDF5 and NetCDF files (`files`).
//! 2. Conventions of CF and NetCDF (`conventions`).
//! 3. Absent chunks (`absent`): counted, listed, drawn. Nothing is decoded for that.
//! 4. Every stored chunk is decoded (`decode`).
//!
//! A fault never ends the validation: it becomes a [`Finding`], and everything else is looked at. A
//! fault is named once, by the first check that finds it.

mod absent;
mod blame;
mod conventions;
mod cost;
mod decode;
mod files;
mod finding;
mod journal;
mod parts;
mod picture;
mod plan;
mod report;
mod shards;
mod stored;
#[cfg(test)]
mod tests;

pub use absent::{ChunkMap, MissingChunks};
pub(crate) use blame::Blame;
pub use cost::{Estimate, explain};
pub use finding::{Finding, Kind, Level, Severity};
#[cfg(fuzzing)]
pub(crate) use journal::parse as parse_journal;
pub use picture::picture;
pub use plan::{Decoded, Part, Plan, decode_part, join, plan};
pub use report::{Looked, Report};

use crate::copy::{Phase, Progress};
use crate::nodes::info::array_bytes;
use crate::open::{Location, Mode, Place};
use crate::stores::StoreOptions;
use crate::{Array, Dims, Error, Group, Node, Result, settings, with_causes};
use absent::StoredChunks;
use finding::Findings;
use hyperslab_store::Ask;
use journal::Journal;
use std::path::Path;

/// A thing to validate.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A path or URL.
    Location(String),
    /// A URL, with credentials and settings of its server ([`StoreOptions::storage`]).
    Remote(String, Vec<(String, String)>),
    /// A place in a store or file, and its name in the report.
    Place(String, Place),
    /// An open node, and its name in the report.
    Node(String, Node),
}

impl Subject {
    /// The name in the report.
    pub fn name(&self) -> &str {
        match self {
            Subject::Location(name)
            | Subject::Remote(name, _)
            | Subject::Place(name, _)
            | Subject::Node(name, _) => name,
        }
    }

    /// The place of the subject. The error of a damaged file is one.
    fn place(&self) -> Result<Place> {
        let reach = |location, storage| {
            let options = StoreOptions { storage, ..StoreOptions::default() };
            Place::reach(Location::Text(location), Some(Mode::Read), options)
        };
        match self {
            Subject::Location(location) => reach(location, &[]),
            Subject::Remote(location, storage) => reach(location, storage),
            Subject::Place(_, place) => Ok(place.clone()),
            Subject::Node(_, node) => Ok(match node.file() {
                Some(file) => Place::in_file(file, node.path()),
                None => Place::in_store(node.store().clone(), node.path(), true),
            }),
        }
    }
}

/// Options of [`validate`].
#[derive(Clone, Copy, Default)]
pub struct ValidateOptions<'a> {
    /// Decode every stored chunk, and verify all checksums.
    pub decode: bool,
    /// Count and list absent chunks.
    pub missing: bool,
    /// Absent chunks are findings. Implies `missing`.
    pub expect_complete: bool,
    /// Keep large maps of absent chunks, for [`picture`].
    pub picture: bool,
    /// Leave out the conventions of CF and NetCDF.
    pub no_conventions: bool,
    /// A journal of decoded parts. Parts that are in it and have not changed are not decoded again. Only
    /// with `decode`.
    pub resume: Option<&'a Path>,
    /// Number of threads; `None`: from the settings.
    pub threads: Option<usize>,
    /// Receives the bytes of decoded elements, on the calling thread, and can stop the work.
    pub progress: Option<&'a dyn Progress>,
}

/// An array that was opened.
pub(crate) struct Visited {
    pub path: String,
    pub array: Array,
    /// The places of its stored objects (chunks or shards). `None`: unknown, any may be stored.
    pub stored: Option<Vec<Dims>>,
}

/// Validates stores and files, with everything in them.
///
/// Locations that do not exist, or cannot be reached, are in [`Report::unreached`]. Fails with
/// [`Error::Interrupted`] if [`Progress::cancelled`] returns `true`, with [`Error::Io`] if the journal
/// cannot be read or written, and with [`Error::Options`] for a journal without decoding.
///
/// ```
/// use hyperslab::prelude::*;
/// use hyperslab::validate::{Kind, Subject, ValidateOptions, validate};
///
/// # fn main() -> Result<(), hyperslab::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let location = directory.path().join("ocean.zarr").display().to_string();
/// let mut spec = ArraySpec::new(Format::ZarrV3.zarr()?, &[4], "<f4".parse()?);
/// spec.chunks = Some([2].as_slice().into());
/// let array = Array::create(&location, &spec)?;
/// array.write_slice(&[], &[1.0_f32; 4])?;
/// std::fs::write(format!("{location}/c/1"), b"no chunk").unwrap();
///
/// let options = ValidateOptions { decode: true, ..Default::default() };
/// let report = validate(&[Subject::Location(location)], &options)?;
/// let [finding] = report.findings.as_slice() else { panic!("{report:?}") };
/// assert_eq!((finding.kind, finding.chunk.as_deref()), (Kind::Damaged, Some(&[1][..])));
/// # Ok(())
/// # }
/// ```
pub fn validate(subjects: &[Subject], options: &ValidateOptions<'_>) -> Result<Report> {
    if options.resume.is_some() && !options.decode {
        let why =
            "a journal holds decoded parts, and nothing is decoded. Ask for decoding, too, or for no journal";
        return Err(Error::Options(format!("validate: {why}")));
    }
    let mut journal = options.resume.map(Journal::open).transpose()?;
    validate_with(subjects, options, &mut |_, visited, threads, findings| {
        if !options.decode {
            return Ok(0);
        }
        if let Some(journal) = &mut journal {
            journal.set_location(&findings.location);
        }
        decode_all(visited, threads, findings, options.progress, journal.as_mut())
    })
}

/// Handles the chunks of a subject's arrays. Gets the number of the subject, its arrays and the number of
/// threads. Returns the bytes of decoded elements.
type Chunks<'c> = dyn FnMut(usize, &[Visited], usize, &Findings) -> Result<u64> + 'c;

fn validate_with(
    subjects: &[Subject],
    options: &ValidateOptions<'_>,
    chunks: &mut Chunks<'_>,
) -> Result<Report> {
    let mut report = Report::default();
    for (number, subject) in subjects.iter().enumerate() {
        let findings = Findings::new(subject.name());
        let looked = Looked { location: subject.name().to_owned(), ..Looked::default() };
        let mut chunks = |visited: &[Visited], threads| chunks(number, visited, threads, &findings);
        match look(subject, options, &findings, looked, &mut chunks) {
            Ok(looked) => report.looked.push(looked),
            Err(error) if error.is_interruption() => return Err(Error::Interrupted),
            // The journal, which is nothing that was validated.
            Err(error @ Error::Io { .. }) => return Err(error),
            Err(error) => match files::of_opening(&findings, &error)? {
                Some(finding) => {
                    findings.put(finding);
                    let location = subject.name().to_owned();
                    report.looked.push(Looked { location, ..Looked::default() });
                }
                None => report.unreached.push((subject.name().to_owned(), with_causes(&error))),
            },
        }
        let (found, omitted) = findings.take();
        report.findings.extend(found);
        report.omitted = report.omitted.saturating_add(omitted);
    }
    Ok(report)
}

/// The arrays and groups at a place.
struct Contents {
    arrays: Vec<Visited>,
    groups: Vec<(String, Group)>,
}

fn look(
    subject: &Subject,
    options: &ValidateOptions<'_>,
    findings: &Findings,
    mut looked: Looked,
    decode: &mut dyn FnMut(&[Visited], usize) -> Result<u64>,
) -> Result<Looked> {
    let ask = || options.progress.is_some_and(Progress::cancelled);
    let threads = options.threads.filter(|n| *n > 0).unwrap_or_else(settings::threads);
    let place = subject.place()?;
    let mut contents = contents(&place, threads, findings, &ask, &mut looked)?;
    looked.arrays = contents.arrays.len() as u64;
    looked.groups = contents.groups.len() as u64;
    let missing = options.missing || options.expect_complete;
    for visited in &mut contents.arrays {
        if ask() {
            return Err(Error::Interrupted);
        }
        let found = chunks(visited, (missing, options.picture), threads, findings, &ask)?;
        if let Some(found) = found {
            if options.expect_complete && found.absent > 0 {
                let first = found.first.first().map(|chunk| format!("; the first is {chunk:?}"));
                let (absent, total, unit) = (found.absent, found.total, found.unit);
                let what = format!("{absent} of {total} {unit}s are absent{}", first.unwrap_or_default());
                findings.add(Severity::Error, Level::Missing, Kind::Absent, &visited.path, what);
            }
            looked.missing.push(found);
        }
    }
    if !options.no_conventions {
        conventions::check(&contents.arrays, &contents.groups, findings, &ask)?;
    }
    looked.decoded = decode(&contents.arrays, threads)?;
    Ok(looked)
}

/// Decodes all arrays of a subject.
fn decode_all(
    arrays: &[Visited],
    threads: usize,
    findings: &Findings,
    progress: Option<&dyn Progress>,
    mut journal: Option<&mut Journal>,
) -> Result<u64> {
    let bytes = arrays.iter().map(|visited| array_bytes(&visited.array));
    let total = bytes.fold(0, u64::saturating_add);
    if let Some(progress) = progress {
        progress.begin(Phase::Verify, total);
    }
    let mut decoded = 0_u64;
    for Visited { path, array, stored } in arrays.iter().filter(|visited| is_readable(&visited.array)) {
        if let Some(progress) = progress {
            progress.array(path);
        }
        let stored = stored.as_deref();
        let bytes = decode::decode(array, path, stored, threads, findings, progress, journal.as_deref_mut())?;
        decoded = decoded.saturating_add(bytes);
    }
    Ok(decoded)
}

/// `false`: the structures of its file have told why it cannot be read.
fn is_readable(array: &Array) -> bool {
    array.hdf5().is_none_or(|array| array.problem().is_none())
}

/// Opens everything at a place, and checks documents, keys and structures.
fn contents(
    place: &Place,
    threads: usize,
    findings: &Findings,
    ask: Ask<'_>,
    looked: &mut Looked,
) -> Result<Contents> {
    if let Some(file) = &place.file {
        looked.format = files::format_name(file).to_owned();
        let found = files::look(file, &place.path, findings, ask)?;
        (looked.objects, looked.bytes) = (found.objects, found.bytes);
        return Ok(Contents { arrays: found.arrays, groups: found.groups });
    }
    let found = match place.store.facts().lists {
        true => stored::look(place, threads, findings, ask)?,
        false => stored::look_unlisted(place, findings, ask)?,
    };
    let Some(found) = found else {
        // A path may lead into a file of the store. The error names the missing node.
        let opening = crate::open::Opening { mode: Some(Mode::Read), ..Default::default() };
        let opened = crate::open::open_in(place.clone(), &opening)?.place;
        return match opened.file {
            Some(_) => contents(&opened, threads, findings, ask, looked),
            None => Err(Error::Missing {
                kind: None,
                why: format!("there is no array or group at '{}' in {}", place.path, place.url()),
                below: Vec::new(),
            }),
        };
    };
    looked.format = found.formats.into_iter().collect::<Vec<_>>().join(", ");
    (looked.objects, looked.bytes) = (found.objects, found.bytes);
    Ok(Contents { arrays: found.arrays, groups: found.groups })
}

/// Inspects the shards of an array, and finds its absent chunks if they are wanted.
fn chunks(
    visited: &mut Visited,
    (missing, picture): (bool, bool),
    threads: usize,
    findings: &Findings,
    ask: Ask<'_>,
) -> Result<Option<MissingChunks>> {
    let Visited { path, array, stored } = visited;
    let layout = array.layout();
    let inspected = shards::can_inspect(array);
    let mut inner = (missing && inspected && shards::tells_chunks(array))
        .then(|| StoredChunks::new(&layout.grid().counts(layout.shape())));
    let Some(places) = stored.as_deref() else { return Ok(None) };
    if inspected {
        shards::inspect(array, path, places, threads, findings, inner.as_mut(), ask)?;
    }
    if !missing {
        return Ok(None);
    }
    Ok(Some(match inner {
        Some(inner) => inner.finish(path, "chunk", picture),
        None => {
            let unit = if layout.sharding().is_some() { "shard" } else { "chunk" };
            let counts = layout.object_grid().counts(layout.shape());
            absent::of_objects(&counts, places).finish(path, unit, picture)
        }
    }))
}
