//! A presented file as a store.

use super::array::ChunkBytes;
use super::file::{Contents, Found, PresentedFile};
use crate::Error;
use hyperslab_array::ArrayError;
use hyperslab_hdf5::Hdf5Error;
use hyperslab_store::{
    Begun, Cost, Entry, Facts, Further, Key, Lent, Many, Next, Opened, Opening, Operation, RangeRead, Result,
    Store, StoreError,
};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::time::Duration;

/// An object whose place is known, or whose bytes are in memory.
#[derive(Debug)]
struct OpenObject<'s> {
    store: &'s PresentedFile,
    key: String,
    contents: Contents,
}

impl Opened for OpenObject<'_> {
    fn size(&self) -> u64 {
        self.contents.len()
    }

    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.store.check_ranges(&self.key, self.size(), ranges)?;
        self.contents.read(ranges).map_err(|error| self.store.store_error(Operation::Read, &self.key, error))
    }
}

/// A chunk on a server: a range of the file, which is open.
#[derive(Debug)]
struct OpenRange<'s> {
    store: &'s PresentedFile,
    key: String,
    offset: u64,
    len: u64,
    file: Box<dyn Opened + 's>,
}

impl Opened for OpenRange<'_> {
    fn size(&self) -> u64 {
        self.len
    }

    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.store.check_ranges(&self.key, self.len, ranges)?;
        let inside = ranges.iter_mut().filter(|range| !range.buf.is_empty());
        let at = |range: &RangeRead<'_>| self.offset.saturating_add(range.offset);
        let mut inside: Vec<RangeRead<'_>> =
            inside.map(|range| RangeRead { offset: at(range), buf: &mut *range.buf }).collect();
        self.file.read_ranges(&mut inside)
    }

    fn announce(&self, ranges: &[(u64, u64)], requests: usize) {
        let inside: Vec<(u64, u64)> =
            ranges.iter().map(|(at, len)| (self.offset.saturating_add(*at), *len)).collect();
        self.file.announce(&inside, requests);
    }

    fn has_arrived(&self, offset: u64, len: u64, most: Duration) -> bool {
        self.file.has_arrived(self.offset.saturating_add(offset), len, most)
    }

    fn lend(&self, offset: u64, len: u64) -> Result<Option<Lent>> {
        match offset.checked_add(len).is_some_and(|end| end <= self.len) {
            true => self.file.lend(self.offset.saturating_add(offset), len),
            false => Ok(None),
        }
    }
}

impl PresentedFile {
    /// Fails if a range is not within an object of `size` bytes.
    fn check_ranges(&self, key: &str, size: u64, ranges: &[RangeRead<'_>]) -> Result<()> {
        for RangeRead { offset, buf } in ranges.iter().filter(|range| !range.buf.is_empty()) {
            let len = buf.len() as u64;
            if offset.checked_add(len).is_none_or(|end| end > size) {
                return Err(StoreError::out_of_range(self, key, *offset, len, size));
            }
        }
        Ok(())
    }

    /// An error of the file as an error of the store.
    fn store_error(&self, operation: Operation, key: &str, error: Error) -> StoreError {
        match error {
            Error::Store(error) | Error::Hdf5(Hdf5Error::Store(error)) => error,
            Error::Interrupted
            | Error::Hdf5(Hdf5Error::Interrupted { .. })
            | Error::Array(ArrayError::Interrupted { .. }) => {
                StoreError::Interrupted { key: key.to_owned(), url: self.url() }
            }
            error => StoreError::io(self, operation, key, io::Error::other(error)),
        }
    }

    fn open_object(&self, key: Key<'_>, size: Option<u64>) -> Result<Option<OpenObject<'_>>> {
        let found =
            self.find(key.as_str()).and_then(|found| found.map(|found| self.contents(found)).transpose());
        let found = found.map_err(|error| self.store_error(Operation::Read, key.as_str(), error))?;
        let Some(contents) = found else { return Ok(None) };
        let opened = OpenObject { store: self, key: key.as_str().to_owned(), contents };
        match size {
            Some(expected) if expected != opened.size() => {
                let (key, url, found) = (opened.key, self.url(), opened.contents.len());
                Err(StoreError::WrongSize { key, url, expected, found })
            }
            _ => Ok(Some(opened)),
        }
    }
}

impl Store for PresentedFile {
    fn url(&self) -> String {
        let (url, path) = (self.root().url(), self.root().path());
        if path.is_empty() { url } else { format!("{url}/{path}") }
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.url(), key.as_str()).hash(&mut hasher);
        hasher.finish()
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        let found = PresentedFile::size(self, key.as_str());
        found.map_err(|error| self.store_error(Operation::Size, key.as_str(), error))
    }

    fn exists(&self, key: Key<'_>) -> Result<bool> {
        let found = self.find(key.as_str()).map(|found| found.is_some());
        found.map_err(|error| self.store_error(Operation::Size, key.as_str(), error))
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        Ok(self.open_object(key, size)?.map(|opened| Box::new(opened) as Box<dyn Opened + 's>))
    }

    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        let Some(opened) = self.open_object(key, size)? else { return Ok(false) };
        opened.read_ranges(ranges)?;
        Ok(true)
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        buf.clear();
        let Some(opened) = self.open_object(key, None)? else { return Ok(false) };
        let fits = usize::try_from(opened.size()).ok().filter(|size| *size <= limit);
        let size = fits.ok_or_else(|| StoreError::too_large(self, key.as_str(), limit))?;
        let none = |_| StoreError::io(self, Operation::Read, key.as_str(), ErrorKind::OutOfMemory);
        buf.try_reserve_exact(size).map_err(none)?;
        buf.resize(size, 0);
        opened.read_ranges(&mut [RangeRead { offset: 0, buf }])?;
        Ok(true)
    }

    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        let path = prefix.map_or("", |prefix| prefix.as_str());
        let mut keys = self.keys(path).map_err(|error| self.store_error(Operation::List, path, error))?;
        // Names in files may have characters that keys cannot have.
        keys.retain(|key| Key::new(key).is_ok());
        Ok(keys)
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        let path = prefix.map_or("", |prefix| prefix.as_str());
        let mut names = self.names(path).map_err(|error| self.store_error(Operation::List, path, error))?;
        names.retain(|entry| Key::new(&entry.name).is_ok());
        names.sort_unstable();
        Ok(names)
    }

    fn facts(&self) -> Facts {
        Facts { is_writable: false, waits: self.root().store().facts().waits, ..Facts::default() }
    }

    fn cost(&self) -> Cost {
        self.root().store().cost()
    }

    fn many(&self) -> Option<&dyn Many> {
        Some(self)
    }
}

impl Many for PresentedFile {
    /// Ranges of a distant file are requested together. Other objects are made when they are opened.
    fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        let store = self.root().store();
        let file = self.root().file().filter(|_| store.cost().prefers_rounds());
        let file = file.as_ref().and_then(|file| Key::new(file.key()).ok());
        let range = |opening: &Opening<'_>| match file.map(|_| self.find(opening.key.as_str())) {
            Some(Ok(Some(Found::Chunk(_, _, ChunkBytes::Stored(range))))) => Some((range.offset, range.len)),
            // An error appears when the object is opened.
            _ => None,
        };
        let ranges: Vec<Option<(u64, u64)>> = wanted.iter().map(range).collect();
        let openings = wanted.iter().zip(&ranges).filter_map(|(opening, range)| {
            Some(Opening { key: file?, next: next_in_file(opening.next, (*range)?) })
        });
        let openings: Vec<Opening<'_>> = openings.collect();
        let mut begun = if openings.is_empty() { Vec::new() } else { store.begin(&openings) }.into_iter();
        let one = |(opening, range): (&Opening<'_>, Option<(u64, u64)>)| -> Box<dyn Begun<'s> + 's> {
            let key = opening.key.as_str().to_owned();
            let Some(((offset, len), begun)) = range.and_then(|range| Some((range, begun.next()?))) else {
                return Box::new(move || self.open(Key::new(&key)?, None));
            };
            let then = move |opened: Result<Option<Box<dyn Opened + 's>>>| {
                let open = |file| OpenRange { store: self, key, offset, len, file };
                Ok(opened?.map(|file| Box::new(open(file)) as Box<dyn Opened + 's>))
            };
            Box::new(Further { begun, then })
        };
        wanted.iter().zip(ranges).map(one).collect()
    }
}

/// Translates the next read of an object, which is a range of the file, to the file.
fn next_in_file(next: Next, (offset, len): (u64, u64)) -> Next {
    match next {
        Next::Start(wanted) => Next::Part(offset, wanted.min(len)),
        Next::End(wanted) => Next::Part(offset.saturating_add(len - wanted.min(len)), wanted.min(len)),
        Next::Part(at, wanted) => {
            Next::Part(offset.saturating_add(at.min(len)), wanted.min(len - at.min(len)))
        }
        Next::All => Next::Part(offset, len),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::{PresentOptions, PresentedArray, PresentedNode};
    use crate::{DataFile, Json, MemoryStore, Node, zarr};
    use std::sync::Arc;

    fn name(text: &str) -> Vec<u8> {
        let mut bytes = [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    /// Begin of `fixed`, of the records of `pairs`, and of the records of `last`.
    const FIXED: u32 = 400;
    const PAIRS: u32 = 420;
    const LAST: u32 = 424;

    /// A classic file of shorts: `fixed` of 3 elements; 4 records of 2 and of 1 elements.
    fn classic() -> Vec<u8> {
        let none = numbers(&[0, 0]);
        let variable = |text: &str, dimensions: &[u32], begin: u32| {
            let rank = numbers(&[dimensions.len() as u32]);
            let kind = numbers(&[3, 0, begin]);
            [name(text), rank, numbers(dimensions), none.clone(), kind].concat()
        };
        let dimension = |text: &str, len: u32| [name(text), numbers(&[len])].concat();
        let header = [
            [b"CDF\x01".to_vec(), numbers(&[4, 10, 3])].concat(),
            [dimension("t", 0), dimension("x", 3), dimension("two", 2), none.clone()].concat(),
            [numbers(&[11, 3]), variable("fixed", &[1], FIXED)].concat(),
            [variable("pairs", &[0, 2], PAIRS), variable("last", &[0], LAST)].concat(),
        ];
        let mut bytes = header.concat();
        bytes.resize(FIXED as usize, 0);
        bytes.extend((0..60).map(|at| if at % 2 == 1 { at as u8 } else { 0 }));
        bytes
    }

    fn file(bytes: &[u8]) -> PresentedFile {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        store.write(Key::new("f.nc").unwrap(), &[bytes]).unwrap();
        let file = DataFile::open_object(&store, "f.nc").unwrap().unwrap();
        let Node::Group(root) = file.open("").unwrap() else { panic!("no group") };
        PresentedFile::new(&root, PresentOptions::default()).unwrap()
    }

    fn array(file: &PresentedFile, path: &str) -> Arc<PresentedArray> {
        match file.node(path).unwrap() {
            Some(PresentedNode::Array(array)) => array,
            other => panic!("{other:?}"),
        }
    }

    fn get(store: &dyn Store, key: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        store.read_all(Key::new(key).unwrap(), &mut bytes, usize::MAX).unwrap().then_some(bytes)
    }

    #[test]
    fn documents_describe_the_file() {
        let file = file(&classic());
        let root = Json::parse(&get(&file, "zarr.json").unwrap()).unwrap();
        assert_eq!(root.get("node_type"), Some(&"group".into()));
        let document = Json::parse(&get(&file, "pairs/zarr.json").unwrap()).unwrap();
        let of = |member: &str| document.get(member).unwrap().to_text(None);
        assert_eq!((of("shape"), of("data_type")), ("[4, 2]".into(), "\"int16\"".into()));
        assert_eq!(of("dimension_names"), r#"["t", "two"]"#);
        assert_eq!(of("codecs"), r#"[{"name": "bytes", "configuration": {"endian": "big"}}]"#);
        let chunk = r#"{"name": "regular", "configuration": {"chunk_shape": [1, 2]}}"#;
        assert_eq!(of("chunk_grid"), chunk);
    }

    #[test]
    fn listings_agree_with_objects() {
        let file = file(&classic());
        let keys = file.list(None).unwrap();
        let of = |start: &str| keys.iter().filter(|key| key.starts_with(start)).cloned().collect::<Vec<_>>();
        assert_eq!(
            of("pairs/"),
            ["pairs/c/0/0", "pairs/c/1/0", "pairs/c/2/0", "pairs/c/3/0", "pairs/zarr.json"]
        );
        assert_eq!(of("fixed/"), ["fixed/c/0", "fixed/zarr.json"]);
        for key in &keys {
            let bytes = get(&file, key).unwrap();
            let key = Key::new(key).unwrap();
            assert_eq!(Store::size(&file, key).unwrap(), Some(bytes.len() as u64));
            assert!(file.exists(key).unwrap());
        }
        let names = |prefix: &str| {
            let found = file.list_dir(Some(Key::new(prefix).unwrap())).unwrap();
            found.into_iter().map(|entry| (entry.name, entry.is_prefix)).collect::<Vec<_>>()
        };
        assert_eq!(names("pairs"), [("c".into(), true), ("zarr.json".into(), false)]);
        assert_eq!(names("pairs/c/3"), [("0".into(), false)]);
        assert!(
            names("pairs/c/4").is_empty() && names("none").is_empty() && names("pairs/zarr.json").is_empty()
        );
        // In the order of the file.
        let order: Vec<String> = file.names("").unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(order, ["zarr.json", "fixed", "pairs", "last"]);
        for key in
            ["pairs/c/4/0", "pairs/c/0", "pairs/c/00/0", "pairs/c/0/0/0", "c/0", "none/zarr.json", "pairs"]
        {
            assert_eq!(get(&file, key), None, "{key}");
        }
    }

    #[test]
    fn chunks_are_ranges_of_the_file() {
        let file = file(&classic());
        let place = |path: &str, at: &[u64]| match array(&file, path).find(at).unwrap() {
            Some(crate::present::ChunkBytes::Stored(place)) => (place.offset, place.len),
            other => panic!("{other:?}"),
        };
        assert_eq!(place("fixed", &[0]), (FIXED.into(), 6));
        // A record takes four bytes of `pairs`, and two of `last`, rounded up to four.
        assert_eq!(place("pairs", &[3, 0]), (u64::from(PAIRS) + 24, 4));
        assert_eq!(place("last", &[1]), (u64::from(LAST) + 8, 2));
        assert_eq!(get(&file, "pairs/c/3/0").unwrap(), [0, 45, 0, 47]);
        let mut buf = [0; 2];
        let key = Key::new("pairs/c/3/0").unwrap();
        let mut part = |offset, size| {
            let found = file.read_ranges(key, size, &mut [RangeRead { offset, buf: &mut buf }]);
            found.map(|_| buf)
        };
        assert_eq!(part(1, Some(4)).unwrap(), [45, 0]);
        assert!(matches!(part(3, None), Err(StoreError::OutOfRange { size: 4, .. })));
        assert!(matches!(part(0, Some(5)), Err(StoreError::WrongSize { expected: 5, found: 4, .. })));
        let numbers: Vec<u64> =
            array(&file, "last").chunks().unwrap().unwrap().into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
    }

    #[test]
    fn zarr_reads_the_elements() {
        let file = Arc::new(file(&classic()));
        for path in ["fixed", "pairs", "last"] {
            let store: Arc<dyn Store> = file.clone();
            let zarr::Node::Array(zarr) = zarr::open(&store, path, None).unwrap() else { panic!("no array") };
            let found: Vec<i16> = crate::Array::from(zarr).read_vec(&[]).unwrap();
            assert_eq!(found, array(&file, path).array().read_vec::<i16>(&[]).unwrap(), "{path}");
        }
    }

    #[test]
    fn what_is_encoded_is_what_is_stored() {
        let file = file(&classic());
        let pairs = array(&file, "pairs");
        assert_eq!(pairs.encode(&[2, 0]).unwrap(), get(&file, "pairs/c/2/0").unwrap());
        assert_eq!(pairs.encoded_len(), Some(4));
    }

    #[test]
    fn nothing_can_be_written() {
        let file = file(&classic());
        assert!(!file.facts().is_writable);
        assert!(file.write(Key::new("new").unwrap(), &[b"x"]).is_err());
    }

    #[test]
    fn truncated_files_are_errors() {
        let bytes = classic();
        let file = file(&bytes[..bytes.len() - 20]);
        let mut found = Vec::new();
        let error = file.read_all(Key::new("pairs/c/3/0").unwrap(), &mut found, 100).unwrap_err().to_string();
        assert!(error.contains("cannot read 'pairs/c/3/0'") && error.contains("variable 'pairs'"), "{error}");
    }
}
