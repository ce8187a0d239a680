//! B-trees.

/// Version 2.
pub mod btree2 {
    use crate::{Cursor, Hdf5Error, ParseError, Sizes, Source};

    /// Every record in order.
    pub fn records(
        source: &Source,
        _address: u64,
        _kind: u8,
        _sizes: Sizes,
        _verify: bool,
        _each: &mut dyn FnMut(&mut Cursor<'_>) -> Result<(), ParseError>,
    ) -> Result<(), Hdf5Error> {
        Err(source.invalid("no trees"))
    }

    /// Those that are equal.
    pub fn find(
        source: &Source,
        _address: u64,
        _kind: u8,
        _sizes: Sizes,
        _verify: bool,
        _compare: &mut dyn FnMut(&mut Cursor<'_>) -> Result<std::cmp::Ordering, ParseError>,
        _each: &mut dyn FnMut(&mut Cursor<'_>) -> Result<(), ParseError>,
    ) -> Result<(), Hdf5Error> {
        Err(source.invalid("no trees"))
    }
}

/// Groups of the old kind.
pub mod symbol_table {
    use crate::{Hdf5Error, Sizes, Source};

    /// A link.
    pub struct SymbolEntry {
        /// Its name.
        pub name: String,
        /// A hard link.
        pub header: Option<u64>,
        /// A soft link.
        pub soft: Option<String>,
    }

    /// All of them.
    pub fn entries(
        source: &Source,
        _btree: u64,
        _heap: u64,
        _sizes: Sizes,
    ) -> Result<Vec<SymbolEntry>, Hdf5Error> {
        Err(source.invalid("no trees"))
    }

    /// One of them.
    pub fn find(
        source: &Source,
        _btree: u64,
        _heap: u64,
        _name: &str,
        _sizes: Sizes,
    ) -> Result<Option<SymbolEntry>, Hdf5Error> {
        Err(source.invalid("no trees"))
    }
}
