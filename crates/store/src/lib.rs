//! Byte ranges of keyed objects.
//!
//! A [`Store`] maps keys (`"temperature/c/0/1"`) to whole objects (bytes). It knows nothing about
//! arrays. The engine reads exact byte ranges, many at once, into its own memory. It replaces whole
//! objects atomically: a reader sees the old object or the new one, never a mixture, and a writer
//! that dies leaves the old one.
//!
//! [`Store`] says which methods a new store needs. [`Facts`] and [`Cost`] describe a store. [`Many`],
//! [`Writers`], [`OnDisk`] and [`Holds`] are what only some stores can do.
//!
//! [`LocalStore`] keeps objects as files below a directory, [`MemoryStore`] in memory.
//! [`FileStore`] reads one file that stays open. [`SegmentStore`] reads one object assembled from
//! parts of other objects. [`ZipStore`] serves the members of a zip archive, which is an object in
//! any other store. [`contract`] is the test suite that every store must pass. Read-only stores
//! pass its reading half.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod checks;
pub mod contract;
mod cost;
mod descriptors;
mod edited;
pub mod ending;
mod error;
mod facts;
pub mod fork;
mod gathered;
mod hash;
mod holds;
mod key;
mod local;
mod lock;
mod many;
mod mark;
mod memory;
mod note;
mod on_disk;
mod opened;
mod opening;
mod replacement;
mod segments;
mod spooled;
mod staged;
mod stamp;
mod store;
pub mod turns;
pub mod waiters;
pub mod waiting;
mod write_notes;
mod writers;
mod zip;

pub use checks::turn;
pub use cost::Cost;
pub use edited::{Change, ChangeLock, EditedFile, EditedOptions};
pub use error::{BrokenReference, Operation, Refusal, Result, StoreError, Unread};
pub use facts::Facts;
pub use holds::{HeldObject, Holds};
pub use key::{Key, common_folder};
pub use local::{
    FileStore, LocalOptions, LocalStore, is_dead_stage, move_dead_stage, part_beside, remove_parts,
    replace_directory,
};
pub use lock::{Expected, ObjectLock, Version};
pub use many::{EachListed, Listing, Many};
pub use mark::Mark;
pub use memory::MemoryStore;
pub use note::Note;
pub use on_disk::{Identity, OnDisk};
pub use opened::{Lent, Opened, RangeRead};
pub use opening::{Begun, EachOpened, Further, Next, Opening};
pub use replacement::Replacement;
pub use segments::{Segment, SegmentStore};
pub use spooled::Destination;
pub use staged::Staged;
pub use stamp::{SharedStamp, Stamp, Stamped};
pub use store::{Entry, Store};
pub use turns::Ask;
pub use write_notes::{WriteNote, WriteNotes};
pub use writers::{Look, Still, Writers};
pub use zip::{ZipError, ZipMode, ZipStore};

pub(crate) use checks::{check_ask, check_size};
