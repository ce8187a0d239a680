//! `hyperslab validate`.

use crate::command::Command;
use crate::failure::Failure;
use crate::meter::Meter;
use crate::signals::Watch;
use crate::style::Style;
use crate::text;
use hyperslab::Json;
use hyperslab::validate::{
    Estimate, Finding, Looked, MissingChunks, Report, Severity, Subject, ValidateOptions, explain, picture,
    validate,
};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Findings and absent chunks that are shown for each location. The rest is in --json.
const SHOWN: usize = 100;
const SHOWN_CHUNKS: usize = 8;

/// Find damage, losses, leftovers and contradictions.
///
/// Looks at whole hierarchies: Zarr v2 and v3, shards, HDF5, NetCDF, references, archives, here and on
/// servers. A fault is named with its array, chunk, key and offset, and the others go on.
///
/// Without options, checks the structure: metadata documents, consolidated metadata, keys, sizes,
/// indexes of shards, and all structures of files. Also checks the conventions that decide whether
/// xarray reads a file right. --decode reads and decodes every chunk, and verifies all checksums.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab validate ocean.zarr                  the structure
  hyperslab validate --decode *.nc               every chunk of many files
  hyperslab validate --missing ocean.zarr        which chunks are absent
  hyperslab validate --missing --png map.png ocean.zarr
  hyperslab validate --decode --resume checked.json ocean.zarr
  hyperslab validate --explain --decode s3://bucket/ocean.zarr
  hyperslab validate --json ocean.zarr | jq .findings

Exit codes: 0 nothing wrong, 1 errors were found (with --strict: or warnings), 2 could not look.")]
pub(crate) struct ValidateArgs {
    /// Arrays, groups, files.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Check the structure. This is always done.
    #[arg(long)]
    #[allow(dead_code, reason = "for people who want to say it")]
    structure: bool,
    /// Read and decode every stored chunk, and verify all checksums.
    #[arg(long)]
    decode: bool,
    /// Count, list and draw absent chunks. Decodes nothing.
    #[arg(long)]
    missing: bool,
    /// Absent chunks are errors.
    #[arg(long)]
    expect_complete: bool,
    /// With --missing, draw maps of the arrays that lack chunks to a file.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// With --decode, note decoded parts in a file. Another run with the file goes on.
    #[arg(long, value_name = "JOURNAL", requires = "decode")]
    resume: Option<PathBuf>,
    /// Leave out the conventions of CF and NetCDF.
    #[arg(long)]
    no_conventions: bool,
    /// Exit with 1 for warnings, too.
    #[arg(long)]
    strict: bool,
    /// Show what it would cost, and stop.
    #[arg(long)]
    explain: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Write a report in JUnit's XML to a file.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Show no progress bar.
    #[arg(long, short)]
    quiet: bool,
}

impl Command for ValidateArgs {
    const NAME: &str = "validate";
    const ALIASES: &[&str] = &["check"];

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let meter = Meter::new(watch, self.quiet);
        let options = ValidateOptions {
            decode: self.decode,
            missing: self.missing || self.png.is_some(),
            picture: self.png.is_some(),
            resume: self.resume.as_deref(),
            expect_complete: self.expect_complete,
            no_conventions: self.no_conventions,
            progress: Some(&meter),
            ..ValidateOptions::default()
        };
        let subject = |path: &String| Subject::Remote(path.clone(), crate::storage::of(path));
        let subjects: Vec<Subject> = self.paths.iter().map(subject).collect();
        if self.explain {
            let found = explain(&subjects, &options).map_err(could_not_look)?;
            return Ok(print_costs(&found, self.json, self.decode, out)?);
        }
        let report = validate(&subjects, &options);
        meter.finish();
        let report = report.map_err(could_not_look)?;
        let fails_from = if self.strict { Severity::Warning } else { Severity::Error };
        if let Some(file) = &self.junit {
            write(file, report.to_junit(fails_from).as_bytes())?;
        }
        if let Some(file) = &self.png {
            match picture(&report)? {
                Some(png) => write(file, &png)?,
                // Standard error may be closed.
                None => {
                    let _ = writeln!(io::stderr(), "hyperslab: no chunk is absent: no picture was written");
                }
            }
        }
        if self.json {
            writeln!(out, "{}", report.to_json().to_text(Some(2)))?;
        } else {
            print(&report, out)?;
        }
        for (location, why) in &report.unreached {
            // Standard error may be closed. The exit code tells.
            let _ = writeln!(
                io::stderr(),
                "hyperslab: error: {}: {}",
                text::sanitize(location),
                text::sanitize(&crate::words::in_options(why))
            );
        }
        match report.exit_code(fails_from) {
            0 => Ok(()),
            code => {
                out.flush()?;
                Err(Failure::Found(code))
            }
        }
    }
}

/// The exit code says that it could not look.
fn could_not_look(error: hyperslab::Error) -> Failure {
    if error.is_interruption() {
        return error.into();
    }
    let message = Failure::from(error).message().unwrap_or_default();
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "hyperslab: {}", text::sanitize(&message));
    Failure::Found(2)
}

fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    crate::new_file::write_whole(file, &mut |out| Ok(out.write_all(bytes)))
}

fn print(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let style = Style::of_stdout();
    for looked in &report.looked {
        writeln!(out, "{}  {}", style.bold(&text::sanitize(&looked.location)), style.dim(&summary(looked)))?;
        let all: Vec<&Finding> =
            report.findings.iter().filter(|finding| finding.location == looked.location).collect();
        for finding in all.iter().take(SHOWN) {
            print_finding(finding, style, out)?;
        }
        if let Some(more) = all.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            writeln!(out, "  … and {} more: see --json", text::count(more as u64, "finding"))?;
        }
        for missing in &looked.missing {
            print_missing(missing, style, out)?;
        }
    }
    let count = |severity: Severity| text::count(report.count(severity) as u64, severity.name());
    let counts = [Severity::Error, Severity::Warning, Severity::Note].map(count).join(", ");
    let omitted = match report.omitted {
        0 => String::new(),
        omitted => format!("; {omitted} more are not listed"),
    };
    writeln!(out, "{counts}{omitted}")
}

fn summary(looked: &Looked) -> String {
    let mut parts = Vec::new();
    if !looked.format.is_empty() {
        parts.push(looked.format.clone());
        parts.push(text::count(looked.arrays, "array"));
        parts.push(text::count(looked.groups, "group"));
        parts.push(text::count(looked.objects, "object"));
        parts.push(text::bytes(looked.bytes));
    }
    if looked.decoded > 0 {
        parts.push(format!("{} decoded", text::bytes(looked.decoded)));
    }
    parts.join(", ")
}

fn print_finding(finding: &Finding, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let severity = format!("{:<7}", finding.severity.name());
    let severity =
        if finding.severity == Severity::Note { style.dim(&severity) } else { style.bold(&severity) };
    writeln!(out, "  {severity}  {:<20}  {}", finding.kind.name(), text::sanitize(&finding.place()))?;
    let mut what = finding.found.clone();
    if let Some(expected) = &finding.expected {
        what.push_str(&format!("; expected {expected}"));
    }
    writeln!(out, "           {}", text::sanitize(&crate::words::in_options(&what)))?;
    writeln!(out, "           {}", style.dim(&format!("→ {}", finding.advice())))
}

fn print_missing(missing: &MissingChunks, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let path = text::sanitize(&missing.path);
    let MissingChunks { unit, total, absent, .. } = missing;
    writeln!(out, "  {path}  {absent} of {} absent", text::count(*total, unit))?;
    if *absent == 0 {
        return Ok(());
    }
    for line in missing.map.lines() {
        writeln!(out, "    {line}")?;
    }
    let list: Vec<String> =
        missing.first.iter().take(SHOWN_CHUNKS).map(|chunk| format!("{chunk:?}")).collect();
    let more = absent.saturating_sub(list.len() as u64);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    writeln!(out, "    {}", style.dim(&format!("absent: {}{more}", list.join(" "))))
}

fn print_costs(found: &[Estimate], json: bool, decode: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        let all = Json::Array(found.iter().map(Estimate::to_json).collect());
        return writeln!(out, "{}", all.to_text(Some(2)));
    }
    for estimate in found {
        writeln!(
            out,
            "{}  {}, {}",
            text::sanitize(&estimate.location),
            text::count(estimate.nodes, "node"),
            text::count(estimate.objects, "stored object")
        )?;
        writeln!(out, "  structure  {} and listings", text::count(estimate.structure_requests, "request"))?;
        if decode {
            let requests = text::count(estimate.decode_requests, "request");
            writeln!(out, "  decode     {requests}, {}", text::bytes(estimate.decode_bytes))?;
        }
        if estimate.unknown > 0 {
            let arrays = text::count(estimate.unknown, "array");
            writeln!(out, "  {arrays} in a store that cannot be listed: the cost is not known")?;
        }
    }
    Ok(())
}
