//! Regions of arrays: what to copy from a source, and where to put it.

use super::blocks::Block;
use crate::meaning::Variable;
use crate::{Array, Dims, Error, Index, Result, parse_indices};
use hyperslab_array::ChunkGrid;
use std::ops::Range;
use std::str::FromStr;

/// Start and stop along one axis, as in a Python slice.
/// `None` is the end of the axis, negative numbers count from the end, and the part outside the
/// array is cut off.
pub type Bounds = (Option<i64>, Option<i64>);

/// The names of the axes of an array, if there are any.
pub(super) type AxisNames = Option<Vec<Option<String>>>;

/// A box of elements of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Region {
    /// Bounds of the first axes. The other axes are whole.
    Axes(Vec<Bounds>),
    /// Bounds of axes by name. Other axes, and arrays without such axes, are whole.
    Named(Vec<(String, Bounds)>),
}

impl Region {
    /// The region in an array.
    pub(super) fn of(&self, array: &Array) -> Result<Vec<Range<u64>>> {
        let names = array.dimension_names()?.unwrap_or_default();
        self.within(array.layout().name(), array.shape(), &names)
    }

    /// The region in an array with this name, shape and axis names.
    fn within(&self, array: &str, shape: &[u64], names: &[Option<String>]) -> Result<Vec<Range<u64>>> {
        let mut bounds = vec![(None, None); shape.len()];
        match self {
            Region::Axes(given) if given.len() > shape.len() => {
                return Err(Error::Options(format!(
                    "region: bounds of {} axes are given, but '{array}' has {}",
                    given.len(),
                    shape.len()
                )));
            }
            Region::Axes(given) => bounds[..given.len()].copy_from_slice(given),
            Region::Named(given) => {
                for (axis, name) in names.iter().enumerate().take(shape.len()) {
                    let found = given.iter().find(|(given, _)| Some(given) == name.as_ref());
                    if let Some((_, found)) = found {
                        bounds[axis] = *found;
                    }
                }
            }
        }
        Ok(bounds.into_iter().zip(shape).map(|(bounds, n)| range(bounds, *n)).collect())
    }

    /// The names in the region that no array has; `arrays`: the axis names of each array.
    pub(super) fn unknown_names(&self, arrays: impl Iterator<Item = AxisNames>) -> Result<Vec<&str>> {
        let Region::Named(given) = self else { return Ok(Vec::new()) };
        let mut unknown: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
        for names in arrays {
            let names = names.unwrap_or_default();
            unknown.retain(|name| !names.iter().any(|found| found.as_deref() == Some(*name)));
        }
        Ok(unknown)
    }
}

/// Parses `0:10, :, -5:` as bounds of the first axes, `time=0:10, lat=-5:` as bounds by name.
impl FromStr for Region {
    type Err = Error;

    fn from_str(text: &str) -> Result<Region> {
        let wrong = |why: &str| Error::Options(format!("region {text:?}: {why}"));
        let slice = |index: &Index<'_>| match index {
            Index::Slice { start, stop, step: 1 } => Ok((*start, *stop)),
            _ => Err(wrong("expected slices of step 1, as 0:10")),
        };
        let parse = |text: &str| {
            let found = parse_indices(text).map_err(|why| wrong(&why))?;
            found.iter().map(slice).collect::<Result<Vec<Bounds>>>()
        };
        if !text.contains('=') {
            return Ok(Region::Axes(parse(text)?));
        }
        let named = |part: &str| {
            let (name, bounds) = part.split_once('=').ok_or_else(|| wrong("expected NAME=START:STOP"))?;
            match parse(bounds)?[..] {
                [bounds] => Ok((name.trim().to_owned(), bounds)),
                _ => Err(wrong("expected NAME=START:STOP")),
            }
        };
        Ok(Region::Named(text.split(',').map(named).collect::<Result<_>>()?))
    }
}

/// Applies bounds to an axis of `n` elements.
fn range((start, stop): Bounds, n: u64) -> Range<u64> {
    let place = |at: i64| match u64::try_from(at) {
        Ok(at) => at.min(n),
        Err(_) => n.saturating_sub(at.unsigned_abs()),
    };
    let (start, stop) = (start.map_or(0, place), stop.map_or(n, place));
    start..stop.max(start)
}

/// The part of a source that is copied, and its place in the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// Its first element in the source.
    pub(super) from: Dims,
    /// Its first element in the target.
    pub(super) to: Dims,
    /// Elements per axis.
    pub(super) shape: Dims,
}

impl Window {
    /// A whole array, copied to an array of the same shape.
    pub(super) fn whole(shape: &[u64]) -> Window {
        let zeros = Dims::from_elem(0, shape.len());
        Window { from: zeros.clone(), to: zeros, shape: shape.into() }
    }

    /// A region of a variable, and the shape of its copy.
    /// A variable may be longer than its stored array: the rest becomes fill value.
    pub(super) fn of_variable(
        array: &Array,
        variable: &Variable,
        region: Option<&Region>,
    ) -> Result<(Window, Dims)> {
        let names = variable.dimension_names.as_deref().unwrap_or_default();
        let ranges = match region {
            Some(region) => region.within(array.layout().name(), &variable.shape, names)?,
            None => variable.shape.iter().map(|n| 0..*n).collect(),
        };
        let stored =
            || ranges.iter().zip(array.shape()).map(|(range, n)| range.start.min(*n)..range.end.min(*n));
        let window = Window {
            from: stored().map(|range| range.start).collect(),
            shape: stored().map(|range| range.end - range.start).collect(),
            ..Window::whole(array.shape())
        };
        Ok((window, ranges.iter().map(|range| range.end - range.start).collect()))
    }

    /// A region of the source, copied to an array of the region's shape.
    pub(super) fn of(array: &Array, region: Option<&Region>) -> Result<Window> {
        let whole = Window::whole(array.shape());
        let Some(region) = region else { return Ok(whole) };
        let ranges = region.of(array)?;
        Ok(Window {
            from: ranges.iter().map(|range| range.start).collect(),
            shape: ranges.iter().map(|range| range.end - range.start).collect(),
            ..whole
        })
    }

    /// Returns `true` if the window covers an array of this shape.
    pub(super) fn is_whole(&self, shape: &[u64]) -> bool {
        self.shape.as_slice() == shape && self.from.iter().all(|at| *at == 0)
    }

    /// Bytes of the window, for elements of `size` bytes.
    pub(super) fn bytes(&self, size: usize) -> u64 {
        self.shape.iter().fold(size as u64, |bytes, n| bytes.saturating_mul(*n))
    }

    /// Returns `true` if the window is inside arrays of these shapes.
    pub(super) fn fits(&self, source: &[u64], target: &[u64]) -> bool {
        let inside = |start: &Dims, shape: &[u64]| {
            let ends = start.iter().zip(&self.shape).map(|(at, n)| at.checked_add(*n));
            shape.len() == start.len() && ends.zip(shape).all(|(end, n)| end.is_some_and(|end| end <= *n))
        };
        self.from.len() == self.shape.len()
            && self.to.len() == self.shape.len()
            && inside(&self.from, source)
            && inside(&self.to, target)
    }

    /// The window's place in the target.
    pub(super) fn place(&self) -> Block {
        Block { first: self.to.clone(), len: self.shape.clone() }
    }
}

/// The smallest box around `block` that begins and ends at object boundaries or the array's end.
pub(super) fn aligned(block: &Block, grid: &ChunkGrid, shape: &[u64]) -> Vec<Range<u64>> {
    let axis = |(axis, n): (usize, &u64)| {
        let (first, len) = (block.first[axis], block.len[axis]);
        if len == 0 {
            return first..first;
        }
        let last = grid.index_of(axis, first + len - 1);
        let end = grid.start(axis, last).saturating_add(grid.size(axis, last));
        grid.start(axis, grid.index_of(axis, first))..end.min(*n)
    };
    shape.iter().enumerate().map(axis).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_python() {
        for (bounds, expected) in [
            ((None, None), 0..10),
            ((Some(3), None), 3..10),
            ((Some(-3), Some(-1)), 7..9),
            ((Some(-30), Some(30)), 0..10),
            ((Some(5), Some(2)), 5..5),
            ((Some(12), None), 10..10),
            ((Some(i64::MIN), Some(i64::MAX)), 0..10),
        ] {
            assert_eq!(range(bounds, 10), expected, "{bounds:?}");
        }
    }

    #[test]
    fn regions_as_text() {
        let region = |text: &str| text.parse::<Region>().map_err(|error| error.to_string());
        assert_eq!(
            region("0:10, :, -5:"),
            Ok(Region::Axes(vec![(Some(0), Some(10)), (None, None), (Some(-5), None),]))
        );
        assert_eq!(
            region("time=0:10, lat = -5:"),
            Ok(Region::Named(vec![("time".into(), (Some(0), Some(10))), ("lat".into(), (Some(-5), None)),]))
        );
        for wrong in ["3", "::2", "...", "time=3", "time=0:1,5", "=", "nonsense"] {
            assert!(region(wrong).unwrap_err().contains("region"), "{wrong}");
        }
    }

    #[test]
    fn boxes_grow_to_whole_objects() {
        let grid = ChunkGrid::regular([4, 10].as_slice().into()).unwrap();
        let block = |first: [u64; 2], len: [u64; 2]| Block {
            first: first.as_slice().into(),
            len: len.as_slice().into(),
        };
        assert_eq!(aligned(&block([4, 0], [4, 7]), &grid, &[9, 7]), [4..8, 0..7]);
        assert_eq!(aligned(&block([3, 0], [6, 3]), &grid, &[9, 7]), [0..9, 0..7]);
        assert_eq!(aligned(&block([5, 0], [0, 7]), &grid, &[9, 7])[0], 5..5);
    }
}
