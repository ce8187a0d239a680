//! Finds out which objects exist from a listing.
//!
//! Checking a thousand objects takes a thousand system calls, even if only one of them exists.
//! Listing the directory takes a few. But the answer must be equally reliable: an object that
//! exists all the time must be listed. Each directory is therefore listed the way a file is read
//! under a [stamp](super::stamp): its last change must be long ago, and the directory must not
//! change until the listing is done. If somebody renames files in a directory during the listing,
//! an entry that exists before and after may be missing, so the listing is discarded. A listing
//! with symbolic links is discarded too, because they lead to other directories.

use super::stamp::{settled_directory, unchanged};
use super::{LocalStore, PathBytes};
use crate::Key;
use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use std::os::fd::AsFd;

/// Looking at this many objects one by one takes longer than a directory takes to settle.
const WORTH_A_WAIT: usize = 100_000;

impl LocalStore {
    /// The keys below a prefix (empty: all). `None` if that is uncertain, or if there are more than
    /// `most` files and directories.
    pub(super) fn present_below(&self, prefix: &str, most: usize) -> Option<Vec<String>> {
        let (mut keys, mut seen) = (Vec::new(), 0usize);
        let mut pending = vec![prefix.to_owned()];
        while let Some(prefix) = pending.pop() {
            let mut bytes = PathBytes::new();
            let path = self.path(&prefix, &mut bytes).ok()?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = match retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty())) {
                Ok(directory) => directory,
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(_) => return None,
            };
            let stamp = settled_directory(directory.as_fd(), most >= WORTH_A_WAIT)?;
            for entry in Dir::read_from(&directory).ok()? {
                let entry = entry.ok()?;
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                seen += 1;
                if seen > most {
                    return None;
                }
                let path = || {
                    let name = name.to_str().ok().filter(|name| Key::new(name).is_ok())?;
                    Some(if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") })
                };
                match entry.file_type() {
                    FileType::RegularFile => keys.extend(path()),
                    FileType::Directory => pending.extend(path()),
                    FileType::Symlink | FileType::Unknown => return None,
                    _ => {}
                }
            }
            if !unchanged(directory.as_fd(), FileType::Directory, stamp) {
                return None;
            }
        }
        Some(keys)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Key, LocalOptions, LocalStore, Many, Store};
    use std::time::Duration;

    #[test]
    fn certain_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
        let key = |name| Key::new(name).unwrap();
        for name in ["a/zarr.json", "a/c/0/1", "a/c/0/3", "a/c/7/0"] {
            store.write(key(name), &[b"x"]).unwrap();
        }
        std::fs::write(dir.path().join("a/c/0/.5.0.hyperslab-tmp"), b"half").unwrap();
        let found = |most| {
            let mut keys = store.present(Some(key("a/c")), most)?;
            keys.sort_unstable();
            Some(keys)
        };
        std::thread::sleep(Duration::from_millis(2_200));
        if found(100).is_none() {
            // On this file system stamps prove nothing.
            return;
        }
        assert_eq!(found(100).unwrap(), ["a/c/0/1", "a/c/0/3", "a/c/7/0"]);
        assert_eq!(found(6).unwrap().len(), 3, "two directories, three objects, a temporary file");
        assert_eq!(found(5), None);
        assert_eq!(store.present(Some(key("b")), 5).unwrap(), [""; 0]);
        assert_eq!(store.present(None, 100).unwrap().len(), 4);

        // Changed just now: on a busy machine "just" may be over before the look.
        let rename = |from, to| std::fs::rename(dir.path().join(from), dir.path().join(to)).unwrap();
        let uncertain = (0..100).any(|_| {
            rename("a/c/0/1", "a/c/0/2");
            let found = found(100);
            rename("a/c/0/2", "a/c/0/1");
            found.is_none()
        });
        assert!(uncertain);
        let waited = store.present(Some(key("a/c")), super::WORTH_A_WAIT);
        assert_eq!(waited.unwrap().len(), 3, "the change is old enough after a moment");
        rename("a/c/0/1", "a/c/0/2");
        std::os::unix::fs::symlink("0", dir.path().join("a/c/8")).unwrap();
        std::thread::sleep(Duration::from_millis(2_200));
        assert_eq!(found(100), None, "a link");
        assert_eq!(store.present(Some(key("a/c/0")), 5).unwrap().len(), 2);
    }
}
