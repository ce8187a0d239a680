//! `hyperslab dump`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::signals::Watch;
use hyperslab::look::{CdlOptions, write_cdl};
use std::io::Write;

/// Print a header as CDL, as ncdump -h does, for any format.
///
/// Shows dimensions (also unlimited ones), variables with their types, and all attributes. With
/// --variables it prints values too. Numbers are as they are stored, as in ncdump; times are dates. _
/// stands for missing elements.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab dump ocean.nc                  as ncdump -h
  hyperslab dump ocean.nc -v time          with the values of time, as ncdump -t -v time
  hyperslab dump ocean.zarr --all --raw    with all values as they are stored, as ncdump")]
pub(crate) struct DumpArgs {
    /// A file, group or array.
    path: String,
    /// Also print the values of these variables: names, or paths in the file.
    #[arg(long, short, value_name = "NAME,…", value_delimiter = ',', conflicts_with = "all")]
    variables: Vec<String>,
    /// Also print the values of all variables.
    #[arg(long)]
    all: bool,
    /// Print times as stored numbers.
    #[arg(long)]
    raw: bool,
}

impl Command for DumpArgs {
    const NAME: &str = "dump";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let node = failure::open(&self.path)?;
        let options = CdlOptions { variables: self.variables.clone(), all: self.all, raw: self.raw };
        Ok(write_cdl(&node, name_of(&self.path), &options, out, &|| watch.is_interrupted())??)
    }
}

/// The last part of a path, without what follows its last point.
fn name_of(path: &str) -> &str {
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    match last.rsplit_once('.') {
        Some((name, _)) if !name.is_empty() => name,
        _ => last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files() {
        for (path, name) in
            [("a/ocean.nc", "ocean"), ("ocean.zarr/", "ocean"), ("s3://b/a.b.nc", "a.b"), (".x", ".x")]
        {
            assert_eq!(name_of(path), name, "{path}");
        }
    }
}
