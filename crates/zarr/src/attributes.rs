//! The attributes of a node.

use crate::error::{Problem, unexpected_value};
use crate::json::Json;
use std::sync::Arc;

static EMPTY: Json = Json::Object(Vec::new());

/// The attributes of a node. They may be large, so they are shared with the node's document.
#[derive(Clone, Debug)]
pub(crate) enum Attributes {
    /// v3: a member of the document.
    Within(Arc<Json>),
    /// v2: a document of their own, or `None` if there is none.
    Alone(Option<Arc<Json>>),
}

impl Attributes {
    /// Checks that the attributes are an object. If they are absent or `null`, they are empty.
    pub(crate) fn checked(self) -> Result<Attributes, Problem> {
        match self.stored() {
            None | Some(Json::Null | Json::Object(_)) => Ok(self),
            Some(other) => unexpected_value("attributes", "an object", other),
        }
    }

    /// Attributes that are stored nowhere yet.
    pub(crate) fn new(attributes: Json) -> Attributes {
        Attributes::Alone(Some(Arc::new(attributes)))
    }

    fn stored(&self) -> Option<&Json> {
        match self {
            Attributes::Within(document) => document.get("attributes"),
            Attributes::Alone(attributes) => attributes.as_deref(),
        }
    }

    /// The attributes as an object.
    pub(crate) fn json(&self) -> &Json {
        self.stored().filter(|stored| stored.as_object().is_some()).unwrap_or(&EMPTY)
    }
}
