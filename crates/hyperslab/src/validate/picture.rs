//! A picture of absent chunks: a map of each array that lacks some.
//!
//! Blue cells are stored, red ones absent. Lighter colours between: a part of the chunks of a cell.

use super::absent::{ChunkMap, MissingChunks};
use super::report::Report;
use crate::Result;
use crate::look::Color;
use crate::look::png::{Canvas, text_size};

/// More maps are left out: a picture of 50 maps of 512 × 512 cells needs 80 MB of memory.
const MOST: usize = 50;
/// Small maps are enlarged to about this many pixels.
const SMALL: usize = 256;
/// Pixels around the maps.
const MARGIN: usize = 12;

const WHITE: Color = [255, 255, 255];
const BLACK: Color = [0, 0, 0];
const STORED: Color = [33, 102, 172];
const MOSTLY: Color = [146, 197, 222];
const PARTLY: Color = [244, 165, 130];
const ABSENT: Color = [178, 24, 43];

/// The picture as PNG, of all arrays of a report that have absent chunks. `None`: no array has any.
///
/// The report must be made with [`ValidateOptions::picture`](super::ValidateOptions::picture).
pub fn picture(report: &Report) -> Result<Option<Vec<u8>>> {
    let all = report.looked.iter().flat_map(|looked| &looked.missing).filter(|missing| missing.absent > 0);
    let maps: Vec<(&MissingChunks, &ChunkMap)> =
        all.filter_map(|missing| missing.large.as_ref().map(|map| (missing, map))).take(MOST).collect();
    if maps.is_empty() {
        return Ok(None);
    }
    draw(&maps).to_png().map(Some)
}

fn draw(maps: &[(&MissingChunks, &ChunkMap)]) -> Canvas {
    let sizes: Vec<(usize, usize, usize)> = maps.iter().map(|(_, map)| size(map)).collect();
    let titles: Vec<String> = maps.iter().map(|(missing, _)| title(missing)).collect();
    let wide = sizes.iter().map(|(width, ..)| *width);
    let width = wide.chain(titles.iter().map(|title| text_size(title.chars().count()).0)).max().unwrap_or(0);
    let above = text_size(1).1 + 4;
    let height: usize = sizes.iter().map(|(_, height, _)| above + height + MARGIN).sum();
    let mut canvas = Canvas::new(width + 2 * MARGIN, height + MARGIN, WHITE);
    let mut top = MARGIN;
    for (((_, map), title), (_, height, zoom)) in maps.iter().zip(&titles).zip(&sizes) {
        canvas.text(MARGIN, top, title, BLACK);
        top += above;
        for (row, cells) in map.rows.iter().enumerate() {
            for (column, (stored, total)) in cells.iter().enumerate() {
                for (x, y) in (0..*zoom).flat_map(|x| (0..*zoom).map(move |y| (x, y))) {
                    canvas.set(MARGIN + column * zoom + x, top + row * zoom + y, color(*stored, *total));
                }
            }
        }
        top += height + MARGIN;
    }
    canvas
}

/// Width and height of a map in pixels, and of a cell.
fn size(map: &ChunkMap) -> (usize, usize, usize) {
    let (rows, columns) = (map.rows.len(), map.rows.first().map_or(0, Vec::len));
    let zoom = (SMALL / rows.max(columns).max(1)).clamp(1, 32);
    (columns * zoom, rows * zoom, zoom)
}

fn title(missing: &MissingChunks) -> String {
    // Unknown letters are blank: a long path loses its beginning.
    let path: Vec<char> = missing.path.chars().collect();
    let path: String = path.iter().skip(path.len().saturating_sub(40)).collect();
    format!("{path}: {} of {} {}s absent", missing.absent, missing.total, missing.unit)
}

fn color(stored: u64, total: u64) -> Color {
    match (stored, total) {
        (0, _) => ABSENT,
        (stored, total) if stored >= total => STORED,
        (stored, total) if u128::from(stored) * 2 >= u128::from(total) => MOSTLY,
        _ => PARTLY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dims;
    use crate::validate::Looked;
    use crate::validate::absent::of_objects;

    #[test]
    fn cells_have_their_colors() {
        assert_eq!([color(0, 4), color(1, 4), color(2, 4), color(4, 4)], [ABSENT, PARTLY, MOSTLY, STORED]);
        let places = [[0, 0], [0, 1]].map(|place| Dims::from(place.as_slice()));
        let missing = of_objects(&[2, 2], &places).finish("a/b", "chunk", true);
        let map = missing.large.clone().unwrap();
        assert_eq!((map.rows.clone(), size(&map)), (vec![vec![(1, 1); 2], vec![(0, 1); 2]], (64, 64, 32)));
        let canvas = draw(&[(&missing, &map)]);
        assert_eq!(canvas.at(MARGIN + 5, MARGIN + 14 + 5), STORED);
        assert_eq!(canvas.at(MARGIN + 63, MARGIN + 14 + 63), ABSENT);
        assert_eq!(canvas.at(MARGIN + 64, MARGIN + 14 + 63), WHITE);
    }

    #[test]
    fn only_arrays_with_absent_chunks_are_drawn() {
        let whole = of_objects(&[1], &[Dims::from([0].as_slice())]).finish("a", "chunk", true);
        let looked = |missing| Looked { missing: vec![missing], ..Looked::default() };
        let mut report = Report { looked: vec![looked(whole)], ..Report::default() };
        assert_eq!(picture(&report).unwrap(), None);
        report.looked.push(looked(of_objects(&[1], &[]).finish("b", "chunk", true)));
        assert!(picture(&report).unwrap().unwrap().starts_with(b"\x89PNG"));
    }
}
