//! `hyperslab advise`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::signals::Watch;
use crate::text;
use hyperslab::advise::{Access, advise};
use std::io::Write;

/// Show which chunks and shards suit the ways an array is read.
///
/// For each way, prints requests, bytes read and decoded, and the approximate time on a local disk
/// and on an object store. Compares the present layout, the best chunks, and the best chunks in
/// shards. The counts are exact (means for blocks at any place); the times are estimates. Changes
/// nothing, but prints the commands that would.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
ACCESS is one of
  time series     one point, all along the axis of time (named time or t; otherwise the first)
  map             one time, everything else
  all             everything
  [:, 10, 10]     a selection
  (1, 64, 64)     a block of this shape, anywhere

Examples:
  hyperslab advise ocean.zarr/sst --access 'time series' --access map
  hyperslab advise ocean.zarr/sst --access '(1, 64, 64)' --json")]
pub(crate) struct AdviseArgs {
    /// An array.
    path: String,
    /// A way to read it (see below). May be given several times; all have equal weight.
    #[arg(long, required = true, value_name = "ACCESS", allow_hyphen_values = true)]
    access: Vec<String>,
    /// Advise for an object store, wherever the array is now.
    #[arg(long)]
    remote: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Command for AdviseArgs {
    const NAME: &str = "advise";

    fn run(&self, out: &mut dyn Write, _: &Watch) -> Result<(), Failure> {
        let array = failure::open(&self.path)?.into_array()?;
        let names = array.dimension_names()?;
        let parse = |text: &String| Access::parse(text, array.shape(), names.as_deref());
        let access: Result<Vec<_>, _> = self.access.iter().map(parse).collect();
        let advice = advise(&array, access.map_err(Failure::Usage)?, self.remote.then_some(true))?;
        if self.json {
            writeln!(out, "{}", advice.to_json(&array, &self.path)?.to_text(Some(2)))?;
        } else {
            for line in advice.to_string().lines() {
                writeln!(out, "{}", text::sanitize(line))?;
            }
            for advised in advice.layouts.iter().filter(|advised| advised.name != "now") {
                if let Some(command) = advised.command(&array, &self.path)? {
                    writeln!(out, "\n{}: {}", advised.name, text::sanitize(&command))?;
                }
            }
        }
        Ok(())
    }
}
