//! Virtual datasets: parts of other datasets, described to the engine as a mosaic.
//!
//! 1. The mappings are read from the global heap.
//! 2. Along axes without limit the sources decide how long the dataset is: as long as its longest mapping (the library's view "last available"). What the file has as its
//!    extent is that of the moment when somebody last wrote it.
//! 3. A mapping with block numbers in its names is one piece for each source that is there, up to the first that is missing.
//! 4. Sources are opened when they are read. One whose file or path is missing reads as fill value; one that is there but no dataset, or of elements that cannot be
//!    converted, is an error.

use crate::element::{Element, ElementKind};
use crate::kept::Kept;
use crate::selection::{Selection, Slab};
use crate::virtual_mapping::{self, Mapping};
use crate::{Cursor, Dataset, File, Hdf5Error, Node, data_layout::DataLayout};
use hyperslab_array::{
    ArrayLayout, Blocks, ChunkEncoding, ChunkGrid, ChunkLocator, Dims, FillValue, LocateError, Location,
    Mosaic, MosaicSource, Pattern, Piece, element_count,
};
use hyperslab_codec::DataType;
use hyperslab_store::Key;
use std::collections::HashMap;
use std::sync::Arc;

/// Sources of a dataset that are kept open.
const OPEN: u64 = 128;

/// No element of a dataset lies beyond.
const END: u64 = i64::MAX as u64;

/// Virtual datasets may be sources of each other, but not deeper than this.
const DEEPEST: usize = 16;

/// The description of a virtual dataset, of which `collection` and `index` say where its mappings are.
pub(crate) fn layout(
    dataset: &Dataset,
    dtype: DataType,
    collection: Option<u64>,
    index: u32,
) -> Result<ArrayLayout, Hdf5Error> {
    layout_within(dataset, dtype, (collection, index), None)
}

fn layout_within(
    dataset: &Dataset,
    dtype: DataType,
    heap_id: (Option<u64>, u32),
    above: Option<Arc<Chain>>,
) -> Result<ArrayLayout, Hdf5Error> {
    let file = dataset.file();
    let invalid = |why: String| file.source().invalid(why);
    let mut shape: Dims = dataset.dataspace().shape().into();
    let mut sources = Sources::new(dataset, above)?;
    let mut extent = Extent::new(shape.len());
    let mut pieces: Vec<Piece> = Vec::new();
    for (number, mapping) in mappings(file, heap_id)?.iter().enumerate() {
        let fail = |why: String| invalid(format!("mapping {number} of the virtual dataset: {why}"));
        if mapping.target.rank().is_some_and(|rank| rank != shape.len()) {
            return Err(fail(format!("it has other axes than shape {shape:?}")));
        }
        let numbered = mapping.file.is_numbered() || mapping.dataset.is_numbered();
        let mut piece = |array: Arc<dyn MosaicSource>, target: Along, source: Along| {
            let piece = pattern(&mapping.target, target)
                .and_then(|target| Piece::new(target, pattern(&mapping.source, source)?, array));
            piece.map(|piece| pieces.push(piece)).map_err(fail)
        };
        match (mapping.target.unlimited(), mapping.source.unlimited()) {
            (None, None) if !numbered => {
                if mapping.target != Selection::None {
                    piece(sources.of(mapping, 0), None, None)?;
                }
            }
            (Some((axis, target)), Some((from, source))) if !numbered => {
                let array = sources.of(mapping, 0);
                let len = match array.get()? {
                    Some(found) => {
                        *found.shape().get(from).ok_or_else(|| fail("its source has fewer axes".into()))?
                    }
                    None => 0,
                };
                match slices(source, len) {
                    0 => extent.reach(axis, 0),
                    len => {
                        let (target, source) =
                            (cut(target, len).map_err(fail)?, cut(source, len).map_err(fail)?);
                        extent.reach(axis, target.end());
                        piece(array, Some((axis, target)), Some((from, source)))?;
                    }
                }
            }
            (Some((axis, Slab { start, stride, count: None, block: Some(block) })), None) if numbered => {
                extent.reach(axis, 0);
                for number in 0.. {
                    let array = sources.of(mapping, number);
                    if array.get()?.is_none() {
                        break;
                    }
                    let start = number.checked_mul(stride).and_then(|skip| skip.checked_add(start));
                    let one =
                        Slab { start: start.unwrap_or(END), stride, count: Some(1), block: Some(block) };
                    let target = cut(one, block).map_err(fail)?;
                    extent.reach(axis, target.end());
                    piece(array, Some((axis, target)), None)?;
                }
            }
            _ => return Err(fail("limits and names that do not fit together".into())),
        }
        if let Some(ends) = ends(&mapping.target) {
            extent.contain(&ends);
        }
    }
    extent.apply(&mut shape);
    let chunk = usual_part(&shape, &pieces, dtype.size());
    let encoding = ChunkEncoding::new(&chunk, dtype, dtype.order(), &[], Vec::new()).map_err(invalid)?;
    let grid = ChunkGrid::regular(chunk).ok_or_else(|| invalid("chunks without elements".into()))?;
    let fill = dataset.absent_value().map_or(FillValue::zero(dtype.size()), FillValue::new);
    let (name, store) = (format!("/{}", dataset.path()), file.source().store().clone());
    let layout = ArrayLayout::new(name, shape, dtype, grid, encoding, fill, Arc::new(NoChunks), store)?;
    Ok(layout.with_mosaic(Mosaic::new(pieces))?)
}

/// The mappings in the global heap; none where there is no such heap object.
fn mappings(file: &File, (collection, index): (Option<u64>, u32)) -> Result<Vec<Mapping>, Hdf5Error> {
    let Some(address) = collection else { return Ok(Vec::new()) };
    let heap = file.collection(address)?;
    let bytes = heap.object(index).ok_or_else(|| {
        file.source()
            .invalid(format!("the global heap collection at address {address} has no object {index}"))
    })?;
    virtual_mapping::parse(&mut Cursor::whole(bytes, 0, file.sizes()), file.verify())
        .map_err(|why| file.source().wrong("global heap block for virtual datasets", address, why))
}

/// How long axes are that some mapping has no limit along.
struct Extent {
    /// Where the longest of these mappings ends.
    open: Vec<Option<u64>>,
    /// Where mappings end that are limited along this axis.
    least: Vec<u64>,
}

impl Extent {
    fn new(rank: usize) -> Self {
        Extent { open: vec![None; rank], least: vec![0; rank] }
    }

    fn reach(&mut self, axis: usize, end: u64) {
        if let Some(open) = self.open.get_mut(axis) {
            *open = Some(open.unwrap_or(0).max(end));
        }
    }

    fn contain(&mut self, ends: &[u64]) {
        self.least.iter_mut().zip(ends).for_each(|(least, end)| *least = (*least).max(*end));
    }

    fn apply(&self, shape: &mut [u64]) {
        for (len, (open, least)) in shape.iter_mut().zip(self.open.iter().zip(&self.least)) {
            *len = open.map_or(*len, |end| end.max(*least));
        }
    }
}

/// Where a selection ends along each axis; 0 where it has no limit. `None`: it is the whole dataset, or nothing.
fn ends(selection: &Selection) -> Option<Vec<u64>> {
    match selection {
        Selection::None | Selection::All => None,
        Selection::Regular(slabs) => {
            let end = |slab: &Slab| {
                let blocks = slab.count?.checked_sub(1)?.checked_mul(slab.stride)?;
                slab.start.checked_add(blocks)?.checked_add(slab.block?)
            };
            Some(slabs.iter().map(|slab| end(slab).unwrap_or(0)).collect())
        }
        Selection::Points { rank, .. } | Selection::Blocks { rank, .. } => {
            let mut ends = vec![0u64; *rank];
            for last in selection.points().chain(selection.blocks().map(|(_, last)| last)) {
                ends.iter_mut().zip(last).for_each(|(end, at)| *end = (*end).max(at.saturating_add(1)));
            }
            Some(ends)
        }
    }
}

/// How many elements of a slab without limit an axis of `len` elements has room for.
fn slices(slab: Slab, len: u64) -> u64 {
    let room = len.saturating_sub(slab.start);
    match slab.block {
        Some(block) if block < slab.stride => {
            let (whole, rest) = (room / slab.stride, room % slab.stride);
            whole.saturating_mul(block).saturating_add(rest.min(block))
        }
        _ => room,
    }
}

/// The first `len` elements of a slab.
fn cut(slab: Slab, len: u64) -> Result<Blocks, String> {
    let Slab { start, stride, block, .. } = slab;
    let blocks = match block {
        Some(block) => Blocks { start, stride, block, len },
        None => Blocks::run(start, len),
    };
    let before = len.div_ceil(blocks.block.max(1)).saturating_sub(1).checked_mul(stride);
    let end = before.and_then(|before| before.checked_add(start)?.checked_add(blocks.block));
    match end {
        Some(end) if end <= END => Ok(blocks),
        _ => Err(format!("{len} elements from {start} on, which end beyond 2⁶³ - 1")),
    }
}

/// What stands for the axis of a selection that has no limit.
type Along = Option<(usize, Blocks)>;

fn pattern(selection: &Selection, along: Along) -> Result<Pattern, String> {
    match selection {
        Selection::None => Err("it has no elements".into()),
        Selection::All => Ok(Pattern::all()),
        Selection::Points { rank, coordinates } => Pattern::points(*rank, coordinates),
        Selection::Blocks { rank, .. } => match selection.clone().regularised() {
            regular @ Selection::Regular(_) => pattern(&regular, along),
            _ => Pattern::blocks(*rank, selection.blocks()),
        },
        Selection::Regular(slabs) => {
            let blocks = |(axis, slab): (usize, &Slab)| match along {
                Some((open, blocks)) if open == axis => Ok(blocks),
                _ => {
                    let len = slab.count.and_then(|count| count.checked_mul(slab.block?));
                    cut(*slab, len.ok_or("it has more elements than can be counted")?)
                }
            };
            let axes = slabs.iter().enumerate().map(blocks).collect::<Result<Vec<_>, _>>()?;
            Pattern::regular(&axes)
        }
    }
}

/// The shape of the parts that a dataset is made of: the shortest along each axis. It is what is read at a time where there is a choice.
fn usual_part(shape: &[u64], pieces: &[Piece], element: usize) -> Dims {
    let mut part: Dims = shape.iter().map(|len| (*len).max(1)).collect();
    for bounds in pieces.iter().filter_map(Piece::bounds) {
        for (len, (start, end)) in part.iter_mut().zip(bounds) {
            *len = (*len).min(end.saturating_sub(start)).max(1);
        }
    }
    let bytes = element_count(&part).and_then(|count| count.checked_mul(element as u64));
    match bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok()) {
        true => part,
        false => Dims::from_elem(1, part.len()),
    }
}

/// A mosaic has no chunks.
#[derive(Debug)]
struct NoChunks;

impl ChunkLocator for NoChunks {
    fn locate(&self, _: &[u64], _: &mut String) -> Result<Location, LocateError> {
        Ok(Location::Absent)
    }
}

/// The virtual datasets that are being read, the innermost first: none may be a source of itself.
#[derive(Debug)]
struct Chain {
    /// The number of the file, and the address in it.
    place: (u64, u64),
    above: Option<Arc<Chain>>,
}

/// Where a dataset is.
fn place(dataset: &Dataset) -> Result<(u64, u64), Hdf5Error> {
    let source = dataset.file().source();
    Ok((source.store().lock_id(Key::new(source.key())?), dataset.address()))
}

/// What all sources of a dataset have in common.
#[derive(Debug)]
struct Common {
    file: File,
    element: Element,
    /// Whether elements refer to places of the file that they are in.
    refers: bool,
    chain: Arc<Chain>,
    open: Kept<ArrayLayout>,
}

/// The sources of a dataset, each once.
struct Sources {
    common: Arc<Common>,
    found: HashMap<(String, String), Arc<OneSource>>,
}

/// A source, opened when it is read.
#[derive(Debug)]
struct OneSource {
    common: Arc<Common>,
    number: u64,
    /// `None`: the file of the virtual dataset.
    file: Option<String>,
    path: String,
}

impl Sources {
    fn new(dataset: &Dataset, above: Option<Arc<Chain>>) -> Result<Self, Hdf5Error> {
        let common = Common {
            file: dataset.file().clone(),
            element: dataset.element().clone(),
            refers: dataset.datatype().refers(),
            chain: Arc::new(Chain { place: place(dataset)?, above }),
            open: Kept::new(OPEN),
        };
        Ok(Sources { common: Arc::new(common), found: HashMap::new() })
    }

    /// The source of a mapping, for a block.
    fn of(&mut self, mapping: &Mapping, block: u64) -> Arc<OneSource> {
        let (file, path) = (mapping.file.of_block(block), mapping.dataset.of_block(block));
        let number = self.found.len() as u64;
        let make = |(file, path): &(String, String)| {
            let file = (!mapping.file.is_same_file()).then(|| file.clone());
            Arc::new(OneSource { common: self.common.clone(), number, file, path: path.clone() })
        };
        let name = (file, path);
        if let Some(found) = self.found.get(&name) {
            return found.clone();
        }
        let made = make(&name);
        self.found.insert(name, made.clone());
        made
    }
}

impl OneSource {
    /// The dataset as the engine sees it; `None`: there is no such file, or no such path in it.
    fn get(&self) -> Result<Option<Arc<ArrayLayout>>, Hdf5Error> {
        let make = || self.make().map_err(Some)?.ok_or(None);
        match self.common.open.get(self.number, make, |_| 1) {
            Ok(layout) => Ok(Some(layout)),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    fn make(&self) -> Result<Option<Arc<ArrayLayout>>, Hdf5Error> {
        let common = &self.common;
        let file = match &self.file {
            None => common.file.clone(),
            Some(name) => match common.file.other(name)? {
                Some(file) => file,
                None => return Ok(None),
            },
        };
        let dataset = match file.node(&self.path) {
            Ok(Node::Dataset(dataset)) => dataset,
            Ok(_) => return Err(file.source().invalid("it is no dataset").within(&self.path)),
            Err(Hdf5Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        self.check(&dataset)?;
        let DataLayout::Virtual { collection, index } = *dataset.data_layout() else {
            return dataset.layout().map(Some);
        };
        let (place, mut depth, mut above) = (place(&dataset)?, 0, Some(&common.chain));
        while let Some(chain) = above {
            depth += 1;
            if chain.place == place || depth >= DEEPEST {
                let why = match depth < DEEPEST {
                    true => "it is a source of itself".into(),
                    false => format!("sources of virtual datasets are virtual, more than {DEEPEST} deep"),
                };
                return Err(file.source().invalid(why).within(&self.path));
            }
            above = chain.above.as_ref();
        }
        let dtype = dataset.element().engine_type();
        let dtype =
            dtype.ok_or_else(|| file.source().invalid("its elements are too large").within(&self.path))?;
        let layout = layout_within(&dataset, dtype, (collection, index), Some(common.chain.clone()));
        layout.map(|layout| Some(Arc::new(layout))).map_err(|error| error.within(&self.path))
    }

    /// Refuses elements that cannot become those of the virtual dataset. Numbers can: the engine converts them.
    fn check(&self, dataset: &Dataset) -> Result<(), Hdf5Error> {
        let common = &self.common;
        let refuse = |what: String| Hdf5Error::Unsupported {
            file: dataset.file().source().name(),
            object: Some(self.path.clone()),
            what,
        };
        let (from, to) = (dataset.element(), &common.element);
        let numbers = matches!((&from.kind, &to.kind), (ElementKind::Plain(_), ElementKind::Plain(_)));
        if from != to && !numbers {
            let (from, to) = (from.to_json(), to.to_json());
            return Err(refuse(format!(
                "a conversion of elements {from} to those of a virtual dataset, {to},"
            )));
        }
        if common.refers && !dataset.file().is(&common.file) {
            return Err(refuse(
                "a virtual dataset of references or of elements of variable length in another file".into(),
            ));
        }
        Ok(())
    }
}

impl MosaicSource for OneSource {
    fn open(&self) -> Result<Option<Arc<ArrayLayout>>, LocateError> {
        Ok(self.get()?)
    }
}
