//! A file as a Zarr hierarchy: finds the node and the object that a key means.

use super::array::{ChunkBytes, PresentedArray};
use super::chunk_ranges::read_ranges;
use super::{MOST_LISTED, too_many};
use crate::meaning::FileMeaning;
use crate::nodes::interface::Object;
use crate::{Array, Error, Group, Json, Result};
use hyperslab_array::ArrayError;
use hyperslab_hdf5::Hdf5Error;
use hyperslab_store::fork::Mutex;
use hyperslab_store::{Entry, RangeRead};
use hyperslab_zarr::join;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The name of the document of a node.
const DOCUMENT: &str = "zarr.json";
/// Arrays that are remembered. Each has its document and the index of its chunks in memory. A server may be
/// asked for every array of a file, and for one array under the many paths of its hard links.
const MOST_KNOWN: usize = 4096;
/// The name of the folder of chunks.
const CHUNKS: &str = "c";

/// Options of a [`PresentedFile`].
#[derive(Clone, Copy, Debug)]
pub struct PresentOptions {
    /// `true`: cut data without chunks into strips. `false`: they are one chunk.
    pub cut: bool,
    /// `true`: all datasets are variables, as in netCDF-C: all axes have names. `false`: they are
    /// in NetCDF files and in files with dimension scales.
    pub all_variables: bool,
    /// `true`: only codecs that all readers of Zarr v3 have. Chunks with other filters are encoded when
    /// they are read, and compressed with zstd. `false`: numcodecs' codecs, too.
    pub standard: bool,
}

impl Default for PresentOptions {
    fn default() -> Self {
        PresentOptions { cut: true, all_variables: false, standard: false }
    }
}

/// An HDF5 or NetCDF file, or a group in one, as a Zarr v3 hierarchy.
///
/// It is a read-only [`Store`](crate::Store). Its own methods take any key: one that cannot exist
/// has no object. Nodes that Zarr does not have are left out.
#[derive(Debug)]
pub struct PresentedFile {
    root: Group,
    meaning: FileMeaning,
    options: PresentOptions,
    /// The arrays that were looked up so far, by path.
    arrays: Mutex<HashMap<String, Arc<PresentedArray>>>,
}

/// A node of a [`PresentedFile`].
#[derive(Clone, Debug)]
pub enum PresentedNode {
    /// A group.
    Group(Group),
    /// An array.
    Array(Arc<PresentedArray>),
}

/// The bytes of an object.
#[derive(Debug)]
pub(super) enum Contents {
    /// A document, or an encoded chunk.
    Bytes(Vec<u8>),
    /// A range of the file.
    Range { array: Arc<PresentedArray>, offset: u64, len: u64 },
}

/// An object that was found, but whose bytes were not made yet.
pub(super) enum Found {
    Document(String),
    /// An array, the place of the chunk in its grid, and where its bytes are.
    Chunk(Arc<PresentedArray>, Vec<u64>, ChunkBytes),
}

impl PresentedFile {
    /// Presents a group of a file, which becomes the root. Fails for a group of another format.
    pub fn new(root: &Group, options: PresentOptions) -> Result<PresentedFile> {
        let file = root.file().ok_or_else(|| {
            Error::Options("only files of HDF5 and NetCDF are presented as Zarr: this group is Zarr".into())
        })?;
        let meaning = match options.all_variables {
            true => FileMeaning::of_variables(&file)?,
            false => FileMeaning::of(&file)?,
        };
        Ok(PresentedFile { root: root.clone(), meaning, options, arrays: Mutex::default() })
    }

    pub(super) fn root(&self) -> &Group {
        &self.root
    }

    /// The node at a path; `""`: the root. `None`: Zarr has no such node.
    pub fn node(&self, path: &str) -> Result<Option<PresentedNode>> {
        if path.is_empty() {
            return Ok(Some(PresentedNode::Group(self.root.clone())));
        }
        if let Some(known) = self.arrays.lock().get(path) {
            return Ok(Some(PresentedNode::Array(known.clone())));
        }
        let array = match self.object(path)? {
            Some(Object::Group(group)) => return Ok(Some(PresentedNode::Group(group))),
            Some(Object::Array(array)) if !array.has_no_shape() => array,
            _ => return Ok(None),
        };
        match self.present(array) {
            Ok(None) => Ok(None),
            Ok(Some(array)) => {
                let mut arrays = self.arrays.lock();
                if arrays.len() >= MOST_KNOWN {
                    arrays.clear();
                }
                let array = arrays.entry(path.to_owned()).or_insert(Arc::new(array)).clone();
                Ok(Some(PresentedNode::Array(array)))
            }
            Err(error) if is_of_reading(&error) => Err(error),
            // Zarr lacks this element type: references, opaque types.
            Err(_) => Ok(None),
        }
    }

    fn present(&self, array: Array) -> Result<Option<PresentedArray>> {
        PresentedArray::new(array, &self.meaning, self.options)
    }

    /// The group or the dataset at the path of a variable.
    fn object(&self, path: &str) -> Result<Option<Object>> {
        if path.split('/').any(|part| matches!(part, "" | ".")) {
            return Ok(None);
        }
        let (group, name) = path.rsplit_once('/').unwrap_or(("", path));
        for stored in self.meaning.dataset_names(name) {
            match self.root.object(&join(group, &stored)) {
                Err(Error::Hdf5(Hdf5Error::NotFound { .. }) | Error::NoVariable { .. }) => {}
                found => return found.map(Some),
            }
        }
        Ok(None)
    }

    /// Finds an object by its key. `None`: there is none.
    pub(super) fn find(&self, key: &str) -> Result<Option<Found>> {
        if let Some(path) = key.strip_suffix(DOCUMENT)
            && (path.is_empty() || path.ends_with('/'))
        {
            return Ok(match self.node(path.strip_suffix('/').unwrap_or(path))? {
                None => None,
                Some(PresentedNode::Array(array)) => Some(Found::Document(array.document().to_owned())),
                Some(PresentedNode::Group(group)) => Some(Found::Document(self.group_document(&group)?)),
            });
        }
        let Some((array, place)) = self.chunks_at(key)? else { return Ok(None) };
        Ok(array.find(&place)?.map(|bytes| Found::Chunk(array, place, bytes)))
    }

    /// The array whose chunk, or folder of chunks, has this key, and the chunk's place.
    fn chunks_at(&self, key: &str) -> Result<Option<(Arc<PresentedArray>, Vec<u64>)>> {
        // The last folder with this name: arrays and groups may have it, too.
        let whole = format!("/{key}/");
        let Some(at) = whole.rfind(&format!("/{CHUNKS}/")) else { return Ok(None) };
        let path = whole.get(1..at).unwrap_or_default();
        let place = whole.get(at + CHUNKS.len() + 2..).unwrap_or_default().trim_end_matches('/');
        let Some(place) = parse_place(place) else { return Ok(None) };
        Ok(match self.node(path)? {
            Some(PresentedNode::Array(array)) => Some((array, place)),
            _ => None,
        })
    }

    /// The bytes of an object; an encoded chunk is made now.
    pub(super) fn contents(&self, found: Found) -> Result<Contents> {
        Ok(match found {
            Found::Document(text) => Contents::Bytes(text.into_bytes()),
            Found::Chunk(array, _, ChunkBytes::Stored(place)) => {
                Contents::Range { array, offset: place.offset, len: place.len }
            }
            Found::Chunk(array, place, ChunkBytes::Encoded) => Contents::Bytes(array.encode(&place)?),
        })
    }

    /// Bytes of an object. `None`: there is no such object.
    pub fn size(&self, key: &str) -> Result<Option<u64>> {
        let Some(found) = self.find(key)? else { return Ok(None) };
        if let Found::Chunk(array, _, ChunkBytes::Encoded) = &found
            && let Some(len) = array.encoded_len()
        {
            return Ok(Some(len));
        }
        Ok(Some(self.contents(found)?.len()))
    }

    /// Returns `true` if an object is a range of the file. Others are made when they are read.
    pub fn is_range(&self, key: &str) -> Result<bool> {
        Ok(matches!(self.find(key)?, Some(Found::Chunk(_, _, ChunkBytes::Stored(_)))))
    }

    /// Returns `true` if the bytes of a chunk are in this file, and in no other that it refers to.
    pub fn is_within(&self, key: &str) -> Result<bool> {
        let Some((array, _)) = self.chunks_at(key)? else { return Ok(true) };
        array.is_within(&self.root)
    }

    /// Reads bytes of an object from `start` to `stop`; `None`: to its end.
    /// A negative `start` counts from the end. The part outside the object is cut off. Returns
    /// `None` if there is no such object.
    pub fn get(&self, key: &str, start: i64, stop: Option<u64>) -> Result<Option<Vec<u8>>> {
        let Some(found) = self.find(key)? else { return Ok(None) };
        let contents = self.contents(found)?;
        let size = contents.len();
        let first = match u64::try_from(start) {
            Ok(start) => start.min(size),
            Err(_) => size.saturating_sub(start.unsigned_abs()),
        };
        let len = stop.unwrap_or(size).min(size).saturating_sub(first);
        match contents {
            Contents::Bytes(bytes) if len == size => Ok(Some(bytes)),
            contents => contents.part(first, len).map(Some),
        }
    }

    /// The entries directly below a path, in the order of the file.
    pub fn names(&self, path: &str) -> Result<Vec<Entry>> {
        let document = Entry { name: DOCUMENT.into(), is_prefix: false };
        match self.node(path)? {
            Some(PresentedNode::Group(group)) => {
                let mut names = vec![document];
                names.extend(self.members(&group, path)?.map(|name| Entry { name, is_prefix: true }));
                Ok(names)
            }
            Some(PresentedNode::Array(array)) => {
                let mut names = vec![document];
                let is_prefix = array.rank() > 0;
                let has_chunks =
                    if is_prefix { !array.below(&[])?.is_empty() } else { array.find(&[])?.is_some() };
                names.extend(has_chunks.then(|| Entry { name: CHUNKS.into(), is_prefix }));
                Ok(names)
            }
            None => {
                let Some((array, above)) = self.chunks_at(path)? else { return Ok(Vec::new()) };
                let is_prefix = above.len() + 1 < array.rank();
                let below = array.below(&above)?.into_iter();
                Ok(below.map(|at| Entry { name: at.to_string(), is_prefix }).collect())
            }
        }
    }

    /// The names of the arrays and groups in a group that Zarr has, too.
    fn members(&self, group: &Group, path: &str) -> Result<impl Iterator<Item = String>> {
        let above = self.groups_above(group, path)?;
        let (mut seen, mut names) = (HashSet::from([DOCUMENT.to_owned()]), Vec::new());
        for (stored, _) in group.links()? {
            let name = self.meaning.variable_path(&stored);
            if !seen.insert(name.clone()) {
                continue;
            }
            let is_member = match self.node(&join(path, &name))? {
                None => false,
                Some(PresentedNode::Array(_)) => true,
                // A group that is on the path to itself would never end.
                Some(PresentedNode::Group(member)) => !above.iter().any(|group| is_same(group, &member)),
            };
            if is_member {
                names.push(name);
            }
        }
        Ok(names.into_iter())
    }

    /// The group at a path, and all groups above it.
    fn groups_above(&self, group: &Group, path: &str) -> Result<Vec<Group>> {
        let mut above = vec![self.root.clone(), group.clone()];
        for (end, _) in path.match_indices('/') {
            if let Some(PresentedNode::Group(group)) = self.node(path.get(..end).unwrap_or_default())? {
                above.push(group);
            }
        }
        Ok(above)
    }

    /// All keys below a path, sorted.
    pub fn keys(&self, path: &str) -> Result<Vec<String>> {
        let (mut keys, mut waiting) = (Vec::new(), vec![path.to_owned()]);
        while let Some(folder) = waiting.pop() {
            for Entry { name, is_prefix } in self.names(&folder)? {
                let key = join(&folder, &name);
                if is_prefix { waiting.push(key) } else { keys.push(key) }
            }
            if keys.len() as u64 > MOST_LISTED {
                return Err(too_many(&folder, MOST_LISTED));
            }
        }
        keys.sort_unstable();
        Ok(keys)
    }

    /// The text of `zarr.json` of a group.
    fn group_document(&self, group: &Group) -> Result<String> {
        let (attributes, _) = self.meaning.group_attributes(group)?;
        let members =
            [("zarr_format", 3u32.into()), ("node_type", "group".into()), ("attributes", attributes)];
        Ok(Json::from(members).to_text(None))
    }
}

impl Contents {
    pub(super) fn len(&self) -> u64 {
        match self {
            Contents::Bytes(bytes) => bytes.len() as u64,
            Contents::Range { len, .. } => *len,
        }
    }

    /// Reads a part, which must be inside.
    fn part(&self, first: u64, len: u64) -> Result<Vec<u8>> {
        let none = || match self {
            Contents::Range { array, .. } => {
                let (array, what) = (array.array().name(), "bytes of a chunk");
                Error::from(ArrayError::Memory { array, what, bytes: len })
            }
            Contents::Bytes(_) => Error::Options("an object is larger than memory".into()),
        };
        let zeros = usize::try_from(len).ok().and_then(hyperslab_codec::room::zeros::<u8>);
        let mut bytes = zeros.ok_or_else(none)?;
        self.read(&mut [RangeRead { offset: first, buf: &mut bytes }])?;
        Ok(bytes)
    }

    /// Fills buffers with parts, which must be inside.
    pub(super) fn read(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        match self {
            Contents::Bytes(bytes) => {
                for RangeRead { offset, buf } in ranges.iter_mut() {
                    let first = usize::try_from(*offset).unwrap_or(usize::MAX);
                    if let Some(found) = bytes.get(first..first.saturating_add(buf.len())) {
                        buf.copy_from_slice(found);
                    }
                }
                Ok(())
            }
            Contents::Range { array, offset, .. } => {
                let mut ranges: Vec<RangeRead<'_>> = ranges
                    .iter_mut()
                    .filter(|range| !range.buf.is_empty())
                    .map(|range| RangeRead { offset: offset.saturating_add(range.offset), buf: range.buf })
                    .collect();
                if ranges.is_empty() { Ok(()) } else { read_ranges(array.array(), &mut ranges) }
            }
        }
    }
}

/// Parses the place of a chunk, such as `0/1`. Zarr writes numbers without leading zeros.
fn parse_place(text: &str) -> Option<Vec<u64>> {
    let numbers = text.split('/').filter(|_| !text.is_empty()).map(|part| {
        let number: u64 = part.parse().ok()?;
        (number.to_string() == part).then_some(number)
    });
    numbers.collect()
}

/// Returns `true` if both are the same group of a file.
fn is_same(one: &Group, other: &Group) -> bool {
    match (one.as_hdf5(), other.as_hdf5()) {
        (Some(one), Some(other)) => one.address() == other.address() && one.file().is(other.file()),
        _ => false,
    }
}

/// Returns `true` for an error of reading. Other errors are about the stored bytes.
fn is_of_reading(error: &Error) -> bool {
    matches!(
        error,
        Error::Interrupted
            | Error::Store(_)
            | Error::Array(
                ArrayError::Store { .. } | ArrayError::Memory { .. } | ArrayError::Interrupted { .. }
            )
            | Error::Hdf5(
                Hdf5Error::Store(_)
                    | Hdf5Error::Interrupted { .. }
                    | Hdf5Error::Array(ArrayError::Memory { .. } | ArrayError::Interrupted { .. })
            )
    )
}
