//! Opens files for changes.

use super::space::Space;
use super::{Editing, Edits, NewFile, free_space, redo, superblock};
use crate::new_file::{NewKind, NewObject};
use crate::output::NEW_SIZES;
use crate::{File, FileOptions, Hdf5Error, Libver, Result, Source};
use hyperslab_store::EditedFile;
use hyperslab_store::fork::Mutex;
use std::sync::Arc;

/// Completes the changes of a writer that was killed.
fn complete(bytes: &Arc<EditedFile>, base: u64, end: u64, verify: bool) -> Result<()> {
    let source = Source::new(bytes.clone(), bytes.key(), base)?.with_format(NEW_SIZES, verify);
    let switches = redo::pending(&source, end)?;
    if switches.is_empty() {
        return Ok(());
    }
    for switch in switches {
        bytes.write_at(base.saturating_add(switch.address), &switch.new)?;
    }
    bytes.sync()?;
    let slot = base.saturating_add(end).saturating_sub(redo::SLOT);
    Ok(bytes.write_at(slot, &redo::build_slot(redo::Slot::Clean))?)
}
impl File {
    /// Makes a new file in `bytes`, which must be empty. It has its name, and is a file for others,
    /// from its first [`Editing::flush`] on.
    pub fn create(bytes: Arc<EditedFile>, new: NewFile, options: FileOptions) -> Result<File> {
        let source = Source::new(bytes.clone(), bytes.key(), new.user_block)?;
        let len = match new.libver {
            Libver::Earliest => crate::superblock::OLD_LEN,
            Libver::V110 => crate::superblock::NEW_LEN,
        };
        let mut space = Space::new(len as u64);
        let no_space = || source.invalid("a file without space");
        let root = space.take_header().ok_or_else(no_space)?;
        source.grow(space.used());
        let place = superblock::Place::new(new.user_block, root, new.libver);
        let mut edits = Edits::new(bytes, new.libver, 0, place, true);
        edits.space = Mutex::new(space);
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
        if let Some(extension) = superblock.extension {
            let header = read.header(extension)?;
            for (kind, what) in [
                (0x0f, "a file with a table of shared messages"),
                (0x13, "a file with B-tree nodes of other sizes"),
                (0x14, "a file that is split into several files"),
                (0x17, "a file that keeps a list of its free space, or has pages,"),
                (0x18, "a file with a metadata cache image"),
            ] {
                if header.message(kind).is_some() {
                    return Err(refuse(what));
                }
            }
        }
        let place = superblock::Place::read(source)?.map_err(|what| refuse(&what))?;
        let end = superblock.end_from(source.base()).unwrap_or(source.size());
        let end = end.saturating_sub(source.base());
        complete(&bytes, source.base(), end, options.verify)?;
        let new = Source::new(bytes.clone(), bytes.key(), source.base())?;
        let new = new.with_format(superblock.sizes, options.verify);
        // A file of a killed writer has room behind its end, whose bytes are not zero.
        let used = end.max(new.end());
        let free = match bytes.was_alone() {
            true => free_space::take(&bytes, &new, end)?,
            false => Vec::new(),
        };
        let edits = Edits::new(bytes, libver, used, place, false);
        edits.space.lock().add_free(free);
        edits.space.lock().has_bytes_up_to(source.size().saturating_sub(source.base()));
        Ok(File::assemble(new, superblock, options, Some(Arc::new(edits))))
    }

    /// Returns the file as one that can be changed. `None`: it was opened for reading.
    pub fn editing(&self) -> Option<Editing> {
        self.inner.edits.clone().map(|edits| Editing { file: self.clone(), edits })
    }
}
