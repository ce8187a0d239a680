//! An array-to-array codec: the difference of each element from the one before it.
//!
//! It turns `<i2` into `<i4`, so it must know the elements and the fill value.

use hyperslab_codec::registry::Config;
use hyperslab_codec::{ArrayToArray, Codec, CodecError, Context, DataType, Racing, Result, Scratch};
use serde_json::{Value, json};

#[derive(Debug)]
pub struct Delta {
    first: i16,
}

impl Delta {
    pub fn new(config: Config<'_>, array: &Context<'_>) -> Result<Self> {
        let _: serde_json::Map<String, Value> = config.fields("toy.delta")?;
        let refuse = |why: String| CodecError::Config { name: "toy.delta".into(), why };
        match array.fill.as_ref().try_into() {
            Ok(fill) if array.dtype.to_string() == "<i2" => Ok(Delta { first: i16::from_le_bytes(fill) }),
            _ => Err(refuse(format!("expected elements of type <i2, found {}", array.dtype))),
        }
    }

    fn wide() -> DataType {
        "<i4".parse().unwrap()
    }
}

impl Codec for Delta {
    fn name(&self) -> &'static str {
        "toy.delta"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let (room, size) = (dst.len() as u64, src.len() / 2);
        if !src.len().is_multiple_of(4) || dst.len() < size {
            return Err(CodecError::Size { codec: "toy.delta", expected: room, found: size as u64 });
        }
        let mut last = i32::from(self.first);
        for (to, from) in dst.chunks_exact_mut(2).zip(src.chunks_exact(4)) {
            last += i32::from_le_bytes(from.try_into().unwrap());
            to.copy_from_slice(&(last as i16).to_le_bytes());
        }
        Ok(size)
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        dst.clear();
        let mut last = i32::from(self.first);
        for from in src.chunks_exact(2) {
            let value = i32::from(i16::from_le_bytes(from.try_into().unwrap()));
            dst.extend_from_slice(&(value - last).to_le_bytes());
            last = value;
        }
        Ok(())
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded.saturating_mul(2)
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": "toy.delta", "configuration": {}}))
    }
}

impl ArrayToArray for Delta {
    fn encoded<'a>(&self, array: &Context<'a>) -> Context<'a> {
        Context { dtype: Self::wide(), fill: vec![0; 4].into(), ..array.clone() }
    }
}
