//! Headers of files, groups and arrays as CDL, the language of `ncdump`.
//!
//! Arrays of all formats are variables here, as [`crate::meaning`] describes them. Axes without a name
//! get netCDF-C's name for them (`phony_dim_0`). Types that CDL lacks have their name in NumPy.
//!
//! Source: <https://docs.unidata.ucar.edu/nug/current/_c_d_l.html>

use super::cdl_attributes::{self as entries, CdlAttribute};
use super::cdl_data;
use super::cdl_words::{name as escaped, type_name};
use crate::meaning::{FileMeaning, Meaning, MissingValue};
use crate::{Array, DataFile, Error, Group, Node, NodeKind, Object, Result, Variable, VlenKind};
use hyperslab_hdf5::element::ElementKind;
use std::collections::HashSet;
use std::io::{self, Write};

/// Groups within groups. Each level takes stack.
const DEEPEST: usize = 500;

/// Options of [`write_cdl`].
#[derive(Clone, Debug, Default)]
pub struct CdlOptions {
    /// Also writes the values of these variables: paths, or names that may be in any group.
    pub variables: Vec<String>,
    /// Writes the values of all variables.
    pub all: bool,
    /// Writes times as stored numbers. `false`: as dates in quotes.
    pub raw: bool,
}

/// Why writing stops.
pub(super) enum Halt {
    Failed(Error),
    Output(io::Error),
}

impl<E: Into<Error>> From<E> for Halt {
    fn from(error: E) -> Self {
        Halt::Failed(error.into())
    }
}

pub(super) type Written<T> = std::result::Result<T, Halt>;

/// A variable of a group.
pub(super) struct Member {
    name: String,
    path: String,
    pub(super) array: Array,
    pub(super) variable: Variable,
    /// The names of all axes.
    axes: Vec<String>,
}

/// A dimension in scope: its name and length.
type Scope = Vec<(String, u64)>;

struct Writer<'a> {
    meaning: Meaning,
    file: Option<DataFile>,
    options: &'a CdlOptions,
    out: &'a mut dyn Write,
    stop: &'a dyn Fn() -> bool,
    is_classic: bool,
    /// Number of dimensions that got a name here.
    phony: usize,
    /// Addresses of groups in an HDF5 file. A hard link may lead to one of them again.
    seen: HashSet<u64>,
}

/// Writes the header of a node. `name`: what to call it. `stop` is called now and then; if it returns
/// `true`, this fails with [`Error::Interrupted`].
///
/// The inner result fails if `out` does.
pub fn write_cdl(
    node: &Node,
    name: &str,
    options: &CdlOptions,
    out: &mut dyn Write,
    stop: &dyn Fn() -> bool,
) -> Result<io::Result<()>> {
    let file = node.file();
    let meaning = match &file {
        Some(file) => Meaning::File(FileMeaning::of_variables(file)?),
        None => Meaning::Zarr { scalars: true },
    };
    let is_classic = file.as_ref().is_some_and(|file| file.as_hdf5().is_none());
    check_names(node, options, stop)?;
    let mut writer = Writer { meaning, file, options, out, stop, is_classic, phony: 0, seen: HashSet::new() };
    match writer.file(node, name) {
        Ok(()) => Ok(Ok(())),
        Err(Halt::Output(error)) => Ok(Err(error)),
        Err(Halt::Failed(error)) => Err(error),
    }
}

/// Fails if a group lacks all wanted variables. Nothing is written yet.
fn check_names(node: &Node, options: &CdlOptions, stop: &dyn Fn() -> bool) -> Result<()> {
    let (Node::Group(group), false) = (node, options.variables.is_empty()) else { return Ok(()) };
    for below in group.below(None, Some(stop))? {
        let name = below.path.rsplit('/').next().unwrap_or_default();
        let path = format!("{}/{}", group.path(), below.path);
        if options.variables.iter().any(|wanted| is_called(wanted, name, &path)) {
            return Ok(());
        }
    }
    let names = options.variables.join(", ");
    let why = "hyperslab ls lists their names";
    Err(Error::Options(format!("variables: there is none called {names}; {why}")))
}

/// Returns `true` if a variable is meant by its name, or by its path.
fn is_called(wanted: &str, name: &str, path: &str) -> bool {
    wanted == name || wanted.trim_matches('/') == path.trim_matches('/')
}

impl Writer<'_> {
    fn line(&mut self, text: &str) -> Written<()> {
        writeln!(self.out, "{text}").map_err(Halt::Output)
    }

    fn file(&mut self, node: &Node, name: &str) -> Written<()> {
        self.line(&format!("netcdf {} {{", escaped(name)))?;
        match node {
            Node::Group(group) => self.group(group, 0, &mut Vec::new())?,
            Node::Array(array) => {
                if let Some(variable) = self.meaning.variable(array)? {
                    let path = array.path().trim_matches('/').to_owned();
                    let own = path.rsplit('/').next().unwrap_or_default();
                    let own = if own.is_empty() { name.to_owned() } else { own.to_owned() };
                    let mut scope = Vec::new();
                    let mut member =
                        Member { name: own, path, array: array.clone(), variable, axes: Vec::new() };
                    self.name_axes(&mut member, &scope.clone(), &mut scope);
                    self.body(
                        0,
                        &scope.iter().map(|(name, len)| (name.clone(), *len, false)).collect::<Vec<_>>(),
                        &[member],
                        &[],
                    )?;
                }
            }
        }
        self.line("}")
    }

    /// Gives all axes of a variable a name. Dimensions that nothing declares are added to `new`.
    fn name_axes(&mut self, member: &mut Member, scope: &Scope, new: &mut Scope) {
        let names = member.variable.dimension_names.clone().unwrap_or_default();
        let lens: Vec<u64> = member.variable.shape.to_vec();
        for (axis, len) in lens.into_iter().enumerate() {
            let given = names.get(axis).cloned().flatten().filter(|name| !name.is_empty());
            let known =
                |all: &Scope, name: &str| all.iter().rev().find(|(own, _)| own == name).map(|(_, len)| *len);
            let name = match given {
                Some(name) => match known(new, &name).or_else(|| known(scope, &name)) {
                    Some(own) if own == len => name,
                    // Zarr lets arrays disagree about the length of an axis.
                    Some(_) => format!("{name}_{len}"),
                    None => name,
                },
                None => {
                    let is_own = |(name, own): &&(String, u64)| *own == len && name.starts_with("phony_dim_");
                    let used = |name: &String| member.axes.contains(name);
                    let found = scope.iter().chain(new.iter()).filter(is_own).map(|(name, _)| name.clone());
                    found.into_iter().find(|name| !used(name)).unwrap_or_else(|| {
                        self.phony += 1;
                        format!("phony_dim_{}", self.phony - 1)
                    })
                }
            };
            if known(new, &name).or_else(|| known(scope, &name)).is_none() {
                new.push((name.clone(), len));
            }
            member.axes.push(name);
        }
    }

    fn group(&mut self, group: &Group, level: usize, scope: &mut Scope) -> Written<()> {
        if level > DEEPEST {
            let why = format!("group '{}': more than {DEEPEST} groups within each other", group.path());
            return Err(Halt::Failed(Error::Options(why)));
        }
        self.seen.extend(group.as_hdf5().map(|found| found.address()));
        let mut dimensions: Vec<(String, u64, bool)> = Vec::new();
        if let (Meaning::File(meaning), Some(file)) = (&self.meaning, &self.file) {
            let found = meaning.all_dimensions(file, group.path())?;
            dimensions.extend(found.into_iter().map(|one| (one.name, one.len, one.unlimited)));
        }
        let depth = scope.len();
        scope.extend(dimensions.iter().map(|(name, len, _)| (name.clone(), *len)));
        let (mut members, mut groups) = (Vec::new(), Vec::new());
        for below in group.below(Some(1), Some(self.stop))? {
            if (self.stop)() {
                return Err(Halt::Failed(Error::Interrupted));
            }
            match below.kind {
                NodeKind::Group => {
                    let found = group.open_below(&below)?.into_node()?.into_group()?;
                    if found.as_hdf5().is_none_or(|found| self.seen.insert(found.address())) {
                        groups.push((below.path.clone(), found));
                    }
                }
                NodeKind::Array => {
                    let array = group.open_below(&below).and_then(Object::into_node)?.into_array()?;
                    let Some(variable) = self.meaning.variable(&array)? else { continue };
                    let path = array.path().trim_matches('/').to_owned();
                    let name = self.meaning.path(&below.path);
                    let mut member = Member { name, path, array, variable, axes: Vec::new() };
                    let mut new = Vec::new();
                    self.name_axes(&mut member, scope, &mut new);
                    dimensions.extend(new.iter().map(|(name, len)| (name.clone(), *len, false)));
                    scope.extend(new);
                    members.push(member);
                }
                _ => {}
            }
        }
        let attributes = {
            let is_user = |name: &str| self.is_of_user(name);
            entries::of_group(group, &is_user)?
        };
        self.body(level, &dimensions, &members, &attributes)?;
        let indent = "  ".repeat(level);
        for (name, group) in groups {
            self.line(&format!("\n{indent}group: {} {{", escaped(&name)))?;
            self.group(&group, level + 1, scope)?;
            self.line(&format!("{indent}  }} // group {}", escaped(&name)))?;
        }
        scope.truncate(depth);
        Ok(())
    }

    fn is_of_user(&self, name: &str) -> bool {
        match &self.meaning {
            Meaning::File(meaning) => meaning.is_of_user(name),
            _ => true,
        }
    }

    /// Dimensions, variables, attributes and values of a group.
    fn body(
        &mut self,
        level: usize,
        dimensions: &[(String, u64, bool)],
        members: &[Member],
        attributes: &[CdlAttribute],
    ) -> Written<()> {
        let indent = "  ".repeat(level);
        if !dimensions.is_empty() {
            self.line(&format!("{indent}dimensions:"))?;
        }
        for (name, len, unlimited) in dimensions {
            let name = escaped(name);
            self.line(&match unlimited {
                true => format!("{indent}\t{name} = UNLIMITED ; // ({len} currently)"),
                false => format!("{indent}\t{name} = {len} ;"),
            })?;
        }
        if !members.is_empty() {
            self.line(&format!("{indent}variables:"))?;
        }
        for member in members {
            self.declare(member, &indent)?;
        }
        if !attributes.is_empty() {
            let what = if level == 0 { "global" } else { "group" };
            self.line(&format!("\n{indent}// {what} attributes:"))?;
        }
        for entry in attributes {
            self.line(&entry.line("", &indent, self.is_classic))?;
        }
        if self.options.all || !self.options.variables.is_empty() {
            self.line(&format!("{indent}data:"))?;
            for member in members {
                let is_wanted = |wanted: &String| is_called(wanted, &member.name, &member.path);
                if self.options.all || self.options.variables.iter().any(is_wanted) {
                    let head = format!("{indent} {} =", escaped(&member.name));
                    cdl_data::write(member, &head, self.options.raw, self.out, self.stop)?;
                }
            }
        }
        Ok(())
    }

    fn declare(&mut self, member: &Member, indent: &str) -> Written<()> {
        let name = escaped(&member.name);
        let axes: Vec<String> = member.axes.iter().map(|axis| escaped(axis)).collect();
        let axes = if axes.is_empty() { String::new() } else { format!("({})", axes.join(", ")) };
        let (words, note) = match type_of(&member.array) {
            Some(name) => (name.to_owned(), ""),
            None => (escaped(&member.array.type_words()), " // no type of CDL"),
        };
        self.line(&format!("{indent}\t{words} {name}{axes} ;{note}"))?;
        let is_user = |name: &str| self.is_of_user(name);
        let attributes = entries::of_array(&member.array, &member.variable.attributes, &is_user)?;
        let fill = match (&member.variable.missing, member.array.as_zarr()) {
            (MissingValue::Value(bytes), Some(_)) if member.variable.is_variable => {
                entries::of_fill(&member.array, bytes)
            }
            _ => None,
        };
        for entry in fill.iter().chain(&attributes) {
            self.line(&entry.line(&name, indent, self.is_classic))?;
        }
        Ok(())
    }
}

/// The type of a variable in CDL.
fn type_of(array: &Array) -> Option<&'static str> {
    if array.structure().is_some() || array.optional().is_some() {
        return None;
    }
    match array.vlen() {
        Some(VlenKind::Text) => return Some("string"),
        Some(_) => return None,
        None => {}
    }
    match array.as_hdf5().map(|dataset| &dataset.element().kind) {
        Some(ElementKind::Plain(_) | ElementKind::FixedString { .. }) | None => type_name(array.dtype()),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use crate::{Choice, Json};

    #[test]
    fn a_hierarchy_of_zarr() {
        let directory = tempfile::tempdir().unwrap();
        let location = directory.path().join("a.zarr").display().to_string();
        let root = Group::create(&location, Format::ZarrV3).unwrap();
        let mut spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[2, 3], "<i2".parse().unwrap());
        spec.compressors = Choice::Set(Vec::new());
        spec.dimension_names = Some(vec![Some("y".into()), Some("x".into())]);
        spec.attributes = Json::from([("units", "K".into()), ("_FillValue", 4_u64.into())]);
        let array = root.create_array("deep/t 1", &spec).unwrap();
        array.write_slice(&[], &[1_i16, 2, 3, 4, 5, 6]).unwrap();
        let plain = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[3], "|u1".parse().unwrap());
        root.create_array("deep/u", &plain).unwrap();
        let node = crate::open(&location).unwrap();
        let text = |options: &CdlOptions| {
            let mut out = Vec::new();
            write_cdl(&node, "a", options, &mut out, &|| false).unwrap().unwrap();
            String::from_utf8(out).unwrap()
        };
        let options = CdlOptions { variables: vec!["t 1".into()], ..CdlOptions::default() };
        assert_eq!(
            text(&options),
            "netcdf a {
data:

group: deep {
  dimensions:
  \ty = 2 ;
  \tx = 3 ;
  \tphony_dim_0 = 3 ;
  variables:
  \tshort t\\ 1(y, x) ;
  \t\tt\\ 1:_FillValue = 4s ;
  \t\tt\\ 1:units = \"K\" ;
  \tubyte u(phony_dim_0) ;
  data:

   t\\ 1 =
  1, 2, 3,
  _, 5, 6 ;
  } // group deep
}
"
        );
        assert!(!text(&CdlOptions::default()).contains("data:"));
        let wrong = CdlOptions { variables: vec!["no".into()], ..CdlOptions::default() };
        let error = write_cdl(&node, "a", &wrong, &mut Vec::new(), &|| false).unwrap_err();
        assert!(error.to_string().contains("there is none called no"), "{error}");
    }
}
