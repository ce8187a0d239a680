//! Stores of references: a document gives the place of each key's bytes in other objects.
//!
//! kerchunk, VirtualiZarr and [`references`](crate::references) write such documents, to read
//! chunks of HDF5 files and many other formats as Zarr. A location with a name that ends in `.json`
//! leads to or into a document, if the object is one. A location with a name that ends in `.parq`
//! or `.parquet` leads to or into a folder of Parquet files with references.
//!
//! | file | concept |
//! |---|---|
//! | `document` | JSON, versions 0 and 1 |
//! | `generate`, `template` | references by rules, `{{name}}` in URLs |
//! | `refs` | millions of references in little memory |
//! | `records`, `parquet` | a folder of Parquet files, read as they are needed; one such file |
//! | `source` | a document or a folder |
//! | `fsspec` | `reference://` with fsspec's options |
//! | `targets` | which objects may be read, and from which stores |
//! | `store` | the store |

mod document;
mod fsspec;
mod generate;
mod pages;
mod parquet;
mod records;
mod refs;
mod source;
mod store;
mod targets;
mod template;

use super::{Intent, Reached, StoreOptions, local, reach_store};
use crate::{Error, Result};
use document::Failure;
pub(super) use fsspec::Reference;
use fsspec::Remote;
use hyperslab_store::{Key, Store};
use records::Records;
use source::Source;
use std::path::Path;
use std::sync::Arc;
use store::ReferenceStore;
use targets::Targets;

/// The largest document to read. Ten million references take about 1 GB.
const LARGEST: usize = 4 << 30;

/// Replaces a reached document of references by the store of its references.
pub(super) fn open_references(reached: Reached, options: StoreOptions<'_>) -> Result<Reached> {
    if options.intent != Intent::Open {
        return Ok(reached);
    }
    Ok(in_document(&reached, options, None)?.unwrap_or(reached))
}

/// The store of references in a reached document. `None`: it is something else.
fn in_document(
    reached: &Reached,
    options: StoreOptions<'_>,
    remote: Option<&Remote>,
) -> Result<Option<Reached>> {
    let Some(key) = document_in(reached) else { return Ok(None) };
    let store = document_at(&reached.store, &key, options.storage, remote)?;
    let inside = reached.path.get(key.len()..).unwrap_or_default().trim_start_matches('/');
    Ok(store.map(|store| Reached::new(Arc::new(store), inside)))
}

/// The largest metadata document in a folder of Parquet files.
const LARGEST_METADATA: usize = 1 << 30;

/// The store of references in a folder of Parquet files that a location leads to or into.
/// `None`: the location leads elsewhere.
pub(super) fn in_folder(location: &str, options: StoreOptions<'_>) -> Result<Option<Reached>> {
    if options.intent != Intent::Open || location.contains("::") || location.starts_with("reference://") {
        return Ok(None);
    }
    in_folder_with(location, options, None)
}

/// Like [`in_folder`]. `remote`: how to reach targets.
fn in_folder_with(
    location: &str,
    options: StoreOptions<'_>,
    remote: Option<&Remote>,
) -> Result<Option<Reached>> {
    let place = location.find("://").map_or(0, |at| at + 3);
    let is_web = location.starts_with("http");
    let (path, query) = match location.find('?').filter(|_| is_web) {
        Some(at) => location.split_at(at),
        None => (location, ""),
    };
    let Some((above, name, inside)) = path.get(place..).and_then(folder_in) else { return Ok(None) };
    let above = match (place, above) {
        (0, "") => ".".to_owned(),
        (0, "/") => "/".to_owned(),
        (_, "" | "/") if is_web => return Ok(None),
        (_, above) => format!("{}{above}{query}", path.get(..place).unwrap_or_default()),
    };
    let Ok(reached) = reach_store(&above, options) else { return Ok(None) };
    folder(reached, name, inside, options, remote)
}

/// Like [`in_folder`], for a local path.
pub(super) fn in_local_folder(path: &Path, options: StoreOptions<'_>) -> Result<Option<Reached>> {
    let Some((above, name, inside)) = path.to_str().and_then(folder_in) else { return Ok(None) };
    if options.intent != Intent::Open {
        return Ok(None);
    }
    let above = if above.is_empty() { Path::new(".") } else { Path::new(above) };
    let Ok(reached) = local::reach_path(above, options) else { return Ok(None) };
    folder(reached, name, inside, options, None)
}

/// Returns `true` if a name ends like a folder of references.
fn is_folder_name(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    matches!(ending.as_deref(), Some("parq" | "parquet"))
}

/// Returns `true` if a name ends like a document or a folder of references.
pub(super) fn is_reference_name(name: &str) -> bool {
    is_folder_name(name)
        || Path::new(name).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
}

/// Splits a path at the first name that ends like a folder of references.
/// Returns the path above, the name, and the path inside.
fn folder_in(path: &str) -> Option<(&str, &str, &str)> {
    let mut start = 0;
    for name in path.split('/') {
        let end = start + name.len();
        if is_folder_name(name) {
            let above = path.get(..start)?;
            let above = if above == "/" { above } else { above.trim_end_matches('/') };
            return Some((above, name, path.get(end..)?.trim_matches('/')));
        }
        start = end + 1;
    }
    None
}

/// The references in the folder `name` below a reached path.
fn folder(
    above: Reached,
    name: &str,
    inside: &str,
    options: StoreOptions<'_>,
    remote: Option<&Remote>,
) -> Result<Option<Reached>> {
    let Reached { store, path, object } = above;
    let prefix = format!("{path}/{name}").trim_start_matches('/').to_owned();
    let key = format!("{prefix}/.zmetadata");
    let Ok(checked) = Key::new(&key) else { return Ok(None) };
    let mut text = Vec::new();
    if object.is_some() || !store.read_all(checked, &mut text, LARGEST_METADATA)? {
        return Ok(None);
    }
    let url = format!("{}/{prefix}", store.url().trim_end_matches('/'));
    let records = Records::parse(store.clone(), &prefix, url.clone(), &text)
        .map_err(|why| Error::References { url: url.clone(), why })?;
    // References are relative to the parent of the folder or document.
    let targets = Targets::around(store, &prefix, options.storage, remote);
    let store = records.map(|records| ReferenceStore::new(url, Source::Folder(records), targets));
    Ok(store.map(|store| Reached::new(Arc::new(store), inside)))
}

fn is_document_name(name: &str) -> bool {
    name.len()
        .checked_sub(5)
        .and_then(|dot| name.get(dot..))
        .is_some_and(|end| end.eq_ignore_ascii_case(".json"))
}

/// The key of a possible document that a path leads to or into.
fn document_in(reached: &Reached) -> Option<String> {
    match &reached.object {
        Some(found) => is_document_name(&found.key).then(|| found.key.clone()),
        None => {
            let ends = reached.path.match_indices('/').map(|(at, _)| at).chain([reached.path.len()]);
            let keys = ends.filter_map(|end| reached.path.get(..end));
            keys.into_iter().find(|key| is_document_name(key)).map(str::to_owned)
        }
    }
}

/// The references in an object. `None`: there is no such object, or it holds something else.
/// `storage`: the options with which its server was reached.
fn document_at(
    store: &Arc<dyn Store>,
    key: &str,
    storage: &[(String, String)],
    remote: Option<&Remote>,
) -> Result<Option<ReferenceStore>> {
    let Ok(checked) = Key::new(key) else { return Ok(None) };
    let mut text = Vec::new();
    if !store.read_all(checked, &mut text, LARGEST)? {
        return Ok(None);
    }
    if text.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Ok(None);
    }
    let url = format!("{}/{key}", store.url().trim_end_matches('/'));
    let refs = document::parse(&text).map_err(|failure| match failure {
        Failure::Wrong(why) => Error::References { url: url.clone(), why },
        Failure::Stopped => Error::Interrupted,
    })?;
    // Free the text before doing anything else.
    drop(text);
    let Some(refs) = refs else { return Ok(None) };
    let targets = Targets::around(store.clone(), key, storage, remote);
    Ok(Some(ReferenceStore::new(url, Source::Document(refs), targets)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use crate::{MemoryStore, stores};
    use hyperslab_store::contract;
    use hyperslab_store::{FileStore, Many, Next, Opening, RangeRead, StoreError};

    fn key(name: &str) -> Key<'_> {
        Key::new(name).unwrap()
    }

    const ARRAY: &str = r#"{"zarr_format": 2, "shape": [6], "chunks": [2], "dtype": "|u1", "compressor": null,
        "fill_value": 9, "filters": null, "order": "C"}"#;

    /// A store of the references in `text`, as a document in `store`.
    fn references(store: &Arc<dyn Store>, text: &str) -> Option<ReferenceStore> {
        store.write(key("refs.json"), &[text.as_bytes()]).unwrap();
        document_at(store, "refs.json", &[], None).unwrap()
    }

    #[test]
    fn the_contract_of_reading_holds() {
        let directory = tempfile::tempdir().unwrap();
        let local: Arc<dyn Store> =
            Arc::new(crate::LocalStore::open(directory.path(), Default::default()).unwrap());
        for store in [local, Arc::new(MemoryStore::new())] {
            for kind in 0..3 {
                contract::check_reading(|name, bytes| {
                    let framed = [b"head".as_slice(), bytes, b"tail"].concat();
                    let value = match kind {
                        0 => {
                            store.write(key("target"), &[&framed]).unwrap();
                            format!("[\"target\", 4, {}]", bytes.len())
                        }
                        1 => {
                            store.write(key("target"), &[bytes]).unwrap();
                            "[\"target\"]".to_owned()
                        }
                        _ => format!("\"base64:{}\"", hyperslab_zarr::base64(bytes)),
                    };
                    let document = format!("{{\"version\": 1, \"refs\": {{\"{name}\": {value}}}}}");
                    Box::new(references(&store, &document).unwrap())
                });
            }
        }
    }

    #[test]
    fn broken_targets_are_named() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        store.write(key("short"), &[b"0123456789"]).unwrap();
        let refs = references(
            &store,
            r#"{"version": 1, "refs": {"a": ["short", 8, 4], "b": ["gone", 1, 2], "c": ["gone"], "d": ["/etc/passwd", 0, 4],
                "e": ["short", 100, 20000000], "f": ["short", 4, 6]}}"#,
        )
        .unwrap();
        let url = refs.url();
        assert!(url.starts_with("memory://") && url.ends_with("/refs.json"));
        for (name, len, why) in [
            ("a", 4, "is bytes 8..12 of 'short': it has only 10 bytes"),
            ("b", 2, "is bytes 1..3 of 'gone': there is no such object"),
            ("c", 2, "is all of 'gone': there is no such object"),
            ("d", 4, "is bytes 0..4 of '/etc/passwd': it is not in the directory of the references"),
            ("e", 20_000_000, "is bytes 100..20000100 of 'short': it has only 10 bytes"),
        ] {
            let mut buf = vec![0; len];
            let mut errors = vec![
                refs.read_ranges(key(name), None, &mut [RangeRead { offset: 0, buf: &mut buf }]).unwrap_err(),
                refs.read_all(key(name), &mut Vec::new(), usize::MAX).unwrap_err(),
                refs.open(key(name), None).unwrap_err(),
            ];
            refs.open_all(&[Opening { key: key(name), next: Next::All }], &mut |_, opened| {
                errors.push(opened.unwrap_err());
            });
            for error in errors {
                assert!(matches!(error, StoreError::Reference(_)), "{error}");
                let error = error.to_string();
                assert!(error.contains(why) && error.contains(&format!("'{name}' in {url}")), "{error}");
            }
        }
        // Known facts need no request.
        assert_eq!(refs.size(key("b")).unwrap(), Some(2));
        assert!(refs.exists(key("c")).unwrap() && refs.size(key("c")).is_err());
        let mut buf = [0; 3];
        let beyond = refs.read_ranges(key("f"), None, &mut [RangeRead { offset: 4, buf: &mut buf }]);
        assert!(matches!(beyond, Err(StoreError::OutOfRange { size: 6, .. })));
        let opened = refs.open(key("f"), Some(6)).unwrap().unwrap();
        assert!(matches!(
            opened.read_ranges(&mut [RangeRead { offset: 4, buf: &mut buf }]),
            Err(StoreError::OutOfRange { size: 6, .. })
        ));
        opened.announce(&[(0, 2), (5, 9), (u64::MAX, 9)], 64);
        opened.read_ranges(&mut [RangeRead { offset: 3, buf: &mut buf }]).unwrap();
        assert_eq!(&buf, b"789");
    }

    #[test]
    fn stamps_tell_ranges_apart() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        store.write(key("x"), &[b"0123456789"]).unwrap();
        let document = r#"{"version": 1, "refs": {"a": ["x", 0, 4], "b": ["x", 4, 4], "c": ["x", 0, 8], "d": ["x"],
            "e": "text", "f": "other", "g": ["x", 0, 4]}}"#;
        let refs = references(&store, document).unwrap();
        let stamp = |name| refs.stamp(key(name)).unwrap().unwrap();
        let all: std::collections::HashSet<_> = ["a", "b", "c", "d", "e", "f"].map(stamp).into();
        assert_eq!(all.len(), 6);
        assert_eq!(stamp("a"), stamp("g"));
        for name in ["a", "d", "e"] {
            let mut bytes = Vec::new();
            assert_eq!(refs.read_all_stamped(key(name), &mut bytes, 100).unwrap(), (true, Some(stamp(name))));
            let opened = refs.open(key(name), None).unwrap().unwrap();
            opened.read_ranges(&mut [RangeRead { offset: 0, buf: &mut [0] }]).unwrap();
            assert_eq!((opened.stamp(), opened.vouched()), (Some(stamp(name)), Some(stamp(name))));
        }
        let other = references(&store, document).unwrap();
        assert_ne!(other.stamp(key("e")).unwrap(), Some(stamp("e")));
        let before = stamp("a");
        store.write(key("x"), &[b"0123456789"]).unwrap();
        assert_ne!(stamp("a"), before);
    }

    #[test]
    fn documents_are_opened_by_name() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name).display().to_string();
        let array = serde_json::Value::from(ARRAY).to_string();
        let refs = format!(
            r#"{{".zgroup": "{{\"zarr_format\": 2}}", "a/.zarray": {array}, "a/0": ["data.bin", 3, 2], "a/2": "base64:Bwg="}}"#
        );
        std::fs::write(at("refs.JSON"), &refs).unwrap();
        std::fs::write(at("data.bin"), [0, 1, 2, 3, 4, 5]).unwrap();
        let group = open(&at("refs.JSON")).unwrap().into_group().unwrap();
        assert_eq!(group.children().unwrap().len(), 1);
        for location in [at("refs.JSON/a"), format!("file://{}", at("refs.JSON/a"))] {
            let array = Array::open(&location).unwrap();
            assert_eq!(array.read_vec::<u8>(&[]).unwrap(), [3, 4, 9, 9, 7, 8]);
            assert!(array.write_slice(&[], &[0u8; 6]).unwrap_err().to_string().contains("reading only"));
        }
        let mut memory = Vec::new();
        for (name, text) in [
            ("refs.json", refs.as_str()),
            ("other.json", "{}"),
            ("broken.json", "{\"a\""),
            ("list.json", "[]"),
        ] {
            let store = MemoryStore::named("references of a test");
            store.write(key(&format!("b/{name}")), &[text.as_bytes()]).unwrap();
            store.write(key("b/data.bin"), &[&[0, 1, 2, 3, 4, 5]]).unwrap();
            memory.push(store);
            std::fs::write(at(name), text).unwrap();
        }
        let array = Array::open("memory://references of a test/b/refs.json/a").unwrap();
        assert_eq!(array.read_vec::<u8>(&[]).unwrap(), [3, 4, 9, 9, 7, 8]);
        for (name, why) in [
            ("other.json", "neither HDF5 nor NetCDF"),
            ("list.json", "neither HDF5 nor NetCDF"),
            ("broken.json", "is no document of references: EOF"),
        ] {
            let error = open(&at(name)).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
        // A directory may have any name.
        std::fs::remove_file(at("list.json")).unwrap();
        std::fs::create_dir(at("list.json")).unwrap();
        Group::create(&at("list.json"), Format::ZarrV3).unwrap();
        assert!(open(&at("list.json")).is_ok());
        assert!(stores::reach(&at("list.json/zarr.json"), Default::default()).unwrap().object.is_some());
        assert!(FileStore::open(&root.path().join("none.json")).unwrap().is_none());
        assert!(Group::create(&at("none.json"), Format::ZarrV3).is_err());
    }
}
