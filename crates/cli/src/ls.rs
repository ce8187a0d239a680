//! `hyperslab ls`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::signals::Watch;
use crate::style::Style;
use crate::text;
use hyperslab::{Array, Error, Group, Node, NodeKind, Object};
use std::io::Write;

/// List the arrays and groups in a file or group, one on each line.
///
/// For each array, prints its axes with their names, and its element type. Reads no chunks and lists
/// none, so it is quick on servers. hyperslab tree also shows chunks, codecs and stored bytes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab ls ocean.nc
  hyperslab ls -r ocean.nc/forcing")]
pub(crate) struct LsArgs {
    /// Groups or arrays.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// Also list the members of groups below.
    #[arg(long, short)]
    recursive: bool,
}

/// A node: name, type, axes.
type ListedNode = [String; 3];

impl Command for LsArgs {
    const NAME: &str = "ls";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let style = Style::of_stdout();
        for (n, path) in self.paths.iter().enumerate() {
            let rows = match failure::open(path)? {
                Node::Array(array) => vec![row(text::sanitize(path), &array)?],
                Node::Group(group) => self.rows(&group, watch)?,
            };
            if self.paths.len() > 1 {
                let before = if n > 0 { "\n" } else { "" };
                writeln!(out, "{before}{}", style.bold(&format!("{}:", text::sanitize(path))))?;
            }
            print(&rows, style, out)?;
        }
        Ok(())
    }
}

impl LsArgs {
    fn rows(&self, group: &Group, watch: &Watch) -> Result<Vec<ListedNode>, Failure> {
        let depth = if self.recursive { None } else { Some(1) };
        let mut rows = Vec::new();
        for below in group.below(depth, Some(&|| watch.is_interrupted()))? {
            if watch.is_interrupted() {
                return Err(Error::Interrupted.into());
            }
            let name = text::sanitize(&below.path);
            rows.push(match &below.kind {
                NodeKind::Group => [format!("{name}/"), String::new(), String::new()],
                NodeKind::Link(target) => {
                    [format!("{name} → {}", text::sanitize(target)), String::new(), String::new()]
                }
                NodeKind::Array => {
                    let opened =
                        group.open_below(&below).and_then(Object::into_node).and_then(Node::into_array);
                    match opened.and_then(|array| row(name.clone(), &array)) {
                        Ok(row) => row,
                        Err(error) if error.is_interruption() => return Err(error.into()),
                        // The others are still worth showing.
                        Err(error) => [name, "unreadable:".into(), text::sanitize(&error.to_string())],
                    }
                }
                other => [name, other.name().into(), String::new()],
            });
        }
        Ok(rows)
    }
}

fn row(name: String, array: &Array) -> Result<ListedNode, Error> {
    let axes = text::axes(array.shape(), array.dimension_names()?.as_deref());
    Ok([name, text::element_type(array), axes])
}

fn print(rows: &[ListedNode], style: Style, out: &mut dyn Write) -> Result<(), Failure> {
    let is_array = |row: &&ListedNode| !row[1].is_empty();
    let width = |column: usize, most: usize| {
        let cells = rows.iter().filter(is_array).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).min(most)
    };
    let (names, types) = (width(0, 40), width(1, 24));
    for [name, words, axes] in rows {
        if words.is_empty() {
            writeln!(out, "{}", if name.ends_with('/') { style.bold(name) } else { name.clone() })?;
            continue;
        }
        let words = text::shorten(words, types.max(8));
        let line = format!("{name:<names$}  {words:<types$}  {axes}");
        if line.trim_end().chars().count() <= text::line_width() {
            writeln!(out, "{}", line.trim_end())?;
        } else {
            writeln!(out, "{name}\n    {words:<types$}  {axes}")?;
        }
    }
    Ok(())
}
