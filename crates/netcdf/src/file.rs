//! Classic files: opening a file, and the places of its variables.
//!
//! Variables without the unlimited dimension come first, one after the other. Variables with it
//! (record variables) follow: the first record of each, then the second of each. Record `i` of a
//! variable is therefore at `begin + i × recsize`. `recsize` is the sum of the bytes of one record
//! of each record variable, each rounded up to four bytes. Only a single record variable is not
//! rounded up.

use crate::edit::Editing;
use crate::header::{Declared, Header, Version};
use crate::variable::{Facts, Variable};
use crate::{Attribute, Dimension, HeaderError, NetcdfError};
use hyperslab_array::element_count;
use hyperslab_store::{Key, RangeRead, Store};
use std::sync::Arc;

/// Bytes of the first read. Few headers are longer.
const FIRST_READ: u64 = 64 << 10;

/// No header is larger than this.
const LARGEST: u64 = 256 << 20;

/// An open classic file. Cheap to clone; may be used by many threads at once.
#[derive(Clone, Debug)]
pub struct File {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Clone, Debug)]
pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: String,
    /// Bytes of the file.
    pub(crate) size: u64,
    version: Version,
    pub(crate) dimensions: Vec<Dimension>,
    attributes: Vec<Attribute>,
    variables: Vec<Arc<Facts>>,
    /// The changes, if the file is being changed.
    pub(crate) editing: Option<Arc<Editing>>,
}

impl File {
    /// Opens the object `key`. Fails with [`NetcdfError::NotNetcdf`] if it is no classic file.
    pub fn open(store: Arc<dyn Store>, key: &str) -> Result<File, NetcdfError> {
        let name = format!("'{key}' in {}", store.url());
        let not = |why: &str| NetcdfError::NotNetcdf { file: name.clone(), why: why.into() };
        let size = store.size(Key::new(key)?)?.ok_or_else(|| not("it does not exist"))?;
        let mut wanted = FIRST_READ.min(size);
        let header = loop {
            let mut bytes = vec![0; usize::try_from(wanted).unwrap_or_default()];
            let range = RangeRead { offset: 0, buf: &mut bytes };
            if !store.read_ranges(Key::new(key)?, None, &mut [range])? {
                return Err(not("it does not exist"));
            }
            if Version::of(&bytes).is_none() {
                return Err(not(
                    "expected 'CDF' and version 1, 2 or 5 in its first 4 bytes, found other bytes",
                ));
            }
            match Header::parse(&bytes) {
                Ok(header) => break header,
                Err(HeaderError::Need(needed)) if needed <= size.min(LARGEST) => {
                    wanted = needed.max(wanted.saturating_mul(2)).min(size).min(LARGEST);
                }
                Err(why) => return Err(NetcdfError::Header { file: name, why }),
            }
        };
        let Header { version, records, mut dimensions, attributes, variables } = header;
        let variables = place_variables(variables, &mut dimensions, records, size)
            .map_err(|(variable, why)| NetcdfError::Variable { file: name, variable, why })?;
        let (key, editing) = (key.into(), None);
        let inner = Inner { store, key, size, version, dimensions, attributes, variables, editing };
        Ok(File { inner: Arc::new(inner) })
    }

    /// The file, which is being changed.
    pub(crate) fn with_editing(&self, editing: Arc<Editing>) -> File {
        File { inner: Arc::new(Inner { editing: Some(editing), ..(*self.inner).clone() }) }
    }

    /// The file with another number of records.
    pub(crate) fn placed(&self, records: u64) -> Result<File, NetcdfError> {
        let mut inner = (*self.inner).clone();
        let declared = inner.variables.iter().map(|facts| facts.declared.clone()).collect();
        inner.variables = place_variables(declared, &mut inner.dimensions, Some(records), u64::MAX)
            .map_err(|(variable, why)| NetcdfError::Variable { file: self.name(), variable, why })?;
        // The file has room for them.
        inner.size = i64::MAX as u64;
        Ok(File { inner: Arc::new(inner) })
    }

    /// The number of records.
    pub fn records(&self) -> u64 {
        self.dimensions().iter().find(|dimension| dimension.unlimited).map_or(0, |dimension| dimension.len)
    }

    /// Returns whether an object begins as a classic file does.
    pub fn is_netcdf3(store: &dyn Store, key: &str) -> Result<bool, NetcdfError> {
        let key = Key::new(key)?;
        if store.size(key)?.is_none_or(|size| size < 4) {
            return Ok(false);
        }
        let mut magic = [0; 4];
        let found = store.read_ranges(key, None, &mut [RangeRead { offset: 0, buf: &mut magic }])?;
        Ok(found && Version::of(&magic).is_some())
    }

    /// The store that holds the file.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The key of the file in its store.
    pub fn key(&self) -> &str {
        &self.inner.key
    }

    /// Returns whether both are one open file.
    pub fn is(&self, other: &File) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The format of the file, one of three.
    pub fn version(&self) -> Version {
        self.inner.version
    }

    /// Its dimensions, in the order of the file.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.inner.dimensions
    }

    /// Its own attributes, in the order of the file.
    pub fn attributes(&self) -> &[Attribute] {
        &self.inner.attributes
    }

    /// Its variables, in the order of the file.
    pub fn variables(&self) -> impl Iterator<Item = Variable> + '_ {
        let variable = |(number, facts): (usize, &Arc<Facts>)| {
            let (file, facts) = (self.clone(), facts.clone());
            Variable { file, number, facts }
        };
        self.inner.variables.iter().enumerate().map(variable)
    }

    /// The variable of this name.
    pub fn variable(&self, name: &str) -> Option<Variable> {
        self.variables().find(|variable| variable.name() == name)
    }

    /// The file's name in messages.
    pub(crate) fn name(&self) -> String {
        format!("'{}' in {}", self.inner.key, self.inner.store.url())
    }
}

/// Places all variables and sets the number of records. Errors name the variable.
fn place_variables(
    declared: Vec<Declared>,
    dimensions: &mut [Dimension],
    records: Option<u64>,
    size: u64,
) -> Result<Vec<Arc<Facts>>, (String, String)> {
    // Bytes of all elements of each variable. For a record variable, bytes of one record.
    let mut slabs = Vec::new();
    let mut record_slabs = Vec::new();
    for variable in &declared {
        let lens: Vec<u64> = variable.lens(dimensions).collect();
        let is_record = variable.is_record(dimensions);
        let rest = lens.get(usize::from(is_record)..).unwrap_or_default();
        let bytes = element_count(rest)
            .and_then(|count| count.checked_mul(variable.external.dtype().size() as u64))
            .filter(|bytes| *bytes <= i64::MAX as u64)
            .ok_or_else(|| (variable.name.clone(), format!("shape {lens:?} has more than 2⁶³ bytes")))?;
        slabs.push(bytes);
        if is_record {
            record_slabs.push((variable, bytes));
        }
    }
    let record = match &record_slabs[..] {
        [(_, bytes)] => *bytes,
        many => many.iter().try_fold(0u64, |sum, (variable, bytes)| {
            sum.checked_add(bytes.next_multiple_of(4))
                .ok_or_else(|| (variable.name.clone(), "a record has more than 2⁶⁴ bytes".to_owned()))
        })?,
    };
    let records = records.unwrap_or_else(|| {
        let fitting = record_slabs.iter().filter(|(_, bytes)| *bytes > 0).map(|(variable, bytes)| {
            let last = size.checked_sub(*bytes).and_then(|last| last.checked_sub(variable.begin));
            last.and_then(|last| last.checked_div(record)).map_or(0, |before| before + 1)
        });
        fitting.min().unwrap_or(0)
    });
    for dimension in dimensions.iter_mut().filter(|dimension| dimension.unlimited) {
        dimension.len = records;
    }
    let alternate = record_slabs.len() > 1;
    let facts = declared.into_iter().zip(slabs).map(|(variable, slab)| {
        let shape: Vec<u64> = variable.lens(dimensions).collect();
        let is_record = variable.is_record(dimensions);
        // Records of a single record variable lie back to back.
        let together = if is_record && !alternate { records } else { 1 };
        let step = if is_record && alternate { record } else { 0 };
        match slab.checked_mul(together).filter(|bytes| *bytes <= i64::MAX as u64) {
            Some(slab) => Ok(Arc::new(Facts { declared: variable, shape, slab, step })),
            None => Err((variable.name, format!("shape {shape:?} has more than 2⁶³ bytes"))),
        }
    });
    facts.collect()
}

impl Declared {
    fn lens<'a>(&'a self, dimensions: &'a [Dimension]) -> impl Iterator<Item = u64> + 'a {
        self.dimensions.iter().filter_map(|id| dimensions.get(*id)).map(|dimension| dimension.len)
    }

    /// Returns whether its first dimension is the unlimited one. (No other can be.)
    fn is_record(&self, dimensions: &[Dimension]) -> bool {
        let first = self.dimensions.first().and_then(|id| dimensions.get(*id));
        first.is_some_and(|dimension| dimension.unlimited)
    }
}
