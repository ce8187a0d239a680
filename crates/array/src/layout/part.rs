//! One part of each element, such as a field of structures.
//!
//! An array of 12-byte elements is also an array with one more axis, of 3 elements of 4 bytes. A
//! field is a range of that axis, so it is read and written like any other selection. From chunks
//! without codecs only the field's bytes are read, straight into the caller's memory. A write to an
//! existing chunk keeps all other fields.

use crate::dims::{Dims, MAX_RANK};
use crate::error::LocateError;
use crate::layout::ArrayLayout;
use crate::layout::fill::FillValue;
use crate::layout::locate::{ChunkList, ChunkLocator, Found};
use crate::layout::sink::{ChunkSink, PartSink};
use crate::select::Selection;
use hyperslab_codec::{ByteOrder, DataType, Kind};
use std::ops::Range;
use std::sync::Arc;

/// The same bytes of every element of an array.
#[derive(Clone, Debug)]
pub struct ElementPart {
    layout: ArrayLayout,
    unit: usize,
    /// The part as a range of the last axis: its first index and its length.
    first: u64,
    len: u64,
}

impl ElementPart {
    /// The array with the additional axis.
    pub fn layout(&self) -> &ArrayLayout {
        &self.layout
    }

    /// Bytes of one element of [`ElementPart::layout`].
    pub fn unit(&self) -> usize {
        self.unit
    }

    /// Number of units in the part of one element: the length of a result's last axis.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns `true` if the part has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Turns a selection of the array into one of [`ElementPart::layout`].
    pub fn of(&self, selection: Selection) -> Selection {
        selection.with_range(self.first, self.len)
    }
}

impl ArrayLayout {
    /// The bytes `part` of all elements, to be written or (`writes: false`) to be read.
    ///
    /// A part can be read only if its bytes in the fill value repeat one unit. A part made for
    /// writing must not be read: elements that were never written would get a wrong fill value.
    ///
    /// `None` if the fill value does not allow reading, or if `part` is empty or not inside an
    /// element. Also `None` if elements have variable length or are swapped, if the array is a
    /// mosaic, or if it already has the maximum number of axes.
    pub fn part(&self, part: Range<usize>, writes: bool) -> Option<ElementPart> {
        let (size, rank) = (self.dtype.size(), self.shape.len());
        if self.encoding.vlen_or_swapped() || self.mosaic.is_some() || rank >= MAX_RANK {
            return None;
        }
        if part.end > size || part.is_empty() {
            return None;
        }
        // The largest unit makes the fewest moves.
        let unit = common_divisor(common_divisor(size, part.start), part.len());
        let fill = self.fill.bytes();
        let value = fill.get(part.start..part.start + unit)?;
        if !writes && fill.get(part.clone())?.chunks(unit).any(|other| other != value) {
            return None;
        }
        let count = size.checked_div(unit)? as u64;
        let shape: Dims = self.shape.iter().copied().chain([count]).collect();
        let dtype = DataType::new(Kind::Raw, unit, ByteOrder::NATIVE)?;
        let locator = Arc::new(WithoutLastAxis { locator: self.locator.clone() });
        let layout = ArrayLayout::new(
            self.name.clone(),
            shape,
            dtype,
            self.grid.with_axis(count),
            self.encoding.with_axis(count, unit),
            FillValue::new(value),
            locator,
            self.store.clone(),
        )
        .ok()?;
        let layout = match &self.sharding {
            None => layout,
            Some(sharding) => layout.with_sharding(sharding.with_axis(count)?).ok()?,
        };
        let shapes = self.shapes.as_ref().map(|shapes| shapes.with_axis(count, unit));
        let (origin, whole_fill) = (self.origin.clone(), Some(self.fill.clone()));
        let sink = self.sink.clone().map(|sink| {
            let (part, fill) = (part.clone(), self.fill.clone());
            Arc::new(PartSink { sink, part, fill }) as Arc<dyn ChunkSink>
        });
        let layout = ArrayLayout { origin, whole_fill, shapes, sink, ..layout };
        let (first, len) = (part.start.checked_div(unit)? as u64, part.len().checked_div(unit)? as u64);
        Some(ElementPart { layout, unit, first, len })
    }
}

/// The greatest common divisor. If one number is 0, it is the other one.
fn common_divisor(a: usize, b: usize) -> usize {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a.checked_rem(b).unwrap_or(0));
    }
    a
}

/// Finds chunks of an array with one more axis, along which there is a single chunk.
#[derive(Debug)]
struct WithoutLastAxis {
    locator: Arc<dyn ChunkLocator>,
}

impl ChunkLocator for WithoutLastAxis {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        for chunk in wanted.iter() {
            let chunk = chunk.split_last().map_or(chunk, |(_, chunk)| chunk);
            self.locator.locate(ChunkList::one(chunk), found)?;
        }
        Ok(())
    }

    fn shares_objects(&self) -> bool {
        self.locator.shares_objects()
    }

    fn folder(&self) -> Option<&str> {
        self.locator.folder()
    }

    fn chunks_of(&self, keys: &mut dyn Iterator<Item = &str>) -> Option<Vec<Dims>> {
        let mut chunks = self.locator.chunks_of(keys)?;
        chunks.iter_mut().for_each(|chunk| chunk.push(0));
        Some(chunks)
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::model::{PerChunk, Spec};
    use crate::{Index, ReadOptions, Selection, Source, WriteOptions, read, write};
    use hyperslab_codec::ByteOrder;
    use hyperslab_store::{MemoryStore, Store};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn spec(codecs: u8, order: Vec<usize>, fill: Vec<u8>) -> Spec {
        Spec { codecs, order, fill, ..Spec::plain(&[5, 7], &[2, 4], "|V12") }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn parts_are_those_of_the_elements(
            codecs in 0u8..8, swapped in any::<bool>(), start in 0usize..12, len in 1usize..13, fill in any::<[u8; 12]>(), even in any::<bool>(),
            stored in any::<bool>(), part_of_it in any::<bool>(),
        ) {
            let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
            let order = if swapped { vec![1, 0] } else { vec![0, 1] };
            let fill = if even { [fill[0]; 12] } else { fill };
            let layout = spec(codecs, order, fill.to_vec()).layout_with(store.clone(), Arc::new(PerChunk("a")));
            let all = Selection::all(&[5, 7]);
            let mut model = fill.repeat(5 * 7);
            if stored {
                model.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
                let source = Source::dense(&model, &[5, 7], 12).unwrap();
                write(&layout, &all, &source, WriteOptions::default()).unwrap();
            }
            let bytes = start..(start + len).min(12);
            let wanted: Vec<u8> = model.chunks(12).flat_map(|one| one[bytes.clone()].to_vec()).collect();
            let readable = layout.part(bytes.clone(), false);
            prop_assert!(readable.is_some() || !even);
            if let Some(part) = readable {
                let found = read(part.layout(), &part.of(all.clone()), ReadOptions::default()).unwrap();
                prop_assert_eq!(found.as_slice(), &wanted);
            }
            let part = layout.part(bytes.clone(), true).unwrap();
            if part_of_it {
                // Elements that are not written keep their value, or become fill value.
                let one = Selection::new("a", &[5, 7], &[Index::At(3), Index::At(-1)]).unwrap();
                let within = part.of(one.clone());
                let new = vec![0xA5; bytes.len()];
                let source = Source::dense(&new, &within.shape(), part.unit()).unwrap();
                write(part.layout(), &within, &source, WriteOptions::default()).unwrap();
                model[(3 * 7 + 6) * 12..][bytes.clone()].fill(0xA5);
                let whole = read(&layout, &all, ReadOptions::default()).unwrap();
                prop_assert_eq!(whole.as_slice(), &model);
            }
            let wanted: Vec<u8> = model.chunks(12).flat_map(|one| one[bytes.clone()].to_vec()).collect();
            let within = part.of(all.clone());
            let new: Vec<u8> = wanted.iter().map(|byte| byte ^ 0x5A).collect();
            let source = Source::dense(&new, &within.shape(), part.unit()).unwrap();
            write(part.layout(), &within, &source, WriteOptions::default()).unwrap();
            for (one, new) in model.chunks_mut(12).zip(new.chunks(bytes.len())) {
                one[bytes.clone()].copy_from_slice(new);
            }
            let whole = read(&layout, &all, ReadOptions::default()).unwrap();
            prop_assert_eq!(whole.as_slice(), &model);

            // Chunks of nothing but fill value are not stored.
            let back: Vec<u8> = fill[bytes.clone()].repeat(5 * 7);
            let source = Source::dense(&back, &within.shape(), part.unit()).unwrap();
            write(part.layout(), &within, &source, WriteOptions::default()).unwrap();
            model.chunks_mut(12).for_each(|one| one[bytes.clone()].copy_from_slice(&fill[bytes.clone()]));
            let whole = read(&layout, &all, ReadOptions::default()).unwrap();
            prop_assert_eq!(whole.as_slice(), &model);
            prop_assert!(stored || store.list(None).unwrap().is_empty());
        }
    }

    #[test]
    fn what_has_no_parts() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let layout = |spec: Spec| spec.layout_with(store.clone(), Arc::new(PerChunk("a")));
        let counted: Vec<u8> = (0..12).collect();
        let uneven = layout(spec(0, vec![], counted));
        // Bytes 4..8 of the fill value are one unit. Bytes 3..8 do not repeat one unit.
        assert!(uneven.part(4..8, false).is_some_and(|part| part.unit() == 4 && part.len() == 1));
        assert!(uneven.part(4..8, true).is_some() && uneven.part(3..8, false).is_none());
        let even = layout(spec(0, vec![], vec![0; 12]));
        assert!(even.part(4..13, false).is_none() && even.part(4..4, false).is_none());
        let stored = if ByteOrder::NATIVE == ByteOrder::Big { ByteOrder::Little } else { ByteOrder::Big };
        let swapped = layout(Spec { stored, ..Spec::plain(&[5], &[2], "<i4") });
        assert_eq!(swapped.part(0..4, false).is_none(), swapped.encoding().swap() > 1);
    }
}
