//! A picture of the first slice that differs: both arrays, and their difference.
//!
//! Colours are perceptually even: viridis for the arrays, on one scale, and blue, white, red for the
//! second array minus the first. Grey elements are missing in both arrays, black ones in one.

use super::numbers::Numbers;
use super::report::{ArrayDifference, Difference};
use crate::look::png::{Canvas, label, text_size};
use crate::look::{BLUE_RED, Color, VIRIDIS, color_of};
use crate::nodes::element::swap_bytes;
use crate::{Array, ByteOrder, Error, Index, Node, ReadOptions, Result};

/// Most pixels of a map per axis. Larger slices show every n-th element.
const LARGEST: u64 = 800;
/// Small maps are enlarged to about this many pixels.
const SMALL: usize = 300;
/// Pixels between and around the maps, and the height of a bar of colours.
const MARGIN: usize = 16;
const BAR: usize = 10;

const WHITE: Color = [255, 255, 255];
const BLACK: Color = [0, 0, 0];
const GREY: Color = [190, 190, 190];

/// A slice of both arrays.
struct Slice {
    width: usize,
    values: [Vec<f64>; 2],
}

/// The picture, as PNG, of the first slice along the last two axes that has a difference. An array
/// with one axis is one row.
///
/// `None`: no numbers differ. `raw`: the numbers as they are stored.
pub fn picture(a: &Node, b: &Node, found: &Difference, raw: bool) -> Result<Option<Vec<u8>>> {
    for array in &found.arrays {
        let (own, its) = (array_at(a, &array.path)?, array_at(b, &array.path)?);
        if let Some(slice) = slice(&own, &its, array, raw)? {
            return draw(&slice).to_png().map(Some);
        }
    }
    Ok(None)
}

fn array_at(root: &Node, path: &str) -> Result<Array> {
    match root {
        Node::Array(array) => Ok(array.clone()),
        Node::Group(group) => {
            if let Ok(array) = group.array(path) {
                return Ok(array);
            }
            let tree = super::Tree::of(root, None)?;
            match tree.members.get(path) {
                Some(super::Member::Array(found)) => Ok(found.0.clone()),
                _ => Err(Error::Options(format!("there is no array '{path}'"))),
            }
        }
    }
}

/// `None`: elements are no numbers, or there is no axis.
fn slice(a: &Array, b: &Array, found: &ArrayDifference, raw: bool) -> Result<Option<Slice>> {
    let (Some(own), Some(mut its)) = (Numbers::of(a, raw)?, Numbers::of(b, raw)?) else { return Ok(None) };
    its.convert_to(&own);
    let Some(at) = found.first.first().or(found.largest_absolute.as_ref().map(|most| &most.at)) else {
        return Ok(None);
    };
    let shape: Vec<u64> = a.shape().iter().zip(b.shape()).map(|(own, its)| *own.min(its)).collect();
    if shape.is_empty() || at.index.iter().zip(&shape).any(|(at, len)| at >= len) {
        return Ok(None);
    }
    let (mut indices, mut lens) = (Vec::new(), Vec::new());
    for (axis, (at, len)) in at.index.iter().zip(&shape).enumerate() {
        if axis + 2 < shape.len() {
            indices.push(Index::At(at.cast_signed()));
            continue;
        }
        let step = len.div_ceil(LARGEST).max(1);
        // The differing element itself is shown.
        let start = at % step;
        let (start, stop) = (start.cast_signed(), len.cast_signed());
        indices.push(Index::Slice { start: Some(start), stop: Some(stop), step: step.cast_signed() });
        lens.push((len - at % step).div_ceil(step));
    }
    let read = |array: &Array, numbers: &Numbers| -> Result<Vec<f64>> {
        let mut memory = array.read(&array.select(&indices)?, ReadOptions::default())?;
        let bytes = memory.as_mut_slice();
        if array.optional().is_none() && array.dtype().order() != ByteOrder::NATIVE {
            swap_bytes(bytes, array.dtype().number_size());
        }
        Ok(numbers.doubles(bytes))
    };
    let width = lens.last().copied().unwrap_or(1) as usize;
    Ok(Some(Slice { width: width.max(1), values: [read(a, &own)?, read(b, &its)?] }))
}

fn draw(slice: &Slice) -> Canvas {
    let [a, b] = &slice.values;
    let height = a.len().div_ceil(slice.width).max(1);
    let zoom = (SMALL / slice.width.max(height)).max(1);
    // A row of numbers is drawn as a band.
    let tall = if height == 1 { zoom.max(40) } else { zoom };
    let (map_width, map_height) = (slice.width * zoom, height * tall);
    let range = range(a.iter().chain(b));
    let difference: Vec<f64> = a.iter().zip(b).map(|(a, b)| if a == b { 0.0 } else { b - a }).collect();
    let (low, high) = self::range(difference.iter());
    let most = low.abs().max(high.abs());
    let panel_width = map_width.max(text_size(21).0);
    let (_, text_height) = text_size(1);
    let below = MARGIN + BAR + 4 + text_height + MARGIN;
    let top = MARGIN + text_height + 4;
    let mut canvas = Canvas::new(MARGIN + 3 * (panel_width + MARGIN), top + map_height + below, WHITE);
    let panels = [("A", &a[..], &VIRIDIS), ("B", &b[..], &VIRIDIS), ("B-A", &difference[..], &BLUE_RED)];
    for (number, (title, values, colors)) in panels.into_iter().enumerate() {
        let (low, high) = if number == 2 { (-most, most) } else { range };
        let left = MARGIN + number * (panel_width + MARGIN);
        canvas.text(left, MARGIN, title, BLACK);
        for (n, value) in values.iter().enumerate() {
            let is_missing = (a[n].is_nan(), b.get(n).is_none_or(|value| value.is_nan()));
            let color = match is_missing {
                (true, true) => GREY,
                (one, other) if number == 2 && one != other => BLACK,
                _ if value.is_nan() => GREY,
                _ => color_of(*value, low, high, colors),
            };
            let (column, row) = (n % slice.width, n / slice.width);
            for (x, y) in (0..zoom).flat_map(|x| (0..tall).map(move |y| (x, y))) {
                canvas.set(left + column * zoom + x, top + row * tall + y, color);
            }
        }
        let bar = top + map_height + MARGIN;
        for x in 0..map_width {
            let value = low + (high - low) * x as f64 / map_width.max(2).saturating_sub(1) as f64;
            (0..BAR).for_each(|y| canvas.set(left + x, bar + y, color_of(value, low, high, colors)));
        }
        let (first, last) = (label(low), label(high));
        canvas.text(left, bar + BAR + 4, &first, BLACK);
        let end = panel_width.max(map_width) - text_size(last.len()).0.min(panel_width);
        canvas.text(left + end.min(panel_width), bar + BAR + 4, &last, BLACK);
    }
    canvas
}

/// The smallest and the largest finite number.
fn range<'v>(values: impl Iterator<Item = &'v f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite());
    let found = finite
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    if found.0 <= found.1 { found } else { (0.0, 0.0) }
}
