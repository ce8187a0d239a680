//! HDF5 attributes as JSON.

use crate::Json;
use hyperslab_hdf5::value::Value;
use hyperslab_hdf5::{Attribute, Hdf5Error};

/// Converts attributes to a JSON object.
pub(crate) fn attributes(attributes: &[Attribute]) -> Result<Json, Hdf5Error> {
    let members = attributes.iter().map(|attribute| {
        // The name is next to the value, so the message need not repeat it.
        let within = format!(" (attribute '{}')", attribute.name);
        Ok((attribute.name.clone(), to_json(attribute.value(), &within)?))
    });
    Ok(Json::Object(members.collect::<Result<_, Hdf5Error>>()?))
}

/// Converts a value; an unsupported one becomes `{"unsupported": what}`.
/// A value that cannot be read must not hide the others. `within` is cut off the end of `what`.
pub(crate) fn to_json(found: Result<Value, Hdf5Error>, within: &str) -> Result<Json, Hdf5Error> {
    match found {
        Ok(value) => Ok(self::value(value)),
        Err(Hdf5Error::Unsupported { what, .. }) => {
            let what = what.strip_suffix(within).unwrap_or(&what);
            Ok(Json::Object(vec![("unsupported".into(), what.into())]))
        }
        Err(error) => Err(error),
    }
}

/// Converts a value. Bytes that are text become text, other bytes a list of numbers. Complex
/// numbers become pairs.
pub(crate) fn value(value: Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(on) => on.into(),
        Value::Int(number) => number.into(),
        Value::Float(number) => Json::float(number),
        Value::Text(text) => text.as_str().into(),
        Value::Bytes(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => text.into(),
            Err(_) => Json::Array(bytes.into_iter().map(|byte| u64::from(byte).into()).collect()),
        },
        Value::List(list) => Json::Array(list.into_iter().map(self::value).collect()),
        Value::Record(members) => {
            Json::Object(members.into_iter().map(|(name, member)| (name, self::value(member))).collect())
        }
        Value::Complex(real, imaginary) => Json::Array(vec![Json::float(real), Json::float(imaginary)]),
    }
}
