//! The elements to look at: a start, a step and a length for each axis.

use crate::{Array, Index, Result, Selection, parse_indices};

/// A part of an array. See [`Window::parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// One for each axis of the array.
    pub axes: Vec<WindowAxis>,
}

/// The part of an axis in a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowAxis {
    /// The name of the axis.
    pub name: Option<String>,
    /// The first index.
    pub first: u64,
    /// The distance of neighbours. Negative: backwards.
    pub step: i64,
    /// Number of indices.
    pub len: u64,
    /// The selection had one integer here: results do not have this axis.
    pub dropped: bool,
}

impl WindowAxis {
    /// The index of the `n`-th element.
    pub fn at(&self, n: u64) -> u64 {
        self.first.saturating_add_signed(self.step.saturating_mul(n.cast_signed()))
    }

    /// The elements at these places.
    fn pick(&self, places: &[u64]) -> Vec<i64> {
        places.iter().map(|place| self.at(*place).cast_signed()).collect()
    }
}

impl Window {
    /// All of an array.
    pub fn all(array: &Array) -> Result<Window> {
        let names = array.dimension_names()?;
        let axis = |(number, len): (usize, &u64)| WindowAxis {
            name: name_of(names.as_deref(), number),
            first: 0,
            step: 1,
            len: *len,
            dropped: false,
        };
        Ok(Window { axes: array.shape().iter().enumerate().map(axis).collect() })
    }

    /// Parses a selection: indices as between NumPy's brackets, or `NAME=INDEX` for axes with names,
    /// as in `time=0, lat=10:20`. Axes without an index are selected as a whole.
    ///
    /// The first result fails if the array cannot be read, the second one if the text is wrong.
    pub fn parse(array: &Array, text: &str) -> Result<std::result::Result<Window, String>> {
        let names = array.dimension_names()?;
        Ok(parse(array.shape(), names.as_deref(), text))
    }

    /// Elements per axis, without dropped axes.
    pub fn shape(&self) -> Vec<u64> {
        self.kept().map(|axis| axis.len).collect()
    }

    /// The axes that results have.
    pub fn kept(&self) -> impl Iterator<Item = &WindowAxis> {
        self.axes.iter().filter(|axis| !axis.dropped)
    }

    /// Number of elements. The largest number if there are more.
    pub fn count(&self) -> u64 {
        self.axes.iter().fold(1, |count: u64, axis| count.saturating_mul(axis.len))
    }

    /// The window as NumPy writes it: `[0, 10:20, ::2]`. Empty for everything.
    pub fn text(&self, shape: &[u64]) -> String {
        let is_all = |(axis, len): (&WindowAxis, &u64)| {
            !axis.dropped && axis.first == 0 && axis.step == 1 && axis.len == *len
        };
        let mut items: Vec<String> = self
            .axes
            .iter()
            .zip(shape)
            .map(|(axis, len)| {
                if axis.dropped {
                    return axis.first.to_string();
                }
                let stop = axis.at(axis.len);
                let (mut start, mut end) = (axis.first.to_string(), stop.to_string());
                if axis.step < 0 {
                    let before_start = axis.first.cast_signed() + axis.step * axis.len.cast_signed() < 0;
                    start = if axis.first + 1 == *len { String::new() } else { start };
                    end = if before_start { String::new() } else { end };
                } else {
                    start = if axis.first == 0 { String::new() } else { start };
                    end = if stop >= *len { String::new() } else { end };
                }
                let step = if axis.step == 1 { String::new() } else { format!(":{}", axis.step) };
                format!("{start}:{end}{step}")
            })
            .collect();
        let last = self.axes.iter().zip(shape).rposition(|pair| !is_all(pair));
        items.truncate(last.map_or(0, |last| last + 1));
        if items.is_empty() { String::new() } else { format!("[{}]", items.join(", ")) }
    }

    /// The window as a selection of an array.
    pub fn selection(&self, array: &Array) -> Result<Selection> {
        self.selection_of(array, &vec![None; self.axes.len()])
    }

    /// The elements at `places` along the axes. `None`: all elements of the axis.
    pub fn selection_of(&self, array: &Array, places: &[Option<Vec<u64>>]) -> Result<Selection> {
        let lists: Vec<Option<Vec<i64>>> = self
            .axes
            .iter()
            .zip(places)
            .map(|(axis, places)| places.as_ref().filter(|_| !axis.dropped).map(|places| axis.pick(places)))
            .collect();
        let index = |(axis, list)| index(axis, list);
        let indices: Vec<Index<'_>> = self.axes.iter().zip(&lists).map(index).collect();
        array.select(&indices)
    }
}

/// The index of an axis. `list`: these elements only.
fn index<'l>(axis: &WindowAxis, list: &'l Option<Vec<i64>>) -> Index<'l> {
    match list {
        _ if axis.dropped => Index::At(axis.first.cast_signed()),
        None => slice(axis.first.cast_signed(), axis.step, axis.len),
        // The engine reads slices in longer pieces than lists.
        Some(list) => match even(list) {
            Some((start, step, len)) => slice(start, step, len),
            None => Index::List(list),
        },
    }
}

/// A slice of `len` elements.
fn slice(start: i64, step: i64, len: u64) -> Index<'static> {
    if len == 0 {
        return Index::range(0, 0);
    }
    let stop = start.saturating_add(step.saturating_mul(len.cast_signed()));
    Index::Slice { start: Some(start), stop: Some(stop).filter(|stop| *stop >= 0), step }
}

/// Start, step and length of evenly spaced numbers.
fn even(list: &[i64]) -> Option<(i64, i64, u64)> {
    let (first, second) = match list {
        [] => return Some((0, 1, 0)),
        [one] => return Some((*one, 1, 1)),
        [first, second, ..] => (*first, *second),
    };
    let step = second - first;
    let is_even = step != 0 && list.windows(2).all(|pair| pair[1] - pair[0] == step);
    is_even.then_some((first, step, list.len() as u64))
}

fn name_of(names: Option<&[Option<String>]>, axis: usize) -> Option<String> {
    names.and_then(|names| names.get(axis).cloned().flatten())
}

fn parse(shape: &[u64], names: Option<&[Option<String>]>, text: &str) -> std::result::Result<Window, String> {
    let bare = text.trim();
    let bare = bare.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(bare);
    if !bare.contains('=') {
        return of_indices(shape, names, &parse_indices(text)?);
    }
    let mut indices = vec![Index::ALL; shape.len()];
    for part in bare.split(',').filter(|part| !part.trim().is_empty()) {
        let (name, index) = part.split_once('=').ok_or_else(|| {
            format!("selection {text:?}: {:?} has no name; give all axes names or none", part.trim())
        })?;
        let axis = axis_called(name.trim(), names).ok_or_else(|| {
            let known: Vec<&str> = names.iter().copied().flatten().flatten().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            format!("selection {text:?}: there is no axis {:?}; the names of axes are: {known}", name.trim())
        })?;
        match parse_indices(index)?.as_slice() {
            [index] if *index != Index::Ellipsis => indices[axis] = *index,
            _ => return Err(format!("selection {text:?}: expected one integer or slice for {name}")),
        }
    }
    of_indices(shape, names, &indices)
}

/// The axis of a name.
pub(super) fn axis_called(name: &str, names: Option<&[Option<String>]>) -> Option<usize> {
    names?.iter().position(|own| own.as_deref() == Some(name))
}

fn of_indices(
    shape: &[u64],
    names: Option<&[Option<String>]>,
    indices: &[Index<'_>],
) -> std::result::Result<Window, String> {
    let given = indices.iter().filter(|index| **index != Index::Ellipsis).count();
    if given > shape.len() {
        return Err(format!("{given} indices for an array of {} axes", shape.len()));
    }
    if indices.len() - given > 1 {
        return Err("more than one '...'".into());
    }
    let mut all = Vec::with_capacity(shape.len());
    for index in indices {
        match index {
            Index::Ellipsis => all.extend(std::iter::repeat_n(Index::ALL, shape.len() - given)),
            other => all.push(*other),
        }
    }
    all.resize(shape.len(), Index::ALL);
    let axes = all.iter().zip(shape).enumerate().map(|(number, (index, len))| {
        let name = name_of(names, number);
        let n = i64::try_from(*len).map_err(|_| format!("axis {number} has {len} elements"))?;
        match *index {
            Index::At(at) => {
                let from_start = if at < 0 { at + n } else { at };
                if !(0..n).contains(&from_start) {
                    return Err(format!("index {at} is out of bounds for axis {number} with size {n}"));
                }
                let first = from_start.cast_unsigned();
                Ok(WindowAxis { name, first, step: 1, len: 1, dropped: true })
            }
            Index::Slice { step: 0, .. } => Err("a slice has step 0".to_owned()),
            Index::Slice { start, stop, step } => {
                let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
                let bound = |at: i64| (if at < 0 { at.saturating_add(n) } else { at }).clamp(low, high);
                let start = start.map_or(if step > 0 { low } else { high }, bound);
                let stop = stop.map_or(if step > 0 { high } else { low }, bound);
                let span = if step > 0 { stop - start } else { start - stop };
                let len = span.max(0).cast_unsigned().div_ceil(step.unsigned_abs());
                let first = if len == 0 { 0 } else { start.cast_unsigned() };
                Ok(WindowAxis { name, first, step, len, dropped: false })
            }
            _ => Err("expected integers and slices".to_owned()),
        }
    });
    Ok(Window { axes: axes.collect::<std::result::Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(first: u64, step: i64, len: u64, dropped: bool) -> WindowAxis {
        WindowAxis { name: None, first, step, len, dropped }
    }

    #[test]
    fn windows_of_numpy_indices() {
        let parsed = |text| parse(&[10, 7], None, text).map(|window| window.axes);
        for (text, expected) in [
            ("", vec![axis(0, 1, 10, false), axis(0, 1, 7, false)]),
            ("-1", vec![axis(9, 1, 1, true), axis(0, 1, 7, false)]),
            ("..., 2", vec![axis(0, 1, 10, false), axis(2, 1, 1, true)]),
            ("1:8:3, ::-2", vec![axis(1, 3, 3, false), axis(6, -2, 4, false)]),
            ("5:2, -100:100", vec![axis(0, 1, 0, false), axis(0, 1, 7, false)]),
            ("8:2:-5", vec![axis(8, -5, 2, false), axis(0, 1, 7, false)]),
        ] {
            assert_eq!(parsed(text), Ok(expected), "{text}");
        }
        for text in ["10", "-11", "0, 0, 0", "::0", "..., ...", "a=1"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn axes_by_name() {
        let names = [Some("time".to_owned()), None, Some("x".to_owned())];
        let parsed = |text| parse(&[10, 7, 5], Some(&names), text);
        let window = parsed("x=1:3, time = -1").unwrap();
        assert_eq!(window.text(&[10, 7, 5]), "[9, :, 1:3]");
        assert_eq!((window.shape(), window.count()), (vec![7, 2], 14));
        let why = parsed("y=1").unwrap_err();
        assert!(why.contains("there is no axis \"y\"; the names of axes are: time, x"), "{why}");
        assert!(parsed("x=1, 2").unwrap_err().contains("has no name"));
        assert!(parsed("x=...").is_err() && parsed("x=").is_err());
    }

    #[test]
    fn windows_as_text() {
        for (text, expected) in [
            ("", ""),
            ("0:10", ""),
            ("2:, ::3", "[2:, ::3]"),
            ("::-1", "[::-1]"),
            ("8:2:-5", "[8::-5]"),
            ("7:2:-2, 3", "[7:1:-2, 3]"),
        ] {
            assert_eq!(parse(&[10, 7], None, text).unwrap().text(&[10, 7]), expected, "{text}");
        }
    }

    #[test]
    fn evenly_spaced_places_are_slices() {
        assert_eq!(even(&[2, 5, 8]), Some((2, 3, 3)));
        assert_eq!(even(&[8, 5, 2]), Some((8, -3, 3)));
        assert_eq!(even(&[0, 1, 3]), None);
        assert_eq!((even(&[4]), even(&[])), (Some((4, 1, 1)), Some((0, 1, 0))));
        assert_eq!(slice(8, -5, 2), Index::Slice { start: Some(8), stop: None, step: -5 });
    }
}
