//! `hyperslab head`.

use crate::command::Command;
use crate::failure::Failure;
use crate::selection;
use crate::show::{numpy_width, of_group};
use crate::signals::Watch;
use hyperslab::Node;
use hyperslab::look::{Reader, Window, print};
use std::io::Write;

/// Show the first rows of an array, or of all arrays in a group.
///
/// Values are decoded and printed as by hyperslab show. Large rows are shown by their ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab head ocean.nc
  hyperslab head -n 2 ocean.nc/sst")]
pub(crate) struct HeadArgs {
    /// An array or group.
    path: String,
    /// Number of rows: indices of the first axis.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 5)]
    rows: u64,
    /// Show stored numbers, and ignore attributes.
    #[arg(long)]
    raw: bool,
}

impl Command for HeadArgs {
    const NAME: &str = "head";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let (node, selected) = selection::open(&self.path, None)?;
        let array = match node {
            Node::Group(group) => return of_group(&group, Some(self.rows), self.raw, false, out, watch),
            Node::Array(array) => array,
        };
        let mut window = Window::parse(&array, &selected)?.map_err(Failure::Usage)?;
        if let Some(axis) = window.axes.iter_mut().find(|axis| !axis.dropped) {
            axis.len = axis.len.min(self.rows);
        }
        let reader = Reader::of(&array, self.raw)?;
        let shown = print(&reader, &window, numpy_width(), false, &|| watch.is_interrupted())?;
        Ok(writeln!(out, "{shown}")?)
    }
}
