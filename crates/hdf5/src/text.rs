//! Names from files: text that ought to be UTF-8.

/// The bytes as text. Each byte that is not UTF-8 becomes `\xNN`, so that different names stay different.
pub fn lossless(bytes: &[u8]) -> String {
    let mut text = String::new();
    for part in bytes.utf8_chunks() {
        text.push_str(part.valid());
        text.extend(part.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    text
}
