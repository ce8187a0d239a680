//! Numbers for heap collections, in the order in which they come.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// So many addresses grow nothing.
const FEW: usize = 64;

/// Addresses of collections, each once. The first that comes is number 0.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    addresses: Vec<u64>,
    /// That which came last, and its number: mostly it comes again.
    last: Option<(u64, u32)>,
    /// Their numbers, as soon as one comes that is lower than another: as long as they ascend, each is new.
    numbers: HashMap<u64, u32, Seed>,
    highest: Option<u64>,
}

impl Numbers {
    /// The number of an address.
    #[inline]
    pub fn of(&mut self, address: u64) -> u32 {
        match self.last {
            Some((last, number)) if last == address => number,
            _ => self.find(address),
        }
    }

    fn find(&mut self, address: u64) -> u32 {
        // There are no more than cells, of which 2³² are not in memory.
        let next = u32::try_from(self.addresses.len()).unwrap_or(u32::MAX);
        let is_next = self.is_next(address);
        if is_next {
            self.highest = Some(address);
        } else if self.numbers.is_empty() {
            self.numbers = self.addresses.iter().copied().zip(0..).collect();
        }
        // As long as they ascend they need no table.
        let number = match is_next && self.numbers.is_empty() {
            true => next,
            false => *self.numbers.entry(address).or_insert(next),
        };
        if number == next {
            if next == 0 {
                self.addresses.reserve(FEW);
            }
            self.addresses.push(address);
        }
        self.last = Some((address, number));
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
#[derive(Debug)]
pub(crate) struct Ranked<'a> {
    addresses: Cow<'a, [u64]>,
    /// For each of the addresses as they were where it is now. Empty: they were in order.
    places: Vec<u32>,
}

impl<'a> Ranked<'a> {
    /// Addresses, each once.
    pub fn new(addresses: &'a [u64]) -> Self {
        if addresses.is_sorted() {
            return Ranked { addresses: Cow::Borrowed(addresses), places: Vec::new() };
        }
        let mut order: Vec<u32> = (0..).take(addresses.len()).collect();
        order.sort_unstable_by_key(|number| addresses.get(at(*number)));
        let mut places = vec![u32::MAX; addresses.len()];
        for (place, number) in (0..).zip(&order) {
            if let Some(found) = places.get_mut(at(*number)) {
                *found = place;
            }
        }
        let sorted = order.iter().filter_map(|number| addresses.get(at(*number)).copied()).collect();
        Ranked { addresses: Cow::Owned(sorted), places }
    }

    /// The addresses, ascending.
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// The addresses, ascending.
    pub fn into_addresses(self) -> Vec<u64> {
        self.addresses.into_owned()
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
}

#[inline]
fn at(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Hashes addresses: one multiplication, with a secret so that no file can choose addresses of equal hashes.
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
        let product = u128::from(self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
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
            let ranked = Ranked::new(&known);
            prop_assert!(ranked.addresses().is_sorted());
            for (number, address) in known.iter().enumerate() {
                prop_assert_eq!(ranked.addresses()[ranked.place(number)], *address);
            }
        }
    }
}
