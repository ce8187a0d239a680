//! `vlen-utf8`, `vlen-bytes`, `vlen-array`: elements of variable length.
//!
//! For chunks of other objects see [`crate::objects`].
//!
//! * Specification: <https://numcodecs.readthedocs.io/en/stable/vlen.html>,
//!   <https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/vlen-utf8>
//! * v3 names: `vlen-utf8`, `vlen-bytes`; v2 ids: these and `vlen-array`
//!
//! ```
//! # let json = r#"
//! {"name": "vlen-utf8", "configuration": {}}
//! # "#;
//! # let metadata: serde_json::Value = serde_json::from_str(json).unwrap();
//! # let vlen = hyperslab_codec::Vlen::new(hyperslab_codec::VlenKind::Text, [].into());
//! # assert_eq!(hyperslab_codec::Codec::to_v3(&vlen), Some(metadata));
//! ```
//!
//! A chunk is the number of its elements, then for each element its length and its bytes. Numbers
//! have 32 bits, little-endian. For the engine an element is a [`Cell`]. Decoding puts the bytes of
//! all elements into one buffer of the request's [`Heap`] and makes cells. Encoding takes the bytes
//! that cells refer to.
//!
//! In every chunk, a value that equals the fill value gets the fill value's cell, and an empty
//! value the all-zero cell. Comparing cells is therefore enough to find chunks of fill value.

use crate::numbers::low_bits::low32;
use crate::objects::categorize_objects::Categories;
use crate::objects::cell_buffers::{Buffers, SHORT, put};
use crate::objects::json2::{self, Json2};
use crate::objects::msgpack2::{self, MsgPack2};
use crate::objects::{self, Objects};
use crate::registry::Config;
use crate::{ArrayToBytes, Cell, Codec, CodecError, Context, DataType, Heap, Racing, Result, Scratch};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The type of elements of variable length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VlenKind {
    /// Text in UTF-8.
    Text,
    /// Bytes.
    Bytes,
    /// One-dimensional arrays of elements of this type.
    Array(DataType),
    /// Any JSON values, each as its text without white space ([`crate::compact_json`]).
    Json,
    /// Any MessagePack values, each as its bytes.
    MessagePack,
}

/// The most bytes of a chunk before it is compressed.
pub(crate) const MOST: usize = u32::MAX as usize;

/// Bytes of a number: a count of elements or the length of an element.
const NUMBER: usize = size_of::<u32>();

impl VlenKind {
    /// Bytes of one item: 1, except for arrays.
    pub fn item_size(self) -> usize {
        match self {
            VlenKind::Text | VlenKind::Bytes | VlenKind::Json | VlenKind::MessagePack => 1,
            VlenKind::Array(dtype) => dtype.size(),
        }
    }

    /// The codec's name in both formats. (Text in Zarr v2 may have another one, `categorize`.)
    pub fn codec_name(self) -> &'static str {
        match self {
            VlenKind::Text => "vlen-utf8",
            VlenKind::Bytes => "vlen-bytes",
            VlenKind::Array(_) => "vlen-array",
            VlenKind::Json => json2::NAME,
            VlenKind::MessagePack => msgpack2::NAME,
        }
    }

    /// `true` if elements are Python objects: anything that JSON or MessagePack can hold.
    pub fn is_objects(self) -> bool {
        matches!(self, VlenKind::Json | VlenKind::MessagePack)
    }
}

impl std::fmt::Display for VlenKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            VlenKind::Text => f.write_str("string"),
            VlenKind::Bytes => f.write_str("bytes"),
            VlenKind::Array(dtype) => write!(f, "array of {dtype}"),
            VlenKind::Json => f.write_str("object (JSON)"),
            VlenKind::MessagePack => f.write_str("object (MessagePack)"),
        }
    }
}

/// Fails if a configuration is not empty.
fn no_fields(config: Config<'_>, name: &str) -> Result<()> {
    let fields: Map<String, Value> = config.fields(name)?;
    let unknown = fields.keys().next().map(|member| format!("unknown member {member:?}"));
    unknown.map_or(Ok(()), |why| Err(CodecError::config(name, why)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrayFields {
    dtype: String,
}

/// The codec of elements of variable length, always first in its chain.
///
/// It runs only if it is bound to the heap of a request.
#[derive(Clone, Debug)]
pub struct Vlen {
    kind: VlenKind,
    fill: Arc<[u8]>,
    /// The form in which a chunk holds objects, or `None` if a length precedes each element.
    objects: Option<Arc<dyn Objects>>,
    /// The heap for the bytes of elements.
    heap: Option<Arc<Heap>>,
}

impl Vlen {
    /// A `vlen-*` codec without a heap. `fill` is the bytes of the fill value.
    pub fn new(kind: VlenKind, fill: Arc<[u8]>) -> Self {
        Vlen { kind, fill, objects: None, heap: None }
    }

    /// Reads the Zarr v2 metadata of `json2`, `msgpack2`, or `categorize` for text of any length.
    pub fn of_objects(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let id = match config {
            Config::V2(object) => object.get("id").and_then(Value::as_str),
            Config::V3(_) => None,
        };
        let (kind, objects): (_, Arc<dyn Objects>) = match id {
            Some(json2::NAME | json2::OLD_NAME) => (VlenKind::Json, Arc::new(Json2::new(config, array)?)),
            Some(msgpack2::NAME) => (VlenKind::MessagePack, Arc::new(MsgPack2::new(config, array)?)),
            _ => (VlenKind::Text, Arc::new(Categories::new(config, array)?)),
        };
        Ok(Vlen { objects: Some(objects), ..Vlen::new(kind, array.fill.as_ref().into()) })
    }

    /// Reads the metadata of `vlen-utf8` in either format.
    pub fn text(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        no_fields(config, "vlen-utf8")?;
        Ok(Vlen::new(VlenKind::Text, array.fill.as_ref().into()))
    }

    /// Reads the metadata of `vlen-bytes` in either format.
    pub fn bytes(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        no_fields(config, "vlen-bytes")?;
        Ok(Vlen::new(VlenKind::Bytes, array.fill.as_ref().into()))
    }

    /// Reads the Zarr v2 metadata of `vlen-array`.
    pub fn array(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let ArrayFields { dtype } = config.fields("vlen-array")?;
        let item = dtype.parse().ok().filter(|item: &DataType| item.size() > 0).ok_or_else(|| {
            let why = format!("dtype: expected a type of elements, found {dtype:?}");
            CodecError::Config { name: "vlen-array".into(), why }
        })?;
        Ok(Vlen::new(VlenKind::Array(item), array.fill.as_ref().into()))
    }

    /// The type of the elements.
    pub fn kind(&self) -> VlenKind {
        self.kind
    }

    /// The bytes of the fill value.
    pub fn fill(&self) -> &[u8] {
        &self.fill
    }

    /// A heap with only the fill value, for one request.
    pub fn heap(&self) -> Heap {
        Heap::new(&self.fill)
    }

    /// The cell of the fill value, in any heap.
    pub fn fill_cell(&self) -> Cell {
        Cell { buffer: 0, len: low32(self.fill.len() as u64), offset: 0 }
    }

    /// The same codec, which takes bytes from `heap` and puts bytes there.
    pub fn bound(&self, heap: &Arc<Heap>) -> Self {
        Vlen { heap: Some(heap.clone()), ..self.clone() }
    }

    fn bound_heap(&self) -> Result<&Arc<Heap>> {
        self.heap.as_ref().ok_or(CodecError::Ragged { codec: self.name() })
    }

    /// Fails if the element cannot have these bytes.
    fn check_item(&self, cell: usize, bytes: &[u8]) -> Result<(), String> {
        match self.kind {
            VlenKind::Array(dtype) if !bytes.len().is_multiple_of(dtype.size()) => Err(format!(
                "element {cell}: expected a multiple of {} bytes (items of type {dtype}), found {} bytes",
                dtype.size(),
                bytes.len()
            )),
            _ => Ok(()),
        }
    }

    /// Implements [`Codec::decode`]. The error says why decoding failed.
    fn decode_cells(&self, heap: &Heap, src: &[u8], dst: &mut [u8]) -> Result<usize, String> {
        let (cells, _) = dst.as_chunks_mut::<{ Cell::SIZE }>();
        let (found, mut left) = number(src)
            .ok_or_else(|| format!("expected a count of {NUMBER} bytes, found {} bytes", src.len()))?;
        if found != cells.len() {
            return Err(format!("expected {} elements, found {found}", cells.len()));
        }
        // All bytes except the lengths are payload.
        let most = cells.len().checked_mul(NUMBER).and_then(|lengths| left.len().checked_sub(lengths));
        let most = most.ok_or_else(|| {
            format!(
                "expected at least {NUMBER} bytes for each of {found} elements, found {} bytes",
                src.len()
            )
        })?;
        let mut memory = heap.allocate(most);
        let payload =
            memory.as_mut().and_then(Arc::get_mut).and_then(|memory| memory.as_mut().get_mut(..most));
        let payload = payload.ok_or_else(|| format!("no memory for {most} bytes"))?;
        let mut end = 0;
        let buffer = heap.reserve().ok_or("there are too many chunks")?;
        let fill = &*self.fill;
        // Each text is valid if all together are valid and none begins within a character. One
        // check for all is faster.
        let mut begins_within = None;
        for (at, cell) in cells.iter_mut().enumerate() {
            let (len, rest) = number(left)
                .ok_or_else(|| format!("it ends before the length of element {at} of {found}"))?;
            let bytes;
            (bytes, left) = rest
                .split_at_checked(len)
                .ok_or_else(|| format!("element {at}: expected {len} bytes, found {}", rest.len()))?;
            *cell = if bytes == fill {
                self.fill_cell()
            } else if bytes.is_empty() {
                Cell::default()
            } else {
                self.check_item(at, bytes)?;
                if is_continuation(bytes) {
                    begins_within = begins_within.or(Some(at));
                }
                payload
                    .get_mut(end..end + len)
                    .ok_or_else(|| {
                        format!("element {at} of {len} bytes overlaps the lengths of later elements")
                    })?
                    .copy_from_slice(bytes);
                end += len;
                Cell { buffer, len: low32(len as u64), offset: (end - len) as u64 }
            }
            .write();
        }
        if !left.is_empty() {
            return Err(format!("{} bytes follow its {found} elements", left.len()));
        }
        if self.kind == VlenKind::Text {
            check_text(payload.get(..end).unwrap_or_default(), begins_within, |at| {
                cells.iter().position(|cell| has(cell, buffer, at))
            })?;
        }
        if let Some(memory) = memory.filter(|_| end > 0) {
            heap.put(buffer, memory);
        }
        Ok(cells.len() * Cell::SIZE)
    }

    /// Implements [`Codec::encode`]. The error says why encoding failed.
    fn encode_cells(&self, heap: &Heap, src: &[u8], dst: &mut Vec<u8>) -> Result<(), String> {
        let (cells, _) = src.as_chunks::<{ Cell::SIZE }>();
        let count = u32::try_from(cells.len()).map_err(|_| {
            format!("expected at most {} elements in a chunk, found {}", u32::MAX, cells.len())
        })?;
        let lens: u64 = cells.iter().map(|cell| u64::from(Cell::read(cell).len)).sum();
        let size = lens.saturating_add((NUMBER as u64).saturating_mul(u64::from(count) + 1));
        let room = usize::try_from(size).ok().filter(|size| *size <= MOST).ok_or_else(|| {
            format!("expected at most {MOST} bytes in the encoded chunk, found {size}: use smaller chunks")
        })?;
        let with_slack = room.saturating_add(SHORT);
        // Old bytes of another chunk may stay for now: every byte of `room` is overwritten below.
        dst.truncate(with_slack);
        let more = with_slack - dst.len();
        dst.try_reserve_exact(more).map_err(|_| format!("no memory for {size} bytes"))?;
        dst.resize(with_slack, 0);
        put(dst, 0, &count.to_le_bytes());
        let mut end = NUMBER;
        let used = Buffers::of(heap, cells);
        let mut lookup = used.lookup();
        for (at, cell) in cells.iter().enumerate() {
            let cell = Cell::read(cell);
            let (len, found) = (cell.len as usize, lookup.from(cell));
            let bytes = found.and_then(|from| from.get(..len));
            let (Some(from), Some(bytes)) = (found, bytes) else {
                return Err(format!("element {at}: it has no bytes"));
            };
            self.check_item(at, bytes)?;
            put(dst, end, &cell.len.to_le_bytes());
            end += NUMBER;
            // Most values are short, and a copy of fixed length is several times faster.
            match from.first_chunk::<SHORT>() {
                Some(short) if len <= SHORT => put(dst, end, short),
                _ => put(dst, end, bytes),
            }
            end += len;
        }
        dst.truncate(room);
        // The old values of this chunk are no longer needed.
        heap.forget(used.numbers());
        Ok(())
    }
}

impl Codec for Vlen {
    fn name(&self) -> &'static str {
        self.objects.as_ref().map_or(self.kind.codec_name(), |objects| objects.name())
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let heap = self.bound_heap()?;
        let decoded = match &self.objects {
            None => self.decode_cells(heap, src, dst),
            Some(objects) => objects::decode(&**objects, self, heap, src, dst),
        };
        decoded.map_err(|why| CodecError::corrupt(self.name(), why))
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        let heap = self.bound_heap()?;
        let encoded = match &self.objects {
            None => self.encode_cells(heap, src, dst),
            Some(objects) => objects::encode(&**objects, heap, src, dst),
        };
        encoded.map_err(|why| CodecError::Encode { codec: self.name(), why })
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    /// Metadata does not say how long elements are.
    fn max_encoded(&self, _: usize) -> usize {
        MOST
    }

    fn to_v3(&self) -> Option<Value> {
        match self.kind {
            VlenKind::Text | VlenKind::Bytes if self.objects.is_none() => {
                Some(json!({"name": self.name(), "configuration": {}}))
            }
            _ => None,
        }
    }

    fn to_v2(&self) -> Option<Value> {
        Some(match (&self.objects, self.kind) {
            (Some(objects), _) => objects.to_v2(),
            (None, VlenKind::Array(dtype)) => json!({"id": "vlen-array", "dtype": dtype.numpy()}),
            (None, kind) => json!({"id": kind.codec_name()}),
        })
    }
}

impl ArrayToBytes for Vlen {
    fn vlen(&self) -> Option<&Vlen> {
        Some(self)
    }
}

/// Reads the number at the start. Returns it and the bytes after it.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<NUMBER>()?;
    Some((u32::from_le_bytes(*number) as usize, rest))
}

/// Returns `true` if the bytes begin within a UTF-8 character.
fn is_continuation(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|byte| byte & 0xC0 == 0x80)
}

/// Returns `true` if the bytes of a cell are in this buffer and include byte `at`.
fn has(cell: &[u8; Cell::SIZE], buffer: u32, at: u64) -> bool {
    let cell = Cell::read(cell);
    cell.buffer == buffer && at.checked_sub(cell.offset).is_some_and(|within| within < u64::from(cell.len))
}

/// Checks texts that are next to each other.
///
/// `begins_within` is an element that begins within a character, if there is one. If there is none,
/// and all texts together are valid, none ends within a character either. `element_at` finds the
/// element that has a byte.
fn check_text(
    texts: &[u8],
    begins_within: Option<usize>,
    element_at: impl FnOnce(u64) -> Option<usize>,
) -> Result<(), String> {
    if let Some(at) = begins_within {
        return Err(format!("element {at} is not UTF-8: it begins within a character"));
    }
    std::str::from_utf8(texts).map(|_| ()).map_err(|error| {
        let at = element_at(error.valid_up_to() as u64).unwrap_or_default();
        format!("element {at} is not UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use proptest::prelude::*;

    const KINDS: [&str; 4] = ["text", "bytes", "<i4", ">f8"];

    fn kind(name: &str) -> VlenKind {
        match name {
            "text" => VlenKind::Text,
            "bytes" => VlenKind::Bytes,
            dtype => VlenKind::Array(dtype.parse().unwrap()),
        }
    }

    /// The bytes that numcodecs writes.
    fn stored(values: &[&[u8]]) -> Vec<u8> {
        let mut stored = (values.len() as u32).to_le_bytes().to_vec();
        for value in values {
            stored.extend_from_slice(&(value.len() as u32).to_le_bytes());
            stored.extend_from_slice(value);
        }
        stored
    }

    fn cell_bytes(heap: &Heap, cell: &[u8]) -> Vec<u8> {
        let cell = cell.try_into().unwrap();
        let buffers = Buffers::of(heap, &[cell]);
        buffers.lookup().bytes(Cell::read(&cell)).unwrap().to_vec()
    }

    /// Decodes with a new heap.
    fn decode(vlen: &Vlen, stored: &[u8], count: usize) -> Result<Vec<Vec<u8>>> {
        let heap = Arc::new(vlen.heap());
        let mut cells = vec![0xA5; count * Cell::SIZE];
        let size = vlen.bound(&heap).decode(stored, &mut cells, &mut Scratch::default())?;
        assert_eq!(size, cells.len());
        for cell in cells.chunks(Cell::SIZE) {
            let cell = Cell::read(cell.try_into().unwrap());
            if cell.len == 0 {
                assert_eq!(cell, Cell::default());
            }
            if cell.buffer == 0 && cell.len > 0 {
                assert_eq!(cell, vlen.fill_cell());
            }
        }
        Ok(cells.chunks(Cell::SIZE).map(|cell| cell_bytes(&heap, cell)).collect())
    }

    fn encode(vlen: &Vlen, values: &[&[u8]]) -> Result<Vec<u8>> {
        let heap = Arc::new(vlen.heap());
        let cells = testing::cells(heap.push(Arc::new(values.concat())).unwrap(), values);
        let mut stored = b"old".to_vec();
        vlen.bound(&heap).encode(&cells, &mut stored, &mut Scratch::default()).map(|()| stored)
    }

    #[test]
    fn the_bytes_of_numcodecs() {
        // numcodecs.VLenUTF8().encode(np.array(["a", "", "zö"], object))
        let text = Vlen::new(VlenKind::Text, [].into());
        let bytes = b"\x03\0\0\0\x01\0\0\0a\0\0\0\0\x03\0\0\0z\xc3\xb6";
        assert_eq!(encode(&text, &[b"a", b"", "zö".as_bytes()]).unwrap(), bytes);
        assert_eq!(decode(&text, bytes, 3).unwrap(), [&b"a"[..], b"", "zö".as_bytes()]);
        // numcodecs.VLenArray("<i2").encode(np.array([np.array([1, 2]), np.array([])], object))
        let array = Vlen::new(kind("<i2"), [].into());
        let bytes = b"\x02\0\0\0\x04\0\0\0\x01\0\x02\0\0\0\0\0";
        assert_eq!(encode(&array, &[b"\x01\0\x02\0", b""]).unwrap(), bytes);
        assert_eq!(decode(&array, bytes, 2).unwrap(), [&b"\x01\0\x02\0"[..], b""]);
    }

    #[test]
    fn metadata() {
        let json = |name| {
            let vlen = Vlen::new(kind(name), [].into());
            (vlen.name(), vlen.to_v2().unwrap().to_string(), vlen.to_v3().map(|json| json.to_string()))
        };
        assert_eq!(json("bytes").1, r#"{"id":"vlen-bytes"}"#);
        assert_eq!(json("text").2.unwrap(), r#"{"name":"vlen-utf8","configuration":{}}"#);
        assert_eq!(json("<i4"), ("vlen-array", r#"{"id":"vlen-array","dtype":"<i4"}"#.into(), None));
    }

    #[test]
    fn without_a_heap_it_refuses() {
        let vlen = Vlen::new(VlenKind::Text, [].into());
        let mut scratch = Scratch::default();
        let error = vlen.decode(&stored(&[b"a"]), &mut [0; 16], &mut scratch).unwrap_err();
        assert!(error.to_string().contains("read_ragged"), "{error}");
        assert!(vlen.encode(&[0; 16], &mut Vec::new(), &mut scratch).is_err());
    }

    #[test]
    fn what_cannot_be_right_is_refused() {
        let of = |name| Vlen::new(kind(name), [].into());
        let message = |name, stored: &[u8], count| decode(&of(name), stored, count).unwrap_err().to_string();
        let two = stored(&[b"ab", b"c"]);
        assert!(message("text", &two, 3).contains("expected 3 elements, found 2"));
        assert!(message("text", &two, 1).contains("expected 1 elements, found 2"));
        assert!(message("text", b"", 0).contains("expected a count of 4 bytes, found 0 bytes"));
        assert!(message("text", &[&two[..], b"\0"].concat(), 2).contains("1 bytes follow its 2 elements"));
        assert!(message("bytes", &two[..two.len() - 1], 2).contains("element 1: expected 1 bytes, found 0"));
        assert!(message("bytes", &two[..7], 2).contains("for each of 2 elements, found 7 bytes"));
        assert!(
            message("bytes", b"\x01\0\0\0\xff\xff\xff\xffab", 1)
                .contains("element 0: expected 4294967295 bytes, found 2")
        );
        // The length of the first element covers the second one.
        assert!(
            message("bytes", b"\x02\0\0\0\x04\0\0\0\0\0\0\0", 2)
                .contains("element 0 of 4 bytes overlaps the lengths")
        );
        let message = |name, values: &[&[u8]]| {
            decode(&of(name), &stored(values), values.len()).unwrap_err().to_string()
        };
        assert!(message("text", &[b"a", b"\xff", b"b"]).contains("element 1 is not UTF-8"));
        // Only together they are text.
        assert!(message("text", &[b"a\xc3", b"\xb6b"]).contains("element 1 is not UTF-8"));
        assert!(message("text", &[b"a", b"b\xc3"]).contains("element 1 is not UTF-8"));
        assert!(message("text", &[b"a\xc3", b"b"]).contains("element 0 is not UTF-8"));
        assert_eq!(decode(&of("bytes"), &stored(&[b"\xff"]), 1).unwrap(), [b"\xff"]);
        assert!(
            message("<i4", &[b"", b"12345"])
                .contains("element 1: expected a multiple of 4 bytes (items of type <i4), found 5 bytes")
        );
        assert!(encode(&of("<i4"), &[b"12345"]).unwrap_err().to_string().contains("expected a multiple of"));
    }

    #[test]
    fn cells_of_nothing_and_of_the_fill_value() {
        let vlen = Vlen::new(VlenKind::Text, (*b"xy").into());
        let heap = Arc::new(vlen.heap());
        let mut cells = [0xA5; 4 * Cell::SIZE];
        let chunk = stored(&[b"", b"xy", b"z", b"xy"]);
        vlen.bound(&heap).decode(&chunk, &mut cells, &mut Scratch::default()).unwrap();
        let cells: Vec<Cell> = cells.chunks(16).map(|cell| Cell::read(cell.try_into().unwrap())).collect();
        let z = Cell { buffer: 1, len: 1, offset: 0 };
        assert_eq!(cells, [Cell::default(), vlen.fill_cell(), z, vlen.fill_cell()]);
        assert_eq!(heap.fill(), vlen.fill_cell());
    }

    #[test]
    fn a_chunk_that_is_encoded_gives_back_what_it_was() {
        let vlen = Vlen::new(VlenKind::Bytes, [].into());
        let heap = Arc::new(vlen.heap());
        let (bound, mut scratch) = (vlen.bound(&heap), Scratch::default());
        let given = heap.push(Arc::new(b"new".to_vec())).unwrap();
        let mut cells = [0; 2 * Cell::SIZE];
        bound.decode(&stored(&[b"old", b"older"]), &mut cells, &mut scratch).unwrap();
        cells[..Cell::SIZE].copy_from_slice(&Cell { buffer: given, len: 3, offset: 0 }.write());
        let old = Cell::read(cells[Cell::SIZE..].try_into().unwrap()).buffer;
        let mut chunk = Vec::new();
        bound.encode(&cells, &mut chunk, &mut scratch).unwrap();
        assert_eq!(chunk, stored(&[b"new", b"older"]));
        assert!(heap.buffer(given).is_some() && heap.buffer(old).is_none());
        // Cells without bytes are refused.
        assert!(bound.encode(&cells, &mut chunk, &mut scratch).is_err());
        for wrong in [(given, 4, 0), (given, 1, u64::MAX), (given, 1, 3), (99, 1, 0), (0, 1, 0)] {
            let cell = Cell { buffer: wrong.0, len: wrong.1, offset: wrong.2 };
            assert!(bound.encode(&cell.write(), &mut chunk, &mut scratch).is_err(), "{cell:?}");
        }
    }

    proptest! {
        #[test]
        fn round_trips(
            texts in prop::collection::vec("\\PC{0,6}|xy", 0..40),
            name in prop::sample::select(KINDS.to_vec()),
            fill in prop::sample::select(vec!["", "xy"]),
        ) {
            let size = kind(name).item_size();
            let values: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().repeat(size)).collect();
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let vlen = Vlen::new(kind(name), fill.as_bytes().repeat(size).into());
            let chunk = stored(&values);
            prop_assert_eq!(decode(&vlen, &chunk, values.len()).unwrap(), values.clone());
            prop_assert_eq!(encode(&vlen, &values).unwrap(), chunk);
        }

        /// Changes every byte, and cuts everywhere: an error, or other values that fit; never a
        /// panic.
        #[test]
        fn damage(
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..8),
            name in prop::sample::select(KINDS.to_vec()),
        ) {
            let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            let vlen = Vlen::new(kind(name), [].into());
            let mut chunk = stored(&values);
            for at in 0..chunk.len() {
                prop_assert!(decode(&vlen, &chunk[..at], values.len()).is_err());
                for flip in [1, 4, 0x80, 0xff] {
                    chunk[at] ^= flip;
                    for count in [values.len(), values.len() + 1] {
                        if let Ok(found) = decode(&vlen, &chunk, count) {
                            prop_assert_eq!(stored(&found.iter().map(Vec::as_slice).collect::<Vec<_>>()), chunk.clone());
                        }
                    }
                    chunk[at] ^= flip;
                }
            }
        }
    }
}
