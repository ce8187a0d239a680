//! Zip archives: the contract, results of writers, and hand-made archives, valid and invalid.

use hyperslab_store::{
    Holds, Key, LocalOptions, MemoryStore, RangeRead, Store, StoreError, ZipError, ZipMode, ZipStore,
    contract,
};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn key(name: &str) -> Key<'_> {
    Key::new(name).unwrap()
}

fn local(path: &Path, mode: ZipMode) -> ZipStore {
    ZipStore::local(path, mode, LocalOptions::default()).unwrap()
}

fn get(store: &dyn Store, name: &str) -> Option<Vec<u8>> {
    let mut buf = Vec::new();
    store.read_all(key(name), &mut buf, 1 << 20).unwrap().then_some(buf)
}

/// Opens an archive with these bytes in memory.
fn of(bytes: &[u8]) -> Result<ZipStore, StoreError> {
    let memory = Arc::new(MemoryStore::new());
    memory.write(key("x.zip"), &[bytes]).unwrap();
    ZipStore::open(memory, key("x.zip"))
}

/// Builds an archive with all features that other writers use.
#[derive(Default)]
struct Build {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
    /// Bytes in front of the archive, not included in offsets.
    before: u32,
    /// True if all numbers are stored in zip64 fields.
    wide: bool,
    comment: Vec<u8>,
}

/// How a member is stored.
#[derive(Clone, Copy)]
struct How {
    deflated: bool,
    flags: u16,
    /// Length of other extra fields in the local header and in the directory.
    extras: (u16, u16),
    descriptor: bool,
}

const PLAIN: How = How { deflated: false, flags: 0, extras: (0, 0), descriptor: false };
const DEFLATED: How = How { deflated: true, ..PLAIN };

fn put16(bytes: &mut Vec<u8>, numbers: &[u16]) {
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
}

fn put32(bytes: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
}

fn put64(bytes: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::best());
    let mut packed = vec![0; compressor.deflate_compress_bound(bytes.len())];
    let len = compressor.deflate_compress(bytes, &mut packed).unwrap();
    packed.truncate(len);
    packed
}

impl Build {
    fn after(before: &[u8]) -> Build {
        Build { bytes: before.to_vec(), before: u32::try_from(before.len()).unwrap(), ..Build::default() }
    }

    fn add(mut self, name: &[u8], value: &[u8], how: How) -> Build {
        let data = if how.deflated { deflate(value) } else { value.to_vec() };
        let (method, crc) = (if how.deflated { 8 } else { 0 }, libdeflater::crc32(value));
        let flags = how.flags | if how.descriptor { 8 } else { 0 };
        let sizes = [u32::try_from(data.len()).unwrap(), u32::try_from(value.len()).unwrap()];
        let offset = u32::try_from(self.bytes.len()).unwrap() - self.before;
        let name_len = u16::try_from(name.len()).unwrap();
        let other = |len: u16| {
            let mut extra = Vec::new();
            if len > 0 {
                put16(&mut extra, &[0xCAFE, len - 4]);
                extra.resize(usize::from(len), 0x50);
            }
            extra
        };

        put32(&mut self.bytes, &[0x0403_4b50]);
        put16(&mut self.bytes, &[20, flags, method, 0, 33]);
        match how.descriptor {
            true => put32(&mut self.bytes, &[0, 0, 0]),
            false => put32(&mut self.bytes, &[crc, sizes[0], sizes[1]]),
        }
        put16(&mut self.bytes, &[name_len, how.extras.0]);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(&other(how.extras.0));
        self.bytes.extend_from_slice(&data);
        if how.descriptor {
            put32(&mut self.bytes, &[0x0807_4b50, crc, sizes[0], sizes[1]]);
        }

        let mut extra = other(how.extras.1);
        if self.wide {
            put16(&mut extra, &[1, 24]);
            put64(&mut extra, &[u64::from(sizes[1]), u64::from(sizes[0]), u64::from(offset)]);
        }
        let narrow = |number: u32| if self.wide { u32::MAX } else { number };
        let record = &mut self.directory;
        put32(record, &[0x0201_4b50]);
        put16(record, &[20, 20, flags, method, 0, 33]);
        put32(record, &[crc, narrow(sizes[0]), narrow(sizes[1])]);
        put16(record, &[name_len, u16::try_from(extra.len()).unwrap(), 2, 0, 0]);
        put32(record, &[0, narrow(offset)]);
        record.extend_from_slice(name);
        record.extend_from_slice(&extra);
        record.extend_from_slice(b"ab");
        self.count += 1;
        self
    }

    fn done(mut self) -> Vec<u8> {
        let offset = u32::try_from(self.bytes.len()).unwrap() - self.before;
        let len = u32::try_from(self.directory.len()).unwrap();
        self.bytes.extend_from_slice(&self.directory);
        let mut numbers = (self.count, len, offset);
        if self.wide {
            put32(&mut self.bytes, &[0x0606_4b50]);
            put64(&mut self.bytes, &[44]);
            put16(&mut self.bytes, &[45, 45]);
            put32(&mut self.bytes, &[0, 0]);
            put64(&mut self.bytes, &[self.count.into(), self.count.into(), len.into(), offset.into()]);
            put32(&mut self.bytes, &[0x0706_4b50, 0]);
            put64(&mut self.bytes, &[u64::from(offset + len)]);
            put32(&mut self.bytes, &[1]);
            numbers = (u16::MAX, u32::MAX, u32::MAX);
        }
        put32(&mut self.bytes, &[0x0605_4b50]);
        put16(&mut self.bytes, &[0, 0, numbers.0, numbers.0]);
        put32(&mut self.bytes, &[numbers.1, numbers.2]);
        put16(&mut self.bytes, &[u16::try_from(self.comment.len()).unwrap()]);
        self.bytes.extend_from_slice(&self.comment);
        self.bytes
    }
}

#[test]
fn the_contract_holds() {
    let dir = tempfile::tempdir().unwrap();
    let count = AtomicUsize::new(0);
    contract::check(|| {
        let path = dir.path().join(format!("ü {}.zip", count.fetch_add(1, Ordering::Relaxed)));
        Box::new(local(&path, ZipMode::Append))
    });
}

#[test]
fn members_are_read_however_they_came_there() {
    let ways = [
        PLAIN,
        DEFLATED,
        How { extras: (28, 0), ..PLAIN },
        How { extras: (0, 12), descriptor: true, ..DEFLATED },
    ];
    for (n, how) in ways.into_iter().enumerate() {
        contract::check_reads(|name, value| {
            let build = if n % 2 == 0 { Build::default() } else { Build::after(b"#!/bin/sh\nexit\n") };
            let build = Build { wide: n >= 2, comment: b"PK\x05\x06 not this".to_vec(), ..build };
            let build = build.add(b"first", b"abc", how).add(name.as_bytes(), value, how);
            Box::new(of(&build.add(b"last", &[7; 100], how).done()).unwrap())
        });
    }
}

#[test]
fn what_is_written_is_an_archive_after_a_flush() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.zip");
    let store = local(&path, ZipMode::Append);
    assert!(!path.exists(), "the first write makes it");
    store.write(key("g/a"), &[b"one", b"two"]).unwrap();
    store.write(key("g/é"), &[b"three"]).unwrap();
    assert!(
        store.url().starts_with("zip://::file:///") && store.url().ends_with("/a.zip"),
        "{}",
        store.url()
    );
    let written = |bytes: &[u8], name: &str| get(&of(bytes).unwrap(), name);
    assert_eq!(written(&fs::read(&path).unwrap(), "g/a"), None, "nobody else sees it yet");
    store.flush().unwrap();
    assert_eq!(written(&fs::read(&path).unwrap(), "g/a").unwrap(), b"onetwo");
    assert_eq!(get(&store, "g/é").unwrap(), b"three");
    // Once more, with a replacement and a deletion.
    store.write(key("g/a"), &[b"new"]).unwrap();
    assert!(store.delete(key("g/é")).unwrap());
    assert_eq!(written(&fs::read(&path).unwrap(), "g/a").unwrap(), b"onetwo");
    drop(store);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(written(&bytes, "g/a").unwrap(), b"new");
    assert_eq!(of(&bytes).unwrap().list(None).unwrap(), ["g/a"]);
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a.zip"], "nothing is left over");
}

#[test]
fn what_others_wrote_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.zip");
    for wide in [false, true] {
        let build = Build { wide, comment: b"of somebody".to_vec(), ..Build::after(b"before") };
        let build = build.add(b"dir/", b"", PLAIN).add(b"dir/x", b"stays", DEFLATED).add(b"y", b"old", PLAIN);
        fs::write(&path, build.add(b"/abs", b"odd", PLAIN).done()).unwrap();
        let store = local(&path, ZipMode::Append);
        store.write(key("dir/z"), &[b"new"]).unwrap();
        store.write(key("y"), &[b"newer"]).unwrap();
        store.flush().unwrap();
        for store in [&store, &of(&fs::read(&path).unwrap()).unwrap()] {
            assert_eq!(store.list(None).unwrap(), ["dir/x", "dir/z", "y"]);
            assert_eq!(get(store, "dir/x").unwrap(), b"stays");
            assert_eq!(
                (get(store, "dir/z").unwrap(), get(store, "y").unwrap()),
                (b"new".to_vec(), b"newer".to_vec())
            );
        }
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"before") && bytes.ends_with(b"of somebody"));
        let has = |text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
        assert!(has(b"/abs") && has(b"dir/"));
    }
}

#[test]
fn modes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.zip");
    let open = |mode| ZipStore::local(&path, mode, LocalOptions::default());
    let kind = |answer: Result<ZipStore, StoreError>| answer.unwrap_err().io_kind().unwrap();
    assert_eq!(kind(open(ZipMode::Read)), std::io::ErrorKind::NotFound);
    drop(open(ZipMode::Create).unwrap());
    assert_eq!(of(&fs::read(&path).unwrap()).unwrap().list(None).unwrap(), [""; 0], "an empty archive");
    assert_eq!(kind(open(ZipMode::Create)), std::io::ErrorKind::AlreadyExists);
    open(ZipMode::Append).unwrap().write(key("a"), &[&[1; 5000]]).unwrap();
    let store = open(ZipMode::Read).unwrap();
    assert_eq!(get(&store, "a").unwrap(), [1; 5000]);
    for error in [
        store.write(key("b"), &[b""]).unwrap_err(),
        store.delete(key("a")).unwrap_err(),
        store.delete_prefix(None).unwrap_err(),
        store.stage(None).unwrap_err(),
    ] {
        assert!(error.to_string().contains("reading only"), "{error}");
    }
    drop(store);
    let store = open(ZipMode::Write).unwrap();
    assert_eq!(store.list(None).unwrap(), [""; 0]);
    assert_eq!(get(&of(&fs::read(&path).unwrap()).unwrap(), "a").unwrap(), [1; 5000], "not yet");
    store.write(key("b"), &[b"2"]).unwrap();
    store.close();
    assert!(matches!(store.size(key("b")), Err(StoreError::Closed { .. })));
    assert_eq!(of(&fs::read(&path).unwrap()).unwrap().list(None).unwrap(), ["b"]);
    assert!(fs::metadata(&path).unwrap().len() < 1000, "nothing of the old archive is kept");
}

#[test]
fn one_archive_in_one_process_is_shared() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.zip");
    std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).unwrap();
    let (one, two) = (local(&path, ZipMode::Append), local(&dir.path().join("link/a.zip"), ZipMode::Append));
    one.write(key("a"), &[b"1"]).unwrap();
    two.write(key("b"), &[b"2"]).unwrap();
    assert_eq!(one.list(None).unwrap(), two.list(None).unwrap());
    assert_eq!((get(&one, "b").unwrap(), one.lock_id(key("a"))), (b"2".to_vec(), two.lock_id(key("a"))));
    drop(one);
    assert_eq!(of(&fs::read(&path).unwrap()).unwrap().list(None).unwrap(), [""; 0]);
    drop(two);
    assert_eq!(of(&fs::read(&path).unwrap()).unwrap().list(None).unwrap(), ["a", "b"]);
}

#[test]
fn changes_of_others_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.zip");
    let archive = |value: &[u8]| Build::default().add(b"a", value, PLAIN).done();
    fs::write(&path, archive(b"old")).unwrap();
    let store = local(&path, ZipMode::Append);
    // After a replacement, reads still see the old archive, and writes fail.
    fs::write(dir.path().join("new"), archive(b"other")).unwrap();
    fs::rename(dir.path().join("new"), &path).unwrap();
    assert_eq!(get(&store, "a").unwrap(), b"old");
    assert!(!store.is_current());
    let changed = |error| matches!(error, StoreError::Zip { source: ZipError::Changed, .. });
    assert!(changed(store.write(key("b"), &[b""]).unwrap_err()));
    // After another open, both stores see the new archive.
    let again = local(&path, ZipMode::Append);
    assert_eq!(
        (get(&again, "a").unwrap(), get(&store, "a").unwrap()),
        (b"other".to_vec(), b"other".to_vec())
    );
    // Changed in place.
    fs::write(&path, archive(b"longer than before")).unwrap();
    let mut buf = Vec::new();
    assert!(changed(store.read_all(key("a"), &mut buf, 100).unwrap_err()));

    let memory = Arc::new(MemoryStore::new());
    memory.write(key("x.zip"), &[&archive(b"old")]).unwrap();
    let store = ZipStore::open(memory.clone(), key("x.zip")).unwrap();
    memory.write(key("x.zip"), &[&archive(b"new")]).unwrap();
    assert!(changed(store.read_all(key("a"), &mut buf, 100).unwrap_err()));
}

#[test]
fn names() {
    let utf8 = How { flags: 1 << 11, ..PLAIN };
    let mut build = Build::default().add("é/ü".as_bytes(), b"1", utf8).add(b"\x82/\x81", b"2", PLAIN);
    for (n, odd) in ["/a", "a/../b", "a\\b", "dir/", "a//b", "", ".", "a\0b"].into_iter().enumerate() {
        build = build.add(odd.as_bytes(), &[u8::try_from(n).unwrap()], utf8);
    }
    let build =
        build.add(b"\xff\xfe", b"", utf8).add(b"twice", b"first", PLAIN).add(b"twice", b"last", DEFLATED);
    let store = of(&build.done()).unwrap();
    assert_eq!(store.list(None).unwrap(), ["twice", "é/ü"], "the same name in two encodings");
    assert_eq!(
        (get(&store, "é/ü").unwrap(), get(&store, "twice").unwrap()),
        (b"2".to_vec(), b"last".to_vec())
    );
    assert!(!store.facts().reads_ranges && !store.exists(key("dir")).unwrap());
}

#[test]
fn what_is_refused_says_why() {
    let refused = |bytes: &[u8], name: &str| -> String {
        let mut buf = Vec::new();
        let error = match of(bytes) {
            Ok(store) => store.read_all(key(name), &mut buf, 1 << 20).unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error, StoreError::Zip { .. }), "{error}");
        error.to_string()
    };
    let one = |how| Build::default().add(b"a/b", &[5; 1000], how).done();
    let damaged = |at: usize, value: &[u8], how| {
        let mut bytes = one(how);
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    // Offset of the directory, which has one member.
    let at = one(PLAIN).len() - 22 - 46 - 3 - 2;
    let end = one(PLAIN).len() - 22;
    for (bytes, why) in [
        (b"".to_vec(), "is no zip archive"),
        (b"PK".to_vec(), "is no zip archive"),
        (one(PLAIN)[..900].to_vec(), "is no zip archive"),
        ([one(PLAIN), vec![0]].concat(), "is no zip archive"),
        (one(How { flags: 1, ..PLAIN }), "is encrypted"),
        (damaged(at + 10, &93u16.to_le_bytes(), PLAIN), "method 93 (Zstandard)"),
        (damaged(at + 10, &12u16.to_le_bytes(), PLAIN), "method 12 (bzip2)"),
        (damaged(at + 16, &[0; 4], PLAIN), "CRC-32"),
        (damaged(40, &[6], PLAIN), "CRC-32"),
        (damaged(at + 24, &999u32.to_le_bytes(), PLAIN), "two sizes"),
        (damaged(2, b"x", PLAIN), "a local header is expected"),
        (damaged(at + 42, &u32::MAX.to_le_bytes(), PLAIN), "the member lies outside"),
        (damaged(30, b"x", PLAIN), "another name"),
        (damaged(28, &900u16.to_le_bytes(), PLAIN), "reaches into the directory"),
        (damaged(at, b"xx", PLAIN), "a record of a member is expected"),
        (damaged(at + 28, &999u16.to_le_bytes(), PLAIN), "cut off"),
        (damaged(at + 34, &1u16.to_le_bytes(), PLAIN), "several disks"),
        (damaged(end + 4, &1u16.to_le_bytes(), PLAIN), "several disks"),
        (damaged(end + 8, &[2, 0, 2, 0], PLAIN), "more or fewer members"),
        (damaged(end + 12, &[255; 4], PLAIN), "overlaps its end"),
        (damaged(35, &[255; 4], DEFLATED), "compressed bytes are invalid"),
    ] {
        let said = refused(&bytes, "a/b");
        assert!(said.contains(why), "{why}: {said}");
        assert!(said.contains("x.zip"), "{said}");
    }
    // The size of a zip bomb is refused before memory is allocated.
    let mut bomb = one(DEFLATED);
    let at = bomb.len() - 22 - 46 - 3 - 2;
    bomb[at + 24..at + 28].copy_from_slice(&4_000_000_000u32.to_le_bytes());
    assert!(refused(&bomb, "a/b").contains("more than its compressed bytes can hold"));
    let mut buf = Vec::new();
    let large = of(&one(DEFLATED)).unwrap().read_all(key("a/b"), &mut buf, 999).unwrap_err();
    assert!(matches!(large, StoreError::TooLarge { limit: 999, .. }));
}

/// Truncated at every byte, and with every bit flipped: an error, or the original members.
#[test]
fn hostile_archives() {
    let value = [b"something that deflates well, well, well".to_vec(), vec![3; 200]].concat();
    for n in 0..4 {
        let how = if n % 2 == 0 { PLAIN } else { How { descriptor: true, extras: (8, 0), ..DEFLATED } };
        let build = Build { wide: n >= 2, comment: b"comment".to_vec(), ..Build::after(b"before") };
        let good = build.add(b"a", &value, how).add(b"b/c", &value, how).done();
        let check = |bytes: &[u8]| {
            let Ok(store) = of(bytes) else { return };
            for name in store.list(None).unwrap() {
                let mut buf = Vec::new();
                if store.read_all(key(&name), &mut buf, 1 << 16).is_ok() {
                    assert_eq!(buf, value, "read whole, with the right checksum");
                }
                let mut part = [0; 10];
                let _ = store.read_ranges(key(&name), None, &mut [RangeRead { offset: 5, buf: &mut part }]);
            }
        };
        check(&good);
        for cut in 0..good.len() {
            check(&good[..cut]);
            check(&good[cut..]);
        }
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            check(&bytes);
        }
        for at in 0..good.len() - 8 {
            for filling in [0, 0xFF] {
                let mut bytes = good.clone();
                bytes[at..at + 8].fill(filling);
                check(&bytes);
            }
        }
    }
}
