//! Groups of a new file: their links.

use crate::Libver;
use crate::checksum::lookup3;
use crate::error::{BuildError, Built};
use crate::group::{Link, LinkTarget};
use crate::heaps::{HeapKind, build_fractal_heap};
use crate::messages::link::{self, DenseLinks, SymbolTable};
use crate::object_header::NewMessage;
use crate::output::fit;
use crate::trees::{btree2, symbol_table};

/// A link of a new group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLink {
    /// Its name.
    pub name: String,
    /// Its target.
    pub target: NewTarget,
}

/// The target of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewTarget {
    /// An object, by its number.
    Object(usize),
    /// A path in the same file.
    Soft(String),
    /// A path in another file.
    External {
        /// The file's name.
        file: String,
        /// The path in that file.
        path: String,
    },
}

/// How a group stores its links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// In a symbol table, which every version of HDF5 reads.
    SymbolTable,
    /// As messages in its header. `tracked`: with creation orders.
    Compact { tracked: bool },
    /// In a fractal heap, with B-trees as indexes.
    Dense { tracked: bool },
}

/// The most links in a header: the HDF5 library's number.
pub(crate) const MOST_COMPACT: usize = 8;

/// Record types of the B-trees of names and of creation orders, and bytes of their nodes.
const NAMES: u8 = 5;
const ORDERS: u8 = 6;
const NODE: u32 = 512;

impl Style {
    /// The oldest style that can say the links.
    pub fn of(links: &[NewLink], tracked: bool, libver: Libver) -> Style {
        let is_old =
            |link: &NewLink| link.name.is_ascii() && !matches!(link.target, NewTarget::External { .. });
        match libver {
            Libver::Earliest if !tracked && links.iter().all(is_old) => Style::SymbolTable,
            _ if links.len() > MOST_COMPACT => Style::Dense { tracked },
            _ => Style::Compact { tracked },
        }
    }
}

/// Refuses a name that a link cannot have.
pub(crate) fn check_name(name: &str) -> Built<()> {
    if name.is_empty() || name.contains(['/', '\0']) || name == "." {
        let why = "a name has at least one character, no '/' and no NUL, and is not '.'";
        return Err(BuildError(format!("link {name:?}: {why}")));
    }
    Ok(())
}

/// The links with their addresses, sorted by the bytes of their names.
fn sorted(links: &[NewLink], addresses: &[u64], tracked: bool) -> Built<Vec<Link>> {
    let resolved = links.iter().zip(0..).map(|(link, order)| {
        let NewLink { name, target } = link;
        check_name(name)?;
        let target = match target {
            NewTarget::Object(number) => {
                let missing =
                    || BuildError(format!("link {name:?} leads to object {number}, which does not exist"));
                LinkTarget::Hard(addresses.get(*number).copied().ok_or_else(missing)?)
            }
            NewTarget::Soft(path) => LinkTarget::Soft(path.clone()),
            NewTarget::External { file, path } => {
                LinkTarget::External { file: file.clone(), path: path.clone() }
            }
        };
        Ok(Link { name: name.clone(), target, creation_order: tracked.then_some(order) })
    });
    let mut links = resolved.collect::<Built<Vec<Link>>>()?;
    links.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
    if let Some(twice) = links.iter().zip(links.iter().skip(1)).find(|(a, b)| a.name == b.name) {
        return Err(BuildError(format!("two links have the name {:?}", twice.0.name)));
    }
    Ok(links)
}

/// Builds the messages of links in the group's header.
pub(super) fn link_messages(links: &[NewLink], addresses: &[u64], tracked: bool) -> Built<Vec<NewMessage>> {
    compact(&sorted(links, addresses, tracked)?, next_order(links, tracked))
}

fn next_order(links: &[NewLink], tracked: bool) -> Option<u64> {
    tracked.then_some(links.len() as u64)
}

/// Builds the messages of sorted links in the group's header. `next`: the creation order of the next
/// link, if the group keeps orders.
pub(crate) fn compact(links: &[Link], next: Option<u64>) -> Built<Vec<NewMessage>> {
    let mut messages = info(next, [None; 3]);
    for link in links {
        messages.push(NewMessage { kind: link::KIND, constant: false, data: link.build()? });
    }
    Ok(messages)
}

/// Builds the messages of a group: where its links are, and the library's settings.
pub(crate) fn info(next: Option<u64>, places: DenseLinks) -> Vec<NewMessage> {
    vec![
        NewMessage { kind: link::INFO_KIND, constant: false, data: link::build_info(next, places) },
        NewMessage { kind: link::GROUP_INFO_KIND, constant: true, data: link::build_group_info() },
    ]
}

/// Builds the heap and the indexes of links at `at`. Returns their bytes, and the messages that lead
/// there.
pub(super) fn dense(
    links: &[NewLink],
    addresses: &[u64],
    tracked: bool,
    at: u64,
) -> Built<(Vec<NewMessage>, Vec<u8>)> {
    build_dense(&sorted(links, addresses, tracked)?, next_order(links, tracked), at)
}

/// Builds the heap and the indexes of sorted links at `at`. `next`: as in [`compact`].
pub(crate) fn build_dense(links: &[Link], next: Option<u64>, at: u64) -> Built<(Vec<NewMessage>, Vec<u8>)> {
    let messages = links.iter().map(Link::build).collect::<Built<Vec<Vec<u8>>>>()?;
    let links = links.iter().zip(&messages).map(|(link, message)| DenseLink {
        name: link.name.as_bytes(),
        order: link.creation_order,
        message,
    });
    let (places, bytes) = dense_structures(&links.collect::<Vec<_>>(), next.is_some(), at)?;
    Ok((info(next, places), bytes))
}

/// A link in the heap of its group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenseLink<'a> {
    /// The name as stored.
    pub name: &'a [u8],
    pub order: Option<i64>,
    /// The link message.
    pub message: &'a [u8],
}

/// Builds the heap and the indexes of links at `at`. `orders`: with an index of creation orders.
pub(crate) fn dense_structures(
    links: &[DenseLink<'_>],
    orders: bool,
    at: u64,
) -> Built<(DenseLinks, Vec<u8>)> {
    let objects: Vec<Vec<u8>> = links.iter().map(|link| link.message.to_vec()).collect();
    let heap = build_fractal_heap(at, &objects, HeapKind::Links)?;
    let (mut bytes, ids) = (heap.bytes, heap.ids);
    let mut tree = |kind: u8, records: Vec<Vec<u8>>| -> Built<u64> {
        let address = at.saturating_add(bytes.len() as u64);
        let len = records.first().map_or(0, Vec::len);
        let len = fit(len as u64, "bytes of a record")?;
        bytes.extend(btree2::build(address, kind, NODE, len, &records.concat())?);
        Ok(address)
    };
    let mut names: Vec<(u32, &[u8], &Vec<u8>)> =
        links.iter().zip(&ids).map(|(link, id)| (lookup3(link.name), link.name, id)).collect();
    names.sort_unstable();
    let records = names.iter().map(|(hash, _, id)| [&hash.to_le_bytes()[..], id].concat());
    let names = tree(NAMES, records.collect())?;
    let mut by_order: Vec<(i64, &Vec<u8>)> =
        links.iter().zip(&ids).filter_map(|(link, id)| Some((link.order?, id))).collect();
    by_order.sort_unstable();
    let records = by_order.iter().map(|(order, id)| [&order.to_le_bytes()[..], id].concat());
    let orders = if orders { Some(tree(ORDERS, records.collect())?) } else { None };
    Ok(([Some(at), Some(names), orders], bytes))
}

/// Builds the structures of a symbol table at `at`.
pub(super) fn symbol_table(links: &[NewLink], addresses: &[u64], at: u64) -> Built<(SymbolTable, Vec<u8>)> {
    symbol_table::build(at, &sorted(links, addresses, false)?)
}
