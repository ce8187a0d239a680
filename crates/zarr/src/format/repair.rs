//! Repairs invalid array documents that zarr-python once wrote and still reads.
//!
//! They become valid documents with the same meaning.
//!
//! | stored | read as |
//! |---|---|
//! | chunk 0 or `false` | 1; with shards, the length of their chunks |
//! | chunk `true` | 1 |
//! | v3: lists of edges along some axes of a `regular` grid | the `rectilinear` grid of these edges |
//! | v3: `true`, `4.0` among the edges of a `rectilinear` grid | 1, 4 |
//!
//! No chunk can have been stored under a chunk length of 0: the axis had length 0 and may have
//! grown since. Everything else stays unchanged, and is refused as invalid.

use super::{Format, sharding};
use crate::json::Json;
use crate::node::StoredNode;
use std::borrow::Cow;
use std::sync::Arc;

/// A document that may have been repaired.
pub(crate) struct Repaired {
    pub(crate) document: Arc<Json>,
    /// `true` if readers of the stored document look for chunks elsewhere, or cannot read it.
    ///
    /// The document must be replaced before chunks are written.
    pub(crate) moves_chunks: bool,
}

/// The intended document of an array.
pub(crate) fn repair(stored: &StoredNode) -> Repaired {
    match stored.format {
        Format::V2 => v2(&stored.document),
        Format::V3 => v3(&stored.document),
    }
}

/// The intended `.zarray`.
fn v2(document: &Arc<Json>) -> Repaired {
    let mut moves_chunks = false;
    let chunks = lengths(document.get("shape"))
        .and_then(|shape| chunk_shape(document.get("chunks")?, &shape, &[], &mut moves_chunks));
    let document = match chunks {
        Some(chunks) => with_member(document, "chunks", chunks),
        None => document.clone(),
    };
    Repaired { document, moves_chunks }
}

/// The intended `zarr.json` of an array.
fn v3(document: &Arc<Json>) -> Repaired {
    let mut moves_chunks = false;
    let mut document = document.clone();
    // Repair the chunks in shards first: they determine what a shard of length 0 means.
    if let Some(codecs) = document.get("codecs").and_then(inner_chunks) {
        document = with_member(&document, "codecs", codecs);
    }
    if let Some(grid) = regular_grid(&document, &mut moves_chunks) {
        document = with_member(&document, "chunk_grid", grid);
    }
    if let Some(grid) = document.get("chunk_grid").and_then(rectilinear_grid) {
        document = with_member(&document, "chunk_grid", grid);
    }
    Repaired { document, moves_chunks }
}

fn with_member(document: &Arc<Json>, member: &str, value: Json) -> Arc<Json> {
    let mut document = Json::clone(document);
    document.set(member, value);
    document.into()
}

/// Reads a list of lengths.
fn lengths(json: Option<&Json>) -> Option<Vec<u64>> {
    json?.as_array()?.iter().map(|length| length.as_integer::<u64>()).collect()
}

/// A repaired chunk shape, for an array of this shape.
///
/// `units` are the chunks in shards, if there are any; repaired lengths are multiples of these.
/// Returns `None` if nothing is wrong, or if the meaning is unknown.
fn chunk_shape(json: &Json, shape: &[u64], units: &[u64], moves_chunks: &mut bool) -> Option<Json> {
    let stored = json.as_array().filter(|stored| stored.len() == shape.len())?;
    let (mut read, mut wrong, mut moves) = (Vec::with_capacity(stored.len()), false, false);
    for (axis, size) in stored.iter().enumerate() {
        read.push(match (size, size.as_integer::<u64>()) {
            (Json::Bool(true), _) => {
                wrong = true;
                1u64.into()
            }
            (Json::Bool(false), _) | (_, Some(0)) => {
                (wrong, moves) = (true, true);
                units.get(axis).copied().unwrap_or(1).into()
            }
            (_, Some(_)) => size.clone(),
            (Json::Array(edges), _) if !edges.iter().any(|edge| edge.as_array().is_some()) => size.clone(),
            _ => return None,
        });
    }
    *moves_chunks |= moves;
    wrong.then_some(Json::Array(read))
}

/// A list of codecs in which `true` among the lengths of chunks in shards is repaired.
fn inner_chunks(json: &Json) -> Option<Json> {
    let mut codecs = Cow::Borrowed(json.as_array()?);
    for at in 0..codecs.len() {
        let Some(codec) = codecs.get(at).filter(|codec| sharding::is_sharding(codec)) else { continue };
        let Some(configuration) = codec.get("configuration") else { continue };
        let shape = configuration.get("chunk_shape").and_then(trues);
        let inside = configuration.get("codecs").and_then(inner_chunks);
        if shape.is_none() && inside.is_none() {
            continue;
        }
        let mut configuration = configuration.clone();
        for (member, value) in [("chunk_shape", shape), ("codecs", inside)] {
            if let Some(value) = value {
                configuration.set(member, value);
            }
        }
        let mut codec = codec.clone();
        codec.set("configuration", configuration);
        if let Some(slot) = codecs.to_mut().get_mut(at) {
            *slot = codec;
        }
    }
    match codecs {
        Cow::Borrowed(_) => None,
        Cow::Owned(codecs) => Some(Json::Array(codecs)),
    }
}

/// A list of lengths in which `true` becomes 1.
fn trues(json: &Json) -> Option<Json> {
    let stored = json.as_array()?;
    let one = |size: &Json| if matches!(size, Json::Bool(true)) { 1u64.into() } else { size.clone() };
    stored.contains(&Json::Bool(true)).then(|| Json::Array(stored.iter().map(one).collect()))
}

/// A repaired `regular` grid. If some, but not all, axes have lists of edges, it becomes a
/// rectilinear grid.
fn regular_grid(document: &Json, moves_chunks: &mut bool) -> Option<Json> {
    let grid = document.get("chunk_grid").filter(|grid| is_named(grid, "regular"))?;
    let stored = grid.get("configuration")?.get("chunk_shape")?;
    let shape = lengths(document.get("shape"))?;
    let units = inner_shape(document.get("codecs"))?;
    let repaired = chunk_shape(stored, &shape, &units, moves_chunks);
    let axes = repaired.as_ref().unwrap_or(stored).as_array().filter(|axes| axes.len() == shape.len())?;
    let lists = axes.iter().filter(|axis| axis.as_array().is_some()).count();
    if lists == 0 {
        let mut grid = grid.clone();
        grid.get_mut("configuration")?.set("chunk_shape", repaired?);
        return Some(grid);
    }
    let flat = |axis: &Json| axis.as_array().is_none_or(|edges| edges.iter().all(|e| e.as_array().is_none()));
    // Only mixtures were ever stored.
    if lists == axes.len() || !axes.iter().all(flat) {
        return None;
    }
    *moves_chunks = true;
    let edges = Json::Array(axes.to_vec());
    Some(Json::named("rectilinear", [("kind", "inline".into()), ("chunk_shapes", edges)]))
}

/// The lengths of the chunks in shards, empty without shards. `None` if they cannot be known.
fn inner_shape(codecs: Option<&Json>) -> Option<Vec<u64>> {
    let mut codecs = codecs.and_then(Json::as_array).unwrap_or_default().iter();
    let Some(sharding) = codecs.find(|codec| sharding::is_sharding(codec)) else { return Some(Vec::new()) };
    let inner = lengths(sharding.get("configuration")?.get("chunk_shape"))?;
    (!inner.contains(&0)).then_some(inner)
}

/// A `rectilinear` grid whose edges are integers.
fn rectilinear_grid(grid: &Json) -> Option<Json> {
    let stored = Some(grid).filter(|grid| is_named(grid, "rectilinear"))?.get("configuration")?;
    let stored = stored.get("chunk_shapes")?;
    let edge = |json: &Json| match json {
        Json::Bool(true) => 1u64.into(),
        Json::Number(text) if json.as_integer::<i128>().is_none() => match text.parse::<f64>() {
            // Larger floats are no lengths.
            Ok(size) if size.fract() == 0.0 && (1.0..9e15).contains(&size) => {
                Json::Number(format!("{size:.0}").into())
            }
            _ => json.clone(),
        },
        _ => json.clone(),
    };
    let run = |json: &Json| match json.as_array() {
        Some([size, count]) => Json::Array(vec![edge(size), count.clone()]),
        _ => edge(json),
    };
    let axis = |json: &Json| match json.as_array() {
        Some(edges) => Json::Array(edges.iter().map(run).collect()),
        None => json.clone(),
    };
    let read = Json::Array(stored.as_array()?.iter().map(axis).collect());
    if &read == stored {
        return None;
    }
    let mut grid = grid.clone();
    grid.get_mut("configuration")?.set("chunk_shapes", read);
    Some(grid)
}

fn is_named(extension: &Json, name: &str) -> bool {
    extension.get("name").and_then(Json::as_str) == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    fn read(repair: fn(&Arc<Json>) -> Repaired, text: &str) -> (String, bool) {
        let Repaired { document, moves_chunks } = repair(&json(text).into());
        (document.to_text(None), moves_chunks)
    }

    #[test]
    fn chunks_of_v2() {
        for (shape, stored, meant, moves) in [
            ("[8]", "[0]", "[1]", true),
            ("[0, 3]", "[0, 3]", "[1, 3]", true),
            ("[8]", "[true]", "[1]", false),
            ("[8]", "[false]", "[1]", true),
            ("[8]", "[3]", "[3]", false),
            ("[8]", "[-1]", "[-1]", false),
            ("[8]", "[0.5]", "[0.5]", false),
            ("[8]", "[0, 0]", "[0, 0]", false),
            ("[8, 8]", "[0, \"a\"]", "[0, \"a\"]", false),
            ("3", "[0]", "[0]", false),
        ] {
            let document = |chunks: &str| format!(r#"{{"shape": {shape}, "chunks": {chunks}}}"#);
            assert_eq!(read(v2, &document(stored)), (document(meant), moves), "{shape} {stored}");
        }
    }

    #[test]
    fn grids_of_v3() {
        let regular =
            |shape: &str| format!(r#"{{"name": "regular", "configuration": {{"chunk_shape": {shape}}}}}"#);
        let rectilinear = |edges: &str| {
            format!(
                r#"{{"name": "rectilinear", "configuration": {{"kind": "inline", "chunk_shapes": {edges}}}}}"#
            )
        };
        let sharding = |inner: &str| {
            format!(
                r#"{{"name": "sharding_indexed", "configuration": {{"chunk_shape": {inner}, "codecs": []}}}}"#
            )
        };
        let nested = sharding("[true]").replace("[]", &format!("[{}]", sharding("[true]")));
        for (shape, codecs, stored, meant, moves) in [
            ("[8]", "", regular("[0]"), regular("[1]"), true),
            ("[0]", &sharding("[4]"), regular("[0]"), regular("[4]"), true),
            ("[0]", &sharding("[0]"), regular("[0]"), regular("[0]"), false),
            ("[0]", &nested, regular("[0]"), regular("[1]"), true),
            ("[8, 8]", "", regular("[true, 3]"), regular("[1, 3]"), false),
            ("[6, 20]", "", regular("[2, [5, 10, 5]]"), rectilinear("[2, [5, 10, 5]]"), true),
            ("[6, 3]", "", regular("[0, [true, 2.0]]"), rectilinear("[1, [1, 2]]"), true),
            ("[6]", "", regular("[[5, 1]]"), regular("[[5, 1]]"), false),
            ("[6, 6]", "", regular("[3, [[3, 2]]]"), regular("[3, [[3, 2]]]"), false),
            ("[6]", "", rectilinear("[[true, [2.0, 2], 1]]"), rectilinear("[[1, [2, 2], 1]]"), false),
            ("[6]", "", rectilinear("[[2.5, 1e300]]"), rectilinear("[[2.5, 1e300]]"), false),
            ("[6]", "", rectilinear("true"), rectilinear("true"), false),
        ] {
            let document = |grid: &str, codecs: &str| {
                format!(r#"{{"shape": {shape}, "chunk_grid": {grid}, "codecs": [{codecs}]}}"#)
            };
            let codecs_meant = codecs.replace("true", "1");
            let found = read(v3, &document(&stored, codecs));
            assert_eq!(found, (document(&meant, &codecs_meant), moves), "{shape} {stored}");
        }
    }
}
