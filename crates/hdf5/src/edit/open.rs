//! Opens files for changes.

use super::shared::{State, complete};
use super::space::Space;
use super::{Editing, Edits, NewFile, paged, superblock};
use crate::new_file::{NewKind, NewObject};
use crate::superblock::NEW_LEN;
use crate::{File, FileOptions, Hdf5Error, Libver, Result, Source};
use hyperslab_store::EditedFile;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl File {
    /// Makes a new file in `bytes`, which must be empty. It has its name, and is a file for others,
    /// from its first [`Editing::flush`] on.
    pub fn create(bytes: Arc<EditedFile>, new: NewFile, options: FileOptions) -> Result<File> {
        let source = Source::new(bytes.clone(), bytes.key(), new.user_block)?;
        let recorded = new.space.map(|space| superblock::recorded(space, new.libver)).transpose();
        let recorded = recorded.map_err(|why| source.unsupported(why.0))?.unwrap_or_default();
        let len = match new.libver {
            Libver::Earliest if recorded.is_empty() => crate::superblock::OLD_LEN,
            _ => crate::superblock::NEW_LEN + recorded.len(),
        };
        let mut space = Space::new(len as u64);
        let no_space = || source.invalid("a file without space");
        let root = space.take_header().ok_or_else(no_space)?;
        source.grow(space.used());
        let place = superblock::Place::new(new.user_block, root, new.libver, &recorded);
        let edits = Edits::new(bytes, new.libver, space, place, true);
        let superblock = crate::superblock::Superblock {
            sizes: source.sizes(),
            base: new.user_block,
            end: None,
            root,
            extension: None,
            driver: None,
            writing: false,
            swmr: false,
        };
        let file = File::assemble(source, superblock, options, Some(Arc::new(edits)));
        if let Some(editing) = file.editing() {
            let kind = NewKind::Group { links: Vec::new(), tracks_links: new.track_order };
            let group = NewObject {
                path: String::new(),
                kind,
                attributes: Vec::new(),
                tracks_attributes: new.track_order,
            };
            let mut object = editing.object_of(&group, root)?;
            object.links_to = 1;
            editing.edits.objects.lock().insert(root, object);
        }
        Ok(file)
    }

    /// Opens a file to change it.
    ///
    /// Fails like [`File::open`], and with [`Hdf5Error::Unsupported`] for a file that could not be
    /// changed without damage.
    pub fn edit(bytes: Arc<EditedFile>, libver: Libver, options: FileOptions) -> Result<File> {
        let read = File::open(bytes.clone(), bytes.key(), options.clone())?;
        let (superblock, source) = (read.inner.superblock.clone(), read.source());
        let refuse = |what: &str| source.unsupported(format!("changing {what}"));
        if superblock.driver.is_some() {
            return Err(refuse("a file that is split into several files"));
        }
        if superblock.writing || superblock.swmr {
            return Err(Hdf5Error::Unclosed { file: source.name() });
        }
        let mut pages = None;
        if let Some(extension) = superblock.extension {
            let header = read.header(extension)?;
            for (kind, what) in [
                (0x0f, "a file with a table of shared messages"),
                (0x13, "a file with B-tree nodes of other sizes"),
                (0x14, "a file that is split into several files"),
                (0x18, "a file with a metadata cache image"),
            ] {
                if header.message(kind).is_some() {
                    return Err(refuse(what));
                }
            }
            pages = paged::of(&header).map_err(refuse)?;
        }
        let place = superblock::Place::read(source)?.map_err(|what| refuse(&what))?;
        let end = superblock.end_from(source.base()).unwrap_or(source.size());
        let end = end.saturating_sub(source.base());
        // New structures are written behind the end. They must not replace the superblock or the root.
        if end <= superblock.root.max(NEW_LEN as u64) {
            return Err(refuse(&format!(
                "a file that says that it ends at byte {end}, before its root group"
            )));
        }
        complete(&bytes, source.base(), end, options.verify)?;
        let len = bytes.len()?.saturating_sub(source.base());
        let state = State::read(&bytes, source.base(), end)?.with_all_bytes(len);
        let new = Source::new(bytes.clone(), bytes.key(), source.base())?;
        let new = new.with_format(superblock.sizes, options.verify);
        let edits = Edits::new(bytes.clone(), libver, Space::shared(state.used()), place, false);
        edits.generation.store(state.generation(), Ordering::Release);
        *edits.paged.lock() = pages;
        if bytes.was_alone() {
            *edits.list.lock() = state.slot.and_then(|slot| slot.free);
        }
        bytes.end_opening();
        Ok(File::assemble(new, superblock, options, Some(Arc::new(edits))))
    }

    /// Returns the file as one that can be changed. `None`: it was opened for reading.
    pub fn editing(&self) -> Option<Editing> {
        self.inner.edits.clone().map(|edits| Editing { file: self.clone(), edits })
    }
}
