//! A file that is opened for changes and changed: an attribute for every object, a link for every
//! group, the elements and the shape of every dataset, a deleted link.
//!
//! Each change is an error or is found afterwards. Everything that was read before and was not
//! changed must be equal afterwards. Everything else is a bug: panics, hangs, large allocations.

#![no_main]

use hyperslab::hdf5::dataspace::Dataspace;
use hyperslab::hdf5::datatype::Datatype;
use hyperslab::hdf5::edit::Editing;
use hyperslab::hdf5::element::ElementKind;
use hyperslab::hdf5::new_file::{NewAttribute, NewKind, NewObject, ValuePart};
use hyperslab::hdf5::{Attribute, File, FileOptions, Libver, LinkTarget, Node};
use hyperslab::store::EditedFile;
use hyperslab::{Array, DataFile, ReadOptions, Selection, Source, WriteOptions, settings};
use hyperslab_fuzz::store;
use libfuzzer_sys::fuzz_target;
use std::collections::{BTreeMap, HashSet};

/// The largest dataset in bytes that is read and written.
const SMALL: usize = 1 << 20;
/// The largest number of objects to visit.
const MOST: usize = 200;
/// The names of the new attributes, links and groups.
const NAME: &str = "~fuzz";
const LINK: &str = "~link";
const GROUP: &str = "~group";

fuzz_target!(|bytes: &[u8]| {
    for verify in [true, false] {
        settings::set_verify_checksums(verify);
        edit(bytes, verify);
    }
});

/// The contents of an object. `None`: this part could not be read.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    attributes: Option<Vec<(String, Vec<u8>)>>,
    links: Option<Vec<(String, LinkTarget)>>,
    shape: Vec<u64>,
    elements: Option<Vec<u8>>,
}

/// The changes of an object that succeeded.
#[derive(Debug, Default)]
struct Done {
    attribute: bool,
    link: bool,
    group: bool,
    /// The link that was to be deleted, and whether that succeeded. The link may be gone although
    /// its object turns out to be damaged.
    deleted: Option<(String, bool)>,
    /// The shape of a dataset that could not be made as small as it was.
    shape: Option<Vec<u64>>,
    /// Elements that are not numbers, as they are read after they were written: text ends at a NUL.
    elements: Option<Vec<u8>>,
}

fn open(bytes: &[u8], verify: bool) -> hyperslab::hdf5::Result<File> {
    File::open(store(&[("f", bytes)]), "f", FileOptions { verify, others: None })
}

fn edit(bytes: &[u8], verify: bool) {
    let Ok(before) = open(bytes, verify) else { return };
    let before = walk(&before);
    let Ok(data) = DataFile::edit_hdf5(EditedFile::memory(bytes.to_vec()), Libver::Earliest) else { return };
    let Some(editing) = data.as_hdf5().and_then(File::editing) else { return };
    let mut all = BTreeMap::new();
    for (path, address) in objects(editing.file()) {
        if before.contains_key(&path) {
            all.insert(path.clone(), (address, change(&data, &editing, &path, address)));
        }
    }
    let flushed = editing.flush().and_then(|()| editing.flush()).and_then(|()| editing.close());
    let mut changed = vec![0; editing.bytes().len().unwrap_or_default() as usize];
    editing.bytes().read_at(0, &mut changed).expect("bytes in memory are read");
    let after = open(&changed, verify).expect("a changed file opens");
    check(&before, &walk(&after), &all, flushed.is_ok());
}

/// The paths of all objects, and the addresses of their headers.
fn objects(file: &File) -> Vec<(String, u64)> {
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    let mut waiting: Vec<Node> = file.root().map(Node::Group).into_iter().collect();
    while let Some(node) = waiting.pop() {
        let (path, address) = match &node {
            Node::Group(group) => (group.path().to_owned(), group.address()),
            Node::Dataset(dataset) => (dataset.path().to_owned(), dataset.address()),
            Node::Datatype(named) => (named.path.clone(), named.address),
        };
        if seen.len() > MOST || !seen.insert(address) {
            continue;
        }
        found.push((path, address));
        if let Node::Group(group) = &node {
            for link in group.links().unwrap_or_default() {
                if matches!(link.target, LinkTarget::Hard(_)) {
                    waiting.extend(group.child(&link.name));
                }
            }
        }
    }
    found
}

fn attributes(found: Option<Vec<Attribute>>) -> Option<Vec<(String, Vec<u8>)>> {
    Some(found?.into_iter().map(|one| (one.name, one.data.to_vec())).collect())
}

/// Everything that can be read of a file, by path.
fn walk(file: &File) -> BTreeMap<String, Seen> {
    let mut found = BTreeMap::new();
    for (path, address) in objects(file) {
        let Ok(node) = file.object_at(address, &path) else { continue };
        let mut seen = Seen::default();
        match node {
            Node::Group(group) => {
                seen.attributes = attributes(group.attributes().ok());
                let links = group.links().ok();
                seen.links =
                    links.map(|links| links.into_iter().map(|link| (link.name, link.target)).collect());
            }
            Node::Dataset(dataset) => {
                seen.attributes = attributes(dataset.attributes().ok());
                seen.shape = dataset.dataspace().shape().to_vec();
                if let Ok(layout) = dataset.layout()
                    && bytes_of(layout.shape(), layout.dtype().size()).is_some_and(|bytes| bytes <= SMALL)
                {
                    let all = Selection::all(layout.shape());
                    let read = hyperslab::array::read(&layout, &all, ReadOptions::default());
                    seen.elements = read.ok().map(|memory| memory.as_slice().to_vec());
                }
            }
            Node::Datatype(named) => seen.attributes = attributes(Some(named.attributes)),
        }
        found.insert(path, seen);
    }
    found
}

fn bytes_of(shape: &[u64], size: usize) -> Option<usize> {
    shape.iter().try_fold(size, |bytes, n| bytes.checked_mul(usize::try_from(*n).ok()?))
}

fn change(data: &DataFile, editing: &Editing, path: &str, address: u64) -> Done {
    let mut done = Done::default();
    let value = NewAttribute {
        name: NAME.into(),
        datatype: Datatype::of_numpy("<u2".parse().expect("a type")).expect("a type of HDF5"),
        dataspace: Dataspace::Scalar,
        value: vec![ValuePart::Bytes(vec![5, 7])],
    };
    done.attribute = editing.set_attribute(address, &value).is_ok();
    match editing.file().object_at(address, path) {
        Ok(Node::Group(group)) => {
            let first = group.links().ok().and_then(|links| links.first().map(|link| link.name.clone()));
            done.link = editing.link(address, LINK, LinkTarget::Soft("/".into())).is_ok();
            let kind = NewKind::Group { links: Vec::new(), tracks_links: false };
            let new =
                NewObject { path: GROUP.into(), kind, attributes: Vec::new(), tracks_attributes: false };
            done.group = editing
                .create_object(&new)
                .and_then(|new| editing.link(address, GROUP, LinkTarget::Hard(new)))
                .is_ok();
            // Only some groups lose a link, so that the others can be compared.
            if path.len() % 3 == 2
                && let Some(name) = first
            {
                let is_gone = editing.unlink(address, &name).is_ok();
                done.deleted = Some((name, is_gone));
            }
        }
        Ok(Node::Dataset(_)) => {
            if let Ok(hyperslab::Node::Array(array)) = data.open(path) {
                done.shape = write(array, &mut done.elements);
            }
        }
        _ => {}
    }
    done
}

/// Writes the elements that are there, and makes the array longer and shorter.
///
/// Returns the shape if it is another one: chunks at the edge that cannot be read cannot be cut.
fn write(mut array: Array, written: &mut Option<Vec<u8>>) -> Option<Vec<u64>> {
    let (shape, size) = (array.shape().to_vec(), array.dtype().size());
    if bytes_of(&shape, size).is_none_or(|bytes| bytes > SMALL) {
        return None;
    }
    let all = Selection::all(&shape);
    if let Ok(memory) = array.read(&all, ReadOptions::default())
        && let Some(source) = Source::dense(memory.as_slice(), &shape, size)
    {
        let is_done = array.write(&all, &source, WriteOptions::default()).is_ok();
        let is_number = |kind: &ElementKind| matches!(kind, ElementKind::Plain(_));
        if is_done && !array.as_hdf5().is_some_and(|dataset| is_number(&dataset.element().kind)) {
            let read = array.read(&all, ReadOptions::default());
            *written = read.ok().map(|memory| memory.as_slice().to_vec());
        }
    }
    let longer: Vec<u64> = shape.iter().map(|n| n.saturating_add(1)).collect();
    if array.resize(&longer, None).is_ok() {
        // Back, so that the elements can be compared.
        return array.resize(&shape, None).is_err().then_some(longer);
    }
    None
}

fn check(
    before: &BTreeMap<String, Seen>,
    after: &BTreeMap<String, Seen>,
    all: &BTreeMap<String, (u64, Done)>,
    flushed: bool,
) {
    let is_deleted = |path: &str| {
        all.iter().any(|(group, (_, done))| {
            done.deleted.as_ref().is_some_and(|(name, _)| {
                let gone = if group.is_empty() { name.clone() } else { format!("{group}/{name}") };
                path == gone || path.starts_with(&format!("{gone}/"))
            })
        })
    };
    for (path, old) in before {
        if is_deleted(path) {
            continue;
        }
        let Some(new) = after.get(path) else {
            // A second path to the same object may be found first.
            continue;
        };
        let done = all.get(path).map(|(_, done)| done);
        if let Some(attributes) = &old.attributes {
            let new = new.attributes.as_ref().unwrap_or_else(|| panic!("'{path}' lost its attributes"));
            for one in attributes.iter().filter(|(name, _)| name != NAME) {
                assert!(new.contains(one), "'{path}' lost {one:?}");
            }
            if flushed && done.is_some_and(|done| done.attribute) {
                assert!(new.contains(&(NAME.into(), vec![5, 7])), "'{path}' has no new attribute");
            }
        }
        if let Some(links) = &old.links {
            let new = new.links.as_ref().unwrap_or_else(|| panic!("'{path}' lost its links"));
            let deleted = done.and_then(|done| done.deleted.as_ref());
            for link in links.iter().filter(|(name, _)| deleted.is_none_or(|(gone, _)| gone != name)) {
                assert!(new.contains(link), "'{path}' lost {link:?}");
            }
            let has = |name: &str| new.iter().any(|(found, _)| found == name);
            if flushed && let Some(done) = done {
                assert!(!done.link || has(LINK), "'{path}' has no new link");
                assert!(!done.group || has(GROUP), "'{path}' has no new group");
                assert!(
                    deleted.is_none_or(|(name, is_gone)| !is_gone || !has(name)),
                    "'{path}' has a deleted link"
                );
            }
        }
        let longer = done.and_then(|done| done.shape.as_ref()).filter(|_| flushed);
        assert_eq!(longer.unwrap_or(&old.shape), &new.shape, "'{path}' has another shape");
        if let Some(elements) = &old.elements
            && longer.is_none()
        {
            let new = new.elements.as_ref();
            let written = done.and_then(|done| done.elements.as_ref()).filter(|_| flushed);
            assert_eq!(new, Some(written.unwrap_or(elements)), "'{path}' has other elements");
        }
    }
}
