//! `hyperslab diff`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::meter::Meter;
use crate::signals::Watch;
use crate::style::Style;
use crate::text;
use hyperslab::Node;
use hyperslab::diff::{DiffOptions, Difference, diff, picture};
use std::io::Write;
use std::path::{Path, PathBuf};

/// git's path of a file that does not exist.
const NO_FILE: &str = "/dev/null";

/// Compare two arrays, groups or files, of any formats.
///
/// Compares members, attributes (in any order), types, shapes, names of dimensions and fill values, then
/// all elements. Follows CF attributes, as xarray does: _FillValue and missing_value mark missing elements,
/// and packed numbers and times are compared as the numbers and dates that they stand for.
///
/// Prints nothing if nothing differs. Chunks whose stored bytes are equal are not decoded.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes, as of diff(1): 0 equal, 1 different, 2 trouble (something could not be compared).

Examples:
  hyperslab diff run1.nc run2.nc                       what differs, and where
  hyperslab diff ocean.nc ocean.zarr                   is the copy complete?
  hyperslab diff a.zarr/sst b.zarr/sst --rtol 1e-6     within a tolerance
  hyperslab diff run1.nc run2.nc --brief               stop at the first difference
  hyperslab diff run1.nc run2.nc --png difference.png  a picture of it")]
pub(crate) struct DiffArgs {
    /// Two arrays or groups.
    #[arg(required = true, num_args = 2..)]
    paths: Vec<String>,
    /// Relative tolerance: numbers are equal if |a - b| <= ATOL + RTOL * |b|.
    #[arg(long, value_name = "RTOL", allow_hyphen_values = true, default_value_t = 0.0)]
    rtol: f64,
    /// Absolute tolerance. For times: in their unit.
    #[arg(long, value_name = "ATOL", allow_hyphen_values = true, default_value_t = 0.0)]
    atol: f64,
    /// Numbers are also equal if they are at most N units in the last place apart.
    #[arg(long, value_name = "N", default_value_t = 0)]
    ulp: u64,
    /// Not-a-number equals itself, and a missing element: yes or no.
    #[arg(long, value_name = "yes|no", default_value = "yes", default_missing_value = "yes",
        num_args = 0..=1, require_equals = true, value_parser = yes_or_no)]
    equal_nan: bool,
    /// Compare stored numbers and ignore attributes.
    #[arg(long)]
    raw: bool,
    /// Also compare how elements are stored: format, chunks, shards, codecs.
    #[arg(long)]
    layout: bool,
    /// Compare members and metadata, but no elements.
    #[arg(long)]
    no_values: bool,
    /// Stop at the first difference.
    #[arg(long)]
    brief: bool,
    /// Show the first N elements that differ, of each array.
    #[arg(long, value_name = "N", default_value_t = 5)]
    first: usize,
    /// Write a picture: both arrays and their difference, in the first slice that differs.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Be git's external diff: the arguments are git's, and the exit code is 0 if files differ.
    #[arg(long)]
    git: bool,
    /// Show no progress bar.
    #[arg(long, short)]
    quiet: bool,
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err("expected yes or no".into()),
    }
}

/// The two sides, and what to call them.
struct Sides<'a> {
    paths: [&'a str; 2],
    names: [String; 2],
}

impl Command for DiffArgs {
    const NAME: &str = "diff";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        match self.compare(out, watch) {
            Ok(found) if !found.failures.is_empty() => Err(Failure::Trouble(None)),
            Ok(found) if !found.is_empty() && !self.git => Err(Failure::Found(1)),
            Ok(_) => Ok(()),
            Err(failure @ Failure::Output(_)) => Err(failure),
            Err(failure) if failure.is_interruption() => Err(failure),
            Err(failure) => Err(Failure::Trouble(Some(Box::new(failure)))),
        }
    }
}

impl DiffArgs {
    fn compare(&self, out: &mut dyn Write, watch: &Watch) -> Result<Difference, Failure> {
        let style = Style::of_stdout();
        let sides = self.sides()?;
        let [a, b] = sides.paths;
        if self.git {
            let [own, its] = sides.names.each_ref().map(|name| text::sanitize(name));
            writeln!(out, "{}", style.bold(&format!("hyperslab diff {own} {its}")))?;
            for (path, what) in [(a, "new file"), (b, "deleted file")] {
                if path == NO_FILE {
                    writeln!(out, "{what}")?;
                    return Ok(Difference::default());
                }
            }
        }
        let (a, b) = (failure::open(a)?, failure::open(b)?);
        let found = self.difference(&a, &b, watch)?;
        if let Some(file) = &self.png {
            self.draw(&a, &b, &found, file)?;
        }
        if self.json {
            writeln!(out, "{}", found.to_json().to_text(Some(2)))?;
            return Ok(found);
        }
        let names = sides.names.each_ref().map(String::as_str);
        for line in found.lines(names) {
            let is_heading = !line.starts_with(' ');
            writeln!(out, "{}", if is_heading { style.bold(&line) } else { line })?;
        }
        Ok(found)
    }

    /// git gives: path, old file, hash, mode, new file, hash, mode; for renames also the new path and
    /// a description.
    fn sides(&self) -> Result<Sides<'_>, Failure> {
        match (self.git, self.paths.as_slice()) {
            (false, [a, b]) => Ok(Sides { paths: [a, b], names: [a.clone(), b.clone()] }),
            (false, paths) => Err(Failure::Usage(format!("expected two paths, found {}", paths.len()))),
            (true, [path, old, _, _, new, _, _, more @ ..]) => {
                let other = more.first().unwrap_or(path);
                Ok(Sides { paths: [old, new], names: [format!("a/{path}"), format!("b/{other}")] })
            }
            (true, paths) => Err(Failure::Usage(format!(
                "--git: expected git's 7 arguments (path, old file, hash, mode, new file, hash, mode), found {}",
                paths.len()
            ))),
        }
    }

    fn difference(&self, a: &Node, b: &Node, watch: &Watch) -> Result<Difference, Failure> {
        let meter = Meter::new(watch, self.quiet || self.git);
        let options = DiffOptions {
            rtol: self.rtol,
            atol: self.atol,
            ulp: self.ulp,
            equal_nan: self.equal_nan,
            raw: self.raw,
            layout: self.layout,
            values: !self.no_values,
            brief: self.brief,
            first: self.first,
            progress: Some(&meter),
            ..DiffOptions::default()
        };
        let found = diff(a, b, &options);
        meter.finish();
        Ok(found?)
    }

    fn draw(&self, a: &Node, b: &Node, found: &Difference, file: &Path) -> Result<(), Failure> {
        let Some(png) = picture(a, b, found, self.raw)? else {
            // Writing this message may fail.
            let _ =
                writeln!(std::io::stderr(), "hyperslab: no picture: no numbers of arrays with axes differ");
            return Ok(());
        };
        crate::new_file::write_whole(file, &mut |out| Ok(out.write_all(&png)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        diff: DiffArgs,
    }

    fn parsed(args: &[&str]) -> DiffArgs {
        Line::try_parse_from([&["diff"], args].concat()).unwrap().diff
    }

    #[test]
    fn arguments_of_git() {
        let renamed = parsed(&[
            "--git",
            "x.nc",
            "/tmp/x.nc",
            "1",
            "100644",
            "y.nc",
            "2",
            "100644",
            "y.nc",
            "similarity",
        ]);
        let sides = renamed.sides().unwrap();
        assert_eq!(
            (sides.paths, sides.names),
            (["/tmp/x.nc", "y.nc"], ["a/x.nc".to_owned(), "b/y.nc".to_owned()])
        );
        let plain = parsed(&["--git", "x.nc", "/tmp/x.nc", "1", "100644", "x.nc", "0", "100644"]);
        assert_eq!(plain.sides().unwrap().names[1], "b/x.nc");
        assert!(parsed(&["--git", "a", "b"]).sides().is_err());
        assert!(parsed(&["a", "b", "c"]).sides().is_err());
    }

    #[test]
    fn nan_is_equal_unless_told_otherwise() {
        assert!(parsed(&["a", "b"]).equal_nan && parsed(&["a", "b", "--equal-nan"]).equal_nan);
        assert!(!parsed(&["a", "b", "--equal-nan=no"]).equal_nan);
        assert!(Line::try_parse_from(["diff", "a", "b", "--equal-nan=x"]).is_err());
        assert!(Line::try_parse_from(["diff", "a"]).is_err());
    }
}
