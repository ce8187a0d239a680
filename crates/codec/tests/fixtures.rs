//! Chunks that all versions of numcodecs encoded:
//! <https://github.com/zarr-developers/numcodecs/tree/main/fixture>.
//!
//! The corpus is not part of the repository. `HYPERSLAB_CORPORA` names the folder that holds
//! `zarr/numcodecs-fixture`; the default is `shared/corpora` beside the checkout. Without the
//! corpus nothing is tested.

use hyperslab_codec::{CodecChain, Context, Scratch, registry};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const CODECS: [&str; 6] = ["zlib", "gzip", "zstd", "lz4", "blosc", "crc32c"];

fn corpus() -> PathBuf {
    let root = match std::env::var_os("HYPERSLAB_CORPORA") {
        Some(root) => PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora"),
    };
    root.join("zarr/numcodecs-fixture")
}

/// The entries of a folder whose names start with a prefix, sorted.
fn entries(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix))
        .collect();
    found.sort();
    found
}

/// Reads an array in NumPy's `.npy` format. Returns its type string, and its bytes in memory order,
/// which numcodecs encodes (Fortran order included).
fn read_npy(path: &Path) -> (String, Vec<u8>) {
    let file = fs::read(path).unwrap();
    assert_eq!(&file[..6], b"\x93NUMPY");
    let (start, len) = match file[6] {
        1 => (10, u16::from_le_bytes([file[8], file[9]]) as usize),
        _ => (12, u32::from_le_bytes([file[8], file[9], file[10], file[11]]) as usize),
    };
    let header = std::str::from_utf8(&file[start..start + len]).unwrap();
    let descr = header.split("'descr': '").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
    (descr.to_owned(), file[start + len..].to_vec())
}

#[test]
fn numcodecs_fixtures_decode_to_the_same_bytes() {
    let corpus = corpus();
    if !corpus.is_dir() {
        println!("skipped: there is no {}", corpus.display());
        return;
    }
    let mut scratch = Scratch::default();
    for name in CODECS {
        let folder = corpus.join(name);
        let arrays: Vec<_> =
            entries(&folder, "array.").iter().map(|path| (path.clone(), read_npy(path))).collect();
        let mut compared = 0;
        for codec_folder in entries(&folder, "codec.") {
            let text = fs::read_to_string(codec_folder.join("config.json")).unwrap();
            let config: Value = serde_json::from_str(&text).unwrap();
            for (path, (descr, expected)) in &arrays {
                let number = path.file_stem().unwrap().to_str().unwrap().strip_prefix("array.").unwrap();
                let encoded = codec_folder.join(format!("encoded.{number}.dat"));
                let stored = fs::read(&encoded).unwrap();
                let array = Context::of_elements(descr.parse().unwrap());
                let codec = registry::CODECS
                    .from_v2(&config, &array)
                    .unwrap_or_else(|error| panic!("{}: {error}", codec_folder.display()))
                    .codec();
                let chain = CodecChain::new(vec![codec], expected.len());
                assert!(stored.len() <= chain.max_encoded(), "{}", encoded.display());
                let mut out = vec![0; expected.len()];
                chain
                    .decode(&stored, &mut out, &mut scratch, true)
                    .unwrap_or_else(|error| panic!("{}: {error}", encoded.display()));
                assert!(&out == expected, "{}", encoded.display());
                compared += 1;
                // Our encoding reads back. Snappy is not written.
                let mut again = Vec::new();
                if config.get("cname").and_then(Value::as_str) == Some("snappy") {
                    assert!(chain.encode(expected, &mut again, &mut scratch).is_err());
                    continue;
                }
                chain.encode(expected, &mut again, &mut scratch).unwrap();
                out.fill(0);
                chain.decode(&again, &mut out, &mut scratch, true).unwrap();
                assert!(&out == expected, "{} written again", encoded.display());
            }
        }
        println!("{name}: {compared} chunks compared");
        assert!(compared > 0, "{name}: nothing compared");
    }
}
