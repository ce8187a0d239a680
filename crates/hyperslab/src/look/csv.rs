//! Values as CSV: a row for each element, with its coordinates.
//!
//! This is the form of `xarray.Dataset.to_dataframe().to_csv()`, which pandas, R and spreadsheets
//! read. Missing values are empty. Texts with commas, quotes or line breaks are quoted (RFC 4180).

use super::cells::{Cell, Reader};
use super::numpy_float::scalar;
use super::window::{Window, WindowAxis};
use crate::meaning::coordinate;
use crate::{Error, Result};
use std::io::Write;

/// Elements to read at once, so that any window needs little memory.
pub(super) const BLOCK: u64 = 1 << 18;

/// Writes the values of a window. `stop`: see [`Reader::read`].
///
/// The inner result fails if `out` does.
pub fn write_csv(
    reader: &Reader<'_>,
    window: &Window,
    name: &str,
    raw: bool,
    out: &mut dyn Write,
    stop: &dyn Fn() -> bool,
) -> Result<std::io::Result<()>> {
    let mut axes = Vec::new();
    for (number, axis) in window.axes.iter().enumerate().filter(|(_, axis)| !axis.dropped) {
        axes.push(Labels::of(reader, axis, number, raw, stop)?);
    }
    let mut heading: Vec<String> = axes.iter().map(|axis| field(&axis.name)).collect();
    heading.push(field(name));
    if let Err(error) = writeln!(out, "{}", heading.join(",")) {
        return Ok(Err(error));
    }
    if window.count() == 0 {
        return Ok(Ok(()));
    }
    let mut failure = Ok(());
    blocks(window, &mut |start, block| {
        let cells = reader.read(&block.selection(reader.array())?, stop)?;
        let shape = block.shape();
        let mut lines = String::new();
        for (n, cell) in cells.cells.iter().enumerate() {
            let mut left = n as u64;
            let mut place = vec![0; shape.len()];
            for axis in (0..shape.len()).rev() {
                place[axis] = left % shape[axis] + start[axis];
                left /= shape[axis];
            }
            for (axis, at) in axes.iter().zip(&place) {
                lines.push_str(&axis.text(*at));
                lines.push(',');
            }
            lines.push_str(&value(cell, cells.float_size));
            lines.push('\n');
        }
        failure = out.write_all(lines.as_bytes());
        Ok(failure.is_ok())
    })?;
    Ok(failure)
}

/// Calls `each` with parts of a window, in C order: the place of the part along the axes that results
/// have, and the part. Stops if it returns `false`.
pub(super) fn blocks(window: &Window, each: &mut dyn FnMut(&[u64], &Window) -> Result<bool>) -> Result<()> {
    let kept: Vec<usize> = (0..window.axes.len()).filter(|axis| !window.axes[*axis].dropped).collect();
    // The last axes are whole, the axis before them is cut, those before it are 1.
    let mut lens: Vec<u64> = kept.iter().map(|axis| window.axes[*axis].len).collect();
    let mut inside = 1_u64;
    let shape = lens.clone();
    for axis in (0..lens.len()).rev() {
        lens[axis] = (BLOCK / inside).clamp(1, shape[axis].max(1));
        inside = inside.saturating_mul(lens[axis]);
    }
    let mut start = vec![0; shape.len()];
    loop {
        let mut part = window.clone();
        for (number, axis) in kept.iter().enumerate() {
            let axis = &mut part.axes[*axis];
            let len = lens[number].min(shape[number] - start[number]);
            (axis.first, axis.len) = (axis.at(start[number]), len);
        }
        if !each(&start, &part)? {
            return Ok(());
        }
        let mut axis = shape.len();
        loop {
            let Some(next) = axis.checked_sub(1) else { return Ok(()) };
            axis = next;
            start[axis] += lens[axis];
            if start[axis] < shape[axis] {
                break;
            }
            start[axis] = 0;
        }
    }
}

/// The column of an axis.
struct Labels {
    name: String,
    axis: WindowAxis,
    /// The coordinates. `None`: indices.
    values: Option<Vec<String>>,
}

impl Labels {
    fn of(
        reader: &Reader<'_>,
        axis: &WindowAxis,
        number: usize,
        raw: bool,
        stop: &dyn Fn() -> bool,
    ) -> Result<Labels> {
        let name = axis.name.clone().unwrap_or_else(|| format!("axis{number}"));
        let len = reader.array().shape()[number];
        let found = match &axis.name {
            Some(name) if reader.array().path().rsplit('/').next() != Some(name) => {
                coordinate(reader.array(), name, len)?
            }
            _ => None,
        };
        let values = match found {
            // More coordinates than this are not worth the memory.
            Some(array) if axis.len <= BLOCK * 64 => {
                let one = Window { axes: vec![axis.clone()] };
                match Reader::of(&array, raw).and_then(|own| own.read(&one.selection(&array)?, stop)) {
                    Ok(cells) => {
                        let text = |cell: &Cell| value(cell, cells.float_size);
                        Some(cells.cells.iter().map(text).collect())
                    }
                    Err(Error::Interrupted) => return Err(Error::Interrupted),
                    // Coordinates that cannot be read are no reason to hide the values.
                    Err(_) => None,
                }
            }
            _ => None,
        };
        Ok(Labels { name, axis: axis.clone(), values })
    }

    fn text(&self, at: u64) -> String {
        let known = self.values.as_ref().and_then(|values| values.get(usize::try_from(at).ok()?));
        known.cloned().unwrap_or_else(|| self.axis.at(at).to_string())
    }
}

/// A value as a field.
fn value(cell: &Cell, float_size: usize) -> String {
    match cell {
        Cell::Missing => String::new(),
        Cell::Bool(on) => if *on { "true" } else { "false" }.into(),
        Cell::Int(int) => int.to_string(),
        Cell::Float(float) => scalar(*float, float_size),
        Cell::Complex(real, imaginary) => {
            let sign = if imaginary.is_sign_negative() { "" } else { "+" };
            format!("{}{sign}{}j", scalar(*real, float_size), scalar(*imaginary, float_size))
        }
        Cell::Time(text) | Cell::Text(text) | Cell::Other(text) => field(text),
    }
}

fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_needed() {
        assert_eq!(field("a"), "a");
        assert_eq!(field("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
        assert_eq!(value(&Cell::Complex(1.0, -0.5), 8), "1.0-0.5j");
        assert_eq!(
            (value(&Cell::Missing, 8), value(&Cell::Float(f64::NAN), 8)),
            (String::new(), "nan".into())
        );
    }

    #[test]
    fn blocks_cover_a_window() {
        let axis = |len, dropped| WindowAxis { name: None, first: 5, step: 2, len, dropped };
        let window = Window { axes: vec![axis(3, false), axis(1, true), axis(BLOCK - 1, false)] };
        let mut found = Vec::new();
        blocks(&window, &mut |start, part| {
            found.push((start.to_vec(), part.axes[0].first, part.count()));
            Ok(true)
        })
        .unwrap();
        let starts: Vec<_> = (0..3).map(|n| (vec![n, 0], 5 + 2 * n, BLOCK - 1)).collect();
        assert_eq!(found, starts);
        let scalar = Window { axes: vec![axis(1, true)] };
        let mut count = 0;
        blocks(&scalar, &mut |start, part| {
            count += part.count();
            Ok(start.is_empty())
        })
        .unwrap();
        assert_eq!(count, 1);
    }
}
