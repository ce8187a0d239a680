//! `hyperslab hash`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::meter::Meter;
use crate::signals::Watch;
use crate::text;
use hyperslab::Json;
use hyperslab::content_hash::{ContentHash, Digest, HashOptions, content_hash};
use std::collections::HashMap;
use std::io::{self, Read, Write};

/// Hash values and attributes, whatever the format, chunks and codecs.
///
/// A NetCDF file and its copies in Zarr have one hash. Each line has the hash of an array, or of a
/// group and everything below it, and its PATH. The hash is defined in docs/content-hash.md. Reads
/// everything once, in little memory.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab hash ocean.zarr ocean.nc                  one line each
  hyperslab hash ocean.zarr --all > ocean.hash        a line for each array and group, too
  hyperslab hash --check ocean.hash                   hash again, and compare
  hyperslab hash ocean.zarr --json > monday.json
  hyperslab hash ocean.zarr --appended-to monday.json --json > tuesday.json

Exit codes: 0 done, 1 --check found another hash, 2 could not look.")]
pub(crate) struct HashArgs {
    /// Arrays or groups. With --check: files with the output of an earlier run; - is standard input.
    #[arg(required = true)]
    paths: Vec<String>,
    /// Show every array and group below PATH, too.
    #[arg(long, conflicts_with_all = ["check", "json"])]
    all: bool,
    /// Read hashes and paths from the files, hash the paths again, and compare.
    #[arg(long, short)]
    check: bool,
    /// The JSON of an earlier run. PATH has got more rows since, along first axes: read only these.
    /// The earlier elements are trusted to be as they were.
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    appended_to: Option<String>,
    /// Print JSON, with the facts that --appended-to needs.
    #[arg(long, conflicts_with = "check")]
    json: bool,
    /// Show no progress bar, and with --check only what differs.
    #[arg(long, short)]
    quiet: bool,
}

/// The words in messages about PATH and a node in it.
fn name(location: &str, path: &str) -> String {
    match path {
        "" => location.to_owned(),
        path => format!("{}/{path}", location.trim_end_matches('/')),
    }
}

fn unreadable(what: &str, why: impl std::fmt::Display) -> Failure {
    Failure::Unseen(format!("cannot read '{what}': {why}"))
}

/// Reads a file; `-` is standard input.
fn read(file: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let found = match file {
        "-" => io::stdin().read_to_string(&mut text).map(|_| text),
        file => std::fs::read_to_string(file),
    };
    found.map_err(|why| unreadable(file, why))
}

/// Reads the JSON of an earlier run: locations and their hashes.
fn parse(file: &str, text: &str) -> Result<Vec<(String, ContentHash)>, Failure> {
    let json = Json::parse(text.as_bytes()).map_err(|why| unreadable(file, why))?;
    let wrong = || unreadable(file, "it is not the JSON of hyperslab hash");
    let list = json.get("hashes").and_then(Json::as_array).ok_or_else(wrong)?;
    let one = |json: &Json| {
        let location = json.get("location").and_then(Json::as_str).ok_or_else(wrong)?.to_owned();
        Ok((location, ContentHash::from_json(json).map_err(|why| unreadable(file, why))?))
    };
    list.iter().map(one).collect()
}

/// One line of a list of hashes, as of `sha256sum`. Control characters in names are escaped as in
/// JSON.
fn line(digest: Digest, name: &str) -> String {
    if name.chars().any(|c| c.is_control() || c == '\\') {
        let quoted = Json::from(name).to_text(None);
        let bare = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        return format!("\\{digest}  {}", bare.unwrap_or_default());
    }
    format!("{digest}  {name}")
}

/// Reads a line of a list.
fn parse_line(text: &str) -> Option<(Digest, String)> {
    let (is_escaped, text) = text.strip_prefix('\\').map_or((false, text), |text| (true, text));
    let (digest, name) = text.split_once("  ")?;
    let name = match is_escaped {
        true => Json::parse(format!("\"{name}\"").as_bytes()).ok()?.as_str()?.to_owned(),
        false => name.to_owned(),
    };
    Some((digest.parse().ok()?, name))
}

impl Command for HashArgs {
    const NAME: &str = "hash";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let meter = Meter::new(watch, self.quiet);
        if self.check {
            return self.check(out, &meter);
        }
        let earlier = match &self.appended_to {
            None => Vec::new(),
            Some(file) => parse(file, &read(file)?)?,
        };
        let mut hashes = Vec::new();
        for location in &self.paths {
            let appended_to = earlier.iter().find(|(found, _)| found == location).map(|(_, hash)| hash);
            if let (Some(file), None) = (&self.appended_to, appended_to) {
                return Err(Failure::Usage(format!("--appended-to: '{file}' has no hash of {location:?}")));
            }
            let found = hash(location, appended_to, &meter)?;
            if self.json {
                let Json::Object(mut members) = found.to_json() else { continue };
                members.insert(0, ("location".to_owned(), location.as_str().into()));
                hashes.push(Json::Object(members));
                continue;
            }
            for node in &found.nodes {
                if self.all || node.path.is_empty() {
                    writeln!(out, "{}", line(node.digest, &name(location, &node.path)))?;
                }
            }
        }
        if self.json {
            let hashes = Json::from([("hashes", Json::Array(hashes))]);
            writeln!(out, "{}", hashes.to_text(Some(2)))?;
        }
        Ok(())
    }
}

/// Hashes the node at a location, and names attributes that cannot be part of the hash.
fn hash(
    location: &str,
    appended_to: Option<&ContentHash>,
    meter: &Meter<'_>,
) -> Result<ContentHash, Failure> {
    let see = |failure: Failure| match failure.is_interruption() {
        true => failure,
        false => Failure::Unseen(failure.reason()),
    };
    let node = failure::open(location).map_err(see)?;
    let options = HashOptions { appended_to, progress: Some(meter), ..HashOptions::default() };
    let found = content_hash(&node, &options);
    meter.finish();
    let found = found.map_err(|error| see(error.into()))?;
    for node in &found.nodes {
        for attribute in &node.unreadable {
            let name = text::sanitize(&name(location, &node.path));
            let attribute = text::sanitize(attribute);
            // Standard error may be closed. There is no other place for the message.
            let _ = writeln!(
                io::stderr(),
                "note: {name}: attribute {attribute:?} cannot be read and is left out"
            );
        }
    }
    Ok(found)
}

impl HashArgs {
    /// Hashes again what lists name.
    fn check(&self, out: &mut dyn Write, meter: &Meter<'_>) -> Result<(), Failure> {
        let mut wanted: Vec<(Digest, String)> = Vec::new();
        for file in &self.paths {
            let text = read(file)?;
            if text.trim_start().starts_with('{') {
                for (location, hash) in parse(file, &text)? {
                    wanted.extend(hash.nodes.iter().map(|node| (node.digest, name(&location, &node.path))));
                }
                continue;
            }
            for (number, each) in text.lines().enumerate().filter(|(_, each)| !each.trim().is_empty()) {
                let found = parse_line(each);
                wanted.push(found.ok_or_else(|| {
                    unreadable(file, format!("line {} is not a hash, two spaces and a path", number + 1))
                })?);
            }
        }
        // Nodes whose hashes are known, because a node above was hashed.
        let mut known: HashMap<String, Digest> = HashMap::new();
        let mut hashed: Vec<String> = Vec::new();
        let (mut differing, mut unseen, total) = (0, 0, wanted.len());
        for (expected, location) in wanted {
            let is_below = |root: &String| {
                location.strip_prefix(root.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
            };
            if !known.contains_key(&location) && !hashed.iter().any(is_below) {
                match hash(&location, None, meter) {
                    Ok(found) => {
                        known.extend(
                            found.nodes.iter().map(|node| (name(&location, &node.path), node.digest)),
                        );
                        hashed.push(location.clone());
                    }
                    Err(failure) if failure.is_interruption() => return Err(failure),
                    Err(failure) => {
                        unseen += 1;
                        writeln!(out, "{}: could not look: {}", text::sanitize(&location), failure.reason())?;
                        continue;
                    }
                }
            }
            let shown = text::sanitize(&location);
            match known.get(&location) {
                Some(found) if *found == expected => {
                    if !self.quiet {
                        writeln!(out, "{shown}: OK")?;
                    }
                }
                Some(_) => {
                    differing += 1;
                    writeln!(out, "{shown}: differs")?;
                }
                None => {
                    differing += 1;
                    writeln!(out, "{shown}: is no longer there")?;
                }
            }
        }
        out.flush()?;
        match (unseen, differing) {
            (0, 0) => Ok(()),
            (0, _) => Err(Failure::Differs(format!("{differing} of {total} hashes differ"))),
            _ => Err(Failure::Unseen(format!("{unseen} of {total} paths could not be read"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_can_be_read_again() {
        let digest = Digest::of(b"x");
        for name in ["ocean.zarr", "a  b/c", "new\nline", "back\\slash", "quote\"\t\"", "é"] {
            assert_eq!(parse_line(&line(digest, name)), Some((digest, name.to_owned())), "{name}");
        }
        for wrong in ["", "abc  x", "x", &digest.to_string(), &format!("{digest} x")] {
            assert_eq!(parse_line(wrong), None, "{wrong}");
        }
    }
}
