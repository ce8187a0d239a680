//! `hyperslab explain`.

use crate::args::ExplainArgs;
use crate::failure::{self, Failure};
use crate::{selection, text};
use hyperslab::{Explain, ExplainTask, Json, Node};
use std::borrow::Cow;
use std::io::Write;

pub(crate) fn run(args: &ExplainArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let (node, selected) = open(args)?;
    let array = node.into_array()?;
    let indices = selection::parse(&selected).map_err(Failure::Usage)?;
    let selection = array.select(&indices)?;
    let explain = if args.write {
        array.explain_write(&selection, args.list)?
    } else {
        array.explain_read(&selection, args.list)?
    };
    if args.json {
        writeln!(out, "{}", to_json(&explain).to_text(Some(2)))?;
    } else {
        // Keys and names come from outside.
        for line in explain.to_string().lines() {
            writeln!(out, "{}", text::plain(line))?;
        }
    }
    Ok(())
}

/// The array, and the text of the selection: `PATH SELECTION` or `PATH[SELECTION]`.
fn open(args: &ExplainArgs) -> Result<(Node, Cow<'_, str>), Failure> {
    if let Some(selection) = &args.selection {
        return Ok((failure::open(&args.path)?, selection.into()));
    }
    match (failure::open(&args.path), selection::split(&args.path)) {
        (Err(error), Some((path, selection))) => match failure::open(path) {
            Ok(node) => Ok((node, selection.into())),
            Err(_) => Err(error),
        },
        (opened, _) => Ok((opened?, "".into())),
    }
}

fn to_json(explain: &Explain) -> Json {
    let list = |numbers: &[u64]| Json::Array(numbers.iter().map(|n| (*n).into()).collect());
    let task = |task: &ExplainTask| {
        let ranges = task.ranges.iter().map(|(offset, len)| list(&[*offset, *len])).collect();
        Json::from([
            ("chunk", list(&task.chunk)),
            ("key", task.key.as_str().into()),
            ("strategy", task.strategy.to_string().as_str().into()),
            ("ranges", Json::Array(ranges)),
            ("elements", task.elements.into()),
            ("bytes_read", task.bytes_read.into()),
            ("bytes_decoded", task.bytes_decoded.into()),
        ])
    };
    let strategies =
        explain.strategies.iter().map(|(strategy, n)| (strategy.to_string(), (*n).into())).collect();
    Json::from([
        ("array", explain.array.as_str().into()),
        ("write", explain.write.into()),
        ("shape", list(&explain.shape)),
        ("bytes", explain.bytes.into()),
        ("chunks", explain.chunks.into()),
        ("examined", explain.examined.into()),
        ("objects", explain.objects.into()),
        ("threads", explain.threads.into()),
        ("strategies", Json::Object(strategies)),
        ("bytes_read", explain.bytes_read.into()),
        ("bytes_decoded", explain.bytes_decoded.into()),
        ("tasks", Json::Array(explain.tasks.iter().map(task).collect())),
    ])
}
