//! Shows that a strategy needs only one file, and its name in `mod.rs`.
//!
//! This strategy reads all of a chunk where others read less.

use super::{ReadStrategy, WHOLE};

/// Fits only the array of the test.
pub(crate) static TOY: ReadStrategy =
    ReadStrategy { name: "toy", fits: |chunk, _| chunk.layout.name() == "toy", decodes: |_, _| 0, ..WHOLE };

#[test]
fn it_is_chosen_told_and_followed() {
    use crate::tests::model::PerChunk;
    use crate::*;
    use hyperslab_codec::{ByteOrder, DataType, Kind};
    use hyperslab_store::{Key, MemoryStore, Store};
    use std::sync::Arc;

    let dtype = DataType::new(Kind::UInt, 1, ByteOrder::NATIVE).unwrap();
    let store = Arc::new(MemoryStore::new());
    let layout = |name| {
        let encoding = ChunkEncoding::new(&[8], dtype, ByteOrder::NATIVE, &[], vec![]).unwrap();
        let grid = ChunkGrid::regular([8].as_slice().into()).unwrap();
        let (shape, fill) = ([16].as_slice().into(), FillValue::new(&[7]));
        let locator = Arc::new(PerChunk("a"));
        ArrayLayout::new(name, shape, dtype, grid, encoding, fill, locator, store.clone()).unwrap()
    };
    store.write(Key::new("a/0").unwrap(), &[&[0, 1, 2, 3, 4, 5, 6, 7]]).unwrap();
    let selection = Selection::new("toy", &[16], &[Index::range(2, 10)]).unwrap();
    for (name, strategy, bytes) in [("toy", "toy", 8), ("other", "read-into", 6)] {
        let explained = explain_read(&layout(name), &selection, 9).unwrap();
        let names: Vec<&str> = explained.tasks.iter().map(|task| task.strategy.name()).collect();
        assert_eq!((names, explained.bytes_read), (vec![strategy, "fill"], bytes));
        let found = crate::read(&layout(name), &selection, ReadOptions::default()).unwrap();
        assert_eq!(found.as_slice(), [2, 3, 4, 5, 6, 7, 7, 7]);
    }
}
