//! Copies to new NetCDF classic files.
//!
//! 1. Describe the source ([`described`]): dimensions, attributes, variables, and how their elements
//!    are stored. Refuse what the format cannot say before anything is written.
//! 2. Make the file under no name, with its header. All places are known from then on.
//! 3. Copy elements, by the same plans and threads as copies to Zarr. The engine writes them to their
//!    places.
//! 4. On request, compare every element and every attribute.
//! 5. Write the fill value to elements that nobody wrote, and give the file its name.

mod attributes;
mod cast;
mod described;
mod text;
mod variable;

use super::beyond_source;
use super::temporary::Beside;
use super::to_hdf5::{Place, Target};
use super::transfer::{Job, Transfer};
use super::{CopyOptions, CopyPlan, CopyReport, FileLayout, Order, Phase, Shards, inventory};
use crate::netcdf::{self, NetcdfError, Version};
use crate::{Error, Node, Result};
use described::Described;
use hyperslab_store::EditedFile;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// Copies an array or group to a new classic file.
pub(super) fn copy(
    source: &Node,
    origin: Option<&Path>,
    target: &Target<'_>,
    version: Version,
    options: &CopyOptions<'_>,
) -> Result<CopyReport> {
    check_options(options)?;
    let place = match target {
        Target::Local(path) => Place::prepare(path, origin, options.overwrite, options.fsync)?,
        Target::Far(location) => Place::prepare_far(location, options)?,
    };
    let mut left_out = BTreeMap::new();
    // A variable whose elements do not fit is found while it is copied. The file is made again
    // without it.
    loop {
        match copy_but(source, &place, version, options, &left_out) {
            Err(Failed::Variable(path, error)) if options.skip_unsupported && error.is_of_one() => {
                if left_out.insert(path, error.to_string()).is_some() {
                    return Err(*error);
                }
            }
            Err(Failed::Variable(_, error)) => return Err(error.of_one()),
            Err(Failed::Copy(error)) => return Err(*error),
            Ok(report) => return Ok(report),
        }
    }
}

/// The reason why a copy failed.
enum Failed {
    /// One variable, by its path in the source.
    Variable(String, Box<Error>),
    Copy(Box<Error>),
}

impl<E: Into<Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Failed::Copy(Box::new(error.into()))
    }
}

/// Refuses options that mean nothing for a classic file.
fn check_options(options: &CopyOptions<'_>) -> Result<()> {
    let refuse = |what: &str, why: &str| {
        Err(Error::Options(format!(
            "{what}: NetCDF classic files have {why}; leave it out, or choose netcdf4"
        )))
    };
    match options {
        CopyOptions { chunks: Some(_), .. } => refuse("chunks", "no chunks"),
        CopyOptions { shards: Shards::Auto | Shards::Shape(_), .. } => refuse("shards", "no shards"),
        CopyOptions { compressors: Some(given), .. } if !given.codecs(1)?.is_empty() => {
            refuse("compressors", "no compression")
        }
        CopyOptions { order: Some(Order::F), .. } => refuse("order", "elements in order C"),
        CopyOptions { layout: FileLayout::Cloud, .. } => refuse("layout", "one layout"),
        _ => Ok(()),
    }
}

fn copy_but(
    source: &Node,
    place: &Place,
    version: Version,
    options: &CopyOptions<'_>,
    left_out: &BTreeMap<String, String>,
) -> Result<CopyReport, Failed> {
    let start = Instant::now();
    let mut described = Described::of(source, version, options, left_out)?;
    let file = described.create(place.begin_final()?)?;
    let mut report = CopyReport {
        notes: inventory::list_notes(&described.notes),
        skipped: std::mem::take(&mut described.skipped),
        groups: u64::from(matches!(source, Node::Group(_))),
        arrays: described.variables.len() as u64,
        ..CopyReport::default()
    };
    let jobs = described.jobs(&file, options, &mut report.stored_before)?;
    report.bytes = jobs.iter().map(Job::bytes).fold(0, u64::saturating_add);
    let transfer = Transfer::new(&jobs, options.means(Some(Beside::new(&place.beside())?)))?;
    let failed_one = |job: &Job, error: Error| {
        let number = jobs.iter().position(|other| std::ptr::eq(other, job));
        let variable = number.and_then(|number| described.variables.get(number));
        (variable.map(|variable| variable.path.clone()), variable::elements_error(job, error))
    };
    let mut failed = None;
    let copied = transfer.run(Phase::Copy, report.bytes, &mut |job, error| {
        let (path, error) = failed_one(job, error);
        failed = path.filter(|_| error.is_of_one());
        Err(error)
    });
    copied.map_err(|error| match failed {
        Some(path) => Failed::Variable(path, Box::new(error)),
        None => Failed::Copy(Box::new(error)),
    })?;
    report.block_bytes = transfer.block_bytes();
    report.bytes = report.bytes.saturating_add(transfer.value_bytes());
    drop(transfer);
    let ask: &dyn Fn() -> bool = &|| options.stops();
    for job in &jobs {
        beyond_source::write_all(job, Some(ask))?;
    }
    report.stored_after = described.data_bytes();
    report.elapsed = start.elapsed();
    if options.verify {
        let start = Instant::now();
        verify(&described, &jobs, &file, options)?;
        report.verified = Some(start.elapsed());
    }
    options.check()?;
    place.finish(|| Ok(file.finish()?))?;
    Ok(report)
}

/// Plans how [`copy`] would copy each array.
pub(super) fn plan(
    source: &Node,
    target: &Target<'_>,
    version: Version,
    options: &CopyOptions<'_>,
) -> Result<Vec<(String, CopyPlan)>> {
    check_options(options)?;
    let temporary = std::env::temp_dir();
    let target = if let Target::Local(path) = target { path } else { &*temporary };
    let planned = || -> Result<_, Failed> {
        let described = Described::of(source, version, options, &BTreeMap::new())?;
        // Only the header exists: the elements would need memory.
        let file = described.create(EditedFile::spooled(crate::stores::spool()?, None, true))?;
        let jobs = described.jobs(&file, options, &mut 0)?;
        let plans = Transfer::new(&jobs, options.means(Some(Beside::new(target)?)))?.into_plans();
        Ok(jobs.iter().map(|job| job.name.clone()).zip(plans).collect())
    };
    planned().map_err(|failed| match failed {
        Failed::Variable(_, error) | Failed::Copy(error) => *error,
    })
}

/// Compares the file with the source and with its description.
fn verify(described: &Described, jobs: &[Job], file: &netcdf::File, options: &CopyOptions<'_>) -> Result<()> {
    let transfer = Transfer::new(jobs, options.means(None))?;
    transfer.run(Phase::Verify, jobs.iter().map(Job::bytes).sum(), &mut |_, error| Err(error))?;
    let found = netcdf::File::open(file.store().clone(), file.key())?;
    let new = &described.new;
    let differs = |array: &str, why: &str| Error::Copy {
        array: array.to_owned(),
        why: format!("the copy differs: {why}"),
    };
    if found.dimensions() != new.dimensions {
        return Err(differs("/", "it has other dimensions"));
    }
    if found.attributes() != new.attributes {
        return Err(differs("/", "an attribute has another value, or is lost"));
    }
    for expected in &new.variables {
        let name = format!("/{}", expected.name);
        match found.variable(&expected.name) {
            None => return Err(differs(&name, "it is lost")),
            Some(found) if found.attributes() != expected.attributes => {
                return Err(differs(&name, "an attribute has another value, or is lost"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

impl From<netcdf::NewFileError> for Error {
    fn from(error: netcdf::NewFileError) -> Self {
        match &error.variable {
            Some(name) => Error::Copy { array: format!("/{name}"), why: error.why },
            None => Error::Netcdf(NetcdfError::New(error)),
        }
    }
}
