//! Both stores keep the contract, and agree with a model over generated sequences of operations.

use hyperslab_store::{
    Key, LocalOptions, LocalStore, MemoryStore, RangeRead, Result, Store, StoreError, contract,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

fn check_local(dir: &Path, options: LocalOptions) {
    let count = AtomicUsize::new(0);
    contract::check(|| {
        // Two missing levels, with characters that a URL must encode.
        let root = dir.join(format!("store {}/ü", count.fetch_add(1, Ordering::Relaxed)));
        Box::new(LocalStore::open(root, options).unwrap())
    });
}

#[test]
fn local() {
    check_local(tempfile::tempdir().unwrap().path(), LocalOptions::default());
}

#[test]
fn local_with_fsync() {
    // In memory if the system has such a directory: flushing thousands of objects to a disk takes
    // long.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    check_local(dir.path(), LocalOptions { fsync: true, ..LocalOptions::default() });
}

#[test]
fn memory() {
    contract::check(|| Box::new(MemoryStore::new()));
}

#[derive(Clone, Debug)]
enum Step {
    Write(String, Vec<Vec<u8>>),
    Delete(String),
    DeletePrefix(Option<String>),
    ReadExact(String, usize),
    ReadAll(String, usize),
    ReadRanges(String, Option<u64>, Vec<(u64, usize)>),
    List(Option<String>),
    /// The last field tells whether it is committed.
    Replace(String, Vec<BuildStep>, bool),
}

/// A step of building an object. Offsets may be out of range.
#[derive(Clone, Debug)]
enum BuildStep {
    Append(Vec<Vec<u8>>),
    Overwrite(u64, Vec<u8>),
    Copy(String, u64, u64),
    Share(String),
}

/// A few names, so that steps interact: objects above objects, and names that sort close to the
/// slash.
fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "a!", "a0", "b"]), 1..4)
        .prop_map(|parts| parts.join("/"))
}

fn prefix() -> impl Strategy<Value = Option<String>> {
    prop_oneof![1 => Just(None), 9 => name().prop_map(Some)]
}

fn piece() -> impl Strategy<Value = BuildStep> {
    let part = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        3 => prop::collection::vec(part.clone(), 0..4).prop_map(BuildStep::Append),
        1 => (0u64..60, part).prop_map(|(offset, bytes)| BuildStep::Overwrite(offset, bytes)),
        3 => (name(), 0u64..50, 0u64..40).prop_map(|(name, offset, len)| BuildStep::Copy(name, offset, len)),
        1 => name().prop_map(BuildStep::Share),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let part = prop::collection::vec(any::<u8>(), 0..40);
    let ranges = prop::collection::vec((0u64..100, 0usize..60), 0..6);
    prop_oneof![
        6 => (name(), prop::collection::vec(part, 0..4)).prop_map(|(name, parts)| Step::Write(name, parts)),
        2 => name().prop_map(Step::Delete),
        1 => prefix().prop_map(Step::DeletePrefix),
        3 => (name(), 0usize..100).prop_map(|(name, len)| Step::ReadExact(name, len)),
        3 => (name(), 0usize..150).prop_map(|(name, limit)| Step::ReadAll(name, limit)),
        3 => (name(), prop::option::weighted(0.3, 0u64..100), ranges)
            .prop_map(|(name, size, ranges)| Step::ReadRanges(name, size, ranges)),
        2 => prefix().prop_map(Step::List),
        4 => (name(), prop::collection::vec(piece(), 0..6), prop::bool::weighted(0.8))
            .prop_map(|(name, pieces, complete)| Step::Replace(name, pieces, complete)),
    ]
}

type Model = BTreeMap<String, Vec<u8>>;

fn key(name: &str) -> Key<'_> {
    Key::new(name).unwrap()
}

fn is_below(name: &str, prefix: Option<&str>) -> bool {
    match prefix {
        None => true,
        Some(prefix) => name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/')),
    }
}

/// Returns whether an object may be created under a name. Otherwise returns the expected error.
fn check_name(model: &Model, name: &str) -> Result<(), ErrorKind> {
    if model.keys().any(|other| is_below(name, Some(other))) {
        Err(ErrorKind::NotADirectory)
    } else if model.keys().any(|other| is_below(other, Some(name))) {
        Err(ErrorKind::IsADirectory)
    } else {
        Ok(())
    }
}

/// Builds an object both in the store and in memory. Returns the bytes if it was committed.
fn build(
    store: &dyn Store,
    model: &Model,
    name: &str,
    pieces: &[BuildStep],
    complete: bool,
) -> Result<Option<Vec<u8>>> {
    let (mut new, mut bytes) = (store.replace(key(name))?, Vec::new());
    for piece in pieces {
        let (answer, fits) = match piece {
            BuildStep::Append(parts) => {
                bytes.extend(parts.concat());
                (new.append(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()), true)
            }
            BuildStep::Overwrite(offset, with) => {
                let range = *offset as usize..*offset as usize + with.len();
                let fits = bytes.get_mut(range).map(|there| there.copy_from_slice(with)).is_some();
                (new.overwrite(*offset, with), fits)
            }
            BuildStep::Copy(from, offset, len) => {
                let Some(value) = model.get(from) else { continue };
                let range = value.get(*offset as usize..(*offset + *len) as usize);
                bytes.extend(range.unwrap_or_default());
                (new.copy(&*store.open(key(from), None)?.unwrap(), *offset, *len), range.is_some())
            }
            BuildStep::Share(from) => {
                let Some(value) = model.get(from) else { continue };
                if new.share(&*store.open(key(from), None)?.unwrap())? {
                    assert!(bytes.is_empty());
                    bytes.extend(value);
                }
                (Ok(()), true)
            }
        };
        if fits {
            answer.unwrap();
            assert_eq!(new.len(), bytes.len() as u64);
        } else {
            assert!(matches!(answer, Err(StoreError::OutOfRange { .. })), "{piece:?}: {answer:?}");
            assert!(new.commit().is_err());
            return Ok(None);
        }
    }
    if complete {
        new.commit()?;
    }
    Ok(complete.then_some(bytes))
}

fn run(store: &dyn Store, model: &mut Model, step: &Step, buf: &mut Vec<u8>) {
    match step {
        Step::Write(name, parts) => {
            let slices: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let answer = store.write(key(name), &slices);
            match check_name(model, name) {
                Err(kind) => assert_eq!(answer.unwrap_err().io_kind(), Some(kind)),
                Ok(()) => {
                    answer.unwrap();
                    model.insert(name.clone(), parts.concat());
                }
            }
        }
        Step::Replace(name, pieces, complete) => {
            let answer = build(store, model, name, pieces, *complete);
            match (check_name(model, name), answer) {
                (Ok(()), Ok(Some(bytes))) => drop(model.insert(name.clone(), bytes)),
                (_, Ok(None)) => {}
                (Err(kind), Err(error)) => assert_eq!(error.io_kind(), Some(kind)),
                (expected, answer) => panic!("{expected:?}, but {answer:?}"),
            }
        }
        Step::Delete(name) => {
            let deleted = store.delete(key(name)).unwrap();
            assert_eq!(deleted, model.remove(name).is_some());
        }
        Step::DeletePrefix(prefix) => {
            let prefix = prefix.as_deref();
            store.delete_prefix(prefix.map(key)).unwrap();
            model.retain(|name, _| !is_below(name, prefix));
        }
        Step::ReadExact(name, len) => {
            let mut exact = vec![0xEE; *len];
            let answer = store.read_exact(key(name), &mut exact);
            match model.get(name) {
                None => assert!(!answer.unwrap()),
                Some(value) if value.len() == *len => {
                    assert!(answer.unwrap());
                    assert_eq!(&exact, value);
                }
                Some(_) => assert!(matches!(answer, Err(StoreError::WrongSize { .. }))),
            }
        }
        Step::ReadAll(name, limit) => {
            let answer = store.read_all(key(name), buf, *limit);
            match model.get(name) {
                None => assert!(!answer.unwrap()),
                Some(value) if value.len() <= *limit => {
                    assert!(answer.unwrap());
                    assert_eq!(&*buf, value);
                }
                Some(_) => assert!(matches!(answer, Err(StoreError::TooLarge { .. }))),
            }
        }
        Step::ReadRanges(name, size, wanted) => {
            let mut bufs: Vec<Vec<u8>> = wanted.iter().map(|&(_, len)| vec![0xEE; len]).collect();
            let mut ranges: Vec<RangeRead<'_>> =
                wanted.iter().zip(&mut bufs).map(|(&(offset, _), buf)| RangeRead { offset, buf }).collect();
            let answer = store.read_ranges(key(name), *size, &mut ranges);
            let Some(value) = model.get(name) else {
                assert!(!answer.unwrap());
                return;
            };
            let found = value.len() as u64;
            let fits = |&(offset, len): &(u64, usize)| len == 0 || offset + len as u64 <= found;
            if size.is_some_and(|size| size != found) {
                assert!(matches!(answer, Err(StoreError::WrongSize { .. })));
            } else if let Some(&outside) = wanted.iter().find(|range| !fits(range)) {
                let Err(StoreError::OutOfRange { offset, len, size, .. }) = answer else {
                    panic!("{answer:?}");
                };
                assert_eq!(((offset, len as usize), size), (outside, found));
            } else {
                assert!(answer.unwrap());
                for (&(offset, len), buf) in wanted.iter().zip(&bufs).filter(|((_, len), _)| *len > 0) {
                    assert_eq!(buf, &value[offset as usize..offset as usize + len]);
                }
            }
        }
        Step::List(prefix) => {
            let prefix = prefix.as_deref();
            let wanted = prefix.map(key);
            let below: Vec<&String> = model.keys().filter(|name| is_below(name, prefix)).collect();
            assert_eq!(store.list(wanted).unwrap().iter().collect::<Vec<_>>(), below.clone());
            let skip = prefix.map_or(0, |prefix| prefix.len() + 1);
            let mut children: Vec<(String, bool)> = below
                .iter()
                .map(|name| match name[skip..].split_once('/') {
                    Some((child, _)) => (child.to_owned(), true),
                    None => (name[skip..].to_owned(), false),
                })
                .collect();
            children.sort();
            children.dedup();
            let listed = store.list_dir(wanted).unwrap();
            assert_eq!(listed.into_iter().map(|e| (e.name, e.is_prefix)).collect::<Vec<_>>(), children);
        }
    }
    for (name, value) in model.iter() {
        assert_eq!(store.size(key(name)).unwrap(), Some(value.len() as u64));
    }
}

fn run_all(store: &dyn Store, steps: &[Step]) {
    let (mut model, mut buf) = (Model::new(), Vec::new());
    for step in steps {
        run(store, &mut model, step, &mut buf);
    }
    assert_eq!(store.list(None).unwrap(), model.into_keys().collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_agrees_with_the_model(steps in prop::collection::vec(step(), 1..60)) {
        run_all(&MemoryStore::new(), &steps);
    }

    #[test]
    fn local_agrees_with_the_model(steps in prop::collection::vec(step(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        run_all(&LocalStore::open(dir.path().join("root"), LocalOptions::default()).unwrap(), &steps);
    }
}
