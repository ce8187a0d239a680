//! `hyperslab consolidate`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::signals::Watch;
use crate::text;
use hyperslab::Error;
use std::io::Write;

/// Write consolidated metadata: the documents of all nodes below a Zarr group in one.
///
/// Readers far away then open the whole hierarchy with one request. Run it again after arrays or
/// groups were made or deleted by programs that do not keep it up to date.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  hyperslab consolidate s3://bucket/ocean.zarr")]
pub(crate) struct ConsolidateArgs {
    /// A group of Zarr.
    path: String,
    /// Only show what would be done.
    #[arg(long)]
    dry_run: bool,
}

impl Command for ConsolidateArgs {
    const NAME: &str = "consolidate";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let ask = || watch.is_interrupted();
        let mut group = failure::open_to_change(&self.path)?.into_group()?;
        let Some(zarr) = group.as_zarr() else {
            return Err(Failure::Usage(format!(
                "'{}' is {}; only Zarr has consolidated metadata",
                self.path,
                group.format()
            )));
        };
        let had = if zarr.is_consolidated() { "replaces" } else { "is new for" };
        let nodes = group.below(None, Some(&ask))?.len() as u64;
        let what = format!("the documents of {} in one", text::count(nodes + 1, "node"));
        if self.dry_run {
            return Ok(writeln!(out, "would write {what}, which {had} '{}'", text::sanitize(&self.path))?);
        }
        group.as_zarr_mut()?.consolidate(Some(&ask)).map_err(Error::from)?;
        Ok(writeln!(out, "wrote {what}")?)
    }
}
