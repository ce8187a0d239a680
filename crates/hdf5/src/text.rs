//! Names from files, which should be UTF-8 and need not be.

use std::fmt::Write;

/// Text of any bytes: those that are not UTF-8 become `\xNN`, so that different names stay different.
pub fn lossless(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::lossless;

    #[test]
    fn wrong_bytes_are_shown() {
        assert_eq!(lossless("Größe".as_bytes()), "Größe");
        assert_eq!(lossless(b"gr\xf6\xdfe\xc3"), "gr\\xf6\\xdfe\\xc3");
    }
}
