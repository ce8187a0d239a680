//! Variables of classic files, and the engine's description of them.
//!
//! All elements of a variable are one chunk. But if records of several variables alternate, each
//! record is a chunk.

use crate::edit::sink;
use crate::header::Declared;
use crate::{Attribute, Dimension, External, File, NetcdfError};
use hyperslab_array::{
    ArrayLayout, ChunkEncoding, ChunkGrid, ChunkList, ChunkLocator, Dims, FillValue, Found, LocateError,
    Location,
};
use hyperslab_codec::{ByteOrder, Codec, DataType};
use std::sync::Arc;

/// A variable of an open file.
#[derive(Clone, Debug)]
pub struct Variable {
    pub(crate) file: File,
    /// Its number in the file.
    pub(crate) number: usize,
    pub(crate) facts: Arc<Facts>,
}

/// Elements in memory, where they differ from stored ones.
#[derive(Clone, Debug)]
pub struct Form {
    /// Their type.
    pub dtype: DataType,
    /// The byte order that codecs get, or the stored one if there are no codecs.
    pub order: ByteOrder,
    /// Make stored elements of them.
    pub codecs: Vec<Arc<dyn Codec>>,
    /// Number of last axes that are a part of each element: the characters of text.
    pub joined: usize,
}

/// The facts about a variable.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) declared: Declared,
    pub(crate) shape: Vec<u64>,
    /// Bytes of a chunk.
    pub(crate) slab: u64,
    /// Bytes from one record to the next; 0 if all elements are one chunk.
    pub(crate) step: u64,
}

impl Variable {
    /// The file that holds it.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.facts.declared.name
    }

    /// Its dimensions, one per axis.
    pub fn dimensions(&self) -> impl Iterator<Item = &Dimension> {
        self.facts.declared.dimensions.iter().filter_map(|id| self.file.dimensions().get(*id))
    }

    /// Its attributes, in the order of the file.
    pub fn attributes(&self) -> &[Attribute] {
        &self.facts.declared.attributes
    }

    /// The type of its elements.
    pub fn external_type(&self) -> External {
        self.facts.declared.external
    }

    /// Elements per axis.
    pub fn shape(&self) -> &[u64] {
        &self.facts.shape
    }

    /// Elements of a chunk per axis; `None` if all elements are one chunk.
    pub fn chunk_shape(&self) -> Option<Vec<u64>> {
        let rest = self.shape().get(1..).filter(|_| self.facts.step > 0)?;
        Some([&[1], rest].concat())
    }

    /// The places of its chunks: position in the grid, offset in the file, and bytes. Fails if a
    /// chunk is not in the file.
    pub fn chunk_places(&self) -> Result<Vec<(Vec<u64>, u64, u64)>, NetcdfError> {
        let facts = &self.facts;
        if facts.shape.contains(&0) {
            return Ok(Vec::new());
        }
        let records = if facts.step > 0 { facts.shape.first().copied().unwrap_or(1) } else { 1 };
        let place = |record: u64| {
            let mut place = vec![0; facts.shape.len()];
            if let Some(first) = place.first_mut() {
                *first = record;
            }
            let (offset, len) = self.record_place(record)?;
            Ok((place, offset, len))
        };
        (0..records).map(place).collect()
    }

    /// The place of the chunk of a record, or of the chunk of all elements: offset in the file, and
    /// bytes. Fails if it is not in the file.
    pub fn record_place(&self, record: u64) -> Result<(u64, u64), NetcdfError> {
        Ok((self.chunk_offset(record)?, self.facts.slab))
    }

    /// The offset of the chunk of a record, or of the chunk of all elements.
    fn chunk_offset(&self, record: u64) -> Result<u64, NetcdfError> {
        let (facts, inner) = (&self.facts, &self.file.inner);
        let start = record.checked_mul(facts.step).and_then(|at| at.checked_add(facts.declared.begin));
        let inside = |start: &u64| start.checked_add(facts.slab).is_some_and(|end| end <= inner.size);
        start.filter(inside).ok_or_else(|| {
            let (begin, step, len, size) = (facts.declared.begin, facts.step, facts.slab, inner.size);
            self.variable_error(format!(
                "its {len} bytes at byte {begin} + {record} × {step} (record {record}) end after the end \
                 of the file, which has {size} bytes"
            ))
        })
    }

    /// The attribute `_FillValue`: one element. `None` if it is missing or has another type.
    pub fn fill_value(&self) -> Option<&[u8]> {
        let attribute = self.attributes().iter().find(|attribute| attribute.name == "_FillValue")?;
        let fits = attribute.external == self.external_type()
            && attribute.bytes.len() == self.external_type().dtype().size();
        fits.then_some(&attribute.bytes)
    }

    /// The value of unwritten elements: one stored element.
    pub(crate) fn stored_fill(&self) -> Vec<u8> {
        self.fill_value().map_or_else(|| self.external_type().default_fill(), <[u8]>::to_vec)
    }

    /// Fails if an element is behind the end of the file.
    pub(crate) fn check_inside(&self) -> Result<(), NetcdfError> {
        if self.facts.shape.contains(&0) {
            return Ok(());
        }
        let records = if self.facts.step > 0 { self.facts.shape.first().copied().unwrap_or(1) } else { 1 };
        self.chunk_offset(records.saturating_sub(1)).map(drop)
    }

    /// Like [`Variable::layout`], with other elements in memory. Only for files that are being changed.
    pub fn layout_in(&self, form: &Form) -> Result<Arc<ArrayLayout>, NetcdfError> {
        match &self.file.inner.editing {
            Some(editing) => Ok(Arc::new(sink::layout(self, editing, form)?)),
            None => Err(self.variable_error("its file is not being changed")),
        }
    }

    /// The engine's description of the variable. The fill value is the attribute's, or else the
    /// type's.
    pub fn layout(&self) -> Result<Arc<ArrayLayout>, NetcdfError> {
        if self.file.is_edited() {
            return self.layout_in(&Form::stored(self.external_type().dtype()));
        }
        let dtype = self.external_type().dtype();
        let chunk = self.chunk_shape().unwrap_or_else(|| self.shape().to_vec());
        // An array without elements has no chunks, whatever their shape.
        let chunk: Dims = chunk.into_iter().map(|n| n.max(1)).collect();
        let grid = ChunkGrid::regular(chunk.clone())
            .ok_or_else(|| self.variable_error("its chunk shape has an axis of 0 elements"))?;
        let encoding = ChunkEncoding::new(&chunk, dtype, ByteOrder::Big, &[], Vec::new());
        let encoding = encoding.map_err(|why| self.variable_error(why))?;
        let fill = FillValue::new(&self.stored_fill());
        let store = self.file.inner.store.clone();
        let locator = Arc::new(Slabs(self.clone()));
        let shape = self.shape().iter().copied().collect();
        let layout = ArrayLayout::new(self.name(), shape, dtype, grid, encoding, fill, locator, store)?;
        Ok(Arc::new(layout))
    }

    pub(crate) fn variable_error(&self, why: impl Into<String>) -> NetcdfError {
        NetcdfError::Variable { file: self.file.name(), variable: self.name().to_owned(), why: why.into() }
    }
}

/// Finds chunks by arithmetic.
#[derive(Debug)]
struct Slabs(Variable);

impl ChunkLocator for Slabs {
    fn locate(&self, wanted: ChunkList<'_>, found: &mut Found) -> Result<(), LocateError> {
        let Slabs(variable) = self;
        let (facts, inner) = (&variable.facts, &variable.file.inner);
        found.object(|key| key.push_str(&inner.key));
        for chunk in wanted.iter() {
            let record = chunk.first().copied().unwrap_or(0);
            let offset = variable.chunk_offset(record)?;
            found.chunk(Location::Range { offset, len: facts.slab, skipped: 0 });
        }
        Ok(())
    }

    fn shares_objects(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Classic, store};
    use hyperslab_array::{Index, ReadOptions, Selection, read};
    use hyperslab_store::Store;

    fn open(bytes: &[u8]) -> File {
        File::open(store(bytes), "f.nc").unwrap()
    }

    fn selected(variable: &Variable, indices: &[Index<'_>]) -> Result<Vec<u8>, String> {
        let layout = variable.layout().map_err(|error| error.to_string())?;
        let selection = Selection::new("v", layout.shape(), indices).map_err(|error| error.to_string())?;
        let memory = read(&layout, &selection, ReadOptions::default()).map_err(|error| error.to_string())?;
        Ok(memory.as_slice().to_vec())
    }

    fn all(variable: &Variable) -> Vec<u8> {
        selected(variable, &[]).unwrap()
    }

    /// Fixed variables, and records of three and of four bytes, each rounded up to four.
    fn records(version: u8, records: u64) -> Vec<u8> {
        let data: Vec<u8> = (0..=255).collect();
        Classic::new(version)
            .records(records)
            .dimension("t", 0)
            .dimension("x", 3)
            .variable("fixed", &[1], 3, &[("_FillValue", 3, &[0xff, 0xfe])], 520)
            .variable("scalar", &[], 4, &[("_FillValue", 3, &[0xff, 0xfe])], 526)
            .variable("bytes", &[0, 1], 2, &[], 530)
            .variable("ints", &[0], 4, &[], 534)
            .file(&[(512, &data)])
    }

    #[test]
    fn fixed_and_alternating_records() {
        for version in [1, 2, 5] {
            let file = open(&records(version, 3));
            let names: Vec<_> = file.variables().map(|variable| variable.name().to_owned()).collect();
            assert_eq!(names, ["fixed", "scalar", "bytes", "ints"]);
            let time = Dimension { name: "t".into(), len: 3, unlimited: true };
            assert_eq!(file.dimensions()[0], time);
            let variable = |name: &str| file.variable(name).unwrap();
            assert_eq!(all(&variable("fixed")), [8, 9, 10, 11, 12, 13]);
            assert_eq!(all(&variable("scalar")), [14, 15, 16, 17]);
            assert_eq!(all(&variable("bytes")), [18, 19, 20, 26, 27, 28, 34, 35, 36]);
            assert_eq!(all(&variable("ints")), [22, 23, 24, 25, 30, 31, 32, 33, 38, 39, 40, 41]);
            let last = [Index::At(-1), Index::Slice { start: None, stop: None, step: -2 }];
            assert_eq!(selected(&variable("bytes"), &last).unwrap(), [36, 34]);
            let layout = variable("bytes").layout().unwrap();
            assert_eq!((layout.shape(), layout.grid().chunk_shape()), (&[3, 3][..], &[1, 3][..]));
            assert_eq!((layout.dtype().to_string(), layout.fill().bytes()), ("|S1".into(), &[0][..]));
            assert_eq!(variable("bytes").dimensions().next(), Some(&time));
            assert_eq!(variable("bytes").chunk_shape(), Some(vec![1, 3]));
            let fixed = variable("fixed").layout().unwrap();
            assert_eq!((fixed.dtype().to_string(), fixed.fill().bytes()), (">i2".into(), &[0xff, 0xfe][..]));
            // A fill value of another type is ignored.
            assert_eq!(variable("scalar").fill_value(), None);
            assert_eq!(variable("scalar").layout().unwrap().fill().bytes(), External::Int.default_fill());
        }
    }

    #[test]
    fn records_of_one_variable_have_no_padding() {
        let build = |records| {
            let header = Classic::new(1).records(records).dimension("t", 0).dimension("x", 3);
            header.variable("v", &[0, 1], 1, &[], 120).file(&[(120, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])])
        };
        let variable = |records| open(&build(records)).variable("v").unwrap();
        assert_eq!(all(&variable(3)), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(variable(3).layout().unwrap().grid().chunk_shape(), [3, 3]);
        assert_eq!(variable(0).shape(), [0, 3]);
        assert_eq!(all(&variable(0)), b"");
        // Streaming: as many records as the file has.
        assert_eq!(variable(u32::MAX.into()).shape(), [3, 3]);
        let error = selected(&variable(4), &[]).unwrap_err();
        assert!(
            error.contains(
                "its 12 bytes at byte 120 + 0 × 0 (record 0) end after the end of the file, which has 131 \
                 bytes"
            ),
            "{error}"
        );
    }

    #[test]
    fn streaming_counts_records_that_are_whole() {
        // 526 + 4 bytes precede the records. Then come 238 bytes of records: 29 of 8 bytes, and one
        // that lacks two bytes of `ints`.
        let file = open(&records(1, u32::MAX.into()));
        assert_eq!(file.dimensions()[0].len, 29);
        assert_eq!(all(&file.variable("ints").unwrap())[112..], [246, 247, 248, 249]);
        // No record fits.
        let bytes = records(1, u32::MAX.into());
        assert_eq!(open(&bytes[..530]).dimensions()[0].len, 0);
    }

    #[test]
    fn what_is_beyond_the_end_is_an_error() {
        let file = open(&records(2, 1 << 31));
        let ints = file.variable("ints").unwrap();
        assert_eq!(selected(&ints, &[Index::range(28, 29)]).unwrap(), [246, 247, 248, 249]);
        let error = selected(&ints, &[Index::At(29)]).unwrap_err();
        assert!(error.contains("'f.nc'") && error.contains("variable 'ints'"), "{error}");
        let huge = Classic::new(5).records(u64::MAX - 1).dimension("t", 0).dimension("x", 1 << 61).variable(
            "v",
            &[0, 1],
            4,
            &[],
            u64::MAX,
        );
        let error = File::open(store(&huge.header()), "f.nc").unwrap_err().to_string();
        assert!(error.contains("variable 'v'") && error.contains("2⁶³"), "{error}");
        let error = File::open(store(b"CDF\x01\0\0"), "f.nc").unwrap_err().to_string();
        assert!(error.contains("expected at least 8 bytes"), "{error}");
        for other in [&b""[..], b"CD", b"CDF\x03", b"\x89HDF\r\n\x1a\n"] {
            assert!(matches!(File::open(store(other), "f.nc"), Err(NetcdfError::NotNetcdf { .. })));
            assert!(!File::is_netcdf3(&*store(other), "f.nc").unwrap());
        }
        assert!(File::is_netcdf3(&*store(&records(5, 1)), "f.nc").unwrap());
        assert!(matches!(File::open(store(b""), "g"), Err(NetcdfError::NotNetcdf { .. })));
    }

    #[test]
    fn headers_longer_than_the_first_read() {
        let text = vec![b'x'; 300_000];
        let header = Classic::new(5).attribute("long", 2, &text).variable("v", &[], 11, &[], 400_000);
        let file = open(&header.file(&[(400_000, &[0, 0, 0, 0, 0, 0, 1, 2])]));
        assert_eq!(file.attributes()[0].bytes, text);
        assert_eq!(all(&file.variable("v").unwrap()), [0, 0, 0, 0, 0, 0, 1, 2]);
    }

    /// Reading gives values or an error, whatever is in the header.
    #[test]
    fn any_byte_changed() {
        for version in [1, 2, 5] {
            let bytes = records(version, 3);
            for at in 0..512 {
                for value in [0, 1, 0x7f, 0xff, bytes[at].wrapping_add(1)] {
                    let mut bytes = bytes.clone();
                    bytes[at] = value;
                    let store: Arc<dyn Store> = store(&bytes);
                    let Ok(file) = File::open(store, "f.nc") else { continue };
                    for variable in file.variables() {
                        let first: Vec<_> = variable.shape().iter().map(|_| Index::range(0, 1)).collect();
                        let _ = selected(&variable, &first);
                        if hyperslab_array::element_count(variable.shape()).is_some_and(|count| count < 1000)
                        {
                            let _ = selected(&variable, &[]);
                        }
                    }
                }
            }
        }
    }
}
