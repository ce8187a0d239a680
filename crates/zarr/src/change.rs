//! Changes of arrays: attributes, extent, rows behind the last.
//!
//! Each change takes the lock of the node, reads the metadata again, changes it, and puts it back.
//! So no change of another handle, thread or process is lost.

use crate::json::Json;
use crate::locked;
use crate::node::{self, NodeKind, StoredNode, ZARR_JSON, ZARRAY, ZATTRS};
use crate::objects::Beyond;
use crate::path::join;
use crate::{Array, Format, Result, ZarrError};
use hyperslab_array::{
    self as engine, ArrayError, Index, Ragged, ReadOptions, Selection, Source, WriteOptions,
};
use hyperslab_store::Ask;
use std::sync::Arc;

impl Array {
    /// Replaces the attributes, atomically. What else the metadata says is kept as it is stored
    /// now.
    pub fn set_attributes(&mut self, attributes: Json) -> Result<()> {
        self.change_attributes(None, |all| *all = attributes)
    }

    /// Changes the attributes as they are stored now: nobody else's change is lost. `ask` is asked
    /// while this waits for others; `true` gives up.
    pub fn change_attributes<R>(
        &mut self,
        ask: Option<Ask<'_>>,
        change: impl FnOnce(&mut Json) -> R,
    ) -> Result<R> {
        let (store, path) = (self.store().clone(), self.path().to_owned());
        let _lock = locked::lock(&store, &path, ask)?;
        let mut stored = self.read()?;
        let (attributes, changed, result) = stored.changed_attributes(&store, &path, change)?;
        match stored.format {
            Format::V2 => stored.attributes = Some(attributes.clone()),
            Format::V3 if changed => stored.document.set("attributes", attributes.clone()),
            Format::V3 => {}
        }
        let now = self.of_stored(&stored)?;
        if changed {
            match stored.format {
                Format::V2 => node::write_document(&store, &join(&path, ZATTRS), &attributes)?,
                Format::V3 => node::write_document(&store, &join(&path, ZARR_JSON), &stored.document)?,
            }
        }
        self.become_stored(&stored, now);
        Ok(result)
    }

    /// Changes the extent. No data moves. Objects (chunks, shards) that are wholly outside are
    /// deleted. What a resize cuts off never comes back: after growing, new elements are fill
    /// value, also in objects at the former edge, and also if the resize that cut them off, or an
    /// append, was killed.
    ///
    /// `ask` is asked while this waits for others, and before each object; `true` stops it. Then
    /// the array has the old shape or the new one.
    ///
    /// Before the array grows, objects outside of it are deleted, and elements outside of it in
    /// objects at its edge are overwritten with the fill value; then the metadata is replaced. So
    /// leftovers of a killed resize or append, or of other software, never become visible. When the
    /// array shrinks, the metadata is replaced first, then objects are deleted.
    pub fn resize(&mut self, shape: &[u64], ask: Option<Ask<'_>>) -> Result<()> {
        let (store, path) = (self.store().clone(), self.path().to_owned());
        let _lock = locked::lock(&store, &path, ask)?;
        let old = self.of_stored(&self.read()?)?;
        let (changed, stored) = old.reshaped(shape)?;
        if changed.layout().shape() == old.layout().shape() {
            self.become_stored(&stored, changed);
            return Ok(());
        }
        // Writers store what they have queued. Until the end they queue nothing.
        let settled = engine::settle(old.layout(), ask).map_err(ZarrError::from)?;
        changed.clear_new(&old, ask)?;
        changed.write_document()?;
        settled.resized(changed.layout().shape());
        self.become_stored(&stored, changed.clone());
        changed.delete_outside(&old, ask)
    }

    /// Makes `axis` longer by `more` and lets `write` write there: it gets the array with its new
    /// extent, and the first new index. The metadata is read again before and replaced afterwards,
    /// so that each of several writers that append gets rows of its own, and a killed one leaves
    /// none. `like` is the shape that the caller knows; axes other than `axis` must still have it.
    ///
    /// If `write` fails, the array is as it was.
    pub fn append_with<E: From<ZarrError>>(
        &mut self,
        axis: usize,
        more: u64,
        like: &[u64],
        ask: Option<Ask<'_>>,
        write: impl FnOnce(&Array, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let (store, path) = (self.store().clone(), self.path().to_owned());
        let _lock = locked::lock(&store, &path, ask)?;
        let old = self.of_stored(&self.read()?)?;
        let shape = old.layout().shape();
        let mut longer = shape.to_vec();
        let Some(extent) = longer.get_mut(axis) else {
            let why = format!("append: there is no axis {axis}; the array has {}", shape.len());
            return Err(ZarrError::Invalid { path, why }.into());
        };
        let first = *extent;
        *extent = first.saturating_add(more);
        let same = |(k, (now, then)): (usize, (&u64, &u64))| k == axis || now == then;
        if like.len() != shape.len() || !shape.iter().zip(like).enumerate().all(same) {
            let array = old.layout().name().to_owned();
            let error = ArrayError::Shape { array, expected: shape.to_vec(), found: like.to_vec() };
            return Err(ZarrError::from(error).into());
        }
        let (changed, stored) = old.reshaped(&longer)?;
        if more > 0 {
            // All elements that come into view are written: nothing that was there before can show.
            if let Err(error) = write(&changed, first) {
                // The first error is the one to report. What stays would be invisible, too.
                let _ = old.delete_outside(&changed, None);
                return Err(error);
            }
            changed.write_document()?;
        }
        self.become_stored(&stored, changed);
        Ok(())
    }

    /// The array with another extent, not stored yet, and its metadata.
    pub(crate) fn reshaped(&self, shape: &[u64]) -> Result<(Array, StoredNode)> {
        let invalid = |why: String| ZarrError::Invalid { path: self.path().to_owned(), why };
        let old = self.layout().shape();
        if shape.len() != old.len() {
            return Err(invalid(format!("the new shape has {} axes, the array {}", shape.len(), old.len())));
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
            attributes: Some(metadata.attributes),
            consolidated: None,
        };
        Ok((self.of_stored(&stored)?, stored))
    }

    fn document_name(&self) -> &'static str {
        if self.format() == Format::V2 { ZARRAY } else { ZARR_JSON }
    }

    fn write_document(&self) -> Result<()> {
        node::write_document(self.store(), &join(self.path(), self.document_name()), self.to_json())
    }

    /// Deletes objects along axes that are shorter than in `old`, beyond their end.
    fn delete_outside(&self, old: &Array, ask: Option<Ask<'_>>) -> Result<()> {
        let counts = |array: &Array| array.layout().object_grid().counts(array.layout().shape());
        let (before, now) = (counts(old), counts(self));
        let from = before.iter().zip(&now).map(|(before, now)| (before > now).then_some(*now)).collect();
        let beyond = Beyond { from, to: before.to_vec() };
        self.each_beyond(&beyond, ask, &mut |key, _| {
            self.store().delete(key)?;
            Ok(())
        })
    }

    /// Removes all that would come into view by growing from `old`, which is stored, to this array,
    /// which is not yet.
    fn clear_new(&self, old: &Array, ask: Option<Ask<'_>>) -> Result<()> {
        let grid = self.layout().object_grid();
        let (before, now) = (old.layout().shape(), self.layout().shape());
        let (counts, inside) = (grid.counts(now), grid.counts(before));
        // The first object along each axis that grows that is not wholly inside.
        let axes = before.iter().zip(now).enumerate();
        let from = axes.map(|(k, (before, now))| (now > before).then(|| grid.index_of(k, *before))).collect();
        let beyond = Beyond { from, to: counts.to_vec() };
        self.each_beyond(&beyond, ask, &mut |key, object| {
            if object.iter().zip(&inside).all(|(index, count)| index < count) {
                if self.store().exists(key)? {
                    self.blank(before, object, ask)?;
                }
            } else {
                self.store().delete(key)?;
            }
            Ok(())
        })
    }

    /// Overwrites what lies in an object and beyond an extent with fill value, unless it is that.
    fn blank(&self, extent: &[u64], object: &[u64], ask: Option<Ask<'_>>) -> Result<()> {
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
            if !selection.is_empty() {
                self.blank_selection(&selection, ask)?;
            }
        }
        Ok(())
    }

    fn blank_selection(&self, selection: &Selection, ask: Option<Ask<'_>>) -> Result<()> {
        let layout = self.layout();
        let reading = ReadOptions { interrupt: ask, ..ReadOptions::default() };
        let writing = WriteOptions { interrupt: ask, ..WriteOptions::default() };
        let shape = selection.shape();
        let Some(vlen) = layout.vlen() else {
            let fill = layout.fill().bytes();
            let found = engine::read(layout, selection, reading)?;
            if found.as_slice().chunks_exact(fill.len().max(1)).any(|element| element != fill) {
                engine::write(layout, selection, &Source::repeat(fill, &shape), writing)?;
            }
            return Ok(());
        };
        let ones = vec![1u64; shape.len()];
        let value = self.ragged_fill(vlen.fill(), &ones)?;
        engine::write_ragged(layout, selection, &Arc::new(value), writing)?;
        Ok(())
    }

    /// One element of variable length that is the fill value, of a shape of ones.
    fn ragged_fill(&self, fill: &[u8], ones: &[u64]) -> Result<Ragged> {
        let invalid = || ZarrError::Invalid { path: self.path().to_owned(), why: "resize: no memory".into() };
        let mut value = Ragged::of(ones, std::iter::once(fill)).ok_or_else(invalid)?;
        if let Some(hyperslab_codec::VlenKind::Array(item)) = self.vlen()
            && let Some(end) = value.offsets.last_mut()
        {
            // Offsets count items.
            *end /= i64::try_from(item.size().max(1)).unwrap_or(1);
        }
        Ok(value)
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
