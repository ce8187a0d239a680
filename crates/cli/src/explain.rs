//! `hyperslab explain`.

use crate::command::Command;
use crate::failure::Failure;
use crate::signals::Watch;
use crate::{selection, text};
use hyperslab::explained;
use hyperslab::look::Window;
use std::io::Write;

/// Show how a part of an array would be read or written.
///
/// Lists the chunks it touches, the bytes read from each object, and the strategy: read straight
/// into the result (read-into), only the wanted rows (read-rows), decoded straight into the result
/// (decode-into), decoded and scattered (decode-scatter), or filled (fill) because the chunk does
/// not exist. Chunks are looked up, not read.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
SELECTION is what stands between the brackets in NumPy: integers, slices with any step, an ellipsis;
or NAME=INDEX for axes with names (time=0, lat=10:20). Quote it.

Examples:
  hyperslab explain ocean.zarr/sst                     all of it
  hyperslab explain ocean.zarr/sst '0, :, ::2'         the first step, every second column
  hyperslab explain 'ocean.zarr/sst[..., 5]'           in one word
  hyperslab explain ocean.zarr/sst '0:2, 90' --write   writing two rows")]
pub(crate) struct ExplainArgs {
    /// An array.
    path: String,
    /// Part of the array. Default: everything.
    #[arg(allow_hyphen_values = true)]
    selection: Option<String>,
    /// Explain writing instead of reading.
    #[arg(long)]
    write: bool,
    /// List the first N chunks one by one.
    #[arg(long, value_name = "N", default_value_t = 10)]
    list: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Command for ExplainArgs {
    const NAME: &str = "explain";

    fn run(&self, out: &mut dyn Write, _: &Watch) -> Result<(), Failure> {
        let (node, selected) = selection::open(&self.path, self.selection.as_deref())?;
        let array = node.into_array()?;
        let selection = if selected.contains('=') {
            Window::parse(&array, &selected)?.map_err(Failure::Usage)?.selection(&array)?
        } else {
            array.select(&selection::parse(&selected).map_err(Failure::Usage)?)?
        };
        let explain = if self.write {
            array.explain_write(&selection, self.list)?
        } else {
            array.explain_read(&selection, self.list)?
        };
        if self.json {
            writeln!(out, "{}", explained(&explain).to_text(Some(2)))?;
        } else {
            // Keys and names are untrusted.
            for line in explain.to_string().lines() {
                writeln!(out, "{}", text::sanitize(line))?;
            }
        }
        Ok(())
    }
}
