//! The length of text: a classic file stores text as rows of characters of one length.

use super::variable::Elements;
use crate::copy::blocks::Block;
use crate::copy::region::Window;
use crate::copy::{CopyOptions, Paths, ragged};
use crate::{Array, Dims, Result};
use hyperslab_array::ReadOptions;

/// Elements that are read at once.
const AT_ONCE: u64 = 1 << 20;

/// Finds the longest text, by reading all of them. Elements of other types stay as they are.
pub(super) fn measured(
    elements: Elements,
    array: &Array,
    window: &Window,
    options: &CopyOptions<'_>,
) -> Result<Elements> {
    if !elements.is_text {
        return Ok(elements);
    }
    let (mut longest, mut paths) = (1, Paths::new());
    for block in blocks(array, window) {
        options.check()?;
        let reading = ReadOptions {
            threads: options.threads.filter(|n| *n > 0),
            interrupt: Some(&|| options.stops()),
            ..ReadOptions::default()
        };
        let texts = ragged::read(array, &array.select(&block.index())?, reading, &mut paths)?;
        let lens = texts.offsets.iter().zip(texts.offsets.iter().skip(1)).map(|(start, end)| end - start);
        longest = longest.max(lens.max().unwrap_or(0));
    }
    elements.with_characters(longest.unsigned_abs())
}

/// The blocks of a window: whole chunks along the first axis.
fn blocks(array: &Array, window: &Window) -> Vec<Block> {
    let Some(rows) = window.shape.first().copied() else {
        return vec![Block { first: Dims::new(), len: Dims::new() }];
    };
    if window.shape.contains(&0) {
        return Vec::new();
    }
    let row = window.shape.iter().skip(1).fold(1u64, |count, n| count.saturating_mul(*n)).max(1);
    let chunk = array.layout().object_grid().chunk_shape().first().copied().unwrap_or(1).max(1);
    let at_once = (AT_ONCE / row / chunk).max(1).saturating_mul(chunk);
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < rows {
        let (mut first, mut len) = (window.from.clone(), window.shape.clone());
        let count = at_once.min(rows - at);
        if let (Some(first), Some(len)) = (first.first_mut(), len.first_mut()) {
            (*first, *len) = (first.saturating_add(at), count);
        }
        blocks.push(Block { first, len });
        at += count;
    }
    blocks
}
