//! A source, described as the content of a classic file.

use super::attributes::{self, Typed};
use super::variable::{Elements, Target};
use super::{Failed, cast, text};
use crate::copy::convert::{Copying, Notes, flags};
use crate::copy::region::Window;
use crate::copy::transfer::Job;
use crate::copy::{CopyOptions, count_stored_objects, path_text};
use crate::meaning::{FILL_VALUE, FileMeaning, Meaning, MissingValue, Variable};
use crate::netcdf::{self, Attribute, Dimension, External, NewFile, NewVariable, Version};
use crate::references::NO_SHAPE;
use crate::{Array, Dims, Error, Group, Json, Node, NodeKind, Result};
use hyperslab_codec::Kind;
use hyperslab_store::EditedFile;
use std::collections::BTreeMap;

const NO_ATTRIBUTE: &str = "attributes left out, whose type has no words in JSON";
const DATATYPES: &str = "committed datatypes left out, which NetCDF classic files have not";
const NO_MISSING: &str = "_FillValue left out, which the text of NetCDF classic files cannot have";
const PHONY: &str = "axes without names are dimensions phony_dim_0, phony_dim_1 and so on";
const FIXED: &str =
    "unlimited dimensions became fixed ones, because NetCDF classic files have one, as first axis";
const UNLIMITED: &str =
    "a dimension of length 0 became unlimited, because it is no other way in NetCDF classic files";
const CAST: &str = "elements became those of a type that NetCDF classic files have; each value is the same";

/// The attribute for text in characters, which netCDF4-python and xarray know.
const ENCODING: &str = "_Encoding";

/// xarray's attribute for Booleans, which are bytes in NetCDF.
const DTYPE: &str = "dtype";

/// The name of a root array in its file.
const NAMELESS: &str = "data";

/// The content of a new file, and the arrays whose elements are copied.
pub(super) struct Described {
    pub(super) new: NewFile,
    pub(super) variables: Vec<Member>,
    pub(super) notes: Notes,
    /// Arrays and groups that were left out: path and reason.
    pub(super) skipped: Vec<(String, String)>,
}

/// A variable of the file: its array in the source, and how its elements are stored.
pub(super) struct Member {
    /// The path of the array in the source.
    pub(super) path: String,
    array: Array,
    window: Window,
    elements: Elements,
}

/// A variable whose dimensions have no numbers yet.
struct Found {
    member: Member,
    name: String,
    axes: Vec<(Option<String>, u64)>,
    attributes: Vec<Attribute>,
}

impl Described {
    /// Describes an array, or a group of arrays. `left_out`: variables that cannot be copied, and why.
    pub(super) fn of(
        source: &Node,
        version: Version,
        options: &CopyOptions<'_>,
        left_out: &BTreeMap<String, String>,
    ) -> Result<Described, Failed> {
        let new = NewFile { version, dimensions: Vec::new(), attributes: Vec::new(), variables: Vec::new() };
        let mut described =
            Described { new, variables: Vec::new(), notes: Notes::new(), skipped: Vec::new() };
        let arrays = match source {
            Node::Array(array) => {
                let name = array.path().rsplit('/').next().filter(|name| !name.is_empty());
                vec![(name.unwrap_or(NAMELESS).to_owned(), array.clone())]
            }
            Node::Group(group) => described.members(group, options)?,
        };
        let meaning = Meaning::of(source, arrays.iter().map(|(_, array)| array))?;
        if let Node::Group(group) = source {
            described.group_attributes(group, &meaning)?;
        }
        let mut found = Vec::new();
        for (path, array) in arrays {
            options.check()?;
            if let Some(why) = left_out.get(&path) {
                described.skipped.push((path_text(&path), why.clone()));
                continue;
            }
            match described.variable(&path, array, &meaning, options) {
                Ok(one) => found.extend(one),
                Err(error) if options.skip_unsupported && error.is_of_one() => {
                    described.skipped.push((path_text(&path), error.to_string()));
                }
                Err(error) if matches!(source, Node::Group(_)) => return Err(error.of_one().into()),
                Err(error) => return Err(error.into()),
            }
        }
        check_region(&found, options)?;
        described.place_axes(source, found, options)?;
        // Errors of one variable say which.
        if let Err(error) = described.new.build() {
            let number =
                described.new.variables.iter().position(|one| Some(&one.name) == error.variable.as_ref());
            let path =
                number.and_then(|number| described.variables.get(number)).map(|member| member.path.clone());
            return Err(match path {
                Some(path) => Failed::Variable(path, Box::new(error.into())),
                None => error.into(),
            });
        }
        Ok(described)
    }

    /// The arrays of a group. Fails if there are groups in it.
    fn members(&mut self, group: &Group, options: &CopyOptions<'_>) -> Result<Vec<(String, Array)>> {
        let mut arrays = Vec::new();
        for below in group.below(Some(1), Some(&|| options.stops()))? {
            options.check()?;
            let refuse = || {
                Error::Copy {
                array: path_text(&below.path),
                why: "it is a group, and NetCDF classic files have none; copy it to a file of its own, or choose \
                      netcdf4"
                    .into(),
            }
            };
            let opened = match below.kind {
                NodeKind::Group => Err(refuse()),
                NodeKind::Datatype => {
                    self.note(DATATYPES, path_text(&below.path));
                    continue;
                }
                NodeKind::Array | NodeKind::Link(_) => {
                    group.open_below(&below).and_then(|found| found.into_node())
                }
            };
            match opened {
                Ok(Node::Array(array)) => arrays.push((below.path, array)),
                Ok(Node::Group(_)) => return Err(refuse().of_one()),
                Err(error) if options.skip_unsupported && error.is_of_one() => {
                    self.skipped.push((path_text(&below.path), error.to_string()));
                }
                Err(error) => return Err(error.of_one()),
            }
        }
        Ok(arrays)
    }

    fn note(&mut self, note: &'static str, name: String) {
        self.notes.entry(note).or_default().push(name);
    }

    fn group_attributes(&mut self, group: &Group, meaning: &Meaning) -> Result<()> {
        let (json, unreadable) = meaning.group_attributes(group)?;
        let typed = Typed::of_group(group)?;
        self.new.attributes = self.attributes("", &json, &unreadable, &typed, None)?;
        Ok(())
    }

    /// `element`: the type of the variable that has the attributes.
    fn attributes(
        &mut self,
        path: &str,
        json: &Json,
        unreadable: &[String],
        typed: &Typed,
        element: Option<External>,
    ) -> Result<Vec<Attribute>> {
        for name in unreadable {
            self.note(NO_ATTRIBUTE, format!("{}, {name:?}", path_text(path)));
        }
        let mut made = Vec::new();
        for (name, value) in json.as_object().unwrap_or_default() {
            let found = attributes::of_json(name, value, typed, element, self.new.version);
            let (attribute, note) = found.map_err(|why| Error::Copy { array: path_text(path), why })?;
            if let Some(note) = note {
                self.note(note, format!("{}, {name:?}", path_text(path)));
            }
            made.extend(attribute);
        }
        Ok(made)
    }

    /// Describes a variable. `None`: the array only stands for a dimension.
    fn variable(
        &mut self,
        path: &str,
        array: Array,
        meaning: &Meaning,
        options: &CopyOptions<'_>,
    ) -> Result<Option<Found>> {
        if array.has_no_shape() {
            self.skipped.push((path_text(path), NO_SHAPE.into()));
            return Ok(None);
        }
        let Some(mut variable) = meaning.variable(&array)? else { return Ok(None) };
        let (window, shape) = Window::of_variable(&array, &variable, options.region.as_ref())?;
        let (name, mut notes) = (path_text(path), Notes::new());
        let mut copying = Copying { name: &name, options, notes: &mut notes };
        let facts = array.node().collect_copied(&mut copying)?;
        // The notes so far are about Zarr.
        copying.notes.clear();
        flags(&mut variable.attributes, &facts.members, &mut copying);
        for (note, names) in notes {
            self.notes.entry(note).or_default().extend(names);
        }
        let elements = Elements::of(&array, &facts, path, self.new.version)?;
        let elements = text::measured(elements, &array, &window, options)?;
        if elements.is_cast() {
            self.note(CAST, format!("{}: {}", path_text(path), elements.external.name()));
        }
        let typed = Typed::of_array(&array)?;
        let Variable { attributes, unreadable, missing, .. } = &variable;
        let mut attributes =
            self.attributes(path, attributes, unreadable, &typed, Some(elements.external))?;
        // As xarray says it: programs then see text and Booleans again.
        let is_bool = array.dtype().kind() == Kind::Bool;
        for (name, text, is_wanted) in [(ENCODING, "utf-8", elements.is_text), (DTYPE, "bool", is_bool)] {
            if is_wanted && !attributes.iter().any(|one| one.name == name) {
                let (name, external, bytes) = (name.to_owned(), External::Char, text.into());
                attributes.push(Attribute { name, external, bytes });
            }
        }
        match self.missing(path, &array, missing, &elements, &typed)? {
            Some(attribute) => attributes.insert(0, attribute),
            None if *missing != MissingValue::None => self.note(NO_MISSING, path_text(path)),
            None => {}
        }
        // A classic file keeps its order. netCDF4-python writes `_FillValue` first.
        attributes.sort_by_key(|one| typed.place(&one.name));
        let axes = self.axes(path, &variable, &shape, &elements);
        let path_in_file = meaning.path(path);
        let name = path_in_file.rsplit('/').next().unwrap_or_default().to_owned();
        let member = Member { path: path.to_owned(), array, window, elements };
        Ok(Some(Found { member, name, axes, attributes }))
    }

    /// The attribute for the value of missing elements. `None`: there is none.
    fn missing(
        &self,
        path: &str,
        array: &Array,
        missing: &MissingValue,
        elements: &Elements,
        typed: &Typed,
    ) -> Result<Option<Attribute>> {
        let refuse = |why: String| Error::Copy { array: path_text(path), why };
        let bytes = match missing {
            MissingValue::None => return Ok(None),
            MissingValue::Other(json) => {
                let found =
                    attributes::of_json(FILL_VALUE, json, typed, Some(elements.external), self.new.version);
                return Ok(found.map_err(refuse)?.0);
            }
            MissingValue::Value(bytes) if elements.external == External::Char => {
                // One character at most: text is an array of characters.
                let text: &[u8] = bytes.strip_suffix(&[0]).unwrap_or(bytes);
                let one = match text {
                    [] => 0,
                    [one] => *one,
                    _ => return Ok(None),
                };
                let (name, external) = (FILL_VALUE.into(), External::Char);
                return Ok(Some(Attribute { name, external, bytes: vec![one] }));
            }
            MissingValue::Value(bytes) => bytes,
        };
        let stored = cast::stored(bytes, array.dtype(), elements.external);
        let bytes = stored.ok_or_else(|| {
            refuse(format!(
                "_FillValue {} is no number of type {}, which its elements have in the copy; choose netcdf4",
                missing.describe(array),
                elements.external.name()
            ))
        })?;
        Ok(Some(Attribute { name: FILL_VALUE.into(), external: elements.external, bytes }))
    }

    /// The names and lengths of the axes. Text has one more: its characters.
    fn axes(
        &mut self,
        path: &str,
        variable: &Variable,
        shape: &Dims,
        elements: &Elements,
    ) -> Vec<(Option<String>, u64)> {
        let names = variable.dimension_names.clone().unwrap_or_default();
        let names = names.into_iter().chain(std::iter::repeat(None));
        let mut axes: Vec<(Option<String>, u64)> = names.zip(shape.iter().copied()).collect();
        if axes.iter().any(|(name, _)| name.is_none()) {
            self.note(PHONY, path_text(path));
        }
        if let Some(len) = elements.characters {
            axes.push((Some(format!("string{len}")), len));
        }
        axes
    }

    /// Gives dimensions their numbers.
    fn place_axes(
        &mut self,
        source: &Node,
        found: Vec<Found>,
        options: &CopyOptions<'_>,
    ) -> Result<(), Failed> {
        let mut dimensions = match options.region {
            None => dimensions_of(source)?,
            Some(_) => Vec::new(),
        };
        let unlimited: Vec<String> = match source.file() {
            Some(file) => FileMeaning::of(&file)?.unlimited(&file, source.path())?,
            None => Vec::new(),
        };
        let mut phony: Vec<(u64, usize)> = Vec::new();
        let mut numbered = Vec::new();
        for one in &found {
            let mut ids: Vec<usize> = Vec::new();
            for (name, len) in &one.axes {
                let name = match name {
                    Some(name) => name.clone(),
                    None => {
                        // Axes of one length share a dimension, but not within one array.
                        let before = ids
                            .iter()
                            .filter(|id| {
                                dimensions.get(**id).is_some_and(|d: &Dimension| {
                                    d.len == *len && d.name.starts_with("phony_dim_")
                                })
                            })
                            .count();
                        let of_length = phony.iter().position(|known| *known == (*len, before));
                        let number = of_length.unwrap_or_else(|| {
                            phony.push((*len, before));
                            phony.len() - 1
                        });
                        format!("phony_dim_{number}")
                    }
                };
                let known = dimensions.iter().position(|dimension| dimension.name == name);
                match known.and_then(|id| Some((id, dimensions.get(id)?))) {
                    Some((id, dimension)) if dimension.len == *len => ids.push(id),
                    Some((_, dimension)) => {
                        let why = format!(
                            "dimension '{name}' has length {len} here and {} elsewhere, and a name is one dimension in \
                             NetCDF classic files; copy the array to a file of its own",
                            dimension.len
                        );
                        let error = Error::Copy { array: path_text(&one.member.path), why };
                        return Err(Failed::Variable(one.member.path.clone(), Box::new(error)));
                    }
                    None => {
                        ids.push(dimensions.len());
                        dimensions.push(Dimension { name, len: *len, unlimited: false });
                    }
                }
            }
            numbered.push(ids);
        }
        self.choose_unlimited(&mut dimensions, &numbered, &unlimited);
        for (one, dimensions) in found.into_iter().zip(numbered) {
            let Found { member, name, attributes, .. } = one;
            let external = member.elements.external;
            self.new.variables.push(NewVariable { name, dimensions, attributes, external });
            self.variables.push(member);
        }
        self.new.dimensions = dimensions;
        Ok(())
    }

    /// Chooses the unlimited dimension: one of the source's, or one of length 0.
    fn choose_unlimited(&mut self, dimensions: &mut [Dimension], used: &[Vec<usize>], wanted: &[String]) {
        let is_possible = |id: usize| used.iter().all(|ids| !ids.iter().skip(1).any(|other| *other == id));
        let of = |is_wanted: &dyn Fn(&Dimension) -> bool| {
            dimensions.iter().enumerate().position(|(id, dimension)| is_wanted(dimension) && is_possible(id))
        };
        let empty = of(&|dimension| dimension.len == 0);
        let source = of(&|dimension| wanted.contains(&dimension.name));
        let chosen = empty.or(source);
        if let Some(dimension) = chosen.and_then(|id| dimensions.get_mut(id)) {
            dimension.unlimited = true;
            if !wanted.contains(&dimension.name) {
                self.note(UNLIMITED, dimension.name.clone());
            }
        }
        for dimension in dimensions.iter().filter(|dimension| !dimension.unlimited) {
            if wanted.contains(&dimension.name) {
                self.note(FIXED, dimension.name.clone());
            }
        }
    }

    /// Makes the file, without elements.
    pub(super) fn create(&self, bytes: EditedFile) -> Result<netcdf::File> {
        Ok(netcdf::File::create(bytes, &self.new)?)
    }

    /// The jobs, and the bytes of the source's chunks.
    pub(super) fn jobs(
        &self,
        file: &netcdf::File,
        options: &CopyOptions<'_>,
        before: &mut u64,
    ) -> Result<Vec<Job>> {
        let jobs = self.variables.iter().zip(file.variables()).map(|(member, variable)| {
            options.check()?;
            let (_, stored) = count_stored_objects(&member.array, Some(&|| options.stops()))?;
            *before = before.saturating_add(stored);
            let name = variable.name().to_owned();
            let target = Target::array(variable, &member.elements)?;
            let job = Job::planned(&name, &member.array, target, stored, &member.window);
            // The fill values of other types cannot be compared: every element is written.
            Ok(Job { is_new: !member.elements.is_cast(), ..job })
        });
        jobs.collect()
    }

    /// Bytes of all elements in the file.
    pub(super) fn data_bytes(&self) -> u64 {
        let bytes = |variable: &NewVariable| {
            let lens = variable.dimensions.iter().filter_map(|id| self.new.dimensions.get(*id));
            lens.fold(variable.external.dtype().size() as u64, |bytes, dimension| {
                bytes.saturating_mul(dimension.len)
            })
        };
        self.new.variables.iter().map(bytes).fold(0, u64::saturating_add)
    }
}

/// The dimensions of a source file, in its order.
fn dimensions_of(source: &Node) -> Result<Vec<Dimension>> {
    let (Some(file), Node::Group(_)) = (source.file(), source) else { return Ok(Vec::new()) };
    FileMeaning::of(&file)?.all_dimensions(&file, source.path())
}

/// Refuses regions that fit none of the arrays.
fn check_region(found: &[Found], options: &CopyOptions<'_>) -> Result<()> {
    let Some(region) = &options.region else { return Ok(()) };
    let names = found.iter().map(|one| Some(one.axes.iter().map(|(name, _)| name.clone()).collect()));
    match region.unknown_names(names)?[..] {
        [] => Ok(()),
        [name, ..] => Err(Error::Options(format!("region: no array has a dimension named {name:?}"))),
    }
}
