//! Structures of HDF5, each as bytes alone. The first byte selects the structure.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hyperslab::hdf5::fuzzing::parse_anything(bytes));
