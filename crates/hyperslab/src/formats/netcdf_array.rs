//! Variables of NetCDF-3 files as arrays, and their attributes as JSON.

use crate::copy::{Copied, CopiedCodecs, Copying};
use crate::nodes::interface::{ArrayNode, FileNode, StoredNode, stored_in_file};
use crate::{DataFile, Dims, Format, Json, Result};
use hyperslab_array::{ArrayLayout, element_count};
use hyperslab_codec::Kind;
use hyperslab_netcdf::{Attribute, Variable};
use hyperslab_store::{Ask, Store};
use std::borrow::Cow;
use std::sync::Arc;

/// A variable with the layout that the engine reads it by.
#[derive(Clone, Debug)]
pub(crate) struct NetcdfArray {
    variable: Variable,
    layout: Arc<ArrayLayout>,
}

impl NetcdfArray {
    pub(crate) fn new(variable: Variable) -> Result<Self> {
        let layout = variable.layout()?;
        Ok(NetcdfArray { variable, layout })
    }

    pub(crate) fn variable(&self) -> &Variable {
        &self.variable
    }
}

stored_in_file!(NetcdfArray, |array|
    file: array.variable.file(),
    path: array.variable.name(),
    attributes: attributes(array.variable.attributes()));

impl ArrayNode for NetcdfArray {
    fn layout(&self) -> &Arc<ArrayLayout> {
        &self.layout
    }

    fn dimension_names(&self) -> Result<Option<Vec<Option<String>>>> {
        let names: Vec<_> =
            self.variable.dimensions().map(|dimension| Some(dimension.name.clone())).collect();
        Ok((!names.is_empty()).then_some(names))
    }

    fn is_writable(&self) -> bool {
        self.variable.file().is_edited()
    }

    fn has_chunks(&self) -> bool {
        self.variable.chunk_shape().is_some()
    }

    /// Number of chunks (one if records do not alternate), and their bytes. All are stored.
    fn chunks_stored(&self, _: Option<Ask<'_>>) -> Result<(u64, u64)> {
        let count = |shape: &[u64]| element_count(shape).unwrap_or(u64::MAX);
        let bytes = count(self.layout.shape()).saturating_mul(self.layout.dtype().size() as u64);
        let counts: Dims = self.layout.grid().counts(self.layout.shape());
        Ok((count(&counts), bytes))
    }

    fn stored_objects(&self, _: Option<Ask<'_>>) -> Result<Option<Vec<Dims>>> {
        Ok(None)
    }

    fn storage(&self) -> Option<&'static str> {
        Some(match self.variable.chunk_shape() {
            Some(_) => "record by record, among those of other variables",
            None => "contiguous",
        })
    }

    fn fill_value(&self) -> Result<Json> {
        Ok(self.attributes()?.get("_FillValue").cloned().unwrap_or(Json::Null))
    }

    fn fill(&self) -> Option<&[u8]> {
        Some(self.layout.fill().bytes())
    }

    /// Zarr can express everything in NetCDF-3.
    fn collect_copied(&self, _: &mut Copying<'_>) -> Result<Copied> {
        Ok(Copied {
            order: self.layout.dtype().order(),
            fill: Some(self.layout.fill().bytes().to_vec()),
            members: Vec::new(),
            key_encoding: None,
            rectilinear: None,
            fortran_order: false,
            vlen: None,
            optional: None,
            object_codec: None,
            structure: None,
            codecs: CopiedCodecs::InOtherWords(Vec::new()),
            sharding: None,
        })
    }
}

/// Converts attributes to a JSON object: text, numbers, and lists of more than one number.
pub(crate) fn attributes(attributes: &[Attribute]) -> Json {
    Json::Object(attributes.iter().map(|attribute| (attribute.name.clone(), value(attribute))).collect())
}

fn value(attribute: &Attribute) -> Json {
    if let Some(text) = attribute.text() {
        // A missing value stays bytes, because elements are compared with it.
        if attribute.name == "_FillValue" && std::str::from_utf8(&attribute.bytes).is_err() {
            return Json::Array(attribute.bytes.iter().map(|byte| u64::from(*byte).into()).collect());
        }
        return text.trim_end_matches('\0').into();
    }
    let dtype = attribute.external.dtype();
    let numbers = attribute.bytes.chunks_exact(dtype.size().max(1));
    let mut numbers: Vec<Json> = numbers.map(|bytes| number(dtype.kind(), bytes)).collect();
    if numbers.len() == 1 { numbers.pop().unwrap_or(Json::Null) } else { Json::Array(numbers) }
}

/// Decodes a big-endian number.
fn number(kind: Kind, bytes: &[u8]) -> Json {
    let bits = bytes.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    match (kind, bytes.len()) {
        (Kind::Float, 4) => Json::float(f32::from_bits(bits as u32).into()),
        (Kind::Float, _) => Json::float(f64::from_bits(bits)),
        (Kind::Int, len) => {
            // Shift up and down again to extend the sign.
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
