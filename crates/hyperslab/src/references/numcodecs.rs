//! Translates HDF5's filters to codecs of numcodecs.

use crate::Json;
use crate::hdf5_array::filter_name;
use hyperslab_hdf5::filter::Filter;

/// The numcodecs codec that decodes a filter's output.
pub(super) fn numcodecs(filter: &Filter) -> Result<Json, String> {
    let number = |at: usize, absent: u32| Json::from(filter.client_data.get(at).copied().unwrap_or(absent));
    Ok(match filter.id {
        1 => Json::from([("id", "zlib".into()), ("level", number(0, 6))]),
        2 => Json::from([("id", "shuffle".into()), ("elementsize", number(0, 1))]),
        3 => Json::from([("id", "fletcher32".into())]),
        307 => Json::from([("id", "bz2".into()), ("level", number(0, 9))]),
        32001 => blosc(filter),
        32015 => Json::from([("id", "zstd".into()), ("level", number(0, 3))]),
        id => {
            return Err(format!("filter {id} ({}) has no equal in numcodecs", filter_name(filter)));
        }
    })
}

/// Chunks of Blosc describe themselves; these are the settings for new chunks.
fn blosc(filter: &Filter) -> Json {
    let number = |at: usize, absent: u32| filter.client_data.get(at).copied().unwrap_or(absent);
    let name = match number(6, 0) {
        1 => "lz4",
        2 => "lz4hc",
        3 => "snappy",
        4 => "zlib",
        5 => "zstd",
        _ => "blosclz",
    };
    Json::from([
        ("id", "blosc".into()),
        ("cname", name.into()),
        ("clevel", number(4, 5).into()),
        ("shuffle", number(5, 1).into()),
        ("blocksize", 0u32.into()),
    ])
}
