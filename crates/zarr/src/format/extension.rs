//! The v3 form of everything extensible.
//!
//! It is `"name"`, or `{"name": …, "configuration": {…}, "must_understand": …}`
//! (<https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html#extension-definition>).

use crate::error::{Problem, invalid, unexpected_value};
use crate::json::Json;

/// A named extension. `must_understand` is not kept: data types, grids, key encodings and codecs
/// can never be ignored, so an unknown one is always refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension<'a> {
    /// The metadata field, for messages.
    pub(crate) field: &'a str,
    /// The extension's name.
    pub(crate) name: &'a str,
    /// The extension's configuration, an object.
    pub(crate) configuration: Option<&'a Json>,
}

impl<'a> Extension<'a> {
    /// Parses either form.
    pub(crate) fn parse(field: &'a str, json: &'a Json) -> Result<Self, Problem> {
        let members = match json {
            Json::String(name) => return Ok(Extension { field, name, configuration: None }),
            Json::Object(members) => members,
            other => {
                return unexpected_value(field, "a name or an object with a name", other);
            }
        };
        let (mut name, mut configuration) = (None, None);
        for (key, value) in members {
            match (key.as_str(), value) {
                ("name", Json::String(text)) => name = Some(text.as_str()),
                ("configuration", Json::Object(_)) => configuration = Some(value),
                ("must_understand", Json::Bool(_)) => {}
                ("name", other) => return invalid!("{field}: name: expected text, found {}", other.brief()),
                ("configuration", other) => {
                    return invalid!("{field}: configuration: expected an object, found {}", other.brief());
                }
                ("must_understand", other) => {
                    return invalid!(
                        "{field}: must_understand: expected true or false, found {}",
                        other.brief()
                    );
                }
                _ => {
                    return invalid!(
                        "{field}: expected name, configuration and must_understand, found {}",
                        Json::from(key.as_str()).brief()
                    );
                }
            }
        }
        match name {
            Some(name) => Ok(Extension { field, name, configuration }),
            None => invalid!("{field}: the name is missing in {}", json.brief()),
        }
    }

    /// The value of a configuration member.
    pub(crate) fn get(&self, member: &str) -> Option<&'a Json> {
        self.configuration.and_then(|configuration| configuration.get(member))
    }

    /// The value of a required configuration member.
    pub(crate) fn require(&self, member: &str) -> Result<&'a Json, Problem> {
        self.get(member).ok_or_else(|| {
            Problem::Invalid(format!("{}: the configuration of \"{}\" lacks {member}", self.field, self.name))
        })
    }

    /// Refuses other configuration members: they would change the meaning in an unknown way.
    pub(crate) fn allow_only(&self, known: &[&str]) -> Result<(), Problem> {
        let members = self.configuration.and_then(Json::as_object).unwrap_or_default();
        match members.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) => invalid!(
                "{}: the configuration of \"{}\" has an unknown member {}",
                self.field,
                self.name,
                Json::from(key.as_str()).brief()
            ),
        }
    }
}
