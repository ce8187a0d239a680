use super::*;
use hyperslab::{ArraySpec, Format, Group, Index};

/// A group with a packed array `sst` of 3 × 4, bytes `b`, and names of any length in a group below.
fn dataset(dir: &tempfile::TempDir) -> Dataset {
    let location = dir.path().join("o.zarr").display().to_string();
    let attributes =
        Json::parse(br#"{"title": "say \"hi\"", "levels": [1, 2.5], "mixed": [1, "a"]}"#).unwrap();
    let mut root = Group::create(&location, Format::ZarrV3).unwrap();
    root.set_attributes(attributes).unwrap();
    let array = |name: &str, dtype: &str, shape: &[u64], names: &[&str], attributes: &str| {
        let mut spec = ArraySpec::new(hyperslab::zarr::Format::V3, shape, dtype.parse().unwrap());
        spec.dimension_names = Some(names.iter().map(|name| Some((*name).to_owned())).collect());
        spec.attributes = Json::parse(attributes.as_bytes()).unwrap();
        root.create_array(name, &spec).unwrap()
    };
    let sst = array("sst", "<i2", &[3, 4], &["t", "x"], r#"{"units": "degC", "_FillValue": -999}"#);
    sst.write_slice(&[], &(0..12_i16).map(|n| n - 1).collect::<Vec<_>>()).unwrap();
    array("b", "|u1", &[5], &["n"], "{}").write_slice(&[], &[1_u8, 2, 3, 4, 5]).unwrap();
    let signed = array("signed", "|i1", &[2], &["k"], r#"{"_Unsigned": "true", "_FillValue": -1}"#);
    signed.write_slice(&[], &[-56_i8, -1]).unwrap();
    array("huge", "<i8", &[2], &["k"], r#"{"_Unsigned": "true"}"#);
    array("deep/one", "<i8", &[], &[], "{}").write_slice(&[], &[1_i64 << 53]).unwrap();
    array("deep/large", "<i8", &[2], &["m"], "{}")
        .write_slice(&[Index::At(0)], &[(1_i64 << 53) + 1])
        .unwrap();
    array("z", "<c8", &[2], &["m"], "{}");
    Dataset::new("o.zarr", &Node::Group(Group::open(&location).unwrap()), &|_| Ok(None), &|| false).unwrap()
}

fn xdr(dataset: &Dataset, constraint: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in parts(&dataset.members, constraint).unwrap() {
        data::append(&mut bytes, &part, 1 << 20, &|| false)?;
    }
    Ok(bytes)
}

#[test]
fn documents() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(&dir);
    let dds = types::dds("o.zarr", &parts(&dataset.members, "").unwrap());
    for line in [
        "    Int16 sst[t = 3][x = 4];\n",
        "    Byte b[n = 5];\n",
        "    Byte signed[k = 2];\n",
        "    Float64 deep/one;\n",
        "} o.zarr;\n",
    ] {
        assert!(dds.contains(line), "{dds}");
    }
    assert_eq!(
        types::dds("o", &parts(&dataset.members, "sst[0:2:2][1:3]").unwrap()),
        "Dataset {\n    Int16 sst[t = 2][x = 3];\n} o;\n"
    );
    let das = attributes::das(&dataset);
    for line in [
        "Int16 _FillValue -999;",
        "String units \"degC\";",
        r#"String title "say \"hi\"";"#,
        "Float64 levels 1, 2.5;",
        r#"String mixed "[1, \"a\"]";"#,
        r#"String hyperslab_variables_without_a_dap2_type "huge", "z";"#,
        "Byte _FillValue 255;",
    ] {
        assert!(das.contains(line), "{das}");
    }
    assert_eq!(das.matches("_FillValue").count(), 2);
    assert_eq!(das.matches(r#"String _Unsigned "true";"#).count(), 2);
}

#[test]
fn elements() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(&dir);
    let numbers = |numbers: &[i32]| numbers.iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<_>>();
    assert_eq!(xdr(&dataset, "sst[0:2:2][0:1]").unwrap(), numbers(&[4, 4, -1, 0, 7, 8]));
    assert_eq!(xdr(&dataset, "b").unwrap(), [&numbers(&[5, 5])[..], &[1, 2, 3, 4, 5, 0, 0, 0]].concat());
    assert_eq!(xdr(&dataset, "signed").unwrap(), [&numbers(&[2, 2])[..], &[200, 255, 0, 0]].concat());
    assert_eq!(xdr(&dataset, "deep/one").unwrap(), 9007199254740992.0_f64.to_be_bytes());
    let inexact = xdr(&dataset, "deep/large").unwrap_err().to_string();
    assert!(inexact.contains("no double"), "{inexact}");
}

#[test]
fn constraints_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = dataset(&dir);
    for (constraint, why) in [
        ("no", "no variable"),
        ("sst[0]", "1 parts for 2 axes"),
        ("sst[0:9][0]", "not inside"),
        ("sst[2:1][0]", "not inside"),
        ("sst[0:0:1][0]", "not inside"),
        ("sst[-1][0]", "is no part"),
        ("sst[99999999999999999999999][0]", "is no part"),
        ("sst[0][0", "bracket"),
        ("sst&x>3", "only variables"),
    ] {
        let found = parts(&dataset.members, constraint).err().unwrap();
        assert!(found.contains(why), "{constraint}: {found}");
    }
    assert_eq!(parts(&dataset.members, "token=x").unwrap().len(), dataset.members.len());
}
