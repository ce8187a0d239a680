//! `hyperslab compact`.

use crate::args::CompactArgs;
use crate::failure::{self, Failure};
use crate::signals::Watch;
use crate::text;
use hyperslab::{Array, Error, Node, NodeKind};
use std::io::{self, Write};

pub(crate) fn run(args: &CompactArgs, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
    let ask = || watch.interrupted();
    let arrays = match failure::open(&args.path)? {
        Node::Array(array) => vec![(args.path.clone(), array)],
        Node::Group(group) => {
            let mut arrays = Vec::new();
            for (path, kind) in group.walk_asking(None, Some(&ask))? {
                if watch.interrupted() {
                    return Err(Error::Interrupted.into());
                }
                if kind != NodeKind::Array {
                    continue;
                }
                match group.child(&path) {
                    Ok(Node::Array(array)) => arrays.push((path, array)),
                    Ok(Node::Group(_)) => {}
                    // The others can be compacted all the same. If nobody reads this, nothing is
                    // lost.
                    Err(error) => {
                        let _ = writeln!(
                            io::stderr(),
                            "left out {}: {}",
                            text::plain(&path),
                            text::plain(&error.to_string())
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
        let line = compact(array, args.dry_run, watch)?;
        writeln!(out, "{}  {line}", text::plain(name))?;
        // Arrays may take long: each is told of when it is done.
        out.flush()?;
    }
    Ok(())
}

/// `12.0 MiB → 8.0 MiB, 4.0 MiB given back`
fn compact(array: &Array, dry: bool, watch: &Watch) -> Result<String, Failure> {
    let stored = || array.chunks_stored_asking(Some(&|| watch.interrupted()));
    let (_, before) = stored()?;
    let reclaimed = array.compact(dry, Some(&|| watch.interrupted())).map_err(|error| match error {
        Error::Interrupted => Failure::Stopped("every shard is as it was, or compacted"),
        error => error.into(),
    })?;
    let after = if dry { before.saturating_sub(reclaimed) } else { stored()?.1 };
    let done = if dry { "to give back" } else { "given back" };
    Ok(format!("{} → {}, {} {done}", text::bytes(before), text::bytes(after), text::bytes(reclaimed)))
}
