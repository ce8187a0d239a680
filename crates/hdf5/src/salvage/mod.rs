//! Salvage of damaged files: a killed program left them, or they were cut.
//!
//! 1. A lenient reader (`losses.rs`) opens the file, and walks everything that the root group leads to. It
//!    notes each structure that it cannot read, and goes on.
//! 2. Chunks with filters are decoded (`chunks.rs`). A chunk that does not decode, or that shares bytes
//!    with another structure, is lost: it might have the values of another chunk.
//! 3. If nothing is lost, only flags or lengths are wrong. They are put right in place (`mend.rs`).
//! 4. Otherwise object headers are looked for by their bytes (`scan.rs`): objects that nothing leads to
//!    any more get names in `/lost+found`.
//! 5. The code that compacts files copies all found objects, message for message ([`Salvage`]).

mod chunks;
mod doubts;
pub(crate) mod losses;
mod mend;
mod open;
mod scan;
#[cfg(test)]
mod tests;
mod walk;

pub use losses::Loss;
pub use mend::{Mend, Patch};

use crate::compact::Compacted;
use crate::compact::salvaged::LOST_AND_FOUND;
use crate::compact::{Compaction, Salvaged};
use crate::{FileOptions, Hdf5Error, Result};
use chunks::{Owner, overlapping};
use hyperslab_store::fork::Mutex;
use hyperslab_store::{EditedFile, Store};
use open::Opened;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use walk::Walk;

/// A file whose reachable objects were looked at.
pub struct Torn {
    opened: Opened,
    walk: Walk,
    /// Addresses of orphans.
    orphans: Vec<u64>,
    /// Chunks that do not decode, by the number of their dataset. Gated.
    wrong: Mutex<Vec<(usize, u64, String)>>,
    /// Datasets whose chunks were tested, and objects that are no orphans.
    tested: usize,
    runs_tested: usize,
    /// The caller knows that a program was killed while it wrote the file.
    killed: bool,
    /// For each dataset that was not tested yet: the pieces of work up to its end.
    ends: Vec<u64>,
}

impl std::fmt::Debug for Torn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Torn({})", self.opened.file.source().name())
    }
}

impl Torn {
    /// Opens the object `key` of a store, whatever its state, and reads all structures that its root
    /// group leads to. `killed`: a program was killed while it wrote the file. Otherwise only what the file
    /// tells counts, and files of old versions may tell nothing.
    pub fn open(store: Arc<dyn Store>, key: &str, options: FileOptions, killed: bool) -> Result<Torn> {
        let first = Torn::walked(&store, key, &options, false)?;
        // Whole files may have leaves of earlier states, which only their neighbours know.
        let is_whole = !killed && !first.has_losses() && !first.ends_elsewhere() && first.mend()?.is_empty();
        match first.opened.is_ours || is_whole {
            true => Ok(first),
            false => Ok(Torn { killed, ..Torn::walked(&store, key, &options, true)? }),
        }
    }

    fn walked(store: &Arc<dyn Store>, key: &str, options: &FileOptions, torn: bool) -> Result<Torn> {
        let opened = open::open(store.clone(), key, options.clone(), torn)?;
        let mut walk = Walk::default();
        if opened.has_superblock {
            let root = opened.file.inner.superblock.root;
            walk.add(&opened.file, &opened.losses, root, "/")?;
        }
        let (orphans, wrong) = (Vec::new(), Mutex::default());
        let mut torn =
            Torn { opened, walk, orphans, wrong, tested: 0, runs_tested: 0, killed: false, ends: Vec::new() };
        torn.count_pieces();
        Ok(torn)
    }

    fn count_pieces(&mut self) {
        let pieces = self.walk.datasets.iter().skip(self.tested).map(chunks::Stored::pieces);
        let ends = pieces.scan(0_u64, |end, pieces| {
            *end = end.saturating_add(pieces);
            Some(*end)
        });
        self.ends = ends.collect();
    }

    /// Returns `true` if the file does not end where its superblock says.
    fn ends_elsewhere(&self) -> bool {
        let file = &self.opened.file;
        file.inner.superblock.end_from(file.source().base()).is_some_and(|end| end != file.source().size())
    }

    /// Pieces of work for [`Torn::test`].
    pub fn pieces(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Decodes some chunks. Several threads may test pieces at once.
    pub fn test(&self, piece: u64) -> Result<()> {
        let (number, piece) = self.owner(piece);
        let Some(dataset) = self.walk.datasets.get(number) else { return Ok(()) };
        let wrong = dataset.test(self.opened.file.source(), piece)?;
        let wrong = wrong.into_iter().map(|(record, why)| (number, record.number, why));
        self.wrong.lock().extend(wrong);
        Ok(())
    }

    /// The number of the dataset of a piece, and the number of the piece there.
    fn owner(&self, piece: u64) -> (usize, u64) {
        let at = self.ends.partition_point(|end| *end <= piece);
        let first = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        (self.tested.saturating_add(at), piece.saturating_sub(first))
    }

    /// Drops chunks that do not decode, and elements that share bytes with others. Call it once all
    /// pieces were tested.
    pub fn settle(&mut self) {
        let losses = self.opened.losses.clone();
        let mut wrong: HashMap<usize, HashMap<u64, String>> = HashMap::new();
        for (dataset, chunk, why) in self.wrong.lock().drain(..) {
            wrong.entry(dataset).or_default().insert(chunk, why);
        }
        self.lose(&losses, &wrong);
        let (mut wrong, mut runs): (HashMap<usize, HashMap<u64, String>>, HashSet<usize>) =
            Default::default();
        let why = "its bytes are also those of something else: nobody can tell whose they are";
        for owner in overlapping(self.walk.all_extents(&losses.structures())) {
            match owner {
                // Objects that the root group leads to keep their bytes.
                Owner::Chunk(dataset, _) if dataset < self.tested => {}
                Owner::Run(run) if run < self.runs_tested => {}
                Owner::Chunk(dataset, chunk) => {
                    wrong.entry(dataset).or_default().insert(chunk, why.into());
                }
                Owner::Run(run) => drop(runs.insert(run)),
                Owner::Structure => {}
            }
        }
        self.lose(&losses, &wrong);
        for run in &runs {
            if let Some(run) = self.walk.runs.get(*run) {
                losses.enter(&run.path);
                losses.note(Some(run.header), why);
            }
        }
        let lost: HashSet<u64> =
            runs.iter().filter_map(|run| self.walk.runs.get(*run)).map(|run| run.header).collect();
        self.walk.objects.retain(|found| !lost.contains(&found.address));
        self.walk.extents.retain(|extent| !matches!(extent.owner, Owner::Run(run) if runs.contains(&run)));
        self.tested = self.walk.datasets.len();
        self.runs_tested = self.walk.runs.len();
        self.count_pieces();
    }

    fn lose(&mut self, losses: &losses::Losses, wrong: &HashMap<usize, HashMap<u64, String>>) {
        for (number, dataset) in self.walk.datasets.iter_mut().enumerate() {
            if let Some(wrong) = wrong.get(&number) {
                dataset.lose(losses, wrong);
            }
        }
    }

    /// Returns `true` if something is lost, so that the file cannot be put right in place.
    pub fn has_losses(&self) -> bool {
        !self.opened.losses.is_empty()
    }

    /// All losses so far, and the number of those that are not listed.
    pub fn losses(&self) -> (Vec<Loss>, u64) {
        self.opened.losses.all()
    }

    /// Reads everything that a copy would read, and notes what is lost: values of variable length.
    ///
    /// Call it before the file is put right in place.
    pub fn rehearse(&mut self) -> Result<()> {
        let Opened { file, superblock, .. } = &self.opened;
        let salvaged = Salvaged { root: file.inner.superblock.root, ..Salvaged::default() };
        let all = self.walk.objects.clone();
        match Compaction::salvaged(file, superblock.clone(), all, salvaged) {
            // It cannot be copied, but may be put right in place.
            Ok(_) | Err(Hdf5Error::Unsupported { .. } | Hdf5Error::Unstorable { .. }) => Ok(()),
            Err(error) => self.opened.file.source().lose(error),
        }
    }

    /// Paths of datasets of a torn file that may have chunks with the values of others: their places were
    /// taken by chunks of the same length.
    pub fn doubts(&self) -> Result<Vec<String>> {
        let Opened { file, losses, .. } = &self.opened;
        match losses.is_torn() {
            true => {
                // A lost chunk tells, too, that chunks were being written. If writes are missing, an index may be
                // newer than the bytes of its chunks.
                let is_known = self.killed
                    || losses.lacks_writes()
                    || losses.all().0.iter().any(|loss| loss.chunk.is_some());
                doubts::doubts(file.source(), &self.walk, &losses.structures(), is_known)
            }
            false => Ok(Vec::new()),
        }
    }

    /// The changes that put flags and lengths right. Empty: nothing is wrong with them.
    pub fn mend(&self) -> Result<Mend> {
        mend::of(&self.opened, &self.walk)
    }

    /// Looks for objects that nothing leads to. Their chunks are then to be tested and settled, too.
    pub fn adopt(&mut self) -> Result<()> {
        let Opened { file, losses, .. } = &self.opened;
        for address in scan::orphans(file, losses, &self.walk)? {
            if !self.walk.seen.contains(&address) {
                self.orphans.push(address);
                self.walk.add(file, losses, address, &format!("/{LOST_AND_FOUND}/{address}"))?;
            }
        }
        self.count_pieces();
        Ok(())
    }

    /// Plans a copy of everything that is left.
    ///
    /// Fails with [`Unsupported`](crate::Hdf5Error::Unsupported) if the file has a feature that cannot be
    /// copied.
    pub fn salvage(self) -> Result<Salvage> {
        let Torn { opened, walk, orphans, .. } = self;
        let Opened { file, losses, superblock, has_superblock, .. } = opened;
        let mut objects = walk.objects;
        let kept: HashSet<u64> = objects.iter().map(|found| found.address).collect();
        let mut salvaged = Salvaged { root: file.inner.superblock.root, ..Salvaged::default() };
        let is_group = |address| file.header(address).is_ok_and(|header| header.is_group());
        if !has_superblock || !kept.contains(&salvaged.root) || !is_group(salvaged.root) {
            salvaged.replace_root(&mut objects)?;
        }
        let tops: Vec<u64> = orphans.into_iter().filter(|address| kept.contains(address)).collect();
        salvaged.adopt(&tops, &mut objects)?;
        let datasets = walk.datasets;
        salvaged.chunks = datasets.into_iter().map(|stored| (stored.header, stored.index)).collect();
        let compaction = Compaction::salvaged(&file, superblock, objects, salvaged)?;
        let (lost, more) = losses.all();
        Ok(Salvage { adopted: compaction.adopted(), compaction, lost, more })
    }
}

/// A copy of everything that was found in a damaged file.
#[derive(Debug)]
pub struct Salvage {
    compaction: Compaction,
    /// Objects in `/lost+found`, without those below them.
    pub adopted: u64,
    /// The losses.
    pub lost: Vec<Loss>,
    /// Losses that are not listed.
    pub more: u64,
}

impl Salvage {
    /// The paths of all objects of the copy.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.compaction.paths()
    }

    /// Bytes of the file, and of the copy.
    pub fn expected(&self) -> Compacted {
        self.compaction.expected()
    }

    /// Writes the copy to an empty file, and reads its structures again. `advance` is called with the
    /// number of bytes since its last call. It returns `false` to stop.
    pub fn write(&self, into: &Arc<EditedFile>, advance: &mut dyn FnMut(u64) -> bool) -> Result<Compacted> {
        self.compaction.write(into, advance)
    }
}
