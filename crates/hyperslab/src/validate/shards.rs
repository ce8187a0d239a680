//! Shards: their indexes, dead space, and which of their chunks exist. Decodes nothing.

use super::absent::StoredChunks;
use super::blame::Blame;
use super::finding::{Finding, Findings, Kind, Level, Severity};
use crate::{Array, Dims, Error, Result, workers};
use hyperslab_array::{inspect_shard, inspected_levels};
use hyperslab_store::Ask;
use std::sync::{Mutex, PoisonError};

/// Shards with less dead space, in parts of their size, are not worth a word: 1 in 4.
const DEAD_SHARE: u64 = 4;

/// Returns `true` if the index of each shard can be read without reading the shard.
pub(super) fn can_inspect(array: &Array) -> bool {
    array.layout().sharding().is_some_and(|sharding| inspected_levels(sharding) > 0)
}

/// Returns `true` if all indexes of shards can be read without decoding: they tell the chunks.
pub(super) fn tells_chunks(array: &Array) -> bool {
    array.layout().sharding().is_some_and(|sharding| inspected_levels(sharding) == sharding.levels().len())
}

/// Inspects the stored shards of an array. `chunks` gets the inner chunks that exist.
pub(super) fn inspect(
    array: &Array,
    path: &str,
    stored: &[Dims],
    threads: usize,
    findings: &Findings,
    chunks: Option<&mut StoredChunks>,
    ask: Ask<'_>,
) -> Result<()> {
    let layout = array.layout();
    let at_once = match layout.store().cost().prefers_rounds() {
        true => layout.store().cost().requests_at_once().clamp(threads, 64),
        false => threads,
    };
    let chunks = Mutex::new(chunks);
    let dead = Mutex::new((0_u64, 0_u64, None::<(u64, String)>));
    workers::share(stored.len() as u64, at_once, ask, &|| {}, &|n, _| {
        let Some(place) = usize::try_from(n).ok().and_then(|n| stored.get(n)) else { return Ok(()) };
        let mut key = String::new();
        layout.locate(place, &mut key)?;
        let contents = match inspect_shard(layout, place) {
            Ok(Some(contents)) => contents,
            // Deleted meanwhile.
            Ok(None) => return Ok(()),
            Err(error) => {
                let blame = Blame::of(&Error::from(error))?;
                if !findings.is_blamed(path, None, Some(&key), false) {
                    let made = findings.make(blame.severity, Level::Structure, blame.kind, path, blame.why);
                    findings.put(Finding { key: Some(key), offset: blame.offset, ..made });
                }
                return Ok(());
            }
        };
        for broken in &contents.broken {
            let what =
                format!("the shard within it that begins at element {:?}: {}", broken.first, broken.why);
            let made = findings.make(Severity::Error, Level::Structure, Kind::ShardIndex, path, what);
            findings.put(Finding { key: Some(key.clone()), offset: Some(broken.offset), ..made });
        }
        for entry in &contents.chunks {
            if let Some(fault) = &entry.fault {
                let made =
                    findings.make(Severity::Error, Level::Structure, Kind::ShardIndex, path, fault.as_str());
                findings.put(Finding {
                    chunk: Some(entry.chunk.to_vec()),
                    key: Some(key.clone()),
                    offset: Some(entry.offset),
                    ..made
                });
            }
        }
        if contents.dead > 0 && contents.dead >= contents.size / DEAD_SHARE {
            let mut dead = dead.lock().unwrap_or_else(PoisonError::into_inner);
            (dead.0, dead.1) = (dead.0 + 1, dead.1.saturating_add(contents.dead));
            if dead.2.as_ref().is_none_or(|(most, _)| *most < contents.dead) {
                dead.2 = Some((contents.dead, key));
            }
        }
        if let Some(chunks) = &mut *chunks.lock().unwrap_or_else(PoisonError::into_inner) {
            contents.chunks.iter().for_each(|entry| chunks.add(&entry.chunk));
        }
        Ok(())
    })?;
    if let (count, bytes, Some((_, key))) = dead.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let what =
            format!("{bytes} bytes in {count} shards are referred to by nothing; the most are in this one");
        let made = findings.make(Severity::Note, Level::Structure, Kind::DeadSpace, path, what);
        findings.put(Finding { key: Some(key), ..made });
    }
    Ok(())
}
