//! The header of a new classic file: the mirror of the parser, a pure function of values.
//!
//! [`NewFile::build`] gives each variable its place, as netCDF-C does: variables without records
//! first, in the order of the header, then the first record of each record variable. Each is padded
//! to a multiple of four bytes, but the records of a single record variable are not.
//!
//! Sources: "The NetCDF Classic Format Specification"; `NC_begins` and `NC_check_vlens` of netCDF-C
//! for the sizes that older programs can read.

use crate::header::{Declared, Header};
use crate::{Attribute, Dimension, External, NewFileError, Version};
use hyperslab_array::element_count;
use std::collections::HashSet;

/// The most bytes of a name, as in netCDF-C.
const LONGEST_NAME: usize = 256;

/// The most axes of a variable, as in netCDF-C.
const MOST_AXES: usize = 1024;

/// The content of a new file, but for the elements of its variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// The format.
    pub version: Version,
    /// The dimensions. The length of the unlimited one is the number of records.
    pub dimensions: Vec<Dimension>,
    /// The attributes of the file.
    pub attributes: Vec<Attribute>,
    /// The variables.
    pub variables: Vec<NewVariable>,
}

/// A variable of a new file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVariable {
    /// Its name.
    pub name: String,
    /// Indices of its dimensions.
    pub dimensions: Vec<usize>,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
    /// The type of its elements.
    pub external: External,
}

/// The header of a new file, and the size of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The first bytes of the file.
    pub header: Vec<u8>,
    /// Bytes of the file with all elements.
    pub len: u64,
}

impl Version {
    /// The name of the format, as netCDF4-python and xarray write it.
    pub fn name(self) -> &'static str {
        match self {
            Version::Classic => "NETCDF3_CLASSIC",
            Version::Offset64 => "NETCDF3_64BIT_OFFSET",
            Version::Data64 => "NETCDF3_64BIT_DATA",
        }
    }

    /// The most records, and the longest axis: lengths are signed numbers to many programs.
    pub fn longest(self) -> u64 {
        match self {
            Version::Classic => i32::MAX as u64 - 3,
            Version::Offset64 => u64::from(u32::MAX) - 3,
            Version::Data64 => i64::MAX as u64 - 3,
        }
    }

    /// The most bytes of a variable (or of one of its records) that others follow.
    fn largest(self) -> u64 {
        self.longest()
    }

    /// The last byte at which a variable may begin.
    fn last_begin(self) -> u64 {
        match self {
            Version::Classic => i32::MAX as u64,
            Version::Offset64 | Version::Data64 => i64::MAX as u64,
        }
    }

    /// Returns `true` if files of this format have elements of this type.
    pub fn has(self, external: External) -> bool {
        External::of(external.number(), self == Version::Data64).is_some()
    }

    /// Tells which format holds more.
    fn instead(self) -> &'static str {
        match self {
            Version::Classic => "; choose NETCDF3_64BIT_OFFSET, NETCDF3_64BIT_DATA or NETCDF4",
            Version::Offset64 => "; choose NETCDF3_64BIT_DATA or NETCDF4",
            Version::Data64 => "; choose NETCDF4",
        }
    }
}

impl NewFile {
    /// Builds the header.
    ///
    /// Fails if the format cannot hold the content. The error names the part, and the format that can.
    pub fn build(&self) -> Result<Built, NewFileError> {
        self.check()?;
        let mut header = Header {
            version: self.version,
            records: Some(self.records()),
            dimensions: self.dimensions.iter().map(Dimension::as_declared).collect(),
            attributes: self.attributes.clone(),
            variables: self.variables.iter().map(NewVariable::declared).collect(),
        };
        // The size of the header does not depend on the places in it.
        let mut at = header.build().len() as u64;
        let has_records = |variable: &NewVariable| self.is_record(variable);
        let of = |wanted: bool| {
            let numbered = self.variables.iter().enumerate();
            numbered.filter(move |(_, variable)| has_records(variable) == wanted)
        };
        let mut begins = vec![0; self.variables.len()];
        let mut place = |number: usize, variable: &NewVariable, at: &mut u64, padded: bool| {
            let too_far = |begin: u64| {
                let why = format!(
                    "it would begin at byte {begin}, and variables of {} begin before byte {}{}",
                    self.version.name(),
                    self.version.last_begin(),
                    self.version.instead()
                );
                NewFileError::variable(&variable.name, why)
            };
            if *at > self.version.last_begin() {
                return Err(too_far(*at));
            }
            if let Some(begin) = begins.get_mut(number) {
                *begin = *at;
            }
            let slab = self.slab(variable)?;
            let len = if padded { slab.next_multiple_of(4) } else { slab };
            *at = at.checked_add(len).filter(|end| *end <= i64::MAX as u64).ok_or_else(|| too_far(*at))?;
            Ok(())
        };
        for (number, variable) in of(false) {
            place(number, variable, &mut at, true)?;
        }
        let first_record = at;
        let is_single = of(true).count() == 1;
        for (number, variable) in of(true) {
            place(number, variable, &mut at, !is_single)?;
        }
        let record = at.saturating_sub(first_record);
        let len = record.checked_mul(self.records()).and_then(|records| records.checked_add(first_record));
        let len = len.filter(|len| *len <= i64::MAX as u64);
        let len = len.ok_or_else(|| NewFileError::file("the file would have more than 2⁶³ bytes".into()))?;
        for (variable, begin) in header.variables.iter_mut().zip(begins) {
            variable.begin = begin;
        }
        Ok(Built { header: header.build(), len })
    }

    /// The number of records.
    fn records(&self) -> u64 {
        self.dimensions.iter().find(|dimension| dimension.unlimited).map_or(0, |dimension| dimension.len)
    }

    /// The lengths of the axes of a variable.
    fn lens(&self, variable: &NewVariable) -> Vec<u64> {
        let found = variable.dimensions.iter().filter_map(|id| self.dimensions.get(*id));
        found.map(|dimension| dimension.len).collect()
    }

    fn is_record(&self, variable: &NewVariable) -> bool {
        let first = variable.dimensions.first().and_then(|id| self.dimensions.get(*id));
        first.is_some_and(|dimension| dimension.unlimited)
    }

    /// Bytes of a variable; of a record variable, bytes of one record.
    fn slab(&self, variable: &NewVariable) -> Result<u64, NewFileError> {
        let lens = self.lens(variable);
        let rest = lens.get(usize::from(self.is_record(variable))..).unwrap_or_default();
        let bytes = element_count(rest)
            .and_then(|count| count.checked_mul(variable.external.dtype().size() as u64))
            .filter(|bytes| *bytes <= i64::MAX as u64 - 3);
        bytes.ok_or_else(|| {
            NewFileError::variable(&variable.name, format!("shape {lens:?} has more than 2⁶³ bytes"))
        })
    }

    fn check(&self) -> Result<(), NewFileError> {
        let version = self.version;
        let mut names = HashSet::new();
        for dimension in &self.dimensions {
            let refuse = |why: String| NewFileError::dimension(&dimension.name, why);
            check_name(&dimension.name).map_err(refuse)?;
            if !names.insert(&dimension.name) {
                return Err(refuse("another dimension has this name".into()));
            }
            if dimension.len == 0 && !dimension.unlimited {
                let why = "it has length 0, which means unlimited in classic files; make it unlimited, or \
                           choose NETCDF4";
                return Err(refuse(why.into()));
            }
            if dimension.len > version.longest() {
                return Err(refuse(format!(
                    "it has length {}, and those of {} have at most {}{}",
                    dimension.len,
                    version.name(),
                    version.longest(),
                    version.instead()
                )));
            }
        }
        if let Some(second) = self.dimensions.iter().filter(|dimension| dimension.unlimited).nth(1) {
            let why =
                "it is the second unlimited dimension, and classic files have at most one; choose NETCDF4";
            return Err(NewFileError::dimension(&second.name, why.into()));
        }
        self.check_attributes(&self.attributes, NewFileError::file)?;
        let mut names = HashSet::new();
        for variable in &self.variables {
            let refuse = |why: String| NewFileError::variable(&variable.name, why);
            check_name(&variable.name).map_err(refuse)?;
            if !names.insert(&variable.name) {
                return Err(refuse("another variable has this name".into()));
            }
            let rank = variable.dimensions.len();
            if rank > MOST_AXES {
                return Err(refuse(format!("it has {rank} axes, and NetCDF has at most {MOST_AXES}")));
            }
            for (axis, id) in variable.dimensions.iter().enumerate() {
                match self.dimensions.get(*id) {
                    None => return Err(refuse(format!("axis {axis}: there is no dimension {id}"))),
                    Some(dimension) if dimension.unlimited && axis > 0 => {
                        return Err(refuse(format!(
                            "axis {axis} is the unlimited dimension '{}', which is the first axis in classic \
                             files; choose NETCDF4",
                            dimension.name
                        )));
                    }
                    Some(_) => {}
                }
            }
            self.check_type(variable.external).map_err(refuse)?;
            self.check_attributes(&variable.attributes, refuse)?;
        }
        self.check_sizes(false)?;
        self.check_sizes(true)
    }

    fn check_type(&self, external: External) -> Result<(), String> {
        if self.version.has(external) {
            return Ok(());
        }
        Err(format!(
            "its type is {}, which only NETCDF3_64BIT_DATA and NETCDF4 have, not {}",
            external.name(),
            self.version.name()
        ))
    }

    fn check_attributes(
        &self,
        attributes: &[Attribute],
        refuse: impl Fn(String) -> NewFileError,
    ) -> Result<(), NewFileError> {
        let mut names = HashSet::new();
        for Attribute { name, external, bytes } in attributes {
            let refuse = |why: String| refuse(format!("attribute '{name}': {why}"));
            check_name(name).map_err(refuse)?;
            if !names.insert(name) {
                return Err(refuse("another attribute has this name".into()));
            }
            self.check_type(*external).map_err(refuse)?;
            let size = external.dtype().size();
            if bytes.len() % size != 0 {
                return Err(refuse(format!("{} bytes are no elements of {size} bytes", bytes.len())));
            }
            let count = (bytes.len() / size) as u64;
            if count > self.version.longest() {
                let most = self.version.longest();
                return Err(refuse(format!("it has {count} elements, at most {most} are possible")));
            }
        }
        Ok(())
    }

    /// Checks the sizes of record variables, or of the others. Only the last one may be large, because
    /// programs find the others by its size.
    fn check_sizes(&self, records: bool) -> Result<(), NewFileError> {
        let largest = self.version.largest();
        let mut of_kind: Vec<&NewVariable> =
            self.variables.iter().filter(|variable| self.is_record(variable) == records).collect();
        let records_follow = !records && self.variables.iter().any(|variable| self.is_record(variable));
        if !records_follow {
            of_kind.pop();
        }
        for variable in of_kind {
            let bytes = self.slab(variable)?;
            if bytes > largest {
                let what = if records { "one of its records has" } else { "it has" };
                return Err(NewFileError::variable(
                    &variable.name,
                    format!(
                        "{what} {bytes} bytes, and in {} only the last variable may have more than {largest}{}",
                        self.version.name(),
                        self.version.instead()
                    ),
                ));
            }
        }
        Ok(())
    }
}

impl Dimension {
    /// The dimension as the header has it: the unlimited one has length 0.
    fn as_declared(&self) -> Dimension {
        Dimension { len: if self.unlimited { 0 } else { self.len }, ..self.clone() }
    }
}

impl NewVariable {
    fn declared(&self) -> Declared {
        let NewVariable { name, dimensions, attributes, external } = self.clone();
        Declared { name, dimensions, attributes, external, begin: 0 }
    }
}

/// Checks a name by the rules of netCDF-C.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let Some(first) = name.chars().next() else {
        return Err("its name is empty".into());
    };
    if name.len() > LONGEST_NAME {
        return Err(format!("its name has {} bytes, and NetCDF has at most {LONGEST_NAME}", name.len()));
    }
    if !(first.is_ascii_alphanumeric() || first == '_' || !first.is_ascii()) {
        return Err(format!(
            "its name begins with {first:?}; NetCDF's names begin with a letter, a digit or _"
        ));
    }
    if let Some(wrong) = name.chars().find(|c| *c == '/' || c.is_ascii_control()) {
        return Err(format!("its name contains {wrong:?}, which NetCDF does not allow"));
    }
    if name.ends_with(' ') {
        return Err("its name ends with a space, which NetCDF does not allow".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
