//! Names of element types, structures of elements, and fill values of all types.

#![no_main]

use hyperslab::zarr::{Structure, data_type, fill_from_json, fill_to_json};
use hyperslab::{DataType, Json};
use hyperslab_fuzz::split;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (name, value) = split(bytes);
    let Ok(name) = std::str::from_utf8(name) else { return };
    let value = Json::parse(value).unwrap_or(Json::Null);
    if let Ok(structure) = Structure::from_text(name) {
        let _ = (structure.check_v3(), structure.engine_type());
        assert_eq!(Structure::from_text(&structure.to_v2().to_text(None)).as_ref(), Ok(&structure));
    }
    let dtypes = name.parse::<DataType>().ok().into_iter();
    let dtypes =
        dtypes.chain(Json::parse(name.as_bytes()).ok().and_then(|json| Some(data_type(&json).ok()?.0)));
    for dtype in dtypes.filter(|dtype| dtype.size() <= 1 << 16) {
        let Some(element) = fill_from_json(dtype, &value) else { continue };
        assert_eq!(element.len(), dtype.size());
        let Some(json) = fill_to_json(dtype, &element) else { continue };
        assert_eq!(fill_from_json(dtype, &json), Some(element), "{dtype}: {json:?}");
    }
});
