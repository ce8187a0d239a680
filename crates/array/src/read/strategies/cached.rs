//! Cached: a cache holds the decoded chunk, which is scattered from there.

use super::{ReadStrategy, WHOLE};

pub(crate) static CACHED: ReadStrategy = ReadStrategy {
    name: "cached",
    fits: |chunk, _| chunk.held.is_some(),
    read: |chunk, _, _| {
        if let Some(held) = &chunk.held {
            chunk.scatter(held.as_slice());
        }
        Ok(true)
    },
    ranges: |_, _, _| Vec::new(),
    decodes: |_, _| 0,
    ..WHOLE
};
