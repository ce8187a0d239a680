//! `/dap/…`: OPeNDAP, version 2 of its protocol (DAP2).
//!
//! A dataset is a group or an array, with everything below it. Variables of groups below have the names
//! of the groups before their own, with slashes. Each variable is an `Array` with named dimensions, or a
//! scalar. Three documents describe a dataset, and the path's ending names the document:
//!
//! | ending | document |
//! |---|---|
//! | `.dds` | types and shapes ([`types`]) |
//! | `.das` | attributes ([`attributes`]) |
//! | `.dods` | types and shapes, and elements in XDR ([`data`]) |
//!
//! The query selects variables and parts of them ([`constraint`]).

mod attributes;
mod constraint;
mod data;
mod types;

use crate::answer::Answer;
use crate::api::Asked;
use crate::body::Body;
use crate::path::decoded;
use crate::roots::{Found, Roots};
use constraint::{Projection, parts};
use hyperslab::meaning::{Packing, Variable, Variables};
use hyperslab::zarr::{fill_to_json, join};
use hyperslab::{Array, Json, MissingValue, Node, Result};
use types::DapType;

/// A variable of a dataset.
struct Member {
    name: String,
    array: Array,
    variable: Variable,
    kind: DapType,
    /// The value of missing elements.
    missing: Option<Json>,
}

/// A dataset.
struct Dataset {
    name: String,
    members: Vec<Member>,
    /// Attributes of the groups, by path.
    groups: Vec<(String, Json)>,
    /// Variables whose elements DAP2 has no type for.
    left_out: Vec<String>,
}

impl Dataset {
    /// `presented`: finds the array of a path as Zarr has it.
    fn new(
        name: &str,
        node: &Node,
        presented: &dyn Fn(&str) -> Result<Option<Array>>,
        ask: &dyn Fn() -> bool,
    ) -> Result<Dataset> {
        let Variables { variables, groups, .. } = Variables::of(node, Some(ask))?;
        let (mut members, mut left_out) = (Vec::new(), Vec::new());
        for (path, array, variable) in variables {
            let own = node.path().rsplit('/').next().filter(|own| !own.is_empty()).unwrap_or(name);
            let name = if path.is_empty() { own.to_owned() } else { path.clone() };
            // In the byte order of this array, which Zarr's may not have.
            let missing = match &variable.missing {
                MissingValue::Value(bytes) => fill_to_json(array.dtype(), bytes),
                _ => None,
            };
            // A variable may be shorter in its file than its unlimited dimensions.
            let is_whole = array.shape() == variable.shape.as_slice();
            let array = if is_whole { array } else { presented(&path)?.unwrap_or(array) };
            let unsigned =
                Packing::parse(&variable.attributes, array.dtype(), None).ok().and_then(|p| p.unsigned);
            match DapType::of(&array, unsigned) {
                Some(kind) => members.push(Member { name, array, variable, kind, missing }),
                None => left_out.push(name),
            }
        }
        Ok(Dataset { name: name.to_owned(), members, groups, left_out })
    }
}

/// Answers a request below `/dap`.
pub(crate) fn answer(roots: &Roots, path: &[String], asked: &Asked<'_>) -> Result<Answer> {
    let whole = path.join("/");
    let endings = "ask for PATH.dds, PATH.das or PATH.dods";
    let missing = |found| Ok(problem(404, &format!("/dap/{whole}: {found}; {endings}")));
    let Some((last, above)) = path.split_last() else { return missing("no dataset") };
    let Some((last, ending)) =
        last.rsplit_once('.').filter(|(_, ending)| matches!(*ending, "dds" | "das" | "dods"))
    else {
        return missing("no document of OPeNDAP");
    };
    let path = [above, &[last.to_owned()]].concat();
    let Found::Inside(hierarchy, inside) = roots.find(&path)? else { return missing("no array or group") };
    let Some(node) = hierarchy.node(&inside)? else { return missing("no array or group") };
    let presented = |path: &str| hierarchy.as_zarr(&join(&inside, path));
    let dataset = Dataset::new(last, &node, &presented, asked.ask)?;
    let Some(constraint) = decoded(asked.query) else {
        return Ok(problem(400, "the query is no text in UTF-8"));
    };
    let wanted = match parts(&dataset.members, &constraint) {
        Ok(wanted) => wanted,
        Err(why) => return Ok(problem(400, &why)),
    };
    let answer = match ending {
        "dds" => described(
            Answer::new(200, "text/plain", Body::of(types::dds(&dataset.name, &wanted))),
            "dods_dds",
        ),
        "das" => described(Answer::new(200, "text/plain", Body::of(attributes::das(&dataset))), "dods_das"),
        _ => {
            let mut bytes = types::dds(&dataset.name, &wanted).into_bytes();
            bytes.extend_from_slice(b"\nData:\n");
            let most = usize::try_from(asked.most).unwrap_or(usize::MAX);
            for part in &wanted {
                data::append(&mut bytes, part, most, asked.ask)?;
            }
            described(Answer::new(200, "application/octet-stream", Body::of(bytes)), "dods_data")
        }
    };
    Ok(answer)
}

fn described(answer: Answer, what: &str) -> Answer {
    answer.with("content-description", what).with("xdods-server", "dods/3.2").with("xdap", "2.0")
}

/// An error in the words of DAP2.
fn problem(status: u16, message: &str) -> Answer {
    // Codes of DAP2: 1 is unknown, 5 a wrong constraint, 1005 no such variable.
    let code = if status == 400 { 5 } else { 1 };
    let message = attributes::quoted(message);
    let text = format!("Error {{\n    code = {code};\n    message = {message};\n}};\n");
    described(Answer::new(status, "text/plain", Body::of(text)), "dods_error")
}

/// The parts that a request wants.
type Wanted<'d> = Vec<Projection<'d>>;

#[cfg(test)]
mod tests;
