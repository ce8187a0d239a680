//! A plane of an array as numbers: what a viewer draws.

use super::numbers::{NumberReader, Part};
use super::thin::{Coarseness, thin};
use super::window::{Window, WindowAxis};
use crate::meaning::{Level, Pyramid};
use crate::{Array, Error, Result};
use hyperslab_array::{ArrayError, element_count};

/// Options of [`Plane::of`].
#[derive(Clone, Debug)]
pub struct PlaneOptions {
    /// Most elements along the first axis. `None`: all.
    pub height: Option<u64>,
    /// Most elements along the second axis, or along the only one. `None`: all.
    pub width: Option<u64>,
    /// The part of complex numbers.
    pub part: Part,
    /// Coarser levels of the array's pyramid may be read.
    pub levels: bool,
    /// Most bytes of the result.
    pub most_bytes: u64,
}

impl Default for PlaneOptions {
    fn default() -> Self {
        PlaneOptions { height: None, width: None, part: Part::Abs, levels: true, most_bytes: 256 << 20 }
    }
}

/// Numbers along at most two axes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plane {
    /// Unpacked numbers in C order. NaN: missing, or not a number.
    pub values: Vec<f32>,
    /// Elements per axis.
    pub shape: Vec<u64>,
    /// The elements of the array. The numbers of a coarser level stand for the elements of a step.
    pub window: Window,
    /// The level of the pyramid that was read. `None`: the array itself.
    pub level: Option<Array>,
    /// How many numbers are NaN.
    pub missing: u64,
}

impl Plane {
    /// Reads a window of at most two axes. Steps become larger until there are no more elements than
    /// wanted, and until little has to be decoded. If the array belongs to a pyramid, a coarser level
    /// may be read.
    ///
    /// Fails with [`Error::Options`] if there are more axes, or if elements are no numbers.
    ///
    /// ```
    /// use hyperslab::look::{Plane, PlaneOptions, Window};
    /// use hyperslab::prelude::*;
    ///
    /// # fn main() -> Result<(), hyperslab::Error> {
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let location = directory.path().join("a").display().to_string();
    /// let array = Array::create(&location, &ArraySpec::new(Format::ZarrV3.zarr()?, &[2, 6], "|u1".parse()?))?;
    /// array.write_slice(&[], &(0..12_u8).collect::<Vec<_>>())?;
    /// let options = PlaneOptions { width: Some(3), ..PlaneOptions::default() };
    /// let found = Plane::of(&array, &Window::all(&array)?, &options, &|| false)?;
    /// assert_eq!(found.values, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    /// assert_eq!(found.window.text(array.shape()), "[:, ::2]");
    /// # Ok(())
    /// # }
    /// ```
    pub fn of(
        array: &Array,
        window: &Window,
        options: &PlaneOptions,
        stop: &dyn Fn() -> bool,
    ) -> Result<Plane> {
        let kept = window.kept().count();
        if kept > 2 {
            return Err(Error::Options(format!(
                "array '{}': a plane has two axes, and the selection has {kept}; give integers for the others",
                array.name()
            )));
        }
        let mut limits = match kept {
            2 => vec![options.height, options.width],
            _ => vec![options.width.or(options.height)],
        }
        .into_iter();
        let mut wanted = Vec::with_capacity(window.axes.len());
        for axis in &window.axes {
            let limit = if axis.dropped { None } else { limits.next().flatten() };
            wanted.push(limit.map_or(Coarseness::Exact, Coarseness::AtMost));
        }
        // Fails before anything is looked for.
        let size = NumberReader::of(array, options.part)?.memory();
        let level = if options.levels { coarser(array, window, &wanted)? } else { None };
        let (read, within) = match &level {
            Some(level) => (&level.array, in_level(window, level)),
            None => (array, window.clone()),
        };
        let within = thin(read, &within, &wanted, options.most_bytes / size)?;
        let shape = within.shape();
        let bytes = element_count(&shape).and_then(|count| count.checked_mul(size)).unwrap_or(u64::MAX);
        if bytes > options.most_bytes {
            return Err(ArrayError::Memory { array: array.name(), what: "a plane", bytes }.into());
        }
        let reader = NumberReader::of(read, options.part)?;
        let values = reader.singles(&within.selection(read)?, stop)?;
        let missing = values.iter().filter(|value| value.is_nan()).count() as u64;
        let window = match &level {
            Some(level) => of_level(window, &within, level),
            None => within,
        };
        Ok(Plane { values, shape, window, level: level.map(|level| level.array), missing })
    }

    /// The numbers as little-endian bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = bytemuck::cast_slice::<f32, u8>(&self.values).to_vec();
        if crate::ByteOrder::NATIVE != crate::ByteOrder::Little {
            bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        }
        bytes
    }
}

/// The coarsest level that still has the wanted elements. `None`: the array itself.
fn coarser(array: &Array, window: &Window, wanted: &[Coarseness]) -> Result<Option<Level>> {
    let step = |(axis, wanted): (&WindowAxis, &Coarseness)| match wanted {
        _ if axis.dropped => u64::MAX,
        Coarseness::Exact => axis.step.unsigned_abs(),
        Coarseness::AtMost(most) => {
            axis.step.unsigned_abs().saturating_mul(axis.len.div_ceil((*most).max(1)).max(1))
        }
    };
    let steps: Vec<u64> = window.axes.iter().zip(wanted).map(step).collect();
    let is_coarse = steps.iter().any(|step| (2..u64::MAX).contains(step));
    if !is_coarse || window.axes.iter().any(|axis| axis.step < 1) || window.count() == 0 {
        return Ok(None);
    }
    // A step that the user gave selects elements of the array itself.
    let is_given = |(axis, wanted): (&WindowAxis, &Coarseness)| *wanted == Coarseness::Exact && axis.step > 1;
    if window.axes.iter().zip(wanted).any(is_given) {
        return Ok(None);
    }
    let Some(pyramid) = Pyramid::of(array)? else { return Ok(None) };
    let fits = |level: &Level| level.factors.iter().zip(&steps).all(|(by, step)| by <= step);
    let size = |level: &Level| element_count(level.array.shape()).unwrap_or(u64::MAX);
    Ok(pyramid.coarser(array).into_iter().filter(fits).min_by_key(size))
}

/// A window of an array in a coarser level of it.
fn in_level(window: &Window, level: &Level) -> Window {
    let axes = window.axes.iter().zip(&level.factors).zip(level.array.shape());
    let coarse = axes.map(|((axis, by), len)| {
        let place = |at: u64| (at / by).min(len.saturating_sub(1));
        let (first, last) = (place(axis.first), place(axis.at(axis.len.saturating_sub(1))));
        let step = (axis.step.unsigned_abs() / by).max(1);
        let len = (last - first) / step + 1;
        let step = i64::try_from(step).unwrap_or(i64::MAX);
        WindowAxis { first, step, len, ..axis.clone() }
    });
    Window { axes: coarse.collect() }
}

/// A window of a level in the array itself. `window`: the part that was asked for.
fn of_level(window: &Window, within: &Window, level: &Level) -> Window {
    let axes = window.axes.iter().zip(&within.axes).zip(&level.factors);
    let fine = axes.map(|((own, coarse), by)| {
        if own.dropped {
            return own.clone();
        }
        let by_signed = i64::try_from(*by).unwrap_or(i64::MAX);
        WindowAxis { first: coarse.first * by, step: coarse.step.saturating_mul(by_signed), ..coarse.clone() }
    });
    Window { axes: fine.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, Json, MemoryStore, Store, zarr};
    use std::sync::Arc;

    fn image(store: &Arc<dyn Store>) -> Array {
        let attributes = r#"{"ome": {"version": "0.5", "multiscales": [{
            "axes": [{"name": "c", "type": "channel"}, {"name": "y"}, {"name": "x"}],
            "datasets": [{"path": "0"}, {"path": "1"}, {"path": "2"}]}]}}"#;
        let attributes = Json::parse(attributes.as_bytes()).unwrap();
        zarr::Group::create(store.clone(), "image", zarr::Format::V3, attributes, false).unwrap();
        let make = |level: u64| -> Array {
            let (rows, columns) = (101_u64.div_ceil(1 << level), 64 >> level);
            let spec = ArraySpec::new(zarr::Format::V3, &[2, rows, columns], "<u2".parse().unwrap());
            let path = format!("image/{level}");
            let array: Array = zarr::Array::create(store.clone(), &path, spec, false).unwrap().into();
            let values: Vec<u16> = (0..2 * rows * columns).map(|n| (n + 10_000 * level) as u16).collect();
            array.write_slice(&[], &values).unwrap();
            array
        };
        let first = make(0);
        (1..3).for_each(|level| drop(make(level)));
        first
    }

    fn plane(array: &Array, text: &str, height: Option<u64>, width: Option<u64>) -> Result<Plane> {
        let window = Window::parse(array, text).unwrap().unwrap();
        Plane::of(array, &window, &PlaneOptions { height, width, ..PlaneOptions::default() }, &|| false)
    }

    #[test]
    fn levels_of_a_pyramid() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let array = image(&store);
        let level = |plane: &Plane| plane.level.as_ref().map(|level| level.path().to_owned());
        let text = |plane: &Plane| plane.window.text(array.shape());
        let whole = plane(&array, "1", None, None).unwrap();
        assert_eq!((level(&whole), text(&whole).as_str()), (None, "[1]"));
        assert_eq!((whole.shape.as_slice(), whole.values[0]), (&[101, 64][..], 6464.0));
        let half = plane(&array, "1", Some(60), Some(40)).unwrap();
        assert_eq!((level(&half).as_deref(), text(&half).as_str()), (Some("image/1"), "[1, ::2, ::2]"));
        assert_eq!((half.shape.as_slice(), half.values[0]), (&[51, 32][..], 10_000.0 + 51.0 * 32.0));
        let small = plane(&array, "1, 10:90, 3:", Some(8), Some(9)).unwrap();
        assert_eq!((level(&small).as_deref(), text(&small).as_str()), (Some("image/2"), "[1, 8:92:12, ::8]"));
        assert_eq!(small.shape, [7, 8]);
        assert_eq!(small.values[1], 20_000.0 + 26.0 * 16.0 + 2.0 * 16.0 + 2.0);
        // A given step selects elements of the array itself.
        let given = plane(&array, "1, ::2, ::2", None, None).unwrap();
        assert_eq!((level(&given), given.values[1]), (None, 6466.0));
        let column = plane(&array, "1, :, 3", None, Some(51)).unwrap();
        assert_eq!((level(&column).as_deref(), column.shape.as_slice()), (Some("image/1"), &[51][..]));
        assert_eq!(text(&column), "[1, ::2, 3]");
    }

    #[test]
    fn planes_have_two_axes_and_an_end() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let array = image(&store);
        assert!(plane(&array, "", None, None).unwrap_err().to_string().contains("give integers"));
        let window = Window::parse(&array, "0").unwrap().unwrap();
        let options = PlaneOptions { most_bytes: 100, ..PlaneOptions::default() };
        assert!(Plane::of(&array, &window, &options, &|| false).is_err());
        let none = plane(&array, "0, 5:5", Some(3), Some(3)).unwrap();
        assert_eq!((none.shape.as_slice(), none.values.len()), (&[0, 3][..], 0));
        let one = plane(&array, "0, 5, 6", Some(3), Some(3)).unwrap();
        assert_eq!((one.shape.len(), one.values.as_slice()), (0, &[5.0 * 64.0 + 6.0][..]));
    }
}
