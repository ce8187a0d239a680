//! Names of axes as dimension scales, which h5py, xarray and netCDF read.
//!
//! A dimension of a group is a dataset with its name. The array of that name along that dimension
//! alone holds its coordinates, and is the scale. Without such an array, an empty dataset stands for
//! the dimension, as netCDF writes it. Names that cannot be scales become labels: h5py's
//! `dims[i].label`.
//!
//! Sources: "HDF5 Dimension Scale Specification"; "NetCDF-4 Format" of the NetCDF User's Guide.

use super::described::Described;
use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::datatype::{Charset, Datatype};
use hyperslab_hdf5::new_file::{NewAttribute, NewKind, NewObject, ValuePart};
use hyperslab_netcdf::netcdf4::{is_reserved, written};
use std::collections::BTreeMap;

const LABELS: &str = "names of axes became labels instead of dimension scales: one name has several lengths, or \
                      belongs to something else in the group";
const RESERVED: &str = "attributes left out, whose names belong to dimension scales";

/// An array whose axes have names.
pub(super) struct NamedAxes {
    /// The number of its dataset, and of its group.
    pub(super) object: usize,
    pub(super) group: usize,
    /// Its name in the group.
    pub(super) name: String,
    pub(super) names: Vec<String>,
    pub(super) shape: Vec<u64>,
}

/// A dimension, by its group and its name.
type Dimension<'n> = (usize, &'n str);

/// Adds scales, and attaches them to the axes of all arrays.
pub(super) fn attach(described: &mut Described<'_>, named: &[NamedAxes]) {
    for axes in named {
        drop_reserved(described, axes);
    }
    // The length of each dimension. `None`: it has several.
    let mut lengths: BTreeMap<Dimension<'_>, Option<u64>> = BTreeMap::new();
    for axes in named {
        for (name, len) in axes.names.iter().zip(&axes.shape) {
            let length = lengths.entry((axes.group, name)).or_insert(Some(*len));
            *length = length.filter(|length| length == len);
        }
    }
    let mut scales: BTreeMap<Dimension<'_>, usize> = BTreeMap::new();
    for ((group, name), len) in &lengths {
        let coordinates = named.iter().find(|axes| axes.group == *group && axes.name == *name);
        let path = described.objects.get(*group).map(|object| object.path.clone()).unwrap_or_default();
        let path = if path.is_empty() { (*name).to_owned() } else { format!("{path}/{name}") };
        let scale = match (coordinates, len) {
            (Some(axes), Some(_)) if axes.names == [*name] => Some(axes.object),
            (None, Some(len)) if described.number(&path).is_none() && written::is_name(name) => {
                Some(described.add_linked(&path, NewKind::Dataset(written::empty_scale(*len, false))))
            }
            _ => None,
        };
        let Some(scale) = scale else { continue };
        let variable = coordinates.map(|_| *name);
        if let Some(object) = described.objects.get_mut(scale) {
            object.attributes.extend(written::scale(variable, len.unwrap_or(0), None));
        }
        scales.insert((*group, name), scale);
    }
    let mut attached: BTreeMap<usize, Vec<(usize, u32)>> = BTreeMap::new();
    for axes in named {
        let found: Option<Vec<usize>> =
            axes.names.iter().map(|name| scales.get(&(axes.group, name.as_str())).copied()).collect();
        match found {
            // A scale has no scales.
            Some(found) if found == [axes.object] => {}
            Some(found) => {
                let list: Vec<Option<usize>> = found.iter().copied().map(Some).collect();
                push(described, axes.object, written::dimension_list(&list));
                for (axis, scale) in (0..).zip(found) {
                    attached.entry(scale).or_default().push((axes.object, axis));
                }
            }
            None => {
                push(described, axes.object, labels(&axes.names));
                let path = described.objects.get(axes.object).map(|object| object.path.clone());
                described.note(LABELS, format!("/{}", path.unwrap_or_default()));
            }
        }
    }
    for (scale, users) in attached {
        push(described, scale, written::reference_list(&users));
    }
}

/// Attributes of the source that this file writes itself.
fn drop_reserved(described: &mut Described<'_>, axes: &NamedAxes) {
    let Some(object) = described.objects.get_mut(axes.object) else { return };
    let is_own =
        |attribute: &NewAttribute| is_reserved(&attribute.name) || attribute.name == "DIMENSION_LABELS";
    let (own, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut object.attributes).into_iter().partition(is_own);
    object.attributes = kept;
    let path = object.path.clone();
    for attribute in own {
        described.note(RESERVED, format!("/{path}, {:?}", attribute.name));
    }
}

fn push(described: &mut Described<'_>, number: usize, attribute: NewAttribute) {
    if let Some(NewObject { attributes, .. }) = described.objects.get_mut(number) {
        attributes.push(attribute);
    }
}

/// The attribute that labels axes.
pub(crate) const AXIS_LABELS: &str = "DIMENSION_LABELS";

/// The label of each axis.
pub(super) fn labels(names: &[String]) -> NewAttribute {
    NewAttribute {
        name: AXIS_LABELS.into(),
        datatype: Datatype::vlen_text(Charset::Utf8),
        dataspace: Dataspace::fixed(&[names.len() as u64]),
        value: names.iter().map(|name| ValuePart::text(name.as_bytes())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::CopyOptions;
    use hyperslab_netcdf::netcdf4::WITHOUT_VARIABLE;
    use written::fixed_text;

    fn named(described: &mut Described<'_>, path: &str, names: &[&str], shape: &[u64]) -> NamedAxes {
        let object = described.add_linked(path, NewKind::Dataset(written::empty_scale(1, false)));
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let group = described.number(above).unwrap();
        NamedAxes { object, group, name: name.into(), names, shape: shape.to_vec() }
    }

    fn names(described: &Described<'_>, path: &str) -> Vec<String> {
        let object = &described.objects[described.number(path).unwrap()];
        object.attributes.iter().map(|attribute| attribute.name.clone()).collect()
    }

    #[test]
    fn coordinates_and_dimensions_without_them() {
        let options = CopyOptions::default();
        let mut described = Described::new(&options).unwrap();
        described.add_linked("g", NewKind::Group { links: Vec::new(), tracks_links: false });
        let axes = [
            named(&mut described, "g/x", &["x"], &[3]),
            named(&mut described, "g/a", &["y", "x"], &[2, 3]),
            named(&mut described, "g/b", &["x"], &[3]),
        ];
        attach(&mut described, &axes);
        assert_eq!(names(&described, "g/x"), ["CLASS", "NAME", "REFERENCE_LIST"]);
        assert_eq!(names(&described, "g/y"), ["CLASS", "NAME", "REFERENCE_LIST"]);
        assert_eq!(names(&described, "g/a"), ["DIMENSION_LIST"]);
        assert_eq!(names(&described, "g/b"), ["DIMENSION_LIST"]);
        let y = described.number("g/y").unwrap();
        let text = format!("{WITHOUT_VARIABLE}         2\0");
        assert_eq!(described.objects[y].attributes[1].value, [ValuePart::Bytes(text.into_bytes())]);
        assert!(described.notes.is_empty());
    }

    #[test]
    fn names_that_are_no_scales_are_labels() {
        let options = CopyOptions::default();
        let mut described = Described::new(&options).unwrap();
        described.add_linked("z", NewKind::Group { links: Vec::new(), tracks_links: false });
        let axes = [
            named(&mut described, "a", &["x"], &[3]),
            named(&mut described, "b", &["x"], &[4]),
            named(&mut described, "c", &["z"], &[4]),
            named(&mut described, "w", &["w", "w"], &[4, 4]),
        ];
        attach(&mut described, &axes);
        for path in ["a", "b", "c", "w"] {
            assert_eq!(names(&described, path), ["DIMENSION_LABELS"], "{path}");
        }
        assert_eq!(described.notes[LABELS], ["/a", "/b", "/c", "/w"]);
    }

    #[test]
    fn reserved_attributes_are_left_out() {
        let options = CopyOptions::default();
        let mut described = Described::new(&options).unwrap();
        let axes = [named(&mut described, "x", &["x"], &[3])];
        described.objects[axes[0].object].attributes.push(fixed_text("CLASS", "mine"));
        attach(&mut described, &axes);
        assert_eq!(names(&described, "x"), ["CLASS", "NAME"]);
        assert_eq!(described.notes[RESERVED], ["/x, \"CLASS\""]);
    }
}
