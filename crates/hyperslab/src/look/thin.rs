//! Coarser windows: fewer elements, that are as far apart as it takes to decode little.

use super::window::{Window, WindowAxis};
use crate::{Array, Result};

/// Most bytes to decode for a view. Decoding 256 MiB takes about 0.25 s on one core (zstd).
const MOST_DECODED: u64 = 256 << 20;
/// Most chunks to decode for a view.
const MOST_CHUNKS: usize = 2000;
/// Most chunks to look for in a near store. Few of them may be stored. Looking for 8000 takes less than
/// 0.1 s on a local disk.
const MOST_LOOKED: u64 = 8000;
/// Most chunks to touch in a store where requests take the time.
const MOST_REQUESTS: u64 = 512;

/// How coarse an axis may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coarseness {
    /// All elements are wanted.
    Exact,
    /// At most this many elements are wanted, and fewer will do.
    AtMost(u64),
}

impl Window {
    /// The window with every `n`-th element, for each axis.
    #[must_use]
    pub fn every(&self, steps: &[u64]) -> Window {
        let coarser = |(axis, by): (&WindowAxis, &u64)| {
            let by = (*by).max(1);
            let step = axis.step.saturating_mul(i64::try_from(by).unwrap_or(i64::MAX));
            WindowAxis { step, len: axis.len.div_ceil(by), ..axis.clone() }
        };
        Window { axes: self.axes.iter().zip(steps).map(coarser).collect() }
    }

    /// Number of chunks that have elements of the window.
    pub fn chunks(&self, array: &Array) -> u64 {
        self.axes
            .iter()
            .enumerate()
            .fold(1, |all, (number, axis)| all.saturating_mul(chunks_along(array, number, axis)))
    }
}

/// Makes a window coarser, until it has at most the wanted elements along each axis, `most` elements in
/// all, and few chunks have to be decoded. Steps that skip chunks are multiples of them.
///
/// Axes that have to be exact stay as they are, whatever that costs.
pub fn thin(array: &Array, window: &Window, wanted: &[Coarseness], most: u64) -> Result<Window> {
    let is_far = array.layout().store().cost().waiting_dominates();
    let mut steps: Vec<u64> = window
        .axes
        .iter()
        .zip(wanted)
        .map(|(axis, wanted)| match wanted {
            Coarseness::Exact => 1,
            Coarseness::AtMost(most) => axis.len.div_ceil((*most).max(1)).max(1),
        })
        .collect();
    loop {
        let found = window.every(&steps);
        let is_small = found.count() <= most;
        if is_small && is_cheap(array, &found, is_far)? {
            return Ok(found);
        }
        // The axis that has most to give: its chunks, or its elements if there are too many of them.
        let along = |number: &usize| match found.axes.get(*number) {
            Some(axis) if is_small => chunks_along(array, *number, axis).max(u64::from(axis.len > 1)),
            Some(axis) => axis.len,
            None => 0,
        };
        let may = (0..steps.len())
            .filter(|number| wanted.get(*number).is_some_and(|wanted| *wanted != Coarseness::Exact))
            .filter(|number| found.axes.get(*number).is_some_and(|axis| axis.len > 1));
        let Some(axis) = may.max_by_key(along) else { return Ok(found) };
        let own = window.axes.get(axis).map_or(1, |axis| axis.step.unsigned_abs().max(1));
        if let Some(step) = steps.get_mut(axis) {
            *step = match is_small && array.has_chunks() {
                true => wider(*step, own, array.chunk_shape().get(axis).copied().unwrap_or(1)),
                false => step.saturating_mul(2),
            };
        }
    }
}

/// A larger step, that touches fewer chunks of a length, and is a multiple of it. `own`: the distance of
/// elements in the window.
fn wider(step: u64, own: u64, chunk: u64) -> u64 {
    let chunk = chunk.max(1);
    // Steps up to one chunk touch every chunk.
    let distance = step.saturating_mul(own).saturating_mul(2).max(chunk.saturating_mul(2));
    distance.div_ceil(chunk).saturating_mul(chunk).div_ceil(own)
}

fn is_cheap(array: &Array, window: &Window, is_far: bool) -> Result<bool> {
    if window.count() <= 64 {
        return Ok(true);
    }
    if !array.has_chunks() {
        return Ok(array.explain_read(&window.selection(array)?, 0)?.bytes_read <= MOST_DECODED);
    }
    let chunks = window.chunks(array);
    let size = array.dtype().size() as u64;
    let bytes = array.chunk_shape().iter().fold(size, |all, len| all.saturating_mul(*len));
    if is_far {
        // Looking at each chunk would be as slow as reading it.
        return Ok(chunks <= MOST_REQUESTS && chunks.saturating_mul(bytes) <= MOST_DECODED);
    }
    if chunks <= MOST_CHUNKS as u64 && chunks.saturating_mul(bytes) <= MOST_DECODED {
        return Ok(true);
    }
    if chunks > MOST_LOOKED {
        return Ok(false);
    }
    let cost = array.explain_read(&window.selection(array)?, 0)?;
    let absent = cost.strategies.iter().filter(|(strategy, _)| strategy.name() == "fill");
    let stored = cost.chunks - absent.map(|(_, count)| *count).sum::<usize>().min(cost.chunks);
    Ok(stored <= MOST_CHUNKS && cost.bytes_decoded <= MOST_DECODED)
}

/// Number of chunks along an axis that have elements of a window.
fn chunks_along(array: &Array, number: usize, axis: &WindowAxis) -> u64 {
    let grid = array.layout().grid();
    if axis.len <= 1 || axis.dropped || !array.has_chunks() {
        return 1;
    }
    let (first, last) = (axis.at(0), axis.at(axis.len - 1));
    let all = grid.index_of(number, first).abs_diff(grid.index_of(number, last)) + 1;
    // Each element is in one chunk. Chunks between two elements are not touched.
    all.min(axis.len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, Index, MemoryStore, zarr};
    use std::sync::Arc;

    fn array(shape: &[u64], chunks: &[u64]) -> Array {
        let mut spec = ArraySpec::new(zarr::Format::V3, shape, "<f4".parse().unwrap());
        spec.chunks = Some(chunks.into());
        zarr::Array::create(Arc::new(MemoryStore::new()), "", spec, false).unwrap().into()
    }

    fn thinned(array: &Array, text: &str, wanted: &[Coarseness], most: u64) -> String {
        let window = Window::parse(array, text).unwrap().unwrap();
        thin(array, &window, wanted, most).unwrap().text(array.shape())
    }

    #[test]
    fn few_elements_along_each_axis() {
        use Coarseness::{AtMost, Exact};
        let one = array(&[100, 1000, 2000], &[10, 100, 100]);
        let most = u64::MAX;
        assert_eq!(thinned(&one, "3", &[Exact, AtMost(1000), AtMost(500)], most), "[3, :, ::4]");
        assert_eq!(
            thinned(&one, "3, 10:20, ::3", &[Exact, AtMost(4), AtMost(999)], most),
            "[3, 10:22:3, ::3]"
        );
        assert_eq!(thinned(&one, "3, ::-1", &[Exact, AtMost(500), Exact], most), "[3, ::-2]");
        assert_eq!(thinned(&one, "3", &[Exact, Exact, Exact], 10), "[3]");
        assert_eq!((wider(1, 1, 100), wider(130, 1, 100), wider(3, 7, 1)), (200, 300, 6));
        let window = Window::parse(&one, "3, ::150, 5").unwrap().unwrap();
        assert_eq!(window.chunks(&one), 7);
    }

    #[test]
    fn few_chunks_are_decoded() {
        use Coarseness::AtMost;
        let one = array(&[100_000, 100_000], &[100, 100]);
        let window = Window::all(&one).unwrap();
        // No chunk is stored: many may be looked for, and none has to be decoded.
        let found = thin(&one, &window, &[AtMost(1000), AtMost(1000)], u64::MAX).unwrap();
        assert!(found.chunks(&one) <= MOST_LOOKED && found.chunks(&one) > 1000, "{found:?}");
        assert!(found.axes.iter().all(|axis| axis.step % 100 == 0), "{found:?}");
        for at in 0..3 {
            one.write_slice(&[Index::range(at, at + 1), Index::ALL], &[1_f32; 100_000]).unwrap();
        }
        let most = 1 << 16;
        let found = thin(&one, &window, &[AtMost(u64::MAX), AtMost(u64::MAX)], most).unwrap();
        assert!(found.count() <= most && found.count() > 64);
    }
}
