//! The format of a store's root, as its handle remembers it.
//!
//! A group and its members have one format. A far store is therefore asked for the documents of
//! the remembered format first, and for the others only if there is no such node.
//!
//! Only a root is remembered: a bucket may hold hierarchies of both formats. Where both formats
//! describe one node, v3 counts; the root is therefore always asked for v3.

use crate::Format;
use hyperslab_store::Store;

/// The format that the root had when it was last seen.
pub(crate) fn root(store: &dyn Store) -> Option<Format> {
    match store.note()?.get() {
        2 => Some(Format::V2),
        3 => Some(Format::V3),
        _ => None,
    }
}

/// The format to ask for first at a path.
pub(crate) fn format(store: &dyn Store, path: &str) -> Option<Format> {
    root(store).filter(|format| *format == Format::V3 || !path.is_empty())
}

/// Remembers the format of a node that was found or created, if it is the root.
/// `None`: there is no node.
pub(crate) fn keep(store: &dyn Store, path: &str, format: Option<Format>) {
    if path.is_empty()
        && let Some(note) = store.note()
    {
        note.set(match format {
            None => 0,
            Some(Format::V2) => 2,
            Some(Format::V3) => 3,
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::node::{self, Wanted};
    use crate::testing::{Far, put, spec_of};
    use crate::{Array, Consolidation, Format, Group, Json, Node};
    use hyperslab_store::Store;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    const FORMATS: [Format; 2] = [Format::V2, Format::V3];

    fn far(format: Format) -> (Arc<Far>, Arc<dyn Store>) {
        let far = Arc::new(Far::default());
        let store: Arc<dyn Store> = far.clone();
        Group::create(store.clone(), "", format, Json::object(), false).unwrap();
        Array::create(store.clone(), "a", spec_of(format, &[4], &[4], "<i4"), false).unwrap();
        super::keep(&*store, "", None);
        (far, store)
    }

    /// Rounds and documents asked for.
    fn counted<T>(far: &Far, work: impl FnOnce() -> T) -> ((usize, usize), T) {
        let count = || (far.rounds.load(Relaxed), far.asked.load(Relaxed));
        let (rounds, asked) = count();
        let made = work();
        let now = count();
        ((now.0 - rounds, now.1 - asked), made)
    }

    #[test]
    fn fewer_documents_are_asked_for() {
        for (format, if_told, if_remembered) in [(Format::V2, 2, 4), (Format::V3, 1, 1)] {
            let (far, store) = far(format);
            let open = |wanted: Wanted| node::open_with(&store, "a", wanted).unwrap();
            let (count, _) = counted(&far, || open(Wanted::default()));
            assert_eq!(count, (1, 5), "not known");
            let (count, _) = counted(&far, || open(Wanted::array(Some(format))));
            assert_eq!(count, (1, if_told), "told");
            let (count, _) = counted(&far, || Group::open(&store, "", None, Consolidation::Auto).unwrap());
            assert_eq!(count, (1, 5), "a root is not known");
            let (count, _) = counted(&far, || open(Wanted::array(None)));
            assert_eq!(count, (1, if_told), "remembered");
            let (count, _) = counted(&far, || open(Wanted::default()));
            assert_eq!(count, (1, if_remembered), "remembered, but not the kind");
            let (count, _) = counted(&far, || open(Wanted { may_be_missing: true, ..Wanted::array(None) }));
            assert_eq!(count, (1, 5), "all at once");
        }
    }

    #[test]
    fn a_wrong_memory_gives_the_right_answer() {
        for format in FORMATS {
            let (_, store) = far(format);
            let other = if format == Format::V2 { Format::V3 } else { Format::V2 };
            super::keep(&*store, "", Some(other));
            let Node::Array(array) = node::open(&store, "a", None).unwrap() else { panic!("an array") };
            assert_eq!(array.format(), format);
            let root = Group::open(&store, "", None, Consolidation::Auto).unwrap();
            assert_eq!((root.format(), super::root(&*store)), (format, Some(format)));
            assert!(node::open(&store, "none", None).is_err() && super::root(&*store) == Some(format));
        }
    }

    #[test]
    fn a_root_of_both_formats_is_v3() {
        let (_, store) = far(Format::V2);
        assert_eq!(Group::open(&store, "", None, Consolidation::Auto).unwrap().format(), Format::V2);
        put(&store, "zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
        assert_eq!(Group::open(&store, "", None, Consolidation::Auto).unwrap().format(), Format::V3);
    }
}
