//! Numbers for heap collections, in the order in which they come.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// So many addresses grow nothing.
const FEW: usize = 64;

/// 2⁶⁴ by the golden ratio.
const MULTIPLE: u64 = 0x9e37_79b9_7f4a_7c15;

/// So many addresses that do not ascend neither.
const MANY: usize = 448;

/// Addresses of collections, each once. The first that comes is number 0.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    addresses: Vec<u64>,
    /// Their numbers, as soon as one comes that is lower than another: as long as they ascend, each
    /// is new.
    numbers: HashMap<u64, u32, Seed>,
    /// Where that is not empty: addresses that came before and their numbers, each at a place that
    /// the address tells (see [`Numbers::slot`]).
    slots: Vec<(u64, u32)>,
    shift: u32,
    highest: Option<u64>,
}

impl Numbers {
    /// The number of an address. (Who has the same again and again remembers it.)
    #[inline]
    pub fn of(&mut self, address: u64) -> u32 {
        match self.slots.get(self.slot(address)) {
            Some((found, number)) if *found == address => *number,
            _ => self.look_up(address),
        }
    }

    /// Where the number of an address is looked for first: the upper bits of a multiple of it,
    /// which are others for addresses that are equally far apart, as most are. Others may be in the
    /// same place, also because a file wants that: then the table is asked.
    #[inline]
    fn slot(&self, address: u64) -> usize {
        usize::try_from(address.wrapping_mul(MULTIPLE) >> self.shift).unwrap_or(usize::MAX)
    }

    #[inline(never)]
    fn look_up(&mut self, address: u64) -> u32 {
        // As long as they ascend there is no table: it may be the last.
        if self.highest == Some(address) && self.numbers.is_empty() {
            return u32::try_from(self.addresses.len()).map_or(u32::MAX, |len| len - 1);
        }
        // There are no more than cells, of which 2³² are not in memory.
        let next = u32::try_from(self.addresses.len()).unwrap_or(u32::MAX);
        let is_next = self.is_next(address);
        if is_next {
            self.highest = Some(address);
        } else if self.numbers.is_empty() {
            // Where one comes back many do: growing step by step would cost more than finding them.
            let room = MANY.max(2 * self.addresses.len());
            self.numbers = HashMap::with_capacity_and_hasher(room, Seed::default());
            self.numbers.extend(self.addresses.iter().copied().zip(0..));
        }
        let is_table = !self.numbers.is_empty();
        // As long as they ascend they need no table.
        let number = match is_next && !is_table {
            true => next,
            false => *self.numbers.entry(address).or_insert(next),
        };
        if number == next {
            if next == 0 {
                self.addresses.reserve(FEW);
            }
            self.addresses.push(address);
        }
        if is_table {
            if self.slots.len() < self.addresses.len() {
                let room = MANY.max(2 * self.addresses.len()).next_power_of_two();
                self.slots = vec![(u64::MAX, 0); room];
                self.shift = u64::BITS - room.ilog2();
            }
            let slot = self.slot(address);
            if let Some(place) = self.slots.get_mut(slot) {
                *place = (address, number);
            }
        }
        number
    }

    /// Whether each address that was new was beyond the others, and none came back.
    #[inline]
    pub fn ascend(&self) -> bool {
        self.numbers.is_empty()
    }

    /// How many addresses there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether an address is beyond all others.
    #[inline]
    pub fn is_next(&self, address: u64) -> bool {
        self.highest.is_none_or(|highest| address > highest)
    }

    /// The addresses by number.
    pub fn into_addresses(self) -> Vec<u64> {
        self.addresses
    }
}

/// Addresses in their order.
#[derive(Debug, Default)]
pub(crate) struct Ranked {
    addresses: Vec<u64>,
    /// For each of the addresses as they were where it is now. Empty: they were in order.
    places: Vec<u32>,
}

impl Ranked {
    /// Addresses, each once.
    pub fn new(addresses: Vec<u64>) -> Self {
        if addresses.is_sorted() {
            return Ranked { addresses, places: Vec::new() };
        }
        let mut order: Vec<(u64, u32)> = addresses.into_iter().zip(0..).collect();
        order.sort_unstable();
        let mut places = vec![u32::MAX; order.len()];
        for (place, (_, number)) in (0..).zip(&order) {
            if let Some(found) = places.get_mut(at(*number)) {
                *found = place;
            }
        }
        Ranked { addresses: order.into_iter().map(|(address, _)| address).collect(), places }
    }

    /// The addresses, ascending.
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// Where the address is that had this number.
    #[inline]
    pub fn place(&self, number: usize) -> usize {
        if self.places.is_empty() {
            number
        } else {
            self.places.get(number).map_or(usize::MAX, |place| at(*place))
        }
    }

    /// For each of the addresses, as they were, where it is in a list that ascends as well, of
    /// others too.
    pub fn places_in(&self, all: &[u64]) -> Vec<u32> {
        let mut rest = (0..).zip(all).peekable();
        let mut find = |address| {
            while rest.next_if(|(_, other)| **other < address).is_some() {}
            rest.peek().filter(|(_, other)| **other == address).map_or(u32::MAX, |(place, _)| *place)
        };
        let places: Vec<u32> = self.addresses.iter().map(|address| find(*address)).collect();
        if self.places.is_empty() {
            return places;
        }
        self.places.iter().map(|place| places.get(at(*place)).copied().unwrap_or(u32::MAX)).collect()
    }
}

#[inline]
fn at(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Hashes addresses: one multiplication, with a secret so that no file can choose addresses of
/// equal hashes.
#[derive(Clone, Debug)]
struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        Seed(RandomState::new().build_hasher().finish())
    }
}

impl BuildHasher for Seed {
    type Hasher = Seed;

    fn build_hasher(&self) -> Seed {
        self.clone()
    }
}

impl Hasher for Seed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, number: u64) {
        // Folded, so that all bits of the number reach all bits of the hash.
        let product = u128::from(self.0 ^ number).wrapping_mul(MULTIPLE.into());
        let (high, low) = (u64::try_from(product >> 64), u64::try_from(product & u128::from(u64::MAX)));
        self.0 = high.unwrap_or_default() ^ low.unwrap_or_default();
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_address_has_one_number(addresses in prop::collection::vec(0u64..40, 0..200)) {
            let mut numbers = Numbers::default();
            let mut known: Vec<u64> = Vec::new();
            for (at, address) in addresses.iter().enumerate() {
                let is_next = addresses[..at].iter().all(|before| before < address);
                prop_assert_eq!(numbers.is_next(*address), is_next);
                prop_assert_eq!(numbers.ascend(), addresses[..at].is_sorted());
                if !known.contains(address) {
                    known.push(*address);
                }
                prop_assert_eq!(known[numbers.of(*address) as usize], *address);
                prop_assert_eq!(numbers.len(), known.len());
            }
            let found = numbers.into_addresses();
            prop_assert_eq!(&found, &known);
            let ranked = Ranked::new(known.clone());
            prop_assert!(ranked.addresses().is_sorted());
            let all: Vec<u64> = (0..50).map(|n| n * 3 / 2).collect();
            let places = ranked.places_in(&all);
            prop_assert_eq!(places.len(), known.len());
            for (number, address) in known.iter().enumerate() {
                prop_assert_eq!(ranked.addresses()[ranked.place(number)], *address);
                let place = all.binary_search(address).map_or(u32::MAX, |place| place as u32);
                prop_assert_eq!(places[number], place);
            }
        }
    }
}
