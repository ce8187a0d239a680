//! Progress of work: a bar on a terminal, nothing elsewhere.

use crate::signals::Watch;
use crate::style;
use crate::text;
use hyperslab::copy::{Phase, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::cell::RefCell;
use std::fmt::Write;
use std::time::Duration;

/// Shows progress, and stops the work on a signal.
pub(crate) struct Meter<'a> {
    watch: &'a Watch,
    quiet: bool,
    bar: RefCell<ProgressBar>,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(watch: &'a Watch, quiet: bool) -> Self {
        Meter { watch, quiet, bar: RefCell::new(ProgressBar::hidden()) }
    }

    /// Shows a new bar for `bytes` bytes.
    pub(crate) fn start(&self, what: &'static str, bytes: u64) {
        self.finish();
        if self.quiet {
            return;
        }
        // Draws only if standard error is a terminal.
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
        bar.set_style(look());
        bar.set_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        *self.bar.borrow_mut() = bar;
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.bar.borrow().finish_and_clear();
    }
}

impl Progress for Meter<'_> {
    fn begin(&self, phase: Phase, bytes: u64) {
        self.start(if phase == Phase::Copy { "copy  " } else { "verify" }, bytes);
    }

    fn reads(&self, bytes: u64) {
        self.start("read  ", bytes);
    }

    fn array(&self, name: &str) {
        self.bar.borrow().set_message(text::sanitize(name));
    }

    fn advance(&self, bytes: u64) {
        self.bar.borrow().inc(bytes);
    }

    fn cancelled(&self) -> bool {
        self.watch.is_interrupted()
    }
}

fn look() -> ProgressStyle {
    let bar = if style::wants_colors() { "{bar:18.cyan/dim}" } else { "{bar:18}" };
    let template =
        format!("{{prefix}} {bar} {{percent:>3}}%  {{done:>9}}  {{rate:>11}}  {{left:>10}}  {{wide_msg}}");
    ProgressStyle::with_template(&template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━━─")
        .with_key("done", |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{}", text::bytes(state.pos()));
        })
        .with_key("rate", |state: &ProgressState, out: &mut dyn Write| {
            let _ = write!(out, "{}/s", text::bytes(state.per_sec() as u64));
        })
        .with_key("left", |state: &ProgressState, out: &mut dyn Write| {
            let left = state.eta();
            let _ = match state.pos() {
                0 => Ok(()),
                _ if left.as_secs() < 1 => write!(out, "< 1 s left"),
                _ if left.as_secs() < 100 => write!(out, "{} s left", left.as_secs()),
                _ => write!(out, "{} min left", left.as_secs() / 60),
            };
        })
}
