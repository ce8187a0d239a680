//! `hyperslab stats`.

use crate::command::Command;
use crate::failure::{self, Failure};
use crate::meter::Meter;
use crate::selection;
use crate::signals::Watch;
use crate::style::Style;
use crate::text;
use hyperslab::look::{Window, WindowAxis};
use hyperslab::meaning::{Decoding, Number, Times, number_element};
use hyperslab::statistics::{
    Bins, NumberTypes, PartialStatistics, StatisticsOptions, number_type, statistics,
};
use hyperslab::{Array, Below, DataType, Error, FileMeaning, Json, Node, NodeKind};
use std::io::{self, Write};
use std::ops::Range;

/// Show count, smallest, largest, mean and standard deviation of arrays.
///
/// Reads everything once, in little memory. Not-a-number and not-a-time count as missing, and so do
/// the values of --missing. For a group, reports all numeric arrays below it. Dates and times are
/// shown in their unit, since 1970.
///
/// Follows CF attributes, as xarray does: _FillValue and missing_value mark missing elements, and
/// scale_factor, add_offset and _Unsigned convert stored numbers ("packed"). Numbers of units like
/// "days since 1970-01-01" are shown as dates of their calendar.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab stats ocean.zarr                        a table of its arrays
  hyperslab stats ocean.zarr/sst '0:12, 90'         a part of one
  hyperslab stats ocean.zarr/sst --bins 20          with a histogram
  hyperslab stats ocean.nc --missing -999 --json")]
pub(crate) struct StatsArgs {
    /// An array or group.
    path: String,
    /// A part of the array: integers and slices of step 1, also with the names of axes (time=0:12). Or
    /// another array or group.
    #[arg(value_name = "SELECTION|PATH", allow_hyphen_values = true)]
    second: Option<String>,
    /// More arrays or groups.
    #[arg(value_name = "PATH")]
    more: Vec<String>,
    /// A stored number that counts as missing. May be given several times.
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    missing: Vec<String>,
    /// Use stored numbers and ignore attributes.
    #[arg(long)]
    raw: bool,
    /// Show a histogram of N bins.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    bins: Option<u32>,
    /// Range of the histogram. Default: from the smallest to the largest element, which costs
    /// another read.
    #[arg(long, value_name = "LOW,HIGH", allow_hyphen_values = true, requires = "bins", value_parser = range)]
    range: Option<(f64, f64)>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Show no progress bar.
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn range(text: &str) -> Result<(f64, f64), String> {
    let wrong = || format!("{text:?} is not two numbers: LOW,HIGH");
    let (low, high) = text.split_once(',').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite()).ok_or_else(wrong);
    let (low, high) = (number(low)?, number(high)?);
    if low < high { Ok((low, high)) } else { Err(format!("{low} is not less than {high}")) }
}

/// The results for one array.
struct Found {
    name: String,
    is_float: bool,
    words: String,
    part: PartialStatistics,
    bins: Option<Bins>,
    /// The meaning of numbers as times.
    times: Option<Times>,
}

impl Command for StatsArgs {
    const NAME: &str = "stats";

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        let (paths, selection) = self.locations();
        self.show(&paths, selection, out, watch)
    }
}

impl StatsArgs {
    /// Prints the statistics of these paths. `selection`: a part; empty: everything.
    pub(crate) fn show(
        &self,
        paths: &[&str],
        selection: Option<&str>,
        out: &mut dyn Write,
        watch: &Watch,
    ) -> Result<(), Failure> {
        let meter = Meter::new(watch, self.quiet);
        let mut found = Vec::new();
        let selection = selection.filter(|text| !text.is_empty());
        for path in paths {
            self.at(path, selection, paths.len() > 1, &meter, watch, &mut found)?;
        }
        meter.finish();
        if self.json {
            let all = found.iter().map(|found| (found.name.clone(), found.to_json())).collect();
            return Ok(writeln!(out, "{}", Json::Object(all).to_text(Some(2)))?);
        }
        if found.is_empty() {
            return Ok(writeln!(out, "there are no arrays of numbers")?);
        }
        Ok(print(&found, out)?)
    }

    /// As for one path, without a histogram.
    pub(crate) fn of_one(path: &str, raw: bool) -> StatsArgs {
        StatsArgs {
            path: path.to_owned(),
            second: None,
            more: Vec::new(),
            missing: Vec::new(),
            raw,
            bins: None,
            range: None,
            json: false,
            quiet: false,
        }
    }

    /// The paths, and the selection. The second of two words is a selection if it can be one, and if
    /// no file has that name.
    fn locations(&self) -> (Vec<&str>, Option<&str>) {
        let path = self.path.as_str();
        match &self.second {
            Some(word)
                if self.more.is_empty()
                    && selection::is_one(word)
                    && !std::path::Path::new(word).exists() =>
            {
                (vec![path], Some(word))
            }
            second => {
                let others = second.iter().chain(&self.more).map(String::as_str);
                (std::iter::once(path).chain(others).collect(), None)
            }
        }
    }

    /// Statistics of an array, or of all arrays below a group.
    fn at(
        &self,
        location: &str,
        selection: Option<&str>,
        is_one_of_many: bool,
        meter: &Meter<'_>,
        watch: &Watch,
        found: &mut Vec<Found>,
    ) -> Result<(), Failure> {
        match failure::open(location)? {
            Node::Array(array) => found.push(self.of(location.to_owned(), &array, selection, meter)?),
            Node::Group(_) if selection.is_some() => {
                return Err(Failure::Usage("a selection is of an array, not of a group".into()));
            }
            Node::Group(group) => {
                let meaning = group.file().map(|file| FileMeaning::of(&file)).transpose()?;
                // A dataset that only stands for a dimension has no elements.
                let is_variable = |array: &Array| match &meaning {
                    Some(meaning) => Ok(meaning.variable(array)?.is_some()),
                    None => Ok::<_, Error>(true),
                };
                for Below { path, kind, .. } in group.below(None, Some(&|| watch.is_interrupted()))? {
                    if watch.is_interrupted() {
                        return Err(Error::Interrupted.into());
                    }
                    if kind != NodeKind::Array {
                        continue;
                    }
                    let name = if is_one_of_many { format!("{location}/{path}") } else { path.clone() };
                    let summary = match group.child(&path).map_err(Failure::from) {
                        Ok(Node::Array(array)) if number_type(&array).is_some() => {
                            match is_variable(&array) {
                                Ok(true) => self.of(name, &array, None, meter),
                                Ok(false) => continue,
                                Err(error) => Err(error.into()),
                            }
                        }
                        Ok(_) => continue,
                        Err(error) => Err(error),
                    };
                    match summary {
                        Ok(summary) => found.push(summary),
                        Err(error) if error.is_interruption() => return Err(error),
                        // The other arrays are still worth showing. Writing this message may fail.
                        Err(error) => {
                            let why = error.message().unwrap_or_default();
                            let _ = writeln!(io::stderr(), "left out {}: {why}", text::sanitize(&path));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn of(
        &self,
        name: String,
        array: &Array,
        selection: Option<&str>,
        meter: &Meter<'_>,
    ) -> Result<Found, Failure> {
        let words = array.type_words();
        let Some(number_types) = NumberTypes::of(array, self.raw)? else {
            statistics(array, &StatisticsOptions::default())?;
            return Err(Failure::Usage(format!("{name} has no numbers")));
        };
        let packed = if number_types.scaled { " packed" } else { "" };
        let (words, is_float) = (words + packed, number_types.is_float());
        let region = region(array, selection.unwrap_or_default())?;
        let missing: Result<Vec<_>, _> =
            self.missing.iter().map(|value| element(value, number_types.stored)).collect();
        let options = StatisticsOptions {
            region: Some(region.clone()),
            missing: missing?.into_iter().flatten().collect(),
            raw: self.raw,
            progress: Some(meter),
            ..StatisticsOptions::default()
        };
        let count = region.iter().fold(1, |n: u64, axis| n.saturating_mul(axis.end - axis.start));
        let run = |bins: Option<Bins>| {
            meter.start("read", count.saturating_mul(array.dtype().size() as u64));
            statistics(array, &StatisticsOptions { bins, ..options.clone() })
        };
        let even = |(low, high): (f64, f64), count| Bins::even(low, high, count).map_err(Failure::Usage);
        let given = match (self.bins, self.range) {
            (Some(count), Some(range)) => Some(even(range, count)?),
            _ => None,
        };
        let part = run(given.clone())?;
        // Units without a meaning are no reason to hide the numbers.
        let times = match Decoding::of(array) {
            Ok(decoding) if !self.raw => decoding.times,
            _ => None,
        };
        let found = |part, bins| {
            let (name, words, times) = (name.clone(), words.clone(), times.clone());
            Found { name, is_float, words, part, bins, times }
        };
        match self.bins {
            Some(count) if given.is_none() => {
                let bins = even(histogram_range(&part, is_float), count)?;
                Ok(found(run(Some(bins.clone()))?, Some(bins)))
            }
            _ => Ok(found(part, given)),
        }
    }
}

/// The ranges of a selection.
fn region(array: &Array, text: &str) -> Result<Vec<Range<u64>>, Failure> {
    if let Ok(indices) = selection::parse(text) {
        // An index out of bounds is an error of the array, not of the usage.
        array.select(&indices)?;
    }
    let window = Window::parse(array, text)?.map_err(Failure::Usage)?;
    let axis = |axis: &WindowAxis| match axis.step {
        1 => Ok(axis.first..axis.first + axis.len),
        _ => Err(Failure::Usage(format!("selection {text:?}: expected integers and slices of step 1"))),
    };
    window.axes.iter().map(axis).collect()
}

/// The range of a histogram, as in NumPy.
fn histogram_range(part: &PartialStatistics, is_float: bool) -> (f64, f64) {
    let (low, high) = match (part.count, is_float) {
        (0, _) => (0.0, 1.0),
        (_, true) => (part.min, part.max),
        _ => (part.min_int as f64, part.max_int as f64),
    };
    if low < high { (low, high) } else { (low - 0.5, high + 0.5) }
}

/// The bytes of a number as an element. `None` if no element can have that value.
fn element(text: &str, dtype: DataType) -> Result<Option<Vec<u8>>, Failure> {
    if text.parse::<f64>().is_err() {
        return Err(Failure::Usage(format!("--missing: {text:?} is not a number")));
    }
    Ok(number_element(text, dtype))
}

impl Found {
    /// Smallest element, largest element and mean as text. A dash if there are no elements.
    fn cells(&self) -> (String, String, String) {
        let PartialStatistics { count, min, max, min_int, max_int, .. } = self.part;
        let mean = self.part.mean().map(Number::Float);
        if count == 0 {
            return ("-".into(), "-".into(), "-".into());
        }
        let (min, max) = match self.is_float {
            true => (Number::Float(min), Number::Float(max)),
            false => (Number::Int(min_int), Number::Int(max_int)),
        };
        (self.text(min), self.text(max), mean.map_or_else(|| "-".into(), |mean| self.text(mean)))
    }

    /// A number as text: as a date, with the unit of a time difference, or as it is.
    fn text(&self, number: Number) -> String {
        let plain = match number {
            Number::Missing => "-".into(),
            Number::Int(int) => int.to_string(),
            Number::Float(float) => format_number(float),
        };
        match &self.times {
            None => plain,
            Some(times) if times.calendar().is_none() => format!("{plain} {}", times.units),
            Some(times) => times.text(number).unwrap_or(plain),
        }
    }

    /// A distance of numbers as text, with the unit of times.
    fn distance(&self, distance: Option<f64>) -> String {
        let Some(distance) = distance else { return "-".into() };
        let unit = self.times.as_ref().and_then(|times| times.units.split_whitespace().next());
        unit.map_or_else(|| format_number(distance), |unit| format!("{} {unit}", format_number(distance)))
    }

    fn to_json(&self) -> Json {
        let (part, is_float) = (&self.part, self.is_float);
        let there = part.count > 0;
        let number = |n: f64| if there { Json::float(n) } else { Json::Null };
        let whole = |n: i128| if there { Json::from(n) } else { Json::Null };
        let float_or = |float: f64, int: i128| if is_float { number(float) } else { whole(int) };
        let is_date = self.times.as_ref().is_some_and(|times| times.calendar().is_some()) && there;
        let date_or = |float: f64, int: i128| match is_date {
            true if is_float => Json::from(self.text(Number::Float(float)).as_str()),
            true => Json::from(self.text(Number::Int(int)).as_str()),
            false => float_or(float, int),
        };
        let mean = part.mean().unwrap_or(f64::NAN);
        let mut members = vec![
            ("type".to_owned(), self.words.as_str().into()),
            ("count".to_owned(), part.count.into()),
            ("missing".to_owned(), part.missing.into()),
            ("min".to_owned(), date_or(part.min, part.min_int)),
            ("max".to_owned(), date_or(part.max, part.max_int)),
            ("sum".to_owned(), if is_date { Json::Null } else { float_or(part.sum.value(), part.sum_int) }),
            (
                "mean".to_owned(),
                if is_date { self.text(Number::Float(mean)).as_str().into() } else { number(mean) },
            ),
            ("std".to_owned(), number(part.std().unwrap_or(f64::NAN))),
        ];
        if let Some(times) = &self.times {
            members.push(("units".to_owned(), times.units.as_str().into()));
        }
        if let Some(bins) = &self.bins {
            let edges = bins.edges().iter().map(|edge| Json::float(*edge)).collect();
            members.push(("histogram".to_owned(), part.bins.as_slice().into()));
            members.push(("bin_edges".to_owned(), Json::Array(edges)));
        }
        Json::Object(members)
    }
}

/// A number with six digits.
pub(crate) fn format_number(n: f64) -> String {
    let size = n.abs();
    if n == 0.0 || (1e-4..1e6).contains(&size) {
        let digits = if size >= 1.0 { 5 - (size.log10().floor() as usize).min(5) } else { 6 };
        let text = format!("{n:.digits$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    if n.is_finite() { format!("{n:.5e}") } else { n.to_string().to_lowercase() }
}

/// Characters of names that have cells in their line, even if the line is too long.
const LEAST_NAME: usize = 2;

fn print(all: &[Found], out: &mut dyn Write) -> io::Result<()> {
    const HEADINGS: [&str; 7] = ["type", "count", "missing", "min", "max", "mean", "std"];
    let style = Style::of_stdout();
    let rows: Vec<[String; 7]> = all
        .iter()
        .map(|found| {
            let ((min, max, mean), part) = (found.cells(), &found.part);
            let (count, missing) = (part.count.to_string(), part.missing.to_string());
            {
                let std = found.distance(part.std());
                [found.words.clone(), count, missing, min, max, mean, std].map(|cell| text::sanitize(&cell))
            }
        })
        .collect();
    let width = |text: &str| text.chars().count();
    let name_width = all.iter().map(|found| width(&text::sanitize(&found.name))).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(|column| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell));
        cells.max().unwrap_or(0).max(HEADINGS.get(column).map_or(0, |heading| heading.len()))
    });
    let cells_width = widths.iter().map(|width| width + 2).sum::<usize>();
    let name_width = name_width.min(text::line_width().saturating_sub(cells_width).max(LEAST_NAME));
    let line = |cells: [&str; 7]| -> String {
        let pad = |(n, (cell, full)): (usize, (&str, usize))| match n {
            0 => format!("  {cell:<full$}"),
            _ => format!("  {cell:>full$}"),
        };
        cells.into_iter().zip(widths).enumerate().map(pad).collect()
    };
    writeln!(out, "{}{}", " ".repeat(name_width), style.dim(&line(HEADINGS)))?;
    for (found, row) in all.iter().zip(&rows) {
        let name = text::sanitize(&found.name);
        // Cells of a long name are in the next line.
        let rest =
            if width(&name) > name_width { format!("\n{}", " ".repeat(name_width)) } else { String::new() };
        writeln!(out, "{name:<name_width$}{rest}{}", line(row.each_ref().map(String::as_str)))?;
    }
    for found in all {
        let Some(bins) = &found.bins else { continue };
        let most = found.part.bins.iter().copied().max().unwrap_or(0).max(1);
        writeln!(out, "\n{}", text::sanitize(&found.name))?;
        let edges: Vec<String> = bins.edges().iter().map(|edge| found.text(Number::Float(*edge))).collect();
        let edge_width = edges.iter().map(String::len).max().unwrap_or(0);
        let count_width = most.to_string().len();
        for ((low, high), count) in edges.iter().zip(edges.iter().skip(1)).zip(&found.part.bins) {
            let bar = "█".repeat((u128::from(*count) * 40).div_ceil(u128::from(most)) as usize);
            writeln!(out, "  {low:>edge_width$} to {high:>edge_width$}  {count:>count_width$}  {bar}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-273.15, "-273.15"),
            (123456.7, "123457"),
            (0.5, "0.5"),
            (1e-7, "1.00000e-7"),
            (2.5e9, "2.50000e9"),
            (f64::NAN, "nan"),
            (100.0, "100"),
        ] {
            assert_eq!(format_number(number), text);
        }
    }

    #[test]
    fn missing_values_are_elements() {
        let of = |text: &str, name: &str| element(text, name.parse().unwrap());
        assert_eq!(of("-1", "|i1").unwrap(), Some(vec![255]));
        assert_eq!(of("-999", "|i1").unwrap(), None);
        assert!(of("x", "<f4").is_err());
    }

    #[test]
    fn ranges() {
        assert_eq!(range("-1, 2.5"), Ok((-1.0, 2.5)));
        for text in ["1", "2,1", "a,b", "0,inf"] {
            assert!(range(text).is_err(), "{text}");
        }
    }
}
