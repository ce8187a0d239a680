//! AWS profiles: `~/.aws/config` and `~/.aws/credentials`.
//!
//! Both files are lists of `name = value` in sections: `[NAME]`, or `[profile NAME]` in `config`.
//! An indented line belongs to the setting above it (`s3 =`, then `  addressing_style = path`).
//! Spec: <https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html>

use std::collections::BTreeMap;

/// Settings of one profile. Nested settings have names like `s3.addressing_style`.
pub(crate) type Profile = BTreeMap<String, String>;

/// Adds the settings in a file's sections with these names to `profile`.
pub(crate) fn read(text: &str, sections: &[String], profile: &mut Profile) -> bool {
    let (mut inside, mut found, mut above) = (false, false, String::new());
    for line in text.lines() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = bare.strip_prefix('[') {
            // Names with spaces are quoted.
            let name = rest.split(']').next().unwrap_or_default().replace(['"', '\''], "");
            inside = sections.contains(&name.split_whitespace().collect::<Vec<_>>().join(" "));
            found |= inside;
            above.clear();
            continue;
        }
        let Some((name, value)) = bare.split_once('=').filter(|_| inside) else { continue };
        let name = name.trim().to_ascii_lowercase();
        // A comment after a value begins with a space.
        let value =
            value.split(" #").next().unwrap_or_default().split(" ;").next().unwrap_or_default().trim();
        if line.starts_with([' ', '\t']) && !above.is_empty() {
            profile.insert(format!("{above}.{name}"), value.to_owned());
        } else if value.is_empty() {
            above = name;
        } else {
            above.clear();
            profile.insert(name, value.to_owned());
        }
    }
    found
}

/// The names of a profile's sections: in `credentials`, in `config`.
pub(crate) fn sections(name: &str) -> Vec<String> {
    vec![name.to_owned(), format!("profile {name}")]
}

#[cfg(test)]
mod tests {
    use super::{Profile, read, sections};

    #[test]
    fn profiles() {
        let text = "# a comment\n[default]\nregion = eu-west-1 ; there\n\n[profile  far]\nregion=us-east-2\ns3 =\n  \
                    addressing_style = virtual\n  max_concurrent_requests = 20\noutput = json\n[other]\nregion=x\n\
                    [profile 'an other']\nregion=y\n";
        let of = |name: &str| {
            let mut profile = Profile::new();
            let found = read(text, &sections(name), &mut profile);
            (found, profile.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>())
        };
        assert_eq!(of("default"), (true, vec!["region=eu-west-1".to_owned()]));
        assert_eq!(
            of("far").1,
            [
                "output=json",
                "region=us-east-2",
                "s3.addressing_style=virtual",
                "s3.max_concurrent_requests=20"
            ]
        );
        assert_eq!(of("an other"), (true, vec!["region=y".to_owned()]));
        assert_eq!(of("none"), (false, Vec::new()));
        for hostile in ["[", "]", "=", "[a\n=b", "[default]\n=\n = x\n", "\u{0}[default]"] {
            read(hostile, &sections("default"), &mut Profile::new());
        }
    }
}
