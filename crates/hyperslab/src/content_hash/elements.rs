//! Elements in the form that is hashed, for every format.
//!
//! | elements | form |
//! |---|---|
//! | numbers, bools, times, bytes of fixed length | little-endian |
//! | structures | the fields one after the other, without gaps |
//! | elements that may be missing | the value, and a byte that is 1; all 0 if missing |
//! | text, also of fixed length; paths for references of HDF5 | the length, and UTF-8 |
//! | sequences | the number of bytes, and the items in little-endian |
//! | other elements of HDF5 | the length, and their canonical JSON |

use super::canonical;
use crate::copy::{Paths, Repack, element_bytes, hdf5_structure, read_ragged};
use crate::formats::hdf5_json;
use crate::meaning::MissingValue;
use crate::nodes::element::swap_bytes;
use crate::{Array, ByteOrder, DataType, Dims, Error, Json, Kind, ReadOptions, Result, VlenKind};
use hyperslab_array::{self as engine, ArrayError, Index, Memory, Ragged, Selection, element_count};
use hyperslab_hdf5::Dataset;
use hyperslab_hdf5::element::ElementKind;
use hyperslab_hdf5::value::Value;
use std::borrow::Cow;
use std::ops::Range;

/// Bytes that bricks count for an element of variable length.
const VARYING: u64 = 16;

/// How the elements of an array become the bytes that are hashed.
#[derive(Debug)]
pub(super) struct Elements<'a> {
    array: &'a Array,
    /// Elements per axis of the variable. It may be longer than the array.
    shape: Dims,
    form: Form,
    /// The canonical name of the type.
    pub(super) name: Json,
    /// The element behind the array's end: as in the array's memory, or UTF-8.
    rest: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Form {
    /// Numbers of `number` bytes, in the order of the array.
    Plain { number: usize },
    /// Values of this type, each with a byte.
    Optional { value: DataType },
    /// Structures of `size` bytes. `repack` moves the fields of an element to their places.
    Fields { repack: Option<Repack>, size: usize },
    /// Text, bytes or sequences. `item`: the type of the items, if these are numbers.
    Varying { item: Option<DataType> },
    /// Elements of types that only HDF5 has.
    Values,
}

/// Elements of a region in C order.
pub(super) enum Cells {
    /// Elements of `size` bytes each, at the front of `bytes`.
    Fixed { bytes: Memory, size: usize },
    /// The `i`-th element is `values[ends[i]..ends[i + 1]]`.
    Varying { ends: Vec<usize>, values: Vec<u8> },
}

impl Cells {
    /// The bytes of neighbours, if these are in the form that is hashed.
    pub(super) fn run(&self, first: usize, count: usize) -> Option<&[u8]> {
        match self {
            Cells::Fixed { bytes, size } => bytes.as_slice().get(first * size..(first + count) * size),
            Cells::Varying { .. } => None,
        }
    }

    /// Appends neighbours to the bytes of a brick.
    pub(super) fn append(&self, first: usize, count: usize, out: &mut Vec<u8>) {
        match self {
            Cells::Fixed { .. } => out.extend_from_slice(self.run(first, count).unwrap_or_default()),
            Cells::Varying { ends, values } => {
                for pair in ends.get(first..=first + count).unwrap_or_default().windows(2) {
                    let value = values.get(pair[0]..pair[1]).unwrap_or_default();
                    out.extend_from_slice(&(value.len() as u64).to_le_bytes());
                    out.extend_from_slice(value);
                }
            }
        }
    }
}

fn little(dtype: DataType) -> Json {
    dtype.with_order(ByteOrder::Little).numpy().as_str().into()
}

fn number_size(dtype: DataType) -> usize {
    if dtype.order() == ByteOrder::Little { 1 } else { dtype.number_size() }
}

impl<'a> Elements<'a> {
    /// `shape` and `rest`: of the variable, see [`crate::Variable::rest`].
    pub(super) fn of(array: &'a Array, shape: &[u64], rest: Option<Vec<u8>>) -> Result<Elements<'a>> {
        let (form, name) = form(array)?;
        Ok(Elements { array, shape: shape.into(), form, name, rest })
    }

    /// Bytes that bricks count for an element.
    pub(super) fn size(&self) -> u64 {
        match &self.form {
            Form::Plain { .. } | Form::Optional { .. } => self.array.dtype().size() as u64,
            Form::Fields { size, .. } => *size as u64,
            Form::Varying { .. } | Form::Values => VARYING,
        }
    }

    /// Bytes of an element in memory while it is hashed; an estimate for elements of variable length.
    pub(super) fn in_memory(&self, ask: &dyn Fn() -> bool) -> Result<u64> {
        let stored = self.array.dtype().size() as u64;
        Ok(match &self.form {
            Form::Varying { .. } if self.array.vlen().is_some() => element_bytes(self.array, Some(ask))?,
            Form::Varying { .. } | Form::Values => stored.saturating_mul(4).saturating_add(VARYING),
            _ => stored,
        })
    }

    /// Reads a region.
    pub(super) fn read(
        &self,
        region: &[Range<u64>],
        options: ReadOptions<'_>,
        paths: &mut Paths,
    ) -> Result<Cells> {
        let inside = self.inside(region);
        let selection = self.select(&inside)?;
        let is_whole = inside.as_slice() == region;
        match &self.form {
            Form::Varying { .. } | Form::Values => {
                let cells = self.read_varying(&selection, options, paths)?;
                if is_whole { Ok(cells) } else { self.widen_varying(cells, &inside, region) }
            }
            _ => {
                let size = self.array.dtype().size();
                let mut bytes = engine::read(self.array.layout(), &selection, options)?;
                if !is_whole {
                    bytes = self.widen(bytes.as_slice(), &inside, region, size)?;
                }
                Ok(self.as_hashed(bytes, size))
            }
        }
    }

    /// The part of a region that the array has.
    fn inside(&self, region: &[Range<u64>]) -> Vec<Range<u64>> {
        let own = self.array.shape();
        if own == self.shape.as_slice() {
            return region.to_vec();
        }
        let axes = region.iter().zip(own);
        axes.map(|(range, n)| range.start.min(*n)..range.end.min(*n)).collect()
    }

    fn select(&self, ranges: &[Range<u64>]) -> Result<Selection> {
        let index = |range: &Range<u64>| Index::range(range.start.cast_signed(), range.end.cast_signed());
        self.array.select(&ranges.iter().map(index).collect::<Vec<_>>())
    }

    fn no_memory(&self, bytes: u64) -> Error {
        let array = self.array.layout().name().to_owned();
        ArrayError::Memory { array, what: "a region to hash", bytes }.into()
    }

    fn as_hashed(&self, mut memory: Memory, size: usize) -> Cells {
        let bytes = memory.as_mut_slice();
        match &self.form {
            Form::Optional { value } => {
                for element in bytes.chunks_exact_mut(size.max(1)) {
                    if let Some((_, value_bytes)) = element.split_last_mut() {
                        swap_bytes(value_bytes, number_size(*value));
                    }
                }
            }
            Form::Fields { repack, size } => {
                if let Some(repack) = repack {
                    repack.apply(bytes);
                }
                return Cells::Fixed { bytes: memory, size: *size };
            }
            Form::Plain { number } => swap_bytes(bytes, *number),
            Form::Varying { .. } | Form::Values => {}
        }
        Cells::Fixed { bytes: memory, size }
    }

    fn read_varying(
        &self,
        selection: &Selection,
        options: ReadOptions<'_>,
        paths: &mut Paths,
    ) -> Result<Cells> {
        if let (Form::Values, Some(dataset)) = (&self.form, self.array.as_hdf5()) {
            return self.read_values(dataset, selection, options);
        }
        let Ragged { offsets, values, .. } = read_ragged(self.array, selection, options, paths)?;
        let Form::Varying { item } = &self.form else { return Ok(Cells::empty()) };
        let size = self.array.vlen().map_or(1, VlenKind::item_size);
        let mut values = values.as_slice().to_vec();
        if let Some(item) = item {
            swap_bytes(&mut values, number_size(*item));
        }
        let ends = offsets.iter().map(|at| (*at as usize).saturating_mul(size)).collect();
        Ok(Cells::Varying { ends, values })
    }

    /// Elements that only HDF5 has, each as JSON.
    fn read_values(
        &self,
        dataset: &Dataset,
        selection: &Selection,
        options: ReadOptions<'_>,
    ) -> Result<Cells> {
        let element = dataset.element();
        let memory = engine::read(self.array.layout(), selection, options)?;
        let mut cells = Cells::empty();
        for bytes in memory.as_slice().chunks_exact(element.size.max(1)) {
            let value = hdf5_json::value(Value::of(dataset.file(), element, bytes)?);
            cells.push(canonical::text(&value).as_bytes());
        }
        Ok(cells)
    }

    /// Returns the elements of a region. Elements that the array lacks are fill value.
    fn widen(
        &self,
        bytes: &[u8],
        inside: &[Range<u64>],
        region: &[Range<u64>],
        size: usize,
    ) -> Result<Memory> {
        let count = element_count(&lens(region)).and_then(|n| n.checked_mul(size as u64));
        let memory = count.and_then(|n| usize::try_from(n).ok()).and_then(Memory::zeroed);
        let mut memory = memory.ok_or_else(|| self.no_memory(count.unwrap_or(u64::MAX)))?;
        let all = memory.as_mut_slice();
        if let Some(rest) = self.rest.as_ref().filter(|rest| rest.len() == size && size > 0) {
            all.chunks_exact_mut(size).for_each(|element| element.copy_from_slice(rest));
        }
        places(inside, region, |from, to, count| {
            let (from, to) = (from * size..(from + count) * size, to * size..(to + count) * size);
            if let (Some(from), Some(to)) = (bytes.get(from), all.get_mut(to)) {
                to.copy_from_slice(from);
            }
        });
        Ok(memory)
    }

    fn widen_varying(&self, cells: Cells, inside: &[Range<u64>], region: &[Range<u64>]) -> Result<Cells> {
        let Cells::Varying { ends, values } = cells else { return Ok(cells) };
        let count = element_count(&lens(region)).unwrap_or(u64::MAX);
        let mut own = Vec::new();
        let len = usize::try_from(count).map_err(|_| self.no_memory(count))?;
        own.try_reserve_exact(len).map_err(|_| self.no_memory(count))?;
        own.resize(len, None);
        places(inside, region, |from, to, count| {
            for number in 0..count {
                if let Some(place) = own.get_mut(to + number) {
                    *place = Some(from + number);
                }
            }
        });
        let mut all = Cells::empty();
        for number in own {
            let range = number.and_then(|at| Some(*ends.get(at)?..*ends.get(at + 1)?));
            let value = range.map(|range| values.get(range).unwrap_or_default());
            all.push(value.unwrap_or(self.rest.as_deref().unwrap_or_default()));
        }
        Ok(all)
    }
}

impl Cells {
    fn empty() -> Cells {
        Cells::Varying { ends: vec![0], values: Vec::new() }
    }

    fn push(&mut self, value: &[u8]) {
        if let Cells::Varying { ends, values } = self {
            values.extend_from_slice(value);
            ends.push(values.len());
        }
    }
}

fn lens(ranges: &[Range<u64>]) -> Dims {
    ranges.iter().map(|range| range.end - range.start).collect()
}

/// Calls `each` for each row of `inside` with its places in the dense memory of `inside` and of
/// `region`, and with its number of elements. Both regions begin at one place.
fn places(inside: &[Range<u64>], region: &[Range<u64>], mut each: impl FnMut(usize, usize, usize)) {
    let (from, to) = (lens(inside), lens(region));
    let Some((row, outer)) = from.split_last() else { return };
    let count: u64 = outer.iter().product();
    if *row == 0 {
        return;
    }
    for number in 0..count {
        let (mut left, mut at, mut stride) = (number, 0, to.last().copied().unwrap_or(1));
        for (axis, len) in outer.iter().enumerate().rev() {
            at += left % len * stride;
            left /= len;
            stride *= to.get(axis).copied().unwrap_or(1);
        }
        each((number * row) as usize, at as usize, *row as usize);
    }
}

/// How elements are hashed, and the canonical name of their type.
fn form(array: &Array) -> Result<(Form, Json)> {
    let object = |key: &str, value: Json| Json::Object(vec![(key.to_owned(), value)]);
    if let Some(dataset) = array.as_hdf5() {
        match &dataset.element().kind {
            ElementKind::Struct(_) => {
                if let Ok(structure) = hdf5_structure(dataset.element()) {
                    return fields(array, &structure);
                }
                return Ok((Form::Values, object("hdf5", array.type_words().as_str().into())));
            }
            ElementKind::Extended { order, complex } => {
                let number = dataset.element().size / if *complex { 2 } else { 1 };
                let number = if *order == ByteOrder::Little { 1 } else { number };
                return Ok((Form::Plain { number }, if *complex { "<c32" } else { "<f16" }.into()));
            }
            ElementKind::ObjectReference => return Ok((Form::Varying { item: None }, "text".into())),
            ElementKind::Vlen { element, .. } if !matches!(element.kind, ElementKind::Plain(_)) => {
                return Ok((Form::Values, object("hdf5", array.type_words().as_str().into())));
            }
            ElementKind::Array { .. }
            | ElementKind::RegionReference
            | ElementKind::AnyReference
            | ElementKind::Unsupported(_) => {
                return Ok((Form::Values, object("hdf5", array.type_words().as_str().into())));
            }
            _ => {}
        }
    }
    if let Some(structure) = array.structure() {
        return fields(array, structure);
    }
    if let Some(value) = array.optional() {
        return Ok((Form::Optional { value }, object("optional", little(value))));
    }
    let varying = |name: Json, item| Ok((Form::Varying { item }, name));
    let dtype = array.dtype();
    match array.vlen() {
        Some(VlenKind::Text) => varying("text".into(), None),
        Some(VlenKind::Bytes) => varying("bytes".into(), None),
        Some(VlenKind::Json) => varying("json".into(), None),
        Some(VlenKind::MessagePack) => varying("msgpack".into(), None),
        Some(VlenKind::Array(item)) => varying(object("sequence", little(item)), Some(item)),
        None if dtype.kind() == Kind::Text => varying("text".into(), None),
        None => Ok((Form::Plain { number: number_size(dtype) }, little(dtype))),
    }
}

fn fields(array: &Array, structure: &crate::zarr::Structure) -> Result<(Form, Json)> {
    let structure = structure.with_order(ByteOrder::Little);
    let refuse = |why| Error::Copy { array: array.name(), why };
    let repack = Repack::new(array, &structure).map_err(refuse)?;
    Ok((Form::Fields { repack, size: structure.size() }, structure.to_v2()))
}

/// The value that marks missing elements: `null`, the hexadecimal bytes of an element, or a list of
/// a value that is not of the element type. Every NaN is the quiet one without a sign.
pub(super) fn missing(array: &Array, missing: &MissingValue) -> Json {
    let bytes: Cow<'_, [u8]> = match missing {
        MissingValue::None => return Json::Null,
        MissingValue::Other(json) => return Json::Array(vec![json.clone()]),
        MissingValue::Value(bytes) => match missing.text(array) {
            Some(text) => text.into_bytes().into(),
            None if array.vlen().is_some() => bytes.into(),
            None => {
                let mut bytes = bytes.clone();
                swap_bytes(&mut bytes, number_size(array.dtype()));
                if matches!(array.dtype().kind(), Kind::Float | Kind::Complex) {
                    bytes.chunks_exact_mut(array.dtype().number_size()).for_each(quiet_nan);
                }
                bytes.into()
            }
        },
    };
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.as_str().into()
}

/// Makes all NaNs one.
fn quiet_nan(little: &mut [u8]) {
    let (bits, fraction) = match little.len() {
        2 => (16, 10),
        4 => (32, 23),
        8 => (64, 52),
        _ => return,
    };
    let value = little.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let exponent = ((1u64 << (bits - 1 - fraction)) - 1) << fraction;
    if value & exponent == exponent && value & ((1 << fraction) - 1) != 0 {
        let nan = exponent | 1 << (fraction - 1);
        little.iter_mut().enumerate().for_each(|(at, byte)| *byte = (nan >> (8 * at)) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_nans_are_one() {
        let mut found = (-f32::NAN).to_le_bytes();
        quiet_nan(&mut found);
        assert_eq!(found, 0x7fc0_0000_u32.to_le_bytes());
        let mut found = f64::from_bits(0x7ff0_0000_0000_0001).to_le_bytes();
        quiet_nan(&mut found);
        assert_eq!(found, 0x7ff8_0000_0000_0000_u64.to_le_bytes());
        for value in [0.0, -0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY] {
            let mut found = value.to_le_bytes();
            quiet_nan(&mut found);
            assert_eq!(found, value.to_le_bytes());
        }
        let mut half = [1, 0xfc];
        quiet_nan(&mut half);
        assert_eq!(half, [0, 0x7e]);
    }

    #[test]
    fn rows_are_placed_in_a_longer_box() {
        let mut found = Vec::new();
        places(&[2..4, 0..2], &[2..5, 0..3], |from, to, count| found.push((from, to, count)));
        assert_eq!(found, [(0, 0, 2), (2, 3, 2)]);
        places(&[2..2, 0..2], &[2..5, 0..3], |_, _, _| panic!("there are no rows"));
    }

    #[test]
    fn elements_of_variable_length_have_their_length_before_them() {
        let mut cells = Cells::empty();
        for value in ["ab", "", "c"] {
            cells.push(value.as_bytes());
        }
        let mut bytes = Vec::new();
        cells.append(0, 2, &mut bytes);
        assert_eq!(bytes, b"\x02\0\0\0\0\0\0\0ab\0\0\0\0\0\0\0\0");
        assert_eq!(cells.run(0, 1), None);
    }
}
