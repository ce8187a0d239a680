//! Copies to new HDF5 files.
//!
//! 1. Describe the source as objects of the file. Refuse what HDF5 cannot say before anything is
//!    written: build all structures once, without the elements.
//! 2. Begin the file beside its place ([`place`]).
//! 3. Copy elements, by the same plans and threads as copies to Zarr. Encoded chunks go to the file
//!    block by block ([`target`]).
//! 4. Append the structures, then write the superblock.
//! 5. With the layout for servers, write another file of this one, with all metadata in front.
//! 6. On request, open the file and compare every element, and every attribute.
//! 7. Give the file its name.

mod attributes;
mod described;
mod filters;
mod from_hdf5;
mod from_nodes;
mod netcdf4;
mod netcdf_attributes;
mod new_array;
mod place;
mod read_back;
mod scales;
mod target;
mod unfinished;

pub use from_nodes::hdf5_type;
pub use new_array::attributes_of_json;
pub(crate) use new_array::describe_new;
pub(in crate::copy) use place::Place;
pub(crate) use scales::AXIS_LABELS;

use super::region::Window;
use super::temporary::Beside;
use super::transfer::{Job, OneFile, Transfer};
use super::{CopyOptions, CopyPlan, CopyReport, FileLayout, Phase, Region, inventory, path_text};
use crate::error::check;
use crate::{Array, Error, Node, Result};
use attributes::Numbers;
use described::{Described, Member};
use hyperslab_hdf5::new_file::{NewKind, NewObject, NewStorage, Structures, reserved};
use hyperslab_hdf5::{self as hdf5, Attribute};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;
use target::{NewArray, Wanted, Written};
use unfinished::in_front;

/// The number of threads that plans assume. The order of blocks, and with it the bytes of the file,
/// then does not depend on the number of threads.
const PLANNED_THREADS: usize = 16;

/// The name of a root array in its file.
const NAMELESS: &str = "data";

/// The place of a copy that becomes an HDF5 file.
#[derive(Debug)]
pub(super) enum Target<'t> {
    Local(&'t Path),
    /// The URL of a server.
    Far(&'t str),
}

/// Copies an array or group to a new HDF5 file.
pub(super) fn copy(
    source: &Node,
    origin: Option<&Path>,
    target: &Target<'_>,
    options: &CopyOptions<'_>,
) -> Result<CopyReport> {
    let start = Instant::now();
    let mut described = describe(source, options)?;
    let place = match target {
        Target::Local(path) => Place::prepare(path, origin, options.overwrite, options.fsync)?,
        Target::Far(location) => Place::prepare_far(location, options)?,
    };
    let end = Arc::new(AtomicU64::new(reserved(options.libver) as u64));
    let arrays = new_arrays(&described, &end)?;
    Structures::build(&described.objects, 0, options.libver)?;
    let mut report = CopyReport {
        notes: inventory::list_notes(&described.notes),
        skipped: std::mem::take(&mut described.skipped),
        groups: described.objects.iter().filter(|object| is_group(object)).count() as u64,
        arrays: described.arrays.len() as u64,
        ..CopyReport::default()
    };
    let (jobs, stored) = jobs(&described, &arrays, options)?;
    report.stored_before = stored;
    report.bytes = jobs.iter().map(Job::bytes).fold(0, u64::saturating_add);

    let is_draft = options.layout == FileLayout::Cloud;
    let file = RefCell::new(place.begin(is_draft)?);
    file.borrow_mut().append(&[&vec![0; reserved(options.libver)]])?;
    let written = RefCell::new(vec![Written::default(); jobs.len()]);
    let number = |job: &Job| jobs.iter().position(|other| std::ptr::eq(other, job));
    let settle = |job: &Job| -> Result<()> {
        let mut written = written.borrow_mut();
        let number = number(job).and_then(|number| Some((arrays.get(number)?, written.get_mut(number)?)));
        number.map_or(Ok(()), |(array, written)| array.settle(&mut **file.borrow_mut(), written))
    };
    let means = options.means(Some(Beside::new(&place.beside())?));
    let one_file = Some(OneFile { settle: &settle, threads: means.threads });
    let means = super::transfer::Means { threads: PLANNED_THREADS, one_file, ..means };
    let transfer = Transfer::new(&jobs, means)?;
    let mut left_out = BTreeSet::new();
    transfer.run(Phase::Copy, report.bytes, &mut |job, error| {
        let Some(number) = number(job).filter(|_| options.skip_unsupported && error.is_of_one()) else {
            return Err(error.of_one());
        };
        arrays.iter().skip(number).take(1).for_each(NewArray::discard);
        report.arrays -= 1;
        report.bytes = report.bytes.saturating_sub(job.bytes());
        report.skipped.push((job.name.clone(), error.to_string()));
        left_out.insert(number);
        Ok(())
    })?;
    report.block_bytes = transfer.block_bytes();
    report.bytes = report.bytes.saturating_add(transfer.value_bytes());
    drop(transfer);
    let mut file = file.into_inner();
    for (number, written) in written.borrow_mut().iter_mut().enumerate() {
        let (Some(array), Some(member)) = (arrays.get(number), described.arrays.get(number)) else {
            continue;
        };
        let (chunks, run) = array.finish(&mut *file, written)?;
        report.stored_after = report.stored_after.saturating_add(written.bytes);
        if let Some(NewKind::Dataset(dataset)) =
            described.objects.get_mut(member.object).map(|object| &mut object.kind)
        {
            match &mut dataset.storage {
                NewStorage::Chunked { chunks: place, .. } => *place = chunks,
                storage => *storage = NewStorage::Contiguous(run),
            }
        }
    }
    unlink(&mut described, &left_out);
    let mut structures = Structures::build(&described.objects, file.len(), options.libver)?;
    file.append(&[&structures.bytes])?;
    file.overwrite(0, &structures.superblock)?;
    if is_draft && let Some(draft) = read_back::open(&mut *file, &place.shown())? {
        let (last, addresses) =
            in_front(&draft, place.begin_final()?, &structures.addresses, &mut |_| !options.stops())?;
        (file, structures.addresses) = (Box::new(last), addresses);
    }
    report.elapsed = start.elapsed();
    if options.verify {
        let start = Instant::now();
        let url = place.shown();
        if let Some(copy) = read_back::open(&mut *file, &url)? {
            verify(&described, &jobs, &left_out, &structures, &copy, options)?;
        }
        report.verified = Some(start.elapsed());
    }
    options.check()?;
    place.commit(file)?;
    Ok(report)
}

/// Plans how [`copy`] would copy each array.
pub(super) fn plan(
    source: &Node,
    target: &Target<'_>,
    options: &CopyOptions<'_>,
) -> Result<Vec<(String, CopyPlan)>> {
    let temporary = std::env::temp_dir();
    let target = if let Target::Local(path) = target { path } else { &*temporary };
    let described = describe(source, options)?;
    let arrays = new_arrays(&described, &Arc::default())?;
    let (jobs, _) = jobs(&described, &arrays, options)?;
    let means = options.means(Some(Beside::new(target)?));
    let one_file = Some(OneFile { settle: &|_| Ok(()), threads: means.threads });
    let means = super::transfer::Means { threads: PLANNED_THREADS, one_file, ..means };
    let plans = Transfer::new(&jobs, means)?.into_plans();
    Ok(jobs.iter().map(|job| job.name.clone()).zip(plans).collect())
}

fn describe<'o>(source: &Node, options: &'o CopyOptions<'o>) -> Result<Described<'o>> {
    options.check_source(source)?;
    let name = source.path().rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(NAMELESS);
    let described = match source {
        Node::Group(group) => group.as_hdf5().map(|group| from_hdf5::group(group, options)),
        Node::Array(array) => array.as_hdf5().map(|array| from_hdf5::dataset(array, name, options)),
    };
    let mut described = described.unwrap_or_else(|| from_nodes::describe(source, name, options))?;
    if described.is_netcdf4() && described.is_hdf5 {
        from_hdf5::complete_netcdf4(&mut described, source)?;
    }
    check_ranks(&described, source)?;
    Ok(described)
}

/// Refuses chunks and regions that fit none of the arrays.
fn check_ranks(described: &Described<'_>, source: &Node) -> Result<()> {
    let options = described.options;
    if let Some(chunks) = &options.chunks
        && !described.arrays.iter().any(|member| member.array.shape().len() == chunks.len())
    {
        let rank = chunks.len();
        return Err(Error::Options(format!("chunks: {rank} sizes are given, but no array has {rank} axes")));
    }
    let names = described.arrays.iter().map(|member| member.array.dimension_names());
    let names = names.collect::<Result<Vec<_>>>()?;
    options.check_chunk_names(names.iter().map(Option::as_deref))?;
    let Some(region) = &options.region else { return Ok(()) };
    if let (Region::Axes(_), Node::Group(_)) = (region, source) {
        let why =
            "region: the arrays of a group may have other axes each; name dimensions instead (time=0:10)";
        return Err(Error::Options(why.into()));
    }
    match region.unknown_names(names.into_iter())?[..] {
        [] => Ok(()),
        [name, ..] => Err(Error::Options(format!("region: no array has a dimension named {name:?}"))),
    }
}

fn new_arrays(described: &Described<'_>, end: &Arc<AtomicU64>) -> Result<Vec<NewArray>> {
    let array = |member: &Member| {
        let object = described.objects.get(member.object);
        let Some(NewObject { path, kind: NewKind::Dataset(dataset), .. }) = object else {
            return Err(Error::Options("an array without its dataset".into()));
        };
        let chunk = match &dataset.storage {
            NewStorage::Chunked { chunk, .. } => Some(chunk.as_slice()),
            _ => None,
        };
        let wanted = Wanted {
            path,
            shape: &member.window.shape,
            dtype: member.dtype,
            vlen: member.vlen,
            chunk,
            filters: &dataset.filters,
            fill: member.fill.as_deref(),
        };
        NewArray::new(&wanted, end)
    };
    described.arrays.iter().map(array).collect()
}

/// The jobs, and the bytes of the source's chunks.
fn jobs(
    described: &Described<'_>,
    arrays: &[NewArray],
    options: &CopyOptions<'_>,
) -> Result<(Vec<Job>, u64)> {
    let mut before = 0_u64;
    let jobs = described.arrays.iter().zip(arrays).map(|(member, new)| {
        options.check()?;
        let (_, stored) = super::count_stored_objects(&member.array, Some(&|| options.stops()))?;
        before = before.saturating_add(stored);
        let path = described.objects.get(member.object).map_or("", |object| object.path.as_str());
        let target = new.array();
        Ok(Job::planned(path, &member.array, target, stored, &member.window))
    });
    let jobs = jobs.collect::<Result<Vec<Job>>>()?;
    Ok((jobs, before))
}

fn is_group(object: &NewObject) -> bool {
    matches!(object.kind, NewKind::Group { .. })
}

/// Removes the links to arrays that could not be copied. Their headers stay, with no name.
fn unlink(described: &mut Described<'_>, left_out: &BTreeSet<usize>) {
    let objects: BTreeSet<usize> = left_out
        .iter()
        .filter_map(|number| described.arrays.get(*number))
        .map(|member| member.object)
        .collect();
    for object in &mut described.objects {
        if let NewKind::Group { links, .. } = &mut object.kind {
            links.retain(|link| !matches!(link.target, hdf5::new_file::NewTarget::Object(number) if objects.contains(&number)));
        }
    }
}

/// Compares the finished file with the source and with its description.
fn verify(
    described: &Described<'_>,
    jobs: &[Job],
    left_out: &BTreeSet<usize>,
    structures: &Structures,
    copy: &hdf5::File,
    options: &CopyOptions<'_>,
) -> Result<()> {
    let mut compared = Vec::new();
    for (number, (job, member)) in jobs.iter().zip(&described.arrays).enumerate() {
        options.check()?;
        if left_out.contains(&number) {
            continue;
        }
        let target = open_copy(copy, structures, member.object, &job.name)?;
        let window = Window { to: job.window.to.clone(), ..job.window.clone() };
        compared.push(Job::planned(&job.name[1..], &job.source, target, job.stored, &window));
    }
    let transfer = Transfer::new(&compared, options.means(None))?;
    transfer.run(Phase::Verify, compared.iter().map(Job::bytes).sum(), &mut |_, error| Err(error))?;
    let numbers: Numbers = structures.addresses.iter().copied().zip(0..).collect();
    for (object, address) in described.objects.iter().zip(&structures.addresses) {
        check(Some(&|| options.stops()))?;
        let found = match copy.object_at(*address, &object.path)? {
            hdf5::Node::Group(group) => group.attributes()?,
            hdf5::Node::Dataset(dataset) => dataset.attributes()?,
            hdf5::Node::Datatype(datatype) => datatype.attributes,
        };
        verify_attributes(object, &found, &numbers)?;
    }
    Ok(())
}

fn open_copy(copy: &hdf5::File, structures: &Structures, object: usize, name: &str) -> Result<Array> {
    let missing = || Error::Copy { array: name.to_owned(), why: "it is no dataset in the copy".into() };
    let address = structures.addresses.get(object).ok_or_else(missing)?;
    match copy.object_at(*address, name)? {
        hdf5::Node::Dataset(dataset) => Array::try_from(dataset),
        _ => Err(missing()),
    }
}

fn verify_attributes(object: &NewObject, found: &[Attribute], numbers: &Numbers) -> Result<()> {
    let differs = |why: String| {
        let why = format!("the copy differs: {why}");
        Error::Copy { array: path_text(&object.path), why }
    };
    if found.len() != object.attributes.len() {
        let (found, expected) = (found.len(), object.attributes.len());
        return Err(differs(format!("it has {found} attributes, expected {expected}")));
    }
    for expected in &object.attributes {
        let found = found.iter().find(|found| found.name == expected.name);
        let found = found.map(|found| attributes::of_hdf5(found, numbers)).transpose()?.flatten();
        let is_same = found.is_some_and(|found| {
            (&found.datatype, &found.dataspace) == (&expected.datatype, &expected.dataspace)
                && attributes::same_values(&found.value, &expected.value)
        });
        if !is_same {
            return Err(differs(format!("attribute {:?} has another value, or is lost", expected.name)));
        }
    }
    Ok(())
}
