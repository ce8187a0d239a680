//! Chunks of Python objects: code shared by all their forms.
//!
//! An element is a cell, as in the `vlen-*` codecs. Its bytes are one value in the form of the
//! chunk (JSON, MessagePack), or text.

pub(crate) mod categorize_objects;
pub(crate) mod cell_buffers;
pub(crate) mod heap;
pub(crate) mod json2;
pub(crate) mod json_text;
pub mod message_pack;
pub(crate) mod msgpack2;
pub(crate) mod plain_objects;
pub(crate) mod vlen;

use crate::objects::cell_buffers::Buffers;
use crate::objects::vlen::MOST;
use crate::{Cell, Context, Heap, Vlen};
use serde_json::Value;
use std::fmt::Debug;
use std::sync::Arc;

/// Gets the bytes of an element, and where they begin.
pub(crate) type Each<'a> = dyn FnMut(&[u8], usize) -> Result<(), String> + 'a;

/// A form in which chunks hold objects.
pub(crate) trait Objects: Debug + Send + Sync {
    /// The codec's name.
    fn name(&self) -> &'static str;

    /// The most bytes that [`Objects::split`] puts into `values` for a chunk of `stored` bytes.
    fn most_values(&self, stored: usize) -> usize;

    /// Puts the bytes of all elements into `values`, which is empty and has room for them.
    ///
    /// Calls `each` for every element, in the chunk's order, with its bytes and where they begin.
    /// The error says why splitting failed.
    fn split(&self, chunk: &[u8], values: &mut Vec<u8>, each: &mut Each<'_>) -> Result<(), String>;

    /// Makes a chunk from the bytes of its elements, in the empty `chunk`. The error says why it
    /// failed.
    fn join(&self, elements: &[&[u8]], chunk: &mut Vec<u8>) -> Result<(), String>;

    /// The metadata.
    fn to_v2(&self) -> Value;
}

/// The lengths of a chunk's nested lists, outermost first. A single element without axes is in one
/// list.
pub(crate) fn lists(shape: &[u64]) -> &[u64] {
    if shape.is_empty() { &[1] } else { shape }
}

/// NumPy's name of the element type, as stored in a chunk.
pub(crate) fn type_name(array: &Context<'_>) -> String {
    if array.vlen.is_some() { "|O".into() } else { array.dtype.numpy() }
}

/// Adds the element's number to a message.
pub(crate) fn element_of(number: usize) -> impl Fn(String) -> String {
    move |why| format!("element {number} of the chunk: {why}")
}

/// Decodes a chunk to cells.
pub(crate) fn decode(
    objects: &dyn Objects,
    vlen: &Vlen,
    heap: &Heap,
    src: &[u8],
    dst: &mut [u8],
) -> Result<usize, String> {
    let (cells, _) = dst.as_chunks_mut::<{ Cell::SIZE }>();
    let buffer = heap.reserve().ok_or("there are too many chunks")?;
    let most = objects.most_values(src.len());
    let mut values = Vec::new();
    values.try_reserve_exact(most).map_err(|_| format!("no memory for {most} bytes"))?;
    let (count, mut found) = (cells.len(), 0);
    let mut places = cells.iter_mut();
    objects.split(src, &mut values, &mut |bytes, start| {
        let place = places.next().ok_or_else(|| format!("expected {count} elements, found more"))?;
        found += 1;
        *place = if bytes == vlen.fill() {
            vlen.fill_cell()
        } else if bytes.is_empty() {
            Cell::default()
        } else {
            let len = u32::try_from(bytes.len()).map_err(|_| {
                format!("expected at most {} bytes in an element, found {}", u32::MAX, bytes.len())
            })?;
            Cell { buffer, len, offset: start as u64 }
        }
        .write();
        Ok(())
    })?;
    if found != count {
        return Err(format!("expected {count} elements, found {found}"));
    }
    heap.put(buffer, Arc::new(values));
    Ok(count * Cell::SIZE)
}

/// Encodes cells to a chunk.
pub(crate) fn encode(
    objects: &dyn Objects,
    heap: &Heap,
    src: &[u8],
    dst: &mut Vec<u8>,
) -> Result<(), String> {
    let (cells, _) = src.as_chunks::<{ Cell::SIZE }>();
    let used = Buffers::of(heap, cells);
    let mut lookup = used.lookup();
    let elements = cells.iter().enumerate().map(|(at, cell)| {
        let cell = Cell::read(cell);
        lookup.bytes(cell).ok_or_else(|| format!("element {at}: it has no bytes"))
    });
    let elements: Vec<&[u8]> = elements.collect::<Result<_, _>>()?;
    dst.clear();
    objects.join(&elements, dst)?;
    if dst.len() > MOST {
        return Err(format!(
            "expected at most {MOST} bytes in the encoded chunk, found {}: use smaller chunks",
            dst.len()
        ));
    }
    // The old values of this chunk are no longer needed.
    heap.forget(used.numbers());
    Ok(())
}

/// Helpers for the tests of all forms.
#[cfg(test)]
pub(crate) mod testing {
    use crate::objects::cell_buffers::Buffers;
    use crate::registry::Config;
    use crate::testing::cells;
    use crate::{Cell, Codec, Context, DataType, Result, Scratch, Vlen, VlenKind};
    use serde_json::Value;
    use std::sync::Arc;

    /// A codec with these settings.
    pub(crate) fn vlen(
        kind: VlenKind,
        id: &str,
        settings: Value,
        shape: &[u64],
        fill: &[u8],
    ) -> Result<Vlen> {
        let mut object = settings.as_object().unwrap().clone();
        object.insert("id".into(), id.into());
        let array = Context {
            vlen: Some(kind),
            shape: shape.into(),
            fill: fill.into(),
            ..Context::of_elements(DataType::CELL)
        };
        Vlen::of_objects(Config::V2(&Value::Object(object)), &array)
    }

    /// Decodes with a new heap.
    pub(crate) fn decode(vlen: &Vlen, chunk: &[u8], count: usize) -> Result<Vec<Vec<u8>>> {
        let heap = Arc::new(vlen.heap());
        let mut cells = vec![0xA5; count * Cell::SIZE];
        vlen.bound(&heap).decode(chunk, &mut cells, &mut Scratch::default())?;
        let bytes = cells.chunks(Cell::SIZE).map(|cell| {
            let stored = cell.try_into().unwrap();
            let cell = Cell::read(&stored);
            assert!(cell.len > 0 || cell == Cell::default());
            let bytes = Buffers::of(&heap, &[stored]).lookup().bytes(cell).unwrap().to_vec();
            assert_eq!(bytes == vlen.fill(), cell == vlen.fill_cell());
            bytes
        });
        Ok(bytes.collect())
    }

    pub(crate) fn encode(vlen: &Vlen, values: &[&[u8]]) -> Result<Vec<u8>> {
        let heap = Arc::new(vlen.heap());
        let cells = cells(heap.push(Arc::new(values.concat())).unwrap(), values);
        let mut chunk = b"old".to_vec();
        vlen.bound(&heap).encode(&cells, &mut chunk, &mut Scratch::default()).map(|()| chunk)
    }

    /// Changes every byte, and cuts the chunk everywhere.
    ///
    /// Each change gives an error, or other values that encode to the same chunk or an equal one.
    /// None panics.
    pub(crate) fn withstands_damage(vlen: &Vlen, chunk: &[u8], count: usize) {
        let mut chunk = chunk.to_vec();
        for at in 0..chunk.len() {
            assert!(decode(vlen, &chunk[..at], count).is_err(), "{at}");
            for flip in [1, 2, 4, 0x10, 0x80, 0xff] {
                chunk[at] ^= flip;
                if let Ok(values) = decode(vlen, &chunk, count) {
                    let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                    let again = encode(vlen, &values).unwrap();
                    assert_eq!(decode(vlen, &again, count).unwrap(), values);
                }
                chunk[at] ^= flip;
            }
        }
    }
}
