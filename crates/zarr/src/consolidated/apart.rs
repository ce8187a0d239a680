//! Takes the nodes out of a document with consolidated metadata, while it is parsed.

use super::MEMBER;
use crate::Format;
use crate::json::{Json, JsonError, Members, Value};
use crate::node::NodeKind;
use std::sync::Arc;

/// The nodes of consolidated metadata, as text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Apart {
    /// Names of members in order, with the numbers of their texts.
    pub(super) names: Vec<(String, usize)>,
    pub(super) texts: Vec<Arc<str>>,
    /// The kind of node that each text describes in v3.
    pub(super) kinds: Vec<Kind>,
}

/// The kind of node that a text describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Known(NodeKind),
    /// The text must be parsed to find out.
    Unclear,
}

impl Members for Apart {
    fn start(&mut self) {
        *self = Apart::default();
    }

    fn member(&mut self, name: String, value: Value<'_>) {
        if value.number == self.texts.len() {
            self.texts.push(value.text.into());
            self.kinds.push(kind(&value));
        }
        self.names.push((name, value.number));
    }
}

fn kind(value: &Value<'_>) -> Kind {
    match (value.field("\"zarr_format\""), value.field("\"node_type\"")) {
        (Some("3"), Some("\"array\"")) => Kind::Known(NodeKind::Array),
        (Some("3"), Some("\"group\"")) => Kind::Known(NodeKind::Group),
        _ => Kind::Unclear,
    }
}

/// Drops the nodes.
struct Dropped;

impl Members for Dropped {
    fn start(&mut self) {}

    fn member(&mut self, _: String, _: Value<'_>) {}
}

fn path(format: Format) -> &'static [&'static str] {
    match format {
        Format::V3 => &[MEMBER, "metadata"],
        Format::V2 => &["metadata"],
    }
}

/// Parses a v3 group's document, or `.zmetadata`, and takes its nodes out.
pub(crate) fn parse(text: &[u8], format: Format) -> Result<(Json, Apart), JsonError> {
    let mut apart = Apart::default();
    let document = Json::parse_apart(text, path(format), &mut apart)?;
    Ok((document, apart))
}

/// Like [`parse`], but drops the nodes.
pub(crate) fn outline(text: &[u8], format: Format) -> Result<Json, JsonError> {
    Json::parse_apart(text, path(format), &mut Dropped)
}
