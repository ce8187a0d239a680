//! Appended rows of several arrays become visible at once, to readers of consolidated metadata.
//!
//! A writer appends to each array with [`Array::append_with`], one call inside the other. Inside the
//! innermost call, when all rows are stored, it calls [`Group::publish`]: one document is replaced, and
//! it has the new shapes of all arrays. Only then the arrays' own documents are replaced, under locks
//! that exclude other writers of this machine.
//!
//! A writer that is killed after it has published leaves own documents that are behind.
//! [`Group::catch_up`] replaces them. The consolidated metadata shows all committed rows.
//!
//! A server has no locks. There the own documents come first, because they reserve rows. A writer
//! publishes when all rows before its own are published: others may not have written theirs yet.

use crate::consolidated::MEMBER;
use crate::error::{Result, ZarrError};
use crate::json::Json;
use crate::node::{self, ZARR_JSON, ZARRAY, ZMETADATA};
use crate::path::join;
use crate::{Array, Format, Group, node_lock, walk};
use hyperslab_store::Ask;

/// Rows that were appended to an array below a group.
#[derive(Clone, Debug)]
pub struct Appended {
    /// The path of the array, relative to the group.
    pub path: String,
    /// The axis that has got longer.
    pub axis: usize,
    /// The first new index along this axis.
    pub first: u64,
    /// The array with the new rows.
    pub longer: Array,
}

/// The outcome of [`Group::publish`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// The consolidated metadata shows the rows.
    Done,
    /// The group has no consolidated metadata.
    NotConsolidated,
    /// Another writer has reserved rows before ours, and has not published them. This is the path of the
    /// array, relative to the group.
    Waits(String),
}

impl Group {
    /// Replaces the consolidated metadata that is stored with this group, so that it shows rows that were
    /// appended.
    ///
    /// Call this inside [`Array::append_with`] of all arrays, when all rows are stored.
    pub fn publish(&self, appended: &[Appended], ask: Option<Ask<'_>>) -> Result<Published> {
        let store = self.store().clone();
        let lock = node_lock::lock(&store, self.path(), ask)?;
        loop {
            walk::check(ask)?;
            let (document, state) = lock.read_document(&store, self.path(), self.holder(), ask)?;
            let Some(mut document) = document else { return Ok(Published::NotConsolidated) };
            let Some(nodes) = nodes(&mut document, self.format()) else {
                return Ok(Published::NotConsolidated);
            };
            for each in appended {
                let entry = self.entry(nodes, &each.path)?;
                let shown = extent(entry, each.axis);
                if shown > Some(each.first) {
                    return Err(self.invalid(format!(
                        "the consolidated metadata shows more rows of '{}' than the array has, {}: somebody has \
                         resized it. Call consolidate_metadata",
                        each.path, each.first
                    )));
                }
                if shown < Some(each.first) && !state.is_locked() {
                    return Ok(Published::Waits(each.path.clone()));
                }
                *entry = each.longer.to_json().clone();
            }
            if state.replace(&document, ask)? {
                return Ok(Published::Done);
            }
        }
    }

    /// Returns whether another writer has reserved rows before `first`, and has not published them.
    ///
    /// A writer on a server waits for them before it appends to the next array. Two writers that reserve
    /// rows of two arrays would otherwise wait for each other.
    pub fn has_unpublished(&self, path: &str, axis: usize, first: u64, ask: Option<Ask<'_>>) -> Result<bool> {
        let store = self.store().clone();
        let lock = node_lock::lock(&store, self.path(), ask)?;
        let (document, state) = lock.read_document(&store, self.path(), self.holder(), ask)?;
        let Some(mut document) = document.filter(|_| !state.is_locked()) else { return Ok(false) };
        let Some(nodes) = nodes(&mut document, self.format()) else { return Ok(false) };
        Ok(extent(self.entry(nodes, path)?, axis) < Some(first))
    }

    /// Makes an array as long as the consolidated metadata of this group says, if a killed writer has
    /// published rows and no more. `path` is relative to the group.
    ///
    /// Does nothing on servers, and without consolidated metadata.
    pub fn catch_up(&self, path: &str, axis: usize, ask: Option<Ask<'_>>) -> Result<()> {
        let store = self.store().clone();
        let place = join(self.path(), path);
        let lock = node_lock::lock(&store, &place, ask)?;
        let name = if self.format() == Format::V2 { ZARRAY } else { ZARR_JSON };
        let Some(state) = lock.unchanged_document(&store, &place, name) else { return Ok(()) };
        // Writers that publish hold the lock of the array, so both lengths belong together.
        let key = join(self.path(), self.holder());
        let Some(mut document) = node::read_document(&store, &key)? else { return Ok(()) };
        let Some(nodes) = nodes(&mut document, self.format()) else { return Ok(()) };
        let shown = extent(self.entry(nodes, path)?, axis).unwrap_or(0);
        let array = Array::open(&store, &place, Some(self.format()))?;
        let mut shape = array.layout().shape().to_vec();
        let Some(extent) = shape.get_mut(axis).filter(|extent| **extent < shown) else { return Ok(()) };
        *extent = shown;
        let (longer, _) = array.reshaped(&shape)?;
        state.replace(longer.to_json(), ask).map(drop)
    }

    /// The name of the document that has the consolidated metadata.
    fn holder(&self) -> &'static str {
        if self.format() == Format::V3 { ZARR_JSON } else { ZMETADATA }
    }

    fn entry<'d>(&self, nodes: &'d mut Json, path: &str) -> Result<&'d mut Json> {
        let name = if self.format() == Format::V3 { path.to_owned() } else { join(path, ZARRAY) };
        nodes.get_mut(&name).ok_or_else(|| {
            self.invalid(format!(
                "the consolidated metadata has no array '{path}'. Call consolidate_metadata"
            ))
        })
    }

    fn invalid(&self, why: String) -> ZarrError {
        ZarrError::Consolidated { path: self.path().to_owned(), why }
    }
}

/// The nodes in a document with consolidated metadata.
fn nodes(document: &mut Json, format: Format) -> Option<&mut Json> {
    match format {
        Format::V3 => document.get_mut(MEMBER)?.get_mut("metadata"),
        Format::V2 => document.get_mut("metadata"),
    }
}

/// The length of an axis of the array that a document describes.
fn extent(document: &Json, axis: usize) -> Option<u64> {
    document.get("shape")?.as_array()?.get(axis)?.as_integer()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, Consolidation};
    use hyperslab_array::{Index, Selection, Source, WriteOptions};
    use hyperslab_store::{LocalOptions, LocalStore, MemoryStore, Store};
    use std::sync::Arc;

    fn write(array: &Array, first: u64, value: i32) -> Result<()> {
        let (layout, rows) = (array.layout(), array.layout().shape()[0] - first);
        let index = Index::range(first.cast_signed(), (first + rows).cast_signed());
        let selection = Selection::new(layout.name(), layout.shape(), &[index])?;
        let bytes = value.to_le_bytes();
        let source = Source::repeat(&bytes, &[rows]);
        Ok(hyperslab_array::write(layout, &selection, &source, WriteOptions::default())?)
    }

    fn group(store: &Arc<dyn Store>, format: Format) -> Group {
        let mut group = Group::create(store.clone(), "g", format, Json::object(), false).unwrap();
        for name in ["a", "x/b"] {
            let mut spec = ArraySpec::new(format, &[4], "<i4".parse().unwrap());
            spec.chunks = Some([3].as_slice().into());
            Array::create(store.clone(), &join("g", name), spec, false).unwrap();
        }
        group.consolidate(None).unwrap();
        group
    }

    fn own(store: &Arc<dyn Store>, name: &str) -> u64 {
        Array::open(store, &join("g", name), None).unwrap().layout().shape()[0]
    }

    /// The lengths that readers of consolidated metadata see.
    fn shown(store: &Arc<dyn Store>) -> [u64; 2] {
        let group = Group::open(store, "g", None, Consolidation::Require).unwrap();
        ["a", "x/b"].map(|name| match group.child(name).unwrap() {
            crate::Node::Array(array) => array.layout().shape()[0],
            crate::Node::Group(_) => panic!("{name} is a group"),
        })
    }

    /// Appends two rows to both arrays. `stop` is called where a writer may be killed.
    fn append(store: &Arc<dyn Store>, group: &Group, stop: &dyn Fn(&str) -> Result<()>) -> Result<Published> {
        let open = |name: &str| Array::open(store, &join("g", name), None);
        let (mut a, mut b) = (open("a")?, open("x/b")?);
        let mut published = Published::NotConsolidated;
        a.append_with(0, 2, &[0], None, |a, first| {
            write(a, first, 1)?;
            stop("between")?;
            let appended = |path: &str, first, longer: &Array| Appended {
                path: path.into(),
                axis: 0,
                first,
                longer: longer.clone(),
            };
            b.append_with(0, 2, &[0], None, |b, first_b| {
                write(b, first_b, 2)?;
                stop("before")?;
                assert!(!group.has_unpublished("a", 0, first, None)?);
                published = group.publish(&[appended("a", first, a), appended("x/b", first_b, b)], None)?;
                stop("after")
            })
        })?;
        Ok(published)
    }

    fn stores() -> Vec<(Arc<dyn Store>, Option<tempfile::TempDir>)> {
        let folder = tempfile::tempdir().unwrap();
        let local: Arc<dyn Store> =
            Arc::new(LocalStore::open(folder.path(), LocalOptions::default()).unwrap());
        vec![(Arc::new(MemoryStore::new()), None), (local, Some(folder))]
    }

    #[test]
    fn all_arrays_get_longer_at_once() {
        let of = |format: Format| stores().into_iter().map(move |(store, folder)| (store, folder, format));
        for (store, _folder, format) in of(Format::V3).chain(of(Format::V2)) {
            let group = group(&store, format);
            for n in 1..3 {
                let seen = |at: &str| {
                    let rows = if at == "after" { 4 + 2 * n } else { 2 + 2 * n };
                    assert_eq!(shown(&store), [rows; 2], "{at}");
                    Ok(())
                };
                assert_eq!(append(&store, &group, &seen).unwrap(), Published::Done);
                assert_eq!(
                    (shown(&store), own(&store, "a"), own(&store, "x/b")),
                    ([4 + 2 * n; 2], 4 + 2 * n, 4 + 2 * n)
                );
            }
        }
    }

    #[test]
    fn errors_leave_nothing() {
        let (store, _folder) = stores().pop().unwrap();
        let group = group(&store, Format::V3);
        for stop in ["between", "before"] {
            append(&store, &group, &|at| if at == stop { Err(ZarrError::Interrupted) } else { Ok(()) })
                .unwrap_err();
            assert_eq!((shown(&store), own(&store, "a"), own(&store, "x/b")), ([4; 2], 4, 4));
        }
        assert_eq!(append(&store, &group, &|_| Ok(())).unwrap(), Published::Done);
        assert_eq!(shown(&store), [6; 2]);
    }

    #[test]
    fn own_documents_catch_up() {
        let (store, _folder) = stores().pop().unwrap();
        let group = group(&store, Format::V3);
        // As if killed between: the own documents are not replaced.
        append(&store, &group, &|at| if at == "after" { Err(ZarrError::Interrupted) } else { Ok(()) })
            .unwrap_err();
        assert_eq!((shown(&store), own(&store, "a"), own(&store, "x/b")), ([6; 2], 4, 4));
        assert!(
            append(&store, &group, &|_| Ok(())).unwrap_err().to_string().contains("shows more rows of 'a'")
        );
        for name in ["a", "x/b"] {
            group.catch_up(name, 0, None).unwrap();
            assert_eq!(own(&store, name), 6);
        }
        append(&store, &group, &|_| Ok(())).unwrap();
        assert_eq!((shown(&store), own(&store, "a")), ([8; 2], 8));
    }

    #[test]
    fn other_changes_of_the_document_stay() {
        let (store, _folder) = stores().pop().unwrap();
        let mut group = group(&store, Format::V3);
        let other = group.clone();
        group.set_attributes(Json::from([("n", 1u32.into())])).unwrap();
        append(&store, &other, &|_| Ok(())).unwrap();
        let now = Group::open(&store, "g", None, Consolidation::Require).unwrap();
        assert_eq!(now.attributes().get("n"), Some(&1u32.into()));
        assert_eq!(shown(&store), [6; 2]);
    }
}
