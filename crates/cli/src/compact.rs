//! `hyperslab compact`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::meter::Meter;
use crate::signals::Watch;
use crate::text;
use hyperslab::compact::{Compacted, compact as compact_file};
use hyperslab::{Array, Below, Error, Node, NodeKind, stores};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Give back the unused space of HDF5 files and of shards.
///
/// An HDF5 or NetCDF-4 file is copied without the space of deleted and replaced data. The copy has
/// everything else, unchanged, and takes the place of the file in one step. Programs that have the
/// file open keep the old one.
///
/// When some chunks of a Zarr shard are rewritten, the old ones may stay in its file until they take
/// more space than the chunks in use. This command rewrites such shards, one after the other. Each
/// shard is complete at every instant. Arrays without shards have nothing to reclaim.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab compact run1.h5 run2.h5           two files
  hyperslab compact ocean.zarr                all arrays in it
  hyperslab compact --dry-run ocean.zarr/sst  how much there is to gain")]
pub(crate) struct CompactArgs {
    /// HDF5 files, or Zarr arrays and groups.
    #[arg(required = true, value_name = "FILE")]
    paths: Vec<String>,
    /// Change nothing, only report.
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Show no progress bar.
    #[arg(long, short)]
    quiet: bool,
}

impl Command for CompactArgs {
    const NAME: &str = "compact";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        for path in &self.paths {
            match file_at(path) {
                Some(file) => self.file(path, &file, out, watch)?,
                None => self.arrays(path, out, watch)?,
            }
        }
        Ok(())
    }
}

/// The path of a data file. `None`: another location.
fn file_at(location: &str) -> Option<PathBuf> {
    let path = stores::local_path(location).ok()??;
    (path.is_file() && !stores::is_archive(&path)).then_some(path)
}

impl CompactArgs {
    /// Compacts an HDF5 file.
    fn file(&self, name: &str, path: &Path, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let meter = Meter::new(watch, self.quiet);
        let done = compact_file(path, self.dry_run, Some(&meter));
        meter.finish();
        let Compacted { before, after, lost_references } = done.map_err(|error| match error {
            Error::Interrupted => Failure::Stopped("the file is as it was"),
            error => error.into(),
        })?;
        writeln!(out, "{}  {}", text::sanitize(name), gain(before, after, self.dry_run))?;
        if lost_references > 0 {
            let references = text::count(lost_references, "reference");
            let verb = if self.dry_run { "would become" } else { "became" };
            writeln!(out, "  {references} to deleted objects {verb} empty")?;
        }
        Ok(out.flush()?)
    }

    /// Compacts the shards of an array, or of all arrays in a group.
    fn arrays(&self, path: &str, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let ask = || watch.is_interrupted();
        let arrays = match failure::open(path)? {
            Node::Array(array) => vec![(path.to_owned(), array)],
            Node::Group(group) => {
                let mut arrays = Vec::new();
                for Below { path, kind, .. } in group.below(None, Some(&ask))? {
                    if watch.is_interrupted() {
                        return Err(Error::Interrupted.into());
                    }
                    if kind != NodeKind::Array {
                        continue;
                    }
                    match group.child(&path) {
                        Ok(Node::Array(array)) => arrays.push((path, array)),
                        Ok(Node::Group(_)) => {}
                        // The other arrays can still be compacted. Writing this message may fail.
                        Err(error) => {
                            let _ = writeln!(
                                io::stderr(),
                                "left out {}: {}",
                                text::sanitize(&path),
                                text::sanitize(&error.to_string())
                            );
                        }
                    }
                }
                arrays
            }
        };
        let sharded: Vec<_> = arrays.into_iter().filter(|(_, array)| array.shard_shape().is_some()).collect();
        if sharded.is_empty() {
            writeln!(out, "nothing to do: there are no shards")?;
        }
        for (name, array) in &sharded {
            let line = compact(array, self.dry_run, watch)?;
            writeln!(out, "{}  {line}", text::sanitize(name))?;
            // An array may take long, so show each one when it is done.
            out.flush()?;
        }
        Ok(())
    }
}

/// Compacts the shards of an array.
fn compact(array: &Array, dry: bool, watch: &Watch) -> Result<String, Failure> {
    let stored = || array.chunks_stored(Some(&|| watch.is_interrupted()));
    let (_, before) = stored()?;
    let reclaimed = array.compact(dry, Some(&|| watch.is_interrupted())).map_err(|error| match error {
        Error::Interrupted => Failure::Stopped("every shard is as it was, or compacted"),
        error => error.into(),
    })?;
    let after = if dry { before.saturating_sub(reclaimed) } else { stored()?.1 };
    Ok(gain(before, after, dry))
}

/// `12.0 MiB → 8.0 MiB, 4.0 MiB given back`
fn gain(before: u64, after: u64, dry: bool) -> String {
    let done = if dry { "to give back" } else { "given back" };
    let gained = text::bytes(before.saturating_sub(after));
    format!("{} → {}, {gained} {done}", text::bytes(before), text::bytes(after))
}
