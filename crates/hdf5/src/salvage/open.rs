//! Opens a file for salvage: whatever its flags and its length say, and without a superblock.

use super::losses::Losses;
use crate::compact::superblock::read_unclosed;
use crate::edit::redo;
use crate::superblock::{self, Superblock};
use crate::{File, FileOptions, Result, Sizes, Source};
use hyperslab_store::Store;
use std::sync::Arc;

/// A file that was opened by a lenient reader.
pub(super) struct Opened {
    pub file: File,
    pub losses: Arc<Losses>,
    /// The superblock as it is stored, or a new one.
    pub superblock: Vec<u8>,
    /// `true` if the file has a superblock.
    pub has_superblock: bool,
    /// `true` if the file is marked as open for writing.
    pub is_marked: bool,
    /// `true` if hyperslab writes the file, or was killed while it wrote.
    pub is_ours: bool,
}

/// Opens the object `key`. `torn`: it is known to be torn.
pub(super) fn open(store: Arc<dyn Store>, key: &str, options: FileOptions, torn: bool) -> Result<Opened> {
    let losses = Arc::new(if torn { Losses::of_torn() } else { Losses::default() });
    let source = Source::new(store, key, 0)?;
    let found = superblock::find(source.store().as_ref(), key, source.size())?;
    let source = source.with_base(found.unwrap_or(0)).with_format(Sizes { offset: 8, length: 8 }, true);
    let parsed = match found {
        Some(_) => source.parse("superblock", 0, 128, Superblock::parse),
        None => Err(source.invalid("it has no superblock: the names of its objects are lost")),
    };
    let source = source.with_losses(losses.clone());
    let (mut superblock, has_superblock) = match parsed {
        Ok(superblock) => (superblock, true),
        Err(error) => {
            source.lose(error)?;
            (nothing(), false)
        }
    };
    let is_marked = superblock.writing || superblock.swmr;
    // Nobody writes it now: a structure that is not whole is not read again.
    (superblock.writing, superblock.swmr) = (false, false);
    if superblock.driver.is_some() {
        return Err(source.unsupported("the salvage of a file in several parts".into()));
    }
    let source = source.with_format(superblock.sizes, true);
    let end = superblock.end_from(source.base()).unwrap_or(source.size()).saturating_sub(source.base());
    let (source, is_ours) = match redo::pending(&source, end)? {
        switches if switches.is_empty() => {
            let is_ours = redo::read_slot(&source, end)?.is_some();
            (source, is_ours)
        }
        switches => (source.with_instead(redo::instead(switches)), true),
    };
    let file = File::assemble(source, superblock, options, None);
    let superblock = match has_superblock {
        true => read_unclosed(&file)?,
        false => crate::superblock::build_old(0, 0, 0, None),
    };
    Ok(Opened { file, losses, superblock, has_superblock, is_marked, is_ours })
}

/// A superblock for a file that has lost its own.
fn nothing() -> Superblock {
    Superblock {
        sizes: Sizes { offset: 8, length: 8 },
        base: 0,
        end: None,
        root: u64::MAX,
        extension: None,
        driver: None,
        writing: false,
        swmr: false,
    }
}
