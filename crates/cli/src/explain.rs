//! `hyperslab explain`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::signals::Watch;
use crate::{selection, text};
use hyperslab::{Node, explained};
use std::borrow::Cow;
use std::io::Write;

/// Show how a part of an array would be read or written.
///
/// Lists the chunks it touches, the bytes read from each object, and the strategy: read straight
/// into the result (read-into), only the wanted rows (read-rows), decoded straight into the result
/// (decode-into), decoded and scattered (decode-scatter), or filled (fill) because the chunk does
/// not exist. Chunks are looked up, not read.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
SELECTION is what stands between the brackets in NumPy: integers, slices with any step, an ellipsis. Quote it.

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
        let (node, selected) = open(self)?;
        let array = node.into_array()?;
        let indices = selection::parse(&selected).map_err(Failure::Usage)?;
        let selection = array.select(&indices)?;
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

/// The array, and the text of the selection: `PATH SELECTION` or `PATH[SELECTION]`.
fn open(args: &ExplainArgs) -> Result<(Node, Cow<'_, str>), Failure> {
    if let Some(selection) = &args.selection {
        return Ok((failure::open(&args.path)?, selection.into()));
    }
    match (failure::open(&args.path), selection::split(&args.path)) {
        (Err(error), Some((path, selection))) => match failure::open(path) {
            Ok(node) => Ok((node, selection.into())),
            Err(_) => Err(error),
        },
        (opened, _) => Ok((opened?, "".into())),
    }
}
