//! The table of codecs in `docs/formats.md` has exactly the known names.

use hyperslab_codec::registry::CODECS;
use std::collections::BTreeSet;
use std::path::Path;

/// The names in a cell: the texts in backticks.
fn names(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

#[test]
fn the_table_of_codecs_is_complete() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    if !path.is_file() {
        println!("skipped: there is no {}, as in a published crate", path.display());
        return;
    }
    let text = std::fs::read_to_string(path).unwrap();
    let table = text.split("\n## Codecs\n").nth(1).unwrap().trim_start();
    let (mut v2, mut v3) = (BTreeSet::new(), BTreeSet::new());
    for row in table.lines().take_while(|line| line.starts_with('|')).skip(2) {
        let cells: Vec<&str> = row.split('|').collect();
        v2.extend(names(cells[2]));
        v3.extend(names(cells[3]));
    }
    // Not looked up by name: a member of v2's metadata, and a codec of the engine.
    assert!(v2.remove("order") && v3.remove("sharding_indexed"));
    assert_eq!(v2, CODECS.v2_names().into_iter().map(str::to_owned).collect());
    assert_eq!(v3, CODECS.v3_names().into_iter().map(str::to_owned).collect());
}
