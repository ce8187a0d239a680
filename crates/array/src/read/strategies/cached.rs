//! Cached: a cache holds the decoded chunk, which is scattered from there.

use super::{ReadStrategy, WHOLE};

pub(crate) static CACHED: ReadStrategy = ReadStrategy {
    name: "cached",
    fits: |chunk, _| chunk.cached.is_some(),
    read: |chunk, _, _| {
        if let Some(held) = &chunk.cached {
            chunk.scatter(held.as_slice());
        }
        Ok(true)
    },
    ranges: |_, _, _| Vec::new(),
    decodes: |_, _| 0,
    ..WHOLE
};
