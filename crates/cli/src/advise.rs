//! `hyperslab advise`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::signals::Watch;
use crate::text;
use hyperslab::advise::{Access, Advice, Advised, DISK, OBJECTS, advise};
use hyperslab::look::chunk_names;
use hyperslab::{Array, Json};
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
            writeln!(out, "{}", to_json(&advice).to_text(Some(2)))?;
        } else {
            for line in advice.to_string().lines() {
                writeln!(out, "{}", text::sanitize(line))?;
            }
            for advised in advice.layouts.iter().filter(|advised| advised.name != "now") {
                if let Some(command) = command(&self.path, &array, advised)? {
                    writeln!(out, "\n{}: {}", advised.name, text::sanitize(&command))?;
                }
            }
        }
        Ok(())
    }
}

/// The command that makes a copy in these chunks.
fn command(path: &str, array: &Array, advised: &Advised) -> Result<Option<String>, Failure> {
    let Some(chunks) = &advised.layout.chunks else { return Ok(None) };
    let mut line =
        format!("hyperslab copy {} NEW.zarr --chunks {}", quoted(path), chunk_names(array, chunks)?);
    if let Some(shards) = &advised.layout.shards {
        let lens: Vec<String> = shards.iter().map(u64::to_string).collect();
        line.push_str(&format!(" --shards {}", lens.join(",")));
    }
    Ok(Some(line))
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

fn to_json(advice: &Advice) -> Json {
    let shape = |shape: &Option<Vec<u64>>| shape.as_deref().map_or(Json::Null, Json::from);
    let of = |advised: &Advised| {
        let cost = |(access, counts): (&Access, &_)| {
            let counts: &hyperslab::advise::Counts = counts;
            let far = advice.subject.counts(&advised.layout, access, &OBJECTS);
            Json::from([
                ("access", access.name.as_str().into()),
                ("chunks", Json::float(counts.chunks)),
                ("objects", Json::float(counts.objects)),
                ("requests", Json::float(counts.requests)),
                ("bytes_read", Json::float(counts.bytes_read)),
                ("bytes_decoded", Json::float(counts.bytes_decoded)),
                ("bytes_wanted", Json::float(access.elements() * advice.subject.element as f64)),
                ("seconds_disk", Json::float(DISK.seconds(counts))),
                ("seconds_object_store", Json::float(OBJECTS.seconds(&far))),
            ])
        };
        let costs = advice.access.iter().zip(&advised.counts).map(cost).collect();
        let members = [
            ("chunks", shape(&advised.layout.chunks)),
            ("shards", shape(&advised.layout.shards)),
            ("objects", Json::float(advised.objects)),
            ("access", Json::Array(costs)),
        ];
        (advised.name.to_owned(), Json::from(members))
    };
    Json::Object(advice.layouts.iter().map(of).collect())
}
