//! Dimensions and variables of a NetCDF-4 file that is being changed.
//!
//! A dimension is in the file at once, as the empty dataset that netCDF-C makes for it. If its
//! coordinate variable comes later, the variable takes the place of that dataset, and variables along
//! the dimension are led to the variable.
//!
//! The entries of `REFERENCE_LIST` wait in memory ([`Editing::add_scale_user`]). Facts about scales are
//! kept, too. The work for a variable then does not grow with the number of variables.

use super::written;
use super::{NOT_COORDINATES, Scale, datasets, groups, references};
use hyperslab_hdf5::edit::{Editing, REFERENCE_LIST};
use hyperslab_hdf5::new_file::{NewAttribute, NewKind, NewObject};
use hyperslab_hdf5::{Dataset, File, Group, Hdf5Error, LinkTarget, Node};
use hyperslab_store::fork::Mutex;
use std::collections::HashMap;

type Result<T> = std::result::Result<T, Hdf5Error>;

/// The dimensions and variables of a file, for changes.
#[derive(Debug)]
pub struct Definitions {
    editing: Editing,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The number of the next dimension, once all are counted.
    next_id: Option<i32>,
    /// The scales by their addresses.
    scales: HashMap<u64, LiveDimension>,
}

/// A dimension that a variable can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveDimension {
    /// Its name.
    pub name: String,
    /// The path of its group.
    pub group: String,
    /// The address of its scale.
    pub address: u64,
    /// Its number in the file.
    pub id: i32,
    /// Its length. For an unlimited one, of the longest variable along it.
    pub len: u64,
    /// `true` if it may grow.
    pub unlimited: bool,
    /// `true` if no variable has its coordinates.
    pub without_variable: bool,
}

impl Definitions {
    /// The definitions of a file that is being changed.
    pub fn of(editing: Editing) -> Definitions {
        Definitions { editing, known: Mutex::default() }
    }

    /// Makes a new file a NetCDF-4 file.
    pub fn begin(&self) -> Result<()> {
        let root = self.file().root()?;
        self.editing.set_attribute(root.address(), &written::properties())?;
        self.known.lock().next_id = Some(0);
        Ok(())
    }

    fn file(&self) -> &File {
        self.editing.file()
    }

    fn refuse(&self, object: String, why: impl Into<String>) -> Hdf5Error {
        Hdf5Error::Unstorable { object, why: why.into() }
    }

    /// Runs a change. Other writers wait, and find the change in the file. `needed`: not only if there
    /// are others now. A writer that comes later must not give the same numbers.
    fn alone<R>(&self, needed: bool, work: impl FnOnce() -> Result<R>) -> Result<R> {
        if self.editing.is_blank() || !(needed || self.editing.has_others()) {
            return work();
        }
        self.editing.exclusively(|| {
            *self.known.lock() = Known::default();
            let done = work()?;
            self.editing.flush()?;
            Ok(done)
        })
    }

    /// Makes a dimension in a group. `size`: `None` for an unlimited one.
    pub fn create_dimension(&self, group: &Group, name: &str, size: Option<u64>) -> Result<()> {
        self.alone(true, || self.make_dimension(group, name, size))
    }

    fn make_dimension(&self, group: &Group, name: &str, size: Option<u64>) -> Result<()> {
        let path = join(group.path(), name);
        let refuse = |why: &str| self.refuse(format!("dimension '/{path}'"), why);
        if !written::is_name(name) {
            return Err(refuse("a name has at least one character, and no '/' or NUL"));
        }
        if let Some(link) = group.link(name)? {
            if self.scale(group, name)?.is_some() {
                return Err(refuse("there is a dimension of this name in the group"));
            }
            let LinkTarget::Hard(address) = link.target else {
                return Err(refuse("a link has this name"));
            };
            let Node::Dataset(_) = self.file().object_at(address, &path)? else {
                return Err(refuse("a group or a type has this name"));
            };
            // A variable that does not have the dimension gives up its name to it.
            let kept = format!("{NOT_COORDINATES}{name}");
            self.editing.move_link((group.address(), name), (group.address(), &kept))?;
        }
        let id = self.take_id()?;
        let (len, unlimited) = (size.unwrap_or(0), size.is_none());
        let object = NewObject {
            path,
            kind: NewKind::Dataset(written::empty_scale(len, unlimited)),
            attributes: written::scale(None, len, Some(id)),
            tracks_attributes: true,
        };
        let address = self.editing.create_object(&object)?;
        self.editing.link(group.address(), name, LinkTarget::Hard(address))?;
        let (name, group) = (name.to_owned(), group.path().to_owned());
        let made = LiveDimension { name, group, address, id, len, unlimited, without_variable: true };
        self.known.lock().scales.insert(address, made);
        Ok(())
    }

    /// The number of a new dimension.
    fn take_id(&self) -> Result<i32> {
        let next = self.known.lock().next_id;
        let next = match next {
            Some(next) => next,
            None => self.count_ids()?,
        };
        let after = next.checked_add(1);
        let too_many = || self.refuse("the file".into(), "it has too many dimensions");
        self.known.lock().next_id = Some(after.ok_or_else(too_many)?);
        Ok(next)
    }

    /// The first number that no dimension of the file has.
    fn count_ids(&self) -> Result<i32> {
        let mut next = 0;
        for group in groups(&self.file().root()?)? {
            for dataset in datasets(&group)? {
                let id = Scale::of(&dataset.attributes()?)?.and_then(|scale| scale.id);
                next = next.max(id.and_then(|id| i32::try_from(id + 1).ok()).unwrap_or(0));
            }
        }
        Ok(next)
    }

    /// The dimension of a name: of the group, or of the nearest group above that has one.
    pub fn find(&self, group: &Group, name: &str) -> Result<Option<LiveDimension>> {
        if let Some(found) = self.scale(group, name)? {
            return Ok(Some(found));
        }
        let mut path = group.path();
        while !path.is_empty() {
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
            let above = match path {
                "" => self.file().root()?,
                _ => match self.file().node(path)? {
                    Node::Group(group) => group,
                    _ => break,
                },
            };
            if let Some(found) = self.scale(&above, name)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The dimension of a name in a group.
    fn scale(&self, group: &Group, name: &str) -> Result<Option<LiveDimension>> {
        let Some(link) = group.link(name)? else { return Ok(None) };
        let LinkTarget::Hard(address) = link.target else { return Ok(None) };
        if let Some(found) = self.known.lock().scales.get(&address).cloned() {
            return Ok(Some(found));
        }
        let path = join(group.path(), name);
        let Node::Dataset(dataset) = self.file().object_at(address, &path)? else { return Ok(None) };
        let Some(scale) = Scale::of(&dataset.attributes()?)? else { return Ok(None) };
        let shape = scale.dimension(&dataset);
        if shape.is_scalar {
            return Ok(None);
        }
        let id = match scale.id.and_then(|id| i32::try_from(id).ok()) {
            Some(id) => id,
            None => {
                // Programs of HDF5 alone give no numbers.
                let id = self.take_id()?;
                self.editing.set_attribute(address, &written::dimension_id(id))?;
                id
            }
        };
        let mut len = shape.len;
        if shape.unlimited {
            let own = if scale.without_variable { 0 } else { len };
            len = self.longest(&dataset)?.max(own);
        }
        let found = LiveDimension {
            name: name.to_owned(),
            group: group.path().to_owned(),
            address,
            id,
            len,
            unlimited: shape.unlimited,
            without_variable: scale.without_variable,
        };
        self.known.lock().scales.insert(address, found.clone());
        Ok(Some(found))
    }

    /// The variables along a dimension, and their axes; not its coordinate variable.
    pub fn users(&self, dimension: &LiveDimension) -> Result<Vec<(u64, u32)>> {
        let path = join(&dimension.group, &dimension.name);
        match self.file().object_at(dimension.address, &path)? {
            Node::Dataset(dataset) => users(&dataset),
            _ => Ok(Vec::new()),
        }
    }

    /// The length of the dimension of each axis of a variable. `None`: the axis has no scale.
    pub fn lengths(&self, variable: u64) -> Result<Vec<Option<u64>>> {
        let Node::Dataset(dataset) = self.file().object_at(variable, "")? else { return Ok(Vec::new()) };
        let Some(list) = dataset.attribute("DIMENSION_LIST")? else { return Ok(Vec::new()) };
        references(&list)?.into_iter().map(|scale| scale.map_or(Ok(None), |scale| self.len(scale))).collect()
    }

    /// The length of the dimension with a scale.
    fn len(&self, scale: u64) -> Result<Option<u64>> {
        if let Some(known) = self.known.lock().scales.get(&scale) {
            return Ok(Some(known.len));
        }
        let Some(path) = self.file().path_of(scale)? else { return Ok(None) };
        let (above, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let group = match above {
            "" => self.file().root()?,
            _ => match self.file().node(above)? {
                Node::Group(group) => group,
                _ => return Ok(None),
            },
        };
        Ok(self.scale(&group, name)?.map(|found| found.len))
    }

    fn longest(&self, scale: &Dataset) -> Result<u64> {
        let mut longest = 0;
        for (user, axis) in users(scale)? {
            if let Ok(Node::Dataset(dataset)) = self.file().object_at(user, "") {
                let len = dataset.dataspace().shape().get(axis as usize).copied();
                longest = longest.max(len.unwrap_or(0));
            }
        }
        Ok(longest)
    }

    /// Notes the length of an unlimited dimension after variables along it have changed theirs.
    pub fn note_length(&self, dimension: &LiveDimension, len: u64) {
        if let Some(known) = self.known.lock().scales.get_mut(&dimension.address) {
            known.len = len;
        }
    }

    /// Gives a dataset without a name its place as a variable along dimensions. Returns the name of its
    /// dataset in the group.
    pub fn define(&self, group: &Group, name: &str, dataset: u64, dimensions: &[String]) -> Result<String> {
        let is_coordinates = dimensions.first().is_some_and(|first| first == name);
        self.alone(is_coordinates, || self.make_variable(group, name, dataset, dimensions))
    }

    fn make_variable(
        &self,
        group: &Group,
        name: &str,
        dataset: u64,
        dimensions: &[String],
    ) -> Result<String> {
        let path = join(group.path(), name);
        let refuse = |why: String| self.refuse(format!("variable '/{path}'"), why);
        if !written::is_name(name) {
            return Err(refuse("a name has at least one character, and no '/' or NUL".into()));
        }
        let found = dimensions.iter().map(|dimension| {
            let missing = || refuse(missing(dimension));
            self.find(group, dimension)?.ok_or_else(missing)
        });
        let found = found.collect::<Result<Vec<LiveDimension>>>()?;
        let ids: Vec<i32> = found.iter().map(|dimension| dimension.id).collect();
        let own = self.scale(group, name)?;
        // In netCDF-C's order.
        let mut attributes = Vec::new();
        if !ids.is_empty() {
            attributes.push(written::coordinates(&ids));
        }
        let mut linked = name.to_owned();
        let coordinates = match (&own, found.first()) {
            (Some(own), Some(first)) if first.address == own.address => Some(own.clone()),
            _ => None,
        };
        if coordinates.is_some() && own.as_ref().is_some_and(|own| !own.without_variable) {
            return Err(refuse("there is a variable of this name in the group".into()));
        }
        if own.is_some() && coordinates.is_none() {
            linked = format!("{NOT_COORDINATES}{name}");
        }
        match &coordinates {
            Some(own) => attributes.extend(written::scale(Some(name), own.len, Some(own.id))),
            None if found.is_empty() => {}
            None => attributes.push(written::dimension_list(&addresses(&found))),
        }
        if !attributes.is_empty() {
            self.editing.replace_attributes(dataset, &attributes, |_| false)?;
        }
        if let Some(own) = coordinates {
            return self.take_place(group, &own, dataset).map(|()| linked);
        }
        if group.link(&linked)?.is_some() {
            return Err(refuse("there is an object of this name in the group".into()));
        }
        self.editing.link(group.address(), &linked, LinkTarget::Hard(dataset))?;
        for (axis, dimension) in (0..).zip(&found) {
            self.editing.add_scale_user(dimension.address, dataset, axis)?;
        }
        Ok(linked)
    }

    /// Puts a coordinate variable in the place of the dataset that has stood for its dimension.
    fn take_place(&self, group: &Group, old: &LiveDimension, new: u64) -> Result<()> {
        let users = self.users(old)?;
        for (user, axis) in &users {
            self.lead(*user, *axis, new)?;
            self.editing.add_scale_user(new, *user, *axis)?;
        }
        self.editing.unlink(group.address(), &old.name)?;
        self.editing.link(group.address(), &old.name, LinkTarget::Hard(new))?;
        let mut known = self.known.lock();
        known.scales.remove(&old.address);
        known.scales.insert(new, LiveDimension { address: new, without_variable: false, ..old.clone() });
        Ok(())
    }

    /// Makes a dataset the scale of an axis of a variable.
    fn lead(&self, user: u64, axis: u32, scale: u64) -> Result<()> {
        let Node::Dataset(dataset) = self.file().object_at(user, "")? else { return Ok(()) };
        let Some(list) = dataset.attribute("DIMENSION_LIST")? else { return Ok(()) };
        let mut scales: Vec<Option<usize>> =
            references(&list)?.into_iter().map(|scale| usize::try_from(scale?).ok()).collect();
        if let Some(place) = scales.get_mut(axis as usize) {
            *place = usize::try_from(scale).ok();
        }
        let list: NewAttribute = written::dimension_list(&scales);
        self.editing.set_attribute(user, &list)
    }
}

fn join(group: &str, name: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") }
}

/// Why a variable cannot have a dimension.
fn missing(dimension: &str) -> String {
    format!(
        "there is no dimension '{dimension}' in its group or in a group above: make it with create_dimension"
    )
}

fn addresses(dimensions: &[LiveDimension]) -> Vec<Option<usize>> {
    dimensions.iter().map(|dimension| usize::try_from(dimension.address).ok()).collect()
}

/// The axes in the `REFERENCE_LIST` of a scale.
fn users(scale: &Dataset) -> Result<Vec<(u64, u32)>> {
    let Some(list) = scale.attribute(REFERENCE_LIST)? else { return Ok(Vec::new()) };
    if list.datatype.size != 16 {
        return Ok(Vec::new());
    }
    let entry = |entry: &[u8]| {
        let (address, rest) = entry.split_first_chunk::<8>()?;
        let axis = rest.first_chunk::<4>()?;
        Some((u64::from_le_bytes(*address), u32::from_le_bytes(*axis)))
    };
    Ok(list.data.chunks_exact(16).filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netcdf4::{dimension_names, dimensions, is_netcdf4};
    use hyperslab_hdf5::FileOptions;
    use hyperslab_hdf5::dataspace::Dataspace;
    use hyperslab_hdf5::edit::NewFile;
    use hyperslab_hdf5::new_file::NewDataset;
    use hyperslab_store::EditedFile;
    use std::sync::Arc;

    fn new_file() -> (File, Definitions) {
        let bytes = Arc::new(EditedFile::memory(Vec::new()));
        let new = NewFile { track_order: true, ..NewFile::default() };
        let file = File::create(bytes, new, FileOptions::default()).unwrap();
        let definitions = Definitions::of(file.editing().unwrap());
        definitions.begin().unwrap();
        (file, definitions)
    }

    fn dataset(definitions: &Definitions, shape: &[u64]) -> u64 {
        let kind = NewKind::Dataset(NewDataset {
            dataspace: Dataspace::fixed(shape),
            ..written::empty_scale(1, false)
        });
        let object = NewObject { path: "v".into(), kind, attributes: Vec::new(), tracks_attributes: true };
        definitions.editing.create_object(&object).unwrap()
    }

    fn define(definitions: &Definitions, group: &Group, name: &str, shape: &[u64], along: &[&str]) -> String {
        let along: Vec<String> = along.iter().map(|name| (*name).to_owned()).collect();
        definitions.define(group, name, dataset(definitions, shape), &along).unwrap()
    }

    fn names(group: &Group, dataset: &str) -> Vec<String> {
        let Node::Dataset(dataset) = group.child(dataset).unwrap() else { panic!("{dataset}") };
        dimension_names(&dataset).unwrap().unwrap().into_iter().flatten().collect()
    }

    #[test]
    fn a_coordinate_variable_takes_the_place_of_its_dimension() {
        let (file, definitions) = new_file();
        let root = file.root().unwrap();
        definitions.create_dimension(&root, "x", Some(3)).unwrap();
        definitions.create_dimension(&root, "y", Some(2)).unwrap();
        assert_eq!(define(&definitions, &root, "v", &[2, 3], &["y", "x"]), "v");
        assert_eq!(define(&definitions, &root, "x", &[3], &["x"]), "x");
        assert_eq!(names(&root, "v"), ["y", "x"]);
        assert!(is_netcdf4(&file).unwrap());
        let x = definitions.find(&root, "x").unwrap().unwrap();
        let Node::Dataset(v) = root.child("v").unwrap() else { panic!() };
        assert_eq!((x.id, x.without_variable), (0, false));
        assert_eq!(definitions.users(&x).unwrap(), [(v.address(), 1)]);
        let found = dimensions(&root).unwrap();
        let found: Vec<_> = found.iter().map(|one| (&*one.name, one.len, one.without_variable)).collect();
        assert_eq!(found, [("x", 3, false), ("y", 2, true)]);
        // There can be one only.
        let again = dataset(&definitions, &[3]);
        let refused = definitions.define(&root, "x", again, &["x".to_owned()]).unwrap_err();
        assert!(refused.to_string().contains("there is a variable of this name"), "{refused}");
    }

    #[test]
    fn a_variable_gives_its_name_to_a_dimension() {
        let (file, definitions) = new_file();
        let root = file.root().unwrap();
        assert_eq!(define(&definitions, &root, "x", &[], &[]), "x");
        definitions.create_dimension(&root, "x", None).unwrap();
        assert_eq!(define(&definitions, &root, "n", &[0], &["x"]), "n");
        definitions.create_dimension(&root, "n2", Some(4)).unwrap();
        assert_eq!(define(&definitions, &root, "n2", &[0], &["x"]), "_nc4_non_coord_n2");
        let links: Vec<String> = root.links().unwrap().into_iter().map(|link| link.name).collect();
        assert_eq!(links, ["_nc4_non_coord_x", "x", "n", "n2", "_nc4_non_coord_n2"]);
        let refused = definitions.create_dimension(&root, "x", None).unwrap_err();
        assert!(refused.to_string().contains("there is a dimension of this name"), "{refused}");
    }

    #[test]
    fn dimensions_of_groups_above_are_found_in_other_sessions() {
        let (file, definitions) = new_file();
        let root = file.root().unwrap();
        definitions.create_dimension(&root, "x", Some(3)).unwrap();
        let kind = NewKind::Group { links: Vec::new(), tracks_links: true };
        let group = NewObject { path: "g".into(), kind, attributes: Vec::new(), tracks_attributes: true };
        let address = definitions.editing.create_object(&group).unwrap();
        definitions.editing.link(root.address(), "g", LinkTarget::Hard(address)).unwrap();
        let Node::Group(group) = root.child("g").unwrap() else { panic!() };
        assert_eq!(define(&definitions, &group, "v", &[3], &["x"]), "v");
        assert_eq!(names(&group, "v"), ["x"]);
        assert!(definitions.find(&root, "v").unwrap().is_none());
        let missing = definitions.define(&group, "w", dataset(&definitions, &[1]), &["z".to_owned()]);
        assert!(missing.unwrap_err().to_string().contains("make it with create_dimension"));
        // Numbers go on after those in the file.
        definitions.editing.flush().unwrap();
        let again = Definitions::of(definitions.editing.clone());
        again.create_dimension(&group, "z", Some(1)).unwrap();
        let found = again.find(&group, "z").unwrap().unwrap();
        assert_eq!((found.id, &*found.group), (1, "g"));
    }
}
