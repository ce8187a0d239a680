//! `hyperslab tree`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::signals::Watch;
use crate::style::Style;
use crate::text;
use hyperslab::store::Ask;
use hyperslab::{Array, Below, Error, Group, Json, Node, NodeKind, Object};
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

/// Characters of names that have cells in their line, even if the line is too long.
const LEAST_NAME: usize = 12;

/// List the arrays and groups of a hierarchy.
///
/// For each array, prints shape, element type, shape of chunks (and of their shards), codecs, and
/// the size of its chunks on disk.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  hyperslab tree --depth 1 ocean.zarr")]
pub(crate) struct TreeArgs {
    /// Groups or arrays.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// Number of levels to show. Default: all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    depth: Option<u16>,
    /// Print JSON: an object for each path, with the nodes below it.
    #[arg(long)]
    json: bool,
}

impl Command for TreeArgs {
    const NAME: &str = "tree";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let ask = || watch.is_interrupted();
        let style = Style::of_stdout();
        if self.json {
            let all: Result<Vec<Json>, Failure> =
                self.paths.iter().map(|path| self.to_json(path, &ask)).collect();
            let json = match <[Json; 1]>::try_from(all?) {
                Ok([one]) => one,
                Err(all) => Json::Array(all),
            };
            return Ok(writeln!(out, "{}", json.to_text(Some(2)))?);
        }
        for (number, path) in self.paths.iter().enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            let (rows, format) = match failure::open(path)? {
                Node::Array(array) => {
                    let row = Line {
                        branch: String::new(),
                        name: text::sanitize(path),
                        cells: cells(Ok(Node::Array(array)), &ask)?,
                    };
                    print("", &[row], style, out)?;
                    continue;
                }
                Node::Group(group) => (rows(&group, self.depth.map(usize::from), &ask)?, group.format()),
            };
            let head = style.dim(&format!("group, {format}"));
            writeln!(out, "{}  {head}", style.bold(&text::sanitize(path)))?;
            print(path, &rows, style, out)?;
        }
        Ok(())
    }
}

impl TreeArgs {
    fn to_json(&self, path: &str, ask: Ask<'_>) -> Result<Json, Failure> {
        let group = match failure::open(path)? {
            Node::Array(array) => return Ok(json_of(path, "array", Ok(Node::Array(array)), ask)?),
            Node::Group(group) => group,
        };
        let mut nodes = Vec::new();
        for below in group.below(self.depth.map(usize::from), Some(ask))? {
            if ask() {
                return Err(Error::Interrupted.into());
            }
            let opened = match below.kind {
                NodeKind::Array | NodeKind::Group => group.open_below(&below).and_then(Object::into_node),
                _ => Ok(Node::Group(group.clone())),
            };
            let mut json = json_of(&below.path, below.kind.name(), opened, ask)?;
            if let NodeKind::Link(target) = &below.kind {
                json.set("target", target.as_str().into());
            }
            nodes.push(json);
        }
        let mut json = Json::from([("path", path.into()), ("kind", "group".into())]);
        json.set("format", group.format().to_string().as_str().into());
        json.set("nodes", Json::Array(nodes));
        Ok(json)
    }
}

/// A node as JSON: the columns of the table, with bytes as a number.
fn json_of(path: &str, kind: &str, opened: Result<Node, Error>, ask: Ask<'_>) -> Result<Json, Error> {
    let mut json = Json::from([("path", path.into()), ("kind", kind.into())]);
    let facts = |array: &Array| -> Result<Vec<(&'static str, Json)>, Error> {
        let names = array.dimension_names()?;
        let name = |name: &Option<String>| name.as_deref().map_or(Json::Null, Json::from);
        let shape = |shape: Option<&[u64]>| shape.map_or(Json::Null, Json::from);
        let codecs = array.codec_names().iter().map(|name| name.as_str().into()).collect();
        Ok(vec![
            ("shape", array.shape().into()),
            ("dimensions", names.map_or(Json::Null, |names| Json::Array(names.iter().map(name).collect()))),
            ("type", array.type_words().as_str().into()),
            ("chunks", shape(array.has_chunks().then(|| array.chunk_shape()))),
            ("shards", shape(array.shard_shape())),
            ("codecs", Json::Array(codecs)),
            (
                "bytes_stored",
                match array.store().facts().lists {
                    true => array.chunks_stored(Some(ask))?.1.into(),
                    false => Json::Null,
                },
            ),
        ])
    };
    let found = opened.and_then(|node| match node {
        Node::Array(array) => facts(&array),
        Node::Group(_) => Ok(Vec::new()),
    });
    match found {
        Ok(facts) => facts.into_iter().for_each(|(name, value)| json.set(name, value)),
        Err(Error::Interrupted) => return Err(Error::Interrupted),
        // The other nodes are still worth showing.
        Err(error) => json.set("unreadable", error.to_string().as_str().into()),
    }
    Ok(json)
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
    // Cells of longer names are in the next line.
    let cells_width = widths.iter().map(|width| width + 2).sum::<usize>();
    let name_width = name_width.min(room.saturating_sub(cells_width).max(LEAST_NAME));
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
                let cells = line(cells.each_ref().map(String::as_str));
                if width(&row.branch) + width(&row.name) <= name_width {
                    writeln!(out, "{branch}{}{pad}{cells}", row.name)?;
                } else {
                    let below = row.branch.replace("├── ", "│   ").replace("└── ", "    ");
                    let pad = " ".repeat(name_width.saturating_sub(width(&below)));
                    writeln!(out, "{branch}{}\n{}{pad}{cells}", row.name, style.dim(&below))?;
                }
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
        // Cells of a long name are below it.
        let long = [array(&"n".repeat(50), "float64".into()), array("x", "float64".into())];
        let mut out = Vec::new();
        print_within(80, "root", &long, Style::of_stdout(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() == 4 && lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert!(lines[2].starts_with("│   ") && lines[2].contains("(1000,)  float64"), "{text}");
        // Short types stay as they are.
        assert!(shown(20).lines().nth(2).unwrap().contains("float64"), "{}", shown(20));
    }
}
