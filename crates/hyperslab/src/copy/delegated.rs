//! Store methods that a wrapper forwards to the store in its field `inner`.

/// Forwards the listed methods to `self.inner`.
macro_rules! inner {
    ($(fn $name:ident $(<$life:lifetime>)? (& $($self_life:lifetime)? self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        $(fn $name $(<$life>)? (& $($self_life)? self $(, $arg: $type)*) $(-> $result)? {
            self.inner.$name($($arg),*)
        })*
    };
}
pub(super) use inner;

/// Forwards all methods of [`Store`](crate::Store) that change no object, and the capabilities that
/// change none.
macro_rules! reads {
    () => {
        inner! {
                fn only(&self) -> Option<&str>;
                fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> store::Result<bool>;
                fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> store::Result<Option<Box<dyn Opened + 's>>>;
                fn with_open(&self, key: Key<'_>, size: Option<u64>, work: &mut dyn FnMut(Option<&dyn Opened>)) -> store::Result<()>;
                fn read_exact(&self, key: Key<'_>, buf: &mut [u8]) -> store::Result<bool>;
                fn size(&self, key: Key<'_>) -> store::Result<Option<u64>>;
                fn stamp(&self, key: Key<'_>) -> store::Result<Option<Stamp>>;
                fn read_all_stamped(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> store::Result<Stamped>;
                fn read_ranges_stamped(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> store::Result<Stamped>;
                fn exists(&self, key: Key<'_>) -> store::Result<bool>;
                fn lock<'s>(&'s self, key: Key<'_>, ask: Option<Ask<'_>>) -> store::Result<ObjectLock<'s>>;
                fn list_dir(&self, prefix: Option<Key<'_>>) -> store::Result<Vec<Entry>>;
                fn list(&self, prefix: Option<Key<'_>>) -> store::Result<Vec<String>>;
                fn lock_id(&self, key: Key<'_>) -> u64;
                fn facts(&self) -> Facts;
                fn cost(&self) -> Cost;
                fn many(&self) -> Option<&dyn Many>;
                fn on_disk(&self) -> Option<&dyn OnDisk>;
                fn holds(&self) -> Option<&dyn Holds>;
                fn url(&self) -> String;
        }
    };
}
pub(super) use reads;

/// Forwards the methods of [`Writers`](hyperslab_store::Writers) that change no object.
macro_rules! writers {
    () => {
        inner! {
                fn lock_prefix<'s>(&'s self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> store::Result<ObjectLock<'s>>;
                fn sweep(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> store::Result<u64>;
        }
    };
}
pub(super) use writers;

#[cfg(test)]
mod tests {
    use super::super::{checksum_store::ChecksumStore, fence};
    use crate::Store;
    use hyperslab_store::{Facts, LocalOptions, LocalStore, MemoryStore};
    use std::sync::Arc;

    /// A new capability of a store must not end at a wrapper.
    #[test]
    fn wrappers_have_the_capabilities_of_the_wrapped_store() {
        let dir = tempfile::tempdir().unwrap();
        let local: Arc<dyn Store> = Arc::new(LocalStore::open(dir.path(), LocalOptions::default()).unwrap());
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new());
        for store in [&local, &memory] {
            let fenced = fence::fenced(store, None, "journal", b"claim").unwrap();
            let summed: Arc<dyn Store> = Arc::new(ChecksumStore::new(store.clone()));
            for wrapper in [fenced, summed] {
                assert_eq!((wrapper.facts(), wrapper.cost()), (store.facts(), store.cost()));
                assert_eq!(wrapper.many().is_some(), store.many().is_some());
                assert_eq!(wrapper.on_disk().is_some(), store.on_disk().is_some());
                assert_eq!(wrapper.holds().is_some(), store.holds().is_some());
                assert_eq!(wrapper.local_path(None), store.local_path(None));
                assert_eq!(wrapper.identity(None).unwrap(), store.identity(None).unwrap());
                assert_eq!(wrapper.present(None, 9), store.present(None, 9));
                assert_eq!(wrapper.url(), store.url());
                // Changes pass the wrapper, so it has its own.
                assert!(wrapper.writers().is_some());
                assert!(wrapper.through(dir.path()).unwrap().is_none());
                let held = |store: &dyn Store| store.lock_prefix(None, None).unwrap().is_held();
                assert_eq!(held(&*wrapper), held(&**store));
            }
        }
        assert_ne!(local.facts(), Facts::default());
    }
}
