//! Groups of a new file: their links.

use crate::Libver;
use crate::error::{BuildError, Built};
use crate::group::{Link, LinkTarget};
use crate::messages::link::{self, SymbolTable};
use crate::object_header::NewMessage;
use crate::trees::symbol_table;

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
    Messages { tracked: bool },
}

impl Style {
    /// The oldest style that can say the links.
    pub fn of(links: &[NewLink], tracked: bool, libver: Libver) -> Style {
        let is_old =
            |link: &NewLink| link.name.is_ascii() && !matches!(link.target, NewTarget::External { .. });
        match libver {
            Libver::Earliest if !tracked && links.iter().all(is_old) => Style::SymbolTable,
            _ => Style::Messages { tracked },
        }
    }
}

/// The links with their addresses, sorted by the bytes of their names.
fn sorted(links: &[NewLink], addresses: &[u64], tracked: bool) -> Built<Vec<Link>> {
    let resolved = links.iter().zip(0..).map(|(link, order)| {
        let NewLink { name, target } = link;
        if name.is_empty() || name.contains(['/', '\0']) || name == "." {
            let why = "a name has at least one character, no '/' and no NUL, and is not '.'";
            return Err(BuildError(format!("link {name:?}: {why}")));
        }
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
    let next = tracked.then_some(links.len() as u64);
    let info = NewMessage { kind: link::INFO_KIND, constant: false, data: link::build_compact_info(next) };
    let mut messages = vec![info];
    for link in sorted(links, addresses, tracked)? {
        messages.push(NewMessage { kind: link::KIND, constant: false, data: link.build()? });
    }
    Ok(messages)
}

/// Builds the structures of a symbol table at `at`.
pub(super) fn symbol_table(links: &[NewLink], addresses: &[u64], at: u64) -> Built<(SymbolTable, Vec<u8>)> {
    symbol_table::build(at, &sorted(links, addresses, false)?)
}
