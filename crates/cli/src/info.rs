//! `hyperslab info`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::signals::Watch;
use crate::style::Style;
use crate::text;
use hyperslab::{Array, GroupInfo, Info, Json, Node, ShardInfo, ShardLevelInfo};
use std::io::{self, Write};

/// Most characters of an attribute's value.
const LONGEST: usize = 60;

/// A label and its text. Continuation lines have no label.
type Fact = (&'static str, String);

/// Show all facts about an array or group.
///
/// Prints shape, element type, chunks, codecs, fill value and attributes, and how many chunks are
/// stored and how large they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab info ocean.zarr/sst
  hyperslab info --json ocean.zarr/sst | jq .chunks")]
pub(crate) struct InfoArgs {
    /// Arrays or groups.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// Print JSON: an object, or a list for several paths.
    #[arg(long)]
    json: bool,
}

impl Command for InfoArgs {
    const NAME: &str = "info";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let ask = || watch.is_interrupted();
        let mut all = Vec::new();
        for (number, path) in self.paths.iter().enumerate() {
            let (json, rows, attributes) = match failure::open(path)? {
                Node::Array(array) => {
                    let info = array.info(Some(&ask))?;
                    (info.to_json(), array_rows(&info, &array), info.attributes)
                }
                Node::Group(group) => {
                    let info = group.info(Some(&ask))?;
                    (info.to_json(), group_rows(&info), info.attributes)
                }
            };
            if self.json {
                all.push(json);
                continue;
            }
            if number > 0 {
                writeln!(out)?;
            }
            print(path, &rows, &attributes, out)?;
        }
        match all.as_slice() {
            [] => Ok(()),
            [one] => Ok(writeln!(out, "{}", one.to_text(Some(2)))?),
            _ => Ok(writeln!(out, "{}", Json::Array(all).to_text(Some(2)))?),
        }
    }
}

fn array_rows(info: &Info, array: &Array) -> Vec<Fact> {
    let chunks = text::count(info.chunks_total, "chunk");
    let mut rows = vec![("kind", format!("array, {}", info.format)), ("shape", text::shape(&info.shape))];
    if let Some(names) = &info.dimension_names {
        let names: Vec<&str> = names.iter().map(|name| name.as_deref().unwrap_or("-")).collect();
        rows.push(("dimensions", names.join(", ")));
    }
    let order =
        info.order_name().map_or_else(|| format!("axes {:?}, slowest first", info.order), str::to_owned);
    rows.extend([
        (
            "data type",
            match info.vlen {
                Some(_) => text::element_type(array),
                None => format!("{} ({})", text::element_type(array), info.dtype),
            },
        ),
        (
            "chunks",
            match info.vlen {
                _ if info.several_shapes => format!("of several shapes, up to {}", text::shape(&info.chunks)),
                Some(_) => text::shape(&info.chunks),
                None => format!("{}, {} each", text::shape(&info.chunks), text::bytes(info.chunk_bytes)),
            },
        ),
        ("grid", format!("{}, {chunks}", text::shape(&info.grid))),
    ]);
    if !array.has_chunks() {
        rows.truncate(rows.len() - 2);
    }
    if let Some(storage) = info.storage {
        rows.push(("storage", storage.into()));
    }
    if let Some(shards) = &info.shards {
        rows.extend(shard_rows(shards));
    }
    rows.push(("order", order));
    if info.codecs.is_empty() {
        rows.push(("codecs", "none".into()));
    }
    for (number, codec) in info.codecs.iter().enumerate() {
        rows.push((if number == 0 { "codecs" } else { "" }, text::codec(codec)));
    }
    let ratio = info.ratio().map_or_else(String::new, |ratio| format!(", ratio {ratio:.2}"));
    let (stored, total) = match &info.shards {
        None => (info.chunks_stored, chunks),
        Some(shards) => (shards.stored, text::count(shards.total, "shard")),
    };
    // Web servers do not list their objects.
    let known = |bytes: Option<u64>| bytes.map_or_else(|| "not known".to_owned(), text::bytes);
    let stored = stored.map_or_else(
        || format!("not known, of {total}"),
        |stored| format!("{stored} of {total}, {}{ratio}", known(info.bytes_stored)),
    );
    rows.push(("fill value", info.fill_value.brief()));
    if info.vlen.is_none() {
        rows.push(("in memory", text::bytes(info.bytes)));
    }
    rows.push(("stored", if array.has_chunks() { stored } else { known(info.bytes_stored) }));
    rows
}

/// A row for each level of shards, starting with the object's level.
fn shard_rows(shards: &ShardInfo) -> Vec<Fact> {
    let row = |(number, level): (usize, &ShardLevelInfo)| {
        let what = if number == 0 {
            let (shape, chunks) = (text::shape(&level.shape), text::count(shards.chunks, "chunk"));
            match shards.several_shapes {
                false => format!("{shape}, {chunks} each"),
                true => format!("of several shapes, up to {shape}, {chunks}"),
            }
        } else {
            format!("in these, {}", text::shape(&level.shape))
        };
        let place = if level.index_at_start { "start" } else { "end" };
        let codecs = level.codecs.join(" ");
        let whole = if codecs.is_empty() { codecs } else { format!(", as a whole through {codecs}") };
        (if number == 0 { "shards" } else { "" }, format!("{what}, index at the {place}{whole}"))
    };
    shards.levels.iter().enumerate().map(row).collect()
}

fn group_rows(info: &GroupInfo) -> Vec<Fact> {
    let consolidated = if info.consolidated { ", with consolidated metadata" } else { "" };
    let mut rows = vec![
        ("kind", format!("group, {}{consolidated}", info.format)),
        ("below it", format!("{}, {}", text::count(info.arrays, "array"), text::count(info.groups, "group"))),
        ("in memory", text::bytes(info.bytes)),
        (
            "stored",
            match (info.chunks_stored, info.bytes_stored) {
                (Some(chunks), Some(bytes)) => {
                    format!("{}, {}", text::count(chunks, "chunk"), text::bytes(bytes))
                }
                _ => "not known".into(),
            },
        ),
    ];
    rows.extend(info.failures.iter().map(|(path, why)| ("unreadable", format!("{path}: {why}"))));
    rows
}

fn print(path: &str, rows: &[Fact], attributes: &Json, out: &mut dyn Write) -> io::Result<()> {
    let style = Style::of_stdout();
    writeln!(out, "{}", style.bold(&text::sanitize(path)))?;
    for (label, value) in rows {
        writeln!(out, "  {}  {}", style.dim(&format!("{label:<11}")), text::sanitize(value))?;
    }
    let members = attributes.as_object().unwrap_or_default();
    if members.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {}", style.dim("attributes"))?;
    let width = members.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).min(30);
    for (name, value) in members {
        writeln!(out, "    {:<width$}  {}", text::sanitize(name), text::value(value, LONGEST))?;
    }
    Ok(())
}
