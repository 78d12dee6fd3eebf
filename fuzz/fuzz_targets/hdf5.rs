//! Arbitrary bytes read as an HDF5 file: nothing panics, hangs or takes memory without bound.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| feedrate_fuzz::HDF5.exercise(input));
