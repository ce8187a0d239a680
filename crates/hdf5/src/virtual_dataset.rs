//! Virtual datasets: parts of other datasets, described to the engine as a mosaic.
//!
//! 1. The mappings are read from the global heap.
//! 2. Along unlimited axes, the sources determine the length of the dataset: the end of its longest
//!    mapping (the library's view "last available"). The extent in the file is only as of the last
//!    write.
//! 3. A mapping with block numbers in its names becomes one piece per existing source, up to the
//!    first missing one.
//! 4. Sources are opened when they are read. If a source's file or path is missing, its elements
//!    read as fill value. It is an error if the path is not a dataset, or if its elements cannot be
//!    converted.

use crate::array_layout::SingleChunk;
use crate::selection::{Selection, Slab};
use crate::virtual_extent::{Along, END, Extent, cut, ends, pattern, slices};
use crate::virtual_mapping::{self, Mapping};
use crate::virtual_source::{Budget, Chain, Sources};
use crate::{Dataset, File, Result, element::Element};
use hyperslab_array::{ArrayLayout, ChunkEncoding, ChunkGrid, Dims, FillValue, Mosaic, MosaicSource, Piece};
use hyperslab_codec::DataType;
use std::sync::Arc;

/// Returns the layout of a virtual dataset. Its mappings are in the heap object `heap_id`.
pub(crate) fn layout(dataset: &Dataset, dtype: DataType, heap_id: (Option<u64>, u32)) -> Result<ArrayLayout> {
    let fill = dataset.absent_value().map_or(FillValue::zero(dtype.size()), FillValue::new);
    let wanted = Wanted { element: dataset.element(), dtype, fill };
    layout_within(dataset, wanted, heap_id, None, &Budget::default())
}

/// The elements to produce: the virtual dataset's own, or elements for an outer virtual dataset.
pub(crate) struct Wanted<'e> {
    pub element: &'e Element,
    /// The engine's type of the elements.
    pub dtype: DataType,
    pub fill: FillValue,
}

pub(crate) fn layout_within(
    dataset: &Dataset,
    wanted: Wanted<'_>,
    heap_id: (Option<u64>, u32),
    above: Option<Arc<Chain>>,
    budget: &Budget,
) -> Result<ArrayLayout> {
    let file = dataset.file();
    let invalid = |why: String| file.source().invalid(why);
    let mut shape: Dims = dataset.dataspace().shape().into();
    let Wanted { element, dtype, fill } = wanted;
    let mut sources = Sources::new(dataset, element, above)?;
    let mut extent = Extent::new(shape.len());
    let mut pieces: Vec<Piece> = Vec::new();
    for (number, mapping) in mappings(file, heap_id)?.iter().enumerate() {
        let fail = |why: String| invalid(format!("mapping {number} of the virtual dataset: {why}"));
        if let Some(rank) = mapping.target.rank().filter(|rank| *rank != shape.len()) {
            return Err(fail(format!("it has {rank} axes, the virtual dataset has {}", shape.len())));
        }
        let numbered = mapping.file.is_numbered() || mapping.dataset.is_numbered();
        let mut piece = |array: Arc<dyn MosaicSource>, target: Along, source: Along| {
            let piece = pattern(&mapping.target, target)
                .and_then(|target| Piece::new(target, pattern(&mapping.source, source)?, array));
            piece.map(|piece| pieces.push(piece)).map_err(fail)
        };
        match (mapping.target.unlimited_axis(), mapping.source.unlimited_axis()) {
            (None, None) if !numbered => {
                if mapping.target != Selection::None {
                    piece(sources.of(mapping, 0), None, None)?;
                }
            }
            (Some((axis, target)), Some((from, source))) if !numbered => {
                let array = sources.of(mapping, 0);
                let len = match array.get(budget)? {
                    Some(found) => *found.shape().get(from).ok_or_else(|| {
                        fail(format!(
                            "its source selection is unlimited along axis {from}, but the source has {} axes",
                            found.shape().len()
                        ))
                    })?,
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
                    if array.get(budget)?.is_none() {
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
            _ => {
                return Err(fail(
                    "its unlimited selections and '%b' in its names do not fit together".into(),
                ));
            }
        }
        if let Some(ends) = ends(&mapping.target) {
            extent.contain(&ends);
        }
    }
    extent.apply(&mut shape);
    let chunk = usual_part(&shape, &pieces, dtype.size());
    let encoding = ChunkEncoding::new(&chunk, dtype, dtype.order(), &[], Vec::new()).map_err(invalid)?;
    let grid = ChunkGrid::regular(chunk)
        .ok_or_else(|| invalid("its chunk shape has an axis of 0 elements".into()))?;
    let (name, store) = (format!("/{}", dataset.path()), file.source().store().clone());
    let layout =
        ArrayLayout::new(name, shape, dtype, grid, encoding, fill, Arc::new(SingleChunk::absent()), store)?;
    Ok(layout.with_mosaic(Mosaic::new(pieces))?)
}

/// A mapping of a virtual dataset, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualSource {
    /// The file of the source, or `.`. `%b` here and in the path is the number of a block.
    pub file: String,
    /// Path of the source.
    pub dataset: String,
    /// Elements of the virtual dataset.
    pub target: Selection,
    /// Elements of the source, in the same order.
    pub source: Selection,
}

/// Returns the mappings of a virtual dataset, as stored.
pub(crate) fn sources(file: &File, heap_id: (Option<u64>, u32)) -> Result<Vec<VirtualSource>> {
    let sources = mappings(file, heap_id)?.into_iter().map(|mapping| VirtualSource {
        file: mapping.file.text(),
        dataset: mapping.dataset.text(),
        target: mapping.target,
        source: mapping.source,
    });
    Ok(sources.collect())
}

/// Reads the mappings from the global heap. Empty if there is no heap object.
fn mappings(file: &File, (collection, index): (Option<u64>, u32)) -> Result<Vec<Mapping>> {
    let Some(address) = collection else { return Ok(Vec::new()) };
    let heap = file.collection(address)?;
    let object = heap.object(index).ok_or_else(|| {
        file.source()
            .invalid(format!("the global heap collection at address {address} has no object {index}"))
    })?;
    let bytes = object.read(file.source())?;
    virtual_mapping::parse(&mut file.source().cursor(&bytes, 0))
        .map_err(|why| file.source().structure_error("global heap block for virtual datasets", address, why))
}

/// Returns the usual shape of parts: the shortest along each axis, a few MiB. It sets the size of
/// reads.
fn usual_part(shape: &[u64], pieces: &[Piece], element: usize) -> Dims {
    const MOST: u64 = 4 << 20;
    let mut part: Dims = shape.iter().map(|len| (*len).max(1)).collect();
    for bounds in pieces.iter().filter_map(Piece::bounds) {
        for (len, (start, end)) in part.iter_mut().zip(bounds) {
            *len = (*len).min(end.saturating_sub(start)).max(1);
        }
    }
    for axis in 0..part.len() {
        let bytes = part.iter().fold(element as u64, |bytes, len| bytes.saturating_mul(*len));
        let Some(len) = part.get_mut(axis) else { break };
        // The size in bytes overflows: much too large.
        *len = if bytes == u64::MAX { 1 } else { (*len / bytes.div_ceil(MOST).max(1)).max(1) };
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        Builder, Others, append_checksum, changes, collection_of, contiguous_message, dataset, elements,
        fails, hard, link_info, says, structure, the_dataset,
    };
    use crate::{FileOptions, Node};
    use hyperslab_array::{ArrayError, element_count, explain_read};
    use hyperslab_store::{Key, Store};
    use std::sync::atomic::Ordering;

    fn open(files: &Arc<Others>, name: &str) -> File {
        let options = FileOptions { verify: true, others: Some(files.clone()) };
        File::open(files.store.clone(), name, options).unwrap()
    }

    /// A dataset of consecutive numbers from `first` on.
    fn numbers(file: &mut Builder, first: i16, shape: &[u64]) -> u64 {
        let count = shape.iter().product::<u64>() as i16;
        let values: Vec<u8> = (first..first + count).flat_map(i16::to_le_bytes).collect();
        let address = file.put(&values);
        file.header(&dataset(shape, contiguous_message(address, values.len() as u64)))
    }

    /// A selection with start, stride, count and block per axis. Without axes it is everything.
    fn select(axes: &[[u64; 4]]) -> Vec<u8> {
        if axes.is_empty() {
            return [3u32, 1, 0, 0].iter().flat_map(|number| number.to_le_bytes()).collect();
        }
        let head = [2, 0, 0, 0, 3, 0, 0, 0, 1, 8, axes.len() as u8, 0, 0, 0];
        let numbers = axes.iter().flatten().flat_map(|number| number.to_le_bytes());
        head.into_iter().chain(numbers).collect()
    }

    /// File, dataset, source, target.
    type Given<'e> = (&'e str, &'e str, &'e [[u64; 4]], &'e [[u64; 4]]);

    fn virtual_dataset(file: &mut Builder, shape: &[u64], entries: &[Given<'_>]) -> u64 {
        let mut block = structure!([0], entries.len() as u64);
        for (name, path, source, target) in entries {
            let names = structure!(name.as_bytes(), [0], path.as_bytes(), [0]);
            block.extend(structure!(names, select(source), select(target)));
        }
        let address = file.put(&collection_of(8, &[(1, &append_checksum(block))], 0));
        let mut messages = dataset(shape, structure!([4, 3], address, 1u32));
        // Fill value -1.
        messages.push((crate::messages::fill_value::KIND, vec![3, 0b10_1010, 2, 0, 0, 0, 0xff, 0xff]));
        file.header(&messages)
    }

    fn save(files: &Others, name: &str, mut file: Builder, members: &[(&str, u64)]) {
        let links = members.iter().map(|(name, address)| hard(name, *address));
        let messages: Vec<_> = std::iter::once(link_info(false)).chain(links).collect();
        let root = file.header(&messages);
        files.store.write(Key::new(name).unwrap(), &[&file.finish(root, 2, 0)]).unwrap();
    }

    /// A file with one dataset of numbers, `data`.
    fn save_numbers(files: &Others, name: &str, first: i16, shape: &[u64]) {
        let mut file = Builder::new();
        let data = numbers(&mut file, first, shape);
        save(files, name, file, &[("data", data)]);
    }

    fn layout_of(file: &File, path: &str) -> Result<Arc<ArrayLayout>> {
        the_dataset(file, path).unwrap().layout()
    }

    fn values(layout: &ArrayLayout) -> Result<Vec<i16>, ArrayError> {
        let found = elements(layout)?;
        Ok(found.chunks(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect())
    }

    const FREE: u64 = u64::MAX;
    /// Single elements without limit.
    const ALL: &[[u64; 4]] = &[[0, 1, FREE, 1]];

    #[test]
    fn parts_of_this_file_and_of_others() {
        let files = Arc::new(Others::default());
        save_numbers(&files, "other.h5", 100, &[2, 3]);
        let mut file = Builder::new();
        let mine = numbers(&mut file, 0, &[6]);
        let row = |n: u64| [[n, 1, 1, 1], [0, 1, 1, 3]];
        let entries: &[Given<'_>] = &[
            (".", "/mine", &[[1, 2, 3, 1]], &row(0)),
            ("other.h5", "data", &row(1), &row(1)),
            ("gone.h5", "data", &row(1), &row(2)),
            ("other.h5", "no/data", &row(1), &row(3)),
            ("other.h5", "data", &[[1, 1, 1, 1], [2, 1, 1, 1]], &[[4, 1, 1, 1], [1, 1, 1, 1]]),
        ];
        let parts = virtual_dataset(&mut file, &[5, 3], entries);
        let none = virtual_dataset(&mut file, &[2], &[]);
        save(&files, "v.h5", file, &[("mine", mine), ("v", parts), ("none", none)]);
        let file = open(&files, "v.h5");
        let layout = layout_of(&file, "v").unwrap();
        assert_eq!(files.asked.load(Ordering::Relaxed), 0, "nothing is opened before it is read");
        let first = [1, 3, 5, 103, 104, 105, -1, -1, -1, -1, -1, -1, -1, 105, -1];
        assert_eq!(values(&layout).unwrap(), first);
        let asked = files.asked.load(Ordering::Relaxed);
        assert_eq!(values(&layout).unwrap(), first);
        assert_eq!(files.asked.load(Ordering::Relaxed), asked + 1, "what is missing is looked for again");
        assert_eq!(values(&layout_of(&file, "none").unwrap()).unwrap(), [-1, -1]);
        // The missing file exists now.
        save_numbers(&files, "gone.h5", 200, &[2, 3]);
        assert_eq!(values(&layout).unwrap()[6..9], [203, 204, 205]);
    }

    #[test]
    fn sources_decide_how_long_it_is() {
        let files = Arc::new(Others::default());
        for n in [0, 1, 3] {
            save_numbers(&files, &format!("f{n}.h5"), 10 * n, &[3]);
        }
        let mut file = Builder::new();
        let mine = numbers(&mut file, 50, &[7]);
        let cases: &[(&str, &[Given<'_>], &[i16])] = &[
            // From single elements to blocks of two. The last block is cut.
            (
                "a",
                &[(".", "mine", &[[0, 1, FREE, 1]], &[[1, 3, FREE, 2]])],
                &[-1, 50, 51, -1, 52, 53, -1, 54, 55, -1, 56],
            ),
            // Up to the end of the source, and a limited mapping that ends later.
            (
                "b",
                &[
                    (".", "mine", &[[5, 1, 1, FREE]], &[[0, 1, 1, FREE]]),
                    (".", "mine", &[[0, 1, 1, 1]], &[[3, 1, 1, 1]]),
                ],
                &[55, 56, -1, 50],
            ),
            // Block numbers up to the first missing file.
            ("c", &[("f%b.h5", "data", &[], &[[0, 4, FREE, 3]])], &[0, 1, 2, -1, 10, 11, 12]),
            ("d", &[("no%b.h5", "data", &[], &[[0, 4, FREE, 3]])], &[]),
            ("e", &[("gone.h5", "data", &[[0, 1, FREE, 1]], &[[0, 1, FREE, 1]])], &[]),
        ];
        let mut members = vec![("mine", mine)];
        members.extend(cases.iter().map(|(name, entries, _)| {
            // The stored extent is ignored.
            (*name, virtual_dataset(&mut file, &[2], entries))
        }));
        save(&files, "v.h5", file, &members);
        let file = open(&files, "v.h5");
        for (name, _, expected) in cases {
            let layout = layout_of(&file, name).unwrap();
            assert_eq!(layout.shape(), [expected.len() as u64], "{name}");
            assert_eq!(values(&layout).unwrap(), *expected, "{name}");
        }
    }

    #[test]
    fn virtual_sources_and_circles() {
        let files = Arc::new(Others::default());
        let mut file = Builder::new();
        let mine = numbers(&mut file, 7, &[2]);
        let next = virtual_dataset(&mut file, &[2], &[(".", "mine", &[], &[])]);
        let itself = virtual_dataset(&mut file, &[2], &[(".", "itself", &[], &[])]);
        let back = virtual_dataset(&mut file, &[2], &[("other.h5", "back", &[], &[])]);
        let length = virtual_dataset(&mut file, &[2], &[(".", "length", ALL, ALL)]);
        let mut members = vec![("mine", mine), ("itself", itself), ("back", back), ("length", length)];
        let names: Vec<String> = (0..20).map(|n| format!("v{n}")).collect();
        members.push(("v0", next));
        for pair in names.windows(2) {
            let source = virtual_dataset(&mut file, &[2], &[(".", &pair[0], &[], &[])]);
            members.push((&pair[1], source));
        }
        save(&files, "v.h5", file, &members);
        let mut other = Builder::new();
        let back = virtual_dataset(&mut other, &[2], &[("v.h5", "back", &[], &[])]);
        save(&files, "other.h5", other, &[("back", back)]);
        let file = open(&files, "v.h5");
        let layout = |name: &str| layout_of(&file, name).unwrap();
        assert_eq!(values(&layout("v14")).unwrap(), [7, 8]);
        for (name, said) in [
            ("itself", "a source of itself"),
            ("back", "a source of itself"),
            ("v19", "more than 16 levels deep"),
        ] {
            says(format!("{name}: {}", values(&layout(name)).unwrap_err()), said);
        }
        fails(layout_of(&file, "length"), "a source of itself");
    }

    #[test]
    fn levels_that_multiply_have_an_end() {
        let files = Arc::new(Others::default());
        let mut file = Builder::new();
        let mine = numbers(&mut file, 7, &[2]);
        let names: Vec<String> = (0..15).map(|n| format!("v{n}")).collect();
        let mut members = vec![("v0", mine)];
        for pair in names.windows(2) {
            // The same dataset by many names.
            let paths: Vec<String> = (0..20).map(|n| format!("{}{}", "/".repeat(n), pair[0])).collect();
            let entries: Vec<Given<'_>> = paths.iter().map(|path| (".", path.as_str(), ALL, ALL)).collect();
            members.push((&pair[1], virtual_dataset(&mut file, &[2], &entries)));
        }
        save(&files, "v.h5", file, &members);
        let file = open(&files, "v.h5");
        assert_eq!(values(&layout_of(&file, "v2").unwrap()).unwrap(), [7, 8]);
        fails(layout_of(&file, "v14"), "sources that are virtual datasets themselves");
    }

    #[test]
    fn refusals_say_what_and_where() {
        let files = Arc::new(Others::default());
        files.store.write(Key::new("junk.h5").unwrap(), &[&[7; 5000]]).unwrap();
        let mut file = Builder::new();
        let mine = numbers(&mut file, 0, &[4]);
        let group = file.header(&[link_info(false)]);
        let four: &[[u64; 4]] = &[[0, 1, 1, 4]];
        // Errors of the description, and of the read.
        let cases: &[(&str, Given<'_>, &str)] = &[
            (
                "axes",
                (".", "mine", four, &[[0, 1, 1, 4], [0, 1, 1, 1]]),
                "it has 2 axes, the virtual dataset has 1",
            ),
            ("count", (".", "mine", &[[0, 1, 1, 3]], four), "3 elements are to be the 4"),
            ("free", (".", "mine", ALL, four), "do not fit together"),
            ("free too", (".", "mine", four, ALL), "do not fit together"),
            ("number", ("f%b.h5", "mine", four, four), "do not fit together"),
            ("junk", ("junk.h5", "mine", four, four), "is not an HDF5 file"),
            ("no dataset", (".", "group", four, four), "it is not a dataset"),
            ("refused", ("/etc/x.h5", "mine", four, four), "'etc/x.h5' is not opened: so it is"),
        ];
        let mut members = vec![("mine", mine), ("group", group)];
        members.extend(
            cases.iter().map(|(name, entry, _)| (*name, virtual_dataset(&mut file, &[4], &[*entry]))),
        );
        save(&files, "v.h5", file, &members);
        let file = open(&files, "v.h5");
        for (name, _, said) in cases {
            let error = match layout_of(&file, name) {
                Err(error) => error.to_string(),
                Ok(layout) => {
                    let all = hyperslab_array::Selection::all(layout.shape());
                    assert!(explain_read(&layout, &all, 1).is_err(), "{name}");
                    values(&layout).unwrap_err().to_string()
                }
            };
            assert!(error.contains(said) && error.contains(&format!("/{name}'")), "{name}: {error}");
        }
    }

    #[test]
    fn parts_are_a_few_mib() {
        assert_eq!(usual_part(&[10, 0, 7], &[], 8).as_slice(), [10, 1, 7]);
        assert_eq!(usual_part(&[100, 1000, 1000], &[], 4).as_slice(), [1, 1000, 1000]);
        assert_eq!(usual_part(&[100, 4000, 1000], &[], 4).as_slice(), [1, 1000, 1000]);
        assert_eq!(usual_part(&[END, END, END], &[], 1 << 30).as_slice(), [1, 1, 1]);
    }

    #[test]
    fn damage_is_an_error_or_values() {
        let files = Arc::new(Others::default());
        let mut file = Builder::new();
        let mine = numbers(&mut file, 0, &[4]);
        let entries: &[Given<'_>] =
            &[(".", "mine", &[[0, 1, FREE, 1]], &[[1, 3, FREE, 2]]), (".", "x%b", &[], &[[0, 4, FREE, 3]])];
        let parts = virtual_dataset(&mut file, &[5], entries);
        save(&files, "v.h5", file, &[("mine", mine), ("v", parts)]);
        let (mut bytes, key) = (Vec::new(), Key::new("v.h5").unwrap());
        files.store.read_all(key, &mut bytes, 1 << 20).unwrap();
        for (_, damaged) in changes(&bytes, |byte| [0, 1, 0x7f, 0xff, byte ^ 1, byte ^ 0x80]) {
            files.store.write(key, &[&damaged]).unwrap();
            let options = FileOptions { verify: false, others: Some(files.clone()) };
            let Ok(file) = File::open(files.store.clone(), "v.h5", options) else { continue };
            let Ok(Node::Dataset(dataset)) = file.node("v") else { continue };
            let Ok(layout) = dataset.layout() else { continue };
            if element_count(layout.shape()).is_some_and(|count| count < 1 << 16) {
                let _ = values(&layout);
            }
        }
    }
}
