//! Many global heap ids at once (specification III.E): what elements of variable length and references to regions hold.
//!
//! 1. Ids are noted cell by cell; those that follow each other mostly have the same collection.
//! 2. Collections are sorted by address and cut into runs of about 1 MiB of the file.
//! 3. Cells are grouped by run, by counting. Each run is fetched once, by the thread that copies its objects; what is in memory of the heap are the runs that
//!    are being copied.

use super::{Numbers, Object, Ranked};
use crate::{File, Hdf5Error, HeapError};
use hyperslab_array::{Group, fill_groups};
use std::ops::Range;

/// The collections of a run begin within so many bytes.
const RUN: u64 = 1 << 20;

/// The number of no collection, and of no run.
const NONE: u32 = u32::MAX;

/// The heap ids of numbered cells.
#[derive(Debug, Default)]
pub(crate) struct HeapIds {
    /// For each cell the number of its collection, and the index of the object in it.
    cells: Vec<(u32, u32)>,
    /// The collections.
    numbers: Numbers,
}

/// Cells by collection.
#[derive(Debug)]
pub(crate) struct Grouped {
    /// For each cell the number of its collection in `addresses`, and the index of the object in it.
    cells: Vec<(u32, u32)>,
    /// The collections, ascending.
    addresses: Vec<u64>,
    /// Those that are fetched together.
    runs: Vec<Range<usize>>,
    /// For each cell the number of its run.
    run_of: Vec<u32>,
}

/// Why an object cannot be what it should.
#[derive(Debug)]
pub(crate) enum ObjectError {
    /// What is wrong with it.
    Wrong(String),
    /// It could not be read.
    Read(Hdf5Error),
}

impl From<String> for ObjectError {
    fn from(why: String) -> Self {
        ObjectError::Wrong(why)
    }
}

impl From<Hdf5Error> for ObjectError {
    fn from(error: Hdf5Error) -> Self {
        ObjectError::Read(error)
    }
}

impl ObjectError {
    /// The error as one about an element, whose object is in the collection at this address.
    pub fn of(self, file: &File, cell: usize, address: u64) -> Hdf5Error {
        let why = match self {
            ObjectError::Wrong(why) => why,
            ObjectError::Read(Hdf5Error::Parse { why, .. }) => why.to_string(),
            ObjectError::Read(error) => return error,
        };
        named(file, cell, address, why)
    }
}

impl HeapIds {
    /// Nothing yet; later on this many cells.
    pub fn with_capacity(cells: usize) -> Self {
        HeapIds { cells: Vec::with_capacity(cells), ..HeapIds::default() }
    }

    /// Notes the next cell: address of the collection and index of the object; `None`: it has none.
    #[inline]
    pub fn push(&mut self, id: Option<(u64, u32)>) {
        let id = id.map_or((NONE, 0), |(address, index)| (self.numbers.of(address), index));
        self.cells.push(id);
    }

    /// The cells by collection.
    pub fn grouped(self) -> Grouped {
        let HeapIds { mut cells, numbers } = self;
        let addresses = numbers.into_addresses();
        let ranked = Ranked::new(&addresses);
        for (number, _) in &mut cells {
            *number = u32::try_from(ranked.place(at(*number))).unwrap_or(NONE);
        }
        let addresses = ranked.into_addresses();
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut begin = 0;
        let mut run_of_collection = Vec::with_capacity(addresses.len());
        for (place, address) in addresses.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if address - begin < RUN => run.end = place + 1,
                _ => {
                    begin = *address;
                    runs.push(place..place + 1);
                }
            }
            run_of_collection.push(u32::try_from(runs.len() - 1).unwrap_or(NONE));
        }
        let run_of = |(number, _): &(u32, u32)| run_of_collection.get(at(*number)).copied().unwrap_or(NONE);
        let run_of = cells.iter().map(run_of).collect();
        Grouped { cells, addresses, runs, run_of }
    }
}

/// How collections are fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch<'a> {
    /// Where they are.
    pub file: &'a File,
    /// Whether they may be wanted again.
    pub keep: bool,
    /// What the first cell is called in errors; the others follow.
    pub first: usize,
}

impl Grouped {
    /// Calls `each` with the number of every cell that has an id, its object (`None`: there is none), the index of that, and its bytes of `values`, where cell `i` has `lens[i] * size`; on up to `threads` threads, in
    /// no order. Errors of it are about that cell.
    pub fn fill(
        &self,
        fetch: Fetch<'_>,
        values: &mut [u8],
        lens: &[u32],
        size: usize,
        threads: Option<usize>,
        each: impl Fn(usize, Option<Object<'_>>, u32, &mut [u8]) -> Result<(), ObjectError> + Sync,
    ) -> Result<(), Hdf5Error> {
        let filled = fill_groups(values, lens, size, &self.run_of, self.runs.len(), threads, &|group| {
            self.fill_run(fetch, group, &each)
        })?;
        if filled {
            return Ok(());
        }
        Err(fetch.file.source().invalid(format!("no memory for {} heap ids", self.cells.len())))
    }

    /// Fetches a run and calls `each` for its cells.
    fn fill_run(
        &self,
        Fetch { file, keep, first }: Fetch<'_>,
        group: &mut Group<'_>,
        each: &impl Fn(usize, Option<Object<'_>>, u32, &mut [u8]) -> Result<(), ObjectError>,
    ) -> Result<(), Hdf5Error> {
        let run = self.runs.get(group.number()).cloned().unwrap_or_default();
        let addresses = self.addresses.get(run.clone()).unwrap_or_default();
        let named =
            |cell: usize, address: u64, why: String| named(file, first.saturating_add(cell), address, why);
        let collections = match file.collections(addresses, keep) {
            Ok(collections) => collections,
            Err(Hdf5Error::Parse { address, why, .. }) => {
                // It is told of the first cell that needs the collection.
                let is_its = |cell| self.address(cell) == Some(address);
                group.fill(&mut |cell, _| match is_its(cell) {
                    true => Err(named(cell, address, why.to_string())),
                    false => Ok(()),
                })?;
                return Err(file.source().invalid(why.to_string()));
            }
            Err(error) => return Err(error),
        };
        let open: Vec<_> = collections.iter().map(|found| (&**found, found.bytes())).collect();
        group.fill(&mut |cell, place| {
            let Some((number, index)) = self.cells.get(cell).copied() else { return Ok(()) };
            let collection = at(number).checked_sub(run.start).and_then(|number| open.get(number));
            let Some((collection, bytes)) = collection else { return Ok(()) };
            let object = collection.object_in(bytes, index);
            each(cell, object, index, place)
                .map_err(|error| error.of(file, first.saturating_add(cell), collection.address()))
        })
    }

    fn address(&self, cell: usize) -> Option<u64> {
        let (number, _) = self.cells.get(cell)?;
        self.addresses.get(at(*number)).copied()
    }
}

/// An error about a cell.
pub(crate) fn named(file: &File, cell: usize, address: u64, why: String) -> Hdf5Error {
    let (of, within) = (String::new(), String::new());
    let file = file.source().name();
    Hdf5Error::Heap(Box::new(HeapError { file, object: None, of, element: cell, within, address, why }))
}

#[inline]
fn at(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
