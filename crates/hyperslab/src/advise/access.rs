//! Ways to read an array, and exact counts of the grid cells that each touches.

use crate::{Index, parse_indices};
use std::fmt;

/// A way to read an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The text that the user gave.
    pub name: String,
    axes: Vec<Span>,
}

/// The elements that are read along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Span {
    /// The given elements.
    At { first: u64, count: u64, step: u64 },
    /// A run of this many neighbouring elements, at any position.
    Anywhere(u64),
}

impl Access {
    /// Parses `time series`, `map`, `all`, a selection such as `[:, 10, 10]`, or a block shape.
    /// A block of shape `(1, 64, 64)` may be at any position. A time series reads all elements
    /// along the time axis, and a map reads one. The time axis is named `time` or `t`; without such
    /// a name it is the first axis.
    ///
    /// The error gives the reason.
    pub fn parse(text: &str, shape: &[u64], names: Option<&[Option<String>]>) -> Result<Self, String> {
        let is_time = |name: &Option<String>| {
            name.as_deref().is_some_and(|name| matches!(name.to_lowercase().as_str(), "time" | "t"))
        };
        let time = names.and_then(|names| names.iter().position(is_time)).unwrap_or(0);
        let each = |long: &dyn Fn(usize) -> bool| -> Vec<Span> {
            let span = |(axis, n): (usize, &u64)| Span::Anywhere(if long(axis) { *n } else { 1.min(*n) });
            shape.iter().enumerate().map(span).collect()
        };
        let trimmed = text.trim();
        let axes = match trimmed.to_lowercase().replace(['-', '_'], " ").as_str() {
            "time series" | "timeseries" | "series" => each(&|axis| axis == time),
            "map" => each(&|axis| axis != time),
            "all" => each(&|_| true),
            _ if trimmed.starts_with('(') => block(trimmed, shape)?,
            _ if trimmed.starts_with('[') => selection(trimmed, shape)?,
            _ => {
                return Err(format!(
                    "access {text:?}: expected 'time series', 'map', 'all', a selection such as '[:, 10, 10]', \
                     or the shape of a block such as '(1, 64, 64)'"
                ));
            }
        };
        Ok(Access { name: trimmed.to_owned(), axes })
    }

    /// Number of elements that are read.
    pub fn elements(&self) -> f64 {
        self.axes.iter().map(|span| span.count() as f64).product()
    }

    /// Grid cells touched along an axis; the average over all positions for a movable block.
    pub(super) fn touched_cells(&self, axis: usize, cell: u64, extent: u64) -> f64 {
        match self.axes.get(axis) {
            Some(span) => span.touched_cells(cell.max(1), extent),
            None => 1.0,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Span {
    fn count(self) -> u64 {
        match self {
            Span::At { count, .. } | Span::Anywhere(count) => count,
        }
    }

    fn touched_cells(self, cell: u64, extent: u64) -> f64 {
        match self {
            Span::At { count: 0, .. } | Span::Anywhere(0) => 0.0,
            Span::At { count, step, .. } if step > cell => count as f64,
            Span::At { first, count, step } => {
                let last = first + (count - 1) * step;
                (last / cell - first / cell + 1) as f64
            }
            Span::Anywhere(count) => {
                // The mean over all positions of ⌊(place + count − 1) / cell⌋ − ⌊place / cell⌋ + 1.
                let places = extent.saturating_sub(count) + 1;
                let floors = |n: u64| {
                    let (whole, rest) = ((n / cell) as f64, (n % cell) as f64);
                    cell as f64 * whole * (whole - 1.0) / 2.0 + rest * whole
                };
                let behind = floors(count - 1 + places) - floors(count - 1);
                (behind - floors(places)) / places as f64 + 1.0
            }
        }
    }
}

fn block(text: &str, shape: &[u64]) -> Result<Vec<Span>, String> {
    let wrong = || format!("access {text:?}: expected a length for each of {} axes", shape.len());
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')).ok_or_else(wrong)?;
    let items = inner.split(',').map(str::trim).filter(|item| !item.is_empty());
    let lengths: Option<Vec<u64>> = items.map(|item| item.parse().ok()).collect();
    let lengths = lengths.filter(|lengths| lengths.len() == shape.len()).ok_or_else(wrong)?;
    Ok(lengths.iter().zip(shape).map(|(length, n)| Span::Anywhere((*length).min(*n))).collect())
}

fn selection(text: &str, shape: &[u64]) -> Result<Vec<Span>, String> {
    let indices = parse_indices(text)?;
    let given = indices.iter().filter(|index| **index != Index::Ellipsis).count();
    let Some(left) = shape.len().checked_sub(given) else {
        return Err(format!("access {text:?}: {given} indices for {} axes", shape.len()));
    };
    let mut items = Vec::new();
    for index in &indices {
        match index {
            Index::Ellipsis if items.len() + left <= shape.len() => {
                items.extend(std::iter::repeat_n(Index::ALL, left));
            }
            index => items.push(*index),
        }
    }
    items.resize(shape.len(), Index::ALL);
    let span = |(index, n): (&Index<'_>, &u64)| {
        let bound =
            |at: i64| if at < 0 { n.saturating_sub(at.unsigned_abs()) } else { at.unsigned_abs().min(*n) };
        match index {
            Index::At(at) if at.unsigned_abs() < *n || (*at < 0 && at.unsigned_abs() <= *n) => {
                Ok(Span::At { first: bound(*at), count: 1, step: 1 })
            }
            Index::Slice { start, stop, step } if *step > 0 => {
                let (first, step) = (start.map_or(0, bound), step.unsigned_abs());
                let count = stop.map_or(*n, bound).saturating_sub(first).div_ceil(step);
                Ok(Span::At { first, count, step })
            }
            Index::At(at) => Err(format!("access {text:?}: index {at} is outside an axis of {n}")),
            _ => Err(format!("access {text:?}: expected integers and slices that go upwards")),
        }
    };
    items.iter().zip(shape).map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_anywhere_are_counted_on_average() {
        for (extent, count, cell) in [(10, 3, 4), (100, 7, 7), (20, 20, 6), (9, 1, 5), (50, 33, 8), (5, 2, 9)]
        {
            let places = extent - count + 1;
            let all: u64 = (0..places).map(|at| (at + count - 1) / cell - at / cell + 1).sum();
            let expected = all as f64 / places as f64;
            let found = Span::Anywhere(count).touched_cells(cell, extent);
            assert!((found - expected).abs() < 1e-12, "{extent} {count} {cell}: {found} {expected}");
        }
    }

    #[test]
    fn selections_are_counted() {
        let shape = [100, 50];
        let of = |text: &str| Access::parse(text, &shape, None).unwrap();
        assert_eq!(of("[10:31, 5]").touched_cells(0, 10, 100), 3.0);
        assert_eq!(of("[::20]").touched_cells(0, 10, 100), 5.0);
        assert_eq!(of("[::3]").touched_cells(0, 10, 100), 10.0);
        assert_eq!(of("[..., -1]").touched_cells(1, 10, 50), 1.0);
        assert_eq!(
            (of("time series").elements(), of("map").elements(), of("all").elements()),
            (100.0, 50.0, 5000.0)
        );
        let names = [Some("x".to_owned()), Some("Time".to_owned())];
        assert_eq!(Access::parse("time-series", &shape, Some(&names)).unwrap().elements(), 50.0);
        assert_eq!(of("(3, 99)").elements(), 150.0);
    }

    #[test]
    fn what_is_no_access() {
        for text in ["", "maps", "(1)", "(1, 2, 3)", "[1, 2, 3]", "[100]", "[::-1]", "(a, b)"] {
            let error = Access::parse(text, &[100, 50], None).unwrap_err();
            assert!(error.contains("access"), "{error}");
        }
    }
}
