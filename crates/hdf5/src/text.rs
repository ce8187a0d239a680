//! Names as text.

/// Converts bytes to text. Invalid UTF-8 bytes become `\xNN`, so different bytes stay different.
pub fn lossless(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::lossless;

    #[test]
    fn wrong_bytes_are_shown() {
        assert_eq!(lossless("température".as_bytes()), "température");
        assert_eq!(lossless(b"temp\xe9rature\xff\xfe"), r"temp\xe9rature\xff\xfe");
        assert_eq!(lossless(b""), "");
    }
}
