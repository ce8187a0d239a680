//! A Zarr hierarchy of either format as Zarr v3.

use super::zarr_array::{TranslatedArray, TranslatedChunk};
use crate::meaning::of_copied_group;
use crate::{Array, Error, Format, Group, Json, Node, Result, zarr};
use hyperslab_store::fork::Mutex;
use hyperslab_store::{Entry, Key, Stamp, Store, StoreError};
use hyperslab_zarr::{ZarrError, join};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The name of the document of a node.
const DOCUMENT: &str = "zarr.json";
/// The documents of arrays in the two formats.
const OF_ARRAYS: [&str; 3] = [DOCUMENT, ".zarray", ".zattrs"];
/// Arrays that are remembered. The memory is for one document each.
const MOST_KNOWN: usize = 4096;

/// A hierarchy of Zarr v2 or v3, as Zarr v3. Nothing is written.
///
/// Nodes of v3 are as they are stored. Nodes of v2 are [`TranslatedArray`]s, and groups of their
/// attributes. Only documents and chunks are objects: other files beside them are not.
#[derive(Debug)]
pub struct PresentedZarr {
    store: Arc<dyn Store>,
    base: String,
    /// The arrays that were looked up so far, by path, with the stamps of their documents.
    known: Mutex<HashMap<String, (Stamps, Presented)>>,
}

/// Stamps of the documents that an array may have.
type Stamps = [Option<Stamp>; OF_ARRAYS.len()];

/// An array of a [`PresentedZarr`].
#[derive(Clone, Debug)]
enum Presented {
    AsStored(Array),
    Translated(Arc<TranslatedArray>),
}

/// An object of a [`PresentedZarr`].
#[derive(Clone, Debug)]
pub enum ZarrObject {
    /// The text of a document.
    Document(String),
    /// An object of the store, with its key.
    Stored(String),
    /// A chunk that is encoded when it is read, and its place in the grid.
    Encoded(Arc<TranslatedArray>, Vec<u64>),
}

impl PresentedZarr {
    /// Presents everything below a path of a store (`""`: all of it).
    pub fn new(store: Arc<dyn Store>, base: &str) -> PresentedZarr {
        PresentedZarr { store, base: base.to_owned(), known: Mutex::default() }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The node at a path, as it is stored; `""`: the root. `None`: there is none.
    pub fn node(&self, path: &str) -> Result<Option<Node>> {
        match zarr::open(&self.store, &join(&self.base, path), None) {
            Ok(node) => Ok(Some(node.into())),
            Err(ZarrError::NotFound { .. } | ZarrError::Path { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A text that changes when the documents of the node at a path change. `None`: the store has no
    /// stamps.
    pub fn version(&self, path: &str) -> Result<Option<String>> {
        let stamps = self.stamps(path)?;
        Ok(stamps.iter().any(Option::is_some).then(|| format!("{stamps:?}")))
    }

    /// Finds an object by its key. `None`: there is none.
    pub fn find(&self, key: &str) -> Result<Option<ZarrObject>> {
        if let Some(path) = key.strip_suffix(DOCUMENT)
            && (path.is_empty() || path.ends_with('/'))
        {
            return Ok(self.document(path.trim_end_matches('/'))?.map(ZarrObject::Document));
        }
        let Some((path, array)) = self.array_above(key)? else { return Ok(None) };
        let rest = key.get(path.len()..).unwrap_or_default().trim_start_matches('/');
        match array {
            Presented::AsStored(array) => {
                let Some(zarr) = array.as_zarr() else { return Ok(None) };
                let place = zarr.key_encoding().chunk(rest, array.shape().len());
                let stored = join(&self.base, key);
                let is_object = place.map_err(Error::Options)?.is_some() && self.has(&stored)?;
                Ok(is_object.then_some(ZarrObject::Stored(stored)))
            }
            Presented::Translated(array) => {
                let place = array.keys().chunk(rest, array.array().shape().len());
                let Some(place) = place.map_err(Error::Options)? else { return Ok(None) };
                Ok(array.find(&place)?.map(|found| match found {
                    TranslatedChunk::Stored(key) => ZarrObject::Stored(key),
                    TranslatedChunk::Encoded => ZarrObject::Encoded(array, place.to_vec()),
                }))
            }
        }
    }

    /// The text of `zarr.json` of the node at a path.
    fn document(&self, path: &str) -> Result<Option<String>> {
        match self.node(path)? {
            None => Ok(None),
            Some(Node::Array(array)) => Ok(Some(match self.present(path, array)? {
                Presented::AsStored(array) => match array.as_zarr() {
                    Some(array) => array.to_json().to_text(None),
                    None => return Ok(None),
                },
                Presented::Translated(array) => array.document().to_owned(),
            })),
            Some(Node::Group(group)) => Ok(Some(group_document(&group)?.to_text(None))),
        }
    }

    /// The array at a path or above it, and its path.
    fn array_above(&self, key: &str) -> Result<Option<(String, Presented)>> {
        let above = || key.match_indices('/').map(|(at, _)| key.get(..at).unwrap_or_default());
        // An array has no nodes below: if one is known, it is the owner.
        for path in std::iter::once("").chain(above()) {
            if let Some(array) = self.remembered(path)? {
                return Ok(Some((path.to_owned(), array)));
            }
        }
        let mut paths: Vec<&str> = std::iter::once("").chain(above()).collect();
        while let Some(path) = paths.pop() {
            match self.node(path)? {
                Some(Node::Array(array)) => return Ok(Some((path.to_owned(), self.present(path, array)?))),
                Some(Node::Group(_)) => return Ok(None),
                None => {}
            }
        }
        Ok(None)
    }

    /// The array that was found at a path before, if its documents are the same.
    fn remembered(&self, path: &str) -> Result<Option<Presented>> {
        let Some((stamps, array)) = self.known.lock().get(path).cloned() else { return Ok(None) };
        Ok((self.stamps(path)? == stamps).then_some(array))
    }

    fn present(&self, path: &str, array: Array) -> Result<Presented> {
        if let Some(known) = self.remembered(path)? {
            return Ok(known);
        }
        let stamps = self.stamps(path)?;
        // Opened again after the stamps were taken: the documents may have changed since.
        let array = match self.node(path)? {
            Some(Node::Array(again)) => again,
            _ => array,
        };
        let presented = match array.format() {
            Format::ZarrV2 => Presented::Translated(Arc::new(TranslatedArray::new(array)?)),
            _ => Presented::AsStored(array),
        };
        // Without stamps nobody notices a change: such arrays are opened for each request.
        if stamps.iter().any(Option::is_some) {
            let mut known = self.known.lock();
            if known.len() >= MOST_KNOWN {
                known.clear();
            }
            known.insert(path.to_owned(), (stamps, presented.clone()));
        }
        Ok(presented)
    }

    fn stamps(&self, path: &str) -> Result<Stamps> {
        let mut stamps = Stamps::default();
        for (stamp, name) in stamps.iter_mut().zip(OF_ARRAYS) {
            *stamp = self.store.stamp(Key::new(&join(&join(&self.base, path), name))?)?;
        }
        Ok(stamps)
    }

    fn has(&self, key: &str) -> Result<bool> {
        match Key::new(key) {
            Ok(key) => Ok(self.store.exists(key)?),
            Err(_) => Ok(false),
        }
    }

    /// The entries directly below a path, sorted by name.
    ///
    /// Chunks of translated arrays are listed at once, by their whole keys.
    pub fn names(&self, path: &str) -> Result<Vec<Entry>> {
        let document = Entry { name: DOCUMENT.into(), is_prefix: false };
        let mut names = match self.node(path)? {
            Some(Node::Group(group)) => {
                let children = group.children()?.into_iter();
                let children = children.map(|(name, _)| Entry { name, is_prefix: true });
                std::iter::once(document).chain(children).collect()
            }
            Some(Node::Array(array)) => match self.present(path, array)? {
                Presented::AsStored(_) => {
                    let mut names = self.stored_names(path)?;
                    names.retain(|entry| entry.is_prefix || entry.name == DOCUMENT || is_chunk(&entry.name));
                    names
                }
                Presented::Translated(array) => {
                    let mut names: BTreeSet<Entry> = BTreeSet::from([document]);
                    let zarr = array.array().as_zarr();
                    for place in zarr.map_or(Ok(Vec::new()), |zarr| zarr.stored_places(None))? {
                        let name = array.keys().key(&place).map_err(Error::Options)?;
                        names.insert(Entry { name, is_prefix: false });
                    }
                    names.into_iter().collect()
                }
            },
            // A folder of chunks.
            None if self.array_above(path)?.is_some() => self.stored_names(path)?,
            None => Vec::new(),
        };
        names.sort_unstable();
        Ok(names)
    }

    fn stored_names(&self, path: &str) -> Result<Vec<Entry>> {
        let prefix = join(&self.base, path);
        let prefix = if prefix.is_empty() { None } else { Some(Key::new(&prefix)?) };
        match self.store.list_dir(prefix) {
            Err(StoreError::InvalidKey { .. }) => Ok(Vec::new()),
            found => Ok(found?),
        }
    }
}

/// Returns `true` if a name may be a chunk: names of documents begin with a dot or have letters.
fn is_chunk(name: &str) -> bool {
    name == "c" || name.bytes().any(|byte| byte.is_ascii_digit()) && !name.starts_with('.')
}

/// The document of a group, in Zarr v3.
fn group_document(group: &Group) -> Result<Json> {
    let attributes = of_copied_group(group.attributes()?.into_owned(), group.format(), Format::ZarrV3);
    let members = [("zarr_format", 3u32.into()), ("node_type", "group".into()), ("attributes", attributes)];
    Ok(Json::from(members))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArraySpec, MemoryStore};

    fn hierarchy(format: zarr::Format, compressor: Option<&str>) -> PresentedZarr {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let root = zarr::Group::create(store.clone(), "", format, Json::object(), false).unwrap();
        let mut spec = ArraySpec::new(format, &[3, 4], "<i2".parse().unwrap());
        spec.chunks = Some([2, 4].as_slice().into());
        spec.compressors = crate::Choice::Set(
            compressor.map(|text| Json::parse(text.as_bytes()).unwrap()).into_iter().collect(),
        );
        spec.dimension_names = Some(vec![Some("y".into()), Some("x".into())]);
        let array: Array = zarr::Array::create(store.clone(), "deep/a", spec, false).unwrap().into();
        array.write_slice(&[crate::Index::At(0)], &[1_i16, 2, 3, 4]).unwrap();
        store.write(Key::new("deep/a/secret.txt").unwrap(), &[b"no chunk"]).unwrap();
        drop(root);
        PresentedZarr::new(store, "")
    }

    /// The hierarchy as a store of Zarr v3.
    fn as_v3(shown: &PresentedZarr) -> Array {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        for key in ["deep/a/zarr.json", "deep/a/c/0/0", "deep/a/c/1/0", "deep/a/0.0", "deep/a/1.0"] {
            let bytes = match shown.find(key).unwrap() {
                None => continue,
                Some(ZarrObject::Document(text)) => text.into_bytes(),
                Some(ZarrObject::Encoded(array, place)) => array.encode(&place).unwrap(),
                Some(ZarrObject::Stored(key)) => {
                    let mut bytes = Vec::new();
                    shown.store().read_all(Key::new(&key).unwrap(), &mut bytes, 999).unwrap();
                    bytes
                }
            };
            store.write(Key::new(key).unwrap(), &[&bytes]).unwrap();
        }
        zarr::Array::open(&store, "deep/a", Some(zarr::Format::V3)).unwrap().into()
    }

    #[test]
    fn both_formats_have_the_same_elements_and_names() {
        for format in [zarr::Format::V2, zarr::Format::V3] {
            let shown = hierarchy(format, None);
            let array = as_v3(&shown);
            assert_eq!(array.read_vec::<i16>(&[]).unwrap(), [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
            let names = array.dimension_names().unwrap().unwrap();
            assert_eq!(names, [Some("y".to_owned()), Some("x".to_owned())]);
        }
    }

    #[test]
    fn codecs_that_mean_the_same_keep_their_bytes_and_others_are_encoded() {
        let stored = |shown: &PresentedZarr| {
            let keys = ["deep/a/c/0/0", "deep/a/0.0"].into_iter();
            keys.filter_map(|key| shown.find(key).unwrap())
                .map(|found| matches!(found, ZarrObject::Stored(_)))
                .collect::<Vec<_>>()
        };
        let kept = hierarchy(zarr::Format::V2, Some(r#"{"id": "zstd", "level": 3}"#));
        assert_eq!(stored(&kept), [true]);
        assert_eq!(as_v3(&kept).read_vec::<i16>(&[crate::Index::At(0)]).unwrap(), [1, 2, 3, 4]);
        let bz2 = hierarchy(zarr::Format::V2, Some(r#"{"id": "bz2", "level": 3}"#));
        assert_eq!(stored(&bz2), [false]);
        assert_eq!(as_v3(&bz2).read_vec::<i16>(&[crate::Index::At(0)]).unwrap(), [1, 2, 3, 4]);
    }

    #[test]
    fn only_documents_and_chunks_are_objects() {
        for format in [zarr::Format::V2, zarr::Format::V3] {
            let shown = hierarchy(format, None);
            for key in
                ["deep/a/secret.txt", "deep/a/.zarray", "deep/a/../a/zarr.json", "deep/b/zarr.json", "x"]
            {
                assert!(shown.find(key).unwrap().is_none(), "{key}");
            }
            let names: Vec<String> =
                shown.names("deep/a").unwrap().into_iter().map(|entry| entry.name).collect();
            assert!(
                names.contains(&"zarr.json".to_owned()) && !names.iter().any(|name| name.contains("secret"))
            );
            assert_eq!(names.len(), 2, "{names:?}");
        }
    }
}
