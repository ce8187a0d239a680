//! The source datasets of virtual datasets.
//!
//! A source is found by the file and the path of its mapping when it is read. It stays open until
//! too many others are open. If its file or path is missing, it may be created later. The search is
//! therefore repeated for each read.

use crate::cast::Cast;
use crate::element::Element;
use crate::parsed_cache::ByAddress;
use crate::virtual_dataset::{self, Wanted};
use crate::virtual_mapping::Mapping;
use crate::{Dataset, File, Hdf5Error, Node, Purpose, Result, data_layout::DataLayout};
use hyperslab_array::{ArrayLayout, ConvertElements, FillValue, LocateError, MosaicSource, SourceArray};
use hyperslab_store::Key;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// Number of open sources of a dataset.
const OPEN: u64 = 128;

/// Deepest nesting of virtual datasets that are sources of each other.
const DEEPEST: usize = 16;

/// Most virtual sources of a dataset. Its length may depend on sources of sources.
const MOST: u32 = 4096;

/// Number of virtual sources described so far for a dataset.
#[derive(Debug, Default)]
pub(crate) struct Budget(Cell<u32>);

/// The virtual datasets that are being read, the innermost first. None may be its own source.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The lock number of the file, and the dataset's address in it.
    place: (u64, u64),
    above: Option<Arc<Chain>>,
}

/// Identifies a dataset.
fn place(dataset: &Dataset) -> Result<(u64, u64)> {
    let source = dataset.file().source();
    Ok((source.store().lock_id(Key::new(source.key())?), dataset.address()))
}

/// Shared by all sources of a dataset.
#[derive(Debug)]
struct Common {
    file: File,
    /// The element type that sources are converted to.
    element: Element,
    /// `true` if elements refer to other places in their file.
    refers: bool,
    chain: Arc<Chain>,
    open: ByAddress<SourceArray>,
}

/// The distinct sources of a dataset.
pub(crate) struct Sources {
    common: Arc<Common>,
    found: HashMap<(String, String), Arc<OneSource>>,
}

/// A source, opened when it is read.
#[derive(Debug)]
pub(crate) struct OneSource {
    common: Arc<Common>,
    number: u64,
    /// `None`: the virtual dataset's file.
    file: Option<String>,
    path: String,
}

impl Sources {
    pub(crate) fn new(dataset: &Dataset, element: &Element, above: Option<Arc<Chain>>) -> Result<Self> {
        let common = Common {
            file: dataset.file().clone(),
            element: element.clone(),
            refers: dataset.datatype().refers(),
            chain: Arc::new(Chain { place: place(dataset)?, above }),
            open: ByAddress::new(OPEN),
        };
        Ok(Sources { common: Arc::new(common), found: HashMap::new() })
    }

    /// Returns the source of a mapping for a block.
    pub(crate) fn of(&mut self, mapping: &Mapping, block: u64) -> Arc<OneSource> {
        let (file, path) = (mapping.file.of_block(block), mapping.dataset.of_block(block));
        let (number, common) = (self.found.len() as u64, &self.common);
        let make = |(file, path): &(String, String)| {
            let file = (!mapping.file.is_same_file()).then(|| file.clone());
            Arc::new(OneSource { common: common.clone(), number, file, path: path.clone() })
        };
        self.found.entry((file, path)).or_insert_with_key(make).clone()
    }
}

impl OneSource {
    /// Returns the layout of the source. `None`: the file or the path does not exist.
    pub(crate) fn get(&self, budget: &Budget) -> Result<Option<Arc<ArrayLayout>>> {
        Ok(self.kept(budget)?.map(|source| source.layout.clone()))
    }

    fn kept(&self, budget: &Budget) -> Result<Option<Arc<SourceArray>>> {
        let make = || self.make(budget).map_err(Some)?.map(Arc::new).ok_or(None);
        match self.common.open.get(self.number, make, |_| 1) {
            Ok(source) => Ok(Some(source)),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    fn make(&self, budget: &Budget) -> Result<Option<SourceArray>> {
        let common = &self.common;
        let file = match &self.file {
            None => common.file.clone(),
            Some(name) => match common.file.open_other(name, Purpose::Virtual)? {
                Some(file) => file,
                None => return Ok(None),
            },
        };
        let invalid = |why: String| file.source().invalid(why).with_object_path(&self.path);
        let dataset = match file.node(&self.path) {
            Ok(Node::Dataset(dataset)) => dataset,
            Ok(_) => {
                return Err(invalid("it is a source of a virtual dataset, but it is not a dataset".into()));
            }
            Err(Hdf5Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let cast = self.cast(&dataset)?;
        let DataLayout::Virtual { collection, index } = *dataset.data_layout() else {
            let layout = dataset.layout()?;
            let convert = (!cast.is_same()).then(|| Arc::new(cast) as Arc<dyn ConvertElements>);
            return Ok(Some(SourceArray { layout, convert }));
        };
        let (place, mut depth, mut above) = (place(&dataset)?, 0, Some(&common.chain));
        while let Some(chain) = above {
            depth += 1;
            if chain.place == place || depth >= DEEPEST {
                return Err(invalid(match depth < DEEPEST {
                    true => "it is a virtual dataset that is a source of itself".into(),
                    false => format!(
                        "virtual datasets are sources of virtual datasets, more than {DEEPEST} levels deep"
                    ),
                }));
            }
            above = chain.above.as_ref();
        }
        budget.0.set(budget.0.get().saturating_add(1));
        if budget.0.get() > MOST {
            return Err(invalid(format!(
                "the virtual dataset has more than {MOST} sources that are virtual datasets themselves"
            )));
        }
        let dtype = common.element.engine_type();
        let dtype = dtype.ok_or_else(|| invalid("its elements are too large".into()))?;
        let fill = dataset.absent_value().map_or(FillValue::zero(dtype.size()), |fill| {
            let mut converted = vec![0; dtype.size()];
            cast.convert(fill, &mut converted);
            FillValue::new(&converted)
        });
        let layout = virtual_dataset::layout_within(
            &dataset,
            Wanted { element: &common.element, dtype, fill },
            (collection, index),
            Some(common.chain.clone()),
            budget,
        );
        layout.map(|layout| Some(Arc::new(layout).into())).map_err(|error| error.with_object_path(&self.path))
    }

    /// Returns the conversion of a source's elements. Fails if the HDF5 library cannot convert
    /// them.
    fn cast(&self, dataset: &Dataset) -> Result<Cast> {
        let common = &self.common;
        let refuse = |what: String| dataset.file().source().unsupported(what).with_object_path(&self.path);
        let (from, to) = (dataset.element(), &common.element);
        let cast = Cast::new(dataset.datatype(), from, to).ok_or_else(|| {
            let (from, to) = (from.to_json(), to.to_json());
            refuse(format!("conversion of elements from {from} to {to}, the type of the virtual dataset,"))
        })?;
        if common.refers && !dataset.file().is(&common.file) {
            return Err(refuse(
                "a source in another file of a virtual dataset with references or elements of variable \
                 length"
                    .into(),
            ));
        }
        Ok(cast)
    }
}

impl MosaicSource for OneSource {
    fn open(&self) -> Result<Option<SourceArray>, LocateError> {
        Ok(self.kept(&Budget::default())?.map(|source| SourceArray::clone(&source)))
    }
}
