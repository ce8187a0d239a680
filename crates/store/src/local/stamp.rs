//! Stamps of files: device, inode, size, modification time and change time, from one `stat`.
//!
//! The kernel sets the change time (ctime) on every write, truncation, rename and link. Nobody can
//! set it back, unlike the modification time, which `utimes` can.
//!
//! A stamp alone proves little: file systems take times from a clock that ticks every few
//! milliseconds (some keep whole seconds). Two writes of equal length between two ticks leave equal
//! stamps. Two replacements by rename do too, if the second temporary file gets the inode that the
//! first replacement freed. (Version control systems have the same problem with their index, and
//! the same solution.) A stamp vouches for bytes only if it was **settled** when they were read:
//!
//! 1. Open the file, take its stamp, then read the clock. The last change must be more than
//!    [`SETTLED`] ago.
//! 2. Read the bytes from the open file, because the path may lead elsewhere and back meanwhile.
//! 3. Take the stamp of the open file again. It must be the same.
//!
//! Every change after step 1 gets a later change time, because clocks tick more often than every
//! [`SETTLED`]. Step 3 sees a change during step 2. A change after step 3 gives the file a stamp
//! that differs from every settled one. Another file with the same inode was created, and so
//! changed, after this one.
//!
//! [`SETTLED`] is far longer than a tick for a second reason. A write in place sets the times first
//! and then moves the bytes. A read in between gets a mixture under the final stamp. The mixture
//! would be kept only if moving the bytes of one call took longer than [`SETTLED`].
//!
//! Stamps miss stores to a shared memory mapping: the kernel notes only the first on each page
//! until it has written the page back. They also miss a clock that is set back to the very
//! nanosecond of the last change. File systems with cached attributes (network, FUSE) would return
//! an old stamp after a change on another machine. [`keeps_attributes`] detects them, and nothing
//! there is vouched for.

use crate::{Result, Stamp, Stamped};
use rustix::fs::{FileType, Stat};
use std::os::fd::BorrowedFd;
use std::time::{Duration, SystemTime};

/// Minimum age of the last change before a stamp vouches for bytes. Longer than any clock's tick
/// (FAT: two seconds).
const SETTLED: Duration = Duration::from_millis(2_100);

/// The same for a listing of a directory, on a file system that takes times from the kernel's clock.
///
/// That clock ticks at least every 10 milliseconds. Entries come and go in one step, so the second
/// reason for [`SETTLED`] is none here.
const SETTLED_DIRECTORY: Duration = Duration::from_millis(100);

/// The stamp of a regular file. `None` for anything else.
pub(super) fn stamp_of(found: &Stat) -> Option<Stamp> {
    stamp_of_kind(found, FileType::RegularFile)
}

/// The stamp of a file of this kind. `None` for other kinds.
#[allow(clippy::unnecessary_cast, reason = "the types of the fields differ between systems")]
fn stamp_of_kind(found: &Stat, kind: FileType) -> Option<Stamp> {
    (FileType::from_raw_mode(found.st_mode) == kind).then(|| {
        Stamp::new([
            found.st_dev as u64,
            found.st_ino as u64,
            found.st_size as u64,
            found.st_mtime as u64,
            found.st_mtime_nsec as u64,
            found.st_ctime as u64,
            found.st_ctime_nsec as u64,
        ])
    })
}

/// The stamp of an open file or directory, if it vouches for reads from now until [`unchanged`].
///
/// Take it before reading or listing. The times of a directory change with every entry that is
/// created, removed or renamed.
pub(super) fn settled(file: BorrowedFd<'_>, kind: FileType) -> Option<Stamp> {
    let found = rustix::fs::fstat(file).ok()?;
    let vouched = is_settled(&found, SystemTime::now()) && !keeps_attributes(file);
    vouched.then(|| stamp_of_kind(&found, kind)).flatten()
}

/// As [`settled`] for a directory. If it has just changed, waits a moment first if `may_wait`.
pub(super) fn settled_directory(directory: BorrowedFd<'_>, may_wait: bool) -> Option<Stamp> {
    let mut found = rustix::fs::fstat(directory).ok()?;
    let needed = directory_settles_in(&found);
    let mut now = SystemTime::now();
    if let Some(age) = age(&found, now)
        && age <= needed
        && needed == SETTLED_DIRECTORY
        && may_wait
    {
        std::thread::sleep(needed - age + Duration::from_millis(1));
        found = rustix::fs::fstat(directory).ok()?;
        now = SystemTime::now();
    }
    let vouched = age(&found, now).is_some_and(|age| age > needed) && !keeps_attributes(directory);
    vouched.then(|| stamp_of_kind(&found, FileType::Directory)).flatten()
}

/// Minimum age of the last change before a listing is believed.
///
/// Times with microseconds tell that the file system does not round them (FAT, HFS+).
#[allow(clippy::unnecessary_cast, reason = "the types of the fields differ between systems")]
fn directory_settles_in(found: &Stat) -> Duration {
    match found.st_ctime_nsec as u64 % 1_000_000 {
        0 => SETTLED,
        _ => SETTLED_DIRECTORY,
    }
}

/// Returns whether the open file still has this stamp.
pub(super) fn unchanged(file: BorrowedFd<'_>, kind: FileType, stamp: Stamp) -> bool {
    rustix::fs::fstat(file).is_ok_and(|found| stamp_of_kind(&found, kind) == Some(stamp))
}

/// Reads an open file with `read`, and returns the stamp under which the bytes may be kept.
pub(super) fn stamped(file: BorrowedFd<'_>, read: impl FnOnce() -> Result<bool>) -> Result<Stamped> {
    let kind = FileType::RegularFile;
    let stamp = settled(file, kind);
    let found = read()?;
    Ok((found, stamp.filter(|stamp| found && unchanged(file, kind, *stamp))))
}

/// Size and stamp of a file when it was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) size: u64,
    pub(super) stamp: Stamp,
    /// True if its last change was long ago.
    settled: bool,
}

impl Seen {
    /// Looks at an open file. `None` if it is not a regular file.
    pub(super) fn of(file: BorrowedFd<'_>) -> rustix::io::Result<Option<Seen>> {
        let found = rustix::fs::fstat(file)?;
        let settled = is_settled(&found, SystemTime::now());
        let size = u64::try_from(found.st_size).unwrap_or(0);
        Ok(stamp_of(&found).map(|stamp| Seen { size, stamp, settled }))
    }

    /// The stamp, if it vouches for all reads since then. `file` must be the same file.
    pub(super) fn vouched(&self, file: BorrowedFd<'_>) -> Option<Stamp> {
        (self.settled && unchanged(file, FileType::RegularFile, self.stamp) && !keeps_attributes(file))
            .then_some(self.stamp)
    }
}

/// Returns whether the last change of a file is long before `now`.
fn is_settled(found: &Stat, now: SystemTime) -> bool {
    age(found, now).is_some_and(|age| age > SETTLED)
}

/// Time from the last change of a file (a write or a new name) to `now`.
///
/// `None` if the change is after `now` or before 1970: such a clock cannot be trusted.
#[allow(clippy::unnecessary_cast, reason = "the types of the fields differ between systems")]
pub(super) fn age(found: &Stat, now: SystemTime) -> Option<Duration> {
    let seconds = u64::try_from(found.st_ctime as i64).ok()?;
    let nanoseconds = u32::try_from(found.st_ctime_nsec as u64).ok()?.min(999_999_999);
    now.duration_since(SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))?).ok()
}

/// Returns whether `stat` may return cached attributes after the file has changed.
///
/// True for network file systems and FUSE, but not for cluster file systems that keep clients
/// coherent (Lustre, GPFS).
#[cfg(target_os = "linux")]
fn keeps_attributes(file: BorrowedFd<'_>) -> bool {
    // <linux/magic.h>: NFS, SMB, CIFS, SMB2, FUSE, 9P, AFS, AFS (kafs), Ceph, Coda.
    const NAMES: [u32; 10] = [
        0x6969,
        0x517B,
        0xFF53_4D42,
        0xFE53_4D42,
        0x6573_5546,
        0x0102_1997,
        0x5346_414F,
        0x6B41_4653,
        0x00C3_6400,
        0x7375_7245,
    ];
    // The low 32 bits are the magic number: on some systems it is sign-extended.
    rustix::fs::fstatfs(file).map_or(true, |found| {
        NAMES.into_iter().any(|name| u64::from(name) == (found.f_type as u64 & 0xFFFF_FFFF))
    })
}

/// Unknown elsewhere, so nothing is vouched for.
#[cfg(not(target_os = "linux"))]
fn keeps_attributes(_: BorrowedFd<'_>) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::{SETTLED, is_settled, settled, stamp_of, unchanged};
    use crate::{Key, LocalOptions, LocalStore, Store};
    use rustix::fs::FileType;
    use std::fs::{self, File, OpenOptions};
    use std::io::{Seek, Write};
    use std::os::fd::AsFd;
    use std::thread::sleep;
    use std::time::{Duration, SystemTime};

    #[test]
    fn only_old_changes_are_settled() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x"), b"1").unwrap();
        let mut found = rustix::fs::stat(dir.path().join("x")).unwrap();
        found.st_ctime = 1_000_000;
        found.st_ctime_nsec = 999_999_999;
        let at = SystemTime::UNIX_EPOCH + Duration::new(1_000_000, 999_999_999);
        for (age, expected) in [
            (Duration::ZERO, false),
            (SETTLED, false),
            (SETTLED + Duration::from_nanos(1), true),
            (Duration::from_secs(1 << 30), true),
        ] {
            assert_eq!(is_settled(&found, at + age), expected, "{age:?}");
        }
        assert!(!is_settled(&found, at - Duration::from_secs(5)), "a file from the future");
    }

    /// Every way to change a file, each long after the file has settled.
    #[test]
    fn every_change_of_a_settled_file_shows() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
        let changes: [fn(&std::path::Path); 6] = [
            |path| {
                let mut file = OpenOptions::new().write(true).open(path).unwrap();
                file.write_all(b"bb").unwrap();
            },
            |path| OpenOptions::new().write(true).open(path).unwrap().set_len(2).unwrap(),
            |path| fs::write(path, b"bbbb").unwrap(),
            |path| {
                fs::write(path.with_extension("new"), b"bbbb").unwrap();
                fs::rename(path.with_extension("new"), path).unwrap();
            },
            // The way `cp --preserve` and `rsync` leave a file.
            |path| {
                let old = fs::metadata(path).unwrap().modified().unwrap();
                let mut file = OpenOptions::new().write(true).open(path).unwrap();
                file.rewind().unwrap();
                file.write_all(b"b").unwrap();
                file.set_modified(old).unwrap();
            },
            |path| fs::remove_file(path).unwrap(),
        ];
        let names: Vec<String> = (0..changes.len()).map(|n| format!("c/{n}")).collect();
        let key = |n: usize| Key::new(&names[n]).unwrap();
        for n in 0..changes.len() {
            store.write(key(n), &[b"aaaa"]).unwrap();
            let mut buf = Vec::new();
            assert_eq!(store.read_all_stamped(key(n), &mut buf, 10).unwrap(), (true, None), "too young");
            assert_eq!(buf, b"aaaa");
        }
        sleep(SETTLED + Duration::from_millis(20));
        for (n, change) in changes.iter().enumerate() {
            let mut buf = Vec::new();
            let (found, stamp) = store.read_all_stamped(key(n), &mut buf, 10).unwrap();
            assert!(found && stamp.is_some() && buf == b"aaaa");
            assert_eq!(store.stamp(key(n)).unwrap(), stamp);
            let opened = store.open(key(n), None).unwrap().unwrap();
            assert_eq!((opened.stamp(), opened.vouched()), (stamp, stamp));
            change(&dir.path().join(&names[n]));
            assert_ne!(store.stamp(key(n)).unwrap(), stamp, "change {n}");
            assert_eq!((opened.stamp(), opened.vouched()), (stamp, None), "change {n}");
            assert!(store.read_all_stamped(key(n), &mut buf, 10).unwrap().1.is_none(), "change {n}");
        }
    }

    #[test]
    fn a_change_during_the_read_shows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, b"aaaa").unwrap();
        sleep(SETTLED + Duration::from_millis(20));
        let file = File::open(&path).unwrap();
        let kind = FileType::RegularFile;
        let stamp = settled(file.as_fd(), kind).unwrap();
        assert!(unchanged(file.as_fd(), kind, stamp));
        OpenOptions::new().write(true).open(&path).unwrap().write_all(b"b").unwrap();
        assert!(!unchanged(file.as_fd(), kind, stamp));
        assert_eq!(settled(file.as_fd(), kind), None);
    }

    #[test]
    fn what_is_no_file_has_no_stamp() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(stamp_of(&rustix::fs::stat(dir.path()).unwrap()), None);
    }
}
