//! `hyperslab tree`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::signals::Watch;
use crate::style::Style;
use crate::text;
use hyperslab::store::Ask;
use hyperslab::{Array, Below, Error, Group, Node, NodeKind, Object};
use std::io::{self, Write};

/// A node below the root.
struct Line {
    /// `│   ├── `
    branch: String,
    name: String,
    cells: Cells,
}

enum Cells {
    Group,
    /// Shape, element type, chunk (and shard) shape, codecs, bytes stored.
    Array([String; 5]),
    /// A committed datatype, or the target of a link.
    Other(String),
    Failure(String),
}

/// Headings of the columns.
const HEADINGS: [&str; 5] = ["shape", "type", "chunks", "codecs", "stored"];

/// Columns to shorten so that lines fit, in this order, with their minimum widths.
const SHORTENED: [(usize, usize); 2] = [(1, 16), (3, 12)];

/// List the arrays and groups of a hierarchy.
///
/// For each array, prints shape, element type, shape of chunks (and of their shards), codecs, and
/// the size of its chunks on disk.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  hyperslab tree --depth 1 ocean.zarr")]
pub(crate) struct TreeArgs {
    /// A group or array.
    path: String,
    /// Number of levels to show. Default: all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    depth: Option<u16>,
}

impl Command for TreeArgs {
    const NAME: &str = "tree";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let ask = || watch.is_interrupted();
        let style = Style::of_stdout();
        let (rows, format) = match failure::open(&self.path)? {
            Node::Array(array) => {
                let row = Line {
                    branch: String::new(),
                    name: text::sanitize(&self.path),
                    cells: cells(Ok(Node::Array(array)), &ask)?,
                };
                return Ok(print("", &[row], style, out)?);
            }
            Node::Group(group) => (rows(&group, self.depth.map(usize::from), &ask)?, group.format()),
        };
        writeln!(
            out,
            "{}  {}",
            style.bold(&text::sanitize(&self.path)),
            style.dim(&format!("group, {format}"))
        )?;
        Ok(print(&self.path, &rows, style, out)?)
    }
}

fn rows(group: &Group, depth: Option<usize>, ask: Ask<'_>) -> Result<Vec<Line>, Error> {
    let nodes = group.below(depth, Some(ask))?;
    let mut rows: Vec<Line> = Vec::with_capacity(nodes.len());
    // Walks upwards from the last node. Holds whether more siblings follow, per level.
    let mut follows: Vec<bool> = Vec::new();
    for below in nodes.iter().rev() {
        let Below { path, kind, .. } = below;
        if ask() {
            return Err(Error::Interrupted);
        }
        let mut names = path.split('/');
        let name = text::sanitize(names.next_back().unwrap_or_default());
        let level = names.count();
        follows.resize(level + 1, false);
        let mut branch: String =
            follows.iter().take(level).map(|follows| if *follows { "│   " } else { "    " }).collect();
        branch.push_str(if follows.get(level) == Some(&true) { "├── " } else { "└── " });
        if let Some(follows) = follows.get_mut(level) {
            *follows = true;
        }
        let cells = match kind {
            NodeKind::Group => Cells::Group,
            NodeKind::Link(target) => Cells::Other(format!("→ {}", text::sanitize(target))),
            NodeKind::Array => cells(group.open_below(below).and_then(Object::into_node), ask)?,
            other => Cells::Other(other.name().into()),
        };
        rows.push(Line { branch, name, cells });
    }
    rows.reverse();
    Ok(rows)
}

fn cells(opened: Result<Node, Error>, ask: Ask<'_>) -> Result<Cells, Error> {
    let facts = |array: &Array| -> Result<[String; 5], Error> {
        let stored = match array.store().facts().lists {
            true => text::bytes(array.chunks_stored(Some(ask))?.1),
            false => "-".into(),
        };
        let codecs = array.codec_names();
        let chunks = text::shape(array.chunk_shape());
        let chunks = match array.shard_shape() {
            None if !array.has_chunks() => "-".into(),
            None => chunks,
            Some(shards) => {
                let most = if array.layout().object_grid().is_regular() { "" } else { "up to " };
                format!("{chunks} in {most}{}", text::shape(shards))
            }
        };
        Ok([
            text::shape(array.shape()),
            text::element_type(array),
            chunks,
            if codecs.is_empty() { "-".into() } else { codecs.join(" ") },
            stored,
        ])
    };
    let facts = opened.and_then(|node| match node {
        Node::Array(array) => facts(&array).map(Cells::Array),
        Node::Group(_) => Ok(Cells::Group),
    });
    match facts {
        Err(Error::Interrupted) => Err(Error::Interrupted),
        // The other nodes are still worth showing.
        Err(error) => Ok(Cells::Failure(text::sanitize(&error.to_string()))),
        facts => facts,
    }
}

fn print(root: &str, rows: &[Line], style: Style, out: &mut dyn Write) -> io::Result<()> {
    print_within(text::line_width(), root, rows, style, out)
}

/// Prints rows. Shortens long element types and lists of codecs to fit `room` characters.
fn print_within(room: usize, root: &str, rows: &[Line], style: Style, out: &mut dyn Write) -> io::Result<()> {
    let is_array = |row: &&Line| matches!(row.cells, Cells::Array(_));
    let name_width = rows.iter().map(|row| width(&row.branch) + width(&row.name)).max().unwrap_or(0);
    let mut widths: [usize; 5] = std::array::from_fn(|column| {
        let cell = |row: &Line| match &row.cells {
            Cells::Array(cells) => cells.get(column).map_or(0, |cell| width(cell)),
            _ => 0,
        };
        rows.iter().map(cell).max().unwrap_or(0).max(HEADINGS.get(column).map_or(0, |heading| heading.len()))
    });
    for (column, least) in SHORTENED {
        let whole = name_width + widths.iter().map(|width| width + 2).sum::<usize>();
        if let Some(width) = widths.get_mut(column) {
            *width = width.saturating_sub(whole.saturating_sub(room)).max(least.min(*width));
        }
    }
    let line = |cells: [&str; 5]| -> String {
        let mut line = String::new();
        for (column, (cell, full)) in cells.into_iter().zip(widths).enumerate() {
            let cell = &text::shorten(cell, full);
            let pad = " ".repeat(full.saturating_sub(width(cell)));
            // Sizes are right-aligned, because users compare them.
            let (before, after) = if column == 4 { (pad.as_str(), "") } else { ("", pad.as_str()) };
            line.push_str(&format!("  {before}{cell}{after}"));
        }
        line
    };
    if rows.iter().filter(is_array).count() > 0 && !root.is_empty() {
        writeln!(out, "{}{}", " ".repeat(name_width), style.dim(&line(HEADINGS)))?;
    }
    for row in rows {
        let pad = " ".repeat(name_width.saturating_sub(width(&row.branch) + width(&row.name)));
        let branch = style.dim(&row.branch);
        match &row.cells {
            Cells::Group => writeln!(out, "{branch}{}", style.bold(&row.name))?,
            Cells::Array(cells) => {
                writeln!(out, "{branch}{}{pad}{}", row.name, line(cells.each_ref().map(String::as_str)))?;
            }
            Cells::Other(what) => writeln!(out, "{branch}{}{pad}  {what}", row.name)?,
            Cells::Failure(why) => writeln!(out, "{branch}{}{pad}  unreadable: {why}", row.name)?,
        }
    }
    Ok(())
}

/// Width in terminal columns. Correct for names without wide or combining characters.
fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_element_types_do_not_break_lines() {
        let fields: Vec<String> = (0..20).map(|n| format!("field{n}: float64")).collect();
        let array = |name: &str, dtype: String| Line {
            branch: "├── ".into(),
            name: name.into(),
            cells: Cells::Array(["(1000,)".into(), dtype, "(100,)".into(), "zstd".into(), "1.0 KiB".into()]),
        };
        let rows = [array("table", format!("{{{}}}", fields.join(", "))), array("x", "float64".into())];
        let shown = |room| {
            let mut out = Vec::new();
            print_within(room, "root", &rows, Style::of_stdout(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let lines = shown(80);
        assert!(lines.lines().all(|line| line.chars().count() <= 80), "{lines}");
        assert!(lines.contains("{field0: float64, field1: ") && lines.contains("…  (100,)"), "{lines}");
        assert!(shown(1000).contains("field19: float64}"));
        // Short types stay as they are.
        assert!(shown(20).lines().nth(2).unwrap().contains("float64"), "{}", shown(20));
    }
}
