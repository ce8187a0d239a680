use crate::format::v3;
use crate::metadata::Metadata;
use crate::testing::{cases, json, memory};
use crate::{ArraySpec, Choice, Format, IndexLocation, Json};
use hyperslab_array::Dims;
use hyperslab_codec::ByteOrder;

const BYTES: &str = r#"{"name": "bytes", "configuration": {"endian": "little"}}"#;
const ZSTD: &str = r#"{"name": "zstd", "configuration": {"level": 0, "checksum": false}}"#;
const INDEX: &str = r#"[{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]"#;

fn transpose(order: &str) -> String {
    format!(r#"{{"name": "transpose", "configuration": {{"order": {order}}}}}"#)
}

fn sharding(chunk: &str, codecs: &[&str]) -> String {
    format!(
        r#"{{"name": "sharding_indexed", "configuration": {{"chunk_shape": {chunk}, "codecs": [{}], "index_codecs": {INDEX}, "index_location": "end"}}}}"#,
        codecs.join(", ")
    )
}

fn document(shape: &str, grid: &str, codecs: &[&str]) -> String {
    format!(
        r#"{{"shape": {shape}, "data_type": "uint16", "chunk_grid": {{"name": "regular", "configuration": {{"chunk_shape": {grid}}}}},
        "chunk_key_encoding": {{"name": "default"}}, "fill_value": 0, "codecs": [{}], "zarr_format": 3, "node_type": "array"}}"#,
        codecs.join(", ")
    )
}

fn parse(text: &str) -> Result<Metadata, String> {
    v3::parse(&json(text).into()).map_err(|problem| problem.text())
}

fn dims(sizes: &[u64]) -> Option<Dims> {
    Some(sizes.into())
}

#[test]
fn what_zarr_python_writes() {
    let metadata = parse(&document("[10, 10]", "[4, 8]", &[&sharding("[2, 4]", &[BYTES, ZSTD])])).unwrap();
    assert_eq!((metadata.chunk.as_slice(), metadata.object_shape()), (&[2, 4][..], &[4, 8][..]));
    assert_eq!(metadata.shown_chunk(), [2, 4]);
    assert_eq!((metadata.codecs.stored, metadata.codecs.order.as_slice()), (ByteOrder::Little, &[0, 1][..]));
    assert_eq!(metadata.codecs.codecs.len(), 1);
    // The shown codecs are the chunks'.
    assert_eq!(metadata.serializer.as_ref().unwrap().to_text(None), BYTES);
    assert_eq!(metadata.compressors[0].to_text(None), ZSTD);
    let store = memory();
    let layout = metadata.layout(&store, "a", "a/zarr.json").unwrap();
    assert_eq!(layout.grid().chunk_shape(), [2, 4]);
    assert_eq!(layout.object_grid().chunk_shape(), [4, 8]);
    let level = &layout.sharding().unwrap().levels()[0];
    assert_eq!((level.counts(), level.order(), level.at_start()), (&[2, 2][..], &[0, 1][..], false));
    assert_eq!(level.index().size(), 2 * 2 * 16 + 4);
}

#[test]
fn axes_are_those_of_the_array() {
    // The axes (a, b, c) are (c, a, b) for the sharding codec, and (b, a, c) for the chunks in it.
    let inner = [transpose("[2, 1, 0]"), BYTES.to_owned()];
    let text = document(
        "[20, 30, 40]",
        "[4, 6, 8]",
        &[&transpose("[2, 0, 1]"), &sharding("[8, 2, 3]", &[&inner[0], &inner[1]]), ZSTD],
    );
    let metadata = parse(&text).unwrap();
    assert_eq!(metadata.chunk.as_slice(), [2, 3, 8]);
    assert_eq!(metadata.codecs.order, [1, 0, 2]);
    let shards = metadata.shards.as_ref().unwrap();
    let level = &shards.sharding.levels()[0];
    assert_eq!((level.shape(), level.counts()), (&[4, 6, 8][..], &[2, 2, 1][..]));
    assert_eq!(level.order(), [2, 0, 1]);
    assert_eq!(level.codecs()[0].name(), "zstd");
    assert_eq!(shards.chunk_codecs.len(), 2);
    // The shards themselves go through codecs, so these are the array's.
    assert_eq!(metadata.filters.len(), 1);
    assert!(metadata.serializer.as_ref().unwrap().to_text(None).contains("sharding_indexed"));
    assert_eq!(metadata.compressors[0].to_text(None), ZSTD);
}

#[test]
fn shards_in_shards() {
    let inner = sharding("[1, 2]", &[BYTES, ZSTD]);
    let metadata =
        parse(&document("[9, 9]", "[4, 8]", &[&sharding("[2, 4]", &[&inner, "\"crc32c\""])])).unwrap();
    assert_eq!(metadata.chunk.as_slice(), [1, 2]);
    assert_eq!((metadata.shown_chunk(), metadata.object_shape()), (&[2, 4][..], &[4, 8][..]));
    let shards = metadata.shards.as_ref().unwrap();
    let levels = shards.sharding.levels();
    assert_eq!(levels.len(), 2);
    assert_eq!((levels[0].counts(), levels[1].counts()), (&[2, 2][..], &[2, 2][..]));
    assert_eq!((levels[0].codecs().len(), levels[1].codecs()[0].name()), (0, "crc32c"));
    assert_eq!(metadata.serializer.as_ref().unwrap().to_text(None), inner);

    let nested = |depth| {
        let codec = (1..depth).fold(sharding("[1]", &[BYTES]), |inner, _| sharding("[1]", &[&inner]));
        parse(&document("[9]", "[1]", &[&codec]))
    };
    assert_eq!(nested(8).unwrap().shards.unwrap().sharding.levels().len(), 8);
    assert!(nested(9).unwrap_err().contains("nested more than 8 deep"));
}

#[test]
fn other_valid_forms() {
    let with = |from: &str, to: &str| {
        let text = document("[8, 8]", "[4, 4]", &[&sharding("[2, 2]", &[BYTES])]);
        assert!(text.contains(from));
        parse(&text.replace(from, to)).unwrap().shards.unwrap().sharding.levels()[0].clone()
    };
    assert!(!with(r#", "index_location": "end""#, "").at_start());
    assert!(with(r#""end""#, r#""start""#).at_start());
    assert_eq!(with(INDEX, &format!("[{BYTES}]")).index().size(), 64);
    let big = format!(r#"[{}, {}]"#, transpose("[2, 0, 1]"), BYTES.replace("little", "big"));
    assert_eq!(with(INDEX, &big).index().size(), 64);
    let scalar = parse(&document("[]", "[]", &[&sharding("[]", &[BYTES])])).unwrap();
    assert_eq!(scalar.shards.unwrap().sharding.levels()[0].index().count(), 1);
}

#[test]
fn documents_that_are_refused() {
    let good = sharding("[2, 2]", &[BYTES]);
    for [from, to, want] in cases(
        r#"
        [2, 2] | [3, 2] | codecs: "sharding_indexed": chunk_shape: inner chunks of shape [3, 2] do not divide shards of shape [4, 6] evenly
        [2, 2] | [2, 0] | codecs: "sharding_indexed": chunk_shape: axis 1: expected a positive integer, found 0
        [2, 2] | [2] | chunk_shape: expected 2 axes as in shape, found 1
        [2, 2] | [2, 18446744073709551616] | chunk_shape: axis 1: expected an integer
        [2, 2] | 2 | chunk_shape: expected a list of integers, found 2
        "chunk_shape": [2, 2],  |  | codecs: the configuration of "sharding_indexed" lacks chunk_shape
        "index_location": "end" | "index_location": null | codecs: "sharding_indexed": index_location: expected "start" or "end", found null
        "index_location": "end" | "index_place": "end" | unknown member "index_place"
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],  |  | lacks codecs
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}] | "codecs": [] | codecs: "sharding_indexed": codecs: expected a codec from array to bytes
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}] | "codecs": ["bytes"] | codecs: "sharding_indexed": codecs: "bytes" needs "endian" for elements of type <u2
        "codecs": [ | "codecs": ["crc32c",  | must come after "bytes"
        INDEX | [] | codecs: "sharding_indexed": index_codecs: expected a codec from array to bytes
        INDEX | ["bytes"] | index_codecs: "bytes" needs "endian"
        INDEX | 3 | index_codecs: expected a list, found 3
        INDEX | [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "zstd", "configuration": {"level": 0, "checksum": false}}] | index_codecs: index codecs must keep the size of the index fixed; found ["zstd"]
        INDEX | [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "little"}}] | index_codecs: "transpose": expected an order of 3 axes, found [1, 0]
    "#,
    ) {
        let from = from.replace("INDEX", INDEX);
        assert!(good.contains(&from), "{from}");
        let error = parse(&document("[8, 8]", "[4, 6]", &[&good.replacen(&from, to, 1)])).unwrap_err();
        assert!(error.contains(want), "{to}: {error}");
    }
    let refused = |codecs: &[&str]| parse(&document("[8, 8]", "[4, 6]", codecs)).unwrap_err();
    assert!(refused(&[BYTES, &good]).contains("found \"bytes\" and \"sharding_indexed\""));
    assert!(refused(&[&good, BYTES]).contains("found \"sharding_indexed\" and \"bytes\""));
    assert!(refused(&[&good, &transpose("[1, 0]")]).contains("cannot come after \"sharding_indexed\""));
    let inner = sharding("[2, 4]", &[BYTES]);
    assert!(refused(&[&sharding("[4, 6]", &[&inner])]).contains(
        r#"codecs: "sharding_indexed": codecs: "sharding_indexed": chunk_shape: inner chunks of shape [2, 4] do not divide shards of shape [4, 6]"#
    ));
    // If axes are reordered, so are the shapes in messages.
    assert!(
        refused(&[&transpose("[1, 0]"), &sharding("[4, 2]", &[BYTES])])
            .contains("[4, 2] do not divide shards of shape [6, 4]")
    );
    let index = good.replace(INDEX, &format!("[{good}]"));
    assert!(refused(&[&index]).contains("index_codecs: \"sharding_indexed\" has no fixed size"));
    let huge = document("[8]", "[9223372036854775807]", &[&sharding("[1]", &[BYTES])]);
    assert!(parse(&huge).unwrap_err().contains("too large"));
}

fn created(change: impl FnOnce(&mut ArraySpec)) -> Result<Json, String> {
    let mut spec = ArraySpec::new(Format::V3, &[100, 100], "<u2".parse().unwrap());
    change(&mut spec);
    let (document, _) = spec.document().map_err(|problem| problem.text())?;
    v3::parse(&document.clone().into()).map_err(|problem| problem.text())?;
    Ok(document)
}

/// Like [`created`], with these chunks and shards.
fn created_in(chunks: &[u64], shards: &[u64], change: impl FnOnce(&mut ArraySpec)) -> Result<Json, String> {
    created(|spec| {
        (spec.chunks, spec.shards) = (dims(chunks), dims(shards));
        change(spec);
    })
}

#[test]
fn new_documents() {
    if ByteOrder::NATIVE == ByteOrder::Big {
        return;
    }
    let codecs = |document: Json| document.get("codecs").unwrap().to_text(None);
    let grid =
        |document: &Json| document.get("chunk_grid").unwrap().get("configuration").unwrap().to_text(None);
    let document = created_in(&[10, 5], &[20, 20], |_| {}).unwrap();
    assert_eq!(grid(&document), r#"{"chunk_shape": [20, 20]}"#);
    assert_eq!(codecs(document), format!("[{}]", sharding("[10, 5]", &[BYTES, ZSTD])));

    let document = created_in(&[10, 5], &[20, 20], |spec| {
        spec.index_location = IndexLocation::Start;
        spec.fortran_order = true;
        spec.compressors = Choice::Set(Vec::new());
    });
    let wanted = sharding("[10, 5]", &[&transpose("[1, 0]"), BYTES]).replace("\"end\"", "\"start\"");
    assert_eq!(codecs(document.unwrap()), format!("[{wanted}]"));

    // Chosen chunks divide the shards.
    let document = created(|spec| {
        spec.shape = [1000, 1000].as_slice().into();
        spec.shards = dims(&[900, 700]);
    })
    .unwrap();
    assert_eq!(grid(&document), r#"{"chunk_shape": [900, 700]}"#);
    let mut auto = ArraySpec::new(Format::V3, &[10_000, 10_000], "<u2".parse().unwrap());
    auto.choose_shards().unwrap();
    assert_eq!((auto.chunks.clone(), auto.shards.clone()), (dims(&[625, 625]), dims(&[5000, 5000])));

    // A given serializer is kept, with every setting spelled out.
    let given = r#"{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2]}}"#;
    let document = created(|spec| {
        spec.chunks = dims(&[20, 20]);
        spec.serializer = Choice::Set(json(given));
    });
    assert_eq!(codecs(document.unwrap()), format!("[{}]", sharding("[2, 2]", &[BYTES])));
    let document = created_in(&[4, 4], &[20, 20], |spec| spec.serializer = Choice::Set(json(given)));
    let wanted = sharding("[4, 4]", &[&sharding("[2, 2]", &[BYTES])]);
    assert_eq!(codecs(document.unwrap()), format!("[{wanted}]"));
}

#[test]
fn new_arrays_that_cannot_be() {
    for (shards, why) in [
        (&[25, 20][..], "shards: expected multiples of the chunks [10, 10], found [25, 20]"),
        (&[20], "shards: expected 2 axes as in shape, found 1"),
        (&[0, 20], "shards: expected positive integers, found [0, 20]"),
    ] {
        assert_eq!(created_in(&[10, 10], shards, |_| {}).unwrap_err(), why);
    }
    let v2 = created(|spec| {
        spec.format = Format::V2;
        spec.shards = dims(&[20, 20]);
    });
    assert_eq!(v2.unwrap_err(), "shards: Zarr v2 has no shards, found [20, 20]; use Zarr v3");
    let bad = r#"{"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 2], "codecs": 3}}"#;
    let bad = created(|spec| spec.serializer = Choice::Set(json(bad)));
    assert_eq!(bad.unwrap_err(), r#"codecs: "sharding_indexed": codecs: expected a list, found 3"#);
}
