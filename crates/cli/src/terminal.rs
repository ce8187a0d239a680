//! Pictures in a terminal.

use crate::show::escape;
use crate::style;
use crate::text;
use hyperslab::look::{Color, Picture};
use std::collections::BTreeMap;
use std::env;
use std::io::{self, IsTerminal, Write};

/// How to draw in a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Look {
    /// kitty or sixel where the terminal is known to understand it, otherwise blocks; shades where there
    /// are no colours.
    Auto,
    /// Half a character is a pixel, in 24-bit colour.
    Blocks,
    /// Pixels by the sixel protocol (xterm -ti vt340, foot, mlterm, WezTerm, Windows Terminal).
    Sixel,
    /// Pixels by kitty's protocol (kitty, Ghostty).
    Kitty,
    /// Characters without colours.
    Shades,
}

/// Characters from the smallest to the largest number.
const SHADES: [char; 10] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
/// Colours of a bar in blocks.
const BAR: usize = 24;
/// Bytes of a piece of an escape sequence of kitty.
const PIECE: usize = 4096;
/// Most colours that every terminal with sixel has.
const PALETTE: usize = 256;

impl Look {
    /// Chooses by the terminal.
    pub(crate) fn resolved(self) -> Look {
        if self != Look::Auto {
            return self;
        }
        if !io::stdout().is_terminal() || !style::wants_colors() {
            return Look::Shades;
        }
        let var = |name: &str| env::var(name).unwrap_or_default();
        by_names(&var("TERM"), &var("TERM_PROGRAM"), env::var_os("KITTY_WINDOW_ID").is_some())
    }

    /// Returns `true` if pixels are smaller than characters.
    pub(crate) fn has_pixels(self) -> bool {
        matches!(self, Look::Sixel | Look::Kitty)
    }
}

fn by_names(term: &str, program: &str, in_kitty: bool) -> Look {
    if in_kitty || term.contains("kitty") || term.contains("ghostty") || program == "ghostty" {
        return Look::Kitty;
    }
    let is_sixel = term.contains("sixel")
        || ["foot", "mlterm", "yaft"].iter().any(|name| term.starts_with(name))
        || program == "WezTerm";
    if is_sixel { Look::Sixel } else { Look::Blocks }
}

/// Pixels of a picture in blocks: two in each character, and lines for the legend.
pub(crate) fn picture_size() -> (usize, usize) {
    let lines = text::terminal_size().map_or(24, |(_, lines)| lines);
    (text::line_width().clamp(16, 200), lines.saturating_sub(6).clamp(8, 60) * 2)
}

/// Draws a picture of at most this size.
pub(crate) fn draw(
    picture: &Picture,
    title: &str,
    how: Look,
    (width, height): (usize, usize),
    out: &mut dyn Write,
) -> io::Result<()> {
    match how {
        Look::Sixel => return out.write_all(&sixel(&picture.titled(title, width, height))),
        Look::Kitty => {
            let png = picture.to_png(title, width, height).map_err(io::Error::other)?;
            return out.write_all(kitty(&png).as_bytes());
        }
        Look::Auto | Look::Blocks | Look::Shades => {}
    }
    let is_shaded = how == Look::Shades;
    writeln!(out, "{title}")?;
    let pixels = picture.pixels(width, height);
    let lines = if is_shaded { shades(picture, &pixels) } else { blocks(&pixels) };
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    let [missing, nan] = picture.absent_colors();
    let ends = [number(picture.low), number(picture.high)];
    if picture.is_line() {
        writeln!(out, "{} .. {}", ends[0], ends[1])?;
    } else {
        let bar: String = (0..BAR)
            .map(|n| {
                let share = n as f64 / (BAR - 1) as f64;
                let value = picture.low + (picture.high - picture.low) * share;
                match is_shaded {
                    true => SHADES[(share * 9.0).round() as usize].to_string(),
                    false => format!("{}█", escape(picture.color(value), false)),
                }
            })
            .collect();
        let end = if is_shaded { "" } else { "\x1b[0m" };
        write!(out, "{} {bar}{end} {}", ends[0], ends[1])?;
        for (color, name, mark) in [(missing, "missing", 'x'), (nan, "nan", '?')] {
            if let Some(color) = color {
                let mark =
                    if is_shaded { mark.to_string() } else { format!("{}█\x1b[0m", escape(color, false)) };
                write!(out, "   {mark} {name}")?;
            }
        }
        writeln!(out)?;
    }
    picture.axes.iter().try_for_each(|axis| writeln!(out, "{}", text::sanitize(axis)))
}

/// A number of few digits.
fn number(value: f64) -> String {
    crate::stats::format_number(value)
}

/// Two pixels in each character.
fn blocks(pixels: &[Vec<Option<Color>>]) -> Vec<String> {
    let rows = pixels.chunks(2).map(|pair| {
        let width = pair.first().map_or(0, Vec::len);
        let at = |row: usize, x: usize| pair.get(row).and_then(|row| row.get(x).copied().flatten());
        let (mut line, mut colors) = (String::new(), (None, None));
        for x in 0..width {
            let (character, front, back) = match (at(0, x), at(1, x)) {
                (None, None) => (' ', None, None),
                (Some(one), other) if Some(one) == other => ('█', Some(one), None),
                (Some(top), bottom) => ('▀', Some(top), bottom),
                (None, Some(bottom)) => ('▄', Some(bottom), None),
            };
            // Sequences are longer than characters: write them only where a colour changes.
            if colors != (front, back) {
                line.push_str("\x1b[0m");
                line.extend(front.map(|color| escape(color, false)));
                line.extend(back.map(|color| escape(color, true)));
                colors = (front, back);
            }
            line.push(character);
        }
        if colors != (None, None) {
            line.push_str("\x1b[0m");
        }
        line
    });
    rows.collect()
}

/// A character for two pixels, one above the other.
fn shades(picture: &Picture, pixels: &[Vec<Option<Color>>]) -> Vec<String> {
    // The colours tell the numbers, which a picture does not give away.
    let known: Vec<(Color, char)> = (0..=90)
        .map(|n| {
            let share = f64::from(n) / 90.0;
            let value = picture.low + (picture.high - picture.low) * share;
            (picture.color(value), SHADES[(share * 9.0).round() as usize])
        })
        .collect();
    let [missing, nan] = picture.absent_colors();
    let distance =
        |a: Color, b: Color| -> u32 { a.iter().zip(b).map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum() };
    let mark = |color: Option<Color>| match color {
        None => ' ',
        Some(_) if picture.is_line() => '*',
        color if color == missing => 'x',
        color if color == nan => '?',
        Some(color) => {
            known.iter().min_by_key(|(one, _)| distance(*one, color)).map_or(' ', |(_, shade)| *shade)
        }
    };
    let line = |pair: &[Vec<Option<Color>>]| {
        let at = |row: usize, x: usize| pair.get(row).and_then(|row| row.get(x).copied().flatten());
        let width = pair.first().map_or(0, Vec::len);
        let text: String = (0..width).map(|x| mark(at(0, x).or(at(1, x)))).collect();
        text.trim_end().to_owned()
    };
    pixels.chunks(2).map(line).collect()
}

/// A picture by kitty's protocol, in pieces.
///
/// Source: <https://sw.kovidgoyal.net/kitty/graphics-protocol/>
fn kitty(png: &[u8]) -> String {
    let text = hyperslab::zarr::base64(png);
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(PIECE).collect();
    let mut out = String::new();
    for (n, piece) in pieces.iter().enumerate() {
        let first = if n == 0 { "f=100,a=T," } else { "" };
        let more = u8::from(n + 1 < pieces.len());
        // Base 64 is ASCII.
        out.push_str(&format!("\x1b_G{first}m={more};{}\x1b\\", String::from_utf8_lossy(piece)));
    }
    out.push('\n');
    out
}

/// A picture by the sixel protocol: bands of six rows, one colour after the other.
///
/// Source: <https://vt100.net/docs/vt3xx-gp/chapter14.html>
fn sixel(rows: &[Vec<Color>]) -> Vec<u8> {
    let rows = within_palette(rows);
    let mut palette: BTreeMap<Color, usize> = BTreeMap::new();
    for color in rows.iter().flatten() {
        let next = palette.len();
        palette.entry(*color).or_insert(next);
    }
    let (width, height) = (rows.first().map_or(0, Vec::len), rows.len());
    let mut out = format!("\x1bP0;1q\"1;1;{width};{height}");
    for (color, number) in &palette {
        let [red, green, blue] = color.map(|part| (u32::from(part) * 100 + 127) / 255);
        out.push_str(&format!("#{number};2;{red};{green};{blue}"));
    }
    for band in rows.chunks(6) {
        let mut masks: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for (y, row) in band.iter().enumerate() {
            for (x, color) in row.iter().enumerate() {
                let number = palette.get(color).copied().unwrap_or(0);
                if let Some(mask) = masks.entry(number).or_insert_with(|| vec![0; width]).get_mut(x) {
                    *mask |= 1 << y;
                }
            }
        }
        for (number, mask) in masks {
            out.push_str(&format!("#{number}"));
            for run in mask.chunk_by(|a, b| a == b) {
                let character = char::from(63 + run.first().copied().unwrap_or(0));
                match run.len() {
                    len if len > 3 => out.push_str(&format!("!{len}{character}")),
                    len => out.extend(std::iter::repeat_n(character, len)),
                }
            }
            out.push('$');
        }
        out.push('-');
    }
    out.push_str("\x1b\\\n");
    out.into_bytes()
}

/// The picture in few enough colours: with fewer bits, if there are too many.
fn within_palette(rows: &[Vec<Color>]) -> Vec<Vec<Color>> {
    let mut rows = rows.to_vec();
    for bits in (2..8).rev() {
        let mut all: Vec<Color> = rows.iter().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        if all.len() <= PALETTE {
            break;
        }
        let most = f64::from((1 << bits) - 1);
        let coarse = |part: u8| ((f64::from(part) / 255.0 * most).round() / most * 255.0).round() as u8;
        rows.iter_mut().flatten().for_each(|color| *color = color.map(coarse));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_in_blocks() {
        let (red, blue) = (Some([255, 0, 0]), Some([0, 0, 255]));
        let lines = blocks(&[vec![red, red, None], vec![blue, red, blue], vec![None, red, None]]);
        assert_eq!(
            lines,
            [
                "\x1b[0m\x1b[38;2;255;0;0m\x1b[48;2;0;0;255m▀\x1b[0m\x1b[38;2;255;0;0m█\x1b[0m\x1b[38;2;0;0;255m▄\x1b[0m",
                " \x1b[0m\x1b[38;2;255;0;0m▀\x1b[0m ",
            ]
        );
    }

    #[test]
    fn pixels_as_sixel() {
        let (red, blue) = ([255, 0, 0], [0, 0, 255]);
        let text = String::from_utf8(sixel(&[vec![red; 5], vec![blue; 5]])).unwrap();
        assert_eq!(text, "\x1bP0;1q\"1;1;5;2#1;2;0;0;100#0;2;100;0;0#0!5@$#1!5A$-\x1b\\\n");
        let many: Vec<Vec<Color>> = (0..=255).map(|x| (0..=255).map(|y| [x, y, 0]).collect()).collect();
        let mut few: Vec<Color> = within_palette(&many).into_iter().flatten().collect();
        few.sort_unstable();
        few.dedup();
        assert_eq!((few.len(), few.last()), (256, Some(&[255, 255, 0])));
    }

    #[test]
    fn pieces_for_kitty() {
        let text = kitty(&[0; 4000]);
        assert!(text.starts_with("\x1b_Gf=100,a=T,m=1;AAAA"), "{text}");
        assert_eq!((text.matches("\x1b_G").count(), text.matches("m=0;").count()), (2, 1));
    }

    #[test]
    fn terminals_by_name() {
        assert_eq!(by_names("xterm-kitty", "", false), Look::Kitty);
        assert_eq!(by_names("xterm-256color", "WezTerm", false), Look::Sixel);
        assert_eq!(by_names("xterm-256color", "", false), Look::Blocks);
        assert_eq!(by_names("foot", "", false), Look::Sixel);
    }
}
