//! Arbitrary bytes read as an NPY array: nothing panics, hangs or takes memory without bound.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| feedrate_fuzz::NPY.exercise(input));
