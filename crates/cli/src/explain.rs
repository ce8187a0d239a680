//! `hyperslab explain`.

use crate::command::Command;
use crate::failure::Failure;
use crate::signals::Watch;
use crate::{selection, text};
use hyperslab::look::Window;
use hyperslab::{Explain, ExplainTask, Json};
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
            writeln!(out, "{}", to_json(&explain).to_text(Some(2)))?;
        } else {
            // Keys and names are untrusted.
            for line in explain.to_string().lines() {
                writeln!(out, "{}", text::sanitize(line))?;
            }
        }
        Ok(())
    }
}

fn to_json(explain: &Explain) -> Json {
    let task = |task: &ExplainTask| {
        let ranges = task.ranges.iter().map(|(offset, len)| Json::from([*offset, *len].as_slice())).collect();
        Json::from([
            ("chunk", task.chunk.as_slice().into()),
            ("key", task.key.as_str().into()),
            ("strategy", task.strategy.to_string().as_str().into()),
            ("ranges", Json::Array(ranges)),
            ("elements", task.elements.into()),
            ("bytes_read", task.bytes_read.into()),
            ("bytes_decoded", task.bytes_decoded.into()),
        ])
    };
    let strategies =
        explain.strategies.iter().map(|(strategy, n)| (strategy.to_string(), (*n).into())).collect();
    Json::from([
        ("array", explain.array.as_str().into()),
        ("write", explain.write.into()),
        ("shape", explain.shape.as_slice().into()),
        ("bytes", explain.bytes.into()),
        ("chunks", explain.chunks.into()),
        ("examined", explain.examined.into()),
        ("objects", explain.objects.into()),
        ("threads", explain.threads.into()),
        ("strategies", Json::Object(strategies)),
        ("bytes_read", explain.bytes_read.into()),
        ("bytes_decoded", explain.bytes_decoded.into()),
        ("tasks", Json::Array(explain.tasks.iter().map(task).collect())),
    ])
}
