//! Draws pictures, and writes them as PNG: 8-bit colours, without anything else.
//!
//! Source: <https://www.w3.org/TR/png-3/>

use super::colors::Color;
use crate::{Error, Result};
use crc_fast::{CrcAlgorithm, checksum};
use hyperslab_codec::{Codec, Scratch, Zlib};

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

    /// The colour of a pixel.
    #[cfg(test)]
    pub(crate) fn at(&self, x: usize, y: usize) -> Color {
        self.pixels[y * self.width + x]
    }

    /// Colours a box. Does nothing outside the picture.
    pub(crate) fn fill(&mut self, left: usize, top: usize, width: usize, height: usize, color: Color) {
        for y in top..top.saturating_add(height).min(self.height) {
            (left..left.saturating_add(width).min(self.width)).for_each(|x| self.set(x, y, color));
        }
    }

    /// The rows from top to bottom.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &[Color]> {
        self.pixels.chunks(self.width.max(1))
    }

    /// The picture as PNG.
    pub(crate) fn to_png(&self) -> Result<Vec<u8>> {
        encode_png(self.width, &self.pixels)
    }
}

/// Pixels, in rows from top to bottom, as PNG. A pixel is red, green and blue, and maybe an opacity.
///
/// Fails if the pixels do not compress.
pub fn encode_png<const N: usize>(width: usize, pixels: &[[u8; N]]) -> Result<Vec<u8>> {
    let height = pixels.len() / width.max(1);
    let mut rows = Vec::with_capacity(height * (N * width + 1));
    for row in pixels.chunks(width.max(1)) {
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
    for len in [width, height] {
        header.extend(u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
    }
    // 8 bits; red, green and blue, and maybe alpha; deflate; adaptive filters; not interlaced.
    header.extend([8, if N == 4 { 6 } else { 2 }, 0, 0, 0]);
    for (kind, data) in [(b"IHDR", header), (b"IDAT", stream), (b"IEND", Vec::new())] {
        let named = [kind.as_slice(), &data].concat();
        png.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
        png.extend(&named);
        png.extend((checksum(CrcAlgorithm::Crc32IsoHdlc, &named) as u32).to_be_bytes());
    }
    Ok(png)
}

/// Width and height in pixels of text with this many characters.
pub(crate) fn text_size(characters: usize) -> (usize, usize) {
    ((4 * characters).saturating_sub(1) * 2, 10)
}

/// A number of at most ten characters.
pub(crate) fn label(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".into();
    }
    if (1e-3..1e6).contains(&size) {
        let text = format!("{value:.*}", if size < 10.0 { 4 } else { 1 });
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{value:.2e}")
}

/// A character as five rows of three bits. Unknown characters are blank.
fn glyph(character: char) -> [u8; 5] {
    match character.to_ascii_uppercase() {
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
        'A' => [2, 5, 7, 5, 5],
        'B' => [6, 5, 6, 5, 6],
        'C' => [3, 4, 4, 4, 3],
        'D' => [6, 5, 5, 5, 6],
        'E' => [7, 4, 6, 4, 7],
        'F' => [7, 4, 6, 4, 4],
        'G' => [3, 4, 5, 5, 3],
        'H' => [5, 5, 7, 5, 5],
        'I' => [7, 2, 2, 2, 7],
        'J' => [1, 1, 1, 5, 2],
        'K' => [5, 5, 6, 5, 5],
        'L' => [4, 4, 4, 4, 7],
        'M' => [5, 7, 7, 5, 5],
        'N' => [6, 5, 5, 5, 5],
        'O' => [2, 5, 5, 5, 2],
        'P' => [6, 5, 6, 4, 4],
        'Q' => [2, 5, 5, 6, 3],
        'R' => [6, 5, 6, 5, 5],
        'S' => [3, 4, 2, 1, 6],
        'T' => [7, 2, 2, 2, 2],
        'U' => [5, 5, 5, 5, 7],
        'V' => [5, 5, 5, 5, 2],
        'W' => [5, 5, 7, 7, 5],
        'X' => [5, 5, 2, 5, 5],
        'Y' => [5, 5, 2, 2, 2],
        'Z' => [7, 1, 2, 4, 7],
        '-' => [0, 0, 7, 0, 0],
        '+' => [0, 2, 7, 2, 0],
        '.' => [0, 0, 0, 0, 2],
        ',' => [0, 0, 0, 2, 4],
        ':' => [0, 2, 0, 2, 0],
        '/' => [1, 1, 2, 4, 4],
        '=' => [0, 7, 0, 7, 0],
        '_' => [0, 0, 0, 0, 7],
        '[' => [6, 4, 4, 4, 6],
        ']' => [3, 1, 1, 1, 3],
        '(' => [1, 2, 2, 2, 1],
        ')' => [4, 2, 2, 2, 4],
        '%' => [5, 1, 2, 4, 5],
        '*' => [0, 5, 2, 5, 0],
        _ => [0; 5],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short() {
        for (value, text) in
            [(0.0, "0"), (-273.15, "-273.1"), (0.5, "0.5"), (1234567.0, "1.23e6"), (-1e-9, "-1.00e-9")]
        {
            assert_eq!(label(value), text);
        }
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
