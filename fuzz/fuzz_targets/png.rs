//! Arbitrary bytes read as a PNG image: nothing panics, hangs or takes memory without bound.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| feedrate_fuzz::PNG.exercise(input));
