//! Listings of stored objects: which objects a copy need not ask for.
//!
//! A server lists 1000 objects with one request. The parts of a copy that run in one process share
//! their listings ([`Listings`]). An object that comes after the listing belongs to somebody who
//! changes the source while it is copied; the copy then has the chunk as it was at the listing.

use crate::{Array, Dims, Key, Result, Store};
use hyperslab_store::fork::Mutex;
use hyperslab_store::{Ask, SharedStamp, turn};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The share of an array's objects that may be listed for a process, and its bounds.
struct Most {
    /// The share is one in this number. A listing that is given up must take little time beside looking up
    /// all objects.
    share: u64,
    least: u64,
    most: u64,
}

impl Most {
    /// In a directory: 10 000 objects take about 10 ms, and 250 000 take 30 MB.
    const NEAR: Most = Most { share: 16, least: 10_000, most: 250_000 };

    /// On a server a listing that is given up takes a sixtieth of the time of looking up all
    /// objects, 64 at once. The least is one request.
    const FAR: Most = Most { share: 4, least: 1000, most: 250_000 };
}

/// The most objects whose stamps are listed for all parts in a process: about 20 MB. In a larger
/// copy each part lists its own objects.
const STAMPS: usize = 1 << 17;

/// The stored objects of an array.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Their indices.
    pub(super) places: Vec<Dims>,
    /// Their keys, if the store is far away.
    pub(crate) keys: Option<HashSet<String>>,
}

/// The stored objects of an array; `None`: any may be stored.
pub(crate) type StoredObjects = Option<Arc<Stored>>;

impl Stored {
    fn new(array: &Array, places: Vec<Dims>) -> Result<Stored> {
        let mut keys = None;
        // In other formats, objects hold many chunks.
        if is_listed_far(array) {
            let located = places.iter().map(|place| {
                let mut key = String::new();
                array.layout().locate(place, &mut key)?;
                Ok(key)
            });
            keys = Some(located.collect::<Result<HashSet<String>>>()?);
        }
        Ok(Stored { places, keys })
    }
}

/// Returns `true` if the array's objects are on a server that lists them.
pub(crate) fn is_listed_far(array: &Array) -> bool {
    array.as_zarr().is_some() && array.store().cost().prefers_one_listing() && array.store().facts().lists
}

/// Lists all stored objects of an array.
pub(super) fn list(array: &Array, ask: Option<Ask<'_>>) -> Result<StoredObjects> {
    let places = array.node().stored_objects(ask)?;
    Ok(places.map(|places| Stored::new(array, places)).transpose()?.map(Arc::new))
}

/// Lists the stored objects of an array, if that is faster than looking up all of them.
pub(crate) fn list_few(array: &Array, ask: Option<Ask<'_>>) -> Result<StoredObjects> {
    let counts = array.layout().object_grid().counts(array.shape());
    let all = counts.iter().fold(1, |n: u64, count| n.saturating_mul(*count));
    let bounds = if is_listed_far(array) { Most::FAR } else { Most::NEAR };
    if array.as_zarr().is_none() {
        return if all <= bounds.least { list(array, ask) } else { Ok(None) };
    }
    let most = usize::try_from((all / bounds.share).clamp(bounds.least, bounds.most)).unwrap_or(usize::MAX);
    let places = array.as_zarr().map(|array| array.stored_places_at_most(most, ask)).transpose()?.flatten();
    Ok(places.map(|places| Stored::new(array, places)).transpose()?.map(Arc::new))
}

/// A listing, once it was made.
type Slot<T> = Mutex<Option<T>>;

/// The listings that the parts of one pass over an array share in a process.
///
/// Make new ones for each run: they are not made again.
#[derive(Debug, Default)]
pub struct Listings {
    source: Slot<StoredObjects>,
    copy: Slot<StoredObjects>,
    stamps: Slot<Option<Arc<HashMap<String, SharedStamp>>>>,
}

impl Listings {
    /// The stored objects of the array that is read.
    pub(super) fn source(&self, source: &Array, ask: Option<Ask<'_>>) -> Result<StoredObjects> {
        once(&self.source, source, || list_few(source, ask))
    }

    /// The stored objects of the copy. Call this when nobody writes any more.
    pub(super) fn copy(&self, copy: &Array, ask: Option<Ask<'_>>) -> Result<StoredObjects> {
        once(&self.copy, copy, || list_few(copy, ask))
    }

    /// The stamps of the objects of the copy, when an earlier run is resumed. Call this before
    /// anybody writes. `None`: ask for each object.
    pub(super) fn stamps(
        &self,
        copy: &Array,
        ask: Option<Ask<'_>>,
    ) -> Result<Option<Arc<HashMap<String, SharedStamp>>>> {
        if !is_listed_far(copy) {
            return Ok(None);
        }
        once(&self.stamps, copy, || {
            let prefix = Some(copy.path()).filter(|path| !path.is_empty()).map(Key::new).transpose()?;
            let listed = copy.store().list_stamps(prefix, STAMPS, ask)?;
            Ok(listed.map(|listed| Arc::new(listed.into_iter().collect())))
        })
    }
}

/// Fills a slot. Only one of the threads that need it lists, for all of them.
fn once<T: Clone>(slot: &Slot<T>, array: &Array, list: impl FnOnce() -> Result<T>) -> Result<T> {
    let known = || slot.lock().clone();
    if let Some(found) = known() {
        return Ok(found);
    }
    // The name of a turn, not of an object.
    let name = super::join_path(array.path(), ".listing.zarr.json");
    let store: &dyn Store = &**array.store();
    let _turn = turn(store, Key::new(&name)?, None)?;
    if let Some(found) = known() {
        return Ok(found);
    }
    let found = list()?;
    *slot.lock() = Some(found.clone());
    Ok(found)
}
