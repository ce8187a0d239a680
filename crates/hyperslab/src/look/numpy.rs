//! Values as NumPy prints them. Missing values are `--`, as in NumPy's masked arrays.
//!
//! Large arrays are shown by the three first and last elements along each axis. No others are read.
//!
//! Source: `_formatArray` in
//! <https://github.com/numpy/numpy/blob/v2.4.0/numpy/_core/arrayprint.py>

use super::cells::{Cell, Cells, Reader};
use super::numpy_float::{FloatFormat, scalar};
use super::window::{Window, WindowAxis};
use crate::{Error, Result};

/// Elements to show at both ends of a long axis.
const EDGE: u64 = 3;
/// Arrays with more elements are shown by their ends.
const THRESHOLD: u64 = 1000;
/// More elements are refused: the ends of 8 axes have 1.7 million, which fill 200 MB.
const MOST: u64 = 1 << 21;
/// Most characters of a text or structure, unless all elements are shown.
const LONGEST: usize = 200;

/// The values of a window as text. Lines have `width` characters at most, unless one value is longer.
///
/// `all`: shows all elements, however many there are. `stop`: see [`Reader::read`].
pub fn print(
    reader: &Reader<'_>,
    window: &Window,
    width: usize,
    all: bool,
    stop: &dyn Fn() -> bool,
) -> Result<String> {
    let is_long = !all && window.count() > THRESHOLD;
    let places: Vec<Option<Vec<u64>>> = window
        .axes
        .iter()
        .map(|axis| {
            let is_cut = is_long && axis.len > 2 * EDGE;
            is_cut.then(|| (0..EDGE).chain(axis.len - EDGE..axis.len).collect())
        })
        .collect();
    let kept = window.axes.iter().zip(&places).filter(|(axis, _)| !axis.dropped);
    let cut: Vec<bool> = kept.map(|(_, places)| places.is_some()).collect();
    if window.count() == 0 {
        return Ok("[]".into());
    }
    let len = |(axis, places): (&WindowAxis, &Option<Vec<u64>>)| {
        places.as_ref().map_or(axis.len, |places| places.len() as u64)
    };
    let count = window.axes.iter().zip(&places).map(len).fold(1, u64::saturating_mul);
    if !all && count > MOST {
        let (name, rank) = (reader.array().name(), window.axes.len());
        return Err(Error::Options(format!(
            "array '{name}': the ends of its {rank} axes have {count} elements; select a part"
        )));
    }
    let cells = reader.read(&window.selection_of(reader.array(), &places)?, stop)?;
    let longest = if all { usize::MAX } else { LONGEST };
    if cells.shape.is_empty() {
        return Ok(cells.cells.first().map(|cell| alone(cell, cells.float_size)).unwrap_or_default());
    }
    let words = words(&cells, longest);
    Ok(Layout { shape: &cells.shape, cut: &cut, words: &words }.text(0, 0, 1, width))
}

/// A value without an array.
pub(super) fn alone(cell: &Cell, float_size: usize) -> String {
    match cell {
        Cell::Missing => "--".into(),
        Cell::Bool(on) => if *on { "True" } else { "False" }.into(),
        Cell::Int(int) => int.to_string(),
        Cell::Float(float) => scalar(*float, float_size),
        Cell::Complex(real, imaginary) => {
            let part = |float: f64| {
                let text = scalar(float, float_size);
                text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
            };
            let sign = if imaginary.is_sign_negative() { "" } else { "+" };
            format!("({}{sign}{}j)", part(*real), part(*imaginary))
        }
        Cell::Time(text) => text.clone(),
        Cell::Text(text) => printable(text),
        Cell::Other(text) => printable(text),
    }
}

/// Text without characters that control a terminal. Line breaks and tabs stay.
fn printable(text: &str) -> String {
    let one = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c };
    text.chars().map(one).collect()
}

/// The text of each value. Numbers and times have one width.
fn words(cells: &Cells, longest: usize) -> Vec<String> {
    let all = &cells.cells;
    let floats = all.iter().filter_map(|cell| match cell {
        Cell::Float(float) => Some(*float),
        _ => None,
    });
    let parts = |imaginary: bool| {
        all.iter().filter_map(move |cell| match cell {
            Cell::Complex(one, other) => Some(if imaginary { *other } else { *one }),
            _ => None,
        })
    };
    let floats = FloatFormat::of(floats, cells.float_size, false);
    let real = FloatFormat::of(parts(false), cells.float_size, false);
    let imaginary = FloatFormat::of(parts(true), cells.float_size, true);
    let mut words: Vec<String> = all
        .iter()
        .map(|cell| match cell {
            Cell::Missing => "--".into(),
            Cell::Bool(on) => if *on { " True" } else { "False" }.into(),
            Cell::Int(int) => int.to_string(),
            Cell::Float(float) => floats.text(*float),
            Cell::Complex(one, other) => {
                let imaginary = imaginary.text(*other);
                let bare = imaginary.trim_end();
                format!("{}{bare}j{}", real.text(*one), " ".repeat(imaginary.len() - bare.len()))
            }
            Cell::Time(text) => format!("'{text}'"),
            Cell::Text(text) => quoted(&shortened(text, longest)),
            Cell::Other(text) => printable(&shortened(text, longest)),
        })
        .collect();
    if !all.iter().any(|cell| matches!(cell, Cell::Text(_) | Cell::Other(_))) {
        let width = words.iter().map(|word| word.chars().count()).max().unwrap_or(0);
        words.iter_mut().for_each(|word| *word = format!("{word:>width$}"));
    }
    words
}

fn shortened(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Text as Python's `repr`.
fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// Arranges words in lines.
struct Layout<'a> {
    shape: &'a [u64],
    /// `true` for an axis that is shown by its ends.
    cut: &'a [bool],
    words: &'a [String],
}

impl Layout<'_> {
    /// The text from `axis` on. `first`: its first word. `indent`: spaces before words of further
    /// lines. `width`: characters of a line.
    fn text(&self, axis: usize, first: usize, indent: usize, width: usize) -> String {
        let len = self.shape[axis] as usize;
        let is_cut = self.cut[axis];
        let gap = EDGE as usize;
        let hanging = " ".repeat(indent);
        if axis + 1 == self.shape.len() {
            let room = width.saturating_sub(1);
            let (mut done, mut line) = (String::new(), hanging.clone());
            let mut add = |word: &str, is_last: bool| {
                let is_wide = line.chars().count() + word.chars().count() > room;
                if is_wide && line.chars().count() > indent {
                    done.push_str(line.trim_end());
                    done.push('\n');
                    line.clone_from(&hanging);
                }
                line.push_str(word);
                if !is_last {
                    line.push(' ');
                }
            };
            for n in 0..len {
                if is_cut && n == gap {
                    add("...", false);
                }
                add(self.words.get(first + n).map_or("", String::as_str), n + 1 == len);
            }
            done.push_str(&line);
            return format!("[{}]", done.get(indent..).unwrap_or_default());
        }
        let below: usize = self.shape[axis + 1..].iter().map(|len| *len as usize).product();
        let separator = "\n".repeat(self.shape.len() - axis - 1);
        let mut rows = Vec::with_capacity(len + 1);
        for n in 0..len {
            if is_cut && n == gap {
                rows.push("...".to_owned());
            }
            rows.push(self.text(axis + 1, first + n * below, indent + 1, width.saturating_sub(1)));
        }
        format!("[{}]", rows.join(&format!("{separator}{hanging}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(shape: &[u64], cut: &[bool], cells: Vec<Cell>) -> String {
        let cells = Cells { shape: shape.to_vec(), cells, float_size: 8 };
        let words = words(&cells, 20);
        Layout { shape, cut, words: &words }.text(0, 0, 1, 75)
    }

    #[test]
    fn arrays_of_numpy() {
        let ints = |n: i128| (0..n).map(Cell::Int).collect::<Vec<_>>();
        assert_eq!(text(&[2, 2, 2], &[false; 3], ints(8)), "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]");
        let ends: Vec<Cell> = [0, 1, 2, 997, 998, 999].into_iter().map(Cell::Int).collect();
        assert_eq!(text(&[6], &[true], ends), "[  0   1   2 ... 997 998 999]");
        let lines = text(&[30], &[false], ints(30));
        assert_eq!(
            lines,
            "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23\n 24 25 26 27 28 29]"
        );
        let columns = text(&[6, 1], &[true, false], ints(6));
        assert_eq!(columns, "[[0]\n [1]\n [2]\n ...\n [3]\n [4]\n [5]]");
    }

    #[test]
    fn values_of_all_kinds() {
        let float = Cell::Float(1.5);
        assert_eq!(text(&[3], &[false], vec![float, Cell::Missing, Cell::Float(f64::NAN)]), "[1.5  -- nan]");
        assert_eq!(text(&[2], &[false], vec![Cell::Bool(true), Cell::Bool(false)]), "[ True False]");
        let complex = vec![Cell::Complex(1.5, 2.0), Cell::Complex(-0.0, -1.0)];
        assert_eq!(text(&[2], &[false], complex), "[ 1.5+2.j -0. -1.j]");
        let texts = ["a'b", "c\n\x1b", "long long long long text"].map(|text| Cell::Text(text.into()));
        assert_eq!(text(&[3], &[false], texts.to_vec()), "[\"a'b\" 'c\\n\\x1b' 'long long long long …']");
        let times = vec![Cell::Time("2000-01-01".into()), Cell::Missing];
        assert_eq!(text(&[2], &[false], times), "['2000-01-01'           --]");
        assert_eq!(alone(&Cell::Float(0.1_f32.into()), 4), "0.1");
        assert_eq!(alone(&Cell::Complex(1.0, -2.5), 8), "(1-2.5j)");
    }
}
