//! `chunks`: the chunk map. `bad`: chunks that cannot be decoded.

use super::{Asked, Place};
use crate::answer::Answer;
use hyperslab::copy::Progress;
use hyperslab::validate::{Severity, Subject, ValidateOptions, validate};
use hyperslab::{ChunkMap, Error, Json, Result};

/// The chunk map. `format=raw`: the bytes of each unit of the grid in C order, as little-endian
/// integers of 64 bits; 2⁶⁴ − 1 for absent ones.
pub(super) fn chunks(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let ChunkMap { unit, shape, grid, stored, .. } = place.array()?.chunk_map(Some(asked.ask))?;
    let total = grid.iter().fold(1u64, |n, count| n.saturating_mul(*count));
    let number = |at: &[u64]| {
        at.iter().zip(&grid).fold(0u64, |n, (at, count)| n.saturating_mul(*count).saturating_add(*at))
    };
    match (asked.value("format").as_deref(), stored) {
        (Some("raw"), None) => {
            Err(Error::Options("the store does not list its chunks: nobody knows which are stored".into()))
        }
        (Some("raw"), Some(stored)) => {
            let len = total.checked_mul(8).filter(|len| *len <= asked.most).ok_or_else(|| {
                Error::Options(format!("{total} chunks are too many for format=raw: ask without it"))
            })?;
            let mut bytes = vec![0xff; usize::try_from(len).unwrap_or(0)];
            for (at, len) in &stored {
                let start = usize::try_from(number(at) * 8).unwrap_or(usize::MAX);
                if let Some(cell) = bytes.get_mut(start..start.saturating_add(8)) {
                    cell.copy_from_slice(&len.to_le_bytes());
                }
            }
            Ok(Answer::new(200, "application/octet-stream", crate::body::Body::of(bytes)))
        }
        (None | Some("json"), Some(stored)) if stored.len() as u64 > asked.most / 128 => {
            Err(Error::Options(format!("{} chunks are too many for JSON: ask with format=raw", stored.len())))
        }
        (None | Some("json"), stored) => {
            let one = |(at, bytes): &(_, u64)| {
                let at: &hyperslab::Dims = at;
                Json::from([number(at), *bytes].as_slice())
            };
            let stored = stored.map_or(Json::Null, |stored| Json::Array(stored.iter().map(one).collect()));
            Ok(Answer::json(&Json::from([
                ("unit", unit.into()),
                ("shape", shape.as_slice().into()),
                ("grid", grid.as_slice().into()),
                ("total", total.into()),
                ("stored", stored),
            ])))
        }
        (Some(other), _) => Err(Error::Options(format!("format: expected json or raw, found {other:?}"))),
    }
}

/// Decodes all chunks, and lists the units of the chunk map that have a fault. One such check runs at a
/// time.
pub(super) fn bad(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = place.array()?;
    let Some(_turn) = place.roots.turn() else {
        let found = "another check is decoding chunks";
        let answer = Answer::problem(503, place.parts.join("/"), found, "ask again when it is done");
        return Ok(answer.with("retry-after", "5"));
    };
    let map = array.chunk_map(Some(asked.ask))?;
    let per_unit = |axis: usize| {
        let unit = map.shape.get(axis).copied().unwrap_or(1);
        // Findings are about the chunks in shards.
        unit / array.chunk_shape().get(axis).copied().unwrap_or(unit).max(1)
    };
    let number = |chunk: &[u64]| {
        let units = chunk.iter().enumerate().map(|(axis, at)| at / per_unit(axis).max(1));
        units
            .zip(map.grid.iter())
            .fold(0_u64, |all, (at, count)| all.saturating_mul(*count).saturating_add(at))
    };
    let stop = Stop(asked.ask);
    let options = ValidateOptions {
        decode: true,
        no_conventions: true,
        progress: Some(&stop),
        ..ValidateOptions::default()
    };
    let subject = Subject::Node(place.parts.join("/"), place.node.clone());
    let report = validate(&[subject], &options)?;
    let faults = report.findings.iter().filter(|finding| finding.severity == Severity::Error);
    let fault = |finding: &hyperslab::validate::Finding| {
        let at = finding.chunk.as_deref().map_or(Json::Null, |chunk| number(chunk).into());
        Json::from([("at", at), ("message", place.roots.hidden(&finding.found).as_str().into())])
    };
    Ok(Answer::json(&Json::from([
        ("checked", map.stored.as_ref().map_or(Json::Null, |stored| (stored.len() as u64).into())),
        ("bad", Json::Array(faults.map(fault).collect())),
    ])))
}

/// Stops a check that nobody waits for.
pub(super) struct Stop<'a>(pub(super) &'a dyn Fn() -> bool);

impl Progress for Stop<'_> {
    fn cancelled(&self) -> bool {
        (self.0)()
    }
}
