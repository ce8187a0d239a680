//! Filling many places of one memory, group by group, on all threads.
//!
//! References into a heap are resolved by what they refer to (a collection of HDF5's global heap), not in the order of the result. Steps:
//!
//! 1. add up the lengths: where each cell begins;
//! 2. sort the cells by group, by counting: each has one place in one list, so no two groups share a cell, and within a group cells stay in order;
//! 3. give groups to threads, those of few cells several at a time, in the order of their numbers.

use crate::{execute, process};
use std::fmt;
use std::marker::PhantomData;

/// What finding out about a cell costs, in bytes that could be copied instead.
const CELL_WORK: u64 = 64;

/// Parts that each thread takes on average: so many that uneven ones do not leave threads idle.
const TURNS: usize = 16;

/// Cells of one group, to be filled.
pub struct Group<'a> {
    number: usize,
    /// The cells, ascending.
    cells: &'a [u32],
    places: &'a Places<'a>,
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({}, {} cells)", self.number, self.cells.len())
    }
}

impl Group<'_> {
    /// Its number.
    pub fn number(&self) -> usize {
        self.number
    }

    /// How many cells it has; never none.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Calls `each` with the number of every cell, ascending, and with the place of its bytes. Stops at the first error.
    #[allow(clippy::type_complexity)]
    pub fn fill<E>(&mut self, each: &mut dyn FnMut(usize, &mut [u8]) -> Result<(), E>) -> Result<(), E> {
        for cell in self.cells {
            let cell = *cell as usize;
            // SAFETY: this group is the only one that has the cell, and is borrowed exclusively; the place is lent for this call alone.
            each(cell, unsafe { self.places.get(cell) })?;
        }
        Ok(())
    }
}

/// Cells one behind the other in one memory. Shared by threads, each of which has other cells.
struct Places<'a> {
    base: *mut u8,
    /// Where each cell begins, and where the last one ends: ascending, none of them beyond the memory.
    starts: Vec<usize>,
    memory: PhantomData<&'a mut [u8]>,
}

// SAFETY: stands for an exclusive borrow of bytes; who takes places of it takes each on one thread (see `Places::get`).
unsafe impl Sync for Places<'_> {}

impl<'a> Places<'a> {
    /// `None` where the cells do not fit.
    fn new(values: &'a mut [u8], lens: &[u32], size: usize) -> Option<Self> {
        let mut starts = Vec::new();
        starts.try_reserve_exact(lens.len().checked_add(1)?).ok()?;
        let mut end = 0usize;
        starts.push(end);
        for len in lens {
            end = end.checked_add((*len as usize).checked_mul(size)?)?;
            starts.push(end);
        }
        (end <= values.len()).then_some(Places { base: values.as_mut_ptr(), starts, memory: PhantomData })
    }

    /// The place of a cell.
    ///
    /// # Safety
    /// While the place is in use nobody else may take that of the same cell.
    #[allow(clippy::mut_from_ref)]
    unsafe fn get(&self, cell: usize) -> &mut [u8] {
        let (start, end) = (self.starts[cell], self.starts[cell + 1]);
        // SAFETY: starts ascend and lie within the memory, which is borrowed for as long as this value lives; so other cells have other bytes, and this one
        // has no other user, as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(start), end - start) }
    }
}

/// Cells sorted by group: `cells[ends[n - 1]..ends[n]]` are those of group `n`.
struct Groups {
    cells: Vec<u32>,
    ends: Vec<usize>,
}

impl Groups {
    /// `None` where there is no memory, or more cells than have numbers.
    fn new(group_of: &[u32], groups: usize) -> Option<Self> {
        u32::try_from(group_of.len()).ok()?;
        let mut ends: Vec<usize> = Vec::new();
        ends.try_reserve_exact(groups.checked_add(1)?).ok()?;
        // Counts stand one place further than the group's, and become, one after the other, starts; filling then makes ends of starts.
        ends.resize(groups + 1, 0);
        let mut count = 0;
        for group in group_of {
            if (*group as usize) < groups {
                ends[*group as usize + 1] += 1;
                count += 1;
            }
        }
        for n in 1..=groups {
            ends[n] += ends[n - 1];
        }
        let mut cells: Vec<u32> = Vec::new();
        cells.try_reserve_exact(count).ok()?;
        cells.resize(count, 0);
        for (cell, group) in group_of.iter().enumerate() {
            if (*group as usize) < groups {
                let next = &mut ends[*group as usize];
                cells[*next] = cell as u32;
                *next += 1;
            }
        }
        ends.truncate(groups);
        Some(Groups { cells, ends })
    }

    fn of(&self, n: usize) -> &[u32] {
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        &self.cells[start..self.ends[n]]
    }
}

/// Fills `values`, where cell `i` has `lens[i] * size` bytes, one behind the other, on up to `threads` threads (`None`: [`crate::settings::threads`]), group by group: cell `i` is in
/// group `group_of[i]`, of `groups` groups (any other number, such as `u32::MAX`: in none, it stays as it is). Groups are started in the order of their numbers, those without cells not at all. Cells are grouped by
/// counting, so no two groups have the same one, and no two threads the same bytes. Small work stays on the caller's thread.
///
/// After an error no further groups are started; the error of the lowest group that failed is returned. Checked first: where `values` are shorter than the cells, where `group_of` has another
/// number of cells than `lens`, and where there is no memory, nothing is filled and the result is `Ok(false)`.
#[allow(clippy::too_many_arguments)]
pub fn fill_groups<E: Send>(
    values: &mut [u8],
    lens: &[u32],
    size: usize,
    group_of: &[u32],
    groups: usize,
    threads: Option<usize>,
    fill: &(dyn Fn(&mut Group<'_>) -> Result<(), E> + Sync),
) -> Result<bool, E> {
    if group_of.len() != lens.len() {
        return Ok(false);
    }
    let (Some(places), Some(sorted)) = (Places::new(values, lens, size), Groups::new(group_of, groups))
    else {
        return Ok(false);
    };
    let bytes = places.starts.last().map_or(0, |end| *end as u64);
    let work = bytes.saturating_add(CELL_WORK.saturating_mul(sorted.cells.len() as u64));
    let threads = execute::worthwhile(work, execute::INLINE_WORK, groups, execute::limit(threads));
    // One after the other where nobody else takes part.
    let per = groups.div_ceil(threads.max(1) * TURNS).max(1);
    let part = |number: usize| {
        let first = number * per;
        for n in first..groups.min(first + per) {
            let cells = sorted.of(n);
            if !cells.is_empty() {
                fill(&mut Group { number: n, cells, places: &places })?;
            }
        }
        Ok(())
    };
    process::current().pool.run(groups.div_ceil(per), threads, &|| 0, &part, &|| None)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;

    /// What each group writes into a cell.
    fn byte(group: usize, cell: usize) -> u8 {
        (group * 31 + cell * 7 + 1) as u8
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn every_cell_is_filled_by_its_group(
            cells in prop::collection::vec((0u32..9, prop_oneof![9 => 0u32..20, 1 => Just(u32::MAX)]), 0..300),
            size in 1usize..5,
            spare in 0usize..3,
            large in any::<bool>(),
            threads in 1usize..4,
        ) {
            // Large cells are worth several threads.
            let factor = if large { 1000 } else { 1 };
            let lens: Vec<u32> = cells.iter().map(|(len, _)| len * factor).collect();
            let group_of: Vec<u32> = cells.iter().map(|(_, group)| *group).collect();
            let bytes = lens.iter().map(|len| *len as usize * size).sum::<usize>();
            let mut values = vec![0xEE; bytes + spare];
            let seen = Mutex::new(Vec::new());
            let done = fill_groups::<()>(&mut values, &lens, size, &group_of, 20, Some(threads), &|group| {
                let mut cells = Vec::new();
                let (number, len) = (group.number(), group.len());
                group.fill(&mut |cell, place| {
                    assert_eq!(place.len(), lens[cell] as usize * size);
                    place.fill(byte(number, cell));
                    cells.push(cell);
                    Ok(())
                })?;
                assert_eq!(cells.len(), len);
                seen.lock().unwrap().push((number, cells));
                Ok(())
            });
            prop_assert_eq!(done, Ok(true));
            let mut seen = seen.into_inner().unwrap();
            seen.sort();
            let wanted: Vec<(usize, Vec<usize>)> = (0..20)
                .map(|n| (n, (0..lens.len()).filter(|cell| group_of[*cell] == n as u32).collect::<Vec<_>>()))
                .filter(|(_, cells)| !cells.is_empty())
                .collect();
            prop_assert_eq!(seen, wanted);
            let mut at = 0;
            for (cell, (len, group)) in lens.iter().zip(&group_of).enumerate() {
                let value = if *group == u32::MAX { 0xEE } else { byte(*group as usize, cell) };
                let end = at + *len as usize * size;
                prop_assert!(values[at..end].iter().all(|found| *found == value));
                at = end;
            }
            prop_assert!(values[at..].iter().all(|found| *found == 0xEE));
        }
    }

    #[test]
    fn what_does_not_fit_is_not_begun() {
        let never = |_: &mut Group<'_>| -> Result<(), ()> { panic!("nothing may be filled") };
        let mut values = [0; 10];
        for (lens, size, group_of) in [
            (&[5, 6][..], 1, &[0, 0][..]),
            (&[5, 5], 2, &[0, 0]),
            (&[u32::MAX, u32::MAX], 4, &[0, 1]),
            (&[u32::MAX, u32::MAX], usize::MAX, &[0, 1]),
            (&[1, 1], 1, &[0]),
            (&[1], 1, &[0, 1]),
        ] {
            assert_eq!(
                fill_groups(&mut values, lens, size, group_of, 2, None, &never),
                Ok(false),
                "{lens:?}"
            );
        }
        assert_eq!(fill_groups(&mut values, &[1], 1, &[0], usize::MAX, None, &never), Ok(false));
        assert_eq!(fill_groups(&mut values, &[], 1, &[], 0, None, &never), Ok(true));
        assert_eq!(fill_groups(&mut values, &[], 1, &[], 1000, None, &never), Ok(true));
        assert_eq!(fill_groups(&mut values, &[3, 3], 1, &[7, u32::MAX], 7, None, &never), Ok(true));
    }

    #[test]
    fn the_first_error_is_told_and_panics_are_passed_on() {
        let lens = vec![100u32; 20_000];
        let group_of: Vec<u32> = (0..20_000).map(|cell| cell % 500).collect();
        for threads in [1, 3] {
            let mut values = vec![0; 2_000_000];
            let result = fill_groups(&mut values, &lens, 1, &group_of, 500, Some(threads), &|group| {
                let number = group.number();
                group.fill(&mut |cell, place| {
                    place.fill(1);
                    if number % 100 == 77 && cell > 1000 { Err((number, cell)) } else { Ok(()) }
                })
            });
            assert_eq!(result, Err((77, 1077)));
            // A cell is filled or it is not.
            assert!(values.chunks(100).all(|cell| cell.iter().all(|byte| *byte == cell[0])));
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                fill_groups::<()>(&mut values, &lens, 1, &group_of, 500, Some(threads), &|group| {
                    assert!(group.number() < 400, "on purpose");
                    Ok(())
                })
            }));
            assert!(panicked.is_err());
        }
    }
}
