//! An array-to-bytes codec: stores a row of equal values as one value.
//!
//! It must know the shape of the chunk.

use hyperslab_codec::registry::Config;
use hyperslab_codec::{ArrayToBytes, Codec, CodecError, Context, Result, Scratch};
use serde_json::{Value, json};

#[derive(Debug)]
pub struct Rows {
    element: usize,
    row: usize,
}

impl Rows {
    pub fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let _: serde_json::Map<String, Value> = config.fields("toy.rows")?;
        let element = array.dtype.size();
        Ok(Rows { element, row: element * array.shape.last().map_or(1, |n| *n as usize) })
    }
}

impl Codec for Rows {
    fn name(&self) -> &'static str {
        "toy.rows"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let mut rest = src;
        for row in dst.chunks_exact_mut(self.row) {
            let size = match rest.split_off_first() {
                Some(0) => row.len(),
                _ => self.element,
            };
            let Some(values) = rest.split_off(..size) else {
                return Err(CodecError::Corrupt { codec: "toy.rows", why: "truncated".into() });
            };
            row.chunks_exact_mut(size).for_each(|to| to.copy_from_slice(values));
        }
        match rest {
            [] => Ok(dst.len()),
            _ => Err(CodecError::Corrupt { codec: "toy.rows", why: "bytes follow".into() }),
        }
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        dst.clear();
        for row in src.chunks_exact(self.row) {
            let one = row.chunks_exact(self.element).all(|value| value == &row[..self.element]);
            dst.push(u8::from(one));
            dst.extend_from_slice(if one { &row[..self.element] } else { row });
        }
        Ok(())
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded.saturating_add(decoded / self.row.max(1))
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": "toy.rows", "configuration": {}}))
    }
}

impl ArrayToBytes for Rows {}
