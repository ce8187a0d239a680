//! `hyperslab pyramid`. The Python package makes pyramids; this describes the user's request.

use crate::args::{Chunks, chunks, size};
use crate::command::{Command, matches_of};
use crate::failure::Failure;
use crate::python::continue_in_python;
use crate::signals::Watch;
use crate::storage;
use clap::{FromArgMatches, ValueEnum};
use std::ffi::OsString;
use std::io::Write;

/// How elements become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// Their mean.
    Mean,
    /// The middle one.
    Nearest,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The most frequent, for labels.
    Mode,
}

/// The convention of the metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Convention {
    /// OME-Zarr.
    Ome,
    /// GeoZarr.
    Geozarr,
}

/// Make an array at several resolutions, so that viewers read few elements.
///
/// Each level has the elements of the one before, a factor fewer along each axis. The levels are members
/// of a group: of the array's group, or of DST, which gets a copy of the array too. Metadata of OME-Zarr
/// or GeoZarr describe them. Needs the Python package.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab pyramid image.zarr/0                        levels 1, 2, ... beside the array 0
  hyperslab pyramid ocean.nc/sst ocean.zarr --factor lat=2,lon=2 --metadata geozarr
  hyperslab pyramid labels.zarr/0 --method mode --levels 4 --dry-run")]
pub(crate) struct PyramidArgs {
    /// The array.
    #[arg(value_name = "ARRAY")]
    source: String,
    /// A group of Zarr, or where to make one. Default: the group that has the array.
    #[arg(value_name = "DST")]
    target: Option<String>,
    /// Elements that become one: for x, y and z (or the last two axes), for each axis (1,2,2), or by
    /// dimension (lat=2,lon=2).
    #[arg(long, short, value_name = "N", value_parser = chunks, default_value = "2")]
    factor: Chunks,
    /// Number of levels, with the array itself. Default: until a level is one chunk.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    levels: Option<u64>,
    /// How elements become one.
    #[arg(long, short, value_enum, default_value_t = Method::Mean)]
    method: Method,
    /// The convention of the metadata. May be given twice.
    #[arg(long, value_enum, default_values_t = [Convention::Ome])]
    metadata: Vec<Convention>,
    /// Approximate memory.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256MiB")]
    max_memory: u64,
    /// Only show the levels that would be written.
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Show no progress bar and no summary.
    #[arg(long, short)]
    quiet: bool,
}

/// A pyramid that the user asks for.
#[derive(Clone, Debug)]
pub struct PlannedPyramid {
    /// Location of the array.
    pub source: String,
    /// Location of the group. `None`: the array's own group.
    pub target: Option<String>,
    /// One factor, or one for each axis.
    pub factors: Vec<u64>,
    /// Factors by dimension.
    pub named_factors: Vec<(String, u64)>,
    /// Number of levels.
    pub levels: Option<u64>,
    /// How elements become one.
    pub method: String,
    /// Conventions of the metadata.
    pub metadata: Vec<String>,
    /// Approximate memory in bytes.
    pub max_memory: u64,
    /// Options of servers.
    pub storage: Vec<(String, String)>,
    /// True to write nothing.
    pub dry_run: bool,
    /// True to show no progress bar and no summary.
    pub quiet: bool,
}

impl Command for PyramidArgs {
    const NAME: &str = "pyramid";

    fn run(&self, _: &mut dyn Write, _: &Watch) -> Result<(), Failure> {
        self.factors()?;
        continue_in_python();
        Err(Failure::Usage("pyramid needs the Python package: pip install hyperslab".into()))
    }
}

/// Factors for each axis, or by dimension.
type Factors = (Vec<u64>, Vec<(String, u64)>);

impl PyramidArgs {
    fn factors(&self) -> Result<Factors, Failure> {
        let wrong = || Failure::Usage("--factor: expected positive numbers, as 2 or lat=2,lon=2".into());
        match &self.factor {
            Chunks::Shape(all) => {
                Ok((all.iter().copied().collect::<Option<_>>().ok_or_else(wrong)?, Vec::new()))
            }
            Chunks::Named(all) => {
                let named = all.iter().map(|(name, factor)| Some((name.clone(), (*factor)?)));
                Ok((Vec::new(), named.collect::<Option<_>>().ok_or_else(wrong)?))
            }
        }
    }
}

fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The pyramid that these arguments ask for.
///
/// The first argument is the program's name. `None` if the arguments request something else or are
/// wrong.
pub fn planned_pyramid(args: impl IntoIterator<Item = OsString>) -> Option<PlannedPyramid> {
    let (shared, command, found) = matches_of(args)?;
    let found = (command == PyramidArgs::NAME).then_some(found)?;
    storage::set(&shared);
    let args = PyramidArgs::from_arg_matches(&found).ok()?;
    let (factors, named_factors) = args.factors().ok()?;
    Some(PlannedPyramid {
        source: args.source,
        target: args.target,
        factors,
        named_factors,
        levels: args.levels,
        method: name(&args.method),
        metadata: args.metadata.iter().map(name).collect(),
        max_memory: args.max_memory,
        storage: storage::options(),
        dry_run: args.dry_run,
        quiet: args.quiet,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let given = |text: &str| planned_pyramid(text.split(' ').map(OsString::from));
        let found = given("hyperslab pyramid a.zarr/0").unwrap();
        assert_eq!((found.factors, found.levels, found.target), (vec![2], None, None));
        assert_eq!((found.method.as_str(), found.metadata), ("mean", vec!["ome".to_owned()]));
        let text =
            "hyperslab pyramid a b --factor lat=2,lon=3 --levels 4 --method mode --metadata geozarr -n";
        let found = given(text).unwrap();
        assert_eq!(found.named_factors, [("lat".to_owned(), 2), ("lon".to_owned(), 3)]);
        assert_eq!((found.levels, found.method.as_str(), found.dry_run), (Some(4), "mode", true));
        assert_eq!(found.metadata, ["geozarr"]);
        assert!(given("hyperslab pyramid a --factor -1").is_none());
        assert!(given("hyperslab pyramid a --method sum").is_none());
        assert!(given("hyperslab copy a b").is_none());
    }
}
