//! A bytes-to-bytes codec: flips some bits of every byte.

use hyperslab_codec::registry::Config;
use hyperslab_codec::{Codec, CodecError, Racing, Result, Scratch};
use serde_json::{Value, json};

#[derive(Debug)]
pub struct Mask {
    bits: u8,
}

impl Mask {
    pub fn new(config: Config<'_>) -> Result<Self> {
        let fields: serde_json::Map<String, Value> = config.fields("toy.mask")?;
        let bits = fields.get("bits").and_then(Value::as_u64).and_then(|bits| u8::try_from(bits).ok());
        let why = || CodecError::Config { name: "toy.mask".into(), why: "expected \"bits\"".into() };
        bits.map(|bits| Mask { bits }).ok_or_else(why)
    }
}

impl Codec for Mask {
    fn name(&self) -> &'static str {
        "toy.mask"
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let (expected, found) = (dst.len() as u64, src.len() as u64);
        let dst = dst.get_mut(..src.len()).ok_or(CodecError::Size { codec: "toy.mask", expected, found })?;
        dst.iter_mut().zip(src).for_each(|(to, from)| *to = from ^ self.bits);
        Ok(src.len())
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        dst.clear();
        dst.extend(src.iter().map(|byte| byte ^ self.bits));
        Ok(())
    }

    fn racing(&self) -> Racing {
        Racing::Mixes
    }

    fn max_encoded(&self, decoded: usize) -> usize {
        decoded
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": "toy.mask", "configuration": {"bits": self.bits}}))
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({"id": "toy.mask", "bits": self.bits}))
    }
}
