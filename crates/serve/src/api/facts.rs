//! `info`, `attributes`, `explain`, `describe`, `version`: facts about a node. No elements are read.

use super::{Asked, Place};
use crate::answer::Answer;
use hyperslab::look::Description;
use hyperslab::{Json, Node, Result, explained};

/// The most chunks that `explain` lists one by one.
const MOST_LISTED: usize = 1000;

pub(super) fn info(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let mut json = match &place.node {
        Node::Array(array) => array.info(Some(asked.ask))?.to_json(),
        Node::Group(group) => group.info(Some(asked.ask))?.to_json(),
    };
    json.set("url", place.parts.join("/").as_str().into());
    Ok(Answer::json(&json))
}

pub(super) fn explain(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let list = asked.number("list")?.unwrap_or(10).min(MOST_LISTED);
    Ok(Answer::json(&explained(&array.explain_read(&asked.selection(array)?, list)?)))
}

pub(super) fn attributes(place: &Place<'_>, _: &Asked<'_>) -> Result<Answer> {
    Ok(Answer::json(&*place.node.attributes()?))
}

/// Describes an array to a viewer.
pub(super) fn describe(place: &Place<'_>, _: &Asked<'_>) -> Result<Answer> {
    let mut found = Description::of(&place.array()?)?;
    for axis in &mut found.axes {
        axis.coordinate.take_if(|array| place.path_of(array).is_none());
    }
    found.levels.retain(|array| place.path_of(array).is_some());
    let mut json = Json::from([("name", place.parts.join("/").as_str().into())]);
    for (name, value) in found.to_json(&|array| place.path_of(array))?.as_object().unwrap_or_default() {
        json.set(name, value.clone());
    }
    json.set("version", place.hierarchy.version(&place.inside)?.as_str().into());
    Ok(Answer::json(&json))
}

/// A text that changes when the file, or the documents of the node, change.
pub(super) fn version(place: &Place<'_>, _: &Asked<'_>) -> Result<Answer> {
    let shape = match &place.node {
        Node::Array(array) => array.shape().into(),
        Node::Group(_) => Json::Null,
    };
    let version = place.hierarchy.version(&place.inside)?;
    Ok(Answer::json(&Json::from([("version", version.as_str().into()), ("shape", shape)])))
}
