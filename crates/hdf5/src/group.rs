//! Groups: links by name.
//!
//! An old group keeps its links in a symbol table (a version 1 B-tree and a local heap of names). A
//! new group keeps them as messages in its header. If there are many, they are in a fractal heap
//! with version 2 B-trees as indexes.

use crate::checksum::lookup3;
use crate::edit::Links;
use crate::heaps::{ALL_BLOCKS, FEW_BLOCKS};
use crate::messages::link;
use crate::trees::{btree2, symbol_table};
use crate::{Attribute, Cursor, File, Hdf5Error, Node, Purpose, Result, Source};
use std::cmp::Ordering;
use std::sync::Arc;

/// Most soft and external links followed on the way to one object. More are treated as a circle.
const MOST_LINKS: u32 = 40;

/// Record type of the B-tree of names.
const NAME_RECORD: u8 = 5;

/// The target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkTarget {
    /// The object header at this address.
    Hard(u64),
    /// A path in the same file.
    Soft(String),
    /// A path in another file.
    External {
        /// The file's name.
        file: String,
        /// The path in that file.
        path: String,
    },
    /// A target that only its writer understands (link type 65 to 255).
    UserDefined(u8),
}

/// A link of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Name of the link.
    pub name: String,
    /// Target of the link.
    pub target: LinkTarget,
    /// Creation order among the links of the group, if the group keeps it.
    pub creation_order: Option<i64>,
}

/// A group of an open file.
#[derive(Clone, Debug)]
pub struct Group {
    file: File,
    path: String,
    address: u64,
}

/// How a group stores its links.
enum Storage {
    /// In memory: the links are being changed.
    Changed(Arc<Links>),
    SymbolTable(link::SymbolTable),
    /// In the group's header.
    Compact {
        tracked: bool,
    },
    /// In the fractal heap at `heap`, indexed by the B-tree at `names`.
    Dense {
        tracked: bool,
        heap: u64,
        names: u64,
    },
}

/// Joins the path of a group and the name of a link.
pub(crate) fn join(group: &str, name: &str) -> String {
    if group.is_empty() { name.into() } else { format!("{group}/{name}") }
}

impl Group {
    pub(crate) fn new(file: File, path: String, address: u64) -> Group {
        Group { file, path, address }
    }

    /// Returns the same group, reached by another path.
    pub(crate) fn with_path(self, path: String) -> Group {
        Group { path, ..self }
    }

    /// Returns the group's file. Behind an external link it is not the file that was opened.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path in that file by which the group was reached, without the leading `/`. Empty
    /// for the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Address of the object header. Two names of the same group have the same address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the links as in h5py: sorted by creation order if the group keeps it, else by name.
    pub fn links(&self) -> Result<Vec<Link>> {
        self.file.retry_if_written(|| self.all_links()).map_err(|error| self.with_object_path(error))
    }

    fn all_links(&self) -> Result<Vec<Link>> {
        let source = self.file.source();
        self.file.foresee_links(self.address)?;
        let (mut links, tracked) = match self.storage()? {
            Storage::Changed(links) => (links.all(), links.is_tracked()),
            Storage::SymbolTable(table) => (symbol_table::entries(source, table.btree, table.heap)?, false),
            Storage::Compact { tracked } => (self.compact()?, tracked),
            Storage::Dense { tracked, heap, names } => {
                // The heap and the B-tree do not depend on each other. Fetch both together.
                source.foresee(|| {
                    drop(self.file.heap(heap).map(|heap| heap.visit(source, ALL_BLOCKS)));
                    drop(ids(source, names));
                })?;
                (self.dense(heap, &ids(source, names)?)?, tracked)
            }
        };
        match tracked {
            true => links.sort_by_key(|link| link.creation_order),
            false => links.sort_by(|a, b| a.name.cmp(&b.name)),
        }
        self.file.note_listed(self.address, &links);
        Ok(links)
    }

    /// Returns `true` if the group keeps the creation order of its links.
    pub fn tracks_links(&self) -> Result<bool> {
        let storage = self.file.retry_if_written(|| self.storage());
        Ok(match storage.map_err(|error| self.with_object_path(error))? {
            Storage::SymbolTable(_) => false,
            Storage::Changed(links) => links.is_tracked(),
            Storage::Compact { tracked } | Storage::Dense { tracked, .. } => tracked,
        })
    }

    /// Returns the link with this name.
    pub fn link(&self, name: &str) -> Result<Option<Link>> {
        self.file.retry_if_written(|| self.find(name)).map_err(|error| self.with_object_path(error))
    }

    fn find(&self, name: &str) -> Result<Option<Link>> {
        let source = self.file.source();
        let named = |links: Vec<Link>| links.into_iter().find(|link| link.name == name);
        // The stored name may not be UTF-8. Then a search for the bytes of `name` would not find
        // it.
        if name.contains("\\x") {
            return self.all_links().map(named);
        }
        match self.storage()? {
            Storage::Changed(links) => Ok(links.get(name).cloned()),
            Storage::SymbolTable(table) => symbol_table::find(source, table.btree, table.heap, name),
            Storage::Compact { .. } => self.compact().map(named),
            Storage::Dense { heap, names, .. } => {
                let hash = lookup3(name.as_bytes());
                let find = || {
                    let mut ids = Vec::new();
                    let mut compare = |record: &mut Cursor<'_>| Ok::<Ordering, _>(record.u32()?.cmp(&hash));
                    btree2::find(source, names, NAME_RECORD, &mut compare, &mut |record| {
                        record.skip(4)?;
                        ids.push(record.take_rest().to_vec());
                        Ok(())
                    })?;
                    Ok::<_, Hdf5Error>(ids)
                };
                // The heap and the B-tree do not depend on each other. Fetch both together.
                source.foresee(|| {
                    drop(self.file.heap(heap).map(|heap| heap.visit(source, FEW_BLOCKS)));
                    drop(find());
                })?;
                self.dense(heap, &find()?).map(named)
            }
        }
    }

    fn storage(&self) -> Result<Storage> {
        if let Some(links) = self.file.inner.edits.as_ref().and_then(|edits| edits.links(self.address)) {
            return Ok(Storage::Changed(links));
        }
        let header = self.file.header(self.address)?;
        if let Some(table) = self.file.message(&header, link::SYMBOL_TABLE_KIND, link::SymbolTable::parse)? {
            return Ok(Storage::SymbolTable(table));
        }
        let info = self.file.message(&header, link::INFO_KIND, link::LinkInfo::parse)?;
        match info.map(|info| (info.tracked, info.heap, info.names)) {
            Some((tracked, None, _)) => Ok(Storage::Compact { tracked }),
            Some((tracked, Some(heap), Some(names))) => Ok(Storage::Dense { tracked, heap, names }),
            Some(_) => Err(self
                .file
                .source()
                .invalid("its link info message has a fractal heap, but no B-tree of the names")),
            None => Err(self
                .file
                .source()
                .invalid(format!("the object at address {} is not a group", self.address))),
        }
    }

    /// Reads the links in the header.
    fn compact(&self) -> Result<Vec<Link>> {
        let header = self.file.header(self.address)?;
        header.messages(link::KIND).map(|message| self.file.parse(message, Link::parse)).collect()
    }

    /// Reads the links with these ids in the heap.
    fn dense(&self, heap: u64, ids: &[Vec<u8>]) -> Result<Vec<Link>> {
        let source = self.file.source();
        let at = heap;
        let heap = self.file.heap(heap)?;
        source.foresee(|| ids.iter().for_each(|id| drop(heap.get(source, id))))?;
        let link = |id: &Vec<u8>| {
            source.go_on()?;
            let bytes = heap.get(source, id)?;
            Link::parse(&mut source.cursor(&bytes, at))
                .map_err(|why| source.structure_error("link message", at, why))
        };
        ids.iter().map(link).collect()
    }

    /// Returns the object at a path from this group, or from the root if it starts with `/`.
    ///
    /// Follows links. Fails with [`Hdf5Error::NotFound`] if there is no such object, or if links
    /// lead nowhere or in a circle.
    pub fn child(&self, path: &str) -> Result<Node> {
        self.resolve(path, &mut { MOST_LINKS })
    }

    /// Like [`Group::child`], over at most `links` soft and external links.
    fn resolve(&self, path: &str, links: &mut u32) -> Result<Node> {
        let start = if path.starts_with('/') { self.file.root()? } else { self.clone() };
        let mut node = Node::Group(start);
        for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
            let missing = |why| Hdf5Error::NotFound {
                file: self.file.source().name(),
                path: path.into(),
                why: Some(why),
            };
            let Node::Group(group) = &node else {
                return Err(missing(format!("the object before '{name}' is not a group")));
            };
            let link = group
                .link(name)?
                .ok_or_else(|| missing(format!("'/{}' has no link '{name}'", group.path)))?;
            let place = join(&group.path, name);
            if !matches!(link.target, LinkTarget::Hard(_)) {
                *links = links.checked_sub(1).ok_or_else(|| {
                    missing(format!("its path follows more than {MOST_LINKS} soft or external links"))
                })?;
            }
            node = match link.target {
                LinkTarget::Hard(address) => group.file.object_at(address, &place)?,
                // The target of a soft link gets the path of the link, as in h5py.
                LinkTarget::Soft(target) => group.resolve(&target, links)?.with_path(&group.file, place),
                LinkTarget::External { file, path: target } => {
                    let other = group
                        .file
                        .open_other(&file, Purpose::Link)
                        .map_err(|error| error.with_object_path(&format!("/{place}")))?;
                    let other = other.ok_or_else(|| {
                        missing(format!(
                            "'{place}' is an external link to the file '{file}', which does not exist"
                        ))
                    })?;
                    other.root()?.resolve(&target, links)?
                }
                LinkTarget::UserDefined(kind) => {
                    let error = group.file.source().unsupported(format!("the user-defined link type {kind}"));
                    return Err(error.with_object_path(&format!("/{place}")));
                }
            };
        }
        Ok(node)
    }

    /// Returns the attributes, sorted by creation order if the object keeps it, else by name.
    pub fn attributes(&self) -> Result<Vec<Attribute>> {
        self.file.attributes(self.address).map_err(|error| self.with_object_path(error))
    }

    /// Returns the attribute with this name. Reads no other attributes.
    pub fn attribute(&self, name: &str) -> Result<Option<Attribute>> {
        self.file.attribute(self.address, name).map_err(|error| self.with_object_path(error))
    }

    /// Returns `true` if there is an attribute with this name, even if its value cannot be read.
    pub fn has_attribute(&self, name: &str) -> Result<bool> {
        self.file.has_attribute(self.address, name).map_err(|error| self.with_object_path(error))
    }

    fn with_object_path(&self, error: Hdf5Error) -> Hdf5Error {
        error.with_object_path(&format!("/{}", self.path))
    }
}

/// Returns the heap ids of all links in the B-tree at `names`.
fn ids(source: &Source, names: u64) -> Result<Vec<Vec<u8>>> {
    let mut ids = Vec::new();
    btree2::records(source, names, NAME_RECORD, &mut |record| {
        // Hash of the name.
        record.skip(4)?;
        ids.push(record.take_rest().to_vec());
        Ok(())
    })?;
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileOptions;
    use crate::testing::{
        Builder, Others, dataset, hard, link, link_info, open, says, soft, structure, the_dataset,
    };
    use hyperslab_store::{Key, Store};
    use std::sync::Arc;

    /// `/d`, `/g/e` (the same dataset), `/g/up` (the root), and soft links.
    fn example() -> Vec<u8> {
        let mut builder = Builder::new();
        let data = builder.header(&dataset(&[], vec![3, 0, 2, 0, 7, 0]));
        let add_group = |builder: &mut Builder, root| {
            let links = [hard("e", data), hard("up", root), soft("same", "e"), soft("top", "/d")];
            builder.header(&[&[link_info(false)], &links[..]].concat())
        };
        // The root's header comes after the header of `g`. Build a copy to find its address.
        let mut rehearsal = builder.clone();
        add_group(&mut rehearsal, 0);
        let root = rehearsal.put(&[]);
        let group = add_group(&mut builder, root);
        let links = [
            link_info(false),
            hard("g", group),
            hard("d", data),
            soft("s", "./g//same"),
            soft("a", "b"),
            soft("b", "/a"),
            soft("none", "g/x"),
            soft("through", "d/x"),
        ];
        assert_eq!(builder.header(&links), root);
        builder.finish(root, 2, 0)
    }

    fn path(node: Result<Node>) -> Result<String, String> {
        match node {
            Ok(Node::Group(group)) => Ok(format!("group {}", group.path())),
            Ok(Node::Dataset(dataset)) => Ok(dataset.path().to_owned()),
            Ok(Node::Datatype(datatype)) => Ok(format!("datatype {}", datatype.path)),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn paths() {
        let file = open(&example()).unwrap();
        let names =
            |group: &Group| group.links().unwrap().into_iter().map(|link| link.name).collect::<Vec<_>>();
        let root = file.root().unwrap();
        assert_eq!(names(&root), ["a", "b", "d", "g", "none", "s", "through"]);
        for (from, to) in [
            ("d", "d"),
            ("/g/e/", "g/e"),
            ("g/./up/g/e", "g/up/g/e"),
            ("s", "s"),
            ("g/same", "g/same"),
            ("g/top", "g/top"),
            ("", "group "),
            ("/", "group "),
            ("g", "group g"),
        ] {
            assert_eq!(path(file.node(from)).as_deref(), Ok(to), "{from}");
        }
        let Node::Group(group) = file.node("g").unwrap() else { panic!("no group") };
        assert_eq!(path(group.child("/d")).as_deref(), Ok("d"));
        assert_eq!(path(group.child("e")).as_deref(), Ok("g/e"));
        for (from, why) in [
            ("x", "has no link 'x'"),
            ("a", "follows more than 40 soft or external links"),
            ("none", "'/g' has no link 'x'"),
            ("d/x", "the object before 'x' is not a group"),
            ("through", "the object before 'x' is not a group"),
        ] {
            says(format!("{from}: {}", path(file.node(from)).unwrap_err()), why);
        }
        assert_eq!(root.link("s").unwrap().unwrap().target, LinkTarget::Soft("./g//same".into()));
        assert_eq!(root.link("x").unwrap(), None);
    }

    #[test]
    fn objects_have_a_first_path() {
        let file = open(&example()).unwrap();
        let address = |path: &str| match file.node(path).unwrap() {
            Node::Group(group) => group.address(),
            Node::Dataset(dataset) => dataset.address(),
            Node::Datatype(_) => panic!("no address"),
        };
        for (from, first) in [("g/e", "d"), ("g/up", ""), ("g/up/g", "g")] {
            assert_eq!(file.path_of(address(from)).unwrap().as_deref(), Some(first));
        }
        assert_eq!(file.path_of(3).unwrap(), None);
    }

    #[test]
    fn creation_order() {
        let mut builder = Builder::new();
        let link = |name: &str, created: u8| {
            let head = structure!([1, 0x0c, 1, created], [0; 7], name.len() as u8);
            (link::KIND, structure!(head, name.as_bytes(), [1, 0, b'x']))
        };
        let links = [link("b", 2), link("c", 0), link("a", 1)];
        let groups = [true, false].map(|tracked| {
            let all: Vec<_> = std::iter::once(link_info(tracked)).chain(links.clone()).collect();
            builder.header(&all)
        });
        let file = open(&builder.finish(groups[0], 3, 0)).unwrap();
        for (address, expected) in groups.into_iter().zip([["c", "a", "b"], ["a", "b", "c"]]) {
            let Node::Group(group) = file.object_at(address, "g").unwrap() else { panic!("no group") };
            let names: Vec<_> = group.links().unwrap().into_iter().map(|link| link.name).collect();
            assert_eq!(names, expected);
        }
    }

    #[test]
    fn links_to_other_files() {
        let others = Arc::new(Others::default());
        let store = others.store.clone();
        let external =
            |name: &str, file: &str, target: &str| link(name, 64, &format!("\0{file}\0{target}\0"));
        let mut builder = Builder::new();
        let links = [
            link_info(false),
            external("e", "other", "/g"),
            external("none", "missing", "/"),
            external("circle", "f", "/circle"),
            soft("s", "e/e"),
        ];
        let root = builder.header(&links);
        store.write(Key::new("f").unwrap(), &[&builder.finish(root, 2, 0)]).unwrap();
        store.write(Key::new("other").unwrap(), &[&example()]).unwrap();

        let options = FileOptions { verify: true, others: Some(others) };
        let file = File::open(store.clone(), "f", options).unwrap();
        assert_eq!(path(file.node("e")).unwrap(), "group g");
        assert_eq!(path(file.node("e/top")).unwrap(), "g/top");
        // A target in another file keeps its path there.
        let dataset = the_dataset(&file, "s").unwrap();
        assert_eq!((dataset.path(), dataset.file().source().key()), ("g/e", "other"));
        assert!(file.open_other("other", Purpose::Link).unwrap().unwrap().is(dataset.file()), "opened once");
        for (from, why) in [
            ("none", "the file 'missing', which does not exist"),
            ("circle", "follows more than 40 soft or external links"),
        ] {
            says(path(file.node(from)).unwrap_err(), why);
        }
        let closed = File::open(store, "f", FileOptions::default()).unwrap();
        assert!(matches!(closed.node("e"), Err(Hdf5Error::Refused { .. })));
    }
}
