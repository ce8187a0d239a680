//! Files: opening one, and finding objects in it.

use crate::group::Group;
use crate::{Dataset, Hdf5Error, Sizes, Source, datatype::Datatype};
use hyperslab_store::Store;
use std::fmt::Debug;
use std::sync::Arc;

/// A store, and the key of a file in it.
pub type FoundFile = (Arc<dyn Store>, String);

/// Opens the files that a file refers to: external links, external raw data, virtual datasets' sources, members of a family.
pub trait OtherFiles: Debug + Send + Sync {
    /// The store and key of the file that is called `name` in this one. `None`: there is no such file. Errors with [`Hdf5Error::Refused`] where policy forbids to look.
    fn find(&self, name: &str) -> Result<Option<FoundFile>, Hdf5Error>;
}

/// How a file is opened.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// Whether checksums of metadata are verified.
    pub verify: bool,
    /// Finds other files; `None`: they are refused.
    pub others: Option<Arc<dyn OtherFiles>>,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions { verify: true, others: None }
    }
}

/// An open file. Cheap to clone; may be used by many threads at once.
#[derive(Clone, Debug)]
pub struct File {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Source,
    verify: bool,
}

impl File {
    /// Opens the object `key` of a store. Errors with [`Hdf5Error::NotHdf5`] where there is no superblock.
    pub fn open(store: Arc<dyn Store>, key: &str, options: FileOptions) -> Result<File, Hdf5Error> {
        let source = Source::new(store, key, 0)?;
        Ok(File { inner: Arc::new(Inner { source, verify: options.verify }) })
    }

    /// Whether the first bytes of a file, or those at 512, 1024, 2048, …, are those of a superblock.
    pub fn is_hdf5(store: &dyn Store, key: &str) -> Result<bool, Hdf5Error> {
        let _ = (store, key);
        Ok(false)
    }

    /// Its bytes.
    pub fn source(&self) -> &Source {
        &self.inner.source
    }

    /// Bytes of addresses and lengths.
    pub fn sizes(&self) -> Sizes {
        Sizes { offset: 8, length: 8 }
    }

    /// Whether checksums of metadata are verified.
    pub fn verify(&self) -> bool {
        self.inner.verify
    }

    /// The root group.
    pub fn root(&self) -> Result<Group, Hdf5Error> {
        Err(self.source().invalid("it has no root group"))
    }

    /// The object at a path from the root; links are followed.
    pub fn node(&self, path: &str) -> Result<Node, Hdf5Error> {
        self.root()?.child(path)
    }

    /// The object whose header is at an address, for references. `path` is what to call it.
    pub fn object_at(&self, address: u64, path: &str) -> Result<Node, Hdf5Error> {
        let _ = (address, path);
        Err(self.source().invalid("there is no object"))
    }

    /// A path to the object whose header is at an address: the first found from the root. `None`: no link leads there.
    pub fn path_of(&self, address: u64) -> Result<Option<String>, Hdf5Error> {
        let _ = address;
        Ok(None)
    }
}

/// What is at a path.
#[derive(Clone, Debug)]
pub enum Node {
    /// A group.
    Group(Group),
    /// A dataset.
    Dataset(Dataset),
    /// A committed datatype.
    Datatype(NamedDatatype),
}

/// A committed datatype.
#[derive(Clone, Debug)]
pub struct NamedDatatype {
    /// The type.
    pub datatype: Arc<Datatype>,
    /// Its path.
    pub path: String,
    /// Its attributes.
    pub attributes: Vec<crate::Attribute>,
}
