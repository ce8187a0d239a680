//! What is asked of a file, a group or an array, whatever its format is.
//!
//! A format implements these traits; [`DataFile`], [`Group`] and [`Array`] hold it and pass the
//! questions on. Nothing above them asks which format it is. What only one format has (the metadata
//! documents of Zarr, the chunk index of HDF5) is reached through that format's own type:
//! [`Array::as_zarr`], [`Array::as_hdf5`], and the same of [`Group`].

use crate::copy::{Copied, Copying, Paths};
use crate::{Array, DataFile, Dims, Error, Format, Group, Json, Node, NodeKind, Result, words, zarr};
use hyperslab_array::{self as engine, ArrayLayout, Ragged, ReadOptions, Selection};
use hyperslab_codec::VlenKind;
use hyperslab_hdf5::{self as hdf5, LinkTarget, NamedDatatype};
use hyperslab_store::{Ask, Store};
use std::any::Any;
use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

/// What a name in a file leads to.
#[derive(Clone, Debug)]
pub enum Object {
    /// An array.
    Array(Array),
    /// A group.
    Group(Group),
    /// A committed datatype, and the file that it is in.
    Datatype(hdf5::File, NamedDatatype),
}

impl Object {
    /// What was found in a file of HDF5. Errors where that contradicts itself.
    pub fn of_hdf5(file: &hdf5::File, found: hdf5::Node) -> Result<Object> {
        Ok(match found {
            hdf5::Node::Group(group) => Object::Group(group.into()),
            hdf5::Node::Dataset(dataset) => Object::Array(Array::try_from(dataset)?),
            hdf5::Node::Datatype(datatype) => Object::Datatype(file.clone(), datatype),
        })
    }

    /// The array or group. Errors with [`Error::NodeKind`] for a committed datatype.
    pub fn into_node(self) -> Result<Node> {
        match self {
            Object::Array(array) => Ok(Node::Array(array)),
            Object::Group(group) => Ok(Node::Group(group)),
            Object::Datatype(file, datatype) => Err(Error::NodeKind {
                name: format!("/{}", datatype.path),
                url: DataFile::from(file).url(),
                found: "a committed datatype",
                wanted: "an array or group",
            }),
        }
    }
}

impl From<Node> for Object {
    fn from(node: Node) -> Self {
        match node {
            Node::Array(array) => Object::Array(array),
            Node::Group(group) => Object::Group(group),
        }
    }
}

/// A node below a group.
#[derive(Clone, Debug)]
pub struct Below {
    /// Its path, relative to the group.
    pub path: String,
    /// What it is.
    pub kind: NodeKind,
    /// Its number in the file, if the format has such numbers. Opening by number is quicker than
    /// by a long path.
    pub id: Option<u64>,
    /// Of Zarr: what the listing found.
    pub listed: Option<zarr::Listed>,
}

/// What an array holds in chunks that are not stored, and how much that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Fill values. A chunk that is not stored may be a loss, if the user says so.
    MayBeLost,
    /// What the format says. Nothing is lost.
    Defined,
}

/// The order in memory of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultOrder {
    /// Last axis fastest.
    C,
    /// That of the elements in stored chunks: C, or F for any other.
    AsStored,
    /// That of the process's settings.
    AsSet,
}

/// An object that holds a whole hierarchy.
pub(crate) trait FileNode: Debug + Send + Sync {
    fn store(&self) -> &Arc<dyn Store>;

    fn key(&self) -> &str;

    fn format(&self) -> Format;

    /// Equal for handles of one open file, and for no others of the format.
    fn id(&self) -> usize;

    /// What is at a path without slashes around it; `""`: the root group.
    fn object(&self, path: &str) -> Result<Object>;

    /// Drops what is kept of what was read. `false`: that cannot be done; open the file anew.
    fn forget(&self) -> Result<bool> {
        Ok(false)
    }

    fn close(&self) {
        self.store().close();
    }
}

/// What arrays and groups have in common. Upcast to [`Any`] for the type that one format alone has.
pub(crate) trait StoredNode: Any + Debug + Send + Sync {
    fn store(&self) -> &Arc<dyn Store>;

    /// The path in the store, or in the file; `""` for the root.
    fn path(&self) -> &str;

    fn format(&self) -> Format;

    /// The file that it is in; `None`: its metadata is an object of its own.
    fn file(&self) -> Option<DataFile> {
        None
    }

    /// The user's attributes, an object.
    fn attributes(&self) -> Result<Cow<'_, Json>>;
}

/// Implements [`StoredNode`] for a node of a file. Attributes are read when somebody asks.
macro_rules! stored_in_file {
    ($node:ty, |$this:ident| file: $file:expr, path: $path:expr, attributes: $attributes:expr) => {
        impl StoredNode for $node {
            fn store(&self) -> &Arc<dyn Store> {
                let $this = self;
                FileNode::store($file)
            }

            #[allow(unused_variables, reason = "the root of a file has a constant path")]
            fn path(&self) -> &str {
                let $this = self;
                $path
            }

            fn format(&self) -> Format {
                let $this = self;
                FileNode::format($file)
            }

            fn file(&self) -> Option<DataFile> {
                let $this = self;
                Some($file.clone().into())
            }

            fn attributes(&self) -> Result<Cow<'_, Json>> {
                let $this = self;
                Ok(Cow::Owned($attributes))
            }
        }
    };
}
pub(crate) use stored_in_file;

/// A node as its format sees it.
#[derive(Clone, Debug)]
pub(crate) enum Inner<Z, R> {
    /// The format that is written.
    Zarr(Z),
    /// A format that is only read.
    Read(R),
}

/// Methods that ask the result of `$inner` by the same name.
macro_rules! passed_on {
    (to $inner:ident: $($(#[$doc:meta])* $vis:vis fn $name:ident(&self) -> $answer:ty;)*) => {
        $(
            $(#[$doc])*
            $vis fn $name(&self) -> $answer {
                self.$inner().$name()
            }
        )*
    };
}
pub(crate) use passed_on;

/// What [`Array`], [`Group`] and [`Node`] answer in the same way; `$stored` gives the [`StoredNode`].
macro_rules! node_methods {
    ($node:ident, $stored:ident) => {
        impl $node {
            /// The store.
            pub fn store(&self) -> &Arc<dyn Store> {
                self.$stored().store()
            }

            /// Where the store is, or the file.
            pub fn url(&self) -> String {
                self.file().map_or_else(|| self.store().url(), |file| file.url())
            }

            /// The file that it is in; `None`: its metadata is an object of its own.
            pub fn file(&self) -> Option<DataFile> {
                self.$stored().file()
            }

            /// The path in the store, or in the file; `""` for the root.
            pub fn path(&self) -> &str {
                self.$stored().path()
            }

            /// `/` and the path.
            pub fn name(&self) -> String {
                format!("/{}", self.path())
            }

            /// The format.
            pub fn format(&self) -> Format {
                self.$stored().format()
            }

            /// The user's attributes, an object. (HDF5's are read now; references are paths.)
            pub fn attributes(&self) -> Result<Cow<'_, Json>> {
                self.$stored().attributes()
            }
        }
    };
    ($node:ident: $zarr:ty, $trait:ident) => {
        node_methods!($node, node);

        impl $node {
            /// What every format answers.
            pub(crate) fn node(&self) -> &dyn $trait {
                match &self.0 {
                    Inner::Zarr(node) => node,
                    Inner::Read(node) => &**node,
                }
            }

            /// As Zarr sees it; `None`: it is of another format.
            pub fn as_zarr(&self) -> Option<&$zarr> {
                match &self.0 {
                    Inner::Zarr(node) => Some(node),
                    Inner::Read(_) => None,
                }
            }

            /// As Zarr sees it, to be changed. Errors with [`Error::OnlyRead`] for other formats.
            pub fn as_zarr_mut(&mut self) -> Result<&mut $zarr> {
                match &mut self.0 {
                    Inner::Zarr(node) => Ok(node),
                    Inner::Read(node) => Err(Error::OnlyRead { format: node.format() }),
                }
            }

            /// Replaces the attributes, atomically. (To change some of them as they are stored now:
            /// `as_zarr_mut`.)
            pub fn set_attributes(&mut self, attributes: Json) -> Result<()> {
                Ok(self.as_zarr_mut()?.set_attributes(attributes)?)
            }

            /// The type that one format alone has.
            fn downcast<T: 'static>(&self) -> Option<&T> {
                let node: &dyn std::any::Any = self.node();
                node.downcast_ref()
            }
        }

        impl From<$zarr> for $node {
            fn from(node: $zarr) -> Self {
                $node(Inner::Zarr(node))
            }
        }
    };
}
pub(crate) use node_methods;

/// A group.
pub(crate) trait GroupNode: StoredNode {
    fn walk(&self, max_depth: Option<usize>, ask: Option<Ask<'_>>) -> Result<Vec<Below>>;

    /// What has this name or relative path. Links are followed.
    fn object(&self, path: &str) -> Result<Object>;

    /// What has this [`Below::id`]; `path` is its path in the group.
    fn object_by_id(&self, _: u64, path: &str) -> Result<Object> {
        self.object(path)
    }

    /// The kind of what has this name or relative path; `None`: there is nothing.
    fn child_kind(&self, path: &str) -> Result<Option<NodeKind>>;

    /// What [`GroupNode::walk`] has found, without reading its metadata again.
    fn open_listed(&self, listed: &zarr::Listed) -> Result<Object> {
        self.object(&listed.path)
    }

    /// Names directly below and where they lead, in a file that has links.
    fn links(&self) -> Result<Vec<(String, LinkTarget)>> {
        Ok(Vec::new())
    }

    /// Where a name directly below leads.
    fn link(&self, name: &str) -> Result<Option<LinkTarget>> {
        Ok(self.links()?.into_iter().find(|(found, _)| found == name).map(|(_, target)| target))
    }

    /// Whether nodes below are found in consolidated metadata.
    fn is_consolidated(&self) -> bool {
        false
    }

    /// The group as it is stored, if it came from a copy of its metadata, which may be out of date.
    fn as_stored(&self) -> Result<Option<Group>> {
        Ok(None)
    }
}

/// An array. A method without a comment is documented at [`Array`]'s method of the same name.
pub(crate) trait ArrayNode: StoredNode {
    fn layout(&self) -> &Arc<ArrayLayout>;

    fn dimension_names(&self) -> Result<Option<Vec<Option<String>>>>;

    fn chunks_stored(&self, ask: Option<Ask<'_>>) -> Result<(u64, u64)>;

    /// The indices of the objects (chunks, or shards) that are stored. `None`: not known, any may
    /// be.
    fn stored_objects(&self, ask: Option<Ask<'_>>) -> Result<Option<Vec<Dims>>>;

    /// The fill value as metadata has it.
    fn fill_value(&self) -> Result<Json>;

    /// The bytes of the fill value; `None`: metadata leaves it open.
    fn fill(&self) -> Option<&[u8]>;

    /// What a copy takes over. Errors with [`Error::Copy`] where Zarr has no such array.
    fn copied(&self, copying: &mut Copying<'_>) -> Result<Copied>;

    fn has_chunks(&self) -> bool {
        true
    }

    fn outer_chunk_shape(&self) -> &[u64] {
        self.layout().grid().chunk_shape()
    }

    fn shard_shape(&self) -> Option<&[u64]> {
        None
    }

    /// The codecs of a chunk as metadata has them, in the order of encoding.
    fn codecs(&self) -> Vec<Json> {
        Vec::new()
    }

    fn codec_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// Where the elements are, in a few words; `None`: each chunk (or shard) is an object.
    fn storage(&self) -> Option<&'static str> {
        None
    }

    fn vlen(&self) -> Option<VlenKind> {
        None
    }

    /// As [`ArrayNode::vlen`], if elements can be read and written as [`Ragged`] only.
    fn vlen_only(&self) -> Option<VlenKind> {
        None
    }

    fn type_words(&self) -> String {
        self.vlen().map_or_else(|| words::dtype(self.layout().dtype()), |kind| kind.to_string())
    }

    /// Whether `other`, the same array opened again, has elements of the same type.
    fn has_elements_of(&self, other: &Array) -> bool {
        self.layout().dtype() == other.dtype()
    }

    fn missing(&self) -> Missing {
        Missing::Defined
    }

    fn result_order(&self) -> ResultOrder {
        ResultOrder::C
    }

    /// Reads elements of variable length.
    fn read_ragged(&self, selection: &Selection, options: ReadOptions<'_>) -> Result<Ragged> {
        Ok(engine::read_ragged(self.layout(), selection, options)?)
    }

    /// Reads what a copy stores of elements of variable length. Pass each call the same [`Paths`].
    fn read_copied(&self, selection: &Selection, options: ReadOptions<'_>, _: &mut Paths) -> Result<Ragged> {
        self.read_ragged(selection, options)
    }

    /// The text of unwritten elements, if elements are text of any length.
    fn absent_text(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.fill().map(<[u8]>::to_vec))
    }

    /// Whether text that was read was checked to be UTF-8.
    fn checks_text(&self) -> bool {
        false
    }

    /// Whether missing chunks hold values other than the fill value of a copy, and so are copied.
    fn copies_absent(&self) -> bool {
        false
    }
}
