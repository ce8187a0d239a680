//! `advise`: chunks that suit a selection.

use super::{Asked, Place};
use crate::answer::Answer;
use hyperslab::advise::{self, Access};
use hyperslab::{Error, Result};

/// Advice for the ways of reading in `access`, or for the selection. All have equal weight.
pub(super) fn advise(place: &Place<'_>, asked: &Asked<'_>) -> Result<Answer> {
    let array = &place.array()?;
    let names = array.dimension_names()?;
    let select = asked.value("select").map(|text| format!("[{text}]"));
    let wanted = asked.value("access").or(select).unwrap_or_else(|| "all".to_owned());
    let parse = |text: &str| Access::parse(text.trim(), array.shape(), names.as_deref());
    let access: std::result::Result<Vec<_>, _> = wanted.split(';').map(parse).collect();
    let advice = advise::advise(array, access.map_err(Error::Options)?, None)?;
    Ok(Answer::json(&advice.to_json(array, &place.parts.join("/"))?))
}
