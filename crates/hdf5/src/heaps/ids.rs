//! Many global heap ids at once (specification III.E): what elements of variable length and references to regions hold.
//!
//! 1. Ids are noted cell by cell; those that follow each other mostly have the same collection.
//! 2. Cells are grouped by collection, by counting, the collections in the order of their addresses.
//! 3. Each collection is fetched once, neighbours together. One is needed at a time, however large the heap is.

use crate::{File, Hdf5Error};
use std::collections::HashMap;

/// Collections that are fetched together.
const TOGETHER: usize = 64;

/// The most bytes that are fetched for each of them: how large they are is not known before.
const LOOK_AHEAD: u64 = 64 << 10;

/// The number of no collection.
const NONE: u32 = u32::MAX;

/// The heap ids of numbered cells.
#[derive(Debug, Default)]
pub(crate) struct HeapIds {
    /// For each cell the number of its collection, and the index of the object in it.
    cells: Vec<(u32, u32)>,
    /// The collections, as they came.
    addresses: Vec<u64>,
    numbers: HashMap<u64, u32>,
}

/// Cells by collection.
struct Grouped {
    /// Addresses of the collections, ascending, with how many cells each has.
    sorted: Vec<(u64, usize)>,
    /// The cells in that order, with the index of each.
    cells: Vec<(usize, u32)>,
}

impl HeapIds {
    /// Notes the next cell: address of the collection and index of the object; `None`: it has none.
    pub fn push(&mut self, id: Option<(u64, u32)>) {
        let Some((address, index)) = id else { return self.cells.push((NONE, 0)) };
        let last = self.cells.last().map_or(NONE, |(number, _)| *number);
        if usize::try_from(last).ok().and_then(|last| self.addresses.get(last)) == Some(&address) {
            return self.cells.push((last, index));
        }
        // There are fewer collections than 2³² in any file: each has 4 KiB, or was found wrong before.
        let next = u32::try_from(self.addresses.len()).unwrap_or(NONE);
        let number = *self.numbers.entry(address).or_insert(next);
        if number == next {
            self.addresses.push(address);
        }
        self.cells.push((number, index));
    }

    /// Calls `each` with the number of every cell that has an id, and with its object, in no order. Errors of it are about that cell.
    pub fn objects(
        &self,
        file: &File,
        mut each: impl FnMut(usize, &[u8]) -> Result<(), String>,
    ) -> Result<(), Hdf5Error> {
        let Grouped { sorted, cells } = self.grouped();
        let mut cells = cells.as_slice();
        for (at, (address, count)) in sorted.iter().enumerate() {
            if at % TOGETHER == 0 {
                prefetch(file, sorted.get(at..).unwrap_or_default())?;
            }
            let (here, later) = cells.split_at((*count).min(cells.len()));
            cells = later;
            let named = |cell: usize, why: String| {
                let why = format!("element {cell}, global heap collection at address {address}: {why}");
                file.source().invalid(why)
            };
            let first = here.first().map_or(0, |(cell, _)| *cell);
            let collection = file.collection(*address).map_err(|error| match error {
                Hdf5Error::Parse { why, .. } => named(first, why.to_string()),
                other => other,
            })?;
            for (cell, index) in here {
                let object = collection.object(*index);
                let result = object.ok_or_else(|| format!("there is no object {index}"));
                let result = result.and_then(|object| each(*cell, object));
                result.map_err(|why| named(*cell, why))?;
            }
        }
        Ok(())
    }

    fn grouped(&self) -> Grouped {
        let at = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let mut counts = vec![0; self.addresses.len()];
        for (number, _) in &self.cells {
            if let Some(count) = counts.get_mut(at(*number)) {
                *count += 1;
            }
        }
        let mut order: Vec<usize> = (0..self.addresses.len()).collect();
        order.sort_unstable_by_key(|number| self.addresses.get(*number));
        // Where the next cell of each collection goes.
        let mut next = vec![0; order.len()];
        let (mut sorted, mut end) = (Vec::with_capacity(order.len()), 0);
        for number in order {
            let (Some(address), Some(count)) = (self.addresses.get(number), counts.get(number)) else {
                continue;
            };
            sorted.push((*address, *count));
            if let Some(next) = next.get_mut(number) {
                *next = end;
            }
            end += count;
        }
        let mut cells = vec![(0, 0); end];
        for (cell, (number, index)) in self.cells.iter().enumerate() {
            if let Some(next) = next.get_mut(at(*number)) {
                if let Some(place) = cells.get_mut(*next) {
                    *place = (cell, *index);
                }
                *next += 1;
            }
        }
        Grouped { sorted, cells }
    }
}

/// Fetches the first of these collections together, as far as each can reach before the next one begins.
fn prefetch(file: &File, sorted: &[(u64, usize)]) -> Result<(), Hdf5Error> {
    let ends = sorted.iter().skip(1).map(|(next, _)| *next).chain([u64::MAX]);
    let wanted: Vec<(u64, u64)> = sorted
        .iter()
        .zip(ends)
        .take(TOGETHER)
        .filter(|((address, _), _)| !file.has_collection(*address))
        .map(|((address, _), end)| (*address, (end - address).min(LOOK_AHEAD)))
        .collect();
    if wanted.len() > 1 { file.source().prefetch(&wanted) } else { Ok(()) }
}
