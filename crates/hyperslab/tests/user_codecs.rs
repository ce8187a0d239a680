//! Tests codecs that a program registers, from metadata to elements.

use hyperslab::codec::registry::{Config, Make, Registration, register};
use hyperslab::codec::{ArrayToArray, ArrayToBytes, Codec, CodecError, Context, Result, Scratch};
use hyperslab::prelude::*;
use hyperslab::{Choice, Json};
use serde_json::{Value, json};
use std::sync::Arc;

/// A codec of any kind that flips some bits of each byte.
#[derive(Debug)]
struct Flip {
    name: &'static str,
    bits: u8,
}

impl Flip {
    fn new(name: &'static str, config: Config<'_>, _: &Context<'_>) -> Result<Arc<Self>> {
        let fields: serde_json::Map<String, Value> = config.fields(name)?;
        let bits = fields.get("bits").and_then(Value::as_u64).and_then(|bits| u8::try_from(bits).ok());
        let why = || CodecError::Config { name: name.into(), why: "expected \"bits\"".into() };
        Ok(Arc::new(Flip { name, bits: bits.ok_or_else(why)? }))
    }
}

impl Codec for Flip {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decode(&self, src: &[u8], dst: &mut [u8], _: &mut Scratch) -> Result<usize> {
        let (expected, found) = (dst.len() as u64, src.len() as u64);
        let dst = dst.get_mut(..src.len()).ok_or(CodecError::Size { codec: self.name, expected, found })?;
        dst.iter_mut().zip(src).for_each(|(to, from)| *to = from ^ self.bits);
        Ok(src.len())
    }

    fn encode(&self, src: &[u8], dst: &mut Vec<u8>, _: &mut Scratch) -> Result<()> {
        dst.clear();
        dst.extend(src.iter().map(|byte| byte ^ self.bits));
        Ok(())
    }

    fn to_v3(&self) -> Option<Value> {
        Some(json!({"name": self.name, "configuration": {"bits": self.bits}}))
    }

    fn to_v2(&self) -> Option<Value> {
        Some(json!({"id": self.name, "bits": self.bits}))
    }
}

impl ArrayToArray for Flip {}
impl ArrayToBytes for Flip {}

#[rustfmt::skip]
const CODECS: [Registration; 3] = [
    Registration { v2: Some("flip"), v3: &["flip"], make: Make::BytesToBytes(|json, array| Ok(Flip::new("flip", json, array)?)) },
    Registration { v2: None, v3: &["flip.array"], make: Make::ArrayToArray(|json, array| Ok(Flip::new("flip.array", json, array)?)) },
    Registration { v2: None, v3: &["flip.bytes"], make: Make::ArrayToBytes(|json, array| Ok(Flip::new("flip.bytes", json, array)?)) },
];

fn flip(name: &str, bits: u32) -> Json {
    Json::from([("name", name.into()), ("configuration", Json::from([("bits", bits.into())]))])
}

#[test]
fn arrays_are_written_and_read_with_registered_codecs() {
    let directory = tempfile::tempdir().unwrap();
    let location = |name: &str| directory.path().join(name).display().to_string();
    let values: Vec<i32> = (0..35).collect();

    let root = Group::create(&location("v3"), Format::ZarrV3).unwrap();
    let mut spec = ArraySpec::new(Format::ZarrV3.zarr().unwrap(), &[5, 7], "<i4".parse().unwrap());
    spec.chunks = Some([2, 7].as_slice().into());
    spec.filters = Choice::Set(vec![flip("flip.array", 1)]);
    spec.serializer = Choice::Set(flip("flip.bytes", 2));
    spec.compressors = Choice::Set(vec![flip("flip", 0x80)]);
    let refused = root.create_array("early", &spec).unwrap_err().to_string();
    assert!(refused.contains("codec \"flip.array\" is not supported"), "{refused}");

    CODECS.iter().for_each(|codec| register(*codec).unwrap());
    assert!(CODECS.iter().all(|codec| register(*codec).is_err()));

    let array = root.create_array("a", &spec).unwrap();
    array.write_slice(&[Index::ALL, Index::ALL], &values).unwrap();
    let stored = std::fs::read(directory.path().join("v3/a/c/0/0")).unwrap();
    let flipped = |bits: u8| -> Vec<u8> {
        values[..14].iter().flat_map(|n| n.to_le_bytes()).map(|byte| byte ^ bits).collect()
    };
    assert_eq!(stored, flipped(0x83));
    let again = hyperslab::open(&location("v3/a")).unwrap().into_array().unwrap();
    assert_eq!(again.read_vec::<i32>(&[]).unwrap(), values);
    // A copy in the same format has the same compressors: those after the serializer.
    let source = hyperslab::open(&location("v3")).unwrap();
    hyperslab::copy::copy(&source, &location("again"), &hyperslab::copy::CopyOptions::default()).unwrap();
    let copied = std::fs::read(directory.path().join("again/a/c/0/0")).unwrap();
    assert_eq!(copied, flipped(0x80));

    let root = Group::create(&location("v2"), Format::ZarrV2).unwrap();
    let mut spec = ArraySpec::new(Format::ZarrV2.zarr().unwrap(), &[35], "<i4".parse().unwrap());
    spec.compressors = Choice::Set(vec![Json::from([("id", "flip".into()), ("bits", 7_u32.into())])]);
    let array = root.create_array("a", &spec).unwrap();
    array.write_slice(&[Index::ALL], &values).unwrap();
    assert_eq!(array.read_vec::<i32>(&[Index::At(9)]).unwrap(), [9]);
}
