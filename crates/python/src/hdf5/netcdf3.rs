//! NetCDF classic files that are made or changed.

use crate::errors::{self, OrRaise};
use crate::stores::store::{StoreHandle, prepare_files};
use hyperslab::copy::FileFormat;
use hyperslab::netcdf::{Attribute, Dimension, External, File, NewFile, NewVariable};
use hyperslab::store::{EditedFile, EditedOptions};
use hyperslab::{DataFile, DataType, Error, stores};
use pyo3::prelude::*;
use std::path::PathBuf;

/// An attribute: its name, the NumPy type of its elements, and their bytes.
type NewAttribute = (String, String, Vec<u8>);

/// A variable: its name, the NumPy type of its elements, the numbers of its dimensions, its attributes.
type Variable = (String, String, Vec<usize>, Vec<NewAttribute>);

/// Format, dimensions, attributes, variables.
type Header = (&'static str, Vec<(String, u64, bool)>, Vec<NewAttribute>, Vec<Variable>);

/// The type with these elements.
fn external(dtype: &str) -> Result<External, String> {
    let found: DataType = dtype.parse()?;
    External::of_elements(found)
        .ok_or_else(|| format!("NetCDF classic files have no elements of type {dtype}"))
}

fn attributes(given: Vec<NewAttribute>) -> Result<Vec<Attribute>, String> {
    let attribute = |(name, dtype, bytes): NewAttribute| {
        let external = external(&dtype).map_err(|why| format!("attribute {name:?}: {why}"))?;
        Ok(Attribute { name, external, bytes })
    };
    given.into_iter().map(attribute).collect()
}

/// Makes a new classic file. It gets its name when it is flushed or finished.
///
/// ``path``: a local file; ``replaces``: it may take the place of another one. ``far``: the URL of a
/// server and its options. Without both: a file in memory. ``dimensions``: name, length (of the unlimited
/// one: records), is unlimited. ``variables``: name, type, numbers of dimensions, attributes. The bytes of
/// attributes are big-endian.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub(crate) fn create_netcdf3(
    py: Python<'_>,
    path: Option<PathBuf>,
    far: Option<(String, Vec<(String, String)>)>,
    replaces: bool,
    fsync: bool,
    version: &str,
    dimensions: Vec<(String, u64, bool)>,
    attributes: Vec<NewAttribute>,
    variables: Vec<Variable>,
) -> PyResult<StoreHandle> {
    prepare_files();
    let invalid = |why: String| errors::invalid(py, why);
    let FileFormat::Netcdf3(version) = version.parse().map_err(invalid)? else {
        return Err(invalid(format!("expected a NetCDF classic format, found {version:?}")));
    };
    let variable = |(name, dtype, dimensions, attributes): Variable| {
        let of = |why: String| format!("variable {name:?}: {why}");
        let external = external(&dtype).map_err(of)?;
        let attributes = self::attributes(attributes).map_err(of)?;
        Ok(NewVariable { name, dimensions, attributes, external })
    };
    let new = NewFile {
        version,
        dimensions: dimensions
            .into_iter()
            .map(|(name, len, unlimited)| Dimension { name, len, unlimited })
            .collect(),
        attributes: self::attributes(attributes).map_err(invalid)?,
        variables: variables.into_iter().map(variable).collect::<Result<_, String>>().map_err(invalid)?,
    };
    let work = || -> hyperslab::Result<DataFile> {
        // Refused before a file is made.
        new.build()?;
        let bytes = match (path, far) {
            (Some(path), _) => EditedFile::create(&path, replaces, options(fsync))?,
            (None, Some((url, storage))) => {
                let to = stores::new_object(&url, &storage, !replaces)?.1;
                EditedFile::spooled(stores::spool()?, Some(to), false)
            }
            (None, None) => EditedFile::memory(Vec::new()),
        };
        DataFile::create_netcdf3(bytes, &new)
    };
    py.detach(work).or_raise(py).map(StoreHandle::of_file)
}

/// Opens a classic file to change its elements and to add records. ``None``: there is no file.
#[pyfunction]
pub(crate) fn edit_netcdf3(py: Python<'_>, path: PathBuf, fsync: bool) -> PyResult<Option<StoreHandle>> {
    prepare_files();
    let work = || -> hyperslab::Result<Option<DataFile>> {
        let Some(bytes) = EditedFile::open(&path, options(fsync))? else { return Ok(None) };
        DataFile::edit_netcdf3(bytes).map(Some)
    };
    Ok(py.detach(work).or_raise(py)?.map(StoreHandle::of_file))
}

/// The file with this many records.
#[pyfunction]
pub(crate) fn netcdf3_with_records(
    py: Python<'_>,
    file: &StoreHandle,
    records: u64,
) -> PyResult<StoreHandle> {
    let file = data_file(py, file)?.clone();
    let work = || -> hyperslab::Result<DataFile> { Ok(classic(&file)?.with_records(records)?.into()) };
    py.detach(work).or_raise(py).map(StoreHandle::of_file)
}

/// Makes the changes of a classic file permanent. ``ends``: also closes it.
#[pyfunction]
pub(crate) fn flush_netcdf3(py: Python<'_>, file: &StoreHandle, ends: bool) -> PyResult<()> {
    let file = data_file(py, file)?.clone();
    py.detach(|| if ends { file.finish() } else { file.flush() }).or_raise(py)
}

/// The NumPy type of the elements that a version of the format stores instead of others: the same, or a
/// smaller one. ``None``: it stores none.
#[pyfunction]
pub(crate) fn netcdf3_type(py: Python<'_>, dtype: &str, version: &str) -> PyResult<Option<String>> {
    let invalid = |why: String| errors::invalid(py, why);
    let FileFormat::Netcdf3(version) = version.parse().map_err(invalid)? else {
        return Err(invalid(format!("expected a NetCDF classic format, found {version:?}")));
    };
    let Ok(dtype) = dtype.parse::<DataType>() else { return Ok(None) };
    Ok(External::for_elements(dtype, version).map(|external| external.dtype().to_string()))
}

/// Removes the records of a classic file that were added since the last flush.
#[pyfunction]
pub(crate) fn abandon_netcdf3(py: Python<'_>, file: &StoreHandle) -> PyResult<()> {
    let file = data_file(py, file)?.clone();
    let work = || -> hyperslab::Result<()> { Ok(classic(&file)?.abandon()?) };
    py.detach(work).or_raise(py)
}

/// The content of a classic file, as `create_netcdf3` takes it: format, dimensions, attributes, variables.
#[pyfunction]
pub(crate) fn netcdf3_header(py: Python<'_>, file: &StoreHandle) -> PyResult<Header> {
    let file = classic(data_file(py, file)?).or_raise(py)?;
    let stored = |attributes: &[Attribute]| -> Vec<NewAttribute> {
        let attribute =
            |one: &Attribute| (one.name.clone(), one.external.dtype().to_string(), one.bytes.clone());
        attributes.iter().map(attribute).collect()
    };
    let dimensions = file.dimensions().iter().map(|one| (one.name.clone(), one.len, one.unlimited)).collect();
    let number = |one: &Dimension| file.dimensions().iter().position(|other| other.name == one.name);
    let variable = |one: hyperslab::netcdf::Variable| {
        let dtype = one.external_type().dtype().to_string();
        (
            one.name().to_owned(),
            dtype,
            one.dimensions().filter_map(number).collect(),
            stored(one.attributes()),
        )
    };
    let variables = file.variables().map(variable).collect();
    Ok((file.version().name(), dimensions, stored(file.attributes()), variables))
}

fn data_file<'f>(py: Python<'_>, handle: &'f StoreHandle) -> PyResult<&'f DataFile> {
    handle.file().ok_or_else(|| errors::invalid(py, "expected a file, found a store".to_owned()))
}

fn classic(file: &DataFile) -> hyperslab::Result<File> {
    let root = file.open("")?.into_group()?;
    let why = || Error::Options("expected a NetCDF classic file".into());
    root.as_netcdf3().cloned().ok_or_else(why)
}

fn options(fsync: bool) -> EditedOptions {
    EditedOptions { locks: hyperslab::settings::file_locks(), fsync }
}
