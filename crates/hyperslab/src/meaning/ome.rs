//! Placeholder.
use crate::{Format, Json};
pub(crate) fn group_attributes(attributes: Json, _: Format, _: Format) -> Json { attributes }
