//! Arbitrary bytes read as the manifest of a data folder: nothing panics, hangs or takes memory without bound.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| feedrate_fuzz::MANIFEST.exercise(input));
