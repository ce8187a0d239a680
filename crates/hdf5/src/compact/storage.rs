//! The elements of datasets, and the indexes of their chunks.

use super::filters::Filters;
use super::links::whole;
use super::mover::Mover;
use super::survey::cursor;
use super::unstorable;
use crate::Result;
use crate::data_layout::{ChunkIndexKind, ChunkedLayout, DataLayout};
use crate::dataspace::Dataspace;
use crate::datatype::Datatype;
use crate::filter;
use crate::index::{self, ChunkIndex, ChunkRecord, IndexRequest};
use crate::messages::Message;
use crate::object_header::ObjectHeader;
use crate::output::Output;

/// Bytes of a run with references that are in memory at once.
const PIECE: usize = 1 << 20;

/// A chunked dataset.
struct Chunked<'c> {
    layout: &'c ChunkedLayout,
    datatype: &'c Datatype,
    shape: &'c [u64],
    max_shape: &'c [Option<u64>],
    /// Bytes of the number of stored bytes in an index. `None`: chunks have no filters.
    width: Option<usize>,
    filters: Vec<filter::Filter>,
    /// Bytes of a chunk without filters.
    bytes: u64,
}

impl Mover<'_> {
    /// Copies the elements of a dataset. Returns its data layout message.
    pub fn layout(&mut self, header: &ObjectHeader, message: &Message) -> Result<Vec<u8>> {
        let wrong = |why| self.file.source().structure_error("data layout message", message.address, why);
        let mut data = message.data.to_vec();
        let mut at = cursor(&message.data);
        let layout = DataLayout::parse(&mut at).map_err(wrong)?;
        let version = message.data.first().copied().unwrap_or_default();
        match layout {
            DataLayout::Compact { address, size } => {
                let (datatype, _) = self.type_and_space(header)?;
                let start = usize::try_from(address).unwrap_or(usize::MAX);
                let end = start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
                if datatype.refers()
                    && let Some(elements) = data.get_mut(start..end)
                {
                    self.elements(&datatype, elements)?;
                }
            }
            DataLayout::Contiguous { address: Some(address), size } => {
                let (datatype, space) = self.type_and_space(header)?;
                let needed = space.count().and_then(|count| count.checked_mul(datatype.size.into()));
                let len = size.or(needed).unwrap_or(u64::MAX);
                let new = self.run_of_elements(&datatype, address, len)?;
                // Versions 1 and 2: version, rank, class and five reserved bytes come first.
                self.patch(&mut data, if version < 3 { 8 } else { 2 }, new)?;
            }
            DataLayout::Virtual { collection: Some(collection), index } => {
                let place = self.heap_object(collection, index)?;
                self.patch(&mut data, 2, place.collection)?;
                if let Some(index) = data.get_mut(10..14) {
                    index.copy_from_slice(&place.index.to_le_bytes());
                }
            }
            DataLayout::Contiguous { address: None, .. } | DataLayout::Virtual { collection: None, .. } => {}
            DataLayout::Chunked(layout) => {
                return self.chunked(header, &layout, version, data, at.position());
            }
        }
        Ok(data)
    }

    /// Copies a run of elements. Returns its new address.
    fn run_of_elements(&mut self, datatype: &Datatype, address: u64, len: u64) -> Result<u64> {
        self.rest.align(self.out)?;
        if !datatype.refers() {
            return self.copy(address, len);
        }
        self.take_elements(len)?;
        let start = self.rest.end();
        let size = usize::try_from(datatype.size).unwrap_or(usize::MAX).max(1);
        let piece = (PIECE / size).max(1).saturating_mul(size) as u64;
        let (mut done, there) = (0, self.there(address, len));
        while done < there {
            let part = piece.min(there - done);
            let mut bytes = self.file.source().read("elements", address.saturating_add(done), part)?.to_vec();
            self.elements(datatype, &mut bytes)?;
            self.rest.put(self.out, &bytes)?;
            self.advance(part)?;
            done = done.saturating_add(part);
        }
        self.rest.put_at(self.out, start.saturating_add(len), &[])?;
        Ok(start)
    }

    /// Copies chunks, and builds their index. `end`: the end of the message's known part.
    fn chunked(
        &mut self,
        header: &ObjectHeader,
        layout: &ChunkedLayout,
        version: u8,
        mut data: Vec<u8>,
        end: usize,
    ) -> Result<Vec<u8>> {
        let (datatype, space) = self.type_and_space(header)?;
        let filters = self.file.message(header, filter::KIND, filter::parse)?.unwrap_or_default();
        let invalid = |what: &str| self.file.source().invalid(what);
        let Dataspace::Simple { shape, max_shape } = &space else {
            return Err(invalid("its data layout is chunked, but its dataspace has no axes"));
        };
        let bytes = layout.chunk.iter().try_fold(layout.element_size, |all, n| all.checked_mul(*n));
        let bytes = bytes.ok_or_else(|| invalid("a chunk has more than 2⁶⁴ bytes"))?;
        // Version 5 has lengths of eight bytes.
        let width = if version > 4 { 8 } else { index::size_width(bytes) };
        let width = (!filters.is_empty()).then_some(width);
        let chunked = Chunked { layout, datatype: &datatype, shape, max_shape, width, filters, bytes };
        let request = IndexRequest {
            source: self.file.source(),
            layout,
            shape,
            max_shape,
            filtered: !chunked.filters.is_empty(),
        };
        // These are built with the library's settings.
        let new_kind = match &layout.index {
            ChunkIndexKind::BTree2 { .. } => {
                ChunkIndexKind::BTree2 { node_size: index::BTREE2_NODE, split: 100, merge: 40 }
            }
            ChunkIndexKind::FixedArray { .. } => ChunkIndexKind::FixedArray { page_bits: index::PAGE_BITS },
            kind => kind.clone(),
        };
        let mut records = match self.chosen_chunks(header) {
            Some(chosen) => chosen,
            None => ChunkIndex::read(&request)?,
        };
        let is_stored = layout.address.is_some()
            && (!records.records.is_empty() || matches!(new_kind, ChunkIndexKind::Implicit));
        let address = if !is_stored {
            None
        } else if matches!(new_kind, ChunkIndexKind::Implicit) {
            Some(self.implicit(&chunked)?)
        } else {
            self.chunks(&chunked, &mut records)?;
            Some(self.index(&chunked, &request, &new_kind, &records)?)
        };
        let undefined = u64::MAX;
        if version < 4 {
            // The address is before the lengths of a chunk.
            self.patch(&mut data, if version < 3 { 8 } else { 3 }, address.unwrap_or(undefined))?;
            return Ok(data);
        }
        let at = end.saturating_sub(8);
        self.patch(&mut data, at, address.unwrap_or(undefined))?;
        // The settings of the index are before its address.
        let settings = match (&new_kind, records.records.first()) {
            (ChunkIndexKind::Single { filtered: Some(_) }, Some(record)) => {
                Output::new().u64(record.size).u32(record.skipped).take()
            }
            (ChunkIndexKind::FixedArray { page_bits }, _) => vec![*page_bits],
            (ChunkIndexKind::BTree2 { node_size, split, merge }, _) => {
                Output::new().u32(*node_size).u8(*split).u8(*merge).take()
            }
            _ => Vec::new(),
        };
        if let Some(place) = at.checked_sub(settings.len()).and_then(|start| data.get_mut(start..at)) {
            place.copy_from_slice(&settings);
        }
        Ok(data)
    }

    /// Copies chunks that are stored one after the other without an index. Returns their new address.
    fn implicit(&mut self, chunked: &Chunked<'_>) -> Result<u64> {
        let axes = chunked.max_shape.iter().zip(&chunked.layout.chunk);
        let slots = axes.map(|(most, chunk)| most.map(|most| most.div_ceil((*chunk).max(1))));
        let len = slots.into_iter().try_fold(chunked.bytes, |len, slots| len.checked_mul(slots?));
        let len =
            len.ok_or_else(|| self.file.source().invalid("chunks without an index need a limited shape"))?;
        self.run_of_elements(chunked.datatype, chunked.layout.address.unwrap_or_default(), len)
    }

    /// Copies chunks, and notes their new places.
    fn chunks(&mut self, chunked: &Chunked<'_>, index: &mut ChunkIndex) -> Result<()> {
        let counts = index.counts.clone();
        if !chunked.datatype.refers() {
            for record in &mut index.records {
                record.address = self.copy(record.address, record.size)?;
            }
            return Ok(());
        }
        let source = self.file.source();
        let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let filters = Filters::new(
            self.file,
            &chunked.filters,
            size(chunked.datatype.size.into()),
            size(chunked.bytes),
        )?;
        for record in &mut index.records {
            self.take_elements(record.size)?;
            let invalid = |error| source.invalid(format!("chunk {}: {error}", record.number));
            let stored = source.read("chunk", record.address, record.size)?;
            let is_plain = chunked.layout.edges_unfiltered && chunked.is_cut(record.number, &counts);
            let skipped = if is_plain { u32::MAX } else { record.skipped };
            let mut chunk = filters.decode(&stored, skipped).map_err(invalid)?;
            self.elements(chunked.datatype, &mut chunk)?;
            let (bytes, mask) = filters.encode(chunk, skipped).map_err(invalid)?;
            let moved = record.size;
            record.address = self.rest.put(self.out, &bytes)?;
            record.size = bytes.len() as u64;
            if !is_plain {
                record.skipped = mask;
            }
            self.advance(moved)?;
        }
        Ok(())
    }

    /// Builds the index of chunks. Returns its address.
    fn index(
        &mut self,
        chunked: &Chunked<'_>,
        request: &IndexRequest<'_>,
        kind: &ChunkIndexKind,
        index: &ChunkIndex,
    ) -> Result<u64> {
        let (chunk, counts, records) = (&chunked.layout.chunk, &index.counts, &index.records);
        if let (ChunkIndexKind::Single { .. }, [only, ..]) = (kind, &records[..]) {
            return Ok(only.address);
        }
        let slots = match kind {
            ChunkIndexKind::FixedArray { .. } => self.slots(chunked, counts, records)?,
            _ => Vec::new(),
        };
        let width = chunked.width;
        self.put_index(|at, page| match kind {
            ChunkIndexKind::FixedArray { .. } => {
                whole(index::build_fixed_array(at, width.is_some(), &slots).map(|bytes| (at, bytes)))
            }
            ChunkIndexKind::ExtensibleArray { .. } => {
                whole(Ok((at, index::build_extensible_array(request, at, width, records)?)))
            }
            ChunkIndexKind::BTree2 { .. } => {
                whole(index::build_version2(at, width, counts, records).map(|bytes| (at, bytes)))
            }
            _ => {
                let tree = index::build_version1(at, chunk, counts, records, page).map_err(unstorable)?;
                Ok((tree.root, tree.bytes, tree.node))
            }
        })
    }

    /// The elements of a fixed array: a slot for each chunk of the maximum shape, in C order.
    fn slots(&self, chunked: &Chunked<'_>, counts: &[u64], records: &[ChunkRecord]) -> Result<Vec<Vec<u8>>> {
        let element = |address: Option<u64>, size: u64, skipped: u32| {
            let mut out = Output::new();
            out.address(address);
            if let Some(width) = chunked.width {
                out.uint(size, width).u32(skipped);
            }
            out.take()
        };
        let axes = chunked.max_shape.iter().zip(&chunked.layout.chunk);
        let limits: Vec<u64> = axes.map(|(most, len)| most.unwrap_or(0).div_ceil(*len)).collect();
        let total = limits.iter().try_fold(1, |total: u64, count| total.checked_mul(*count));
        // The array of a file has its slots in the file.
        let most = self.file.source().end() / 8;
        let total = total.filter(|total| *total <= most).and_then(|total| usize::try_from(total).ok());
        let total = total.ok_or_else(|| {
            self.file.source().invalid("the index of its chunks would be larger than the file")
        })?;
        let mut slots = vec![element(None, 0, 0); total];
        for record in records {
            let place = index::place(record.number, counts);
            let slot = place.iter().zip(&limits).fold(0, |slot: u64, (at, count)| slot * count + at);
            if let Some(slot) = usize::try_from(slot).ok().and_then(|slot| slots.get_mut(slot)) {
                *slot = element(Some(record.address), record.size, record.skipped);
            }
        }
        Ok(slots)
    }
}

impl Chunked<'_> {
    /// Returns `true` if a chunk reaches beyond the shape.
    fn is_cut(&self, number: u64, counts: &[u64]) -> bool {
        let place = index::place(number, counts);
        let axes = place.iter().zip(&self.layout.chunk).zip(self.shape);
        axes.into_iter().any(|((at, len), n)| at.saturating_add(1).saturating_mul(*len) > *n)
    }
}
