//! `hyperslab show`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::new_file::write_whole;
use crate::selection;
use crate::signals::Watch;
use crate::stats::{StatsArgs, range};
use crate::style::Style;
use crate::terminal::{self, Look};
use crate::text;
use hyperslab::look::{
    Color, ColorMap, Picture, PictureOptions, Reader, Window, print, write_csv, write_npy,
};
use hyperslab::{Array, Error, FileMeaning, Group, Node, NodeKind};
use std::io::Write;
use std::path::PathBuf;

/// Most pixels of a picture in a file or in a terminal with pixels.
const PIXELS: (usize, usize) = (800, 600);

/// Show values: as NumPy prints them, as a picture, as CSV or as a .npy file.
///
/// Values are decoded by their attributes, as xarray does: scale_factor and add_offset are applied,
/// times are dates, and elements that _FillValue or missing_value mark are shown as --. Large arrays
/// are shown by their first and last elements. Pictures show the last two axes, and of others the
/// first index. They read one element for each pixel, at even distances: a huge array takes no
/// longer than a small one. For a group, shows all arrays below it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
SELECTION is what stands between the brackets in NumPy, or NAME=INDEX for axes with names. Quote it.

Examples:
  hyperslab show ocean.nc/sst                        the first and the last values
  hyperslab show ocean.nc/sst '0, 10:14, :'          a part
  hyperslab show ocean.nc/sst time=-1 --picture      the last step, in the terminal
  hyperslab show ocean.nc/sst time=0 --png sst.png   in a file
  hyperslab show ocean.nc/sst y=10,x=20 --csv        a series, with its dates
  hyperslab show ocean.nc/sst --npy - | python -c 'import sys, numpy; ...'")]
pub(crate) struct ShowArgs {
    /// An array or group.
    path: String,
    /// Part of the array. Default: everything.
    #[arg(allow_hyphen_values = true)]
    selection: Option<String>,
    /// Show stored numbers, and ignore attributes.
    #[arg(long)]
    raw: bool,
    /// Show all values, however many there are.
    #[arg(long, conflicts_with_all = ["csv", "npy", "stats", "picture", "png"])]
    all: bool,
    /// Print CSV: a line for each element, with its coordinates.
    #[arg(long, conflicts_with_all = ["npy", "stats", "picture", "png"])]
    csv: bool,
    /// Write a file that numpy.load reads. -: standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stats", "picture", "png"])]
    npy: Option<PathBuf>,
    /// Show count, smallest, largest, mean and standard deviation, as hyperslab stats does.
    #[arg(long, conflicts_with_all = ["picture", "png"])]
    stats: bool,
    /// Draw a picture in the terminal. Default: as fine as the terminal is known to allow.
    #[arg(long, value_name = "HOW", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "auto")]
    picture: Option<Look>,
    /// Write a picture to this file.
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Colours: viridis, cividis, magma, gray or blue-red. Default: blue-red for numbers on both sides
    /// of zero, otherwise viridis.
    #[arg(long, value_name = "NAME", value_parser = str::parse::<ColorMap>)]
    colors: Option<ColorMap>,
    /// The numbers of the first and the last colour. Default: the smallest and the largest number of
    /// the picture.
    #[arg(long, value_name = "LOW,HIGH", allow_hyphen_values = true, value_parser = range)]
    range: Option<(f64, f64)>,
    /// Colours from the 2nd to the 98th percentile, so that a few extremes do not hide the rest.
    #[arg(long, conflicts_with = "range")]
    robust: bool,
}

impl Command for ShowArgs {
    const NAME: &str = "show";
    const ALIASES: &[&str] = &["view"];

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let (node, selected) = selection::open(&self.path, self.selection.as_deref())?;
        if self.stats {
            let path = self.array_path();
            return StatsArgs::of_one(path, self.raw).show(&[path], Some(&selected), out, watch);
        }
        match node {
            Node::Array(array) if self.prints() => self.array(&array, &selected, out, watch),
            Node::Array(array) => self.array(&self.in_its_group(array), &selected, out, watch),
            Node::Group(_) if !selected.is_empty() => {
                Err(Failure::Usage("a selection is of an array, not of a group".into()))
            }
            Node::Group(group) if self.prints() => of_group(&group, None, self.raw, self.all, out, watch),
            Node::Group(_) => Err(Failure::Usage(format!(
                "'{}' is a group; name an array of it (hyperslab ls '{}' lists them)",
                self.path, self.path
            ))),
        }
    }
}

impl ShowArgs {
    fn prints(&self) -> bool {
        !self.csv && self.npy.is_none() && self.picture.is_none() && self.png.is_none()
    }

    /// The path without a selection in brackets.
    fn array_path(&self) -> &str {
        match &self.selection {
            Some(_) => &self.path,
            None => selection::split(&self.path).map_or(&self.path, |(path, _)| path),
        }
    }

    /// The same array, opened by way of its group, which knows its name and its coordinates. A Zarr array
    /// that was opened by its own path knows neither.
    fn in_its_group(&self, array: Array) -> Array {
        let path = self.array_path();
        let above =
            path.trim_end_matches('/').rsplit_once('/').filter(|_| array.path().trim_matches('/').is_empty());
        let Some((group, name)) = above else { return array };
        let again = failure::open(group).ok().and_then(|node| node.into_group().ok()?.array(name).ok());
        again.filter(|again| again.shape() == array.shape()).unwrap_or(array)
    }

    fn array(
        &self,
        array: &Array,
        selected: &str,
        out: &mut dyn Write,
        watch: &Watch,
    ) -> Result<(), Failure> {
        let stop = || watch.is_interrupted();
        let window = Window::parse(array, selected)?.map_err(Failure::Usage)?;
        let reader = Reader::of(array, self.raw)?;
        if self.csv {
            return Ok(write_csv(&reader, &window, &last_name(array), self.raw, out, &stop)??);
        }
        if let Some(file) = &self.npy {
            if file.as_os_str() == "-" {
                return Ok(write_npy(&reader, &window, out, &stop)??);
            }
            return write_whole(file, &mut |out| Ok(write_npy(&reader, &window, out, &stop)?));
        }
        if self.picture.is_none() && self.png.is_none() {
            let shown = print(&reader, &window, numpy_width(), self.all, &stop)?;
            return Ok(writeln!(out, "{shown}")?);
        }
        let draw = |(width, height): (usize, usize)| {
            let options =
                PictureOptions { width, height, colors: self.colors, range: self.range, robust: self.robust };
            Picture::of(&reader, &window, &options, &stop)
        };
        let title = |picture: &Picture| {
            let name = last_name(array);
            let units = array.attributes().ok().and_then(|all| all.get("units")?.as_str().map(str::to_owned));
            let units = units.map_or_else(String::new, |units| format!(" ({units})"));
            text::sanitize(&format!("{name}{}{units}", picture.window.text(array.shape())))
        };
        if let Some(file) = &self.png {
            let picture = draw(PIXELS)?;
            let png = picture.to_png(&title(&picture), PIXELS.0, PIXELS.1)?;
            write_whole(file, &mut |out| Ok(out.write_all(&png)))?;
        }
        if let Some(how) = self.picture {
            let how = how.resolved();
            let size = if how.has_pixels() { PIXELS } else { terminal::picture_size() };
            let picture = draw(size)?;
            terminal::draw(&picture, &title(&picture), how, size, out)?;
        }
        Ok(())
    }
}

/// Characters of a line of values: NumPy uses 75 of 80.
pub(crate) fn numpy_width() -> usize {
    text::line_width().saturating_sub(5).max(20)
}

fn last_name(array: &Array) -> String {
    let path = array.path().trim_matches('/').to_owned();
    match path.rsplit('/').next() {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => "value".into(),
    }
}

/// Shows all arrays below a group. `rows`: most indices of the first axis.
pub(crate) fn of_group(
    group: &Group,
    rows: Option<u64>,
    raw: bool,
    all: bool,
    out: &mut dyn Write,
    watch: &Watch,
) -> Result<(), Failure> {
    let (style, stop) = (Style::of_stdout(), || watch.is_interrupted());
    let meaning = group.file().map(|file| FileMeaning::of(&file)).transpose()?;
    let mut is_first = true;
    for below in group.below(None, Some(&stop))? {
        if below.kind != NodeKind::Array {
            continue;
        }
        if watch.is_interrupted() {
            return Err(Error::Interrupted.into());
        }
        let shown = group.open_below(&below).and_then(hyperslab::Object::into_node).and_then(|node| {
            let array = node.into_array()?;
            // A dataset that only stands for a dimension has no elements.
            if let Some(meaning) = &meaning
                && meaning.variable(&array)?.is_none()
            {
                return Ok(None);
            }
            let mut window = Window::all(&array)?;
            if let (Some(rows), Some(axis)) = (rows, window.axes.first_mut()) {
                axis.len = axis.len.min(rows);
            }
            let values = print(&Reader::of(&array, raw)?, &window, numpy_width(), all, &stop)?;
            let axes = text::axes(array.shape(), array.dimension_names()?.as_deref());
            Ok(Some((axes, text::element_type(&array), values)))
        });
        let path = style.bold(&text::sanitize(&below.path));
        if matches!(shown, Ok(None)) {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            writeln!(out)?;
        }
        match shown {
            Ok(None) => {}
            Ok(Some((axes, words, values))) => {
                writeln!(out, "{path}  {}\n{values}", style.dim(&format!("{axes}  {words}")))?;
            }
            Err(error) if error.is_interruption() => return Err(error.into()),
            // The other arrays are still worth showing.
            Err(error) => writeln!(out, "{path}  unreadable: {}", text::sanitize(&error.to_string()))?,
        }
    }
    if is_first {
        writeln!(out, "there are no arrays")?;
    }
    Ok(())
}

/// A colour as escape sequence. `is_back`: of the background.
pub(crate) fn escape([red, green, blue]: Color, is_back: bool) -> String {
    format!("\x1b[{};2;{red};{green};{blue}m", if is_back { 48 } else { 38 })
}
