//! The times of an object: when it was made, and when it was changed.
//!
//! Specification IV.A.2.s, "The Object Modification Time Message". Headers of version 2 have the times
//! in front of their messages, and this message only in files of old libraries.

use crate::output::Output;
use crate::{Cursor, Parsed};

pub const KIND: u16 = 0x12;

/// Parses the message: seconds since 1970.
pub fn parse(cursor: &mut Cursor<'_>) -> Parsed<u32> {
    cursor.version("object modification time message", &[1])?;
    cursor.skip(3)?;
    cursor.u32()
}

/// Builds the message.
pub(crate) fn build(seconds: u32) -> Vec<u8> {
    Output::new().u8(1).zeros(3).u32(seconds).take()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SIZES, needs_all};

    #[test]
    fn what_is_built_is_parsed() {
        let built = build(1_795_828_114);
        let parse = |bytes: &[u8]| parse(&mut Cursor::whole(bytes, 0, SIZES));
        assert_eq!(parse(&built), Ok(1_795_828_114));
        needs_all(&built, parse);
    }
}
