//! Arguments of all commands, and parsers shared by several.

use clap::Parser;
use hyperslab::copy::Shards;
use hyperslab::settings::ExternalFiles;

/// Inspect chunked N-dimensional arrays, explain how they are read, and convert them.
///
/// Reads Zarr v2, Zarr v3 and HDF5 (NetCDF-4) on local disk. PATH is a directory, a file or a
/// file:// URL. It may also lead to an array or group inside a hierarchy (ocean.zarr/forcing/wind,
/// ocean.h5/forcing/wind).
#[derive(Debug, Parser)]
#[command(name = "hyperslab", bin_name = "hyperslab", version, arg_required_else_help = true, after_help = EXIT_CODES, after_long_help = AFTER)]
pub(crate) struct Args {
    /// Other files that an HDF5 file (external links, external data, sources of virtual datasets)
    /// or a document of references may use: files in its directory or below, anywhere, or none
    /// (refuse).
    #[arg(long, global = true, value_name = "POLICY", value_parser = str::parse::<ExternalFiles>)]
    pub(crate) external_files: Option<ExternalFiles>,
    /// Send no credentials: for public data on servers.
    #[arg(long, global = true)]
    pub(crate) anon: bool,
    /// An option of the server: credentials, endpoint_url, region and others, by the names of fsspec or
    /// obstore. May be given several times.
    #[arg(long, global = true, value_name = "KEY=VALUE", value_parser = storage_option)]
    pub(crate) storage_option: Vec<(String, String)>,
    /// The AWS profile to take credentials and settings from.
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 error (of diff, validate, hash --check: a difference or a finding), 2 wrong
usage (of these three: also errors), 3 copy --verify found a difference, 130 interrupted (143 by SIGTERM).";

const AFTER: &str = "\
Examples:
  hyperslab tree ocean.zarr                     what is in it
  hyperslab info ocean.zarr/sst                 all about one array
  hyperslab dump ocean.nc                       its header, as ncdump -h
  hyperslab show ocean.zarr/sst '0, 10:14'      values; --picture draws them
  hyperslab explain ocean.zarr/sst '0:2, 90'    how a slab of it would be read
  hyperslab stats ocean.zarr                    smallest, largest, mean of its arrays
  hyperslab advise ocean.zarr/sst --access map  which chunks would suit
  hyperslab copy ocean.nc new.zarr              Zarr v3 of it
  hyperslab diff run1.nc run2.nc                what differs, and where
  hyperslab index ocean.nc                      where its chunks are, for other readers
  hyperslab hash ocean.nc new.zarr              one hash if values and attributes are equal
  hyperslab compact ocean.h5                    give back what deleted data left in it
  hyperslab validate --decode ocean.zarr        what is damaged or lost
  hyperslab repair --dry-run run.h5             what a killed program left
  hyperslab serve data/                         all below it over HTTP, as Zarr

Exit codes: 0 done, 1 error (of diff, validate, hash --check: a difference or a finding), 2 wrong
usage (of these three: also errors), 3 copy --verify found a difference, 130 interrupted (143 by SIGTERM).
Colours are used on terminals only, and not if NO_COLOR is set.";

/// Chunks. `None` means all of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chunks {
    /// A shape.
    Shape(Vec<Option<u64>>),
    /// Lengths by dimension.
    Named(Vec<(String, Option<u64>)>),
}

pub(crate) fn chunks(text: &str) -> Result<Chunks, String> {
    let bare = text.trim().trim_start_matches(['(', '[']).trim_end_matches([')', ']', ',']);
    if bare.contains('=') {
        let named = |part: &str| {
            let (name, len) = part.split_once('=').ok_or_else(|| format!("{part:?}: expected NAME=N"))?;
            Ok((name.trim().to_owned(), axis(len)?))
        };
        return bare.split(',').map(named).collect::<Result<_, String>>().map(Chunks::Named);
    }
    bare.split(',').map(axis).collect::<Result<_, _>>().map(Chunks::Shape)
}

/// A length, or -1 for all of an axis.
fn axis(part: &str) -> Result<Option<u64>, String> {
    match part.trim() {
        "-1" => Ok(None),
        part => match part.parse::<u64>() {
            Ok(n) if n > 0 && i64::try_from(n).is_ok() => Ok(Some(n)),
            _ => Err(format!("{part:?} is neither a positive number nor -1 (all of the axis)")),
        },
    }
}

/// `KEY=VALUE`. Messages never show the value.
fn storage_option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE, as endpoint_url=http://localhost:9000".into()),
    }
}

pub(crate) fn shards(text: &str) -> Result<Shards, String> {
    match text.trim() {
        "auto" => Ok(Shards::Auto),
        "none" => Ok(Shards::None),
        text => match chunks(text)? {
            Chunks::Shape(shape) => Ok(Shards::Shape(shape)),
            Chunks::Named(_) => Err("expected a shape, as 64,-1,-1".into()),
        },
    }
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
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
    // A cast of a larger number gives the largest `u64`: as good as no limit.
    Ok((number * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_shapes() {
        for (text, shape) in [
            ("1,256,256", vec![Some(1), Some(256), Some(256)]),
            ("(5, -1)", vec![Some(5), None]),
            ("[7]", vec![Some(7)]),
            ("7,", vec![Some(7)]),
        ] {
            assert_eq!(chunks(text), Ok(Chunks::Shape(shape)), "{text}");
        }
        let named = vec![("time".to_owned(), Some(24)), ("lat".to_owned(), None)];
        assert_eq!(chunks("time=24, lat=-1"), Ok(Chunks::Named(named)));
        assert!(chunks("time=24,5").is_err() && chunks("time=0").is_err());
        assert!(shards("time=24").is_err());
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
