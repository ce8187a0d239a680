//! Several machines change objects on one server, which has conditional writes but no locks.

use crate::testing::spec_of;
use crate::{Array, Consolidation, Format, Group, Json, ZarrError};
use hyperslab_array::{self as engine, Index, ReadOptions, Selection, Source, WriteOptions};
use hyperslab_store::{
    Entry, Expected, Facts, Key, Mark, MemoryStore, Opened, Operation, RangeRead, Result, Store, StoreError,
    Version, Writers,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Something that another machine does meanwhile.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// Objects on a server, as one machine sees them: it does not see locks of other machines.
struct Machine {
    objects: MemoryStore,
    /// The version number of each object.
    versions: Arc<Mutex<BTreeMap<String, u64>>>,
    number: u64,
    /// The marks of each object.
    marks: Arc<Mutex<BTreeMap<String, String>>>,
    /// Runs before the next replacement of an object of this name.
    meanwhile: Mutex<Option<(&'static str, Meanwhile)>>,
    /// The fault of the next replacement of a document.
    lie: Mutex<Option<Lie>>,
}

/// A wrong answer of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    /// The write was done, but the answer is no.
    DoneButNo,
    /// The write was done, but the answer is an error.
    DoneButError,
    /// The write was not done, and the answer is an error.
    Error,
}

static MACHINES: AtomicU64 = AtomicU64::new(1);

impl Machine {
    fn new() -> Arc<Self> {
        Arc::new(Machine {
            objects: MemoryStore::new(),
            versions: Arc::default(),
            marks: Arc::default(),
            lie: Mutex::default(),
            number: MACHINES.fetch_add(1, Ordering::Relaxed),
            meanwhile: Mutex::default(),
        })
    }

    /// Another machine.
    fn other(&self) -> Arc<Self> {
        Arc::new(Machine {
            objects: self.objects.clone(),
            versions: self.versions.clone(),
            marks: self.marks.clone(),
            lie: Mutex::default(),
            number: MACHINES.fetch_add(1, Ordering::Relaxed),
            meanwhile: Mutex::default(),
        })
    }

    fn meanwhile(&self, name: &'static str, happens: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some((name, Box::new(happens)));
    }

    fn happen(&self, key: &str) {
        let mut waiting = self.meanwhile.lock().unwrap();
        if waiting.as_ref().is_some_and(|(name, _)| key.ends_with(name)) {
            let (_, happens) = waiting.take().unwrap();
            drop(waiting);
            happens();
        }
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("number", &self.number).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Versioned<'s>(Box<dyn Opened + 's>, String, Option<String>);

impl Opened for Versioned<'_> {
    fn read_ranges(&self, ranges: &mut [RangeRead<'_>]) -> Result<()> {
        self.0.read_ranges(ranges)
    }

    fn size(&self) -> u64 {
        self.0.size()
    }

    fn version(&self) -> Option<Version<'_>> {
        Some(Version { tag: Some(&self.1), number: None, marks: self.2.as_deref() })
    }
}

impl Store for Machine {
    fn read_ranges(&self, key: Key<'_>, size: Option<u64>, ranges: &mut [RangeRead<'_>]) -> Result<bool> {
        self.objects.read_ranges(key, size, ranges)
    }

    fn open<'s>(&'s self, key: Key<'_>, size: Option<u64>) -> Result<Option<Box<dyn Opened + 's>>> {
        let versions = self.versions.lock().unwrap();
        let tag = versions.get(key.as_str()).map_or_else(String::new, u64::to_string);
        let marks = self.marks.lock().unwrap().get(key.as_str()).cloned();
        let opened = self.objects.open(key, size)?;
        Ok(opened.map(|opened| Box::new(Versioned(opened, tag, marks)) as Box<dyn Opened>))
    }

    fn read_all(&self, key: Key<'_>, buf: &mut Vec<u8>, limit: usize) -> Result<bool> {
        self.objects.read_all(key, buf, limit)
    }

    fn size(&self, key: Key<'_>) -> Result<Option<u64>> {
        self.objects.size(key)
    }

    fn write(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<()> {
        self.swap(key, Expected::Any, parts, None).map(drop)
    }

    fn write_new(&self, key: Key<'_>, parts: &[&[u8]]) -> Result<bool> {
        self.swap(key, Expected::Absent, parts, None)
    }

    fn swap(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        parts: &[&[u8]],
        _ask: Option<hyperslab_store::Ask<'_>>,
    ) -> Result<bool> {
        self.happen(key.as_str());
        let mut versions = self.versions.lock().unwrap();
        let now = versions.entry(key.as_str().to_owned()).or_default();
        let fits = match expected {
            Expected::Any => true,
            Expected::Absent => self.objects.size(key)?.is_none(),
            Expected::Same(was) | Expected::Locked(was) => {
                self.objects.size(key)?.is_some()
                    && was.version().and_then(|it| it.tag) == Some(now.to_string().as_str())
            }
        };
        if fits {
            *now += 1;
            self.objects.write(key, parts)?;
            self.marks.lock().unwrap().remove(key.as_str());
        }
        Ok(fits)
    }

    fn swap_out(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        _ask: Option<hyperslab_store::Ask<'_>>,
    ) -> Result<bool> {
        assert!(matches!(expected, Expected::Absent), "servers do not delete under a condition");
        Ok(self.objects.size(key)?.is_none())
    }

    fn delete(&self, key: Key<'_>) -> Result<bool> {
        self.happen("deleted");
        self.objects.delete(key)
    }

    fn delete_prefix(&self, prefix: Option<Key<'_>>) -> Result<()> {
        self.objects.delete_prefix(prefix)
    }

    fn list_dir(&self, prefix: Option<Key<'_>>) -> Result<Vec<Entry>> {
        self.objects.list_dir(prefix)
    }

    fn list(&self, prefix: Option<Key<'_>>) -> Result<Vec<String>> {
        self.objects.list(prefix)
    }

    fn lock_id(&self, key: Key<'_>) -> u64 {
        self.objects.lock_id(key) ^ self.number
    }

    fn facts(&self) -> Facts {
        Facts { swaps_out: false, is_shared: true, ..Facts::default() }
    }

    fn writers(&self) -> Option<&dyn Writers> {
        Some(self)
    }

    fn url(&self) -> String {
        format!("machine://{}", self.number)
    }
}

impl Writers for Machine {
    fn swap_marked(
        &self,
        key: Key<'_>,
        expected: Expected<'_>,
        mark: Mark,
        parts: &[&[u8]],
        ask: Option<hyperslab_store::Ask<'_>>,
    ) -> Result<bool> {
        let before = self.marks.lock().unwrap().get(key.as_str()).cloned().unwrap_or_default();
        let lie = self.lie.lock().unwrap().take();
        let error = || StoreError::io(self, Operation::Write, key.as_str(), std::io::ErrorKind::Other);
        if lie == Some(Lie::Error) {
            self.happen(key.as_str());
            return Err(error());
        }
        let done = self.swap(key, expected, parts, ask)?;
        if done {
            self.marks.lock().unwrap().insert(key.as_str().to_owned(), format!("{}{before}", mark.as_str()));
        }
        match lie {
            Some(Lie::DoneButError) => Err(error()),
            Some(_) => Ok(false),
            None => Ok(done),
        }
    }
}

const FORMATS: [Format; 2] = [Format::V2, Format::V3];

fn array(machine: &Arc<Machine>, format: Format, rows: u64) -> Array {
    let mut spec = spec_of(format, &[rows, 3], &[4, 3], "<i4");
    spec.fill = Some(7i32.to_ne_bytes().to_vec());
    Array::create(machine.clone(), "g/a", spec, false).unwrap()
}

fn open(machine: &Arc<Machine>) -> Array {
    let store: Arc<dyn Store> = machine.clone();
    Array::open(&store, "g/a", None).unwrap()
}

fn rows(array: &Array, from: u64, to: u64) -> Selection {
    let indices = [Index::range(from as i64, to as i64), Index::ALL];
    Selection::new("a", array.layout().shape(), &indices).unwrap()
}

fn set(array: &Array, from: u64, to: u64, value: i32) -> crate::Result<()> {
    let (selection, value) = (rows(array, from, to), value.to_ne_bytes());
    let source = Source::repeat(&value, &selection.shape());
    Ok(engine::write(array.layout(), &selection, &source, WriteOptions::default())?)
}

/// The first element of each row.
fn read(array: &Array) -> Vec<i32> {
    let all = rows(array, 0, array.layout().shape()[0]);
    let found = engine::read(array.layout(), &all, ReadOptions::default()).unwrap();
    found.as_slice().chunks_exact(12).map(|row| i32::from_ne_bytes(row[..4].try_into().unwrap())).collect()
}

fn append(array: &mut Array, value: i32) -> crate::Result<()> {
    let like = array.layout().shape().to_vec();
    array.append_with(0, 3, &like, None, |longer, first| set(longer, first, first + 3, value))
}

#[test]
fn attributes_of_all_machines_stay() {
    for format in FORMATS {
        let first = Machine::new();
        array(&first, format, 5);
        let store: Arc<dyn Store> = first.clone();
        Group::open(&store, "g", None, Consolidation::Auto).unwrap().consolidate(None).unwrap();
        std::thread::scope(|scope| {
            for machine in 0..4 {
                let store: Arc<dyn Store> = first.other();
                scope.spawn(move || {
                    let mut array = Array::open(&store, "g/a", None).unwrap();
                    let mut group = Group::open(&store, "g", None, Consolidation::Auto).unwrap();
                    for n in 0..20u32 {
                        let name = format!("{machine}.{n}");
                        array.change_attributes(None, |all| all.set(&name, n.into())).unwrap();
                        group.change_attributes(None, |all| all.set(&name, n.into())).unwrap();
                    }
                });
            }
        });
        let names = |attributes: &Json| attributes.as_object().unwrap().len();
        assert_eq!(names(open(&first).attributes()), 80);
        let group = Group::open(&store, "g", None, Consolidation::Require).unwrap();
        assert_eq!(names(group.attributes()), 80);
        if format == Format::V2 {
            let text = crate::testing::get(&store, "g/.zmetadata").unwrap();
            let copy = crate::testing::json(&text).get("metadata").unwrap().get(".zattrs").unwrap().clone();
            assert_eq!(names(&copy), 80);
        }
    }
}

#[test]
fn rows_of_all_machines_stay() {
    for format in FORMATS {
        let first = Machine::new();
        array(&first, format, 0);
        std::thread::scope(|scope| {
            for machine in 0..4 {
                let mut array = open(&first.other());
                scope.spawn(move || {
                    for n in 0..10 {
                        append(&mut array, 100 * machine + n).unwrap();
                    }
                });
            }
        });
        let found = read(&open(&first));
        let mut values: Vec<i32> = found.chunks(3).map(|three| three[0]).collect();
        assert!(found.chunks(3).all(|three| three == [three[0]; 3]), "{found:?}");
        values.sort_unstable();
        let expected: Vec<i32> = (0..4).flat_map(|machine| (0..10).map(move |n| 100 * machine + n)).collect();
        assert_eq!(values, expected);
    }
}

/// Others append rows after ours to the same chunk while we write.
#[test]
fn rows_behind_ours_stay() {
    for format in FORMATS {
        let first = Machine::new();
        let mut mine = array(&first, format, 0);
        let (like, other) = (mine.layout().shape().to_vec(), first.other());
        let appended = mine.append_with(0, 2, &like, None, |longer, from| {
            append(&mut open(&other), 5)?;
            set(longer, from, from + 2, 1)
        });
        appended.unwrap();
        assert_eq!(mine.layout().shape(), [2, 3]);
        assert_eq!(read(&open(&first)), [1, 1, 5, 5, 5]);
    }
}

#[test]
fn a_failed_append_gives_its_rows_back() {
    for (format, others) in FORMATS.into_iter().flat_map(|format| [(format, false), (format, true)]) {
        let first = Machine::new();
        let mut mine = array(&first, format, 5);
        set(&mine, 0, 5, 1).unwrap();
        let (like, other) = (mine.layout().shape().to_vec(), first.other());
        let failed = mine.append_with(0, 3, &like, None, |longer, from| {
            assert_eq!(read(&open(&other)), [1, 1, 1, 1, 1, 7, 7, 7], "the rows are reserved");
            set(longer, from, from + 1, 2)?;
            if others {
                append(&mut open(&other), 3)?;
            }
            Err(ZarrError::Interrupted)
        });
        assert!(matches!(failed, Err(ZarrError::Interrupted)));
        let expected: &[i32] = if others { &[1, 1, 1, 1, 1, 2, 7, 7, 3, 3, 3] } else { &[1; 5] };
        assert_eq!(read(&open(&first)), expected);
        // Rows that were written do not come back.
        if !others {
            open(&first).resize(&[12, 3], None).unwrap();
            assert_eq!(read(&open(&first)), [1, 1, 1, 1, 1, 7, 7, 7, 7, 7, 7, 7]);
        }
    }
}

/// The rows were reserved, but the server says no or fails.
#[test]
fn rows_are_reserved_once() {
    for format in FORMATS {
        let first = Machine::new();
        let mut mine = array(&first, format, 5);
        set(&mine, 0, 5, 1).unwrap();
        *first.lie.lock().unwrap() = Some(Lie::DoneButNo);
        append(&mut mine, 2).unwrap();
        assert_eq!(read(&open(&first)), [1, 1, 1, 1, 1, 2, 2, 2]);
        // The writer gets an error, and the rows, which nobody owns, are removed.
        *first.lie.lock().unwrap() = Some(Lie::DoneButError);
        append(&mut mine, 3).unwrap_err();
        assert_eq!(read(&open(&first)), [1, 1, 1, 1, 1, 2, 2, 2]);
        // Another writer has reserved as many rows, with equal metadata: these rows stay.
        let other = first.other();
        first.meanwhile(if format == Format::V2 { ".zarray" } else { "zarr.json" }, move || {
            append(&mut open(&other), 4).unwrap();
        });
        *first.lie.lock().unwrap() = Some(Lie::Error);
        append(&mut mine, 3).unwrap_err();
        assert_eq!(read(&open(&first)), [1, 1, 1, 1, 1, 2, 2, 2, 4, 4, 4]);
    }
}

/// The rows of a failed append were already removed, and others have as many: these rows stay.
#[test]
fn rows_of_others_are_not_given_back() {
    for format in FORMATS {
        let first = Machine::new();
        let mut mine = array(&first, format, 4);
        set(&mine, 0, 4, 1).unwrap();
        let (like, other) = (mine.layout().shape().to_vec(), first.other());
        let failed = mine.append_with(0, 4, &like, None, |longer, from| {
            set(longer, from, from + 4, 2)?;
            open(&other).resize(&[4, 3], None)?;
            let mut theirs = open(&other);
            let like = theirs.layout().shape().to_vec();
            theirs.append_with(0, 4, &like, None, |longer, first| set(longer, first, first + 4, 3))?;
            Err(ZarrError::Interrupted)
        });
        assert!(matches!(failed, Err(ZarrError::Interrupted)), "{failed:?}");
        assert_eq!(read(&open(&first)), [1, 1, 1, 1, 3, 3, 3, 3]);
    }
}

/// Another writer is faster and loses nothing.
#[test]
fn a_resize_deletes_nothing_of_others() {
    for format in FORMATS {
        let first = Machine::new();
        let mut mine = array(&first, format, 12);
        set(&mine, 0, 12, 1).unwrap();
        // A resize was killed, so objects outside remain.
        let (_, stored) = mine.reshaped(&[6, 3]).unwrap();
        let store: Arc<dyn Store> = first.clone();
        crate::node::write_document(&store, &stored.key, &stored.document).unwrap();
        let other = first.other();
        first.meanwhile(if format == Format::V2 { ".zarray" } else { "zarr.json" }, move || {
            let mut theirs = open(&other);
            theirs.resize(&[12, 3], None).unwrap();
            set(&theirs, 6, 12, 5).unwrap();
        });
        mine.resize(&[12, 3], None).unwrap();
        assert_eq!(read(&mine), [1, 1, 1, 1, 1, 1, 5, 5, 5, 5, 5, 5]);
    }
    // Shrinking: others grow the array once the shape is stored.
    for format in FORMATS {
        let first = Machine::new();
        let mut mine = array(&first, format, 12);
        set(&mine, 0, 12, 1).unwrap();
        let other = first.other();
        first.meanwhile("deleted", move || {
            let mut theirs = open(&other);
            theirs.resize(&[12, 3], None).unwrap();
        });
        mine.resize(&[6, 3], None).unwrap();
        assert_eq!(read(&open(&first)), [1, 1, 1, 1, 1, 1, 7, 7, 7, 7, 7, 7]);
    }
}

/// Leftovers of a killed resize are overwritten, but not rows that others append meanwhile.
#[test]
fn a_resize_overwrites_nothing_of_others() {
    for format in FORMATS {
        let first = Machine::new();
        let mut mine = array(&first, format, 12);
        set(&mine, 0, 12, 1).unwrap();
        let (_, stored) = mine.reshaped(&[5, 3]).unwrap();
        let store: Arc<dyn Store> = first.clone();
        crate::node::write_document(&store, &stored.key, &stored.document).unwrap();
        let other = first.other();
        first.meanwhile(if format == Format::V2 { "/1.0" } else { "c/1/0" }, move || {
            append(&mut open(&other), 5).unwrap();
        });
        mine.resize(&[10, 3], None).unwrap();
        assert_eq!(read(&open(&first)), [1, 1, 1, 1, 1, 5, 5, 5, 7, 7]);
    }
}

#[test]
fn consolidated_metadata_keeps_what_others_change() {
    for format in FORMATS {
        let first = Machine::new();
        array(&first, format, 5);
        let store: Arc<dyn Store> = first.clone();
        let mut group = Group::open(&store, "g", None, Consolidation::Auto).unwrap();
        group.consolidate(None).unwrap();
        let other = first.other();
        let change = move || {
            let store: Arc<dyn Store> = other;
            let mut theirs = Group::open(&store, "g", None, Consolidation::Auto).unwrap();
            theirs.change_attributes(None, |all| all.set("theirs", 1u32.into())).unwrap();
        };
        first.meanwhile(if format == Format::V2 { ".zmetadata" } else { "zarr.json" }, change);
        group.delete_child("a", None).unwrap();
        let found = Group::open(&store, "g", None, Consolidation::Require).unwrap();
        assert_eq!(found.attributes().to_text(None), r#"{"theirs": 1}"#);
        assert!(found.children().unwrap().is_empty());
    }
}

#[test]
fn what_is_not_there_is_an_error() {
    for format in FORMATS {
        let first = Machine::new();
        let mut mine = array(&first, format, 5);
        let store: Arc<dyn Store> = first.clone();
        Group::open(&store, "", None, Consolidation::Auto).unwrap().delete_child("g", None).unwrap();
        let changed = mine.change_attributes(None, |all| all.set("x", 1u32.into()));
        assert!(matches!(changed, Err(ZarrError::NotFound { .. })), "{changed:?}");
        let resized = mine.resize(&[9, 3], None);
        assert!(matches!(resized, Err(ZarrError::NotFound { .. })), "{resized:?}");
        assert!(matches!(
            store.size(Key::new("g/a/zarr.json").unwrap()),
            Ok(None) | Err(StoreError::Io { .. })
        ));
    }
}
