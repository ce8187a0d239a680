//! Packed numbers: decodes the CF attributes of stored elements, as xarray and netCDF4 do.
//!
//! | attribute | means |
//! |---|---|
//! | `_FillValue`, `missing_value` | stored elements that are missing: a number or a list |
//! | `scale_factor`, `add_offset` | a stored number times the first, plus the second |
//! | `_Unsigned` | integers are stored with the other sign (`"true"`: read them as unsigned) |
//!
//! The fill value of a Zarr v2 array with axis names counts as `_FillValue`, as in xarray. The
//! limits `valid_min`, `valid_max` and `valid_range` are ignored, as in xarray.

use crate::{Array, ByteOrder, DataType, Error, Format, Json, Kind, Result};
use hyperslab_codec::Half;
use hyperslab_hdf5::element::ElementKind;

/// The values that stored numbers represent. By default, the stored numbers themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Packing {
    /// Stored elements that are missing, in the machine's byte order.
    pub missing: Vec<Vec<u8>>,
    /// The factor for stored numbers.
    pub scale: Option<f64>,
    /// The number to add after scaling.
    pub offset: Option<f64>,
    /// The type of the factor in its attribute.
    pub scale_type: FactorType,
    /// The type of the offset in its attribute.
    pub offset_type: FactorType,
    /// The attributes that mark missing elements.
    pub marks: Marks,
    /// Stored integers have the other sign.
    /// `true` reads signed integers as unsigned, `false` reads unsigned integers as signed.
    pub unsigned: Option<bool>,
}

/// The type of `scale_factor` or `add_offset`. It decides the type of unpacked values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FactorType {
    /// A number with a fraction in JSON, which has one type for all of these.
    #[default]
    Json,
    /// A whole number.
    Whole,
    /// A 32-bit float.
    Single,
    /// A 64-bit float.
    Double,
}

/// The values of the attributes `_FillValue` and `missing_value`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// Absent.
    #[default]
    Absent,
    /// All of their values are NaN.
    OnlyNan,
    /// They have other values, which need not be elements.
    Values,
}

impl Packing {
    /// Reads the packing of an array. Elements that are not numbers have none.
    ///
    /// Fails with [`Error::Options`] if an attribute is not a number.
    pub fn of(array: &Array) -> Result<Packing> {
        if array.vlen().is_some() || array.structure().is_some() || array.optional().is_some() {
            return Ok(Packing::default());
        }
        let fill = match array.format() {
            Format::ZarrV2 if array.dimension_names()?.is_some() => array.fill(),
            _ => None,
        };
        let mut packing = Packing::parse(&*array.attributes()?, array.dtype(), fill)
            .map_err(|why| Error::Options(format!("array '{}': {why}", array.layout().name())))?;
        for (name, known) in
            [("scale_factor", &mut packing.scale_type), ("add_offset", &mut packing.offset_type)]
        {
            if let Some(found) = factor_type(array, name)? {
                *known = found;
            }
        }
        Ok(packing)
    }

    /// Reads the packing from `attributes`, for elements of a type.
    /// `fill`: an element of that type, which counts as `_FillValue` in place of the attribute.
    ///
    /// Fails with a message that names the attribute that is not a number.
    pub fn parse(attributes: &Json, dtype: DataType, fill: Option<&[u8]>) -> Result<Packing, String> {
        let kind = dtype.kind();
        let is_time = matches!(kind, Kind::DateTime(_) | Kind::TimeDelta(_));
        if !is_time && !matches!(kind, Kind::Int | Kind::UInt | Kind::Float) {
            return Ok(Packing::default());
        }
        let unsigned = match (kind, attributes.get("_Unsigned").and_then(truth)) {
            (Kind::Int, Some(true)) => Some(true),
            (Kind::UInt, Some(false)) => Some(false),
            _ => None,
        };
        let mut missing = Vec::new();
        let mut marks = Marks::Absent;
        let is_nan = |element: &[u8]| kind == Kind::Float && float_of(element).is_nan();
        let mark = |marks: &mut Marks, is_null: bool| match is_null {
            // Integers are never NaN: such an attribute is ignored.
            true if kind != Kind::Float => {}
            true if *marks == Marks::Absent => *marks = Marks::OnlyNan,
            true => {}
            false => *marks = Marks::Values,
        };
        if let Some(fill) = fill {
            let mut fill = fill.to_vec();
            if dtype.order() != ByteOrder::NATIVE {
                fill.reverse();
            }
            mark(&mut marks, is_nan(&fill));
            missing.push(fill);
        }
        if is_time {
            return Ok(Packing { missing, marks, ..Packing::default() });
        }
        for name in ["_FillValue", "missing_value"] {
            let Some(found) = attributes.get(name) else { continue };
            if name == "_FillValue" && fill.is_some() {
                continue;
            }
            for value in found.as_array().unwrap_or(std::slice::from_ref(found)) {
                let element = match value {
                    Json::Number(text) => encode_element(text, dtype, unsigned.is_some()),
                    Json::String(text) if kind == Kind::Float => encoded(text, dtype),
                    // Text is not a number.
                    _ => None,
                };
                let is_null = match value {
                    Json::Null => true,
                    Json::Number(text) if kind != Kind::Float => text.parse().is_ok_and(f64::is_nan),
                    _ => element.as_deref().is_some_and(is_nan),
                };
                mark(&mut marks, is_null);
                missing.extend(element.filter(|element| !missing.contains(element)));
            }
        }
        let (scale, offset) = (number(attributes, "scale_factor")?, number(attributes, "add_offset")?);
        let (scale_type, offset_type) =
            (json_type(attributes, "scale_factor"), json_type(attributes, "add_offset"));
        Ok(Packing { missing, scale, offset, unsigned, scale_type, offset_type, marks })
    }

    /// Returns `true` if values must be computed from stored numbers.
    pub fn scales(&self) -> bool {
        self.scale.is_some() || self.offset.is_some()
    }

    /// The type to read stored elements as: the stored type, possibly with the other sign.
    pub fn number_type(&self, dtype: DataType) -> DataType {
        let kind = match self.unsigned {
            None => return dtype,
            Some(true) => Kind::UInt,
            Some(false) => Kind::Int,
        };
        DataType::new(kind, dtype.size(), dtype.order()).unwrap_or(dtype)
    }

    /// The number that a stored number represents.
    pub fn unpacked(&self, stored: f64) -> f64 {
        stored * self.scale.unwrap_or(1.0) + self.offset.unwrap_or(0.0)
    }
}

/// The type of a number in JSON.
fn json_type(attributes: &Json, name: &str) -> FactorType {
    let found = attributes.get(name).map(|found| found.as_array().and_then(<[Json]>::first).unwrap_or(found));
    match found {
        Some(Json::Number(text)) if text.parse::<i128>().is_ok() => FactorType::Whole,
        _ => FactorType::Json,
    }
}

/// The type of a number in an attribute of a file. `None`: it is JSON, or there is none.
fn factor_type(array: &Array, name: &str) -> Result<Option<FactorType>> {
    let dtype = if let Some(dataset) = array.as_hdf5() {
        match dataset.attribute(name)? {
            Some(attribute) => match attribute.element()?.kind {
                ElementKind::Plain(dtype) => dtype,
                _ => return Ok(None),
            },
            None => return Ok(None),
        }
    } else if let Some(variable) = array.as_netcdf3() {
        let found = variable.attributes().iter().find(|attribute| attribute.name == name);
        let Some(attribute) = found else { return Ok(None) };
        attribute.external.dtype()
    } else {
        return Ok(None);
    };
    Ok(Some(match (dtype.kind(), dtype.size()) {
        (Kind::Float, 8) => FactorType::Double,
        (Kind::Float, _) => FactorType::Single,
        _ => FactorType::Whole,
    }))
}

/// Reads a float in the machine's byte order.
fn float_of(element: &[u8]) -> f64 {
    match *element {
        [a, b] => half::f16::from_ne_bytes([a, b]).to_f64(),
        [a, b, c, d] => f32::from_ne_bytes([a, b, c, d]).into(),
        _ => element.try_into().map_or(0.0, f64::from_ne_bytes),
    }
}

/// The sign that `_Unsigned` gives. Like xarray, accepts no other spelling and no boolean.
fn truth(value: &Json) -> Option<bool> {
    match value {
        Json::String(text) if text == "true" => Some(true),
        Json::String(text) if text == "false" => Some(false),
        _ => None,
    }
}

/// The number in an attribute. A list of one number is that number, as in HDF5 attributes.
fn number(attributes: &Json, name: &str) -> Result<Option<f64>, String> {
    let Some(found) = attributes.get(name) else { return Ok(None) };
    match (found, found.as_array()) {
        (Json::Null, _) => Ok(None),
        (Json::Number(text), _) | (_, Some([Json::Number(text)])) => match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(format!("its attribute {name} is {text}, not a number")),
        },
        _ => Err(format!("its attribute {name} is {}, not a number", found.brief())),
    }
}

/// Converts a number, possibly written with the other sign, to an element.
pub(super) fn encode_element(text: &str, dtype: DataType, either: bool) -> Option<Vec<u8>> {
    let other = match dtype.kind() {
        Kind::Int => Kind::UInt,
        Kind::UInt => Kind::Int,
        _ => return number_element(text, dtype),
    };
    let other = DataType::new(other, dtype.size(), dtype.order()).filter(|_| either);
    number_element(text, dtype).or_else(|| number_element(text, other?))
}

/// Decodes a float fill value as xarray writes it to Zarr v3: eight bytes in base 64.
fn encoded(text: &str, dtype: DataType) -> Option<Vec<u8>> {
    let bytes: [u8; 8] = hyperslab_zarr::from_base64(text)?.try_into().ok()?;
    float_element(f64::from_le_bytes(bytes), dtype)
}

/// Converts a number to an element of a type, in the machine's byte order.
/// `None`: no element has this value. For floats, takes the nearest one.
pub fn number_element(text: &str, dtype: DataType) -> Option<Vec<u8>> {
    let float: f64 = text.parse().ok()?;
    if dtype.kind() == Kind::Float {
        return float_element(float, dtype);
    }
    let is_whole = float.fract() == 0.0 && float.abs() <= u64::MAX as f64;
    let whole = text.parse::<i128>().ok().or(is_whole.then_some(float as i128))?;
    let bits = u32::try_from(8 * dtype.size()).ok().filter(|bits| *bits <= 64)?;
    let range = match dtype.kind() {
        Kind::UInt => 0..=(1_i128 << bits) - 1,
        Kind::Bool => 0..=1,
        Kind::Int | Kind::DateTime(_) | Kind::TimeDelta(_) => {
            -(1_i128 << (bits - 1))..=(1_i128 << (bits - 1)) - 1
        }
        _ => return None,
    };
    if !range.contains(&whole) {
        return None;
    }
    let mut bytes = whole.to_le_bytes().get(..dtype.size())?.to_vec();
    if ByteOrder::NATIVE == ByteOrder::Big {
        bytes.reverse();
    }
    Some(bytes)
}

fn float_element(float: f64, dtype: DataType) -> Option<Vec<u8>> {
    Some(match dtype.size() {
        2 => Half::from_f64(float).0.to_ne_bytes().to_vec(),
        4 => (float as f32).to_ne_bytes().to_vec(),
        8 => float.to_ne_bytes().to_vec(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(attributes: &str, dtype: &str, fill: Option<&[u8]>) -> Result<Packing, String> {
        Packing::parse(&Json::parse(attributes.as_bytes()).unwrap(), dtype.parse().unwrap(), fill)
    }

    fn missing(attributes: &str, dtype: &str) -> Vec<Vec<u8>> {
        parsed(attributes, dtype, None).unwrap().missing
    }

    #[test]
    fn missing_elements() {
        let short = (-32767_i16).to_ne_bytes().to_vec();
        assert_eq!(missing(r#"{"_FillValue": -32767}"#, "<i2"), std::slice::from_ref(&short));
        assert_eq!(missing(r#"{"_FillValue": [-32767.0], "missing_value": -32767}"#, ">i2"), [short]);
        assert_eq!(missing(r#"{"missing_value": [1, 2.5, 300, "x", null, NaN]}"#, "|u1"), [[1]]);
        assert_eq!(missing(r#"{"_FillValue": 1e20}"#, "<f4"), [1e20_f32.to_ne_bytes()]);
        // As xarray writes it to Zarr v3.
        assert_eq!(missing(r#"{"_FillValue": "AAAAAACIw8A="}"#, "<f4"), [(-10000_f32).to_ne_bytes()]);
        assert_eq!(missing(r#"{"_FillValue": 18446744073709551615}"#, "<u8"), [[255; 8]]);
        assert_eq!(missing(r#"{"_FillValue": 0}"#, "|b1"), Vec::<Vec<u8>>::new());
        assert_eq!(missing("{}", "<i2"), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn the_fill_value_is_a_fill_value() {
        let both = parsed(r#"{"_FillValue": 1, "missing_value": 2}"#, ">i2", Some(&[0, 7])).unwrap();
        assert_eq!(both.missing, [7_i16.to_ne_bytes(), 2_i16.to_ne_bytes()]);
    }

    #[test]
    fn marks() {
        for (attributes, dtype, marks) in [
            ("{}", "<f4", Marks::Absent),
            (r#"{"_FillValue": NaN}"#, "<f4", Marks::OnlyNan),
            (r#"{"_FillValue": "AAAAAAAA+H8="}"#, "<f8", Marks::OnlyNan),
            (r#"{"_FillValue": NaN, "missing_value": 1}"#, "<f2", Marks::Values),
            (r#"{"_FillValue": NaN}"#, "<i2", Marks::Absent),
            (r#"{"missing_value": 1000}"#, "|i1", Marks::Values),
        ] {
            assert_eq!(parsed(attributes, dtype, None).unwrap().marks, marks, "{attributes} {dtype}");
        }
    }

    #[test]
    fn signs() {
        let bytes = parsed(r#"{"_Unsigned": "true", "_FillValue": -1, "missing_value": 254}"#, "|i1", None);
        let bytes = bytes.unwrap();
        assert_eq!((bytes.unsigned, bytes.missing.as_slice()), (Some(true), &[vec![255], vec![254]][..]));
        assert_eq!(bytes.number_type("|i1".parse().unwrap()), "|u1".parse().unwrap());
        assert_eq!(parsed(r#"{"_Unsigned": "false"}"#, "<u2", None).unwrap().unsigned, Some(false));
        for (attributes, dtype) in [(r#"{"_Unsigned": "true"}"#, "<u2"), (r#"{"_Unsigned": "true"}"#, "<f4")]
        {
            assert_eq!(parsed(attributes, dtype, None).unwrap().unsigned, None);
        }
        for other in [r#""True""#, r#""TRUE""#, "true", "1", r#"["true"]"#] {
            let found = parsed(&format!(r#"{{"_Unsigned": {other}}}"#), "|i1", None).unwrap();
            assert_eq!(found.unsigned, None, "{other}");
        }
    }

    #[test]
    fn scales_and_offsets() {
        let packing = parsed(r#"{"scale_factor": [0.5], "add_offset": 10}"#, "<i2", None).unwrap();
        assert_eq!((packing.scales(), packing.unpacked(3.0)), (true, 11.5));
        assert_eq!((packing.scale_type, packing.offset_type), (FactorType::Json, FactorType::Whole));
        assert_eq!(parsed(r#"{"scale_factor": null}"#, "<i2", None).unwrap(), Packing::default());
        for wrong in [r#"{"scale_factor": "0.1"}"#, r#"{"add_offset": [1, 2]}"#, r#"{"add_offset": true}"#] {
            let why = parsed(wrong, "<i2", None).unwrap_err();
            assert!(why.contains("not a number"), "{why}");
        }
    }

    #[test]
    fn numbers_as_elements() {
        let of = |text: &str, name: &str| number_element(text, name.parse().unwrap());
        assert_eq!(of("-1", "|i1"), Some(vec![255]));
        assert_eq!(of("-999", "|i1"), None);
        assert_eq!(of("256", "|u1"), None);
        assert_eq!(of("2", "|b1"), None);
        assert_eq!(of("1.5", "<i4"), None);
        assert_eq!(of("inf", "<i4"), None);
        assert_eq!(of("1e3", ">i2"), Some(1000_i16.to_ne_bytes().to_vec()));
        assert_eq!(of("-999.25", "<f4"), Some((-999.25_f32).to_ne_bytes().to_vec()));
        assert_eq!(of("-999.25", "<f2"), Some(Half::from_f64(-999.25).0.to_ne_bytes().to_vec()));
        // The middle of two halves goes to the even one; a number just above it goes up.
        assert_eq!(of("1.00048828125", "<f2"), Some(0x3c00u16.to_ne_bytes().to_vec()));
        assert_eq!(of("1.0004882812500002220446049250313", "<f2"), Some(0x3c01u16.to_ne_bytes().to_vec()));
        assert_eq!(of("-1", "<u8"), None);
        assert_eq!(of("5", "<M8[D]"), Some(5_i64.to_ne_bytes().to_vec()));
        assert_eq!(of("x", "<f4"), None);
    }
}
