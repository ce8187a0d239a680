//! The stored numbers that netCDF4-python masks beside those of [`Packing`](super::Packing).
//!
//! | attribute | masked |
//! |---|---|
//! | `valid_min`, `valid_max`, `valid_range` | stored numbers outside |
//! | no `_FillValue` | NetCDF's default fill value, in NetCDF files, unless elements have one byte |

use super::beyond_end::default_fill;
use super::packed::encode_element;
use super::unpack;
use super::{Decoding, FILL_VALUE, FileMeaning};
use crate::{Array, ByteOrder, Json, Result};

/// Which stored numbers are masked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    least: Option<Vec<u8>>,
    most: Option<Vec<u8>>,
    fill: Vec<Vec<u8>>,
}

impl Limits {
    /// Reads the limits of an array. Limits that are not of the element type do not count.
    pub fn of(array: &Array, decoding: &Decoding) -> Result<Limits> {
        let attributes = array.attributes()?;
        let mut limits = Limits::parse(&attributes, decoding, array);
        let has_fill = attributes.get(FILL_VALUE).is_some() || array.dtype().size() == 1;
        let Some(file) = array.file().filter(|_| !has_fill) else { return Ok(limits) };
        if array.as_netcdf3().is_some() || FileMeaning::of(&file)?.has_variables() {
            let native = array.dtype().with_order(ByteOrder::NATIVE);
            limits.fill.extend(default_fill(native));
        }
        Ok(limits)
    }

    fn parse(attributes: &Json, decoding: &Decoding, array: &Array) -> Limits {
        let is_signed = decoding.packing.unsigned.is_some();
        let element = |found: &Json| match found {
            Json::Number(text) => encode_element(text, array.dtype(), is_signed),
            _ => None,
        };
        let one = |name: &str| {
            let found = attributes.get(name)?;
            match found.as_array() {
                Some([one]) => element(one),
                Some(_) => None,
                None => element(found),
            }
        };
        if let Some([least, most]) = attributes.get("valid_range").and_then(Json::as_array) {
            return Limits { least: element(least), most: element(most), fill: Vec::new() };
        }
        Limits { least: one("valid_min"), most: one("valid_max"), fill: Vec::new() }
    }

    /// Sets `marks` to 1 where stored elements are masked.
    pub fn mark(&self, stored: &[u8], decoding: &Decoding, marks: &mut [u8]) {
        let dtype = decoding.number_type();
        unpack::mark_missing(stored, dtype, &self.fill, marks);
        if self.least.is_some() || self.most.is_some() {
            unpack::mark_outside(stored, dtype, (self.least.as_deref(), self.most.as_deref()), marks);
        }
    }
}
