//! Compares the description of a source with the first one.

use super::Joining;
use super::coordinate::Ends;
use super::facts::{ArrayFacts, Facts};
use super::retimed::Retimed;
use super::sources::Sources;
use crate::copy::Paths;
use crate::meaning::{OF_TIMES, Retiming};
use crate::nodes::element::swap_bytes;
use crate::nodes::words;
use crate::{Array, Dims, Error, Memory, Node, ReadOptions, Result, Selection};
use hyperslab_codec::{ByteOrder, DataType, Kind};
use hyperslab_store::fork::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Values of a variable of the first source that are kept for the comparison with all others.
/// Longer ones are read again for each source.
const MOST_KEPT: u64 = 16 << 20;

/// Bytes of a variable that are compared at a time.
const BLOCK: u64 = 16 << 20;

/// How an array is stored in a source.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// Elements per axis. Less than the variable's if the file has fewer than its dimension.
    pub(super) shape: Dims,
    /// Number of stored chunks, and their bytes; zero if that is not known.
    pub(super) chunks: (u64, u64),
    /// The change of its elements, if they are times since another date.
    pub(super) retiming: Option<Arc<Retiming>>,
}

/// Facts about a source that fits the first one, for joining.
#[derive(Debug)]
pub(super) struct Compared {
    /// The length along the dimension.
    pub(super) len: u64,
    /// In the order of the first source's arrays.
    pub(super) stored: Vec<Stored>,
    /// The ends of the coordinate, if the dimension has one.
    pub(super) ends: Option<Ends>,
    /// Attributes that differ from the first source's, and need not be equal.
    pub(super) differing: Vec<String>,
}

/// Adds the name of the source to an error about it.
pub(super) fn in_source(
    refuse: &dyn Fn(String) -> Error,
    sources: &Sources,
    number: usize,
    error: Error,
) -> Error {
    match error {
        Error::Options(why) => refuse(format!("{}: {why}", sources.name(number))),
        Error::Copy { array, why } => refuse(format!("{}: array '{array}': {why}", sources.name(number))),
        error => error,
    }
}

/// Values of the first source, by path.
#[derive(Debug, Default)]
pub(super) struct Values(Mutex<HashMap<String, Arc<Memory>>>);

impl Compared {
    pub(super) fn of_first(first: &Facts, joining: Joining<'_>) -> Result<Compared> {
        Ok(Compared {
            len: first.len(joining.dimension)?,
            stored: first.arrays.iter().map(|array| stored(&array.array, None)).collect(),
            ends: Ends::of(first, joining, None)?,
            differing: Vec::new(),
        })
    }

    pub(super) fn with_first(
        root: &Node,
        first: &Facts,
        values: &Values,
        joining: Joining<'_>,
    ) -> Result<Compared> {
        let facts = Facts::of(root, joining)?;
        let refuse = |why: String| Err(Error::Options(why));
        if let Some(more) = facts.arrays.iter().find(|array| first.array(&array.path).is_none()) {
            return refuse(format!(
                "it has the variable {:?}, which the first source does not have; name the variables to copy",
                more.path
            ));
        }
        let retimed = Retimed::new(first, &facts, joining)?;
        let ends = Ends::of(&facts, joining, retimed.of(joining.dimension))?;
        let mut compared = Compared { len: 0, stored: Vec::new(), ends, differing: Vec::new() };
        for expected in &first.arrays {
            let Some(found) = facts.array(&expected.path) else {
                return refuse(format!(
                    "it does not have the variable {:?} of the first source; name the variables to copy",
                    expected.path
                ));
            };
            let wrong = |why: String| Error::Options(format!("variable {:?} {why}", expected.path));
            if found.stored_path != expected.stored_path {
                return refuse(format!(
                    "variable {:?} is stored as '/{}', and as '/{}' in the first source",
                    expected.path, found.stored_path, expected.stored_path
                ));
            }
            let retiming = retimed.of(&expected.path);
            compare(expected, found, retiming.is_some()).map_err(wrong)?;
            match expected.axis {
                Some(_) => compared.differing.extend(
                    expected
                        .variable
                        .other_attributes(&found.variable)
                        .into_iter()
                        .filter(|name| retiming.is_none() || !OF_TIMES.contains(&name.as_str()))
                        .map(|name| format!("/{}, {name:?}", expected.path)),
                ),
                None => {
                    if let Some(differs) = expected.variable.attribute_difference(&found.variable) {
                        return Err(wrong(format!(
                            "has not the dimension '{}', so it must be equal in all sources: {differs}",
                            joining.dimension
                        )));
                    }
                    if joining.compare && !has_equal_values(expected, found, values)? {
                        return Err(wrong(format!(
                            "has not the dimension '{}', and its values are not those of the first source",
                            joining.dimension
                        )));
                    }
                }
            }
            compared.stored.push(stored(&found.array, retiming));
        }
        compared.len = facts.len(joining.dimension)?;
        Ok(compared)
    }
}

fn stored(array: &Array, retiming: Option<&Arc<Retiming>>) -> Stored {
    // On a server, counting may take longer than the copy.
    let counts = !array.store().cost().is_far();
    let chunks = if counts { array.chunks_stored(None).unwrap_or_default() } else { (0, 0) };
    let retiming = retiming.filter(|retiming| !retiming.is_none()).cloned();
    Stored { shape: array.shape().into(), chunks, retiming }
}

/// Compares two descriptions of a variable. The error says how they differ.
/// `retimed`: the times of `found` become numbers in the units of `expected`.
fn compare(expected: &ArrayFacts, found: &ArrayFacts, retimed: bool) -> Result<(), String> {
    let names = |array: &ArrayFacts| {
        let names = array.variable.dimension_names.iter().flatten();
        names.map(|name| name.clone().unwrap_or_else(|| "?".into())).collect::<Vec<_>>().join(", ")
    };
    if names(expected) != names(found) || expected.axis != found.axis {
        return Err(format!(
            "has the dimensions ({}), and ({}) in the first source",
            names(found),
            names(expected)
        ));
    }
    let (own, others) = (&found.variable.shape, &expected.variable.shape);
    let differs = |axis: usize| Some(axis) != expected.axis && own.get(axis) != others.get(axis);
    if own.len() != others.len() || (0..own.len()).any(differs) {
        return Err(format!(
            "has the shape {:?}, and {:?} in the first source",
            own.as_slice(),
            others.as_slice()
        ));
    }
    if !has_equal_elements(&expected.array, &found.array) {
        return Err(format!(
            "has elements {}, and {} in the first source",
            found.array.type_words(),
            expected.array.type_words()
        ));
    }
    expected
        .variable
        .joining_difference((&expected.array, &found.array), &found.variable, retimed)
        .map_or(Ok(()), Err)
}

/// Returns `true` if elements can be joined: only byte orders of numbers may differ.
fn has_equal_elements(one: &Array, other: &Array) -> bool {
    if one.vlen() != other.vlen()
        || one.structure() != other.structure()
        || one.optional() != other.optional()
    {
        return false;
    }
    let is_number = |array: &Array| {
        matches!(array.dtype().kind(), Kind::Int | Kind::UInt | Kind::Float | Kind::Complex)
            && array.type_words() == words::dtype(array.dtype())
    };
    if is_number(one) && is_number(other) {
        return one.dtype().with_order(ByteOrder::Little) == other.dtype().with_order(ByteOrder::Little);
    }
    // Names of enumerations and members are known to HDF5 alone.
    let members = |array: &Array| array.as_hdf5().map(|dataset| dataset.element().to_json());
    one.dtype() == other.dtype() && members(one) == members(other)
}

/// The options of reads that several threads make side by side.
pub(super) fn on_one_thread() -> ReadOptions<'static> {
    ReadOptions { threads: Some(1), ..ReadOptions::default() }
}

/// Returns `true` if two variables have equal elements; all NaNs are equal.
fn has_equal_values(expected: &ArrayFacts, found: &ArrayFacts, values: &Values) -> Result<bool> {
    let (one, other) = (&expected.array, &found.array);
    if one.shape() != other.shape() {
        return Ok(false);
    }
    if one.vlen().is_some() {
        let read = |array: &Array| {
            let all = Selection::all(array.shape());
            array.node().read_copied(&all, on_one_thread(), &mut Paths::new())
        };
        let (one, other) = (read(one)?, read(other)?);
        return Ok(one.offsets == other.offsets
            && one.values.as_slice() == other.values.as_slice()
            && one.validity == other.validity);
    }
    let size = one.dtype().size() as u64;
    let bytes = one.shape().iter().fold(size, |bytes, n| bytes.saturating_mul(*n));
    if bytes <= MOST_KEPT {
        let kept = values.0.lock().get(&expected.path).cloned();
        let kept = match kept {
            Some(kept) => kept,
            None => {
                let read = Arc::new(one.read(&Selection::all(one.shape()), on_one_thread())?);
                values.0.lock().insert(expected.path.clone(), read.clone());
                read
            }
        };
        let read = other.read(&Selection::all(other.shape()), on_one_thread())?;
        return Ok(are_equal(one.dtype(), kept.as_slice(), other.dtype(), read.as_slice()));
    }
    let Some(len) = one.shape().first().copied() else { return Ok(true) };
    let rows = (BLOCK / (bytes / len.max(1)).max(1)).max(1);
    let mut at = 0;
    while at < len {
        let range = crate::Index::range(at.cast_signed(), at.saturating_add(rows).min(len).cast_signed());
        let read = |array: &Array| array.read(&array.select(&[range])?, on_one_thread());
        if !are_equal(one.dtype(), read(one)?.as_slice(), other.dtype(), read(other)?.as_slice()) {
            return Ok(false);
        }
        at = at.saturating_add(rows);
    }
    Ok(true)
}

/// Compares elements; all NaNs are equal, and so are both zeros.
fn are_equal(from: DataType, one: &[u8], to: DataType, other: &[u8]) -> bool {
    if from == to && one == other {
        return true;
    }
    let native = |dtype: DataType, bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        if dtype.has_order() && dtype.order() != ByteOrder::NATIVE {
            swap_bytes(&mut bytes, dtype.number_size());
        }
        bytes
    };
    let (one, other) = (native(from, one), native(to, other));
    if one.len() != other.len() || !matches!(from.kind(), Kind::Float) {
        return one == other;
    }
    let floats = |bytes: &[u8]| -> Option<Vec<f64>> {
        match from.size() {
            4 => Some(
                bytes
                    .chunks_exact(4)
                    .map(|b| f32::from_ne_bytes(b.try_into().unwrap_or_default()).into())
                    .collect(),
            ),
            8 => Some(
                bytes.chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap_or_default())).collect(),
            ),
            _ => None,
        }
    };
    match (floats(&one), floats(&other)) {
        (Some(one), Some(other)) => one.iter().zip(&other).all(|(a, b)| a == b || a.is_nan() && b.is_nan()),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_as_numbers() {
        let (little, big): (DataType, DataType) = ("<f4".parse().unwrap(), ">f4".parse().unwrap());
        let of = |values: &[f32]| values.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
        let swapped = |values: &[f32]| values.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<u8>>();
        assert!(are_equal(little, &of(&[1.0, f32::NAN, 0.0]), big, &swapped(&[1.0, -f32::NAN, -0.0])));
        assert!(!are_equal(little, &of(&[1.0]), big, &swapped(&[1.5])));
        let int: DataType = "<i2".parse().unwrap();
        assert!(!are_equal(int, &[1, 0], ">i2".parse().unwrap(), &[1, 0]));
        assert!(are_equal(int, &[1, 0], ">i2".parse().unwrap(), &[0, 1]));
    }
}
