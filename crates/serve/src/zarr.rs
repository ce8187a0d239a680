//! `/zarr/…`: hierarchies of any format as Zarr v3.

use crate::answer::{Answer, is_known};
use crate::listing;
use crate::roots::{Found, Roots};
use hyper::header::HeaderMap;
use hyperslab::Result;

/// Answers a request below `/zarr`. `lists`: the path ends in a slash. `head`: without the body.
pub(crate) fn answer(
    roots: &Roots,
    parts: &[String],
    lists: bool,
    request: &HeaderMap,
    head: bool,
) -> Result<Answer> {
    let asked = || format!("/zarr/{}", parts.join("/"));
    let missing = |found: &str| {
        Ok(Answer::problem(
            404,
            asked(),
            found,
            "list what is there: add a slash at the end, or ask /api/tree",
        ))
    };
    match roots.find(parts)? {
        Found::Nothing => missing("nothing is there"),
        Found::Folder(entries) if lists => Ok(listing::answer(&asked(), &entries, request)),
        Found::Folder(_) => missing("a folder, which is no object"),
        Found::Inside(hierarchy, path) if lists => {
            let entries = hierarchy.names(&path)?;
            match entries.is_empty() {
                true => missing("nothing is there"),
                false => Ok(listing::answer(&asked(), &entries, request)),
            }
        }
        Found::Inside(hierarchy, key) => match hierarchy.object(&key, &|tag| is_known(request, tag))? {
            Some(asset) => Answer::asset(asset, request, head),
            None => missing("no object of Zarr v3. An absent chunk has only fill values"),
        },
    }
}
