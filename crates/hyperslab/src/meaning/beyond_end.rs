//! Elements beyond the end of a variable that is shorter than its unlimited dimension.
//!
//! If the HDF5 file defines a fill value, NetCDF shows it there. Otherwise NetCDF shows the default
//! fill value of the element type, while HDF5 shows zeros for unwritten elements before the end.
//! The two values may differ.

use super::Variable;
use crate::copy::hdf5;
use crate::netcdf::External;
use crate::nodes::element::swap_bytes;
use crate::{Array, ByteOrder, DataType, Result};
use hyperslab_hdf5::element::ElementKind;

impl Variable {
    /// The value of elements beyond the end, as in the array's memory; text is UTF-8.
    /// `None`: the array has all elements of the variable.
    pub fn rest(&self, array: &Array) -> Result<Option<Vec<u8>>> {
        if self.shape.as_slice() == array.shape() { Ok(None) } else { value_beyond_end(array) }
    }
}

/// The position of a chunk relative to the array's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Inside,
    /// The chunk has elements on both sides of the array's end.
    AtEnd,
    Behind,
}

impl Side {
    /// Classifies a chunk. `own`: elements per axis of the array; `all`: of its variable.
    pub(crate) fn of(place: &[u64], chunk: &[u64], own: &[u64], all: &[u64]) -> Side {
        let mut side = Side::Inside;
        for (((at, chunk), own), all) in place.iter().zip(chunk).zip(own).zip(all) {
            let (first, end) = (at.saturating_mul(*chunk), (at + 1).saturating_mul(*chunk).min(*all));
            if first >= *own {
                return Side::Behind;
            }
            if end > *own {
                side = Side::AtEnd;
            }
        }
        side
    }
}

/// Like [`Variable::rest`], for an array that is shorter than its variable.
pub(crate) fn value_beyond_end(array: &Array) -> Result<Option<Vec<u8>>> {
    let Some(dataset) = array.as_hdf5() else { return Ok(None) };
    let defined = dataset.fill_value();
    Ok(Some(match (&dataset.element().kind, defined) {
        (ElementKind::VlenString { .. }, _) => hdf5::text(dataset, defined)?,
        (ElementKind::Vlen { .. } | ElementKind::ObjectReference, _) => Vec::new(),
        (_, Some(value)) => value.to_vec(),
        (_, None) => default_fill(array.dtype()).unwrap_or_else(|| vec![0; array.dtype().size()]),
    }))
}

/// NetCDF's default fill value. `None`: NetCDF has no such elements.
pub(super) fn default_fill(dtype: DataType) -> Option<Vec<u8>> {
    let mut value = External::of_elements(dtype)?.default_fill();
    if dtype.order() == ByteOrder::Little {
        swap_bytes(&mut value, dtype.number_size());
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_fill_values() {
        let of = |name: &str| default_fill(name.parse().unwrap());
        assert_eq!(of("<i4"), Some((-2_147_483_647_i32).to_le_bytes().to_vec()));
        assert_eq!(of(">i4"), Some((-2_147_483_647_i32).to_be_bytes().to_vec()));
        assert_eq!(of("|i1"), Some(vec![0x81]));
        assert_eq!(of("<u8"), Some((u64::MAX - 1).to_le_bytes().to_vec()));
        assert_eq!(of("<f4"), Some(9.969_21e36_f32.to_le_bytes().to_vec()));
        assert_eq!(of("|S1"), Some(vec![0]));
        for other in ["|b1", "|S3", "<f2", "<c8"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn sides_of_the_end() {
        let of = |place: [u64; 2]| Side::of(&place, &[2, 3], &[3, 4], &[7, 4]);
        assert_eq!([of([0, 0]), of([0, 1])], [Side::Inside; 2]);
        assert_eq!([of([1, 0]), of([1, 1])], [Side::AtEnd; 2]);
        assert_eq!([of([2, 0]), of([3, 1])], [Side::Behind; 2]);
        // Array and variable are equally long: nothing is beyond the end.
        assert_eq!(Side::of(&[1], &[2], &[3], &[3]), Side::Inside);
    }
}
