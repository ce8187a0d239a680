//! Tells whether the stored node at an array's path is still that array.

use crate::chunk_grid::GridMetadata;
use crate::format::repair;
use crate::metadata::Metadata;
use crate::{Json, Result, Wanted, ZarrError, node, node_lock};
use hyperslab_array::{LocateError, Origin, OriginState};
use hyperslab_store::fork::Mutex;
use hyperslab_store::{Identity, Store};
use std::sync::Arc;

/// The place where an array was opened, and the directory that it was.
#[derive(Debug)]
pub(crate) struct OpenedAt {
    store: Arc<dyn Store>,
    path: String,
    metadata: Arc<Metadata>,
    /// The directory of this metadata, or `None` until it is looked up. Gated.
    known: Mutex<Option<Identity>>,
}

impl OpenedAt {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        path: String,
        metadata: Arc<Metadata>,
        known: Option<Identity>,
    ) -> Self {
        OpenedAt { store, path, metadata, known: Mutex::new(known) }
    }
}

/// The directory at a path, for [`OpenedAt::new`].
///
/// Call it before the metadata is read: a directory that replaces this one in between then differs.
/// Errors are left to the read.
pub(crate) fn current_identity(store: &Arc<dyn Store>, path: &str) -> Option<Identity> {
    identity(store, path).ok().flatten()
}

fn identity(store: &Arc<dyn Store>, path: &str) -> Result<Option<Identity>> {
    Ok(store.identity(node_lock::prefix(path)?)?)
}

impl Origin for OpenedAt {
    fn is_known(&self) -> bool {
        self.known.lock().is_some()
    }

    fn look(&self) -> Result<OriginState, LocateError> {
        let now = match identity(&self.store, &self.path) {
            Err(ZarrError::Store(error)) => return Err(Box::new(error)),
            now => now?,
        };
        let known = *self.known.lock();
        if now == known {
            return Ok(OriginState::Same);
        }
        // Taken before the document is read: a directory that replaces this one in between then
        // differs.
        let stored = match now {
            Some(_) => node::read(&self.store, &self.path, Wanted::array(Some(self.metadata.format))),
            None => Ok(None),
        };
        match stored {
            Ok(Some(stored))
                if are_interchangeable(&repair::repair(&stored).document, &self.metadata.document) =>
            {
                *self.known.lock() = now;
                Ok(OriginState::Alike)
            }
            // Known only from a group's consolidated metadata.
            Ok(None) if known.is_none() => {
                *self.known.lock() = now;
                Ok(OriginState::Alike)
            }
            Err(ZarrError::Store(error)) => Err(Box::new(error)),
            _ => Ok(OriginState::Other),
        }
    }
}

/// Members of a document that do not affect the content of a chunk.
const BESIDE: [&str; 3] = ["shape", "attributes", "dimension_names"];

/// Returns `true` if chunks written under one document can be read under the other.
fn are_interchangeable(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Object(ours), Json::Object(theirs)) => {
            let matters = |(name, _): &&(String, Json)| !BESIDE.contains(&name.as_str());
            let same = |(name, value): &(String, Json)| {
                other.get(name).is_some_and(|other| {
                    other == value || name == "chunk_grid" && GridMetadata::one_is_longer(value, other)
                })
            };
            ours.iter().filter(matters).count() == theirs.iter().filter(matters).count()
                && ours.iter().filter(matters).all(same)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::are_interchangeable;
    use crate::testing::json;

    #[test]
    fn documents_are_alike_if_chunks_mean_the_same() {
        let array = json(r#"{"shape": [4], "chunks": [2], "dtype": "<f8", "attributes": {"a": 1}}"#);
        for (other, expected) in [
            (r#"{"dtype": "<f8", "chunks": [2], "shape": [9]}"#, true),
            (r#"{"shape": [4], "chunks": [2], "dtype": "<f4"}"#, false),
            (r#"{"shape": [4], "chunks": [3], "dtype": "<f8"}"#, false),
            (r#"{"shape": [4], "chunks": [2]}"#, false),
            (r#"{"shape": [4], "chunks": [2], "dtype": "<f8", "order": "F"}"#, false),
            ("[]", false),
        ] {
            assert_eq!(are_interchangeable(&array, &json(other)), expected, "{other}");
        }
    }

    /// A resize adds chunks to a rectilinear grid.
    #[test]
    fn a_grid_may_have_more_chunks() {
        let array = |chunks: &str| {
            json(&format!(
                r#"{{"shape": [4], "chunk_grid": {{"name": "rectilinear", "configuration":
                    {{"kind": "inline", "chunk_shapes": {chunks}}}}}}}"#
            ))
        };
        for (one, other, expected) in [
            ("[[2, [3, 2]], 4]", "[[2, 3, 3, 1], 4]", true),
            ("[[2, [3, 2]]]", "[[2, [3, 4]]]", true),
            ("[[2, [3, 2]]]", "[[2, 3]]", true),
            ("[[2, [3, 2]]]", "[[2, 3, 1]]", false),
            ("[[2, [3, 2], 1]]", "[[2, [3, 3]]]", false),
            ("[[2, 3], [4]]", "[[2], [4, 1]]", true),
            ("[[2]]", "[2]", false),
            ("[[2]]", "[[2], 1]", false),
        ] {
            assert_eq!(are_interchangeable(&array(one), &array(other)), expected, "{one} {other}");
            assert_eq!(are_interchangeable(&array(other), &array(one)), expected, "{one} {other}");
        }
        let regular =
            r#"{"shape": [4], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}}"#;
        assert!(
            !are_interchangeable(&array("[2]"), &json(regular))
                && are_interchangeable(&json(regular), &json(regular))
        );
    }
}
