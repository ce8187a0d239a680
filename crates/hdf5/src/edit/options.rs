//! Options of new objects: committed types, times, elements in other files.

use super::links::message_of;
use super::{Editing, committed};
use crate::data_layout;
use crate::heaps::build_local_heap;
use crate::messages::{external_files, times};
use crate::new_file::NewObject;
use crate::object_header::{NewMessage, TIMES};
use crate::{Result, object_header};

/// Options of a new object.
#[derive(Clone, Debug, Default)]
pub struct ObjectOptions {
    /// The header of the committed type that a dataset refers to.
    pub committed: Option<u64>,
    /// When it is made, in seconds since 1970. `None`: it has no times.
    pub made: Option<u32>,
    /// The files with the elements of a contiguous dataset: name, first byte, bytes (`None`: up to
    /// the end).
    pub external: Vec<(String, u64, Option<u64>)>,
}

impl Editing {
    /// Makes an object like [`Editing::create_object`].
    pub fn create_object_with(&self, object: &NewObject, options: &ObjectOptions) -> Result<u64> {
        let address = self.create_object(object)?;
        let external = self.place_external(&options.external)?;
        self.change(address, |object| {
            if let Some(committed) = options.committed {
                committed::refer(&mut object.messages, committed);
            }
            if let Some((heap, slots)) = external {
                let data = external_files::build(heap, &slots)?;
                let message = message_of(NewMessage { kind: external_files::KIND, constant: true, data });
                let layout = object.messages.iter().position(|message| message.kind == data_layout::KIND);
                object.messages.insert(layout.unwrap_or_default(), message);
            }
            match options.made {
                Some(made) if object.prefix.version == 2 => {
                    object.prefix.flags |= TIMES;
                    object.prefix.extra = made.to_le_bytes().repeat(4);
                }
                // Old groups have no times.
                Some(made) if !object.is_group() => {
                    let data = times::build(made);
                    object.messages.push(message_of(NewMessage { kind: times::KIND, constant: false, data }));
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(address)
    }

    /// Writes the names of external files. Returns the address of their heap, and the slots.
    #[allow(clippy::type_complexity)]
    fn place_external(
        &self,
        files: &[(String, u64, Option<u64>)],
    ) -> Result<Option<(u64, Vec<(u64, u64, Option<u64>)>)>> {
        if files.is_empty() {
            return Ok(None);
        }
        let names: Vec<&[u8]> = files.iter().map(|(name, ..)| name.as_bytes()).collect();
        // The length does not depend on the place.
        let len = build_local_heap(0, &names).0.len() as u64;
        let heap = self.allocate(len)?;
        let (bytes, places) = build_local_heap(heap, &names);
        self.write(heap, &[&bytes])?;
        let slots = places.iter().zip(files).map(|(place, (_, offset, len))| (*place, *offset, *len));
        Ok(Some((heap, slots.collect())))
    }

    /// Notes that the elements of a dataset were changed in other files.
    pub fn touch_external(&self, dataset: u64) -> Result<()> {
        self.update(dataset, |object| object.version += 1)
    }
}

impl super::Object {
    /// Sets the time of the last change, if the object keeps it.
    pub(super) fn touch(&mut self, now: impl Fn() -> u32) {
        let mut is_touched = false;
        if self.prefix.version == 2
            && self.prefix.flags & TIMES != 0
            && let Some(extra) = self.prefix.extra.first_chunk_mut::<{ object_header::TIMES_LEN }>()
        {
            // Access, modification, change, birth. The HDF5 library sets two of them.
            let now = now().to_le_bytes();
            extra[..4].copy_from_slice(&now);
            extra[8..12].copy_from_slice(&now);
            is_touched = true;
        }
        if let Some(message) = self.messages.iter_mut().find(|message| message.kind == times::KIND) {
            message.data = times::build(now()).into();
            is_touched = true;
        }
        if is_touched {
            self.show();
        }
    }
}
