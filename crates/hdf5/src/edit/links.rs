//! The links of a group that is being changed.

use crate::Libver;
use crate::error::Built;
use crate::group::{Link, LinkTarget};
use crate::messages::Message;
use crate::messages::link;
use crate::new_file::group::{self, MOST_COMPACT};
use crate::object_header::NewMessage;
use crate::trees::symbol_table;
use crate::{Bytes, Hdf5Error};
use std::collections::BTreeMap;

/// The links of a group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Links {
    by_name: BTreeMap<String, Link>,
    /// The creation order of the next link. `None`: the group does not keep orders.
    next: Option<i64>,
    /// `true` if the group is to stay in a symbol table, as long as that can store its links.
    is_old: bool,
}

impl Links {
    /// Makes the links of a group as they are stored. `tracked`: the group keeps creation orders.
    pub fn new(links: Vec<Link>, tracked: bool, is_old: bool) -> Links {
        let next = links
            .iter()
            .filter_map(|link| link.creation_order)
            .max()
            .map_or(0, |last| last.saturating_add(1));
        let by_name = links.into_iter().map(|link| (link.name.clone(), link)).collect();
        Links { by_name, next: tracked.then_some(next), is_old }
    }

    /// Returns `true` if the group keeps creation orders.
    pub fn is_tracked(&self) -> bool {
        self.next.is_some()
    }

    pub fn get(&self, name: &str) -> Option<&Link> {
        self.by_name.get(name)
    }

    /// Returns all links, sorted by name.
    pub fn all(&self) -> Vec<Link> {
        self.by_name.values().cloned().collect()
    }

    /// Adds a link. `false`: there is one of this name, and nothing has changed.
    pub fn add(&mut self, name: &str, target: LinkTarget) -> bool {
        if self.by_name.contains_key(name) {
            return false;
        }
        let creation_order = self.next;
        if let Some(next) = &mut self.next {
            *next = next.saturating_add(1);
        }
        self.by_name.insert(name.to_owned(), Link { name: name.to_owned(), target, creation_order });
        true
    }

    /// Removes a link.
    pub fn remove(&mut self, name: &str) -> Option<Link> {
        self.by_name.remove(name)
    }

    /// Builds the structures of the links at `at`. Returns their bytes, and the messages that lead
    /// there.
    pub fn build(&self, at: u64) -> Built<(Vec<Message>, Vec<u8>)> {
        let links = self.all();
        let is_old = |link: &Link| {
            link.name.is_ascii() && matches!(link.target, LinkTarget::Hard(_) | LinkTarget::Soft(_))
        };
        let next = self.next.map(i64::cast_unsigned);
        let (messages, bytes) = if self.is_old && next.is_none() && links.iter().all(is_old) {
            let (table, bytes) = symbol_table::build(at, &links)?;
            let message = NewMessage { kind: link::SYMBOL_TABLE_KIND, constant: false, data: table.build() };
            (vec![message], bytes)
        } else if links.len() > MOST_COMPACT {
            group::build_dense(&links, next, at)?
        } else {
            (group::compact(&links, next)?, Vec::new())
        };
        Ok((messages.into_iter().map(message_of).collect(), bytes))
    }
}

/// Returns a built message in the form of a parsed one.
pub(super) fn message_of(new: NewMessage) -> Message {
    let NewMessage { kind, constant, data } = new;
    Message { kind, flags: constant.into(), creation: None, address: 0, data: Bytes::from(data) }
}

/// Returns `true` if a message is about the links of its group.
pub(super) fn is_about_links(message: &Message) -> bool {
    matches!(message.kind, link::SYMBOL_TABLE_KIND | link::INFO_KIND | link::KIND | link::GROUP_INFO_KIND)
}

/// Returns the messages of a new group without links, as readers of this process see it.
pub(super) fn messages_of_new(tracked: bool, libver: Libver) -> Built<(Vec<Message>, Links)> {
    let links = Links::new(Vec::new(), tracked, libver == Libver::Earliest);
    let (messages, _) = links.build(0)?;
    Ok((messages, links))
}

/// Refuses to change a group with names that could not be written as they are. These are names that
/// are not text. In damaged files, a name may also be empty or occur twice.
pub(super) fn check_names(links: &[Link], file: &str) -> Result<(), Hdf5Error> {
    if let Some(link) = links.iter().find(|link| link.name.contains("\\x")) {
        return Err(Hdf5Error::Unsupported {
            file: file.to_owned(),
            object: None,
            what: format!("changing a group with the name '{}', which is not UTF-8 text,", link.name),
        });
    }
    let mut names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.iter().zip(names.iter().skip(1)).find(|(a, b)| a == b).map(|(name, _)| *name);
    let wrong = match (names.first(), twice) {
        (_, Some(name)) => format!("two links have the name '{name}'"),
        (Some(&""), None) => "a link has no name".into(),
        _ => return Ok(()),
    };
    let why = format!("its group is damaged and cannot be changed: {wrong}");
    Err(Hdf5Error::Invalid { file: file.to_owned(), object: None, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_once() {
        let mut links = Links::new(Vec::new(), true, true);
        assert!(links.add("b", LinkTarget::Hard(1)) && links.add("a", LinkTarget::Soft("/b".into())));
        assert!(!links.add("b", LinkTarget::Hard(2)));
        assert_eq!(links.get("b").map(|link| link.creation_order), Some(Some(0)));
        assert_eq!(links.all().iter().map(|link| link.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(links.remove("b").is_some() && links.remove("b").is_none());
        assert!(links.add("b", LinkTarget::Hard(3)));
        assert_eq!(links.get("b").map(|link| link.creation_order), Some(Some(2)));
        assert_eq!(Links::new(links.all(), true, true), links);
    }

    #[test]
    fn the_oldest_style_that_can_store_the_links() {
        let kinds =
            |links: &Links| links.build(8).unwrap().0.iter().map(|message| message.kind).collect::<Vec<_>>();
        let mut links = Links::new(Vec::new(), false, true);
        links.add("a", LinkTarget::Hard(1));
        assert_eq!(kinds(&links), [link::SYMBOL_TABLE_KIND]);
        links.add("é", LinkTarget::Hard(1));
        assert_eq!(kinds(&links), [link::INFO_KIND, link::GROUP_INFO_KIND, link::KIND, link::KIND]);
        assert!((0..8).all(|n| links.add(&n.to_string(), LinkTarget::Hard(1))));
        assert_eq!(kinds(&links), [link::INFO_KIND, link::GROUP_INFO_KIND]);
    }

    #[test]
    fn groups_with_damaged_names_are_not_changed() {
        let link = |name: &str| Link { name: name.into(), target: LinkTarget::Hard(1), creation_order: None };
        assert!(check_names(&["a", "b"].map(link), "f").is_ok());
        for names in [["a", "a"], ["", "a"], ["a", "\\xff"]] {
            assert!(check_names(&names.map(link), "f").is_err(), "{names:?}");
        }
    }
}
