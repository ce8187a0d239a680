//! Finds and parses messages of object headers.
//!
//! A message may be in the header itself, in another object's header (a committed datatype), or in
//! a heap that objects share. See "Shared Message", IV.A.2 and III.G of the HDF5 file format.

use crate::messages::{self, Message, shared};
use crate::object_header::ObjectHeader;
use crate::{Cursor, File, Parsed, Result};

/// Longest chain of shared messages that point to each other.
const SHARED_DEPTH: usize = 4;

impl File {
    /// Returns the parsed message of a kind. `None`: the header does not have it.
    pub(crate) fn message<T>(
        &self,
        header: &ObjectHeader,
        kind: u16,
        parse: impl FnOnce(&mut Cursor<'_>) -> Parsed<T>,
    ) -> Result<Option<T>> {
        header.message(kind).map(|message| self.parse(message, parse)).transpose()
    }

    /// Parses a message, which may be shared.
    pub(crate) fn parse<T>(
        &self,
        message: &Message,
        parse: impl FnOnce(&mut Cursor<'_>) -> Parsed<T>,
    ) -> Result<T> {
        let message = &self.unshare(message)?;
        let mut cursor = self.source().cursor(&message.data, message.address);
        let name = messages::name(message.kind).unwrap_or("message");
        parse(&mut cursor).map_err(|why| self.source().structure_error(name, message.address, why))
    }

    /// Replaces a shared message by the message that it points to.
    pub(crate) fn unshare(&self, message: &Message) -> Result<Message> {
        let mut message = message.clone();
        for _ in 0..SHARED_DEPTH {
            if !message.is_shared() {
                return Ok(message);
            }
            let mut cursor = self.source().cursor(&message.data, message.address);
            let place = shared::Shared::parse(&mut cursor)
                .map_err(|why| self.source().structure_error("shared message", message.address, why))?;
            message = self.read_shared_message(message.kind, &place)?;
        }
        Err(self
            .source()
            .invalid(format!("the shared message at address {} leads in a circle", message.address)))
    }

    /// Reads a message of a kind from the place where objects share it.
    pub(crate) fn read_shared_message(&self, kind: u16, place: &shared::Shared) -> Result<Message> {
        let name = messages::name(kind).unwrap_or("message");
        match place {
            shared::Shared::Header(address) => {
                let header = self.header(*address)?;
                header.message(kind).cloned().ok_or_else(|| {
                    self.source().invalid(format!(
                        "expected a shared {name} in the object header at address {address}, found none"
                    ))
                })
            }
            shared::Shared::Heap(id) => {
                let address = self.shared_heap(kind)?.ok_or_else(|| {
                    self.source()
                        .invalid(format!("a {name} is shared, but the file has no heap of such messages"))
                })?;
                let data = self.heap(address)?.get(self.source(), id)?;
                Ok(Message { kind, flags: 0, creation: None, address, data })
            }
        }
    }
}
