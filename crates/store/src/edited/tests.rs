//! Files that are changed: on disk, in memory, and on their way elsewhere.

use super::*;

fn text(file: &EditedFile) -> String {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_new_file_has_no_name_until_it_is_published() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    let file = EditedFile::create(&path, true, EditedOptions::default()).unwrap();
    file.write_at(2, b"cd").unwrap();
    file.write_at(0, b"ab").unwrap();
    assert!(!path.exists() && !file.is_published());
    file.publish().unwrap();
    file.publish().unwrap();
    assert!(file.is_published());
    assert_eq!(std::fs::read(&path).unwrap(), b"abcd");
    file.write_at(1, b"x").unwrap();
    assert_eq!(text(&file), "axcd");
    assert_eq!(std::fs::read(&path).unwrap(), b"axcd");
    // Its writer is not done: another file does not replace it.
    let refused = EditedFile::create(&path, true, EditedOptions::default()).unwrap_err();
    assert!(matches!(&refused, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock));
    drop(file);
    // A new file replaces it only when it is published, and has its permissions.
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let other = EditedFile::create(&path, true, EditedOptions::default()).unwrap();
    other.write_at(0, b"new").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"axcd");
    other.publish().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let names = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 1);
    drop(other);
    let failed = EditedFile::create(&path, false, EditedOptions::default()).unwrap_err();
    assert!(failed.to_string().contains("exists"), "{failed}");
}

#[test]
fn a_file_that_was_never_published_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = EditedFile::create(&folder.path().join("a.h5"), false, EditedOptions::default()).unwrap();
    file.write_at(0, b"x").unwrap();
    drop(file);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn writers_know_of_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    std::fs::write(&path, b"abc").unwrap();
    let open = || {
        let file = EditedFile::open(&path, EditedOptions::default()).unwrap().unwrap();
        file.end_opening();
        file
    };
    let first = open();
    assert!(first.was_alone() && !first.has_others());
    let second = open();
    assert!(!second.was_alone() && first.has_others() && second.has_others());
    // A new file must not replace it.
    let refused = EditedFile::create(&path, true, EditedOptions::default()).unwrap_err();
    assert!(matches!(&refused, StoreError::Io { source, .. } if source.kind() == io::ErrorKind::WouldBlock));
    drop(second);
    assert!(!first.has_others());
    drop(first);
    let replacing = EditedFile::create(&path, true, EditedOptions::default()).unwrap();
    let refused = EditedFile::open(&path, EditedOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("another program replaces it"), "{refused}");
    // Somebody may still refer to a file that was closed.
    replacing.close();
    assert!(open().was_alone());
    assert_eq!(std::fs::read(&path).unwrap(), b"abc");
    let unlocked = EditedOptions { locks: false, fsync: true };
    assert!(!EditedFile::open(&path, unlocked).unwrap().unwrap().has_others());
    std::fs::remove_file(&path).unwrap();
    assert!(EditedFile::open(&path, EditedOptions::default()).unwrap().is_none());
}

#[test]
fn one_writer_changes_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.h5");
    std::fs::write(&path, [0; 8]).unwrap();
    let add = |file: &EditedFile| {
        for _ in 0..200 {
            let _lock = file.lock_changes().unwrap();
            // The threads of one file share the lock.
            let _again = file.lock_changes().unwrap();
            let mut bytes = [0; 8];
            file.read_at(0, &mut bytes).unwrap();
            std::thread::yield_now();
            file.write_at(0, &(u64::from_le_bytes(bytes) + 1).to_le_bytes()).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let file = EditedFile::open(&path, EditedOptions::default()).unwrap().unwrap();
                file.end_opening();
                add(&file);
            });
        }
    });
    assert_eq!(std::fs::read(&path).unwrap(), 600_u64.to_le_bytes());
}

#[derive(Debug, Default)]
struct Noting(Mutex<Vec<String>>);

impl Destination for Noting {
    fn url(&self) -> String {
        "far://away".into()
    }

    fn key(&self) -> &str {
        "a.h5"
    }

    fn note(&self, _: &Arc<std::fs::File>, changed: std::ops::Range<u64>) {
        self.0.lock().push(format!("{changed:?}"));
    }

    fn complete(&self, _: &Arc<std::fs::File>, len: u64) -> Result<()> {
        self.0.lock().push(format!("complete {len}"));
        Ok(())
    }
}

#[test]
fn a_spooled_file_tells_its_destination_what_changes() {
    let to = Arc::new(Noting::default());
    let file = EditedFile::spooled(tempfile::tempfile().unwrap(), Some(to.clone()), false);
    file.write_at(2, b"cd").unwrap();
    file.set_len(10).unwrap();
    file.set_len(3).unwrap();
    file.publish().unwrap();
    assert_eq!(text(&file), "\0\0c");
    file.deliver().unwrap();
    assert_eq!(*to.0.lock(), ["2..4", "3..10", "complete 3"]);
    assert_eq!((file.key(), Store::url(&file)), ("a.h5", "far://away".into()));
    let draft = EditedFile::spooled(tempfile::tempfile().unwrap(), Some(to.clone()), true);
    draft.write_at(0, b"x").unwrap();
    draft.deliver().unwrap();
    assert_eq!(to.0.lock().len(), 3);
}

#[test]
fn in_memory() {
    let file = EditedFile::memory(b"abc".to_vec());
    file.write_at(5, b"f").unwrap();
    assert_eq!(text(&file), "abc\0\0f");
    file.set_len(2).unwrap();
    assert_eq!(text(&file), "ab");
    let mut buf = [1; 4];
    file.read_at(1, &mut buf).unwrap();
    assert_eq!(&buf, b"b\0\0\0");
    Holds::close(&file);
    assert!(matches!(file.len(), Err(StoreError::Closed { .. })));
}
