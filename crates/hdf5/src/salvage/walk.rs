//! Finds the objects of a damaged file, and the bytes that are theirs.

use super::chunks::{Extent, Owner, Stored};
use super::losses::Losses;
use crate::compact::{Found, survey};
use crate::data_layout::DataLayout;
use crate::dataspace::Dataspace;
use crate::datatype::{self, Datatype};
use crate::index::ChunkIndex;
use crate::object_header::ObjectHeader;
use crate::{Dataset, File, Node, Result, dataspace};
use std::collections::HashSet;

/// A contiguous run of elements.
#[derive(Debug)]
pub(super) struct Run {
    /// Address of the dataset's header, and its path.
    pub header: u64,
    pub path: String,
}

/// The amounts that a walk has read, which are bounded.
///
/// Structures of a whole file share no bytes: its size bounds their number. In a forged file, thousands
/// of objects may name one index, which would be read again for each of them.
#[derive(Debug, Default)]
pub(super) struct Spent {
    /// Links and attributes. None is shorter than 8 bytes.
    links: u64,
    /// Chunks. Each has a byte.
    chunks: u64,
    /// Their bytes. A killed program may leave chunks that share bytes, so several times the size of the
    /// file may be decoded.
    chunk_bytes: u64,
}

/// Bytes of a link, at least.
const LINK: u64 = 8;

/// The largest sum of the lengths of chunks, in lengths of the file.
const SHARED: u64 = 16;

impl Spent {
    /// Returns `true` as long as links may be read.
    pub fn has_links(&self, size: u64) -> bool {
        self.links <= size / LINK
    }

    /// Counts links that were read.
    pub fn add_links(&mut self, count: usize) {
        self.links = self.links.saturating_add(count as u64);
    }

    fn has_chunks(&self, size: u64) -> bool {
        self.chunks <= size && self.chunk_bytes / SHARED <= size
    }

    fn add_chunks(&mut self, index: &ChunkIndex) {
        self.chunks = self.chunks.saturating_add(index.records.len() as u64);
        for record in &index.records {
            self.chunk_bytes = self.chunk_bytes.saturating_add(record.size);
        }
    }
}

/// The objects and bytes that were found so far.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub objects: Vec<Found>,
    pub seen: HashSet<u64>,
    pub runs: Vec<Run>,
    pub datasets: Vec<Stored>,
    /// The bytes of headers and runs. Those of chunks are in `datasets`.
    pub extents: Vec<Extent>,
    spent: Spent,
}

impl Walk {
    /// Adds an object and everything that it leads to.
    pub fn add(&mut self, file: &File, losses: &Losses, root: u64, path: &str) -> Result<()> {
        let mut waiting = vec![Found { address: root, path: path.to_owned() }];
        while let Some(next) = waiting.pop() {
            if !self.seen.insert(next.address) {
                continue;
            }
            file.source().go_on()?;
            losses.enter(&next.path);
            let header = match file.header(next.address).and_then(|header| {
                check_kind(file, &header, &next.path)?;
                Ok(header)
            }) {
                Ok(header) => header,
                Err(error) => {
                    file.source().lose(error)?;
                    continue;
                }
            };
            let blocks = [(next.address, header.prefix.block)].into_iter().chain(header.blocks.clone());
            self.extents.extend(blocks.map(|(start, len)| Extent {
                start,
                end: start.saturating_add(len),
                owner: Owner::Structure,
            }));
            if is_dataset(&header)
                && let Ok(Node::Dataset(dataset)) = file.object_at(next.address, &next.path)
            {
                self.dataset(file, losses, &dataset)?;
            }
            losses.enter(&next.path);
            if !self.spent.has_links(file.source().end()) {
                losses.note(None, "the file has more links than fit into it: its members are left out");
                self.objects.push(next);
                continue;
            }
            let below = survey::below(file, &header)?;
            self.spent.add_links(below.len());
            let seen = &self.seen;
            waiting.extend(below.into_iter().rev().filter(|(address, _)| !seen.contains(address)).map(
                |(address, name)| {
                    let above = next.path.trim_end_matches('/');
                    Found { address, path: format!("{above}/{name}") }
                },
            ));
            self.objects.push(next);
        }
        Ok(())
    }

    fn dataset(&mut self, file: &File, losses: &Losses, dataset: &Dataset) -> Result<()> {
        let end = file.source().end();
        match dataset.data_layout() {
            DataLayout::Contiguous { address: Some(start), size } if dataset.external_files().is_empty() => {
                let count = dataset.dataspace().count().unwrap_or(0);
                let bytes = count.saturating_mul(dataset.datatype().size.into());
                let len = size.unwrap_or(bytes);
                let there = len.min(end.saturating_sub(*start));
                if there < len {
                    let lost = len - there;
                    let why = format!("{lost} of its {len} bytes of elements are behind the end of the file");
                    losses.note(Some(start.saturating_add(there)), format!("{why}: they become zero"));
                }
                let owner = Owner::Run(self.runs.len());
                self.extents.push(Extent { start: *start, end: start.saturating_add(there), owner });
                self.runs.push(Run { header: dataset.address(), path: dataset.path().to_owned() });
            }
            DataLayout::Chunked(layout) => {
                let found = match self.spent.has_chunks(end) {
                    true => dataset.stored_index(),
                    false => {
                        let why =
                            "the file has more chunks than fit into it: those of this dataset are left out";
                        Err(file.source().invalid(why))
                    }
                };
                let index = match found {
                    Ok(index) => index.map(|index| (*index).clone()).unwrap_or_default(),
                    Err(error) => {
                        file.source().lose(error)?;
                        let Dataspace::Simple { shape, .. } = dataset.dataspace() else { return Ok(()) };
                        let axes = shape.iter().zip(&layout.chunk);
                        let counts = axes.map(|(n, chunk)| n.div_ceil((*chunk).max(1))).collect();
                        ChunkIndex { counts, records: Vec::new() }
                    }
                };
                self.spent.add_chunks(&index);
                self.datasets.push(Stored::new(dataset, layout, index));
            }
            _ => {}
        }
        Ok(())
    }

    /// All ranges of bytes.
    pub fn all_extents(&self, structures: &[u64]) -> Vec<Extent> {
        let mut all = self.extents.clone();
        for (number, dataset) in self.datasets.iter().enumerate() {
            all.extend(dataset.index.records.iter().map(|record| Extent {
                start: record.address,
                end: record.address.saturating_add(record.size),
                owner: Owner::Chunk(number, record.number),
            }));
        }
        all.extend(structures.iter().map(|start| Extent {
            start: *start,
            end: start.saturating_add(4),
            owner: Owner::Structure,
        }));
        all
    }
}

/// The bytes of elements, headers and structures that were found, sorted and joined.
pub(super) fn joined(walk: &Walk, structures: &[u64]) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> =
        walk.all_extents(structures).iter().map(|extent| (extent.start, extent.end)).collect();
    all.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in all {
        match joined.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => joined.push((start, end)),
        }
    }
    joined
}

pub(super) fn is_dataset(header: &ObjectHeader) -> bool {
    let has = |kind| header.message(kind).is_some();
    !header.is_group() && has(datatype::KIND) && has(dataspace::KIND)
}

/// Fails if a header is none of an object, or if it lacks what its kind of object needs.
pub(super) fn check_kind(file: &File, header: &ObjectHeader, path: &str) -> Result<()> {
    if header.is_group() {
        return Ok(());
    }
    if is_dataset(header) {
        return file.object_at(header.address, path).map(drop);
    }
    match file.message(header, datatype::KIND, Datatype::parse)? {
        Some(_) => Ok(()),
        None => {
            let why = format!(
                "the object at address {} is neither a group nor a dataset nor a datatype",
                header.address
            );
            Err(file.source().invalid(why))
        }
    }
}
