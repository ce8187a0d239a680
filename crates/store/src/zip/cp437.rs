//! Code page 437, the encoding of zip names that are not marked as UTF-8 (appendix D).

/// The characters of the bytes 128 to 255.
const UPPER: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// Decodes text. Bytes below 128 are ASCII.
pub(super) fn decode(bytes: &[u8]) -> String {
    let upper: Vec<char> = UPPER.chars().collect();
    let one = |byte: &u8| match byte.checked_sub(128) {
        None => char::from(*byte),
        Some(place) => upper.get(usize::from(place)).copied().unwrap_or(char::REPLACEMENT_CHARACTER),
    };
    bytes.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::{UPPER, decode};

    /// Values from Python's codec.
    #[test]
    fn characters() {
        assert_eq!(UPPER.chars().count(), 128);
        assert_eq!(decode(b"a/\x80\x81\x9b\xb0\xe1\xe3\xfe\xff"), "a/Çü¢░ßπ■\u{a0}");
    }
}
