//! Names of the axes of HDF5 datasets, by dimension scales (the HDF5 Dimension Scale Specification).
//!
//! A scale is a dataset that describes an axis of others. The attribute `DIMENSION_LIST` of a dataset has for each axis a list of references to scales, the first of which
//! names the axis; `DIMENSION_LABELS` has texts for axes. A scale of one axis names its own.

use crate::Error;
use hyperslab_hdf5::value::Value;
use hyperslab_hdf5::{Attribute, Dataset};

/// Attributes that say how scales and datasets belong together (those with a capital N also for netCDF): what dimension names say in other formats.
pub(crate) const MACHINERY: [&str; 6] =
    ["CLASS", "DIMENSION_LIST", "NAME", "REFERENCE_LIST", "_Netcdf4Coordinates", "_Netcdf4Dimid"];

/// The names; `None` where no axis has one.
pub(crate) fn names(dataset: &Dataset) -> Result<Option<Vec<Option<String>>>, Error> {
    let rank = dataset.dataspace().shape().len();
    let attributes = dataset.attributes()?;
    let mut names: Vec<Option<String>> = vec![None; rank];
    // Scales come last: they win over labels.
    for (attribute, name_of) in
        [("DIMENSION_LABELS", text as fn(Value) -> Option<String>), ("DIMENSION_LIST", scale)]
    {
        let Some(found) = attributes.iter().find(|found| found.name == attribute) else { continue };
        let Value::List(axes) = found.value()? else { continue };
        for (place, axis) in names.iter_mut().zip(axes) {
            *place = name_of(axis).filter(|name| !name.is_empty()).or(place.take());
        }
    }
    if rank == 1 && names == [None] && is_scale(&attributes)? {
        names = vec![Some(last(dataset.path()))];
    }
    Ok(names.iter().any(Option::is_some).then_some(names))
}

/// Whether the dataset of these attributes is a dimension scale.
pub(crate) fn is_scale(attributes: &[Attribute]) -> Result<bool, Error> {
    match attributes.iter().find(|attribute| attribute.name == "CLASS") {
        Some(class) => Ok(text(class.value()?).as_deref() == Some("DIMENSION_SCALE")),
        None => Ok(false),
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text),
        Value::Bytes(bytes) => String::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// The name of the first scale of an axis: that of the dataset.
fn scale(axis: Value) -> Option<String> {
    let Value::List(scales) = axis else { return None };
    scales.into_iter().next().and_then(text).map(|path| last(&path))
}

fn last(path: &str) -> String {
    path.rsplit('/').next().unwrap_or_default().to_owned()
}
