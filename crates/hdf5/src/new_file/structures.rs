//! The structures of a new file: headers, values of attributes, links, chunk indexes, superblock.

use super::dataset::NewIndex;
use super::group::{self, Style};
use super::value::NewPlaces;
use super::{Libver, NewKind, NewLink, NewObject, NewTarget, attribute};
use crate::Hdf5Error;
use crate::datatype;
use crate::error::{BuildError, Built};
use crate::heaps::HeapWriter;
use crate::messages::link::{self, SymbolTable};
use crate::object_header::{self, NewMessage};
use crate::superblock;

/// Bytes at the beginning of a file for its superblock.
pub fn reserved(libver: Libver) -> usize {
    match libver {
        Libver::Earliest => superblock::OLD_LEN,
        Libver::V110 => superblock::NEW_LEN,
    }
}

/// The structures of a file.
#[derive(Clone, Debug)]
pub struct Structures {
    /// All structures but the superblock. They are the end of the file.
    pub bytes: Vec<u8>,
    /// The superblock, the first bytes of the file.
    pub superblock: Vec<u8>,
    /// The address of each object's header.
    pub addresses: Vec<u64>,
}

impl Structures {
    /// Builds the structures of a file whose elements end at `start`. The root group is object 0.
    ///
    /// Fails with [`Hdf5Error::Unstorable`] if HDF5 cannot store an object. Elements need not be
    /// written yet: a first call shows whether all objects can be stored.
    pub fn build(objects: &[NewObject], start: u64, libver: Libver) -> Result<Structures, Hdf5Error> {
        let places = Places::first(objects, start, libver)?;
        let addresses = places.addresses.clone();
        let mut heap = HeapWriter::new(places.end);
        let values = each(objects, |object| Values::of(object, &addresses, &mut heap, libver))?;
        let heap = heap.finish();
        let mut end = places.end.saturating_add(heap.len() as u64);
        let mut parts: Vec<Vec<u8>> = Vec::new();
        let mut waiting = values.into_iter();
        let linked = each(objects, |object| {
            let values = waiting.next().unwrap_or_default();
            let (linked, bytes) = Linked::of(object, values, &addresses, end, libver)?;
            end = end.saturating_add(bytes.len() as u64);
            parts.push(bytes);
            Ok(linked)
        })?;
        let links = count_links(objects);
        let mut bytes = Vec::new();
        for ((object, linked), links) in objects.iter().zip(&linked).zip(links) {
            bytes
                .append(&mut header(object, linked, (links, libver)).map_err(|why| unstorable(object, why))?);
        }
        // The headers are as long as they were without addresses.
        debug_assert_eq!(start.saturating_add(bytes.len() as u64), places.end);
        bytes.extend(heap);
        parts.iter_mut().for_each(|part| bytes.append(part));
        let root = addresses.first().copied().unwrap_or(start);
        let table = linked.first().and_then(|linked| linked.table);
        let superblock = match libver {
            Libver::Earliest => superblock::build_old(0, end, root, table),
            Libver::V110 => superblock::build_new(0, end, root),
        };
        Ok(Structures { bytes, superblock, addresses })
    }
}

/// The places of headers.
struct Places {
    addresses: Vec<u64>,
    /// End of the last header.
    end: u64,
}

impl Places {
    /// Lays out headers. Their lengths do not depend on addresses.
    fn first(objects: &[NewObject], start: u64, libver: Libver) -> Result<Places, Hdf5Error> {
        let unknown = vec![0; objects.len()];
        let mut end = start;
        let mut links = count_links(objects).into_iter();
        let addresses = each(objects, |object| {
            let mut heap = HeapWriter::new(0);
            let values = Values::of(object, &unknown, &mut heap, libver)?;
            let linked = Linked::unplaced(object, values, &unknown, libver)?;
            let len = header(object, &linked, (links.next().unwrap_or(1), libver))?.len();
            let address = end;
            end = end.saturating_add(len as u64);
            Ok(address)
        })?;
        Ok(Places { addresses, end })
    }
}

/// The structures that a header leads to.
#[derive(Clone, Debug, Default)]
struct Linked {
    table: Option<SymbolTable>,
    index: Option<NewIndex>,
    /// The fill value of a dataset.
    fill: Option<Vec<u8>>,
    /// Links, or the place of links.
    links: Vec<NewMessage>,
    /// Attributes, or the place of attributes.
    attributes: Vec<NewMessage>,
    /// `true`: the header has version 2.
    is_new: bool,
}

impl Linked {
    /// Builds the structures at `at`, and returns their bytes.
    fn of(
        object: &NewObject,
        values: Values,
        addresses: &[u64],
        at: u64,
        libver: Libver,
    ) -> Built<(Linked, Vec<u8>)> {
        let Values { attributes, fill } = values;
        let mut linked = Linked { fill, ..Linked::default() };
        let mut bytes = Vec::new();
        match &object.kind {
            NewKind::Group { links, tracks_links } => match Style::of(links, *tracks_links, libver) {
                Style::SymbolTable => {
                    let (table, structures) = group::symbol_table(links, addresses, at)?;
                    (linked.table, bytes) = (Some(table), structures);
                }
                Style::Compact { tracked } => linked.links = group::link_messages(links, addresses, tracked)?,
                Style::Dense { tracked } => {
                    (linked.links, bytes) = group::dense(links, addresses, tracked, at)?;
                }
            },
            NewKind::Dataset(dataset) => {
                linked.index = dataset.index(at, libver)?;
                bytes =
                    linked.index.as_mut().map(|index| std::mem::take(&mut index.bytes)).unwrap_or_default();
            }
            NewKind::Datatype(_) => {}
        }
        let tracked = object.tracks_attributes;
        let style = attribute::Style::of(&attributes, tracked, libver);
        linked.is_new = style != attribute::Style::Old;
        if style == attribute::Style::Dense {
            let at = at.saturating_add(bytes.len() as u64);
            let named = object.attributes.iter().zip(&attributes).zip(0..);
            let named = named
                .map(|((attribute, message), order)| (attribute.name.as_str(), order, &message.data[..]));
            let next = attribute::next_order(attributes.len(), tracked)?;
            let (info, structures) = attribute::dense(&named.collect::<Vec<_>>(), next, at)?;
            linked.attributes = vec![info];
            bytes.extend(structures);
        } else {
            linked.add_compact(attributes, tracked)?;
        }
        Ok((linked, bytes))
    }

    /// The same without places, for the length of the header.
    fn unplaced(object: &NewObject, values: Values, addresses: &[u64], libver: Libver) -> Built<Linked> {
        let Values { attributes, fill } = values;
        let mut linked = Linked { fill, ..Linked::default() };
        match &object.kind {
            NewKind::Group { links, tracks_links } => match Style::of(links, *tracks_links, libver) {
                Style::SymbolTable => linked.table = Some(SymbolTable { btree: 0, heap: 0 }),
                Style::Compact { tracked } => linked.links = group::link_messages(links, addresses, tracked)?,
                Style::Dense { tracked } => {
                    linked.links = group::info(tracked.then_some(links.len() as u64), [None; 3])
                }
            },
            NewKind::Dataset(dataset) => linked.index = dataset.unplaced_index(libver),
            NewKind::Datatype(_) => {}
        }
        let tracked = object.tracks_attributes;
        let style = attribute::Style::of(&attributes, tracked, libver);
        linked.is_new = style != attribute::Style::Old;
        if style == attribute::Style::Dense {
            let next = attribute::next_order(attributes.len(), tracked)?;
            linked.attributes = vec![attribute::info(next, [None; 3])];
        } else {
            linked.add_compact(attributes, tracked)?;
        }
        Ok(linked)
    }

    fn add_compact(&mut self, attributes: Vec<NewMessage>, tracked: bool) -> Built<()> {
        // The HDF5 library counts no attributes in a header of version 2 without this message.
        if tracked || self.is_new && !attributes.is_empty() {
            let next = attribute::next_order(attributes.len(), tracked)?;
            self.attributes.push(attribute::info(next, [None; 3]));
        }
        self.attributes.extend(attributes);
        Ok(())
    }
}

/// The values of an object, which may refer to other objects.
#[derive(Debug, Default)]
struct Values {
    attributes: Vec<NewMessage>,
    fill: Option<Vec<u8>>,
}

impl Values {
    /// Builds the values. Elements of variable length put theirs into `heap`.
    fn of(object: &NewObject, addresses: &[u64], heap: &mut HeapWriter, libver: Libver) -> Built<Values> {
        let mut names: Vec<&str> =
            object.attributes.iter().map(|attribute| attribute.name.as_str()).collect();
        let mut places = NewPlaces { addresses, heap };
        names.sort_unstable();
        if let Some((name, _)) = names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b) {
            return Err(BuildError(format!("two attributes have the name {name:?}")));
        }
        let attributes = object.attributes.iter().map(|attribute| attribute.message(&mut places, libver));
        let attributes = attributes.collect::<Built<_>>()?;
        let fill = match &object.kind {
            NewKind::Dataset(dataset) => dataset.fill(&mut places)?,
            _ => None,
        };
        Ok(Values { attributes, fill })
    }
}

/// Builds the header of an object. `links`: the number of hard links to it.
fn header(object: &NewObject, linked: &Linked, (links, libver): (u32, Libver)) -> Built<Vec<u8>> {
    let mut messages = match &object.kind {
        NewKind::Group { .. } => linked.links.clone(),
        NewKind::Dataset(dataset) => dataset.messages(linked.index.as_ref(), linked.fill.clone(), libver)?,
        NewKind::Datatype(datatype) => {
            vec![NewMessage { kind: datatype::KIND, constant: true, data: datatype.build(libver)? }]
        }
    };
    if let Some(table) = linked.table {
        messages.push(NewMessage { kind: link::SYMBOL_TABLE_KIND, constant: false, data: table.build() });
    }
    messages.extend(linked.attributes.iter().cloned());
    object_header::build(&messages, links, linked.is_new, object.tracks_attributes)
}

/// The number of hard links to each object. The superblock's to the root counts.
fn count_links(objects: &[NewObject]) -> Vec<u32> {
    let mut counts = vec![0_u32; objects.len()];
    if let Some(root) = counts.first_mut() {
        *root = 1;
    }
    let links = objects.iter().flat_map(|object| match &object.kind {
        NewKind::Group { links, .. } => links.as_slice(),
        _ => &[],
    });
    for NewLink { target, .. } in links {
        if let NewTarget::Object(number) = target
            && let Some(count) = counts.get_mut(*number)
        {
            *count = count.saturating_add(1);
        }
    }
    counts
}

/// Builds a value for each object. An error names the object.
fn each<T>(
    objects: &[NewObject],
    mut build: impl FnMut(&NewObject) -> Built<T>,
) -> Result<Vec<T>, Hdf5Error> {
    objects.iter().map(|object| build(object).map_err(|why| unstorable(object, why))).collect()
}

fn unstorable(object: &NewObject, why: BuildError) -> Hdf5Error {
    Hdf5Error::Unstorable { object: format!("/{}", object.path), why: why.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataspace::Dataspace;
    use crate::datatype::{Charset, Datatype};
    use crate::filter::Filter;
    use crate::index::ChunkRecord;
    use crate::new_file::{NewAttribute, NewDataset, NewStorage, ValuePart};
    use crate::testing::{elements, fails, open, the_dataset};
    use crate::{File, LinkTarget, Node, Value};

    const BOTH: [Libver; 2] = [Libver::Earliest, Libver::V110];

    fn group(path: &str, links: Vec<NewLink>) -> NewObject {
        let kind = NewKind::Group { links, tracks_links: false };
        NewObject { path: path.into(), kind, attributes: Vec::new(), tracks_attributes: false }
    }

    fn link(name: &str, target: NewTarget) -> NewLink {
        NewLink { name: name.into(), target }
    }

    fn shape(shape: &[u64]) -> Dataspace {
        let max_shape = shape.iter().map(|len| Some(*len)).collect();
        Dataspace::Simple { shape: shape.into(), max_shape }
    }

    fn dataset(storage: NewStorage, lens: &[u64]) -> NewObject {
        let datatype = Datatype::of_numpy("<i2".parse().unwrap()).unwrap();
        let kind = NewKind::Dataset(NewDataset {
            datatype,
            dataspace: shape(lens),
            fill: Some(vec![ValuePart::Bytes(vec![7, 0])]),
            unfilled: false,
            filters: Vec::new(),
            storage,
        });
        NewObject { path: "d".into(), kind, attributes: Vec::new(), tracks_attributes: false }
    }

    fn number(name: &str, value: u8) -> NewAttribute {
        NewAttribute {
            name: name.into(),
            datatype: Datatype::of_numpy("|u1".parse().unwrap()).unwrap(),
            dataspace: Dataspace::Scalar,
            value: vec![ValuePart::Bytes(vec![value])],
        }
    }

    /// A file with `data` behind the superblock.
    fn file(objects: &[NewObject], data: &[u8], libver: Libver) -> File {
        let start = reserved(libver);
        let built = Structures::build(objects, (start + data.len()) as u64, libver).unwrap();
        assert_eq!(built.superblock.len(), start);
        open(&[&built.superblock, data, &built.bytes].concat()).unwrap()
    }

    #[test]
    fn links_of_all_kinds() {
        for libver in BOTH {
            let links = vec![
                link("b", NewTarget::Object(1)),
                link("again", NewTarget::Object(1)),
                link("up", NewTarget::Object(0)),
                link("soft", NewTarget::Soft("/b/c".into())),
                link("other", NewTarget::External { file: "x.h5".into(), path: "/y".into() }),
                link("né", NewTarget::Object(2)),
            ];
            let inner = group("b", vec![link("c", NewTarget::Object(2))]);
            let file = file(&[group("", links), inner, group("b/c", vec![])], b"", libver);
            let root = file.root().unwrap();
            let names: Vec<String> = root.links().unwrap().into_iter().map(|link| link.name).collect();
            assert_eq!(names, ["again", "b", "né", "other", "soft", "up"]);
            let Node::Group(found) = root.child("again/c").unwrap() else { panic!("no group") };
            assert_eq!(root.link("né").unwrap().unwrap().target, LinkTarget::Hard(found.address()));
            let Node::Group(found) = root.child("up/up/soft").unwrap() else { panic!("no group") };
            assert!(found.links().unwrap().is_empty());
        }
    }

    #[test]
    fn creation_orders() {
        let names = ["z", "a", "m"];
        let links = names.map(|name| link(name, NewTarget::Object(1))).to_vec();
        let mut root = group("", links);
        root.kind = match root.kind {
            NewKind::Group { links, .. } => NewKind::Group { links, tracks_links: true },
            other => other,
        };
        root.tracks_attributes = true;
        root.attributes = names.iter().zip(1..).map(|(name, value)| number(name, value)).collect();
        for libver in BOTH {
            let file = file(&[root.clone(), group("z", vec![])], b"", libver);
            let root = file.root().unwrap();
            let found: Vec<String> = root.links().unwrap().into_iter().map(|link| link.name).collect();
            assert_eq!(found, names);
            let found: Vec<String> = root.attributes().unwrap().into_iter().map(|one| one.name).collect();
            assert_eq!(found, names);
        }
    }

    #[test]
    fn elements_in_all_places() {
        for libver in BOTH {
            let start = reserved(libver) as u64;
            let record = |number, address, size| ChunkRecord { number, address, size, skipped: 0 };
            let chunks = vec![record(0, start, 4), record(2, start + 4, 4)];
            for (storage, expected) in [
                (NewStorage::Compact(vec![1, 0, 2, 0, 3, 0, 4, 0, 5, 0]), [1, 2, 3, 4, 5]),
                (NewStorage::Contiguous(Some(start)), [1, 2, 3, 4, 5]),
                (NewStorage::Contiguous(None), [7; 5]),
                (NewStorage::Chunked { chunk: vec![2], chunks }, [1, 2, 7, 7, 3]),
                (NewStorage::Chunked { chunk: vec![2], chunks: Vec::new() }, [7; 5]),
            ] {
                let root = group("", vec![link("d", NewTarget::Object(1))]);
                let data = [1, 0, 2, 0, 3, 0, 4, 0, 5, 0];
                let file = file(&[root, dataset(storage, &[5])], &data, libver);
                let found = elements(&the_dataset(&file, "d").unwrap().layout().unwrap()).unwrap();
                let found: Vec<u16> =
                    found.chunks(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
                assert_eq!(found, expected);
            }
        }
    }

    #[test]
    fn attributes_that_refer() {
        for libver in BOTH {
            let mut root = group("", vec![link("g", NewTarget::Object(1))]);
            let text = Datatype::vlen_text(Charset::Utf8);
            let list = Datatype::vlen(Datatype::reference());
            let item = |object| ValuePart::Vlen { count: 1, items: vec![ValuePart::Object(object)] };
            root.attributes = vec![
                NewAttribute {
                    name: "texts".into(),
                    datatype: text,
                    dataspace: shape(&[2]),
                    value: vec![ValuePart::text("žluť".as_bytes()), ValuePart::text(b"")],
                },
                NewAttribute {
                    name: "lists".into(),
                    datatype: list,
                    dataspace: shape(&[2]),
                    value: vec![item(Some(1)), item(None)],
                },
                NewAttribute { dataspace: Dataspace::Null, value: vec![], ..number("null", 0) },
                number("é", 3),
            ];
            let file = file(&[root, group("g", vec![])], b"", libver);
            let found = file.root().unwrap().attributes().unwrap();
            let found: Vec<(String, Value)> =
                found.iter().map(|one| (one.name.clone(), one.value().unwrap())).collect();
            let list = |values: &[Value]| Value::List(values.to_vec());
            let text = |text: &str| Value::Text(text.into());
            assert_eq!(
                found,
                [
                    ("lists".into(), list(&[list(&[text("/g")]), list(&[Value::Null])])),
                    ("null".into(), Value::Null),
                    ("texts".into(), list(&[text("žluť"), text("")])),
                    ("é".into(), Value::Int(3)),
                ]
            );
        }
    }

    #[test]
    fn filters_and_types() {
        let filter = Filter { id: 1, name: Some("deflate".into()), optional: true, client_data: vec![4] };
        let storage = NewStorage::Chunked { chunk: vec![5], chunks: Vec::new() };
        let mut filtered = dataset(storage, &[5]);
        if let NewKind::Dataset(dataset) = &mut filtered.kind {
            dataset.filters = vec![filter];
        }
        let datatype = Datatype::vlen(Datatype::vlen_text(Charset::Ascii));
        let committed = NewObject { kind: NewKind::Datatype(datatype.clone()), ..group("t", vec![]) };
        let links = vec![link("d", NewTarget::Object(1)), link("t", NewTarget::Object(2))];
        for libver in BOTH {
            let file = file(&[group("", links.clone()), filtered.clone(), committed.clone()], b"", libver);
            assert_eq!(the_dataset(&file, "d").unwrap().filters()[0].client_data, [4]);
            let Node::Datatype(found) = file.node("t").unwrap() else { panic!("no datatype") };
            assert_eq!(*found.datatype, datatype);
        }
    }

    #[test]
    fn what_cannot_be_stored() {
        let why = |object: NewObject| Structures::build(&[object], 0, Libver::Earliest);
        fails(
            why(group("", vec![link("a/b", NewTarget::Object(0))])),
            "'/' cannot be stored in HDF5: link \"a/b\"",
        );
        let twice = vec![link("a", NewTarget::Object(0)), link("a", NewTarget::Object(0))];
        fails(why(group("", twice)), "two links have the name \"a\"");
        fails(why(group("", vec![link("a", NewTarget::Object(1))])), "object 1, which does not exist");
        let with = |attributes| NewObject { attributes, ..group("", vec![]) };
        fails(why(with(vec![number("a", 1), number("a", 2)])), "two attributes have the name \"a\"");
        fails(why(with(vec![number("", 1)])), "attribute \"\"");
        let short = NewAttribute { value: vec![], ..number("a", 1) };
        fails(why(with(vec![short])), "expected 1 bytes of elements, found 0");
        let chunked = NewStorage::Chunked { chunk: vec![0], chunks: Vec::new() };
        fails(why(dataset(chunked, &[5])), "chunks of shape [0]");
    }

    #[test]
    fn equal_objects_make_equal_bytes() {
        let objects = [group("", vec![link("a", NewTarget::Object(0))])];
        for libver in BOTH {
            let built = || Structures::build(&objects, 500, libver).unwrap();
            assert_eq!((built().bytes, built().superblock), (built().bytes, built().superblock));
        }
    }

    #[test]
    fn many_links_and_attributes() {
        let names: Vec<String> = (0..700).map(|n| format!("é {}", n * 7919 % 1000)).collect();
        let long = "x".repeat(5000);
        let mut links: Vec<NewLink> = names.iter().map(|name| link(name, NewTarget::Object(0))).collect();
        links.push(link(&long, NewTarget::Soft("/".into())));
        for tracks in [false, true] {
            for libver in BOTH {
                let mut root = group("", Vec::new());
                root.kind = NewKind::Group { links: links.clone(), tracks_links: tracks };
                root.tracks_attributes = tracks;
                root.attributes = names.iter().take(60).map(|name| number(name, name.len() as u8)).collect();
                // More than a header holds.
                root.attributes.push(NewAttribute {
                    dataspace: shape(&[100_000]),
                    value: vec![ValuePart::Bytes(vec![7; 100_000])],
                    ..number("large", 0)
                });
                let file = file(&[root], b"", libver);
                let root = file.root().unwrap();
                let mut expected: Vec<&str> =
                    names.iter().map(String::as_str).chain([long.as_str()]).collect();
                let mut attributes: Vec<&str> =
                    names.iter().take(60).map(String::as_str).chain(["large"]).collect();
                if !tracks {
                    expected.sort_unstable();
                    attributes.sort_unstable();
                }
                let found: Vec<String> = root.links().unwrap().into_iter().map(|link| link.name).collect();
                assert_eq!(found, expected);
                for name in expected.iter().step_by(13) {
                    assert!(root.link(name).unwrap().is_some(), "{name}");
                }
                assert!(root.link("é x").unwrap().is_none());
                let found = root.attributes().unwrap();
                assert_eq!(found.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), attributes);
                for attribute in &found {
                    match attribute.name.as_str() {
                        "large" => assert_eq!(&attribute.data[..], vec![7; 100_000]),
                        name => assert_eq!(&attribute.data[..], [name.len() as u8]),
                    }
                }
            }
        }
    }

    #[test]
    fn all_kinds_of_chunk_indexes() {
        for (lens, most, chunk, stored) in [
            (vec![5_u64], vec![Some(5)], vec![5], vec![0_u64]),
            (vec![5], vec![Some(9)], vec![2], vec![0, 2]),
            (vec![5, 9], vec![Some(5), Some(9)], vec![2, 2], vec![1, 7, 14]),
            (vec![5, 9], vec![None, Some(9)], vec![2, 2], vec![1, 7, 14]),
            (vec![5, 9], vec![None, None], vec![2, 2], vec![]),
            (vec![5], vec![Some(1 << 40)], vec![2], vec![0, 2]),
        ] {
            for filtered in [false, true] {
                let bytes = 2 * chunk.iter().product::<u64>();
                let start = reserved(Libver::V110) as u64;
                let records = stored.iter().map(|number| {
                    let size = if filtered { 3 } else { bytes };
                    ChunkRecord {
                        number: *number,
                        address: start + number,
                        size,
                        skipped: u32::from(filtered),
                    }
                });
                let records: Vec<ChunkRecord> = records.collect();
                let storage = NewStorage::Chunked { chunk: chunk.clone(), chunks: records.clone() };
                let mut object = dataset(storage, &lens);
                if let NewKind::Dataset(dataset) = &mut object.kind {
                    dataset.dataspace = Dataspace::Simple { shape: lens.clone(), max_shape: most.clone() };
                    if filtered {
                        dataset.filters =
                            vec![Filter { id: 1, name: None, optional: false, client_data: vec![1] }];
                    }
                }
                let file =
                    file(&[group("", vec![link("d", NewTarget::Object(1))]), object], &[0; 99], Libver::V110);
                let index = the_dataset(&file, "d").unwrap().chunk_index().unwrap().unwrap();
                assert_eq!(index.records, records, "{lens:?} {most:?}");
            }
        }
    }
}
