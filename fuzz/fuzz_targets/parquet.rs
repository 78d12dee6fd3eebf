//! Arbitrary bytes read as a Parquet file, footer and values: nothing panics, hangs or takes memory without bound.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| feedrate_fuzz::PARQUET.exercise(input));
