//! Variables of NetCDF-3 files as arrays, and their attributes as JSON.

use crate::{Dims, Error, Json};
use hyperslab_array::{ArrayLayout, element_count};
use hyperslab_codec::Kind;
use hyperslab_netcdf::{Attribute, File, Variable};
use std::sync::Arc;

/// A variable, and what the engine needs to read it.
#[derive(Clone, Debug)]
pub(crate) struct NetcdfArray {
    variable: Variable,
    layout: Arc<ArrayLayout>,
}

impl NetcdfArray {
    pub(crate) fn new(variable: Variable) -> Result<Self, Error> {
        let layout = variable.layout()?;
        Ok(NetcdfArray { variable, layout })
    }

    pub(crate) fn variable(&self) -> &Variable {
        &self.variable
    }

    pub(crate) fn layout(&self) -> &Arc<ArrayLayout> {
        &self.layout
    }

    pub(crate) fn dimension_names(&self) -> Option<Vec<Option<String>>> {
        let names: Vec<_> =
            self.variable.dimensions().map(|dimension| Some(dimension.name.clone())).collect();
        (!names.is_empty()).then_some(names)
    }

    /// Number of chunks (one, where records do not alternate), and their bytes: all are stored.
    pub(crate) fn chunks_stored(&self) -> (u64, u64) {
        let count = |shape: &[u64]| element_count(shape).unwrap_or(u64::MAX);
        let bytes = count(self.layout.shape()).saturating_mul(self.layout.dtype().size() as u64);
        let counts: Dims = self.layout.grid().counts(self.layout.shape());
        (count(&counts), bytes)
    }

    /// Where its elements are, in a few words.
    pub(crate) fn storage(&self) -> &'static str {
        match self.variable.chunk_shape() {
            Some(_) => "record by record, among those of other variables",
            None => "contiguous",
        }
    }
}

/// The names of a file's variables.
pub(crate) fn names(file: &File) -> Vec<String> {
    file.variables().map(|variable| variable.name().to_owned()).collect()
}

/// Attributes as an object: text, numbers, and lists of more than one number.
pub(crate) fn attributes(attributes: &[Attribute]) -> Json {
    Json::Object(attributes.iter().map(|attribute| (attribute.name.clone(), value(attribute))).collect())
}

fn value(attribute: &Attribute) -> Json {
    if let Some(text) = attribute.text() {
        return text.trim_end_matches('\0').into();
    }
    let dtype = attribute.external.dtype();
    let numbers = attribute.bytes.chunks_exact(dtype.size().max(1));
    let mut numbers: Vec<Json> = numbers.map(|bytes| number(dtype.kind(), bytes)).collect();
    if numbers.len() == 1 { numbers.pop().unwrap_or(Json::Null) } else { Json::Array(numbers) }
}

/// A number, which is big-endian.
fn number(kind: Kind, bytes: &[u8]) -> Json {
    let bits = bytes.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    match (kind, bytes.len()) {
        (Kind::Float, 4) => Json::float(f32::from_bits(bits as u32).into()),
        (Kind::Float, _) => Json::float(f64::from_bits(bits)),
        (Kind::Int, len) => {
            // Shifted up and down again, the sign fills what is above.
            let unused = 64 - 8 * len.min(8) as u32;
            (bits.checked_shl(unused).unwrap_or(0).cast_signed() >> unused).into()
        }
        _ => bits.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_big_endian() {
        for (kind, bytes, text) in [
            (Kind::Int, &[0xff][..], "-1"),
            (Kind::Int, &[0x80, 0], "-32768"),
            (Kind::Int, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "9223372036854775807"),
            (Kind::UInt, &[0xff, 0xfe], "65534"),
            (Kind::Float, &[0x40, 0x20, 0, 0], "2.5"),
            (Kind::Float, &[0xc0, 0x04, 0, 0, 0, 0, 0, 0], "-2.5"),
        ] {
            assert_eq!(number(kind, bytes).to_text(None), text);
        }
    }
}
