//! `hyperslab copy`.

use crate::args::CopyArgs;
use crate::failure::{self, Failure};
use crate::meter::Meter;
use crate::signals::Watch;
use crate::text;
use hyperslab::copy::{CopyReport, copy};
use std::io::Write;
use std::time::Duration;

pub(crate) fn run(args: &CopyArgs, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
    let source = failure::open(&args.source)?;
    let meter = Meter::new(watch, args.quiet);
    let mut options = args.options();
    options.progress = Some(&meter);
    let copied = copy(&source, &args.destination, &options);
    meter.finish();
    let report = copied.map_err(|error| match error {
        error if failure::is_stop(&error) => Failure::Stopped("the destination is as it was"),
        error => error.into(),
    })?;
    if !args.quiet {
        for note in &report.notes {
            writeln!(out, "note: {}", text::plain(note))?;
        }
        for (path, why) in &report.skipped {
            writeln!(out, "left out {}: {}", text::plain(path), text::plain(why))?;
        }
        writeln!(out, "{}", summary(&report))?;
    }
    Ok(())
}

/// `copied 2 arrays in 1 group: 95.4 MiB, 95.4 MiB → 41.2 MiB stored (÷ 2.32), 0.42 s, 227.0 MiB/s;
/// verified in 0.21 s`
fn summary(report: &CopyReport) -> String {
    let groups = match report.groups {
        0 => String::new(),
        n => format!(" in {}", text::count(n, "group")),
    };
    let ratio = match (report.stored_before, report.stored_after) {
        (0, _) | (_, 0) => String::new(),
        (before, after) => format!(" (÷ {:.2})", before as f64 / after as f64),
    };
    let mut line = format!(
        "copied {}{groups}: {}, {} → {} stored{ratio}, {}, {}",
        text::count(report.arrays, "array"),
        text::bytes(report.bytes),
        text::bytes(report.stored_before),
        text::bytes(report.stored_after),
        text::duration(report.elapsed),
        rate(report.bytes, report.elapsed),
    );
    if let Some(time) = report.verified {
        line.push_str(&format!("; verified in {}", text::duration(time)));
    }
    line
}

fn rate(bytes: u64, time: Duration) -> String {
    format!("{}/s", text::bytes((bytes as f64 / time.as_secs_f64().max(1e-6)) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line() {
        let mut report = CopyReport::default();
        report.arrays = 2;
        report.groups = 1;
        report.bytes = 100 << 20;
        report.stored_before = 100 << 20;
        report.stored_after = 40 << 20;
        report.elapsed = Duration::from_millis(500);
        report.verified = Some(Duration::from_millis(250));
        assert_eq!(
            summary(&report),
            "copied 2 arrays in 1 group: 100.0 MiB, 100.0 MiB → 40.0 MiB stored (÷ 2.50), 0.50 s, 200.0 MiB/s; verified in 0.25 s"
        );
        assert_eq!(
            summary(&CopyReport::default()),
            "copied 0 arrays: 0 bytes, 0 bytes → 0 bytes stored, 0.00 s, 0 bytes/s"
        );
    }
}
