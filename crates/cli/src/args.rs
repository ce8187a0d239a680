//! The arguments.

use clap::{Parser, Subcommand, ValueEnum};
use hyperslab::copy::{Compressors, Order, Shards};
use hyperslab::settings::ExternalFiles;
use hyperslab::{Format, copy};

/// Chunked N-dimensional arrays: look at them, see how they are read, convert them.
///
/// Zarr v2, Zarr v3 and HDF5 (NetCDF-4) on local disk. PATH is a directory, a file or a file://
/// URL; it may also lead to an array or group inside a hierarchy (ocean.zarr/forcing/wind,
/// ocean.h5/forcing/wind).
#[derive(Debug, Parser)]
#[command(name = "hyperslab", bin_name = "hyperslab", version, arg_required_else_help = true, after_help = EXIT_CODES, after_long_help = AFTER)]
pub(crate) struct Args {
    /// Which other files an HDF5 file may lead to (external links, external data, sources of
    /// virtual datasets): those in its directory or below, anywhere, or none (refuse).
    #[arg(long, global = true, value_name = "POLICY", value_parser = str::parse::<ExternalFiles>)]
    pub(crate) external_files: Option<ExternalFiles>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 error, 2 wrong usage, 3 copy --verify found a difference,
130 interrupted (143 by SIGTERM).";

const AFTER: &str = "\
Examples:
  hyperslab tree ocean.zarr                     what is in it
  hyperslab info ocean.zarr/sst                 all about one array
  hyperslab explain ocean.zarr/sst '0:2, 90'    how a slab of it would be read
  hyperslab copy ocean.nc new.zarr              Zarr v3 of it
  hyperslab index ocean.nc                      where its chunks are, for other readers
  hyperslab compact ocean.zarr                  give back what rewrites left in shards

Exit codes: 0 done, 1 error, 2 wrong usage, 3 copy --verify found a difference,
130 interrupted (143 by SIGTERM).
Colours are used on terminals only, and not if NO_COLOR is set.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Info(InfoArgs),
    Tree(TreeArgs),
    Explain(ExplainArgs),
    Copy(CopyArgs),
    Index(IndexArgs),
    Compact(CompactArgs),
}

/// Show all facts about an array or group.
///
/// Shape, element type, chunks, codecs, fill value, attributes; how many chunks are stored and how
/// large they are.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab info ocean.zarr/sst
  hyperslab info --json ocean.zarr/sst | jq .chunks")]
pub(crate) struct InfoArgs {
    /// An array or group.
    pub(crate) path: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the arrays and groups of a hierarchy.
///
/// For each array: shape, element type, shape of chunks (and of the shards that they lie in),
/// codecs, and the bytes that its chunks take on disk.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  hyperslab tree --depth 1 ocean.zarr")]
pub(crate) struct TreeArgs {
    /// A group or array.
    pub(crate) path: String,
    /// How many levels to show; all by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) depth: Option<u16>,
}

/// Show how a part of an array would be read or written.
///
/// Which chunks it touches, which bytes are read of which objects, and by which strategy: straight
/// into the result (read-into), only the wanted rows (read-rows), decoded straight into the result
/// (decode-into), decoded and scattered (decode-scatter), or filled (fill) because the chunk does
/// not exist. Chunks are looked up, not read.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
SELECTION is what stands between the brackets in NumPy: integers, slices with any step, an ellipsis. Quote it.

Examples:
  hyperslab explain ocean.zarr/sst                     all of it
  hyperslab explain ocean.zarr/sst '0, :, ::2'         the first step, every second column
  hyperslab explain 'ocean.zarr/sst[..., 5]'           in one word
  hyperslab explain ocean.zarr/sst '0:2, 90' --write   writing two rows")]
pub(crate) struct ExplainArgs {
    /// An array.
    pub(crate) path: String,
    /// Which part of it; everything by default.
    #[arg(allow_hyphen_values = true)]
    pub(crate) selection: Option<String>,
    /// Explain writing instead of reading.
    #[arg(long)]
    pub(crate) write: bool,
    /// List the first N chunks one by one.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) list: usize,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Copy an array or group, and all below it: to another format, other chunks, other codecs.
///
/// What is not chosen stays as in the source, in the words of the other format. A codec that the
/// other format does not have is refused by name; choose another. Chunks that the source does not
/// store are not stored in the copy.
///
/// The copy is made beside DST and takes its place in one step when it is complete: after an error,
/// Ctrl-C or a kill DST is as it was before, and there is no instant without it. What a killed copy
/// leaves beside DST is removed by the next copy to DST, and by compact.
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
  # back to Zarr v2, in place of what was there
  hyperslab copy new.zarr old.zarr --format v2 --overwrite

Exit codes: 0 done, 1 error, 2 wrong usage, 3 --verify found a difference,
130 interrupted (143 by SIGTERM). There is a copy only after 0.")]
pub(crate) struct CopyArgs {
    /// An array or group.
    #[arg(value_name = "SRC")]
    pub(crate) source: String,
    /// Where the copy goes; directories above it are made.
    #[arg(value_name = "DST")]
    pub(crate) destination: String,
    /// Chunk shape, for arrays with as many axes; -1 is all of an axis.
    #[arg(long, value_name = "N,N,…", value_parser = chunks, allow_hyphen_values = true)]
    pub(crate) chunks: Option<Chunks>,
    /// Shard shape, for arrays with as many axes: multiples of the chunks, -1 is all of an axis;
    /// auto: chosen by size; none: each chunk is an object of its own. By default as in the source.
    #[arg(long, value_name = "N,N,…", value_parser = shards, allow_hyphen_values = true)]
    pub(crate) shards: Option<Shards>,
    /// Compressor (see below).
    #[arg(long, visible_alias = "compressor", value_name = "CODEC", value_parser = str::parse::<Compressors>)]
    pub(crate) codec: Option<Compressors>,
    /// Order of the elements within chunks: C, last axis fastest, or F, first axis fastest.
    #[arg(long, value_enum, ignore_case = true)]
    pub(crate) order: Option<OrderArg>,
    /// Format of the copy.
    #[arg(long, visible_alias = "zarr-format", value_enum, default_value_t = FormatArg::V3)]
    pub(crate) format: FormatArg,
    /// About how much memory to use: 64MiB, 2G. At least a few chunks are needed.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "256MiB")]
    pub(crate) max_memory: u64,
    /// How many threads; all cores by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Read the copy back and compare every bit with the source.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Leave out arrays that the format of the copy cannot hold, or that cannot be read, and tell
    /// which; otherwise the first is an error, before anything is written.
    #[arg(long)]
    pub(crate) skip_unsupported: bool,
    /// Replace the array or group at DST, when the copy is complete.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Flush everything to the disk before the copy takes its place, so that it survives a power
    /// failure. HYPERSLAB_FSYNC=1 does the same.
    #[arg(long)]
    pub(crate) fsync: bool,
    /// No progress bar and no summary.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Write where the chunks of an HDF5 file are, so that others read them without HDF5.
///
/// As Zarr references (kerchunk's JSON, version 1), which fsspec and zarr-python read; or with
/// --json as a plain list of chunks for each dataset. A dataset that Zarr v2 with numcodecs'
/// filters cannot say is refused by name.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab index ocean.nc > ocean.json
  hyperslab index ocean.nc --url s3://bucket/ocean.nc -o ocean.json
  hyperslab index --json ocean.nc/sst | jq '.datasets[].chunks | length'")]
pub(crate) struct IndexArgs {
    /// An HDF5 file, or a group or dataset in one.
    pub(crate) path: String,
    /// What the file is called in references; by default its file:// URL.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Chunks of at most so many bytes are written into the references themselves.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "300")]
    pub(crate) inline: u64,
    /// A plain list for each dataset instead: place of the chunk, offset, bytes, filter mask.
    #[arg(long, conflicts_with_all = ["url", "inline", "skip_unsupported"])]
    pub(crate) json: bool,
    /// Leave out datasets that references cannot say, and tell which on standard error.
    #[arg(long)]
    pub(crate) skip_unsupported: bool,
    /// Write to this file.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<std::path::PathBuf>,
}

/// Give back the bytes of shards that rewriting chunks has left behind.
///
/// Where some chunks of a shard are written anew, the old ones may stay in its file until they are
/// more than what is in use. This rewrites such shards, one after the other; each is complete at
/// every instant. Arrays without shards have nothing to give back.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  hyperslab compact ocean.zarr                all arrays in it
  hyperslab compact --dry-run ocean.zarr/sst  how much there is to gain")]
pub(crate) struct CompactArgs {
    /// An array or group.
    pub(crate) path: String,
    /// Change nothing, only tell.
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}

impl CopyArgs {
    pub(crate) fn options(&self) -> copy::CopyOptions<'static> {
        copy::CopyOptions {
            chunks: self.chunks.as_ref().map(|chunks| chunks.0.clone()),
            shards: self.shards.clone().unwrap_or_default(),
            compressors: self.codec.clone(),
            order: self.order.map(|order| match order {
                OrderArg::C => Order::C,
                OrderArg::F => Order::F,
            }),
            format: Some(match self.format {
                FormatArg::V2 => Format::ZarrV2,
                FormatArg::V3 => Format::ZarrV3,
            }),
            threads: self.threads.map(usize::from),
            max_memory: self.max_memory,
            verify: self.verify,
            skip_unsupported: self.skip_unsupported,
            overwrite: self.overwrite,
            fsync: self.fsync || wants_fsync(),
            progress: None,
        }
    }
}

/// What the variable says that the Python package reads, too.
fn wants_fsync() -> bool {
    let text = std::env::var("HYPERSLAB_FSYNC").unwrap_or_default();
    matches!(text.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderArg {
    #[value(name = "C")]
    C,
    #[value(name = "F")]
    F,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// Zarr v2
    #[value(alias = "2")]
    V2,
    /// Zarr v3
    #[value(alias = "3")]
    V3,
}

/// A chunk shape; `None` is all of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunks(pub(crate) Vec<Option<u64>>);

fn chunks(text: &str) -> Result<Chunks, String> {
    let bare = text.trim().trim_start_matches(['(', '[']).trim_end_matches([')', ']', ',']);
    let axis = |part: &str| match part.trim() {
        "-1" => Ok(None),
        part => match part.parse::<u64>() {
            Ok(n) if n > 0 && i64::try_from(n).is_ok() => Ok(Some(n)),
            _ => Err(format!("{part:?} is neither a positive number nor -1 (all of the axis)")),
        },
    };
    bare.split(',').map(axis).collect::<Result<_, _>>().map(Chunks)
}

fn shards(text: &str) -> Result<Shards, String> {
    match text.trim() {
        "auto" => Ok(Shards::Auto),
        "none" => Ok(Shards::None),
        text => chunks(text).map(|shape| Shards::Shape(shape.0)),
    }
}

fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1048576.0,
        "g" | "gib" => 1073741824.0,
        "t" | "tib" => 1099511627776.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        other => return Err(format!("{other:?} is no unit; use KiB, MiB, GiB")),
    };
    let number: f64 = number.parse().map_err(|_| "expected a size such as 256MiB".to_owned())?;
    // Beyond the range, the cast gives the largest number: as good as no limit.
    Ok((number * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn chunk_shapes() {
        for (text, shape) in [
            ("1,256,256", vec![Some(1), Some(256), Some(256)]),
            ("(5, -1)", vec![Some(5), None]),
            ("[7]", vec![Some(7)]),
            ("7,", vec![Some(7)]),
        ] {
            assert_eq!(chunks(text), Ok(Chunks(shape)), "{text}");
        }
        for text in ["", "0", "1,,2", "-2", "x", "99999999999999999999"] {
            assert!(chunks(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shard_shapes() {
        for (text, wanted) in [
            ("auto", Shards::Auto),
            (" none", Shards::None),
            ("(64, -1)", Shards::Shape(vec![Some(64), None])),
        ] {
            assert_eq!(shards(text), Ok(wanted), "{text}");
        }
        assert!(shards("keep").is_err() && shards("0,1").is_err());
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("100", 100),
            ("64KiB", 65536),
            ("1M", 1 << 20),
            ("1.5 GiB", 3 << 29),
            ("2gb", 2_000_000_000),
            ("99999999T", u64::MAX),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "1 parsec", "1.2.3", "-5"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
