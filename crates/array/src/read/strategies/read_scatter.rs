//! Read-scatter: a chunk without codecs whose bytes were read together with its neighbours.

use super::{ReadStrategy, WHOLE};

pub(crate) static READ_SCATTER: ReadStrategy = ReadStrategy {
    name: "read-scatter",
    fits: |chunk, _| chunk.joined && chunk.is_plain(),
    decodes: |_, _| 0,
    ..WHOLE
};
