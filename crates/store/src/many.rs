//! Many objects with few requests.

#[cfg(doc)]
use crate::StoreError;
use crate::{Ask, Begun, EachOpened, Entry, Key, Opening, Result, SharedStamp, Store, check_ask};

/// Receives the index and the listing of one of several prefixes ([`Many::list_dirs`]).
pub type EachListed<'e> = &'e mut dyn FnMut(usize, Result<Vec<Entry>>);

/// Everything below a prefix ([`Many::list_all`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The keys, sorted, with the sizes of their objects in bytes.
    pub keys: Vec<(String, u64)>,
    /// Leftovers of dead writers, with the names of [`Writers::leftovers`](crate::Writers::leftovers).
    pub leftovers: Vec<String>,
}

/// A store that opens or lists many objects faster than one by one ([`Store::many`]).
///
/// The methods have defaults, so a store implements only the ones that it does better.
pub trait Many: Store {
    /// Begins to open several objects, in this order.
    ///
    /// A remote store sends the requests for all of them, and joins requests for nearby parts of
    /// one object. The default opens each object when its [`Begun::finish`] is called.
    fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        let later = |opening: &Opening<'_>| {
            let key = opening.key.as_str().to_owned();
            let open = move || self.open(Key::new(&key)?, None);
            Box::new(open) as Box<dyn Begun<'s> + 's>
        };
        wanted.iter().map(later).collect()
    }

    /// Opens several objects as [`Store::open`] does, and passes the results to `each`, in order.
    ///
    /// A remote store requests all of them at once ([`Many::begin`]).
    fn open_all<'s>(&'s self, wanted: &[Opening<'_>], each: EachOpened<'_, 's>) {
        if self.cost().prefers_rounds() {
            let begun = self.begin(wanted);
            begun.into_iter().enumerate().for_each(|(n, begun)| each(n, begun.finish()));
            return;
        }
        for (n, Opening { key, .. }) in wanted.iter().enumerate() {
            each(n, self.open(*key, None));
        }
    }

    /// Lists prefixes as [`Store::list_dir`] does, and passes each index and result to `each`.
    ///
    /// A remote store lists all of them at once. The default lists one after the other.
    fn list_dirs(&self, prefixes: &[Option<Key<'_>>], each: EachListed<'_>) {
        for (n, prefix) in prefixes.iter().enumerate() {
            each(n, self.list_dir(*prefix));
        }
    }

    /// Like [`Store::list`], for prefixes with very many keys.
    ///
    /// `ask` is called while the listing runs; return `true` to give up with
    /// [`StoreError::Interrupted`]. The default calls it before and after.
    fn list_asking(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<String>> {
        check_ask(self, prefix, ask)?;
        let keys = self.list(prefix)?;
        check_ask(self, prefix, ask)?;
        Ok(keys)
    }

    /// Like [`Many::list_asking`], with the size of each object in bytes.
    ///
    /// A remote store gets the sizes with the listing. The default queries each object.
    fn list_sizes(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for key in self.list_asking(prefix, ask)? {
            check_ask(self, prefix, ask)?;
            // Skip objects deleted since the listing.
            if let Some(size) = self.size(Key::new(&key)?)? {
                found.push((key, size));
            }
        }
        Ok(found)
    }

    /// Like [`Many::list_sizes`], together with [`Writers::leftovers`](crate::Writers::leftovers), on up to
    /// `threads` threads.
    ///
    /// A local store looks at each directory once. The default asks one after the other.
    fn list_all(&self, prefix: Option<Key<'_>>, threads: usize, ask: Option<Ask<'_>>) -> Result<Listing> {
        let _ = threads;
        let keys = self.list_sizes(prefix, ask)?;
        let leftovers = self.writers().map(|able| able.leftovers(prefix, ask)).transpose()?;
        Ok(Listing { keys, leftovers: leftovers.unwrap_or_default() })
    }

    /// The keys below `prefix` (`None`: of the store) in any order, if the store can find them
    /// fast.
    ///
    /// Includes every object that exists during the whole call. Returns `None` if the store cannot,
    /// or if it would have to look at more than `most` entries. For readers of many objects that
    /// mostly do not exist.
    fn present(&self, prefix: Option<Key<'_>>, _most: usize) -> Option<Vec<String>> {
        self.only().and_then(|_| self.list(prefix).ok())
    }

    /// The keys of objects that exist, out of these.
    ///
    /// A remote store lists the prefix that they share, or asks for all of them at once. The
    /// default asks for one after the other.
    fn existing<'k>(&self, keys: &[Key<'k>], ask: Option<Ask<'_>>) -> Result<Vec<Key<'k>>> {
        let mut found = Vec::new();
        for key in keys {
            check_ask(self, Some(*key), ask)?;
            if self.exists(*key)? {
                found.push(*key);
            }
        }
        Ok(found)
    }

    /// The keys below `prefix` (`None`: of the store), each with the numbers of its
    /// [`Store::stamp`] that are equal on every machine.
    ///
    /// Returns `None` if a listing does not tell the stamps (the default), or if there are more
    /// than `most` keys.
    fn list_stamps(
        &self,
        prefix: Option<Key<'_>>,
        most: usize,
        ask: Option<Ask<'_>>,
    ) -> Result<Option<Vec<(String, SharedStamp)>>> {
        let _ = (prefix, most, ask);
        Ok(None)
    }
}

/// The defaults, for stores without the capability.
impl Many for dyn Store + '_ {}

/// The methods of [`Many`], for callers that do not care whether a store has the capability.
impl dyn Store + '_ {
    /// See [`Many::begin`].
    pub fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>> {
        match self.many() {
            Some(able) => able.begin(wanted),
            None => Many::begin(self, wanted),
        }
    }

    /// See [`Many::open_all`].
    pub fn open_all<'s>(&'s self, wanted: &[Opening<'_>], each: EachOpened<'_, 's>) {
        match self.many() {
            Some(able) => able.open_all(wanted, each),
            None => Many::open_all(self, wanted, each),
        }
    }

    /// See [`Many::list_dirs`].
    pub fn list_dirs(&self, prefixes: &[Option<Key<'_>>], each: EachListed<'_>) {
        match self.many() {
            Some(able) => able.list_dirs(prefixes, each),
            None => Many::list_dirs(self, prefixes, each),
        }
    }

    /// See [`Many::list_asking`].
    pub fn list_asking(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<String>> {
        match self.many() {
            Some(able) => able.list_asking(prefix, ask),
            None => Many::list_asking(self, prefix, ask),
        }
    }

    /// See [`Many::list_sizes`].
    pub fn list_sizes(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> Result<Vec<(String, u64)>> {
        match self.many() {
            Some(able) => able.list_sizes(prefix, ask),
            None => Many::list_sizes(self, prefix, ask),
        }
    }

    /// See [`Many::list_all`].
    pub fn list_all(&self, prefix: Option<Key<'_>>, threads: usize, ask: Option<Ask<'_>>) -> Result<Listing> {
        match self.many() {
            Some(able) => able.list_all(prefix, threads, ask),
            None => Many::list_all(self, prefix, threads, ask),
        }
    }

    /// See [`Many::present`].
    pub fn present(&self, prefix: Option<Key<'_>>, most: usize) -> Option<Vec<String>> {
        match self.many() {
            Some(able) => able.present(prefix, most),
            None => Many::present(self, prefix, most),
        }
    }

    /// See [`Many::existing`].
    pub fn existing<'k>(&self, keys: &[Key<'k>], ask: Option<Ask<'_>>) -> Result<Vec<Key<'k>>> {
        match self.many() {
            Some(able) => able.existing(keys, ask),
            None => Many::existing(self, keys, ask),
        }
    }

    /// See [`Many::list_stamps`].
    pub fn list_stamps(
        &self,
        prefix: Option<Key<'_>>,
        most: usize,
        ask: Option<Ask<'_>>,
    ) -> Result<Option<Vec<(String, SharedStamp)>>> {
        match self.many() {
            Some(able) => able.list_stamps(prefix, most, ask),
            None => Many::list_stamps(self, prefix, most, ask),
        }
    }
}
