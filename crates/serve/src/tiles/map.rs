//! An array as a map: which elements the pixels of a tile show.

use super::line::{Line, Place};
use super::mercator::{Tile, zoom_for};
use hyperslab::look::{ColorMap, NumberReader, Part, Picture, PictureOptions, Reader, Window};
use hyperslab::meaning::{Axis, AxisKind, Level, Pyramid};
use hyperslab::{Array, Error, Result};

/// The most coordinates of an axis: 10 m along the equator.
const MOST_COORDINATES: u64 = 4_000_000;
/// The most chunks that are decoded for a tile, of a local store and of one far away. More chunks take
/// seconds. The tile then shows fewer elements, and each for several pixels.
const MOST_CHUNKS: u64 = 2000;
const MOST_REQUESTS: u64 = 512;
/// The most bytes that are decoded for a tile.
const MOST_DECODED: u64 = 256 << 20;

/// An array with latitudes and longitudes.
pub(super) struct Map {
    array: Array,
    window: Window,
    rows: usize,
    columns: usize,
    north: Line,
    east: Line,
    /// Coarser levels of the array. Only if all elements are wanted.
    levels: Vec<Level>,
}

impl Map {
    /// `axes`: with coordinates that are served. `pyramid`: its levels are served, too.
    ///
    /// Fails with [`Error::Options`] if the array has no latitudes and longitudes, each along an axis.
    pub(super) fn new(
        array: &Array,
        mut window: Window,
        axes: &[Axis],
        pyramid: Option<&Pyramid>,
        ask: &dyn Fn() -> bool,
    ) -> Result<Map> {
        let wrong = |why: String| Error::Options(format!("array '{}': {why}", array.name()));
        let find = |kind: AxisKind, what: &str| {
            let found = axes.iter().position(|axis| axis.kind == Some(kind) && axis.coordinate.is_some());
            found.ok_or_else(|| {
                wrong(format!(
                    "a map needs an axis with {what}: coordinates with units of degrees_north and degrees_east"
                ))
            })
        };
        let (rows, columns) =
            (find(AxisKind::Latitude, "latitudes")?, find(AxisKind::Longitude, "longitudes")?);
        let mut is_whole = true;
        for (number, axis) in window.axes.iter_mut().enumerate() {
            if number != rows && number != columns {
                // The first selected index.
                (axis.len, axis.dropped) = (axis.len.min(1), true);
            } else {
                is_whole &= axis.first == 0 && axis.step == 1 && Some(&axis.len) == array.shape().get(number);
                if axis.dropped {
                    return Err(wrong("select: a map needs slices of latitude and longitude".into()));
                }
            }
            if axis.len == 0 {
                return Err(wrong("select: nothing is selected".into()));
            }
        }
        let line = |number: usize| -> Result<Line> {
            let (Some(axis), Some(own)) = (axes.get(number), window.axes.get(number)) else {
                return Err(wrong("no such axis".into()));
            };
            let Some(coordinate) = &axis.coordinate else { return Err(wrong("no coordinates".into())) };
            if own.len > MOST_COORDINATES {
                return Err(wrong(format!("an axis of {} coordinates is too long for a map", own.len)));
            }
            let along = Window { axes: vec![own.clone()] };
            let numbers = NumberReader::of(coordinate, Part::Abs)?;
            let degrees = numbers.doubles(&along.selection(coordinate)?, ask)?;
            let is_longitude = number == columns;
            Line::new(degrees, is_longitude)
                .map_err(|why| wrong(format!("axis {}: {why}", axis.name.as_deref().unwrap_or_default())))
        };
        let (north, east) = (line(rows)?, line(columns)?);
        let mut levels = match (pyramid, is_whole) {
            (Some(pyramid), true) => pyramid.coarser(array),
            _ => Vec::new(),
        };
        let is_plane = |level: &Level| {
            level.factors.iter().enumerate().all(|(axis, by)| axis == rows || axis == columns || *by == 1)
        };
        levels.retain(is_plane);
        Ok(Map { array: array.clone(), window, rows, columns, north, east, levels })
    }

    /// West, south, east and north, in degrees. West is left of east.
    pub(super) fn bounds(&self) -> (f64, f64, f64, f64) {
        let (south, north) = self.north.ends();
        let (west, east) = self.east.ends();
        let turned = (west + 180.0).rem_euclid(360.0) - 180.0;
        let east = turned + (east - west);
        // A map that crosses 180° is on both sides of the world.
        if self.east.is_circle() || east > 180.0 {
            (-180.0, south, 180.0, north)
        } else {
            (turned, south, east, north)
        }
    }

    /// The zoom that shows each element.
    pub(super) fn zoom(&self) -> u32 {
        zoom_for(self.east.step().min(self.north.step()))
    }

    /// The values of a tile's pixels, in rows from north to south. NaN: missing, or outside.
    pub(super) fn values(&self, tile: Tile, linear: bool, ask: &dyn Fn() -> bool) -> Result<Vec<f64>> {
        let (south_north, west_east) = (tile.latitudes(), tile.longitudes());
        let places = |line: &Line, degrees: &[f64]| -> Vec<Option<Place>> {
            degrees.iter().map(|degrees| line.at(*degrees, linear)).collect()
        };
        let mut rows = places(&self.north, &south_north);
        let mut columns = places(&self.east, &west_east);
        let (across_rows, across_columns) = (across(&rows), across(&columns));
        // The coarsest level that still has an element for each pixel.
        let factor = |level: &Level, axis: usize| level.factors.get(axis).copied().unwrap_or(1);
        let fits = |level: &&Level| {
            factor(level, self.rows) <= across_rows.max(1)
                && factor(level, self.columns) <= across_columns.max(1)
        };
        let coarse = self.levels.iter().filter(fits);
        let level = coarse.max_by_key(|level| factor(level, self.rows) * factor(level, self.columns));
        let (mut array, mut window) = (&self.array, self.window.clone());
        if let Some(level) = level {
            let coarser = |line: &Line, axis: usize| {
                let by = usize::try_from(factor(level, axis)).unwrap_or(1);
                let count = level.array.shape().get(axis).copied().unwrap_or(0);
                line.coarser(by, usize::try_from(count).unwrap_or(usize::MAX))
                    .map_err(|why| Error::Options(format!("level '{}': {why}", level.array.name())))
            };
            rows = places(&coarser(&self.north, self.rows)?, &south_north);
            columns = places(&coarser(&self.east, self.columns)?, &west_east);
            for axis in [self.rows, self.columns] {
                if let (Some(own), Some(len)) = (window.axes.get_mut(axis), level.array.shape().get(axis)) {
                    own.len = *len;
                }
            }
            array = &level.array;
        }
        self.thin(array, &window, &mut rows, &mut columns);
        read(array, &window, (self.rows, &rows), (self.columns, &columns), ask)
    }

    /// Moves pixels to fewer elements, until few chunks have to be decoded.
    fn thin(
        &self,
        array: &Array,
        window: &Window,
        rows: &mut [Option<Place>],
        columns: &mut [Option<Place>],
    ) {
        if !array.has_chunks() {
            return;
        }
        let grid = array.layout().grid();
        let size = array.dtype().size() as u64;
        let bytes = array.chunk_shape().iter().fold(size, |bytes, len| bytes.saturating_mul(*len)).max(1);
        let is_far = array.layout().store().cost().waiting_dominates();
        let most = (MOST_DECODED / bytes).min(if is_far { MOST_REQUESTS } else { MOST_CHUNKS }).max(1);
        let touched = |axis: usize, places: &[Option<Place>]| {
            let at = |place: u64| window.axes.get(axis).map_or(0, |own| grid.index_of(axis, own.at(place)));
            let mut chunks: Vec<u64> =
                places.iter().flatten().flat_map(|place| [at(place.first), at(place.second)]).collect();
            chunks.sort_unstable();
            chunks.dedup();
            chunks.len() as u64
        };
        let mut step = 1_u64;
        loop {
            let (down, along) = (touched(self.rows, rows), touched(self.columns, columns));
            if down.saturating_mul(along) <= most || step > 1 << 40 {
                return;
            }
            step *= 2;
            let places: &mut [Option<Place>] = if down >= along { &mut *rows } else { &mut *columns };
            for place in places.iter_mut().flatten() {
                let near = place.first / step * step;
                *place = Place { first: near, second: near, share: 0.0 };
            }
        }
    }

    /// The range of a sample of the elements, without the 2 % at both ends.
    pub(super) fn sampled_range(&self, reader: &Reader<'_>, ask: &dyn Fn() -> bool) -> Result<(f64, f64)> {
        // Without colours a picture makes its range symmetric.
        let colors = ColorMap::Viridis;
        let options =
            PictureOptions { width: 256, height: 256, colors: Some(colors), range: None, robust: true };
        let mut window = self.window.clone();
        for (number, axis) in window.axes.iter_mut().enumerate() {
            axis.dropped = number != self.rows && number != self.columns;
        }
        let picture = Picture::of(reader, &window, &options, ask)?;
        Ok((picture.low, picture.high))
    }
}

/// Elements from one pixel to the next.
fn across(places: &[Option<Place>]) -> u64 {
    let pairs = places.windows(2).filter_map(|pair| match pair {
        [Some(one), Some(other)] => Some(one.first.abs_diff(other.first)),
        _ => None,
    });
    let mut steps: Vec<u64> = pairs.collect();
    // Most pixels, not the one where the earth wraps.
    let middle = steps.len() / 2;
    if steps.is_empty() { 0 } else { *steps.select_nth_unstable(middle).1 }
}

/// Reads the elements at rows and columns, and weighs them.
fn read(
    array: &Array,
    window: &Window,
    (row_axis, rows): (usize, &[Option<Place>]),
    (column_axis, columns): (usize, &[Option<Place>]),
    ask: &dyn Fn() -> bool,
) -> Result<Vec<f64>> {
    let wanted = |places: &[Option<Place>]| {
        let both = |place: &Place| [Some(place.first), (place.share > 0.0).then_some(place.second)];
        let mut wanted: Vec<u64> = places.iter().flatten().flat_map(both).flatten().collect();
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    };
    let (down, along) = (wanted(rows), wanted(columns));
    if down.is_empty() || along.is_empty() {
        return Ok(vec![f64::NAN; rows.len() * columns.len()]);
    }
    let mut lists: Vec<Option<Vec<u64>>> = vec![None; window.axes.len()];
    for (axis, list) in [(row_axis, &down), (column_axis, &along)] {
        if let Some(own) = lists.get_mut(axis) {
            *own = Some(list.clone());
        }
    }
    let selection = window.selection_of(array, &lists)?;
    let numbers = NumberReader::of(array, Part::Abs)?.doubles(&selection, ask)?;
    let is_turned = row_axis > column_axis;
    let value = |row: usize, column: usize| {
        let at = if is_turned { column * down.len() + row } else { row * along.len() + column };
        numbers.get(at).copied().unwrap_or(f64::NAN)
    };
    let parts = |list: &[u64], place: Option<Place>| {
        let place = place?;
        let find = |at: u64| list.binary_search(&at).unwrap_or(0);
        let second = if place.share > 0.0 { find(place.second) } else { 0 };
        Some([(find(place.first), 1.0 - place.share), (second, place.share)])
    };
    let columns: Vec<_> = columns.iter().map(|place| parts(&along, *place)).collect();
    let mut values = Vec::with_capacity(rows.len() * columns.len());
    for row in rows {
        let row = parts(&down, *row);
        for column in &columns {
            let (Some(row), Some(column)) = (row, column) else {
                values.push(f64::NAN);
                continue;
            };
            let mut sum = 0.0;
            for (row, share) in row.iter().filter(|(_, share)| *share > 0.0) {
                for (column, other) in column.iter().filter(|(_, share)| *share > 0.0) {
                    sum += value(*row, *column) * share * other;
                }
            }
            values.push(sum);
        }
    }
    Ok(values)
}
