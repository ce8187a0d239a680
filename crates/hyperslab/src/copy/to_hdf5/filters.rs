//! Codecs as filters of HDF5.

use crate::Json;
use hyperslab_codec::{Codec, hdf5};
use hyperslab_hdf5::filter::Filter;
use std::sync::Arc;

const DEFLATE: u16 = 1;
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;
const SZIP: u16 = 4;
const SCALE_OFFSET: u16 = 6;
const BZIP2: u16 = 307;
const BLOSC: u16 = 32001;
const LZ4: u16 = 32004;
const ZSTD: u16 = 32015;

/// Filters up to this one are a part of HDF5. Others are plugins.
const LAST_OF_LIBRARY: u16 = 255;

/// Advice for a codec that HDF5 does not have.
const ADVICE: &str = "choose compressors: none, gzip, zstd, lz4 or blosc";

/// The filters that do what codecs do, given in the order of encoding. Fails (with text) with the
/// first codec that has no filter. `element` and `chunk`: bytes of an element, and of a chunk.
pub(super) fn of_codecs(
    codecs: &[Arc<dyn Codec>],
    element: usize,
    chunk: u64,
) -> Result<Vec<Filter>, String> {
    let filter = |codec: &Arc<dyn Codec>| {
        let json = codec.to_v2().as_ref().map(Json::from);
        let found = json.as_ref().and_then(|json| of_codec(json, element, chunk));
        found.ok_or_else(|| format!("HDF5 has no filter like the codec {:?}; {ADVICE}", codec.name()))
    };
    codecs.iter().map(filter).collect()
}

/// Returns `true` if programs need a plugin to read the chunks.
pub(super) fn needs_plugin(filters: &[Filter]) -> bool {
    filters.iter().any(|filter| filter.id > LAST_OF_LIBRARY)
}

/// The filter of a codec of numcodecs.
fn of_codec(json: &Json, element: usize, chunk: u64) -> Option<Filter> {
    let number = |name: &str, default: i64| json.get(name).and_then(Json::as_integer).unwrap_or(default);
    // Levels below zero are stored in two's complement.
    let level = |default| number("level", default) as i32 as u32;
    let filter = |id, client_data: Vec<u32>| {
        Some(Filter { id, name: name(id), optional: id != FLETCHER32, client_data })
    };
    match json.get("id")?.as_str()? {
        "zlib" | "gzip" => filter(DEFLATE, vec![u32::try_from(number("level", 1)).unwrap_or(6)]),
        "shuffle" => filter(SHUFFLE, vec![u32::try_from(number("elementsize", 4)).ok()?]),
        "fletcher32" => filter(FLETCHER32, Vec::new()),
        "bz2" => filter(BZIP2, vec![level(1)]),
        "zstd" => filter(ZSTD, vec![level(3)]),
        "lz4" => filter(LZ4, vec![0]),
        "blosc" => {
            let named = |compressor: &&hyperslab_codec::BloscCompressor| {
                Some(format!("{compressor:?}").to_ascii_lowercase().as_str())
                    == json.get("cname").and_then(Json::as_str)
            };
            let compressor = hdf5::BLOSC_COMPRESSORS.iter().position(|one| named(&one))?;
            let shuffle = match number("shuffle", 1) {
                -1 => {
                    if element == 1 {
                        2
                    } else {
                        1
                    }
                }
                shuffle => u32::try_from(shuffle).ok()?,
            };
            let level = u32::try_from(number("clevel", 5)).ok()?;
            filter(BLOSC, blosc(element, chunk, [level, shuffle, u32::try_from(compressor).ok()?]))
        }
        _ => None,
    }
}

/// The client data of blosc: its versions, the bytes of an element and of a chunk, its settings.
fn blosc(element: usize, chunk: u64, settings: [u32; 3]) -> Vec<u32> {
    let element = u32::try_from(element).ok().filter(|size| *size < 256).unwrap_or(1);
    let chunk = u32::try_from(chunk).unwrap_or(u32::MAX);
    [&[2, 2, element, chunk][..], &settings].concat()
}

/// The name that goes into the file.
fn name(id: u16) -> Option<String> {
    hdf5::name(id).map(str::to_owned)
}

/// The filters of an HDF5 source for a copy, which may have other chunks and other bytes per
/// element. Fails (with text) with the first filter that cannot encode.
pub(super) fn of_source(filters: &[Filter], element: usize, chunk: u64) -> Result<Vec<Filter>, String> {
    let filter = |filter: &Filter| {
        let mut filter = filter.clone();
        let bytes = u32::try_from(element).unwrap_or(1);
        match (filter.id, &filter.client_data[..]) {
            (id, _) if !hdf5::encodes(id) => {
                let name = name(id).unwrap_or_else(|| format!("{id}"));
                return Err(format!("filter {name:?} can be read, but not written; {ADVICE}"));
            }
            (SHUFFLE, _) => filter.client_data = vec![bytes],
            (SCALE_OFFSET, _) => {
                // The third number is the number of elements of a chunk.
                let elements = u32::try_from(chunk / u64::from(bytes.max(1))).unwrap_or(u32::MAX);
                if let Some(number) = filter.client_data.get_mut(2) {
                    *number = elements;
                }
            }
            (SZIP, &[options, block, bits, scanline]) => {
                if bits.next_multiple_of(8) != bytes.saturating_mul(8) {
                    return Err(format!(
                        "szip: expected elements of {bits} bits, found {bytes} bytes; {ADVICE}"
                    ));
                }
                // A scanline is not longer than a chunk.
                let elements = u32::try_from(chunk / u64::from(bytes.max(1))).unwrap_or(u32::MAX);
                filter.client_data = vec![options, block, bits, scanline.min(elements).max(1)];
            }
            (BLOSC, &[_, _, _, _, level, shuffle, compressor, ..]) => {
                filter.client_data = blosc(element, chunk, [level, shuffle, compressor]);
            }
            _ => {}
        }
        Ok(filter)
    };
    filters.iter().map(filter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::Compressors;

    fn filters(text: &str, element: usize) -> Result<Vec<(u16, Vec<u32>)>, String> {
        let codecs = text.parse::<Compressors>().unwrap().codecs(element).unwrap();
        let found = of_codecs(&codecs, element, 4096)?;
        Ok(found.into_iter().map(|filter| (filter.id, filter.client_data)).collect())
    }

    #[test]
    fn scale_offset_knows_the_length_of_chunks() {
        let filter =
            |data: Vec<u32>| Filter { id: SCALE_OFFSET, name: None, optional: true, client_data: data };
        let found = of_source(&[filter(vec![2, 0, 50, 0, 8, 1, 0])], 8, 80).unwrap();
        assert_eq!(found[0].client_data, [2, 0, 10, 0, 8, 1, 0]);
    }

    #[test]
    fn codecs_with_filters() {
        assert_eq!(filters("none", 4), Ok(vec![]));
        assert_eq!(filters("gzip:4", 4), Ok(vec![(1, vec![4])]));
        assert_eq!(filters("zlib:9", 4), Ok(vec![(1, vec![9])]));
        assert_eq!(filters("zstd:-5", 4), Ok(vec![(32015, vec![-5i32 as u32])]));
        assert_eq!(filters("lz4:3", 4), Ok(vec![(32004, vec![0])]));
        assert_eq!(filters("blosc", 4), Ok(vec![(32001, vec![2, 2, 4, 4096, 5, 1, 5])]));
        assert_eq!(filters("blosc:lz4hc:9:bitshuffle", 300), Ok(vec![(32001, vec![2, 2, 1, 4096, 9, 2, 2])]));
        assert_eq!(filters("blosc:blosclz", 1), Ok(vec![(32001, vec![2, 2, 1, 4096, 5, 2, 0])]));
        let several =
            r#"[{"id": "shuffle", "elementsize": 8}, {"id": "bz2", "level": 2}, {"id": "fletcher32"}]"#;
        assert_eq!(filters(several, 8), Ok(vec![(2, vec![8]), (307, vec![2]), (3, vec![])]));
        let why = filters(r#"{"id": "lzma"}"#, 4).unwrap_err();
        assert!(why.starts_with("HDF5 has no filter like the codec \"lzma\"; choose compressors"), "{why}");
    }

    #[test]
    fn filters_of_a_source() {
        let filter = |id, client_data: &[u32]| Filter {
            id,
            name: None,
            optional: true,
            client_data: client_data.to_vec(),
        };
        let found =
            of_source(&[filter(2, &[3]), filter(1, &[4]), filter(32001, &[2, 2, 3, 9, 7, 2, 1])], 4, 800)
                .unwrap();
        assert_eq!(found[0].client_data, [4]);
        assert_eq!(found[1].client_data, [4]);
        assert_eq!(found[2].client_data, [2, 2, 4, 800, 7, 2, 1]);
        let szip = |element, chunk| of_source(&[filter(4, &[141, 8, 32, 256])], element, chunk);
        assert_eq!(szip(4, 2000).unwrap()[0].client_data, [141, 8, 32, 256]);
        assert_eq!(szip(4, 800).unwrap()[0].client_data, [141, 8, 32, 200]);
        let why = szip(2, 800).unwrap_err();
        assert!(why.starts_with("szip: expected elements of 32 bits, found 2 bytes; choose"), "{why}");
        let why = of_source(&[filter(5, &[1, 2])], 4, 800).unwrap_err();
        assert!(why.starts_with("filter \"nbit\" can be read, but not written; choose"), "{why}");
    }
}
