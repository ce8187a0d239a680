//! Chunk grids of v3: `regular` and `rectilinear`.
//!
//! In a rectilinear grid, chunks may have different lengths along an axis.
//!
//! * Specification: <https://github.com/zarr-developers/zarr-extensions/tree/main/chunk-grids/rectilinear>
//!
//! ```json
//! {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [[3, [4, 2], 1], 5]}}
//! ```
//!
//! Here chunks have 3, 4, 4 and 1 elements along the first axis, and 5 along the second. The last
//! chunks of an axis may reach past the array's end or lie entirely past it, as a resize leaves
//! them.

use crate::error::{Problem, invalid, unexpected_value, unsupported};
use crate::format::extension::Extension;
use crate::json::Json;
use crate::metadata::{MAX_RANK, chunk_sizes};
use hyperslab_array::{ChunkGrid, Dims};

/// The most chunk shapes that are all listed. Making the codecs of one shape takes about 10 µs.
const MOST_SHAPES: usize = 1024;

/// The chunks along an axis of a rectilinear grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AxisChunks {
    /// All of this many elements.
    Every(u64),
    /// Runs of equally long chunks: elements of each chunk, and the number of chunks.
    Runs(Vec<(u64, u64)>),
}

/// The chunks of an array, as in metadata.
#[derive(Clone, Debug)]
pub(crate) struct GridMetadata {
    /// Elements of a chunk per axis. In a rectilinear grid, of the largest possible chunk.
    pub(crate) chunk: Dims,
    /// The axes of a rectilinear grid, with all chunks, also those past the array's end.
    pub(crate) axes: Option<Vec<AxisChunks>>,
}

impl AxisChunks {
    /// Chunks of these lengths.
    pub fn of(lengths: impl IntoIterator<Item = u64>) -> Self {
        AxisChunks::from_runs(lengths.into_iter().map(|length| (length, 1)))
    }

    /// Parses the axes as metadata lists them: `[[3, [4, 2], 1], 5]`.
    ///
    /// The error is a text.
    pub fn list_from_json(json: &Json) -> Result<Vec<Self>, String> {
        Self::list(json).map_err(Problem::text)
    }

    fn list(json: &Json) -> Result<Vec<Self>, Problem> {
        match json {
            Json::Array(axes) if axes.len() <= MAX_RANK => {
                axes.iter().enumerate().map(|(axis, json)| AxisChunks::parse(axis, json)).collect()
            }
            other => unexpected_value("chunk_grid: chunk_shapes", "a list, one item per axis", other),
        }
    }

    /// Joins neighbouring runs of the same length.
    fn from_runs(runs: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut all: Vec<(u64, u64)> = Vec::new();
        for (size, count) in runs {
            match all.last_mut() {
                Some((last, counted)) if *last == size => *counted = counted.saturating_add(count),
                _ => all.push((size, count)),
            }
        }
        AxisChunks::Runs(all)
    }

    fn parse(axis: usize, json: &Json) -> Result<Self, Problem> {
        let positive = |json: &Json| match json.as_integer::<i64>().and_then(|n| u64::try_from(n).ok()) {
            Some(n @ 1..) => Ok(n),
            _ => unexpected_value(
                &format!("chunk_grid: chunk_shapes: axis {axis}"),
                "integers from 1 to 2⁶³ - 1, and pairs of them (elements, chunks)",
                json,
            ),
        };
        let Json::Array(items) = json else { return positive(json).map(AxisChunks::Every) };
        let runs = items.iter().map(|item| match item {
            Json::Array(pair) => match pair.as_slice() {
                [size, count] => Ok((positive(size)?, positive(count)?)),
                _ => positive(item).map(|n| (n, 1)),
            },
            size => Ok((positive(size)?, 1)),
        });
        match runs.collect::<Result<Vec<_>, _>>()? {
            runs if runs.is_empty() => invalid!("chunk_grid: chunk_shapes: axis {axis} has no chunks"),
            runs => Ok(AxisChunks::from_runs(runs)),
        }
    }

    fn to_json(&self) -> Json {
        match self {
            AxisChunks::Every(size) => (*size).into(),
            AxisChunks::Runs(runs) => Json::Array(
                runs.iter()
                    .map(|(size, count)| match count {
                        1 => (*size).into(),
                        _ => [*size, *count].as_slice().into(),
                    })
                    .collect(),
            ),
        }
    }

    /// The length of each run.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = u64> {
        let (every, runs) = match self {
            AxisChunks::Every(size) => (Some(*size), &[][..]),
            AxisChunks::Runs(runs) => (None, runs.as_slice()),
        };
        every.into_iter().chain(runs.iter().map(|(size, _)| *size))
    }

    /// Elements that the chunks cover, or `None` if unlimited, or too many for 64 bits.
    fn covered_len(&self) -> Option<u64> {
        match self {
            AxisChunks::Every(_) => None,
            AxisChunks::Runs(runs) => {
                runs.iter().try_fold(0u64, |sum, (size, count)| sum.checked_add(size.checked_mul(*count)?))
            }
        }
    }

    /// Returns `true` if one axis has the first chunks of the other: a resize adds chunks.
    fn begins_as(&self, other: &Self) -> bool {
        let (AxisChunks::Runs(ours), AxisChunks::Runs(theirs)) = (self, other) else { return self == other };
        let (short, long) = if ours.len() <= theirs.len() { (ours, theirs) } else { (theirs, ours) };
        let Some(((size, count), before)) = short.split_last() else { return true };
        long.get(..before.len()) == Some(before)
            && long
                .get(before.len())
                .is_some_and(|(other, more)| size == other && (count <= more || long.len() == short.len()))
    }

    /// The chunks after a resize. If they do not cover the new extent, one chunk is added.
    fn after_resize(&self, extent: u64) -> Self {
        match (self, self.covered_len().and_then(|covered| extent.checked_sub(covered))) {
            (AxisChunks::Runs(runs), Some(more @ 1..)) => {
                AxisChunks::from_runs(runs.iter().copied().chain([(more, 1)]))
            }
            _ => self.clone(),
        }
    }

    /// The chunks that have an element of an axis of this extent, but at least one.
    fn runs(&self, extent: u64) -> Vec<(u64, u64)> {
        let runs = match self {
            AxisChunks::Every(size) => return vec![(*size, extent.div_ceil(*size).max(1))],
            AxisChunks::Runs(runs) => runs,
        };
        let (mut needed, mut start) = (Vec::new(), 0u64);
        for (size, count) in runs.iter().copied() {
            if start >= extent && !needed.is_empty() {
                break;
            }
            // At most `count`, and no more than needed.
            let count = count.min((extent - start.min(extent)).div_ceil(size.max(1)).max(1));
            needed.push((size, count));
            start = start.saturating_add(size.saturating_mul(count));
        }
        needed
    }
}

impl GridMetadata {
    /// A regular grid.
    pub(crate) fn regular(chunk: Dims) -> Self {
        GridMetadata { chunk, axes: None }
    }

    pub(crate) fn parse(json: &Json, shape: &[u64]) -> Result<Self, Problem> {
        let grid = Extension::parse("chunk_grid", json)?;
        match grid.name {
            "regular" => {
                grid.allow_only(&["chunk_shape"])?;
                let chunk = chunk_sizes("chunk_grid: chunk_shape", grid.require("chunk_shape")?, shape)?;
                Ok(GridMetadata::regular(chunk))
            }
            "rectilinear" => {
                grid.allow_only(&["kind", "chunk_shapes"])?;
                match grid.require("kind")? {
                    Json::String(kind) if kind == "inline" => {}
                    other => return unexpected_value("chunk_grid: kind", "\"inline\"", other),
                }
                Self::rectilinear(AxisChunks::list(grid.require("chunk_shapes")?)?, shape)
            }
            name => {
                unsupported!("chunk grid \"{name}\" is not supported (supported: regular, rectilinear)")
            }
        }
    }

    /// A rectilinear grid of an array of `shape`.
    pub(crate) fn rectilinear(axes: Vec<AxisChunks>, shape: &[u64]) -> Result<Self, Problem> {
        if axes.len() != shape.len() {
            return invalid!(
                "chunk_grid: chunk_shapes: expected {} axes as in shape, found {}",
                shape.len(),
                axes.len()
            );
        }
        let mut chunk = Dims::new();
        for (axis, (chunks, extent)) in axes.iter().zip(shape).enumerate() {
            if let AxisChunks::Runs(runs) = chunks {
                if runs.iter().any(|(size, count)| *size == 0 || *count == 0) || runs.is_empty() {
                    return invalid!(
                        "chunk_grid: chunk_shapes: axis {axis}: expected at least one chunk, and chunks of \
                         at least one element"
                    );
                }
                match chunks.covered_len() {
                    None => {
                        return invalid!(
                            "chunk_grid: chunk_shapes: axis {axis}: the chunks cover more than 2⁶⁴ - 1 elements"
                        );
                    }
                    Some(covered) if covered < *extent => {
                        return invalid!(
                            "chunk_grid: chunk_shapes: axis {axis}: the chunks cover {covered} elements, the array \
                             has {extent}"
                        );
                    }
                    Some(_) => {}
                }
            }
            chunk.push(chunks.runs(*extent).iter().map(|(size, _)| *size).max().unwrap_or(1));
        }
        Ok(GridMetadata { chunk, axes: Some(axes) })
    }

    /// The shapes of chunks, also of those past the array's end.
    ///
    /// If there are more than `MOST_SHAPES`, lists one shape for each length along an axis.
    pub(crate) fn shapes(axes: &[AxisChunks]) -> Vec<Dims> {
        let distinct = |axis: &AxisChunks| {
            let mut lengths: Vec<u64> = axis.lengths().collect();
            lengths.sort_unstable();
            lengths.dedup();
            lengths
        };
        let lengths: Vec<Vec<u64>> = axes.iter().map(distinct).collect();
        let all = lengths.iter().try_fold(1usize, |all, lengths| all.checked_mul(lengths.len()));
        if all.is_some_and(|all| all <= MOST_SHAPES) {
            return lengths.iter().fold(vec![Dims::new()], |shapes, lengths| {
                let longer = |shape: Dims| {
                    lengths.iter().map(move |length| shape.iter().copied().chain([*length]).collect())
                };
                shapes.into_iter().flat_map(longer).collect()
            });
        }
        let first: Dims = lengths.iter().filter_map(|lengths| lengths.first().copied()).collect();
        let with = |(axis, lengths): (usize, &Vec<u64>)| {
            let mut shapes = vec![first.clone(); lengths.len()];
            for (shape, length) in shapes.iter_mut().zip(lengths) {
                shape.iter_mut().skip(axis).take(1).for_each(|old| *old = *length);
            }
            shapes
        };
        lengths.iter().enumerate().flat_map(with).collect()
    }

    /// Finds the first shard that inner chunks of this shape do not divide.
    ///
    /// As in zarr-python, shards past the array's end count too. Returns the axis, the shard's
    /// length and the length of the inner chunks.
    pub(crate) fn undivided_shard(axes: &[AxisChunks], inner: &[u64]) -> Option<(usize, u64, u64)> {
        axes.iter().zip(inner).enumerate().find_map(|(axis, (shards, inner))| {
            let length = shards.lengths().find(|length| length % inner != 0)?;
            Some((axis, length, *inner))
        })
    }

    /// Fails if inner chunks of this shape do not divide all shards.
    pub(crate) fn check_divided(axes: &[AxisChunks], inner: &[u64]) -> Result<(), Problem> {
        match Self::undivided_shard(axes, inner) {
            None => Ok(()),
            Some((axis, length, inner)) => invalid!(
                "chunk_grid: chunk_shapes: axis {axis}: shards must be whole inner chunks of {inner} \
                 elements, found a shard of {length}"
            ),
        }
    }

    /// The metadata of a grid. `objects` is the shape of objects in a regular grid.
    pub(crate) fn to_json(axes: Option<&[AxisChunks]>, objects: Json) -> Json {
        match axes {
            None => Json::named("regular", [("chunk_shape", objects)]),
            Some(axes) => {
                let axes = Json::Array(axes.iter().map(AxisChunks::to_json).collect());
                Json::named("rectilinear", [("kind", "inline".into()), ("chunk_shapes", axes)])
            }
        }
    }

    /// The axes of a rectilinear grid after a resize.
    ///
    /// As in zarr-python, chunks past the end stay, and one more chunk covers the new part.
    pub(crate) fn after_resize(axes: &[AxisChunks], shape: &[u64]) -> Vec<AxisChunks> {
        axes.iter().zip(shape).map(|(axis, extent)| axis.after_resize(*extent)).collect()
    }

    /// Returns `true` if both grids are rectilinear and one starts with all chunks of the other.
    pub(crate) fn one_is_longer(one: &Json, other: &Json) -> bool {
        let axes = |grid: &Json| {
            let grid = Extension::parse("chunk_grid", grid).ok().filter(|grid| grid.name == "rectilinear")?;
            AxisChunks::list(grid.get("chunk_shapes")?).ok()
        };
        match (axes(one), axes(other)) {
            (Some(one), Some(other)) => {
                one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| one.begins_as(other))
            }
            _ => false,
        }
    }

    /// The engine's grid, or `None` if all chunks have one shape.
    ///
    /// The error is a text: chunks end after the largest possible index.
    pub(crate) fn engine(axes: &[AxisChunks], shape: &[u64]) -> Result<Option<ChunkGrid>, String> {
        if axes.iter().all(|axis| matches!(axis, AxisChunks::Every(_))) {
            return Ok(None);
        }
        let axes: Vec<_> = axes.iter().zip(shape).map(|(axis, extent)| axis.runs(*extent)).collect();
        let grid = ChunkGrid::rectilinear(&axes);
        grid.map(Some).ok_or("chunk_grid: the chunks of an axis end after element 2⁶³ - 1".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::json;

    fn grid(chunk_shapes: &str, shape: &[u64]) -> Result<GridMetadata, String> {
        let text = format!(
            r#"{{"name": "rectilinear", "configuration": {{"kind": "inline", "chunk_shapes": {chunk_shapes}}}}}"#
        );
        GridMetadata::parse(&json(&text), shape).map_err(Problem::text)
    }

    #[test]
    fn shapes_of_chunks() {
        let shapes = |axes: &[&[(u64, u64)]]| {
            let axes: Vec<_> = axes.iter().map(|runs| AxisChunks::Runs(runs.to_vec())).collect();
            GridMetadata::shapes(&axes)
        };
        let found = shapes(&[&[(1, 1), (5, 3), (1, 2)], &[(2, 1), (3, 1)]]);
        assert_eq!(found, [[1, 2], [1, 3], [5, 2], [5, 3]].map(|shape| Dims::from_slice(&shape)));
        assert_eq!(GridMetadata::shapes(&[AxisChunks::Every(7)]), [Dims::from_slice(&[7])]);
        assert_eq!(GridMetadata::shapes(&[]), [Dims::new()]);
        // Each length along each axis, with the shortest lengths of the other axes.
        let many: Vec<(u64, u64)> = (2..102).map(|size| (size, 1)).collect();
        let found = shapes(&[&many, &many, &[(4, 1)]]);
        assert_eq!(found.len(), 201);
        assert!(
            found.contains(&Dims::from_slice(&[101, 2, 4])) && found.contains(&Dims::from_slice(&[2, 57, 4]))
        );
    }

    #[test]
    fn metadata_and_back() {
        for (text, written, shape, chunk) in [
            ("[[3, [4, 2], 1], 5]", "[[3, [4, 2], 1], 5]", &[12, 9][..], &[4, 5][..]),
            ("[[2, 2, [2, 3], 1]]", "[[[2, 5], 1]]", &[11], &[2]),
            // Chunks past the end are kept, but do not count.
            ("[[2, 1, [9, 4611686018427387904]]]", "[[2, 1, [9, 4611686018427387904]]]", &[3], &[2]),
            ("[[1, [2, 4611686018427387904]]]", "[[1, [2, 4611686018427387904]]]", &[1 << 62], &[2]),
            ("[[7], [1]]", "[[7], [1]]", &[0, 1], &[7, 1]),
            ("[]", "[]", &[], &[]),
        ] {
            let grid = match grid(text, shape) {
                Err(why) => {
                    // 9 · 2⁶² elements are too many.
                    assert!(why.contains("more than") && text.contains("[9"), "{text}: {why}");
                    continue;
                }
                Ok(grid) => grid,
            };
            assert_eq!(grid.chunk.as_slice(), chunk);
            let axes = grid.axes.unwrap();
            let found = GridMetadata::to_json(Some(&axes), Json::Null);
            assert_eq!(found.get("configuration").unwrap().get("chunk_shapes"), Some(&json(written)));
            if let Some(engine) = GridMetadata::engine(&axes, shape).unwrap() {
                assert_eq!(engine.chunk_shape(), chunk, "{text}");
                assert!(engine.counts(shape).iter().zip(shape).all(|(n, extent)| n <= extent));
            }
        }
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        for (text, shape, part) in [
            ("[[3, 0]]", &[3][..], "integers from 1"),
            ("[[3, -1]]", &[3], "integers from 1"),
            ("[[3, [1, 0]]]", &[3], "integers from 1"),
            ("[[3, [1, 2, 3]]]", &[3], "integers from 1"),
            ("[[3, 1.5]]", &[3], "integers from 1"),
            ("[0]", &[3], "integers from 1"),
            ("[\"3\"]", &[3], "integers from 1"),
            ("[[]]", &[3], "no chunks"),
            ("[[2]]", &[3], "cover 2 elements, the array has 3"),
            ("[[3], [3]]", &[3], "expected 1 axes"),
            ("3", &[3], "a list"),
            ("[[[4611686018427387904, 9]]]", &[3], "more than 2⁶⁴ - 1"),
            ("[[[1, 9223372036854775808]]]", &[3], "integers from 1"),
        ] {
            let why = grid(text, shape).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
        let kind =
            json(r#"{"name": "rectilinear", "configuration": {"kind": "external", "chunk_shapes": []}}"#);
        assert!(GridMetadata::parse(&kind, &[]).unwrap_err().text().contains("inline"));
    }

    #[test]
    fn a_resize_appends_one_chunk() {
        let axis = AxisChunks::of([3, 4, 4]);
        assert_eq!(axis, AxisChunks::Runs(vec![(3, 1), (4, 2)]));
        assert_eq!(axis.after_resize(2), axis);
        assert_eq!(axis.after_resize(11), axis);
        assert_eq!(axis.after_resize(13), AxisChunks::Runs(vec![(3, 1), (4, 2), (2, 1)]));
        assert_eq!(axis.after_resize(15), AxisChunks::of([3, 4, 4, 4]));
        assert_eq!(AxisChunks::Every(3).after_resize(100), AxisChunks::Every(3));
    }
}
