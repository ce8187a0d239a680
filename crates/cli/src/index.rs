//! `hyperslab index`.

use crate::args::size;
use crate::command::Command;
use crate::failure::{self, Failure};
use crate::new_file::write_whole;
use crate::signals::Watch;
use crate::text;
use hyperslab::references::{ReferenceOptions, chunks, references};
use std::io::{self, Write};
use std::path::PathBuf;

/// Write an index of the chunks in an HDF5 file, so that others can read them without HDF5.
///
/// The index consists of Zarr references (kerchunk's JSON, version 1), which fsspec and zarr-python
/// read. With --json it is a plain list of chunks for each dataset. A dataset that Zarr v2 with
/// numcodecs' filters cannot express is refused by name.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab index ocean.nc > ocean.json
  hyperslab index ocean.nc --url s3://bucket/ocean.nc -o ocean.json
  hyperslab index --json ocean.nc/sst | jq '.datasets[].chunks | length'")]
pub(crate) struct IndexArgs {
    /// An HDF5 file, or a group or dataset in one.
    path: String,
    /// URL of the file in references. Default: its file:// URL.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Write chunks of at most this size into the references themselves.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "300")]
    inline: u64,
    /// Write a plain list for each dataset instead: chunk position, offset, bytes, filter mask.
    #[arg(long, conflicts_with_all = ["url", "inline", "skip_unsupported"])]
    json: bool,
    /// Leave out datasets that references cannot express, and list them on standard error.
    #[arg(long)]
    skip_unsupported: bool,
    /// Write to this file.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Make the index, say how large it is, and write no file.
    #[arg(long, short = 'n', requires = "output")]
    dry_run: bool,
}

impl Command for IndexArgs {
    const NAME: &str = "index";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let ask = || watch.is_interrupted();
        let node = failure::open(&self.path)?;
        let json = if self.json {
            chunks(&node, Some(&ask))?
        } else {
            let options = ReferenceOptions {
                url: self.url.clone(),
                inline: self.inline,
                skip_unsupported: self.skip_unsupported,
            };
            let found = references(&node, &options, Some(&ask))?;
            for (path, why) in &found.skipped {
                // Standard output has the references. This message may fail.
                let _ = writeln!(io::stderr(), "left out {}: {}", text::sanitize(path), text::sanitize(why));
            }
            found.json
        };
        let Some(path) = &self.output else { return Ok(writeln!(out, "{json}")?) };
        if self.dry_run {
            let (size, name) = (text::bytes(json.to_string().len() as u64 + 1), path.display().to_string());
            let what = if path.exists() { "replace" } else { "write" };
            return Ok(writeln!(out, "would {what} '{}': {size}", text::sanitize(&name))?);
        }
        write_whole(path, &mut |out| Ok(writeln!(out, "{json}")))
    }
}
