//! Copies that become one file: which format the file has, and who writes it.

use super::to_hdf5::{self, Target};
use super::{CopyOptions, CopyPlan, CopyReport, origin, to_netcdf3};
use crate::netcdf::Version;
use crate::{Error, Node, Result, stores};
use std::path::Path;
use std::str::FromStr;

/// The format of a copy that becomes one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// HDF5.
    Hdf5,
    /// NetCDF-4: HDF5 with NetCDF's dimensions, as netCDF-C writes it.
    Netcdf4,
    /// NetCDF classic.
    Netcdf3(Version),
}

impl FileFormat {
    /// The format that a file name or the path of a URL asks for by its ending.
    pub fn of_name(name: &str) -> Option<FileFormat> {
        let name = name.rsplit('/').next().unwrap_or(name);
        let (_, ending) = name.rsplit_once('.')?;
        match ending.to_ascii_lowercase().as_str() {
            "h5" | "hdf5" | "he5" => Some(FileFormat::Hdf5),
            "nc" | "nc4" => Some(FileFormat::Netcdf4),
            _ => None,
        }
    }

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            FileFormat::Hdf5 => "hdf5",
            FileFormat::Netcdf4 => "netcdf4",
            FileFormat::Netcdf3(Version::Classic) => "netcdf3",
            FileFormat::Netcdf3(Version::Offset64) => "netcdf3_64bit_offset",
            FileFormat::Netcdf3(Version::Data64) => "netcdf3_64bit_data",
        }
    }
}

impl FromStr for FileFormat {
    type Err = String;

    /// Takes the names of [`FileFormat::name`], and the names of netCDF4-python and xarray.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "hdf5" => Ok(FileFormat::Hdf5),
            "netcdf4" => Ok(FileFormat::Netcdf4),
            "netcdf3" | "netcdf3_classic" => Ok(FileFormat::Netcdf3(Version::Classic)),
            "netcdf3_64bit_offset" | "netcdf3_64bit" => Ok(FileFormat::Netcdf3(Version::Offset64)),
            "netcdf3_64bit_data" => Ok(FileFormat::Netcdf3(Version::Data64)),
            _ => Err(format!(
                "format: expected hdf5, netcdf4, netcdf3, netcdf3_64bit_offset or netcdf3_64bit_data, found {text:?}"
            )),
        }
    }
}

/// Returns `true` if a copy to a URL of a server becomes one file: its name says so.
pub fn is_file_url(location: &str) -> bool {
    stores::takes_options(location) && FileFormat::of_name(path_of(location)).is_some()
}

fn path_of(location: &str) -> &str {
    location.split('?').next().unwrap_or(location)
}

/// The file that a copy to a location becomes, and its format. `None`: the copy is Zarr.
/// `path`: the path, if it is on a local disk.
fn target<'t>(
    location: &'t str,
    path: Option<&'t Path>,
    options: &CopyOptions<'_>,
) -> Result<Option<(FileFormat, Target<'t>)>> {
    let refuse = |why: &str| Error::Destination { path: location.into(), why: why.to_owned() };
    let named = match path {
        Some(path) if path.is_dir() => None,
        Some(path) => path.to_str().and_then(FileFormat::of_name),
        None if stores::takes_options(location) => FileFormat::of_name(path_of(location)),
        None => None,
    };
    let Some(format) = options.file_format.or(named) else { return Ok(None) };
    let target = match path {
        Some(path) if path.is_dir() => {
            return Err(refuse("a directory is there; choose a name for the file"));
        }
        Some(path) => Target::Local(path),
        None if stores::takes_options(location) => Target::Far(location),
        None => {
            return Err(refuse("one file goes to a path, or to the URL of a server; leave out the format"));
        }
    };
    Ok(Some((format, target)))
}

/// Copies an array or group to one file, if the location or the options say so.
pub(super) fn copy(
    source: &Node,
    location: &str,
    path: Option<&Path>,
    options: &CopyOptions<'_>,
) -> Result<Option<CopyReport>> {
    let Some((format, target)) = target(location, path, options)? else { return Ok(None) };
    let options = &CopyOptions { file_format: Some(format), ..options.clone() };
    let origin = path.and_then(|_| origin(source));
    match format {
        FileFormat::Hdf5 | FileFormat::Netcdf4 => {
            to_hdf5::copy(source, origin.as_deref(), &target, options).map(Some)
        }
        FileFormat::Netcdf3(version) => {
            to_netcdf3::copy(source, origin.as_deref(), &target, version, options).map(Some)
        }
    }
}

/// Plans the copy of an array or group to one file.
pub(super) fn plan(
    source: &Node,
    location: &str,
    path: Option<&Path>,
    options: &CopyOptions<'_>,
) -> Result<Option<Vec<(String, CopyPlan)>>> {
    let Some((format, target)) = target(location, path, options)? else { return Ok(None) };
    let options = &CopyOptions { file_format: Some(format), ..options.clone() };
    match format {
        FileFormat::Hdf5 | FileFormat::Netcdf4 => to_hdf5::plan(source, &target, options).map(Some),
        FileFormat::Netcdf3(version) => to_netcdf3::plan(source, &target, version, options).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_format() {
        for (name, format) in [
            ("a.h5", Some(FileFormat::Hdf5)),
            ("b/a.HDF5", Some(FileFormat::Hdf5)),
            ("a.he5", Some(FileFormat::Hdf5)),
            ("a.b.nc", Some(FileFormat::Netcdf4)),
            ("a.nc4", Some(FileFormat::Netcdf4)),
            ("a.nc/b", None),
            ("a.cdf", None),
            ("nc", None),
        ] {
            assert_eq!(FileFormat::of_name(name), format, "{name}");
        }
        assert!(is_file_url("s3://bucket/a.nc"));
        assert!(is_file_url("s3://bucket/a.h5"));
        assert!(!is_file_url("s3://bucket/a.zarr"));
        assert!(!is_file_url("a.nc"));
    }

    #[test]
    fn names_of_formats() {
        for (text, format) in [
            ("hdf5", FileFormat::Hdf5),
            ("NETCDF4", FileFormat::Netcdf4),
            ("NETCDF3_CLASSIC", FileFormat::Netcdf3(Version::Classic)),
            ("NETCDF3_64BIT", FileFormat::Netcdf3(Version::Offset64)),
            ("NETCDF3_64BIT_OFFSET", FileFormat::Netcdf3(Version::Offset64)),
            ("netcdf3_64bit_data", FileFormat::Netcdf3(Version::Data64)),
        ] {
            assert_eq!(text.parse(), Ok(format));
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert!("zarr".parse::<FileFormat>().unwrap_err().contains("netcdf4"));
    }
}
