//! Which variables of two sources can be joined: their stored elements must mean the same.

use super::attributes::{OF_TIMES, of_numbers};
use super::{FILL_VALUE, Variable};
use crate::{Array, Json};

/// Attributes that say what a value means, and do not change it.
const OF_CODES: [&str; 4] = ["flag_values", "flag_masks", "flag_meanings", "positive"];

/// Attributes without which a stored element has another value, or another meaning. Joined elements stay
/// as they are stored, so these must be equal. The fill value is compared by itself.
fn of_values() -> impl Iterator<Item = &'static str> {
    of_numbers().filter(|name| *name != FILL_VALUE).chain(OF_CODES)
}

impl Variable {
    /// Says why elements of another variable cannot be joined to this one's. `arrays`: the arrays of
    /// both.
    /// `retimed`: the other one's times become numbers of this one's units.
    pub(crate) fn joining_difference(
        &self,
        arrays: (&Array, &Array),
        other: &Variable,
        retimed: bool,
    ) -> Option<String> {
        let (own, found) = (self.missing.describe(arrays.0), other.missing.describe(arrays.1));
        if own != found {
            return Some(format!(
                "has the fill value {found}, and {own} in the first source: stored values are joined"
            ));
        }
        let differs = |name: &&str| self.attributes.get(name) != other.attributes.get(name);
        let name = of_values().filter(|name| !retimed || !OF_TIMES.contains(name)).find(differs)?;
        let text = |variable: &Variable| match variable.attributes.get(name) {
            None => "none".to_owned(),
            Some(value) => value.brief(),
        };
        let (own, found) = (text(self), text(other));
        let advice = match OF_TIMES.contains(&name) && is_time(self) && is_time(other) {
            true => {
                "the times of one have no exact numbers in the units of the other; write all sources with one calendar and the same units"
            }
            false => "stored values are joined, and would mean something else",
        };
        Some(format!("has {name} {found}, and {own} in the first source: {advice}"))
    }

    /// The names of attributes that differ in a variable that can be joined.
    pub(crate) fn other_attributes(&self, other: &Variable) -> Vec<String> {
        let names = |json: &Json| {
            json.as_object().unwrap_or_default().iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let mut all = names(&self.attributes);
        all.extend(names(&other.attributes).into_iter().filter(|name| self.attributes.get(name).is_none()));
        all.retain(|name| self.attributes.get(name) != other.attributes.get(name));
        all
    }

    /// Describes the first attribute that differs. The order of attributes does not count.
    pub(crate) fn attribute_difference(&self, other: &Variable) -> Option<String> {
        let name = self.other_attributes(other).into_iter().next()?;
        let text =
            |variable: &Variable| variable.attributes.get(&name).map_or("none".to_owned(), Json::brief);
        Some(format!("its attribute {name:?} is {}, and {} in the first source", text(other), text(self)))
    }
}

/// Returns `true` for elements that are times since a date.
fn is_time(variable: &Variable) -> bool {
    variable.attributes.get("units").and_then(Json::as_str).is_some_and(|units| units.contains(" since "))
}
