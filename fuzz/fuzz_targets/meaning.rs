//! Attributes of CF and NetCDF: what elements mean. The first byte selects the element type.

#![no_main]

use hyperslab::meaning::{Decoding, Packing, ValueType};
use hyperslab::{DataType, Json};
use libfuzzer_sys::fuzz_target;

const TYPES: [&str; 11] = ["|i1", "|u1", "<i2", ">u2", "<i4", ">i8", "<u8", "<f2", "<f4", ">f8", "<M8[s]"];

fuzz_target!(|bytes: &[u8]| {
    let Some((first, text)) = bytes.split_first() else { return };
    let dtype: DataType = TYPES[usize::from(*first) % TYPES.len()].parse().expect("a type");
    let Ok(attributes) = Json::parse(text) else { return };
    let Ok(packing) = Packing::parse(&attributes, dtype, None) else { return };
    let Ok(decoding) = Decoding::parse(&attributes, dtype, packing, true) else { return };
    // Small, large and odd numbers.
    let mut stored = Vec::new();
    for byte in [0, 1, 0x7f, 0x80, 0xff, 0x3c] {
        stored.extend([byte; 8].into_iter().take(dtype.size()));
    }
    let numbers = decoding.numbers(&stored);
    match decoding.values {
        ValueType::Float(float) => {
            let mut values = vec![0; 6 * float.size()];
            decoding.unpack(&stored, &mut values).expect("floats");
        }
        ValueType::Times => drop(decoding.times(&stored)),
        _ => {}
    }
    decoding.mark_missing(&stored, &mut [0; 6]);
    if let Some(times) = &decoding.times {
        (0..numbers.len()).for_each(|at| drop(times.text(numbers.get(at))));
    }
    let mut packed = vec![0; stored.len()];
    let _ = decoding.pack(numbers.len(), &|at| numbers.get(at), &mut packed);
});
