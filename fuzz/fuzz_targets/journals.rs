//! The journals of repairs and validations, which are read after a kill.

#![no_main]

use hyperslab::fuzzing::journals;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| journals(bytes));
