//! Zarr v2 and v3: metadata and hierarchies.
//!
//! Metadata becomes the engine's [`ArrayLayout`](hyperslab_array::ArrayLayout): shape, element
//! type, chunk grid, codecs, fill value, keys of chunks. [`open`] opens the [`Array`] or [`Group`]
//! at a path. Both create, change and delete nodes too.
//!
//! Metadata is kept as the JSON that was read ([`json`]). A change of attributes or shape replaces
//! that member and rewrites the document atomically. Unknown requirements of a document are refused
//! by name.
//!
//! ```
//! use hyperslab_store::{MemoryStore, Store};
//! use hyperslab_zarr::{Array, ArraySpec, Format, Json, Node, open};
//! use std::sync::Arc;
//!
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
//! let mut spec = ArraySpec::new(Format::V3, &[365, 720, 1440], "f4".parse()?);
//! spec.attributes = Json::parse(br#"{"units": "K"}"#)?;
//! Array::create(store.clone(), "ocean/temperature", spec, false)?;
//!
//! let Node::Group(ocean) = open(&store, "ocean", None)? else { panic!("a group") };
//! let Node::Array(array) = ocean.child("temperature")? else { panic!("an array") };
//! assert_eq!(array.layout().shape(), [365, 720, 1440]);
//! assert_eq!(array.layout().grid().chunk_shape(), [46, 90, 180]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod array;
mod attributes;
mod base64;
mod change;
mod chunk_grid;
mod chunks;
mod concurrency;
mod consolidated;
mod create;
mod document_state;
mod documents;
mod dtypes;
mod enclosing_groups;
mod error;
mod fill;
mod format;
mod group;
mod in_turn;
pub mod json;
mod key_encoding;
mod keys;
mod kinds;
mod message_pack;
mod metadata;
mod metadata_cache;
mod node;
mod node_lock;
mod objects;
mod optional;
mod origin;
mod path;
mod publish;
mod remembered;
mod spec;
mod structure;
#[cfg(test)]
mod testing;
mod vlen;
mod walk;

pub use array::Array;
pub use base64::{decode as from_base64, encode as base64};
pub use chunk_grid::AxisChunks;
pub use consolidated::compare::{Outdated, OutdatedWhat, outdated_members};
pub use create::{Creation, remove};
pub use dtypes::MAX_ELEMENT;
pub use enclosing_groups::EnclosingGroups;
pub use error::{Result, ZarrError};
pub use fill::{fill_from_json, fill_to_json};
pub use format::Format;
pub use group::{Consolidation, Group};
pub use json::{Json, JsonError};
pub use key_encoding::KeyEncoding;
pub use node::{Node, NodeKind, Wanted, open, open_with};
pub use optional::data_type;
pub use path::{check_node_name, join, normalize_path};
pub use publish::{Appended, Published};
pub use spec::{ArraySpec, Choice, IndexLocation};
pub use structure::{Field, FieldKind, Structure};
pub use walk::Listed;
