//! Pictures of numbers: a map of two axes, or a line of one.

use super::cells::{Cell, Reader};
use super::colors::{Color, ColorMap};
use super::png::{Canvas, label, text_size};
use super::window::{Window, WindowAxis};
use crate::meaning::{self, coordinate};
use crate::{Array, Error, Result};

/// Most bytes to decode for a picture. Decoding 1 GiB takes about a second on one core (zstd). If one
/// element for each pixel would need more, the picture gets coarser.
const MOST_DECODED: u64 = 1 << 30;
/// Most chunks to touch for a picture. Finding 20 000 chunks on a local disk takes less than 0.1 s.
const MOST_CHUNKS: u64 = 20_000;
/// Most chunks to touch in a store where requests take the time. The engine sends many at once, so
/// 512 requests take a few seconds.
const MOST_REQUESTS: u64 = 512;
/// Samples of a line for each of its columns, so that a column shows the range of its numbers.
const SAMPLES: u64 = 8;

const WHITE: Color = [255, 255, 255];
const BLACK: Color = [0, 0, 0];
/// Elements that attributes mark as missing.
const MISSING: Color = [190, 190, 190];
/// Elements that are NaN.
const NAN: Color = [110, 60, 60];
const LINE: Color = [31, 119, 180];
/// Pixels around a picture, and the height of the bar of colours.
const MARGIN: usize = 12;
const BAR: usize = 10;
/// Most characters of a text in a picture. Texts come from files, and a character is 8 pixels wide.
const LONGEST: usize = 120;

/// Options of [`Picture::of`].
#[derive(Clone, Debug)]
pub struct PictureOptions {
    /// Most pixels of a row.
    pub width: usize,
    /// Most pixels of a column.
    pub height: usize,
    /// `None`: viridis, or blue to red if numbers are on both sides of zero.
    pub colors: Option<ColorMap>,
    /// The numbers of the first and last colour. `None`: the smallest and the largest that are shown.
    pub range: Option<(f64, f64)>,
    /// The range from the 2nd to the 98th percentile.
    pub robust: bool,
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Elements per row, and number of rows; one row for a line.
    width: usize,
    height: usize,
    values: Vec<f64>,
    missing: Vec<bool>,
    is_line: bool,
    /// The numbers of the first and last colour.
    pub low: f64,
    /// See [`Picture::low`].
    pub high: f64,
    colors: ColorMap,
    /// The elements that are shown.
    pub window: Window,
    /// The shown part of each axis, in words.
    pub axes: Vec<String>,
}

impl Picture {
    /// Makes a picture of the last two axes of a window; of the others the first index.
    ///
    /// One element for each pixel is read, at even distances. Fails with [`Error::Options`] if elements
    /// are no numbers, or if there is no axis. `stop`: see [`Reader::read`].
    pub fn of(
        reader: &Reader<'_>,
        window: &Window,
        options: &PictureOptions,
        stop: &dyn Fn() -> bool,
    ) -> Result<Picture> {
        let array = reader.array();
        let wrong = |why: &str| Error::Options(format!("array '{}': {why}", array.name()));
        let mut window = window.clone();
        let kept: Vec<usize> = (0..window.axes.len()).filter(|axis| !window.axes[*axis].dropped).collect();
        if kept.is_empty() || window.count() == 0 {
            return Err(wrong("a picture needs an axis with elements"));
        }
        let (others, shown) = kept.split_at(kept.len().saturating_sub(2));
        for axis in others {
            (window.axes[*axis].len, window.axes[*axis].dropped) = (1, true);
        }
        let is_line = shown.len() == 1;
        let pixels = match is_line {
            true => vec![options.width as u64 * SAMPLES],
            false => vec![options.height as u64, options.width as u64],
        };
        let mut steps: Vec<u64> = shown
            .iter()
            .zip(&pixels)
            .map(|(axis, most)| window.axes[*axis].len.div_ceil((*most).max(1)).max(1))
            .collect();
        let is_far = array.layout().store().cost().waiting_dominates();
        let most_chunks = if is_far { MOST_REQUESTS } else { MOST_CHUNKS };
        let selection = loop {
            let mut places: Vec<Option<Vec<u64>>> = vec![None; window.axes.len()];
            for (axis, step) in shown.iter().zip(&steps) {
                let len = window.axes[*axis].len;
                places[*axis] = Some(((step - 1) / 2..len).step_by(*step as usize).collect());
            }
            let is_small = places.iter().flatten().map(Vec::len).product::<usize>() <= 64;
            let chunks = touched_chunks(array, &window, &places);
            if is_small || chunks <= most_chunks {
                let selection = window.selection_of(array, &places)?;
                let is_cheap = || -> Result<bool> {
                    let decoded = match is_far {
                        // Looking at each chunk is as slow as reading it.
                        true => array
                            .chunk_shape()
                            .iter()
                            .fold(chunks.saturating_mul(array.dtype().size() as u64), |all, len| {
                                all.saturating_mul(*len)
                            }),
                        false => array.explain_read(&selection, 0)?.bytes_decoded,
                    };
                    Ok(decoded <= MOST_DECODED)
                };
                if is_small || is_far && !array.has_chunks() || is_cheap()? {
                    break selection;
                }
            }
            for (axis, step) in shown.iter().zip(&mut steps) {
                *step = step.saturating_mul(2).min(window.axes[*axis].len);
            }
        };
        let cells = reader.read(&selection, stop)?;
        let is_number = |cell: &Cell| !matches!(cell, Cell::Text(_) | Cell::Other(_) | Cell::Time(_));
        if !cells.cells.iter().all(is_number) {
            return Err(wrong(
                "a picture needs numbers; its elements are others (for dates: stored numbers, raw)",
            ));
        }
        let width = cells.shape.last().copied().unwrap_or(1).max(1) as usize;
        let height = cells.cells.len() / width;
        let mut values: Vec<f64> = cells.cells.iter().map(Cell::to_double).collect();
        let mut missing: Vec<bool> = cells.cells.iter().map(|cell| *cell == Cell::Missing).collect();
        if !is_line && points_north(reader, &window.axes[shown[0]], shown[0])? {
            values = values.chunks(width).rev().flatten().copied().collect();
            missing = missing.chunks(width).rev().flatten().copied().collect();
        }
        let (low, high) = options.range.unwrap_or_else(|| range(&values, options.robust));
        let is_around_zero = low < 0.0 && high > 0.0;
        let colors = options.colors.unwrap_or(match is_around_zero {
            true => ColorMap::BlueRed,
            false => ColorMap::Viridis,
        });
        let (low, high) =
            match options.colors.is_none() && options.range.is_none() && is_around_zero && !is_line {
                true => (-low.abs().max(high), low.abs().max(high)),
                false => (low, high),
            };
        let axes = shown
            .iter()
            .zip(&steps)
            .map(|(axis, step)| described(&window.axes[*axis], *axis, *step))
            .collect();
        Ok(Picture { width, height, values, missing, is_line, low, high, colors, window, axes })
    }

    /// Returns `true` for the line of one axis.
    pub fn is_line(&self) -> bool {
        self.is_line
    }

    /// The colour of a number.
    pub fn color(&self, value: f64) -> Color {
        self.colors.color(value, self.low, self.high)
    }

    /// The colours of missing elements and of NaN. `None`: the picture has no such element.
    pub fn absent_colors(&self) -> [Option<Color>; 2] {
        let has_nan =
            self.values.iter().zip(&self.missing).any(|(value, missing)| value.is_nan() && !missing);
        [self.missing.contains(&true).then_some(MISSING), has_nan.then_some(NAN)]
    }

    /// Width and height in pixels within a box. Small maps are enlarged by whole numbers.
    pub fn size(&self, width: usize, height: usize) -> (usize, usize) {
        if self.is_line {
            return (width, height);
        }
        let zoom = (width / self.width).min(height / self.height.max(1)).max(1);
        (self.width * zoom, self.height * zoom)
    }

    /// Rows of pixels from top to bottom, in the size that [`Picture::size`] gives for the box. `None`: the background.
    pub fn pixels(&self, width: usize, height: usize) -> Vec<Vec<Option<Color>>> {
        let (width, height) = self.size(width, height);
        if self.is_line {
            return self.line(width, height);
        }
        let zoom = (width / self.width).max(1);
        let pixel = |x: usize, y: usize| {
            let at = y / zoom * self.width + x / zoom;
            Some(match self.values.get(at) {
                _ if self.missing.get(at) == Some(&true) => MISSING,
                Some(value) if !value.is_nan() => self.color(*value),
                _ => NAN,
            })
        };
        (0..height).map(|y| (0..width).map(|x| pixel(x, y)).collect()).collect()
    }

    /// A line: each column shows the range of its numbers.
    fn line(&self, width: usize, height: usize) -> Vec<Vec<Option<Color>>> {
        let mut rows = vec![vec![None; width]; height];
        let span = if self.high > self.low { self.high - self.low } else { 1.0 };
        let row = |value: f64| {
            let share = ((value - self.low) / span).clamp(0.0, 1.0);
            ((1.0 - share) * height.saturating_sub(1) as f64).round() as usize
        };
        let mut before: Option<f64> = None;
        for x in 0..width {
            let first = x * self.width / width.max(1);
            let last = ((x + 1) * self.width / width.max(1)).max(first + 1).min(self.width);
            let column = self.values.get(first..last).unwrap_or_default();
            let finite: Vec<f64> = column.iter().copied().filter(|value| value.is_finite()).collect();
            let Some(end) = finite.last().copied() else {
                before = None;
                continue;
            };
            let all = finite.iter().copied().chain(before);
            let (low, high) = all
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), one| (low.min(one), high.max(one)));
            for y in row(high)..=row(low) {
                if let Some(pixel) = rows.get_mut(y).and_then(|row| row.get_mut(x)) {
                    *pixel = Some(LINE);
                }
            }
            before = Some(end);
        }
        rows
    }

    /// The picture with a title, a bar of colours and the names of axes: rows of pixels.
    pub fn titled(&self, title: &str, width: usize, height: usize) -> Vec<Vec<Color>> {
        self.canvas(title, width, height).rows().map(<[Color]>::to_vec).collect()
    }

    /// The picture with a title, a bar of colours and the names of axes, as PNG.
    pub fn to_png(&self, title: &str, width: usize, height: usize) -> Result<Vec<u8>> {
        self.canvas(title, width, height).to_png()
    }

    fn canvas(&self, title: &str, width: usize, height: usize) -> Canvas {
        let pixels = self.pixels(width, height);
        let (width, height) = self.size(width, height);
        let (low, high) = (label(self.low), label(self.high));
        let short = |text: &str| text.chars().take(LONGEST).collect::<String>();
        let (title, axes) = (short(title), self.axes.iter().map(|axis| short(axis)).collect::<Vec<_>>());
        let texts = std::iter::once(&title).chain(&axes);
        let widest = texts.map(|text| text_size(text.chars().count()).0).max().unwrap_or(0);
        let room = width.max(widest).max(text_size(low.len() + high.len() + 2).0);
        let line = text_size(1).1 + 6;
        let bar = if self.is_line { 0 } else { BAR + 4 };
        let absent: Vec<(Color, &str)> = self
            .absent_colors()
            .into_iter()
            .zip(["missing", "nan"])
            .filter_map(|(color, name)| color.map(|color| (color, name)))
            .collect();
        let has_absent = !absent.is_empty() && !self.is_line;
        let below = bar + line * (1 + self.axes.len() + usize::from(has_absent));
        let mut canvas =
            Canvas::new(room + 2 * MARGIN, MARGIN + line + height + MARGIN + below + MARGIN, WHITE);
        canvas.text(MARGIN, MARGIN, &title, BLACK);
        let top = MARGIN + line;
        for (y, row) in pixels.iter().enumerate() {
            for (x, color) in row.iter().enumerate() {
                canvas.set(MARGIN + x, top + y, color.unwrap_or(WHITE));
            }
        }
        let mut at = top + height + MARGIN;
        if !self.is_line {
            for x in 0..width {
                let share = x as f64 / width.max(2).saturating_sub(1) as f64;
                canvas.fill(MARGIN + x, at, 1, BAR, self.color(self.low + (self.high - self.low) * share));
            }
        }
        at += bar;
        if self.is_line {
            canvas.text(MARGIN, at, &format!("{low} .. {high}"), BLACK);
        } else {
            canvas.text(MARGIN, at, &low, BLACK);
            let left = MARGIN + width.max(text_size(low.len() + high.len() + 2).0) - text_size(high.len()).0;
            canvas.text(left, at, &high, BLACK);
        }
        if has_absent {
            at += line;
            let mut left = MARGIN;
            for (color, name) in absent {
                canvas.fill(left, at, 10, 10, color);
                canvas.text(left + 14, at, name, BLACK);
                left += 14 + text_size(name.len() + 2).0;
            }
        }
        for text in &axes {
            at += line;
            canvas.text(MARGIN, at, text, BLACK);
        }
        canvas
    }
}

/// `x: 0:180, every 2nd` in plain characters.
fn described(axis: &WindowAxis, number: usize, step: u64) -> String {
    let name = axis.name.clone().unwrap_or_else(|| format!("axis {number}"));
    let all = axis.step.unsigned_abs().saturating_mul(step);
    let last = axis.at(axis.len.saturating_sub(1));
    let every = if all == 1 { String::new() } else { format!(", every {all}{}", ordinal(all)) };
    format!("{name}: {} .. {last}{every}", axis.first)
}

fn ordinal(n: u64) -> &'static str {
    match (n % 100, n % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    }
}

/// Number of chunks that have elements at these places.
fn touched_chunks(array: &Array, window: &Window, places: &[Option<Vec<u64>>]) -> u64 {
    if !array.has_chunks() {
        return 1;
    }
    let grid = array.layout().grid();
    let along = window.axes.iter().zip(places).enumerate().map(|(axis, (own, places))| {
        let Some(places) = places.as_ref().filter(|_| !own.dropped) else { return 1 };
        let mut chunks: Vec<u64> = places.iter().map(|place| grid.index_of(axis, own.at(*place))).collect();
        chunks.dedup();
        chunks.len() as u64
    });
    along.fold(1, u64::saturating_mul)
}

/// The smallest and the largest finite number. `robust`: the 2nd and the 98th percentile.
fn range(values: &[f64], robust: bool) -> (f64, f64) {
    let mut finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    finite.sort_unstable_by(f64::total_cmp);
    let Some(most) = finite.len().checked_sub(1) else { return (0.0, 0.0) };
    let at = |share: f64| finite[(share * most as f64).round() as usize];
    if robust { (at(0.02), at(0.98)) } else { (at(0.0), at(1.0)) }
}

/// Returns `true` if the axis runs north (or up) within the window: its last row belongs on top.
fn points_north(reader: &Reader<'_>, axis: &WindowAxis, number: usize) -> Result<bool> {
    let (array, Some(name)) = (reader.array(), &axis.name) else { return Ok(false) };
    let Some(found) = coordinate(array, name, array.shape()[number])? else { return Ok(false) };
    let attributes = found.attributes()?;
    if !meaning::points_north(&attributes) || axis.len < 2 {
        return Ok(false);
    }
    let ends = Window { axes: vec![axis.clone()] };
    let own = Reader::of(&found, false)?;
    let cells = own.read(&ends.selection_of(&found, &[Some(vec![0, axis.len - 1])])?, &|| false)?;
    Ok(matches!(cells.cells.as_slice(), [first, last] if first.to_double() < last.to_double()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(width: usize, values: &[f64], is_line: bool) -> Picture {
        let (low, high) = range(values, false);
        let missing = values.iter().map(|value| *value == -999.0).collect();
        Picture {
            width,
            height: values.len() / width,
            values: values.to_vec(),
            missing,
            is_line,
            low,
            high,
            colors: ColorMap::Gray,
            window: Window { axes: Vec::new() },
            axes: vec!["x: 0 .. 1".into()],
        }
    }

    #[test]
    fn small_maps_are_enlarged() {
        let map = picture(2, &[0.0, 1.0, f64::NAN, 0.5], false);
        assert_eq!(map.size(7, 100), (6, 6));
        let pixels = map.pixels(5, 5);
        assert_eq!((pixels.len(), pixels[0].len()), (4, 4));
        assert_eq!([pixels[0][0], pixels[0][3], pixels[3][0]], [Some([0; 3]), Some([255; 3]), Some(NAN)]);
        assert_eq!(map.absent_colors(), [None, Some(NAN)]);
        let rows = map.titled("a", 40, 40);
        assert!(rows.len() > 40 && rows.iter().all(|row| row.len() == rows[0].len()));
        assert_eq!(rows[MARGIN + 16][MARGIN], [0; 3]);
        assert!(map.to_png("a", 4, 4).unwrap().starts_with(b"\x89PNG"));
    }

    #[test]
    fn pictures_touch_few_chunks() {
        use crate::prelude::*;
        let directory = tempfile::tempdir().unwrap();
        let location = directory.path().join("a").display().to_string();
        let mut spec =
            ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[3, 7, 1 << 40], "<f4".parse().unwrap());
        spec.chunks = Some([1, 1, 1 << 20].as_slice().into());
        spec.fill = Some(2_f32.to_le_bytes().to_vec());
        let array = Array::create(&location, &spec).unwrap();
        let (reader, window) = (Reader::of(&array, false).unwrap(), Window::all(&array).unwrap());
        let options = PictureOptions { width: 10_000, height: 100, colors: None, range: None, robust: false };
        let found = Picture::of(&reader, &window, &options, &|| false).unwrap();
        // 7 × 10 000 chunks are too many.
        assert_eq!((found.width, found.height), (5000, 4));
        assert_eq!((found.low, found.values[0]), (2.0, 2.0));
        let places = vec![None, Some(vec![0, 1, 6]), Some(vec![0, 1, 1 << 20])];
        assert_eq!(touched_chunks(&array, &window, &places), 6);
    }

    #[test]
    fn lines_have_no_gaps_and_stop_at_nan() {
        let line = picture(4, &[0.0, 3.0, f64::NAN, 1.0], true);
        let rows = line.pixels(4, 4);
        let text: Vec<String> = rows
            .iter()
            .map(|row| row.iter().map(|pixel| if pixel.is_some() { '#' } else { '.' }).collect())
            .collect();
        assert_eq!(text, [".#..", ".#..", ".#.#", "##.."]);
    }

    #[test]
    fn ranges_and_words() {
        let mut values: Vec<f64> = (0..=100).map(f64::from).collect();
        values.push(f64::NAN);
        assert_eq!((range(&values, false), range(&values, true)), ((0.0, 100.0), (2.0, 98.0)));
        assert_eq!(range(&[f64::NAN], true), (0.0, 0.0));
        let axis = WindowAxis { name: Some("x".into()), first: 4, step: 2, len: 10, dropped: false };
        assert_eq!(described(&axis, 1, 1), "x: 4 .. 22, every 2nd");
        assert_eq!(
            described(&WindowAxis { name: None, step: 1, ..axis }, 1, 11),
            "axis 1: 4 .. 13, every 11th"
        );
    }
}
