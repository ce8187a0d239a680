//! Cached metadata of arrays: opening an array again parses nothing.
//!
//! The meaning of a document does not depend on where it is stored, so entries are found by the
//! document's text. A changed document has another text, so nothing can be stale. Whole texts are
//! compared.
//!
//! The lock is gated: code that holds it only compares texts.

use crate::Format;
use crate::metadata::Metadata;
use hyperslab_store::fork::Mutex;
use std::sync::Arc;

/// How many arrays' metadata is kept: enough for the arrays of a usual hierarchy, and few enough to
/// compare one by one.
const ENTRIES: usize = 32;

/// Longer texts are not kept, because parsed values take many times the memory of their text.
const LARGEST: usize = 16 << 10;

/// The texts that make up an array's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Texts {
    pub(crate) format: Format,
    /// `zarr.json` or `.zarray`.
    pub(crate) document: Vec<u8>,
    /// v2: `.zattrs`.
    pub(crate) attributes: Option<Vec<u8>>,
}

impl Texts {
    pub(crate) fn len(&self) -> usize {
        self.document.len() + self.attributes.as_ref().map_or(0, Vec::len)
    }
}

/// Most recently used first. Gated.
static KEPT: Mutex<Vec<(Texts, Arc<Metadata>)>> = Mutex::new(Vec::new());

/// The metadata for these texts, if it is cached.
pub(crate) fn find(texts: &Texts) -> Option<Arc<Metadata>> {
    let mut cached = KEPT.lock();
    let at = cached.iter().position(|(other, _)| other == texts)?;
    cached.get_mut(..=at)?.rotate_right(1);
    cached.first().map(|(_, metadata)| metadata.clone())
}

/// Caches the metadata for these texts.
pub(crate) fn keep(mut texts: Texts, metadata: &Arc<Metadata>) {
    if texts.len() > LARGEST {
        return;
    }
    texts.document.shrink_to_fit();
    if let Some(attributes) = &mut texts.attributes {
        attributes.shrink_to_fit();
    }
    let mut cached = KEPT.lock();
    let least = cached.len().min(ENTRIES - 1);
    let dropped = cached.split_off(least);
    cached.insert(0, (texts, metadata.clone()));
    // Dropping codecs may run foreign code, so it happens after unlocking.
    drop(cached);
    drop(dropped);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::Attributes;
    use crate::format::v2;
    use crate::testing::{memory, spec_of};
    use crate::{Array, Json};

    fn texts(fill: usize) -> Texts {
        let document = format!(
            r#"{{"shape": [4], "chunks": [2], "dtype": "<f8", "fill_value": {fill}, "order": "C", "filters": null,
                "compressor": null, "zarr_format": 2}}"#
        );
        Texts { format: Format::V2, document: document.into_bytes(), attributes: None }
    }

    fn parsed(texts: &Texts) -> Arc<Metadata> {
        Arc::new(v2::parse(&Json::parse(&texts.document).unwrap().into(), Attributes::Alone(None)).unwrap())
    }

    /// Other tests of this process open arrays meanwhile and may evict entries.
    #[test]
    fn what_is_found_is_what_was_kept_and_never_more_than_the_bound() {
        for fill in 0..ENTRIES * 3 {
            let texts = texts(fill);
            keep(texts.clone(), &parsed(&texts));
            if let Some(found) = find(&texts) {
                assert_eq!(found.fill.as_deref(), Some(&(fill as f64).to_le_bytes()[..]));
            }
            let other = Texts { attributes: Some(b"{}".to_vec()), ..texts };
            assert!(find(&other).is_none());
        }
        assert!(KEPT.lock().len() <= ENTRIES);
    }

    #[test]
    fn long_texts_are_not_kept() {
        let mut long = texts(1);
        long.document.resize(LARGEST + 1, b' ');
        keep(long.clone(), &parsed(&long));
        assert!(find(&long).is_none());
    }

    #[test]
    fn an_array_that_changed_is_read_again() {
        for format in [Format::V2, Format::V3] {
            let store = memory();
            let spec = spec_of(format, &[4], &[4], "<i4");
            let mut array = Array::create(store.clone(), "a", spec, false).unwrap();
            let open = || Array::open(&store, "a", None).unwrap();
            assert_eq!((open().layout().shape(), open().layout().shape()), (&[4][..], &[4][..]));
            array.resize(&[7], None).unwrap();
            assert_eq!((open().layout().shape(), open().layout().shape()), (&[7][..], &[7][..]));
            array.set_attributes(Json::from([("a", 1u32.into())])).unwrap();
            assert_eq!(open().attributes().to_text(None), r#"{"a": 1}"#);
        }
    }

    #[test]
    fn the_same_text_in_two_places_is_two_arrays() {
        let store = memory();
        for path in ["a", "b"] {
            let spec = spec_of(Format::V3, &[4], &[4], "<i4");
            Array::create(store.clone(), path, spec, false).unwrap();
        }
        for path in ["a", "b"] {
            assert_eq!(Array::open(&store, path, None).unwrap().name(), format!("/{path}"));
        }
    }
}
