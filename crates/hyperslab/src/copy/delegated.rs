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

/// Forwards all methods that change nothing.
macro_rules! reads {
    () => {
        inner! {
                fn only(&self) -> Option<&str>;
                fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> store::Result<bool>;
                fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> store::Result<Option<Box<dyn Opened + 's>>>;
                fn begin<'s>(&'s self, wanted: &[Opening<'_>]) -> Vec<Box<dyn Begun<'s> + 's>>;
                fn open_all<'s>(&'s self, wanted: &[Opening<'_>], each: EachOpened<'_, 's>);
                fn with_open(&self, key: Key<'_>, size: Option<u64>, work: &mut dyn FnMut(Option<&dyn Opened>)) -> store::Result<()>;
                fn read_exact(&self, key: Key<'_>, buf: &mut [u8]) -> store::Result<bool>;
                fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> store::Result<bool>;
                fn size(&self, key: Key<'_>) -> store::Result<Option<u64>>;
                fn stamp(&self, key: Key<'_>) -> store::Result<Option<Stamp>>;
                fn read_all_stamped(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> store::Result<Stamped>;
                fn read_ranges_stamped(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> store::Result<Stamped>;
                fn exists(&self, key: Key<'_>) -> store::Result<bool>;
                fn consolidates(&self) -> bool;
                fn checks_chunks(&self) -> bool;
                fn swaps_out(&self) -> bool;
                fn lists(&self) -> bool;
                fn is_shared(&self) -> bool;
                fn lock<'s>(&'s self, key: Key<'_>, ask: Option<Ask<'_>>) -> store::Result<ObjectLock<'s>>;
                fn lock_prefix<'s>(&'s self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> store::Result<ObjectLock<'s>>;
                fn list_dir(&self, prefix: Option<Key<'_>>) -> store::Result<Vec<Entry>>;
                fn list_dirs(&self, prefixes: &[Option<Key<'_>>], each: EachListed<'_>);
                fn list(&self, prefix: Option<Key<'_>>) -> store::Result<Vec<String>>;
                fn list_asking(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> store::Result<Vec<String>>;
                fn list_sizes(&self, prefix: Option<Key<'_>>, ask: Option<Ask<'_>>) -> store::Result<Vec<(String, u64)>>;
                fn identity(&self, prefix: Option<Key<'_>>) -> store::Result<Option<Identity>>;
                fn present(&self, prefix: Option<Key<'_>>, most: usize) -> Option<Vec<String>>;
                fn lock_id(&self, key: Key<'_>) -> u64;
                fn is_writable(&self) -> bool;
                fn flush(&self) -> store::Result<()>;
                fn close(&self);
                fn is_open(&self) -> bool;
                fn is_current(&self) -> bool;
                fn local_path(&self, key: Option<Key<'_>>) -> Option<PathBuf>;
                fn hold(&self, key: Key<'_>) -> store::Result<Option<store::HeldObject>>;
                fn hold_root(&self) -> store::Result<Option<store::HeldObject>>;
                fn waits(&self) -> bool;
                fn reads_ranges(&self) -> bool;
                fn cost(&self) -> Cost;
                fn url(&self) -> String;
        }
    };
}
pub(super) use reads;
