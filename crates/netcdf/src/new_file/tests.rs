use super::*;
use crate::File;
use crate::header::Header;
use crate::testing::store;
use proptest::prelude::*;

const VERSIONS: [Version; 3] = [Version::Classic, Version::Offset64, Version::Data64];

fn fixed(name: &str, len: u64) -> Dimension {
    Dimension { name: name.into(), len, unlimited: false }
}

fn records(name: &str, len: u64) -> Dimension {
    Dimension { name: name.into(), len, unlimited: true }
}

fn variable(name: &str, dimensions: &[usize], external: External) -> NewVariable {
    NewVariable { name: name.into(), dimensions: dimensions.to_vec(), attributes: vec![], external }
}

fn file(version: Version, dimensions: &[Dimension], variables: &[NewVariable]) -> NewFile {
    NewFile { version, dimensions: dimensions.to_vec(), attributes: vec![], variables: variables.to_vec() }
}

fn begins(new: &NewFile) -> Vec<u64> {
    let header = Header::parse(&new.build().unwrap().header).unwrap();
    header.variables.iter().map(|variable| variable.begin).collect()
}

fn refused(new: &NewFile) -> String {
    new.build().unwrap_err().to_string()
}

#[test]
fn fixed_variables_come_first_and_are_padded() {
    let dimensions = [records("t", 3), fixed("x", 3)];
    let variables = [
        variable("record", &[0, 1], External::Byte),
        variable("fixed", &[1], External::Short),
        variable("scalar", &[], External::Double),
        variable("more", &[0], External::Short),
    ];
    for version in VERSIONS {
        let new = file(version, &dimensions, &variables);
        let built = new.build().unwrap();
        let header = built.header.len() as u64;
        assert_eq!(begins(&new), [header + 16, header, header + 8, header + 20]);
        assert_eq!(built.len, header + 16 + 3 * 8);
    }
}

#[test]
fn a_single_record_variable_is_not_padded() {
    let dimensions = [records("t", 5), fixed("x", 3)];
    let new = file(Version::Classic, &dimensions, &[variable("v", &[0, 1], External::Byte)]);
    let built = new.build().unwrap();
    assert_eq!(built.len, built.header.len() as u64 + 15);
}

#[test]
fn sizes_that_a_format_cannot_hold() {
    let (gib, two) = (1 << 30, [fixed("x", 1 << 30), fixed("y", 2)]);
    // 2 GiB in the last variable are possible, before another variable they are not.
    let large = variable("large", &[0, 1], External::Byte);
    let small = variable("small", &[1], External::Int);
    assert_eq!(file(Version::Classic, &two, &[small.clone(), large.clone()]).build().unwrap().len, {
        2 * gib
            + file(Version::Classic, &two, &[small.clone(), large.clone()]).build().unwrap().header.len()
                as u64
            + 8
    });
    let error = refused(&file(Version::Classic, &two, &[large.clone(), small.clone()]));
    assert!(error.contains("variable 'large'") && error.contains("NETCDF3_64BIT_OFFSET"), "{error}");
    assert!(file(Version::Offset64, &two, &[large.clone(), small.clone()]).build().is_ok());
    let wide = variable("wide", &[0, 1], External::Double);
    let error = refused(&file(Version::Offset64, &two, &[wide.clone(), small.clone()]));
    assert!(error.contains("'wide'") && error.contains("17179869184 bytes"), "{error}");
    assert!(error.contains("choose NETCDF3_64BIT_DATA or NETCDF4"), "{error}");
    assert!(file(Version::Data64, &two, &[wide, small]).build().is_ok());
    // Each is small enough, but the third begins after 2 GiB.
    let dimensions = [fixed("x", 1 << 30)];
    let three = ["a", "b", "c", "d"].map(|name| variable(name, &[0], External::Byte));
    let error = refused(&file(Version::Classic, &dimensions, &three));
    assert!(error.contains("variable 'c': it would begin at byte 2147483"), "{error}");
    // A fixed variable before records is never the last one.
    let dimensions = [records("t", 1), fixed("x", 1 << 30), fixed("y", 4)];
    let variables = [variable("f", &[1, 2], External::Byte), variable("r", &[0], External::Byte)];
    assert!(refused(&file(Version::Offset64, &dimensions, &variables)).contains("variable 'f'"));
    for (len, version) in [(1 << 31, Version::Classic), (1 << 32, Version::Offset64)] {
        let error = refused(&file(version, &[fixed("x", len)], &[]));
        assert!(error.contains("dimension 'x': it has length"), "{error}");
    }
    let many = [fixed("x", 1 << 40), fixed("y", 1 << 40)];
    let error = refused(&file(Version::Data64, &many, &[variable("v", &[0, 1], External::Int)]));
    assert!(error.contains("more than 2⁶³ bytes"), "{error}");
    let endless = [records("t", 1 << 60), fixed("x", 1 << 20)];
    let error = refused(&file(Version::Data64, &endless, &[variable("v", &[0, 1], External::Int)]));
    assert!(error.contains("2⁶³"), "{error}");
}

#[test]
fn what_classic_files_do_not_have() {
    let two = [records("t", 1), records("u", 1)];
    assert!(refused(&file(Version::Classic, &two, &[])).contains("second unlimited dimension"));
    let swapped =
        file(Version::Classic, &[records("t", 1), fixed("x", 2)], &[variable("v", &[1, 0], External::Int)]);
    assert!(refused(&swapped).contains("axis 1 is the unlimited dimension 't'"));
    assert!(refused(&file(Version::Data64, &[fixed("x", 0)], &[])).contains("length 0"));
    assert!(
        refused(&file(Version::Data64, &[], &[variable("v", &[0], External::Int)]))
            .contains("no dimension 0")
    );
    let unsigned = file(Version::Offset64, &[], &[variable("v", &[], External::UInt)]);
    let error = refused(&unsigned);
    assert!(error.contains("its type is unsigned int, which only NETCDF3_64BIT_DATA"), "{error}");
    let many = file(Version::Classic, &[fixed("x", 1)], &[variable("v", &[0; 1025], External::Int)]);
    assert!(refused(&many).contains("1025 axes"));
    let twice = [variable("v", &[], External::Int), variable("v", &[], External::Int)];
    assert!(refused(&file(Version::Classic, &[], &twice)).contains("another variable has this name"));
    assert!(
        refused(&file(Version::Classic, &[fixed("x", 1), fixed("x", 1)], &[])).contains("another dimension")
    );
    let attribute = |name: &str, bytes: &[u8]| Attribute {
        name: name.into(),
        external: External::Int,
        bytes: bytes.to_vec(),
    };
    let mut odd = file(Version::Classic, &[], &[]);
    odd.attributes = vec![attribute("a", b"12345")];
    assert_eq!(refused(&odd), "the file: attribute 'a': 5 bytes are no elements of 4 bytes");
    odd.attributes = vec![attribute("a", b""), attribute("a", b"")];
    assert!(refused(&odd).contains("another attribute has this name"));
    for name in ["", "a/b", "a ", " a", "+a", "a\nb", "a\u{7f}", &"a".repeat(257)] {
        assert!(check_name(name).is_err(), "{name:?}");
    }
    for name in ["a", "_FillValue", "2m", "a b", "température", "日", "a+b-c@d:e", &"a".repeat(256)] {
        assert!(check_name(name).is_ok(), "{name:?}");
    }
}

fn names(prefix: &'static str, most: usize) -> impl Strategy<Value = Vec<String>> {
    let name = "[a-zA-Z0-9_é日][a-z é+.-]{0,6}[a-z]";
    proptest::collection::hash_set(name, 0..most).prop_map(move |names| {
        let mut names: Vec<_> = names.into_iter().map(|name| format!("{prefix}{name}")).collect();
        names.sort();
        names
    })
}

fn attributes(version: Version) -> impl Strategy<Value = Vec<Attribute>> {
    let value = (
        1..=if version == Version::Data64 { 11u32 } else { 6 },
        proptest::collection::vec(any::<[u8; 8]>(), 0..4),
    );
    (names("a", 3), proptest::collection::vec(value, 3)).prop_map(|(names, values)| {
        let attribute = |(name, (number, elements)): (String, (u32, Vec<[u8; 8]>))| {
            let external = External::of(number, true).unwrap();
            let size = external.dtype().size();
            let bytes = elements.iter().flat_map(|element| element[..size].to_vec()).collect();
            Attribute { name, external, bytes }
        };
        names.into_iter().zip(values).map(attribute).collect()
    })
}

fn new_files() -> impl Strategy<Value = NewFile> {
    proptest::sample::select(VERSIONS.to_vec()).prop_flat_map(|version| {
        let lens = proptest::collection::vec(1u64..5, 4);
        let dimensions = (names("d", 4), lens, any::<bool>(), 0u64..4);
        let types = 1..=if version == Version::Data64 { 11u32 } else { 6 };
        let variables = (
            names("v", 4),
            proptest::collection::vec(
                (types, proptest::collection::vec(0usize..4, 0..4), attributes(version)),
                4,
            ),
        );
        (dimensions, attributes(version), variables).prop_map(move |(dimensions, attributes, variables)| {
            let (names, lens, has_records, records) = dimensions;
            let made = names.into_iter().zip(lens).enumerate().map(|(number, (name, len))| {
                let unlimited = number == 0 && has_records;
                Dimension { name, len: if unlimited { records } else { len }, unlimited }
            });
            let dimensions: Vec<Dimension> = made.collect();
            let variable =
                |(name, (number, ids, attributes)): (String, (u32, Vec<usize>, Vec<Attribute>))| {
                    let ids = ids.into_iter().filter(|id| *id < dimensions.len()).enumerate();
                    let ids = ids.filter(|(axis, id)| *axis == 0 || !dimensions[*id].unlimited);
                    NewVariable {
                        name,
                        dimensions: ids.map(|(_, id)| id).collect(),
                        attributes,
                        external: External::of(number, true).unwrap(),
                    }
                };
            let variables = variables.0.into_iter().zip(variables.1).map(variable).collect();
            NewFile { version, dimensions, attributes, variables }
        })
    })
}

proptest! {
    #[test]
    fn the_parser_finds_what_was_built(new in new_files()) {
        let built = new.build().unwrap();
        let header = Header::parse(&built.header).unwrap();
        prop_assert_eq!(header.version, new.version);
        prop_assert_eq!(header.build(), built.header.clone());
        let mut bytes = built.header.clone();
        bytes.resize(usize::try_from(built.len).unwrap(), 0);
        let file = File::open(store(&bytes), "f.nc").unwrap();
        prop_assert_eq!(file.dimensions(), &new.dimensions[..]);
        prop_assert_eq!(file.attributes(), &new.attributes[..]);
        let mut places = Vec::new();
        for (found, expected) in file.variables().zip(&new.variables) {
            prop_assert_eq!(found.name(), &expected.name);
            prop_assert_eq!(found.attributes(), &expected.attributes[..]);
            prop_assert_eq!(found.external_type(), expected.external);
            let lens: Vec<u64> = expected.dimensions.iter().map(|id| new.dimensions[*id].len).collect();
            prop_assert_eq!(found.shape(), &lens[..]);
            places.extend(found.chunk_places().unwrap().into_iter().map(|(_, at, len)| (at, len)));
        }
        prop_assert_eq!(file.variables().count(), new.variables.len());
        // No two chunks overlap, and all are between the header and the end.
        places.sort_unstable();
        let mut end = built.header.len() as u64;
        for (at, len) in places {
            prop_assert!(at >= end);
            end = at + len;
        }
        prop_assert!(end <= built.len && built.len - end < 4 + 8);
    }
}
