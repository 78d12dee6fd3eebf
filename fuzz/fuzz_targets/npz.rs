//! Arbitrary bytes read as an NPZ archive: nothing panics, hangs or takes memory without bound.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| feedrate_fuzz::NPZ.exercise(input));
