//! `tree`: all arrays and groups below a path.

use super::Asked;
use crate::answer::Answer;
use crate::roots::{Found, Roots};
use hyperslab::{Array, Error, Json, Node, Result};

/// The most nodes in a tree.
const MOST_NODES: usize = 10_000;
/// The deepest tree. Each level has two of JSON, whose readers stop at 128.
const MOST_DEPTH: usize = 60;

pub(super) fn tree(roots: &Roots, parts: &[String], asked: &Asked<'_>) -> Result<Answer> {
    let depth = asked.number("depth")?.unwrap_or(MOST_DEPTH).min(MOST_DEPTH);
    let mut left = MOST_NODES;
    let Some(json) = branch(roots, parts, depth, &mut left, asked.ask)? else {
        let found = "nothing is there";
        return Ok(Answer::problem(404, parts.join("/"), found, "list what is there: /api/tree"));
    };
    Ok(Answer::json(&json))
}

/// The node at a path, and everything below it. `None`: nothing is there.
fn branch(
    roots: &Roots,
    parts: &[String],
    depth: usize,
    left: &mut usize,
    ask: &dyn Fn() -> bool,
) -> Result<Option<Json>> {
    if ask() {
        return Err(Error::Interrupted);
    }
    let (mut members, below): (Vec<(&str, Json)>, Vec<String>) = match roots.find(parts)? {
        Found::Nothing => return Ok(None),
        Found::Folder(entries) => {
            (vec![("kind", "folder".into())], entries.into_iter().map(|entry| entry.name).collect())
        }
        Found::Inside(hierarchy, inside) => match hierarchy.node(&inside)? {
            None => return Ok(None),
            Some(Node::Array(array)) => (described(&array)?, Vec::new()),
            Some(Node::Group(group)) => {
                let kind =
                    vec![("kind", "group".into()), ("format", group.format().to_string().as_str().into())];
                (kind, hierarchy.children(&inside)?)
            }
        },
    };
    if depth > 0 && !below.is_empty() {
        let mut nodes = Vec::new();
        for name in below {
            let Some(rest) = left.checked_sub(1) else {
                members.push(("truncated", true.into()));
                break;
            };
            *left = rest;
            let parts = [parts, std::slice::from_ref(&name)].concat();
            match branch(roots, &parts, depth - 1, left, ask) {
                Ok(Some(node)) => nodes.push((name, node)),
                Ok(None) => {}
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    let why = roots.hidden(&error.to_string());
                    let broken = [("kind", "unreadable".into()), ("found", why.as_str().into())];
                    nodes.push((name, Json::from(broken)));
                }
            }
        }
        members.push(("members", Json::Object(nodes)));
    }
    Ok(Some(Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())))
}

/// The facts about an array that cost nothing.
fn described(array: &Array) -> Result<Vec<(&'static str, Json)>> {
    Ok(vec![
        ("kind", "array".into()),
        ("format", array.format().to_string().as_str().into()),
        ("shape", array.shape().into()),
        ("dtype", array.type_words().as_str().into()),
        ("chunks", if array.has_chunks() { array.chunk_shape().into() } else { Json::Null }),
        ("dimension_names", names(array)?),
    ])
}

fn names(array: &Array) -> Result<Json> {
    let name = |name: &Option<String>| name.as_deref().map_or(Json::Null, Json::from);
    Ok(array.dimension_names()?.map_or(Json::Null, |names| Json::Array(names.iter().map(name).collect())))
}
