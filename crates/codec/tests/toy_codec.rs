//! A codec of each kind takes one file (`toy/`) and one line of a table, and runs in chains.

mod toy {
    pub mod delta;
    pub mod mask;
    pub mod rows;
}

use hyperslab_codec::registry::{CODECS, Make, Registration, Table};
use hyperslab_codec::{AnyCodec, ArrayCodecs, ByteOrder, ChunkCodecs, CodecChain, Context, Result, Scratch};
use serde_json::{Value, json};
use std::sync::Arc;
use toy::{delta::Delta, mask::Mask, rows::Rows};

#[rustfmt::skip]
const TOYS: Table = Table(&[
    Registration { v2: None, v3: &["toy.delta"], make: Make::ArrayToArray(|json, array| Ok(Arc::new(Delta::new(json, array)?))) },
    Registration { v2: None, v3: &["toy.rows"], make: Make::ArrayToBytes(|json, array| Ok(Arc::new(Rows::new(json, array)?))) },
    Registration { v2: Some("toy.mask"), v3: &["toy.mask", "numcodecs.toy.mask"], make: Make::BytesToBytes(|json, _| Ok(Arc::new(Mask::new(json)?))) },
]);

/// Elements of a chunk of 3 × 4.
const VALUES: [i16; 12] = [5, 5, 5, 5, -7, -6, -5, -32_768, 32_767, 0, 0, 1];

fn array() -> Context<'static> {
    Context {
        dtype: "<i2".parse().unwrap(),
        vlen: None,
        optional: None,
        shape: vec![3, 4].into(),
        fortran: false,
        by_value: true,
        fill: 5_i16.to_le_bytes().to_vec().into(),
    }
}

/// The codecs of a v3 metadata list, toys and others.
fn parse(list: &Value) -> Result<ChunkCodecs> {
    let mut arrays = ArrayCodecs::new(vec![0, 1], array());
    let (mut serializer, mut bytes_to_bytes) = (None, Vec::new());
    for json in list.as_array().unwrap() {
        let name = json["name"].as_str().unwrap();
        let table = if TOYS.v3_names().contains(&name) { TOYS } else { CODECS };
        match table.from_v3(name, json.get("configuration"), &arrays.array)? {
            AnyCodec::ArrayToArray(codec) => arrays.push(codec)?,
            AnyCodec::ArrayToBytes(codec) => serializer = Some(codec),
            AnyCodec::BytesToBytes(codec) => bytes_to_bytes.push(codec),
        }
    }
    arrays.complete(serializer.unwrap(), bytes_to_bytes)
}

fn names(codecs: &ChunkCodecs) -> Vec<&'static str> {
    codecs.codecs.iter().map(|codec| codec.name()).collect()
}

/// The chunk as the engine gives it to the codecs: axes in their order, each element in their byte
/// order.
fn moved(codecs: &ChunkCodecs) -> Vec<u8> {
    let transposed = codecs.order == [1, 0];
    let at = |n: usize| if transposed { n % 3 * 4 + n / 3 } else { n };
    let bytes = |value: i16| match codecs.stored {
        ByteOrder::Little => value.to_le_bytes(),
        ByteOrder::Big => value.to_be_bytes(),
    };
    (0..12).flat_map(|n| bytes(VALUES[at(n)])).collect()
}

/// Encodes and decodes a chunk, whole and in parts. Returns the stored bytes.
fn round_trip(codecs: &ChunkCodecs) -> Vec<u8> {
    let (chunk, mut scratch) = (moved(codecs), Scratch::default());
    let chain = CodecChain::new(codecs.codecs.clone(), array().decoded_size().unwrap());
    let (mut stored, mut out) = (Vec::new(), vec![0xA5; chunk.len()]);
    chain.encode_lent(&chunk, &mut stored, &mut scratch).unwrap();
    assert!(stored.len() <= chain.max_encoded());
    chain.decode(&stored, &mut out, &mut scratch, true).unwrap();
    assert_eq!(out, chunk, "{codecs:?}");
    for wanted in [0..0, 3..7, 20..24] {
        out.fill(0xA5);
        chain.decode_part(&stored, wanted.clone(), &mut out, &mut scratch, true).unwrap();
        assert_eq!(out[wanted.clone()], chunk[wanted]);
    }
    stored
}

#[test]
fn a_codec_of_each_kind_runs_in_a_chain() {
    let toys = json!([{"name": "toy.delta"}, {"name": "toy.rows"}, {"name": "toy.mask", "configuration": {"bits": 255}}]);
    let codecs = parse(&toys).unwrap();
    assert_eq!(names(&codecs), ["toy.delta", "toy.rows", "toy.mask"]);
    assert_eq!((codecs.order.as_slice(), codecs.stored), (&[0, 1][..], ByteOrder::Little));
    let stored = round_trip(&codecs);
    // The first row is four zeros: differences from the element before, or first from the fill
    // value.
    assert_eq!(stored[..5], [!1, !0, !0, !0, !0]);
    for codec in &codecs.codecs {
        let json = codec.to_v3().unwrap();
        assert!(toys.as_array().unwrap().iter().any(|toy| toy["name"] == json["name"]));
    }
}

#[test]
fn they_mix_with_the_others() {
    let transpose = json!({"name": "transpose", "configuration": {"order": [1, 0]}});
    let bytes = |endian: &str| json!({"name": "bytes", "configuration": {"endian": endian}});
    let delta = json!({"name": "toy.delta"});
    let gzip = json!({"name": "gzip", "configuration": {"level": 1}});

    // Only an order of axes and a byte order: no codec runs.
    let codecs = parse(&json!([transpose, bytes("big")])).unwrap();
    assert!(codecs.codecs.is_empty());
    assert_eq!((codecs.order.as_slice(), codecs.stored), (&[1, 0][..], ByteOrder::Big));

    // Before the first codec that runs, an order of axes needs no run. After it, a byte order needs
    // no run if elements are already in that order.
    let codecs = parse(&json!([transpose, delta, bytes("little"), gzip])).unwrap();
    assert_eq!(names(&codecs), ["toy.delta", "gzip"]);
    assert_eq!((codecs.order.as_slice(), codecs.stored), (&[1, 0][..], ByteOrder::Little));
    round_trip(&codecs);

    // After that codec, both run.
    let codecs = parse(&json!([delta, transpose, bytes("big")])).unwrap();
    assert_eq!(names(&codecs), ["toy.delta", "transpose", "bytes"]);
    assert_eq!((codecs.order.as_slice(), codecs.stored), (&[0, 1][..], ByteOrder::Little));
    let stored = round_trip(&codecs);
    // Differences of 0, -12 and 65 535, the first of each row.
    assert_eq!(stored[..12], [[0; 4], (-12_i32).to_be_bytes(), 65_535_i32.to_be_bytes()].concat());

    // Rows have the length that the codecs before give them.
    let codecs = parse(&json!([delta, transpose, {"name": "toy.rows"}, {"name": "crc32c"}])).unwrap();
    assert_eq!(names(&codecs), ["toy.delta", "transpose", "toy.rows", "crc32c"]);
    assert_eq!(round_trip(&codecs).len(), 4 * 13 + 4);
}

#[test]
fn tables_know_their_names() {
    assert_eq!(TOYS.v3_names(), ["toy.delta", "toy.rows", "toy.mask", "numcodecs.toy.mask"]);
    assert_eq!(TOYS.v2_names(), ["toy.mask"]);
    let mask = json!({"id": "toy.mask", "bits": 3});
    assert_eq!(TOYS.from_v2(&mask, &array()).unwrap().codec().to_v2(), Some(mask.clone()));
    let alias = TOYS.from_v3("numcodecs.toy.mask", Some(&json!({"bits": 3})), &array());
    assert_eq!(alias.unwrap().codec().to_v2(), Some(mask));
    let message = |error: Result<_>| error.map(AnyCodec::codec).unwrap_err().to_string();
    assert_eq!(
        message(TOYS.from_v2(&json!({"id": "toy.delta"}), &array())),
        "codec \"toy.delta\" is not supported (supported: toy.mask)"
    );
    let floats = Context::of_elements("<f4".parse().unwrap());
    assert!(message(TOYS.from_v3("toy.delta", None, &floats)).ends_with("of type <i2, found <f4"));
}
