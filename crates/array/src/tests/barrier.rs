//! Resizing while writers have work queued.

use super::model::{Spec, select};
use crate::error::ArrayError;
use crate::execute::tasks;
use crate::layout::ArrayLayout;
use crate::select::view::Source;
use crate::select::{Index, Selection};
use crate::write::barrier::{settle, settle_all};
use crate::write::write_behind::{Writer, WriterOptions};
use hyperslab_store::{Key, MemoryStore, Store, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const OPTIONS: WriterOptions = WriterOptions { buffer: None, threads: Some(3), write_empty_chunks: None };

/// An array of 40 rows, each a chunk that takes a millisecond to find.
fn slow(store: &MemoryStore, spec: &Spec) -> Arc<ArrayLayout> {
    spec.watched(store, |_| std::thread::sleep(Duration::from_millis(1)))
}

fn spec() -> Spec {
    Spec { codecs: 1, ..Spec::plain(&[40, 100], &[1, 100], "<i4") }
}

fn write(writer: &Writer, layout: &Arc<ArrayLayout>, row: i64) -> Result<(), ArrayError> {
    let selection = Selection::new("test", layout.shape(), &[Index::At(row)])?;
    writer.write_resized(layout, &selection, &Source::repeat(&7i32.to_le_bytes(), &[100]), None)
}

fn is_busy(error: &ArrayError) -> bool {
    matches!(error, ArrayError::Store { source, .. } if matches!(**source, StoreError::Busy { .. }))
}

#[test]
fn what_was_queued_is_stored_before_the_shape_changes() {
    let (store, spec) = (MemoryStore::new(), spec());
    let layout = slow(&store, &spec);
    // A second handle on the same array.
    let same = slow(&store, &spec);
    let writer = Writer::new(layout.clone(), OPTIONS);
    (0..40).for_each(|row| write(&writer, &layout, row).unwrap());
    assert!(store.list(None).unwrap().len() < 40);
    let settled = settle(&same, None).unwrap();
    assert_eq!(store.list(None).unwrap().len(), 40);
    // Nothing is queued meanwhile. A write by the thread that resizes fails.
    let error = write(&writer, &layout, 3).unwrap_err();
    assert!(is_busy(&error), "{error}");
    let smaller = Arc::new(layout.with_shape([10u64, 100].into_iter().collect()).unwrap());
    let begun = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (writer, layout, begun) = (&writer, &layout, &begun);
        let late = scope.spawn(move || {
            begun.store(true, Relaxed);
            (write(writer, layout, 30), write(writer, layout, 3))
        });
        while !begun.load(Relaxed) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(20));
        store.delete_prefix(None).unwrap();
        settled.note_resize(smaller.shape());
        drop(settled);
        let (outside, inside) = late.join().unwrap();
        let error = outside.unwrap_err();
        assert!(matches!(error, ArrayError::Index { .. }), "{error}");
        assert!(error.to_string().contains("resized from [40, 100] to [10, 100]"), "{error}");
        inside.unwrap();
    });
    write(&writer, &smaller, 5).unwrap();
    writer.flush(None).unwrap();
    let keys = store.list(None).unwrap();
    assert_eq!(keys.len(), 2, "{keys:?}");
    // The array grows again, so the old shape is right again.
    settle(&smaller, None).unwrap().note_resize(layout.shape());
    write(&writer, &layout, 30).unwrap();
    writer.flush(None).unwrap();
    assert_eq!(store.list(None).unwrap().len(), 3);
}

#[test]
fn waiting_for_writers_can_be_stopped() {
    let (store, spec) = (MemoryStore::new(), spec());
    let layout = slow(&store, &spec);
    let writer = Writer::new(layout.clone(), OPTIONS);
    (0..40).for_each(|row| write(&writer, &layout, row).unwrap());
    let stopped = settle(&layout, Some(&|| true));
    assert!(matches!(stopped, Err(ArrayError::Interrupted { .. })), "{stopped:?}");
    writer.flush(None).unwrap();
    assert_eq!(store.list(None).unwrap().len(), 40);
}

/// A finalizer drops the writer in the middle of a write to the same chunk.
#[test]
fn a_writer_that_is_dropped_inside_its_chunk_loses_nothing() {
    let (store, spec) = (MemoryStore::new(), spec());
    let layout = Arc::new(spec.layout(&store));
    let (mut key, task) = (String::new(), crate::plan::task::Task::default());
    layout.locate(&[3, 0], &mut key).unwrap();
    let checked = Key::new(&key).unwrap();
    let inside = tasks::take(&layout, &task, checked, None).unwrap();
    let writer = Writer::new(layout.clone(), OPTIONS);
    write(&writer, &layout, 3).unwrap();
    let error = writer.flush(None).unwrap_err();
    assert!(is_busy(&error), "{error}");
    drop(writer);
    assert!(!store.exists(checked).unwrap());
    drop(inside);
    settle_all(None).unwrap();
    assert!(store.exists(checked).unwrap());
}

/// A signal handler writes to the chunk that this thread is writing.
#[test]
fn a_write_inside_itself_is_refused_and_others_are_not() {
    let (store, spec) = (MemoryStore::new(), spec());
    let layout = Arc::new(spec.layout(&store));
    let (mut key, task) = (String::new(), crate::plan::task::Task::default());
    layout.locate(&[3, 0], &mut key).unwrap();
    let _inside = tasks::take(&layout, &task, Key::new(&key).unwrap(), None).unwrap();
    let put = |index: Index<'_>| {
        let selection = select(layout.shape(), &[index]);
        let (one, shape) = (1i32.to_le_bytes(), selection.shape());
        let source = Source::repeat(&one, &shape);
        let options = crate::write::WriteOptions { threads: Some(4), ..Default::default() };
        crate::write(&layout, &selection, &source, options)
    };
    put(Index::At(4)).unwrap();
    for index in [Index::At(3), Index::ALL] {
        let error = put(index).unwrap_err();
        assert!(is_busy(&error), "{error}");
    }
}
