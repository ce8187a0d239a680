//! Changes of arrays: attributes, extent, appended rows.
//!
//! Each change takes the node's lock, reads the metadata again, changes it, and writes it back. No
//! change of another handle, thread, process or machine is lost.

use crate::attributes::Attributes;
use crate::document_state::DocumentState;
use crate::json::Json;
use crate::node::{self, NodeKind, StoredNode, ZARR_JSON, ZARRAY, ZATTRS};
use crate::node_lock::{self, NodeLock};
use crate::objects::Beyond;
use crate::path::join;
use crate::{Array, Format, Result, ZarrError, walk};
use hyperslab_array::{
    self as engine, ArrayError, Index, Ragged, ReadOptions, Selection, Source, WriteOptions,
};
use hyperslab_store::fork::Mutex;
use hyperslab_store::{Ask, Key, Mark, Store};
use std::sync::Arc;

/// Objects deleted between two checks of the metadata: as many as a server takes in one request.
const DELETED_AT_ONCE: usize = 1000;

/// An array that an append makes longer.
struct Longer {
    old: Array,
    changed: Array,
    stored: StoredNode,
    /// The first new index.
    first: u64,
    /// The mark of the metadata that reserves the rows.
    mark: Mark,
}

impl Longer {
    /// Removes the reserved rows, unless the array has been changed since.
    ///
    /// `known` means that the rows were certainly reserved.
    ///
    /// Objects stay: others may append to the same chunks from now on. Elements that were written
    /// are overwritten before they become visible.
    fn give_back(&self, lock: &NodeLock<'_>, store: &Arc<dyn Store>, known: bool) -> Result<()> {
        if known && store.facts().checks_chunks {
            // Past the end there are no keys to delete.
            self.old.delete_outside(&self.changed, lock, store, None)?;
        }
        let (path, name) = (self.old.path(), self.old.document_name());
        let (now, state) = lock.read_document(store, path, name, None)?;
        // Without marks, another writer's equal metadata is mistaken for these rows, but only after
        // a resize.
        let same = || known && now.as_ref() == Some(self.changed.to_json());
        if state.is_of(self.mark).unwrap_or_else(same) {
            state.replace(self.old.to_json(), None)?;
        }
        Ok(())
    }
}

impl Array {
    /// Replaces the attributes atomically. The rest of the metadata stays as it is stored now.
    pub fn set_attributes(&mut self, attributes: Json) -> Result<()> {
        self.change_attributes(None, |all| *all = attributes.clone())
    }

    /// Changes the attributes as they are stored now, without losing another writer's change.
    ///
    /// `change` is called again if another writer was faster. `ask` is called while this waits for
    /// others; `true` gives up.
    pub fn change_attributes<R>(
        &mut self,
        ask: Option<Ask<'_>>,
        mut change: impl FnMut(&mut Json) -> R,
    ) -> Result<R> {
        let (store, path) = (self.store().clone(), self.path().to_owned());
        let lock = node_lock::lock(&store, &path, ask)?;
        let name = if self.format() == Format::V2 { ZATTRS } else { ZARR_JSON };
        loop {
            let (mut stored, state) = self.read_as(&lock, &store, name, ask)?;
            let (changed, result) = stored.change_attributes(&store, &path, &mut change)?;
            let now = self.of_stored(&stored)?;
            let document = if stored.format == Format::V2 { now.attributes() } else { &stored.document };
            if !changed || state.replace(document, ask)? {
                self.become_stored(&stored, now);
                return Ok(result);
            }
            self.go_on(ask)?;
        }
    }

    /// Changes the extent without moving data.
    ///
    /// Objects (chunks, shards) that are entirely outside are deleted. Elements that a resize cuts
    /// off never come back. After growing, new elements are fill value, also in objects at the
    /// former edge, and also if the resize that cut them off, or an append, was killed.
    ///
    /// `ask` is called while this waits for others, and before each object; `true` stops the
    /// resize. The array then has the old shape or the new one.
    ///
    /// Before the array grows, objects outside of it are deleted, and outside elements of objects
    /// at its edge are overwritten with the fill value. Then the metadata is replaced. Leftovers of
    /// a killed resize or append, or of other software, therefore never become visible. When the
    /// array shrinks, the metadata is replaced first, then objects are deleted.
    ///
    /// A server has no locks. There the metadata is replaced only if it is unchanged since it was
    /// read, and nothing is deleted once another writer has replaced it.
    pub fn resize(&mut self, shape: &[u64], ask: Option<Ask<'_>>) -> Result<()> {
        let (store, path) = (self.store().clone(), self.path().to_owned());
        let lock = node_lock::lock(&store, &path, ask)?;
        loop {
            let (stored, state) = self.read_as(&lock, &store, self.document_name(), ask)?;
            let old = self.of_stored(&stored)?;
            let (changed, stored) = old.reshaped(shape)?;
            if changed.layout().shape() == old.layout().shape() {
                self.become_stored(&stored, changed);
                return Ok(());
            }
            // Writers store their queued data, and queue nothing until this is done.
            let settled = engine::settle(old.layout(), ask).map_err(ZarrError::from)?;
            if !changed.clear_new(&old, &state, ask)? {
                self.go_on(ask)?;
                continue;
            }
            if store.facts().checks_chunks {
                // Objects past the end exist, but without keys that could delete them.
                changed.delete_outside(&old, &lock, &store, ask)?;
            }
            if !state.replace(changed.to_json(), ask)? {
                self.go_on(ask)?;
                continue;
            }
            if store.facts().checks_chunks {
                let known = lock.unchanged_document(&store, &path, self.document_name());
                let state = match known {
                    Some(state) => state,
                    None => self.read_as(&lock, &store, self.document_name(), ask)?.1,
                };
                changed.clear_new(&old, &state, ask)?;
            }
            settled.note_resize(changed.layout().shape());
            self.become_stored(&stored, changed.clone());
            if store.facts().checks_chunks {
                // Done above.
                return Ok(());
            }
            return changed.delete_outside(&old, &lock, &store, ask);
        }
    }

    /// Makes `axis` longer by `more` and calls `write` to fill the new part.
    ///
    /// `write` gets the array with its new extent, and the first new index. `like` is the shape
    /// that the caller knows. Axes other than `axis` must still have these lengths.
    ///
    /// The metadata is read again before, and replaced afterwards. Each of several appending
    /// writers therefore gets its own rows, and a killed one leaves none.
    ///
    /// If `write` fails, the array is unchanged.
    ///
    /// A server has no locks. There the metadata is replaced before, so readers first see the new
    /// rows without values. If `write` fails, the rows are removed, unless another writer has
    /// appended after them. A killed writer leaves its rows. The same holds for a store that checks
    /// chunks.
    pub fn append_with<E: From<ZarrError>>(
        &mut self,
        axis: usize,
        more: u64,
        like: &[u64],
        ask: Option<Ask<'_>>,
        write: impl FnOnce(&Array, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let (store, path) = (self.store().clone(), self.path().to_owned());
        let lock = node_lock::lock(&store, &path, ask)?;
        // A store that checks chunks refuses new ones before the array has grown.
        let reserves = |state: &DocumentState<'_>| !state.is_locked() || store.facts().checks_chunks;
        let mut tried: Option<Longer> = None;
        let (longer, state) = loop {
            let (stored, state) = self.read_as(&lock, &store, self.document_name(), ask)?;
            // The rows may be reserved although the server refused: a proxy may have sent the
            // request twice.
            if let Some(longer) = tried.take_if(|longer| state.follows(longer.mark)) {
                break (longer, state);
            }
            let longer = self.of_stored(&stored)?.lengthen(axis, more, like)?;
            if more == 0 || !reserves(&state) {
                break (longer, state);
            }
            match state.replace_marked(longer.changed.to_json(), longer.mark, ask) {
                Ok(true) => break (longer, state),
                Ok(false) => tried = Some(longer),
                Err(error) => {
                    // The rows may be reserved or not, and only this writer can give them back.
                    if matches!(error, ZarrError::Store(_)) {
                        let _ = longer.give_back(&lock, &store, false);
                    }
                    return Err(error.into());
                }
            }
            self.go_on(ask)?;
        };
        let Longer { old, changed, stored, first, .. } = &longer;
        // All elements that become visible are written, so no old ones can show.
        if more > 0
            && let Err(error) = write(changed, *first)
        {
            // Report the first error. Elements that stay would be invisible, too.
            let _ = if reserves(&state) {
                longer.give_back(&lock, &store, true)
            } else {
                old.delete_outside(changed, &lock, &store, None)
            };
            return Err(error);
        }
        if more > 0 && !reserves(&state) {
            state.replace(changed.to_json(), ask)?;
        }
        self.become_stored(stored, changed.clone());
        Ok(())
    }

    /// Repairs the stored document before chunks are written.
    ///
    /// Some documents make other readers assume chunks of another shape. This replaces the document
    /// by the intended one. `ask` works as in [`Array::resize`].
    pub fn store_repair(&self, ask: Option<Ask<'_>>) -> Result<()> {
        if !self.metadata().moves_chunks {
            return Ok(());
        }
        let store = self.store().clone();
        let lock = node_lock::lock(&store, self.path(), ask)?;
        loop {
            let (stored, state) = self.read_as(&lock, &store, self.document_name(), ask)?;
            let now = self.of_stored(&stored)?;
            if !now.metadata().moves_chunks || state.replace(now.to_json(), ask)? {
                return Ok(());
            }
            self.go_on(ask)?;
        }
    }

    /// This array with `more` elements along `axis`. On other axes its shape must equal `like`.
    fn lengthen(self, axis: usize, more: u64, like: &[u64]) -> Result<Longer> {
        let shape = self.layout().shape();
        let mut longer = shape.to_vec();
        let Some(extent) = longer.get_mut(axis) else {
            let why = format!("append: there is no axis {axis}; the array has {} axes", shape.len());
            return Err(ZarrError::Invalid { path: self.path().to_owned(), why });
        };
        let first = *extent;
        *extent = first.saturating_add(more);
        let same = |(k, (now, then)): (usize, (&u64, &u64))| k == axis || now == then;
        if like.len() != shape.len() || !shape.iter().zip(like).enumerate().all(same) {
            let array = self.layout().name().to_owned();
            return Err(ArrayError::Shape { array, expected: shape.to_vec(), found: like.to_vec() }.into());
        }
        let (changed, stored) = self.reshaped(&longer)?;
        Ok(Longer { old: self, changed, stored, first, mark: Mark::fresh() })
    }

    /// The array's metadata as it is stored now, and the metadata object that will be replaced.
    fn read_as<'s>(
        &self,
        lock: &NodeLock<'s>,
        store: &'s Arc<dyn Store>,
        name: &str,
        ask: Option<Ask<'_>>,
    ) -> Result<(StoredNode, DocumentState<'s>)> {
        let (stored, state) = lock.read(store, self.path(), self.format(), NodeKind::Array, name, ask)?;
        Ok((stored.ok_or_else(|| self.not_found())?, state))
    }

    /// The array with another extent, not stored yet, and its metadata.
    pub(crate) fn reshaped(&self, shape: &[u64]) -> Result<(Array, StoredNode)> {
        let invalid = |why: String| ZarrError::Invalid { path: self.path().to_owned(), why };
        let old = self.layout().shape();
        if shape.len() != old.len() {
            return Err(invalid(format!(
                "shape: expected {} axes, as the array has, found {}",
                old.len(),
                shape.len()
            )));
        }
        if let Some(n) = shape.iter().find(|n| **n > i64::MAX as u64) {
            return Err(invalid(format!(
                "shape: expected at most 2⁶³ - 1 elements along an axis, found {n}"
            )));
        }
        let mut metadata = self.metadata().as_ref().clone();
        if shape != old {
            metadata.check_shape(shape).map_err(invalid)?;
            metadata.set_shape(shape);
        }
        let stored = StoredNode {
            format: metadata.format,
            kind: NodeKind::Array,
            key: join(self.path(), self.document_name()),
            document: metadata.document,
            attributes: match metadata.attributes {
                Attributes::Alone(attributes) => attributes,
                Attributes::Within(_) => None,
            },
            consolidated: None,
            apart: None,
        };
        let changed = self.of_stored(&stored)?;
        if shape != old {
            // Check before writing: readers must be able to open the array, and to read all of it.
            changed.metadata().check_encodings().map_err(invalid)?;
            node::check_document(&stored.key, &stored.document)?;
        }
        Ok((changed, stored))
    }

    fn document_name(&self) -> &'static str {
        if self.format() == Format::V2 { ZARRAY } else { ZARR_JSON }
    }

    /// Deletes objects past the end along axes that are shorter than in `old`.
    ///
    /// The metadata already has the new shape; nothing is deleted once it changes again.
    fn delete_outside<'s>(
        &self,
        old: &Array,
        lock: &NodeLock<'s>,
        store: &'s Arc<dyn Store>,
        ask: Option<Ask<'_>>,
    ) -> Result<()> {
        let counts = |array: &Array| array.layout().object_grid().counts(array.layout().shape());
        let (before, now) = (counts(old), counts(self));
        let from: Vec<_> =
            before.iter().zip(&now).map(|(before, now)| (before > now).then_some(*now)).collect();
        if from.iter().all(Option::is_none) {
            return Ok(());
        }
        let state = match lock.unchanged_document(store, self.path(), self.document_name()) {
            Some(state) => state,
            None => {
                let (stored, state) = lock.read_document(store, self.path(), self.document_name(), ask)?;
                if stored.as_ref() != Some(self.to_json()) {
                    return Ok(());
                }
                state
            }
        };
        let mut outside = Vec::new();
        self.each_beyond(&Beyond { from, to: before.to_vec() }, ask, &mut |key, _| {
            outside.push(key.as_str().to_owned());
            Ok(())
        })?;
        self.delete_all(&outside, &state, ask).map(drop)
    }

    /// Finds objects that are named like the array's chunks before the array is created.
    ///
    /// On servers, a killed copy leaves such objects.
    pub(crate) fn leftovers(&self, ask: Option<Ask<'_>>) -> Result<Vec<String>> {
        Ok(self.chunk_keys(ask)?.into_iter().map(|(key, _)| key).collect())
    }

    /// Like [`Array::leftovers`], among all keys below the array's path.
    pub(crate) fn chunks_among(&self, keys: &[String]) -> Vec<String> {
        keys.iter().filter(|key| self.is_chunk_key(key)).cloned().collect()
    }

    /// Deletes leftovers before the array is created, so that they are not read as its chunks.
    pub(crate) fn clear_leftovers(&self, keys: &[String], ask: Option<Ask<'_>>) -> Result<()> {
        let store = self.store().clone();
        if keys.is_empty() {
            return Ok(());
        }
        let lock = node_lock::lock(&store, self.path(), ask)?;
        let (there, state) = lock.read_document(&store, self.path(), self.document_name(), ask)?;
        if there.is_none() {
            self.delete_all(keys, &state, ask)?;
        }
        Ok(())
    }

    /// Deletes objects while the metadata is unchanged. Returns `false` once it has changed.
    fn delete_all(&self, keys: &[String], state: &DocumentState<'_>, ask: Option<Ask<'_>>) -> Result<bool> {
        for keys in keys.chunks(DELETED_AT_ONCE) {
            if !state.is_current()? {
                return Ok(false);
            }
            let keys = keys.iter().map(|key| Key::new(key)).collect::<Result<Vec<_>, _>>()?;
            self.store().delete_all(&keys, ask).map_err(walk::interrupted_error)?;
        }
        Ok(true)
    }

    /// Removes everything that growing from `old` to this array would make visible.
    ///
    /// `old` is stored, this array is not yet. Returns `false` once the metadata has changed.
    fn clear_new(&self, old: &Array, state: &DocumentState<'_>, ask: Option<Ask<'_>>) -> Result<bool> {
        let grid = self.layout().object_grid();
        let (before, now) = (old.layout().shape(), self.layout().shape());
        let (counts, inside) = (grid.counts(now), grid.counts(before));
        // Along each growing axis, the first object that is not entirely inside.
        let axes = before.iter().zip(now).enumerate();
        let from = axes.map(|(k, (before, now))| (now > before).then(|| grid.index_of(k, *before))).collect();
        let beyond = Beyond { from, to: counts.to_vec() };
        let (mut outside, mut edges) = (Vec::new(), Vec::new());
        self.each_unexpected(&beyond, ask, &mut |key, object| {
            if object.iter().zip(&inside).all(|(index, count)| index < count) {
                if self.store().exists(key)? {
                    edges.push(object.to_vec());
                }
            } else {
                outside.push(key.as_str().to_owned());
            }
            Ok(())
        })?;
        for object in &edges {
            if !self.write_fill_value(before, object, state, ask)? {
                return Ok(false);
            }
        }
        self.delete_all(&outside, state, ask)
    }

    /// Overwrites the part of an object outside of `extent` with fill value.
    ///
    /// Writes nothing if the part is fill value already. Returns `false` once the metadata has
    /// changed.
    fn write_fill_value(
        &self,
        extent: &[u64],
        object: &[u64],
        state: &DocumentState<'_>,
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        let (layout, grid) = (self.layout(), self.layout().object_grid());
        let starts: Vec<u64> =
            object.iter().enumerate().map(|(axis, index)| grid.start(axis, *index)).collect();
        let ends: Vec<u64> = (starts.iter().zip(&grid.shape_of(object)).zip(layout.shape()))
            .map(|((start, size), extent)| start.saturating_add(*size).min(*extent))
            .collect();
        for (axis, extent) in extent.iter().enumerate() {
            let boxed = starts.iter().zip(&ends).enumerate().map(|(k, (start, end))| {
                let start = if k == axis { (*start).max(*extent) } else { *start };
                // Extents are below 2⁶³.
                Index::Slice { start: Some(start as i64), stop: Some(*end as i64), step: 1 }
            });
            let indices: Vec<Index<'_>> = boxed.collect();
            let selection = Selection::new(layout.name(), layout.shape(), &indices)?;
            if !selection.is_empty() && !self.blank_selection(&selection, state, ask)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn blank_selection(
        &self,
        selection: &Selection,
        state: &DocumentState<'_>,
        ask: Option<Ask<'_>>,
    ) -> Result<bool> {
        let layout = self.layout();
        let reading = ReadOptions { interrupt: ask, ..ReadOptions::default() };
        // Others reserve their rows before they write them. An object that was opened before the
        // metadata was found unchanged therefore holds no rows from others. Rows written later
        // change the object.
        let over = Mutex::new(None);
        let still = || {
            let current = state.is_current();
            let is_current = matches!(current, Ok(true));
            if !is_current {
                *over.lock() = Some(current);
            }
            is_current
        };
        let writing = WriteOptions { interrupt: ask, still: Some(&still), ..WriteOptions::default() };
        let shape = selection.shape();
        let done = if let Some(vlen) = layout.vlen() {
            let ones = vec![1u64; shape.len()];
            let value = self.ragged_fill(vlen.fill(), &ones)?;
            engine::write_ragged(layout, selection, &Arc::new(value), writing)
        } else {
            let fill = layout.fill().bytes();
            let found = engine::read(layout, selection, reading)?;
            if found.as_slice().chunks_exact(fill.len().max(1)).all(|element| element == fill) {
                return Ok(true);
            }
            engine::write(layout, selection, &Source::repeat(fill, &shape), writing)
        };
        let current = over.lock().take();
        match current {
            Some(current) => current,
            None => Ok(done.map(|()| true)?),
        }
    }

    /// The fill value as one element of variable length, with a shape of ones.
    fn ragged_fill(&self, fill: &[u8], ones: &[u64]) -> Result<Ragged> {
        let invalid = || ZarrError::Invalid {
            path: self.path().to_owned(),
            why: "resize: no memory for the fill value".into(),
        };
        let mut value = Ragged::of(ones, std::iter::once(fill)).ok_or_else(invalid)?;
        if let Some(hyperslab_codec::VlenKind::Array(item)) = self.vlen()
            && let Some(end) = value.offsets.last_mut()
        {
            // For arrays as elements, offsets count items.
            *end /= i64::try_from(item.size().max(1)).unwrap_or(1);
        }
        Ok(value)
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
