//! Checks all structures of a file: everything that the root group leads to is read and verified.
//!
//! A fault does not end the check: it is noted, and the other objects are checked. Chunks are located,
//! but not decoded. The ranges of chunks and of runs of elements must lie in the file, and must not
//! share bytes with each other or with structures (`space`). References must lead somewhere
//! (`references`).

mod references;
mod space;

use crate::data_layout::DataLayout;
use crate::dataspace::Dataspace;
use crate::group::join;
use crate::index::place;
use crate::source::Structure;
use crate::{Attribute, Dataset, File, Group, Hdf5Error, LinkTarget, Node, Result};
use hyperslab_array::Dims;
use references::References;
use space::Space;
use std::collections::HashSet;

/// An object that the check reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedObject {
    /// A path that leads there, without the leading `/`.
    pub path: String,
    /// Address of the object header.
    pub address: u64,
    /// The kind of the object.
    pub kind: CheckedKind,
}

/// The kind of an object that the check reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckedKind {
    /// A group.
    Group,
    /// A dataset.
    Dataset,
    /// A committed datatype.
    Datatype,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A structure is damaged.
    Structure,
    /// A feature is not supported, so that nothing can be said.
    Unsupported,
    /// The store could not read bytes of the file.
    Unreadable,
    /// A range of elements is not inside the file.
    OutOfFile,
    /// Two ranges share bytes.
    Overlap,
    /// Bytes that nothing refers to.
    Unreferenced,
    /// A link leads nowhere.
    DanglingLink,
    /// A reference leads to no object.
    DanglingReference,
    /// A file with elements, or the target of an external link, does not exist.
    MissingFile,
    /// A link to another file was not followed.
    NotFollowed,
    /// A group is a member of itself.
    Circle,
}

/// A fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// Path of the object, without the leading `/`.
    pub path: String,
    /// Index of the chunk, if a chunk is concerned.
    pub chunk: Option<Vec<u64>>,
    /// Address of the bytes at fault, if they are known.
    pub address: Option<u64>,
    /// The fault, in words.
    pub why: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// All objects that can be opened, each once.
    pub objects: Vec<CheckedObject>,
    /// All faults, in the order in which they were found.
    pub faults: Vec<Fault>,
    /// Bytes of chunks and of runs of elements.
    pub element_bytes: u64,
}

/// Checks a file. Fails with [`Hdf5Error::Interrupted`].
pub fn check(file: &File) -> Result<Checked> {
    // Structures that were parsed before would not be noted.
    let fresh = space::recording(file)?;
    let notes = fresh.is_some();
    let file = fresh.as_ref().unwrap_or(file);
    let mut check = Check {
        file,
        found: Checked::default(),
        space: Space::default(),
        seen: HashSet::new(),
        references: References::default(),
        notes,
    };
    check.objects()?;
    // A group that cannot be read hides its members.
    let hides = |fault: &Fault| {
        matches!(fault.kind, FaultKind::Structure | FaultKind::Unsupported | FaultKind::Unreadable)
    };
    let whole = !check.found.faults.iter().any(hides);
    check.dangling_references(whole);
    check.overlaps();
    if whole
        && notes
        && let Err(error) = check.unreferenced()
    {
        check.fail("", error)?;
    }
    Ok(check.found)
}

struct Check<'f> {
    file: &'f File,
    found: Checked,
    space: Space,
    seen: HashSet<u64>,
    references: References,
    /// Structures are noted when they are read.
    notes: bool,
}

/// An object to visit.
struct Waiting {
    address: u64,
    path: String,
    /// Addresses of the groups above.
    above: Vec<u64>,
}

impl Check<'_> {
    fn objects(&mut self) -> Result<()> {
        let root = self.file.inner.superblock.root;
        let mut waiting = vec![Waiting { address: root, path: String::new(), above: Vec::new() }];
        while let Some(Waiting { address, path, above }) = waiting.pop() {
            if above.contains(&address) {
                let why = "a hard link leads to a group above: the members have endless paths".to_owned();
                self.note(FaultKind::Circle, &path, Some(address), why);
            }
            if !self.seen.insert(address) {
                continue;
            }
            self.file.source().go_on()?;
            let object = match self.file.object_at(address, &path) {
                Ok(object) => object,
                Err(error) => {
                    self.fail(&path, error)?;
                    continue;
                }
            };
            let kind = match object {
                Node::Group(_) => CheckedKind::Group,
                Node::Dataset(_) => CheckedKind::Dataset,
                Node::Datatype(_) => CheckedKind::Datatype,
            };
            self.found.objects.push(CheckedObject { path: path.clone(), address, kind });
            match object {
                Node::Group(group) => {
                    let members = self.group(&group, &path)?;
                    let above = [above, vec![address]].concat();
                    waiting.extend(members.into_iter().rev().map(|(address, path)| Waiting {
                        address,
                        path,
                        above: above.clone(),
                    }));
                }
                Node::Dataset(dataset) => self.dataset(&dataset, &path)?,
                Node::Datatype(datatype) => self.attributes(&datatype.attributes, &path)?,
            }
            self.structures(address, &path)?;
        }
        Ok(())
    }

    /// Notes the bytes of an object header, and of everything else that was read for the object.
    fn structures(&mut self, address: u64, path: &str) -> Result<()> {
        let object = self.found.objects.len().saturating_sub(1);
        if self.notes {
            self.space.note(self.file.source().take_record(), object);
            return Ok(());
        }
        let header = match self.file.header(address) {
            Ok(header) => header,
            Err(error) => return self.fail(path, error),
        };
        // The length of the prefix depends on the version: without it, the range is a little short.
        let blocks = [(address, header.prefix.block)].into_iter().chain(header.blocks.iter().copied());
        let name = "object header";
        self.space
            .note(blocks.map(|(address, len)| Structure { name, address, len, room: len }).collect(), object);
        Ok(())
    }

    /// Checks the links and attributes of a group. Returns the targets of its hard links.
    fn group(&mut self, group: &Group, path: &str) -> Result<Vec<(u64, String)>> {
        match group.attributes() {
            Ok(attributes) => self.attributes(&attributes, path)?,
            Err(error) => self.fail(path, error)?,
        }
        let links = match group.links() {
            Ok(links) => links,
            Err(error) => {
                self.fail(path, error)?;
                return Ok(Vec::new());
            }
        };
        let mut members = Vec::new();
        for link in links {
            self.file.source().go_on()?;
            let place = join(path, &link.name);
            // A listing does not need what a search by name needs: the keys of B-trees.
            match group.link(&link.name) {
                Ok(Some(found)) if found.target == link.target => {}
                Ok(_) => {
                    let why = format!("a search for the name '{}' does not find the link", link.name);
                    self.note(FaultKind::Structure, path, None, why);
                }
                Err(error) => self.fail(path, error)?,
            }
            let target = match &link.target {
                LinkTarget::Hard(address) => {
                    members.push((*address, place));
                    continue;
                }
                LinkTarget::Soft(target) => format!("soft link to '{target}'"),
                LinkTarget::External { file, path } => format!("external link to '{path}' in '{file}'"),
                LinkTarget::UserDefined(kind) => {
                    let why = format!("a link of the user-defined type {kind}");
                    self.note(FaultKind::Unsupported, &place, None, why);
                    continue;
                }
            };
            match group.child(&link.name) {
                Ok(_) => {}
                Err(error @ Hdf5Error::Refused { .. }) => {
                    self.note(FaultKind::NotFollowed, &place, None, error.to_string());
                }
                Err(Hdf5Error::NotFound { why, .. }) => {
                    let kind = match link.target {
                        LinkTarget::External { .. } => FaultKind::MissingFile,
                        _ => FaultKind::DanglingLink,
                    };
                    let why = why.map_or(String::new(), |why| format!(": {why}"));
                    self.note(kind, &place, None, format!("{target} leads nowhere{why}"));
                }
                // The target is damaged: it is reported at its own path, if it is in this file.
                Err(error) => {
                    if matches!(error, Hdf5Error::Interrupted { .. }) {
                        return Err(error);
                    }
                    if matches!(link.target, LinkTarget::External { .. }) {
                        self.fail(&place, error)?;
                    }
                }
            }
        }
        Ok(members)
    }

    fn dataset(&mut self, dataset: &Dataset, path: &str) -> Result<()> {
        match dataset.attributes() {
            Ok(attributes) => self.attributes(&attributes, path)?,
            Err(error) => self.fail(path, error)?,
        }
        let object = self.found.objects.len().saturating_sub(1);
        let before = self.found.faults.len();
        match dataset.data_layout() {
            DataLayout::Compact { .. } => {}
            DataLayout::Contiguous { address, size } => {
                let count = dataset.dataspace().count().unwrap_or(0);
                let bytes = count.saturating_mul(dataset.datatype().size.into());
                let bytes = size.map_or(bytes, |size| size.max(bytes));
                if let Some(start) = address.filter(|_| bytes > 0 && dataset.external_files().is_empty()) {
                    self.elements(path, object, None, (start, bytes));
                }
            }
            DataLayout::Chunked(_) => match dataset.stored_index() {
                Ok(Some(index)) => {
                    for record in &index.records {
                        let chunk: Dims = place(record.number, &index.counts).into();
                        self.elements(path, object, Some(chunk), (record.address, record.size));
                    }
                }
                Ok(None) => {}
                Err(error) => self.fail(path, error)?,
            },
            DataLayout::Virtual { .. } => {
                if let Err(error) = dataset.virtual_sources() {
                    self.fail(path, error)?;
                }
            }
        }
        // A null dataspace has no elements, and no layout. A fault that was named would be named again.
        if self.found.faults.len() == before
            && !matches!(dataset.dataspace(), Dataspace::Null)
            && let Err(error) = dataset.layout()
        {
            self.fail(path, error)?;
        }
        self.uses_type(dataset.committed_type());
        self.dataset_references(dataset, path)
    }

    /// Checks that a range of elements is in the file.
    fn elements(&mut self, path: &str, object: usize, chunk: Option<Dims>, (start, len): (u64, u64)) {
        self.found.element_bytes = self.found.element_bytes.saturating_add(len);
        let file_end = self.file.source().end();
        match start.checked_add(len).filter(|end| *end <= file_end) {
            Some(end) => self.space.elements(start..end, object, chunk),
            None => self.found.faults.push(Fault {
                kind: FaultKind::OutOfFile,
                path: path.to_owned(),
                chunk: chunk.map(|chunk| chunk.to_vec()),
                address: Some(start),
                why: format!("{len} bytes from address {start} are not inside the file's {file_end}"),
            }),
        }
    }

    fn attributes(&mut self, attributes: &[Attribute], path: &str) -> Result<()> {
        for attribute in attributes {
            self.file.source().go_on()?;
            if let Err(error) = attribute.value() {
                self.fail(path, error)?;
                continue;
            }
            self.uses_type(attribute.committed);
            self.attribute_references(attribute, path)?;
        }
        Ok(())
    }

    fn note(&mut self, kind: FaultKind, path: &str, address: Option<u64>, why: String) {
        self.found.faults.push(Fault { kind, path: path.to_owned(), chunk: None, address, why });
    }

    /// Notes an error. Fails if the check was interrupted.
    fn fail(&mut self, path: &str, error: Hdf5Error) -> Result<()> {
        let (kind, address) = match &error {
            Hdf5Error::Interrupted { .. } => return Err(error),
            Hdf5Error::Unsupported { .. } => (FaultKind::Unsupported, None),
            Hdf5Error::Refused { .. } => (FaultKind::NotFollowed, None),
            Hdf5Error::NoData { .. } => (FaultKind::MissingFile, None),
            Hdf5Error::Store(_) => (FaultKind::Unreadable, None),
            Hdf5Error::Parse { address, .. } | Hdf5Error::Incomplete { address, .. } => {
                (FaultKind::Structure, Some(*address))
            }
            _ => (FaultKind::Structure, None),
        };
        let why = error.to_string();
        // A damaged structure may be met by several ways.
        let known = |fault: &Fault| fault.path == path && fault.why == why;
        if !self.found.faults.iter().rev().take(8).any(known) {
            self.note(kind, path, address, why);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Builder, contiguous_message, dataset, hard, link_info, open, soft};

    fn kinds(found: &Checked) -> Vec<(FaultKind, &str)> {
        found.faults.iter().map(|fault| (fault.kind, fault.path.as_str())).collect()
    }

    #[test]
    fn a_whole_file_has_no_faults() {
        let mut builder = Builder::new();
        let raw = builder.put(&[1, 0, 2, 0, 3, 0]);
        let data = builder.header(&dataset(&[3], contiguous_message(raw, 6)));
        let root = builder.header(&[link_info(false), hard("d", data), hard("e", data), soft("s", "/d")]);
        let found = check(&open(&builder.finish(root, 2, 0)).unwrap()).unwrap();
        assert_eq!(kinds(&found), []);
        let paths: Vec<_> = found.objects.iter().map(|object| (object.path.as_str(), object.kind)).collect();
        assert_eq!(paths, [("", CheckedKind::Group), ("d", CheckedKind::Dataset)]);
        assert_eq!(found.element_bytes, 6);
    }

    #[test]
    fn faults_are_named_and_the_others_go_on() {
        let mut builder = Builder::new();
        let raw = builder.put(&[1, 0, 2, 0, 3, 0, 0, 0]);
        let good = builder.header(&dataset(&[3], contiguous_message(raw, 6)));
        let shared = builder.header(&dataset(&[2], contiguous_message(raw + 4, 4)));
        let far = builder.header(&dataset(&[3], contiguous_message(1 << 40, 6)));
        let no_object = builder.put(b"OHDR\x02xxxxxxxxxxxxxxxxxxxxxxx");
        let mut root_links = vec![link_info(false), hard("a", no_object), hard("b", good)];
        root_links.extend([hard("c", shared), hard("d", far), soft("e", "/nowhere")]);
        let root = builder.header(&root_links);
        let found = check(&open(&builder.finish(root, 2, 0)).unwrap()).unwrap();
        assert_eq!(
            kinds(&found),
            [
                (FaultKind::DanglingLink, "e"),
                (FaultKind::Structure, "a"),
                (FaultKind::OutOfFile, "d"),
                (FaultKind::Overlap, "c"),
            ]
        );
        assert_eq!(found.faults[2].address, Some(1 << 40));
        assert!(found.faults[3].why.contains("'/b'"), "{}", found.faults[3].why);
        assert_eq!(found.objects.len(), 4);
    }

    #[test]
    fn circles_end() {
        let mut builder = Builder::new();
        let mut rehearsal = builder.clone();
        let group = |builder: &mut Builder, root| builder.header(&[link_info(false), hard("up", root)]);
        group(&mut rehearsal, 0);
        let root = rehearsal.put(&[]);
        let below = group(&mut builder, root);
        assert_eq!(builder.header(&[link_info(false), hard("g", below)]), root);
        let found = check(&open(&builder.finish(root, 2, 0)).unwrap()).unwrap();
        assert_eq!(kinds(&found), [(FaultKind::Circle, "g/up")]);
    }
}
