//! Parsers of journals as functions of bytes alone, for the fuzz target `journals`.

use crate::repair::parse_journal;
use crate::validate::parse_journal as parse_checked;

/// Parses bytes as the journal of a repair, and as one of a validation.
pub fn journals(bytes: &[u8]) {
    let _ = parse_journal(bytes);
    let _ = parse_checked(bytes);
}
