//! Pictures as PNG: 8-bit colours, without anything else.
//!
//! Source: <https://www.w3.org/TR/png-3/>

use crate::{Error, Result};
use crc_fast::{CrcAlgorithm, checksum};
use hyperslab_codec::{Codec, Scratch, Zlib};

/// A colour: red, green, blue.
pub(crate) type Color = [u8; 3];

/// A picture.
#[derive(Clone, Debug)]
pub(crate) struct Canvas {
    width: usize,
    height: usize,
    /// Rows from top to bottom.
    pixels: Vec<Color>,
}

impl Canvas {
    pub(crate) fn new(width: usize, height: usize, color: Color) -> Self {
        Canvas { width, height, pixels: vec![color; width * height] }
    }

    /// Colours a pixel. Does nothing outside the picture.
    pub(crate) fn set(&mut self, x: usize, y: usize, color: Color) {
        if x < self.width && y < self.height {
            self.pixels[y * self.width + x] = color;
        }
    }

    /// The colour of a pixel.
    #[cfg(test)]
    pub(crate) fn at(&self, x: usize, y: usize) -> Color {
        self.pixels[y * self.width + x]
    }

    /// Writes text of the characters in [`glyph`]. `x`, `y`: its left upper corner.
    pub(crate) fn text(&mut self, x: usize, y: usize, text: &str, color: Color) {
        for (n, character) in text.chars().enumerate() {
            for (row, bits) in glyph(character).into_iter().enumerate() {
                for column in (0..3).filter(|column| bits >> (2 - column) & 1 == 1) {
                    for (dx, dy) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                        self.set(x + (4 * n + column) * 2 + dx, y + row * 2 + dy, color);
                    }
                }
            }
        }
    }

    /// The picture as PNG.
    pub(crate) fn to_png(&self) -> Result<Vec<u8>> {
        let mut rows = Vec::with_capacity(self.height * (3 * self.width + 1));
        for row in self.pixels.chunks(self.width.max(1)) {
            // No filter.
            rows.push(0);
            row.iter().for_each(|color| rows.extend(color));
        }
        let mut stream = Vec::new();
        Zlib { level: 6 }
            .encode(&rows, &mut stream, &mut Scratch::default())
            .map_err(|error| Error::Options(format!("cannot compress the picture: {error}")))?;
        let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
        let mut header = Vec::new();
        for len in [self.width, self.height] {
            header.extend(u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
        }
        // 8 bits; red, green and blue; deflate; adaptive filters; not interlaced.
        header.extend([8, 2, 0, 0, 0]);
        for (kind, data) in [(b"IHDR", header), (b"IDAT", stream), (b"IEND", Vec::new())] {
            let named = [kind.as_slice(), &data].concat();
            png.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
            png.extend(&named);
            png.extend((checksum(CrcAlgorithm::Crc32IsoHdlc, &named) as u32).to_be_bytes());
        }
        Ok(png)
    }
}

/// Width and height in pixels of text with this many characters.
pub(crate) fn text_size(characters: usize) -> (usize, usize) {
    ((4 * characters).saturating_sub(1) * 2, 10)
}

/// A character as five rows of three bits. Unknown characters are blank.
fn glyph(character: char) -> [u8; 5] {
    match character {
        '0' => [7, 5, 5, 5, 7],
        '1' => [2, 6, 2, 2, 7],
        '2' => [7, 1, 7, 4, 7],
        '3' => [7, 1, 7, 1, 7],
        '4' => [5, 5, 7, 1, 1],
        '5' => [7, 4, 7, 1, 7],
        '6' => [7, 4, 7, 5, 7],
        '7' => [7, 1, 2, 2, 2],
        '8' => [7, 5, 7, 5, 7],
        '9' => [7, 5, 7, 1, 7],
        'A'..='D' | 'F'..='Z' => glyph(character.to_ascii_lowercase()),
        'e' => [0, 7, 7, 4, 7],
        'E' => [7, 4, 6, 4, 7],
        'a' => [2, 5, 7, 5, 5],
        'b' => [6, 5, 6, 5, 6],
        'c' => [3, 4, 4, 4, 3],
        'd' => [6, 5, 5, 5, 6],
        'f' => [7, 4, 6, 4, 4],
        'g' => [3, 4, 5, 5, 3],
        'h' => [5, 5, 7, 5, 5],
        'i' => [7, 2, 2, 2, 7],
        'j' => [1, 1, 1, 5, 2],
        'k' => [5, 5, 6, 5, 5],
        'l' => [4, 4, 4, 4, 7],
        'm' => [5, 7, 7, 5, 5],
        'n' => [6, 5, 5, 5, 5],
        'o' => [2, 5, 5, 5, 2],
        'p' => [6, 5, 6, 4, 4],
        'q' => [2, 5, 5, 6, 3],
        'r' => [6, 5, 6, 5, 5],
        's' => [3, 4, 2, 1, 6],
        't' => [7, 2, 2, 2, 2],
        'u' => [5, 5, 5, 5, 7],
        'v' => [5, 5, 5, 5, 2],
        'w' => [5, 5, 7, 7, 5],
        'x' => [5, 5, 2, 5, 5],
        'y' => [5, 5, 2, 2, 2],
        'z' => [7, 1, 2, 4, 7],
        '/' => [1, 1, 2, 4, 4],
        '_' => [0, 0, 0, 0, 7],
        ':' => [0, 2, 0, 2, 0],
        ',' => [0, 0, 0, 2, 4],
        '-' => [0, 0, 7, 0, 0],
        '+' => [0, 2, 7, 2, 0],
        '.' => [0, 0, 0, 0, 2],
        _ => [0; 5],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_differ() {
        let all = ('a'..='z').chain('0'..='9').chain("/_:,-+.".chars());
        let glyphs: std::collections::BTreeSet<[u8; 5]> = all.clone().map(glyph).collect();
        // Zero and o, one and i, five and s are told apart, too.
        assert_eq!(glyphs.len(), all.count());
        assert_eq!(glyph('Q'), glyph('q'));
    }

    #[test]
    fn pictures_are_png() {
        let mut canvas = Canvas::new(3, 2, [1, 2, 3]);
        canvas.set(2, 1, [9, 8, 7]);
        canvas.set(3, 0, [0; 3]);
        let png = canvas.to_png().unwrap();
        assert_eq!(&png[..16], b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
        assert_eq!(&png[16..29], [0, 0, 0, 3, 0, 0, 0, 2, 8, 2, 0, 0, 0]);
        // The end of every PNG.
        assert_eq!(&png[png.len() - 12..], b"\0\0\0\0IEND\xae\x42\x60\x82");
        let len = u32::from_be_bytes(png[33..37].try_into().unwrap()) as usize;
        let mut rows = [0; 20];
        Zlib { level: 6 }.decode(&png[41..41 + len], &mut rows, &mut Scratch::default()).unwrap();
        assert_eq!(rows, [0, 1, 2, 3, 1, 2, 3, 1, 2, 3, 0, 1, 2, 3, 1, 2, 3, 9, 8, 7]);
    }
}
