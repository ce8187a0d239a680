//! `/h5grove/…`: the routes of [h5grove](https://github.com/silx-kit/h5grove), version 4, so that
//! H5Web reads every format.
//!
//! | route | answer | query |
//! |---|---|---|
//! | `meta` | kind, shape, type, names of attributes; of a group: the nodes below | `resolve_links` |
//! | `attr` | values of attributes | `attr_keys` |
//! | `data` | elements as they are stored | `selection`, `format`, `dtype=safe`, `flatten` |
//! | `stats` | statistics of finite elements | `selection` |
//! | `paths` | all paths below | `resolve_links` |
//!
//! `file` is the path of a file or hierarchy as everywhere in this server, and `path` a path in it.
//! Nodes of other formats are described as a copy to HDF5 would have them.
//!
//! One difference: h5grove writes `<HDF5 object reference>` for references, and this server writes the
//! paths that they lead to.

mod entity;
mod json;
mod meta;
mod tiff;
mod types;
mod values;

use crate::answer::Answer;
use crate::api::Asked;
use crate::body::Body;
use crate::path;
use crate::roots::{Found, Roots};
use crate::server::status;
use entity::{Entity, Resolve};
use hyperslab::{Error, Group, Json, Node, with_causes};
use values::Values;

/// Why there is no answer.
pub(super) enum Halt {
    /// A status, and a message in h5grove's words where H5Web looks for them.
    Refused(u16, String),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Halt {
    fn from(error: E) -> Self {
        Halt::Failed(error.into())
    }
}

type Answered<T> = std::result::Result<T, Halt>;

/// Answers a request below `/h5grove`.
pub(crate) fn answer(roots: &Roots, parts: &[String], asked: &Asked<'_>) -> Answer {
    let (status, message) = match route(roots, parts, asked) {
        Ok(answer) => return answer,
        Err(Halt::Refused(status, message)) => (status, message),
        Err(Halt::Failed(error)) => match status(&error) {
            // H5Web shows these words in its own way.
            (403, _) => (403, "Cannot read file: Permission denied!".into()),
            (status, advice) => (status, format!("{}; {advice}", roots.hidden(&with_causes(&error)))),
        },
    };
    let text = Json::from([("message", message.as_str().into())]).to_text(None);
    Answer::new(status, "application/json", Body::of(text))
}

fn route(roots: &Roots, parts: &[String], asked: &Asked<'_>) -> Answered<Answer> {
    const ROUTES: &str = "attr, data, meta, paths, stats";
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let route = match parts[..] {
        [] => return Ok(Answer::new(200, "text/plain", Body::of("ok"))),
        [route @ ("attr" | "data" | "meta" | "paths" | "stats")] => route,
        _ => {
            let message = format!("/h5grove/{}: no route; ask for one of: {ROUTES}", parts.join("/"));
            return Err(Halt::Refused(404, message));
        }
    };
    let value = |name: &str| path::query(asked.query, name);
    let Some(file) = value("file").filter(|file| !file.is_empty()) else {
        let message = "file: expected the path of a file, found none; ask for ?file=NAME&path=/";
        return Err(Halt::Refused(422, message.into()));
    };
    let root = root(roots, &file)?;
    let place = value("path").filter(|path| !path.is_empty()).unwrap_or_else(|| "/".into());
    let base = file.rsplit('/').next().unwrap_or_default().to_owned();
    let resolve = match value("resolve_links").unwrap_or_default().to_ascii_lowercase().as_str() {
        "" | "only_valid" => Resolve::Valid,
        "true" | "all" => Resolve::All,
        "false" | "none" => Resolve::None,
        other => {
            let message = format!(
                "{other} is not a valid value for link resolution. Accepted values are: all, none or only_valid"
            );
            return Err(Halt::Refused(422, message));
        }
    };
    let find = |path: &str| Entity::find(&root, path, &base, resolve);
    let array = || match find(&place)? {
        Entity::Array(array) => Ok(array),
        _ => Err(Halt::Refused(422, format!("{place} is not a dataset"))),
    };
    Ok(match route {
        "meta" => json_answer(&meta::described(&place, &find(&place)?, 1, resolve, asked.ask)?),
        "attr" => {
            let keys = path::queries(asked.query, "attr_keys");
            json_answer(&meta::attribute_values(&place, &find(&place)?, &keys)?)
        }
        "paths" => match find(&place)? {
            Entity::Group(group) => json_answer(&entity::paths(&place, &group, asked.ask)?),
            _ => return Err(Halt::Refused(422, format!("{place} is not a group"))),
        },
        "stats" => {
            let array = array()?;
            let values =
                Values { array: &array, selection: value("selection"), most: asked.most, ask: asked.ask };
            json_answer(&values.statistics()?)
        }
        _ => {
            let array = array()?;
            let values =
                Values { array: &array, selection: value("selection"), most: asked.most, ask: asked.ask };
            let is_safe = match value("dtype").as_deref() {
                None | Some("" | "origin") => false,
                Some("safe") => true,
                Some(other) => return Err(Halt::Refused(422, format!("Unsupported dtype {other}"))),
            };
            let flatten = value("flatten").is_some_and(|on| !on.eq_ignore_ascii_case("false"));
            values.encoded(value("format").as_deref().unwrap_or("json"), is_safe, flatten)?
        }
    })
}

fn json_answer(json: &Json) -> Answer {
    Answer::new(200, "application/json", Body::of(json.to_text(None)))
}

/// The root group of a file, or of a Zarr hierarchy.
fn root(roots: &Roots, file: &str) -> Answered<Group> {
    let missing = || Halt::Refused(404, "File not found!".into());
    let parts = path::names(file.trim_matches('/')).ok_or_else(missing)?;
    let Found::Inside(hierarchy, inside) = roots.find(&parts)? else { return Err(missing()) };
    match hierarchy.node(&inside)? {
        Some(Node::Group(group)) => Ok(group),
        Some(Node::Array(_)) => Err(Halt::Refused(
            422,
            "the file is an array without a group around it: serve the directory above".into(),
        )),
        None => Err(missing()),
    }
}
