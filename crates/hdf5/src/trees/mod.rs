//! B-trees of version 1 and 2, and symbol tables, which use them (specification III.A to III.C).
//!
//! Trees are read level by level. All nodes of a level are fetched together, so a tree costs as
//! many requests as it has levels. Even a damaged tree costs no more than the file: nodes may not
//! overlap, so all nodes together are no larger than the file.

pub(crate) mod btree1;
pub mod btree2;
pub mod symbol_table;

use crate::{ParseError, Parsed, Source};
use std::collections::HashSet;

/// The nodes that a walk has visited. A second visit is an error, so that walks end.
#[derive(Debug)]
pub(crate) struct Visited {
    nodes: HashSet<u64>,
    /// Bytes of the file outside the visited nodes. This detects nodes that overlap.
    unvisited: u64,
}

impl Visited {
    pub(crate) fn new(source: &Source) -> Self {
        Visited { nodes: HashSet::new(), unvisited: source.end() }
    }

    /// Visits the node of `len` bytes at an address.
    pub(crate) fn meet(&mut self, address: u64, len: u64) -> Parsed<()> {
        let wrong = |why: &str| Err(ParseError::Corrupt { at: address, why: why.into() });
        if !self.nodes.insert(address) {
            return wrong(
                "this address occurs a second time: two parents point to it, or it is its own parent",
            );
        }
        match self.unvisited.checked_sub(len) {
            Some(left) => self.unvisited = left,
            None => return wrong("nodes overlap: together they are larger than the file"),
        }
        Ok(())
    }
}
