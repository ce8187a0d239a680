//! References in a folder of Parquet files, as kerchunk and VirtualiZarr write them.
//! A folder may have millions of references; only the files that are needed are read.
//!
//! ```text
//! refs.parq/.zmetadata            all metadata documents, and how many rows a file has
//! refs.parq/ocean/sst/refs.0.parq rows for the first chunks of the array, in C order
//! refs.parq/ocean/sst/refs.1.parq …
//! ```
//!
//! A file is read when one of its references is first needed. It is kept while it is among the most
//! recently used. If a file does not exist, all its chunks are absent.

use super::parquet;
use super::refs::{Odd, Ref};
use super::template::excerpt;
use ::parquet::data_type::ByteArray;
use bytes::Bytes;
use hyperslab_codec::room;
use hyperslab_store::fork::{Mutex, RwLock};
use hyperslab_store::{BrokenReference, Key, Next, Opening, Operation, Result, Store, StoreError, Unread};
use hyperslab_zarr::Json;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The largest file to read, in bytes. A typical file has about 100 KB.
const LARGEST: usize = 256 << 20;

/// The most rows in a file. kerchunk writes 10 000, or 100 000.
const MOST_ROWS: u64 = 10_000_000;

/// Bytes of files to keep.
const KEPT: usize = 128 << 20;

/// No URL: the chunk is absent.
const NONE: u32 = u32::MAX;

/// No URL: the row has bytes.
const RAW: u32 = NONE - 1;

/// No URL: the row names no object.
const ODD: u32 = NONE - 2;

/// A file: the number of its array, and its own number.
type File = (usize, u64);

/// The contents of one file.
#[derive(Debug)]
struct Record {
    rows: Vec<ChunkReference>,
    /// The bytes of rows. Rows may share them.
    raw: Vec<ByteArray>,
    /// The text of rows that name no object, and the reason.
    odd: Vec<(String, &'static str)>,
    memory: usize,
}

#[derive(Clone, Copy, Debug)]
struct ChunkReference {
    target: u32,
    /// For [`RAW`] or [`ODD`]: the index in [`Record::raw`] or [`Record::odd`].
    offset: u64,
    len: u64,
}

/// The cached files, and when each was last used.
#[derive(Debug, Default)]
struct RecordCache {
    files: HashMap<File, (Arc<Record>, u64)>,
    memory: usize,
    turn: u64,
}

/// URLs by number, and numbers by URL. A number never changes.
#[derive(Debug, Default)]
struct Urls {
    all: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

/// An array: its name, and the number of chunks along each axis.
#[derive(Debug)]
struct Array {
    name: String,
    counts: Vec<u64>,
}

/// The references of a folder.
#[derive(Debug)]
pub(super) struct Records {
    store: Arc<dyn Store>,
    /// The URL of the folder.
    url: String,
    /// The prefix of keys in the store.
    prefix: String,
    rows: u64,
    documents: BTreeMap<String, Vec<u8>>,
    /// The arrays, sorted by name.
    arrays: Vec<Array>,
    /// Gated.
    cache: Mutex<RecordCache>,
    /// Gated.
    urls: RwLock<Urls>,
}

impl Records {
    /// Reads `.zmetadata` of the folder `prefix` in a store. `None`: it is another kind of
    /// document.
    pub(super) fn parse(
        store: Arc<dyn Store>,
        prefix: &str,
        url: String,
        text: &[u8],
    ) -> std::result::Result<Option<Records>, String> {
        let document = Json::parse(text).map_err(|error| error.to_string())?;
        let (Some(rows), Some(Json::Object(metadata))) =
            (document.get("record_size"), document.get("metadata"))
        else {
            return Ok(None);
        };
        let rows = number(rows).filter(|rows| (1..=MOST_ROWS).contains(rows));
        let rows = rows.ok_or_else(|| format!("record_size: expected a number from 1 to {MOST_ROWS}"))?;
        let (mut documents, mut arrays) = (BTreeMap::new(), Vec::new());
        for (key, value) in metadata {
            // Skip invalid keys: no caller can ask for them.
            if Key::new(key).is_err() {
                continue;
            }
            // Without shape or chunks it is not an array; opening its document reports that.
            if let Some(name) = key.strip_suffix(".zarray")
                && let Some(counts) = counts(value)
            {
                arrays.push(Array { name: name.trim_end_matches('/').to_owned(), counts });
            }
            documents.insert(key.clone(), value.to_text(None).into_bytes());
        }
        arrays.sort_by(|one, other| one.name.cmp(&other.name));
        let (loaded, urls) = (Mutex::default(), RwLock::default());
        let prefix = prefix.trim_matches('/').to_owned();
        Ok(Some(Records { store, url, prefix, rows, documents, arrays, cache: loaded, urls }))
    }

    /// The reference under a key.
    pub(super) fn get(&self, key: &str) -> Result<Option<Ref<'_>>> {
        if let Some(document) = self.documents.get(key) {
            return Ok(Some(Ref::Inline(Cow::Borrowed(document))));
        }
        let Some((array, chunk)) = self.chunk(key) else { return Ok(None) };
        let file = (array, chunk / self.rows);
        let record = match self.kept_file(file) {
            Some(record) => record,
            None => {
                self.load(&[file])?;
                match self.kept_file(file) {
                    Some(record) => record,
                    // Other threads have evicted it in the meantime.
                    None => self.read(&[file])?.pop().map(|(_, record)| record).unwrap_or_else(empty),
                }
            }
        };
        let row = usize::try_from(chunk % self.rows).unwrap_or(usize::MAX);
        Ok(match record.rows.get(row) {
            None | Some(ChunkReference { target: NONE, .. }) => None,
            Some(ChunkReference { target: RAW, offset, .. }) => {
                let bytes = record.raw.get(*offset as usize);
                bytes.map(|bytes| Ref::Inline(Cow::Owned(bytes.data().to_vec())))
            }
            Some(ChunkReference { target: ODD, offset, .. }) => record
                .odd
                .get(*offset as usize)
                .map(|(text, why)| Ref::Odd(Odd { text: Cow::Owned(text.clone()), why: Cow::Borrowed(why) })),
            Some(ChunkReference { target, offset: 0, len: 0 }) => Some(Ref::Whole(*target)),
            Some(ChunkReference { target, offset, len }) => Some(Ref::Part(*target, *offset, *len)),
        })
    }

    /// Reads the files that these keys need, in one round. Errors appear when the keys are read.
    pub(super) fn prepare<'k>(&self, keys: impl Iterator<Item = &'k str>) {
        let mut files: Vec<_> =
            keys.filter_map(|key| self.chunk(key)).map(|(array, chunk)| (array, chunk / self.rows)).collect();
        files.sort_unstable();
        files.dedup();
        files.retain(|file| self.kept_file(*file).is_none());
        // Load no more files at once than are kept.
        if files.len() > 1 {
            for some in files.chunks(64) {
                let _ = self.load(some);
            }
        }
    }

    /// The URL with this number.
    pub(super) fn url_of(&self, number: u32) -> Arc<str> {
        self.urls.read().all.get(number as usize).cloned().unwrap_or_default()
    }

    /// The URL of some reference. `None`: none was found quickly.
    pub(super) fn some_url(&self) -> Option<Arc<str>> {
        // Start with the largest arrays: small arrays often have their chunks in the Parquet files.
        let total = |array: &Array| array.counts.iter().fold(1, |all: u64, count| all.saturating_mul(*count));
        let mut arrays: Vec<usize> = (0..self.arrays.len()).collect();
        arrays.sort_by_key(|n| std::cmp::Reverse(self.arrays.get(*n).map_or(0, total)));
        arrays.into_iter().take(2).find_map(|array| {
            self.load(&[(array, 0)]).ok()?;
            self.urls.read().all.first().cloned()
        })
    }

    /// All keys that begin with `start`, sorted.
    pub(super) fn beginning(&self, start: &str) -> Result<Vec<String>> {
        let documents = self.documents.range(start.to_owned()..).map(|(key, _)| key);
        let mut keys: Vec<String> = documents.take_while(|key| key.starts_with(start)).cloned().collect();
        for array in &self.arrays {
            let inside = array.name.is_empty() || array.name.starts_with(start);
            if !inside && !start.starts_with(&format!("{}/", array.name)) {
                continue;
            }
            let total = array.counts.iter().fold(1, |total: u64, count| total.saturating_mul(*count));
            for chunk in 0..total {
                let key = array.key(chunk);
                if key.starts_with(start) && self.get(&key)?.is_some() {
                    keys.push(key);
                }
            }
        }
        keys.sort_unstable();
        Ok(keys)
    }

    /// The names directly below a prefix, with `true` if other keys are below the name.
    /// The prefix ends with a slash or is empty. Searches for chunks only below arrays.
    pub(super) fn children(&self, start: &str) -> Result<Vec<(String, bool)>> {
        let array = start.strip_suffix('/').unwrap_or(start);
        let is_array = self.arrays.binary_search_by(|other| other.name.as_str().cmp(array)).is_ok();
        let keys = match is_array {
            true => self.beginning(start)?,
            false => self.documents.keys().filter(|key| key.starts_with(start)).cloned().collect(),
        };
        let name = |key: &String| {
            let name = key.get(start.len()..).unwrap_or_default();
            name.split_once('/').map_or_else(|| (name.to_owned(), false), |(name, _)| (name.to_owned(), true))
        };
        Ok(keys.iter().map(name).collect())
    }

    /// The array and the chunk number of a key.
    fn chunk(&self, key: &str) -> Option<File> {
        let (name, chunk) = key.rsplit_once('/').unwrap_or(("", key));
        let array = self.arrays.binary_search_by(|array| array.name.as_str().cmp(name)).ok()?;
        let counts = &self.arrays.get(array)?.counts;
        let mut number = 0u64;
        let mut axes = counts.iter();
        for index in chunk.split('.') {
            let decimal =
                index.bytes().all(|b| b.is_ascii_digit()) && (index == "0" || !index.starts_with('0'));
            let index: u64 = index.parse().ok().filter(|_| decimal)?;
            let count = axes.next().copied().filter(|count| index < *count)?;
            number = number.checked_mul(count)?.checked_add(index)?;
        }
        axes.next().is_none().then_some((array, number))
    }

    fn kept_file(&self, file: File) -> Option<Arc<Record>> {
        let mut loaded = self.cache.lock();
        loaded.turn += 1;
        let turn = loaded.turn;
        let (record, used) = loaded.files.get_mut(&file)?;
        *used = turn;
        Some(record.clone())
    }

    /// Reads files and keeps them, evicting the least recently used.
    fn load(&self, files: &[File]) -> Result<()> {
        let read = self.read(files)?;
        // Freed after the lock is released.
        let mut gone = Vec::new();
        let mut loaded = self.cache.lock();
        for (file, record) in read {
            loaded.turn += 1;
            let turn = loaded.turn;
            loaded.memory += record.memory;
            if let Some((old, _)) = loaded.files.insert(file, (record, turn)) {
                loaded.memory -= old.memory;
                gone.push(old);
            }
        }
        while loaded.memory > KEPT && loaded.files.len() > 1 {
            let oldest = loaded.files.iter().min_by_key(|(_, (_, used))| *used).map(|(file, _)| *file);
            let Some((old, _)) = oldest.and_then(|file| loaded.files.remove(&file)) else { break };
            loaded.memory -= old.memory;
            gone.push(old);
        }
        drop(loaded);
        drop(gone);
        Ok(())
    }

    /// The key of a file in the store.
    fn file_key(&self, (array, number): File) -> String {
        let name = self.arrays.get(array).map_or("", |array| &array.name);
        let file = format!("refs.{number}.parq");
        [&self.prefix, name, &file].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    /// Reads files, all at once.
    fn read(&self, files: &[File]) -> Result<Vec<(File, Arc<Record>)>> {
        let keys: Vec<String> = files.iter().map(|file| self.file_key(*file)).collect();
        let mut openings = Vec::new();
        for key in &keys {
            openings.push(Opening { key: Key::new(key)?, next: Next::All });
        }
        let mut bytes: Vec<Result<Option<Vec<u8>>>> = Vec::new();
        self.store.open_all(&openings, &mut |n, opened| {
            bytes.resize_with(n, || Ok(None));
            bytes.push(opened.and_then(|opened| {
                opened
                    .map(|opened| read_whole(&*opened, keys.get(n).map_or("", String::as_str), &self.url))
                    .transpose()
            }));
        });
        let mut read = Vec::new();
        for ((file, key), bytes) in files.iter().zip(&keys).zip(bytes) {
            let broken = |why: String| {
                let (url, target) = (self.url.clone(), key.clone());
                let why = Unread::Unreachable(format!("it is no Parquet file of references: {why}"));
                let name = self.arrays.get(file.0).map_or("", |array| &array.name).to_owned();
                StoreError::Reference(Box::new(BrokenReference::new(name, url, target, None, why)))
            };
            let record = match bytes? {
                None => empty(),
                Some(bytes) if bytes.len() > LARGEST => {
                    return Err(broken(format!("it has more than {LARGEST} bytes")));
                }
                Some(bytes) => Arc::new(self.record(bytes.into()).map_err(broken)?),
            };
            read.push((*file, record));
        }
        Ok(read)
    }

    fn record(&self, file: Bytes) -> std::result::Result<Record, String> {
        let columns = parquet::read(file, usize::try_from(self.rows).unwrap_or(usize::MAX))?;
        let count = columns.path.len().max(columns.raw.len());
        let (mut rows, mut odd) = (Vec::new(), Vec::new());
        rows.try_reserve_exact(count).map_err(|_| format!("there is no memory for {count} rows"))?;
        let mut memory = size_of::<Record>() + count * size_of::<ChunkReference>();
        for n in 0..count {
            let mut row = ChunkReference { target: NONE, offset: 0, len: 0 };
            if let Some(number) = columns.raw.number(n) {
                row = ChunkReference { target: RAW, offset: number.into(), len: 0 };
            } else if let Some(path) = columns.path.get(n) {
                let at = |column: &[i64]| column.get(n).copied().unwrap_or_default();
                let (offset, len) = (at(&columns.offset), at(&columns.size));
                match reference(path, offset, len) {
                    Ok((url, offset, len)) => {
                        row = ChunkReference { target: self.number_of(url)?, offset, len }
                    }
                    Err(why) => {
                        let text = String::from_utf8_lossy(path.data());
                        let text = format!("{len} bytes at {offset} of '{}'", excerpt(&text));
                        memory += text.len() + 64;
                        if memory > parquet::MOST_MEMORY {
                            return Err(parquet::too_much());
                        }
                        row = ChunkReference { target: ODD, offset: odd.len() as u64, len: 0 };
                        odd.push((text, why));
                    }
                }
            }
            rows.push(row);
        }
        let raw = columns.raw.into_values();
        memory += raw.iter().map(|bytes| bytes.len() + 64).sum::<usize>();
        Ok(Record { rows, raw, odd, memory })
    }

    fn number_of(&self, url: &str) -> std::result::Result<u32, String> {
        if let Some(number) = self.urls.read().numbers.get(url) {
            return Ok(*number);
        }
        let url: Arc<str> = url.into();
        let mut urls = self.urls.write();
        if let Some(number) = urls.numbers.get(&url) {
            return Ok(*number);
        }
        let number = u32::try_from(urls.all.len()).ok().filter(|number| *number < ODD);
        let number = number.ok_or("there are too many different URLs")?;
        urls.all.push(url.clone());
        urls.numbers.insert(url, number);
        Ok(number)
    }
}

impl Array {
    /// The key of a chunk.
    fn key(&self, mut chunk: u64) -> String {
        let mut indices: Vec<String> = Vec::new();
        for count in self.counts.iter().rev() {
            indices.push((chunk % count.max(&1)).to_string());
            chunk /= count.max(&1);
        }
        indices.reverse();
        let name = indices.join(".");
        if self.name.is_empty() { name } else { format!("{}/{name}", self.name) }
    }
}

fn empty() -> Arc<Record> {
    let memory = size_of::<Record>();
    Arc::new(Record { rows: Vec::new(), raw: Vec::new(), odd: Vec::new(), memory })
}

/// The URL, the offset and the length in a row.
fn reference(path: &ByteArray, offset: i64, len: i64) -> std::result::Result<(&str, u64, u64), &'static str> {
    let url = path.as_utf8().map_err(|_| "the path is not UTF-8")?;
    let (Ok(offset), Ok(len)) = (u64::try_from(offset), u64::try_from(len)) else {
        return Err("the offset or the size is negative");
    };
    match offset.checked_add(len) {
        Some(end) if end >> 63 == 0 => Ok((url, offset, len)),
        _ => Err("offset and size are together more than 2⁶³ - 1"),
    }
}

/// Reads all bytes of an open object, but at most one more than [`LARGEST`].
fn read_whole(opened: &dyn hyperslab_store::Opened, key: &str, url: &str) -> Result<Vec<u8>> {
    let size = usize::try_from(opened.size()).unwrap_or(usize::MAX).min(LARGEST + 1);
    let mut bytes = room::zeros(size).ok_or_else(|| no_memory(key, url))?;
    opened.read_ranges(&mut [hyperslab_store::RangeRead { offset: 0, buf: &mut bytes }])?;
    Ok(bytes)
}

fn no_memory(key: &str, url: &str) -> StoreError {
    let (operation, source) = (Operation::Read, std::io::ErrorKind::OutOfMemory.into());
    StoreError::Io { operation, key: key.to_owned(), url: url.to_owned(), source }
}

fn number(json: &Json) -> Option<u64> {
    match json {
        Json::Number(text) => text.parse().ok(),
        _ => None,
    }
}

/// The number of chunks along each axis of an array; an array without axes has one chunk.
fn counts(array: &Json) -> Option<Vec<u64>> {
    let numbers = |name| match array.get(name) {
        Some(Json::Array(items)) => items.iter().map(number).collect::<Option<Vec<u64>>>(),
        _ => None,
    };
    let (shape, chunks) = (numbers("shape")?, numbers("chunks")?);
    if shape.len() != chunks.len() || chunks.contains(&0) {
        return None;
    }
    let counts: Vec<u64> = shape.iter().zip(&chunks).map(|(extent, chunk)| extent.div_ceil(*chunk)).collect();
    Some(if counts.is_empty() { vec![1] } else { counts })
}

#[cfg(test)]
mod tests {
    use super::Records;
    use crate::MemoryStore;
    use hyperslab_store::{Key, Store};
    use std::sync::Arc;

    #[test]
    fn keys_name_chunks_in_c_order() {
        let text = br#"{"record_size": 4, "metadata": {".zgroup": {"zarr_format": 2},
            "a/.zarray": {"shape": [5, 6], "chunks": [2, 2]}, "s/.zarray": {"shape": [], "chunks": []},
            "a/b/.zarray": {"shape": [0], "chunks": [3]}, "a/.zattrs": {"x": NaN}}}"#;
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let parse = |text: &[u8]| Records::parse(store.clone(), "p/refs.parq", "u".into(), text);
        let records = parse(text).unwrap().unwrap();
        let chunk =
            |key| records.chunk(key).map(|(array, chunk)| (records.file_key((array, chunk / 4)), chunk));
        let file = |name: &str, chunk| Some((format!("p/refs.parq/{name}"), chunk));
        assert_eq!(chunk("a/0.0"), file("a/refs.0.parq", 0));
        assert_eq!(chunk("a/1.1"), file("a/refs.1.parq", 4));
        assert_eq!(chunk("a/2.2"), file("a/refs.2.parq", 8));
        assert_eq!(chunk("s/0"), file("s/refs.0.parq", 0));
        for key in
            ["a/3.0", "a/0.3", "a/0", "a/0.0.0", "a/00.0", "a/-1.0", "a/+1.0", "a/b/0", "x/0", "0", "a/"]
        {
            assert_eq!(chunk(key), None, "{key}");
        }
        let number = |array: &str, chunk| {
            records.arrays.iter().find(|found| found.name == array).map(|a| a.key(chunk))
        };
        assert_eq!(number("a", 7).as_deref(), Some("a/2.1"));
        // There are no files, so there are no chunks.
        assert_eq!(records.beginning("a/").unwrap(), ["a/.zarray", "a/.zattrs", "a/b/.zarray"]);
        assert!(records.get("a/1.1").unwrap().is_none());
        let file = Key::new("p/refs.parq/a/refs.0.parq").unwrap();
        store.write(file, &[b"PAR1 and no more"]).unwrap();
        let error = parse(text).unwrap().unwrap().get("a/0.1").unwrap_err().to_string();
        assert!(
            error.contains("a/refs.0.parq") && error.contains("no Parquet file of references"),
            "{error}"
        );
        assert!(parse(b"{}").unwrap().is_none());
        for bad in [&br#"{"record_size": 0, "metadata": {}}"#[..], br#"{"record_size": "x", "metadata": {}}"#]
        {
            assert!(parse(bad).is_err());
        }
        let odd = br#"{"record_size": 4, "metadata": {"../a": {}, "./q": {}, "b/.zarray": {"shape": [1], "chunks": [0]},
            "c/.zarray": 5, "a/.zarray": {"shape": [1], "chunks": [1]}}}"#;
        let odd = parse(odd).unwrap().unwrap();
        assert_eq!(odd.beginning("b/").unwrap(), ["b/.zarray"]);
        assert!(odd.get("b/0").unwrap().is_none() && odd.chunk("a/0").is_some());
        assert_eq!(odd.documents.keys().collect::<Vec<_>>(), ["a/.zarray", "b/.zarray", "c/.zarray"]);
    }
}
