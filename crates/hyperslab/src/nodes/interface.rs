//! The interface of files, groups and arrays of all formats.
//!
//! Each format implements these traits; [`DataFile`], [`Group`] and [`Array`] hold the
//! implementation and delegate to it. Code above them does not depend on the format. Features of a
//! single format (Zarr's metadata documents, HDF5's chunk index) are reached through that format's
//! own type: [`Array::as_zarr`], [`Array::as_hdf5`], and the same methods of [`Group`].

use crate::copy::{Copied, Copying, Paths};
use crate::nodes::words;
use crate::{Array, DataFile, Dims, Error, Format, Group, Json, Node, NodeKind, Result, zarr};
use hyperslab_array::{self as engine, ArrayLayout, Ragged, ReadOptions, Selection, WriteOptions};
use hyperslab_codec::VlenKind;
use hyperslab_hdf5::{self as hdf5, LinkTarget, NamedDatatype};
use hyperslab_store::{Ask, Store};
use std::any::Any;
use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

/// The target of a name in a file.
#[derive(Clone, Debug)]
pub enum Object {
    /// An array.
    Array(Array),
    /// A group.
    Group(Group),
    /// A committed datatype, and its file.
    Datatype(hdf5::File, NamedDatatype),
}

impl Object {
    /// Converts a node found in an HDF5 file. Fails if the node contradicts itself.
    pub fn of_hdf5(file: &hdf5::File, found: hdf5::Node) -> Result<Object> {
        Ok(match found {
            hdf5::Node::Group(group) => Object::Group(group.into()),
            hdf5::Node::Dataset(dataset) => Object::Array(Array::try_from(dataset)?),
            hdf5::Node::Datatype(datatype) => Object::Datatype(file.clone(), datatype),
        })
    }

    /// Returns the array or group. Fails with [`Error::NodeKind`] for a committed datatype.
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
    /// The path, relative to the group.
    pub path: String,
    /// The kind.
    pub kind: NodeKind,
    /// The object number in the file, if the format has one. Opening by number is faster than by a
    /// long path.
    pub id: Option<u64>,
    /// For Zarr: what the listing found.
    pub listed: Option<zarr::Listed>,
}

/// The meaning of absent chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// They hold fill values. If the user says so, an absent chunk counts as lost.
    MayBeLost,
    /// They mean what the format defines. Nothing is lost.
    Defined,
}

/// The memory order of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultOrder {
    /// Last axis fastest.
    C,
    /// The order in stored chunks: C, or F for any other order.
    AsStored,
    /// The order in the process's settings.
    AsSet,
}

/// An object that holds a whole hierarchy.
pub(crate) trait FileNode: Debug + Send + Sync {
    fn store(&self) -> &Arc<dyn Store>;

    fn key(&self) -> &str;

    fn format(&self) -> Format;

    /// An id that all handles of one open file share, and no other file of the format has.
    fn id(&self) -> usize;

    /// The object at a path without slashes at its ends; `""`: the root group.
    fn object(&self, path: &str) -> Result<Object>;

    /// Returns `true` if the file is being changed.
    fn is_edited(&self) -> bool {
        false
    }

    /// Makes changes permanent, and visible to other programs.
    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// Ends the changes, and closes the file.
    fn finish(&self) -> Result<()> {
        self.close();
        Ok(())
    }

    /// Drops everything that was read and kept. `false`: not possible; open the file again.
    fn forget(&self) -> Result<bool> {
        Ok(false)
    }

    fn close(&self) {
        self.store().close();
    }

    /// The HDF5 file. `None` for other formats.
    fn as_hdf5(&self) -> Option<&hdf5::File> {
        None
    }
}

/// The common interface of arrays and groups. Upcast to [`Any`] for the type of one format.
pub(crate) trait StoredNode: Any + Debug + Send + Sync {
    fn store(&self) -> &Arc<dyn Store>;

    /// The path in the store or file; `""`: the root.
    fn path(&self) -> &str;

    fn format(&self) -> Format;

    /// The file that contains the node; `None`: its metadata is an object of its own.
    fn file(&self) -> Option<DataFile> {
        None
    }

    /// The user's attributes, as a JSON object.
    fn attributes(&self) -> Result<Cow<'_, Json>>;

    /// Replaces the attributes. Only for formats other than Zarr.
    fn set_attributes(&self, _: &Json) -> Result<()> {
        Err(Error::OnlyRead { format: self.format() })
    }
}

/// Implements [`StoredNode`] for a node of a file. Attributes are read on request.
macro_rules! stored_in_file {
    ($node:ty, |$this:ident|
        file: $file:expr, path: $path:expr, attributes: $attributes:expr
        $(, changed: ($hdf5:expr, $address:expr))?
    ) => {
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

            $(
                fn set_attributes(&self, new: &Json) -> Result<()> {
                    let $this = self;
                    crate::formats::hdf5_write::hierarchy::set_attributes($hdf5, $address, new)
                }
            )?
        }
    };
}
pub(crate) use stored_in_file;

/// A node as its format sees it.
#[derive(Clone, Debug)]
pub(crate) enum Inner<Z, R> {
    /// The format that can be written.
    Zarr(Z),
    /// A format that is read, or a part of a file that is being made.
    Read(R),
}

/// Methods that call the method of the same name on the result of `$inner`.
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

/// Methods that [`Array`], [`Group`] and [`Node`] share; `$stored` returns the [`StoredNode`].
macro_rules! node_methods {
    ($node:ident, $stored:ident) => {
        impl $node {
            /// The store.
            pub fn store(&self) -> &Arc<dyn Store> {
                self.$stored().store()
            }

            /// The URL of the store or the file.
            pub fn url(&self) -> String {
                self.file().map_or_else(|| self.store().url(), |file| file.url())
            }

            /// The file that contains the node; `None`: its metadata is an object of its own.
            pub fn file(&self) -> Option<DataFile> {
                self.$stored().file()
            }

            /// The path in the store or file; `""`: the root.
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

            /// The user's attributes, as a JSON object.
            /// For HDF5 they are read now, and references become paths.
            pub fn attributes(&self) -> Result<Cow<'_, Json>> {
                self.$stored().attributes()
            }
        }
    };
    ($node:ident: $zarr:ty, $trait:ident) => {
        node_methods!($node, node);

        impl $node {
            /// The interface that every format implements.
            pub(crate) fn node(&self) -> &dyn $trait {
                match &self.0 {
                    Inner::Zarr(node) => node,
                    Inner::Read(node) => &**node,
                }
            }

            /// The node as Zarr sees it; `None` for other formats.
            pub fn as_zarr(&self) -> Option<&$zarr> {
                match &self.0 {
                    Inner::Zarr(node) => Some(node),
                    Inner::Read(_) => None,
                }
            }

            /// The node as Zarr sees it, for changes. Fails with [`Error::OnlyRead`] for other
            /// formats.
            pub fn as_zarr_mut(&mut self) -> Result<&mut $zarr> {
                match &mut self.0 {
                    Inner::Zarr(node) => Ok(node),
                    Inner::Read(node) => Err(Error::OnlyRead { format: node.format() }),
                }
            }

            /// Replaces the attributes, atomically. In HDF5 they become permanent at the next flush,
            /// and attributes that describe dimensions stay.
            ///
            /// To change only some of the attributes as they are stored now, use `as_zarr_mut`.
            pub fn set_attributes(&mut self, attributes: Json) -> Result<()> {
                match &mut self.0 {
                    Inner::Zarr(node) => Ok(node.set_attributes(attributes)?),
                    Inner::Read(node) => node.set_attributes(&attributes),
                }
            }

            /// The type of one particular format.
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

    /// The object with this name or relative path. Follows links.
    fn object(&self, path: &str) -> Result<Object>;

    /// The object with this [`Below::id`]; `path` is its path in the group.
    fn object_by_id(&self, _: u64, path: &str) -> Result<Object> {
        self.object(path)
    }

    /// The kind of the node with this name or relative path; `None`: there is none.
    fn child_kind(&self, path: &str) -> Result<Option<NodeKind>>;

    /// Opens a node that [`GroupNode::walk`] found, without reading its metadata again.
    fn open_listed(&self, listed: &zarr::Listed) -> Result<Object> {
        self.object(&listed.path)
    }

    /// The names directly below and their targets, in a file that has links.
    fn links(&self) -> Result<Vec<(String, LinkTarget)>> {
        Ok(Vec::new())
    }

    /// The target of a name directly below.
    fn link(&self, name: &str) -> Result<Option<LinkTarget>> {
        Ok(self.links()?.into_iter().find(|(found, _)| found == name).map(|(_, target)| target))
    }

    /// Creates a group. Only for formats other than Zarr, like the next two.
    fn create_group(&self, _name: &str, _attributes: &Json) -> Result<Group> {
        Err(Error::OnlyRead { format: self.format() })
    }

    fn create_array(&self, _name: &str, _spec: &zarr::ArraySpec) -> Result<Array> {
        Err(Error::OnlyRead { format: self.format() })
    }

    fn delete(&self, _name: &str) -> Result<()> {
        Err(Error::OnlyRead { format: self.format() })
    }

    /// Returns `true` if nodes below are found through consolidated metadata.
    fn is_consolidated(&self) -> bool {
        false
    }

    /// The group as stored, if this group came from a copy of its metadata that may be out of date.
    fn as_stored(&self) -> Result<Option<Group>> {
        Ok(None)
    }
}

/// An array. Methods without a comment are documented at [`Array`]'s method of the same name.
pub(crate) trait ArrayNode: StoredNode {
    fn layout(&self) -> &Arc<ArrayLayout>;

    /// Another array that says how a copy of this one is stored.
    fn template(&self) -> Option<&Array> {
        None
    }

    fn dimension_names(&self) -> Result<Option<Vec<Option<String>>>>;

    fn chunks_stored(&self, ask: Option<Ask<'_>>) -> Result<(u64, u64)>;

    /// The indices of the stored objects (chunks or shards). `None`: unknown, any may be stored.
    fn stored_objects(&self, ask: Option<Ask<'_>>) -> Result<Option<Vec<Dims>>>;

    /// The fill value as in the metadata.
    fn fill_value(&self) -> Result<Json>;

    /// The bytes of the fill value; `None`: the metadata does not define one.
    fn fill(&self) -> Option<&[u8]>;

    /// Collects what a copy takes from the array. Fails with [`Error::Copy`] if Zarr cannot express
    /// it.
    fn collect_copied(&self, copying: &mut Copying<'_>) -> Result<Copied>;

    fn has_chunks(&self) -> bool {
        true
    }

    fn outer_chunk_shape(&self) -> &[u64] {
        self.layout().grid().chunk_shape()
    }

    fn shard_shape(&self) -> Option<&[u64]> {
        None
    }

    /// The codecs of a chunk as in the metadata, in encoding order.
    fn codecs(&self) -> Vec<Json> {
        Vec::new()
    }

    fn codec_names(&self) -> Vec<String> {
        Vec::new()
    }

    /// How the elements are stored, in a few words; `None`: each chunk (or shard) is an object.
    fn storage(&self) -> Option<&'static str> {
        None
    }

    fn vlen(&self) -> Option<VlenKind> {
        None
    }

    /// Like [`ArrayNode::vlen`], but `None` if elements can be accessed other than as [`Ragged`].
    fn vlen_only(&self) -> Option<VlenKind> {
        None
    }

    fn type_words(&self) -> String {
        self.vlen().map_or_else(|| words::dtype(self.layout().dtype()), |kind| kind.to_string())
    }

    /// Returns `true` if `other`, the same array opened again, has the same element type.
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

    /// Writes elements of variable length.
    fn write_ragged(
        &self,
        selection: &Selection,
        values: &Arc<Ragged>,
        options: WriteOptions<'_>,
    ) -> Result<()> {
        Ok(engine::write_ragged(self.layout(), selection, values, options)?)
    }

    /// Returns `true` if the array is a part of a file that is being made or changed.
    fn is_writable(&self) -> bool {
        false
    }

    /// Fails if the array cannot be changed.
    fn check_writable(&self) -> Result<()> {
        if self.is_writable() { Ok(()) } else { Err(Error::OnlyRead { format: self.format() }) }
    }

    /// Reads elements of variable length in the form that a copy stores.
    /// Pass each call the same [`Paths`].
    fn read_copied(&self, selection: &Selection, options: ReadOptions<'_>, _: &mut Paths) -> Result<Ragged> {
        self.read_ragged(selection, options)
    }

    /// The text of unwritten elements, if elements are text of any length.
    fn absent_text(&self) -> Result<Option<Vec<u8>>> {
        Ok(self.fill().map(<[u8]>::to_vec))
    }

    /// Returns `true` if reading already checks that text is UTF-8.
    fn checks_text(&self) -> bool {
        false
    }

    /// Returns `true` if absent chunks must be copied.
    /// Their values then differ from the copy's fill value.
    fn copies_absent(&self) -> bool {
        false
    }
}
