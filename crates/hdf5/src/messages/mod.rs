//! Object header messages (specification IV.A.2).
//!
//! Each message that is read here has one file, and one line below that names the file. The file
//! has the message's type number (`KIND`) and its parser. [`File::message`](crate::File) reads the
//! message. The datatype message is a separate module, [`datatype`](crate::datatype). Driver
//! information is with the [superblock](crate::superblock).

pub mod attribute;
pub mod data_layout;
pub mod dataspace;
pub mod external_files;
pub mod fill_value;
pub mod filter;
pub mod link;
pub mod shared;
pub mod times;

use crate::output::NEW_SIZES;
use crate::{Bytes, Cursor};
use shared::Shared;

/// An empty message: its bytes are free.
pub const NIL: u16 = 0x00;
/// Points to more messages elsewhere ([`object_header`](crate::object_header)).
pub const CONTINUATION: u16 = 0x10;

/// Returns the specification's name of a message. `None`: there is no such type.
pub fn name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        NIL => "NIL message",
        0x01 => "dataspace message",
        0x02 => "link info message",
        0x03 => "datatype message",
        0x04 => "fill value (old) message",
        0x05 => "fill value message",
        0x06 => "link message",
        0x07 => "external data files message",
        0x08 => "data layout message",
        0x09 => "bogus message",
        0x0a => "group info message",
        0x0b => "filter pipeline message",
        0x0c => "attribute message",
        0x0d => "object comment message",
        0x0e => "object modification time (old) message",
        0x0f => "shared message table message",
        CONTINUATION => "object header continuation message",
        0x11 => "symbol table message",
        0x12 => "object modification time message",
        0x13 => "B-tree K values message",
        0x14 => "driver info message",
        0x15 => "attribute info message",
        0x16 => "object reference count message",
        0x17 => "file space info message",
        0x18 => "metadata cache image message",
        _ => return None,
    })
}

/// A message of an object header, not yet parsed.
#[derive(Clone, Debug)]
pub struct Message {
    pub kind: u16,
    /// Bit 1: the message is shared, and the bytes say where it is ([`shared`]).
    pub flags: u8,
    /// Creation order among the attributes of the object, if the object keeps it.
    pub creation: Option<u16>,
    /// Address of the first byte.
    pub address: u64,
    pub data: Bytes,
}

impl Message {
    /// Returns `true` if the bytes only refer to a shared message.
    pub fn is_shared(&self) -> bool {
        self.flags & 2 != 0
    }

    /// Returns the header of the committed type that a datatype message refers to. `None`: it is the
    /// type itself.
    pub(crate) fn committed_type(&self) -> Option<u64> {
        match self.is_shared().then(|| Shared::parse(&mut Cursor::whole(&self.data, 0, NEW_SIZES)))? {
            Ok(Shared::Header(address)) => Some(address),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Builder, fails, link_info, open};
    use crate::{Cursor, File, Parsed, Result};

    /// A message that is not read yet, with everything that its file would contain.
    mod object_comment {
        use super::*;

        pub const KIND: u16 = 0x0d;

        pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<String> {
            let mut text = Vec::new();
            loop {
                match cursor.u8()? {
                    0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
                    byte => text.push(byte),
                }
            }
        }
    }

    fn comment(bytes: &[u8]) -> Result<Option<String>> {
        let mut builder = Builder::new();
        let root = builder.header(&[link_info(false), (object_comment::KIND, bytes.to_vec())]);
        let file: File = open(&builder.finish(root, 2, 0))?;
        file.message(&*file.header(root)?, object_comment::KIND, object_comment::parse)
    }

    /// A new message needs nothing else: no table of numbers, no match, no other name.
    #[test]
    fn a_new_message_is_a_file_and_a_line() {
        assert_eq!(comment(b"hello\0").unwrap().unwrap(), "hello");
        fails(comment(b"hello"), "object comment message");

        let this = include_str!("mod.rs").split("#[cfg(test)]").next().unwrap();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/messages");
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let name = name.strip_suffix(".rs").unwrap();
            if name != "mod" {
                let lines: Vec<&str> = this.lines().filter(|line| line.contains(name)).collect();
                assert!(lines.contains(&format!("pub mod {name};").as_str()), "{name}: {lines:?}");
                files += 1;
            }
        }
        assert_eq!(files, this.lines().filter(|line| line.starts_with("pub mod ")).count());
    }
}
