//! `hyperslab compact`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::signals::Watch;
use crate::text;
use hyperslab::{Array, Below, Error, Node, NodeKind};
use std::io::{self, Write};

/// Reclaim the space in shards that rewritten chunks have left behind.
///
/// When some chunks of a shard are rewritten, the old ones may stay in its file until they take
/// more space than the chunks in use. This command rewrites such shards, one after the other. Each
/// shard is complete at every instant. Arrays without shards have nothing to reclaim.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab compact ocean.zarr                all arrays in it
  hyperslab compact --dry-run ocean.zarr/sst  how much there is to gain")]
pub(crate) struct CompactArgs {
    /// An array or group.
    path: String,
    /// Change nothing, only report.
    #[arg(long, short = 'n')]
    dry_run: bool,
}

impl Command for CompactArgs {
    const NAME: &str = "compact";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let ask = || watch.is_interrupted();
        let arrays = match failure::open(&self.path)? {
            Node::Array(array) => vec![(self.path.clone(), array)],
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

/// `12.0 MiB → 8.0 MiB, 4.0 MiB given back`
fn compact(array: &Array, dry: bool, watch: &Watch) -> Result<String, Failure> {
    let stored = || array.chunks_stored(Some(&|| watch.is_interrupted()));
    let (_, before) = stored()?;
    let reclaimed = array.compact(dry, Some(&|| watch.is_interrupted())).map_err(|error| match error {
        Error::Interrupted => Failure::Stopped("every shard is as it was, or compacted"),
        error => error.into(),
    })?;
    let after = if dry { before.saturating_sub(reclaimed) } else { stored()?.1 };
    let done = if dry { "to give back" } else { "given back" };
    Ok(format!("{} → {}, {} {done}", text::bytes(before), text::bytes(after), text::bytes(reclaimed)))
}
