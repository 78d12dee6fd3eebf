//! Arbitrary bytes read as a JPEG image: nothing panics, hangs or takes memory without bound.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| feedrate_fuzz::JPEG.exercise(input));
