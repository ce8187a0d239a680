//! Parts of NetCDF-4 files as netCDF-C 4.10 writes them: the attributes of dimensions and variables,
//! fill values, and the shapes of chunks.
//!
//! Copies and live files use the same parts. In [`ValuePart::Object`] a copy has the number of an object,
//! and a live file its address.

use crate::External;
use hyperslab_codec::{ByteOrder, DataType};
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::datatype::Datatype;
use hyperslab_hdf5::edit::{REFERENCE_LIST, reference_list_type};
use hyperslab_hdf5::new_file::{NewAttribute, NewDataset, NewStorage, ValuePart};

use super::WITHOUT_VARIABLE;

/// Bytes of a chunk if the caller chooses none (netCDF-C's `DEFAULT_CHUNK_SIZE`).
const CHUNK: f64 = 16_777_216.0;

/// Bytes of a chunk of a variable whose one dimension is unlimited.
const CHUNK_ALONG_ONE: u64 = 4096;

/// A type that HDF5 has.
fn number(name: &str) -> Datatype {
    let found = name.parse().map_err(drop).and_then(|dtype| Datatype::of_numpy(dtype).map_err(drop));
    found.unwrap_or_else(|()| Datatype::reference())
}

/// The attribute of the root that says who wrote a file.
pub fn properties() -> NewAttribute {
    let text = concat!("version=2,hyperslab=", env!("CARGO_PKG_VERSION"));
    text_of(PROPERTIES, text.as_bytes())
}

/// The name of the attribute that says who wrote a file.
pub const PROPERTIES: &str = "_NCProperties";

/// ASCII text of fixed length, as netCDF-C writes the values of text attributes: without a NUL, but at
/// least one byte.
pub fn text_of(name: &str, text: &[u8]) -> NewAttribute {
    let value = if text.is_empty() { vec![0] } else { text.to_vec() };
    NewAttribute {
        name: name.to_owned(),
        datatype: Datatype::fixed_text(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        dataspace: Dataspace::Scalar,
        value: vec![ValuePart::Bytes(value)],
    }
}

/// Text with a NUL at its end, as the HDF5 library writes the attributes of scales.
pub fn fixed_text(name: &str, text: &str) -> NewAttribute {
    text_of(name, &[text.as_bytes(), &[0]].concat())
}

/// The attributes that make a dataset the scale of a dimension. `variable`: the name of the variable with
/// its coordinates; `None`: there is none, and the dimension has this length. `id`: its number in the
/// file, if the file has numbers.
pub fn scale(variable: Option<&str>, len: u64, id: Option<i32>) -> Vec<NewAttribute> {
    let name = match variable {
        Some(name) => name.to_owned(),
        None => format!("{WITHOUT_VARIABLE}{len:>10}"),
    };
    let mut made = vec![fixed_text("CLASS", "DIMENSION_SCALE"), fixed_text("NAME", &name)];
    made.extend(id.map(dimension_id));
    made
}

/// The number of a dimension in the file.
pub fn dimension_id(id: i32) -> NewAttribute {
    NewAttribute {
        name: "_Netcdf4Dimid".into(),
        datatype: number("<i4"),
        dataspace: Dataspace::Scalar,
        value: vec![ValuePart::Bytes(id.to_le_bytes().to_vec())],
    }
}

/// The numbers of the dimensions of a variable.
pub fn coordinates(ids: &[i32]) -> NewAttribute {
    NewAttribute {
        name: "_Netcdf4Coordinates".into(),
        datatype: number("<i4"),
        dataspace: Dataspace::fixed(&[ids.len() as u64]),
        value: vec![ValuePart::Bytes(ids.iter().flat_map(|id| id.to_le_bytes()).collect())],
    }
}

/// The scale of each axis of a variable.
pub fn dimension_list(scales: &[Option<usize>]) -> NewAttribute {
    let item = |scale: &Option<usize>| {
        let items: Vec<ValuePart> = scale.iter().map(|scale| ValuePart::Object(Some(*scale))).collect();
        ValuePart::Vlen { count: items.len() as u64, items }
    };
    NewAttribute {
        name: "DIMENSION_LIST".into(),
        datatype: Datatype::vlen(Datatype::reference()),
        dataspace: Dataspace::fixed(&[scales.len() as u64]),
        value: scales.iter().map(item).collect(),
    }
}

/// The variables along a dimension, and their axes.
pub fn reference_list(users: &[(usize, u32)]) -> NewAttribute {
    let item = |(user, axis): &(usize, u32)| {
        let axis = [axis.to_le_bytes(), [0; 4]].concat();
        [ValuePart::Object(Some(*user)), ValuePart::Bytes(axis)]
    };
    NewAttribute {
        name: REFERENCE_LIST.into(),
        datatype: reference_list_type(),
        dataspace: Dataspace::fixed(&[users.len() as u64]),
        value: users.iter().flat_map(item).collect(),
    }
}

/// The dataset of a dimension without coordinates: no elements, and of an unlimited one no length.
pub fn empty_scale(len: u64, unlimited: bool) -> NewDataset {
    let (shape, most) = if unlimited { (vec![0], None) } else { (vec![len], Some(len)) };
    NewDataset {
        datatype: number(">f4"),
        dataspace: Dataspace::Simple { shape, max_shape: vec![most] },
        fill: None,
        unfilled: false,
        filters: Vec::new(),
        storage: match unlimited {
            true => NewStorage::Chunked { chunk: vec![1], chunks: Vec::new() },
            false => NewStorage::Contiguous(None),
        },
    }
}

/// Returns `true` if a dimension, a variable or a group can have a name.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name != "." && !name.contains(['/', '\0'])
}

/// The bytes of netCDF's default fill value for elements. `None`: netCDF has no numbers of this type.
pub fn default_fill(dtype: DataType) -> Option<Vec<u8>> {
    let mut bytes = External::of_elements(dtype)?.default_fill();
    if dtype.order() == ByteOrder::Little {
        bytes.reverse();
    }
    Some(bytes)
}

/// The chunks that netCDF-C gives a variable. `axes`: the length of each dimension, `None` for an
/// unlimited one. `size`: bytes of an element.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub fn default_chunks(axes: &[Option<u64>], size: u64) -> Vec<u64> {
    let size = size.max(1);
    if let [None] = axes {
        return vec![(CHUNK_ALONG_ONE / size).max(1)];
    }
    let fixed: Vec<u64> = axes.iter().flatten().copied().collect();
    if fixed.is_empty() {
        let each = (CHUNK / size as f64).powf(1.0 / axes.len().max(1) as f64);
        return vec![(each as u64).max(1); axes.len()];
    }
    let values: f64 = fixed.iter().map(|len| *len as f64).product();
    let part = (CHUNK / (values * size as f64)).powf(1.0 / fixed.len() as f64);
    let length = |axis: &Option<u64>| {
        let Some(len) = *axis else { return 1 };
        let wanted = (part * len as f64 - 0.5).max(0.0) as u64;
        let chunk = wanted.min(len).max(1);
        // No chunk is longer than needed to have as many of them.
        let count = len.div_ceil(chunk).max(1);
        (chunk - (count * chunk - len) / count).max(1)
    };
    axes.iter().map(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_as_netcdf_chooses_them() {
        // Read from files that netCDF-C 4.10 has written.
        assert_eq!(default_chunks(&[None], 4), [1024]);
        assert_eq!(default_chunks(&[None], 1), [4096]);
        assert_eq!(default_chunks(&[None, Some(2), Some(3)], 4), [1, 2, 3]);
        assert_eq!(default_chunks(&[Some(3), Some(3)], 2), [3, 3]);
        assert_eq!(default_chunks(&[None, None], 4), [2048, 2048]);
        assert_eq!(default_chunks(&[None, Some(1000), Some(3000)], 8), [1, 500, 1500]);
        assert_eq!(default_chunks(&[Some(1000), Some(3000), Some(7)], 2), [500, 1500, 4]);
        assert_eq!(default_chunks(&[None, None, Some(1000)], 4), [1, 1, 1000]);
        assert_eq!(default_chunks(&[Some(0), None], 4), [1, 1]);
    }

    #[test]
    fn fill_values_in_the_order_of_the_elements() {
        let of = |name: &str| default_fill(name.parse().unwrap());
        assert_eq!(of("<f4").unwrap(), 0x7cf0_0000_u32.to_le_bytes());
        assert_eq!(of(">i2").unwrap(), (-32767i16).to_be_bytes());
        assert_eq!(of("|u1").unwrap(), [255]);
        assert_eq!(of("<c8"), None);
    }

    #[test]
    fn names_of_dimensions_without_coordinates() {
        let made = scale(None, 2, Some(3));
        let names: Vec<&str> = made.iter().map(|attribute| attribute.name.as_str()).collect();
        assert_eq!(names, ["CLASS", "NAME", "_Netcdf4Dimid"]);
        let text = b"This is a netCDF dimension but not a netCDF variable.         2\0".to_vec();
        assert_eq!(made[1].value, [ValuePart::Bytes(text)]);
        assert_eq!(made[1].datatype.size, 64);
        assert_eq!(text_of("a", b"").value, [ValuePart::Bytes(vec![0])]);
    }
}
