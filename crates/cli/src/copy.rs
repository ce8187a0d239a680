//! `hyperslab copy`.

use crate::args::{Chunks, chunks, shards, size};
use crate::command::Command;
use crate::failure::{self, Failure};
use crate::many::{self, Split};
use crate::meter::Meter;
use crate::planned_copy::PlannedCopy;
use crate::python::continue_in_python;
use crate::signals::Watch;
use crate::task_copy::TaskCopy;
use crate::text;
use clap::ValueEnum;
use hyperslab::Format;
use hyperslab::copy::{
    Compressors, CopyOptions, CopyReport, FileFormat, FileLayout, Libver, Order, Region, Shards, copy,
    copy_into, plan, split, split_parts,
};
use std::io::Write;
use std::str::FromStr;
use std::time::Duration;

/// Copy an array or group with everything below it: to another format, other chunks, other codecs.
///
/// Settings that are not chosen stay as in the source, translated to the other format. A codec that
/// the other format does not have is refused by name; choose another. Chunks that the source does
/// not store are not stored in the copy.
///
/// The copy is made beside DST and replaces it in one step when it is complete. After an error,
/// Ctrl-C or a kill, DST is as it was before, and there is no instant without it. Leftovers of a
/// killed copy beside DST are removed by the next copy to DST, and by compact.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
CODEC is one of
  none
  zstd[:LEVEL]   gzip[:LEVEL]   zlib[:LEVEL]   lz4[:ACCELERATION]
  blosc[:NAME[:LEVEL[:SHUFFLE]]]
      NAME: zstd, lz4, lz4hc, blosclz, zlib
      SHUFFLE: shuffle, bitshuffle, noshuffle
  the JSON of a codec, or of a list of codecs, as in Zarr v3 or v2 metadata

Examples:
  # HDF5 or NetCDF-4 to Zarr v3; without what Zarr cannot hold
  hyperslab copy ocean.nc ocean.zarr --verify --skip-unsupported
  # Zarr v3, the same chunks and codecs
  hyperslab copy old.zarr new.zarr
  # compressed, and checked
  hyperslab copy ocean.zarr packed.zarr --codec blosc --verify
  # time series in one chunk each
  hyperslab copy ocean.zarr/sst series.zarr --chunks -1,16,16
  # many small chunks, few files
  hyperslab copy ocean.zarr/sst sharded.zarr --chunks 1,32,32 --shards 64,-1,-1
  # what that reads, decodes and writes within so much memory
  hyperslab copy ocean.zarr/sst series.zarr --chunks -1,16,16 --max-memory 64MiB --explain
  # on a cluster; if anything is killed, the same again
  hyperslab copy ocean.zarr/sst series.zarr --chunks -1,16,16 --scheduler tcp://10.0.0.1:8786 --resume
  # ten days of a dataset, and their place in one that exists
  hyperslab copy ocean.zarr ten.zarr --region time=0:10
  hyperslab copy ten.zarr/sst all.zarr/sst --target-region 20:30
  # many files to one, and one to many: a file of each year
  hyperslab copy 2001.nc 2002.nc 2003.nc ocean.zarr --concat time
  hyperslab copy ocean.zarr 'ocean-{}.nc' --split time=365
  # one variable with its coordinates, in other chunks
  hyperslab copy ocean.nc sst.nc --variables sst --chunks time=24,lat=100 --codec zlib:4
  # to HDF5
  hyperslab copy ocean.zarr ocean.h5 --codec gzip:4 --verify
  # to NetCDF-4: dimensions, coordinates and attributes as netCDF-C writes them
  hyperslab copy ocean.zarr ocean.nc --codec zlib:4 --verify
  # to HDF5 on a server, for readers far away
  hyperslab copy ocean.zarr s3://bucket/ocean.h5 --layout cloud
  # back to Zarr v2, in place of what was there
  hyperslab copy new.zarr old.zarr --format v2 --overwrite

Exit codes: 0 done, 1 error, 2 wrong usage, 3 --verify found a difference,
130 interrupted (143 by SIGTERM). There is a copy only after 0.")]
pub(crate) struct CopyArgs {
    /// An array or group. Several, with --concat: they become one.
    #[arg(value_name = "SRC", required = true, num_args = 1..)]
    sources: Vec<String>,
    /// Destination of the copy. Missing parent directories are created. With --split: a pattern
    /// (see there).
    #[arg(value_name = "DST")]
    destination: String,
    /// Join the sources along this dimension, in the order given. Variables with the dimension must
    /// have the same elements, other axes, packing, fill value and units in all sources. Variables
    /// without it must be equal. Attributes come from the first source.
    #[arg(long, value_name = "DIM", conflicts_with_all = ["target_region", "split"])]
    concat: Option<String>,
    /// With --concat: in the order of the first value of the dimension's coordinate.
    #[arg(long, requires = "concat")]
    sort: bool,
    /// Make several copies, each with a number of steps of a dimension. DST is a pattern: {} becomes the
    /// number of the copy, {start} and {stop} its range.
    #[arg(long, value_name = "DIM=N", value_parser = str::parse::<Split>,
        conflicts_with_all = ["target_region", "explain", "resume", "scheduler"])]
    split: Option<Split>,
    /// Copy only these variables, with the coordinates, bounds and grid mappings that they name.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', conflicts_with = "target_region")]
    variables: Option<Vec<String>>,
    /// Chunk shape, for arrays with as many axes; -1 means all of an axis. Or lengths by dimension
    /// (time=24,lat=-1): along other dimensions, and in coordinates, chunks stay.
    #[arg(long, value_name = "N,N,…|DIM=N,…", value_parser = chunks, allow_hyphen_values = true)]
    chunks: Option<Chunks>,
    /// Shard shape, for arrays with as many axes: multiples of the chunks, where -1 means all of an
    /// axis; auto: chosen by size; none: each chunk is a separate object. Default: as in the
    /// source.
    #[arg(long, value_name = "N,N,…", value_parser = shards, allow_hyphen_values = true)]
    shards: Option<Shards>,
    /// Copy a part: bounds of axes as in Python (0:10, :, -5:), or by dimension names
    /// (time=0:10,lat=-5:). Names also work for the arrays of a group.
    #[arg(long, value_name = "START:STOP,…", value_parser = str::parse::<Region>, allow_hyphen_values = true)]
    region: Option<Region>,
    /// Copy into this part of the existing array at DST, which keeps its chunks and codecs. The
    /// part must begin and end at chunk (or shard) boundaries of that array.
    #[arg(long, value_name = "START:STOP,…", value_parser = str::parse::<Region>, allow_hyphen_values = true,
        conflicts_with_all = ["overwrite", "chunks", "shards", "codec", "order"])]
    target_region: Option<Region>,
    /// Compressor (see below).
    #[arg(long, visible_alias = "compressor", value_name = "CODEC")]
    codec: Option<Codec>,
    /// Order of the elements within chunks: C, last axis fastest, or F, first axis fastest.
    #[arg(long, value_enum, ignore_case = true)]
    order: Option<OrderArg>,
    /// Format of the copy: Zarr v2 or v3, or one file: hdf5, netcdf4, netcdf3,
    /// netcdf3_64bit_offset, netcdf3_64bit_data. Default: by the name (.h5 .hdf5 .he5: hdf5; .nc
    /// .nc4: netcdf4), otherwise v3.
    #[arg(long, visible_alias = "zarr-format", value_parser = str::parse::<FormatArg>,
        value_name = "v2|v3|hdf5|netcdf4|…")]
    format: Option<FormatArg>,
    /// Approximate memory to use: 64MiB, 2G. A copy that needs more is refused, with the amount it
    /// needs. Default: 256MiB, or more if one block of a few chunks needs more.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_memory: Option<u64>,
    /// Number of threads. Default: all cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Read the copy back and compare every bit with the source.
    #[arg(long)]
    verify: bool,
    /// Leave out and list arrays that the format of the copy cannot hold, or that cannot be read.
    /// Otherwise the first one is an error, before anything is written.
    #[arg(long)]
    skip_unsupported: bool,
    /// Do not write consolidated metadata: all documents of a group in one, for readers far away.
    #[arg(long)]
    no_consolidated: bool,
    /// Replace the array or group at DST when the copy is complete.
    #[arg(long)]
    overwrite: bool,
    /// Flush everything to disk before the copy replaces DST, so that it survives a power failure.
    /// HYPERSLAB_FSYNC=1 does the same.
    #[arg(long)]
    fsync: bool,
    /// Structures of a new HDF5 file: the oldest possible ones, or structures of HDF5 1.10.
    #[arg(long, value_parser = str::parse::<Libver>, value_name = "earliest|v110", default_value = "earliest")]
    libver: Libver,
    /// Order of the parts of a new HDF5 file. cloud: all metadata in front, in pages, and then the
    /// chunks in the order of their arrays. Readers far away open such a file with few requests.
    #[arg(long, value_parser = str::parse::<FileLayout>, value_name = "plain|cloud", default_value = "plain",
        conflicts_with_all = ["resume", "scheduler", "target_region"])]
    layout: FileLayout,
    /// Show how SRC would be copied, and why: reads and writes, how often each chunk is decoded,
    /// memory, temporary arrays. Write nothing.
    #[arg(long, visible_alias = "dry-run")]
    explain: bool,
    /// Copy in tasks, record finished ones beside DST, and continue a killed copy. Finished tasks
    /// are skipped if their results are unchanged.
    #[arg(long)]
    resume: bool,
    /// With --resume: skip a finished task only if its results still have the checksums it
    /// recorded. This reads all of them; otherwise only sizes and times are checked.
    #[arg(long, requires = "resume")]
    check_contents: bool,
    /// Copy on a cluster: the address of a dask.distributed scheduler. All workers must reach SRC
    /// and DST by these paths or URLs. --max-memory applies to each task.
    #[arg(long, value_name = "URL")]
    scheduler: Option<String>,
    /// Show no progress bar and no summary.
    #[arg(long, short)]
    quiet: bool,
}

impl Command for CopyArgs {
    const NAME: &str = "copy";
    const ALIASES: &[&str] = &["convert", "rechunk"];

    fn run(&self, out: &mut dyn Write, watch: &Watch) -> Result<(), Failure> {
        if self.is_in_tasks() && self.makes_file() {
            return Err(Failure::Usage(
                "--format or DST: one file is not copied in tasks; leave out --resume and --scheduler".into(),
            ));
        }
        if self.scheduler.is_some() {
            continue_in_python();
            return Err(Failure::Usage(
                "--scheduler needs the Python package: pip install hyperslab distributed".into(),
            ));
        }
        let mut options = self.options();
        if self.resume {
            return self.in_tasks().run(&options, out, watch);
        }
        let wanted = self.variables.as_deref();
        let source =
            many::source(&self.sources, self.concat.as_deref(), self.sort, wanted, options.threads, watch)?;
        if self.explain {
            if self.target_region.is_some() {
                return Err(Failure::Usage("--explain with --target-region: add --resume".into()));
            }
            for (path, plan) in plan(&source, &self.destination, &options)? {
                writeln!(out, "{}: {plan}", text::sanitize(&path))?;
            }
            return Ok(());
        }
        let meter = Meter::new(watch, self.quiet);
        options.progress = Some(&meter);
        if let Some(Split { dimension, len }) = &self.split {
            let parts = split_parts(&source, dimension, *len, &self.destination)?;
            let mut done = Vec::new();
            let result = split(&source, dimension, &parts, &options, &mut |part, report| {
                done.push((part.destination.clone(), summary(report)));
            });
            meter.finish();
            for (place, summary) in done.iter().filter(|_| !self.quiet) {
                writeln!(out, "{}: {summary}", text::sanitize(place))?;
            }
            return result.map_err(|error| match error {
                error if error.is_interruption() => {
                    Failure::Stopped("finished copies stay, the others are not there")
                }
                error => error.into(),
            });
        }
        let copied = match &self.target_region {
            None => copy(&source, &self.destination, &options),
            Some(region) => {
                let target = failure::open(&self.destination)?.into_array()?;
                copy_into(&source.into_array()?, &target, region, &options)
            }
        };
        meter.finish();
        let report = copied.map_err(|error| match error {
            error if error.is_interruption() => Failure::Stopped(match self.target_region {
                None => "the destination is as it was",
                Some(_) => "some chunks of the destination are new, others as they were",
            }),
            error => error.into(),
        })?;
        if !self.quiet {
            for note in &report.notes {
                writeln!(out, "note: {}", text::sanitize(note))?;
            }
            for (path, why) in &report.skipped {
                writeln!(out, "left out {}: {}", text::sanitize(path), text::sanitize(why))?;
            }
            writeln!(out, "{}", summary(&report))?;
        }
        Ok(())
    }
}

/// A compressor, with its text.
#[derive(Clone, Debug)]
struct Codec {
    text: String,
    parsed: Compressors,
}

impl FromStr for Codec {
    type Err = <Compressors as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Codec { text: text.to_owned(), parsed: text.parse()? })
    }
}

impl CopyArgs {
    fn in_tasks(&self) -> TaskCopy<'_> {
        TaskCopy {
            sources: &self.sources,
            concat: self.concat.as_deref(),
            sort: self.sort,
            destination: &self.destination,
            target_region: self.target_region.as_ref(),
            verify: self.verify,
            check_contents: self.check_contents,
            explain: self.explain,
            quiet: self.quiet,
        }
    }

    /// The part for the Python package, if this is a copy on a cluster.
    pub(crate) fn planned_copy(&self) -> Option<PlannedCopy> {
        let options = self.options();
        (self.scheduler.is_some() && !self.makes_file()).then(|| PlannedCopy {
            sources: self.sources.clone(),
            concat: self.concat.clone(),
            sort: self.sort,
            variables: options.variables,
            destination: self.destination.clone(),
            storage: options.storage,
            chunks: options.chunks,
            named_chunks: options.named_chunks,
            shards: options.shards,
            compressors: self.codec.as_ref().map(|codec| codec.text.clone()),
            order: options.order,
            format: options.format.unwrap_or(Format::ZarrV3),
            threads: options.threads,
            max_memory: options.max_memory,
            memory_is_limit: options.memory_is_limit,
            skip_unsupported: options.skip_unsupported,
            consolidated: !options.unconsolidated,
            fsync: options.fsync,
            region: self.region.clone(),
            target_region: self.target_region.clone(),
            overwrite: self.overwrite,
            verify: self.verify,
            check_contents: self.check_contents,
            resume: self.resume,
            scheduler: self.scheduler.clone(),
            explain: self.explain,
            quiet: self.quiet,
        })
    }

    /// Returns `true` if the copy becomes one file, by its format or by its name.
    fn makes_file(&self) -> bool {
        let is_named = || FileFormat::of_name(&self.destination).is_some();
        self.file_format().is_some()
            || self.target_region.is_none() && !std::path::Path::new(&self.destination).is_dir() && is_named()
    }

    fn is_in_tasks(&self) -> bool {
        self.resume || self.scheduler.is_some()
    }

    fn file_format(&self) -> Option<FileFormat> {
        match self.format {
            Some(FormatArg::File(format)) => Some(format),
            _ => None,
        }
    }

    fn options(&self) -> CopyOptions<'static> {
        CopyOptions {
            chunks: match &self.chunks {
                Some(Chunks::Shape(shape)) => Some(shape.clone()),
                _ => None,
            },
            named_chunks: match &self.chunks {
                Some(Chunks::Named(lens)) => Some(lens.clone()),
                _ => None,
            },
            variables: self.variables.clone(),
            shards: self.shards.clone().unwrap_or_default(),
            compressors: self.codec.as_ref().map(|codec| codec.parsed.clone()),
            order: self.order.map(|order| match order {
                OrderArg::C => Order::C,
                OrderArg::F => Order::F,
            }),
            format: Some(match self.format {
                Some(FormatArg::Zarr(format)) => format,
                _ => Format::ZarrV3,
            }),
            file_format: self.file_format(),
            threads: self.threads.map(usize::from),
            max_memory: self.max_memory.unwrap_or(256 << 20),
            memory_is_limit: self.max_memory.is_some(),
            verify: self.verify,
            skip_unsupported: self.skip_unsupported,
            unconsolidated: self.no_consolidated,
            overwrite: self.overwrite,
            fsync: self.fsync || wants_fsync(),
            libver: self.libver,
            layout: self.layout,
            storage: crate::storage::options(),
            region: self.region.clone(),
            progress: None,
        }
    }
}

/// Returns whether `HYPERSLAB_FSYNC` requests flushing. The Python package reads it too.
fn wants_fsync() -> bool {
    let text = std::env::var("HYPERSLAB_FSYNC").unwrap_or_default();
    matches!(text.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OrderArg {
    #[value(name = "C")]
    C,
    #[value(name = "F")]
    F,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormatArg {
    Zarr(Format),
    /// One file.
    File(FileFormat),
}

impl FromStr for FormatArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "v2" | "2" => Ok(FormatArg::Zarr(Format::ZarrV2)),
            "v3" | "3" => Ok(FormatArg::Zarr(Format::ZarrV3)),
            other => other.parse().map(FormatArg::File).map_err(|_| {
                format!(
                    "expected v2, v3, hdf5, netcdf4, netcdf3, netcdf3_64bit_offset or netcdf3_64bit_data, \
                     found {other:?}"
                )
            }),
        }
    }
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
