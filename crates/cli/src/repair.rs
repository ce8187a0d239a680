//! `hyperslab repair`.

use crate::command::Command;
use crate::failure::Failure;
use crate::meter::Meter;
use crate::signals::Watch;
use crate::style::Style;
use crate::text;
use hyperslab::repair::{Plan, RepairOptions, plan, repair, undo};
use std::io::{self, Write};
use std::path::PathBuf;

/// Actions and losses that are shown. The rest is in --json.
const SHOWN: usize = 100;

/// Repair a damaged store or file, by a plan that is shown first.
///
/// --dry-run shows the actions, the losses, and the hash of the plan. --plan HASH carries the plan out,
/// if it is still the same. Replaced bytes go to a folder beside the store (PATH.quarantine), and --undo
/// gives them back.
///
/// HDF5 and NetCDF-4 files that a killed program left: flags and lengths are put right in place. If
/// something is lost, everything else is copied to a new file (--to), and the old one stays as it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab repair --dry-run run.h5                          what would be done
  hyperslab repair run.h5 --plan 0123456789ab                do it
  hyperslab repair run.h5 --plan 0123456789ab --to new.h5    copy what is left
  hyperslab repair --undo run.h5                             take it back

Exit codes: 0 done, or nothing to do; 1 an error, or with --dry-run: there is something to do; 2 wrong
usage, or the plan is another one now.")]
pub(crate) struct RepairArgs {
    /// A local file or directory.
    #[arg(value_name = "PATH")]
    path: String,
    /// Show what would be done, and the hash of the plan. Change nothing.
    #[arg(long, short = 'n', conflicts_with_all = ["plan", "undo"])]
    dry_run: bool,
    /// Carry out the plan with this hash, which --dry-run has shown.
    #[arg(long, value_name = "HASH", conflicts_with = "undo")]
    plan: Option<String>,
    /// The new file, if the plan makes a copy.
    #[arg(long, value_name = "NEW")]
    to: Option<PathBuf>,
    /// Write damaged chunks of Zarr arrays again, with the fill value. Otherwise they become absent.
    #[arg(long)]
    fill: bool,
    /// A program was killed while it wrote the HDF5 file: name what may be wrong also if the file does not
    /// tell that it was never closed.
    #[arg(long)]
    killed: bool,
    /// Take back the last repair.
    #[arg(long)]
    undo: bool,
    /// Print the plan as JSON.
    #[arg(long)]
    json: bool,
    /// Show no progress bar.
    #[arg(long, short)]
    quiet: bool,
}

impl Command for RepairArgs {
    const NAME: &str = "repair";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        if self.undo {
            let what = if undo(&self.path)? { "as it was before the repair" } else { "nothing to undo" };
            return Ok(writeln!(out, "{}  {what}", text::sanitize(&self.path))?);
        }
        if !self.dry_run && self.plan.is_none() {
            let path = &self.path;
            return Err(Failure::Usage(format!(
                "look at the plan first: `hyperslab repair --dry-run {path}` shows it and its hash. Then pass \
                 `--plan HASH`"
            )));
        }
        let meter = Meter::new(watch, self.quiet);
        let options = RepairOptions {
            to: self.to.clone(),
            fill: self.fill,
            killed: self.killed,
            progress: Some(&meter),
            ..RepairOptions::default()
        };
        let done = match &self.plan {
            Some(hash) => repair(&self.path, hash, &options),
            None => plan(&self.path, &options),
        };
        meter.finish();
        let plan = done?;
        if self.json {
            writeln!(out, "{}", plan.to_json().to_text(Some(2)))?;
        } else {
            self.print(&plan, out)?;
        }
        if self.dry_run && !plan.actions.is_empty() {
            out.flush()?;
            return Err(Failure::Found(1));
        }
        Ok(())
    }
}

impl RepairArgs {
    fn print(&self, plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
        let style = Style::of_stdout();
        let name = text::sanitize(&self.path);
        let counts = [
            text::count(plan.actions.len() as u64, "action"),
            format!("{} lost", text::count(plan.lost.len() as u64 + plan.more_lost, "thing")),
        ];
        let summary = match plan.actions.is_empty() {
            true if plan.left.is_empty() => "nothing to repair".to_owned(),
            _ => counts.join(", "),
        };
        writeln!(out, "{}  {}", style.bold(&name), style.dim(&summary))?;
        for action in plan.actions.iter().take(SHOWN) {
            let place = match &action.key {
                Some(key) => format!("{}, key '{key}'", action.path),
                None => action.path.clone(),
            };
            writeln!(
                out,
                "  {}  {}",
                style.bold(&format!("{:<11}", action.kind.name())),
                text::sanitize(&place)
            )?;
            writeln!(out, "               {}", text::sanitize(&action.why))?;
            writeln!(out, "               {}", style.dim(&format!("→ {}", text::sanitize(&action.does))))?;
        }
        for lost in plan.lost.iter().take(SHOWN) {
            let chunk = lost.chunk.as_ref().map_or(String::new(), |chunk| format!(", chunk {chunk:?}"));
            writeln!(out, "  {:<11}  {}{chunk}", "lost", text::sanitize(&lost.path))?;
            writeln!(out, "               {}", text::sanitize(&lost.why))?;
        }
        for doubt in plan.doubtful.iter().take(SHOWN) {
            writeln!(out, "  {:<11}  {}", "doubtful", text::sanitize(&doubt.path))?;
            writeln!(out, "               {}", text::sanitize(&doubt.why))?;
        }
        let hidden = plan.actions.len().saturating_sub(SHOWN) + plan.lost.len().saturating_sub(SHOWN);
        if hidden > 0 || plan.more_lost > 0 {
            writeln!(out, "  … and {} more: see --json", hidden as u64 + plan.more_lost)?;
        }
        if plan.adopted > 0 {
            let objects = text::count(plan.adopted, "object");
            writeln!(out, "  {objects} without a name: in /lost+found of the copy")?;
        }
        for left in &plan.left {
            writeln!(out, "  not repaired: {}", text::sanitize(left))?;
        }
        if self.dry_run && !plan.actions.is_empty() {
            let to = if plan.needs_target { " --to NEW" } else { "" };
            let fill = if self.fill { " --fill" } else { "" };
            writeln!(out, "to do this: hyperslab repair {name} --plan {}{fill}{to}", plan.hash())?;
        }
        Ok(())
    }
}
