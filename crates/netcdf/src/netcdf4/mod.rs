//! The conventions of NetCDF-4 files on top of HDF5: dimensions.
//!
//! Sources: "NetCDF-4 Format" of the NetCDF User's Guide, and "HDF5 Dimension Scale Specification".
//!
//! A dimension is a dataset with the attribute `CLASS = DIMENSION_SCALE`: a dimension scale. The
//! dimension has the dataset's name, and the length of the dataset's first axis. If there is a
//! coordinate variable of that name, the dataset is both. If not, its attribute `NAME` begins with
//! [`WITHOUT_VARIABLE`]. `_Netcdf4Dimid` numbers the dimensions of a file.
//!
//! The dimensions of a dataset's axes are found in this order:
//!
//! 1. A scale with one axis is its own dimension.
//! 2. `DIMENSION_LIST` has references to scales for each axis. The last reference counts, as in
//!    netCDF-C.
//! 3. If not every axis has one, `_Netcdf4Coordinates` has the numbers of the dimensions. A
//!    coordinate variable with several axes has only these numbers, because a scale has no scales.
//!    (Other datasets have numbers too, but numbers alone do not lead to the scales.)
//! 4. `DIMENSION_LABELS` has a text for each axis. This is HDF5, not NetCDF.
//!
//! A variable may have the name of a dimension without being its coordinate variable. The variable
//! is then stored as `_nc4_non_coord_` and its name.

mod live;
pub mod written;

pub use live::{Definitions, LiveDimension};

use hyperslab_hdf5::dataspace::Dataspace;
use hyperslab_hdf5::element::ElementKind;
use hyperslab_hdf5::value::Value;
use hyperslab_hdf5::{Attribute, Dataset, File, Group, Hdf5Error, LinkTarget, Node, vlen};
use std::collections::{HashMap, HashSet};

/// The beginning of `NAME` for a dimension without coordinate variable. Its length follows.
pub const WITHOUT_VARIABLE: &str = "This is a netCDF dimension but not a netCDF variable.";

/// Prefix of the dataset of a variable that has a dimension's name without being its coordinates.
pub const NOT_COORDINATES: &str = "_nc4_non_coord_";

/// A dimension of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Its name.
    pub name: String,
    /// Its length. For an unlimited dimension, the greatest length of any variable along it.
    pub len: u64,
    /// `true` if it may grow.
    pub unlimited: bool,
    /// `true` if the dataset of this name holds no coordinates, but is there for the dimension
    /// only.
    pub without_variable: bool,
    /// `true` if that dataset is a scalar. HDF5 attaches such scales; NetCDF has no such dimension.
    pub is_scalar: bool,
    /// Address of that dataset.
    pub address: u64,
}

/// Returns `true` if an attribute belongs to the format, so that no user has written it. (`CLASS`
/// and `NAME` do so on dimension scales only.)
pub fn is_reserved(attribute: &str) -> bool {
    matches!(
        attribute,
        "CLASS"
            | "NAME"
            | "DIMENSION_LIST"
            | "REFERENCE_LIST"
            | "_Netcdf4Dimid"
            | "_Netcdf4Coordinates"
            | "_nc3_strict"
            | "_NCProperties"
    )
}

/// Returns whether netCDF wrote a file: its root says so, or (older versions) it has
/// `_Netcdf4Dimid`.
pub fn is_netcdf4(file: &File) -> Result<bool, Hdf5Error> {
    let root = file.root()?;
    let says = |attribute: &Attribute| matches!(&*attribute.name, "_NCProperties" | "_nc3_strict");
    if root.attributes()?.iter().any(says) {
        return Ok(true);
    }
    for dataset in datasets(&root)? {
        if Scale::of(&dataset.attributes()?)?.is_some_and(|scale| scale.id.is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns `true` if a dataset anywhere in a file is a dimension scale.
pub fn has_scales(file: &File) -> Result<bool, Hdf5Error> {
    for group in groups(&file.root()?)? {
        for dataset in datasets(&group)? {
            if Scale::of(&dataset.attributes()?)?.is_some() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The name that a variable has in NetCDF, from the name of its dataset.
pub fn variable_name(dataset: &str) -> &str {
    dataset.strip_prefix(NOT_COORDINATES).unwrap_or(dataset)
}

/// The names that the dataset of a variable may have, in order of precedence.
pub fn dataset_names(variable: &str) -> [String; 2] {
    [format!("{NOT_COORDINATES}{variable}"), variable.to_owned()]
}

/// The dimensions of a group by number, then the ones without a number. Groups below inherit them.
pub fn dimensions(group: &Group) -> Result<Vec<Dimension>, Hdf5Error> {
    let mut found = Vec::new();
    for dataset in datasets(group)? {
        if let Some(scale) = Scale::of(&dataset.attributes()?)? {
            found.push((scale.id, scale.dimension(&dataset)));
        }
    }
    found.sort_by_key(|(id, _)| id.unwrap_or(i128::MAX));
    if found.iter().any(|(_, dimension)| dimension.unlimited) {
        let mut longest: HashMap<u64, u64> = HashMap::new();
        let by_id: HashMap<_, _> =
            found.iter().filter_map(|(id, dimension)| Some(((*id)?, dimension.address))).collect();
        for below in groups(group)? {
            for dataset in datasets(&below)? {
                let axes = Axes::of(&dataset)?.scales(|id| by_id.get(&id).copied());
                for (scale, len) in axes.into_iter().zip(dataset.dataspace().shape()) {
                    let longest = scale.map(|scale| longest.entry(scale).or_default());
                    longest.into_iter().for_each(|longest| *longest = (*longest).max(*len));
                }
            }
        }
        for (_, dimension) in found.iter_mut().filter(|(_, dimension)| dimension.unlimited) {
            // The scale of an unlimited dimension need not be as long as the variables.
            let own = if dimension.without_variable { 0 } else { dimension.len };
            dimension.len = longest.get(&dimension.address).copied().unwrap_or(0).max(own);
        }
    }
    Ok(found.into_iter().map(|(_, dimension)| dimension).collect())
}

/// The names of a dataset's axes. `None` if there are no axes, or if no axis has a scale or a
/// label.
pub fn dimension_names(dataset: &Dataset) -> Result<Option<Vec<Option<String>>>, Hdf5Error> {
    let axes = Axes::of(dataset)?;
    if let Axes::Itself { .. } = axes {
        return Ok(Some(vec![Some(last_component(dataset.path()).to_owned())]));
    }
    let mut by_id: HashMap<i128, u64> = HashMap::new();
    if let Axes::Numbers { .. } = axes {
        // The innermost group comes first: its dimension hides one of the same number above.
        for group in enclosing_groups(dataset)? {
            for dataset in datasets(&group)? {
                if let Some(id) = Scale::of(&dataset.attributes()?)?.and_then(|scale| scale.id) {
                    by_id.entry(id).or_insert(dataset.address());
                }
            }
        }
    }
    let mut names = Vec::new();
    for (scale, label) in axes.scales(|id| by_id.get(&id).copied()).into_iter().zip(labels(dataset)?) {
        let path = scale.map(|scale| dataset.file().path_of(scale)).transpose()?.flatten();
        names.push(path.map(|path| last_component(&path).to_owned()).or(label));
    }
    Ok(names.iter().any(Option::is_some).then_some(names))
}

/// The attributes of a dimension scale that describe it.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Its number in the file (`_Netcdf4Dimid`).
    pub id: Option<i128>,
    /// `true` if it holds no coordinates, but is there for the dimension only.
    pub without_variable: bool,
}

impl Scale {
    /// Returns `None` if these are not the attributes of a scale.
    pub fn of(attributes: &[Attribute]) -> Result<Option<Scale>, Hdf5Error> {
        let (mut is_scale, mut scale) = (false, Scale { id: None, without_variable: false });
        for attribute in attributes {
            match &*attribute.name {
                "CLASS" => is_scale = text(attribute)?.is_some_and(|class| class == "DIMENSION_SCALE"),
                "NAME" => {
                    let name = text(attribute)?;
                    scale.without_variable = name.is_some_and(|name| name.starts_with(WITHOUT_VARIABLE));
                }
                "_Netcdf4Dimid" => scale.id = numbers(attribute)?.and_then(|ids| ids.first().copied()),
                _ => {}
            }
        }
        Ok(is_scale.then_some(scale))
    }

    fn dimension(&self, dataset: &Dataset) -> Dimension {
        let (len, unlimited) = match dataset.dataspace() {
            Dataspace::Simple { shape, max_shape } => {
                (shape.first().copied().unwrap_or(0), matches!(max_shape.first(), Some(None)))
            }
            _ => (0, false),
        };
        let is_scalar = dataset.dataspace().shape().is_empty();
        Dimension {
            is_scalar,
            name: last_component(dataset.path()).to_owned(),
            len,
            unlimited,
            without_variable: self.without_variable,
            address: dataset.address(),
        }
    }
}

/// The dimensions of a dataset's axes, as its attributes give them.
pub(crate) enum Axes {
    /// It is the scale of its one axis.
    Itself {
        address: u64,
    },
    Numbers {
        ids: Vec<i128>,
    },
    Scales {
        addresses: Vec<Option<u64>>,
    },
}

impl Axes {
    pub(crate) fn of(dataset: &Dataset) -> Result<Axes, Hdf5Error> {
        let attributes = dataset.attributes()?;
        let rank = dataset.dataspace().shape().len();
        if rank == 1 && Scale::of(&attributes)?.is_some() {
            return Ok(Axes::Itself { address: dataset.address() });
        }
        let find = |name: &str| attributes.iter().find(|attribute| attribute.name == name);
        // A list of another length is not about the axes of this dataset.
        let addresses = find("DIMENSION_LIST").map(references).transpose()?.filter(|list| list.len() == rank);
        let addresses = addresses.unwrap_or_else(|| vec![None; rank]);
        if addresses.contains(&None) {
            let ids = find("_Netcdf4Coordinates").map(numbers).transpose()?.flatten();
            if let Some(ids) = ids.filter(|ids| ids.len() == rank) {
                return Ok(Axes::Numbers { ids });
            }
        }
        Ok(Axes::Scales { addresses })
    }

    /// Returns whether the first axis has a dimension.
    pub(crate) fn first_is_known(&self) -> bool {
        match self {
            Axes::Scales { addresses } => addresses.first().is_some_and(Option::is_some),
            _ => true,
        }
    }

    /// The address of the scale of each axis. `by_id` gives the address for a number.
    fn scales(self, by_id: impl Fn(i128) -> Option<u64>) -> Vec<Option<u64>> {
        match self {
            Axes::Itself { address } => vec![Some(address)],
            Axes::Numbers { ids } => ids.into_iter().map(by_id).collect(),
            Axes::Scales { addresses } => addresses,
        }
    }
}

/// The last object reference of each element. Empty if the attribute is something else.
fn references(attribute: &Attribute) -> Result<Vec<Option<u64>>, Hdf5Error> {
    let element = attribute.element()?;
    let size = match &element.kind {
        ElementKind::Vlen { element, .. } if element.kind == ElementKind::ObjectReference => element.size,
        _ => return Ok(Vec::new()),
    };
    if element.size == 0 {
        return Ok(Vec::new());
    }
    let memory = attribute.values()?;
    let count = memory.len() / element.size;
    let ragged = vlen::resolve(&attribute.file, &element, &memory, 0, element.size, count)?;
    let last = |ends: &[i64]| {
        let [start, end] = ends else { return None };
        let (start, end) = (usize::try_from(*start).ok()?, usize::try_from(*end).ok()?);
        let bytes = ragged.values.as_slice().get(start.checked_mul(size)?..end.checked_mul(size)?)?;
        // A reference is an address in little-endian bytes. All bits set: a reference to nothing.
        let bytes = bytes.rchunks_exact(size.max(1)).next()?;
        let address = bytes.iter().rev().fold(0u64, |address, byte| address << 8 | u64::from(*byte));
        bytes.iter().any(|byte| *byte != 0xff).then_some(address)
    };
    Ok(ragged.offsets.windows(2).map(last).collect())
}

/// The label of each axis, if it has one.
fn labels(dataset: &Dataset) -> Result<Vec<Option<String>>, Hdf5Error> {
    let mut labels = Vec::new();
    let attributes = dataset.attributes()?;
    if let Some(found) = attributes.iter().find(|attribute| attribute.name == "DIMENSION_LABELS")
        && let Value::List(values) = found.value()?
    {
        labels.extend(values.into_iter().map(|value| match value {
            Value::Text(text) => Some(text).filter(|text| !text.is_empty()),
            _ => None,
        }));
    }
    labels.resize(dataset.dataspace().shape().len(), None);
    Ok(labels)
}

fn text(attribute: &Attribute) -> Result<Option<String>, Hdf5Error> {
    Ok(match attribute.value()? {
        Value::Text(text) => Some(text),
        _ => None,
    })
}

fn numbers(attribute: &Attribute) -> Result<Option<Vec<i128>>, Hdf5Error> {
    let number = |value: Value| if let Value::Int(number) = value { Some(number) } else { None };
    Ok(match attribute.value()? {
        Value::List(values) => values.into_iter().map(number).collect(),
        value => number(value).map(|number| vec![number]),
    })
}

/// The datasets behind the hard links of a group, except unsupported ones.
pub(crate) fn datasets(group: &Group) -> Result<Vec<Dataset>, Hdf5Error> {
    let mut datasets = Vec::new();
    for link in group.links()? {
        if let LinkTarget::Hard(_) = link.target {
            match group.child(&link.name) {
                Ok(Node::Dataset(dataset)) => datasets.push(dataset),
                Ok(_) | Err(Hdf5Error::Unsupported { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(datasets)
}

/// A group and all groups below it, each once, even if links form circles.
fn groups(group: &Group) -> Result<Vec<Group>, Hdf5Error> {
    let mut seen = HashSet::from([group.address()]);
    let mut found = vec![group.clone()];
    let mut next = 0;
    while let Some(group) = found.get(next).cloned() {
        next += 1;
        found.extend(groups_in(&group, &mut seen)?);
    }
    Ok(found)
}

/// The groups behind the hard links of a group, except those seen before.
pub(crate) fn groups_in(group: &Group, seen: &mut HashSet<u64>) -> Result<Vec<Group>, Hdf5Error> {
    let mut found = Vec::new();
    for link in group.links()? {
        if let LinkTarget::Hard(address) = link.target
            && !seen.contains(&address)
            && let Node::Group(below) = group.child(&link.name)?
        {
            seen.insert(address);
            found.push(below);
        }
    }
    Ok(found)
}

/// The group of a dataset and the groups above it in its path, the innermost first.
fn enclosing_groups(dataset: &Dataset) -> Result<Vec<Group>, Hdf5Error> {
    let (root, mut path) = (dataset.file().root()?, dataset.path());
    let mut found = Vec::new();
    while let Some((group, _)) = path.rsplit_once('/') {
        if let Node::Group(group) = root.child(group)? {
            found.push(group);
        }
        path = group;
    }
    found.push(root);
    Ok(found)
}

fn last_component(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperslab_hdf5::FileOptions;
    use hyperslab_store::{LocalOptions, LocalStore};
    use std::sync::Arc;

    /// A file of another project; `None` if these files are not here.
    fn open(path: &str) -> Option<File> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpora/hdf5");
        if !std::path::Path::new(root).exists() {
            eprintln!("skipped: there is no {root}");
            return None;
        }
        let store = LocalStore::open(root, LocalOptions::default()).unwrap();
        Some(File::open(Arc::new(store), path, FileOptions::default()).unwrap())
    }

    fn names(file: &File, path: &str) -> Option<String> {
        let Node::Dataset(dataset) = file.node(path).unwrap() else { panic!("'{path}' is no dataset") };
        let names = dimension_names(&dataset).unwrap()?;
        Some(names.iter().map(|name| name.as_deref().unwrap_or("?")).collect::<Vec<_>>().join(" "))
    }

    fn defined(group: &Group) -> String {
        let shown = |dimension: &Dimension| {
            let kind = if dimension.unlimited { "..." } else { "" };
            format!("{} {}{kind}", dimension.name, dimension.len)
        };
        dimensions(group).unwrap().iter().map(shown).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn dimensions_and_their_inheritance() {
        let Some(file) = open("pyfive/h5netcdf_test.hdf5") else { return };
        assert!(is_netcdf4(&file).unwrap());
        let root = file.root().unwrap();
        let expected = "x 4, y 5, z 6, empty 0..., unlimited 0..., string3 3, mismatched_dim 1";
        assert_eq!(defined(&root), expected);
        let found = dimensions(&root).unwrap();
        let without: Vec<_> = found.iter().filter(|d| d.without_variable).map(|d| &*d.name).collect();
        assert_eq!(without, ["x", "empty", "unlimited", "string3", "mismatched_dim"]);
        let Node::Group(group) = file.node("subgroup").unwrap() else { panic!("a group") };
        assert_eq!(defined(&group), "y 10");
        for (path, expected) in [
            ("foo", Some("x y")),
            ("foo_unlimited", Some("x unlimited")),
            ("z", Some("z string3")),
            ("y", Some("y")),
            ("scalar", None),
            ("subgroup/subvar", Some("x")),
            ("subgroup/y_var", Some("y")),
            ("_nc4_non_coord_mismatched_dim", None),
        ] {
            assert_eq!(names(&file, path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn scales_of_other_software() {
        let Some(file) = open("pyfive/dim_scales.hdf5") else { return };
        assert!(!is_netcdf4(&file).unwrap());
        assert_eq!(defined(&file.root().unwrap()), "x1 2, x2 2, y1 3, z1 4");
        assert_eq!(names(&file, "dset1").unwrap(), "z1 y1 x2");
        assert_eq!(names(&file, "dset2"), None);
    }

    #[test]
    fn attributes_of_the_format() {
        assert!(is_reserved("CLASS") && is_reserved("_Netcdf4Dimid"));
        assert!(!is_reserved("_FillValue") && !is_reserved("class"));
    }
}
