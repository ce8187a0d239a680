//! A cache of parsed parts of a file.

use hyperslab_store::fork::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

/// Cached values by address. All are dropped if the total weight would exceed the limit.
#[derive(Debug)]
pub struct ByAddress<T> {
    most: u64,
    /// Gated.
    inner: Mutex<Values<T>>,
}

#[derive(Debug)]
struct Values<T> {
    values: HashMap<u64, Arc<T>>,
    weight: u64,
    /// Counts calls of [`ByAddress::clear`].
    clears: u64,
}

impl<T> ByAddress<T> {
    /// Makes an empty cache. `most` is its largest total weight.
    pub fn new(most: u64) -> Self {
        ByAddress { most, inner: Mutex::new(Values { values: HashMap::new(), weight: 0, clears: 0 }) }
    }

    /// Returns the cached value, or calls `make` and caches the result. Threads may do this
    /// concurrently. A value that is made while the cache is cleared is not cached.
    pub fn get<E>(
        &self,
        address: u64,
        make: impl FnOnce() -> Result<Arc<T>, E>,
        weigh: impl FnOnce(&T) -> u64,
    ) -> Result<Arc<T>, E> {
        let clears = {
            let found = self.lock();
            if let Some(value) = found.values.get(&address) {
                return Ok(value.clone());
            }
            found.clears
        };
        let value = make()?;
        let weight = weigh(&value);
        self.keep_since(clears, address, value.clone(), weight);
        Ok(value)
    }

    pub fn find(&self, address: u64) -> Option<Arc<T>> {
        self.lock().values.get(&address).cloned()
    }

    /// Returns the cached values of some addresses.
    pub fn find_all(&self, addresses: &[u64]) -> Vec<Option<Arc<T>>> {
        let found = self.lock();
        addresses.iter().map(|address| found.values.get(address).cloned()).collect()
    }

    /// Caches a value, unless it is heavier than the limit.
    pub fn keep(&self, address: u64, value: Arc<T>, weight: u64) {
        let clears = self.lock().clears;
        self.keep_since(clears, address, value, weight);
    }

    fn keep_since(&self, clears: u64, address: u64, value: Arc<T>, weight: u64) {
        if weight > self.most {
            return;
        }
        let mut found = self.lock();
        if found.clears != clears {
            return;
        }
        let full = found.weight.saturating_add(weight) > self.most;
        let dropped = full.then(|| std::mem::take(&mut found.values));
        found.weight = if full { weight } else { found.weight + weight };
        // If two threads cache the same address, both weights count until all values are dropped.
        let replaced = found.values.insert(address, value);
        drop((found, dropped, replaced));
    }

    /// Drops the value at an address. Its weight counts until all values are dropped.
    pub fn forget(&self, address: u64) {
        let dropped = self.lock().values.remove(&address);
        drop(dropped);
    }

    pub fn clear(&self) {
        let mut found = self.lock();
        let dropped = std::mem::take(&mut found.values);
        found.weight = 0;
        found.clears += 1;
        drop((found, dropped));
    }

    fn lock(&self) -> MutexGuard<'_, Values<T>> {
        self.inner.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded() {
        let kept = ByAddress::new(10);
        let get = |address, made: u64| {
            *kept.get(address, || Ok::<_, ()>(Arc::new(made)), |weight| *weight).unwrap()
        };
        assert_eq!((get(1, 4), get(2, 6), get(1, 5)), (4, 6, 4));
        // Too heavy together with the others: the others are dropped.
        assert_eq!((get(3, 7), get(1, 5)), (7, 5));
        // Heavier than the limit: the others stay.
        assert_eq!((get(4, 11), get(4, 12), get(1, 9)), (11, 12, 5));
        assert_eq!(kept.get(9, || Err("no"), |_| 1), Err("no"));
        assert_eq!((kept.find(1).as_deref(), kept.find(9)), (Some(&5), None));
        kept.forget(1);
        assert_eq!(kept.find(1), None);
        kept.clear();
        assert_eq!((kept.find(1), get(1, 8), get(2, 2)), (None, 8, 2));
        // A value that was made before the cache was cleared may be out of date.
        let stale = || {
            kept.clear();
            Ok::<_, ()>(Arc::new(3))
        };
        assert_eq!((kept.get(7, stale, |weight| *weight).as_deref(), kept.find(7)), (Ok(&3), None));
    }
}
