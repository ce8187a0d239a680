//! Names of the attributes that turn stored numbers into values.

use super::FILL_VALUE;

/// Attributes of packed numbers.
pub const OF_PACKING: [&str; 3] = ["scale_factor", "add_offset", "_Unsigned"];

/// Attributes that say which time a number means.
pub const OF_TIMES: [&str; 2] = ["units", "calendar"];

/// Attributes that turn stored numbers into values: of packed numbers, of missing elements, of times, and
/// of Booleans.
pub fn of_numbers() -> impl Iterator<Item = &'static str> {
    OF_PACKING.into_iter().chain([FILL_VALUE, "missing_value"]).chain(OF_TIMES).chain(["dtype"])
}
