//! Absent chunks: how many, which, and a map of them. Decodes nothing.

use crate::{Dims, Json};
use std::collections::HashSet;

/// Absent chunks that are listed, for each array.
const LISTED: usize = 1000;

/// The most rows and columns of a map. A terminal has 80 columns and room for some arrays.
const IN_TEXT: (u64, u64) = (16, 64);

/// The most rows and columns of a map in a picture. Each array needs 4 MB of memory.
const IN_PICTURE: (u64, u64) = (512, 512);

/// The absent chunks of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingChunks {
    /// Path of the array, with a leading `/`.
    pub path: String,
    /// "chunk", or "shard" if the chunks in shards cannot be counted without decoding.
    pub unit: &'static str,
    /// Chunks per axis.
    pub grid: Vec<u64>,
    /// Number of chunks of the grid.
    pub total: u64,
    /// Number of absent ones.
    pub absent: u64,
    /// The first 1000 absent ones, in C order.
    pub first: Vec<Vec<u64>>,
    /// A map of the grid for a terminal.
    pub map: ChunkMap,
    /// A map with more cells, if a picture is wanted.
    pub large: Option<ChunkMap>,
}

/// A map of a grid: how many chunks of each cell are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkMap {
    /// The axes that go down and across. Down: `None` for arrays of fewer than two axes.
    pub axes: (Option<usize>, Option<usize>),
    /// Rows of cells: chunks stored, and chunks of the grid.
    pub rows: Vec<Vec<(u64, u64)>>,
}

/// Collects the stored chunks of an array.
pub(super) struct StoredChunks {
    grid: Vec<u64>,
    total: u64,
    /// The stored chunks, by number in C order.
    numbers: HashSet<u64>,
}

impl StoredChunks {
    /// `grid`: chunks per axis.
    pub fn new(grid: &[u64]) -> Self {
        let total = grid.iter().fold(1, |total: u64, count| total.saturating_mul(*count));
        StoredChunks { grid: grid.to_vec(), total, numbers: HashSet::new() }
    }

    /// Adds a stored chunk. Chunks outside the grid do not count.
    pub fn add(&mut self, chunk: &[u64]) {
        if chunk.len() == self.grid.len() && chunk.iter().zip(&self.grid).all(|(at, count)| at < count) {
            let number = chunk
                .iter()
                .zip(&self.grid)
                .fold(0, |n: u64, (at, count)| n.wrapping_mul(*count).wrapping_add(*at));
            self.numbers.insert(number);
        }
    }

    /// `picture`: with a large map.
    pub fn finish(self, path: &str, unit: &'static str, picture: bool) -> MissingChunks {
        let StoredChunks { grid, total, numbers } = self;
        let absent = total.saturating_sub(numbers.len() as u64);
        let place = |mut number: u64| -> Vec<u64> {
            let mut place = vec![0; grid.len()];
            for (at, count) in place.iter_mut().zip(&grid).rev() {
                *at = number % (*count).max(1);
                number /= (*count).max(1);
            }
            place
        };
        let first = if absent == 0 {
            Vec::new()
        } else {
            (0..total).filter(|number| !numbers.contains(number)).take(LISTED).map(place).collect()
        };
        let map = |most| ChunkMap::of(&grid, most, numbers.iter().map(|number| place(*number)));
        let (map, large) = (map(IN_TEXT), picture.then(|| map(IN_PICTURE)));
        let path = format!("/{}", path.trim_matches('/'));
        MissingChunks { path, unit, grid, total, absent, first, map, large }
    }
}

impl ChunkMap {
    /// `most`: rows and columns.
    fn of(grid: &[u64], most: (u64, u64), stored: impl Iterator<Item = Vec<u64>>) -> ChunkMap {
        // The two axes with the most chunks, in their order. Axes of one chunk show nothing.
        let is_cut = |axis: &usize| grid.get(*axis).is_some_and(|count| *count != 1);
        let mut longest: Vec<usize> = (0..grid.len()).filter(is_cut).collect();
        longest.sort_by_key(|axis| std::cmp::Reverse(grid.get(*axis).copied()));
        longest.truncate(2);
        longest.sort_unstable();
        let axes = match longest.as_slice() {
            [] => (None, None),
            [only] => (None, Some(*only)),
            [down, across, ..] => (Some(*down), Some(*across)),
        };
        let count = |axis: Option<usize>| axis.and_then(|axis| grid.get(axis).copied()).unwrap_or(1);
        let (down, across) = (count(axes.0), count(axes.1));
        let (rows, columns) = (down.min(most.0), across.min(most.1));
        let others = grid
            .iter()
            .enumerate()
            .filter(|(axis, _)| Some(*axis) != axes.0 && Some(*axis) != axes.1)
            .fold(1, |n: u64, (_, count)| n.saturating_mul(*count));
        // The first chunk of a cell, along an axis of `of` chunks in `cells` cells.
        let start = |cell: u64, of: u64, cells: u64| {
            (u128::from(cell) * u128::from(of) / u128::from(cells.max(1))) as u64
        };
        let len = |cell: u64, of: u64, cells: u64| start(cell + 1, of, cells) - start(cell, of, cells);
        let mut all: Vec<Vec<(u64, u64)>> = (0..rows)
            .map(|row| {
                let height = len(row, down, rows);
                let cell =
                    |column| (0, height.saturating_mul(len(column, across, columns)).saturating_mul(others));
                (0..columns).map(cell).collect()
            })
            .collect();
        // The last cell that begins at or before a chunk.
        let cell_of = |at: u64, of: u64, cells: u64| {
            let guess = (u128::from(at) * u128::from(cells) / u128::from(of.max(1))) as u64;
            if guess + 1 < cells && start(guess + 1, of, cells) <= at { guess + 1 } else { guess }
        };
        for chunk in stored {
            let at = |axis: Option<usize>| axis.and_then(|axis| chunk.get(axis).copied()).unwrap_or(0);
            let (row, column) = (cell_of(at(axes.0), down, rows), cell_of(at(axes.1), across, columns));
            if let Some(cell) = all.get_mut(row as usize).and_then(|row| row.get_mut(column as usize)) {
                cell.0 += 1;
            }
        }
        ChunkMap { axes, rows: all }
    }

    /// The map as lines of text: `█` all stored, `▓` `▒` `░` a part, `·` none.
    pub fn lines(&self) -> Vec<String> {
        let sign = |(stored, total): &(u64, u64)| match (*stored, *total) {
            (0, _) => '·',
            (stored, total) if stored >= total => '█',
            (stored, total) => match u128::from(stored) * 3 / u128::from(total) {
                0 => '░',
                1 => '▒',
                _ => '▓',
            },
        };
        self.rows.iter().map(|row| row.iter().map(sign).collect()).collect()
    }
}

impl MissingChunks {
    /// As a JSON object.
    pub fn to_json(&self) -> Json {
        let cell = |(stored, total): &(u64, u64)| Json::Array(vec![(*stored).into(), (*total).into()]);
        let rows = self.map.rows.iter().map(|row| Json::Array(row.iter().map(cell).collect()));
        Json::from([
            ("path", self.path.as_str().into()),
            ("unit", self.unit.into()),
            ("grid", self.grid.as_slice().into()),
            ("total", self.total.into()),
            ("absent", self.absent.into()),
            ("first", Json::Array(self.first.iter().map(|chunk| chunk.as_slice().into()).collect())),
            ("map", Json::Array(rows.collect())),
        ])
    }
}

/// Collects the stored objects of an array.
pub(super) fn of_objects(grid: &[u64], places: &[Dims]) -> StoredChunks {
    let mut stored = StoredChunks::new(grid);
    places.iter().for_each(|place| stored.add(place));
    stored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(grid: &[u64], stored: &[&[u64]]) -> MissingChunks {
        let places: Vec<Dims> = stored.iter().map(|chunk| Dims::from(*chunk)).collect();
        of_objects(grid, &places).finish("a", "chunk", false)
    }

    #[test]
    fn absent_chunks_are_counted_and_listed() {
        let found = missing(&[2, 3], &[&[0, 1], &[1, 2], &[0, 1], &[2, 0]]);
        assert_eq!((found.total, found.absent, found.path.as_str()), (6, 4, "/a"));
        assert_eq!(found.first, [[0, 0], [0, 2], [1, 0], [1, 1]]);
        assert_eq!(found.map.lines(), ["·█·", "··█"]);
        assert_eq!(missing(&[1, 3, 1], &[&[0, 1, 0]]).map.lines(), ["·█·"]);
        let whole = missing(&[], &[&[]]);
        assert_eq!((whole.total, whole.absent, whole.map.lines()), (1, 0, vec!["█".to_owned()]));
        let none = missing(&[0, 3], &[]);
        assert_eq!((none.total, none.absent, none.first.len()), (0, 0, 0));
    }

    #[test]
    fn large_grids_need_little() {
        let found = missing(&[1 << 40, 3, 1 << 20], &[&[0, 0, 0], &[(1 << 40) - 1, 2, (1 << 20) - 1]]);
        assert_eq!((found.first.len(), found.absent), (1000, (3 << 60) - 2));
        let lines = found.map.lines();
        assert_eq!((lines.len(), lines[0].chars().count()), (16, 64));
        assert!(lines[0].starts_with('░') && lines[15].ends_with('░'));
        let overflow = missing(&[u64::MAX, u64::MAX], &[&[5, 5]]);
        assert_eq!(overflow.total, u64::MAX);
    }

    #[test]
    fn each_chunk_is_in_the_cell_that_counts_it() {
        for across in [1, 63, 64, 65, 100, 1000] {
            let chunks: Vec<Vec<u64>> = (0..across).map(|at| vec![at]).collect();
            let chunks: Vec<&[u64]> = chunks.iter().map(Vec::as_slice).collect();
            let found = missing(&[across], &chunks);
            assert!(found.map.rows.iter().flatten().all(|(stored, total)| stored == total), "{across}");
        }
    }
}
